"""Plots, bins and sums of extreme values of all numeric and time types finish with right results.

The oracle computes with fractions, without limits of range and precision.
"""

from __future__ import annotations

import math
import signal
import subprocess
import time
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from servers import COMMAND

import kubist

LARGEST = float(np.finfo("f8").max)
MOST = Decimal(10**38 - 1)
DAY = 86_400_000
BITS = (8, 16, 32, 64)
UNITS = ("s", "ms", "us", "ns")
LEAST = 5e-324
FLOATS: dict[str, list[Any]] = {
    "the whole range": [-LARGEST, 0.0, LARGEST, 1.0],
    "one end": [-1.0, 0.0, LARGEST],
    "large": [1e300, 1.5e300, -2e299, LARGEST],
    "subnormal": [LEAST, 3 * LEAST, -2 * LEAST, 0.0],
    "tiny": [1e-200, 3e-200, 2e-201],
    "neighbours": [1.0, 1.0 + 2**-52, 1.0],
    "large neighbours": [2.0**53, 2.0**53 + 2, 2.0**53],
    "one value": [LARGEST] * 3,
    "one least value": [LEAST] * 3,
    "infinite": [0.0, math.inf, 1.0, -math.inf],
    "none": [math.nan] * 3,
    "gaps": [1.0, None, math.nan, 2.0],
}
TYPES: dict[str, tuple[pa.DataType, list[list[Any]]]] = {
    name: (kind, [[low, high, 0, None], [high, high - 1, high], [low] * 3, [high] * 3])
    for name, kind, low, high in [
        *((f"int{n}", getattr(pa, f"int{n}")(), -(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in BITS),
        *((f"uint{n}", getattr(pa, f"uint{n}")(), 0, 2**n - 1) for n in BITS),
        ("date32", pa.date32(), -(2**31), 2**31 - 1),
        ("date64", pa.date64(), -(2**53) // DAY * DAY, 2**53 // DAY * DAY),
        *((f"timestamp_{u}", pa.timestamp(u), -(2**63) + 1, 2**63 - 1) for u in UNITS),
        ("time32", pa.time32("s"), 0, 86_399),
        ("time64", pa.time64("ns"), 0, 86_400 * 10**9 - 1),
        *((f"duration_{u}", pa.duration(u), -(2**63) + 1, 2**63 - 1) for u in ("s", "ns")),
    ]
} | {
    "float64": (pa.float64(), list(FLOATS.values())),
    "float32": (
        pa.float32(),
        [[-3.4e38, 3.4e38, 0.0], [1e-45, 0.0, 3e-45], [3.4e38] * 3, [math.inf, 1.0, math.nan]],
    ),
    "decimal128": (pa.decimal128(38, 0), [[MOST, MOST.copy_negate(), Decimal(0)], [MOST] * 2]),
    "bool": (pa.bool_(), [[True, False, None], [True, True]]),
}

# Their extremes exceed the years that Arrow writes as text.
WITHOUT_TEXT = {"date32", "date64", "timestamp_s", "timestamp_ms", "timestamp_us"}


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, whole).view(kind)
    return pa.array(values, kind)


def table_of(path: Path, kind: pa.DataType, values: list[Any]) -> kubist.Table:
    x = np.linspace(0, 1, len(values))
    return kubist.create(path, pa.table({"x": x, "f": array(kind, values)}), ["x"])


def figures(t: kubist.Table, aggregate: str) -> list[dict[str, Any]]:
    return t.estimate(aggregate).to_dicts()


@pytest.mark.parametrize("name", TYPES)
def test_everything_of_every_type_ends(path: Path, name: str) -> None:
    kind, cases = TYPES[name]
    for number, values in enumerate(cases):
        with table_of(path / str(number), kind, values) as t:
            for drawn in (t.plot("x", "f"), t.plot("f", "x"), t.plot("x", "x", "f")):
                assert drawn.png.startswith(b"\x89PNG")
            if kind in (pa.float64(), pa.int64()):
                assert t.plot("x", "x", "f", log=True).png
            ordered = () if name in WITHOUT_TEXT else ("min", "max", "median", "p95")
            if ordered:
                repr(t.describe()), repr(t.head(3))
            for aggregate in [
                "histogram(f)",
                "histogram(f, 7, round)",
                "histogram(f, 7, log)",
                "histogram(f, 7, log, round)",
                "histogram2d(x, f)",
                *(f"{of}(f)" for of in ("mean", "sum", "std", "variance", *ordered)),
                *(f"{of}(f)" for of in ("count", "count_distinct")),
                *(f"{of}(x, f)" for of in "corr cov ratio weighted_mean".split()),
            ]:
                try:
                    estimated = t.estimate(aggregate)
                except kubist.InvalidInput:
                    continue
                repr(estimated)
                if "histogram" in aggregate:
                    check_bins(estimated.to_dicts(), values)


def check_bins(bins: list[dict[str, Any]], values: list[Any]) -> None:
    there = [v for v in values if v is not None and v == v]
    axes = [name for name in ("bin", "bin2") if bins[0].get(f"{name}_low") is not None]
    assert sum(row["value"] for row in bins) == len(there)
    for axis in axes:
        ends = sorted({(row[f"{axis}_low"], row[f"{axis}_high"]) for row in bins})
        infinite = any(isinstance(v, float) and math.isinf(v) for v in there)
        assert infinite or all(math.isfinite(end) for pair in ends for end in pair), ends
        assert all(low <= high for low, high in ends), ends
        assert all(a[1] == b[0] for a, b in zip(ends, ends[1:], strict=False)), ends


def exact(values: list[float]) -> dict[str, float]:
    context = Context(prec=60, Emax=9999, Emin=-9999)
    parts = [Fraction(v) for v in values]

    def rounded(number: Fraction, root: bool = False) -> float:
        decimal = context.divide(Decimal(number.numerator), Decimal(number.denominator))
        return float(context.sqrt(decimal) if root else decimal)

    n = len(parts)
    mean = sum(parts) / n
    variance = sum((part - mean) ** 2 for part in parts) / (n - 1)
    return {
        "mean(f)": rounded(mean),
        "sum(f)": rounded(sum(parts, Fraction(0))),
        "std(f)": rounded(variance, root=True),
        "variance(f)": rounded(variance),
        "sum(f) / count(f)": rounded(mean),
        "median(f)": rounded((sorted(parts)[(n - 1) // 2] + sorted(parts)[n // 2]) / 2),
    }


@pytest.mark.parametrize("name", FLOATS)
def test_figures_of_extreme_floats_are_right(path: Path, name: str) -> None:
    values = [v for v in FLOATS[name] if v is not None and math.isfinite(v)]
    if len(values) < 2 or len(values) < len(FLOATS[name]):
        return
    with table_of(path, pa.float64(), values) as t:
        for aggregate, expected in exact(values).items():
            (row,) = figures(t, aggregate)
            if aggregate.startswith("sum(f) /") and math.isinf(figures(t, "sum(f)")[0]["value"]):
                continue
            found = row["value"]
            scale = max(map(abs, values)) if aggregate != "variance(f)" else abs(expected)
            near = math.isclose(found, expected, rel_tol=1e-9, abs_tol=max(scale * 1e-15, LEAST))
            assert near, f"{aggregate} of {values}: {found} is not {expected}"
            assert row["low"] == row["high"] == found


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "duration_ns", "decimal128"])
def test_sums_do_not_wrap_around(path: Path, kind: str) -> None:
    data_type, _ = TYPES[kind]
    bits = {"int64": 63, "uint64": 64, "int32": 31, "duration_ns": 63}
    most = 2 ** bits[kind] - 1 if kind in bits else 10**38 - 1
    values = [Decimal(most)] * 2 if kind == "decimal128" else [most] * 2
    with table_of(path, data_type, values) as t:
        if kind != "duration_ns":
            (row,) = figures(t, "sum(f)")
            assert int(row["value"]) == 2 * most
        assert math.isclose(float(figures(t, "mean(f)")[0]["value"]), most, rel_tol=1e-15)
        if kind in ("duration_ns", "decimal128"):
            with pytest.raises(kubist.InvalidInput, match=r"sum|overflow"):
                t.sql("SELECT sum(f) AS s FROM self")
            return
        assert t.sql("SELECT sum(f) AS s FROM self")["s"].to_list() == [2 * most]
        grouped = t.sql("SELECT x, sum(f) AS s FROM self GROUP BY x")
        assert grouped["s"].to_list() == [most, most]
        assert t.sql("SELECT f + f AS s FROM self")["s"].to_list() == [2 * most] * 2
        small = t.sql("SELECT sum(f) AS s, f FROM self WHERE x < 0.5 GROUP BY f")
        assert small.dtypes == pl.from_arrow(pa.table({"f": array(data_type, [1])})).dtypes * 2
        assert small["s"].to_list() == [most]


def test_rows_count_where_no_column_is_asked_for(path: Path) -> None:
    frame = pl.DataFrame({"x": np.arange(1000.0), "k": np.arange(1000) % 3})
    with kubist.create(path, frame, ["x"]) as t:
        questions = [
            lambda l: l.with_row_index().filter(pl.col("index") % 10 == 0).select(pl.len()),
            lambda l: l.with_row_index().select(pl.col("index").max()),
            lambda l: l.with_row_index().select("index").sum(),
            lambda l: l.with_row_index().select("index").select(pl.len()),
            lambda l: l.filter(pl.col("x") < 10).with_row_index().select(pl.col("index").max()),
            lambda l: l.head(10).filter(pl.col("x") >= 0).select(pl.len()),
            lambda l: l.filter(pl.col("x") > 4).head(10).select(pl.len()),
            lambda l: l.filter(pl.col("k") == 1).slice(5, 7).select(pl.len()),
            lambda l: l.slice(5, 7).with_row_index().select(pl.col("index").max()),
            lambda l: l.with_columns(one=pl.lit(1)).select(pl.col("one").sum()),
            lambda l: l.with_columns(one=pl.lit(1)).group_by("one").agg(pl.len()).select("len"),
            lambda l: l.select(pl.int_range(pl.len()).sum()),
            lambda l: l.select(pl.len()),
            lambda l: l.unique("k").select(pl.len()),
            lambda l: l.select(pl.lit(1)),
        ]
        for number, question in enumerate(questions):
            for engine in ("in-memory", "streaming"):
                expected = question(frame.lazy()).collect(engine=engine).item()
                found = question(t.scan()).collect(engine=engine).item()
                assert found == expected, (number, engine)
        index = t.scan().with_row_index().select("index").collect()
        assert index["index"].sort().to_list() == list(range(1000))
        assert t.sql("SELECT row_number() OVER () AS r FROM self").height == 1000
        assert t.query(columns=[]).to_arrow().num_rows == 1000
        assert t.to_dataset().to_table(columns=[]).num_rows == 1000


def test_ctrl_c_ends_a_drawing_at_once(path: Path) -> None:
    rows = 300_000
    random = np.random.default_rng(0)
    with kubist.create(path, {"x": random.random(rows), "y": random.random(rows)}, ["x", "y"]) as t:

        def interrupt(*_: Any) -> None:
            raised.append(time.monotonic())
            raise KeyboardInterrupt

        raised: list[float] = []
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            # Discs of 31,000 pixels each take minutes.
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                t.plot("x", "y", style={"point_size": 100}, size=(3000, 3000))
            late = time.monotonic() - raised[0]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert late < 0.2
        to = path.parent / "p.png"
        command = [str(COMMAND), "plot", t.location, "--axes", "x,y", "-o", str(to)]
        with subprocess.Popen([*command, "--style", "point_size=100", "--size", "3000x3000"]) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.send_signal(signal.SIGINT)
            begin = time.monotonic()
            assert process.wait(60) == 130
            assert time.monotonic() - begin < 1
        assert not to.exists()
