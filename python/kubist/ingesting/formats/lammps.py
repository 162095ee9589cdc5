"""LAMMPS dumps: text, also compressed, and binary.

No library reads all columns of dumps. This module reads text by LAMMPS' manual, and the binary form
like LAMMPS' converter binary2txt.

Scaled positions (`xs ys zs`) become true positions (`x y z`) with the box of the same time step.
Every row stores the box of its step, so a sample has it too.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ..._errors import InvalidInput
from ..source import Options, Source, State, Step, arrow_table, check_range, open_end, unit

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

# A dump begins with such an item; TIME also matches TIMESTEP.
ITEM = b"ITEM: "
ITEMS = (b"ITEM: TIME", b"ITEM: UNITS")


class _Zstandard(io.RawIOBase):
    """A Zstandard file, read forwards, with `tell`, which pyarrow's own stream lacks."""

    def __init__(self, path: Path, _: str) -> None:
        import pyarrow as pa

        self.stream = pa.input_stream(str(path), compression="zstd")
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self.stream.read(len(buffer))
        buffer[: len(read)] = read
        self.position += len(read)
        return len(read)

    def tell(self) -> int:
        return self.position

    def close(self) -> None:
        self.stream.close()
        super().close()


def _open_zstandard(path: Path, mode: str) -> IO[bytes]:
    return io.BufferedReader(_Zstandard(path, mode))


OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstandard,
}
WHOLE = frozenset(("id", "type", "mol", "proc", "ix", "iy", "iz", "procp1"))
TEXT = frozenset(("element", "typelabel"))
NUMBERS = frozenset("id mol proc procp1 ix iy iz x y z xs ys zs xu yu zu xsu ysu zsu".split())
"""Columns that never contain words; `type` may, with `dump_modify types labels`."""
# Names of positions in a dump: plain and unwrapped. Positions scaled by the box become these.
POSITIONS = (("x", "y", "z"), ("xu", "yu", "zu"))
SCALED = {("xs", "ys", "zs"): ("x", "y", "z"), ("xsu", "ysu", "zsu"): ("xu", "yu", "zu")}
BOX = ("box_xlo", "box_xhi", "box_ylo", "box_yhi", "box_zlo", "box_zhi")
TILT = ("box_xy", "box_xz", "box_yz")
# Units by style of LAMMPS (its manual, command `units`): length, time, mass; `lj` has none.
STYLES: dict[str, tuple[str, str, str]] = {
    "real": ("angstrom", "fs", "g/mol"),
    "metal": ("angstrom", "ps", "g/mol"),
    "si": ("m", "s", "kg"),
    "cgs": ("cm", "s", "g"),
    "micro": ("um", "us", "pg"),
    "nano": ("nm", "ns", "ag"),
}
VELOCITIES = frozenset(("vx", "vy", "vz"))
COUNTS = WHOLE | TEXT | {"step", "xs", "ys", "zs", "xsu", "ysu", "zsu"}
"""Columns that have no unit in any style."""
# Words after BOX BOUNDS that state the form of the box; other words are kinds of boundaries.
FORMS = (b"xy", b"xz", b"yz", b"abc", b"origin")
# The maximum number of atoms in a valid header.
MOST_ATOMS = 2**40


