"""Command lines: a grammar over all commands, keys, algorithms and games, and what goes wrong in such lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

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


def _paths(random: Random) -> str:
    known = (
        "run",
        "pool",
        "agent",
        "battle",
        "battle:iql_s11",
        "pool:iql_s11",
        "pool:",
        ":",
        "pool:x",
        "prior",
        "file",
    )
    return random.choice((*known, *known, "empty", "missing", "", ".", word(random), "x" * 300, "run/config.yaml"))


def _number(random: Random) -> str:
    return random.choice(("1", "2", "0", "-1", "64", "3000000000", "1e3", "x", "", "9" * 5000, word(random)))


def _algorithm(random: Random) -> str:
    from omg.config import algorithm_names

    names = algorithm_names()
    kind = random.random()
    if kind < 0.6:
        return random.choice(names)
    if kind < 0.8:
        parts = (
            f"{random.choice((0, 1, 1, 2, 7, 10**9))}{random.choice((*names, 'pool'))}"
            for _ in range(random.randint(1, 3))
        )
        return "".join(parts)
    return random.choice(
        (mutated(random, random.choice(names)), word(random), "9" * 5000 + "iql", "1iql" * 300, "1" * 300)
    )


def _game(random: Random) -> str:
    from omg.config import env_config_names

    names = env_config_names()
    return (
        random.choice(names)
        if random.random() < 0.85
        else random.choice((mutated(random, random.choice(names)), word(random)))
    )


def assignment(random: Random) -> tuple[str, str]:
    """A key of the configuration or of a game, and a value: a likely one, or a strange one."""
    from omg.config import Config
    from omg.envs import ENVS
    from omg.registry.keys import words_of

    if random.random() < 0.3:
        entry = ENVS[random.choice([name for name, entry in ENVS.items() if not entry.traits.foreign])]
        options = list(entry.traits.args.model_fields)
        key = f"env_args.{random.choice(options)}"
    else:
        key = random.choice(list(Config.model_fields))
    kind = random.random()
    if kind < 0.35:
        return key, word(random)
    if kind < 0.6:
        return key, random.choice(("0", "1", "2", "4", "8", "100", "0.5", "0.1", "True", "False", "None", "3e9", "1e6"))
    words = words_of(key, Config.model_fields[key]) if key in Config.model_fields else ()
    if words:
        return key, random.choice(list(words))
    return key, random.choice(
        ("8m", "3m", "27m_vs_30m", "run", "pool", "prior", "agent", "file", "missing", "5", word(random))
    )


def _settings(random: Random, most: int = 4) -> list[str]:
    words: list[str] = []
    for _ in range(random.choice((0, 0, 1, 1, most))):
        key, value = assignment(random)
        if random.random() < 0.08:
            key = random.choice((mutated(random, key), word(random), f"{key}.x", f"{key}.{key}", key + "." * 50, ""))
        words += random.choice(
            ([f"{key}={value}"], [f"--{key}={value}"], [f"--{key}", value], [f"--{key.replace('_', '-')}={value}"])
        )
    if random.random() < 0.3:
        words.insert(0, "with")
    return words


def _named(random: Random) -> list[str]:
    words = []
    if random.random() < 0.95:
        words.append(f"--config={_algorithm(random)}")
    if random.random() < 0.8:
        words.append(f"--env-config={_game(random)}")
    return words


def _options(random: Random, options: dict[str, Callable[[Random], str]]) -> list[str]:
    words: list[str] = []
    for option, draw in options.items():
        if random.random() < 0.25:
            given = draw(random)
            words += random.choice(([option, given], [f"{option}={given}"])) if given != "flag" else [option]
    return words


def _flag(random: Random) -> str:
    return "flag"


def _output(random: Random) -> str:
    return random.choice(
        ("out", "out.png", "file", "empty", "", "/proc/x", "file/x", "x" * 300, "out.xyz", word(random))
    )


def _set(random: Random) -> str:
    return random.choice(("training", "heldout", "validation", word(random)))


def _group(random: Random) -> str:
    return random.choice(("1_homologue", "7_homologue", "mixed", word(random)))


def _counts(random: Random) -> str:
    number = random.choice(("1", "2", "0", "x", "10000000000", "9" * 5000, "²", word(random)))
    return random.choice(
        (f"{_algorithm(random)}={number}", f"iql={number},vdn=1", word(random), "iql=1,iql=1", "iql", "=1")
    )


def _train(random: Random) -> list[str]:
    return [*_named(random), *_settings(random), *_options(random, {"--quiet": _flag})]


def _config(random: Random) -> list[str]:
    return [*_named(random), *_settings(random), *_options(random, {"--yaml": _flag})]


def _evaluate(random: Random) -> list[str]:
    options = {
        "--pool": _paths,
        "--set": _set,
        "--group": _group,
        "--episodes": _number,
        "--seed": _number,
        "--which": lambda random: random.choice(("last", "best", word(random))),
        "--metric": word,
        "--explore": _flag,
        "--csv": _output,
    }
    return [*(_paths(random) for _ in range(random.choice((1, 1, 1, 2, 3)))), *_options(random, options)]


def _adapt(random: Random) -> list[str]:
    options = {
        "--pool": _paths,
        "--set": _set,
        "--players": lambda random: random.choice(("random", "nearest_food,random", word(random))),
        "--mixtures": _flag,
        "--episodes": _number,
        "--games": _number,
        "--seeds": _number,
        "--seed": _number,
        "--seat": _number,
        "--frozen": _flag,
        "--best-response": _paths,
        "--train-best-response": _number,
        "--output": _output,
    }
    agents = [random.choice(("{}", "{}", "a={}")).format(_paths(random)) for _ in range(random.choice((1, 1, 2)))]
    return [*agents, *_options(random, options), *_settings(random, 2)]


def _versus(random: Random) -> list[str]:
    options = {
        "--episodes": _number,
        "--set": _set,
        "--which": word,
        "--seed": _number,
        "--output": _output,
        "--env-config": _game,
    }
    sides = [random.choice(("battle", "battle:iql_s11", "random", _paths(random))) for _ in range(2)]
    return [*sides, *_options(random, options), *_settings(random, 2)]


def _crossplay(random: Random) -> list[str]:
    options = {"--set": _set, "--episodes": _number, "--seed": _number, "--metric": word, "--output": _output}
    return [_paths(random), *_options(random, options)]


def _room(random: Random) -> list[str]:
    options = {
        "--set": _set,
        "--group": word,
        "--episodes": _number,
        "--seeds": _number,
        "--steps": lambda random: "0",
        "--seed": _number,
        "--metric": word,
        "--output": _output,
    }
    return [_paths(random), "--steps", "0", *_options(random, options)]


def _pool_train(random: Random) -> list[str]:
    options = {
        "--training": _counts,
        "--heldout": _counts,
        "--validation": _counts,
        "--scripted": lambda random: random.choice(("random:heldout", "random:training", word(random), "x:", ":x")),
        "--which": lambda random: random.choice(("best", "last", word(random))),
        "--episodes": _number,
        "--jobs": _number,
        **CLUSTER,
        "--env-config": _game,
        "--quiet": _flag,
    }
    return [_paths(random), *_options(random, options), *_settings(random, 3)]


CLUSTER: dict[str, Callable[[Random], str]] = {
    # None that could reach a cluster.
    "--launcher": lambda random: random.choice(("local", "slurm ", "", word(random))),
    "--address": word,
    "--machine": lambda random: random.choice(("cpus=1", "gpus=x", "=", ",", word(random))),
    "--slurm": lambda random: random.choice(("partition=$x", "time=1", word(random))),
    "--retries": lambda random: _number(random),
    "--files": lambda random: random.choice(("auto", word(random))),
}
"""Options about who does the parts."""


def _pipeline(random: Random) -> list[str]:
    from omg.experiments.plan import preset_names

    options = {"--output": _output, "--from": word, "--only": word, "--jobs": _number, "--quiet": _flag}
    options |= CLUSTER
    sections = ("train", "pool", "prior", "agents.omg", "evaluation", "adaptation", "report", "game", "x", "")
    words = []
    for _ in range(random.randint(0, 2)):
        key, value = assignment(random)
        words.append(f"{random.choice(sections)}.{key}={value}")
    return [random.choice((*preset_names(), _paths(random))), *_options(random, options), *words]


def _sweep(random: Random) -> list[str]:
    ends = ("1e-4..1e-2", "1e-4..1e-2,log", "8..64,step=8", "1,2", "[1, x]", "2..1", "a..b", "..", "1..2,log=1", "")
    space = lambda random: f"{assignment(random)[0]}={random.choice((*ends, word(random)))}"  # noqa: E731
    sampler = lambda random: random.choice(("tpe", "cmaes", "random", "grid", word(random)))  # noqa: E731
    options = {"--config": _algorithm, "--pool": _paths, "--space": space, "--sampler": sampler, "--trials": _number}
    options |= {"--round": _number, "--stop": _flag, "--seeds": _number, "--set": _set, "--metric": word}
    options |= {"--output": _output, "--quiet": _flag, **CLUSTER}
    plan = random.choice(([], [], [_paths(random)]))
    return [*plan, *_options(random, options), *_settings(random, 2)]


def _plot(random: Random) -> list[str]:
    metric = lambda random: random.choice(("test_return_mean", "loss", word(random)))  # noqa: E731
    options = {"--metric": metric, "--output": _output, "--interval": _flag, "--title": word}
    return [*(_paths(random) for _ in range(random.choice((1, 1, 2)))), *_options(random, options)]


def _report(random: Random) -> list[str]:
    options = {"--metric": word, "--output": _output, "--agent": word, "--title": word, "--lower-is-better": _flag}
    return [*(_paths(random) for _ in range(random.choice((1, 1, 2)))), *_options(random, options)]


def _figures(random: Random) -> list[str]:
    kind = lambda random: random.choice(("png", "svg", "pdf", word(random)))  # noqa: E731
    tables = lambda random: random.choice(("csv", "parquet", word(random)))  # noqa: E731
    options = {"--metric": word, "--output": _output, "--agent": word, "--format": kind, "--tables": tables}
    return [*(_paths(random) for _ in range(random.choice((1, 1, 2)))), *_options(random, options)]


def _runs(random: Random) -> list[str]:
    column = lambda random: random.choice(("age", "best", "status", "folder", word(random)))  # noqa: E731
    options = {
        "--where": lambda random: f"{column(random)}{random.choice(('=', '=', '>', ''))}{word(random)}",
        "--sort": column,
        "--reverse": _flag,
        "--json": _flag,
        "--csv": _output,
        "--port": _number,
        "--every": _number,
    }
    return [*(_paths(random) for _ in range(random.choice((1, 1, 2)))), *_options(random, options)]


def _tail(random: Random) -> list[str]:
    options = {"--lines": _number, "--metric": word}
    return [_paths(random), *_options(random, options)]


def _import(random: Random) -> list[str]:
    options = {
        "--output": _output,
        "--pool": _paths,
        "--set": _set,
        "--prior": _output,
        "--seed": _number,
        "--steps": _number,
    }
    return [_paths(random), *_options(random, options), *_train(random)]


def _push(random: Random) -> list[str]:
    target = random.choice(("new.zip", "file", "hf://a", "ftp://x/y.zip", "http://127.0.0.1:1/x.zip", _output(random)))
    licence = lambda random: random.choice(("mit", "mit", "MIT", word(random)))  # noqa: E731
    options = {"--licence": licence, "--scores": _paths, "--title": word}
    return [_paths(random), target, *_options(random, options)]


def _pull(random: Random) -> list[str]:
    source = random.choice(("gone.zip", "hf://", "https://x", "http://127.0.0.1:1/x.zip", _paths(random)))
    return [source, *_options(random, {"--output": _output, "--sha256": word, "--most-gb": _number})]


def _export(random: Random) -> list[str]:
    to = lambda random: random.choice(("pymarl", "torch", "onnx", word(random)))  # noqa: E731
    which = lambda random: random.choice(("last", "best", word(random)))  # noqa: E731
    options = {"--to": to, "--output": _output, "--which": which, "--seed": _number}
    return [_paths(random), *_options(random, options)]


def _toy(random: Random) -> list[str]:
    options = {"--seeds": _number, "--episodes": _number, "--size": _number, "--seed": _number, "--output": _output}
    return _options(random, options)


def _bench(random: Random) -> list[str]:
    words = [
        f"{key.removeprefix('env_args.')}={value}"
        for key, value in (assignment(random) for _ in range(random.randint(0, 2)))
    ]
    return [*_options(random, {"--seconds": _number, "--env": _game}), *words]


def _pool_show(random: Random) -> list[str]:
    return [_paths(random), random.choice(("iql_s11", "random", word(random)))]


_COMMANDS: dict[str, Callable[[Random], list[str]]] = {
    "train": _train,
    "train ": _train,
    "train  ": _train,
    "config": _config,
    "resume": lambda random: [_paths(random)],
    "evaluate": _evaluate,
    "adapt": _adapt,
    "versus": _versus,
    "crossplay": _crossplay,
    "room": _room,
    "pipeline": _pipeline,
    "sweep": _sweep,
    "pretrain": lambda random: [_paths(random), *_settings(random, 3)],
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
    "pool list": lambda random: [_paths(random), *_options(random, {"--set": _set, "--algorithm": word})],
    "pool show": _pool_show,
    "envs": lambda random: random.choice(([], [_game(random)])),
    "algs": lambda random: [],
    "bench": _bench,
    "toy": _toy,
    "demo": lambda random: _options(random, {"--output": _output, "--quiet": _flag}),
    "": lambda random: [word(random) for _ in range(random.randint(0, 3))],
}
"""Command -> the words behind it. `train`, which takes most, stands here three times."""
