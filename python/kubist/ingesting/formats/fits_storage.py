"""Stored rows of FITS tables in plain files, compressed files, and compressed tables.

A compressed table (`fpack -table`) has a row for each tile of rows, with column bytes compressed
with GZIP_1, GZIP_2 (bytes in another order), or RICE_1.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ..source import ROWS_AT_ONCE
from .fits_columns import STORED, Column

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

GZIP, BZIP2, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ"
BEGIN = b"SIMPLE  ="
RICE_BLOCK = 32
"""Pixels per block, as in CFITSIO's compression of tables."""
BYTES_AT_ONCE = 1 << 28
BYTES_OF_CACHE, ROWS_OF_CACHE = 1 << 22, 1 << 14
"""The size of a part. Its columns are split in the CPU cache, twice as fast as in memory."""
BLOCK = 2880
"""Headers and data are padded to multiples of these bytes."""


def opened(path: Path) -> IO[bytes]:
    """The file, decompressed if the whole file is compressed."""
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(GZIP):
        import gzip

        return cast("IO[bytes]", gzip.open(path))
    if head.startswith(BZIP2):
        import bz2

        return cast("IO[bytes]", bz2.open(path))
    if head.startswith(XZ):
        import lzma

        return cast("IO[bytes]", lzma.open(path))
    return path.open("rb")


def matches(path: Path, head: bytes) -> bool:
    if not head.startswith((GZIP, BZIP2, XZ)):
        return head.startswith(BEGIN)
    try:
        with opened(path) as file:
            return file.read(len(BEGIN)) == BEGIN
    except (OSError, EOFError, ValueError, zlib.error):
        return False


def parts(
    path: Path, begin: int, header: Mapping[str, Any], columns: Sequence[Column]
) -> Iterator[tuple[int, list[Array]]]:
    """The stored rows of the columns in parts, each with the number of its first row.

    Args:
        begin: The first byte of the data.
    """
    with opened(path) as file:
        file.seek(begin)
        if header.get("ZTABLE"):
            yield from _tiles(file, header, columns)
        else:
            yield from _plain(file, header, columns)


def rows(header: Mapping[str, Any]) -> int:
    return int(header["ZNAXIS2" if header.get("ZTABLE") else "NAXIS2"])


