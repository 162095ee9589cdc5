"""Particles in HDF5: snapshots of GADGET, AREPO and SWIFT, H5Part, H5MD. Through h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, slices, split_columns, unit

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"\x89HDF\r\n\x1a\n"
POSITION, VELOCITY = ("x", "y", "z"), ("vx", "vy", "vz")
MASSES = "Masses"
COMPONENTS: Mapping[str, Sequence[str]] = {
    "Coordinates": POSITION,
    "position": POSITION,
    "Velocities": VELOCITY,
    "velocity": VELOCITY,
    "force": ("fx", "fy", "fz"),
}


def holds(test: Callable[[Any], bool]) -> Callable[[Path, bytes], bool]:
    """Whether a file is HDF5 and ``test`` likes it; without h5py nobody can say."""

    def matches(path: Path, head: bytes) -> bool:
        if not head.startswith(MAGIC):
            return False
        try:
            import h5py
        except ImportError:
            return True
        try:
            with h5py.File(path, "r") as file:
                return test(file)
        except OSError as error:
            raise ValueError(f"{path}: it is damaged or still being written: {error}") from error

    return matches


def attributes(group: Any) -> dict[str, Any]:
    """What is said of a group, as far as JSON can say it."""
    import numpy as np

    said: dict[str, Any] = {}
    for name, value in group.attrs.items():
        if isinstance(value, bytes | np.bytes_):
            said[name] = bytes(value).decode("utf-8", "replace")
        elif isinstance(value, str):
            said[name] = value
        elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iufb":
            said[name] = value.item() if value.size == 1 else value.tolist()
    return said


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# GADGET, AREPO, SWIFT


def look_at_gadget(path: Path, options: Options) -> Source:
    import h5py
    import numpy as np
    import pyarrow as pa

    with h5py.File(path, "r") as file:
        header = attributes(file["Header"])
        counts = np.atleast_1d(file["Header"].attrs["NumPart_ThisFile"]).astype(int)
        kinds = [k for k in range(len(counts)) if counts[k] > 0 and f"PartType{k}" in file]
        fields: dict[str, pa.Field] = {"type": pa.field("type", pa.int8())}
        for kind in kinds:
            for name, data in sorted(file[f"PartType{kind}"].items()):
                if isinstance(data, h5py.Dataset) and data.shape and data.shape[0] == counts[kind]:
                    for column in split_columns(name, data[:0], COMPONENTS.get(name)):
                        field = pa.field(column, pa.from_numpy_dtype(data.dtype.newbyteorder("=")))
                        fields.setdefault(column, unit(field, _gadget_unit(data, file)))
        masses = _masses_of_types(file, kinds)
        if masses:
            # As other types store theirs; without any, as the header does.
            fields.setdefault(MASSES, pa.field(MASSES, pa.float64()))
        time = header.get("Time")
        time = float(time[0] if isinstance(time, list) else time) if time is not None else None
        about = {"header": header}
        for group in ("Units", "Cosmology", "Parameters"):
            if group in file:
                about[group.lower()] = attributes(file[group])
    # Initial conditions say no time: then there is none, unless the user says one.
    dated = time is not None
    clock = [pa.field("time", pa.float64())] if dated else []
    schema = pa.schema([*fields.values(), *clock])

    def read(state: State) -> Iterator[pa.Table]:
        with h5py.File(path, "r") as file:
            for kind in kinds:
                group = file[f"PartType{kind}"]
                for part in slices(int(counts[kind])):
                    many = part.stop - part.start
                    columns: dict[str, Any] = {"type": np.full(many, kind, np.int8)}
                    if dated:
                        columns["time"] = np.full(many, time)
                    for name, data in group.items():
                        if isinstance(data, h5py.Dataset) and data.shape[:1] == (counts[kind],):
                            columns |= split_columns(name, data[part], COMPONENTS.get(name))
                    if kind in masses:
                        columns[MASSES] = np.full(many, masses[kind])
                    yield arrow_table(columns, _with_all(schema, state))

    # A snapshot may be of many files, one for each of some ranks.
    several = int(np.max(header.get("NumFilesPerSnapshot", 1))) > 1
    return Source(
        path=path,
        format="gadget",
        schema=schema,
        steps=lambda _: [Step("snapshot", read, time, path.name if several else "")],
        dimensions=(*POSITION, "time"),
        identity=("ParticleIDs", "time") if dated or options.time is not None else ("ParticleIDs",),
        metadata={"gadget": about},
        rows=int(counts[kinds].sum()) if kinds else 0,
        times=() if time is None else (time,),
        partial=True,
    )


def _masses_of_types(file: Any, kinds: Sequence[int]) -> dict[int, float]:
    """The mass of each particle of a type whose particles all have the same: the header says it."""
    table = file["Header"].attrs.get("MassTable")
    if table is None:
        return {}
    lacking = [k for k in kinds if k < len(table) and MASSES not in file[f"PartType{k}"]]
    return {k: float(table[k]) for k in lacking if table[k] > 0}


def _with_all(schema: pa.Schema, state: State) -> pa.Schema:
    """The columns of a file, and those that it lacks, of types of particles that it has none of."""
    lacking = [f for f in state.schema or () if f.name not in schema.names and f.name != "time"]
    for field in lacking:
        schema = schema.append(field)
    return schema


def _gadget_unit(data: Any, file: Any) -> str | None:
    """SWIFT says it of each field; for positions of GADGET the header may."""
    for name in ("Expression for physical CGS units", "units"):
        if name in data.attrs:
            return text(data.attrs[name]) or None
    return None


# H5Part


def look_at_h5part(path: Path, options: Options) -> Source:
    import h5py
    import pyarrow as pa

    with h5py.File(path, "r") as file:
        names = sorted((n for n in file if n.startswith("Step#")), key=lambda n: int(n[5:]))
        if not names:
            raise ValueError(f"{path}: it has no step")
        first = file[names[0]]
        said = {
            name: [file[n].attrs.get(name) for n in names] for name in ("TimeValue", "Time", "TIME")
        }
        times = next((v for v in said.values() if None not in v), None)
        numbers = [
            float(t) if times is None else float(_one(t)) for t in (times or range(len(names)))
        ]
        columns = sorted(n for n, d in first.items() if isinstance(d, h5py.Dataset) and d.ndim == 1)
        fields = []
        for name in columns:
            kind = pa.from_numpy_dtype(first[name].dtype.newbyteorder("="))
            said_unit = file.attrs.get(f"{name}Unit", first[name].attrs.get("unit"))
            fields.append(
                unit(pa.field(name, kind), None if said_unit is None else text(said_unit))
            )
        rows = sum(file[n][columns[0]].shape[0] for n in names)
        about = attributes(file)
    schema = pa.schema([*fields, pa.field("time", pa.float64()), pa.field("step", pa.int64())])

    def reading(name: str, time: float) -> Callable[[State], Iterator[pa.Table]]:
        def read(_: State) -> Iterator[pa.Table]:
            import numpy as np

            with h5py.File(path, "r") as file:
                group = file[name]
                count = group[columns[0]].shape[0]
                for column in columns:
                    if column not in group or group[column].shape != (count,):
                        raise ValueError(f"{path}: {name} has no {column} of {count} values")
                for part in slices(count):
                    arrays = {column: group[column][part] for column in columns}
                    many = part.stop - part.start
                    arrays["time"] = np.full(many, time)
                    arrays["step"] = np.full(many, int(name[5:]))
                    yield arrow_table(arrays, schema)

        return read

    identity = [name for name in ("id", "ID", "ids") if name in columns][:1]
    return Source(
        path=path,
        format="h5part",
        schema=schema,
        steps=lambda _: [Step(n, reading(n, t), t) for n, t in zip(names, numbers, strict=True)],
        dimensions=[*(n for n in POSITION if n in columns), "time"],
        identity=identity and [*identity, "time"],
        metadata={"h5part": about} if about else {},
        rows=rows,
        times=numbers,
        grows=True,
    )


def _one(value: Any) -> Any:
    import numpy as np

    return np.asarray(value).reshape(-1)[0]


is_gadget = holds(lambda file: "Header" in file and "NumPart_ThisFile" in file["Header"].attrs)
is_h5part = holds(lambda file: any(name.startswith("Step#") for name in file))
