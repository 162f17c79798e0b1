"""Agents, pools and whole results for others: one archive or repository with a card, and back, trusting nobody."""

from omg.sharing.pulling import pull
from omg.sharing.pushing import push

__all__ = ["pull", "push"]
