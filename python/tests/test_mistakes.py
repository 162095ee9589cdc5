"""Common mistakes of new users, and their error messages."""

from __future__ import annotations

import datetime as dt
import importlib
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import COMMAND

import kubist

PACKAGE = Path(kubist.__file__).parents[1]


@pytest.fixture
def table(path: Path) -> kubist.Table:
    columns = {"x": np.arange(200.0), "y": np.arange(200.0), "kind": np.arange(200) % 3}
    return kubist.create(path, columns, ["x", "y"], units={"x": "m"})


OPTIONS: list[tuple[Callable[[kubist.Table], Any], str]] = [
    (lambda t: t.query(sampel=0.1), "query() has no option `sampel`; did you mean `sample`?"),
    (lambda t: t.query(precision=0.1), "query() has no option `precision`; did you mean `sample`?"),
    (lambda t: t.query(order_by="x", first=3), "query() .* `first`; did you mean `limit`?"),
    (lambda t: t.plot(points=3), "plot() .* `points`; did you mean `limit`?"),
    (lambda t: t.head(n=3), "head() .* `n`; did you mean `limit`?"),
    (lambda t: t.count({"x": (0, 1)}, "y > 1"), "count() takes"),
    (lambda t: t.estimate("mean(x)", groupby="kind"), "estimate() .* did you mean `group_by`?"),
    (lambda t: t.plot("x", "y", colour="kind"), "plot() .* did you mean `color`?"),
    (lambda t: t.scan(wher="x > 1"), "scan() .* did you mean `where`?"),
    (lambda t: t.describe(colums=["x"]), "describe() .* did you mean `columns`?"),
    (lambda t: t.splits(2, colums=["x"]), "splits() .* did you mean `columns`?"),
    (lambda t: t.query(zzz=1), "query() has no option `zzz`; its options are box, sample, .*, per_cell$"),
    (lambda t: kubist.create("t", {"x": [1.0]}, dimension=["x"]), "create() .* did you mean `dimensions`?"),
    (lambda t: kubist.ingest("t", "a.las", dimension=["x"]), "ingest() .* did you mean `dimensions`?"),
    (
        lambda t: kubist.ingest("t", "a.las", read={"topolgy": "a.pdb"}),
        "`read` of ingest() has no option `topolgy`; did you mean `topology`?",
    ),
    (lambda t: kubist.connect("http://localhost", tabel="t"), "connect() .* did you mean `table`?"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "said"), OPTIONS)
def test_an_option_that_is_not_there(
    table: kubist.Table, call: Callable[[kubist.Table], Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said.replace("()", r"\(\)").replace("?", r"\?")):
        call(table)


def test_all_options_that_a_call_has_are_taken(table: kubist.Table) -> None:
    """Also through methods that forward options, such as `scan`."""
    found = table.scan(where="kind = 1", columns=["x"], sample=1.0, limit=5).collect()
    assert (found.height, found.columns) == (5, ["x"])
    assert table.describe(["x"], max_rows=1000)["x"]["max"].value == 199


def test_a_warning_names_the_line_that_asked(path: Path) -> None:
    rng = np.random.default_rng(3)
    t = kubist.create(path, {"x": rng.normal(size=600_000)}, ["x"])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        # The warning appears while rows are read.
        for _ in range(20):
            t.estimate([f"mean(sin(x * {times}))" for times in range(1, 30)], error=0.0001)
            if warned:
                break
    assert "the goal needs about" in str(warned[0].message)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("share", [1, 5, 500.0])
def test_an_error_of_more_than_everything(table: kubist.Table, share: float) -> None:
    percent = f"{100 * share:g}"
    with pytest.raises(kubist.InvalidInput, match=f"{percent} % of the value: write '{share:g}%'"):
        table.estimate("mean(x)", error=share)
    assert table.estimate("mean(x)", error=f"{share:g} abs").value == 99.5


def test_a_file_where_data_is_expected(tmp_path: Path, table: kubist.Table) -> None:
    for source in ("stars.csv", Path("stars.csv")):
        wrong: Any = source
        with pytest.raises(kubist.InvalidInput, match=r"name of a file.*kubist\.ingest\(\)"):
            kubist.create(tmp_path / "other", wrong, ["x"])
        with pytest.raises(kubist.InvalidInput, match=r"name of a file.*kubist\.ingest\(\)"):
            table.append(wrong)
    assert len(table) == 200


def test_sql_about_another_table(table: kubist.Table) -> None:
    with pytest.raises(kubist.InvalidInput, match="relation 'stars' .*the table is called self$"):
        table.sql("SELECT x FROM stars")
    with pytest.raises(kubist.InvalidInput) as raised:
        table.sql("SELECT kidn FROM self")
    assert '"kidn"' in str(raised.value) and "plan" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "tile.laz").write_bytes(b"LASF")
    with pytest.raises(
        FileNotFoundError, match=r"tiel\.laz does not exist; did you mean .*/tile\.laz\?"
    ):
        kubist.ingest(tmp_path / "t", tmp_path / "tiel.laz")
    with pytest.raises(FileNotFoundError, match=r"zzz\.pdb does not exist$"):
        kubist.ingest(tmp_path / "t", tmp_path / "tile.laz", read={"topology": tmp_path / "zzz.pdb"})
    assert not (tmp_path / "t").exists()


