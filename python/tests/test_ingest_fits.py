"""FITS tables, compared with astropy, and with the standard where both differ.

KUBIST_FORMAT_SEEDS random tables, from KUBIST_FORMAT_FIRST on, are exported again and read by
astropy.
"""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingested import DATA, need

import kubist

need("astropy")
from astropy.io import fits  # noqa: E402
from astropy.table import MaskedColumn, Table  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
SEEDS = int(os.environ.get("KUBIST_FORMAT_SEEDS", "12"))
FIRST = int(os.environ.get("KUBIST_FORMAT_FIRST", "0"))
C = fits.Column


def write(path: Path, *columns: Any, rows: int = 2, **cards: Any) -> Path:
    own = [C("ra", "D", array=np.arange(rows) + 10.0), C("dec", "D", array=np.arange(rows) + 1.0)]
    hdu = fits.BinTableHDU.from_columns([*own, *columns])
    hdu.header.update(cards)
    hdu.writeto(path, overwrite=True)
    return path


def read(path: Path, **options: Any) -> tuple[dict[str, list[Any]], kubist.Report, kubist.Table]:
    target = path.with_suffix(".kubist")
    shutil.rmtree(target, ignore_errors=True)
    report = kubist.ingest(target, path, **options)
    table = kubist.open(target)
    return table.query(order_by="ra").to_arrow().to_pydict(), report, table




def test_missing_values(tmp_path: Path) -> None:
    """TNULL applies before scaling; booleans and strings that start with a zero byte are null."""
    file = write(
        tmp_path / "t.fits",
        C("scaled", "I", array=np.array([1, -99, 3], "i2"), null=-99),
        C("unsigned", "I", array=np.array([5, 6, -32768], "i2"), null=-32768),
        C("truth", "L", array=np.array([True, False, True])),
        C("text", "3A", array=["a", "", "  "]),
        C("pair", "2J", array=[[1, 2], [3, 9], [9, 9]], null=9),
        C("wave", "2E", array=[[1, np.nan], [2, 3], [4, 5]]),
        rows=3,
    )
    for key, value in (("TSCAL3", 0.001), ("TZERO3", 20.0), ("TZERO4", 32768)):
        fits.setval(file, key, value=value, ext=1)
    raw = bytearray(file.read_bytes())
    with fits.open(file) as hdus:
        begin, width = hdus[1].fileinfo()["datLoc"], hdus[1].header["NAXIS1"]
    raw[begin + width + 20] = 0
    raw[begin + 2 * width + 21 : begin + 2 * width + 24] = b"   "
    file.write_bytes(raw)
    found, _, _ = read(file)
    assert found["scaled"] == [1 * 0.001 + 20, None, 3 * 0.001 + 20]
    assert found["unsigned"] == [32773, 32774, None]
    assert found["truth"] == [True, None, True]
    assert found["text"] == ["a", None, ""]
    assert (found["pair_0"], found["pair_1"]) == ([1, 3, None], [2, None, None])
    assert found["wave_1"] == [None, 3, 5]


def test_tnull_of_unsigned_integers_as_astropy_writes_it(tmp_path: Path) -> None:
    column = MaskedColumn(np.array([1, 2, 3], "u2"), mask=[0, 1, 0], fill_value=100)
    file = tmp_path / "t.fits"
    Table({"ra": [1.0, 2, 3], "dec": [1.0, 2, 3], "n": column}).write(file)
    assert read(file)[0]["n"] == [1, None, 3] == Table.read(file)["n"].tolist()
    both = write(
        tmp_path / "both.fits", C("n", "I", array=np.array([100, 100 - 2**15], "i2"), null=100)
    )
    fits.setval(both, "TZERO3", value=2**15, ext=1)
    with pytest.raises(kubist.InvalidInput, match=r"both\.fits: column n: TNULL3 = 100 may be"):
        read(both)
    assert read(both, read={"columns": ["ra", "dec"]})[1].rows == 2


