"""What can be asked of a table, in the words of JSON.

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
    """A question for the number of records."""

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
    """The snapshot to ask: the token that the table's `version` or a snapshot's `token` gave;
    without it, the newest. It can be asked until the files of that snapshot are cleaned away.
    """

    where: str
    """An SQL condition over any columns."""

    window: tuple[float, float]
    """Only records with `low <= priority < high`, where `0 <= low < high <= 1`."""


class EstimateRequest(CountRequest, total=False):
    """A question for aggregates of a sample, with intervals."""

    absolute: float | str
    """Stop when half of each interval is at most this: a number in the unit of the value, or
    text with a unit of its kind, as 0.1 mm.
    """

    aggregates: Required[Sequence[str]]
    """As mean(ux), p95(diameter), histogram(x, 20): docs/estimates.md."""

    confidence: float
    """How often intervals hold the truth; 0.95 by default. (above 0, below 1)"""

    error: float
    """Stop when half of each interval is at most this share of its value. (above 0)"""

    format: Literal["json", "arrow"]
    """JSON by default; or an Arrow IPC stream, a row a figure."""

    group_by: Sequence[str]
    """Columns and expressions by whose values records are grouped."""

    max_bytes: int
    """Read about this many bytes at most. (at least 1)"""

    max_rows: int
    """Read about this many records at most. (at least 1)"""

    progressive: bool
    """All estimates as they narrow, each as soon as it is there: one JSON text a line, or one
    Arrow stream after the other.
    """

    tails: float
    """This share of the records at either end of the values is read whatever its priority.
    (above 0, at most 0.1)
    """

    within: float
    """Seconds to answer in. (at least 0)"""


class HistogramRequest(CountRequest, total=False):
    """A question for how columns are distributed."""

    bins: int
    """64 by default. (at least 1, at most 4096)"""

    columns: Sequence[str]
    """All that can be drawn by default. (at most 256)"""

    limit: int
    """How many records are counted, those of lowest priority; 20000 by default. (at least 1, at
    most 1000000)
    """


class PointsCell(TypedDict, total=False):
    """A cell of space and a window of the priorities: the records with low <= position < high
    and window[0] <= priority < window[1].
    """

    high: Required[Sequence[float | None]]
    """position < high; null is open."""

    low: Required[Sequence[float | None]]
    """low <= position; null is open."""

    origin: Required[Sequence[float]]
    """Taken off each position before it becomes a float32."""

    window: Required[tuple[float, float]]
    """Ends of the priorities: [low, high)."""


class PointsColumn(TypedDict, total=False):
    """A column that comes with each point, as float32."""

    name: Required[str]
    """The column's name."""

    origin: float
    """Taken off each value before it becomes a float32."""

    values: Sequence[str]
    """A value is sent as its index in this list, compared as text, and all others as -1. (at
    most 256)
    """


class PointsRequest(CountRequest, total=False):
    """A question for points, for a graphics card."""

    cells: Required[Sequence[PointsCell]]
    """The cells, in the order in which they are answered. (at most 512)"""

    columns: Sequence[PointsColumn]
    """What comes with each point beside its position. (at most 64)"""

    position: Required[Sequence[str]]
    """The columns that position a point. (at most 3)"""


class QueryRequest(QuerySpec, total=False):
    """A question for records.

    `columns`: The columns to return, in this order; without it all. (at most 4096)

    `limit`: At most this many records. With `order_by` they are the first in that order, the
    largest or the earliest. Without it they are those of lowest priority, a uniform sample.
    It comes last: `sample`, `window` and `per_cell` choose before it. (at most 5000000)

    `per_cell`: Only the records of lowest priority in each cell of a regular grid, at most a
    million in all. It applies before `order_by` and `limit`.
    """

    format: Literal["arrow", "csv", "parquet"]
    """An Arrow IPC stream by default."""

    version: str
    """The snapshot to ask: the token that the table's `version` or a snapshot's `token` gave;
    without it, the newest. It can be asked until the files of that snapshot are cleaned away.
    """


class TrajectoriesRequest(CountRequest, total=False):
    """A question for all records of what has a record in a region.

    `sample`: Of the records that come back, only those whose priority is below it.
    """

    by: Required[str]
    """The column that tells trajectories apart; at most a million of them."""

    columns: Sequence[str]
    """The columns to return, in this order; without it all. (at most 4096)"""

    format: Literal["arrow", "csv", "parquet"]
    """An Arrow IPC stream by default."""

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
