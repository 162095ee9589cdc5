"""Expressions as columns of a result, and the names of columns, aggregates and groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kubist

ROWS = 2000


@pytest.fixture
def table(path: Path) -> kubist.Table:
    draw = np.random.default_rng(5)
    columns = {
        "pid": np.arange(ROWS),
        "x": draw.random(ROWS),
        "y": draw.random(ROWS).astype(np.float32),
        "B-V": draw.random(ROWS),
    }
    return kubist.create(path, columns, dimensions=["x"], identity=["pid"], units={"x": "m"})


def test_names_and_units_of_columns(table: kubist.Table) -> None:
    asked = [
        "PID",
        "x * x AS area",
        "y*2",
        "x as width",
        '"B-V"',
        '"B-V" as colour',
        "x > 0.5 AS far",
    ]
    result = table.query(columns=asked, order_by="pid")
    assert result.schema.names == ["pid", "area", "y*2", "width", "B-V", "colour", "far"]
    assert [str(kind) for kind in result.schema.types] == [
        "int64", "double", "float", "double", "double", "double", "bool",
    ]  # fmt: skip
    units = {field.name: (field.metadata or {}).get(b"unit") for field in result.schema}
    assert units["area"] == b"m^2" and units["width"] == b"m" and units["far"] is None
    found, stored = result.to_pandas(), table.query(order_by="pid").to_pandas()
    assert (found["area"] == stored["x"] * stored["x"]).all()
    assert (found["far"] == (stored["x"] > 0.5)).all()
    assert (found["y*2"] == stored["y"] * np.float32(2)).all()
    assert list(table.query(sample=0.5, columns=["*", "-x AS left"]).to_pandas()) == [
        *stored,
        "left",
    ]


def test_names_and_expressions_order_rows(table: kubist.Table) -> None:
    def ordered(order: str, **asked: object) -> list[int]:
        return table.query(order_by=order, limit=20, **asked).to_pandas()["pid"].tolist()

    rows = table.query().to_pandas()
    rows["d"] = (rows["x"] - 0.5).abs() + 0 * rows["y"]
    nearest = rows.sort_values(["d", "pid"])["pid"][:20].tolist()
    columns = ["pid", "abs(x - 0.5m) AS d"]
    assert ordered("abs(x - 0.5m), pid") == nearest
    assert ordered("d, pid", columns=columns) == nearest
    lowest = rows.sort_values("y")["pid"][:20].tolist()
    # A name of the result comes before a column of the table.
    assert ordered("x", columns=["pid", "y AS x"]) == lowest
    cells = table.query(per_cell=(1, {"x": 0.1}), columns=["-x AS left"], order_by="left")
    assert cells.to_pandas()["left"].is_monotonic_increasing


def test_mistakes_in_columns_are_named(table: kubist.Table) -> None:
    for columns, message in [
        (["x", "y AS x"], 'columns: "x" is asked for twice; name one of them by AS'),
        (["x + 1m", "x + 1m"], 'columns: "x \\+ 1m" is asked for twice'),
        (["speed"], "no column `speed`"),
        (["sqrt(speed) AS v"], "columns: sqrt\\(speed\\): no column `speed`"),
        (["sqrt(x AS v"], "columns: .*expected `\\)`"),
        (["mean(x) AS m"], "columns: mean\\(x\\): .*mean"),
        (["2 * 3 AS six"], "the same for every row"),
    ]:
        with pytest.raises(kubist.InvalidInput, match=message):
            table.query(columns=columns)
    with pytest.raises(kubist.InvalidInput, match='inclusion: columns has "p" already'):
        table.query(columns=["x AS p"], inclusion="p", sample=0.1)
    with pytest.raises(kubist.InvalidInput, match="order_by: abs\\(speed\\): no column `speed`"):
        table.query(order_by="abs(speed) desc")
    large = table.query(columns=["pid * 9223372036854775807 AS n"])
    with pytest.raises(
        kubist.InvalidInput, match=r"does not fit 64 bits; CAST\(\.\.\. AS int128\)"
    ):
        large.to_arrow()


def test_conditions_of_frames_use_computed_columns(table: kubist.Table) -> None:
    """A pushed-down condition keeps a column apart from another with the same name."""
    pl = pytest.importorskip("polars")
    columns = ["pid", "y AS x", "x * 2 AS double"]
    everything = table.query(columns=columns).to_polars()
    condition = (pl.col("x") > 0.25) & (pl.col("double") < 1)
    found = table.scan(columns=columns).filter(condition).select("pid").collect()
    expected = everything.filter(condition).select("pid")
    assert sorted(found["pid"]) == sorted(expected["pid"]) and 0 < len(found) < ROWS
    duckdb = pytest.importorskip("duckdb")
    dataset = table.to_dataset(columns=columns)
    rows = duckdb.sql("SELECT pid FROM dataset WHERE x > 0.25 AND double < 1").fetchall()
    assert sorted(pid for (pid,) in rows) == sorted(expected["pid"])


def test_aggregates_and_groups_have_names(table: kubist.Table) -> None:
    aggregates = ["mean(y) AS m", "count() as n"]
    e = table.estimate(aggregates, group_by=["floor(x * 4) AS bin", "pid % 2 as odd"], sample=1)
    rows = e.to_dicts()
    assert {row["aggregate"] for row in rows} == {"m", "n"}
    assert {(row["bin"], row["odd"]) for row in rows} == {
        (b, o) for b in range(4) for o in range(2)
    }
    stored = table.query().to_pandas()
    found = table.estimate("mean(y) AS m", sample=1).value
    assert found == pytest.approx(stored["y"].mean(), rel=1e-6)
    with pytest.raises(kubist.InvalidInput, match='two aggregates are named "m"'):
        table.estimate(["mean(x) AS m", "mean(y) AS m"])
    with pytest.raises(
        kubist.InvalidInput, match='already has a column "value"; give the group another'
    ):
        table.estimate("count()", group_by="floor(x) AS value")
    with pytest.raises(kubist.InvalidInput, match='already has a column "b"'):
        table.estimate("count()", group_by=["floor(x) AS b", "floor(y) AS b"])
