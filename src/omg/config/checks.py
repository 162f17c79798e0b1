"""What is put right, or refused, after a configuration is complete and before its run starts."""

from __future__ import annotations

import math

from omg.config.schema import Config, change_config
from omg.config.sections import OUTWARD
from omg.envs import ENVS, check_stored_game, plays_on_host
from omg.envs.trust import check_word
from omg.errors import UserError
from omg.learners.keys import COMAKeys, PPOKeys
from omg.registry import AgentTraits, ControllerTraits, LearnerTraits, ModelTraining, ModelTraits, SelectorTraits
from omg.registry.table import names_with

_WHOLE_TOLERANCE = 1e-3
"""How far updates_per_episode may be rounded (0.333 for 1/3 is too far, 0.33333 is not)."""


def adjust(config: Config, has_gpu: bool) -> tuple[Config, list[str]]:
    """Makes a configuration consistent with the machine and with itself.

    Args:
        config: a complete configuration.
        has_gpu: whether this machine has a GPU that JAX can use.

    Returns:
        The configuration to run and one sentence for each change the user should know of.

    Raises:
        UserError: when keys contradict each other.
    """
    changes: dict[str, object] = {}
    notes: list[str] = []
    if config.use_cuda and not has_gpu:
        changes["use_cuda"] = False
        notes.append("use_cuda: no GPU found, running on the CPU.")
    games = config.batch_size_run
    stand_in = config.runner_part.stand_in
    if stand_in is not None and plays_on_host(config.env, config.env_args):
        notes.append(
            f"runner: {config.runner} -> {stand_in}, as {config.env} is no JAX program and plays in worker processes."
        )
        config = change_config(config, runner=stand_in)
    rules = config.runner_part
    if rules.one_game and games != 1:
        games = changes["batch_size_run"] = 1
        notes.append(
            f"batch_size_run: {config.batch_size_run} -> 1, as runner={config.runner} plays one game at a time."
        )
    if rules.tests_in_rounds and config.test_nepisode % games:
        # PyMARL's runners test in rounds of batch_size_run games; the vector runner plays any number at once.
        episodes = max(config.test_nepisode // games, 1) * games
        changes["test_nepisode"] = episodes
        notes.append(f"test_nepisode: {config.test_nepisode} -> {episodes}, a multiple of batch_size_run={games}.")
    config = _check_start(config, notes)
    if config.debug:
        notes.append(
            "debug: every round is a chunk of its own, shown with all metrics and searched for NaN; the compilation "
            "cache is not used."
        )
    learner, other = config.learner_part, config.selector_part.without_floor
    if learner.learns_probabilities and other is not None:
        notes.append(
            f"action_selector: {config.action_selector} -> {other} with epsilon 0, which is the same for "
            f"learner={config.learner}."
        )
        config = change_config(config, action_selector=other, epsilon_start=0.0, epsilon_finish=0.0)
    if learner.on_policy:
        config = _fit_to_rounds(config, games, notes)
    updates, rounds = _update_ratio(config.updates_per_episode, games)
    changes["updates_per_episode"] = updates / (rounds * games)
    team_value = f"mixer={config.mixer}" if config.mixer is not None else f"learner={config.learner}"
    if config.mixer is not None or learner.one_team_value:
        if config.common_reward is False:
            raise UserError(
                f"common_reward: got False, but {team_value} learns one team value. Allowed with a mixer: True or None."
            )
        changes["common_reward"] = True
    if config.prosocial > 0 and (config.common_reward or changes.get("common_reward")):
        raise UserError(
            f"prosocial: got {config.prosocial:g}, but the rewards of all seats are summed into one (common_reward=True"
            f" or {team_value}). Allowed then: 0."
        )
    _check_sizes(config, games)
    _check_model(config)
    _check_policy(config, games)
    _check_planner(config)
    _check_early_stop(config)
    return change_config(config, **changes), notes


def _check_early_stop(config: Config) -> None:
    """Refuses a metric without a value to reach, values without a metric, and steps without their values."""
    if len(config.early_stop_at) != len(config.early_stop_below):
        raise UserError(
            f"early_stop_below: got {len(config.early_stop_below)} values, but early_stop_at has "
            f"{len(config.early_stop_at)} steps; give one for each."
        )
    if config.early_stop_value is None and config.early_stop_metric is not None and not config.early_stop_at:
        given, missing = "early_stop_metric", "early_stop_value"
    elif config.early_stop_value is not None and config.early_stop_metric is None:
        given, missing = "early_stop_value", "early_stop_metric"
    elif config.early_stop_at and config.early_stop_metric is None:
        given, missing = "early_stop_at", "early_stop_metric"
    else:
        return
    raise UserError(f"{missing}: missing, but {given}={getattr(config, given)} is given. Give both or neither.")


def check_stored(source: object, config: Config) -> None:
    """Refuses what a configuration asks for that comes out of a file and only the user may ask for.

    Args:
        source: the file, for the message.
        config: what it holds.

    Raises:
        UserError: it names a game of an unknown package, or a place that records are sent to. See `omg.envs.trust`.
    """
    check_stored_game(source, config.env, config.env_args)
    for key, what in OUTWARD.items():
        if (value := getattr(config, key)) is not None:
            check_word(source, f"{key}={value!r}, {what}")


def _check_start(config: Config, notes: list[str]) -> Config:
    """Refuses words about another run's steps that no run is named for; save_replay may imply evaluate."""
    if config.checkpoint_path is None:
        if config.evaluate:
            raise UserError("evaluate: got True, but nothing is trained yet. Give checkpoint_path=RUN, too.")
        if config.load_step and config.init_from is None:
            raise UserError(
                f"load_step: got {config.load_step}, but of no run. Give checkpoint_path=RUN or init_from=RUN, too."
            )
        return config
    if config.init_from is not None:
        raise UserError("init_from: given, but checkpoint_path brings all networks with it. Leave one of them out.")
    if config.save_replay and not config.evaluate:
        notes.append("evaluate: False -> True: save_replay with checkpoint_path tests and stops, as in PyMARL.")
        return change_config(config, evaluate=True)
    return config


def _check_model(config: Config) -> None:
    """Refuses learners and opponent models that do not go together."""
    model, learner = config.model_part, config.learner_part
    of_subgoals = model.training is ModelTraining.SUBGOALS
    if of_subgoals and learner.models is not ModelTraining.SUBGOALS:
        allowed = names_with("learner", LearnerTraits, lambda one: one.models is ModelTraining.SUBGOALS)
        raise UserError(
            f"learner: got {config.learner}, which cannot train am_model={config.am_model}. Allowed: {allowed}."
        )
    if learner.models is ModelTraining.SUBGOALS and not of_subgoals:
        allowed = names_with("am_model", ModelTraits, lambda one: one.training is ModelTraining.SUBGOALS)
        trained = f"the prior of {allowed}" if learner.watches else allowed
        raise UserError(
            f"am_model: got {config.am_model}, but learner={config.learner} trains {trained}. Allowed: {allowed}."
        )
    if learner.infers_subgoals and config.mixer is not None:
        raise UserError(
            f"mixer: got {config.mixer}, but learner={config.learner} learns each seat by itself. Allowed: None."
        )
    if learner.watches and config.pool_set == "heldout":
        raise UserError(
            "pool_set: got heldout, but a prior must not know the players that agents are judged with. "
            "Allowed: training, validation."
        )
    if learner.watches and config.init_param_path is None:
        raise UserError(
            "init_param_path: missing. The prior is learned from the games of a pool; `omg pool train` makes one."
        )
    if config.omg_residual and config.omg_maps:
        raise UserError(
            "omg_residual: got True, but with omg_maps subgoals are inferred without the prior. Allowed: False."
        )
    if config.omg_feature != "code" and config.omg_maps:
        raise UserError(
            f"omg_feature: got {config.omg_feature}, but with omg_maps views are maps, not features. Allowed: code."
        )
    if config.subgoal_of != "view":
        _check_others(config)
    if learner.infers_subgoals and not config.wants_prior:
        _check_cells(config)
    if config.omg_q_input == "zero" and model.absent:
        raise UserError("omg_q_input: got zero, but there is no opponent model whose features it could zero.")
    if config.omg_q_input == "oracle" and (not learner.infers_subgoals or config.team is None):
        raise UserError("omg_q_input: oracle needs a team with am_model=omg_am, e.g. --config=7pool1iql_omg.")
    if config.omg_q_input == "oracle" and learner.plans:
        raise UserError(
            f"omg_q_input: got oracle, but learner={config.learner} infers its subgoals in every position that it "
            f"thinks of. Allowed: mix, inferred, selected, zero."
        )
    if model.told_players and config.team is None:
        raise UserError(f"am_model: {config.am_model} names the players of a team; there is none. Give a team name.")


def _check_cells(config: Config) -> None:
    """Refuses what cannot be with subgoals that are cells of a board."""
    got = f"with omg_inference={config.omg_inference}"
    if not config.learner_part.reads_cells:
        raise UserError(
            f"omg_inference: got {config.omg_inference}, but learner={config.learner} reads codes of a prior. Allowed: "
            f"cvae, mlp."
        )
    for key, wanted in {"omg_maps": True, "obs_is_state": False}.items():
        if (given := getattr(config, key)) != wanted:
            raise UserError(
                f"{key}: got {given}, but {got} the others' cells are read off maps that each seat sees. Allowed: "
                f"{wanted}."
            )
    if config.subgoal_of != "view":
        raise UserError(f"subgoal_of: got {config.subgoal_of}, but {got} a subgoal is a place. Allowed: view.")
    if config.learner_part.plans and config.subgoal_mode in ("optimistic", "conservative"):
        raise UserError(
            f"subgoal_mode: got {config.subgoal_mode}, but {got} the player's own value is told no subgoals that it "
            f"could judge. Allowed: furthest, next, k3, random."
        )
    if not config.learner_part.plans and config.subgoal_mode != "furthest":
        raise UserError(
            f"subgoal_mode: got {config.subgoal_mode}, but {got} the model learns where the others are omg_horizon "
            f"steps later. Allowed: furthest."
        )
    if not config.learner_part.plans and config.omg_q_input not in ("inferred", "zero"):
        raise UserError(
            f"omg_q_input: got {config.omg_q_input}, but {got} the agent learns with what is inferred. Allowed: "
            f"inferred, zero."
        )


def _check_others(config: Config) -> None:
    """Refuses what cannot be with subgoals that stand for the others alone."""
    told = config.subgoal_of
    if config.learner_part.plans:
        raise UserError(
            f"subgoal_of: got {told}, but learner={config.learner} infers a subgoal for each co-player. Allowed: view."
        )
    reasons = {
        "omg_residual": (config.omg_residual, "the present view has no code of that kind"),
        "omg_maps": (config.omg_maps, "what the others do is no map"),
        "obs_adapter": (config.obs_adapter == "learn", "a prior of what the others do reads no views"),
    }
    for key, (given, reason) in reasons.items():
        if given:
            raise UserError(f"subgoal_of: got {told} with {key}={getattr(config, key)}, but {reason}. Allowed: view.")
    if config.omg_q_input == "oracle":
        raise UserError(f"subgoal_of: got {told}, but the oracle (omg_q_input) looks at coming views. Allowed: view.")


def _fit_to_rounds(config: Config, games: int, notes: list[str]) -> Config:
    """Makes the buffer hold exactly one round of play, and an update follow every round."""
    wanted: dict[str, float] = {"buffer_size": games, "batch_size": games, "updates_per_episode": 1 / games}
    differing = {key: value for key, value in wanted.items() if not math.isclose(getattr(config, key), value)}
    if differing:
        shown = ", ".join(f"{key} {getattr(config, key):g} -> {value:g}" for key, value in differing.items())
        notes.append(
            f"{shown}: learner={config.learner} learns once from exactly the batch_size_run={games} episodes just "
            f"played."
        )
    return change_config(config, **differing)


def _check_policy(config: Config, games: int) -> None:
    """Refuses what learners of policies, and QTRAN, cannot do."""
    learner = config.learner_part
    if not config.mask_before_softmax and COMAKeys not in learner.sections:
        raise UserError(
            f"mask_before_softmax: got False, but learner={config.learner} knows legal actions only; COMA has the "
            f"choice. Allowed: True."
        )
    if config.mixer is not None and not learner.mixes:
        raise UserError(
            f"mixer: got {config.mixer}, but learner={config.learner} has no use for a mixer. Allowed: None."
        )
    if learner.models is ModelTraining.NONE and not config.model_part.absent:
        allowed = names_with("am_model", ModelTraits, lambda one: one.absent)
        raise UserError(
            f"am_model: got {config.am_model}, but learner={config.learner} trains none. Allowed: {allowed}."
        )
    if learner.learns_probabilities and not config.selector_part.of_a_policy:
        allowed = names_with("action_selector", SelectorTraits, lambda one: one.of_a_policy)
        raise UserError(
            f"action_selector: got {config.action_selector}, but learner={config.learner} learns the probabilities "
            f"that actions are drawn with. Allowed: {allowed}."
        )
    if learner.own_networks and not config.agent_part.feed_forward_of_its_own:
        allowed = names_with("agent", AgentTraits, lambda one: one.feed_forward_of_its_own)
        raise UserError(
            f"agent: got {config.agent}, but learner={config.learner} asks how each player's own network will learn. "
            f"Allowed: {allowed}."
        )
    if config.model_part.infers_cells and not ENVS[config.env].traits.on_cells:
        raise UserError(
            f"env: got {config.env}, but am_model={config.am_model} infers cells of a board, which this game does not "
            f"tell of. Allowed: {', '.join(playable_games(config))}."
        )
    if config.model_part.infers_cells and config.obs_is_state:
        raise UserError(
            f"obs_is_state: got True, but am_model={config.am_model} reads off what each seat sees on which cells "
            f"everybody is, itself first. Allowed: False."
        )
    if PPOKeys in learner.sections and games % config.ppo_minibatches:
        raise UserError(
            f"ppo_minibatches: got {config.ppo_minibatches}, which does not divide the batch_size_run={games} episodes "
            f"of a round. Allowed: divisors of {games}."
        )


def playable_games(config: Config) -> list[str]:
    """The games that the configured algorithm can play: all, unless it searches them or infers cells of a board."""
    plans, cells = config.learner_part.plans, config.model_part.infers_cells
    return [
        name
        for name, entry in ENVS.items()
        if (entry.traits.searchable or not plans) and (entry.traits.on_cells or not cells)
    ]


def _check_planner(config: Config) -> None:
    """Refuses what players that search the game cannot do."""
    plans, controller = config.learner_part.plans, config.controller_part
    if plans != controller.searches and not (plans and controller.seats_a_team):
        allowed = names_with("mac", ControllerTraits, lambda one: one.searches == plans and not one.seats_a_team)
        raise UserError(f"mac: got {config.mac}, which does not go with learner={config.learner}. Allowed: {allowed}.")
    if not plans:
        return
    infers = config.learner_part.infers_subgoals
    if infers != (config.hop_model == "subgoals"):
        allowed = "subgoals" if infers else "goals, actions"
        raise UserError(
            f"hop_model: got {config.hop_model}, which does not go with learner={config.learner}. Allowed: {allowed}."
        )
    if infers and not config.omg_maps:
        raise UserError("omg_maps: got False, but a player that searches the game infers from maps. Allowed: True.")
    if infers and config.omg_action_dropout:
        raise UserError(
            f"omg_action_dropout: got {config.omg_action_dropout:g}, but learner={config.learner} hides nothing from "
            "its models. Allowed: 0."
        )
    if infers and config.obs_is_state:
        raise UserError(
            "obs_is_state: got True, but a player that searches the game infers subgoals from what each seat sees. "
            "Allowed: False."
        )
    if config.env not in playable_games(config):
        raise UserError(
            f"env: got {config.env}, but learner={config.learner} is of players that search the game, which this one "
            f"does not offer. Allowed: {', '.join(playable_games(config))}."
        )
    if config.common_reward or config.prosocial > 0:
        key = "common_reward" if config.common_reward else "prosocial"
        allowed = "None or False" if config.common_reward else "0"
        raise UserError(
            f"{key}: got {getattr(config, key):g}, but a player that searches the game looks for its own reward. "
            f"Allowed: {allowed}."
        )
    if config.init_from is not None:
        raise UserError(
            f"init_from: got {config.init_from}, but learner={config.learner} starts with new networks. Allowed: None."
        )


def update_rhythm(config: Config) -> tuple[int, int]:
    """How often to learn: `(updates, rounds)` means `updates` updates after every `rounds` rounds of play.

    A round is `batch_size_run` episodes; one of the two numbers is always 1.
    """
    return _update_ratio(config.updates_per_episode, config.batch_size_run)


def _update_ratio(updates_per_episode: float, games: int) -> tuple[int, int]:
    per_round = updates_per_episode * games
    many, ratio = per_round >= 1 - _WHOLE_TOLERANCE, max(per_round, 1 / per_round)
    whole = max(round(ratio), 1)
    if abs(ratio - whole) <= _WHOLE_TOLERANCE:
        return (whole, 1) if many else (1, whole)
    allowed = sorted((size if many else 1 / size) / games for size in (math.floor(ratio), math.ceil(ratio)))
    raise UserError(
        f"updates_per_episode: got {updates_per_episode:g}, which with batch_size_run={games} makes {per_round:g} "
        f"updates after each round of play; that number or its inverse must be whole. Nearest allowed: "
        f"{allowed[0]:.6g} or {allowed[1]:.6g}."
    )


def _check_sizes(config: Config, games: int) -> None:
    if config.batch_size > config.buffer_size:
        raise UserError(
            f"batch_size: got {config.batch_size}, more episodes than the buffer holds. "
            f"Allowed: at most buffer_size={config.buffer_size}."
        )
    if games > config.buffer_size:
        raise UserError(
            f"buffer_size: got {config.buffer_size}, fewer episodes than one round of play brings. "
            f"Allowed: at least batch_size_run={games}."
        )
