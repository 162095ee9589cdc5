"""Queries and estimates of tables and snapshots, here and over HTTP.

Arguments become one `QuerySpec` (`kubist._spec`) as JSON, which the engine in this process and
servers read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from . import _box, _estimate, _extent, _kubist, _saved
from ._asked import Region, Rest
from ._async import materialized
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

    from ._arguments import AnyRegion, Box, Relation, Seconds, Steps
    from ._asked import Asked
    from ._scan import Source
    from ._spec import QuerySpec


_ESTIMATE_OPTIONS = ["aggregates", "box", "group_by", *Goal.__annotations__, "progressive"]


class Queries:
    """Queries and estimates of a table or a snapshot."""

    _known_extent: _extent.Extent | None = None

    def _pinned(self) -> Pinned:
        raise NotImplementedError

    def _asked(self, question: QuerySpec) -> tuple[Pinned, _kubist.Stream]:
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
    def period(self) -> dict[str, float | tuple[float, float]]:
        """The periods of columns: the length, or the interval of the values, as in `create`."""
        return _box.of_periods(self._about().period)

    @property
    def sphere(self) -> tuple[str, str] | None:
        """The columns of longitude and latitude of positions on a sphere, if declared."""
        return _box.sphere(self._about().sphere)

    @property
    def units(self) -> dict[str, str]:
        """The units, by column; columns without a unit are not in it."""
        columns = json.loads(self._pinned().columns())
        return {column["name"]: column["unit"] for column in columns if column["unit"] is not None}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the table."""
        metadata: dict[str, Any] = json.loads(self._pinned().metadata())
        return metadata

    @checked_options(Rest)
    def query(self, box: Box | None = None, **asked: Unpack[Rest]) -> Result:
        """Returns the rows of a region: all, or a uniform sample.

        Every row has a fixed priority, uniform in [0, 1) and independent of its values. A sample
        is the set of rows below a priority, so samples are nested, equal on every machine, and
        commute with filters.

        Parameters
        ----------
        box
            Closed ranges by column, joined by AND: ``{"x": (0.1, 0.2), "time": (0.5, None)}``.
            None leaves a bound open; a single value is both bounds: ``{"pid": 7}``. Bounds are
            numbers, dates, times, text or bytes, compared in the column's own type, or text with a
            unit for a column that has one: ``{"x": ("1 cm", "2 cm")}``. Columns that are no
            dimensions act as a filter. NaN and null are in no range that has a bound.
        sample
            A uniform sample: a fraction in (0, 1], or text such as ``"1%"``. It has the rows with a
            priority below the fraction.
        window
            ``(low, high)``: the rows with low <= priority < high. Windows that do not overlap are
            independent samples.
        limit
            The maximum number of rows, after ``sample``, ``window`` and ``per_cell``. With
            ``order_by``, the first rows in that order. Without it, the rows of lowest priority in
            ascending order, which are a uniform sample of that size.
        columns
            The columns and expressions to return, in this order; None: all columns. ``AS`` names an
            expression: ``["pid", "sqrt(ux*ux + uy*uy) AS speed"]``; without it, the name is the
            text of the expression. ``"*"`` stands for all columns.
        where
            A condition in SQL over any columns: ``"diameter > 2e-5 AND NOT deposited"``, with
            comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL and arithmetic. Null and NaN
            match no comparison. A literal takes the column's type, and may have a unit:
            ``"diameter > 20um"``. Column names ignore letter case, here and in all parameters.
        region
            A region of `kubist.region`, or its JSON: ``region.sphere((0, 0, 0), 2)``, other shapes
            in space or on the sky, and their unions, intersections and differences
            (docs/regions.md). Rows on a boundary are inside.
        relation
            For tables with an ``extent`` (`kubist.create`), which objects ``box`` and ``region``
            select: those whose bounding box touches them (``"touches"``, the default), those
            ``"inside"`` them, or those whose position is in them (``"centre"``).
        per_cell
            ``(rows, {"x": width, "y": width})``: the rows of lowest priority in each cell of a
            regular grid, for a view that stays even and does not flicker when it pans. A width is a
            number in the column's unit, or text with a unit, such as ``"1 mm"``. The grid starts
            at the low end of the domain, not of the box, with at most 9e18 cells up to a row.
        steps
            A step, or a closed range ``(first, last)`` with None for an open end. Only complete
            steps, which every declared writer has finished, are returned. None: the rows of every
            commit, also of incomplete steps.
        inclusion
            The name of an additional last column: the probability that the row is in the result, so
            ``sum(x / p)`` estimates the sum over all matching rows. It is the fraction that
            ``sample`` and ``window`` leave. With ``limit`` and ``per_cell`` it is the priority of
            the first row left out (of the table, of the cell). It is null where only some of
            several rows of equal priority are in the result; leave those out of estimates. It is
            not available together with ``order_by`` and ``limit``.
        order_by
            The order of the result: columns or expressions, in a list or separated by commas, each
            with ``asc`` (the default) or ``desc``; or ``"priority"``. Names in ``columns`` come
            before columns of the table. Quote a name that contains a comma. NaN follows all numbers
            and null follows NaN, in both directions. Text is compared byte by byte. Priority
            orders equal rows, so the order is the same on every machine. A sort that exceeds
            memory uses a scratch file in ``TMPDIR``. By default ``limit`` and ``per_cell`` order by
            priority; otherwise the order is unspecified.

        Returns
        -------
        Result
            The result, which is read on conversion or iteration.

        Raises
        ------
        InvalidInput
            An unknown name, a value that does not compare with its column, a fraction outside (0,
            1], a syntax error.

        Examples
        --------
        >>> r = t.query(box={"x": (0.1, 0.2)}, sample=0.01, where="diameter > 2e-5")
        >>> r.to_pandas()
        >>> r.stats.rows_read
        """
        question = self._question(box=box, **asked)
        pinned, stream = self._asked(question)
        origin = _saved.origin(pinned, "query", question)
        return Result(stream, lambda: pinned.query(question), pinned.metadata, origin)

    @checked_options(Rest)
    def scan(
        self,
        box: Box | None = None,
        *,
        on_result: Callable[[Result], object] | None = None,
        **asked: Unpack[Rest],
    ) -> pl.LazyFrame:
        """Returns the rows as a Polars lazy frame, also for SQL.

        Only the columns and rows that Polars needs are read, in bounded memory. A range of a
        dimension in a filter or in WHERE prunes like ``box``. Filters keep their meaning in Polars.
        The frame always reads the snapshot of this call.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            As for `query`. With ``limit`` or ``per_cell``, only columns are pushed down.
        on_result
            Called with each `Result` before the frame reads it; its ``stats`` later show the cost.

        Raises
        ------
        InvalidInput
            As for `query`, by this call.

        Examples
        --------
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
        """Returns the rows as a `pyarrow.dataset.Dataset`, which DuckDB and others read.

        Columns and conditions that the reader pushes down prune the query. DuckDB does not push
        down lower bounds of float columns: pass those as ``box``. The dataset always reads the
        snapshot of this call.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            As for `scan`.
        on_result
            As for `scan`.

        Raises
        ------
        InvalidInput
            As for `query`, by this call.

        Examples
        --------
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
        by: str | Sequence[str] | None = None,
        where: str | None = None,
        region: AnyRegion | None = None,
        window: tuple[float, float] | None = None,
        steps: Steps | None = None,
        relation: Relation | None = None,
        columns: Sequence[str] | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
    ) -> Result:
        """Returns all rows of every trajectory that passes through a region.

        It finds the values of ``by`` in the rows that ``box``, ``where``, ``region``, ``window``
        and ``steps`` select, and returns every row with one of these values, from one snapshot.
        Without a secondary index of ``by`` it scans all rows.

        Parameters
        ----------
        box, where, region, relation, window, steps
            The region, as for `query`.
        by
            The column that identifies a trajectory, also as a list of one. None: the table's
            identity, or else its secondary index, if it is a single column.
        columns
            The columns to return.
        sample, limit, order_by
            For the returned rows, as for `query`. The default order is by trajectory and time:
            ``by``, the other identity columns if it is one of them, the first column of times, and
            the identity.

        Raises
        ------
        InvalidInput
            ``by`` has several columns, or it is missing, and neither the identity nor the
            secondary index is a single column.

        Examples
        --------
        >>> r = t.trajectories(box={"z": (None, 0.01)}, by="pid")
        >>> paths = r.to_pandas()
        """
        pinned = self._pinned()
        if by is None:
            by = self._by(pinned)
        else:
            by = _one_column(by)
        through = self._question(
            box=box, where=where, region=region, window=window, steps=steps, relation=relation
        )
        question = self._question(columns=columns, sample=sample, limit=limit, order_by=order_by)

        def ask() -> _kubist.Stream:
            return pinned.trajectories(through, by, question)

        asked = {"through": through, "by": by, "query": question}
        return Result(ask(), ask, pinned.metadata, _saved.origin(pinned, "trajectories", asked))

    @staticmethod
    def _by(pinned: Pinned) -> str:
        about = About.parse(pinned.about())
        for candidates in (about.identity, about.lookup):
            if len(candidates) == 1:
                return candidates[0]
        raise InvalidInput(
            f"by: name the column that identifies trajectories; the identity is {about.identity}"
        )

    def _source(self, asked: Asked, on_result: Callable[[Result], object] | None) -> Source:
        from ._scan import Source

        return Source(self._pinned(), self._question, asked, on_result)

    @checked_options()
    def refine(
        self,
        box: Box | None = None,
        *,
        where: str | None = None,
        region: AnyRegion | None = None,
        relation: Relation | None = None,
        steps: Steps | None = None,
        columns: Sequence[str] | None = None,
        start: float = 0.001,
        factor: float = 8,
    ) -> Iterator[Result]:
        """Yields results from coarse to fine; each row comes once.

        The first result has the rows with a priority below ``start``, the next those from
        ``start`` to ``start * factor``, and so on up to all rows. After a result ``r``, the rows so
        far are a uniform sample of the fraction ``r.fraction``.

        Parameters
        ----------
        box, where, region, relation, steps, columns
            As for `query`.
        start
            The first fraction, in (0, 1], at least 2**-64.
        factor
            The ratio of successive fractions, above 1. At most 10,000 results.

        Raises
        ------
        InvalidInput
            As for `query`; ``start`` or ``factor`` is out of range.

        Examples
        --------
        >>> seen = []
        >>> for r in t.refine(box={"x": (0.1, 0.2)}):
        ...     seen.append(r.to_arrow())
        ...     draw(seen, label=f"{r.fraction:.1%}")
        """
        question = self._question(
            box=box, where=where, region=region, relation=relation, steps=steps, columns=columns
        )
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
        region: AnyRegion | None = None,
        group_by: str | Sequence[str] | None = None,
        error: float | str | None = None,
        within: Seconds | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        sample: float | str | None = None,
        window: tuple[float, float] | None = None,
        steps: Steps | None = None,
        relation: Relation | None = None,
        confidence: float = 0.95,
        tails: float | None = None,
        progressive: bool = False,
        **unknown: object,
    ) -> Estimate | Iterator[Estimate]:
        """Estimates aggregates from a sample, each with a confidence interval.

        A small pilot sample determines how many rows the goal needs. An aggregate is marked exact
        if all its rows were read. Null and NaN are missing values.

        Parameters
        ----------
        aggregates
            One or several of ``count() count(x) sum(x) mean(x) variance(x) std(x) min(x) max(x)
            median(x) p95(x) quantile(x, 0.95) share(condition) ratio(a, b) cov(x, y) corr(x, y)
            weighted_mean(v, w) count_distinct(x) histogram(x, 20) histogram(x, 20, low, high)
            histogram2d(x, y, 64, 64)``; a histogram may end in ``log`` or ``round``. Arguments are
            columns or expressions: ``mean(sqrt(ux*ux + uy*uy))``; a condition counts as 1 or 0.
            Sums, counts, means and shares combine: ``sum(a*b)/sum(b)``. ``ratio`` is the sum of a
            over the sum of b. Variances divide by n - 1. ``AS`` names an aggregate in the result:
            ``"mean(ux) AS m"``.
        box, where, region, relation, steps
            The rows to estimate, as for `query`.
        window
            The priorities that the sample may use; the result still refers to all rows.
        group_by
            Columns and expressions to group by, such as ``bin(diameter, 1e-6) AS size``. At most
            10,000 groups.
        error
            Stop when half of every interval is at most this fraction of its value: 0.01 or
            ``"1%"``. For values near 0, an absolute error: ``"0.01 abs"`` in the value's unit, or
            ``"0.1 mm"``. A `UserWarning` announces a goal that needs many rows.
        within
            The time limit, with the best interval by then: seconds, text such as ``"500 ms"``, or
            a `datetime.timedelta`.
        max_rows, max_bytes
            Read about this many rows or bytes at most.
        sample
            Read at most the rows with a priority below this fraction. Without a limit or a goal,
            the goal is ``error=0.01``.
        confidence
            The fraction of intervals that contain the true value.
        tails
            Read this fraction of the rows at both ends of the values completely (0.005, say),
            which removes the sampling error of heavy tails. For sums, means, ratios and variances
            of columns.
        progressive
            Return an iterator of estimates that narrow; each row is read once. The intervals are
            wider, so that all hold together and you can stop at any time.

        Returns
        -------
        Estimate
            The estimate; with ``progressive``, an iterator of estimates.

        Raises
        ------
        InvalidInput
            An unknown aggregate or column, text instead of a number, a goal that is not above 0,
            more than 10,000 groups.

        Examples
        --------
        >>> t.estimate("mean(ux)", box={"x": (0.1, 0.2)}, error=0.01)
        >>> e = t.estimate(["mean(ux)", "p95(diameter)"], group_by="deposited", within=0.5)
        >>> e.to_pandas()
        >>> for e in t.estimate("sum(mass)", progressive=True):
        ...     print(e.value, e.low, e.high)
        """
        # Not the decorator: its frame would shift the `stacklevel` of warnings.
        refuse_unknown("estimate", unknown, _ESTIMATE_OPTIONS)
        question = self._question(
            box=box,
            where=where,
            region=region,
            relation=relation,
            sample=sample,
            window=window,
            steps=steps,
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
        pinned = self._pinned()
        if progressive:
            return _estimate.steps(pinned.estimates(request))
        return Estimate(pinned.estimate(request), _saved.origin(pinned, "estimate", request))

    @checked_options(Rest)
    async def aquery(self, box: Box | None = None, **asked: Unpack[Rest]) -> Result:
        """Awaits the result of a query, which is then in memory.

        The event loop continues while the engine works; cancelling the task stops the query.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            As for `query`.

        Raises
        ------
        InvalidInput
            As for `query`.

        Examples
        --------
        >>> near, far = await asyncio.gather(
        ...     t.aquery(box={"x": (0.0, 0.1)}), t.aquery(box={"x": (0.9, 1.0)})
        ... )
        >>> near.to_numpy()
        """
        return await materialized(lambda: self.query(box, **asked))

    @checked_options(Region)
    def count(self, box: Box | None = None, **asked: Unpack[Region]) -> int:
        """Returns the exact number of rows that `query` would return.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps
            As for `query`.

        Raises
        ------
        InvalidInput
            As for `query`.
        """
        return self._pinned().count(self._question(box=box, **asked))

    def info(self) -> Info:
        """Returns the contents and layout of the table, and advice if they do not fit its use.

        The use is known if ``KUBIST_RECORD`` names a file of recorded queries (docs/workloads.md).
        """
        return Info.parse(self._pinned().info())

    def _about(self) -> About:
        return About.parse(self._pinned().about())

    def __len__(self) -> int:
        return self._pinned().rows()

    def __bool__(self) -> bool:
        return True  # otherwise an empty table would be false

    def _extent_of(self) -> _extent.Extent:
        """The extent of the objects, which is fixed at creation."""
        if self._known_extent is None:
            self._known_extent = _extent.stored(self.metadata)
        return self._known_extent

    def _question(self, **asked: Unpack[Asked]) -> QuerySpec:
        relation = asked.pop("relation", None)
        selects = asked.get("box") is not None or asked.get("region") is not None
        if selects or relation is not None:
            extent = self._extent_of()
            own = _extent.relation(relation, extent)
            if extent:
                related = _extent.related(cast("dict[str, Any]", asked), extent, own)
                asked = cast("Asked", related)
        return _box.spec(lambda: self.schema, asked)


def _one_column(by: str | Sequence[str]) -> str:
    columns = [by] if isinstance(by, str) else _box.names("by", by)
    if len(columns) == 1:
        return columns[0]
    raise InvalidInput(
        f"by: {', '.join(columns) or 'no column'}: trajectories() takes one column. Give the one "
        f"with the most values, and group the returned rows by all columns to separate the paths"
    )


def _results(pinned: Pinned, question: QuerySpec, start: float, factor: float) -> Iterator[Result]:
    """The results of a refinement; each can be read again as a window of priorities."""
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
