"""Queries of indexed Parquet files give the results of pyarrow."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrays import seeds
from servers import COMMAND

import kubist

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float",
    "double",
)


def made(rng: np.random.Generator, path: Path) -> pa.Table:
    rows = int(rng.choice([1, 7, 500, 5000, 20_000]))
    columns: dict[str, Any] = {}
    for name in "abc":
        kind = pa.type_for_alias(str(rng.choice(TYPES)))
        walk = np.cumsum(rng.normal(0, 1, rows)) if rng.random() < 0.5 else rng.normal(0, 30, rows)
        if rng.random() < 0.3:
            walk = np.round(walk / 10) * 10
        values = walk if pa.types.is_floating(kind) else np.clip(np.abs(walk), 0, 120).astype(int)
        array = pa.array(values).cast(kind, safe=False)
        if pa.types.is_floating(kind) and rng.random() < 0.5:
            holes = np.asarray(array).copy()
            holes[rng.random(rows) < 0.1] = np.nan
            array = pa.array(holes, kind)
        if rng.random() < 0.5:
            array = pa.array(array.to_pylist(), kind, mask=rng.random(rows) < 0.2)
        columns[name] = array
    columns["word"] = pa.array([f"w{n % 7}" for n in range(rows)])
    table = pa.table(columns)
    pq.write_table(
        table,
        path,
        row_group_size=int(rng.choice([100, 3000, 1 << 20])),
        data_page_size=int(rng.choice([256, 4096, 1 << 20])),
        write_batch_size=int(rng.choice([64, 1024])),
        use_dictionary=bool(rng.random() < 0.5),
        compression=str(rng.choice(["none", "snappy", "gzip", "zstd", "lz4"])),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
        write_page_index=bool(rng.random() < 0.5),
        version=str(rng.choice(["1.0", "2.6"])),
        write_statistics=bool(rng.random() < 0.5),
    )
    return pq.read_table(path)


def test_random_files_answer_as_pyarrow_reads_them(tmp_path: Path) -> None:
    for seed in seeds(3):
        rng = np.random.default_rng([seed, 86])
        path = tmp_path / f"p{seed}.parquet"
        table = made(rng, path)
        indexed = kubist.index(
            path,
            block=str(rng.choice(["64", "1KiB", "64KiB"])),
            sorted=float(rng.choice([0, 0.3, 1])),
        )
        plain = kubist.indexing.FileIndex([path], tmp_path / "none", any=True)
        values = {name: table[name].to_numpy(zero_copy_only=False).astype("f8") for name in "abc"}
        nulls = {name: np.asarray(table[name].is_null()) for name in "abc"}
        for _ in range(5):
            one, other = (str(name) for name in rng.choice(list("abc"), 2, replace=False))
            pool = values[one][~nulls[one] & ~np.isnan(values[one])]
            bound = float(rng.choice(pool)) if pool.size else 0.0
            text = f"{one} <= {bound!r}"
            with np.errstate(invalid="ignore"):
                found = ~nulls[one] & (values[one] <= bound)
            if rng.random() < 0.5:
                text += f" AND {other} IS NULL"
                found &= nulls[other]
            expected = np.flatnonzero(found)
            case = f"{seed}: {text}"
            for files in (indexed, plain):
                got = files.query(where=text, columns=["row_index", "a", "b", "c"]).to_arrow()
                assert np.array_equal(np.asarray(got["row_index"]), expected), case
                for name in "abc":
                    assert got[name].type == table[name].type, case
                    assert str(got[name].combine_chunks()) == str(
                        table[name].take(pa.array(expected)).combine_chunks()
                    ), case
                assert files.count(where=text) == expected.size, case


def test_a_rare_value_costs_its_pages(tmp_path: Path) -> None:
    values = np.arange(400_000, dtype="f4")
    for written in (False, True):
        path = tmp_path / f"index_{written}.parquet"
        pq.write_table(
            pa.table({"v": values}),
            path,
            data_page_size=1 << 16,
            use_dictionary=False,
            compression="none",
            write_page_index=written,
        )
        files = kubist.index(path)
        costs = files.explain(where="v BETWEEN 200000 AND 200010", gap=0)
        # It reads blocks of 16 k values, in pages of about that size, not a row group.
        assert costs.rows == 11 and costs.bytes < 300_000 < costs.stored_bytes
        assert kubist.index(path).query(where="v = 7", columns=["row_index"]).to_numpy()["row_index"] == 7


def test_damaged_pages_are_named_and_the_rest_answers(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    values = np.random.default_rng(5).normal(size=200_000).astype("f4")
    pq.write_table(
        pa.table({"v": values}),
        path,
        data_page_size=1 << 16,
        use_dictionary=False,
        compression="gzip",
    )
    sound = path.read_bytes()
    kubist.index(path)
    stamp = path.stat().st_mtime_ns
    for place in (len(sound) // 3, len(sound) // 2 + 7000):
        damaged = bytearray(sound)
        damaged[place : place + 64] = bytes(64)
        path.write_bytes(damaged)
        os.utime(path, ns=(stamp, stamp))
        try:
            files = kubist.index(path)
            answer = files.query(where="v > 3", skip_damaged=True)
        except kubist.Refused:
            # The checked positions have changed.
            continue
        assert answer.costs.damaged, place
        assert "d.parquet" in answer.costs.damaged[0] and "'v'" in answer.costs.damaged[0].replace(
            '"', "'"
        )
        assert 0 < answer.to_arrow().num_rows < int((values > 3).sum())
        with pytest.raises(kubist.Damaged):
            files.query(where="v > 3").to_arrow()


def test_hostile_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    rng = np.random.default_rng(11)
    pq.write_table(
        pa.table({"v": rng.normal(size=3000), "w": [None, 1, 2] * 1000}),
        path,
        row_group_size=1000,
        data_page_size=1000,
        write_page_index=True,
    )
    sound = path.read_bytes()
    for place in rng.integers(0, len(sound), 400):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        try:
            files = kubist.indexing.FileIndex([path], tmp_path / "none", any=True)
            files.count(where="v > 0.5 AND w = 1")
        except kubist.Error:
            pass
    path.write_bytes(sound[:100])
    with pytest.raises(kubist.InvalidInput, match="h.parquet"):
        kubist.index(path)


def test_what_is_no_number_is_left_out_and_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(
        pa.table(
            {
                "v": [1.5, 2.5],
                "word": ["a", "b"],
                "list": [[1], [2, 3]],
                "day": pa.array([1, 2], pa.date32()),
            }
        ),
        path,
    )
    about = kubist.index(path).info()
    assert [each["name"] for each in about["variables"]] == ["v"]
    assert {each.split(":")[0] for each in about["left_out"]} == {"word", "list", "day"}


def test_the_command_asks_parquet(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    pq.write_table(pa.table({"v": np.arange(100_000), "w": np.arange(100_000) % 7}), path)
    for _ in range(2):
        done = subprocess.run(
            [
                str(COMMAND),
                "query",
                str(path),
                "--where",
                "v >= 99990 AND w = 3",
                "--count",
                "--json",
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        assert json.loads(done.stdout) == {"count": sum(n % 7 == 3 for n in range(99_990, 100_000))}
        subprocess.run(
            [str(COMMAND), "index", str(path)], check=True, capture_output=True, timeout=120
        )
