"""Builds the documentation site in site/, without network, and checks it.

    python scripts/site.py build    collects the pages, builds the site, checks every link
    python scripts/site.py serve    builds it and serves it on 127.0.0.1:8000

Its sources are docs/, the root's FORMAT.md, ARCHITECTURE.md and CHANGELOG.md, the docstrings of the
Python package, and the help of the commands. The site works from a folder (`file://`).
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "target" / "site-source"
SITE = ROOT / "site"
COMMANDS = Path(sys.executable).parent

ROOT_PAGES = {
    "FORMAT.md": "reference/format.md",
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CHANGELOG.md": "changelog.md",
}
"""Documents in the repository's root, and their pages on the site."""

# For readers of the repository only.
LEFT_OUT = {"docs/README.md"}

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def page_of(path: Path) -> str | None:
    """The site's page for a file of the repository; None if the site has none."""
    try:
        name = path.relative_to(ROOT).as_posix()
    except ValueError:
        return None
    if name in ROOT_PAGES:
        return ROOT_PAGES[name]
    if name in ("README.md", "docs/README.md"):
        return "index.md"
    if name.startswith("docs/") and path.is_file():
        return name.removeprefix("docs/")
    return None


def relinked(text: str, file: Path, page: str) -> str:
    """The text of a file with its links made relative to its page on the site.

    A link to a file outside the site becomes its name.
    """

    def relink(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = Path(os.path.normpath(file.parent / target))
        other = page_of(path)
        if other is None:
            return f"{words} (`{path.relative_to(ROOT).as_posix()}`)"
        if path.name == "README.md":
            anchor = ""  # The site's pages have other headings.
        return f"[{words}]({os.path.relpath(other, Path(page).parent)}{anchor})"

    return LINK.sub(relink, text)


def collect() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for file in sorted((ROOT / "docs").rglob("*")):
        name = file.relative_to(ROOT).as_posix()
        if file.is_dir() or name in LEFT_OUT:
            continue
        page = name.removeprefix("docs/")
        target = SOURCE / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(relinked(file.read_text(), file, page))
        else:
            shutil.copy(file, target)
    for name, page in ROOT_PAGES.items():
        target = SOURCE / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(relinked((ROOT / name).read_text(), ROOT / name, page))
    (SOURCE / "reference/python.md").write_text(python_reference())
    (SOURCE / "reference/command-line.md").write_text(command_reference())


def python_reference() -> str:
    """Every public name of the package, in groups; mkdocstrings adds the docstrings."""
    init = (ROOT / "python/kubist/__init__.py").read_text()
    exported = re.search(r"__all__ = \[(.*?)\]", init, re.DOTALL)
    assert exported, "kubist has no __all__"
    names = re.findall(r'"([A-Za-z]\w*)"', exported[1])
    functions = [name for name in names if name[0].islower()]
    classes = [name for name in names if name[0].isupper()]
    lines = ["# Python reference", "", "The public names of `import kubist`.", ""]
    for title, group in (("Functions", functions), ("Classes", classes)):
        lines += [f"## {title}", ""]
        lines += [f"::: kubist.{name}\n    options:\n      heading_level: 3\n" for name in group]
    return "\n".join(lines)


def help_of(*command: str) -> str:
    """The --help of a command, 100 columns wide."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        [COMMANDS / "kubist", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.rstrip()


def command_reference() -> str:
    top = help_of()
    section = top.split("Commands:", 1)[1].split("\n\n", 1)[0]
    commands = [line.split()[0] for line in section.splitlines() if re.match(r" {2}\w", line)]
    parts = ["# Command line", "", "```text", top, "```", ""]
    for name in commands:
        if name != "help":
            parts += [f"## kubist {name}", "", "```text", help_of(name), "```", ""]
    return "\n".join(parts)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("img", "script", "iframe") and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and "href" in values and values.get("rel") != "canonical":
            self.loaded.append(values["href"])


def problems() -> list[str]:
    """Broken links of the built site, and files that it loads from elsewhere."""
    pages: dict[Path, Page] = {}
    for file in SITE.rglob("*.html"):
        pages[file] = Page()
        pages[file].feed(file.read_text())
    found = []
    for file, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme == "data" or link == ".":
                continue
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    found.append(f"{file.relative_to(SITE)}: loads {link}")
                continue
            target = (
                file
                if not parts.path
                else Path(os.path.normpath(file.parent / unquote(parts.path)))
            )
            if parts.path.startswith("/"):
                target = SITE / parts.path.lstrip("/")
            if not target.exists():
                found.append(f"{file.relative_to(SITE)}: no file {link}")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                found.append(f"{file.relative_to(SITE)}: no anchor {link}")
    return found


def build() -> int:
    """Prints the errors; returns the exit code."""
    collect()
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean"], cwd=ROOT, check=False
    )
    if done.returncode != 0:
        return done.returncode
    # Search from a folder needs a substitute for web workers, which the theme would load from the
    # network.
    for file in SITE.rglob("*.html"):
        text = file.read_text()
        local = os.path.relpath(SITE / "assets" / "iframe-worker.js", file.parent)
        file.write_text(text.replace("https://unpkg.com/iframe-worker/shim", local))
    wrong = problems()
    for line in wrong:
        print(line)
    print(
        f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}/, {len(wrong)} problems"
    )
    return 1 if wrong else 0


def main() -> int:
    code = build()
    if code == 0 and sys.argv[1:] == ["serve"]:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=SITE)
        print("http://127.0.0.1:8000/")
        http.server.ThreadingHTTPServer(("127.0.0.1", 8000), handler).serve_forever()
    return code


if __name__ == "__main__":
    sys.exit(main())
