"""Proposes a workload of common scientific queries, from the columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..workloads import names
from ..workloads.spec import Query, Range, Value, Workload

if TYPE_CHECKING:
    import pyarrow as pa


def propose(rows: pa.Table, dimensions: Sequence[str], identity: Sequence[str]) -> Workload:
    """Boxes, slices of time, samples, one object, and a condition on a value."""
    import pyarrow as pa

    schema = rows.schema

    def is_ordered(name: str) -> bool:
        kind = schema.field(name).type
        types = pa.types
        return bool(
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_timestamp(kind)
            or types.is_date(kind)
        )

    ordered = [name for name in schema.names if is_ordered(name)]
    time = names.first(ordered, names.TIMES)
    positions = [name for name in dimensions if name != time and name in ordered]
    positions = positions or names.positions(ordered)
    objects = [
        *identity,
        *(name for n in names.IDENTITIES if (name := names.named(schema.names, n))),
    ]
    object_ = next((name for name in objects if name not in (time, *positions)), "")
    if not positions and not time:
        positions = [name for name in ordered if name != object_][:2]
    queries = []
    if positions:
        # 1 % of the space, with equal fractions of all domains.
        side = 100 * 0.01 ** (1 / len(positions))
        box = {name: Range(share=side / 100) for name in positions}
        queries.append(Query("region", 4.0, box=box))
        closer = {name: Range(share=side / 100 / 4) for name in positions}
        queries.append(Query("close-up", 2.0, box=closer))
    if time:
        moment = {time: Range(share=0.01)}
        queries.append(Query("slice of time", 2.0, box=moment))
        if positions:
            both = {name: Range(share=0.2) for name in positions} | {time: Range(share=0.05)}
            queries.append(Query("region in time", 2.0, box=both))
    queries.append(Query("overview", 2.0, asked={"sample": 0.01}))
    if object_:
        values = {object_: Value(column=object_)}
        where = f'"{object_}" = {{{object_}}}'
        queries.append(Query("one object", 2.0, where=where, values=values))
    return Workload(tuple(queries), name="proposed")
