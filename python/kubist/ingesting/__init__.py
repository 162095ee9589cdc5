"""Ingests files of particle codes and instruments into tables: `kubist.ingest`.

Each format is a module in `kubist.ingesting.formats`. It finds the properties of a file (columns,
units, time, identity, dimensions) and reads it step by step, with the usual library for the format.
The driver in the crate kubist-ingest opens the table and commits the steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _box, _kubist
from .._arguments import Create, Read, Storage, Writing
from .._directory import location_of
from .._errors import InvalidInput
from .._libraries import need
from .._options import checked_options, group
from .._progress import Callback, Display
from . import formats
from .opening import Files
from .paths import missing
from .report import Plan, Report
from .source import Options

if TYPE_CHECKING:
    from .._arguments import Domain, Seconds

__all__ = ["Plan", "Report", "ingest"]

LIMITS = ("max_record", "max_columns", "max_inflation", "max_batch")
"""Options of `read` that limit the size of files."""

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
    """Ingests new files into a table, and creates the table if it is missing.

    Each step (a file, or a time step in a file) is one commit, stored as a whole or not at all, in
    order of time. A file with one step is identified by its name and contents; a file or folder
    with many steps by its location. So a repeated call ingests only new data.

    Parameters
    ----------
    table
        The location of the table.
    files
        Files, folders or patterns, one or several: Parquet, Arrow, CSV (also gzipped), NPZ,
        trajectories (all formats of MDAnalysis), openPMD, H5MD, H5Part, GADGET, AREPO, SWIFT,
        LAMMPS dumps, OpenFOAM cases, VTK, LAS, LAZ, COPC, FITS, PLY, XYZ, arrays of netCDF, HDF5
        and NumPy.
    dimensions, identity
        For a new table, as for `kubist.create`; None: as the format defines. Parquet, Arrow, CSV
        and NPZ define no dimensions.
    create
        Other options of a new table, as for `kubist.create`: ``lookup``, ``capacity``, ``seed``,
        ``units``, ``accuracy``, ``period``, ``sphere``, ``metadata``, ``storage``. Snapshots of
        GADGET, AREPO and SWIFT with periodic boundaries define the period; ``{"period": {}}``
        ignores it.
    read
        Options of reading:

        - ``format``: the format, if the name and the first bytes do not show it.
        - ``topology``: a file with the topology of a trajectory, in a format of MDAnalysis.
        - ``time``: the time of files that store none.
        - ``columns``: the columns to read; by default all.
        - ``types``: the types of columns of a new table, instead of the types in the file.
        - ``delimiter``: separates the fields of CSV: a character, ``"tab"``, or ``"space"`` for
          runs of blanks; by default as in the first line.
        - ``names``: the columns of CSV without a header line.
        - ``null``: fields of CSV that are missing values, in addition to empty fields: ``["NA",
          "-999"]``.
        - ``decimal``: the decimal mark of CSV, ``"."`` or ``","``.
        - ``hdu``: the table of a FITS file, by name or number.
        - ``particles``: the types of particles to read from a snapshot of GADGET, AREPO or SWIFT:
          numbers, or names such as ``"PartType0"``.
        - ``crs``: the coordinate system of the table for LAS, such as ``"EPSG:25832"``. pyproj
          transforms positions in other systems into it.
        - ``strict``: refuse a file if the table cannot store all its data.
        - ``bad_rows``: ``"skip"`` skips rows without a position, and counts them in the report. By
          default such a row is an error, or is stored without a position (Parquet, Arrow, CSV and
          NPZ).
        - ``max_record``, ``max_columns``, ``max_inflation``, ``max_batch``: limits of files of
          Parquet, Arrow, CSV and NPZ: the bytes of a row, the number of columns, the bytes of rows
          for each byte of the file, and the bytes of a record batch.
    writer
        Options of the writer, as for `kubist.Table.writer`: ``name``, ``memory_bytes``,
        ``optimize``.
    dry_run
        Write nothing, and return a `Plan`.
    again
        Repeat files and steps that the table already has.
    keep_going
        Continue with the next file if one cannot be read.
    follow
        Wait for files and steps that a running simulation adds. True: until an interrupt. A
        duration, in seconds or as ``"10 min"``: until nothing was added for this time.
    progress
        Called repeatedly with a line of text. None: one line on a terminal, a bar in a notebook,
        else at most one line every ten seconds.

    Returns
    -------
    Report
        The ingested files and steps; with ``dry_run`` a `Plan`.

    Raises
    ------
    InvalidInput
        A file is damaged, incomplete, or does not fit the table. The message names file, step and
        column. No row of that step is stored.
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
    following = follow is not False
    patience = None if isinstance(follow, bool) else _box.seconds("follow", follow)
    if again and following:
        raise InvalidInput("again: with follow files are looked at over and over: leave one out")
    need("pyarrow", "ingest()")
    made = group("ingest", "create", create, Create)
    stored = group("create", "storage", made.get("storage"), Storage)
    writing = group("ingest", "writer", writer, Writing)
    reading = group("ingest", "read", read, Read)
    location, named = location_of(table), [os.fspath(path) for path in paths]
    options, bad_rows = _options(reading), reading.get("bad_rows") or "refuse"
    if bad_rows not in ("refuse", "skip"):
        raise InvalidInput(f"bad_rows: {bad_rows!r} is neither refuse nor skip")
    strata = stored.get("strata")
    asked = {
        "location": location,
        "table": _kubist.without_password(location),
        "files": named,
        "identity": None if identity is None else _box.names("identity", identity),
        "lookup": _box.names("lookup", made.get("lookup") or ()),
        "capacity": _count("capacity", made.get("capacity"), 2**32 - 1),
        "seed": _count("seed", made.get("seed"), 2**64 - 1),
        "replication": _text(stored.get("replication")),
        "compression": _text(stored.get("compression")),
        "strata": strata if isinstance(strata, str) else None,
        "weight": _text(stored.get("weight")),
        "classes": [] if strata is None or isinstance(strata, str) else _box.names("strata", strata),
        "sphere": _box.sphere(made.get("sphere")),
        "units": list((made.get("units") or {}).items()),
        "metadata": json.loads(_box.metadata(made.get("metadata"))),
        "shared": bool(stored.get("shared")),
        "columns": None if options.columns is None else list(options.columns),
        "types": list(options.types.items()),
        "time": options.time,
        "has_topology": options.topology is not None,
        "strict": bool(reading.get("strict")),
        "skips_bad_rows": bad_rows == "skip",
        "again": bool(again),
        "keep_going": bool(keep_going),
        "follows": following,
        "patience": patience,
        "name": writing.get("name"),
        "memory_bytes": _count("memory_bytes", writing.get("memory_bytes"), 2**63),
        "optimize": bool(writing.get("optimize")),
    }
    shown = Display() if progress is None else Callback(progress)
    try:
        told, text = _kubist.ingest(
            Files(location, named, reading.get("format"), options, shown),
            json.dumps(asked),
            dimensions=_box.dimensions({} if dimensions is None else dimensions),
            accuracy=_box.error_bounds(made.get("accuracy")),
            period=None if made.get("period") is None else _box.periods(made["period"]),
            dry_run=bool(dry_run),
        )
    finally:
        shown.close()
    return Plan.of(told, text) if dry_run else Report.of(told, text)


