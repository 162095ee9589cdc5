"""The state of a loader: its snapshot, its order, and its position."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._errors import InvalidInput
from ._order import Plan
from ._read import Scale

_VERSION = 1


class Position(NamedTuple):
    """The position of the next batch."""

    epoch: int
    group: int
    row: int
    """The position in the order of the group."""
    batches: int
    """Batches of the epoch so far."""


class State(NamedTuple):
    """The properties that, with the rows of the snapshot, determine the remaining batches."""

    snapshot: str
    since: int
    """A time before the snapshot, since which a hold keeps its files."""
    settings: dict[str, Any]
    plan: Plan
    scales: dict[str, Scale]
    position: Position

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for `json`, `pickle` or `torch.save`."""
        return {
            "version": _VERSION,
            "snapshot": self.snapshot,
            "since": self.since,
            "settings": dict(self.settings),
            "plan": list(self.plan),
            "scales": {name: list(scale) for name, scale in self.scales.items()},
            "epoch": self.position.epoch,
            "group": self.position.group,
            "row": self.position.row,
            "cursor": self.position.batches,
        }

    @classmethod
    def from_dict(cls, given: Any) -> State:
        """Parses a state.

        Raises:
            InvalidInput: It is not from `Loader.state_dict`.
        """
        try:
            if given["version"] != _VERSION:
                raise InvalidInput(
                    f"the state has version {given['version']!r}; "
                    f"this Kubist reads version {_VERSION}"
                )
            position = Position(*(int(given[key]) for key in ("epoch", "group", "row", "cursor")))
            parts, drawn = map(int, given["plan"])
            scales = {str(name): Scale(*map(float, pair)) for name, pair in given["scales"].items()}
            snapshot, settings = given["snapshot"], dict(given["settings"])
            since = int(given["since"])
            intact = isinstance(snapshot, str) and min(position) >= 0 and parts >= drawn >= 1
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            intact = False
        if not intact:
            raise InvalidInput(f"not a state of a loader: {given!r:.80}")
        return cls(snapshot, since, settings, Plan(parts, drawn), scales, position)

    def check(self, settings: dict[str, Any]) -> None:
        """Raises `InvalidInput` if a loader with these settings yields other batches."""
        for name, own in settings.items():
            if self.settings.get(name) != own:
                raise InvalidInput(
                    f"the state is of a loader with {name}={self.settings.get(name)!r}, "
                    f"and this one has {name}={own!r}"
                )
