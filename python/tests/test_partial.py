"""Partial copies: kubist.clone, Table.deepen and Table.held."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import kubist
from servers import COMMAND

KINDS = np.array(["gas", "star", "dark matter", "wind"])


def rows(rng: np.random.Generator, count: int, first: int) -> pa.Table:
    return pa.table(
        {
            "x": rng.random(count) ** 2,
            "y": rng.random(count),
            "pid": np.arange(first, first + count),
            "mass": rng.normal(5.0, 1.0, count).astype("f4"),
            "kind": pa.array(KINDS[rng.integers(0, 4, count)]).dictionary_encode(),
        }
    )


def table(folder: Path, seed: int, *, count: int = 30_000) -> kubist.Table:
    """A table with commits, rewrites, postings, replicas, codes and at times several grids."""
    rng = np.random.default_rng(seed)
    dimensions = {"x": None if seed % 2 else (0.0, 1.0), "y": (0.0, 1.0)}
    replication = ["none", "outlook(2)", "full"][seed % 3]
    lookup = ["pid"] if seed % 2 else []
    first = rows(rng, count, 0)
    options = {
        "capacity": 1024,
        "identity": ["pid"],
        "lookup": lookup,
        "storage": {"replication": replication},
    }
    if seed % 4 == 3:
        options["identity"] = []
    t = kubist.create(folder / "source", first.schema, dimensions=dimensions, **options)
    t.append(first)
    for turn in range(3):
        t.append(rows(rng, count // 4, count * (turn + 1)), step=turn)
        if turn == 1:
            t.optimize()
        if turn == 2 and seed % 5 == 0:
            t.regrid({"x": (-1.0, 3.0), "y": (0.0, 1.0)})
            t.append(rows(rng, count // 8, count * 7))
    return t


def same(one: pa.Table, other: pa.Table) -> bool:
    def ordered(of: pa.Table) -> pa.Table:
        plain = pa.table(
            {
                n: of[n].cast(pa.string()) if pa.types.is_dictionary(of[n].type) else of[n]
                for n in of.column_names
            }
        )
        return plain.sort_by([(name, "ascending") for name in plain.column_names])

    return ordered(one).equals(ordered(other))


def box_of(
    random: random.Random, within: dict[str, tuple[float, float]] | None = None
) -> dict[str, tuple[float, float]]:
    box = {}
    for name in ("x", "y"):
        low, high = (within or {}).get(name, (0.0, 1.0))
        ends = sorted(random.uniform(low, high) for _ in range(2))
        if random.random() < 0.8 or (within and name in within):
            box[name] = (ends[0], ends[1])
    return box


@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "8"))))
def test_what_is_held_is_answered_as_at_the_source(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    source = table(tmp_path, seed)
    sample = choose.choice([0.02, 0.1, 0.4, None])
    box = choose.choice([None, box_of(choose)]) or None
    columns = choose.choice([None, ["x", "mass"], ["kind", "pid"]])
    copy = kubist.clone(source.location, tmp_path / "copy", sample=sample, box=box, columns=columns)
    whole = sample or 1.0
    assert copy.held(box) >= whole
    assert copy.count() == source.count() and len(copy) == len(source)
    questions = []
    for _ in range(12):
        inner = box_of(choose, box) if box or choose.random() < 0.7 else None
        fraction = choose.choice([whole, whole * choose.random()])
        some = columns or choose.choice([None, ["x"], ["mass", "kind"], ["pid"]])
        asked = {"box": inner, "sample": fraction, "columns": some}
        if "mass" in (some or ["mass"]) and choose.random() < 0.5:
            asked["where"] = "mass > 5"
        if "pid" in (some or ["pid"]) and choose.random() < 0.3:
            asked["where"] = (
                f"pid in ({', '.join(str(choose.randrange(60_000)) for _ in range(9))})"
            )
        questions.append((asked, source.query(**asked).to_arrow()))
    limited = {"box": box, "limit": 50, "columns": ["x", "y"]} if (columns is None) else None
    expected = source.query(**limited).to_arrow() if limited else None
    bigger = (
        None if sample is None else source.query(box=box, sample=min(1.0, 3 * sample)).to_arrow()
    )
    elsewhere = source.query(sample=0.5).to_arrow()
    shutil.move(source.location, tmp_path / "away")

    copy = kubist.open(tmp_path / "copy")
    for asked, of_source in questions:
        assert same(copy.query(**asked).to_arrow(), of_source), asked
    if limited:
        assert same(copy.query(**limited).to_arrow(), expected)
    if sample is not None and bigger.num_rows > 2000:
        with pytest.raises(kubist.NotHere) as caught:
            copy.query(box=box, sample=min(1.0, 3 * sample)).to_arrow()
        assert 0 < caught.value.bytes
        assert "copy" in str(caught.value)
    # A query beyond the copy fails, or has every row.
    for asked in [{"sample": 0.5}, {"columns": None, "sample": 0.5}]:
        try:
            found = copy.query(**asked).to_arrow()
        except kubist.NotHere:
            continue
        assert same(found, elsewhere)
    with pytest.raises(kubist.NotATable, match="source"):
        copy.deepen(sample=0.5)

    shutil.move(tmp_path / "away", source.location)
    copy.deepen(sample=0.5)
    assert copy.held() >= 0.5
    shutil.move(source.location, tmp_path / "away")
    assert same(copy.query(sample=0.5).to_arrow(), elsewhere)
    assert same(kubist.open(tmp_path / "copy").query(sample=0.5).to_arrow(), elsewhere)


@pytest.fixture
def source(tmp_path: Path) -> kubist.Table:
    rng = np.random.default_rng(1)
    first = rows(rng, 60_000, 0)
    t = kubist.create(
        tmp_path / "source", first.schema, ["x", "y"], identity=["pid"], capacity=2048
    )
    t.append(first)
    t.optimize()
    t.append(rows(rng, 3_000, 60_000))
    return t


def away(source: kubist.Table) -> Path:
    return Path(shutil.move(source.location, source.location + ".away"))


def test_a_copy_fetches_what_it_lacks_and_keeps_it(source: kubist.Table, tmp_path: Path) -> None:
    kubist.clone(source.location, tmp_path / "copy", sample="1%")
    box = {"x": (0.1, 0.3)}
    expected = source.query(box=box).to_arrow()
    plain = kubist.open(tmp_path / "copy")
    with pytest.raises(kubist.NotHere) as caught:
        plain.query(box=box)
    assert 10_000 < caught.value.bytes < 5_000_000
    assert isinstance(caught.value, LookupError)
    fetching = kubist.open(tmp_path / "copy", fetch=True)
    assert same(fetching.query(box=box).to_arrow(), expected)
    assert fetching.count(box=box) == expected.num_rows
    moved = away(source)
    # Another handle sees the fetched bytes.
    assert same(plain.query(box=box).to_arrow(), expected)
    assert plain.held(box) == 1.0 > plain.held() >= 0.01
    with pytest.raises(kubist.Unavailable):
        kubist.open(tmp_path / "copy", fetch=True).query(box={"x": (0.5, 0.9)}).to_arrow()
    shutil.move(moved, source.location)
    with pytest.raises(kubist.InvalidInput, match="not a partial copy"):
        kubist.open(source.location, fetch=True)


def test_an_estimate_uses_what_is_held(source: kubist.Table, tmp_path: Path) -> None:
    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.1)
    exact = source.query(columns=["mass"]).to_numpy()["mass"].astype(float)
    away(source)
    estimate = copy.estimate(["mean(mass)", "sum(mass)", "count()"], error=0.0001)
    mean, total, count = (SimpleNamespace(**row) for row in estimate.to_dicts())
    assert 0.09 < estimate.fraction < 0.2
    assert mean.low < mean.high and abs(mean.value - exact.mean()) < 6 * (mean.high - mean.low)
    assert total.low <= total.value <= total.high
    assert count.value == len(exact)
    assert any("partial copy" in warning for warning in estimate.warnings)
    inside = copy.estimate("mean(mass)", box={"x": (0.0, 0.5)})
    assert inside.low < inside.value < inside.high
    with pytest.raises(kubist.NotHere):
        copy.estimate("mean(mass)", window=(0.5, 0.6))


def test_counts_are_exact_or_not_here(source: kubist.Table, tmp_path: Path) -> None:
    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.1, columns=["mass"])
    choose = random.Random(5)
    boxes = [box_of(choose) for _ in range(100)] + [{"x": (0.0, 0.5)}, {}]
    counts = [source.count(box=box) for box in boxes]
    away(source)
    exact = 0
    for box, count in zip(boxes, counts, strict=True):
        try:
            assert copy.count(box=box) == count, box
            exact += 1
        except kubist.NotHere:
            pass
    assert exact > 0
    with pytest.raises(kubist.NotHere):
        copy.estimate("count_distinct(kind)")
    with pytest.raises(kubist.NotHere):
        copy.query(sample=0.05).to_arrow()
    assert copy.held(columns=["kind"]) < 0.001 < copy.held() <= copy.held(columns=["mass", "x"])


def test_intervals_of_a_copy_cover(tmp_path: Path) -> None:
    hits = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        data = rows(rng, 20_000, 0)
        place = tmp_path / str(seed)
        t = kubist.create(
            place, data.schema, ["x", "y"], identity=["pid"], capacity=1024, seed=seed
        )
        t.append(data)
        copy = kubist.clone(place, tmp_path / f"{seed}.copy", sample=0.1, columns=["mass"])
        figure = copy.estimate("mean(mass)")
        hits.append(figure.low <= data["mass"].to_numpy().astype(float).mean() <= figure.high)
        shutil.rmtree(place)
        shutil.rmtree(tmp_path / f"{seed}.copy")
    assert sum(hits) >= 33  # 95 %, with a chance of about 1 in 2,000 to fail


def test_a_copy_says_what_it_holds(source: kubist.Table, tmp_path: Path) -> None:
    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.02, columns=["x", "mass"])
    copy.deepen(box={"x": (0.25, 0.5)})
    held = copy.info().partial
    assert held is not None and held.source == source.location
    assert held.queries == [
        {"spec": 1, "sample": 0.02, "columns": ["x", "mass"]},
        {"spec": 1, "box": {"x": [0.25, 0.5]}},
    ]
    assert f"copy of {source.location}" in repr(copy.info()) and "2 % of the records" in repr(
        copy.info()
    )
    assert source.info().partial is None and source.held() == 1.0
    for deep in (False, True):
        report = copy.verify(deep=deep)
        assert report.ok and report.held == held.held_bytes and (report.pages > 0) == deep
    shown = subprocess.run(
        [COMMAND, "info", tmp_path / "copy"], capture_output=True, text=True, check=True
    ).stdout
    assert (
        "partial     copy of" in shown
        and "2 % of the records, columns x, mass; 100 % of the records, x=0.25:0.5" in shown
    )
    checked = subprocess.run(
        [COMMAND, "verify", tmp_path / "copy"], capture_output=True, text=True, check=True
    ).stdout
    assert checked.startswith("intact") and "partial copy" in checked


def test_the_command_clones_and_deepens(source: kubist.Table, tmp_path: Path) -> None:
    def run(*arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    copy = tmp_path / "copy"
    assert "fetched from" in run(
        "clone", source.location, copy, "--sample", "1%", "--box", "x=0:0.5"
    )
    assert "already exists" in run("clone", source.location, copy, "--sample", "1%", code=3)
    assert "partial copy" in run("query", copy, "--sample", "5%", code=3)
    run("query", copy, "--box", "x=0.1:0.2", "--sample", "1%", "--columns", "pid")
    run("query", copy, "--sample", "1%", "--fetch")
    run("deepen", copy, "--sample", "5%")
    away(source)
    rows_of = run("query", copy, "--sample", "5%", "--count")
    assert int(rows_of.split()[0]) == kubist.open(copy).count(sample=0.05)


def test_bad_input_is_refused(source: kubist.Table, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine")
    with pytest.raises(kubist.TableExists):
        kubist.clone(source.location, taken)
    with pytest.raises(kubist.TableExists):
        kubist.clone(source.location, source.location)
    for sample in (0, 0.0, -1, 1.5, float("nan"), "0%"):
        with pytest.raises(kubist.InvalidInput):
            kubist.clone(source.location, tmp_path / "copy", sample=sample)
    for wrong in ({"columns": ["nothing"]}, {"box": {"nothing": (0, 1)}}):
        with pytest.raises(kubist.InvalidInput, match="nothing"):
            kubist.clone(source.location, tmp_path / "copy", **wrong)
    assert not (tmp_path / "copy").exists()
    with pytest.raises(kubist.InvalidInput, match="directory"):
        kubist.clone(source.location, "s3://bucket/copy")
    with pytest.raises(kubist.NotATable):
        kubist.clone(tmp_path / "nowhere", tmp_path / "copy")

    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.01)
    with pytest.raises(kubist.InvalidInput, match="itself a partial copy"):
        kubist.clone(copy.location, tmp_path / "other")
    with pytest.raises(kubist.TableExists, match="deepen"):
        kubist.clone(source.location, tmp_path / "copy", sample=0.01)
    with pytest.raises(kubist.InvalidInput, match="not a partial copy"):
        source.deepen(sample=0.1)
    with pytest.raises(kubist.InvalidInput, match="partial copy"):
        kubist.sync(copy.location, tmp_path / "third")
    for change in (
        lambda: copy.append(rows(np.random.default_rng(0), 3, 0)),
        copy.optimize,
        lambda: copy.set_metadata({"a": 1}),
    ):
        with pytest.raises(kubist.NotPermitted, match="partial copy"):
            change()
    with pytest.raises(kubist.NotHere):
        copy.copy_to(tmp_path / "third")


def test_deepen_takes_the_newest_state(source: kubist.Table, tmp_path: Path) -> None:
    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.05)
    source.append(rows(np.random.default_rng(9), 5_000, 70_000))
    source.optimize()
    assert len(copy) == len(source) - 5_000
    report = copy.deepen()
    assert report.rows == len(copy) == len(source)
    expected = source.query(sample=0.05).to_arrow()
    assert copy.deepen().fetched == 0
    # A table at the same location that is another one is no source.
    moved = away(source)
    kubist.create(source.location, expected.schema, ["x", "y"], identity=["pid"])
    with pytest.raises(kubist.TableReplaced):
        copy.deepen()
    assert same(copy.query(sample=0.05).to_arrow(), expected)
    assert moved.exists()


def test_a_damaged_piece_is_named_and_fetched_again(source: kubist.Table, tmp_path: Path) -> None:
    copy = kubist.clone(source.location, tmp_path / "copy", sample=0.1)
    expected = source.query(sample=0.1).to_arrow()
    segment = max((tmp_path / "copy" / "segments").iterdir(), key=lambda file: file.stat().st_size)
    whole = segment.read_bytes()
    for place in np.linspace(16, len(whole) - 1, 25).astype(int):
        broken = bytearray(whole)
        broken[place] ^= 0x40
        segment.write_bytes(broken)
        try:
            assert same(kubist.open(copy.location).query(sample=0.1).to_arrow(), expected)
        except kubist.Damaged as error:
            assert segment.name in str(error) and "deepen" in str(error)
    segment.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(kubist.Damaged, match=segment.name):
        kubist.open(copy.location).query(sample=0.1).to_arrow()
    assert not kubist.open(copy.location).verify(deep=True).ok
    copy.deepen()
    assert copy.verify(deep=True).ok
    away(source)
    assert same(kubist.open(copy.location).query(sample=0.1).to_arrow(), expected)


def test_a_killed_clone_is_continued(source: kubist.Table, tmp_path: Path) -> None:
    script = "import sys, kubist; kubist.clone(sys.argv[1], sys.argv[2], sample=0.5)"
    for turn in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", script, source.location, tmp_path / "copy"]
        )
        deadline = time.monotonic() + 20
        # Later turns are killed later.
        while time.monotonic() < deadline and process.poll() is None:
            files = list((tmp_path / "copy").rglob("*"))
            if len(files) > 2 * turn:
                break
            time.sleep(0.001)
        process.kill()
        process.wait()
    try:
        copy = kubist.clone(source.location, tmp_path / "copy", sample=0.5)
    except kubist.TableExists:
        copy = kubist.open(tmp_path / "copy")
    expected = source.query(sample=0.5).to_arrow()
    away(source)
    assert same(copy.query(sample=0.5).to_arrow(), expected)


def test_the_page_shows_a_partial_copy(source: kubist.Table, tmp_path: Path) -> None:
    kubist.clone(source.location, tmp_path / "copy", sample=0.05)
    away(source)
    view = kubist.open(tmp_path / "copy").view(open=False)
    try:
        remote = kubist.connect(view.url)
        assert len(remote) == 63_000
        assert remote.query(sample=0.05).to_arrow().num_rows == kubist.open(
            tmp_path / "copy"
        ).count(sample=0.05)
        with pytest.raises(kubist.NotHere):
            remote.query(sample=0.9).to_arrow()
    finally:
        view.stop()


def test_long_manifests_and_sealed_files_are_cloned(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = rows(rng, 60_000, 0)
    options = {"identity": ["pid"], "lookup": ["pid"], "capacity": 128}
    t = kubist.create(tmp_path / "source", data.schema, ["x", "y"], **options)
    for first in range(0, 60_000, 10_000):
        t.append(data.slice(first, 10_000))
    t.optimize()
    t.clean(0)
    assert list((tmp_path / "source" / "segments").glob("pages-*")), "the manifest is on pages"
    t.pack(tmp_path / "sealed")
    expected = t.query(sample=0.03).to_arrow()
    for source in ("source", "sealed"):
        kubist.clone(tmp_path / source, tmp_path / f"{source}.copy", sample=0.03)
    shutil.move(t.location, tmp_path / "away")
    (tmp_path / "sealed").rename(tmp_path / "gone")
    for source in ("source", "sealed"):
        copy = kubist.open(tmp_path / f"{source}.copy")
        assert same(copy.query(sample=0.03).to_arrow(), expected)
        assert copy.verify(deep=True).ok
        with pytest.raises(kubist.NotHere):
            copy.query(where="pid < 10000")
    (tmp_path / "gone").rename(tmp_path / "sealed")
    assert copy.deepen(box={"x": (0.0, 0.2)}).fetched > 0
    assert copy.held({"x": (0.05, 0.1)}) == 1.0
