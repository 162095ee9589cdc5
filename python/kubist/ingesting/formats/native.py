"""Parquet, Arrow, CSV and NPZ, through the readers of the command.

They do not say which columns are positions. Text is read in the types of the table; where that is
new, in types that all the files fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ... import _kubist
from ..._errors import InvalidInput
from ..source import Options, Source, State, Step

if TYPE_CHECKING:
    import pyarrow as pa

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

    columns = options.columns
    if columns is not None and options.time is not None:
        # It need not be in the file.
        columns = [name for name in columns if name != "time"]
    file = _kubist.File(
        str(path),
        columns=None if columns is None else list(columns),
        delimiter=options.delimiter,
        names=None if options.names is None else list(options.names),
        text=format == "csv",
        limits=dict(options.limits),
    )
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
    )


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
