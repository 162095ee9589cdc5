"""Queries of files as JSON."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from .._box import fraction, in_json
from .._errors import InvalidInput
from .._spec import End
from ..region import to_dict

if TYPE_CHECKING:
    from .._arguments import AnyRegion

Ranges = Mapping[str, Any]


class Positions(TypedDict, total=False):
    where: str | None
    region: AnyRegion | None
    isel: Ranges | None


class Counted(Positions, total=False):
    sample: float | str | None
    skip_damaged: bool


class Part(Counted, total=False):
    columns: Sequence[str] | None


class Asked(Part, total=False):
    limit: int | None


class Goal(Positions, total=False):
    box: Ranges | None
    error: float | str | None
    within: float | None
    max_rows: int | None
    max_bytes: int | None
    sample: float | str | None
    confidence: float
    tails: float | None


def query(box: Ranges | None, **asked: Unpack[Asked]) -> dict[str, Any]:
    columns = asked.get("columns")
    if isinstance(columns, str):
        raise InvalidInput(f"columns: expected a list of names, not {columns!r}")
    isel = asked.get("isel") or {}
    sample = asked.get("sample")
    return {
        "where": asked.get("where"),
        "region": None if asked.get("region") is None else to_dict(asked["region"]),
        "isel": [positions(axis, given) for axis, given in isel.items()],
        "box": {column: values(column, given) for column, given in (box or {}).items()},
        "columns": None if columns is None else list(columns),
        "sample": None if sample is None else fraction("sample", sample),
        "limit": asked.get("limit"),
        "skip_damaged": asked.get("skip_damaged", False),
    }


def positions(axis: str, given: Any) -> tuple[str, int, int | None]:
    ends = (given.start or 0, given.stop) if isinstance(given, slice) else (given, None)
    step = given.step if isinstance(given, slice) else None
    try:
        first = ends[0].__index__()
        end = first + 1 if not isinstance(given, slice) else ends[1]
        end = None if end is None else end.__index__()
    except AttributeError:
        raise InvalidInput(f"isel: {axis}={given!r} is not a position or slice") from None
    if step not in (None, 1) or first < 0 or (end is not None and end < 0):
        raise InvalidInput(f"isel: {axis}={given!r}: expected positions from 0 on, without a step")
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
    """A bound; integers stay integers, because a double would round them."""
    if isinstance(end, bool | str | bytes):
        raise InvalidInput(f"box: {column}={given!r} is not a range of numbers")
    if end is None:
        return None
    try:
        return in_json(column, operator.index(end))
    except TypeError:
        pass
    try:
        number = float(end)
    except (TypeError, ValueError):
        raise InvalidInput(f"box: {column}={given!r} is not a range of numbers") from None
    if not math.isfinite(number):
        raise InvalidInput(f"box: {column}={given!r}: a bound must be finite, or None (open)")
    return number