def test_texts_and_names(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.fits",
        C("name", "3A", array=[" 42", "42"]),
        C("town", "6A", array=np.array([b"Gr\xfcn", "Łódź".encode()[:5]])),
        C("bands", "6A", dim="(3,2)", array=np.array([["a", "bc"], ["def", " g"]], "S3")),
        C("mag", "E", array=[1.0, 2.0], unit="mag"),
        C("mag_flag", "J", array=[0, 1]),
        C("v", "C", array=np.array([1 + 2j, np.nan * 1j], "c8"), unit="Jy"),
        C("flags", "11X", array=np.arange(22).reshape(2, 11) % 3 == 0),
    )
    with fits.open(file, mode="update") as hdus:
        for key in ("TTYPE1", "TTYPE2"):
            assert hdus[1].header[key] in ("ra", "dec")
        hdus[1].header["TTYPE6"] = "name"
    found, _, table = read(file)
    assert found["name"] == [" 42", "42"] and found["name_2"] == [1.0, 2.0]
    assert found["town"] == ["Grün", "Łód"]
    assert (found["bands_0"], found["bands_1"]) == (["a", "def"], ["bc", " g"])
    assert found["v_re"] == [1.0, None] or np.isnan(found["v_re"][1])
    assert found["v_im"][0] == 2.0
    assert [found[f"flags_{i}"][1] for i in range(11)] == [(11 + i) % 3 == 0 for i in range(11)]
    assert table.units == {"name_2": "mag", "v_re": "Jy", "v_im": "Jy"}


def test_text_tables(tmp_path: Path) -> None:
    columns = [
        C("ra", "F10.4", array=[1.0, 2, 3], ascii=True),
        C("dec", "E12.5", array=[1.0, 2, 3], ascii=True),
        C("n", "I6", array=[7, 8, 9], ascii=True, null="-1"),
        C("s", "A4", array=["a", " b", "c"], ascii=True),
    ]
    file = tmp_path / "t.fits"
    fits.TableHDU.from_columns(columns).writeto(file)
    theirs = fits.getdata(file)
    found, _, _ = read(file)
    for name in ("ra", "dec", "n"):
        assert found[name] == theirs[name].tolist()
    assert found["s"] == ["a", " b", "c"]
    raw = file.read_bytes()
    assert raw.count(b"     7") == 1
    for text, value in ((b"      ", None), (b"    -1", None), (b"   +12", 12)):
        file.write_bytes(raw.replace(b"     7", text))
        assert read(file)[0]["n"][0] == value
    file.write_bytes(raw.replace(b"     7", b"   1x2"))
    with pytest.raises(
        kubist.InvalidInput, match=r"t\.fits: .*column n, row 0: '1x2' is no number"
    ):
        read(file)


def test_what_has_no_place_is_named(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.fits",
        C("adc", "PI()", array=np.array([[1, 2], [3]], object)),
        C("empty", "0J", array=np.zeros((2, 0), "i4")),
        TELESCOP="Keck",
        TIMESYS="TT",
        TEXPTIME=30.0,
    )
    with fits.open(file, mode="append") as hdus:
        hdus.append(fits.BinTableHDU.from_columns([C("a", "J", array=[1])], name="GTI"))
        hdus.append(fits.ImageHDU(np.zeros((2, 2)), name="SCI"))
    _, report, table = read(file)
    (left_out,) = report.left_out.values()
    for name in ("column adc", "column empty", "HDU 2 (GTI)", "HDU 3 (SCI)"):
        assert name in left_out
    cards = table.metadata["fits"]
    assert (cards["TELESCOP"], cards["TIMESYS"], cards["TEXPTIME"]) == ("Keck", "TT", 30.0)
    assert "TTYPE1" not in cards and "TFIELDS" not in cards


def test_the_first_table_with_positions(tmp_path: Path) -> None:
    """Like SExtractor's catalogues: the header of the image comes first."""
    head = fits.BinTableHDU.from_columns(
        [C("Field Header Card", "80A", array=["x"])], name="LDAC_IMHEAD"
    )
    objects = fits.BinTableHDU.from_columns(
        [
            C("NUMBER", "J", array=[1, 2]),
            *(C(n, "D", array=[1.0, 2.0]) for n in ("ALPHA_J2000", "DELTA_J2000")),
        ],
        name="LDAC_OBJECTS",
    )
    fits.HDUList([fits.PrimaryHDU(), head, objects]).writeto(tmp_path / "t.fits")
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "t.fits")
    info = kubist.open(tmp_path / "t.kubist").info()
    assert [d.column for d in info.dimensions] == ["ALPHA_J2000", "DELTA_J2000"]
    assert list(info.identity) == ["NUMBER"]


