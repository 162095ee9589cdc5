"""Expands the paths, folders and patterns of a user to files."""

from __future__ import annotations

import difflib
import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import formats


def expanded(paths: Sequence[str]) -> Iterator[Path]:
    """Returns files, and folders that are read as a whole. The contents of other folders come in
    natural order.
    """
    for text in paths:
        path = Path(text)
        if path.exists():
            matched = [path]
        elif glob.has_magic(text):
            matched = sorted((Path(p) for p in glob.glob(text)), key=_natural)
        else:
            raise missing(path)
        for found in matched:
            if found.is_dir() and formats.of(found, None, False) is None:
                inside = (p for p in found.iterdir() if not p.name.startswith("."))
                yield from sorted(inside, key=_natural)
            else:
                yield found


def missing(path: Path) -> FileNotFoundError:
    """The error for a missing file, with the name of a similar file in its folder."""
    folder = path.parent
    beside = [found.name for found in folder.iterdir()] if folder.is_dir() else []
    alike = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    meant = f"; did you mean {folder / alike[0]}?" if alike else ""
    return FileNotFoundError(f"{path} does not exist{meant}")


def _natural(path: Path) -> list[Any]:
    """A sort key by which step_9 comes before step_10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]
