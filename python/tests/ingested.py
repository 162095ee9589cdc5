"""Files and expected tables for the tests of ingestion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

DATA = Path(__file__).parent / "data"
RNG = np.random.default_rng(11)


def need(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def rows(path: Path, *order: str, **asked: Any) -> dict[str, np.ndarray[Any, Any]]:
    found = kubist.open(path).query(**asked).to_arrow()
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(
            found.column_names,
            found.sort_by([(name, "ascending") for name in order]).columns,
            strict=True,
        )
    }


def assert_same(ours: np.ndarray[Any, Any], theirs: Any, what: str = "") -> None:
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype.newbyteorder("="), what
    np.testing.assert_array_equal(ours, theirs, what)
