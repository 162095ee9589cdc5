"""`StorageObj`: an object whose attributes are stored."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from collections.abc import Callable
from typing import Any

from . import _spec
from ._config import full_name
from ._dictionary import StorageDict
from ._identity import IStorage, class_of, commit_registry
from ._opening import getByID
from ._rows import Rows, commit_all, opened
from ._spec import Spec
from ._types import Field

_SPEC = Spec.of([("storage_id", "str"), ("attribute", "str")], [("value", "str")])


class StorageObj(IStorage):
    """An object whose attributes are rows of a table.

    The docstring of a subclass lists its attributes; other attributes stay in this process. A name,
    here or in `make_persistent`, stores the object, which otherwise is in memory. All objects of a
    class in a group share one table.

    Examples
    --------
    >>> class Study(StorageObj):
    ...     '''
    ...     @ClassField speed double
    ...     @ClassField droplets dict<<pid:int>, diameter:double>
    ...     '''
    >>> s = Study("airway.study")
    >>> s.speed = 1.5
    >>> s.droplets[17] = 2e-6
    >>> Study.get_by_alias("airway.study").speed
    1.5
    """

    def __init__(
        self, name: str | None = None, storage_id: uuid.UUID | None = None, **_: Any
    ) -> None:
        self._fields = _spec.of_object(type(self))
        self._memory: dict[str, Any] = {}
        self._nested: dict[str, Any] = {}
        self._rows: Rows | None = None
        if name is None and storage_id is not None:
            name = self._name_of(storage_id)
        if name is not None:
            self._open(name)

    def make_persistent(self, name: str) -> None:
        """Stores the object under a name, with its dictionaries, and commits."""
        self._check_volatile(name)
        memory, nested = self._memory, self._nested
        self._memory, self._nested = {}, {}
        self._open(name)
        for attribute, value in {**memory, **nested}.items():
            setattr(self, attribute, value)
        self.sync()

    def stop_persistent(self) -> None:
        """Commits, keeps the stored object, and becomes an empty object in memory."""
        self.sync()
        self._rows = None
        self._nested = {}
        self._forget()

    def delete_persistent(self) -> None:
        """Deletes the stored attributes and the object's dictionaries."""
        rows = self._persistent()
        for attribute, kind in self._fields.items():
            if isinstance(kind, Spec):
                dictionary = getattr(self, attribute)
                if dictionary.storage_id is not None:
                    dictionary.delete_persistent()
            if rows.get(self._key(attribute)) is not None:
                rows.put(self._key(attribute), None)
        rows.writes.commit()
        self._rows = None
        self._unregister()

    def sync(self) -> None:
        """Commits the waiting writes of all dictionaries and objects of the process."""
        self._persistent()
        commit_all()

    def __getattr__(self, attribute: str) -> Any:
        kind = self.__dict__.get("_fields", {}).get(attribute)
        if kind is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {attribute!r}")
        if attribute in self._nested:
            return self._nested[attribute]
        found = self._memory.get(attribute) if self._rows is None else self._stored(attribute)
        if found is None and isinstance(kind, Spec):
            found = self._new_dictionary(attribute, kind)
        elif found is None and isinstance(kind, Field) and kind.leaves[0].family == "object":
            found = class_of(kind.type)()
            self.__setattr__(attribute, found)
        elif found is None and not self._is_set(attribute):
            raise AttributeError(f"{attribute!r} of this {type(self).__name__} has no value yet")
        if isinstance(found, IStorage):
            self._nested[attribute] = found
        return found

    def __setattr__(self, attribute: str, value: Any) -> None:
        kind = self.__dict__.get("_fields", {}).get(attribute)
        if kind is None:
            object.__setattr__(self, attribute, value)
        elif isinstance(kind, Spec):
            self._set_dictionary(attribute, kind, value)
        elif isinstance(value, IStorage):
            self._set_nested(attribute, value)
        else:
            stored = kind.encode(value, key=False)
            self._nested.pop(attribute, None)
            if self._rows is None:
                self._memory[attribute] = value
            else:
                self._put(attribute, {"value": stored})

    def __delattr__(self, attribute: str) -> None:
        if attribute not in self.__dict__.get("_fields", {}):
            object.__delattr__(self, attribute)
        elif not self._is_set(attribute):
            raise AttributeError(f"{attribute!r} has no value")
        elif self._rows is None:
            self._memory.pop(attribute, None)
            self._nested.pop(attribute, None)
        else:
            self._nested.pop(attribute, None)
            self._rows.put(self._key(attribute), None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageObj) or type(other) is not type(self):
            return NotImplemented
        return self is other or (self._name is not None and self._name == other._name)

    def __hash__(self) -> int:
        return hash((type(self), self._name or id(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rows is None:
            return _in_memory, (type(self), {**self._memory, **self._nested})
        self.sync()
        return getByID, (self.getID(),)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name or 'in memory'}>"

    def _open(self, name: str) -> None:
        full = full_name(name)
        group = full.partition(".")[0]
        table = f"{group}.objects_{type(self).__name__}".lower()
        self._rows = opened(table, _SPEC, before=commit_registry)
        self._register(full)

    def _persistent(self) -> Rows:
        if self._rows is None:
            raise RuntimeError("the object is in memory: call make_persistent(name) first")
        return self._rows

    def _key(self, attribute: str) -> tuple[str, str]:
        return str(self.storage_id), attribute

    def _is_set(self, attribute: str) -> bool:
        if self._rows is None:
            return attribute in self._memory or attribute in self._nested
        return self._rows.get(self._key(attribute)) is not None

    def _put(self, attribute: str, value: dict[str, Any]) -> None:
        self._persistent().put(self._key(attribute), [json.dumps(value, default=_as_json)])

    def _stored(self, attribute: str) -> Any:
        found = self._persistent().get(self._key(attribute))
        if found is None:
            return None
        said = json.loads(found[0])
        if "id" in said:
            return getByID(said["id"])
        kind = self._fields[attribute]
        if isinstance(kind, Spec):
            return self._dictionary(kind, said["name"])
        members = zip(kind.leaves, said["value"], strict=True)
        return kind.decode([_from_json(leaf.family, member) for leaf, member in members])

    def _set_nested(self, attribute: str, value: IStorage) -> None:
        if self._rows is None:
            self._nested[attribute] = value
            return
        if value.storage_id is None:
            value.make_persistent(self._free_name(attribute))
        self._nested[attribute] = value
        self._put(attribute, {"id": str(value.storage_id)})

    def _set_dictionary(self, attribute: str, kind: Spec, value: Any) -> None:
        if not isinstance(value, StorageDict):
            made = self._dictionary(kind, None)
            made.update(value)
            value = made
        self._nested[attribute] = value
        if self._rows is not None:
            if value.storage_id is None:
                value.make_persistent(self._free_name(attribute))
            self._put(attribute, {"name": value._full_name()})

    def _new_dictionary(self, attribute: str, kind: Spec) -> StorageDict:
        if self._rows is None:
            return self._dictionary(kind, None)
        made = self._dictionary(kind, self._free_name(attribute))
        self._put(attribute, {"name": made._full_name()})
        return made

    def _dictionary(self, kind: Spec, name: str | None) -> StorageDict:
        return StorageDict(
            name,
            [(field.name, field.type) for field in kind.keys],
            [(field.name, field.type) for field in kind.columns],
            kind.indexed_on,
        )

    def _free_name(self, attribute: str) -> str:
        name = f"{self._full_name()}_{attribute}"
        return name if not self._is_set(attribute) else f"{name}_{uuid.uuid4().hex}"


def _in_memory(kind: type[StorageObj], values: dict[str, Any]) -> StorageObj:
    made = kind.__new__(kind)
    StorageObj.__init__(made)
    for attribute, value in values.items():
        setattr(made, attribute, value)
    return made


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat()


_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "bytes": base64.b64decode,
    "array": base64.b64decode,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}


def _from_json(family: str, value: Any) -> Any:
    decode = _FROM_JSON.get(family)
    return value if value is None or decode is None else decode(value)
