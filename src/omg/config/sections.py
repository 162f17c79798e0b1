"""The configuration's keys by topic. A new topic is one class here and one name in `schema.SECTIONS`.

Every key has a type, a range where one makes sense, a default and a one-line help text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from omg.config.kinds import Episodes, Few, Handful, Many, Real, Steps, Whole, Width
from omg.config.runner_rules import RUNNER_RULES
from omg.envs import ENVS, parse_env_args
from omg.errors import unknown_name
from omg.modules.agents import AGENTS
from omg.modules.critics import CRITICS
from omg.modules.mixers import MIXERS
from omg.modules.opponent_models import NO_MODEL, OPPONENT_MODELS
from omg.names import file_name

NAMES: dict[str, Collection[str]] = {
    "agent": AGENTS,
    "mixer": MIXERS,
    "mac": ("basic_mac", "multi_module_mac", "hop_mac"),
    "learner": (
        "q_learner",
        "q_learner_4am",
        "qtran_learner",
        "coma_learner",
        "ppo_learner",
        "omg_learner",
        "omg_ppo_learner",
        "influence_learner",
        "lola_learner",
        "pr2_learner",
        "am_learner",
        "hop_learner",
        "hop_plus_learner",
    ),
    "optimizer": ("rmsprop", "adam"),
    "runner": RUNNER_RULES,
    "action_selector": ("epsilon_greedy", "multinomial", "softmax"),
    "critic": CRITICS,
    "critic_input": ("obs", "state"),
    "obs_adapter": ("none", "learn"),
    "network_size": ("small", "big"),
    "am_model": (NO_MODEL, *OPPONENT_MODELS),
    "am_feature": ("embedding", "probabilities"),
    "subgoal_mode": ("optimistic", "conservative", "random", "next", "k3"),
    "omg_value": ("mean", "max", "softmax"),
    "omg_q_input": ("mix", "inferred", "selected", "oracle", "zero"),
    "omg_inference": ("cvae", "mlp"),
    "omg_reconstruct": ("embedding", "input"),
    "omg_feature": ("code", "view"),
    "omg_actions": ("each", "counts", "none"),
    "omg_bootstrap": ("same", "next"),
    "hop_model": ("goals", "actions", "subgoals"),
    "team_draw": ("homologue", "odd", "mixed", "varied"),
    "pool_set": ("training", "validation", "heldout"),
    "buffer_dtype": ("float16", "bfloat16", "float32"),
    "tracker": ("tensorboard", "sacred"),
    "sacred_observers": ("file", "tinydb", "mongo"),
}
"""Key -> the words it may have. The words of `mac`, `learner`, `team_draw` and `tracker` repeat
`controllers.CONTROLLERS`, `learners.LEARNERS`, `controllers.MANNERS` and `tracking.TRACKERS`, which import the
configuration and so cannot be imported here."""

PLANNERS = ("hop_learner", "hop_plus_learner")
"""Learners whose player searches the game itself (mac: hop_mac)."""

ON_POLICY = ("coma_learner", "ppo_learner", "omg_ppo_learner", "influence_learner", "lola_learner", *PLANNERS)
"""Learners that use exactly the episodes just played, each round once."""

SUBGOAL_LEARNERS = ("omg_learner", "omg_ppo_learner", "hop_plus_learner")
"""Learners that train an agent together with the subgoals it infers."""


def _known_name(value: Any, info: ValidationInfo) -> Any:
    key = str(info.field_name)
    if not isinstance(value, str) or value not in NAMES[key]:
        raise unknown_name(key, str(value), NAMES[key])
    return value


def _known_name_or_none(value: Any, info: ValidationInfo) -> Any:
    key = str(info.field_name)
    if value is not None and (not isinstance(value, str) or value not in NAMES[key]):
        raise unknown_name(key, str(value), (*NAMES[key], "None"))
    return value


def _known_names(value: Any, info: ValidationInfo) -> Any:
    """Takes `a,b`, `[a, b]` and None; gives them without repetitions."""
    words = value.split(",") if isinstance(value, str) else () if value is None else value
    if not isinstance(words, list | tuple):
        words = (words,)
    names = list(dict.fromkeys(str(word).strip() for word in words))
    for name in names:
        if name not in NAMES[str(info.field_name)]:
            raise unknown_name(str(info.field_name), name, NAMES[str(info.field_name)])
    return names


def _file_name(value: Any, info: ValidationInfo) -> Any:
    return file_name(str(info.field_name), value) if isinstance(value, str) else value


FileName = Annotated[str, BeforeValidator(_file_name)]
Name = Annotated[str, BeforeValidator(_known_name)]
OptionalName = Annotated[str | None, BeforeValidator(_known_name_or_none)]
Names = Annotated[list[str], BeforeValidator(_known_names)]


class Section(BaseModel):
    """What all sections share: unknown keys are refused, types are not guessed, values do not change later."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RunSection(Section):
    """How long a run takes, how it is tested, saved and logged."""

    name: FileName = Field(
        "omg",
        description="Label of the run and of its folder; the configuration's name unless given",
    )
    seed: Whole = Field(1, ge=0, le=2**31 - 1, description="Seed of all random numbers")
    seeds: Few = Field(1, ge=1, description="Number of seeds trained as one program: seed, seed+1, ...")
    t_max: Steps = Field(2_050_000, ge=1, description="Environment steps of the whole run, per seed")
    test_interval: Steps = Field(10_000, ge=1, description="Environment steps between tests")
    test_nepisode: Episodes = Field(32, ge=1, description="Episodes of each test")
    test_greedy: bool = Field(True, description="Tests take the best action instead of exploring")
    log_interval: Steps = Field(10_000, ge=1, description="Environment steps between logged training metrics")
    save_model: bool = Field(True, description="Write checkpoints")
    save_model_interval: Steps = Field(200_000, ge=1, description="Environment steps between resumable checkpoints")
    save_buffer: bool = Field(True, description="Checkpoints contain the replay buffer; needed for an exact resume")
    keep_checkpoints: Many = Field(2, ge=2, description="Number of newest checkpoints kept; older ones are deleted")
    local_results_path: str = Field("results", min_length=1, description="Folder under which run folders are made")
    use_cuda: bool = Field(True, description="Use the GPU where there is one")
    use_tensorboard: bool = Field(True, description="Write TensorBoard event files into the run folder")
    tracker: Names = Field([], description="Further records of the run, separated by commas: sacred, tensorboard")
    sacred_observers: Names = Field(["file"], description="Where Sacred writes, separated by commas")
    sacred_mongo_url: str | None = Field(
        None, min_length=1, description="Sacred's MongoDB, mongodb://...; $NAME stands for an environment variable"
    )
    sacred_mongo_db: str = Field("sacred", min_length=1, description="Name of the database in Sacred's MongoDB")
    early_stop_metric: str | None = Field(
        None, min_length=1, description="Test metric that can end the run early, e.g. test_battle_won_mean"
    )
    early_stop_value: Real | None = Field(None, description="Value of early_stop_metric that ends the run")
    early_stop_patience: Many = Field(3, ge=1, description="Consecutive tests that must reach early_stop_value")


