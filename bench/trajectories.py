"""Trajectories in a table compared with XTC, through MDAnalysis, cold, in one run: `make bench-md`.

The frames, water around a receptor (52,323 atoms), are from the package prolif. They are repeated
forwards and backwards up to the wanted length, so the size is synthetic but positions are real.
MDAnalysis reads both formats with the same calls where possible, and must give the same positions,
bit by bit.

Each query runs in its own process, with the Universe open and the files dropped from the page
cache. MDAnalysis' frame index (.npz) of the XTC exists already.

STORES=folder selects the disk; FRAMES and REPEATS override the defaults. The output also replaces
the section "Figures" of docs/for-mdanalysis.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .measure import drop_files

Array = np.ndarray[Any, Any]

FRAMES = int(os.environ.get("FRAMES") or 250)
REPEATS = int(os.environ.get("REPEATS") or 5)
ATOMS = 100
REGION = {"x": (-10.0, 10.0), "y": (-10.0, 10.0), "z": (-10.0, 10.0)}
"""In Angstrom: about 1.5 % of the atoms."""
PAGE = Path(__file__).resolve().parent.parent / "docs" / "for-mdanalysis.md"
SECTION = "## Figures\n"


@dataclass
class Place:
    folder: Path

    @property
    def topology(self) -> Path:
        return self.folder / "water.pdb"

    @property
    def xtc(self) -> Path:
        return self.folder / "run.xtc"

    @property
    def table(self) -> Path:
        return self.folder / "run.kubist"

    def universe(self, way: str) -> Any:
        import MDAnalysis as mda

        if way == "XTC":
            return mda.Universe(str(self.topology), str(self.xtc), to_guess=())
        import kubist.mdanalysis  # noqa: F401

        return mda.Universe(str(self.table), to_guess=())


# Queries return positions; those of a region also frame and atom.


def neighbours(universe: Any, way: str) -> Iterator[Array]:
    """A few residues of the receptor."""
    yield universe.trajectory.timeseries(atomgroup=universe.atoms[1000 : 1000 + ATOMS])


def strangers(universe: Any, way: str) -> Iterator[Array]:
    """Atoms all over the box, mostly water: the worst case for a spatial index."""
    chosen = np.random.default_rng(7).choice(universe.atoms.n_atoms, ATOMS, replace=False)
    yield universe.trajectory.timeseries(atomgroup=universe.atoms[np.sort(chosen)])


def region(universe: Any, way: str) -> Iterator[Array]:
    if way == "Kubist":
        found = universe.trajectory.region(REGION)
        yield from (found["frame"], found["atom"])
        yield from (found[name] for name in "xyz")
        return
    lows, highs = np.array(list(REGION.values())).T
    parts = []
    for ts in universe.trajectory:
        x = ts.positions
        inside = np.flatnonzero(((x >= lows) & (x <= highs)).all(axis=1))
        parts.append((np.full(len(inside), ts.frame, np.int32), inside.astype(np.int32), x[inside]))
    frames, atoms, places = (np.concatenate(column) for column in zip(*parts, strict=True))
    yield from (frames, atoms, *places.T)


def tenth_frames(universe: Any, way: str) -> Iterator[Array]:
    for ts in universe.trajectory[::10]:
        yield ts.positions


QUESTIONS: dict[str, tuple[Callable[[Any, str], Iterator[Array]], str, float]] = {
    "neighbours": (neighbours, f"all positions of {ATOMS} atoms that follow each other", 20),
    "strangers": (strangers, f"all positions of {ATOMS} atoms at random", 20),
    "region": (region, "a region of 20 x 20 x 20 Å over time", 20),
    "tenth": (tenth_frames, "every tenth frame, all atoms", 1),
}


@dataclass
class Spent:
    wall: float
    processor: float


def clocks() -> Array:
    return np.array([time.perf_counter(), time.process_time()])


def asked(place: Place, way: str, question: str) -> tuple[Spent, str]:
    universe = place.universe(way)
    drop_files(place.folder)
    digest, spent = hashlib.sha256(), np.zeros(2)
    begin = clocks()
    for array in QUESTIONS[question][0](universe, way):
        spent += clocks() - begin
        digest.update(np.ascontiguousarray(array).tobytes())
        begin = clocks()
    return Spent(*(spent + clocks() - begin).tolist()), digest.hexdigest()




def read_source(place: Place) -> Spent:
    drop_files(place.folder)
    begin = clocks()
    for ts in place.universe("XTC").trajectory:
        assert ts.positions.shape
    return Spent(*(clocks() - begin).tolist())


def ingested(place: Place) -> Spent:
    import kubist

    shutil.rmtree(place.table, ignore_errors=True)
    drop_files(place.folder)
    begin = clocks()
    kubist.ingest(place.table, place.xtc, read={"topology": place.topology})
    return Spent(*(clocks() - begin).tolist())


def prepared(place: Place) -> int:
    """Returns the number of atoms."""
    import MDAnalysis as mda

    package = importlib.util.find_spec("prolif")
    if package is None or package.origin is None:
        raise SystemExit("the frames come with prolif: pip install prolif")
    data = Path(package.origin).parent / "data"
    shutil.copy(data / "water_m2.pdb", place.topology)
    universe = mda.Universe(str(place.topology), str(data / "water_m2.xtc"), to_guess=())
    count = len(universe.trajectory)
    there_and_back = cycle(chain(range(count), range(count - 2, 0, -1)))
    with mda.Writer(str(place.xtc), universe.atoms.n_atoms) as out:
        for number, frame in enumerate(islice(there_and_back, FRAMES)):
            ts = universe.trajectory[frame]
            ts.time = float(number)
            out.write(universe.atoms)
    place.universe("XTC")
    return int(universe.atoms.n_atoms)




def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Runs in its own process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=quiet) as pool:
        return pool.submit(work, *arguments).result()


def quiet() -> None:
    """MDAnalysis warns of fields that its formats lack."""
    warnings.simplefilter("ignore")
    import MDAnalysis  # noqa: F401

    import kubist.mdanalysis  # noqa: F401


def spread(spent: list[Spent]) -> str:
    walls = [each.wall for each in spent]
    return f"{statistics.median(walls):.3f} ({min(walls):.3f} to {max(walls):.3f})"


def ratios(ours: list[Spent], theirs: list[Spent]) -> tuple[float, float]:
    wall = statistics.median(s.wall for s in theirs) / statistics.median(s.wall for s in ours)
    theirs_processor = statistics.median(s.processor for s in theirs)
    return wall, theirs_processor / statistics.median(s.processor for s in ours)


def size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def measured(place: Place) -> Iterator[str]:
    atoms = apart(prepared, place)
    how = drop_files(place.folder)
    yield (
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"load of others {os.getloadavg()[0]:.1f}. "
        f"{FRAMES} frames of {atoms:,} atoms, made of the real frames of prolif's water_m2.xtc, "
        f"repeated forwards and backwards. Cold: {how}; a process for each question, Universe "
        f"open. Seconds: median of {REPEATS} (least to most); the answers are the same bit by bit. "
        "Others that use the machine slow both down; processor time is what they do not change."
    )
    yield ""
    yield "| | XTC, MDAnalysis | Kubist, MDAnalysis | times as fast | by processor time | wanted |"
    yield "|---|---:|---:|---:|---:|---:|"
    reading = [apart(read_source, place) for _ in range(REPEATS)]
    writing = [apart(ingested, place) for _ in range(REPEATS)]
    for question, (_, label, wanted) in QUESTIONS.items():
        found: dict[str, list[Spent]] = {}
        answers = set()
        for _ in range(REPEATS):
            for way in ("XTC", "Kubist"):
                spent, answer = apart(asked, place, way, question)
                found.setdefault(way, []).append(spent)
                answers.add(answer)
        if len(answers) != 1:
            raise SystemExit(f"{label}: the answers differ")
        times = [f"{ratio:.1f}" for ratio in ratios(found["Kubist"], found["XTC"])]
        columns = [label, *map(spread, found.values()), *times, f"at least {wanted:g}"]
        yield f"| {' | '.join(columns)} |"
    wall, processor = ratios(reading, writing)
    yield (
        f"| reading all of the XTC; `kubist.ingest` of it | {spread(reading)} | {spread(writing)} "
        f"| takes {wall:.2f} times as long | {processor:.2f} times | at most 1.3 times |"
    )
    on_disk = [f"{size(path) / 1e6:,.0f}" for path in (place.xtc, place.table)]
    yield f"| MB on disk | {' | '.join(on_disk)} | | | |"


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("STORES") or None) as folder:
        lines = []
        for line in measured(Place(Path(folder))):
            print(line, flush=True)
            lines.append(line)
    head, found, _ = PAGE.read_text().partition(SECTION)
    if not found:
        raise SystemExit(f"{PAGE} has no section 'Figures'")
    PAGE.write_text(f"{head}{SECTION}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
