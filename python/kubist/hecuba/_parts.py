"""Parts of a dictionary or a filter, for tasks in other processes and on other machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from .._errors import InvalidInput
from .._split import Split
from .._table import Snapshot
from ._config import config
from ._identity import class_of
from ._reading import Reading
from ._rows import Rows
from ._codec import Codec, row
from ._views import Filtered, Items, Keys, Values


class Whole(Protocol):
    _codec: Codec

    def _full_name(self) -> str: ...

    def _persistent(self) -> Rows: ...


class _OfSplit:
    """A part of a dictionary's snapshot, which any process can open by its identity."""

    def __init__(self, whole: Whole, snapshot: Snapshot, split: Split) -> None:
        self._whole = whole
        self._snapshot = snapshot
        self._split = split
        self._codec = whole._codec
        self._loaded: dict[Any, Any] | None = None

    @property
    def storage_id(self) -> str:
        """The identity, for `kubist.hecuba.getByID` in any process that can open the table."""
        kind = type(self._whole)
        return json.dumps(
            {
                "part": type(self).__name__,
                "dictionary": self._whole._full_name(),
                "class": f"{kind.__module__}.{kind.__qualname__}",
                "snapshot": self._snapshot.token,
                "split": self._split.to_json(),
            }
        )

    def getID(self) -> str:
        """Returns the identity for PyCOMPSs."""
        return self.storage_id

    @property
    def preferred_hosts(self) -> list[str]:
        """The hosts that store most of the part's data, the best first."""
        return self._split.preferred_hosts

    def filter(self, function: Callable[[Any], Any]) -> Filtered:
        """Returns the items for which a function is true; Python evaluates it.

        The index evaluates the filter of the parts of ``d.filter(f).split()``.
        """
        return Filtered(self, function)

    def __len__(self) -> int:
        rows = self._whole._persistent()
        return sum(1 for _ in rows.scan_part(self._snapshot, self._split))

    def __reduce__(self) -> tuple[Any, ...]:
        return part_of, (self.storage_id,)

    def __repr__(self) -> str:
        return f"<part of {self._whole._full_name()}: about {self._split.rows} rows>"

    def _read(self, reading: Reading | None = None) -> Iterator[tuple[Any, Any]]:
        codec = self._codec
        stored = self._whole._persistent().scan_part(self._snapshot, self._split)
        return ((codec.key(key), codec.value(values)) for key, values in stored)

    def _pushes(self) -> bool:
        return False

    def _split_into(self, parts: int | None, reading: Reading) -> Iterator[FilteredPart]:
        raise InvalidInput("a part cannot be split again: split the dictionary into more parts")


class Part(_OfSplit, Mapping[Any, Any]):
    """A part of a dictionary, from `StorageDict.split`: the items at the time of the split."""

    def keys(self) -> Keys:
        """Returns the keys, in an unspecified order."""
        return Keys(self)

    def values(self) -> Values:
        """Returns the values, in an unspecified order."""
        return Values(self)

    def items(self) -> Items:
        """Returns pairs of a key and a value, in an unspecified order."""
        return Items(self)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._read())

    def __getitem__(self, key: Any) -> Any:
        # A part has no index, so the first lookup loads all its items.
        if self._loaded is None:
            self._loaded = dict(self._read())
        return self._loaded[key]


class FilteredPart(_OfSplit, Iterable[Any]):
    """A part of the items that a filter selects, from `Filtered.split`."""

    def __iter__(self) -> Iterator[Any]:
        return (row(key, value) for key, value in self._read())


def part_of(identity: str) -> Part | FilteredPart:
    try:
        said = json.loads(identity)
        kind = {each.__name__: each for each in (Part, FilteredPart)}[said["part"]]
        name, owner, token = said["dictionary"], said["class"], said["snapshot"]
        split = Split.from_json(said["split"])
    except (TypeError, ValueError, KeyError):
        raise InvalidInput(f"not an identity: {identity!r:.80}") from None
    whole = class_of(owner)(name)
    return kind(whole, whole._persistent().table.at(token), split)


def splits(rows: Rows, parts: int | None, reading: Reading | None) -> tuple[Snapshot, list[Split]]:
    """Returns the newest snapshot, and the splits of the rows that the index selects."""
    snapshot = rows.snapshot()
    found = snapshot.splits(
        config.splits_per_node if parts is None else parts,
        where=reading.where if reading else None,
        sample=reading.sample if reading else None,
        columns=rows.writes.schema.names,
    )
    return snapshot, found
