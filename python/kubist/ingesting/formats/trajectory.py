"""Trajectories of molecular dynamics: all that MDAnalysis reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._md import layout
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
            yield Step(str(start), _reading(universe, columns, start, stop))
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
    universe: Any, columns: pa.Schema, start: int, stop: int
) -> Callable[[State], Iterator[pa.Table]]:
    def read(state: State) -> Iterator[pa.Table]:
        import pyarrow as pa

        from ..._md.append import frame_columns

        reader = universe.trajectory
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
            arrays = frame_columns(
                state.next_frame,
                vectors,
                ts.time,
                ts.dimensions,
                None if step is None else int(step),
            )
            if set(arrays) != set(columns.names):
                lacking = ", ".join(sorted(set(arrays) ^ set(columns.names)))
                raise ValueError(f"frame {number}: it differs from the first in {lacking}")
            yield pa.table([arrays[name] for name in columns.names], schema=columns)
            state.next_frame += 1

    return read
