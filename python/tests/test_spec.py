"""The typed dictionaries of a query agree with the description of the interface."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist
from kubist import _box, _spec
from kubist._asked import Asked

SERVER = Path(__file__).resolve().parents[2] / "crates/bindings/kubist-server"


def described() -> dict[str, Any]:
    schemas = json.loads((SERVER / "src" / "openapi.json").read_text())["components"]["schemas"]
    return {name: schema for name, schema in schemas.items() if name != "Problem"}


@pytest.mark.parametrize("name", [name for name, of in described().items() if "properties" in of])
def test_a_dictionary_has_the_fields_of_its_schema(name: str) -> None:
    schema, declared = described()[name], getattr(_spec, name)
    assert set(declared.__annotations__) <= set(schema["properties"])
    assert declared.__required_keys__ | declared.__optional_keys__ == set(schema["properties"])
    # Only type checkers see `Required`, because annotations are strings.
    of_its_own = {key for key, of in declared.__annotations__.items() if "Required[" in str(of)}
    inherited = set(schema.get("required", [])) - set(declared.__annotations__)
    assert of_its_own | inherited == set(schema.get("required", []))


def test_all_that_can_be_asked_is_said(path: Path) -> None:
    """The engine accepts each argument of a query as a key of the JSON."""
    asked: Asked = {
        "box": {"x": (np.float32(0.5), None), "n": (-(10**30), np.inf), "b": (b"\x00\xff", None)},
        "sample": 0.5,
        "window": (0, np.float64(0.25)),
        "limit": np.int64(7),  # type: ignore[typeddict-item]
        "columns": ("x", "n"),
        "where": "x > 0",
        "region": {"box": {"x": [0, 1]}},
        "per_cell": (1, {"x": 0.5}),
        "steps": 3,
        "inclusion": "p",
        "order_by": "x desc",
    }
    said = _box.spec(lambda: pytest.fail("no duration is asked for"), asked)
    names = set(said) | {"spec"}
    assert names == set(described()["QuerySpec"]["properties"])
    assert said["box"]["n"] == ({"int": str(-(10**30))}, {"float": "inf"})
    assert said["box"]["b"] == ({"binary": [0, 255]}, None)
    assert (said["steps"], said["per_cell"]) == ((3, 3), {"rows": 1, "widths": {"x": 0.5}})
    t = kubist.create(path, {"x": np.arange(9.0), "n": np.arange(9), "b": [b"\x01"] * 9}, ["x"])
    # The first rows of an order have no inclusion probability.
    ordered = {name: value for name, value in said.items() if name != "inclusion"}
    sampled = {name: value for name, value in said.items() if name != "order_by"}
    assert t._pinned().query({**ordered, "spec": 1}).names() == ["x", "n"]
    assert t._pinned().query({**sampled, "spec": 1}).names() == ["x", "n", "p"]
    for name in said:
        with pytest.raises(kubist.InvalidInput):
            t._pinned().query({name: {"no": "such value"}})  # type: ignore[misc]
    with pytest.raises(kubist.InvalidInput, match="boxx"):
        t._pinned().query({"boxx": {}})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(kubist.InvalidInput, match="box: n: .*outside of every column's range"):
        t.query(box={"n": (0, 10**40)})
