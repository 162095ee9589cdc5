"""Builds, plays and compares several designs of the same data, from a TOML file."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._directory import location_of
from .._errors import InvalidInput
from .._options import checked_options
from .._progress import Callback, Display
from .._unopened import drop
from ..ingesting import ingest
from .files import load
from .keeping import finish
from .playing import SAMPLE, Played, play
from .spec import Workload
from .targets import opened

OPTIONS = ("dimensions", "identity", "create")


@checked_options()
def compare(
    designs: str | os.PathLike[str] | Mapping[str, Mapping[str, Any]],
    data: str | os.PathLike[str],
    workload: str | os.PathLike[str] | Workload,
    *,
    at: str | os.PathLike[str],
    keep_tables: bool = False,
    seed: int = 0,
    keep: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> list[Played]:
    """Builds a table for each design, plays a workload on it, and returns the measurements.

    Parameters
    ----------
    designs
        A TOML file, or its contents: ``{"by time": {"dimensions": ["time"]}, ...}``. A design has
        ``dimensions``, ``identity`` and ``create``, as for `kubist.ingest` (docs/workloads.md).
    data
        Files, a folder or a pattern, as for `kubist.ingest`.
    workload
        A TOML file, a record of queries, or a `Workload`.
    at
        The location of the tables: a folder, ``s3://bucket/prefix`` or
        ``cassandra://hosts/keyspace``. Each gets the name of its design.
    keep_tables
        Keep the tables, which are otherwise deleted after their runs.
    seed
        The seed of the requests, which are the same for all designs.
    keep, report
        As for `kubist.workloads.run`.
    progress
        Called repeatedly with a line of text; None: shown on a terminal.

    Returns
    -------
    list of Played
        In the order of the designs; ``built`` is the time of the ingestion in seconds.

    Raises
    ------
    InvalidInput
        A design has an error, or does not fit the data; a table exists at its location.
    """
    known = parsed(designs)
    of = workload if isinstance(workload, Workload) else load(workload)
    shown = Display() if progress is None else Callback(progress)
    base = location_of(at).rstrip("/")
    played, rows = [], None
    try:
        for name, design in known.items():
            location = f"{base}/{_plain(name)}"
            shown(f"building {name}")
            begin = time.perf_counter()
            try:
                ingest(location, data, progress=lambda _: None, **design)
            except InvalidInput as error:
                raise InvalidInput(f"the design {name!r}: {error}") from None
            built = time.perf_counter() - begin
            try:
                target = opened(location)
                try:
                    rows = target.sample(SAMPLE) if rows is None else rows
                    run = play(of, target, seed=seed, tell=shown, rows=rows)
                    played.append(replace(run, target=name, built=built))
                finally:
                    target.close()
            finally:
                if not keep_tables:
                    drop(location, force=True)
    finally:
        shown.close()
    finish(played, keep, report)
    return played


def parsed(
    designs: str | os.PathLike[str] | Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The designs' options for `kubist.ingest`."""
    named, of = "", designs
    if isinstance(of, (str, os.PathLike)):
        path = Path(of)
        named = f"{path}: "
        try:
            of = tomllib.loads(path.read_text()).get("designs", {})
        except FileNotFoundError:
            raise InvalidInput(f"{path}: there is no such file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: this is no TOML: {error}") from None
    if not of:
        raise InvalidInput(f"{named}there are no designs; one begins with a line [designs.NAME]")
    found: dict[str, dict[str, Any]] = {}
    for name, options in of.items():
        for option in options:
            if option not in OPTIONS:
                raise InvalidInput(
                    f"{named}the design {name!r}: unknown name {option!r}; known are "
                    f"{', '.join(OPTIONS)}"
                )
        if not options.get("dimensions"):
            raise InvalidInput(f"{named}the design {name!r} has no dimensions")
        found[name] = dict(options) | {"dimensions": _domains(options["dimensions"])}
    return found


def _domains(dimensions: Mapping[str, Any] | Sequence[str]) -> Any:
    """Dimensions in the form of `kubist.ingest`; TOML has lists, and no null."""
    if not isinstance(dimensions, Mapping):
        return list(dimensions)
    return {
        name: tuple(domain) if isinstance(domain, list) else domain or None
        for name, domain in dimensions.items()
    }


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
