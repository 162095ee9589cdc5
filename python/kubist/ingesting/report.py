"""The plan and the report of an ingestion, both from the driver."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Plan:
    """The plan of an ingestion: the result of ``dry_run``.

    Attributes:
        files: The files and series, in the order of ingestion.
        columns: Columns as name, type and unit.
        dimensions, identity, lookup: The design of the table, from the format or the user.
        steps, known: The number of steps, and how many the table already has.
        rows: The number of records, if known.
        times: The first and the last time, if known.
        notes: Notes, such as unknown units, or times that become timestamps.
        left_out: For each file the parts that are not in the table, with the reason.
        text, told: The plan in lines, and as JSON.
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
    text: str = field(default="", repr=False, compare=False)
    told: str = field(default="", repr=False, compare=False)

    @staticmethod
    def of(told: str, text: str) -> Plan:
        plan = Plan(**json.loads(told), text=text, told=told)
        plan.columns = [(name, kind, unit) for name, kind, unit in plan.columns]
        plan.times = None if plan.times is None else (plan.times[0], plan.times[1])
        return plan

    def __str__(self) -> str:
        return self.text


@dataclass
class Report:
    """The result of an ingestion.

    Attributes:
        files: Records (``rows``) and commits by file.
        rows, bytes_written: The totals.
        skipped: Steps that the table already had.
        failed: Unreadable files with the error; none of their rows was written.
        notes: Notes, such as unknown units of the columns of a new table.
        left_out: For each file the parts that are not in the table, with the reason.
        columns_added: Columns that the call added, with null in existing rows.
        rows_skipped: Skipped rows without a position, by file.
        topology_added: Whether the call added a topology to the table.
        text, told: The report in lines, and as JSON.
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
    text: str = field(default="", repr=False, compare=False)
    told: str = field(default="", repr=False, compare=False)

    @staticmethod
    def of(told: str, text: str) -> Report:
        report = json.loads(told)
        names = {field.name for field in fields(Report)}
        made = Report(
            **{name: report[name] for name in names & report.keys()}, text=text, told=told
        )
        made.files = {
            taken["file"]: {"rows": taken["rows"], "commits": taken["commits"]}
            for taken in report["files"]
        }
        return made

    def __str__(self) -> str:
        return self.text
