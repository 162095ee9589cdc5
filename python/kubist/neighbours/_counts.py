"""Numbers of pairs by distance, and the functions that follow from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

from .._errors import InvalidInput
from .._libraries import need

if TYPE_CHECKING:
    import numpy as np

    from .._spec import QuerySpec
    from ._space import Asked

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Curve:
    """A value for each bin, with an interval."""

    edges: Array
    """The edges of the bins."""
    value: Array
    low: Array
    high: Array


class PairCounts:
    """The pairs of rows by distance, from `Table.pair_counts`."""

    def __init__(
        self,
        counted: str,
        asked: Asked,
        axes: Sequence[str],
        period: Mapping[str, float],
        confidence: float,
    ) -> None:
        numpy = need("numpy", "pair_counts")
        counts = json.loads(counted)
        fraction = float(asked["query"].get("sample", 1.0))
        self._asked, self._axes, self._period = asked, list(axes), dict(period)
        self.edges: Array = numpy.array(counts["edges"])
        """The edges of the bins."""
        self.rows: float = counts["rows"] / fraction
        """The number of rows, estimated if a sample was read."""
        self.sampled_rows: int = counts["rows"]
        """The number of rows that were read."""
        found, squares = numpy.array(counts["pairs"], float), numpy.array(counts["squares"])
        self.pairs: Array = found / fraction**2
        """The number of pairs in each bin, estimated if a sample was read."""
        half = NormalDist().inv_cdf((1 + confidence) / 2) * _deviation(found, squares, fraction)
        self.low: Array = numpy.maximum(self.pairs - half, 0)
        """The lower bounds of the intervals."""
        self.high: Array = self.pairs + half
        """The upper bounds of the intervals."""

    def rdf(self, volume: float | None = None) -> Curve:
        """The radial distribution function: the pairs, relative to the pairs of uniform rows.

        Parameters
        ----------
        volume
            The volume that the rows fill; None: the product of the periods, or the whole sphere.
            Rows near a border that is not periodic have fewer neighbours and lower the function.
        """
        numpy = need("numpy", "rdf")
        if "sphere" in self._asked:
            angles = numpy.cos(numpy.radians(self.edges))
            parts = (angles[:-1] - angles[1:]) / 2
            if volume is not None:
                parts = parts * 4 * math.pi * math.degrees(1) ** 2 / volume
        else:
            axes = len(self._axes)
            unit = math.pi ** (axes / 2) / math.gamma(axes / 2 + 1)
            filled = volume_of(volume, self._asked, self._axes, self._period)
            parts = numpy.diff(unit * self.edges**axes) / filled
        uniform = self.rows * max(self.rows - 1, 0) / 2 * parts
        with numpy.errstate(divide="ignore", invalid="ignore"):
            return Curve(self.edges, self.pairs / uniform, self.low / uniform, self.high / uniform)

    def correlation(self, volume: float | None = None) -> Curve:
        """The two-point correlation: the radial distribution function minus 1."""
        curve = self.rdf(volume)
        return Curve(curve.edges, curve.value - 1, curve.low - 1, curve.high - 1)

    def __repr__(self) -> str:
        return (
            f"<kubist.neighbours.PairCounts {self.pairs.sum():,.0f} pairs, {len(self.pairs)} bins, "
            f"of {self.sampled_rows:,} rows>"
        )


PairCounts.__module__ = Curve.__module__ = "kubist.neighbours"


def _deviation(found: Array, squares: Array, fraction: float) -> Array:
    """The standard deviation of estimated pairs.

    Each row is in the sample independently with the probability p, so a count of pairs has the
    variance ``sum of pairs (1/p^2 - 1) + sum of ordered couples of pairs that share a row (1/p -
    1)``, and the sample estimates both sums without bias. Over all rows, the number of pairs of a
    row adds up to twice ``found``, and its square to ``squares``.
    """
    numpy = need("numpy", "pair_counts")
    sharing = squares - 2 * found
    of_pairs = found / fraction**2 * (1 / fraction**2 - 1)
    return cast("Array", numpy.sqrt(of_pairs + sharing / fraction**3 * (1 / fraction - 1)))


def volume_of(
    volume: float | None, asked: Asked, axes: Sequence[str], period: Mapping[str, float]
) -> float:
    """The given volume, or the product of the periods of all axes.

    ``period`` has the periods of the table.
    """
    if volume is not None:
        if not (volume > 0 and math.isfinite(volume)):
            raise InvalidInput(f"volume: {volume!r} must be above 0")
        return float(volume)
    both = {**period, **asked.get("period", {})}
    periods = {name.lower(): length for name, length in both.items()}
    missing = [name for name in axes if name.lower() not in periods]
    if missing or "sphere" in asked:
        raise InvalidInput(f"volume: give it, because {', '.join(missing)} have no period")
    return math.prod(periods[name.lower()] for name in axes)


def without_columns(query: QuerySpec) -> QuerySpec:
    return cast("QuerySpec", {name: value for name, value in query.items() if name != "columns"})
