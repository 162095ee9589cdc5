"""Regions: from Python to rows, against NumPy, shapely and astropy."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist
from kubist import region

ROWS = 60_000
COMMAND = Path(sys.executable).parent / "kubist"
Columns = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, Columns]:
    random = np.random.default_rng(1)
    columns = {name: random.random(ROWS) for name in "xyz"}
    columns["mass"] = random.random(ROWS).astype("f4")
    location = tmp_path_factory.mktemp("regions") / "space.kubist"
    table = kubist.create(location, columns, ["x", "y", "z"], capacity=512)
    return table, columns


@pytest.fixture(scope="module")
def sky(tmp_path_factory: pytest.TempPathFactory) -> tuple[kubist.Table, Columns]:
    random = np.random.default_rng(2)
    columns = {
        "ra": random.random(ROWS) * 360,
        "dec": np.degrees(np.arcsin(random.uniform(-1, 1, ROWS))),
    }
    columns["dec"][:2] = [90, -90]
    location = tmp_path_factory.mktemp("regions") / "sky.kubist"
    return kubist.create(location, columns, ["ra", "dec"], capacity=512), columns


def check(table: kubist.Table, where: Any, expected: np.ndarray[Any, Any]) -> float:
    """Compares the rows of a region; returns the number of examined rows per row."""
    rows = int(expected.sum())
    result = table.query(region=where)
    assert result.to_arrow().num_rows == rows, where
    assert table.count(region=where) == rows
    assert table.query(region=where.to_json(), sample=0.5).to_arrow().num_rows == table.count(
        region=where.to_dict(), sample=0.5
    )
    return result.stats.rows_read / max(rows, 1)


def test_shapes_of_space(space: tuple[kubist.Table, Columns]) -> None:
    table, at = space
    x, y, z = at["x"], at["y"], at["z"]
    from_axis = np.hypot(x - 0.5, y - 0.5)
    ball = (x - 0.4) ** 2 + (y - 0.5) ** 2 + (z - 0.6) ** 2 <= 0.3**2
    sphere = region.sphere((0.4, 0.5, 0.6), 0.3)
    assert check(table, sphere, ball) < 2
    wide = (x - 0.4) ** 2 / 0.04 + (y - 0.5) ** 2 / 0.09 + (z - 0.6) ** 2 / 0.16 <= 1
    check(table, region.ellipsoid((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), wide)
    pipe = (from_axis <= 0.2) & (z >= 0.1) & (z <= 0.9)
    cylinder = region.cylinder((0.5, 0.5, 0.1), (0.5, 0.5, 0.9), 0.2)
    assert check(table, cylinder, pipe) < 3
    tip = (from_axis <= 0.4 * (0.9 - z) / 0.8) & (z >= 0.1) & (z <= 0.9)
    check(table, region.frustum((0.5, 0.5, 0.1), (0.5, 0.5, 0.9), 0.4, 0), tip)
    check(table, region.slab({"x": 1, "y": -1}, -0.1, 0.2), (x - y >= -0.1) & (x - y <= 0.2))
    half = region.half_space({"z": 1}, {"z": 0.5})
    check(table, half, z >= 0.5)
    check(table, sphere & half, ball & (z >= 0.5))
    check(table, sphere - cylinder, ball & ~pipe)
    check(table, sphere | cylinder | half, ball | pipe | (z >= 0.5))
    check(table, ~sphere & region.box(x=(0.2, None)), ~ball & (x >= 0.2))
    check(table, sphere & region.where("mass > 0.5"), ball & (at["mass"] > 0.5))


def test_periodic_space(space: tuple[kubist.Table, Columns]) -> None:
    table, at = space

    def across(name: str, center: float) -> np.ndarray[Any, Any]:
        far = np.abs(at[name] - center)
        return np.minimum(far, 1 - far)

    corner = across("x", 0.02) ** 2 + across("y", 0.99) ** 2 + across("z", 0.5) ** 2 <= 0.2**2
    ball = region.sphere((0.02, 0.99, 0.5), 0.2).periodic(x=1, y=1, z=1)
    assert check(table, ball, corner) < 4
    seam = region.box(x=(0.95, 1.05), y=(0, 0.5)).periodic(x=1)
    inside = ((at["x"] >= 0.95) | (at["x"] <= 0.05)) & (at["y"] <= 0.5)
    assert check(table, seam, inside) < 2
    check(table, region.box(x=(0.3, 1.4)).periodic(x=1), at["x"] >= 0)


def test_polygons_against_shapely(space: tuple[kubist.Table, Columns]) -> None:
    shapely = pytest.importorskip("shapely")
    table, at = space
    points = shapely.points(at["x"], at["y"])
    star = [
        (0.5 + r * math.cos(a), 0.5 + r * math.sin(a))
        for a, r in zip(
            np.linspace(0, 2 * math.pi, 40, endpoint=False), [0.45, 0.2] * 20, strict=True
        )
    ]
    with_hole = shapely.Polygon(star, [shapely.Point(0.5, 0.5).buffer(0.1).exterior.coords[::-1]])
    both = shapely.MultiPolygon([with_hole, shapely.box(0.9, 0.9, 0.99, 0.99)])
    for shape in (shapely.Polygon(star), with_hole, both, shapely.box(0.1, 0.1, 0.3, 0.2)):
        expected = shapely.covers(shape, points)
        check(table, region.polygon(shape), expected)
        low = region.polygon(json.loads(shapely.to_geojson(shape)), z=(None, 0.5))
        check(table, low, expected & (at["z"] <= 0.5))
    with pytest.raises(kubist.InvalidInput, match="crosses or touches itself"):
        table.count(region=region.polygon([(0, 0), (1, 1), (1, 0), (0, 1)]))
    with pytest.raises(kubist.InvalidInput, match="not a Point"):
        region.polygon(shapely.Point(0, 0))


def apart(at: Columns, ra: float, dec: float) -> np.ndarray[Any, Any]:
    """The separation by Vincenty's formula in degrees."""
    to, up, up0 = np.radians(at["ra"] - ra), np.radians(at["dec"]), math.radians(dec)
    across = np.hypot(
        np.cos(up) * np.sin(to),
        math.cos(up0) * np.sin(up) - math.sin(up0) * np.cos(up) * np.cos(to),
    )
    along = math.sin(up0) * np.sin(up) + math.cos(up0) * np.cos(up) * np.cos(to)
    return np.degrees(np.arctan2(across, along))


