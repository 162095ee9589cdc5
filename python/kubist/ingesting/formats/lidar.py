"""LAS, LAZ and COPC: points of laser scanners, with laspy; `laz` decompresses LAZ."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import NOT_OF_FILES, ROWS_AT_ONCE, Options, Source, State, Step, unit
from . import las_columns, laz, reprojection

if TYPE_CHECKING:
    import pyarrow as pa

# The name of a coordinate system in WKT.
NAME = re.compile(r'^\w+\["([^"]+)"')
# The last point format of LAS 1.4.
MOST_POINT_FORMAT = 10
MOST_RECORD_BYTES, MOST_RECORDS_BYTES = 16 << 10, 64 << 10
"""The maximum bytes in the metadata, for a single record and for all records."""


def look(path: Path, options: Options) -> Source:
    import laspy
    import pyarrow as pa

    _check_counts(path)
    try:
        reader = laspy.open(path)
    except NOT_OF_FILES:
        raise
    except BaseException as error:
        # The message of laspy may be only a number.
        raise InvalidInput(f"{path}: {_of_header(path)}") from error
    with reader:
        header = reader.header
        empty = laspy.ScaleAwarePointRecord.zeros(0, header=header)
        schema = las_columns.columns(empty, {}).schema
        scales, offsets = header.scales.tolist(), header.offsets.tolist()
        if not all(math.isfinite(scale) and scale > 0 for scale in scales):
            raise InvalidInput(f"{path}: its header has the scales {scales}: they must be above 0")
        if not all(math.isfinite(offset) for offset in offsets):
            raise InvalidInput(f"{path}: its header has the offsets {offsets}: they must be finite")
        if header.are_points_compressed:
            laz.need(path)
        rows = header.point_count
        low, high = header.mins.tolist(), header.maxs.tolist()
        about = {
            "version": str(header.version),
            "point_format": header.point_format.id,
            "scales": scales,
            "offsets": offsets,
            "file_source_id": header.file_source_id,
            "system_identifier": _text(header.system_identifier),
            "generating_software": _text(header.generating_software),
            "synthetic_return_numbers": bool(header.global_encoding.synthetic_return_numbers),
        }
        if header.uuid.int:
            about["project_id"] = str(header.uuid)
        if header.creation_date is not None:
            about["creation_date"] = header.creation_date.isoformat()
        if extra := las_columns.extra_bytes(header):
            about["extra"] = extra
        if "gps_time" in header.point_format.dimension_names:
            about["gps_time_type"] = header.global_encoding.gps_time_type.name.lower()
        try:
            crs = header.parse_crs()
        except Exception:
            # pyproj is missing, or cannot parse the record.
            crs = None
        if crs is not None:
            about["crs"] = crs.to_wkt()
        if records := crs_records(header):
            about["crs_records"] = records
        moved = None if options.crs is None else reprojection.into(path, about, options.crs, low, high)
        no_data = las_columns.marks(header)
        others, left_out = _records(header)
        if more := _more_points(path, header):
            left_out["points"] = f"the header counts {rows:,}, {more}"
        if others:
            about["records"] = others
    schema = pa.schema([unit(f, las_columns.UNITS.get(f.name)) for f in schema])

    def read(state: State) -> Iterator[pa.Table]:
        found = 0
        parts = _points(path)
        while True:
            try:
                points = next(parts, None)
            except (InvalidInput, *NOT_OF_FILES):
                raise
            except BaseException as error:
                raise InvalidInput(
                    f"{path}: no points can be read after the first {found:,} of {rows:,}: "
                    "it is damaged or cut off"
                ) from error
            if points is None:
                break
            found += len(points)
            made = las_columns.columns(points, no_data)
            if moved is not None:
                made = moved.table(made, found - len(points))
            absent = [f for f in state.schema or () if f.name not in made.column_names]
            for field in absent:
                # Other point formats have this field.
                made = made.append_column(field, pa.nulls(len(made), field.type))
            yield made
        if found != rows:
            raise ValueError(f"{path}: its header says {rows} points, there are {found}")

    notes = []
    if moved is not None:
        low, high, notes = moved.low, moved.high, moved.notes
    domains = {name: (low[i], high[i]) for i, name in enumerate("xyz") if low[i] < high[i]}
    return Source(
        path=path,
        format="las",
        schema=schema,
        steps=lambda _: [Step("points", read, part=path.name)],
        dimensions=("x", "y", "z"),
        domains=domains,
        metadata={"las": about},
        rows=rows,
        notes=notes,
        left_out=left_out,
        joins=lambda metadata: _joined(path, about, metadata.get("las")),
    )


def _joined(path: Path, about: dict[str, Any], here: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the table's LAS metadata after this file is added.

    Raises:
        InvalidInput: Numbers have different meanings in the file and the table.
    """
    if here is None:
        return {"las": about}
    own, theirs = about.get("gps_time_type"), here.get("gps_time_type")
    if None not in (own, theirs) and own != theirs:
        raise InvalidInput(
            f"{path}: its GPS times are of the type {own}, those of the table {theirs}: give it a "
            "table of its own"
        )
    if not _is_same_system(about, here):
        raise InvalidInput(
            f"{path}: its coordinate system is {_system(about)}, that of the table {_system(here)}: "
            "give it a table of its own, or transform it (read option crs)"
        )
    joined = dict(here)
    if about["file_source_id"] != here.get("file_source_id"):
        # Each point stores its source id, as LAS defines for files with several sources.
        joined["file_source_id"] = 0
    if about["system_identifier"] != here.get("system_identifier"):
        # The name that the standard defines for merged files.
        joined["system_identifier"] = "MERGE"
    if about.get("project_id") != here.get("project_id"):
        joined.pop("project_id", None)
    if about["synthetic_return_numbers"]:
        joined["synthetic_return_numbers"] = True
    extra, theirs = about.get("extra", {}), here.get("extra", {})
    if merged := {n: said for n, said in {**extra, **theirs}.items() if extra.get(n, said) == said}:
        joined["extra"] = merged
    if records := _merged(here.get("records", []), about.get("records", [])):
        joined["records"] = records
    # The finer scale represents the positions of both files.
    joined["scales"] = [min(pair) for pair in zip(about["scales"], here["scales"], strict=True)]
    return {"las": joined} if joined != here else {}


