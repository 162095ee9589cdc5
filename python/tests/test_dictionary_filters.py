"""Filters of dictionaries select the same items as Python, and use the index where possible."""

import datetime
import importlib.util
import math
import os
import random
import textwrap

import pytest

from kubist.hecuba import StorageDict, config
from kubist.hecuba import filter as pushing_filter

FILTERS = int(os.environ.get("KUBIST_FILTERS", "300"))
FIRST = int(os.environ.get("KUBIST_FIRST_FILTER", "0"))

KEYS = [("i", "int"), ("t", "double")]
COLUMNS = [
    ("n", "int"),
    ("x", "double"),
    ("y", "double"),
    ("s", "str"),
    ("f", "bool"),
    ("d", "date"),
    ("m", "datetime"),
    ("p", "tuple<int,double>"),
]


def some(rng, values, none=0.12):
    return None if rng.random() < none else rng.choice(values)


def items(seed):
    """Random items, with None, NaN, infinities, minus zero and the largest integers."""
    rng = random.Random(seed)
    floats = [0.0, -0.0, 1.0, 2.5, -3.25, 0.1, 1e300, math.inf, -math.inf, math.nan, 2.0**60]
    integers = [0, 1, 2, -3, 5, 2**53 + 1, 2**63 - 1, -(2**63)]
    found = {}
    for i in range(150):
        day = datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=7 * i)
        found[i % 40 - 10, i / 8] = (
            some(rng, integers),
            some(rng, [*floats, rng.gauss(0, 2)]),
            some(rng, [*floats, rng.gauss(0, 2)]),
            some(rng, ["", "a", "ab", "it's", "Äb", "b a", "🙂"]),
            some(rng, [True, False]),
            some(rng, [day.date(), datetime.date(2020, 2, 1)]),
            some(rng, [day, datetime.datetime(2020, 2, 1, 0, 0, 0, 1)]),
            None if rng.random() < 0.1 else (rng.randrange(4), some(rng, floats)),
        )
    return found


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    config.location, before = str(tmp_path_factory.mktemp("filters")), config.location
    d = StorageDict("tests.filtered", KEYS, COLUMNS, ["x", "y"])
    # Older values, which filters must not find.
    d.update(items(1))
    d.sync()
    d.update(items(2))
    yield d, items(2)
    config.location = before


class Row:
    def __init__(self, key, value):
        self.key, self.value = key, value
        names = [name for name, _ in KEYS + COLUMNS]
        self.__dict__.update(zip(names, [*key, *value], strict=True))

    def __getitem__(self, at):
        return (self.key, self.value)[at]


def in_python(function, expected):
    """The keys for which a function is true, and those for which it raises."""
    true, raised = set(), set()
    for key, value in expected.items():
        try:
            if function(Row(key, value)):
                true.add(key)
        except (TypeError, ZeroDivisionError, OverflowError, ValueError, AttributeError):
            raised.add(key)
    return true, raised


