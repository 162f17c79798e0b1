"""Training of JaxMARL, by its own scripts, beside ours: alternated in one process, with equal work.

Nothing of JaxMARL is in this repository. Its training scripts are not in its package either; they are loaded from a
checkout, whose path is given. What runs is what they make: `make_train(config)`, jitted as their `main` does, with
their own configuration files but for what `LINES` says. Their reports to W&B (`wandb.log`, once in every round) are
where the clock is read: rounds in which nothing is learned yet do not count.

    git clone https://github.com/FLAIROx/JaxMARL PEER
    pip install hydra-core omegaconf flashbax distrax
    python benchmarks/peers/beside_jaxmarl.py --checkout PEER --output benchmarks/results/beside_jaxmarl_cpu.json

The same command measures on a GPU, where there is one; `--games 1024` is then a size that it can show itself with.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import jax
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from machine import machine
from running import Rate, Running

from omg.training.device import prepare


class Case(NamedTuple):
    """One algorithm on both sides."""

    algorithm: str
    """Ours."""
    script: str
    """Of the checkout."""
    config: str
    """Its configuration file."""
    theirs: dict[str, Any]
    """What is changed in it."""
    ours: dict[str, Any]
    """Our settings."""
    width: int
    """Of all layers, on both sides."""


_Q = "baselines/QLearning/config/alg/ql_rnn_smax.yaml"
_MIXER = {"MIXER_EMBEDDING_DIM": 32, "MIXER_HYPERNET_HIDDEN_DIM": 64}
_IPPO = ("baselines/IPPO/ippo_rnn_smax.py", "baselines/IPPO/config/ippo_rnn_smax.yaml")
_PPO = {"UPDATE_EPOCHS": 10, "NUM_MINIBATCHES": 1}
CASES = {
    "iql": Case("iql", "baselines/QLearning/iql_rnn.py", _Q, {}, {}, 64),
    "vdn": Case("vdn", "baselines/QLearning/vdn_rnn.py", _Q, {}, {}, 64),
    "qmix": Case("qmix", "baselines/QLearning/qmix_rnn.py", _Q, _MIXER, {}, 64),
    "ippo": Case("ippo", *_IPPO, _PPO, {}, 64),
    "ippo with one body": Case("ippo", *_IPPO, _PPO, {"ppo_shared_body": True}, 64),
    # Their script of MAPPO starts from recurrent states of width 128, whatever is configured.
    "mappo": Case(
        "mappo",
        "baselines/MAPPO/mappo_rnn_smax.py",
        "baselines/MAPPO/config/mappo_homogenous_rnn_smax.yaml",
        _PPO,
        {},
        128,
    ),
}
SEQUENCES = 32
"""Of one Q-learning update, on both sides."""
_SPARE = 8
"""Rounds that their buffer holds besides those that they wait for; of 1024 games every one is a quarter of a GB."""
LINES = """\
game        8m on both sides: SMAX against its heuristic enemy, and our simulator against its own
games       {games} side by side; theirs in rounds of {steps} steps that go on in a new battle, ours of whole battles
network     input layer {width}, GRU {width}, output layer; one for all seats
            (IPPO: theirs has one recurrent body for actor and critic, and a layer more before each output; ours a body
            for each, or with `ppo_shared_body` one; MAPPO: two on both sides)
Q updates   32 sequences: theirs of {steps} steps, ours whole battles (see learned_steps); double Q, a target network
            updates per 1000 env steps: ours {ratio:.1f}, theirs {theirs:.1f}
QMIX        mixing width 32, hypernetworks of two layers, 64 wide
PPO         10 passes over the round just played, one minibatch
optimisers  their own on either side
tests       none"""
"""Equal work, line by line; where it is not equal, what differs."""


class _Clock(ModuleType):
    """Stands in for `wandb`: notes when a round was reported, and what of it counts."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.rounds: list[tuple[float, int]] = []
        self.config: dict[str, Any] = {}

    def init(self, **_: object) -> None:
        """Nothing to do."""

    def log(self, metrics: dict[str, Any]) -> None:
        """(seconds, gradient steps so far) of a round; scripts of PPO do not count them."""
        self.rounds.append((time.perf_counter(), int(metrics.get("grad_steps", len(self.rounds) + 1))))


