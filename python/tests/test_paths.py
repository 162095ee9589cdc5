"""Whole paths, compared with brute force and MDAnalysis, and intervals over seeds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kubist
from kubist import region
from kubist.paths._totals import Sample

SEEDS = int(os.environ.get("KUBIST_PATH_SEEDS", "60"))
PATHS, STEPS = 60, 25
FINE = 300
"""Points of each segment of the dense paths."""
Columns = dict[str, np.ndarray[Any, Any]]


def walks(seed: int, paths: int = PATHS, steps: int = STEPS) -> Columns:
    random = np.random.default_rng(seed)
    at = np.cumsum(random.normal(0, 0.35, (paths, steps, 3)), axis=1)
    columns = {name: at[:, :, place].ravel() for place, name in enumerate("xyz")}
    pid, time = np.meshgrid(np.arange(paths), np.arange(steps) * 0.5, indexing="ij")
    return {"pid": pid.ravel(), "time": time.ravel(), **columns}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    columns = walks(1)
    order = np.random.default_rng(2).permutation(len(columns["pid"]))
    shuffled = {name: values[order] for name, values in columns.items()}
    location = tmp_path_factory.mktemp("paths") / "t.kubist"
    units = {"x": "m", "y": "m", "z": "m", "time": "s"}
    return kubist.create(location, shuffled, ["x", "y", "z"], identity=["pid"], units=units)


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> kubist.Table:
    """The same paths with points between their rows, for which the engine decides."""
    columns = walks(1)
    share = (np.arange(FINE) + 0.5) / FINE
    fine = {}
    for name in ("time", "x", "y", "z"):
        values = columns[name].reshape(PATHS, STEPS)
        a, b = values[:, :-1, None], values[:, 1:, None]
        fine[name] = (a + share * (b - a)).ravel()
    fine["pid"] = np.repeat(np.arange(PATHS), (STEPS - 1) * FINE)
    fine["at"] = np.arange(len(fine["pid"]))
    location = tmp_path_factory.mktemp("paths") / "dense.kubist"
    units = {"x": "m", "y": "m", "z": "m", "time": "s"}
    return kubist.create(location, fine, ["x", "y", "z"], units=units)


STAR = [(0, 2), (0.4, 0.5), (2, 0), (0.4, -0.5), (0, -2), (-0.4, -0.5), (-2, 0), (-0.4, 0.5)]
REGIONS = {
    "half space": region.half_space({"x": 1, "y": -2}, {"x": 0.2, "y": 0}),
    "slab": region.slab({"z": 2}, -0.5, 1),
    "box": region.box(x=(-0.5, 1), y=(None, 0.5)),
    "sphere": region.sphere((0.3, 0, 0), 1.2),
    "ellipsoid": region.ellipsoid((0, 0, 0), (0.5, 2, 1)),
    "cylinder": region.cylinder((0, 0, -1), (1, 1, 2), 0.7),
    "frustum": region.frustum((0, -1, 0), (0, 2, 1), 0, 1.5),
    "polygon": region.polygon(STAR, holes=[[(-0.2, -0.2), (0.2, -0.2), (0, 0.3)]]),
    "union": region.sphere((0, 0, 0), 0.8) | region.box(x=(0.5, 1.5), y=(-1, 1), z=(-1, 1)),
    "shell": region.sphere((0, 0, 0), 2) - region.sphere((0, 0, 0), 1),
    "intersection": region.sphere((0, 0, 0), 2) & region.half_space({"z": 1}, {"z": 0}),
    "complement": ~region.sphere((0, 0, 0), 1),
}


@pytest.mark.parametrize("name", REGIONS)
def test_pieces_are_those_of_dense_paths(
    table: kubist.Table, dense: kubist.Table, name: str
) -> None:
    where = REGIONS[name]
    inside = np.zeros(PATHS * (STEPS - 1) * FINE, bool)
    inside[dense.query(region=where, columns=["at"]).to_numpy()["at"]] = True
    by_path = inside.reshape(PATHS, -1)
    step = 0.5 / FINE

    spent = table.residence(where, by="pid")
    rows = spent.to_pandas().set_index("pid")
    assert np.abs(rows["residence"] - by_path.sum(axis=1) * step).max() < 12 * step
    assert spent["share"].value == pytest.approx(by_path.any(axis=1).mean(), abs=2 / PATHS)

    flips = by_path[:, 1:] != by_path[:, :-1]
    crossed = table.flux(where, by="pid")
    found = crossed.to_pandas()
    # Dense paths miss visits shorter than their step, and never have more.
    assert flips.sum() <= len(found) <= flips.sum() + 4 + 0.03 * flips.sum()
    for path, place in zip(*np.nonzero(flips), strict=True):
        own = found[found["pid"] == path]
        nearest = (own["time"] - (place + 1) * step).abs().argmin()
        assert abs(own["time"].iloc[nearest] - (place + 1) * step) <= step
        entered = 1 if by_path[path, place + 1] else -1
        near = own[(own["time"] - (place + 1) * step).abs() <= step]
        assert entered in near["direction"].to_numpy()
    assert (
        crossed["net"].value == (found["direction"] == 1).sum() - (found["direction"] == -1).sum()
    )
    assert crossed["net"].exact and crossed["paths"].value == found["pid"].nunique()

    entered = table.first_entry(where, by="pid").to_pandas().set_index("pid")
    for path in np.flatnonzero(by_path.any(axis=1)):
        first = by_path[path].argmax() * step
        assert entered.loc[path, "time"] <= first + step
    assert (entered["delay"] == entered["time"]).all()


def test_places_of_crossings_are_on_the_surface(table: kubist.Table) -> None:
    found = table.flux(region.sphere((0.3, 0, 0), 1.2)).to_numpy()
    radius = np.sqrt((found["x"] - 0.3) ** 2 + found["y"] ** 2 + found["z"] ** 2)
    np.testing.assert_allclose(radius, 1.2, rtol=1e-12)
    assert set(found) == {"pid", "time", "x", "y", "z", "direction"}
    schema = table.flux(region.sphere((0, 0, 0), 1)).to_arrow().schema
    assert schema.field("time").metadata == {b"unit": b"s"}


def test_paths_that_touch_or_stop_on_a_plane(path: Path) -> None:
    """A path that continues from the surface crosses once, one that turns back never."""
    x = {0: [-1, 0, 1], 1: [1, 0, 1], 2: [-1, 0, -1], 3: [-1, 0, 0], 4: [-2, 2, -2], 5: [3]}
    rows = [(pid, time, at) for pid, of in x.items() for time, at in enumerate(of)]
    pid, time, at = (np.array(one) for one in zip(*rows, strict=True))
    t = kubist.create(path, {"pid": pid, "t": time, "x": at.astype(float)}, ["x"], identity=["pid"])
    f = t.flux(region.half_space({"x": 1}, {"x": 0}))
    assert f.to_pandas()[["pid", "time", "direction"]].to_numpy().tolist() == [
        [0, 1, 1], [3, 1, 1], [4, 0.5, 1], [4, 1.5, -1],
    ]  # fmt: skip
    assert (f["forward"].value, f["backward"].value, f.paths) == (3, 1, 6)
    spent = t.residence(region.sphere({"x": 0}, 1)).to_pandas().set_index("pid")
    # Through the sphere within a segment, in half a unit of time each.
    assert spent.loc[4, "residence"] == 1 and spent.loc[4, "entries"] == 2
    assert spent.loc[5, "duration"] == 0 and "6 paths read" in repr(f)


def wrapped(columns: Columns, length: float) -> Columns:
    return (
        columns
        | {name: columns[name] % length for name in "xyz"}
        | {f"i{name}": np.floor(columns[name] / length).astype(np.int32) for name in "xyz"}
    )


def test_periodic_paths_are_unwrapped(path: Path) -> None:
    columns, length = walks(3), 4.0
    t = kubist.create(path, wrapped(columns, length), ["x", "y", "z"], identity=["pid"])
    period = dict.fromkeys("xyz", length)
    at = {name: columns[name].reshape(PATHS, STEPS) for name in "xyz"}
    for options in ({}, {"images": {name: f"i{name}" for name in "xyz"}}):
        moved = t.displacement(period=period, **options).to_pandas()
        for name in "xyz":
            np.testing.assert_allclose(moved[name], at[name][:, -1] - at[name][:, 0], atol=1e-12)
    # A table with periods needs no option; without them, jumps stay.
    jumps = t.displacement().to_pandas()
    assert not np.allclose(jumps["x"], moved["x"])
    own = kubist.create(
        path.with_name("own"),
        wrapped(columns, length),
        ["x", "y", "z"],
        identity=["pid"],
        period=period,
    )
    pd.testing.assert_frame_equal(
        own.displacement().to_pandas(), t.displacement(period=period).to_pandas()
    )
    pd.testing.assert_frame_equal(own.displacement(period={}).to_pandas(), jumps)
    # In the cell, crossings of a plane are those of its images by the unwrapped path.
    found = t.flux(region.half_space({"x": 1}, {"x": 0.7}), period={"x": length}).to_pandas()
    images = np.floor((at["x"] - 0.7) / length)
    # The edge of the cell is another end of the half space.
    ends = [(at["x"][:, place] % length >= 0.7).sum() for place in (0, -1)]
    assert found["direction"].sum() == ends[1] - ends[0]
    at_plane = found[np.isclose(found["x"], 0.7)]
    assert at_plane["direction"].sum() == (images[:, -1] - images[:, 0]).sum()
    sphere = region.sphere((0, 0, 0), 0.8)
    spent = t.residence(sphere | region.sphere((0, 0, length), 0.8), period=period).to_pandas()
    fine = np.linspace(0, 1, 2001)
    share = np.zeros(PATHS)
    for a, b in zip(range(STEPS - 1), range(1, STEPS), strict=True):
        piece = {n: at[n][:, a, None] + fine * (at[n][:, b] - at[n][:, a])[:, None] for n in "xyz"}
        in_cell = {n: piece[n] % length for n in "xyz"}
        square = in_cell["x"] ** 2 + in_cell["y"] ** 2
        near = square + np.minimum(in_cell["z"] ** 2, (in_cell["z"] - length) ** 2) <= 0.64
        share += near.mean(axis=1) * 0.5
    np.testing.assert_allclose(spent["residence"], share, atol=0.01)


def brute_msd(columns: Columns, present: np.ndarray[Any, Any]) -> list[float]:
    at = np.stack([columns[name].reshape(PATHS, STEPS) for name in "xyz"], axis=2)
    there = present.reshape(PATHS, STEPS)
    found = []
    for lag in range(STEPS):
        means = []
        for path in range(PATHS):
            pairs = [
                ((at[path, a + lag] - at[path, a]) ** 2).sum()
                for a in range(STEPS - lag)
                if there[path, a] and there[path, a + lag]
            ]
            if pairs:
                means.append(np.mean(pairs))
        found.append(np.mean(means))
    return found


def test_squared_displacements_are_those_of_brute_force(path: Path) -> None:
    columns = walks(4)
    present = np.random.default_rng(5).random(PATHS * STEPS) < 0.9
    kept = {name: values[present].astype("f4" if name == "time" else values.dtype)
            for name, values in columns.items()}  # fmt: skip
    t = kubist.create(path, kept, ["x", "y", "z"], identity=["pid", "time"], units={"time": "s"})
    curve = t.msd(by="pid").to_pandas()
    # Paths without their first row start later, so their last lag is shorter.
    expected = brute_msd(columns, present)
    np.testing.assert_allclose(curve["msd"], expected[: len(curve)], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(curve["lag"], np.arange(len(curve)) * 0.5, rtol=1e-6)
    assert len(t.msd(by="pid", lags=3).to_pandas()) == 4


def test_squared_displacements_are_those_of_mdanalysis(path: Path) -> None:
    mda = pytest.importorskip("MDAnalysis")
    pytest.importorskip("MDAnalysis.analysis.msd")
    from MDAnalysis.analysis.msd import EinsteinMSD
    from MDAnalysis.transformations.nojump import NoJump

    columns, length = walks(6), 4.0
    at = np.stack([columns[name].reshape(PATHS, STEPS) for name in "xyz"], axis=2)
    frames = np.ascontiguousarray(np.swapaxes(at % length, 0, 1).astype("f4"))
    u = mda.Universe.empty(PATHS, trajectory=True)
    box = np.tile([length, length, length, 90, 90, 90], (STEPS, 1))
    u.load_new(frames, order="fac", dimensions=box)
    u.trajectory.add_transformations(NoJump())
    expected = EinsteinMSD(u, msd_type="xyz", fft=False).run().results.timeseries
    of_frames = {
        "atom": np.tile(np.arange(PATHS), STEPS),
        "frame": np.repeat(np.arange(STEPS), PATHS),
        **{name: frames[:, :, place].ravel() for place, name in enumerate("xyz")},
    }
    t = kubist.create(path, of_frames, ["x", "y", "z"], identity=["atom"])
    curve = t.msd(period=dict.fromkeys("xyz", length)).to_numpy()
    np.testing.assert_allclose(curve["msd"], expected, rtol=2e-5, atol=1e-6)
    flat = EinsteinMSD(u, msd_type="xy", fft=False).run().results.timeseries
    curve = t.msd(axes=["x", "y"], period={"x": length, "y": length}).to_numpy()
    np.testing.assert_allclose(curve["msd"], flat, rtol=2e-5, atol=1e-6)


def test_average_paths(table: kubist.Table, path: Path) -> None:
    columns = walks(1)
    mean = {name: columns[name].reshape(PATHS, STEPS).mean(axis=0) for name in "xyz"}
    found = table.average_path().to_pandas()
    np.testing.assert_allclose(found["time"], np.arange(STEPS) * 0.5)
    for name in "xyz":
        np.testing.assert_allclose(found[name], mean[name], atol=1e-12)
    found = table.average_path(times=[0.25, 0.5, 99]).to_pandas()
    np.testing.assert_allclose(found["x"][:2], [(mean["x"][0] + mean["x"][1]) / 2, mean["x"][1]])
    assert found["paths"].tolist() == [PATHS, PATHS, 0] and np.isnan(found["x"][2])


def test_chunks_have_whole_paths(table: kubist.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubist.paths import _pieces, _read

    where = REGIONS["sphere"]
    calls = {
        "flux": lambda: table.flux(where),
        "residence": lambda: table.residence(where),
        "entry": lambda: table.first_entry(where),
        "moved": lambda: table.displacement(),
        "msd": lambda: table.msd(),
        "average": lambda: table.average_path(),
        "at times": lambda: table.average_path(times=[1.3, 2.4]),
    }
    whole = {name: call().to_pandas() for name, call in calls.items()}
    monkeypatch.setattr(_read, "ROWS", 1)
    monkeypatch.setattr(_pieces, "_VALUES", 1)
    batches = kubist.Result._numpy_batches

    def small(self: kubist.Result, numpy: Any) -> Any:
        for batch in batches(self, numpy):
            for first in range(0, len(batch["c0"]), 7):
                yield {name: values[first : first + 7] for name, values in batch.items()}

    monkeypatch.setattr(kubist.Result, "_numpy_batches", small)
    for name, call in calls.items():
        np.testing.assert_allclose(call().to_pandas(), whole[name], atol=1e-12, err_msg=name)


def test_samples_have_whole_paths_and_intervals(path: Path) -> None:
    columns = walks(8, paths=3_000)
    t = kubist.create(path, columns, ["x", "y", "z"], identity=["pid"])
    where = REGIONS["half space"]
    held = []
    for call, figures in (
        (t.flux, ("net", "forward", "backward", "paths")),
        (t.residence, ("mean", "mean_of_all", "share")),
        (t.first_entry, ("mean_time", "mean_delay", "share")),
    ):
        part, whole = call(where, sample=0.2), call(where)
        assert part.fraction == 0.2 and 450 < part.paths < 750
        for name in figures:
            assert not part[name].exact and whole[name].exact
            held.append(part[name].low <= whole[name].value <= part[name].high)
    part, whole = t.msd(sample=0.2).to_pandas(), t.msd().to_pandas()
    held += list((part["low"] <= whole["msd"]) & (whole["msd"] <= part["high"]))
    part, whole = t.average_path(sample=0.2).to_pandas(), t.average_path().to_pandas()
    held += list((part["x_low"] <= whole["x"]) & (whole["x"] <= part["x_high"]))
    assert np.mean(held) > 0.8


@pytest.mark.parametrize("paths", [300, 3_000])
def test_intervals_hold_the_truth(paths: int) -> None:
    """Samples of a tenth of the paths; KUBIST_PATH_SEEDS=1000 for the campaign."""
    random = np.random.default_rng(9)
    forward = random.poisson(1.5, paths).astype(float)
    backward = random.poisson(0.5, paths).astype(float)
    spent = random.gamma(1.5, 1, paths) * (random.random(paths) < 0.6)
    visited = spent > 0
    truth = {
        "forward": forward.sum(),
        "net": (forward - backward).sum(),
        "mean": spent[visited].mean(),
        "share": visited.mean(),
        "mean of squares": (spent**2).mean(),
    }
    held = dict.fromkeys(truth, 0)
    for _ in range(SEEDS):
        kept = random.random(paths) < 0.1
        sample = Sample(0.1, 0.95)
        squares = spent[kept] ** 2
        _, low, high = sample.means(squares.sum(), (squares**2).sum(), len(squares))
        figures = {
            "forward": sample.number(forward[kept]),
            "net": sample.net((forward - backward)[kept]),
            "mean": sample.mean(spent[kept & visited]),
            "share": sample.share(int((kept & visited).sum()), int(kept.sum())),
        }
        for name, figure in figures.items():
            held[name] += figure.low <= truth[name] <= figure.high
        held["mean of squares"] += low[0] <= truth["mean of squares"] <= high[0]
    shown = {name: count / SEEDS for name, count in held.items()}
    print(f"{paths} paths, a tenth of them read: {shown}")
    for name, share in shown.items():
        # Intervals for squares of skewed values cover less in 30 paths.
        allowed = 0.12 if name == "mean of squares" else 0.03
        assert share >= 0.95 - allowed - 4 * np.sqrt(0.05 * 0.95 / SEEDS), name


def test_a_sample_without_crossings_has_an_upper_end() -> None:
    figure = Sample(0.1, 0.95).number(np.zeros(50))
    assert (figure.value, figure.low) == (0, 0) and 30 < figure.high < 40
    net = Sample(0.1, 0.95).net(np.zeros(50))
    assert -40 < net.low < 0 < net.high < 40
    assert Sample(0.1, 0.95).mean(np.zeros(0)).value is None
    assert Sample(0.1, 0.95).share(0, 0).high == 1


BOX = region.box(x=(0, 1))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda t: t.flux(region.half_space({"x": 0}, {"x": 1})), "normal of a plane is zero"),
        (lambda t: t.flux(region.slab({"x": 0, "y": 0}, 0, 1)), "normal of a plane is zero"),
        (lambda t: t.flux(region.sphere((0, 0, 0), 0)), "radius must be above 0"),
        (lambda t: t.flux(region.sphere((0, 0, 0), "1 mm")), "paths need numbers"),
        (lambda t: t.flux(region.cylinder((0, 0, 0), (0, 0, 0), 1)), "axis are one point"),
        (lambda t: t.flux(region.cone(1, 2, 3)), "cannot cross 'cone'"),
        (lambda t: t.flux(region.where("x > 0")), "cannot cross 'where'"),
        (lambda t: t.flux("nothing"), "is no JSON"),
        (lambda t: t.flux(region.box(w=(0, 1))), "no column 'w'"),
        (lambda t: t.flux(BOX, by="nobody"), "by: there is no column 'nobody'"),
        (lambda t: t.flux(BOX, time="never"), "time: there is no column 'never'"),
        (lambda t: t.flux(BOX, sample=2), "sample"),
        (lambda t: t.flux(BOX, by="time", sample=0.5), r"identity of the table is \['pid'\]"),
        (lambda t: t.residence(BOX, period={"q": 1}), "'q' is no axis"),
        (lambda t: t.residence(BOX, period={"x": 0}), "period must be above 0"),
        (lambda t: t.residence(BOX, confidence=1), "confidence must be between"),
        (lambda t: t.displacement(images={"x": "pid"}), "needs its period"),
        (lambda t: t.displacement(images={"x": "no"}, period={"x": 1}), "images"),
        (lambda t: t.msd(lags=0), "lags"),
        (lambda t: t.average_path(times=[np.nan]), "times"),
        (lambda t: t.average_path(axes=["nothing"]), "no column 'nothing'"),
    ],
)
def test_bad_questions_are_refused_by_name(table: kubist.Table, ask: Any, message: str) -> None:
    with pytest.raises(kubist.InvalidInput, match=message):
        ask(table)


def test_tables_without_paths_are_refused(path: Path) -> None:
    rows = {"pid": [1, 1, 1], "when": [0.0, 1.0, 2.5], "x": [0.0, 1.0, 2.0], "name": list("abc")}
    t = kubist.create(path, rows, ["x"])
    with pytest.raises(kubist.InvalidInput, match="by: name the column"):
        t.displacement()
    with pytest.raises(kubist.InvalidInput, match="time: name the column of times"):
        t.displacement(by="pid")
    with pytest.raises(kubist.InvalidInput, match="name has no numbers"):
        t.displacement(by="pid", time="name")
    with pytest.raises(kubist.InvalidInput, match=r"pid = 1 are not evenly spaced by 1"):
        t.msd(by="pid", time="when")
    with pytest.raises(kubist.InvalidInput, match="two rows at"):
        kubist.create(path.with_name("d"), {"pid": [1, 1], "time": [0, 0], "x": [1, 2]}, ["x"]).msd(
            by="pid"
        )
    with pytest.raises(kubist.InvalidInput, match=r"identity=\['pid'\]"):
        t.displacement(by="pid", time="when", sample=0.5)
    assert t.displacement(by="pid", time="when", where="x > 5").to_pandas().empty
    assert t.flux(region.box(x=(0, 1)), by="pid", time="when", where="x > 5")["net"].value == 0
    assert t.msd(by="pid", time="when", where="x > 5").to_pandas().empty
    assert t.average_path(by="pid", time="when", where="x > 5").to_pandas().empty
