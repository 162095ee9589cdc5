"""Summary statistics of numeric columns: the result of `Table.describe`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

from . import _kubist
from ._errors import InvalidInput
from ._estimate import Estimate
from ._shown import Cell, counted, html_table, text_table, with_unit

AGGREGATES = ("count", "mean", "std", "min", "median", "max")
"""Statistics of each numeric column; ``count`` excludes null and NaN."""

ROWS_READ = 200_000
"""Maximum number of rows that `describe` reads for a few columns by default."""

_AT_ONCE = 10
"""Columns per estimate, which may have at most 64 aggregates."""


class Figure(NamedTuple):
    """A value with its interval; prints as ``3.02e-7 ± 0.26e-7 m``."""

    value: Any
    """None: no row contributes. Integers and decimals keep all digits."""
    low: Any
    high: Any
    exact: bool
    """Whether all rows were read."""
    unit: str | None

    def __repr__(self) -> str:
        value, low, high, exact, unit = self
        if exact and isinstance(value, int | Decimal):
            return _kubist.figure_of_texts(str(value), str(low), str(high), exact, unit)
        value = None if value is None else float(value)
        return _kubist.figure(value, float(low), float(high), exact, unit)

    def _cell(self) -> Cell:
        unknown = self.value is None and (
            self.exact or not (isfinite(self.low) or isfinite(self.high))
        )
        return None if unknown else repr(self)


class Description(Mapping[str, Mapping[str, Figure]]):
    """Statistics by column and aggregate, each with an interval.

    >>> d = t.describe()
    >>> d["ux"]["mean"].value, d["ux"]["mean"].low, d["ux"]["mean"].high
    """

    def __init__(self, estimates: Sequence[Estimate], units: Mapping[str, str]) -> None:
        self._units = units
        self._figures: dict[str, dict[str, Figure]] = {}
        for estimate in estimates:
            for row in estimate._rows():
                name, column = _parts(row["aggregate"])
                figure = Figure(
                    row["value"],
                    row["low"],
                    row["high"],
                    row["exact"],
                    estimate.units.get(row["aggregate"]),
                )
                self._figures.setdefault(column, {})[name] = figure
        self._notes = _notes(estimates)

    def __getitem__(self, column: str) -> Mapping[str, Figure]:
        return self._figures[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def _table(self) -> tuple[list[str], list[list[Cell]], list[str]]:
        rows: list[list[Cell]] = []
        for column, figures in self._figures.items():
            title = with_unit(column, self._units.get(column))
            # The title of the row has the unit.
            cells = [figure._replace(unit=None)._cell() for figure in figures.values()]
            rows.append([title, *cells])
        return ["column", *AGGREGATES], rows, self._notes

    def __repr__(self) -> str:
        return text_table(*self._table())

    def _repr_html_(self) -> str:
        return html_table(*self._table())


def describe(
    numbers: Sequence[str],
    units: Mapping[str, str],
    goal: dict[str, Any],
    estimate: Callable[..., Estimate],
) -> Description:
    """Estimates a few columns at a time; without a bound in the goal, from `ROWS_READ` rows."""
    bounds = ("error", "within", "max_rows", "max_bytes", "sample", "window")
    if all(goal.get(bound) is None for bound in bounds):
        goal = {**goal, "max_rows": ROWS_READ}
    if not numbers:
        raise InvalidInput("describe: no column has numbers")
    parts = [numbers[first : first + _AT_ONCE] for first in range(0, len(numbers), _AT_ONCE)]
    asked = [
        [f"{name}({_quoted(column)})" for column in part for name in AGGREGATES] for part in parts
    ]
    return Description([estimate(aggregates, **goal) for aggregates in asked], units)


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _parts(aggregate: str) -> tuple[str, str]:
    name, _, rest = aggregate.partition("(")
    return name, rest.removesuffix(")")[1:-1].replace('""', '"')


def _notes(estimates: Sequence[Estimate]) -> list[str]:
    read = sum(estimate.stats.rows_read for estimate in estimates)
    seconds = sum(estimate.stats.seconds for estimate in estimates)
    confidence = f"{100 * estimates[0].confidence:.4g} % confidence"
    about = f"({confidence}, {counted(read, 'record read')} in {_kubist.duration(seconds)})"
    warnings = [f"note: {warning}" for estimate in estimates for warning in estimate.warnings]
    return [about, *warnings]


def columns_of_numbers(described: Sequence[Mapping[str, Any]]) -> list[str]:
    families = ("Int", "UInt", "Float", "Decimal")
    return [column["name"] for column in described if str(column["data_type"]).startswith(families)]


for _public in (Description, Figure):
    _public.__module__ = "kubist"
del _public
