"""The card of what is shared: README.md as Hugging Face's hub reads it, and config.json, by which it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from omg.config.layers import summary
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ScoreRow
from omg.names import inert
from omg.pools import Pool, PriorCard, read_agent_card
from omg.pools.bundles import read_card
from omg.pools.priors import PRIOR_CARD
from omg.recordings.capture import own_version
from omg.report.markup import markdown_text
from omg.sharing.contents import MANIFEST
from omg.tracking import RunFolder
from omg.types import Tree

_TASK = "reinforcement-learning"
_MOST_ROWS = 200
"""Of a table in a card."""
_LONGEST_REPORT = 60_000


@dataclass
class CardFacts:
    """What a card says, gathered from the folder's own files."""

    title: str
    what: str
    """One sentence."""
    game: str = ""
    tags: list[str] = field(default_factory=list)
    trained: list[tuple[str, object]] = field(default_factory=list)
    """How it was trained."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """For the hub's list of results."""
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = field(default_factory=list)
    text: str = ""
    """Markdown of our own making that is kept with it."""
    use: str = ""
    """A command."""
    config: Tree = field(default_factory=dict)
    """For config.json."""


def gather(folder: Path, kind: str, scores: Path | None) -> CardFacts:
    """What is known of a folder of some kind; `scores` is a table of `omg evaluate --csv`.

    Raises:
        UserError: a file of it is damaged.
    """
    facts = {"agent": _agent, "prior": _prior, "pool": _pool, "run": _run, "result": _result}[kind](folder)
    if scores is not None:
        facts.tables.append(_score_table(scores))
    return facts


def _agent(folder: Path) -> CardFacts:
    card, config = read_agent_card(folder)
    game = f"{card.spec.name} {card.spec.scenario}"
    partners = f"with {card.partners} frozen players" if card.partners else "in all seats"
    facts = CardFacts(
        f"{card.algorithm} for {game}",
        f"An agent that plays {game}, trained by {card.algorithm} {partners}. {_about(card.algorithm)}",
        game,
        [card.algorithm, card.spec.name],
        [("algorithm", card.algorithm), ("game", game), ("environment steps", card.t_env), ("seed", card.seed)],
        card.results,
        use="omg evaluate {folder}",
        config={"algorithm": card.algorithm, "env": config.env, "env_args": config.env_args, "seed": card.seed},
    )
    facts.trained += [
        ("players it was trained with", card.partners or "itself"),
        ("sees the global state", config.obs_is_state),
        ("opponent model", config.am_model),
        ("learning rate", config.lr),
    ]
    if card.results:
        heading = f"Newest test during training ({partners})"
        facts.tables.append((heading, ("metric", "value"), sorted(card.results.items())))
    return facts


def _prior(folder: Path) -> CardFacts:
    card, _ = read_card(folder / PRIOR_CARD, PriorCard)
    game = f"{card.env} {card.scenario}"
    return CardFacts(
        f"Subgoal prior for {game}",
        f"A prior over subgoals of {card.subgoal_dim} numbers, trained on games of {len(card.players)} players.",
        game,
        [card.env],
        [("game", game), ("environment steps", card.t_env), ("players", ", ".join(card.players))],
        card.results,
        use="omg train --config=iql_omg prior_path={folder}",
        config={"env": card.env, "subgoal_of": card.subgoal_of, "subgoal_dim": card.subgoal_dim},
    )


def _pool(folder: Path) -> CardFacts:
    pool = Pool.open(folder)
    pool.check()
    counts = {name: sum(one.set == name for one in pool) for name in dict.fromkeys(one.set for one in pool)}
    shares = ", ".join(f"{number} {name}" for name, number in counts.items())
    facts = CardFacts(
        f"Pool of {len(pool)} players for {pool.where}",
        f"Players of {pool.where} for training and judging an agent that must get along with others: {shares}.",
        pool.where,
        [pool.env, *dict.fromkeys(one.algorithm for one in pool)],
        [("game", pool.where), ("members", len(pool)), ("sets", shares)],
        use="omg pool list {folder}",
        config={"env": pool.env, "env_args": pool.env_args, "members": len(pool)},
    )
    rows = [
        (
            one.name,
            one.set,
            one.algorithm,
            "" if one.seed is None else one.seed,
            one.steps,
            ""
            if one.measured is None
            else f"{one.measured.value:.3f} [{one.measured.low:.3f}, {one.measured.high:.3f}]",
        )
        for one in pool
    ]
    heading = "Members, and their score among copies of themselves (mean, 95 % interval)"
    columns = ("name", "set", "algorithm", "seed", "steps", pool.spec.success_metric)
    facts.tables.append((heading, columns, rows))
    return facts


