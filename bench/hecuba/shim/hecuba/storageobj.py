"""`StorageObj` under Hecuba's module name."""

from __future__ import annotations

from kubist.hecuba import StorageObj as OfKubist

from . import IStorage as _private_names  # noqa: F401


class StorageObj(OfKubist):
    # Hecuba names the table of an object by its class.
    _table = property(lambda self: type(self).__name__.lower())
