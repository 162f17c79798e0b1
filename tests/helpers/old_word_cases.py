"""What each old word is seen to do here: the words that are typed, and what then holds of the run that they make."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from omg.config import adjust, resolve, translate
from omg.training.program import Program
from omg.training.state import exploration

GAME = "env_args.rows=4 env_args.cols=4 env_args.max_food=1 env_args.episode_limit=8 buffer_size=32 batch_size_run=4"
BATTLE = "--env-config=sc2 env_args.map_name=2m_vs_1z env_args.episode_limit=8 buffer_size=32 batch_size_run=4"


class Seen:
    """A run that was asked for with a command line, up to the moment when it would be compiled."""

    def __init__(self, words: str) -> None:
        given = words.split()
        game = (
            [] if any(word.startswith("--env-config") for word in given) else ["--env-config=foraging", *GAME.split()]
        )
        config = [] if any(word.startswith("--config") for word in given) else ["--config=iql"]
        line = translate([*config, *game, *given])
        resolved = resolve(line.config, line.env_config, line.overrides)
        self.said = resolved.notes
        self.config, self.adjusted = adjust(resolved.config, has_gpu=True)

    @cached_property
    def program(self) -> Program:
        """The run's program, not compiled."""
        return Program(self.config)

    @cached_property
    def state(self) -> Any:
        """Shapes of the run's state."""
        return jax.eval_shape(self.program.init, jnp.arange(self.config.seeds, dtype=jnp.uint32))

    @property
    def first_layer(self) -> tuple[int, ...]:
        """Shape of the agent's first layer for one seed: inputs, width."""
        return self.state.learner.mac.agent.fc1.weight.shape[1:]

    @property
    def parts(self) -> set[str]:
        """Names of the kinds of the learner and of its networks."""
        found = (getattr(self.state.learner, name, None) for name in ("mixer", "critic"))
        mac = self.state.learner.mac
        return {type(part).__name__ for part in (self.program.learner, mac, mac.agent, *found)}

    def epsilon(self, t_env: int) -> float:
        """Exploration at a step."""
        return round(float(exploration(self.program.config, jnp.int32(t_env))), 6)


Check = Callable[[Seen], bool]


def has(**expected: Any) -> Check:
    """These keys are what the run's learner, loop and folder go by."""
    return lambda seen: all(getattr(seen.config, key) == value for key, value in expected.items())


