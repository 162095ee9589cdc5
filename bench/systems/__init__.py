"""All systems by a short name; a module is imported only in the process that uses it."""

from __future__ import annotations

from importlib import import_module

from .base import System

_PLACES = {
    "kubist": "kubist:Kubist",
    "kubist_optimizing": "kubist:KubistOptimizing",
    "kubist_lookup": "kubist:KubistLookup",
    "duckdb_table": "duckdb_table:DuckTable",
    "duckdb_layers": "duckdb_table:DuckLayers",
    "duckdb_index": "duckdb_table:DuckIndex",
    "duckdb_parquet": "duckdb_parquet:DuckParquet",
    "lance": "lance:Lance",
    "lance_index": "lance:LanceIndex",
    "tiledb": "tiledb:TileDB",
    "chdb": "chdb:ChDB",
    "chdb_index": "chdb:ChDBIndex",
    "arrow_scan": "arrow_scan:ArrowScan",
    "copc": "copc:Copc",
    "postgis": "postgis:PostGIS",
    "postgis_unindexed": "postgis:PostGISUnindexed",
}

ALL = list(_PLACES)


def load(key: str) -> type[System]:
    """The class of a system; raises ImportError if its package is missing."""
    module, name = _PLACES[key].split(":")
    return getattr(import_module(f"{__package__}.{module}"), name)
