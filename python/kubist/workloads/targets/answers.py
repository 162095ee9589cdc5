"""The interface of a system that runs the requests of a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from ..draws import Question


@dataclass(frozen=True, slots=True)
class Answered:
    """The rows and the cost of a response, as far as the system reports them.

    Attributes:
        rows: Returned rows; 1 for a count and an estimate.
        read: Decoded rows; None: unknown.
        bytes: Bytes read from the store and from caches, in ``trips`` requests.
    """

    rows: int
    read: int | None = None
    cubes: int = 0
    bytes: int = 0
    trips: int = 0


class Target(Protocol):
    """A system that several threads query concurrently."""

    name: str

    def ask(self, question: Question) -> Answered: ...

    def append(self, rows: pa.Table) -> None: ...

    def sample(self, rows: int) -> pa.Table: ...

    def close(self) -> None: ...
