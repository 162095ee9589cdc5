"""Figures of paths: totals, means and fractions with intervals.

A sample of fraction p has each path independently with probability p, so totals are estimated as
for Poisson sampling (Saerndal, Swensson, Wretman: Model Assisted Survey Sampling, 1992, section
3.5). A mean is a linearised ratio of two totals; its interval uses Student's t over paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._describe import Figure
from .._sampled import count, normal, student

Array = np.ndarray[Any, Any]


class Sample:
    """The fraction of paths that were read, and the confidence of intervals."""

    def __init__(self, fraction: float, confidence: float) -> None:
        self.fraction, self.confidence = fraction, confidence
        self.exact = fraction >= 1

    def number(self, values: Array, unit: str | None = None) -> Figure:
        """The total of a nonnegative number per path, such as crossings."""
        total = float(values.sum())
        if self.exact:
            return Figure(total, total, total, True, unit)
        square = float((values * values).sum())
        effect = square / total if total > 0 else 1.0
        low, high = count(
            np.array([total]), np.array([effect]), self.fraction, normal(self.confidence)
        )
        return Figure(total / self.fraction, float(low[0]), float(high[0]), False, unit)

    def net(self, values: Array, unit: str | None = None) -> Figure:
        """The total of positive and negative values per path."""
        total = float(values.sum())
        if self.exact:
            return Figure(total, total, total, True, unit)
        some = np.count_nonzero(values)
        if some < 2:
            # The spread is unknown: use the bounds of the two directions.
            forward, backward = np.maximum(values, 0), np.maximum(-values, 0)
            there, back = self.number(forward), self.number(backward)
            return Figure(total / self.fraction, -back.high, there.high, False, unit)
        p = self.fraction
        t = float(student(self.confidence, np.array([some - 1.0]))[0])
        half = t * float(np.sqrt((1 - p) * (values * values).sum())) / p
        return Figure(total / p, total / p - half, total / p + half, False, unit)

    def mean(self, values: Array, unit: str | None = None) -> Figure:
        """The mean over paths that have a value."""
        value, low, high = (
            float(one[0]) for one in self.means(values.sum(), (values**2).sum(), len(values))
        )
        missing = len(values) == 0
        return Figure(None if missing else value, low, high, self.exact, unit)

    def means(self, total: Any, squares: Any, paths: Any) -> tuple[Array, Array, Array]:
        """Means and interval bounds from sums, sums of squares and numbers of paths."""
        n = np.atleast_1d(np.asarray(paths, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.atleast_1d(total) / n
            if self.exact:
                return mean, mean, mean
            spread = np.maximum(np.atleast_1d(squares) - n * mean * mean, 0) / (n * (n - 1))
            half = student(self.confidence, n - 1) * np.sqrt((1 - self.fraction) * spread)
        half = np.where(n > 1, half, np.inf)
        return mean, mean - half, mean + half

    def share(self, chosen: int, paths: int) -> Figure:
        """The fraction of paths with a property: Wilson's interval of a finite population."""
        if paths == 0:
            return Figure(None, 0.0, 1.0, self.exact, None)
        value = chosen / paths
        if self.exact:
            return Figure(value, value, value, True, None)
        z = normal(self.confidence)
        square = z * z * (1 - self.fraction) / paths
        middle = (value + square / 2) / (1 + square)
        half = np.sqrt(square * (value * (1 - value) + square / 4)) / (1 + square)
        return Figure(
            value, float(max(middle - half, 0)), float(min(middle + half, 1)), False, None
        )
