"""Writes COPC: a LAZ file whose points are in the order of an octree (<https://copc.io>, 1.0).

A node of the octree is a chunk of LAZ. It has at most one point in each of 128 x 128 x 128 cells,
or all its points if there are few; nodes below have the other points. The first record of the
header locates the octree, and the last record of the file lists its nodes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CELLS = 128
"""Cells along each axis of a node."""
FEW = 50_000
"""Maximum points of a node without nodes below it."""
DEEPEST = 20
"""The last level of the octree, for points at the same position."""
TOGETHER = 1 << 20
"""Points to compress in one call."""
USER = "copc"
INFO, HIERARCHY = 1, 1000
"""Numbers of the records."""
INFO_BYTES = 160
ENTRY = struct.Struct("<4iQ2i")
"""A node: level, x, y, z; the first byte of its chunk, its bytes and its points."""
EXTENDED = struct.Struct("<H16sHQ32s")
"""The header of a record after the points."""
KINDS = (6, 7, 8)


@dataclass(frozen=True)
class Cube:
    low: Array
    size: float

    def places(self, positions: Array, level: int, cells: int = 1) -> Array:
        """The positions' cells, of shape (points, 3), counted from the cube's corner."""
        import numpy as np

        count = (1 << level) * cells
        found = ((positions - self.low) * (count / self.size)).astype(np.int64)
        return np.clip(found, 0, count - 1)


def write(points: Any, path: Path) -> None:
    """Writes points of laspy, of point format 6, 7 or 8.

    Raises:
        InvalidInput: COPC does not allow the point format.
    """
    import lazrs
    import numpy as np
    from laspy import VLR
    from laspy.vlrs.known import LasZipVlr

    points.update_header()
    header = points.header
    kind = header.point_format
    if kind.id not in KINDS:
        raise InvalidInput(f"COPC has points of the formats 6, 7 and 8, not of {kind.id}")
    positions = np.stack([np.asarray(points[axis], np.float64) for axis in "xyz"], axis=1)
    low = positions.min(axis=0) if len(positions) else np.zeros(3)
    high = positions.max(axis=0) if len(positions) else np.zeros(3)
    # Wider than the points, so that the highest ones are inside the last cells.
    cube = Cube(low, max(float((high - low).max()), 1e-3) * (1 + 1e-6))
    nodes = list(_nodes(cube, positions))
    compression = lazrs.LazVlr.new_for_compression(kind.id, kind.num_extra_bytes, True)
    header.vlrs.insert(0, VLR(USER, INFO, "COPC info", bytes(INFO_BYTES)))
    header.vlrs.append(LasZipVlr(compression.record_data()))
    header.are_points_compressed = True
    header.number_of_evlrs = 1
    with path.open("w+b") as file:
        header.write_to(file)
        begin = file.tell()
        _write_points(file, compression, points.points.array, [rows for _, rows in nodes])
        file.seek(0, 2)
        header.start_of_first_evlr = file.tell()
        file.seek(begin)
        chunks = lazrs.read_chunk_table(file, compression) if nodes else []
        entries, at = [], file.tell()
        for (node, rows), (_, size) in zip(nodes, chunks, strict=True):
            entries.append(ENTRY.pack(*node, at, size, len(rows)))
            at += size
        hierarchy = b"".join(entries)
        file.seek(header.start_of_first_evlr)
        file.write(EXTENDED.pack(0, USER.encode(), HIERARCHY, len(hierarchy), b"EPT hierarchy"))
        file.write(hierarchy)
        first = header.start_of_first_evlr + EXTENDED.size
        header.vlrs[0].record_data = _info(cube, first, len(hierarchy), points.gps_time)
        file.seek(0)
        header.write_to(file, ensure_same_size=True)


def _info(cube: Cube, first: int, size: int, times: Any) -> bytes:
    import numpy as np

    half = cube.size / 2
    ends = (float(np.min(times)), float(np.max(times))) if len(times) else (0.0, 0.0)
    info = struct.pack("<5d2Q2d", *(cube.low + half), half, cube.size / CELLS, first, size, *ends)
    return info.ljust(INFO_BYTES, b"\0")


def _nodes(cube: Cube, positions: Array) -> Iterator[tuple[tuple[int, int, int, int], Array]]:
    """Yields nodes as level and position, with their rows."""
    import numpy as np

    waiting = [((0, 0, 0, 0), np.arange(len(positions)))] if len(positions) else []
    while waiting:
        (level, x, y, z), rows = waiting.pop()
        if len(rows) <= FEW or level == DEEPEST:
            yield (level, x, y, z), rows
            continue
        inside = cube.places(positions[rows], level, CELLS) % CELLS
        cells = np.ravel_multi_index(tuple(inside.T), (CELLS,) * 3)
        first = np.unique(cells, return_index=True)[1]
        yield (level, x, y, z), rows[np.sort(first)]
        rows = np.delete(rows, first)
        halves = cube.places(positions[rows], level + 1) % 2
        octants = halves @ np.array([4, 2, 1])
        for octant in np.unique(octants):
            i, j, k = octant >> 2, octant >> 1 & 1, octant & 1
            below = (level + 1, 2 * x + int(i), 2 * y + int(j), 2 * z + int(k))
            waiting.append((below, rows[octants == octant]))


def _write_points(file: Any, compression: Any, records: Array, nodes: list[Array]) -> None:
    import lazrs

    compressor = lazrs.ParLasZipCompressor(file, compression)
    together: list[bytes] = []
    count = 0
    for rows in nodes:
        together.append(records[rows].tobytes())
        count += len(rows)
        if count >= TOGETHER:
            compressor.compress_chunks(together)
            together, count = [], 0
    if together:
        compressor.compress_chunks(together)
    compressor.done()
