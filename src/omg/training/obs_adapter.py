"""`obs_adapter: learn`: a linear map from what a seat sees to the global state, for players that were trained on it.

The map is fitted in closed form (ridge regression) on games in which the true state is known, and measured in other
games. Each seat has a map of its own: where a unit stands in the state depends on the seat, so that seat and
observation together say more than their sum. `omg.training.adapting` gives the maps to players, agents and priors.

Letters in shapes: N time slots, A seats, O observation features, S state features.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import TypeAdapter, ValidationError

from omg.components.files import checksum, load_arrays, read_json, save_arrays, write_json
from omg.components.headers import DamagedFileError, read_header
from omg.controllers.adapted import ObsAdapter
from omg.controllers.base import Policy
from omg.envs import Env, EnvSpec
from omg.envs.adapters.host import is_hosted
from omg.envs.trust import check_bytes
from omg.errors import UserError
from omg.modules.opponent_models.prior import InputStatistics
from omg.names import inside
from omg.runners.vector import play_episodes

WEIGHTS, CARD = "obs_adapter.safetensors", "obs_adapter.json"
"""Files of an agent's or a run's folder."""
_PARTS = ("weight", "bias")
_FORMAT = 1
_GAMES = (128, 64, 64)
"""To fit on, to choose the ridge by, and to measure the error in."""
_SEED = 0x0B5
"""Of the games: the same fit whenever it is made."""
_RIDGES = (1e-6, 1e-4, 1e-2)
"""In units of the features' variances. The least gives what can be had exactly; in games with features that hardly
ever change, as on boards, it may take a rare one for a sign of anything."""
_CONSTANT = 1e-6
_SMALLEST_DEVIATION = 1e-2
"""Features that vary less count as constant in the share of variance, as in a prior's."""


@dataclass(frozen=True)
class ObsAdapterCard:
    """What is known of a map; errors are those in games that it was not fitted on."""

    env: str
    scenario: str
    players: str
    """Who played the games."""
    games: int
    """That it was fitted on."""
    explained: float
    """Share of the variance, each feature brought to deviation 1."""
    rmse: dict[str, float]
    """Kind of features -> root of the mean squared error in original units: `numbers`, `flags` (only 0 and 1 in the
    games) and `constants`."""
    features: dict[str, int]
    """Kind -> how many there are."""

    @property
    def summary(self) -> str:
        """The error in one line."""
        kinds = ", ".join(f"{value:.3g} for {self.features[kind]} {kind}" for kind, value in self.rmse.items())
        return (
            f"explains {self.explained:.1%} of the variance in games it was not fitted on (RMSE {kinds}); fitted on "
            f"{self.games} games of {self.players}"
        )


class Fitted(NamedTuple):
    """A map and what is known of it."""

    obs_adapter: ObsAdapter
    card: ObsAdapterCard


Maps = Mapping[str, Fitted]
_CARD = TypeAdapter(ObsAdapterCard)


class StatePairs(NamedTuple):
    """What is to be estimated, and from what; for one map of all seats A is 1."""

    given: np.ndarray
    """[N, A, O] float64."""
    wanted: np.ndarray
    """[N, A, S] float64."""

    def turned(self) -> StatePairs:
        """The other way round."""
        return StatePairs(self.wanted, self.given)

    def pooled(self) -> StatePairs:
        """All seats as one."""
        return StatePairs(*(values.reshape(-1, 1, values.shape[-1]) for values in self))


Games = tuple[StatePairs, StatePairs, StatePairs]
"""Time slots of games to fit on, to choose the ridge by, and to measure the error in."""


# ------------------------------------------------------------------------------------------------------------ fitting


def fit_obs_adapter(env: Env, policy: Policy, players: str) -> Fitted:
    """A map for every seat from observations to states, from games that `policy` plays.

    Args:
        env: the game; must be compiled.
        policy: acts in all seats, and may read the state.
        players: who that is, in words.

    Raises:
        UserError: the game is played on the host.
    """
    return _fit(env.spec, players, _play(env, policy))


