"""Commands that show what there is: games, algorithms, configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from omg.cli.tables import print_table
from omg.errors import UserError

if TYPE_CHECKING:
    from omg.config.layers import Resolved
    from omg.config.overrides import CommandLine

ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="ALG", help="Algorithm (see `omg algs`) or team.")
]
EnvConfigOption = Annotated[
    str | None, typer.Option("--env-config", "--env_config", metavar="ENV", help="Game (see `omg envs`).")
]


def envs(
    name: Annotated[str | None, typer.Argument(help="Show the options (env_args) of this game.")] = None,
) -> None:
    """List the games, or the options of one game."""
    from omg.config.layers import env_config_names, resolve, summary
    from omg.config.values import describe_field
    from omg.envs import ENVS
    from omg.errors import unknown_name

    if name is None:
        rows = []
        for known in env_config_names():
            game = resolve(None, known).config.env
            text = ENVS[known].summary if known in ENVS else summary(f"envs/{known}.yaml")
            rows.append((known, game, text))
        print_table("Games (--env-config)", ("name", "env", "description"), rows)
        return
    if name not in env_config_names():
        raise unknown_name("environment", name, env_config_names())
    config = resolve(None, name).config
    print_table(
        f"Options of {name} (env_args.OPTION=VALUE)",
        ("option", "allowed", "default", "help"),
        [
            (option, describe_field(field), config.env_args[option], field.description or "")
            for option, field in ENVS[config.env].args.model_fields.items()
        ],
    )


def algs() -> None:
    """List the algorithms."""
    from omg.config.layers import algorithm_names, summary

    rows = [(name, summary(f"algs/{name}.yaml")) for name in algorithm_names()]
    print_table("Algorithms (--config)", ("name", "description"), rows)


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

    line = read_words(config, env_config, context.args)
    resolved = resolve(line.config, line.env_config, line.overrides)
    if not yaml:
        _print_config(resolved)
        return
    values: dict[str, Any] = resolved.config.model_dump()
    if resolved.team:
        values = {
            "team": [part._asdict() for part in resolved.team],
            "train_alg": resolved.config.train_alg,
            "members": {name: member.model_dump() for name, member in resolved.members.items()},
        }
    Console(soft_wrap=True, highlight=False, markup=False).print(write_yaml(values), end="")


def read_words(config_name: str | None, env_config: str | None, words: list[str]) -> CommandLine:
    """What a command line asks for: its two options, which Typer has read, and all other words."""
    from omg.config.overrides import CommandLine, translate

    for option, given in (("--config", config_name), ("--env-config", env_config)):
        if given == "":
            raise UserError(f"{option}: a name must follow, e.g. {option}=NAME.")
    line = translate(words)
    return CommandLine(config_name or line.config, env_config or line.env_config, line.overrides)


def _print_config(resolved: Resolved) -> None:
    from omg.config.layers import leaves
    from omg.config.schema import SECTIONS
    from omg.envs import ENVS

    values = dict(leaves(resolved.config.model_dump()))
    options = ENVS[resolved.config.env].args.model_fields
    if resolved.team:
        _print_team(resolved)
    groups = []
    for section in SECTIONS:
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
