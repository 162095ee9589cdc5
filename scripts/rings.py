"""Finds modules that import each other, directly or in a ring: Rust, Python and TypeScript.

    python scripts/rings.py [--summary] [FOLDER]

Reads the source below FOLDER (default: this repository), prints each ring with its import lines,
and exits with 1 if there is one. `--summary` prints a table of counts instead of the lines.

A module is a file. It and its children may import each other, because in Rust they are one unit.
The children of a module, each with all modules below it, must not form a ring: `a -> b::c` and `b
-> a` is one. Every import counts, also in a function, under TYPE_CHECKING, of a type only, or in a
path without `use`. A re-exported name counts as an import of its own module and of the module in
the path. Rust tests are not read, and calls of methods that another module adds to a type (`impl
Table` in `alter.rs`) are not detected.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = {"target", "node_modules", "dist", "__pycache__"}

# A module's path in its graph: ("estimate", "plan"); () is the root of the crate or package.
Name = tuple[str, ...]


@dataclass
class Graph:
    """The modules of a crate, or of all Python or TypeScript files, and their imports."""

    title: str
    modules: dict[Name, Path] = field(default_factory=dict)
    imports: dict[tuple[Name, Name], set[tuple[Path, int, str]]] = field(default_factory=dict)

    def add(self, source: Name, target: Name, file: Path, line: int, text: str) -> None:
        """Adds an import, unless it stays in the module or connects a parent and a descendant."""
        shared = min(len(source), len(target))
        if source[:shared] != target[:shared]:
            self.imports.setdefault((source, target), set()).add((file, line, text))

    def rings(self) -> list[list[Name]]:
        """Groups of modules that import each other, each with all modules below it."""
        # Each import connects two children of the nearest common ancestor.
        levels: dict[Name, dict[Name, set[Name]]] = {}
        for source, target in self.imports:
            depth = 0
            while source[depth] == target[depth]:
                depth += 1
            children = levels.setdefault(source[:depth], {})
            children.setdefault(source[: depth + 1], set()).add(target[: depth + 1])
        found = [ring for above in sorted(levels) for ring in components(levels[above])]
        return sorted(found, key=lambda ring: (-len(ring), ring))

    def lines(self, ring: list[Name]) -> list[str]:
        depth = len(ring[0])
        members = set(ring)
        lines = []
        for (source, target), places in self.imports.items():
            ends = {source[:depth], target[:depth]}
            if len(ends) == 2 and ends <= members:
                arrow = f"{shown(source)} -> {shown(target)}"
                lines += [f"{file}:{line}: {arrow}: {text}" for file, line, text in places]
        return sorted(lines)


def shown(name: Name) -> str:
    return "::".join(name) or "the root"


def components(arrows: dict[Name, set[Name]]) -> list[list[Name]]:
    """The strongly connected components with several nodes (Tarjan)."""
    index: dict[Name, int] = {}
    low: dict[Name, int] = {}
    open_nodes: list[Name] = []
    found: list[list[Name]] = []

    def visit(node: Name) -> None:
        index[node] = low[node] = len(index)
        open_nodes.append(node)
        for after in sorted(arrows.get(node, ())):
            if after not in index:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in open_nodes:
                low[node] = min(low[node], index[after])
        if low[node] == index[node]:
            start = open_nodes.index(node)
            component = sorted(open_nodes[start:])
            del open_nodes[start:]
            if len(component) > 1:
                found.append(component)

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def files(folder: Path, *endings: str) -> list[Path]:
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n not in SKIPPED and not n.startswith("."))
        found += [Path(here, name) for name in sorted(names) if name.endswith(endings)]
    return found


# --- Rust ---

RUST_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*)
    | (?P<comment>/\*)
    | (?P<raw>b?c?r(?P<hashes>\#*)"[\s\S]*?"(?P=hashes))
    | (?P<text>[bc]?"(?:[^"\\]|\\[\s\S])*")
    | (?P<char>b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))')
    | (?P<lifetime>'\w+)
    | (?P<word>(?:r\#)?[^\W\d]\w*)
    | (?P<number>\d[\w]*(?:\.\d[\w]*)?)
    | (?P<mark>::|.)
    """,
    re.VERBOSE,
)
CLOSERS = {"{": "}", "(": ")", "[": "]"}
ITEMS = {"struct", "enum", "union", "trait", "fn", "type", "const", "static"}


