"""The pages for communities run on files of their own libraries."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.release

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(21)
pytestmark = pytest.mark.filterwarnings("default")


def need(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def mdanalysis() -> None:
    need("MDAnalysis")
    data = need("MDAnalysisTests.datafiles")
    shutil.copy(data.GRO, "top.gro")
    shutil.copy(data.XTC, "traj.xtc")


def lidar() -> None:
    laspy = need("laspy")
    for west, name in ((0, "west.las"), (50, "east.las")):
        las = laspy.LasData(laspy.LasHeader(point_format=6, version="1.4"))
        las.x, las.y = RNG.uniform(west, west + 50, 4000), RNG.uniform(0, 80, 4000)
        las.z = RNG.normal(100, 2, 4000)
        las.classification = RNG.choice([2, 5, 6], 4000)
        las.write(name)


def gadget() -> None:
    h5py = need("h5py")
    Path("snapshots").mkdir()
    for number in range(3):
        with h5py.File(f"snapshots/snap_{number:03}.hdf5", "w") as out:
            header = out.create_group("Header")
            header.attrs["NumPart_ThisFile"] = [0, 3000, 0, 0, 200, 0]
            header.attrs["Time"] = 0.5 * number
            for kind, count in ((1, 3000), (4, 200)):
                group = out.create_group(f"PartType{kind}")
                group["Coordinates"] = RNG.uniform(0, 10, (count, 3))
                group["ParticleIDs"] = np.arange(count) + kind * 10_000
                group["Masses"] = RNG.uniform(1, 2, count).astype(np.float32)


def openfoam() -> None:
    shutil.copytree(DATA / "openfoam" / "decomposed", "case")


def astropy() -> None:
    need("astropy")
    from astropy import units
    from astropy.table import Table

    stars = Table({"id": np.arange(5000)})
    stars["ra"] = RNG.uniform(0, 360, 5000) * units.deg
    stars["dec"] = RNG.uniform(-90, 90, 5000) * units.deg
    stars["mag"] = RNG.normal(15, 2, 5000) * units.mag
    stars.write("stars.fits")


@pytest.mark.parametrize("prepare", [mdanalysis, lidar, gadget, openfoam, astropy])
def test_the_page_runs(
    prepare: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare()
    text = (DOCS / f"for-{prepare.__name__}.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": prepare.__name__}
    exec(compile(block, f"for-{prepare.__name__}.md", "exec"), names)
