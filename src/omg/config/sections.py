"""The keys that belong to no part: the run, play, data, what seats see, the game, teams, the start.

Every other key stands in the section of the part that reads it, beside that part: `omg.learners.keys`,
`omg.controllers.keys`, `omg.modules.*.keys`, `omg.runners.keys`. Every key has a type, a range where one makes sense, a
default and a one-line help text.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from omg.envs import ENVS, parse_env_args
from omg.registry.keys import FileName, Keys, ManyWords, PartName, PartNames, When, Words
from omg.registry.kinds import Episodes, Few, Many, Real, Steps, Whole
from omg.types import Json


class RunKeys(Keys):
    """How long a run takes, how it is tested, saved and logged."""

    name: FileName = Field(
        "omg",
        description="Label of the run and of its folder; the configuration's name unless given",
    )
    seed: Whole = Field(1, ge=0, le=2**31 - 1, description="Seed of all random numbers")
    seeds: Few = Field(1, ge=1, description="Number of seeds trained as one program: seed, seed+1, ...")
    devices: Few = Field(
        1, ge=1, description="Devices of this machine that share the seeds of a run, or the games of its only seed"
    )
    by_seed: dict[str, list[Real]] = Field(
        {}, description="Learning rate or weight of the entropy -> its value in each seed, instead of one for all"
    )
    t_max: Steps = Field(2_050_000, ge=1, description="Environment steps of the whole run, per seed")
    test_interval: Steps = Field(10_000, ge=1, description="Environment steps between tests")
    test_nepisode: Episodes = Field(32, ge=1, description="Episodes of each test")
    test_greedy: bool = Field(True, description="Tests take the best action instead of exploring")
    log_interval: Steps = Field(10_000, ge=1, description="Environment steps between logged training metrics")
    save_model: bool = Field(True, description="Write checkpoints")
    save_model_interval: Steps = Field(200_000, ge=1, description="Environment steps between resumable checkpoints")
    save_buffer: bool = Field(True, description="Checkpoints contain the replay buffer; needed for an exact resume")
    keep_checkpoints: Many = Field(2, ge=2, description="Number of newest checkpoints kept; older ones are deleted")
    save_agents_at: list[Steps] = Field(
        [], max_length=100, description="Environment steps at which the agents of that time are kept besides"
    )
    local_results_path: str = Field("results", min_length=1, description="Folder under which run folders are made")
    use_cuda: bool = Field(True, description="Use the GPU where there is one")
    use_tensorboard: bool = Field(True, description="Write TensorBoard event files into the run folder")
    tracker: PartNames = Field(
        [], description="Further records of the run, separated by commas: sacred, wandb, mlflow, aim"
    )
    measure: PartNames = Field([], description="Measures of other packages that tests take, separated by commas")
    early_stop_metric: str | None = Field(
        None, min_length=1, description="Test metric that can end the run early, e.g. test_battle_won_mean"
    )
    early_stop_value: Real | None = Field(None, description="Value of early_stop_metric that ends the run")
    early_stop_patience: Many = Field(3, ge=1, description="Consecutive tests that must reach early_stop_value")
    early_stop_at: list[Steps] = Field(
        [], max_length=100, description="Environment steps at which a run ends that does too badly by then"
    )
    early_stop_below: list[Real] = Field(
        [], max_length=100, description="For each of them, the least value of early_stop_metric that goes on"
    )


class SacredKeys(Keys):
    """Sacred's records of a run (tracker: sacred)."""

    sacred_observers: Annotated[list[str], ManyWords("file", "tinydb", "mongo")] = Field(
        ["file"], description="Where Sacred writes, separated by commas"
    )
    sacred_mongo_url: str | None = Field(
        None, min_length=1, description="Sacred's MongoDB, mongodb://...; $NAME stands for an environment variable"
    )
    sacred_mongo_db: str = Field("sacred", min_length=1, description="Name of the database in Sacred's MongoDB")


class WandbKeys(Keys):
    """Records of a run in Weights & Biases (tracker: wandb)."""

    wandb_project: str = Field("omg", min_length=1, max_length=128, description="Project in Weights & Biases")
    wandb_entity: str | None = Field(
        None, min_length=1, max_length=128, description="Team or user in Weights & Biases; your own account if None"
    )
    wandb_mode: Annotated[str, Words("auto", "offline", "online")] = Field(
        "auto", description="auto: online where WANDB_API_KEY or `wandb login` gives a key, else files on this machine"
    )


class MlflowKeys(Keys):
    """Records of a run in MLflow (tracker: mlflow)."""

    mlflow_uri: str | None = Field(
        None,
        min_length=1,
        description="Address of MLflow; $NAME is an environment variable; None: MLFLOW_TRACKING_URI, else a file",
    )
    mlflow_experiment: str = Field("omg", min_length=1, max_length=200, description="Experiment in MLflow")


class AimKeys(Keys):
    """Records of a run in Aim (tracker: aim)."""

    aim_repo: str | None = Field(
        None,
        min_length=1,
        description="Folder or server (aim://host:port) of Aim; $NAME is an environment variable; None: beside the run",
    )
    aim_experiment: str = Field("omg", min_length=1, max_length=200, description="Experiment in Aim")


