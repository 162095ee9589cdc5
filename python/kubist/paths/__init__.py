"""Whole paths of particles: flux, residence, first entry, displacement, mean squared displacement.

Each method reads the rows sorted by path and time, in chunks of whole paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from .. import _box
from .._describe import Figure
from .._errors import InvalidInput
from .._shown import text_table
from ._msd import squares
from ._pieces import Segments
from ._read import Chunk, Reader, periods, unwrapped
from ._shapes import Shape, shape
from ._totals import Sample

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray[Any, Any]

_TIMES = 100_000
"""The maximum number of times of an average path, and of lags."""


class Paths(Mapping[str, Figure]):
    """Values of single paths and figures over all paths, from `Table.flux` and similar methods.

    >>> f = t.flux(region.half_space({"x": 1}, {"x": 0.1}))
    >>> f["net"].value, f["net"].low, f["net"].high
    >>> f.to_pandas()                      # one row for each crossing
    """

    def __init__(
        self, about: str, table: pa.Table, figures: Mapping[str, Figure], read: tuple[int, float]
    ) -> None:
        self._about, self._table, self._figures = about, table, dict(figures)
        self.paths, self.fraction = read
        """The number of paths that were read, and the fraction of all paths."""

    def __getitem__(self, name: str) -> Figure:
        return self._figures[name]

    def __iter__(self) -> Any:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __repr__(self) -> str:
        of = "all paths" if self.fraction >= 1 else f"a sample of {100 * self.fraction:.3g} %"
        note = f"{self.paths:,} paths read, {of}; {self._table.num_rows:,} rows"
        rows = [[name, repr(figure)] for name, figure in self._figures.items()]
        return text_table([self._about, "value"], rows, [note])

    def to_arrow(self) -> pa.Table:
        """Returns the rows as a `pyarrow.Table`, with units in the metadata of columns."""
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Returns the rows as a `pandas.DataFrame`."""
        frame: pd.DataFrame = self._table.to_pandas()
        return frame

    def to_numpy(self) -> dict[str, Array]:
        """Returns the rows as one NumPy array per column."""
        return {
            name: self._table[name].to_numpy(zero_copy_only=False)
            for name in self._table.column_names
        }


Paths.__module__ = "kubist"


def confidence_of(given: Any) -> float:
    confidence = _box.finite("confidence", given)
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must be between 0 and 1, not {confidence:g}")
    return confidence


def _table(columns: Mapping[str, Any], units: Mapping[str, str | None]) -> pa.Table:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    fields = []
    for name, array in arrays.items():
        unit = units.get(name)
        fields.append(pa.field(name, array.type, metadata={"unit": unit} if unit else None))
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def _joined(parts: list[dict[str, Array]], empty: Mapping[str, Array]) -> dict[str, Array]:
    if not parts:
        return dict(empty)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class Asked:
    def __init__(self, reader: Reader, period: Any, confidence: Any) -> None:
        self.reader = reader
        self.period = periods(period, reader.axes)
        self.sample = Sample(reader.fraction, confidence_of(confidence))
        self.paths = 0
        self.units = {name: reader.units.get(name) for name in reader.axes}
        self.time_unit = reader.units.get(reader.time)

    def chunks(self) -> Any:
        for chunk in self.reader.chunks(self.period):
            self.paths += len(chunk.path)
            yield chunk

    def unwrapped(self) -> Any:
        for chunk in self.chunks():
            yield unwrapped(chunk, self.period, self.reader.images)

    def result(
        self, about: str, columns: Mapping[str, Any], figures: Mapping[str, Figure], **units: Any
    ) -> Paths:
        table = _table(columns, {**self.units, "time": self.time_unit, **units})
        return Paths(about, table, figures, (self.paths, self.reader.fraction))


def region_shape(region: Any) -> Shape:
    return shape(region)


def flux(asked: Asked, through: Shape) -> Paths:
    found: list[dict[str, Array]] = []
    forward, backward = [np.zeros(0)], [np.zeros(0)]
    for chunk in asked.chunks():
        segments = Segments(chunk, asked.period)
        pieces = segments.pieces(through)
        at = pieces.crossings()
        segment, t = pieces.segment[at], pieces.start[at]
        entered = pieces.inside[at]
        found.append(
            {
                asked.reader.by: chunk.path[pieces.path[at]],
                "time": segments.time_at(segment, t),
                **segments.at(segment, t),
                "direction": np.where(entered, 1, -1).astype(np.int8),
            }
        )
        count = len(chunk.path)
        forward.append(np.bincount(pieces.path[at[entered]], minlength=count).astype(float))
        backward.append(np.bincount(pieces.path[at[~entered]], minlength=count).astype(float))
    there, back = np.concatenate(forward), np.concatenate(backward)
    empty = dict.fromkeys(("time", *asked.reader.axes, "direction"), np.zeros(0))
    figures = {
        "net": asked.sample.net(there - back),
        "forward": asked.sample.number(there),
        "backward": asked.sample.number(back),
        "paths": asked.sample.number(((there + back) > 0).astype(float)),
    }
    rows = _joined(found, {asked.reader.by: np.zeros(0), **empty})
    return asked.result("flux", rows, figures)


