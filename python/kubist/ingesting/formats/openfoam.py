"""Clouds of OpenFOAM: the time folders of a case, also decomposed and collated.

A cloud has a file of positions and a file for each field, as text or binary (the header states
which), possibly compressed with gzip. No library reads clouds.

A position is three numbers (OpenFOAM.com), or four barycentric coordinates within a tetrahedron of
the mesh (OpenFOAM.org, and the file `coordinates` of OpenFOAM.com). A field is null at times that
lack it.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Options, Source, State, Step, arrow_table, check_range, unit
from .foam_mesh import Mesh, ascii_faces, find_mesh

if TYPE_CHECKING:
    import numpy as np
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
WHOLE = re.compile(rb"[-+]?\d+")
POSITIONS = "positions"
COORDINATES = "coordinates"
HEADER = re.compile(rb"FoamFile\s*\{(.*?)\}", re.DOTALL)
ENTRY = re.compile(rb'(\w+)\s+("[^"]*"|[^;]*);')
ARCH = re.compile(r"LSB;label=(32|64);scalar=(32|64)")
# The length of a list, after comments and line ends.
LENGTH = re.compile(rb"\s*(\d+)\s*([({])")
COMMENTS = re.compile(rb"(?:\s+|//[^\n]*\n|/\*.*?\*/)+", re.DOTALL)
SUBDOMAINS = re.compile(rb"^\s*numberOfSubdomains\s+(\d+)\s*;", re.MULTILINE)
UNITS = {"d": "m", "rho": "kg/m^3", "T": "K", "U": "m/s", "mass0": "kg", "age": "s"}
# The pair that identifies a parcel.
IDENTITY = ("origProcId", "origId")


@dataclass
class Block:
    """The data of a file, or of one rank in a collated file."""

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
    # A table is created only after a first folder with parcels was read.
    columns = (_read(folder, len(clouds) > 1) for _, folders in found for folder in folders)
    first = next((table for table in columns if table is not None and table.num_rows), None)
    if first is None:
        raise ValueError(f"{path}: no cloud has a parcel yet")
    kinds = {field.name: field.type for field in first.schema}
    for _, folders in found:
        for folder in folders:
            for name, kind in _kinds(folder).items():
                kinds.setdefault(name, kind)
    if "cloud" in kinds:
        kinds["cloud"] = kinds.pop("cloud")
    schema = pa.schema(list(kinds.items()))
    units = {name: UNITS.get(name.rsplit("_", 1)[0]) for name in schema.names}
    fields = [unit(f, "m" if f.name in AXES else units[f.name]) for f in schema]
    schema = pa.schema([*fields, unit(pa.field("time", pa.float64()), "s")])
    identity = [*(["cloud"] if len(clouds) > 1 else []), *IDENTITY, "time"]
    left_out = _others(path, found)
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
        domains=_domains(found),
        metadata={"openfoam": {"clouds": clouds}},
        times=[float(time) for time, _ in found],
        grows=True,
        left_out=left_out,
    )


def _others(case: Path, found: list[tuple[str, list[Path]]]) -> dict[str, str]:
    """The parts of the time folders that are not in the table, with reasons."""
    left_out: dict[str, str] = {}
    for time, folders in found:
        for folder in sorted({cloud.parent.parent for cloud in folders}):
            for item in sorted(folder.iterdir()):
                name = item.name.removesuffix(".gz")
                if name == "lagrangian":
                    continue
                kind = f"field {name}" if item.is_file() else f"folder {name}"
                left_out.setdefault(kind, "it is not of parcels")
            for cloud in sorted((folder / "lagrangian").iterdir()):
                if cloud.is_dir() and _positions(cloud) is None and any(cloud.iterdir()):
                    left_out.setdefault(f"cloud {cloud.name} at time {time}", "it has no positions")
        for cloud in folders:
            for item in sorted(cloud.iterdir()):
                if item.is_dir():
                    left_out.setdefault(f"{cloud.name}/{item.name}", "it is a folder")
            for name, file in _fields(cloud):
                block = _head_block(file)
                if _width(block) is None:
                    why = f"its class {block.kind} has no place in a table"
                    left_out.setdefault(f"{cloud.name}/{name}", why)
    return left_out | _missing_ranks(case, found)


def _missing_ranks(case: Path, found: list[tuple[str, list[Path]]]) -> dict[str, str]:
    """Missing ranks of a decomposed case, and ranks that lack times of other ranks."""
    numbers = {
        int(d.name[9:]) for d in case.glob("processor*") if d.is_dir() and d.name[9:].isdigit()
    }
    if not numbers:
        return {}
    many = max(numbers) + 1
    said = case / "system" / "decomposeParDict"
    if said.is_file() and (number := SUBDOMAINS.search(said.read_bytes())) is not None:
        many = max(many, int(number[1]))
    left_out = {
        f"processor{rank}": f"the case has {many} ranks, and this one is not there"
        for rank in range(many)
        if rank not in numbers
    }
    for time, _ in found:
        for rank in sorted(numbers):
            if not (case / f"processor{rank}" / time).is_dir():
                left_out[f"processor{rank} at time {time}"] = "other ranks have this time"
    return left_out


def _steps(case: Path) -> list[tuple[str, list[Path]]]:
    """For each time, the folders of clouds on all ranks."""
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


def _find(file: Path) -> Path | None:
    packed = file.with_name(file.name + ".gz")
    return next((f for f in (file, packed) if f.is_file()), None)


def _positions(cloud: Path) -> Path | None:
    return _find(cloud / POSITIONS) or _find(cloud / COORDINATES)


def _fields(cloud: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(cloud.iterdir()):
        name = file.name.removesuffix(".gz")
        if name not in (POSITIONS, COORDINATES) and file.is_file():
            yield name, file


def _bytes(file: Path, most: int = -1) -> bytes:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            return opened.read(most)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{file}: {error}") from error


def _kinds(cloud: Path) -> dict[str, pa.DataType]:
    """The columns of a cloud's fields, from the headers of its files."""
    import numpy as np
    import pyarrow as pa

    kinds = {}
    for name, file in _fields(cloud):
        block = _head_block(file)
        width = _width(block)
        if width is not None:
            kind = pa.from_numpy_dtype(np.dtype(block.label if _is_label(block) else block.scalar))
            kinds.update(dict.fromkeys(_component_names(name, width), kind))
    return kinds


