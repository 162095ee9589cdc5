"""Dictionaries in tables behave like Python's."""

import datetime
import gc
import importlib
import json
import logging
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import uuid
from pathlib import Path

import numpy as np
import pytest

import kubist
from kubist import hecuba
from kubist.hecuba import StorageDict, StorageObj, config, getByID

HISTORIES = int(os.environ.get("KUBIST_HISTORIES", "24"))
FIRST = int(os.environ.get("KUBIST_FIRST_HISTORY", "0"))


class Droplets(StorageDict):
    """
    @TypeSpec dict<<pid:int, time:double>, x:double, y:double, label:str>
    @Index_on x, y
    """


class Words(StorageDict):
    """
    @TypeSpec dict<<word:str>, count:int>
    """


class Study(StorageObj):
    """
    @ClassField speed double
    @ClassField started datetime
    @ClassField grid numpy.ndarray
    @ClassField words dict<<word:str>, count:int>
    """


class Owner(StorageDict):
    """
    @TypeSpec dict<<name:str>, study:test_dictionaries.Study>
    """


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "location", str(tmp_path / "home"))
    monkeypatch.setattr(config, "execution_name", "tests")
    return tmp_path / "home"


TEXTS = ["", "a", "A", "it's", "ä", "漢字", "a.b", "🙂", "a" * 300, "NULL"]
SPECS = [
    ([("k", "int")], [("v", "int")], ()),
    ([("k", "str")], [("v", "double"), ("w", "str")], ()),
    ([("k", "double")], [("v", "bool")], ()),
    ([("k", "int"), ("t", "double")], [("x", "double"), ("y", "double")], ("x", "y")),
    ([("k", "str"), ("d", "date")], [("v", "tuple<int,str>")], ()),
    ([("k", "tuple<int,int>"), ("l", "int")], [("v", "bytes"), ("w", "time")], ()),
    ([("k", "datetime")], [("v", "datetime")], ("v",)),
    ([("k", "bytes")], [("v", "date")], ()),
]


def some_value(kind, rng, few=False):
    """A random value; with ``few``, from a small set, so that keys repeat."""
    if kind.startswith("tuple<"):
        return tuple(some_value(each, rng, few) for each in kind[6:-1].split(","))
    if kind == "int":
        return rng.choice([-1, 0, 1, 7, 2**63 - 1, -(2**63)] if few else [rng.getrandbits(40), -3])
    if kind == "double":
        return rng.choice([0.0, -0.0, 1.5, -1e300, float("inf")]) if few else rng.gauss(0, 1)
    if kind == "str":
        return rng.choice(TEXTS)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "bytes":
        return rng.choice([b"", b"\0", b"'", bytes(range(256))])
    day = datetime.datetime(2000, 1, 1) + datetime.timedelta(
        days=rng.randrange(5 if few else 9999), microseconds=rng.randrange(2 if few else 10**10)
    )
    return {"date": day.date(), "time": day.time(), "datetime": day}[kind]


def some_key(keys, rng):
    parts = tuple(some_value(kind, rng, few=True) for _, kind in keys)
    return parts[0] if len(parts) == 1 else parts


def some_values(columns, rng):
    parts = tuple(None if rng.random() < 0.1 else some_value(kind, rng) for _, kind in columns)
    return parts[0] if len(parts) == 1 else parts


def plain(value):
    return tuple(value) if isinstance(value, tuple) else value


def agrees(found, expected):
    assert {plain(k): plain(v) for k, v in found.items()} == expected
    assert len(found) == len(expected)
    keys = list(found)
    assert len(keys) == len(expected) and {plain(key) for key in keys} == set(expected)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
def test_a_random_history_gives_the_items_of_a_dict(seed, monkeypatch):
    rng = random.Random(seed)
    # Temporary tables, in memory if possible.
    shared = Path("/dev/shm")
    home = tempfile.mkdtemp(dir=shared if shared.is_dir() else None)
    monkeypatch.setattr(config, "location", home)
    monkeypatch.setattr(config, "write_buffer_size", rng.choice([1, 3, 10_000]))
    keys, columns, indexed = SPECS[seed % len(SPECS)]
    try:
        found = StorageDict(f"d{seed}", keys, columns, indexed)
        expected = {}
        for _ in range(rng.randrange(5, 40)):
            key = some_key(keys, rng)
            match rng.randrange(15):
                case 0 | 1 | 2 | 3 | 4:
                    expected[key] = some_values(columns, rng)
                    found[key] = list(expected[key]) if len(columns) > 1 else expected[key]
                case 5:
                    assert plain(found.get(key, "none")) == expected.get(key, "none")
                case 6:
                    assert (key in found) == (key in expected)
                case 7 if key in expected:
                    del expected[key], found[key]
                case 7:
                    with pytest.raises(KeyError):
                        del found[key]
                case 8:
                    assert plain(found.pop(key, "none")) == expected.pop(key, "none")
                case 9:
                    agrees(found, expected)
                case 10:
                    found.sync()
                case 11:
                    del found
                    gc.collect()
                    found = StorageDict(f"d{seed}")
                case 12:
                    more = {some_key(keys, rng): some_values(columns, rng) for _ in range(3)}
                    expected.update(more)
                    found.update(more)
                case 14 if rng.random() < 0.3:
                    found.clear()
                    expected.clear()
                case 13 | 14:
                    parts = [
                        item for part in found.split(rng.randrange(1, 9)) for item in part.items()
                    ]
                    assert {plain(k): plain(v) for k, v in parts} == expected
                    assert len(parts) == len(expected)
        agrees(found, expected)
        del found
        gc.collect()
        agrees(StorageDict(f"d{seed}"), expected)
    finally:
        gc.collect()
        hecuba.commit()
        shutil.rmtree(home)


