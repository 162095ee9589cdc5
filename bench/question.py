"""What is asked of a system, and what it answers.

One question and one answer for all systems, so that what is compared is the
same by construction; each system says which questions it can answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Question:
    """Which records; all columns of them come back, as Arrow data in memory."""

    box: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Closed ranges, their ends exact in float32."""
    share: float | None = None
    """A uniform sample of this share, the same each time, nested in larger ones."""
    limit: int | None = None
    """This many records, chosen uniformly from those that match."""
    any_rows: bool = False
    """The limit's records need not be chosen uniformly: what `LIMIT` alone means."""
    where: tuple[str, str, float] | None = None
    """A column that is not indexed, an operator and a value."""
    particle: int | None = None
    """All records of this particle."""

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
        """As SQL, for the systems that speak it.

        Args:
            literal: How a float32 is written, so that the column need not be cast.
            sample: The condition for a share; by default on the column ``r``.
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
        """A whole query; a limit takes the lowest of ``order``, or any rows."""
        query = f"SELECT {', '.join(columns)} FROM {table}"
        if conditions:
            query += f" WHERE {' AND '.join(conditions)}"
        if self.limit is not None:
            query += "" if self.any_rows else f" ORDER BY {order}"
            query += f" LIMIT {self.limit}"
        return query


@dataclass
class Answer:
    """Rows in memory, and what the system says it examined for them."""

    table: pa.Table
    rows_read: int | None = None
    bytes_read: int | None = None
    pages_read: int | None = None


class Unable(Exception):
    """The system cannot do this; the message says why, in words for the report."""
