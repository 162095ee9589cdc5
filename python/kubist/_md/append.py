"""Appends frames to a table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .._create import create, open
from .._directory import location_of
from .._errors import InvalidInput, NotATable, TableExists
from .._figures import Commit
from .._libraries import need
from .._table import Table
from .._writer import LaidOutBehind, Writer
from . import layout, topology
from .batch import FrameBatch, frames_together

Array = np.ndarray[Any, Any]

# One commit of many frames has a better layout than many commits. This limit makes a long run
# visible before its end.
ROWS_A_COMMIT = 64_000_000


class FrameWriter:
    """Appends frames to a trajectory's table, which the first frame creates.

    Parameters
    ----------
    topology
        The topology for a new table.
    append
        Continue after the frames of an existing table; otherwise, nothing may exist at ``path``.
    commit_frames
        The number of frames per commit; with 1, readers see each written frame. None: as few
        commits as memory allows.
    frames
        The number of frames that will be written, if known.

    Raises
    ------
    TableExists
        Something exists at ``path``, and ``append`` is not set.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        atoms: int,
        *,
        topology: topology.Topology | None = None,
        append: bool = False,
        commit_frames: int | None = None,
        frames: int | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        need("pyarrow", "a writer of trajectories")
        if atoms < 1:
            raise InvalidInput(f"a trajectory needs at least 1 atom, not {atoms}")
        if commit_frames is not None and commit_frames < 1:
            raise InvalidInput(f"commit_frames must be at least 1, not {commit_frames}")
        self.path = location_of(path)
        self.atoms = atoms
        self.topology = topology
        self.next_frame = 0
        self._pending_frames = 0
        self._append = append
        self._commit_frames = max(1, ROWS_A_COMMIT // atoms)
        if commit_frames is not None:
            self._commit_frames = min(commit_frames, self._commit_frames)
        self._frames = frames
        self._metadata = dict(metadata or {})
        self._table: Table | None = None
        self._writer: Writer | None = None
        self._behind: LaidOutBehind | None = None
        self._batch: FrameBatch | None = None
        if append:
            self._go_on()
        elif "://" not in self.path and Path(self.path).exists():
            raise TableExists(f"{self.path} exists already")

    def _go_on(self) -> None:
        try:
            table = open(self.path)
        except NotATable:
            return
        about = table.metadata.get("trajectory")
        if not isinstance(about, dict) or about.get("atoms") != self.atoms:
            table.close()
            here = about.get("atoms") if isinstance(about, dict) else None
            what = f"frames of {here} atoms" if here else "no trajectory"
            raise InvalidInput(f"{self.path} holds {what}; frames of {self.atoms} do not fit")
        last = table.query(where="atom = 0", columns=["frame"]).to_numpy()["frame"]
        self.next_frame = int(last.max()) + 1 if len(last) else 0
        self._table = table

    def write(
        self,
        positions: Array,
        *,
        velocities: Array | None = None,
        forces: Array | None = None,
        time: float | None = None,
        cell: Array | None = None,
        step: int | None = None,
    ) -> None:
        """Appends one frame.

        Parameters
        ----------
        positions, velocities, forces
            Arrays of shape (atoms, 3), in the table's units.
        cell
            The unit cell: 3 lengths and 3 angles.

        Raises
        ------
        InvalidInput
            An array has another shape, or this frame has other vectors than the first.
        """
        vectors = {"positions": positions, "velocities": velocities, "forces": forces}
        given = {what: values for what, values in vectors.items() if values is not None}
        for what, values in given.items():
            if values.shape != (self.atoms, 3):
                raise InvalidInput(
                    f"frame {self.next_frame}: {what} have the shape {values.shape}, "
                    f"not ({self.atoms}, 3)"
                )
        if self._table is None:
            self._table = self._create(positions, velocities is not None, forces is not None)
        if self._writer is None:
            self._schema = self._table.schema
            self._constants = self._atom_columns()
            self._writer = self._table.writer()
            self._behind = LaidOutBehind(self._writer)
        if self._batch is None:
            room = frames_together(self.next_frame, self.atoms, self._frames)
            self._batch = FrameBatch(
                self.atoms, given, min(room, self._commit_frames), constants=self._constants
            )
            lacking = sorted(set(self._batch.names) ^ set(self._schema.names))
            if lacking:
                self._batch = None
                raise InvalidInput(
                    f"frame {self.next_frame} and {self.path} differ in {', '.join(lacking)}"
                )
        when = float(self.next_frame if time is None else time)
        lacking = self._batch.add(self.next_frame, given, when, cell, step)
        if lacking:
            raise InvalidInput(
                f"frame {self.next_frame} and {self.path} differ in {', '.join(lacking)}"
            )
        self.next_frame += 1
        self._pending_frames += 1
        if self._pending_frames >= self._commit_frames:
            self.commit()
        elif self._batch.is_full:
            assert self._behind is not None
            self._behind.append(self._batch.table(self._schema))
            self._batch = None

    def _atom_columns(self) -> dict[str, Any]:
        assert self._table is not None
        stored = self._table.metadata.get(topology.KEY)
        names = set(layout.ATOMS) & set(self._schema.names)
        if not names or stored is None:
            return {}
        known = layout.atom_columns(topology.Topology.from_json(stored))
        return {name: values for name, values in known.items() if name in names}

    def _create(self, positions: Array, velocities: bool, forces: bool) -> Table:
        schema = layout.schema(velocities, forces)
        metadata = {**self._metadata, "trajectory": {"atoms": self.atoms}}
        if self.topology is not None:
            if self.topology.atoms != self.atoms:
                raise InvalidInput(
                    f"the topology has {self.topology.atoms} atoms, the frames {self.atoms}"
                )
            metadata[topology.KEY] = self.topology.to_json()
        return create(
            self.path,
            schema,
            dimensions=layout.domains(positions, self._frames),
            capacity=layout.capacity(self.atoms, self._frames),
            identity=["atom"],
            lookup=["atom"],
            units={name: unit for name, unit in layout.UNITS.items() if name in schema.names},
            metadata=metadata,
        )

    def commit(self, token: str | None = None) -> Commit | None:
        """Makes the written frames durable and visible; returns None without frames."""
        if self._writer is None or self._behind is None or not self._pending_frames:
            return None
        batch, self._batch = self._batch, None
        self._pending_frames = 0
        self._behind.wait()
        if batch is not None:
            self._writer.append(batch.table(self._schema))
        return self._writer.commit(token=token)

    def discard(self) -> None:
        self.next_frame -= self._pending_frames
        self._batch, self._pending_frames = None, 0
        if self._writer is not None and self._behind is not None:
            self._behind.close()
            self._behind = LaidOutBehind(self._writer)
            self._writer.discard()

    def close(self) -> None:
        """Commits the written frames, and closes the table."""
        try:
            self.commit()
        finally:
            behind, self._behind = self._behind, None
            writer, self._writer = self._writer, None
            table, self._table = self._table, None
            if behind is not None:
                behind.close()
            if writer is not None:
                writer.close()
            if table is not None:
                table.close()

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()
        self.close()
