"""The table of parameters in docs/asking.md, compared with every binding."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import libkubist
import pytest

import kubist

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).parent / "kubist"
JAVA = ROOT / "spark/core/src/main/java/org/kubist/Query.java"
PLUGIN = ROOT / "python/kubist/paraview/KubistTable.py"

CHOOSING = {"limit", "order_by", "per_cell"}
"""Parameters that select from all rows, so that the query cannot be split."""


def table() -> dict[str, dict[str, list[str]]]:
    lines = (ROOT / "docs/asking.md").read_text().splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("| parameter |"))
    heads = [head.strip() for head in lines[begin].strip("|").split("|")]
    found: dict[str, dict[str, list[str]]] = {head: {} for head in heads}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
        (name,) = cells[0]
        for head, cell in zip(heads, cells, strict=True):
            found[head][name] = cell
    return found


def spelt(binding: str, but: set[str] | None = None) -> set[str]:
    said = table()[binding].items()
    return {word for name, words in said for word in words if name not in (but or set())}


def parameters(function: Any, own: set[str]) -> set[str]:
    signature = inspect.signature(function).parameters.values()
    taken = [
        each for each in signature if each.name != "self" and each.kind is not each.VAR_KEYWORD
    ]
    by_place = [each.name for each in taken if each.kind is not each.KEYWORD_ONLY]
    assert by_place == [taken[0].name], function
    return {each.name for each in taken} - own


@pytest.mark.parametrize("kind", [kubist.Table, kubist.Snapshot, kubist.RemoteTable])
def test_python(kind: Any) -> None:
    everything = spelt("Python")
    assert everything == set(table()["parameter"])
    assert parameters(kind.query, set()) == everything
    assert parameters(kind.aquery, set()) == everything
    assert parameters(kind.scan, {"on_result"}) == everything
    assert parameters(kind.to_dataset, {"on_result"}) == everything
    assert parameters(kind.sql, {"query", "engine", "tables"}) | {"box"} == everything
    region = {"box", "where", "region", "relation", "sample", "window", "steps"}
    assert parameters(kind.count, set()) == region
    goal = {"error", "within", "max_rows", "max_bytes", "confidence", "tails"}
    grouped = {"aggregates", "group_by", "progressive"}
    assert parameters(kind.estimate, goal | grouped) == region
    assert parameters(kind.describe, goal | {"columns"}) == region
    of_steps = {"box", "where", "region", "relation", "steps", "columns"}
    assert parameters(kind.refine, {"start", "factor"}) == of_steps
    of_paths = everything - {"per_cell", "inclusion"}
    assert parameters(kind.trajectories, {"by"}) == of_paths
    if kind is not kubist.RemoteTable:
        assert parameters(kind.explain, {"fit", "predict"}) == everything
        assert parameters(kind.splits, {"parts", "by"}) == everything - CHOOSING


def test_files_that_stay_as_they_are() -> None:
    files = kubist.FileIndex
    own = {"isel", "skip_damaged"}
    shared = {"box", "where", "region", "sample", "columns"}
    assert parameters(files.query, own) == shared | {"limit"}
    assert parameters(files.count, own) == shared - {"columns"}
    assert parameters(files.explain, own | {"workers", "gap", "sorted"}) == shared
    assert parameters(files.splits, own | {"parts"}) == shared
    goal = {"error", "within", "max_rows", "max_bytes", "confidence", "tails"}
    grouped = {"aggregates", "group_by", "progressive"}
    assert parameters(files.estimate, own | goal | grouped) == shared - {"columns"}


def options(command: str) -> set[str]:
    asked = [str(COMMAND), command, "--help"]
    text = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    listed = text.partition("\nOptions:\n")[2].partition("\nExamples:")[0]
    # --fetch says how to read a partial copy, not what to ask.
    found = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", listed, re.MULTILINE))
    return found - {"--help", "--fetch"}


def test_the_command() -> None:
    output = {"--output", "--format", "--json"}
    assert options("query") - output - {"--count"} == spelt("command")
    assert options("explain") - {"--fit", "--plot", "--predict", "--json"} == spelt("command")
    others = spelt("command", {"per_cell", "inclusion"})
    assert options("trajectories") - output - {"--by"} == others
    region = spelt("command", CHOOSING | {"columns", "inclusion"})
    goal = {"--error", "--within", "--max-rows", "--max-bytes", "--confidence", "--tails"}
    assert options("estimate") - goal - {"--group-by", "--watch", "--json"} == region
    assert options("plot") >= region | {"--limit"}


def described() -> dict[str, Any]:
    path = ROOT / "crates/bindings/kubist-server/src/openapi.json"
    schemas: dict[str, Any] = json.loads(path.read_text())["components"]["schemas"]
    return schemas


def test_http() -> None:
    """The server's own tests compare it with this description."""

    def keys(request: str) -> set[str]:
        return set(described()[request]["properties"]) - {"spec", "version", "format"}

    assert keys("QueryRequest") == spelt("HTTP")
    region = spelt("HTTP", CHOOSING | {"columns", "inclusion"})
    assert keys("CountRequest") == region
    assert keys("TrajectoriesRequest") - {"by"} == spelt("HTTP", {"per_cell", "inclusion"})


def test_the_library_for_c(path: Path) -> None:
    """Its error for an unknown name lists the known ones."""
    library = libkubist.Library(libkubist.built() / "libkubist_capi.so")
    made = library.handle("table_create", str(path), libkubist.TABLE)
    with pytest.raises(libkubist.Failed, match="unheard_of") as refused:
        library.rows(made, '{"unheard_of": 1}')
    listed = set(re.findall(r"`(\w+)`", str(refused.value))) - {"unheard_of", "spec"}
    assert listed == spelt("C")


def test_java() -> None:
    methods = set(re.findall(r"^    public Query (\w+)\(", JAVA.read_text(), re.MULTILINE))
    assert methods == spelt("Java")


def test_spark() -> None:
    text = (ROOT / "python/kubist/spark.py").read_text()
    own = {"partitions", "path"}
    assert set(re.findall(r'if "(\w+)" in said', text)) - own == spelt("Spark")


def test_paraview() -> None:
    properties = set(re.findall(r'\bname="([A-Z]\w+)"', PLUGIN.read_text()))
    table_and_time = {"Table", "KubistTable", "SnapshotToken", "ShownToken", "TimestepValues"}
    drawn = {"XColumn", "YColumn", "ZColumn", "TimeColumn", "Progressive", "Live", "Refresh"}
    box = {"UseRegionOfInterest", "Rotation"}
    assert properties - table_and_time - drawn - box == spelt("ParaView")


def test_the_page() -> None:
    view = (ROOT / "viewer/src/view.ts").read_text()
    written = set(re.findall(r'\bput\("(\w+)"', view))
    read = set(re.findall(r'(?:get|getAll|number|places|sides|has)\("(\w+)"', view))
    assert written == read
    assert spelt("page address") <= written
    sent = (ROOT / "viewer/src/generated/query.ts").read_text()
    fields = re.search(r"export interface QuerySpec \{(.*?)\n\}", sent, re.DOTALL)
    assert fields is not None
    assert set(re.findall(r"^  (\w+)\??:", fields[1], re.MULTILINE)) - {"spec"} == spelt("HTTP")
