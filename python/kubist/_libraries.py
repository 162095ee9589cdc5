"""Optional libraries."""

from __future__ import annotations

import sys
from typing import Any


def is_a(value: Any, module: str, name: str) -> bool:
    """Whether a value is an instance of a class, without importing its library."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def need(module: str, what: str, extra: str | None = None) -> Any:
    """Imports an optional library for ``what``; an error says how to install it."""
    try:
        return __import__(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            # The library is installed, but one of its dependencies is not.
            raise ImportError(f"{what} needs {module}, which cannot be loaded: {error}") from error
        wanted = module if extra is None else f"'kubist[{extra}]'"
        raise ImportError(
            f"{what} needs {module}, which {sys.executable} lacks: pip install {wanted}"
        ) from error
    except (ImportError, OSError, MemoryError) as error:
        # For example, a library that does not fit into memory.
        raise ImportError(f"{what} needs {module}, which cannot be loaded: {error}") from error
