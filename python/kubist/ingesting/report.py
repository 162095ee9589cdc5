"""The options of an ingestion, its plan and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._arguments import Writing
from .._shown import counted

if TYPE_CHECKING:
    from .._arguments import Domain, Storage


@dataclass
class Asked:
    """The options of the user, which override those of the files."""

    format: str | None = None
    topology: Path | None = None
    time: float | None = None
    dimensions: Mapping[str, Domain] = field(default_factory=dict)
    identity: Sequence[str] | None = None
    lookup: Sequence[str] = ()
    capacity: int | None = None
    seed: int | None = None
    storage: Storage | None = None
    accuracy: Mapping[str, float | str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    period: Mapping[str, Any] | None = None
    sphere: tuple[str, str] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    names: Sequence[str] | None = None
    null: Sequence[str] = ()
    decimal: str | None = None
    hdu: str | int | None = None
    particles: Sequence[str | int] | None = None
    crs: str | int | None = None
    strict: bool = False
    bad_rows: str = "refuse"
    limits: Mapping[str, int] = field(default_factory=dict)
    writer: Writing = field(default_factory=Writing)
    again: bool = False


@dataclass
class Plan:
    """The plan of an ingestion: the result of ``dry_run``.

    Attributes:
        files: The files and series, in the order of ingestion.
        columns: Name, type and unit of each column.
        dimensions, identity, lookup: Those of the table, from the format or the user.
        steps, known: The number of steps, and of those that the table already has.
        rows: The number of records, if the format has it.
        times: The first and the last time, if the format has them.
        notes: Remarks, such as unknown units, and times that become timestamps.
        left_out: For each file the parts that are not in the table, with the reason.
    """

    format: str
    files: list[str]
    columns: list[tuple[str, str, str | None]]
    dimensions: list[str]
    identity: list[str]
    lookup: list[str]
    steps: int
    known: int
    rows: int | None
    times: tuple[float, float] | None
    metadata: dict[str, Any]
    notes: list[str]
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max(len(name) for name, _, _ in self.columns)
        rows = "records not counted yet" if self.rows is None else f"{self.rows:,} records"
        lines = [
            f"format      {self.format}",
            f"files       {len(self.files)}: {self.files[0]}"
            + (f" to {self.files[-1]}" if len(self.files) > 1 else ""),
            f"steps       {self.steps}, {self.known} of them in the table already; {rows}",
        ]
        if self.times is not None:
            lines.append(f"time        {self.times[0]:g} to {self.times[1]:g}")
        lines += [
            f"dimensions  {', '.join(self.dimensions) or 'none: say --dimensions'}",
            f"identity    {', '.join(self.identity) or 'each record by itself'}",
        ]
        if self.lookup:
            lines.append(f"lookup      {', '.join(self.lookup)}")
        lines.append("columns")
        for name, kind, unit in self.columns:
            lines.append(f"  {name:{width}}  {kind}" + (f" [{unit}]" if unit else ""))
        for name, value in self.metadata.items():
            text = str(value)
            lines.append(f"metadata    {name} = {text if len(text) < 60 else text[:57] + '...'}")
        lines += [f"note        {note}" for note in self.notes]
        lines += [f"left out    {text}" for text in of_files(self.left_out)]
        return "\n".join(lines)


@dataclass
class Report:
    """The result of an ingestion.

    Attributes:
        files: The number of records (``rows``) and commits of each file.
        rows, bytes_written: The totals.
        skipped: The number of steps that the table already had.
        failed: The files that could not be read, with the error; no row of them was written.
        notes: Remarks, such as unknown units of the columns of a new table.
        left_out: For each file the parts that are not in the table, with the reason.
        columns_added: Columns that the table did not have; existing rows are null in them.
        rows_skipped: For each file the number of rows without a position that were skipped.
        topology_added: Whether the table had no topology, and now has that of the call.
    """

    table: str
    created: bool = False
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: int = 0
    bytes_written: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)
    columns_added: list[str] = field(default_factory=list)
    rows_skipped: dict[str, int] = field(default_factory=dict)
    topology_added: bool = False
    seconds: float = 0.0


def of_files(left_out: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each part that was left out; files with equal parts share one."""
    files: dict[tuple[str, str], list[str]] = {}
    for path, reasons in left_out.items():
        for name, why in reasons.items():
            files.setdefault((name, why), []).append(path)
    lines = []
    for (name, why), paths in files.items():
        more = f" and {counted(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
        lines.append(f"{name}: {why} ({Path(paths[0]).name}{more})")
    return lines
