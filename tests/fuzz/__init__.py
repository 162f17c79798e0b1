"""Generated input of all kinds; none of it may end in a traceback. `make fuzz` runs it, see `__main__.py`.

- `values`: strange words, and ways to change text, bytes and trees;
- `lines`: command lines, `plans`: plans of pipelines, `damage`: files that a run, an agent or a pool consists of;
- `material`: the files that are damaged, made without training;
- `harness`: one case through `omg.cli.main`, with everything that takes long cut off at the last moment.
"""
