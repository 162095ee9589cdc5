"""A sample of a table, or of files of any format that `kubist.ingest` reads."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _create
from .._directory import location_of
from .._errors import InvalidInput, NotATable
from ..ingesting import formats
from ..ingesting.paths import expanded
from ..ingesting.source import Options, Source, State, next_item

if TYPE_CHECKING:
    import pyarrow as pa

FILES = 16
"""Files of a long series that are sampled."""
STEPS = 16
"""Steps of a file that are sampled."""


@dataclass(frozen=True, slots=True)
class Data:
    """A sample of rows, and the properties of the data.

    Attributes:
        total: The number of all rows.
        is_exact: Whether ``total`` is exact, and not extrapolated from the sampled files.
        location: As the user named it.
        dimensions, identity: From the format or the table; empty if it has none.
        notes: How the sample was taken.
    """

    rows: pa.Table
    total: int
    is_exact: bool
    location: str
    is_table: bool
    dimensions: Sequence[str] = ()
    identity: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)


def sampled(location: str | os.PathLike[str], rows: int, seconds: float, seed: int = 0) -> Data:
    name = location_of(location)
    try:
        with _create.open(name) as table:
            taken = table.query(limit=rows).to_arrow()
            about = table._about()
            dimensions = [dimension.column for dimension in about.dimensions]
            return Data(taken, len(table), True, name, True, dimensions, list(about.identity))
    except NotATable:
        if "://" in name and not name.startswith("file://"):
            raise
    return _of_files(os.fspath(location), rows, seconds, seed)


def _of_files(location: str, rows: int, seconds: float, seed: int) -> Data:
    import pyarrow as pa

    paths = list(expanded([location]))
    if not paths:
        raise InvalidInput(f"{location}: there are no files")
    random = np.random.default_rng(seed)
    chosen = paths if len(paths) <= FILES else _spread(paths, FILES)
    end = time.monotonic() + seconds
    parts: list[pa.Table] = []
    first: Source | None = None
    read_rows, known, all_read = 0, 0, len(chosen) == len(paths)
    for number, path in enumerate(chosen):
        kind = formats.of(path, None, False)
        if kind is None:
            continue
        kind.need(path)
        source = kind.open(path, Options())
        first = source if first is None else first
        known += source.rows or 0
        quota = max(rows // len(chosen), 1)
        left = max(end - time.monotonic(), 0) / (len(chosen) - number)
        taken, seen, whole = _of_source(source, quota, left, random)
        parts += taken
        read_rows += seen
        all_read &= whole
        known += 0 if source.rows else seen
    if first is None:
        raise InvalidInput(f"{location}: no file of a known format is there")
    sample = pa.concat_tables(parts, promote_options="permissive") if parts else None
    if sample is None or not sample.num_rows:
        raise InvalidInput(f"{location}: the files have no rows")
    if sample.num_rows > rows:
        sample = sample.take(np.sort(random.choice(sample.num_rows, rows, replace=False)))
    total = known * len(paths) // len(chosen)
    counted = len(chosen) == len(paths) and (all_read or known > read_rows)
    notes = []
    if len(chosen) < len(paths):
        notes.append(f"rows of {len(chosen)} of {len(paths):,} files")
    if not all_read:
        notes.append(f"{read_rows:,} rows were read")
    names = set(sample.column_names)
    whole_identity = list(first.identity) if set(first.identity) <= names else []
    dimensions = [name for name in first.dimensions if name in names]
    return Data(sample, total, counted, location, False, dimensions, whole_identity, notes)


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    return [items[i] for i in sorted(set(np.linspace(0, len(items) - 1, count).astype(int)))]


def _of_source(
    source: Source, quota: int, seconds: float, random: np.random.Generator
) -> tuple[list[pa.Table], int, bool]:
    """Random rows of a file, the number of rows read, and whether these are all rows."""
    if source.format == "parquet":
        return _of_parquet(source, quota, random)
    steps = list(source.steps(lambda _label: None))
    picked = steps if len(steps) <= STEPS else _spread(steps, STEPS)
    end = time.monotonic() + seconds
    parts: list[pa.Table] = []
    seen, whole = 0, len(picked) == len(steps)
    for step in picked:
        for part in _parts(step.read(State(schema=source.schema)), source.path):
            seen += part.num_rows
            kept = part.num_rows
            if seen > quota:
                # Later parts give as many rows as earlier ones, so memory stays bounded.
                kept = min(part.num_rows, max(quota // len(picked), 1))
            parts.append(part.take(np.sort(random.choice(part.num_rows, kept, replace=False))))
            if time.monotonic() > end:
                return parts, seen, False
    return parts, seen, whole


def _parts(read: Iterator[pa.Table], where: Path) -> Iterator[pa.Table]:
    while (part := next_item(read, where)) is not None:
        if part.num_rows:
            yield part


def _of_parquet(
    source: Source, quota: int, random: np.random.Generator
) -> tuple[list[pa.Table], int, bool]:
    from pyarrow import parquet

    parts, seen = [], 0
    with parquet.ParquetFile(source.path) as file:
        groups = random.permutation(file.num_row_groups)
        each = max(quota // max(len(groups), 1), 1)
        for number, group in enumerate(groups):
            part = file.read_row_group(int(group), columns=source.schema.names)
            seen += part.num_rows
            kept = min(part.num_rows, max(each, quota // 8))
            parts.append(part.take(np.sort(random.choice(part.num_rows, kept, replace=False))))
            if sum(p.num_rows for p in parts) >= quota:
                return parts, seen, number + 1 == len(groups)
    return parts, seen, True
