"""Predicts times of queries on the whole data from trials on samples.

The time of a query on this machine is linear in its cost: cubes visited, rows decoded, rows
returned, bytes read. The constants come from all trials together, by least squares of relative
errors. Costs are extrapolated to the whole data: the answer grows with the rows, and what is read
beyond it by the power that two sizes of the sample show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..workloads.spec import Workload
from ..workloads.targets import Answered
from .measuring import Asked, Trial

FLOOR = 20e-6
"""Seconds: a query costs at least this much."""
NORMAL = 1.96
"""Quantile of the normal distribution for intervals of 95 %."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A time with its interval of 95 %, and the cost, of one query on the whole data."""

    seconds: float
    low: float
    high: float
    rows: float
    read: float
    bytes: float
    trips: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The constants of this machine.

    Attributes:
        seconds: Of a query, a cube, a decoded row, a returned row and a byte.
        spread: The standard deviation of the logarithm of measured over modelled times.
    """

    seconds: np.ndarray[Any, Any]
    spread: float

    def time(self, cost: Answered) -> float:
        return max(float(_features(cost) @ self.seconds), FLOOR)


def _features(cost: Answered) -> np.ndarray[Any, Any]:
    return np.array([1.0, cost.cubes, cost.read or 0, cost.rows, cost.bytes], dtype=float)


def fit(asked: Sequence[Asked]) -> Speed:
    """Fits the constants; none is negative."""
    features = np.array([_features(one.cost) for one in asked])
    seconds = np.array([one.seconds for one in asked])
    # Relative errors: each line is divided by its time.
    found = _nonnegative(features / seconds[:, None], np.ones(len(seconds)))
    modelled = np.maximum(features @ found, FLOOR)
    return Speed(found, float(np.std(np.log(seconds / modelled))) if len(seconds) > 1 else 1.0)


def _nonnegative(
    matrix: np.ndarray[Any, Any], target: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Least squares without negative solutions.

    The active-set method of Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23.
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    count = scaled.shape[1]
    found, passive = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(3 * count):
        gradient = scaled.T @ (target - scaled @ found)
        gradient[passive] = -np.inf
        if gradient.max() <= 1e-10:
            break
        passive[int(gradient.argmax())] = True
        while True:
            trial = np.zeros(count)
            trial[passive] = np.linalg.lstsq(scaled[:, passive], target, rcond=None)[0]
            if (trial[passive] > 0).all():
                found = trial
                break
            below = passive & (trial <= 0)
            step = (found[below] / (found[below] - trial[below])).min()
            found = found + step * (trial - found)
            passive &= found > 1e-14
            found[~passive] = 0.0
    return found / scale


def predict(query: str, small: Trial | None, large: Trial, total: int, speed: Speed) -> Predicted:
    """The time of a query of the larger trial's design on ``total`` rows.

    Without a smaller trial, or with all rows in the larger one, nothing is extrapolated.
    """
    here = large.of(query)
    growth = total / large.rows
    now = _mean(here)
    measured = float(np.mean([one.seconds for one in here]))
    modelled = float(np.mean([speed.time(one.cost) for one in here]))
    # The model gives the growth; the level is measured.
    level = measured / modelled
    powers = _powers(_mean(small.of(query)), now, large.rows / small.rows) if small else {}
    cost = _grown(now, powers, growth)
    grown = speed.time(_as_cost(cost))
    seconds = level * grown if growth > 1.01 else measured
    spread = float(np.std([one.seconds for one in here])) / math.sqrt(len(here)) / measured
    # A power is uncertain by about a tenth, and the model by its residuals.
    doubt = math.hypot(spread, speed.spread / math.sqrt(len(here)))
    doubt = math.hypot(doubt, 0.1 * math.log(max(growth, 1.0)))
    width = math.exp(NORMAL * doubt)
    return Predicted(
        seconds,
        seconds / width,
        seconds * width,
        cost["rows"],
        cost["read"],
        cost["bytes"],
        cost["trips"],
    )


def _mean(asked: Sequence[Asked]) -> dict[str, float]:
    costs = [one.cost for one in asked]
    names = ("rows", "read", "cubes", "bytes", "trips")
    return {name: float(np.mean([getattr(cost, name) or 0 for cost in costs])) for name in names}


def _powers(small: Mapping[str, float], now: Mapping[str, float], ratio: float) -> dict[str, float]:
    """The powers of the number of rows by which the excess of rows, the cubes and trips grow."""
    excess = [max(of["read"] - of["rows"], 1.0) for of in (small, now)]
    powers = {"read": math.log(excess[1] / excess[0]) / math.log(ratio)}
    for name in ("cubes", "trips"):
        before, after = max(small[name], 1.0), max(now[name], 1.0)
        powers[name] = math.log(after / before) / math.log(ratio)
    return {name: min(max(power, 0.0), 1.0) for name, power in powers.items()}


def _grown(
    now: Mapping[str, float], powers: Mapping[str, float], growth: float
) -> dict[str, float]:
    rows = now["rows"] * (growth if now["rows"] > 1 else 1.0)
    read = rows + max(now["read"] - now["rows"], 0.0) * growth ** powers.get("read", 1.0)
    bytes_ = now["bytes"] * (read / now["read"] if now["read"] else 1.0)
    more = {name: now[name] * growth ** powers.get(name, 1.0) for name in ("cubes", "trips")}
    return {"rows": rows, "read": read, "bytes": bytes_, **more}


def _as_cost(cost: Mapping[str, float]) -> Answered:
    whole = {name: round(value) for name, value in cost.items()}
    return Answered(whole["rows"], whole["read"], whole["cubes"], whole["bytes"], whole["trips"])


def mean_time(workload: Workload, predicted: Mapping[str, Predicted]) -> Predicted:
    """The mean over a workload, by its weights."""
    pairs = list(zip(workload.shares, (predicted[q.name] for q in workload.queries), strict=True))

    def mean(name: str) -> float:
        return float(sum(share * getattr(one, name) for share, one in pairs))

    names = ("seconds", "low", "high", "rows", "read", "bytes", "trips")
    return Predicted(*(mean(name) for name in names))
