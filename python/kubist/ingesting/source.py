"""The interface between a format and the driver: an opened file, and the steps of reading it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _box, _kubist
from .._errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

# Every other exception of a format's library means a damaged file, also a Rust panic, which is a
# BaseException.
NOT_OF_FILES = (KeyboardInterrupt, SystemExit, GeneratorExit)
# The number of rows of an Arrow table that is built from arrays of a file.
ROWS_AT_ONCE = 1_000_000


@dataclass
class Options:
    topology: Path | None = None
    time: float | None = None
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    names: Sequence[str] | None = None
    null: Sequence[str] = ()
    decimal: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    hdu: str | int | None = None
    particles: Sequence[str | int] | None = None
    crs: str | int | None = None
    keep_going: bool = False


@dataclass
class State:
    """The state that the steps of an ingestion share.

    Attributes:
        added: Columns that were added to the table, with a default for files that lack them.
        needed: Columns that each file must have: dimensions and identity.
    """

    next_frame: int = 0
    schema: pa.Schema | None = None
    added: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()


@dataclass
class Step:
    """The rows of a commit: a file, or a time step of a file.

    Attributes:
        label: Identifies the step within its file.
        read: Returns the rows; an exception means a damaged file.
        time: The time in the file's unit; None if the file has none.
        part: Identifies the file among files of the same time, such as the rank that wrote it.
        number: The solver's step, for queries with ``steps``; None if the file has none. The report
            lists repeated numbers.
    """

    label: str
    read: Callable[[State], Iterator[pa.Table]]
    time: float | None = None
    part: str = ""
    number: int | None = None


@dataclass(frozen=True)
class Part:
    """The position of a file among the files of a snapshot.

    Attributes:
        names: The snapshot's files; empty if unknown.
        rows: The particles in this file, from its header.
        total: The particles in the snapshot, from the header; 0 if unknown.
        label: The label of the file's only step.
    """

    files: int
    names: tuple[str, ...]
    rows: int
    total: int
    label: str


@dataclass
class Source:
    """An opened file, folder or series of files.

    Attributes:
        schema: The columns; the key ``unit`` of a field's metadata is its unit.
        capacity: The number of rows in a cube of a new table; None: the default.
        steps: Returns the steps, in order of time. Its argument returns the number of rows that
            were committed under a label, or None.
        grows: The file may grow, so its location identifies it instead of its contents.
        in_order: The rows come in the order of a dimension, so the driver can store parts of a step
            while it reads others.
        numbers_frames: The numbers of its frames continue the numbers in the table.
        file: The engine's own reader of the file, from which the driver gets everything except
        ``left_out``.
        notes: Notes for the user, such as a time that stays a number.
        part_of: The position among the files of a snapshot; None: the file is a whole snapshot.
        period: The lengths after which columns of positions repeat.
        left_out: The parts that are not in the table (columns, variables, tables, keywords), with
        reasons.
        joins: Takes the table's metadata, and returns changes. It raises InvalidInput if numbers
            have different meanings in the table and the file.
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
    part_of: Part | None = None
    period: Mapping[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    joins: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    def key(self) -> str:
        """The prefix of the tokens of the file's commits."""
        if self.grows:
            return str(self.path.resolve())
        return f"{self.path.name}:{fingerprint(self.path)}"


class Reading:
    """The interface through which the driver in the crate kubist-ingest reads a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._steps: Iterator[Step] = iter(())
        self._step: Step | None = None
        self._parts: Iterator[pa.Table] = iter(())
        self._state = State()

    @property
    def file(self) -> _kubist.File | None:
        return self._source.file

    def facts(self) -> tuple[str, pa.Schema, list[tuple[str, str, Any, Any]]]:
        source = self._source
        facts = {
            "path": str(source.path),
            "format": source.format,
            "dimensions": list(source.dimensions),
            "identity": list(source.identity),
            "lookup": list(source.lookup),
            "capacity": None if source.capacity is None else int(source.capacity),
            "period": dict(source.period),
            "metadata": as_json(source.metadata),
            "rows": None if source.rows is None else int(source.rows),
            "times": [float(time) for time in source.times],
            "in_order": source.in_order,
            "numbers_frames": source.numbers_frames,
            "joins": source.joins is not None,
            "notes": list(source.notes),
        }
        return json.dumps(facts), source.schema, _box.dimensions(source.domains)

    def key(self) -> str:
        return self._source.key()

    def left_out(self) -> list[tuple[str, str]]:
        return list(self._source.left_out.items())

    def leave_out(self, name: str, why: str) -> None:
        self._source.left_out[name] = why

    def joins(self, metadata: str) -> str:
        """The changes of a table's metadata; metadata and changes are JSON."""
        assert self._source.joins is not None
        return json.dumps(as_json(self._source.joins(json.loads(metadata))))

    def start(self, committed: Callable[[str], int | None]) -> None:
        self._steps = iter(self._source.steps(committed))

    def next_step(self) -> tuple[str, float | None, str, int | None] | None:
        self._step = step = next_item(self._steps, self._source.path)
        if step is None:
            return None
        time = None if step.time is None else float(step.time)
        return step.label, time, step.part, None if step.number is None else int(step.number)

    def begin(
        self, next_frame: int, schema: _kubist.Schema, added: list[str], needed: list[str]
    ) -> None:
        import pyarrow as pa

        assert self._step is not None
        self._state = State(next_frame, pa.schema(schema), frozenset(added), frozenset(needed))
        self._parts = iter(self._step.read(self._state))

    def next_rows(self) -> tuple[pa.Table | None, int]:
        """The next rows of the step, and the number of the next frame."""
        assert self._step is not None
        part = next_item(self._parts, self._step.label)
        return part, self._state.next_frame


@dataclass
class Format:
    """A format of files, and the library that reads it.

    Attributes:
        extra: The extra of the package that installs ``module``.
        matches: Returns whether a file with this name and these first bytes has the format; a
        folder has no bytes.
    """

    name: str
    about: str
    extra: str
    module: str
    matches: Callable[[Path, bytes], bool]
    open: Callable[[Path, Options], Source]

    def need(self, path: Path) -> None:
        """Raises ImportError if the library is missing, with the command that installs it."""
        try:
            __import__(self.module)
        except ImportError as error:
            command = f"pip install 'kubist[{self.extra}]'"
            raise ImportError(
                f"{path}: {self.about} is read with {self.module}: {command}"
            ) from error


def begins(*heads: bytes) -> Callable[[Path, bytes], bool]:
    return lambda path, head: head.startswith(heads)


def ends(*endings: str) -> Callable[[Path, bytes], bool]:
    return lambda path, head: path.suffix.lower() in endings


def unit(column: pa.Field, text: str | None) -> pa.Field:
    return column.with_metadata({"unit": text}) if text else column


def with_time(schema: pa.Schema, unit_of_time: str | None = None) -> pa.Schema:
    """The columns, followed by ``time`` if it is missing."""
    import pyarrow as pa

    if "time" in schema.names:
        return schema
    return schema.append(unit(pa.field("time", pa.float64()), unit_of_time))


def slices(rows: int) -> Iterator[slice]:
    """Slices that read an array in parts; one slice if there are no rows."""
    for start in range(0, max(rows, 1), ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def split_columns(name: str, array: Any, components: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of an array; an array of vectors has one column for each component."""
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
    """NumPy arrays as a table, in native byte order."""
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
    columns_ = [cast(c, f) for c, f in zip(filled, schema, strict=True)]
    # Numbers keep their types: Arrow would make 1e60 infinite in narrower floats.
    kinds = [f.with_type(c.type) for c, f in zip(columns_, schema, strict=True)]
    return pa.table(columns_, schema=pa.schema(kinds))


def join(fields: dict[str, pa.Field], new: pa.Field, where: str) -> None:
    """Adds a column to ``fields``, the columns of a file.

    If the column exists, its type is widened to contain all values, and its unit stays.

    Raises:
        InvalidInput: No type contains all values. ``where`` begins the message.
    """
    import pyarrow as pa

    known = fields.setdefault(new.name, new)
    if known.type == new.type:
        return
    try:
        both = pa.unify_schemas(
            [pa.schema([known.remove_metadata()]), pa.schema([new.remove_metadata()])],
            promote_options="permissive",
        )
    except pa.ArrowException:
        raise InvalidInput(
            f"{where}: column {new.name} is {new.type}, and was {known.type} before: name the "
            "other columns (columns)"
        ) from None
    fields[new.name] = known.with_type(both.field(0).type)


def in_units(schema: pa.Schema, own: Mapping[str, pa.Field]) -> pa.Schema:
    """The columns with the units in ``own``, from which the table converts the values."""
    import pyarrow as pa

    return pa.schema(
        [f.with_metadata(own[f.name].metadata) if f.name in own else f for f in schema]
    )


def cast(column: Any, field_: pa.Field, where: str = "") -> Any:
    """Converts a column to a type.

    Numbers and times stay, because the table checks and converts them. ``where`` begins the message
    of an error.

    Raises:
        InvalidInput: A value cannot be converted to the type.
    """
    import pyarrow as pa

    if column.type == field_.type or _of_one_kind(column.type, field_.type):
        return column
    try:
        return column.cast(field_.type)
    except pa.ArrowException as error:
        raise InvalidInput(f"{where}column {field_.name}: {error}") from None


def _of_one_kind(one: Any, other: Any) -> bool:
    """Whether the table converts between these types itself."""
    import pyarrow as pa

    def is_number(kind: Any) -> bool:
        types = pa.types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    kinds = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time, pa.types.is_date)
    return any(of(one) and of(other) for of in (is_number, *kinds))


def open_end(path: Path) -> list[str]:
    """A note if a text file does not end with a line end, so that digits may be missing."""
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read() == b"\n":
            return []
    return [f"{path.name}: its last line has no end: the last value may be cut off"]


INFINITE = re.compile(rb"[-+]?inf(inity)?", re.IGNORECASE)


def check_range(where: str, name: str, values: Any, words: Callable[[int], bytes]) -> None:
    """Checks that infinite numbers of a text are written as such: 1e400 is beyond a float.

    Args:
        values: A NumPy array.
        words: Returns the text of a row.

    Raises:
        ValueError: A number is beyond the range.
    """
    import numpy as np

    if values.dtype.kind != "f":
        return
    for row in np.flatnonzero(np.isinf(values)):
        word = words(int(row)).strip()
        if not INFINITE.fullmatch(word):
            said = word.decode("utf-8", "replace")
            raise ValueError(
                f"{where}row {row}: {name} is {said}, beyond the range of float{8 * values.itemsize}"
            )


def fingerprint(path: Path) -> str:
    """A short hash of all bytes of a file or folder, or of many parts of a large file."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return _kubist.fingerprint([str(file) for file in files])


def next_item(items: Iterator[Any], where: Path | str) -> Any:
    """The next item, or None. An exception of a format's library means a damaged file."""
    try:
        return next(items, None)
    except NOT_OF_FILES:
        raise
    except BaseException as error:
        raise InvalidInput(named(where, error)) from error


def as_json(value: Any) -> Any:
    """A value as JSON has it; other values as their text."""
    if hasattr(value, "unit") and hasattr(value, "value"):
        # A Quantity of astropy.
        return {"value": as_json(value.value), "unit": str(value.unit)}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def named(path: Path | str, error: BaseException) -> str:
    """One line with the location and the message; messages of libraries may have several lines."""
    text = reason(error)
    return text if str(path) in text else f"{path}: {text}"


def reason(error: BaseException) -> str:
    """The message of an error in one line, in words for a person who did not call its library."""
    if isinstance(error, UnicodeDecodeError):
        return f"its text is not UTF-8: byte 0x{error.object[error.start]:02x} cannot be read"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__
