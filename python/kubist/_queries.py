"""Queries and estimates of tables and snapshots, local and over HTTP.

Arguments become a `QuerySpec` (`kubist._spec`), which the engine and servers read as JSON.
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
        """The columns of longitude and latitude on a sphere, if the table declares them."""
        return _box.sphere(self._about().sphere)

    @property
    def units(self) -> dict[str, str]:
        """The units, by column; columns without a unit are left out."""
        columns = json.loads(self._pinned().columns())
        return {column["name"]: column["unit"] for column in columns if column["unit"] is not None}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the table."""
        metadata: dict[str, Any] = json.loads(self._pinned().metadata())
        return metadata

    @checked_options(Rest)
    def query(self, box: Box | None = None, **asked: Unpack[Rest]) -> Result:
        """Returns all rows of a region, or a uniform sample of them.

        Every row has a fixed random priority, uniform in [0, 1) and independent of its values. A
        sample is the set of rows below a priority. So a larger sample contains the smaller ones,
        samples are equal on every machine, and a filtered sample is a sample of the filtered rows.

        Parameters
        ----------
        box
            Closed ranges by column, joined by AND: ``{"x": (0.1, 0.2), "time": (0.5, None)}``.
            None leaves a bound open; a single value is both bounds: ``{"pid": 7}``. Bounds are
            numbers, dates, times, text or bytes, compared in the column's own type. Columns with a
            unit also accept text with a unit: ``{"x": ("1 cm", "2 cm")}``. A column that is not a
            dimension acts as a filter. NaN and null are in no range that has a bound.
        sample
            A uniform sample: a fraction in (0, 1], or text such as ``"1%"``. It has the rows with a
            priority below the fraction.
        window
            ``(low, high)``: the rows with low <= priority < high. Windows that do not overlap are
            independent samples.
        limit
            The maximum number of rows, applied after ``sample``, ``window`` and ``per_cell``. With
            ``order_by``, the first rows in that order. Without it, the rows of lowest priority,
            which are a uniform sample of that size.
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
            For tables with an ``extent`` (`kubist.create`): whether ``box`` and ``region`` select
            objects whose bounding box touches them (``"touches"``, the default) or is completely
            inside (``"inside"``), or objects whose position is inside (``"centre"``).
        per_cell
            ``(rows, {"x": width, "y": width})``: at most ``rows`` rows in each cell of a regular
            grid, those of lowest priority. A view then has an even density and does not flicker
            when it moves. A width is a number in the column's unit, or text with a unit, such as
            ``"1 mm"``. The grid starts at the lower bound of the domain, not of the box, and every
            row must be within 9e18 cells of it.
        steps
            A step, or a closed range ``(first, last)`` with None for an open bound. Returns only
            rows of complete steps, which every declared writer has finished. None: the rows of all
            commits, also of incomplete steps.
        inclusion
            The name of an additional last column: the probability p that the row is in the result,
            so ``sum(x / p)`` estimates the sum over all matching rows. It is the fraction that
            ``sample`` and ``window`` select. With ``limit``, it is the priority of the first row
            that was left out; with ``per_cell``, of the first in the same cell. It is null for rows
            of equal priority if the result has only some; exclude these rows from estimates. It is
            not available together with ``order_by`` and ``limit``.
        order_by
            The order of the result: columns or expressions, in a list or separated by commas, each
            with ``asc`` (the default) or ``desc``; or ``"priority"``. A name that ``columns``
            defines has precedence over a column of the table. Quote a name that contains a comma.
            NaN follows all numbers and null follows NaN, in both directions. Text is compared byte
            by byte. Equal rows are in order of priority, so the order is the same on every machine.
            A sort that exceeds memory uses a scratch file in ``TMPDIR``. By default, ``limit`` and
            ``per_cell`` order by priority; otherwise the order is unspecified.

        Returns
        -------
        Result
            The result; conversion or iteration reads the rows.

        Raises
        ------
        InvalidInput
            A name is unknown, a value cannot be compared with its column, a fraction is outside
            (0, 1], or the syntax is wrong.

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
        """Returns the rows as a Polars lazy frame, also for SQL in Polars.

        It reads only the columns and rows that Polars needs, in bounded memory. A range of a
        dimension in a filter or in WHERE prunes like ``box``. The results are equal to a filter in
        Polars itself. The frame always reads the snapshot of this call.

        Parameters
        ----------
        box, where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            As for `query`. After ``limit`` or ``per_cell``, only Polars applies its filters.
        on_result
            Called with each `Result` before the frame reads it. Its ``stats`` show the cost after
            that.

        Raises
        ------
        InvalidInput
            As for `query`, and raised by this call.

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
        """Returns the rows as a `pyarrow.dataset.Dataset`, which DuckDB and other programs read.

        It reads only the columns and rows that the reader asks for. DuckDB does not pass on lower
        bounds of float columns: give them as ``box``. The dataset always reads the snapshot of
        this call.

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
            As for `query`, and raised by this call.

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
        Without a secondary index on ``by``, this scans all rows.

        Parameters
        ----------
        box, where, region, relation, window, steps
            The region, as for `query`.
        by
            The column that identifies a trajectory, also as a list of one. None: the identity of
            the table if it is one column, or else the only column with a secondary index.
        columns
            The columns to return.
        sample, limit, order_by
            For the returned rows, as for `query`. The default order is by trajectory, then time:
            ``by``, the other identity columns if ``by`` is an identity column, the first column of
            times, and the identity.

        Raises
        ------
        InvalidInput
            ``by`` has several columns, or it is missing, and neither the identity nor the indexed
            columns are a single column.

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
        """Yields results that together become a finer sample, until all rows are returned.

        The first result has the rows with a priority below ``start``, the next the rows with
        priorities from ``start`` to ``start * factor``, and so on. After a result ``r``, all rows
        so far are a uniform sample of the fraction ``r.fraction``. No row comes twice.

        Parameters
        ----------
        box, where, region, relation, steps, columns
            As for `query`.
        start
            The first fraction, in (0, 1], at least 2**-64.
        factor
            The ratio of successive fractions, above 1, for at most 10,000 results.

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

        A small pilot sample determines how many rows are needed for the requested error. An
        aggregate is marked as exact if all its rows were read. Null and NaN are missing values.

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
            The rows to aggregate, as for `query`.
        window
            The range of priorities from which the sample is taken; the result is for all rows.
        group_by
            Columns and expressions to group by, such as ``bin(diameter, 1e-6) AS size``. At most
            10,000 groups.
        error
            The requested error: half of every interval is at most this fraction of its value, 0.01
            or ``"1%"``. For values near 0, use an absolute error: ``"0.01 abs"`` in the value's
            unit, or ``"0.1 mm"``. A `UserWarning` reports an error that needs many rows.
        within
            The time limit, after which the best interval so far is returned: seconds, text such as
            ``"500 ms"``, or a `datetime.timedelta`.
        max_rows, max_bytes
            Read about this many rows or bytes at most.
        sample
            Read only rows with a priority below this fraction. Without any of these limits and
            without ``error``, the error is 0.01.
        confidence
            The fraction of intervals that contain the true value.
        tails
            Read all rows with the smallest and the largest values, this fraction at each end, for
            example 0.005. This removes the sampling error of heavy tails, for sums, means, ratios
            and variances of columns.
        progressive
            Return an iterator of estimates with ever narrower intervals; each row is read once. All
            intervals hold simultaneously, so you can stop at any time, but they are wider.

        Returns
        -------
        Estimate
            The estimate; with ``progressive``, an iterator of estimates.

        Raises
        ------
        InvalidInput
            An aggregate or column is unknown, a column has text instead of numbers, an error or
            limit is not above 0, or there are more than 10,000 groups.

        Examples
        --------
        >>> t.estimate("mean(ux)", box={"x": (0.1, 0.2)}, error=0.01)
        >>> e = t.estimate(["mean(ux)", "p95(diameter)"], group_by="deposited", within=0.5)
        >>> e.to_pandas()
        >>> for e in t.estimate("sum(mass)", progressive=True):
        ...     print(e.value, e.low, e.high)
        """
        # Not as a decorator, because its frame would shift the `stacklevel` of warnings.
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
        """Runs `query` without blocking the event loop, and returns the result in memory.

        Cancelling the task stops the query.

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
        """Returns the contents and layout of the table, and advice to make queries faster.

        Advice about dimensions needs a file of recorded queries, which ``KUBIST_RECORD`` names
        (docs/workloads.md).
        """
        return Info.parse(self._pinned().info())

    def _about(self) -> About:
        return About.parse(self._pinned().about())

    def __len__(self) -> int:
        return self._pinned().rows()

    def __bool__(self) -> bool:
        return True  # because with `__len__` alone, an empty table would be false

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
    """The results of `refine`, which can be read again as windows of priorities."""
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
