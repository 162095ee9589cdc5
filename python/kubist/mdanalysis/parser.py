"""Stored topologies, for `MDAnalysis.Universe`."""

from __future__ import annotations

from typing import Any

from MDAnalysis.core.topology import Topology
from MDAnalysis.topology.base import TopologyReaderBase

from . import convert, reader


class KubistParser(TopologyReaderBase):
    """Reads the stored topology; without one, only the number of atoms."""

    format = "KUBIST"

    def parse(self, **kwargs: Any) -> Topology:
        """Returns the topology of the atoms that the reader selects with the same keywords."""
        with reader.opened(self.filename, **kwargs) as frames:
            return convert.restored(frames.topology)
