"""How single old words become settings of ours: the functions that `old_word_table` names.

Each takes the word's value, some also the configuration that all other words make; it returns settings, or raises
`UserError` where there are none for that value.
"""

from __future__ import annotations

import math

from omg.config.old_words import Settings
from omg.config.schema import Config
from omg.envs import make_env
from omg.errors import UserError, unknown_name
from omg.types import Json

_LEVELS = {"debug": {"debug": True}, "info": {}, "warning": {}, "error": {}, "critical": {}}
_CRITICS = {"ac_critic": "obs", "ac_critic_ns": "obs", "cv_critic": "state", "cv_critic_ns": "state"}


def target_update(value: Json) -> Settings:
    """Copies after some episodes, or a moving average with every update."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UserError(
            f"target_update_interval_or_tau: got {value}. Allowed: whole numbers > 1, the episodes between two copies, "
            f"or a share between 0 and 1, by which every update moves the target network."
        )
    if value <= 1:
        return {"target_update_interval": 1, "target_update_unit": "updates", "target_update_tau": float(value)}
    return {"target_update_interval": value}


def network(value: Json) -> Settings:
    """A recurrent agent or a feed-forward one."""
    return {"agent": "rnn" if value else "mlp"}


def repeat_label(value: Json) -> Settings:
    """The number of a repetition as a label."""
    return {"label": f"repeat{value}"}


def game_seed(value: Json) -> Settings:
    """The seed of everything; none for None."""
    return {} if value is None else {"seed": value}


def verbose(value: Json) -> Settings:
    """More messages."""
    return {"debug": True} if value else {}


def log_level(value: Json) -> Settings:
    """Sacred's levels: `debug` and `info`; quieter ones are refused."""
    name = str(value).lower()
    if name not in _LEVELS:
        raise unknown_name("loglevel", str(value), _LEVELS)
    if name in ("warning", "error", "critical"):
        raise UserError(f"loglevel: got {value}; what a run says is one level here. Allowed: info, debug, or --quiet.")
    return _LEVELS[name]


def critic(value: Json) -> Settings:
    """What the critic sees."""
    if value not in _CRITICS:
        raise unknown_name("critic_type", str(value), _CRITICS)
    return {"critic_input": _CRITICS[value]}


def mongo(value: Json) -> Settings:
    """Sacred's `host:port:database`, `host:port`, `database` or an address."""
    text = str(value)
    sacred: Settings = {"tracker": ["sacred"], "sacred_observers": ["mongo"]}
    if text.startswith(("mongodb://", "mongodb+srv://")):
        return {**sacred, "sacred_mongo_url": text}
    *place, database = text.split(":")
    if place and database.isdigit():
        place, database = [*place, database], "sacred"
    address = f"mongodb://{':'.join(place) or 'localhost:27017'}"
    return {**sacred, "sacred_mongo_url": address, "sacred_mongo_db": database}


def sacred_files(value: Json) -> Settings:
    """Sacred's files, and with them all results, under a folder."""
    return {"tracker": ["sacred"], "sacred_observers": ["file"], "local_results_path": str(value)}


def sacred_tinydb(value: Json) -> Settings:
    """Sacred's TinyDB, and with it all results, under a folder."""
    return {"tracker": ["sacred"], "sacred_observers": ["tinydb"], "local_results_path": str(value)}


def output_type(config: Config, value: Json) -> Settings:
    """Nothing, if the outputs of the agents are of that type."""
    expected = "pi_logits" if config.selector_part.of_a_policy else "q"
    if value != expected:
        raise UserError(
            f"agent_output_type: got {value}, but with action_selector={config.action_selector} and learner="
            f"{config.learner} the outputs of an agent are {expected}. Leave it out."
        )
    return {}


def buffer_place(config: Config, value: Json) -> Settings:
    """Nothing, if the buffer lies there."""
    if value and config.use_cuda:
        raise UserError(
            "buffer_cpu_only: got True, but the buffer lies where the program runs. Allowed: False, or True with "
            "use_cuda=False. A smaller buffer_size, or buffer_dtype=float16, spares memory."
        )
    return {}


def returns(config: Config, value: Json) -> Settings:
    """Scaled returns, for learners with a critic."""
    if not value or config.learner_part.on_policy:
        return {"normalise_value": bool(value)}
    raise UserError(
        f"standardise_returns: got True, but learner={config.learner} has no critic whose returns could be scaled. "
        f"Allowed: False."
    )


def _search_only(word: str, config: Config) -> None:
    if not config.learner_part.plans:
        raise UserError(f"{word}: is a word of HOP's, but learner={config.learner} has no model of others' actions.")


def passes(config: Config, value: Json) -> Settings:
    """Passes over the episodes just played."""
    _search_only("moa_update_time", config)
    return {"hop_epochs": value}


def parts(config: Config, value: Json) -> Settings:
    """As many parts of a pass as make each no larger than `value` positions."""
    _search_only("moa_batch_size", config)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"moa_batch_size: got {value}; expected a whole number >= 1.")
    positions = config.batch_size_run * make_env(config.env, **config.env_args).spec.episode_limit
    return {"hop_minibatches": max(1, math.ceil(positions / value))}