OUTWARD = {
    "sacred_mongo_url": "a database that is sent the run's records",
    "wandb_entity": "an account of Weights & Biases that is sent the run's records",
    "mlflow_uri": "a place that is sent the run's records",
    "aim_repo": "a place that is sent the run's records",
}
"""Key -> what it names. Who is sent a run's records, only the user may say, no file."""
RECORDS = tuple(key for section in (SacredKeys, WandbKeys, MlflowKeys, AimKeys) for key in section.model_fields)
"""Keys that say where records go, and change nothing in a result."""


class PartsKeys(Keys):
    """Which parts a run is made of; further ones are named in the sections of these."""

    learner: PartName = Field("q_learner", description="What turns sampled episodes into parameter updates")
    am_model: PartName = Field("none_am", description="Opponent model that adds features about the other players")
    runner: PartName = Field(
        "vector",
        description="vector: compiled play; episode, parallel: PyMARL's rules; processes for games that are not JAX",
    )


_RECORDS = When("save_replay", True)


class PlayKeys(Keys):
    """How episodes are played and what seats see of them."""

    batch_size_run: Episodes = Field(32, ge=1, description="Games played side by side")
    save_replay: bool = Field(False, description="Record test games; StarCraft II: its own replays, of every test")
    replay_games: Annotated[Episodes, _RECORDS] = Field(
        4, ge=1, description="Games of a test that are recorded, of each seed"
    )
    replay_tests: Annotated[str, Words("last", "all"), _RECORDS] = Field(
        "last", description="Recordings that are kept: those of the last test, or of all tests"
    )
    obs_is_state: bool = Field(False, description="The agent sees the global state instead of its observation")
    obs_adapter: Annotated[str, Words("none", "learn")] = Field(
        "none", description="learn: frozen players and priors of obs_is_state=True estimate the state from observations"
    )


class DataKeys(Keys):
    """The replay buffer, and how much is learned from it."""

    buffer_size: Whole = Field(5000, ge=1, le=2**30, description="Episodes kept for replay")
    batch_size: Episodes = Field(32, ge=1, description="Episodes sampled for one update")
    buffer_dtype: Annotated[str, Words("float16", "bfloat16", "float32")] = Field(
        "float16", description="Number type in which observations and states are stored"
    )
    updates_per_episode: Real = Field(1.0, ge=1e-6, le=1000, description="Gradient updates for every episode played")


def _known_env(value: object) -> object:
    if not isinstance(value, str) or value not in ENVS:
        raise ENVS.refusal(value, kind="environment (key env)")
    return value


class EnvKeys(Keys):
    """The game."""

    env: Annotated[str, BeforeValidator(_known_env)] = Field("sc2", description="Name of the game; see `omg envs`")
    env_args: dict[str, Json] = Field({}, validate_default=True, description="Options of the game; see `omg envs NAME`")

    @field_validator("env_args")
    @classmethod
    def _complete(cls, value: dict[str, Json], info: ValidationInfo) -> dict[str, Json]:
        """Checks the options against the game's own model and fills in the ones left out."""
        return parse_env_args(info.data["env"], value).model_dump(mode="json")


class TeamKeys(Keys):
    """Teams of several algorithms."""

    multi_algs: bool = Field(False, description="Different algorithms play in one team; implied by a team name")
    train_alg: str | None = Field(None, min_length=1, description="The only algorithm of a team that learns")
    team: str | None = Field(None, min_length=1, description="Team name, seats and algorithms; None: one algorithm")
    is_agent_shift: bool = Field(True, description="The seats of a team are rotated from game to game")
    team_draw: Annotated[str, Words("homologue", "odd", "mixed", "varied")] = Field(
        "homologue", description="How a part's seats are filled: by one player, or several"
    )
    init_param_path: str | None = Field(None, min_length=1, description="Pool whose players fill the frozen seats")
    pool_set: Annotated[str, Words("training", "validation", "heldout")] = Field(
        "training", description="Set of the pool that the players are drawn from"
    )
    init_from: str | None = Field(None, min_length=1, description="Agent, run or pool that the agent starts from")
    init_optimiser: bool = Field(False, description="The optimiser of an imported agent in init_from goes on, too")


class StartKeys(Keys):
    """How a run begins: its label, its checks, and what it has from another run (see also init_from)."""

    label: str | None = Field(
        None, pattern=r"^\w[\w.+-]*$", description="Further label in the name of the run's folder"
    )
    debug: bool = Field(
        False, description="Every round is a chunk of its own, searched for NaN and shown; no compilation cache"
    )
    checkpoint_path: str | None = Field(
        None, min_length=1, description="Run whose learner goes on here: networks, optimisers, steps; with a new buffer"
    )
    load_step: Whole = Field(
        0, ge=0, description="Step of the run in checkpoint_path or init_from: N, or the last saved before; 0: the last"
    )
    evaluate: bool = Field(False, description="With checkpoint_path: test once and stop")
