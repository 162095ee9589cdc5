"""The C library: its exports, errors and guarantees."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from libkubist import (
    BOOL,
    CRATE,
    F32,
    F64,
    I64,
    TABLE,
    Failed,
    Library,
    built,
    install,
    need,
    put,
    put_all,
    run,
)

import kubist


@pytest.fixture
def table(lib: Library, path: Path) -> c_void_p:
    return lib.handle("table_create", str(path), TABLE)


def refused(status: str, *words: str, call: Callable[[], object]) -> None:
    with pytest.raises(Failed) as failed:
        call()
    assert failed.value.status == status
    for word in words:
        assert word in failed.value.message, failed.value.message


def test_the_library_exports_its_functions_and_nothing_else() -> None:
    need("nm")
    listed = run("nm", "-D", "--defined-only", built() / "libkubist_capi.so").split("\n")
    exported = {line.split()[2].split("@")[0] for line in listed if line}
    header = (CRATE / "include/kubist.h").read_text()
    declared = set(re.findall(r"\b(kubist_\w+)\(", re.sub(r"//.*", "", header)))
    assert exported == declared


def declarations(header: str) -> list[str]:
    """The ABI of the header: one declaration per line, without comments."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    code = re.sub(r"//.*|^#.*", "", code, flags=re.MULTILINE)
    constants = re.findall(r"^#define KUBIST_\w+ \S+", header, flags=re.MULTILINE)
    # A semicolon ends a declaration, except inside braces.
    whole = re.findall(r"[^;{]+(?:\{[^}]*\}[^;]*)?;", code.replace('extern "C" {', ""))
    return sorted(constants + [" ".join(part.split()) for part in whole])


def test_the_header_is_that_of_the_sources() -> None:
    need("cbindgen")
    made = run("cbindgen", "--quiet", "--config", "cbindgen.toml", ".", cwd=CRATE)
    version = run("cbindgen", "--version").split()[1]
    header = (CRATE / "include/kubist.h").read_text()
    if version == "0.24.3":
        assert made == header, "make header"
    assert declarations(made) == declarations(header), "make header"


def test_the_abi_changes_with_its_version_only() -> None:
    header = (CRATE / "include/kubist.h").read_text()
    version = re.search(r"#define KUBIST_ABI_VERSION (\d+)", header)
    assert version is not None
    kept = (CRATE / f"abi/{version[1]}").read_text().splitlines()
    gone = set(kept) - set(declarations(header))
    assert not gone, f"programs rely on this: {gone}"
    new = set(declarations(header)) - set(kept)
    assert not new, f"add them to abi/{version[1]}, and they stay: {new}"
    lib = ctypes.CDLL(str(built() / "libkubist_capi.so"))
    assert lib.kubist_abi_version() == int(version[1])


def test_what_is_put_is_found(lib: Library, table: c_void_p, path: Path) -> None:
    writer = lib.handle("writer_open", table, '{"name": "solver"}')
    rows = np.zeros(1000, dtype=[("x", "f8"), ("hot", "u1"), ("pid", "i8")])
    rows["x"], rows["pid"], rows["hot"] = np.linspace(0, 1, 1000), np.arange(1000), 2
    lib.begin_step(writer, 7)
    for name, kind in (("x", F64), ("pid", I64), ("hot", BOOL)):
        first = rows.ctypes.data + rows.dtype.fields[name][1]
        lib.put(writer, name, c_int32(kind), c_void_p(first), len(rows), rows.dtype.itemsize)
        # The solver reuses its memory immediately.
        rows[name] = 0
    lib.end_step(writer, None, None)
    lib.writer_close(writer, 10.0)
    found = kubist.open(path).query(steps=7).to_arrow().sort_by("pid").to_pydict()
    assert found["x"] == np.linspace(0, 1, 1000).tolist()
    assert found["pid"] == list(range(1000))
    assert found["hot"] == [True] * 1000
    assert lib.rows(table, '{"box": {"x": [0.25, 0.5]}}') == sum(
        0.25 <= x <= 0.5 for x in np.linspace(0, 1, 1000)
    )
    figures = json.loads(lib.text("estimate", table, '{"aggregates": ["mean(x)"]}'))["figures"]
    assert figures[0]["low"] <= 0.5 <= figures[0]["high"]
    assert json.loads(lib.text("table_info", table))["rows"] == 1000


