"""The axes of a raster, its rows in batches, and its cells in strips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .. import _box, _estimate
from .._errors import InvalidInput
from .._pinned import Pinned
from .._pushdown import both
from .._result import Result
from ._axes import Axis, axis, check
from ._cells import Estimates, Rows, estimates
from ._values import Aggregate, Totals

if TYPE_CHECKING:
    from .._spec import QuerySpec

Array = np.ndarray[Any, Any]

ROWS = 4_000_000
"""The rows that a strip keeps in memory; a cell with more rows is a strip of its own."""


class Reader:
    def __init__(self, pinned: Pinned, question: QuerySpec, x: str, y: str) -> None:
        self.pinned, self.question = pinned, question
        self.x, self.y = x, y
        self.identity: list[str] = json.loads(pinned.about())["identity"]

    def result(self, columns: Mapping[str, str], where: str | None = None) -> Result:
        asked = {
            **self.question,
            "columns": [f"{text} AS {name}" for name, text in columns.items()],
        }
        if where is not None:
            asked["where"] = both(self.question.get("where"), where)
        question = cast("QuerySpec", asked)

        def ask() -> Any:
            return self.pinned.query(question)

        return Result(ask(), ask, self.pinned.metadata)

    def count(self) -> int:
        return self.pinned.count(self.question)

    def batches(
        self, columns: Mapping[str, str], where: str | None = None
    ) -> Iterator[dict[str, Array]]:
        yield from self.result(columns, where)._numpy_batches(np)

    def ends(self, texts: list[str]) -> list[float | None]:
        """The exact minima and maxima by expression; None without a row."""
        # All rows, also for a sample: cells must not depend on the fraction.
        rows = {name: value for name, value in self.question.items() if name != "sample"}
        request = _estimate.request(
            cast("QuerySpec", rows),
            [f"{kind}({text})" for text in texts for kind in ("min", "max")],
            None,
            error=None,
            within=None,
            max_rows=None,
            max_bytes=None,
            confidence=0.95,
            tails=None,
        )
        found = _estimate.Estimate(self.pinned.estimate(request))
        return [one["value"] for one in found.to_dicts()]

    def number(self, what: str, value: Any, of: str) -> float:
        """Converts a number, or text with a unit, to the unit of an expression."""
        if not isinstance(value, str):
            return _box.finite(what, value)
        literal = "'" + value.replace("'", "''") + "'"
        question = cast("QuerySpec", {"columns": [f"0 * ({of}) + {literal} AS number"], "limit": 1})
        try:
            stream = self.pinned.query(question)
        except InvalidInput as error:
            raise InvalidInput(f"{what}: {value!r} is no number of {of}: {error}") from None
        found = Result(stream, lambda: stream, self.pinned.metadata).to_numpy()["number"]
        if len(found) == 0:
            raise InvalidInput(f"{what}: {value!r} has a unit, but the table has no row")
        # The shortest digits, because a column of 32-bit floats computes in its own type.
        return _box.finite(what, float(str(found[0])))


def axes(reader: Reader, cell: Any, box: Any) -> tuple[Axis, Axis]:
    """The axes of the cells, from the box where it has bounds, otherwise from the rows."""
    names = [reader.x, reader.y]
    pair = cell if isinstance(cell, tuple | list) else (cell, cell)
    if len(pair) != 2:
        raise InvalidInput(f"raster: cell: expected a width or two, not {cell!r}")
    widths = [
        reader.number("raster: cell", one, name) for one, name in zip(pair, names, strict=True)
    ]
    for one, width in zip(pair, widths, strict=True):
        if not width > 0:
            raise InvalidInput(f"raster: cell must be above 0, not {one!r}")
    ends = _ends_of_box(reader, box, names)
    missing = [name for name, both_ends in zip(names, ends, strict=True) if None in both_ends]
    if missing:
        found = iter(reader.ends(missing))
        known = {name: (next(found), next(found)) for name in missing}
    spans = []
    across = 1.0
    for name, width, (low, high) in zip(names, widths, ends, strict=True):
        given = (low is not None, high is not None)
        if not all(given):
            low, high = (
                one if one is not None else bound
                for one, bound in zip((low, high), known[name], strict=True)
            )
            if low is None or high is None:
                raise InvalidInput(f"raster: no row has a value of {name}: give its ends in box=")
        low, high = _finite(name, low), _finite(name, high)
        across *= check(width, low, high, across)
        spans.append((name, width, low, high, given))
    x, y = (axis(*span) for span in spans)
    return x, y


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"raster: {name} has no numbers, but values such as {value}") from None
    if not np.isfinite(number):
        raise InvalidInput(f"raster: {name} has values up to {number}: give its ends in box=")
    return number


def _ends_of_box(
    reader: Reader, box: Any, names: list[str]
) -> list[tuple[float | None, float | None]]:
    given = {str(name).lower(): ends for name, ends in (box or {}).items()}
    found = []
    for name in names:
        ends = given.get(name.lower(), (None, None))
        low, high = ends if isinstance(ends, tuple | list) else (ends, ends)
        found.append(
            tuple(
                None if end is None else reader.number(f"raster: box: {name}", end, name)
                for end in (low, high)
            )
        )
    return cast("list[tuple[float | None, float | None]]", found)


def _columns(reader: Reader, of: Aggregate) -> dict[str, str]:
    columns = {"x": reader.x, "y": reader.y}
    return columns if of.of is None else {**columns, "value": of.of}


def _placed(
    batch: Mapping[str, Array], x: Axis, y: Axis, of: Aggregate
) -> tuple[Array, Array, Array]:
    """The cells and values of the rows that have both, and which rows these are."""
    for name, one in (("x", x), ("y", y)):
        if batch[name].dtype.kind not in "iufb":
            raise InvalidInput(f"raster: {name}: {one.name} has no numbers")
    column, inside = x.places(batch["x"])
    row, also = y.places(batch["y"])
    kept = inside & also
    value = np.zeros(0)
    if "value" in batch:
        value = batch["value"]
        if value.dtype.kind not in "iufb":
            if of.kind != "count":
                raise InvalidInput(f"raster: value: {of.text}: {of.of} has no numbers")
            missing = np.ma.getmaskarray(value)
            value = np.where(missing, np.nan, 0.0)
        value = np.ma.filled(value.astype(float, copy=False), np.nan)
        kept &= ~np.isnan(value)
    cell = (row * x.cells + column)[kept]
    return cell, value[kept] if len(value) else np.zeros(len(cell)), kept


def complete(reader: Reader, x: Axis, y: Axis, of: Aggregate) -> tuple[Array, Array]:
    """The aggregates and row counts by cell, in one pass."""
    totals = Totals(of.kind, x.cells * y.cells)
    for batch in reader.batches(_columns(reader, of)):
        cell, value, _ = _placed(batch, x, y, of)
        totals.add(cell, value)
    return totals.values(), totals.count


def stripwise(
    reader: Reader, x: Axis, y: Axis, of: Aggregate, fraction: float, confidence: float
) -> Estimates:
    """The aggregates by cell with intervals, strip by strip."""
    cells = x.cells * y.cells
    columns = _columns(reader, of)
    if fraction < 1:
        columns |= {f"identity{place}": _quoted(name) for place, name in enumerate(reader.identity)}
    parts = []
    for first, end in _strips(reader, x, y):
        where = None if (first, end) == (0, cells) else _around(x, y, first, end)
        kept: list[tuple[Array, ...]] = []
        for batch in reader.batches(columns, where):
            cell, value, rows = _placed(batch, x, y, of)
            own = (cell >= first) & (cell < end)
            codes = [batch[name][rows][own] for name in columns if name.startswith("identity")]
            kept.append((cell[own] - first, value[own], *codes))
        cell, value, *identity = (_joined(list(one)) for one in zip(*kept, strict=True))
        unit = _numbered(identity) if identity else None
        parts.append(estimates(Rows(end - first, cell, value, unit), of, fraction, confidence))
    return Estimates(*(np.concatenate(one) for one in zip(*parts, strict=True)))


def _joined(parts: list[Array]) -> Array:
    masked = any(np.ma.isMaskedArray(one) for one in parts)
    joined: Array = (np.ma.concatenate if masked else np.concatenate)(parts)
    return joined


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _numbered(columns: list[Array]) -> Array:
    """A number for each combination of values."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if isinstance(column, np.ma.MaskedArray):
            values, own = np.unique(np.ma.filled(column), return_inverse=True)
            own = np.where(np.ma.getmaskarray(column), len(values), own)
        else:
            if column.dtype.kind == "O":
                column = column.astype(str)
            values, own = np.unique(column, return_inverse=True)
        _, code = np.unique(code * (len(values) + 1) + own, return_inverse=True)
    return code


