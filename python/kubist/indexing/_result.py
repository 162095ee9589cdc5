"""The result of a query of files, and its cost."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .. import _kubist
from .._result import Result
from .._shown import counted


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a query of files, and the predicted cost."""

    rows: int
    """Number of matching positions."""
    files: int
    files_read: int
    """Files that were read at least in part."""
    files_scanned: int
    """Files without an index."""
    positions: int
    blocks: int
    blocks_read: int
    blocks_all: int
    """Blocks that match as a whole."""
    blocks_sorted: int
    """Blocks whose sorted copy was read in part."""
    bytes: int
    requests: int
    """Number of reads. A read may cover several blocks that are close to each other."""
    sorted_bytes: int
    sorted_requests: int
    stored_bytes: int
    """All bytes of the variables in the query."""
    by_library: int
    """Blocks that only the library of the format could read."""
    selectivity: float
    expected: dict[str, float]
    """Predicted blocks, bytes and requests for independent neighbouring values. Correlated values
    need fewer.
    """
    gap: int
    """Maximum gap in bytes between blocks that are read together."""
    workers: int
    balance: dict[str, float]
    """Times of the slowest and the fastest worker in seconds."""
    seconds: float
    blocks_spared: int | None
    """In a scan: blocks that an index would have skipped. None for samples, which read only parts
    of blocks.
    """
    damaged: list[str]
    """Locations that could not be read, with ``skip_damaged``."""

    def __repr__(self) -> str:
        read = f"{self.blocks_read:,} of {counted(self.blocks, 'block')}"
        if self.blocks_sorted:
            read += f" and {self.blocks_sorted:,} in order"
        line = (
            f"<kubist.Costs {counted(self.rows, 'record')}; {read}: "
            f"{_kubist.size(self.bytes + self.sorted_bytes)} of {_kubist.size(self.stored_bytes)} "
            f"in {self.requests + self.sorted_requests:,} requests, "
            f"{_kubist.duration(self.seconds)}; "
            f"of independent values {self.expected['blocks']:,.0f} blocks, "
            f"{_kubist.size(int(self.expected['bytes']))}, "
            f"{self.expected['requests']:,.0f} requests"
        )
        if self.files_scanned and self.blocks and self.blocks_spared is not None:
            spared = self.blocks_spared / self.blocks
            line += f"; an index would have spared {_kubist.fraction(spared)} of the blocks"
        return line + ">"


class FileResult(Result):
    """The matching rows of files, with the conversions of `Result`."""

    def __init__(self, batches: _kubist.Batches, costs: Costs, fraction: float) -> None:
        stats = {
            "rows_returned": costs.rows,
            "rows_read": costs.positions,
            "bytes_read": costs.bytes + costs.sorted_bytes,
            "pages_read": costs.blocks_read + costs.blocks_sorted,
            "cubes_visited": 0,
            "runs_looked_up": 0,
            "round_trips": costs.requests + costs.sorted_requests,
            "seconds": costs.seconds,
        }

        def stream() -> _kubist.Stream:
            return _kubist.replay(batches, json.dumps(stats), fraction)

        super().__init__(stream(), stream, lambda: "{}")
        self.costs = costs


for _public in (Costs, FileResult):
    _public.__module__ = "kubist.indexing"
del _public
