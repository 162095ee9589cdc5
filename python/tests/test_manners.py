"""Representations of local and remote tables, results and estimates, in consoles and notebooks."""

from __future__ import annotations

import contextlib
import fcntl
import html.parser
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from servers import COMMAND, Server

import kubist

ROWS = 20_000
EVIL = "<img src=x onerror=alert(1)>"

Asked = kubist.Table | kubist.RemoteTable


def rows(first: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(first)
    return {
        "id": np.arange(first, first + ROWS),
        "x": rng.random(ROWS),
        "y": rng.random(ROWS).astype("f4"),
        "diameter": rng.normal(3e-7, 5e-8, ROWS),
        "kind": np.array(["water", EVIL])[rng.integers(0, 2, ROWS)],
    }


@pytest.fixture
def table(path: Path) -> kubist.Table:
    units = {"x": "m", "diameter": "m"}
    return kubist.create(path, rows(), {"x": (0, 1), "y": (0, 1)}, identity=["id"], units=units)


@pytest.fixture(params=["directory", "server"])
def asked(request: pytest.FixtureRequest, table: kubist.Table) -> Iterator[Asked]:
    if request.param == "directory":
        yield table
        return
    with Server(table.location) as server:
        yield kubist.connect(server.url)


class Cells(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def seen(shown: object) -> list[str]:
    """The cells in a notebook, without tags in their text."""
    cells = Cells(shown._repr_html_())  # type: ignore[attr-defined]
    assert cells.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
    return cells.text


def test_a_result_can_be_read_again_and_kept(asked: Asked, table: kubist.Table) -> None:
    r = asked.query(where="x < 0.3", columns=["id", "x"])
    first = r.to_numpy()
    table.append(rows(ROWS))
    assert np.array_equal(np.sort(r.to_numpy()["id"]), np.sort(first["id"]))
    assert sum(batch.num_rows for batch in r) == len(first["id"])
    assert r.materialize() is r
    kept = [r.to_arrow(), pa.table(r), r.to_arrow()]
    assert kept[0].equals(kept[1]) and kept[0].equals(kept[2])
    assert r.to_polars().height == len(first["id"])
    newer = asked.query(where="x < 0.3", columns=["id"]).to_numpy()["id"]
    assert len(newer) > len(first["id"])
    r.close()
    with pytest.raises(kubist.Refused, match="was closed"):
        r.to_numpy()


def test_info_counts_the_rows_outside_of_the_domain(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    rows = {"x": random.random(1000), "y": random.random(1000)}
    with kubist.create(tmp_path / "t", rows, ["x", "y"]) as t:
        assert t.info().rows_outside == 0
        x = random.random(5000)
        x[:700], x[700:800] = 5 + x[:700], np.nan
        t.append({"x": x, "y": random.random(5000)})
        info = t.info()
        low, high = next((each.low, each.high) for each in info.dimensions if each.column == "x")
        assert info.rows_outside == t.count(where=f"x < {low} OR x > {high}") == 700


def test_trajectories_take_one_column(asked: Asked) -> None:
    box = {"x": (0, 0.01)}
    one = asked.trajectories(box=box, by=["id"]).to_arrow()
    assert one.equals(asked.trajectories(box=box, by="id").to_arrow())
    for by, why in [(["id", "x"], "by: id, x: .* takes one column"), ([], "by: no column")]:
        with pytest.raises(kubist.InvalidInput, match=why):
            asked.trajectories(box=box, by=by)


def test_paths_and_steps_of_refinement_can_be_read_again(asked: Asked) -> None:
    paths = asked.trajectories(box={"x": (0, 0.01)}, by="id")
    assert paths.to_arrow().sort_by("id").equals(paths.to_arrow().sort_by("id"))
    steps = list(asked.refine(columns=["id"], start=0.1, factor=4))
    once = [np.sort(step.to_numpy()["id"]) for step in steps]
    again = [np.sort(step.to_numpy()["id"]) for step in steps]
    assert all(map(np.array_equal, once, again))
    assert sum(map(len, once)) == ROWS
    assert [step.fraction for step in steps] == [0.1, 0.4, 1]


def test_a_part_can_be_read_again(table: kubist.Table) -> None:
    for part in table.splits(3, columns=["id"]):
        answer = part.query()
        assert np.array_equal(answer.to_numpy()["id"], answer.to_numpy()["id"])


def test_an_answer_shows_its_records(asked: Asked) -> None:
    lazy = asked.query(columns=["x", "kind"], where="id < 15")
    assert repr(lazy) == "<kubist.Result of x, kind: fraction 1, not yet read>"
    cells = seen(lazy)
    assert cells[:2] == ["x [m]", "kind"] and EVIL in cells
    assert cells[-1] == "the first 10 records, fraction 1" and len(cells) == 2 + 20 + 1
    assert "not yet read" in repr(lazy)  # displaying does not consume it
    lines = repr(lazy.materialize()).splitlines()
    assert lines[0].split() == ["x", "[m]", "kind"] and len(lines) == 12
    assert lines[-1] == "15 records, fraction 1"
    assert seen(lazy)[-1] == "15 records, fraction 1"
    assert repr(asked.query(where="id < 0", columns=["x"]).materialize()) == (
        "x [m]\n0 records, fraction 1"
    )


def test_a_table_shows_itself(asked: Asked) -> None:
    cells = seen(asked)
    assert cells[0] == repr(asked)
    assert cells[1:6] == ["id", "x [m]", "y", "diameter [m]", "kind"]
    info = seen(asked.info())
    assert info[info.index("records") + 1] == f"{ROWS:,}"
    assert "diameter: Float64 in m" in info


def test_domains_of_times_are_times(path: Path) -> None:
    times = np.arange("2023-07-02", "2023-07-12", dtype="datetime64[h]").astype("datetime64[us]")
    t = kubist.create(path, {"pickup": times, "id": np.arange(len(times))}, dimensions=["pickup"])
    assert re.search(r"pickup: 2023-0\d-\d\dT.* to 2023-0\d-\d\dT", str(t.info())), str(t.info())
    shown = subprocess.run([str(COMMAND), "info", t.location], capture_output=True, text=True)
    assert re.search(r"pickup +2023-0\d-\d\dT.* to 2023-0\d-\d\dT", shown.stdout), shown.stdout


def test_head_is_a_sample(asked: Asked) -> None:
    head = asked.head()
    assert head.to_arrow().num_rows == 5 and len(repr(head).splitlines()) == 7
    assert asked.head(3, columns=["id"]).to_numpy().keys() == {"id"}
    assert np.array_equal(asked.head(100).to_numpy()["id"], asked.query(limit=100).to_numpy()["id"])
    with pytest.raises(kubist.InvalidInput, match="limit: expected an integer"):
        asked.head(0.1)  # type: ignore[arg-type]


def test_columns_and_figures_without_any_library(asked: Asked) -> None:
    assert asked.columns == ["id", "x", "y", "diameter", "kind"]
    e = asked.estimate("count(), max(id)", group_by="kind", sample=1)
    rows = {(row["aggregate"], row["kind"]): row["value"] for row in e.to_dicts()}
    assert rows["count()", "water"] + rows["count()", EVIL] == ROWS
    assert max(rows["max(id)", "water"], rows["max(id)", EVIL]) == ROWS - 1
    with pytest.raises(kubist.InvalidInput, match=r"the estimate has 4 values: use to_dicts\(\)"):
        _ = e.value


def test_a_wide_table_fits_a_terminal(table: kubist.Table) -> None:
    """On a narrow terminal, columns are in groups; elsewhere lines are whole."""
    script = f"import kubist; print(kubist.open({table.location!r}).head(3))"
    command = [sys.executable, "-c", script]
    inner, outer = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("4H", 24, 40, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    subprocess.run(command, stdout=outer, env=environment, check=True)
    os.close(outer)
    shown = os.read(inner, 100_000).decode().splitlines()
    os.close(inner)
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert max(map(len, shown)) <= 40 < max(map(len, plain))
    assert len(plain) == 5
    assert sorted(" ".join(shown).split()) == sorted(" ".join(plain).split())


def test_a_long_ingest_says_how_far_it_is(tmp_path: Path) -> None:
    """On a terminal: rows and bytes so far, erased at the end."""
    source = tmp_path / "droplets.csv"
    values = "".join(f"{index / 1_000_000},{index}\n" for index in range(1_000_000))
    source.write_text(f"x,id\n{values}")
    # Enough commits for a progress line.
    command = [COMMAND, "ingest", tmp_path / "t.kubist", source, "--dimensions", "x=0:1"]
    command += ["--commit-rows", "1000"]
    inner, outer = pty.openpty()
    fcntl.ioctl(outer, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    arguments = [str(argument) for argument in command]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=outer) as process:
        os.close(outer)
        told = b""
        with contextlib.suppress(OSError):
            while part := os.read(inner, 100_000):
                told += part
        assert process.wait() == 0
    os.close(inner)
    line = r"(\d+)% ([\d,]+) records, \S+ [kM]?/s, (\S+) [KM]iB of (\S+) MiB"
    lines = re.findall(line, told.decode())
    assert lines, told.decode()
    assert {total for *_, total in lines} == {f"{source.stat().st_size / 2**20:.1f}"}
    counts = [int(count.replace(",", "")) for _, count, *_ in lines]
    assert counts == sorted(counts) and 0 < counts[-1] <= 1_000_000
    *_, last = told.decode().rstrip().split("\x1b[2K")
    assert "1,000,000 records from 1 file" in last and "%" not in last


def test_describe_has_intervals_that_hold(asked: Asked) -> None:
    data = rows()
    described = asked.describe(max_rows=5000)
    assert list(described) == ["id", "x", "y", "diameter"]
    mean = described["diameter"]["mean"]
    assert mean.low < data["diameter"].mean() < mean.high and not mean.exact
    assert mean.unit == "m" and repr(mean).endswith("e-7 m") and " ± " in repr(mean)
    assert described["x"]["min"].value == data["x"].min() and described["x"]["min"].exact
    assert described["id"]["max"].value == ROWS - 1
    lines = repr(described).splitlines()
    assert lines[0].split() == ["column", "count", "mean", "std", "min", "median", "max"]
    assert lines[4].startswith("diameter [m]") and lines[5].startswith("(95 % confidence, ")
    assert "diameter [m]" in seen(described)
    exact = asked.describe(["x"], box={"x": (0, 0.5)}, sample=1)
    assert exact["x"]["mean"].value == pytest.approx(data["x"][data["x"] <= 0.5].mean())
    with pytest.raises(kubist.InvalidInput, match="kind"):
        asked.describe(["kind"])
    with pytest.raises(kubist.InvalidInput, match="speed"):
        asked.describe(["speed"])


def test_a_count_that_is_known_is_no_estimate(path: Path) -> None:
    rng = np.random.default_rng(5)
    x = rng.random(ROWS)
    data = pa.table({
        "x": x,
        "id": np.arange(ROWS),
        "gaps": pa.array(x, mask=np.arange(ROWS) == 17),
        "odd": np.where(np.arange(ROWS) == 17, np.nan, x),
    })  # fmt: skip
    t = kubist.create(path, data, ["x"])
    described = t.describe(max_rows=2000)
    for column, is_known in {"x": True, "id": True, "gaps": False, "odd": False}.items():
        count = described[column]["count"]
        assert count.exact == is_known, column
        assert count.low <= ROWS - (not is_known) <= count.high
    half = t.estimate("count(id)", box={"x": (None, 0.5)}, max_rows=2000)
    assert half.exact and half.value == (x <= 0.5).sum()
    assert not t.estimate("count(id)", where="id % 2 = 0", max_rows=2000).exact


def test_columns_that_are_mostly_null_are_described(path: Path) -> None:
    rng = np.random.default_rng(7)
    rare = np.where(rng.random(ROWS) < 0.002, rng.normal(size=ROWS), np.nan)
    columns = {"x": rng.random(ROWS), "rare": rare, "none": np.full(ROWS, np.nan)}
    t = kubist.create(path, columns, ["x"])
    for read in (2000, ROWS):
        described = t.describe(max_rows=read)
        count = described["rare"]["count"]
        assert count.low <= np.isfinite(rare).sum() <= count.high
        assert described["x"]["count"].low <= ROWS <= described["x"]["count"].high
        assert described["none"]["count"].value == 0
        lines = {line.split()[0]: line.split() for line in repr(described).splitlines()}
        assert lines["none"][-5:] == ["null"] * 5 and "nothing" not in repr(described)
        mean = described["rare"]["mean"]
        assert mean.value is None or mean.low <= np.nanmean(rare) <= mean.high


def test_columns_of_any_name_are_described(path: Path) -> None:
    names = {'a "quoted" one': 1.0, "sum(x), y": 2.0, "größe": 3.0}
    t = kubist.create(
        path, {name: np.full(5, value) for name, value in names.items()}, [*names][:1]
    )
    assert {name: figures["mean"].value for name, figures in t.describe().items()} == names


def test_sql_names_the_table_self(asked: Asked) -> None:
    found = asked.sql("SELECT kind, count(*) AS n FROM self WHERE x < 0.5 GROUP BY kind ORDER BY n")
    data = rows()
    counts = [int(((data["kind"] == kind) & (data["x"] < 0.5)).sum()) for kind in ("water", EVIL)]
    assert isinstance(found, pl.DataFrame) and found["n"].to_list() == sorted(counts)
    with pytest.raises(kubist.InvalidInput, match="sql: .*speed"):
        asked.sql("SELECT speed FROM self")
    with pytest.raises(kubist.InvalidInput, match="SELECT x FROM self"):
        asked.sql(5)  # type: ignore[arg-type]


def test_a_picture_is_the_one_of_the_command(
    asked: Asked, table: kubist.Table, tmp_path: Path
) -> None:
    picture = asked.plot("x", "y", "diameter", box={"x": (0, 0.5)}, size=(400, 300), limit=2000)
    command = [str(COMMAND), "plot", table.location, "--axes", "x,y", "--color", "diameter"]
    command += ["--box", "x=0:0.5", "--size", "400x300", "--limit", "2000"]
    drawn = tmp_path / "command.png"
    subprocess.run([*command, "-o", str(drawn)], check=True, capture_output=True)
    assert pixels(picture.png) == pixels(drawn.read_bytes())
    assert picture._repr_png_() == picture.png
    assert "2,000 of about 9," in repr(picture) and "x in 0:0.5" in picture.caption
    assert picture.save(tmp_path / "mine.png").read_bytes() == picture.png
    with pytest.raises(kubist.InvalidInput, match="ends in .png"):
        picture.save(tmp_path / "mine.jpg")
    # Names follow the rules of queries.
    by_name = asked.plot("X", "Y", "Diameter", limit=100)
    assert by_name.png == asked.plot("x", "y", "diameter", limit=100).png
    assert asked.plot(limit=100).caption == f"100 of {ROWS:,} points, fraction 0.00541"


def pixels(png: bytes) -> bytes:
    found, place = b"", 8
    while place < len(png):
        length = int.from_bytes(png[place : place + 4], "big")
        if png[place + 4 : place + 8] in (b"IHDR", b"IDAT"):
            found += png[place + 8 : place + 8 + length]
        place += 12 + length
    return found


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"x": "kind"}, "kind.*cannot be drawn"),
        ({"x": "speed", "y": "y"}, "speed"),
        ({"style": {"colormap": "jet"}}, "colormap: expected viridis"),
        ({"style": {"aspect": "wide"}}, "aspect: expected auto, equal or fill"),
        ({"size": (1, "a")}, "size: expected an integer"),
        ({"size": "big"}, "size: expected a pair .pixels across, pixels up., not 'big'"),
    ],
)
def test_pictures_without_sense(table: kubist.Table, how: dict[str, object], words: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=words):
        table.plot(**how)  # type: ignore[arg-type]


