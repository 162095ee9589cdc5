"""`kubist.create` makes a new table; `kubist.open` opens an existing one."""

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
        The location, where nothing may exist: a directory, ``s3://bucket/prefix`` (docs/where.md)
        or ``cassandra://hosts/keyspace/table`` (docs/cassandra.md).
    data_or_schema
        A `pyarrow.Schema` creates an empty table. Data, in any form that `Table.append` accepts,
        becomes the first commit.
    dimensions
        The 1 to 8 columns to index: integers, floats, dates, times, timestamps. A dict gives the
        domain of each column, the interval that the index divides: ``{"time": (0, 1)}`` in the
        column's unit, ``{"x": None}`` to learn the domain from the first commit, or
        ``{"z": "quantile"}`` to divide skewed values at their quantiles. A list of names means None
        for each column. Domains affect only the speed of queries: rows outside are stored and found
        too. If the data outgrows the domains, the optimizer replaces them (docs/grids.md).
    identity
        The columns that define the sampling unit. Rows with equal values in these columns are
        sampled together: ``["pid", "time"]`` samples rows, ``["pid"]`` whole trajectories. None:
        each row is sampled by itself. Several rows may have the same identity.
    capacity
        The approximate number of rows in a cube, a node of the index (docs/scalability.md): 16 to
        1,048,576. The default is 2,048, or 65,536 with strata of windows.
    seed
        The seed of the random priorities. Tables with the same identities and the same seed have
        the same samples.
    exist_ok
        If True, and a table with the same columns and options exists at ``path``, opens this table
        and appends the data. Units, metadata and compression may differ, and the table may have
        more columns. Its metadata does not change.
    units
        Units of columns, ``{"x": "m"}``, in addition to the units in the schema. The table stores
        them as ``unit`` in the Arrow metadata of the columns. Data in another unit is converted, as
        by `Table.append`. An unknown unit is stored as text, with a `UserWarning`.
    metadata
        Other metadata of the table, such as the code and its parameters: any JSON values.
    lookup
        Columns with a secondary index (docs/lookup.md), fixed at creation. With ``["pid"]``, the
        conditions ``pid = 17`` and ``pid in (17, 18)``, also if AND joins them with others, read
        only the blocks of 8 to 48 rows that contain these particles. The index adds a few percent
        of storage.
    accuracy
        The error bound of stored values by column, fixed at creation: a number in the column's
        unit, text with a unit (``"1um"``), or relative to each value (``"1e-4 rel"``). To store
        fewer bytes, Kubist may change a value by at most this bound; all queries use the stored
        values (docs/storage.md). For columns of integers and floats that are not in ``identity`` or
        ``lookup``.
    period
        The periods of columns, as numbers in the column's unit or text with a unit:
        ``{"x": 25.0, "ra": 360}``. Boxes, regions and distances continue at the other side
        (docs/regions.md). Values must be from 0 to the period; other values are refused. With
        ``{"x": (-12.5, 12.5)}``, values are in this interval, and its length is the period.
    sphere
        The columns of longitude and latitude on a sphere: ``("ra", "dec")``, in degrees or with a
        unit. Regions of the sky use them by default. The longitude gets a period of 360 degrees.
    extent
        For rows that are objects with a bounding box (docs/extents.md). ``{"x": ("x_min",
        "x_max")}`` names the columns with the lower and upper bound of the box in ``x``. ``box``
        and ``region`` of a query then select all objects that they touch; ``relation`` of
        `Table.query` changes this. A row whose position is not between its bounds is refused. The
        names are stored in the metadata.
    storage
        Options of the storage, such as ``{"compression": "small", "shared": True}``:

        - ``compression``: ``"fast"`` to write, ``"small"`` on disk, or ``"balanced"``, the default.
          `Table.alter` changes it (docs/storage.md).
        - ``replication``: the rows that `Table.optimize` also copies into deeper cubes: ``"none"``,
          ``"outlook(B)"`` (up to a level that the number B sets) or ``"full"``. More copies make
          queries of small boxes faster and the table larger. The default is ``"outlook(-1)"``
          (docs/replication.md).
        - ``strata``: ``"halvings"``, the default, or ``"windows"``, a layout of rows for training
          with `Loader` (docs/training.md). A list of columns, ``["ptype"]``, makes samples prefer
          rows with rare values in these columns.
        - ``weight``: an expression, such as ``"diameter"``. Rows are sampled in proportion to it.
          With a weight or a list of strata, samples are not uniform: the column ``inclusion`` of a
          query is each row's probability to be in the sample. Both are fixed at creation
          (docs/samples.md).
        - ``shared``: True if several machines write to the directory, on NFS, Lustre, GPFS or a
          similar file system. Kubist then does not use file locks (docs/where.md). The default is
          True on a file system that several machines may use.

    Returns
    -------
    Table
        The open table.

    Raises
    ------
    InvalidInput
        A column is missing, its type cannot be stored or indexed, or a domain has low >= high. The
        message names the column.
    TableExists
        Something exists at ``path``; with ``exist_ok``, a table whose columns or options differ.

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
            accuracy=_box.error_bounds(accuracy),
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

    Each query reads the newest commits of all processes. To run several queries on the same rows,
    use `Table.snapshot`.

    Parameters
    ----------
    path
        The location: a directory, ``s3://bucket/prefix`` or ``cassandra://hosts/keyspace/table``.
        Or a file that `Table.pack` wrote: its path, ``s3://bucket/key``, or ``https://host/name``
        on a web server that supports range requests.
    optimize
        If True, a thread rewrites regions where queries of this process read many more rows than
        they return. This needs write access to the table.

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
