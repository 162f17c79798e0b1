"""The games. A new one is a module with a pydantic model of its arguments and a class that satisfies `base.Env`.

Add one line to ENVS and a `config/envs/<name>.yaml`; the contract tests run on it without being touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from omg.envs.base import Env, EnvSpec, EnvState, EnvTraits, GameArgs, Observation, Outcome
from omg.envs.trust import check_word
from omg.errors import UserError, abridged, unknown_name
from omg.registry import Entry, Registry

__all__ = [
    "ENVS",
    "Env",
    "EnvSpec",
    "EnvState",
    "EnvTraits",
    "GameArgs",
    "Observation",
    "Outcome",
    "check_stored_game",
    "make_env",
    "make_stored_env",
    "parse_env_args",
    "plays_on_host",
]


ENVS: Registry[Callable[[Any], Env], EnvTraits] = Registry(
    "env",
    {
        "sc2": Entry(
            "omg.envs.adapters.smac:build_sc2",
            EnvTraits("omg.envs.battle:BattleArgs"),
            "StarCraft micro-battles: SMAC's 23 maps in a built-in simulator",
        ),
        "foraging": Entry(
            "omg.envs.foraging:Foraging",
            EnvTraits("omg.envs.foraging:ForagingArgs", on_cells=True),
            "Level-based foraging on a grid, general-sum",
        ),
        "predator_prey": Entry(
            "omg.envs.predator_prey:PredatorPrey",
            EnvTraits("omg.envs.predator_prey:PredatorPreyArgs"),
            "Slow predators hunt fast prey: MPE's simple_tag",
        ),
        "stag_hunt": Entry(
            "omg.envs.stag_hunt:StagHunt",
            EnvTraits("omg.envs.stag_hunt:StagHuntArgs", searchable=True, on_cells=True),
            "Hares for one, stags for two or more, on a board with obstacles",
        ),
        "snowdrift": Entry(
            "omg.envs.snowdrift:Snowdrift",
            EnvTraits("omg.envs.snowdrift:SnowdriftArgs", searchable=True, on_cells=True),
            "Everybody gains from a removed drift, only those who shovel pay",
        ),
        "toy_grid": Entry(
            "omg.envs.toy_grid:ToyGrid",
            EnvTraits("omg.envs.toy_grid:ToyGridArgs", on_cells=True),
            "Two players race for two cells that pay only the first to arrive",
        ),
        "rendezvous": Entry(
            "omg.envs.rendezvous:Rendezvous",
            EnvTraits("omg.envs.rendezvous:RendezvousArgs", on_cells=True),
            "Two players are paid if a round ends with both on the same corner",
        ),
        "gymma": Entry(
            "omg.envs.adapters.gymma:GymmaEnv",
            EnvTraits("omg.envs.adapters.gymma:GymmaArgs", foreign=True, on_host=True),
            "Gymnasium games of several agents: lbforaging, rware, your own",
        ),
        "pettingzoo": Entry(
            "omg.envs.adapters.zoo:ParallelZooEnv",
            EnvTraits("omg.envs.adapters.zoo:PettingZooArgs", foreign=True, on_host=True),
            "Any PettingZoo parallel environment",
        ),
        "jaxmarl": Entry(
            "omg.envs.adapters.jaxmarl:build_jaxmarl",
            EnvTraits("omg.envs.adapters.jaxmarl_args:JaxMARLArgs", foreign=True),
            "JaxMARL's games (SMAX, MPE, Overcooked, STORM, Hanabi), compiled",
        ),
    },
)
"""Word of the key `env` -> what it means; built from its typed options."""


def parse_env_args(name: str, env_args: dict[str, Any]) -> GameArgs:
    """Validates `env_args` for environment `name`; raises `UserError` that names the key."""
    if name not in ENVS:
        raise ENVS.refusal(name, kind="environment")
    model = ENVS[name].traits.args
    for key in env_args:
        if key not in model.model_fields:
            raise unknown_name(f"option of {name}", f"env_args.{key}", (f"env_args.{k}" for k in model.model_fields))
    try:
        return model(**env_args)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"env_args.{key}: got {abridged(first['input'])}. {first['msg']}.") from None


def make_env(name: str, **env_args: Any) -> Env:
    """Builds a game: `make_env("sc2", map_name="8m").spec.n_agents == 8`."""
    args = parse_env_args(name, env_args)
    return ENVS[name].build(args)


def check_stored_game(source: object, name: str, env_args: dict[str, Any]) -> None:
    """Refuses a game that a file names and only the user may name; opens nothing. See `omg.envs.trust`.

    Args:
        source: the file, for the message.
        name: of the environment.
        env_args: its options.
    """
    check_word(source, parse_env_args(name, env_args).doubt(), env_args.get("key"))


def make_stored_env(source: object, name: str, env_args: dict[str, Any]) -> Env:
    """Builds the game that a file names, if it may: arguments as in `check_stored_game`."""
    check_stored_game(source, name, env_args)
    return make_env(name, **env_args)


def plays_on_host(name: str, env_args: dict[str, Any]) -> bool:
    """Whether a configured game is no JAX program; builds nothing."""
    traits = ENVS[name].traits
    return traits.on_host if traits.foreign else parse_env_args(name, env_args).on_host()
