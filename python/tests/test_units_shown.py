"""The unit of a computed value, in each binding."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from servers import COMMAND, Server

import kubist


@pytest.fixture
def run(tmp_path: Path) -> kubist.Table:
    hours = np.arange(0.0, 240.0)
    return kubist.create(
        tmp_path / "t.kubist",
        {"x": hours / 100, "time": hours * 3600, "width": np.full(240, 25.0)},
        dimensions=["x"],
        units={"x": "m", "time": "s", "width": "mm"},
    )


KEYS = [
    # A multiple: another quantity or another unit is ambiguous.
    ("floor(time/86400)", None),
    ("floor(time/86400)*86400", None),
    ("round(x*1000)", None),
    # Same quantity: days.
    ("floor(time / 1day)", None),
    ("floor(x / width)", None),
    # Still seconds and metres.
    ("time - time % 86400", "s"),
    ("bin(time, 1day)", "s"),
    ("floor(x)", "m"),
    ("abs(-1 * x)", "m"),
    ("bin(x / time, 1)", "m/s"),
]


@pytest.mark.parametrize(("key", "unit"), KEYS)
def test_keys_of_groups(run: kubist.Table, key: str, unit: str | None) -> None:
    e = run.estimate("count()", group_by=key)
    assert (f"{key} [{unit}]" if unit else key) == shown(str(e), key)
    asked = [str(COMMAND), "estimate", run.location, "count()", "--group-by", key]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120)
    assert (f"{key} [{unit}]" if unit else key) == shown(done.stdout, key)


def shown(text: str, key: str) -> str:
    heading = next(line for line in text.splitlines() if key in line)
    return heading[heading.index(key) :].split("  ")[0].strip()


def test_figures_and_bins(run: kubist.Table) -> None:
    days = run.estimate("count()", group_by="floor(time / 1day)").to_dicts()
    assert [(row["floor(time / 1day)"], row["value"]) for row in days] == [
        (d, 24) for d in range(10)
    ]
    for asked, unit in {
        "mean(x)": " m",
        "mean(x * 100)": "",
        "mean(time / 86400)": "",
        "mean(time / 1day)": "",
        "mean(x / width)": "",
        "sum(2 * x) / count()": "",
        "sum(2 * x) / sum(x)": "",
        "sum(x) * 100": "",
        "mean(x) + sum(x)": " m",
        "p95(x * 1e6)": "",
        "cov(x, 2 * x)": "",
        "std(x)": " m",
    }.items():
        line = str(run.estimate(asked, sample=1)).splitlines()[1].rstrip()
        value = line.removeprefix(asked).removesuffix(" exactly").strip()
        assert value.endswith(unit) if unit else value[-1].isdigit(), (asked, line)
    edges = str(run.estimate("histogram(x * 100, 4)", sample=1))
    assert " m" not in edges.rsplit("(95 %", 1)[0], edges
    # A quotient of equal quantities is a plain number, in any units.
    assert run.estimate("max(x / width)").value == pytest.approx(2.39 / 0.025)
    assert run.count(where="time / 1day >= 9") == 24
    # A literal with a unit still compares.
    assert run.count(where="x * 2 > 1m") == run.count(where="x > 0.5")
    with pytest.raises(kubist.InvalidInput, match="is in m, and cannot be compared with 1 s"):
        run.count(where="x * 2 > 1s")


def test_over_http(run: kubist.Table) -> None:
    """The page and remote tables use the units in the server's responses."""
    with Server(run.location) as server:
        elsewhere = kubist.connect(server.url)
        for key, unit in KEYS:
            here = str(elsewhere.estimate("mean(x * 100), mean(x)", group_by=key, sample=1))
            assert (f"{key} [{unit}]" if unit else key) == shown(here, key)
            assert here.splitlines()[1].rstrip().removesuffix(" exactly")[-1].isdigit(), here
            assert " m" in here.splitlines()[2], here
