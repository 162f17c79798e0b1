"""The stages of a pipeline, one file each. `omg.experiments.plan.Plan` lists them in their order."""

from omg.experiments.stages.base import Earlier, Section, SettingsSection, Stage, Workplace

__all__ = ["Earlier", "Section", "SettingsSection", "Stage", "Workplace"]
