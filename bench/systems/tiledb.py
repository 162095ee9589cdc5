"""TileDB: a sparse array in Hilbert order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import tiledb

from ..keys import column, uniform
from ..question import Answer, Question, Unable
from .base import CORES, System

BUFFER_BYTES = 64 << 20
FRAGMENT_ROWS = 8_000_000
"""Rows per write, which are sorted in memory. Fragments are consolidated afterwards."""


class TileDB(System):
    name = "TileDB"
    package = "tiledb"
    settings = (
        "sparse array, float32 dimensions, Hilbert cells, 10,000 cells a tile, byte shuffle and "
        "zstd; unordered reads into buffers of 64 MB; all cores"
    )

    def _context(self) -> tiledb.Ctx:
        return tiledb.Ctx(
            {
                "sm.io_concurrency_level": str(CORES),
                "sm.compute_concurrency_level": str(CORES),
                "py.init_buffer_bytes": str(BUFFER_BYTES),
            }
        )

    def _create(self) -> None:
        packed = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=1)])
        dimensions = [
            tiledb.Dim(name, domain=ends, tile=None, dtype=np.float32)
            for name, ends in self.data.domain.items()
        ]
        attributes = [
            tiledb.Attr(name, dtype=kind, filters=packed) for name, kind in self._attributes()
        ]
        schema = tiledb.ArraySchema(
            tiledb.Domain(*dimensions),
            attrs=attributes,
            sparse=True,
            cell_order="hilbert",
            capacity=10_000,
            allows_duplicates=True,
            coords_filters=packed,
        )
        tiledb.Array.create(str(self.path), schema)

    def _attributes(self) -> list[tuple[str, np.dtype]]:
        kinds = [(f.name, np.dtype(f.type.to_pandas_dtype())) for f in self.data.schema]
        kinds.append(("r", np.dtype(np.float32)))
        return [(name, kind) for name, kind in kinds if name not in self.data.domain]

    def _write(self, rows: pa.Table) -> None:
        values = {name: column(rows, name) for name in self.data.columns} | {"r": uniform(rows)}
        place = tuple(values.pop(name) for name in self.data.domain)
        with tiledb.open(str(self.path), "w", ctx=self._context()) as array:
            array[place] = values

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._create()
        held: list[pa.RecordBatch] = []
        fragments = held_rows = 0
        for batch in batches:
            held.append(batch)
            held_rows += batch.num_rows
            if held_rows >= FRAGMENT_ROWS:
                self._write(pa.Table.from_batches(held))
                held, held_rows, fragments = [], 0, fragments + 1
        if held:
            self._write(pa.Table.from_batches(held))
            fragments += 1
        if fragments > 1:
            self._consolidate()

    def _consolidate(self) -> None:
        context = self._context()
        tiledb.consolidate(str(self.path), ctx=context)
        tiledb.vacuum(str(self.path), ctx=context)

    def start_stream(self) -> None:
        self._create()

    def commit(self, batch: pa.RecordBatch) -> None:
        self._write(pa.Table.from_batches([batch]))

    def end_stream(self) -> None:
        """Fragments stay as written, because TileDB does not consolidate them automatically."""

    def open(self) -> None:
        self._array = tiledb.open(str(self.path), ctx=self._context())

    def ask(self, question: Question) -> Answer:
        if question.any_rows:
            raise Unable("its queries have no limit")
        said = []
        if question.share is not None:
            said.append(f"r < {question.share!r}")
        if question.where is not None:
            said.append(" ".join(map(str, question.where)))
        if question.particle is not None:
            said.append(f"pid == {question.particle}")
        wanted = [name for name, _ in self._attributes()]
        if question.limit is None:
            wanted.remove("r")
        query = self._array.query(
            attrs=wanted,
            dims=list(self.data.domain),
            cond=" and ".join(said) or None,
            order="U",
        )
        # TileDB refuses ranges beyond the domain.
        ranges = []
        for name, (low, high) in self.data.domain.items():
            asked = question.box.get(name, (low, high))
            ranges.append(slice(max(low, asked[0]), min(high, asked[1])))
        found = query.multi_index[tuple(ranges)]
        if question.limit is not None and len(found["r"]) > question.limit:
            lowest = np.argpartition(found["r"], question.limit)[: question.limit]
            found = {name: values[lowest] for name, values in found.items()}
        columns = {name: found[name] for name in self.data.columns}
        return Answer(pa.table(columns, schema=self.data.schema))

    def close(self) -> None:
        self._array.close()
