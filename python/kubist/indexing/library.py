"""A process that reads HDF5 files for the engine, with HDF5's own library.

The process runs only this file, which imports nothing else of the package. A request is a line of
JSON on standard input. The response is a line of JSON, followed by the bytes that it counts. If a
file crashes HDF5 or exhausts memory, only this process ends.
"""

from __future__ import annotations

import json
import posixpath
import resource
import sys
from typing import Any, BinaryIO

MEMORY = 8 << 30
"""Limit of the address space in bytes, far more than the index of a file needs."""
FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 32004: "lz4", 32015: "zstd"}
"""Filters that the engine can decode, by their registered HDF5 numbers."""
NUMBERS = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}
MOST_CHUNKS = 1 << 26
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"
"""The name of dimension scales without values, which netCDF-4 writes."""


def number(dtype: Any) -> str | None:
    """The engine's name for the type of a dataset; None if it is not numeric."""
    import numpy as np

    if not isinstance(dtype, np.dtype) or dtype.subdtype is not None or dtype.kind not in "iuf":
        return None
    name = f"{dtype.kind}{dtype.itemsize}"
    return f"{dtype.kind}{8 * dtype.itemsize}" if name in NUMBERS else None


def scalar(attributes: Any, name: str) -> float | None:
    import numpy as np

    value = attributes.get(name)
    if value is None or isinstance(value, str | bytes):
        return None
    values = np.asarray(value).ravel()
    if not values.size or values.dtype.kind not in "iuf":
        return None
    if not np.isfinite(values[0]):
        raise ValueError(f"its {name} is {values[0]}")
    return float(values[0])


def sound(text: str | bytes) -> str:
    """A name as valid UTF-8; h5py returns invalid names as bytes or with lone surrogates."""
    own = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return own.decode("utf-8", "replace")


def text(attributes: Any, name: str) -> str | None:
    value = attributes.get(name)
    if getattr(value, "size", None) == 1 and hasattr(value, "item"):
        # netCDF-4 writes a string of variable length as an array with one element.
        value = value.item()
    return sound(value) if isinstance(value, str | bytes) else None


def bits(value: Any) -> int:
    """The bits of a number, in the lowest bytes."""
    import numpy as np

    own = np.asarray(value)
    return int.from_bytes(own.astype(own.dtype.newbyteorder("<")).tobytes(), "little")


def missing(attributes: Any, dtype: Any) -> list[int]:
    """The stored numbers that represent missing values (CF conventions)."""
    import numpy as np

    found: set[int] = set()
    for name in ("_FillValue", "missing_value"):
        given = attributes.get(name)
        if given is None or isinstance(given, str | bytes):
            continue
        for value in np.asarray(given).ravel():
            with np.errstate(all="ignore"):
                own = np.asarray(value).astype(dtype)
            if dtype.kind == "f" or own == value or own.nbytes == np.asarray(value).nbytes:
                found.add(bits(own))
    return sorted(found)


def axes(file: Any, dataset: Any) -> list[str]:
    """The names of a dataset's axes, from its scales or else ``dim0``, ``dim1``."""
    if text(dataset.attrs, "CLASS") == "DIMENSION_SCALE" and dataset.ndim == 1:
        return [sound(dataset.name).rsplit("/", 1)[-1]]
    names = []
    for axis in range(dataset.ndim):
        scales = dataset.dims[axis]
        scale = sound(scales[0].name) if len(scales) else None
        names.append(scale.rsplit("/", 1)[-1] if scale else f"dim{axis}")
    return (
        names if len(set(names)) == len(names) else [f"dim{axis}" for axis in range(dataset.ndim)]
    )


def bounds_of(name: str, dataset: Any) -> list[str]:
    """The datasets that contain the cell bounds of a dataset (CF conventions)."""
    said = [text(dataset.attrs, attribute) for attribute in ("bounds", "climatology")]
    return [posixpath.normpath(f"/{name}/../{of}").lstrip("/") for of in said if of]


def filters(dataset: Any) -> list[Any]:
    pipeline = dataset.id.get_create_plist()
    found: list[Any] = []
    for place in range(pipeline.get_nfilters()):
        code, _, _, name = pipeline.get_filter(place)
        known = FILTERS.get(code)
        found.append(known or {"other": f"{sound(name) or 'unnamed'} ({code})"})
    return found


