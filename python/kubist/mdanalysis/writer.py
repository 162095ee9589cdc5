"""Writes frames of MDAnalysis into a table."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from MDAnalysis.coordinates.base import WriterBase

from .._md.append import FrameWriter
from . import convert


class KubistWriter(WriterBase):
    """Writes atom groups to a table, frame by frame, with their topology.

    ``u.atoms.write("run.kubist", frames="all")``, or:

    >>> with MDAnalysis.Writer("run.kubist", u.atoms.n_atoms) as w:
    ...     for ts in u.trajectory:
    ...         w.write(u.atoms)

    The first frame decides whether there are velocities and forces. An exception in the ``with``
    block discards uncommitted frames.

    Parameters
    ----------
    filename
        The location of the table; nothing may exist there.
    n_atoms
        The number of atoms.
    append
        Continue after the frames of an existing table.
    commit_frames
        The number of frames per commit; with 1, readers see each written frame. None: as few
        commits as memory allows.

    Raises
    ------
    TableExists
        Something exists at ``filename``, and ``append`` is not set.
    """

    format = "KUBIST"
    multiframe = True
    units: ClassVar = {
        "time": "ps",
        "length": "Angstrom",
        "velocity": "Angstrom/ps",
        "force": "kJ/(mol*Angstrom)",
    }

    def __init__(
        self,
        filename: str,
        n_atoms: int | None = None,
        *,
        append: bool = False,
        commit_frames: int | None = None,
        n_frames: int | None = None,
        **_: Any,
    ) -> None:
        if n_atoms is None:
            raise TypeError("KubistWriter: n_atoms is needed")
        self.filename = str(filename)
        self.n_atoms = n_atoms
        self._writer = FrameWriter(
            self.filename,
            n_atoms,
            append=append,
            commit_frames=commit_frames,
            frames=n_frames,
        )

    def _write_next_frame(self, obj: Any) -> None:
        try:
            atoms = obj.atoms
            shown = atoms.universe.trajectory.ts
        except AttributeError:
            raise TypeError("No Timestep found in obj argument") from None
        if atoms.n_atoms != self.n_atoms:
            raise ValueError(
                f"the writer expects {self.n_atoms} atoms, but the group has {atoms.n_atoms}"
            )
        every = np.array_equal(atoms.indices, np.arange(shown.n_atoms))
        ts = shown if every else shown.copy_slice(atoms.indices)
        if self._writer.topology is None:
            self._writer.topology = convert.stored(atoms.universe, None if every else atoms.indices)
        step = ts.data.get("step")
        self._writer.write(
            ts.positions,
            velocities=ts.velocities if ts.has_velocities else None,
            forces=ts.forces if ts.has_forces else None,
            time=ts.time,
            cell=ts.dimensions,
            step=None if step is None else int(step),
        )

    def close(self) -> None:
        """Commits the written frames."""
        if hasattr(self, "_writer"):
            self._writer.close()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Literal[False]:
        if exc_type is not None:
            self._writer.discard()
        self.close()
        return False