def test_what_is_meant_instead(tmp_path: Path) -> None:
    """Each error names the right kind of input, in the same words in Python and the command."""
    columns = {"x": np.arange(9.0), "country": np.array(["FR", "DE", "IT"] * 3)}
    kubist.create(tmp_path / "cities.kubist", columns, ["x"])
    (tmp_path / "citis.py").write_text("")
    (tmp_path / "stars.csv").write_text("x\n1\n")

    def said(*asked: str) -> str:
        run = [str(COMMAND), *asked]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode in (2, 3), done
        return done.stderr

    meant = r"citi\.kubist does not exist; did you mean .*cities\.kubist\?"
    with pytest.raises(kubist.NotATable, match=meant):
        kubist.open(tmp_path / "citi.kubist")
    assert re.search(meant, said("info", "citi.kubist"))
    with pytest.raises(kubist.NotATable, match=r"citis does not exist$"):
        kubist.open(tmp_path / "citis")
    asked = ["ingest", "t", "star.csv", "--dimensions", "x"]
    assert "star.csv does not exist; did you mean stars.csv?" in said(*asked)
    with pytest.raises(
        FileNotFoundError, match=r"star\.csv does not exist; did you mean .*stars\."
    ):
        kubist.ingest(tmp_path / "t", tmp_path / "star.csv", dimensions=["x"])
    t = kubist.open(tmp_path / "cities.kubist")
    texts = r"no column `FR`; a text takes single quotes: 'FR'"
    with pytest.raises(kubist.InvalidInput, match=texts):
        t.count(where="country = FR")
    assert re.search(texts, said("query", "cities.kubist", "--where", "country = FR"))
    apart = kubist.create(tmp_path / "u.kubist", {"x": np.ones(1)}, ["x"], units={"x": "m"})
    with pytest.raises(kubist.InvalidInput, match=r"in m, and cannot be compared with 0\.5 s:"):
        apart.count(where="x > 0.5s")
    with pytest.raises(kubist.InvalidInput, match="did you mean count_distinct?"):
        t.estimate("distinct(country)")
    reversed_ = r"box: x: the lower end 5(\.0)? is above the upper end 1"
    with pytest.raises(kubist.InvalidInput, match=reversed_):
        t.count(box={"x": (5, 1)})
    assert re.search(reversed_, said("query", "cities.kubist", "--box", "x=5:1"))


def test_a_folder_that_is_not_there(tmp_path: Path, table: kubist.Table) -> None:
    out = tmp_path / "nowhere" / "a.parquet"
    with pytest.raises(FileNotFoundError, match=r"a\.parquet: there is no folder .*/nowhere$"):
        table.query().write(out)


def test_metadata_that_fills_a_screen(table: kubist.Table) -> None:
    """`print(info)` shows the length of a long value, like the command."""
    table.set_metadata({"topology": "A" * 50_000, "run": 7})
    shown = str(table.info())
    assert len(shown) < 3000 and "A" * 100 + "... (48.8 KiB; .metadata has all)" in shown
    assert "run: 7" in shown and table.metadata["topology"] == "A" * 50_000


def outside(folder: Path) -> Path:
    data = {"x": np.linspace(0, 1, 20_000), "pid": np.arange(20_000)}
    with kubist.create(folder / "outside", data, {"x": (0, 1)}, lookup=["pid"]) as made:
        made.append({"x": np.linspace(2, 3, 100), "pid": np.arange(100)})
    return folder / "outside"


def test_info_has_the_words_of_the_command(table: kubist.Table, tmp_path: Path) -> None:
    for each in (table, kubist.open(outside(tmp_path))):
        command = [COMMAND, "info", each.location]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        theirs = told[: told.index("\n\n")].splitlines()
        assert str(each.info()).splitlines()[: len(theirs)] == theirs
        assert {line.split()[0] for line in theirs} >= {"records", "identity", "layout", "disk"}
    assert theirs[-1].startswith("outside     100 records ")


def trajectory(folder: Path) -> None:
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed: kubist[md]")
    universe = mda.Universe.empty(4, trajectory=True)
    universe.add_TopologyAttr("name", ["N", "CA", "C", "O"])
    rng = np.random.default_rng(1)
    universe.load_new(rng.normal(0, 10, (3, 4, 3)).astype("f4"))
    universe.atoms.write(str(folder / "top.gro"))
    universe.atoms.write(str(folder / "traj.xtc"), frames="all")


