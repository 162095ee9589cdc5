"""Expands the paths, folders and patterns of a user to files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import _kubist
from . import formats


def expanded(paths: Sequence[str]) -> Iterator[Path]:
    """Returns files, and folders that are read as a whole, also from inside other folders, in
    natural order.
    """
    return map(Path, _kubist.expanded(list(paths), _is_whole))


def _is_whole(folder: Path) -> bool:
    return formats.of(Path(folder), None, False) is not None


def missing(path: Path) -> FileNotFoundError:
    """The error for a missing file, which names a similar file in its folder."""
    folder = path.parent
    beside = [found.name for found in folder.iterdir()] if folder.is_dir() else []
    alike = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    meant = f"; did you mean {folder / alike[0]}?" if alike else ""
    return FileNotFoundError(f"{path} does not exist{meant}")
