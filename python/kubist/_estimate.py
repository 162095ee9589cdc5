"""Figures with their intervals: what `Table.estimate` returns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from . import _box, _forms, _kubist
from ._errors import InvalidInput
from ._figures import Stats, parse
from ._libraries import need
from ._own import Own
from ._pinned import Estimates, Figures
from ._polars import polars_frame
from ._shown import counted, html_table, text_table, with_unit

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from ._spec import EstimateRequest, QuerySpec

_SHOWN = 40
"""Figures that a terminal or a notebook shows."""

_OF_FIGURES = frozenset(
    "bin_low bin_high bin2_low bin2_high value low high "
    "confidence fraction rows rows_read exact".split()
)
"""Columns that are shown as one value, and as one bin, or not at all."""


class About(TypedDict):
    """What is known of all figures of an estimate together."""

    fraction: float
    confidence: float
    units: dict[str, str]
    bin_units: dict[str, list[str | None]]
    stopped: str
    missed_group: int | None
    warnings: list[str]
    outlook: str | None
    own: list[tuple[str, list[str | None]] | None]
    stats: dict[str, int | float]


class Estimate:
    """Figures, each with an interval that holds the truth with the given confidence.

    One row for each aggregate and group (and bin) in `to_arrow`, `to_pandas`, `to_polars`;
    `value`, `low` and `high` where there is a single figure:

    >>> e = t.estimate("mean(ux)", error=0.01)
    >>> e.value, e.low, e.high
    >>> e.stats.rows_read, e.fraction, e.stopped
    """

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._about: About = json.loads(figures.about())

    def to_arrow(self) -> pa.Table:
        """A row for each figure, as a `pyarrow.Table`.

        Columns: ``aggregate``; those of ``group_by``; for histograms ``bin_low``,
        ``bin_high`` (and ``bin2_low``, ``bin2_high``); ``value``, ``low``, ``high``,
        ``confidence``, ``fraction``, ``rows`` (the records it comes from),
        ``rows_read`` (all that were looked at), ``exact``. Ends are infinite where nothing
        bounds them. Where all figures have a type of their own in common, such as int64 or a
        timestamp, ``value``, ``low`` and ``high`` have it too, and such ends are null.
        """
        pa = need("pyarrow", "to_arrow()")
        return pa.Table.from_batches([pa.record_batch(self._figures.batch())])

    def to_pandas(self) -> pd.DataFrame:
        """A row for each figure, as a `pandas.DataFrame`."""
        need("pandas", "to_pandas()")
        return _forms.to_pandas(self.to_arrow(), {})

    def to_polars(self) -> pl.DataFrame:
        """A row for each figure, as a `polars.DataFrame`."""
        return polars_frame(self._figures.batch(), "to_polars()")

    @property
    def value(self) -> Any:
        """The value of the only figure; None if no record says anything about it.

        With all digits where it is of integers, decimals, dates or times: an `int`, a
        `decimal.Decimal`, a `datetime.date`, `datetime.datetime` or `datetime.time`, or, of
        timestamps in nanoseconds, a `numpy.datetime64`. Extremes and quantiles always are,
        counts and sums where they are exact. All others are floats.
        """
        return self._only()["value"]

    @property
    def low(self) -> Any:
        """The lower end of its interval; infinite, or of times None, where nothing bounds it."""
        return self._only()["low"]

    @property
    def high(self) -> Any:
        """The upper end of its interval; infinite, or of times None, where nothing bounds it."""
        return self._only()["high"]

    @property
    def exact(self) -> bool:
        """Whether all figures are those of all records."""
        return all(row["exact"] for row in self._rows())

    @property
    def fraction(self) -> float:
        """The share of the identities that was read; figures may know more."""
        return self._about["fraction"]

    @property
    def confidence(self) -> float:
        """How often the intervals hold the truth."""
        return self._about["confidence"]

    @property
    def stopped(self) -> str:
        """Why reading ended.

        One of ``goal``, ``sample``, ``time``, ``rows``, ``bytes``, ``memory``, ``exact``;
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
    def outlook(self) -> str | None:
        """What the pilot expects the goal to take, of the first of progressive estimates.

        None where that is not much, and of later ones.
        """
        return self._about["outlook"]

    def to_numpy(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The only histogram as ``(counts, edges)``.

        In two directions ``(counts, edges_x, edges_y)``. As of ``numpy.histogram`` and
        ``numpy.histogram2d``, but that counts are estimates and the outermost edges say how
        far the outer bins reach: to the smallest and the largest value where they are
        known, else they are infinite.

        Example:
            >>> counts, edges = t.estimate("histogram(x, 20, round)").to_numpy()
        """
        from ._histogram import arrays

        return arrays(self._rows())

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each figure: aggregate, groups, value, low, high, and how it was found.

        Example:
            >>> {row["aggregate"]: row["value"] for row in t.estimate("mean(x), max(x)").to_dicts()}
        """
        return self._rows()

    @property
    def stats(self) -> Stats:
        """What it cost."""
        return parse(Stats, json.dumps(self._about["stats"]))

    @property
    def units(self) -> dict[str, str]:
        """The units of the aggregates that have one: of columns with a unit."""
        return self._about.get("units", {})

    def _rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """A row a figure, with values of Python."""
        batch = self._figures.batch()
        names = batch.names()
        columns = [batch.values(place) for place in range(len(names))]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)][:most]
        for row, own in zip(rows, self._own(), strict=False):
            if own is not None:
                row["value"], row["low"], row["high"] = own.values()
        return rows

    def _own(self) -> list[Own | None]:
        """The figures that are in types of their own."""
        return [None if own is None else Own(*own) for own in self._about["own"]]

    def _only(self) -> dict[str, Any]:
        rows = self._rows(2)
        if len(rows) != 1:
            count = self._figures.batch().rows()
            raise InvalidInput(f"there are {count} figures: see to_dicts() or to_pandas()")
        return rows[0]

    def _table(self) -> tuple[list[str], list[list[str | None]], list[str]]:
        """Names, cells, and lines about all of it."""
        batch = self._figures.batch()
        rows = self._rows(_SHOWN)
        places = [place for place, name in enumerate(batch.names()) if name not in _OF_FIGURES]
        units = batch.units()
        names = [with_unit(batch.names()[place], units[place]) for place in places]
        columns = [batch.texts(place, _SHOWN) for place in places]
        if any("bin_low" in row for row in rows):
            names.append("bin")
            columns.append([self._bin_in_words(row) for row in rows])
        columns.append([self._in_words(r, own) for r, own in zip(rows, self._own(), strict=False)])
        cells = [list(row) for row in zip(*columns, strict=True)]
        left_out = batch.rows() - len(rows)
        more = f", {left_out:,} more figures" if left_out else ""
        stats = self.stats
        about = (
            f"({100 * self.confidence:.4g} % confidence, "
            f"fraction {_kubist.fraction(self.fraction)}, "
            f"{counted(stats.rows_read, 'record read')} in {_kubist.duration(stats.seconds)}{more})"
        )
        return [*names, "value"], cells, [about, *(f"note: {word}" for word in self.warnings)]

    def _in_words(self, row: dict[str, Any], own: Own | None) -> str:
        # What histograms count is in no unit; their bins are.
        unit = None if "bin_low" in row else self.units.get(row["aggregate"])
        if own is not None:
            return own.in_words(row["exact"], unit)
        return _kubist.figure(row["value"], row["low"], row["high"], row["exact"], unit)

    def _bin_in_words(self, row: dict[str, Any]) -> str | None:
        """Its ends in each direction; None of a figure that has none."""
        units = self._about.get("bin_units", {}).get(row["aggregate"], [])
        ends = ((row.get(f"{bin}_low"), row.get(f"{bin}_high")) for bin in ("bin", "bin2"))
        words = [
            _kubist.bin_in_words(low, high, unit)
            for (low, high), unit in zip_longest(ends, units[:2])
            if low is not None and high is not None
        ]
        return " × ".join(words) or None  # noqa: RUF001

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())


