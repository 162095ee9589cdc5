"""Libraries that may be there or not: what is asked of them names them."""

from __future__ import annotations

import sys
from typing import Any


def is_a(value: Any, module: str, name: str) -> bool:
    """An instance of a class of a library that may not even be there."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def need(module: str, what: str, extra: str | None = None) -> Any:
    """The optional library that ``what`` is made with, or a part of the package that has it."""
    try:
        return __import__(module)
    except ImportError as error:
        wanted = module if extra is None else f"'kubist[{extra}]'"
        raise ImportError(f"{what} needs {module}: pip install {wanted}") from error