@pytest.mark.parametrize("center", [(83.6, 22), (0.2, -40), (10, 89), (200, -90), (359.9, 0)])
@pytest.mark.parametrize("radius", [2, 15, 100])
def test_cones(
    sky: tuple[kubist.Table, Columns], center: tuple[float, float], radius: float
) -> None:
    table, at = sky
    cone = region.cone(*center, radius)
    examined = check(table, cone, apart(at, *center) <= radius)
    assert examined < (3 if radius > 10 else 40)


def test_shapes_of_the_sky(sky: tuple[kubist.Table, Columns]) -> None:
    table, at = sky
    pole = (192.86, 27.13)
    plane = np.abs(90 - apart(at, *pole)) <= 10
    check(table, region.band(pole, -10, 10), plane)
    # A cap is the limit of polygons around a pole.
    turns = np.linspace(0, 360, 90, endpoint=False)
    cap = region.sky_polygon([(float(ra), 70.0) for ra in turns])
    border = np.degrees(
        np.arctan(
            math.tan(math.radians(70))
            * np.cos(np.radians(at["ra"] % 4 - 2))
            / math.cos(math.radians(2))
        )
    )
    check(table, cap, at["dec"] >= border)
    check(
        table,
        region.cone(0, 0, 30) - region.cone(0, 0, 20),
        (apart(at, 0, 0) <= 30) & (apart(at, 0, 0) > 20),
    )
    found = table.query(
        columns=["healpix(ra, dec, 4) AS cell", "separation(ra, dec, 1, 2) AS far"]
    ).to_numpy()
    assert set(np.unique(found["cell"])) == set(range(192))
    np.testing.assert_allclose(np.sort(found["far"]), np.sort(apart(at, 1, 2)), atol=1e-12)
    cells = [0, 5, 100, 191]
    inside = int(np.isin(found["cell"], cells).sum())
    assert table.count(region=region.healpix(4, cells)) == inside
    assert table.count(region=region.moc("2/0,5 2/100 2/191")) == inside
    groups = table.estimate("count()", group_by="healpix(ra, dec, 4) AS cell").to_pandas()
    assert len(groups) == 192


