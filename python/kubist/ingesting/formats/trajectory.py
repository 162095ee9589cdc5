"""Trajectories of molecular dynamics: all that MDAnalysis reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._md import layout
from ..._md.batch import FrameBatch, frames_together
from ..source import Options, Source, State, Step, unit

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = frozenset(
    ".xtc .trr .dcd .nc .ncdf .tng .gsd .trj .mdcrd .crd .gro .pdb .pqr .mol2 .trz .coor".split()
)

# What MDAnalysis needs beside itself.
LIBRARIES = {".tng": "pytng", ".gsd": "gsd"}
XTC_MAGIC = (1995).to_bytes(4, "big")
XTC_LARGE = (2023).to_bytes(4, "big")
"""Frames of very many atoms, of another head."""


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ..._md import append, topology
    from ...mdanalysis import convert

    if path.suffix.lower() == ".xtc":
        _check_xtc(path)
    universe = _universe(path, options.topology)
    reader = universe.trajectory
    ts = reader.ts
    atoms, frames = reader.n_atoms, reader.n_frames
    columns = layout.schema(ts.has_velocities, ts.has_forces)
    there = {"positions": True, "velocities": ts.has_velocities, "forces": ts.has_forces}
    has = [what for what, is_there in there.items() if is_there]
    metadata: dict[str, Any] = {"trajectory": {"atoms": atoms}}
    kept = convert.stored(universe)
    if options.topology is not None or kept.attributes:
        metadata[topology.KEY] = kept.to_json()
    times = (float(reader[0].time), float(reader[-1].time))
    reader[0]

    def steps(committed: Callable[[str], int | None]) -> Iterator[Step]:
        """Behind what is committed, as many frames as a commit takes well."""
        at_once, start = max(1, append.ROWS_A_COMMIT // atoms), 0
        while start < frames:
            rows = committed(str(start))
            stop = start + rows // atoms if rows else min(start + at_once, frames)
            yield Step(str(start), _reading(universe, columns, has, start, stop))
            start = stop

    return Source(
        path=path,
        format="trajectory",
        schema=pa.schema([unit(f, layout.UNITS.get(f.name)) for f in columns]),
        steps=steps,
        dimensions=layout.DIMENSIONS,
        identity=("atom",),
        lookup=("atom",),
        domains=layout.domains(ts.positions, frames),
        capacity=layout.capacity(atoms, frames),
        metadata=metadata,
        rows=atoms * frames,
        times=times,
        grows=True,
        in_order=True,
        numbers_frames=True,
    )


def _universe(path: Path, topology_file: Path | None) -> Any:
    import warnings

    import MDAnalysis as mda

    with warnings.catch_warnings():
        # Of what a format lacks; what it has is shown before the ingest begins.
        warnings.simplefilter("ignore")
        files = [str(path)] if topology_file is None else [str(topology_file), str(path)]
        try:
            return mda.Universe(*files, to_guess=())
        except ImportError as error:
            library = LIBRARIES.get(path.suffix.lower())
            raise ImportError(
                f"{path}: {error}{(library and f': pip install {library}') or ''}"
            ) from error


def _check_xtc(path: Path) -> None:
    """Raises InvalidInput: a frame is not whole. Names it, and the byte that it begins with.

    The library that reads XTC says neither, and such a file can end its process.
    """
    # Magic number, atoms, step, time, box of 9, atoms again; then of more than 9 atoms precision,
    # bounds, an index, and the number of bytes, which are filled up to words.
    few, head, length_at = 9, 56, 88
    size, at, number = path.stat().st_size, 0, 0
    with path.open("rb") as opened:
        while at < size:
            opened.seek(at)
            words = opened.read(length_at + 4)
            where = f"{path}: frame {number}, which begins at byte {at:,} of {size:,},"
            if words[:4] == XTC_LARGE:
                return
            if words[:4] != XTC_MAGIC:
                raise InvalidInput(f"{where} does not begin as frames of XTC do")
            atoms = int.from_bytes(words[4:8], "big")
            if atoms <= few:
                end = at + head + 12 * atoms
            else:
                end = at + length_at + 4 + -(-int.from_bytes(words[length_at:], "big") // 4) * 4
            if end > size or len(words) < head:
                raise InvalidInput(f"{where} is cut off: it ends at byte {end:,}")
            at, number = end, number + 1


def _reading(
    universe: Any, columns: pa.Schema, has: Sequence[str], start: int, stop: int
) -> Callable[[State], Iterator[pa.Table]]:
    def read(state: State) -> Iterator[pa.Table]:
        reader, batch = universe.trajectory, None
        first = state.next_frame
        for number in range(start, stop):
            try:
                ts = reader[number]
            except (OSError, EOFError, ValueError, IndexError, StopIteration) as error:
                raise ValueError(f"frame {number}: {error}") from error
            vectors = {"positions": ts.positions}
            if ts.has_velocities:
                vectors["velocities"] = ts.velocities
            if ts.has_forces:
                vectors["forces"] = ts.forces
            step = ts.data.get("step")
            if batch is None:
                room = frames_together(number, reader.n_atoms, reader.n_frames)
                batch = FrameBatch(reader.n_atoms, has, room)
            lacking = batch.add(
                first + number - start,
                vectors,
                ts.time,
                ts.dimensions,
                None if step is None else int(step),
            )
            if lacking:
                raise ValueError(
                    f"frame {number}: it differs from the first in {', '.join(lacking)}"
                )
            if batch.is_full or number == stop - 1:
                yield batch.table(columns)
                batch = None
        state.next_frame += stop - start

    return read