def test_arrow_goes_in_and_comes_out(lib: Library, table: c_void_p) -> None:
    writer = lib.handle("writer_open", table, "")
    batch = pa.record_batch({"x": [0.5, 0.75], "pid": [1, 2], "hot": [True, False]})
    memory = [ctypes.create_string_buffer(256) for _ in range(2)]
    array, schema = map(ctypes.addressof, memory)
    batch._export_to_c(array, schema)
    lib.begin_step(writer, 1)
    lib.put_arrow(writer, c_void_p(schema), c_void_p(array))
    lib.end_step(writer, None, None)
    stream = ctypes.create_string_buffer(256)
    lib.query(table, '{"where": "x > 0.6"}', stream)
    reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream))
    assert reader.read_all().to_pylist() == [{"x": 0.75, "pid": 2, "hot": False}]
    refine, found, rows = lib.handle("refine", table, '{"start": 0.5, "factor": 2}'), c_int32(1), 0
    while True:
        lib.refine_next(refine, stream, byref(found))
        if not found.value:
            break
        rows += pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all().num_rows
    assert rows == 2
    lib.refine_close(refine)
    lib.writer_close(writer, 10.0)


def test_creating_is_repeatable_and_dropping_is_not(lib: Library, path: Path) -> None:
    first = lib.handle("table_create", str(path), TABLE)
    again = lib.handle("table_create", str(path), TABLE)
    other = TABLE.replace('"pid"]', '"x"]')
    refused("exists", str(path), call=lambda: lib.handle("table_create", str(path), other))
    lib.table_close(first)
    lib.table_close(again)
    lib.table_drop(str(path), None)
    refused("not_found", str(path), call=lambda: lib.handle("table_open", str(path)))


@pytest.mark.parametrize("queue", [0, 2])
def test_a_step_in_disorder_is_refused_and_the_writer_goes_on(
    lib: Library, table: c_void_p, path: Path, queue: int
) -> None:
    writer = lib.handle("writer_open", table, json.dumps({"queue": queue}))
    refused("invalid_input", "no step", call=lambda: put(lib, writer, "x", F64, [1]))
    refused("invalid_input", "no step", call=lambda: lib.end_step(writer, None, None))
    lib.begin_step(writer, 1)
    refused("invalid_input", "step 1", "step 2", call=lambda: lib.begin_step(writer, 2))
    put(lib, writer, "x", F64, [0.1, 0.2, 0.3])
    name = str(path)
    missing = lambda: lib.end_step(writer, None, None)  # noqa: E731
    refused("invalid_input", name, "pid, hot", call=missing)
    short = 'column "pid" has 2 values in step 1, and column "x" has 3'
    refused("invalid_input", short, call=lambda: put(lib, writer, "pid", I64, [1, 2]))
    unknown = lambda: put(lib, writer, "z", F64, [])  # noqa: E731
    refused("invalid_input", name, '"z"', "x, pid, hot", call=unknown)
    refused("invalid_input", '"pid"', "i64", "f32", call=lambda: put(lib, writer, "pid", F32, []))
    refused("invalid_input", "already", call=lambda: put(lib, writer, "x", F64, [0.1, 0.2, 0.3]))
    null = lambda: lib.put(writer, "pid", c_int32(I64), None, 3, 0)  # noqa: E731
    refused("invalid_input", '"pid"', "null", call=null)
    kind = lambda: lib.put(writer, "pid", c_int32(99), None, 0, 0)  # noqa: E731
    refused("invalid_input", '"pid"', "99", call=kind)
    put(lib, writer, "pid", I64, [1, 2, 3])
    put(lib, writer, "hot", BOOL, [0, 1, 0])
    lib.end_step(writer, None, None)
    lib.writer_close(writer, 10.0)
    assert lib.rows(table) == 3


def test_null_handles_and_texts_are_named(lib: Library, table: c_void_p) -> None:
    refused("invalid_input", "location", call=lambda: lib.handle("table_open", None))
    refused("invalid_input", "table is null", call=lambda: lib.rows(c_void_p()))
    refused("invalid_input", "writer is null", call=lambda: lib.begin_step(None, 1))
    refused("invalid_input", "options", "colums", call=lambda: create(lib, '{"colums": {}}'))
    refused("invalid_input", "pointer to the handle is null", call=lambda: lib.writer_open(table, None, None))
    refused("invalid_input", "UTF-8", call=lambda: lib.count(table, b"\xff", byref(c_uint64())))


