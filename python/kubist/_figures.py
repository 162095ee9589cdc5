"""The figures that calls report: plain values with a readable face."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypedDict, TypeVar

from ._kubist import duration, number, printable, size
from ._shown import counted, html_notes, html_table

T = TypeVar("T")


def parse(kind: type[T], text: str) -> T:
    """A figure from the engine's JSON; fields that this version does not know are left out."""
    return _of(kind, json.loads(text))


def _of(kind: type[T], values: dict[str, Any]) -> T:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit did. Once you hold it, its records survive a crash."""

    rows: int
    """Records that became visible."""
    writer: str
    """Name of the writer whose log holds the commit."""
    sequence: int
    """Position in that log, counted up by one."""
    bytes_written: int
    seconds: float
    """Time that the commit took."""
    rows_outside: int = 0
    """Records outside of the domain of the grid in some dimension. They are kept and found all
    the same; the optimizer makes a grid that fits when there are many."""
    repeated: bool = False
    """Its token was known: it had been committed before, and was not again."""

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
    """What a query cost so far."""

    rows_returned: int
    rows_read: int
    """Every record of every zone that was decoded; one that was read twice counts twice."""
    bytes_read: int
    bytes_cached: int
    """Of these, those that the local cache had (docs/where.md), or of pages that are kept decoded."""
    pages_read: int
    cubes_visited: int
    runs_looked_up: int
    """Runs of which a lookup told where the values asked for are, if anywhere."""
    round_trips: int
    """How often the store was asked for bytes, each time for all that was known to be
    needed of one file; several threads ask side by side."""
    seconds: float
    """From the start of the query to its last batch, or until now."""

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
    """Where a query's time went. Requests overlap: all of them together take longer than it."""

    planned_seconds: float
    """Until the first records were asked for."""
    round_trips: int
    """The longest chain of requests of which each was sent after the one before was answered."""
    requests: int
    bytes: int
    bytes_cached: int
    """Bytes that the local cache had; no request brought them."""
    queued_seconds: float
    """Of all requests: waiting for room among those on their way."""
    store_seconds: float
    """Of all requests: from when they were sent to when they were answered."""
    decoded_seconds: float
    """Of all threads: making records of what was read."""
    hosts: dict[str, int]
    """Requests that each host answered; none for a directory."""


class Traffic(TypedDict):
    """What a handle has asked of a service since it was opened, the opening included."""

    round_trips: int
    """The longest chain of requests of which each was sent after the one before was answered."""
    requests: int
    bytes_read: int
    bytes_written: int
    cache_hits: int
    """Blocks and objects that the local cache had."""
    cache_misses: int
    """Those that it had not, and that were read from the service."""
    cache_bytes: int
    """Bytes of the hits."""


class RequestTimes(TypedDict):
    """When what happened to one request, in seconds since the query began."""

    asked: float
    """The query wanted it."""
    sent: float
    """There was room for it."""
    answered: float
    """Its bytes were there."""
    decoded: float
    """The records of the task that it was for were there."""
    bytes: int
    host: str | None
    """Who answered; None: this machine."""


class Prediction(TypedDict):
    """What a fit of the scalability model says of a query's requests."""

    seconds: float
    """How long the query should have taken."""
    error: float
    """How much longer it took, as a share: 0.1 is 10 %."""
    requests: float
    most_loaded: float
    """Requests of the node that has most."""
    sending_ms: float
    nodes_ms: float
    fetching_ms: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """A query that was run, its answer thrown away: what it cost and where its time went."""

    stats: Stats
    fraction: float
    stages: Stages
    requests: list[RequestTimes]
    """In the order in which they were answered."""
    traffic: Traffic | None
    """Of the table's handle so far; None where no service is asked."""
    predicted: Prediction | None
    """By a fit of the scalability model, where one was given."""

    @classmethod
    def parse(cls, text: str) -> Explanation:
        """Reads what the engine says."""
        values = json.loads(text)
        parts = {"stats": _of(Stats, values["stats"]), "stages": _of(Stages, values["stages"])}
        return _of(cls, {**values, **parts})

    def __repr__(self) -> str:
        stages, took = self.stages, duration(self.stats.seconds)
        if self.predicted is not None:
            took += f", {duration(self.predicted['seconds'])} predicted"
        return (
            f"<kubist.Explanation {counted(self.stats.rows_returned, 'record')} in {took}; "
            f"{counted(stages.requests, 'request')} for {size(stages.bytes)}: "
            f"queued {duration(stages.queued_seconds)}, "
            f"in the store {duration(stages.store_seconds)}; "
            f"planned {duration(stages.planned_seconds)}, "
            f"decoded {duration(stages.decoded_seconds)}>"
        )