def residence(asked: Asked, inside: Shape) -> Paths:
    found: list[dict[str, Array]] = []
    for chunk in asked.chunks():
        segments = Segments(chunk, asked.period)
        pieces = segments.pieces(inside)
        count = len(chunk.path)
        row = segments.row[pieces.segment]
        seconds = (pieces.end - pieces.start) * (chunk.time[row + 1] - chunk.time[row])
        at = pieces.crossings()
        entries = np.bincount(pieces.path[at[pieces.inside[at]]], minlength=count)
        first = _first_of(pieces.path)
        entries[pieces.path[first]] += pieces.inside[first]
        weights = np.where(pieces.inside, seconds, 0.0)
        found.append(
            {
                asked.reader.by: chunk.path,
                "residence": np.bincount(pieces.path, weights=weights, minlength=count),
                "entries": entries,
                "duration": _durations(chunk),
            }
        )
    empty = dict.fromkeys((asked.reader.by, "residence", "entries", "duration"), np.zeros(0))
    rows = _joined(found, empty)
    visited = rows["entries"] > 0
    unit = asked.time_unit
    figures = {
        "mean": asked.sample.mean(rows["residence"][visited], unit),
        "mean_of_all": asked.sample.mean(rows["residence"], unit),
        "share": asked.sample.share(int(visited.sum()), len(visited)),
    }
    return asked.result("residence", rows, figures, residence=unit, duration=unit)


def first_entry(asked: Asked, inside: Shape) -> Paths:
    found: list[dict[str, Array]] = []
    for chunk in asked.chunks():
        segments = Segments(chunk, asked.period)
        pieces = segments.pieces(inside)
        within = np.flatnonzero(pieces.inside)
        at = within[_first_of(pieces.path[within])]
        path, segment, t = pieces.path[at], pieces.segment[at], pieces.start[at]
        time = segments.time_at(segment, t)
        found.append(
            {
                asked.reader.by: chunk.path[path],
                "time": time,
                "delay": time - chunk.time[chunk.starts[:-1][path]],
                **segments.at(segment, t),
            }
        )
    empty = dict.fromkeys((asked.reader.by, "time", "delay", *asked.reader.axes), np.zeros(0))
    rows = _joined(found, empty)
    figures = {
        "mean_time": asked.sample.mean(rows["time"], asked.time_unit),
        "mean_delay": asked.sample.mean(rows["delay"], asked.time_unit),
        "share": asked.sample.share(len(rows["time"]), asked.paths),
    }
    return asked.result("first entry", rows, figures, delay=asked.time_unit)


def displacement(asked: Asked) -> Paths:
    found: list[dict[str, Array]] = []
    for chunk in asked.unwrapped():
        first, last = chunk.starts[:-1], chunk.starts[1:] - 1
        moved = {name: one[last] - one[first] for name, one in chunk.points.items()}
        distance = np.sqrt(np.add.reduce([one * one for one in moved.values()]))
        found.append(
            {
                asked.reader.by: chunk.path,
                "duration": _durations(chunk),
                **moved,
                "distance": distance,
            }
        )
    names = (asked.reader.by, "duration", *asked.reader.axes, "distance")
    rows = _joined(found, dict.fromkeys(names, np.zeros(0)))
    unit = _unit(asked)
    figures = {"mean_distance": asked.sample.mean(rows["distance"], unit)}
    for name in asked.reader.axes:
        figures[f"mean_{name}"] = asked.sample.mean(rows[name], asked.units[name])
    return asked.result("displacement", rows, figures, distance=unit, duration=asked.time_unit)


def msd(asked: Asked, lags: Any) -> Paths:
    most = None if lags is None else _box.count("lags", lags, least=1, most=_TIMES)
    total = square = paths = np.zeros(0)
    every: float | None = None
    for chunk in asked.unwrapped():
        every, means, known = squares(chunk, every, most, asked.reader.by)
        longer = max(len(total), means.shape[1])
        total, square, paths = (
            np.pad(one, (0, longer - len(one))) for one in (total, square, paths)
        )
        width = means.shape[1]
        total[:width] += means.sum(axis=0)
        square[:width] += (means * means).sum(axis=0)
        paths[:width] += known.sum(axis=0)
    value, low, high = asked.sample.means(total, square, paths)
    lag = np.arange(len(total)) * (every or 0.0)
    unit = _unit(asked)
    columns = {"lag": lag, "msd": value, "low": low, "high": high, "paths": paths.astype(np.int64)}
    of = dict.fromkeys(("msd", "low", "high"), f"{unit}^2" if unit else None)
    return asked.result("mean squared displacement", columns, {}, lag=asked.time_unit, **of)


