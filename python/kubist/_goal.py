"""Parameters of estimates other than the aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._asked import Region

if TYPE_CHECKING:
    from ._arguments import Seconds


class Goal(Region, total=False):
    """The rows of an estimate and the conditions to stop, as for `Table.estimate`."""

    error: float | str | None
    within: Seconds | None
    max_rows: int | None
    max_bytes: int | None
    confidence: float
    tails: float | None
