"""Frames of GROMACS: the complete frames of XTC and TRR files, and all frames of GRO files.

Libraries also count an incomplete last frame, and read only the first frame of a GRO file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..._errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

XTC_MAGIC = (1995).to_bytes(4, "big")
XTC_LARGE = (2023).to_bytes(4, "big")
"""The magic number of frames with another header, for very many atoms."""
TRR_MAGIC = (1993).to_bytes(4, "big")


@dataclass(frozen=True)
class Frames:
    """The complete frames of a file.

    Attributes:
        count: None if frames were not counted.
        vectors: The vectors by frame, if frames may differ.
        wrong: The first incomplete frame's defect and position.
        times: The times by frame, if known.
    """

    count: int | None
    vectors: tuple[frozenset[str], ...] = ()
    wrong: str | None = None
    times: tuple[float, ...] = ()


def frames(path: Path) -> Frames:
    """The frames of an XTC, TRR or DCD file; empty for other formats."""
    ending = path.suffix.lower()
    if ending == ".xtc":
        return _of_xtc(path)
    if ending == ".dcd":
        return _of_dcd(path)
    return _of_trr(path) if ending == ".trr" else Frames(None)


def _where(number: int, at: int, size: int) -> str:
    return f"frame {number}, which begins at byte {at:,} of {size:,},"


def _of_xtc(path: Path) -> Frames:
    # Magic number, atoms, step, time, box (9 numbers), atoms. Then, for more than 9 atoms,
    # precision, bounds, an index, and the number of bytes, which are padded to words.
    few, head, length_at = 9, 56, 88
    size, at, number = path.stat().st_size, 0, 0
    times: list[float] = []
    with path.open("rb") as opened:
        while at < size:
            opened.seek(at)
            words = opened.read(length_at + 4)
            if words[:4] == XTC_LARGE:
                return Frames(None)
            if words[:4] != XTC_MAGIC:
                wrong = f"{_where(number, at, size)} does not begin as frames of XTC do"
                return Frames(number, wrong=wrong, times=tuple(times))
            atoms = int.from_bytes(words[4:8], "big")
            if atoms <= few:
                end = at + head + 12 * atoms
            else:
                end = at + length_at + 4 + -(-int.from_bytes(words[length_at:], "big") // 4) * 4
            if end > size or len(words) < head:
                wrong = f"{_where(number, at, size)} is cut off: it ends at byte {end:,}"
                return Frames(number, wrong=wrong, times=tuple(times))
            times.append(struct.unpack(">f", words[12:16])[0])
            at, number = end, number + 1
    return Frames(number, times=tuple(times))


def _of_dcd(path: Path) -> Frames:
    """The complete frames of a DCD file, because MDAnalysis reports no incomplete last frame.

    Each record has its length before and after its data. A frame has a record each for x, y and z,
    after a record for its cell if the header states this.
    """
    size = path.stat().st_size
    with path.open("rb") as opened:
        head = opened.read(92)
        order = next((o for o in "<>" if head[:4] == struct.pack(f"{o}i", 84)), None)
        if order is None or len(head) < 92 or head[4:8] != b"CORD":
            return Frames(None)
        has_cell, has_fourth = (
            struct.unpack_from(f"{order}i", head, 48 + 4 * i)[0] for i in (0, 1)
        )
        # X-PLOR has other numbers at these offsets, and neither a cell nor a fourth axis.
        is_charmm = struct.unpack_from(f"{order}i", head, 84)[0] != 0
        of_frame = 3 + is_charmm * (bool(has_cell) + bool(has_fourth))
        # The title and the number of atoms.
        at = 92
        for _ in range(2):
            at = _behind_record(opened, order, at)
        fixed = struct.unpack_from(f"{order}i", head, 40)[0]
        if fixed:
            at = _behind_record(opened, order, at)
        number = 0
        while at < size:
            end = at
            for _ in range(of_frame):
                end = _behind_record(opened, order, end)
            if end > size:
                return Frames(number, wrong=f"{_where(number, at, size)} is cut off")
            at, number = end, number + 1
    return Frames(number)


def _behind_record(file: IO[bytes], order: str, at: int) -> int:
    """The end of the record that begins at a byte; it may be past the end of the file."""
    file.seek(at)
    length = file.read(4)
    return at + 8 + (struct.unpack(f"{order}I", length)[0] if len(length) == 4 else 0)


def _of_trr(path: Path) -> Frames:
    # Magic number, a string of 12 bytes with its length twice; the sizes of ten parts, such as
    # box, positions, velocities and forces; atoms, step, a number; time and lambda.
    head = 76
    vectors: list[frozenset[str]] = []
    times: list[float] = []
    size, at = path.stat().st_size, 0
    with path.open("rb") as opened:
        while at < size:
            opened.seek(at)
            words = opened.read(head + 8)
            if words[:4] != TRR_MAGIC:
                wrong = f"{_where(len(vectors), at, size)} does not begin as frames of TRR do"
                return Frames(len(vectors), tuple(vectors), wrong, tuple(times))
            numbers = [
                int.from_bytes(words[i : i + 4], "big") for i in range(24, min(len(words), head), 4)
            ]
            if len(numbers) < 13:
                wrong = f"{_where(len(vectors), at, size)} is cut off"
                return Frames(len(vectors), tuple(vectors), wrong, tuple(times))
            parts, atoms = numbers[:10], numbers[10]
            of_box, *of_vectors = parts[2], *parts[7:10]
            longest = max(of_box // 9, *(n // max(3 * atoms, 1) for n in of_vectors))
            end = at + head + 2 * longest + sum(parts)
            if end > size:
                wrong = f"{_where(len(vectors), at, size)} is cut off: it ends at byte {end:,}"
                return Frames(len(vectors), tuple(vectors), wrong, tuple(times))
            times.append(_time_of_trr(words, longest))
            names = ("positions", "velocities", "forces")
            vectors.append(frozenset(n for n, many in zip(names, of_vectors, strict=True) if many))
            at = end
    return Frames(len(vectors), tuple(vectors), times=tuple(times))


def _time_of_trr(head: bytes, width: int) -> float:
    """The time, with as many bytes as a vector component; it follows atoms, step and a number."""
    kind, at = (">d", 76) if width == 8 else (">f", 76)
    time: float = struct.unpack_from(kind, head, at)[0] if len(head) >= at + width else 0.0
    return time


def repeats(times: Sequence[float]) -> list[str]:
    """Notes for frames whose time is not after the previous frame, as in an appended run."""
    late = [i for i in range(1, len(times)) if times[i] <= times[i - 1]]
    if not late:
        return []
    first = late[0]
    return [
        f"{len(late):,} frames are repeated or late, from frame {first} on: its time is "
        f"{times[first]:g} ps, that of the frame before is {times[first - 1]:g} ps; all frames are stored"
    ]


# GRO


@dataclass
class GroFrame:
    """A frame of a GRO file, with MDAnalysis' names and units."""

    positions: np.ndarray[Any, Any]
    velocities: np.ndarray[Any, Any]
    has_velocities: bool
    dimensions: Any
    time: float
    data: dict[str, int] = field(default_factory=dict)
    has_forces: bool = False


