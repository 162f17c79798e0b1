"""Parts for omg from a package of its own; `parts` lists them, `pyproject.toml` gives them their names."""