class PlaySection(Section):
    """How episodes are played."""

    runner: Name = Field(
        "vector",
        description="vector: compiled play; episode, parallel: PyMARL's rules; processes for games that are not JAX",
    )
    batch_size_run: Episodes = Field(32, ge=1, description="Games played side by side")
    workers: Few | None = Field(
        None, ge=1, description="parallel: processes that the games are spread over; None: one per core"
    )
    worker_timeout: Real = Field(
        30.0, gt=0, description="parallel: seconds for a step of a worker's games; a reset may take 10 times as long"
    )
    worker_failures: Many = Field(
        10, ge=0, description="Failures of games in a row, without a whole round between, that a run endures"
    )
    save_replay: bool = Field(False, description="Write replays of test games; StarCraft II: its own, of every test")
    mac: Name = Field("basic_mac", description="Controller that chooses the actions of all seats")
    action_selector: Name = Field("epsilon_greedy", description="How an action is picked from the agents' outputs")
    epsilon_start: Real = Field(1.0, ge=0, le=1, description="Chance of a random action at the beginning")
    epsilon_finish: Real = Field(0.05, ge=0, le=1, description="Chance of a random action after epsilon_anneal_time")
    epsilon_anneal_time: Steps = Field(50_000, ge=1, description="Environment steps over which epsilon falls linearly")


