"""Trajectories of molecular dynamics: all that MDAnalysis reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._md import layout
from ..._md.batch import FrameBatch, frames_together
from ..source import Options, Source, State, Step, unit

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = frozenset(
    ".xtc .trr .dcd .nc .ncdf .tng .gsd .trj .mdcrd .crd .gro .pdb .pqr .mol2 .trz .coor".split()
)


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ..._md import append, topology
    from ...mdanalysis import convert

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
            if rows:
                start += rows // atoms
                continue
            stop = min(start + at_once, frames)
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
    )


def _universe(path: Path, topology_file: Path | None) -> Any:
    import warnings

    import MDAnalysis as mda

    with warnings.catch_warnings():
        # Of what a format lacks; what it has is shown before the ingest begins.
        warnings.simplefilter("ignore")
        if topology_file is None:
            return mda.Universe(str(path), to_guess=())
        return mda.Universe(str(topology_file), str(path), to_guess=())


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
