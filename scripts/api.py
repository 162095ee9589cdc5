"""Writes docs/api.md, the reference of the Python package, from its docstrings (numpy style).

python scripts/api.py            writes the page
python scripts/api.py --check    fails if the page differs from the docstrings
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

The public names of `import kubist`. `scripts/api.py` writes this page from the docstrings, which
`help(kubist.Table.query)` shows too. New users start with [the tutorial](tutorial.md).
"""

CHAPTERS: dict[str, list[str]] = {
    "Open and create": ["create", "open", "open_many", "connect", "drop", "salvage", "unpack"],
    "Tables": ["Table", "Snapshot", "Many", "RemoteTable", "RemoteSnapshot"],
    "Results": [
        "Result",
        "Estimate",
        "Description",
        "Figure",
        "Picture",
        "View",
        "Split",
    ],
    "Saved answers": ["recompute", "history", "Recomputed", "History", "SavedAnswer"],
    "Training": ["Loader"],
    "Writing": ["Writer", "Commit", "ingest", "from_dask"],
    "Indexed files": ["index", "FileIndex"],
    "Advice": ["advise", "Advice", "Advised", "Design"],
}
"""All other names follow, as reports and errors."""

SECTION = re.compile(r"^(Parameters|Returns|Raises|Examples)\n-+$", re.MULTILINE)


def page() -> str:
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
        lines.append(f"The same as in [{other}](#{other.lower()}): {listed}.")
    return "\n\n".join(lines)


def members(kind: type) -> Iterator[tuple[str, object]]:
    """The documented members of a class, including those of its private bases."""
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
    """The fields of a class, each with the docstring that follows it."""
    body = body_of(kind)
    lines = []
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        about = ""
        if isinstance(following, ast.Expr) and isinstance(
            following.value, ast.Constant
        ):
            about = ": " + prose(unwrap(str(following.value.value)))
        lines.append(f"- `{node.target.id}: {ast.unparse(node.annotation)}`{about}")
    return ["\n".join(lines)] if lines else []


def body_of(kind: type) -> list[ast.stmt]:
    """The statements of a class.

    The modules are searched, because the `__module__` of public classes is `kubist`.
    """
    for name, module in sys.modules.items():
        if name.startswith("kubist.") and getattr(module, kind.__name__, None) is kind:
            tree = ast.parse(Path(str(module.__file__)).read_text())
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                    return node.body
    return []


def signature(name: str, function: object) -> str:
    """A function's signature, with one parameter per line if it is long.

    Without ``**unknown``, which only raises errors.
    """
    taken = inspect.signature(function)  # type: ignore[arg-type]
    parameters = [
        each for each in taken.parameters.values() if each.name not in ("self", "cls", "unknown")
    ]
    signed = unquoted(str(taken.replace(parameters=parameters)))
    line = f"{name}{signed}"
    if len(line) > 96:
        inner = list(lines_of(parameters))
        returned = signed.rpartition(") -> ")[2] if ") -> " in signed else ""
        end = f") -> {returned}" if returned else ")"
        line = "\n".join([f"{name}(", *(f"    {each}," for each in inner), end])
    return f"```python\n{line}\n```"


def lines_of(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """The parameters, with a star before those that need a keyword."""
    starred = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield unquoted(str(each))


def unquoted(signed: str) -> str:
    """A signature without the quotes of its annotations, and with defaults in double quotes."""
    signed = re.sub(r"(: |-> )(['\"])(.*?)\2(?=[,) ]|$)", r"\1\3", signed)
    return re.sub(r"= '([^']*)'", r'= "\1"', signed)


def shown_type(function: FunctionType) -> str:
    returned = inspect.signature(function).return_annotation
    return f"`{str(returned).strip(chr(39))}`"


def text(value: object) -> str:
    doc = inspect.getdoc(value) or ""
    parts = SECTION.split(doc)
    lines = [prose(parts[0])]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        body = body.strip("\n")
        if title == "Examples":
            lines.append(f"```python\n{body.rstrip()}\n```")
        elif title == "Returns":
            # The signature has the type.
            lines.append(f"Returns: {items(body)[0][1]}")
        else:
            lines.append(f"{title}:\n\n{bullets(body)}")
    return "\n\n".join(line for line in lines if line.strip())


def bullets(body: str) -> str:
    return "\n".join(f"- `{name}`: {words}" for name, words in items(body))


def items(body: str) -> list[tuple[str, str]]:
    """The entries of a section, which are unindented names with indented text."""
    entries = (item.partition("\n") for item in re.split(r"\n(?=\S)", body))
    return [(name, prose(unwrap(words))) for name, _, words in entries]


def unwrap(paragraph: str) -> str:
    return " ".join(line.strip() for line in paragraph.splitlines()).strip()


def prose(doc: str) -> str:
    """Paragraphs as Markdown, with examples in fenced blocks."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", doc.strip()):
        if paragraph.lstrip().startswith(">>>"):
            blocks.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
        else:
            blocks.append(paragraph.replace("``", "`"))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    written = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(written)
    elif PAGE.read_text() != written:
        sys.exit("docs/api.md differs from the docstrings: run python scripts/api.py")