class DataSection(Section):
    """The replay buffer."""

    buffer_size: Whole = Field(5000, ge=1, le=2**30, description="Episodes kept for replay")
    batch_size: Episodes = Field(32, ge=1, description="Episodes sampled for one update")
    buffer_dtype: Name = Field("float16", description="Number type in which observations and states are stored")


class AgentSection(Section):
    """The network of one seat and what it sees."""

    agent: Name = Field(
        "rnn",
        description="rnn, mlp, dueling, conv (reads maps): one network for all seats; idv_rnn, idv_conv: one per seat",
    )
    rnn_hidden_dim: Width = Field(64, ge=1, description="Width of the agent's recurrent state (others: layer 1)")
    mlp_second_dim: Width | None = Field(
        None, ge=1, description="Second layer's width of feed-forward agents and critics; None: as the first's"
    )
    obs_one_hot: Few = Field(
        0, ge=0, description="N: whole numbers in the agent's view, -N to N, enter it one-hot; 0: as they are"
    )
    obs_agent_id: bool = Field(True, description="The agent sees its seat number (one-hot)")
    obs_last_action: bool = Field(True, description="The agent sees its last action (one-hot)")
    obs_is_state: bool = Field(False, description="The agent sees the global state instead of its observation")
    obs_adapter: Name = Field(
        "none", description="learn: frozen players and priors of obs_is_state=True estimate the state from observations"
    )
    obs_all_last_actions: bool = Field(False, description="The agent sees the last actions of all seats (one-hot)")


class ModelSection(Section):
    """What tells the agent about the other players."""

    am_model: Name = Field("none_am", description="Opponent model that adds features about the other players")
    am_lr: Real = Field(0.001, gt=0, description="Learning rate of the opponent model (Adam)")
    am_hidden_dim: Width = Field(96, ge=1, description="Width of the opponent model's recurrent state")
    am_embed_dim: Width = Field(64, ge=1, description="Width of the features of base_am and liam_am")
    am_feature: Name = Field("embedding", description="base_am: hand on its embedding, or the predicted probabilities")
    subgoal_dim: Width = Field(64, ge=1, description="Width of a subgoal")
    subgoal_mode: Name = Field("optimistic", description="Which of the coming states is taken for the subgoal")
    omg_horizon: Few = Field(5, ge=1, description="How many coming states the subgoal is chosen from")
    omg_value: Name = Field("mean", description="Value of a state: mean, max or softmax over the legal actions' values")
    omg_q_input: Name = Field("mix", description="Subgoal that the agent learns with; zero and oracle also act with it")
    omg_mix_start: Real = Field(0.5, ge=0, le=1, description="mix: share of selected subgoals at the beginning")
    omg_mix_finish: Real = Field(0.0, ge=0, le=1, description="mix: share of selected subgoals after the annealing")
    omg_mix_anneal_time: Steps = Field(50_000, ge=1, description="mix: environment steps over which the share falls")
    omg_bootstrap: Name = Field("same", description="Subgoal of the target's next state: the same, or the next step's")
    omg_inference: Name = Field("cvae", description="How subgoals are inferred: cvae (a distribution) or mlp (a point)")
    omg_reconstruct: Name = Field("embedding", description="What the inference model's decoder reconstructs")
    omg_feature: Name = Field("code", description="The agent reads a subgoal's code, or the view it stands for")
    omg_actions: Name = Field(
        "each", description="What subgoals are inferred from of the others' last actions: each, counts, none"
    )
    omg_action_dropout: Real = Field(
        0.0, ge=0, lt=1, description="Share of the others' last actions hidden from the inference model while it learns"
    )
    omg_residual: bool = Field(False, description="Infer how the subgoal differs from the prior's code of the present")
    omg_maps: bool = Field(
        False, description="Prior and inference model read maps by convolutions and bits as bits, where views are such"
    )
    omg_kl_weight: Real = Field(0.001, ge=0, description="Weight of the divergence from the selected subgoal")
    omg_sample: bool = Field(True, description="Subgoals are drawn while training; tests always use their mean")
    prior_path: str | None = Field(
        None,
        min_length=1,
        description="Folder of the subgoal prior; None: `prior` in init_param_path, else learned along",
    )
    prior_kl_weight: Real = Field(0.001, ge=0, description="Weight of the divergence in the prior's loss")
    diagnostics_interval: Steps = Field(
        100_000, ge=1, description="Environment steps between tests without the opponent model's features"
    )