def test_the_table_that_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "t.fits", rows=2)
    with fits.open(file, mode="append") as hdus:
        more = [C("ra", "D", array=[5.0]), C("dec", "D", array=[6.0]), C("n", "J", array=[7])]
        hdus.append(fits.BinTableHDU.from_columns(more, name="FAINT", ver=2))
    for wanted in (2, "2", "faint", "FAINT,2"):
        found, report, _ = read(file, read={"hdu": wanted})
        assert found["n"] == [7] and "HDU 1" in report.left_out[str(file)]
    for wrong in (3, "bright", "FAINT,1"):
        with pytest.raises(
            kubist.InvalidInput, match=r"t\.fits: hdu: .* is no table of it; its tables"
        ):
            read(file, read={"hdu": wrong})
    with pytest.raises(kubist.InvalidInput, match=r"t\.fits: HDU 2 \(FAINT\) would be left out"):
        read(file, read={"strict": True})


@pytest.mark.parametrize("ending", ["gz", "bz2"])
def test_files_that_are_compressed(tmp_path: Path, ending: str) -> None:
    plain = write(tmp_path / "t.fits", C("n", "J", array=[4, 5]))
    squeeze = gzip.compress if ending == "gz" else bz2.compress
    file = tmp_path / f"t.fits.{ending}"
    file.write_bytes(squeeze(plain.read_bytes()))
    assert read(file)[0]["n"] == [4, 5]
    cut = tmp_path / f"cut.fits.{ending}"
    cut.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(kubist.InvalidInput, match=rf"cut\.fits\.{ending}: "):
        read(cut)


def test_compressed_tables(tmp_path: Path) -> None:
    """`cat.fits.fz` was made from `cat.fits` by fpack 1.7.0, in tiles of 400 rows."""
    found, report, table = read(_copied(tmp_path, "cat.fits.fz"))
    plain = _copied(tmp_path, "cat.fits")
    theirs = fits.getdata(plain)
    order = np.argsort(theirs["ra"])
    for name in ("ra", "dec", "id", "i", "s", "b", "f", "l"):
        assert found[name] == theirs[name][order].tolist(), name
    assert found["t"] == [str(text) for text in theirs["t"][order]]
    for axis in range(3):
        assert found[f"v_{axis}"] == theirs["v"][order, axis].tolist()
    assert any("column w" in reasons for reasons in report.left_out.values())
    assert table.metadata["fits"]["TELESCOP"] == "Keck"


def _copied(folder: Path, name: str) -> Path:
    target = folder / name
    target.write_bytes((DATA / "fits" / name).read_bytes())
    return target


