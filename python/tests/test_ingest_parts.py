"""File parts with other units and types: groups, species, particle types, steps, pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ingested import need
from pyarrow import parquet

import kubist

h5py = need("h5py")
POSITIONS = np.arange(12.0).reshape(2, 2, 3)


def ingested(file: Path, *order: str) -> tuple[dict[str, list[Any]], kubist.Report, Any]:
    table = file.with_suffix(".kubist")
    report = kubist.ingest(table, file)
    found = kubist.open(table)
    rows = found.query(order_by=list(order)).to_arrow()
    return rows.to_pydict(), report, {f.name: (f.metadata or {}).get(b"unit") for f in rows.schema}


def h5md(file: Path, **groups: dict[str, Any]) -> Path:
    with h5py.File(file, "w") as opened:
        opened.create_group("h5md").attrs["version"] = [1, 1]
        for name, about in groups.items():
            group = opened.create_group(f"particles/{name}/position")
            group["value"], group["step"] = POSITIONS.astype(about["type"]), [0, 1]
            group["time"] = [0.0, 1.0]
            group["value"].attrs["unit"], group["time"].attrs["unit"] = (
                about["unit"],
                about["clock"],
            )
            opened[f"particles/{name}/charge"] = np.asarray(about["charge"])
    return file


def test_groups_of_h5md_have_units_of_their_own(tmp_path: Path) -> None:
    file = h5md(
        tmp_path / "run.h5",
        a={"type": "f8", "unit": "nm", "clock": "ps", "charge": np.array([1, 2], "i4")},
        b={"type": "f8", "unit": "Angstrom", "clock": "fs", "charge": [0.5, -0.5]},
    )
    rows, _, units = ingested(file, "group", "time", "id")
    assert (units["x"], units["time"]) == (b"nm", b"ps")
    assert rows["x"] == pytest.approx([0, 3, 6, 9, 0, 0.3, 0.6, 0.9])
    assert rows["time"] == pytest.approx([0, 0, 1, 1, 0, 0, 1e-3, 1e-3])
    assert rows["charge"] == [1, 2, 1, 2, 0.5, -0.5, 0.5, -0.5]


def test_groups_of_h5md_that_no_type_holds(tmp_path: Path) -> None:
    file = h5md(
        tmp_path / "run.h5",
        a={"type": "f8", "unit": "nm", "clock": "ps", "charge": [True, False]},
        b={"type": "f8", "unit": "nm", "clock": "ps", "charge": [0.5, -0.5]},
    )
    with pytest.raises(
        kubist.InvalidInput, match=r"run\.h5: particles/b: column charge is double.*bool"
    ):
        kubist.ingest(tmp_path / "t.kubist", file)
    assert not (tmp_path / "t.kubist").exists()


def test_steps_of_h5part(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5part", "w") as file:
        for number, (unit, kind) in enumerate([("m", "f4"), ("mm", "f8")]):
            step = file.create_group(f"Step#{10 * number}")
            for name in "xyz":
                step[name] = np.arange(3.0)
                step[name].attrs["unit"] = unit
            step["q"] = np.array([1, 2, 1e300 if number else 3]).astype(kind)
    rows, _, _ = ingested(tmp_path / "run.h5part", "step", "x")
    assert rows["x"] == pytest.approx([0, 1, 2, 0, 0.001, 0.002])
    assert rows["q"] == [1, 2, 3, 1, 2, 1e300]
    table = kubist.open(tmp_path / "run.kubist")
    assert table.snapshot().complete_steps() == [0, 10]
    assert table.count(steps=10) == 3


def gadget(file: Path, types: dict[int, dict[str, Any]]) -> Path:
    with h5py.File(file, "w") as opened:
        counts = [len(types[n]["Q"]) if n in types else 0 for n in range(6)]
        opened.create_group("Header").attrs.update(
            {
                "NumPart_ThisFile": counts,
                "NumPart_Total": counts,
                "MassTable": np.zeros(6),
                "Time": 0.5,
            }
        )
        for number, about in types.items():
            many = len(about["Q"])
            group = opened.create_group(f"PartType{number}")
            group["Coordinates"] = np.arange(3.0 * many).reshape(many, 3)
            group["ParticleIDs"] = np.arange(many) + 10 * number
            group["Q"] = about["Q"]
            if "unit" in about:
                group["Q"].attrs["units"] = about["unit"]
    return file


def test_types_of_particles_have_units_and_types_of_their_own(tmp_path: Path) -> None:
    types = {
        0: {"Q": np.array([1, 2], "f4"), "unit": "g/cm^3"},
        1: {"Q": np.array([1e60, 5e3]), "unit": "kg/m^3"},
    }
    file = gadget(tmp_path / "a.hdf5", types)
    rows, _, _ = ingested(file, "ParticleIDs")
    assert rows["Q"] == pytest.approx([1, 2, 1e57, 5])
    types = {0: {"Q": np.array([1], "u4")}, 1: {"Q": np.array([2**40, 2**64 - 1], "u8")}}
    file = gadget(tmp_path / "b.hdf5", types)
    assert ingested(file, "ParticleIDs")[0]["Q"] == [1, 2**40, 2**64 - 1]


def test_names_of_types_and_types_beyond_the_header(tmp_path: Path) -> None:
    file = gadget(tmp_path / "a.hdf5", {0: {"Q": np.ones(2)}})
    with h5py.File(file, "a") as opened:
        opened["GasParticles"] = h5py.SoftLink("/PartType0")
        opened["PartType7/Coordinates"] = np.ones((2, 3))
    _, report, _ = ingested(file, "ParticleIDs")
    assert list(report.left_out[str(file)]) == ["PartType7"]


def test_units_of_openpmd_differ_by_iteration_and_species(tmp_path: Path) -> None:
    io = need("openpmd_api")
    series = io.Series(str(tmp_path / "run.h5"), io.Access.create)
    for number, factors in {0: {"e": 1e-22}, 10: {"e": 2e-22, "p": 1e-19}}.items():
        iteration = series.iterations[number]
        iteration.time = float(number)
        for name, factor in factors.items():
            species = iteration.particles[name]
            for record, axis, unit in [("position", "x", 1.0), ("momentum", "x", factor)]:
                component = species[record][axis]
                component.reset_dataset(io.Dataset(np.dtype("f8"), [2]))
                component.store_chunk(np.array([1.0, 2.0]))
                component.unit_SI = unit
            species["momentum"].unit_dimension = {
                io.Unit_Dimension.L: 1, io.Unit_Dimension.M: 1, io.Unit_Dimension.T: -1,
            }  # fmt: skip
            series.flush()
    series.close()
    rows, _, units = ingested(tmp_path / "run.h5", "iteration", "species", "x")
    assert units["momentum_x"] == b"1e-22 m kg s^-1"
    assert rows["momentum_x"] == pytest.approx([1, 2, 2, 4, 1000, 2000])


def test_pixels_of_hats_with_other_columns(tmp_path: Path) -> None:
    folder = tmp_path / "sky"
    pixels = folder / "dataset" / "Norder=0" / "Dir=0"
    pixels.mkdir(parents=True)
    (folder / "hats.properties").write_text("hats_nrows=4\nhats_col_ra=ra\nhats_col_dec=dec\n")
    place = {"ra": [1.0, 2.0], "dec": [1.0, 2.0]}
    one = pa.table({**place, "id": [1, 2], "n": pa.array([1, 2], pa.int16())})
    other = pa.table({**place, "id": [3, 4], "n": [1, 2**40], "late": [True, False]})
    parquet.write_table(one, pixels / "Npix=1.parquet")
    parquet.write_table(other, pixels / "Npix=2.parquet")
    rows, report, _ = ingested(folder, "id")
    assert not report.left_out
    assert rows["n"] == [1, 2, 1, 2**40]
    assert rows["late"] == [None, None, True, False]


def test_the_number_that_has_no_place_is_named(tmp_path: Path) -> None:
    table = tmp_path / "t.kubist"
    kubist.ingest(table, gadget(tmp_path / "a.hdf5", {0: {"Q": np.ones(2, "f4")}}))
    file = gadget(tmp_path / "b.hdf5", {1: {"Q": np.array([0.1, 1e60])}})
    with pytest.raises(
        kubist.InvalidInput, match=r"b\.hdf5: column Q, row 1: 1e60 has no place in float32"
    ):
        kubist.ingest(table, file, read={"time": 0.7})
    assert kubist.open(table).count() == 2
