"""Builds what a wheel has beside Python files: the extension module, with the command in it.

The cargo call is that of `make build`, so that a wheel made after it compiles nothing. Needs Rust,
and for the explorer page Node.js; what is installed needs neither. KUBIST_PROFILE=dev packs a build
without optimisations, which takes a fraction of the time.
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
    "A wheel that somebody else built needs no Rust: pip install kubist-*.whl"
)


class BuildHook(BuildHookInterface[Any]):
    """Puts the module into the package, and what calls its command where commands are."""

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
        # One module for Python 3.11 and all that come after it.
        build_data["tag"] = f"cp311-abi3-{platform}"