def test_the_sky_against_astropy(sky: tuple[kubist.Table, Columns]) -> None:
    coordinates = pytest.importorskip("astropy.coordinates")
    units = pytest.importorskip("astropy.units")
    table, at = sky
    crab = coordinates.SkyCoord("05h34m31.94s", "+22d00m52.2s")
    stars = coordinates.SkyCoord(at["ra"], at["dec"], unit="deg")
    near = stars.separation(crab).deg <= 12
    for cone in (
        region.cone(crab, 12 * units.deg),
        region.cone("05:34:31.94", "+22:00:52.2", "12 deg"),
        region.cone("05h34m31.94s", "22d0m52.2s", "720 arcmin"),
        region.cone("5.575538888888889h", 22.0145, 12),
    ):
        check(table, cone, near)
    found = table.query(columns=["ra", "dec", "separation(ra, dec, 83.6, 22) AS far"]).to_numpy()
    stars = coordinates.SkyCoord(found["ra"], found["dec"], unit="deg")
    expected = stars.separation(coordinates.SkyCoord(83.6, 22, unit="deg")).deg
    np.testing.assert_allclose(found["far"], expected, atol=1e-11)


def test_cells_against_astropy_healpix(sky: tuple[kubist.Table, Columns]) -> None:
    healpix = pytest.importorskip("astropy_healpix")
    table, _ = sky
    for nside in (1, 16, 2**20):
        found = table.query(columns=["ra", "dec", f"healpix(ra, dec, {nside}) AS cell"]).to_numpy()
        grid = healpix.HEALPix(nside, order="nested")
        cells = grid.lonlat_to_healpix(
            found["ra"] * healpix.core.u.deg, found["dec"] * healpix.core.u.deg
        )
        np.testing.assert_array_equal(found["cell"], cells)


def test_every_query_takes_a_region(space: tuple[kubist.Table, Columns], tmp_path: Path) -> None:
    table, at = space
    ball = region.sphere((0.4, 0.5, 0.6), 0.3)
    inside = (at["x"] - 0.4) ** 2 + (at["y"] - 0.5) ** 2 + (at["z"] - 0.6) ** 2 <= 0.3**2
    rows = int(inside.sum())
    assert table.snapshot().count(region=ball) == rows
    whole = table.estimate("sum(mass)", region=ball, sample=1).value
    assert whole == pytest.approx(at["mass"][inside].sum(dtype="f8"))
    near = table.estimate("count()", region=ball, error=0.05)
    assert near.low * 0.9 <= rows <= near.high * 1.1
    assert sum(part.to_arrow().num_rows for part in table.refine(region=ball)) == rows
    parts = table.splits(4, region=ball)
    assert sum(part.to_arrow().num_rows for part in parts) == rows
    assert table.scan(region=ball).collect().height == rows
    assert table.query(region=ball, limit=10).to_arrow().num_rows == 10
    assert f"{rows:,} records" in str(table.explain(region=ball))
    table.plot("x", "y", region=ball).save(tmp_path / "ball.png")
    both = table.query(region=ball, box={"x": (0.3, 0.4)}, where="mass > 0.5").to_arrow().num_rows
    assert both == int((inside & (at["x"] >= 0.3) & (at["x"] <= 0.4) & (at["mass"] > 0.5)).sum())


