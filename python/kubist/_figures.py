"""Reports of calls: plain values with a readable representation."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypedDict, TypeVar

from ._kubist import bound_in_words, duration, printable, size
from ._shown import counted, html_table

T = TypeVar("T")


def parse(kind: type[T], text: str) -> T:
    """Parses a report of the engine in JSON; ignores unknown fields."""
    return _of(kind, json.loads(text))


def _of(kind: type[T], values: dict[str, Any]) -> T:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of a commit, whose rows are durable."""

    rows: int
    """Number of rows in the commit."""
    writer: str
    """Name of the writer whose log holds the commit."""
    sequence: int
    """Number of the commit in that log, from 1."""
    bytes_written: int
    seconds: float
    """Duration of the commit."""
    rows_outside: int = 0
    """Rows outside the grid's domain in some dimension. Queries find them too; if there are many,
    the optimizer makes a new grid.
    """
    repeated: bool = False
    """Whether the call did nothing, because an earlier commit had the same token."""

    def __repr__(self) -> str:
        rate = f", {self.rows / self.seconds:,.0f} records/s" if self.seconds > 0 else ""
        beyond = counted(self.rows_outside, "record")
        outside = f", {beyond} outside of the domain" if self.rows_outside else ""
        return (
            f"<kubist.Commit {printable(self.writer)}#{self.sequence}: "
            f"{counted(self.rows, 'record')}, {size(self.bytes_written)} "
            f"in {duration(self.seconds)}{rate}{outside}>"
        )


@dataclass(frozen=True, slots=True)
class Stats:
    """The cost of a query so far."""

    rows_returned: int
    rows_read: int
    """Number of decoded rows; a row that was decoded twice counts twice."""
    bytes_read: int
    bytes_cached: int
    """Bytes from the local cache (docs/where.md) or from decoded pages in memory."""
    pages_read: int
    cubes_visited: int
    runs_looked_up: int
    """Runs whose secondary index was read."""
    round_trips: int
    """Number of requests for bytes of a file. A request fetches all known ranges; threads send
    requests in parallel.
    """
    seconds: float
    """Time from the start of the query to its last batch, or until now."""

    def __repr__(self) -> str:
        looked_up = f", {self.runs_looked_up:,} runs looked up" if self.runs_looked_up else ""
        return (
            f"<kubist.Stats {counted(self.rows_returned, 'record')} returned, "
            f"{self.rows_read:,} read: "
            f"{size(self.bytes_read)} in {self.pages_read:,} pages, "
            f"{self.round_trips:,} round trips, "
            f"{self.cubes_visited:,} cubes{looked_up}, "
            f"{duration(self.seconds)}>"
        )


@dataclass(frozen=True, slots=True)
class Stages:
    """The time by stage of a query; requests overlap, so the sum exceeds the query's time."""

    planned_seconds: float
    """Time before the first request."""
    round_trips: int
    """Length of the longest chain of requests, each sent after the previous response."""
    requests: int
    bytes: int
    bytes_cached: int
    """Bytes from the local cache."""
    queued_seconds: float
    """Sum over all requests: time in the queue before sending."""
    store_seconds: float
    """Sum over all requests: time from sending to the response."""
    decoded_seconds: float
    """Sum over all threads: time to decode rows."""
    hosts: dict[str, int]
    """Number of requests that each host answered; empty for a directory."""


class Traffic(TypedDict):
    """All requests of a handle to a remote store, including its opening."""

    round_trips: int
    """Length of the longest chain of requests, each sent after the previous response."""
    requests: int
    bytes_read: int
    bytes_written: int
    cache_hits: int
    """Blocks and objects from the local cache."""
    cache_misses: int
    """Blocks and objects from the store."""
    cache_bytes: int
    """Bytes of these hits."""


