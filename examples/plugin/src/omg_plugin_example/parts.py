"""What this package brings. Implementations are named, not imported: a list of parts costs nothing."""

from __future__ import annotations

from omg.envs.base import EnvTraits
from omg.modules.opponent_models.keys import FeatureKeys, ModelRateKeys
from omg.registry import Entry, MixerTraits, ModelTraits, ScriptTraits, TrackerTraits, Traits
from omg_plugin_example.keys import CountsKeys

COUNTS = Entry(
    "omg_plugin_example.counting:CountingModel",
    ModelTraits(sections=(ModelRateKeys, FeatureKeys, CountsKeys)),
    "counts of what each co-player has done so far",
)
WEIGHTED_SUM = Entry("omg_plugin_example.mixer:WeightedSum", MixerTraits(), "a sum with learned weights")
MEETING = Entry(
    "omg_plugin_example.meeting:Meeting",
    EnvTraits("omg_plugin_example.meeting:MeetingArgs"),
    "Two players meet again and again; each likes one place best",
)
STUBBORN = Entry("omg_plugin_example.players:stubborn", ScriptTraits(envs=("meeting",)), "goes to its favourite")
YIELDING = Entry("omg_plugin_example.players:yielding", ScriptTraits(envs=("meeting",)), "goes where the other went")
BELIEF_PROBE = Entry(
    "omg_plugin_example.measures:belief_probe", Traits(), "can one read off the features who the other is?"
)
JSONL = Entry("omg_plugin_example.tracker:KIND", TrackerTraits(), "every metric as a line of JSON")