def _head_block(file: Path) -> Block:
    head = _bytes(file, 16384)
    headers = [_entries(file, head)]
    if headers[0].get("class") == "decomposedBlockData":
        headers.append(_entries(file, head[headers[0]["end"] :], headers[0]))
    return _block(file, headers[-1], b"", 0)


def _component_names(field: str, width: int) -> list[str]:
    if width == 1:
        return [field]
    names = AXES if width == 3 else [str(i) for i in range(width)]
    return [f"{field}_{name}" for name in names]


def _reading(
    folders: list[Path], schema: pa.Schema, named: bool
) -> Callable[[State], Iterator[pa.Table]]:
    def read(_: State) -> Iterator[pa.Table]:
        import pyarrow as pa

        for folder in folders:
            table = _read(folder, named)
            if table is not None and table.num_rows:
                fields = [field for field in schema if field.name != "time"]
                extra = [f for f in table.schema if f.name not in schema.names]
                columns = {name: table.column(name) for name in table.column_names}
                yield arrow_table(columns, pa.schema([*fields, *extra]))

    return read


def _domains(found: list[tuple[str, list[Path]]]) -> dict[str, tuple[float, float]]:
    """All times, and the bounds of the first and the last parcels.

    A cloud spreads after its first time. The bounds are wider by half of the extent on each side,
    as those of a table that learns them.
    """
    import numpy as np

    times = [float(time) for time, _ in found]
    domains = {"time": (times[0], times[-1])}
    points = np.concatenate([_first_points(found), _first_points(reversed(found))])
    points = points[np.isfinite(points).all(axis=1)]
    for axis, values in zip(AXES, points.T, strict=True):
        if len(values):
            low, high = float(values.min()), float(values.max())
            reach = (high - low) / 2
            domains[axis] = (low - reach, high + reach)
    return {name: (low, high) for name, (low, high) in domains.items() if low < high}


