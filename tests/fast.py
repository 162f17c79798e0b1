"""The files of `make test-fast`: for every room of the code some that check it for real and take little time.

Chosen by the processor time of each file, compilation included; together, in two processes, they take about 150 s of
it. A room is a folder or a module of `src/omg`, and each of its files imports it (`test_repository`).
"""

from __future__ import annotations

ROOMS: dict[str, tuple[str, ...]] = {
    "cli": ("test_cli_errors", "test_faults"),
    "overview": ("test_following",),
    "experiments": ("test_plans", "test_stages"),
    "api": ("test_python_api",),
    "exchange": ("test_torch_files", "test_exchange_import"),
    "sharing": ("test_sharing", "test_pulling"),
    "report": ("test_report", "test_report_page"),
    "tracking": ("test_tracking", "test_quiet"),
    "recordings": ("test_recordings",),
    "evaluation": ("test_statistics", "test_measures"),
    "training": ("test_counts", "test_memory"),
    "pools": ("test_pools",),
    "runners": ("test_runner",),
    "learners": ("test_coma", "test_ppo_objective"),
    "controllers": ("test_models_acting",),
    "planning": ("test_planning_goals", "test_planning_beliefs"),
    "launchers": ("test_leases",),
    "config": ("test_config", "test_config_words"),
    "envs": ("test_env_contract", "test_battle_layout", "test_toy_grid"),
    "modules": ("test_modules", "test_opponent_models"),
    "components": ("test_components", "test_files"),
    "registry": ("test_registry",),
    "names": ("test_names",),
    "disk": ("test_following",),
    "errors": ("test_team_refusals",),
    "screen": ("test_screen_and_signals",),
    "stopping": ("test_screen_and_signals",),
}
DOCUMENTS = ("test_docs", "test_repository")
"""No room: pages, workflow, versions."""
FILES = frozenset({*DOCUMENTS, *(name for names in ROOMS.values() for name in names)})
