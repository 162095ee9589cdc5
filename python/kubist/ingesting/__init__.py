"""Files of particle codes and instruments into tables: `kubist.ingest`, half of the command.

Each format is a module in `kubist.ingesting.formats`: it says what a file holds (columns, units,
time, identity, dimensions) and reads it step by step, through the library that its community
keeps. `kubist.ingesting.driver` does the rest, for all of them alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _box
from .._errors import InvalidInput
from .._options import checked_options
from .._progress import Shown, Told
from .driver import Ingestion, checked, follow
from .report import Asked, Plan, Report

if TYPE_CHECKING:
    from .._arguments import Domain

__all__ = ["Plan", "Report", "ingest"]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@checked_options()
def ingest(
    table: str | os.PathLike[str],
    files: Paths,
    *,
    format: str | None = None,
    topology: str | os.PathLike[str] | None = None,
    time: float | None = None,
    dimensions: Sequence[str] | None = None,
    identity: Sequence[str] | None = None,
    lookup: Sequence[str] | None = None,
    domains: Mapping[str, Domain] | None = None,
    capacity: int | None = None,
    seed: int | None = None,
    replication: str | None = None,
    compression: str | None = None,
    accuracy: Mapping[str, float | str] | None = None,
    types: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    names: Sequence[str] | None = None,
    writer: str | None = None,
    optimize: bool = False,
    memory_bytes: int | None = None,
    max_record: int | None = None,
    max_columns: int | None = None,
    max_inflation: int | None = None,
    max_batch: int | None = None,
    dry_run: bool = False,
    again: bool = False,
    keep_going: bool = False,
    follow: bool = False,
    patience: float | None = None,
    progress: Callable[[str], object] | None = None,
) -> Report | Plan:
    """Puts files into a table, which is made if there is none; what it has already is skipped.

    Each step (a file, or a time step of one) is a commit: it is in the table whole or not at
    all. Files are taken in order of time. A file of one step is known by its name and contents,
    a file or folder of many by where it is, so the same call takes what is new.

    Args:
        table: Where the table is or will be.
        files: A file, a folder, a pattern, or several of them: Parquet, Arrow, CSV (also
            gzipped), NPZ, trajectories (all that MDAnalysis reads), openPMD, H5MD, H5Part,
            GADGET, AREPO, SWIFT, LAMMPS dumps, OpenFOAM cases, VTK, LAS, LAZ, COPC, FITS, PLY,
            XYZ, arrays of netCDF, HDF5 and NumPy.
        format: What they are, where name and first bytes do not say it.
        topology: What the atoms of a trajectory are: a file that MDAnalysis reads.
        time: The time of the files, where they do not say it.
        dimensions, identity, lookup, domains, capacity, seed, replication, compression, accuracy,
            metadata: Of a new table, as for `kubist.create`; None: what the format says. Parquet,
            Arrow, CSV and NPZ do not say their dimensions.
        types, units: Of columns, where the format's own are not wanted.
        columns: The columns to take; None: all.
        delimiter: Between the fields of CSV: a character, ``"tab"``, or ``"space"`` for runs of
            blanks; None: seen from the first line.
        names: Of the columns of CSV that has no line with names.
        writer: The writer's name, under which commits are known.
        optimize, memory_bytes: As for `kubist.Table.writer`.
        max_record, max_columns, max_inflation, max_batch: What a file of Parquet, Arrow, CSV or
            NPZ may hold, as the options of the command: bytes of a record, columns, bytes of
            records for each byte of the file, bytes that are read as one.
        dry_run: Only look: returns a `Plan`.
        again: Take files and steps that the table has already once more.
        keep_going: Go on with the next file where one cannot be read.
        follow: Go on, for files and steps that a running simulation adds.
        patience: With ``follow``: end when nothing has come for so many seconds; None: never.
        progress: Called with a line of text now and then; None: shown on a terminal as one
            line, in a notebook as a bar, elsewhere as a line every ten seconds at most.

    Returns:
        What was done.

    Raises:
        InvalidInput: A file is damaged, unfinished, or does not fit the table; the message names
            file, step and column. Nothing of that step was written.
        ImportError: The library that reads it is missing; the message has the command.

    Example:
        >>> kubist.ingest("sky.kubist", "snapshots/", dry_run=True)
        >>> kubist.ingest("run.kubist", "traj.xtc", topology="top.pdb").rows
        >>> kubist.ingest("air.kubist", "step_*.parquet", dimensions=["x", "y", "z"])
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not paths:
        raise InvalidInput("files: there are none")
    limits = {
        "max_record": max_record,
        "max_columns": max_columns,
        "max_inflation": max_inflation,
        "max_batch": max_batch,
    }
    asked = checked(
        Asked(
            format=format,
            topology=None if topology is None else Path(topology),
            time=time,
            dimensions=dimensions or (),
            identity=identity,
            lookup=lookup or (),
            domains=domains or {},
            capacity=capacity,
            seed=seed,
            replication=replication,
            compression=compression,
            accuracy=dict(_box.accuracy(accuracy)),
            types=types or {},
            units=units or {},
            metadata=metadata or {},
            columns=columns,
            delimiter=delimiter,
            names=names,
            limits={name: most for name, most in limits.items() if most is not None},
            writer=writer,
            optimize=optimize,
            memory_bytes=memory_bytes,
            again=bool(again),
        )
    )
    if again and follow:
        raise InvalidInput("again: with follow files are looked at over and over: leave one out")
    ingestion = Ingestion(
        table,
        [os.fspath(path) for path in paths],
        asked,
        Shown() if progress is None else Told(progress),
        keep_going,
    )
    try:
        if dry_run:
            return ingestion.plan(ingestion.look())
        if follow:
            _follow(ingestion, patience)
        else:
            ingestion.take(ingestion.look())
    finally:
        ingestion.close()
    return ingestion.report


_follow = follow
ingest.__module__ = "kubist"
