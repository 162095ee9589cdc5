"""Advice in passing: does the recorded use of a table fit its design?

Questions are recorded if the environment variable ``KUBIST_RECORD`` names a file
(docs/workloads.md). `kubist.Table.info` compares them with the dimensions and secondary indexes.
Commits need no record: the table counts them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._figures import Info

RECORD = "KUBIST_RECORD"
NEWEST = 4 << 20
"""Bytes at the end of a record that are read: reading 64 MiB would take seconds."""
QUESTIONS = 20
"""Fewer recorded questions of a table tell nothing."""
ALWAYS = 0.5
"""A column that this fraction of the questions limits belongs into the design."""
COMMITS = 16
DEBT = 0.2
"""The fraction of misplaced rows from which queries suffer."""
ORDERED = ("Int", "UInt", "Float", "Timestamp", "Date", "Time", "Duration")
"""Arrow types of columns that can be dimensions."""


@dataclass(slots=True)
class Use:
    """How often questions limited each column.

    Attributes:
        questions: The number of recorded questions.
        ranges: Questions with a range of the column.
        values: Questions with one value of the column.
        wholes: Questions with a region or steps, which limit dimensions without their names.
    """

    questions: int = 0
    ranges: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    wholes: int = 0

    def fraction(self, column: str) -> float:
        return (self.ranges[column] + self.values[column]) / self.questions


def advice(info: Info, record: str | os.PathLike[str] | None = None) -> list[str]:
    """One sentence for each way in which the use does not fit, with the command that mends it.

    ``record`` is a file of recorded questions; None: the file that ``KUBIST_RECORD`` names, if any.
    """
    found = _commits(info)
    path = record or os.environ.get(RECORD)
    if path:
        use = recorded_use(Path(path), info.location)
        if use.questions >= QUESTIONS:
            found += _columns(info, use, str(path))
    return found


def _commits(info: Info) -> list[str]:
    commits = sum(writer.commits for writer in info.writers)
    rows = sum(writer.rows for writer in info.writers)
    if commits < COMMITS or info.debt < DEBT * info.rows or rows >= commits * info.capacity:
        return []
    return [
        f"{commits:,} commits have {rows // commits:,} records on average, and "
        f"{info.debt:,} of {info.rows:,} records wait for an optimizer, so queries read more than "
        f"they return. Run: kubist optimize {_quoted(info.location)}"
    ]


def _columns(info: Info, use: Use, record: str) -> list[str]:
    kinds = {column.name: column.data_type for column in info.columns}
    dimensions = [dimension.column for dimension in info.dimensions]
    designed = {*dimensions, *info.lookup}
    missing = [n for n in kinds if n not in designed and use.fraction(n) >= ALWAYS]
    ranged = [n for n in missing if use.ranges[n] >= use.values[n] and kinds[n].startswith(ORDERED)]
    idle = [name for name in dimensions if not use.fraction(name) and not use.wholes]
    said = [
        f"{100 * use.fraction(name):.0f} % of {use.questions:,} recorded questions limit {name}, "
        "which is no dimension" + ("" if name in ranged else " and has no secondary index")
        for name in missing
    ]
    if idle and len(idle) < len(dimensions):
        said.append(
            f"none of {use.questions:,} recorded questions limits {', '.join(idle)}, "
            f"{'a dimension' if len(idle) == 1 else 'dimensions'} of the table"
        )
    elif idle and not missing:
        return []  # Samples of everything: any dimensions do.
    if not said:
        return []
    wanted = [name for name in dimensions if name not in idle] + ranged
    other = [name for name in missing if name not in ranged]
    table = _quoted(info.location)
    if other or not wanted:
        # A secondary index is chosen when a table is made.
        command = f"kubist advise {table} --queries {_quoted(record)}"
    else:
        command = f"kubist regrid {table} --dimensions {_quoted(','.join(wanted))}"
    return [*said[:-1], f"{said[-1]}. Run: {command}"]


def _quoted(text: str) -> str:
    return shlex.quote(text)


def recorded_use(record: Path, location: str) -> Use:
    """The use of the table at ``location`` by the newest questions of a record."""
    use = Use()
    try:
        with record.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - NEWEST, 0))
            lines = file.read().splitlines()
    except OSError:
        # The first question makes the file.
        return use
    own = _path(location)
    # A part of a line may be at the start, and at the end after a process was killed.
    for line in lines:
        try:
            said = json.loads(line)
            question = said["question"]
            if _path(said["table"]) != own:
                continue
            ranges, values = constrained(question)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        use.questions += 1
        use.ranges.update(ranges)
        use.values.update(values)
        use.wholes += "region" in question or "steps" in question
    return use


def _path(location: str) -> str:
    return location if "://" in location else os.path.realpath(location)


_COMPARED = re.compile(r"""("?)([A-Za-z_]\w*)\1\s*(=|<(?!>)=?|>=?|BETWEEN\b|IN\b)""", re.IGNORECASE)


def constrained(asked: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """The columns that a recorded question limits by a range, and to one value."""
    box = asked.get("box") or {}
    ranges = {name for name, ends in box.items() if not is_single(ends)}
    values = set(box) - ranges
    for _, name, sign in _COMPARED.findall(asked.get("where") or ""):
        (values if sign.upper() in ("=", "IN") else ranges).add(name)
    return ranges, values - ranges


def is_single(ends: Any) -> bool:
    """Whether the ends of a box are one value."""
    return not isinstance(ends, (list, tuple)) or ends[0] == ends[1]