@pytest.mark.filterwarnings("default")
def test_a_topology_that_comes_later(tmp_path: Path) -> None:
    """The next call can add it without ingesting frames again."""
    trajectory(tmp_path)
    table, frames = tmp_path / "t.kubist", str(tmp_path / "traj.xtc")
    kubist.ingest(table, frames)
    mda = importlib.import_module("MDAnalysis")
    importlib.import_module("kubist.mdanalysis")
    assert "topology" not in kubist.open(table).metadata
    topology = str(tmp_path / "top.gro")
    asked = {"table": str(table), "files": [frames], "read": {"topology": topology}}
    told = subprocess.run(
        [sys.executable, "-m", "kubist.ingesting",
         json.dumps(asked | {"json": False, "dimensions": [], "identity": []})],
        capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
    ).stderr  # fmt: skip
    assert "nothing new in " in told
    assert "the topology was put into the table, which had none" in told
    report = kubist.ingest(table, frames, read={"topology": topology})
    assert isinstance(report, kubist.ingesting.Report)
    assert (report.rows, report.topology_added) == (0, False)
    universe = mda.Universe(str(table))
    assert len(universe.trajectory) == 3
    assert list(universe.select_atoms("name CA").ix) == [1]
    with pytest.raises(ValueError, match="atoms='name ZZ' selects none of 4 atoms"):
        mda.Universe(str(table), atoms="name ZZ")


@pytest.mark.filterwarnings("default")
def test_positions_of_atoms_are_no_amperes(tmp_path: Path) -> None:
    """`A` would be the ampere, to which nanometres do not convert."""
    trajectory(tmp_path)
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "traj.xtc")
    t = kubist.open(tmp_path / "t.kubist")
    plain = t.count(box={"x": (-5, 8)})
    assert plain == t.count(box={"x": ("-0.5 nm", "0.8 nm")}) and 0 < plain < 12
    assert t.count(where="x < 8") == t.count(where="x < 0.8nm")


@pytest.mark.parametrize(
    "within", ["1 s", "500ms", "1 min", dt.timedelta(seconds=1), np.timedelta64(500, "ms")]
)
def test_a_time_has_a_unit(table: kubist.Table, within: Any) -> None:
    assert table.estimate("mean(x)", within=within).value == pytest.approx(99.5)
    command = [str(COMMAND), "estimate", table.location, "mean(x)", "--within", "500 ms"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(table.watch(timeout="1 ms"))) == 1


@pytest.mark.parametrize(
    ("within", "said"),
    [
        ("1 m", "within: .* is of another kind"),
        ("soon", "within: .*is no time, as 2, '2 s'"),
        ("-1 s", "within: -1 is below 0"),
    ],
)
def test_what_is_no_time(table: kubist.Table, within: Any, said: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=said):
        table.estimate("mean(x)", within=within)


def test_a_unit_that_is_not_known_is_told_at_every_door(path: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='column "x": the unit `metr/foo` is not known') as warned:
        t = kubist.create(path, {"x": np.arange(3.0)}, ["x"], units={"x": "metr/foo"})
    assert warned[0].filename == __file__ and t.units == {"x": "metr/foo"}
    with pytest.warns(UserWarning, match="did you mean `meter` or `metre`"):
        t.set_unit("x", "metr")
    with pytest.warns(UserWarning, match="`parsek` is not known.*did you mean `parsec`"):
        t.add_column("d", "float64", unit="parsek")
    t.set_unit("x", "mag")
    done = subprocess.run(
        [COMMAND, "alter", path, "--unit", "x=secnd"], capture_output=True, text=True
    )
    assert done.returncode == 0 and 'note: column "x": the unit `secnd` is not known' in done.stderr
    # Files are ingested in any case.
    (tmp_path / "in.csv").write_text("x,y\n1,2\n")
    command = [
        COMMAND,
        "ingest",
        tmp_path / "u",
        tmp_path / "in.csv",
        "--dimensions",
        "x",
        "--create",
        "units=x=secnd,y=m",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("is not known") == 1
    report = kubist.ingest(
        tmp_path / "v", tmp_path / "in.csv", dimensions=["x"], create={"units": {"x": "secnd"}}
    )
    assert len(report.notes) == 1 and "did you mean `second`" in report.notes[0]


def test_a_remainder_is_named(table: kubist.Table) -> None:
    with pytest.raises(kubist.InvalidInput, match="`mod` is not supported .*; write a % b"):
        table.count(where="mod(kind, 2) = 0")
    assert table.count(where="kind % 2 = 0") == 133
