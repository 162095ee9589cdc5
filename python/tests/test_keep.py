"""Maintenance: added columns, units, metadata, copies, drops, disk use."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kubist


def rows(first: int, count: int = 1000, **more: object) -> dict[str, object]:
    ids = np.arange(first, first + count)
    return {"id": ids, "x": np.modf(ids * 0.6180339887498949)[0], **more}


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(
        path, rows(0), {"x": (0, 1)}, ["id"], units={"x": "m"}, metadata={"run": "a", "dt": 1e-4}
    )


def test_a_column_comes_later(table: kubist.Table, path: Path) -> None:
    other, before = kubist.open(path), table.snapshot()
    writer = other.writer("old")
    writer.append(rows(1000))
    table.add_column("age", "float64", default=0.5, nullable=False, unit="s")
    table.add_column("kind", pa.dictionary(pa.int32(), pa.string()), default="dust")
    table.add_column("seen", pa.timestamp("us"), default=dt.datetime(2024, 2, 3))
    table.add_column("note", "string")
    writer.commit()
    other.append(rows(2000, age=np.full(1000, 2.0), kind=["oil"] * 1000))

    assert before.schema.names == ["id", "x"]
    assert len(before.query().to_arrow().column_names) == 2
    assert other.schema.names == ["id", "x", "age", "kind", "seen", "note"]
    assert other.schema.field("age").metadata == {b"unit": b"s"}
    assert not other.schema.field("age").nullable
    for handle in (table, other, kubist.open(path)):
        frame = handle.query().to_pandas().sort_values("id")
        assert (frame.age == np.repeat([0.5, 2.0], [2000, 1000])).all()
        assert (frame.kind == np.repeat(["dust", "oil"], [2000, 1000])).all()
        assert (frame.seen == pd.Timestamp(2024, 2, 3)).all() and frame.note.isna().all()
        assert handle.count(where="age > 1 AND kind = 'oil'") == 1000
        assert handle.count(where="note IS NULL AND age < 1") == 2000
        assert len(handle.query(limit=10, where="age = 0.5").to_arrow()) == 10
    rare = table.query(where="kind = 'oil'", columns=["id"])
    assert len(rare.to_arrow()) == 1000 and rare.stats.rows_read <= 1000  # old runs are not read
    table.optimize(debt_share=0.001)
    assert table.verify().ok and table.count(where="age > 1") == 1000


def test_a_column_that_cannot_be_added(table: kubist.Table) -> None:
    refused = [
        (("x", "float32"), {}, "x.* is in the table already"),
        (("age", "float33"), {}, "not a type"),
        (("age", "int8"), {"default": 300}, "age.*300"),
        (("age", "int8"), {"default": "old"}, "age.*not a value"),
        (("age", "int8"), {"nullable": False}, "must not be null"),
        (("age", pa.list_(pa.int8())), {}, "not supported"),
        (("_kubist_step", "int64"), {}, "reserved"),
        ((7, "int64"), {}, "not a column name"),
        (("age", "int8"), {"unit": 3}, "unit"),
    ]
    for arguments, keywords, message in refused:
        with pytest.raises(kubist.InvalidInput, match=message):
            table.add_column(*arguments, **keywords)
    assert table.schema.names == ["id", "x"]


def test_units_and_metadata(table: kubist.Table, path: Path) -> None:
    other, before = kubist.open(path), table.snapshot()
    assert (other.units, other.metadata) == ({"x": "m"}, {"run": "a", "dt": 1e-4})
    table.set_unit("x", "mm")
    table.set_unit("id", "1")
    table.set_metadata({"run": None, "mesh": {"cells": np.int64(7), "made": dt.date(2024, 2, 3)}})
    table.set_metadata({"axis": "streamwise", "order": 2}, column="x")
    assert other.units == {"id": "1", "x": "mm"}
    assert other.metadata == {"dt": 1e-4, "mesh": {"cells": 7, "made": "2024-02-03"}}
    assert (before.units, before.metadata["run"]) == ({"x": "m"}, "a")
    field = other.query(columns=["x"]).schema.field("x")
    assert field.metadata == {b"unit": b"mm", b"axis": b"streamwise", b"order": b"2"}
    info = other.info()
    assert info.metadata == other.metadata
    assert info.columns[1].unit == "mm" and info.columns[1].metadata["order"] == 2
    assert "x: Float64 in mm" in repr(info) and "mesh: {" in repr(info)
    table.set_unit("x", None)
    assert other.units == {"id": "1"}
    for call in (
        lambda: table.set_unit("y", "m"),
        lambda: table.set_unit("x", ""),
        lambda: table.set_metadata({"f": float("nan")}),
        lambda: table.set_metadata({"f": object()}),
        lambda: table.set_metadata({"f": b"bytes"}),
        lambda: table.set_metadata({7: "f"}),
        lambda: table.set_metadata("f"),
        lambda: kubist.create(path.parent / "new", rows(0), ["x"], units={"q": "m"}),
        lambda: kubist.create(path.parent / "new", rows(0), ["x"], units={"x": 3}),
    ):
        with pytest.raises(kubist.InvalidInput):
            call()
    assert not (path.parent / "new").exists()


def test_arrow_metadata_of_the_creation_stays(path: Path) -> None:
    x = pa.field("x", pa.float32(), metadata={"unit": "deg", "long_name": "angle"})
    schema = pa.schema([x, pa.field("n", pa.int8())], metadata={"source": "a file"})
    t = kubist.create(path, schema, ["x"], units={"n": "1"})
    assert t.schema.metadata == {b"source": b"a file"} and t.metadata == {}
    assert t.units == {"x": "deg", "n": "1"}
    assert t.info().columns[0].metadata == {"long_name": "angle"}
    t.set_unit("x", "rad")
    t.add_column("age", "int8", default=0)
    again = kubist.create(path, schema, ["x"], units={"n": "1"}, exist_ok=True)
    assert again.schema.names == ["x", "n", "age"]
    assert kubist.create(path, again.schema, ["x"], exist_ok=True).units["x"] == "rad"


@pytest.mark.parametrize("identity", [["id"], None])
def test_a_copy(path: Path, tmp_path: Path, identity: list[str] | None) -> None:
    t = kubist.create(path, pa.table(rows(0)).schema, ["x"], identity, units={"x": "m"})
    t.set_metadata({"run": "a"})
    for step in range(3):
        with t.writer("solver") as w:
            w.append(rows(step * 1000))
            w.commit(step=step)
    t.add_column("age", "int32", default=3)
    told: list[tuple[int, int]] = []
    copy = t.copy_to(tmp_path / "copy", progress=lambda done, total: told.append((done, total)))
    wide = t.snapshot(step=1).copy_to(tmp_path / "wide", dimensions={"x": (0, 8)}, capacity=100)
    assert all(done <= total == 3000 for done, total in told if total)
    assert copy.schema.equals(t.schema, check_metadata=True)
    assert (copy.units, copy.metadata) == (t.units, t.metadata)
    assert copy.query(limit=100).to_arrow()["id"] == t.query(limit=100).to_arrow()["id"]
    assert copy.snapshot().complete_steps() == [0, 1, 2]
    assert len(copy.query(steps=1).to_arrow()) == 1000
    assert (len(copy), len(wide), wide.info().dimensions[0].high) == (3000, 2000, 8)
    assert copy.verify().ok and wide.verify().ok
    copy.append(rows(9000))
    assert (len(copy), len(t)) == (4000, 3000)
    with pytest.raises(kubist.TableExists, match="copy"):
        t.copy_to(tmp_path / "copy")
    with pytest.raises(kubist.InvalidInput, match="age"):
        t.copy_to(tmp_path / "no", dimensions={"x": None, "age": None})

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    try:
        t.copy_to(tmp_path / "no", progress=stop)
    except KeyboardInterrupt:
        # A whole copy or none: the copy may exist at the last progress call.
        stopped = tmp_path / "no"
        assert not stopped.exists() or len(kubist.open(stopped)) == 3000


def test_columns_come_while_other_processes_write(path: Path) -> None:
    kubist.create(path, rows(0), ["x"], ["id"])
    script = """
        import sys, numpy as np, kubist
        path, first = sys.argv[1], int(sys.argv[2])
        t = kubist.open(path)
        with t.writer(f"w{first}") as w:
            for part in range(20):
                ids = np.arange(100) + first + part * 100
                data = {"id": ids, "x": ids % 97 / 97}
                for name in t.schema.names[2:]:
                    data[name] = ids.astype(np.int32)
                w.append(data)
                w.commit()
                if part % 4 == 0:
                    t.add_column(f"a{first}_{part}", "int32", default=-1)
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    writers = [subprocess.Popen([*arguments, str(first)]) for first in (10_000, 20_000, 30_000)]
    t = kubist.open(path)
    counts = [t.snapshot().query().to_arrow().num_rows for _ in range(20)]
    assert counts == sorted(counts)
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    frame = t.query().to_pandas()
    added = frame.columns[2:]
    assert len(added) == 15 and len(frame) == 7000 and t.verify().ok
    for name in added:
        assert ((frame[name] == -1) | (frame[name] == frame.id)).all()
        assert t.count(where=f"{name} >= 0") == (frame[name] >= 0).sum()
    assert (frame[added] >= 0).any().any() and kubist.open(path).schema.equals(t.schema)


def test_a_drop(table: kubist.Table, path: Path) -> None:
    writer = table.writer()
    with pytest.raises(kubist.Busy):
        kubist.drop(path)
    assert len(table) == 1000
    writer.close()
    table.close()
    (path / "notes.txt").write_text("mine")
    dropped = kubist.drop(path)
    assert dropped.files > 3 and dropped.files_left == 1 and dropped.bytes > 1000
    assert [left.name for left in path.iterdir()] == ["notes.txt"]
    for call in (kubist.drop, kubist.open):
        with pytest.raises(kubist.NotATable, match=str(path)):
            call(path)


def test_disk_use_has_a_cause_for_every_byte(table: kubist.Table, path: Path) -> None:
    for first in range(1000, 4000, 100):
        table.append(rows(first, 100))
    table.optimize(debt_share=0.001)
    disk = table.info().disk
    assert disk.total == sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    parts = {name: getattr(disk, name) for name in disk.__slots__ if name != "total"}
    assert sum(parts.values()) == disk.total and parts["dead"] > 0 and parts["rewrites"] > 0
    assert "dead" in str(disk) and str(disk) in repr(table.info())
    assert table.info().to_dict()["disk"]["total"] == disk.total
