"""The module names of Hecuba over `kubist.hecuba`, for Hecuba's own tests.

Its tests use ``filter`` as a builtin, private names of objects, and a few statements of CQL.
"""

from __future__ import annotations

import builtins

from kubist import hecuba as kubist_hecuba
from kubist.hecuba import config

from .cql import Session
from .hdict import StorageDict
from .storageobj import StorageObj

config.session = Session()

if not hasattr(builtins, "python_filter"):
    builtins.python_filter = builtins.filter
    builtins.filter = kubist_hecuba.filter

Config = type(config)


class StorageNumpy:
    """Arrays are values of a dictionary here, so there is no object that writes its elements."""

    def __init__(self, *_: object) -> None:
        raise NotImplementedError("StorageNumpy")


__all__ = ["Config", "StorageDict", "StorageNumpy", "StorageObj", "config"]
