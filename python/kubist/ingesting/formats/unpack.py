"""Decompresses points of LAZ for `laz`, in a process that imports nothing else of the package.

Damaged bytes make lazrs use huge amounts of memory, or read outside of its memory, which ends only
this process. A request is a line of JSON. A response is a line of JSON, followed by the bytes that
it counts; it announces each part of the file before lazrs reads it.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

MEMORY = 1 << 30
"""Bytes that it may use in addition to the points that are decompressed together."""
SECONDS, POINTS_A_SECOND = 60, 20_000
"""CPU time: some to start with, and a twentieth of the usual speed."""


def together(
    chunks: Iterable[tuple[int, int]], at: int, points: int, most: int, alone: bool
) -> Iterator[tuple[int, int, int]]:
    """Parts of at most ``most`` points: their number, and the bytes of their chunks.

    Args:
        chunks: Each as number of points and bytes.
        at: The first byte.
        points: The total number of points.
        alone: Each part is in one chunk.
    """
    count, begin, end = 0, at, at
    for of_chunk, size in chunks:
        of_chunk = min(of_chunk, points)
        points -= of_chunk
        if count and (alone or count + of_chunk > most):
            yield count, begin, end
            count, begin = 0, end
        end += size
        while of_chunk > most:
            yield most, begin, end
            of_chunk -= most
        count += of_chunk
        if not points:
            break
    if count:
        yield count, begin, end


def limit(memory: int) -> None:
    """Limits the memory; larger requests fail instead of filling it with zeros."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.RLIM_INFINITY))


def table(file: BinaryIO, about: bytes) -> list[tuple[int, int]]:
    """The chunks as number of points and bytes; leaves the file at the first chunk."""
    import lazrs

    begin, size = file.tell(), os.fstat(file.fileno()).st_size
    limit(MEMORY + size)
    at = int.from_bytes(file.read(8), "little", signed=True)
    if at == -1:
        # A writer that could not seek stored it at the end of the file.
        file.seek(-8, os.SEEK_END)
        at = int.from_bytes(file.read(8), "little", signed=True)
    if not begin < at <= size - 8:
        raise ValueError("it begins outside of the file")
    file.seek(at + 4)
    if int.from_bytes(file.read(4), "little") > size:
        raise ValueError("it has more chunks than the file has bytes")
    file.seek(begin)
    return list(lazrs.read_chunk_table(file, lazrs.LazVlr(about)))


def answers(asked: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bytes | bytearray]]:
    """The points from ``first`` on, in parts."""
    import lazrs

    about = base64.b64decode(asked["about"])
    with open(asked["path"], "rb") as file:
        file.seek(asked["offset"])
        chunks = table(file, about)
        first, at, behind = asked["first"], file.tell(), 0
        while behind < len(chunks) and first >= chunks[behind][0]:
            first, at = first - chunks[behind][0], at + chunks[behind][1]
            behind += 1
        if first:
            chunks[behind] = (chunks[behind][0] - first, chunks[behind][1])
        chunks = chunks[behind:]
        parts = list(together(chunks, at, asked["points"], asked["most"], asked["alone"]))
        points = max((of_chunk for of_chunk, _ in chunks), default=0)
        points = max(min(points, asked["points"]), asked["most"])
        span = max((end - begin for _, begin, end in parts), default=0)
        size = os.fstat(file.fileno()).st_size
        limit(MEMORY + 4 * (min(span, size) + points * asked["width"]))
        file.seek(asked["offset"])
        decompressor = None
        for count, begin, end in parts:
            yield {"reads": [begin, end]}, b""
            if end > size:
                raise ValueError("it ends past the file")
            if decompressor is None:
                decompressor = lazrs.ParLasZipDecompressor(file, about)
                if asked["first"]:
                    decompressor.seek(asked["first"])
            unpacked = bytearray(count * asked["width"])
            decompressor.decompress_many(unpacked)
            yield {}, unpacked
    yield {"done": True}, b""


def main(questions: BinaryIO, out: BinaryIO) -> None:
    asked = json.loads(questions.readline())
    sys.path[:] = asked["modules"]
    seconds = SECONDS + asked["points"] // POINTS_A_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        for head, data in answers(asked):
            out.write(json.dumps({**head, "bytes": len(data)}).encode() + b"\n")
            out.write(data)
            out.flush()
    except BrokenPipeError:
        # The reader of the points has closed the pipe.
        os._exit(0)
    except BaseException as error:
        # A Rust panic is no Exception.
        said = " ".join(str(error).split()) or type(error).__name__
        out.write(json.dumps({"error": said, "bytes": 0}).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
