"""The columns of all runs: types, units, the name of the run and its metadata.

As in `Table.append`, different types become the common wider type. The first run with a column
defines its unit. Units of another kind, and columns with a unit in only some runs, are refused.

In memory, the engine checks a query with the empty table `Union.shape`, which has all columns, and
evaluates conditions on runs with `Union.catalogue`, which has a row of metadata for each run.
"""

from __future__ import annotations

import json
import uuid
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._create import create
from .._errors import InvalidInput
from .._libraries import need
from .._table import Snapshot
from .._unopened import drop
from ._arrays import array, table
from ._runs import Run
from ._text import Names, quoted, string

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER = "#"
"""The column of the catalogue with the number of the run."""

PREFIX = "metadata."


class Union:
    def __init__(self, runs: Sequence[Run], key: str) -> None:
        pa = need("pyarrow", "open_many()")
        self.key = key
        self.rows = _common(pa, runs)
        self.present = [frozenset(run.schema.names) for run in runs]
        self.factors = [self._factors(run) for run in runs]
        values = _metadata(runs)
        self.of_run: dict[str, list[Any]] = {key: [run.name for run in runs], **values}
        for name in self.of_run:
            if name in self.rows.names:
                raise InvalidInput(
                    f"open_many: the column {name} of the tables has the name of the column of the "
                    "runs: give another one, as run='case'"
                )
        self.names = Names([key, *values, *self.rows.names])
        columns = {name: array(values) for name, values in self.of_run.items()}
        numbers = array(list(range(len(runs))))
        # One row per run, whose values are read one by one.
        self.values_of_run = table({NUMBER: numbers, **columns})
        self.codes = numbers.cast(pa.int32())
        self.run_names = columns[key]
        kinds = {name: column.type for name, column in columns.items()}
        kinds[key] = pa.dictionary(pa.int32(), pa.string())
        fields = [pa.field(name, kind) for name, kind in kinds.items()]
        self.schema = pa.schema([*fields, *self.rows])
        self.catalogue = self._in_memory(self.values_of_run, [NUMBER])
        self.shape = self._shape(pa, runs)

    def values(self, run: int) -> dict[str, Any]:
        return {name: values[run] for name, values in self.of_run.items()}

    def in_shared_unit(self, run: int, column: str) -> str | None:
        """A column as an expression in the shared unit; None if the run uses this unit."""
        if column not in self.factors[run]:
            return None
        unit = string(f"1 {self.unit(column)}")
        return f"({quoted(column)} / {unit} * {unit})"

    def unit(self, column: str) -> str | None:
        return _unit(self.rows.field(column)) if column in self.rows.names else None

    def _factors(self, run: Run) -> dict[str, Factor]:
        """The conversions of columns whose unit differs from the shared unit."""
        found: dict[str, Factor] = {}
        for field in run.schema:
            given, wanted = _unit(field), self.unit(field.name)
            if given == wanted:
                continue
            here = f"open_many: column {field.name} is in {given or 'no unit'} in run {run.name}"
            if given is None or wanted is None:
                raise InvalidInput(f"{here}, and in {wanted or 'no unit'} in other runs")
            try:
                factor = Factor.between(given, wanted)
            except InvalidInput as error:
                raise InvalidInput(f"{here}, and in {wanted} in other runs: {error}") from None
            if factor.is_one:
                continue
            kind = self.rows.field(field.name).type
            if not need("pyarrow", "open_many()").types.is_floating(kind):
                raise InvalidInput(
                    f"{here}, and in {wanted} in other runs: only floats can be converted, and it "
                    f"is {kind}"
                )
            found[field.name] = factor
        return found

    def _shape(self, pa: Any, runs: Sequence[Run]) -> Snapshot:
        fields = [pa.field(self.key, pa.string()), *list(self.catalogue.schema)[2:], *self.rows]
        fields = [field.with_nullable(True) for field in fields]
        dimensions = [each["column"] for each in runs[0].about["dimensions"]]
        return self._in_memory(pa.schema(fields), dimensions)

    def _in_memory(self, data: pa.Table | pa.Schema, dimensions: Sequence[str]) -> Snapshot:
        location = f"memory://many-{uuid.uuid4().hex}"
        made = create(location, data, dimensions)
        weakref.finalize(self, drop, location, force=True)
        return made.snapshot()


class Factor:
    """A conversion between units: a product, or a quotient if it is exact."""

    def __init__(self, factor: float, inverse: float) -> None:
        self.factor, self.inverse = factor, inverse
        self.is_one = factor == 1

    @classmethod
    def between(cls, given: str, wanted: str) -> Factor:
        """Returns the engine's conversion, which refuses units of another kind."""
        zero, factor = _converted(given, wanted)
        _, inverse = _converted(wanted, given)
        if zero != 0:
            raise InvalidInput("units with different zero points cannot be shared")
        return cls(factor, inverse)

    def convert(self, values: pa.Array) -> pa.Array:
        pc = need("pyarrow.compute", "open_many()").compute
        if self.inverse.is_integer():
            return pc.divide(values, self.inverse)
        return pc.multiply(values, self.factor)


def _converted(given: str, wanted: str) -> tuple[float, float]:
    """The values 0 and 1 of a unit in another unit, as `Table.append` converts them."""
    pa = need("pyarrow", "open_many()")
    location = f"memory://many-{uuid.uuid4().hex}"

    def of(unit: str) -> Any:
        return pa.schema([pa.field("x", pa.float64(), metadata={"unit": unit})])

    made = create(location, of(wanted), ["x"])
    try:
        made.append(pa.Table.from_arrays([array([0.0, 1.0])], schema=of(given)))
        low, high = made.query(order_by="x").to_arrow().column("x").to_pylist()
    finally:
        made.close()
        drop(location, force=True)
    return (low, high) if low == 0 else (low, high - low)


def _common(pa: Any, runs: Sequence[Run]) -> pa.Schema:
    """The columns of all runs, each with the widest type and the unit of the first run."""
    fields: dict[str, pa.Field] = {}
    homes: dict[str, str] = {}
    for run in runs:
        for field in run.schema:
            known = fields.setdefault(field.name, field)
            homes.setdefault(field.name, run.name)
            if known.type == field.type:
                continue
            parts = [pa.schema([pa.field(field.name, each.type)]) for each in (known, field)]
            try:
                wider = pa.unify_schemas(parts, promote_options="permissive").field(0)
            except (pa.ArrowException, ValueError):
                raise InvalidInput(
                    f"open_many: column {field.name} is {known.type} in run {homes[field.name]}, "
                    f"and {field.type} in run {run.name}: no type holds both"
                ) from None
            fields[field.name] = known.with_type(wider.type)
    return pa.schema([field.with_nullable(True) for field in fields.values()])


def _metadata(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """The metadata of all runs by column; values of different kinds become strings."""
    names = dict.fromkeys(name for run in runs for name in run.metadata)
    return {PREFIX + name: _alike([run.metadata.get(name) for run in runs]) for name in names}


def _alike(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values if value is not None):
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) == 1:
        return values
    return [value if isinstance(value, str | None) else json.dumps(value) for value in values]


def _unit(field: pa.Field) -> str | None:
    unit = (field.metadata or {}).get(b"unit", b"").decode()
    return unit or None
