"""Files of particle codes and instruments into tables: `kubist.ingest`, half of the command.

Each format is a module in `kubist.ingesting.formats`: it says what a file holds (columns, units,
time, identity, dimensions) and reads it step by step, through the library that its community
keeps. `kubist.ingesting.driver` does the rest.
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
from .._progress import Callback, Display
from .driver import Ingestion, checked
from .following import follow
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
    """Ingests files into a table, which it creates if necessary; skips files that the table already
    has.

    Each step (a file, or a time step of one) is one commit, and is stored as a whole or not at
    all. Files are ingested in order of time. A file of one step is identified by its name and
    contents, a file or folder of many steps by its location, so a repeated call ingests only what
    is new.

    Parameters
    ----------
    table
        The location of the table.
    files
        A file, a folder, a pattern, or several of them: Parquet, Arrow, CSV (also gzipped), NPZ,
        trajectories (all formats of MDAnalysis), openPMD, H5MD, H5Part, GADGET, AREPO, SWIFT,
        LAMMPS dumps, OpenFOAM cases, VTK, LAS, LAZ, COPC, FITS, PLY, XYZ, arrays of netCDF, HDF5
        and NumPy.
    dimensions, identity
        For a new table, as for `kubist.create`; None: as the format defines. Parquet, Arrow, CSV
        and NPZ define no dimensions.
    create
        Other options of a new table, as for `kubist.create`: ``lookup``, ``capacity``, ``seed``,
        ``units``, ``accuracy``, ``period``, ``sphere``, ``metadata``, ``storage``. Snapshots of
        GADGET, AREPO and SWIFT with periodic boundaries give the period themselves;
        ``{"period": {}}`` declines.
    read
        Options of reading. ``format`` is the format, if name and first bytes do not show it.
        ``topology`` is a file with the topology of a trajectory, in a format of MDAnalysis.
        ``time`` is the time of files without one. ``columns`` selects columns; by default all.
        ``types`` overrides the types of columns of a new table. ``delimiter`` separates the fields
        of CSV: a character, ``"tab"``, or ``"space"`` for runs of blanks; by default as in the
        first line. ``names`` are the columns of CSV without a header line. ``null`` are fields of
        CSV that are missing values in every column, next to empty ones: ``["NA", "-999"]``.
        ``decimal`` is the decimal mark of CSV, ``"."`` or ``","``. ``hdu`` is the table of a FITS
        file, by name or number. ``particles`` are the types of particles to read from a
        snapshot of GADGET, AREPO or SWIFT: numbers, or names such as ``"PartType0"``. ``crs`` is
        the coordinate system of the table for LAS, such as ``"EPSG:25832"``: positions of other
        files are transformed into it with pyproj. ``strict``: refuse a file if a part of it would
        be left out of the table. ``bad_rows="skip"``: skip rows without a position, and count them in the
        report; by default such a row is an error, or is stored without a position (Parquet, Arrow,
        CSV and NPZ). ``max_record``, ``max_columns``, ``max_inflation`` and ``max_batch`` limit
        files of Parquet, Arrow, CSV and NPZ: bytes of a row, columns, bytes of rows for each byte
        of the file, bytes of a record batch.
    writer
        Options of the writer, as for `kubist.Table.writer`: ``name``, ``memory_bytes``,
        ``optimize``.
    dry_run
        Write nothing, and return a `Plan`.
    again
        Ingest files and steps again that the table has already.
    keep_going
        Continue with the next file if one cannot be read.
    follow
        Wait for files and steps that a running simulation adds. True: until it is interrupted. A
        duration, in seconds or as ``"10 min"``: until nothing was added for so long.
    progress
        Called repeatedly with a line of text. None: shown as one line on a terminal, as a bar in a
        notebook, else as at most one line every ten seconds.

    Returns
    -------
    Report
        The files and steps that were ingested; with ``dry_run`` a `Plan`.

    Raises
    ------
    InvalidInput
        A file is damaged, incomplete, or does not fit the table. The message names file, step and
        column. No row of that step was written.
    ImportError
        The library that reads the format is missing; the message has the command that installs it.

    Examples
    --------
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
            period=made.get("period"),
            sphere=_box.sphere(made.get("sphere")),
            metadata=made.get("metadata") or {},
            columns=reading.get("columns"),
            delimiter=reading.get("delimiter"),
            names=reading.get("names"),
            null=_words(reading.get("null")),
            decimal=reading.get("decimal"),
            hdu=reading.get("hdu"),
            particles=reading.get("particles"),
            crs=reading.get("crs"),
            strict=bool(reading.get("strict")),
            bad_rows=reading.get("bad_rows") or "refuse",
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
        Display() if progress is None else Callback(progress),
        keep_going,
    )
    try:
        if dry_run:
            return ingestion.plan(ingestion.look())
        if following:
            _follow(ingestion, patience)
        else:
            ingestion.take(ingestion.look())
            if ingestion.report.failed:
                ingestion.undo()
    except BaseException:
        ingestion.undo()
        raise
    finally:
        ingestion.close()
    return ingestion.report


def _words(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _dimensions(given: Mapping[str, Domain] | Sequence[str] | None) -> dict[str, Domain]:
    """Names with their domains; None: as the format says, or else learned."""
    if given is None:
        return {}
    _box.dimensions(given)
    return dict(given) if isinstance(given, Mapping) else dict.fromkeys(given)


_follow = follow
ingest.__module__ = "kubist"