def _plain(
    file: IO[bytes], header: Mapping[str, Any], columns: Sequence[Column]
) -> Iterator[tuple[int, list[Array]]]:
    import numpy as np

    width, count = int(header["NAXIS1"]), int(header["NAXIS2"])
    at = _offsets(header)
    kind = np.dtype(
        {
            "names": [str(column.place) for column in columns],
            "formats": [column.stored for column in columns],
            "offsets": [at[column.place] for column in columns],
            "itemsize": width,
        }
    )
    in_cache = max(ROWS_OF_CACHE, BYTES_OF_CACHE // max(width, 1))
    together = max(1, min(ROWS_AT_ONCE, in_cache, BYTES_AT_ONCE // max(width, 1)))
    for start in range(0, max(count, 1), together):
        many = min(together, count - start)
        data = file.read(many * width)
        if len(data) < many * width:
            raise ValueError(
                f"row {start + len(data) // max(width, 1):,} of {count:,}: the file ends there"
            )
        table = np.frombuffer(data, kind, many) if many and width else np.empty(many, kind)
        yield start, [table[str(column.place)] for column in columns]


def _offsets(header: Mapping[str, Any]) -> dict[int, int]:
    """The first byte in a row, by column."""
    fields = range(1, int(header["TFIELDS"]) + 1)
    if header["XTENSION"].strip() == "TABLE":
        return {place: int(header[f"TBCOL{place}"]) - 1 for place in fields}
    at, offsets = 0, {}
    for place in fields:
        offsets[place] = at
        at += _bytes_of(str(header[f"TFORM{place}"]))
    return offsets


def _bytes_of(form: str) -> int:
    import numpy as np

    from .fits_columns import FORM

    found = FORM.match(form)
    if found is None:
        raise ValueError(f"TFORM = {form!r} is no format of FITS")
    count, code = int(found[1] or 1), found[2].upper()
    if code == "X":
        return -(-count // 8)
    size = np.dtype(STORED[code]).itemsize
    # A descriptor has two numbers.
    return count * size * (2 if code in "PQ" else 1)


# Compressed tables


def _tiles(
    file: IO[bytes], header: Mapping[str, Any], columns: Sequence[Column]
) -> Iterator[tuple[int, list[Array]]]:
    import numpy as np

    width, tiles = int(header["NAXIS1"]), int(header["NAXIS2"])
    gap = int(header.get("THEAP", width * tiles)) - width * tiles
    count, of_tile = int(header["ZNAXIS2"]), int(header["ZTILELEN"])
    described = file.read(width * tiles)
    file.seek(gap, 1)
    heap = file.read(int(header["PCOUNT"]) - gap)
    at = _offsets(header)
    for tile in range(max(tiles, 1)):
        first = tile * of_tile
        many = min(of_tile, count - first) if tiles else 0
        arrays = []
        for column in columns:
            raw = b""
            if many:
                kind = ">i8" if "Q" in header[f"TFORM{column.place}"] else ">i4"
                place = tile * width + at[column.place]
                length, begin = np.frombuffer(described, kind, 2, place)
                raw = heap[begin : begin + length]
                if len(raw) < length:
                    raise ValueError(f"row {first:,} of {count:,}: the file ends there")
            how = str(header[f"ZCTYP{column.place}"]).strip()
            arrays.append(_decompressed(raw, how, column, many))
        yield first, arrays


def _decompressed(raw: bytes, how: str, column: Column, rows: int) -> Array:
    import numpy as np

    kind = column.stored
    size = kind.itemsize * rows
    element = kind.base.itemsize
    if not rows:
        return np.empty(0, kind)
    if how in ("GZIP_1", "GZIP_2"):
        inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        data = inflater.decompress(raw, size)
        if how == "GZIP_2" and len(data) == size:
            # The first bytes of all numbers come first, then the second ones.
            data = np.frombuffer(data, "u1").reshape(element, -1).T.tobytes()
    elif how == "RICE_1":
        data = _of_rice(raw, element, size // element)
    elif how == "NOCOMPRESS":
        data = raw
    else:
        raise ValueError(f"column {column.name}: its compression {how} is not known")
    if len(data) != size:
        raise ValueError(f"column {column.name}: {len(data):,} of {size:,} bytes of a tile")
    return np.frombuffer(data, kind, rows)


def _of_rice(raw: bytes, element: int, count: int) -> bytes:
    """Integers of RICE_1, in the byte order of FITS.

    Astropy decompresses only images, so it gets the integers as a single image tile.
    """
    import numpy as np
    from astropy.io import fits

    kind = {1: 8, 2: 16, 4: 32}[element]
    header = fits.Header(
        [
            ("XTENSION", "BINTABLE"), ("BITPIX", 8), ("NAXIS", 2), ("NAXIS1", 8), ("NAXIS2", 1),
            ("PCOUNT", len(raw)), ("GCOUNT", 1), ("TFIELDS", 1), ("TTYPE1", "COMPRESSED_DATA"),
            ("TFORM1", f"1PB({len(raw)})"), ("ZIMAGE", True), ("ZBITPIX", kind), ("ZNAXIS", 1),
            ("ZNAXIS1", count), ("ZTILE1", count), ("ZCMPTYPE", "RICE_1"),
            ("ZNAME1", "BLOCKSIZE"), ("ZVAL1", RICE_BLOCK),
            ("ZNAME2", "BYTEPIX"), ("ZVAL2", element),
        ]
    )  # fmt: skip
    data = np.array([len(raw), 0], ">i4").tobytes() + raw
    heads = fits.PrimaryHDU().header.tostring() + header.tostring()
    padded = heads.encode("ascii") + data + bytes(-len(data) % BLOCK)
    with fits.open(io.BytesIO(padded)) as hdus:
        return np.asarray(hdus[1].data).astype(f">i{element}" if element > 1 else "u1").tobytes()
