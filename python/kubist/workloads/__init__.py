"""Workloads: files of weighted queries with random parameters, and a load generator.

`run` plays a workload, a TOML file (docs/workloads.md), on a table, a server or another system, and
reports throughput and latencies; `kubist.advise` finds a suitable design.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from .. import _box
from .._options import checked_options
from .._progress import Callback, Display
from .designs import compare
from .draws import Draws, Question
from .files import load
from .keeping import finish, report
from .playing import SAMPLE, Measured, Played, compared, play
from .spec import Place, Query, Range, Value, Workload, Writes, parse, to_toml
from .targets import Answered, Target, opened

__all__ = [
    "Answered",
    "Draws",
    "Measured",
    "Place",
    "Played",
    "Query",
    "Question",
    "Range",
    "Target",
    "Value",
    "Workload",
    "Writes",
    "compare",
    "compared",
    "load",
    "parse",
    "play",
    "report",
    "run",
    "to_toml",
]


@checked_options()
def run(
    workload: str | os.PathLike[str] | Workload,
    targets: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    seed: int = 0,
    keep: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> list[Played]:
    """Plays a workload on one or several systems, one after the other.

    Parameters
    ----------
    workload
        A TOML file (docs/workloads.md), or a `Workload`.
    targets
        Tables; servers (``http://host:8080``); Parquet files, which DuckDB reads;
        ``SYSTEM:FILE.parquet``, which ``duckdb``, ``lance``, ``postgis`` or ``cql`` loads first.
    seed
        Runs with the same seed and data send the same requests.
    keep
        A table, created if necessary, that gets a row for each request, to compare runs over time.
    report
        Write the figures, latencies over time and metrics of the process into this HTML file.
    progress
        Called repeatedly with a line of text; None: shown on a terminal.

    Returns
    -------
    list of Played
        The measurements by system; ``print(kubist.workloads.compared(runs))`` compares them.

    Raises
    ------
    InvalidInput
        The file has an error, a column is missing, or no request succeeded.
    """
    of = workload if isinstance(workload, Workload) else load(workload)
    locations = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
    shown = Display() if progress is None else Callback(progress)
    seed = _box.count("seed", seed)
    played, rows = [], None
    try:
        for location in locations:
            target = opened(os.fspath(location))
            try:
                # All systems get the same requests.
                rows = target.sample(SAMPLE) if rows is None else rows
                played.append(play(of, target, seed=seed, tell=shown, rows=rows))
            finally:
                target.close()
    finally:
        shown.close()
    finish(played, keep, report)
    return played