@dataclass
class Token:
    text: str
    line: int
    word: bool


def rust_tokens(source: str) -> list[Token]:
    """Words and marks, without comments, strings and numbers."""
    tokens = []
    at, line = 0, 1
    while at < len(source):
        match = RUST_TOKEN.match(source, at)
        assert match is not None
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            depth = 1
            while depth and end < len(source):
                depth += source.startswith("/*", end) - source.startswith("*/", end)
                end += 2 if source[end : end + 2] in ("/*", "*/") else 1
        elif kind in ("word", "mark"):
            tokens.append(Token(match[0].removeprefix("r#"), line, kind == "word"))
        elif kind in ("text", "raw"):
            tokens.append(Token(match[0], line, False))
        line += source.count("\n", at, end)
        at = end
    return tokens


def group_end(tokens: list[Token], at: int) -> int:
    """The index after the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        if tokens[index].text in CLOSERS:
            depth += 1
        elif tokens[index].text in CLOSERS.values():
            depth -= 1
            if depth == 0:
                return index + 1
    return len(tokens)


def is_test(attribute: list[Token]) -> bool:
    words = [token.text for token in attribute]
    return words[:3] == ["cfg", "(", "test"] or words[:5] == ["cfg", "(", "all", "(", "test"]


def item_end(tokens: list[Token], at: int) -> int:
    """The index after the item, field or statement that starts at `at`."""
    while tokens[at].text == "#":
        at = group_end(tokens, at + 1)
    braced = not {"use", "let", "static", "const"} & {token.text for token in tokens[at : at + 5]}
    is_item = any(t.text in {*ITEMS, "mod", "impl", "use"} for t in tokens[at : at + 5])
    while at < len(tokens):
        text = tokens[at].text
        if text in CLOSERS:
            at = group_end(tokens, at)
            if text == "{" and braced:
                return at
        elif text == ";" or (text == "," and not is_item):
            return at + 1
        elif text in CLOSERS.values():
            return at
        else:
            at += 1
    return at


def without_tests(tokens: list[Token]) -> list[Token]:
    kept, at = [], 0
    while at < len(tokens):
        if tokens[at].text == "#" and at + 1 < len(tokens) and tokens[at + 1].text == "[":
            end = group_end(tokens, at + 1)
            if is_test(tokens[at + 2 : end]):
                at = item_end(tokens, end)
                continue
        kept.append(tokens[at])
        at += 1
    return kept


@dataclass
class Module:
    """A Rust module: a file, or a `mod { }` in one."""

    name: Name
    node: Name
    file: Path
    defined: set[str] = field(default_factory=set)
    # Names from `use`, and their paths.
    brought: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)
    # Every path in the module, with its line, and whether it is in a `use`.
    paths: list[tuple[int, list[str], bool]] = field(default_factory=list)


class Crate:
    """All modules that are reachable from a crate's root file."""

    def __init__(self, title: str, root: Path, folder: Path) -> None:
        self.graph = Graph(title)
        self.folder = folder
        self.modules: dict[Name, Module] = {}
        self.macros: dict[str, Name] = {}
        self.read_file((), root, root.parent)
        for module in self.modules.values():
            used: set[Name] = set()
            for line, path, by_use in sorted(module.paths, key=lambda path: not path[2]):
                targets = self.targets(module, path)
                if by_use:
                    used |= targets
                elif path[0] in module.brought:
                    # `table::open()` after `use crate::table` adds no import.
                    targets -= used
                for target in targets:
                    self.graph.add(module.node, target, module.file, line, "::".join(path))

    def read_file(self, name: Name, file: Path, children: Path) -> None:
        shown_file = file.relative_to(self.folder)
        self.graph.modules[name] = shown_file
        tokens = without_tests(rust_tokens(file.read_text()))
        self.read(Module(name, name, shown_file), tokens, children)

    def read(self, module: Module, tokens: list[Token], children: Path) -> None:
        self.modules[module.name] = module
        at, depth, path_attribute, exported = 0, 0, None, False
        while at < len(tokens):
            token = tokens[at]
            after = tokens[at + 1].text if at + 1 < len(tokens) else ""
            if token.text == "#" and after == "[":
                end = group_end(tokens, at + 1)
                words = [inner.text for inner in tokens[at + 2 : end - 1]]
                if words[:2] == ["path", "="]:
                    path_attribute = words[2].strip('"')
                exported |= "macro_export" in words
                at = end
                continue
            if token.word and token.text == "mod" and depth == 0 and tokens[at + 2].text in ";{":
                name = (*module.name, after)
                if tokens[at + 2].text == "{":
                    end = group_end(tokens, at + 2)
                    inner = Module(name, module.node, module.file)
                    self.read(inner, tokens[at + 3 : end - 1], children / after)
                else:
                    end = at + 3
                    self.find(name, module, children, path_attribute)
                at, path_attribute = end, None
                continue
            if token.text == "macro_rules":
                macro = tokens[at + 2].text
                module.defined.add(macro)
                if exported:
                    self.macros[macro] = module.name
                exported = False
                at += 3
                continue
            if token.word and token.text == "use" and after != "<":
                end = next(i for i in range(at, len(tokens)) if tokens[i].text == ";")
                self.read_use(module, tokens[at + 1 : end])
                at = end + 1
                continue
            if token.word and token.text in ITEMS and depth == 0:
                name_at = at + 1
                while tokens[name_at].text in {"unsafe", "mut", "async", "extern", *ITEMS}:
                    name_at += 1
                module.defined.add(tokens[name_at].text)
                exported = False
            if token.word and after == "::" and (at == 0 or tokens[at - 1].text != "::"):
                segments, end = [token.text], at + 1
                while end + 1 < len(tokens) and tokens[end].text == "::" and tokens[end + 1].word:
                    segments.append(tokens[end + 1].text)
                    end += 2
                module.paths.append((token.line, segments, False))
                at = end
                continue
            depth += (token.text in CLOSERS) - (token.text in CLOSERS.values())
            at += 1

    def find(self, name: Name, above: Module, children: Path, attribute: str | None) -> None:
        if attribute is not None:
            file = self.folder / above.file.parent / attribute
            self.read_file(name, file, file.parent)
        elif (flat := children / f"{name[-1]}.rs").exists():
            self.read_file(name, flat, children / name[-1])
        else:
            self.read_file(name, children / name[-1] / "mod.rs", children / name[-1])

    def read_use(self, module: Module, tokens: list[Token]) -> None:
        """Adds the names of `use a::{b, c as d, e::*}`."""

        def tree(at: int, prefix: list[str]) -> int:
            path = list(prefix)
            line = tokens[at].line if at < len(tokens) else 0
            while at < len(tokens):
                text = tokens[at].text
                if text == "{":
                    end = group_end(tokens, at) - 1
                    at += 1
                    while at < end:
                        at = tree(at, path)
                        at += at < end and tokens[at].text == ","
                    return end + 1
                if text == "*":
                    module.globs.append(path)
                    module.paths.append((line, path, True))
                    return at + 1
                if tokens[at].word:
                    # `a::{self}` is `a`.
                    if text != "self" or not path:
                        path.append(text)
                    name = path[-1]
                    if at + 1 < len(tokens) and tokens[at + 1].text == "as":
                        name = tokens[at + 2].text
                        at += 2
                    if at + 1 == len(tokens) or tokens[at + 1].text != "::":
                        module.brought[name] = path
                        module.paths.append((line, path, True))
                        return at + 1
                at += 1
            return at

        tree(0, [])

    def targets(self, module: Module, path: list[str]) -> set[Name]:
        """The files of the module in a path, and of the module that defines its last name."""
        ends = [self.resolve(module, path, through_use, set()) for through_use in (False, True)]
        found = {self.modules[end].node for end in ends if end is not None}
        # A child that defines a re-exported name represents its parent too.
        return {a for a in found if not any(a != b and a == b[: len(a)] for b in found)}

    def resolve(
        self, module: Module, path: list[str], through_use: bool, seen: set[tuple[Name, str]]
    ) -> Name | None:
        """The module of a path; None for another crate or an unknown name."""
        here, rest = module.name, list(path)
        if rest[0] == "crate":
            return self.enter((), rest[1:], through_use, seen, first=False)
        if rest[0] not in ("self", "super"):
            return self.enter(here, rest, through_use, seen, first=True)
        while rest and rest[0] in ("self", "super"):
            here = here[: len(here) - (rest[0] == "super")]
            rest = rest[1:]
        return self.enter(here, rest, through_use, seen, first=False)

    def enter(
        self,
        here: Name,
        rest: list[str],
        through_use: bool,
        seen: set[tuple[Name, str]],
        first: bool,
    ) -> Name | None:
        """The module that the names lead to, starting at the given one.

        As in the compiler, the first name of a path follows a `use`; other names only with
        `through_use`, otherwise the path ends in the module that re-exports.
        """
        if not rest:
            return here
        name = rest[0]
        module = self.modules[here]
        if (*here, name) in self.modules:
            return self.enter((*here, name), rest[1:], through_use, seen, first=False)
        if name in module.defined:
            return here
        if (here, name) in seen:
            return None
        seen = seen | {(here, name)}
        if name in module.brought and (through_use or first):
            return self.resolve(module, module.brought[name] + rest[1:], through_use, seen)
        if through_use or first:
            for glob in module.globs:
                inner = self.resolve(module, glob, True, seen)
                if inner is not None:
                    reached = self.enter(inner, rest, True, seen, first=True)
                    if reached is not None:
                        return reached
        if here == () and name in self.macros:
            return self.macros[name] if through_use else here
        return None if first or through_use else here