def _options(reading: Mapping[str, Any]) -> Options:
    """Checks the options of reading before any file is opened."""
    topology, time, format = (reading.get(name) for name in ("topology", "time", "format"))
    if topology is not None and not Path(topology).exists():
        raise missing(Path(topology))
    if format is not None and format not in formats.NAMES:
        raise InvalidInput(f"format: {format!r} is none of {', '.join(formats.NAMES)}")
    return Options(
        topology=None if topology is None else Path(topology),
        time=None if time is None else _box.number("time", time),
        columns=reading.get("columns"),
        delimiter=reading.get("delimiter"),
        names=reading.get("names"),
        null=_words(reading.get("null")),
        decimal=reading.get("decimal"),
        types=reading.get("types") or {},
        limits={name: reading[name] for name in LIMITS if reading.get(name) is not None},
        hdu=reading.get("hdu"),
        particles=reading.get("particles"),
        crs=reading.get("crs"),
    )


def _count(name: str, value: Any, most: int) -> int | None:
    return None if value is None else _box.count(name, value, most=most)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _words(given: Any) -> tuple[str, ...]:
    """Words for null: a list of strings and numbers, or one string with commas."""
    if given is None:
        return ()
    if isinstance(given, str):
        return tuple(word.strip() for word in given.split(","))
    words = [given] if isinstance(given, (bool, int, float)) else given
    if not isinstance(words, Iterable):
        raise InvalidInput(f"null: expected words such as ['NA', '-999'], not {given!r}")
    words = list(words)
    for word in words:
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            raise InvalidInput(f"null: {word!r} is neither a text nor a number")
    return tuple(map(str, words))


ingest.__module__ = "kubist"
