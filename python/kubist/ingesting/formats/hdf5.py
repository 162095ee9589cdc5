"""Particles in HDF5, and H5Part, through h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import (
    Options,
    Source,
    State,
    Step,
    arrow_table,
    as_json,
    in_units,
    join,
    slices,
    unit,
)

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"\x89HDF\r\n\x1a\n"
POSITION, VELOCITY = ("x", "y", "z"), ("vx", "vy", "vz")
COMPONENTS: Mapping[str, Sequence[str]] = {
    "Coordinates": POSITION,
    "position": POSITION,
    "Velocities": VELOCITY,
    "velocity": VELOCITY,
    "force": ("fx", "fy", "fz"),
}


def holds(test: Callable[[Any], bool]) -> Callable[[Path, bytes], bool]:
    """Returns whether a file is HDF5 and passes ``test``; unknown without h5py."""

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


def check_sources(path: Path, file: Any) -> None:
    """Checks that the source files of virtual and external datasets exist.

    Raises:
        InvalidInput: A file is missing, and HDF5 would return fill values.
    """
    import h5py

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        parts = item.virtual_sources() if item.is_virtual else []
        others = {part.file_name for part in parts} | {part[0] for part in item.external or ()}
        for other in sorted(others - {"."}):
            there = (path.parent / other).exists() or Path(other).exists()
            # A name with `%b` stands for a series of files of any length.
            if not there and "%" not in other:
                raise InvalidInput(f"{path}: {name} has values in {other}, which is not there")

    file.visititems(visit)


def attributes(group: Any) -> dict[str, Any]:
    """Returns the attributes of a group for JSON, references and compounds as strings."""
    import numpy as np

    said: dict[str, Any] = {}
    for name in group.attrs:
        try:
            value = group.attrs[name]
        except (OSError, TypeError, ValueError) as error:
            said[name] = f"unreadable: {error}"
            continue
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(-1)[0]
        said[name] = as_json(value)
    return said


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# H5Part

TIMES = ("TimeValue", "Time", "TIME")


def look_at_h5part(path: Path, options: Options) -> Source:
    import h5py
    import pyarrow as pa

    with h5py.File(path, "r") as file:
        check_sources(path, file)
        names = sorted((n for n in file if n.startswith("Step#")), key=lambda n: int(n[5:]))
        if not names:
            raise ValueError(f"{path}: it has no step")
        said = {name: [file[n].attrs.get(name) for n in names] for name in TIMES}
        times = next((v for v in said.values() if None not in v), None)
        numbers = [
            float(t) if times is None else float(_one(t)) for t in (times or range(len(names)))
        ]
        left_out = {name: "it is not of particles" for name in file if not name.startswith("Step#")}
        fields: dict[str, pa.Field] = {}
        of_steps: dict[str, dict[str, pa.Field]] = {}
        counts = {name: _rows(file[name]) for name in names}
        for step in names:
            for name, data in sorted(file[step].items()):
                if (why := _unreadable(data, counts[step])) is not None:
                    left_out.setdefault(name, why)
                    continue
                kind = pa.from_numpy_dtype(data.dtype.newbyteorder("="))
                said_unit = file.attrs.get(f"{name}Unit", data.attrs.get("unit"))
                own = unit(pa.field(name, kind), None if said_unit is None else text(said_unit))
                join(fields, own, f"{path}: {step}")
                of_steps.setdefault(step, {})[name] = own
            for name in file[step].attrs:
                if name not in TIMES:
                    left_out.setdefault(f"attribute {name}", "it is of a step, not of particles")
        about = attributes(file)
    own_schema = [*fields.values(), pa.field("time", pa.float64()), pa.field("step", pa.int64())]
    schema = pa.schema(own_schema)

    def reading(name: str, time: float) -> Callable[[State], Iterator[pa.Table]]:
        def read(_: State) -> Iterator[pa.Table]:
            import numpy as np

            with h5py.File(path, "r") as file:
                group, count = file[name], counts[name]
                own = [n for n in fields if n in group and _unreadable(group[n], count) is None]
                for part in slices(count):
                    arrays = {column: group[column][part] for column in own}
                    many = part.stop - part.start
                    arrays["time"] = np.full(many, time)
                    arrays["step"] = np.full(many, int(name[5:]))
                    yield arrow_table(arrays, in_units(schema, of_steps.get(name, {})))

        return read

    identity = [name for name in ("id", "ID", "ids") if name in fields][:1]
    return Source(
        path=path,
        format="h5part",
        schema=schema,
        steps=lambda _: [
            Step(n, reading(n, t), t, number=int(n[5:]))
            for n, t in zip(names, numbers, strict=True)
        ],
        dimensions=[*(n for n in POSITION if n in fields), "time"],
        identity=identity and [*identity, "time"],
        metadata={"h5part": about} if about else {},
        rows=sum(counts.values()),
        times=numbers,
        grows=True,
        left_out=left_out,
    )


def _rows(step: Any) -> int:
    """The number of particles of a step: the length of most arrays."""
    import h5py

    lengths = [d.shape[0] for d in step.values() if isinstance(d, h5py.Dataset) and d.ndim == 1]
    return max(lengths, key=lengths.count, default=0)


def _unreadable(data: Any, count: int) -> str | None:
    """The reason why a table cannot store an item of a step, or None.

    Raises:
        ValueError: The number of values differs from the number of particles in the step.
    """
    import h5py

    if not isinstance(data, h5py.Dataset):
        return "it is a group"
    if data.dtype.kind not in "iufb":
        return f"its type {data.dtype} has no place in a table"
    if data.ndim != 1:
        return f"its shape {data.shape} has no value for each particle"
    if len(data) != count:
        raise ValueError(f"{data.name} has {len(data):,} values of {count:,} particles")
    return None


def _one(value: Any) -> Any:
    import numpy as np

    return np.asarray(value).reshape(-1)[0]


is_h5part = holds(lambda file: any(name.startswith("Step#") for name in file))
