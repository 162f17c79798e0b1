"""What there is to gain from knowing the others: measured for a pool, kept in it, and shown wherever agents are scored.

`keeping` holds trained responses, `matrix` plays responders with partners, `measuring` does all of it. In a pipeline it
is the stage `omg.experiments.stages.room`.
"""

from omg.experiments.room.measuring import MeasuredRoom, RoomRules, measure_room, write_room

__all__ = ["MeasuredRoom", "RoomRules", "measure_room", "write_room"]
