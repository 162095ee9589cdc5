"""Runs as one HTML file: tables, latencies over time, metrics. It needs no other file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._shown import html_table
from .metrics import NAMES
from .playing import Played, side_by_side

COLOURS = ("#1b6ca8", "#c8553d", "#4f7942", "#8e6c8a", "#b8860b", "#5f6368")
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 180, 64, 28
POINTS = 3_000
"""Requests that a plot draws; more are thinned at equal distances."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px }
td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }
svg text { font: 11px system-ui, sans-serif; fill: #555 }
h2 { margin-top: 2.5rem }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px }
"""


def write(path: Path, played: Sequence[Played]) -> None:
    """Writes the report of runs of one workload."""
    title = f"Workload {played[0].workload}"
    parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"]
    parts += [
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>",
        html_table(*side_by_side(played), []),
    ]
    slowest = max(float(one.requests["latency"].max()) for one in played)
    for one in played:
        parts += [f"<h2>{html.escape(one.target)}</h2>", one._repr_html_()]
        parts += ["<p>Latency in ms over the seconds of the run</p>", _latencies(one, slowest)]
        parts += [_metric(one, name) for name in NAMES[1:] if _has(one, name)]
    path.write_text("\n".join(parts))


def _has(one: Played, name: str) -> bool:
    return any(sample[NAMES.index(name)] for sample in one.metrics)


def _latencies(one: Played, most: float) -> str:
    """A point for each request, by query, on a logarithmic axis."""
    import numpy as np

    at, latency, names = (one.requests[name] for name in ("at", "latency", "query"))
    step = max(len(at) // POINTS, 1)
    low, high = float(max(latency.min(), 1e-6)), max(most, 2e-6)
    end = max(float(at.max()), 1e-9)
    decades = [10.0**n for n in range(-6, 4) if low <= 10.0**n <= high]
    marks = [(_height(value, low, high), f"{1e3 * value:g}") for value in decades]
    body, keys = [], []
    for number, name in enumerate(dict.fromkeys(names.tolist())):
        colour = COLOURS[number % len(COLOURS)]
        keys.append(f'<span class=key style="background:{colour}"></span>{html.escape(name)}')
        for place in np.flatnonzero(names == name)[::step]:
            x, y = _across(float(at[place]), end), _height(float(latency[place]), low, high)
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}"/>')
    return _plot(body, marks, end) + f"<p>{''.join(keys)}</p>"


def _height(value: float, low: float, high: float) -> float:
    import math

    share = math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.0
    return (HEIGHT - BOTTOM) * (1 - min(max(share, 0.0), 1.0))


def _across(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT) * at / end


TITLES = {
    "cores": "Processor time of this process, in cores",
    "memory": "Resident memory of this process, in MB",
    "read_bytes": "Bytes read from storage since the start, in MB",
    "written_bytes": "Bytes written to storage since the start, in MB",
}


def _metric(one: Played, name: str) -> str:
    scale = 1.0 if name == "cores" else 1e6
    values = [sample[NAMES.index(name)] / scale for sample in one.metrics]
    times = [sample[0] for sample in one.metrics]
    most, end = max(max(values), 1e-9), max(times[-1], 1e-9)
    points = " ".join(
        f"{_across(t, end):.1f},{(HEIGHT - BOTTOM) * (1 - v / most):.1f}"
        for t, v in zip(times, values, strict=True)
    )
    line = f'<polyline points="{points}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"/>'
    marks = [(0.0, f"{most:.3g}"), (float(HEIGHT - BOTTOM), "0")]
    return f"<p>{TITLES[name]}</p>" + _plot([line], marks, end)


def _plot(body: Sequence[str], marks: Sequence[tuple[float, str]], end: float) -> str:
    """A frame with marks of the vertical axis and the time below."""
    parts: list[Any] = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">']
    for y, text in marks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{max(y + 4, 10):.1f}" text-anchor="end">{text}</text>'
        )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + (WIDTH - LEFT) * share
        anchor = "end" if share == 1 else "middle"
        parts.append(
            f'<text x="{x:.0f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{share * end:.3g} s</text>'
        )
    return "".join([*parts, *body, "</svg>"])
