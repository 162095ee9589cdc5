"""Dictionaries, objects and parts by their identities."""

from __future__ import annotations

import uuid
from typing import Any

from .._errors import InvalidInput, NotATable
from ._identity import class_of, lookup
from ._parts import part_of


def getByID(objid: str | uuid.UUID) -> Any:
    """Opens the dictionary, object or part with an identity (``getID()`` or ``storage_id``).

    Raises
    ------
    NotATable
        The identity is unknown.
    SnapshotExpired
        Files of the part's snapshot were deleted.
    """
    if isinstance(objid, str) and objid.startswith("{"):
        return part_of(objid)
    try:
        identity = objid if isinstance(objid, uuid.UUID) else uuid.UUID(objid)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"not an identity: {objid!r:.80}") from None
    found = lookup(identity)
    if found is None:
        raise NotATable(f"there is no dictionary or object with the identity {identity}")
    name, kind = found
    return class_of(kind)(name)
