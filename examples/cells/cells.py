"""Segments an image tile by tile in parallel, and merges the cells across the borders of tiles.

    python examples/cells/cells.py FOLDER [--size 4096] [--tile 512] [--processes 2] [--image FILE.npy]

Each process labels the cells of its tiles and commits them: a bounding box, an area and a packed
mask. Cells that touch a border of their tile are provisional, in a later step than the others. The
program then reads only the border regions, joins the parts of cells, retracts the provisional step,
and commits the joined cells. It writes all cells as GeoJSON, and prints the bytes of the table and
of the label matrix in HDF5.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import kubist
import numpy as np
import pyarrow as pa
from scipy import ndimage

Array = np.ndarray

INNER, PROVISIONAL = 0, 1
"""The steps: cells inside of a tile, and cells at its border."""

SCHEMA = pa.schema(
    [
        ("tile", pa.int32()),
        ("label", pa.int32()),
        *((name, pa.float64()) for name in ("x", "y")),
        *((name, pa.int32()) for name in ("x_min", "x_max", "y_min", "y_max")),
        ("area", pa.int32()),
        ("mask", pa.binary()),
    ]
)


def synthesised(size: int, seed: int = 1) -> Array:
    """An image of round and elongated cells with noise, in 8 bits."""
    random = np.random.default_rng(seed)
    image = np.zeros((size, size), np.float32)
    cells = size * size // 700
    for y, x in random.uniform(0, size, (cells, 2)):
        a, b = random.uniform(3, 9, 2)
        reach = int(max(a, b)) + 2
        top, left = max(int(y) - reach, 0), max(int(x) - reach, 0)
        rows, columns = np.mgrid[
            top : min(int(y) + reach, size), left : min(int(x) + reach, size)
        ]
        angle = random.uniform(0, np.pi)
        along = (columns - x) * np.cos(angle) + (rows - y) * np.sin(angle)
        across = (rows - y) * np.cos(angle) - (columns - x) * np.sin(angle)
        part = image[rows, columns]
        inside = (along / a) ** 2 + (across / b) ** 2 <= 1
        image[rows, columns] = np.where(
            inside, np.maximum(part, random.uniform(130, 240)), part
        )
    return np.clip(image + random.normal(20, 6, image.shape), 0, 255).astype(np.uint8)


def segment(image: Array) -> Array:
    """The pixels of cells, which are brighter than a level above the background."""
    return image > 80


def tiles(shape: tuple[int, int], tile: int) -> Iterator[tuple[int, slice, slice]]:
    number = 0
    for top in range(0, shape[0], tile):
        for left in range(0, shape[1], tile):
            yield number, slice(top, top + tile), slice(left, left + tile)
            number += 1


def cell(tile: int, label: int, mask: Array, top: int, left: int) -> dict[str, object]:
    """The row of a cell, from its mask and the pixel at which the mask starts."""
    rows, columns = np.nonzero(mask)
    return {
        "tile": tile,
        "label": label,
        "x": float(left + columns.mean()),
        "y": float(top + rows.mean()),
        "x_min": left,
        "x_max": left + mask.shape[1] - 1,
        "y_min": top,
        "y_max": top + mask.shape[0] - 1,
        "area": len(rows),
        "mask": np.packbits(mask).tobytes(),
    }


def mask_of(row: dict[str, object]) -> Array:
    """The pixels of a cell in its bounding box."""
    shape = (row["y_max"] - row["y_min"] + 1, row["x_max"] - row["x_min"] + 1)
    bits = np.unpackbits(
        np.frombuffer(row["mask"], np.uint8), count=shape[0] * shape[1]
    )
    return bits.reshape(shape).astype(bool)


def commit_tiles(
    image: Path, table: Path, tile: int, numbers: list[int], name: str
) -> None:
    """Segments tiles and commits their cells: the work of one process, with a writer of its own."""
    pixels = np.load(image, mmap_mode="r")
    parts: dict[int, list[dict[str, object]]] = {INNER: [], PROVISIONAL: []}
    for number, rows, columns in tiles(pixels.shape, tile):
        if number not in numbers:
            continue
        part = pixels[rows, columns]
        found, _ = ndimage.label(segment(part))
        for label, (high, wide) in enumerate(ndimage.find_objects(found), 1):
            at_border = (
                (rows.start > 0 and high.start == 0)
                or (columns.start > 0 and wide.start == 0)
                or (rows.stop < pixels.shape[0] and high.stop == part.shape[0])
                or (columns.stop < pixels.shape[1] and wide.stop == part.shape[1])
            )
            top, left = rows.start + high.start, columns.start + wide.start
            step = PROVISIONAL if at_border else INNER
            parts[step].append(
                cell(number, label, found[high, wide] == label, top, left)
            )
    with kubist.open(table) as t, t.writer(name) as writer:
        for step, cells in parts.items():
            writer.append(pa.Table.from_pylist(cells, SCHEMA))
            writer.commit(step=step)


def joined(cells: list[dict[str, object]], tile: int) -> list[dict[str, object]]:
    """The cells at borders, with those that touch across a border as one."""
    # The pixels on both sides of a border, by their owner.
    owner: dict[tuple[int, int], int] = {}
    for number, row in enumerate(cells):
        rows, columns = np.nonzero(mask_of(row))
        y, x = rows + row["y_min"], columns + row["x_min"]
        near = np.isin(y % tile, (0, tile - 1)) | np.isin(x % tile, (0, tile - 1))
        for pixel in zip(y[near].tolist(), x[near].tolist(), strict=True):
            owner[pixel] = number
    root = list(range(len(cells)))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = root[root[number]]
            number = root[number]
        return number

    for (y, x), number in owner.items():
        for neighbour in ((y + 1, x), (y, x + 1)):
            other = owner.get(neighbour)
            if other is not None:
                root[find(number)] = find(other)
    groups: dict[int, list[dict[str, object]]] = {}
    for number, row in enumerate(cells):
        groups.setdefault(find(number), []).append(row)
    return [group[0] if len(group) == 1 else merged(group) for group in groups.values()]


def merged(parts: list[dict[str, object]]) -> dict[str, object]:
    top, left = min(row["y_min"] for row in parts), min(row["x_min"] for row in parts)
    bottom, right = (
        max(row["y_max"] for row in parts),
        max(row["x_max"] for row in parts),
    )
    mask = np.zeros((bottom - top + 1, right - left + 1), bool)
    for row in parts:
        own = mask_of(row)
        y, x = row["y_min"] - top, row["x_min"] - left
        mask[y : y + own.shape[0], x : x + own.shape[1]] |= own
    return cell(parts[0]["tile"], parts[0]["label"], mask, top, left)


def labels(table: kubist.Table, shape: tuple[int, int]) -> Array:
    """The label matrix of all cells, drawn from their masks."""
    found = np.zeros(shape, np.int32)
    number = 0
    for batch in table.query():
        for row in batch.to_pylist():
            number += 1
            rows, columns = np.nonzero(mask_of(row))
            found[rows + row["y_min"], columns + row["x_min"]] = number
    return found


def rings(mask: Array, top: int, left: int) -> list[list[list[int]]]:
    """The borders of a mask along pixel edges; holes have the opposite direction."""
    padded = np.pad(mask, 1).astype(np.int8)
    following: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def edge(start: tuple[int, int], end: tuple[int, int]) -> None:
        following.setdefault(start, []).append(end)

    for y, x in zip(*np.nonzero(mask), strict=True):
        y, x = int(y), int(x)
        if not padded[y, x + 1]:
            edge((x, y), (x + 1, y))
        if not padded[y + 1, x + 2]:
            edge((x + 1, y), (x + 1, y + 1))
        if not padded[y + 2, x + 1]:
            edge((x + 1, y + 1), (x, y + 1))
        if not padded[y + 1, x]:
            edge((x, y + 1), (x, y))
    found = []
    while following:
        start = at = next(iter(following))
        ring, direction = [start], (0, 0)
        while True:
            ends = following[at]
            # Where two pixels meet in a corner, turn right: they belong to different rings.
            turn = {(direction[1] * -1, direction[0]): 0, direction: 1}
            end = min(ends, key=lambda to: turn.get((to[0] - at[0], to[1] - at[1]), 2))
            ends.remove(end)
            if not ends:
                del following[at]
            direction, at = (end[0] - at[0], end[1] - at[1]), end
            ring.append(at)
            if at == start:
                break
        found.append([[x + left, y + top] for x, y in corners(ring)])
    return found


def corners(ring: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ring without points on a straight line."""
    inner = ring[:-1]
    kept = [
        at
        for before, at, after in zip(
            inner[-1:] + inner[:-1], inner, inner[1:] + inner[:1], strict=True
        )
        if (at[0] - before[0], at[1] - before[1])
        != (after[0] - at[0], after[1] - at[1])
    ]
    return [*kept, kept[0]]


