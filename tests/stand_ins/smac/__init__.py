"""Stands in for the `smac` package: the same Python interface, no StarCraft II."""
