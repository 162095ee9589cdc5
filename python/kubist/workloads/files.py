"""Files of workloads: TOML, and records of queries."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from .._errors import InvalidInput
from .recorded import recorded
from .spec import Workload, parse


def load(path: str | os.PathLike[str]) -> Workload:
    """Reads a workload from a TOML file, or from a record of queries (``.jsonl``).

    Raises
    ------
    InvalidInput
        The file cannot be read, or has an unknown name or a wrong value; the message names the
        query or the line.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        return recorded(path)
    try:
        text = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: this is no TOML: {error}") from None
    try:
        return parse(text, path.stem)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
