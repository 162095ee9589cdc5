"""Reads groups of rows into arrays, with the types and scale of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from .. import _kubist
from .._errors import InvalidInput
from .._forms import floats
from .._result import _array
from .._spec import QuerySpec
from ._order import Group

Arrays = dict[str, np.ndarray[Any, Any]]

_SPARE = 1.02
"""Arrays have room for the expected rows times this factor, and a few more."""
_PILOT_ROWS = 100_000
"""Rows of lowest priority that estimate a mean and a deviation."""


_INCLUSION = "inclusion"
_CHANCE = "_kubist_inclusion"
"""The name of the inclusion probabilities of the pilot."""


class Scale(NamedTuple):
    mean: float
    deviation: float


class RowLayout(NamedTuple):
    kinds: dict[str, np.dtype[Any]]
    scales: dict[str, Scale]

    def row_bytes(self) -> int:
        return sum(kind.itemsize for kind in self.kinds.values())


class Pool(NamedTuple):
    """The rows of a group, in the order of the epoch."""

    arrays: Arrays
    rows: int

    def take(self, first: int, last: int) -> Arrays:
        return {name: array[first:last].copy() for name, array in self.arrays.items()}


class Source:
    def __init__(self, table: _kubist.Table, pinned: _kubist.Snapshot, question: QuerySpec) -> None:
        self._table, self.pinned, self._question = table, pinned, question
        about = json.loads(pinned.about())
        self.sampling: str = about["sampling"]
        self.has_inclusion = any(column["name"] == _INCLUSION for column in about["columns"])
        self.regions: list[str] = []

    @property
    def is_weighted(self) -> bool:
        return self.sampling != "uniform"

    def count(self) -> int:
        return self.pinned.count({k: v for k, v in self._question.items() if k != "columns"})  # type: ignore[arg-type]

    def cut(self, parts: int) -> None:
        self.regions = self.pinned.splits(self._question, parts, False)

    def layout(self, dtype: str | None, target: str | None, normalise: bool) -> RowLayout:
        """The types of the arrays, and the scale of the columns to normalise."""
        stream = self.pinned.query({**self._question, "limit": 1})
        empty = _columns(stream, stream.empty_batch())
        stream.close()
        kinds = {name: _kind(name, array, dtype, name == target) for name, array in empty.items()}
        fixed = {target} if self.has_inclusion else {target, _INCLUSION}
        names = [name for name in kinds if normalise and name not in fixed]
        for name in names:
            if kinds[name].kind != "f":
                raise InvalidInput(
                    f"normalise: column {name!r} has the type {kinds[name]}: "
                    f'give dtype="float32" or "float64"'
                )
        return RowLayout(kinds, self._scales(names) if names else {})

    def _scales(self, names: list[str]) -> dict[str, Scale]:
        """Estimates scales from the rows of lowest priority, each with its inclusion."""
        columns = [name for name in self._question.get("columns", []) if name != _INCLUSION]
        if self.has_inclusion and _INCLUSION in names:
            columns.append(_INCLUSION)
        asked = {"limit": _PILOT_ROWS, "inclusion": _CHANCE, "columns": columns}
        stream = self.pinned.query(cast("QuerySpec", {**self._question, **asked}))
        parts: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in [*names, _CHANCE]}
        for batch in _batches(stream):
            for name, arrays in parts.items():
                arrays.append(floats(batch[name]))
        all_values = {name: np.concatenate([np.empty(0), *parts[name]]) for name in parts}
        weights = 1 / all_values.pop(_CHANCE)
        scales = {}
        for name, values in all_values.items():
            known = np.isfinite(values) & np.isfinite(weights)
            mean, deviation = 0.0, 1.0
            if known.any():
                mean = np.average(values[known], weights=weights[known])
                squares = (values[known] - mean) ** 2
                deviation = np.sqrt(np.average(squares, weights=weights[known]))
            scales[name] = Scale(float(mean), float(deviation) or 1.0)
        return scales

    def read(self, group: Group, layout: RowLayout, expected: int) -> tuple[Arrays, int]:
        """The rows of a group in table order, and the number of rows that the engine examined."""
        filling = _Filling(layout, int(expected * _SPARE) + 1024)
        examined = 0
        for stream in self._streams(group):
            for batch in _batches(stream):
                filling.add(batch)
            examined += json.loads(stream.stats())["rows_read"]
        return filling.arrays(), examined

    def _streams(self, group: Group) -> Iterator[_kubist.Stream]:
        for low, high in group.windows:
            yield self.pinned.query(cast("QuerySpec", {**self._question, "window": (low, high)}))
        for region in group.regions:
            yield self._table.read_split(self.regions[region])


class _Filling:
    """Arrays that grow, so that no row is in memory twice."""

    def __init__(self, layout: RowLayout, capacity: int) -> None:
        self._layout, self._rows, self._capacity = layout, 0, capacity
        self._arrays = {name: np.empty(capacity, kind) for name, kind in layout.kinds.items()}

    def add(self, batch: Arrays) -> None:
        rows = len(next(iter(batch.values())))
        end = self._rows + rows
        if end > self._capacity:
            self._capacity = max(end, self._capacity * 3 // 2)
            for name, array in self._arrays.items():
                grown = np.empty(self._capacity, array.dtype)
                grown[: self._rows] = array[: self._rows]
                self._arrays[name] = grown
        for name, values in batch.items():
            kind = self._layout.kinds[name]
            place = self._arrays[name][self._rows : end]
            place[:] = floats(values) if kind.kind == "f" else _whole(name, values)
            if (scale := self._layout.scales.get(name)) is not None:
                np.subtract(place, kind.type(scale.mean), out=place)
                np.divide(place, kind.type(scale.deviation), out=place)
        self._rows = end

    def arrays(self) -> Arrays:
        return {name: array[: self._rows] for name, array in self._arrays.items()}


def _kind(name: str, empty: np.ndarray[Any, Any], dtype: str | None, target: bool) -> np.dtype[Any]:
    kind: np.dtype[Any] = empty.dtype
    if kind.kind not in "biuf" and (kind.kind not in "mM" or dtype is not None):
        raise InvalidInput(
            f"column {name!r} holds {'text' if kind.kind == 'O' else kind}: a loader yields numbers"
        )
    # Class labels stay integers.
    if dtype is None or (target and kind.kind in "biu"):
        return kind
    wanted: np.dtype[Any] = np.dtype(dtype)
    return wanted


def _whole(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if isinstance(values, np.ma.MaskedArray):
        if values.mask.any():
            raise InvalidInput(
                f"column {name!r} has nulls, and its type {values.dtype} has no value for them: "
                f'give dtype="float32", or where="{name} IS NOT NULL"'
            )
        return values.data
    return values


def _batches(stream: _kubist.Stream) -> Iterator[Arrays]:
    while (batch := stream.next_batch()) is not None:
        yield _columns(stream, batch)


def _columns(stream: _kubist.Stream, batch: _kubist.Batch) -> Arrays:
    return {name: _array(np, *batch.column(place)) for place, name in enumerate(stream.names())}
