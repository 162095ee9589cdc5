"""Views of a dictionary or a part: keys, values, items, and filtered items."""

from __future__ import annotations

import warnings
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Any, Protocol

from .._errors import InvalidInput
from ._reading import Reading, read
from ._codec import Codec, row


class Source(Protocol):
    _codec: Codec

    def _read(self, reading: Reading | None = None) -> Iterator[tuple[Any, Any]]: ...

    def _pushes(self) -> bool:
        """Whether the index evaluates filters."""

    def _split_into(self, parts: int | None, reading: Reading) -> Iterator[Any]: ...


class _View:
    _mapping: Source


class Keys(_View, KeysView[Any]):
    """The view ``keys()``; each iteration reads the keys again."""


class Values(_View, ValuesView[Any]):
    """The view ``values()``; each iteration reads the values again."""

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._read())


class Items(_View, ItemsView[Any, Any]):
    """The view ``items()``; each iteration reads the items again."""

    def __iter__(self) -> Iterator[Any]:
        return (row(key, value) for key, value in self._mapping._read())

    def filter(self, function: Callable[[Any], Any]) -> Filtered:
        """As `StorageDict.filter`."""
        return Filtered(self._mapping, function)


class Filtered(Iterable[Any]):
    """The items for which a function is true, from `StorageDict.filter`.

    Each iteration reads the items again, from the newest commit.
    """

    def __init__(self, owner: Source, function: Callable[[Any], Any]) -> None:
        self._owner = owner
        self.reading = reading_of(function, owner)

    def __iter__(self) -> Iterator[row]:
        rows = self._owner._read(self.reading)
        rest = self.reading.rest
        seen = self._owner._codec.seen
        return (row(key, value) for key, value in rows if rest is None or rest(seen((key, value))))

    def split(self, parts: int | None = None) -> Iterator[Any]:
        """Yields disjoint parts of the items; see `StorageDict.split`.

        Raises
        ------
        InvalidInput
            Python must evaluate a part of the filter: split the dictionary, and filter the parts.
        """
        if self.reading.rest is not None:
            raise InvalidInput(
                f"Python evaluates {self.reading.python}, which a part cannot carry: "
                "split the dictionary, and filter each part"
            )
        return self._owner._split_into(parts, self.reading)

    def explain(self) -> Reading:
        """Returns which parts of the filter the index evaluates, and which Python."""
        return self.reading

    def __repr__(self) -> str:
        return f"<filtered items of {self._owner!r:.40}: {self.reading}>"


def reading_of(function: Callable[[Any], Any], owner: Source) -> Reading:
    if not callable(function):
        raise TypeError(f"a filter is a function of an item, not {function!r}")
    text = getattr(function, "__name__", repr(function))
    if owner._pushes():
        found = read(function, owner._codec.spec)
        if found is not None:
            return found
        _say_once(function, text)
    return Reading(None, None, f"all of {text}", function)


_said: set[Any] = set()


def _say_once(function: Any, text: str) -> None:
    said = getattr(function, "__code__", text)
    if said not in _said:
        _said.add(said)
        warnings.warn(
            f"the filter {text} cannot be read, so Python evaluates it for all items; "
            "write it as a function with one `return`, in a file",
            stacklevel=5,
        )
