"""`omg room` with a pool of scripts: what is measured, kept, and not made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

import omg
from helpers.refusing import refusal
from omg.cli import main
from omg.envs import make_env
from omg.evaluation.rows import read_rows
from omg.evaluation.tables import ResponseRow, RoomRow, TrainedResponseRow
from omg.experiments.adaptation import Rules, adapt
from omg.experiments.room import MeasuredRoom, RoomRules, knowing, matrix, measure_room, measuring
from omg.experiments.room.keeping import ResponseNote, find_response, folder_name
from omg.pools import Pool

GAME = {"rounds": 2}
RULES = RoomRules(set="training", episodes=8, seeds=1, steps=40_000)


@pytest.fixture(scope="module", autouse=True)
def few_scripts() -> Iterator[None]:
    """A program is compiled for every kind of responder; the pool's members and a random player are enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix, "scripted_names", lambda game: ["random"])
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room") / "pool"
    made = Pool.create(folder, "rendezvous", GAME, make_env("rendezvous", **GAME).spec)
    for corner in ("nw", "se"):
        made.add_scripted(f"corner_{corner}", "training")
    return folder


@pytest.fixture(scope="module")
def found(pool: Path) -> MeasuredRoom:
    return measure_room(pool, RULES)


def test_floor_best_fixed_and_ceiling_are_those_of_the_game(found: MeasuredRoom) -> None:
    (row,) = found.rows
    assert row.floor == pytest.approx(0.1, abs=0.1)
    assert (row.best_fixed, row.chosen_on) == (pytest.approx(0.5), "training")
    assert row.ceiling == pytest.approx(1.0)
    assert row.mixture > 0.6
    assert {cell.responder for cell in found.responses} == {
        "corner_nw",
        "corner_se",
        "random",
        "response:corner_nw",
        "response:corner_se",
        "mixture",
    }


def test_responses_are_agents_like_any_other(pool: Path, found: MeasuredRoom) -> None:
    for name in ("corner_nw", "mixture"):
        agent = omg.load(pool / "room" / "responses" / name)
        assert agent.card.algorithm == "ippo"
        assert agent.config.obs_all_last_actions
    assert {row.partner: row.curve for row in found.trained} == dict.fromkeys(
        ("1xcorner_nw", "1xcorner_se", "mixture"), "flat"
    )


def test_what_is_kept_is_neither_trained_nor_played_again(
    pool: Path, found: MeasuredRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: object, **words: object) -> None:
        raise AssertionError("this was made before")

    for module, name in ((measuring, "train_responses"), (measuring, "train_to_flat"), (matrix, "evaluate_groups")):
        monkeypatch.setattr(module, name, never)
    assert measure_room(pool, RULES) == found
    # What is flat would gain nothing by a larger budget, and without one what is there is used.
    for steps in (0, 80_000):
        again = measure_room(pool, RoomRules(set="training", episodes=8, seeds=1, steps=steps))
        assert again.rows == found.rows
    # This game has one start, so that further ones are the same.
    asked: list[int] = []
    solve = knowing.exact_values
    monkeypatch.setattr(knowing, "exact_values", lambda *rest, **more: asked.append(rest[3]) or solve(*rest, **more))
    again = measure_room(pool, RoomRules(set="training", episodes=8, seeds=1, steps=0, starts=7))
    assert again.rows == found.rows
    assert asked == [7]


def test_only_what_is_damaged_is_made_again(
    pool: Path, found: MeasuredRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "pool"
    copytree(pool, copy)
    responses = copy / "room" / "responses"
    note = json.loads((responses / "corner_se.json").read_text())
    (responses / "corner_se.json").write_text(json.dumps({**note, "sha256": "0" * 64}))
    (responses / "mixture" / "weights.safetensors").unlink()
    opened = Pool.open(copy)
    assert find_response(opened, "1xcorner_nw") is not None
    assert find_response(opened, "1xcorner_se") is None
    assert find_response(opened, "mixture") is None
    trained: list[tuple[str, ...]] = []

    def trains(config: object, env: object, teams: object, *given: object) -> None:
        trained.append(teams.names)  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "train_responses", trains)
    with pytest.raises(KeyboardInterrupt):
        measure_room(copy, RULES)
    assert trained == [("1xcorner_se",)]


