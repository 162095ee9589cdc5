"""What is done to a table that is not opened: it is dropped, or what is sound of it is saved."""

from __future__ import annotations

import os

from . import _kubist
from ._directory import location_of
from ._figures import Dropped, SalvageReport, parse


def drop(path: str | os.PathLike[str], *, force: bool = False) -> Dropped:
    """Deletes the table at ``path``, and its directory if nothing else is in it.

    Files that Kubist did not make stay, and no link is followed. Where a drop was
    interrupted, what is left is not a table, and can be dropped again.

    Args:
        path: Where the table is.
        force: Although a writer is at work: what it commits is lost.

    Raises:
        NotATable: There is no table at ``path``.
        Busy: A writer is at work, in this process or another; nothing was deleted.
    """
    return parse(Dropped, _kubist.Table.drop(location_of(path), force=bool(force)))


def salvage(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> SalvageReport:
    """Saves what is sound of the damaged table at ``path`` into a new table at ``to``.

    Takes every page that can be read, lost records from replicas where there are any,
    and older states where newer ones cannot be read. The damaged table is not
    changed. The new one has the same columns, grid, identity and seed, so the same
    records are in its samples, and they keep their steps.

    Args:
        path: The damaged table.
        to: Where the new table will be; nothing may be there yet.

    Returns:
        What was saved, what each damaged location cost, and what cannot be known.

    Raises:
        Damaged: The header, the file ``table``, cannot be read.
        TableExists: Something is at ``to``.

    Example:
        >>> kubist.salvage("airway.kubist", "saved.kubist").rows_lost
        2048
    """
    return parse(SalvageReport, _kubist.Table.salvage(location_of(path), location_of(to)))


for _public in (drop, salvage):
    _public.__module__ = "kubist"
del _public
