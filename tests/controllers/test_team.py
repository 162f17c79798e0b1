"""Teams: who is drawn into which seat, and that every seat plays as its own player would by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omg.components.selectors import greedy
from omg.config import resolve
from omg.controllers import build_mac
from omg.controllers.base import Lineup, PlayerView
from omg.controllers.draw import LEARNER, MANNERS, TeamDraw, TeamSlots
from omg.controllers.scripted.base import ScriptedPlayer
from omg.controllers.team import TeamPolicy, build_squad
from omg.envs import make_env
from omg.envs.base import Observation

DRAWS = 12
"""Independent draws of each example: they share its compilation."""

# ------------------------------------------------------------------------------------------------ draws


@partial(jax.jit, static_argnums=(0, 1))
def drawn(draw: TeamDraw, batch: int, keys: jax.Array) -> tuple[Lineup, jax.Array]:
    """Lineups [N, B, ...] and seats [N, B, m] of the algorithm that learns, for N keys."""
    return jax.vmap(lambda key: draw(key, batch))(keys)


def draws(draw: TeamDraw, batch: int, number: int = DRAWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First seats of the algorithm that learns [N, B], its seats [N, B, m] and the players in their slots [N, B, A]."""
    lineup, seats = jax.device_get(drawn(draw, batch, jax.random.split(jax.random.PRNGKey(seed), number)))
    first = draw.main_slots[0] if draw.main_slots else 0
    turn = (lineup.seat - first) % draw.seats
    assert (lineup.players == LEARNER).sum(axis=-1).max(initial=0) == len(draw.main_slots)
    # Slot s of a team that is turned by n seats sits at seat s + n.
    around = (np.arange(draw.seats) + turn[..., None]) % draw.seats
    return lineup.seat, seats, np.take_along_axis(lineup.players, around, axis=-1)


