"""Stores the requests of runs in a table, reads them again, and writes the page of runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import _box, _create
from .._directory import location_of
from .._errors import InvalidInput, NotATable
from .._options import checked_options
from .page import write
from .playing import COLUMNS, OF_RUN, Played, measured

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT = "commit of "
"""The prefix of the names of requests that are commits."""


def finish(
    played: Sequence[Played],
    keep: str | os.PathLike[str] | None,
    report: str | os.PathLike[str] | None,
) -> None:
    if keep is not None:
        _append(keep, played)
    if report is not None:
        write(Path(report), played)


def _append(location: str | os.PathLike[str], played: Sequence[Played]) -> None:
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


@checked_options()
def report(
    kept: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    last: int | None = None,
) -> list[Played]:
    """Writes the runs in a table as one HTML page, side by side.

    Parameters
    ----------
    kept
        The table of ``keep`` of `kubist.workloads.run` and `compare`.
    path
        The page, which needs no other file.
    last
        Show only so many of the newest runs; None: all.

    Returns
    -------
    list of Played
        The runs of the page, the oldest first.

    Raises
    ------
    InvalidInput
        The table has no runs, or other rows.
    """
    count = None if last is None else _box.count("last", last, least=1)
    with _create.open(location_of(kept)) as table:
        missing = [name for name in ("run", "target", *COLUMNS) if name not in table.columns]
        if missing:
            raise InvalidInput(f"{kept}: this table keeps no runs: it has no column {missing[0]}")
        rows = table.query().to_arrow()
    runs = sorted(set(zip(*(rows[name].to_pylist() for name in ("run", "target")), strict=True)))
    if not runs:
        raise InvalidInput(f"{kept}: there are no runs")
    played = [_played(rows, *one) for one in (runs if count is None else runs[-count:])]
    write(Path(path), played)
    return played


def _played(rows: pa.Table, run: str, target: str) -> Played:
    """A run from its rows, without samples of the process."""
    import pyarrow.compute as pc

    chosen = pc.and_(pc.equal(rows["run"], run), pc.equal(rows["target"], target))
    own = rows.filter(chosen).sort_by("at")
    arrays = {name: own[name].to_numpy().astype(kind, copy=False) for name, kind in COLUMNS.items()}
    whole = {name: own[name][0].as_py() for name in OF_RUN}
    names = list(dict.fromkeys(arrays["query"].tolist()))
    queries = sorted(name for name in names if not name.startswith(COMMIT))
    commits = sorted(name for name in names if name.startswith(COMMIT))
    whole |= {name: int(whole[name]) for name in ("clients", "memory", "commits")}
    return Played(
        target=target,
        workload=own["workload"][0].as_py(),
        queries=measured(arrays, whole["seconds"], [*queries, *commits], queries),
        started=float(run),
        requests=arrays,
        **whole,
    )
