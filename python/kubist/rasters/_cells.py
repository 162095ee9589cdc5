"""Aggregates of the rows of each cell in memory: quantiles, and intervals of a sample.

The identity is the sampling unit: a sample of fraction p has all rows of an identity with
probability p. Variances of sums are estimated as for Poisson sampling (Saerndal, Swensson, Wretman:
Model Assisted Survey Sampling, 1992, section 3.5); means and variances are linearised (section
5.5). Intervals use Student's t with n - 1 degrees of freedom for n identities in the cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._sampled import count, normal, student
from ._values import Aggregate

Array = np.ndarray[Any, Any]


class Estimates(NamedTuple):
    value: Array
    low: Array
    high: Array
    rows: Array


class Rows:
    """The rows of consecutive cells, sorted by cell and value."""

    def __init__(self, cells: int, cell: Array, value: Array, identity: Array | None) -> None:
        # By value, then by cell: sorting numbers twice is faster than sorting pairs once.
        order = np.argsort(value)
        bits = max(len(value) - 1, 1).bit_length()
        keys = (cell[order] << bits) | np.arange(len(value))
        keys.sort()
        order = order[keys & ((1 << bits) - 1)]
        self.cells = cells
        self.cell, self.value = cell[order], value[order]
        self._unit = np.arange(len(cell)) if identity is None else identity[order]
        self.count = np.bincount(self.cell, minlength=cells)
        self._starts = np.concatenate([[0], np.cumsum(self.count)])

    def sums(self, of: Array) -> Array:
        return np.bincount(self.cell, weights=of, minlength=self.cells)

    def sampling_units(self) -> tuple[Array, Array, Array]:
        """The cell of each unit, the unit of each row, and the number of units of each cell."""
        order = np.argsort(self.cell * (int(self._unit.max(initial=0)) + 1) + self._unit)
        cell, unit = self.cell[order], self._unit[order]
        fresh = np.ones(len(cell), bool)
        fresh[1:] = (cell[1:] != cell[:-1]) | (unit[1:] != unit[:-1])
        of_row = np.empty(len(cell), np.int64)
        of_row[order] = np.cumsum(fresh) - 1
        owner = cell[fresh]
        return owner, of_row, np.bincount(owner, minlength=self.cells)

    def quantile(self, q: float) -> Array:
        """Linear interpolation between order statistics, as `numpy.quantile`."""
        with np.errstate(invalid="ignore"):
            rank = q * (self.count - 1)
        below = np.floor(rank)
        low, high = self.at(below), self.at(np.minimum(below + 1, self.count - 1))
        between = rank - below
        with np.errstate(invalid="ignore"):
            return np.where(between > 0, low + (high - low) * between, low)

    def at(self, rank: Array) -> Array:
        """The value of each cell at a rank; NaN in a cell without rows."""
        found = np.full(self.cells, np.nan)
        some = self.count > 0
        found[some] = self.value[(self._starts[:-1][some] + rank[some]).astype(np.int64)]
        return found


def estimates(rows: Rows, of: Aggregate, fraction: float, confidence: float) -> Estimates:
    """The aggregate of each cell, with its interval if the rows are a sample."""
    n = rows.count
    if of.kind == "quantile" and fraction >= 1:
        value = rows.quantile(of.q)
        return Estimates(value, value, value, n)
    owner, of_row, units = rows.sampling_units()
    t = student(confidence, np.maximum(units - 1, 0))

    def variance(influence: Array) -> Array:
        """The variance, over samples, of a total of the rows' influences."""
        totals = np.bincount(of_row, weights=influence, minlength=len(owner))
        square = np.bincount(owner, weights=totals * totals, minlength=rows.cells)
        return (1 - fraction) * square

    with np.errstate(invalid="ignore", divide="ignore"):
        # The rows per sampled identity, weighted by rows.
        effect = variance(np.ones(len(rows.cell))) / (1 - fraction) / n
        if of.kind == "count":
            typical = np.nanmean(effect) if np.any(n > 0) else 1.0
            effect = np.where(n > 0, effect, typical)
            low, high = count(n, effect, fraction, normal(confidence))
            return Estimates(n / fraction, low, high, n)
        if of.kind == "sum":
            total = rows.sums(rows.value)
            half = t * np.sqrt(variance(rows.value)) / fraction
            return _around(total / fraction, half, n)
        if of.kind == "min":
            value = rows.at(np.zeros(rows.cells))
            return Estimates(value, np.where(n > 0, -np.inf, np.nan), value, n)
        if of.kind == "max":
            value = rows.at(n - 1.0)
            return Estimates(value, value, np.where(n > 0, np.inf, np.nan), n)
        if of.kind == "quantile":
            return _quantile(rows, of.q, effect, fraction, normal(confidence))
        mean = rows.sums(rows.value) / n
        apart = rows.value - mean[rows.cell]
        small = units / np.maximum(units - 1, 1)
        if of.kind == "mean":
            return _around(mean, t * np.sqrt(variance(apart) * small) / n, n)
        square = rows.sums(apart * apart) / (n - 1)
        relative = apart * apart / square[rows.cell] - 1
        # At least the variance of normal values: few rows underestimate the fourth moment.
        spread = np.sqrt(
            np.maximum(variance(relative) * small / (n * n), 2 * (1 - fraction) / (units - 1))
        )
        if of.kind == "std":
            square, spread = np.sqrt(square), spread / 2
        some = n > 1
        factor = np.exp(np.minimum(t * spread, 700))
        low, high = square / factor, np.where(np.isinf(t), np.inf, square * factor)
        low = np.where(np.isinf(t), 0, low)
        square, low, high = (np.where(some, one, np.nan) for one in (square, low, high))
        return Estimates(square, low, high, n)


def _around(value: Array, half: Array, n: Array) -> Estimates:
    some = n > 0
    half = np.where(np.isnan(half), np.inf, half)
    return Estimates(
        np.where(some, value, np.nan),
        np.where(some, value - half, np.nan),
        np.where(some, value + half, np.nan),
        n,
    )


def _quantile(rows: Rows, q: float, effect: Array, p: float, z: float) -> Estimates:
    """Order statistics whose ranks are within z deviations of the quantile's."""
    n = rows.count
    half = z * np.sqrt(n * q * (1 - q) * (1 - p) * np.maximum(effect, 1))
    low, high = np.floor(q * n - half) - 1, np.ceil(q * n + half)
    some = n > 0
    under, over = low < 0, high > n - 1
    at_low = np.where(under, -np.inf, rows.at(np.maximum(low, 0)))
    at_high = np.where(over, np.inf, rows.at(np.minimum(high, n - 1)))
    return Estimates(
        rows.quantile(q), np.where(some, at_low, np.nan), np.where(some, at_high, np.nan), n
    )