class RequestTimes(TypedDict):
    """The times of a request, in seconds since the start of the query."""

    asked: float
    """When the query queued it."""
    sent: float
    """When it was sent."""
    answered: float
    """When its response had arrived."""
    decoded: float
    """When the rows of its task were decoded."""
    bytes: int
    host: str | None
    """The host that answered; None: this machine."""


class Prediction(TypedDict):
    """Prediction of a query's time by a fitted scalability model."""

    seconds: float
    """Predicted duration of the query."""
    error: float
    """Relative error: 0.1 means that the query took 10 % longer than predicted."""
    requests: float
    most_loaded: float
    """Number of requests to the node with the most."""
    sending_ms: float
    nodes_ms: float
    fetching_ms: float


@dataclass(frozen=True, slots=True)
class Expected:
    """The predicted time of a query if its data is in the memory of this machine."""

    seconds: float
    low: float
    high: float
    """A single run is in this interval with a probability of 95 %."""
    error: float
    """Relative error: 0.1 means that the query took 10 % longer than predicted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cost and times of a query, from `Table.explain`."""

    stats: Stats
    fraction: float
    stages: Stages
    requests: list[RequestTimes]
    """In the order of responses."""
    traffic: Traffic | None
    """The traffic of the table's handle so far; None for a local directory."""
    predicted: Prediction | None
    """The prediction of the model of ``fit``."""
    plan: dict[str, Any]
    """The plan before the run: ``method``, ``shape`` (the region), ``bounds`` of dimensions, the
    expected ``runs`` and rows, and other keys, as in `kubist explain --json`."""
    expected: Expected | None = None
    """The expected time on this machine, with ``predict``."""

    @property
    def examined_per_row(self) -> float:
        """Decoded rows for each row of the result; infinite without rows."""
        if self.stats.rows_returned == 0:
            return math.inf if self.stats.rows_read else 0.0
        return self.stats.rows_read / self.stats.rows_returned

    @classmethod
    def parse(cls, text: str) -> Explanation:
        values = json.loads(text)
        parts = {"stats": _of(Stats, values["stats"]), "stages": _of(Stages, values["stages"])}
        return _of(cls, {**values, **parts})

    def __repr__(self) -> str:
        stages, took = self.stages, duration(self.stats.seconds)
        if self.predicted is not None:
            took += f", {duration(self.predicted['seconds'])} predicted"
        if self.expected is not None:
            took += f", {duration(self.expected.seconds)} predicted on this machine"
        return (
            f"<kubist.Explanation {counted(self.stats.rows_returned, 'record')} in {took}, "
            f"{self.examined_per_row:.3g} examined for each; "
            f"{counted(stages.requests, 'request')} for {size(stages.bytes)}: "
            f"queued {duration(stages.queued_seconds)}, "
            f"in the store {duration(stages.store_seconds)}; "
            f"planned {duration(stages.planned_seconds)}, "
            f"decoded {duration(stages.decoded_seconds)}>"
        )


@dataclass(frozen=True, slots=True)
class Dimension:
    """An indexed column and its domain."""

    column: str
    scale: str
    """``linear`` or ``quantile``."""
    low: float | None
    """Lower bound of the domain; None before the first commit."""
    high: float | None
    data_type: str
    """The Arrow type of the column; bounds of times are in the unit of this type."""

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{printable(self.column)}: {self.scale}, not yet learned"
        low, high = (bound_in_words(bound, self.data_type) for bound in (self.low, self.high))
        return f"{printable(self.column)}: {low} to {high} ({self.scale})"


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its Arrow type."""

    name: str
    data_type: str
    nullable: bool
    unit: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Metadata other than the unit."""
    added: bool = False
    """Whether it was added after the creation of the table; data without it gets ``default``."""
    default: str | None = None
    """The default as text; None: null."""
    accuracy: str | None = None
    """Error bound of stored values: a number in the column's unit, or a relative bound with
    ``rel``; None: values are exact.
    """

    def __str__(self) -> str:
        shown = f"{self.name}: {self.data_type}"
        shown += f" in {self.unit}" if self.unit else ""
        shown += f", accuracy {self.accuracy}" if self.accuracy else ""
        shown += "" if self.nullable else ", required"
        shown += f", added, {self.default or 'null'} before" if self.added else ""
        return printable(shown)


