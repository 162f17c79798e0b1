"""Agents among co-players they have never met: all seeds and co-players of an agent are one compiled program.

An agent goes on learning by its own rule, in one seat, while its co-players stay as they are: a short run, in small
rounds, that starts from what its training left.

Replicates in shapes: each repetition with each team.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from omg.config import Config
from omg.controllers.scripted import build_scripted
from omg.envs import Env
from omg.errors import UserError
from omg.evaluation.tables import EpisodeRow
from omg.experiments.adaptation.responses import ResponseRules, response_config, train_responses
from omg.experiments.adaptation.schooling import schooled_state
from omg.experiments.adaptation.scores import BEST_RESPONSE, RANDOM
from omg.experiments.adaptation.setup import Entrant, adaptation_config
from omg.runners.vector import OWN_RETURN
from omg.training.encounters import EncounterProgram, Teams
from omg.types import PyTree

Say = Callable[[str], None]


@dataclass(frozen=True)
class Rules:
    """How long, how often and from where agents adapt."""

    episodes: int = 64
    """With each co-player; rounded up to whole rounds."""
    games: int = 4
    """Played side by side in a round; an agent learns after each round."""
    seeds: int | None = None
    """Repetitions; None: one for each training seed."""
    seed: int = 0
    """Of the first repetition's games."""
    seat: int | None = None
    """None: the first that a learner can have."""

    def __post_init__(self) -> None:
        for key in ("episodes", "games", "seeds"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise UserError(f"{key}: got {value}, allowed: 1 or more.")

    @property
    def rounds(self) -> int:
        """Enough for `episodes`."""
        return -(-self.episodes // self.games)


class Meeting:
    """Teams of co-players, and what is the same for everybody who meets them."""

    def __init__(self, config: Config, env: Env, teams: Teams, rules: Rules, seeds: int) -> None:
        """Holds them.

        Args:
            config: names the game.
            env: the game.
            teams: the co-players.
            rules: how long and how often.
            seeds: repetitions.
        """
        self.game = (config.env, config.env_args)
        self.obs_is_state = config.obs_is_state
        self.env, self.teams, self.rules = env, teams, rules
        self.seeds = list(range(rules.seed, rules.seed + seeds))
        number = len(teams.names)
        self.repetition = np.repeat(np.arange(seeds), number)
        """[replicates], repetition of each replicate."""
        self.team = np.tile(np.arange(number), seeds)
        """[replicates]."""

    def check(self, entrant: Entrant) -> Config:
        """The configuration under which an agent goes on; it was not run yet.

        Raises:
            UserError: the agent plays another game, or cannot go on with its settings.
        """
        agent = entrant.brought[0].agent
        if agent.spec != self.env.spec:
            here = f"{self.env.spec.name} {self.env.spec.scenario}"
            raise UserError(f"{entrant.label}: plays {agent.where}, but the others play {here}.")
        rules = self.rules
        episodes = rules.rounds * rules.games
        return adaptation_config(agent.config, agent.spec.n_agents, rules.games, episodes, entrant.settings)

    def agent_rows(self, entrant: Entrant, say: Say = lambda message: None) -> list[EpisodeRow]:
        """All episodes of an agent with every team."""
        config = self.check(entrant)
        program = EncounterProgram(config, self.teams, frozen=entrant.frozen)
        brought = [entrant.brought[number % len(entrant.brought)] for number in range(len(self.seeds))]

        def states(chosen: np.ndarray) -> PyTree:
            mine = [brought[number] for number in self.repetition[chosen]]
            # A planner's gradient steps see as much as in its training, those of others only a few games.
            return schooled_state(
                program.learner, mine, self._seeds(chosen), self.teams.seat, optimisers=config.learner_part.plans
            )

        return self._rows(entrant.label, self._play(program, states, entrant.label, say))

    def random_rows(self, say: Say = lambda message: None) -> list[EpisodeRow]:
        """All episodes of a random player, the 0 of the scale."""
        config = self._newcomer(self.rules.games)
        program = EncounterProgram(config, self.teams, player=build_scripted(RANDOM, self.env))
        return self._rows(RANDOM, self._play(program, lambda chosen: None, "random player", say))

    def best_rows(self, candidates: Sequence[Entrant], say: Say = lambda message: None) -> list[EpisodeRow]:
        """All episodes of the best of some agents with each team, the 1 of the scale."""
        rows: dict[tuple[str, int], list[EpisodeRow]] = {}
        for number, candidate in enumerate(candidates):
            for row in self.agent_rows(candidate, say):
                rows.setdefault((row.co_player, number), []).append(row)
        best: list[EpisodeRow] = []
        for name in self.teams.names:
            mine = [found for (co_player, _), found in rows.items() if co_player == name]
            chosen = max(mine, key=lambda found: np.mean([row.reward for row in found]))
            best += [EpisodeRow.extended(row, agent=BEST_RESPONSE) for row in chosen]
        return best

    def trained_best_rows(self, steps: int, say: Say = lambda message: None) -> list[EpisodeRow]:
        """All episodes of players that were trained by PPO for each team alone, the 1 of the scale.

        As many are trained for each team as there are repetitions, and the best of them counts: some may have come to
        rest at something worse. See `omg.experiments.adaptation.responses`.

        Args:
            steps: environment steps of the training of each, at most.
            say: told what is done.
        """
        rules = ResponseRules(steps, len(self.seeds), seed=self.rules.seed)
        metric = OWN_RETURN if self.env.spec.reward_per_agent else "return"

        def tell(message: str) -> None:
            say(f"best responses: {message}")

        trained = train_responses(self._newcomer(rules.games), self.env, self.teams, metric, rules, say=tell)
        playing = EncounterProgram(self._newcomer(self.rules.games), self.teams, frozen=True)

        def states(chosen: np.ndarray) -> PyTree:
            return jax.tree.map(lambda leaf: leaf[self.team[chosen]], trained.learner)

        return self._rows(BEST_RESPONSE, self._play(playing, states, "best responses", say))

    def _newcomer(self, games: int) -> Config:
        """Of a player that was not trained before."""
        return response_config(self.env, self.game, games, obs_is_state=self.obs_is_state)

    def _seeds(self, chosen: np.ndarray) -> list[int]:
        return [self.seeds[number] for number in self.repetition[chosen]]

    def _play(
        self, program: EncounterProgram, states: Callable[[np.ndarray], PyTree], label: str, say: Say
    ) -> np.ndarray:
        """What each replicate earned, [replicates, episodes]; `states` gives the learners of some of them."""
        rounds, number = self.rules.rounds, len(self.team)
        parts = -(-number // program.at_once())
        size = -(-number // parts)
        earned = []
        for part in range(parts):
            # A last part that is too short is filled up with the first ones, so that one compilation serves all.
            chosen = np.arange(part * size, (part + 1) * size) % number
            state = program.begin(states(chosen), self._seeds(chosen), self.team[chosen])
            say(f"{label}: {number} replicates ({len(self.seeds)} seed(s) x {len(self.teams.names)} co-players)")

            def progress(done: int, all_rounds: int, part: int = part) -> None:
                say(f"{label}: round {part * rounds + done} of {parts * all_rounds}")

            earned.append(program.play(state, rounds, progress)[1])
        return np.concatenate(earned)[:number, : self.rules.episodes]

    def _rows(self, label: str, earned: np.ndarray) -> list[EpisodeRow]:
        """Tidy rows of rewards [replicates, episodes]."""
        return [
            EpisodeRow(
                agent=label,
                seed=self.seeds[self.repetition[replicate]],
                co_player=self.teams.names[self.team[replicate]],
                episode=episode + 1,
                reward=round(float(reward), 6),
            )
            for replicate, rewards in enumerate(earned)
            for episode, reward in enumerate(rewards)
        ]