def test_the_command_prints_an_answer_and_writes_tables(
    pool: Path, found: MeasuredRoom, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["room", str(pool), "--set", "training", "--episodes", "8", "--seeds", "1", "--steps", "0"]) == 0
    shown = capsys.readouterr().out
    assert "There is room: 0.50 for the best fixed player, 1.00 for the best responders" in shown
    assert "3 trainings of 1 restarts each, 3 with flat curves." in shown
    folder = pool / "room"
    assert read_rows(folder / "room.csv", RoomRow)[0].ceiling == pytest.approx(found.rows[0].ceiling)
    assert len(read_rows(folder / "responses.csv", ResponseRow)) == 12
    assert len(read_rows(folder / "trained.csv", TrainedResponseRow)) == 3
    for name in ("room.png", "responses_1_partner.png", "room.html"):
        assert (folder / name).stat().st_size > 1000


def test_adaptation_takes_the_kept_responses_for_its_scale(pool: Path, found: MeasuredRoom) -> None:
    agents = {"me": pool / "room" / "responses" / "mixture"}
    rules = Rules(episodes=4, games=4, seeds=1)
    adapted = adapt(agents, pool=pool, pool_set="training", rules=rules, frozen=True)
    best = [row for row in adapted.rows if row.agent == "best_response"]
    assert {row.co_player for row in best} == {"corner_nw", "corner_se"}
    assert all(row.reward == pytest.approx(1.0) for row in best)
    assert {row.scale for row in adapted.summary} == {"best response"}
    # The room was measured by `met`, and what a seat earns is `return`.
    assert adapted.closed == []
    # With somebody whom nobody was trained for there is no such scale.
    others = adapt(agents, pool=pool, pool_set="training", players=["corner_ne"], rules=rules, frozen=True)
    assert {row.scale for row in others.summary} == {"best agent compared"}


def test_input_that_cannot_be_used_is_refused(pool: Path, tmp_path: Path) -> None:
    assert "Unknown metric 'mett'" in refusal(lambda: measure_room(pool, RoomRules(set="training", metric="mett")))
    assert "no members in the set 'heldout'" in refusal(lambda: measure_room(pool, RoomRules()))
    assert "2_homologue" in refusal(lambda: measure_room(pool, RoomRules(set="training", groups=("2_homologue",))))
    assert refusal(lambda: RoomRules(episodes=1)) == "episodes: got 1, allowed: 4 or more."
    assert main(["room", str(tmp_path / "nowhere")]) == 2
    assert main(["room", str(pool), str(pool)]) == 2
    assert main(["room", str(pool), "--output", str(pool / "pool.json")]) == 2


def test_what_is_kept_suffices_unless_training_again_might_help() -> None:
    note = ResponseNote("1xa", "f", "", 2, 900, 1000, "met", 0.5, 0.1, flat=False)
    assert note.suffices("f", 1000, 2)
    assert note.suffices("f", 0, 9)
    assert not note.suffices("other", 0, 1)
    assert not note.suffices("f", 1001, 2)
    assert not note.suffices("f", 1000, 3)
    assert replace(note, flat=True).suffices("f", 2000, 2)


def test_folders_are_called_by_their_partner() -> None:
    assert folder_name("1xcorner_nw") == "corner_nw"
    assert folder_name("7xvdn_s2") == "vdn_s2"
    assert folder_name("6xvdn_s2+1xiql_s1#2") == "6xvdn_s2+1xiql_s1-2"
    assert folder_name("+".join(f"1xqmix_s{number}" for number in range(30))).startswith("team-")