TIME, STEP = re.compile(r"\bt=\s*([-+\d.eE]+)"), re.compile(r"\bstep=\s*(\d+)")
POSITION_AT, ANGSTROM = 20, 10.0
"""The column of a line at which numbers begin, and the factor from nm to Angstrom."""
NAMES_END = 15
"""The column of a line at which the residue and the name of an atom end."""


class GroFrames:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.starts: list[int] = []
        self.n_atoms = 0
        with path.open("rb") as file:
            for number, (start, atoms) in enumerate(self._scan(file)):
                if number and atoms != self.n_atoms:
                    raise InvalidInput(
                        f"{path}: frame {number} has {atoms} atoms, frame 0 has {self.n_atoms}"
                    )
                self.n_atoms = atoms
                self.starts.append(start)
        self.n_frames = len(self.starts)
        self.ts = self[0]

    def times(self) -> list[float]:
        return [self[number].time for number in range(self.n_frames)]

    def _scan(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        number = 0
        first: list[bytes] = []
        while True:
            start = file.tell()
            title, count = file.readline(), file.readline()
            if not title.strip() and not count.strip():
                return
            if not count.strip().isdigit():
                raise InvalidInput(
                    f"{self.path}: frame {number}: {count.decode(errors='replace').strip()!r} is "
                    "no number of atoms"
                )
            atoms = int(count)
            lines = [file.readline() for _ in range(atoms + 1)]
            if not all(lines):
                raise InvalidInput(f"{self.path}: frame {number} is cut off")
            names = [line[:NAMES_END] for line in lines[:-1]]
            first = first or names
            for atom, (own, of_first) in enumerate(zip(names, first, strict=False)):
                if own != of_first:
                    said, before = (n.decode("ascii", "replace").strip() for n in (own, of_first))
                    raise InvalidInput(
                        f"{self.path}: frame {number}: atom {atom} is {said}, and was {before} in "
                        "frame 0: give each of them a table"
                    )
            yield start, atoms
            number += 1

    def __getitem__(self, number: int) -> GroFrame:
        import numpy as np

        number = range(self.n_frames)[number]
        with self.path.open("rb") as file:
            file.seek(self.starts[number])
            title = file.readline().decode("utf-8", "replace")
            file.readline()
            lines = [
                file.readline().decode("ascii", "replace").rstrip("\n") for _ in range(self.n_atoms)
            ]
            box = file.readline().split()
        where = f"{self.path}: frame {number}"
        # The width of a number is the distance of the decimal points.
        first = lines[0][POSITION_AT:] if lines else ""
        dot = first.find(".")
        width = first.find(".", dot + 1) - dot
        if width <= 1:
            raise InvalidInput(f"{where}: atom 0: no positions are found in {first!r}")
        fast = len(lines[0].rstrip()) >= POSITION_AT + 6 * width - (width - 1)
        count = 6 if fast else 3
        try:
            values = np.array(
                [
                    [
                        line[POSITION_AT + i * width : POSITION_AT + (i + 1) * width]
                        for i in range(count)
                    ]
                    for line in lines
                ],
                dtype="U",
            ).astype(np.float64)
            edges = [float(word) for word in box]
        except ValueError as error:
            raise InvalidInput(f"{where}: {error}") from None
        time, step = TIME.search(title), STEP.search(title)
        return GroFrame(
            (values[:, :3] * ANGSTROM).astype(np.float32),
            (values[:, 3:] * ANGSTROM).astype(np.float32),
            fast,
            self._cell(edges),
            float(time[1]) if time else float(number),
            {"step": int(step[1])} if step else {},
        )

    def _cell(self, edges: list[float]) -> Any:
        import numpy as np
        from MDAnalysis.lib.mdamath import triclinic_box

        if not any(edges):
            return None
        if len(edges) == 3:
            return np.array([*(ANGSTROM * e for e in edges), 90, 90, 90], np.float32)
        if len(edges) != 9:
            raise InvalidInput(f"{self.path}: a box of {len(edges)} numbers, 3 or 9 are expected")
        x, y, z, xy, xz, yx, yz, zx, zy = (ANGSTROM * e for e in edges)
        return triclinic_box([x, xy, xz], [yx, y, yz], [zx, zy, z])
