"""A question to files in the words of JSON: positions, ends of ranges, and what else is asked."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from .._box import in_json
from .._errors import InvalidInput
from .._spec import End

Ranges = Mapping[str, Any]


def question(
    where: str | None,
    isel: Ranges | None,
    sel: Ranges | None,
    columns: Sequence[str] | None,
    precision: float | None,
    limit: int | None,
    skip_damaged: bool,
) -> dict[str, Any]:
    if isinstance(columns, str):
        raise InvalidInput(f"columns is a list of names, not {columns!r}")
    return {
        "where": where,
        "isel": [positions(axis, given) for axis, given in (isel or {}).items()],
        "sel": {column: values(column, given) for column, given in (sel or {}).items()},
        "columns": None if columns is None else list(columns),
        "precision": precision,
        "limit": limit,
        "skip_damaged": skip_damaged,
    }


def positions(axis: str, given: Any) -> tuple[str, int, int | None]:
    ends = (given.start or 0, given.stop) if isinstance(given, slice) else (given, None)
    step = given.step if isinstance(given, slice) else None
    try:
        first = ends[0].__index__()
        end = first + 1 if not isinstance(given, slice) else ends[1]
        end = None if end is None else end.__index__()
    except AttributeError:
        raise InvalidInput(f"isel: {axis}={given!r} is no position or slice") from None
    if step not in (None, 1) or first < 0 or (end is not None and end < 0):
        raise InvalidInput(f"isel: {axis}={given!r}: from a position on, without a step")
    return axis, first, end


def values(column: str, given: Any) -> list[End]:
    if isinstance(given, slice):
        ends = (given.start, given.stop)
    elif isinstance(given, tuple | list) and len(given) == 2:
        ends = (given[0], given[1])
    else:
        ends = (given, given)
    return [_end(column, given, end) for end in ends]


def _end(column: str, given: Any, end: Any) -> End:
    """A whole number stays one: a double would round it."""
    if isinstance(end, bool | str | bytes):
        raise InvalidInput(f"sel: {column}={given!r} is no range of numbers")
    if end is None:
        return None
    try:
        return in_json(column, operator.index(end))
    except TypeError:
        pass
    try:
        number = float(end)
    except (TypeError, ValueError):
        raise InvalidInput(f"sel: {column}={given!r} is no range of numbers") from None
    if not math.isfinite(number):
        raise InvalidInput(f"sel: {column}={given!r}: an end is a finite number, or None: open")
    return number
