"""Groups of several runs, and differences between runs or groups.

All runs are read up to the same fraction, the largest that any run needs for the goal. Then the
windows of this sample are read (see `_spread`). Totals add up over runs; means and proportions are
totals divided by counts. For other aggregates, only differences between single runs are possible.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .._libraries import need
from .._pinned import Figures
from . import _text
from ._arrays import array, table
from ._part import Part
from ._request import ALL, FIGURES, Asked, group_columns, kept
from ._runs import each
from ._spread import GROUPS, LEAST_ROWS, Difference, Spread, difference, mean, quantile

if TYPE_CHECKING:
    import pyarrow as pa

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over several runs, in terms of aggregates over single runs."""

    text: str
    """The text of the aggregate, as the caller wrote it."""
    total: str
    count: str | None
    """The divisor of a mean or a proportion."""
    adds_up: bool

    @classmethod
    def read(cls, text: str, shown: str, several: bool, key: str) -> Aggregate:
        name, argument = _text.call(text) or ("", "")
        if name in ("count", "sum"):
            return cls(shown, text, None, True)
        if name in ("mean", "avg", "share"):
            return cls(shown, f"sum({argument})", f"count({argument})", True)
        if several or name in ("histogram", "histogram2d", "min", "max", "count_distinct"):
            raise InvalidInput(
                f"{shown}: groups of several runs have counts, sums, means and proportions, and "
                "differences between runs also quantiles, variances and formulas: use "
                f"group_by={key!r} without a contrast"
            )
        return cls(shown, text, None, False)


@dataclass(frozen=True, slots=True)
class Figure:
    value: float | None
    half: float
    exact: bool
    rows: int


_NOTHING = Figure(None, 0.0, True, 0)
"""The value for a group without rows."""


class Read:
    def __init__(self, figures: Figures) -> None:
        batch = need("pyarrow", "open_many()").record_batch(figures.batch())
        self.about: dict[str, Any] = json.loads(figures.about())
        columns = group_columns(batch.schema.names)
        self._figures: dict[Key, list[Figure]] = {}
        named = [*columns, "value", "low", "high", "exact", "rows"]
        for row in batch.select(named).to_pylist():
            key = tuple(row[name] for name in columns)
            self._figures.setdefault(key, []).append(_figure(row))

    def keys(self) -> list[Key]:
        return list(self._figures)

    def of(self, key: Key, place: int) -> Figure:
        figures = self._figures.get(key)
        return _NOTHING if figures is None else figures[place]


def _figure(row: dict[str, Any]) -> Figure:
    if row["value"] is None:
        return Figure(None, math.inf, row["exact"], row["rows"])
    value, low, high = (
        math.nan if row[name] is None else float(row[name]) for name in ("value", "low", "high")
    )
    half = max(value - low, high - value)
    return Figure(value, math.inf if math.isnan(half) else half, row["exact"], row["rows"])


