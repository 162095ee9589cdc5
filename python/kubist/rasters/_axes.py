"""The cells of a raster: equal intervals of two axes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._errors import InvalidInput

Array = np.ndarray[Any, Any]

CELLS = 100_000_000
"""The maximum number of cells; each takes 8 to 48 bytes of memory while rows are read."""


class Axis(NamedTuple):
    """Equal intervals. A value on an edge is in the upper interval."""

    name: str
    edges: Array
    closed: bool
    """Whether the last edge is in the last interval, because a box ends there."""

    @property
    def cells(self) -> int:
        return len(self.edges) - 1

    def places(self, values: Array) -> tuple[Array, Array]:
        """The values' intervals, and which values have an interval; null and NaN have none."""
        values = np.ma.filled(values.astype(float, copy=False), np.nan)
        edges = self.edges
        with np.errstate(invalid="ignore", over="ignore"):
            guess = np.floor((values - edges[0]) * (self.cells / (edges[-1] - edges[0])))
        inside = (values >= edges[0]) & (values <= edges[-1])
        place = np.where(inside, np.clip(guess, 0, self.cells - 1), 0).astype(np.int64)
        # The guess is rounded; the edges decide.
        place -= values < edges[place]
        place += values >= edges[place + 1]
        last = place == self.cells
        place[last] -= 1
        return place, inside & (~last | self.closed)


def axis(name: str, width: float, low: float, high: float, given: tuple[bool, bool]) -> Axis:
    """The intervals from ``low`` to ``high``.

    They start at a given low end; otherwise edges are multiples of the width, so that rasters of
    neighbouring regions fit together.
    """
    if given[0]:
        count = max(math.ceil((high - low) / width - 1e-9), 1) if given[1] else None
        if count is None:
            count = math.floor((high - low) / width) + 1
        edges = low + width * np.arange(count + 1)
    else:
        first = math.floor(low / width)
        last = max(math.ceil(high / width - 1e-9), first + 1) if given[1] else None
        if last is None:
            last = math.floor(high / width) + 1
        edges = width * np.arange(first, last + 1, dtype=float)
        # Division and product may round differently.
        edges[0] = min(edges[0], low)
    if given[1] and abs(edges[-1] - high) <= 1e-9 * width:
        edges[-1] = high
    if np.any(np.diff(edges) <= 0):
        raise InvalidInput(
            f"raster: cell: {width:g} is too small: 64-bit floats near {high:g} cannot separate "
            f"the edges along {name}"
        )
    return Axis(name, edges, closed=bool(given[1]) or bool(edges[-1] <= high))


def check(width: float, low: float, high: float, across: float) -> float:
    """The number of cells along an axis; refuses a raster with too many cells.

    It is a float, because the quotient may be infinite. ``across`` is the number along the other
    axis.
    """
    cells = max((high - low) / width, 1.0)
    if not cells * across <= CELLS or not math.isfinite(low / width):
        raise InvalidInput(
            f"raster: cell: {width:g} gives {cells * across:,.4g} cells, and a raster has at most "
            f"{CELLS:,}: choose a larger cell or a smaller box"
        )
    return cells
