"""The union of several files: their columns, and types and domains that hold the values of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import InvalidInput
from .source import Source

if TYPE_CHECKING:
    import pyarrow as pa


def union(sources: Sequence[Source]) -> dict[str, pa.Field]:
    """The columns of all files, in the order of their appearance. A column that a file lacks may be
    null.

    Raises:
        InvalidInput: A column has types that no type contains.
    """
    fields: dict[str, pa.Field] = {}
    for source in sources:
        for field in source.schema:
            known = fields.get(field.name)
            fields[field.name] = field if known is None else _wider(known, field, source.path)
    lacking = {name for source in sources for name in fields if name not in source.schema.names}
    return fields | {name: fields[name].with_nullable(True) for name in lacking}


def types_of_all(sources: Sequence[Source]) -> dict[str, pa.DataType]:
    """For each column a type that holds the values of all files.

    A file whose type does not fit is ignored here, and refused when it is read.
    """
    fields: dict[str, pa.Field] = {}
    for source in sources:
        for field in source.schema:
            try:
                fields[field.name] = _wider(fields.get(field.name, field), field, source.path)
            except InvalidInput:
                continue
    return {name: field.type for name, field in fields.items()}


def _wider(one: pa.Field, other: pa.Field, path: Path) -> pa.Field:
    """A column that holds the values of both.

    Raises:
        InvalidInput: No type holds both.
    """
    import pyarrow as pa

    if one.type != other.type:
        plain = [pa.schema([f.remove_metadata()]) for f in (one, other)]
        try:
            both = pa.unify_schemas(plain, promote_options="permissive").field(0)
        except pa.ArrowException:
            raise InvalidInput(
                f"{path}: column {one.name!r} is {other.type}, and {one.type} in the files before: "
                "read option types sets a type for all"
            ) from None
        one = one.with_type(both.type)
    return one.with_nullable(one.nullable or other.nullable)


def domain(name: str, sources: Sequence[Source]) -> Any:
    """The domain that contains those of all files; that of the first file if one has none."""
    found = [source.domains.get(name) for source in sources]
    pairs = [domain for domain in found if isinstance(domain, tuple) and None not in domain]
    if len(pairs) < len(found):
        return found[0]
    return min(low for low, _ in pairs), max(high for _, high in pairs)
