"""The runs of `kubist.open_many`: their names, snapshots and metadata."""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .._create import open
from .._directory import InDirectory, location_of
from .._errors import Error, InvalidInput, NotATable
from .._libraries import need
from .._looks import Looks
from .._pinned import Pinned
from .._places import is_sealed, is_server
from .._remote import connect

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
U = TypeVar("U")

_AT_ONCE = 16
"""Number of threads that open tables, because opening mostly waits for the store."""

_WILD = ("*", "?", "[")


@dataclass(frozen=True, slots=True)
class Run:
    """A table, at the snapshot that was the newest at the opening."""

    name: str
    table: Looks
    pinned: Pinned
    schema: pa.Schema
    about: dict[str, Any]
    metadata: dict[str, object]
    """The metadata as plain values by flat name, as ``solver.dt``. Lists are JSON text."""

    @property
    def sampling(self) -> tuple[object, ...] | None:
        """The identity and seed, which determine the priorities; None without an identity."""
        identity = self.about["identity"]
        return (*identity, self.about["seed"]) if identity else None


def each(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Applies a function to all items in several threads; returns the results in order."""
    if len(items) < 2:
        return [work(item) for item in items]
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(items)))
    try:
        return list(pool.map(work, items))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


Item = str | os.PathLike[str] | Looks
"""A location, an address, or an open table."""


def opened(given: Item | Iterable[Item] | Mapping[str, Item]) -> list[Run]:
    """All runs, in the given order, or by name for a pattern."""
    if isinstance(given, Mapping):
        for name in given:
            if not isinstance(name, str):
                raise InvalidInput(f"open_many: the name of a run must be text, not {name!r}")
        named = {name: _plain(item) for name, item in given.items()}
    else:
        listed = [given] if isinstance(given, (str, os.PathLike, Looks)) else list(given)
        items: list[str | Looks] = []
        for item in listed:
            plain = _plain(item)
            items += _found(plain) if isinstance(plain, str) else [plain]
        names = _names([item if isinstance(item, str) else _location(item) for item in items])
        named = dict(zip(names, items, strict=True))
    if not named:
        raise NotATable("open_many: there is no table to open")
    return each(lambda pair: _run(*pair), list(named.items()))


def _plain(item: Item) -> str | Looks:
    return item if isinstance(item, Looks) else location_of(item)


def _location(table: Looks) -> str:
    location: str = table.location if isinstance(table, InDirectory) else table.name  # type: ignore[attr-defined]
    return location


def _found(location: str) -> list[str]:
    if "://" in location or not any(letter in location for letter in _WILD):
        return [location]
    if os.path.exists(location):
        return [location]
    found = sorted(path for path in glob.glob(location) if os.path.isdir(path) or is_sealed(path))
    if not found:
        raise NotATable(f"{location}: no table has such a name")
    return found


def _run(name: str, item: str | Looks) -> Run:
    pa = need("pyarrow", "open_many()")
    with _named(name):
        if isinstance(item, Looks):
            table = item
        elif is_server(item):
            table = connect(item)
        else:
            table = open(item)
        pinned = table._pinned()
        about = json.loads(pinned.about())
        schema = pa.schema(pinned.schema())
        return Run(name, table, pinned, schema, about, dict(_flat(about["metadata"])))


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Adds the name of the run to an error."""
    try:
        yield
    except Error as error:
        error.add_note(f"in run {name}")
        raise


def _names(locations: Sequence[str]) -> list[str]:
    """Names from the ends of locations, just long enough to be different."""
    parts = [[part for part in location.split("/") if part] for location in locations]
    bare = [part[-1] if part else "" for part in parts]
    ends = [name.removesuffix(".kubist1").removesuffix(".kubist") for name in bare]
    deepest = max(map(len, parts), default=0)
    for length in range(1, deepest + 1):
        before = ["/".join(part[-length:-1]) for part in parts]
        names = [f"{path}/{end}" if path else end for path, end in zip(before, ends, strict=True)]
        if len(set(names)) == len(names):
            return names
    if not locations:
        return []
    twice = next(location for location in locations if locations.count(location) > 1)
    raise InvalidInput(f"open_many: {twice} is listed twice")


def _flat(metadata: dict[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in metadata.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, list):
            yield before + key, json.dumps(value)
        else:
            yield before + key, value
