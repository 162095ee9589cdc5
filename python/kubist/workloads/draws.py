"""Random requests of a workload, with parameters drawn from rows of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .spec import Place, Query, Range, Value, Workload

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    verb: str
    asked: Mapping[str, Any]


class Draws:
    """Draws requests.

    Parameters
    ----------
    rows
        A sample of the data, which gives values, domains and ranks of columns.
    seed
        Two objects with the same seed, workload and rows draw the same requests.
    """

    def __init__(self, workload: Workload, rows: pa.Table, seed: int = 0) -> None:
        import numpy as np

        self._workload = workload
        self._random = np.random.default_rng(seed)
        self._shares = np.cumsum(workload.shares)
        if not rows.num_rows:
            raise InvalidInput("the data has no rows to draw parameters from")
        self._rows = rows
        for name in sorted(workload.columns()):
            if name not in rows.column_names:
                raise InvalidInput(
                    f"there is no column {name!r}; the columns are {', '.join(rows.column_names)}"
                )
        self._columns: dict[str, _Column] = {}

    def next(self) -> Question:
        """A request of a random query, by the weights."""
        at = int(self._shares.searchsorted(self._random.random(), side="right"))
        return self.of(self._workload.queries[min(at, len(self._shares) - 1)])

    def of(self, query: Query) -> Question:
        if query.replay:
            chosen = query.replay[int(self._random.integers(len(query.replay)))]
            return Question(query.name, query.verb, chosen)
        row = int(self._random.integers(self._rows.num_rows))
        asked = dict(query.asked)
        if query.box:
            asked["box"] = {
                name: self._range(name, of, query, row) for name, of in query.box.items()
            }
        if query.where is not None:
            condition = query.where
            for name, value in query.values.items():
                condition = condition.replace(f"{{{name}}}", _sql(self._value(value, query, row)))
            asked["where"] = condition
        return Question(query.name, query.verb, asked)

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            self._columns[name] = _Column(name, self._rows.column(name))
        return self._columns[name]

    def _range(self, name: str, of: Range, query: Query, row: int) -> tuple[Any, Any]:
        if of.fixed is not None:
            return of.fixed
        column = self._column(name)
        centre = column.place(of.place or query.place, row, self._random)
        width = of.width if of.share is None else of.share * (column.high - column.low)
        return column.range(centre, width)

    def _value(self, of: Value, query: Query, row: int) -> Any:
        if of.choices:
            return of.choices[int(self._random.integers(len(of.choices)))]
        column = self._column(of.column)
        return column.typed(column.place(of.place or query.place, row, self._random))


class _Column:
    """The values of a column as numbers, or unchanged if they have no numeric order."""

    def __init__(self, name: str, values: pa.ChunkedArray) -> None:
        import numpy as np
        import pyarrow as pa

        self.name = name
        self._type = values.type
        types = pa.types
        temporal = types.is_temporal(self._type)
        if temporal:
            values = values.cast(pa.int32() if self._type.bit_width == 32 else pa.int64())
        self.is_number = temporal or types.is_integer(self._type) or types.is_floating(self._type)
        valid = values.is_valid().to_numpy()
        if self.is_number:
            kind = np.dtype(values.type.to_pandas_dtype())
            self._values = values.fill_null(0).to_numpy().astype(kind, copy=False)
            valid = valid & np.isfinite(self._values) if kind.kind == "f" else valid
        else:
            self._values = np.array(values.to_pylist(), dtype=object)
        self._valid = np.flatnonzero(valid)
        if not len(self._valid):
            raise InvalidInput(f"the column {name!r} has no values in the sample")
        self._is_valid = valid
        self._ranked: np.ndarray[Any, Any] | None = None
        self._chances: dict[float, np.ndarray[Any, Any]] = {}
        self.low = self.high = 0.0
        if self.is_number:
            here = self._values[self._valid]
            self.low, self.high = float(here.min()), float(here.max())

    def place(self, place: Place, row: int, random: np.random.Generator) -> Any:
        """A value of the column: a number of its type or unit, or the value itself."""
        import numpy as np

        if place.kind == "rows":
            at = row if self._is_valid[row] else self._valid[row % len(self._valid)]
            return self._plain(self._values[at])
        if place.kind == "zipf":
            return self._plain(self._by_rank(place.exponent, random))
        if not self.is_number:
            raise InvalidInput(f"the column {self.name!r} has no numbers: no {place.kind} place")
        if place.kind == "uniform":
            return random.uniform(self.low, self.high)
        middle, width = (self.low + self.high) / 2, self.high - self.low
        mean = middle if place.mean is None else place.mean
        deviation = width / 10 if place.deviation is None else place.deviation
        return float(np.clip(random.normal(mean, deviation), self.low, self.high))

    def _plain(self, value: Any) -> Any:
        return value.item() if self.is_number else value

    def _by_rank(self, exponent: float, random: np.random.Generator) -> Any:
        """A distinct value by its rank, the most frequent first, by Zipf's law."""
        import numpy as np

        if self._ranked is None:
            values, often = np.unique(self._values[self._valid], return_counts=True)
            self._ranked = values[np.argsort(-often, kind="stable")]
        if exponent not in self._chances:
            weights = np.arange(1, len(self._ranked) + 1, dtype=float) ** -exponent
            self._chances[exponent] = np.cumsum(weights) / weights.sum()
        at = int(np.searchsorted(self._chances[exponent], random.random()))
        return self._ranked[min(at, len(self._ranked) - 1)]

    def range(self, centre: float, width: float) -> tuple[Any, Any]:
        """A range around a position, shifted into the domain."""
        if not self.is_number:
            if width == 0:
                return centre, centre
            raise InvalidInput(f"the column {self.name!r} has no numbers for a range")
        if width == 0:
            return (value := self.typed(centre)), value
        low = min(max(centre - width / 2, self.low), max(self.high - width, self.low))
        if self._values.dtype.kind != "f":
            # As many integers as the width, at least one.
            first = round(low)
            return self.typed(first), self.typed(first + max(round(width) - 1, 0))
        return low, low + width

    def typed(self, number: Any) -> Any:
        import pyarrow as pa

        if not self.is_number or self._values.dtype.kind == "f":
            return number
        if not pa.types.is_temporal(self._type):
            return int(number)
        width = pa.int32() if self._type.bit_width == 32 else pa.int64()
        return pa.scalar(int(number), width).cast(self._type).as_py()


def _sql(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'"
