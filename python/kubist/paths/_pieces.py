"""Paths cut at the surface of a region, into pieces inside or outside."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ._read import Chunk, Period
from ._shapes import Points, Shape

Array = np.ndarray[Any, Any]

_VALUES = 1 << 21
"""Candidates that are in memory at the same time."""
_SHORTEST = 1e-12
"""The shortest piece of a segment: two candidates that are nearer are one."""


class Pieces(NamedTuple):
    """Pieces of straight segments, in the order of their paths."""

    path: Array
    """The path of each piece, as a position in the chunk."""
    segment: Array
    """The segment of each piece."""
    start: Array
    """The start and end of each piece as a fraction of its segment."""
    end: Array
    inside: Array

    def crossings(self) -> Array:
        """The pieces before which a path crosses the surface."""
        changes = (self.path[1:] == self.path[:-1]) & (self.inside[1:] != self.inside[:-1])
        return np.flatnonzero(changes) + 1


class Segments:
    """The straight segments from each row of a path to the next."""

    def __init__(self, chunk: Chunk, period: Mapping[str, Period]) -> None:
        self.path_of_row = chunk.of_row()
        self.row = np.flatnonzero(self.path_of_row[1:] == self.path_of_row[:-1])
        self.period = period
        self._chunk = chunk
        self._a: dict[str, Array] = {}
        self._step: dict[str, Array] = {}
        for name, values in chunk.points.items():
            step = values[self.row + 1] - values[self.row]
            if name in period:
                low, length = period[name]
                values = low + np.mod(values - low, length)
                step = step - length * np.round(step / length)
            self._a[name], self._step[name] = values[self.row], step

    def at(self, segment: Array, t: Array) -> dict[str, Array]:
        """The positions at fractions of segments, inside the cell of a periodic axis."""
        found = {}
        for name, a in self._a.items():
            found[name] = self._wrapped(name, a[segment] + t * self._step[name][segment])
        return found

    def time_at(self, segment: Array, t: Array) -> Array:
        time = self._chunk.time
        start = time[self.row[segment]]
        moved: Array = start + t * (time[self.row[segment] + 1] - start)
        return moved

    def _wrapped(self, name: str, values: Array) -> Array:
        if name not in self.period:
            return values
        low, length = self.period[name]
        wrapped: Array = low + np.mod(values - low, length)
        return wrapped

    def _candidates(self, shape: Shape, first: int, end: int) -> list[Array]:
        a = {name: values[first:end] for name, values in self._a.items()}
        b = {name: a[name] + values[first:end] for name, values in self._step.items()}
        found = shape.roots(a, b)
        shifts: dict[str, Array] = {}
        for name, (low, length) in self.period.items():
            cells = np.floor((b[name] - low) / length)
            if cells.any():
                shifts[name] = cells * length
                edge = low + np.where(cells > 0, length, 0.0)
                with np.errstate(divide="ignore", invalid="ignore"):
                    found.append(
                        np.where(cells == 0, np.nan, (edge - a[name]) / (b[name] - a[name]))
                    )
        # Beyond the edge of the cell, the segment continues in another image.
        for moved in list(product((False, True), repeat=len(shifts)))[1:]:
            by = {
                name: shift for (name, shift), on in zip(shifts.items(), moved, strict=True) if on
            }
            found += shape.roots(_less(a, by), _less(b, by))
        return found

    def pieces(self, shape: Shape) -> Pieces:
        """All segments, cut where they can enter or leave a shape."""
        if len(self.row) == 0:
            nothing = np.zeros(0, np.int64)
            return Pieces(nothing, nothing, np.zeros(0), np.zeros(0), np.zeros(0, bool))
        block = max(256, _VALUES // (len(self._candidates(shape, 0, 1)) + 2))
        parts = [
            self._cut(shape, first, min(first + block, len(self.row)))
            for first in range(0, len(self.row), block)
        ]
        segment, start, end, inside = (np.concatenate(one) for one in zip(*parts, strict=True))
        row = self.row[segment]
        return Pieces(self.path_of_row[row], segment, start, end, inside)

    def _cut(self, shape: Shape, first: int, end: int) -> tuple[Array, Array, Array, Array]:
        count = end - first
        candidates = [np.zeros(count), *self._candidates(shape, first, end), np.ones(count)]
        t = np.stack(candidates, axis=1)
        with np.errstate(invalid="ignore"):
            t = np.where((t > 0) & (t < 1), t, 1.0)
        t[:, 0] = 0
        t.sort(axis=1)
        long = np.diff(t, axis=1) > _SHORTEST
        place, piece = np.nonzero(long)
        start, stop = t[place, piece], t[place, piece + 1]
        segment = place + first
        inside = shape.inside(self.at(segment, (start + stop) / 2))
        return segment, start, stop, inside


def _less(points: Points, by: Mapping[str, Array]) -> dict[str, Array]:
    return {name: values - by[name] if name in by else values for name, values in points.items()}
