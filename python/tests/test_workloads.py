"""Workloads: files, draws of parameters, the load generator, recorded queries."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kubist
from kubist import workloads
from kubist.workloads import Answered, Draws, Question, Target

pa = pytest.importorskip("pyarrow")
COMMAND = Path(sys.executable).parent / "kubist"

TEXT = """
clients = 3
seconds = 0.5

[queries.box]
weight = 3
box = { x = "2 %", y = { width = 0.1, place = "gaussian", mean = 0.2, deviation = 0.01 } }
columns = ["x", "pid"]

[queries."one particle"]
where = "pid = {pid} and kind <> {kind}"
values = { pid = { place = "zipf", exponent = 1.5 }, kind = ["a", "b"] }

[queries.mean]
verb = "estimate"
aggregates = "mean(x)"
error = 0.05
box = { x = [0.25, 0.5] }

[queries.number]
verb = "count"
place = "uniform"
box = { when = "10 %", pid = { width = 0 } }
"""


def rows(count: int = 4_000) -> pa.Table:
    random = np.random.default_rng(7)
    begin = np.datetime64("2026-01-01", "s")
    return pa.table(
        {
            "x": random.random(count),
            "y": random.random(count),
            "pid": pa.array(random.zipf(1.5, count) % 50, pa.int32()),
            "kind": pa.array(random.choice(["a", "b", "c"], count)),
            "when": begin + random.integers(0, 86_400, count).astype("m8[s]"),
        }
    )


def parsed(text: str = TEXT) -> workloads.Workload:
    return workloads.parse(tomllib.loads(text), "test")


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, rows(), dimensions=["x", "y"], lookup=["pid"])


# Files


def test_a_workload_is_written_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "test.toml"
    file.write_text(workloads.to_toml(parsed()))
    assert workloads.load(file) == parsed()


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["no queries"]),
        ("[queries.a]\nboxes = 1", ["'a'", "'boxes'", "box"]),
        ("[queries.a]\nverb = 'scan'", ["'a'", "'scan'", "count"]),
        ("[queries.a]\nverb = 'estimate'", ["'a'", "aggregates"]),
        ("[queries.a]\nweight = 0", ["'a'", "weight", "0"]),
        ("[queries.a]\nbox = { x = '200 %' }", ["'a'", "x", "'200 %'"]),
        ("[queries.a]\nbox = { x = 'wide' }", ["'a'", "x", "'wide'"]),
        ("[queries.a]\nbox = { x = -1 }", ["'a'", "x", "-1"]),
        ("[queries.a]\nbox = { x = nan }", ["'a'", "x", "nan"]),
        ("[queries.a]\nbox = { x = [1, 2, 3] }", ["'a'", "x", "[1, 2, 3]"]),
        ("[queries.a]\nplace = 'near'", ["'a'", "'near'", "zipf"]),
        ("[queries.a]\nwhere = 'pid = 1'\nvalues = { pid = 'rows' }", ["'a'", "{pid}"]),
        ("[queries.a]\nwhere = 'p = {p}'\nvalues = { p = [] }", ["'a'", "p"]),
        ("clients = 0.5\n[queries.a]", ["clients", "0.5"]),
        ("rate = -3\n[queries.a]", ["rate", "-3"]),
        ("[queries.a]\n[writers.w]\nevery = '1 parsec'", ["'w'", "every", "parsec"]),
        ("[queries", ["TOML"]),
    ],
)
def test_an_error_names_the_query_the_option_and_the_value(
    tmp_path: Path, text: str, facts: list[str]
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(kubist.InvalidInput) as raised:
        workloads.load(file)
    assert all(fact in str(raised.value) for fact in [str(file), *facts]), str(raised.value)


def test_a_file_or_column_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(kubist.InvalidInput, match=r"none\.toml"):
        workloads.load(tmp_path / "none.toml")
    with pytest.raises(kubist.InvalidInput, match="'q'.*x, y, pid"):
        Draws(parsed("[queries.a]\nbox = { q = '1 %' }"), rows())


# Draws


def draws(text: str, data: pa.Table | None = None, count: int = 300) -> list[Question]:
    workload = parsed(text)
    drawn = Draws(workload, rows() if data is None else data, seed=3)
    return [drawn.of(workload.queries[0]) for _ in range(count)]


def test_a_range_has_its_width_and_stays_in_the_domain() -> None:
    data = rows()
    low, high = np.min(data["x"]), np.max(data["x"])
    for question in draws("[queries.a]\nbox = { x = '20 %' }", data):
        first, last = question.asked["box"]["x"]
        assert last - first == pytest.approx(0.2 * (high - low))
        assert low <= first and last <= high + 1e-12


def test_ranges_around_one_row_contain_that_row() -> None:
    data = rows(200)
    points = set(zip(data["x"].to_pylist(), data["y"].to_pylist(), strict=True))
    for question in draws("[queries.a]\nbox = { x = 0, y = 0 }", data):
        (x, _), (y, _) = question.asked["box"]["x"], question.asked["box"]["y"]
        assert (x, y) in points


def test_integers_and_times_are_whole_and_have_their_types() -> None:
    text = "[queries.a]\nbox = { pid = { width = 3 }, when = '50 %' }"
    for question in draws(text):
        low, high = question.asked["box"]["pid"]
        assert isinstance(low, int) and high - low == 2
        first, last = question.asked["box"]["when"]
        assert isinstance(first, dt.datetime)
        assert abs((last - first).total_seconds() - 43_200) < 60


def test_places_follow_their_distributions() -> None:
    zipf = draws("[queries.a]\nwhere = '{pid}'\nvalues = { pid = { place = 'zipf' } }")
    asked = Counter(int(question.asked["where"]) for question in zipf)
    often = Counter(rows()["pid"].to_pylist()).most_common(1)[0][0]
    assert asked.most_common(1)[0][0] == often
    # By Zipf's law with exponent 1 and 50 ranks, the first has a probability of 0.22.
    assert 0.15 < asked[often] / 300 < 0.3
    normal = "{ width = 0, place = 'gaussian', mean = 0.3, deviation = 0.02 }"
    near = [q.asked["box"]["x"][0] for q in draws(f"[queries.a]\nbox = {{ x = {normal} }}")]
    assert abs(np.mean(near) - 0.3) < 0.01 and 0.015 < np.std(near) < 0.025
    uniform = "[queries.a]\nplace = 'uniform'\nbox = { x = 0 }"
    counts, _ = np.histogram([q.asked["box"]["x"][0] for q in draws(uniform)], 4, (0, 1))
    assert counts.min() > 50


def test_rows_without_a_value_give_no_place() -> None:
    data = pa.table({"x": [None, 1.0, float("nan"), 2.0] * 20})
    places = {q.asked["box"]["x"][0] for q in draws("[queries.a]\nbox = { x = 0 }", data)}
    assert places == {1.0, 2.0}
    with pytest.raises(kubist.InvalidInput, match="'x'"):
        draws("[queries.a]\nbox = { x = 0 }", pa.table({"x": pa.array([None, None], pa.float64())}))


def test_texts_are_quoted() -> None:
    data = pa.table({"name": ["it's", "it's"]})
    (question,) = draws("[queries.a]\nwhere = 'name = {name}'\nvalues = { name = 'rows' }", data, 1)
    assert question.asked["where"] == "name = 'it''s'"


def test_queries_come_by_their_weights() -> None:
    drawn = Draws(parsed(), rows(), seed=1)
    names = Counter(drawn.next().name for _ in range(1_200))
    assert 500 < names["box"] < 700
    assert all(120 < names[name] < 280 for name in ("one particle", "mean", "number"))


# Runs


class Stalling(Target):
    """A system that answers immediately, except for one stop of half a second."""

    name = "stalling"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers = 0

    def ask(self, question: Question) -> Answered:
        with self._lock:
            self._answers += 1
            if self._answers == 20:
                time.sleep(0.5)
        return Answered(1)

    def append(self, rows: pa.Table) -> None:
        raise kubist.InvalidInput("full")

    def sample(self, count: int) -> pa.Table:
        return rows(100)

    def close(self) -> None: ...


def test_an_open_loop_counts_the_wait_of_questions_that_were_due() -> None:
    text = "clients = 2\nseconds = 1.5\n{}\n[queries.a]\nbox = {{ x = '1 %' }}"
    opened = workloads.play(parsed(text.format("rate = 200")), Stalling())
    closed = workloads.play(parsed(text.format("think = 0.005")), Stalling())
    # About a third of the requests were due in the stop; a closed loop sent none then.
    assert opened.queries[-1].p95 > 0.1
    assert closed.queries[-1].p95 < 0.1
    service = opened.requests["service"]
    assert (service <= opened.requests["latency"] + 1e-6).all()
    assert np.median(service) < 0.1


def test_a_rate_is_kept_and_errors_are_counted() -> None:
    text = "rate = 300\nseconds = 1\n[queries.a]\n[writers.w]\nevery = 0.2"
    played = workloads.play(parsed(text), Stalling())
    assert 200 < len([n for n in played.requests["query"] if n == "a"]) < 400
    commits = next(one for one in played.queries if one.query == "commit of w")
    assert commits.failed == commits.asked > 0
    assert played.errors[0].startswith("w: full")


def test_a_run_reads_writes_and_keeps_its_requests(table: kubist.Table, tmp_path: Path) -> None:
    before = len(table)
    workload = parsed(TEXT + "\n[writers.simulation]\nrows = 100\nevery = 0.1")
    kept = tmp_path / "runs.kubist"
    (played,) = workloads.run(workload, table.location, keep=kept, progress=lambda _: None)
    assert not played.errors
    assert played.commits > 0
    assert len(table) == before + 100 * played.commits
    assert {one.query for one in played.queries} >= {"box", "mean", "number", "all"}
    box = next(one for one in played.queries if one.query == "box")
    assert box.read is not None and box.read >= box.rows
    workloads.run(workload, table.location, keep=kept, progress=lambda _: None)
    with kubist.open(kept) as runs:
        assert runs.estimate("count()", group_by="run").to_arrow().num_rows == 2
    assert "closed loop" in str(played) and "p99" in played._repr_html_()


def prepared(system: str) -> None:
    """Skips the test without the library or the server of a system."""
    if system in ("", "duckdb"):
        pytest.importorskip("duckdb")
    elif system == "lance":
        pytest.importorskip("lance")
    elif system == "postgis":
        pytest.importorskip("psycopg")
        if "PGHOST" not in os.environ:
            pytest.skip("PGHOST names no PostgreSQL with PostGIS")
    elif system == "cql":
        pytest.importorskip("cassandra")
        if "CASSANDRA_HOSTS" not in os.environ:
            pytest.skip("CASSANDRA_HOSTS names no nodes of Cassandra")


@pytest.fixture
def cube_file(tmp_path: Path) -> Path:
    from pyarrow import parquet

    random = np.random.default_rng(3)
    z = random.random(4_000).astype("f4")
    parquet.write_table(rows().append_column("z", pa.array(z)), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


QUESTIONS: list[tuple[str, dict[str, object]]] = [
    ("query", {"box": {"x": (0.2, 0.4), "y": (0.1, 0.9)}}),
    ("query", {"box": {"x": (0.1, 0.5), "y": (0.5, 0.6), "z": (0.0, 0.5)}, "columns": ["x", "z"]}),
    ("query", {"where": "pid = 3"}),
    ("query", {"where": "pid = 3 AND kind = 'a'"}),
    ("query", {"box": {"x": (0.0, 0.7), "pid": (2, 2)}}),
    ("query", {"limit": 7, "box": {"x": (0.5, 0.9)}}),
    ("count", {"box": {"z": (0.25, 0.5)}}),
    ("estimate", {"aggregates": "mean(x)", "error": 0.01, "box": {"x": (0.25, 0.5)}}),
]


@pytest.mark.parametrize("system", ["", "duckdb", "lance", "postgis", "cql"])
def test_other_systems_give_the_same_rows(system: str, cube_file: Path, path: Path) -> None:
    from pyarrow import parquet

    prepared(system)
    table = kubist.create(path, parquet.read_table(cube_file), dimensions=["x", "y", "z"])
    ours = workloads.targets.opened(table.location)
    other = workloads.targets.opened(f"{system}:{cube_file}" if system else str(cube_file))
    try:
        for verb, asked in QUESTIONS:
            question = Question("q", verb, asked)
            assert other.ask(question).rows == ours.ask(question).rows, question
        assert other.sample(50).num_rows == 50
        with pytest.raises(kubist.InvalidInput, match="per_cell"):
            other.ask(Question("cells", "query", {"per_cell": 1}))
        everything = Question("all", "query", {})
        if not system:
            with pytest.raises(kubist.InvalidInput, match="Parquet"):
                other.append(rows(10))
            return
        other.append(parquet.read_table(cube_file).slice(0, 10))
        assert other.ask(everything).rows == 4_010
        if system in ("duckdb", "postgis"):
            sampled = Question("some", "query", {"sample": 0.5})
            assert 1_700 < other.ask(sampled).rows < 2_300
    finally:
        other.close()


@pytest.mark.parametrize("system", ["duckdb", "lance", "postgis", "cql"])
def test_other_systems_are_played(system: str, cube_file: Path) -> None:
    prepared(system)
    text = "seconds = 0.6\nclients = 2\n[queries.a]\nbox = { x = '20 %', y = '20 %', z = '20 %' }"
    (played,) = workloads.run(parsed(text), f"{system}:{cube_file}", progress=lambda _: None)
    assert not played.errors
    assert played.queries[0].rows > 1


def test_an_unknown_system_and_a_missing_library_are_named(
    cube_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(kubist.InvalidInput, match="'oracle'; known are duckdb, postgis"):
        workloads.targets.opened(f"oracle:{cube_file}")
    for system, library in (("postgis", "psycopg"), ("cql", "cassandra"), ("lance", "lance")):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ImportError, match=f"pip install .*{library}"):
            workloads.targets.opened(f"{system}:{cube_file}")


def test_a_server_is_played(table: kubist.Table) -> None:
    with table.view(open=False) as view:
        text = "seconds = 0.5\n[queries.a]\nbox = { x = '5 %' }"
        (played,) = workloads.run(parsed(text), view.url, progress=lambda _: None)
    assert not played.errors
    assert played.queries[0].rows > 0


def test_kept_runs_become_a_page(table: kubist.Table, tmp_path: Path) -> None:
    kept, page = tmp_path / "runs.kubist", tmp_path / "runs.html"
    workload = parsed(TEXT.replace("seconds = 0.5", "seconds = 1.5"))
    (first,) = workloads.run(workload, table.location, keep=kept, progress=lambda _: None)
    other = kubist.create(tmp_path / "other", rows(), dimensions=["pid"])
    workload = parsed(TEXT.replace("seconds = 0.5", "seconds = 1.5\nrate = 150"))
    (second,) = workloads.run(workload, other.location, keep=kept, progress=lambda _: None)
    runs = workloads.report(kept, page)
    assert [one.target for one in runs] == [table.location, other.location]
    for ours, kept_run in zip((first, second), runs, strict=True):
        known = {one.query: one for one in ours.queries}
        assert {one.query for one in kept_run.queries} == set(known)
        for one in kept_run.queries:
            assert one.rows == pytest.approx(known[one.query].rows, rel=0.2)
            assert one.median == pytest.approx(known[one.query].median, rel=0.2)
        assert (kept_run.rate, kept_run.clients) == (ours.rate, ours.clients)
    text = page.read_text()
    assert "Times as long as" in text and "Median error" in text and "Requests of a" in text
    assert "http" not in text.replace(table.location, "")
    assert [one.target for one in workloads.report(kept, page, last=1)] == [other.location]
    with pytest.raises(kubist.InvalidInput, match="keeps no runs"):
        workloads.report(table.location, page)


def test_requests_are_predicted_by_the_cost_of_others() -> None:
    random = np.random.default_rng(2)
    read = random.integers(1_000, 100_000, 200)
    requests = {
        "read": read, "rows": read // 2, "cubes": read // 500, "bytes": read * 8,
        "failed": np.arange(200) % 20 == 0, "service": 1e-4 + 1e-8 * read,
    }  # fmt: skip
    found = workloads.modelled.predicted(requests)
    assert found is not None
    places, times = found
    np.testing.assert_allclose(times, requests["service"][places], rtol=0.01)
    assert workloads.modelled.predicted(requests | {"read": np.full(200, -1)}) is None


# Designs

DESIGNS = """
[designs."by identifier"]
dimensions = ["pid"]
[designs.cube]
dimensions = { x = "quantile", y = [0, 1] }
create = { lookup = ["pid"], capacity = 512 }
"""


def test_designs_of_one_data_set_are_compared(tmp_path: Path) -> None:
    from pyarrow import parquet

    file, told = tmp_path / "rows.parquet", tmp_path / "designs.toml"
    parquet.write_table(rows(), file)
    told.write_text(DESIGNS)
    text = "seconds = 0.6\n[queries.a]\nbox = { x = '5 %', y = '5 %' }"
    place, report = tmp_path / "scratch", tmp_path / "designs.html"
    played = workloads.compare(
        told, file, parsed(text), at=place, report=report, progress=lambda _: None
    )
    assert [one.target for one in played] == ["by identifier", "cube"]
    assert all(one.built and one.metrics and not one.errors for one in played)
    # The same requests; only a design with the right dimensions reads few rows.
    asked = min(len(one.requests["rows"]) for one in played)
    assert asked > 0
    first, second = (sorted(one.requests["rows"][: asked // 2]) for one in played)
    assert first == second
    slow, fast = (one.queries[0].read for one in played)
    assert slow is not None and fast is not None and fast < slow / 2
    assert not any(place.iterdir())
    page = report.read_text()
    assert page.count("<svg") >= 4 and "by identifier" in page and "http" not in page


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["no designs"]),
        ("[designs.a]", ["'a'", "dimensions"]),
        ("[designs.a]\ndims = ['x']", ["'a'", "'dims'", "dimensions"]),
        ("[designs.a]\ndimensions = ['q']", ["'a'", "q"]),
        ("[designs", ["TOML"]),
    ],
)
def test_an_error_names_the_design(tmp_path: Path, text: str, facts: list[str]) -> None:
    from pyarrow import parquet

    file, told = tmp_path / "rows.parquet", tmp_path / "designs.toml"
    parquet.write_table(rows(100), file)
    told.write_text(text)
    with pytest.raises(kubist.InvalidInput) as raised:
        workloads.compare(told, file, parsed(), at=tmp_path / "scratch", progress=lambda _: None)
    assert all(fact in str(raised.value) for fact in facts), str(raised.value)


# Records


def record(file: Path, program: str) -> list[dict[str, object]]:
    environment = os.environ | {"KUBIST_RECORD": str(file)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_questions_of_a_process_are_recorded_and_played(
    table: kubist.Table, tmp_path: Path
) -> None:
    file = tmp_path / "questions.jsonl"
    program = f"""