WORKS: dict[str, tuple[str, Check]] = {
    "name": ("name=mine", has(name="mine")),
    "label": ("label=second", has(label="second")),
    "seed": ("seed=7", has(seed=7)),
    "env": ("env=foraging", lambda seen: seen.program.spec.name == "foraging"),
    "env_args.map_name": ("--env-config=sc2 env_args.map_name=3m", lambda seen: seen.program.spec.scenario == "3m"),
    "runner": ("runner=episode", lambda seen: seen.config.batch_size_run == 1),
    "batch_size_run": ("batch_size_run=3", lambda seen: seen.program.config.batch_size_run == 3),
    "mac": ("mac=basic_mac", lambda seen: "BasicMAC" in seen.parts),
    "agent": ("agent=mlp", lambda seen: "MLPAgent" in seen.parts),
    "learner": ("learner=q_learner", lambda seen: "QLearner" in seen.parts),
    "mixer": (f"--config=qmix {BATTLE} mixer=vdn", lambda seen: "VDNMixer" in seen.parts),
    "action_selector": ("action_selector=softmax", lambda seen: seen.state.learner.mac.selector == "softmax"),
    "epsilon_start": ("epsilon_start=0.5", lambda seen: seen.epsilon(0) == 0.5),
    "epsilon_finish": ("epsilon_finish=0.25", lambda seen: seen.epsilon(10**8) == 0.25),
    "epsilon_anneal_time": ("epsilon_anneal_time=100 epsilon_finish=0", lambda seen: seen.epsilon(50) == 0.5),
    "mask_before_softmax": (
        f"--config=coma {BATTLE} mask_before_softmax=False",
        lambda seen: seen.state.learner.mac.selector == "multinomial_late_mask",
    ),
    "t_max": ("t_max=100k", has(t_max=100_000)),
    "test_interval": ("test_interval=5k", has(test_interval=5000)),
    "test_nepisode": (
        "test_nepisode=5",
        lambda seen: jax.eval_shape(seen.program.test, seen.state)[0].returns.shape == (1, 5),
    ),
    "test_greedy": ("test_greedy=False", lambda seen: not seen.state.learner.mac.test_greedy),
    "log_interval": ("log_interval=8 test_interval=800", lambda seen: seen.program.iterations == 1),
    "use_cuda": ("use_cuda=no", has(use_cuda=False)),
    "use_tensorboard": ("use_tensorboard=off", has(use_tensorboard=False)),
    "save_model": ("save_model=False", has(save_model=False)),
    "save_model_interval": ("save_model_interval=1M", has(save_model_interval=1_000_000)),
    "local_results_path": ("local_results_path=elsewhere", has(local_results_path="elsewhere")),
    "wandb_project": ("tracker=wandb wandb_project=us", has(wandb_project="us")),
    "checkpoint_path": ("checkpoint_path=RUN", has(checkpoint_path="RUN", evaluate=False)),
    "load_step": ("checkpoint_path=RUN load_step=300", has(load_step=300)),
    "evaluate": ("checkpoint_path=RUN --evaluate", has(evaluate=True)),
    "save_replay": ("checkpoint_path=RUN save_replay=True", has(save_replay=True, evaluate=True)),
    "buffer_size": ("buffer_size=48", lambda seen: seen.state.storage.obs.shape[1] == 48),
    "batch_size": ("batch_size=16", lambda seen: seen.program.sequences == 16),
    "gamma": ("gamma=0.5", lambda seen: seen.program.learner.config.gamma == 0.5),
    "lr": ("lr=1e-4", lambda seen: seen.program.learner.config.lr == 1e-4),
    "critic_lr": (f"--config=coma {BATTLE} critic_lr=0.1", lambda seen: seen.program.learner.config.critic_lr == 0.1),
    "optim_alpha": ("optim_alpha=0.9", lambda seen: seen.program.learner.config.optim_alpha == 0.9),
    "optim_eps": ("optim_eps=1e-3", lambda seen: seen.program.learner.config.optim_eps == 1e-3),
    "grad_norm_clip": ("grad_norm_clip=5", lambda seen: seen.program.learner.config.grad_norm_clip == 5),
    "target_update_interval": ("target_update_interval=9", has(target_update_interval=9)),
    "double_q": ("double_q=False", lambda seen: not seen.program.learner.config.double_q),
    "rnn_hidden_dim": ("rnn_hidden_dim=24", lambda seen: seen.first_layer[1] == 24),
    "obs_agent_id": ("obs_agent_id=False", lambda seen: seen.first_layer[0] == Seen("").first_layer[0] - 2),
    "obs_last_action": ("obs_last_action=False", lambda seen: seen.first_layer[0] == Seen("").first_layer[0] - 6),
    "mixing_embed_dim": (
        f"--config=qmix {BATTLE} mixing_embed_dim=5",
        lambda seen: seen.state.learner.mixer.sizes.embed_dim == 5,
    ),
    "hypernet_layers": (f"--config=qmix {BATTLE} hypernet_layers=1", has(hypernet_layers=1)),
    "hypernet_embed": (
        f"--config=qmix {BATTLE} hypernet_embed=7",
        lambda seen: 7 in {size for leaf in jax.tree.leaves(seen.state.learner.mixer) for size in leaf.shape},
    ),
    "td_lambda": (f"--config=coma {BATTLE} td_lambda=0.5", lambda seen: seen.program.learner.config.td_lambda == 0.5),
    "opt_loss": (f"--config=qtran {BATTLE} opt_loss=2", lambda seen: seen.program.learner.config.opt_loss == 2),
    "nopt_min_loss": (
        f"--config=qtran {BATTLE} nopt_min_loss=2",
        lambda seen: seen.program.learner.config.nopt_min_loss == 2,
    ),
    "network_size": (
        f"--config=qtran {BATTLE} network_size=big",
        lambda seen: seen.state.learner.mixer.sizes.layers == 3,
    ),
    "entropy_coef": (
        f"--config=ippo {BATTLE} entropy_coef=0",
        lambda seen: seen.program.learner.config.entropy_coef == 0,
    ),
    "common_reward": ("common_reward=True", lambda seen: seen.program.learner.config.common_reward is True),
    "debug": ("-d", lambda seen: seen.program.iterations == 1 and "debug: every round" in seen.adjusted[0]),
}
"""Word -> a command line with it, and what holds then without a note."""

