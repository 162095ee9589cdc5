"""Conditions and groups of texts, whose pages come from memory from the third query on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import kubist
import numpy as np
import pyarrow as pa
import pytest

ROWS = 30_000
TIMES = 4

CONDITIONS: dict[str, Callable[[str | None], bool]] = {
    "= 'u'": lambda text: text == "u",
    "<> 'u'": lambda text: text is not None and text != "u",
    "IS NULL": lambda text: text is None,
    "IS NOT NULL": lambda text: text is not None,
    "IN ('vv', 'w', 'no')": lambda text: text in ("vv", "w"),
    "LIKE 'v%'": lambda text: text is not None and text.startswith("v"),
    "> 'v'": lambda text: text is not None and text > "v",
    "= 'no'": lambda text: False,
}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    random = np.random.default_rng(3)
    kinds = random.choice(["u", "vv", "w", ""], ROWS, p=[0.9, 0.05, 0.04, 0.01])
    # Some pages have few values, and others have many.
    mixed = np.where(np.arange(ROWS) < ROWS // 2, kinds, np.arange(ROWS).astype(str))
    nulls = np.arange(ROWS) % 11 == 0
    return pa.table(
        {
            "x": np.linspace(0, 1, ROWS),
            "key": np.arange(ROWS),
            "kind": pa.array(kinds, mask=nulls),
            "label": pa.array(kinds, mask=nulls).dictionary_encode(),
            "mixed": pa.array(mixed, mask=nulls),
        }
    )


@pytest.fixture(scope="module")
def table(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    path = tmp_path_factory.mktemp("labels") / "t.kubist"
    return kubist.create(path, rows, {"x": (0, 1)})


@pytest.mark.parametrize("column", ["kind", "label", "mixed"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_select_the_same_rows_each_time(
    rows: pa.Table, table: kubist.Table, column: str, condition: str
) -> None:
    holds = CONDITIONS[condition]
    wanted = [number for number, text in enumerate(rows[column].to_pylist()) if holds(text)]
    for _ in range(TIMES):
        found = table.query(where=f"{column} {condition}").to_arrow().sort_by("key")
        assert found.column_names == rows.column_names
        assert found["key"].to_pylist() == wanted
        some = rows.take(pa.array(wanted, pa.int64()))
        for name in ("kind", "label", "mixed"):
            assert found[name].to_pylist() == some[name].to_pylist()
        half = table.count(where=f"{column} {condition}", box={"x": (0.25, 0.75)})
        assert half == sum(ROWS // 4 <= number < ROWS - ROWS // 4 for number in wanted)


@pytest.mark.parametrize("column", ["kind", "label"])
def test_groups_have_the_same_figures_each_time(
    rows: pa.Table, table: kubist.Table, column: str
) -> None:
    expected = rows.group_by(column).aggregate([("key", "mean"), ("key", "max"), ("key", "count")])
    wanted = {row[column]: row for row in expected.to_pylist()}
    asked = ["mean(key)", "max(key)", "count()"]
    for _ in range(TIMES):
        found = table.estimate(asked, group_by=column, sample=1).to_arrow().to_pylist()
        assert {row[column] for row in found} == set(wanted)
        for row in found:
            name = {"mean(key)": "key_mean", "max(key)": "key_max", "count()": "key_count"}
            value = wanted[row[column]][name[row["aggregate"]]]
            assert row["value"] == pytest.approx(value, rel=1e-12)


def test_a_new_column_has_its_default_in_old_rows(tmp_path: Path) -> None:
    rows = pa.table({"x": np.linspace(0, 1, 3_000), "kind": pa.array(["a", "b", None] * 1_000)})
    t = kubist.create(tmp_path / "t.kubist", rows.select(["x"]), {"x": (0, 1)})
    t.add_column("kind", pa.string())
    t.append(rows)
    for _ in range(TIMES):
        assert t.count(where="kind = 'b'") == 1_000
        assert t.count(where="kind IS NULL") == 4_000
        assert t.query(where="kind IS NULL").to_arrow().num_rows == 4_000
