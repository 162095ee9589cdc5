"""Random array files, and the results of queries by numpy.

A world is a file with its variables' values and axes, written by numpy, h5py, or here by the
specification of classic netCDF.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

AXES = ("time", "depth", "lat", "lon")
TYPES = {"i1": 1, "i2": 3, "i4": 4, "f4": 5, "f8": 6, "u1": 7, "u2": 8, "u4": 9, "i8": 10, "u8": 11}
"""Type codes of the classic format; those from 7 on are CDF-5."""


def seeds(each: int = 1) -> range:
    first = int(os.environ.get("KUBIST_INDEX_FIRST", "0"))
    count = int(os.environ.get("KUBIST_INDEX_SEEDS", "8"))
    return range(each * first, each * (first + count))


@dataclass
class Variable:
    stored: np.ndarray
    axes: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> np.ndarray:
        mask = np.zeros(self.stored.shape, bool)
        fill = self.attributes.get("_FillValue")
        if fill is not None:
            mask |= np.isnan(self.stored) if fill != fill else self.stored == fill
        return mask

    @property
    def values(self) -> np.ndarray:
        """The values by the CF conventions; packed values are doubles."""
        scale, offset = self.attributes.get("scale_factor"), self.attributes.get("add_offset")
        if scale is None and offset is None:
            return self.stored.astype(self.stored.dtype.newbyteorder("="))
        packed = self.stored.astype("f8") * (1.0 if scale is None else scale)
        return packed + (0.0 if offset is None else offset)


@dataclass
class World:
    path: Path
    variables: dict[str, Variable]

    def ask(self, where: Callable[[dict[str, Any]], np.ndarray], names: list[str]) -> Any:
        return np.flatnonzero(where({name: self.variables[name] for name in names}))


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype).kind
    where = np.indices(shape).sum(axis=0) if shape else np.zeros(())
    field = 40 * np.sin(where / max(4, sum(shape) / 6)) + rng.normal(
        0, rng.choice([0.5, 20]), shape
    )
    if kind == "f":
        out = field.astype(dtype)
        for special in (np.nan, np.inf, -np.inf):
            out[rng.random(shape) < 0.01] = special
        return out
    low, high = (0, 120) if kind == "u" else (-120, 120)
    return np.clip(field + (60 if kind == "u" else 0), low, high).astype(dtype)


def attributes(rng: np.random.Generator, stored: np.ndarray) -> dict[str, Any]:
    """A random fill value that replaces some values, and a scale."""
    said: dict[str, Any] = {}
    native = stored.dtype.newbyteorder("=").type
    if rng.random() < 0.6:
        fill = native(np.nan if stored.dtype.kind == "f" and rng.random() < 0.3 else 121)
        said["_FillValue"] = fill
        stored[rng.random(stored.shape) < rng.choice([0.02, 0.9])] = fill
    if stored.dtype.kind in "iu" and rng.random() < 0.4:
        said["scale_factor"] = float(rng.choice([0.01, -0.5, 3.0]))
        if rng.random() < 0.5:
            said["add_offset"] = 273.15
    return said


def netcdf3(path: Path, variables: dict[str, Variable], record: str | None, version: int) -> None:
    """Writes classic netCDF: CDF-1, -2 or -5 (``version``); ``record`` is the axis that grows."""
    count = (lambda n: struct.pack(">q", n)) if version == 5 else (lambda n: struct.pack(">i", n))
    offset = (lambda n: struct.pack(">i", n)) if version == 1 else (lambda n: struct.pack(">q", n))
    lengths: dict[str, int] = {}
    for variable in variables.values():
        lengths.update(zip(variable.axes, variable.stored.shape, strict=True))
    names = list(lengths)

    def padded(data: bytes) -> bytes:
        return data + b"\0" * (-len(data) % 4)

    def name(text: str) -> bytes:
        return count(len(text)) + padded(text.encode())

    def listed(tag: int, items: list[bytes]) -> bytes:
        return struct.pack(">i", tag if items else 0) + count(len(items)) + b"".join(items)

    def attribute(key: str, value: Any) -> bytes:
        if isinstance(value, str):
            return name(key) + struct.pack(">i", 2) + count(len(value)) + padded(value.encode())
        array = np.atleast_1d(value)
        kind = TYPES[f"{array.dtype.kind}{array.dtype.itemsize}"]
        data = array.astype(array.dtype.newbyteorder(">")).tobytes()
        return name(key) + struct.pack(">i", kind) + count(array.size) + padded(data)

    def is_record(variable: Variable) -> bool:
        return record is not None and variable.axes[:1] == (record,)

    single = sum(map(is_record, variables.values())) == 1

    def header(begins: dict[str, int]) -> bytes:
        out = b"CDF" + bytes([version]) + count(lengths.get(record, 0) if record else 0)
        out += listed(10, [name(n) + count(0 if n == record else lengths[n]) for n in names])
        out += listed(12, [attribute("title", "random")])
        items = []
        for key, variable in variables.items():
            own = variable.stored
            head = (
                name(key) + count(own.ndim) + b"".join(count(names.index(a)) for a in variable.axes)
            )
            head += listed(12, [attribute(*pair) for pair in variable.attributes.items()])
            head += struct.pack(">i", TYPES[f"{own.dtype.kind}{own.dtype.itemsize}"])
            items.append(head + count(0) + offset(begins.get(key, 0)))
        return out + listed(11, items)

    def data(array: np.ndarray) -> bytes:
        own = np.asarray(array)
        return own.astype(own.dtype.newbyteorder(">")).tobytes()

    begins: dict[str, int] = {}
    at = len(header({}))
    for key, variable in variables.items():
        if not is_record(variable):
            begins[key] = at
            at += len(padded(data(variable.stored)))
    records = [key for key, variable in variables.items() if is_record(variable)]
    for key in records:
        begins[key] = at
        own = data(variables[key].stored[0]) if len(variables[key].stored) else b""
        at += len(own if single else padded(own))
    with path.open("wb") as file:
        file.write(header(begins))
        for variable in variables.values():
            if not is_record(variable):
                file.write(padded(data(variable.stored)))
        for step in range(lengths.get(record, 0) if record else 0):
            for key in records:
                own = data(variables[key].stored[step])
                file.write(own if single else padded(own))


def hdf5(path: Path, variables: dict[str, Variable], rng: np.random.Generator) -> None:
    import h5py

    try:
        import hdf5plugin
    except ImportError:
        hdf5plugin = None
    with h5py.File(path, "w", userblock_size=int(rng.choice([0, 512]))) as file:
        for key, variable in variables.items():
            own = variable.stored
            options: dict[str, Any] = {}
            pick = rng.integers(0, 5)
            if pick > 0 and own.size:
                chunk = tuple(int(rng.integers(1, length + 1)) for length in own.shape)
                options = {"chunks": chunk, "shuffle": bool(rng.random() < 0.5)}
                options["fletcher32"] = bool(rng.random() < 0.3)
                if pick > 1:
                    options |= {"compression": "gzip", "compression_opts": int(rng.integers(1, 9))}
                if pick == 3:
                    options |= {"compression": "lzf", "compression_opts": None}
                if pick == 4 and hdf5plugin is not None:
                    filters = [hdf5plugin.LZ4(), hdf5plugin.Zstd(), hdf5plugin.Blosc()]
                    options.pop("compression_opts", None)
                    options |= dict(filters[int(rng.integers(0, 3))])
            if options and rng.random() < 0.3 and own.shape[0] > 1:
                # Unwritten chunks have the fill value.
                half = own.shape[0] // 2
                fill = variable.attributes.get("_FillValue", own.dtype.type(7))
                options["fillvalue"] = fill
                data = file.create_dataset(key, own.shape, own.dtype, **options)
                data[:half] = own[:half]
                own[half:] = fill
            else:
                data = file.create_dataset(key, data=own, **options)
            for label, value in variable.attributes.items():
                data.attrs[label] = value
        for key, variable in variables.items():
            if variable.axes == (key,):
                file[key].make_scale(key)
        for key, variable in variables.items():
            for axis, label in enumerate(variable.axes):
                if label in variables and label != key:
                    file[key].dims[axis].attach_scale(file[label])


def world(path: Path, seed: int, kind: str) -> World:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    most = {1: 4000, 2: 70, 3: 18, 4: 9}[rank]
    shape = tuple(int(rng.integers(1, most)) for _ in range(rank))
    axes = AXES[-rank:]
    classic = int(rng.choice([1, 2, 5]))
    types = ["i1", "i2", "i4", "f4", "f8"]
    if kind != "netcdf3" or classic == 5:
        types += ["u1", "u2", "u4", "i8", "u8"]
    if kind == "hdf5":
        types.append("f2")

    def variable(shape: tuple[int, ...], axes: tuple[str, ...]) -> Variable:
        dtype = str(rng.choice(types))
        if kind != "netcdf3":
            dtype = str(rng.choice(["<", ">"])) + dtype
        stored = values(rng, shape, dtype)
        return Variable(stored, axes, attributes(rng, stored))

    if kind == "npy":
        stored = values(rng, shape, str(rng.choice(["<", ">"])) + str(rng.choice([*types, "f2"])))
        if rng.random() < 0.5:
            stored = np.asfortranarray(stored)
        np.save(path, stored)
        return World(path, {path.stem: Variable(stored, axes)})
    variables = {"a": variable(shape, axes), "b": variable(shape, axes)}
    if rank > 1:
        variables["c"] = variable(shape[-1:], axes[-1:])
    for axis, length in zip(axes, shape, strict=True):
        if rank > 1 or rng.random() < 0.5:
            variables[axis] = Variable(np.sort(rng.normal(0, 50, length)).astype("f8"), (axis,))
    if kind == "netcdf3":
        record = axes[0] if rng.random() < 0.5 else None
        netcdf3(path, variables, record, classic)
    else:
        hdf5(path, variables, rng)
    return World(path, variables)
