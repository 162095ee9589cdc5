"""Estimates with intervals: the result of `Table.estimate`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from . import _box, _forms, _kubist, _saved
from ._errors import InvalidInput
from ._figures import Stats, parse
from ._libraries import need
from ._pinned import Estimates, Figures
from ._polars import polars_frame
from ._shown import counted, html_table, text_table, with_unit
from ._typed import TypedInterval, parsed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from ._spec import EstimateRequest, QuerySpec

_SHOWN = 40
"""Maximum number of estimates that a terminal or a notebook shows."""

_OF_FIGURES = frozenset(
    "bin_low bin_high bin2_low bin2_high value low high "
    "confidence fraction rows rows_read exact".split()
)
"""Columns that the displayed table omits, or combines with others."""


class About(TypedDict):
    """Values that all aggregates of an estimate share."""

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


class _Kept:
    def __init__(self, batch: _kubist.Batch, about: str) -> None:
        self._batch, self._about = batch, about

    def batch(self) -> _kubist.Batch:
        return self._batch

    def about(self) -> str:
        return self._about


def _unpickled(batch: pa.RecordBatch, about: str) -> Estimate:
    return Estimate(_Kept(_kubist.Batch(batch), about))


def _values(batch: _kubist.Batch, place: int, kind: str | None) -> list[Any]:
    values = batch.values(place)
    if kind is None:
        return values
    return [None if text is None else parsed(kind, text) for text in values]


class Estimate:
    """Estimated aggregates, each with a confidence interval.

    The conversions return one row per aggregate and group (and bin). `value`, `low` and `high`
    refer to a single aggregate:

    >>> e = t.estimate("mean(ux)", error=0.01)
    >>> e.value, e.low, e.high
    >>> e.stats.rows_read, e.fraction, e.stopped
    """

    def __init__(self, figures: Figures, origin: _saved.Origin | None = None) -> None:
        self._figures = figures
        self._origin = origin
        self._about: About = json.loads(figures.about())

    def __reduce__(self) -> tuple[Any, ...]:
        pa = need("pyarrow", "a pickled estimate")
        return _unpickled, (pa.record_batch(self._figures.batch()), self._figures.about())

    def to_arrow(self) -> pa.Table:
        """Returns a `pyarrow.Table` with one row per aggregate, group and bin.

        Columns: ``aggregate``; the columns of ``group_by``; for histograms ``bin_low``,
        ``bin_high`` (and ``bin2_low``, ``bin2_high``); ``value``, ``low``, ``high``,
        ``confidence``, ``fraction``, ``rows`` (the rows that contribute), ``rows_read`` (all rows
        examined), ``exact``. Unknown bounds are infinite. But if all aggregates have the same type,
        such as int64 or a timestamp, then ``value``, ``low`` and ``high`` have this type, and
        unknown bounds are null.
        """
        pa = need("pyarrow", "to_arrow()")
        return pa.Table.from_batches([pa.record_batch(self._figures.batch())])

    def to_pandas(self) -> pd.DataFrame:
        """Returns a `pandas.DataFrame` with the rows of `to_arrow`."""
        need("pandas", "to_pandas()")
        return _forms.to_pandas(self.to_arrow(), {})

    def to_polars(self) -> pl.DataFrame:
        """Returns a `polars.DataFrame` with the rows of `to_arrow`."""
        return polars_frame(self._figures.batch(), "to_polars()")

    @property
    def value(self) -> Any:
        """The value of a single aggregate; None if no row contributes.

        Extremes and quantiles, and exact counts and sums, keep all digits of integers, decimals,
        dates and times: an `int`, `decimal.Decimal`, `datetime.date`, `datetime.datetime`,
        `datetime.time`, or `numpy.datetime64` for timestamps in nanoseconds. Other values are
        floats.
        """
        return self._only()["value"]

    @property
    def low(self) -> Any:
        """The lower bound of the interval; if unknown, infinite (None for times)."""
        return self._only()["low"]

    @property
    def high(self) -> Any:
        """The upper bound of the interval; if unknown, infinite (None for times)."""
        return self._only()["high"]

    @property
    def exact(self) -> bool:
        """Whether all values are exact."""
        return all(row["exact"] for row in self._rows())

    @property
    def fraction(self) -> float:
        """The sampled fraction of the identities; extremes and counts may use more rows."""
        return self._about["fraction"]

    @property
    def confidence(self) -> float:
        """The fraction of intervals that contain the true value."""
        return self._about["confidence"]

    @property
    def stopped(self) -> str:
        """The reason why reading stopped.

        One of ``goal``, ``sample``, ``time``, ``rows``, ``bytes``, ``memory``, ``exact``, or
        ``progress`` if a finer estimate follows.
        """
        return self._about["stopped"]

    @property
    def missed_group(self) -> int | None:
        """The maximum number of identities of a group that is missing, at the given confidence.

        None without ``group_by``.
        """
        return self._about["missed_group"]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the estimates: heavy tails, few rows."""
        return self._about["warnings"]

    @property
    def outlook(self) -> str | None:
        """The cost of the goal, which the first progressive estimate predicts from the pilot.

        None if it is small, and in later estimates.
        """
        return self._about["outlook"]

    def to_numpy(self) -> tuple[np.ndarray[Any, Any], ...]:
        """Returns a single histogram as ``(counts, edges)``, or ``(counts, edges_x, edges_y)``.

        It is like ``numpy.histogram`` and ``numpy.histogram2d``, but counts are estimates. The
        first and last edges are the minimum and maximum, or infinite if these are unknown.

        Examples
        --------
        >>> counts, edges = t.estimate("histogram(x, 20, round)").to_numpy()
        """
        from ._histogram import arrays

        return arrays(self._rows())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Returns one dict per row of `to_arrow`; values have the Python types of `value`.

        Examples
        --------
        >>> {row["aggregate"]: row["value"] for row in t.estimate("mean(x), max(x)").to_dicts()}
        """
        return self._rows()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the estimate and its query, so that `recompute` can repeat and compare it.

        Parameters
        ----------
        path
            The file, such as ``"deposition.kubist"``.

        Examples
        --------
        >>> t.estimate("share(deposited)", where="x > 0.1").save("deposition.kubist")
        >>> kubist.recompute("deposition.kubist").same
        True
        """
        _saved.write(path, self._origin, {"fraction": self.fraction, "figures": self._plain()})

    def _plain(self) -> list[dict[str, Any]]:
        left_out = ("rows_read", "fraction", "confidence")
        rows = [{k: v for k, v in row.items() if k not in left_out} for row in self._rows()]
        plain: list[dict[str, Any]] = json.loads(json.dumps(rows, default=str))
        return plain

    @property
    def stats(self) -> Stats:
        """The cost of the estimate."""
        return parse(Stats, json.dumps(self._about["stats"]))

    @property
    def units(self) -> dict[str, str]:
        """The units, by aggregate; aggregates without a unit are left out."""
        return self._about.get("units", {})

    def _rows(self, most: int | None = None) -> list[dict[str, Any]]:
        batch = self._figures.batch()
        names = batch.names()
        columns = [_values(batch, place, kind) for place, kind in enumerate(batch.kinds())]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)][:most]
        for row, own in zip(rows, self._typed(), strict=False):
            if own is not None:
                row["value"], row["low"], row["high"] = own.values()
        return rows

    def _typed(self) -> list[TypedInterval | None]:
        return [None if own is None else TypedInterval(*own) for own in self._about["own"]]

    def _only(self) -> dict[str, Any]:
        rows = self._rows(2)
        if len(rows) != 1:
            count = self._figures.batch().rows()
            raise InvalidInput(f"the estimate has {count} values: use to_dicts() or to_pandas()")
        return rows[0]

    def _table(self) -> tuple[list[str], list[list[str | None]], list[str]]:
        batch = self._figures.batch()
        rows = self._rows(_SHOWN)
        indices = [index for index, name in enumerate(batch.names()) if name not in _OF_FIGURES]
        units = batch.units()
        names = [with_unit(batch.names()[index], units[index]) for index in indices]
        columns = [batch.texts(index, _SHOWN) for index in indices]
        if any("bin_low" in row for row in rows):
            names.append("bin")
            columns.append([self._bin_as_text(row) for row in rows])
        columns.append([self._as_text(r, own) for r, own in zip(rows, self._typed(), strict=False)])
        cells = [list(row) for row in zip(*columns, strict=True)]
        left_out = batch.rows() - len(rows)
        more = f", {left_out:,} more values" if left_out else ""
        stats = self.stats
        about = (
            f"({100 * self.confidence:.4g} % confidence, "
            f"fraction {_kubist.fraction(self.fraction)}, "
            f"{counted(stats.rows_read, 'record read')} in {_kubist.duration(stats.seconds)}{more})"
        )
        notes = list(self.warnings)
        if self.missed_group:
            notes.append(f"groups of up to {counted(self.missed_group, 'record')} may be missing")
        return [*names, "value"], cells, [about, *(f"note: {word}" for word in notes)]

    def _as_text(self, row: dict[str, Any], own: TypedInterval | None) -> str:
        # Only the bins of a histogram have a unit, not the counts.
        unit = None if "bin_low" in row else self.units.get(row["aggregate"])
        if own is not None:
            return own.as_text(row["exact"], unit)
        return _kubist.figure(row["value"], row["low"], row["high"], row["exact"], unit)

    def _bin_as_text(self, row: dict[str, Any]) -> str | None:
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
    # All keys that `Table.estimate` can set in a `QuerySpec` are keys of an `EstimateRequest`.
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
    """``0.01`` or ``"1%"`` are relative errors; ``"0.01 abs"`` or ``"0.1 mm"`` are absolute."""
    if not isinstance(error, str):
        share = _box.finite("error", error)
        if share >= 1:
            percent = f"{100 * share:.6g}"
            raise InvalidInput(
                f"error: {share:g} is a fraction, {percent} % of the value: "
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
        # The engine parses the unit.
        return "absolute", text
    raise InvalidInput(
        "error: expected a fraction such as 0.01 or '1%', or an absolute error such as "
        f"'0.01 abs' or '0.1 mm', not {error!r}"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _aggregates(value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Iterable) or isinstance(listed, (bytes, dict)):
        raise InvalidInput(f"aggregates: expected text like 'mean(x)', not {value!r}")
    listed = list(listed)
    for text in listed:
        if not isinstance(text, str):
            raise InvalidInput(f"aggregates: expected text like 'mean(x)', not {text!r}")
    return listed
