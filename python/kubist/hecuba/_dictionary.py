"""`StorageDict`: a dictionary in a table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from .._errors import InvalidInput
from . import _spec
from ._config import full_name
from ._identity import IStorage, commit_registry
from ._opening import getByID
from ._parts import FilteredPart, Part, splits
from ._reading import Reading
from ._rows import Rows, commit_all, opened
from ._codec import Codec
from ._spec import Spec
from ._views import Filtered, Items, Keys, Values, reading_of
from ._writes import Key

SHOWN = 1000
"""The number of items that ``repr`` shows."""


class StorageDict(IStorage, MutableMapping[Any, Any]):
    """A dictionary whose items are rows of a Kubist table.

    The docstring of a subclass describes the keys and values. Without a name, the dictionary is in
    memory. A name, here or in `make_persistent`, stores it in a table.

    Parameters
    ----------
    name
        The dictionary to open or create: ``group.name`` or ``name``; the default group is
        ``config.execution_name``. None: in memory.
    primary_keys, columns
        The keys and values as pairs of a name and a type, if there is no docstring.
    indexed_on
        The columns that are indexed together, if there is no ``@Index_on``.

    Examples
    --------
    >>> class Droplets(StorageDict):
    ...     '''
    ...     @TypeSpec dict<<pid:int, time:double>, x:double, y:double, z:double>
    ...     @Index_on x, y, z
    ...     '''
    >>> d = Droplets("airway.droplets")
    >>> d[17, 0.5] = [0.01, 0.02, 0.03]
    >>> d[17, 0.5].x
    0.01
    """

    def __init__(
        self,
        name: str | None = None,
        primary_keys: Sequence[tuple[str, str]] | None = None,
        columns: Sequence[tuple[str, str]] | None = None,
        indexed_on: Sequence[str] | None = None,
        storage_id: uuid.UUID | None = None,
        **_: Any,
    ) -> None:
        described = _spec.of_dictionary(type(self))
        if described is None and primary_keys is not None and columns is not None:
            described = Spec.of(primary_keys, columns, indexed_on)
        self._described = described
        self._memory: dict[Any, Any] = {}
        self._rows: Rows | None = None
        if name is None and storage_id is not None:
            name = self._name_of(storage_id)
        if name is not None:
            self._open(name)
        elif described is None:
            raise InvalidInput(
                f"{type(self).__name__} needs a line @TypeSpec, or primary_keys and columns"
            )
        else:
            self._codec = Codec(described, getByID)

    def make_persistent(self, name: str) -> None:
        """Moves the dictionary from memory into the table with this name, and commits.

        If the table exists, it keeps its items; equal keys get the new values.

        Raises
        ------
        AlreadyPersistentError
            The dictionary has a table already.
        SchemaMismatch
            The existing table has other keys or values.
        """
        self._check_volatile(name)
        memory = self._memory
        self._open(name)
        self._memory = {}
        for key, value in memory.items():
            self[key] = value
        self.sync()

    def stop_persistent(self) -> None:
        """Commits, then becomes an empty dictionary in memory. The table stays."""
        self._persistent().writes.commit()
        self._rows = None
        self._forget()

    def delete_persistent(self) -> None:
        """Deletes the table, and becomes an empty dictionary in memory."""
        self._persistent().drop()
        self._rows = None
        self._unregister()

    def sync(self) -> None:
        """Commits the waiting writes of all dictionaries and objects of the process.

        The commit contains all writes of a dictionary or none.
        """
        self._persistent()
        commit_all()

    def keys(self) -> Keys:
        """Returns the keys, in an unspecified order."""
        return Keys(self)

    def values(self) -> Values:
        """Returns the values, in an unspecified order."""
        return Values(self)

    def items(self) -> Items:
        """Returns pairs of a key and a value, in an unspecified order."""
        return Items(self)

    def update(self, other: Any = (), /, **values: Any) -> None:
        """Sets items from a mapping or pairs, and from named arguments."""
        pairs = other.items() if isinstance(other, Mapping) else other
        for key, value in pairs:
            self[key] = value
        for name, value in values.items():
            self[name] = value

    def clear(self) -> None:
        """Removes all items; the table stays."""
        for key in list(self):
            self._remove(self._codec.stored_key(key))

    def filter(self, function: Callable[[Any], Any]) -> Filtered:
        """Returns the items for which a function is true.

        Parameters
        ----------
        function
            A lambda, or a function with one ``return``. Its argument has the keys and values as
            attributes: ``lambda x: x.pid < 100 and 0.1 <= x.time < 0.2``. The index evaluates as
            many conditions as possible, and Python the rest. ``random() < 0.01`` is a uniform
            sample.

        Raises
        ------
        AttributeError
            The function uses a name that is neither a key nor a value.
        TypeError
            The function compares a key or value with a value of another type.
        """
        return Filtered(self, function)

    def explain(self, function: Callable[[Any], Any]) -> Reading:
        """Returns which parts of a filter the index evaluates, and which Python; print it."""
        return reading_of(function, self)

    def split(self, parts: int | None = None) -> Iterator[Part]:
        """Yields disjoint parts that together have all current items.

        Parameters
        ----------
        parts
            The approximate number of parts; None: ``config.splits_per_node``.
        """
        snapshot, found = splits(self._persistent(), parts, None)
        return (Part(self, snapshot, split) for split in found)

    def __getitem__(self, key: Any) -> Any:
        stored = self._codec.stored_key(key)
        if self._rows is None:
            return self._memory[self._codec.key(stored)]
        values = self._rows.get(stored)
        if values is None:
            raise KeyError(key)
        return self._codec.value(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        stored = self._codec.stored_key(key)
        parts = self._codec.parts(value)
        if self._rows is None:
            self._check_parts(parts)
            self._memory[self._codec.key(stored)] = self._codec.whole(parts)
        else:
            names = [self._persisted(part) for part in parts]
            self._rows.put(stored, self._codec.stored_value(names))

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._remove(self._codec.stored_key(key))

    def __contains__(self, key: object) -> bool:
        stored = self._codec.stored_key(key)
        if self._rows is None:
            return self._codec.key(stored) in self._memory
        return self._rows.get(stored) is not None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._read())

    def __len__(self) -> int:
        if self._rows is None:
            return len(self._memory)
        return self._rows.count(self._rows.snapshot())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, StorageDict) and self._rows is not None:
            if self.storage_id == other.storage_id:
                return True
        return MutableMapping.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown: dict[Any, Any] = {}
        for key, value in self._read():
            if len(shown) == SHOWN:
                return f"{str(shown)[:-1]}, ...}}"
            shown[key] = value
        return str(shown)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rows is None:
            return _in_memory, (type(self), self._described, self._memory)
        self.sync()
        return getByID, (self.getID(),)

    def _open(self, name: str) -> None:
        full = full_name(name)
        self._rows = opened(full, self._described, before=commit_registry)
        self._codec = Codec(self._rows.spec, getByID)
        self._register(full)

    def _remove(self, stored: Key) -> None:
        if self._rows is None:
            del self._memory[self._codec.key(stored)]
        else:
            self._rows.put(stored, None)

    def _persistent(self) -> Rows:
        if self._rows is None:
            raise RuntimeError("the dictionary is in memory: call make_persistent(name) first")
        return self._rows

    def _pushes(self) -> bool:
        return self._rows is not None

    def _check_parts(self, parts: list[Any]) -> None:
        objects = [isinstance(part, IStorage) for part in parts]
        for field, part, is_object in zip(self._codec.spec.columns, parts, objects, strict=True):
            field.encode("" if is_object else part, key=False)

    def _persisted(self, part: Any) -> Any:
        """The id of an object, which gets a table if it has none."""
        if not isinstance(part, IStorage):
            return part
        if part.storage_id is None:
            group = self._full_name().partition(".")[0]
            part.make_persistent(f"{group}.o{uuid.uuid4().hex}")
        return str(part.storage_id)

    def _read(self, reading: Reading | None = None) -> Iterator[tuple[Any, Any]]:
        if self._rows is None:
            return iter(list(self._memory.items()))
        where, sample = (reading.where, reading.sample) if reading else (None, None)
        codec = self._codec
        stored = self._rows.scan(self._rows.snapshot(), where, sample)
        return ((codec.key(key), codec.value(values)) for key, values in stored)

    def _split_into(self, parts: int | None, reading: Reading) -> Iterator[FilteredPart]:
        snapshot, found = splits(self._persistent(), parts, reading)
        return (FilteredPart(self, snapshot, split) for split in found)


def _in_memory(kind: type[StorageDict], spec: Spec, items: dict[Any, Any]) -> StorageDict:
    made = kind.__new__(kind)
    StorageDict.__init__(
        made,
        primary_keys=[(field.name, field.type) for field in spec.keys],
        columns=[(field.name, field.type) for field in spec.columns],
        indexed_on=spec.indexed_on,
    )
    made._memory = dict(items)
    return made
