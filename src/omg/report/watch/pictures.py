"""Steps of recorded games as pictures and films: PNG and SVG of one step, GIF and MP4 of a whole game."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from omg.components.files import given_path, write_bytes
from omg.envs.drawing import BELIEF, PICKED, SHOT, Floor, Overlay, Pose, Stroke, draw_moment, pixels_of
from omg.envs.scenes import Piece
from omg.errors import UserError
from omg.recordings import Recording
from omg.report.watch.film import film, pace, unit, when
from omg.types import Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILMS = (".gif", ".mp4")
ENDINGS = (*FILMS, ".png", ".svg")
"""Kinds of files that a game can be exported as."""
_HELD_MS = 1500
"""How long a film stays at its last moment."""
_WIDTH = 640
_LIKELY = 0.02
"""Beliefs below this are not drawn."""


def check_name(path: str | Path, step: int | None = None) -> None:
    """Refuses what nothing can be exported as, before there is a game."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UserError(f"export: got '{path}'. Allowed: a file that ends in {', '.join(ENDINGS)}.")
    if ending in FILMS and step is not None:
        raise UserError(f"step: got {step}, but a {ending} shows all steps. Leave it out, or export a .png or .svg.")
    if ending == ".mp4":
        _film_program()


def check_export(game: Recording, path: str | Path, *, seat: int | None = None, step: int | None = None) -> None:
    """Refuses what `export_game` would refuse, before anything is drawn."""
    check_name(path, step)
    if step is not None and not 0 <= step <= game.steps:
        raise UserError(f"step: got {step}, allowed: 0 to {game.steps}, the steps of this game.")
    seats = len(game.header["seats"])
    if seat is not None and not 0 <= seat < seats:
        raise UserError(f"seat: got {seat + 1}, allowed: 1 to {seats}.")


def export_game(
    game: Recording, path: str | Path, *, seat: int | None = None, step: int | None = None, width: int = _WIDTH
) -> Path:
    """Writes a game as a film (`.gif`, `.mp4`) or one step of it as a picture (`.png`, `.svg`).

    Args:
        game: what was played.
        path: the file; its ending says what it becomes.
        seat: whose beliefs are drawn, from 0; None: the first that has any.
        step: of a picture; None: the middle of the game.
        width: in pixels.

    Raises:
        UserError: the file cannot be written, has another ending, there is no such step or seat, or what makes films is
            not installed.
    """
    check_export(game, path, seat=seat, step=step)
    place = given_path(path)
    ending = place.suffix.lower()
    shown = Shots(game, seat)
    if ending == ".gif":
        data = _gif(shown.frames(width), pace(game.steps))
    elif ending == ".mp4":
        data = _mp4(_film_program(), shown.frames(width), pace(game.steps))
    else:
        data = _picture(shown.figure(game.steps // 2 if step is None else step, width), ending[1:])
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, data)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}.") from None
    return place


