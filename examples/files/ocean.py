"""Mountains, trenches and warm water, found by value in existing files.

    python examples/files/ocean.py FOLDER picture.png

FOLDER has Ferret's sample data: the relief of the Earth (etopo5.cdf) and the ocean's climatology
(levitus_climatology.cdf), both in classic netCDF. On Debian they are in /usr/share/ferret-vis/data
after `apt-get install ferret-datasets`. That folder is not writable, so the indexes have their own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import kubist


def timed_query(files: kubist.FileIndex, where: str, **question: Any) -> dict[str, Any]:
    """The matching rows; prints the cost."""
    result = files.query(where=where, **question)
    print(f"{where}\n    {result.costs!r}")
    columns: dict[str, Any] = result.to_numpy()
    return columns


def main(folder: Path, picture: Path) -> None:
    with tempfile.TemporaryDirectory() as into:
        relief = kubist.index(folder / "etopo5.cdf", into=into)
        ocean = kubist.index(folder / "levitus_climatology.cdf", into=into)
        print(relief, ocean, sep="\n")
        high = timed_query(relief, "ROSE > 4000")
        deep = timed_query(relief, "ROSE < -6500")
        shores = timed_query(relief, "ROSE BETWEEN -60 AND 60", sample=0.1)
        warm = timed_query(ocean, "TEMP > 28", box={"ZAXLEVITR": (0, 10)})
        fresh = timed_query(ocean, "SALT < 32 AND TEMP > 5", box={"ZAXLEVITR": (0, 10)})
    figure, axes = plt.subplots(figsize=(12, 6.4), constrained_layout=True)
    x, y = "ETOPO05_X", "ETOPO05_Y"
    axes.scatter(shores[x], shores[y], s=0.05, color="0.75", linewidths=0)
    of_ocean = ("XAXLEVITR", "YAXLEVITR")
    for records, color, label in (
        (warm, "#f4a582", "water above 28 degrees"),
        (fresh, "#92c5de", "fresh and warm: below 32 g/kg, above 5 degrees"),
    ):
        # The longitudes of that atlas are 20 to 380 degrees.
        east, north = records[of_ocean[0]] % 360, records[of_ocean[1]]
        axes.scatter(east, north, s=4, color=color, linewidths=0, label=label)
    for records, color, label in (
        (high, "#7f3b08", "land above 4,000 m"),
        (deep, "#08306b", "sea floor below 6,500 m"),
    ):
        axes.scatter(records[x], records[y], s=0.3, color=color, linewidths=0, label=label)
    axes.set(
        xlabel="degrees east", ylabel="degrees north", xlim=(0, 360), ylim=(-90, 90), aspect="equal"
    )
    # Outside, because every corner of the map has data.
    figure.legend(loc="outside lower center", ncols=4, markerscale=6, frameon=False)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
