"""Operations on tables that are not open: drop, salvage, unpack, sync and clone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _create, _kubist
from ._directory import location_of
from ._figures import parse
from ._reports import Dropped, SalvageReport, Synced
from ._sites import part, synced
from ._table import Table

if TYPE_CHECKING:
    from ._arguments import Box


def drop(path: str | os.PathLike[str], *, force: bool = False) -> Dropped:
    """Deletes the table at ``path``, and its directory if it is then empty.

    It deletes no files of other programs, follows no links, and can be repeated after an interrupt.

    Parameters
    ----------
    path
        The location of the table.
    force
        Whether to delete the table even if a writer is open, whose later commits are then lost.

    Raises
    ------
    NotATable
        There is no table at ``path``.
    Busy
        A writer is open; nothing was deleted.
    """
    return parse(Dropped, _kubist.Table.drop(location_of(path), force=bool(force)))


def salvage(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> SalvageReport:
    """Copies the intact rows of the damaged table at ``path`` into a new table at ``to``.

    It copies every readable page, takes lost rows from replicas and older files, and does not
    change the damaged table. If log entries are unreadable, the new table has fewer commits or an
    earlier snapshot. It has the same columns, grid, identity, seed and steps, and so the same
    samples.

    Parameters
    ----------
    path
        The damaged table.
    to
        The location of the new table; nothing may exist there.

    Returns
    -------
    SalvageReport
        The rows copied, the loss at each damaged location, and losses that cannot be counted.

    Raises
    ------
    Damaged
        The header (the file ``table``) cannot be read.
    TableExists
        Something exists at ``to``.

    Examples
    --------
    >>> kubist.salvage("airway.kubist", "saved.kubist").rows_lost
    2048
    """
    return parse(SalvageReport, _kubist.Table.salvage(location_of(path), location_of(to)))


def unpack(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Table:
    """Copies the sealed file at ``path`` into a new, writable table at ``to``.

    It first verifies all checksums of the file. The table appears as a whole or not at all. For a
    file on a server, use `Table.copy_to`.

    Parameters
    ----------
    path
        A file that `Table.pack` or ``kubist pack`` wrote.
    to
        The location of the new table; nothing may exist there.
    progress
        Called repeatedly with the number of rows done and in total.

    Raises
    ------
    InvalidInput
        ``path`` is not a sealed file.
    Damaged
        The file is truncated or damaged.
    TableExists
        Something exists at ``to``.

    Examples
    --------
    >>> t = kubist.unpack("airway.kubist1", "airway.kubist")
    """
    location = location_of(to)
    _kubist.Table.unpack(location_of(path), location, progress=progress)
    return _create.open(location)


def sync(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    push: bool = True,
    pull: bool = True,
    memory: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Synced:
    """Exchanges the changes of two copies of a table; creates a missing copy.

    Both sites may append, retract, add columns and set metadata while they are apart. After the
    call, both have the same rows, each once. An interrupted call leaves only whole commits, and can
    be repeated. The page "One table at several sites" has the rules.

    Parameters
    ----------
    a, b
        The locations of the tables.
    push
        Whether to bring changes from ``a`` to ``b``.
    pull
        Whether to bring changes from ``b`` to ``a``.
    memory
        Bytes of memory for the rows of a commit; None: the default of writers.
    progress
        Called every 50 ms with the number of rows done and in total.

    Raises
    ------
    InvalidInput
        `sync` did not make the tables as copies of each other, or ``a`` and ``b`` are the same.
    Refused
        The histories of the tables differ, or rows to retract are mixed with others.
    SnapshotExpired
        `Table.clean` removed commits that the other site lacks.

    Examples
    --------
    >>> kubist.sync("/data/airway.kubist", "laptop.kubist").went.rows
    30000
    """
    return synced(location_of(a), location_of(b), push, pull, memory=memory, progress=progress)


def clone(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    sample: float | str | None = None,
    box: Box | None = None,
    columns: Sequence[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Table:
    """Makes a partial copy of the table at ``source`` in the new directory ``dest``.

    The copy has the whole manifest and the chosen part of the rows. It answers every query on this
    part exactly as its source, without a network. Other queries raise `NotHere`, or fetch what is
    missing if the copy was opened with ``fetch=True``. A copy cannot be written to. An interrupted
    call is continued by the same call. The page "One table at several sites" has more.

    Parameters
    ----------
    source
        The location of the table.
    dest
        A new or empty directory.
    sample
        The fraction of the rows, such as 0.01 or ``"1%"``; None: all.
    box
        The region, as for `Table.query`; None: everywhere.
    columns
        The columns; None: all. The copy also has the dimensions and the identity.
    progress
        Called repeatedly with the number of runs done and in total.

    Returns
    -------
    Table
        The copy, open.

    Raises
    ------
    InvalidInput
        ``source`` is a partial copy, or the part does not fit the table.
    TableExists
        Something exists at ``dest``.

    Examples
    --------
    >>> t = kubist.clone("/data/airway.kubist", "laptop.kubist", sample=0.01)
    >>> t.estimate("mean(diameter)")
    """
    location = location_of(dest)
    query = part(lambda: _create.open(source).schema, sample, box, columns)
    _kubist.clone(location_of(source), location, query, progress=progress)
    return _create.open(location)


for _public in (drop, salvage, unpack, sync, clone):
    _public.__module__ = "kubist"
del _public
