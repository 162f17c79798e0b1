"""Pre-training the subgoal prior on the games of a pool: an ordinary run whose learner watches and has no seat.

It is the run that these words describe, with settings that suit a prior::

    omg train --config=iql --env-config=ENV with learner=am_learner am_model=omg_am init_param_path=POOL
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from omg import api
from omg.config import Config, resolve
from omg.config.overrides import assignments
from omg.envs import check_stored_game
from omg.errors import UserError
from omg.pools import INDEX, Pool

DEFAULTS: dict[str, object] = {
    "name": "prior",
    "t_max": 100_000,
    "test_interval": 10_000,
    "updates_per_episode": 1.0,
    "batch_size": 32,
    # Games of one player, of nearly one and of several: the states of all kinds of teams.
    "team_draw": "varied",
}
"""What a prior is trained with unless told otherwise."""
_OWN_KEYS = {
    "learner": "a prior is trained by am_learner",
    "am_model": "the prior is that of omg_am",
    "init_param_path": "the pool is the first word",
    "env": "the game is the pool's",
    "env_args": "the game is the pool's",
    "seeds": "a pool has one prior",
    "save_model": "the prior must be saved",
}


def pretrain(
    pool: str | Path,
    overrides: Sequence[str] | Mapping[str, object] = (),
    *,
    console: Console | None = None,
    quiet: bool = False,
) -> api.Run:
    """Trains a subgoal prior on the games of a pool's training set.

    The prior goes into the run's folder and to `POOL/prior`, where training with `init_param_path=POOL` finds it.

    Args:
        pool: folder of the pool.
        overrides: settings as in `omg.config.resolve`, beyond `DEFAULTS`.
        console: where to print.
        quiet: no output on the screen.

    Raises:
        UserError: there is no such pool, nobody is in its training set, or the settings cannot be used.
    """
    return api.train_config(prior_config(pool, overrides), console=console, quiet=quiet)


def prior_config(pool: str | Path, overrides: Sequence[str] | Mapping[str, object] = ()) -> Config:
    """The configuration of the run that pre-trains a pool's prior; arguments as in `pretrain`."""
    opened = Pool.open(pool)
    check_stored_game(opened.path / INDEX, opened.env, opened.env_args)
    settings = assignments(overrides)
    for key in settings:
        if (reason := _OWN_KEYS.get(key.partition(".")[0])) is not None:
            raise UserError(f"{key}: cannot be set for the prior of a pool ({reason}).")
    own = {"learner": "am_learner", "am_model": "omg_am", "init_param_path": str(pool), "env_args": opened.env_args}
    seen = {"obs_is_state": bool(opened.obs_is_state)}
    told = {**DEFAULTS, **seen, **settings, **own}
    return resolve("iql", opened.env, told, shared=told.keys() - settings.keys()).config
