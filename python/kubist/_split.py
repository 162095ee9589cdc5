"""Parts of a query, for other processes and machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

from . import _kubist
from ._errors import InvalidInput
from ._result import Result
from ._shown import counted

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Description(TypedDict):
    """The keys of a split's JSON that Python reads; the engine reads the others."""

    location: str
    rows: int
    preferred_hosts: list[str]


class Split:
    """One of the disjoint parts of a query, from `Table.splits`.

    It describes location, snapshot, query and region in a few hundred bytes. Pickle it, or send
    `to_json`, to any process that can open the table. It returns rows of its snapshot, or raises
    `kubist.SnapshotExpired` once its files are deleted.

    >>> for part in t.splits(8, box={"x": (0.1, 0.2)}):
    ...     use(part.to_arrow())
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Parses a split from `to_json`."""
        try:
            said = json.loads(text)
            whole = isinstance(said["location"], str) and isinstance(said["rows"], int)
        except (TypeError, ValueError, KeyError):
            whole = False
        if not whole:
            raise InvalidInput(f"not a split: {text!r:.80}")
        return cls(text)

    def to_json(self) -> str:
        """Returns the split as a string, for any process that can open the table."""
        return self._text

    def _described(self) -> Description:
        described: Description = json.loads(self._text)
        return described

    @property
    def location(self) -> str:
        """The location of the table, without its password."""
        return self._described()["location"]

    @property
    def rows(self) -> int:
        """The approximate number of rows."""
        return self._described()["rows"]

    @property
    def preferred_hosts(self) -> list[str]:
        """The hosts with most of its data, the best first; empty for a directory."""
        return self._described()["preferred_hosts"]

    def query(self) -> Result:
        """Opens the table and queries the rows of this part.

        Raises
        ------
        SnapshotExpired
            `Table.clean` deleted files of its snapshot.
        NotATable
            The table does not exist any more.
        TableReplaced
            Another table is at its location.
        """
        table = _kubist.Table.open(self.location)

        def ask() -> _kubist.Stream:
            return table.read_split(self._text)

        return Result(ask(), ask, lambda: table.snapshot().metadata())

    def to_arrow(self) -> pa.Table:
        """Returns its rows as a `pyarrow.Table`."""
        return self.query().to_arrow()

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Returns its rows as a `pandas.DataFrame`."""
        return self.query().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Returns its rows as a `polars.DataFrame`."""
        return self.query().to_polars()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.query())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Split, (self._text,)

    def __repr__(self) -> str:
        return f"<kubist.Split of {self.location!r}: about {counted(self.rows, 'record')}>"


Split.__module__ = "kubist"
