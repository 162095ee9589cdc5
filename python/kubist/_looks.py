"""First looks at a table, in consoles and notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, cast

from . import _box, _describe, _picture
from ._arguments import Style
from ._asked import Rest
from ._errors import InvalidInput
from ._goal import Goal
from ._libraries import need
from ._moving import Moving
from ._options import checked_options, group
from ._result import Result
from ._shown import html_notes

if TYPE_CHECKING:
    import polars as pl

    from ._arguments import AnyRegion, Box, Relation, Steps
    from ._describe import Description
    from ._picture import Picture
    from ._sql import SqlSource, SqlTable
    from .rasters import Raster

_HEAD = 5
"""Number of rows that a notebook shows of a table."""


class Looks(Moving):
    """Methods for a first look at a table or a snapshot, local or over HTTP."""

    @checked_options()
    def head(self, limit: int = 5, *, columns: Sequence[str] | None = None) -> Result:
        """Returns the rows of lowest priority in memory, the same at every call.

        Examples
        --------
        >>> t.head()
        """
        return self.query(columns=columns, limit=limit).materialize()

    @checked_options(Goal)
    def describe(
        self,
        columns: Sequence[str] | None = None,
        *,
        box: Box | None = None,
        **goal: Unpack[Goal],
    ) -> Description:
        """Estimates the count, mean, standard deviation, minimum, median and maximum of columns.

        Estimates have an interval, and exact values are marked as exact. Null and NaN are missing
        values.

        Parameters
        ----------
        columns
            Columns of numbers; None: all.
        box, where, region, relation, sample, window, steps
            The rows, as for `estimate`.
        error, within, max_rows, max_bytes, confidence, tails
            The goal, as for `estimate`. By default up to 200,000 rows are read for ten columns.

        Raises
        ------
        InvalidInput
            A column does not exist or has no numbers.

        Examples
        --------
        >>> t.describe()
        >>> t.describe(["ux"], box={"x": (0.1, 0.2)}, error=0.001)["ux"]["mean"]
        """
        pinned = self._pinned()
        numbers = _describe.columns_of_numbers(json.loads(pinned.columns()))
        chosen = numbers if columns is None else _box.names("columns", columns)
        return _describe.describe(chosen, self.units, {"box": box, **goal}, self.estimate)

    @checked_options()
    def plot(
        self,
        x: str | None = None,
        y: str | None = None,
        color: str | Sequence[str] | None = None,
        *,
        box: Box | None = None,
        where: str | None = None,
        region: AnyRegion | None = None,
        relation: Relation | None = None,
        steps: Steps | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        log: bool = False,
        range: tuple[float | None, float | None] | None = None,
        size: tuple[int, int] | None = None,
        title: str | None = None,
        style: Style | None = None,
    ) -> Picture:
        """Plots rows as points, like ``kubist plot``, without another library.

        `Picture.save` writes PNG, SVG or PDF. A plot with equal units and scales on both axes has a
        scale bar.

        Parameters
        ----------
        x, y
            The columns or expressions of the axes; None: the columns of the table's sphere, or else
            the first two dimensions. For a sphere, right ascension increases to the left, and a
            large region has Mollweide's projection.
        color
            The column or expression that colours the points. Strings, booleans, and integers with
            few different values have one colour per value. Three columns are red, green and blue,
            from 0 to 1 or in 8 or 16 bits; None: the number of points at each location.
        box, where, region, relation, steps
            The rows, as for `query`.
        sample, limit
            The size of the sample, as for `query`; by default at most 200,000 points.
        log
            Whether the scale of the colours is logarithmic.
        range
            The values of the first and the last colour; None: from the data.
        size
            Width and height in pixels; text and lines grow with the size.
        title
            A line above the plot.
        style
            Options of the appearance, as ``{"colormap": "magma", "theme": "dark"}``. ``colormap``
            is viridis (the default), magma, inferno, plasma, cividis, turbo, coolwarm or gray.
            ``theme`` is paper (dark axes on white, the default) or dark. ``aspect`` is equal (the
            same scale on both axes), fill, or auto (the default: equal for spatial axes with the
            same unit). ``log_axes`` are the axes with a logarithmic scale: ``"x"``, ``"y"`` or
            ``"xy"``. On ``invert_axes``, values increase to the left or downwards. ``point_size``
            is the radius of a point in pixels.

        Raises
        ------
        InvalidInput
            As for `query`; or a column cannot be drawn.

        Examples
        --------
        >>> t.plot("x", "y", "ux", box={"z": (0, 0.01)}).save("slice.png")
        >>> t.plot("x", "y", "ux", title="Figure 1", size=(1800, 1200)).save("figure.pdf")
        """
        if x is None or y is None:
            dimensions = self.sphere or [d.column for d in self._about().dimensions]
            if len(dimensions) < 2:
                raise InvalidInput(
                    "plot: name the columns x and y, because the table has one dimension"
                )
            x = x or next(name for name in dimensions if name != y)
            y = y or next(name for name in dimensions if name != x)
        colors = [color] if isinstance(color, str) else list(color or ())
        if len(colors) not in (0, 1, 3):
            raise InvalidInput("plot: color is one column, or three: red, green and blue")
        asked = list(dict.fromkeys((x, y, *colors)))
        if limit is None and sample is None:
            limit = _picture.POINTS
        result = self.query(
            box=box,
            where=where,
            region=region,
            relation=relation,
            steps=steps,
            sample=sample,
            limit=limit,
            columns=asked,
        )
        names = dict(zip(asked, result._first.names(), strict=True))
        return _picture.draw(
            result,
            None if steps is not None or region is not None else len(self),
            box,
            where,
            x=names[x],
            y=names[y],
            color=[names[color] for color in colors],
            log=log,
            range=range,
            size=size,
            title=title,
            style=cast("Style", group("plot", "style", style, Style)),
            sphere=self.sphere,
        )

    @checked_options()
    def raster(
        self,
        x: str,
        y: str,
        *,
        cell: float | str | tuple[float | str, float | str],
        value: str = "count()",
        box: Box | None = None,
        where: str | None = None,
        region: AnyRegion | None = None,
        relation: Relation | None = None,
        steps: Steps | None = None,
        sample: float | str | None = None,
        confidence: float = 0.95,
    ) -> Raster:
        """Aggregates the rows in each cell of a regular grid with two axes.

        Memory is proportional to the number of cells; quantiles and samples also need memory for up
        to four million rows, or for the fullest cell.

        Parameters
        ----------
        x, y
            The columns or expressions of the axes, with numbers.
        cell
            The width of a cell, or the widths along x and y: a number in the unit of the axis, or
            text with a unit, such as ``"1 m"``. A grid has at most 100 million cells.
        value
            ``count()``, ``count(z)``, ``sum(z)``, ``mean(z)``, ``min(z)``, ``max(z)``, ``var(z)``,
            ``std(z)``, ``median(z)``, ``p95(z)`` or ``quantile(z, 0.95)`` of a column, an
            expression, or a condition, which counts as 1 and 0. Null and NaN are missing values.
        box, where, region, relation, steps
            The rows, as for `query`. Along each axis, the grid starts at the lower bound of the
            box; without a bound, its edges are multiples of the width, and it contains all rows.
        sample
            A fraction in (0, 1], with which values are estimates with intervals, and the sampling
            unit is the table's identity. Intervals of minimum and maximum have only one bound.
        confidence
            The confidence level of the intervals.

        Returns
        -------
        Raster
            Arrays of values and their errors, for NumPy, xarray and GeoTIFF.

        Raises
        ------
        InvalidInput
            As for `query`; or a width is not above 0, the grid has too many cells, an aggregate is
            unknown, or an axis has no numbers.

        Examples
        --------
        >>> surface = t.raster("x", "y", cell=1.0, value="max(z)")
        >>> ground = t.raster("x", "y", cell=1.0, value="min(z)", where="classification = 2")
        >>> surface.to_geotiff("surface.tif")
        """
        need("numpy", "raster()")
        from .rasters import raster

        question = self._question(
            box=box, where=where, region=region, relation=relation, steps=steps, sample=sample
        )
        return raster(self._pinned(), question, (x, y), cell, value, box, confidence)

    @checked_options(Rest)
    def sql(
        self,
        query: str,
        *,
        engine: Literal["polars", "duckdb"] = "polars",
        tables: Mapping[str, SqlTable] | None = None,
        **asked: Unpack[Rest],
    ) -> pl.DataFrame:
        """Runs an SQL query with Polars or DuckDB; the table is called ``self``.

        Like `scan`, it reads only the needed columns and rows. A sum or product that exceeds its
        integer type has 128 bits.

        Parameters
        ----------
        query
            A single SELECT in the dialect of the engine; statements that write are refused.
        engine
            ``"polars"`` or ``"duckdb"``. DuckDB reads the table through `to_dataset`, accepts its
            complete SQL, and computes sums with 128-bit integers.
        tables
            Other tables, snapshots and file indexes, by the names that the query uses.
        where, region, relation, sample, window, steps, columns, inclusion, limit, order_by,
        per_cell
            The rows of ``self``, as for `scan`.

        Examples
        --------
        >>> t.sql("SELECT deposited, count(*) FROM self WHERE x < 0.2 GROUP BY deposited")
        >>> t.sql("SELECT kind, median(x) FROM self JOIN m USING (pid) GROUP BY ALL",
        ...     engine="duckdb", tables={"m": materials})
        """
        from . import _sql

        return _sql.run(query, engine, self._sql_source(asked), tables)

    def _sql_source(self, asked: Rest) -> SqlSource:
        from ._sql import SqlSource

        return SqlSource(
            lambda: self._source({"box": None, **asked}, None), lambda: self.to_dataset(**asked)
        )

    def _repr_html_(self) -> str:
        title = html_notes([repr(self)])
        try:
            return title + self.head(_HEAD)._repr_html_()
        except Exception as error:  # a notebook shows the handle despite errors
            return title + html_notes([f"{type(error).__name__}: {error}"])
