"""Command lines: a grammar over all commands, keys, algorithms and games, and what goes wrong in such lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from . import parts
from .harness import Case
from .material import Material
from .values import mutated, word


def line_case(random: Random, material: Material) -> Case:
    """One command line, sensible in most of its words and strange in some."""
    command = random.choice(list(_COMMANDS))
    words = [*command.split(), *_COMMANDS[command](random)]
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        words = _disturbed(random, words)
    return Case(words, lambda folder: _files(folder, material, words))


def _files(folder: Path, material: Material, words: list[str]) -> None:
    """What paths in a line can meet: a run, a pool, agents, a file, an empty folder."""
    material.copy(folder, " ".join(words))
    (folder / "file").write_text("x")
    (folder / "empty").mkdir()


def _disturbed(random: Random, words: list[str]) -> list[str]:
    place = random.randint(0, len(words))
    kind = random.randrange(6)
    if kind == 0:
        return [*words[:place], word(random), *words[place:]]
    if kind == 1:
        return words[:place] + words[place + 1 :]
    if kind == 2 and words:
        place = random.randrange(len(words))
        return [*words[:place], mutated(random, words[place]), *words[place + 1 :]]
    if kind == 3:
        shuffled = words[1:]
        random.shuffle(shuffled)
        return [*words[:1], *shuffled]
    if kind == 4:
        return [*words, *words[place:]]
    return [
        *words[:place],
        random.choice(("--help", "--", "with", "-o", "--output", "--config", "--x=", "--=1")),
        *words[place:],
    ]


def _train(random: Random) -> list[str]:
    return [*parts.named(random), *parts.settings(random), *parts.options(random, {"--quiet": parts.flag})]


def _config(random: Random) -> list[str]:
    return [*parts.named(random), *parts.settings(random), *parts.options(random, {"--yaml": parts.flag})]


def _evaluate(random: Random) -> list[str]:
    options = {
        "--pool": parts.paths,
        "--set": parts.members,
        "--group": parts.group,
        "--episodes": parts.number,
        "--seed": parts.number,
        "--which": lambda random: random.choice(("last", "best", word(random))),
        "--metric": word,
        "--explore": parts.flag,
        "--csv": parts.output,
    }
    return [*(parts.paths(random) for _ in range(random.choice((1, 1, 1, 2, 3)))), *parts.options(random, options)]


def _adapt(random: Random) -> list[str]:
    options = {
        "--pool": parts.paths,
        "--set": parts.members,
        "--players": lambda random: random.choice(("random", "nearest_food,random", word(random))),
        "--mixtures": parts.flag,
        "--episodes": parts.number,
        "--games": parts.number,
        "--seeds": parts.number,
        "--seed": parts.number,
        "--seat": parts.number,
        "--frozen": parts.flag,
        "--best-response": parts.paths,
        "--train-best-response": parts.number,
        "--output": parts.output,
    }
    agents = [random.choice(("{}", "{}", "a={}")).format(parts.paths(random)) for _ in range(random.choice((1, 1, 2)))]
    return [*agents, *parts.options(random, options), *parts.settings(random, 2)]


def _versus(random: Random) -> list[str]:
    options = {
        "--episodes": parts.number,
        "--set": parts.members,
        "--which": word,
        "--seed": parts.number,
        "--output": parts.output,
        "--env-config": parts.game,
    }
    sides = [random.choice(("battle", "battle:iql_s11", "random", parts.paths(random))) for _ in range(2)]
    return [*sides, *parts.options(random, options), *parts.settings(random, 2)]


def _crossplay(random: Random) -> list[str]:
    options = {
        "--set": parts.members,
        "--episodes": parts.number,
        "--seed": parts.number,
        "--metric": word,
        "--output": parts.output,
    }
    return [parts.paths(random), *parts.options(random, options)]


def _room(random: Random) -> list[str]:
    options = {
        "--set": parts.members,
        "--group": word,
        "--episodes": parts.number,
        "--seeds": parts.number,
        "--steps": lambda random: "0",
        "--seed": parts.number,
        "--metric": word,
        "--output": parts.output,
    }
    return [parts.paths(random), "--steps", "0", *parts.options(random, options)]


def _pool_train(random: Random) -> list[str]:
    options = {
        "--training": parts.counts,
        "--heldout": parts.counts,
        "--validation": parts.counts,
        "--scripted": lambda random: random.choice(("random:heldout", "random:training", word(random), "x:", ":x")),
        "--which": lambda random: random.choice(("best", "last", word(random))),
        "--episodes": parts.number,
        "--jobs": parts.number,
        **CLUSTER,
        "--env-config": parts.game,
        "--quiet": parts.flag,
    }
    return [parts.paths(random), *parts.options(random, options), *parts.settings(random, 3)]


CLUSTER: dict[str, Callable[[Random], str]] = {
    # None that could reach a cluster.
    "--launcher": lambda random: random.choice(("local", "slurm ", "", word(random))),
    "--address": word,
    "--machine": lambda random: random.choice(("cpus=1", "gpus=x", "=", ",", word(random))),
    "--slurm": lambda random: random.choice(("partition=$x", "time=1", word(random))),
    "--retries": lambda random: parts.number(random),
    "--files": lambda random: random.choice(("auto", word(random))),
}
"""Options about who does the parts."""


def _pipeline(random: Random) -> list[str]:
    from omg.experiments.plan import preset_names

    options = {"--output": parts.output, "--from": word, "--only": word, "--jobs": parts.number, "--quiet": parts.flag}
    options |= CLUSTER
    sections = ("train", "pool", "prior", "agents.omg", "evaluation", "adaptation", "report", "game", "x", "")
    words = []
    for _ in range(random.randint(0, 2)):
        key, value = parts.assignment(random)
        words.append(f"{random.choice(sections)}.{key}={value}")
    return [random.choice((*preset_names(), parts.paths(random))), *parts.options(random, options), *words]


def _sweep(random: Random) -> list[str]:
    ends = ("1e-4..1e-2", "1e-4..1e-2,log", "8..64,step=8", "1,2", "[1, x]", "2..1", "a..b", "..", "1..2,log=1", "")
    space = lambda random: f"{parts.assignment(random)[0]}={random.choice((*ends, word(random)))}"  # noqa: E731
    sampler = lambda random: random.choice(("tpe", "cmaes", "random", "grid", word(random)))  # noqa: E731
    options = {
        "--config": parts.algorithm,
        "--pool": parts.paths,
        "--space": space,
        "--sampler": sampler,
        "--trials": parts.number,
    }
    options |= {
        "--round": parts.number,
        "--stop": parts.flag,
        "--seeds": parts.number,
        "--set": parts.members,
        "--metric": word,
    }
    options |= {"--output": parts.output, "--quiet": parts.flag, **CLUSTER}
    plan = random.choice(([], [], [parts.paths(random)]))
    return [*plan, *parts.options(random, options), *parts.settings(random, 2)]


def _plot(random: Random) -> list[str]:
    metric = lambda random: random.choice(("test_return_mean", "loss", word(random)))  # noqa: E731
    options = {"--metric": metric, "--output": parts.output, "--interval": parts.flag, "--title": word}
    return [*(parts.paths(random) for _ in range(random.choice((1, 1, 2)))), *parts.options(random, options)]


def _report(random: Random) -> list[str]:
    options = {
        "--metric": word,
        "--output": parts.output,
        "--agent": word,
        "--title": word,
        "--lower-is-better": parts.flag,
    }
    return [*(parts.paths(random) for _ in range(random.choice((1, 1, 2)))), *parts.options(random, options)]


def _figures(random: Random) -> list[str]:
    kind = lambda random: random.choice(("png", "svg", "pdf", word(random)))  # noqa: E731
    tables = lambda random: random.choice(("csv", "parquet", word(random)))  # noqa: E731
    options = {"--metric": word, "--output": parts.output, "--agent": word, "--format": kind, "--tables": tables}
    return [*(parts.paths(random) for _ in range(random.choice((1, 1, 2)))), *parts.options(random, options)]


def _runs(random: Random) -> list[str]:
    column = lambda random: random.choice(("age", "best", "status", "folder", word(random)))  # noqa: E731
    options = {
        "--where": lambda random: f"{column(random)}{random.choice(('=', '=', '>', ''))}{word(random)}",
        "--sort": column,
        "--reverse": parts.flag,
        "--json": parts.flag,
        "--csv": parts.output,
        "--port": parts.number,
        "--every": parts.number,
    }
    return [*(parts.paths(random) for _ in range(random.choice((1, 1, 2)))), *parts.options(random, options)]


def _tail(random: Random) -> list[str]:
    options = {"--lines": parts.number, "--metric": word}
    return [parts.paths(random), *parts.options(random, options)]


def _import(random: Random) -> list[str]:
    options = {
        "--output": parts.output,
        "--pool": parts.paths,
        "--set": parts.members,
        "--prior": parts.output,
        "--seed": parts.number,
        "--steps": parts.number,
    }
    return [parts.paths(random), *parts.options(random, options), *_train(random)]


def _push(random: Random) -> list[str]:
    target = random.choice(
        ("new.zip", "file", "hf://a", "ftp://x/y.zip", "http://127.0.0.1:1/x.zip", parts.output(random))
    )
    licence = lambda random: random.choice(("mit", "mit", "MIT", word(random)))  # noqa: E731
    options = {"--licence": licence, "--scores": parts.paths, "--title": word}
    return [parts.paths(random), target, *parts.options(random, options)]


def _pull(random: Random) -> list[str]:
    source = random.choice(("gone.zip", "hf://", "https://x", "http://127.0.0.1:1/x.zip", parts.paths(random)))
    return [source, *parts.options(random, {"--output": parts.output, "--sha256": word, "--most-gb": parts.number})]


def _export(random: Random) -> list[str]:
    to = lambda random: random.choice(("pymarl", "torch", "onnx", word(random)))  # noqa: E731
    which = lambda random: random.choice(("last", "best", word(random)))  # noqa: E731
    options = {"--to": to, "--output": parts.output, "--which": which, "--seed": parts.number}
    return [parts.paths(random), *parts.options(random, options)]


def _toy(random: Random) -> list[str]:
    options = {
        "--seeds": parts.number,
        "--episodes": parts.number,
        "--size": parts.number,
        "--seed": parts.number,
        "--output": parts.output,
    }
    return parts.options(random, options)


def _bench(random: Random) -> list[str]:
    words = [
        f"{key.removeprefix('env_args.')}={value}"
        for key, value in (parts.assignment(random) for _ in range(random.randint(0, 2)))
    ]
    return [*parts.options(random, {"--seconds": parts.number, "--env": parts.game}), *words]


def _pool_show(random: Random) -> list[str]:
    return [parts.paths(random), random.choice(("iql_s11", "random", word(random)))]


_COMMANDS: dict[str, Callable[[Random], list[str]]] = {
    "train": _train,
    "train ": _train,
    "train  ": _train,
    "config": _config,
    "resume": lambda random: [parts.paths(random)],
    "evaluate": _evaluate,
    "adapt": _adapt,
    "versus": _versus,
    "crossplay": _crossplay,
    "room": _room,
    "pipeline": _pipeline,
    "sweep": _sweep,
    "pretrain": lambda random: [parts.paths(random), *parts.settings(random, 3)],
    "plot": _plot,
    "report": _report,
    "figures": _figures,
    "runs": _runs,
    "tail": _tail,
    "import": _import,
    "export": _export,
    "push": _push,
    "pull": _pull,
    "pool train": _pool_train,
    "pool list": lambda random: [
        parts.paths(random),
        *parts.options(random, {"--set": parts.members, "--algorithm": word}),
    ],
    "pool show": _pool_show,
    "envs": lambda random: random.choice(([], [parts.game(random)])),
    "algs": lambda random: [],
    "bench": _bench,
    "toy": _toy,
    "demo": lambda random: parts.options(random, {"--output": parts.output, "--quiet": parts.flag}),
    "": lambda random: [word(random) for _ in range(random.randint(0, 3))],
}
"""Command -> the words behind it. `train`, which takes most, stands here three times."""
