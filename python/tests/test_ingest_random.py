"""Random files of particle codes, compared with the libraries that wrote them.

It tests GADGET in HDF5, H5Part, LAMMPS, OpenFOAM, openPMD, PLY, trajectories, VTK and XYZ with
KUBIST_FORMAT_SEEDS random files, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import gzip
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
    if kind[0] == "f":
        made = (rng.normal(size=shape) * 10.0 ** rng.integers(-5, 6)).astype(kind)
        made[rng.random(shape) < 0.1] = 0
        return made
    info = np.iinfo(kind)
    made = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    made[rng.random(shape) < 0.1] = rng.choice(np.array([info.min, info.max], kind))
    return made


def columns(rng: np.random.Generator, rows: int, kinds: tuple[str, ...] = NUMBERS) -> dict[str, Array]:
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
    # Exported again, all columns are point data of one component.
    table = kubist.open(tmp_path / "t.kubist")
    table.query(order_by="n").write(tmp_path / "back.vtp")
    back = pyvista.read(tmp_path / "back.vtp")
    for axis, name in enumerate("xyz"):
        same(ours[name], back.points[:, axis], name)
    for name in set(ours) - set("xyz"):
        same(ours[name], back.point_data[name], name)


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


@seeds
def test_random_gadget(tmp_path: Path, seed: int) -> None:
    h5py = need("h5py")
    rng = np.random.default_rng(seed)
    files, number = int(rng.integers(1, 4)), 0
    kinds = {f"Field{i}": str(rng.choice(NUMBERS)) for i in range(3)}
    ids = rng.permutation(1000).astype(str(rng.choice(["u4", "u8"])))
    every: list[dict[str, Any]] = []
    counts = rng.integers(0, 6, (files, 6))
    counts[0, 0] += 1
    for part in range(files):
        with h5py.File(tmp_path / f"s.{part}.hdf5", "w") as out:
            head = out.create_group("Header").attrs
            head.update({"Time": 0.5, "NumFilesPerSnapshot": files, "MassTable": np.zeros(6)})
            head["NumPart_ThisFile"], head["NumPart_Total"] = counts[part], counts.sum(axis=0)
            for kind, count in enumerate(counts[part]):
                if not count:
                    continue
                group = out.create_group(f"PartType{kind}")
                own: dict[str, Array] = {"Coordinates": positions(rng, count)}
                own["ParticleIDs"] = ids[number : number + count]
                # All files or none have a field of a type.
                own |= {n: values(rng, k, count) for i, (n, k) in enumerate(kinds.items()) if i != kind % 4}
                for name, array in own.items():
                    group[name] = array
                for row in range(count):
                    found = {name: array[row] for name, array in own.items()}
                    every.append({"type": kind, **found})
                number += count
    report = kubist.ingest(tmp_path / "t.kubist", [tmp_path / f"s.{i}.hdf5" for i in range(files)])
    assert not report.left_out and report.rows == len(every)
    ours = kubist.open(tmp_path / "t.kubist").query(order_by="ParticleIDs").to_arrow().to_pydict()
    every.sort(key=lambda row: int(row["ParticleIDs"]))
    for name in ("type", "ParticleIDs", *kinds):
        expected = [np.asarray(row[name]).item() if name in row else None for row in every]
        same(ours.get(name, [None] * len(every)), expected, name)
    for axis, name in enumerate("xyz"):
        same(ours[name], [row["Coordinates"][axis] for row in every], name)


@seeds
def test_random_trajectories(tmp_path: Path, seed: int) -> None:
    mda = need("MDAnalysis")
    rng = np.random.default_rng(seed)
    atoms, frames = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    ending = str(rng.choice(["xtc", "trr", "dcd"]))
    universe = mda.Universe.empty(atoms, trajectory=True, velocities=ending == "trr")
    file = tmp_path / f"a.{ending}"
    with mda.Writer(str(file), atoms) as out:
        for _ in range(frames):
            universe.atoms.positions = positions(rng, atoms).astype("f4")
            if ending == "trr":
                universe.atoms.velocities = positions(rng, atoms).astype("f4")
            universe.dimensions = [*rng.uniform(30, 60, 3), 90, 90, 90]
            out.write(universe.atoms)
    theirs = mda.Universe(str(file), to_guess=())
    ours, report = taken(tmp_path, file, ["frame", "atom"])
    assert not report.left_out
    every = [(ts.positions.copy(), ts.velocities.copy() if ending == "trr" else None) for ts in theirs.trajectory]
    for axis, name in enumerate("xyz"):
        same(ours[name], np.concatenate([place[:, axis] for place, _ in every]), name)
        if ending == "trr":
            same(ours[f"v{name}"], np.concatenate([speed[:, axis] for _, speed in every]), name)


HEADER = 'FoamFile {{ version 2.0; format {}; arch "LSB;label={};scalar=64"; class {}; object a; }}\n'
LISTS = {"label": 1, "scalar": 1, "vector": 3, "symmTensor": 6}
"""Classes of fields, with the number of components."""


def foam(file: Path, kind: str, array: Array, is_binary: bool, is_packed: bool) -> None:
    """Writes an OpenFOAM list; the number of a cell follows each position."""
    label = array.dtype if array.dtype.kind == "i" else np.dtype("i4")
    name = "Cloud" if kind == "Cloud" else f"{kind}Field"
    head = HEADER.format("binary" if is_binary else "ascii", 8 * label.itemsize, name).encode()
    if is_binary and kind == "Cloud":
        body = b"\n".join(b"(" + row.tobytes() + np.array(0, "i4").tobytes() + b")" for row in array)
    elif is_binary:
        body = array.tobytes()
    else:
        rows = [" ".join(map(repr, row)) for row in array.reshape(len(array), int(np.prod(array.shape[1:]))).tolist()]
        if kind == "Cloud":
            rows = [f"({row}) 0" for row in rows]
        elif array.ndim > 1:
            rows = [f"({row})" for row in rows]
        body = "\n".join(rows).encode()
    begin, end = (b"(", b")") if is_binary and kind != "Cloud" else (b"(\n", b"\n)")
    data = head + f"{len(array)}\n".encode() + begin + body + end + b"\n"
    if is_packed:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(data))
    else:
        file.write_bytes(data)


@seeds
def test_random_openfoam(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case, ranks = tmp_path / "case", int(rng.integers(1, 4))
    kinds = {f"f{i}": str(rng.choice(list(LISTS))) for i in range(3)}
    every: list[dict[str, Any]] = []
    for time in range(int(rng.integers(1, 4))):
        there = [name for name in kinds if rng.random() < 0.7]
        for rank in range(ranks):
            folder = case if ranks == 1 else case / f"processor{rank}"
            cloud = folder / f"{time * 0.5:g}" / "lagrangian" / "c"
            cloud.mkdir(parents=True)
            count = int(rng.integers(0, 6)) + (time == rank == 0)
            is_binary, is_packed = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
            own: dict[str, Array] = {"place": positions(rng, count)}
            own["origProcId"], own["origId"] = np.full(count, rank, "i4"), np.arange(count, dtype="i4")
            foam(cloud / "positions", "Cloud", own["place"], is_binary, is_packed)
            for name in ("origProcId", "origId"):
                foam(cloud / name, "label", own[name], is_binary, is_packed)
            for name in there:
                kind = kinds[name]
                width = LISTS[kind]
                shape = (count,) if width == 1 else (count, width)
                own[name] = values(rng, "i4" if kind == "label" else "f8", *shape)
                foam(cloud / name, kind, own[name], is_binary, is_packed)
            every += [{"time": time * 0.5, **{n: a[i] for n, a in own.items()}} for i in range(count)]
    ours, report = taken(tmp_path, case, ["time", "origProcId", "origId"])
    assert not report.left_out and report.rows == len(every)
    for axis, name in enumerate("xyz"):
        same(ours[name], [row["place"][axis] for row in every], name)
    for name, kind in kinds.items():
        width = LISTS[kind]
        for i in range(width):
            column = name if width == 1 else f"{name}_{'xyz'[i] if width == 3 else i}"
            expected = [np.ravel(row[name])[i].item() if name in row else None for row in every]
            same(ours.get(column, [None] * len(every)), expected, column)