def test_the_latest_commit_wins_for_every_reader():
    one, again = Words("words"), Words("words")
    assert one == again
    one["a"] = 1
    one.sync()
    script = textwrap.dedent(
        f"""
        from kubist.hecuba import StorageDict, config
        config.location, config.execution_name = {config.location!r}, "tests"
        d = StorageDict("words")
        d["a"] = 2
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert one["a"] == 2
    assert list(again.filter(lambda x: x.count == 1)) == []
    one["a"] = 3
    one.sync()
    assert dict(again) == {"a": 3}
    rows = kubist.open(f"{config.location}/tests/words").query(columns=["count"]).to_arrow()
    assert sorted(rows["count"].to_pylist()) == [1, 2, 3]


def test_a_replaced_value_is_not_found_by_a_filter_of_a_large_dictionary(monkeypatch):
    monkeypatch.setattr("kubist.hecuba._rows.SMALL_TABLE", 0)
    for small in (0, 20_000):
        monkeypatch.setattr("kubist.hecuba._rows.SMALL_RESULT", small)
        d = Words(f"large{small}")
        d.update({f"w{i}": i for i in range(1500)})
        d.sync()
        d.update({f"w{i}": -i for i in range(0, 1500, 2)})
        del d["w7"]
        found = dict(d.filter(lambda x: x.count > 3))
        assert found == {f"w{i}": i for i in range(5, 1500, 2) if i != 7}


def test_a_sample_has_all_versions_of_a_key():
    from random import random

    d = Words("sampled")
    for version in range(3):
        d.update({f"w{i}": i + version for i in range(2000)})
        d.sync()
    some = dict(d.filter(lambda x: random() < 0.25 and x.count >= 0))
    assert 350 < len(some) < 650
    assert all(count == int(word[1:]) + 2 for word, count in some.items())
    assert dict(d.filter(lambda x: 0.25 > random())) == some
    assert len(list(d.filter(lambda x: random() < 1))) == 2000
    assert list(d.filter(lambda x: random() < 0)) == []


STORES = {
    "S3": (os.environ.get("KUBIST_TEST_S3"), "s3://kubist-tests/d{}?endpoint={}"),
    "Cassandra": (os.environ.get("KUBIST_TEST_CASSANDRA"), "cassandra://{1}/d{0}"),
}


@pytest.mark.parametrize("store", STORES)
def test_a_bucket_and_a_cluster_have_the_same_items_as_a_directory(store, monkeypatch):
    service, pattern = STORES[store]
    if not service:
        pytest.skip(f"needs {store}: its variable names no address")
    monkeypatch.setattr(config, "location", pattern.format(uuid.uuid4().hex[:12], service))
    d = Droplets("far")
    try:
        d.update({(i, i / 8): [i / 100, i / 50, "p"] for i in range(500)})
        d.sync()
        d[7, 7 / 8] = [9.0, 9.0, "new"]
        del d[8, 1.0]
        assert len(d) == 499 and d[7, 7 / 8].label == "new" and (8, 1.0) not in d
        assert {item.key.pid for item in d.filter(lambda p: p.x < 0.1)} == {*range(10)} - {7, 8}
        part = next(iter(d.split(2)))
        assert dict(getByID(part.getID())) == dict(part)
        assert getByID(d.getID()) == d
    finally:
        d.delete_persistent()


def test_options_of_a_location_come_last(monkeypatch):
    for home, expected in [
        ("s3://bucket/prefix/?endpoint=http://a", "s3://bucket/prefix/g/name?endpoint=http://a"),
        ("cassandra://a,b/keyspace", "cassandra://a,b/keyspace/g__name"),
        ("/data/", "/data/g/name"),
    ]:
        monkeypatch.setattr(config, "location", home)
        assert hecuba._config.location_of("g.name") == expected


def test_memory_moves_into_a_table_and_back():
    d = Words()
    d["a"] = 1
    assert d.storage_id is None and d.getID() is None
    with pytest.raises(RuntimeError):
        d.sync()
    assert [tuple(item) for item in d.filter(lambda x: x.count == 1)] == [("a", 1)]
    d.make_persistent("moved")
    assert d.storage_id == uuid.uuid5(uuid.NAMESPACE_DNS, "tests.moved")
    with pytest.raises(hecuba.AlreadyPersistentError):
        d.make_persistent("other")
    d["b"] = 2
    assert pickle.loads(pickle.dumps(d)) == d
    assert getByID(d.getID()) == d
    assert Words.get_by_alias("tests.moved") == {"a": 1, "b": 2}
    d.stop_persistent()
    assert len(d) == 0 and d.storage_id is None
    d["b"] = 20
    d.make_persistent("moved")
    assert d == {"a": 1, "b": 20}
    identity = d.getID()
    d.delete_persistent()
    with pytest.raises(RuntimeError):
        d.delete_persistent()
    for missing in (lambda: getByID(identity), lambda: Words.get_by_alias("moved")):
        with pytest.raises(kubist.NotATable):
            missing()
    assert not Path(config.location, "tests", "moved").exists()


def test_keys_and_values_of_other_types_are_refused():
    d = Droplets("typed")
    for key in (1, ("a", 1.0), (1, "b"), (1, None), (1, float("nan")), (1, 2, 3), (True, object())):
        with pytest.raises(TypeError):
            d[key] = [0.0, 0.0, ""]
    for value in (1, [1.0, 2.0], ["a", 0.0, ""], [0.0, 0.0, 5]):
        with pytest.raises(TypeError):
            d[1, 1.0] = value
    words = Words()
    with pytest.raises(kubist.InvalidInput, match="64 bits"):
        words["a"] = 2**63
    with pytest.raises(TypeError):
        words["a"] = "b"
    assert len(d) == 0


def test_another_specification_of_a_name_is_refused():
    Words("name")["a"] = 1
    with pytest.raises(hecuba.SchemaMismatch):
        Droplets("name")
    d = Droplets()
    with pytest.raises(hecuba.SchemaMismatch):
        d.make_persistent("name")
    with pytest.raises(kubist.NotATable):
        StorageDict("missing")


@pytest.mark.parametrize(
    "line",
    [
        "<<a:int>, b:int>",
        "dict<<a:int>, b:int c:int>",
        "dict<<a:int>, b:what>",
        "dict <a:int, b:int>",
        "dict<<:int>, b:int>",
        "dict<<a:>, b:int>",
        "dict<<a:int>, a:int>",
        "dict<<a:int>, class:int>",
        "dict<<a:int>, b:int>>",
        "dict<<a:numpy.ndarray>, b:int>",
        "dict<<a:int>, b:int>\n@Index_on c",
        "dict<<a:int>, b:int>\n@TypeSpec dict<<a:int>, b:int>",
    ],
)
def test_a_wrong_specification_is_refused(line):
    wrong = type("Wrong", (StorageDict,), {"__doc__": f"\n@TypeSpec {line}\n"})
    with pytest.raises(kubist.InvalidInput):
        wrong()


def test_an_object_keeps_its_attributes():
    s = Study("study")
    s.speed, s.started = 1.5, datetime.datetime(2024, 2, 29, 1, 2, 3, 4)
    s.grid = np.arange(6).reshape(2, 3)
    s.words["a"] = 1
    s.note = "here only"
    with pytest.raises(TypeError):
        s.speed = "fast"
    s.sync()
    again = Study.get_by_alias("study")
    assert again == s and again.speed == 1.5 and again.started == s.started
    assert np.array_equal(again.grid, [[0, 1, 2], [3, 4, 5]])
    assert again.words == {"a": 1}
    with pytest.raises(AttributeError):
        again.note  # noqa: B018
    again.words = {"b": 2}
    again.speed = None
    assert getByID(s.getID()).words == {"b": 2} and getByID(s.getID()).speed is None
    del again.speed
    with pytest.raises(AttributeError):
        again.speed  # noqa: B018
    again.delete_persistent()
    with pytest.raises(kubist.NotATable):
        Study.get_by_alias("study")


def test_values_can_be_objects():
    d = Owner("owner")
    study = Study()
    study.speed = 2.0
    study.words["x"] = 5
    d["a"] = study
    d.sync()
    found = Owner("owner")["a"]
    assert found == study and found.speed == 2.0 and found.words["x"] == 5
    assert d["a"].storage_id == study.storage_id


def test_parts_are_disjoint_and_reopen_in_another_process():
    d = Droplets("parts")
    d.update({(i, i / 8): [i / 100, i / 50, "p"] for i in range(2000)})
    parts = list(d.filter(lambda p: p.x < 10 and p.y >= 1).split(5))
    d.update({(i, i / 8): [i / 100, i / 50, "later"] for i in range(2000)})
    identities = [part.getID() for part in parts]
    script = textwrap.dedent(
        """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        from kubist.hecuba import config, getByID
        config.location = sys.argv[2]
        for identity in json.load(sys.stdin):
            print(json.dumps([[*key, *value] for key, value in getByID(identity)]))
        """
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent), config.location],
        input=json.dumps(identities),
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [tuple(row) for line in run.stdout.splitlines() for row in json.loads(line)]
    assert sorted(rows) == [(i, i / 8, i / 100, i / 50, "p") for i in range(50, 1000)]
    assert sum(len(part) for part in parts) == len(rows)
    assert len(pickle.loads(pickle.dumps(parts[0]))) == len(parts[0])
    whole = next(iter(d.split(1)))
    assert whole[3, 3 / 8].label == "later" and dict(whole) == dict(d.items())
    copied = Droplets("copied")
    copied.update(d)
    assert copied == d and len(copied) == 2000
    with pytest.raises(kubist.InvalidInput, match="split the dictionary"):
        d.filter(lambda p: str(p.pid) == "1").split()
    with pytest.raises(kubist.InvalidInput):
        getByID("{}")
    with pytest.raises(kubist.InvalidInput):
        getByID("nonsense")


def test_a_dictionary_that_another_process_dropped_can_be_made_again():
    old = Words("dropped")
    old["a"] = 1
    old.sync()
    for _ in range(2):
        kubist.drop(f"{config.location}/tests/dropped", force=True)
        with pytest.raises(kubist.NotATable):
            old["a"]
        new = Words("dropped")
        assert dict(new) == {}
        new["b"] = 2
        new.sync()
        assert dict(Words("dropped")) == {"b": 2}
        old = new


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_opens_its_own_and_leaves_the_writes_to_the_parent():
    d = Words("forked")
    d["a"] = 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(kubist.Refused):
                len(d)
            own = Words("forked")
            code = 0 if dict(own) == {} else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    d.sync()
    assert dict(Words("forked")) == {"a": 1}


def test_the_example_runs():
    script = Path(__file__).parents[2] / "examples/dictionaries/droplets.py"
    run = subprocess.run(
        [sys.executable, script, "3000"], capture_output=True, text=True, check=True
    )
    assert "python: (p.y - 0.5) ** 2 + (p.z - 0.5) ** 2 < 0.01" in run.stdout
    assert "mean height 0." in run.stdout


@pytest.mark.parametrize("after", [0.02, 0.1, 0.25])
def test_a_killed_bulk_write_leaves_whole_commits(after):
    script = textwrap.dedent(
        f"""
        from kubist.hecuba import StorageDict, config
        config.location, config.execution_name = {config.location!r}, "tests"
        config.write_buffer_size = 1000
        d = StorageDict("bulk", [("k", "int")], [("v", "int"), ("w", "str")])
        print("ready", flush=True)
        for at in range(10**9):
            d[at] = [at // 1000, "w" * 20]
            if at % 1000 == 999:
                print(at + 1, flush=True)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    acknowledged = int(process.stdout.readline())
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    acknowledged = int(rest[-1]) if rest else acknowledged
    d = StorageDict("bulk")
    assert len(d) % 1000 == 0 and len(d) >= acknowledged
    assert sorted(d) == list(range(len(d)))
    d[-1] = [0, "more"]
    assert d[-1].w == "more"


def test_the_storage_interface_of_pycompss_commits_after_a_task(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "integrations/pycompss"))
    api = importlib.import_module("storage.api")
    settings = tmp_path / "storage.cfg"
    settings.write_text(f"# of the job\nlocation = {tmp_path}/job\n")
    api.init(str(settings))
    assert config.location == f"{tmp_path}/job"
    api.initWorker(str(settings))
    api.initWorkerPostFork()
    d = Words("tasks")
    with api.TaskContext(logging.getLogger("task"), []):
        api.getByID(d.getID())["a"] = 1
    table = kubist.open(f"{tmp_path}/job/tests/tasks")
    assert len(table) == 1
    with (
        pytest.raises(ValueError, match="the task"),
        api.TaskContext(logging.getLogger("task"), []),
    ):
        d["b"] = 2
        raise ValueError("the task")
    assert len(table) == 1
    api.finishWorkerPostFork()
    api.finishWorker()
    api.finish()
    assert len(table) == 2