@dataclass(frozen=True, slots=True)
class WriterInfo:
    """The commits of a writer."""

    name: str
    commits: int
    rows: int

    def __str__(self) -> str:
        commits = counted(self.commits, "commit")
        return f"{printable(self.name)}: {counted(self.rows, 'record')} in {commits}"


@dataclass(frozen=True, slots=True)
class DeclaredWriters:
    """The writers that must finish each step: their names, or their number."""

    names: list[str] | None = None
    count: int | None = None
    after: int | None = None
    """The declaration is valid for steps after this one, until the next declaration; None: it is
    valid from the first step on.
    """

    def __str__(self) -> str:
        after = "" if self.after is None else f"after step {self.after} "
        if self.count is not None:
            return f"{after}complete with {counted(self.count, 'writer')}"
        return f"{after}complete with {', '.join(map(printable, self.names or []))}"


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a table on an object store, in US dollars.

    ``KUBIST_S3_PRICES`` can replace Amazon's prices (docs/where.md).
    """

    storage_a_month: float
    thousand_questions: float
    """The requests of 1,000 queries of small boxes on an open table."""
    thousand_commits: float
    """The requests of 1,000 commits of up to 8 MiB."""

    def __str__(self) -> str:
        return (
            f"about ${self.storage_a_month:.2f} a month; ${self.thousand_questions:.4f} for the "
            "requests of a thousand small questions, "
            f"${self.thousand_commits:.4f} of a thousand commits"
        )


@dataclass(frozen=True, slots=True)
class ThinnedSteps:
    """Subsampled steps: only a sample of their rows was stored."""

    steps: int
    """Number of subsampled steps."""
    kept: int
    """Stored rows."""
    rows: int
    """All rows of these steps."""

    def __str__(self) -> str:
        steps = counted(self.steps, "step")
        return f"{steps}: {self.kept:,} of {counted(self.rows, 'record')} were kept"


_SAID = {"primary": "records"}
"""Fields that `kubist info` shows under another name."""

_METADATA_SHOWN = 100
"""Maximum number of displayed characters of a value, which may be a whole topology."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes of a table's files, by purpose."""

    primary: int
    """Data of live runs; each row counts once."""
    replicas: int
    zone_maps: int
    lookups: int
    dead: int
    """Replaced, failed or incomplete data; `Table.clean` can delete about this amount."""
    logs: int
    rewrites: int
    checkpoints: int
    other: int
    total: int
    """Sum of the above."""

    def __str__(self) -> str:
        parts = [each.name for each in fields(self) if each.name != "total"]
        named = [(_SAID.get(name, name.replace("_", " ")), getattr(self, name)) for name in parts]
        shown = ", ".join(f"{name} {size(bytes)}" for name, bytes in named if bytes)
        return f"{size(self.total)}: {shown}"


def _add_types(described: dict[str, Any]) -> None:
    types = {column["name"]: column["data_type"] for column in described["columns"]}
    for dimension in described["dimensions"]:
        dimension["data_type"] = types[dimension["column"]]


@dataclass(frozen=True, slots=True)
class About:
    """The description of a table without its layout."""

    dimensions: list[Dimension]
    identity: list[str]
    lookup: list[str]
    columns: list[Column]
    declared: list[DeclaredWriters]
    period: dict[str, str] = field(default_factory=dict)
    sphere: list[str] | None = None

    @classmethod
    def parse(cls, text: str) -> About:
        values = json.loads(text)
        kinds = {"dimensions": Dimension, "columns": Column, "declared": DeclaredWriters}
        _add_types(values)
        for name, kind in kinds.items():
            values[name] = [_of(kind, each) for each in values[name]]
        return _of(cls, values)


