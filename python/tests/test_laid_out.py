"""Rows in files before their commit: invisible until then, then visible as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kubist

PARTICLES, STEPS = 2000, 30


def step(number: int) -> pa.Table:
    places = np.random.default_rng(number).random((3, PARTICLES))
    return pa.table(
        {
            "pid": np.arange(PARTICLES, dtype=np.int32),
            "time": np.full(PARTICLES, float(number)),
            **dict(zip("xyz", places, strict=True)),
            # Mostly null, like values of a whole step.
            "box": pa.array([float(number)] + [None] * (PARTICLES - 1), pa.float64()),
        }
    )


def made(path: Path) -> kubist.Table:
    return kubist.create(
        path,
        step(0).schema,
        dimensions={"time": (0, STEPS), "x": (0, 1), "y": (0, 1), "z": (0, 1)},
        identity=["pid"],
        lookup=["pid"],
        capacity=256,
    )


QUESTIONS = [
    {},
    {"where": "pid IN (3, 1777)"},
    {"box": {"x": (0.2, 0.4), "time": (5, 21)}},
    {"where": "box >= 0"},
    {"sample": 0.1},
    {"limit": 500, "where": "z < 0.5"},
]


def test_a_commit_of_parts_is_as_one(tmp_path: Path) -> None:
    """With parts of any size, also empty ones, after an earlier commit, and with postings."""
    parts, whole = made(tmp_path / "parts"), made(tmp_path / "whole")
    with parts.writer("w") as by_parts, whole.writer("w") as at_once:
        for number in range(STEPS):
            by_parts.append(step(number))
            at_once.append(step(number))
            if number == 3:
                by_parts.commit(), at_once.commit()
            if number % 4 == 1:
                by_parts.lay_out()
                by_parts.lay_out()
                assert len(parts) == (4 * PARTICLES if number > 3 else 0)
                assert by_parts.pending_rows == (number + 1 - (4 if number > 3 else 0)) * PARTICLES
        done = by_parts.commit(token="all")
        assert done.rows == at_once.commit().rows == (STEPS - 4) * PARTICLES
        assert by_parts.committed("all") == done.rows
    for question in QUESTIONS:
        found, expected = (
            sorted(table.query(**question).to_arrow().to_pylist(), key=str)
            for table in (parts, whole)
        )
        assert found == expected and found, question
    assert parts.verify().ok
    assert _looked_up(parts) > 0
    parts.optimize()
    assert len(parts) == STEPS * PARTICLES
    assert parts.verify().ok


def test_what_is_discarded_is_never_seen(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    writer = table.writer()
    writer.append(step(0))
    writer.lay_out()
    writer.append(step(1))
    writer.discard()
    assert writer.pending_rows == 0 and not writer.commit().rows
    writer.append(step(2))
    writer.lay_out()
    with pytest.raises(kubist.InvalidInput, match="step 7: rows that are laid out"):
        writer.commit(step=7)
    writer.close()
    assert len(table) == 0
    table.append(step(3))
    assert set(table.query().to_numpy()["time"]) == {3.0}
    assert table.verify().ok
    table.clean()
    assert set(table.query().to_numpy()["time"]) == {3.0}


def test_what_is_discarded_leaves_no_file_behind(tmp_path: Path) -> None:
    """Also after an earlier commit, whose segment does not change."""
    path = tmp_path / "t"
    table = made(path)
    writer = table.writer()
    writer.append(step(0))
    writer.commit()
    before = sorted((path / "segments").iterdir())
    sizes = [file.stat().st_size for file in before]
    for number in range(1, 4):
        writer.append(step(number))
        writer.lay_out()
        writer.discard()
    assert sorted((path / "segments").iterdir()) == before
    assert [file.stat().st_size for file in before] == sizes
    writer.append(step(4))
    writer.lay_out()
    writer.append(step(5))
    writer.commit()
    writer.close()
    assert set(table.query().to_numpy()["time"]) == {0.0, 4.0, 5.0}
    assert table.verify().ok


def _looked_up(table: kubist.Table) -> int:
    result = table.query(where="pid = 17")
    assert len(result.to_numpy()["pid"]) == STEPS
    return result.stats.runs_looked_up