def test_the_page_of_a_table(asked: Asked) -> None:
    with asked.view(open=False) as page:
        t = kubist.connect(page.url.partition("#")[0])
        assert t.count() == ROWS
        assert Cells(page._repr_html_()).text == [page.url]
    if isinstance(asked, kubist.Table):
        with pytest.raises(kubist.StorageError):
            t.count()


def test_figures_read_alike_in_python_and_on_the_command_line(
    asked: Asked, table: kubist.Table
) -> None:
    aggregates = "mean(diameter), variance(x), count(), p95(x), mean(x + y), ratio(diameter, x)"
    here = repr(asked.estimate(aggregates, sample=0.1)).splitlines()[1:7]
    command = [str(COMMAND), "estimate", table.location, aggregates, "--sample", "0.1"]
    there = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.split() for line in here] == [line.split() for line in there[2:8]]
    words = [line.split() for line in here]
    assert words[0][1].endswith("e-7") and words[0][2] == "±" and words[0][4] == "m"
    assert words[1][-1] == "m^2" and words[3][-1] == "m"
    assert words[2][1:] == [f"{ROWS:,}", "exactly"]
    assert words[4][-1] == "m" and words[5][-1].endswith("e-7")


@pytest.mark.parametrize(
    ("aggregate", "group", "head", "first"),
    [
        ("count()", "bin(diameter, 5e-8)", ["bin(diameter, 5e-8) [m]"], None),
        ("mean(diameter)", "bin(x, 0.25)", ["bin(x, 0.25) [m]"], ["0"]),
        ("count()", "x > 0.5", ["x > 0.5"], ["false"]),
        ("histogram(x, 4, 0, 1)", None, ["bin"], ["0:0.25", "m"]),
        ("histogram(id, 2, 0, 20000)", None, ["bin"], ["0:10,000"]),
        ("histogram2d(x, id, 1, 1)", None, ["bin"], None),
    ],
)
def test_groups_and_bins_read_alike_in_python_and_on_the_command_line(
    asked: Asked,
    table: kubist.Table,
    aggregate: str,
    group: str | None,
    head: list[str],
    first: list[str] | None,
) -> None:
    here = asked.estimate(aggregate, group_by=group, sample=1)
    command = [str(COMMAND), "estimate", table.location, aggregate, "--sample", "1"]
    command += [] if group is None else ["--group-by", group]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names, _, *there = done.stdout.splitlines()
    lines = repr(here).splitlines()
    assert lines[0].split() == names.split() and " ".join(head) in lines[0]
    assert [line.split() for line in lines[1 : 1 + len(there)]] == [line.split() for line in there]
    assert first is None or there[0].removeprefix(aggregate).split()[: len(first)] == first
    # A row that two windows read counts twice, so these are reads.
    assert " record reads in " in lines[-1] and " record reads, " in done.stderr
    assert here.to_arrow()["aggregate"].to_pylist()[0] == aggregate