@st.composite
def any_draw(chooser: st.DrawFn) -> TeamDraw:
    """Teams of one to three parts, whose players may be in several parts; at most one part learns."""
    number = chooser(st.integers(1, 6))
    players = st.sets(st.integers(0, number - 1), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
    parts = [TeamSlots(chooser(st.integers(1, 4)), chooser(players)) for _ in range(chooser(st.integers(1, 3)))]
    if chooser(st.booleans()):
        parts.insert(chooser(st.integers(0, len(parts))), TeamSlots(chooser(st.integers(1, 2)), ()))
    return TeamDraw(tuple(parts), chooser(st.sampled_from(MANNERS)), chooser(st.booleans()))


def slots_of(draw: TeamDraw) -> list[tuple[TeamSlots, slice]]:
    """Every part with its slots."""
    ends = np.cumsum([part.slots for part in draw.parts])
    return [(part, slice(end - part.slots, end)) for part, end in zip(draw.parts, ends, strict=True)]


@settings(max_examples=12, deadline=None)
@given(any_draw(), st.integers(1, 25))
def test_every_draw_keeps_the_rules(draw: TeamDraw, batch: int):
    seat, seats, slots = draws(draw, batch)
    assert slots.shape == (DRAWS, batch, draw.seats)
    assert seats.shape == (DRAWS, batch, len(draw.main_slots))
    np.testing.assert_array_equal(seats, (seat[..., None] + draw.main_offsets()) % draw.seats)
    # Parts are filled from their own players alone, and from all of them alike.
    number = 1 + max(player for part in draw.parts for player in part.players)
    counts = np.zeros((number, DRAWS), int)
    for part, where in slots_of(draw):
        own = np.stack([(slots[..., where] == player).sum(axis=(1, 2)) for player in part.players or (LEARNER,)])
        assert own.sum(axis=0).tolist() == [batch * part.slots] * DRAWS
        if part.players:
            # A round is what a player gets by one card: a seat, or all seats of a game.
            rounds = {"mixed": 1, "homologue": part.slots, "odd": part.slots, "varied": 2 * part.slots + 1}
            assert (own.max(axis=0) - own.min(axis=0)).max() <= rounds[draw.manner]
            counts[list(part.players)] += own
    # However the players are cut into kinds, there are places enough for the busiest, and not many more.
    for first in range(number):
        assert counts[first].max() <= draw.places(batch, first, 1)
        assert counts[first:].max() <= draw.places(batch, first, number - first)
    shares = [batch * part.slots / len(part.players) for part in draw.parts if part.players]
    spare = sum(3 * part.slots for part in draw.parts)
    assert draw.places(batch, 0, number) <= sum(shares) + spare
    if draw.manner != "varied" and all(batch % len(part.players) == 0 for part in draw.parts if part.players):
        assert counts.max() == draw.places(batch, 0, number)
        assert (counts == counts[:, :1]).all()
    # The table is turned by every number of seats equally often.
    turn = (seat - (draw.main_slots or (0,))[0]) % draw.seats
    turns = np.stack([(turn == number).sum(axis=1) for number in range(draw.seats)])
    if draw.rotate:
        assert (turns.max(axis=0) - turns.min(axis=0)).max() <= 1
    else:
        assert turns[0].tolist() == [batch] * DRAWS


FOUR_OF_FIVE = TeamSlots(4, (0, 1, 2, 3, 4))


def test_homologue_odd_and_mixed_teams():
    def distinct(manner: str) -> np.ndarray:
        """[N * B, 5] sorted numbers of seats that the players of each team have."""
        _, _, slots = draws(TeamDraw((FOUR_OF_FIVE, TeamSlots(1, ())), manner), 30)
        teams = slots.reshape(-1, 5)[:, :4]
        return np.sort([[(team == player).sum() for player in range(5)] for team in teams], axis=1)[:, ::-1]

    assert np.unique(distinct("homologue"), axis=0).tolist() == [[4, 0, 0, 0, 0]]
    assert np.unique(distinct("odd"), axis=0).tolist() == [[3, 1, 0, 0, 0]]
    mixed = distinct("mixed")
    assert (mixed[:, 1] > 0).mean() > 0.9, "seats are drawn one by one"
    # A third of the games each, in this order.
    varied = distinct("varied").reshape(DRAWS, 30, 5)
    assert (varied[:, :10, 0] == 4).all()
    assert (varied[:, 10:20, :2] == [3, 1]).all()
    assert (varied[:, 20:, 1] > 0).mean() > 0.9


def test_the_odd_seat_is_any_and_so_is_the_odd_player():
    _, _, slots = draws(TeamDraw((FOUR_OF_FIVE,), "odd"), 60)
    teams = slots.reshape(-1, 4)
    usual = np.median(teams, axis=1)  # Of four seats three have the same player.
    where = (teams != usual[:, None]).argmax(axis=1)
    shares = np.bincount(where, minlength=4) / len(where)
    np.testing.assert_allclose(shares, 0.25, atol=0.08)
    pairs = {(int(one), int(teams[row, seat])) for row, (one, seat) in enumerate(zip(usual, where, strict=True))}
    assert pairs == {(one, other) for one in range(5) for other in range(5) if one != other}


def test_nobody_is_odd_where_there_is_nobody_else():
    _, _, alone = draws(TeamDraw((TeamSlots(3, (2,)), TeamSlots(1, (0, 1))), "odd"), 8)
    assert (alone[..., :3] == 2).all()
    assert set(np.unique(alone[..., 3])) == {0, 1}


@pytest.mark.parametrize("batch", [1, 7])
def test_every_seat_is_the_learners_equally_often(batch: int):
    """Also over many batches that are not a multiple of the seats, and when games are played one at a time."""
    draw = TeamDraw((TeamSlots(4, (0, 1)), TeamSlots(1, ())))
    seat, seats, _ = draws(draw, batch, number=1200)
    np.testing.assert_array_equal(seats[..., 0], seat)
    shares = np.bincount(seat.ravel(), minlength=5) / seat.size
    np.testing.assert_allclose(shares, 0.2, atol=0.04)
    assert len({tuple(row) for row in seat}) > 1


def test_without_a_shift_the_team_sits_in_the_order_of_its_name():
    draw = TeamDraw((TeamSlots(2, (3,)), TeamSlots(1, ()), TeamSlots(2, (0, 1))), rotate=False)
    lineup, seats = jax.device_get(drawn(draw, 6, jax.random.split(jax.random.PRNGKey(0), 2)))
    assert (lineup.seat == 2).all()
    assert (seats == 2).all()
    assert (lineup.players[..., :2] == 3).all()
    assert (lineup.players[..., 2] == LEARNER).all()
    assert set(np.unique(lineup.players[..., 3:])) == {0, 1}


def test_in_games_with_roles_the_learner_takes_its_own_seats():
    draw = TeamDraw((TeamSlots(3, (0, 1)), TeamSlots(1, ()))).seated((0, 1, 2))
    lineup, seats = jax.device_get(drawn(draw, 6, jax.random.split(jax.random.PRNGKey(0), 4)))
    assert all(np.bincount(row, minlength=4).tolist() == [2, 2, 2, 0] for row in lineup.seat)
    assert (lineup.seat == seats[..., 0]).all()
    assert (np.take_along_axis(lineup.players, seats, axis=-1) == LEARNER).all()
    assert (lineup.players[..., 3] != LEARNER).all()
    # Two neighbours fit in two ways, and a team that is not turned sits as its name says.
    assert TeamDraw((TeamSlots(2, ()), TeamSlots(2, (0,)))).seated((0, 1, 2)).turns == (0, 1)
    still = TeamDraw((TeamSlots(3, (0,)), TeamSlots(1, ())), rotate=False)
    assert still.seated((0, 1, 2)) is still
    with pytest.raises(ValueError, match="4 seats do not fit into 3"):
        TeamDraw((TeamSlots(4, ()),)).seated((0, 1, 2))


def test_several_learning_seats():
    draw = TeamDraw((TeamSlots(1, (0,)), TeamSlots(1, ()), TeamSlots(2, (1,)), TeamSlots(2, ())))
    assert draw.main_slots == (1, 4, 5)
    assert draw.main_offsets().tolist() == [0, 3, 4]
    lineup, seats = jax.device_get(drawn(draw, 12, jax.random.split(jax.random.PRNGKey(1), 4)))
    assert seats.shape == (4, 12, 3)
    np.testing.assert_array_equal(seats[..., 0], lineup.seat)
    np.testing.assert_array_equal(draw.main_seats(jnp.asarray(lineup.seat[0])), seats[0])
    at_seats = np.take_along_axis(lineup.players, seats, axis=-1)
    assert (at_seats == LEARNER).all()
    assert (lineup.players == LEARNER).sum() == 4 * 12 * 3
    # Seen from its first seat, the team is always the same way round.
    behind = np.take_along_axis(lineup.players, (lineup.seat[..., None] + [1, 2, 5]) % 6, axis=-1)
    assert (behind == [1, 1, 0]).all()


# ------------------------------------------------------------------------------------------------ squads and seats

GAMES, STEPS = 10, 5
ENV = make_env("foraging", rows=5, cols=5, players=4, max_food=2, max_player_level=2, episode_limit=8)
SPEC = ENV.spec


start, step = jax.jit(lambda key: ENV.reset(key, GAMES)), jax.jit(ENV.step)


def first_sight() -> Observation:
    return start(jax.random.PRNGKey(4))[1]


class Rule(ScriptedPlayer):
    """Acts by a rule without chance that looks at everything it is given."""

    number: int = eqx.field(static=True)

    def choose(self, obs: jax.Array, avail: jax.Array, seats: jax.Array, key: jax.Array) -> jax.Array:
        mark = (obs.sum(axis=-1) + seats * self.number)[..., None]
        return greedy(jnp.sin(mark * (1 + jnp.arange(avail.shape[-1]))), avail)


SIZES = {"rnn_hidden_dim": 8, "am_hidden_dim": 8, "subgoal_dim": 4}


def player(algorithm: str, seed: int, **changes: Any) -> Any:
    """A player with weights drawn by NumPy: compiling their initialisation would take seconds."""
    config = resolve(algorithm, "foraging", {**SIZES, **changes}, shared=SIZES).config
    shapes = jax.eval_shape(lambda: build_mac(config, SPEC, jax.random.PRNGKey(0)))
    rng = np.random.default_rng(seed)

    def draw(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        values = rng.normal(0, 0.7, leaf.shape)
        # Counts and variances of a prior are never negative.
        return jnp.asarray(np.abs(values) if "statistics" in jax.tree_util.keystr(path) else values, leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes).tested()


PLAYERS = [
    player("iql", 1),
    Rule(number=2),
    player("iql", 3),
    player("d3qn", 4),
    player("iql_idv", 5),
    player("iql", 6, obs_is_state=True),
    player("iql", 7, obs_all_last_actions=True),
    Rule(number=5),
    player("d3qn", 8),
    player("iql_am", 9),
]
"""Learned ones of all networks, one that sees the state, one with an opponent model, and two that follow rules."""


def test_a_squad_stacks_players_of_equal_structure():
    squad, position = build_squad(PLAYERS)
    assert squad.size == len(PLAYERS)
    assert sorted(position) == list(range(len(PLAYERS)))
    # The two plain IQL players and the two D3QN players share a kind each; nobody else has the same structure.
    assert sorted(squad.numbers) == [1] * 6 + [2] * 2
    assert position[2] == position[0] + 1
    assert position[8] == position[3] + 1
    firsts = np.cumsum([0, *squad.numbers[:-1]])
    for index, original in enumerate(PLAYERS):
        kind = int(np.searchsorted(firsts, position[index], side="right")) - 1
        row = position[index] - firsts[kind]
        stacked = jax.tree.leaves(squad.kinds[kind])
        assert all(leaf.shape[0] == squad.numbers[kind] for leaf in stacked)
        for leaf, own in zip(stacked, jax.tree.leaves(original), strict=True):
            np.testing.assert_array_equal(leaf[row], own)


def test_an_empty_squad_has_nobody():
    squad, position = build_squad([])
    assert (squad.size, squad.kinds, position) == (0, (), [])


class Alone:
    """The slow way: every game and seat by itself, each with its own player and memory."""

    def __init__(self, main: Any, names: list[Any], lineup: Lineup, main_seats: np.ndarray) -> None:
        self.main, self.names, self.lineup, self.main_seats = main, names, lineup, main_seats
        self.memory: dict[tuple[int, int], Any] = {}
        self.last = np.full(lineup.players.shape, -1)
        self.act = eqx.filter_jit(lambda own, view, memory: own.act_seats(view, memory, jax.random.PRNGKey(0), 0.0))

    def _one(self, own: Any, game: int, seats: list[int], seen: Observation) -> np.ndarray:
        memory = self.memory.setdefault((game, seats[0]), own.initial_seats(1, len(seats)))
        view = PlayerView(
            obs=seen.obs[None, game, jnp.array(seats)],
            state=seen.state[None, game],
            avail=seen.avail[None, game, jnp.array(seats)],
            seats=jnp.array([seats], jnp.int32),
            last_actions=jnp.asarray(self.last[None, game], jnp.int32),
        )
        actions, self.memory[game, seats[0]], self.noted = self.act(own, view, memory)
        return np.asarray(actions[0])

    def step(self, seen: Observation) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        actions = np.zeros_like(self.last)
        noted = []
        for game in range(len(self.last)):
            for seat in range(SPEC.n_agents):
                if self.lineup.players[game, seat] != LEARNER:
                    own = self.names[int(self.lineup.players[game, seat])]
                    actions[game, seat] = self._one(own, game, [seat], seen)[0]
            if self.main is not None:
                mine = self.main_seats[game].tolist()
                actions[game, mine] = self._one(self.main, game, mine, seen)
                noted.append(self.noted)
        self.last = actions
        return actions, jax.tree.map(lambda *rows: np.concatenate(rows), *noted) if noted else {}


def play_both(main: Any, draw: TeamDraw, players: list[Any]) -> tuple[np.ndarray, Lineup]:
    """Plays a few steps both ways and compares every action; returns those [T, B, A] and who sat where."""
    squad, position = build_squad(players)
    numbered = [player for _, player in sorted(zip(position, players, strict=True), key=lambda pair: pair[0])]
    policy = TeamPolicy(main, squad, draw)
    memory = jax.jit(lambda key: policy.initial(GAMES, key))(jax.random.PRNGKey(3))
    act = jax.jit(lambda *given: policy.act(*given, 0.0))
    lineup = jax.device_get(policy.lineup(memory))
    slow = Alone(main, numbered, lineup, np.asarray(memory.main_seats))
    world, seen = start(jax.random.PRNGKey(4))
    played = []
    for time in range(STEPS):
        actions, memory, record = act(seen, memory, jax.random.PRNGKey(time))
        expected, noted = slow.step(seen)
        np.testing.assert_array_equal(actions, expected)
        assert np.take_along_axis(np.asarray(seen.avail), expected[..., None], axis=-1).all()
        assert set(record) == set(noted)
        for name, values in record.items():
            np.testing.assert_allclose(values, noted[name], rtol=1e-4, atol=1e-4)
        played.append(expected)
        world, seen, _ = step(jax.random.PRNGKey(9), world, actions)
    return np.stack(played), lineup


def test_every_seat_plays_as_its_own_player_would_alone():
    main = player("iql_omg", 20)
    draw = TeamDraw((TeamSlots(3, tuple(range(len(PLAYERS)))), TeamSlots(1, ())), "mixed")
    played, lineup = play_both(main, draw, PLAYERS)
    assert set(np.unique(lineup.players)) == {LEARNER, *range(len(PLAYERS))}
    assert sorted(np.bincount(lineup.seat, minlength=4).tolist()) == [2, 2, 3, 3]
    # The comparison shows something only if the players differ, between themselves and from step to step.
    assert len(np.unique(played)) > 3
    assert (played[0] != played[-1]).any(axis=0).sum() > 2


def test_parts_of_a_team_and_several_learning_seats():
    draw = TeamDraw((TeamSlots(1, ()), TeamSlots(2, (0, 1)), TeamSlots(1, ())), "homologue")
    _, lineup = play_both(player("d3qn_am", 21), draw, PLAYERS[:2])
    assert ((lineup.players == LEARNER).sum(axis=1) == 2).all()


def test_a_team_of_frozen_players_only():
    played, lineup = play_both(None, TeamDraw((TeamSlots(4, (0, 1)),), "odd"), [PLAYERS[3], PLAYERS[1]])
    assert (lineup.players >= 0).all()
    assert len(np.unique(played)) > 1


def test_lineups_can_be_given():
    seat = np.arange(GAMES) % 4
    others = np.stack([(np.arange(GAMES) + turn) % 3 for turn in range(4)], axis=1)
    others[np.arange(GAMES), seat] = LEARNER
    given = Lineup(jnp.asarray(seat, jnp.int32), jnp.asarray(others, jnp.int32))
    parts = (TeamSlots(1, ()), TeamSlots(3, (0, 1, 2)))
    most = tuple(int((others == number).sum()) for number in range(3))
    draw = TeamDraw(parts, fixed=given, most=most)
    assert [draw.places(GAMES, first, 1) for first in range(3)] == list(most)
    assert draw.places(GAMES, 0, 3) == max(most)
    _, lineup = play_both(player("iql", 22), draw, [PLAYERS[0], PLAYERS[2], PLAYERS[1]])
    np.testing.assert_array_equal(lineup.players, others)
    np.testing.assert_array_equal(lineup.seat, seat)


def test_only_the_algorithm_that_learns_explores():
    main, squad = player("iql", 22), build_squad([PLAYERS[0], PLAYERS[1]])[0]
    policy = TeamPolicy(main, squad, TeamDraw((TeamSlots(3, (0, 1)), TeamSlots(1, ()))))
    act = jax.jit(lambda key, epsilon: policy.act(seen, memory, key, epsilon)[0])
    seen = first_sight()
    memory = jax.jit(lambda key: policy.initial(GAMES, key))(jax.random.PRNGKey(3))
    learns = np.asarray(policy.lineup(memory).players) == LEARNER
    exploring = np.stack([act(jax.random.PRNGKey(key), 1.0) for key in range(8)])
    np.testing.assert_array_equal(exploring[:, ~learns], np.broadcast_to(exploring[0, ~learns], (8, 3 * GAMES)))
    assert (exploring[:, learns] != exploring[0, learns]).any(axis=0).mean() > 0.5
    calm = np.stack([act(jax.random.PRNGKey(key), 0.0) for key in range(8)])
    np.testing.assert_array_equal(calm, np.broadcast_to(calm[0], calm.shape))


def test_only_a_bound_is_told_who_the_others_are():
    main = player("iql", 22)
    squad = build_squad([PLAYERS[0]])[0]
    draw, seen = TeamDraw((TeamSlots(3, (0,)), TeamSlots(1, ()))), first_sight()
    memory = jax.jit(lambda key: TeamPolicy(main, squad, draw).initial(GAMES, key))(jax.random.PRNGKey(0))
    for told in (False, True):
        policy = TeamPolicy(main, squad, draw, tell_players=told)
        view = policy.main_view(seen, memory)
        assert (view.players is not None) == told
        assert view.obs.shape == (GAMES, 1, SPEC.obs_dim)
        rows = jnp.arange(GAMES)
        np.testing.assert_array_equal(view.obs[:, 0], seen.obs[rows, memory.lineup.seat])
        np.testing.assert_array_equal(view.avail[:, 0], seen.avail[rows, memory.lineup.seat])
