"""How good an agent is: played episodes, means and intervals."""

from omg.evaluation.selfplay import play_team
from omg.evaluation.statistics import bootstrap_interval

__all__ = ["bootstrap_interval", "play_team"]
