"""Commands that play: train, resume, evaluate, bench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.jobs import (
    MOST_EPISODES,
    MOST_SEED,
    AddressOption,
    EvaluationsOption,
    LauncherOption,
    MachineOption,
    RetriesOption,
    SlurmOption,
    launcher_settings,
)
from omg.cli.lists import ConfigOption, EnvConfigOption, TrustOption, print_config, read_words
from omg.cli.progress import show_progress
from omg.cli.tables import print_lines, print_rows, print_screen, print_table, shown
from omg.errors import UserError, unknown_name
from omg.stopping import exit_code
from omg.types import Row

if TYPE_CHECKING:
    from omg.api import Agent, Run
    from omg.evaluation.rows import Seed
    from omg.launchers.settings import LauncherSettings
    from omg.tracking import Table


_MOST_TESTS = 12
"""Most rows of the last test; where there are more, the means over its episodes are shown."""


def train(
    context: typer.Context,
    config: ConfigOption = None,
    env_config: EnvConfigOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress display.")] = False,
    trust: TrustOption = False,
) -> None:
    """Train an algorithm in a game.

    Every further word sets a key of the configuration: key=value or --key=value, dots for nesting, in any order, with
    or without PyMARL's word `with`; --key alone means key=True. `omg config` lists the keys. PyMARL's and Sacred's
    words are known: docs/coming-from-pymarl.md.

    --debug: every round of play is a chunk of its own, all networks are searched for NaN after it, every round and all
    metrics are shown and written to console.log, and the compilation cache is neither read nor written. Sizes stay.
    """
    from omg.config import algorithm_names, resolve

    line = read_words(config, env_config, context.args, prints=True)
    if line.config is None:
        raise UserError(f"config: missing. Write --config=ALG with one of: {', '.join(algorithm_names())}.")
    resolved = resolve(line.config, line.env_config, line.overrides)
    if line.print_config:
        print_config(resolved)
    if line.print_config == "only":
        return

    from omg import api

    run = api.train_config(resolved.config, game=resolved.env, notes=resolved.notes, console=Console(), quiet=quiet)
    _print_run(run)


def resume(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    trust: TrustOption = False,
) -> None:
    """Continue a run from its newest checkpoint, exactly as if it had never stopped.

    t_max=N gives it a later end: the result is that of a run which had it from the start. devices=N shares it between
    other devices than before. Nothing else can change.
    """
    given = _may_change(context.args)

    from omg import api

    _print_run(api.resume(run, t_max=given.get("t_max"), devices=given.get("devices"), console=Console()))


_CHANGING = ("t_max", "devices")


def _may_change(words: list[str]) -> dict[str, int | str]:
    """The only settings that a run may be resumed with."""
    from omg.config.overrides import assignments

    line = read_words(None, None, words)
    given = assignments(line.overrides)
    given |= {key: value for key, value in (("config", line.config), ("env_config", line.env_config)) if value}
    for key in given:
        if key not in _CHANGING:
            allowed = ", ".join(_CHANGING)
            raise UserError(f"{key}: cannot change when a run goes on; it would be another run. Allowed: {allowed}.")
    return given


def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs or of agents.")],
    pool: Annotated[
        Path | None, typer.Option("--pool", metavar="POOL", help="Play in one seat beside players of this pool.")
    ] = None,
    set_name: Annotated[
        str | None, typer.Option("--set", help="Set of the pool: training, validation, heldout (the default).")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Group of teams, e.g. 7_homologue; may be repeated.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, max=MOST_EPISODES, help="Episodes: 256, with a pool 100 per team.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of the games.")] = 0,
    which: Annotated[
        str | None, typer.Option(metavar="last|best", help="Agent of each seed of a run that plays (last).")
    ] = None,
    belief: Annotated[
        str | None,
        typer.Option(metavar="METHODS", help="Also plastic, bayes or belief_mixture over the pool's training players."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What the tables show; the game's success metric.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy/--explore", help="Best actions, or exploring ones.")] = True,
    step: Annotated[
        int | None, typer.Option(min=0, help="Agents at this saved step, or the last before it; 0: the newest.")
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table here.")] = None,
    obs_adapter: Annotated[
        str,
        typer.Option(
            "--obs-adapter", metavar="none|learn", help="Let who was trained with obs_is_state play from observations."
        ),
    ] = "none",
    jobs: EvaluationsOption = None,
    launcher: LauncherOption = "local",
    address: AddressOption = None,
    machine: MachineOption = None,
    slurm: SlurmOption = None,
    retries: RetriesOption = None,
    trust: TrustOption = False,
) -> None:
    """Play test episodes with trained agents and print the results.

    All seeds of a run play, each with its last agent; --which best takes those with the best test instead. Without
    --pool an agent plays in all seats. With --pool it plays one seat beside the same teams from the same starts, and
    the runs are compared with the first one.
    """
    _check_which(runs, which, step)
    if csv is not None and (not csv.name or csv.is_dir()):
        raise UserError(f"--csv: cannot write '{csv}' (Is a directory).")
    settings = launcher_settings(launcher, jobs, address=address, machine=machine, slurm=slurm, retries=retries)
    if pool is None:
        if settings.at_once:
            said = f"--jobs: got {jobs}" if jobs is not None else f"--launcher: got {launcher}"
            raise UserError(f"{said}, but without --pool agents play here, one after the other.")
        for option, given in (("--set", set_name), ("--group", group), ("--belief", belief), ("--metric", metric)):
            if given:
                raise UserError(f"{option}: needs a pool whose players make the teams. Give --pool POOL.")
        table = _evaluate_alone(runs, episodes, seed, which or "last", greedy, step, obs_adapter)
    else:
        if not greedy:
            raise UserError("--explore: with --pool agents play their best actions.")
        set_name, which = set_name or "heldout", which or "last"
        table = _evaluate_with_pool(
            runs, pool, set_name, group, episodes or 100, seed, which, metric, step, obs_adapter, belief, settings
        )
    if csv is not None:
        try:
            table.write_csv(csv)
        except OSError as error:
            raise UserError(f"--csv: cannot write '{csv}' ({error.strerror}).") from None


def _check_which(runs: list[Path], which: str | None, step: int | None) -> None:
    """Refuses a `--which` that is no such agent, or that has nothing to choose from."""
    if which is None:
        return
    from omg.tracking import is_agent

    if which not in ("last", "best"):
        raise unknown_name("agent (--which)", which, ("last", "best"))
    if step is not None:
        raise UserError(f"--which: got {which}, but --step {step} names the agents. Leave one of them out.")
    for run in runs:
        if is_agent(run):
            raise UserError(f"--which: got '{which}', but {run} is one agent and no run. Leave --which out.")


def _evaluate_alone(
    runs: list[Path],
    episodes: int | None,
    seed: int,
    which: str,
    greedy: bool,
    step: int | None,
    obs_adapter: str,
) -> Table:
    from omg import api
    from omg.tracking import Table
    from omg.training.adapting import check_adapted

    found: list[dict[str, object]] = []
    for run in runs:
        agents = api.load_seeds(run, which, step=step, obs_adapter=obs_adapter, say=print_lines)
        if obs_adapter == "learn":
            check_adapted(agents)
        for agent in agents:
            table = api.evaluate(agent, episodes=episodes, seed=seed, greedy=greedy)
            games = f"{table[0]['episodes']} episodes (games of --seed {seed})"
            kind = which if step is None else "saved"
            print_rows(f"{run}: {which_agents([agent], run, kind)}, {games}", table)
            place = {"run": str(run)} if len(runs) > 1 else {}
            found += [{**place, **({"seed": agent.card.seed} if len(agents) > 1 else {}), **row} for row in table]
    return Table(found)


def which_agents(agents: Sequence[Agent], run: Path, which: str) -> str:
    """Who plays, in words: `seed 1, last agent (t_env 2,065)`."""
    from omg.tracking import is_agent

    kind = "" if is_agent(run) else f", {which} agent{'s' if len(agents) > 1 else ''}"
    seeds = ", ".join(str(agent.card.seed) for agent in agents)
    steps = sorted({agent.card.t_env for agent in agents})
    trained = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    return f"seed{'s' if len(agents) > 1 else ''} {seeds}{kind} (t_env {trained})"


def _evaluate_with_pool(
    runs: list[Path],
    pool: Path,
    set_name: str,
    groups: list[str] | None,
    episodes: int,
    seed: int,
    which: str,
    metric: str | None,
    step: int | None,
    obs_adapter: str,
    belief: str | None,
    settings: LauncherSettings,
) -> Table:
    from omg.evaluation import group_names
    from omg.evaluation.tables import ScoreRow
    from omg.experiments.apart import requested, scores_apart
    from omg.experiments.beliefs import belief_scores, check_beliefs
    from omg.experiments.evaluation import evaluate_runs, run_labels
    from omg.experiments.room.reading import closed_of, room_metric, unmeasured
    from omg.pools import Pool
    from omg.report.room import below_lines, closed_screen

    opened = Pool.open(pool)
    opened.members(set_name)
    known = group_names(opened.spec.n_agents)
    for name in groups or ():
        if name not in known:
            raise unknown_name(f"group (--group) of a game with {opened.spec.n_agents} seats:", name, known)
    beliefs = [] if belief is None else [name.strip() for name in belief.split(",")]
    check_beliefs("--belief", beliefs)
    labels = run_labels(runs)
    kind = which if step is None else "saved"
    who: list[str] = []
    request = requested(
        labels,
        pool,
        pool_set=set_name,
        groups=groups or None,
        episodes=episodes,
        seed=seed,
        which=which,
        step=step,
        obs_adapter=obs_adapter,
    )
    with show_progress("loading") as say:

        def played() -> Mapping[str, Sequence[ScoreRow]]:
            return scores_apart(request, settings, say)

        table = evaluate_runs(
            labels,
            pool,
            pool_set=set_name,
            groups=groups or None,
            episodes=episodes,
            seed=seed,
            which=which,
            step=step,
            say=say,
            obs_adapter=obs_adapter,
            note=print_lines,
            begin=lambda one: who.append(f"{one.label}: {which_agents(one.agents, labels[one.label], kind)}"),
            further=lambda arena, config: [
                ScoreRow(**{name: row[name] for name in ScoreRow.names()})
                for row in belief_scores(beliefs, arena, config, [set_name], groups or None, episodes, seed, say)
            ],
            apart=played if settings.at_once else None,
        )
    closed = closed_of(pool, set_name, room_metric(opened.spec, metric), table)
    print_screen(below_lines(closed))
    _print_scores(
        f"{opened.where}, set {set_name}, {episodes} episodes per team (games of --seed {seed})",
        table,
        metric or opened.spec.success_metric,
        [*labels, *beliefs],
    )
    print_screen(closed_screen(closed) or [unmeasured(pool, set_name, groups, metric)])
    Console(soft_wrap=True).print("\n".join(who), markup=False, highlight=False)
    return table


def _print_scores(title: str, table: Table, metric: str, labels: list[str]) -> None:
    """How everybody does with each group, and the paired differences from the first."""
    from omg.evaluation import compare, summarise
    from omg.report.tables import SHORT_DIFFERENCES, SHORT_SCORES, screen_table_of

    print_table(title, *screen_table_of(summarise(table, metric), SHORT_SCORES))
    first, *others = labels
    compared = [row for label in others for row in compare(table, metric, label, [first])]
    if compared:
        print_table(f"Compared with {first}, on the same teams", *screen_table_of(compared, SHORT_DIFFERENCES))


def bench(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.1, max=86_400, help="Time to measure for, compilation aside.")] = 40.0,
    env: Annotated[str, typer.Option(help="Game (see `omg envs`).")] = "sc2",
) -> None:
    """Measure the speed of playing and learning on this machine.

    Every further word is an option of the game: map_name=3m or env_args.map_name=3m.
    """
    from omg import api
    from omg.config.overrides import assignments, translate

    options = assignments(translate(context.args).overrides)
    env_args = {key.removeprefix("env_args."): value for key, value in options.items()}
    print_rows(f"Speed of {env}", api.bench(seconds=seconds, env=env, env_args=env_args))


def _print_run(run: Run) -> None:
    """What matters of the last test, the best one, where all the rest is, and what to type next."""
    from omg.envs import plays_on_host

    tests = {row[0]: row for row in final_tests(run.metrics)}
    names = sorted(tests, key=lambda name: name != run.success_metric)  # Stable: it first, all others as they were.
    if len(names) > _MOST_TESTS:
        names = [name for name in names if name.endswith("_mean")]
    lines: list[str] = []
    if names:
        columns = ("metric", "t_env", "mean over seeds", "lowest", "highest")
        print_table("Last test", columns, [tests[name] for name in names])
    if len(names) < len(tests):
        lines.append(f"{len(tests) - len(names)} more metrics of the tests: {run.folder / 'metrics.csv'}")
    best = run.best
    if len(best):
        values, steps = best.column("value"), sorted(best.column("t_env"))
        mean = f"{shown(sum(values) / len(values))} {'' if len(best) == 1 else f'(mean of {len(best)} seeds) '}"
        place = f"{steps[0]:,}" if steps[0] == steps[-1] else f"{steps[0]:,} to {steps[-1]:,}"
        lines.append(f"Best test: {run.success_metric} {mean}at t_env {place}")
    lines.append(f"Run folder: {run.folder}")
    if run.status == "interrupted":
        lines.append(f"Continue: omg resume {run.folder}")
    if (run.folder / "agents").is_dir() and not plays_on_host(run.config.env, run.config.env_args):
        mates = f" --pool {run.config.init_param_path}" if run.config.team and run.config.init_param_path else ""
        lines.append(f"Evaluate: omg evaluate {run.folder}{mates}")
    if len(best):
        lines.append(f"Draw: omg plot {run.folder} --metric {run.success_metric}")
    print_lines(*lines)
    if run.status == "interrupted" or run.signal is not None:
        raise typer.Exit(exit_code(run.signal))


def final_tests(metrics: Iterable[Row]) -> list[tuple[str, int, float, float, float]]:
    """The last value of every test metric: name, t_env, and its mean, lowest and highest value over the seeds.

    Args:
        metrics: columns of `MetricRow`.
    """
    from omg.evaluation.tables import MetricRow

    last: dict[str, dict[Seed, MetricRow]] = {}
    for row in map(MetricRow.of, metrics):
        if row.name.startswith("test_"):
            by_seed = last.setdefault(row.name, {})
            if row.seed not in by_seed or row.t_env >= by_seed[row.seed].t_env:
                by_seed[row.seed] = row
    summaries = []
    for name, by_seed in last.items():
        values = [row.value for row in by_seed.values()]
        t_env = max(row.t_env for row in by_seed.values())
        summaries.append((name, t_env, sum(values) / len(values), min(values), max(values)))
    return summaries
