"""`StorageDict` under Hecuba's module name."""

from __future__ import annotations

from typing import Any

from kubist.hecuba import Filtered
from kubist.hecuba import StorageDict as OfKubist
from kubist.hecuba._spec import of_dictionary

from . import IStorage as _private_names  # noqa: F401


class StorageDict(OfKubist):
    @staticmethod
    def _parse_comments(text: str) -> dict[str, Any]:
        spec = of_dictionary(type("Described", (), {"__doc__": text}))
        return {
            "primary_keys": [(field.name, field.type) for field in spec.keys],
            "columns": [(field.name, field.type) for field in spec.columns],
            "type": "StorageDict",
        }


Filtered._qbeast_random = property(
    lambda self: self._owner._persistent().snapshot().token
)
