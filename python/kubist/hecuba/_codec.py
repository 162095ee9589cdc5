"""Conversion of keys and values between Python and the columns of the table."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from ._spec import Spec
from ._writes import Key, Values


class row(NamedTuple):
    """A key with its value, as ``items()`` yields them."""

    key: Any
    value: Any


class Codec:
    def __init__(self, spec: Spec, load: Callable[[str], Any]) -> None:
        self.spec = spec
        self._load = load
        self._key = _builder([field.name for field in spec.keys])
        self._value = _builder([field.name for field in spec.columns])
        self.seen = _seen(spec)

    def key(self, stored: Key) -> Any:
        return self._key(_decoded(self.spec.keys, stored))

    def value(self, stored: Values) -> Any:
        found = _decoded(self.spec.columns, stored)
        for at, field in enumerate(self.spec.columns):
            if field.leaves[0].family == "object" and found[at] is not None:
                found[at] = self._load(found[at])
        return self._value(found)

    def stored_key(self, key: Any) -> Key:
        """Checks a key, and returns the values of its columns."""
        fields = self.spec.keys
        parts = [key] if len(fields) == 1 else key
        if not isinstance(parts, (tuple, list)) or len(parts) != len(fields):
            raise TypeError(f"a key is {_names(fields)}, not {key!r}")
        stored = []
        for field, part in zip(fields, parts, strict=True):
            for leaf, member in zip(field.leaves, field.encode(part, key=True), strict=True):
                if leaf.family == "float":
                    if member != member:
                        raise TypeError(f"key {leaf.name}: NaN is not a key")
                    # Zero and minus zero are one key.
                    member += 0.0
                stored.append(member)
        return tuple(stored)

    def parts(self, value: Any) -> list[Any]:
        """Returns the value of each field that is not a key."""
        fields = self.spec.columns
        if len(fields) == 1:
            alone = isinstance(value, list) and len(value) == 1
            return [value[0] if alone else value]
        if value is None:
            return [None] * len(fields)
        if not isinstance(value, (tuple, list)) or len(value) != len(fields):
            raise TypeError(f"a value is {_names(fields)}, not {value!r}")
        return list(value)

    def stored_value(self, parts: list[Any]) -> Values:
        """Checks the values of fields, and returns the values of their columns."""
        return [
            member
            for field, part in zip(self.spec.columns, parts, strict=True)
            for member in field.encode(part, key=False)
        ]

    def whole(self, parts: list[Any]) -> Any:
        return self._value(parts)


def _builder(names: list[str]) -> Callable[[list[Any]], Any]:
    if len(names) == 1:
        return lambda parts: parts[0]
    made = namedtuple("row", names)  # type: ignore[misc]
    return lambda parts: made(*parts)


def _decoded(fields: Any, stored: Any) -> list[Any]:
    found, at = [], 0
    for field in fields:
        end = at + len(field.leaves)
        found.append(field.decode(stored[at:end]))
        at = end
    return found


def _names(fields: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in fields)


def _seen(spec: Spec) -> type:
    """The class of a filter's argument ``x``: ``x.name``, ``x.key``, ``x[1]``, ..."""
    names: dict[str, Any] = {"__slots__": ()}
    for side, (part, fields) in enumerate((("key", spec.keys), ("value", spec.columns))):
        names.setdefault(part, _member(side))
        for at, field in enumerate(fields):
            names[field.name] = _member(side) if len(fields) == 1 else _member(side, at)
    return type("row", (tuple,), names)


def _member(*path: int) -> property:
    def get(item: Any) -> Any:
        for at in path:
            item = item[at]
        return item

    return property(get)
