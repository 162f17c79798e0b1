"""PPO's clipped objective, its limited critic, and values kept within what rewards allow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from omg.learners.advantages import unscaled
from omg.learners.surrogate import clipped_surrogate, value_error


def test_the_objective_is_flat_where_it_would_be_pushed_too_far():
    ratios, clip = np.array([0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 3.0]), 0.2
    slope = jax.grad(lambda ratio, advantage: clipped_surrogate(ratio, advantage, clip))
    for advantage in (2.0, -0.5):
        for ratio in ratios:
            value = float(clipped_surrogate(jnp.float32(ratio), advantage, clip))
            limited = min(max(ratio, 1 - clip), 1 + clip)
            assert value == pytest.approx(min(ratio * advantage, limited * advantage), rel=1e-6)
            too_far = ratio > 1 + clip if advantage > 0 else ratio < 1 - clip
            # Wrongly moved ratios are pulled back however far they are.
            assert float(slope(jnp.float32(ratio), advantage)) == pytest.approx(0.0 if too_far else advantage)


def test_a_limited_critic_does_not_gain_by_going_further():
    old, target, clip = 1.0, 3.0, 0.5
    for value in (0.0, 1.2, 1.4, 2.0, 3.0):
        limited = old + min(max(value - old, -clip), clip)
        expected = max((value - target) ** 2, (limited - target) ** 2)
        assert float(value_error(jnp.float32(value), old, target, clip)) == pytest.approx(expected)
        assert float(value_error(jnp.float32(value), old, target, None)) == pytest.approx((value - target) ** 2)
    slope = jax.grad(lambda value: value_error(value, old, target, clip))
    assert float(slope(jnp.float32(2.0))) == 0.0
    assert float(slope(jnp.float32(1.2))) == pytest.approx(2 * (1.2 - target))


def test_values_stay_within_what_rewards_can_add_up_to():
    scale = unscaled().witness(jnp.asarray([[[-2.0], [3.0], [99.0]]]), jnp.asarray([[1.0, 1.0, 0.0]]))
    assert (float(scale.lowest), float(scale.highest)) == (-2.0, 3.0)
    later = scale.witness(jnp.asarray([[[1.0]]]), jnp.ones((1, 1))).read(jnp.ones((1, 1, 1)), jnp.ones((1, 1)))
    assert (float(later.lowest), float(later.highest)) == (-2.0, 3.0)
    np.testing.assert_allclose(later.possible(jnp.asarray([-1e9, -7.0, 29.0, 1e9]), 0.9), [-20, -7, 29, 30], rtol=1e-5)
    assert float(later.possible(jnp.float32(1e9), 1.0)) == 1e9
