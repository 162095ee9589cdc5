"""Random boxes of space with their rows of lowest priority, for models of point clouds.

These rows are a uniform sample of the rows in a box, for any number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _box, _kubist
from ._errors import InvalidInput
from ._forms import floats
from ._random import generator
from ._result import _array

if TYPE_CHECKING:
    from ._pinned import Pinned
    from ._queries import Queries

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

CENTRES = ("records", "space")
_SPARE = 1.5
"""Reads more rows than centres, because the number of rows in a priority window varies."""
_FEW = 1_000
_CENTRE_PLACE, _WINDOW_PLACE = 0, 1
"""Keys of separate random numbers from one seed."""


class Asked(NamedTuple):
    number: int
    widths: dict[str, float]
    points: int
    columns: list[str]
    centre: str
    box: Any
    where: str | None
    seed: int
    batch: int
    first: int


def asked(
    number: Any,
    size: Any,
    *,
    axes: Sequence[str],
    points: Any,
    columns: Any,
    centre: Any,
    box: Any,
    where: Any,
    seed: Any,
    batch: Any,
    first: Any,
) -> Asked:
    """Checks the options; a single ``size`` applies to every axis."""
    if centre not in CENTRES:
        raise InvalidInput(f"centre: expected one of {', '.join(CENTRES)}, not {centre!r}")
    widths = dict(size) if isinstance(size, Mapping) else dict.fromkeys(axes, size)
    if not widths:
        raise InvalidInput("size: name at least one column, as size={'x': 0.1, 'y': 0.1}")
    for name, width in widths.items():
        widths[name] = _box.number(f"size of {name}", width)
        if not 0 < widths[name] < np.inf:
            raise InvalidInput(f"size: the width of {name} must be above 0, not {width!r}")
    return Asked(
        _box.count("number", number),
        widths,
        _box.count("points", points, least=1),
        [] if columns is None else _box.names("columns", columns),
        centre,
        box,
        where,
        _box.count("seed", seed),
        _box.count("batch", batch, least=1),
        _box.count("first", first),
    )


def crops(t: Queries, wanted: Asked) -> Iterator[Arrays]:
    pinned = t._pinned()
    about = json.loads(pinned.about())
    known = {column["name"]: column["data_type"] for column in about["columns"]}
    for name in wanted.widths:
        if name not in known:
            raise InvalidInput(f"size: there is no column {name!r}; there are {', '.join(known)}")
        if not known[name].startswith(("Float", "Int", "UInt")):
            raise InvalidInput(f"size: column {name!r} has the type {known[name]}, not numbers")
    if about["sampling"] != "uniform":
        raise InvalidInput(
            f"crops: {about['location']} samples {about['sampling']}, so the rows of lowest "
            "priority are no uniform sample: copy it to a table without weights or strata"
        )
    centres = _centres(t, pinned, about, wanted)
    periods = _periods(t, wanted)
    workers = min(4, os.cpu_count() or 1)
    starts = range(wanted.first, wanted.number, wanted.batch)

    def read(start: int) -> list[Arrays]:
        some = centres[start : start + wanted.batch]
        return [_crop(t, pinned, centre, periods, wanted) for centre in some]

    def batches() -> Iterator[Arrays]:
        with ThreadPoolExecutor(workers, "kubist-crops") as pool:
            coming = [pool.submit(read, start) for start in starts[:workers]]
            try:
                for place, start in enumerate(starts):
                    found = coming[place % workers].result()
                    if place + workers < len(starts):
                        coming[place % workers] = pool.submit(read, starts[place + workers])
                    yield _joined(found, centres[start : start + wanted.batch], start)
            finally:
                for future in coming:
                    future.cancel()

    return batches()


def _centres(t: Queries, pinned: Pinned, about: dict[str, Any], wanted: Asked) -> Array:
    """The centres of all crops, from the seed alone."""
    random = generator(wanted.seed, _CENTRE_PLACE)
    axes = list(wanted.widths)
    if wanted.centre == "space":
        low, high = _bounds(about, wanted)
        within: Array = low + random.random((wanted.number, len(axes))) * (high - low)
        return within
    rows = pinned.count(t._question(box=wanted.box, where=wanted.where))
    if rows == 0:
        raise InvalidInput(f"crops: {about['location']} has no such record")
    width = min(1.0, (_SPARE * wanted.number + _FEW) / rows)
    begin = float(generator(wanted.seed, _WINDOW_PLACE).random()) * (1 - width)
    found = _positions(t, pinned, (begin, begin + width), wanted)
    if len(found) < min(wanted.number, rows):
        # A window may miss all rows of an identity, which share one priority.
        found = _positions(t, pinned, (0.0, 1.0), wanted)
    drawn = random.choice(len(found), wanted.number, replace=len(found) < wanted.number)
    centres: Array = found[drawn]
    return centres


def _positions(t: Queries, pinned: Pinned, window: tuple[float, float], wanted: Asked) -> Array:
    """Positions in an order that does not depend on threads, without rows with null or NaN."""
    axes = list(wanted.widths)
    question = t._question(
        box=wanted.box, where=wanted.where, window=window, columns=axes, order_by="priority"
    )
    whole = pinned.query(question).whole()
    columns = [_numbers(name, whole, place) for place, name in enumerate(axes)]
    found = np.stack(columns, axis=1)
    finite: Array = found[np.isfinite(found).all(axis=1)]
    return finite


def _bounds(about: dict[str, Any], wanted: Asked) -> tuple[Array, Array]:
    """The domain of the axes, narrowed by the box."""
    domain = {each["column"]: (each["low"], each["high"]) for each in about["dimensions"]}
    low, high = [], []
    for name in wanted.widths:
        ends = (wanted.box or {}).get(name, (None, None))
        ends = ends if isinstance(ends, tuple | list) else (ends, ends)
        both = [
            of if end is None else _box.number(f"box of {name}", end)
            for end, of in zip(ends, domain.get(name, (None, None)), strict=True)
        ]
        if None in both:
            raise InvalidInput(f"centre: {name} is no dimension, so give its bounds in box=")
        low.append(both[0])
        high.append(both[1])
    return np.array(low, float), np.array(high, float)


def _periods(t: Queries, wanted: Asked) -> Array:
    """The length after which each axis repeats; infinite if it does not."""
    found = []
    for name in wanted.widths:
        period = t.period.get(name, np.inf)
        found.append(period[1] - period[0] if isinstance(period, tuple) else period)
    return np.array(found, float)


def _crop(
    t: Queries,
    pinned: Pinned,
    centre: Array,
    periods: Array,
    wanted: Asked,
) -> Arrays:
    axes = list(wanted.widths)
    box = dict(wanted.box or {})
    where = wanted.where
    for name, middle, width in zip(axes, centre.tolist(), wanted.widths.values(), strict=True):
        if name in box:
            # Both ranges apply.
            where = _and(where, name, middle - width / 2, middle + width / 2)
        else:
            box[name] = (middle - width / 2, middle + width / 2)
    question = t._question(
        box=box, where=where, limit=wanted.points, columns=[*axes, *wanted.columns]
    )
    whole = pinned.query(question).whole()
    columns = [_numbers(name, whole, place) for place, name in enumerate(whole.names())]
    offset = np.stack(columns[: len(axes)], axis=1) - centre
    repeats = np.isfinite(periods)
    offset[:, repeats] -= periods[repeats] * np.round(offset[:, repeats] / periods[repeats])
    values = columns[len(axes) :]
    x = np.stack(values, axis=1) if values else np.empty((len(offset), 0))
    return {"pos": offset.astype(np.float32), "x": x.astype(np.float32)}


def _and(where: str | None, name: str, low: float, high: float) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    within = f"{quoted} BETWEEN {low!r} AND {high!r}"
    return within if where is None else f"({where}) AND {within}"


def _numbers(name: str, whole: _kubist.Whole, place: int) -> Array:
    values = _array(np, *whole.column(place))
    if values.dtype.kind not in "biuf":
        raise InvalidInput(f"columns: {name!r} holds no numbers")
    return floats(values).astype(np.float64)


def _joined(found: list[Arrays], centres: Array, first: int) -> Arrays:
    sizes = np.array([len(crop["pos"]) for crop in found], np.int64)
    return {
        "pos": np.concatenate([crop["pos"] for crop in found]),
        "x": np.concatenate([crop["x"] for crop in found]),
        "batch": np.repeat(np.arange(len(found), dtype=np.int64), sizes),
        "ptr": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "centre": centres,
        "number": np.arange(first, first + len(found), dtype=np.int64),
    }
