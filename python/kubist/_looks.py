"""First looks at a table, in consoles and notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, cast

from . import _box, _describe, _picture
from ._arguments import Style
from ._asked import Rest
from ._errors import InvalidInput
from ._goal import Goal
from ._libraries import need
from ._options import checked_options, group
from ._questions import Questions
from ._result import Result
from ._shown import html_notes

if TYPE_CHECKING:
    import polars as pl

    from ._arguments import Box, Steps
    from ._describe import Description
    from ._picture import Picture

_HEAD = 5
"""Rows that a notebook shows of a table."""


class Looks(Questions):
    """First looks at a table or a snapshot, here and over HTTP."""

    @checked_options()
    def head(self, limit: int = 5, *, columns: Sequence[str] | None = None) -> Result:
        """Returns a few rows in memory: those of lowest priority, the same at every call.

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

        Each is estimated from a sample and has an interval; exact values are marked as exact. Null
        and NaN are missing values.

        Parameters
        ----------
        columns
            Columns of numbers; None: all.
        box, where, sample, window, steps
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
        color: str | None = None,
        *,
        box: Box | None = None,
        where: str | None = None,
        steps: Steps | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        log: bool = False,
        range: tuple[float | None, float | None] | None = None,
        size: tuple[int, int] | None = None,
        title: str | None = None,
        style: Style | None = None,
    ) -> Picture:
        """Plots rows as points, as ``kubist plot`` does; needs no other library.

        `Picture.save` writes PNG, SVG or PDF. The plot has a scale bar if both axes have the same
        unit and scale.

        Parameters
        ----------
        x, y
            The columns of the axes. None: the table's first two dimensions.
        color
            The column that colours the points. None: the number of points at each location.
        box, where, steps
            The rows, as for `query`.
        sample, limit
            The size of the sample, as for `query`; by default at most 200,000 points.
        log
            Whether the colours are logarithmic.
        range
            The values at both ends of the colours; None: from the data.
        size
            Width and height in pixels; text and lines grow with it.
        title
            A line above the plot.
        style
            Options of the appearance, as ``{"colormap": "magma", "theme": "dark"}``. ``colormap``
            is viridis (the default), magma, inferno, plasma, cividis, turbo, coolwarm or gray.
            ``theme`` is paper (dark axes on white, the default) or dark. ``aspect`` is equal (one
            unit has the same length on both axes), fill, or auto (the default: equal for spatial
            axes of one unit). ``point_size`` is the radius of a point in pixels.

        Raises
        ------
        InvalidInput
            As for `query`; a column cannot be drawn.

        Examples
        --------
        >>> t.plot("x", "y", "ux", box={"z": (0, 0.01)}).save("slice.png")
        >>> t.plot("x", "y", "ux", title="Figure 1", size=(1800, 1200)).save("figure.pdf")
        """
        if x is None or y is None:
            dimensions = [dimension.column for dimension in self._about().dimensions]
            if len(dimensions) < 2:
                raise InvalidInput(
                    "plot: name the columns x and y, because the table has one dimension"
                )
            x, y = x or dimensions[0], y or next(name for name in dimensions if name != x)
        asked = list(dict.fromkeys(name for name in (x, y, color) if name is not None))
        if limit is None and sample is None:
            limit = _picture.POINTS
        result = self.query(
            box=box, where=where, steps=steps, sample=sample, limit=limit, columns=asked
        )
        return _picture.draw(
            result,
            None if steps is not None else len(self),
            box,
            where,
            x=x,
            y=y,
            color=color,
            log=log,
            range=range,
            size=size,
            title=title,
            style=cast("Style", group("plot", "style", style, Style)),
        )

    @checked_options(Rest)
    def sql(
        self,
        query: str,
        *,
        engine: Literal["polars", "duckdb"] = "polars",
        tables: Mapping[str, Looks] | None = None,
        **asked: Unpack[Rest],
    ) -> pl.DataFrame:
        """Runs an SQL query with Polars or DuckDB; the table is called ``self``.

        Only the columns and rows that the query needs are read, as for `scan`. Integers do not
        wrap around: a sum or product that exceeds its type has 128 bits.

        Parameters
        ----------
        query
            One SELECT, in the dialect of the engine. Statements that write are refused.
        engine
            ``"polars"`` or ``"duckdb"``. DuckDB reads the table through `to_dataset` and has all of
            its SQL. It has integers of 128 bits for sums.
        tables
            Other tables and snapshots by the name that they have in the query.
        where, sample, window, steps, columns, inclusion, limit, order_by, per_cell
            The rows of ``self``, as for `scan`.

        Examples
        --------
        >>> t.sql("SELECT deposited, count(*) FROM self WHERE x < 0.2 GROUP BY deposited")
        >>> t.sql("SELECT kind, median(x) FROM self JOIN m USING (pid) GROUP BY ALL",
        ...     engine="duckdb", tables={"m": materials})
        """
        polars = need("polars", "sql()")
        if not isinstance(query, str):
            raise InvalidInput(f"sql: expected text like 'SELECT x FROM self', not {query!r}")
        if engine not in ("polars", "duckdb"):
            raise InvalidInput(f"engine: expected 'polars' or 'duckdb', not {engine!r}")
        others = _others(tables)
        if engine == "duckdb":
            from ._sql import by_duckdb

            datasets = {name: table.to_dataset() for name, table in others.items()}
            return by_duckdb(query, {"self": self.to_dataset(**asked), **datasets})
        try:
            frame = self._executed(query, others, asked)
        except polars.exceptions.PolarsError as error:
            raise InvalidInput(f"sql: {_message(error)}") from error
        return frame

    def _executed(self, query: str, others: Mapping[str, Looks], asked: Rest) -> pl.DataFrame:
        from ._scan import lazy_frame
        from ._sql import collected

        polars = need("polars", "sql()")
        source = self._source({"box": None, **asked}, None)
        sources = {name: table._source({"box": None}, None) for name, table in others.items()}
        sources["self"] = source
        if not _MAY_WRAP.search(query):
            context = polars.SQLContext({name: lazy_frame(one) for name, one in sources.items()})
            return collected(context.execute(query))
        for one in sources.values():
            self._refuse_long_sums(query, lazy_frame(one))
        # Polars adds in the type of the column, which can overflow: the query runs on wider
        # integers.
        empty = {name: one.empty.to_polars().lazy() for name, one in sources.items()}
        plain = polars.SQLContext(empty)
        types = plain.execute(query).collect_schema()
        frames = {name: lazy_frame(one, wide=True) for name, one in sources.items()}
        wide = polars.SQLContext(frames)
        frame = collected(wide.execute(query))
        return frame.with_columns(
            frame[name].cast(kind)
            for name, kind in types.items()
            if kind.is_integer() and kind != frame[name].dtype and _fits(frame[name], kind)
        )

    def _refuse_long_sums(self, query: str, frame: pl.LazyFrame) -> None:
        """Raises `InvalidInput` if a sum of durations may exceed the 64 bits that Polars has."""
        from ._sql import collected

        polars = need("polars", "sql()")
        for name, kind in frame.collect_schema().items():
            if kind != polars.Duration or name.lower() not in query.lower():
                continue
            ticks = polars.col(name).to_physical().cast(polars.Int128).abs().sum()
            if collected(frame.select(ticks)).item() >= 2**63:
                raise InvalidInput(
                    f"sql: a sum of {name} may exceed a duration of 64 bits: sum its ticks with "
                    f"CAST({name} AS HUGEINT)"
                )

    def _repr_html_(self) -> str:
        title = html_notes([repr(self)])
        try:
            return title + self.head(_HEAD)._repr_html_()
        except Exception as error:  # a notebook shows the handle despite errors
            return title + html_notes([f"{type(error).__name__}: {error}"])


