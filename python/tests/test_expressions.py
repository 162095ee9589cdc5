"""Random expressions over random rows, compared with DuckDB: as values, conditions and groups.

Expressions are written twice where the syntax differs (docs/expressions.md). ``EXPRESSIONS=5000``
runs more.
"""

from __future__ import annotations

import datetime
import math
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import kubist

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

ROWS = 60
COUNT = int(os.environ.get("EXPRESSIONS", "400"))

NAMES = ["", "a", "Alpha", "alpha_1", "50%", "Größe", "naïve Ärger", "a\\b", "x.y", "ẞ"]

PARTS = (
    "century decade year isoyear quarter month week weekofyear day dayofmonth dayofyear doy "
    "dayofweek weekday dow isodow hour minute second millisecond microsecond"
).split()

Both = tuple[str, str]
"""An expression for Kubist and the same for DuckDB."""


def rows(seed: int) -> pa.Table:
    """Small numbers without NaN, whose products fit into 64 bits."""
    draw = random.Random(seed)

    def column(value: Any, nulls: float = 0.15) -> list[Any]:
        return [None if draw.random() < nulls else value() for _ in range(ROWS)]

    begin = datetime.datetime(2019, 12, 30)
    moments = column(lambda: begin + datetime.timedelta(seconds=draw.randint(-(10**8), 10**8)))
    columns = {
        "row": pa.array(range(ROWS), pa.int64()),
        "at": pa.array([draw.random() for _ in range(ROWS)], pa.float64()),
        "n": pa.array(column(lambda: draw.randint(-9, 9)), pa.int64()),
        "i": pa.array(column(lambda: draw.choice([-7, -1, 0, 1, 2, 25, 100])), pa.int32()),
        "x": pa.array(column(lambda: draw.choice([0.0, 1.0, 2.5, -3.25, draw.uniform(-9, 9)]))),
        "f": pa.array(column(lambda: draw.randint(-64, 64) / 16), pa.float32()),
        "flag": pa.array(column(lambda: draw.random() < 0.5), pa.bool_()),
        "kind": pa.array(column(lambda: draw.choice(["a", "b", "ab", ""])), pa.string()),
        "name": pa.array(column(lambda: draw.choice(NAMES)), pa.string()),
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
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def number(self, depth: int) -> Both:
        draw, inner = self.draw, lambda: self.number(depth - 1)
        if depth == 0:
            name = draw.choice(["n", "i", "x", "f", "3", "-2", "0.5", "7", "2.25"])
            if name == "f":
                # In 32 bits if both systems compute so.
                return "(f * 2)::float64", "(f * 2)::DOUBLE"
            return name, name + "::DOUBLE" if "." in name else name
        which = draw.randrange(15)
        if which == 13:
            (a, p), (b, q) = inner(), inner()
            name = draw.choice(["coalesce", "ifnull", "nullif"])
            if name == "nullif" and not _reads(a):
                a, p = "x", "x"
            return f"{name}({a}, {b})", f"{name}(({p})::DOUBLE, ({q})::DOUBLE)"
        if which == 14:
            column = draw.choice(["t", "d"])
            return f"epoch({column})", f"epoch({column})"
        if which < 3:
            (a, p), (b, q) = inner(), inner()
            op = draw.choice("+-*")
            return f"({a} {op} {b})", f"({p} {op} {q})"
        if which == 3:
            (a, p), (b, q) = inner(), self.divisor(lambda: self.number(depth - 1))
            return f"({a} / {b})", f"({p} / NULLIF({q}, 0))"
        if which == 4:
            (a, p), (b, q) = self.integer(depth - 1), self.divisor(lambda: self.integer(depth - 1))
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
            name = draw.choice(["sqrt", "ln", "log10", "log2"])
            return f"{name}(1 + abs({a}))", f"{name}(1 + abs({p}))"
        if which == 8:
            (a, p), (b, q) = inner(), inner()
            name = draw.choice(["atan2", "hypot", "power"])
            if name == "hypot":
                squares = f"({p})::DOUBLE * ({p}) + ({q})::DOUBLE * ({q})"
                return f"hypot({a}, {b})", f"sqrt({squares})"
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
            return (
                f"CASE WHEN {c} THEN {a} ELSE {b} END",
                f"CASE WHEN {r} THEN {p} ELSE {q} END",
            )
        if which == 11:
            (c, r), (a, p) = self.condition(depth - 1), inner()
            return f"(({c}) * {a})", f"(({r})::INT * {p})"
        return self.integer(depth)

    def divisor(self, one: Callable[[], Both]) -> Both:
        both = one()
        while not _reads(both[0]):
            both = one()
        return both

    def integer(self, depth: int) -> Both:
        draw = self.draw
        if depth == 0:
            name = draw.choice(["n", "i", "5", "-3"])
            return name, name
        which = draw.randrange(9)
        if which == 6:
            part, column = draw.choice(PARTS), draw.choice(["t", "t", "d"])
            form = draw.choice(["{0}({1})", "extract({0} FROM {1})", "date_part('{0}', {1})"])
            if part in ("dow", "doy"):
                # DuckDB lacks functions of these names.
                form = "extract({0} FROM {1})"
            if column == "d" and part in ("hour", "minute", "second", "millisecond", "microsecond"):
                column = "t"
            text = form.format(part, column)
            return text, text
        if which == 7:
            (a, p), (b, q) = self.integer(depth - 1), self.integer(depth - 1)
            op = draw.choice(["&", "|", "xor", "~", ">>", "<<"])
            if op == "xor":
                return f"xor({a}, {b})", f"xor(({p})::BIGINT, ({q})::BIGINT)"
            if op == "~":
                return f"(~{a})", f"(~({p})::BIGINT)"
            if op == ">>":
                by = draw.randrange(6)
                return f"({a} >> {by})", f"(({p})::BIGINT >> {by})"
            if op == "<<":
                # DuckDB refuses to shift negative numbers.
                by = draw.randrange(4)
                return f"(i & 15 << {by})", f"((i & 15)::BIGINT << {by})"
            return f"({a} {op} {b})", f"(({p})::BIGINT {op} ({q})::BIGINT)"
        if which == 8:
            a = self.name(1)
            return f"length({a})", f"length({a})"
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
        periods = "second minute hour day week month quarter year decade"
        period = self.draw.choice(periods.split())
        column = self.draw.choice(["t", "t", "d"])
        text = f"date_trunc('{period}', {column})"
        return text, text if column == "t" else f"{text}::DATE"

    def moved(self) -> Both:
        draw = self.draw
        unit = draw.choice("second minute hour day week month quarter year".split())
        count, sign = draw.randrange(-30, 400), draw.choice("+-")
        shown = [f"INTERVAL '{count} {unit}s'", f"INTERVAL {count} {unit.upper()}"]
        if unit in ("day", "month", "year") and draw.random() < 0.3:
            ours = draw.choice(shown)
            return f"d {sign} {ours}", f"(d {sign} INTERVAL '{count} {unit}s')::DATE"
        return f"t {sign} {draw.choice(shown)}", f"t {sign} INTERVAL '{count} {unit}s'"

    def name(self, depth: int) -> str:
        draw = self.draw
        if depth == 0:
            return draw.choice(["name", "name", "kind"])
        inner = self.name(depth - 1)
        which = draw.randrange(6)
        if which < 2:
            return f"{draw.choice(['upper', 'lower'])}({inner})"
        if which == 2:
            start = draw.choice([1, 2, 4, -1, -3, 0])
            return f"substr({inner}, {start}, {draw.randrange(4)})"
        if which == 3:
            return f"coalesce({inner}, {draw.choice(['kind', 'name'])}, 'none')"
        if which == 4:
            return f"nullif({inner}, {draw.choice(['kind', chr(39) + 'a' + chr(39)])})"
        return inner

    def match(self) -> str:
        draw, name = self.draw, self.name(self.draw.randrange(3))
        part = draw.choice(["a", "%", "_", "ß", "l", "Al", "\\", "", ".", "50%"])
        pattern = draw.choice(["a%", "%_b", "%!%%", "%!_%", "a\\%", "_", "%ß%", "!!%", "a\\b"])
        expression = draw.choice(["^a", "[aä]", "a.*a$", r"\.", "(?i)A", "ö|ï", r"\d", ""])
        return draw.choice(
            [
                f"contains({name}, '{part}')",
                f"starts_with({name}, '{part}')",
                f"ends_with({name}, '{part}')",
                f"{name} LIKE '{pattern.replace('!', '')}'",
                f"{name} NOT LIKE '{pattern}' ESCAPE '!'",
                f"{name} ILIKE '{pattern}' ESCAPE '!'",
                f"regexp_matches({name}, '{expression}')",
                f"regexp_matches({name}, '{expression}', 'i')",
                f"{name} < kind",
                f"{name} = upper(kind)",
                f"{name} IN ('a', kind, 'alpha_1')",
                f"length({name}) > 2",
                f"{name} IS NULL",
                f"{name} BETWEEN 'a' AND 'b'",
            ]
        )

    def text(self, depth: int) -> Both:
        (c, r), (e, s) = self.condition(depth), self.condition(depth)
        a, b, z = self.draw.sample(["'a'", "'b'", "kind", "'c'", "NULL"], 3)
        ours = f"CASE WHEN {c} THEN {a} WHEN {e} THEN {b} ELSE {z} END"
        return ours, f"CASE WHEN {r} THEN {a} WHEN {s} THEN {b} ELSE {z} END"

    def condition(self, depth: int) -> Both:
        draw = self.draw
        which = draw.randrange(11)
        if which == 9:
            text = self.match()
            return text, text
        if which == 10:
            (a, p), op = self.moved(), draw.choice(["=", "<", ">=", "<>"])
            day = draw.choice(["2020-01-01", "2019-12-30", "2021-03-01"])
            if p.startswith("t "):
                hours = draw.randrange(99)
                return (
                    f"{a} {op} TIMESTAMP '{day}' - INTERVAL {hours} HOUR",
                    f"{p} {op} TIMESTAMP '{day}' - INTERVAL '{hours} hours'",
                )
            return f"{a} {op} '{day}'", f"{p} {op} '{day}'"
        if depth > 0 and which < 3:
            (a, p), (b, q) = self.condition(depth - 1), self.condition(depth - 1)
            op = draw.choice(["AND", "OR", "="])
            return f"(({a}) {op} ({b}))", f"(({p}) {op} ({q}))"
        if depth > 0 and which == 3:
            a, p = self.condition(depth - 1)
            form = draw.choice(["NOT ({})", "({}) IS NULL", "({}) IS NOT TRUE"])
            return form.format(a), form.format(p)
        if depth > 0 and which == 4:
            (a, p) = self.text(depth - 1)
            value = draw.choice(["= 'a'", "IN ('b', 'c')", "IS NULL", "<> 'a'"])
            return f"({a} {value})", f"({p} {value})"
        if which == 5:
            (a, p), op = self.time(), draw.choice(["=", "<", ">=", "<>"])
            value = draw.choice(["2020-01-01", "2019-12-30", "2021-03-01"])
            return f"{a} {op} '{value}'", f"{p} {op} '{value}'"
        if which == 6:
            plain = ["flag", "kind IN ('a', 'ab')", "kind LIKE 'a%'", "n IS NULL", "f * 2 < 1.5"]
            text = draw.choice(plain)
            return text, text
        (a, p), (b, q) = self.number(max(depth - 1, 0)), self.number(0)
        while not _reads(a):
            a, p = self.number(max(depth - 1, 0))
        if which == 7:
            return f"{a} BETWEEN {b} AND 3", f"{p} BETWEEN {q} AND 3"
        op = draw.choice(["<", "<=", ">", ">=", "=", "<>"])
        return f"{a} {op} {b}", f"{p} {op} {q}"


def near(found: Any, expected: Any) -> bool:
    if expected is None or (isinstance(expected, float) and math.isnan(expected)):
        # Aggregates ignore NaN, so nothing is left.
        return found is None
    if found is None:
        return False
    if isinstance(expected, int) and isinstance(found, int):
        return found == expected
    if isinstance(expected, (datetime.date, datetime.datetime)):
        return bool(found == expected)
    found, expected = float(found), float(expected)
    # Math libraries differ in the last digits, and differences of values amplify that.
    return found == expected or abs(found - expected) <= 1e-9 * max(abs(found), abs(expected), 1.0)


def test_values_are_those_of_duckdb(table: kubist.Table, duck: Any) -> None:
    grammar = Grammar(1)
    at_once, kinds = 60, Counter[str]()
    for _ in range(0, COUNT, at_once):
        draw = grammar.draw
        numbers = [grammar.number(draw.choice([1, 2, 3])) for _ in range(at_once - 12)]
        times = [grammar.time() for _ in range(8)] + [grammar.moved() for _ in range(4)]
        both = [each for each in numbers + times if _reads(each[0])]
        asked = [f"max({ours})" for ours, _ in both]
        found = table.estimate(asked, group_by="row", sample=1)._rows()
        values = {(row["aggregate"], row["row"]): row["value"] for row in found}
        for ours, theirs in both:
            expected = duck.execute(f"select row, {theirs} from t order by row").fetchall()
            for row, value in expected:
                mine = values[f"max({ours})", row]
                assert near(mine, value), (ours, theirs, row, mine, value)
                kinds["null" if value is None else type(value).__name__] += 1
    assert kinds["float"] > 100 and kinds["int"] > 100 and kinds["null"] > 100, kinds
    assert kinds["datetime"] > 100 and kinds["date"] > 30, kinds


def _reads(text: str) -> bool:
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()
    return any(word in ("n", "i", "x", "f", "flag", "kind", "name", "t", "d") for word in words)


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
        ours, theirs = grammar.draw.choice(
            [
                grammar.time(),
                grammar.moved(),
                grammar.integer(2),
                grammar.condition(1),
                grammar.text(1),
                (grammar.name(3),) * 2,
            ]
        )
        if not _reads(ours):
            continue
        expected = Counter[Any]()
        grouped = duck.execute(f"select {theirs}, count(*) from t group by 1").fetchall()
        expected.update(dict(grouped))
        answer = table.estimate("count()", group_by=[ours], sample=1).to_arrow()
        found = dict(zip(answer[ours].to_pylist(), answer["value"].to_pylist(), strict=True))
        assert found == dict(expected), (ours, theirs)


def test_columns_are_those_of_duckdb(table: kubist.Table, duck: Any) -> None:
    grammar, kinds = Grammar(4), Counter[str]()
    for _ in range(max(COUNT // 20, 20)):
        make = [grammar.time, grammar.moved, lambda: grammar.number(2), lambda: grammar.integer(2)]
        make += [lambda: grammar.condition(1), lambda: grammar.text(1)]
        both = [pair for each in make if _reads((pair := each())[0])]
        asked = [f"{ours} AS c{place}" for place, (ours, _) in enumerate(both)]
        found = table.query(columns=["row", *asked], order_by="row").to_arrow()
        for place, (ours, theirs) in enumerate(both):
            expected = duck.execute(f"select {theirs} from t order by row").fetchall()
            for mine, (value,) in zip(found[f"c{place}"].to_pylist(), expected, strict=True):
                if isinstance(value, float) and math.isnan(value):
                    same = mine is not None and math.isnan(mine)
                elif isinstance(value, (str, bool)):
                    same = mine == value and type(mine) is type(value)
                else:
                    same = near(mine, value)
                assert same, (ours, theirs, mine, value)
                kinds[type(value).__name__] += 1
    assert all(kinds[kind] > 100 for kind in ("int", "float", "str", "bool", "datetime")), kinds


def test_the_documented_differences_are_the_differences(table: kubist.Table, duck: Any) -> None:
    """The differences from DuckDB in docs/expressions.md."""

    def ours(text: str) -> Any:
        return table.estimate(f"max({text} + 0 * row)", sample=1).value

    def is_null(text: str) -> bool:
        return table.count(where=f"({text}) IS NULL") == ROWS

    def theirs(text: str) -> Any:
        return duck.execute(f"select {text}").fetchone()[0]

    assert (ours("-2^2"), theirs("-2^2")) == (-4, 4)
    assert (ours("2^3^2"), theirs("2^3^2")) == (512, 64)
    assert is_null("1/0") and theirs("1/0") == math.inf
    assert is_null("5 % 0") and is_null("1 / (n - n)") and is_null("5.0::float64 % 0")
    assert math.isnan(theirs("5::double % 0"))
    assert (ours("CAST(2.5 AS int64)"), theirs("CAST(2.5 AS bigint)")) == (2, 3)
    assert table.count(where="power(nan + 0 * row, 0) = 1 AND power(1, nan + 0 * row) = 1") == ROWS
    assert is_null("least(1, NULL)") and theirs("least(1, NULL)") == 1
    assert is_null("CAST(nan AS int64)")
    assert table.count(where="isnan(sqrt(-1)) AND isnan(ln(-1))") == ROWS
    assert ours("9223372036854775807 + 1") == 2**63
    with pytest.raises(duckdb.Error, match="Overflow"):
        theirs("9223372036854775807 + 1")
    with pytest.raises(duckdb.Error):
        theirs("true + 1")
    assert ours("(row = 0) + 1") == 2