class LearningSection(Section):
    """How parameters change."""

    learner: Name = Field("q_learner", description="What turns sampled episodes into parameter updates")
    gamma: Real = Field(0.99, ge=0, le=1, description="Discount factor")
    optimizer: Name = Field("rmsprop", description="How gradients become steps of the agent: rmsprop or adam")
    lr: Real = Field(0.0005, gt=0, description="Learning rate of the agent")
    optim_alpha: Real = Field(0.99, ge=0, lt=1, description="Smoothing factor of RMSProp")
    optim_eps: Real = Field(1e-5, gt=0, description="Term of RMSProp that keeps it from dividing by zero")
    grad_norm_clip: Real = Field(10.0, gt=0, description="Longest gradient; longer ones are shortened to it")
    target_update_interval: Steps = Field(200, ge=1, description="Episodes between copies to the target network")
    double_q: bool = Field(True, description="The online network chooses the target's action (double Q-learning)")
    updates_per_episode: Real = Field(1.0, ge=1e-6, le=1000, description="Gradient updates for every episode played")
    mixer: OptionalName = Field(None, description="How the seats' values become one team value; None: they do not")
    mixing_embed_dim: Width = Field(32, ge=1, description="Width of QMIX's mixing layer, of QTRAN's networks")
    hypernet_layers: Whole = Field(2, ge=1, le=2, description="Layers of QMIX's weight generators")
    hypernet_embed: Width = Field(64, ge=1, description="Hidden width of QMIX's weight generators")
    network_size: Name = Field("small", description="QTRAN: small, or big with one more layer per network")
    opt_loss: Real = Field(1.0, ge=0, description="QTRAN: weight of the loss at the seats' best joint action")
    nopt_min_loss: Real = Field(0.1, ge=0, description="QTRAN: weight of the loss at the joint action that was taken")
    common_reward: bool | None = Field(
        None, description="Sum the seats' rewards into a team reward; None: as the game says, True with a mixer"
    )
    prosocial: Real = Field(
        0.0, ge=0, le=1, description="Share of the mean of all seats' rewards in each one's: 0 own only, 1 mean only"
    )


class PolicySection(Section):
    """What learners of policies (COMA, PPO) add: critics, advantages, the clipped update."""

    critic: OptionalName = Field(None, description="PPO's critic network, named like agents; None: as the agent")
    critic_input: Name = Field("obs", description="What PPO's critic sees: each seat's own view, or the global state")
    critic_hidden_dim: Width = Field(64, ge=1, description="Width of the critic's layers")
    critic_lr: Real = Field(0.0005, gt=0, description="Learning rate of the critic")
    mask_before_softmax: bool = Field(
        True, description="COMA: illegal actions leave the softmax and epsilon's floor; False: only the draw"
    )
    td_lambda: Real = Field(0.8, ge=0, le=1, description="COMA: lambda of the critic's targets")
    gae_lambda: Real = Field(0.95, ge=0, le=1, description="PPO: lambda of the generalised advantage estimates")
    entropy_coef: Real = Field(0.01, ge=0, description="PPO: weight of the policy's entropy, which keeps it exploring")
    ppo_epochs: Few = Field(4, ge=1, description="PPO: passes over the episodes of a round")
    ppo_minibatches: Few = Field(1, ge=1, description="PPO: parts into which a pass divides the episodes")
    ppo_clip: Real = Field(0.2, gt=0, description="PPO: how far from 1 the ratio of probabilities may move")
    ppo_value_clip: Real | None = Field(
        None, gt=0, description="PPO: how far the critic may move from its old values; None: as far as it learns"
    )
    normalise_advantage: bool = Field(True, description="PPO: advantages of a round get mean 0 and deviation 1")
    normalise_value: bool = Field(True, description="PPO: the critic learns returns scaled to mean 0 and deviation 1")