def _others(tables: Mapping[str, Looks] | None) -> Mapping[str, Looks]:
    """Other tables of a query by name."""
    if tables is None:
        return {}
    if not isinstance(tables, Mapping) or not all(
        isinstance(name, str) and isinstance(table, Looks) for name, table in tables.items()
    ):
        raise InvalidInput(
            f"tables: expected tables by name, as {{'m': materials}}, not {tables!r}"
        )
    if "self" in tables:
        raise InvalidInput("tables: self is the table of this call: use another name")
    return tables


_MAY_WRAP = re.compile(
    r"""\b(?:sum|pow|power)\s*\(|[\w)"'`.]\s*(?:[-+]|\*(?!\s*from\b))\s*[\w("'`]""", re.IGNORECASE
)
"""Sums, powers and arithmetic."""


def _fits(values: pl.Series, kind: pl.DataType) -> bool:
    """Whether all integers fit into a type."""
    return bool(values.cast(kind, strict=False).null_count() == values.null_count())


def _message(error: Exception) -> str:
    """The first line of an error of Polars, without its plan."""
    text = str(error).partition("\n\nResolved plan")[0]
    line = " ".join(text.split())
    return f"{line}; the table is called self" if _NO_RELATION.search(line) else line


_NO_RELATION = re.compile(r"relation '.*' was not found")