import kubist
t = kubist.open({table.location!r})
for i in range(3):
    t.query(box={{"x": (i / 10, i / 10 + 0.1)}}, where=f"pid = {{i}}", sample=0.5).to_arrow()
t.count(box={{"y": (0.5, 0.5)}})
t.estimate("mean(x)", where="kind = 'a'", error=0.2)
"""
    lines = record(file, program)
    assert [line["verb"] for line in lines] == ["query"] * 3 + ["count", "estimate"]
    assert all(
        str(line["table"]) in (table.location, str(Path(table.location).absolute()))
        for line in lines
    )
    workload = workloads.load(file)
    assert [query.weight for query in workload.queries] == [3, 1, 1]
    assert {question["where"] for question in workload.queries[0].replay} == {
        f"pid = {i}" for i in range(3)
    }
    (played,) = workloads.run(
        workloads.Workload(workload.queries, seconds=0.3), table.location, progress=lambda _: None
    )
    assert not played.errors
        # A killed process leaves a part of a line.
    with file.open("a") as out:
        out.write('{"at": 1, "ver')
    assert len(workloads.load(file).queries) == 3
    file.write_text('{"at": 1}\n{"at": 2}\n')
    with pytest.raises(kubist.InvalidInput, match="line 1"):
        workloads.load(file)


def test_the_command_records_and_plays(table: kubist.Table, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    asked = [COMMAND, "query", table.location, "--box", "x=0.1:0.2", "--format", "csv"]
    done = subprocess.run(
        [COMMAND, "workload", "record", file, "--", *asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == table.count(box={"x": (0.1, 0.2)}) + 1
    assert len(file.read_text().splitlines()) == 1
    toml = tmp_path / "test.toml"
    toml.write_text("seconds = 0.3\n[queries.a]\nbox = { x = '5 %' }")
    played = subprocess.run(
        [COMMAND, "workload", "run", toml, table.location, "--json"], capture_output=True, text=True
    )
    assert played.returncode == 0, played.stderr
    (figures,) = json.loads(played.stdout)
    assert figures["queries"][-1]["asked"] > 0
    bad = subprocess.run(
        [COMMAND, "workload", "run", tmp_path / "no.toml", table.location],
        capture_output=True,
        text=True,
    )
    assert bad.returncode == 2 and "no.toml" in bad.stderr
