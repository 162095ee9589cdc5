"""The header of netCDF's classic formats (CDF-1, -2 and -5), for strings and ranges.

<https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html>
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MAGIC = b"CDF"
CHARACTER = 2
TYPES = {1: "i1", 2: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8", 7: "u1", 8: ">u2", 9: ">u4",
         10: ">i8", 11: ">u8"}  # fmt: skip
MOST = 1 << 24
"""The maximum number of names, dimensions, attributes and variables in a valid header."""


@dataclass(frozen=True)
class Variable:
    """A variable, and its first byte.

    Attributes:
        is_of_records: Its first axis has no fixed length, and its records are ``stride`` bytes
        apart.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    attributes: dict[str, Any]
    kind: int
    begin: int
    is_of_records: bool
    stride: int

    def letters(self, path: Path) -> Array:
        import numpy as np

        records = self.shape[0] if self.is_of_records else 1
        each = math.prod(self.shape[1:] if self.is_of_records else self.shape)
        parts = []
        with path.open("rb") as file:
            for record in range(records):
                file.seek(self.begin + record * self.stride)
                data = file.read(each)
                if len(data) < each:
                    raise ValueError(f"{path}: variable {self.name} ends early")
                parts.append(data)
        return np.frombuffer(b"".join(parts), "S1").reshape(self.shape)


def header(path: Path) -> tuple[dict[str, Any], list[Variable]]:
    """The attributes and variables of a file; no variables if the number of records is unknown."""
    with path.open("rb") as file:
        version = file.read(4)[3]
        reader = _Reader(file, wide=version == 5)
        records = reader.number()
        if records == reader.unknown:
            return {}, []
        dimensions = [(reader.name(), reader.number()) for _ in range(reader.items())]
        of_file = reader.attributes()
        found = []
        for _ in range(reader.items()):
            name = reader.name()
            places = [reader.number() for _ in range(reader.counted())]
            attributes = reader.attributes()
            kind = reader.integer(4)
            reader.number()
            begin = reader.integer(4 if version == 1 else 8)
            lengths = [dimensions[place] for place in places]
            found.append((name, lengths, attributes, kind, begin))
    of_records = [bool(lengths) and lengths[0][1] == 0 for _, lengths, *_ in found]
    sizes = []
    for (_, lengths, _, kind, _), grows in zip(found, of_records, strict=True):
        if grows:
            sizes.append(_bytes(kind) * math.prod(length for _, length in lengths[1:]))
    # A single record variable is not padded to words.
    stride = sizes[0] if len(sizes) == 1 else sum(-(-size // 4) * 4 for size in sizes)
    return of_file, [
        Variable(
            name,
            tuple(axis for axis, _ in lengths),
            tuple(length or records for _, length in lengths),
            attributes,
            kind,
            begin,
            grows,
            stride,
        )
        for (name, lengths, attributes, kind, begin), grows in zip(found, of_records, strict=True)
    ]


def _bytes(kind: int) -> int:
    import numpy as np

    return np.dtype(TYPES[kind]).itemsize


@dataclass
class _Reader:
    file: IO[bytes]
    wide: bool

    @property
    def unknown(self) -> int:
        """The number of records of an unfinished file."""
        return (1 << (64 if self.wide else 32)) - 1

    def integer(self, size: int) -> int:
        data = self.file.read(size)
        if len(data) < size:
            raise ValueError("the header ends early")
        return int.from_bytes(data, "big")

    def number(self) -> int:
        return self.integer(8 if self.wide else 4)

    def counted(self) -> int:
        found = self.number()
        if found > MOST:
            raise ValueError(f"the header counts {found:,}")
        return found

    def items(self) -> int:
        """The number of items of a list, after its tag."""
        self.integer(4)
        return self.counted()

    def padded(self, size: int) -> bytes:
        data = self.file.read(size)
        self.file.read(-size % 4)
        return data

    def name(self) -> str:
        return self.padded(self.counted()).decode("utf-8", "replace")

    def attributes(self) -> dict[str, Any]:
        import numpy as np

        said: dict[str, Any] = {}
        for _ in range(self.items()):
            name, kind = self.name(), self.integer(4)
            data = self.padded(self.counted() * _bytes(kind))
            text = kind == CHARACTER
            said[name] = data.decode("utf-8", "replace") if text else np.frombuffer(data, TYPES[kind])
        return said
