"""Neighbours of points and rows: methods of tables and snapshots in a directory."""

from __future__ import annotations

from ._among import Neighbours
from ._counts import Curve, PairCounts
from ._kmeans import KMeans

__all__ = ["Curve", "KMeans", "Neighbours", "PairCounts"]