@dataclass(frozen=True, slots=True)
class Dimension:
    """An indexed column and its grid."""

    column: str
    scale: str
    """``linear`` or ``quantile``."""
    low: float | None
    """Lower end of the domain; None until the first commit has fixed it."""
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{printable(self.column)}: {self.scale}, not yet learned"
        return f"{printable(self.column)}: {number(self.low)} to {number(self.high)} ({self.scale})"


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its Arrow type."""

    name: str
    data_type: str
    nullable: bool
    unit: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Its other metadata."""
    added: bool = False
    """It came after the creation: data may lack it, and has ``default`` then."""
    default: str | None = None
    """In words; None is null."""
    accuracy: str | None = None
    """How far stored values may be from the given ones, in its unit: a number, or one with ``rel``
    behind it; None: they are the same."""

    def __str__(self) -> str:
        shown = f"{self.name}: {self.data_type}"
        shown += f" in {self.unit}" if self.unit else ""
        shown += f", accuracy {self.accuracy}" if self.accuracy else ""
        shown += "" if self.nullable else ", required"
        shown += f", added, {self.default or 'null'} before" if self.added else ""
        return printable(shown)


@dataclass(frozen=True, slots=True)
class WriterInfo:
    """What one writer has committed."""

    name: str
    commits: int
    rows: int

    def __str__(self) -> str:
        commits = counted(self.commits, "commit")
        return f"{printable(self.name)}: {counted(self.rows, 'record')} in {commits}"


@dataclass(frozen=True, slots=True)
class DeclaredWriters:
    """The writers that steps wait for: their names, or how many different ones."""

    names: list[str] | None = None
    count: int | None = None
    after: int | None = None
    """They count for the steps after this one, up to the next that is declared; None: from the
    first step on."""

    def __str__(self) -> str:
        after = "" if self.after is None else f"after step {self.after} "
        if self.count is not None:
            return f"{after}complete with {counted(self.count, 'writer')}"
        return f"{after}complete with {', '.join(map(printable, self.names or []))}"


@dataclass(frozen=True, slots=True)
class Costs:
    """What a table on an object store costs, in dollars: by Amazon's prices, or those of
    ``KUBIST_S3_PRICES`` (docs/where.md)."""

    storage_a_month: float
    thousand_questions: float
    """Of their requests, each question a small box on an open table."""
    thousand_commits: float
    """Of their requests, each commit of up to 8 MiB."""

    def __str__(self) -> str:
        return (
            f"about ${self.storage_a_month:.2f} a month; ${self.thousand_questions:.4f} for the "
            "requests of a thousand small questions, "
            f"${self.thousand_commits:.4f} of a thousand commits"
        )


@dataclass(frozen=True, slots=True)
class ThinnedSteps:
    """Steps of which only a sample was written."""

    steps: int
    """How many."""
    kept: int
    """Their records that are there."""
    rows: int
    """All records that they had."""

    def __str__(self) -> str:
        steps = counted(self.steps, "step")
        return f"{steps}: {self.kept:,} of {counted(self.rows, 'record')} were kept"


_SAID = {"primary": "records"}
"""Files as `kubist info` calls them."""

_METADATA_SHOWN = 100
"""Characters of a value; some are whole topologies."""


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What a table's files take, in bytes, by what they are there for."""

    primary: int
    """Data of live runs, each record once."""
    replicas: int
    zone_maps: int
    lookups: int
    dead: int
    """Replaced, failed or under way: what `Table.clean` can delete, and a little more."""
    logs: int
    rewrites: int
    checkpoints: int
    other: int
    total: int
    """All of the above, and of the table's files."""

    def __str__(self) -> str:
        parts = [each.name for each in fields(self) if each.name != "total"]
        named = [(_SAID.get(name, name.replace("_", " ")), getattr(self, name)) for name in parts]
        shown = ", ".join(f"{name} {size(bytes)}" for name, bytes in named if bytes)
        return f"{size(self.total)}: {shown}"


@dataclass(frozen=True, slots=True)
class About:
    """What is known of a table without a look at how it is laid out."""

    dimensions: list[Dimension]
    identity: list[str]
    lookup: list[str]
    columns: list[Column]

    @classmethod
    def parse(cls, text: str) -> About:
        values = json.loads(text)
        for name, kind in {"dimensions": Dimension, "columns": Column}.items():
            values[name] = [_of(kind, each) for each in values[name]]
        return _of(cls, values)


