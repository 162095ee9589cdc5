"""Advice on the design of a table: `kubist.advise`.

It builds designs from samples of the data, measures the workload on them, and extrapolates times to
the whole data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _box
from .._options import checked_options
from .._progress import Callback, Display
from ..workloads.files import load
from ..workloads.spec import Workload
from .advice import Advice, Advised
from .designs import Design

if TYPE_CHECKING:
    from .._progress import Progress

__all__ = ["Advice", "Advised", "Design", "advise"]

LARGE = 400_000
"""Rows of the larger sample."""


@checked_options()
def advise(
    data: str | os.PathLike[str],
    workload: str | os.PathLike[str] | Workload | None = None,
    *,
    seconds: float | str = 90.0,
    rows: int = LARGE,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> Advice:
    """Measures designs of a table on a sample of data, and ranks them for a workload.

    Parameters
    ----------
    data
        A table, or files, a folder or a pattern, as for `kubist.ingest`.
    workload
        A TOML file (docs/workloads.md), or a `kubist.workloads.Workload`; None: proposed from the
        columns, and printed.
    seconds
        The approximate time of the search, as seconds or ``"2 min"``; it then returns the best
        design so far.
    rows
        Rows of the larger sample.
    seed
        The seed of the sample and of the queries.
    progress
        Called repeatedly with a line of text; None: shown on a terminal.

    Returns
    -------
    Advice
        The designs with predicted times, bytes and costs, and the command that creates the best.

    Raises
    ------
    InvalidInput
        The data has no rows, or lacks a column of the workload.
    """
    from .data import sampled
    from .proposing import propose
    from .search import Search

    begin = time.monotonic()
    limit = begin + _box.seconds("seconds", seconds, low=1.0)
    given = workload if workload is None or isinstance(workload, Workload) else load(workload)
    shown: Progress = Display() if progress is None else Callback(progress)
    try:
        shown("reading a sample", 0.0)
        large = _box.count("rows", rows, least=1_000)
        sample = sampled(data, large, 0.25 * (limit - begin), _box.count("seed", seed))
        of = given or propose(sample.rows, sample.dimensions, sample.identity)
        return Search(sample, of, limit, shown, seed).advice(begin, given is None)
    finally:
        shown.close()


for _public in (Advice, Advised, Design, advise):
    _public.__module__ = "kubist"
