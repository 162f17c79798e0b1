"""Training a pool: one program per algorithm for all its seeds, then fresh episodes to measure every member.

The seeds of an algorithm are divided among the sets in order (training, validation, held-out), so sets never share a
run. Everything can be interrupted: runs are kept inside the pool's folder and resumed, members that are in the index
are not trained again.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rich.console import Console

from omg.components.files import new_folder
from omg.config import Config, Resolved, adjust, known_algorithm, refuse_shared, resolve
from omg.config.algorithms import is_algorithm
from omg.config.layers import leaves
from omg.config.overrides import assignments
from omg.controllers.base import Policy
from omg.controllers.scripted import build_scripted
from omg.envs import Env, make_env
from omg.errors import UserError, abridged, unknown_name
from omg.evaluation import play_team
from omg.experiments.runs import finish, finish_all, known_runs
from omg.launchers import Launcher, LauncherSettings, Needs, Site, opened
from omg.names import check_links, inert
from omg.pools import PRIOR_FOLDERS, Agent, AgentCard, is_pool, load_agent, read_agent_card
from omg.pools.index import INDEX, SETS, Member, Pool, Standing
from omg.tracking import RunFolder
from omg.training.device import prepare

Overrides = Sequence[str] | Mapping[str, object]
Which = Literal["best", "last"]

RUNS = "runs"
MOST_MEMBERS = 10_000
"""Of an algorithm in a set: the most seeds of one run."""
MEASURE_SEED = 0x5EED
"""Of the games in which members are measured: the same for all of them, so that they can be compared."""
_OWN_KEYS = {
    "name": "members are named after their algorithm",
    "seeds": "the numbers of members say how many",
    "local_results_path": "runs are kept inside the pool",
    "save_model": "agents must be saved",
}
_FREE_KEYS = ("use_cuda", "devices", "local_results_path")
"""Settings in which a run that is continued may differ: the machine and the place can be others."""


def train_pool(
    folder: str | Path,
    counts: Mapping[str, Mapping[str, int]],
    env_config: str | None = None,
    overrides: Overrides = (),
    *,
    scripted: Mapping[str, str] | None = None,
    which: Which = "best",
    episodes: int = 256,
    console: Console | None = None,
    quiet: bool = False,
    jobs: int = 1,
    launcher: LauncherSettings | Launcher | None = None,
    needs: Needs | None = None,
) -> Pool:
    """Trains what a pool still lacks, measures it and adds it.

    Args:
        folder: of the pool; made if it is not there.
        counts: set -> algorithm, or the path of its file -> number of members, e.g. `{"training": {"iql": 4},
            "heldout": {"iql": 10}}`.
        env_config: environment configuration, e.g. `sc2`.
        overrides: settings of all runs as in `omg.config.resolve`; `seed` is the first seed of every algorithm.
        scripted: script -> set, e.g. `{"random": "heldout"}`.
        which: whether the `best` or the `last` agent of a seed becomes the member.
        episodes: number of greedy episodes in which each member is measured, in all seats, after training.
        console: where to print.
        quiet: no output on the screen.
        jobs: algorithms that are trained at once, each in a process of its own; 1 trains them here, one by one.
        launcher: who trains them instead, e.g. a cluster's machines: settings, or a launcher of a folder around this.
        needs: what a cluster's machine is to give each training.

    Returns:
        The pool with all these members.

    Raises:
        UserError: the settings cannot be used, or contradict what is in the pool already.
        Stopped: after a signal, when the run has been saved; the same call continues it.
    """
    counts = {name: _by_name(name, numbers) for name, numbers in counts.items()}
    _check_request(counts, scripted or {}, which, episodes)
    folder = Path(folder)
    if is_pool(folder):
        check_links(folder)
    screen = Console(quiet=True) if quiet else console or Console()
    sets = _sets_by_algorithm(counts)
    configs = _configurations(folder, sets, env_config, overrides)
    game = (
        next(iter(configs.values()), None) or resolve(None, env_config, overrides, shared=assignments(overrides)).config
    )
    env = make_env(game.env, **game.env_args)
    for script in scripted or {}:
        build_scripted(script, env)
    pool = _open_or_create(folder, game, env)
    _check_inputs(pool, configs)
    missing = {algorithm: _missing(pool, config, sets[algorithm]) for algorithm, config in configs.items()}
    prepare(game.use_cuda)
    ahead = {algorithm: configs[algorithm] for algorithm, seats in missing.items() if seats}
    for config in ahead.values():
        _check_run(config)
    with _told_how_to_continue(pool, screen):
        _finish_ahead(ahead, folder, LauncherSettings(jobs=jobs) if launcher is None else launcher, needs, screen)
    for algorithm, seats in missing.items():
        if seats:
            run = _finished_run(pool, configs[algorithm], screen, quiet)
            for seed, chosen in seats.items():
                _add_trained(pool, run, seed, chosen, which, env, episodes, screen)
        else:
            say_on(screen, f"{algorithm}: all {len(sets[algorithm])} members are in the pool")
    for script, chosen in (scripted or {}).items():
        _add_scripted(pool, script, chosen, game, env, episodes, screen)
    return pool


def _finish_ahead(
    configs: Mapping[str, Config],
    folder: Path,
    launcher: LauncherSettings | Launcher,
    needs: Needs | None,
    screen: Console,
) -> None:
    """Trains in processes of their own what is to be trained there; what is left is trained here, one by one."""
    if not isinstance(launcher, LauncherSettings):
        if launcher.at_once:
            finish_all(configs, launcher, label=f"{folder.name} {{}}", needs=needs)
        return
    if not launcher.at_once or not configs:
        return
    place = folder.resolve()
    site = Site(place, place / RUNS / "logs", place / RUNS / "leases", lambda line: say_on(screen, line))
    with opened(launcher, site) as opened_launcher:
        finish_all(configs, opened_launcher, needs=needs)


def copy_pool(source: Path, target: Path, *, prior: bool) -> None:
    """Copies a pool's members and index; its prior only where that is wanted, the runs it came from never.

    Raises:
        UserError: there is no pool, or it has links that lead out of it.
    """
    Pool.open(source)
    check_links(source)
    left_out = [RUNS, ".lock", *(() if prior else PRIOR_FOLDERS.values())]
    with new_folder(target) as staging:
        shutil.copytree(
            source, staging, dirs_exist_ok=True, ignore=lambda where, _: left_out if Path(where) == source else ()
        )


def measure(agent: Agent, episodes: int, seed: int = MEASURE_SEED) -> Standing:
    """Plays an agent greedily in all seats of its game: mean and 95 % interval of the game's success metric."""
    metric = agent.spec.success_metric
    row = next(row for row in play_team(agent, episodes, seed) if row["metric"] == metric)
    return Standing(metric, row["mean"], row["low"], row["high"], episodes)


