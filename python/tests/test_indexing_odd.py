"""Unusual and malicious array files and indexes, large empty arrays, and split queries."""

from __future__ import annotations

import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from arrays import Variable, netcdf3

import kubist

pytest.importorskip("pyarrow")


def left_out(files: kubist.FileIndex) -> str:
    return " | ".join(files.info()["left_out"])


def test_an_odd_attribute_costs_its_variable_alone(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path, other = tmp_path / "odd.h5", tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        for name in ("nan", "sound", "unit"):
            file[name] = np.arange(10, dtype="i2")
        file["nan"].attrs["scale_factor"] = np.nan
        # Invalid UTF-8 in text and in a name: h5py returns lone surrogates.
        file["unit"].attrs.create("units", b"m\xff", dtype=h5py.string_dtype("utf-8"))
        file[b"n\xfe"] = np.arange(10, dtype="i2")
    with h5py.File(other, "w") as file:
        file["sound"] = np.arange(20, dtype="i2")
    files = kubist.index(path)
    assert files.count(where="sound >= 5") == 5 and files.count(where="unit >= 5") == 5
    assert "scale_factor is nan" in left_out(files) and "no UTF-8" in left_out(files)
    assert kubist.index(other).count(where="sound >= 5") == 15
    with pytest.raises(kubist.InvalidInput):
        kubist.index(path, variables=["nan"], refresh=True)


def test_a_scale_that_is_no_number_costs_its_variable_alone_in_netcdf(tmp_path: Path) -> None:
    stored = np.arange(10, dtype="i2")
    made = {
        "a": Variable(stored, ("x",), {"scale_factor": float("inf")}),
        "b": Variable(stored, ("x",)),
    }
    netcdf3(tmp_path / "odd.nc", made, None, 1)
    files = kubist.index(tmp_path / "odd.nc")
    assert files.count(where="b >= 5") == 5 and "a: its scale or offset is inf" in left_out(files)


def test_a_name_of_any_bytes_is_a_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = os.fsencode(tmp_path) + b"/b\xff.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(10)
    assert kubist.index(os.fsdecode(path)).count(where="a >= 5") == 5


def test_what_was_never_written_is_the_fill_value_at_no_cost(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "empty.h5"
    side = 1 << 20
    with h5py.File(path, "w") as file:
        # 4 TB each, in a file of a few KiB.
        whole = file.create_dataset("whole", (side, side), "f4", fillvalue=7, track_times=False)
        grid = file.create_dataset("grid", (side, side), "f4", chunks=(64, 64), fillvalue=-1)
        grid[640:704, 128:192] = np.arange(64 * 64, dtype="f4").reshape(64, 64)
        file["short"] = np.arange(5)
        assert whole.id.get_offset() is None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (2 << 30), hard))
    try:
        for files in (kubist.indexing.FileIndex([path], None, any=True), kubist.index(path)):
            assert files.count(where="whole = 7") == side * side and files.count(where="whole <> 7") == 0
            assert files.count(where="grid = -1") == side * side - 64 * 64
            assert files.count(where="grid >= 4000") == 96
            assert files.count(where="grid < 0", isel={"dim0": slice(640, 650), "dim1": slice(0, 200)}) == 1360
            assert files.count(where="grid < 0 AND whole > 6 AND dim0_index < 1024") == 1024 * side - 64 * 64
            found = files.query(where="grid >= 4094").to_arrow()
            assert found["dim0_index"].to_pylist() == [703, 703]
            assert found["dim1_index"].to_pylist() == [190, 191]
            some = files.query(where="grid < 0", isel={"dim0": 640, "dim1": slice(120, 200)}).to_arrow()
            assert some["dim1_index"].to_pylist() == [*range(120, 128), *range(192, 200)]
            with pytest.raises(kubist.InvalidInput, match="never written"):
                files.query(where="grid < 0", limit=10)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert (tmp_path / "empty.h5.kubix").stat().st_size < 10_000


def test_blocks_that_spare_nothing_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(10 << 20, "f4"))
    with pytest.raises(kubist.InvalidInput, match="too large"):
        kubist.index(tmp_path / "a.npy", block="64MiB")


def test_ends_of_sel_are_exact_and_finite(tmp_path: Path) -> None:
    start = 2**53
    np.save(tmp_path / "a.npy", np.arange(start, start + 10))
    files = kubist.index(tmp_path / "a.npy")
    for end in (start + 1, np.int64(start + 1), np.array(start + 1)):
        assert files.count(box={"a": end}) == 1
        assert files.query(box={"a": (end, None)}).to_numpy()["a"][0] == start + 1
    assert files.count(box={"a": (start + 1, start + 3)}) == 3
    assert files.count(box={"a": slice(None, start + 3)}) == 4
    assert files.count(box={"a": (np.float32(1.5), None)}) == 10
    for end in (float("inf"), float("nan"), np.inf, "1", b"1", True, [1, 2, 3], object()):
        with pytest.raises(kubist.InvalidInput, match="box: a="):
            files.query(box={"a": (0, end)})


def test_several_arrays_without_names_are_asked_as_one(tmp_path: Path) -> None:
    for place in range(3):
        np.save(tmp_path / f"part{place}.npy", np.arange(100) + 100 * place)
    files = kubist.index(str(tmp_path / "part*.npy"))
    found = files.query(where="value >= 195 AND dim0_index < 98", box={"value": (0, 202)}).to_arrow()
    assert found["value"].to_pylist() == [195, 196, 197, 200, 201, 202]
    assert {Path(name).name for name in found["file"].to_pylist()} == {"part1.npy", "part2.npy"}
    # One variable has the name of its file.
    assert kubist.index(tmp_path / "part1.npy").count(where="part1 < 110") == 10


