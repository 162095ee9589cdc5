"""The kind of a location: a sealed file, or a server of tables."""

from __future__ import annotations

import os
import urllib.parse

_MAGIC = b"KUBI-ONE"


def is_sealed(path: str | os.PathLike[str]) -> bool:
    """Returns whether a regular file at ``path`` is a sealed table."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def is_server(location: str) -> bool:
    """Returns whether `connect` opens the location.

    A server's address has an empty path or ends in a slash; a sealed file has a name.
    """
    parts = urllib.parse.urlsplit(location)
    if parts.scheme == "ssh":
        return True
    is_web = parts.scheme in ("http", "https")
    return is_web and (parts.path.endswith("/") or not parts.path or bool(parts.query))
