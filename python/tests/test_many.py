"""Many runs as one table: queries, conditions on runs, units, samples, estimates, differences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from servers import Server

import kubist

ROWS = 4000
SPEEDS = (1.0, 2.5, 4.0)


def rows(run: int) -> dict[str, Any]:
    """The same particles in every run of a study, with correlated values."""
    common = np.random.default_rng(1)
    own = np.random.default_rng(100 + run)
    return {
        "pid": np.arange(ROWS),
        "x": common.uniform(0, 1, ROWS),
        "v": common.normal(10, 2, ROWS) + 0.1 * run + own.normal(0, 0.2, ROWS),
        "kind": np.where(common.random(ROWS) < 0.3, "drop", "dust").astype(object),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    for run, speed in enumerate(SPEEDS):
        kubist.create(
            folder / f"case-{run}.kubist",
            rows(run),
            ["x"],
            identity=["pid"],
            units={"x": "m", "v": "m/s"},
            metadata={"speed": speed, "solver": {"name": f"s{run % 2}"}, "draft": run == 0},
        ).close()
    return folder


@pytest.fixture(scope="module")
def many(folder: Path) -> kubist.Many:
    return kubist.open_many(folder / "*.kubist")


@pytest.fixture(scope="module")
def frame(many: kubist.Many) -> pd.DataFrame:
    parts = []
    for run, speed in enumerate(SPEEDS):
        before = {
            "run": f"case-{run}",
            "metadata.speed": speed,
            "metadata.solver.name": f"s{run % 2}",
            "metadata.draft": run == 0,
        }
        parts.append(pd.DataFrame({**before, **rows(run)}))
    return pd.concat(parts, ignore_index=True)


def compared(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    found = found.astype({"run": str}) if "run" in found else found
    keys = [name for name in ("run", "pid") if name in found]
    found, wanted = (
        each.sort_values(keys).reset_index(drop=True) for each in (found, wanted[found.columns])
    )
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def test_it_has_the_rows_of_all_runs(many: kubist.Many, frame: pd.DataFrame) -> None:
    assert many.runs == ["case-0", "case-1", "case-2"]
    assert len(many) == many.count() == len(frame)
    assert set(many.columns) == set(frame.columns) and many.units == {"x": "m", "v": "m/s"}
    result = many.query()
    assert pa.types.is_dictionary(result.schema.field("run").type)
    compared(result.to_pandas(), frame)
    catalogue = many.catalogue().to_pydict()
    assert catalogue["metadata.speed"] == list(SPEEDS) and catalogue["rows"] == [ROWS] * 3


CONDITIONS: list[tuple[str, Callable[[pd.DataFrame], pd.Series[bool]]]] = [
    ("run = 'case-1'", lambda f: f["run"] == "case-1"),
    ("run LIKE 'case-%' AND RUN <> 'case-0'", lambda f: f["run"] != "case-0"),
    ("metadata.speed > 2 AND v > 11", lambda f: (f["metadata.speed"] > 2) & (f["v"] > 11)),
    ("metadata.speed > 3 OR x < 0.1", lambda f: (f["metadata.speed"] > 3) | (f["x"] < 0.1)),
    ("v > metadata.speed * 4", lambda f: f["v"] > f["metadata.speed"] * 4),
    (
        "\"metadata.solver.name\" = 's1' OR kind = 'drop'",
        lambda f: (f["metadata.solver.name"] == "s1") | (f["kind"] == "drop"),
    ),
    (
        "NOT (metadata.draft OR v BETWEEN 9 AND 11) AND metadata.solver.name LIKE 's%'",
        lambda f: ~(f["metadata.draft"] | f["v"].between(9, 11)),
    ),
    (
        "CASE WHEN run = 'case-2' AND x > 0.5 THEN v ELSE 0 END > 10",
        lambda f: (f["run"] == "case-2") & (f["x"] > 0.5) & (f["v"] > 10),
    ),
    ("metadata.draft AND kind = 'run'", lambda f: f["kind"] == "run"),
    ("v > '36 km/h'", lambda f: f["v"] > 10),
    ("FALSE", lambda f: f["v"] > 1e9),
]


@pytest.mark.parametrize("at", range(len(CONDITIONS)))
def test_conditions_on_runs_and_rows(many: kubist.Many, frame: pd.DataFrame, at: int) -> None:
    where, mask = CONDITIONS[at]
    wanted = frame[mask(frame)]
    compared(many.query(where=where).to_pandas(), wanted)
    assert many.count(where=where) == len(wanted)


def test_a_box_on_runs_and_rows(many: kubist.Many, frame: pd.DataFrame) -> None:
    found = many.query({"metadata.speed": (2, 4), "x": (0.2, 0.3), "run": "case-2"})
    wanted = frame[(frame["run"] == "case-2") & frame["x"].between(0.2, 0.3)]
    compared(found.to_pandas(), wanted)


def test_a_run_that_cannot_match_is_not_read(many: kubist.Many) -> None:
    cost = many.query(where="metadata.speed > 3 AND v > 0").materialize().stats
    alone = many.run("case-2").query(where="v > 0").materialize().stats
    assert cost.rows_read == alone.rows_read and cost.rows_returned == ROWS
    assert many.query(where="metadata.speed > 99").materialize().stats.rows_read == 0


def test_a_sample_has_the_same_particles_in_every_run(many: kubist.Many) -> None:
    for options in ({"sample": 0.1}, {"limit": 600}, {"window": (0.2, 0.3)}):
        result = many.query(columns=["run", "pid"], inclusion="p", **options)  # type: ignore[arg-type]
        found = result.to_pandas()
        particles = [set(part["pid"]) for _, part in found.groupby("run", observed=True)]
        assert len(particles) == 3 and particles[0] == particles[1] == particles[2]
        assert (found["p"] == result.fraction).all()
    # As many particles as fit.
    assert 0.7 * 600 <= len(many.query(limit=600).to_arrow()) <= 600


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 3 * ROWS, 10**9])
def test_a_limit_is_kept(many: kubist.Many, limit: int) -> None:
    found = len(many.query(limit=limit).to_arrow())
    assert found <= limit and (found > 0) == (limit > 0)
    assert found == 3 * ROWS or limit < 3 * ROWS


def test_an_order_is_that_of_all_runs(many: kubist.Many, frame: pd.DataFrame) -> None:
    found = many.query(order_by="v desc", limit=20).to_pandas()["v"]
    np.testing.assert_array_equal(found, frame["v"].nlargest(20))
    found = many.query(order_by=["run desc", "x"], columns=["v"]).to_pandas()["v"]
    wanted = frame.sort_values(["run", "x"], ascending=[False, True], kind="stable")["v"]
    np.testing.assert_array_equal(found, wanted)


def test_frames_and_sql(many: kubist.Many, frame: pd.DataFrame) -> None:
    wanted = frame[frame["v"] > 11].groupby("run")["v"].sum().to_numpy()
    query = "SELECT run, sum(v) s FROM self WHERE v > 11 GROUP BY run ORDER BY run"
    np.testing.assert_allclose(many.sql(query)["s"], wanted)
    np.testing.assert_allclose(many.sql(query, engine="duckdb")["s"], wanted)
    assert many.sql("SELECT count(*) n FROM self", engine="duckdb")["n"].item() == len(frame)
    lazy = many.scan().filter(pl.col("metadata.speed") > 2).select("pid", "metadata.speed")
    assert lazy.collect().height == 2 * ROWS


def test_a_plot_has_a_colour_for_each_run(many: kubist.Many) -> None:
    assert many.plot("x", "v", "run").png.startswith(b"\x89PNG")
    assert many.plot("x", "v", where="run = 'case-0'").png.startswith(b"\x89PNG")


def other(path: Path, data: dict[str, Any], **options: Any) -> Path:
    kubist.create(path, data, ["x"], identity=["pid"], **options).close()
    return path


def test_units_are_converted(folder: Path, tmp_path: Path) -> None:
    first = folder / "case-0.kubist"
    data = rows(1)
    data["x"] = data["x"] * 1000
    data["v"] = data["v"] * 3.6
    second = other(tmp_path / "mm.kubist", data, units={"x": "mm", "v": "km/h"})
    many = kubist.open_many([first, second])
    x, v = rows(1)["x"], rows(1)["v"]
    found = many.query(where="run = 'mm'", order_by="pid").to_numpy()
    np.testing.assert_allclose(found["x"], x, rtol=1e-15)
    np.testing.assert_allclose(found["v"], v, rtol=1e-15)
    for where, wanted in [
        ("x > 0.5", x > 0.5),
        ("x < 300mm", x < 0.3),
        ("v * 2 > 20", v > 10),
        ("v > '36 km/h' AND x > 0.1", (v > 10) & (x > 0.1)),
    ]:
        assert many.count(where=f"({where}) AND run = 'mm'") == wanted.sum(), where
    assert many.count({"x": (0.25, 0.5), "run": "mm"}) == ((x >= 0.25) & (x <= 0.5)).sum()
    assert many.count({"x": ("250 mm", None), "run": "mm"}) == (x >= 0.25).sum()
    e = many.estimate(["mean(v)", "max(x)"], group_by="run", sample=1)
    means = {(row["aggregate"], row["run"]): row["value"] for row in e.to_dicts()}
    assert means["mean(v)", "mm"] == pytest.approx(v.mean())
    assert means["max(x)", "mm"] == pytest.approx(x.max())
    assert e.units == {"mean(v)": "m/s", "max(x)": "m"}


def test_types_are_widened_and_missing_columns_are_null(folder: Path, tmp_path: Path) -> None:
    narrow = {
        "pid": np.arange(9, dtype="int32"),
        "x": np.arange(9, dtype="float32"),
        "extra": [1.5] * 9,
    }
    second = other(tmp_path / "narrow.kubist", narrow, units={"x": "m"})
    many = kubist.open_many([folder / "case-0.kubist", second])
    table = many.query(where="x > 2 OR kind = 'drop'", columns=["run", "pid", "extra", "kind"])
    found = table.to_pandas()
    assert str(table.schema.field("pid").type) == "int64"
    own = found[found["run"] == "narrow"]
    assert sorted(own["pid"]) == [3, 4, 5, 6, 7, 8]
    assert own["kind"].isna().all() and (own["extra"] == 1.5).all()
    assert found[found["run"] == "case-0"]["extra"].isna().all()
    assert many.count(where="kind IS NULL") == 9 and many.count({"extra": (0, None)}) == 9
    assert many.query({"extra": (None, None)}, columns=["pid"]).to_arrow().num_rows == ROWS + 9
    values = many.estimate(["mean(extra)", "count(extra)"], group_by="run").to_dicts()
    assert [row["value"] for row in values] == [None, 0, 1.5, 9] or [
        row["value"] for row in values
    ] == [None, 1.5, 0, 9]
    pooled = many.estimate("mean(coalesce(extra, 0))", sample=1).value
    assert pooled == pytest.approx(9 * 1.5 / (ROWS + 9))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            {"v": ["a", "b"]},
            {"units": {"x": "m"}},
            "column v is double in run case-0, and string in run odd",
        ),
        ({}, {"units": {"x": "s"}}, "column x is in s in run odd, and in m in other runs"),
        ({}, {}, "column x is in no unit in run odd, and in m in other runs"),
        ({"run": [1, 2]}, {"units": {"x": "m"}}, "run='case'"),
    ],
)
def test_runs_that_do_not_fit_are_refused_by_name(
    folder: Path, tmp_path: Path, data: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    odd = other(tmp_path / "odd.kubist", {"pid": [1, 2], "x": [0.1, 0.2], **data}, **options)
    with pytest.raises(kubist.InvalidInput, match=message):
        kubist.open_many([folder / "case-0.kubist", odd])


def test_other_wrong_input_is_refused(many: kubist.Many, folder: Path) -> None:
    with pytest.raises(kubist.NotATable, match="no table has such a name"):
        kubist.open_many(folder / "*.kubits")
    with pytest.raises(kubist.NotATable):
        kubist.open_many([folder / "case-0.kubist", folder])
    with pytest.raises(kubist.InvalidInput, match="listed twice"):
        kubist.open_many([folder / "case-0.kubist"] * 2)
    for where in ("metadata.spede > 1", "vv > 1", "v >", "v > 'a' AND run = 'case-0'"):
        with pytest.raises(kubist.InvalidInput):
            many.query(where=where)
    for refused in (
        lambda: many.query(per_cell=(1, {"x": 0.1})),
        lambda: many.estimate("median(v)"),
        lambda: many.estimate("mean(v)", group_by="run", contrast="kind"),
        lambda: many.estimate("mean(v)", where="metadata.speed > 99"),
        lambda: many.run("case-9"),
    ):
        with pytest.raises(kubist.InvalidInput):
            refused()


def test_estimates_of_each_run_are_its_own(many: kubist.Many) -> None:
    e = many.estimate(
        ["mean(v)", "median(v)"], group_by=["kind", "run", "metadata.speed"], sample=0.2
    )
    found = e.to_pandas().set_index(["aggregate", "run", "kind"])
    assert list(e.to_arrow().column_names[:4]) == ["aggregate", "kind", "run", "metadata.speed"]
    for name in many.runs:
        own = many.run(name).estimate(["mean(v)", "median(v)"], group_by="kind", sample=0.2)
        for row in own.to_dicts():
            same = found.loc[row["aggregate"], name, row["kind"]]
            assert (same["low"], same["value"], same["high"]) == (
                row["low"],
                row["value"],
                row["high"],
            )


def test_groups_of_several_runs(many: kubist.Many, frame: pd.DataFrame) -> None:
    e = many.estimate(["count()", "mean(v)", "sum(x)", "share(kind = 'drop')"], sample=1)
    values = {row["aggregate"]: row["value"] for row in e.to_dicts()}
    assert e.exact and values["count()"] == len(frame)
    assert values["mean(v)"] == pytest.approx(frame["v"].mean())
    assert values["sum(x)"] == pytest.approx(frame["x"].sum())
    assert values["share(kind = 'drop')"] == pytest.approx((frame["kind"] == "drop").mean())
    grouped = many.estimate("mean(v)", group_by="metadata.solver.name", sample=1).to_pandas()
    wanted = frame.groupby("metadata.solver.name")["v"].mean()
    np.testing.assert_allclose(grouped.set_index("metadata.solver.name")["value"], wanted)
    assert many.estimate("count()", sample=0.1).exact


STUDIES = itertools.count()


def study(seed: int, tables: int = 3, size: int = 3000, common_seed: bool = True) -> kubist.Many:
    """Runs in memory with the same particles and separate noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(10, 2, size)
    opened = []
    for run in range(tables):
        v = base * (1 + 0.02 * run) + rng.normal(0, 0.4, size)
        table = kubist.create(
            f"memory://study-{next(STUDIES)}",
            {"pid": np.arange(size), "x": rng.uniform(0, 1, size), "v": v, "hit": v > 12},
            ["x"],
            identity=["pid"],
            seed=seed if common_seed else 1000 * seed + run,
        )
        opened.append(table)
    return kubist.open_many(opened)