def write_geojson(table: kubist.Table, path: Path) -> None:
    """As polygons with holes, in pixels."""
    with path.open("w") as file:
        file.write('{"type": "FeatureCollection", "features": [')
        separator = "\n"
        for batch in table.query():
            for row in batch.to_pylist():
                found = rings(mask_of(row), row["y_min"], row["x_min"])
                outer = [ring for ring in found if area(ring) > 0]
                holes = [ring for ring in found if area(ring) < 0]
                kind, shape = "Polygon", [*outer, *holes]
                if len(outer) > 1:
                    kind, shape = "MultiPolygon", [[ring] for ring in outer]
                    shape[0] += holes
                about = {
                    "tile": row["tile"],
                    "label": row["label"],
                    "area": row["area"],
                }
                geometry = {"type": kind, "coordinates": shape}
                feature = {"type": "Feature", "properties": about, "geometry": geometry}
                file.write(separator + json.dumps(feature))
                separator = ",\n"
        file.write("\n]}\n")


def area(ring: list[list[int]]) -> float:
    return sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairwise(ring)) / 2


def hdf5_bytes(matrix: Array, path: Path) -> int | None:
    """With gzip; None without h5py."""
    try:
        import h5py
    except ImportError:
        return None
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "labels", data=matrix, chunks=(256, 256), compression="gzip"
        )
    return path.stat().st_size