class Together:
    """The figures of all runs: up to the goal, in the common sample, and in each window."""

    def __init__(self, asked: Asked, several: bool) -> None:
        self.asked = asked
        self.aggregates = [
            Aggregate.read(text, shown, several, asked.union.key)
            for text, shown in zip(asked.aggregates, asked.shown, strict=True)
        ]
        texts = [t for a in self.aggregates for t in (a.total, a.count) if t is not None]
        self.texts = list(dict.fromkeys(texts))
        self.known = each(
            lambda part: Read(asked.request(part, asked.aggregates, asked.goal)), asked.parts
        )
        low, high = asked.region.get("window", (0.0, 1.0))
        self.fraction = min(high - low, max(run.about["fraction"] for run in self.known))
        self.confidence: float = self.known[0].about["confidence"]
        self.quantile = quantile(self.confidence)
        self.read = self._windows(low)
        """For each run, the figures in the whole sample and in each window."""
        self.abouts = [run.about for run in self.known]
        self.abouts += [window.about for run in self.read for window in run]
        self.rows_read = sum(about["stats"]["rows_read"] for about in self.abouts)
        keys = (key for run in self.read for window in run for key in window.keys())
        self.keys = list(dict.fromkeys(keys))

    def _windows(self, low: float) -> list[list[Read]]:
        edges = [min(1.0, low + self.fraction * at / GROUPS) for at in range(GROUPS + 1)]
        windows = [(edges[0], edges[-1])]
        if self.fraction < 1:
            windows += pairwise(edges)

        def read(task: tuple[Part, tuple[float, float]]) -> Read:
            part, window = task
            goal = {"window": window, "max_rows": ALL, "confidence": self.confidence}
            return Read(self.asked.request(part, self.texts, goal))

        found = each(read, [(part, window) for part in self.asked.parts for window in windows])
        count = len(windows)
        return [found[first : first + count] for first in range(0, len(found), count)]

    def spread(self, place: int, runs: Sequence[int], key: Key) -> Spread | None:
        """The value for a group of runs, and its values in the windows; None without rows."""
        aggregate = self.aggregates[place]
        known = [self.known[run].of(key, place) for run in runs]
        if aggregate.count is None and all(figure.exact for figure in known):
            if len(runs) > 1 or known[0].value is not None:
                total = math.fsum(figure.value or 0.0 for figure in known)
                return Spread(total, None, True, sum(figure.rows for figure in known))
        if not aggregate.adds_up:
            return self._own(known[0], runs[0], key, self.texts.index(aggregate.total))
        sums, exact, rows = self._sums(runs, key, aggregate.total)
        if aggregate.count is None:
            return Spread(sums[0], sums[1:], exact, rows)
        counts, counted, rows = self._sums(runs, key, aggregate.count)
        if counts[0] == 0:
            return None
        value, windows = mean(sums, counts)
        return Spread(value, windows, exact and counted, rows)

    def _own(self, known: Figure, run: int, key: Key, place: int) -> Spread | None:
        """An aggregate that does not add up over runs, for a single run."""
        whole, *windows = (window.of(key, place) for window in self.read[run])
        if whole.value is None or known.value is None:
            return None
        values = [figure.value for figure in windows if figure.value is not None]
        if self.fraction < 1 and (len(values) < GROUPS or whole.rows < LEAST_ROWS * GROUPS):
            return Spread(known.value, None, known.exact, known.rows, known.half)
        return Spread(whole.value, values, self.fraction >= 1, whole.rows)

    def _sums(self, runs: Sequence[int], key: Key, text: str) -> tuple[list[float], bool, int]:
        """The total over runs, in the sample and in each window; whether it is exact; its rows."""
        place = self.texts.index(text)
        found = [[window.of(key, place) for window in self.read[run]] for run in runs]
        totals = [
            math.fsum(figure.value or 0.0 for figure in window)
            for window in zip(*found, strict=True)
        ]
        whole = [run[0] for run in found]
        exact = self.fraction >= 1 or all(figure.exact for figure in whole)
        return totals, exact, sum(figure.rows for figure in whole)


def together(asked: Asked, keys: Sequence[Key], contrast: str | None) -> Figures:
    """The values of groups of runs; with a contrast, their differences to the first group."""
    pa = need("pyarrow", "open_many()")
    members: dict[Key, list[int]] = {}
    for at, key in enumerate(keys):
        members.setdefault(key, []).append(at)
    runs = Together(asked, any(len(each) > 1 for each in members.values()))
    if contrast is None:
        rows = _values(runs, members)
        notes: list[str] = []
    else:
        at = _contrasted(asked, contrast)
        first = min(keys, key=lambda key: asked.rank(key)[at])[at]
        rows, notes = _differences(runs, members, first, at)
    units: dict[str, str] = {}
    for part, known in zip(asked.parts, runs.known, strict=True):
        units = asked.by_label(part, known.about["units"]) | units
    labels = {row["aggregate"]: row.pop("text") for row in rows}
    return kept(
        asked,
        _table(pa, rows, asked.names),
        runs.abouts,
        notes,
        fraction=runs.fraction,
        units={label: units[text] for label, text in labels.items() if text in units},
        bin_units={},
    )


