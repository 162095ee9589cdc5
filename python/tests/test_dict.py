"""`kubist.dict`: a sorted dictionary in one file."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kubist

KEYS: list[Any] = [
    b"",
    b"a",
    b"\xff",
    "",
    "a",
    "ä",
    "z" * 500,
    -(2**53),
    -1.5,
    -1,
    0,
    1e-300,
    2,
    2**53,
]


def value(rng: random.Random) -> Any:
    plain = [None, True, 3, -2.5, "text", b"\x00bytes", 2**80, [1, "a", None], {"a": {"b": [1.5]}}]
    return rng.choice([*plain, b"x" * rng.randrange(5_000)])


def test_it_is_a_dict_with_sorted_keys(tmp_path: Path) -> None:
    rng, model = random.Random(5), {}
    d = kubist.dict(tmp_path / "new" / "folder")
    for _ in range(400):
        act, key = rng.random(), rng.choice([*KEYS, rng.randrange(60), f"k{rng.randrange(60)}"])
        if act < 0.6:
            model[key] = d[key] = value(rng)
        elif act < 0.75 and key in model:
            del model[key], d[key]
        elif act < 0.8:
            some = {f"k{n}": value(rng) for n in range(rng.randrange(8))}
            model.update(some)
            d.update(some)
        elif act < 0.85:
            d.compact()
        elif act < 0.9:
            d.close()
            d = kubist.dict(tmp_path / "new" / "folder")
        assert (key in d) == (key in model) and d.get(key) == model.get(key)
    assert len(d) == len(model) and dict(d.items()) == model
    # Numbers, bytes, strings; each in its order.
    kinds = [isinstance(key, bytes) + 2 * isinstance(key, str) for key in d]
    assert kinds == sorted(kinds)
    numbers = [key for key in d if not isinstance(key, (bytes, str))]
    assert numbers == sorted(numbers)
    within = dict(d.range("a", "k5"))
    assert within == {k: v for k, v in model.items() if isinstance(k, str) and "a" <= k < "k5"}
    assert dict(d.range(-2, 3)) == {
        k: v for k, v in model.items() if isinstance(k, (int, float)) and -2 <= k < 3
    }
    d.clear()
    assert len(d) == 0 and list(d) == []


def test_a_batch_is_one_commit_or_none(tmp_path: Path) -> None:
    d = kubist.dict(tmp_path)
    d["a"] = 1
    with pytest.raises(ZeroDivisionError), d.batch():
        d["a"], d["b"] = 2, 3
        raise ZeroDivisionError
    assert dict(d) == {"a": 1}
    with d.batch():
        d["b"] = 2
        assert "b" not in d
    assert dict(d) == {"a": 1, "b": 2}


def test_snapshots_and_readers_see_what_was_committed_then(tmp_path: Path) -> None:
    d = kubist.dict(tmp_path, "shared")
    d.update({n: n for n in range(100)})
    snapshot, reader = d.snapshot(), kubist.dict(tmp_path, "shared", read_only=True)
    d.clear()
    d.compact()
    for old in (snapshot, reader):
        assert dict(old) == {n: n for n in range(100)}
        with pytest.raises(kubist.InvalidInput, match="reading"):
            old[1] = 2
    assert len(kubist.dict(tmp_path, "shared", read_only=True)) == 0
    with pytest.raises(kubist.Busy, match="shared"):
        kubist.dict(tmp_path, "shared")
    kubist.dict(tmp_path, "another")["x"] = 1
    d.close()
    with pytest.raises(kubist.InvalidInput, match="closed"):
        d["x"] = 1
    assert len(kubist.dict(tmp_path, "shared")) == 0


@pytest.mark.parametrize(
    "key", [None, True, (1, 2), float("nan"), math.inf, 2**53 + 1, "\ud800", object()]
)
def test_other_keys_are_refused_by_name(tmp_path: Path, key: Any) -> None:
    d = kubist.dict(tmp_path)
    with pytest.raises(kubist.InvalidInput, match="the key"):
        d[key] = 1


@pytest.mark.parametrize("wrong", [object(), {1: "a"}, (1, 2), [(1,)], {1, 2}, [math.nan], 1j])
def test_values_that_json_changes_are_refused(tmp_path: Path, wrong: Any) -> None:
    d = kubist.dict(tmp_path)
    with pytest.raises(kubist.InvalidInput, match="JSON"):
        d["a"] = wrong
    d["nan"] = math.nan
    assert math.isnan(d["nan"]) and "a" not in d


def test_places_and_damage_are_named(tmp_path: Path) -> None:
    with pytest.raises(kubist.NotATable, match="none"):
        kubist.dict(tmp_path, "none", read_only=True)
    with pytest.raises(kubist.InvalidInput):
        kubist.dict(tmp_path, "../up")
    d = kubist.dict(tmp_path, "d")
    d.update({n: "v" * 100 for n in range(100)})
    d.close()
    (file,) = tmp_path.glob("d.*.kv")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(kubist.Damaged, match=r"d\..*kv"):
        dict(kubist.dict(tmp_path, "d", read_only=True))


def test_kill_9_loses_no_acknowledged_change_and_divides_none(tmp_path: Path) -> None:
    program = f"""
import kubist
d = kubist.dict({os.fspath(tmp_path)!r})
n = len(d)
while True:
    d.update({{n + i: n for i in range(10)}})
    n += 10
    print(n, flush=True)
"""
    for _ in range(3):
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.2)
            child.send_signal(signal.SIGKILL)
            told = [int(line) for line in child.stdout.read().split()]
        with kubist.dict(tmp_path) as d:
            assert len(d) % 10 == 0 and len(d) >= (told or [0])[-1]
            assert list(d) == list(range(len(d)))
