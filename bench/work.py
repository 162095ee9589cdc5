"""The queries: boxes of given sizes at several locations, samples, limits, filters.

At each location, a cube gets the half width that gives the wanted number of rows. Bounds are exact
in float32, so that all systems use the same box.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .data import Dataset
from .keys import column
from .question import Question


@dataclass(frozen=True)
class Cell:
    """One line of a table: queries with a common median."""

    key: str
    label: str
    questions: list[Question]
    how: str = "ask"
    """``ask``, ``scan``, ``first`` or ``readers``."""
    states: tuple[str, ...] = ("cold", "warm")
    target: str = ""
    """The name of its target, as in `targets`."""

    def as_json(self) -> dict[str, Any]:
        questions = [question.as_json() for question in self.questions]
        return {"key": self.key, "label": self.label, "questions": questions, "target": self.target}


@dataclass
class Boxes:
    """Cubes with about the given numbers of rows, one per location."""

    data: Dataset
    locations: int
    seed: int = 5
    found: dict[int, list[dict[str, tuple[float, float]]]] = field(default_factory=dict)

    def find(self, sizes: list[int]) -> None:
        table = self.data.table()
        names = [name for name in self.data.domain if name != "time"]
        values = [column(table, name) for name in names]
        low = np.array([self.data.domain[name][0] for name in names])
        high = np.array([self.data.domain[name][1] for name in names])
        rng = np.random.default_rng(self.seed)
        self.found = {size: [] for size in sizes}
        for _ in range(self.locations):
            # Away from the edges, like a user's feature of interest.
            centre = (low + (high - low) * rng.uniform(0.15, 0.85, len(names))).astype(np.float32)
            far = np.zeros(len(values[0]), np.float32)
            for axis, each in enumerate(values):
                np.maximum(far, np.abs(each - centre[axis]), out=far)
            halves = np.partition(far, [size - 1 for size in sizes])
            for size in sizes:
                half = halves[size - 1]
                ends = [(float(c - half), float(c + half)) for c in centre]
                self.found[size].append(dict(zip(names, ends, strict=True)))


def main_cells(data: Dataset, locations: int, readers: int) -> list[Cell]:
    large = min(1_000_000, data.rows // 20)
    sizes = {"A": large, "B": large // 10, "C": large // 1000}
    wide, narrow = data.rows // 4, large // 5
    boxes = Boxes(data, locations)
    boxes.find([*sizes.values(), wide, narrow])
    cells = thesis_cells(boxes, sizes)
    for share in (0.0001, 0.001, 0.01):
        cells.append(
            Cell(f"everything-{share}", f"{_percent(share)} of everything", [Question(share=share)])
        )
    for share in (0.0001, 0.001, 0.01):
        asked = [Question(box=box, share=share) for box in boxes.found[wide]]
        label = f"{_percent(share)} of a box of {_rows(wide)}"
        cells.append(
            Cell(f"wide-{share}", label, asked, target="sample in a box" * (share == 0.01))
        )
    asked = [Question(box=box, share=0.01) for box in boxes.found[narrow]]
    label = f"1 % of a box of {_rows(narrow)}"
    cells.append(Cell("narrow-0.01", label, asked, target="sample in a box"))
    cells += where_cells(data, boxes.found[sizes["A"]])
    cells.append(Cell("first", "first batch of a progressive query", [Question()], how="first"))
    cells.append(Cell("scan", "full scan, batches dropped", [Question()], how="scan"))
    cells.append(Cell("collect", "full scan, all kept", [Question()], target="scan"))
    asked = [Question(box=box) for box in boxes.found[sizes["B"]]]
    label = f"{readers} readers at once, box B, all"
    cells.append(Cell("readers", label, asked, how="readers", states=("warm",)))
    return cells


def thesis_cells(boxes: Boxes, sizes: dict[str, int]) -> list[Cell]:
    """Queries A, B and C, complete and with the two subsamples (thesis, table 3.1)."""
    cells = []
    for name, size in sizes.items():
        said = f"{name}: box of {_rows(size)}"
        for key, label, more, target in (
            ("all", "all", {}, "box"),
            ("limit", "limit 1000, uniform", {"limit": 1000}, "thinned"),
            ("any", "limit 1000, any rows", {"limit": 1000, "any_rows": True}, ""),
            ("ten", "10 %", {"share": 0.1}, "thinned"),
        ):
            asked = [Question(box=box, **more) for box in boxes.found[size]]
            states = ("warm",) if key == "any" else ("cold", "warm")
            cells.append(Cell(f"{name}-{key}", f"{said}, {label}", asked, "ask", states, target))
    return cells


def where_cells(data: Dataset, boxes: list[dict[str, tuple[float, float]]]) -> list[Cell]:
    """A filter on a velocity, which has no index: alone, and in a box."""
    values = column(data.table(), "vz")
    rare, common = (float(each) for each in np.quantile(values[::7], [0.999, 0.9]))
    return [
        Cell(
            "where",
            "`where vz > v`, 0.1 % of the rows",
            [Question(where=("vz", ">", float(np.float32(rare))))],
        ),
        Cell(
            "where-box",
            "`where vz > v`, 10 % of the rows, in box A",
            [Question(box=box, where=("vz", ">", float(np.float32(common)))) for box in boxes],
        ),
    ]


def box_cells(data: Dataset, locations: int) -> list[Cell]:
    size = data.rows // 16
    boxes = Boxes(data, locations)
    boxes.find([size])
    asked = [Question(box=box) for box in boxes.found[size]]
    sampled = [Question(box=box, share=0.01) for box in boxes.found[size]]
    return [
        Cell("box", f"box of {_rows(size)}, all", asked, states=("warm",), target="exact box"),
        Cell("box-1", f"box of {_rows(size)}, 1 %", sampled, states=("warm",)),
    ]


def examined_cells(data: Dataset, locations: int) -> list[Cell]:
    """Boxes of four sizes at many locations: rows examined and returned."""
    sizes = [size for size in (1_000_000, 100_000, 10_000, 1_000) if size <= data.rows // 4]
    boxes = Boxes(data, locations)
    boxes.find(sizes)
    return [
        Cell(
            f"box-{size}",
            f"boxes of {_rows(size)}",
            [Question(box=box) for box in boxes.found[size]],
            states=("warm",),
        )
        for size in sizes
    ]


def field_cells(data: Dataset, locations: int) -> list[Cell]:
    large = min(1_000_000, data.rows // 20)
    sizes = {"A": large, "B": large // 10, "C": large // 1000}
    boxes = Boxes(data, locations)
    boxes.find(list(sizes.values()))
    return thesis_cells(boxes, sizes)


def droplet_cells(data: Dataset, locations: int) -> list[Cell]:
    """Queries of an inhalation (thesis, 4.5): overview, a region, the inlet."""
    bend = {"x": (0.168, 0.222), "y": (-0.045, 0.095)}
    inlet = {"x": (0.0, 0.02)}
    return [
        Cell("overview", "all, 0.01 %", [Question(share=0.0001)]),
        Cell("region", "a region, 1 %", [Question(box=_exact(bend), share=0.01)]),
        Cell("inlet", "the inlet, 1 %", [Question(box=_exact(inlet), share=0.01)]),
    ]


def stream_cells(data: Dataset, locations: int) -> list[Cell]:
    size = min(100_000, data.rows // 20)
    boxes = Boxes(data, locations)
    boxes.find([size])
    asked = boxes.found[size]
    said = f"box of {_rows(size)}"
    return [
        Cell("box", f"{said}, all", [Question(box=b) for b in asked], states=("warm",)),
        Cell("ten", f"{said}, 10 %", [Question(box=b, share=0.1) for b in asked], states=("warm",)),
        Cell("one", "1 % of everything", [Question(share=0.01)], states=("warm",)),
    ]


def particle_cells(data: Dataset, locations: int) -> list[Cell]:
    most = -(-data.rows // 1000)
    pids = np.random.default_rng(6).integers(0, most, locations)
    asked = [Question(particle=int(pid)) for pid in pids]
    return [Cell("particle", "all rows of one particle", asked, target="particle")]


def sample_cells(data: Dataset, share: float) -> list[Cell]:
    """A sample of everything, and the first result of a progressive query."""
    said = f"{_rows(data.rows)} rows"
    return [
        Cell(f"sample-{share}", f"{_percent(share)} of {said}", [Question(share=share)]),
        Cell("first", f"first batch of a progressive query, {said}", [Question()], how="first"),
    ]


def memory_cells(data: Dataset, locations: int) -> list[Cell]:
    """Queries with too little memory for the table."""
    large = min(1_000_000, data.rows // 20)
    boxes = Boxes(data, locations)
    boxes.find([large, large // 1000])
    return [
        Cell("A", f"box of {_rows(large)}", [Question(box=b) for b in boxes.found[large]]),
        Cell(
            "C",
            f"box of {_rows(large // 1000)}",
            [Question(box=b) for b in boxes.found[large // 1000]],
        ),
        Cell("one", "0.1 % of everything", [Question(share=0.001)]),
        Cell("scan", "full scan, batches dropped", [Question()], how="scan"),
    ]


def _exact(box: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The same box with bounds in float32."""
    return {name: (float(np.float32(a)), float(np.float32(b))) for name, (a, b) in box.items()}


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _rows(count: int) -> str:
    for unit, name in ((1_000_000, " M"), (1_000, " k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)
