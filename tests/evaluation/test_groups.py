"""Groups of teams: what their names say is who sits in them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.refusing import refusal
from omg.evaluation import MemberName, group_names, make_groups

pools = st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(
    lambda letters: [MemberName(f"{letter}_s{index}", letter) for index, letter in enumerate(letters)]
)


@settings(max_examples=60, deadline=None)
@given(members=pools, n_agents=st.integers(2, 9), seed=st.integers(0, 5))
def test_groups_are_what_their_names_say(members: list[MemberName], n_agents: int, seed: int) -> None:
    others = n_agents - 1
    groups = make_groups(members, n_agents, None, seed)
    assert [group.name for group in groups] == group_names(n_agents)
    several = len({member.algorithm for member in members}) > 1
    for group in groups:
        assert group.members.shape == (len(members), others)
        assert len(group.teams) == len(members)
        for index, row in enumerate(group.members):
            if group.name in (f"{others}_homologue", "1_partner"):
                assert set(row) == {index}
            elif group.name == f"{others - 1}_homologue":
                assert set(row[:-1]) == {index}
                other = members[row[-1]]
                assert other.algorithm != members[index].algorithm if several else True
                assert other != members[index] or len(members) == 1
            else:
                seats = Counter(members[mate].algorithm for mate in row)
                assert max(seats.values()) - min(seats.values()) <= 1
                assert len(seats) == min(others, len({member.algorithm for member in members}))
                for algorithm, taken in seats.items():
                    there = [i for i, member in enumerate(members) if member.algorithm == algorithm]
                    assert len({mate for mate in row if mate in there}) == min(taken, len(there))
        (alone,) = make_groups(members, n_agents, [group.name], seed)
        np.testing.assert_array_equal(alone.members, group.members)
        assert alone.teams == group.teams


def test_group_names_of_the_games_of_the_field() -> None:
    assert group_names(8) == ["7_homologue", "6_homologue", "7_nonhomologue"]
    assert group_names(3) == ["2_homologue", "2_nonhomologue"]
    assert group_names(2) == ["1_partner"]
    members = [MemberName("a_s1", "a"), MemberName("b_s1", "b")]
    assert make_groups(members, 4, ["2_homologue"])[0].teams == ("2xa_s1+1xb_s1", "2xb_s1+1xa_s1")
    message = refusal(lambda: make_groups(members, 4, ["3_homolog"]))
    assert message.startswith("Unknown group of a game with 4 seats: '3_homolog'. Did you mean '3_homologue'? Allowed:")
