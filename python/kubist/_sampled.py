"""Intervals of estimates from samples of identities: quantiles of Student's t, and counts."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def normal(confidence: float) -> float:
    """The half-width of a central normal interval, in standard deviations."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def student(confidence: float, freedom: Array) -> Array:
    """The half-width of a central interval of Student's t; infinite without a degree of freedom.

    One and two degrees have closed forms. Others use Hill's expansion (Communications of the ACM
    13, 1970, algorithm 396), with an error below 1e-4 from three degrees on at 95 %.
    """
    n = np.asarray(freedom, dtype=float)
    p = 1 - confidence
    found = np.full(n.shape, np.inf)
    one, two = n == 1, n == 2
    found[one] = 1 / np.tan(p * np.pi / 2)
    found[two] = np.sqrt(2 / (p * (2 - p)) - 2)
    many = n > 2
    m = n[many]
    a = 1 / (m - 0.5)
    b = (48 / a) / a
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * np.pi / 2) * m
    y = (d * p) ** (2 / m)
    near = y <= 0.05 + a
    z = NormalDist().inv_cdf(p / 2)
    square = z * z
    cc = c + np.where(m < 5, 0.3 * (m - 4.5) * (z + 0.6), 0)
    cc = (((0.05 * d * z - 5) * z - 7) * z - 2) * z + b + cc
    u = (((((0.4 * square + 6.3) * square + 36) * square + 94.5) / cc - square - 3) / b + 1) * z
    u = a * u * u
    far = np.where(u > 0.002, np.expm1(u), 0.5 * u * u + u)
    close = (
        (1 / (((m + 6) / (m * y) - 0.089 * d - 0.822) * (m + 2) * 3) + 0.5 / (m + 4)) * y - 1
    ) * (m + 1) / (m + 2) + 1 / y
    found[many] = np.sqrt(m * np.where(near, close, far))
    return found


def count(n: Array, effect: Array, p: float, z: float) -> tuple[Array, Array]:
    """The ends of Wilson's score interval of a number, if a sample of fraction p has n.

    They solve (n - total p)^2 = z^2 total p (1 - p) for the total, whose sample is z deviations
    away, in sampling units that stand for ``effect`` each.
    """
    units = n / effect
    middle = units / p + z * z * (1 - p) / (2 * p)
    half = z * np.sqrt((1 - p) * (units + z * z * (1 - p) / 4)) / p
    return np.maximum((middle - half) * effect, n), (middle + half) * effect