class Writer:
    """Random conditions as Python source."""

    def __init__(self, rng):
        self.rng = rng

    def integer(self):
        return self.rng.choice(
            ["r.i", "r.n", "r[0][0]", "r.value[0]", "r.p[0]", "r.key.i"[:4] + "y[0]"]
        )

    def floating(self):
        return self.rng.choice(["r.x", "r.y", "r.t", "r[1][1]", "r.p[1]", "r.key[1]"])

    def number(self, depth=0):
        rng = self.rng
        if depth > 2 or rng.random() < 0.5:
            return rng.choice([self.integer, self.floating])()
        return rng.choice(
            [
                lambda: f"({self.number(depth + 1)} {rng.choice('+-*')} {self.number(depth + 1)})",
                lambda: f"({self.number(depth + 1)} {rng.choice('+-*')} {self.constant()})",
                lambda: f"-{self.number(depth + 1)}",
                lambda: f"abs({self.number(depth + 1)})",
                lambda: f"({self.number(depth + 1)}).conjugate()",
                lambda: f"({self.floating()} - 0.5)**2 + {self.floating()}**2",
                lambda: f"math.hypot({self.floating()}, {self.floating()})",
                lambda: f"math.sqrt({self.floating()})",
                lambda: f"({self.number(depth + 1)} / 3)",
                lambda: "len(r.s)",
            ]
        )()

    def constant(self):
        return self.rng.choice(
            [
                "0",
                "1",
                "2.5",
                "-3",
                "limit",
                "2**53",
                "2**63",
                "1e300",
                "float('inf')",
                "-0.0",
                "nan",
                "0.1",
                "True",
                "len(names)",
                "-2**63",
                "2**53 + 1",
                "3 * 2",
            ]
        )

    def leaf(self):
        rng = self.rng
        op = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        day = rng.choice(["datetime.date(2020, 2, 1)", "day"])
        moment = rng.choice(["datetime.datetime(2020, 2, 1, 0, 0, 0, 1)", "moment"])
        return rng.choice(
            [
                lambda: f"{self.number()} {op} {self.constant()}",
                lambda: f"{self.constant()} {op} {self.number()}",
                lambda: f"{self.integer()} {op} {self.integer()}",
                lambda: f"{self.floating()} {op} {self.floating()}",
                lambda: f"{self.constant()} <= {self.number()} < {self.constant()}",
                lambda: f"{self.integer()} {rng.choice(['in', 'not in'])} range(-5, limit)",
                lambda: (
                    f"{self.number()} {rng.choice(['in', 'not in'])} (1, 2.5, None, nan, 2**70)"
                ),
                lambda: f"r.s {rng.choice(['in', 'not in'])} names",
                lambda: f"r.s {rng.choice(['in', 'not in'])} ['a', None]",
                lambda: f"'a' {rng.choice(['in', 'not in'])} r.s",
                lambda: f"r.s {op} {rng.choice(['name', repr('it' + chr(39) + 's')])}",
                lambda: (
                    f"r.s.{rng.choice(['startswith', 'endswith'])}"
                    f"({rng.choice(['name', '(name, chr(98))'])})"
                ),
                lambda: (
                    f"r.{rng.choice('nxsfdmp')} {rng.choice(['is', 'is not', '==', '!='])} None"
                ),
                lambda: f"r.{rng.choice('nxsfdmi')}",
                lambda: f"bool(r.{rng.choice('nxsf')})",
                lambda: f"r.f {rng.choice(['==', '!='])} {rng.choice(['True', 'False', '1'])}",
                lambda: f"r.d {op} {day}",
                lambda: f"{moment} {op} r.m",
                lambda: f"{self.floating()}.is_integer()",
                lambda: f"{self.integer()}.bit_length() > 2",
                lambda: f"str({self.integer()}).endswith('1')",
                lambda: rng.choice(["True", "limit > 3", "limit"]),
            ]
        )()

    def condition(self, depth=0):
        rng = self.rng
        if depth > 3 or rng.random() < 0.4:
            return self.leaf()
        one, two = self.condition(depth + 1), self.condition(depth + 1)
        return rng.choice(
            [
                f"({one} and {two})",
                f"({one} or {two})",
                f"not ({one})",
                f"({one} if {two} else {self.leaf()})",
            ]
        )


def test_random_filters_select_what_python_selects(stored, tmp_path):
    d, expected = stored
    sources = [Writer(random.Random(seed)).condition() for seed in range(FIRST, FIRST + FILTERS)]
    head = textwrap.dedent(
        """
        import datetime, math
        nan = float("nan")
        names = {"a", "it's"}
        day = datetime.date(2020, 1, 20)
        def made():
            limit, name, moment = 5, "a", datetime.datetime(2020, 1, 9, 5)
            return [
        """
    )
    # Two on a line, which then does not identify them.
    lines = [
        ", ".join(f"lambda r: {source}" for source in sources[at : at + 2]) + ","
        for at in range(0, len(sources), 2)
    ]
    path = tmp_path / "filters.py"
    path.write_text(head + "".join(f"        {line}\n" for line in lines) + "    ]\n")
    module = importlib.util.spec_from_file_location("filters", path)
    loaded = importlib.util.module_from_spec(module)
    module.loader.exec_module(loaded)
    pushed = 0
    for source, function in zip(sources, loaded.made(), strict=True):
        true, raised = in_python(function, expected)
        reading = d.explain(function)
        pushed += reading.where is not None
        try:
            selected = {tuple(item.key) for item in d.filter(function)}
        except (TypeError, ZeroDivisionError, OverflowError, ValueError, AttributeError):
            assert raised, (source, reading)
            continue
        assert selected - raised == true, (source, reading)
    assert pushed > 0.7 * FILTERS


