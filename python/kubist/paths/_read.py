"""Whole paths of a query in chunks, sorted by path and time, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .. import _box
from .._errors import InvalidInput
from .._figures import About
from .._pinned import Pinned
from .._result import Result

if TYPE_CHECKING:
    from .._spec import QuerySpec

Array = np.ndarray[Any, Any]

ROWS = 1 << 19
"""Rows of a chunk; a chunk has whole paths, so a longer path is a chunk of its own."""

AXES = ("x", "y", "z")
TIMES = ("time", "t", "frame", "step")


class Chunk(NamedTuple):
    """The rows of whole paths, sorted by path and time."""

    path: Array
    """The identity of each path."""
    starts: Array
    """The first row of each path, and the number of rows."""
    time: Array
    points: dict[str, Array]

    def of_row(self) -> Array:
        """The rows' paths, as positions in ``path``."""
        return np.repeat(np.arange(len(self.path)), np.diff(self.starts))

    def columns(self) -> Array:
        return np.stack(list(self.points.values()), axis=1)


class Period(NamedTuple):
    low: float
    length: float


def periods(given: Any, names: list[str]) -> dict[str, Period]:
    """The periods by column, from a length or both ends of the cell."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"period: expected a dict of column: length, not {given!r}")
    found = {}
    for name, value in given.items():
        if name not in names:
            raise InvalidInput(f"period: {name!r} is no axis of the paths: they are {names}")
        low, high = value if isinstance(value, tuple | list) else (0.0, value)
        low = _box.finite(f"period: {name}", low)
        length = _box.finite(f"period: {name}", high) - low
        if not length > 0:
            raise InvalidInput(f"period: {name}: the period must be above 0, not {length:g}")
        found[name] = Period(low, length)
    return found


class Reader:
    def __init__(
        self,
        pinned: Pinned,
        question: QuerySpec,
        by: str,
        time: str | None,
        axes: list[str],
        images: Mapping[str, str] | None = None,
    ) -> None:
        about = About.parse(pinned.about())
        known = {column.name: column for column in about.columns}
        self.pinned, self.question, self.by = pinned, question, by
        self.time = _time(by, time, about)
        self.axes = list(dict.fromkeys(axes))
        if not self.axes:
            raise InvalidInput(
                f"paths: the table has none of the columns {', '.join(AXES)}: name axes"
            )
        self.images = dict(images or {})
        for what, name in [("by", by), ("time", self.time), *(("axis", one) for one in self.axes)]:
            if name not in known:
                raise InvalidInput(f"paths: {what}: there is no column {name!r}")
        for axis, name in self.images.items():
            if axis not in self.axes or name not in known:
                raise InvalidInput(f"images: {axis!r}: {name!r} is no column, or {axis!r} no axis")
        if "sample" in question and about.identity != [by]:
            raise InvalidInput(
                f"sample: the identity of the table is {about.identity}, so a sample of it does "
                f"not have whole paths: copy the rows into a table with identity=[{by!r}]"
            )
        self.units = {name: column.unit for name, column in known.items()}
        self.fraction = self._result()._first.fraction()

    def _result(self) -> Result:
        columns = [self.by, self.time, *self.axes, *self.images.values()]
        asked = {
            **self.question,
            "columns": [f"{_quoted(name)} AS c{place}" for place, name in enumerate(columns)],
            "order_by": [_quoted(self.by), _quoted(self.time)],
        }
        question = cast("QuerySpec", asked)

        def ask() -> Any:
            return self.pinned.query(question)

        return Result(ask(), ask, self.pinned.metadata)

    def chunks(self, period: Mapping[str, Period]) -> Iterator[Chunk]:
        """The paths, in chunks. Rows without a time or a coordinate are left out.

        ``images`` move coordinates into the image of their row.
        """
        kept: list[list[Array]] = []
        rows, most = 0, ROWS
        for batch in self._result()._numpy_batches(np):
            kept.append(self._checked(list(batch.values())))
            rows += len(kept[-1][0])
            if rows < most:
                continue
            columns = [np.concatenate(one) for one in zip(*kept, strict=True)]
            # The last path may continue in the next batch.
            last = int(_changes(columns[0])[-1])
            if last > 0:
                yield self._chunk([one[:last] for one in columns], period)
            kept = [[one[last:] for one in columns]]
            rows -= last
            # Doubled, so that a long path is copied only a few times.
            most = max(ROWS, 2 * rows)
        columns = [np.concatenate(one) for one in zip(*kept, strict=True)]
        if len(columns[0]):
            yield self._chunk(columns, period)

    def _checked(self, columns: list[Array]) -> list[Array]:
        by, *numbers = columns
        if np.ma.isMaskedArray(by):
            numbers = [one[~np.ma.getmaskarray(by)] for one in numbers]
            by = np.ma.compressed(by)
        names = [self.time, *self.axes, *self.images.values()]
        for name, one in zip(names, numbers, strict=True):
            if one.dtype.kind not in "iuf":
                raise InvalidInput(f"paths: {name} has no numbers")
        values = [np.ma.filled(one.astype(float, copy=False), np.nan) for one in numbers]
        known = np.isfinite(np.add.reduce(values)) if len(by) else np.zeros(0, bool)
        return [by[known], *(one[known] for one in values)]

    def _chunk(self, columns: list[Array], period: Mapping[str, Period]) -> Chunk:
        by, time, *numbers = columns
        starts = np.append(_changes(by), len(by))
        points = dict(zip(self.axes, numbers[: len(self.axes)], strict=True))
        for place, axis in enumerate(self.images):
            if axis not in period:
                raise InvalidInput(f"images: {axis} needs its period: period={{{axis!r}: length}}")
            points[axis] = points[axis] + numbers[len(self.axes) + place] * period[axis].length
        return Chunk(by[starts[:-1]], starts, time, points)


def unwrapped(chunk: Chunk, period: Mapping[str, Period], images: Mapping[str, str]) -> Chunk:
    """Paths without jumps: each step goes to the nearest image of the next position."""
    points = dict(chunk.points)
    for axis, (_, length) in period.items():
        if axis in images:
            continue
        step = np.diff(points[axis], prepend=points[axis][:1])
        step[chunk.starts[:-1]] = 0
        crossed = np.cumsum(np.round(step / length))
        # Relative to the path's first row.
        crossed -= np.repeat(crossed[chunk.starts[:-1]], np.diff(chunk.starts))
        points[axis] = points[axis] - crossed * length
    return chunk._replace(points=points)


def _changes(by: Array) -> Array:
    """The paths' first rows."""
    if len(by) == 0:
        return np.zeros(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(by[1:] != by[:-1]) + 1])


def _time(by: str, time: str | None, about: About) -> str:
    if time is not None:
        if not isinstance(time, str):
            raise InvalidInput(f"time: {time!r} is not a column name")
        return time
    others = [name for name in about.identity if name != by]
    if by in about.identity and len(others) == 1:
        return others[0]
    names = [column.name for column in about.columns]
    for name in TIMES:
        if name in names:
            return name
    raise InvalidInput(f"time: name the column of times; the columns are {', '.join(names)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def axes_of(pinned: Pinned, given: Any) -> list[str]:
    """The given axes, or x, y and z if the table has these columns."""
    if given is not None:
        return _box.names("axes", given)
    names = [column["name"] for column in json.loads(pinned.columns())]
    return [name for name in AXES if name in names]
