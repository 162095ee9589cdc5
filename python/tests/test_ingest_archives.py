"""Archive tables (VOTable, IPAC, ECSV, Gaia's CSV, HATS) and astropy tables, compared with astropy.

KUBIST_FORMAT_SEEDS random tables, from KUBIST_FORMAT_FIRST on.
"""

from __future__ import annotations

import gzip
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import need

import kubist

need("astropy")
from astropy import units  # noqa: E402
from astropy.io.votable import tree  # noqa: E402
from astropy.table import MaskedColumn, QTable, Table  # noqa: E402
from astropy.time import Time  # noqa: E402
from astropy.utils.masked import Masked  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))
FORMATS = {"votable": "xml", "ascii.ecsv": "ecsv", "ascii.ipac": "tbl"}


def ingested(folder: Path, file: Path, **options: Any) -> tuple[kubist.Table, kubist.Report]:
    target = folder / f"{file.name}.kubist"
    report = kubist.ingest(target, file, **options)
    return kubist.open(target), report


def random_table(rng: np.random.Generator, vectors: bool) -> Table:
    rows = int(rng.integers(1, 30))
    table = Table(
        {"source_id": np.arange(rows) + 2**60, "ra": rng.uniform(0, 360, rows) * units.deg}
    )
    table["dec"] = rng.uniform(-90, 90, rows) * units.deg
    for i in range(rng.integers(0, 6)):
        kind = rng.choice(["i2", "i4", "i8", "f4", "f8", "U", "?"])
        if kind == "U":
            values = np.array(
                ["".join(rng.choice(list("abc-é"), rng.integers(1, 6))) for _ in range(rows)]
            )
        elif kind == "?":
            values = rng.integers(0, 2, rows).astype(bool)
        elif kind[0] == "i":
            values = rng.integers(-100, 100, rows).astype(kind)
        else:
            values = rng.normal(size=rows).astype(kind)
        mask = rng.random(rows) < 0.3
        unit = rng.choice(["mas / yr", "km / s", "mag"]) if kind[0] in "if" else None
        table[f"c{i}"] = MaskedColumn(values, mask=mask, unit=unit)
    if vectors and rng.random() < 0.5:
        table["pm"] = rng.normal(size=(rows, 2)) * units.mas / units.yr
    return table


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, format: str
) -> None:
    # Astropy's VOTable writer in C (8.0) writes one byte beyond its buffer if a row fills it.
    monkeypatch.setattr(tree, "_has_c_tabledata_writer", False)
    rng = np.random.default_rng(seed)
    made = random_table(rng, vectors=format == "votable")
    if format == "ascii.ipac":
        # IPAC supports only ASCII text, and no booleans.
        made.remove_columns([n for n in made.colnames if made[n].dtype.kind in "bU"])
    file = tmp_path / f"t.{FORMATS[format]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.write(file, format=format)
        theirs = Table.read(file, format=format)
    if rng.random() < 0.3:
        packed = file.with_name(f"{file.name}.gz")
        packed.write_bytes(gzip.compress(file.read_bytes()))
        file = packed
    table, report = ingested(tmp_path, file)
    assert report.notes == []
    info = table.info()
    assert [d.column for d in info.dimensions] == ["ra", "dec"] and info.identity == ["source_id"]
    found = table.query(order_by="source_id").to_arrow().to_pydict()
    for name in theirs.colnames:
        values = np.asarray(theirs[name]).reshape(len(theirs), -1)
        mask = np.ma.getmaskarray(np.ma.asarray(theirs[name])).reshape(values.shape)
        for i in range(values.shape[1]):
            own = name if values.shape[1] == 1 else f"{name}_{i}"
            wanted = [
                None if m else v for v, m in zip(values[:, i].tolist(), mask[:, i], strict=True)
            ]
            assert [v or None if isinstance(v, str) else v for v in found[own]] == [
                v or None if isinstance(v, str) else v for v in wanted
            ], own
            if theirs[name].unit is not None:
                assert units.Unit(table.units[own]) == theirs[name].unit


