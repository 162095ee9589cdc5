"""Queries of a table and requests of the HTTP interface, as JSON.

`make generate` writes this file from crates/core/kubist-types/src/query.rs and
crates/bindings/kubist-server/src/openapi.json: changes belong there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Never, Required, TypedDict


class OtherEnd(TypedDict, total=False):
    """An end of a range that JSON has no word for: an object with one of these keys."""

    binary: Sequence[int]
    """Bytes."""

    float: str
    """inf or -inf."""

    int: str
    """An integer of more than 64 bits, in decimal digits."""

    null: Mapping[str, Never]
    """An end that is null itself: no value is inside such a range."""


End = float | str | bool | None | OtherEnd
"""An end of a range: a number, text (ISO 8601 against dates and times, digits against
decimals, a number with a unit against a column that has one) or a boolean, compared in
the column's own type. null is open.
"""

Range = tuple[End, End]
"""A closed range [low, high]. NaN and null are in no range that has an end."""


class PerCell(TypedDict, total=False):
    """The records of lowest priority in each cell of a regular grid."""

    rows: Required[int]
    """The maximum number of records of a cell, 1 or more."""

    widths: Required[Mapping[str, float | str]]
    """The width of a cell by dimension, above 0: a number in the column's unit, or text with a
    unit, such as `1 mm`. Cells start at the lower bound of the dimension's domain and do not
    depend on the box.
    """


class Region(TypedDict, total=False):
    """A region of space or of the sky, as docs/regions.md describes it: an object with one key,
    the kind. Lengths are numbers in the unit of their column, or text with a unit, such as `1
    mm`. Angles are in degrees.
    """

    band: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """The latitudes from `low` to `high` relative to a `pole`; `columns`."""

    box: Mapping[str, tuple[float | str | bool | None, float | str | bool | None]]
    """Closed ranges by column, all of which hold."""

    complement: Region
    """The positions outside."""

    cone: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """The positions on the sky within `radius` of `center`; `columns` are ra and dec by default."""

    cylinder: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """Around the axis `from` one point `to` another, with a `radius`."""

    difference: Sequence[Region]
    """The positions in the first region and in no other."""

    ellipsoid: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """`center` and `radii` by column."""

    frustum: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """A cylinder whose radius changes: `radius_from`, `radius_to`."""

    half_space: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """The side of the plane through `point` that `normal` points to."""

    intersection: Sequence[Region]
    """The positions in all of the regions."""

    moc: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """HEALPix `cells` in nested order: text such as 5/8-10,42, or lists by order; `columns`."""

    periodic: Mapping[str, Region | Mapping[str, float]]
    """A `region` of boxes, spheres and ellipsoids, in space that repeats after the `period` of a
    column.
    """

    polygon: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """Two `columns`, and `coordinates`: the border, then holes, as in GeoJSON."""

    sky_polygon: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """`coordinates` of corners on the sky, which great circles join; `columns`."""

    slab: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """`low` <= `normal` . point <= `high`; one of both may be missing."""

    sphere: Mapping[str, float | str | None | Sequence[float | str | Sequence[Sequence[float]]] | Mapping[str, float | str | Sequence[int]]]
    """The points within `radius` of `center`, in any number of columns."""

    union: Sequence[Region]
    """The positions in one of the regions."""

    where: str
    """An SQL condition."""


class QuerySpec(TypedDict, total=False):
    """The records of a snapshot to return; by default all."""

    box: Mapping[str, Range | End | Sequence[Range]]
    """Closed ranges on any columns, joined by AND. Each column has a pair `[low, high]`, where
    `null` is an open bound, a single value, or a list of pairs.
    """

    columns: Sequence[str]
    """The columns and expressions to return, in this order; without it all columns. `AS` names
    an expression, as in `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text.
    `*` stands for all columns.
    """

    inclusion: str
    """The name of an additional column with the probability that each record is selected,
    independently of all others. It is null if a limit kept only some of the records that
    share a priority; estimates leave these out.
    """

    limit: int
    """The maximum number of records, applied after `sample`, `window` and `per_cell`. With
    `order_by` it keeps the first records in that order. Without it, it keeps the records of
    lowest priority, which are a uniform sample.
    """

    order_by: Sequence[str]
    """The order of the result: columns, each optionally followed by `asc` (the default) or
    `desc`, or `priority`. NaN comes after all numbers and null after NaN, in both directions.
    Priority orders equal records. Without an order, results of `limit` and `per_cell` are
    ordered by priority, trajectories by time, and other records not at all.
    """

    per_cell: PerCell
    """Only the records of lowest priority in each cell of a regular grid. It applies before
    `order_by` and `limit`.
    """

    region: Region
    """A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are
    not returned.
    """

    sample: float
    """A fraction in (0, 1]: only records with a priority below it, which are a uniform sample."""

    spec: Literal[1]
    """The version of this form; 1 by default."""

    steps: tuple[int | None, int | None]
    """A closed range of steps, where `null` is an open bound. Only records of complete steps are
    returned.
    """

    where: str
    """An SQL condition over any columns."""

    window: tuple[float, float]
    """Only records with `low <= priority < high`, where `0 <= low < high <= 1`."""


class CountRequest(TypedDict, total=False):
    """Body of a count."""

    box: Mapping[str, Range | End | Sequence[Range]]
    """Closed ranges on any columns, joined by AND. Each column has a pair `[low, high]`, where
    `null` is an open bound, a single value, or a list of pairs.
    """

    region: Region
    """A region of space or of the sky, as docs/regions.md describes it. Rows outside of it are
    not returned.
    """

    sample: float
    """A fraction in (0, 1]: only records with a priority below it, which are a uniform sample."""

    spec: Literal[1]
    """The version of this form; 1 by default."""

    steps: tuple[int | None, int | None]
    """A closed range of steps, where `null` is an open bound. Only records of complete steps are
    returned.
    """

    version: str
    """The snapshot to query: the `version` of a table or the `token` of a snapshot; by default
    the newest. It stays readable until `clean` deletes its files.
    """

    where: str
    """An SQL condition over any columns."""

    window: tuple[float, float]
    """Only records with `low <= priority < high`, where `0 <= low < high <= 1`."""


class EstimateRequest(CountRequest, total=False):
    """Body of an estimate."""

    absolute: float | str
    """Stop when half of each interval is at most this: a number in the unit of the value, or
    text with a compatible unit, like 0.1 mm.
    """

    aggregates: Required[Sequence[str]]
    """For example mean(ux), p95(diameter), histogram(x, 20), see docs/estimates.md."""

    confidence: float
    """The fraction of intervals that contain the value of all rows; 0.95 by default. (above 0,
    below 1)
    """

    error: float
    """Stop when half of each interval is at most this fraction of its value. (above 0)"""

    format: Literal["json", "arrow"]
    """JSON by default, or an Arrow IPC stream with one row for each estimate."""

    group_by: Sequence[str]
    """Columns and expressions to group by."""

    max_bytes: int
    """Read at most about this many bytes. (at least 1)"""

    max_rows: int
    """Read at most about this many rows. (at least 1)"""

    progressive: bool
    """Return each estimate as it improves: one line of JSON, or one Arrow stream, for each."""

    tails: float
    """The fraction of the rows at each end of the values that is read completely, for heavy
    tails. (above 0, at most 0.1)
    """

    within: float
    """Time limit in seconds. (at least 0)"""


class HistogramRequest(CountRequest, total=False):
    """Body of a request for histograms."""

    bins: int
    """Number of bins; 64 by default. (at least 1, at most 4096)"""

    columns: Sequence[str]
    """The columns; by default all that can be drawn. (at most 256)"""

    limit: int
    """Number of rows to count, those of lowest priority; 20000 by default. (at least 1, at most
    1000000)
    """


class PointsCell(TypedDict, total=False):
    """A cell of space and a window of priorities: the rows with low <= position < high and
    window[0] <= priority < window[1].
    """

    high: Required[Sequence[float | None]]
    """position < high; null is unbounded."""

    low: Required[Sequence[float | None]]
    """low <= position; null is unbounded."""

    origin: Required[Sequence[float]]
    """Subtracted from each position before the conversion to float32."""

    window: Required[tuple[float, float]]
    """The range of priorities: [low, high)."""


class PointsColumn(TypedDict, total=False):
    """A column returned with each point, as float32."""

    name: Required[str]
    """The name of the column."""

    origin: float
    """Subtracted from each value before the conversion to float32."""

    values: Sequence[str]
    """Send each value as its index in this list, compared as text, and all other values as -1.
    (at most 256)
    """


class PointsRequest(CountRequest, total=False):
    """Body of a request for points."""

    cells: Required[Sequence[PointsCell]]
    """The cells, in the order of the response. (at most 512)"""

    columns: Sequence[PointsColumn]
    """The columns returned with each point, in addition to its position. (at most 64)"""

    position: Required[Sequence[str]]
    """The columns of the position, one for each axis. (at most 3)"""


class QueryRequest(QuerySpec, total=False):
    """Body of a query for rows.

    `columns`: The columns and expressions to return, in this order; without it all columns.
    `AS` names an expression, as in `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its
    own text. `*` stands for all columns. (at most 4096)

    `limit`: The maximum number of records, applied after `sample`, `window` and `per_cell`.
    With `order_by` it keeps the first records in that order. Without it, it keeps the records
    of lowest priority, which are a uniform sample. (at most 5000000)

    `per_cell`: Only the rows of lowest priority in each cell of a regular grid, at most a
    million in total. It applies before `order_by` and `limit`.
    """

    format: Literal["arrow", "csv", "parquet"]
    """The format; by default an Arrow IPC stream."""

    version: str
    """The snapshot to query: the `version` of a table or the `token` of a snapshot; by default
    the newest. It stays readable until `clean` deletes its files.
    """


class TrajectoriesRequest(CountRequest, total=False):
    """Body of a request for trajectories.

    `sample`: Return only rows whose priority is below this fraction. It does not change which
    trajectories are returned.
    """

    by: Required[str]
    """The column that identifies a trajectory. A query returns at most a million trajectories."""

    columns: Sequence[str]
    """The columns and expressions to return, in this order; without it all columns. `AS` names
    an expression, as in `sqrt(vx*vx + vy*vy) AS speed`; without a name it has its own text.
    `*` stands for all columns. (at most 4096)
    """

    format: Literal["arrow", "csv", "parquet"]
    """The format; by default an Arrow IPC stream."""

    limit: int
    """The maximum number of records, applied after `sample`, `window` and `per_cell`. With
    `order_by` it keeps the first records in that order. Without it, it keeps the records of
    lowest priority, which are a uniform sample. (at most 5000000)
    """

    order_by: Sequence[str]
    """The order of the result: columns, each optionally followed by `asc` (the default) or
    `desc`, or `priority`. NaN comes after all numbers and null after NaN, in both directions.
    Priority orders equal records. Without an order, results of `limit` and `per_cell` are
    ordered by priority, trajectories by time, and other records not at all.
    """
