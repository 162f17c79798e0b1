"""Replays of test games: for each game one page that plays it, with nothing but itself needed to look at it.

A page holds a JSON document in `<script id="replay">`: `game`, `scenario`, `algorithm`, `seed`, `number`, `facts`
(return, length and metrics of the game), `stage` (left, top, width, height, cells), `pieces` (name, label, colour,
size, square) and `frames`. A frame is a list of the pieces that are there, each `[number, x, y, health, written]`;
`written` is null where a piece has its own label.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from omg.components.files import new_folder, write_bytes, write_text
from omg.config import Config
from omg.envs import plays_on_host
from omg.envs.scenes import scenery_of
from omg.errors import UserError
from omg.recordings import ENDING, Recording
from omg.report.markup import document, html_text
from omg.training.program import Program

_SHOWN = ("x", "y", "there", "health", "written")

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


def check_replays(config: Config, program: Program) -> None:
    """Refuses `save_replay` where there is no picture of the game, before there is a run folder.

    Games on the host have replays of their own, or refuse them when their program is built.
    """
    if config.save_replay and not plays_on_host(config.env, config.env_args) and scenery_of(program.env) is None:
        raise UserError(
            f"save_replay: got True, but there is no picture of {config.env}. Allowed with: the built-in games, and "
            f"others that have `scenery`."
        )


def write_replays(folder: Path, games: Sequence[Recording]) -> list[Path]:
    """Writes recordings and a page for each; older ones are replaced.

    Args:
        folder: where they go.
        games: what was recorded.

    Returns:
        The pages, `seed_1_game_01.html` and so on, each beside its recording.

    Raises:
        UserError: the disk does not take them.
    """
    names: list[str] = []
    try:
        with new_folder(folder) as staging:
            for game in games:
                stem = f"seed_{game.header['seed']}_game_{game.header['number']:02d}"
                names.append(f"{stem}.html")
                write_bytes(staging / f"{stem}{ENDING}", game.to_bytes())
                write_text(staging / names[-1], replay_page(game))
    except OSError as error:
        raise UserError(f"The replays {folder} cannot be written: {error.strerror or error}.") from None
    return [folder / name for name in names]


def replay_page(game: Recording) -> str:
    """One game as a page."""
    header = game.header
    keys = ("game", "scenario", "algorithm", "seed", "number", "facts", "stage", "pieces")
    data = json.dumps({**{key: header[key] for key in keys}, "frames": _frames(game)}, separators=(",", ":"))
    title = (
        f"{header['algorithm']} in {header['game']} {header['scenario']}, seed {header['seed']}, game "
        f"{header['number']}"
    )
    facts = ", ".join(f"{name} {value:g}" for name, value in header["facts"].items())
    # Nothing in the data may end the element that holds it.
    data = data.replace("<", "\\u003c")
    view = " ".join(f"{header['stage'][key]:g}" for key in ("left", "top", "width", "height"))
    body = (
        f"<h1>{html_text(title)}</h1>\n<p>{html_text(facts)}</p>\n"
        f'<p><button id="play">Play / pause</button> <input id="bar" type="range" min="0" value="0"> '
        f'<span id="at"></span></p>\n<svg id="field" viewBox="{view}" style="width:100%;max-height:75vh" role="img">'
        f'</svg>\n<script id="replay" type="application/json">{data}</script>'
    )
    return document(title, body, _PLAYER)


def _frames(game: Recording) -> list[list[list[float | None]]]:
    """Pieces that are there at every moment: number, x, y, health, and the number written on it or None."""
    frames = []
    for x, y, there, health, number in zip(*(game[name] for name in _SHOWN), strict=True):
        frames.append(
            [
                [
                    int(piece),
                    round(float(x[piece]), 2),
                    round(float(y[piece]), 2),
                    round(float(health[piece]), 2),
                    None if np.isnan(number[piece]) else int(number[piece]),
                ]
                for piece in np.flatnonzero(there)
            ]
        )
    return frames