def test_the_command_takes_json_or_a_file(
    space: tuple[kubist.Table, Columns], tmp_path: Path
) -> None:
    table, _ = space
    ball = region.sphere((0.4, 0.5, 0.6), 0.3)
    path = tmp_path / "ball.json"
    path.write_text(ball.to_json())
    for given in (ball.to_json(), str(path)):
        asked = [str(COMMAND), "query", str(table.location), "--count", "--region", given]
        said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        assert int(said.replace(",", "").split()[0]) == table.count(region=ball)


@pytest.mark.parametrize(
    ("made", "mistake"),
    [
        (lambda: region.sphere((math.nan, 0, 0), 1), "the center along x is nan"),
        (lambda: region.sphere((0, 0, 0, 0), 1), "name the columns"),
        (lambda: region.sphere((0, 0, 0), -1), "must not be negative"),
        (lambda: region.sphere({"far": 0}, 1), "no column"),
        (lambda: region.cone(1, 2), "position and a radius|cannot unpack|not iterable"),
        (lambda: region.cone(1, 92, 1), "latitude"),
        (lambda: region.cone("05:61:00", 2, 1), "60 minutes"),
        (lambda: region.cone(1, 2, "3 parsec"), "arcmin"),
        (lambda: region.healpix(3, [1]), "a power of two"),
        (lambda: region.moc("3/768"), "no cells of order 3"),
        (lambda: {"sphere": {}, "box": {}}, "expected a kubist.region"),
        (lambda: "sphere", "is no JSON"),
        (lambda: {"ball": {}}, "unknown variant `ball`"),
        (lambda: region.sphere((0, 0, 0), 0.6).periodic(x=1), "above half of the period"),
    ],
)
def test_mistakes_are_refused_by_name(
    space: tuple[kubist.Table, Columns], sky: tuple[kubist.Table, Columns], made: Any, mistake: str
) -> None:
    with pytest.raises((kubist.InvalidInput, TypeError), match=mistake):
        found = made()
        table = sky[0] if "cone" in str(found) or "moc" in str(found) else space[0]
        table.count(region=found)


def test_regions_are_values() -> None:
    ball = region.sphere((0, 0), 1)
    assert ball.to_dict() == {"sphere": {"center": {"x": 0.0, "y": 0.0}, "radius": 1.0}}
    assert json.loads((ball | ball | ~ball).to_json())["union"][2] == {"complement": ball.to_dict()}
    assert ball == region.sphere((0, 0), 1.0)
    assert hash(ball) == hash(region.sphere((0, 0), 1))
    assert region.box(n=7, day=np.datetime64("2020-01-31").item()).to_dict() == {
        "box": {"n": [7, 7], "day": ["2020-01-31", "2020-01-31"]}
    }


CRAB = (83.63291667, 22.01444444)


@pytest.mark.parametrize(
    "center",
    [
        CRAB,
        ("05h34m31.9s", "+22d00m52s"),
        ("5:34:31.9", "22:00:52"),
        ("05 34 31.9", "+22 00 52"),
        ("83.63291667d", "22.01444444 deg"),
        ("5.57552778h", 22.01444444),
        ("5.57552778 hourangle", "1320.8666664 arcmin"),
    ],
)
def test_cones_take_positions_as_people_write_them(center: tuple[Any, Any]) -> None:
    cone = kubist.cone(*center, "3 mas").to_dict()["cone"]
    assert cone["center"] == pytest.approx(CRAB, abs=1e-7)
    assert cone["radius"] == pytest.approx(3 / 3.6e6, rel=1e-15)
    assert (
        region.to_dict({"cone": {"center": center, "radius": "3 mas"}})["cone"]["center"]
        == cone["center"]
    )
    nested = region.to_dict(
        {"union": [{"cone": {"center": center, "radius": "1 arcsec"}}, kubist.cone(0, 0, 1)]}
    )
    assert nested["union"][0]["cone"]["center"] == cone["center"]