GAIA = """\
# %ECSV 1.0
# ---
# delimiter: ','
# datatype:
# - {name: solution_id, datatype: int64}
# - {name: source_id, datatype: int64}
# - {name: ra, unit: deg, datatype: float64, description: Right ascension}
# - {name: dec, unit: deg, datatype: float64}
# - {name: pmra, unit: mas.yr**-1, datatype: float64}
# - {name: has_xp, datatype: bool}
# - {name: libname, datatype: string}
# - {name: xp, datatype: string, subtype: 'float64[null]'}
solution_id,source_id,ra,dec,pmra,has_xp,libname,xp
1636148068921376768,4295806720,44.99,0.0056,null,"False","null",
1636148068921376768,34361129088,45.00,0.021,5.5,"True","PHOENIX","[1.5,2]"
"""


def test_csv_of_gaia(tmp_path: Path) -> None:
    (tmp_path / "GaiaSource_000000.csv.gz").write_bytes(gzip.compress(GAIA.encode()))
    table, report = ingested(tmp_path, tmp_path / "GaiaSource_000000.csv.gz")
    found = table.query(order_by="ra").to_arrow().to_pydict()
    assert found["source_id"] == [4295806720, 34361129088] and found["pmra"] == [None, 5.5]
    assert found["has_xp"] == [False, True] and found["libname"] == [None, "PHOENIX"]
    assert table.units["ra"] == "deg" and table.units["pmra"] == "mas.yr**-1"
    (left_out,) = report.left_out.values()
    assert left_out == {"column xp": "its type float64[null] has no place in a table"}
    assert table.info().identity == ["source_id"]


def test_votable_with_more(tmp_path: Path) -> None:
    from astropy.io import votable

    document = votable.tree.VOTableFile()
    resource = votable.tree.Resource()
    document.resources.append(resource)
    for name in ("stars", "notes"):
        part = votable.from_table(Table({"ra": [1.0, 2], "dec": [3.0, 4]})).get_first_table()
        part.name = name
        resource.tables.append(part)
    document.infos.append(votable.tree.Info(name="QUERY", value="cone"))
    document.to_xml(str(tmp_path / "t.vot"))
    table, report = ingested(tmp_path, tmp_path / "t.vot")
    assert len(table) == 2 and table.metadata["votable"]["QUERY"] == "cone"
    (left_out,) = report.left_out.values()
    assert left_out == {"table 1 (notes)": "one table of a file becomes rows"}


def test_hats(tmp_path: Path) -> None:
    lsdb = need("lsdb")
    import pandas as pd

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"objid": np.arange(500), "ra": rng.uniform(0, 360, 500), "dec": rng.uniform(-90, 90, 500)}
    )
    catalog = lsdb.from_dataframe(frame, catalog_name="small", lowest_order=1, highest_order=3)
    catalog.write_catalog(tmp_path / "small")
    table, _ = ingested(tmp_path, tmp_path / "small")
    info = table.info()
    assert [d.column for d in info.dimensions] == ["ra", "dec"] and info.identity == ["objid"]
    found = table.query(order_by="objid").to_arrow()
    for name in frame:
        assert found[name].to_pylist() == frame[name].tolist()
    theirs = lsdb.open_catalog(tmp_path / "small").compute()
    assert len(table) == len(theirs) == 500




