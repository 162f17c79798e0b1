"""Which game is shown of those that were played."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.filmed import filmed
from omg.errors import UserError
from omg.experiments import shown
from omg.experiments.shown import belief_gain, middle_game, why_shown
from omg.recordings import Recording


def believing(gain: float, seed: int) -> Recording:
    """A game whose belief about places is better than standing still by `gain` in every step that counts."""
    game = filmed("toy_grid", seed=seed, steps=4)
    number = next(index for index, belief in enumerate(game.beliefs) if belief["kind"] == "places")
    columns = {name: game[name] for name in game}
    stay = np.where(np.isnan(columns[f"beliefs.{number}.stay_distance"]), np.nan, 2.0).astype(np.float32)
    columns[f"beliefs.{number}.stay_distance"] = stay
    columns[f"beliefs.{number}.distance"] = stay - np.float32(gain)
    return Recording(game.header, columns)


def test_the_game_in_the_middle_is_shown() -> None:
    games = [believing(gain, seed) for seed, gain in enumerate((0.5, -1.0, 1.5, 0.25, 0.75))]
    assert [round(belief_gain(game), 3) for game in games] == [0.5, -1.0, 1.5, 0.25, 0.75]
    assert middle_game(games) is games[0]
    assert middle_game(games[1:4]) is games[3]
    middle = 'this is the one whose belief has the median gain over "they stay where they are".'
    assert why_shown(games, "heldout") == f"Of 5 games with partners of the set heldout, played from seed 0, {middle}"


def test_games_without_beliefs_are_shown_only_where_there_are_no_others() -> None:
    silent = filmed("toy_grid", seed=9, steps=4, believes=False)
    assert np.isnan(belief_gain(silent))
    game = believing(-3.0, 1)
    assert middle_game([silent, game]) is game
    assert why_shown([silent, game], "a").startswith(
        "Of 2 games with partners of the set a, played from seed 9 (1 of them too short to compare anything), this is"
    )
    assert middle_game([silent]) is silent
    assert why_shown([silent], "a") == "The first of 1 game with partners of the set a, played from seed 9."
    with pytest.raises(UserError, match="no game"):
        middle_game([])


def test_the_game_and_its_page_are_kept_and_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    games = [believing(gain, seed) for seed, gain in enumerate((0.5, -1.0, 1.5))]
    asked: list[tuple[int, int]] = []

    def play(team: str, episodes: int, seed: int, *, views: bool) -> list[Recording]:
        assert (team, views) == ("agent beside heldout of pool", False)
        asked.append((episodes, seed))
        return games

    monkeypatch.setattr(shown, "agent_in_pool", lambda agent, pool, pool_set: f"{agent} beside {pool_set} of {pool}")
    monkeypatch.setattr(shown, "play", play)
    page = shown.show_game("agent", "pool", "heldout", tmp_path / "replay", games=3, seed=4)  # type: ignore[arg-type]
    assert (page, asked) == (tmp_path / "replay.html", [(3, 4)])
    assert Recording.read(tmp_path / "replay.omgrec").to_bytes() == games[0].to_bytes()
    text = page.read_text(encoding="utf-8")
    assert "Of 3 games with partners of the set heldout, played from seed 0, this is the one whose belief has" in text
    assert "off by 1.50 cells on average" in text
    assert "&quot;they stay where they are&quot; is off by 2.00: the belief is closer." in text