@dataclass
class Box:
    """The box of a time step: its origin, and its edge vectors a, b and c.

    A box along the axes has a = (lx, 0, 0), b = (0, ly, 0), c = (0, 0, lz). A tilted box has
    b = (xy, ly, 0) and c = (xz, yz, lz). A general one (`abc origin`) has any three vectors.
    """

    origin: tuple[float, float, float]
    edges: tuple[tuple[float, float, float], ...]

    @staticmethod
    def from_bounds(bounds: Sequence[float], tilt: Sequence[float] | None = None) -> Box:
        """The box from the bounds `xlo xhi ylo yhi zlo zhi` of a dump.

        The bounds of a tilted box contain the whole box (manual, Howto_triclinic).
        """
        xlo, xhi, ylo, yhi, zlo, zhi = bounds
        xy, xz, yz = tilt or (0.0, 0.0, 0.0)
        xlo, xhi = xlo - min(0.0, xy, xz, xy + xz), xhi - max(0.0, xy, xz, xy + xz)
        ylo, yhi = ylo - min(0.0, yz), yhi - max(0.0, yz)
        edges = ((xhi - xlo, 0.0, 0.0), (xy, yhi - ylo, 0.0), (xz, yz, zhi - zlo))
        return Box((xlo, ylo, zlo), edges)

    @property
    def tilted(self) -> bool:
        a, b, c = self.edges
        return any((a[1], a[2], b[0], b[2], c[0], c[1]))

    def columns(self) -> dict[str, float]:
        """The values of the box's columns; a general box has nine components."""
        (a, b, c), (x, y, z) = self.edges, self.origin
        if any((a[1], a[2], b[2])):
            names = [f"box_{edge}{axis}" for edge in "abc" for axis in "xyz"]
            origin = dict(zip(("box_ox", "box_oy", "box_oz"), self.origin, strict=True))
            return dict(zip(names, (*a, *b, *c), strict=True)) | origin
        found = dict(zip(BOX, (x, x + a[0], y, y + b[1], z, z + c[2]), strict=True))
        if self.tilted:
            found |= dict(zip(TILT, (b[0], c[0], c[1]), strict=True))
        return found

    def positions(self, scaled: Sequence[Any]) -> list[Any]:
        """True positions from fractions of the edges."""
        return [
            self.origin[axis] + sum(scaled[i] * self.edges[i][axis] for i in range(3))
            for axis in range(3)
        ]


@dataclass
class Frame:
    """The header of a time step, with the step's offset in the file."""

    offset: int
    step: int
    atoms: int
    columns: list[str]
    box: Box | None
    boundary: str = ""
    units: str | None = None
    time: float | None = None
    unknown: tuple[str, ...] = ()
    """Unknown items of the header."""


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    with path.open("rb") as opened:
        head = opened.read(64)
    read_all = _binary if _is_binary(head) else _text
    left_out: dict[str, str] = {}
    frames = read_all(path)
    first, table = next(frames, (None, None))
    if first is None or table is None:
        raise ValueError(f"{path}: it has no time step")
    table = _true(first, table)
    schema = pa.schema([*table.schema, pa.field("step", pa.int64())])
    if first.time is not None:
        schema = schema.append(pa.field("time", pa.float64()))
    schema = pa.schema([_with_unit(field, first.units) for field in schema])
    _leave_out(first, first, left_out)

    def steps(committed: Callable[[str], int | None]) -> Iterator[Step]:
        """Reads the file in one pass, so the rows of a step are available when it is read."""
        for frame, rows in read_all(path):
            label = f"step {frame.step} at byte {frame.offset}"
            _leave_out(frame, first, left_out)
            yield Step(label, _reading(frame, rows, schema), frame.time, number=frame.step)

    about = {"boundary": first.boundary, "units": first.units}
    names = set(table.column_names)
    dimensions = next((list(p) for p in POSITIONS if set(p) <= names), [])
    return Source(
        path=path,
        format="lammps",
        schema=schema,
        steps=steps,
        dimensions=[*dimensions, "step"] if dimensions else [],
        identity=["id", "step"] if "id" in names else [],
        metadata={"lammps": about},
        grows=True,
        notes=[] if _is_binary(head) or head.startswith(tuple(OPENERS)) else open_end(path),
        left_out=left_out,
        joins=lambda metadata: _joined(path, about, schema, metadata.get("lammps")),
    )


