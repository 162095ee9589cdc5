"""The I/O model compared with measured reads, and simulated gains of reading techniques.

Blocks, bytes and requests are measured on shuffled values. The techniques (merged requests, a
balanced schedule, sorted copies) are simulated with the blocks that real queries hit, because this
machine has too few devices. A request takes ``latency + bytes / bandwidth``; each worker has its
own device, and its time is the sum over its requests. The paper (block-index, SC17) reports factors
of 1.27 to 1.98 for a single technique, and of 1.42 to 2.28 for all.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LATENCY, BANDWIDTH = 2e-3, 2e8
"""A network file system: seconds per request, bytes per second."""
WORKERS = (1, 2, 4, 8, 16)
THETAS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Fractions of the tasks that are assigned in advance."""
TASK = 4 << 20
"""Bytes per task."""
SHARES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
SHUFFLES = 100
MODEL_ROWS, MODEL_BLOCK = 2_000_000, "4KiB"
"""The number of blocks of 64 KiB with 32 million values."""


@dataclass(frozen=True)
class Piece:
    begin: int
    end: int
    is_sorted: bool

    @property
    def seconds(self) -> float:
        return LATENCY + (self.end - self.begin) / BANDWIDTH


def hits(files: Any, question: dict[str, Any], in_order: bool) -> list[dict[str, Any]]:
    """The blocks that a query reads; with ``in_order``, parts of sorted copies where they exist."""
    found: list[dict[str, Any]] = json.loads(
        files._files.hits(json.dumps(question), json.dumps({"sorted": in_order}))
    )
    return found


def pieces(found: Sequence[dict[str, Any]], merged: bool) -> list[Piece]:
    """Requests in file order; with ``merged``, neighbours become one request if that is faster."""
    gap = LATENCY * BANDWIDTH if merged else -1
    out: list[Piece] = []
    for is_sorted in (False, True):
        fresh = True
        own = sorted(
            (h["offset"], h["offset"] + h["bytes"]) for h in found if h["is_sorted"] == is_sorted
        )
        for begin, end in own:
            if not fresh and begin <= out[-1].end + gap and end - out[-1].begin <= TASK:
                out[-1] = Piece(out[-1].begin, max(out[-1].end, end), is_sorted)
            else:
                out.append(Piece(begin, end, is_sorted))
                fresh = False
    return out


