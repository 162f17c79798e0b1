"""A run with a checkpoint, agents, pools, a prior and a pipeline that was begun: made without training or compiling."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

GAME: dict[str, Any] = {"rows": 4, "cols": 4, "players": 2, "max_food": 1, "max_player_level": 2, "episode_limit": 8}
SETTINGS: dict[str, Any] = {
    "t_max": 1000,
    "test_nepisode": 4,
    "batch_size_run": 4,
    "batch_size": 8,
    "buffer_size": 16,
    "rnn_hidden_dim": 8,
    "use_cuda": False,
    "use_tensorboard": False,
}
_FLOW = ", ".join(f"{key}: {value}" for key, value in SETTINGS.items())
PLAN = f"""
name: small
game: {{env_config: foraging, env_args: {GAME}}}
pool: {{training: {{iql: 1}}, heldout: {{iql: 1}}, scripted: {{random: heldout}}, {_FLOW}}}
train: {{{_FLOW}}}
agents: {{iql: , vdn: }}
evaluation: {{episodes: 4}}
report: {{metric: own_return}}
"""


class Material:
    """Folders `run`, `agent`, `pool`, `battle` (a pool for sc2), `prior` and `pipeline` to read from or to copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        config = self._config("iql", "foraging", GAME)
        self._run(config)
        shutil.copytree(folder / "run" / "agents" / "seed_1" / "last", folder / "agent")
        self._pool("pool", config)
        self._pool("battle", self._config("iql", "sc2", {"map_name": "3m"}))
        self._prior(folder / "prior", config)
        shutil.copytree(folder / "prior", folder / "pool" / "prior")
        self._pipeline()

    def copy(self, folder: Path, text: str) -> None:
        """Puts what `text` names into `folder`, to be changed at will."""
        for entry in self.folder.iterdir():
            if entry.name in text:
                shutil.copytree(entry, folder / entry.name)

    def _config(self, algorithm: str, env: str, env_args: dict[str, Any]) -> Any:
        from omg.config import adjust, resolve

        overrides = {**SETTINGS, "env_args": env_args, "local_results_path": str(self.folder / "results")}
        return adjust(resolve(algorithm, env, overrides).config, has_gpu=False)[0]

    def _run(self, config: Any) -> None:
        import jax
        import jax.numpy as jnp
        import numpy as np

        from omg.tracking import RunFolder
        from omg.training.checkpoint import save_checkpoint
        from omg.training.program import Program
        from omg.training.progress import Progress

        program = Program(config)
        run = RunFolder.create(config, program.spec)
        shapes = jax.eval_shape(program.init, jnp.zeros(1, jnp.uint32))
        for number in (1, 2):
            state = jax.tree.map(lambda leaf: np.full(leaf.shape, 1, leaf.dtype), shapes)
            state = state._replace(stored=np.int32(4 * number), episodes=np.int32(4 * number))
            newest = {"test_return_mean": 0.5, "test_ep_length_mean": 5.0}
            progress = Progress(last_test=8, last_log=8, tested_at=[8], newest_test=[newest], best={"1": 0.5})
            save_checkpoint(run.checkpoints, state, asdict(progress), with_buffer=True, keep=2)
        rows = [f"1,{t_env},{name},{t_env / 7}\n" for t_env in (8, 16, 24) for name in ("test_return_mean", "loss")]
        run.metrics_file.write_text("seed,t_env,name,value\n" + "".join(rows))
        run.set_status("interrupted")
        for which in ("best", "last"):
            self._agent(run.agent(1, which), config, 1)
        run.path.rename(self.folder / "run")
        (self.folder / "results").rmdir()

    def _agent(self, folder: Path, config: Any, seed: int) -> Path:
        import jax
        import numpy as np

        from omg.controllers import build_mac
        from omg.envs import make_env
        from omg.pools import AgentCard, save_agent

        env = make_env(config.env, **config.env_args)
        shapes = jax.eval_shape(lambda: build_mac(config, env.spec, jax.random.PRNGKey(0)))
        policy = jax.tree.map(lambda leaf: np.full(leaf.shape, 0.01 * seed, leaf.dtype), shapes)
        results = {"test_return_mean": 0.5}
        return save_agent(folder, policy, AgentCard(config.name, seed, 100, config.model_dump(), env.spec, results))

    def _pool(self, name: str, config: Any) -> None:
        from omg.envs import make_env
        from omg.pools import Pool, Standing

        env = make_env(config.env, **config.env_args)
        pool = Pool.create(self.folder / name, config.env, config.env_args, env.spec)
        measured = Standing(env.spec.success_metric, 0.5, 0.4, 0.6, 16)
        for seed, chosen in ((11, "training"), (12, "heldout")):
            scratch = self._agent(self.folder / "scratch", config, seed)
            pool.add(scratch, chosen, measured=measured)
            shutil.rmtree(scratch)
        pool.add_scripted("random", "training")

    def _prior(self, folder: Path, config: Any) -> None:
        import jax
        import numpy as np

        from omg.envs import make_env
        from omg.modules.opponent_models.prior import Prior
        from omg.pools import PriorCard, save_prior

        spec = make_env(config.env, **config.env_args).spec
        shapes = jax.eval_shape(lambda: Prior(spec.obs_dim, 8, map_shape=None, key=jax.random.PRNGKey(0)))
        prior = jax.tree.map(lambda leaf: np.full(leaf.shape, 0.01, leaf.dtype), shapes)
        save_prior(folder, prior, PriorCard(spec.name, spec.scenario, False, spec.obs_dim, 8, 100, ("iql_s11",)))

    def _pipeline(self) -> None:
        """A pipeline that was stopped in its first stage."""
        from .harness import Case, run_case

        def prepare(folder: Path) -> None:
            (folder / "plan.yaml").write_text(PLAN)

        outcome = run_case(Case(["pipeline", "plan.yaml", "--output", str(self.folder / "pipeline")], prepare))
        if outcome.problem or outcome.code or not (self.folder / "pipeline" / "stages").is_dir():
            raise RuntimeError(f"the pipeline to begin with cannot be made: {outcome}")
