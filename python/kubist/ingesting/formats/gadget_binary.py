"""Snapshots of GADGET in its binary formats 1 and 2.

A file is a sequence of Fortran records, each between two copies of its length in bytes, starting
with the header. In format 2 a record before each block has its name. In format 1 the order
identifies the blocks, and later unknown blocks are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import Options, Source, State, arrow_table, slices, split_columns, unit
from .gadget import (
    FIRST,
    MASSES,
    clock_of,
    place_of,
    snapshot,
    units_of,
    wanted_types,
    with_all,
)
from .hdf5 import COMPONENTS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

HEADER = 256
"""Bytes of the header."""
FIELDS = "6i6ddd2i6I2i4d2i6I2i"
"""The header: numbers of particles, masses, time, redshift, flags, totals, files, cosmology."""
# The blocks of format 1 in order: names in format 2 and in HDF5, types of particles that have them
# (None: all), and values per particle.
BLOCKS = {
    "POS": ("Coordinates", None, 3),
    "VEL": ("Velocities", None, 3),
    "ID": ("ParticleIDs", None, 1),
    "MASS": (MASSES, None, 1),
    "U": ("InternalEnergy", (0,), 1),
    "RHO": ("Density", (0,), 1),
    "HSML": ("SmoothingLength", (0,), 1),
    "POT": ("Potential", None, 1),
    "ACCE": ("Acceleration", None, 3),
    "TSTP": ("TimeStep", None, 1),
}
IN_ORDER = ("POS", "VEL", "ID", "MASS", "U", "RHO", "HSML")


def matches(path: Path, head: bytes) -> bool:
    return len(head) >= 8 and _order(head) is not None


def _order(head: bytes) -> str | None:
    """Returns the byte order of a file, `<` or `>`; None if it is no snapshot."""
    for order in "<>":
        [size] = struct.unpack_from(f"{order}i", head)
        if size == HEADER or (size == 8 and head[4:8] == b"HEAD"):
            return order
    return None


@dataclass
class _Block:
    name: str
    at: int
    kinds: tuple[int, ...]
    width: int
    dtype: np.dtype[Any]


def look(path: Path, options: Options) -> Source:
    import numpy as np
    import pyarrow as pa

    left_out: dict[str, str] = {}
    with path.open("rb") as file:
        order = _order(file.read(8))
        assert order is not None
        file.seek(0)
        records = list(_records(path, file, order))
    header, counts = _header(path, order, records[0])
    masses = {k: header["MassTable"][k] for k in range(6) if header["MassTable"][k] > 0}
    there = tuple(k for k in range(6) if counts[k])
    wanted = wanted_types(path, options, len(counts))
    blocks = _blocks(path, order, records[1:], counts, there, masses, left_out)
    about = {"header": header}
    clock, units = clock_of(header, about), units_of(header, about)
    if "Coordinates" not in blocks and any(counts):
        raise InvalidInput(f"{path}: it has no block of positions")
    fields = {"type": pa.field("type", pa.int8())}
    for block in blocks.values():
        if not wanted & set(block.kinds):
            continue
        empty = np.empty((0, block.width) if block.width > 1 else 0, block.dtype)
        for column in split_columns(block.name, empty, COMPONENTS.get(block.name)):
            own = pa.field(column, pa.from_numpy_dtype(block.dtype.newbyteorder("=")))
            fields[column] = unit(own, units.of(column))
    if any(k in masses for k in there if k in wanted):
        fields.setdefault(MASSES, unit(pa.field(MASSES, pa.float64()), units.of(MASSES)))
    schema = pa.schema([*fields.values(), *clock.fields()])

    def read(state: State) -> Iterator[pa.Table]:
        with path.open("rb") as file:
            for kind in there:
                if kind not in wanted:
                    continue
                for part in slices(counts[kind]):
                    many = part.stop - part.start
                    columns: dict[str, Any] = {"type": np.full(many, kind, np.int8)}
                    columns |= clock.columns(many)
                    for block in blocks.values():
                        if kind not in block.kinds:
                            continue
                        before = sum(counts[k] for k in block.kinds if k < kind) + part.start
                        file.seek(block.at + before * block.width * block.dtype.itemsize)
                        values = np.fromfile(file, block.dtype, many * block.width)
                        if block.width > 1:
                            values = values.reshape(many, block.width)
                        columns |= split_columns(block.name, values, COMPONENTS.get(block.name))
                    if kind in masses:
                        columns[MASSES] = np.full(many, masses[kind])
                    yield arrow_table(columns, with_all(schema, state))

    part = place_of(path, header, sum(counts), "NumPart_Total", "NumPart_Total_HW")
    rows = sum(counts[k] for k in wanted)

    def positions() -> Any:
        block = blocks["Coordinates"]
        with path.open("rb") as file:
            file.seek(block.at)
            many = min(sum(counts[k] for k in block.kinds), FIRST)
            return np.fromfile(file, block.dtype, many * block.width).reshape(many, block.width)

    return snapshot(path, part, about, schema, clock, read, rows, left_out, options, positions)


def _records(path: Path, file: Any, order: str) -> Iterator[tuple[str | None, int, int]]:
    """Yields blocks as name, first byte and length; format 1 has no names."""
    size, name, named = path.stat().st_size, None, False
    while file.tell() < size:
        at = file.tell()
        mark = file.read(4)
        length = struct.unpack(f"{order}I", mark)[0] if len(mark) == 4 else size
        file.seek(at + 4 + length)
        behind = file.read(4)
        if at + 8 + length > size or behind != mark:
            raise InvalidInput(
                f"{path}: the record from byte {at:,} has {length:,} bytes, and no such number "
                f"behind it: the file of {size:,} bytes is cut off or damaged"
            )
        if at == 0:
            named = length == 8
        if named and name is None:
            file.seek(at + 4)
            name = file.read(4).decode("latin-1").strip()
            file.seek(at + 8 + length)
            continue
        yield name, at + 4, length
        name = None


def _header(
    path: Path, order: str, record: tuple[str | None, int, int]
) -> tuple[dict[str, Any], list[int]]:
    _, at, length = record
    if length != HEADER:
        raise InvalidInput(f"{path}: its first block has {length:,} bytes, a header has {HEADER}")
    with path.open("rb") as file:
        file.seek(at)
        values = struct.unpack_from(f"{order}{FIELDS}", file.read(length))
    counts = list(values[:6])
    header = {
        "NumPart_ThisFile": counts,
        "MassTable": list(values[6:12]),
        "Time": values[12],
        "Redshift": values[13],
        "Flag_Sfr": values[14],
        "Flag_Feedback": values[15],
        "NumPart_Total": list(values[16:22]),
        "Flag_Cooling": values[22],
        "NumFilesPerSnapshot": values[23],
        "BoxSize": values[24],
        "Omega0": values[25],
        "OmegaLambda": values[26],
        "HubbleParam": values[27],
        "Flag_StellarAge": values[28],
        "Flag_Metals": values[29],
        "NumPart_Total_HW": list(values[30:36]),
        "Flag_Entropy_ICs": values[36],
    }
    if min(counts) < 0:
        raise InvalidInput(f"{path}: its header counts {counts} particles")
    return header, counts


def _blocks(
    path: Path,
    order: str,
    records: list[tuple[str | None, int, int]],
    counts: list[int],
    there: tuple[int, ...],
    masses: dict[int, float],
    left_out: dict[str, str],
) -> dict[str, _Block]:
    """Returns the blocks to read, by name.

    Raises:
        InvalidInput: A block has another number of values than the header.
    """
    import numpy as np

    own_mass = tuple(k for k in there if k not in masses)
    # Empty blocks are not written.
    expected = [n for n in IN_ORDER if _kinds(n, there, own_mass)]
    blocks: dict[str, _Block] = {}
    for number, (said, at, length) in enumerate(records):
        label = said if said is not None else expected[number] if number < len(expected) else None
        if label not in BLOCKS:
            name = f"block {label or number + 1}"
            left_out[name] = f"the meaning of its {length:,} bytes is not known"
            continue
        name, _, width = BLOCKS[label]
        kinds = _kinds(label, there, own_mass)
        many = sum(counts[k] for k in kinds) * width
        size = length // many if many and length % many == 0 else 0
        if size not in (4, 8):
            raise InvalidInput(
                f"{path}: block {label} has {length:,} bytes, which are not {width} numbers for each "
                f"of the {many // width:,} particles that the header counts"
            )
        letter = "u" if name == "ParticleIDs" else "f"
        blocks[name] = _Block(name, at, kinds, width, np.dtype(f"{order}{letter}{size}"))
    return blocks


def _kinds(label: str, there: tuple[int, ...], own_mass: tuple[int, ...]) -> tuple[int, ...]:
    if label == "MASS":
        return own_mass
    only = BLOCKS[label][1]
    return there if only is None else tuple(k for k in there if k in only)
