"""What can be asked of a table, as Python's methods take it.

`make generate` writes this file from crates/core/kubist-types/src/query.rs: changes belong there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ._arguments import Box, PerCell, Steps


class Region(TypedDict, total=False):
    """Which records, beside a box: what all questions take."""

    sample: float | str | None
    window: tuple[float, float] | None
    where: str | None
    steps: Steps | None


class Part(Region, total=False):
    """What can be asked beside a box of a query that is cut into parts."""

    columns: Sequence[str] | None
    inclusion: str | None


class Rest(Part, total=False):
    """What can be asked beside a box."""

    limit: int | None
    order_by: str | Sequence[str] | None
    per_cell: PerCell | None


class Asked(Rest, total=False):
    """All that can be asked: as for `Table.query`."""

    box: Box | None


KINDS = {
    "sample": "number",
    "window": "other",
    "limit": "integer",
    "order_by": "names",
    "per_cell": "other",
    "columns": "names",
    "where": "text",
    "steps": "other",
    "inclusion": "text",
}
"""What each parameter beside the box is in JSON."""