def average_path(asked: Asked, times: Any) -> Paths:
    grid = None
    if times is not None:
        grid = np.unique(np.asarray(times, dtype=float))
        if grid.ndim != 1 or len(grid) == 0 or not np.isfinite(grid).all():
            raise InvalidInput("times: expected numbers in the unit of the column of times")
    axes = asked.reader.axes
    totals: dict[str, Array] = {}
    known = np.zeros(0)
    own = np.zeros(0) if grid is None else grid
    for chunk in asked.unwrapped():
        if grid is None:
            # The times of the rows so far; totals move to their new positions.
            merged = np.union1d(own, chunk.time)
            if len(merged) > _TIMES:
                raise InvalidInput(
                    f"average_path: more than {_TIMES:,} different times: give times=[...]"
                )
            at = np.searchsorted(merged, own)
            totals, known = (
                {n: _moved(v, at, len(merged)) for n, v in totals.items()},
                _moved(known, at, len(merged)),
            )
            own = merged
        elif len(known) == 0:
            known = np.zeros(len(own))
        path, place, left, share = _between(chunk, own, exact=grid is None)
        if not totals:
            totals = {f"{kind}{name}": np.zeros(len(own)) for name in axes for kind in ("", "2")}
        known += np.bincount(place, minlength=len(own))
        for name, values in chunk.points.items():
            right = np.minimum(left + 1, chunk.starts[path + 1] - 1)
            value = values[left] + share * (values[right] - values[left])
            totals[name] += np.bincount(place, weights=value, minlength=len(own))
            totals[f"2{name}"] += np.bincount(place, weights=value * value, minlength=len(own))
    columns: dict[str, Array] = {"time": own}
    units: dict[str, str | None] = {}
    for name in axes:
        empty = np.zeros(len(own))
        value, low, high = asked.sample.means(
            totals.get(name, empty), totals.get(f"2{name}", empty), known if len(known) else empty
        )
        columns |= {name: value, f"{name}_low": low, f"{name}_high": high}
        units |= dict.fromkeys((f"{name}_low", f"{name}_high"), asked.units[name])
    columns["paths"] = (known if len(known) else np.zeros(len(own))).astype(np.int64)
    return asked.result("average path", columns, {}, **units)


def _moved(values: Array, at: Array, count: int) -> Array:
    found = np.zeros(count)
    found[at] = values
    return found


def _between(chunk: Chunk, grid: Array, exact: bool) -> tuple[Array, Array, Array, Array]:
    """For each path and each of its times: path, time, row before it, and fraction of the way."""
    first, last = chunk.starts[:-1], chunk.starts[1:] - 1
    if exact:
        # Paths have their own times only, so nothing is interpolated.
        path = chunk.of_row()
        row = np.arange(len(path))
        return path, np.searchsorted(grid, chunk.time), row, np.zeros(len(row))
    low = np.searchsorted(grid, chunk.time[first])
    high = np.searchsorted(grid, chunk.time[last], side="right")
    number = high - low
    path = np.repeat(np.arange(len(number)), number)
    place = np.arange(len(path)) - np.repeat(np.cumsum(number) - number - low, number)
    # Rows are sorted by path and time, so one search finds both.
    order = np.lexsort(
        (
            np.concatenate([np.zeros(len(chunk.time)), np.ones(len(path))]),
            np.concatenate([chunk.time, grid[place]]),
            np.concatenate([chunk.of_row(), path]),
        )
    )
    is_row = order < len(chunk.time)
    before = np.cumsum(is_row) - 1
    left = np.empty(len(path), np.int64)
    left[order[~is_row] - len(chunk.time)] = before[~is_row]
    right = np.minimum(left + 1, last[path])
    span = chunk.time[right] - chunk.time[left]
    share = np.where(span > 0, (grid[place] - chunk.time[left]) / np.where(span > 0, span, 1), 0.0)
    return path, place, left, share


def _durations(chunk: Chunk) -> Array:
    durations: Array = chunk.time[chunk.starts[1:] - 1] - chunk.time[chunk.starts[:-1]]
    return durations


def _first_of(path: Array) -> Array:
    """The paths' first pieces."""
    fresh = np.ones(len(path), bool)
    fresh[1:] = path[1:] != path[:-1]
    return np.flatnonzero(fresh)


def _unit(asked: Asked) -> str | None:
    """The unit of a distance; None if axes have different units."""
    units = {asked.units[name] for name in asked.reader.axes}
    if len(units) > 1:
        shown = ", ".join(f"{name} in {asked.units[name]}" for name in asked.reader.axes)
        raise InvalidInput(f"paths: there is no distance between axes of different units: {shown}")
    return units.pop()
