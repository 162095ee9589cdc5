"""Identities of dictionaries and objects, and the dictionary that lists them.

An identity is a UUID that depends on the full name. The dictionary ``hecuba.istorage`` stores its
name and class, so that `getByID` finds them in another process.
"""

from __future__ import annotations

import os
import uuid
from importlib import import_module
from typing import Any, TypeVar

from .._errors import NotATable
from ._config import full_name, location_of
from ._rows import Rows, opened
from ._spec import Spec

REGISTRY = "hecuba.istorage"
_SPEC = Spec.of([("storage_id", "str")], [("name", "str"), ("class_name", "str")])

Own = TypeVar("Own", bound="IStorage")


class AlreadyPersistentError(RuntimeError):
    """The dictionary or object already has a name."""


class IStorage:
    """A dictionary or an object, with a name and an identity."""

    _name: str | None = None

    def __init__(self, name: str | None = None) -> None:
        raise NotImplementedError

    def make_persistent(self, name: str) -> None:
        """Stores it under a name."""
        raise NotImplementedError

    @property
    def storage_id(self) -> uuid.UUID | None:
        """The identity; None while it is only in memory."""
        return None if self._name is None else identity_of(self._name)

    def getID(self) -> str | None:
        """Returns the identity as a string for PyCOMPSs; None while it is only in memory."""
        if self._name is None:
            return None
        commit_registry()
        return str(self.storage_id)

    @classmethod
    def get_by_alias(cls: type[Own], alias: str) -> Own:
        """Opens the dictionary or object with a name.

        Raises
        ------
        NotATable
            The name is unknown.
        """
        if lookup(identity_of(full_name(alias))) is None:
            raise NotATable(f"there is no dictionary or object {full_name(alias)}")
        return cls(alias)

    def _full_name(self) -> str:
        if self._name is None:
            raise RuntimeError("it is in memory: call make_persistent(name) first")
        return self._name

    def _check_volatile(self, name: str) -> None:
        if self._name is not None:
            raise AlreadyPersistentError(f"it is {self._name} already, and cannot be {name}")

    def _register(self, name: str) -> None:
        identity = str(identity_of(name))
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        rows = _registry()
        if rows.get((identity,)) is None:
            rows.put((identity,), [name, kind])
        self._name = name

    def _unregister(self) -> None:
        _registry().put((str(self.storage_id),), None)
        commit_registry()
        self._name = None

    def _forget(self) -> None:
        self._name = None

    def _name_of(self, identity: uuid.UUID) -> str:
        found = lookup(identity)
        if found is None:
            raise NotATable(f"there is no dictionary or object with the identity {identity}")
        return found[0]


def identity_of(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def lookup(identity: uuid.UUID) -> tuple[str, str] | None:
    found = _registry().get((str(identity),))
    return None if found is None else (found[0], found[1])


def commit_registry() -> None:
    for rows in list(_registries.values()):
        rows.writes.commit()


def class_of(path: str) -> type[Any]:
    """Imports a class by its path, ``module.name``."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImportError(f"class {path} cannot be imported: {error}") from None
    if not isinstance(found, type):
        raise ImportError(f"{path} is not a class")
    return found


_registries: dict[str, Rows] = {}
os.register_at_fork(after_in_child=_registries.clear)


def _registry() -> Rows:
    location = location_of(REGISTRY)
    rows = _registries.get(location)
    if rows is None or rows.dropped:
        _registries.clear()
        rows = _registries[location] = opened(REGISTRY, _SPEC)
    return rows