def fit_shared(env: Env, policy: Policy, players: str) -> tuple[Fitted, Fitted, InputStatistics]:
    """One map for all seats from observations to states, one back, and statistics of the observations.

    Arguments as in `fit_obs_adapter`.
    """
    fit, choose, test = (part.pooled() for part in _play(env, policy))
    there = _fit(env.spec, players, (fit, choose, test))
    back = _fit(env.spec, players, (fit.turned(), choose.turned(), test.turned()))
    seen = fit.given[:, 0]
    statistics = InputStatistics(*(jnp.asarray(x, jnp.float32) for x in (len(seen), seen.mean(0), seen.var(0))))
    return there, back, statistics


def _play(env: Env, policy: Policy) -> Games:
    if is_hosted(env):
        raise UserError(
            f"obs_adapter: got learn, but {env.spec.name} {env.spec.scenario} is played on the host, and a map is "
            f"fitted in compiled games only. Allowed: none."
        )
    obs, state, filled = (np.asarray(values) for values in _games(env, policy, sum(_GAMES)))
    # Neighbouring games of a batch may have teams of one kind.
    order = np.random.default_rng(_SEED).permutation(len(obs))
    parts = []
    for chosen in np.split(order, np.cumsum(_GAMES)[:-1]):
        played = filled[chosen]
        given, wanted = (values[chosen][played].astype(np.float64) for values in (obs, state))
        parts.append(StatePairs(given, np.repeat(wanted[:, None], given.shape[1], axis=1)))
    return parts[0], parts[1], parts[2]