def _merged(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*one, *(record for record in other if record not in one)]


def _is_same_system(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one.get("crs_records") == other.get("crs_records"):
        return True
    if "crs" not in one or "crs" not in other:
        return False
    # WKT and GeoTIFF keys may define the same system.
    from pyproj import CRS

    a, b = CRS(one["crs"]), CRS(other["crs"])
    # pyproj treats all local systems as equal, because they have no parameters.
    return bool(a == b and (a.name == b.name or not a.is_engineering))


def _system(about: dict[str, Any]) -> str:
    texts = [about.get("crs", "")]
    for record in about.get("crs_records", []):
        texts.append(base64.b64decode(record["bytes"]).decode("utf-8", "replace"))
    for text in texts:
        if (found := NAME.search(text)) is not None:
            return found[1]
    # GeoTIFF texts end with a bar.
    keys = [text.split("|")[0].strip("\0 ") for text in texts if "|" in text]
    named = next((key for key in keys if key.isprintable() and key), None)
    return named or ("one without a name" if about.get("crs_records") else "not said")


def _points(path: Path) -> Iterator[Any]:
    import laspy

    with laspy.open(path) as reader:
        header = reader.header
        if not header.are_points_compressed:
            yield from reader.chunk_iterator(ROWS_AT_ONCE)
            return
        for part in laz.unpacked(path, header):
            packed = laspy.PackedPointRecord.from_buffer(part, header.point_format)
            yield laspy.ScaleAwarePointRecord(
                packed.array, packed.point_format, header.scales, header.offsets
            )


# The user ids and numbers of the records with the coordinate system: WKT and GeoTIFF keys.
CRS_USER, CRS_RECORDS = "LASF_Projection", (2111, 2112, 34735, 34736, 34737)


def crs_records(header: Any) -> list[dict[str, Any]]:
    return [
        {"record_id": vlr.record_id, "bytes": base64.b64encode(vlr.record_data_bytes()).decode()}
        for vlr in [*header.vlrs, *(header.evlrs or [])]
        if vlr.user_id == CRS_USER and vlr.record_id in CRS_RECORDS
    ]


# Records that describe the storage of points.
LAYOUT = {("LASF_Spec", 4), ("laszip encoded", 22204), ("copc", 1), ("copc", 1000)}


def _records(header: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Returns the other records unchanged, and the names of records that are too large."""
    kept: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    total = 0
    for vlr in [*header.vlrs, *(header.evlrs or [])]:
        user, number = _text(vlr.user_id), int(vlr.record_id)
        if (user, number) in LAYOUT or (user == CRS_USER and number in CRS_RECORDS):
            continue
        data = vlr.record_data_bytes()
        total += len(data)
        if len(data) > MOST_RECORD_BYTES or total > MOST_RECORDS_BYTES:
            name = f"record {user} {number} ({_text(vlr.description)})"
            left_out[name] = f"its {len(data):,} bytes are too many for metadata"
            continue
        record = {"user_id": user, "record_id": number, "bytes": base64.b64encode(data).decode()}
        if description := _text(vlr.description):
            record["description"] = description
        kept.append(record)
    return kept, left_out


def _text(said: str | bytes) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return text.rstrip("\0")


def _more_points(path: Path, header: Any) -> str | None:
    """A note if a file has more points than its header counts, or None."""
    width, counted = header.point_format.size, header.point_count
    begin, end = header.offset_to_point_data, path.stat().st_size
    if header.are_points_compressed:
        there = laz.points(path, header)
    else:
        behind = getattr(header, "start_of_first_evlr", 0) or 0
        waves = getattr(header, "start_of_waveform_data_packet_record", 0) or 0
        end = min([end, *(at for at in (behind, waves) if at > begin)])
        there = (end - begin) // width
    if there is not None and there > counted:
        return f"and the file has {there:,}"
    of_returns = int(sum(header.number_of_points_by_return))
    if of_returns > counted:
        return f"and by return {of_returns:,}"
    return None


def _of_header(path: Path) -> str:
    with path.open("rb") as opened:
        head = opened.read(105)
    # Two bits of the format's number mark compressed points.
    kind = head[104] & 0x3F if len(head) > 104 else 0
    if kind > MOST_POINT_FORMAT:
        return f"points of format {kind}, and known are 0 to {MOST_POINT_FORMAT}"
    return "its header cannot be read: it is damaged or cut off, or no LAS file"


def _check_counts(path: Path) -> None:
    """Raises InvalidInput if the header has more records than fit into the file, because laspy
    would search for each record.
    """
    size = path.stat().st_size
    with path.open("rb") as opened:
        head = opened.read(247)
    # The position of the count, and the smallest record. LAS 1.4 adds extended records.
    for name, at, least in (("variable", 100, 54), ("extended variable", 243, 60)):
        field = head[at : at + 4]
        if at > 100 and head[24:26] < b"\x01\x04":
            continue
        count = int.from_bytes(field, "little")
        if count * least > size:
            raise InvalidInput(
                f"{path}: byte {at}: the header says {count:,} {name} length records, which do not "
                f"fit into {size:,} bytes"
            )
