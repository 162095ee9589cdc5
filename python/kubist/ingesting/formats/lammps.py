"""LAMMPS dumps: text, also compressed, and binary.

No library reads all of their columns, so they are read here: the text as its manual describes
it, the binary form as the program's own converter (binary2txt) does.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table

if TYPE_CHECKING:
    import pyarrow as pa

ITEM = b"ITEM: TIMESTEP"
UNITS_ITEM = b"ITEM: UNITS"
OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
WHOLE = frozenset(("id", "type", "mol", "proc", "ix", "iy", "iz", "procp1"))
TEXT = frozenset(("element", "typelabel"))
# Positions in words of a dump: plain, unwrapped, and scaled by the box.
POSITIONS = (("x", "y", "z"), ("xu", "yu", "zu"), ("xs", "ys", "zs"), ("xsu", "ysu", "zsu"))
# A header that says more than this lies.
MOST_ATOMS = 2**40


@dataclass
class Frame:
    """Where a time step begins, and what its header says."""

    offset: int
    step: int
    atoms: int
    columns: list[str]
    bounds: list[list[float]]
    time: float | None = None


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    with path.open("rb") as opened:
        head = opened.read(64)
    read_all = _binary if _is_binary(head) else _text
    frames = read_all(path)
    first, table = next(frames, (None, None))
    if first is None or table is None:
        raise ValueError(f"{path}: it has no time step")
    schema = pa.schema([*table.schema, pa.field("step", pa.int64())])
    if first.time is not None:
        schema = schema.append(pa.field("time", pa.float64()))

    def steps(committed: Callable[[str], int | None]) -> Iterator[Step]:
        """In one pass over the file: a step's rows are there when it is asked for."""
        for frame, rows in read_all(path):
            label = f"step {frame.step} at byte {frame.offset}"
            yield Step(label, _reading(frame, rows, schema), frame.time)

    names = set(table.column_names)
    dimensions = next((list(p) for p in POSITIONS if set(p) <= names), [])
    return Source(
        path=path,
        format="lammps",
        schema=schema,
        steps=steps,
        dimensions=[*dimensions, "step"] if dimensions else [],
        identity=["id", "step"] if "id" in names else [],
        metadata={"lammps": {"box": first.bounds}},
        grows=True,
    )


