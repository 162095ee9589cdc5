"""What is asked of an ingestion, what it would do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._arguments import Writing

if TYPE_CHECKING:
    from .._arguments import Domain, Storage


@dataclass
class Asked:
    """What the user wants otherwise than files say it."""

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
    metadata: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    names: Sequence[str] | None = None
    hdu: str | int | None = None
    strict: bool = False
    bad_rows: str = "refuse"
    limits: Mapping[str, int] = field(default_factory=dict)
    writer: Writing = field(default_factory=Writing)
    again: bool = False


@dataclass
class Plan:
    """What an ingestion would take, and how: what ``dry_run`` returns.

    Attributes:
        files: The files and series, in the order in which they are taken.
        columns: Name, type and unit of each column.
        dimensions, identity, lookup: Of the table, as the format suggests or you said.
        steps: How many steps there are, and how many of them the table has already.
        rows: How many records, where the format says so beforehand.
        times: The first and the last time, where the format says it.
        notes: Remarks, such as units that are not known, and times that became timestamps.
        left_out: For each file what is not in the table, with the reason.
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
    """What an ingestion did.

    Attributes:
        files: What was taken of each file: records (``rows``), commits.
        rows, bytes_written: In all.
        skipped: Steps that the table had already.
        failed: Files that could not be read, and why; nothing of them was written.
        notes: Remarks, such as columns of a new table whose unit is not known.
        left_out: For each file what is not in the table, with the reason.
        columns_added: Columns that the table did not have; they are null in the rows before.
        rows_skipped: For each file the number of rows without a position that were skipped.
        topology_added: The table had no topology, and has that of the call now.
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
    """A line for each thing that was left out; files that leave out the same share one."""
    files: dict[tuple[str, str], list[str]] = {}
    for path, reasons in left_out.items():
        for name, why in reasons.items():
            files.setdefault((name, why), []).append(path)
    return [
        f"{name}: {why} ({Path(paths[0]).name}{f' and {len(paths) - 1} more files' * (len(paths) > 1)})"
        for (name, why), paths in files.items()
    ]
