"""Histograms as arrays, in the form of NumPy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import InvalidInput
from ._libraries import need

if TYPE_CHECKING:
    import numpy as np


def arrays(rows: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray[Any, Any], ...]:
    """Counts and edges of a histogram; ``rows`` has a row per bin."""
    numpy = need("numpy", "to_numpy()")
    if not rows or any(row.get("bin_low") is None for row in rows):
        raise InvalidInput(
            "to_numpy() needs an estimate of one histogram: use to_arrow() or to_pandas()"
        )
    axes = [axis for axis in ("bin", "bin2") if rows[0].get(f"{axis}_low") is not None]
    edges = []
    for axis in axes:
        bins = sorted({(row[f"{axis}_low"], row[f"{axis}_high"]) for row in rows})
        edges.append(numpy.array([low for low, _ in bins] + [bins[-1][1]]))
    shape = [len(of_axis) - 1 for of_axis in edges]
    if len({row["aggregate"] for row in rows}) > 1 or numpy.prod(shape) != len(rows):
        raise InvalidInput(
            "to_numpy() needs an estimate of one histogram without groups: use to_pandas()"
        )
    # Bins are ascending; the last direction varies fastest.
    return (numpy.array([row["value"] for row in rows]).reshape(shape), *edges)