def rust_graphs(folder: Path) -> Iterator[Graph]:
    for manifest in files(folder, "Cargo.toml"):
        source = manifest.parent / "src"
        title = str(manifest.parent.relative_to(folder))
        for root in (source / "lib.rs", source / "main.rs"):
            if root.exists():
                yield Crate(f"Rust {title}", root, folder).graph


# --- Python ---


def python_name(file: Path) -> Name:
    """The dotted name by which a file is imported; scripts have no package."""
    name = () if file.name == "__init__.py" else (file.stem,)
    above = file.parent
    while (above / "__init__.py").exists():
        name = (above.name, *name)
        above = above.parent
    return name


def python_graph(folder: Path) -> Graph:
    graph = Graph("Python")
    trees: dict[Name, tuple[Path, ast.Module, bool]] = {}
    for file in files(folder, ".py"):
        shown_file = file.relative_to(folder)
        name = python_name(file)
        if name in trees:
            # Two folders have scripts of one name.
            name = (str(shown_file),)
        graph.modules[name] = shown_file
        trees[name] = (shown_file, ast.parse(file.read_text()), file.name == "__init__.py")

    brought: dict[Name, dict[str, tuple[Name, str]]] = {}

    def origin(module: Name, node: ast.ImportFrom) -> Name:
        named = tuple(node.module.split(".")) if node.module else ()
        if not node.level:
            return named
        above = node.level - trees[module][2]
        return (*module[: len(module) - above], *named)

    for module, (_, tree, _) in trees.items():
        brought[module] = {
            alias.asname or alias.name: (origin(module, node), alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def definer(module: Name, name: str, seen: frozenset[tuple[Name, str]]) -> Name:
        """The module that defines a name, which others may re-export."""
        if (*module, name) in trees:
            return (*module, name)
        if (module, name) not in seen and name in brought.get(module, {}):
            return definer(*brought[module][name], seen | {(module, name)})
        return module

    def dotted(node: ast.expr) -> Name:
        if isinstance(node, ast.Attribute):
            above = dotted(node.value)
            return (*above, node.attr) if above else ()
        return (node.id,) if isinstance(node, ast.Name) else ()

    for module, (file, tree, _) in trees.items():
        # Names bound by `import a.b` and `import a.b as c`.
        bound: dict[str, Name] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    target = tuple(alias.name.split("."))
                    bound[alias.asname or target[0]] = target if alias.asname else target[:1]
                    if target in trees:
                        graph.add(module, target, file, node.lineno, f"import {alias.name}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                target = origin(module, node)
                for alias in node.names:
                    text = f"from {'.'.join(target)} import {alias.name}"
                    for reached in {target, definer(target, alias.name, frozenset())}:
                        if reached in trees:
                            graph.add(module, reached, file, node.lineno, text)
            elif isinstance(node, ast.Attribute):
                path = dotted(node)
                if path and path[0] in bound:
                    path = (*bound[path[0]], *path[1:])
                    target = path[:1]
                    for part in path[1:]:
                        target = definer(target, part, frozenset())
                    if target in trees:
                        graph.add(module, target, file, node.lineno, ".".join(path))
    return graph


# --- TypeScript ---

# Strings and comments, so that an import in a comment does not count.
SCRIPT_PART = re.compile(
    r"""//[^\n]*|/\*[\s\S]*?\*/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`"""
)
SCRIPT_IMPORT = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+|\brequire\s*\(\s*)(['"])(\.[^'"\n]*)\1"""
)


def script_graph(folder: Path) -> Graph:
    graph = Graph("TypeScript")
    endings = (".ts", ".tsx", ".mts", ".js", ".mjs")
    found = {file.resolve(): file.relative_to(folder) for file in files(folder, *endings)}
    names = {file: (str(shown_file),) for file, shown_file in found.items()}
    graph.modules = {names[file]: shown_file for file, shown_file in found.items()}
    for file, shown_file in found.items():

        def blank(match: re.Match[str]) -> str:
            comment = match[0].startswith("/")
            return re.sub(r"[^\n]", " ", match[0]) if comment else match[0]

        source = SCRIPT_PART.sub(blank, file.read_text())
        for match in SCRIPT_IMPORT.finditer(source):
            target = (file.parent / match[2]).resolve()
            stem = target.with_suffix("") if target.suffix in (".js", ".mjs") else target
            tried = [target, *(Path(f"{stem}{end}") for end in endings)]
            tried += [target / f"index{end}" for end in endings]
            reached = next((names[path] for path in tried if path in names), None)
            if reached:
                line = source.count("\n", 0, match.start(2)) + 1
                graph.add(names[file], reached, shown_file, line, match[2])
    return graph


def graphs(folder: Path) -> list[Graph]:
    return [*rust_graphs(folder), python_graph(folder), script_graph(folder)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--summary", action="store_true", help="print counts only")
    given = parser.parse_args()
    count = 0
    for graph in graphs(given.folder.resolve()):
        rings = graph.rings()
        count += len(rings)
        if given.summary:
            sizes = ", ".join(str(len(ring)) for ring in rings) or "-"
            counts = f"{len(graph.modules):3} modules {len(graph.imports):4} imports"
            print(f"{graph.title:32} {counts} {len(rings):2} rings of {sizes}")
            continue
        for ring in rings:
            print(f"{graph.title}: a ring of {len(ring)}: {', '.join(map(shown, ring))}")
            print("".join(f"  {line}\n" for line in graph.lines(ring)))
    print(f"{count} rings" if count else "no rings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
