"""What people look at: learning curves as figures and in the terminal. A new kind of figure is a module of its own."""

from omg.report.curves import Curve, mean_curve, plot_curves, run_tables
from omg.report.terminal import bar_lines

__all__ = ["Curve", "bar_lines", "mean_curve", "plot_curves", "run_tables"]
