"""Clouds of OpenFOAM: the time folders of a case, also decomposed and collated.

No library reads clouds, so they are read here: a positions file and one file a field, in text
or binary, as the header of each says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, unit

if TYPE_CHECKING:
    import pyarrow as pa

COMPONENTS = {
    "scalar": 1,
    "label": 1,
    "vector": 3,
    "symmTensor": 6,
    "tensor": 9,
    "sphericalTensor": 1,
}
AXES = ("x", "y", "z")
POSITIONS = "positions"
COORDINATES = "coordinates"
HEADER = re.compile(rb"FoamFile\s*\{(.*?)\}", re.DOTALL)
ENTRY = re.compile(rb'(\w+)\s+("[^"]*"|[^;]*);')
ARCH = re.compile(r"LSB;label=(32|64);scalar=(32|64)")
# The length of a list, behind comments and line ends.
LENGTH = re.compile(rb"\s*(\d+)\s*([({])")
COMMENTS = re.compile(rb"(?:\s+|//[^\n]*\n|/\*.*?\*/)+", re.DOTALL)
UNITS = {"d": "m", "rho": "kg/m^3", "T": "K", "U": "m/s", "mass0": "kg", "age": "s"}
# The pair that tells a parcel from all others, wherever it has come to.
IDENTITY = ("origProcId", "origId")


@dataclass
class Block:
    """The data of one file, or of one rank's part of a collated file."""

    kind: str
    binary: bool
    label: str
    scalar: str
    raw: bytes
    offset: int


def look(path: Path, options: Options) -> Source:
    import pyarrow as pa

    found = _steps(path)
    if not found:
        raise ValueError(f"{path}: no time folder has a cloud")
    clouds = sorted({folder.name for _, folders in found for folder in folders})
    schema = None
    for _, folders in found:
        for folder in folders:
            columns = _read(folder, len(clouds) > 1)
            if columns is not None and columns.num_rows:
                schema = columns.schema
                break
        if schema is not None:
            break
    if schema is None:
        raise ValueError(f"{path}: no cloud has a parcel yet")
    units = {name: UNITS.get(name.rsplit("_", 1)[0]) for name in schema.names}
    fields = [unit(f, "m" if f.name in AXES else units[f.name]) for f in schema]
    schema = pa.schema([*fields, unit(pa.field("time", pa.float64()), "s")])
    identity = [*(["cloud"] if len(clouds) > 1 else []), *IDENTITY, "time"]
    return Source(
        path=path,
        format="openfoam",
        schema=schema,
        steps=lambda _: [
            Step(f"time {time}", _reading(folders, schema, len(clouds) > 1), float(time))
            for time, folders in found
        ],
        dimensions=(*AXES, "time"),
        identity=identity if set(IDENTITY) <= set(schema.names) else [],
        metadata={"openfoam": {"clouds": clouds}},
        times=[float(time) for time, _ in found],
        grows=True,
    )


def _steps(case: Path) -> list[tuple[str, list[Path]]]:
    """The clouds' folders of each time, of all ranks."""
    ranks = [d for d in sorted(case.glob("processor*")) if d.is_dir()]
    found: dict[str, list[Path]] = {}
    for root in ranks or [case]:
        for folder in root.iterdir():
            if not _is_time(folder.name):
                continue
            clouds = folder / "lagrangian"
            if clouds.is_dir():
                found.setdefault(folder.name, []).extend(
                    d for d in sorted(clouds.iterdir()) if _positions(d) is not None
                )
    return [(t, found[t]) for t in sorted(found, key=float) if found[t]]


def _is_time(name: str) -> bool:
    try:
        return float(name) >= 0
    except ValueError:
        return False


def _positions(cloud: Path) -> Path | None:
    file = cloud / POSITIONS
    return file if file.is_file() else None


