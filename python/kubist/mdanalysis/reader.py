"""Frames of a table, for `MDAnalysis.Universe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from MDAnalysis.coordinates.base import FrameIteratorSliced, ReaderBase, WriterBase
from MDAnalysis.lib.util import store_init_arguments
from MDAnalysis.units import conversion_factor

from .. import _create
from .._errors import InvalidInput
from .._md import layout
from .._md.frames import ROWS_AT_ONCE, Frames
from . import convert, writer

if TYPE_CHECKING:
    from .._arguments import Box

Array = np.ndarray[Any, Any]

# Maximum number of frames, and of rows, to read ahead.
MOST_AHEAD = 64
ROWS_AHEAD = ROWS_AT_ONCE
# For an announced sequence of frames: the first number to read ahead, and its growth factor.
FIRST_AHEAD = 4
MORE_AHEAD = 4

KINDS = {"time": "time", "length": "x", "velocity": "vx", "force": "fx"}
"""Quantities with a unit in MDAnalysis, and a column of a table with this quantity."""

USUAL = {
    "time": "ps",
    "length": "Angstrom",
    "velocity": "Angstrom/ps",
    "force": "kJ/(mol*Angstrom)",
}


@contextmanager
def opened(
    path: str,
    atoms: Any = None,
    box: Box | None = None,
    sample: float | None = None,
    token: str | None = None,
    **_: Any,
) -> Iterator[Frames]:
    """The frames of the selected atoms of the table at ``path``; closes the table at the end."""
    frames = open_frames(path, atoms, box, sample, token)
    try:
        yield frames
    finally:
        frames.table.close()


def open_frames(
    path: str, atoms: Any, box: Box | None, sample: float | None, token: str | None
) -> Frames:
    table = _create.open(path)
    try:
        frames = Frames(table, table.snapshot() if token is None else table.at(token))
        frames.choose(atoms, box, sample, convert.select)
        return frames
    except BaseException:
        table.close()
        raise


def units_of(frames: Frames) -> dict[str, str | None]:
    """The units of the quantities; by default, the units that MDAnalysis expects."""
    found: dict[str, str | None] = {}
    for kind, column in KINDS.items():
        said = frames.units.get(column)
        if said is not None:
            known = conversion_factor["speed" if kind == "velocity" else kind]
            if said not in known:
                raise InvalidInput(
                    f"{frames.table.location}: column {column} is in {said!r}, which MDAnalysis "
                    f"does not know as a unit of {kind}: set_unit() or convert_units=False"
                )
        found[kind] = said or USUAL[kind]
    return found


class Announced(FrameIteratorSliced):
    """The frames of a slice; iteration announces them to the reader, which reads ahead."""

    def __iter__(self) -> Iterator[Any]:
        self.trajectory.announce(range(self.start, self.stop, self.step))
        yield from super().__iter__()


class KubistReader(ReaderBase):
    """A trajectory in a table, with random access to frames; sequences are read ahead.

    It shows one snapshot; `refresh` and `follow` continue with newer snapshots.

    Parameters
    ----------
    filename
        The location of the table.
    convert_units
        Whether to convert to the units of MDAnalysis.
    atoms
        The atoms to select: numbers, or a selection that needs no coordinates.
    box
        Select only atoms that pass through this region, in the table's units.
    sample
        Select only this fraction of the atoms, as a uniform sample.
    token
        The snapshot to show (`kubist.Snapshot.token`); None: the newest.
    """

    format = "KUBIST"

    @store_init_arguments
    def __init__(
        self,
        filename: Any,
        convert_units: bool = True,
        atoms: Any = None,
        box: Box | None = None,
        sample: float | None = None,
        token: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(filename, convert_units=convert_units, **kwargs)
        self._open(atoms, box, sample, token)
        if not len(self._frames):
            self._frames.table.close()
            raise InvalidInput(f"{self.filename}: the table has no frames yet")
        self.n_atoms = len(self._frames.atoms)
        self._what = [what for what in layout.VECTORS if self._frames.has[what]]
        self.ts = self._Timestep(
            self.n_atoms,
            positions=True,
            velocities=self._frames.has["velocities"],
            forces=self._frames.has["forces"],
            **self._ts_kwargs,
        )
        times = self._frames.times
        if "dt" not in self._ts_kwargs and len(times) > 1:
            self.ts.dt = float(self._converted("time", times[1] - times[0]))
        self._read_next_timestep()

    def _open(
        self, atoms: Any, box: Box | None, sample: float | None, token: str | None
    ) -> None:
        self._frames = open_frames(self.filename, atoms, box, sample, token)
        try:
            self.units = units_of(self._frames) if self.convert_units else dict.fromkeys(KINDS)
        except InvalidInput:
            self._frames.table.close()
            raise
        self._frame = -1
        self._ahead: dict[int, dict[str, Array]] = {}
        self._stride = 0
        self._reach = 1
        self._coming = range(0)

    @property
    def n_frames(self) -> int:
        return len(self._frames)

    @staticmethod
    def parse_n_atoms(filename: str, **kwargs: Any) -> int:
        with opened(filename, **kwargs) as frames:
            return len(frames.atoms)

    def refresh(self) -> int:
        """Switches to the newest snapshot, and returns its number of frames."""
        table, atoms = self._frames.table, self._frames.atoms
        self._show(Frames(table, table.snapshot()), atoms)
        return self.n_frames

    def follow(self, timeout: float | None = None) -> Iterator[Any]:
        """Yields the frames after the current one, and then each new one after its commit.

        Parameters
        ----------
        timeout
            The iteration ends after this time in seconds without a new frame; None: never.
        """
        table, atoms = self._frames.table, self._frames.atoms
        for snapshot in table.watch(timeout=timeout):
            self._show(Frames(table, snapshot), atoms)
            while self._frame + 1 < self.n_frames:
                yield self._read_frame_with_aux(self._frame + 1)

    def _show(self, frames: Frames, atoms: Array) -> None:
        if frames.total_atoms != self._frames.total_atoms:
            raise InvalidInput(
                f"{self.filename}: frames now have {frames.total_atoms} atoms, "
                f"not {self._frames.total_atoms}"
            )
        frames.atoms = atoms
        self._frames = frames
        self._ahead.clear()

    def region(
        self,
        box: Box,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        columns: Any = ("frame", "atom", *layout.POSITION),
    ) -> Mapping[str, Array]:
        """Returns the rows of a region over time: one array per column, sorted by frame and atom.

        Box and values are in the table's units.
        """
        frames = range(*self.check_slice_indices(start, stop, step))
        return self._frames.region(box, frames, columns)

    def timeseries(
        self,
        asel: Any = None,
        atomgroup: Any = None,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        order: str | None = "fac",
    ) -> Array:
        """Returns positions as one array; only the selected atoms and frames are read."""
        if self.transformations:
            return super().timeseries(asel, atomgroup, start, stop, step, order)
        atomgroup = _one_group(asel, atomgroup)
        frames = list(range(*self.check_slice_indices(start, stop, step)))
        atoms, back = np.arange(self.n_atoms), np.arange(self.n_atoms)
        if atomgroup is not None:
            atoms, back = np.unique(atomgroup.indices, return_inverse=True)
        if frames:
            found = self._frames.read(frames, ("positions",), atoms)["positions"]
        else:
            found = np.empty((0, len(atoms), 3), np.float32)
        if len(back) != len(atoms) or (back[1:] < back[:-1]).any():
            found = found[:, back]
        if self.convert_units:
            self.convert_pos_from_native(found)
        return _ordered(found, order or "fac")

    def _read_frame(self, frame: int) -> Any:
        if not 0 <= frame < self.n_frames:
            raise OSError(f"{self.filename}: there is no frame {frame}")
        found = self._ahead.pop(frame, None)
        if found is None:
            found = self._read_ahead(frame)
        self._stride = frame - self._frame
        self._frame = frame
        ts = self.ts
        ts.frame = frame
        for what in self._what:
            getattr(ts, what)[:] = found[what]
        self._set_frame_values(ts)
        return ts

    def announce(self, frames: range) -> None:
        """Announces the next frames, so that many are read together."""
        self._coming, self._reach = frames, 0
        self._ahead.clear()

    def __getitem__(self, frame: Any) -> Any:
        found = super().__getitem__(frame)
        return Announced(self, frame) if type(found) is FrameIteratorSliced else found

    def __iter__(self) -> Any:
        self.announce(range(self.n_frames))
        return super().__iter__()

    def _read_ahead(self, frame: int) -> dict[str, Array]:
        """Reads a frame, and further frames if they are announced or read in sequence."""
        most = max(1, min(MOST_AHEAD, ROWS_AHEAD // self.n_atoms))
        if self._coming and self._coming[0] == frame:
            self._reach = min(max(self._reach * MORE_AHEAD, FIRST_AHEAD), most)
            frames, self._coming = self._coming[: self._reach], self._coming[self._reach :]
        else:
            stride = frame - self._frame
            in_turn = stride == self._stride and stride > 0
            self._reach = min(self._reach * 2, most) if in_turn else 1
            frames = range(frame, self.n_frames, max(stride, 1))[: self._reach]
        arrays = self._frames.read(frames, self._what)
        self._ahead = {
            number: {what: array[place] for what, array in arrays.items()}
            for place, number in enumerate(frames)
        }
        return self._ahead.pop(frame)

    def _set_frame_values(self, ts: Any) -> None:
        frames, frame = self._frames, ts.frame
        ts.time = float(self._converted("time", frames.times[frame]))
        cell = None if frames.cells is None else frames.cells[frame].astype(np.float32)
        ts.dimensions = None if cell is None or np.isnan(cell).any() else cell
        if frames.steps is not None:
            ts.data["step"] = int(frames.steps[frame])
        if not self.convert_units:
            return
        if ts.dimensions is not None:
            self.convert_pos_from_native(ts.dimensions[:3])
        self.convert_pos_from_native(ts.positions)
        if ts.has_velocities:
            self.convert_velocities_from_native(ts.velocities)
        if ts.has_forces:
            self.convert_forces_from_native(ts.forces)

    def _converted(self, kind: str, value: Any) -> Any:
        return self.convert_time_from_native(value) if self.convert_units else value

    def _read_next_timestep(self, ts: Any = None) -> Any:
        return self._read_frame(self._frame + 1)

    def _reopen(self) -> None:
        self._frame = -1

    def close(self) -> None:
        """Discards frames that were read ahead; no other resources stay open between reads."""
        if hasattr(self, "_ahead"):
            self._ahead.clear()

    def Writer(self, filename: str, n_atoms: int | None = None, **kwargs: Any) -> WriterBase:
        """Returns a writer that creates a table, by default for the same number of atoms."""
        return writer.KubistWriter(filename, self.n_atoms if n_atoms is None else n_atoms, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        frames = state.pop("_frames")
        state["_ahead"] = {}
        state["_shown"] = (frames.atoms, frames.snapshot.token)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        atoms, token = state.pop("_shown")
        self.__dict__ = state
        table = _create.open(self.filename)
        self._frames = Frames(table, table.at(token))
        self._frames.atoms = atoms


def _one_group(asel: Any, atomgroup: Any) -> Any:
    """The group of atoms, from MDAnalysis' old or new parameter."""
    if asel is not None:
        if atomgroup is not None:
            raise ValueError("Cannot provide both asel and atomgroup kwargs.")
        import warnings

        warnings.warn(
            "asel argument to timeseries will be renamed to 'atomgroup' in 3.0, see #3911",
            category=DeprecationWarning,
            stacklevel=3,
        )
        atomgroup = asel
    if atomgroup is not None and len(atomgroup) == 0:
        raise ValueError("Timeseries requires at least one atom to analyze")
    return atomgroup


def _ordered(coordinates: Array, order: str) -> Array:
    """Coordinates of shape (frames, atoms, coordinates), with their axes in ``order``."""
    if sorted(order) != ["a", "c", "f"]:
        raise ValueError(f"Unrecognized order key in {order}, must be permutation of 'fac'")
    return np.moveaxis(coordinates, ["fac".index(axis) for axis in order], [0, 1, 2])
