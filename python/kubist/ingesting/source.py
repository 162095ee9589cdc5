"""What a reader says of a file before it is read, and the steps in which it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _kubist
from .._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

# All else that a format's library raises means a file that is not sound; a panic of a library in
# Rust is no Exception.
NOT_OF_FILES = (KeyboardInterrupt, SystemExit, GeneratorExit)
# A table that is built from arrays of a file holds so many rows at once.
ROWS_AT_ONCE = 1_000_000


@dataclass
class Options:
    """What the user said about files before they are opened."""

    topology: Path | None = None
    time: float | None = None
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    names: Sequence[str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    hdu: str | int | None = None
    keep_going: bool = False


@dataclass
class State:
    """What the steps of one ingestion share.

    Attributes:
        schema: The table's columns.
        added: The columns that were added to it: a file that lacks one has its default.
        needed: The columns that each file must have: dimensions and identity.
    """

    next_frame: int = 0
    schema: pa.Schema | None = None
    added: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


@dataclass
class Step:
    """What is committed together: a file, or one of its time steps.

    Attributes:
        label: Tells it from the other steps of its file.
        read: Its rows. An exception means that the file is not sound.
        time: When it is, in the file's unit, if the file says so.
        part: What tells it from other files of the same time, as the rank that wrote it.
        number: The solver's step, if the file says so: queries find it under ``steps``. One that comes
            twice is reported.
    """

    label: str
    read: Callable[[State], Iterator[pa.Table]]
    time: float | None = None
    part: str = ""
    number: int | None = None


@dataclass
class Source:
    """A file, a folder or a series of files that has been looked at.

    Attributes:
        schema: The columns; a field's metadata has its unit under ``unit``.
        capacity: How many records a cube of a new table keeps; None: the default.
        steps: The steps, in order of time. The argument says of a label how many rows were
            committed under it, None if none were.
        grows: It may be longer later: then it is known by where it is, not by what is in it.
        in_order: Its rows come in the order of a dimension: parts of a step are then laid out while
            the next ones are read.
        numbers_frames: Its frames get the numbers behind those that the table has.
        file: The engine's own reader of it; then its records may be without a position.
        notes: Remarks for the user, such as a time that stays a number.
        left_out: What is not in the table: columns, variables, tables, keywords, with the reason.
        joins: What changes in the metadata of a table that it is put into. It raises
            InvalidInput where its numbers mean something else than those of the table.
    """

    path: Path
    format: str
    schema: pa.Schema
    steps: Callable[[Callable[[str], int | None]], Iterable[Step]]
    dimensions: Sequence[str] = ()
    identity: Sequence[str] = ()
    lookup: Sequence[str] = ()
    domains: Mapping[str, Any] = field(default_factory=dict)
    capacity: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    times: Sequence[float] = ()
    grows: bool = False
    in_order: bool = False
    numbers_frames: bool = False
    file: _kubist.File | None = None
    notes: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    joins: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    def key(self) -> str:
        """The name under which its commits are known."""
        if self.grows:
            return str(self.path.resolve())
        return f"{self.path.name}:{fingerprint(self.path)}"


@dataclass
class Format:
    """A kind of file, and the library that reads it.

    Attributes:
        extra: The optional part of the package that installs ``module``.
        matches: Whether a file of this name that begins with these bytes is one; also asked
            of folders, with no bytes.
        open: Looks at a file.
    """

    name: str
    about: str
    extra: str
    module: str
    matches: Callable[[Path, bytes], bool]
    open: Callable[[Path, Options], Source]

    def need(self, path: Path) -> None:
        """Raises ImportError: its library is missing; the message has the command."""
        try:
            __import__(self.module)
        except ImportError as error:
            command = f"pip install 'kubist[{self.extra}]'"
            raise ImportError(
                f"{path}: {self.about} is read with {self.module}: {command}"
            ) from error


def begins(*heads: bytes) -> Callable[[Path, bytes], bool]:
    """Whether a file begins with one of these."""
    return lambda path, head: head.startswith(heads)


def ends(*endings: str) -> Callable[[Path, bytes], bool]:
    """Whether a file's name has one of these endings."""
    return lambda path, head: path.suffix.lower() in endings


def unit(column: pa.Field, text: str | None) -> pa.Field:
    """The column in this unit."""
    return column.with_metadata({"unit": text}) if text else column


def with_time(schema: pa.Schema, unit_of_time: str | None = None) -> pa.Schema:
    """The columns, and ``time`` behind them, if it is not there."""
    import pyarrow as pa

    if "time" in schema.names:
        return schema
    return schema.append(unit(pa.field("time", pa.float64()), unit_of_time))


def slices(rows: int) -> Iterator[slice]:
    """Parts of an array that is read piece by piece; one if there are no rows."""
    for start in range(0, max(rows, 1), ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def split_columns(name: str, array: Any, components: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of an array of rows: of vectors one a component."""
    import numpy as np

    values = np.asarray(array)
    if values.ndim == 1:
        return {name: values}
    count = int(np.prod(values.shape[1:]))
    flat = values.reshape(len(values), count)
    if components is None or len(components) != count:
        if count == 1:
            return {name: flat[:, 0]}
        components = [f"{name}_{axis}" for axis in range(count)]
    return {column: flat[:, axis] for axis, column in enumerate(components)}


def arrow_table(columns: Mapping[str, Any], schema: pa.Schema | None = None) -> pa.Table:
    """Arrays of NumPy as a table, in native byte order."""
    import numpy as np
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            arrays[name] = values
            continue
        array = np.ascontiguousarray(values)
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8", "replace")
        if array.dtype.byteorder not in "=|":
            array = array.astype(array.dtype.newbyteorder("="))
        arrays[name] = pa.array(array)
    table = pa.table(arrays)
    if schema is None:
        return table
    rows = table.num_rows
    filled = [table.column(f.name) if f.name in arrays else pa.nulls(rows, f.type) for f in schema]
    return pa.table([cast(c, f) for c, f in zip(filled, schema, strict=True)], schema=schema)


def cast(column: Any, field_: pa.Field, where: str = "") -> Any:
    """The values in the type of a column, or numbers and times as they are: the table decides
    whether those fit. ``where`` begins the message if they do not fit.

    Raises:
        InvalidInput: A value has no place in that type.
    """
    import pyarrow as pa

    if column.type == field_.type or _of_one_kind(column.type, field_.type):
        return column
    try:
        return column.cast(field_.type)
    except pa.ArrowException as error:
        raise InvalidInput(f"{where}column {field_.name}: {error}") from None


def _of_one_kind(one: Any, other: Any) -> bool:
    """Whether the table itself makes one of the other, without loss."""
    import pyarrow as pa

    def is_number(kind: Any) -> bool:
        types = pa.types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    kinds = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time, pa.types.is_date)
    return any(of(one) and of(other) for of in (is_number, *kinds))


def fingerprint(path: Path) -> str:
    """What is in a file or a folder, in a few letters: all of it, or of large files many parts."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return _kubist.fingerprint([str(file) for file in files])
