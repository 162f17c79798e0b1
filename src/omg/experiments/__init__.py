"""Steps of an experiment made of runs: training and measuring a whole pool of players, pre-training its prior."""

from omg.experiments.pool import changed_settings, measure, train_pool
from omg.experiments.prior import pretrain, prior_config

__all__ = ["changed_settings", "measure", "pretrain", "prior_config", "train_pool"]
