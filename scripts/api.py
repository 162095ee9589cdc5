"""Writes docs/api.md, the reference of the Python package, from its docstrings.

python scripts/api.py            writes the page
python scripts/api.py --check    says whether it is as the docstrings are
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
sys.path.insert(0, str(ROOT / "python"))

import kubist  # noqa: E402

HEAD = """# Python reference

Everything that `import kubist` offers. `scripts/api.py` writes this page from the docstrings, and
`help(kubist.Table.query)` shows the same. [The tutorial](tutorial.md) is the place to begin.
"""

CHAPTERS: dict[str, list[str]] = {
    "Open and create": ["create", "open", "connect", "drop", "salvage"],
    "Tables": ["Table", "Snapshot", "RemoteTable", "RemoteSnapshot"],
    "Answers": [
        "Result",
        "Estimate",
        "Description",
        "Figure",
        "Picture",
        "View",
        "Split",
    ],
    "Writing": ["Writer", "Commit", "ingest"],
    "Files that stay as they are": ["index", "FileIndex"],
}
"""All other names follow: reports, then errors."""

SECTION = re.compile(r"^(Args|Returns|Raises|Example):$", re.MULTILINE)


def page() -> str:
    """The whole page."""
    named = [name for chapter in CHAPTERS.values() for name in chapter]
    rest = [
        name
        for name in kubist.__all__
        if name not in named and not name.startswith("_")
    ]
    errors = [name for name in rest if issubclass(getattr(kubist, name), Exception)]
    chapters = CHAPTERS | {
        "Reports": [name for name in rest if name not in errors],
        "Errors": sorted(errors, key=lambda name: (name != "Error", name)),
    }
    seen: dict[object, str] = {}
    parts = [HEAD]
    for title, names in chapters.items():
        links = ", ".join(f"[{name}](#{name.lower()})" for name in names)
        parts.append(f"- **{title}**: {links}")
    for title, names in chapters.items():
        parts.append(f"\n## {title}")
        parts.extend(entry(name, seen) for name in names)
    return "\n".join(parts) + "\n"


def entry(name: str, seen: dict[object, str]) -> str:
    """A function or a class with its members."""
    value = getattr(kubist, name)
    if isinstance(value, FunctionType):
        return f"\n### {name}\n\n{signature(name, value)}\n\n{text(value)}"
    lines = [f"\n### {name}"]
    if issubclass(value, Exception):
        return "\n\n".join([*lines, text(value)])
    lines.append(text(value))
    lines.extend(fields(value))
    known: dict[str, list[str]] = {}
    for member, found in members(value):
        function = (
            found.fget
            if isinstance(found, property)
            else getattr(found, "__func__", found)
        )
        if function in seen:
            known.setdefault(seen[function], []).append(member)
            continue
        seen[function] = name
        shown = f"`{member}`" if isinstance(found, property) else None
        lines.append(f"#### {name}.{member}")
        lines.append(shown_type(function) if shown else signature(member, function))
        lines.append(text(found))
    for other, names in known.items():
        listed = ", ".join(f"`{each}`" for each in names)
        lines.append(f"As [{other}](#{other.lower()}): {listed}.")
    return "\n\n".join(lines)


def members(kind: type) -> Iterator[tuple[str, object]]:
    """Its documented members, also those of bases that have no name of their own here."""
    found: dict[str, object] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "kubist":
            found.update(vars(base))
    for name, value in found.items():
        is_member = isinstance(
            value, (FunctionType, property, classmethod, staticmethod)
        )
        if is_member and not name.startswith("_") and inspect.getdoc(value):
            yield name, value


def fields(kind: type) -> list[str]:
    """The values that it carries, with the text that stands below each."""
    body = body_of(kind)
    lines = []
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        about = ""
        if isinstance(following, ast.Expr) and isinstance(
            following.value, ast.Constant
        ):
            about = ": " + prose(inspect.cleandoc(str(following.value.value)))
        lines.append(f"- `{node.target.id}: {ast.unparse(node.annotation)}`{about}")
    return ["\n".join(lines)] if lines else []


def body_of(kind: type) -> list[ast.stmt]:
    """Its statements. Classes say that they are of `kubist` itself: which file has it is sought."""
    for name, module in sys.modules.items():
        if name.startswith("kubist.") and getattr(module, kind.__name__, None) is kind:
            tree = ast.parse(Path(str(module.__file__)).read_text())
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                    return node.body
    return []


def signature(name: str, function: object) -> str:
    """As it is called, a parameter a line where one line is too short; without that which only
    takes unknown options to refuse them."""
    taken = inspect.signature(function)  # type: ignore[arg-type]
    parameters = [
        each for each in taken.parameters.values() if each.name not in ("self", "cls", "unknown")
    ]
    shown = str(taken.replace(parameters=parameters)).replace("'", "")
    line = f"{name}{shown}"
    if len(line) > 96:
        inner = list(lines_of(parameters))
        returned = shown.rpartition(") -> ")[2] if ") -> " in shown else ""
        end = f") -> {returned}" if returned else ")"
        line = "\n".join([f"{name}(", *(f"    {each}," for each in inner), end])
    return f"```python\n{line}\n```"


def lines_of(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Each parameter, and the star before those that need their names."""
    starred = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield str(each).replace("'", "")


def shown_type(function: FunctionType) -> str:
    returned = inspect.signature(function).return_annotation
    return f"`{str(returned).strip(chr(39))}`"


def text(value: object) -> str:
    """A docstring as Markdown."""
    doc = inspect.getdoc(value) or ""
    parts = SECTION.split(doc)
    lines = [prose(parts[0])]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        body = textwrap.dedent(body.strip("\n"))
        indented, _, after = body.partition("\n\n")
        if title == "Example":
            lines.append(f"```python\n{body.rstrip()}\n```")
            continue
        if title == "Returns":
            lines.append(f"Returns: {prose(unwrap(indented))}")
        else:
            lines.append(
                f"{'Arguments' if title == 'Args' else title}:\n\n{bullets(indented)}"
            )
        if after.strip():
            lines.append(prose(textwrap.dedent(after)))
    return "\n\n".join(line for line in lines if line.strip())


def bullets(body: str) -> str:
    """``name: words``, indented where they go on."""
    items = re.split(r"\n(?=\S)", body)
    made = []
    for item in items:
        name, _, words = unwrap(item).partition(": ")
        made.append(f"- `{name}`: {prose(words)}" if words else f"- {prose(name)}")
    return "\n".join(made)


def unwrap(paragraph: str) -> str:
    return " ".join(line.strip() for line in paragraph.splitlines())


def prose(doc: str) -> str:
    """Paragraphs, with examples in fences and names as code."""
    made = []
    for paragraph in re.split(r"\n\s*\n", doc.strip()):
        if paragraph.lstrip().startswith(">>>"):
            made.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            made.append(paragraph.replace("``", "`"))
    return "\n\n".join(made)


if __name__ == "__main__":
    written = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(written)
    elif PAGE.read_text() != written:
        sys.exit("docs/api.md is not as the docstrings are: run python scripts/api.py")
