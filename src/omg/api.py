"""The public Python API: make a game, train, load, evaluate. The command line is a thin layer over this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from omg.config import Config, adjust, resolve
from omg.config.schema import unknown_key
from omg.envs import ENVS, make_env, plays_on_host
from omg.envs.adapters import OPTIONS, adapt
from omg.errors import UserError
from omg.evaluation import load_mates, play_team, pool_scores, stack_agents
from omg.modules.opponent_models import Prior
from omg.pools import PRIOR_FOLDER, Agent, AgentCard, Pool, PriorCard, load_agent, save_agent, save_prior
from omg.runners import OWN_RETURN
from omg.tracking import RunFolder, RunReporter, Table, check_trackers, is_agent, load_seeds
from omg.training.device import chosen_device, prepare
from omg.training.hosted import build_program
from omg.training.loop import Trainer
from omg.training.program import Program

__all__ = [
    *("Agent", "Run", "Table"),
    *("bench", "evaluate", "load", "load_seeds", "make", "plot", "resume", "train", "train_config"),
]


@dataclass(frozen=True)
class Run:
    """A training run on disk."""

    folder: Path
    status: str
    """finished, stopped (early stop) or interrupted (Ctrl-C)."""

    def __repr__(self) -> str:
        try:
            return self._words()
        except UserError:  # Moved or damaged: it can still be named.
            return f"Run({self.status}; {self.folder})"

    def _words(self) -> str:
        config = self.config
        seeds = f"seed {config.seed}" + (f" to {config.seed + config.seeds - 1}" if config.seeds > 1 else "")
        tests = self.best
        best = f", best {self.success_metric} {sum(tests.column('value')) / len(tests):.4g}" if len(tests) else ""
        return f"Run({config.name} in {config.env}, {seeds}, {self.status}{best}; {self.folder})"

    @cached_property
    def config(self) -> Config:
        """The configuration it was started with."""
        return RunFolder.open(self.folder).config()

    @cached_property
    def metrics(self) -> Table:
        """Tidy metrics: seed, t_env, name, value."""
        return RunFolder.open(self.folder).metrics()

    @cached_property
    def agents(self) -> list[Agent]:
        """The last agent of every seed."""
        return load_seeds(self.folder)

    @cached_property
    def success_metric(self) -> str:
        """The metric of its tests that tells good from bad play; by it the best agents are chosen."""
        own = f"test_{OWN_RETURN}_mean"
        if any(row["name"] == own for row in self.metrics):  # A team, and everybody in it has a reward.
            return own
        return f"test_{make_env(self.config.env, **self.config.env_args).spec.success_metric}_mean"

    @property
    def best(self) -> Table:
        """The best test of every seed after the start: seed, t_env, name, value."""
        tests: dict[int, dict[str, Any]] = {}
        for row in self.metrics.where(name=self.success_metric):
            if row["t_env"] > 0 and (row["seed"] not in tests or row["value"] > tests[row["seed"]]["value"]):
                tests[row["seed"]] = row
        return Table(list(tests.values()))


def make(env: str, *, api: str = "jax", seed: int = 0, **env_args: Any) -> Any:
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
        own = ENVS[env].args.model_fields
        env_args = {key: value for key, value in env_args.items() if key not in words or key in own}
    return adapt(make_env(env, **env_args), api, seed, **words)


def train(config: str, env: str, *, quiet: bool = True, **settings: Any) -> Run:
    """Trains an algorithm in a game and returns the finished run.

    Args:
        config: algorithm or team name, e.g. `qmix`.
        env: environment configuration, e.g. `sc2`.
        quiet: no output on the screen.
        settings: configuration keys (`t_max=100_000`, `seed=1`) and options of the game (`map_name="3m"`). An option
            that is also a configuration key goes into `env_args`: `env_args={"obs_last_action": True}`.

    Raises:
        UserError: a name or a setting cannot be used.
        TypeError: `config` or `env` is no name.
    """
    _check_names(config, env)
    overrides = {key: value for key, value in settings.items() if key in Config.model_fields}
    game = resolve(None, env).config.env
    options = {key: value for key, value in settings.items() if key not in Config.model_fields}
    for key in options:
        if key not in ENVS[game].args.model_fields:
            raise unknown_key(key, game)
    overrides["env_args"] = {**overrides.get("env_args", {}), **options}
    return train_config(resolve(config, env, overrides).config, quiet=quiet)


def _check_names(config: Any, env: Any) -> None:
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


def train_config(config: Config, *, console: Console | None = None, quiet: bool = False) -> Run:
    """Trains a resolved configuration."""
    check_trackers(config)
    has_gpu = prepare(config.use_cuda, plays_on_host(config.env, config.env_args))
    config, notes = adjust(config, has_gpu)
    program = build_program(config)  # Refuses what does not fit before there is a folder.
    folder = RunFolder.create(config, program.spec.scenario)
    return _run(folder, program, notes, console, quiet)


def resume(folder: str | Path, *, console: Console | None = None, quiet: bool = False) -> Run:
    """Continues a run from its newest whole checkpoint (from the start if there is none)."""
    opened = RunFolder.open(Path(folder))
    config = opened.config()
    if opened.status() in ("finished", "stopped"):
        raise UserError(f"{folder}: this run is already {opened.status()}.")
    check_trackers(config)
    prepare(config.use_cuda, plays_on_host(config.env, config.env_args))
    return _run(opened, build_program(config), [], console, quiet)


def _run(folder: RunFolder, program: Program, notes: list[str], console: Console | None, quiet: bool) -> Run:
    config = program.config

    def keep(learner_state: Any, seed: int, t_env: int, which: str, results: dict[str, float]) -> None:
        path = folder.agent(seed, which)
        player = program.learner.tested(learner_state)
        if program.learner_watches:
            if which == "last":  # Tests measure the frozen players, so that no prior is the best by them.
                _keep_prior(path, player, config, program, t_env, results)
            return
        algorithm = config.train_alg or config.name
        spec = dict(vars(program.spec))
        save_agent(
            path, player, AgentCard(algorithm, seed, t_env, config.model_dump(), spec, results, program.partners)
        )

    with folder.lock(), RunReporter(folder, config, console, quiet) as reporter:
        folder.set_status("running")
        for line in (f"run folder: {folder.path}", f"device: {chosen_device().device_kind}", *notes):
            reporter.say(line)
        about = "sc2: built-in battle simulator" if config.env == "sc2" else ""
        about = getattr(program.env, "about", about)
        if about:
            reporter.say(about)
        try:
            outcome = Trainer(program, folder.checkpoints, reporter, keep).run()
        except KeyboardInterrupt:
            folder.set_status("interrupted")
            reporter.say(f"continue with: omg resume {folder.path}")
            raise
        except BaseException as error:
            folder.set_status("failed", reason=f"{type(error).__name__}: {error}")
            raise
        t_env = int(outcome.state.t_env.min())
        folder.set_status(outcome.status, t_env=t_env)
        if outcome.status == "interrupted":
            reporter.say(f"saved at t_env {t_env:,}; continue with: omg resume {folder.path}")
    return Run(folder.path, outcome.status)


def _keep_prior(
    path: Path, prior: Prior, config: Config, program: Program, t_env: int, results: dict[str, float]
) -> None:
    """Saves a prior in its run folder, and beside the pool's members, where training looks for it."""
    assert program.team is not None
    assert config.init_param_path is not None
    spec, width = program.spec, int(prior.statistics.mean.shape[0])
    sizes = (spec.name, spec.scenario, config.obs_is_state, width, prior.subgoal_dim)
    card = PriorCard(*sizes, t_env, program.team.names, results, prior.map_shape)
    for folder in (path, Path(config.init_param_path) / PRIOR_FOLDER):
        save_prior(folder, prior, card)


