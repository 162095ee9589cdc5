"""Random numbers that depend on a seed and a place alone."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *place: int) -> np.random.Generator:
    """The same numbers in every process and on every machine."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *place))))
