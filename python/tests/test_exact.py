"""Exact values in their own types, and fractions by bins."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

pa = pytest.importorskip("pyarrow")

FAR = 2**60 + 999


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    count = 101
    day = datetime.date(2020, 1, 1)
    moment = datetime.datetime(2020, 1, 1, 0, 0, 0, 1)
    moments = [moment + datetime.timedelta(hours=row) for row in range(count)]
    prices = [Decimal(row) + Decimal("0.01") for row in range(count)]
    data = pa.table(
        {
            "x": np.linspace(0, 1, count),
            "id": pa.array([FAR - 100 + row for row in range(count)], pa.int64()),
            "big": pa.array([2**64 - 1 - row for row in range(count)], pa.uint64()),
            "price": pa.array(prices, pa.decimal128(30, 2)),
            "day": pa.array([day + datetime.timedelta(row) for row in range(count)]),
            "us": pa.array(moments, pa.timestamp("us")),
            "utc": pa.array(moments, pa.timestamp("us", "UTC")),
            "ns": pa.array([10**18 + row for row in range(count)], pa.timestamp("ns")),
            "on": [row % 3 == 0 for row in range(count)],
        }
    )
    path = tmp_path_factory.mktemp("exact") / "t.kubist"
    return kubist.create(path, data, {"x": (0, 1)})


def test_exact_means_exact(exact: kubist.Table) -> None:
    def value(aggregate: str) -> Any:
        e = exact.estimate(aggregate, sample=1)
        assert e.exact and e.low == e.value == e.high
        return e.value

    ids = [FAR - 100 + row for row in range(101)]
    moment = datetime.datetime(2020, 1, 1, 0, 0, 0, 1)
    for aggregate, expected in {
        "max(id)": FAR,
        "min(id)": ids[0],
        "median(id)": ids[50],
        "p95(id)": ids[95],
        "sum(id)": sum(ids),
        "sum(id * 1000)": 1000 * sum(ids),
        "max(big)": 2**64 - 1,
        "sum(big)": sum(2**64 - 1 - row for row in range(101)),
        "count()": 101,
        "sum(on)": 34,
        "max(price)": Decimal("100.01"),
        "sum(price)": Decimal("5051.01"),
        "median(price)": Decimal("50.01"),
        "min(day)": datetime.date(2020, 1, 1),
        "median(day)": datetime.date(2020, 2, 20),
        "max(us)": moment + datetime.timedelta(hours=100),
        "min(utc)": moment.replace(tzinfo=datetime.UTC),
        "max(ns)": np.datetime64(10**18 + 100, "ns"),
        "max(date_trunc('day', us))": datetime.datetime(2020, 1, 5),
    }.items():
        found = value(aggregate)
        assert found == expected and type(found) is type(expected), aggregate
    assert isinstance(value("mean(id)"), float)
    assert "1,152,921,504,606,847,975 exactly" in repr(exact.estimate("max(id)"))
    together = exact.estimate(["min(id)", "max(id)", "sum(id)"], sample=1).to_arrow()
    assert [int(each) for each in together["value"].to_pylist()] == [ids[0], FAR, sum(ids)]
    grouped = exact.estimate("max(us)", group_by="on", sample=1).to_arrow()
    assert grouped.schema.field("value").type == pa.timestamp("us")
    mixed = repr(exact.estimate(["mean(x)", "max(id)", "max(price)", "max(day)"], sample=1))
    for text in ("0.5 exactly", "847,975 exactly", "100.01 exactly", "2020-04-10 exactly"):
        assert text in mixed


def test_times_keep_their_unit(tmp_path: Path) -> None:
    """Python's types if they hold every digit of the column's unit, else NumPy's."""
    count, noon = 101, 12 * 3600 * 10**9
    rows = np.arange(count)
    ns = 10**18 + rows
    utc = np.datetime64(int(ns[-1]), "ns")
    data = pa.table(
        {
            "x": np.linspace(0, 1, count),
            "ns": pa.array(ns, pa.timestamp("ns")),
            "berlin": pa.array(ns, pa.timestamp("ns", "Europe/Berlin")),
            "far": pa.array(10**12 + rows, pa.timestamp("s")),
            "late": pa.array(10**7 + rows.astype("int32"), pa.date32()),
            "fine": pa.array(noon + rows, pa.time64("ns")),
            "coarse": pa.array(noon // 1000 + rows, pa.time64("us")),
            "long": pa.array(2**60 + rows, pa.duration("ns")),
        }
    )
    t = kubist.create(tmp_path / "t.kubist", data, {"x": (0, 1)})
    for aggregate, expected in {
        "max(ns)": utc,
        "max(berlin)": utc,
        "median(berlin)": np.datetime64(int(ns[50]), "ns"),
        "max(far)": np.datetime64(10**12 + 100, "s"),
        "max(late)": np.datetime64(10**7 + 100, "D"),
        "max(fine)": np.timedelta64(noon + 100, "ns"),
        "max(coarse)": datetime.time(12, 0, 0, 100),
        "max(long)": 2**60 + 100,
    }.items():
        e = t.estimate(aggregate, sample=1)
        assert e.low == e.value == e.high == expected, aggregate
        assert type(e.value) is type(expected), aggregate
        if isinstance(expected, (np.datetime64, np.timedelta64)):
            assert e.value.dtype == expected.dtype, aggregate
    assert t.count(box={"ns": (np.datetime64(int(ns[50]), "ns"), None)}) == 51
    pandas = pytest.importorskip("pandas")
    for column, end in {
        "ns": pandas.Timestamp(int(ns[50])),
        "berlin": pandas.Timestamp(int(ns[50]), tz="UTC"),
        "long": pandas.Timedelta(2**60 + 50),
    }.items():
        assert t.count(box={column: (end, None)}) == 51, column
    found = t.query(order_by="x").to_numpy()
    assert (
        found["ns"].dtype == "datetime64[ns]"
        and found["ns"].astype("int64").tolist() == ns.tolist()
    )
    assert found["fine"].dtype == "timedelta64[ns]"


def test_rounded_formulas_have_bounds_before_all_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    data = {"x": rng.random(40_000), "v": rng.normal(7.3, 2, 40_000), "id": np.arange(40_000)}
    t = kubist.create(tmp_path / "t.kubist", data, {"x": (0, 1)}, identity=["id"])
    e, inner = (t.estimate(text, sample=0.02) for text in ("round(mean(v))", "mean(v)"))
    assert not e.exact and (e.low, e.high) == (round(inner.low), round(inner.high)) == (7, 7)
    e = t.estimate("floor(mean(v) * 10) / 10", sample=0.02)
    assert e.low <= 7.3 - 0.1 and np.isfinite([e.low, e.high]).all()
    within = t.estimate("mean(v) + floor(mean(x))", sample=0.02)
    assert np.isinf([within.low, within.high]).all()
    assert "no interval until all records are read" in repr(within)
    assert t.estimate("mean(v) + floor(mean(x))", sample=1).exact


def test_a_fraction_by_bins_with_an_interval_in_one_call(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    diameter = 1e-6 + 3e-5 * rng.random(50_000)
    deposited = rng.random(50_000) < diameter / 4e-5
    x, id = rng.random(50_000), np.arange(50_000)
    data = {"x": x, "id": id, "diameter": diameter, "deposited": deposited}
    t = kubist.create(tmp_path / "t.kubist", data, {"x": (0, 1)}, identity=["id"])
    fraction = "sum(deposited*power(diameter,3))/sum(power(diameter,3))"
    volume = diameter**3
    truth = (deposited * volume).sum() / volume.sum()
    e = t.estimate(fraction, error=0.02)
    assert not e.exact and e.low <= truth <= e.high and (e.high - e.low) / 2 <= 0.02 * e.value
    binned = t.estimate(fraction, group_by="bin(diameter, 1e-5)", sample=1).to_pandas()
    edges = binned["bin(diameter, 1e-5)"].to_list()
    assert edges == [0.0, 1e-5, 2e-5, 3e-5]
    for edge, value in zip(edges, binned["value"], strict=True):
        inside = (diameter >= edge) & (diameter < edge + 1e-5)
        assert value == pytest.approx((deposited * volume)[inside].sum() / volume[inside].sum())
    with pytest.raises(kubist.InvalidInput, match="more than 10,000 groups; group by"):
        t.estimate("count()", group_by="floor(x * 1e6)", sample=1)
    with pytest.raises(kubist.InvalidInput, match="does not fit an integer of 128 bits"):
        t.count(where="id * 9223372036854775807 * 9223372036854775807 * id > 0")
    with pytest.raises(kubist.InvalidInput, match="in one branch and the text 'a' in another"):
        t.count(where="CASE WHEN deposited THEN 1 ELSE 'a' END = 1")
    assert t.count(where="1 / (id - id) IS NULL") == 50_000
    inside = (diameter >= 2e-6) & (diameter < 4e-6)
    assert t.count(where="diameter >= 2e-6 AND diameter < 4e-6") == inside.sum()
