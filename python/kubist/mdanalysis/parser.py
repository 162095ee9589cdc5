"""The topology that is kept with a table, for `MDAnalysis.Universe`."""

from __future__ import annotations

from typing import Any

from MDAnalysis.core.topology import Topology
from MDAnalysis.topology.base import TopologyReaderBase

from . import convert, reader


class KubistParser(TopologyReaderBase):
    """Reads what is known of the atoms; without a topology in the table, how many there are."""

    format = "KUBIST"

    def parse(self, **kwargs: Any) -> Topology:
        """The topology of the atoms that the reader would give for the same keywords."""
        with reader.opened(self.filename, **kwargs) as frames:
            return convert.restored(frames.topology)
