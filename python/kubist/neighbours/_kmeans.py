"""k-means from growing samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .._libraries import need
from .._result import Result

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_FIRST = 2_000
"""Minimum number of rows of the first sample, for each centre."""
_GROWTH = 4
_ROUNDS = 300
"""Maximum number of rounds for a sample."""
_BLOCK = 1 << 22
"""Maximum number of distances in memory."""


@dataclass(frozen=True)
class KMeans:
    """The centres of clusters, from `Table.kmeans`."""

    columns: list[str]
    """The columns of a centre."""
    centers: Array
    """The centres, of shape (k, columns), in descending order of their rows."""
    errors: Array
    """The standard error of each centre, by column; 0 if all rows were read."""
    fractions: Array
    """For each centre, the fraction of rows that are nearest to it."""
    rows: int
    """The rows of the last sample."""
    exact: bool
    """Whether the last sample had all rows."""

    def labels(self, points: Any) -> Array:
        """Returns the index of the nearest centre for each row of an array (points, columns)."""
        numpy = need("numpy", "labels()")
        return _nearest(numpy, numpy.asarray(points, float), self.centers)[0]


KMeans.__module__ = "kubist.neighbours"


def fit(sample: Callable[[int], Result], names: Sequence[str], k: int, seed: int) -> KMeans:
    """The centres; ``sample`` returns a uniform sample of at most so many rows."""
    numpy = need("numpy", "kmeans()")
    wanted, centres = max(_FIRST, 200 * k), None
    before: Any = None
    while True:
        result = sample(wanted)
        columns = result.to_numpy()
        rows = numpy.stack(
            [numpy.ma.filled(columns[name].astype(float), numpy.nan) for name in names], axis=1
        )
        exact = len(rows) < wanted
        rows = rows[numpy.isfinite(rows).all(axis=1)]
        if len(rows) < k:
            raise InvalidInput(f"k: {k} centres of {len(rows)} rows that match")
        first = _spread(numpy, rows, k, seed) if centres is None else centres
        found, labels = _settled(numpy, rows, first)
        counts = numpy.bincount(labels, minlength=k)
        errors = _errors(numpy, rows, found, labels, counts)
        moved = centres is not None and _moved(numpy, found - centres, before) <= 1
        if exact or moved:
            order = numpy.argsort(-counts, kind="stable")
            left = numpy.zeros_like(errors) if exact else errors
            return KMeans(
                list(names), found[order], left[order], counts[order] / len(rows), len(rows), exact
            )
        centres, before, wanted = found, errors, wanted * _GROWTH


def _moved(numpy: Any, moves: Array, errors: Array) -> float:
    """The root mean square of moves, in standard errors of the previous sample."""
    return float(numpy.sqrt(numpy.mean((moves / numpy.maximum(errors, 1e-300)) ** 2)))


def _spread(numpy: Any, rows: Array, k: int, seed: int) -> Array:
    """The first centres: each is drawn by its squared distance to the others (k-means++)."""
    random = numpy.random.default_rng(seed)
    centres = [rows[random.integers(len(rows))]]
    nearest = ((rows - centres[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        total = nearest.sum()
        chance = nearest / total if total > 0 else None
        centres.append(rows[random.choice(len(rows), p=chance)])
        nearest = numpy.minimum(nearest, ((rows - centres[-1]) ** 2).sum(axis=1))
    return numpy.array(centres)  # type: ignore[no-any-return]


def _nearest(numpy: Any, rows: Array, centres: Array) -> tuple[Array, Array]:
    """The nearest centres, and their squared distances, by row."""
    labels = numpy.empty(len(rows), int)
    squares = numpy.empty(len(rows))
    step = max(1, _BLOCK // len(centres))
    for begin in range(0, len(rows), step):
        some = rows[begin : begin + step]
        apart = numpy.zeros((len(some), len(centres)))
        for axis in range(rows.shape[1]):
            apart += (some[:, axis, None] - centres[None, :, axis]) ** 2
        labels[begin : begin + step] = apart.argmin(axis=1)
        squares[begin : begin + step] = apart.min(axis=1)
    return labels, squares


def _settled(numpy: Any, rows: Array, centres: Array) -> tuple[Array, Array]:
    """The centres and clusters after Lloyd's rounds until no row changes its cluster."""
    k, labels = len(centres), None
    for _ in range(_ROUNDS):
        new, squares = _nearest(numpy, rows, centres)
        if labels is not None and (new == labels).all():
            break
        labels = new
        counts = numpy.bincount(labels, minlength=k)
        centres = (
            numpy.stack(
                [numpy.bincount(labels, rows[:, axis], k) for axis in range(rows.shape[1])], axis=1
            )
            / numpy.maximum(counts, 1)[:, None]
        )
        for empty in numpy.flatnonzero(counts == 0):
            # An empty centre moves to the row farthest from its own centre.
            farthest = squares.argmax()
            centres[empty], squares[farthest] = rows[farthest], 0
    assert labels is not None
    return centres, labels


def _errors(numpy: Any, rows: Array, centres: Array, labels: Array, counts: Array) -> Array:
    squares = (rows - centres[labels]) ** 2
    sums = numpy.stack(
        [numpy.bincount(labels, squares[:, axis], len(centres)) for axis in range(rows.shape[1])],
        axis=1,
    )
    return numpy.sqrt(sums) / numpy.maximum(counts, 1)[:, None]  # type: ignore[no-any-return]
