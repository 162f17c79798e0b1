"""Commands that show what there is: games, algorithms, configurations."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from omg.cli.tables import print_table
from omg.errors import UserError
from omg.names import inert
from omg.types import Tree

if TYPE_CHECKING:
    from omg.config.layers import Resolved
    from omg.config.overrides import CommandLine


def complete_algorithm(incomplete: str) -> list[str]:
    """The algorithms whose names begin so, for the shell; read off the files, because a shell does not wait for JAX."""
    return _names_in("algs", incomplete)


def complete_env(incomplete: str) -> list[str]:
    """The games whose names begin so, for the shell."""
    return _names_in("envs", incomplete)


def _names_in(folder: str, incomplete: str) -> list[str]:
    stems = (file.name.removesuffix(".yaml") for file in files("omg").joinpath("config", folder).iterdir())
    return sorted(stem for stem in stems if stem.startswith(incomplete) and "." not in stem)


ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="ALG", help="Algorithm (see `omg algs`) or team.", autocompletion=complete_algorithm
    ),
]
EnvConfigOption = Annotated[
    str | None,
    typer.Option(
        "--env-config", "--env_config", metavar="ENV", help="Game (see `omg envs`).", autocompletion=complete_env
    ),
]
_PAGES = {
    "d3qn_am": "iql_am",
    "d3qn_liam": "iql_liam",
    "d3qn_omg": "iql_omg",
    "direct_om": "hop",
    "hop_plus_codes": "hop_plus",
    "hop_plus_ppo": "hop_plus",
    "ippo_am": "ippo",
    "ippo_liam": "ippo",
    "ippo_meliba": "iql_meliba",
    "ippo_omg": "ippo",
    "ippo_omg_others": "iql_omg",
    "iql_idv": "iql",
    "iql_omg_point": "iql_omg",
    "ps_ppo": "ppo",
}
"""Algorithm -> the algorithm whose page describes it, where that is not its own or, with `_beta`, that without it."""


def _trust(value: bool) -> bool:
    if value:
        from omg.envs.trust import trust_all

        trust_all()
    return value


TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trust,
        help="Open whatever game the given files name, which runs its code: only for authors you trust.",
    ),
]
"""Taken by every command that reads agents, pools, runs or plans and opens their game; its callback does all."""


def envs(
    name: Annotated[
        str | None, typer.Argument(help="Show the options (env_args) of this game.", autocompletion=complete_env)
    ] = None,
) -> None:
    """List the games, or the options of one game."""
    from omg.config.layers import env_config_names, resolve, summary
    from omg.config.values import describe_field
    from omg.envs import ENVS

    if name is None:
        rows = []
        packages = ENVS.packages()
        for known in env_config_names():
            game = resolve(None, known, open_games="none").config.env
            text = ENVS[known].summary if known in ENVS else summary(f"envs/{known}.yaml")
            rows.append((known, game, _with_package(text, packages.get(known, ""))))
        print_table("Games (--env-config)", ("name", "env", "description"), rows)
        _say_complaints()
        return
    if name not in env_config_names():
        raise ENVS.refusal(name, tuple(known for known in env_config_names() if known not in ENVS), "environment")
    config = resolve(None, name, open_games="none").config
    print_table(
        f"Options of {name} (env_args.OPTION=VALUE)",
        ("option", "allowed", "default", "help"),
        [
            (option, describe_field(field), config.env_args[option], field.description or "")
            for option, field in ENVS[config.env].traits.args.model_fields.items()
        ],
    )


def algs(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this algorithm.", autocompletion=complete_algorithm)
    ] = None,
) -> None:
    """List the algorithms, or the settings of one algorithm."""
    from omg.config.algorithms import algorithm_file, algorithm_names
    from omg.config.layers import resolve

    if name is None:
        files = [(known, algorithm_file(known)) for known in algorithm_names()]
        rows = [(known, _with_package(file.summary, file.package)) for known, file in files]
        print_table("Algorithms (--config)", ("name", "description"), rows)
        _say_complaints()
        return
    file = algorithm_file(name, "algorithm")
    resolved = resolve(name, open_games="none")
    settings = [key for key, source in resolved.sources.items() if source == file.source]
    console = Console(soft_wrap=True)
    console.print(f"{name}: {_with_package(file.summary, file.package)}", markup=False, highlight=False)
    print_table(
        f"Settings of {name}, all others are the defaults",
        ("key", "value", "help"),
        [
            (key, repr(getattr(resolved.config, key)), type(resolved.config).model_fields[key].description or "")
            for key in settings
        ],
    )
    words = [f"Train it: omg train --config={name}", f"All keys: omg config --config={name}"]
    words += [] if file.package else [f"Page: {page_of(name)}"]
    console.print("\n".join(words), markup=False, highlight=False)


def _with_package(text: str, package: str) -> str:
    """The description of a part, with the package that it comes from, where that is not this one."""
    return f"{text} [{package}]".strip() if package else text


def _say_complaints() -> None:
    """Says which parts of installed packages cannot be used."""
    from omg.registry.plugins import complaints

    for line in complaints():
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(inert(f"warning: {line}"))


def page_of(algorithm: str) -> str:
    """The page of the documentation that describes an algorithm."""
    own = algorithm.removesuffix("_beta")
    return f"docs/algorithms/{_PAGES.get(own, own)}.md"


def config(
    context: typer.Context,
    config: ConfigOption = None,
    env_config: EnvConfigOption = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Plain YAML instead of a table.")] = False,
) -> None:
    """Show a complete configuration: every key, its value, where the value comes from, and what it means.

    Takes the same words as `omg train`: key=value or --key=value, dots for nesting.
    """
    from omg.config.layers import resolve
    from omg.config.values import write_yaml

    line = read_words(config, env_config, context.args, prints=True)
    resolved = resolve(line.config, line.env_config, line.overrides, open_games="teams")
    for note in resolved.notes:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(note)
    if not yaml:
        print_config(resolved)
        return
    values: Tree = resolved.config.model_dump()
    if resolved.team:
        values = {
            "team": [part._asdict() for part in resolved.team],
            "train_alg": resolved.config.train_alg,
            "members": {name: member.model_dump() for name, member in resolved.members.items()},
        }
    text = inert(write_yaml(values), lines=True)
    Console(soft_wrap=True, highlight=False, markup=False).print(text, end="")


def read_words(
    config_name: str | None, env_config: str | None, words: list[str], *, prints: bool = False
) -> CommandLine:
    """What a command line asks for: its two options, which Typer has read, and all other words.

    With `prints` the command knows what to do with Sacred's `print_config`; it is refused elsewhere.
    """
    from omg.config.overrides import CommandLine, assignments, nested, translate
    from omg.envs.trust import vouch

    for option, given in (("--config", config_name), ("--env-config", env_config)):
        if given == "":
            raise UserError(f"{option}: a name must follow, e.g. {option}=NAME.")
    line = translate(words)
    if line.print_config and not prints:
        raise UserError("print_config: is for omg train. `omg config` shows a configuration, too.")
    vouch(nested(assignments(line.overrides)).get("env_args"))
    return CommandLine(config_name or line.config, env_config or line.env_config, line.overrides, line.print_config)


def say_old_words(line: CommandLine) -> None:
    """Says what becomes of old words, in commands that make several runs of them."""
    from omg.config.old_words import old_word_notes
    from omg.config.overrides import assignments

    for note in old_word_notes(assignments(line.overrides)):
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(note)


def print_config(resolved: Resolved) -> None:
    """Every key of a configuration with its value, where that comes from, and what it means."""
    from omg.config.layers import leaves
    from omg.config.schema import sections_of
    from omg.envs import ENVS

    values = dict(leaves(resolved.config.model_dump()))
    options = ENVS[resolved.config.env].traits.args.model_fields
    if resolved.team:
        _print_team(resolved)
    groups = []
    for section in sections_of(resolved.config):
        rows = []
        for key, value in values.items():
            top, _, option = key.partition(".")
            if top in section.__annotations__:
                field = options[option] if option else section.model_fields[top]
                rows.append((key, repr(value), resolved.sources[key], field.description or ""))
        groups.append(rows)
    print_table("Configuration", ("key", "value", "from", "help"), *groups)


def _print_team(resolved: Resolved) -> None:
    from omg.config.teams import POOL

    # Left out is what follows from the team name and so differs for everybody.
    governing = resolved.config.model_dump(exclude={"name", "multi_algs", "train_alg", "team", "mac"})
    rows = []
    for part in resolved.team:
        if part.algorithm == POOL:
            rows.append((part.seats, part.algorithm, "frozen", "players of the pool init_param_path"))
            continue
        learns = part.algorithm == resolved.config.train_alg
        member = resolved.members[part.algorithm].model_dump()
        differs = ", ".join(f"{key}={member[key]!r}" for key in governing if member[key] != governing[key])
        rows.append((part.seats, part.algorithm, "learns" if learns else "frozen", "" if learns else differs))
    print_table("Team, in the order of its seats", ("seats", "algorithm", "role", "differs from the one below"), rows)