def run(
    folder: Path, size: int, tile: int, processes: int, image: Path | None = None
) -> dict[str, float]:
    """Returns the figures of the report."""
    pixels = synthesised(size) if image is None else np.load(image)
    np.save(folder / "image.npy", pixels)
    location = folder / "cells.kubist"
    t = kubist.create(
        location,
        SCHEMA,
        {"x": (0, pixels.shape[1]), "y": (0, pixels.shape[0])},
        extent={"x": ("x_min", "x_max"), "y": ("y_min", "y_max")},
        capacity=1_024,
    )
    numbers = [number for number, *_ in tiles(pixels.shape, tile)]
    shares = [numbers[first::processes] for first in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        arguments = [
            (folder / "image.npy", location, tile, share, f"process-{number}")
            for number, share in enumerate(shares)
        ]
        pool.starmap(commit_tiles, arguments)
    segmented = len(t)

    everything = t.query()
    everything.to_arrow()
    # Pixels at most one from a border, which is between two pixels.
    borders = {
        name: [edge - 0.5 for edge in range(0, length + tile, tile)]
        for name, length in (("x", pixels.shape[1]), ("y", pixels.shape[0]))
    }
    read = t.border(borders, 0.5, steps=PROVISIONAL)
    provisional = read.to_arrow().to_pylist()
    final = joined(provisional, tile)
    t.retract(step_after=INNER)
    with t.writer() as writer:
        writer.append(pa.Table.from_pylist(final, SCHEMA))
        writer.commit(step=PROVISIONAL)
    t.optimize()

    matrix = labels(t, pixels.shape)
    write_geojson(t, folder / "cells.geojson")
    in_hdf5 = hdf5_bytes(matrix, folder / "labels.h5")
    return {
        "tiles": len(numbers),
        "segmented": segmented,
        "provisional": len(provisional),
        "merged": segmented - len(t),
        "cells": len(t),
        "border_bytes": read.stats.bytes_read,
        "border_fraction": read.stats.bytes_read / everything.stats.bytes_read,
        "matrix_bytes": matrix.nbytes,
        "hdf5_bytes": in_hdf5 or 0,
        "table_bytes": t.info().bytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--tile", type=int, default=512)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--image", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = run(
        options.folder, options.size, options.tile, options.processes, options.image
    )
    print(f"{found['tiles']} tiles, {found['segmented']:,} cells and parts of cells")
    print(
        f"borders: {found['provisional']:,} cells, {found['border_bytes']:,} bytes read, "
        f"{found['border_fraction']:.0%} of the bytes of all cells"
    )
    print(f"{found['merged']:,} parts were merged: {found['cells']:,} cells")
    print(
        f"label matrix: {found['matrix_bytes']:,} bytes, in HDF5 {found['hdf5_bytes']:,} bytes"
    )
    print(f"table: {found['table_bytes']:,} bytes")


if __name__ == "__main__":
    main()
