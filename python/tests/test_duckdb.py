"""SQL by DuckDB: its conditions prune, and never change a result."""

from __future__ import annotations

import json
import random
import types
from pathlib import Path

import kubist
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kubist._sql import run

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("polars")

ROWS = 5_000


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    values = np.random.default_rng(1)
    x = values.normal(size=ROWS)
    x[::50] = np.nan
    return pa.table(
        {
            "x": pa.array(x, mask=np.arange(ROWS) % 41 == 0),
            "f": values.random(ROWS).astype("f4").round(1),
            "i": values.integers(-20, 20, ROWS),
            "name": values.choice(["ab", "cd", "it's"], ROWS),
            "kind": pa.array(values.choice(["u", "v", "w"], ROWS)).dictionary_encode(),
            "key": np.arange(ROWS),
        }
    )


@pytest.fixture(scope="module")
def table(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    path = tmp_path_factory.mktemp("duckdb") / "t.kubist"
    return kubist.create(path, rows, {"f": None, "i": None})


def condition(choose: random.Random, depth: int = 3) -> str:
    part = choose.choice
    if depth and choose.random() < 0.6:
        one, other = condition(choose, depth - 1), condition(choose, depth - 1)
        return part([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
    column = part(["x", "f", "i", "s.x", "s.f", "S.I", '"f"'])
    low, high = round(choose.uniform(-2, 2), 1), round(choose.uniform(-2, 2), 1)
    literal = part([str(low), f"{low}::DOUBLE", str(int(low)), f"{low}::FLOAT", "0.1", "1e0"])
    op = part(["<", "<=", ">", ">=", "=", "<>"])
    return part(
        [
            f"{column} {op} {literal}",
            f"{literal} {op} {column}",
            f"{column} BETWEEN {low} AND {high}",
            f"{column} NOT BETWEEN {low} AND {high}",
            f"{column} IN ({int(low)}, {int(high)}, 0.5)",
            f"{column} IS NULL",
            f"{column} IS NOT NULL",
            f"name {op} 'cd'",
            "name NOT IN ('ab', 'it''s')",
            "kind IN ('u', 'w')",
            f"abs({column}) {op} {literal}",
            "isnan(x)",
        ]
    )


def test_conditions_change_no_result(rows: pa.Table, table: kubist.Table) -> None:
    choose = random.Random(1)
    with duckdb.connect() as connection:
        connection.register("s", rows)
        for _ in range(150):
            where = condition(choose)
            query = "SELECT count(*) AS n, sum(key) AS k FROM {} WHERE " + where
            wanted = connection.sql(query.format("s")).fetchall()[0]
            assert table.sql(query.format("self AS s"), engine="duckdb").row(0) == wanted, where


def test_the_query_alone_compares_integers(tmp_path: Path) -> None:
    values = pa.array(range(-50, 50), pa.int16(), mask=np.arange(100) % 7 == 0)
    rows = pa.table({"x": np.linspace(0, 1, 100), "n": values, "key": np.arange(100)})
    t = kubist.create(tmp_path / "t.kubist", rows, {"x": None})
    n, asked = pc.field("n"), []
    conditions = [n >= 3, n < -2, n == 7, (n > -9) & (n <= 4), n != 5, ~(n > 4), n > 2.5, n == 999]
    for number, condition in enumerate(conditions):
        wanted = rows.filter(condition)["key"].to_pylist()
        found = t.to_dataset(on_result=asked.append).to_table(columns=["key"], filter=condition)
        assert sorted(found["key"].to_pylist()) == wanted, condition
        # Other conditions are pyarrow's too, and need their column.
        is_exact = number < 4 or number == 7
        columns = ["key"] if is_exact else ["n", "key"]
        assert asked[-1].to_arrow().column_names == columns, condition
        # A limit comes first.
        dataset = t.to_dataset(limit=40)
        some = set(dataset.to_table()["key"].to_pylist())
        found = dataset.to_table(columns=["key"], filter=condition)
        assert sorted(found["key"].to_pylist()) == [key for key in wanted if key in some], condition


@pytest.mark.parametrize(
    "query",
    [
        # Each use of the table has its own condition, or none.
        "SELECT count(*) FROM self a JOIN self b USING (key) WHERE a.x > 1",
        "SELECT (SELECT count(*) FROM self WHERE x > 1) + (SELECT count(*) FROM self)",
        "SELECT count(*) FROM self WHERE x > 1 UNION ALL SELECT count(*) FROM self WHERE x < -1",
        "SELECT count(*) FROM self WHERE i > (SELECT avg(i) FROM self WHERE f < 0.2)",
        # Another table hides it, a column hides the alias, an alias is no column.
        "WITH self AS (SELECT 5.0 AS x FROM range(3)) SELECT count(*) FROM self WHERE x > 1",
        "SELECT count(*) FROM self AS x WHERE x.x > 1",
        "SELECT count(*) FROM (SELECT x + 5 AS x FROM self) WHERE x > 5",
        "SELECT count(*) FROM (SELECT key AS later FROM self WHERE later > 4000)",
        "SELECT count(*) FROM self AS s(b, x) WHERE x > 0.5",
        'SELECT count(*) FROM self WHERE X > 1 AND "F" > 0.5',
        # The sample comes before the condition.
        "SELECT count(*) < 20 FROM self WHERE key < 50 USING SAMPLE 100 ROWS",
        "FROM self SELECT count(*) WHERE x > 1",
        "SELECT i, count(*) FROM self WHERE x > 1 GROUP BY i HAVING i > 3 ORDER BY i",
        "SELECT count(*) FROM self WHERE EXISTS (SELECT 1 FROM range(2) r(k) WHERE i > 15)",
    ],
)
def test_a_query_of_any_shape(rows: pa.Table, table: kubist.Table, query: str) -> None:
    with duckdb.connect() as connection:
        connection.register("self", rows)
        wanted = connection.sql(query).fetchall()
    assert sorted(table.sql(query, engine="duckdb").rows()) == sorted(wanted)


def test_a_condition_of_floats_prunes(tmp_path: Path) -> None:
    values = np.random.default_rng(2).random((200_000, 2))
    t = kubist.create(tmp_path / "t", {"x": values[:, 0], "y": values[:, 1]}, ["x", "y"])
    results: list[kubist.Result] = []
    frame = t.to_dataset(on_result=results.append)
    from kubist._duckdb import _uses as uses

    with duckdb.connect() as connection:
        query = "SELECT count(*) FROM self WHERE x BETWEEN 0.5 AND 0.51 AND y > 0.99"
        tree = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0][0]
        (use,) = uses(json.loads(tree), "self", ["x", "y"])
        # DuckDB's NaN is above all numbers, and Kubist's is not.
        assert frame.restricted(use.condition) is None
        connection.register("self", frame.narrowed(use.condition))
        (found,) = connection.sql(query).fetchall()[0]
    inside = (values[:, 0] >= 0.5) & (values[:, 0] <= 0.51) & (values[:, 1] > 0.99)
    assert found == inside.sum()
    assert results[-1].stats.rows_returned < 100


def test_conditions_with_the_same_meaning_are_kubists_alone(tmp_path: Path) -> None:
    """DuckDB gets only the columns that the rest of the query needs."""
    random = np.random.default_rng(3)
    x = random.choice([-1.5, -0.0, 0.0, 0.1, 0.3, 73.96, np.nan, np.inf, -np.inf], 5000)
    n = pa.array(random.integers(-3, 4, 5000), pa.int16(), mask=random.random(5000) < 0.1)
    rows = pa.table({"x": pa.array(x, mask=random.random(5000) < 0.1), "n": n, "key": range(5000)})
    table = kubist.create(tmp_path / "t", rows, {"key": None})
    asked: list[kubist.Result] = []
    dataset = table.to_dataset(on_result=asked.append)
    own = types.SimpleNamespace(source=None, dataset=lambda: dataset)
    numbers = [-1.5, 0, 0.0, 0.1, 0.3, 1e300, 73.96]
    conditions = [f"x {op} {number}" for op in ("<", "<=", "=") for number in numbers]
    conditions += [f"x BETWEEN {low} AND {high}" for low in numbers for high in numbers]
    conditions += [f"{number} > x AND n >= 2 AND x >= -2.5" for number in numbers]
    with duckdb.connect() as connection:
        connection.register("s", rows)
        for condition in conditions:
            query = f"SELECT count(*) AS rows, sum(key) AS keys FROM {{}} WHERE {condition}"
            wanted = connection.sql(query.format("s")).fetchall()
            assert run(query.format("self"), "duckdb", own, None).rows() == wanted, condition
            assert asked[-1].to_arrow().column_names == ["key"], condition
        # Where NaN meets the condition, or an operand has too many digits, DuckDB decides.
        long = "x BETWEEN 0 AND 0.12345678901234567"
        for condition in ("x > 0.1", "n > 1 AND x >= 0", long, "n < 1.5"):
            query = f"SELECT count(*) AS rows, sum(key) AS keys FROM {{}} WHERE {condition}"
            wanted = connection.sql(query.format("s")).fetchall()
            assert run(query.format("self"), "duckdb", own, None).rows() == wanted, condition
            assert len(asked[-1].to_arrow().column_names) > 1, condition
