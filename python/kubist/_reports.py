"""Reports of verification, repair, optimization, deletion and synchronisation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypedDict

from ._figures import _of
from ._kubist import printable, size
from ._shown import counted, html_notes, html_table


class Extent(TypedDict):
    """The range of rows along a dimension, in its unit."""

    column: str
    low: float
    high: float


class Loss(TypedDict):
    """The lost rows at a damaged location."""

    what: str
    """The file, its offset and the cube."""
    cube: str
    """In hexadecimal."""
    level: int
    """Level of the cube; the root is 0."""
    rows: int
    extents: list[Extent]
    """A bounding box of the rows."""
    replicas: int
    """Number of cubes whose replicas contain some of these rows."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of ``verify()``."""

    rows: int
    runs: int
    pages: int
    """Pages that ``deep=True`` read."""
    bytes: int
    findings: list[str]
    """One line per defect; empty for an intact table."""
    deep: bool = False
    replicas: int = 0
    rows_lost: int = 0
    """Rows that cannot be read."""
    rows_recoverable: int = 0
    """Lost rows that `kubist.salvage` copies from replicas."""
    losses: list[Loss] = field(default_factory=list)
    """The lost rows at each damaged location."""
    rows_unread: int = 0
    """Rows that the storage failed to read; they may be intact."""
    unread: list[str] = field(default_factory=list)
    """One line per location that could not be read. This is not damage: try again."""
    held: int | None = None
    """The bytes that a partial copy holds. Only these were checked, and ``rows`` counts the rows of
    their runs.
    """

    @property
    def ok(self) -> bool:
        """Whether everything was read and is intact."""
        return not self.findings and not self.unread

    def _verdict(self) -> str:
        wrong = [counted(len(self.findings), "finding")] if self.findings else []
        wrong += [f"{len(self.unread)} could not be read"] if self.unread else []
        read = f"{counted(self.rows, 'record')}, {self.pages:,} pages, {size(self.bytes)}"
        return f"{', '.join(wrong) or 'intact'}: {read}"

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
    """The result of `kubist.salvage`."""

    rows: int
    """Rows in the new table."""
    rows_recovered: int
    """Rows of damaged files that were copied from replicas or from older files."""
    rows_lost: int
    """Committed rows that are not in the new table."""
    losses: list[Loss]
    """The damaged rows at each location, including rows that replicas replaced."""
    notes: list[str]
    """Other damage, and losses that cannot be counted."""
    commits_lost: int = 0
    """Commits whose log entry cannot be read."""
    uncounted: bool = False
    """Whether more rows may be lost than counted; ``notes`` has the reason."""
    alterations_lost: int = 0
    """Alterations that are unreadable or follow an unreadable one. Their columns (with all values),
    units and metadata are not in the new table.
    """

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged."""
        return not self.losses and not self.notes

    def __repr__(self) -> str:
        least = "at least " if self.uncounted else ""
        saved = f"{counted(self.rows, 'record')} saved, {least}{self.rows_lost:,} lost"
        head = f"<kubist.SalvageReport {saved}>"
        lines = [*self.notes, *(loss["what"] for loss in self.losses)]
        return "\n".join([head, *(f"  {printable(line)}" for line in lines)])


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """The result of `Table.optimize`."""

    rewrites: int
    rows_rewritten: int
    rows_moved: int
    """Rows that moved from an older grid to the newest."""
    rows_copied: int
    """Rows in new replicas."""
    lookups_merged: int
    """Parts of secondary indexes that were merged into larger parts."""
    bytes_written: int
    new_grid: bool
    """Whether the call made a new grid, because the data had outgrown the old one."""
    conflicts: int
    """Rewrites that were not published, because another optimizer had replaced their runs."""
    left_to_others: int
    """Subtrees that were left to another optimizer."""
    debt_before: int
    """Rows that a new build would have stored in other cubes, before the call."""
    debt_after: int
    """The same number after the call."""


@dataclass(frozen=True, slots=True)
class Regridded:
    """The result of `Table.regrid`."""

    grid: int
    """Number of the new grid."""
    optimized: OptimizeReport
    """The optimizer's report."""

    @classmethod
    def parse(cls, text: str) -> Regridded:
        values = json.loads(text)
        return cls(values["grid"], _of(OptimizeReport, values["optimized"]))


@dataclass(frozen=True, slots=True)
class Retraction:
    """The result of `Table.retract`."""

    rows: int
    runs_removed: int
    runs_rewritten: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The result of `Table.clean`."""

    segments_deleted: int
    bytes_deleted: int
    segments_waiting: int
    """Unused segments (data files) that a call after the retention time deletes."""
    bytes_released: int
    """Bytes that were freed in files that stay."""
    bytes_waiting: int
    """Unused bytes in these files that a call after the retention time frees."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The result of `kubist.drop`."""

    files: int
    bytes: int
    files_left: int
    """Files of other programs, which stay."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The changes that a table got from another site."""

    commits: int
    rows: int
    retracted: int
    """Rows that the other site had retracted."""
    columns: list[str]
    """New columns."""
    waits: list[str]
    """Commits that must come from a third site."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of `kubist.sync` and `Table.sync`."""

    created: str | None
    """The location of the copy that the call created, if one was missing."""
    came: Moved
    """The changes that the first table got."""
    went: Moved
    """The changes that the second table got."""
    conflicts: list[str]
    """Metadata that both sites changed; each site keeps its own value."""
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Synced:
        values = json.loads(text)
        for name in ("came", "went"):
            values[name] = _of(Moved, values[name])
        return _of(cls, values)


@dataclass(frozen=True, slots=True)
class Cloned:
    """The result of `kubist.clone` and `Table.deepen`."""

    location: str
    source: str
    rows: int
    """Rows of the source."""
    fetched: int
    """Bytes that came, without the manifest."""
    bytes: int
    """The size of the copy."""
    source_bytes: int
    """The size of the source."""
    seconds: float


for _kind in (
    Cloned,
    Moved,
    Synced,
    VerifyReport,
    SalvageReport,
    Cleaning,
    OptimizeReport,
    Regridded,
    Retraction,
    Dropped,
):
    _kind.__module__ = "kubist"
del _kind
