"""Files of particle codes and instruments into tables: `kubist.ingest`, half of the command.

Each format is a module in `kubist.ingesting.formats`: it says what a file holds (columns, units,
time, identity, dimensions) and reads it step by step, through the library that its community
keeps. `kubist.ingesting.driver` does the rest, for all of them alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .. import _box
from .._arguments import Create, Read, Writing
from .._errors import InvalidInput
from .._options import checked_options, group
from .._progress import Shown, Told
from .driver import Ingestion, checked, follow
from .report import Asked, Plan, Report

if TYPE_CHECKING:
    from .._arguments import Domain, Seconds

__all__ = ["Plan", "Report", "ingest"]

LIMITS = ("max_record", "max_columns", "max_inflation", "max_batch")
"""Options of `read` that bound what a file may hold."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@checked_options()
def ingest(
    table: str | os.PathLike[str],
    files: Paths,
    *,
    dimensions: Mapping[str, Domain] | Sequence[str] | None = None,
    identity: Sequence[str] | None = None,
    create: Create | None = None,
    read: Read | None = None,
    writer: Writing | None = None,
    dry_run: bool = False,
    again: bool = False,
    keep_going: bool = False,
    follow: bool | Seconds = False,
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
        dimensions, identity: Of a new table, as for `kubist.create`; None: as the format says.
            Parquet, Arrow, CSV and NPZ do not say their dimensions.
        create: What else a new table gets: ``lookup``, ``capacity``, ``seed``, ``units``,
            ``accuracy``, ``metadata``, ``storage``, as for `kubist.create`.
        read: How the files are read:
            ``format``: What they are, where name and first bytes do not say it.
            ``topology``: What the atoms of a trajectory are: a file that MDAnalysis reads.
            ``time``: The time of the files, where they do not say it.
            ``columns``: The columns to take; without it all.
            ``types``: Of columns of a new table, where the files' own are not wanted.
            ``delimiter``: Between the fields of CSV: a character, ``"tab"``, or ``"space"`` for
            runs of blanks; without it as the first line shows.
            ``names``: Of the columns of CSV that has no line with names.
            ``max_record``, ``max_columns``, ``max_inflation``, ``max_batch``: What a file of
            Parquet, Arrow, CSV or NPZ may hold at most: bytes of a record, columns, bytes of
            records for each byte of the file, bytes that are read as one.
        writer: How it is written: ``name``, ``memory_bytes``, ``optimize``, as for
            `kubist.Table.writer`.
        dry_run: Only look: returns a `Plan`.
        again: Take files and steps that the table has already once more.
        keep_going: Go on with the next file where one cannot be read.
        follow: Go on, for files and steps that a running simulation adds: True: until it is
            stopped; a time, in seconds or as ``"10 min"``: until nothing has come for so long.
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
        >>> kubist.ingest("run.kubist", "traj.xtc", read={"topology": "top.pdb"}).rows
        >>> kubist.ingest("air.kubist", "step_*.parquet", dimensions=["x", "y", "z"])
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    if not paths:
        raise InvalidInput("files: there are none")
    made = group("ingest", "create", create, Create)
    reading = group("ingest", "read", read, Read)
    topology = reading.get("topology")
    asked = checked(
        Asked(
            format=reading.get("format"),
            topology=None if topology is None else Path(topology),
            time=reading.get("time"),
            dimensions=_dimensions(dimensions),
            identity=identity,
            lookup=made.get("lookup") or (),
            capacity=made.get("capacity"),
            seed=made.get("seed"),
            storage=made.get("storage"),
            accuracy=dict(_box.accuracy(made.get("accuracy"))),
            types=reading.get("types") or {},
            units=made.get("units") or {},
            metadata=made.get("metadata") or {},
            columns=reading.get("columns"),
            delimiter=reading.get("delimiter"),
            names=reading.get("names"),
            limits={name: reading[name] for name in LIMITS if reading.get(name) is not None},
            writer=cast("Writing", group("ingest", "writer", writer, Writing)),
            again=bool(again),
        )
    )
    following = follow is not False
    patience = None if isinstance(follow, bool) else _box.seconds("follow", follow)
    if again and following:
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
        if following:
            _follow(ingestion, patience)
        else:
            ingestion.take(ingestion.look())
    finally:
        ingestion.close()
    return ingestion.report


def _dimensions(given: Mapping[str, Domain] | Sequence[str] | None) -> dict[str, Domain]:
    """Names with their domains; None: as the format says, or else learned."""
    if given is None:
        return {}
    _box.dimensions(given)
    return dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)


_follow = follow
ingest.__module__ = "kubist"
