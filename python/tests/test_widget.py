"""The explorer page in a notebook: its messages and their responses.

`make test-widget` tests the page in JupyterLab itself, in a browser.
"""

from __future__ import annotations

import json
import queue
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from servers import COMMAND, Server

import kubist

pytestmark = pytest.mark.filterwarnings("default")
RNG = np.random.default_rng(3)


def records(count: int) -> dict[str, Any]:
    return {"x": RNG.random(count), "y": RNG.random(count), "n": np.arange(count)}


@pytest.fixture
def table(path: Path) -> kubist.Table:
    return kubist.create(path, records(5000), dimensions=["x", "y"])


class Page:
    def __init__(self, widget: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came: queue.Queue[tuple[dict[str, Any], list[bytes]]] = queue.Queue()
        self.widget = widget
        monkeypatch.setattr(
            widget, "send", lambda content, parts=None: self.came.put((content, parts or []))
        )

    def ask(self, path: str, body: Any = None, method: str = "GET", id: str = "1") -> None:
        text = None if body is None else json.dumps(body)
        message = {"ask": id, "method": method, "path": path, "body": text}
        self.widget._take(self.widget, message, [])

    def answer(self) -> tuple[dict[str, Any], bytes]:
        head, body = {}, b""
        while True:
            content, parts = self.came.get(timeout=60)
            body += b"".join(parts)
            head |= content
            if "end" in content or "error" in content:
                return head, body


@pytest.fixture
def shown(table: kubist.Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    pytest.importorskip("anywidget", reason="anywidget is not installed: kubist[widget]")
    if not COMMAND.exists():
        pytest.skip("the command kubist is not installed beside this Python")
    widget = table.widget(height=300)
    yield Page(widget, monkeypatch)
    widget.close()


def test_the_page_and_its_questions_are_answered(shown: Page, table: kubist.Table) -> None:
    shown.ask("/app.js")
    head, script = shown.answer()
    assert (head["status"], head["id"]) == (200, "1")
    assert "javascript" in head["type"] and len(script) > 100_000
    name = table.location.rsplit("/", 1)[1].removesuffix(".kubist")
    shown.ask(f"/v1/tables/{name}/count", {"where": "n < 100"}, "POST", "2")
    head, body = shown.answer()
    assert (head["status"], head["id"], json.loads(body)["count"]) == (200, "2", 100)
    shown.ask(f"/v1/tables/{name}/count", {"where": "nobody = 1"}, "POST", "3")
    head, body = shown.answer()
    assert head["status"] == 400 and "nobody" in json.loads(body)["error"]["message"]


def test_an_answer_that_is_given_up_ends(shown: Page, table: kubist.Table) -> None:
    """The page waits for a change; a later request still gets a response."""
    name = table.location.rsplit("/", 1)[1].removesuffix(".kubist")
    shown.ask(f"/v1/tables/{name}")
    version = json.loads(shown.answer()[1])["version"]
    shown.ask(f"/v1/tables/{name}/changes?version={version}", id="waits")
    waiting = shown.widget._answers["waits"]
    shown.widget._take(shown.widget, {"stop": "waits"}, [])
    shown.ask("/v1/tables", id="next")
    head, _ = shown.answer()
    assert head["id"] == "next"
    assert waiting._stopped


def test_what_is_no_path_is_refused(shown: Page) -> None:
    shown.ask("http://elsewhere.example/")
    head, body = shown.answer()
    assert "is not a path of the page" in head["error"] and body == b""


def test_the_selection_is_read_back_of_the_moment_that_is_shown(
    shown: Page, table: kubist.Table
) -> None:
    widget = shown.widget
    assert (widget.region, widget.filter) == ({}, None)
    with pytest.raises(kubist.InvalidInput, match="nothing is selected yet"):
        widget.result()
    version = table.snapshot().token
    widget._selection = {"box": {"x": [0.2, 0.6]}, "where": "n < 2500", "version": version}
    wanted = table.count(box={"x": (0.2, 0.6)}, where="n < 2500")
    table.append(records(1000))
    assert (widget.region, widget.filter) == ({"x": (0.2, 0.6)}, "n < 2500")
    found = widget.result(columns=["x", "n"]).to_numpy()
    assert len(found["n"]) == wanted
    assert list(found) == ["x", "n"]
    assert found["x"].min() >= 0.2 and found["x"].max() <= 0.6 and found["n"].max() < 2500


def test_a_remote_table_has_one_too(table: kubist.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed: kubist[widget]")
    if not COMMAND.exists():
        pytest.skip("the command kubist is not installed beside this Python")
    with Server(table.location) as server:
        widget = kubist.Widget(kubist.connect(server.url))
        page = Page(widget, monkeypatch)
        page.ask("/v1/tables")
        head, body = page.answer()
        assert head["status"] == 200 and len(json.loads(body)["tables"]) == 1
        assert widget._python.startswith("kubist.connect('http://127.0.0.1:")
        widget.close()


def test_a_missing_library_is_named_with_the_command(
    path: Path, run_python: Callable[..., CompletedProcess[str]]
) -> None:
    done = run_python(
        """
        import sys
        sys.modules["anywidget"] = None
        import kubist
        t = kubist.create(sys.argv[1], {"x": [1.0, 2.0]}, dimensions=["x"])
        for ask in (t.widget, lambda: kubist.Widget(t)):
            try:
                ask()
            except ImportError as error:
                print(error)
        """,
        path,
    )
    lacking = f"a widget needs anywidget, which {sys.executable} lacks"
    message = f"{lacking}: pip install 'kubist[widget]'\n"
    assert done.stdout == 2 * message, done.stderr
