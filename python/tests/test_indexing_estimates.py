"""Estimates of files: coverage of intervals, and the amount read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from arrays import Variable, netcdf3
from servers import COMMAND

import kubist

pytest.importorskip("pyarrow")


def field(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Correlated values: a position determines much of its block."""
    coarse = rng.normal(10, 3, rows // 200 + 2)
    return np.interp(np.arange(rows) / 200, np.arange(len(coarse)), coarse) + rng.normal(
        0, 0.3, rows
    )


def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(88)
    held = {"mean(v)": 0, "sum(v)": 0, "p90(v)": 0, "share(v > 12)": 0}
    trials = 80
    for _ in range(trials):
        values = field(rng, 200_000)
        path = tmp_path / "v.npy"
        (tmp_path / "v.npy.kubix").unlink(missing_ok=True)
        np.save(path, values)
        files = kubist.index(path, block="2KiB")
        truth = {
            "mean(v)": values.mean(),
            "sum(v)": values.sum(),
            "p90(v)": np.quantile(values, 0.9, method="inverted_cdf"),
            "share(v > 12)": (values > 12).mean(),
        }
        estimate = files.estimate(list(truth), sample=0.2, confidence=0.9)
        assert not estimate.exact and 0.1 < estimate.fraction < 0.3
        for row in estimate.to_arrow().to_pylist():
            held[row["aggregate"]] += row["low"] <= truth[row["aggregate"]] <= row["high"]
    # Fewer than 63 of 80 trials at 90 % occur once in a thousand.
    assert all(times >= 63 for times in held.values()), held


def test_a_goal_is_reached_without_reading_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(5, 1, 2_000_000).astype("f4")
    path = tmp_path / "v.npy"
    np.save(path, values)
    files = kubist.index(path, block="4KiB")
    estimate = files.estimate("mean(v)", error=0.01)
    assert estimate.stopped == "goal" and abs(estimate.value / values.mean() - 1) < 0.02
    assert estimate.stats.rows_read < len(values) / 4
    # With sample="100%" the result is exact.
    exact = files.estimate(["mean(v)", "count()"], where="v > 6", sample="100%")
    assert exact.exact
    mean, count = exact.to_arrow()["value"].to_pylist()
    assert mean == pytest.approx(values[values > 6].mean()) and count == (values > 6).sum()
    steps = list(files.estimate("sum(v)", error=0.0003, progressive=True))
    assert len(steps) > 1 and steps[-1].low <= values.sum(dtype="f8") <= steps[-1].high


def test_extremes_are_known_by_the_blocks_that_may_hold_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=1_000_000)
    path = tmp_path / "v.npy"
    np.save(path, values)
    files = kubist.index(path, block="8KiB")
    estimate = files.estimate(["min(v)", "max(v)"], max_rows=50_000)
    rows = estimate.to_arrow().to_pylist()
    assert [row["value"] for row in rows] == [values.min(), values.max()]
    assert all(row["exact"] for row in rows)
    assert estimate.stats.bytes_read < values.nbytes / 5


def test_groups_coordinates_and_several_files(tmp_path: Path) -> None:
    paths, all_values = [], []
    for number in range(3):
        values = np.random.default_rng(number).normal(number, 1, (40, 500)).astype("f4")
        path = tmp_path / f"run{number}.nc"
        rows = Variable(np.arange(40, dtype="f8"), ("y",))
        netcdf3(path, {"a": Variable(values, ("y", "x")), "y": rows}, None, 1)
        paths.append(path)
        all_values.append(values)
    files = kubist.index(paths, block="1KiB")
    estimate = files.estimate("mean(a)", group_by="bin(y, 10)", sample=1.0)
    found = {row["bin(y, 10)"]: row["value"] for row in estimate.to_arrow().to_pylist()}
    whole = np.stack(all_values)
    for low in range(0, 40, 10):
        assert found[low] == pytest.approx(whole[:, low : low + 10].mean(dtype="f8"))
    part = files.estimate(
        "count()", box={"y": (0, 9)}, where="a > 1", isel={"x": slice(0, 100)}, sample=1.0
    )
    assert part.value == (whole[:, :10, :100] > 1).sum()
    assert files.estimate("count()").value == whole.size
    with pytest.raises(TypeError, match="did you mean `group_by`"):
        files.estimate("mean(a)", groupby="y")


def test_the_command_estimates_files(tmp_path: Path) -> None:
    values = np.random.default_rng(6).normal(5, 1, 400_000)
    for name in ("one.npy", "two.npy"):
        np.save(tmp_path / name, values)
        subprocess.run(
            [str(COMMAND), "index", str(tmp_path / name), "--block", "4KiB"],
            check=True,
            capture_output=True,
        )
    done = subprocess.run(
        [
            str(COMMAND),
            "estimate",
            str(tmp_path / "one.npy"),
            str(tmp_path / "two.npy"),
            "mean(value)",
            "--error",
            "1%",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer = json.loads(done.stdout)
    figure = answer["figures"][0]
    assert figure["low"] <= values.mean() <= figure["high"] and answer["stopped"] == "goal"
    none = subprocess.run(
        [str(COMMAND), "estimate", str(tmp_path / "one.npy"), str(tmp_path / "two.npy")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert none.returncode == 2 and "no aggregate is given" in none.stderr
