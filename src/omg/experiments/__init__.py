"""Steps of an experiment that are longer than one run: training and measuring a whole pool of players."""

from omg.experiments.pool import changed_settings, measure, train_pool

__all__ = ["changed_settings", "measure", "train_pool"]
