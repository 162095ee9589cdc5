"""Mean squared displacements of paths with evenly spaced times.

As in `MDAnalysis.analysis.msd.EinsteinMSD`, it is the mean over all starts within a path. Sums over
starts are correlations, which Fourier transforms compute (Calandrini et al., nMoldyn, 2011). In
paths that lack rows, they also count the existing pairs of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import InvalidInput
from ._read import Chunk

Array = np.ndarray[Any, Any]

_VALUES = 1 << 23
"""Values in memory at the same time."""
_FRAMES = 1 << 22
"""The maximum number of time steps of a path."""
_UNEVEN = 0.05
"""The largest deviation from even times, as a fraction of their distance."""


def squares(
    chunk: Chunk, every: float | None, lags: int | None, by: str
) -> tuple[float | None, Array, Array]:
    """The time step, the means by path and lag, and whether they are known."""
    path = chunk.of_row()
    step = np.diff(chunk.time)[path[1:] == path[:-1]]
    if len(step) and not step.min() > 0:
        row = int(np.flatnonzero((np.diff(chunk.time) <= 0) & (path[1:] == path[:-1]))[0])
        raise InvalidInput(
            f"msd: path {by} = {chunk.path[path[row]]} has two rows at {chunk.time[row]:g}"
        )
    if every is None and len(step):
        # The mean, because 32-bit times are rounded.
        every = float(step[step < 1.5 * step.min()].mean())
    since = chunk.time - chunk.time[chunk.starts[:-1]][path]
    exact = since / (every or 1.0)
    frame = np.round(exact).astype(np.int64)
    uneven = np.abs(exact - frame) > _UNEVEN
    if uneven.any():
        row = int(np.argmax(uneven))
        raise InvalidInput(
            f"msd: the times of path {by} = {chunk.path[path[row]]} are not evenly spaced by "
            f"{every:g}: {since[row]:g} after its first row"
        )
    frames = int(frame.max(initial=0)) + 1
    if frames > _FRAMES:
        longest = chunk.path[path[int(np.argmax(frame))]]
        raise InvalidInput(
            f"msd: path {by} = {longest} has {frames:,} steps of {every:g}, and at most "
            f"{_FRAMES:,} are supported: choose rows by where="
        )
    width = frames if lags is None else min(frames, lags + 1)
    size = 1 << (2 * frames - 1).bit_length()
    block = max(1, _VALUES // size)
    means, known = np.zeros((len(chunk.path), width)), np.zeros((len(chunk.path), width), bool)
    for first in range(0, len(chunk.path), block):
        end = min(first + block, len(chunk.path))
        rows = slice(chunk.starts[first], chunk.starts[end])
        at = (path[rows] - first, frame[rows])
        present = np.zeros((end - first, frames))
        present[at] = 1
        of_present = np.fft.rfft(present, size)
        pairs = np.round(np.fft.irfft(np.abs(of_present) ** 2, size)[:, :width])
        # Sums over pairs of a^2 + b^2 - 2ab: transforms are added before one inverse.
        square = np.zeros((end - first, frames))
        products = np.zeros(of_present.shape)
        for values in chunk.points.values():
            grid = np.zeros((end - first, frames))
            # Relative to the middle of the path, to keep digits.
            middle = np.add.reduceat(values[rows], chunk.starts[first:end] - chunk.starts[first])
            middle = middle / np.diff(chunk.starts[first : end + 1])
            grid[at] = values[rows] - middle[at[0]]
            square += grid * grid
            products += np.abs(np.fft.rfft(grid, size)) ** 2
        own = (np.conj(np.fft.rfft(square, size)) * of_present).real
        total = np.fft.irfft(2 * own - 2 * products, size)[:, :width]
        there = pairs > 0
        total[:, 0] = 0
        means[first:end] = np.where(there, np.maximum(total, 0) / np.where(there, pairs, 1), 0)
        known[first:end] = there
    return every, means, known
