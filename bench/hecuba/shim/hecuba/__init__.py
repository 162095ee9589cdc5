"""Hecuba's module names over `kubist.hecuba`, for Hecuba's own tests.

These use ``filter`` as a builtin, private names of objects, and a few statements of CQL.
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
    """Here arrays are values of a dictionary, so no object writes their elements."""

    def __init__(self, *_: object) -> None:
        raise NotImplementedError("StorageNumpy")


__all__ = ["Config", "StorageDict", "StorageNumpy", "StorageObj", "config"]
