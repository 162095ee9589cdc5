"""The C library through ctypes, and its installation for compiled test programs."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "crates/bindings/kubist-capi"

STATUS = [
    "ok",
    "invalid_input",
    "corrupt",
    "unavailable",
    "no_space",
    "permission",
    "busy",
    "expired",
    "cancelled",
    "unsupported",
    "not_found",
    "exists",
    "internal",
]
# Open MPI with fewer cores than ranks, and as root.
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}
F32, F64, I32, I64, U8, BOOL = range(1, 7)


def built() -> Path:
    named = os.environ.get("KUBIST_LIBRARY_DIR")
    folders = [Path(named)] if named else [ROOT / "target/release", ROOT / "target/debug"]
    for folder in folders:
        if (folder / "libkubist_capi.so").exists():
            return folder
    pytest.skip("libkubist is not built")


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **options,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(prefix: Path) -> Path:
    run(sys.executable, ROOT / "scripts/install_library.py", built(), prefix)
    return prefix


class Failed(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{STATUS[status]}: {message}")
        self.status = STATUS[status]
        self.message = message


class Library:
    """Functions of kubist.h by their names without the prefix; a failure raises Failed."""

    def __init__(self, path: Path) -> None:
        self.dll = ctypes.CDLL(str(path))
        self.dll.kubist_message.restype = c_char_p

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.dll, f"kubist_{name}")

        def call(*arguments: Any) -> None:
            status = function(*map(crossing, arguments))
            if status != 0:
                raise Failed(status, self.dll.kubist_message().decode())

        return call

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        handle = c_void_p()
        getattr(self, name)(*arguments, byref(handle))
        return handle

    def text(self, name: str, *arguments: Any) -> str:
        answer = c_char_p()
        getattr(self, name)(*arguments, byref(answer))
        assert answer.value is not None
        return answer.value.decode()

    def rows(self, table: c_void_p, query: str = "") -> int:
        rows = c_uint64()
        self.count(table, query, byref(rows))
        return rows.value


def crossing(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return c_double(value)
    if isinstance(value, int):
        return c_int64(value)
    return value


TABLE = json.dumps(
    {
        "columns": {"x": "f64", "pid": "i64", "hot": "bool"},
        "dimensions": {"x": [0, 1]},
        "identity": ["pid"],
    }
)


def put(lib: Library, writer: c_void_p, column: str, kind: int, values: Sequence[float]) -> None:
    array = np.array(values, dtype={F32: "f4", F64: "f8", I64: "i8", BOOL: "u1"}[kind])
    lib.put(writer, column, c_int32(kind), c_void_p(array.ctypes.data), len(array), 0)


def put_all(lib: Library, writer: c_void_p, x: Sequence[float]) -> None:
    put(lib, writer, "x", F64, x)
    put(lib, writer, "pid", I64, range(len(x)))
    put(lib, writer, "hot", BOOL, [n % 2 for n in range(len(x))])
