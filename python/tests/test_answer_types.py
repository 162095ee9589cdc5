"""Group keys in their types, objects that cannot be pickled, messages that say what to do."""

from __future__ import annotations

import datetime
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from servers import COMMAND

import kubist

HOUR = datetime.timedelta(hours=1)
NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def table(path: Path) -> kubist.Table:
    texts = ["a", None, "", "a"] * 50
    columns = {
        "x": pa.array(np.arange(200) / 200),
        "text": pa.array(texts).dictionary_encode(),
        "many": pa.array([f"text {k}" for k in range(200)]),
        "wait_ms": pa.array([HOUR, None] * 100, pa.duration("ms")),
        "wait_ns": pa.array([HOUR, None] * 100, pa.duration("ns")),
        "at": pa.array([NOON, None] * 100, pa.timestamp("ns", "UTC")),
    }
    return kubist.create(path, pa.table(columns), ["x"])


def keys(table: kubist.Table, column: str) -> list[object]:
    return [row[column] for row in table.estimate("count()", group_by=column).to_dicts()]


def test_group_keys_have_their_types(table: kubist.Table) -> None:
    assert keys(table, "wait_ms") == [None, HOUR]
    assert keys(table, "wait_ns") == [None, np.timedelta64(3600, "s")]
    assert keys(table, "at") == [None, NOON]
    assert keys(table, "text") == [None, "", "a"]
    assert keys(table, "many") == sorted(f"text {k}" for k in range(200))


def test_texts_are_counted_and_found(table: kubist.Table) -> None:
    assert table.count(where="text = 'a'") == 100 and table.count(where="text IS NULL") == 50
    assert table.count(where="text LIKE '' OR many = 'text 7'") == 51
    assert table.estimate("count_distinct(text)").value == 2


@pytest.mark.parametrize(("of", "says"), [("query", "to_arrow"), ("writer", "in each process")])
def test_what_cannot_be_pickled_says_what_to_do(table: kubist.Table, of: str, says: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=f"cannot be pickled.*{says}"):
        pickle.dumps(getattr(table, of)())


@pytest.mark.parametrize("clock", ["now()", "current_timestamp", "today()", "Current_Date"])
def test_expressions_read_no_clock(table: kubist.Table, clock: str) -> None:
    with pytest.raises(kubist.InvalidInput, match="read no clock: write the time"):
        table.count(where=f"at < {clock}")


def test_a_missing_answer_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no.json"
    done = subprocess.run(
        [str(COMMAND), "recompute", str(missing)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr == f"kubist: error: there is no saved answer at {missing}\n"
