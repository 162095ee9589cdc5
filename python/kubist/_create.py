"""`kubist.create` and `kubist.open`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _box, _kubist
from ._arguments import Storage
from ._data import Data, is_schema
from ._directory import location_of
from ._extent import KEY, checked, declared, pairs
from ._libraries import need
from ._options import checked_options, group
from ._table import Table

if TYPE_CHECKING:
    from ._arguments import ArrowSchema, Domain, Period, Rows


@checked_options()
def create(
    path: str | os.PathLike[str],
    data_or_schema: Rows | ArrowSchema,
    dimensions: Mapping[str, Domain] | Sequence[str],
    identity: Sequence[str] | None = None,
    capacity: int | None = None,
    seed: int = 0,
    exist_ok: bool = False,
    units: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    lookup: Sequence[str] | None = None,
    accuracy: Mapping[str, float | str] | None = None,
    period: Mapping[str, Period] | None = None,
    sphere: tuple[str, str] | None = None,
    extent: Mapping[str, tuple[str, str]] | None = None,
    storage: Storage | None = None,
) -> Table:
    """Creates a table at ``path``.

    Parameters
    ----------
    path
        The location: a directory, ``s3://bucket/prefix`` (docs/where.md) or
        ``cassandra://hosts/keyspace/table`` (docs/cassandra.md). Nothing may exist there.
    data_or_schema
        A `pyarrow.Schema` for an empty table, or data that `Table.append` accepts, whose rows
        become the first commit.
    dimensions
        The 1 to 8 columns to index: integers, floats, dates, times, timestamps. A dict gives their
        domains, in the column's unit: ``{"time": (0, 1)}`` sets it, ``{"x": None}`` learns
        it from the first commit, ``{"z": "quantile"}`` learns a skewed distribution. A list of
        names learns all. A domain affects the speed of queries, never a result: values outside are
        stored and found too. The optimizer replaces a grid that the data has outgrown, like
        `Table.regrid`.
    identity
        The columns that define the sampling unit, whose rows are in a sample together:
        ``["pid", "time"]`` samples rows, ``["pid"]`` whole trajectories. None: each row on its own.
        It is not a key: rows may have equal identities.
    capacity
        About how many rows a cube of the index keeps. None: the default.
    seed
        Two tables with equal identities and seed have the same samples.
    exist_ok
        If a table exists whose columns, dimensions, identity, lookup and seed agree, open it
        instead of raising, and append the data. It keeps its metadata, and may have more columns.
    units
        Units of columns, ``{"x": "m"}``, stored as ``unit`` in the columns' Arrow metadata; units
        of the schema are used too. Data in another unit is converted, as by `Table.append`. A
        `UserWarning` reports an unknown unit, which is stored as text.
    metadata
        Other metadata of the table, such as the code and its parameters; any JSON values.
    lookup
        Columns with a secondary index. With ``["pid"]``, a query ``where="pid = 17"`` or ``"pid in
        (17, 18)"``, also joined by AND with other conditions, reads only the zones of these
        particles. It adds a few percent of storage, allows the types of an identity, and is fixed
        at creation.
    accuracy
        The error bound of stored values, by column: a number in the column's unit, text with a
        unit (``"1um"``), or relative to each value (``"1e-4 rel"``). Stored values, which all
        queries use, differ from the given ones by at most the bound and take fewer bytes
        (docs/storage.md). For integers and floats outside of ``identity`` and ``lookup``; fixed at
        creation.
    period
        Columns that repeat, with the length in the column's unit or as text with one:
        ``{"x": 25.0, "ra": 360}``. Boxes, regions and distances wrap there (docs/regions.md). The
        values are from 0 to the length, or in the interval of ``{"x": (-12.5, 12.5)}``; others
        are refused.
    sphere
        The columns of longitude and latitude on a sphere: ``("ra", "dec")``, in degrees or with a
        unit. Regions of the sky use them by default, and the longitude has a period of 360
        degrees.
    extent
        For objects with a bounding box: ``{"x": ("x_min", "x_max")}`` names the columns of its
        ends, by the column of the position. ``box`` and ``region`` of queries then select the
        objects that they touch, or others (``relation`` of `Table.query`). Rows whose position is
        not between the ends are refused. It is stored in the metadata.
    storage
        Options of the storage, as ``{"compression": "small", "shared": True}``. ``compression`` is
        ``"fast"`` (to write), ``"small"`` (on disk) or ``"balanced"``, the default; `Table.alter`
        changes it (docs/storage.md). ``replication`` is the set of rows that `Table.optimize`
        copies into deeper cubes, which makes small boxes cheaper and the table larger: ``"none"``,
        ``"outlook(B)"`` or ``"full"``; the default is ``"outlook(-1)"`` (docs/replication.md).
        ``strata`` is ``"halvings"``, the default, or ``"windows"``, an order of rows for `Loader`
        with a default capacity of 65,536 rows (docs/training.md). As a list of columns,
        ``["ptype"]``, samples prefer rare values of these columns. ``weight`` is an expression,
        ``"diameter"``, and samples prefer rows in proportion to it (docs/samples.md). Both are
        fixed at creation, and `Table.query` then needs the column ``inclusion``.
        ``shared`` means that several machines write to the directory, on NFS, Lustre, GPFS or a
        similar file system, so Kubist does not rely on file locks (docs/where.md). The table
        stores it, and it is the default on a file system that reports to be a network file system.

    Returns
    -------
    Table
        The table, open.

    Raises
    ------
    InvalidInput
        A column is missing, has a type that cannot be stored or indexed, or a domain with low >=
        high; the message names it.
    TableExists
        Something exists at ``path``.

    Examples
    --------
    >>> t = kubist.create(
    ...     "airway.kubist",
    ...     first_step,
    ...     dimensions={"x": None, "y": None, "z": None, "time": (0, 1)},
    ...     identity=["pid", "time"],
    ... )
    """
    stored = group("create", "storage", storage, Storage)
    compression, replication = stored.get("compression"), stored.get("replication")
    strata, weight = stored.get("strata"), stored.get("weight")
    classes = [] if strata is None or isinstance(strata, str) else _box.names("strata", strata)
    named = _box.dimensions(dimensions)
    data = None
    if not is_schema(data_or_schema):
        if extent is not None:
            data_or_schema = checked(data_or_schema, pairs(extent))
        data = Data(data_or_schema)
    schema = _kubist.Schema(data_or_schema) if data is None else data.schema
    if extent is not None:
        own = need("pyarrow", "extent").schema(schema).names
        metadata = {**(metadata or {}), KEY: declared(extent, own, list(dimensions))}
    table = Table(
        _kubist.Table.create(
            location_of(path),
            schema,
            dimensions=named,
            identity=[] if identity is None else _box.names("identity", identity),
            lookup=[] if lookup is None else _box.names("lookup", lookup),
            capacity=None if capacity is None else _box.count("capacity", capacity, most=2**32 - 1),
            seed=_box.count("seed", seed),
            replication=None if replication is None else str(replication),
            compression=None if compression is None else str(compression),
            strata=strata if isinstance(strata, str) else None,
            weight=None if weight is None else str(weight),
            classes=classes,
            accuracy=_box.accuracy(accuracy),
            units=_box.units(units),
            period=_box.periods(period),
            sphere=_box.sphere(sphere),
            metadata=_box.metadata(metadata),
            exist_ok=bool(exist_ok),
            shared=bool(stored.get("shared")),
        )
    )
    if data is not None:
        try:
            table._append(data)
        except BaseException as error:
            table.close()
            shown = _kubist.printable(_kubist.without_password(location_of(path)))
            error.add_note(f"{shown} was created, but has no row of this data: append to it")
            raise
    return table


def open(path: str | os.PathLike[str], *, optimize: bool = False) -> Table:
    """Opens the table at ``path``.

    Each call on the handle reads the newest commits, also of other processes. `Table.snapshot`
    pins a snapshot.

    Parameters
    ----------
    path
        The location: a directory, ``s3://bucket/prefix`` or ``cassandra://hosts/keyspace/table``.
        Or a sealed file of `Table.pack`: its path, ``s3://bucket/key``, or ``https://host/name`` on
        a web server with range requests.
    optimize
        Whether a thread restores the layout where queries of this handle read many more rows than
        they return. It needs write access to the table.

    Raises
    ------
    NotATable
        There is no table at ``path``.
    NewerFormat
        A newer version of Kubist wrote the table.
    """
    table = _kubist.Table.open(location_of(path))
    return Table(table, table.optimize_reads() if optimize else None)


for _public in (create, open):
    _public.__module__ = "kubist"
del _public