TRANSLATED: dict[str, tuple[str, Check]] = {
    "mac=om_mac": ("--config=iql_omg mac=om_mac", has(mac="basic_mac", am_model="omg_am")),
    "mac=n_mac": ("mac=n_mac", has(mac="basic_mac")),
    "mac=non_shared_mac": ("mac=non_shared_mac", lambda seen: "IndividualRNNAgent" in seen.parts),
    "agent=rnn_ns": ("agent=rnn_ns", lambda seen: "IndividualRNNAgent" in seen.parts),
    "agent=n_rnn": ("agent=n_rnn", lambda seen: "RNNAgent" in seen.parts),
    "learner=nq_learner": ("learner=nq_learner", lambda seen: "QLearner" in seen.parts),
    "mixer=qtran_base": (f"--config=qtran {BATTLE} mixer=qtran_base", lambda seen: "QTranMixer" in seen.parts),
    "action_selector=soft_policies": (
        f"--config=coma {BATTLE} action_selector=soft_policies",
        lambda seen: seen.state.learner.mac.selector == "multinomial" and seen.epsilon(0) == 0,
    ),
    "hidden_dim": (
        f"--config=ippo {BATTLE} hidden_dim=24",
        lambda seen: seen.first_layer[1] == 24 and seen.config.critic_hidden_dim == 24,
    ),
    "use_rnn": ("use_rnn=False", lambda seen: "MLPAgent" in seen.parts),
    "eps_clip": (f"--config=ippo {BATTLE} eps_clip=0.1", lambda seen: seen.program.learner.config.ppo_clip == 0.1),
    "epochs": (f"--config=ippo {BATTLE} epochs=7", lambda seen: seen.program.learner.config.ppo_epochs == 7),
    "standardise_returns": (f"--config=ippo {BATTLE} standardise_returns=False", has(normalise_value=False)),
    "critic_type": (f"--config=ippo {BATTLE} critic_type=cv_critic", has(critic_input="state")),
    "target_update_interval_or_tau": ("target_update_interval_or_tau=50", has(target_update_interval=50)),
    "two_hypernet_layers": (f"--config=qmix {BATTLE} two_hypernet_layers=False", has(hypernet_layers=1)),
    "runner_log_interval": ("runner_log_interval=2000", has(log_interval=2000)),
    "learner_log_interval": ("learner_log_interval=2000 runner_log_interval=2000", has(log_interval=2000)),
    "repeat_id": ("repeat_id=3", has(label="repeat3")),
    "env_args.seed": ("env_args.seed=5", has(seed=5)),
    "verbose": (f"--config=qtran {BATTLE} verbose=True", lambda seen: seen.program.iterations == 1),
    "agent_output_type": (f"--config=coma {BATTLE} agent_output_type=pi_logits", has(learner="coma_learner")),
    "buffer_cpu_only": ("buffer_cpu_only=True use_cuda=False", has(use_cuda=False)),
    "moa_update_time": ("--config=hop --env-config=stag_hunt moa_update_time=15", has(hop_epochs=15)),
    "moa_batch_size": ("--config=hop --env-config=stag_hunt moa_batch_size=100", has(hop_minibatches=2)),
    "file_storage": ("-F shelf", has(tracker=["sacred"], sacred_observers=["file"], local_results_path="shelf")),
    "tiny_db": ("-t shelf", has(tracker=["sacred"], sacred_observers=["tinydb"], local_results_path="shelf")),
    "mongo_db": (
        "-m host:27018:marl",
        has(sacred_observers=["mongo"], sacred_mongo_url="mongodb://host:27018", sacred_mongo_db="marl"),
    ),
    "unobserved": ("-u", has(tracker=[])),
    "loglevel": ("-l DEBUG", has(debug=True)),
    "no_mongo": ("--no-mongo", has(sacred_observers=["file"], tracker=[])),
    "critic_q_fn": (f"--config=coma {BATTLE} critic_q_fn=coma", lambda seen: "COMACritic" in seen.parts),
    "critic_baseline_fn": (f"--config=coma {BATTLE} critic_baseline_fn=coma", has(learner="coma_learner")),
    "critic_train_mode": (f"--config=coma {BATTLE} critic_train_mode=seq", has(learner="coma_learner")),
    "critic_train_reps": (f"--config=coma {BATTLE} critic_train_reps=1", has(learner="coma_learner")),
    "q_nstep": (f"--config=coma {BATTLE} q_nstep=0", has(td_lambda=0.8)),
    "skip_connections": (f"--config=qmix {BATTLE} skip_connections=False", lambda seen: "QMixer" in seen.parts),
    "gated": (f"--config=qmix {BATTLE} gated=False", lambda seen: "QMixer" in seen.parts),
    "recurrent_critic": (f"--config=coma {BATTLE} recurrent_critic=False", lambda seen: "COMACritic" in seen.parts),
    "add_value_last_step": (f"--config=ippo {BATTLE} add_value_last_step=True", has(learner="ppo_learner")),
    "standardise_rewards": ("standardise_rewards=False", has(learner="q_learner")),
    "obs_individual_obs": (f"--config=mappo {BATTLE} obs_individual_obs=False", has(critic_input="state")),
    "evaluation_epsilon": ("evaluation_epsilon=0", has(test_greedy=True)),
    "reward_scalarisation": ("reward_scalarisation=sum common_reward=True", has(common_reward=True)),
    "use_wandb": ("use_wandb=True", has(tracker=["wandb"])),
    "wandb_team": ("use_wandb=True wandb_team=us", has(wandb_entity="us")),
}
"""Word -> a command line with it, and what holds then; exactly one note is said for the word."""

