"""A query over many runs for a single run, and the run's rows in the common columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .._libraries import need
from . import _text
from ._columns import Union
from ._runs import Run
from ._text import Names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Outputs:
    schema: pa.Schema
    computed: dict[str, str]
    """The expressions of computed columns, by name."""

    def with_columns(self, fields: Sequence[pa.Field]) -> Outputs:
        pa = need("pyarrow", "open_many()")
        return Outputs(pa.schema([*self.schema, *fields]), self.computed)


class Part:
    def __init__(self, union: Union, runs: Sequence[Run], number: int) -> None:
        self.union, self.number, self.run = union, number, runs[number]
        self.values = union.values(number)

    def has(self, column: str) -> bool:
        return column in self.union.present[self.number]

    def expression(self, text: str, nothing: str = "NULL") -> str:
        """An expression for this run; ``nothing`` replaces a missing column."""

        def form(column: str) -> str | None:
            if column in self.values:
                return _text.literal(self.values[column])
            if not self.has(column):
                return nothing
            return self.union.in_shared_unit(self.number, column)

        return _text.rewritten(text, self.union.names, form)

    def box(self, box: dict[str, Any]) -> dict[str, Any] | None:
        """The ranges for this run; None if no row of the run can match."""
        own: dict[str, Any] = {}
        for column, ends in box.items():
            if not self.has(column):
                # Null is in no range that has a bound.
                if any(end is not None for end in ends):
                    return None
                continue
            if self.union.in_shared_unit(self.number, column) is not None:
                unit = self.union.unit(column)
                ends = [f"{end!r} {unit}" if isinstance(end, int | float) else end for end in ends]
            own[column] = ends
        return own

    def question(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The query of this run, without the conditions that selected the run."""
        own = dict(asked)
        if "where" in own:
            own["where"] = self.expression(own["where"])
        if "box" in own:
            own["box"] = self.box(own["box"])
        if "region" in own:
            for column in sorted(self.union.present[self.number]):
                if self.union.in_shared_unit(self.number, column) is not None:
                    raise InvalidInput(
                        f"region: column {column} of run {self.run.name} has another unit than in "
                        "the first run: write where, or query one run"
                    )
        return own

    def nothing(self) -> str:
        """A null that is not constant for the engine, which refuses some constants."""
        first = _text.quoted(self.run.about["columns"][0]["name"])
        return f"(CASE WHEN {first} IS NULL AND {first} IS NOT NULL THEN 1.0 END)"

    def columns(self, outputs: Outputs) -> list[str]:
        """The columns of a result that this run has, and the computed ones."""
        texts = []
        for name in outputs.schema.names:
            if name in outputs.computed:
                text = self.expression(outputs.computed[name], self.nothing())
                if not _text.columns(outputs.computed[name], Names(self.union.rows.names)):
                    text = f"CASE WHEN {self.nothing()} IS NULL THEN {text} END"
                texts.append(f"{text} AS {_text.quoted(name)}")
            elif self.has(name):
                texts.append(name)
        # A query needs at least one column to return the number of rows.
        return texts or [self.run.about["columns"][0]["name"]]

    def arranged(self, batch: pa.RecordBatch, outputs: Outputs) -> pa.RecordBatch:
        """A batch of this run with the columns, types and units of all runs."""
        pa = need("pyarrow", "open_many()")
        arrays = []
        wanted = outputs.schema
        for field in wanted:
            if field.name in outputs.computed:
                arrays.append(batch.column(field.name).cast(field.type))
            elif field.name in self.values:
                arrays.append(self._constant(pa, field, batch.num_rows))
            elif (place := batch.schema.get_field_index(field.name)) < 0:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            else:
                arrays.append(self._converted(pa, batch.column(place), field))
        return pa.record_batch(arrays, schema=wanted)

    def _constant(self, pa: Any, field: pa.Field, rows: int) -> pa.Array:
        if field.name != self.union.key:
            value = self.union.values_of_run.column(field.name)[self.number]
            return pa.repeat(value, rows)
        codes = pa.repeat(self.union.codes[self.number], rows)
        if not pa.types.is_dictionary(field.type):
            return codes
        return pa.DictionaryArray.from_arrays(codes, self.union.run_names)

    def _converted(self, pa: Any, values: pa.Array, field: pa.Field) -> pa.Array:
        try:
            values = values.cast(field.type)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"run {self.run.name}, column {field.name}: a value is not a {field.type}, the "
                f"common type of all runs: {error}"
            ) from None
        factor = self.union.factors[self.number].get(field.name)
        return values if factor is None else factor.convert(values).cast(field.type)
