"""Writes ECSV, astropy's CSV with column types and units in comments.

A header from here with a body from Arrow is many times faster than astropy's own writer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from . import _forms
from ._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 16
"""Rows per call, between which an interrupt can stop."""


def write(table: pa.Table, path: Path) -> None:
    """Writes all rows; null and the empty string become empty fields.

    Raises:
        InvalidInput: ECSV lacks the type of a column.
    """
    import pyarrow as pa
    from pyarrow.csv import CSVWriter

    plain = pa.table([_plain(table.column(f.name), f) for f in table.schema], table.column_names)
    lines = ["%ECSV 1.0", "---", "delimiter: ','", "datatype:"]
    for field, written in zip(table.schema, plain.schema, strict=True):
        about = {"name": field.name, "datatype": _datatype(field, written)}
        if unit := _forms.unit_of(field):
            about["unit"] = unit
        # JSON is YAML.
        lines.append(f"- {json.dumps(about, ensure_ascii=False)}")
    lines.append("schema: astropy-2.0")
    with pa.OSFile(str(path), "wb") as out:
        out.write("".join(f"# {line}\n" for line in lines).encode())
        with CSVWriter(out, plain.schema) as file:
            for batch in plain.to_batches(max_chunksize=BATCH):
                file.write_batch(batch)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The column as numbers or strings; half-precision floats become `float32`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, types = column.type, pa.types
    if types.is_boolean(kind):
        return pc.if_else(column, "True", "False")
    if types.is_float16(kind):
        return column.cast(pa.float32())
    if types.is_integer(kind) or types.is_floating(kind):
        return column
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column
    raise InvalidInput(f"column {field.name}: ECSV has no place for {field.type}")


def _datatype(field: pa.Field, written: pa.Field) -> str:
    import pyarrow as pa

    if pa.types.is_boolean(field.type):
        return "bool"
    names = {"float": "float32", "double": "float64"}
    kind = str(written.type)
    return "string" if "string" in kind else names.get(kind, kind)