def _reading(
    folders: list[Path], schema: pa.Schema, named: bool
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        for folder in folders:
            table = _read(folder, named)
            if table is not None and table.num_rows:
                missing = set(schema.names) - set(table.column_names) - {"time"}
                if missing:
                    raise ValueError(f"{folder}: there is no field {', '.join(sorted(missing))}")
                yield table

    return read


def _read(cloud: Path, named: bool) -> pa.Table | None:
    """All parcels of a cloud on one rank, or on all ranks of a collated case."""
    import numpy as np
    import pyarrow as pa

    file = _positions(cloud)
    if file is None:
        return None
    positions = np.concatenate([_parcels(file, block) for block in _blocks(file)])
    columns: dict[str, Any] = {axis: positions[:, i] for i, axis in enumerate(AXES)}
    count = len(positions)
    for file in sorted(cloud.iterdir()):
        if file.name in (POSITIONS, COORDINATES) or not file.is_file():
            continue
        parts = [_values(file, block) for block in _blocks(file)]
        if any(part is None for part in parts):
            continue
        values = np.concatenate([part for part in parts if part is not None])
        if len(values) != count:
            raise ValueError(f"{file}: {len(values)} values of {count} parcels")
        if values.shape[1] == 1:
            columns[file.name] = values[:, 0]
        else:
            names = AXES if values.shape[1] == 3 else [str(i) for i in range(values.shape[1])]
            for i, name in enumerate(names):
                columns[f"{file.name}_{name}"] = values[:, i]
    if named:
        columns["cloud"] = pa.array([cloud.name] * count)
    return arrow_table(columns)


def _blocks(file: Path) -> list[Block]:
    raw = file.read_bytes()
    entries = _entries(file, raw)
    body = entries.pop("end")
    if entries.get("class") != "decomposedBlockData":
        return [_block(file, entries, raw, body)]
    # Collated: a list of the bytes of each rank's file; the first has the header of all.
    blocks, place, header = [], body, None
    while (found := re.compile(rb"\s*(?://[^\n]*\n\s*)*(\d+)\s*\(").match(raw, place)) is not None:
        length, begin = int(found[1]), found.end()
        if begin + length + 1 > len(raw):
            raise ValueError(
                f"{file}: byte {begin}: a part of {length} bytes, the file ends before"
            )
        part = raw[begin : begin + length]
        inner = _entries(file, part, header)
        end = inner.pop("end")
        header = header or inner
        blocks.append(_block(file, inner, part, end))
        place = begin + length + 1
    if not blocks:
        raise ValueError(f"{file}: it has no part of any rank")
    return blocks


def _entries(file: Path, raw: bytes, otherwise: dict[str, Any] | None = None) -> dict[str, Any]:
    found = HEADER.search(raw, 0, 4096)
    if found is None:
        if otherwise is not None:
            return {**otherwise, "end": 0}
        raise ValueError(f"{file}: it has no FoamFile header")
    entries = {k.decode(): v.strip().strip(b'"').decode() for k, v in ENTRY.findall(found[1])}
    return {**entries, "end": found.end()}


def _block(file: Path, entries: dict[str, Any], raw: bytes, body: int) -> Block:
    arch = ARCH.search(entries.get("arch", "LSB;label=32;scalar=64"))
    if arch is None:
        raise ValueError(f"{file}: values of the architecture {entries['arch']!r} are not read")
    skipped = COMMENTS.match(raw, body)
    begin = skipped.end() if skipped else body
    binary = entries.get("format") == "binary"
    return Block(
        entries.get("class", ""),
        binary,
        f"<i{int(arch[1]) // 8}",
        f"<f{int(arch[2]) // 8}",
        raw,
        begin,
    )


def _list(file: Path, block: Block) -> tuple[int, int, bool]:
    """How many values there are, where they begin, and whether all are the same one."""
    found = LENGTH.match(block.raw, block.offset)
    if found is None:
        if re.compile(rb"\s*0\s*$|\s*0\s").match(block.raw, block.offset):
            return 0, block.offset, False
        raise ValueError(f"{file}: byte {block.offset}: a list with its length should begin here")
    return int(found[1]), found.end(), found[2] == b"{"


def _parcels(file: Path, block: Block) -> Any:
    """Positions: ``(x y z) cell`` of each parcel."""
    import numpy as np

    count, begin, _ = _list(file, block)
    if not count:
        return np.empty((0, 3))
    if not block.binary:
        numbers = _numbers(file, block, begin, 4 * count)
        return numbers.reshape(-1, 4)[:, :3].astype(block.scalar)
    # Each parcel is in brackets, with a line end behind all but the last.
    record = np.dtype(
        [("open", "S1"), ("x", block.scalar, 3), ("cell", block.label), ("close", "S2")]
    )
    begin += block.raw[begin : begin + 1] == b"\n"
    if begin + count * record.itemsize - 1 > len(block.raw):
        raise ValueError(
            f"{file}: byte {begin}: {count} parcels were announced, the file ends before"
        )
    parcels = np.frombuffer(block.raw.ljust(begin + count * record.itemsize), record, count, begin)
    if not ((parcels["open"] == b"(").all() and np.char.startswith(parcels["close"], b")").all()):
        raise ValueError(f"{file}: byte {begin}: no parcels in brackets")
    return parcels["x"]


def _values(file: Path, block: Block) -> Any:
    """The values of a field, of shape (parcels, components); None: of a kind that is no number."""
    import numpy as np

    name = re.sub("(CompactIO)?Field$", "", block.kind)
    width = COMPONENTS.get(name)
    if width is None:
        return None
    kind = block.label if name == "label" else block.scalar
    count, begin, uniform = _list(file, block)
    stored = 1 if uniform else count
    if not count:
        return np.empty((0, width), kind)
    if block.binary and not uniform:
        length = stored * width * np.dtype(kind).itemsize
        if begin + length > len(block.raw):
            raise ValueError(
                f"{file}: byte {begin}: {count} values were announced, the file ends before"
            )
        return np.frombuffer(block.raw, kind, stored * width, begin).reshape(-1, width)
    values = _numbers(file, block, begin, stored * width).astype(kind).reshape(-1, width)
    return np.repeat(values, count, axis=0) if uniform else values


def _numbers(file: Path, block: Block, begin: int, count: int) -> Any:
    import numpy as np

    end = block.raw.rfind(b"}" if block.raw[begin - 1 : begin] == b"{" else b")")
    words = block.raw[begin : max(end, begin)]
    numbers = np.array(words.replace(b"(", b" ").replace(b")", b" ").split(), dtype=float)
    if len(numbers) != count:
        raise ValueError(f"{file}: byte {begin}: {len(numbers)} numbers instead of {count}")
    return numbers


def matches(path: Path, head: bytes) -> bool:
    return path.is_dir() and (
        (path / "system" / "controlDict").is_file()
        or any(path.glob("*/lagrangian"))
        or any(path.glob("processor*/*/lagrangian"))
    )