def _joined(
    path: Path, about: dict[str, Any], schema: pa.Schema, here: dict[str, Any] | None
) -> dict[str, Any]:
    """The table's metadata after this file is added.

    Raises:
        InvalidInput: The file has another style of units than the table, and some columns cannot be
            converted.
    """
    if here is None:
        return {"lammps": about}
    own, theirs = about["units"], here.get("units")
    if None not in (own, theirs) and own != theirs:
        without = [f.name for f in schema if not (f.metadata or f.name in COUNTS)]
        without = [name for name in without if not name.startswith("i_")]
        if not {own, theirs} <= STYLES.keys() or without:
            raise InvalidInput(
                f"{path}: its units are those of the style {own}, those of the table of {theirs}, and "
                f"{', '.join(without) or 'lengths'} cannot be converted: give it a table of its own"
            )
    changed = {name: value for name, value in about.items() if here.get(name) != value}
    return {f"lammps of {path}": changed} if changed else {}


def _leave_out(frame: Frame, first: Frame, left_out: dict[str, str]) -> None:
    """Lists the parts of a time step that the table does not have.

    Raises:
        InvalidInput: The units differ from the first time step.
    """
    where = f"step {frame.step} at byte {frame.offset}"
    # Only the first time step states units.
    if frame.units not in (None, first.units):
        raise InvalidInput(
            f"{where}: its units are {frame.units}, those of step {first.step} {first.units}"
        )
    for name in frame.unknown:
        left_out.setdefault(f"item {name}", "its meaning is not known")
    if frame.boundary != first.boundary:
        left_out.setdefault(
            "boundaries of later steps",
            f"the table has {first.boundary}, {where} has {frame.boundary}",
        )


def _with_unit(field: pa.Field, style: str | None) -> pa.Field:
    """The column with its unit, if the dump names a known style of LAMMPS."""
    if style not in STYLES:
        return field
    length, time, mass = STYLES[style]
    name = field.name
    if name in ("x", "y", "z", "xu", "yu", "zu", "radius", "diameter") or name.startswith("box_"):
        return unit(field, length)
    if name in VELOCITIES:
        return unit(field, f"{length}/{time}")
    return unit(field, {"time": time, "mass": mass}.get(name))


def _true(frame: Frame, rows: pa.Table) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    for scaled, names in SCALED.items():
        if not set(scaled) <= set(rows.column_names) or set(names) & set(rows.column_names):
            continue
        if frame.box is None:
            raise ValueError(
                f"step {frame.step} at byte {frame.offset}: its positions are scaled by a box, "
                "and it has no BOX BOUNDS"
            )
        values = [rows.column(name).to_numpy() for name in scaled]
        for name, new, array in zip(scaled, names, frame.box.positions(values), strict=True):
            at = rows.column_names.index(name)
            rows = rows.set_column(at, new, pa.array(array, pa.float64()))
    if frame.box is not None:
        for name, value in frame.box.columns().items():
            rows = rows.append_column(name, pa.array(np.full(rows.num_rows, value)))
    return rows


