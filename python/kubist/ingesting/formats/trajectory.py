"""Trajectories of molecular dynamics, in all formats of MDAnalysis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..._errors import InvalidInput
from ..._md import layout
from ..._md.batch import FrameBatch, frames_together
from ..source import Options, Source, State, Step, reason, unit
from . import gromacs

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = frozenset(
    ".xtc .trr .dcd .nc .ncdf .tng .gsd .trj .mdcrd .crd .gro .pdb .pqr .mol2 .trz .coor".split()
)

# Dependencies of MDAnalysis.
LIBRARIES = {".tng": "pytng", ".gsd": "gsd"}


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    from ..._md import append, topology
    from ...mdanalysis import convert

    whole = gromacs.frames(path)
    notes: list[str] = []
    left_out = {}
    if whole.wrong is not None:
        if not (options.keep_going and whole.count):
            raise InvalidInput(f"{path}: {whole.wrong}")
        left_out[f"the end after {whole.count} frames"] = whole.wrong
    universe = _universe(path, options.topology)
    reader = universe.trajectory
    if path.suffix.lower() == ".gro" and reader.n_frames == 1:
        # MDAnalysis reads only the first frame.
        several = gromacs.GroFrames(path)
        reader = several if several.n_frames > 1 else reader
    elif path.suffix.lower() == ".dcd":
        notes += _dcd_notes(path, reader.n_frames)
    if path.suffix.lower() == ".gro" and reader.n_frames > 1:
        notes += gromacs.repeats(reader.times())
    notes += gromacs.repeats(whole.times)
    ts = reader.ts
    atoms = reader.n_atoms
    frames = reader.n_frames if whole.count is None else min(whole.count, reader.n_frames)
    has, sparse = _vectors(path, whole, ts)
    columns = layout.schema("velocities" in has, "forces" in has, sparse)
    metadata: dict[str, Any] = {"trajectory": {"atoms": atoms}}
    kept = convert.stored(universe)
    constants = layout.atom_columns(kept)
    for name, values in constants.items():
        columns = columns.append(pa.field(name, values.type))
    if options.topology is not None or kept.attributes:
        metadata[topology.KEY] = kept.to_json()
    times = (float(reader[0].time), float(reader[frames - 1].time))
    reader[0]
    make = partial(FrameBatch, atoms, has, sparse=bool(sparse), constants=constants)

    def steps(committed: Callable[[str], int | None]) -> Iterator[Step]:
        """Yields steps with a number of frames that suits a commit."""
        at_once, start = max(1, append.ROWS_A_COMMIT // atoms), 0
        while start < frames:
            rows = committed(str(start))
            stop = start + rows // atoms if rows else min(start + at_once, frames)
            yield Step(str(start), _reading(reader, columns, make, start, stop))
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
        notes=notes,
        left_out=left_out,
    )


def _vectors(path: Path, whole: gromacs.Frames, first: Any) -> tuple[list[str], list[str]]:
    """Returns the vectors of the frames, and the vectors that some frames lack.

    Raises:
        InvalidInput: A frame has no positions.
    """
    names = ("positions", "velocities", "forces")
    if not whole.vectors:
        there = (True, first.has_velocities, first.has_forces)
        return [n for n, is_there in zip(names, there, strict=True) if is_there], []
    for number, given in enumerate(whole.vectors):
        if "positions" not in given:
            raise InvalidInput(
                f"{path}: frame {number} has {', '.join(sorted(given)) or 'nothing'} and no positions: "
                "write these as often as the rest (`gmx trjconv` leaves out such frames)"
            )
    has = [name for name in names if any(name in given for given in whole.vectors)]
    return has, [name for name in has if not all(name in given for given in whole.vectors)]


def _dcd_notes(path: Path, frames: int) -> list[str]:
    """A note if the number of frames in the header differs from the file."""
    with path.open("rb") as file:
        head = file.read(12)
    order: Literal["little", "big"] = "little" if head[:4] == b"T\0\0\0" else "big"
    said = int.from_bytes(head[8:12], order)
    if said in (0, frames):
        return []
    return [f"{path.name}: its header says {said:,} frames, there are {frames:,}"]


def _universe(path: Path, topology_file: Path | None) -> Any:
    import warnings

    import MDAnalysis as mda

    with warnings.catch_warnings():
        # Warnings only report missing parts, and the ingest reports the others before.
        warnings.simplefilter("ignore")
        files = [str(path)] if topology_file is None else [str(topology_file), str(path)]
        try:
            return mda.Universe(*files, to_guess=())
        except (TypeError, ValueError, OSError, EOFError, IndexError, StopIteration) as error:
            raise InvalidInput(
                f"{path}: MDAnalysis cannot read it, or its topology (read option topology); it may be "
                f"damaged or cut off: {reason(error)}"
            ) from error
        except ImportError as error:
            library = LIBRARIES.get(path.suffix.lower())
            raise ImportError(
                f"{path}: {error}{(library and f': pip install {library}') or ''}"
            ) from error


def _reading(
    reader: Any, columns: pa.Schema, make: Callable[[int], FrameBatch], start: int, stop: int
) -> Callable[[State], Iterator[pa.Table]]:
    def read(state: State) -> Iterator[pa.Table]:
        import pyarrow as pa

        batch = None
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
                batch = make(room)
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
                table = batch.table(columns)
                for field in state.schema or ():
                    if field.name not in columns.names and field.nullable:
                        # Other files of the table have this column.
                        table = table.append_column(field, pa.nulls(len(table), field.type))
                yield table
                batch = None
        state.next_frame += stop - start

    return read