@eqx.filter_jit
def _games(env: Env, policy: Policy, games: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    batch = play_episodes(env, policy, jax.random.PRNGKey(_SEED), games, 0.0).batch
    assert batch is not None
    return batch.obs, batch.state, batch.filled


def _fit(spec: EnvSpec, players: str, games: Games) -> Fitted:
    """The map of the ridge that does best in games it was not fitted on, and its error in yet other games."""
    fit, choose, test = games
    deviation = fit.wanted.std(axis=(0, 1))
    scale = np.where(deviation < _SMALLEST_DEVIATION, 1.0, deviation) ** 2
    obs_adapter = min(_regress(fit), key=lambda one: (_squared_error(one, choose) / scale).sum())
    squared = _squared_error(obs_adapter, test)
    total = float((((test.wanted - fit.wanted.mean(axis=(0, 1))) ** 2).mean(axis=(0, 1)) / scale).sum())
    constant = deviation < _CONSTANT
    flags = ~constant & np.isin(fit.wanted, (0.0, 1.0)).all(axis=(0, 1))
    kinds = {"numbers": ~constant & ~flags, "flags": flags, "constants": constant}
    there = {kind: chosen for kind, chosen in kinds.items() if chosen.any()}
    card = ObsAdapterCard(
        spec.name,
        spec.scenario,
        players,
        _GAMES[0],
        1.0 - float((squared / scale).sum()) / total if total else 1.0,
        {kind: float(np.sqrt(squared[chosen].mean())) for kind, chosen in there.items()},
        {kind: int(chosen.sum()) for kind, chosen in there.items()},
    )
    return Fitted(obs_adapter, card)


def _squared_error(obs_adapter: ObsAdapter, pairs: StatePairs) -> np.ndarray:
    """Mean squared error of every feature, [S], in the precision of play."""
    estimate = np.asarray(obs_adapter.everywhere(jnp.asarray(pairs.given, jnp.float32)), np.float64)
    return ((estimate - pairs.wanted) ** 2).mean(axis=(0, 1))


def _regress(pairs: StatePairs) -> list[ObsAdapter]:
    """The maps of every seat, by ridge regression, one for each of `_RIDGES`."""
    weights: list[list[np.ndarray]] = [[] for _ in _RIDGES]
    biases: list[list[np.ndarray]] = [[] for _ in _RIDGES]
    for seat in range(pairs.given.shape[1]):
        inputs, targets = pairs.given[:, seat], pairs.wanted[:, seat]
        centre, middle = inputs.mean(axis=0), targets.mean(axis=0)
        deviation = inputs.std(axis=0)
        scale = np.where(deviation < _CONSTANT, 1.0, deviation)
        scaled = (inputs - centre) / scale
        gram, product = scaled.T @ scaled / len(scaled), scaled.T @ (targets - middle) / len(scaled)
        for index, ridge in enumerate(_RIDGES):
            weight = np.linalg.solve(gram + ridge * np.eye(len(gram)), product) / scale[:, None]
            weights[index].append(weight)
            biases[index].append(middle - centre @ weight)
    return [
        ObsAdapter(jnp.asarray(np.stack(weight), jnp.float32), jnp.asarray(np.stack(bias), jnp.float32))
        for weight, bias in zip(weights, biases, strict=True)
    ]


# -------------------------------------------------------------------------------------------------------------- files


def save_maps(folder: Path, maps: Maps) -> None:
    """Writes maps beside an agent or into a run's folder; the card, which says whether they are whole, comes last.

    Raises:
        UserError: the disk does not take them.
    """
    path, card = inside(folder, folder / WEIGHTS), inside(folder, folder / CARD)
    staging = path.with_name(f".writing-{path.name}")
    arrays = {
        f"{name}.{part}": np.asarray(getattr(one.obs_adapter, part)) for name, one in maps.items() for part in _PARTS
    }
    try:
        staging.unlink(missing_ok=True)
        digest = save_arrays(staging, arrays)
        os.replace(staging, path)
        write_json(
            card, {"format": _FORMAT, "sha256": digest, "maps": {name: asdict(m.card) for name, m in maps.items()}}
        )
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from None


def load_map(folder: Path, name: str, spec: EnvSpec) -> Fitted | None:
    """A map that `save_maps` wrote, of observations and states of a game; None if there is none.

    Raises:
        UserError: it is damaged, or was made for another game or other sizes.
    """
    path, card_path = inside(folder, folder / WEIGHTS), inside(folder, folder / CARD)
    if not card_path.is_file():
        return None
    try:
        stored = read_json(card_path)
        version, digest, card = stored["format"], stored["sha256"], _CARD.validate_python(stored["maps"][name])
    except (OSError, DamagedFileError, KeyError, TypeError, ValidationError) as error:
        raise UserError(f"{card_path} is damaged: {type(error).__name__}.") from None
    if version != _FORMAT:
        raise UserError(f"{card_path} has format {version!r}; this version of omg reads format {_FORMAT}.")
    sizes = (spec.n_agents, spec.obs_dim, spec.state_dim)
    try:
        header = read_header(path)
        shapes = tuple(header[f"{name}.{part}"].shape if f"{name}.{part}" in header else () for part in _PARTS)
        fits = (card.env, card.scenario, *shapes) == (spec.name, spec.scenario, sizes, (sizes[0], sizes[2]))
        check_bytes(path, sum(array.end - array.begin for array in header.values()))
        if fits and checksum(path) != digest:
            raise DamagedFileError(f"its checksum does not match {CARD}")
        weight, bias = (load_arrays(path)[f"{name}.{part}"] for part in _PARTS) if fits else (np.zeros(0), np.zeros(0))
    except (OSError, DamagedFileError) as error:
        raise UserError(f"{path} is damaged: {error}.") from None
    if not (fits and np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise UserError(
            f"{path}: a map of shape {shapes[0]} for {card.env} {card.scenario}, but {spec.name} {spec.scenario} "
            f"needs finite numbers of shape {sizes}. Delete {WEIGHTS} and {CARD} there to fit one anew."
        )
    return Fitted(ObsAdapter(jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32)), card)