def test_tables_of_astropy(path: Path) -> None:
    first = Table(
        {
            "ra": [1.0, 2] * units.deg,
            "dec": [3.0, 4] * units.deg,
            "n": MaskedColumn([2**62 + 1, 2], mask=[0, 1]),
            "s": ["a", "b"],
            "v": np.ones((2, 2)) * units.km / units.s,
            "z": np.array([1 + 2j, 3]),
        }
    )
    table = kubist.create(path, first, ["ra", "dec"])
    assert table.units == {"ra": "deg", "dec": "deg", "v_0": "km s-1", "v_1": "km s-1"}
    table.append(
        QTable(
            {
                "ra": [np.pi] * units.rad,
                "dec": Masked([0.0] * units.rad, mask=[False]),
                "n": [4],
                "s": ["c"],
                "v": np.ones((1, 2)) * units.m / units.s,
                "z": np.array([5j]),
            }
        )
    )
    found = table.query(order_by="ra").to_arrow().to_pydict()
    assert found["ra"] == [1.0, 2.0, 180.0] and found["v_1"] == [1.0, 1.0, 0.001]
    assert found["n"] == [2**62 + 1, None, 4] and found["z_im"] == [2.0, 0.0, 5.0]
    first["t"] = Time([1.0, 2.0], format="jd")
    with pytest.raises(kubist.InvalidInput, match="column t: no column type holds a Time"):
        kubist.create(path.with_name("u.kubist"), first, ["ra", "dec"])


def test_arrays_with_units(path: Path) -> None:
    """Units are kept in a dict too."""
    table = kubist.create(
        path, {"ra": [1.0, 2] * units.deg, "dec": np.array([3.0, 4])}, ["ra", "dec"]
    )
    assert table.units == {"ra": "deg"}
    table.append({"ra": [np.pi] * units.rad, "dec": [5.0]})
    assert table.query(order_by="ra").to_arrow()["ra"].to_pylist() == [1.0, 2.0, 180.0]
    with pytest.raises(kubist.InvalidInput, match="ra"):
        table.append({"ra": [1.0] * units.km, "dec": [5.0]})
    xarray = need("xarray")
    table.append({"ra": xarray.DataArray([0.0], attrs={"units": "rad"}), "dec": [5.0]})
    assert len(table) == 4


VOTABLE = """<?xml version="1.0"?>
<VOTABLE version="1.4" xmlns="http://www.ivoa.net/xml/VOTable/v1.3">
<COOSYS ID="c" system="ICRS" epoch="J2015.5"/>
<RESOURCE type="results"><INFO name="QUERY_STATUS" value="{status}"/><PARAM name="limit" datatype="double" value="3"/>
<TABLE name="t" nrows="{rows}"><DESCRIPTION>stars</DESCRIPTION>
<FIELD name="ra" datatype="double" unit="deg" ucd="pos.eq.ra" ref="c"/><FIELD name="dec" datatype="double" unit="deg"/>
<DATA><TABLEDATA><TR><TD>1</TD><TD>2</TD></TR></TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>"""


@pytest.mark.parametrize(("rows", "status"), [(1, "OK"), (5, "OK"), (1, "OVERFLOW")])
def test_votable_keeps_its_systems_and_reports_missing_rows(
    tmp_path: Path, rows: int, status: str
) -> None:
    file = tmp_path / "a.vot"
    file.write_text(VOTABLE.format(rows=rows, status=status))
    report = kubist.ingest(tmp_path / "t.kubist", file)
    assert [list(parts) for parts in report.left_out.values()] == [["rows"]] * (rows > 1 or status != "OK")
    about = kubist.open(tmp_path / "t.kubist").metadata["votable"]
    assert about["coordinate_systems"] == {"c": {"system": "ICRS", "epoch": "J2015.5"}}
    assert (about["limit"], about["QUERY_STATUS"], about["description"]) == (3, status, "stars")
    assert about["columns"] == {"ra": {"ucd": "pos.eq.ra", "ref": "c"}}


def votable(file: Path, field: str, value: str) -> Path:
    file.write_text(
        '<VOTABLE version="1.4" xmlns="http://www.ivoa.net/xml/VOTable/v1.3"><RESOURCE><TABLE>'
        '<FIELD name="ra" datatype="double"/><FIELD name="dec" datatype="double"/>'
        f'<FIELD name="v" {field}/><DATA><TABLEDATA>'
        f"<TR><TD>1</TD><TD>2</TD><TD>{value}</TD></TR></TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>"
    )
    return file


