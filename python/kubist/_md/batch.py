"""Batches of frames, large enough for a call of the engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, Any]

# Rows of a batch, which is written in a fraction of a second while the next batch is read.
ROWS = 1 << 20


def frames_together(first: int, atoms: int, frames: int | None) -> int:
    """The number of frames in the batch that starts with frame ``first``.

    If the total is known, batches end where the tree divides frames, so that a leaf's rows are in a
    single batch.
    """
    most = max(1, ROWS // atoms)
    if frames is None or first >= frames:
        return most
    parts = 1
    while parts * most < frames:
        parts *= 2
    end = -(-(first * parts // frames + 1) * frames // parts)
    return max(1, end - first)


class FrameBatch:
    """Frames as columns of a trajectory's table.

    Parameters
    ----------
    vectors
        The vectors of the frames: ``positions``, and perhaps ``velocities`` and ``forces``.
    room
        The maximum number of frames.
    sparse
        Frames may lack vectors, which are null there.
    constants
        Columns with one value per atom for all frames.

    Attributes
    ----------
    names
        The columns.
    """

    def __init__(
        self,
        atoms: int,
        vectors: Collection[str],
        room: int,
        *,
        sparse: bool = False,
        constants: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self.atoms = atoms
        self._sparse = sparse
        self._constants = dict(constants or {})
        self._absent: dict[str, list[int]] = {}
        self._vectors = {
            column: np.empty((room, atoms), np.float32)
            for what in vectors
            for column in layout.VECTORS[what]
        }
        columns = layout.schema("velocities" in vectors, "forces" in vectors)
        self.names = [*(field.name for field in columns), *self._constants]
        self._room = room
        self._frames: list[int] = []
        self._times: list[float] = []
        self._cells: list[Array | None] = []
        self._steps: list[int | None] = []

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def is_full(self) -> bool:
        return len(self) == self._room

    def add(
        self,
        frame: int,
        vectors: Mapping[str, Array],
        time: float,
        cell: Array | None,
        step: int | None,
    ) -> list[str]:
        """Copies a frame, or returns the columns by which its vectors differ from the batch's."""
        given = {column for what in vectors for column in layout.VECTORS[what]}
        lacking = self._vectors.keys() - given
        if given - self._vectors.keys() or (lacking and not self._sparse):
            return sorted(given ^ self._vectors.keys())
        place = len(self)
        for column in lacking:
            self._vectors[column][place] = 0
            self._absent.setdefault(column, []).append(place)
        for what, values in vectors.items():
            for axis, column in enumerate(layout.VECTORS[what]):
                self._vectors[column][place] = values[:, axis]
        self._frames.append(frame)
        self._times.append(float(time))
        self._cells.append(None if cell is None else np.array(cell, np.float32))
        self._steps.append(step)
        return []

    def table(self, schema: pa.Schema) -> pa.Table:
        import pyarrow as pa

        count = len(self)
        columns = {
            "atom": np.tile(np.arange(self.atoms, dtype=np.int32), count),
            "frame": np.repeat(np.array(self._frames, np.int32), self.atoms),
            "time": np.repeat(np.array(self._times), self.atoms),
            **{column: values[:count].reshape(-1) for column, values in self._vectors.items()},
        }
        arrays = {name: pa.array(values, mask=self._mask(name)) for name, values in columns.items()}
        for name, values in self._constants.items():
            arrays[name] = pa.concat_arrays([values] * count)
        for axis, name in enumerate(layout.CELL):
            values = [None if cell is None else cell[axis] for cell in self._cells]
            arrays[name] = self._of_frames(values, pa.float32())
        arrays[layout.STEP] = self._of_frames(self._steps, pa.int64())
        return pa.table([arrays[field.name] for field in schema], schema=schema)

    def _mask(self, column: str) -> Array | None:
        """The rows of frames that lack a vector."""
        if column not in self._absent:
            return None
        mask = np.zeros((len(self), self.atoms), bool)
        mask[self._absent[column]] = True
        return mask.reshape(-1)

    def _of_frames(self, of_each: list[Any], kind: pa.DataType) -> pa.Array:
        """Values of frames, each in the row of its atom 0."""
        import pyarrow as pa

        rows = len(of_each) * self.atoms
        places = [place * self.atoms for place, value in enumerate(of_each) if value is not None]
        if not places:
            return pa.nulls(rows, kind)
        values = np.zeros(rows, kind.to_pandas_dtype())
        values[places] = [value for value in of_each if value is not None]
        valid = np.zeros((rows + 7) // 8, np.uint8)
        for place in places:
            valid[place // 8] |= 1 << place % 8
        return pa.Array.from_buffers(kind, rows, [pa.py_buffer(valid), pa.py_buffer(values)])
