"""Neighbours on the command line, compared with a search of all rows by NumPy."""

from __future__ import annotations

import csv
import inspect
import io
import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from pyarrow import parquet
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from servers import COMMAND

import kubist
from kubist import _progress
from kubist.finding import output
from kubist.finding.__main__ import main
from kubist.finding.arguments import PROGRAM, parser

Array = np.ndarray[Any, Any]
ROWS = 400
MODULE = [sys.executable, "-m", "kubist.finding"]
VERBS = ["nearest", "within", "crossmatch", "pairs", "cluster", "friends"]


@pytest.fixture
def at() -> Array:
    """Positions in [0, 1), half in clusters."""
    random = np.random.default_rng(5)
    centres = random.random((8, 2))[random.integers(0, 8, ROWS // 2)]
    clustered = (centres + random.normal(size=(ROWS // 2, 2)) * 0.01) % 1
    return np.concatenate([clustered, random.random((ROWS // 2, 2))])


@pytest.fixture
def space(at: Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the table t.kubist."""
    kind = np.array(["a", "b"])[np.arange(ROWS) % 2]
    columns = {"x": at[:, 0], "y": at[:, 1], "id": np.arange(ROWS), "kind": kind}
    monkeypatch.chdir(tmp_path)
    kubist.create("t.kubist", columns, ["x", "y"], units={"x": "m", "y": "m"}).close()
    return tmp_path


Sky = tuple[dict[str, Array], dict[str, Array]]


@pytest.fixture
def sky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sky:
    """Stars and sources near a pole and across 0h, in two tables."""
    random = np.random.default_rng(6)
    monkeypatch.chdir(tmp_path)
    made = []
    for name, longitude, latitude in (("stars", "ra", "dec"), ("sources", "lon", "lat")):
        ra = np.concatenate([random.random(ROWS) * 360, random.normal(size=ROWS) % 360])
        dec = np.concatenate([90 - np.abs(random.normal(size=ROWS)), random.normal(size=ROWS)])
        columns = {longitude: ra, latitude: dec, "id": np.arange(2 * ROWS)}
        kubist.create(f"{name}.kubist", columns, [longitude, latitude]).close()
        made.append({"ra": ra, "dec": dec})
    return made[0], made[1]


def degrees(one: dict[str, Array], two: dict[str, Array]) -> Array:
    """The angles between all positions, by haversines."""
    ra, dec = np.radians(one["ra"])[:, None], np.radians(one["dec"])[:, None]
    ra_2, dec_2 = np.radians(two["ra"]), np.radians(two["dec"])
    half = (
        np.sin((dec - dec_2) / 2) ** 2 + np.cos(dec) * np.cos(dec_2) * np.sin((ra - ra_2) / 2) ** 2
    )
    return np.degrees(2 * np.arcsin(np.sqrt(half)))


def distances(one: Array, two: Array, period: float | None = None) -> Array:
    apart = np.abs(one[:, None] - two)
    if period is not None:
        apart = np.minimum(apart, period - apart)
    return np.sqrt((apart**2).sum(axis=2))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def rows(run: Run) -> Callable[..., list[dict[str, str]]]:
    def rows(*words: object) -> list[dict[str, str]]:
        code, out, err = run(*words)
        assert code == 0, err
        return list(csv.DictReader(io.StringIO(out)))

    return rows


Rows = Callable[..., list[dict[str, str]]]


@pytest.mark.parametrize("period", [None, 1.0])
def test_nearest_rows(space: Path, at: Array, rows: Rows, period: float | None) -> None:
    points = np.random.default_rng(7).random((20, 2))
    given = [f"--at={x!r},{y!r}" for x, y in points.tolist()]
    wrapped = [] if period is None else ["--period", "x=1,y=1"]
    found = rows("nearest", "t.kubist", *given, "--k", 4, "--columns", "id", *wrapped)
    apart = distances(points, at, period)
    expected = {
        (point, rank + 1): int(row)
        for point, row_numbers in enumerate(np.argsort(apart, axis=1)[:, :4])
        for rank, row in enumerate(row_numbers)
    }
    assert {(int(r["point"]), int(r["rank"])): int(r["id"]) for r in found} == expected
    for row in found:
        assert float(row["distance"]) == pytest.approx(apart[int(row["point"]), int(row["id"])])


def test_positions_come_from_files_and_tables(space: Path, at: Array, rows: Rows) -> None:
    points = np.random.default_rng(8).random((30, 2))
    table = pa.table({"y": points[:, 1], "x": points[:, 0], "name": ["p"] * 30})
    parquet.write_table(table, "p.parquet")
    pa.csv.write_csv(table, "p.csv")
    kubist.create("p.kubist", table, ["x"]).close()
    apart = distances(points, at)
    expected = {
        (float(point), int(row)) for point, row in zip(*np.nonzero(apart <= 0.05), strict=True)
    }
    for name in ("p.parquet", "p.csv"):
        found = rows("within", "t.kubist", "--points", name, "--radius", "5 cm", "--columns", "id")
        assert {(float(row["point"]), int(row["id"])) for row in found} == expected
    found = rows("within", "t.kubist", "--points", "p.kubist", "--radius", 0.05, "--columns", "id")
    assert sorted(int(row["id"]) for row in found) == sorted(row for _, row in expected)


def test_options_select_rows(space: Path, at: Array, rows: Rows) -> None:
    region = {"sphere": {"center": {"x": 0.5, "y": 0.5}, "radius": 0.4}}
    (space / "region.json").write_text(json.dumps(region))
    number = np.arange(ROWS)
    centred = distances(np.array([[0.5, 0.5]]), at)[0]
    near_1 = distances(np.array([[-0.1, 0.5]]), at)[0] <= 0.8
    for options, chosen in [
        (["--box", "x=0.2:0.4"], (at[:, 0] >= 0.2) & (at[:, 0] <= 0.4)),
        (["--box", "x=20cm:,y=:0.5"], (at[:, 0] >= 0.2) & (at[:, 1] <= 0.5)),
        (["--box", "id=7..9", "--box", "kind=b"], np.isin(number, [7, 9])),
        (["--where", "kind = 'a' AND id < 50"], (number % 2 == 0) & (number < 50)),
        (["--region", "region.json"], centred <= 0.4),
        (["--region", json.dumps(region)], centred <= 0.4),
    ]:
        found = rows("within", "t.kubist", "--at", "-0.1,0.5", "--radius", 0.8, *options)
        assert {int(row["id"]) for row in found} == set(number[chosen & near_1].tolist()), options
    assert list(found[0]) == ["point", "distance", "x", "y", "id", "kind"]
    some = rows("within", "t.kubist", "--at", "0.5,0.5", "--radius", 1, "--sample", "25%")
    assert 0 < len(some) < ROWS
    line = rows("nearest", "t.kubist", "--at", "100.2", "--on", "id", "--columns", "id, x * 2 AS w")
    assert [row["id"] for row in line] == ["100"] and list(line[0])[-1] == "w"


def test_matches_on_the_sky(sky: Sky, rows: Rows) -> None:
    apart = degrees(*sky)
    match = ["crossmatch", "stars.kubist", "sources.kubist", "--other-sphere", "lon,lat"]
    near = ["--radius", "600 arcsec", "--columns", "id"]
    found = rows(*match, *near, "--best", "all")
    assert list(found[0]) == ["id", "distance", "lon", "lat", "id_2"]
    expected = {
        (int(star), int(source)) for star, source in zip(*np.nonzero(apart <= 1 / 6), strict=True)
    }
    assert len(expected) > 50
    assert {(int(row["id"]), int(row["id_2"])) for row in found} == expected
    for row in found:
        angle = apart[int(row["id"]), int(row["id_2"])]
        assert float(row["distance"]) == pytest.approx(angle, abs=1e-9)
    best = rows(*match, *near, "--other-columns", "id", "--other-where", "id < 500")
    closest = np.argmin(apart[:, :500], axis=1)
    stars = np.flatnonzero(apart[:, :500].min(axis=1) <= 1 / 6).tolist()
    assert {(int(row["id"]), int(row["id_2"])) for row in best} == {
        (star, int(closest[star])) for star in stars
    }
    with kubist.open("sources.kubist") as sources:
        sources.query().write("sources.parquet")
    same = rows(*match[:2], "sources.parquet", *match[3:], *near, "--best", "all")
    assert sorted(map(str, same)) == sorted(map(str, found))


def test_cones_at_a_pole(sky: Sky, rows: Rows) -> None:
    apart = degrees({"ra": np.array([0.0]), "dec": np.array([89.9])}, sky[0])[0]
    found = rows(
        *("within", "stars.kubist", "--at", "0,89.9", "--sphere", "ra,dec", "--radius", "0.5 deg")
    )
    assert {int(row["id"]) for row in found} == set(np.flatnonzero(apart <= 0.5).tolist())


def test_pairs(space: Path, at: Array, rows: Rows) -> None:
    found = rows("pairs", "t.kubist", "--radius", 0.02, "--columns", "id", "--period", "x=1,y=1")
    one, two = np.nonzero(np.triu(distances(at, at, 1.0) <= 0.02, 1))
    pairs = {tuple(sorted((int(row["id_1"]), int(row["id_2"])))) for row in found}
    assert len(found) == len(pairs) and pairs == set(zip(one.tolist(), two.tolist(), strict=True))


def groups(linked: Array, members: int) -> set[frozenset[int]]:
    """The connected rows, in groups of at least this many."""
    _, labels = connected_components(coo_matrix(linked))
    found = (np.flatnonzero(labels == label).tolist() for label in np.unique(labels))
    return {frozenset(group) for group in found if len(group) >= members}


def labelled(table: pa.Table) -> set[frozenset[int]]:
    labels, number = table["label"].to_numpy(), table["id"].to_numpy()
    kept = [label for label in np.unique(labels) if label >= 0]
    sizes = [int((labels == label).sum()) for label in kept]
    assert kept == list(range(len(kept))) and sizes == sorted(sizes, reverse=True)
    return {frozenset(number[labels == label].tolist()) for label in kept}


def test_labels_become_a_table_or_a_file(space: Path, at: Array, run: Run) -> None:
    friends = ["friends", "t.kubist", "--length", "2 cm", "--min-members", 5]
    expected = groups(distances(at, at) <= 0.02, 5)
    assert len(expected) > 5
    code, out, err = run(*friends, "-o", "groups.kubist")
    assert (code, out) == (0, "") and err.startswith("400 records; "), err
    with kubist.open("groups.kubist") as made:
        assert [dimension.column for dimension in made.info().dimensions] == ["x", "y"]
        assert made.units == {"x": "m", "y": "m"}
        assert labelled(made.query().to_arrow()) == expected
    for name, read in [
        ("g.parquet", parquet.read_table),
        ("g.csv", pa.csv.read_csv),
        ("g.arrow", lambda path: pa.ipc.open_file(path).read_all()),
    ]:
        code, out, _ = run(*friends, "--columns", "id", "-o", name, "--json")
        assert code == 0 and json.loads(out)["rows_returned"] == ROWS
        assert labelled(read(name)) == expected
    # In mean separations of all rows in a volume of 1: 0.4 * sqrt(1 / 400).
    assert run("friends", "t.kubist", "--b", 0.4, "--volume", 1, "-o", "b.parquet")[0] == 0
    assert labelled(parquet.read_table("b.parquet")) == groups(distances(at, at) <= 0.02, 20)


def test_csv_has_the_bytes_of_kubist_query(space: Path, tmp_path: Path, run: Run) -> None:
    rows = {
        "x": np.array([0.0, 1e-7, 3e20]),
        "a, b": ["plain", 'with "quotes"', None],
        "when": pa.array([0, 1_600_000_000, None], pa.timestamp("s")),
        "is": [True, None, False],
    }
    kubist.create("c.kubist", pa.table(rows), ["x"]).close()
    options = ["--columns", 'x,"a, b",when,is']
    asked = [COMMAND, "query", "c.kubist", *options, "--order-by", "x", "--output", "q.csv"]
    subprocess.run(asked, check=True, capture_output=True)
    ours = Path("q.csv").read_text().splitlines()
    found = run("nearest", "c.kubist", "--at", "0", "--k", "3", *options, "-o", "n.csv")
    assert found[0] == 0, found
    theirs = Path("n.csv").read_text().splitlines()
    # After the point, its rank and the distance.
    assert [line.split(",", 3)[3] for line in theirs] == ours


def test_the_cost_has_a_time(space: Path, run: Run) -> None:
    with kubist.open("t.kubist") as table:
        result = table.pairs(0.02)
        result.to_arrow()
        assert result.stats.seconds > 0


def test_clusters(space: Path, at: Array, run: Run) -> None:
    code, _, err = run("cluster", "t.kubist", "--eps", 0.02, "--min-samples", 6, "-o", "c.parquet")
    assert code == 0, err
    table = parquet.read_table("c.parquet")
    linked = distances(at, at) <= 0.02
    core = linked.sum(axis=1) >= 6
    of_core = groups(linked & core & core[:, None], 1)
    expected = {group for group in of_core if core[list(group)].all()}
    assert len(expected) > 3
    found = {frozenset(row for row in group if core[row]) for group in labelled(table)}
    assert found == expected
    noise = table["id"].to_numpy()[table["label"].to_numpy() < 0]
    assert set(noise.tolist()) == set(np.flatnonzero(~(linked & core).any(axis=1)).tolist())


def test_arrows_in_a_pipe(space: Path) -> None:
    words = ["nearest", "t.kubist", "--at", "0,0", "--k", "9", "--format", "arrows"]
    done = subprocess.run([*MODULE, *words], capture_output=True, check=True)
    assert pa.ipc.open_stream(done.stdout).read_all().num_rows == 9
    assert done.stderr.startswith(b"9 records; ")
    # A reader that ends early is no failure.
    words = ["pairs", "t.kubist", "--radius", "1"]
    with subprocess.Popen(
        [*MODULE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 0)


def test_a_terminal_shows_the_first_rows(space: Path, run: Run) -> None:
    code, out, err = run("pairs", "t.kubist", "--radius", 0.1, "--format", "table")
    lines = out.splitlines()
    assert code == 0 and lines[0].split()[:4] == ["distance", "[m]", "x_1", "[m]"]
    assert (len(lines), lines[-1]) == (42, "the first 40 records, fraction 1")
    assert err == "-o FILE writes all records\n"


def test_empty_results(space: Path, run: Run) -> None:
    far = ["within", "t.kubist", "--at", "5,5", "--radius", 0.1, "--columns", "id"]
    code, out, err = run(*far)
    assert (code, out.strip().replace('"', "")) == (0, "point,distance,id")
    assert err.startswith("0 records; ")
    assert run(*far, "-o", "none.parquet")[0] == 0
    assert parquet.read_table("none.parquet").column_names == ["point", "distance", "id"]
    none = ["cluster", "t.kubist", "--eps", 0.1, "--where", "id < 0", "-o", "none.kubist"]
    assert run(*none)[0] == 0
    with kubist.open("none.kubist") as made:
        assert len(made) == 0 and made.columns == ["x", "y", "id", "kind", "label"]


AT = ["--at", "0,0"]
BAD: list[tuple[list[str], int, str]] = [
    (["nearest", "t.kubist"], 2, "--at: give positions of x, y"),
    (["nearest", "t.kubist", *AT, "--points", "p.csv"], 2, "and not by both"),
    (["nearest", "t.kubist", "--at", "1"], 2, "--at: expected numbers for x, y"),
    (["nearest", "t.kubist", "--at", "1,b"], 2, "not '1,b'"),
    (["nearest", "t.kubist", *AT, "--k", "0"], 2, "t.kubist: k: 0"),
    (["nearest", "t.kubist", *AT, "--k", "401"], 2, "t.kubist: k: 401 neighbours of 400 rows"),
    (["nearest", "t.kubist", *AT, "--k", "many"], 2, "--k: invalid int value: 'many'"),
    (["nearest", "t.kubist", *AT, "--columns", "z"], 2, "t.kubist: no column `z`"),
    (["nearest", "t.kubist", *AT, "--columns", ""], 2, "--columns: expected columns"),
    (["nearest", "t.kubist", *AT, "--box", "z=1:2"], 2, "--box: no column `z`"),
    (["nearest", "t.kubist", *AT, "--box", "x"], 2, '--box: "x": expected COLUMN=LOW:HIGH'),
    (["nearest", "t.kubist", *AT, "--box", "x=a:"], 2, '"a" is not a value for column "x"'),
    (["nearest", "t.kubist", *AT, "--box", "x=2:1"], 2, "x: the lower end 2 is above"),
    (["nearest", "t.kubist", *AT, "--box", "x=0:1:2"], 2, "--box: x=0:1:2: write LOW..HIGH"),
    (["nearest", "t.kubist", *AT, "--box", "x=0:1", "--box", "x=0:2"], 2, "--box: x has two"),
    (["nearest", "t.kubist", *AT, "--where", "id <"], 2, "t.kubist: "),
    (["nearest", "t.kubist", *AT, "--region", "no.json"], 2, "--region: 'no.json' is neither"),
    (["nearest", "t.kubist", *AT, "--region", "{"], 2, "region: '{' is no JSON"),
    (["nearest", "t.kubist", *AT, "--sample", "much"], 2, "--sample: expected a fraction"),
    (["nearest", "t.kubist", *AT, "--steps", "a"], 2, "--steps: expected 3, 3:7"),
    (["nearest", "t.kubist", *AT, "--period", "x=a"], 2, "--period: x: expected a number"),
    (["nearest", "t.kubist", *AT, "--sphere", "x"], 2, "--sphere: expected the columns of lon"),
    (["nearest", "t.kubist", *AT, "--on", "kind,y"], 2, 'column "kind"'),
    (["nearest", "t.kubist", "--points", "p.csv"], 2, 'column "y" is missing'),
    (["nearest", "t.kubist", "--points", "gone.csv"], 3, "gone.csv does not exist"),
    (["nearest", "gone.kubist", *AT], 3, "gone.kubist does not exist"),
    (["nearest", "t.kubist", *AT, "-o", "a.xyz"], 2, "a.xyz: the ending must be one of .parquet"),
    (["nearest", "t.kubist", *AT, "-o", "no/a.csv"], 3, "there is no folder no"),
    (["nearest", "t.kubist", *AT, "-o", "t.kubist"], 3, "t.kubist exists"),
    (["nearest", "t.kubist", *AT, "-o", "a.csv", "--format", "csv"], 2, "leave out -o a.csv"),
    (["nearest", "t.kubist", *AT, "--columns", "id", "-o", "a.kubist"], 2, "lacks x, y, a dim"),
    (["nearest", "t.kubist", *AT, "--nearby"], 2, "unrecognized arguments: --nearby"),
    (["within", "t.kubist", *AT], 2, "required: --radius"),
    (["within", "t.kubist", *AT, "--radius", "-1"], 2, "t.kubist: radius: -1 is negative"),
    (["within", "t.kubist", *AT, "--radius", "1 s"], 2, "t.kubist: column `x` is in m, and 1 s"),
    (["within", "t.kubist", *AT, "--radius", "0.7", "--period", "x=1"], 2, "t.kubist: radius"),
    (["crossmatch", "t.kubist", "t.kubist", "--radius", "1"], 2, "t.kubist and t.kubist: "),
    (["crossmatch", "t.kubist", "gone", "--radius", "1", "--on", "x,y"], 3, "gone does not exist"),
    (["crossmatch", "t.kubist", "p.csv", "--radius", "1", "--best", "few"], 2, "--best: expected"),
    (["cluster", "t.kubist"], 2, "required: --eps"),
    (["cluster", "t.kubist", "--eps", "x mm"], 2, 't.kubist: eps: "x mm" is no length'),
    (["friends", "t.kubist", "--length", "-1"], 2, "t.kubist: length: -1 is negative"),
    (["cluster", "t.kubist", "--eps", "1", "--min-samples", "0"], 2, "min_samples: 0"),
    (["friends", "t.kubist"], 2, "volume: give it, because x, y have no period"),
    (["friends", "t.kubist", "--b", "1", "--length", "1"], 2, "--b: --length replaces it"),
    (["enemies", "t.kubist"], 2, "invalid choice: 'enemies'"),
    ([], 2, "required: VERB"),
]


@pytest.mark.parametrize("words,code,message", BAD)
def test_failures(space: Path, run: Run, words: list[str], code: int, message: str) -> None:
    (space / "p.csv").write_text("x\n1\n")
    before = sorted(space.rglob("*"))
    found, out, err = run(*words)
    assert (found, out) == (code, ""), err
    assert message in err and err.startswith("kubist: error: ") and err.count("\n") == 1
    assert sorted(space.rglob("*")) == before


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.arrow", "a.kubist"])
def test_an_interrupt_leaves_nothing(
    space: Path, run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: output.Progress, result: kubist.Result) -> Iterator[pa.RecordBatch]:
        yield next(iter(result))
        raise KeyboardInterrupt

    monkeypatch.setattr(output.Progress, "counted", interrupted)
    before = sorted(space.rglob("*"))
    found = run("cluster", "t.kubist", "--eps", 0.1, "-o", name)
    assert found == (130, "", "kubist: error: interrupted\n")
    assert sorted(space.rglob("*")) == before


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it(space: Path, sent: signal.Signals) -> None:
    """Sent while it writes to a pipe without a reader."""
    running = subprocess.Popen(
        [*MODULE, "pairs", "t.kubist", "--radius", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    running.stdout.read(1)
    running.send_signal(sent)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, b"kubist: error: interrupted\n")


def test_a_terminal_gets_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = threading.Event()

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            if "searching, " in text:
                drawn.set()
            return super().write(text)

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    with output.Progress():
        assert drawn.wait(60)
    assert terminal.getvalue().endswith(_progress.ERASED)


def options(verb: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([verb, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and f"{verb} TABLE" in text
    assert "\nExamples:\n" in text and text.endswith("Exit codes: see kubist --help\n")
    listed = text.partition("\nOptions:\n")[2].partition("\nExamples:")[0]
    words = (line.replace("-o, ", "").replace("-h, ", "").split() for line in listed.splitlines())
    return {line[0] for line in words if line and line[0].startswith("--")}


@pytest.mark.parametrize("verb", VERBS)
def test_options_are_the_parameters_of_the_method(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = options(verb, capsys) - {"--output", "--format", "--json", "--help"}
    named = inspect.signature(getattr(kubist.Table, verb)).parameters
    own = {name for name in named if name not in ("self", "points", "other")}
    if "points" in named:
        own |= {"at", "points"}
    assert found == {f"--{name.replace('_', '-')}" for name in own}


def test_the_examples_parse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The examples in the help and in the documentation."""
    docs = Path(__file__).resolve().parents[2] / "docs" / "neighbours.md"
    texts = [docs.read_text()]
    for verb in VERBS:
        options(verb, capsys)
        with pytest.raises(SystemExit):
            parser().parse_args([verb, "--help"])
        texts.append(capsys.readouterr().out)
    starts = tuple(f"{PROGRAM} {verb} " for verb in VERBS)
    lines = [line.strip() for text in texts for line in text.splitlines()]
    examples = [
        line.removeprefix(f"{PROGRAM} ")
        for line in lines
        if line.startswith(starts) and "[" not in line
    ]
    assert len(examples) > 12
    for example in examples:
        parser().parse_args(shlex.split(example, comments=True))