CALLS = ["mean(v)", "share(hit)", "sum(v)", "median(v)"]


def coverage(goal: dict[str, Any], aggregates: list[str], common_seed: bool = True) -> Any:
    """Over many studies: the fraction of intervals with the true value, and the mean width."""
    inside: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for seed in range(1, 51):
        many = study(seed, common_seed=common_seed)
        exact = many.estimate(aggregates, **{**goal, "sample": 1}).to_dicts()
        found = many.estimate(aggregates, **{**goal, "sample": 0.1}).to_dicts()
        for truth, row in zip(exact, found, strict=True):
            name = row["aggregate"].partition(",")[0]
            inside.setdefault(name, []).append(row["low"] <= truth["value"] <= row["high"])
            widths.setdefault(name, []).append(row["high"] - row["low"])
        for run in many.runs:
            kubist.drop(f"memory://{run}", force=True)
    return (
        {name: np.mean(each) for name, each in inside.items()},
        {name: np.mean(each) for name, each in widths.items()},
    )


def test_differences_contain_the_true_one_and_are_narrow() -> None:
    goal = {"group_by": "run", "contrast": "run"}
    rates, paired = coverage(goal, CALLS)
    # 95 % of 100 differences, less four standard deviations.
    assert all(0.86 <= rate <= 1 for rate in rates.values()), rates
    independent_rates, independent = coverage(goal, CALLS, common_seed=False)
    assert all(0.86 <= rate <= 1 for rate in independent_rates.values()), independent_rates
    for name in ("mean(v)", "share(hit)", "sum(v)"):
        assert paired[name] <= independent[name] / 2, (name, paired[name], independent[name])


