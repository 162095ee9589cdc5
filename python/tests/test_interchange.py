"""Data and results in the forms of other libraries: categories, lists of dicts, iterators,
Dask frames, pickles, and group keys as Python values."""

from __future__ import annotations

import datetime
import decimal
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import kubist
from kubist._shown import text_table

X = {"x": (0, 1)}


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b", "c"])])
def test_categories_of_polars_are_dictionaries(path: Path, kind: Any) -> None:
    labels = ["a", None, "c", "a"]
    frame = pl.DataFrame({"x": [0.1, 0.2, 0.3, 0.4], "kind": pl.Series(labels, dtype=kind)})
    t = kubist.create(path, frame, X)
    assert pa.types.is_dictionary(t.schema.field("kind").type)
    own = t.query(order_by="x").to_polars()
    assert own["kind"].cast(pl.String).to_list() == labels
    t.append(own)
    assert t.count(where="kind = 'a'") == 4


def test_rows_are_given_as_dicts(path: Path) -> None:
    t = kubist.create(path, [{"x": 0.1, "n": 1}, {"x": 0.2, "s": "a"}], X)
    t.append([{"x": 0.3, "n": 2**40}, {"n": None, "x": 0.4, "s": "b"}])
    found = t.query(order_by="x").to_arrow().to_pylist()
    assert [row["n"] for row in found] == [1, None, 2**40, None]
    assert [row["s"] for row in found] == [None, "a", None, "b"]
    with pytest.raises(kubist.InvalidInput, match="row 1: expected a dict of values, not a int"):
        t.append([{"x": 0.5}, 3])


class Lazy:
    npartitions = 3

    def get_partition(self, at: int) -> Lazy:
        part = Lazy()
        part.at = at  # type: ignore[attr-defined]
        return part

    def compute(self) -> Any:
        import pandas as pd

        return pd.DataFrame({"x": [self.at / 4, self.at / 5]})  # type: ignore[attr-defined]


def test_data_comes_in_parts(path: Path) -> None:
    def parts() -> Iterator[pa.RecordBatch]:
        for at in range(5):
            yield pa.record_batch({"x": [at / 10, at / 20]})

    t = kubist.create(path, parts(), X)
    t.append(parts())
    t.append([pa.table({"x": [0.5]}), pl.DataFrame({"x": [0.6]})])
    t.append(iter([{"x": np.array([0.7])}]))
    t.append(Lazy())  # type: ignore[arg-type]
    assert t.count() == 10 + 10 + 2 + 1 + 6
    with pytest.raises(kubist.InvalidInput, match="gave no data"):
        t.append(iter([]))


