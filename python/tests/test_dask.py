"""Conversion between Dask DataFrames and tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kubist

pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

ROWS = 10_000


def rows(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "pid": np.arange(ROWS),
            "x": rng.random(ROWS),
            "v": rng.normal(size=ROWS),
            "kind": rng.choice(["drop", "dust"], ROWS),
            "few": pd.array(np.where(np.arange(ROWS) == 17, 5, -1), "Int64"),
        }
    ).replace({"few": {-1: pd.NA}})


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, rows(), ["x"], identity=["pid"])


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_table_is_a_dask_frame(table: kubist.Table) -> None:
    frame = table.to_dask(5)
    assert frame.npartitions == 5
    found = frame.compute(scheduler="sync").sort_values("pid").reset_index(drop=True)
    wanted = table.query(order_by="pid").to_pandas()
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert list(frame.dtypes) == list(found.dtypes)
    part = table.to_dask(3, box={"x": (0.2, 0.4)}, where="v > 0", sample=0.5, inclusion="p")
    total = (1 / part["p"]).sum().compute(scheduler="sync")
    assert total == 2 * table.count({"x": (0.2, 0.4)}, where="v > 0", sample=0.5)
    assert table.to_dask().npartitions == 1
    assert len(table.to_dask(2, where="x > 2").compute(scheduler="sync")) == 0


def test_only_the_needed_columns_are_read(
    table: kubist.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    inner = kubist.Split.to_pandas

    def recorded(self: kubist.Split, **options: Any) -> pd.DataFrame:
        found = inner(self, **options)
        read.append(list(found.columns))
        return found

    monkeypatch.setattr(kubist.Split, "to_pandas", recorded)
    frame = table.to_dask(3)
    mean = frame.groupby("kind")["v"].mean().compute(scheduler="sync")
    np.testing.assert_allclose(mean, rows().groupby("kind")["v"].mean())
    assert read and all(set(columns) == {"kind", "v"} for columns in read)
    assert len(frame) == ROWS


def test_a_frame_is_one_commit(path: Path) -> None:
    frame = dd.from_pandas(rows(), npartitions=7)
    first = kubist.from_dask(
        frame, path, dimensions=["x"], identity=["pid"], create={"units": {"x": "m"}}
    )
    assert first.rows == ROWS and not first.repeated
    t = kubist.open(path)
    assert t.info().writers[0].commits == 1 and t.units == {"x": "m"}
    # The same frame again, as after an error that hid the result.
    assert kubist.from_dask(frame, path).repeated and len(t) == ROWS
    assert not kubist.from_dask(frame, path, token="again").repeated and len(t) == 2 * ROWS


def test_a_failing_partition_leaves_nothing(path: Path) -> None:
    def fails(part: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
        if partition_info and partition_info["number"] == 4:
            raise ValueError("no such file")
        return part

    frame = dd.from_pandas(rows(), npartitions=6)
    with pytest.raises(ValueError, match="no such file"):
        kubist.from_dask(frame.map_partitions(fails, meta=frame._meta), path, dimensions=["x"])
    assert len(kubist.open(path)) == 0
    with pytest.raises(kubist.NotATable, match="dimensions"):
        kubist.from_dask(frame, path.with_name("other.kubist"))
    with pytest.raises(kubist.InvalidInput, match="expected a Dask DataFrame"):
        kubist.from_dask(rows(), path)


def killing(part: pd.DataFrame, mark: str, partition_info: Any = None) -> pd.DataFrame:
    """Kills the worker once, in the middle of the frame."""
    if partition_info and partition_info["number"] == 5:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return part
        os._exit(9)
    return part


def test_a_killed_worker_doubles_nothing(client: Any, path: Path, tmp_path: Path) -> None:
    frame = dd.from_pandas(rows(), npartitions=12)
    frame = frame.map_partitions(killing, str(tmp_path / "killed"), meta=frame._meta)
    commit = kubist.from_dask(frame, path, dimensions=["x"], identity=["pid"])
    assert (tmp_path / "killed").exists() and commit.rows == ROWS
    t = kubist.open(path)
    pids = np.sort(t.query(columns=["pid"]).to_numpy()["pid"])
    np.testing.assert_array_equal(pids, np.arange(ROWS))


def test_splits_are_submitted_to_workers(client: Any, table: kubist.Table) -> None:
    from kubist.dask import submit

    futures = submit(client, len_of, table.splits(5))
    assert sum(client.gather(futures)) == ROWS


def len_of(split: kubist.Split) -> int:
    return len(split.to_pandas())