def _values(runs: Together, members: dict[Key, list[int]]) -> list[dict[str, Any]]:
    rows = []
    for place, aggregate in enumerate(runs.aggregates):
        for key, group in members.items():
            for of_rows in runs.keys:
                spread = runs.spread(place, group, of_rows)
                if spread is not None:
                    variance = spread.variance(runs.fraction, runs.quantile)
                    value = Difference(spread.value, variance, spread.exact, spread.rows, None)
                    rows.append(_row(runs, aggregate.text, aggregate, key, of_rows, value))
    return rows


def _differences(
    runs: Together, members: dict[Key, list[int]], first: Any, at: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """The difference of each group to the group with the first value of the contrast."""
    rows: list[dict[str, Any]] = []
    ratios: list[float] = []
    unpaired: dict[str, None] = {}
    for place, aggregate in enumerate(runs.aggregates):
        for key, group in members.items():
            base = (*key[:at], first, *key[at + 1 :])
            if base == key or base not in members:
                continue
            sampled = {runs.asked.parts[run].run.sampling for run in [*group, *members[base]]}
            paired = len(sampled) == 1 and None not in sampled
            for of_rows in runs.keys:
                own = runs.spread(place, group, of_rows)
                other = runs.spread(place, members[base], of_rows)
                if own is None or other is None:
                    continue
                found = difference(own, other, runs.fraction, runs.quantile, paired=paired)
                label = f"{aggregate.text}, difference to {first}"
                rows.append(_row(runs, label, aggregate, key, of_rows, found))
                if found.ratio is not None:
                    ratios.append(found.ratio)
                elif not paired:
                    words = f"{first} and {key[at]} have no common identity and seed"
                    unpaired.setdefault(f"{words}: the error is that of independent samples")
                elif not (own.exact or other.exact):
                    least = f"{LEAST_ROWS * GROUPS:,}"
                    words = f"{aggregate.text}: fewer than {least} sampled records"
                    unpaired.setdefault(f"{words}: the error is that of independent samples")
    return rows, [*_gain(ratios), *unpaired]


def _gain(ratios: Sequence[float]) -> list[str]:
    if not ratios:
        return []
    low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
    span = low if low == high else f"{low} to {high}"
    return [
        "the runs sample the same particles: with the covariance of these pairs the errors are "
        f"{span} times those of independent samples"
    ]


def _row(
    runs: Together, label: str, aggregate: Aggregate, key: Key, of_rows: Key, found: Difference
) -> dict[str, Any]:
    half = runs.quantile * math.sqrt(found.variance)
    run_keys, row_keys = iter(key), iter(of_rows)
    named = {
        name: next(run_keys if runs.asked.of_runs[at] else row_keys)
        for at, name in enumerate(runs.asked.names)
    }
    return {
        "aggregate": label,
        "text": aggregate.text,
        **named,
        "value": found.value,
        "low": found.value - half,
        "high": found.value + half,
        "confidence": runs.confidence,
        "fraction": runs.fraction,
        "rows": found.rows,
        "rows_read": runs.rows_read,
        "exact": found.exact,
    }


def _table(pa: Any, rows: Sequence[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    columns = {name: array([row[name] for row in rows]) for name in ("aggregate", *names, *FIGURES)}
    for name in ("value", "low", "high", "confidence", "fraction"):
        columns[name] = columns[name].cast(pa.float64())
    for name in ("rows", "rows_read"):
        columns[name] = columns[name].cast(pa.uint64())
    columns["exact"] = columns["exact"].cast(pa.bool_())
    return table(columns)


def _contrasted(asked: Asked, contrast: str) -> int:
    """The position of the contrast in the keys of runs."""
    of_runs = [name for at, name in enumerate(asked.names) if asked.of_runs[at]]
    wanted = asked.union.names.find(_text.plain(contrast)) or contrast
    if wanted not in of_runs:
        raise InvalidInput(
            f"contrast: {contrast} is none of the groups of runs: use group_by={contrast!r} too"
        )
    return of_runs.index(wanted)
