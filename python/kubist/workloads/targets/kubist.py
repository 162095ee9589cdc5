"""A table, opened here or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..._remote import RemoteTable
from .answers import Answered

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question


class Kubist:
    def __init__(self, name: str, table: Any) -> None:
        self.name = name
        self._table = table

    def ask(self, question: Question) -> Answered:
        table, asked = self._table, question.asked
        if question.verb == "count":
            table.count(**asked)
            return Answered(1)
        if question.verb == "estimate":
            stats = table.estimate(**asked).stats
            read = stats.bytes_read + stats.bytes_cached
            return Answered(1, stats.rows_read, stats.cubes_visited, read, stats.round_trips)
        result = table.query(**asked)
        rows = result.to_arrow().num_rows
        if isinstance(table, RemoteTable):
            # A server does not report the cost of its results.
            return Answered(rows)
        stats = result.stats
        bytes_ = stats.bytes_read + stats.bytes_cached
        return Answered(rows, stats.rows_read, stats.cubes_visited, bytes_, stats.round_trips)

    def append(self, rows: pa.Table) -> None:
        if not hasattr(self._table, "append"):
            raise InvalidInput(
                f"{self.name}: a server takes no rows: give the location of the table"
            )
        self._table.append(rows)

    def sample(self, rows: int) -> pa.Table:
        return self._table.query(limit=rows).to_arrow()

    def close(self) -> None:
        self._table.close()
