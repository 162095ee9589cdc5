"""Expressions against DuckDB: random ones over random rows, as values, conditions and groups.

Each random expression is written twice, for Kubist and for DuckDB, where their words differ; the
differences are those that docs/expressions.md lists. ``EXPRESSIONS=5000`` tries more of them.
"""

from __future__ import annotations

import datetime
import math
import os
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

ROWS = 60
COUNT = int(os.environ.get("EXPRESSIONS", "400"))
FAR = 2**60 + 999

Both = tuple[str, str]
"""An expression for Kubist and the same for DuckDB."""


def rows(seed: int) -> pa.Table:
    """Small numbers, so that products of a few stay within 64 bits; no NaN."""
    draw = random.Random(seed)

    def column(value: Any, nulls: float = 0.15) -> list[Any]:
        return [None if draw.random() < nulls else value() for _ in range(ROWS)]

    begin = datetime.datetime(2019, 12, 30)
    moments = column(lambda: begin + datetime.timedelta(seconds=draw.randint(-10**8, 10**8)))
    columns = {
        "row": pa.array(range(ROWS), pa.int64()),
        "at": pa.array([draw.random() for _ in range(ROWS)], pa.float64()),
        "n": pa.array(column(lambda: draw.randint(-9, 9)), pa.int64()),
        "i": pa.array(column(lambda: draw.choice([-7, -1, 0, 1, 2, 25, 100])), pa.int32()),
        "x": pa.array(column(lambda: draw.choice([0.0, 1.0, 2.5, -3.25, draw.uniform(-9, 9)]))),
        "f": pa.array(column(lambda: draw.randint(-64, 64) / 16), pa.float32()),
        "flag": pa.array(column(lambda: draw.random() < 0.5), pa.bool_()),
        "kind": pa.array(column(lambda: draw.choice(["a", "b", "ab", ""])), pa.string()),
        "t": pa.array(moments, pa.timestamp("us")),
        "d": pa.array(column(lambda: begin.date() + datetime.timedelta(draw.randint(-999, 999)))),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return rows(11)


@pytest.fixture(scope="module")
def table(data: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    path = tmp_path_factory.mktemp("expressions") / "t.kubist"
    return kubist.create(path, data, {"at": (0, 1)}, identity=["row"])


@pytest.fixture(scope="module")
def duck(data: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.register("arrow", data)
    connection.execute("create table t as select * from arrow")
    return connection


class Grammar:
    """Random expressions of each kind."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def number(self, depth: int) -> Both:
        draw, inner = self.draw, lambda: self.number(depth - 1)
        if depth == 0:
            name = draw.choice(["n", "i", "x", "f", "3", "-2", "0.5", "7", "2.25"])
            return name, name + "::DOUBLE" if "." in name else name
        which = draw.randrange(13)
        if which < 3:
            (a, p), (b, q) = inner(), inner()
            op = draw.choice("+-*")
            return f"({a} {op} {b})", f"({p} {op} {q})"
        if which == 3:
            (a, p), (b, q) = inner(), inner()
            return f"({a} / {b})", f"({p} / NULLIF({q}, 0))"
        if which == 4:
            (a, p), (b, q) = self.integer(depth - 1), self.integer(depth - 1)
            return f"({a} % {b})", f"({p} % NULLIF({q}, 0))"
        if which == 5:
            name = draw.choice(["abs", "floor", "ceil", "round", "sign", "-"])
            a, p = inner()
            return f"{name}({a})", f"{name}({p})"
        if which == 6:
            name = draw.choice(["sin", "cos", "radians", "degrees", "atan", "tan"])
            a, p = inner()
            return f"{name}({a})", f"{name}({p})"
        if which == 7:
            a, p = inner()
            name, q = draw.choice([("sqrt", "abs"), ("ln", "1 + abs"), ("log10", "1 + abs"), ("log2", "2 + abs")])
            return f"{name}({q}({a}))", f"{name}({q}({p}))"
        if which == 8:
            (a, p), (b, q) = inner(), inner()
            name = draw.choice(["atan2", "hypot", "power"])
            if name == "hypot":
                return f"hypot({a}, {b})", f"sqrt(({p})::DOUBLE * ({p}) + ({q})::DOUBLE * ({q}))"
            if name == "power":
                return f"power({a}, 2)", f"power({p}, 2)"
            return f"atan2({a}, {b})", f"atan2({p}, {q})"
        if which == 9:
            (a, p), (b, q) = inner(), inner()
            name = draw.choice(["least", "greatest"])
            null = f"({p}) IS NULL OR ({q}) IS NULL"
            return f"{name}({a}, {b})", f"CASE WHEN {null} THEN NULL ELSE {name}({p}, {q}) END"
        if which == 10:
            (c, r), (a, p), (b, q) = self.condition(depth - 1), inner(), inner()
            if draw.random() < 0.3:
                return f"CASE WHEN {c} THEN {a} END", f"CASE WHEN {r} THEN {p} END"
            return f"CASE WHEN {c} THEN {a} ELSE {b} END", f"CASE WHEN {r} THEN {p} ELSE {q} END"
        if which == 11:
            (c, r), (a, p) = self.condition(depth - 1), inner()
            return f"(({c}) * {a})", f"(({r})::INT * {p})"
        return self.integer(depth)

    def integer(self, depth: int) -> Both:
        draw = self.draw
        if depth == 0:
            name = draw.choice(["n", "i", "5", "-3"])
            return name, name
        which = draw.randrange(6)
        if which < 2:
            (a, p), (b, q) = self.integer(depth - 1), self.integer(depth - 1)
            op = draw.choice("+-*")
            return f"({a} {op} {b})", f"({p} {op} {q})"
        if which == 2:
            width = draw.choice([2, 5, 10])
            a, p = self.integer(depth - 1)
            return f"bin({a}, {width})", f"(floor(({p}) / {width}) * {width})::BIGINT"
        if which == 3:
            a, p = self.number(depth - 1)
            return f"CAST({a} AS int64)", f"CAST({p} AS DOUBLE)::BIGINT"
        if which == 4:
            a, p = self.integer(depth - 1)
            digits = draw.choice([-1, 0, 2])
            return f"round({a}, {digits})", f"round({p}, {digits})"
        c, r = self.condition(depth - 1)
        return f"({c})::int64", f"({r})::BIGINT"

    def time(self) -> Both:
        period = self.draw.choice(["second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade"])
        column = self.draw.choice(["t", "t", "d"])
        text = f"date_trunc('{period}', {column})"
        return text, text if column == "t" else f"{text}::DATE"

    def text(self, depth: int) -> Both:
        (c, r), (e, s) = self.condition(depth), self.condition(depth)
        words = self.draw.sample(["'a'", "'b'", "kind", "'c'", "NULL"], 3)
        case = "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END"
        return tuple(case.format(one, words[0], two, words[1], words[2]) for one, two in [(c, e), (r, s)])  # type: ignore[return-value]

    def condition(self, depth: int) -> Both:
        draw = self.draw
        which = draw.randrange(9)
        if depth > 0 and which < 3:
            (a, p), (b, q) = self.condition(depth - 1), self.condition(depth - 1)
            op = draw.choice(["AND", "OR", "="])
            return f"(({a}) {op} ({b}))", f"(({p}) {op} ({q}))"
        if depth > 0 and which == 3:
            a, p = self.condition(depth - 1)
            form = draw.choice(["NOT ({})", "({}) IS NULL", "({}) IS NOT TRUE"])
            return form.format(a), form.format(p)
        if depth > 0 and which == 4:
            (a, p), value = self.text(depth - 1), draw.choice(["= 'a'", "IN ('b', 'c')", "IS NULL", "<> 'a'"])
            return f"({a} {value})", f"({p} {value})"
        if which == 5:
            (a, p), op = self.time(), draw.choice(["=", "<", ">=", "<>"])
            value = draw.choice(["2020-01-01", "2019-12-30", "2021-03-01"])
            return f"{a} {op} '{value}'", f"{p} {op} '{value}'"
        if which == 6:
            text = draw.choice(["flag", "kind IN ('a', 'ab')", "kind LIKE 'a%'", "n IS NULL", "d < '2020-06-01'"])
            return text, text
        (a, p), (b, q) = self.number(max(depth - 1, 0)), self.number(0)
        if which == 7:
            return f"{a} BETWEEN {b} AND 3", f"{p} BETWEEN {q} AND 3"
        op = draw.choice(["<", "<=", ">", ">=", "=", "<>"])
        return f"{a} {op} {b}", f"{p} {op} {q}"


def near(found: Any, expected: Any) -> bool:
    if expected is None or (isinstance(expected, float) and math.isnan(expected)):
        return found is None or (isinstance(found, float) and math.isnan(found))
    if isinstance(expected, (datetime.date, datetime.datetime)):
        return bool(found == expected)
    if found is None:
        return False
    found, expected = float(found), float(expected)
    # 32-bit floats take part.
    return found == expected or abs(found - expected) <= 2e-6 * max(abs(found), abs(expected), 1.0)


def test_values_are_those_of_duckdb(table: kubist.Table, duck: Any) -> None:
    grammar = Grammar(1)
    at_once, kinds = 60, Counter[str]()
    for _ in range(0, COUNT, at_once):
        both = [
            grammar.time() if grammar.draw.random() < 0.1 else grammar.number(grammar.draw.choice([1, 2, 3]))
            for _ in range(at_once)
        ]
        # What is the same for every row is refused.
        both = [each for each in both if any(name in each[0] for name in ("n", "i", "x", "f", "t", "d")) and _reads(each[0])]
        asked = [f"max({ours})" for ours, _ in both]
        found = table.estimate(asked, group_by="row", precision=1)._rows()
        values: dict[tuple[str, int], Any] = {(row["aggregate"], row["row"]): row["value"] for row in found}
        for ours, theirs in both:
            expected = duck.execute(f"select row, {theirs} from t order by row").fetchall()
            for row, value in expected:
                mine = values[f"max({ours})", row]
                assert near(mine, value), (ours, theirs, row, mine, value)
                kinds["null" if value is None else type(value).__name__] += 1
    assert kinds["float"] > 100 and kinds["int"] > 100 and kinds["null"] > 100, kinds
    assert kinds["datetime"] > 100 and kinds["date"] > 30, kinds


def _reads(text: str) -> bool:
    """Does it name a column?"""
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()
    return any(word in ("n", "i", "x", "f", "flag", "kind", "t", "d") for word in words)


def test_conditions_select_the_rows_of_duckdb(table: kubist.Table, duck: Any) -> None:
    grammar, some = Grammar(2), 0
    for _ in range(COUNT // 2):
        ours, theirs = grammar.condition(grammar.draw.choice([0, 1, 2, 3]))
        expected = {row for (row,) in duck.execute(f"select row from t where {theirs}").fetchall()}
        found = set(table.query(where=ours, columns=["row"]).to_arrow()["row"].to_pylist())
        assert found == expected, (ours, theirs, found ^ expected)
        some += 0 < len(expected) < ROWS
    assert some > COUNT // 8


def test_groups_are_those_of_duckdb(table: kubist.Table, duck: Any) -> None:
    grammar = Grammar(3)
    for _ in range(max(COUNT // 20, 20)):
        kinds = [grammar.time, lambda: grammar.integer(2), lambda: grammar.condition(1), lambda: grammar.text(1)]
        ours, theirs = grammar.draw.choice(kinds)()
        if not _reads(ours):
            continue
        expected = Counter[Any]()
        for key, count in duck.execute(f"select {theirs}, count(*) from t group by 1").fetchall():
            expected[None if key is None else key] += count
        answer = table.estimate("count()", group_by=[ours], precision=1).to_arrow()
        found = dict(zip(answer[ours].to_pylist(), answer["value"].to_pylist(), strict=True))
        assert found == dict(expected), (ours, theirs)


def test_the_documented_differences_are_the_differences(table: kubist.Table, duck: Any) -> None:
    """What docs/expressions.md says that DuckDB does otherwise."""

    def ours(text: str) -> Any:
        return table.estimate(f"max(CASE WHEN row = 0 THEN {text} END + 0 * row)", precision=1).value

    def theirs(text: str) -> Any:
        return duck.execute(f"select {text}").fetchone()[0]

    assert (ours("-2^2"), theirs("-2^2")) == (-4, 4)
    assert (ours("2^3^2"), theirs("2^3^2")) == (512, 64)
    assert ours("1/0") is None and theirs("1/0") == math.inf
    assert ours("least(1, NULL)") is None and theirs("least(1, NULL)") == 1
    assert ours("9223372036854775807 + 1") == 2**63
    with pytest.raises(duckdb.Error, match="Overflow"):
        theirs("9223372036854775807 + 1")
    with pytest.raises(duckdb.Error):
        theirs("true + 1")
    assert ours("(row = 0) + 1") == 2


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    count = 101
    day = datetime.date(2020, 1, 1)
    moment = datetime.datetime(2020, 1, 1, 0, 0, 0, 1)
    data = pa.table(
        {
            "x": np.linspace(0, 1, count),
            "id": pa.array([FAR - 100 + row for row in range(count)], pa.int64()),
            "big": pa.array([2**64 - 1 - row for row in range(count)], pa.uint64()),
            "price": pa.array([Decimal(row) + Decimal("0.01") for row in range(count)], pa.decimal128(30, 2)),
            "day": pa.array([day + datetime.timedelta(row) for row in range(count)]),
            "us": pa.array([moment + datetime.timedelta(hours=row) for row in range(count)], pa.timestamp("us")),
            "utc": pa.array([moment + datetime.timedelta(hours=row) for row in range(count)], pa.timestamp("ms", "UTC"), safe=False),
            "ns": pa.array([10**18 + row for row in range(count)], pa.timestamp("ns")),
            "on": [row % 3 == 0 for row in range(count)],
        }
    )
    path = tmp_path_factory.mktemp("exact") / "t.kubist"
    return kubist.create(path, data, {"x": (0, 1)})


def test_exact_means_exact(exact: kubist.Table) -> None:
    def value(aggregate: str) -> Any:
        e = exact.estimate(aggregate, precision=1)
        assert e.exact and e.low == e.value == e.high
        return e.value

    ids = [FAR - 100 + row for row in range(101)]
    for aggregate, expected in {
        "max(id)": FAR,
        "min(id)": ids[0],
        "median(id)": ids[50],
        "p95(id)": ids[95],
        "sum(id)": sum(ids),
        "sum(id * 1000)": 1000 * sum(ids),
        "max(big)": 2**64 - 1,
        "sum(big)": sum(2**64 - 1 - row for row in range(101)),
        "count()": 101,
        "sum(on)": 34,
        "max(price)": Decimal("100.01"),
        "sum(price)": Decimal("5051.01"),
        "median(price)": Decimal("50.01"),
        "min(day)": datetime.date(2020, 1, 1),
        "median(day)": datetime.date(2020, 2, 20),
        "max(us)": datetime.datetime(2020, 1, 5, 4, 0, 0, 1),
        "min(utc)": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        "max(ns)": np.datetime64(10**18 + 100, "ns"),
        "max(date_trunc('day', us))": datetime.datetime(2020, 1, 5),
    }.items():
        found = value(aggregate)
        assert found == expected and type(found) is type(expected), aggregate
    assert isinstance(value("mean(id)"), float)
    assert "1,152,921,504,606,847,975 exactly" in repr(exact.estimate("max(id)"))
    together = exact.estimate(["min(id)", "max(id)", "sum(id)"], precision=1).to_arrow()
    assert [int(each) for each in together["value"].to_pylist()] == [ids[0], FAR, sum(ids)]
    grouped = exact.estimate("max(us)", group_by="on", precision=1).to_arrow()
    assert grouped.schema.field("value").type == pa.timestamp("us")
    mixed = repr(exact.estimate(["mean(x)", "max(id)", "max(price)", "max(day)"], precision=1))
    assert all(text in mixed for text in ("0.5 exactly", "847,975 exactly", "100.01 exactly", "2020-04-10 exactly"))


def test_a_fraction_by_bins_with_an_interval_in_one_call(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    diameter = 1e-6 + 3e-5 * rng.random(50_000)
    deposited = rng.random(50_000) < diameter / 4e-5
    data = {"x": rng.random(50_000), "id": np.arange(50_000), "diameter": diameter, "deposited": deposited}
    t = kubist.create(tmp_path / "t.kubist", data, {"x": (0, 1)}, identity=["id"])
    fraction = "sum(deposited*power(diameter,3))/sum(power(diameter,3))"
    volume = diameter**3
    truth = (deposited * volume).sum() / volume.sum()
    e = t.estimate(fraction, error=0.02)
    assert not e.exact and e.low <= truth <= e.high and (e.high - e.low) / 2 <= 0.02 * e.value
    binned = t.estimate(fraction, group_by="bin(diameter, 1e-5)", precision=1).to_pandas()
    edges = binned["bin(diameter, 1e-5)"].to_list()
    assert edges == [0.0, 1e-5, 2e-5, 3e-5]
    for edge, value in zip(edges, binned["value"], strict=True):
        inside = (diameter >= edge) & (diameter < edge + 1e-5)
        assert value == pytest.approx((deposited * volume)[inside].sum() / volume[inside].sum())
    with pytest.raises(kubist.InvalidInput, match="more than 10000 groups; group by something coarser"):
        t.estimate("count()", group_by="floor(x * 1e6)", precision=1)
    with pytest.raises(kubist.InvalidInput, match="`\\*` |does not fit an integer of 128 bits"):
        t.count(where="(id + 9223372036854775807) * 9223372036854775807 * 9223372036854775807 > 0")
    with pytest.raises(kubist.InvalidInput, match="in one branch and the text 'a' in another"):
        t.count(where="CASE WHEN deposited THEN 1 ELSE 'a' END = 1")
    assert t.count(where="1 / (id - id) IS NULL") == 50_000
    assert t.count(where="diameter >= 2e-6 AND diameter < 4e-6") == ((diameter >= 2e-6) & (diameter < 4e-6)).sum()
