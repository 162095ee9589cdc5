"""The aggregates of a raster of all rows: one pass over batches, in memory of the cells."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from .. import _kubist
from .._errors import InvalidInput

Array = np.ndarray[Any, Any]

_SYNONYMS = {
    "avg": "mean",
    "share": "mean",
    "variance": "var",
    "stddev": "std",
    "minimum": "min",
    "maximum": "max",
}
KNOWN = ("count", "sum", "mean", "min", "max", "var", "std", "median", "p95", "quantile")


class Aggregate(NamedTuple):
    text: str
    kind: str
    """count, sum, mean, min, max, var, std or quantile."""
    of: str | None
    """The column or expression; None: the rows themselves."""
    q: float = 0.5
    """The fraction of a quantile."""

    def keeps_unit(self) -> bool:
        return self.kind not in ("count", "var")


def aggregate(text: Any) -> Aggregate:
    """Parses ``max(z)``, ``count()``, ``p95(z)`` or ``quantile(z, 0.9)``."""
    found = (
        re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text, re.DOTALL) if isinstance(text, str) else None
    )
    if found is None:
        raise InvalidInput(f"raster: value: expected an aggregate such as 'max(z)', not {text!r}")
    name, inner = found[1].lower(), found[2].strip()
    name = _SYNONYMS.get(name, name)
    shown = text.strip()
    if name == "count":
        return Aggregate(shown, "count", None if inner in ("", "*") else inner)
    percentile = re.fullmatch(r"p(\d\d?(?:\.\d+)?)", name)
    q = 0.5 if name == "median" else float(percentile[1]) / 100 if percentile else None
    if name == "quantile":
        terms = _kubist.terms(inner) or []
        inner, q = terms[0] if terms else "", _fraction(shown, terms)
    if q is not None:
        name = "quantile"
    elif name not in KNOWN:
        raise InvalidInput(
            f"raster: value: {name!r} is not an aggregate of rasters: they are {', '.join(KNOWN)}"
        )
    if not inner:
        raise InvalidInput(f"raster: value: {shown!r} needs a column or an expression")
    return Aggregate(shown, name, inner, 0.5 if q is None else q)


def _fraction(text: str, terms: list[str]) -> float:
    try:
        q = float(terms[1]) if len(terms) == 2 else -1.0
    except ValueError:
        q = -1.0
    if not 0 <= q <= 1:
        raise InvalidInput(f"raster: value: {text!r}: write quantile(x, q) with q from 0 to 1")
    return q


class Totals:
    """Running aggregates by cell.

    Sums, means and variances add differences to the cell's first value, which keeps digits of
    values far from zero.
    """

    def __init__(self, kind: str, cells: int) -> None:
        self.kind = kind
        self.count = np.zeros(cells, np.int64)
        self._first = self._sum = self._squares = np.empty(0)
        if kind in ("sum", "mean", "var", "std"):
            self._first, self._sum = np.zeros(cells), np.zeros(cells)
        if kind in ("var", "std"):
            self._squares = np.zeros(cells)
        if kind in ("min", "max"):
            self._extreme = np.full(cells, np.inf if kind == "min" else -np.inf)

    def add(self, cell: Array, value: Array) -> None:
        if self.kind in ("min", "max"):
            (np.minimum if self.kind == "min" else np.maximum).at(self._extreme, cell, value)
        elif self.kind != "count":
            fresh = self.count[cell] == 0
            self._first[cell[fresh]] = value[fresh]
            difference = value - self._first[cell]
            np.add.at(self._sum, cell, difference)
            if len(self._squares):
                np.add.at(self._squares, cell, difference * difference)
        np.add.at(self.count, cell, 1)

    def values(self) -> Array:
        """One value for each cell; NaN where no row contributes."""
        n = self.count.astype(float)
        if self.kind == "count":
            return self.count
        if self.kind in ("min", "max"):
            extreme: Array = np.where(self.count > 0, self._extreme, np.nan)
            return extreme
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "sum":
                total: Array = self._first * n + self._sum
                return total
            if self.kind == "mean":
                mean: Array = np.where(n > 0, self._first + self._sum / n, np.nan)
                return mean
            about = np.maximum(self._squares - self._sum * self._sum / n, 0) / (n - 1)
            variance = np.where(n > 1, about, np.nan)
        spread: Array = np.sqrt(variance) if self.kind == "std" else variance
        return spread
