"""Few-shot adaptation: how fast agents come to terms with co-players they have never met.

`setup` gathers who meets whom, `schooling` what an agent brings along, `meeting` plays, `scores` turns episodes into
tables, `drawing` into a figure and words, `measuring` does all of it. In a pipeline it is the stage
`omg.experiments.stages.adapt`; the program that plays is `omg.training.encounters`.
"""

from omg.experiments.adaptation.measuring import Adaptation, adapt, write_adaptation
from omg.experiments.adaptation.meeting import Meeting, Rules

__all__ = ["Adaptation", "Meeting", "Rules", "adapt", "write_adaptation"]
