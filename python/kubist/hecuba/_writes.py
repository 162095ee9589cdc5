"""The writes of a dictionary that wait for the next commit."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .._table import Table
from ._config import config
from ._spec import KEY, REMOVED, VERSION, WRITER, Spec

Key = tuple[Any, ...]
Values = list[Any]


class Writes:
    """The newest values by key since the last commit; None removes the key."""

    def __init__(self, table: Table, spec: Spec, before: Callable[[], None]) -> None:
        self.lock = threading.RLock()
        self.waiting: dict[Key, Values | None] = {}
        self.schema = schema_of(spec)
        self._table = table
        self._before = before
        self._spec = spec
        self._version = 0
        self._writer = random.SystemRandom().getrandbits(62)

    def put(self, key: Key, values: Values | None) -> None:
        """Sets the values of a key; many keys are committed together."""
        with self.lock:
            self.waiting[key] = values
            if len(self.waiting) >= config.write_buffer_size:
                self.commit()

    def commit(self) -> None:
        """Commits all waiting keys. If this fails, none is committed, and all keep waiting."""
        with self.lock:
            if not self.waiting:
                return
            self._before()
            newest = self._table.query(columns=[VERSION], order_by=f"{VERSION} desc", limit=1)
            seen = newest.to_arrow().column(VERSION).to_pylist()
            version = max([self._version, *seen]) + 1
            self._table.append(self._rows(version))
            self._version = version
            self.waiting = {}

    def discard(self) -> None:
        with self.lock:
            self.waiting = {}

    def forget(self) -> None:
        """After a fork: drops the writes of the parent, whose threads may have held the lock."""
        self.lock = threading.RLock()
        self.waiting = {}

    def _rows(self, version: int) -> pa.Table:
        keys, values = list(self.waiting), list(self.waiting.values())
        empty = [None] * len(self._spec.column_leaves)
        columns: list[Any] = [list(column) for column in zip(*keys, strict=True)]
        if self._spec.key_column == KEY:
            columns.append([named(self._spec, key) for key in keys])
        stored = [empty if each is None else each for each in values]
        columns += [list(column) for column in zip(*stored, strict=True)]
        columns += [
            [version] * len(keys),
            [self._writer] * len(keys),
            [each is None for each in values],
        ]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def schema_of(spec: Spec) -> pa.Schema:
    fields = [pa.field(leaf.name, leaf.arrow, nullable=False) for leaf in spec.key_leaves]
    if spec.key_column == KEY:
        fields.append(pa.field(KEY, pa.binary(), nullable=False))
    fields += [pa.field(leaf.name, leaf.arrow) for leaf in spec.column_leaves]
    fields += [pa.field(name, pa.int64(), nullable=False) for name in (VERSION, WRITER)]
    return pa.schema([*fields, pa.field(REMOVED, pa.bool_(), nullable=False)])


def named(spec: Spec, key: Key) -> Any:
    """The value of the key column: the key itself, or a 128-bit hash of several values."""
    if spec.key_column != KEY:
        return key[0]
    hashed = hashlib.blake2b(digest_size=16)
    for value in key:
        text = repr(value).encode()
        hashed.update(len(text).to_bytes(4, "little") + text)
    return hashed.digest()
