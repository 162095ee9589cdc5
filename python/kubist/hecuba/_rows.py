"""The table of a dictionary: the rows, the current rows by key, and the waiting writes.

A table only grows, so a key that was set again has several rows. ``_version`` counts commits: a
commit takes a number above all numbers in its snapshot, and the row with the highest version is
current. If concurrent commits take the same number, the higher ``_writer``, a random number per
writer, is current. If a key was removed, its current row has ``_removed``.

The identity of a row is its key, so a sample contains all rows of a key or none.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .. import _create
from .._errors import NotATable, TableExists, TableReplaced
from .._pushdown import quoted
from .._split import Split
from .._table import Snapshot, Table
from .._unopened import drop
from ._conditions import literal
from ._config import location_of
from ._spec import REMOVED, VERSION, WRITER, Spec
from ._writes import Key, Values, Writes, named, schema_of

SMALL_TABLE = 200_000
"""For tables up to this size, the keys of all rows are read to find the current rows."""

SMALL_RESULT = 20_000
"""The same for results above this size; for smaller results, only their keys are looked up."""

AT_ONCE = 500
"""Maximum number of keys in a lookup."""


class SchemaMismatch(RuntimeError):
    """A dictionary with this name exists, with other keys, values or indexed columns."""


@dataclass(frozen=True)
class Current:
    """The keys that have several rows in a snapshot, with their newest version."""

    token: str
    newest: dict[Any, tuple[int, int]]
    rows: int


class Rows:
    """The rows of a dictionary. All handles with its name in a process share them."""

    def __init__(
        self, name: str, location: str, table: Table, spec: Spec, before: Callable[[], None]
    ) -> None:
        self.name = name
        self.location = location
        self.table = table
        self.spec = spec
        self.writes = Writes(table, spec, before)
        self.dropped = False
        self._current: Current | None = None
        # Runs after the last handle is gone, and at the end of the process.
        weakref.finalize(self, self.writes.commit)

    def put(self, key: Key, values: Values | None) -> None:
        """Sets the values of a key in the next commit; None removes the key."""
        self._check()
        self.writes.put(key, values)

    def get(self, key: Key) -> Values | None:
        self._check()
        with self.writes.lock:
            if key in self.writes.waiting:
                return self.writes.waiting[key]
        wanted = [leaf.name for leaf in self.spec.column_leaves]
        found = self.table.query(
            where=f"{quoted(self.spec.key_column)} = {literal(named(self.spec, key))}",
            columns=[VERSION, WRITER, REMOVED, *wanted],
        )
        best: Any = None
        for batch in found:
            columns = [column.to_pylist() for column in batch.columns]
            for row in zip(*columns, strict=True):
                if best is None or row[:2] > best[:2]:
                    best = row
        return None if best is None or best[2] else list(best[3:])

    def snapshot(self) -> Snapshot:
        """Commits, and returns the newest snapshot."""
        self._check()
        self.writes.commit()
        return self.table.snapshot()

    def count(self, snapshot: Snapshot) -> int:
        return self._of(snapshot).rows

    def scan(
        self, snapshot: Snapshot, where: str | None = None, sample: float | None = None
    ) -> Iterator[tuple[Key, Values]]:
        """Yields the keys whose current row meets the condition, with its values."""
        asked = snapshot.query(where=where, sample=sample, columns=self.writes.schema.names)
        return self._decoded(self._kept(snapshot, iter(asked), whole=where is None))

    def scan_part(self, snapshot: Snapshot, part: Split) -> Iterator[tuple[Key, Values]]:
        """Yields the keys whose current row is in a part of a split query."""
        return self._decoded(self._kept(snapshot, iter(part), whole=False))

    def exists(self) -> bool:
        """Whether the opened table is still at its location."""
        try:
            self.table.snapshot()
        except (NotATable, TableReplaced):
            return False
        return True

    def drop(self) -> None:
        """Deletes the table and the waiting writes."""
        self._check()
        self.writes.discard()
        self.dropped = True
        self.table.close()
        _open.pop(self.location, None)
        drop(self.location)

    def _check(self) -> None:
        if self.dropped:
            raise NotATable(f"dictionary {self.name} was deleted")

    def _decoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Key, Values]]:
        keys = [leaf.name for leaf in self.spec.key_leaves]
        values = [leaf.name for leaf in self.spec.column_leaves]
        for batch in batches:
            of_keys = zip(*(batch.column(name).to_pylist() for name in keys), strict=True)
            of_values = zip(*(batch.column(name).to_pylist() for name in values), strict=True)
            for key, row in zip(of_keys, of_values, strict=True):
                yield key, list(row)

    def _kept(
        self, snapshot: Snapshot, batches: Iterator[pa.RecordBatch], whole: bool
    ) -> Iterator[pa.RecordBatch]:
        first: list[pa.RecordBatch] = []
        if whole or len(snapshot) <= SMALL_TABLE:
            newest = self._of(snapshot).newest
        else:
            rows = 0
            for batch in batches:
                first.append(batch)
                rows += batch.num_rows
                if rows > SMALL_RESULT:
                    newest = self._of(snapshot).newest
                    break
            else:
                keys = {each for batch in first for each in self._names(batch)}
                newest = self._looked_up(snapshot, list(keys))
        for source in (first, batches):
            for batch in source:
                yield _current_rows(batch, self.spec.key_column, newest)

    def _names(self, batch: pa.RecordBatch) -> list[Any]:
        names: list[Any] = batch.column(self.spec.key_column).to_pylist()
        return names

    def _looked_up(self, snapshot: Snapshot, keys: Sequence[Any]) -> dict[Any, tuple[int, int]]:
        newest: dict[Any, tuple[int, int]] = {}
        name = self.spec.key_column
        for at in range(0, len(keys), AT_ONCE):
            listed = ", ".join(literal(key) for key in keys[at : at + AT_ONCE])
            where = f"{quoted(name)} IN ({listed})"
            found = snapshot.query(where=where, columns=[name, VERSION, WRITER])
            _raise_to(newest, found.to_arrow(), name)
        return newest

    def _of(self, snapshot: Snapshot) -> Current:
        """The current rows of a snapshot, from the keys of all rows; cached for this snapshot."""
        token = snapshot.token
        known = self._current
        if known is not None and known.token == token:
            return known
        name = self.spec.key_column
        asked = snapshot.query(columns=[name, VERSION, WRITER, REMOVED])
        table = asked.to_arrow()
        counted = table.group_by(name).aggregate([([], "count_all")])
        several = counted.filter(pc.greater(counted["count_all"], 1))[name]
        repeated = pc.is_in(table[name], value_set=several.combine_chunks())
        newest: dict[Any, tuple[int, int]] = {}
        _raise_to(newest, table.filter(repeated), name)
        kept = sum(_current_rows(batch, name, newest).num_rows for batch in table.to_batches())
        self._current = Current(token, newest, kept)
        return self._current


def _raise_to(newest: dict[Any, tuple[int, int]], table: pa.Table, name: str) -> None:
    """Stores the highest version by key of a table in ``newest``."""
    columns = [table[each].to_pylist() for each in (name, VERSION, WRITER)]
    for key, version, writer in zip(*columns, strict=True):
        known = newest.get(key)
        if known is None or (version, writer) > known:
            newest[key] = (version, writer)


def _current_rows(
    batch: pa.RecordBatch, name: str, newest: dict[Any, tuple[int, int]]
) -> pa.RecordBatch:
    """The rows that are neither replaced nor the removal of a key."""
    kept = pc.invert(batch.column(REMOVED))
    if newest:
        columns = [batch.column(each).to_pylist() for each in (name, VERSION, WRITER)]
        current = [
            newest.get(key, (version, writer)) == (version, writer)
            for key, version, writer in zip(*columns, strict=True)
        ]
        kept = pc.and_(kept, pa.array(current, pa.bool_()))
    return batch.filter(kept)


_open: weakref.WeakValueDictionary[str, Rows] = weakref.WeakValueDictionary()
_opening = threading.RLock()


def opened(name: str, spec: Spec | None, before: Callable[[], None] = lambda: None) -> Rows:
    """Opens the table with a full name, or creates it; without a specification it must exist.

    ``before`` runs before each commit.

    Raises
    ------
    SchemaMismatch
        The table has another specification.
    NotATable
        The table does not exist, and there is no specification to create it.
    """
    location = location_of(name)
    with _opening:
        rows = _open.get(location)
        if rows is not None and not rows.exists():
            # Another process dropped the table, and perhaps created it again.
            rows.writes.discard()
            rows.dropped = True
            rows = None
        if rows is None:
            rows = Rows(name, location, *_table(name, location, spec), before)
            _open[location] = rows
    if spec is not None and not rows.spec.agrees(spec):
        raise SchemaMismatch(f"dictionary {name} has {rows.spec.to_json()}, not {spec.to_json()}")
    return rows


def commit_all() -> None:
    for rows in list(_open.values()):
        rows.writes.commit()


def _table(name: str, location: str, spec: Spec | None) -> tuple[Table, Spec]:
    try:
        table = _create.open(location)
    except NotATable:
        if spec is None:
            raise
        table = _create.create(
            location,
            schema_of(spec),
            dimensions=spec.dimensions,
            identity=[leaf.name for leaf in spec.key_leaves],
            lookup=_looked_up(spec),
            metadata={"hecuba": {"name": name, "spec": spec.to_json()}},
            exist_ok=True,
        )
    said = table.metadata.get("hecuba")
    if not isinstance(said, dict) or said.get("name") != name:
        raise TableExists(f"{location} is not the table of the dictionary {name}")
    return table, Spec.from_json(said["spec"])


def _looked_up(spec: Spec) -> list[str]:
    """The columns with a secondary index; dimensions are indexed anyway."""
    others = [leaf.name for leaf in spec.key_leaves if leaf.name not in spec.dimensions]
    return list(dict.fromkeys([spec.key_column, *others]))


def _after_fork() -> None:
    """After a fork: the child opens its own tables, and only the parent commits waiting writes."""
    for rows in list(_open.values()):
        rows.writes.forget()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
