"""Random files of particle codes, compared with the libraries that wrote them.

H5Part, LAMMPS, openPMD, PLY, VTK, XYZ. The other formats have their random files in their own modules.
KUBIST_FORMAT_SEEDS random files, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import need

import kubist

pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))
seeds = pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
Array = np.ndarray[Any, Any]
NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def values(rng: np.random.Generator, kind: str, *shape: int) -> Array:
    """Random values of a type, its extremes among them."""
    if kind[0] == "f":
        made = (rng.normal(size=shape) * 10.0 ** rng.integers(-5, 6)).astype(kind)
        made[rng.random(shape) < 0.1] = 0
        return made
    info = np.iinfo(kind)
    made = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    made[rng.random(shape) < 0.1] = rng.choice(np.array([info.min, info.max], kind))
    return made


def columns(rng: np.random.Generator, rows: int, kinds: tuple[str, ...] = NUMBERS) -> dict[str, Array]:
    """Columns besides positions, by name."""
    count = int(rng.integers(0, 5))
    return {f"c{i}": values(rng, str(rng.choice(kinds)), rows) for i in range(count)}


def positions(rng: np.random.Generator, rows: int) -> Array:
    return rng.normal(size=(rows, 3)) * 10


def taken(folder: Path, file: Path, order: list[str]) -> tuple[dict[str, list[Any]], kubist.Report]:
    report = kubist.ingest(folder / "t.kubist", file)
    found = kubist.open(folder / "t.kubist").query(order_by=order).to_arrow()
    return found.to_pydict(), report


def same(ours: list[Any], theirs: Any, what: str) -> None:
    __tracebackhide__ = True
    theirs = [None if value is None else value for value in np.asarray(theirs, object).tolist()]
    assert ours == theirs, what


@seeds
def test_random_ply(tmp_path: Path, seed: int) -> None:
    plyfile = need("plyfile")
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    # PLY has no integers of 64 bits.
    own = columns(rng, rows, NUMBERS[:6] + NUMBERS[8:])
    place = positions(rng, rows).astype(str(rng.choice(["f4", "f8"])))
    every = {"n": np.arange(rows, dtype="i4"), **dict(zip("xyz", place.T, strict=True)), **own}
    data = np.rec.fromarrays(list(every.values()), names=list(every))
    how = {"text": bool(rng.random() < 0.3), "byte_order": str(rng.choice(["<", ">"]))}
    element = plyfile.PlyElement.describe(np.asarray(data), "vertex")
    plyfile.PlyData([element], **how).write(tmp_path / "a.ply")
    theirs = plyfile.PlyData.read(tmp_path / "a.ply")["vertex"]
    ours, report = taken(tmp_path, tmp_path / "a.ply", ["n"])
    assert set(ours) == set(every) and not report.left_out
    for name in every:
        same(ours[name], np.asarray(theirs[name]), name)


@seeds
def test_random_vtk(tmp_path: Path, seed: int) -> None:
    pyvista = need("pyvista")
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    mesh: Any = pyvista.PolyData(positions(rng, rows).astype(str(rng.choice(["f4", "f8"]))))
    mesh.point_data["n"] = np.arange(rows)
    for name, array in columns(rng, rows).items():
        mesh.point_data[name] = array
    mesh.point_data["v"] = values(rng, "f8", rows, int(rng.integers(2, 10)))
    ending = str(rng.choice(["vtp", "vtu", "vtk"]))
    mesh = mesh if ending == "vtp" else mesh.cast_to_unstructured_grid()
    file = tmp_path / f"a.{ending}"
    mesh.save(file, binary=bool(rng.random() < 0.7))
    theirs = pyvista.read(file)
    ours, report = taken(tmp_path, file, ["n"])
    assert not report.left_out
    for axis, name in enumerate("xyz"):
        same(ours[name], theirs.points[:, axis], name)
    for name in theirs.point_data:
        array = np.asarray(theirs.point_data[name])
        for i, part in enumerate(array.T if array.ndim > 1 else [array]):
            same(ours[f"{name}_{i}" if array.ndim > 1 else name], part, name)


@seeds
def test_random_xyz(tmp_path: Path, seed: int) -> None:
    ase = need("ase")
    io = need("ase.io")
    rng = np.random.default_rng(seed)
    frames = []
    for _ in range(int(rng.integers(1, 4))):
        atoms = int(rng.integers(1, 9))
        made = ase.Atoms(rng.choice(["H", "C", "Fe"], atoms), positions(rng, atoms))
        if rng.random() < 0.5:
            made.cell, made.pbc = np.diag(rng.uniform(1, 9, 3)), rng.random(3) < 0.5
        made.arrays["w"] = rng.normal(size=atoms)
        made.arrays["label"] = rng.choice(["a", "b2"], atoms)
        made.info["count"] = int(rng.integers(0, 99))
        made.info["vector"] = rng.normal(size=3)
        frames.append(made)
    io.write(tmp_path / "a.xyz", frames, format="extxyz")
    theirs = io.read(tmp_path / "a.xyz", index=":")
    ours, report = taken(tmp_path, tmp_path / "a.xyz", ["frame", "atom"])
    assert not report.left_out
    for axis, name in enumerate("xyz"):
        same(ours[name], np.concatenate([a.positions[:, axis] for a in theirs]), name)
        spread = [np.full(len(a), a.info["vector"][axis]) for a in theirs]
        same(ours[f"vector_{name}"], np.concatenate(spread), name)
        same(ours[f"pbc_{'abc'[axis]}"], np.concatenate([[a.pbc[axis]] * len(a) for a in theirs]), name)
    for name in ("w", "label"):
        same(ours[name], np.concatenate([a.arrays[name] for a in theirs]), name)
    same(ours["count"], np.concatenate([[a.info["count"]] * len(a) for a in theirs]), "count")
    cells = np.concatenate([[a.cell[1][1] if a.cell.any() else None] * len(a) for a in theirs])
    same(ours.get("cell_by", [None] * len(cells)), cells, "cell_by")


@seeds
def test_random_lammps(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, every = [], []
    units = str(rng.choice(["", "real", "lj"]))
    scaled = bool(rng.random() < 0.3)
    for step in np.cumsum(rng.integers(1, 1000, int(rng.integers(1, 4)))):
        atoms = int(rng.integers(1, 9))
        low, high = rng.uniform(-9, 0, 3), rng.uniform(1, 9, 3)
        place = rng.random((atoms, 3)) if scaled else positions(rng, atoms)
        names = [f"v_{i}" for i in range(int(rng.integers(0, 3)))]
        more = rng.normal(size=(atoms, len(names)))
        text += [f"ITEM: UNITS\n{units}"] if units and not text else []
        text += [f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{atoms}", "ITEM: BOX BOUNDS pp ff ss"]
        text += [f"{float(a)!r} {float(b)!r}" for a, b in zip(low, high, strict=True)]
        axes = "xs ys zs" if scaled else "x y z"
        text.append(f"ITEM: ATOMS id type {axes} element {' '.join(names)}".rstrip())
        for atom in rng.permutation(atoms):
            numbers = [repr(float(value)) for value in (*place[atom], *more[atom])]
            text.append(f"{atom + 1} {atom % 3} {' '.join(numbers[:3])} Fe {' '.join(numbers[3:])}")
        true = low + place * (high - low) if scaled else place
        for atom in range(atoms):
            found = dict(zip(names, more[atom].tolist(), strict=True))
            every.append({"step": int(step), "id": atom + 1, "place": true[atom], **found})
    file = tmp_path / "a.lammpstrj"
    body = ("\n".join(text) + "\n").encode()
    ours, report = {}, None
    if rng.random() < 0.3:
        gzip = need("gzip")
        file = tmp_path / "a.lammpstrj.gz"
        body = gzip.compress(body)
    file.write_bytes(body)
    ours, report = taken(tmp_path, file, ["step", "id"])
    assert not report.left_out
    same(ours["step"], [row["step"] for row in every], "step")
    same(ours["id"], [row["id"] for row in every], "id")
    for axis, name in enumerate("xyz"):
        # The lower end of a box, and a fraction of its length.
        np.testing.assert_allclose(ours[name], [row["place"][axis] for row in every], rtol=0, atol=1e-14)
    for name in {key for row in every for key in row if key.startswith("v_")}:
        same(ours[name], [row.get(name) for row in every], name)


@seeds
def test_random_h5part(tmp_path: Path, seed: int) -> None:
    h5py = need("h5py")
    rng = np.random.default_rng(seed)
    file = tmp_path / "a.h5part"
    kinds = {f"c{i}": str(rng.choice(NUMBERS)) for i in range(3)}
    with h5py.File(file, "w") as out:
        for step in range(int(rng.integers(1, 4))):
            group = out.create_group(f"Step#{step * 7}")
            group.attrs["TimeValue"] = [step * 0.5]
            rows = int(rng.integers(1, 30))
            group["id"] = np.arange(rows)
            for axis in "xyz":
                group[axis] = rng.normal(size=rows)
            for name, kind in kinds.items():
                if rng.random() < 0.7:
                    group[name] = values(rng, kind, rows)
    ours, report = taken(tmp_path, file, ["time", "id"])
    assert not report.left_out
    with h5py.File(file) as theirs:
        steps = sorted(theirs, key=lambda name: int(name[5:]))
        for name in ("x", "y", "z", "id", *kinds):
            parts = [
                np.asarray(theirs[s][name]).tolist() if name in theirs[s] else [None] * len(theirs[s]["x"])
                for s in steps
            ]
            whole = [value for part in parts for value in part]
            same(ours.get(name, [None] * len(whole)), whole, name)


@seeds
def test_random_openpmd(tmp_path: Path, seed: int) -> None:
    io = need("openpmd_api")
    rng = np.random.default_rng(seed)
    file = tmp_path / f"a.{rng.choice(['h5', 'json', 'bp'])}"
    kinds = {f"c{i}": str(rng.choice(NUMBERS)) for i in range(3)}
    every: list[dict[str, Any]] = []
    series = io.Series(str(file), io.Access.create)

    def store(component: Any, array: Array) -> None:
        component.reset_dataset(io.Dataset(array.dtype, array.shape))
        component[:] = array
        series.flush()

    for number in range(int(rng.integers(1, 4))):
        iteration = series.iterations[number * 5]
        iteration.time = float(number)
        rows = int(rng.integers(1, 20))
        particles = iteration.particles["e"]
        step: dict[str, Any] = {"id": np.arange(rows, dtype="u8")}
        store(particles["id"][io.Record_Component.SCALAR], step["id"])
        for axis in "xyz":
            step[axis] = rng.normal(size=rows)
            store(particles["position"][axis], step[axis])
        for name, kind in kinds.items():
            if rng.random() < 0.7:
                step[name] = values(rng, kind, rows)
                store(particles[name][io.Record_Component.SCALAR], step[name])
        every.append(step)
    series.close()
    ours, report = taken(tmp_path, file, ["time", "id"])
    assert not report.left_out
    for name in ("id", "x", "y", "z", *kinds):
        whole = [v for s in every for v in (s[name].tolist() if name in s else [None] * len(s["x"]))]
        same(ours.get(name, [None] * len(whole)), whole, name)
