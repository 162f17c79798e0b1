"""Words of command lines: paths, numbers, names and settings, likely ones and strange ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .values import mutated, word


def paths(random: Random) -> str:
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


def number(random: Random) -> str:
    return random.choice(("1", "2", "0", "-1", "64", "3000000000", "1e3", "x", "", "9" * 5000, word(random)))


def algorithm(random: Random) -> str:
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


def game(random: Random) -> str:
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


def settings(random: Random, most: int = 4) -> list[str]:
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


def named(random: Random) -> list[str]:
    words = []
    if random.random() < 0.95:
        words.append(f"--config={algorithm(random)}")
    if random.random() < 0.8:
        words.append(f"--env-config={game(random)}")
    return words


def options(random: Random, options: dict[str, Callable[[Random], str]]) -> list[str]:
    words: list[str] = []
    for option, draw in options.items():
        if random.random() < 0.25:
            given = draw(random)
            words += random.choice(([option, given], [f"{option}={given}"])) if given != "flag" else [option]
    return words


def flag(random: Random) -> str:
    return "flag"


def output(random: Random) -> str:
    return random.choice(
        ("out", "out.png", "file", "empty", "", "/proc/x", "file/x", "x" * 300, "out.xyz", word(random))
    )


def members(random: Random) -> str:
    return random.choice(("training", "heldout", "validation", word(random)))


def group(random: Random) -> str:
    return random.choice(("1_homologue", "7_homologue", "mixed", word(random)))


def counts(random: Random) -> str:
    number = random.choice(("1", "2", "0", "x", "10000000000", "9" * 5000, "²", word(random)))
    return random.choice(
        (f"{algorithm(random)}={number}", f"iql={number},vdn=1", word(random), "iql=1,iql=1", "iql", "=1")
    )