@dataclass(frozen=True, slots=True, repr=False)
class Info:
    """What a table holds and how it is laid out. ``print(info)`` shows all of it."""

    location: str
    format_version: int
    shared: bool
    """Whether several machines may write to it."""
    rows: int
    runs: int
    """Sorted sets of records, each from one commit or one rewrite."""
    cubes: int
    most_runs: int
    """Of the cube that has most."""
    replica_rows: int
    """Copies of records in deeper cubes."""
    debt: int
    """Records that a fresh build would put elsewhere, or that lie in surplus runs."""
    grid: int
    """The number of the newest grid, by which records are placed; the first has 0."""
    rows_to_move: int
    """Records that lie by older grids, and wait for the optimizer."""
    rows_outside: int
    """About how many records lie outside of the domain of the newest grid in some dimension. They
    are found all the same; the optimizer makes a grid that fits when there are many."""
    height: int
    """Levels of the cube tree."""
    dimensions: list[Dimension]
    identity: list[str]
    lookup: list[str]
    """Columns by whose values records are found without a scan."""
    capacity: int
    """How many records a cube wants to keep."""
    seed: int
    replication: str
    compression: str
    columns: list[Column]
    writers: list[WriterInfo]
    declared: list[DeclaredWriters]
    """The writers that steps wait for, by the steps; none if nobody declared any."""
    bytes: int
    bytes_per_row: float
    metadata: dict[str, Any]
    """The table's metadata."""
    disk: DiskUse
    """What its files take, by now."""
    thinned: ThinnedSteps | None = None
    """What is there of steps of which only a sample was written, if there are such."""
    costs: Costs | None = None
    """What the table costs; None but on an object store."""

    @classmethod
    def parse(cls, text: str) -> Info:
        values = json.loads(text)
        kinds = {"dimensions": Dimension, "columns": Column, "writers": WriterInfo}
        for name, kind in (kinds | {"declared": DeclaredWriters}).items():
            values[name] = [_of(kind, each) for each in values[name]]
        values["disk"] = _of(DiskUse, values["disk"])
        costs = values.get("costs")
        values["costs"] = None if costs is None else _of(Costs, costs)
        thinned = values.get("thinned")
        values["thinned"] = None if thinned is None else _of(ThinnedSteps, thinned)
        return _of(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """All figures as plain dicts and lists, ready for ``json.dumps``."""
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
            *([] if self.costs is None else [("costs", str(self.costs))]),
            ("identity", f"{identity} (seed {self.seed})"),
        ]
        if self.lookup:
            lines.append(("lookup", ", ".join(self.lookup)))
        lines += [
            (
                "layout",
                f"{counted(self.cubes, 'cube')} (parts of space, about "
                f"{counted(self.capacity, 'record')} each) on {counted(self.height, 'level')}; "
                f"{counted(self.runs, 'run')} (sorted pieces), compression {self.compression}",
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
                    f"about {counted(self.rows_outside, 'record')} ({share:.1f} %) outside of the "
                    "domain: found all the same, more slowly; the optimizer makes a grid that fits "
                    "when it is worth it",
                )
            )
        lines += _titled("dimensions", [str(each) for each in self.dimensions])
        lines += _titled("columns", [str(each) for each in self.columns])
        lines += _titled("metadata", [_in_short(*each) for each in self.metadata.items()])
        lines += _titled("writers", [str(each) for each in self.writers])
        return lines


def _in_short(key: str, value: Any) -> str:
    text = str(value)
    if len(text) <= _METADATA_SHOWN:
        return f"{key}: {text}"
    return f"{key}: {text[:_METADATA_SHOWN]}... ({size(len(text.encode()))}; .metadata has all)"


def _titled(title: str, values: list[str]) -> list[tuple[str, str]]:
    """The title stands before the first value only."""
    return [(title if place == 0 else "", value) for place, value in enumerate(values)]


class Extent(TypedDict):
    """Where records lie along a dimension, in its unit."""

    column: str
    low: float
    high: float


