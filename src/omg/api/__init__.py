"""The public Python API: make a game, train, load, evaluate. The command line is a thin layer over this module."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console

from omg.api.playing import evaluate, load
from omg.api.recording import record
from omg.api.run import Run
from omg.config import Config, adjust, change_config, check_stored, resolve
from omg.config.old_words import is_old_key
from omg.envs import ENVS, Env, make_env, plays_on_host
from omg.envs.adapters import OPTIONS, adapt
from omg.envs.base import Described
from omg.envs.trust import is_trusted, trusting, vouch
from omg.errors import UserError, disk_fault
from omg.modules.opponent_models.prior import Prior
from omg.pools import Agent, AgentCard, PriorCard, prior_folder, save_agent, save_prior
from omg.recordings.runs import Recorder
from omg.report.exhibits import exhibits
from omg.report.replays import check_replays, write_replays
from omg.stopping import Stop
from omg.tracking import RunFolder, RunReporter, Table, check_trackers, load_seeds
from omg.tracking.extension import extend_run, keep_former_best
from omg.training.device import prepare
from omg.training.loop import BEST_AT_END, Trainer
from omg.training.memory import check_memory, peak_memory
from omg.training.obs_adapter import save_maps
from omg.training.program import Program, build_program
from omg.training.saved import continued
from omg.types import Json, PyTree, Row, Tree

__all__ = [
    "Agent",
    "Run",
    "Table",
    "bench",
    "evaluate",
    "load",
    "load_seeds",
    "make",
    "plot",
    "record",
    "resume",
    "train",
    "train_config",
]


def make(env: str, *, api: str = "jax", seed: int = 0, **env_args: Json) -> Any:
    """Makes a game.

    Args:
        env: a name from `omg envs`.
        api: `jax` (batched, pure functions), `pettingzoo` (a parallel environment), `pymarl` (PyMARL's MultiAgentEnv)
            or `epymarl` (EPyMARL's, with Gymnasium's `reset` and `step`).
        seed: first seed of the stateful interfaces.
        env_args: options of the game, e.g. `map_name="8m"`; with `epymarl` also the two words that EPyMARL hands to
            every game, `common_reward` and `reward_scalarisation`.
    """
    words = {key: env_args[key] for key in OPTIONS.get(api, ()) if key in env_args}
    if words and env in ENVS:  # Foreign games have options of the same names and meaning, and are given them too.
        own = ENVS[env].traits.args.model_fields
        env_args = {key: value for key, value in env_args.items() if key not in words or key in own}
    vouch(env_args)
    return adapt(make_env(env, **env_args), api, seed, **words)


def train(config: str, env: str, *, quiet: bool = True, **settings: Json) -> Run:
    """Trains an algorithm in a game and returns the finished run.

    Args:
        config: algorithm or team name, e.g. `qmix`, or the path of an algorithm's file, e.g. `path/my.yaml`.
        env: environment configuration, e.g. `sc2`.
        quiet: no output on the screen.
        settings: configuration keys (`t_max=100_000`, `seed=1`) and options of the game (`map_name="3m"`). An option
            that is also a configuration key goes into `env_args`: `env_args={"obs_last_action": True}`.

    Raises:
        UserError: a name or a setting cannot be used.
        TypeError: `config` or `env` is no name.
    """
    _check_names(config, env)
    allowed = ENVS[resolve(None, env, open_games="none").config.env].traits.args.model_fields
    named = {key for key in settings if key in allowed and key not in Config.model_fields and not is_old_key(key)}
    options = {key: value for key, value in settings.items() if key in named}
    overrides = {key: value for key, value in settings.items() if key not in named}
    overrides["env_args"] = {**overrides.get("env_args", {}), **options}
    resolved = resolve(config, env, overrides)
    return train_config(resolved.config, game=resolved.env, notes=resolved.notes, quiet=quiet)


def _check_names(config: object, env: object) -> None:
    """Refuses objects where names are expected, and says what to write."""
    if not isinstance(config, str):
        raise TypeError(
            f"config: got a {type(config).__name__}, expected the name of an algorithm or team, e.g. 'vdn' (`omg algs` "
            "lists them). A whole Config goes to omg.api.train_config."
        )
    if not isinstance(env, str):
        spec = getattr(env, "spec", None)
        name = getattr(spec, "name", None)
        hint = f"'{name}'" if name in ENVS else "'foraging'"
        raise TypeError(
            f"env: got a {type(env).__name__}, expected the name of a game, e.g. omg.train({config!r}, {hint}, ...), "
            "with the game's options as further keywords; `omg envs` lists them. Games of your own have names too: "
            "env='gymma' with key='MODULE:CLASS', or env='pettingzoo' with key='MODULE'."
        )


def train_config(
    config: Config,
    *,
    game: Env | None = None,
    notes: Sequence[str] = (),
    console: Console | None = None,
    quiet: bool = False,
) -> Run:
    """Trains a resolved configuration; the game that it names is the caller's own word (`omg.envs.trust`).

    Args:
        config: what to train.
        game: the game that it names, where `config.resolve` has opened it already.
        notes: said first (those of `config.resolve`).
        console: where progress is shown.
        quiet: no output on the screen.
    """
    vouch(config.env_args)
    check_trackers(config)
    has_gpu = prepare(config.use_cuda, plays_on_host(config.env, config.env_args), use_cache=not config.debug)
    config, adjusted = adjust(config, has_gpu)
    program = build_program(config, game)  # Refuses what does not fit before there is a folder.
    check_memory(program)
    check_replays(config, program)
    if config.checkpoint_path is not None:
        seeds = jnp.arange(config.seed, config.seed + config.seeds, dtype=jnp.uint32)
        continued(config, program.spec, jax.eval_shape(program.init, seeds).learner)
    folder = RunFolder.create(config, program.spec)
    return _run(folder, program, [*notes, *adjusted], console, quiet)


def resume(
    folder: str | Path,
    *,
    t_max: int | str | None = None,
    devices: int | str | None = None,
    config: Config | None = None,
    console: Console | None = None,
    quiet: bool = False,
    trust: bool = False,
) -> Run:
    """Continues a run from its newest whole checkpoint (from the start if there is none).

    Args:
        folder: of the run.
        t_max: a later end. The run is then the same as one that had it from the start: see `tracking.extension`.
        devices: how many share the run from now on; those that it began with unless given.
        config: what the caller began the run with; only the paths of other folders may differ from what it stored.
            Left out, the stored configuration counts, as far as a file's word does (`omg.envs.trust`).
        console: where progress is shown.
        quiet: no output on the screen.
        trust: the stored configuration counts whatever it asks for.
    """
    with trusting(trust):
        opened = RunFolder.open(Path(folder))
        stored = opened.config()
        if t_max is None and opened.status() in ("finished", "stopped"):
            hint = f" `omg resume {folder} t_max=N` makes it longer." if opened.status() == "finished" else ""
            raise UserError(f"{folder}: this run is already {opened.status()}.{hint}")
        if config is None:
            check_stored(opened.config_file, stored)
        else:
            config, _ = adjust(config, prepare(config.use_cuda, plays_on_host(config.env, config.env_args)))
            _check_same(opened, stored, config)
        chosen = stored if config is None else config
        check_trackers(chosen)
        notes = []
        if t_max is not None:
            chosen, note = extend_run(opened, t_max)
            notes.append(note)
        if devices is not None:
            chosen = change_config(chosen, devices=devices)
        prepare(chosen.use_cuda, plays_on_host(chosen.env, chosen.env_args), use_cache=not chosen.debug)
        program = build_program(chosen)
        check_memory(program)
        return _run(opened, program, notes, console, quiet, own_word=config is not None)


_ELSEWHERE = ("use_cuda", "devices", "local_results_path", "init_param_path", "prior_path", "init_from")
"""Keys that may change between two halves of a run: a folder may have been moved to another machine."""


def _check_same(folder: RunFolder, stored: Config, config: Config) -> None:
    """Refuses to continue a run with other settings than it was begun with."""
    for key in type(config).model_fields:
        if key not in _ELSEWHERE and getattr(stored, key) != getattr(config, key):
            raise UserError(
                f"{folder.path}: the run was begun with {key}={getattr(stored, key)!r}, now it is "
                f"{getattr(config, key)!r}. Move that folder away to begin anew."
            )


def _run(
    folder: RunFolder,
    program: Program,
    notes: list[str],
    console: Console | None,
    quiet: bool,
    *,
    own_word: bool = True,
) -> Run:
    """Trains to the end; `own_word`: the configuration is the caller's, not that of a file."""
    config = program.config
    # A file's word alone does not change a pool that lies elsewhere.
    beside_pool = own_word or is_trusted()

    def keep(learner_state: PyTree, seed: int, t_env: int, which: str, results: dict[str, float]) -> None:
        if which == BEST_AT_END:
            keep_former_best(folder, seed)
            which = "best"
        path = folder.agent(seed, which)
        player = program.learner.tested(learner_state)
        if isinstance(player, Prior):
            if which == "last":  # Tests measure the frozen players, so that no prior is the best by them.
                _keep_prior(path, player, program, t_env, results, beside_pool=beside_pool)
            return
        algorithm = config.train_alg or config.name
        card = AgentCard(algorithm, seed, t_env, config.model_dump(), program.spec, results, program.partners)
        save_agent(path, player, card)

    with (
        Stop() as stop,
        _told_disk_faults(folder),
        folder.lock(),
        RunReporter(folder, config, console, quiet) as reporter,
    ):

        def interrupted() -> None:
            with contextlib.suppress(OSError):
                folder.set_status("interrupted")
                reporter.say(f"continue with: omg resume {folder.path}")

        folder.set_status("running")
        stop.tell, stop.last_words = reporter.say, interrupted
        if program.obs_adapters:
            save_maps(folder.path, program.obs_adapters)
        for line in (f"run folder: {folder.path}", f"device: {program.spread.words}", *notes):
            reporter.say(line)
        if isinstance(program.env, Described) and program.env.about:
            reporter.say(program.env.about)
        try:
            with Recorder(program, folder.path) as recorder:
                outcome = Trainer(program, folder.checkpoints, reporter, keep, stop, recorder).run()
        except KeyboardInterrupt:
            interrupted()
            raise
        except BaseException as error:
            with contextlib.suppress(OSError):
                folder.set_status("failed", reason=f"{type(error).__name__}: {error}")
            raise
        t_env = int(outcome.state.t_env.numpy().min())
        pages: list[Path] = []
        if outcome.status != "interrupted" and (games := recorder.made()):
            reporter.step("recording")
            pages = write_replays(recorder.last, games)
            reporter.say(f"replays: {len(pages)} recordings and pages in {recorder.last}")
        folder.set_status(outcome.status, t_env=t_env, peak_memory=peak_memory())
        if outcome.status != "interrupted":
            metric = f"test_{program.success_metric}_mean"
            reporter.exhibit(lambda scratch: exhibits(folder, metric, pages, scratch))
        if program.learner_watches and not beside_pool:
            reporter.say(
                f"the prior is only in {folder.path}: train with prior_path, or resume with --trust to put it beside "
                f"the pool"
            )
        if outcome.status == "interrupted":
            saved = f"saved at t_env {t_env:,}" if config.save_model else "nothing is saved (save_model=False)"
            reporter.say(f"{saved}; continue with: omg resume {folder.path}")
    return Run(folder.path, outcome.status, outcome.signal)


@contextlib.contextmanager
def _told_disk_faults(folder: RunFolder) -> Iterator[None]:
    """Says in one message that a run's disk is full or its folder read-only, and how to go on."""
    try:
        yield
    except OSError as error:
        fault = disk_fault(error, folder.path)
        if fault is None:
            raise
        raise UserError(f"{fault} Once it can be written, continue with: omg resume {folder.path}") from error


def _keep_prior(
    path: Path, prior: Prior, program: Program, t_env: int, results: dict[str, float], *, beside_pool: bool
) -> None:
    """Saves a prior in its run folder and, if wanted, beside the pool's members, where training looks for it."""
    config = program.config
    assert program.team is not None
    assert config.init_param_path is not None
    spec, width = program.spec, int(prior.statistics.mean.shape[0])
    sizes = (spec.name, spec.scenario, config.obs_is_state, width, prior.subgoal_dim)
    seen = None if prior.seen is None else int(prior.seen.mean.shape[0])
    card = PriorCard(*sizes, t_env, program.team.names, results, prior.map_shape, seen, config.subgoal_of == "places")
    beside = Path(config.init_param_path) / prior_folder(config.subgoal_of)
    for folder in (path, *((beside,) if beside_pool else ())):
        save_prior(folder, prior, card)


def plot(
    runs: Run | str | Path | Sequence[Run | str | Path],
    metric: str = "test_return_mean",
    output: str | Path = "curves.png",
    *,
    interval: bool = False,
    title: str = "",
) -> Path:
    """Draws learning curves of runs, one line per configuration name: the mean over its seeds.

    Args:
        runs: runs, their folders, or folders that hold runs; one or several.
        metric: a name from the runs' metrics.csv, e.g. `test_battle_won_mean`.
        output: the figure, FILE.png, .svg or .pdf; its folder is made if need be.
        interval: band: 95 % interval of the mean instead of lowest and highest seed.
        title: heading of the figure.

    Returns:
        The path of the figure.
    """
    from omg.report import plot_curves, run_tables

    several = [runs] if isinstance(runs, Run | str | Path) else runs
    folders = [one.folder if isinstance(one, Run) else one for one in several]
    return plot_curves(run_tables(folders), metric, output, band="interval" if interval else "range", title=title)


def bench(
    *,
    seconds: float = 40.0,
    env: str = "sc2",
    env_args: Tree | None = None,
    say: Callable[[str], None] = print,
) -> list[Row]:
    """Speed of playing and learning on this machine; see `omg.training.bench`."""
    from omg.training.bench import measure

    prepare(use_cuda=True)
    return measure(seconds, env, env_args or {}, say)
