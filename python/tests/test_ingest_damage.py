"""Files that are damaged, or hold what only points can be: a line that says where, and no part.

Each is a real file, or one that its own library wrote, changed in a few bytes.
"""

from __future__ import annotations

import gzip
import importlib
from pathlib import Path

import numpy as np
import pytest
from ingested import DATA, RNG, need, rows

import kubist

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_laz_whose_chunks_are_broken(tmp_path: Path, damage: str) -> None:
    """Nothing of it is written, and the scan behind it is, if that is asked."""
    need("laspy")
    need("lazrs")
    whole = (DATA / "lidar" / "simple.copc.laz").read_bytes()
    half = len(whole) // 2
    broken = whole[:half]
    if damage == "flipped":
        broken += bytes(255 - byte for byte in whole[half : half + 200]) + whole[half + 200 :]
    (tmp_path / "a.laz").write_bytes(broken)
    (tmp_path / "b.laz").write_bytes(whole)
    table = tmp_path / "t.kubist"
    with pytest.raises(kubist.InvalidInput, match=r"a\.laz: points: "):
        kubist.ingest(table, str(tmp_path / "*.laz"))
    assert len(kubist.open(table)) == 0
    report = kubist.ingest(table, str(tmp_path / "*.laz"), keep_going=True)
    assert [Path(name).name for name in report.failed] == ["a.laz"]
    assert report.rows == len(kubist.open(table)) > 1000


def test_a_compressed_dump_that_is_broken(tmp_path: Path) -> None:
    """The time steps before the place are there; of the one at it, nothing."""
    whole = (DATA / "lammps" / "melt.dump.gz").read_bytes()
    # Its second time step begins where a second time is told.
    second = gzip.decompress(whole).index(b"ITEM: TIME\n", 30)
    file = tmp_path / "melt.dump.gz"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(kubist.InvalidInput, match=rf"melt\.dump\.gz: behind byte {second} of"):
        kubist.ingest(tmp_path / "t.kubist", file)
    assert set(rows(tmp_path / "t.kubist", "id")["step"]) == {0}
    # Once it is whole, the rest comes.
    file.write_bytes(whole)
    report = kubist.ingest(tmp_path / "t.kubist", file)
    assert (report.rows, report.skipped) == (64, 1)


def test_a_unit_that_is_none(tmp_path: Path) -> None:
    """It is kept as it is said, shown before the ingest begins, and can be said otherwise."""
    need("astropy")
    from astropy.io import fits

    columns = [
        fits.Column(name, "D", unit=said, array=RNG.uniform(0, 90, 50))
        for name, said in {"ra": "degz", "dec": "deg", "v": "m//s"}.items()
    ]
    fits.BinTableHDU.from_columns(columns).writeto(tmp_path / "sky.fits")
    plan = kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", dry_run=True)
    assert {name: said for name, _, said in plan.columns} == {
        "ra": "degz",
        "dec": "deg",
        "v": "m//s",
    }
    right = {"ra": "deg", "v": "m/s"}
    kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", units=right)
    assert kubist.open(tmp_path / "t.kubist").units == {"dec": "deg", **right}
    with pytest.raises(kubist.InvalidInput, match=r"sky\.fits: there is no column 'w'"):
        kubist.ingest(tmp_path / "u.kubist", tmp_path / "sky.fits", units={"w": "m"})
    # Of a table that is there nothing is passed over either, before a record is written.
    refused = {"w": "there is no column 'w'", "v": "column v is in m/s, not in m: set_unit"}
    for asked, told in refused.items():
        for dry_run in (True, False):
            with pytest.raises(kubist.InvalidInput, match=rf"t\.kubist: {told}"):
                kubist.ingest(
                    tmp_path / "t.kubist",
                    tmp_path / "sky.fits",
                    units={asked: "m"},
                    dry_run=dry_run,
                )
    assert len(kubist.open(tmp_path / "t.kubist")) == 50
    assert kubist.ingest(tmp_path / "t.kubist", tmp_path / "sky.fits", units=right).skipped == 1


def test_frames_of_other_numbers_of_atoms_are_points_and_no_universe(tmp_path: Path) -> None:
    ase = need("ase")
    mda = need("MDAnalysis")
    from ase.io import write

    images = [ase.Atoms("H" * (5 + n), positions=RNG.normal(size=(5 + n, 3))) for n in range(4)]
    write(tmp_path / "run.xyz", images, format="extxyz")
    table = tmp_path / "run.kubist"
    kubist.ingest(table, tmp_path / "run.xyz")
    counts = np.bincount(rows(table, "frame", "atom")["frame"])
    assert counts.tolist() == [5, 6, 7, 8]
    importlib.import_module("kubist.mdanalysis")
    with pytest.raises(ValueError, match="26 rows are no 4 frames of as many atoms each"):
        mda.Universe(str(table))
