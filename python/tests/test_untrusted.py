"""Untrusted input: invalid Arrow data, passwords in addresses, names with terminal commands."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kubist

SECRET = "s3cret"
EVIL = "bad\x1b]0;owned\x07\x1b[31m\u202e\x9b2J"


def offsets(values: list[int]) -> pa.Buffer:
    return pa.py_buffer(np.array(values, dtype=np.int32).tobytes())


def text(*values: bytes) -> pa.Array:
    ends = np.cumsum([0, *map(len, values)]).tolist()
    buffers = [None, offsets(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def batch(kind: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"x": np.arange(len(kind), dtype=float), "kind": kind})


def view_out_of_range() -> pa.Array:
    """A view of 100 bytes in a buffer of 20."""
    view = np.array([100, 0, 0, 0], dtype=np.int32).tobytes()
    return pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(view), pa.py_buffer(b"a" * 20)])


def long_key(keys: list[int | None]) -> pa.Array:
    dictionary = pa.array(["a", "b"])
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), dictionary, safe=False)


SOUND = pa.array(["a", "b", "c"])

WRONG: dict[str, tuple[pa.Array, list[str]]] = {
    "no UTF-8": (text(b"a", b"b", b"c", b"\xff\xfe", b"e"), ["kind", "row 3"]),
    "half a character": (text(b"a\xc3", b"\xa9b"), ["kind", "row 0"]),
    "bytes in a dictionary": (
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int32()), text(b"a", b"\xff")),
        ["kind"],
    ),
    "a key that leads nowhere": (long_key([0, 1, 7]), ["kind", "row 2"]),
    "a negative key": (long_key([0, -1]), ["kind", "row 1"]),
    "offsets that fall": (
        pa.Array.from_buffers(pa.string(), 3, [None, offsets([0, 3, 1, 4]), pa.py_buffer(b"abcd")]),
        ["kind"],
    ),
    "a view that leads nowhere": (view_out_of_range(), []),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("way", ["batch", "table", "reader", "dict", "writer", "create"])
def test_wrong_arrow_data_is_refused(path: Path, what: str, way: str) -> None:
    kind, parts = WRONG[what]
    wrong = batch(kind)
    t = kubist.create(path, batch(pa.array([], kind.type)).schema, ["x"])
    with pytest.raises(kubist.InvalidInput) as raised:
        if way == "batch":
            t.append(wrong)
        elif way == "table":
            t.append(pa.Table.from_batches([wrong]))
        elif way == "reader":
            t.append(pa.RecordBatchReader.from_batches(wrong.schema, [wrong]))
        elif way == "dict":
            t.append({"x": wrong["x"], "kind": wrong["kind"]})
        elif way == "writer":
            with t.writer() as writer:
                writer.append(wrong)
        else:
            kubist.create(path.with_name("other"), wrong, ["x"])
    for part in parts:
        assert part in str(raised.value)
    assert len(t) == 0
    if kind.type == pa.string():
        t.append(batch(SOUND))
        assert sorted(t.query().to_arrow()["kind"].to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize("way", ["batch", "table", "reader"])
def test_an_offset_beyond_the_bytes(path: Path, way: str) -> None:
    """pyarrow reads it without an error from a file with one changed byte."""
    sink = pa.BufferOutputStream()
    sound = pa.record_batch({"x": [1.0, 2.0], "kind": ["a", "bcd"]})
    with pa.ipc.new_stream(sink, sound.schema) as stream:
        stream.write(sound)
    whole = sink.getvalue().to_pybytes()
    spoilt = whole.replace(b"\0\0\0\0\1\0\0\0\4\0\0\0", b"\0\0\0\0\1\0\0\0\4\4\0\0")
    assert spoilt != whole
    wrong = pa.ipc.open_stream(spoilt).read_next_batch()
    t = kubist.create(path, sound.schema, ["x"])
    ways = {
        "batch": lambda: wrong,
        "table": lambda: pa.Table.from_batches([wrong]),
        "reader": lambda: pa.ipc.open_stream(spoilt),
    }
    with pytest.raises(kubist.InvalidInput, match="offsets"):
        t.append(ways[way]())
    assert len(t) == 0


def test_parts_of_sound_data_stay_sound(path: Path) -> None:
    t = kubist.create(path, batch(SOUND).schema, ["x"])
    wrong = batch(text(b"a", b"b", b"\xff", b"d"))
    t.append(wrong.slice(3, 1))
    t.append(wrong.slice(0, 2))
    with pytest.raises(kubist.InvalidInput, match=r"row 1 of the batch"):
        t.append(wrong.slice(1, 3))
    assert sorted(t.query().to_arrow()["kind"].to_pylist()) == ["a", "b", "d"]


ADDRESSES = [
    f"cassandra://bob:{SECRET}@127.0.0.1:1/k/t?patience=1",
    f"cassandra://bob:{SECRET}@127.0.0.1:1/k",
    f"cassandra:/bob:{SECRET}@h/k/t",
    f"http://bob:{SECRET}@127.0.0.1:1/",
    f"http://bob:{SECRET}/x@127.0.0.1:1/",
    f"http://bob:{SECRET}@[::1/",
    f"http://127.0.0.1:1/?token={SECRET}",
    f"https://bob:{SECRET}@127.0.0.1:1",
    f"ssh://bob:{SECRET}@127.0.0.1/data/t",
    f"ftp://bob:{SECRET}@h/t",
    f"file:///nowhere/{'x' * 3}",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("door", ["connect", "open", "drop", "create", "salvage", "copy_to"])
def test_no_password_in_messages(tmp_path: Path, address: str, door: str) -> None:
    sound = kubist.create(tmp_path / "sound", batch(SOUND), ["x"])
    doors: dict[str, Any] = {
        "connect": lambda: kubist.connect(address, timeout=5),
        "open": lambda: kubist.open(address),
        "drop": lambda: kubist.drop(address),
        "create": lambda: kubist.create(address, batch(text(b"\xff")), ["x"]),
        "salvage": lambda: kubist.salvage(address, tmp_path / "saved"),
        "copy_to": lambda: sound.snapshot().copy_to(address),
    }
    if door in ("create", "copy_to") and address.startswith(("cassandra:/bob", "file:")):
        pytest.skip("a directory of this name would be made")
    with pytest.raises(kubist.Error) as raised:
        doors[door]()
    error: BaseException | None = raised.value
    assert SECRET not in "".join(traceback.format_exception(raised.value)).replace(address, "")
    while error is not None:
        said = [str(error), repr(error), *getattr(error, "__notes__", [])]
        assert not any(SECRET in words for words in said)
        error = error.__context__


def test_bytes_for_a_path_are_not_shown() -> None:
    for door in (kubist.open, kubist.drop):
        with pytest.raises(kubist.InvalidInput) as raised:
            door(f"cassandra://bob:{SECRET}@h/k/t".encode())
        assert SECRET not in str(raised.value)


def tame(shown: str) -> None:
    assert "\\u{1b}" in shown or "\\x1b" in shown
    assert not any(c in shown for c in "\x1b\x07\x9b\u202e")


def test_names_do_nothing_to_the_terminal(path: Path) -> None:
    with pytest.warns(UserWarning, match="is not known") as warned:
        t = kubist.create(
            path,
            pa.record_batch({"x": [1.0, 2.0], EVIL: [f"one{EVIL}", "two"]}),
            ["x"],
            units={EVIL: f"m{EVIL}"},
            metadata={f"key{EVIL}": f"value{EVIL}\nline"},
        )
    tame(str(warned[0].message))
    info = t.info()
    tame(repr(info))
    assert len(repr(info).splitlines()) == len(info._lines())
    tame(str(info.columns[1]))
    tame(repr(info.columns[1]))
    tame(repr(t.estimate("sum(x)", group_by=[EVIL])))
    wrong: list[Any] = [
        lambda: t.query(columns=["nothing"]),
        lambda: t.query(where=f'"{EVIL}" = 1'),
        lambda: t.query(box={EVIL + "?": (0, 1)}),
        lambda: t.append({EVIL + "?": [1]}),
        lambda: kubist.open(path.with_name(EVIL)),
    ]
    for call in wrong:
        with pytest.raises(kubist.Error) as raised:
            call().to_arrow()
        tame(str(raised.value))
        tame(repr(raised.value))
        tame("".join(traceback.format_exception_only(raised.value)))
    # Programs get the original name.
    assert info.columns[1].name == EVIL
    assert t.query().to_arrow().schema.names == ["x", EVIL]
