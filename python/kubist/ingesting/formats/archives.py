"""Text tables of archives: VOTable, IPAC, and ECSV, which is also Gaia's CSV.

Astropy reads VOTable and IPAC whole, but only the header of ECSV, with types and units. The CSV
rows of ECSV are read in batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import _astropy
from ..._errors import InvalidInput
from ..source import INFINITE, Options, Source, State, Step, as_json, open_end, slices, unit
from . import catalogue
from .fits_storage import opened

if TYPE_CHECKING:
    import pyarrow as pa

CHANGED, LOST = ("W51", "E02"), ("W30", "W46")
"""Warnings of astropy: a number is beyond the range of its type, or of another shape; a text is no
number and becomes null, or is longer than its column and is cut."""
ECSV = b"# %ECSV"
NROWS = re.compile(rb"""<TABLE(?:\s[^<>]*)?\snrows\s*=\s*["'](\d+)["']""")
HEAD_BYTES = 1 << 20
WORD_INFINITE = re.compile(rb"[\s>]" + INFINITE.pattern + rb"[\s<]", re.IGNORECASE)
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
# Types of ECSV that Arrow calls by another name, or does not have.
TYPES = {"float128": None, "complex64": None, "complex128": None, "object": None, "json": None}


def _head(path: Path, head: bytes) -> bytes:
    """The first bytes of a file, decompressed if necessary."""
    if not head.startswith(COMPRESSED):
        return head
    try:
        with opened(path) as file:
            return file.read(4096)
    except (OSError, EOFError, ValueError):
        return b""


def is_votable(path: Path, head: bytes) -> bool:
    return b"<VOTABLE" in _head(path, head)


def is_ecsv(path: Path, head: bytes) -> bool:
    return _head(path, head).lstrip(b"\xef\xbb\xbf").startswith(ECSV)


def is_ipac(path: Path, head: bytes) -> bool:
    """Whether a file starts with keywords of IPAC, or with names of columns between bars."""
    text = _head(path, head)
    first = text.split(b"\n", 1)[0].rstrip()
    if text.startswith(b"\\"):
        return b"\n|" in text
    return first.startswith(b"|") and first.endswith(b"|") and first.count(b"|") > 1


# VOTable and IPAC


def look_at_votable(path: Path, options: Options) -> Source:
    import warnings

    from astropy.io import votable

    with warnings.catch_warnings(record=True) as said_wrong, opened(path) as file:
        warnings.simplefilter("always")
        document = votable.parse(file, verify="warn", filename=str(path))
        tables = list(document.iter_tables())
        if not tables:
            raise InvalidInput(f"{path}: there is no table in it")
        table = tables[0].to_table(use_names_over_ids=True)
        about = _about(document, tables[0])
        infos = {info.name: info.value for info in document.iter_info() if info.name}
    left_out = {
        f"table {i} ({other.name or other.ID or 'unnamed'})": "one table of a file becomes rows"
        for i, other in enumerate(tables[1:], 1)
    }
    for warning in said_wrong:
        name, text = type(warning.message).__name__, str(warning.message)
        if name in CHANGED:
            raise InvalidInput(text)
        if name in LOST:
            left_out.setdefault(f"values ({name})", text)
    said = _said_rows(path)
    if said is not None and said != len(table):
        left_out["rows"] = f"the header counts {said:,}, there are {len(table):,}"
    elif infos.get("QUERY_STATUS") == "OVERFLOW":
        left_out["rows"] = "the service gave a part of them (QUERY_STATUS is OVERFLOW)"
    return _source(path, "votable", table, options, about, left_out)


def _about(document: Any, table: Any) -> dict[str, Any]:
    """Infos, parameters, systems and descriptions of a document and of its selected table."""
    about: dict[str, Any] = {i.name: i.value for i in document.iter_info() if i.name}
    resources = [r for r in document.resources if table in r.tables]
    for parameter in (*document.params, *(p for r in resources for p in r.params), *table.params):
        about[parameter.name or parameter.ID] = parameter.value
    for name, systems, parts in (
        ("coordinate_systems", document.iter_coosys(), ("system", "equinox", "epoch")),
        ("time_systems", document.iter_timesys(), ("timeorigin", "timescale", "refposition")),
    ):
        if found := {str(system.ID): _present(system, parts) for system in systems}:
            about[name] = found
    texts = [item.description for item in (document, *resources, table) if item.description]
    if texts:
        about["description"] = "\n".join(str(text) for text in texts)
    parts = ("ucd", "utype", "description", "ref")
    if columns := {f.name: said for f in table.fields if (said := _present(f, parts))}:
        about["columns"] = columns
    return about


def _present(item: Any, names: Iterable[str]) -> dict[str, str]:
    found = {name: getattr(item, name, None) for name in names}
    return {name: str(value) for name, value in found.items() if value}


def _said_rows(path: Path) -> int | None:
    """The number of rows in the header of the first table, which astropy drops."""
    with opened(path) as file:
        found = NROWS.search(file.read(HEAD_BYTES))
    return None if found is None else int(found[1])


def _decoded(raw: bytes) -> str:
    """UTF-8, or Latin-1 where it is not valid UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def look_at_ipac(path: Path, options: Options) -> Source:
    from astropy.table import Table

    with opened(path) as file:
        text = _decoded(file.read())
    try:
        table = Table.read(text.splitlines(), format="ascii.ipac")
    except IndexError as error:
        raise InvalidInput(f"{path}: the lines of its names and types are incomplete") from error
    keywords = {k: v["value"] for k, v in table.meta.get("keywords", {}).items()}
    if comments := table.meta.get("comments"):
        keywords["comments"] = "\n".join(comments)
    return _source(path, "ipac", table, options, keywords, {})


def _source(
    path: Path,
    format: str,
    table: Any,
    options: Options,
    about: Mapping[str, Any],
    left_out: dict[str, str],
) -> Source:
    wanted = None if options.columns is None else set(options.columns)
    made: dict[str, tuple[pa.Array, str | None]] = {}
    for name in table.colnames:
        try:
            found = _astropy.columns(name, table[name])
        except _astropy.Unreadable as why:
            if wanted is None or name in wanted:
                left_out[f"column {name}"] = str(why)
            continue
        if wanted is None or wanted & set(found):
            made |= found
    rows = _astropy.assembled(made)
    for name in rows.column_names:
        # Astropy makes 1e60 infinite in 32 bits.
        if _has_infinite(rows.column(name)) and not _says_infinite(path):
            raise InvalidInput(f"{path}: column {name} has a number beyond the range of its type")

    def read(_: State) -> Iterator[pa.Table]:
        for part in slices(len(rows)):
            yield rows.slice(part.start, part.stop - part.start)

    return _catalogue(path, format, rows.schema, read, about, left_out, len(rows))


def _says_infinite(path: Path) -> bool:
    """Whether a text has the word for infinite numbers. Binary data of VOTable may have any number."""
    with opened(path) as file:
        text = file.read()
    return b"<BINARY" in text or b"<FITS" in text or WORD_INFINITE.search(text) is not None


def _catalogue(
    path: Path,
    format: str,
    schema: pa.Schema,
    read: Any,
    about: Mapping[str, Any],
    left_out: dict[str, str],
    rows: int | None,
) -> Source:
    import pyarrow as pa

    units = {f.name: (f.metadata or {}).get(b"unit", b"").decode() or None for f in schema}
    integers = {f.name: pa.types.is_integer(f.type) for f in schema}

    return Source(
        path=path,
        format=format,
        schema=schema,
        steps=lambda _: [Step("rows", read, part=path.name)],
        dimensions=catalogue.positions(schema.names, units),
        identity=catalogue.identity(schema.names, integers),
        metadata={format: as_json(about)} if about else {},
        rows=rows,
        notes=[] if format == "votable" else _open_end(path),
        left_out=left_out,
    )


def _open_end(path: Path) -> list[str]:
    with path.open("rb") as file:
        is_compressed = file.read(6).startswith(COMPRESSED)
    return [] if is_compressed else open_end(path)


# ECSV


def look_at_ecsv(path: Path, options: Options) -> Source:
    import csv

    import pyarrow as pa
    from astropy.table import meta

    lines, comments, line = [], 0, ""
    with opened(path) as file:
        for raw in file:
            line = _decoded(raw).lstrip("\ufeff")
            if not line.startswith("#"):
                break
            comments += 1
            lines.append(line[1:].removeprefix(" ").rstrip("\r\n"))
    header = meta.get_header_from_yaml(lines[1:])
    delimiter = header.get("delimiter", " ")
    names = next(csv.reader([line], delimiter=delimiter), [])
    wanted = None if options.columns is None else set(options.columns)
    left_out: dict[str, str] = {}
    columns: dict[str, Any] = {}
    fields = []
    for column in header["datatype"]:
        name, kind = column["name"], column["datatype"]
        if wanted is not None and name not in wanted:
            continue
        if "subtype" in column or TYPES.get(kind, kind) is None:
            said = column.get("subtype", kind)
            left_out[f"column {name}"] = f"its type {said} has no place in a table"
            continue
        if name not in names:
            raise InvalidInput(
                f"{path}: the header has the column {name}, the line of names has not"
            )
        fields.append(unit(pa.field(name, pa.type_for_alias(kind)), column.get("unit")))
        if said := {key: column[key] for key in ("description", "meta") if key in column}:
            columns[name] = said
    schema = pa.schema(fields)
    about = dict(header.get("meta") or {})
    if columns:
        about["columns"] = columns

    def read(_: State) -> Iterator[pa.Table]:
        try:
            for table in _rows_of_text(path, comments, delimiter, schema):
                if any(_has_infinite(column) for column in table.columns) and (
                    wrong := _wrong_text(path, comments, delimiter, schema)
                ):
                    raise InvalidInput(wrong)
                yield table.cast(schema)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                _wrong_text(path, comments, delimiter, schema) or f"{path}: {error}"
            ) from error

    return _catalogue(path, "ecsv", schema, read, about, left_out, None)


def _rows_of_text(
    path: Path, comments: int, delimiter: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """The rows of ECSV behind its comments, in batches."""
    import pyarrow as pa
    from pyarrow import csv

    # Arrow parses no numbers of 16 bits.
    kinds = {f.name: pa.float64() if f.type == pa.float16() else f.type for f in schema}

    with opened(path) as file:
        batches = csv.open_csv(
            file,
            read_options=csv.ReadOptions(skip_rows=comments),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=kinds,
                include_columns=schema.names,
                # Gaia's archive writes `null`; astropy an empty text.
                null_values=["", "null"],
                true_values=["True", "true", "1"],
                false_values=["False", "false", "0"],
                strings_can_be_null=True,
            ),
        )
        for batch in batches:
            yield pa.Table.from_batches([batch]).select(schema.names)


def _wrong_text(path: Path, comments: int, delimiter: str, schema: pa.Schema) -> str | None:
    """Says which value is none of its column's type; None if the lines have other faults."""
    import pyarrow as pa

    raw = pa.schema([pa.field(f.name, pa.binary()) for f in schema])
    first = 0
    try:
        for table in _rows_of_text(path, comments, delimiter, raw):
            for field in schema:
                for row, value in enumerate(table.column(field.name).to_pylist()):
                    if value is not None and not _is_of(value, field.type):
                        said = value.decode("utf-8", "replace")
                        return (
                            f"{path}: row {first + row}: {field.name} is {said!r}, no {field.type}"
                        )
            first += table.num_rows
    except pa.ArrowInvalid:
        return None
    return None


def _has_infinite(column: pa.Array | pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_inf(column)).as_py())


def _is_of(value: bytes, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        text = pa.array([value.decode("utf-8")])
        if pa.types.is_boolean(kind):
            return text[0].as_py() in ("True", "true", "1", "False", "false", "0")
        number = text.cast(pa.float64() if kind == pa.float16() else kind)
        if _has_infinite(number) and not INFINITE.fullmatch(value.strip()):
            return False
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return False
    return True
