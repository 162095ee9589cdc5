"""`kubist.Loader`: random batches of a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

ORDERS = ("uniform", "pooled", "growing")


def cloud(path: Path, rows: int = 20_000, seed: int = 1, **options: Any) -> kubist.Table:
    rng = np.random.default_rng(seed)
    x, y = rng.random((2, rows))
    data = {
        "x": x.astype(np.float32),
        "y": y,
        # Half of its variance depends on the position.
        "v": (np.sin(7 * x) + y + rng.normal(scale=0.8, size=rows)).astype(np.float32),
        "n": np.arange(rows),
        "wall": x < 0.2,
    }
    return kubist.create(path, data, {"x": (0, 1), "y": (0, 1)}, identity=["n"], **options)


def windows(path: Path, rows: int = 20_000, **options: Any) -> kubist.Table:
    return cloud(path, rows, storage={"strata": "windows"}, **options)


def numbers(loader: kubist.Loader) -> np.ndarray[Any, Any]:
    return np.concatenate([batch["n"] for batch in loader])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("pool", ["1 MiB", "1 GiB"])
def test_each_row_is_yielded_once_in_an_epoch(path: Path, order: Any, pool: str) -> None:
    t = windows(path, 60_000)
    loader = kubist.Loader(t, ["n", "x"], batch=256, order=order, pool=pool, epochs=2)
    batches = list(loader)
    assert len(batches) == 2 * len(loader) == 2 * 235
    assert {len(batch["n"]) for batch in batches[:234]} == {256}
    epochs = [np.concatenate([b["n"] for b in some]) for some in (batches[:235], batches[235:])]
    x = t.query(columns=["n", "x"]).to_numpy()
    of_row = np.empty(60_000, np.float32)
    of_row[x["n"]] = x["x"]
    for epoch in epochs:
        assert np.array_equal(np.sort(epoch), np.arange(60_000))
    assert not np.array_equal(*epochs)
    for batch in batches[::50]:
        assert np.array_equal(batch["x"], of_row[batch["n"]])
        assert all(array.flags["C_CONTIGUOUS"] for array in batch.values())


@pytest.mark.parametrize("order", ORDERS)
def test_conditions_and_windows_select_the_rows(path: Path, order: Any) -> None:
    t = windows(path)
    asked: dict[str, Any] = {"box": {"x": (0.1, 0.7)}, "where": "v > 0.5", "window": (0.25, 0.8)}
    loader = kubist.Loader(t, ["n"], batch=64, order=order, **asked)
    assert loader.rows == t.count(**asked) > 1000
    assert sorted(numbers(loader)) == sorted(t.query(columns=["n"], **asked).to_numpy()["n"])


@pytest.mark.parametrize("order", ORDERS)
def test_a_region_selects_the_rows(path: Path, order: Any) -> None:
    t = windows(path)
    region = kubist.region.sphere({"x": 0.4, "y": 0.5}, 0.3) - kubist.region.box(x=(0.4, 0.5))
    loader = kubist.Loader(t, ["n", "x", "y"], batch=64, order=order, region=region, where="v < 1")
    rows = t.query(columns=["n", "x", "y", "v"]).to_numpy()
    x = rows["x"].astype(float)
    inside = np.hypot(x - 0.4, rows["y"] - 0.5) <= 0.3
    inside &= ~((x >= np.float32(0.4)) & (x <= 0.5)) & (rows["v"] < 1)
    assert sorted(numbers(loader)) == sorted(rows["n"][inside])


def variance_ratio(loader: kubist.Loader, batch: int) -> dict[str, float]:
    """The variance of batch means over that of a true shuffle of the same rows."""
    means: dict[str, list[float]] = {}
    values: dict[str, list[np.ndarray[Any, Any]]] = {}
    for one in loader:
        for name, array in one.items():
            values.setdefault(name, []).append(array)
            if len(array) == batch:
                means.setdefault(name, []).append(float(array.mean(dtype=float)))
    ratios = {}
    for name in means:
        everything = np.concatenate(values[name])
        true = everything.var(dtype=float) / batch * (1 - batch / loader.rows)
        ratios[name] = float(np.var(means[name]) / true)
    return ratios


@pytest.mark.parametrize("order", ["uniform", "growing"])
def test_batches_vary_as_those_of_a_true_shuffle(
    path: Path, order: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    t = windows(path, 100_000)
    loader = kubist.Loader(
        t, ["x", "y", "v"], batch=32, order=order, pool="1 MiB", epochs=4, dtype="float64"
    )
    ratios = variance_ratio(loader, 32)
    with capsys.disabled():
        print(f"\n{order}: variance of batch means over a true shuffle: {ratios}")
    # 12,500 batches: the standard error of a ratio is 0.013.
    assert all(0.95 < ratio < 1.05 for ratio in ratios.values()), ratios


def test_regions_announce_how_much_their_batches_vary(path: Path) -> None:
    t = cloud(path, 200_000)
    loader = kubist.Loader(
        t, ["x", "v"], batch=64, order="pooled", pool="1 MiB", epochs=4, dtype="float32"
    )
    assert "expected variance ratio" in repr(loader)
    expected = loader.variance_ratio
    assert expected > 2
    assert max(variance_ratio(loader, 64).values()) == pytest.approx(expected, rel=0.35)
    whole = kubist.Loader(t, ["x", "v"], batch=64, order="pooled")
    assert whole.variance_ratio == pytest.approx(1, abs=0.02)


def test_windows_examine_few_other_rows(path: Path, tmp_path: Path) -> None:
    t = windows(tmp_path / "w.kubist", 200_000)
    for order, most in (("uniform", 1.1), ("growing", 1.5)):
        loader = kubist.Loader(t, ["n"], order=order, pool="2 MiB")  # type: ignore[arg-type]
        assert len(numbers(loader)) == 200_000
        assert 1.0 <= loader.examined_per_row < most, order
    assert "examined for each" in repr(t.explain(window=(17 / 128, 18 / 128)))
    default = cloud(path, 200_000)
    assert default.info().strata == "halvings"
    other = kubist.Loader(default, ["n"], pool="2 MiB")
    assert len(numbers(other)) == 200_000
    assert other.examined_per_row > 2


def test_a_table_is_given_the_layout_by_a_copy_and_by_the_optimizer(
    path: Path, tmp_path: Path
) -> None:
    t = cloud(path, 100_000)
    before = sorted(t.query(columns=["n"]).to_numpy()["n"])
    copy = t.copy_to(tmp_path / "copy.kubist", strata="windows")
    assert (copy.info().strata, copy.info().capacity) == ("windows", 65_536)

    def examined(table: kubist.Table) -> float:
        windows = [(part / 128, (part + 1) / 128) for part in range(3, 128, 10)]
        return float(np.mean([table.explain(window=w).examined_per_row for w in windows]))

    assert examined(copy) < 1.1 < examined(t)
    back = copy.copy_to(tmp_path / "back.kubist", strata="halvings")
    assert (back.info().strata, back.info().capacity) == ("halvings", 2048)
    t.alter(strata="windows")
    t.optimize(recompress=True)
    # Strata of cubes of 2,048 rows are joined, because each has only about 20 rows.
    assert examined(t) < 2
    assert t.optimize(recompress=True).rows_rewritten == 0
    for table in (t, copy, back):
        assert sorted(table.query(columns=["n"]).to_numpy()["n"]) == before
        assert table.verify(deep=True).ok
    with pytest.raises(kubist.InvalidInput, match="halvings and windows"):
        t.alter(strata="thirds")


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_does_not_depend_on_the_number_of_processes(path: Path, order: Any) -> None:
    t = windows(path)

    def loader(rank: int, world: int) -> kubist.Loader:
        return kubist.Loader(
            t, ["n"], batch=100, order=order, pool="1 MiB", seed=5, rank=rank, world=world
        )

    alone = [batch["n"] for batch in loader(0, 1)]
    for world in (2, 3, 7):
        ranks = [[batch["n"] for batch in loader(rank, world)] for rank in range(world)]
        for batch, *parts in zip(alone, *ranks, strict=True):
            assert np.array_equal(batch, np.concatenate(parts))


@pytest.mark.parametrize("order", ORDERS)
def test_a_state_continues_with_the_same_batches(path: Path, order: Any) -> None:
    t = windows(path)
    options: dict[str, Any] = {
        "columns": ["n", "x"],
        "target": "wall",
        "batch": 300,
        "order": order,
        "dtype": "float32",
        "normalise": True,
        "epochs": 3,
        "pool": "1 MiB",
    }
    options["columns"] = ["x", "y"]
    whole = [dict(batch) for batch in kubist.Loader(t, **options)]
    first = kubist.Loader(t, **options)
    for stop in (0, 5, 67, 130):
        while len(whole) - _left(first) < stop:
            next(first)
        state = json.loads(json.dumps(first.state_dict()))
        second = kubist.Loader(t, **options)
        second.load_state_dict(state)
        _same(list(second), whole[stop:])
    # Another snapshot, and another number of processes.
    t.append(t.query(limit=500))
    ranks = [kubist.Loader(t, **options, rank=rank, world=2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    halves = zip(*ranks, strict=True)
    _same([{k: np.concatenate([a[k], b[k]]) for k in a} for a, b in halves], whole[stop:])


def _left(loader: kubist.Loader) -> int:
    state = loader.state_dict()
    return 3 * 67 - 67 * int(state["epoch"]) - int(state["cursor"])


def _same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name].dtype == other[name].dtype
            assert one[name].tobytes() == other[name].tobytes()


TRAINING = """
import json, os, sys, kubist
t = kubist.open(sys.argv[1])
loader = kubist.Loader(t, ["n"], batch=100, epochs=2, pool="1 MiB")
if os.path.exists(sys.argv[2]):
    loader.load_state_dict(json.load(open(sys.argv[2])))
