"""Predicts times of queries on the whole data from trials on samples.

The time of a query on this machine is linear in its cost: cubes visited, rows decoded, rows
returned, bytes read. Least squares of relative errors over all trials give the constants. To
extrapolate, the result grows with the rows, and the excess of rows read by the power that two
sample sizes show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._speed import NORMAL, Speed, fit
from ..workloads.spec import Workload
from ..workloads.targets import Answered
from .measuring import Asked, Trial


@dataclass(frozen=True, slots=True)
class Predicted:
    """The cost of a query on the whole data, and the time with its 95 % interval."""

    seconds: float
    low: float
    high: float
    rows: float
    read: float
    bytes: float
    trips: float


def _features(cost: Answered) -> list[float]:
    return [1.0, cost.cubes, cost.read or 0, cost.rows, cost.bytes]


def fitted(asked: Sequence[Asked]) -> Speed:
    return fit([_features(one.cost) for one in asked], [one.seconds for one in asked])


def predict(query: str, small: Trial | None, large: Trial, total: int, speed: Speed) -> Predicted:
    """The time of a query of the larger trial's design on ``total`` rows.

    Without a smaller trial, or with all rows in the larger one, nothing is extrapolated.
    """
    here = large.of(query)
    growth = total / large.rows
    now = _mean(here)
    measured = float(np.mean([one.seconds for one in here]))
    modelled = float(np.mean([speed.time(_features(one.cost)) for one in here]))
    # The model gives only the growth; the level is measured.
    level = measured / modelled
    powers = _powers(_mean(small.of(query)), now, large.rows / small.rows) if small else {}
    cost = _grown(now, powers, growth)
    grown = speed.time(_features(_as_cost(cost)))
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
    """The powers of the rows by which the excess of rows, the cubes and the trips grow."""
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
    pairs = list(zip(workload.shares, (predicted[q.name] for q in workload.queries), strict=True))

    def mean(name: str) -> float:
        return float(sum(share * getattr(one, name) for share, one in pairs))

    names = ("seconds", "low", "high", "rows", "read", "bytes", "trips")
    return Predicted(*(mean(name) for name in names))