@pytest.mark.parametrize("value", ["300", "-1"])
def test_numbers_beyond_the_type_of_a_votable(tmp_path: Path, value: str) -> None:
    file = votable(tmp_path / "a.vot", 'datatype="unsignedByte"', value)
    with pytest.raises(kubist.InvalidInput, match=rf"a\.vot.*'{value}' is out of range"):
        ingested(tmp_path, file)
    assert not (tmp_path / "a.vot.kubist").exists()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [('datatype="char" arraysize="3"', "abcdef", "too long"), ('datatype="double"', "--", "'--'")],
)
def test_what_a_votable_loses_is_reported(
    tmp_path: Path, field: str, value: str, message: str
) -> None:
    file = votable(tmp_path / "a.vot", field, value)
    _, report = ingested(tmp_path, file)
    [why] = report.left_out[str(file)].values()
    assert message in why


ECSV = (
    "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: ra, datatype: float64}\n# - {name: dec, datatype: float64}\n"
    "# - {name: n, datatype: int8}\n# - {name: h, datatype: float16}\n# schema: astropy-2.0\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ra dec n h\n1 2 3 .5\n1 2 300 .5\n", "row 1: n is '300', no int8"),
        ("ra dec n h\n1 x 3 .5\n", "row 0: dec is 'x', no double"),
        ("ra dec h\n1 2 .5\n", "column n, the line of names has not"),
        ("", "column ra, the line of names has not"),
    ],
)
def test_ecsv_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.ecsv").write_text(ECSV + text)
    with pytest.raises(kubist.InvalidInput, match=rf"a\.ecsv: .*{message}"):
        ingested(tmp_path, tmp_path / "a.ecsv")
    assert not (tmp_path / "a.ecsv.kubist").exists()


def test_ecsv_of_half_floats_and_quantities(tmp_path: Path) -> None:
    table = QTable({"ra": [1.0, 2] * units.deg, "dec": [1.0, 2] * units.deg})
    table["h"] = np.array([0.5, 65504], "f2")
    table.meta["epoch"] = 2016 * units.yr
    table.write(tmp_path / "a.ecsv")
    found, _ = ingested(tmp_path, tmp_path / "a.ecsv")
    assert found.query(order_by=["ra"]).to_arrow()["h"].to_pylist() == [0.5, 65504]
    assert found.metadata["ecsv"]["epoch"] == {"value": 2016.0, "unit": "yr"}


def test_latin_1_in_ipac(tmp_path: Path) -> None:
    text = "|   ra   |  dec   |  s   |\n| double | double | char |\n  1.5      2.5      caf\xe9 \n"
    (tmp_path / "a.tbl").write_bytes(text.encode("latin-1"))
    found, _ = ingested(tmp_path, tmp_path / "a.tbl")
    assert found.query().to_arrow()["s"].to_pylist() == ["caf\xe9"]


def test_numbers_beyond_the_range_are_not_infinite(tmp_path: Path) -> None:
    half = ECSV.replace("# - {name: n, datatype: int8}\n# - {name: h, datatype: float16}", "# - {name: f, datatype: float32}")
    for value, is_there in (("1e60", False), ("-inf", True)):
        (tmp_path / f"{value}.ecsv").write_text(f"{half}ra dec f\n1 2 {value}\n")
        votable(tmp_path / f"{value}.vot", 'datatype="float"', value)
        (tmp_path / f"{value}.tbl").write_text(
            f"|   ra   |  dec   |  f     |\n| double | double | float  |\n  1.5      2.5      {value}   \n"
        )
        for ending in ("ecsv", "vot") if not is_there else ("ecsv", "vot", "tbl"):
            file = tmp_path / f"{value}.{ending}"
            if is_there:
                found, _ = ingested(tmp_path, file)
                assert float("-inf") in found.query().to_arrow().to_pandas().iloc[0].tolist()
            else:
                with pytest.raises(kubist.InvalidInput, match=r"1e60|beyond the range"):
                    ingested(tmp_path, file)
                assert not (tmp_path / f"{file.name}.kubist").exists()
