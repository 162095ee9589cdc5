"""`kubist.dict`: an embedded, sorted dictionary in one file (crate `kubist-kv`)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from . import _kubist
from ._errors import InvalidInput
from ._options import checked_options

Key = bytes | str | int | float
"""The order of keys: numbers, bytes, strings, each in ascending order."""

_NUMBER, _BYTES, _TEXT = b"\x10", b"\x20", b"\x30"
_INTEGERS = 2**53
"""The largest key. Keys are sorted as float64, which cannot represent all larger integers."""


@checked_options()
def dict(
    path: str | os.PathLike[str], name: str = "dictionary", *, read_only: bool = False
) -> Dictionary:
    """Opens a dictionary in one file, or creates it.

    It stores bytes, strings, numbers and JSON, sorted by key, in ``path/NAME.NUMBER.kv``
    (FORMAT.md). One handle writes; any number of handles and processes read. Unlike with pickle,
    reading never runs code.

    Parameters
    ----------
    path
        A directory, which is created if it does not exist.
    name
        The name of the dictionary in the directory.
    read_only
        Whether to open it without a lock, with its current commits; later commits are not visible.

    Returns
    -------
    Dictionary
        The dictionary, open.

    Raises
    ------
    Busy
        Another handle is open for writing.
    NotATable
        With ``read_only``: the dictionary does not exist.
    Damaged
        A checksum shows damage.

    Examples
    --------
    >>> d = kubist.dict("settings")
    >>> d["solver"] = {"name": "alya", "steps": 1200}
    >>> with d.batch():                               # one durable commit
    ...     for n, name in enumerate(names):
    ...         d[n] = name
    >>> dict(d.range(0, 10))
    """
    place = Path(path)
    if not read_only:
        place.mkdir(parents=True, exist_ok=True)
    return Dictionary(_kubist.Dictionary(os.fspath(place), name, not read_only), place, name)


class Dictionary(MutableMapping[Key, Any]):
    """A dictionary in one file, from `kubist.dict`.

    Keys are bytes, strings, and finite numbers up to 2^53. Values may also be booleans, None, and
    lists and dicts of JSON. Each assignment is durable when it returns; `batch` joins many into one
    commit.
    """

    def __init__(self, opened: _kubist.Dictionary, path: Path, name: str) -> None:
        self._opened = opened
        self._path = path
        self._name = name
        self._waiting: list[tuple[bytes, bytes | None]] | None = None

    def __getitem__(self, key: Key) -> Any:
        value = self._opened.get(_key(key))
        if value is None:
            raise KeyError(key)
        return _value_of(value)

    def __setitem__(self, key: Key, value: Any) -> None:
        self._change(_key(key), _bytes_of(value))

    def __delitem__(self, key: Key) -> None:
        coded = _key(key)
        if self._opened.get(coded) is None:
            raise KeyError(key)
        self._change(coded, None)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Key) and self._opened.get(_key(key)) is not None

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.range())

    def __reversed__(self) -> Iterator[Key]:
        return reversed(list(self))

    def __len__(self) -> int:
        return self._opened.keys()

    def __repr__(self) -> str:
        return f"<kubist.Dictionary {self._name} in {self._path}: {len(self):,} keys>"

    def __enter__(self) -> Dictionary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def range(self, low: Key | None = None, high: Key | None = None) -> Iterator[tuple[Key, Any]]:
        """Returns the items with ``low <= key < high`` in ascending order, without later changes.

        None is an open bound.
        """
        ends = [None if end is None else _key(end) for end in (low, high)]
        return _entries(self._opened.range(*ends))

    @contextlib.contextmanager
    def batch(self) -> Iterator[Dictionary]:
        """Joins the changes of a ``with`` block in one durable commit; an exception discards them.

        The changes become visible at the end of the block.
        """
        if self._waiting is not None:
            raise InvalidInput("a batch is open already")
        self._waiting = []
        try:
            yield self
            self._opened.commit(self._waiting)
        finally:
            self._waiting = None

    def update(self, other: Any = (), /, **named: Any) -> None:
        """Sets many keys in one durable commit."""
        pairs = other.items() if isinstance(other, Mapping) else other
        changes = [(_key(key), _bytes_of(value)) for key, value in [*pairs, *named.items()]]
        if self._waiting is not None:
            self._waiting += changes
        else:
            self._opened.commit([*changes])

    def clear(self) -> None:
        """Deletes all keys in one durable commit."""
        with self.batch():
            for key in self:
                self._change(_key(key), None)

    def snapshot(self) -> Dictionary:
        """Returns the current content for reading, without later changes."""
        return Dictionary(self._opened.pinned(), self._path, self._name)

    def compact(self) -> None:
        """Writes the live keys and values into a new file, as some commits do automatically."""
        self._opened.compact()

    def close(self) -> None:
        """Ends writing, so that another handle can write; reading remains possible."""
        self._opened.close()

    def _change(self, key: bytes, value: bytes | None) -> None:
        if self._waiting is not None:
            self._waiting.append((key, value))
        else:
            self._opened.commit([(key, value)])


def _entries(read: _kubist.DictionaryRange) -> Iterator[tuple[Key, Any]]:
    while part := read.next():
        for key, value in part:
            yield _key_of(key), _value_of(value)


def _key(key: object) -> bytes:
    """A key as bytes that sort like the keys."""
    if isinstance(key, bytes):
        return _BYTES + key
    if isinstance(key, str):
        try:
            return _TEXT + key.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"the key {key!r} is no text of Unicode") from None
    if isinstance(key, (int, float)) and not isinstance(key, bool):
        if not math.isfinite(key) or abs(key) > _INTEGERS:
            raise InvalidInput(f"the key {key!r} is not a finite number up to 2^53")
        (bits,) = struct.unpack(">Q", struct.pack(">d", float(key) + 0.0))
        # In numeric order: flip the sign bit, or all bits of negative numbers.
        ordered = bits ^ (2**64 - 1 if bits >> 63 else 2**63)
        return _NUMBER + struct.pack(">Q", ordered)
    raise InvalidInput(f"the key {key!r} is {type(key).__name__}: use bytes, text or a number")


def _key_of(coded: bytes) -> Key:
    kind, rest = coded[:1], coded[1:]
    if kind == _BYTES:
        return rest
    if kind == _TEXT:
        return rest.decode()
    (ordered,) = struct.unpack(">Q", rest)
    bits = ordered ^ (2**63 if ordered >> 63 else 2**64 - 1)
    (number,) = struct.unpack(">d", struct.pack(">Q", bits))
    return int(number) if number.is_integer() else float(number)


def _bytes_of(value: object) -> bytes:
    """A value as bytes: ``b`` and bytes, or ``j`` and JSON."""
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, float):
        return b"j" + json.dumps(value).encode()
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"a value of {type(value).__name__} has no JSON ({error}): use bytes, text, numbers, "
            "booleans, None, lists and dicts"
        ) from None
    if json.loads(text) != value:
        raise InvalidInput(
            f"{value!r} changes in JSON: keys of dicts are text, tuples become lists"
        )
    return b"j" + text.encode()


def _value_of(coded: bytes) -> Any:
    return coded[1:] if coded[:1] == b"b" else json.loads(coded[1:])


Dictionary.__module__ = "kubist"
dict.__module__ = "kubist"
