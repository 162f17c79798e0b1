"""What is on disk: runs, pipelines, suites and pools as rows of a table, while they work and afterwards.

Folders are only looked at: no game is opened, no JAX loaded, nothing followed out of a folder, and every file is read
up to a bound, because it may be a stranger's. Modules: `reading` (files), `finding` (folders), `runs` and `stages`
(their rows), `listing` (the table), `following` (a log), `server` (the same in a browser, with the page in `assets`).
"""