def _strips(reader: Reader, x: Axis, y: Axis) -> Iterator[tuple[int, int]]:
    """Ranges of cells with about `ROWS` rows each; a longer range has whole lines of cells."""
    cells = x.cells * y.cells
    if reader.count() <= ROWS:
        yield 0, cells
        return
    rows = Aggregate("count()", "count", None)
    before = np.concatenate([[0], np.cumsum(complete(reader, x, y, rows)[1])])
    first = 0
    while first < cells:
        end = int(np.searchsorted(before, before[first] + ROWS, side="right")) - 1
        end = min(max(end, first + 1), cells)
        if end // x.cells > first // x.cells:
            end = end // x.cells * x.cells
        yield first, end
        first = end


def _around(x: Axis, y: Axis, first: int, end: int) -> str:
    """A condition that matches all rows of a range of cells, and few others."""
    top, bottom = first // x.cells, (end - 1) // x.cells
    terms = [_between(y, top, bottom)]
    if top == bottom:
        terms.append(_between(x, first % x.cells, (end - 1) % x.cells))
    return " AND ".join(terms)


def _between(axis: Axis, first: int, last: int) -> str:
    # Half a cell more, because a literal takes the column's type; the edges decide.
    margin = (axis.edges[-1] - axis.edges[0]) / axis.cells / 2
    low, high = axis.edges[first] - margin, axis.edges[last + 1] + margin
    return f"({axis.name}) >= {float(low)!r} AND ({axis.name}) <= {float(high)!r}"
