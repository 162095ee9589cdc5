"""Tables as trajectories of ASE, through its entry point for formats.

>>> ase.io.write("run.kubist", images)
>>> ase.io.read("run.kubist", index=":", format="kubist")    # a folder is a format of ASE

Images have ASE's units (angstrom, its own time unit, eV); tables have angstrom, ps and kJ/mol.
Cells in other orientations are rotated to ASE's `standard_form`, with all positions.
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
"""The object of the entry point ``ase.ioformats``."""

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
"""Accepted names of the units that ASE needs; Kubist writes the first."""


def read_kubist(filename: str, index: Any = -1) -> Iterator[Atoms]:
    """Yields the frames of ``index``: a number or a slice."""
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
    """Writes images of the same atoms, one frame each.

    Raises
    ------
    TableExists
        Something exists at ``filename``, and ``append`` is not set.
    InvalidInput
        An image has other elements than the first.
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