def test_a_date_keeps_its_digits(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.fits",
        C("JD", "D", array=[2460000.123, 2460001.5]),
        C("P", "D", array=[0.1, 3.3], unit="d"),
    )
    types = {"JD": "float32", "P": "float32"}
    with pytest.raises(kubist.InvalidInput, match=r"column JD, row 0: 2460000\.123 is a date"):
        read(file, read={"types": types})
    assert read(file, read={"types": {"P": "float32"}})[0]["JD"] == [2460000.123, 2460001.5]


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("TARGETID", "TARGET_RA", "TARGET_DEC", "z"), ("TARGET_RA", "TARGET_DEC")),
        (("objID", "raMean", "decMean"), ("raMean", "decMean")),
        (("PLUG_RA", "PLUG_DEC"), ("PLUG_RA", "PLUG_DEC")),
        (("Source", "RA_ICRS", "DE_ICRS"), ("RA_ICRS", "DE_ICRS")),
        (("x", "y", "z", "ra", "dec"), ("ra", "dec")),
        (("ra_err", "dec_err", "FIBER_RA", "FIBER_DEC"), ("FIBER_RA", "FIBER_DEC")),
        (("ra_error", "x", "y", "z"), ("x", "y", "z")),
    ],
)
def test_positions_by_name(tmp_path: Path, names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    numbers = {
        n: np.arange(2) if n in ("TARGETID", "objID", "Source") else [1.5, 2.5] for n in names
    }
    Table(numbers).write(tmp_path / "t.fits")
    plan = kubist.ingest(tmp_path / "t.kubist", tmp_path / "t.fits", dry_run=True)
    assert plan.dimensions == list(wanted)
    assert plan.identity == [n for n in names if n in ("TARGETID", "objID", "Source")]




def random_columns(rng: np.random.Generator, rows: int) -> list[Any]:
    columns = []
    for i in range(rng.integers(1, 8)):
        code = rng.choice(list("LXBIJKEDCMA"))
        width = int(rng.choice([1, 1, 2, 3]))
        shape = (rows, width) if width > 1 else (rows,)
        more: dict[str, Any] = {}
        if code == "L":
            values = rng.integers(0, 2, shape).astype(bool)
        elif code == "X":
            width = int(rng.integers(1, 20))
            values = rng.integers(0, 2, (rows, width)).astype(bool)
        elif code in "BIJK":
            kind = {"B": "u1", "I": "i2", "J": "i4", "K": "i8"}[code]
            limits = np.iinfo(kind)
            values = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
            if rng.random() < 0.5:
                more["null"] = int(values.flat[0])
        elif code in "ED":
            values = rng.normal(size=shape).astype("f4" if code == "E" else "f8")
            values[rng.random(shape) < 0.2] = np.nan
            values[rng.random(shape) < 0.05] = np.inf
        elif code in "CM":
            values = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(
                "c8" if code == "C" else "c16"
            )
        else:
            letters = np.array(list(" aB~."))
            values = np.array(
                ["".join(rng.choice(letters, rng.integers(0, 6))) for _ in range(rows)]
            )
            width = 7
        form = f"{width}{code}" if width > 1 or code == "X" else code
        columns.append(
            C(
                f"c{i}",
                form,
                array=values,
                unit=str(rng.choice(["", "m", "km s-1"])) or None,
                **more,
            )
        )
    return columns


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_tables(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 30))
    columns = random_columns(rng, rows)
    file = write(tmp_path / "t.fits", *columns, rows=rows)
    # Astropy fails on 64-bit integers with an offset.
    unscaled = [c for c in columns if c.format.strip("0123456789") in "IJ" and not c.null]
    scales = {c.name: (0.25, float(rng.integers(-9, 9))) for c in unscaled if rng.random() < 0.3}
    for name, (scale, zero) in scales.items():
        place = 3 + int(name[1:])
        fits.setval(file, f"TSCAL{place}", value=scale, ext=1)
        fits.setval(file, f"TZERO{place}", value=zero, ext=1)
    if rng.random() < 0.3:
        file = _compressed(file)
    found, _, table = read(file)
    assert_as_astropy(file, found)
    table.query(order_by="ra").write(tmp_path / "back.fits")
    again, _, other = read(tmp_path / "back.fits")
    assert list(again) == list(found)
    for name in found:
        assert again[name] == found[name], name
    assert other.units == table.units


def _compressed(file: Path) -> Path:
    packed = file.with_suffix(".fits.gz")
    packed.write_bytes(gzip.compress(file.read_bytes(), 1))
    return packed


def assert_as_astropy(file: Path, found: dict[str, list[Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, header = fits.getdata(file, 1), fits.getheader(file, 1)
    for place, column in enumerate(theirs.columns, 1):
        values = np.asarray(theirs[column.name])
        flat = values.reshape(len(values), -1)
        if flat.dtype.kind == "c":
            parts = np.stack([flat.real, flat.imag], axis=2).reshape(len(flat), -1)
            names = (
                ["re", "im"]
                if flat.shape[1] == 1
                else [f"{i}_{p}" for i in range(flat.shape[1]) for p in ("re", "im")]
            )
        else:
            parts, names = flat, [str(i) for i in range(flat.shape[1])]
        single = parts.shape[1] == 1
        for i, part in enumerate(names):
            ours = found[column.name if single else f"{column.name}_{part}"]
            null = header.get(f"TNULL{place}")
            for mine, wanted in zip(ours, parts[:, i].tolist(), strict=True):
                if (isinstance(wanted, float) and np.isnan(wanted)) or (
                    null is not None and wanted == null
                ):
                    assert mine is None
                elif isinstance(wanted, str):
                    assert (mine or "") == wanted.rstrip(" ")
                else:
                    assert mine == wanted, column.name


def test_the_report_names_columns_that_are_rounded(tmp_path: Path) -> None:
    from astropy.table import Table

    for name, kind in (("a", "f4"), ("b", "f8")):
        columns = {axis: np.array([0.5, 0.25], kind) for axis in ("x", "y", "z")}
        Table({**columns, "q": np.array([0.1, 1 / 3], kind)}).write(tmp_path / f"{name}.fits")
    assert kubist.ingest(tmp_path / "t", tmp_path / "a.fits").notes == []
    [note] = kubist.ingest(tmp_path / "t", tmp_path / "b.fits").notes
    assert note.startswith("values were rounded to the narrower floats of the table: q (a copy")
    asked = {"types": {"q": "float32"}}
    assert kubist.ingest(tmp_path / "u", tmp_path / "b.fits", read=asked).notes == []
