"""Teams that are refused: players, priors and starts that do not fit, and teams that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.teams import MODELS, stored_prior, team_config
from helpers.tiny import GAME, SETTINGS, tiny_agent, tiny_pool
from omg.cli import main
from omg.config import Config, adjust, resolve
from omg.envs import make_env
from omg.errors import UserError
from omg.pools import Pool
from omg.training.adapting import OBS_ADAPTER_HINT
from omg.training.program import Program


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """One member, so that a team from it is the same program as an untrained team."""
    return tiny_pool(tmp_path_factory.mktemp("pools") / "pool", seeds=(11,))


def refusal(config: Callable[[], Config]) -> str:
    with pytest.raises(UserError) as refused:
        Program(config())
    return str(refused.value)


def battle(team: str, **changes: Any) -> Config:
    settings = {**SETTINGS, **MODELS, "env_args": {"map_name": "3m"}, **changes}
    return adjust(resolve(team, "sc2", settings, shared=settings).config, has_gpu=False)[0]


@pytest.fixture(scope="module")
def soldiers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pool for 3m."""
    folder = tmp_path_factory.mktemp("pools") / "soldiers"
    config = battle("iql")
    env = make_env(config.env, **config.env_args)
    pool = Pool.create(folder, config.env, config.env_args, env.spec)
    pool.add(tiny_agent(folder.parent / "soldier", config, seed=1), "training")
    return folder


def test_players_of_another_game_or_view_are_refused(results: Path, pool: Pool, soldiers: Path):
    message = refusal(lambda: team_config(results, "1iql1iql_omg", init_param_path=str(soldiers)))
    assert message == (
        f"init_param_path: {soldiers} has players for sc2 3m, but the run plays foraging 4x4-2p-1f (name: sc2 against "
        f"foraging)."
    )
    other = {**GAME, "rows": 5}
    message = refusal(lambda: team_config(results, "1iql1iql_omg", init_param_path=str(pool.path), env_args=other))
    assert "has players for foraging 4x4-2p-1f, but the run plays foraging 5x4-2p-1f (scenario: " in message
    message = refusal(lambda: battle("2iql1iql_omg", init_param_path=str(soldiers), obs_is_state=True))
    assert message == (
        f"obs_is_state: the run has True (48 input features), but 'iql_s1' in {soldiers} was trained with "
        f"obs_is_state=False (30 features). Set obs_is_state=False, or train a pool with obs_is_state=True."
    )


def test_a_prior_of_other_sizes_is_refused(results: Path, tmp_path: Path):
    for key, value, needed in (
        ("subgoal_dim", 7, 4),
        ("obs_is_state", True, False),
        ("scenario", "8x8-2p-3f", "4x4-2p-1f"),
        ("env", "toy_grid", "foraging"),
    ):
        folder = tmp_path / key
        stored_prior(folder, **{key: value})
        hint = OBS_ADAPTER_HINT if key == "obs_is_state" else ""
        message = refusal(lambda folder=folder: team_config(results, "1iql1iql_omg", prior_path=str(folder)))
        assert message == (
            f"prior_path: the prior {folder} was made with {key}={value} (9 input features), but the run has "
            f"{key}={needed} (9 features). Pre-train one for this run, or change {key}{hint}."
        )
    nowhere = refusal(lambda: team_config(results, "1iql1iql_omg", prior_path=str(tmp_path / "no")))
    assert nowhere.endswith("no: there is no such folder. `omg pretrain POOL` makes one.")


def test_an_agent_of_other_shapes_is_no_start(results: Path, pool: Pool):
    given = pool.folder("iql_s11")

    def start(**changes: Any) -> str:
        return refusal(lambda: team_config(results, "1vdn1iql", init_from=str(given), **changes))

    assert start(rnn_hidden_dim=24).startswith(
        f"init_from: the agent {given} does not fit this run: 'fc1.weight' has shape (17, 16), expected (17, 24)"
    )
    assert "'fc1.weight' has shape (17, 16), expected (11, 16)" in start(obs_last_action=False)
    assert "(it was trained with agent=rnn, obs_is_state=False in foraging 4x4-2p-1f)" in start(agent="dueling")
    assert "'seats.fc1.weight' has no such weight, expected (2, 17, 16)" in start(agent="idv_rnn")
    assert start(obs_is_state=True).endswith("was trained with obs_is_state=False, but the run has obs_is_state=True.")
    nobody = refusal(lambda: team_config(results, "1vdn1iql", init_from=str(pool.path / "members" / "no")))
    assert "there is no such folder" in nobody


def test_an_update_must_fit_into_the_buffer(results: Path):
    message = refusal(lambda: team_config(results, "1iql1iql_am", buffer_size=15))
    assert message == (
        "buffer_size: got 15, but one update of a team whose seats are rotated sees batch_size 8 x 2 seats = 16 "
        "episodes. Allowed: at least 16."
    )


WRONG_TEAMS = [
    ("--config=1pool1iql_omg", "init_param_path: missing, but the team '1pool1iql_omg' takes players from a pool. "),
    (
        "--config=1vdn1iql_omg init_param_path={pool}",
        "{pool}: the pool has no members of vdn in the set 'training'. It",
    ),
    (
        "--config=1iql1iql_omg init_param_path={pool} pool_set=heldout",
        "{pool}: the pool has no members of iql in the set 'heldout'. It has: training iql=1.",
    ),
    (
        "--config=1iql1iql_omg init_param_path={pool}/no",
        "{pool}/no is not a pool: there is no such folder. `omg pool train` makes one.",
    ),
    (
        "--config=2iql1iql_omg init_param_path={pool}",
        "Team name '2iql1iql_omg' has 3 seats (2+1), but foraging 4x4-2p-1f has 2: the counts must add up to 2.",
    ),
    (
        "--config=1iql1iql_omg init_param_path={pool} obs_is_state=True",
        "obs_is_state: the run has True (9 input features), but 'iql_s11' in {pool} was trained with obs_is_state=",
    ),
    ("--config=1vdn1iql init_from={pool}/members", "{pool}/members: there is no agent in it. Expected a run folder or"),
]


@pytest.mark.parametrize(("words", "message"), WRONG_TEAMS, ids=[message[:40] for _, message in WRONG_TEAMS])
def test_wrong_teams_end_with_one_line_and_leave_nothing(
    words: str, message: str, pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    game = [f"env_args.{key}={value}" for key, value in GAME.items()]
    given = words.format(pool=pool.path).split()
    assert main(["train", *given, "--env-config=foraging", *game, f"local_results_path={tmp_path / 'results'}"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message.format(pool=pool.path)}")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "results").exists()
