"""Parquet, Arrow, CSV and NPZ from Python: the same tables as from the command."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import COMMAND

import kubist

ROWS = 3000
RNG = np.random.default_rng(23)
FRAME = pd.DataFrame({
    "pid": np.arange(ROWS),
    "x": RNG.random(ROWS),
    "y": RNG.random(ROWS).astype(np.float32),
    "kind": RNG.choice(["oil", "water"], ROWS),
})  # fmt: skip


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    run = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def write(path: Path) -> Path:
    rows = pa.Table.from_pandas(FRAME, preserve_index=False)
    match path.name.split(".", 1)[1]:
        case "parquet":
            pq.write_table(rows, path)
        case "arrow":
            with pa.ipc.new_file(str(path), rows.schema) as file:
                file.write_table(rows)
        case "arrows":
            with pa.ipc.new_stream(str(path), rows.schema) as stream:
                stream.write_table(rows)
        case "csv":
            FRAME.to_csv(path, index=False)
        case "csv.gz":
            path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
        case "dat":
            path.write_text(FRAME.to_string(index=False, header=False, float_format="%.17g"))
        case "npz":
            np.savez(path, **{name: FRAME[name].to_numpy() for name in ("pid", "x", "y")})
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows", "csv", "csv.gz", "dat", "npz"])
def test_both_doors_make_the_same_table(tmp_path: Path, ending: str) -> None:
    file = write(tmp_path / f"a.{ending}")
    options: dict[str, Any] = {"dimensions": ["x", "y"], "identity": ["pid"]}
    read: dict[str, Any] = {"types": {"y": "float32"}}
    options["read"] = read
    flags = ["--dimensions", "x,y", "--identity", "pid", "--read", "types=y=float32"]
    if ending == "dat":
        read |= {"delimiter": "space", "names": list(FRAME.columns)}
        flags += ["--read", "delimiter=space", "--read", "names=" + ",".join(FRAME.columns)]
    plan = kubist.ingest(tmp_path / "t", file, dry_run=True, **options)
    assert (plan.dimensions, plan.identity, plan.steps) == (["x", "y"], ["pid"], 1)
    assert not (tmp_path / "t").exists()
    report = kubist.ingest(tmp_path / "t", file, **options)
    assert (report.rows, report.created) == (ROWS, True)
    done = command("ingest", tmp_path / "u", file, *flags)
    assert done.returncode == 0, done.stderr
    mine, theirs = (kubist.open(tmp_path / name) for name in ("t", "u"))
    assert mine.schema == theirs.schema
    found = [t.query(order_by="pid").to_arrow() for t in (mine, theirs)]
    assert found[0] == found[1]
    for name in found[0].column_names:
        assert found[0][name].to_pylist() == FRAME[name].tolist(), name
    # An ingested file is skipped, by the command's options too.
    assert kubist.ingest(tmp_path / "t", file, **options).skipped == 1
    again = command("ingest", tmp_path / "t", file, *flags, "--keep-going", "--json")
    assert json.loads(again.stdout)["skipped"] == 1, again.stderr
    again = command("ingest", tmp_path / "t", file, *flags)
    assert "1 file was ingested already (--again takes it again)" in again.stderr
    assert kubist.ingest(tmp_path / "u", file, **options).skipped == 1
    assert len(kubist.open(tmp_path / "t")) == len(kubist.open(tmp_path / "u")) == ROWS
    assert kubist.ingest(tmp_path / "t", file, again=True, **options).rows == ROWS
    assert command("ingest", tmp_path / "t", file, *flags, "--again").returncode == 0
    assert len(kubist.open(tmp_path / "t")) == 3 * ROWS
    with pytest.raises(kubist.InvalidInput, match="again: with follow"):
        kubist.ingest(tmp_path / "t", file, again=True, follow=True, **options)


def test_text_is_read_in_the_types_that_all_files_fit(tmp_path: Path) -> None:
    (tmp_path / "a_1.csv").write_text("pid,u,note\n1,0,\n2,1,\n")
    (tmp_path / "a_2.csv").write_text("note,pid,u\nhit,3,0.5\n")
    kubist.ingest(tmp_path / "t", tmp_path / "a_*.csv", dimensions=["u"])
    table = kubist.open(tmp_path / "t")
    assert table.query(order_by="pid").to_arrow().to_pydict() == {
        "pid": [1, 2, 3],
        "u": [0.0, 1.0, 0.5],
        "note": [None, None, "hit"],
    }
    # An existing table determines the columns for any header.
    (tmp_path / "b.csv").write_text("pid,u,note\n4,7,8\n")
    kubist.ingest(tmp_path / "t", tmp_path / "b.csv")
    (found,) = table.query(where="pid = 4").to_arrow().to_pylist()
    assert found == {"pid": 4, "u": 7.0, "note": "8"}
    # A column that was added later may be missing, and then has its default.
    table.add_column("age", "float64", default=2.5)
    (tmp_path / "c.csv").write_text("pid,u,note\n5,7,\n")
    kubist.ingest(tmp_path / "t", tmp_path / "c.csv")
    assert table.query(where="pid = 5").to_arrow()["age"].to_pylist() == [2.5]


def test_a_missing_position_is_no_error_as_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("pid,x\n1,nan\n2,\n3,0.5\n")
    assert kubist.ingest(tmp_path / "t", tmp_path / "a.csv", dimensions=["x"]).rows == 3
    done = command("ingest", tmp_path / "u", tmp_path / "a.csv", "--dimensions", "x")
    assert done.returncode == 0, done.stderr
    found = [
        kubist.open(tmp_path / name).query(order_by="pid").to_arrow()["x"].combine_chunks()
        for name in ("t", "u")
    ]
    assert str(found[0]) == str(found[1])


def test_time_and_columns_can_be_said(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv")
    kubist.ingest(
        tmp_path / "t",
        file,
        dimensions=["x", "time"],
        read={"columns": ["pid", "x", "time"], "time": 2.5},
        create={"units": {"x": "m", "time": "s"}},
    )
    table = kubist.open(tmp_path / "t")
    assert table.columns == ["pid", "x", "time"] and table.units == {"x": "m", "time": "s"}
    assert set(table.query().to_numpy()["time"]) == {2.5}


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    target = tmp_path / "t"
    kubist.ingest(target, tmp_path / "a.csv", dimensions=["x", "y"])
    wrong = {
        "typo.csv": ("pid,x,y,kind\n1,0.1,0.1,a\n2,0.1,O.2,a\n", 'row 2, column "y": cannot read'),
        "less.csv": ("pid,x,kind\n1,0.1,a\n", 'column "y" is missing, and the table needs a value'),
        "short.csv": ("pid,x,y,kind\n1,0.1,0.1,a\n2,0.1\n", "number of fields for line 3"),
        "bare.csv": ("1,0.1,0.1,7\n", "the first line holds numbers, and names of columns are"),
        "cut.parquet": ("PAR1 and no more", "cut.parquet"),
        "long.csv": ("pid,x,y,kind\n1,0.1,0.1," + "a" * 200 + "\n", "max_record"),
    }  # fmt: skip
    for name, (text, message) in wrong.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(kubist.InvalidInput) as raised:
            kubist.ingest(target, tmp_path / name, read={"max_record": 100})
        said = str(raised.value)
        assert message in said and said.count(name) == 1 and "\n" not in said, said
    assert len(kubist.open(target)) == ROWS
    (tmp_path / "good.csv").write_text("pid,x,y,kind\n9000,0.1,0.1,a\n")
    report = kubist.ingest(target, [tmp_path / "typo.csv", tmp_path / "good.csv"], keep_going=True)
    assert report.rows == 1 and list(report.failed) == [str(tmp_path / "typo.csv")]
    with pytest.raises(kubist.InvalidInput, match="delimiter: a delimiter is one ASCII character"):
        kubist.ingest(target, tmp_path / "good.csv", read={"delimiter": ";;"})
    with pytest.raises(kubist.InvalidInput, match="csv does not say which columns are positions"):
        kubist.ingest(tmp_path / "u", tmp_path / "good.csv")


@pytest.mark.parametrize("by", ["Python", "the command"])
def test_columns_that_come_later(tmp_path: Path, by: str) -> None:
    """New columns are null in earlier rows; missing columns are null in the new rows."""
    pq.write_table(
        pa.table({"x": [0.1, 0.2], "id": pa.array([1, 2], pa.uint64()), "kind": ["a", "b"]}),
        tmp_path / "a.parquet",
    )
    mass = pa.field("mass", pa.float32(), metadata={"unit": "kg"})
    fields = [("x", pa.float64()), mass, ("id", pa.uint16())]
    later = pa.table({"x": [0.3], "mass": [7.0], "id": [3]}, schema=pa.schema(fields))
    pq.write_table(later, tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("id,x,note\n4,0.4,hit\n")
    files = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.csv")]

    def ingest(table: Path, *files: Path) -> list[str]:
        if by == "Python":
            return kubist.ingest(table, files, dimensions=["x"]).columns_added
        done = command("ingest", table, *files, "--dimensions", "x", "--json")
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout)["columns_added"])

    expected = {
        "id": [1, 2, 3, 4],
        "kind": ["a", "b", None, None],
        "mass": [None, None, 7.0, None],
        "note": [None, None, None, "hit"],
    }
    assert ingest(tmp_path / "together", *files) == []
    added = [ingest(tmp_path / "one_by_one", file) for file in files]
    assert added == [[], ["mass"], ["note"]]
    for name in ("together", "one_by_one"):
        table = kubist.open(tmp_path / name)
        found = table.query(order_by="x").to_arrow().to_pydict()
        assert {column: found[column] for column in expected} == expected, name
        assert table.units == {"mass": "kg"}
    # A value that does not fit an older column is refused, with its row.
    wide = pa.table({"x": [0.5], "id": pa.array([2**63], pa.uint64()), "mass": ["heavy"]})
    pq.write_table(wide, tmp_path / "d.parquet")
    with pytest.raises(kubist.InvalidInput, match='column "mass" is Utf8'):
        kubist.ingest(tmp_path / "together", tmp_path / "d.parquet")


def test_a_copy_with_wider_types_takes_wider_files(tmp_path: Path) -> None:
    mass = pa.array([0.1], pa.float32())
    narrow = {"x": pa.array([0.1]), "id": pa.array([1], pa.uint32()), "mass": mass}
    wide = {"x": [0.2], "id": pa.array([2**40], pa.uint64()), "mass": [0.1]}
    for name, columns in (("a", narrow), ("b", wide)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    kubist.ingest(tmp_path / "t", tmp_path / "a.parquet", dimensions=["x"], identity=["id"])
    with pytest.raises(kubist.InvalidInput, match="kubist copy --types mass=float64"):
        kubist.ingest(tmp_path / "t", tmp_path / "b.parquet")
    with kubist.open(tmp_path / "t") as table:
        with pytest.raises(kubist.InvalidInput, match="1099511627776.*kubist copy --types"):
            table.append({**wide, "x": np.array([0.2])})
        copy = table.copy_to(tmp_path / "u", types={"id": "uint64", "mass": pa.float64()})
    done = command("copy", tmp_path / "t", tmp_path / "v", "--types", "id=uint64,mass=float64")
    assert done.returncode == 0, done.stderr
    assert copy.schema.equals(kubist.open(tmp_path / "v").schema)
    kubist.ingest(tmp_path / "u", tmp_path / "b.parquet")
    found = copy.query(order_by="x").to_arrow().select(["id", "mass"])
    assert found.schema.types == [pa.uint64(), pa.float64()]
    assert found.to_pydict() == {"id": [1, 2**40], "mass": [*mass.to_pylist(), 0.1]}
    with pytest.raises(kubist.InvalidInput, match='"id" has the type UInt64, and Int64 is no wide'):
        copy.copy_to(tmp_path / "w", types={"id": "int64"})


def test_nested_columns_are_left_out_by_name(tmp_path: Path) -> None:
    """The command reports them as Python does."""
    columns = {"x": [0.1, 0.2], "tags": [[1], []], "at": [{"a": 1}, None]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    ingest = ("ingest", tmp_path / "t", tmp_path / "a.parquet", "--dimensions", "x")
    done = command(*ingest, "--read", "columns=x,tags")
    assert done.returncode == 2 and '"tags" has the type List' in done.stderr
    done = command(*ingest, "--read", "strict")
    assert done.returncode == 2 and "column tags would be left out" in done.stderr
    done = command(*ingest)
    assert done.returncode == 0 and "left out: column tags: its type List" in done.stderr
    assert kubist.open(tmp_path / "t").schema.names == ["x"]
    done = command(*ingest, "--again", "--json")
    left_out = json.loads(done.stdout)["left_out"][str(tmp_path / "a.parquet")]
    assert {*left_out} == {"column at", "column tags"}
    report = kubist.ingest(tmp_path / "u", tmp_path / "a.parquet", dimensions=["x"])
    assert {*report.left_out[str(tmp_path / "a.parquet")]} == {"column at", "column tags"}


def test_rows_without_a_position_are_skipped_on_request(tmp_path: Path) -> None:
    write_rows = pa.table({"x": [0.1, None, float("nan")], "id": [1, 2, 3]})
    pq.write_table(write_rows, tmp_path / "a.parquet")
    report = kubist.ingest(
        tmp_path / "t", tmp_path / "a.parquet", dimensions=["x"], read={"bad_rows": "skip"}
    )
    assert (report.rows, report.rows_skipped) == (1, {str(tmp_path / "a.parquet"): 2})
    assert kubist.open(tmp_path / "t").query().to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(kubist.InvalidInput, match="bad_rows: 'drop' is neither refuse nor skip"):
        kubist.ingest(tmp_path / "t", tmp_path / "a.parquet", read={"bad_rows": "drop"})
    done = command(
        *("ingest", tmp_path / "u", tmp_path / "a.parquet", "--dimensions", "x"),
        *("--read", "bad_rows=skip"),
    )
    assert done.returncode == 0 and "2 rows without a position were skipped" in done.stderr


def test_a_word_among_positions_is_named_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\nfoo,3\n")
    with pytest.raises(kubist.InvalidInput, match=r'a\.csv: row 2, column "x": cannot read "foo"'):
        kubist.ingest(tmp_path / "t", tmp_path / "a.csv", dimensions=["x"])


def test_any_name_can_be_said_to_be_text(tmp_path: Path) -> None:
    (tmp_path / "stars.asc").write_text("pid|x\n1|0.5\n")
    kubist.ingest(tmp_path / "t", tmp_path / "stars.asc", read={"format": "csv"}, dimensions=["x"])
    assert kubist.open(tmp_path / "t").query().to_arrow().to_pylist() == [{"pid": 1, "x": 0.5}]
    done = command(
        "ingest", tmp_path / "u", tmp_path / "stars.asc", "--read", "format=csv", "--dimensions", "x"
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    rows = pd.DataFrame({"pid": np.arange(60_000), "x": RNG.random(60_000)})
    rows.to_csv(tmp_path / "a.csv", index=False)
    run = [str(COMMAND), "ingest", tmp_path / "t", tmp_path / "a.csv", "--dimensions", "x"]
    with subprocess.Popen([*run, "--commit-rows", "200"], stderr=subprocess.PIPE) as process:
        while not (found := count(tmp_path / "t")):
            assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        assert 0 < found < len(rows)
        yield process
        process.kill()


def count(table: Path) -> int:
    try:
        return kubist.open(table).count()
    except kubist.NotATable:
        return 0


def test_a_file_that_is_being_ingested_is_refused_at_both_doors(
    tmp_path: Path, begun: subprocess.Popen[bytes]
) -> None:
    table, file = tmp_path / "t", tmp_path / "a.csv"
    with pytest.raises(kubist.Busy, match=r"a\.csv: writer \"writer-1\" is at work on it"):
        kubist.ingest(table, file)
    second = command("ingest", table, file)
    assert second.returncode == 4 and 'a.csv: writer "writer-1" is at work' in second.stderr
    # Other files do not wait for it.
    (tmp_path / "b.csv").write_text("pid,x\n1,0.5\n")
    report = kubist.ingest(table, [file, tmp_path / "b.csv"], keep_going=True)
    assert (list(report.failed), report.rows) == ([str(file)], 1)


def test_python_goes_on_with_a_file_of_which_the_command_took_a_part(
    tmp_path: Path, begun: subprocess.Popen[bytes]
) -> None:
    begun.kill()
    begun.wait()
    table = kubist.open(tmp_path / "t")
    before = table.count()
    assert 0 < before < 60_000
    report = kubist.ingest(tmp_path / "t", tmp_path / "a.csv")
    assert report.rows == 60_000 - before
    assert sorted(table.query(columns=["pid"]).to_numpy()["pid"]) == list(range(60_000))
    assert kubist.ingest(tmp_path / "t", tmp_path / "a.csv").skipped == 1
    assert command("ingest", tmp_path / "t", tmp_path / "a.csv").returncode == 0
    assert table.count() == 60_000


def test_columns_that_no_table_holds_do_not_block_a_file(tmp_path: Path) -> None:
    rows = pa.table({"x": [1.0, 2.0], "l": [[1, 2], [3]], "s": [{"a": 1}, {"a": 2}]})
    pq.write_table(rows, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
        out.write_table(rows)
    arrays = {"x": np.zeros(2), "p": np.zeros((2, 2)), "c": np.zeros(2, "c16"), "o": np.zeros(5)}
    np.savez(tmp_path / "a.npz", **arrays, one=np.float64(3))
    odd = ["column l", "column s"]
    for name, expected in (
        ("a.parquet", odd),
        ("a.arrow", odd),
        ("a.npz", ["array c", "array o", "array one"]),
    ):
        table = tmp_path / f"{name}.kubist"
        report = kubist.ingest(table, tmp_path / name, dimensions=["x"])
        assert list(report.left_out[str(tmp_path / name)]) == expected
        assert kubist.open(table).columns == (["x", "p_0", "p_1"] if name == "a.npz" else ["x"])
        with pytest.raises(kubist.InvalidInput, match=f"{expected[0]} would be left out"):
            kubist.ingest(tmp_path / "u", tmp_path / name, dimensions=["x"], read={"strict": True})


def test_metadata_and_comments_of_files_are_kept(tmp_path: Path) -> None:
    rows = pa.table({"x": [1.0, 2.0]}).replace_schema_metadata({"epoch": "2016", "pandas": "{}"})
    pq.write_table(rows, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, rows.schema) as out:
        out.write_table(rows)
    with pa.OSFile(str(tmp_path / "a.arrows"), "wb") as file, pa.ipc.new_stream(file, rows.schema) as out:
        out.write_table(rows)
    with pa.output_stream(str(tmp_path / "a.csv.zst"), compression="zstd") as file:
        file.write(b"# epoch 2016\nx\n1\n")
    for name, format, said in (
        ("a.parquet", "parquet", {"epoch": "2016"}),
        ("a.arrow", "arrow", {"epoch": "2016"}),
        ("a.arrows", "arrow", {"epoch": "2016"}),
        ("a.csv.zst", "csv", {"comments": "# epoch 2016"}),
    ):
        kubist.ingest(tmp_path / f"{name}.kubist", tmp_path / name, dimensions=["x"])
        assert kubist.open(tmp_path / f"{name}.kubist").metadata == {"format": format, format: said}


def test_types_that_no_column_has_do_not_block_a_file(tmp_path: Path) -> None:
    x = np.arange(3.0)
    late = np.array([1, 2, "NaT"], "m8[s]")
    np.savez(tmp_path / "a.npz", x=x, late=late, month=np.array(["2020-01"] * 3, "M8[M]"), g=x.astype("g"))
    report = kubist.ingest(tmp_path / "a.kubist", tmp_path / "a.npz", dimensions=["x"])
    assert sorted(report.left_out[str(tmp_path / "a.npz")]) == ["array g", "array month"]
    rows = kubist.open(tmp_path / "a.kubist").query(order_by=["x"]).to_arrow()
    assert rows["late"].cast(pa.int64()).to_pylist() == [1, 2, None]
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"])
    with pa.ipc.new_file(tmp_path / "b.arrow", pa.schema([("x", pa.float64()), ("r", runs.type)])) as file:
        file.write_table(pa.table({"x": x, "r": runs}))
    report = kubist.ingest(tmp_path / "b.kubist", tmp_path / "b.arrow", dimensions=["x"])
    assert list(report.left_out[str(tmp_path / "b.arrow")]) == ["column r"]


def test_units_of_parquet_are_where_programs_write_them(tmp_path: Path) -> None:
    astropy = pytest.importorskip("astropy.table", reason="astropy is not installed")
    units = pytest.importorskip("astropy.units")
    for name, unit in {"a": units.deg, "b": units.rad}.items():
        table = astropy.QTable({"ra": [0.5, 1.0] * unit, "pm": [1.0, 2] * units.mas / units.yr})
        table["ra"].info.description = "unit: of the sky, {in} all"
        table.write(tmp_path / f"{name}.parquet")
    field = pa.field("ra", pa.float64(), metadata={"units": "arcmin"})
    pq.write_table(pa.table([[60.0]], schema=pa.schema([field])), tmp_path / "c.parquet")
    target = tmp_path / "t.kubist"
    for name in "abc":
        kubist.ingest(target, tmp_path / f"{name}.parquet", dimensions=["ra"])
    found = kubist.open(target)
    rows = found.query(order_by=["ra"]).to_arrow()
    assert rows.schema.field("ra").metadata[b"unit"] == b"deg"
    assert rows.schema.field("pm").metadata[b"unit"] == b"mas / yr"
    assert rows["ra"].to_pylist() == pytest.approx([0.5, 1, 1, 28.6478897, 57.2957795])


def test_marks_of_spark_are_no_files_of_rows(tmp_path: Path) -> None:
    folder = tmp_path / "out.parquet"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "part-0.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    report = kubist.ingest(tmp_path / "t.kubist", folder, dimensions=["x"])
    assert report.rows == 2
