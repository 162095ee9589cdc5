"""openPMD series in HDF5, ADIOS2 or JSON, through openpmd-api."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, in_units, join, slices, unit
from .hdf5 import MAGIC, holds

if TYPE_CHECKING:
    import pyarrow as pa

# Length, mass, time, current, temperature, amount, intensity.
BASE = ("m", "kg", "s", "A", "K", "mol", "cd")
AXES = ("x", "y", "z")
OF_TIME = frozenset(("time", "timeUnitSI", "dt", "closed"))
STRUCTURE = frozenset((
    "basePath", "iterationEncoding", "iterationFormat", "meshesPath", "particlesPath",
    "unitDimension", "unitSI", "value", "shape",
))  # fmt: skip
"""Attributes that only describe the storage."""


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    series = _opened(path)
    iterations = list(series.iterations)
    if not iterations:
        raise ValueError(f"{path}: it has no iteration")
    times = [_time(series.iterations[i]) for i in iterations]
    left_out: dict[str, str] = {}
    species: set[str] = set()
    fields: dict[str, pa.Field] = {}
    records: dict[str, Any] = {}
    rows = 0
    for number in iterations:
        iteration = series.iterations[number]
        for mesh in iteration.meshes:
            left_out.setdefault(f"mesh {mesh}", "it is not of particles")
        for name, value in _values_of_step(iteration, left_out).items():
            join(fields, pa.field(name, pa.array([value]).type), f"{path}: iteration {number}")
        for name in iteration.particles:
            particles = iteration.particles[name]
            species.add(name)
            rows += _rows(particles)
            for _, field, _ in _columns(particles, name, left_out):
                join(fields, field, f"{path}: iteration {number}: {name}")
            if len(particles.particle_patches):
                left_out.setdefault(f"{name}/particlePatches", "they are of ranks")
            for record in particles:
                records.setdefault(f"{name}/{record}", _said(particles[record]))
    attributes = _said(series)
    series.close()
    if not species:
        raise ValueError(f"{path}: iteration {iterations[0]} has no particles, only meshes")
    several = [pa.field("species", pa.string())] if len(species) > 1 else []
    schema = pa.schema(
        [
            *several,
            *fields.values(),
            unit(pa.field("time", pa.float64()), "s"),
            pa.field("iteration", pa.int64()),
        ]
    )
    identity = [*(f.name for f in several), "id", "time"] if "id" in fields else []
    return Source(
        path=path,
        format="openpmd",
        schema=schema,
        steps=lambda _: [
            Step(f"iteration {i}", _reading(path, i, t, schema), t, number=int(i))
            for i, t in zip(iterations, times, strict=True)
        ],
        dimensions=[*(axis for axis in AXES if axis in fields), "time"],
        identity=identity,
        metadata={
            "openpmd": {"species": sorted(species), "attributes": attributes, "records": records}
        },
        rows=rows,
        times=times,
        grows=True,
        left_out=left_out,
    )


def _said(item: Any) -> dict[str, Any]:
    """The attributes that do not describe the storage."""
    names = (name for name in item.attributes if name not in STRUCTURE)
    return {name: item.get_attribute(name) for name in names}


def _values_of_step(iteration: Any, left_out: dict[str, str]) -> dict[str, Any]:
    """Attributes of an iteration with a single value, which become columns."""
    found = {}
    for name in iteration.attributes:
        value = iteration.get_attribute(name)
        if name in OF_TIME:
            continue
        if isinstance(value, bool | int | float | str):
            found[name] = value
        else:
            left_out.setdefault(f"attribute {name}", "it is more than one value, a row has one")
    return found


def _opened(path: Path) -> Any:
    import openpmd_api as io

    try:
        return io.Series(str(path), io.Access.read_only)
    except Exception as error:
        raise ValueError(f"{path}: {error}") from error


def _time(iteration: Any) -> float:
    return float(iteration.time * iteration.time_unit_SI)


def _rows(particles: Any) -> int:
    position = particles["position"]
    return int(position[next(iter(position))].shape[0])


def _columns(
    particles: Any, species: str, left_out: dict[str, str]
) -> Iterator[tuple[str, pa.Field, tuple[str, str]]]:
    """Each column with its record and component.

    Positions include the offset and are in metres. Other columns have stored values; their unit
    includes the factor to SI.
    """
    import pyarrow as pa

    rows = _rows(particles)
    for record_name in particles:
        record = particles[record_name]
        if record_name == "positionOffset":
            continue
        for component_name in record:
            component = record[component_name]
            if component.dtype.kind not in "iufb" or list(component.shape) != [rows]:
                kind = f"its type {component.dtype} and shape {list(component.shape)}"
                left_out.setdefault(f"{species}/{record_name}", f"{kind} have no place in a column")
                continue
            scalar = len(record) == 1 and component_name not in AXES
            if record_name == "position":
                yield (
                    component_name,
                    unit(pa.field(component_name, pa.float64()), "m"),
                    (record_name, component_name),
                )
                continue
            column = record_name if scalar else f"{record_name}_{component_name}"
            field = unit(
                pa.field(column, pa.from_numpy_dtype(component.dtype)), _unit(record, component)
            )
            yield column, field, (record_name, component_name)


def _unit(record: Any, component: Any) -> str | None:
    powers = [
        name if power == 1 else f"{name}^{power:g}"
        for name, power in zip(BASE, record.unit_dimension, strict=True)
        if power
    ]
    factor = component.unit_SI
    if not powers:
        return None if factor == 1 else f"{factor!r}"
    return " ".join(powers) if factor == 1 else f"{factor!r} {' '.join(powers)}"


def _factors(schema: pa.Schema, particles: Any, found: Any) -> dict[str, float]:
    """The factors for values of a species or iteration whose factor to SI differs from the first,
    with the same dimension.
    """
    factors = {}
    for column, field, (record, component) in found:
        first, own = (_text_of_unit(f) for f in (schema.field(column), field))
        if first is None or own is None or first == own or record == "position":
            continue
        factor, powers = _parts_of_unit(first)
        if powers == _parts_of_unit(own)[1]:
            factors[column] = particles[record][component].unit_SI / factor
    return factors


def _text_of_unit(field: pa.Field) -> str | None:
    return (field.metadata or {}).get(b"unit", b"").decode() or None


def _parts_of_unit(said: str) -> tuple[float, str]:
    """The factor to SI and the powers, from a text that `_unit` returned."""
    first, _, rest = said.partition(" ")
    try:
        return float(first), rest
    except ValueError:
        return 1.0, said


def _reading(
    path: Path, number: int, time: float, schema: pa.Schema
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        import numpy as np
        import pyarrow as pa

        series = _opened(path)
        try:
            iteration = series.iterations[number]
            for name in iteration.particles:
                particles = iteration.particles[name]
                found = list(_columns(particles, name, {}))
                own = in_units(schema, {column: field for column, field, _ in found})
                factors = _factors(schema, particles, found)
                for part in slices(_rows(particles)):
                    columns: dict[str, Any] = {}
                    for column, _field, (record, component) in found:
                        columns[column] = _load(series, particles[record][component], part)
                        if column in factors:
                            columns[column] = columns[column] * factors[column]
                            own = in_units(own, {column: schema.field(column)})
                        if record == "position":
                            columns[column] = _whole(
                                series, particles, component, columns[column], part
                            )
                    many = part.stop - part.start
                    if "species" in schema.names:
                        columns["species"] = pa.array([name] * many)
                    for column, value in _values_of_step(iteration, {}).items():
                        columns.setdefault(column, pa.array([value] * many))
                    columns["time"] = np.full(many, time)
                    columns["iteration"] = np.full(many, number)
                    yield arrow_table(columns, own)
        finally:
            series.close()

    return read


def _load(series: Any, component: Any, part: slice) -> Any:
    many = part.stop - part.start
    if not many:
        return component.dtype.type(0).repeat(0)
    loaded = component.load_chunk([part.start], [many])
    series.flush()
    return loaded


def _whole(series: Any, particles: Any, axis: str, values: Any, part: slice) -> Any:
    position = values.astype(float) * particles["position"][axis].unit_SI
    if "positionOffset" not in particles:
        return position
    offset = particles["positionOffset"][axis]
    return position + _load(series, offset, part).astype(float) * offset.unit_SI


def matches(path: Path, head: bytes) -> bool:
    if path.suffix in (".bp", ".bp4", ".bp5") or "%" in path.name:
        return True
    if path.suffix == ".json" and b'"openPMD"' in head:
        return True
    return head.startswith(MAGIC) and holds(lambda file: "openPMD" in file.attrs)(path, head)
