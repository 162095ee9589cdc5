"""The queries and their results.

All systems get the same query, return the same kind of result, and report which queries they
support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Question:
    """A query; the result has all columns as Arrow data in memory."""

    box: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Closed ranges with bounds that are exact in float32."""
    share: float | None = None
    """The fraction of a uniform sample, which is repeatable and nested in larger ones."""
    limit: int | None = None
    """A maximum number of rows, sampled uniformly from the matching ones."""
    any_rows: bool = False
    """The limited rows need not be a uniform sample, as with a plain `LIMIT`."""
    where: tuple[str, str, float] | None = None
    """A column without an index, an operator and a value."""
    particle: int | None = None
    """All rows of this particle."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Question:
        box = {name: tuple(ends) for name, ends in values["box"].items()}
        where = None if values["where"] is None else tuple(values["where"])
        return Question(**{**values, "box": box, "where": where})

    def conditions(
        self,
        *,
        literal: Callable[[float], str] = repr,
        sample: Callable[[float], str] | None = None,
    ) -> list[str]:
        """The condition as SQL.

        Parameters
        ----------
        literal
            Formats a float32 so that the column needs no cast.
        sample
            The condition of a sample; by default on the column ``r``.
        """
        said = []
        for name, (low, high) in self.box.items():
            said.append(f"{name} BETWEEN {literal(low)} AND {literal(high)}")
        if self.share is not None:
            said.append(sample(self.share) if sample else f"r < {literal(self.share)}")
        if self.where is not None:
            column, operator, value = self.where
            said.append(f"{column} {operator} {literal(value)}")
        if self.particle is not None:
            said.append(f"pid = {self.particle}")
        return said

    def sql(self, columns: list[str], table: str, conditions: list[str], order: str = "r") -> str:
        """A whole SQL query; a limit takes the lowest of ``order``, or any rows."""
        query = f"SELECT {', '.join(columns)} FROM {table}"
        if conditions:
            query += f" WHERE {' AND '.join(conditions)}"
        if self.limit is not None:
            query += "" if self.any_rows else f" ORDER BY {order}"
            query += f" LIMIT {self.limit}"
        return query


@dataclass
class Answer:
    """Rows in memory, and the number of rows that the system examined."""

    table: pa.Table
    rows_read: int | None = None
    bytes_read: int | None = None
    pages_read: int | None = None


class Unable(Exception):
    """The system does not support the query; the message is for the report."""