def create(lib: Library, options: str) -> c_void_p:
    return lib.handle("table_create", "memory://refused", options)


def test_coordinates_that_are_not_a_number_are_kept(lib: Library, table: c_void_p) -> None:
    writer = lib.handle("writer_open", table, None)
    lib.begin_step(writer, 1)
    put_all(lib, writer, [float("nan"), 0.5, float("inf")])
    lib.end_step(writer, None, None)
    assert lib.rows(table) == 3
    assert lib.rows(table, '{"box": {"x": [0, 1]}}') == 1
    lib.writer_close(writer, 10.0)


def test_a_queue_waits_fails_or_loses_nothing(lib: Library, table: c_void_p) -> None:
    writer = lib.handle("writer_open", table, '{"name": "w", "queue": 1, "when_full": "fail"}')
    ended, full = 0, 0
    for step in range(1, 40):
        lib.begin_step(writer, step)
        put_all(lib, writer, [0.5] * 100)
        try:
            lib.end_step(writer, None, None)
            ended += 1
        except Failed as failure:
            assert failure.status == "busy"
            full += 1
            lib.abandon_step(writer)
    lib.wait(writer, 2**63 - 1, 30.0)
    assert lib.rows(table) == 100 * ended
    assert ended + full == 39 and full > 0
    lib.writer_close(writer, 30.0)


def test_what_fails_behind_the_calls_is_told(lib: Library, table: c_void_p) -> None:
    events: list[tuple[int, str]] = []
    callback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, ctypes.c_char_p)

    @callback
    def log(user: object, level: int, message: bytes) -> None:
        events.append((level, message.decode()))

    lib.dll.kubist_set_log(log, None)
    for step in (5, 4):
        writer = lib.handle("writer_open", table, '{"name": "w", "queue": 1}')
        lib.begin_step(writer, step)
        put_all(lib, writer, [0.5])
        lib.end_step(writer, None, None)
        if step == 5:
            # Only the commit detects an earlier writer of the same name.
            lib.writer_close(writer, 30.0)
    refused("invalid_input", "step 4", call=lambda: lib.wait(writer, 2**63 - 1, 30.0))
    refused("invalid_input", "step 4", call=lambda: lib.begin_step(writer, 6))
    refused("invalid_input", "step 4", call=lambda: lib.writer_close(writer, 30.0))
    lib.dll.kubist_set_log(callback(), None)
    assert lib.rows(table) == 1
    # Whether a step meets a full queue is random.
    told = [(level, message) for level, message in events if level != 1]
    assert [level for level, _ in told] == [0, 2]
    assert "step 5 is durable: 1 rows" in told[0][1]
    assert "step 4 was not written" in told[1][1]


def test_a_unit_that_is_not_known_is_told(lib: Library, path: Path) -> None:
    events: list[tuple[int, str]] = []
    callback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, ctypes.c_char_p)
    log = callback(lambda user, level, message: events.append((level, message.decode())))
    columns = {"x": {"type": "f64", "unit": "metr"}, "u": {"type": "f64", "unit": "m/s"}}
    lib.dll.kubist_set_log(log, None)
    lib.handle(
        "table_create", str(path), json.dumps({"columns": columns, "dimensions": {"x": None}})
    )
    lib.dll.kubist_set_log(callback(), None)
    ((level, message),) = events
    assert level == 1 and message.startswith(f'{path}: column "x": the unit `metr` is not known')
    assert "did you mean `meter` or `metre`?" in message


class Hooks(ctypes.Structure):
    _fields_ = [
        ("size", c_uint64),
        ("user", c_void_p),
        ("cancelled", ctypes.CFUNCTYPE(c_int32, c_void_p)),
        ("progress", ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)),
    ]