def _reading(
    frame: Frame, rows: pa.Table, schema: pa.Schema
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        import numpy as np
        import pyarrow as pa

        table = _true(frame, rows)
        table = table.append_column("step", pa.array(np.full(rows.num_rows, frame.step)))
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
        texts: set[str] = set()
        try:
            begin = _next_line(file)
            while begin[1]:
                frame = _header(path, file, *begin)
                rows = _rows(path, file, frame, texts)
                behind = file.tell()
                begin = offset, line = _next_line(file)
                if not line.startswith(ITEM) and not ITEM.startswith(line):
                    raise ValueError(
                        f"{path}: byte {offset}: step {frame.step} has more than the {frame.atoms} atoms "
                        f"that it announces: {line.decode('utf-8', 'replace').strip()!r}"
                    )
                yield frame, rows
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            # The compressed data is damaged; complete time steps end at this byte of the text.
            raise ValueError(f"{path}: behind byte {behind} of its text: {error}") from error


def _next_line(file: IO[bytes]) -> tuple[int, bytes]:
    """The next line that is not blank, and its offset; at the end, the line is empty."""
    at = file.tell()
    line = file.readline()
    while line and not line.strip():
        at = file.tell()
        line = file.readline()
    return at, line


def _header(path: Path, file: IO[bytes], offset: int, line: bytes) -> Frame:
    """Reads the header of the time step that begins with a line, up to the first atom."""
    step = atoms = time = units = box = None
    boundary, unknown = "", []
    while True:
        where = f"{path}: byte {file.tell() - len(line)}"
        if not line.startswith(ITEM):
            raise ValueError(f"{where}: a line that begins with 'ITEM: ' is missing")
        words = line[6:].split()
        if words[:1] == [b"TIMESTEP"]:
            step = _line_of(int, where, file)
        elif words[:1] == [b"TIME"]:
            time = _line_of(float, where, file)
        elif words[:1] == [b"UNITS"]:
            units = file.readline().strip().decode()
        elif words[:3] == [b"NUMBER", b"OF", b"ATOMS"]:
            atoms = _line_of(int, where, file)
            if not 0 <= atoms < MOST_ATOMS:
                raise ValueError(f"{where}: it says that there are {atoms} atoms")
        elif words[:2] == [b"BOX", b"BOUNDS"]:
            boundary = b" ".join(w for w in words[2:] if w not in FORMS).decode()
            box = _box(where, words[2:], [file.readline() for _ in range(3)])
        elif words[:1] == [b"ATOMS"]:
            if step is None or atoms is None:
                raise ValueError(f"{where}: neither step nor number of atoms come before ATOMS")
            columns = [word.decode("utf-8", "replace") for word in words[1:]]
            if twice := sorted({name for name in columns if columns.count(name) > 1}):
                raise ValueError(f"{where}: two columns are named {twice[0]}")
            return Frame(offset, step, atoms, columns, box, boundary, units, time, tuple(unknown))
        elif words[:1] in ([b"ENTRIES"], [b"GRID"]):
            raise ValueError(f"{where}: it is a dump of {words[0].decode().lower()}, not of atoms")
        else:
            # Unknown items of later versions have one line.
            unknown.append(b" ".join(words).decode("utf-8", "replace"))
            file.readline()
        line = file.readline()
        if not line:
            raise ValueError(
                f"{path}: byte {file.tell()}: the file ends in the header of a time step"
            )


def _box(where: str, words: list[bytes], lines: list[bytes]) -> Box:
    """The box from the lines after `ITEM: BOX BOUNDS`, in any of the three forms."""
    try:
        numbers = [[float(number) for number in line.split()] for line in lines]
        if words[:2] == [b"abc", b"origin"]:
            a, b, c = ((n[0], n[1], n[2]) for n in numbers)
            return Box((numbers[0][3], numbers[1][3], numbers[2][3]), (a, b, c))
        bounds = [value for line in numbers for value in (line[0], line[1])]
        tilt = [line[2] for line in numbers] if words[:3] == [b"xy", b"xz", b"yz"] else None
        return Box.from_bounds(bounds, tilt)
    except (ValueError, IndexError):
        raise ValueError(f"{where}: BOX BOUNDS {lines} are not three lines of numbers") from None


def _line_of(kind: Callable[[bytes], T], where: str, file: IO[bytes]) -> T:
    line = file.readline()
    try:
        return kind(line)
    except ValueError:
        word = "integer" if kind is int else "number"
        raise ValueError(f"{where}: {line!r} is no {word}") from None


def _rows(path: Path, file: IO[bytes], frame: Frame, texts: set[str]) -> pa.Table:
    """The atoms of a time step.

    Args:
        texts: Columns of strings: their first value in the file is not a number.
    """
    import pyarrow as pa
    from pyarrow import csv

    where = f"{path}: byte {file.tell()}: step {frame.step}"
    lines = [line for line in islice(file, frame.atoms)]
    _check_lines(where, frame, lines)
    if lines:
        words = zip(frame.columns, lines[0].split(), strict=True)
        texts |= {name for name, word in words if name not in NUMBERS and not _is_number(word)}
    kinds = {name: pa.string() if name in texts else _type(name) for name in frame.columns}
    body = b"".join(b" ".join(line.split()) + b"\n" for line in lines)
    if not lines:
        return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    try:
        table = csv.read_csv(
            _memory(body),
            read_options=csv.ReadOptions(column_names=frame.columns),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        for row, line in enumerate(lines):
            for name, word in zip(frame.columns, line.split(), strict=True):
                if kinds[name] != pa.string() and not _is_number(word, kinds[name] == pa.int64()):
                    said = word.decode("utf-8", "replace")
                    raise ValueError(f"{where}: row {row}: {name} is {said!r}, no number") from None
        raise ValueError(f"{where}: {error}") from None
    for at, name in enumerate(frame.columns):
        if kinds[name] == pa.float64():
            column = table.column(name).to_numpy()
            check_range(f"{where}: ", name, column, lambda row, at=at: lines[row].split()[at])
    return table


def _check_lines(where: str, frame: Frame, lines: list[bytes]) -> None:
    for row, line in enumerate(lines):
        if len(line.split()) != len(frame.columns):
            there = line.decode("utf-8", "replace").strip()
            if row + 1 < len(lines) or line.endswith(b"\n"):
                raise ValueError(
                    f"{where}: row {row} of {frame.atoms}: {len(frame.columns)} values are "
                    f"announced, and it is {there!r}"
                )
            lines = lines[:row]
            break
    if len(lines) < frame.atoms:
        raise ValueError(
            f"{where} ends early: {frame.atoms} atoms were announced, and the file ends in row "
            f"{len(lines)}"
        )


def _is_number(word: bytes, is_integer: bool = False) -> bool:
    try:
        int(word) if is_integer else float(word)
    except ValueError:
        return False
    return True


def _memory(body: bytes) -> pa.BufferReader:
    """`body` in Arrow's own memory.

    Arrow's threads may outlive the call, and would crash the process if they released a Python
    object at the exit of the interpreter.
    """
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    sink.write(body)
    return pa.BufferReader(sink.getvalue())


def _type(name: str) -> Any:
    import pyarrow as pa

    if name in TEXT:
        return pa.string()
    # Integers of atoms that the user defined (`fix property/atom`).
    return pa.int64() if name in WHOLE or name.startswith("i_") else pa.float64()


# Binary


def _is_binary(head: bytes) -> bool:
    """Old dumps start with the step, newer dumps with the negative length of the magic word."""
    if len(head) < 8 or head.startswith((*ITEMS, *OPENERS)):
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
            edges = take("6i")
            # 0: along the axes; 1: tilted; 2: three arbitrary edges and an origin.
            if triclinic == 2:
                general = take("12d")
                box = Box(general[9:12], (general[0:3], general[3:6], general[6:9]))
            else:
                box = Box.from_bounds(take("6d"), take("3d") if triclinic else None)
            (width,) = take("i")
            (unit_length,) = take("i")
            units = take(f"{unit_length}s")[0].decode() if unit_length > 0 else None
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
            # The kinds of boundaries (p, f, s, m), two for each axis.
            kinds = "".join("pfsm"[kind] if 0 <= kind < 4 else "?" for kind in edges)
            boundary = " ".join(kinds[i : i + 2] for i in (0, 2, 4))
            frame = Frame(offset, step, atoms, names, box, boundary, units, time)
            yield frame, arrow_table(columns)


def matches(path: Path, head: bytes) -> bool:
    if head.startswith(ITEMS) or _is_binary(head):
        return True
    opener = next((o for m, o in OPENERS.items() if head.startswith(m)), None)
    if opener is None:
        return False
    try:
        with opener(path, "rb") as file:
            first: bytes = file.read(32)
            return first.startswith(ITEMS)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}: {error}") from error
