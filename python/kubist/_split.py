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
    """What the text of a split says to Python; the rest of it is the engine's."""

    location: str
    rows: int
    preferred_hosts: list[str]


class Split:
    """One of the disjoint parts that `Table.splits` cuts a query into.

    It is a description, a few hundred bytes: where the table is, which moment, which
    question, which part of space. Pickle it, or send `to_json`; whoever can open the
    table there can read it, and gets the records of the moment that it was made in,
    or `kubist.SnapshotExpired` once they were cleaned away.

    >>> for part in t.splits(8, box={"x": (0.1, 0.2)}):
    ...     use(part.to_arrow())
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def from_json(cls, text: str) -> Split:
        """The split that `to_json` described."""
        try:
            said = json.loads(text)
            whole = isinstance(said["location"], str) and isinstance(said["rows"], int)
        except (TypeError, ValueError, KeyError):
            whole = False
        if not whole:
            raise InvalidInput(f"not a split: {text!r:.80}")
        return cls(text)

    def to_json(self) -> str:
        """The split as text, for any process that can open the table."""
        return self._text

    def _described(self) -> Description:
        described: Description = json.loads(self._text)
        return described

    @property
    def location(self) -> str:
        """Where the table is. A password of its location is left out."""
        return self._described()["location"]

    @property
    def rows(self) -> int:
        """About how many records it holds."""
        return self._described()["rows"]

    @property
    def preferred_hosts(self) -> list[str]:
        """Hosts that keep most of its data, the best first; none for a directory."""
        return self._described()["preferred_hosts"]

    def query(self) -> Result:
        """Opens the table and asks for the records of this part.

        Raises:
            SnapshotExpired: The files of its moment were cleaned away.
            NotATable: The table is gone.
            TableReplaced: Another is in its place.
        """
        table = _kubist.Table.open(self.location)

        def ask() -> _kubist.Stream:
            return table.read_split(self._text)

        return Result(ask(), ask, lambda: table.snapshot().metadata())

    def to_arrow(self) -> pa.Table:
        """All its records as a `pyarrow.Table`."""
        return self.query().to_arrow()

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All its records as a `pandas.DataFrame`."""
        return self.query().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """All its records as a `polars.DataFrame`."""
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
