"""Frames of GROMACS: the complete frames of XTC and TRR, and GRO files of several frames.

Libraries count an incomplete frame, and read only the first frame of a GRO file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..._errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

XTC_MAGIC = (1995).to_bytes(4, "big")
XTC_LARGE = (2023).to_bytes(4, "big")
"""The magic number of frames with very many atoms, which have another header."""
TRR_MAGIC = (1993).to_bytes(4, "big")


@dataclass(frozen=True)
class Frames:
    """The complete frames of a file.

    Attributes:
        count: None if unknown.
        vectors: The vectors of each frame, if frames may differ.
        wrong: The defect of the first incomplete frame, and its position.
    """

    count: int | None
    vectors: tuple[frozenset[str], ...] = ()
    wrong: str | None = None


def frames(path: Path) -> Frames:
    """The frames of an XTC or TRR file; unknown for other files."""
    ending = path.suffix.lower()
    if ending == ".xtc":
        return _of_xtc(path)
    return _of_trr(path) if ending == ".trr" else Frames(None)


def _where(number: int, at: int, size: int) -> str:
    return f"frame {number}, which begins at byte {at:,} of {size:,},"


def _of_xtc(path: Path) -> Frames:
    # Magic number, atoms, step, time, box (9 numbers), atoms. Then, for more than 9 atoms,
    # precision, bounds, an index, and the number of bytes, which are padded to words.
    few, head, length_at = 9, 56, 88
    size, at, number = path.stat().st_size, 0, 0
    with path.open("rb") as opened:
        while at < size:
            opened.seek(at)
            words = opened.read(length_at + 4)
            if words[:4] == XTC_LARGE:
                return Frames(None)
            if words[:4] != XTC_MAGIC:
                wrong = f"{_where(number, at, size)} does not begin as frames of XTC do"
                return Frames(number, wrong=wrong)
            atoms = int.from_bytes(words[4:8], "big")
            if atoms <= few:
                end = at + head + 12 * atoms
            else:
                end = at + length_at + 4 + -(-int.from_bytes(words[length_at:], "big") // 4) * 4
            if end > size or len(words) < head:
                wrong = f"{_where(number, at, size)} is cut off: it ends at byte {end:,}"
                return Frames(number, wrong=wrong)
            at, number = end, number + 1
    return Frames(number)


def _of_trr(path: Path) -> Frames:
    # Magic number, a string of 12 bytes with its length twice; the sizes of ten parts, such as
    # box, positions, velocities and forces; atoms, step, a number; time and lambda.
    head = 76
    vectors: list[frozenset[str]] = []
    size, at = path.stat().st_size, 0
    with path.open("rb") as opened:
        while at < size:
            opened.seek(at)
            words = opened.read(head)
            if words[:4] != TRR_MAGIC:
                wrong = f"{_where(len(vectors), at, size)} does not begin as frames of TRR do"
                return Frames(len(vectors), tuple(vectors), wrong)
            numbers = [int.from_bytes(words[i : i + 4], "big") for i in range(24, len(words), 4)]
            if len(numbers) < 13:
                wrong = f"{_where(len(vectors), at, size)} is cut off"
                return Frames(len(vectors), tuple(vectors), wrong)
            parts, atoms = numbers[:10], numbers[10]
            of_box, *of_vectors = parts[2], *parts[7:10]
            longest = max(of_box // 9, *(n // max(3 * atoms, 1) for n in of_vectors))
            end = at + head + 2 * longest + sum(parts)
            if end > size:
                wrong = f"{_where(len(vectors), at, size)} is cut off: it ends at byte {end:,}"
                return Frames(len(vectors), tuple(vectors), wrong)
            names = ("positions", "velocities", "forces")
            vectors.append(frozenset(n for n, many in zip(names, of_vectors, strict=True) if many))
            at = end
    return Frames(len(vectors), tuple(vectors))


# GRO


@dataclass
class GroFrame:
    """A frame, with MDAnalysis' names and units."""

    positions: np.ndarray[Any, Any]
    velocities: np.ndarray[Any, Any]
    has_velocities: bool
    dimensions: Any
    time: float
    data: dict[str, int] = field(default_factory=dict)
    has_forces: bool = False


TIME, STEP = re.compile(r"\bt=\s*([-+\d.eE]+)"), re.compile(r"\bstep=\s*(\d+)")
POSITION_AT, ANGSTROM = 20, 10.0
"""The column of a line where numbers start, and the Angstrom in a length of GROMACS."""


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

    def _scan(self, file: IO[bytes]) -> Iterator[tuple[int, int]]:
        number = 0
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
            for _ in range(atoms + 1):
                if not file.readline():
                    raise InvalidInput(f"{self.path}: frame {number} is cut off")
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