def test_quantiles_are_paired_where_windows_have_enough_rows() -> None:
    few, enough = study(7, tables=2), study(8, tables=2, size=12_000)
    goal: dict[str, Any] = {"group_by": "run", "contrast": "run", "sample": 0.5}
    (word,) = few.estimate("median(v)", **goal).warnings
    assert "fewer than 3,200 sampled records" in word
    e = enough.estimate("median(v)", **goal)
    (ratio,) = re.findall(r"the errors are ([\d.]+) times", e.warnings[0])
    assert float(ratio) < 0.5
    truth = enough.estimate("median(v)", **{**goal, "sample": 1}).value
    assert abs(e.value - truth) <= e.high - e.low


def test_means_over_runs_contain_the_true_one() -> None:
    rates, _ = coverage({}, ["mean(v)", "share(hit)", "sum(v)"])
    assert all(0.82 <= rate <= 1 for rate in rates.values()), rates


def test_a_difference_says_how_its_error_was_computed(
    many: kubist.Many, frame: pd.DataFrame
) -> None:
    e = many.estimate("mean(v)", group_by="run", contrast="run", sample=0.2)
    assert [row["run"] for row in e.to_dicts()] == ["case-1", "case-2"]
    assert "mean(v), difference to case-0" in repr(e) and "m/s" in repr(e)
    assert any("the errors are 0." in word for word in e.warnings)
    apart = study(99, tables=2, common_seed=False)
    e = apart.estimate("mean(v)", group_by="run", contrast="run", sample=0.2)
    assert any("is that of independent samples" in word for word in e.warnings)
    assert any("no common identity and seed" in word for word in e.warnings)
    means = frame.groupby("run")["v"].mean()
    exact = many.estimate("mean(v)", group_by="run", contrast="run", sample=1)
    assert exact.exact and not exact.warnings
    wanted = means[1:] - means.iloc[0]
    np.testing.assert_allclose([row["value"] for row in exact.to_dicts()], wanted, rtol=1e-9)


