"""H5MD: particles over time, through h5py.

An element that is written less often than positions is null at the other steps, because the
particle order may have changed. A changing box has its edges in columns, a fixed box in the
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._shown import counted
from ..source import (
    Options,
    Source,
    State,
    Step,
    arrow_table,
    in_units,
    join,
    split_columns,
    unit,
)
from .hdf5 import COMPONENTS, POSITION, attributes, check_sources, holds, text

if TYPE_CHECKING:
    import pyarrow as pa

is_h5md = holds(lambda file: "h5md" in file and "particles" in file)

EDGES = ("cell_ax", "cell_by", "cell_cz")
"""The columns of a box with right angles. Other boxes have a column per edge component."""
KEPT = ("h5md", "particles")
"""Groups of a file that are read."""


@dataclass
class _Group:
    steps: Any
    times: Any
    count: int
    elements: dict[str, str | None]
    edges: tuple[str, ...]
    box: dict[str, Any]
    schema: pa.Schema


def look(path: Path, options: Options) -> Source:
    import h5py
    import pyarrow as pa

    left_out: dict[str, str] = {}
    groups: dict[str, _Group] = {}
    with h5py.File(path, "r") as file:
        check_sources(path, file)
        for name, group in file["particles"].items():
            if not hasattr(group, "keys") or "position" not in group:
                left_out[f"particles/{name}"] = "it has no positions"
                continue
            groups[name] = _looked_at(f"particles/{name}", group, left_out)
        if not groups:
            raise ValueError(f"{path}: no group of particles has positions")
        for name in file:
            if name not in KEPT:
                left_out[name] = "it is not of particles"
        said = {n: attributes(file["h5md"][n]) for n in ("author", "creator") if n in file["h5md"]}
    fields: dict[str, pa.Field] = {}
    for name, group in groups.items():
        for field in group.schema:
            join(fields, field, f"{path}: particles/{name}")
    time = fields.pop("time")
    more = [pa.field("group", pa.string())] if len(groups) > 1 else []
    schema = pa.schema([*fields.values(), *more, time, pa.field("step", pa.int64())])

    def steps(_: Any) -> Iterator[Step]:
        order = sorted((g.times[f], n, f) for n, g in groups.items() for f in range(len(g.steps)))
        for time, name, frame in order:
            own = in_units(schema, {field.name: field for field in groups[name].schema})
            read = _reading(path, own, name, groups[name], frame)
            number = int(groups[name].steps[frame])
            yield Step(f"{name} {frame}", read, float(time), name if len(groups) > 1 else "", number)

    every = [float(t) for group in groups.values() for t in group.times]
    return Source(
        path=path,
        format="h5md",
        schema=schema,
        steps=steps,
        dimensions=[*(n for n in POSITION if n in schema.names), "time"],
        identity=["id", "time"] if len(groups) == 1 else ["group", "id", "time"],
        metadata={"h5md": {"author": {}, **said, "box": {n: g.box for n, g in groups.items()}}},
        rows=sum(len(g.steps) * g.count for g in groups.values()),
        times=(min(every), max(every)) if every else (),
        grows=True,
        left_out=left_out,
    )


def _looked_at(path: str, group: Any, left_out: dict[str, str]) -> _Group:
    import pyarrow as pa

    position = group["position"]
    steps, count = _steps(position), position["value"].shape[1]
    elements, fields = {}, [pa.field("id", _kind(group["id"]) if "id" in group else pa.int64())]
    for name, element in sorted(group.items()):
        if name in ("box", "id"):
            continue
        values = _values(element)
        why = _unreadable(element, values, count)
        if why is not None:
            left_out[f"{path}/{name}"] = why
            continue
        _leave_out_steps(f"{path}/{name}", element, steps, left_out)
        elements[name] = _unit_of(values)
        kind = _kind(element)
        sample = _sample(element, values)
        for column in split_columns(name, sample, COMPONENTS.get(name)):
            fields.append(unit(pa.field(column, kind), elements[name]))
    box, edges = _box(group)
    if edges:
        _leave_out_steps(f"{path}/box/edges", group["box/edges"], steps, left_out)
    for column in edges:
        fields.append(unit(pa.field(column, pa.float64()), _unit_of(group["box/edges/value"])))
    fields.append(unit(pa.field("time", pa.float64()), _unit_of(position.get("time"))))
    return _Group(steps, _times(position), count, elements, edges, box, pa.schema(fields))


def _leave_out_steps(path: str, element: Any, steps: Any, left_out: dict[str, str]) -> None:
    import numpy as np

    if not _is_timed(element):
        return
    without = np.setdiff1d(_steps(element), steps)
    if without.size:
        label = f"{path} of {counted(without.size, 'step')}"
        left_out[label] = f"there are no positions of step {without[0]}"


def _values(element: Any) -> Any:
    return element.get("value") if _is_timed(element) else element


def _unreadable(element: Any, values: Any, count: int) -> str | None:
    import h5py

    if values is None:
        return "it has no values"
    if values.dtype.kind not in "iufb" and h5py.check_string_dtype(values.dtype) is None:
        return f"its type {values.dtype} has no place in a table"
    of_particles = values.shape[1:2] if _is_timed(element) else values.shape[:1]
    if of_particles != (count,):
        return f"its shape {values.shape} has no value for each of {count} particles"
    return None


def _reading(
    path: Path, schema: pa.Schema, name: str, about: _Group, frame: int
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        import h5py
        import numpy as np
        import pyarrow as pa

        count, step = about.count, int(about.steps[frame])
        with h5py.File(path, "r") as file:
            group = file["particles"][name]
            columns: dict[str, Any] = {"id": np.arange(count)}
            if "id" in group:
                identities = _at(group["id"], frame, step)
                if identities is None:
                    raise ValueError(f"{path}: {name}/id has no value at step {step}")
                columns["id"] = identities
            for element in about.elements:
                values = _at(group[element], frame, step)
                if values is not None:
                    for column, flat in split_columns(
                        element, values, COMPONENTS.get(element)
                    ).items():
                        columns[column] = _texts(flat) if flat.dtype.kind in "OS" else flat
            if about.edges:
                edges = _at(group["box/edges"], frame, step)
                if edges is not None:
                    for column, value in zip(about.edges, np.ravel(edges), strict=True):
                        columns[column] = np.full(count, float(value))
            if "group" in schema.names:
                columns["group"] = pa.array([name] * count)
            columns["time"] = np.full(count, about.times[frame])
            columns["step"] = np.full(count, step)
            table = arrow_table(columns, schema)
        # Identities below 0 mark entries that are reserved for later particles.
        yield table.filter(pa.array(np.asarray(columns["id"]) >= 0))

    return read


def _kind(data: Any) -> Any:
    import h5py
    import pyarrow as pa

    values = data["value"] if hasattr(data, "keys") else data
    if h5py.check_string_dtype(values.dtype) is not None:
        return pa.string()
    return pa.from_numpy_dtype(values.dtype.newbyteorder("="))


def _texts(values: Any) -> Any:
    import pyarrow as pa

    return pa.array([text(value) for value in values], pa.string())


def _sample(element: Any, values: Any) -> Any:
    """An empty array with as many components as the element."""
    import numpy as np

    shape = values.shape[2:] if _is_timed(element) else values.shape[1:]
    return np.empty((0, *shape))


def _is_timed(element: Any) -> bool:
    return hasattr(element, "keys")


def _unit_of(data: Any) -> str | None:
    return text(data.attrs["unit"]) if data is not None and "unit" in data.attrs else None


def _steps(element: Any) -> Any:
    return _of_frames(element, "step")


def _times(element: Any) -> Any:
    """The times by frame, or the steps if there are no times."""
    return _of_frames(element, "time" if "time" in element else "step").astype(float)


def _of_frames(element: Any, name: str) -> Any:
    """The values by frame, stored individually, or as an interval with an offset."""
    import numpy as np

    said, frames = element[name], element["value"].shape[0]
    if said.shape == ():
        return np.arange(frames) * said[()] + said.attrs.get("offset", 0)
    if len(said) != frames:
        raise ValueError(f"{element.name}: {frames} values, but {name} of {len(said)}")
    return np.asarray(said[()])


def _at(element: Any, frame: int, step: int) -> Any:
    """The values of a frame; None at a step that the element lacks."""
    import numpy as np

    if not _is_timed(element):
        return element[()]
    steps = _steps(element)
    if len(steps) > frame and steps[frame] == step:
        return element["value"][frame]
    places = np.flatnonzero(steps == step)
    return element["value"][int(places[0])] if len(places) else None


def _box(group: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The metadata of a box, and the columns of its edges if they change over time."""
    if "box" not in group:
        return {}, ()
    box = group["box"]
    about = {n: v for n, v in attributes(box).items() if n == "dimension"}
    if "boundary" in box.attrs:
        said = box.attrs["boundary"]
        about["boundary"] = [text(value) for value in said] if said.shape else text(said)
    if "edges" not in box:
        return about, ()
    edges = box["edges"]
    if not _is_timed(edges):
        return {**about, "edges": edges[()].tolist()}, ()
    shape = edges["value"].shape[1:]
    if shape == (3, 3):
        return about, tuple(f"cell_{edge}{axis}" for edge in "abc" for axis in "xyz")
    if len(shape) == 2:
        return about, tuple(f"cell_{a}_{b}" for a in range(shape[0]) for b in range(shape[1]))
    return about, EDGES if shape == (3,) else tuple(f"cell_{a}" for a in range(shape[0]))