@pytest.mark.parametrize("longitude", ["25h", "25 hourangle", "25:00:00", "24h00m01s", "-25h"])
def test_more_hours_than_a_day_are_a_mistake(longitude: str) -> None:
    with pytest.raises(kubist.InvalidInput, match="hours, not -24 to 24"):
        kubist.cone(longitude, 0, 1)
    assert kubist.cone("24h", 0, 1).to_dict()["cone"]["center"] == [360, 0]
    assert kubist.cone("375d", 0, 1).to_dict()["cone"]["center"] == [375, 0]


def test_cones_take_positions_of_astropy() -> None:
    coordinates = pytest.importorskip("astropy.coordinates")
    units = pytest.importorskip("astropy.units")
    crab = coordinates.SkyCoord("05h34m31.9s", "+22d00m52s")
    for cone in (
        kubist.cone(crab, 3 * units.mas),
        kubist.cone(crab.ra, crab.dec, coordinates.Angle("0.003s")),
        kubist.cone(5.57552778 * units.hourangle, CRAB[1] * units.deg, "3 mas"),
        kubist.cone(crab.galactic, "3 mas"),
    ):
        value = cone.to_dict()["cone"]
        assert value["center"] == pytest.approx(CRAB, abs=1e-7)
        assert value["radius"] == pytest.approx(3 / 3.6e6, rel=1e-9)


