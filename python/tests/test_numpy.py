"""Results as NumPy arrays, of every type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import worlds

import kubist


@pytest.mark.parametrize("name", worlds.KINDS)
def test_columns_are_what_numpy_makes_of_them(path: Path, name: str) -> None:
    rng = np.random.default_rng(1)
    kind = worlds.KINDS[name]
    keys = list(kind.draw(rng, 3000))
    gaps = [None if row % 5 == 0 else key for row, key in enumerate(keys)]
    rows = pa.table(
        {"id": range(3000), "c": kind.array(keys, kind.type), "gaps": kind.array(gaps, kind.type)}
    )
    t = kubist.create(path, rows, ["id"], identity=["id"], capacity=64)
    answer = t.query(columns=["id", "gaps", "c"]).to_numpy()
    assert list(answer) == ["id", "gaps", "c"]
    order = np.argsort(answer["id"])
    c, gaps_found = answer["c"][order], answer["gaps"][order]
    plain = {"string_view": pa.string(), "binary_view": pa.binary()}.get(name, kind.type)
    stored = t.query(columns=["id", "c"]).to_arrow()
    expected = stored.set_column(1, "c", stored["c"].cast(plain)).sort_by("id")["c"]
    assert len(c) == 3000
    if c.dtype == object:
        assert all(isinstance(value, str) for value in c)
        assert [value is None for value in gaps_found] == [key is None for key in gaps]
        if "binary" not in name:
            assert c.tolist() == expected.to_pylist()
    elif name.startswith("decimal"):
        assert np.allclose(c, [float(value) for value in expected.to_pylist()])
    elif name.startswith("time") and "stamp" not in name:
        assert c.dtype.kind == "m" and c.astype("int64").tolist() == keys
    else:
        assert np.array_equal(c, expected.to_numpy(), equal_nan=c.dtype.kind in "fmM")
    if c.dtype != object:
        absent = np.array([key is None for key in gaps])
        assert gaps_found.dtype == c.dtype
        # A mask, because NaN would be ambiguous.
        has_nan = c.dtype.kind == "f" and np.isnan(c).any()
        is_masked = c.dtype.kind not in "mMf" or has_nan
        assert isinstance(gaps_found, np.ma.MaskedArray) == is_masked
        mask = gaps_found.mask if is_masked else np.isnan(gaps_found)
        assert mask.tolist() == absent.tolist()
        found, given = np.ma.getdata(gaps_found)[~absent], c[~absent]
        assert np.array_equal(found, given, equal_nan=c.dtype.kind in "fmM")
    nothing = t.query(where="id < 0").to_numpy()
    assert {name: array.dtype for name, array in nothing.items()}["c"] == c.dtype
    again = t.query()
    again.to_arrow()
    assert list(again.to_numpy()) == t.schema.names
