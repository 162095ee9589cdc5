"""The interface of a system that answers the questions of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question


@dataclass(frozen=True, slots=True)
class Answered:
    """The rows of an answer and the cost, as far as the system tells them.

    Attributes:
        rows: Returned rows; 1 for a count and an estimate.
        read: Rows that were decoded; None: unknown.
        cubes: Cubes of the index that were visited.
        bytes: Read from the store and from caches.
        trips: Requests for bytes.
    """

    rows: int
    read: int | None = None
    cubes: int = 0
    bytes: int = 0
    trips: int = 0


class Target(Protocol):
    """A system that several threads ask at once."""

    name: str

    def ask(self, question: Question) -> Answered: ...

    def append(self, rows: pa.Table) -> None: ...

    def sample(self, rows: int) -> pa.Table: ...

    def close(self) -> None: ...
