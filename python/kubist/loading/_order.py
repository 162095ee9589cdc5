"""The order of a loader: the groups of rows that are in memory together, as values.

An epoch is a list of groups, which depends on the seed and the epoch, not on the number of
processes. A group is read as a whole and shuffled, so it must fit in the pool.

Rows are in random order of priority, so a window of priorities is a uniform sample of all rows, and
so is a group of random windows. Two epochs never have the same groups.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from .._random import generator

Order = Literal["uniform", "pooled", "growing"]

EDGES = 128
"""Windows end at multiples of 1/128, as the strata of a layout for windows do."""
_LEAST_WINDOWS, _MOST_WINDOWS = 16, 1 << 20
_WINDOW_ROWS = 1 << 16
"""The minimum rows of a window, because each is a query."""
_DRAWN = 8
"""Windows in a group; with several, no two epochs have the same groups."""
_LEAST_DRAWN = 4
_GROUP_ROWS = 1 << 16
"""A smaller group costs more for its queries than for its rows."""
_CHUNK_ROWS = 4096
"""Rows of a region that ``pooled`` reads together: a few pages."""
_MOST_CHUNKS = 1 << 16

Range = tuple[float, float]


class Plan(NamedTuple):
    """The division of an epoch's rows, which a state stores."""

    parts: int
    """Windows of the whole range of priorities, or regions of space."""
    drawn: int
    """Parts of a group."""


class Group(NamedTuple):
    """The rows that are shuffled together: windows of priority, or numbers of regions."""

    windows: tuple[Range, ...]
    regions: tuple[int, ...] = ()


def plan(order: Order, rows: int, span: Range, most_rows: int) -> Plan:
    rows, most_rows = max(rows, 1), max(most_rows, 1)
    if order == "pooled":
        parts = min(max(math.ceil(rows / _CHUNK_ROWS), 1), _MOST_CHUNKS)
        return Plan(parts, min(max(most_rows * parts // rows, 1), parts))
    whole = rows / (span[1] - span[0])
    parts = EDGES
    while whole / parts < _WINDOW_ROWS and parts > _LEAST_WINDOWS:
        parts //= 2
    while whole / parts * _LEAST_DRAWN > most_rows and parts < _MOST_WINDOWS:
        parts *= 2
    enough = max(_DRAWN, math.ceil(_GROUP_ROWS * parts / whole))
    return Plan(parts, min(max(int(most_rows * parts / whole), 1), enough, parts))


def groups(order: Order, plan: Plan, span: Range, seed: int, epoch: int) -> list[Group]:
    if order == "growing":
        return _growing(plan, span)
    if order == "pooled":
        drawn = generator(seed, epoch).permutation(plan.parts)
        places = range(0, plan.parts, plan.drawn)
        return [
            Group((), tuple(sorted(int(part) for part in drawn[first : first + plan.drawn])))
            for first in places
        ]
    first, last = math.floor(span[0] * plan.parts), math.ceil(span[1] * plan.parts)
    windows = first + generator(seed, epoch).permutation(last - first)
    return [
        Group(_joined([_window(int(part), plan.parts, span) for part in sorted(some)]))
        for some in (
            windows[place : place + plan.drawn] for place in range(0, len(windows), plan.drawn)
        )
    ]


def _growing(plan: Plan, span: Range) -> list[Group]:
    """Windows that double the rows so far, each cut into groups that fit in the pool."""
    found, low, width = [], span[0], 1 / EDGES
    while low < span[1]:
        end = min(span[0] + width, span[1])
        while low < end:
            # Cut at the edges of windows, as far as the span allows.
            high = min((math.floor(low * plan.parts) + plan.drawn) / plan.parts, end)
            found.append(Group(((low, high),)))
            low = high
        width *= 2
    return found


def _window(part: int, parts: int, span: Range) -> Range:
    return max(part / parts, span[0]), min((part + 1) / parts, span[1])


def _joined(windows: list[Range]) -> tuple[Range, ...]:
    """Joins adjacent windows, because each is a query."""
    joined: list[Range] = []
    for low, high in windows:
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def shuffled(rows: int, seed: int, epoch: int, group: int) -> np.ndarray[Any, Any]:
    places = np.arange(rows, dtype=np.intp)
    generator(seed, epoch, group).shuffle(places)
    return places