def test_casts_on_append_lose_nothing(path: Path) -> None:
    schema = pa.schema(
        [
            ("x", pa.float64()),
            ("n", pa.int32()),
            ("f", pa.float32()),
            ("kind", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    t = kubist.create(path, schema, X)
    wide = {"x": [0.5], "n": pa.array([7], pa.int64()), "f": np.array([0.25]), "kind": ["a"]}
    t.append({**wide, "kind": pa.array(["a"])})
    assert t.query().to_arrow().to_pylist() == [{"x": 0.5, "n": 7, "f": 0.25, "kind": "a"}]
    for column, value in [("n", pa.array([2**40])), ("f", np.array([1e60]))]:
        with pytest.raises(kubist.InvalidInput, match=f'"{column}", row 0 of the batch: 1.*0'):
            t.append({**wide, "kind": pa.array(["a"]), column: value})
    assert t.count() == 1


def test_group_keys_have_the_types_of_arrow(path: Path) -> None:
    day, moment = datetime.date(2020, 1, 31), datetime.datetime(2020, 1, 31, 12, 30, 0, 250)
    data = pa.table(
        {
            "x": [0.5],
            "day": pa.array([day]),
            "moment": pa.array([moment], pa.timestamp("us")),
            "price": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
            "raw": pa.array([b"\x00\xff"], pa.binary()),
            "clock": pa.array([datetime.time(12, 30)], pa.time64("us")),
            "code": pa.array([5], pa.int16()).dictionary_encode(),
        }
    )
    t = kubist.create(path, data, X)
    for name in data.column_names[1:]:
        estimate = t.estimate("count()", group_by=name)
        (row,), (arrow,) = estimate.to_dicts(), estimate.to_arrow().to_pylist()
        assert row[name] == arrow[name] and type(row[name]) is type(arrow[name]), name


def test_groups_that_may_be_missing_are_printed(path: Path) -> None:
    rows = 20_000
    group = np.where(np.arange(rows) < 3, 7, np.arange(rows) % 2)
    t = kubist.create(path, {"x": np.linspace(0, 1, rows), "g": group}, X)
    sampled, exact = (t.estimate("count()", group_by="g", sample=p) for p in (0.01, 1))
    assert sampled.missed_group and exact.missed_group == 0
    assert f"note: groups of up to {sampled.missed_group:,} records may be missing" in str(sampled)
    assert "may be missing" not in str(exact)


def test_snapshots_and_estimates_are_pickled(path: Path) -> None:
    t = kubist.create(path, {"x": np.linspace(0, 1, 50), "n": np.arange(50)}, X)
    snapshot, estimate = t.snapshot(), t.estimate("mean(n)", group_by="n % 2")
    kept = [pickle.dumps(value) for value in (snapshot, estimate)]
    t.append({"x": [0.5], "n": np.array([7])})
    snapshot, again = map(pickle.loads, kept)
    assert snapshot.count() == 50 and snapshot.location == t.location
    assert again.to_dicts() == estimate.to_dicts() and str(again) == str(estimate)


def test_lazy_frames_are_pickled(path: Path) -> None:
    pytest.importorskip("cloudpickle", reason="Polars pickles Python sources with it")
    t = kubist.create(path, {"x": np.linspace(0, 1, 50), "n": np.arange(50)}, X)
    kept = pickle.dumps(t.scan())
    t.append({"x": [0.5], "n": np.array([7])})
    lazy = pickle.loads(kept)
    assert lazy.filter(pl.col("n") > 40).collect().height == 9


def test_numbers_beyond_a_column_are_named(path: Path) -> None:
    t = kubist.create(path, {"x": np.zeros(1), "n": np.zeros(1, int)}, X)
    with pytest.raises(kubist.InvalidInput, match=f"column n, row 1: {2**70} does not fit"):
        t.append({"x": [0.5, 0.6], "n": [1, 2**70]})
    wide = pl.DataFrame({"x": [0.5], "n": pl.Series([2**65], dtype=pl.Int128)})
    with pytest.raises(kubist.InvalidInput, match="column n: Polars' Int128 has no Arrow type"):
        t.append(wide)


def test_a_library_that_cannot_be_loaded_is_not_to_be_installed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubist._libraries import need

    folder = path.parent / "broken"
    folder.mkdir()
    (folder / "short_of_memory.py").write_text("raise ImportError('cannot allocate memory')")
    (folder / "incomplete.py").write_text("import a_part_that_is_missing")
    monkeypatch.syspath_prepend(str(folder))
    for name, why in [("short_of_memory", "cannot allocate"), ("incomplete", "a_part_that_is")]:
        with pytest.raises(ImportError, match=f"needs {name}, which cannot be loaded: .*{why}"):
            need(name, "to_arrow()")
    with pytest.raises(ImportError, match=f"which {sys.executable} lacks: pip install not_there"):
        need("not_there", "to_arrow()")


def test_a_table_that_is_gone_may_have_been_moved(path: Path) -> None:
    t = kubist.create(path, {"x": np.zeros(3)}, X)
    path.rename(path.parent / "moved.kubist")
    with pytest.raises(kubist.NotATable, match="dropped or moved after it was opened"):
        t.count()


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_sql_has_two_engines_and_several_tables(path: Path, engine: Any) -> None:
    t = kubist.create(path, {"x": np.linspace(0, 1, 100), "kind": np.arange(100) % 4}, X)
    names = {"at": np.zeros(3), "kind": np.arange(3), "weight": np.array([1.0, 2.0, 3.0])}
    other = kubist.create(path.parent / "kinds.kubist", names, {"at": (0, 1)})
    query = (
        "SELECT m.weight, count(*) AS n FROM self JOIN m ON self.kind = m.kind "
        "WHERE m.weight > 1 GROUP BY m.weight ORDER BY m.weight"
    )
    found = t.sql(query, engine=engine, tables={"m": other})
    assert found.rows() == [(2.0, 25), (3.0, 25)]
    few = t.sql("SELECT count(*) AS n FROM self", engine=engine, where="kind = 1", sample=0.5)
    assert few["n"].to_list() == [t.count(where="kind = 1", sample=0.5)]
    with pytest.raises(kubist.InvalidInput, match="sql: .*speed"):
        t.sql("SELECT speed FROM self", engine=engine)
    with pytest.raises(kubist.InvalidInput, match="use another name"):
        t.sql(query, engine=engine, tables={"self": other})


def test_steps_select_complete_steps_and_other_queries_every_commit(path: Path) -> None:
    t = kubist.create(path, {"x": np.zeros(0)}, X)
    t.declare_writers(["rank-0", "rank-1"])
    with t.writer("rank-0") as writer:
        writer.append({"x": np.array([0.1, 0.2])})
        writer.commit(step=1)
    assert t.count() == len(t.query().to_numpy()["x"]) == 2
    assert t.count(steps=(None, None)) == 0 and t.snapshot().complete_steps() == []
    with t.writer("rank-1") as writer:
        writer.append({"x": np.array([0.3])})
        writer.commit(step=1)
    assert t.count(steps=1) == t.count() == 3


def test_names_with_quotes_are_quoted_as_in_sql(path: Path) -> None:
    t = kubist.create(path, {"x": np.linspace(0, 1, 5), 'a"b': np.arange(5)}, X)
    rows = t.query(order_by='"a""b" desc', where='"a""b" < 4', limit=2).to_arrow()
    assert rows['a"b'].to_pylist() == [3, 2]


def test_a_cell_is_not_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    shown = text_table(["text", "n"], [["word " * 20, "1"]], [])
    assert max(map(len, shown.splitlines())) <= 30 and "…" in shown


def test_a_value_of_another_type_is_named_by_its_row(path: Path) -> None:
    t = kubist.create(path, {"x": np.zeros(1), "n": np.zeros(1, int)}, X)
    rows = [{"x": 0.5, "n": n} for n in range(9)]
    rows[6]["n"] = "a"
    with pytest.raises(kubist.InvalidInput, match="column n, row 6: .*'a'"):
        t.append(rows)


def test_duckdb_runs_one_select(path: Path) -> None:
    pytest.importorskip("duckdb")
    t = kubist.create(path, {"x": np.zeros(3)}, X)
    out = path.parent / "out.csv"
    for query in ("SELECT 1; SELECT 2", f"COPY self TO '{out}'", ""):
        with pytest.raises(kubist.InvalidInput, match="expected one SELECT"):
            t.sql(query, engine="duckdb")
    assert not out.exists()
    assert t.sql("WITH a AS (FROM self) SELECT count(*) FROM a", engine="duckdb").item() == 3


@pytest.mark.parametrize(
    ("engine", "query"),
    [
        ("duckdb", "SELECT sum(sqrt(i)) FROM range(1000000000000) r(i)"),
        # All of 9^8 combinations.
        (
            "polars",
            "SELECT sum(a.x) FROM self a"
            + "".join(f" CROSS JOIN self {letter}" for letter in "bcdefgh"),
        ),
    ],
)
def test_ctrl_c_ends_sql_once(path: Path, engine: Literal["duckdb", "polars"], query: str) -> None:
    pytest.importorskip(engine)
    t = kubist.create(path, {"x": np.arange(9.0)}, X)
    t.sql("SELECT x FROM self", engine=engine)  # loads the modules
    # A parent may have made this process ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    times = 0
    try:
        try:
            t.sql(query, engine=engine)
        except KeyboardInterrupt:
            times += 1
        timer.join()
    except KeyboardInterrupt:
        times += 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert times == 1
    assert t.count() == 9