def test_each_form_goes_to_the_index(stored):
    d, _ = stored
    low, names = 2, ["a", "b"]

    def half_open(item):
        """A function with a single return is read like a lambda."""
        return low <= item.i < 5

    for function, where in [
        (lambda r: r.i > low and r.x < 0.5, '"i" > 2 AND "x" < 0.5'),
        (lambda r: r.i == 1 or r.i == 3, '"i" = 1 OR "i" = 3'),
        (lambda r: not r.i > low, '"i" <= 2'),
        (lambda r: 0.1 <= r.x < 0.2, '"x" >= 0.1 AND "x" < 0.2'),
        (half_open, '"i" >= 2 AND "i" < 5'),
        (lambda r: r.i in (1, 2), '"i" IN (1, 2)'),
        (lambda r: r.i in range(3, 9), '"i" >= 3 AND "i" < 9'),
        (lambda r: r.s in names, "\"s\" IN ('a', 'b')"),
        (lambda r: r.s.startswith("a"), "starts_with(\"s\", 'a')"),
        (lambda r: abs(r.x - 1.5) < 0.25, 'abs(("x" - (1.5))) < 0.25'),
        (lambda r: r.f, '"f"'),
        (lambda r: r.p[0] >= 1, '"p.0" >= 1'),
        (lambda r: r[0][0] == 4, '"i" = 4'),
    ]:
        reading = d.explain(function)
        assert (reading.where, reading.python) == (where, None)
    reading = d.explain(lambda r: r.i > 2 and str(r.i) == "3" and (r.x - 1) ** 2 < 4)
    assert reading.where == '"i" > 2 AND (("x" - (1)) * ("x" - (1))) <= 4.000000004'
    assert reading.python == "str(r.i) == '3' and (r.x - 1) ** 2 < 4"
    assert str(reading).splitlines() == [
        f"index:  {reading.where}",
        f"python: {reading.python}",
    ]


def test_the_right_lambda_of_a_line_is_read(stored):
    d, _ = stored
    many = [lambda r: r.i < 1, lambda r: r.i < 2, lambda r: r.i < 1, lambda r: (r.i < 3) == True]  # noqa: E712
    wheres = [d.explain(each).where for each in many]
    assert wheres == ['"i" < 1', '"i" < 2', '"i" < 1', None]
    nested = (lambda: (lambda r: r.i > 7, lambda r: r.i > 8))()
    assert [d.explain(each).where for each in nested] == ['"i" > 7', '"i" > 8']


def test_wrong_columns_and_types_are_refused_at_once(stored):
    d, _ = stored
    with pytest.raises(AttributeError, match="no column 'missing'; there are i, t, n"):
        d.filter(lambda r: r.missing == 1)
    for wrong in (
        lambda r: r.i == "1",
        lambda r: r.s < 5,
        lambda r: r.x in ["a"],
        lambda r: r.d < r.s,
    ):
        with pytest.raises(TypeError):
            d.filter(wrong)
    with pytest.raises(TypeError):
        d.filter("r.i == 1")


def test_a_filter_without_source_runs_in_python_and_says_so_once(stored, recwarn):
    d, expected = stored
    unreadable = eval("lambda r: r.i > 20")
    with pytest.warns(UserWarning, match="cannot be read"):
        found = d.filter(unreadable)
    assert found.reading.where is None and "lambda" in found.reading.python
    assert {tuple(item.key) for item in found} == {key for key in expected if key[0] > 20}
    recwarn.clear()
    assert len(list(d.filter(unreadable))) == len(list(found))
    assert not recwarn.list

    def several(row):
        limit = row.i
        return limit > 20

    with pytest.warns(UserWarning, match="several"):
        assert len(list(d.filter(several))) == len(list(found))


def test_a_changed_file_is_not_believed(stored, tmp_path):
    d, _ = stored
    path = tmp_path / "changing.py"
    path.write_text("made = lambda r: r.i > 20\n")
    spec = importlib.util.spec_from_file_location("changing", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    path.write_text("made = lambda r: r.i > 99\n")
    with pytest.warns(UserWarning, match="cannot be read"):
        assert d.explain(loaded.made).where is None


def test_the_function_filter_leaves_other_iterables_to_python(stored):
    d, _ = stored
    assert list(pushing_filter(lambda n: n > 2, [1, 2, 3])) == [3]
    found = pushing_filter(lambda r: r.i == 4, d.items())
    assert found.reading.where == '"i" = 4' and len(list(found)) > 0
