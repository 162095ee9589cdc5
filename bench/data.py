"""Generated rows to store, written once to a cache.

A data set is one uncompressed Arrow file that all systems memory-map, so they get the same rows in
the same order, without the cost of generating them. Positions of synthetic sets are multiples of
2^-24 in [0, 1): exact in float32 and in the scaled integers of LAS files, so results can be
compared bit by bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 1 << 18
SNAPSHOTS = 8
STEPS = Path(__file__).resolve().parent.parent / "examples" / "airway" / "steps"

_PLACE = ["x", "y", "z"]
_MADE = pa.schema(
    [
        pa.field("pid", pa.int64(), False),
        *(
            pa.field(name, pa.float32(), False)
            for name in ["x", "y", "z", "vx", "vy", "vz", "time"]
        ),
    ]
)
_DROPLETS = pa.schema(
    [
        pa.field("pid", pa.int64(), False),
        *(
            pa.field(name, pa.float32(), False)
            for name in ["time", "x", "y", "z", "ux", "uy", "uz", "diameter"]
        ),
        pa.field("deposited", pa.bool_(), False),
    ]
)


@dataclass(frozen=True)
class Dataset:
    kind: str
    rows: int
    cache: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.rows}"

    @property
    def path(self) -> Path:
        return Path(self.cache) / f"{self.name}.arrow"

    @property
    def schema(self) -> pa.Schema:
        return _DROPLETS if self.kind == "droplets" else _MADE

    @property
    def columns(self) -> list[str]:
        return self.schema.names

    @property
    def row_bytes(self) -> int:
        return sum(1 if pa.types.is_boolean(f.type) else f.type.byte_width for f in self.schema)

    @property
    def domain(self) -> dict[str, tuple[float, float]]:
        if self.kind == "droplets":
            return {"x": (0, 0.22), "y": (-0.21, 0.21), "z": (0, 0.02), "time": (0, 1)}
        return {name: (0, 1) for name in _PLACE}

    @property
    def identity(self) -> list[str]:
        return ["pid", "time"]

    @cached_property
    def _file(self) -> pa.ipc.RecordBatchFileReader:
        return pa.ipc.open_file(pa.memory_map(str(self.path)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for place in range(self._file.num_record_batches):
            yield self._file.get_batch(place)

    def table(self) -> pa.Table:
        return self._file.read_all()

    def make(self) -> None:
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        with pa.ipc.new_file(str(part), self.schema) as writer:
            for batch in _cut(_KINDS[self.kind](self.rows), self.rows, self.schema):
                writer.write_batch(batch)
        os.replace(part, self.path)

    def warm(self) -> None:
        """Reads the file once, so that no system pays for the disk."""
        with open(self.path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def _cut(
    parts: Iterator[dict[str, np.ndarray]], rows: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Batches of equal size with ``rows`` rows in all."""
    held: list[pa.RecordBatch] = []
    held_rows = left = 0
    left = rows
    for part in parts:
        arrays = [pa.array(part[f.name], f.type) for f in schema]
        held.append(pa.record_batch(arrays, schema=schema))
        held_rows += held[-1].num_rows
        while held_rows >= BATCH_ROWS or (held and held_rows >= left):
            table = pa.Table.from_batches(held).combine_chunks()
            size = min(BATCH_ROWS, left)
            yield table.slice(0, size).combine_chunks().to_batches()[0]
            left -= size
            rest = table.slice(size)
            held, held_rows = rest.to_batches(), rest.num_rows
            if left == 0:
                return


def _on_grid(place: np.ndarray) -> np.ndarray:
    """Wraps positions into [0, 1), at multiples of 2^-24."""
    cells = np.floor(place * float(1 << 24)).astype(np.int64) & ((1 << 24) - 1)
    return (cells / float(1 << 24)).astype(np.float32)


