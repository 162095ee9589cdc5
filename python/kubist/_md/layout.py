"""The layout of a trajectory in a table: columns, units, index.

The table has one row per atom and frame: ``atom`` and ``frame`` (from 0), ``time``, the position
and, if present, velocity and force. Values of a whole frame (unit cell, the solver's step) are in
the row of atom 0, and null in the other rows, where they take no space. The metadata has the number
of atoms (``trajectory``) and the ``topology``.

The dimensions are frame, x, y and z. The atoms occupy only the lowest quarter of the domain in
space, so the index divides frames two levels more than space. A zone then has few frames and a
small region, for programs that read frames. The capacity of a cube is about the number of rows in a
leaf, so few rows are above the leaves. The identity is the atom: samples are whole atoms.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from .topology import Topology

    Array = np.ndarray[Any, Any]

POSITION = ("x", "y", "z")
VELOCITY = ("vx", "vy", "vz")
FORCE = ("fx", "fy", "fz")
VECTORS = {"positions": POSITION, "velocities": VELOCITY, "forces": FORCE}
CELL = ("cell_a", "cell_b", "cell_c", "cell_alpha", "cell_beta", "cell_gamma")
STEP = "step"
DIMENSIONS = ("frame", *POSITION)

# Ratio of the domain in space to the extent of the atoms. The domain is halved twice before it
# divides atoms. With a larger ratio, the engine would learn another grid from the first commit.
FRAMES_FIRST = 4
# Margin for atoms that leave the first frame, as a fraction of its extent. A larger margin leaves
# few atoms in border cells.
DRIFT = 1 / 32
# Maximum number of rows in a leaf. A leaf of the next level, below the two levels that only divide
# frames, has a sixteenth.
LEAF_ROWS = 1 << 16
CAPACITIES = (2048, 16384)
"""Capacities of a cube: the minimum, and the capacity for an unknown number of frames."""

# MDAnalysis and the engine share these names; in SI and the engine, `A` is the ampere.
UNITS: Mapping[str, str] = {
    "time": "ps",
    **dict.fromkeys(POSITION, "Angstrom"),
    **dict.fromkeys(VELOCITY, "Angstrom/ps"),
    **dict.fromkeys(FORCE, "kJ/(mol*Angstrom)"),
    **dict.fromkeys(CELL[:3], "Angstrom"),
    **dict.fromkeys(CELL[3:], "degree"),
}


def schema(velocities: bool, forces: bool, sparse: Collection[str] = ()) -> pa.Schema:
    """The columns of a trajectory with or without velocities and forces.

    ``sparse`` names the vectors that some frames lack.
    """
    import pyarrow as pa

    vectors = [*POSITION, *(VELOCITY if velocities else ()), *(FORCE if forces else ())]
    lacking = {column for what in sparse for column in VECTORS[what]}
    return pa.schema(
        [
            pa.field("atom", pa.int32(), nullable=False),
            pa.field("frame", pa.int32(), nullable=False),
            pa.field("time", pa.float64(), nullable=False),
            *(pa.field(name, pa.float32(), nullable=name in lacking) for name in vectors),
            *(pa.field(name, pa.float32()) for name in CELL),
            pa.field(STEP, pa.int64()),
        ]
    )


ATOMS = {"name": "names", "resname": "resnames", "resid": "resids", "element": "elements"}
"""Columns that describe atoms, and the attributes of a topology that they contain."""


def atom_columns(topology: Topology) -> dict[str, pa.Array]:
    """One value per atom: strings as dictionaries, numbers of residues as integers."""
    import numpy as np
    import pyarrow as pa

    columns = {}
    for name, attribute in ATOMS.items():
        known = topology.attributes.get(attribute)
        if known is None or known.guessed:
            continue
        values = known.values
        if known.level == "residue":
            values = values[topology.residue_of_atom]
        if values.dtype.kind in "iu":
            columns[name] = pa.array(values.astype(np.int32))
        elif values.dtype.kind in "OU":
            texts, codes = np.unique(values.astype(str), return_inverse=True)
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes.astype(np.int32)), pa.array(texts.tolist(), pa.string())
            )
    return columns


def capacity(atoms: int, frames: int | None) -> int:
    """The capacity of a cube: the expected rows of a leaf, and a reserve."""
    least, usual = CAPACITIES
    if frames is None:
        return usual
    rows = atoms * frames / FRAMES_FIRST
    while rows > LEAF_ROWS:
        rows /= 2 ** len(DIMENSIONS)
    # Atoms are denser in some regions.
    return max(least, math.ceil(1.5 * rows))


def domains(positions: Array, frames: int | None) -> dict[str, tuple[float, float] | None]:
    """The domains of the dimensions, estimated from one frame."""
    import numpy as np

    domain: dict[str, tuple[float, float] | None] = {"frame": (0, frames) if frames else None}
    for name, values in zip(POSITION, positions.T, strict=True):
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        # Use 1 Angstrom for atoms in one plane, or for a single atom.
        extent = max(high - low, 1.0)
        begin = low - DRIFT * extent
        domain[name] = (begin, begin + FRAMES_FIRST * (1 + 2 * DRIFT) * extent)
    return domain