def test_a_callback_stops_a_wait_and_the_writer_goes_on(lib: Library, table: c_void_p) -> None:
    holder = lib.handle("writer_open", table, '{"name": "w"}')
    asked = 0

    def cancelled(user: object) -> int:
        nonlocal asked
        asked += 1
        return int(asked > 2)

    progress = Hooks._fields_[3][1](lambda user, done, total: None)
    hooks = Hooks(ctypes.sizeof(Hooks), None, Hooks._fields_[2][1](cancelled), progress)
    lib.table_set_hooks(table, byref(hooks))
    waiting = '{"name": "w", "timeout_seconds": 600}'
    refused("cancelled", '"w"', call=lambda: lib.handle("writer_open", table, waiting))
    lib.table_set_hooks(table, None)
    short = '{"name": "w", "timeout_seconds": 0.1}'
    refused("busy", '"w"', call=lambda: lib.handle("writer_open", table, short))
    wrong = Hooks(3, None, hooks.cancelled, progress)
    refused("invalid_input", "size is 3", call=lambda: lib.table_set_hooks(table, byref(wrong)))
    lib.begin_step(holder, 1)
    put_all(lib, holder, [0.5])
    lib.end_step(holder, None, None)
    assert lib.rows(table) == 1
    lib.writer_close(holder, 1.0)


def test_a_restart_takes_steps_back_and_repeats_none(lib: Library, table: c_void_p) -> None:
    lib.declare_writers(table, '{"count": 1}')

    def steps(first: int, last: int) -> None:
        writer = lib.handle("writer_open", table, '{"name": "w", "tokens": true}')
        for step in range(first, last + 1):
            lib.begin_step(writer, step)
            put_all(lib, writer, [step / 100] * 10)
            lib.end_step(writer, None, None)
        lib.writer_close(writer, 10.0)

    steps(1, 5)
    steps(4, 6)
    assert lib.rows(table) == 60
    gone = c_uint64()
    lib.retract_after(table, 3, byref(gone))
    assert gone.value == 30
    steps(4, 5)
    step, found = c_int64(), c_int32()
    lib.last_step(table, byref(step), byref(found))
    assert (found.value, step.value, lib.rows(table)) == (1, 5, 50)


