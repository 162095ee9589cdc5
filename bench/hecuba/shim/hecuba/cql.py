"""The statements of CQL with which Hecuba's tests inspect a dictionary."""

from __future__ import annotations

import re
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

from kubist.hecuba import StorageDict, config
from kubist.hecuba._identity import lookup


class Session:
    def execute(
        self, statement: str, parameters: Any = (), timeout: float = 0
    ) -> list[Any]:
        words = " ".join(statement.split())
        if words.startswith("CREATE"):
            # Dictionaries create their tables.
            return []
        if found := re.fullmatch(r"DROP KEYSPACE IF EXISTS (\w+);?", words):
            shutil.rmtree(Path(config.location) / found[1], ignore_errors=True)
            return []
        if found := re.fullmatch(r"DROP TABLE (IF EXISTS )?([\w.]+);?", words):
            return self._drop(found[2].lower(), bool(found[1]))
        if "FROM hecuba.istorage" in words:
            name, kind = lookup(parameters[0]) or (None, None)
            made = namedtuple("row", "storage_id class_name name")
            return [made(parameters[0], kind, name)]
        if found := re.fullmatch(r"SELECT count\(\*\) FROM ([\w.]+)", words):
            return [(len(StorageDict(found[1])),)]
        if found := re.fullmatch(
            r"SELECT (\*|\w+) FROM ([\w.]+)( WHERE (\w+) = (\d+))?", words
        ):
            return self._select(found[1], found[2], found[5])
        raise NotImplementedError(statement)

    @staticmethod
    def _drop(name: str, may_miss: bool) -> list[Any]:
        if may_miss and not (Path(config.location) / name.replace(".", "/")).exists():
            return []
        StorageDict(name).delete_persistent()
        return []

    @staticmethod
    def _select(column: str, name: str, key: str | None) -> list[Any]:
        dictionary = StorageDict(name)
        if key is None:
            return list(dictionary.items())
        return [namedtuple("row", column)(dictionary[int(key)])]