def _run(folder: Path) -> CardFacts:
    run = RunFolder.open(folder)
    config, game = run.config(), run.where()
    newest: dict[tuple[int, str], tuple[int, float]] = {}
    for row in run.metrics():
        if str(row["name"]).startswith("test_"):
            newest[row["seed"], row["name"]] = (row["t_env"], row["value"])
    names = sorted({name for _, name in newest})
    means = {name: [value for (_, other), (_, value) in newest.items() if other == name] for name in names}
    seeds = f"{config.seed} to {config.seed + config.seeds - 1}" if config.seeds > 1 else str(config.seed)
    facts = CardFacts(
        f"{config.name} in {game}, seeds {seeds}",
        f"A training run of {config.name} in {game}: its configuration, metrics and agents. {_about(config.name)}",
        game,
        [config.train_alg or config.name, config.env],
        [
            ("algorithm or team", config.name),
            ("game", game),
            ("seeds", seeds),
            ("environment steps of each", config.t_max),
            ("status", run.status()),
        ],
        {name: sum(values) / len(values) for name, values in means.items()},
        use="omg evaluate {folder}",
        config={"algorithm": config.name, "env": config.env, "env_args": config.env_args},
    )
    rows = [(seed, t_env, name, f"{value:.4g}") for (seed, name), (t_env, value) in sorted(newest.items())]
    facts.tables.append(("Newest tests during training", ("seed", "t_env", "metric", "value"), rows))
    return facts


def _result(folder: Path) -> CardFacts:
    report = folder / "report.md"
    text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    name = folder.resolve().name
    return CardFacts(
        f"Results of {name}",
        "A whole experiment: its plan, pool, runs, evaluation and tables; the report can be made from them anew.",
        trained=[("plan", "pipeline.yaml"), ("runs", len(list(folder.glob("runs/*/config.yaml"))))],
        text=text if len(text) <= _LONGEST_REPORT else "",
        use="omg report {folder}",
    )


def _about(algorithm: str) -> str:
    return f"{line.rstrip('.')}." if (line := summary(f"algs/{algorithm}.yaml")) else ""


def _score_table(path: Path) -> tuple[str, Sequence[str], Sequence[Sequence[object]]]:
    """The means over seeds of a table of `omg evaluate --csv`, one line per agent, team and metric."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for row in read_rows(path, ScoreRow):
        found.setdefault((row.agent, row.group, row.team, row.metric), []).append(row.mean)
    rows = [(*key, f"{sum(values) / len(values):.4g}", len(values)) for key, values in found.items()]
    return "Scores with partners", ("agent", "group", "team", "metric", "mean", "seeds"), rows


def card_text(facts: CardFacts, kind: str, licence: str, hashes: Mapping[str, str], left_out: Iterable[str]) -> str:
    """README.md: the front matter that the hub reads, and the card for people.

    Args:
        facts: what is known.
        kind: of what is shared.
        licence: under which others may use it.
        hashes: place of each weights file -> SHA-256.
        left_out: what stayed at home.
    """
    label = inert(facts.title)
    front: Tree = {
        "license": licence,
        "library_name": "omg-marl",
        "pipeline_tag": _TASK,
        "tags": list(dict.fromkeys((_TASK, "multi-agent", "opponent-modelling", "omg", kind, *map(inert, facts.tags)))),
    }
    if facts.scores and facts.game:
        dataset = {"name": inert(facts.game), "type": inert(facts.game).replace(" ", "-")}
        metrics = [{"type": inert(name), "value": value} for name, value in sorted(facts.scores.items())]
        result = {"task": {"type": _TASK, "name": _TASK}, "dataset": dataset, "metrics": metrics}
        front["model-index"] = [{"name": label, "results": [result]}]
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        "",
        f"# {markdown_text(facts.title)}",
        "",
        markdown_text(facts.what),
        "",
        "```",
        "pip install omg-marl",
        "omg pull ADDRESS --output FOLDER",
        facts.use.format(folder="FOLDER"),
        "```",
        "",
        *_table("How it was made", ("what", "value"), [*facts.trained, ("version of omg", own_version())]),
    ]
    for table in facts.tables:
        lines += _table(*table)
    lines += [
        "## Files and licence",
        "",
        f"Licence: {licence}. Every file but this one is listed in `{MANIFEST}` with its SHA-256.",
        "",
    ]
    lines += [f"`{place}`: `{digest}`" for place, digest in hashes.items()] if len(hashes) <= 4 else []
    if left := ", ".join(f"`{name}`" for name in left_out):
        lines += ["", f"Left out: {left}."]
    if facts.text:
        lines += ["", facts.text.rstrip()]
    return "\n".join(lines) + "\n"


def _table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table in Markdown under a heading; of a long one the first rows."""
    if not rows:
        return []
    shown = [f"| {' | '.join(markdown_text(str(value)) for value in row)} |" for row in rows[:_MOST_ROWS]]
    more = [f"\n{len(rows) - _MOST_ROWS} more rows."] if len(rows) > _MOST_ROWS else []
    head = f"| {' | '.join(map(markdown_text, columns))} |"
    return [f"## {markdown_text(heading)}", "", head, f"|{' --- |' * len(columns)}", *shown, *more, ""]


def hub_config(facts: CardFacts, kind: str) -> Tree:
    """config.json: what the hub shows and counts by."""
    return {"library_name": "omg-marl", "omg_version": own_version(), "kind": kind, **facts.config}