def _first_points(found: Iterable[tuple[str, list[Path]]]) -> Any:
    """Positions of the first time with parcels; none if a file of it is damaged or incomplete."""
    import numpy as np

    # The report of its time names the file.
    with suppress(ValueError, OSError):
        for _, folders in found:
            files = [(folder, file) for folder in folders if (file := _positions(folder))]
            parts = [part for folder, file in files for part in _points(folder, file)]
            if any(len(part) for part in parts):
                return np.concatenate(parts)
    return np.empty((0, 3))


def _points(cloud: Path, file: Path) -> list[Any]:
    """Positions in metres, by rank."""
    parts = [_parcels(file, block) for block in _blocks(file)]
    return [_cartesian(cloud, rank, part) for rank, part in enumerate(parts)]


def _read(cloud: Path, named: bool) -> pa.Table | None:
    """All parcels of a cloud on one rank, or on all ranks of a collated case."""
    import numpy as np
    import pyarrow as pa

    file = _positions(cloud)
    if file is None:
        return None
    positions = np.concatenate(_points(cloud, file))
    columns: dict[str, Any] = {axis: positions[:, i] for i, axis in enumerate(AXES)}
    count = len(positions)
    for name, file in _fields(cloud):
        parts = [_values(file, block) for block in _blocks(file)]
        if any(part is None for part in parts):
            continue
        values = np.concatenate([part for part in parts if part is not None])
        if len(values) != count:
            raise ValueError(f"{file}: {len(values)} values of {count} parcels")
        for i, column in enumerate(_component_names(name, values.shape[1])):
            columns[column] = values[:, i]
    if named:
        columns["cloud"] = pa.array([cloud.name] * count)
    return arrow_table(columns)


def _blocks(file: Path) -> list[Block]:
    raw = _bytes(file)
    entries = _entries(file, raw)
    body = entries.pop("end")
    if entries.get("class") != "decomposedBlockData":
        return [_block(file, entries, raw, body)]
    # Collated: a list with the bytes of each rank's file; the first has the common header.
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
    """Returns the number of values, their position, and whether all are equal."""
    found = LENGTH.match(block.raw, block.offset)
    if found is None:
        if re.compile(rb"\s*0\s*$|\s*0\s").match(block.raw, block.offset):
            return 0, block.offset, False
        raise ValueError(f"{file}: byte {block.offset}: a list with its length should begin here")
    return int(found[1]), found.end(), found[2] == b"{"


def _parcels(file: Path, block: Block) -> Any:
    """Returns the 4 or 7 numbers per parcel: ``(x y z) cell``, ``(a b c d) cell face point``."""
    import numpy as np

    count, begin, _ = _list(file, block)
    if not count:
        return np.empty((0, 4))
    if not block.binary:
        numbers = _numbers(file, block, begin, np.dtype(float))
        if len(numbers) not in (4 * count, 7 * count):
            raise ValueError(
                f"{file}: byte {begin}: {len(numbers)} numbers of {count} parcels, "
                "which have 4 or 7 each"
            )
        return numbers.reshape(count, -1)
    # Each parcel is in brackets, with a line end after all but the last.
    begin += block.raw[begin : begin + 1] == b"\n"
    for coordinates, places in ((3, 1), (4, 3)):
        record = np.dtype(
            [
                ("open", "S1"),
                ("at", block.scalar, coordinates),
                ("in", block.label, (places,)),
                ("close", "S2"),
            ]
        )
        if begin + count * record.itemsize - 1 > len(block.raw):
            continue
        raw = block.raw.ljust(begin + count * record.itemsize)
        parcels = np.frombuffer(raw, record, count, begin)
        closed = np.char.startswith(parcels["close"], b")").all()
        if closed and (parcels["open"] == b"(").all():
            return np.concatenate([parcels["at"], parcels["in"]], axis=1)
    raise ValueError(
        f"{file}: byte {begin}: {count} parcels in brackets were announced; "
        "the file ends before, or has something else"
    )


