"""The parameters of a query, as Python's methods take them.

`make generate` writes this file from crates/core/kubist-types/src/query.rs: changes belong there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from ._arguments import AnyRegion, Box, PerCell, Relation, Steps


class Region(TypedDict, total=False):
    """Parameters that select rows in all queries, without the box."""

    sample: float | str | None
    window: tuple[float, float] | None
    where: str | None
    region: AnyRegion | None
    steps: Steps | None
    relation: Relation | None


class Part(Region, total=False):
    """Parameters of a query that is split into parts, without the box."""

    columns: Sequence[str] | None
    inclusion: str | None


class Rest(Part, total=False):
    """All parameters of a query, without the box."""

    limit: int | None
    order_by: str | Sequence[str] | None
    per_cell: PerCell | None


class Asked(Rest, total=False):
    """All parameters of a query, as for `Table.query`."""

    box: Box | None


KINDS = {
    "sample": "number",
    "window": "other",
    "limit": "integer",
    "order_by": "names",
    "per_cell": "other",
    "columns": "names",
    "where": "text",
    "region": "other",
    "steps": "other",
    "inclusion": "text",
}
"""The JSON type of each parameter except the box."""