Estimate.__module__ = "kubist"


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
    within: Any,
    max_rows: Any,
    max_bytes: Any,
    confidence: Any,
    tails: Any,
) -> EstimateRequest:
    """What is estimated of which records, and how well, in the words of JSON."""
    # What `Table.estimate` takes chooses among no records: an estimate has those words too.
    asked = cast("EstimateRequest", {**question, "aggregates": _aggregates(aggregates)})
    if group_by is not None:
        texts = [group_by] if isinstance(group_by, str) else group_by
        asked["group_by"] = _box.names("group_by", texts)
    if error is not None:
        kind, half = _goal(error)
        asked[kind] = half
    if within is not None:
        asked["within"] = _box.finite("within", _box.seconds("within", within))
    if max_rows is not None:
        asked["max_rows"] = _box.count("max_rows", max_rows)
    if max_bytes is not None:
        asked["max_bytes"] = _box.count("max_bytes", max_bytes)
    if tails is not None:
        asked["tails"] = _box.finite("tails", tails)
    asked["confidence"] = _box.finite("confidence", confidence)
    return asked


def _goal(error: Any) -> tuple[Literal["error", "absolute"], float | str]:
    """``0.01`` or ``"1%"`` of a value, ``"0.01 abs"`` or ``"0.1 mm"`` whatever the value."""
    if not isinstance(error, str):
        share = _box.finite("error", error)
        if share >= 1:
            percent = f"{100 * share:.6g}"
            raise InvalidInput(
                f"error: {share:g} is a share, {percent} % of the value: "
                f"write '{share:g}%', or '{share:g} abs' in the value's unit"
            )
        return "error", share
    text = error.strip()
    for ending, kind, part in (("abs", "absolute", 1), ("%", "error", 100)):
        number = _number(text.removesuffix(ending))
        if text.endswith(ending) and number is not None:
            return cast("Literal['error', 'absolute']", kind), _box.finite("error", number / part)
    if (plain := _number(text)) is not None:
        return _goal(plain)
    if text[:1] in ".0123456789" and text.isprintable() and not text.endswith(("abs", "%")):
        # The engine knows the units.
        return "absolute", text
    raise InvalidInput(
        f"error: expected a share as 0.01 or '1%', or '0.01 abs' or '0.1 mm', not {error!r}"
    )


def _number(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


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
