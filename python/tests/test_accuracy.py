"""Columns with error bounds in Python: creation, storage, display, errors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kubist

BOUNDS = {"x": 1e-3, "u": "1e-3 rel", "d": np.float32(0.5), "n": 10}


def rows(first: int = 0, count: int = 5000) -> pa.Table:
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "pid": np.arange(first, first + count),
            "x": rng.uniform(-1, 1, count),
            "u": rng.normal(0, 10, count).astype(np.float32),
            "d": rng.uniform(0, 1e4, count),
            "n": rng.integers(0, 10**6, count),
        }
    )


def make(path, **options):
    options = {"identity": ["pid"], "units": {"x": "m", "d": "um"}, **options}
    return kubist.create(path, rows(), {"x": (-1, 1)}, **options)


def within(table, given: pa.Table) -> dict[str, np.ndarray]:
    stored = {k: np.asarray(v) for k, v in table.query(order_by="pid").to_numpy().items()}
    for name in given.column_names:
        value, kept = given[name].to_numpy().astype(float), stored[name].astype(float)
        allowed = {"x": 1e-3, "u": 1e-3 * abs(value), "d": 0.5, "n": 10}.get(name, 0)
        assert (abs(kept - value) <= allowed).all(), name
    return stored


def test_stored_values_are_within_their_bounds_wherever_they_go(tmp_path):
    exact, table = make(tmp_path / "exact"), make(tmp_path / "t", accuracy=BOUNDS)
    stored = within(table, rows())
    assert all((stored[name] != rows()[name].to_numpy()).any() for name in BOUNDS)
    assert table.info().bytes < 0.6 * exact.info().bytes
    with table.writer() as writer:
        writer.append(rows(5000))
        writer.commit()
    both = pa.concat_tables([rows(), rows(5000)])
    stored = within(table, both)
    table.optimize()
    table.copy_to(tmp_path / "copy", capacity=128)
    for other in (table, kubist.open(tmp_path / "copy")):
        for name, values in within(other, both).items():
            assert (values == stored[name]).all(), name
        assert other.verify(deep=True).findings == []
        column = {column.name: column.accuracy for column in other.info().columns}
        assert column == {"pid": None, "x": "0.001", "u": "0.001 rel", "d": "0.5", "n": "10"}
        assert "u: Float32, accuracy 0.001 rel" in str(other.info())
    value = float(stored["x"][17])
    assert table.count(where=f"x = {value!r}") == (stored["x"] == value).sum()
    assert table.count({"x": (value, None)}) == (stored["x"] >= value).sum()


def test_an_added_column_may_have_a_bound(tmp_path):
    table = make(tmp_path / "t")
    table.add_column("age", "float64", default=0.3, unit="s", accuracy="100 ms")
    assert set(table.query().to_numpy()["age"]) == {0.25}
    more = rows(5000).append_column("age", pa.array(np.linspace(0, 5, 5000)))
    table.append(more)
    ages = table.query(where="pid >= 5000", order_by="pid").to_numpy()["age"]
    assert (abs(ages - np.linspace(0, 5, 5000)) <= 0.1).all()
    assert table.info().columns[-1].accuracy == "0.1"


def test_files_for_a_table_that_is_there_must_ask_for_its_bounds(tmp_path):
    for name, given in [("a.npz", rows()), ("b.npz", rows(5000))]:
        np.savez(tmp_path / name, **{k: given[k].to_numpy() for k in given.column_names})

    def ingest(name: str, **options):
        options = {"dimensions": ["x"], "identity": ["pid"], **options}
        return kubist.ingest(tmp_path / "t", tmp_path / name, **options)

    ingest("a.npz", create={"accuracy": BOUNDS})
    for wrong, message in [
        ({"x": 1e-6}, "x has the accuracy 0.001, not 1e-6"),
        ({"pid": 1}, "pid has the accuracy of every bit, not 1"),
        ({"y": 1}, "y"),
        ({"x": -1}, "above 0, found -1"),
        ({"x": True}, "expected a number or text"),
    ]:
        with pytest.raises(kubist.Error, match=message):
            ingest("b.npz", create={"accuracy": wrong})
    ingest("b.npz", create={"accuracy": {"x": "0.001", "u": "1e-3 rel"}})
    within(kubist.open(tmp_path / "t"), pa.concat_tables([rows(), rows(5000)]))


@pytest.mark.parametrize(
    ("accuracy", "message"),
    [
        ({"x": 0}, '"x": .* above 0, found 0'),
        ({"x": -1e-3}, '"x".*-0.001'),
        ({"x": float("nan")}, '"x".*NaN'),
        ({"x": "1 rel"}, '"x".*below 1, found 1'),
        ({"x": "wide"}, '"x".*"wide"'),
        ({"u": "1 mm"}, '"u".*unit'),
        ({"x": True}, "x: expected a number or text, not True"),
        ({"x": [1]}, "x: expected a number or text"),
        ({"pid": 5}, '"pid".*of the identity'),
        ({"name": 5}, '"name".*Utf8'),
        ({"y": 5}, 'no column `y`'),
        (["x"], "accuracy must be a dict"),
    ],
)
def test_a_bad_bound_is_refused_by_column_and_value(tmp_path, accuracy, message):
    schema = rows().schema.append(pa.field("name", pa.string()))
    with pytest.raises(kubist.Error, match=message):
        kubist.create(tmp_path / "t", schema, ["x"], ["pid"], accuracy=accuracy)
    assert not (tmp_path / "t").exists()
    table = make(tmp_path / "other", lookup=["n"])
    with pytest.raises(kubist.InvalidInput, match="accuracy"):
        table.add_column("age", "float64", accuracy=-1)
    with pytest.raises(kubist.InvalidInput, match="for lookups"):
        make(tmp_path / "t", lookup=["n"], accuracy={"n": 5})
