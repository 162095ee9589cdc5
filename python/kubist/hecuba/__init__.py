"""Dictionaries and objects in tables, with the interface of Hecuba.

>>> from kubist.hecuba import StorageDict, config
>>> config.location = "dictionaries"                # a directory, s3://... or cassandra://...
>>> class Droplets(StorageDict):
...     '''
...     @TypeSpec dict<<pid:int, time:double>, x:double, y:double, z:double>
...     @Index_on x, y, z
...     '''
>>> d = Droplets("airway.droplets")
>>> d[17, 0.5] = [0.01, 0.02, 0.03]
>>> d.filter(lambda p: p.x < 0.1 and p.pid in (17, 18))

docs/dictionaries.md is the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._config import Config, config
from ._dictionary import StorageDict
from ._identity import AlreadyPersistentError, IStorage
from ._object import StorageObj
from ._opening import getByID
from ._parts import FilteredPart, Part
from ._reading import Reading
from ._rows import SchemaMismatch
from ._rows import commit_all as commit
from ._views import Filtered, Items

_filter = filter

__all__ = [
    "AlreadyPersistentError",
    "Config",
    "Filtered",
    "FilteredPart",
    "IStorage",
    "Part",
    "Reading",
    "SchemaMismatch",
    "StorageDict",
    "StorageObj",
    "commit",
    "config",
    "filter",
    "getByID",
]


def filter(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
    """Filters ``d.items()`` as `StorageDict.filter` does, and other iterables as Python does.

    Programs for Hecuba import it: ``from kubist.hecuba import filter``.
    """
    if isinstance(items, (Items, StorageDict, Part, FilteredPart)):
        return items.filter(function)
    return _filter(function, items)
