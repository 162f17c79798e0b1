"""The configuration: typed keys (`schema`), YAML layers (`layers`), PyMARL's command-line syntax (`overrides`), teams.

A new algorithm is a file in `algs/` and a new game one in `envs/`; its first comment line is its help text. A new key
is a field with a help text in the section of the part that reads it.
"""

from omg.config.algorithms import algorithm_names, known_algorithm
from omg.config.checks import adjust, check_stored, playable_games, update_rhythm
from omg.config.layers import Resolved, env_config_names, member_config, refuse_shared, resolve, team_parts
from omg.config.overrides import CommandLine, translate
from omg.config.schema import Config, change_config, config_fields, parse_config
from omg.config.teams import POOL, TeamPart, parse_team
from omg.config.values import read_yaml, write_yaml

__all__ = [
    "POOL",
    "CommandLine",
    "Config",
    "Resolved",
    "TeamPart",
    "adjust",
    "algorithm_names",
    "change_config",
    "check_stored",
    "config_fields",
    "env_config_names",
    "known_algorithm",
    "member_config",
    "parse_config",
    "parse_team",
    "playable_games",
    "read_yaml",
    "refuse_shared",
    "resolve",
    "team_parts",
    "translate",
    "update_rhythm",
    "write_yaml",
]
