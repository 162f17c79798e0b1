"""The pools in the repository can be unpacked and played with: a change of formats must not shut them out."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import jax.numpy as jnp
import pytest

from omg.pools import Agent
from omg.pools.index import Pool
from omg.pools.priors import load_prior, pool_prior

KEPT = Path(__file__).parents[2] / "benchmarks" / "pools"


@pytest.fixture(scope="module")
def eight_marines(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    folder = tmp_path_factory.mktemp("pools")
    with tarfile.open(KEPT / "8m.tar.xz") as archive:
        archive.extractall(folder)
    return Pool.open(folder / "8m")


def test_the_pool_of_8m_is_whole(eight_marines: Pool):
    eight_marines.check()
    assert Counter(member.set for member in eight_marines) == {"training": 10, "validation": 6, "heldout": 30}
    assert Counter(member.algorithm for member in eight_marines) == {"iql": 16, "vdn": 15, "qmix": 15}


@pytest.mark.parametrize("name", ["iql_s7", "vdn_s6", "qmix_s6"])
def test_members_of_the_pool_of_8m_act(eight_marines: Pool, name: str):
    agent = eight_marines.load(name)
    assert isinstance(agent, Agent)
    spec = agent.spec
    seats = (1, spec.n_agents)
    legal = jnp.zeros((*seats, spec.n_actions), bool).at[..., 3:5].set(True)
    actions, _ = agent.act(jnp.zeros((*seats, spec.obs_dim)), legal, agent.initial())
    assert actions.shape == seats
    assert {int(action) for action in actions.ravel()} <= {3, 4}


def test_the_pool_of_8m_has_its_prior(eight_marines: Pool):
    place = pool_prior(eight_marines.path)
    assert place is not None
    _, card = load_prior(place)
    assert (card.env, card.scenario) == ("sc2", "8m")
    assert set(card.players) == {member.name for member in eight_marines.members("training")}
