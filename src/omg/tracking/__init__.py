"""Where a run leaves its traces: the run folder, the tidy metrics, the console, TensorBoard and other trackers."""

from omg.tracking.agents import check_step, is_agent, load_seeds
from omg.tracking.folder import RunFolder
from omg.tracking.reporter import RunReporter
from omg.tracking.table import Table
from omg.tracking.trackers import TRACKERS, check_trackers

__all__ = ["TRACKERS", "RunFolder", "RunReporter", "Table", "check_step", "check_trackers", "is_agent", "load_seeds"]
