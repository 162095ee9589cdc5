"""The results of a run, and their statistics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

KUBIST = "kubist"


@dataclass
class Results:
    values: dict[str, Any]

    @property
    def name(self) -> str:
        return self.values["suite"]

    @property
    def systems(self) -> dict[str, dict[str, Any]]:
        return self.values["systems"]

    @property
    def peers(self) -> list[str]:
        """Configurations that their makers offer."""
        others = [key for key in self.systems if not key.startswith(KUBIST)]
        return [key for key in others if self.systems[key].get("product", True)]

    @property
    def by_hand(self) -> list[str]:
        """Configurations of our own design."""
        others = [key for key in self.systems if not key.startswith(KUBIST)]
        return [key for key in others if key not in self.peers]

    @property
    def rows(self) -> int:
        return self.values["data"]["rows"]

    @property
    def raw_bytes(self) -> int:
        return self.rows * self.values["row_bytes"]

    def cell(self, key: str, state: str, bounded: bool = False) -> Cell | None:
        for each in self.values["cells"]:
            if (each["cell"], each["state"], each["bounded"]) == (key, state, bounded):
                return Cell(each)
        return None

    def cells(self, state: str | None = None, target: str | None = None) -> list[Cell]:
        return [
            Cell(each)
            for each in self.values["cells"]
            if state in (None, each["state"]) and target in (None, each["target"])
        ]

    def build(self, key: str) -> dict[str, Any] | None:
        return self.values["build"].get(key)


@dataclass
class Cell:
    """One query in one state, for all systems."""

    values: dict[str, Any]

    @property
    def label(self) -> str:
        return self.values["label"]

    @property
    def state(self) -> str:
        return self.values["state"]

    def median(self, system: str, figure: str = "seconds") -> float | None:
        """Over locations and turns; None if the system has no runs."""
        found = self.values["systems"].get(system, {"runs": []})["runs"]
        known = [run[figure] for run in found if run.get(figure) is not None]
        return median(known) if known else None

    def reason(self, system: str) -> str | None:
        return self.values["systems"].get(system, {}).get("reason")

    def ratio(self, system: str, above: str, below: str) -> float | None:
        """Median of the ratios of two measurements, run by run."""
        found = self.values["systems"].get(system, {"runs": []})["runs"]
        known = [run[above] / max(run[below], 1) for run in found if run.get(above) is not None]
        return median(known) if known else None

    def fastest(self, among: list[str]) -> tuple[str, float] | None:
        found = [(seconds, key) for key in among if (seconds := self.median(key)) is not None]
        if not found:
            return None
        seconds, key = min(found)
        return key, seconds

    def lead(self, over: list[str]) -> float | None:
        peer, mine = self.fastest(over), self.median(KUBIST)
        return peer[1] / mine if peer and mine else None


def read(directory: Path) -> dict[str, Results]:
    found = [Results(json.loads(path.read_text())) for path in sorted(directory.glob("*.json"))]
    return {each.name: each for each in found}