class SocialSection(Section):
    """What learners add that reckon with the others' reactions: social influence, LOLA, PR2."""

    influence_weight: Real = Field(
        1.0, ge=0, description="Social influence: weight of the influence on the others' next actions in the reward"
    )
    lola_step: Real = Field(
        0.003, ge=0, description="LOLA: length of the step that each co-player is expected to learn by"
    )
    lola_limit: Real = Field(
        1.0, gt=0, description="LOLA: largest share of the others' learning in advantages; the step is shortened to it"
    )
    pr2_temperature: Real = Field(
        0.05, gt=0, description="PR2: weight of entropy, the own and that of the others' expected answers, in values"
    )
    pr2_samples: Handful = Field(4, ge=1, description="PR2: answers of the others drawn for each own action")


class PlanningSection(Section):
    """Players that search the game (mac: hop_mac)."""

    hop_model: Name = Field(
        "goals", description="What the others act by: goals, actions (the position alone), subgoals (HOP+)"
    )
    hop_simulations: Many = Field(200, ge=1, description="Positions that a search adds to each tree")
    hop_samples: Handful = Field(5, ge=1, description="Trees of each decision, each for other goals of the others")
    hop_test_simulations: Many | None = Field(
        None, ge=1, description="hop_simulations of tests, saved agents and team-mates; None: the same"
    )
    hop_test_samples: Handful | None = Field(
        None, ge=1, description="hop_samples of tests, saved agents and team-mates; None: the same"
    )
    hop_exploration: Real | None = Field(
        None, ge=0, description="The search's c; None: 1 in stag_hunt, 15 in snowdrift"
    )
    hop_beta: Real = Field(2.0, gt=0, description="Actions are drawn by softmax(beta * Q of the search)")
    hop_belief_within: bool = Field(True, description="Beliefs about goals follow actions within an episode")
    hop_belief_between: bool = Field(True, description="Episodes open with what earlier ones have shown of the others")
    hop_belief_alpha: Real | None = Field(
        None, ge=0, le=1, description="Share of the prior kept per episode; None: 0.995 in stag_hunt, 0.98 in snowdrift"
    )
    hop_hidden_dim: Width = Field(512, ge=1, description="Width of the planning networks behind their convolutions")
    hop_epochs: Few = Field(2, ge=1, description="Passes over the episodes just played")
    hop_minibatches: Few = Field(4, ge=1, description="Parts of a pass")
    hop_symmetries: bool = Field(
        True, description="Learn from positions (with subgoals: whole episodes) turned and mirrored at random"
    )
    hop_search_bytes: Whole = Field(
        2_000_000_000, ge=1, le=2**50, description="Memory for the trees of one step; larger searches are split"
    )


def _known_env(value: Any) -> Any:
    if not isinstance(value, str) or value not in ENVS:
        raise unknown_name("environment (key env)", str(value), ENVS)
    return value


class EnvSection(Section):
    """The game."""

    env: Annotated[str, BeforeValidator(_known_env)] = Field("sc2", description="Name of the game; see `omg envs`")
    env_args: dict[str, Any] = Field({}, validate_default=True, description="Options of the game; see `omg envs NAME`")

    @field_validator("env_args")
    @classmethod
    def _complete(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Checks the options against the game's own model and fills in the ones left out."""
        return parse_env_args(info.data["env"], value).model_dump(mode="json")


class TeamSection(Section):
    """Teams of several algorithms."""

    multi_algs: bool = Field(False, description="Different algorithms play in one team; implied by a team name")
    train_alg: str | None = Field(None, min_length=1, description="The only algorithm of a team that learns")
    team: str | None = Field(None, min_length=1, description="Team name, seats and algorithms; None: one algorithm")
    is_agent_shift: bool = Field(True, description="The seats of a team are rotated from game to game")
    team_draw: Name = Field("homologue", description="How a part's seats are filled: by one player, or several")
    init_param_path: str | None = Field(None, min_length=1, description="Pool whose players fill the frozen seats")
    pool_set: Name = Field("training", description="Set of the pool that the players are drawn from")
    init_from: str | None = Field(None, min_length=1, description="Agent, run or pool that the agent starts from")
    init_optimiser: bool = Field(False, description="The optimiser of an imported agent in init_from goes on, too")
