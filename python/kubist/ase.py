"""Reads and writes tables as trajectories of ASE, which finds this module by its entry point.

>>> ase.io.write("run.kubist", images)
>>> ase.io.read("run.kubist", index=":", format="kubist")

Reading needs ``format``, because a table is a folder, and ASE takes a folder for its own format.
Images (`ase.Atoms`) have ASE's units; tables have Angstrom, Angstrom/ps, kJ/(mol*Angstrom) and ps.

A table stores the lengths and angles of a cell, so images whose cell is not in ASE's
`standard_form` are rotated to it, with positions, velocities and forces. Positions are stored as
float32. When it is read, an image with a cell is periodic in all directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _create
from ._errors import InvalidInput
from ._libraries import need
from ._md.append import FrameWriter
from ._md.frames import Frames
from ._md.topology import Attribute, Topology

need("ase", "kubist.ase")

from ase import Atoms, units  # noqa: E402
from ase.calculators.singlepoint import SinglePointCalculator  # noqa: E402
from ase.geometry import cell_to_cellpar, cellpar_to_cell  # noqa: E402
from ase.utils.plugins import ExternalIOFormat  # noqa: E402

format = ExternalIOFormat(
    desc="Kubist table", code="+S", module="kubist.ase", glob="*.kubist", ext="kubist"
)
"""The value of the entry point ``ase.ioformats`` in pyproject.toml."""

PICOSECOND = 1000 * units.fs
FORCE = units.kJ / units.mol
"""1 kJ/(mol A) in ASE's unit of force."""
ELEMENTS = "elements"
USUAL = {
    "x": ("Angstrom", "A"),
    "vx": ("Angstrom/ps", "A/ps"),
    "fx": ("kJ/(mol*Angstrom)", "kJ/(mol*A)"),
    "time": ("ps",),
}
"""Accepted unit names by column; Kubist writes the first one. Other units are refused."""


def read_kubist(filename: str, index: Any = -1) -> Iterator[Atoms]:
    """Yields the frames that ``index`` selects, a number or a slice.

    ``atoms.info["time"]`` is the time of the frame, and atoms without an element get the symbol X.

    Raises
    ------
    InvalidInput
        A column has a unit other than those in `USUAL`.
    """
    with _create.open(filename) as table:
        frames = Frames(table, table.snapshot())
        for column, words in USUAL.items():
            if frames.units.get(column, words[0]) not in words:
                raise InvalidInput(
                    f"{filename}: column {column} is in {frames.units[column]!r}, "
                    f"not in {words[0]!r}, which ASE needs"
                )
        numbers = range(len(frames))[index]
        numbers = [numbers] if isinstance(numbers, int) else numbers
        attributes = frames.topology.attributes
        symbols = (
            attributes[ELEMENTS].values if ELEMENTS in attributes else ["X"] * len(frames.atoms)
        )
        known = [str(symbol).capitalize() or "X" for symbol in symbols]
        what = [name for name, there in frames.has.items() if there]
        for number in numbers:
            yield _atoms(known, frames, number, frames.read([number], what))


def _atoms(symbols: Sequence[str], frames: Frames, number: int, arrays: dict[str, Any]) -> Atoms:
    atoms = Atoms(symbols, positions=arrays["positions"][0])
    cell = None if frames.cells is None else frames.cells[number].astype(float)
    if cell is not None and not np.isnan(cell).any():
        atoms.set_cell(cellpar_to_cell(cell))
        atoms.pbc = True
    if "velocities" in arrays:
        atoms.set_velocities(arrays["velocities"][0].astype(float) / PICOSECOND)
    if "forces" in arrays:
        forces = arrays["forces"][0].astype(float) * FORCE
        atoms.calc = SinglePointCalculator(atoms, forces=forces)
    atoms.info["time"] = float(frames.times[number]) * PICOSECOND
    return atoms


def write_kubist(filename: str, images: Sequence[Atoms], append: bool = False) -> None:
    """Writes each image as a frame; all have the same elements in the same order.

    The time of a frame is ``image.info["time"]``, in ASE's unit.

    Raises
    ------
    TableExists
        Something exists at ``filename``, and ``append`` is False.
    InvalidInput
        The elements of an image differ from those of the first image.
    """
    symbols = images[0].get_chemical_symbols()
    count = len(symbols)
    topology = Topology.minimal(count)
    topology.attributes[ELEMENTS] = Attribute("atom", np.array(symbols, dtype=object))
    with FrameWriter(
        filename, count, topology=topology, append=append, frames=None if append else len(images)
    ) as writer:
        for number, image in enumerate(images):
            if image.get_chemical_symbols() != symbols:
                raise InvalidInput(f"image {number} has other elements than the first image")
            _write(writer, image)


def _write(writer: FrameWriter, image: Atoms) -> None:
    cell, turn = None, None
    if image.cell.rank == 3:
        _, turn = image.cell.standard_form()
        cell = cell_to_cellpar(image.cell)

    def turned(vectors: Any) -> Any:
        return vectors if turn is None or np.allclose(turn, np.eye(3)) else vectors @ turn.T

    time = image.info.get("time")
    writer.write(
        turned(image.positions).astype(np.float32),
        velocities=turned(image.get_velocities()) * PICOSECOND if image.has("momenta") else None,
        forces=turned(image.calc.results["forces"]) / FORCE
        if image.calc is not None and "forces" in image.calc.results
        else None,
        time=None if time is None else time / PICOSECOND,
        cell=cell,
    )
