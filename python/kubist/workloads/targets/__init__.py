"""Systems that run the requests of a workload: Kubist tables and servers, and others."""

from __future__ import annotations

from pathlib import Path

from ... import _create
from ..._errors import InvalidInput
from ..._remote import connect
from .answers import Answered, Target
from .cql import Cassandra
from .duck import DuckDB
from .kubist import Kubist
from .lance import Lance
from .postgis import PostGIS

__all__ = ["SYSTEMS", "Answered", "Kubist", "Target", "opened"]

SYSTEMS = {"duckdb": DuckDB, "postgis": PostGIS, "cql": Cassandra, "lance": Lance}
"""Other systems, by the name before the Parquet file whose rows they load."""


def opened(location: str) -> Target:
    """The system at a location.

    Parameters
    ----------
    location
        A table; the address of a server (``http://``); a Parquet file, which DuckDB reads; or
        ``SYSTEM:FILE.parquet``, rows that one of `SYSTEMS` loads first and deletes at the end.
    """
    if location.startswith(("http://", "https://")):
        return Kubist(location, connect(location))
    system, colon, file = location.partition(":")
    if colon and not file.startswith("//") and file.endswith(".parquet"):
        if system not in SYSTEMS:
            raise InvalidInput(
                f"{location}: unknown system {system!r}; known are {', '.join(SYSTEMS)}"
            )
        return SYSTEMS[system](location, _existing(file))
    if Path(location).suffix == ".parquet":
        return DuckDB(location, _existing(location), in_memory=False)
    return Kubist(location, _create.open(location))


def _existing(file: str) -> Path:
    path = Path(file)
    if not path.exists():
        raise InvalidInput(f"{path}: there is no such file")
    return path
