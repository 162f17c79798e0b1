"""HOP: what a player makes of the others, and tree search against what they will do.

`search.decide` plans: it grows `trees` in the game itself. `minds` are the networks and how they look at positions.
`inference` says what a model of the others provides; `goals` (with `beliefs`) is HOP's, `subgoals` is what HOP+ has in
its place, `cells` where subgoals are cells. `batches` maps whole searches over seeds and players. Everything is a pure
function over a whole batch of games.

A new model of the others satisfies `inference.Inference` and is built as `Class(game, settings)`. Add its line to
INFERENCES; its name is then a value of the configuration key `hop_model`.
"""

from omg.envs.grid import GridState
from omg.modules.opponent_models.inferring import CELLS
from omg.planning.cells import CellFollowing
from omg.planning.goals import GoalInference
from omg.planning.inference import ActionInference, Inference
from omg.planning.subgoals import SubgoalFollowing

__all__ = ["INFERENCES", "inference_of"]

INFERENCES: dict[str, type[Inference[GridState]]] = {
    "goals": GoalInference,
    "actions": ActionInference,
    "subgoals": SubgoalFollowing,
}

_SUBGOALS: dict[str, type[Inference[GridState]]] = {CELLS: CellFollowing}
"""What takes the place of codes, by `omg_inference`."""


def inference_of(model: str, inferred: str) -> type[Inference[GridState]]:
    """What a player makes of the others, by `hop_model` and, where it infers subgoals, `omg_inference`."""
    kind = INFERENCES[model]
    return _SUBGOALS.get(inferred, kind) if kind.infers_subgoals else kind
