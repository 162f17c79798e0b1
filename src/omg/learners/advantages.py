"""How good actions turned out to be: targets and advantages of played episodes, by walking back from their ends.

The time limit does not end a game: a cut episode bootstraps from the slot behind its last step, an ended one does not.
Letters in shapes: B episodes, T steps, m seats (or 1 where all get the same reward).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from omg.components import masked_mean
from omg.modules.convolutions import on_cpu


def generalised_advantages(
    reward: Array, values: Array, terminated: Array, mask: Array, gamma: float, gae_lambda: float
) -> Array:
    """Generalised advantage estimates (Schulman et al., 2016).

        delta_t = r_t + gamma (1 - terminated_t) V_{t+1} - V_t
        A_t     = delta_t + gamma lambda (1 - terminated_t) A_{t+1},      A behind the last played step is 0

    Args:
        reward: [B, T, m or 1].
        values: [B, T+1, m], the critic's at every slot.
        terminated: [B, T] bool.
        mask: [B, T] of ones for steps that were played, zeros behind them.
        gamma: Discount factor.
        gae_lambda: 0: one-step errors; 1: whole returns less the value.

    Returns:
        [B, T, m]; zero where nothing was played.
    """
    goes_on = (1.0 - terminated.astype(jnp.float32))[..., None]
    played = mask[..., None]
    delta = (reward + gamma * goes_on * values[:, 1:] - values[:, :-1]) * played

    def back(after: Array, at_step: tuple[Array, ...]) -> tuple[Array, Array]:
        error, weight = at_step
        advantage = error + weight * after
        return advantage, advantage

    # Behind the last played step every error is zero, and nothing is carried from there: what follows in the row may
    # be another episode.
    weight = gamma * gae_lambda * goes_on * played
    if not on_cpu():
        # In seven large steps, say, instead of 120 small ones.
        return lax.associative_scan(_carried_on, (delta, weight), reverse=True, axis=1)[0]
    steps = _time_first(delta, weight)
    return jnp.swapaxes(lax.scan(back, jnp.zeros_like(delta[:, 0]), steps, reverse=True)[1], 0, 1)


def _carried_on(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two stretches of steps as one: what is gained in it, and how much of what comes after it counts at its start."""
    return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]


def lambda_targets(
    reward: Array, values: Array, terminated: Array, mask: Array, gamma: float, td_lambda: float
) -> Array:
    """TD(lambda) targets: what a step was worth, by the rewards behind it and the values along the way.

        G_t = r_t + gamma (1 - terminated_t) ((1 - lambda) V_{t+1} + lambda G_{t+1})

    where G_{t+1} is V_{t+1} itself behind the last played step.

    Args:
        reward: [B, T, m or 1].
        values: [B, T+1, m], e.g. a target network's value of the action taken in each slot.
        terminated: [B, T] bool.
        mask: [B, T] of ones for steps that were played, zeros behind them.
        gamma: Discount factor.
        td_lambda: 0: one-step targets; 1: whole returns.

    Returns:
        [B, T, m]; the value itself where nothing was played.
    """
    goes_on = (1.0 - terminated.astype(jnp.float32))[..., None]
    played = mask[..., None] > 0
    reward = jnp.broadcast_to(reward, values[:, :-1].shape)

    def back(after: Array, at_step: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, weight, value, next_value, played = at_step
        target = reward + weight * ((1.0 - td_lambda) * next_value + td_lambda * after)
        target = jnp.where(played, target, value)
        return target, target

    steps = _time_first(reward, gamma * goes_on, values[:, :-1], values[:, 1:], played)
    return jnp.swapaxes(lax.scan(back, values[:, -1], steps, reverse=True)[1], 0, 1)


def standardised(values: Array, mask: Array) -> Array:
    """Values [B, T, m] less their mean and over their deviation, both over the masked steps [B, T] and all seats."""
    mean = masked_mean(values, mask)
    deviation = jnp.sqrt(masked_mean((values - mean) ** 2, mask))
    return (values - mean) / (deviation + 1e-8) * mask[..., None]


class ValueScale(NamedTuple):
    """What has been seen of returns and rewards, by which a critic's outputs are scaled and kept within reason."""

    mean: Array
    """float32 scalar, the faded sum of the batches' means; divided by `weight` it is their average."""
    square: Array
    """float32 scalar, the same of the means of squares."""
    weight: Array
    """float32 scalar, the faded count of batches as a share of 1; 0 before the first."""
    lowest: Array
    """float32 scalar, the least that any step has paid so far, at most 0."""
    highest: Array
    """float32 scalar, the most, at least 0."""

    def read(self, values: Array, mask: Array) -> ValueScale:
        """With another batch of returns [B, T, m] and mask [B, T] taken in; older ones fade."""
        news = (masked_mean(values, mask), masked_mean(values**2, mask), jnp.float32(1.0))
        mean, square, weight = (_FADE * old + (1.0 - _FADE) * new for old, new in zip(self[:3], news, strict=True))
        return self._replace(mean=mean, square=square, weight=weight)

    def witness(self, reward: Array, mask: Array) -> ValueScale:
        """With the rewards [B, T, m or 1] of a batch taken in."""
        paid = jnp.where(mask[..., None] > 0, reward, 0.0)
        return self._replace(
            lowest=jnp.minimum(self.lowest, jnp.min(paid)), highest=jnp.maximum(self.highest, jnp.max(paid))
        )

    def possible(self, values: Array, gamma: float) -> Array:
        """Returns moved to the nearest that any sequence of the rewards seen could have.

        An episode cut by the time limit bootstraps from its last position. Where positions have no bounds, a critic is
        asked for values far from all that it knows, learns from its own answers, and runs away.
        """
        if gamma >= 1.0:
            return values
        return jnp.clip(values, self.lowest / (1.0 - gamma), self.highest / (1.0 - gamma))

    @property
    def moments(self) -> tuple[Array, Array]:
        """Mean and deviation; 0 and 1 before the first batch."""
        weight = jnp.maximum(self.weight, 1e-6)
        mean, known = self.mean / weight, self.weight > 0
        deviation = jnp.sqrt(jnp.maximum(self.square / weight - mean**2, 1e-4))
        return jnp.where(known, mean, 0.0), jnp.where(known, deviation, 1.0)

    def change_to(self, new: ValueScale) -> tuple[Array, Array]:
        """Gain and offset that turn outputs on this scale into outputs on a new one of the same meaning.

        Outputs that were made before the first batch mean nothing yet: they stay, so that they come to lie about the
        mean of the returns, instead of having to learn it.
        """
        (mean, deviation), (new_mean, new_deviation) = self.moments, new.moments
        known = self.weight > 0
        gain, offset = deviation / new_deviation, (mean - new_mean) / new_deviation
        return jnp.where(known, gain, 1.0), jnp.where(known, offset, 0.0)

    def shrink(self, values: Array) -> Array:
        """From returns to the critic's scale."""
        mean, deviation = self.moments
        return (values - mean) / deviation

    def stretch(self, values: Array) -> Array:
        """From the critic's scale to returns."""
        mean, deviation = self.moments
        return values * deviation + mean


_FADE = 0.95
"""Share of the old statistics that stays when a round of episodes is read."""


def unscaled() -> ValueScale:
    """Before the first batch: values stay as they are."""
    return ValueScale(*(jnp.zeros((), jnp.float32) for _ in ValueScale._fields))


def _time_first(*values: Array) -> tuple[Array, ...]:
    """[B, T, ...] each -> [T, B, ...] each."""
    return tuple(jnp.swapaxes(value, 0, 1) for value in values)