for number, batch in enumerate(loader):
    print(*batch["n"].tolist(), flush=True)
    if number == 20:
        json.dump(loader.state_dict(), open(sys.argv[2], "w"))
        print("saved", flush=True)
"""


def test_training_continues_after_kill_9_of_cleaned_and_optimized_tables(
    path: Path, tmp_path: Path
) -> None:
    t = windows(path)
    whole = [batch["n"].tolist() for batch in kubist.Loader(t, ["n"], batch=100, epochs=2)]
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, str(tmp_path / "train.py"), str(path), str(tmp_path / "state.json")]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    for line in killed.stdout:
        if line == "saved\n":
            break
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    # The hold of the killed process keeps the snapshot.
    for _ in range(4):
        t.append(t.query(limit=5000))
        t.optimize()
        t.clean(retention=0)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = [line for line in done.stdout.splitlines() if line != "saved"]
    assert [list(map(int, line.split())) for line in lines] == whole[21:]


def test_a_table_may_be_written_optimized_and_cleaned_while_a_loader_reads(path: Path) -> None:
    t = windows(path, 30_000)
    alone = [batch["n"] for batch in kubist.Loader(t, ["n"], batch=128, epochs=3)]
    loader = kubist.Loader(t, ["n"], batch=128, epochs=3, pool="1 MiB")
    # Groups of the same size, because a larger pool has another order.
    alone = [batch["n"] for batch in kubist.Loader(t, ["n"], batch=128, epochs=3, pool="1 MiB")]
    stop, failures = threading.Event(), []

    def work() -> None:
        other = kubist.open(path)
        try:
            while not stop.is_set():
                other.append(other.query(limit=2000))
                other.optimize()
                other.clean(retention=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        found = [batch["n"] for batch in loader]
    finally:
        stop.set()
        thread.join()
    assert not failures
    assert len(found) == len(alone)
    assert all(np.array_equal(*pair) for pair in zip(found, alone, strict=True))


def test_files_are_cleaned_after_the_loader_is_closed(path: Path) -> None:
    t = windows(path)

    def churn() -> None:
        t.append(t.query(limit=5000))
        t.alter(compression="small" if t.info().compression == "balanced" else "balanced")
        t.optimize(recompress=True)
        t.clean(retention=0)
        t.clean(retention=0)

    loader = kubist.Loader(t, ["n"], batch=100)
    churn()
    assert len(numbers(loader)) == 20_000  # its end releases the hold
    token = loader.snapshot
    churn()
    with pytest.raises(kubist.SnapshotExpired):
        t.at(token).query().to_numpy()


def test_parts_share_no_trajectory(path: Path) -> None:
    rng = np.random.default_rng(3)
    pid = np.repeat(np.arange(3000), 5)
    data = {"x": rng.random(15_000), "pid": pid, "time": np.tile(np.arange(5), 3000)}
    t = kubist.create(path, data, ["x"], identity=["pid"], storage={"strata": "windows"})
    parts = kubist.Loader.parts(training=0.8, validation=0.1, test=0.1)
    assert list(parts) == ["training", "validation", "test"]
    assert parts["training"][0] == 0 and parts["test"][1] == 1
    found = {
        name: np.concatenate(
            [batch["pid"] for batch in kubist.Loader(t, ["pid"], batch=64, window=window)]
        )
        for name, window in parts.items()
    }
    assert len(found["training"]) == pytest.approx(12_000, rel=0.05)
    assert sum(map(len, found.values())) == 15_000
    assert not set(found["training"]) & set(found["validation"])
    assert not set(found["training"]) & set(found["test"])
    assert not set(found["validation"]) & set(found["test"])
    with pytest.raises(kubist.InvalidInput, match=r"b=0\.001 leaves no 1/128"):
        kubist.Loader.parts(a=0.9, b=0.001)
    with pytest.raises(kubist.InvalidInput, match="b=0.5 leaves no"):
        kubist.Loader.parts(a=0.9, b=0.5)


def test_types_and_scales(path: Path) -> None:
    t = windows(path)
    own = next(kubist.Loader(t, ["x", "y", "n"], "wall", batch=1000))
    assert [own[name].dtype for name in ("x", "y", "n", "wall")] == ["f4", "f8", "i8", "?"]
    options: dict[str, Any] = {"batch": 20_000, "dtype": "float32", "normalise": True}
    scaled = next(kubist.Loader(t, ["x", "10 * y AS y10", "n"], "wall", **options))
    assert list(scaled) == ["x", "y10", "n", "wall"]
    for name in ("x", "y10", "n"):
        assert scaled[name].dtype == np.float32
        assert scaled[name].mean(dtype=float) == pytest.approx(0, abs=1e-4)
        assert scaled[name].std(dtype=float) == pytest.approx(1, abs=1e-4)
    assert scaled["wall"].dtype == bool


def test_nulls_are_nan_or_refused(path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    data = pa.table({"x": [0.1, 0.2, 0.3], "n": pa.array([1, None, 3]), "s": ["a", "b", "c"]})
    t = kubist.create(path, data, ["x"])
    found = next(kubist.Loader(t, ["n"], batch=3, dtype="float64"))["n"]
    assert sorted(found[~np.isnan(found)]) == [1, 3]
    with pytest.raises(kubist.InvalidInput, match="column 'n' has nulls"):
        next(kubist.Loader(t, ["n"], batch=3))
    with pytest.raises(kubist.InvalidInput, match="column 's' holds text"):
        kubist.Loader(t, ["s"], batch=3)


def bad(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    yield {"batch": 20_001}, "batch=20,001, but .* has 20,000 such records: take a smaller batch"
    yield {"batch": 0}, "batch: 0 is not between 1"
    yield {"where": "x > 2"}, "has 0 such records"
    yield {"order": "random"}, "order: expected one of uniform, pooled, growing, not 'random'"
    yield {"pool": "2 parsecs"}, "pool: expected an integer"
    yield {"pool": 1000}, "pool: give at least 1 MiB"
    yield {"dtype": "int8"}, 'dtype: expected "float32"'
    yield {"normalise": True}, "normalise: column 'n' has the type int64: give dtype"
    yield {"rank": 2, "world": 2}, "rank: 2 is not between 0 and 1"
    yield {"window": (0.5, 0.5)}, "window: expected 0 <= low < high <= 1"
    yield {"columns": []}, "columns: name at least one column"
    yield {"columns": ["none"]}, "none"


def test_options_that_are_not_possible(path: Path) -> None:
    t = windows(path)
    for options, message in bad(path):
        with pytest.raises(kubist.InvalidInput, match=message):
            kubist.Loader(t, **{"columns": ["n"], **options})
    with pytest.raises(TypeError, match="no option `batch_size`; did you mean `batch`"):
        kubist.Loader(t, ["n"], batch_size=3)  # type: ignore[call-arg]
    with pytest.raises(kubist.InvalidInput, match="reads a kubist.Table or kubist.Snapshot"):
        kubist.Loader(str(path), ["n"])  # type: ignore[arg-type]


def test_states_of_others_are_refused(path: Path, tmp_path: Path) -> None:
    t = windows(path)
    state = kubist.Loader(t, ["n"], batch=100).state_dict()
    other = cloud(tmp_path / "other.kubist")
    with pytest.raises(kubist.TableReplaced, match="has the id"):
        kubist.Loader(other, ["n"], batch=100).load_state_dict(state)
    with pytest.raises(kubist.InvalidInput, match="with batch=100, and this one has batch=50"):
        kubist.Loader(t, ["n"], batch=50).load_state_dict(state)
    with pytest.raises(kubist.InvalidInput, match="with seed=0, and this one has seed=1"):
        kubist.Loader(t, ["n"], batch=100, seed=1).load_state_dict(state)
    t.append(t.query(limit=10))
    with pytest.raises(kubist.InvalidInput, match="the state is of another snapshot"):
        kubist.Loader(t.snapshot(), ["n"], batch=100).load_state_dict(state)
    for wrong in (None, {}, {**state, "epoch": -1}, {**state, "plan": [1]}, {**state, "group": ""}):
        with pytest.raises(kubist.InvalidInput, match="not a state of a loader"):
            kubist.Loader(t, ["n"], batch=100).load_state_dict(wrong)  # type: ignore[arg-type]
    with pytest.raises(kubist.InvalidInput, match="the state has version 7"):
        kubist.Loader(t, ["n"], batch=100).load_state_dict({**state, "version": 7})
    t.append(cloud(tmp_path / "more.kubist", 60_000).query())
    small = kubist.Loader(t, ["n", "x", "y", "v"], batch=100, pool="1 MiB")
    large = kubist.Loader(t, ["n", "x", "y", "v"], batch=100).state_dict()
    with pytest.raises(kubist.InvalidInput, match="need a pool of"):
        small.load_state_dict(large)


def test_a_fork_and_a_closed_loader_are_refused(path: Path) -> None:
    loader = kubist.Loader(windows(path), ["n"], batch=100)
    next(loader)
    child = os.fork()
    if child == 0:
        try:
            next(loader)
        except kubist.Refused as error:
            os._exit(0 if "before a fork" in str(error) else 2)
        except BaseException:
            os._exit(3)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(next(loader)["n"]) == 100
    with loader:
        pass
    with pytest.raises(kubist.Refused, match="closed by close"):
        next(loader)