def test_a_small_cone_has_the_star_at_its_center(sky: tuple[kubist.Table, Columns]) -> None:
    table, at = sky
    for row in [0, 1, *range(2, ROWS, ROWS // 40)]:
        found = table.query(
            region=kubist.cone(float(at["ra"][row]), float(at["dec"][row]), "3 mas")
        )
        assert found.to_arrow().num_rows == 1, (at["ra"][row], at["dec"][row])


def test_a_table_declares_its_sphere(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    turned = {"l": random.random(2000) * 360, "b": random.uniform(-90, 90, 2000)}
    table = kubist.create(tmp_path / "t", turned, ["l", "b"], sphere=("l", "b"))
    assert table.sphere == ("l", "b") and table.period == {"l": 360.0}
    assert table.info().sphere == ["l", "b"] and "sphere" in repr(table.info())
    at = {"ra": turned["l"], "dec": turned["b"]}
    cone = kubist.cone(0.5, 30, 20)
    assert table.count(region=cone) == (apart(at, 0.5, 30) <= 20).sum()
    wide = (turned["l"] >= 350) | (turned["l"] <= 10)
    assert table.count(box={"l": (350, 370)}) == wide.sum()
    assert table.copy_to(tmp_path / "u").sphere == ("l", "b")
    radians = {name: np.radians(values) for name, values in turned.items()}
    units = {"l": "rad", "b": "rad"}
    kubist.create(tmp_path / "r", radians, ["l", "b"], units=units, sphere=("l", "b")).close()
    with kubist.open(tmp_path / "r") as other:
        assert other.period == {"l": pytest.approx(2 * math.pi)}
        assert other.count(region=cone) == table.count(region=cone)
    around = {"l": (turned["l"] + 180) % 360 - 180, "b": turned["b"]}
    half = {"l": (-180, 180)}
    with kubist.create(tmp_path / "h", around, ["l", "b"], period=half, sphere=("l", "b")) as other:
        assert other.count(box={"l": (350, 370)}) == wide.sum()
    for wrong, said in (
        ({"sphere": ("l",)}, "the columns of longitude and latitude"),
        ({"sphere": ("l", "l")}, "both longitude and latitude"),
        ({"sphere": ("l", "w")}, "w"),
        ({"sphere": ("l", "b"), "period": {"l": 24}}, "has the period 24, and a turn is 360"),
        ({"sphere": ("l", "b"), "units": {"l": "m"}}, "m"),
    ):
        with pytest.raises(kubist.InvalidInput, match=said):
            kubist.create(tmp_path / "w", turned, ["l", "b"], **wrong)


def test_cones_are_as_cheap_at_the_poles_and_across_0h(tmp_path: Path) -> None:
    random = np.random.default_rng(9)
    rows = 400_000
    at = {
        "ra": random.random(rows) * 360,
        "dec": np.degrees(np.arcsin(random.uniform(-1, 1, rows))),
    }
    table = kubist.create(tmp_path / "t", at, ["ra", "dec"], capacity=512, sphere=("ra", "dec"))
    radius = math.degrees(math.acos(1 - 2 * 20_000 / rows))

    def examined(ra: float, dec: float) -> float:
        explained = table.explain(region=kubist.cone(ra, dec, radius))
        assert explained.stats.rows_returned == (apart(at, ra, dec) <= radius).sum()
        return explained.examined_per_row

    elsewhere = max(examined(100, 0), examined(180, 30), examined(45, -45))
    assert elsewhere < 1.5
    for ra, dec in ((0, 0), (359.99, 40), (10, 90), (0, -90), (77, 89), (200, 80)):
        assert examined(ra, dec) < 1.2 * elsewhere, (ra, dec)
    # Metadata counts rows inside, so only those near the border are read.
    explained = table.explain(region=kubist.cone(100, 0, 60), columns=[])
    assert explained.examined_per_row < 0.4


def test_explain_shows_a_region_and_its_bounds(space: tuple[kubist.Table, Columns]) -> None:
    table, _ = space
    ball = region.sphere((0.5, 0.5, 0.5), 0.25)
    explained = table.explain(region=ball)
    assert json.loads(explained.plan["shape"]) == ball.to_dict()
    for (name, low, high), own in zip(explained.plan["bounds"], "xyz", strict=True):
        assert name == own and (low, high) == pytest.approx((0.25, 0.75), abs=1e-9)
    command = [COMMAND, "explain", table.location, "--region", ball.to_json()]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert 'shape         {"sphere"' in text and "bounds        x 0.2" in text


def test_regions_over_many_runs(tmp_path: Path) -> None:
    random = np.random.default_rng(10)
    at = {name: random.random(4000) for name in "xyz"}
    for number in (0, 1):
        rows = {name: values[number::2] for name, values in at.items()}
        kubist.create(tmp_path / f"run{number}", rows, ["x", "y"]).close()
    runs = kubist.open_many(str(tmp_path / "run*"))
    ball = region.sphere((0.5, 0.5, 0.5), 0.4)
    squares = sum((at[name] - 0.5) ** 2 for name in "xyz")
    inside = int((squares <= 0.4**2).sum())
    assert runs.count(region=ball) == inside
    assert runs.query(region=ball, columns=["x"]).to_arrow().num_rows == inside
    assert runs.estimate("count()", region=ball).low <= inside
    with kubist.open(tmp_path / "run1") as other:
        other.set_unit("x", "m")
    with kubist.open(tmp_path / "run0") as other:
        other.set_unit("x", "cm")
    runs = kubist.open_many(str(tmp_path / "run*"))
    with pytest.raises(kubist.InvalidInput, match="column x of run run1 has another unit"):
        runs.count(region=region.box(x=(0, 1)))


def test_regions_of_indexed_files(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("scipy.io")
    random = np.random.default_rng(11)
    file = netcdf.netcdf_file(tmp_path / "a.nc", "w")
    file.createDimension("n", 5000)
    values = {name: random.random(5000) for name in "xyz"}
    for name, column in values.items():
        file.createVariable(name, "d", ("n",))[:] = column
    file.close()
    files = kubist.index(tmp_path / "a.nc")
    ball = region.sphere((0.5, 0.5, 0.5), 0.3)
    squares = sum((values[name] - 0.5) ** 2 for name in "xyz")
    inside = int((squares <= 0.3**2).sum())
    assert files.count(region=ball) == inside
    assert files.query(region=ball.to_dict(), where="x > 0.5").to_arrow().num_rows == int(
        ((squares <= 0.3**2) & (values["x"] > 0.5)).sum()
    )
    assert files.estimate("count()", region=ball).low <= inside
    command = [
        COMMAND,
        "query",
        str(tmp_path / "a.nc"),
        "--region",
        ball.to_json(),
        "--columns",
        "x",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len(text.split()) == inside + 1
