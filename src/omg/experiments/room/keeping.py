"""What a measured pool keeps: `POOL/room/responses/<partner>` are ordinary agent folders, `POOL/room/*.csv` the tables.

Beside each agent lies a note of what it was trained for and how, `<partner>.json`. It is written after the agent and
holds the checksum of its weights, so that whatever a killed process leaves behind is either whole or made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from omg.components.files import checksum, digest_of, read_json, whole_folder, write_json
from omg.components.headers import DamagedFileError
from omg.config import Config, change_config
from omg.controllers.base import Player
from omg.envs import EnvSpec
from omg.errors import UserError, unknown_name
from omg.names import check_links, file_name, inside
from omg.pools import Agent, AgentCard, Pool, load_agent, save_agent
from omg.pools.bundles import WEIGHTS
from omg.runners.vector import OWN_RETURN
from omg.types import Json

ROOM, RESPONSES, PARTS = "room", "responses", "parts"
"""Folders: of all that was measured, in it of the agents, and of the cells of the response matrix."""
ROOM_FILE, RESPONSES_FILE, TRAINED_FILE, TOLD_FILE = "room.csv", "responses.csv", "trained.csv", "told_apart.csv"
TABLE_FILES = (ROOM_FILE, RESPONSES_FILE, TRAINED_FILE, TOLD_FILE)
_Finite = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class ResponseNote:
    """What is known of a kept response."""

    partner: str
    fingerprint: str
    """Of the partner, the game and the settings."""
    sha256: str
    """Of its weights."""
    restarts: Annotated[int, Field(ge=1)]
    steps: Annotated[int, Field(ge=0)]
    """Each restart was trained for."""
    budget: Annotated[int, Field(ge=0)]
    """Steps that were allowed."""
    metric: str
    mean: _Finite
    """Of its best test."""
    error: _Finite
    flat: bool

    def suffices(self, fingerprint: str, budget: int, restarts: int) -> bool:
        """Whether nothing would be gained by training again with that budget; without one, what fits is used."""
        enough = self.restarts >= restarts and (self.flat or self.budget >= budget)
        return self.fingerprint == fingerprint and (enough or not budget)


_NOTE = TypeAdapter(ResponseNote)


def room_metric(spec: EnvSpec, metric: str | None) -> str:
    """The metric of a room: as given, or the one that says what a seat gains."""
    return metric or (OWN_RETURN if spec.reward_per_agent else spec.success_metric)


def checked_metric(spec: EnvSpec, metric: str | None) -> str:
    """The same, if more of it is better.

    Raises:
        UserError: the game has no such metric.
    """
    found = room_metric(spec, metric)
    known = list(dict.fromkeys((*([OWN_RETURN] if spec.reward_per_agent else []), *spec.metrics, "return")))
    if found not in known:
        raise unknown_name("metric", found, known)
    return found


class KeptResponse:
    """A trained response as it lies in a pool."""

    def __init__(self, note: ResponseNote, folder: Path) -> None:
        self.note, self.folder = note, folder

    def load(self) -> Agent:
        """The agent.

        Raises:
            UserError: its folder is damaged.
        """
        return load_agent(self.folder)


def room_folder(pool: Pool) -> Path:
    """Where a pool keeps what was measured.

    Raises:
        UserError: it leads out of the pool.
    """
    folder = inside(pool.path, pool.path / ROOM)
    check_links(folder)
    return folder


def folder_name(team: str) -> str:
    """What the folder of a response to a team is called: the member's name where one has all seats, else the team's.

    Teams of many are called `team-` and a digest where their names are too long for a file.
    """
    count, _, member = team.partition("x")
    plain = (member if count.isdecimal() and "+" not in team else team).replace("#", "-")
    try:
        return file_name("partner", plain)
    except UserError:
        return f"team-{digest_of(team)[:16]}"


def find_response(pool: Pool, team: str) -> KeptResponse | None:
    """The response that a pool keeps for a team; None where there is none, or it is not whole."""
    name = folder_name(team)
    folder = whole_folder(room_folder(pool) / RESPONSES / name)
    try:
        note = _NOTE.validate_python(read_json(folder.with_name(f"{name}.json")))
        whole = note.partner == team and checksum(folder / WEIGHTS) == note.sha256
    except (OSError, DamagedFileError, ValidationError):
        return None
    return KeptResponse(note, folder) if whole else None


def keep_response(
    pool: Pool, note: ResponseNote, player: Player, config: Config, spec: EnvSpec, seed: int
) -> KeptResponse:
    """Writes a response and its note; the checksum in `note` is filled in.

    Raises:
        UserError: the disk does not take it.
    """
    folder = room_folder(pool) / RESPONSES / folder_name(note.partner)
    # Where the pool lies now is no part of the agent.
    stored = change_config(config, init_param_path=None).model_dump()
    results = {f"test_{note.metric}_mean": note.mean}
    save_agent(folder, player, AgentCard(config.train_alg or config.name, seed, note.steps, stored, spec, results))
    note = ResponseNote(**{**asdict(note), "sha256": checksum(folder / WEIGHTS)})
    try:
        write_json(folder.with_name(f"{folder.name}.json"), asdict(note))
    except OSError as error:
        raise UserError(f"{folder} cannot be noted: {error.strerror or error}.") from None
    return KeptResponse(note, folder)


def member_identity(pool: Pool, name: str) -> str:
    """What a member is, whatever it is called: the checksum of its weights, or its script."""
    member = pool.member(name)
    return f"script:{member.algorithm}" if member.kind == "scripted" else f"{member.sha256}"


def response_fingerprint(pool: Pool, mates: Sequence[str], config: Config) -> str:
    """Changes with the team-mates, the game and the settings; how long and how often was trained is not in it."""
    settings: Mapping[str, Json] = change_config(config, init_param_path=None).model_dump(mode="json")
    usual: Mapping[str, Json] = Config().model_dump(mode="json")
    return digest_of(
        {
            "mates": [member_identity(pool, name) for name in mates],
            "game": [pool.env, pool.env_args],
            # A key that is new in a later version, and asks for nothing, must not make a response another one.
            "settings": {
                key: value for key, value in settings.items() if key not in _NO_MATTER and value != usual.get(key)
            },
        }
    )[:24]


_NO_MATTER = ("use_cuda", "devices", "use_tensorboard", "tracker", "local_results_path")
"""Settings that change nothing in a response."""
