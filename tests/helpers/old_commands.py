"""Runs old code bases' command lines to their ends, by both programs: `python tests/helpers/old_commands.py FOLDER`.

Small sizes are appended, nothing else is changed. It takes some minutes, nearly all of them compilation, which is why
it is no test; `test_old_words.py` traces the same lines.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from helpers.tiny import tiny_agent
from omg.config import Config, resolve
from omg.envs import make_env
from omg.pools import Pool

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "--config=iql --env-config=sc2 with env_args.map_name=8m",
    "--config=iql --env-config=sc2 with env_args.map_name=8m --obs_is_state=True",
    "--config=iql --env-config=sc2 with env_args.map_name=8m --mac=basic_mac --am_model=omg_am --learner=am_learner "
    "--init_param_path=POOL",
    "--config=4iql3qmix1iql_omg --multi_algs --env-config=sc2 with env_args.map_name=8m --mac=multi_module_mac "
    "--train_alg=iql_omg",
    "--config=7iql1iql_omg --multi_algs --env-config=sc2 with env_args.map_name=8m --mac=multi_module_mac "
    "--train_alg=iql_omg --learner=omg_learner --is_agent_shift=True --init_param_path=POOL "
    "--subgoal_mode=optimistic",
    "--env-config=sc2 --config=iql_omg --seed=123 --debug",
)
SMALL = (
    "t_max=200 test_nepisode=2 batch_size_run=2 batch_size=2 buffer_size=32 updates_per_episode=0.5 "
    "env_args.episode_limit=20"
)


def small_pool(folder: Path) -> Path:
    """A pool of untrained IQL and QMIX players for the battles of `SMALL`."""
    pool: Pool | None = None
    for number, algorithm in enumerate(("iql", "iql", "qmix")):
        config = small_config(algorithm)
        spec = make_env(config.env, **config.env_args).spec
        pool = pool or Pool.create(folder / "POOL", config.env, config.env_args, spec)
        pool.add(tiny_agent(folder / f"agent_{number}", config, number), "training")
    return folder / "POOL"


def small_config(algorithm: str) -> Config:
    """The configuration of a player of that pool."""
    return resolve(algorithm, "sc2", ["env_args.map_name=8m", "env_args.episode_limit=20", "rnn_hidden_dim=8"]).config


def words_of(command: str, folder: Path, pool: Path) -> list[str]:
    """A command line with the pool in its place and small sizes behind it."""
    return f"{command.replace('POOL', str(pool))} {SMALL} local_results_path={folder / 'results'}".split()


def run_all(folder: Path) -> int:
    """Runs every line with `python main.py` and with `omg train`; returns the number of those that failed."""
    pool = small_pool(folder)
    omg = "import sys; from omg.cli import main; sys.exit(main(sys.argv[1:]))"
    failed = 0
    for command in COMMANDS:
        for program in (["main.py"], ["-c", omg, "train"]):
            words = words_of(command, folder, pool)
            done = subprocess.run([sys.executable, *program, *words], cwd=ROOT, capture_output=True, text=True)
            last = (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]
            print(f"{done.returncode}  {program[0]}  {command}\n   {last}", flush=True)
            failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(run_all(Path(sys.argv[1])))
