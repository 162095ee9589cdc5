"""What can be asked of a table and of a snapshot alike, here and over HTTP.

Arguments are checked for shape and become one question in the words of JSON
(`kubist._spec`), which the engine in this process and a server read alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from . import _box, _estimate, _kubist
from ._asked import Region, Rest
from ._errors import InvalidInput
from ._estimate import Estimate
from ._figures import About, Info
from ._goal import Goal
from ._libraries import need
from ._options import checked_options, refuse_unknown
from ._pinned import Pinned
from ._result import Result

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset

    from ._arguments import Box, Seconds, Steps
    from ._asked import Asked
    from ._scan import Source
    from ._spec import QuerySpec


_ESTIMATE_OPTIONS = ["aggregates", "box", "group_by", *Goal.__annotations__, "progressive"]


class Questions:
    """What can be asked of a table and of a snapshot alike."""

    def _pinned(self) -> Pinned:
        raise NotImplementedError

    def _asked(self, question: QuerySpec) -> tuple[Pinned, _kubist.Stream]:
        """The answer to a question, and the snapshot that it is of."""
        pinned = self._pinned()
        return pinned, pinned.query(question)

    @property
    def schema(self) -> pa.Schema:
        """The columns, as a `pyarrow.Schema`."""
        return need("pyarrow", "schema").schema(self._pinned().schema())

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column["name"] for column in json.loads(self._pinned().columns())]

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one."""
        columns = json.loads(self._pinned().columns())
        return {column["name"]: column["unit"] for column in columns if column["unit"] is not None}

    @property
    def metadata(self) -> dict[str, Any]:
        """The table's metadata."""
        metadata: dict[str, Any] = json.loads(self._pinned().metadata())
        return metadata

    @checked_options(Rest)
    def query(self, box: Box | None = None, **asked: Unpack[Rest]) -> Result:
        """Asks for records: of any region, all or a sample.

        Every record has a fixed priority, uniform in [0, 1) and independent of
        its values. A sample is the records below some priority: so samples are
        nested, the same on every machine, and sampling then filtering equals
        filtering then sampling.

        Args:
            box: Closed ranges ``{"x": (0.1, 0.2), "time": (0.5, None)}``, all of
                which must hold; None leaves an end open, and a single value is both
                ends: ``{"pid": 7}``. Ends are numbers, dates, times, text, bytes,
                compared in the column's own type; where the column has a unit also
                text with one: ``{"x": ("1 cm", "2 cm")}``. Columns
                that are no dimensions work too, as a filter. NaN and null are in
                no range that has an end.
            sample: A fraction in (0, 1], or text as ``"1%"``: the records with a priority below
                it, a uniform sample of that fraction.
            window: ``(lo, hi)``: the records with lo <= priority < hi. Windows
                that do not overlap are independent samples.
            limit: At most this many records. With ``order_by`` they are the first in that
                order: ``order_by="diameter desc", limit=10`` are the ten largest. Without it
                they are those of lowest priority, in ascending order: a uniform sample of that
                size. ``sample``, ``window`` and ``per_cell`` choose before it.
            columns: The columns to return, in this order; None: all.
            where: An SQL condition over any columns, as
                ``"diameter > 2e-5 AND NOT deposited"``: comparisons, AND, OR, NOT,
                IN, BETWEEN, LIKE, IS NULL, arithmetic. As in SQL, null (and NaN)
                match no comparison. Literals adopt the column's type; where it has
                a unit they may have another: ``"diameter > 20um"``. Names of
                columns are found ignoring letter case here and everywhere.
            per_cell: ``(records, {"x": width, "y": width})``: the records of lowest
                priority in each cell of a regular grid of that width, for a view
                that stays even and does not flicker while it pans. A width is a number,
                or text with a unit, as ``"1 mm"``. The grid is fixed to the domain, not to the
                box. A width of which more than 9e18 lie between the domain's low end and a
                record is refused.
            steps: A step, or a closed range ``(first, last)`` with None for an
                open end: only records of these steps, and of those only the ones
                that every declared writer has finished.
            inclusion: The name of one more column, behind the others: the probability
                with which each record came into the answer. ``sum(x / p)`` estimates the
                sum over all matching records. It is the fraction that ``sample`` and
                ``window`` leave; under ``limit`` and ``per_cell`` up to the first record
                left out (of all, of its cell), and null where only some of several
                records of that very priority are in: they have no part in an estimate.
                The first records of an order have none.
            order_by: The order of the answer: a column or several, in a list or between
                commas, each with ``asc`` (the default) or ``desc`` behind it, or
                ``"priority"``. A name with a comma stands in quotes between commas. NaN comes
                behind all numbers and null behind NaN, in both directions; text is compared
                byte by byte. Equal records follow each other by priority: the order is the same on
                every machine. What does not fit into memory is sorted in a scratch file in
                the folder for temporary files (``TMPDIR``). Without ``order_by`` records
                come as they are stored, in no order that can be relied on; under ``limit``
                and ``per_cell`` in ascending order of priority.

        Returns:
            The answer, not yet read: see `Result`.

        Raises:
            InvalidInput: An unknown name, a value that the column cannot be
                compared with, a fraction outside (0, 1], a syntax error.

        Example:
            >>> r = t.query(box={"x": (0.1, 0.2)}, sample=0.01, where="diameter > 2e-5")
            >>> r.to_pandas()
            >>> r.stats.rows_read
        """
        question = self._question(box=box, **asked)
        pinned, stream = self._asked(question)
        return Result(stream, lambda: pinned.query(question), pinned.metadata)

    @checked_options(Rest)
    def scan(
        self,
        box: Box | None = None,
        *,
        on_result: Callable[[Result], object] | None = None,
        **asked: Unpack[Rest],
    ) -> pl.LazyFrame:
        """The records as a Polars lazy frame, also for SQL.

        Polars says which columns it needs, which records, and how many: only these are
        read, in bounded memory. A range of a dimension in a filter or in WHERE prunes
        as ``box`` does. Filters mean what they mean in Polars. The frame is of the
        moment of this call, however often it is collected.

        Args:
            box, where, sample, window, steps, columns, inclusion, limit, order_by, per_cell:
                As for `query`. After ``limit`` and ``per_cell`` nothing can be pushed down but
                columns.
            on_result: Called with each `Result` before the frame reads it; its ``stats``
                say afterwards what it cost.

        Raises:
            InvalidInput: As for `query`, at once.

        Example:
            >>> droplets = t.scan(sample=0.1, inclusion="p")
            >>> pl.SQLContext(droplets=droplets).execute(
            ...     "SELECT deposited, sum(1 / p) FROM droplets WHERE x < 0.2 GROUP BY deposited"
            ... ).collect()
        """
        from ._scan import lazy_frame

        return lazy_frame(self._source({"box": box, **asked}, on_result))

    @checked_options(Rest)
    def to_dataset(
        self,
        box: Box | None = None,
        *,
        on_result: Callable[[Result], object] | None = None,
        **asked: Unpack[Rest],
    ) -> pa.dataset.Dataset:
        """The records as a `pyarrow.dataset.Dataset`, for DuckDB and whatever reads such.

        Columns and conditions that the reader hands over prune the query. DuckDB hands
        over everything but lower ends of float columns: give those as ``box``. It is of
        the moment of this call, and can be scanned any number of times.

        Args:
            box, where, sample, window, steps, columns, inclusion, limit, order_by, per_cell,
                on_result: As for `scan`.

        Raises:
            InvalidInput: As for `query`, at once.

        Example:
            >>> droplets = t.to_dataset(box={"x": (0.1, 0.2)})
            >>> duckdb.sql("SELECT deposited, count(*) FROM droplets WHERE pid < 99 GROUP BY 1")
        """
        need("pyarrow", "to_dataset()")
        from ._dataset import Dataset

        return Dataset(self._source({"box": box, **asked}, on_result))

    @checked_options()
    def trajectories(
        self,
        box: Box | None = None,
        *,
        by: str | None = None,
        where: str | None = None,
        window: tuple[float, float] | None = None,
        steps: Steps | None = None,
        columns: Sequence[str] | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
    ) -> Result:
        """All records of whatever has a record in a region: the paths that lead through it.

        Finds the values of ``by`` among the records that ``box``, ``where``, ``window`` and
        ``steps`` select, and returns every record that holds one of them, wherever it is, of one
        moment. A lookup of that column is used; without one all records are scanned.

        Args:
            box, where, window, steps: The region, as for `query`.
            by: The column that tells trajectories apart. None: the table's identity, or
                else its lookup, if that is one column.
            columns: The columns to return.
            sample, limit, order_by: Of the records that come back, as for `query`.
                Without ``order_by`` one path comes after the other, each in order of time:
                by ``by``, the rest of an identity that has it, the first column of times,
                and the identity if it is each record's own.

        Raises:
            InvalidInput: ``by`` is not given, and there is not one column that it could be.

        Example:
            >>> r = t.trajectories(box={"z": (None, 0.01)}, by="pid")
            >>> paths = r.to_pandas()
        """
        pinned = self._pinned()
        if by is None:
            by = self._by(pinned)
        elif not isinstance(by, str):
            raise InvalidInput(f"by: {by!r} is not a column name")
        through = self._question(box=box, where=where, window=window, steps=steps)
        question = self._question(columns=columns, sample=sample, limit=limit, order_by=order_by)

        def ask() -> _kubist.Stream:
            return pinned.trajectories(through, by, question)

        return Result(ask(), ask, pinned.metadata)

    @staticmethod
    def _by(pinned: Pinned) -> str:
        about = About.parse(pinned.about())
        for candidates in (about.identity, about.lookup):
            if len(candidates) == 1:
                return candidates[0]
        raise InvalidInput(
            f"by: say which column tells trajectories apart; the identity is {about.identity}"
        )

    def _source(self, asked: Asked, on_result: Callable[[Result], object] | None) -> Source:
        """For `scan` and `to_dataset`, from their arguments."""
        from ._scan import Source

        return Source(self._pinned(), self._question, asked, on_result)

    @checked_options()
    def refine(
        self,
        box: Box | None = None,
        *,
        where: str | None = None,
        steps: Steps | None = None,
        columns: Sequence[str] | None = None,
        start: float = 0.001,
        factor: float = 8,
    ) -> Iterator[Result]:
        """Answers from coarse to fine; each record comes once.

        The first result holds the records with a priority below ``start``, the
        next those from there to ``start * factor``, and so on up to all of them.
        What has come at any moment is a uniform sample, of the fraction
        ``r.fraction`` of the latest result.

        Args:
            box, where, steps, columns: As for `query`.
            start: The first fraction, in (0, 1], at least 2**-64.
            factor: How much finer each step is, above 1. More than 10,000 steps are refused.

        Raises:
            InvalidInput: As for `query`; ``start`` or ``factor`` outside of its range.

        Example:
            >>> seen = []
            >>> for r in t.refine(box={"x": (0.1, 0.2)}):
            ...     seen.append(r.to_arrow())
            ...     draw(seen, label=f"{r.fraction:.1%}")
        """
        question = self._question(box=box, where=where, steps=steps, columns=columns)
        first, growth = _box.number("start", start), _box.number("factor", factor)
        pinned = self._pinned()
        return _results(pinned, question, first, growth)

    @overload
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        box: Box | None = None,
        group_by: str | Sequence[str] | None = None,
        progressive: Literal[False] = False,
        **goal: Unpack[Goal],
    ) -> Estimate: ...
    @overload
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        box: Box | None = None,
        group_by: str | Sequence[str] | None = None,
        progressive: Literal[True],
        **goal: Unpack[Goal],
    ) -> Iterator[Estimate]: ...
    def estimate(
        self,
        aggregates: str | Sequence[str],
        *,
        box: Box | None = None,
        where: str | None = None,
        group_by: str | Sequence[str] | None = None,
        error: float | str | None = None,
        within: Seconds | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        sample: float | str | None = None,
        window: tuple[float, float] | None = None,
        steps: Steps | None = None,
        confidence: float = 0.95,
        tails: float | None = None,
        progressive: bool = False,
        **unknown: object,
    ) -> Estimate | Iterator[Estimate]:
        """Aggregates of a sample, each with an interval that holds the truth as often as it says.

        Reads as little as the goal needs: a small pilot says how far to go. What is read
        completely is exact, and marked as exact. Null and NaN are missing values: no aggregate
        counts them.

        Args:
            aggregates: One or several of ``count() count(x) sum(x) mean(x) variance(x)
                std(x) min(x) max(x) median(x) p95(x) quantile(x, 0.95) share(condition)
                ratio(a, b) cov(x, y) corr(x, y) weighted_mean(v, w) count_distinct(x)
                histogram(x, 20) histogram(x, 20, low, high) histogram2d(x, y, 64, 64)``,
                histograms with ``log`` or ``round`` as last arguments.
                Arguments are columns or expressions over them, as ``mean(sqrt(ux*ux + uy*uy))``; a
                condition counts as 1 or 0. Sums, counts, means and shares can be combined, as
                ``sum(a*b)/sum(b)``. ``ratio`` is the sum of a over the sum of b, variances
                divide by n - 1.
            box, where, steps: Of which records: as for `query`.
            window: From which priorities the sample comes; figures are of all records.
            group_by: Columns and expressions by whose values records are grouped, such as
                ``bin(diameter, 1e-6)``, up to 10,000 groups.
            error: Stop when half of each interval is at most this share of its value: 0.01 or
                ``"1%"``; or this much: ``"0.01 abs"`` in the value's unit, or with a unit,
                as ``"0.1 mm"``, for values that may be 0, of which no error is a small share.
                If the pilot expects that the goal takes much reading, a `UserWarning` says so
                while it is read.
            within: Answer within this time, with the best interval reached: seconds, text as
                ``"500 ms"``, or a `datetime.timedelta`.
            max_rows: Read about this many records at most.
            max_bytes: Read about this many bytes at most.
            sample: Read the records with a priority below it at most. Without any of
                these the goal is ``error=0.01``.
            confidence: How often the intervals hold the truth.
            tails: Read this share of the records at either end of the values whatever
                their priority (0.005, say), so that a heavy tail adds no chance. For sums,
                means, ratios and variances of columns.
            progressive: Iterate over estimates as they narrow, each record read once.
                Their intervals are wider, so that all of them hold together: stop
                whenever you like.

        Returns:
            An `Estimate`; with ``progressive`` an iterator of them.

        Raises:
            InvalidInput: An unknown aggregate or column, text where a number is needed, a
                goal that is not above 0, more than 10,000 groups.

        Example:
            >>> t.estimate("mean(ux)", box={"x": (0.1, 0.2)}, error=0.01)
            >>> e = t.estimate(["mean(ux)", "p95(diameter)"], group_by="deposited", within=0.5)
            >>> e.to_pandas()
            >>> for e in t.estimate("sum(mass)", progressive=True):
            ...     print(e.value, e.low, e.high)
        """
        # Not by the decorator: warnings name the line that stands above this call.
        refuse_unknown("estimate", unknown, _ESTIMATE_OPTIONS)
        question = self._question(
            box=box, where=where, sample=sample, window=window, steps=steps
        )
        request = _estimate.request(
            question,
            aggregates,
            group_by,
            error=error,
            within=within,
            max_rows=max_rows,
            max_bytes=max_bytes,
            confidence=confidence,
            tails=tails,
        )
        if progressive:
            return _estimate.steps(self._pinned().estimates(request))
        return Estimate(self._pinned().estimate(request))

    @checked_options(Region)
    def count(self, box: Box | None = None, **asked: Unpack[Region]) -> int:
        """The exact number of records that `query` would return for these arguments.

        Args:
            box, where, sample, window, steps: As for `query`.

        Raises:
            InvalidInput: As for `query`.
        """
        return self._pinned().count(self._question(box=box, **asked))

    def info(self) -> Info:
        """What the table holds and how it is laid out."""
        return Info.parse(self._pinned().info())

    def _about(self) -> About:
        return About.parse(self._pinned().about())

    def __len__(self) -> int:
        return self._pinned().rows()

    def __bool__(self) -> bool:
        return True  # a handle is something, also while the table is empty

    def _question(self, **asked: Unpack[Asked]) -> QuerySpec:
        return _box.spec(lambda: self.schema, asked)


def _results(pinned: Pinned, question: QuerySpec, start: float, factor: float) -> Iterator[Result]:
    """The steps of a refinement, each of which can be read again as a window of priorities."""
    steps = pinned.refine(question, start, factor)

    def later(low: float, high: float) -> Callable[[], _kubist.Stream]:
        step = cast("QuerySpec", {**question, "window": (low, high)})
        return lambda: pinned.query(step)

    def results() -> Iterator[Result]:
        low, high = 0.0, start
        while (stream := steps.next_step()) is not None:
            yield Result(stream, later(low, high), pinned.metadata)
            low, high = high, min(1.0, high * factor)

    return results()
