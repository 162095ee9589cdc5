"""PLY through plyfile: points of meshes and scans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import INFINITE, Options, Source, State, Step, arrow_table, slices

if TYPE_CHECKING:
    import pyarrow as pa


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa
    from plyfile import PlyData

    data = PlyData.read(path, mmap="r")
    if "vertex" not in data:
        raise ValueError(f"{path}: it has no element 'vertex'")
    vertices = data["vertex"]
    plain = [p.name for p in vertices.properties if "list" not in type(p).__name__.lower()]
    fields = [
        pa.field(name, pa.from_numpy_dtype(vertices.ply_property(name).dtype("=")))
        for name in plain
    ]

    def read(_: State) -> Iterator[pa.Table]:
        found = PlyData.read(path, mmap="r")["vertex"]
        for part in slices(len(found)):
            columns = {name: found[name][part] for name in plain}
            if data.text:
                _check_finite(path, columns, part.start)
            yield arrow_table(columns)

    comments = [*data.comments, *(c for element in data for c in element.comments)]
    about = {"comments": comments, "obj_info": list(data.obj_info)}
    about = {name: lines for name, lines in about.items() if lines}
    lists = [p.name for p in vertices.properties if p.name not in plain]
    others = [f"{element.name} ({len(element):,})" for element in data if element is not vertices]
    left_out = {name: "it is a list, and a column has one value in a row" for name in lists}
    left_out |= {f"element {name}": "rows are the vertices" for name in others}
    return Source(
        path=path,
        format="ply",
        schema=pa.schema(fields),
        steps=lambda _: [Step("vertex", read, part=path.name)],
        dimensions=[name for name in "xyz" if name in plain],
        metadata={"ply": about} if about else {},
        rows=len(vertices),
        left_out=left_out,
    )


def _check_finite(path: Path, columns: dict[str, Any], first: int) -> None:
    """Refuses numbers of a text such as 1e60, which plyfile reads as infinite in 32 bits."""
    import numpy as np

    for name, values in columns.items():
        if values.dtype.kind != "f" or not (infinite := np.isinf(values)).any():
            continue
        if INFINITE.search(path.read_bytes()) is None:
            row = first + int(np.argmax(infinite))
            kind = f"float{8 * values.itemsize}"
            raise InvalidInput(f"{path}: row {row}: {name} is beyond the range of {kind}")