class Shots:
    """A recorded game, ready to be drawn step by step with what one seat believes."""

    def __init__(self, game: Recording, seat: int | None = None) -> None:
        told = film([game])
        self.game, self.told = game, told
        self.seat = told["first_seat"] if seat is None else seat
        stage = told["stage"]
        whole = (stage["left"], stage["top"], stage["width"], stage["height"])
        self.field = Floor(tuple(told["view"]), whole, stage["cells"])
        keys = ("name", "label", "colour", "size", "square")
        self.pieces = [Piece(**{key: piece[key] for key in keys}) for piece in game.header["pieces"]]
        self.beliefs = {belief["kind"]: belief for belief in reversed(game.beliefs) if belief["seat"] == self.seat}

    def figure(self, step: int, width: int = _WIDTH) -> Figure:
        """A step as a figure of matplotlib."""
        game = self.game
        longest = np.maximum(game["cooldown"].max(axis=0), 1e-9)
        still = {key: game[key][step] for key in ("x", "y", "there", "health", "shield", "written")}
        moment = Pose(**still, cooldown=game["cooldown"][step] / longest)
        return draw_moment(self.field, self.pieces, moment, self._marks(step), width)

    def frames(self, width: int = _WIDTH) -> list[np.ndarray]:
        """All moments as images, [height, width, 3] uint8 each."""
        return [pixels_of(self.figure(step, width)) for step in range(self.game.steps + 1)]

    def _marks(self, step: int) -> Overlay:
        told, x, y = self.told, self.game["x"][step], self.game["y"][step]
        own = told["seats"][self.seat]
        reach = None if own is None else told["pieces"][own]["reach"]
        shots = told["games"][0]["shots"][step] if step < self.game.steps else []
        lines = [Stroke((x[one], y[one]), (x[other], y[other]), SHOT, 0.25) for one, other in shots]
        words = [f"step {step} of {self.game.steps}"]
        believed: list[tuple[int, float, float]] = []
        real: list[tuple[int, float, float]] = []
        if "places" in self.beliefs:
            places = self.beliefs["places"]
            believed, real = (_places(places, names, step) for names in (("x", "y"), ("later_x", "later_y")))
            words[0] += _said(places, step, unit(self.game.header))
            words.append(
                f"dashed ring: where the agent thinks they are {when(places)}; diamond: where they really were"
            )
        return Overlay(
            chosen=own,
            ranges=tuple(radius for radius in (told["sight"], reach) if radius is not None),
            lines=(*lines, *self._aims(step)),
            arrows=(*self._visits(step), *self._guesses(step)),
            believed=tuple(believed),
            real=tuple(real),
            fights=told["fights"],
            words=tuple(words),
        )

    def _aims(self, step: int) -> list[Stroke]:
        """From everybody to what it is thought to be after."""
        if "goals" not in self.beliefs:
            return []
        goals, game = self.beliefs["goals"], self.game
        columns, lines = goals["columns"], []
        for index, seat in enumerate(goals["seats"]):
            piece = self.told["seats"][seat]
            if piece is None or not game["there"][step, piece]:
                continue
            start = (game["x"][step, piece], game["y"][step, piece])
            for chance, x, y in zip(
                columns["chances"][step, index], columns["x"][step], columns["y"][step], strict=True
            ):
                if chance > _LIKELY and not np.isnan(x):
                    lines.append(Stroke(start, (x, y), BELIEF, float(chance)))
        return lines

    def _visits(self, step: int) -> tuple[Stroke, ...]:
        """How often the search went each way."""
        own = self.told["seats"][self.seat]
        columns = self.beliefs.get("search", {"columns": {}})["columns"]
        if own is None or "visits" not in columns or np.isnan(columns["visits"][step]).any():
            return ()
        row = columns["visits"][step]
        shares = row / max(row.max(), 1e-9)
        return tuple(
            self._arrow(step, own, way, float(shares[int(action)]), PICKED)
            for action, way in self.told["moves"].items()
            if shares[int(action)] > _LIKELY
        )

    def _guesses(self, step: int) -> list[Stroke]:
        """What the others most likely do now: where they go, or whom they do it to."""
        if "actions" not in self.beliefs or step >= self.game.steps:
            return []
        belief, game, strokes = self.beliefs["actions"], self.game, list[Stroke]()
        for seat, chances in zip(belief["seats"], belief["columns"]["chances"][step], strict=True):
            piece = self.told["seats"][seat]
            if piece is None or np.isnan(chances).any() or not game["there"][step, piece]:
                continue
            best, chance = str(chances.argmax()), float(chances.max())
            aim = self.told["aims"].get(best)
            if best in self.told["moves"]:
                strokes.append(self._arrow(step, piece, self.told["moves"][best], chance, BELIEF))
            elif aim is not None and game["there"][step, aim]:
                strokes.append(Stroke(self._place(step, piece), self._place(step, aim), BELIEF, chance / 2))
        return strokes

    def _arrow(self, step: int, piece: int, way: Sequence[float], share: float, colour: str) -> Stroke:
        """From a piece in a direction, the longer the larger the share."""
        (x, y), (dx, dy), size = self._place(step, piece), way, self.pieces[piece].size
        start, end = ((x + dx * away, y + dy * away) for away in (1.1 * size, size * (1.4 + 1.4 * share)))
        return Stroke(start, end, colour, share)

    def _place(self, step: int, piece: int) -> tuple[float, float]:
        return float(self.game["x"][step, piece]), float(self.game["y"][step, piece])


def _places(belief: Tree, names: tuple[str, str], step: int) -> list[tuple[int, float, float]]:
    xs, ys = (belief["columns"][name][step] for name in names)
    rows = zip(belief["pieces"], xs, ys, strict=True)
    return [(piece, float(x), float(y)) for piece, x, y in rows if not np.isnan(x)]


def _said(belief: Tree, step: int, what: str) -> str:
    off, stay = (belief["columns"][name][step] for name in ("distance", "stay_distance"))
    if np.isnan(off) or np.isnan(stay):
        return ""
    return f': belief off by {off:.2f} {what}, "they stay where they are" by {stay:.2f}'


def _picture(figure: Figure, kind: str) -> bytes:
    import matplotlib as mpl

    stream = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "omg", "svg.fonttype": "none"}):
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()


def _gif(frames: Sequence[np.ndarray], steps_per_second: float) -> bytes:
    from PIL import Image

    # One palette for all frames: what does not move does not flicker, and the file is small.
    sample = Image.fromarray(np.concatenate(list(frames)[:: max(len(frames) // 4, 1)]))
    palette = sample.quantize(128)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    stream = io.BytesIO()
    # A GIF counts in hundredths of a second.
    delays = [10 * round(100 / steps_per_second)] * (len(images) - 1) + [_HELD_MS]
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:], duration=delays, loop=0, optimize=True)
    return stream.getvalue()


def _film_program() -> str:
    """Ffmpeg of the machine, else that of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        raise UserError(
            "export: a .mp4 is made by ffmpeg, which is not installed. Install it with: pip install 'omg-marl[video]' "
            "(or export a .gif)."
        ) from None


def _mp4(program: str, frames: Sequence[np.ndarray], steps_per_second: float) -> bytes:
    import tempfile

    high, wide = frames[0].shape[:2]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "film.mp4"
        given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{wide}x{high}", "-r", f"{steps_per_second}", "-i", "-"]
        # Players want a usual number of pictures a second, however slow the game is.
        held = f"tpad=stop_mode=clone:stop_duration={_HELD_MS / 1000}"
        code = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        wanted = ["-vf", held, "-r", "24", *code, str(made)]
        data = b"".join(frame.tobytes() for frame in frames)
        done = subprocess.run(
            [program, "-y", "-v", "error", *given, *wanted], input=data, capture_output=True, check=False
        )
        if done.returncode or not made.exists():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
            raise UserError(f"export: ffmpeg could not make the film: {last[0][:200]}")
        return made.read_bytes()
