"""A pool: a folder of players that fit one game, divided into sets that share nobody.

`POOL/pool.json` is the index, `POOL/members/<name>/` an ordinary agent folder, complete by itself. Scripted members
are an entry of the index only. The index is always written whole; whoever changes it holds the pool's lock and reads
it again first, so that processes which add at the same time do not lose each other's members.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from omg.components.files import checksum, new_folder, whole_folder
from omg.controllers.scripted import build_scripted, check_script
from omg.envs import Env, EnvSpec, make_stored_env
from omg.errors import UserError, unknown_name
from omg.names import check_links, file_name, inside
from omg.pools.bundles import WEIGHTS, read_card
from omg.pools.cards import CARD, AgentCard, find_agent
from omg.pools.members import (
    INDEX,
    SETS,
    Member,
    PoolIndex,
    Standing,
    check_game,
    check_rules,
    known_set,
    read_index,
    write_index,
)
from omg.types import Tree

if TYPE_CHECKING:
    from omg.controllers.scripted.base import ScriptedPlayer
    from omg.pools.agents import Agent

__all__ = ["INDEX", "SETS", "Member", "Pool", "Standing"]

try:
    import fcntl
except ImportError:  # Windows: two processes that change one pool at the same moment are not kept apart there.
    fcntl = None  # type: ignore[assignment]

MEMBERS = "members"


class Pool:
    """An opened pool; `members`, `load` and `check` answer from the index as it was when opened or last changed."""

    def __init__(self, path: Path, index: PoolIndex) -> None:
        self.path = path
        self._index = index

    @staticmethod
    def create(path: str | Path, env: str, env_args: Tree, spec: EnvSpec) -> Pool:
        """Makes a new, empty pool for a game.

        Raises:
            UserError: the folder holds something already, or cannot be written.
        """
        path = Path(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with _locked(path):
                found = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
                if found:
                    reason = "there is a pool already" if INDEX in found else f"it is not empty (it holds {found[0]})"
                    raise UserError(f"{path}: cannot make a pool here: {reason}.")
                index = PoolIndex(env, dict(env_args), spec, ())
                write_index(path, index)
        except OSError as error:
            raise UserError(f"{path}: cannot make a pool here: {error.strerror or error}.") from None
        return Pool(path, index)

    @staticmethod
    def open(path: str | Path) -> Pool:
        """Opens a pool and checks its index; `check` also looks at the members' files.

        Raises:
            UserError: there is no pool, or its index is damaged or breaks a rule of pools.
        """
        path = Path(path)
        return Pool(path, read_index(path))

    @property
    def env(self) -> str:
        """Name of the game."""
        return self._index.env

    @property
    def env_args(self) -> Tree:
        """Options of the game."""
        return dict(self._index.env_args)

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the game."""
        return self._index.spec

    @property
    def where(self) -> str:
        """The game in words: `sc2 8m`."""
        return f"{self.env} {self.spec.scenario}"

    @property
    def obs_is_state(self) -> bool | None:
        """What the learned members see; None while there are none."""
        return next((member.obs_is_state for member in self._index.members if member.kind == "learned"), None)

    def __len__(self) -> int:
        return len(self._index.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._index.members)

    def members(self, set: str | None = None, algorithm: str | None = None) -> list[Member]:
        """The members of a set, of an algorithm or script, or both; all of them by default.

        Raises:
            UserError: there is no such set, or nobody in it.
        """
        if set is not None and set not in SETS:
            raise unknown_name("set", set, SETS)
        found = [
            member
            for member in self._index.members
            if set in (None, member.set) and algorithm in (None, member.algorithm)
        ]
        if not found and (set is not None or algorithm is not None):
            whose = f" of {algorithm}" if algorithm is not None else ""
            which = f" in the set '{set}'" if set is not None else ""
            raise UserError(f"{self.path}: the pool has no members{whose}{which}. It has: {self._contents()}.")
        return found

    def member(self, name: str) -> Member:
        """The member of that name."""
        for member in self._index.members:
            if member.name == name:
                return member
        if not self._index.members:
            raise UserError(f"{self.path}: there is no member '{name}', the pool is empty.")
        raise unknown_name(f"member of {self.path}", name, (member.name for member in self._index.members))

    def folder(self, name: str) -> Path:
        """The agent folder of a learned member."""
        return inside(self.path, whole_folder(self.path / MEMBERS / file_name("member", name)))

    def load(self, name: str) -> Agent | ScriptedPlayer:
        """A member, ready to play: an `Agent`, or a scripted player built for the pool's game.

        Raises:
            UserError: no such member, or its folder is gone or damaged.
        """
        member = self.member(name)
        if member.kind == "scripted":
            return build_scripted(member.algorithm, self.make_env())
        from omg.pools.agents import load_agent  # Not above: whoever lists members does not wait for JAX.

        self._check_folder(member)
        return load_agent(self.folder(name))

    def make_env(self) -> Env:
        """The pool's game.

        Raises:
            UserError: only the user may open it, or it is of other sizes than the index says.
        """
        env = make_stored_env(self.path / INDEX, self.env, self.env_args)
        check_game(f"{self.path / INDEX} is damaged: its spec", vars(self.spec), env.spec, "its env_args give")
        return env

    def check(self) -> None:
        """Verifies what can be verified without opening the game: the rules, and the files of every member.

        Raises:
            UserError: names the first member with which something is wrong.
        """
        check_rules(self.path, self._index)
        for member in self._index.members:
            if member.kind == "scripted":
                check_script(member.algorithm, self.env)
            else:
                self._check_folder(member)

    def add(self, agent: str | Path, set: str, *, name: str | None = None, measured: Standing | None = None) -> Member:
        """Copies an agent folder (or the best agent of a run folder) into the pool.

        Args:
            agent: the folder; it is only read.
            set: `training`, `validation` or `heldout`.
            name: name in the pool; `<algorithm>_s<seed>` by default.
            measured: how good it is.

        Raises:
            UserError: the agent is damaged or does not fit the pool, or somebody in the pool is too much like it.
        """
        from omg.pools.agents import load_agent

        folder = find_agent(Path(agent))
        check_links(folder)
        loaded = load_agent(folder)
        loaded.check_untold()
        digest, card_digest = checksum(folder / WEIGHTS), checksum(folder / CARD)
        card, spec = loaded.card, loaded.spec
        check_game(f"{folder}: the agent was made for", vars(spec), self.spec, f"the pool {self.path} is for")
        member = Member(
            name=name or f"{card.algorithm}_s{card.seed}",
            kind="learned",
            algorithm=card.algorithm,
            seed=card.seed,
            set=known_set(set),
            env=spec.name,
            scenario=spec.scenario,
            obs_is_state=loaded.config.obs_is_state,
            steps=card.t_env,
            measured=measured,
            sha256=digest,
            card_sha256=card_digest,
        )

        def copy() -> None:
            with new_folder(inside(self.path, self.path / MEMBERS / member.name)) as staging:
                shutil.copytree(folder, staging, dirs_exist_ok=True)
                _bring_to_disk(staging)
                if (checksum(staging / WEIGHTS), checksum(staging / CARD)) != (digest, card_digest):
                    raise UserError(f"{folder} was changed while it was copied; try again.")

        return self._put(member, copy)

    def add_scripted(self, script: str, set: str, *, measured: Standing | None = None) -> Member:
        """Adds a scripted player under the name of its script.

        Raises:
            UserError: there is no such script for the pool's game, or it is a member already.
        """
        build_scripted(script, self.make_env())
        return self._put(
            Member(
                name=script,
                kind="scripted",
                algorithm=script,
                seed=None,
                set=known_set(set),
                env=self.env,
                scenario=self.spec.scenario,
                obs_is_state=None,
                steps=0,
                measured=measured,
                sha256=None,
            )
        )

    def _put(self, member: Member, prepare: Callable[[], None] | None = None) -> Member:
        """Adds an entry under the lock, after `prepare` has put its files there."""
        try:
            with _locked(self.path):
                current = read_index(self.path)
                grown = PoolIndex(current.env, current.env_args, current.spec, (*current.members, member))
                check_rules(self.path, grown)
                if prepare is not None:
                    prepare()
                write_index(self.path, grown)
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{self.path}: the member '{member.name}' cannot be written: {reason}.") from None
        self._index = grown
        return member

    def _check_folder(self, member: Member) -> None:
        """Refuses a member whose files are gone or are not those that were added."""
        folder = self.folder(member.name)
        check_links(folder)
        if not folder.is_dir():
            raise UserError(f"{self.path}: the folder of the member '{member.name}' is gone ({folder}).")
        weights = folder / WEIGHTS
        if not weights.is_file() or checksum(weights) != member.sha256:
            raise UserError(
                f"{self.path}: the member '{member.name}' is damaged: {weights} is not what was added to the pool."
            )
        card_file = folder / CARD
        if member.card_sha256 is not None and (not card_file.is_file() or checksum(card_file) != member.card_sha256):
            raise UserError(
                f"{self.path}: the member '{member.name}' is damaged: {card_file} is not what was added to the pool."
            )
        try:
            card, _ = read_card(card_file, AgentCard)
        except UserError as error:
            raise UserError(f"{self.path}: the member '{member.name}' is damaged: {error}") from None
        origin = card.algorithm, card.seed
        if origin != (member.algorithm, member.seed):
            raise UserError(
                f"{self.path}: the member '{member.name}' is damaged: the index says {member.algorithm} seed "
                f"{member.seed}, its folder {origin[0]} seed {origin[1]}."
            )

    def _contents(self) -> str:
        counts = Counter((member.set, member.algorithm) for member in self._index.members)
        return ", ".join(f"{set} {algorithm}={count}" for (set, algorithm), count in counts.items()) or "nobody"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits for the pool's lock; the system lets go of it however the process ends."""
    with inside(path, path / ".lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _bring_to_disk(folder: Path) -> None:
    """Copied files may still be in memory only; `new_folder` takes care of the folder's own entries."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
