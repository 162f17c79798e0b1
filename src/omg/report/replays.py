"""Replays of test games: for each game one page that plays it, with nothing but itself needed to look at it.

A page holds a JSON document in `<script id="replay">`: `game`, `scenario`, `algorithm`, `seed`, `number`, `facts`
(return, length and metrics of the game), `stage` (left, top, width, height, cells), `pieces` (name, label, colour,
size, square) and `frames`. A frame is a list of the pieces that are there, each `[number, x, y, health, written]`;
`written` is null where a piece has its own label.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

import jax
import numpy as np

from omg.components.files import new_folder, write_text
from omg.config import Config
from omg.envs import plays_on_host
from omg.envs.scenes import Scene, Scenery, scenery_of
from omg.errors import UserError
from omg.report.markup import document, html_text
from omg.runners.vector import EpisodeStats
from omg.training.program import Program
from omg.training.state import RunState

REPLAYS = "replays"
"""Folder of the pages in that of a run."""

_PLAYER = """
const replay = JSON.parse(document.getElementById("replay").textContent);
const svg = document.getElementById("field"), bar = document.getElementById("bar"), at = document.getElementById("at");
const make = (name, set, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in set) node.setAttribute(key, set[key]);
  if (text !== undefined) node.textContent = text;
  return node;
};
const field = replay.stage, unit = Math.max(field.width, field.height);
function draw(frame) {
  svg.replaceChildren();
  svg.append(make("rect", {x: field.left, y: field.top, width: field.width, height: field.height, fill: "#f4f5f0"}));
  if (field.cells) {
    let lines = "";
    for (let x = 0; x <= field.width; x++) lines += `M${field.left + x} ${field.top}v${field.height}`;
    for (let y = 0; y <= field.height; y++) lines += `M${field.left} ${field.top + y}h${field.width}`;
    svg.append(make("path", {d: lines, stroke: "#c9ccc4", "stroke-width": unit / 600}));
  }
  for (const [number, x, y, health, written] of replay.frames[frame]) {
    const piece = replay.pieces[number], size = piece.size;
    const paint = {fill: piece.colour, stroke: "#ffffff", "stroke-width": size / 8};
    const body = piece.square
      ? make("rect", {x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...paint})
      : make("circle", {cx: x, cy: y, r: size, ...paint});
    body.append(make("title", {}, `${piece.name} ${piece.label}: ${Math.round(100 * health)} %`));
    svg.append(body);
    const text = written === null ? piece.label : String(written);
    if (text) svg.append(make("text", {x: x, y: y + 0.36 * size, "font-size": size, "text-anchor": "middle",
      fill: "#ffffff", "font-family": "sans-serif", "pointer-events": "none"}, text));
    if (health < 1) {
      svg.append(make("rect", {x: x - size, y: y - 1.5 * size, width: 2 * size, height: size / 4, fill: "#d8dee4"}));
      svg.append(make("rect", {x: x - size, y: y - 1.5 * size, width: 2 * size * health, height: size / 4,
        fill: health > 0.4 ? "#1a7f5a" : "#b3364a"}));
    }
  }
  bar.value = frame;
  at.textContent = `step ${frame} of ${replay.frames.length - 1}`;
}
let timer = null;
const stop = () => { clearInterval(timer); timer = null; };
document.getElementById("play").onclick = () => {
  if (timer !== null) return stop();
  if (Number(bar.value) >= replay.frames.length - 1) bar.value = 0;
  timer = setInterval(() => {
    const next = Number(bar.value) + 1;
    if (next >= replay.frames.length) return stop();
    draw(next);
  }, 200);
};
bar.oninput = () => { stop(); draw(Number(bar.value)); };
bar.max = replay.frames.length - 1;
draw(0);
"""


class About(TypedDict):
    """What is known of a game besides its frames."""

    game: str
    scenario: str
    algorithm: str
    seed: int
    number: int
    facts: dict[str, float]
    """Return, length and metrics."""


def check_replays(config: Config, program: Program) -> None:
    """Refuses `save_replay` where there is no picture of the game, before there is a run folder.

    Games on the host have replays of their own, or refuse them when their program is built.
    """
    if config.save_replay and not plays_on_host(config.env, config.env_args) and scenery_of(program.env) is None:
        raise UserError(
            f"save_replay: got True, but there is no picture of {config.env}. Allowed with: the built-in games, and "
            f"others that have `scenery`."
        )


def write_replays(folder: Path, program: Program, state: RunState) -> list[Path]:
    """Plays the games of the last test once more and writes a page for each; older pages are replaced.

    Args:
        folder: where they go.
        program: of the run.
        state: the run when it was tested last.

    Returns:
        The pages, `seed_1_game_01.html` and so on.

    Raises:
        UserError: the disk does not take them.
    """
    config, scenery = program.config, scenery_of(program.env)
    assert scenery is not None
    played = jax.device_get(program.replay(state, scenery.show))
    names: list[str] = []
    try:
        with new_folder(folder) as staging:
            for index, number in np.ndindex(config.seeds, config.test_nepisode):
                seed = config.seed + index
                about: About = {
                    "game": program.spec.name,
                    "scenario": program.spec.scenario,
                    "algorithm": config.train_alg or config.name,
                    "seed": seed,
                    "number": int(number) + 1,
                    "facts": _facts(played.stats, index, number),
                }
                length = int(played.stats.lengths[index, number])
                scene = Scene(*(values[index, number, : length + 1] for values in played.scenes))
                names.append(f"seed_{seed}_game_{number + 1:02d}.html")
                write_text(staging / names[-1], replay_page(about, scenery, scene))
    except OSError as error:
        raise UserError(f"The replays {folder} cannot be written: {error.strerror or error}.") from None
    return [folder / name for name in names]


def replay_page(about: About, scenery: Scenery, scene: Scene) -> str:
    """One game as a page.

    Args:
        about: what is known of it.
        scenery: what does not change.
        scene: what does, arrays [T+1, N].
    """
    field = {key: getattr(scenery, key) for key in ("left", "top", "width", "height", "cells")}
    pieces = [asdict(piece) for piece in scenery.pieces]
    data = json.dumps({**about, "stage": field, "pieces": pieces, "frames": _frames(scene)}, separators=(",", ":"))
    title = f"{about['algorithm']} in {about['game']} {about['scenario']}, seed {about['seed']}, game {about['number']}"
    facts = ", ".join(f"{name} {value:g}" for name, value in about["facts"].items())
    # Nothing in the data may end the element that holds it.
    data = data.replace("<", "\\u003c")
    view = f"{scenery.left:g} {scenery.top:g} {scenery.width:g} {scenery.height:g}"
    body = (
        f"<h1>{html_text(title)}</h1>\n<p>{html_text(facts)}</p>\n"
        f'<p><button id="play">Play / pause</button> <input id="bar" type="range" min="0" value="0"> '
        f'<span id="at"></span></p>\n<svg id="field" viewBox="{view}" style="width:100%;max-height:75vh" role="img">'
        f'</svg>\n<script id="replay" type="application/json">{data}</script>'
    )
    return document(title, body, _PLAYER)


def _frames(scene: Scene) -> list[list[list[float | None]]]:
    """Pieces that are there at every moment: number, x, y, health, and the number written on it or None."""
    frames = []
    for x, y, there, health, number in zip(*(np.asarray(values) for values in scene), strict=True):
        frames.append(
            [
                [
                    int(piece),
                    round(float(x[piece]), 2),
                    round(float(y[piece]), 2),
                    round(min(float(health[piece]), 1.0), 2),
                    None if np.isnan(number[piece]) else int(number[piece]),
                ]
                for piece in np.flatnonzero(there)
            ]
        )
    return frames


def _facts(stats: EpisodeStats, index: int, number: int) -> dict[str, float]:
    facts = {"return": float(stats.returns[index, number]), "steps": float(stats.lengths[index, number])}
    return facts | {name: float(values[index, number]) for name, values in stats.metrics.items()}