def test_a_process_that_ends_without_closing_leaves_a_sound_table(
    lib: Library, table: c_void_p, path: Path
) -> None:
    script = f"""
        import sys, os
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_capi import *
        lib = Library(built() / "libkubist_capi.so")
        table = lib.handle("table_open", {str(path)!r})
        for name, queue in (("sync", 0), ("queued", 4)):
            writer = lib.handle("writer_open", table, json.dumps(dict(name=name, queue=queue)))
            lib.begin_step(writer, 1)
            put_all(lib, writer, [0.5] * 10)
            lib.end_step(writer, None, None)
            if queue:
                lib.wait(writer, 1, 30.0)
            lib.begin_step(writer, 2)
            put_all(lib, writer, [0.5] * 10)
        os.write(1, b"acknowledged")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "acknowledged"), done.stderr
    assert lib.rows(table) == 20
    assert kubist.open(path).verify(deep=True).ok
    writer = lib.handle("writer_open", table, '{"name": "sync"}')
    lib.writer_close(writer, 1.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("queue", [0, 2])
def test_a_full_disk_ends_the_writer_and_keeps_what_was_acknowledged(
    lib: Library, small_disk: Path, queue: int
) -> None:
    table = lib.handle("table_create", str(small_disk / "t"), TABLE)
    writer = lib.handle("writer_open", table, json.dumps({"name": "w", "queue": queue}))
    random, durable = np.random.default_rng(1), 0
    with pytest.raises(Failed) as failed:
        for step in range(1, 200):
            lib.begin_step(writer, step)
            put_all(lib, writer, random.random(20_000).tolist())
            lib.end_step(writer, None, None)
            lib.wait(writer, step, 60.0)
            durable = step
    assert failed.value.status == "no_space", failed.value
    assert durable > 0
    assert lib.rows(table) == 20_000 * durable
    if queue:
        refused("no_space", f"step {durable + 1}", call=lambda: lib.writer_close(writer, 60.0))
    else:
        lib.writer_close(writer, 60.0)
    assert kubist.open(small_disk / "t").verify(deep=True).ok


def test_who_listens_may_call_the_writer(lib: Library, table: c_void_p) -> None:
    callback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, ctypes.c_char_p)
    writer = lib.handle("writer_open", table, '{"queue": 1}')
    answers: list[int] = []

    @callback
    def log(user: object, level: int, message: bytes) -> None:
        answers.append(lib.dll.kubist_wait(writer, c_int64(1), ctypes.c_double(30.0)))

    lib.dll.kubist_set_log(log, None)
    lib.begin_step(writer, 1)
    put_all(lib, writer, [0.5])
    lib.end_step(writer, None, None)
    lib.wait(writer, 1, 30.0)
    lib.dll.kubist_set_log(callback(), None)
    assert answers and set(answers) == {0}
    lib.writer_close(writer, 30.0)


def test_a_handle_that_there_is_not_is_null(lib: Library, table: c_void_p, path: Path) -> None:
    handle = c_void_p(1)
    missing = str(path.with_name("missing"))
    refused("not_found", call=lambda: lib.table_open(missing, byref(handle)))
    assert handle.value is None
    handle = c_void_p(1)
    refused("invalid_input", call=lambda: lib.writer_open(table, '{"nme": 1}', byref(handle)))
    assert handle.value is None


def test_an_answer_outlives_its_table(lib: Library, path: Path) -> None:
    table = lib.handle("table_create", str(path), TABLE)
    writer = lib.handle("writer_open", table, None)
    lib.begin_step(writer, 1)
    put_all(lib, writer, [0.25, 0.5])
    lib.end_step(writer, None, None)
    # An invalid time is an error, but the handle is released.
    lib.writer_close(writer, float("nan"))
    stream = ctypes.create_string_buffer(256)
    lib.query(table, "", stream)
    lib.table_close(table)
    reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream))
    assert reader.read_all().num_rows == 2


@pytest.mark.parametrize("queue", [0, 2])
def test_a_fork_is_refused(lib: Library, table: c_void_p, queue: int) -> None:
    writer = lib.handle("writer_open", table, json.dumps({"queue": queue}))
    child = os.fork()
    if child == 0:
        try:
            lib.begin_step(writer, 1)
            put_all(lib, writer, [0.5])
            lib.end_step(writer, None, None)
        except Failed as failure:
            os._exit(0 if failure.status == "expired" else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lib.writer_close(writer, 1.0)


def test_programs_find_the_installed_library(tmp_path: Path) -> None:
    need("cc", "pkg-config", "cmake")
    prefix = install(tmp_path / "prefix")
    source = tmp_path / "main.c"
    source.write_text(
        "#include <kubist.h>\n"
        "int main(void) { return kubist_abi_version() != KUBIST_ABI_VERSION; }\n"
    )
    folder = prefix / "lib/pkgconfig"
    flags = run("pkg-config", "--cflags", "--libs", "kubist", env={"PKG_CONFIG_PATH": str(folder)})
    program = tmp_path / "main"
    run("cc", source, "-o", program, *flags.split(), f"-Wl,-rpath,{prefix}/lib")
    run(program)
    project = tmp_path / "CMakeLists.txt"
    project.write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(kubist 0.1 REQUIRED)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user kubist::kubist)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "out", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "out")
    run(tmp_path / "out/user")
    assert shutil.which("ldd") is None or "libkubist.so.1" in run("ldd", tmp_path / "out/user")


def test_floating_point_exceptions_are_left_to_the_solver(tmp_path: Path) -> None:
    """Many solvers trap floating-point exceptions, and some computations here raise them."""
    need("gcc", "g++")
    prefix, program = install(tmp_path / "prefix"), tmp_path / "memory"
    run("gcc", "-c", CRATE / "tests/traps.c", "-o", tmp_path / "traps.o")
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    sources = [CRATE / "tests/memory.cpp", tmp_path / "traps.o"]
    run("g++", "-std=c++17", *sources, "-o", program, *link, "-lm")
    run(program, tmp_path / "table")


@pytest.mark.release
@pytest.mark.parametrize("tool", ["valgrind", "sanitizers"])
def test_memory_is_read_written_and_freed_as_it_should_be(tmp_path: Path, tool: str) -> None:
    """valgrind cannot attribute the memory of threads that run at exit."""
    need("g++", *([tool] if tool == "valgrind" else []))
    prefix, program = install(tmp_path / "prefix"), tmp_path / "memory"
    flags = ["-fsanitize=address,undefined"] if tool == "sanitizers" else []
    link = [f"-I{prefix}/include", f"-L{prefix}/lib", "-lkubist", f"-Wl,-rpath,{prefix}/lib"]
    run("g++", "-std=c++17", "-g", *flags, CRATE / "tests/memory.cpp", "-o", program, *link)
    watch = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]
    watch += ["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
    run(*(watch if tool == "valgrind" else []), program, tmp_path / "table")