class Loss(TypedDict):
    """What damage at one location costs."""

    what: str
    """The file, the offset in it and the cube."""
    cube: str
    """In hexadecimal."""
    level: int
    """Of the cube; the root's is 0."""
    rows: int
    extents: list[Extent]
    """A box around the records."""
    replicas: int
    """Cubes in which a replica holds copies of some of the records."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What ``verify()`` read and what it found wrong."""

    rows: int
    runs: int
    pages: int
    """Read with ``deep=True`` only."""
    bytes: int
    findings: list[str]
    """One line for each thing that is wrong; empty for a sound table."""
    deep: bool = False
    replicas: int = 0
    rows_lost: int = 0
    """Records that cannot be read."""
    rows_recoverable: int = 0
    """Of those, records that replicas still hold: `kubist.salvage` takes them from there."""
    losses: list[Loss] = field(default_factory=list)
    """One for each damaged location."""
    rows_unread: int = 0
    """Records that could not be read because the storage failed: they may be sound."""
    unread: list[str] = field(default_factory=list)
    """One line for each thing that could not be read, which is no damage: try again."""

    @property
    def ok(self) -> bool:
        """Everything could be read, and nothing is wrong."""
        return not self.findings and not self.unread

    def _verdict(self) -> str:
        wrong = [counted(len(self.findings), "finding")] if self.findings else []
        wrong += [f"{len(self.unread)} could not be read"] if self.unread else []
        read = f"{counted(self.rows, 'record')}, {self.pages:,} pages, {size(self.bytes)}"
        return f"{', '.join(wrong) or 'sound'}: {read}"

    def __repr__(self) -> str:
        lines = [*self.findings, *(f"could not be read: {line}" for line in self.unread)]
        head = f"<kubist.VerifyReport {self._verdict()}>"
        return "\n".join([head, *(f"  {printable(line)}" for line in lines)])

    def _repr_html_(self) -> str:
        found: list[list[str | None]] = [["wrong", line] for line in self.findings]
        found += [["could not be read", line] for line in self.unread]
        lost = counted(self.rows_lost, "record")
        cost = [f"{lost} lost, of which replicas hold {self.rows_recoverable:,}"]
        notes = [self._verdict(), *(cost if self.rows_lost else [])]
        return html_table(["", "what"], found, notes) if found else html_notes(notes)


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What `kubist.salvage` saved, and what it could not."""

    rows: int
    """In the new table."""
    rows_recovered: int
    """Of those, records of damaged files that replicas, or the files that they replaced, held."""
    rows_lost: int
    """Records that are known to have been committed and are not in the new table."""
    losses: list[Loss]
    """What each damaged location cost before replicas were used, as in `VerifyReport.losses`."""
    notes: list[str]
    """What else was damaged, and what cannot be known because of it."""
    commits_lost: int = 0
    """Commits that are known to have been made, of which the log entry cannot be read."""
    uncounted: bool = False
    """More records may be lost than could be counted: ``notes`` says why."""
    alterations_lost: int = 0
    """Alterations that cannot be read, or stand behind such a one: the new table lacks the
    columns, with all their values, the units and the metadata that they brought."""

    @property
    def ok(self) -> bool:
        """Nothing was damaged."""
        return not self.losses and not self.notes

    def __repr__(self) -> str:
        least = "at least " if self.uncounted else ""
        saved = f"{counted(self.rows, 'record')} saved, {least}{self.rows_lost:,} lost"
        head = f"<kubist.SalvageReport {saved}>"
        lines = [*self.notes, *(loss["what"] for loss in self.losses)]
        return "\n".join([head, *(f"  {printable(line)}" for line in lines)])


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """What `Table.optimize` did."""

    rewrites: int
    rows_rewritten: int
    rows_moved: int
    """Of these, records that moved from an older grid to the newest."""
    rows_copied: int
    """Records of new replicas."""
    lookups_merged: int
    """Lookups that became parts of larger ones."""
    bytes_written: int
    new_grid: bool
    """Did it give the table another grid, because the data had outgrown the one before?"""
    conflicts: int
    """Rewrites that another optimizer made superfluous."""
    left_to_others: int
    """Parts of the tree that another optimizer was at work on."""
    debt_before: int
    """Records that a fresh build would put elsewhere, before."""
    debt_after: int
    """And now."""


@dataclass(frozen=True, slots=True)
class Regridded:
    """What `Table.regrid` did."""

    grid: int
    """The number of the new grid."""
    optimized: OptimizeReport
    """What the optimizer did then."""

    @classmethod
    def parse(cls, text: str) -> Regridded:
        """Reads what the engine says."""
        values = json.loads(text)
        return cls(values["grid"], _of(OptimizeReport, values["optimized"]))


@dataclass(frozen=True, slots=True)
class Retraction:
    """What `Table.retract` took back."""

    rows: int
    runs_removed: int
    runs_rewritten: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What `Table.clean` did."""

    segments_deleted: int
    bytes_deleted: int
    segments_waiting: int
    """Not needed any more, and deleted by a call after the retention time."""
    bytes_released: int
    """Parts that were not needed of files that stay, given back."""
    bytes_waiting: int
    """The same, given back by a call after the retention time."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What `kubist.drop` deleted."""

    files: int
    bytes: int
    files_left: int
    """Files that are not the table's, and were left where they are."""


for _kind in (
    Commit,
    DiskUse,
    Dropped,
    Stats,
    Stages,
    DeclaredWriters,
    Explanation,
    Dimension,
    Column,
    WriterInfo,
    Costs,
    ThinnedSteps,
    Info,
    VerifyReport,
    SalvageReport,
    Cleaning,
    OptimizeReport,
    Regridded,
    Retraction,
):
    _kind.__module__ = "kubist"
del _kind
