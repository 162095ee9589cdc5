"""Tables as trajectories of ASE, through the declared entry point."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ase", reason="ASE is not installed: pip install ase")

import ase.build
import ase.io
from ase import units
from ase.calculators.emt import EMT
from ase.md.verlet import VelocityVerlet

import kubist
from kubist.ase import read_kubist, write_kubist

pytestmark = pytest.mark.filterwarnings("default")
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


@pytest.fixture(scope="module")
def images() -> list[ase.Atoms]:
    atoms = ase.build.fcc111("Cu", (2, 2, 3), vacuum=6)
    ase.build.add_adsorbate(atoms, "O", 1.8, "ontop")
    atoms.pbc = True
    atoms.calc = EMT()
    atoms.set_velocities(np.random.default_rng(3).normal(0, 0.01, (len(atoms), 3)))
    images, run = [], VelocityVerlet(atoms, 2 * units.fs)
    for _ in range(6):
        run.run(3)
        image = atoms.copy()
        image.calc = ase.calculators.singlepoint.SinglePointCalculator(
            image, forces=atoms.get_forces()
        )
        image.info["time"] = run.get_time()
        images.append(image)
    return images


def test_images_come_back(path: Path, images: list[ase.Atoms]) -> None:
    write_kubist(str(path), images)
    back = list(read_kubist(str(path), slice(None)))
    assert len(back) == len(images)
    for ours, theirs in zip(back, images, strict=True):
        assert ours.get_chemical_symbols() == theirs.get_chemical_symbols()
        assert (ours.positions == theirs.positions.astype(np.float32)).all()
        np.testing.assert_allclose(ours.cell, theirs.cell, atol=1e-5)
        np.testing.assert_allclose(ours.get_velocities(), theirs.get_velocities(), rtol=1e-6)
        np.testing.assert_allclose(ours.get_forces(), theirs.get_forces(), rtol=1e-5, atol=1e-6)
        assert ours.info["time"] == pytest.approx(theirs.info["time"])
    (last,) = read_kubist(str(path))
    assert (last.positions == back[-1].positions).all()
    assert [a.info["time"] for a in read_kubist(str(path), slice(1, None, 2))] == [
        a.info["time"] for a in back[1::2]
    ]


def test_a_cell_in_another_orientation(path: Path) -> None:
    atoms = ase.build.bulk("Cu")
    atoms.rattle(0.1, seed=4)
    turned = atoms.repeat(2)
    write_kubist(str(path), [turned])
    (back,) = read_kubist(str(path))
    np.testing.assert_allclose(
        back.get_all_distances(mic=True), turned.get_all_distances(mic=True), atol=1e-5
    )
    np.testing.assert_allclose(
        back.get_scaled_positions(), turned.get_scaled_positions(), atol=1e-5
    )


def test_other_atoms_are_refused(path: Path, images: list[ase.Atoms]) -> None:
    with pytest.raises(kubist.InvalidInput, match="image 1 has other elements"):
        write_kubist(str(path), [images[0], images[1][:-1]])
    other = path.with_name("other.kubist")
    write_kubist(str(other), images[:1])
    with pytest.raises(kubist.TableExists):
        write_kubist(str(other), images[:1])
    write_kubist(str(other), images[1:], append=True)
    assert len(list(read_kubist(str(other), slice(None)))) == len(images)


def test_ase_finds_the_format_by_itself(tmp_path: Path, run_python: Callable) -> None:
    """Registers the entry point like an installation."""
    declared = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["ase.ioformats"]
    info = tmp_path / "kubist-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kubist\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in declared.items()]
    (info / "entry_points.txt").write_text("\n".join(["[ase.ioformats]", *lines]))
    done = run_python(
        """
        import sys
        sys.path[:0] = sys.argv[1:]
        import ase.build, ase.io
        atoms = ase.build.molecule("CH3CH2OH")
        ase.io.write(sys.argv[1] + "/ethanol.kubist", [atoms, atoms])
        back = ase.io.read(sys.argv[1] + "/ethanol.kubist", index=":", format="kubist")
        print(len(back), back[1].get_chemical_formula())
        """,
        tmp_path,
        Path(kubist.__file__).parents[1],
    )
    assert done.stdout == "2 C2H6O\n", done.stderr
