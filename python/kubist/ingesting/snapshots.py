"""Files that belong together: missing files of a snapshot, and trajectories that overlap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from .source import Source


def report_missing(sources: Sequence[Source], has: Callable[[Path, str], bool]) -> None:
    """Lists the missing files of snapshots as left out, with the snapshot's first file.

    Args:
        has: Returns whether the table has a step of a file.
    """
    snapshots: dict[Hashable, list[Source]] = {}
    for source in sources:
        if (part := source.part_of) is not None:
            named = (source.path.parent, part.names) if part.names else (tuple(source.times),)
            snapshots.setdefault((source.format, part.files, *named), []).append(source)
    for files in snapshots.values():
        _report(files, has)


def _report(sources: Sequence[Source], has: Callable[[Path, str], bool]) -> None:
    first = sources[0]
    part = first.part_of
    assert part is not None
    given = {source.path.name for source in sources}
    known = 0
    for name in part.names:
        path = first.path.with_name(name)
        if name in given:
            continue
        if path.is_file() and has(path, part.label):
            known += 1
            continue
        where = "it is not given" if path.exists() else "it is not beside the others"
        first.left_out[f"file {name}"] = f"the snapshot has {part.files} files, and {where}"
    if not part.names and len(given) < part.files:
        first.left_out["files of the snapshot"] = f"it has {part.files}, {len(given)} are given"
    if known or len(given) < part.files or not part.total:
        return
    rows = sum(source.part_of.rows for source in sources if source.part_of is not None)
    if rows != part.total:
        first.left_out["particles of the snapshot"] = (
            f"the header counts {part.total:,}, and those of all files count {rows:,}"
        )


def report_overlaps(sources: Sequence[Source], end: float | None) -> None:
    """Notes for trajectories that begin before the frames of the table, or of other files, end.

    A continued run often has its last frames twice, and all are stored.

    Args:
        sources: Trajectories that the table does not have.
        end: The last time of the table.
    """
    for source in sorted(sources, key=lambda source: source.times[0]):
        first, last = source.times[0], source.times[-1]
        if end is not None and first <= end:
            source.notes = [
                *source.notes,
                f"{source.path.name}: its frames begin at {first:g} ps, and frames up to {end:g} ps "
                "are in the table or in other files: all are stored",
            ]
        end = last if end is None else max(end, last)
