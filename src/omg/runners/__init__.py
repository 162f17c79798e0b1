"""How episodes are played. A runner turns (env, policy, key) into a `Rollout`: an `EpisodeBatch` and its statistics.

`vector` plays built-in games inside a compiled program, whatever their number.
"""

from omg.runners.vector import OWN_RETURN, EpisodeStats, Rollout, any_over, play_episodes

__all__ = ["OWN_RETURN", "EpisodeStats", "Rollout", "any_over", "play_episodes"]
