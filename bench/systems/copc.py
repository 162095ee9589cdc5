"""COPC: a LAZ file in octree order, three dimensions only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import laspy
import numpy as np
import pyarrow as pa

from ..keys import column, uniform
from ..question import Answer, Question, Unable
from .base import CORES, System

# Positions are multiples of this, so scaled integers represent them exactly.
SCALE = 2.0**-24
MOST_ROWS = int(os.environ.get("COPC_ROWS") or 4_000_000)
_OWN = Path(__file__).resolve().parent.parent / "tools" / "bin" / "copc_converter"


class Copc(System):
    name = "COPC"
    package = "laspy"
    settings = (
        "a LAS file with the attributes as extra bytes, made COPC by copc_converter, read by laspy "
        f"with lazrs; all cores; at most {MOST_ROWS:,} rows, because larger files take "
        "seconds per query"
    )
    sampling = "a stored uniform column `r`; its levels have one point per cell, which is no uniform sample"

    @classmethod
    def _converter(cls) -> str | None:
        named = os.environ.get("COPC_CONVERTER")
        return named or (str(_OWN) if _OWN.exists() else shutil.which("copc_converter"))

    @classmethod
    def missing(cls) -> str | None:
        if cls._converter():
            return None
        return "no copc_converter: `cargo install copc_converter --root bench/tools`"

    @classmethod
    def version(cls) -> str:
        asked = subprocess.run(
            [cls._converter() or "", "--version"], capture_output=True, text=True
        )
        return f"{asked.stdout.strip()}, laspy {super().version()}"

    def refuses(self) -> str | None:
        if len(self.data.domain) > 3:
            return "three dimensions only: it would not find a time"
        if self.data.rows > MOST_ROWS:
            return f"more than {MOST_ROWS:,} rows: a question takes 3 s and more at 20 M"
        return None

    def build(self, batches: Iterator[pa.RecordBatch]) -> None:
        self.path.mkdir()
        plain = self.path / "all.las"
        header = laspy.LasHeader(point_format=6, version="1.4")
        header.scales, header.offsets = [SCALE] * 3, [0.0] * 3
        extra = [(f.name, f.type.to_pandas_dtype()) for f in self.data.schema]
        extra = [(name, kind) for name, kind in extra if name not in self.data.domain]
        extra.append(("r", np.float32))
        header.add_extra_dims([laspy.ExtraBytesParams(name, kind) for name, kind in extra])
        with laspy.open(plain, mode="w", header=header) as file:
            for batch in batches:
                points = laspy.ScaleAwarePointRecord.zeros(batch.num_rows, header=header)
                for name in self.data.domain:
                    cells = np.round(column(batch, name).astype(np.float64) / SCALE)
                    points[name.upper()] = cells.astype(np.int32)
                for name, _ in extra[:-1]:
                    points[name] = column(batch, name)
                points["r"] = uniform(batch)
                file.write_points(points)
        scratch = self.path / "scratch"
        scratch.mkdir()
        command = [self._converter() or "", str(plain), str(self.path / "all.copc.laz")]
        command += ["--threads", str(CORES), "--temp-dir", str(scratch), "--progress", "plain"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        plain.unlink()
        shutil.rmtree(scratch)

    def start_stream(self) -> None:
        raise Unable("a file is written as a whole: nothing can be appended to it")

    def open(self) -> None:
        self._reader = laspy.CopcReader.open(str(self.path / "all.copc.laz"))

    def ask(self, question: Question) -> Answer:
        bounds = None
        if question.box:
            ends = [question.box[name] for name in self.data.domain]
            # Slightly larger, because laspy compares doubles; the exact test follows.
            bounds = laspy.Bounds(
                mins=np.array([low - SCALE for low, _ in ends]),
                maxs=np.array([high + SCALE for _, high in ends]),
            )
        points = self._reader.query(bounds)
        values = {name: self._column(points, name) for name in [*self.data.columns, "r"]}
        left = np.ones(len(points), bool)
        for name, (low, high) in question.box.items():
            left &= (values[name] >= np.float32(low)) & (values[name] <= np.float32(high))
        if question.share is not None:
            left &= values["r"] < np.float32(question.share)
        if question.where is not None:
            name, operator, bound = question.where
            test = np.greater if operator == ">" else np.less
            left &= test(values[name], np.float32(bound))
        places = np.flatnonzero(left)
        if question.limit is not None and len(places) > question.limit:
            if not question.any_rows:
                lowest = np.argpartition(values["r"][places], question.limit)
                places = places[lowest]
            places = places[: question.limit]
        found = {name: values[name][places] for name in self.data.columns}
        return Answer(pa.table(found, schema=self.data.schema), rows_read=len(points))

    def _column(self, points: laspy.ScaleAwarePointRecord, name: str) -> np.ndarray:
        if name in self.data.domain:
            return (points[name.upper()] * SCALE).astype(np.float32)
        return np.asarray(points[name])

    def close(self) -> None:
        self._reader.__exit__(None, None, None)  # it has no other way to be closed
