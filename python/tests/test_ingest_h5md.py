"""H5MD, compared with h5py: elements written at different steps, changing boxes, and all types.

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

h5py = need("h5py")
pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))


def element(group: Any, name: str, steps: list[int], values: Any) -> None:
    group[f"{name}/value"], group[f"{name}/step"] = np.asarray(values), steps
    group[f"{name}/time"] = np.asarray(steps, float) / 2


def test_a_box_that_changes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        group = file.create_group("particles/a")
        element(group, "position", [0, 1, 2], np.ones((3, 2, 3)))
        element(group, "box/edges", [0, 2], [[9.0, 9, 9], [12, 9, 9]])
        group["box"].attrs["dimension"] = 3
        group["box"].attrs["boundary"] = [b"periodic"] * 3
        element(group, "force", [0, 5, 7], np.ones((3, 2, 3)))
        group["species"] = np.array([b"Si", b"O"])
        group["pairs"] = np.zeros((5, 2))
        group["solid"] = np.array([True, False])
        file["observables/energy/value"] = [1.0]
        file.create_group("particles/walls")
    report = kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5")
    table = kubist.open(tmp_path / "t.kubist")
    rows = table.query(order_by=["step", "id"]).to_arrow()
    assert rows["cell_ax"].to_pylist() == [9, 9, None, None, 12, 12]
    assert rows["species"].to_pylist() == ["Si", "O"] * 3
    assert rows["solid"].to_pylist() == [True, False] * 3
    assert table.metadata["h5md"]["box"]["a"] == {"dimension": 3, "boundary": ["periodic"] * 3}
    (left_out,) = report.left_out.values()
    for name in ("particles/a/pairs", "particles/walls", "observables"):
        assert name in left_out
    assert left_out["particles/a/force of 2 steps"] == "there are no positions of step 5"


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_files(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames, count = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    every = np.sort(rng.choice(50, frames, replace=False)).tolist()
    wanted: dict[tuple[int, int], dict[str, Any]] = {}
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        group = file.create_group("particles/a")
        positions = rng.normal(size=(frames, count, 3))
        element(group, "position", every, positions)
        ids = np.array([rng.permutation(count) for _ in every])
        element(group, "id", every, ids)
        for f, step in enumerate(every):
            for place in range(count):
                wanted[step, int(ids[f, place])] = {"x": positions[f, place, 0]}
        elements = [
            ("velocity", 3, "f4", "vx"),
            ("charge", 1, "f8", "charge"),
            ("image", 3, "i4", "image_0"),
        ]
        for name, width, kind, column in elements:
            if rng.random() < 0.3:
                fixed = rng.integers(-5, 5, (count, width) if width > 1 else count).astype(kind)
                group[name] = fixed
                at = {step: fixed for step in every}
            else:
                own = sorted(
                    rng.choice(every, int(rng.integers(1, frames + 1)), replace=False).tolist()
                )
                shape = (len(own), count, width) if width > 1 else (len(own), count)
                values = rng.integers(-5, 5, shape).astype(kind)
                element(group, name, own, values)
                at = dict(zip(own, values, strict=True))
            for f, step in enumerate(every):
                for place in range(count):
                    value = at.get(step)
                    first = None if value is None else value.reshape(count, width)[place, 0].item()
                    wanted[step, int(ids[f, place])][column] = first
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "run.h5")
    rows = kubist.open(tmp_path / "t.kubist").query().to_arrow().to_pylist()
    found = {
        (r["step"], r["id"]): {n: r[n] for n in ("x", "vx", "charge", "image_0")} for r in rows
    }
    assert found == wanted
