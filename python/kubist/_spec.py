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
    """The records of lowest priority in every cell of a regular grid."""

    rows: Required[int]
    """At most this many records of a cell; 1 or more."""

    widths: Required[Mapping[str, float | str]]
    """Dimension to the width of a cell, above 0: a number in the column's unit, or text with a
    unit, as `1 mm`. Cells begin at the lower end of the dimension's domain, never at the box.
    """


class QuerySpec(TypedDict, total=False):
    """Which records of a snapshot are asked for; by default all of them."""

    box: Mapping[str, Range | End | Sequence[Range]]
    """Closed ranges, joined by AND, on any columns: column to `[low, high]`, `null` is an open
    end; a single value is both ends. A column that is bounded more than once has a list of
    such pairs.
    """

    columns: Sequence[str]
    """The columns to return, in this order; without it all."""

    inclusion: str
    """The name of one more column: the probability with which each record came into the answer,
    whatever the others drew. It is null where a limit kept only some of several records of
    one priority: these have no part in an estimate.
    """

    limit: int
    """At most this many records. With `order_by` they are the first in that order, the largest
    or the earliest. Without it they are those of lowest priority, a uniform sample. It comes
    last: `sample`, `window` and `per_cell` choose before it.
    """

    order_by: Sequence[str]
    """The order of the answer: columns, each with `asc` (the default) or `desc` behind it, or
    `priority`. NaN comes behind all numbers and null behind NaN, whichever the direction.
    Equal records follow each other by priority. Without it records come in no order, but
    under `limit` and `per_cell` by priority, and trajectories one after the other, each in
    order of time.
    """

    per_cell: PerCell
    """Only the records of lowest priority in each cell of a regular grid. It applies before
    `order_by` and `limit`.
    """

    sample: float
    """In (0, 1]: only records whose priority is below it, a uniform sample of that fraction."""

    spec: Literal[1]
    """The form in which this is written; 1 by default."""

    steps: tuple[int | None, int | None]
    """Only records of complete steps in this closed range; `null` is an open end."""

    where: str
    """An SQL condition over any columns."""

    window: tuple[float, float]
    """Only records with `low <= priority < high`, where `0 <= low < high <= 1`."""


class CountRequest(TypedDict, total=False):
    """Body of a count."""

    box: Mapping[str, Range | End | Sequence[Range]]
    """Closed ranges, joined by AND, on any columns: column to `[low, high]`, `null` is an open
    end; a single value is both ends. A column that is bounded more than once has a list of
    such pairs.
    """

    sample: float
    """In (0, 1]: only records whose priority is below it, a uniform sample of that fraction."""

    spec: Literal[1]
    """The form in which this is written; 1 by default."""

    steps: tuple[int | None, int | None]
    """Only records of complete steps in this closed range; `null` is an open end."""

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

    `columns`: The columns to return, in this order; without it all. (at most 4096)

    `limit`: At most this many records. With `order_by` they are the first in that order, the
    largest or the earliest. Without it they are those of lowest priority, a uniform sample.
    It comes last: `sample`, `window` and `per_cell` choose before it. (at most 5000000)

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
    """The columns to return, in this order; without it all. (at most 4096)"""

    format: Literal["arrow", "csv", "parquet"]
    """The format; by default an Arrow IPC stream."""

    limit: int
    """At most this many records. With `order_by` they are the first in that order, the largest
    or the earliest. Without it they are those of lowest priority, a uniform sample. It comes
    last: `sample`, `window` and `per_cell` choose before it. (at most 5000000)
    """

    order_by: Sequence[str]
    """The order of the answer: columns, each with `asc` (the default) or `desc` behind it, or
    `priority`. NaN comes behind all numbers and null behind NaN, whichever the direction.
    Equal records follow each other by priority. Without it records come in no order, but
    under `limit` and `per_cell` by priority, and trajectories one after the other, each in
    order of time.
    """