def test_a_difference_between_groups_of_runs(many: kubist.Many, frame: pd.DataFrame) -> None:
    name = "metadata.solver.name"
    e = many.estimate("mean(v)", group_by=[name, "kind"], contrast=name, sample=1)
    means = frame.groupby([name, "kind"])["v"].mean()
    for row in e.to_dicts():
        wanted = means["s1", row["kind"]] - means["s0", row["kind"]]
        assert row["value"] == pytest.approx(wanted)


def test_groups_are_in_the_order_of_their_values(folder: Path) -> None:
    turned = kubist.open_many([folder / f"case-{run}.kubist" for run in (2, 0, 1)])
    name = "metadata.speed"
    e = turned.estimate("mean(v)", group_by=name, sample=0.2)
    assert [row[name] for row in e.to_dicts()] == list(SPEEDS)
    e = turned.estimate("mean(v)", group_by=name, contrast=name, sample=0.2)
    assert [row[name] for row in e.to_dicts()] == list(SPEEDS[1:])
    e = turned.estimate("mean(v)", group_by="run", contrast="run", sample=0.2)
    assert [row["run"] for row in e.to_dicts()] == ["case-0", "case-1"]
    assert "difference to case-2" in repr(e)


def test_names_tell_runs_apart(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    twin = other(tmp_path / "a" / "case-0.kubist", {"pid": [1], "x": [0.5]}, units={"x": "m"})
    many = kubist.open_many([folder / "case-0.kubist", twin], run="case")
    assert many.runs == [f"{folder.name}/case-0", "a/case-0"]
    assert many.count(where="\"case\" = 'a/case-0'") == 1


def test_open_tables_and_snapshots_are_runs(folder: Path) -> None:
    table = kubist.open(folder / "case-0.kubist")
    snapshot = kubist.open(folder / "case-1.kubist").snapshot()
    assert kubist.open_many([table, snapshot]).runs == ["case-0", "case-1"]
    named = kubist.open_many({"slow": table, "fast": folder / "case-2.kubist"})
    assert named.runs == ["slow", "fast"] and named.count(where="run = 'slow'") == ROWS


def test_a_remote_table_is_a_run(folder: Path) -> None:
    with Server(folder / "case-0.kubist") as server:
        many = kubist.open_many({"far": server.url, "near": folder / "case-1.kubist"})
        assert many.count(where="run = 'far' AND x < 0.5") == (rows(0)["x"] < 0.5).sum()
        far, near = many.estimate("mean(v)", group_by="run", sample=1).to_dicts()
        assert far["value"] == pytest.approx(rows(0)["v"].mean())
        assert near["value"] == pytest.approx(rows(1)["v"].mean())


def test_computed_columns_and_names(many: kubist.Many, frame: pd.DataFrame) -> None:
    columns = ["run", "pid", "v * 2 AS w", "metadata.speed + 1 AS s", "upper(kind)"]
    columns.append("upper(run) AS u")
    found = many.query(columns=columns, where="x < 0.5").to_pandas()
    part = frame[frame["x"] < 0.5]
    wanted = part[["run", "pid"]].assign(
        w=part["v"] * 2, s=part["metadata.speed"] + 1, **{"upper(kind)": part["kind"].str.upper()}
    )
    wanted["u"] = part["run"].str.upper()
    assert list(found.columns) == ["run", "pid", "w", "s", "upper(kind)", "u"]
    compared(found, wanted)
    group = ["metadata.speed > 2 AS fast", "kind AS k"]
    for sample in (1, 0.5):
        e = many.estimate("mean(v) AS m", group_by=group, sample=sample).to_dicts()
        assert {row["aggregate"] for row in e} == {"m"} and {"fast", "k"} <= e[0].keys()
    own = many.estimate("median(v) AS m", group_by=["run AS r"], sample=1).to_dicts()
    assert [(row["aggregate"], row["r"]) for row in own] == [("m", name) for name in many.runs]