def by_ranges(own: Sequence[Piece], size: int, workers: int) -> tuple[float, float]:
    """Seconds of the slowest and fastest worker, with a static partition of the file."""
    times = [0.0] * workers
    copies = [piece for piece in own if piece.is_sorted]
    for piece in own:
        if not piece.is_sorted:
            times[min(piece.begin * workers // size, workers - 1)] += piece.seconds
    # Sorted copies are in block order, in the index.
    for place, piece in enumerate(copies):
        times[place * workers // len(copies)] += piece.seconds
    return max(times), min(times)


def by_schedule(own: Sequence[Piece], workers: int, theta: float) -> tuple[float, float]:
    """The same with the adaptive schedule: a fraction in advance, the rest in shrinking chunks."""
    beforehand = int(len(own) * theta)
    times = [
        sum(p.seconds for p in own[beforehand * w // workers : beforehand * (w + 1) // workers])
        for w in range(workers)
    ]
    free = [(seconds, worker) for worker, seconds in enumerate(times)]
    heapq.heapify(free)
    at = beforehand
    while at < len(own):
        run = max(1, -(-(len(own) - at) // (2 * max(workers - 1, 1))))
        seconds, worker = heapq.heappop(free)
        seconds += sum(piece.seconds for piece in own[at : at + run])
        at += run
        heapq.heappush(free, (seconds, worker))
    ends = [seconds for seconds, _ in free]
    return max(ends), min(ends)


def bound_of(values: np.ndarray, share: float) -> float:
    place = len(values) - max(int(share * len(values)), 1) - 1
    return float(np.partition(values, place)[place])


def line(folder: Path) -> list[dict[str, float]]:
    """Measured reads of shuffled values, and the model's prediction.

    Both are means over many shuffles, because single queries with few blocks vary.
    """
    import kubist

    path = folder / "model.npy"
    rng = np.random.default_rng(3)
    values = np.sort(rng.random(MODEL_ROWS, "f4"))
    points: list[dict[str, float]] = [{"share": share} for share in SHARES]
    for _ in range(SHUFFLES):
        np.save(path, rng.permutation(values))
        (folder / "model.npy.kubix").unlink(missing_ok=True)
        files = kubist.index(path, block=MODEL_BLOCK)
        for point in points:
            bound = float(values[-max(int(point["share"] * MODEL_ROWS), 1) - 1])
            costs = files.explain(f"model > {bound!r}", columns=["model"])
            for name in ("blocks", "bytes", "requests"):
                measured = costs.blocks_read if name == "blocks" else getattr(costs, name)
                expected = f"expected_{name}"
                point[name] = point.get(name, 0.0) + measured / SHUFFLES
                point[expected] = point.get(expected, 0.0) + costs.expected[name] / SHUFFLES
    path.unlink()
    return points


def draw(points: Sequence[dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
    for panel, name in zip(panels, ("blocks", "bytes", "requests"), strict=True):
        shares = [point["share"] for point in points]
        panel.loglog(
            shares, [point[f"expected_{name}"] for point in points], color="#666666", label="model"
        )
        panel.loglog(
            shares, [point[name] for point in points], "o", color="#1f77b4", label="measured"
        )
        panel.set_xlabel("fraction of the values in the query")
        panel.set_title(name)
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=130)


def main(folder: Path) -> None:
    points = line(folder)
    print(
        "| share | blocks | model | MB | model | requests | model |\n|---|---|---|---|---|---|---|"
    )
    for p in points:
        print(
            f"| {p['share']:g} | {p['blocks']:,.1f} | {p['expected_blocks']:,.1f} | {p['bytes'] / 1e6:.3f} | "
            f"{p['expected_bytes'] / 1e6:.3f} | {p['requests']:,.1f} | {p['expected_requests']:,.1f} |"
        )
    path = folder / "model.png"
    try:
        draw(points, path)
        print(f"\n{path}\n")
    except ImportError:
        print("\nmatplotlib is not installed: no plot\n")
    speedups(folder)


def speedups(folder: Path) -> None:
    import h5py

    import kubist

    print(
        f"Simulated: {1e3 * LATENCY:g} ms a request, {BANDWIDTH / 1e6:g} MB/s; share 1e-3. Speed-up over plain "
        "blocks with a static partition, and seconds of the slowest and fastest worker with all techniques.\n"
    )
    print(
        "| data | question | workers | balance | sort | merge | all | slowest s | fastest s |\n|---|---|---|---|---|---|---|---|---|"
    )
    by_theta: dict[float, list[float]] = {theta: [] for theta in THETAS}
    for name in ("smooth", "energy", "mass", "shuffled"):
        with h5py.File(folder / name / "data.h5") as file:
            values = file["v"][:]
        size = (folder / name / "data.h5").stat().st_size
        files = kubist.indexing.FileIndex([folder / name / "data.h5"], folder / name / "sorted")
        count = len(values) // 1000
        ordered = np.sort(values)
        middle = (float(ordered[len(values) // 2]), float(ordered[len(values) // 2 + count]))
        for label, where in (
            ("tail", f"v > {bound_of(values, 1e-3)!r}"),
            ("middle", f"v BETWEEN {middle[0]!r} AND {middle[1]!r}"),
        ):
            question = {"where": where, "columns": ["v"]}
            plain, copies = hits(files, question, False), hits(files, question, True)
            for workers in WORKERS:
                base, _ = by_ranges(pieces(plain, False), size, workers)
                sort, _ = by_ranges(pieces(copies, False), size, workers)
                merge, _ = by_ranges(pieces(plain, True), size, workers)
                of_theta = {t: by_schedule(pieces(plain, False), workers, t) for t in THETAS}
                all_of = {t: by_schedule(pieces(copies, True), workers, t) for t in THETAS}
                if workers > 1:
                    for theta in THETAS:
                        by_theta[theta].append(
                            all_of[theta][0] / min(ends[0] for ends in all_of.values())
                        )
                balance, (slowest, fastest) = of_theta[0.5][0], all_of[0.5]
                print(
                    f"| {name} | {label} | {workers} | {base / balance:.2f} | {base / sort:.2f} | "
                    f"{base / merge:.2f} | {base / slowest:.2f} | {slowest:.3f} | {fastest:.3f} |"
                )
    print(
        "\nTime with all techniques by the fraction assigned in advance, relative to the best of these:"
    )
    for theta, ratios in by_theta.items():
        print(f"  {theta:g}: mean {np.mean(ratios):.3f}, worst {np.max(ratios):.3f}")
