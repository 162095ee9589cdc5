"""Settings of dictionaries: where they are stored, and how they are written and split."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from .._errors import InvalidInput

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def _from_environment(name: str, otherwise: str) -> str:
    return os.environ.get(name) or otherwise


@dataclass
class Config:
    """Settings of this process: set the fields of `kubist.hecuba.config`."""

    location: str = field(
        default_factory=lambda: _from_environment("KUBIST_DICTIONARIES", "dictionaries")
    )
    """The directory, ``s3://bucket/prefix`` or ``cassandra://hosts/keyspace`` of all dictionaries;
    the environment variable ``KUBIST_DICTIONARIES``."""

    execution_name: str = field(
        default_factory=lambda: _from_environment("EXECUTION_NAME", "my_app")
    )
    """The first part of names without a dot; the environment variable ``EXECUTION_NAME``."""

    write_buffer_size: int = 10_000
    """The number of waiting keys at which a dictionary commits."""

    splits_per_node: int = 32
    """The number of parts that ``split()`` returns."""


config = Config()


def full_name(name: str) -> str:
    """Returns ``group.name`` in lower case; the default group is `Config.execution_name`."""
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, not {name!r}")
    group, dot, rest = name.partition(".")
    if not dot:
        group, rest = config.execution_name, name
    for part in (group, rest):
        if not _NAME.match(part):
            raise InvalidInput(f"{name!r}: {part!r} is not a name of letters, digits and _")
    return f"{group}.{rest}".lower()


def location_of(name: str) -> str:
    group, _, rest = name.partition(".")
    # Options of the storage follow after a question mark.
    home, mark, options = str(config.location).partition("?")
    between = "__" if home.startswith("cassandra:") else "/"
    return f"{home.rstrip('/')}/{group}{between}{rest}{mark}{options}"
