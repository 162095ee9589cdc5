"""No modules of the repository, in its three languages, import each other in a ring."""

import subprocess
import sys
from pathlib import Path

import pytest

RINGS = Path(__file__).resolve().parents[2] / "scripts" / "rings.py"
CARGO = {"c/Cargo.toml": ""}


def rings(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RINGS), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_the_repository_has_none():
    found = rings()
    assert found.returncode == 0, found.stdout + found.stderr


RUST = {
    "by use": {
        "c/src/lib.rs": "mod a;\nmod b;",
        "c/src/a.rs": "use crate::b::B;\npub struct A;",
        "c/src/b.rs": "use super::{self as top, a::A};\npub struct B;",
    },
    "by path": {
        "c/src/lib.rs": "mod a;\nmod b;",
        "c/src/a.rs": "pub fn f<'a>(x: &'a str) -> char { crate::b::g(); '\"' }",
        "c/src/b.rs": 'pub fn g() { use crate::a; let _ = "}"; a::f(""); }',
    },
    "behind a re-export": {
        "c/src/main.rs": "mod a;\nmod b;\npub use a::*;\npub use b::B as Bee;",
        "c/src/a.rs": "use crate::Bee;\npub struct A;",
        "c/src/b.rs": "pub struct B(crate::A);",
    },
    "behind a parent's import": {
        "c/src/lib.rs": "mod p;",
        "c/src/p/mod.rs": "mod a;\nmod b;\nuse b::B;",
        "c/src/p/a.rs": "use super::B;\npub struct A;",
        "c/src/p/b.rs": "use super::a::A;\npub struct B;",
    },
    "through a child": {
        "c/src/lib.rs": "mod a;\nmod b;",
        "c/src/a.rs": "mod inner;\npub struct A;",
        "c/src/a/inner.rs": "use crate::b::B;",
        "c/src/b.rs": "use crate::a::A;\npub struct B;",
    },
    "through a module in a file": {
        "c/src/lib.rs": "mod a;\nmod b;",
        "c/src/a.rs": "mod inner { use super::super::b::B; }\npub struct A;",
        "c/src/b.rs": "use crate::a::A;\npub struct B;",
    },
    "in a macro": {
        "c/src/lib.rs": "#[macro_use]\nmod a;\nmod b;",
        "c/src/a.rs": "#[macro_export]\nmacro_rules! m { () => { $crate::b::g() } }",
        "c/src/b.rs": "pub fn g() { crate::m!() }",
    },
}


@pytest.mark.parametrize("case", RUST)
def test_rust(tmp_path: Path, case: str):
    write(tmp_path, CARGO | RUST[case])
    found = rings(str(tmp_path))
    assert found.returncode == 1, found.stdout + found.stderr
    assert found.stdout.startswith("Rust c: a ring of 2: ")
    assert found.stdout.endswith("1 rings\n")


PYTHON = {
    "by name": {"a.py": "from p.b import B", "b.py": "import p.a"},
    "in a function": {"a.py": "def f():\n    from ._x import g", "_x.py": "from . import a"},
    "for types": {
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B",
        "b.py": "from . import a",
    },
    "behind the package": {
        "__init__.py": "from .a import A\nfrom .b import B",
        "a.py": "import p\nclass A:\n    b: p.B",
        "b.py": "from p import A",
    },
}


@pytest.mark.parametrize("case", PYTHON)
def test_python(tmp_path: Path, case: str):
    files = {"__init__.py": ""} | PYTHON[case]
    write(tmp_path, {f"p/{name}": text for name, text in files.items()})
    found = rings(str(tmp_path))
    assert found.returncode == 1, found.stdout + found.stderr
    assert "Python: a ring of 2: p::" in found.stdout


@pytest.mark.parametrize(
    "text",
    [
        "import { b } from './b'",
        "import type { B } from './b.js'",
        "export * from './b'",
        "const b = await import('./b')",
        "let b: import('./b').B",
    ],
)
def test_typescript(tmp_path: Path, text: str):
    write(tmp_path, {"a.ts": text, "b.ts": "import {\n  a,\n} from './a'"})
    found = rings(str(tmp_path))
    assert found.returncode == 1, found.stdout + found.stderr
    assert "TypeScript: a ring of 2: a.ts, b.ts" in found.stdout
    assert f"  a.ts:1: a.ts -> b.ts: {'./b.js' if '.js' in text else './b'}\n" in found.stdout


def test_what_is_no_ring(tmp_path: Path):
    files = {
        # A module and its children, tests, comments and strings.
        "c/src/lib.rs": "mod a;\nmod b;\npub use a::A;\npub fn f() { b::g() }",
        "c/src/a.rs": "mod inner;\nuse inner::I;\npub struct A;",
        "c/src/a/inner.rs": "use super::A;\nuse crate::b;\npub struct I;",
        "c/src/b.rs": "#[cfg(test)]\nmod tests;\n// crate::a\n/* /* */ use crate::a::A; */\n"
        'pub fn g() { crate::f(); let _ = r#""crate::a::A"#; }\n'
        "#[cfg(test)]\nuse crate::A;\n#[cfg(all(test, unix))]\nmod t { use crate::a::A; }",
        "c/src/b/tests.rs": "use crate::a::A;",
        "c/tests/whole.rs": "use c::A;",
        "p/__init__.py": "from p.a import A",
        "p/a.py": "import p\nimport p.b\n# import p.c",
        "p/b.py": "TEXT = 'from p import a'",
        "s/a.ts": "import { b } from './b'\nimport './a.css'\nimport x from 'react'",
        "s/b.ts": "// import { a } from './a'\n/* export * from './a' */",
    }
    write(tmp_path, CARGO | files)
    found = rings(str(tmp_path))
    assert (found.returncode, found.stdout) == (0, "no rings\n"), found.stdout + found.stderr
