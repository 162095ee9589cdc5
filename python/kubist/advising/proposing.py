"""A workload from the columns alone: what scientists ask first of such data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..workloads.spec import Query, Range, Value, Workload

if TYPE_CHECKING:
    import pyarrow as pa

# Names as codes and archives spell them, in lower case.
POSITIONS = (
    ("x", "y", "z"),
    ("position_x", "position_y", "position_z"),
    ("coordinates_0", "coordinates_1", "coordinates_2"),
    ("ra", "dec"),
    ("lon", "lat"),
    ("longitude", "latitude"),
    ("pickup_longitude", "pickup_latitude"),
    ("x", "y"),
)
TIMES = ("time", "t", "gps_time", "date", "datetime", "timestamp", "epoch", "pickup_datetime")
IDENTITIES = (
    "pid", "id", "ids", "particle_id", "particleids", "source_id", "object_id", "atom", "name",
)  # fmt: skip


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

    times = [name for known in TIMES if (name := _named(schema, known)) and is_ordered(name)]
    time = times[0] if times else ""
    positions = [name for name in dimensions if name != time and is_ordered(name)]
    if not positions:
        for group in POSITIONS:
            here = [_named(schema, name) for name in group]
            if all(here):
                positions = [name for name in here if is_ordered(name)]
                break
    objects = [name for name in (*identity, *(_named(schema, n) for n in IDENTITIES)) if name]
    object_ = next((name for name in objects if name not in (time, *positions)), "")
    if not positions and not time:
        ordered = [name for name in schema.names if is_ordered(name) and name != object_]
        positions = ordered[:2]
    queries = []
    if positions:
        # 1 % of the space, cubic in shares of the domain.
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


def _named(schema: pa.Schema, name: str) -> str:
    """The column of this name in any case; empty if there is none."""
    return next((column for column in schema.names if column.lower() == name), "")