def load(path: str | Path) -> Agent:
    """Loads the best agent of a run folder, or any agent folder."""
    prepare(use_cuda=True)
    return load_agent(path)


def evaluate(
    agent: Agent | Run | str | Path,
    *,
    pool: str | Path | None = None,
    group: str | None = None,
    pool_set: str = "heldout",
    episodes: int | None = None,
    seed: int = 0,
    greedy: bool = True,
    which: str | None = None,
) -> Table:
    """Plays an agent in all seats of its own game or, with a pool, in one seat beside players of that pool.

    Args:
        agent: an agent, or the folder of an agent or of a run (of its first seed plays the `which` agent).
        pool: folder of the pool that the team-mates are taken from.
        group: how they are put together, e.g. `7_homologue` (see `omg.evaluation.groups`); None for all groups.
        pool_set: set of the pool: `training`, `validation` or `heldout`.
        episodes: number of episodes (256), or with a pool of episodes per team (100).
        seed: of teams and games; two agents evaluated with the same seed play the same teams from the same starts.
        greedy: best actions instead of exploring ones.
        which: `last` (the default) or `best` agent of a run; only for runs.

    Returns:
        Without a pool one row per metric: metric, mean, std, low, high (95 % interval of the mean), episodes. With a
        pool tidy scores, one row per team and metric: agent, seed, group, team, episodes, metric, mean; hand them to
        `omg.evaluation.summarise`.

    Raises:
        UserError: there is no such agent, pool, set or group, or the agent and the pool do not fit.
        TypeError: `agent` is neither an agent nor a folder.
    """
    if isinstance(agent, Run):
        agent = agent.folder
    if not isinstance(agent, Agent | str | Path):
        raise TypeError(
            f"agent: got a {type(agent).__name__}, expected an agent (omg.load(FOLDER), run.agents), a run or its "
            "folder. A policy of your own plays in a loop over omg.make(...): see examples/play_random.py."
        )
    if which is not None and (isinstance(agent, Agent) or is_agent(agent)):
        raise UserError(f"which: got '{which}', but {agent} is one agent and no run. Leave which out.")
    if episodes is not None and episodes < 1:
        raise UserError(f"episodes: got {episodes}, allowed: 1 or more.")
    if pool is None and group is not None:
        raise UserError(f"group: got '{group}', but there is no pool whose players could make it. Give pool=POOL.")
    player = agent if isinstance(agent, Agent) else load_seeds(agent, which or "last")[0]
    epsilon = 0.0 if greedy else player.config.epsilon_finish
    if pool is None:
        return Table(play_team(player, 256 if episodes is None else episodes, seed, epsilon))
    mates = load_mates(Pool.open(pool), pool_set, player.config, player.env)
    rows = pool_scores(
        player.env,
        stack_agents([player.policy]),
        player.card.algorithm,
        (player.card.seed,),
        mates,
        None if group is None else (group,),
        100 if episodes is None else episodes,
        seed,
        epsilon=epsilon,
    )
    return Table(rows)


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
    env_args: dict[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Speed of playing and learning on this machine; see `omg.training.bench`."""
    from omg.training.bench import measure

    prepare(use_cuda=True)
    return measure(seconds, env, env_args or {}, say)