def _reading(
    frame: Frame, rows: pa.Table, schema: pa.Schema
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        import numpy as np
        import pyarrow as pa

        table = rows.append_column("step", pa.array(np.full(rows.num_rows, frame.step)))
        if frame.time is not None:
            table = table.append_column("time", pa.array(np.full(rows.num_rows, frame.time)))
        yield table

    return read


# Text


def _text(path: Path) -> Iterator[tuple[Frame, pa.Table]]:
    with path.open("rb") as opened:
        magic = opened.read(6)
    opener = next((o for m, o in OPENERS.items() if magic.startswith(m)), open)
    with opener(path, "rb") as file:
        behind = 0
        try:
            while (frame := _header(path, file)) is not None:
                yield frame, _rows(path, file, frame)
                behind = file.tell()
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            # Damaged within what is compressed; whole time steps end at this byte of the text.
            raise ValueError(f"{path}: behind byte {behind} of its text: {error}") from error


def _header(path: Path, file: IO[bytes]) -> Frame | None:
    """Up to the line before the atoms; None at the end of the file."""
    offset = file.tell()
    line = file.readline()
    while line and not line.strip():
        line = file.readline()
    if not line:
        return None
    step = atoms = None
    time, bounds = None, []
    while True:
        where = f"{path}: byte {file.tell() - len(line)}"
        if not line.startswith(b"ITEM: "):
            raise ValueError(f"{where}: a line that begins with 'ITEM: ' is missing")
        words = line[6:].split()
        if words[:1] == [b"TIMESTEP"]:
            step = int(_number(where, file))
        elif words[:1] == [b"TIME"]:
            time = _number(where, file)
        elif words[:1] == [b"UNITS"]:
            file.readline()
        elif words[:3] == [b"NUMBER", b"OF", b"ATOMS"]:
            atoms = int(_number(where, file))
            if not 0 <= atoms < MOST_ATOMS:
                raise ValueError(f"{where}: it says that there are {atoms} atoms")
        elif words[:2] == [b"BOX", b"BOUNDS"]:
            bounds = [[float(n) for n in file.readline().split()] for _ in range(3)]
        elif words[:1] == [b"ATOMS"]:
            if step is None or atoms is None:
                raise ValueError(f"{where}: neither step nor number of atoms come before ATOMS")
            columns = [word.decode() for word in words[1:]]
            return Frame(offset, step, atoms, columns, bounds, time)
        elif words[:1] in ([b"ENTRIES"], [b"GRID"]):
            raise ValueError(f"{where}: it is a dump of {words[0].decode().lower()}, not of atoms")
        else:
            # Items of later versions have one line.
            file.readline()
        line = file.readline()


def _number(where: str, file: IO[bytes]) -> float:
    line = file.readline()
    try:
        return float(line)
    except ValueError:
        raise ValueError(f"{where}: {line!r} is no number") from None


def _rows(path: Path, file: IO[bytes], frame: Frame) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    begin = file.tell()
    lines = [file.readline() for _ in range(frame.atoms)]
    if lines and not lines[-1].endswith(b"\n") and len(lines[-1].split()) != len(frame.columns):
        raise ValueError(
            f"{path}: byte {begin}: step {frame.step} ends early: "
            f"{frame.atoms} atoms were announced"
        )
    kinds = {name: _type(name) for name in frame.columns}
    body = b"".join(b" ".join(line.split()) + b"\n" for line in lines)
    if not lines:
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    try:
        return csv.read_csv(
            _memory(body),
            read_options=csv.ReadOptions(column_names=frame.columns),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise ValueError(f"{path}: byte {begin}: step {frame.step}: {error}") from None


def _memory(body: bytes) -> pa.BufferReader:
    """`body` in Arrow's own memory.

    Arrow reads on threads that may outlive the call a little. One that gives an object of Python
    back while the interpreter ends takes the process down.
    """
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    sink.write(body)
    return pa.BufferReader(sink.getvalue())


def _type(name: str) -> Any:
    import pyarrow as pa

    return pa.int64() if name in WHOLE else pa.string() if name in TEXT else pa.float64()


# Binary


def _is_binary(head: bytes) -> bool:
    """An old dump begins with its step, a newer one with the length of its magic word, negative."""
    if len(head) < 8 or head.startswith((ITEM, UNITS_ITEM, *OPENERS)):
        return False
    (first,) = struct.unpack("<q", head[:8])
    if first < 0:
        return -first < 32 and head[8 : 8 - first].startswith(b"DUMP")
    return False


def _binary(path: Path) -> Iterator[tuple[Frame, pa.Table]]:
    import numpy as np

    size = path.stat().st_size
    with path.open("rb") as file:

        def take(form: str) -> tuple[Any, ...]:
            length = struct.calcsize("<" + form)
            raw = file.read(length)
            if len(raw) < length:
                raise ValueError(f"{path}: byte {file.tell()}: it ends within a time step")
            return struct.unpack("<" + form, raw)

        while file.tell() < size:
            offset = file.tell()
            (length,) = take("q")
            if not -32 < length < 0:
                raise ValueError(
                    f"{path}: byte {offset}: no time step of a binary dump begins here"
                )
            take(f"{-length}s")
            endian, _revision, step, atoms, triclinic = take("iiqqi")
            if endian != 1:
                raise ValueError(f"{path}: byte {offset}: it is of a machine of other byte order")
            take("6i")
            bounds = list(take("6d"))
            if triclinic:
                bounds += take("3d")
            (width,) = take("i")
            (unit_length,) = take("i")
            if unit_length > 0:
                take(f"{unit_length}s")
            (has_time,) = take("c")
            time = take("d")[0] if has_time != b"\0" else None
            (names_length,) = take("i")
            names = take(f"{names_length}s")[0].decode().split()
            (chunks,) = take("i")
            if len(names) != width or not 0 <= atoms < MOST_ATOMS:
                raise ValueError(f"{path}: byte {offset}: {width} columns, {atoms} atoms, {names}")
            parts = []
            for _ in range(chunks):
                (count,) = take("i")
                if count < 0 or count % width or file.tell() + 8 * count > size:
                    raise ValueError(f"{path}: byte {file.tell()}: a part of {count} values")
                parts.append(np.frombuffer(file.read(8 * count), "<f8").reshape(-1, width))
            values = np.concatenate(parts) if parts else np.empty((0, width))
            if len(values) != atoms:
                raise ValueError(f"{path}: byte {offset}: {len(values)} atoms instead of {atoms}")
            columns = {
                name: values[:, i].astype(np.int64) if name in WHOLE else values[:, i]
                for i, name in enumerate(names)
            }
            box = [bounds[i : i + 2] for i in range(0, 6, 2)]
            yield Frame(offset, step, atoms, names, box, time), arrow_table(columns)


def matches(path: Path, head: bytes) -> bool:
    if head.startswith((ITEM, UNITS_ITEM)) or _is_binary(head):
        return True
    opener = next((o for m, o in OPENERS.items() if head.startswith(m)), None)
    if opener is None:
        return False
    try:
        with opener(path, "rb") as file:
            first: bytes = file.read(32)
            return first.startswith((ITEM, UNITS_ITEM))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}: {error}") from error
