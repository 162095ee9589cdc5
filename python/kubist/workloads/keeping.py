"""Keeps the requests of runs in a table, and writes their report."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .. import _create
from .._directory import location_of
from .._errors import NotATable
from .playing import Played
from .report import write


def finish(
    played: Sequence[Played],
    keep: str | os.PathLike[str] | None,
    report: str | os.PathLike[str] | None,
) -> None:
    """Keeps the requests of runs in a table, and writes their report."""
    if keep is not None:
        _append(keep, played)
    if report is not None:
        write(Path(report), played)


def _append(location: str | os.PathLike[str], played: Sequence[Played]) -> None:
    """Appends the requests of runs to a table."""
    for one in played:
        rows = one.to_arrow()
        try:
            table = _create.open(location_of(location))
        except NotATable:
            table = _create.create(
                location,
                rows.schema,
                {"at": (0.0, max(one.seconds, 1e-3)), "latency": None},
                units={"at": "s", "latency": "s", "service": "s"},
            )
        with table:
            table.append(rows)