REFUSED: dict[str, tuple[str, str]] = {
    **{
        f"env_args.{option}": (
            f"--env-config=sc2 env_args.{option}={value}",
            f"env_args.{option}: got .* which the built-in simulator cannot honour",
        )
        for option, value in {
            "difficulty": "A",
            "game_version": "4.6.2.69232",
            "continuing_episode": "True",
            "replay_dir": "here",
            "replay_prefix": "p",
            "window_size_x": "640",
            "window_size_y": "480",
            "debug": "True",
            "heuristic_rest": "True",
        }.items()
    },
    "mixer=qtran_alt": ("--config=qtran mixer=qtran_alt", r"QTRAN-alt does not exist here\. Use --config=qtran"),
    "env_args.unit_type_bits": ("env_args.unit_type_bits=2", "follows from env_args.map_name"),
    "learner=actor_critic_learner": ("learner=actor_critic_learner", "Use --config=ippo or --config=mappo"),
    "learner=maddpg_learner": ("learner=maddpg_learner", "Use --config=mappo"),
    "hypergroup": ("hypergroup=us", "Use label=NAME"),
    "sql": ("-s sqlite:///x", "Use sacred_observers=tinydb or mongo"),
    "s3": ("-S s3://x", "Use -F DIR"),
    "pdb": ("-D", r"python -m pdb main\.py"),
    "queue": ("-q", "There is no queue here"),
    "force": ("-f", "what does not fit is refused"),
    "enforce_clean": ("-e", r"versions\.json"),
    "id": ("-i 7", "Use label=NAME"),
    "comment": ("-c words", "Use label=NAME"),
    "capture": ("-C no", r"console\.log"),
    "beat_interval": ("-b 10", "every 10 seconds"),
    "priority": ("-P 1", "There is no queue here"),
    "help": ("-h", "Write --help"),
}
"""Word -> a command line with it, and what the refusal says."""
