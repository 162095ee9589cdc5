"""Frames of a trajectory as arrays, from one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _kubist
from .._errors import InvalidInput
from .._shown import counted
from .._table import Snapshot, Table
from . import layout, topology

if TYPE_CHECKING:
    from .._arguments import Box

Array = np.ndarray[Any, Any]
Select = Callable[[str, topology.Topology], Array]

# Rows per query; its arrays take at most a few hundred megabytes.
ROWS_AT_ONCE = 4_000_000
# Maximum number of atoms in a condition that uses the secondary index. For 52,323 atoms in 250
# frames, reading all rows in between is faster from 200 atoms (warm) or 300 atoms (cold).
NAMED_ATOMS = 256


class Frames:
    """The frames of a single snapshot, with all atoms or a selection.

    Attributes
    ----------
    atoms
        The selected atom numbers, ascending.
    cells
        Unit cells (lengths and angles), one row per frame, NaN without a cell; or None.
    steps
        Steps of the solver, one per frame; or None.
    """

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        self.table = table
        self.snapshot = snapshot
        columns = set(snapshot.schema.names)
        missing = [name for name in ("atom", "frame", *layout.POSITION) if name not in columns]
        if missing:
            raise InvalidInput(
                f"{table.location} is no trajectory: it has no column {', '.join(missing)}"
            )
        self.units = snapshot.units
        self.has = {
            what: all(name in columns for name in names) for what, names in layout.VECTORS.items()
        }
        self._read_heads(columns)
        self.total_atoms = self._count_atoms()
        self.atoms: Array = np.arange(self.total_atoms, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.times)

    def _read_heads(self, columns: set[str]) -> None:
        """Reads the values of whole frames from the rows of atom 0."""
        wanted = ["frame", *(n for n in ("time", *layout.CELL, layout.STEP) if n in columns)]
        heads = self.snapshot.query(where="atom = 0", columns=wanted).to_numpy()
        order = np.argsort(heads["frame"], kind="stable")
        numbers = heads["frame"][order]
        expected = np.arange(len(numbers))
        if not np.array_equal(numbers, expected):
            wrong = int(np.argmax(numbers != expected))
            found = "twice" if wrong and numbers[wrong] == numbers[wrong - 1] else "missing"
            at = numbers[wrong] if found == "twice" else wrong
            raise InvalidInput(f"{self.table.location}: frame {at} of atom 0 is {found}")
        self.times: Array = heads["time"][order] if "time" in heads else expected.astype(float)
        self.cells: Array | None = None
        if all(name in heads for name in layout.CELL):
            self.cells = np.stack([heads[name][order] for name in layout.CELL], axis=1)
        steps = heads.get(layout.STEP)
        self.steps: Array | None = None
        if steps is not None and len(steps) and not np.ma.is_masked(steps):
            self.steps = steps[order].astype(np.int64)

    def _count_atoms(self) -> int:
        rows, frames = len(self.snapshot), len(self.times)
        atoms = rows // frames if frames else 0
        if frames and atoms * frames != rows:
            raise InvalidInput(
                f"{self.table.location}: {counted(rows, 'record')} cannot be {frames} frames "
                "of equally many atoms; read them as points, with query()"
            )
        return atoms

    @property
    def topology(self) -> topology.Topology:
        stored = self.snapshot.metadata.get(topology.KEY)
        known = topology.Topology.minimal(self.total_atoms)
        if stored is not None:
            known = topology.Topology.from_json(stored)
        if known.atoms != self.total_atoms:
            raise InvalidInput(
                f"{self.table.location}: its topology has {known.atoms} atoms, "
                f"its frames {self.total_atoms}"
            )
        return known if len(self.atoms) == known.atoms else known.subset(self.atoms)

    def choose(
        self,
        atoms: Sequence[int] | Array | str | None = None,
        box: Box | None = None,
        sample: float | None = None,
        select: Select | None = None,
    ) -> None:
        """Selects the atoms that later calls read.

        Parameters
        ----------
        atoms
            Atom numbers, or a selection that ``select`` understands.
        box
            Select the atoms that are in a region in some frame.
        sample
            The fraction of the atoms to select, as a uniform sample.
        """
        chosen, asked = self.atoms, atoms
        if isinstance(atoms, str):
            if select is None:
                raise InvalidInput(f"atoms must be numbers here, not {atoms!r}")
            atoms = select(atoms, self.topology)
        if atoms is not None:
            chosen = np.unique(np.asarray(atoms, dtype=np.int64))
            if len(chosen) and not (0 <= chosen[0] and chosen[-1] < self.total_atoms):
                outside = chosen[-1] if chosen[-1] >= self.total_atoms else chosen[0]
                raise InvalidInput(f"there is no atom {outside}: there are {self.total_atoms}")
        if box is not None:
            inside = self.snapshot.query(box=box, columns=["atom"]).to_numpy()["atom"]
            chosen = np.intersect1d(chosen, inside)
        if sample is not None:
            identity = self.snapshot._about().identity
            if identity != ["atom"]:
                raise InvalidInput(
                    f"a sample of whole atoms needs the identity ['atom'], not {identity}"
                )
            sampled = self.snapshot.query(
                box={"frame": (0, 0)}, sample=sample, columns=["atom"]
            ).to_numpy()["atom"]
            chosen = np.intersect1d(chosen, sampled)
        if not len(chosen):
            selected = f"atoms={asked!r} selects" if isinstance(asked, str) else "the choice leaves"
            raise InvalidInput(
                f"{self.table.location}: {selected} none of {self.total_atoms:,} atoms"
            )
        self.atoms = chosen.astype(np.int32)

    def read(
        self,
        frames: Sequence[int] | range | Array,
        what: Sequence[str] = ("positions",),
        atoms: Array | None = None,
    ) -> dict[str, Array]:
        """Returns vectors by name, as float32 arrays of shape (frames, atoms, 3).

        Parameters
        ----------
        frames
            Distinct frame numbers.
        what
            ``positions``, ``velocities`` or ``forces``.
        atoms
            Ascending positions in the selection; None: the whole selection.

        Raises
        ------
        InvalidInput
            A frame does not have exactly one row per atom.
        """
        numbers = np.asarray(frames, dtype=np.int64)
        wanted = self.atoms if atoms is None else self.atoms[atoms]
        arrays = {name: np.empty((len(numbers), len(wanted), 3), dtype=np.float32) for name in what}
        at_once = max(1, ROWS_AT_ONCE // max(len(wanted), 1))
        for start in range(0, len(numbers), at_once):
            part = slice(start, start + at_once)
            self._read_into({k: v[part] for k, v in arrays.items()}, numbers[part], wanted)
        return arrays

    def _read_into(self, arrays: dict[str, Array], frames: Array, atoms: Array) -> None:
        columns = [column for name in arrays for column in layout.VECTORS[name]]
        box, conditions = self._narrowed(frames, atoms)
        result = self.snapshot.query(
            box=box,
            where=" AND ".join(conditions) or None,
            columns=["frame", "atom", *columns],
        )
        rows, filled = 0, np.zeros(len(frames) * len(atoms), np.uint8)
        slot_of_frame = np.full(len(self), -1, np.int64)
        slot_of_frame[frames] = np.arange(len(frames)) * len(atoms)
        place_of_atom = np.full(self.total_atoms, -1, np.int32)
        place_of_atom[atoms] = np.arange(len(atoms))
        # Rows are copied while the engine reads the next ones.
        for batch in result._batches():
            put, beyond = _kubist.put_frames(
                batch, slot_of_frame, place_of_atom, filled, list(arrays.values())
            )
            if beyond is not None:
                raise InvalidInput(
                    f"{self.table.location}: there is an atom {beyond}, although each "
                    f"frame has {self.total_atoms}; read it as points, with query()"
                )
            rows += put
        if rows != len(filled) or not filled.all():
            self._refuse(frames, atoms)

    def _narrowed(self, frames: Array, atoms: Array) -> tuple[dict[str, Any], list[str]]:
        """A box and conditions that exclude most rows of other atoms and frames."""
        low, high = int(frames.min()), int(frames.max())
        box: dict[str, Any] = {}
        conditions = []
        if len(frames) < high - low + 1:
            conditions.append(f"frame IN ({', '.join(map(str, frames.tolist()))})")
        elif len(frames) < len(self):
            # With a condition on all frames, the secondary index would also visit the tree.
            box["frame"] = (low, high)
        if len(atoms) < self.total_atoms:
            if len(atoms) > NAMED_ATOMS:
                box["atom"] = (int(atoms[0]), int(atoms[-1]))
            else:
                conditions.append(f"atom IN ({', '.join(map(str, atoms.tolist()))})")
        return box, conditions

    def _refuse(self, frames: Array, atoms: Array) -> None:
        """Raises `InvalidInput` with the first frame and atom that do not have exactly one row."""
        box, conditions = self._narrowed(frames, atoms)
        where = " AND ".join(conditions) or None
        found = self.snapshot.query(box=box, where=where, columns=["frame", "atom"]).to_numpy()
        slots = found["frame"].astype(np.int64) * self.total_atoms + found["atom"]
        wanted = (frames[:, None] * self.total_atoms + atoms).ravel()
        rows, counts = np.unique(slots, return_counts=True)
        at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1) if len(rows) else 0
        of_wanted = np.where(rows[at] == wanted, counts[at], 0) if len(rows) else 0 * wanted
        wrong = int(np.argmax(of_wanted != 1))
        frame, atom = divmod(int(wanted[wrong]), self.total_atoms)
        raise InvalidInput(
            f"{self.table.location}: frame {frame} has "
            f"{counted(int(of_wanted[wrong]), 'record')} of atom {atom}; "
            "read it as points, with query()"
        )

    def region(
        self,
        box: Box,
        frames: Sequence[int] | range | Array | None = None,
        columns: Sequence[str] = ("frame", "atom", *layout.POSITION),
    ) -> dict[str, Array]:
        """Returns the rows of a region over time: one array per column, sorted by frame and atom.

        Atoms enter and leave the region, so rows do not form an array of frames by atoms.
        """
        wanted = np.arange(len(self)) if frames is None else np.asarray(frames, dtype=np.int64)
        if not len(wanted):
            raise InvalidInput("no frame is selected")
        narrowed, conditions = self._narrowed(wanted, self.atoms)
        both = {**narrowed, **box}
        if "frame" in box:
            raise InvalidInput("select frames by number, not by the box")
        asked = list(dict.fromkeys(["frame", "atom", *columns]))
        found = self.snapshot.query(
            box=both, where=" AND ".join(conditions) or None, columns=asked
        ).to_numpy()
        if len(self.atoms) < self.total_atoms:
            chosen = np.isin(found["atom"], self.atoms)
            found = {name: values[chosen] for name, values in found.items()}
        order = _ascending(found["frame"], found["atom"])
        return {name: found[name][order] for name in columns}


def _ascending(frames: Array, atoms: Array) -> Array:
    """The order by frame and atom, both non-negative."""
    order = np.arange(len(frames))
    # NumPy sorts 16-bit integers with a radix sort.
    for numbers in (atoms, frames):
        for digit in range(0, int(numbers.max(initial=0)).bit_length(), 16):
            digits = (numbers >> digit).astype(np.uint16)
            order = order[np.argsort(digits[order], kind="stable")]
    return order
