"""Results that can be recomputed: the file of `Result.save` and `Estimate.save`.

It is JSON with the table and its snapshot, the query, the version, and the result: the values of an
estimate, or a digest of a query's rows in any order. docs/recompute.md describes each field.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _kubist
from ._errors import InvalidInput, Refused
from ._libraries import need
from ._pinned import Pinned

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1

Source = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    source: Callable[[], Source]
    call: str
    question: Mapping[str, Any]


def origin(pinned: Pinned, call: str, question: Mapping[str, Any]) -> Origin:
    # Many runs have several snapshots.
    own: Callable[[], Source] | None = getattr(pinned, "source", None)
    return Origin(own or (lambda: source(pinned)), call, question)


def source(pinned: Pinned) -> Source:
    location = json.loads(pinned.about())["location"]
    return {"location": _kubist.without_password(location), "snapshot": pinned.token()}


def write(path: str | os.PathLike[str], origin: Origin | None, answer: Mapping[str, Any]) -> Path:
    if origin is None:
        raise Refused("save: only results of a table, of a snapshot and of many runs can be saved")
    to = Path(path)
    if to.is_dir():
        raise InvalidInput(f"{to} is a directory, perhaps a table: save under another name")
    saved = {
        "kubist": "answer",
        "format": FORMAT,
        "version": _kubist.VERSION,
        "saved": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "source": origin.source(),
        "call": origin.call,
        "question": origin.question,
        "answer": answer,
    }
    part = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(saved, indent=1, default=str) + "\n", encoding="utf-8")
        os.replace(part, to)
    finally:
        part.unlink(missing_ok=True)
    return to


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The contents of a file.

    Raises
    ------
    FileNotFoundError
        The file does not exist.
    InvalidInput
        It is not a saved result, or a newer version wrote it.
    """
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no saved answer at {Path(path).absolute()}") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a directory, not a saved answer") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"{path} is not a saved answer") from None
    fields = {"format": int, "version": str, "saved": str, "source": dict, "call": str}
    fields |= {"question": dict, "answer": dict}
    if not isinstance(saved, dict) or saved.get("kubist") != "answer":
        raise InvalidInput(f"{path} is not a saved answer")
    if isinstance(saved.get("format"), int) and saved["format"] > FORMAT:
        raise InvalidInput(f"{path}: a newer version of Kubist wrote it ({saved.get('version')!r})")
    for name, kind in fields.items():
        if not isinstance(saved.get(name), kind):
            raise InvalidInput(f"{path}: the field {name} is missing or damaged")
    return saved


def rows_answer(batches: Iterable[pa.RecordBatch], fraction: float) -> dict[str, Any]:
    numpy = need("numpy", "save()")
    rows, total, columns = 0, 0, None
    for batch in batches:
        columns = columns or [[field.name, str(field.type)] for field in batch.schema]
        rows += batch.num_rows
        hashes = numpy.zeros(batch.num_rows, numpy.uint64)
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            salt = _of_bytes(numpy, name.encode())
            hashes += _mixed(numpy, _hashes(numpy, values) ^ salt)
        # A sum, because rows come in any order.
        total += int(_mixed(numpy, hashes).sum(dtype=numpy.uint64))
    digest = f"{total % 2**64:016x}"
    return {"rows": rows, "fraction": fraction, "columns": columns or [], "digest": digest}


def _hashes(numpy: Any, values: pa.Array) -> Any:
    """64-bit hashes: the value's own bits, or a hash of its text."""
    pa = need("pyarrow", "save()")
    kinds, kind = pa.types, values.type
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind):
        wide = pa.float64() if kinds.is_floating(kind) else None
        plain = values.fill_null(False if kinds.is_boolean(kind) else 0)
        plain = plain if wide is None else plain.cast(wide)
        numbers = plain.to_numpy(zero_copy_only=False)
        bits = numbers.view(numpy.uint64) if wide is not None else numbers.astype(numpy.uint64)
    else:
        encoded = values if kinds.is_dictionary(kind) else values.dictionary_encode()
        texts = [repr(value).encode() for value in encoded.dictionary.to_pylist()]
        words = numpy.array([_of_bytes(numpy, text) for text in texts], numpy.uint64)
        codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        bits = words[codes] if len(words) else numpy.zeros(len(values), numpy.uint64)
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        bits = numpy.where(nulls, numpy.uint64(0x9E3779B97F4A7C15), bits)
    return bits


def _of_bytes(numpy: Any, data: bytes) -> Any:
    return numpy.uint64(int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little"))


def _mixed(numpy: Any, values: Any) -> Any:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    values = (values ^ (values >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return values ^ (values >> numpy.uint64(31))
