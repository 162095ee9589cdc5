"""Predicted times of the requests of a run, from a model of their costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._speed import fit

if TYPE_CHECKING:
    import numpy as np

LEAST = 20
"""The minimum number of requests for a model."""


def predicted(
    requests: Mapping[str, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The predicted requests, and their times in seconds; None if the costs are unknown.

    The model (`kubist._speed`) is fitted to every second request and predicts the others from
    cubes, rows and bytes, not from the query, the machine's load or other clients.
    """
    import numpy as np

    known = (requests["read"] >= 0) & ~requests["failed"]
    if known.sum() < LEAST or not requests["read"][known].any():
        return None
    places = np.flatnonzero(known)
    costs = [requests[name] for name in ("cubes", "read", "rows", "bytes")]
    features = np.column_stack([np.ones(len(known)), *costs]).astype(float)
    seen, unseen = places[::2], places[1::2]
    speed = fit(features[seen].tolist(), requests["service"][seen].tolist())
    return unseen, np.array([speed.time(features[place]) for place in unseen])