@dataclass(frozen=True, slots=True)
class PartialCopy:
    """The chosen content of a partial copy."""

    source: str
    """The location of the source."""
    held_bytes: int
    """Bytes of the source's segments in the copy."""
    queries: list[dict[str, Any]]
    """The copy answers all queries on the region of one of these, up to its ``sample`` and over its
    ``columns``.
    """
    columns: list[str] | None = None
    """All columns of these queries; None: all columns of the table."""

    def __str__(self) -> str:
        held = "; ".join(_of_query(query) for query in self.queries) or "nothing complete yet"
        return f"copy of {self.source} with {size(self.held_bytes)}: {held}"


def _of_query(query: dict[str, Any]) -> str:
    words = [f"{100 * query.get('sample', 1.0):g} % of the records"]
    for column, (low, high) in query.get("box", {}).items():
        words.append(f"{column}={'' if low is None else low}:{'' if high is None else high}")
    if "region" in query:
        words.append("in a region")
    if "columns" in query:
        words.append("columns " + ", ".join(query["columns"]))
    return ", ".join(words)


@dataclass(frozen=True, slots=True, repr=False)
class Info:
    """The contents and layout of a table; ``print(info)`` shows them."""

    location: str
    format_version: int
    shared: bool
    """Whether several machines may write to the table."""
    rows: int
    runs: int
    """Sorted sets of rows, each from one commit or rewrite."""
    cubes: int
    most_runs: int
    """The largest number of runs of a cube."""
    replica_rows: int
    """Copies of rows in deeper cubes."""
    debt: int
    """Rows that a new build would store in other cubes, and rows in surplus runs."""
    grid: int
    """Number of the newest grid, which places new rows; the first is 0."""
    rows_to_move: int
    """Rows in older grids, which the optimizer has yet to move."""
    rows_outside: int
    """Rows outside the newest grid's domain in some dimension. Queries find them too; if there
    are many, the optimizer makes a new grid.
    """
    height: int
    """Levels of the cube tree."""
    dimensions: list[Dimension]
    identity: list[str]
    lookup: list[str]
    """Columns with a secondary index."""
    capacity: int
    """Approximate number of rows in a cube."""
    seed: int
    replication: str
    compression: str
    strata: str
    """The order of new rows by strata of priority: ``halvings``, or ``windows`` for loaders."""
    sampling: str
    """The sampling of rows: ``uniform``, or by a weight or strata of columns."""
    columns: list[Column]
    period: dict[str, str]
    """The periods of columns, as text; `kubist.Table.period` has numbers."""
    sphere: list[str] | None
    """The columns of longitude and latitude of positions on a sphere."""
    writers: list[WriterInfo]
    declared: list[DeclaredWriters]
    """The declarations of the writers that must finish each step."""
    bytes: int
    bytes_per_row: float
    metadata: dict[str, Any]
    """The metadata of the table."""
    disk: DiskUse
    """The current size of the files."""
    advice: list[str]
    """How to make queries faster, from the recorded queries and the commits, with the commands to
    run; usually empty.
    """
    thinned: ThinnedSteps | None = None
    """The subsampled steps, if there are any."""
    costs: Costs | None = None
    """The cost; None if the table is not on an object store."""
    partial: PartialCopy | None = None
    """What a partial copy holds; None for other tables."""

    @classmethod
    def parse(cls, text: str) -> Info:
        values = json.loads(text)
        kinds = {"dimensions": Dimension, "columns": Column, "writers": WriterInfo}
        _add_types(values)
        for name, kind in (kinds | {"declared": DeclaredWriters}).items():
            values[name] = [_of(kind, each) for each in values[name]]
        values["disk"] = _of(DiskUse, values["disk"])
        costs = values.get("costs")
        values["costs"] = None if costs is None else _of(Costs, costs)
        thinned = values.get("thinned")
        values["thinned"] = None if thinned is None else _of(ThinnedSteps, thinned)
        partial = values.get("partial")
        values["partial"] = None if partial is None else _of(PartialCopy, partial)
        return _of(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain dicts and lists, ready for ``json.dumps``."""
        return asdict(self)

    def __repr__(self) -> str:
        return "\n".join(f"{name:<12}{printable(value)}" for name, value in self._lines())

    def _repr_html_(self) -> str:
        return html_table(["", ""], self._lines(), [])

    def _of_machines(self) -> str:
        return ", of several machines" if self.shared else ""

    def _lines(self) -> list[tuple[str, str]]:
        """The lines of `kubist info`: crates/bindings/kubist-cli/src/info.rs."""
        newer = f", {self.rows_to_move:,} of them into a newer grid" if self.rows_to_move else ""
        identity = ", ".join(self.identity) or "each record by itself"
        lines = [
            ("table", f"{self.location} (format {self.format_version}){self._of_machines()}"),
            ("records", f"{self.rows:,}"),
            ("size", f"{size(self.bytes)} ({self.bytes_per_row:.1f} bytes per record)"),
            ("disk", str(self.disk)),
            *([] if self.partial is None else [("partial", str(self.partial))]),
            *([] if self.costs is None else [("costs", str(self.costs))]),
            ("identity", f"{identity} (seed {self.seed})"),
        ]
        if self.sampling != "uniform":
            lines.append(("samples", self.sampling))
        if self.lookup:
            lines.append(("lookup", ", ".join(self.lookup)))
        if self.sphere:
            lines.append(("sphere", ", ".join(self.sphere)))
        if self.period:
            lines.append(("period", ", ".join(f"{name}={of}" for name, of in self.period.items())))
        lines += [
            (
                "layout",
                f"{counted(self.cubes, 'cube')} (parts of space, about "
                f"{counted(self.capacity, 'record')} each) on {counted(self.height, 'level')}; "
                f"{counted(self.runs, 'run')} (sorted pieces), compression {self.compression}, "
                f"strata {self.strata}",
            ),
            (
                "optimizer",
                f"{counted(self.debt, 'record')} to move{newer}; {self.replica_rows:,} copied "
                f"into deeper cubes (replication {self.replication})",
            ),
        ]
        if self.declared:
            lines.append(("steps", "; ".join(str(each) for each in self.declared)))
        if self.thinned is not None:
            lines.append(("thinned", str(self.thinned)))
        if self.rows_outside:
            share = 100 * self.rows_outside / max(self.rows, 1)
            lines.append(
                (
                    "outside",
                    f"{counted(self.rows_outside, 'record')} ({share:.1f} %) outside of the "
                    "domain: queries find them more slowly; the optimizer makes a new grid when "
                    "that pays off",
                )
            )
        lines += _titled("dimensions", [str(each) for each in self.dimensions])
        lines += _titled("columns", [str(each) for each in self.columns])
        lines += _titled("metadata", [_in_short(*each) for each in self.metadata.items()])
        lines += _titled("writers", [str(each) for each in self.writers])
        lines += _titled("advice", self.advice)
        return lines


def _in_short(key: str, value: Any) -> str:
    text = str(value)
    if len(text) <= _METADATA_SHOWN:
        return f"{key}: {text}"
    return f"{key}: {text[:_METADATA_SHOWN]}... ({size(len(text.encode()))}; .metadata has all)"


def _titled(title: str, values: list[str]) -> list[tuple[str, str]]:
    return [(title if place == 0 else "", value) for place, value in enumerate(values)]


for _kind in (
    Commit,
    DiskUse,
    Stats,
    Stages,
    DeclaredWriters,
    Explanation,
    Dimension,
    Column,
    WriterInfo,
    Costs,
    ThinnedSteps,
    PartialCopy,
    Info,
):
    _kind.__module__ = "kubist"
del _kind
