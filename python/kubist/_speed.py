"""The time of a query on this machine, as a linear function of its cost.

`kubist.advise` fits the constants to the measured queries of its trials, and `Table.explain` with
``predict=True`` to about 40 random queries of the table.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ._figures import Expected

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ._figures import About, Explanation, Stats

FLOOR = 20e-6
"""The minimum time of a query in seconds."""
NORMAL = 1.96
"""Normal quantile for intervals of 95 %."""
STEPS = 20
"""Maximum number of steps of the fit, which converges in about ten."""
OUTLIER = 0.5
"""From this logarithm of measured over modelled time on, a query counts less (Huber)."""

QUESTIONS = 40
SAMPLE = 2_000
"""Number of random rows around which queries are placed."""
MOST_ROWS = 200_000
"""The approximate size of the largest result in the calibration."""
REPEATS = 3
"""Runs of each query after a first one that loads pages; the fastest run counts."""
SECONDS = 4.0
"""The calibration ends after this time, if a third of its queries has run."""
VALID = 120.0
"""Seconds before a calibration is repeated, because the load of a machine changes."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The constants of a machine.

    Attributes:
        seconds: The constants by feature.
        spread: The standard deviation of the logarithm of measured over modelled times.
    """

    seconds: np.ndarray[Any, Any]
    spread: float

    def time(self, features: Sequence[float]) -> float:
        import numpy as np

        return max(float(np.asarray(features, dtype=float) @ self.seconds), FLOOR)


def fit(features: Sequence[Sequence[float]], seconds: Sequence[float]) -> Speed:
    """Fits the constants, which are not negative.

    From the solution for relative errors, Gauss-Newton steps minimise the squared logarithms of
    measured over modelled times, so a factor of two is equally wrong in both directions.
    """
    import numpy as np

    matrix, measured = np.asarray(features, dtype=float), np.asarray(seconds, dtype=float)
    found = _nonnegative(matrix / measured[:, None], np.ones(len(measured)))
    for _ in range(STEPS):
        modelled = np.maximum(matrix @ found, FLOOR)
        error = np.log(measured / modelled)
        scaled = matrix / modelled[:, None]
        weight = np.sqrt(1 / np.maximum(1.0, np.abs(error) / OUTLIER))
        target = scaled @ found + np.clip(error, -1.0, 1.0)
        better = _nonnegative(scaled * weight[:, None], target * weight)
        found = (found + better) / 2
    error = np.log(measured / np.maximum(matrix @ found, FLOOR))
    return Speed(found, float(np.std(error)) if len(error) > 1 else 1.0)


def _nonnegative(
    matrix: np.ndarray[Any, Any], target: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Least squares without negative solutions.

    The active-set method of Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23.
    """
    import numpy as np

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


class Explains(Protocol):
    @property
    def location(self) -> str: ...

    @property
    def columns(self) -> list[str]: ...

    def __len__(self) -> int: ...

    def _about(self) -> About: ...

    def explain(self, box: Any = None, **asked: Any) -> Explanation: ...

    def query(self, **asked: Any) -> Any: ...


def expected(table: Explains, asked: Mapping[str, Any], stats: Stats) -> Expected:
    """The time of a query from its cost, and from other queries of the table on this machine."""
    speed = _calibrated(table)
    seconds = speed.time(_features(stats, asked, len(table.columns)))
    width = math.exp(NORMAL * speed.spread)
    error = stats.seconds / seconds - 1
    return Expected(seconds, seconds / width, seconds * width, error)


def _features(stats: Stats, asked: Mapping[str, Any], columns: int) -> list[float]:
    """The features of a query: 1, cubes, rows, values, bytes, pages; more if rows are chosen."""
    values = stats.rows_returned * len(asked.get("columns") or range(columns))
    # Orders and limits read several windows of priority, each with its own plan.
    chosen = bool(asked.get("order_by") or asked.get("limit") or asked.get("per_cell"))
    ordered = stats.rows_read if asked.get("order_by") else 0
    return [
        1.0,
        stats.cubes_visited,
        stats.rows_read,
        values,
        stats.bytes_read + stats.bytes_cached,
        stats.pages_read,
        stats.runs_looked_up,
        stats.cubes_visited if chosen else 0,
        float(chosen),
        ordered,
    ]


_known: dict[tuple[str, int], tuple[float, Speed]] = {}


def _calibrated(table: Explains) -> Speed:
    """The constants for a table, which are fitted again if they are old or the table grew."""
    key = (table.location, len(table))
    at, speed = _known.get(key, (0.0, None))
    if speed is None or time.monotonic() - at > VALID:
        speed = _calibrate(table)
        _known.clear()
        _known[key] = time.monotonic(), speed
    return speed


def _calibrate(table: Explains) -> Speed:
    features, seconds = [], []
    end, columns = time.monotonic() + SECONDS, len(table.columns)
    for number, asked in enumerate(_questions(table)):
        if number >= QUESTIONS // 3 and time.monotonic() > end:
            break
        table.explain(**asked)
        runs = [table.explain(**asked).stats for _ in range(REPEATS)]
        features.append(_features(runs[0], asked, columns))
        seconds.append(min(run.seconds for run in runs))
    return fit(features, seconds)


def _questions(table: Explains) -> Iterator[dict[str, Any]]:
    """Random queries of all kinds, which are always the same for a table."""
    import numpy as np

    random = np.random.default_rng(len(table))
    rows = table.query(limit=SAMPLE).to_arrow()
    about = table._about()
    dimensions = [d.column for d in about.dimensions if _is_number(rows, d.column)]
    others = [n for n in rows.column_names if n not in dimensions and _is_number(rows, n)]
    values = {name: rows.column(name).drop_null().to_numpy() for name in dimensions + others}
    values = {name: of for name, of in values.items() if len(of)}
    dimensions = [name for name in dimensions if name in values]
    others = [name for name in others if name in values]

    def box(names: Sequence[str], share: float) -> dict[str, Any]:
        row = int(random.integers(SAMPLE))
        ends = {}
        for name in names:
            of = values[name]
            half = share ** (1 / len(names)) * float(of.max() - of.min()) / 2
            middle = of[row % len(of)].item()
            ends[name] = (middle - half, middle + half)
            if of.dtype.kind != "f":
                ends[name] = (math.floor(middle - half), math.ceil(middle + half))
        return {"box": ends} if names else {}

    most = MOST_ROWS / max(len(table), 1)
    for number in range(QUESTIONS):
        share = min(float(np.exp(random.uniform(np.log(1e-4), 0.0))), most)
        kind = number % 8
        if kind == 0 or not dimensions:
            yield {"sample": min(share, 1.0)}
        elif kind in (1, 2):
            yield box(dimensions, share)
        elif kind == 3:
            yield box([dimensions[int(random.integers(len(dimensions)))]], share / 4)
        elif kind == 4 and others:
            name = others[int(random.integers(len(others)))]
            yield box(dimensions, share) | {
                "where": f'"{name}" > {float(np.median(values[name]))!r}'
            }
        elif kind == 5:
            yield box(dimensions, share) | {"columns": rows.column_names[:2]}
        elif kind == 6:
            yield box(dimensions, share) | {"limit": int(random.integers(1, SAMPLE))}
        elif about.lookup and about.lookup[0] in values:
            of = values[about.lookup[0]]
            yield {"where": f'"{about.lookup[0]}" = {of[random.integers(len(of))].item()!r}'}
        else:
            order = (others or dimensions)[0]
            yield box(dimensions, share) | {"order_by": f'"{order}"', "limit": 100}


def _is_number(rows: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = rows.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
