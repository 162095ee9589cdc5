"""Recognises Parquet, Arrow, CSV and NPZ, which the driver reads itself.

In an NPZ archive, it finds the arrays that are columns.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ... import _kubist
from ..._errors import InvalidInput
from ..source import Options, Source, State, Step

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KINDS = "biufSU"
"""Kinds of NumPy's types that columns have, next to times."""
TICKS = {"M": ("D", "s", "ms", "us", "ns"), "m": ("s", "ms", "us", "ns")}
"""Units of dates, times and durations that columns have."""
TEXTS = (".csv", ".tsv", ".txt", ".dat")
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")


def is_text(path: Path, head: bytes) -> bool:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    return bool(head) and name.endswith(TEXTS)


def look(format: str) -> Callable[[Path, Options], Source]:
    return lambda path, options: _look(format, path, options)


def _look(format: str, path: Path, options: Options) -> Source:
    import pyarrow as pa

    columns = None if options.columns is None else list(options.columns)
    if columns is not None and options.time is not None:
        # The file may have no time.
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
    left_out |= file.left_out()
    schema = pa.schema(file.schema())

    def read(state: State) -> Iterator[pa.Table]:
        rows = file.read(_kubist.Schema(state.schema))
        while (batch := rows.next_batch()) is not None:
            yield pa.Table.from_batches([pa.record_batch(batch)])

    return Source(
        path=path,
        format=format,
        schema=schema,
        steps=lambda _: [Step("rows", read, part=path.name)],
        file=file,
        left_out=left_out,
    )


def _of_npz(path: Path) -> tuple[list[str], dict[str, str]]:
    """The columns of the arrays that are rows, and the other arrays with the reason.

    The length of most arrays is the number of rows; other files have no rows.
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
        elif not _is_readable(kind) or len(shape) > 2:
            left_out[f"array {name}"] = f"its type {kind} and shape {shape} have no column"
        else:
            columns += [name] if len(shape) == 1 else [f"{name}_{i}" for i in range(shape[1])]
    return columns, left_out


def _is_readable(kind: np.dtype[Any]) -> bool:
    import numpy as np

    if kind.kind in TICKS:
        unit, count = np.datetime_data(kind)
        return count == 1 and unit in TICKS[kind.kind]
    return kind.kind in KINDS and (kind.kind in "SU" or kind.itemsize <= 8)


def _head(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    from numpy.lib import format

    read = {1: format.read_array_header_1_0, 2: format.read_array_header_2_0}
    version = format.read_magic(file)[0]
    if version not in read:
        raise ValueError(f"version {version} of arrays is not known")
    shape, _, kind = read[version](file)
    return shape, kind
