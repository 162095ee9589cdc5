"""HATS catalogues: folders of Parquet files, one for each pixel of the sky (HEALPix)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, arrow_table, join, unit
from . import catalogue

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTIES = ("hats.properties", "properties", "collection.properties")
COLLECTION = "collection.properties"
ROWS = 1 << 18


def matches(path: Path, head: bytes) -> bool:
    """Whether a folder is a catalogue, or a collection of a catalogue, margins and indices."""
    return path.is_dir() and any((path / name).is_file() for name in PROPERTIES)


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa
    from pyarrow import parquet

    left_out: dict[str, str] = {}
    folder = path
    if (path / COLLECTION).is_file():
        primary = _properties(path / COLLECTION).get("hats_primary_table_url")
        if primary is None:
            raise InvalidInput(f"{path / COLLECTION}: it names no hats_primary_table_url")
        folder = path / primary
        for other in sorted(p for p in path.iterdir() if p.is_dir() and p != folder):
            left_out[other.name] = "it is beside the catalogue: a margin or an index"
    about = _properties(next(folder / n for n in PROPERTIES if (folder / n).is_file()))
    files = sorted(p for p in folder.rglob("*.parquet") if "Npix=" in str(p.relative_to(folder)))
    if not files:
        raise InvalidInput(f"{path}: it has no Parquet file of a pixel")
    wanted = None if options.columns is None else set(options.columns)
    fields: dict[str, pa.Field] = {}
    rows = 0
    for file in files:
        said_of_file = parquet.read_metadata(file)
        rows += said_of_file.num_rows
        for field in said_of_file.schema.to_arrow_schema():
            if wanted is not None and field.name not in wanted:
                continue
            if pa.types.is_nested(field.type):
                left_out[f"column {field.name}"] = f"its type {field.type} has no place in a table"
                continue
            said_unit = (field.metadata or {}).get(b"unit", b"").decode() or None
            join(fields, unit(field.remove_metadata(), said_unit), str(file))
    schema = pa.schema(list(fields.values()))
    if (said := about.get("hats_nrows", "")).isdigit() and int(said) != rows:
        left_out["rows"] = f"the catalogue has {int(said):,}, its files have {rows:,}"
    named = [about.get(key, "") for key in ("hats_col_ra", "hats_col_dec")]
    integers = {f.name: pa.types.is_integer(f.type) for f in schema}
    return Source(
        path=path,
        format="hats",
        schema=schema,
        steps=lambda _: [Step(str(f.relative_to(folder)), _reading(f, schema)) for f in files],
        dimensions=named
        if set(named) <= set(schema.names)
        else catalogue.positions(schema.names, {}),
        identity=catalogue.identity(schema.names, integers),
        metadata={"hats": about},
        rows=rows,
        grows=True,
        left_out=left_out,
    )


def _reading(file: Path, schema: pa.Schema) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        from pyarrow import parquet

        with parquet.ParquetFile(file) as opened:
            there = set(opened.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            for batch in opened.iter_batches(ROWS, columns=names):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield arrow_table(columns, schema)

    return read


def _properties(file: Path) -> dict[str, Any]:
    said = {}
    for line in file.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.lstrip().startswith("#"):
            said[name.strip()] = value.strip()
    return said