def changed_settings(pool: Pool, name: str) -> list[tuple[str, object, object]]:
    """Where a learned member's configuration differs from what its algorithm has by default in the pool's game.

    Returns:
        Key, the member's value and the default, for every key that differs.
    """
    if pool.member(name).kind != "learned":
        return []
    card, config = read_agent_card(pool.folder(name))
    algorithm = card.algorithm if is_algorithm(card.algorithm) else None
    default = dict(leaves(resolve(algorithm, pool.env, open_games="none").config.model_dump()))
    values = dict(leaves(config.model_dump()))
    return [(key, values.get(key), default.get(key)) for key in values if values[key] != default.get(key)]


def _by_name(set_name: str, numbers: Mapping[str, int]) -> dict[str, int]:
    """Numbers of members by the names of their algorithms, which may be given by the paths of their files."""
    words = {word: known_algorithm(word, f"algorithm in the set {set_name}:") for word in numbers}
    if len(set(words.values())) < len(words):
        raise UserError(f"{set_name}: an algorithm is named twice, by its name and by its file: {', '.join(words)}.")
    return {words[word]: number for word, number in numbers.items()}


def _check_request(
    counts: Mapping[str, Mapping[str, int]], scripted: Mapping[str, str], which: str, episodes: int
) -> None:
    for name in (*counts, *scripted.values()):
        if name not in SETS:
            raise unknown_name("set", name, SETS)
    for name, numbers in counts.items():
        for algorithm, number in numbers.items():
            if not 1 <= number <= MOST_MEMBERS:
                raise UserError(f"{name}: got {algorithm}={abridged(number)}, allowed: 1 to {MOST_MEMBERS}.")
    if not any(counts.values()) and not scripted:
        raise UserError("The pool would be empty. Give numbers of members, e.g. --training iql=4,vdn=3.")
    if which not in ("best", "last"):
        raise unknown_name("kind of agent (which)", which, ("best", "last"))
    if episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")


