"""Runs as one self-contained HTML file: side by side, over time, predicted."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._shown import html_table
from .metrics import NAMES
from .modelled import predicted
from .playing import Played, side_by_side

COLOURS = ("#1b6ca8", "#c8553d", "#4f7942", "#8e6c8a", "#b8860b", "#5f6368")
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 180, 64, 28
NAMED = 150
"""The width of the names left of the bars."""
BARS = (("median", "ms", 1e3), ("bytes", "MB", 1e-6), ("trips", "", 1.0), ("rows", "", 1.0))
"""The figures of queries in charts, with unit and scale."""
POINTS = 3_000
"""The maximum number of requests in a plot; more are subsampled evenly."""

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px }
td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd }
svg text { font: 11px system-ui, sans-serif; fill: #555 }
h2 { margin-top: 2.5rem }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px }
"""


def write(path: Path, played: Sequence[Played]) -> None:
    title = f"Workload {', '.join(dict.fromkeys(one.workload for one in played))}"
    parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"]
    parts += [f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>"]
    parts += [html_table(*side_by_side(played), [])]
    if len(played) > 1:
        parts += [f"<h2>Times as long as {html.escape(_title(played[0], played))}</h2>"]
        parts += [html_table(*_ratios(played))]
    parts += ["<h2>By query</h2>", _keys([_title(one, played) for one in played])]
    for name, unit, scale in BARS:
        if any(getattr(query, name) for one in played for query in one.queries):
            parts += [f"<p>{TITLES[name]}</p>", _bars(played, name, unit, scale)]
    slowest = max(float(one.requests["latency"].max()) for one in played)
    for one in played:
        parts += [f"<h2>{html.escape(_title(one, played))}</h2>", one._repr_html_()]
        parts += ["<p>Latency in ms over the seconds of the run</p>", _latencies(one, slowest)]
        parts += _predictions(one)
        parts += [_metric(one, name) for name in NAMES[1:] if _has(one, name)]
    path.write_text("\n".join(parts))


def _title(one: Played, played: Sequence[Played]) -> str:
    if sum(other.target == one.target for other in played) == 1:
        return one.target
    return f"{one.target}, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(one.started))}"


def _ratios(played: Sequence[Played]) -> tuple[list[str], list[list[str | None]], list[str]]:
    """Median times by query, divided by the medians in the first run."""
    base = {query.query: query.median for query in played[0].queries}
    rows: list[list[str | None]] = []
    for one in played[1:]:
        own = {query.query: query.median for query in one.queries}
        ratios = (f"{own[name] / base[name]:.2f}" if name in own else "" for name in base)
        rows.append([_title(one, played), *ratios])
    notes = ["Ratios of medians: below 1 is faster."]
    return ["", *base], rows, notes


def _bars(played: Sequence[Played], name: str, unit: str, scale: float) -> str:
    """A bar for each run, by query; for latencies, a line up to the 99th percentile."""
    queries = list(dict.fromkeys(query.query for one in played for query in one.queries))
    spans = {
        (query.query, at): (getattr(query, name), query.p99 if name == "median" else 0.0)
        for at, one in enumerate(played)
        for query in one.queries
        if math.isfinite(query.median)
    }
    most = max((max(pair) for pair in spans.values()), default=0.0) or 1.0
    width, body, y = WIDTH - NAMED - 90, [], 4.0
    for query in queries:
        body.append(f'<text x="{NAMED - 8}" y="{y + 11:.0f}" text-anchor="end">')
        body.append(f"{html.escape(query)}</text>")
        for at in range(len(played)):
            value, far = spans.get((query, at), (0.0, 0.0))
            long, end = width * value / most, NAMED + width * max(far, value) / most
            body.append(
                f'<rect x="{NAMED}" y="{y:.0f}" width="{long:.1f}" height="11" '
                f'fill="{COLOURS[at % len(COLOURS)]}"/>'
                f'<line x1="{NAMED + long:.1f}" x2="{end:.1f}" y1="{y + 5.5:.1f}" '
                f'y2="{y + 5.5:.1f}" stroke="#888"/>'
                f'<text x="{end + 5:.1f}" y="{y + 10:.0f}">{_figure(value * scale)} {unit}</text>'
            )
            y += 14
        y += 8
    return (
        f'<svg viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}">{"".join(body)}</svg>'
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _keys(names: Sequence[str]) -> str:
    return "<p>" + "".join(_key(at, name) for at, name in enumerate(names)) + "</p>"


def _key(at: int, name: str) -> str:
    colour = COLOURS[at % len(COLOURS)]
    return f'<span class=key style="background:{colour}"></span>{html.escape(name)}'


def _predictions(one: Played) -> list[str]:
    """Predicted over measured times, on logarithmic axes, with the line of equal times."""
    import numpy as np

    if (found := predicted(one.requests)) is None:
        return []
    places, times = found
    measured = np.maximum(one.requests["service"][places], 1e-6)
    error = math.exp(float(np.median(np.abs(np.log(times / measured))))) - 1
    low, high = float(min(times.min(), measured.min())), float(max(times.max(), measured.max()))
    high = max(high, 1.01 * low)
    side, step = HEIGHT * 1.5, max(len(places) // POINTS, 1)
    right = LEFT + side - BOTTOM

    def along(value: float) -> float:
        return math.log(value / low) / math.log(high / low) * (side - BOTTOM)

    names = one.requests["query"]
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(dict.fromkeys(names))}
    body = [
        f'<svg viewBox="0 0 {LEFT + side:.0f} {side:.0f}" width="{LEFT + side:.0f}">',
        f'<line x1="{LEFT}" y1="{side - BOTTOM}" x2="{right}" y2="0" stroke="#999"/>',
    ]
    for value in (10.0**n for n in range(-6, 4) if low <= 10.0**n <= high):
        x, y = LEFT + along(value), side - BOTTOM - along(value)
        body.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{1e3 * value:g}</text>'
            f'<text x="{x:.1f}" y="{side - 8}" text-anchor="middle">{1e3 * value:g}</text>'
        )
    for at in range(0, len(places), step):
        x, y = LEFT + along(float(measured[at])), side - BOTTOM - along(float(times[at]))
        colour = colours[names[places[at]]]
        body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}"/>')
    text = (
        "Predicted time (upwards) and measured time of a request in ms; the model of its cost is "
        f"fitted to the other half of the requests. Median error: {100 * error:.0f} %"
    )
    return [f"<p>{text}</p>", "".join([*body, "</svg>"])]


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
        keys.append(_key(number, name))
        for place in np.flatnonzero(names == name)[::step]:
            x, y = _across(float(at[place]), end), _height(float(latency[place]), low, high)
            body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}"/>')
    return _plot(body, marks, end) + f"<p>{''.join(keys)}</p>"


def _height(value: float, low: float, high: float) -> float:
    share = math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.0
    return (HEIGHT - BOTTOM) * (1 - min(max(share, 0.0), 1.0))


def _across(at: float, end: float) -> float:
    return LEFT + (WIDTH - LEFT) * at / end


TITLES = {
    "median": "Median latency; the line ends at the 99th percentile",
    "bytes": "Bytes of a question, mean",
    "trips": "Requests of a question to the store, mean",
    "rows": "Returned rows, mean",
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
