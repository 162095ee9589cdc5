"""Figures with their intervals: what `Table.estimate` returns."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict, cast

from . import _box, _kubist
from ._data import need
from ._errors import InvalidInput
from ._figures import Stats, parse
from ._pinned import Estimates, Figures

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from ._spec import EstimateRequest, QuerySpec

_SHOWN = 40
"""Figures that a terminal or a notebook shows."""


class About(TypedDict):
    """What is known of all figures of an estimate together."""

    precision: float
    confidence: float
    stopped: str
    missed_group: int | None
    warnings: list[str]
    stats: dict[str, int | float]


class Estimate:
    """Figures, each with an interval that holds the truth with the given confidence.

    One row an aggregate and group (and bin) in `to_arrow`, `to_pandas`, `to_polars`;
    `value`, `low` and `high` where there is a single figure:

    >>> e = t.estimate("mean(ux)", error=0.01)
    >>> e.value, e.low, e.high
    >>> e.stats.rows_read, e.precision, e.stopped
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._about: About = json.loads(figures.about())

    def to_arrow(self) -> pa.Table:
        """A row a figure, as a `pyarrow.Table`.

        Columns: ``aggregate``; those of ``group_by``; for histograms ``bin_low``,
        ``bin_high`` (and ``bin2_low``, ``bin2_high``); ``value``, ``low``, ``high``,
        ``confidence``, ``precision``, ``rows`` (the records it comes from),
        ``rows_read`` (all that were looked at), ``exact``. Ends are infinite where nothing
        bounds them.
        """
        pa = need("pyarrow", "to_arrow()")
        return pa.Table.from_batches([pa.record_batch(self._figures.batch())])

    def to_pandas(self) -> pd.DataFrame:
        """A row a figure, as a `pandas.DataFrame`."""
        need("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """A row a figure, as a `polars.DataFrame`."""
        polars = need("polars", "to_polars()")
        frame: pl.DataFrame = polars.DataFrame(self._figures.batch())
        return frame

    @property
    def value(self) -> float | None:
        """The value of the only figure; None if no record says anything about it."""
        value: float | None = self._only()["value"]
        return value

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        low: float = self._only()["low"]
        return low

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        high: float = self._only()["high"]
        return high

    @property
    def exact(self) -> bool:
        """Whether all figures are those of all records."""
        return all(row["exact"] for row in self._rows())

    @property
    def precision(self) -> float:
        """The share of the identities that was read; figures may know more."""
        return self._about["precision"]

    @property
    def confidence(self) -> float:
        """How often the intervals hold the truth."""
        return self._about["confidence"]

    @property
    def stopped(self) -> str:
        """Why reading ended.

        One of ``goal``, ``precision``, ``time``, ``rows``, ``bytes``, ``memory``, ``exact``;
        ``progress`` if a finer estimate follows.
        """
        return self._about["stopped"]

    @property
    def missed_group(self) -> int | None:
        """With the confidence given, no group of more identities than this is missing.

        None without ``group_by``.
        """
        return self._about["missed_group"]

    @property
    def warnings(self) -> list[str]:
        """What a reader of the figures should know: heavy tails, few records."""
        return self._about["warnings"]

    @property
    def stats(self) -> Stats:
        """What it cost."""
        return parse(Stats, json.dumps(self._about["stats"]))

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def _only(self) -> dict[str, Any]:
        rows = self._rows()
        if len(rows) != 1:
            raise InvalidInput(f"there are {len(rows)} figures: see to_arrow() or to_pandas()")
        return rows[0]

    def _table(self) -> tuple[list[str], list[list[str]], str]:
        """Names, cells, and a line about all of it."""
        table = self.to_arrow()
        hidden = {"value", "low", "high", "confidence", "precision", "rows", "rows_read", "exact"}
        names = [name for name in table.schema.names if name not in hidden]
        rows = table.slice(0, _SHOWN).to_pylist()
        cells = [[_text(row[name]) for name in names] + [figure(row)] for row in rows]
        left_out = table.num_rows - len(rows)
        more = f", {left_out} more figures" if left_out else ""
        stats = self.stats
        about = (
            f"{self.confidence:.4g} confidence, precision {self.precision:.3g}, "
            f"{stats.rows_read:,} rows read in {stats.seconds:.3g} s{more}"
        )
        return [*names, "value"], cells, about

    def __repr__(self) -> str:
        names, cells, about = self._table()
        names = [_kubist.printable(name) for name in names]
        cells = [[_kubist.printable(cell) for cell in row] for row in cells]
        widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in [names, *cells]]
        notes = [f"note: {_kubist.printable(word)}" for word in self.warnings]
        return "\n".join([*lines, f"({about})", *notes])

    def _repr_html_(self) -> str:
        names, cells, about = self._table()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in cells
        )
        notes = "".join(f"<p>note: {html.escape(word)}</p>" for word in self.warnings)
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(about)}</p>{notes}"


Estimate.__module__ = "kubist"


def figure(row: dict[str, Any]) -> str:
    """A figure as people read it: ``0.1273 ± 0.0012``, or both ends where they differ."""
    value, low, high = row["value"], row["low"], row["high"]
    if value is None:
        return f"unknown, {_number(low)} to {_number(high)}"
    if row["exact"]:
        return f"{_number(value)} exactly"
    below, above = value - low, high - value
    if not math.isfinite(below + above) or abs(below - above) > 0.1 * max(below, above):
        return f"{_number(value)}, {_number(low)} to {_number(high)}"
    half = max(below, above)
    if half <= 0:
        return _number(value)
    digits = max(0, 1 - math.floor(math.log10(half)))
    if digits > 12 or half >= 1e12:
        return f"{value:.6g} ± {half:.2g}"
    return f"{value:,.{digits}f} ± {half:,.{digits}f}"


def _number(value: float) -> str:
    if value == int(value) if math.isfinite(value) else False:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.6g}"
    return f"{value:.6g}"


def _text(value: Any) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def steps(estimates: Estimates) -> Iterator[Estimate]:
    """One after the other, until the last."""
    while (figures := estimates.next_step()) is not None:
        yield Estimate(figures)


def request(
    question: QuerySpec,
    aggregates: Any,
    group_by: Any,
    *,
    error: Any,
    absolute: Any,
    within: Any,
    rows: Any,
    bytes: Any,
    confidence: Any,
    tails: Any,
) -> EstimateRequest:
    """What is estimated of which records, and how well, in the words of JSON."""
    # What `Table.estimate` takes chooses among no records: an estimate has those words too.
    asked = cast("EstimateRequest", {**question, "aggregates": _aggregates(aggregates)})
    if group_by is not None:
        columns = [group_by] if isinstance(group_by, str) else group_by
        asked["group_by"] = _box.names("group_by", columns)
    if error is not None:
        asked["error"] = _box.finite("error", error)
    if absolute is not None:
        asked["absolute"] = _box.finite("absolute", absolute)
    if within is not None:
        asked["within"] = _box.finite("within", within, low=0)
    if rows is not None:
        asked["rows"] = _box.count("rows", rows)
    if bytes is not None:
        asked["bytes"] = _box.count("bytes", bytes)
    if tails is not None:
        asked["tails"] = _box.finite("tails", tails)
    asked["confidence"] = _box.finite("confidence", confidence)
    return asked


def _aggregates(value: Any) -> list[str]:
    """One aggregate or several, as a list."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Iterable) or isinstance(listed, (bytes, dict)):
        raise InvalidInput(f"aggregates: expected text like 'mean(x)', not {value!r}")
    listed = list(listed)
    for text in listed:
        if not isinstance(text, str):
            raise InvalidInput(f"aggregates: expected text like 'mean(x)', not {text!r}")
    return listed
