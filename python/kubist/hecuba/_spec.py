"""Specifications of dictionaries and objects, from docstrings or arguments.

::

    @TypeSpec dict<<pid:int, time:double>, x:double, y:double, z:double>
    @Index_on x, y, z

    @ClassField droplets dict<<pid:int>, diameter:double>
    @ClassField speed double
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import InvalidInput
from ._types import SORTED, Field, Leaf

KEY, VERSION, WRITER, REMOVED = "_key", "_version", "_writer", "_removed"
"""Columns of every dictionary: see `_rows`."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Spec:
    """The keys and values of a dictionary, and the columns that are indexed together."""

    keys: tuple[Field, ...]
    columns: tuple[Field, ...]
    indexed_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [field.name for field in self.keys + self.columns]
        if not self.keys or not self.columns:
            raise InvalidInput("a dictionary needs at least one key and one value")
        for name in names:
            if not _NAME.match(name) or keyword.iskeyword(name) or names.count(name) > 1:
                raise InvalidInput(f"{name!r} is not a name of its own for a key or value")
        for field in self.keys:
            if any(leaf.family in ("array", "object") for leaf in field.leaves):
                raise InvalidInput(f"key {field.name}: {field.type} cannot be a key")
        dimensions = {leaf.name for leaf in self.leaves if leaf.family in SORTED}
        for name in self.indexed_on:
            if name not in dimensions:
                raise InvalidInput(f"@Index_on {name}: there is no number or time of this name")
        if len(self.indexed_on) > 8:
            raise InvalidInput("@Index_on: at most 8 columns")

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return self.key_leaves + self.column_leaves

    @property
    def key_leaves(self) -> tuple[Leaf, ...]:
        return tuple(leaf for field in self.keys for leaf in field.leaves)

    @property
    def column_leaves(self) -> tuple[Leaf, ...]:
        return tuple(leaf for field in self.columns for leaf in field.leaves)

    @property
    def key_column(self) -> str:
        """The column that identifies a key: the key itself, or a hash of several keys."""
        return self.key_leaves[0].name if len(self.key_leaves) == 1 else KEY

    @property
    def dimensions(self) -> list[str]:
        """The dimensions of the table; if no other column can be a dimension, the commit number."""
        sorted_keys = [leaf.name for leaf in self.key_leaves if leaf.family in SORTED]
        return list(self.indexed_on) or sorted_keys[:8] or [VERSION]

    def agrees(self, other: Spec) -> bool:
        return self.to_json() == other.to_json()

    def to_json(self) -> str:
        return json.dumps(
            {
                "keys": [[field.name, field.canonical] for field in self.keys],
                "columns": [[field.name, field.canonical] for field in self.columns],
                "indexed_on": list(self.indexed_on),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Spec:
        said = json.loads(text)
        return cls(
            tuple(Field(name, kind) for name, kind in said["keys"]),
            tuple(Field(name, kind) for name, kind in said["columns"]),
            tuple(said["indexed_on"]),
        )

    @classmethod
    def of(
        cls,
        keys: Sequence[tuple[str, str]],
        columns: Sequence[tuple[str, str]],
        indexed_on: Iterable[str] | None = None,
    ) -> Spec:
        """Returns the specification for pairs of a name and a type."""
        return cls(
            tuple(Field(name, kind) for name, kind in keys),
            tuple(Field(name, kind) for name, kind in columns),
            tuple(indexed_on or ()),
        )


def of_dictionary(owner: type) -> Spec | None:
    """Returns the ``@TypeSpec`` of a class, or of its nearest base class with one."""
    for cls in owner.__mro__:
        lines = _tagged(cls.__dict__.get("__doc__"))
        types = [text for tag, text in lines if tag == "TypeSpec"]
        if len(types) > 1:
            raise InvalidInput(f"{cls.__name__}: more than one line @TypeSpec")
        if types:
            indexed = [text for tag, text in lines if tag == "Index_on"]
            return parse(types[0], _names(indexed[0]) if indexed else ())
    return None


def of_object(owner: type) -> dict[str, Field | Spec]:
    """Returns the ``@ClassField`` lines of a class and its base classes, by name."""
    found: dict[str, Field | Spec] = {}
    for cls in reversed(owner.__mro__):
        lines = _tagged(cls.__dict__.get("__doc__"))
        indexed = dict(_pair(cls, tag, text) for tag, text in lines if tag == "Index_on")
        for tag, text in lines:
            if tag == "ClassField":
                name, kind = _pair(cls, tag, text)
                if kind.replace(" ", "").startswith("dict<"):
                    found[name] = parse(kind, _names(indexed.get(name, "")))
                else:
                    found[name] = Field(name, kind.replace(" ", ""))
    return found


def parse(text: str, indexed_on: Iterable[str] = ()) -> Spec:
    """Parses text such as ``dict<<pid:int>, x:double, y:double>``."""
    bare = re.sub(r"\s+", "", text)
    keys, end = _inside(bare, "dict<<", text)
    columns, last = _inside("<" + bare[end:].removeprefix(","), "<", text)
    if last != len(bare) - end + (0 if bare[end:].startswith(",") else 1):
        raise InvalidInput(f"@TypeSpec {text}: there is more behind the last >")
    return Spec(_fields(keys, "key", text), _fields(columns, "val", text), tuple(indexed_on))


def _inside(text: str, start: str, whole: str) -> tuple[str, int]:
    """The text from ``start`` to the closing bracket, and the position after the bracket."""
    depth = 1
    for at in range(len(start), len(text)) if text.startswith(start) else ():
        depth += {"<": 1, ">": -1}.get(text[at], 0)
        if depth == 0:
            return text[len(start) : at], at + 1
    raise InvalidInput(f"@TypeSpec {whole}: expected dict<<key:type, ...>, value:type, ...>")


def _fields(text: str, unnamed: str, whole: str) -> tuple[Field, ...]:
    fields = []
    for at, part in enumerate(re.split(r",(?![^<]*>)", text)):
        name, colon, kind = part.rpartition(":")
        if not kind or (colon and not name):
            raise InvalidInput(f"@TypeSpec {whole}: {part!r} is not name:type")
        fields.append(Field(name or f"{unnamed}_{at}", kind))
    return tuple(fields)


def _tagged(text: str | None) -> list[tuple[str, str]]:
    return re.findall(r"^\s*@(TypeSpec|ClassField|Index_on)\s+(.*?)\s*$", text or "", re.MULTILINE)


def _pair(cls: type, tag: str, text: str) -> tuple[str, str]:
    words: list[Any] = text.split(None, 1)
    if len(words) != 2:
        raise InvalidInput(f"{cls.__name__}: @{tag} {text}: expected a name and more")
    return words[0], words[1]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