class Peer:
    """A compiled training of theirs; every call begins anew."""

    def __init__(
        self, checkout: Path, case: Case, games: int, steps: int, epochs: int, rounds: int, clock: _Clock
    ) -> None:
        """Compiles.

        Args:
            checkout: where their repository is.
            case: what is trained.
            games: side by side.
            steps: of a round.
            epochs: Q-learning: updates after a round.
            rounds: in which is learned.
            clock: is told of every round.
        """
        self.clock, self.games, self.steps, q_learning = clock, games, steps, "QLearning" in case.script
        # A sequence of every game is added in a round, and an update waits for as many rounds as it has sequences.
        self.waits = SEQUENCES if q_learning else 0
        total = games * steps * (self.waits + rounds)
        config = yaml.safe_load((checkout / case.config).read_text())
        config |= {"NUM_ENVS": games, "NUM_STEPS": steps, "TOTAL_TIMESTEPS": total, "MAP_NAME": "8m", "SEED": 0}
        config |= {"WANDB_MODE": "offline", "NUM_SEEDS": 1}
        if q_learning:
            config |= {"HIDDEN_SIZE": case.width, "BUFFER_BATCH_SIZE": SEQUENCES, "NUM_EPOCHS": epochs}
            config |= {"LEARNING_STARTS": 0, "TEST_DURING_TRAINING": False, "BUFFER_SIZE": (SEQUENCES + _SPARE) * games}
        else:
            config |= {"FC_DIM_SIZE": case.width, "GRU_HIDDEN_DIM": case.width}
        config |= case.theirs
        script = _loaded(checkout / case.script)
        began = time.perf_counter()
        if q_learning:
            env, _ = script.env_from_config(config)
            train = jax.vmap(script.make_train(config, env))
            self.key = jax.random.split(jax.random.PRNGKey(0), 1)
        else:
            train, self.key = script.make_train(config), jax.random.PRNGKey(0)
        self._train = jax.jit(train).lower(self.key).compile()
        self.compiled = time.perf_counter() - began

    def advance(self) -> Rate:
        """One training: the rounds in which is learned, but for the first of them."""
        self.clock.rounds.clear()
        jax.block_until_ready(self._train(self.key))
        jax.effects_barrier()
        learned = [entry for entry in sorted(self.clock.rounds) if entry[1] > 0]
        (first, before), (last, after) = learned[0], learned[-1]
        return Rate((len(learned) - 1) * self.games * self.steps, after - before, last - first)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(name: str, args: argparse.Namespace, clock: _Clock, has_gpu: bool) -> dict[str, Any]:
    """One algorithm, in turns; prints and returns its row."""
    case, games = CASES[name], args.games
    on_policy = "ppo" in name
    settings: dict[str, object] = {"env_args.map_name": "8m", "batch_size_run": games, "rnn_hidden_dim": case.width}
    settings |= {"critic_hidden_dim": case.width} if on_policy else {"buffer_size": max(256, games)}
    settings |= {} if on_policy else {"updates_per_episode": args.updates_per_episode}

    def peer(epochs: int) -> Peer:
        return Peer(args.checkout, case, games, args.steps, epochs, args.learned, clock)

    theirs = peer(1) if on_policy else None
    ours = Running(case.algorithm, "sc2", {**settings, **case.ours}, has_gpu=has_gpu)
    trial = ours.advance(args.seconds)
    theirs = theirs or peer(max(1, round(trial.per_thousand * games * args.steps / 1000)))
    theirs.advance()
    pairs = []
    for turn in range(args.rounds):
        turns = [lambda: ours.advance(args.seconds), theirs.advance]
        rates = [one() for one in (turns if turn % 2 == 0 else turns[::-1])]
        pairs.append(tuple(rates if turn % 2 == 0 else rates[::-1]))
    ratios = [own.steps_per_second / other.steps_per_second for own, other in pairs]
    mine, other = (
        Rate(*(sum(column) for column in zip(*(pair[side] for pair in pairs), strict=True))) for side in (0, 1)
    )
    battle = mine.updates and not on_policy and mine.steps / mine.updates * args.updates_per_episode
    row: dict[str, Any] = {"algorithm": name, "ratio": median(ratios), "ratios": ratios}
    row |= {"ours_steps_per_s": mine.steps_per_second, "theirs_steps_per_s": other.steps_per_second}
    row |= {"updates_per_1000": [mine.per_thousand, other.per_thousand]}
    row |= {"learned_steps": None if on_policy else [round(SEQUENCES * battle), SEQUENCES * args.steps]}
    row |= {"compile_s": [ours.compiled, theirs.compiled], "games": games, "width": case.width}
    row |= {"turns": [[rate._asdict() for rate in pair] for pair in pairs]}
    print(
        f"{name}: {row['ratio']:.2f} ({mine.steps_per_second:,.0f} and {other.steps_per_second:,.0f} env steps/s; "
        f"{mine.per_thousand:.1f} and {other.per_thousand:.1f} updates per 1000; compiled in {ours.compiled:.0f} and "
        f"{theirs.compiled:.0f} s)",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True, help="their repository")
    parser.add_argument("--algorithms", default=",".join(CASES))
    parser.add_argument("--games", type=int, default=32)
    parser.add_argument("--steps", type=int, default=32, help="of a round of theirs")
    parser.add_argument("--updates-per-episode", type=float, default=1.0, help="Q-learning; theirs follows")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a turn of ours")
    parser.add_argument("--learned", type=int, default=4, help="rounds of a turn of theirs in which is learned")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    has_gpu = prepare(use_cuda=True)
    sys.path.insert(0, str(args.checkout))
    clock = _Clock()
    sys.modules["wandb"] = clock
    if not hasattr(jax.interpreters.xla, "pytype_aval_mappings"):
        # What distrax stands on (TensorFlow Probability) still looks for it where older versions of JAX had it.
        from jax._src import core

        jax.interpreters.xla.pytype_aval_mappings = core.pytype_aval_mappings
    import jaxmarl

    result: dict[str, Any] = {"command": sys.argv, "machine": machine(), "jaxmarl": jaxmarl.__version__}
    result |= {"rows": [], "work": {}}
    for name in args.algorithms.split(","):
        row = measure(name, args, clock, has_gpu)
        mine, other = row["updates_per_1000"]
        told = LINES.format(games=args.games, steps=args.steps, width=row["width"], ratio=mine, theirs=other)
        result["rows"].append(row)
        result["work"][name] = told.splitlines()
        if args.output:
            args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