def test_a_few_changed_blocks_of_a_file_that_grew_are_found(tmp_path: Path) -> None:
    values = np.arange(1 << 16, dtype="f8").reshape(-1, 8)
    path = tmp_path / "g.nc"

    def write(rows: int) -> None:
        netcdf3(path, {"a": Variable(values[:rows], ("time", "x"))}, "time", 5)

    write(8000)
    kubist.index(path, block="64")
    values[np.arange(50, 8000, 100)] = -1
    write(8100)
    assert kubist.index(path, block="64", refresh=True).count(where="a = -1") == 80 * 8
    values[8099] = -2
    write(8150)
    assert kubist.index(path, block="64", refresh=True).count(where="a = -2") == 8


LIBRARY = "kubist.indexing.library"


def test_the_library_answers_each_line_with_sound_json(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)
        file["a"].attrs["add_offset"] = -np.inf
    questions = [{"do": "layout", "path": list(os.fsencode(path))}, {"do": "layout", "path": [0, 300]}]
    done = subprocess.run(
        [sys.executable, "-m", LIBRARY],
        input="".join(json.dumps(each) + "\n" for each in questions).encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )

    def refuse(word: str) -> None:
        raise AssertionError(word)

    answers = [json.loads(line, parse_constant=refuse) for line in done.stdout.splitlines()]
    assert len(answers) == 2 and "its library says" in answers[1]["error"]
    assert answers[0]["layout"]["variables"] == []


def test_parts_together_are_the_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for name in ("a.nc", "b.nc"):
        values = rng.normal(0, 1, (40, 500)).astype("f4")
        netcdf3(tmp_path / name, {"v": Variable(values, ("time", "x"))}, "time", 5)
    files = kubist.index([tmp_path / "a.nc", tmp_path / "b.nc"], block="1KiB")
    whole = files.query(where="v > 2", isel={"time": slice(3, None)}).to_arrow()
    for n in (1, 3, 1000):
        parts = files.splits(n, where="v > 2", isel={"time": slice(3, None)})
        found = [pickle.loads(pickle.dumps(part)).query().to_arrow() for part in parts[:7]]
        found += [part.query().to_arrow() for part in parts[7:]] if n < 1000 else []
        if n < 1000:
            rows = [row for table in found for row in table.to_pylist()]
            assert rows == whole.to_pylist()
            assert n == 1 or max(len(table) for table in found) < 0.6 * len(whole)
    with pytest.raises(kubist.InvalidInput):
        files.splits(0)
    stale = files.splits(2, where="v > 2")[0]
    kubist.index([tmp_path / "a.nc", tmp_path / "b.nc"], block="4KiB")
    with pytest.raises(kubist.Refused, match="split them again"):
        stale.query()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _table(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC = [_table(byte) for byte in range(256)]


def forged(sound: bytes, change: Callable[[int, bytearray], bytes]) -> bytes:
    """The same index with changed sections and valid checksums."""
    head = bytearray(sound[:120])
    out = bytearray(sound)
    for place in range(3):
        at = 40 + 20 * place
        offset, length, _ = struct.unpack_from("<QQI", head, at)
        section = bytes(change(place, bytearray(sound[offset : offset + length])))
        struct.pack_into("<QQI", head, at, len(out), len(section), crc32c(section))
        out += section
    struct.pack_into("<I", head, 116, crc32c(bytes(head[:116])))
    out[:120] = head
    return bytes(out)


def test_a_hostile_index_with_right_checksums_takes_no_memory(tmp_path: Path) -> None:
    """Results may be wrong, but nothing crashes, and memory is bounded."""
    rng = np.random.default_rng(8)
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "h.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (8, 16), "compression": "gzip"}
        file.create_dataset("a", data=rng.normal(0, 1, (30, 40)).astype("f4"), **options)
        file["b"] = rng.integers(0, 99, (30, 40))
    kubist.index(path, block="256", sorted=0.5)
    sidecar = tmp_path / "h.h5.kubix"
    sound = sidecar.read_bytes()
    numbers = (0, 1, 2**31, 2**40, 2**53, 2**63, 2**64 - 1)

    def another(place: int, section: bytearray) -> bytes:
        if place == 0:
            text = section.decode()
            found = list(re.finditer(r"(?<=[:,\[])-?\d[\d.e+-]*(?=[,\]}])", text))
            hit = found[rng.integers(0, len(found))]
            return (text[: hit.start()] + str(numbers[rng.integers(0, 7)]) + text[hit.end() :]).encode()
        for _ in range(int(rng.integers(0, 3))):
            at = int(rng.integers(0, max(len(section) - 8, 1)))
            section[at : at + 8] = numbers[rng.integers(0, 7)].to_bytes(8, "little")
        return bytes(section)

    assert kubist.index(path).count(where="a > 0") > 0
    sidecar.write_bytes(forged(sound, lambda _, section: bytes(section)))
    assert kubist.index(path).count(where="a > 0") > 0
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + (3 << 30), hard))
    refused = 0
    try:
        for _ in range(250):
            sidecar.write_bytes(forged(sound, another))
            try:
                files = kubist.indexing.FileIndex([path], None)
                files.count(where="a > 0 AND b < 50")
                files.query(where="a > 1", isel={"dim0": slice(0, 9)}).to_arrow()
            except kubist.Error:
                refused += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert refused > 50
