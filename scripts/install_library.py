"""Installs libkubist below a prefix: library, headers, Fortran sources, pkg-config, CMake.

    python scripts/install_library.py target/release PREFIX

The folder has cargo's build of the library; nothing is compiled here.
"""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATE = ROOT / "crates/bindings/kubist-capi"

PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include
fortrandir=${{prefix}}/share/kubist/fortran

Name: kubist
Description: A store for point-like scientific data
Version: {version}
Libs: -L${{libdir}} -lkubist
Libs.private: -lpthread -ldl -lm -lrt -lutil
Cflags: -I${{includedir}}
"""

CMAKE = """\
# find_package(kubist) gives the target kubist::kubist, and kubist_FORTRAN_DIR with the sources
# of the Fortran modules.
get_filename_component(_kubist_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
set(kubist_FORTRAN_DIR "${{_kubist_prefix}}/share/kubist/fortran")
if(NOT TARGET kubist::kubist)
  add_library(kubist::kubist SHARED IMPORTED)
  set_target_properties(kubist::kubist PROPERTIES
    IMPORTED_LOCATION "${{_kubist_prefix}}/lib/libkubist.so.{abi}"
    IMPORTED_SONAME "libkubist.so.{abi}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_kubist_prefix}}/include")
endif()
unset(_kubist_prefix)
"""

CMAKE_VERSION = """\
set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION_MAJOR EQUAL {major} AND PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
"""


def found(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{path}: no {pattern}")
    return match[1]


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    """Replaces a file atomically; processes that have the old one open keep it."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    make(new)
    new.replace(path)


def install(built: Path, prefix: Path) -> None:
    version = found(r'^version = "(.*)"', ROOT / "Cargo.toml")
    abi = found(r"^#define KUBIST_ABI_VERSION (\d+)", CRATE / "include/kubist.h")
    lib, include, fortran = prefix / "lib", prefix / "include", prefix / "share/kubist/fortran"
    pkg_config, cmake = lib / "pkgconfig", lib / "cmake/kubist"
    for folder in (lib, include, fortran, pkg_config, cmake):
        folder.mkdir(parents=True, exist_ok=True)
    whole = lib / f"libkubist.so.{version}"
    replaced(whole, lambda new: shutil.copy(built / "libkubist_capi.so", new).chmod(0o755))
    soname = f"libkubist.so.{abi}"
    replaced(lib / soname, lambda new: new.symlink_to(whole.name))
    replaced(lib / "libkubist.so", lambda new: new.symlink_to(soname))
    replaced(lib / "libkubist.a", lambda new: shutil.copy(built / "libkubist_capi.a", new))
    for header in (CRATE / "include").iterdir():
        shutil.copy(header, include)
    for source in (CRATE / "fortran").iterdir():
        shutil.copy(source, fortran)
    values = {"version": version, "major": version.split(".")[0], "abi": abi}
    (pkg_config / "kubist.pc").write_text(PKG_CONFIG.format(**values))
    (cmake / "kubist-config.cmake").write_text(CMAKE.format(**values))
    (cmake / "kubist-config-version.cmake").write_text(CMAKE_VERSION.format(**values))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    install(Path(sys.argv[1]), Path(sys.argv[2]))
