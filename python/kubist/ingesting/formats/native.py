"""Parquet, Arrow, CSV and NPZ, through the readers of the command.

They do not say which columns are positions. Text is read in the types of the table; where that is
new, in types that all the files fit.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ... import _kubist
from ..._errors import InvalidInput
from ..source import Options, Source, State, Step

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

OF_SCHEMA = ("ARROW:", "pandas", "org.apache.spark.")
"""Metadata of programs that say the types of columns once more."""
MOST_BYTES = 1 << 16
"""Of the metadata of a file."""
KINDS = "biufSUMm"
"""Kinds of NumPy's types that columns have."""
TEXTS = (".csv", ".tsv", ".txt", ".dat")
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")


def is_text(path: Path, head: bytes) -> bool:
    """Whether a file is called as text is, compressed or not."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return bool(head) and name.endswith(TEXTS)


def look(format: str) -> Callable[[Path, Options], Source]:
    """How a file of this format is looked at."""
    return lambda path, options: _look(format, path, options)


def _look(format: str, path: Path, options: Options) -> Source:
    import pyarrow as pa

    columns = None if options.columns is None else list(options.columns)
    if columns is not None and options.time is not None:
        # It need not be in the file.
        columns = [name for name in columns if name != "time"]

    def opened(columns: list[str] | None) -> _kubist.File:
        return _kubist.File(
            str(path),
            columns=columns,
            delimiter=options.delimiter,
            names=None if options.names is None else list(options.names),
            null=list(options.null),
            decimal=options.decimal,
            text=format == "csv",
            limits=dict(options.limits),
        )

    left_out: dict[str, str] = {}
    try:
        file = opened(columns)
    except InvalidInput:
        columns, left_out = _of_npz(path) if format == "npz" and columns is None else (None, {})
        if not left_out or not columns:
            raise
        file = opened(columns)
    if columns is None:
        columns, left_out = _plain(pa.schema(file.schema()))
        if left_out and columns:
            file = opened(columns)
    schema = pa.schema(file.schema())

    def read(state: State) -> Iterator[pa.Table]:
        assert state.schema is not None
        # Added columns have their default, and the time may be given by the user.
        lacking = state.added | ({"time"} if options.time is not None else set())
        wanted = [f for f in state.schema if f.name in schema.names or f.name not in lacking]
        # The driver adds them to the table.
        wanted += [f for f in schema if f.name not in state.schema.names]
        needed = sorted(state.needed - lacking)
        rows = file.read(_kubist.Schema(pa.schema(wanted)), needed)
        while (batch := rows.next_batch()) is not None:
            yield pa.Table.from_batches([pa.record_batch(batch)])

    return Source(
        path=path,
        format=format,
        schema=schema,
        steps=lambda _: [Step("rows", read, part=path.name)],
        file=file,
        metadata=_said(format, path, left_out),
        left_out=left_out,
    )


def _said(format: str, path: Path, left_out: dict[str, str]) -> dict[str, Any]:
    """Metadata of Parquet and Arrow, and comments of CSV, under the name of the format."""
    import pyarrow as pa
    from pyarrow import parquet

    said: dict[str, str] = {}
    try:
        if format == "parquet":
            said = _texts(parquet.read_schema(path).metadata)
        elif format == "arrow":
            with path.open("rb") as file:
                read = pa.ipc.open_file if file.read(6) == b"ARROW1" else pa.ipc.open_stream
                file.seek(0)
                said = _texts(read(file).schema.metadata)
        elif format == "csv":
            with pa.input_stream(str(path)) as stream:
                lines = stream.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
            begin = (line.removeprefix("\ufeff") for line in lines)
            comments = list(itertools.takewhile(lambda line: line[:1] == "#", begin))
            said = {"comments": "\n".join(comments)} if comments else {}
    except (OSError, pa.ArrowException):
        # The reader of the rows says what is wrong, and reads more kinds of files.
        return {}
    if sum(len(name) + len(value) for name, value in said.items()) > MOST_BYTES:
        left_out["metadata"] = "they are too long for the metadata of a table"
        return {}
    return {format: said} if said else {}


def _texts(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    pairs = ((n.decode("utf-8", "replace"), v) for n, v in (metadata or {}).items())
    return {n: v.decode("utf-8", "replace") for n, v in pairs if not n.startswith(OF_SCHEMA)}


def _plain(schema: pa.Schema) -> tuple[list[str], dict[str, str]]:
    """The columns of one value in a row, and the others with the reason."""
    import pyarrow as pa

    odd = {f.name: f.type for f in schema if pa.types.is_nested(f.type)}
    columns = [name for name in schema.names if name not in odd]
    return columns, {f"column {n}": f"its type {t} has no place in a table" for n, t in odd.items()}


def _of_npz(path: Path) -> tuple[list[str], dict[str, str]]:
    """The columns of the arrays that are rows, and the other arrays with the reason.

    The rows are those of most arrays. A file that is no archive of arrays has none.
    """
    heads: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as file:
                    heads[name.removesuffix(".npy")] = _head(file)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):
        return [], {}
    lengths = [shape[0] for shape, _ in heads.values() if shape]
    rows = max(lengths, key=lengths.count, default=0)
    columns, left_out = [], {}
    for name, (shape, kind) in heads.items():
        if shape[:1] != (rows,):
            left_out[f"array {name}"] = f"its shape {shape} has no value for each of {rows:,} rows"
        elif kind.kind not in KINDS or len(shape) > 2:
            left_out[f"array {name}"] = f"its type {kind} and shape {shape} have no column"
        else:
            columns += [name] if len(shape) == 1 else [f"{name}_{i}" for i in range(shape[1])]
    return columns, left_out


def _head(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in a file."""
    from numpy.lib import format

    read = {1: format.read_array_header_1_0, 2: format.read_array_header_2_0}
    version = format.read_magic(file)[0]
    if version not in read:
        raise ValueError(f"version {version} of arrays is not known")
    shape, _, kind = read[version](file)
    return shape, kind


def agree(sources: Sequence[Source], types: Mapping[str, str]) -> None:
    """Gives all files the columns that hold the values of each.

    Raises:
        InvalidInput: They have other columns, or types that no column can hold.
    """
    import pyarrow as pa

    files = [source.file for source in sources if source.file is not None]
    if not files:
        return
    if len(files) < len(sources):
        other = next(source.path for source in sources if source.file is None)
        raise InvalidInput(
            f"{other}: a new table takes Parquet, Arrow, CSV and NPZ, or files of other formats: "
            "ingest these by themselves"
        )
    names = set(pa.schema(files[0].schema()).names)
    asked = [(name, kind) for name, kind in types.items() if name in names]
    schema = pa.schema(_kubist.common(files, asked))
    for source in sources:
        source.schema = schema


def check_positions(sources: Sequence[Source], schema: pa.Schema, dimensions: Sequence[str]) -> None:
    """Reads dimensions of text as numbers. A word in a column of CSV makes the whole column text.

    Raises:
        InvalidInput: It names the row of the word.
    """
    import pyarrow as pa

    for name in dimensions:
        if name not in schema.names or not pa.types.is_string(schema.field(name).type):
            continue
        number = _kubist.Schema(pa.schema([pa.field(name, pa.float64())]))
        for source in sources:
            if source.file is not None and source.format == "csv":
                rows = source.file.read(number, [])
                while rows.next_batch() is not None:
                    pass
