"""Builds the extension module of a wheel, which contains the command.

The cargo call is that of `make build`, so a wheel after it compiles nothing. Building needs Rust,
and Node.js for the explorer page; an installed wheel needs neither. KUBIST_PROFILE=dev packs a
build without optimisations, which compiles much faster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target"

NO_CARGO = (
    "Kubist is built with Rust 1.88 or newer (https://rustup.rs), and cargo is not on the PATH. "
    "A wheel that was built elsewhere needs no Rust: pip install kubist-*.whl"
)


class BuildHook(BuildHookInterface[Any]):
    """Adds the module to the package, and the script of its command."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if shutil.which("cargo") is None:
            raise RuntimeError(NO_CARGO)
        if not (ROOT / "viewer" / "dist" / "app.js").exists():
            subprocess.run(["make", "-C", str(ROOT), "page"], check=True)
        profile = os.environ.get("KUBIST_PROFILE", "release")
        command = ["cargo", "build", "--locked", "--profile", profile]
        subprocess.run([*command, "--target-dir", str(TARGET)], cwd=ROOT, check=True)
        built = TARGET / ("debug" if profile == "dev" else profile)
        module = built / "lib_kubist.so"
        build_data["force_include"][str(module)] = "kubist/_kubist.abi3.so"
        build_data["shared_scripts"][str(ROOT / "python" / "command.py")] = "kubist"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        # The stable ABI: one module for Python 3.11 and later.
        build_data["tag"] = f"cp311-abi3-{platform}"
