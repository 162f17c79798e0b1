"""A report made of made-up scores, and what of a page can be read back."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from omg.report.derived import curves_by_metric
from omg.report.page import ReportInput, report_input

NAMES = {"iql_omg": "OMG (optimistic)"}


def scores(seeds: int = 6, teams: int = 5, metric: str = "battle_won") -> list[dict[str, Any]]:
    """OMG is 20 points ahead of IQL with one group, and level with it with the other."""
    rng = np.random.default_rng(0)
    rows = []
    for group, ahead in (("7_homologue", 0.2), ("7_nonhomologue", 0.0)):
        noise = rng.normal(0, 0.02, (seeds, teams))
        noise -= noise.mean()
        for agent, lift in (("iql", 0.0), ("iql_omg", ahead)):
            for seed in range(seeds):
                for team in range(teams):
                    mean = 0.5 + lift + noise[seed - (agent == "iql"), team] + 0.02 * team
                    row = {"agent": agent, "seed": seed, "group": group, "team": f"vdn_{team}", "episodes": 32}
                    rows.append({**row, "metric": metric, "mean": float(mean)})
    return rows


def difference(**more: Any) -> dict[str, Any]:
    row = {"agent": "iql_omg", "baseline": "iql", "group": "7_homologue", "metric": "battle_won", "seeds": 10}
    row |= {"baseline_seeds": 10, "teams": 30, "difference": 0.031, "low": 0.012, "high": 0.05, "p_improvement": 0.68}
    row |= {"p_low": 0.6, "p_high": 0.75, "interval_over": "seeds and teams", "verdict": "better"}
    return {**row, **more}


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects names, text and what the page would load."""

    VOID = ("meta", "path", "use", "rect", "image", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page_data(path: Path) -> Any:
    """The charts and tables that a page holds compressed."""
    (packed,) = re.findall(r'<script id="page-data" type="text/plain">([^<]*)</script>', path.read_text("utf-8"))
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def outline(path: Path) -> tuple[Outline, str]:
    parser = Outline()
    parser.feed(path.read_text(encoding="utf-8"))
    assert parser.open == []
    return parser, " ".join(" ".join(parser.words).split())


def full_report() -> ReportInput:
    curves = {
        label: [
            {"seed": seed, "t_env": t_env, "name": "test_battle_won_mean", "value": 0.1 * seed}
            for seed in range(3)
            for t_env in (0, 1000)
        ]
        for label in ("iql", "iql_omg")
    }
    return report_input(
        "8m <unseen>",
        scores(),
        "battle_won",
        "iql_omg",
        ["iql"],
        names=NAMES,
        curves=curves_by_metric(curves, "test_battle_won_mean"),
        cross_play=[{"agent": "iql", "team": "vdn", "mean": 0.25}],
        offsets=[{"agent": "iql_omg", "offset": 1, "count": 3}, {"agent": "iql_omg", "offset": 2, "count": 1}],
        diagnostics=[
            {
                "agent": "iql_omg",
                "measure": "hit ratio",
                "value": 0.126,
                "low": 0.12,
                "high": 0.133,
                "seeds": 3,
                "meaning": "a & b",
            },
            {"agent": "iql_omg", "measure": "drop", "value": 1.5, "low": None, "high": None, "seeds": 1, "meaning": ""},
        ],
        commands=["omg evaluate A && omg report"],
        versions={"jax": "0.10"},
        machine="2 cores",
        notes=["Every agent was trained for 2 M steps."],
    )
