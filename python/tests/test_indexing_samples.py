"""Samples through an index: the positions of lowest priority, at the cost of their blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arrays import seeds, world
from test_indexing import ENDINGS, KINDS

import kubist

pytest.importorskip("pyarrow")

WORD = (1 << 64) - 1


def priority(position: tuple[int, ...]) -> int:
    """XXH3-64 of a tag and each index, seeded by the previous hash (FORMAT.md)."""
    seed = 0x0AC77AE1FDFF0164
    for index in position:
        low = ((2 | index << 8) & WORD) ^ (0x6782737BEA4239B9 + seed & WORD)
        high = index ^ (0xAF56BC3B0996523A - seed & WORD)
        product = low * high
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        mixed = (9 + swapped + high + (product & WORD ^ product >> 64)) & WORD
        mixed = (mixed ^ mixed >> 37) * 0x165667919E3779F9 & WORD
        seed = mixed ^ mixed >> 32
    return seed


def places(files: kubist.FileIndex, where: str | None, **asked: float) -> list[tuple[int, ...]]:
    table = files.query(where=where, **asked).to_arrow()
    names = [name for name in table.column_names if name.endswith("_index")]
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_of_lowest_priority(tmp_path: Path, kind: str) -> None:
    for seed in seeds():
        rng = np.random.default_rng([seed, 7])
        made = world(tmp_path / f"w{seed}.{ENDINGS[kind]}", seed, kind)
        name = next(name for name in made.variables if name in ("a", "b", made.path.stem))
        files = kubist.index(
            made.path,
            block=str(rng.choice(["64", "256", "4KiB"])),
            sorted=float(rng.choice([0, 0.3])),
        )
        values = made.variables[name].values
        numbers = values[np.isfinite(values)] if values.dtype.kind == "f" else values.ravel()
        bound = float(rng.choice(numbers)) if numbers.size else 0.0
        where = str(rng.choice([f'"{name}" >= {bound!r}', f'"{name}" IS NOT NULL']))
        everything = places(files, where)
        own = np.array([priority(at) for at in everything], object)
        for share in (0.003, 0.05, 0.4, 0.9, 1.0):
            expected = [everything[row] for row in np.flatnonzero(own < share * 2.0**64)]
            case = f"{kind} {seed}: {where}, {share}"
            assert places(files, where, sample=share) == expected, case
            assert files.explain(where=where, sample=share).rows == len(expected), case
            for limit in (len(expected), len(expected) + 1):
                lowest = sorted(np.argsort(own, kind="stable")[:limit])
                assert places(files, where, limit=limit) == [everything[row] for row in lowest], (
                    f"{case}, {limit}"
                )


def test_a_small_sample_reads_only_blocks_that_have_some_of_it(tmp_path: Path) -> None:
    count = 1 << 22
    values = np.sin(np.arange(count) / 1000).astype("f4")
    np.save(tmp_path / "v.npy", values)
    files = kubist.index(tmp_path / "v.npy")
    few = files.query(limit=20)
    table = few.to_arrow()
    assert table.num_rows == 20
    assert 0 < few.costs.blocks_read < 64
    assert np.array_equal(np.asarray(table["v"]), values[np.asarray(table["dim0_index"])])
    sample = files.query(where="v > 0", sample=1e-5)
    rows = np.asarray(sample.to_arrow()["dim0_index"])
    assert 0 < sample.costs.blocks_read < 48 and (values[rows] > 0).all()
    # Every part of the file has the same chance.
    wide = np.asarray(files.query(sample=0.01).to_arrow()["dim0_index"])
    assert abs(len(wide) - 0.01 * count) < 5 * (0.01 * count) ** 0.5
    parts = np.histogram(wide, 16, (0, count))[0]
    assert np.abs(parts - len(wide) / 16).max() < 5 * (len(wide) / 16) ** 0.5
    # If the first read has too few matches, the next reads more.
    bound = float(np.sort(values)[-2000])
    rare = files.query(where=f"v >= {bound!r}", limit=500).to_arrow()["dim0_index"].to_pylist()
    found = np.flatnonzero(values >= np.float32(bound))
    lowest = sorted(sorted(found.tolist(), key=lambda row: priority((row,)))[:500])
    assert rare == lowest
