"""Random Polars plans and DuckDB queries, compared with the same on frames in memory.

``FRAMES=5000`` and ``SEED=0`` make it a campaign (`make stress-frames`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from test_frames import POLARS_KINDS, polars_test, table_of, world_of

PLANS = int(os.environ.get("FRAMES", "120"))
FIRST = int(os.environ.get("SEED", "0"))
EACH = 40
"""Plans per table."""

Verb = Any


def numbers(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind.is_integer() or kind.is_float()]


def keys(frame: pl.DataFrame) -> list[str]:
    simple = (pl.Boolean, pl.String, pl.Date, pl.Categorical)
    return [n for n, kind in frame.schema.items() if kind.is_integer() or kind in simple]


def reduced(rng: np.random.Generator, frame: pl.DataFrame) -> list[pl.Expr]:
    """Aggregates that do not depend on the order of the rows."""
    found = [pl.len().alias("rows")]
    for name in rng.choice(frame.columns, min(3, frame.width), replace=False):
        column, kind = pl.col(str(name)), frame.schema[str(name)]
        some = [column.count(), column.null_count()]
        if kind not in (pl.Binary, pl.Categorical) and not kind.is_float():
            some += [column.min(), column.max(), column.n_unique()]
        if kind.is_float():
            some += [column.is_nan().sum(), column.filter(column.is_finite()).max()]
        if kind.is_integer() and kind not in (pl.Int64, pl.UInt64):
            # Large values of both signs cancel, so rounding makes their sum depend on the order.
            some += [(column.cast(pl.Float64) / 1e6).mean()]
        found.append(some[rng.integers(len(some))].alias(f"of {name}"))
    return found


def verb(rng: np.random.Generator, frame: pl.DataFrame) -> Verb:
    """A step of a plan; ``frame`` has the rows of the table so far."""
    choice = rng.integers(12)
    if choice < 4:
        condition = polars_test(rng, frame)
        return lambda f: f.filter(condition)
    if choice == 4:
        names = list(rng.choice(frame.columns, rng.integers(1, frame.width + 1), replace=False))
        names = list(dict.fromkeys([*map(str, names), "id"]))
        return lambda f: f.select(names)
    if choice == 5 and (of := numbers(frame)):
        name = str(rng.choice(of))
        made = (pl.col(name).cast(pl.Float64) * 2 + 1).alias("made")
        return lambda f: f.with_columns(made)
    if choice == 6:
        by = [str(name) for name in rng.choice(frame.columns, min(2, frame.width), replace=False)]
        by = [name for name in by if frame.schema[name] not in (pl.Binary, pl.Categorical)]
        down = bool(rng.integers(2))
        return lambda f: f.sort([*by, "id"], descending=down, nulls_last=True)
    if choice == 7:
        first, count = int(rng.integers(0, 40)), int(rng.integers(1, 300))
        return lambda f: f.sort("id").slice(first, count)
    if choice == 8 and frame.width > 2:
        gone = str(rng.choice([name for name in frame.columns if name != "id"]))
        return lambda f: f.drop(gone)
    if choice == 9:
        old = str(rng.choice([name for name in frame.columns if name != "id"] or ["id"]))
        return (lambda f: f) if old == "id" else (lambda f: f.rename({old: old + " new"}))
    if choice == 10:
        count = int(rng.integers(1, 50))
        return lambda f: f.sort("id").tail(count)
    return lambda f: f.unique(subset="id", keep="any")


def last(rng: np.random.Generator, frame: pl.DataFrame) -> Verb:
    """The end of a plan: rows, totals, groups, a join with itself, or both parts of the rows."""
    choice = rng.integers(6)
    if choice == 0:
        made = reduced(rng, frame)
        return lambda f: f.select(made)
    if choice == 1 and (of := keys(frame)):
        by = [str(name) for name in rng.choice(of, min(len(of), 2), replace=False)]
        made = reduced(rng, frame)
        return lambda f: f.group_by(by).agg(made)
    if choice == 2:
        how = ["inner", "left", "semi", "anti", "full"][rng.integers(5)]
        odd = pl.col("id") % 3 == 1
        whole = bool(rng.integers(2))

        def right(frame: pl.LazyFrame) -> pl.LazyFrame:
            return frame.filter(odd) if whole else frame.filter(odd).select("id")

        return lambda f: f.join(right(f), on="id", how=how)
    if choice == 3:
        few = pl.col("id") < int(rng.integers(0, 2000))
        return lambda f: pl.concat([f.filter(few), f.filter(~few)])
    if choice == 4:
        return lambda f: f.select(pl.len())
    return lambda f: f


def same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    # Rows have no order after joins and groups.
    assert_frame_equal(
        found, expected, check_row_order=False, rel_tol=1e-9, categorical_as_str=True
    )


@pytest.mark.parametrize("number", range(FIRST, FIRST + -(-PLANS // EACH)))
def test_plans_have_the_rows_of_the_same_plan_on_a_frame(path: Path, number: int) -> None:
    rng = np.random.default_rng([7, number])
    world = world_of(rng, list(map(str, rng.choice(POLARS_KINDS, 5, replace=False))), 1500)
    table = table_of(path, world)
    frame, lazy = table.query().to_polars(), table.scan()
    for _ in range(min(EACH, PLANS)):
        plan, here = [], frame
        for _ in range(rng.integers(1, 5)):
            step = verb(rng, here)
            plan.append(step)
            here = step(here)
            if here.height < 2:
                break
        plan.append(last(rng, here))
        expected, asked = frame, lazy
        for step in plan:
            expected, asked = step(expected), step(asked)
        try:
            same(asked.collect(), expected)
        except AssertionError as error:
            raise AssertionError(f"{asked.explain()}\n{error}") from None


DUCK_KINDS = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 bool string dictionary "
    "date32 timestamp_us timestamp_s"
).split()


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"'{value}'::DOUBLE"
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("'", "''")
    return f"'{text}'"


def condition(rng: np.random.Generator, frame: pl.DataFrame, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        left, right = condition(rng, frame, depth - 1), condition(rng, frame, depth - 1)
        return [f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"][rng.integers(3)]
    name = str(rng.choice(frame.columns))
    one, other = (literal(frame[name][int(at)]) for at in rng.integers(0, frame.height, 2))
    choice = rng.integers(8)
    if choice == 0:
        return f"{name} IS {'NOT ' * int(rng.integers(2))}NULL"
    if choice == 1:
        return f"{name} IN ({one}, {other})"
    if choice == 2:
        return f"{name} BETWEEN {one} AND {other}"
    if choice == 3:
        return f"{name} IS NOT DISTINCT FROM {one}"
    operator = ["=", "<>", "<", "<=", ">", ">="][rng.integers(6)]
    return f"{name} {operator} {one}"


def query(rng: np.random.Generator, frame: pl.DataFrame) -> str:
    where = condition(rng, frame)
    name, other = (str(one) for one in rng.choice(frame.columns, 2, replace=False))
    choice = rng.integers(8)
    if choice == 0:
        return f"SELECT count(*), count({name}), min({other}), max({other}) FROM t WHERE {where}"
    if choice == 1:
        groups = f"GROUP BY {name} HAVING count(*) > 1"
        return f"SELECT {name}, count(*), min(id) FROM t WHERE {where} {groups}"
    if choice == 2:
        return f"SELECT DISTINCT {name}, {other} FROM t WHERE {where}"
    if choice == 3:
        return f"SELECT a.id, b.{name} FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.id % 5 = 1"
    if choice == 4:
        order = f"ORDER BY {name} NULLS LAST, id LIMIT 20 OFFSET 3"
        return f"SELECT id, {name} FROM t WHERE {where} {order}"
    if choice == 5:
        window = f"row_number() OVER (PARTITION BY {name} ORDER BY id)"
        return f"SELECT id, {window} AS n FROM t WHERE {where}"
    if choice == 6:
        return f"SELECT id FROM t WHERE {where} EXCEPT SELECT id FROM t WHERE {name} IS NULL"
    return f"SELECT * FROM t WHERE {where} AND id IN (SELECT max(id) FROM t GROUP BY {name})"


@pytest.mark.parametrize("number", range(FIRST, FIRST + -(-PLANS // (2 * EACH))))
def test_queries_of_duckdb_have_the_rows_of_a_table_in_memory(path: Path, number: int) -> None:
    rng = np.random.default_rng([8, number])
    world = world_of(rng, list(map(str, rng.choice(DUCK_KINDS, 5, replace=False))), 1500)
    table = table_of(path, world)
    frame = table.query().to_polars()
    with duckdb.connect() as here, duckdb.connect() as there:
        here.register("given", table.query().to_arrow())
        here.execute("CREATE TABLE t AS SELECT * FROM given")
        there.register("t", table.to_dataset())
        for _ in range(EACH):
            text = query(rng, frame)
            # NaN differs from itself in Python.
            expected, found = (
                sorted(map(repr, one.execute(text).fetchall())) for one in (here, there)
            )
            assert found == expected, text
