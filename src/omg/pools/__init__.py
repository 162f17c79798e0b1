"""Trained agents on disk: each one a folder that says by itself what it is and where it can play."""

from omg.pools.agents import Agent, AgentCard, load_agent, save_agent

__all__ = ["Agent", "AgentCard", "load_agent", "save_agent"]
