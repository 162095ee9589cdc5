"""How a trajectory lies in a table: columns, units, index.

One row an atom and frame: ``atom`` and ``frame`` count from 0, then ``time``, the position and,
where there are any, velocity and force. What is of a whole frame (unit cell, the solver's step)
stands in the row of atom 0 and is null in the others, where it takes no room; so a frame
is one commit's rows and nothing else. What holds for all frames is in the table's metadata: the
number of atoms under ``trajectory``, and the ``topology``.

The index has frame, x, y and z. Space lies in the lowest quarter of its domain, so that the curve
divides frames twice more than space: zones then hold few frames, which is what readers of frames
ask for, and still a small region. A cube keeps as many records as a leaf of the tree then has, so
that few lie above the leaves. Priorities come from the atom: samples are whole atoms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

POSITION = ("x", "y", "z")
VELOCITY = ("vx", "vy", "vz")
FORCE = ("fx", "fy", "fz")
VECTORS = {"positions": POSITION, "velocities": VELOCITY, "forces": FORCE}
CELL = ("cell_a", "cell_b", "cell_c", "cell_alpha", "cell_beta", "cell_gamma")
STEP = "step"
DIMENSIONS = ("frame", *POSITION)

# The domain of space is so many times what atoms take: halved twice before it divides any atoms.
# With more the engine would learn another grid from the first commit.
FRAMES_FIRST = 4
# Atoms may come to lie so far outside of the first frame, as a share of its extent. With more, the
# cells at the border have few atoms and those inside many.
DRIFT = 1 / 32
# A leaf of the tree holds at most so many records, and below two levels that divide frames only a
# sixteenth of them on the next level.
LEAF_ROWS = 1 << 16
CAPACITIES = (2048, 16384)
"""Of a cube: the least, and what is taken where the number of frames is not known."""

# In words that MDAnalysis and the engine share: `A` is the ampere for the engine, as in SI.
UNITS: Mapping[str, str] = {
    "time": "ps",
    **dict.fromkeys(POSITION, "Angstrom"),
    **dict.fromkeys(VELOCITY, "Angstrom/ps"),
    **dict.fromkeys(FORCE, "kJ/(mol*Angstrom)"),
    **dict.fromkeys(CELL[:3], "Angstrom"),
    **dict.fromkeys(CELL[3:], "degree"),
}


def schema(velocities: bool, forces: bool) -> pa.Schema:
    """The columns of a trajectory with or without velocities and forces."""
    import pyarrow as pa

    vectors = [*POSITION, *(VELOCITY if velocities else ()), *(FORCE if forces else ())]
    return pa.schema(
        [
            pa.field("atom", pa.int32(), nullable=False),
            pa.field("frame", pa.int32(), nullable=False),
            pa.field("time", pa.float64(), nullable=False),
            *(pa.field(name, pa.float32(), nullable=False) for name in vectors),
            *(pa.field(name, pa.float32()) for name in CELL),
            pa.field(STEP, pa.int64()),
        ]
    )


def capacity(atoms: int, frames: int | None) -> int:
    """How many records a cube keeps: those of the leaves, and some more."""
    least, usual = CAPACITIES
    if frames is None:
        return usual
    rows = atoms * frames / FRAMES_FIRST
    while rows > LEAF_ROWS:
        rows /= 2 ** len(DIMENSIONS)
    # Some places are denser than others.
    return max(least, math.ceil(1.5 * rows))


def domains(positions: Array, frames: int | None) -> dict[str, tuple[float, float] | None]:
    """Where the values of the dimensions lie, as one frame suggests it."""
    import numpy as np

    domain: dict[str, tuple[float, float] | None] = {"frame": (0, frames) if frames else None}
    for name, values in zip(POSITION, positions.T, strict=True):
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        # Atoms in one plane, or a single atom: an Angstrom is as good as any other extent.
        extent = max(high - low, 1.0)
        begin = low - DRIFT * extent
        domain[name] = (begin, begin + FRAMES_FIRST * (1 + 2 * DRIFT) * extent)
    return domain
