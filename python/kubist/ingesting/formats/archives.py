"""Text tables of archives: VOTable, IPAC, and ECSV, which is also Gaia's CSV.

Astropy reads VOTable and IPAC whole, but only the header of ECSV, with types and units. The rows of
ECSV are CSV, which is read in batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import _astropy
from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, as_json, slices, unit
from . import catalogue
from .fits_storage import opened

if TYPE_CHECKING:
    import pyarrow as pa

ECSV = b"# %ECSV"
NROWS = re.compile(rb"""<TABLE(?:\s[^<>]*)?\snrows\s*=\s*["'](\d+)["']""")
HEAD_BYTES = 1 << 20
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

    with warnings.catch_warnings(), opened(path) as file:
        warnings.simplefilter("ignore")
        document = votable.parse(file, verify="ignore")
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


def look_at_ipac(path: Path, options: Options) -> Source:
    from astropy.table import Table

    with opened(path) as file:
        text = file.read().decode("utf-8", "replace")
    table = Table.read(text.splitlines(), format="ascii.ipac")
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

    def read(_: State) -> Iterator[pa.Table]:
        for part in slices(len(rows)):
            yield rows.slice(part.start, part.stop - part.start)

    return _catalogue(path, format, rows.schema, read, about, left_out, len(rows))


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
        left_out=left_out,
    )


# ECSV


def look_at_ecsv(path: Path, options: Options) -> Source:
    import pyarrow as pa
    from astropy.table import meta

    lines, comments = [], 0
    with opened(path) as file:
        for raw in file:
            line = raw.decode("utf-8").lstrip("\ufeff")
            if not line.startswith("#"):
                break
            comments += 1
            lines.append(line[1:].removeprefix(" ").rstrip("\r\n"))
    header = meta.get_header_from_yaml(lines[1:])
    delimiter = header.get("delimiter", " ")
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
        fields.append(unit(pa.field(name, pa.type_for_alias(kind)), column.get("unit")))
        if said := {key: column[key] for key in ("description", "meta") if key in column}:
            columns[name] = said
    schema = pa.schema(fields)
    about = dict(header.get("meta") or {})
    if columns:
        about["columns"] = columns

    def read(_: State) -> Iterator[pa.Table]:
        from pyarrow import csv

        with opened(path) as file:
            batches = csv.open_csv(
                file,
                read_options=csv.ReadOptions(skip_rows=comments),
                parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types={f.name: f.type for f in fields},
                    include_columns=schema.names,
                    # Gaia's archive writes `null`, astropy an empty string.
                    null_values=["", "null"],
                    true_values=["True", "true", "1"],
                    false_values=["False", "false", "0"],
                    strings_can_be_null=True,
                ),
            )
            for batch in batches:
                table = pa.Table.from_batches([batch]).select(schema.names)
                yield table.cast(schema)

    return _catalogue(path, "ecsv", schema, read, about, left_out, None)
