"""Settings of learners and optimisers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from omg.registry.keys import Keys, OptionalPartName, PartName, When, Words
from omg.registry.kinds import Few, Handful, Rate, Real, Steps, Width


class PlayerKeys(Keys):
    """Learning of players, whatever the algorithm."""

    mac: PartName = Field("basic_mac", description="Controller that chooses the actions of all seats")
    gamma: Real = Field(0.99, ge=0, le=1, description="Discount factor")
    optimizer: PartName = Field("rmsprop", description="How gradients become steps of the agent: rmsprop or adam")
    lr: Rate = Field(0.0005, gt=0, description="Learning rate of the agent")
    grad_norm_clip: Real = Field(
        10.0, gt=0, description="Gradients longer than this (Euclidean norm) are scaled down to it"
    )
    mixer: OptionalPartName = Field(
        None, description="How the seats' values become one value of the team; None: they do not"
    )
    common_reward: bool | None = Field(
        None, description="Sum the seats' rewards into a team reward; None: as the game says, True with a mixer"
    )
    prosocial: Real = Field(
        0.0, ge=0, le=1, description="Share of the mean of all seats' rewards in each one's: 0 own only, 1 mean only"
    )


class RMSPropKeys(Keys):
    """The optimiser RMSProp."""

    optim_alpha: Real = Field(0.99, ge=0, lt=1, description="Smoothing factor of RMSProp")
    optim_eps: Real = Field(1e-5, gt=0, description="Term of RMSProp that keeps it from dividing by zero")


class TargetKeys(Keys):
    """Target networks."""

    target_update_interval: Steps = Field(
        200, ge=1, description="Episodes (or what target_update_unit says) between target copies"
    )


class LimitKeys(Keys):
    """What a learner that expects future rewards makes of the time limit."""

    limit_is_end: bool = Field(
        False,
        description="The time limit ends a game like any other end; False: values look past it, as if the game went on",
    )


class QKeys(Keys):
    """Q-learning."""

    double_q: bool = Field(True, description="The online network chooses the target's action (double Q-learning)")
    target_update_unit: Annotated[str, Words("episodes", "updates")] = Field(
        "episodes", description="What target_update_interval counts: episodes played, or updates"
    )
    target_update_tau: Real = Field(
        1.0, gt=0, le=1, description="Share of the online network in a new target network; 1: a plain copy"
    )


class QReturnKeys(Keys):
    """How far the targets of Q-learning look ahead."""

    q_lambda: Real = Field(
        0.0, ge=0, le=1, description="Lambda of the targets: 0 one step, 1 whole returns, between a mean of all lengths"
    )


class QTRANKeys(Keys):
    """QTRAN."""

    network_size: Annotated[str, Words("small", "big")] = Field(
        "small", description="QTRAN: small, or big with one more layer per network"
    )
    opt_loss: Real = Field(1.0, ge=0, description="QTRAN: weight of the loss at the seats' best joint action")
    nopt_min_loss: Real = Field(0.1, ge=0, description="QTRAN: weight of the loss at the joint action that was taken")


class CriticKeys(Keys):
    """Critics."""

    critic_hidden_dim: Width = Field(64, ge=1, description="Width of the critic's layers")
    critic_lr: Rate = Field(0.0005, gt=0, description="Learning rate of the critic")


class COMAKeys(Keys):
    """COMA."""

    mask_before_softmax: bool = Field(
        True, description="COMA: illegal actions leave the softmax and epsilon's floor; False: only the draw"
    )
    td_lambda: Real = Field(0.8, ge=0, le=1, description="COMA: lambda of the critic's targets")


class PPOKeys(Keys):
    """PPO: critic, advantages, the clipped update."""

    critic: OptionalPartName = Field(
        None, description="PPO's critic network, named like agents; None: of the agent's kind"
    )
    critic_input: Annotated[str, Words("obs", "state")] = Field(
        "obs", description="What PPO's critic sees: each seat's own view, or the global state"
    )
    ppo_shared_body: bool = Field(
        False, description="PPO's critic is one layer on the agent's recurrent state, not a network of its own"
    )
    critic_loss_coef: Annotated[Real, When("ppo_shared_body", True)] = Field(
        0.5, gt=0, description="Shared body: weight of the critic's loss beside the policy's"
    )
    gae_lambda: Real = Field(0.95, ge=0, le=1, description="PPO: lambda of the generalised advantage estimates")
    entropy_coef: Rate = Field(0.01, ge=0, description="PPO: weight of the policy's entropy, which keeps it exploring")
    ppo_epochs: Few = Field(4, ge=1, description="PPO: passes over the episodes of a round")
    ppo_minibatches: Few = Field(1, ge=1, description="PPO: parts into which a pass divides the episodes")
    am_epochs: Annotated[Few, When("am_model", "base_am", "liam_am", "meliba_am", "omg_am", "recall_am")] = Field(
        1, ge=1, description="PPO: passes of the opponent model over the episodes of a round, each one step of am_lr"
    )
    ppo_clip: Real = Field(0.2, gt=0, description="PPO: how far from 1 the ratio of probabilities may move")
    ppo_value_clip: Real | None = Field(
        None, gt=0, description="PPO: how far the critic's values may move in one round; None: any distance"
    )
    normalise_advantage: bool = Field(
        True, description="PPO: advantages of a round are scaled to mean 0 and standard deviation 1"
    )
    normalise_value: bool = Field(
        True, description="PPO: the critic learns returns scaled to mean 0 and standard deviation 1"
    )


class InfluenceKeys(Keys):
    """Social influence."""

    influence_weight: Real = Field(
        1.0, ge=0, description="Social influence: weight of the influence on the others' next actions in the reward"
    )


class LOLAKeys(Keys):
    """LOLA."""

    lola_step: Real = Field(
        0.003, ge=0, description="LOLA: length of the step that each co-player is expected to learn by"
    )
    lola_limit: Real = Field(
        1.0, gt=0, description="LOLA: largest share of the others' learning in advantages; longer steps are scaled down"
    )


class PR2Keys(Keys):
    """PR2."""

    pr2_temperature: Real = Field(
        0.05, gt=0, description="PR2: weight of entropy in values, of the own actions and of the others' answers"
    )
    pr2_samples: Handful = Field(4, ge=1, description="PR2: answers of the others drawn for each own action")


_OF_MIX = When("omg_q_input", "mix")
_OF_CODES = When("omg_inference", "cvae", "mlp")


class SubgoalKeys(Keys):
    """Learning with subgoals that are selected in hindsight."""

    subgoal_mode: Annotated[str, Words("optimistic", "conservative", "random", "next", "k3", "furthest")] = Field(
        "optimistic",
        description="Which coming state is the subgoal: best, worst, random, the next, the third, the furthest",
    )
    omg_horizon: Few = Field(5, ge=1, description="How many coming states the subgoal is chosen from")
    omg_mix_start: Annotated[Real, _OF_MIX] = Field(
        0.5, ge=0, le=1, description="mix: share of selected subgoals at the beginning"
    )
    omg_mix_finish: Annotated[Real, _OF_MIX] = Field(
        0.0, ge=0, le=1, description="mix: share of selected subgoals after the annealing"
    )
    omg_mix_anneal_time: Annotated[Steps, _OF_MIX] = Field(
        50_000, ge=1, description="mix: environment steps over which the share falls"
    )
    omg_mix_until: Annotated[Real | None, _OF_MIX] = Field(
        None, gt=0, le=1, description="mix: share of t_max over which it falls, in place of omg_mix_anneal_time"
    )
    omg_kl_weight: Annotated[Real, _OF_CODES] = Field(
        0.001, ge=0, description="Weight of the divergence from the selected subgoal"
    )
    prior_path: Annotated[str | None, _OF_CODES] = Field(
        None,
        min_length=1,
        description="Folder of the subgoal prior; None: `prior` in init_param_path, else learned along with the agent",
    )


class SubgoalReadingKeys(Keys):
    """How an agent network reads its subgoals."""

    omg_candidates: Annotated[str, Words("episode", "life", "rounds")] = Field(
        "episode",
        description="Coming states: those of the episode, of the own life, or the ends of the rounds they belong to",
    )
    omg_feature: Annotated[str, Words("code", "view", "both")] = Field(
        "code", description="The agent reads a subgoal's code, or the view it stands for, or both"
    )
    omg_residual: bool = Field(
        False, description="Infer how the subgoal differs from the prior's code of the present view"
    )
    omg_action_dropout: Real = Field(
        0.0, ge=0, lt=1, description="Share of the others' last actions hidden from the inference model while it learns"
    )


_STATE_VALUE = "Value of a state: mean, max or softmax over the legal actions' values"


class ForesightKeys(Keys):
    """What the oracle of subgoals takes for the value of a state."""

    omg_value: Annotated[str, Words("mean", "max", "softmax"), When("omg_q_input", "oracle")] = Field(
        "mean", description=_STATE_VALUE
    )


class SubgoalValueKeys(Keys):
    """OMG on Q-learning."""

    omg_value: Annotated[str, Words("mean", "max", "softmax")] = Field("mean", description=_STATE_VALUE)
    omg_bootstrap: Annotated[str, Words("same", "next")] = Field(
        "same", description="Subgoal of the target's next state: that of this step, or the next step's own"
    )


class HOPKeys(Keys):
    """HOP: learning from searched games."""

    hop_epochs: Few = Field(2, ge=1, description="Passes over the episodes just played")
    hop_minibatches: Few = Field(4, ge=1, description="Parts of a pass")
    hop_symmetries: bool = Field(
        True, description="Learn from positions (with subgoals: whole episodes) turned and mirrored at random"
    )


class TogetherKeys(Keys):
    """HOP+: learning from searched games with subgoals."""

    hop_together_weight: Annotated[Real, When("omg_inference", "cells")] = Field(
        0.0, ge=0, description="Weight of what all likely cells together make of what was done"
    )


class LearnerSections(
    TogetherKeys,
    HOPKeys,
    PR2Keys,
    LOLAKeys,
    InfluenceKeys,
    SubgoalValueKeys,
    SubgoalReadingKeys,
    SubgoalKeys,
    PPOKeys,
    COMAKeys,
    CriticKeys,
    QTRANKeys,
    QReturnKeys,
    QKeys,
    LimitKeys,
    TargetKeys,
    RMSPropKeys,
    PlayerKeys,
):
    """All sections of learners and optimisers, the last is shown first; `ForesightKeys` has one of their keys."""
