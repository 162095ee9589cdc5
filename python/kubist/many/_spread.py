"""The error of a value over runs that sample the same particles.

Runs with the same identity and seed sample the same particles, so their errors are not independent.
The sample is divided into `GROUPS` windows of priority, with the same particles in every run. Sums
and differences are computed in each window, so their spread includes all covariances (random
groups: Wolter, Introduction to Variance Estimation, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

GROUPS = 32
"""Number of windows: the 31 degrees of freedom widen a 95 % interval by 4 %."""

LEAST_ROWS = 100
"""Minimum rows of a window for quantiles, variances and formulas, so they are nearly normal."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value, with its values in the windows."""

    value: float
    windows: list[float] | None
    """The values in the windows; None: they have too few rows."""
    exact: bool
    rows: int
    half: float = math.inf
    """Half of the engine's interval, for a value without windows."""

    def variance(self, fraction: float, quantile: float) -> float:
        if self.exact:
            return 0.0
        if self.windows is None:
            return (self.half / quantile) ** 2
        return variance(self.windows, fraction)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference, and the ratio of its error to the error with independent samples."""

    value: float
    variance: float
    exact: bool
    rows: int
    ratio: float | None
    """None: the samples are independent, or their errors could not be paired."""


def difference(
    value: Spread, base: Spread, fraction: float, quantile: float, *, paired: bool
) -> Difference:
    """``paired``: the same particles are in both samples."""
    exact = value.exact and base.exact
    apart = value.variance(fraction, quantile) + base.variance(fraction, quantile)
    together, ratio = apart, None
    if paired and not (value.exact or base.exact):
        if value.windows is not None and base.windows is not None:
            pairs = zip(value.windows, base.windows, strict=True)
            together = variance([one - two for one, two in pairs], fraction)
            ratio = math.sqrt(together / apart) if apart > 0 else None
    rows = value.rows + base.rows
    return Difference(value.value - base.value, together, exact, rows, ratio)


def variance(windows: Sequence[float], fraction: float) -> float:
    """The variance of the mean of windows that divide a sample of this fraction."""
    mean = math.fsum(windows) / GROUPS
    between = math.fsum((value - mean) ** 2 for value in windows) / (GROUPS - 1)
    # The windows together leave fewer rows unread than each one.
    return between / GROUPS * (1 - fraction) / (1 - fraction / GROUPS)


def mean(sums: Sequence[float], counts: Sequence[float]) -> tuple[float, list[float]]:
    """The mean from the first sum and count, and linearised values for the others.

    Linearised values need no rows in every window.
    """
    value = sums[0] / counts[0]
    pairs = zip(sums[1:], counts[1:], strict=True)
    return value, [value + (total - value * count) / counts[0] for total, count in pairs]


def quantile(confidence: float) -> float:
    """Student's t for `GROUPS` - 1 degrees of freedom (Fisher, Cornish 1960)."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    n = GROUPS - 1
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3