def _cartesian(cloud: Path, rank: int, parcels: Any) -> Any:
    """Positions of parcels in metres, of shape (parcels, 3).

    Args:
        cloud: The cloud's folder, in the folder of its time.
        rank: The rank of a collated case.
        parcels: From `_parcels`.

    Raises:
        ValueError: The mesh or a parcel's cell is missing.
    """
    import numpy as np

    if parcels.shape[1] == 4:
        return parcels[:, :3]
    time = cloud.parent.parent
    places = parcels[:, 4:].astype(np.int64)
    try:
        mesh = _mesh(find_mesh(time.parent, time, _find), rank)
        return mesh.positions(parcels[:, :4], places[:, 0], places[:, 1], places[:, 2])
    except ValueError as error:
        raise ValueError(f"{cloud}: {error}") from None


def _mesh(files: dict[str, Path], rank: int) -> Mesh:
    import numpy as np

    def block(name: str) -> Block:
        blocks = _blocks(files[name])
        return blocks[min(rank, len(blocks) - 1)]

    def labels(name: str) -> Any:
        return _of_width(files[name], block(name), 1, label=True)[:, 0].astype(np.int64)

    points = _of_width(files["points"], block("points"), 3)
    faces = block("faces")
    if faces.binary:
        # A compact list: the start of each face, then the corners of all faces.
        count, begin, _ = _list(files["faces"], faces)
        end = begin + count * np.dtype(faces.label).itemsize
        starts = np.frombuffer(faces.raw, faces.label, count, begin).astype(np.int64)
        faces.offset = end + 1
        corners = _of_width(files["faces"], faces, 1, label=True)[:, 0].astype(np.int64)
    else:
        _, begin, _ = _list(files["faces"], faces)
        starts, corners = ascii_faces(faces.raw[begin:])
    return Mesh(points, starts, corners, labels("owner"), labels("neighbour"))


def _is_label(block: Block) -> bool:
    return block.kind.startswith("label")


def _width(block: Block) -> int | None:
    return COMPONENTS.get(re.sub("(CompactIO)?Field$", "", block.kind))


def _values(file: Path, block: Block) -> Any:
    """The values of a field, of shape (parcels, components); None if they are not numbers."""
    width = _width(block)
    return None if width is None else _of_width(file, block, width, _is_label(block))


def _of_width(file: Path, block: Block, width: int, label: bool = False) -> Any:
    """A list of numbers, or of tuples of numbers, of shape (length, width)."""
    import numpy as np

    kind = block.label if label else block.scalar
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
    numbers = _numbers(file, block, begin, np.dtype(kind))
    if len(numbers) != stored * width:
        raise ValueError(
            f"{file}: byte {begin}: {len(numbers)} numbers instead of {stored * width}"
        )
    values = numbers.reshape(-1, width)
    return np.repeat(values, count, axis=0) if uniform else values


def _numbers(file: Path, block: Block, begin: int, kind: np.dtype[Any]) -> Any:
    """The numbers of a text.

    Raises:
        ValueError: A word is not a number of the type.
    """
    import numpy as np

    end = block.raw.rfind(b"}" if block.raw[begin - 1 : begin] == b"{" else b")")
    text = block.raw[begin : max(end, begin)]
    words = text.replace(b"(", b" ").replace(b")", b" ").split()
    where = f"{file}: byte {begin}: "
    if kind.kind == "f":
        try:
            values = np.array(words, dtype=float)
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None
        with np.errstate(over="ignore"):
            values = values.astype(kind)
        check_range(where, "the value", values, words.__getitem__)
        return values
    limits = np.iinfo(kind)
    try:
        labels = np.array(words).astype(np.int64)
        if ((labels >= limits.min) & (labels <= limits.max)).all():
            return labels.astype(kind)
    except (ValueError, OverflowError):
        pass
    for row, word in enumerate(words):
        if not WHOLE.fullmatch(word) or not limits.min <= int(word) <= limits.max:
            said = word.decode("utf-8", "replace")
            raise ValueError(f"{where}row {row}: {said} is no label of {limits.bits} bits")
    return np.array([int(word) for word in words], dtype=kind)


def matches(path: Path, head: bytes) -> bool:
    return path.is_dir() and (
        (path / "system" / "controlDict").is_file()
        or any(path.glob("*/lagrangian"))
        or any(path.glob("processor*/*/lagrangian"))
    )