def test_estimates_and_reports_in_a_notebook(asked: Asked, table: kubist.Table) -> None:
    e = asked.estimate("count()", group_by="kind", sample=0.5)
    cells = seen(e)
    assert cells[:3] == ["aggregate", "kind", "value"] and EVIL in cells
    assert e.units == {} and asked.estimate("mean(x)").units == {"mean(x)": "m"}
    assert seen(table.verify())[0].startswith("intact: 20,000 records, ")
    [segment] = (Path(table.location) / "segments").glob("*.seg")
    stored = bytearray(segment.read_bytes())
    stored[len(stored) // 2] ^= 1
    segment.write_bytes(stored)
    found = seen(kubist.open(table.location).verify(deep=True))
    assert "wrong" in found and any(cell.startswith("1 finding: ") for cell in found)


def test_sizes_are_those_of_the_command(table: kubist.Table) -> None:
    command = [str(COMMAND), "info", table.location]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    size = str(table.info().disk).partition(":")[0]
    assert size.endswith("KiB") and size in told
    assert "record" in told and " row" not in told.replace("rows", "") and "rows" not in told


def test_nothing_but_numpy_is_needed(tmp_path: Path) -> None:
    """In a Python without other libraries."""
    script = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyarrow", "pandas", "polars", "matplotlib"}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
import numpy as np
import kubist

rng = np.random.default_rng(1)
n = 5000
t0 = np.datetime64("2024-01-01T00:00:00", "s")
data = {
    "id": np.arange(n),
    "x": rng.random(n),
    "big": rng.random(n).astype(">f4"),
    "half": rng.random(n).astype("f2"),
    "on": rng.random(n) < 0.5,
    "at": t0 + np.arange(n).astype("timedelta64[s]"),
    "day": np.full(n, t0.astype("datetime64[D]")),
    "took": np.arange(n).astype("timedelta64[ms]"),
    "kind": np.array(["water", "öl"])[rng.integers(0, 2, n)],
    "named": np.array(["a", None] * (n // 2), dtype=object),
    "gaps": np.ma.masked_less(np.arange(n), 10),
    "every": np.arange(2 * n, dtype="u1")[::2],
}
data["at"][3] = "NaT"
t = kubist.create("t.kubist", data, dimensions=["x"], identity=["id"], units={"x": "m"})
t.append({**data, "id": data["id"] + n})
found = t.query(where="id < 5000").to_numpy()
order = np.argsort(found["id"])
for name, column in data.items():
    back = found[name][order]
    if name == "gaps":
        assert back.dtype == column.dtype and back.mask[:10].all()
        assert (back[10:] == np.arange(10, n)).all()
    elif name == "at":
        assert np.isnat(back[3]) and (np.delete(back, 3) == np.delete(column, 3)).all()
    else:
        assert (back == column).all(), name
e = t.estimate("mean(x)")
assert e.low <= e.value <= e.high and "±" in repr(e) or "exactly" in repr(e)
assert t.count(box={"x": (0, 0.5)}) == 2 * (data["x"] <= 0.5).sum()
repr(t.head()), t.head()._repr_html_(), repr(t.describe()), t._repr_html_(), t.plot("x", "big")
print(t.info(), t.verify(deep=True), t.query(sample=0.5).materialize())
t.add_column("age", "float32", default=0.5, unit="s")
t.add_column("seen", np.dtype("datetime64[us]"))
assert (t.query(columns=["age"]).to_numpy()["age"] == np.float32(0.5)).all()
for r in t.refine(columns=["x"]): r.to_numpy()
points = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
assert len(kubist.create("s.kubist", points, ["a"])) == 3
for what, name in [(lambda: t.query().to_arrow(), "pyarrow"), (lambda: t.sql("SELECT 1"), "polars"),
                   (lambda: kubist.create("l.kubist", {"x": [1, 2]}, ["x"]), "pyarrow")]:
    try:
        what()
        raise SystemExit(f"{name} is said to be here")
    except ImportError as error:
        assert f"pip install {name}" in str(error), error
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(3, complex), "column x: NumPy's complex128 is not a column type"),
        (np.zeros((3, 2)), r"column x: expected one dimension, not an array of shape \(3, 2\)"),
        (np.zeros(3, "M8[ps]"), r"column x: .*datetime64\[ps\].* \[D\]"),
        (np.zeros(3, "m8[M]"), r"column x: .*timedelta64\[M\]"),
        (np.array([2**40], "M8[D]"), "column x: a date exceeds 32 bits"),
        (np.zeros(3, np.longdouble), "column x: NumPy's .* is not a column type"),
        (np.zeros(4), "y has 3"),
    ],
)
def test_arrays_that_are_no_columns(path: Path, values: np.ndarray, words: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=words):
        kubist.create(path, {"x": values, "y": np.zeros(3)}, ["y"])
    assert not path.exists()


def test_memory_of_numpy_need_not_be_aligned(path: Path) -> None:
    raw = np.frombuffer(b"\0" + np.arange(100.0).tobytes(), dtype="u1")[1:]
    t = kubist.create(path, {"x": raw.view("f8")}, ["x"])
    assert np.array_equal(np.sort(t.query().to_numpy()["x"]), np.arange(100.0))
