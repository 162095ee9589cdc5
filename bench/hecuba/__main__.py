"""Runs Hecuba's own tests of dictionaries, filters, splits and its storage API over Kubist.

    python -m bench.hecuba

It gets Hecuba's source (``HECUBA``, a repository, otherwise the one on GitHub) at the revision
below, puts the module names of `shim` and the ``storage`` package of integrations/pycompss before
it, and prints each failure with its reason. It exits with 1 if a test fails that is not in
``REASONS``, or passes although it is, because the list and docs/dictionaries.md are then out of
date.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import warnings
from io import BytesIO
from pathlib import Path
from unittest import mock

REPOSITORY = "https://github.com/bsc-dd/hecuba"
REVISION = "c1d24b34"

ROOT = Path(__file__).resolve().parents[2]

SUITES = {
    "dictionaries": [
        "tests.storagedict_tests",
        "tests.hdict_tests",
        "tests.withcassandra.storagedict_tests",
        "tests.withcassandra.tutorial_tests",
    ],
    "filters": ["tests.withcassandra.hfilter_tests"],
    "Qbeast dictionaries": ["tests.withQbeast.qbeast_storagedict_tests"],
    "splits": [
        "tests.withcassandra.storagedict_split_tests",
        "tests.withcassandra.storageobj_split_tests",
    ],
    "storage API": ["tests.withcassandra.storage_api_tests"],
}

REASONS: dict[str, str] = {
    "StorageDictTest.test_dict_print": "expects the order of Cassandra's tokens",
    "StorageDictTest.test_sync": "needs StorageNumpy: arrays are values here",
    "StorageDictTest.test_store_persistent_numpy": "needs StorageNumpy: arrays are values here",
    "QbeastStorageDictTest.testSimple": "reads the table of Hecuba's own index",
}
"""The tests that fail, by class and name."""

TESTS_PACKAGE = """
from unittest import mock
test_config = mock.Mock(n_nodes=1)
TEST_DEBUG = True
def set_ccm_cluster(): pass
def set_up_default_cassandra(): pass
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        _fetch(Path(folder))
        sys.path[:0] = [
            str(ROOT / "bench/hecuba/shim"),
            str(ROOT / "integrations/pycompss"),
            f"{folder}/hecuba_py",
        ]
        sys.modules.setdefault("mock", mock)
        from kubist.hecuba import commit, config

        config.location = f"{folder}/dictionaries"
        code = _run()
        commit()
        return code


def _fetch(folder: Path) -> None:
    """Unpacks the tests; replaces their package, because it starts a Cassandra cluster."""
    source = os.environ.get("HECUBA", "")
    if not source:
        source = f"{folder}/source"
        subprocess.run(
            ["git", "clone", "--quiet", "--bare", REPOSITORY, source], check=True
        )
    archive = subprocess.run(
        ["git", "-C", source, "archive", REVISION, "hecuba_py/tests"],
        check=True,
        capture_output=True,
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    (folder / "hecuba_py/tests/__init__.py").write_text(TESTS_PACKAGE)


def _run() -> int:
    warnings.simplefilter("ignore")
    if not hasattr(unittest.TestCase, "assertEquals"):
        # Removed in Python 3.12.
        unittest.TestCase.assertEquals = unittest.TestCase.assertEqual
        unittest.TestCase.assertAlmostEquals = unittest.TestCase.assertAlmostEqual
    start = time.monotonic()
    total = failed = 0
    wrong = []
    for name, modules in SUITES.items():
        suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
        names = _names(suite)
        result = unittest.TestResult()
        suite.run(result)
        bad = {_name(test): text for test, text in result.failures + result.errors}
        ran = result.testsRun - len(result.skipped)
        total, failed = total + ran, failed + len(bad)
        print(f"{name}: {ran - len(bad)} of {ran}", flush=True)
        for test, text in bad.items():
            print(f"    {test}: {REASONS.get(test) or text.strip()}")
            wrong += [] if test in REASONS else [test]
        wrong += [test for test in REASONS if test in names and test not in bad]
    took = time.monotonic() - start
    known = failed - len(wrong)
    print(f"{100 * (total - failed) / total:.0f} % of {total} pass")
    print(
        f"{len(wrong)} failed, {total - failed} passed, {known} xfailed in {took:.2f}s"
    )
    if wrong:
        print(f"not as docs/dictionaries.md says: {', '.join(wrong)}")
    return 1 if wrong else 0


def _name(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def _names(suite: unittest.TestSuite) -> set[str]:
    found: set[str] = set()
    for each in suite:
        found |= _names(each) if isinstance(each, unittest.TestSuite) else {_name(each)}
    return found


if __name__ == "__main__":
    sys.exit(main())