def _zeldovich(rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Particles of a lattice, displaced along a random field that grows with time.

    The Zel'dovich approximation, x = q + D psi(q) and v = psi(q), where psi is the gradient of a
    Gaussian potential, produces sheets, filaments and knots, as in cosmological simulations.
    """
    particles = -(-rows // SNAPSHOTS)
    size = int(np.ceil(particles ** (1 / 3)))
    psi = _displacements(size)
    for snapshot in range(SNAPSHOTS):
        growth = (snapshot + 1) / SNAPSHOTS
        for first in range(0, particles, BATCH_ROWS):
            pid = np.arange(first, min(first + BATCH_ROWS, particles))
            # Offsets that are the same in all snapshots.
            rng = np.random.default_rng([11, first])
            lattice = np.stack(np.unravel_index(pid, (size, size, size)), 1)
            start = (lattice + rng.random(lattice.shape)) / size
            moved = psi[pid]
            part = {"pid": pid, "time": np.full(len(pid), growth, np.float32)}
            noise = np.random.default_rng([12, snapshot, first]).normal(0, 0.02, moved.shape)
            for axis, name in enumerate(_PLACE):
                part[name] = _on_grid(start[:, axis] + growth * moved[:, axis])
                speed = moved[:, axis] * 20 + noise[:, axis]
                part["v" + name] = speed.astype(np.float32)
            yield part


def _displacements(size: int) -> np.ndarray:
    """psi at each lattice point, float32, scaled to an rms density contrast of 1.5 at the end.

    The density has a red spectrum, k^-2, without the finest modes: structures of many sizes, and
    crossed streams in the densest regions.
    """
    noise = np.random.default_rng(10).standard_normal((size, size, size), dtype=np.float32)
    field = np.fft.rfftn(noise)
    k = np.fft.fftfreq(size).astype(np.float32)
    waves = [k[:, None, None], k[None, :, None], np.abs(k[: size // 2 + 1])[None, None, :]]
    squared = sum(wave**2 for wave in waves)
    squared[0, 0, 0] = 1
    field *= squared**-0.5 * np.exp(-squared / (2 * 0.1**2))
    field[0, 0, 0] = 0
    shape = (size, size, size)
    contrast = np.fft.irfftn(field, s=shape, axes=(0, 1, 2)).std()
    psi = np.empty((size**3, 3), np.float32)
    for axis, wave in enumerate(waves):
        # div psi = -density, in lattice units.
        part = np.fft.irfftn(1j * wave / squared * field, s=shape, axes=(0, 1, 2))
        psi[:, axis] = part.reshape(-1)
    return psi * (1.5 / contrast / (2 * np.pi * size))


def _noise(rows: int) -> Iterator[dict[str, np.ndarray]]:
    for first in range(0, rows, BATCH_ROWS):
        rng = np.random.default_rng([21, first])
        yield _records(rng, first, rng.random((min(BATCH_ROWS, rows - first), 3)))


def _clusters(rows: int) -> Iterator[dict[str, np.ndarray]]:
    """2,000 clusters with power-law sizes and different central densities."""
    rng = np.random.default_rng(30)
    centres = rng.random((2000, 3))
    weights = rng.pareto(1.1, 2000) + 0.05
    chance = np.cumsum(weights / weights.sum())
    radius = 0.03 * np.cbrt(weights / np.median(weights)).clip(0.1, 4)
    for first in range(0, rows, BATCH_ROWS):
        rng = np.random.default_rng([31, first])
        size = min(BATCH_ROWS, rows - first)
        home = np.searchsorted(chance, rng.random(size)).clip(0, 1999)
        way = rng.normal(size=(size, 3))
        way /= np.linalg.norm(way, axis=1)[:, None]
        far = radius[home] * rng.random(size) ** 2
        yield _records(rng, first, centres[home] + way * far[:, None])


def _records(rng: np.random.Generator, first: int, place: np.ndarray) -> dict[str, np.ndarray]:
    """Rows without a history: velocities that correlate weakly with the position."""
    size = len(place)
    part = {"pid": np.arange(first, first + size)}
    part["time"] = np.full(size, 1, np.float32)
    for axis, name in enumerate(_PLACE):
        part[name] = _on_grid(place[:, axis])
        part["v" + name] = (part[name] * 2 - 1 + rng.random(size)).astype(np.float32)
    return part


def _orbits(rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Particles in circular motion, all at each of 1,000 times."""
    particles = -(-rows // 1000)
    rng = np.random.default_rng(40)
    centre, phase = rng.random((particles, 3)), rng.random((particles, 3)) * 2 * np.pi
    reach, pace = rng.random((particles, 3)) * 0.2, 1 + 4 * rng.random((particles, 3))
    pid = np.arange(particles)
    for step in range(1000):
        now = 2 * np.pi * step / 1000
        angle = pace * now + phase
        part = {"pid": pid, "time": np.full(particles, step, np.float32)}
        for axis, name in enumerate(_PLACE):
            part[name] = _on_grid(centre[:, axis] + reach[:, axis] * np.sin(angle[:, axis]))
            speed = reach[:, axis] * pace[:, axis] * np.cos(angle[:, axis])
            part["v" + name] = speed.astype(np.float32)
        yield part


def _walks(rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Particles that drift and diffuse, all at each of 1,000 times."""
    particles = -(-rows // 1000)
    rng = np.random.default_rng(60)
    place, drift = rng.random((particles, 3)), rng.normal(0, 1e-4, (particles, 3))
    pid = np.arange(particles)
    for step in range(1000):
        moved = drift + rng.normal(0, 1e-3, (particles, 3))
        place = place + moved
        part = {"pid": pid, "time": np.full(particles, step, np.float32)}
        for axis, name in enumerate(_PLACE):
            part[name] = _on_grid(place[:, axis])
            part["v" + name] = (moved[:, axis] * 1000).astype(np.float32)
        yield part


def _droplets(rows: int) -> Iterator[dict[str, np.ndarray]]:
    """The droplets of the example, repeated with new particle numbers and small shifts."""
    steps = [pq.read_table(path) for path in sorted(STEPS.glob("*.parquet"))]
    turns = -(-rows // sum(step.num_rows for step in steps))
    most = max(int(step["pid"].to_numpy().max()) for step in steps) + 1
    for place, step in enumerate(steps):
        columns = {name: step[name].to_numpy() for name in step.column_names}
        for turn in range(turns):
            rng = np.random.default_rng([50, turn, place])
            part = dict(columns)
            part["pid"] = columns["pid"].astype(np.int64) + turn * most
            for name in _PLACE:
                aside = rng.normal(0, 2e-5, step.num_rows).astype(np.float32)
                low, high = columns[name].min(), columns[name].max()
                part[name] = np.clip(columns[name] + (aside if turn else 0), low, high)
            yield part


_KINDS = {
    "zeldovich": _zeldovich,
    "noise": _noise,
    "clusters": _clusters,
    "orbits": _orbits,
    "walks": _walks,
    "droplets": _droplets,
}
