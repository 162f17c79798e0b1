"""Where a run leaves its traces: the run folder, the tidy metrics, TensorBoard, the console."""

from omg.tracking.folder import RunFolder
from omg.tracking.reporter import RunReporter
from omg.tracking.table import Table

__all__ = ["RunFolder", "RunReporter", "Table"]
