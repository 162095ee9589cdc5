"""Public functions of the Rust crates document their errors (`# Errors`).

clippy's `missing_errors_doc` checks only reachable functions; this checks all public modules.
"""

import re
from collections.abc import Iterator
from pathlib import Path

CRATES = Path(__file__).resolve().parents[2] / "crates"

FUNCTION = re.compile(r"^ *pub (?:async |const )*fn (\w+)(.*?)[{;]$", re.M | re.S)
# The result of the function itself, not of an argument.
FAILS = re.compile(r"-> *(?:\w+::)*Result<(?!.*->)", re.S)


def public(folder: Path, root: Path) -> Iterator[Path]:
    text = root.read_text()
    yield root
    for name in re.findall(r"^pub mod (\w+);", text, re.M):
        for file in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if file.exists():
                yield from public(folder / name, file)


def silent(text: str) -> Iterator[str]:
    code = re.sub(r"^(?:pub\(crate\) )?mod \w+ \{$.*?^}$", "", text, flags=re.M | re.S)
    for found in FUNCTION.finditer(code):
        if FAILS.search(found[2]):
            above = code[: found.start()].rstrip("\n").split("\n")
            doc = []
            while above and re.match(r" *(///|#\[)", above[-1]):
                doc.append(above.pop())
            if not any("# Errors" in line for line in doc):
                yield found[1]


def test_public_functions_say_how_they_fail() -> None:
    missing = []
    for root in sorted(CRATES.glob("*/*/src/lib.rs")):
        for file in public(root.parent, root):
            missing += [f"{file.relative_to(CRATES)}: {name}" for name in silent(file.read_text())]
    assert not missing, "\n".join(missing)


def test_what_is_found() -> None:
    text = """
/// Reads.
pub fn silent(&self) -> Result<u8> {
/// Reads.
///
/// # Errors
///
/// `Damaged`.
#[inline]
pub fn says(
    at: u64,
) -> io::Result<u8> {
pub(crate) fn inside() -> Result<()> {
pub fn whole(of: impl Fn() -> Result<u8>) -> Option<u8> {
#[cfg(test)]
mod tests {
pub fn of_tests() -> Result<()> {
}
"""
    assert list(silent(text)) == ["silent"]
