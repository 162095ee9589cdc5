"""The types of a dictionary's keys and values, and their columns in a table.

A field is a key or a value, with one column, or for a tuple, one column for each member. Integers
and floats are stored with 64 bits, so reading returns exactly the written value.
"""

from __future__ import annotations

import datetime
import io
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from .._errors import InvalidInput

FAMILIES = {
    "int": "int",
    "long": "int",
    "bigint": "int",
    "float": "float",
    "double": "float",
    "str": "text",
    "text": "text",
    "bool": "bool",
    "boolean": "bool",
    "bytes": "bytes",
    "bytearray": "bytes",
    "buffer": "bytes",
    "blob": "bytes",
    "date": "date",
    "time": "time",
    "datetime": "datetime",
    "timestamp": "datetime",
    "numpy.ndarray": "array",
    "ndarray": "array",
}
"""The family of each type name; types of one family are stored alike. Any other name with a dot is
a class, of the family "object": the column stores the id that `getByID` opens.
"""

_ARROW = {
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "datetime": pa.timestamp("us"),
    "array": pa.binary(),
    "object": pa.string(),
}

SORTED = ("int", "float", "date", "time", "datetime")
"""The families whose columns can be dimensions of a table."""

_TUPLE = re.compile(r"tuple<(.*)>\Z")


@dataclass(frozen=True)
class Leaf:
    name: str
    family: str

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self.family]


@dataclass(frozen=True)
class Field:
    """A key or a value of a dictionary; ``type`` is the text in its ``@TypeSpec``."""

    name: str
    type: str
    leaves: tuple[Leaf, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        members = _TUPLE.match(self.type)
        if members is None:
            leaves: tuple[Leaf, ...] = (Leaf(self.name, _family(self.type)),)
        else:
            kinds = [_family(kind.strip()) for kind in members.group(1).split(",")]
            leaves = tuple(Leaf(f"{self.name}.{at}", kind) for at, kind in enumerate(kinds))
        object.__setattr__(self, "leaves", leaves)

    @property
    def is_tuple(self) -> bool:
        return self.type.startswith("tuple<")

    @property
    def canonical(self) -> str:
        """The same name for all types that are stored alike, such as ``int`` and ``long``."""
        kinds = [self.type if leaf.family == "object" else leaf.family for leaf in self.leaves]
        return f"tuple<{','.join(kinds)}>" if self.is_tuple else kinds[0]

    def encode(self, value: Any, key: bool) -> list[Any]:
        """Checks a value and returns what each column stores; ``key`` forbids None."""
        if value is None:
            if key:
                raise TypeError(f"key {self.name}: None is not a key")
            return [None] * len(self.leaves)
        if not self.is_tuple:
            return [_encode(self, self.leaves[0], value)]
        if not isinstance(value, (tuple, list)) or len(value) != len(self.leaves):
            raise TypeError(f"{self.name}: expected {len(self.leaves)} values, not {value!r}")
        if all(member is None for member in value) or (key and None in value):
            raise TypeError(f"{self.name}: {value!r} cannot be stored, because of None")
        return [
            None if member is None else _encode(self, leaf, member)
            for leaf, member in zip(self.leaves, value, strict=True)
        ]

    def decode(self, stored: Sequence[Any]) -> Any:
        if self.is_tuple:
            return None if all(member is None for member in stored) else tuple(stored)
        if stored[0] is not None and self.leaves[0].family == "array":
            return np.load(io.BytesIO(stored[0]), allow_pickle=False)
        return stored[0]


def _family(name: str) -> str:
    if name in FAMILIES:
        return FAMILIES[name]
    if "." in name:
        return "object"
    raise InvalidInput(f"type {name!r} is unknown; known are {', '.join(FAMILIES)} and tuple<...>")


def _encode(owner: Field, leaf: Leaf, value: Any) -> Any:
    try:
        return _CHECKS[leaf.family](value)
    except TypeError:
        raise TypeError(f"{owner.name}: expected {owner.type}, not {value!r}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{owner.name}: {value!r:.80} cannot be stored: {error}") from None


def _integer(value: Any) -> int:
    found = operator.index(value)
    if not -(2**63) <= found < 2**63:
        raise OverflowError("an integer has 64 bits")
    return found


def _floating(value: Any) -> float:
    if not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    return str(value)


def _instance(*classes: type, but: tuple[type, ...] = ()) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, classes) or isinstance(value, but):
            raise TypeError
        return value

    return check


def _naive(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind) or getattr(value, "tzinfo", None) is not None:
            raise TypeError
        return value

    return check


def _array(value: Any) -> bytes:
    if not isinstance(value, np.ndarray):
        raise TypeError
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    return buffer.getvalue()


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "int": _integer,
    "float": _floating,
    "text": _text,
    "bool": lambda value: bool(_instance(bool, np.bool_)(value)),
    "bytes": lambda value: bytes(_instance(bytes, bytearray)(value)),
    "date": _instance(datetime.date, but=(datetime.datetime,)),
    "time": _naive(datetime.time),
    "datetime": _naive(datetime.datetime),
    "array": _array,
    "object": _text,
}
