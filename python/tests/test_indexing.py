"""Queries of indexed files give numpy's results on the data that their library reads."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from arrays import Variable, World, netcdf3, seeds, world
from servers import COMMAND

import kubist

pa = pytest.importorskip("pyarrow")


def has_h5py() -> bool:
    try:
        import h5py  # noqa: F401
    except ImportError:
        return False
    return True


KINDS = [
    "npy",
    "netcdf3",
    pytest.param("hdf5", marks=pytest.mark.skipif(not has_h5py(), reason="h5py is not installed")),
]
ENDINGS = {"npy": "npy", "netcdf3": "nc", "hdf5": "h5"}


def numbers(variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    values = variable.values
    there = ~variable.missing
    if values.dtype.kind == "f":
        there &= ~np.isnan(values)
    return values, there


def question(rng: np.random.Generator, made: World) -> tuple[str, np.ndarray]:
    names = [name for name in made.variables if name in ("a", "b", made.path.stem)]
    main = made.variables[names[0]]
    shape = main.stored.shape

    def compared(name: str) -> tuple[str, np.ndarray]:
        values, there = numbers(made.variables[name])
        pool = values[there]
        if pool.size == 0:
            return f'"{name}" > 0', np.zeros(values.shape, bool)
        bound = pool[rng.integers(0, pool.size)]
        if not np.isfinite(bound):
            bound = 0
        # Exact text, because a literal is rounded to the column's type.
        text = repr(float(bound)) if values.dtype.kind == "f" else str(int(bound))
        number = values.dtype.type(bound)
        sign = rng.choice([">", "<=", "=", "<>", "NOT >"])
        with np.errstate(invalid="ignore"):
            found = {
                ">": values > number,
                "<=": values <= number,
                "=": values == number,
                "<>": values != number,
                "NOT >": ~(values > number),
            }[sign]
        return (
            f'NOT "{name}" > {text}' if sign == "NOT >" else f'"{name}" {sign} {text}',
            found & there,
        )

    text, found = compared(names[0])
    pick = rng.integers(0, 6)
    if pick == 1:
        other, also = compared(names[-1])
        text, found = f"({text}) AND ({other})", found & also
    elif pick == 2:
        other, also = compared(names[-1])
        text, found = f"({text}) OR ({other})", found | also
    elif pick == 3:
        text, found = f'"{names[0]}" IS NULL', main.missing
    elif pick == 4:
        axis = int(rng.integers(0, len(shape)))
        # Axes of HDF5 have the names of their scales, those of netCDF their own names.
        is_named = main.axes[axis] in made.variables or made.path.suffix == ".nc"
        name = main.axes[axis] if is_named else f"dim{axis}"
        bound = int(rng.integers(0, shape[axis] + 1))
        low = np.indices(shape)[axis] < bound
        text, found = f'({text}) AND "{name}_index" < {bound}', found & low
    elif pick == 5 and "c" in made.variables:
        other, also = compared("c")
        text, found = f"({text}) AND ({other})", found & np.broadcast_to(also, shape)
    return text, found


def positions(table: Any, shape: tuple[int, ...]) -> np.ndarray:
    columns = [name for name in table.column_names if name.endswith("_index")]
    own = [np.asarray(table[name]) for name in columns]
    return np.ravel_multi_index(own, shape) if len(table) else np.zeros(0, int)


@pytest.mark.parametrize("kind", KINDS)
def test_random_files_answer_as_numpy_does(tmp_path: Path, kind: str) -> None:
    for seed in seeds():
        rng = np.random.default_rng([seed, 1])
        made = world(tmp_path / f"w{seed}.{ENDINGS[kind]}", seed, kind)
        names = [name for name in made.variables if name in ("a", "b", made.path.stem)]
        main = made.variables[names[0]]
        shape = main.stored.shape
        block = str(rng.choice(["64", "256", "4KiB", "64KiB", "x".join(["3"] * len(shape))]))
        share = float(rng.choice([0, 0.05, 0.5, 1]))
        # A single number is not a shape.
        block = block if block != "3" else "64"
        indexed = kubist.index(made.path, block=block, sorted=share)
        for _ in range(6):
            text, found = question(rng, made)
            case = f"{kind} {seed}: {text}, blocks {block}, sorted {share}"
            expected = np.flatnonzero(found)
            try:
                table = indexed.query(where=text).to_arrow()
            except kubist.Error as error:
                raise AssertionError(case) from error
            if kind == "npy":
                table = table.select(
                    sorted(n for n in table.column_names if n.endswith("_index"))
                    + [n for n in table.column_names if not n.endswith("_index")]
                )
            at = positions(table, shape)
            order = np.argsort(at)
            assert np.array_equal(at[order], expected), case
            for name in names:
                if name in table.column_names:
                    values, missing = made.variables[name].values, made.variables[name].missing
                    got = table[name].combine_chunks().take(pa.array(order))
                    assert np.array_equal(got.is_null(), missing.ravel()[expected]), case
                    there = ~missing.ravel()[expected]
                    left = np.asarray(got.filter(pa.array(there)))
                    right = values.ravel()[expected][there]
                    assert np.array_equal(left, right, equal_nan=right.dtype.kind == "f"), case
            for axis, label in enumerate(main.axes):
                if label in table.column_names and label in made.variables:
                    own = np.unravel_index(expected, shape)[axis]
                    got = np.asarray(table[label])[order]
                    assert np.array_equal(got, made.variables[label].values[own]), case
            assert indexed.count(where=text) == expected.size, case
            costs = indexed.explain(where=text, sorted=False)
            assert costs.rows == expected.size, case


def classic(path: Path, values: np.ndarray, name: str = "a") -> None:
    axes = ("time", "y", "x")[: values.ndim]
    netcdf3(path, {name: Variable(values, axes)}, axes[0], 5)


def test_samples_are_nested_and_the_same_in_all_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for name in ("one.nc", "two.nc"):
        classic(tmp_path / name, rng.random((20, 30, 40)).astype("f4"))
    both = kubist.index([tmp_path / "one.nc", tmp_path / "two.nc"])

    def sample(share: float | None, **asked: Any) -> dict[str, set[tuple[int, ...]]]:
        table = both.query(where="a >= 0", sample=share, **asked).to_arrow()
        rows = zip(*(table[name].to_pylist() for name in table.column_names[:4]), strict=True)
        found: dict[str, set[tuple[int, ...]]] = {}
        for file, *at in rows:
            found.setdefault(Path(file).name, set()).add(tuple(at))
        return found

    few, many = sample(0.01), sample(0.1)
    assert few["one.nc"] == few["two.nc"] and few["one.nc"] < many["one.nc"]
    # 24,000 positions: five standard deviations around the fraction.
    assert abs(len(many["one.nc"]) - 2400) < 5 * (2400 * 0.9) ** 0.5
    assert sum(map(len, sample(None, limit=77).values())) == 77
    limited = sample(None, limit=len(few["one.nc"]) * 2)
    assert limited == few


def test_isel_and_box_are_conditions(tmp_path: Path) -> None:
    values = np.arange(24 * 30, dtype="f4").reshape(24, 30)
    lat = Variable(np.linspace(-60, 55, 24), ("lat",))
    netcdf3(tmp_path / "f.nc", {"a": Variable(values, ("lat", "lon")), "lat": lat}, None, 1)
    files = kubist.index(tmp_path / "f.nc")
    table = files.query(isel={"lon": slice(3, 5), "lat": 7}, columns=["a"]).to_arrow()
    assert table["a"].to_pylist() == values[7, 3:5].tolist()
    table = files.query(box={"lat": (-10, 10)}, columns=["a", "lat_index"]).to_arrow()
    inside = np.flatnonzero(np.abs(lat.stored) <= 10)
    assert table["a"].to_pylist() == values[inside].ravel().tolist()
    for mistake in ({"isel": {"nowhere": 1}}, {"isel": {"lat": slice(0, 9, 2)}}, {"box": {"x": 1}}):
        with pytest.raises(kubist.InvalidInput):
            files.query(columns=["a"], **mistake)
    assert files.columns == files.schema.names == ["a", "lat", "lat_index", "lon_index"]
    assert files.info()["files"] == 1 and files.units == {}
    assert files.head(3, columns=["a"]).to_arrow().num_rows == 3
    picture = files.plot("lon_index", "lat", "a", box={"lat": (0, None)}, size=(300, 200))
    assert picture.caption.startswith("360 of 360 points") or "360 points" in picture.caption


def test_measured_costs_lie_on_the_models_line(tmp_path: Path) -> None:
    """For minima and maxima: the model ignores that a block whose bounds enclose a range may have
    no value inside.
    """
    rng = np.random.default_rng(11)
    count, rounds = 1 << 20, 12
    files = []
    for place in range(rounds):
        np.save(tmp_path / f"v{place}.npy", rng.permutation(count).astype("f4"))
        files.append(kubist.index(tmp_path / f"v{place}.npy", block="256"))
    for selectivity in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        hits = max(round(selectivity * count), 1)
        for gap in (0, 700):
            measured, line = np.zeros(3), np.zeros(3)
            for place, each in enumerate(files):
                for text in (f"v{place} < {hits}", f"v{place} >= {count - hits}"):
                    costs = each.explain(where=text, gap=gap)
                    assert costs.rows == hits
                    measured += (costs.blocks_read, costs.bytes, costs.requests)
                    line += [costs.expected[name] for name in ("blocks", "bytes", "requests")]
            assert np.abs(measured / line - 1).max() < 0.02, (selectivity, gap, measured, line)


def test_sorted_copies_are_read_instead_of_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    np.save(tmp_path / "v.npy", rng.normal(0, 1, 1 << 18).astype("f4"))
    files = kubist.index(tmp_path / "v.npy", sorted=1.0)
    plain = files.explain(where="v > 3.5", sorted=False)
    in_order = files.explain(where="v > 3.5")
    assert in_order.rows == plain.rows > 0
    assert in_order.blocks_read == 0 and in_order.blocks_sorted == plain.blocks_read
    assert in_order.sorted_bytes * 10 < plain.bytes
    some = kubist.index(tmp_path / "v.npy", sorted=0.5)
    assert 0 < some.explain(where="v > 3.5").blocks_sorted < plain.blocks_read
    positions = some.query(where="v > 3.5").to_arrow()["dim0_index"].to_pylist()
    assert positions == sorted(positions)
    # Other settings stay.
    assert kubist.index(tmp_path / "v.npy").explain(where="v > 3.5").blocks_sorted > 0


def test_a_file_that_changed_is_refused_until_it_is_indexed_anew(tmp_path: Path) -> None:
    path = tmp_path / "grows.nc"
    values = np.arange(4000, dtype="f8").reshape(40, 100)
    classic(path, values[:30])
    files = kubist.index(path, block="64")
    classic(path, values)
    with pytest.raises(kubist.Refused, match="not the file that was indexed"):
        files.count(where="a > 5")
    with pytest.raises(kubist.Refused, match="--refresh"):
        kubist.index(path, block="64")
    again = kubist.index(path, block="64", refresh=True)
    assert again.count(where="a >= 2990") == 1010
    # Changed in place and grown: the old index is not valid.
    values[:30] += 10_000
    classic(path, np.vstack([values, values[:1]]))
    assert kubist.index(path, block="64", refresh=True).count(where="a >= 10000") == 3100


def test_an_ensemble_reads_the_files_that_matter(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for member in range(50):
        values = rng.random((4, 200)).astype("f4")
        if member == 31:
            values[2, 7] = 9
        classic(tmp_path / f"m{member:02}.nc", values)
    files = kubist.index(str(tmp_path / "m*.nc"))
    result = files.query(where="a > 8")
    table = result.to_arrow()
    assert [Path(name).name for name in table["file"].to_pylist()] == ["m31.nc"]
    assert (table["time_index"].to_pylist(), table["y_index"].to_pylist()) == ([2], [7])
    assert result.costs.files == 50 and result.costs.files_read == 1


def test_files_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    classic(tmp_path / "a.nc", np.zeros((3, 4), "f4"))
    classic(tmp_path / "wide.nc", np.zeros((3, 5), "f4"))
    classic(tmp_path / "other.nc", np.zeros((3, 4), "f4"), "b")
    classic(tmp_path / "long.nc", np.ones((7, 4), "f4"))
    for name, what in (("wide.nc", "shapes"), ("other.nc", "same variables")):
        with pytest.raises(kubist.InvalidInput, match=what):
            kubist.index([tmp_path / "a.nc", tmp_path / name])
    assert kubist.index([tmp_path / "a.nc", tmp_path / "long.nc"]).count(where="a >= 0") == 40


def test_hostile_indices_and_headers_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "h.nc"
    rng = np.random.default_rng(9)
    classic(path, rng.random((30, 40)).astype("f4"))
    files = kubist.index(path, block="256", sorted=0.5)
    expected = files.count(where="a > 0.5")
    sidecar = tmp_path / "h.nc.kubix"
    sound = sidecar.read_bytes()
    for cut in (0, 1, 60, 119, 120, len(sound) // 2, len(sound) - 1):
        sidecar.write_bytes(sound[:cut])
        with pytest.raises(kubist.Error):
            kubist.index(path, block="256", sorted=0.5)
    for place in rng.integers(0, len(sound), 300):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << rng.integers(0, 8)
        sidecar.write_bytes(damaged)
        try:
            files = kubist.index(path, block="256", sorted=0.5)
            assert files.query(where="a > 0.5").to_arrow().num_rows == expected
        except kubist.Error:
            pass
    # A newer version, so upgrading helps.
    sidecar.write_bytes(sound[:8] + (99).to_bytes(4, "little") + sound[12:])
    with pytest.raises(kubist.NewerFormat):
        kubist.index(path)
    sidecar.unlink()
    data = path.read_bytes()
    for place in range(0, 200):
        for flip in (0x01, 0x7F, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            try:
                kubist.index(path, into=tmp_path / "..", block="256").count(where="a > 0.5")
            except kubist.Error:
                pass
            (tmp_path / ".." / "h.nc.kubix").unlink(missing_ok=True)


@pytest.mark.skipif(not has_h5py(), reason="h5py is not installed")
def test_a_damaged_chunk_is_named_and_the_rest_answers(tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (100,), "compression": "gzip", "fletcher32": True}
        file.create_dataset("a", data=np.arange(1000, dtype="f4"), **options)
        offset = file["a"].id.get_chunk_info(4).byte_offset
    with path.open("r+b") as file:
        file.seek(offset + 5)
        file.write(b"\xff\xff\xff")
    # Unreadable blocks get no sorted copy.
    kubist.index(path, sorted=1.0)
    files = kubist.index(path)
    assert "chunk 4 of variable" in files.info()["damaged"][0]
    with pytest.raises(kubist.Damaged, match="d.h5.*chunk 4 of variable"):
        files.query(where="a < 450")
    result = files.query(where="a < 450", skip_damaged=True)
    assert result.to_arrow().num_rows == 400
    assert "chunk 4" in result.costs.damaged[0]


@pytest.mark.skipif(not has_h5py(), reason="h5py is not installed")
def test_hostile_hdf5_ends_no_process(tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.arange(500, dtype="f8"), chunks=(50,), compression="gzip")
    data = path.read_bytes()
    rng = np.random.default_rng(4)
    for _ in range(max(len(seeds()) // 2, 4)):
        damaged = bytearray(data)
        for place in rng.integers(8, min(len(data), 3000), 4):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            kubist.index(path).count(where="a > 3")
        except kubist.Error:
            pass
        (tmp_path / "f.h5.kubix").unlink(missing_ok=True)


def test_what_cannot_be_indexed_says_why(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("hello")
    with pytest.raises(kubist.InvalidInput, match="cannot be indexed"):
        kubist.index(text)
    with pytest.raises(kubist.NotATable, match="does not exist"):
        kubist.index(tmp_path / "nowhere.nc")
    classic(tmp_path / "a.nc", np.zeros((3, 4), "f4"))
    with pytest.raises(kubist.InvalidInput, match='no variable "b"; there are a'):
        kubist.index(tmp_path / "a.nc", variables=["b"])
    with pytest.raises(kubist.InvalidInput, match="not a block size"):
        kubist.index(tmp_path / "a.nc", block="7 apples")


def test_engines_read_files_as_datasets(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = np.arange(6000, dtype="f8").reshape(60, 100)
    classic(tmp_path / "a.nc", values)
    cloud = kubist.index(tmp_path / "a.nc", block="256").to_dataset(columns=["a", "y_index"])
    text = "SELECT count(*), sum(a) FROM cloud WHERE a > 5900 AND y_index < 50"
    found = duckdb.from_arrow(cloud).query("cloud", text).fetchall()
    inside = values[:, :50][values[:, :50] > 5900]
    assert found == [(inside.size, inside.sum())]


def test_xarray_selects_what_the_index_finds(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf", reason="xarray reads netCDF-4 through h5netcdf")
    import kubist.xarray

    rng = np.random.default_rng(1)
    made = xarray.Dataset(
        {"t": (("lat", "lon"), rng.normal(280, 20, (40, 60)))},
        coords={"lat": np.linspace(-80, 80, 40), "lon": np.arange(60.0)},
    )
    made.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "x.nc", engine="h5netcdf") as data:
        warm = data.isel(data.kubist.where("t > 310"))
        expected = data["t"].values[data["t"].values > 310]
        assert np.array_equal(warm["t"].values, expected)
        assert warm["t"].dims == ("record",)
        with pytest.raises(kubist.InvalidInput, match="all of its file"):
            data.isel(lat=slice(3, 9)).kubist.where("t > 310")
        for turned in (data.sortby("lat", ascending=False), data.roll(lon=5, roll_coords=True)):
            with pytest.raises(kubist.InvalidInput, match="not in the order of its file"):
                turned.kubist.where("t > 310")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(COMMAND), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_indexes_and_asks(tmp_path: Path) -> None:
    path = tmp_path / "sea.nc"
    values = np.arange(200_000, dtype="f4").reshape(50, 4000)
    classic(path, values)
    scanned = run("query", path, "--where", "a >= 199990", "--format", "csv")
    assert scanned.returncode == 0, scanned.stderr
    assert scanned.stdout.splitlines()[1] == "49,3990,199990.0"
    assert "would have skipped 92.3 %" in scanned.stderr
    built = run("index", path)
    assert built.returncode == 0 and "sea.nc.kubix" in built.stdout, built.stderr
    indexed = run("query", path, "--where", "a >= 199990", "--format", "csv")
    assert indexed.stdout == scanned.stdout and "1 of 13 blocks" in indexed.stderr
    count = run("query", path, "--where", "a < 70", "--count", "--json")
    assert json.loads(count.stdout) == {"count": 70}
    assert "is already up to date" in run("index", path).stdout
    into = run("index", path, "--into", tmp_path, "--sorted", "50%", "--json")
    assert json.loads(into.stdout)[0]["is_new"]
    advice = run("index", path, "--advise", "1e-4")
    assert advice.returncode == 0 and "fastest first" in advice.stdout, advice.stderr
    stamp = path.stat().st_mtime_ns
    os.utime(path, ns=(1, 1))
    changed = run("query", path, "--where", "a < 70")
    assert changed.returncode == 4 and "not the file that was indexed" in changed.stderr
    os.utime(path, ns=(stamp, stamp))
    other = tmp_path / "sea2.nc"
    classic(other, values + 200_000)
    both = run(
        "query",
        path,
        other,
        path.with_name("sea.nc.kubix"),
        "--box",
        "a=199999:200001",
        "--format",
        "csv",
    )
    assert both.returncode == 0, both.stderr
    assert [line.split(",")[-1] for line in both.stdout.splitlines()[1:]] == [
        "199999.0",
        "200000.0",
        "200001.0",
    ]
    assert run("query", path, other, "--box", "y_index=:2", "--count").stdout == "300\n"
    explained = run("explain", path, "--where", "a < 70")
    assert explained.returncode == 0, explained.stderr
    assert "blocks" in explained.stdout and "expected for independent values" in explained.stdout
    assert json.loads(run("explain", path, "--where", "a < 70", "--json").stdout)["rows"] > 0
    shown = run("info", path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0].split() == [
        "variable", "type", "unit", "axes", "shape", "block"
    ]  # fmt: skip
    about = json.loads(run("info", path, "--json").stdout)
    assert "a" in [variable["name"] for variable in about["variables"]]
    mistaken = run("query", path, "--window", "0:0.1")
    assert mistaken.returncode == 2 and "--window works on tables only" in mistaken.stderr
    assert run("index", tmp_path / "nothing.nc").returncode == 3


def test_files_are_described_like_tables(tmp_path: Path) -> None:
    values = np.array([1.0, 2.0, np.nan, 5.0])
    np.save(tmp_path / "v.npy", values)
    described = kubist.index(tmp_path / "v.npy").describe()
    assert list(described) == ["v"]
    found = {name: figure.value for name, figure in described["v"].items()}
    expected = {"count": 3, "mean": 8 / 3, "std": np.std([1, 2, 5], ddof=1), "min": 1, "max": 5}
    assert {name: pytest.approx(value) for name, value in expected.items()} == {
        name: found[name] for name in expected
    }
    assert all(figure.exact for figure in described["v"].values())


def test_a_lazy_frame_of_files_pushes_down(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    values = np.arange(10_000, dtype="f8")
    np.save(tmp_path / "v.npy", values)
    files = kubist.index(tmp_path / "v.npy", block="4KiB")
    frame = files.scan()
    found = frame.filter(pl.col("v").is_between(9_000, 9_009)).select("v").collect()
    assert found["v"].to_list() == list(range(9_000, 9_010))
    assert frame.select(pl.len()).collect().item() == 10_000
    assert pl.SQLContext(f=frame).execute("SELECT sum(v) FROM f WHERE v < 3").collect().item() == 3
    with pytest.raises(kubist.InvalidInput, match="nothing"):
        files.scan(where="nothing > 1")


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_sql_joins_files_and_tables(tmp_path: Path, engine: Literal["polars", "duckdb"]) -> None:
    pytest.importorskip(engine)
    np.save(tmp_path / "v.npy", np.arange(10_000, dtype="f8"))
    files = kubist.index(tmp_path / "v.npy", block="4KiB")
    names = kubist.create(
        tmp_path / "t.kubist", {"x": np.array([3.0, 7.0]), "kind": np.array(["a", "b"])}, ["x"]
    )
    query = "SELECT kind FROM self JOIN t ON self.v = t.x ORDER BY kind"
    assert files.sql(query, engine=engine, tables={"t": names})["kind"].to_list() == ["a", "b"]
    back = "SELECT count(*) AS n FROM self JOIN f ON self.x = f.v"
    assert names.sql(back, engine=engine, tables={"f": files}).item() == 2
    assert files.sql("SELECT sum(v) AS s FROM self", engine=engine, where="v < 3").item() == 3
    with pytest.raises(kubist.InvalidInput, match="self"):
        files.sql("SELECT v FROM elsewhere", engine=engine)
