"""Your own game in thirty lines: any class with Gymnasium's methods and one space per seat can be trained in.

Run it with `python examples/own_game.py`.
"""

import numpy as np
from gymnasium import spaces

import omg


class Meeting:
    """Two walkers step on (1) or wait (0); who is first at cell 4 pays for waiting there, meeting there pays both."""

    observation_space = spaces.Tuple([spaces.Box(0, 4, (2,))] * 2)
    action_space = spaces.Tuple([spaces.Discrete(2)] * 2)

    def reset(self, *, seed=None):
        self.places = np.random.default_rng(seed).integers(0, 3, 2)
        return self.seen(), {}

    def step(self, actions):
        self.places = np.minimum(self.places + actions, 4)
        there = (self.places == 4).sum()
        return self.seen(), [(0.0, -0.2, 1.0)[there]] * 2, bool(there == 2), False, {"met": there == 2}

    def seen(self):
        return [self.places.astype(np.float32), self.places[::-1].astype(np.float32)]


def main(t_max: int = 20_000, **settings: object) -> float:
    game = {"key": "own_game:Meeting", "time_limit": 10, "metrics": ["met"]}
    run = omg.train("vdn", "gymma", t_max=t_max, env_args=game, **({"epsilon_anneal_time": 5_000} | settings))
    print(f"return {run.metrics.last(name='test_return_mean'):.2f}, the best is 2; run folder: {run.folder}")
    return run.metrics.last(name="test_return_mean")


if __name__ == "__main__":
    main()
