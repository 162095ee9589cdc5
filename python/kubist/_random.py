"""Random numbers that depend only on a seed and a place."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *place: int) -> np.random.Generator:
    """The same numbers in every process and on every machine."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *place))))
