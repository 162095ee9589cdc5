"""Draws the diagrams of docs/concepts/ as SVG, in one style.

    python scripts/drawings.py          # writes docs/concepts/*.svg
    python scripts/drawings.py --check  # exits with 1 if a file differs

It needs only the standard library. Points come from a seeded generator; samples and cubes follow
the engine's rules, so the diagrams are correct examples.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "concepts"

INK, GREY, LIGHT, PAPER = "#22303c", "#8a97a3", "#e8ecef", "#ffffff"
BLUE, ORANGE, GREEN, RED = "#2f6fb3", "#d9822b", "#3a8f5c", "#b8443c"
PALE = {BLUE: "#dbe7f4", ORANGE: "#f8e6d2", GREEN: "#dbeee2", RED: "#f3dbd9"}


@dataclass
class Drawing:
    width: int
    height: int
    title: str
    marks: list[str] = field(default_factory=list)

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str = "none",
        stroke: str = INK,
        width: float = 1.2,
        radius: float = 3,
        dash: str = "",
    ) -> None:
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius:g}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}"{extra}/>'
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        colour: str = INK,
        width: float = 1.2,
        dash: str = "",
    ) -> None:
        extra = f' stroke-dasharray="{dash}"' if dash else ""
        self.marks.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"{extra}/>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, colour: str = INK) -> None:
        self.marks.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="1.6" marker-end="url(#{"h" + colour[1:]})"/>'
        )

    def dots(
        self, places: Iterable[tuple[float, float]], colour: str = INK, radius: float = 2
    ) -> None:
        """Discs as one path, because a line of zero length has round ends."""
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
        if path:
            self.marks.append(
                f'<path d="{path}" stroke="{colour}" stroke-width="{2 * radius:g}" stroke-linecap="round"/>'
            )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 13,
        colour: str = INK,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        family = ' font-family="ui-monospace, monospace"' if mono else ""
        self.marks.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"{weight}{family}>{escape(words)}</text>'
        )

    def box(self, x: float, y: float, w: float, h: float, colour: str, *words: str) -> None:
        """A filled box with centred lines of text, the first one bold."""
        self.rect(x, y, w, h, PALE.get(colour, LIGHT), colour)
        top = y + h / 2 - (len(words) - 1) * 8 + 4.5
        for i, line in enumerate(words):
            self.text(
                x + w / 2, top + 16 * i, line, 13 if i == 0 else 11.5, anchor="middle", bold=i == 0
            )

    def svg(self) -> str:
        heads = "".join(
            f'<marker id="h{c[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{c}"/></marker>'
            for c in (INK, GREY, BLUE, ORANGE, GREEN, RED)
        )
        body = "\n".join(self.marks)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" '
            f'font-family="system-ui, Helvetica, Arial, sans-serif" role="img">\n<title>{escape(self.title)}</title>\n<defs>{heads}</defs>\n'
            f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>\n{body}\n</svg>\n'
        )


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    priority: float


def points(count: int, seed: int = 7) -> list[Point]:
    """Clustered points in the unit square, each with a uniform priority."""
    rng = random.Random(seed)
    centres = [(0.28, 0.34, 0.09), (0.7, 0.68, 0.07), (0.62, 0.2, 0.16)]
    points = []
    while len(points) < count:
        if rng.random() < 0.2:
            x, y = rng.random(), rng.random()
        else:
            cx, cy, spread = rng.choice(centres)
            x, y = rng.gauss(cx, spread), rng.gauss(cy, spread)
        if 0 <= x < 1 and 0 <= y < 1:
            points.append(Point(x, y, rng.random()))
    return points


@dataclass
class Cube:
    """A cube of the tree with the rows that it keeps, by the rule of the thesis."""

    x: float
    y: float
    size: float
    level: int
    rows: list[Point]
    cutoff: float
    children: list[Cube]


def tree(
    rows: list[Point], capacity: int, x: float = 0, y: float = 0, size: float = 1, level: int = 0
) -> Cube:
    """Each cube keeps the ``capacity`` rows of lowest priority; its children get the others."""
    ordered = sorted(rows, key=lambda p: p.priority)
    kept, rest = ordered[:capacity], ordered[capacity:]
    half, children = size / 2, []
    if rest:
        for dx in (0, 1):
            for dy in (0, 1):
                x0, y0 = x + dx * half, y + dy * half
                inside = [p for p in rest if x0 <= p.x < x0 + half and y0 <= p.y < y0 + half]
                if inside:
                    children.append(tree(inside, capacity, x0, y0, half, level + 1))
    return Cube(x, y, size, level, kept, rest[0].priority if rest else 1.0, children)


def cubes(root: Cube) -> list[Cube]:
    return [root] + [inner for child in root.children for inner in cubes(child)]


def nested_samples() -> Drawing:
    d = Drawing(760, 270, "Nested samples: each larger sample contains the smaller one")
    rows = points(4000)
    for i, fraction in enumerate([0.01, 0.1, 1.0]):
        left = 20 + i * 250
        d.rect(left, 40, 220, 220, radius=0)
        for low, high, shade, radius in [
            (0.1, 1, GREY, 1),
            (0.01, 0.1, BLUE, 1.6),
            (0, 0.01, ORANGE, 2.4),
        ]:
            dots = [p for p in rows if low <= p.priority < min(high, fraction)]
            d.dots(((left + p.x * 220, 260 - p.y * 220) for p in dots), shade, radius)
        kept = sum(p.priority < fraction for p in rows)
        d.text(left, 28, f"sample={fraction:g}", 13, mono=True, bold=True)
        d.text(left + 220, 28, f"{kept:,} rows", 12, GREY, "end")
    return d


def cubes_and_cutoffs() -> Drawing:
    d = Drawing(790, 340, "A tree of cubes: every cube keeps its rows of lowest priority")
    root = tree(points(1200, 3), 40)
    left, top, side = 20, 40, 280
    d.text(left, 26, "space", bold=True)
    shades = [PAPER, "#f3f6f9", "#e3ebf3", "#cfdded", "#b7cde6", "#9dbbdd"]
    for cube in sorted(cubes(root), key=lambda c: c.level):
        d.rect(
            left + cube.x * side,
            top + (1 - cube.y - cube.size) * side,
            cube.size * side,
            cube.size * side,
            shades[min(cube.level, 5)],
            GREY,
            0.7,
            0,
        )
    for cube in sorted(cubes(root), key=lambda c: -c.level):
        colour, radius = [(ORANGE, 2.6), (BLUE, 1.7), (INK, 1)][min(cube.level, 2)]
        d.dots(((left + p.x * side, top + (1 - p.y) * side) for p in cube.rows), colour, radius)
    d.text(340, 26, "tree", bold=True)
    d.box(500, 44, 130, 46, ORANGE, "root cube", f"cutoff {root.cutoff:.3f}")
    for i, child in enumerate(sorted(root.children, key=lambda c: (c.x, c.y))):
        x = 340 + i * 106
        d.line(565, 90, x + 48, 138, GREY)
        d.box(x, 138, 96, 46, BLUE, f"{len(child.rows)} rows", f"cutoff {child.cutoff:.2f}")
        deeper = child.children[:4]
        for j, _ in enumerate(deeper):
            d.line(x + 48, 184, x + 12 + j * 24, 222, GREY)
            d.rect(x + 3 + j * 24, 222, 18, 18, LIGHT, INK)
    d.text(340, 272, "A cube keeps its rows of lowest priority. Its cutoff is the lowest", 12.5)
    d.text(340, 290, "priority that it passed on. A sample below the cutoff needs no child.", 12.5)
    return d


def commit() -> Drawing:
    d = Drawing(
        760, 260, "A commit: rows are written and synced, then one log entry makes them visible"
    )
    d.box(20, 90, 110, 60, BLUE, "append()", "batches of rows")
    d.box(170, 90, 120, 60, BLUE, "place", "cubes by cutoffs")
    d.box(330, 90, 120, 60, GREEN, "segment", "runs of this writer")
    d.box(490, 90, 120, 60, GREEN, "log", "one entry")
    d.box(650, 90, 90, 60, ORANGE, "commit()", "returns")
    for x in (130, 290, 450, 610):
        d.arrow(x, 120, x + 38, 120)
    d.text(390, 172, "1. sync", 12, GREEN, "middle", bold=True)
    d.text(550, 172, "2. sync", 12, GREEN, "middle", bold=True)
    d.line(550, 60, 550, 88, RED, dash="4 3")
    d.text(
        550,
        50,
        "a kill before this point leaves nothing visible; after it, everything",
        12,
        RED,
        "middle",
    )
    d.text(
        20, 215, "Each writer owns its segment and its log. No writer waits for another one.", 13
    )
    d.text(20, 237, "The entry names the new runs and the cutoffs that their placement used.", 13)
    return d


def log_and_snapshot() -> Drawing:
    d = Drawing(760, 300, "Logs of writers, the numbered line of rewrites, and a snapshot")
    for i, (name, entries) in enumerate([("writer A", 6), ("writer B", 5), ("writer C", 4)]):
        y = 44 + i * 52
        d.text(20, y + 20, name, bold=True)
        seen = [4, 4, 3][i]
        for j in range(entries):
            x = 120 + j * 74
            d.rect(x, y, 60, 30, PALE[BLUE] if j < seen else PAPER, BLUE if j < seen else GREY)
            d.text(x + 30, y + 20, f"commit {j + 1}", 11, INK if j < seen else GREY, "middle")
    y = 214
    d.text(20, y + 20, "rewrites", bold=True)
    for j in range(4):
        x = 120 + j * 74
        seen = j < 3
        d.rect(x, y, 60, 30, PALE[GREEN] if seen else PAPER, GREEN if seen else GREY)
        d.text(x + 30, y + 20, f"no. {j + 1}", 11, INK if seen else GREY, "middle")
    path = [(412, 34), (412, 140), (338, 140), (338, 256)]
    for (x1, y1), (x2, y2) in zip(path, path[1:], strict=False):
        d.line(x1, y1, x2, y2, ORANGE, 2.2, "6 4")
    d.text(420, 30, "snapshot", 13, ORANGE, bold=True)
    d.text(580, 100, "A snapshot is one position", 12.5)
    d.text(580, 118, "in each log and one number", 12.5)
    d.text(580, 136, "of the rewrites. It never", 12.5)
    d.text(580, 154, "changes. A rewrite replaces", 12.5)
    d.text(580, 172, "runs by better placed ones;", 12.5)
    d.text(580, 190, "the rows stay the same.", 12.5)
    return d


def pages_and_zones() -> Drawing:
    d = Drawing(760, 290, "A run: pages, zones and the zone map")
    d.text(20, 28, "a run: the rows of one cube from one commit", bold=True)
    for page in range(3):
        x = 20 + page * 160
        d.rect(x, 44, 150, 150, PAPER, INK)
        d.text(x + 75, 60, f"page {page + 1}", 12, INK, "middle", bold=True)
        for column, colour in enumerate((BLUE, GREEN, ORANGE)):
            d.rect(x + 10 + column * 45, 70, 40, 114, PALE[colour], colour, 0.8)
            d.text(x + 30 + column * 45, 84, "xyz"[column], 11, colour, "middle", bold=True)
            for zone in range(1, 8):
                d.line(
                    x + 10 + column * 45,
                    86 + zone * 12,
                    x + 50 + column * 45,
                    86 + zone * 12,
                    colour,
                    0.6,
                )
    d.box(
        510,
        44,
        230,
        150,
        GREY,
        "zone map",
        "minimum and maximum",
        "of each column of each zone,",
        "and the lowest priority",
        "rounded outwards",
    )
    d.arrow(508, 120, 494, 120, GREY)
    d.text(
        20,
        222,
        "page: about 1,200 rows; unit of reading and of checksums (one chunk per column)",
        12.5,
    )
    d.text(20, 242, "zone: 8 to 48 rows; unit of pruning", 12.5)
    d.text(
        20,
        262,
        "A query decodes only the chunks of columns and zones that can hold a result.",
        12.5,
    )
    return d


def query_path() -> Drawing:
    d = Drawing(790, 350, "The path of a query: cubes that meet the box, down to the cutoff")
    root = tree(points(1200, 3), 40)
    left, top, side = 20, 40, 280
    box = (0.12, 0.2, 0.46, 0.5)
    fraction = 0.35
    examined: list[Point] = []
    for cube in sorted(cubes(root), key=lambda c: c.level):
        meets = (
            cube.x < box[2]
            and cube.x + cube.size > box[0]
            and cube.y < box[3]
            and cube.y + cube.size > box[1]
        )
        d.rect(
            left + cube.x * side,
            top + (1 - cube.y - cube.size) * side,
            cube.size * side,
            cube.size * side,
            PALE[BLUE] if meets and cube.level else PAPER,
            GREY,
            0.6,
            0,
        )
    reached = [root]
    while reached:
        cube = reached.pop()
        examined += cube.rows
        if cube.cutoff < fraction:
            reached += [
                c
                for c in cube.children
                if c.x < box[2] and c.x + c.size > box[0] and c.y < box[3] and c.y + c.size > box[1]
            ]
    returned = [
        p
        for p in examined
        if p.priority < fraction and box[0] <= p.x <= box[2] and box[1] <= p.y <= box[3]
    ]
    for dots, colour, radius in [(examined, GREY, 1.1), (returned, ORANGE, 2.4)]:
        d.dots(((left + p.x * side, top + (1 - p.y) * side) for p in dots), colour, radius)
    d.rect(
        left + box[0] * side,
        top + (1 - box[3]) * side,
        (box[2] - box[0]) * side,
        (box[3] - box[1]) * side,
        "none",
        RED,
        2,
        0,
    )
    d.text(left, 28, f"box and sample={fraction:g}", 13, mono=True, bold=True)
    steps = [
        ("1  bind", "names, units and types of the snapshot"),
        ("2  plan", "walk down cubes that meet the box;"),
        ("", "stop where the cutoff is not below the sample"),
        ("3  prune", "drop runs, then zones, by their bounds"),
        ("4  read", "one request for each task, on all cores"),
        ("5  decide", "test each row of open zones exactly"),
        ("6  stream", "Arrow batches, in order"),
    ]
    for i, (name, words) in enumerate(steps):
        d.text(330, 62 + i * 32, name, 13, BLUE, bold=True)
        d.text(420, 62 + i * 32, words, 12.5)
    d.text(
        330,
        305,
        f"Here: {len(returned)} rows returned (orange) of {len(examined)} rows in the cubes that are read.",
        12.5,
    )
    d.text(330, 323, "Zone maps then skip most of the others (grey).", 12.5)
    return d


def estimate_narrows() -> Drawing:
    d = Drawing(760, 290, "An estimate: the interval narrows as the sample grows")
    rng = random.Random(2)
    values = [rng.lognormvariate(0, 0.6) for _ in range(40000)]
    truth = sum(values) / len(values)
    left, right, top, bottom = 70, 740, 40, 230
    low, high = truth * 0.85, truth * 1.15

    def y(value: float) -> float:
        return bottom - (min(max(value, low), high) - low) / (high - low) * (bottom - top)

    d.line(left, y(truth), right, y(truth), GREEN, 1.4, "5 4")
    d.text(right, y(truth) - 8, "mean of all rows", 12, GREEN, "end")
    sizes = [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 40000]
    for i, n in enumerate(sizes):
        x = left + 30 + i * (right - left - 60) / (len(sizes) - 1)
        part = values[:n]
        mean = sum(part) / n
        spread = (sum((v - mean) ** 2 for v in part) / (n - 1)) ** 0.5
        half = 1.96 * spread * ((1 - n / len(values)) / n) ** 0.5
        d.line(x, y(mean - half), x, y(mean + half), BLUE, 3)
        d.dots([(x, y(mean))], ORANGE, 4)
        d.text(x, bottom + 20, f"{n:,}", 11, INK, "middle")
    d.line(left, top, left, bottom, GREY)
    for percent in (-10, 0, 10):
        d.text(
            left - 8,
            y(truth * (1 + percent / 100)) + 4,
            f"{percent:+d} %" if percent else "0",
            11,
            GREY,
            "end",
        )
    d.text((left + right) / 2, bottom + 42, "rows read", 12.5, INK, "middle")
    d.text(left, 26, "estimate (orange) and its 95 % interval (blue)", 13, bold=True)
    return d


def cluster() -> Drawing:
    d = Drawing(760, 300, "A table on a Cassandra cluster")
    for i in range(3):
        x = 60 + i * 220
        d.box(
            x,
            120,
            180,
            110,
            GREEN,
            f"node {i + 1}",
            "blocks of segments",
            "entries of logs",
            "objects",
        )
    for i, name in enumerate(("writer", "reader", "Spark task")):
        x = 85 + i * 220
        d.box(x, 24, 130, 44, BLUE, name)
        d.arrow(x + 65, 68, x + 65, 118)
    d.line(240, 175, 280, 175, GREY, 1.4, "4 3")
    d.line(460, 175, 500, 175, GREY, 1.4, "4 3")
    d.text(
        20,
        262,
        "Segments are immutable blocks on several nodes. A log entry counts if its epoch is the newest.",
        12.5,
    )
    d.text(
        20,
        282,
        "A new owner of a log starts a new epoch by a transaction. No clock is trusted.",
        12.5,
    )
    return d


DRAWINGS = {
    "nested-samples": nested_samples,
    "cubes": cubes_and_cutoffs,
    "commit": commit,
    "snapshot": log_and_snapshot,
    "run": pages_and_zones,
    "query": query_path,
    "estimate": estimate_narrows,
    "cluster": cluster,
}


def main() -> int:
    stale = []
    for name, draw in DRAWINGS.items():
        path, svg = FOLDER / f"{name}.svg", draw().svg()
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != svg:
                stale.append(path.name)
        else:
            path.write_text(svg)
    if stale:
        print("differ from scripts/drawings.py:", ", ".join(stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
