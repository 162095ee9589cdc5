"""Samples that prefer rows by a weight or by strata, through Python and the command line.

`crates/engine/kubist/tests/weights.rs` compares them with an oracle.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

ROWS = 20_000


def spray(rows: int = ROWS) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(3)
    return {
        "pid": np.arange(rows),
        "x": random.random(rows),
        "diameter": 1e-5 * random.pareto(1.5, rows) + 1e-6,
        "ptype": np.where(np.arange(rows) % 1000 == 7, 5, np.arange(rows) % 2),
    }


def create(path: Path, storage: Any, **options: Any) -> kubist.Table:
    return kubist.create(path, spray(), ["x"], identity=["pid"], storage=storage, **options)


def test_a_weighted_sample_tells_the_inclusion_of_its_rows(tmp_path: Path) -> None:
    t = create(tmp_path / "t.kubist", {"weight": "diameter"})
    data = spray()
    assert t.info().sampling == "by weight diameter"
    assert "by weight diameter" in str(t.info())
    sample = t.query(sample=0.05, columns=["pid", "diameter", "inclusion"]).to_numpy()
    other = t.query(sample=0.05, columns=["pid"], inclusion="p").to_numpy()
    assert sorted(sample["inclusion"]) == sorted(other["p"])
    # In proportion to the diameter, up to 1.
    ratio = sample["inclusion"] / sample["diameter"]
    partial = sample["inclusion"] < 1
    assert np.ptp(ratio[partial]) < 1e-3 * ratio[partial].mean()
    assert 0.02 < len(sample["pid"]) / ROWS < 0.07
    total = (sample["diameter"] / sample["inclusion"]).sum()
    assert total == pytest.approx(data["diameter"].sum(), rel=0.02)
    assert sample["diameter"].mean() > 2 * data["diameter"].mean()
    truth = data["diameter"].mean()
    e = t.estimate("mean(diameter)", sample=0.05)
    assert e.low < truth < e.high
    assert e.value == pytest.approx(truth, rel=0.2)
    assert t.estimate("max(diameter)", sample=0.05).value == data["diameter"].max()
    with pytest.raises(kubist.InvalidInput, match="p95.*needs all rows"):
        t.estimate("p95(diameter)", sample=0.05)
    # Samples are nested, and the table has all rows.
    small = set(t.query(sample=0.01, columns=["pid"]).to_numpy()["pid"])
    assert small < set(sample["pid"])
    assert len(t.query(columns=["pid"]).to_numpy()["pid"]) == ROWS


def test_strata_are_in_every_sample(tmp_path: Path) -> None:
    t = create(tmp_path / "t.kubist", {"strata": ["ptype"]})
    assert (t.info().strata, t.info().sampling) == ("halvings", "by strata of ptype")
    sample = t.query(sample=0.005, columns=["ptype", "inclusion"]).to_numpy()
    # At least 0.005 * 20,000 / (2 * 3) rows per type are expected, or all 20 of the rare type.
    assert (sample["ptype"] == 5).sum() > 8
    rare = (1 / sample["inclusion"])[sample["ptype"] == 5].sum()
    assert 8 < rare < 40
    with pytest.raises(kubist.TableExists, match="weight or strata"):
        create(tmp_path / "t.kubist", {"weight": "diameter"}, exist_ok=True)


def test_samples_have_the_least_rows_of_each_of_many_strata(tmp_path: Path) -> None:
    data = spray()
    data["ptype"] = np.arange(ROWS) % 500
    data["ptype"][:50] = 1000 + np.arange(50) // 5
    storage: Any = {"strata": ["ptype"], "least": 10}
    t = kubist.create(tmp_path / "t.kubist", data, ["x"], identity=["pid"], storage=storage)
    assert t.info().sampling == "by strata of ptype, at least 10 rows of each in 1 %"
    sample = t.query(sample=0.01, columns=["ptype", "inclusion"]).to_numpy()
    kinds, found = np.unique(sample["ptype"], return_counts=True)
    # The ten rare types have 5 rows each. Of 40 rows of the others, about 10 are in the sample.
    assert len(kinds) == 510 and (found[-10:] == 5).all()
    assert 9 < found[:500].mean() < 11
    assert (1 / sample["inclusion"]).sum() == pytest.approx(ROWS, rel=0.1)
    e = t.estimate("mean(diameter)", group_by="ptype", sample=0.01).to_arrow().to_pydict()
    truths = [data["diameter"][data["ptype"] == kind].mean() for kind in kinds]
    assert np.mean([low <= truth <= high for low, truth, high in zip(e["low"], truths, e["high"], strict=True)]) > 0.6


def test_bad_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(kubist.InvalidInput, match="by a weight or by strata, not by both"):
        create(tmp_path / "a.kubist", {"weight": "diameter", "strata": ["ptype"]})
    for storage, said in (
        ({"least": 5}, "least: .*name the columns of strata"),
        ({"strata": ["ptype"], "least": 10_001}, "least must be at most 10000"),
        ({"strata": ["ptype"], "least": -1}, "least"),
    ):
        with pytest.raises(kubist.InvalidInput, match=said):
            create(tmp_path / "d.kubist", storage)
    with pytest.raises(kubist.InvalidInput, match="diametre"):
        create(tmp_path / "b.kubist", {"weight": "diametre"})
    with pytest.raises(kubist.InvalidInput, match="weight .*of row 3 is 0: "):
        create(tmp_path / "c.kubist", {"weight": "abs(pid - 3) + 0 * x"})


def test_the_command_creates_such_tables(tmp_path: Path) -> None:
    data = spray(2_000)
    names = ",".join(data)
    rows = zip(*data.values(), strict=True)
    lines = [names, *(",".join(repr(value.item()) for value in row) for row in rows)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    command = [str(Path(sys.executable).parent / "kubist"), "ingest", "t.kubist", "rows.csv"]
    command += ["--dimensions", "x", "--identity", "pid", "--create"]
    strata = [*command, "strata=ptype", "--create", "least=20"]
    subprocess.run(strata, cwd=tmp_path, check=True, capture_output=True)
    assert kubist.open(tmp_path / "t.kubist").info().sampling.startswith("by strata of ptype, at least 20")
    again = subprocess.run([*command, "weight=x"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode != 0
    assert "by strata of ptype" in again.stderr


def test_a_loader_of_a_weighted_table_shuffles_a_whole_sample(tmp_path: Path) -> None:
    t = create(tmp_path / "t.kubist", {"strata": ["ptype"]})
    columns = ["pid", "ptype", "inclusion"]
    with kubist.Loader(t, columns, batch=64, window=(0, 0.05), epochs=2) as loader:
        batches = list(loader)
    wanted = t.query(sample=0.05, columns=columns).to_numpy()
    half = len(batches) // 2
    for epoch in (batches[:half], batches[half:]):
        found = {name: np.concatenate([batch[name] for batch in epoch]) for name in columns}
        order, known = np.argsort(found["pid"]), np.argsort(wanted["pid"])
        for name in columns:
            assert (found[name][order] == wanted[name][known]).all()
    for change, said in (
        ({"order": "growing"}, "order: "),
        ({"window": (0.1, 0.2)}, "window: "),
        ({"pool": "1 MiB"}, "pool: "),
    ):
        with pytest.raises(kubist.InvalidInput, match=said):
            kubist.Loader(t, ["pid", "x", "diameter", "ptype"], **change)  # type: ignore[arg-type]
    plain = kubist.create(tmp_path / "plain.kubist", spray(), ["x"], identity=["pid"])
    with pytest.raises(kubist.InvalidInput, match="same inclusion"):
        kubist.Loader(plain, columns)


def test_a_loader_normalises_by_the_mean_of_all_rows(tmp_path: Path) -> None:
    t = create(tmp_path / "t.kubist", {"weight": "diameter"})
    loader = kubist.Loader(t, ["diameter", "x"], dtype="float64", normalise=True, batch=ROWS)
    (batch,) = list(loader)
    assert abs(batch["x"].mean()) < 0.05
    assert abs(batch["x"].std() - 1) < 0.05