def chunks(dataset: Any) -> Any:
    """A row for each chunk: number, offset, bytes, mask of skipped filters."""
    import numpy as np

    grid = [
        -(-length // chunk) for length, chunk in zip(dataset.shape, dataset.chunks, strict=True)
    ]
    rows: list[tuple[int, int, int, int]] = []

    def take(chunk: Any) -> None:
        at = 0
        for place, length, count in zip(chunk.chunk_offset, dataset.chunks, grid, strict=True):
            at = at * count + place // length
        rows.append((at, chunk.byte_offset, chunk.size, chunk.filter_mask))
        if len(rows) > MOST_CHUNKS:
            raise ValueError(f"variable {dataset.name}: it has more than {MOST_CHUNKS} chunks")

    dataset.id.chunk_iter(take)
    return np.array(rows, dtype="<u8").reshape(-1, 4)


def storage(dataset: Any, dtype: Any) -> tuple[Any, Any]:
    import h5py

    nothing = b"", 0
    kind = dataset.id.get_create_plist().get_layout()
    if dataset.is_virtual:
        return {"library": {"why": "a virtual dataset"}}, nothing
    if dataset.external:
        return {"library": {"why": "its bytes are in other files"}}, nothing
    if kind == h5py.h5d.CHUNKED:
        table = chunks(dataset)
        fill = bits(dtype.type(dataset.fillvalue))
        how = {"shape": list(dataset.chunks), "filters": filters(dataset), "fill": fill}
        return {"chunks": how}, (table.tobytes(), len(table))
    offset = dataset.id.get_offset()
    if kind == h5py.h5d.CONTIGUOUS and offset is not None:
        return {"contiguous": {"offset": offset}}, nothing
    if kind == h5py.h5d.CONTIGUOUS:
        # Unwritten data has the fill value everywhere.
        shape = [max(length, 1) for length in dataset.shape]
        return {
            "chunks": {"shape": shape, "filters": [], "fill": bits(dtype.type(dataset.fillvalue))}
        }, nothing
    return {"library": {"why": "kept in its header"}}, nothing


def layout(path: bytes) -> tuple[dict[str, Any], bytes]:
    import h5py

    dimensions: dict[tuple[str, int], int] = {}
    variables: list[dict[str, Any]] = []
    left_out: list[str] = []
    bounds: list[str] = []
    counts: list[int] = []
    tables: list[bytes] = []

    def visit(name: str | bytes, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if sound(name) != name:
            left_out.append(f"{sound(name)}: its name is no UTF-8")
            return
        try:
            add(name, item)
        except MemoryError:
            raise
        except Exception as error:
            # Other datasets may be intact.
            left_out.append(f"{name}: {said(error)}")

    def add(name: str, item: Any) -> None:
        bounds.extend(bounds_of(name, item))
        kind = number(item.dtype)
        if kind is None or not item.shape:
            why = (
                "it is a single value or empty" if kind else f"its type {item.dtype} is not numeric"
            )
            left_out.append(f"{name}: {sound(why)}")
            return
        if (text(item.attrs, "NAME") or "").startswith(NO_VARIABLE):
            return
        dtype = item.dtype
        if text(item.attrs, "_Unsigned") == "true" and dtype.kind == "i":
            kind = "u" + kind[1:]
        where, (table, count) = storage(item, dtype.newbyteorder("="))
        packing = {
            "scale": scalar(item.attrs, "scale_factor"),
            "offset": scalar(item.attrs, "add_offset"),
            "missing": missing(item.attrs, dtype.newbyteorder("=")),
        }
        own = [
            dimensions.setdefault(axis, len(dimensions))
            for axis in zip(axes(file, item), item.shape, strict=True)
        ]
        variables.append(
            {
                "name": name,
                "dimensions": own,
                "number": kind,
                "big_endian": dtype.byteorder == ">",
                "packing": packing,
                "unit": text(item.attrs, "units") or text(item.attrs, "unit"),
                "calendar": text(item.attrs, "calendar"),
                "storage": where,
            }
        )
        counts.append(count)
        tables.append(table)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    names = [{"name": name, "length": length} for name, length in dimensions]
    found = {
        "format": "hdf5",
        "dimensions": names,
        "variables": variables,
        "left_out": left_out,
        "bounds": bounds,
    }
    return {"layout": found, "chunks": counts}, b"".join(tables)


def read(
    path: bytes, variable: str, start: list[int], count: list[int]
) -> tuple[dict[str, Any], bytes]:
    """The stored numbers of a rectangle, in the file's byte order."""
    import h5py

    try:
        # The import registers the filters of hdf5plugin.
        import hdf5plugin  # noqa: F401
    except ImportError:
        pass
    with h5py.File(path, "r") as file:
        part = tuple(slice(at, at + length) for at, length in zip(start, count, strict=True))
        values = file[variable][part]
        return {}, values.astype(file[variable].dtype, copy=False).tobytes()


def said(error: Exception) -> str:
    return sound(" ".join(str(error).split())) or type(error).__name__


def answer(question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Returns the response to a request; an error becomes a response too."""
    try:
        # A list of bytes, because file names may be invalid text.
        question["path"] = bytes(question["path"])
        if question.pop("do") == "layout":
            return layout(**question)
        return read(**question)
    except ImportError:
        return {"error": "HDF5 and netCDF-4 are read with h5py: pip install 'kubist[files]'"}, b""
    except MemoryError:
        return {"error": "its library needs more memory than it may have"}, b""
    except Exception as error:
        return {"error": f"its library says: {said(error)}"}, b""


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    for line in questions:
        head, data = answer(json.loads(line))
        try:
            text = json.dumps({**head, "bytes": len(data)}, allow_nan=False)
        except ValueError as error:
            text, data = json.dumps({"error": f"its header: {error}", "bytes": 0}), b""
        answers.write(text.encode() + b"\n")
        answers.write(data)
        answers.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    serve(sys.stdin.buffer, sys.stdout.buffer)
