"""Quick looks at a table: in consoles and notebooks, before the questions are known."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack, cast

from . import _box, _describe, _picture
from ._arguments import Style
from ._goal import Goal
from ._asked import Rest
from ._errors import InvalidInput
from ._libraries import need
from ._options import checked_options, group
from ._questions import Questions
from ._result import Result
from ._shown import html_notes

if TYPE_CHECKING:
    import polars as pl

    from ._arguments import Box, Steps
    from ._describe import Description
    from ._estimate import Estimate
    from ._picture import Picture

_HEAD = 5
"""Records that a notebook shows of a table."""

_READ = 200_000
"""Records that `describe` reads at most of some columns, unless told otherwise."""


class Looks(Questions):
    """What is asked first of a table and of a snapshot, here and over HTTP."""

    @checked_options()
    def head(self, limit: int = 5, *, columns: Sequence[str] | None = None) -> Result:
        """A few records, in memory: those of lowest priority, so the same at every call.

        Example:
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
        """How many values columns have, and their mean, standard deviation, minimum, median and
        maximum, with intervals.

        They are estimates: a part of the records is read, and each figure has an interval.
        What is exact is marked as exact. Null and NaN are no values.

        Args:
            columns: Columns of numbers; None: all of them.
            box, where, sample, window, steps: Of which records: as for `estimate`.
            error, within, max_rows, max_bytes, confidence, tails: How well: as for `estimate`. None: up to 200,000 records are read of
                ten columns.

        Raises:
            InvalidInput: There is no such column, or it has no numbers.

        Example:
            >>> t.describe()
            >>> t.describe(["ux"], box={"x": (0.1, 0.2)}, error=0.001)["ux"]["mean"]
        """
        pinned = self._pinned()
        numbers = _describe.columns_of_numbers(json.loads(pinned.columns()))
        chosen = numbers if columns is None else _box.names("columns", columns)
        bounds = {"error", "within", "max_rows", "max_bytes", "sample", "window"}
        if not any(goal.get(bound) is not None for bound in bounds):
            goal["max_rows"] = _READ

        def estimate(aggregates: list[str]) -> Estimate:
            return self.estimate(aggregates, box=box, **goal)

        return _describe.describe(chosen, self.units, estimate)

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
        """A picture of records as points, as ``kubist plot`` draws it; no other library is needed.

        `Picture.save` writes it as PNG, SVG or PDF. Where both axes have the same unit, and one
        unit is as long across as up, a scale bar shows a length.

        Args:
            x, y: The columns across and up. None: the table's first two dimensions.
            color: The column that colours the points. None: how many lie there.
            box, where, steps: Of which records: as for `query`.
            sample, limit: How large a sample is drawn, as for `query`; None: 200,000 points at
                most.
            log: Colours by the logarithm.
            range: The values at both ends of the colours; None leaves an end to the data.
            size: Pixels across and up; text and lines grow with it.
            title: A line above the picture.
            style: How it looks, as ``{"colormap": "magma", "theme": "dark"}``:
            ``colormap``: viridis (the default), magma, inferno, plasma, cividis, turbo, coolwarm or
            gray.
            ``theme``: paper (dark axes on white, the default) or dark.
            ``aspect``: Whether one unit is as long across as up: auto (the default: yes for
            spatial axes of one unit), equal or fill.
            ``point_size``: The radius of a point in pixels.

        Raises:
            InvalidInput: As for `query`; a column that cannot be drawn.

        Example:
            >>> t.plot("x", "y", "ux", box={"z": (0, 0.01)}).save("slice.png")
            >>> t.plot("x", "y", "ux", title="Figure 1", size=(1800, 1200)).save("figure.pdf")
        """
        if x is None or y is None:
            dimensions = [dimension.column for dimension in self._about().dimensions]
            if len(dimensions) < 2:
                raise InvalidInput(
                    "plot: name the columns across and up: the table has one dimension"
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
    def sql(self, query: str, **asked: Unpack[Rest]) -> pl.DataFrame:
        """The answer to an SQL query, by Polars; the table is ``self``.

        Only the columns and records that the query needs are read, as for `scan`. Integers do
        not wrap around: a sum or a product that does not fit its type comes as one of 128 bits.

        Args:
            query: One SELECT.
            where, sample, window, steps, columns, inclusion, limit, order_by, per_cell: Of which
                records: as for `scan`.

        Example:
            >>> t.sql("SELECT deposited, count(*) FROM self WHERE x < 0.2 GROUP BY deposited")
        """
        polars = need("polars", "sql()")
        if not isinstance(query, str):
            raise InvalidInput(f"sql: expected text like 'SELECT x FROM self', not {query!r}")
        try:
            frame = self._executed(query, asked)
        except polars.exceptions.PolarsError as error:
            raise InvalidInput(f"sql: {_told(error)}") from error
        return frame

    def _executed(self, query: str, asked: Rest) -> pl.DataFrame:
        from ._scan import lazy_frame

        polars = need("polars", "sql()")
        source = self._source({"box": None, **asked}, None)
        if not _MAY_WRAP.search(query):
            context = polars.SQLContext({"self": lazy_frame(source)})
            found: pl.DataFrame = context.execute(query, eager=True)
            return found
        self._refuse_long_sums(query, lazy_frame(source))
        # Polars adds in the types that it is given.
        plain = polars.SQLContext({"self": source.empty.to_polars().lazy()})
        types = plain.execute(query).collect_schema()
        wide = polars.SQLContext({"self": lazy_frame(source, wide=True)})
        frame: pl.DataFrame = wide.execute(query, eager=True)
        return frame.with_columns(
            frame[name].cast(kind)
            for name, kind in types.items()
            if kind.is_integer() and kind != frame[name].dtype and _fits(frame[name], kind)
        )

    def _refuse_long_sums(self, query: str, frame: pl.LazyFrame) -> None:
        """Refuses a sum of durations that 64 bits may not hold: Polars has no longer ones."""
        polars = need("polars", "sql()")
        for name, kind in frame.collect_schema().items():
            if kind != polars.Duration or name.lower() not in query.lower():
                continue
            ticks = polars.col(name).to_physical().cast(polars.Int128).abs().sum()
            if frame.select(ticks).collect().item() >= 2**63:
                raise InvalidInput(
                    f"sql: a sum of {name} may not fit a duration of 64 bits: add up its ticks, "
                    f"CAST({name} AS HUGEINT)"
                )

    def _repr_html_(self) -> str:
        title = html_notes([repr(self)])
        try:
            return title + self.head(_HEAD)._repr_html_()
        except Exception as error:  # a notebook shows the handle all the same
            return title + html_notes([f"{type(error).__name__}: {error}"])


_MAY_WRAP = re.compile(
    r"""\b(?:sum|pow|power)\s*\(|[\w)"'`.]\s*(?:[-+]|\*(?!\s*from\b))\s*[\w("'`]""", re.IGNORECASE
)
"""Sums, powers and arithmetic."""


def _fits(values: pl.Series, kind: pl.DataType) -> bool:
    """Whether integers are ones of this type."""
    return bool(values.cast(kind, strict=False).null_count() == values.null_count())


def _told(error: Exception) -> str:
    """One line of what Polars says, without its plan; with the table's name beside another one."""
    text = str(error).partition("\n\nResolved plan")[0]
    line = " ".join(text.split())
    return f"{line}; the table is called self" if _NO_RELATION.search(line) else line


_NO_RELATION = re.compile(r"relation '.*' was not found")
