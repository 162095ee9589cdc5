"""Headers of files in the metadata of a table.

The table has the header of its first file under the name of the format. Of each other file it has
what differs from that, under `FORMAT of PATH`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .source import Source

MOST_BYTES = 1 << 20
"""Of all metadata. Each reader of a table reads them."""
OF_TABLE = ("topology", "trajectory", "left_out")
"""Metadata that all files of a table share."""


def as_json(value: Any) -> Any:
    """A value as JSON has it; other values as their text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def changes(metadata: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """The metadata that a table gets with a file; None removes a key.

    A format that joins headers itself has no changes here.
    """
    if source.joins is not None:
        return {}
    changed: dict[str, Any] = {}
    for name, header in source.metadata.items():
        if name in OF_TABLE:
            continue
        header, own = as_json(header), f"{name} of {source.path}"
        if name not in metadata:
            changed[name] = header
        elif different := _different(header, metadata[name]):
            changed[own] = different
        elif own in metadata:
            changed[own] = None
    return {key: value for key, value in changed.items() if metadata.get(key) != value}


def _different(header: Any, first: Any) -> dict[str, Any]:
    """The entries that differ from those of the first file; None for an entry that is missing."""
    if not isinstance(header, Mapping) or not isinstance(first, Mapping):
        return {} if header == first else {"value": header}
    found: dict[str, Any] = {}
    for key in (*header, *(key for key in first if key not in header)):
        one, other = header.get(key), first.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            if deeper := _different(one, other):
                found[key] = deeper
        elif one != other:
            found[key] = one
    return found


def fits(metadata: Mapping[str, Any], changed: Mapping[str, Any]) -> bool:
    """Whether the metadata of a table stay small."""
    return len(json.dumps({**metadata, **changed}, default=str)) <= MOST_BYTES
