"""The expected variance of batch means when rows come from random regions of space.

Rows of a region resemble each other, so batches from a pool of few regions differ more than random
batches. The ratio follows from the variance between and within regions (cluster sampling: Cochran,
Sampling Techniques, chapter 9).
"""

from __future__ import annotations

import numpy as np

from .._random import generator
from ._order import Group, Plan
from ._read import RowLayout, Source

_PILOT = 64
"""Regions of the pilot."""
_PILOT_PLACE = 2**32 - 1
"""Selects random numbers for the pilot alone."""


def variance_ratio(
    source: Source, layout: RowLayout, plan: Plan, rows: int, batch: int, seed: int
) -> float:
    """The variance of a batch mean, relative to a random batch: the largest of all columns."""
    drawn = generator(seed, _PILOT_PLACE).permutation(plan.parts)[:_PILOT]
    arrays = [source.read(Group((), (int(part),)), layout, rows // plan.parts)[0] for part in drawn]
    names = [name for name, kind in layout.kinds.items() if kind.kind in "biuf"]
    ratios = [
        _ratio([part[name].astype(np.float64) for part in arrays], plan, rows, batch)
        for name in names
    ]
    return max(ratios, default=1.0)


def _ratio(
    parts: list[np.ndarray[tuple[int], np.dtype[np.float64]]], plan: Plan, rows: int, batch: int
) -> float:
    parts = [part[np.isfinite(part)] for part in parts]
    parts = [part for part in parts if len(part) > 1]
    if len(parts) < 2:
        return 1.0
    sizes = np.array([len(part) for part in parts], float)
    within = float(np.average([part.var(ddof=1) for part in parts], weights=sizes))
    means = np.array([part.mean() for part in parts])
    between = max(float(means.var(ddof=1)) - within * float(np.mean(1 / sizes)), 0.0)
    if within + between == 0:
        return 1.0
    drawn, pool = plan.drawn, rows * plan.drawn / plan.parts
    batch = min(batch, int(pool))
    inside = (within + between * (1 - 1 / drawn)) / batch * (1 - batch / pool)
    of_pools = (between / drawn + within / pool) * (1 - drawn / plan.parts)
    true = (within + between) / batch * (1 - batch / max(rows, batch + 1))
    return float((inside + of_pools) / true)
