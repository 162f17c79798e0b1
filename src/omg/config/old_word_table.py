"""The one table of old words; see `old_words`. A new line is enough: the command line and the page are made from it."""

from __future__ import annotations

from omg.config import old_word_rules as rules
from omg.config.old_words import OldWord, Refusal, only, renamed


def _works(origin: str, words: dict[str, tuple[str, str]]) -> list[OldWord]:
    return [OldWord(word, origin, meant, here) for word, (meant, here) in words.items()]


def _refused(origin: str, words: dict[str, tuple[str, str]]) -> list[OldWord]:
    return [OldWord(word, origin, meant, here, Refusal(word, here)) for word, (meant, here) in words.items()]


def _facts(origin: str, words: dict[str, tuple[tuple[object, ...], str, str]]) -> list[OldWord]:
    return [OldWord(word, origin, meant, here, only(word, *ok)) for word, (ok, meant, here) in words.items()]


_SAME = "The same."
_REAL_GAME = "Real StarCraft II only; the simulator refuses what it cannot honour."

_LINES: list[OldWord] = [
    *_works(
        "PyMARL",
        {
            "name": (
                "Name of the configuration and of the results",
                "The same, and the first part of the folder's name.",
            ),
            "label": ("Free label of a run, stored with it", "A part of the folder's name."),
            "seed": ("Seed of everything", "The same; with seeds=N the first of N."),
            "env": ("Game", "The same; --env-config names it, too."),
            "env_args.map_name": ("Map of SMAC", _SAME),
            "runner": ("episode or parallel", "The same words; vector, the default, plays any number compiled."),
            "batch_size_run": ("Games of the parallel runner", "The same, for all runners."),
            "mac": ("Controller", "basic_mac; multi_module_mac and hop_mac are implied."),
            "agent": ("Network of a seat", "rnn and others, see the key."),
            "learner": ("What makes updates", "The same words; most are implied by --config."),
            "mixer": ("vdn, qmix or none", "The same."),
            "action_selector": ("epsilon_greedy or multinomial", "The same, and softmax, which draws without a floor."),
            "epsilon_start": ("Exploration at the start", _SAME),
            "epsilon_finish": ("Exploration at the end", _SAME),
            "epsilon_anneal_time": ("Steps over which it falls", _SAME),
            "mask_before_softmax": ("COMA: illegal actions leave the softmax", "The same, both values."),
            "t_max": ("Steps of the run", "The same; 100k and 2M are numbers, too."),
            "test_interval": ("Steps between tests", _SAME),
            "test_nepisode": ("Episodes of a test", "The same; runner=vector plays any number at once."),
            "test_greedy": ("Tests take the best action", _SAME),
            "log_interval": ("Steps between lines of the log", "The same, for all training metrics."),
            "use_cuda": (
                "Train on the GPU",
                "The same; without one the run says so and takes the CPU. yes and no will do.",
            ),
            "use_tensorboard": ("Write event files", "The same; on by default, into the run's folder."),
            "save_model": ("Save models", "Write checkpoints and agents; on by default."),
            "save_model_interval": ("Steps between saved models", "Steps between checkpoints."),
            "local_results_path": ("Folder of results", _SAME),
            "checkpoint_path": (
                "Folder whose models are loaded before training",
                "A run's folder: its networks, optimisers and steps are taken over; the buffer is new, as in PyMARL.",
            ),
            "load_step": (
                "Which saved step: 0 the last, else the nearest",
                "0 the last, else N or the last saved before.",
            ),
            "evaluate": ("With checkpoint_path: test and stop", "The same; without checkpoint_path it is refused."),
            "save_replay": (
                "With checkpoint_path: test, save StarCraft II's replay, stop",
                "Built-in games: pages in replays/ play the last test's games. With checkpoint_path: test and stop.",
            ),
            "buffer_size": ("Episodes of the replay buffer", _SAME),
            "batch_size": ("Episodes of an update", _SAME),
            "gamma": ("Discount", _SAME),
            "lr": ("Learning rate", _SAME),
            "critic_lr": ("Learning rate of the critic", _SAME),
            "optim_alpha": ("Smoothing of RMSProp", _SAME),
            "optim_eps": ("Epsilon of RMSProp", _SAME),
            "grad_norm_clip": ("Longest gradient", _SAME),
            "target_update_interval": ("Episodes between target copies", _SAME),
            "double_q": ("Double Q-learning", _SAME),
            "rnn_hidden_dim": ("Width of the agent", _SAME),
            "obs_agent_id": ("Agents see their number", _SAME),
            "obs_last_action": ("Agents see their last action", _SAME),
            "mixing_embed_dim": ("Width of the mixer", _SAME),
            "hypernet_layers": ("Layers of QMIX's hypernets", _SAME),
            "hypernet_embed": ("Width of QMIX's hypernets", _SAME),
            "td_lambda": ("COMA: lambda of the targets", _SAME),
            "opt_loss": ("QTRAN: weight of a loss", _SAME),
            "nopt_min_loss": ("QTRAN: weight of a loss", _SAME),
            "network_size": ("QTRAN: small or big", _SAME),
            **{
                f"env_args.{option}": ("Option of SMAC", _REAL_GAME)
                for option in ("difficulty", "game_version", "continuing_episode", "replay_dir", "replay_prefix")
            },
            **{
                f"env_args.{option}": ("Option of SMAC", _REAL_GAME)
                for option in ("window_size_x", "window_size_y", "debug", "heuristic_rest")
            },
        },
    ),
    *_works("EPyMARL", {"entropy_coef": ("Weight of the entropy", _SAME), "common_reward": ("One team reward", _SAME)}),
    *_works("EPyMARL", {"wandb_project": ("Project in Weights & Biases", "The same, with tracker=wandb.")}),
    *_works(
        "Sacred",
        {"debug": ("-d: do not filter stack traces", "Checks and messages, see the key; also --debug and -d.")},
    ),
    OldWord(
        "mac=om_mac",
        "OMG",
        "Controller with an opponent model",
        "basic_mac has one where am_model names it.",
        lambda _: {"mac": "basic_mac"},
    ),
    OldWord("mac=n_mac", "PyMARL", "PyMARL2's controller", "The same as basic_mac.", lambda _: {"mac": "basic_mac"}),
    OldWord(
        "mac=non_shared_mac",
        "EPyMARL",
        "A network for every seat",
        "The network says so.",
        lambda _: {"mac": "basic_mac", "agent": "idv_rnn"},
    ),
    OldWord("agent=rnn_ns", "EPyMARL", "A network for every seat", "Its name here.", lambda _: {"agent": "idv_rnn"}),
    OldWord("agent=n_rnn", "PyMARL", "PyMARL2's recurrent agent", "The same network.", lambda _: {"agent": "rnn"}),
    OldWord(
        "learner=nq_learner",
        "PyMARL",
        "PyMARL2's Q-learner",
        "The learner of IQL, VDN and QMIX.",
        lambda _: {"learner": "q_learner"},
    ),
    OldWord(
        "mixer=qtran_base",
        "PyMARL",
        "QTRAN's networks",
        "They belong to QTRAN's learner.",
        lambda _: {"mixer": None, "learner": "qtran_learner"},
    ),
    OldWord(
        "action_selector=soft_policies",
        "EPyMARL",
        "Draws from the policy",
        "Drawn without a floor under the probabilities.",
        lambda _: {"action_selector": "softmax"},
    ),
    OldWord(
        "hidden_dim",
        "EPyMARL",
        "Width of agent and critic",
        "Two keys here.",
        renamed("rnn_hidden_dim", "critic_hidden_dim"),
    ),
    OldWord("use_rnn", "EPyMARL", "Recurrent agent", "The agent's name says it.", rules.network),
    OldWord(
        "use_wandb",
        "EPyMARL",
        "Record with Weights & Biases",
        "A tracker; nothing without it.",
        lambda value: {"tracker": ["wandb"] if value else []},
    ),
    OldWord("wandb_team", "EPyMARL", "Team in Weights & Biases", "Its name here.", renamed("wandb_entity")),
    OldWord("eps_clip", "EPyMARL", "Clip of PPO", "Its name here.", renamed("ppo_clip")),
    OldWord("epochs", "EPyMARL", "Passes of PPO", "Its name here.", renamed("ppo_epochs")),
    OldWord("standardise_returns", "EPyMARL", "Critic learns scaled returns", "Its name here.", late=rules.returns),
    OldWord("critic_type", "EPyMARL", "Decentralised or central critic", "What the critic sees.", rules.critic),
    OldWord(
        "target_update_interval_or_tau",
        "EPyMARL",
        "Episodes between target copies, or share of a moving average",
        "Keys of their own here.",
        rules.target_update,
    ),
    OldWord(
        "two_hypernet_layers",
        "PyMARL",
        "QMIX: two layers in the hypernets",
        "Their number.",
        lambda value: {"hypernet_layers": 2 if value else 1},
    ),
    OldWord(
        "runner_log_interval",
        "PyMARL",
        "Steps between logged statistics of play",
        "One interval for all.",
        renamed("log_interval"),
    ),
    OldWord(
        "learner_log_interval",
        "PyMARL",
        "Steps between logged statistics of learning",
        "One interval for all.",
        renamed("log_interval"),
    ),
    OldWord(
        "repeat_id",
        "PyMARL",
        "Number of a repetition, stored with the run",
        "A part of the folder's name.",
        rules.repeat_label,
    ),
    OldWord(
        "env_args.seed",
        "PyMARL",
        "Seed of the game; overwritten by seed",
        "All random numbers come from seed.",
        rules.game_seed,
    ),
    OldWord("verbose", "PyMARL", "QTRAN: more messages", "More messages come with debug.", rules.verbose),
    OldWord("agent_output_type", "PyMARL", "q or pi_logits", "It follows from the learner.", late=rules.output_type),
    OldWord(
        "buffer_cpu_only",
        "PyMARL",
        "Keep the buffer in the CPU's memory",
        "The buffer lies where the program runs.",
        late=rules.buffer_place,
    ),
    OldWord(
        "moa_update_time",
        "HOP",
        "Passes of the others' models over the data",
        "Passes of all networks.",
        late=rules.passes,
    ),
    OldWord(
        "moa_batch_size",
        "HOP",
        "Positions of one update of the others' models",
        "Parts of a pass over the round just played, none larger than that.",
        late=rules.parts,
    ),
    OldWord(
        "file_storage",
        "Sacred",
        "-F DIR: record in files under DIR",
        "Results and Sacred's files go there.",
        rules.sacred_files,
    ),
    OldWord("tiny_db", "Sacred", "-t DIR: record in a TinyDB", "Results and the TinyDB go there.", rules.sacred_tinydb),
    OldWord("mongo_db", "Sacred", "-m HOST:PORT:DB: record in MongoDB", "Two keys here.", rules.mongo),
    OldWord(
        "unobserved",
        "Sacred",
        "-u: record nowhere",
        "No tracker; the run's folder is always written.",
        lambda value: {"tracker": []} if value else {},
    ),
    OldWord("loglevel", "Sacred", "-l LEVEL: how much is said", "debug is a key, info the default.", rules.log_level),
    OldWord(
        "no_mongo",
        "PyMARL",
        "Do not record in MongoDB",
        "None is used unless sacred_observers names mongo.",
        lambda value: {"sacred_observers": ["file"]} if value else {},
    ),
    *_facts(
        "PyMARL",
        {
            "critic_q_fn": (("coma",), "COMA: form of the critic", "The critic of COMA is COMA's."),
            "critic_baseline_fn": (("coma",), "COMA: form of the baseline", "The baseline of COMA is COMA's."),
            "critic_train_mode": (
                ("seq",),
                "COMA: the critic learns step by step",
                "It learns from the last step to the first.",
            ),
            "critic_train_reps": ((1,), "COMA: passes of the critic", "The critic learns once from every round."),
            "q_nstep": (
                (0,),
                "Steps of the return in targets",
                "COMA has td_lambda, PPO gae_lambda, Q-learning one step.",
            ),
            "skip_connections": ((False,), "QMIX: skip connections", "The mixer is the published one."),
            "gated": ((False,), "QMIX: gated mixing", "The mixer is the published one."),
            "recurrent_critic": ((False,), "Critic with memory", "COMA's critic has none; PPO's is named by critic."),
        },
    ),
    *_facts(
        "EPyMARL",
        {
            "add_value_last_step": (
                (True,),
                "Bootstrap after the last step",
                "An episode that was cut goes on in its value.",
            ),
            "standardise_rewards": ((False,), "Scale rewards by their statistics", "Rewards are learned as they are."),
            "obs_individual_obs": ((False,), "Critic also sees each observation", "critic_input says what it sees."),
            "evaluation_epsilon": ((0, 0.0), "Exploration of tests", "Tests do not explore; test_greedy=False does."),
            "reward_scalarisation": (
                ("sum",),
                "How rewards become one",
                "common_reward sums; env_args has it for gymma.",
            ),
        },
    ),
    *_refused(
        "PyMARL",
        {
            "mixer=qtran_alt": (
                "Refused by PyMARL's own learner",
                "QTRAN-alt does not exist here. Use --config=qtran.",
            ),
            "env_args.unit_type_bits": ("Internal of SMAC", "It follows from env_args.map_name. Leave it out."),
        },
    ),
    *_refused(
        "EPyMARL",
        {
            "learner=actor_critic_learner": ("A2C", "There is no A2C here. Use --config=ippo or --config=mappo."),
            "learner=maddpg_learner": ("MADDPG", "There is no MADDPG here. Use --config=mappo."),
            "hypergroup": ("Groups runs in Weights & Biases", "The seeds of a run are a group. Use label=NAME."),
        },
    ),
    *_refused(
        "Sacred",
        {
            "sql": ("-s URL: record in SQL", "There is no SQL observer here. Use sacred_observers=tinydb or mongo."),
            "s3": ("-S PATH: record in S3", "There is no S3 observer here. Use -F DIR and copy the folder."),
            "pdb": ("-D: debugger after an error", "Start Python's own: python -m pdb main.py ..."),
            "queue": ("-q: only queue the run", "There is no queue here. Start the run when it is to run."),
            "force": ("-f: no warnings of suspicious changes", "There are none: what does not fit is refused."),
            "enforce_clean": ("-e: refuse uncommitted code", "versions.json in the run's folder says -dirty then."),
            "id": ("-i ID: number of the run", "A run is its folder. Use label=NAME."),
            "comment": ("-c TEXT: comment", "Use label=NAME, which becomes a part of the folder's name."),
            "capture": ("-C: how output is captured", "console.log always has what a run says. Leave it out."),
            "beat_interval": ("-b: seconds between records", "Sacred is told every 10 seconds. Leave it out."),
            "priority": ("-P: priority in the queue", "There is no queue here."),
            "help": ("-h: help", "Write --help."),
        },
    ),
]
OLD_WORDS: dict[str, OldWord] = {line.word: line for line in _LINES}

OLD_CONFIG_NAMES = {
    "iql_ns": "iql_idv",
    "vdn_ns": "vdn agent=idv_rnn",
    "qmix_ns": "qmix agent=idv_rnn",
    "ippo_ns": "ippo agent=idv_rnn",
    "mappo_ns": "mappo agent=idv_rnn",
    "ia2c": "ippo",
    "maa2c": "mappo",
    "ia2c_ns": "ippo agent=idv_rnn",
    "maa2c_ns": "mappo agent=idv_rnn",
    "maddpg": "mappo",
    "sc2v2": "sc2 env_args.start=random",
    "smaclite": "sc2",
    "sc2wrapped": "sc2",
}
"""Algorithm or game of EPyMARL that has another name here, or none: -> what is nearest."""
