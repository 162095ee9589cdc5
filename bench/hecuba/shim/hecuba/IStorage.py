"""Private names of Hecuba's objects."""

from __future__ import annotations

from typing import Any

from kubist.hecuba import FilteredPart, IStorage, Part, getByID
from kubist.hecuba._identity import class_of


def _group(self: Any) -> str | None:
    return None if self._name is None else self._name.partition(".")[0]


def _table(self: Any) -> str | None:
    return None if self._name is None else self._name.partition(".")[2]


class _Arguments:
    def __init__(self, part: Part) -> None:
        self._part = part

    def _asdict(self) -> dict[str, Any]:
        return {"storage_id": self._part.storage_id}


IStorage._ksp = property(_group)
IStorage._table = property(_table)
IStorage._is_persistent = property(lambda self: self._name is not None)
Part._build_args = property(_Arguments)
# The parts of a filter take their samples from one snapshot.
FilteredPart._qbeast_random = property(lambda self: self._snapshot.token)


def build_remotely(arguments: dict[str, Any]) -> Any:
    identity = arguments["storage_id"]
    if isinstance(identity, str):
        return getByID(identity)
    made = class_of(arguments["class_name"])(arguments["name"])
    made._built_remotely = True
    return made


__all__ = ["IStorage", "build_remotely"]