def _sets_by_algorithm(counts: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Algorithm -> the set of each of its seeds, in the order of the seeds."""
    sets: dict[str, list[str]] = {}
    for name in SETS:
        for algorithm, number in counts.get(name, {}).items():
            sets.setdefault(algorithm, []).extend([name] * number)
    return sets


def _configurations(
    folder: Path, sets: Mapping[str, Sequence[str]], env_config: str | None, overrides: Overrides
) -> dict[str, Config]:
    """One run per algorithm, for all its seeds."""
    settings = assignments(overrides)
    for key, reason in _OWN_KEYS.items():
        if key in settings:
            raise UserError(f"{key}: cannot be set for a pool ({reason}).")
    found: dict[str, Resolved] = {}
    for algorithm, members in sets.items():
        own = {"seeds": len(members), "local_results_path": str(folder / RUNS / algorithm)}
        found[algorithm] = resolve(algorithm, env_config, {**settings, **own}, shared={*settings, *own})
        _adjusted(found[algorithm].config)
    refuse_shared(settings, list(found.values()))
    return {algorithm: one.config for algorithm, one in found.items()}


def _adjusted(config: Config) -> Config:
    """The configuration as a run stores it; refuses what no run would take."""
    return adjust(config, prepare(config.use_cuda))[0]


def _open_or_create(folder: Path, game: Config, env: Env) -> Pool:
    if not (folder / INDEX).exists():
        return Pool.create(folder, game.env, game.env_args, env.spec)
    pool = Pool.open(folder)
    pool.check()
    if pool.spec != env.spec:
        raise UserError(
            f"{folder}: the pool is for {pool.where}, but the settings give {env.spec.name} {env.spec.scenario}. "
            f"Train into another folder, or leave the game as it is."
        )
    differing = [key for key, value in game.env_args.items() if pool.env_args.get(key) != value]
    if differing:
        key = differing[0]
        raise UserError(
            f"{folder}: env_args.{key}: got {game.env_args[key]!r}, but the pool has {pool.env_args.get(key)!r}."
        )
    return pool


def _check_inputs(pool: Pool, configs: Mapping[str, Config]) -> None:
    """Refuses before hours of training what the pool would refuse after them."""
    inputs = {f"the pool {pool.path}": pool.obs_is_state} if pool.obs_is_state is not None else {}
    inputs |= {algorithm: config.obs_is_state for algorithm, config in configs.items()}
    (first, expected), *others = inputs.items() or [("", None)]
    for name, value in others:
        if value != expected:
            raise UserError(
                f"obs_is_state: got {value} for {name}, but {first} has {expected}; a pool has one of the two."
            )


def _missing(pool: Pool, config: Config, sets: Sequence[str]) -> dict[int, str]:
    """Seed -> set of the members that are still to be added; refuses a pool that was begun in another way."""
    wanted = {config.seed + index: name for index, name in enumerate(sets)}
    there = [member for member in pool if member.kind == "learned" and member.algorithm == config.name]
    for member in there:
        if wanted.get(_seed(member)) != member.set:
            raise UserError(
                f"{pool.path}: {config.name} was begun as {_shown(member.set for member in there)} with seeds from "
                f"{min(map(_seed, there))}, but asked for is {_shown(sets)} with seeds from {config.seed}. Ask for the "
                f"same, or use another folder."
            )
    if there:
        agent = load_agent(pool.folder(there[0].name))
        _check_settings(config, agent.config, f"the member {there[0].name} was trained with")
    present = {_seed(member) for member in there}
    return {seed: name for seed, name in wanted.items() if seed not in present}


def _seed(member: Member) -> int:
    assert member.seed is not None
    return member.seed


def _shown(sets: Iterable[str]) -> str:
    return ", ".join(f"{name}={number}" for name, number in Counter(sets).items())


def _check_settings(config: Config, stored: Config, whose: str) -> None:
    """Refuses to go on with other settings than those a run was begun with."""
    old = dict(leaves(stored.model_dump()))
    for key, value in leaves(_adjusted(config).model_dump()):
        if key not in _FREE_KEYS and old.get(key) != value:
            raise UserError(
                f"{key}: got {value!r}, but {whose} {old.get(key)!r}. Use the same settings, or another folder."
            )


def _finished_run(pool: Pool, config: Config, screen: Console, quiet: bool) -> RunFolder:
    """The run of an algorithm, trained to its end: a new one, one that is continued, or one that is finished."""
    _check_run(config)
    with _told_how_to_continue(pool, screen):
        return finish(config, console=screen, quiet=quiet)


@contextmanager
def _told_how_to_continue(pool: Pool, screen: Console) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say_on(screen, f"continue the pool {pool.path} with the same command")
        raise


def _check_run(config: Config) -> None:
    """Refuses to continue a run that was begun with other settings."""
    known = known_runs(Path(config.local_results_path))
    if known:
        folder = RunFolder.open(known[-1])
        _check_settings(config, folder.config(), f"the run {folder.path} was begun with")


def _add_trained(
    pool: Pool, run: RunFolder, seed: int, chosen: str, which: Which, env: Env, episodes: int, screen: Console
) -> None:
    folder = run.agent(seed, which)
    agent = load_agent(folder)
    # All members are measured in the same object, because a program is compiled for each one.
    result = measure(Agent(agent.policy, agent.config, env, agent.card), episodes)
    _report(pool.add(folder, chosen, measured=result), screen)


def _add_scripted(pool: Pool, script: str, chosen: str, game: Config, env: Env, episodes: int, screen: Console) -> None:
    there = next((member for member in pool if member.name == script), None)
    if there is not None and there.set == chosen:
        say_on(screen, f"{script}: is in the pool")
        return
    policy: Policy = build_scripted(script, env)
    card = AgentCard(script, 0, 0, game.model_dump(), env.spec)
    result = measure(Agent(policy, game, env, card), episodes)
    _report(pool.add_scripted(script, chosen, measured=result), screen)


def _report(member: Member, screen: Console) -> None:
    measured = member.measured
    assert measured is not None
    say_on(screen, f"{member.name} ({member.set}): {measured.metric} {measured.value:.3f}")


def say_on(screen: Console, message: str) -> None:
    """Prints a line as it is: nothing in it is markup or steers the terminal."""
    screen.print(inert(message), highlight=False, markup=False, soft_wrap=True)
