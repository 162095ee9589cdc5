"""Ground, surface and canopy height of a LiDAR tile, as rasters.

    python examples/lidar/canopy.py TILE.laz [--cell 20] [--out FOLDER]

The ground is the lowest point of class 2 in a cell, the surface the highest point. Their difference
is the height of trees and buildings. It writes GeoTIFFs with rasterio, and an image with
matplotlib. It also estimates the mean height from a tenth of the points, and compares the error
bars with the result of all points.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import kubist
import numpy as np

GROUND = 2
"""The class of ground in the LAS specification."""


def rasters(table: kubist.Table, cell: float) -> dict[str, kubist.Raster]:
    """The ground and the surface, on the same cells."""
    e = table.estimate(["min(x)", "max(x)", "min(y)", "max(y)"]).to_dicts()
    x_low, x_high, y_low, y_high = (one["value"] for one in e)
    box = {"x": (cell * (x_low // cell), x_high), "y": (cell * (y_low // cell), y_high)}
    return {
        "ground": table.raster(
            "x",
            "y",
            cell=cell,
            value="min(z)",
            box=box,
            where=f"classification = {GROUND}",
        ),
        "surface": table.raster("x", "y", cell=cell, value="max(z)", box=box),
    }


def filled(values: np.ndarray) -> np.ndarray:
    """The values, with cells without one filled by the mean of their neighbours."""
    values = values.copy()
    while np.isnan(values).any() and not np.isnan(values).all():
        padded = np.pad(values, 1, constant_values=np.nan)
        near = np.stack(
            [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        )
        known = ~np.isnan(near)
        mean = np.where(known, near, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        empty = np.isnan(values) & known.any(axis=0)
        values[empty] = mean[empty]
    return values


def hillshade(values: np.ndarray, cell: float) -> np.ndarray:
    """The brightness of a surface in light from the north-west, 45 degrees high."""
    along_y, along_x = np.gradient(values, cell)
    light = (1 + along_x - along_y) / np.sqrt(3 * (1 + along_x**2 + along_y**2))
    return np.clip(light * np.sqrt(3) / 2, 0, 1)


def draw(
    ground: np.ndarray, canopy: np.ndarray, raster: kubist.Raster, path: Path
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cell = raster.x_edges[1] - raster.x_edges[0]
    extent = (
        raster.x_edges[0],
        raster.x_edges[-1],
        raster.y_edges[0],
        raster.y_edges[-1],
    )
    wide = (extent[3] - extent[2]) / (extent[1] - extent[0])
    figure, (left, right) = pyplot.subplots(
        1,
        2,
        figsize=(13, 6.2 * min(wide, 1.6) + 0.9),
        layout="constrained",
        sharey=True,
    )
    options = {"origin": "lower", "extent": extent, "interpolation": "nearest"}
    shown = left.imshow(ground, cmap="terrain", **options)
    left.imshow(hillshade(ground, cell), cmap="gray", alpha=0.35, **options)
    figure.colorbar(shown, ax=left, label="ground, height [ft]")
    shown = right.imshow(
        canopy, cmap="YlGn", vmin=0, vmax=np.quantile(canopy, 0.995), **options
    )
    figure.colorbar(shown, ax=right, label="above the ground [ft]")
    left.set_title(f"Lowest ground point of each cell of {cell:g} ft")
    right.set_title("Highest point above the ground")
    left.set_ylabel("northing [ft]")
    for axes in (left, right):
        axes.set_xlabel("easting [ft]")
        axes.ticklabel_format(style="plain", useOffset=False)
        axes.tick_params(axis="x", labelrotation=30)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tile", type=Path)
    parser.add_argument("--cell", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=Path("canopy"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        kubist.ingest(Path(scratch) / "tile.kubist", options.tile)
        table = kubist.open(Path(scratch) / "tile.kubist")
        made = rasters(table, options.cell)
        ground = filled(made["ground"].values)
        canopy = np.maximum(filled(made["surface"].values) - ground, 0)
        print(f"{len(table):,} points, {made['surface']}")
        print(
            f"cells with a point of the ground: {np.mean(made['ground'].rows > 0):.0%}"
        )
        print(
            f"canopy: median {np.median(canopy):.1f}, 99 % below {np.quantile(canopy, 0.99):.1f}"
        )
        coarse = 10 * options.cell
        mean = table.raster("x", "y", cell=coarse, value="mean(z)")
        sample = table.raster("x", "y", cell=coarse, value="mean(z)", sample=0.1)
        some = np.isfinite(sample.error)
        inside = (sample.low <= mean.values) & (mean.values <= sample.high)
        print(
            f"mean height from a tenth of the points: error bars of "
            f"{np.median(sample.error[some]):.2g}, {np.mean(inside[some]):.1%} contain the mean"
        )
        for name, raster in made.items():
            try:
                raster.to_geotiff(options.out / f"{name}.tif")
            except ImportError as error:
                print(error)
                break
        try:
            draw(ground, canopy, made["ground"], options.out / "canopy.png")
        except ImportError as error:
            print(f"the image needs matplotlib: {error}")


if __name__ == "__main__":
    main()
