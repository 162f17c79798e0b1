"""Strange words, and ways to change text, bytes and trees. Everything is drawn from a `random.Random`."""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

STRANGE = (
    *("", " ", "0", "1", "-1", "2", "1.5", "1e3", "1e400", "-0.0", ".inf", "-.inf", ".nan", "nan", "inf", "1e-400"),
    *("2147483647", "2147483648", "4294967295", "4294967296", "3000000000", "9223372036854775807", "1e18"),
    *("9223372036854775808", "18446744073709551616", "-2147483649", "1" + "0" * 30, "9" * 5000, "-" + "9" * 5000),
    *("1_0", "1__0", "0x10", "0b1", "010", "1e", "e5", "\u0663", "\uff11\uff12"),
    *("None", "null", "~", "True", "False", "true", "yes", "off", "NaN"),
    *("!!int x", "!!int 5", "!!float x", "!!bool x", "!!null x", "!!python/object:os.system x", "!!binary x", "!x y"),
    *("!!timestamp x", "!!set {a}", "!!omap [a]", "!!pairs [a]", "!!str 5", "!!map 5", "!!seq 5", "! 5"),
    *("&a [*a]", "&a {x: *a}", "*a", "&a 1", "{<<: 1}", "{<<: [1]}", "{a: 1, a: 2}", "{[1]: 2}", "{{a: 1}: 2}"),
    *("? a", "{? [a] : b}", "- a", "a: b", "[", "]", "{", "}", "[1", "{a: 1", "'", '"', '"\\x"', "|", ">", "%", "@"),
    *("`", "#", "# x", "---", "...", "--- 1\n--- 2", "%YAML 3.0\n--- 1", "\t", "\n", "a\nb", "a\tb", "\r", "\\", "/"),
    *("[" * 1000, "{a: " * 1000, "[" * 1000 + "]" * 1000, "- " * 1000, "(" * 500, "&a " * 50),
    *("[1, 2]", "[]", "{}", "{a: 1}", "[[[]]]", "[None]", "{a: {b: {c: 1}}}", "[1, a, {b: 2}]", "a,b", ",", ",,"),
    *(
        "x" * 300,
        "x" * 5000,
        "é",
        "日本語",
        "🙂",
        "\u202e",
        "\ufeff",
        "\x00",
        "\x01",
        "\x1b[31m",
        "\x7f",
        "\ud800",
        "\u2028",
    ),
    *("$\\frac{$", "$x$", "$", "$$", "\\", "%s", "{0}", "{x}", "[red]", "[/]", "[bold", "<b>", "&amp;", "$HOME", "~/x"),
    *("..", ".", "../..", "/", "//", "/dev/null", "/proc/self/mem", "a/b", "-", "--", "-x", "=", "==", "a=b", "with"),
    *("qmix", "iql", "sc2", "8m", "rnn", "none_am", "training", "best", "7_homologue", "random", "results"),
)
"""Words that somebody, or an accident, could give."""

FRAGMENTS = (
    "\x00",
    "=",
    ".",
    ",",
    ":",
    "[",
    "{",
    "'",
    '"',
    "&a ",
    "*a",
    "!!int ",
    "\n",
    "-",
    "--",
    "$",
    "é",
    "🙂",
    " ",
    "9" * 30,
)


def word(random: Random) -> str:
    """One strange word, now and then made of several or of arbitrary characters."""
    kind = random.random()
    if kind < 0.75:
        return random.choice(STRANGE)
    if kind < 0.9:
        return mutated(random, random.choice(STRANGE))
    return "".join(random.choice(string.printable + "éß日🙂\x00") for _ in range(random.randrange(12)))


def mutated(random: Random, text: str) -> str:
    """`text` with a character or two lost, doubled, exchanged or put in."""
    for _ in range(random.randint(1, 3)):
        place = random.randint(0, len(text))
        change = random.randrange(5)
        if change == 0:
            text = text[:place] + text[place + 1 :]
        elif change == 1:
            text = text[:place] + random.choice(FRAGMENTS) + text[place:]
        elif change == 2:
            text = text[:place] + random.choice(string.printable) + text[place + 1 :]
        elif change == 3:
            text = text[:place] + text[place:] * 2
            text = text[:20_000]
        else:
            text = text[:place]
    return text


