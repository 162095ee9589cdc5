"""Points of LAZ. lazrs decompresses them in a separate process, which damaged files may end."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..._errors import InvalidInput
from ..source import ROWS_AT_ONCE

PROGRAM = Path(__file__).with_name("unpack.py")
RECORD = "LasZipVlr"
"""The header record that describes the compression."""
POINTS_A_BYTE = 1000
"""The maximum number of points per byte of a file; equal points reach 150."""


class _Broken(Exception):
    """No more points follow; ``reads`` are the last bytes that lazrs read, None: its table."""

    def __init__(self, reads: list[int] | None, why: str) -> None:
        super().__init__(why)
        self.reads = reads


def need(path: Path) -> None:
    if importlib.util.find_spec("lazrs") is None:
        raise ImportError(f"{path}: LAZ is read with lazrs: pip install 'kubist[lidar]'")


VARIABLE = 2**32 - 1
"""The size of chunks that have different sizes."""


def points(path: Path, header: Any) -> int | None:
    """The minimum number of points in the chunks of a file; None if unknown.

    All chunks except the last have one size. In point formats from 6 on, a chunk stores its number
    of points.
    """
    records = header.vlrs.get(RECORD)
    if not records or len(record := records[0].record_data) < 16:
        return None
    of_chunk = int.from_bytes(record[12:16], "little")
    begin = header.offset_to_point_data
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(begin)
        table = int.from_bytes(file.read(8), "little", signed=True)
        if table == -1 and size >= 8:
            file.seek(-8, 2)
            table = int.from_bytes(file.read(8), "little", signed=True)
        # What is damaged here is reported when the points are read.
        if not begin < table <= size - 8 or of_chunk in (0, VARIABLE):
            return None
        file.seek(table + 4)
        chunks = int.from_bytes(file.read(4), "little")
        if not chunks:
            return None
        if chunks == 1 and header.point_format.id >= 6:
            file.seek(begin + 8 + header.point_format.size)
            return int.from_bytes(file.read(4), "little")
    return (chunks - 1) * of_chunk + 1


def unpacked(path: Path, header: Any) -> Iterator[bytes]:
    """Yields all points, decompressed, in parts.

    Args:
        header: From laspy.

    Raises:
        InvalidInput: The file is damaged; the message names the bytes.
    """
    records = header.vlrs.get(RECORD)
    if not records:
        raise InvalidInput(f"{path}: no record of its header says how its points are compressed")
    record, size = records[0].record_data, path.stat().st_size
    if header.point_count > POINTS_A_BYTE * size:
        raise InvalidInput(
            f"{path}: byte {247 if header.version.minor >= 4 else 107}: the header says "
            f"{header.point_count:,} points, which do not fit into {size:,} bytes"
        )
    found, width = 0, header.point_format.size
    try:
        for part in _parts(path, header, record, 0, alone=False):
            found += len(part) // width
            yield part
    except _Broken as broken:
        found, reads = _chunk(path, header, record, found, broken)
        if reads is None:
            where = (
                f"the table of its chunks, which byte {header.offset_to_point_data:,} points to,"
            )
        else:
            where = f"the chunk from byte {reads[0]:,} to {reads[1]:,}"
        raise InvalidInput(
            f"{path}: no points can be read after the first {found:,} of {header.point_count:,}: "
            f"{where} is damaged or cut off"
        ) from broken


def _chunk(
    path: Path, header: Any, record: bytes, found: int, broken: _Broken
) -> tuple[int, list[int] | None]:
    """The number of points before the damaged chunk, and the chunk's bytes."""
    if broken.reads is not None:
        try:
            for part in _parts(path, header, record, found, alone=True):
                found += len(part) // header.point_format.size
        except _Broken as alone:
            return found, alone.reads
    return found, broken.reads


def _parts(path: Path, header: Any, record: bytes, first: int, alone: bool) -> Iterator[bytes]:
    asked = {
        "modules": sys.path,
        "path": str(path),
        "offset": header.offset_to_point_data,
        "about": base64.b64encode(record).decode(),
        "width": header.point_format.size,
        "first": first,
        "points": header.point_count - first,
        "most": ROWS_AT_ONCE,
        "alone": alone,
    }
    # Its messages at a crash are not for users.
    process = subprocess.Popen(
        [sys.executable, "-P", str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.close()
            reads: list[int] | None = None
            while line := process.stdout.readline():
                head = json.loads(line)
                data = process.stdout.read(head["bytes"])
                if "error" in head:
                    raise _Broken(reads, head["error"])
                if len(data) < head["bytes"]:
                    break
                if head.get("done"):
                    return
                reads = head.get("reads", reads)
                if data:
                    yield data
            raise _Broken(reads, f"lazrs ended its process ({process.wait()})")
        finally:
            process.kill()