def value(random: Random) -> Any:
    """A Python value of a kind that a JSON or YAML file can hold."""
    plain: tuple[Any, ...] = (
        *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e308, float("nan"), float("inf"), float("-inf")),
        *(2**31 - 1, 2**31, 2**32, 3_000_000_000, 2**63, 2**64, 10**30, 10**4000, -(2**31) - 1),
        *("", "x", "iql", "sc2", "foraging", "x" * 300, "../..", "/", "\x00", "é🙂", "$\\frac{$", "[red]", "1", "nan"),
        *([], {}, [1], ["a"], [[]], [None], {"a": 1}, {"": None}, [[1, 2], [3]], {"format": 1}),
    )
    chosen = copy.deepcopy(random.choice(plain))
    return nested(random.choice((50, 300, 2000))) if random.random() < 0.03 else chosen


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def places(tree: Any, levels: int = 30) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a tree of mappings and lists, down to some level."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in list(pairs):
        yield tree, key
        if levels:
            yield from places(inner, levels - 1)


def changed_tree(random: Random, tree: Any) -> Any:
    """A copy of a tree with one to three of its values replaced, removed, doubled or renamed."""
    tree = copy.deepcopy(tree)  # Given trees are flat; deep ones come only from `value`.
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(places(tree))
        if not found:
            return value(random)
        container, key = random.choice(found)
        change = random.random()
        if change < 0.55:
            container[key] = value(random)
        elif change < 0.7:
            del container[key]
        elif change < 0.8 and isinstance(container, dict):
            container[random.choice((word(random), mutated(random, str(key))))] = container.pop(key)
        elif change < 0.9 and isinstance(container, list):
            container *= 2
        elif isinstance(container[key], str):
            container[key] = mutated(random, container[key])
        elif isinstance(container[key], int | float):
            container[key] = container[key] * random.choice((-1, 0, 2, 10**6, 10**12))
        else:
            container[key] = "text instead"  # Its own text may be too deep to write.
    return tree


def damaged_bytes(random: Random, data: bytes) -> bytes:
    """Bytes with bits flipped, a part lost, doubled or overwritten, or something else altogether."""
    change = random.randrange(8)
    place = random.randint(0, len(data))
    if change <= 2 and data:
        mutable = bytearray(data)
        for _ in range(random.choice((1, 1, 2, 8, 64))):
            # The beginning of a file says how the rest is read.
            limit = len(mutable) if random.random() < 0.5 else min(len(mutable), 200)
            mutable[random.randrange(limit)] ^= 1 << random.randrange(8)
        return bytes(mutable)
    if change == 3:
        return data[:place]
    if change == 4:
        return data[:place] + data[place + random.randint(1, 40) :]
    if change == 5:
        return data + data[: random.randint(0, 200)]
    if change == 6:
        return random.choice(
            (b"", b"\x00" * 100, b"\xff" * 16, b"null", b"[]", b"{}", b"1", b"\xef\xbb\xbf{}", b"\x80")
        )
    return data[:place] + random.randbytes(random.randint(1, 40)) + data[place:]


def damaged_json(random: Random, data: bytes) -> bytes:
    """A JSON file with other values, or damaged as bytes."""
    if random.random() < 0.25:
        return damaged_bytes(random, data)
    if random.random() < 0.04:
        depth = random.choice((1_000, 100_000))
        return b"[" * depth + random.choice((b"", b"]" * depth))
    tree = changed_tree(random, json.loads(data))
    try:
        return json.dumps(tree).encode("utf-8", "surrogatepass")
    except (RecursionError, ValueError):  # Too deep or too long a number for Python's own writer.
        return b'{"format": ' + b"9" * 5000 + b"}"


Damage = Callable[[Random, bytes], bytes]
