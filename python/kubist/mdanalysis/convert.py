"""Conversion between topologies of MDAnalysis and of tables."""

from __future__ import annotations

from typing import Any

import MDAnalysis as mda
import numpy as np
from MDAnalysis.core.topology import Topology as OfMDAnalysis
from MDAnalysis.core.topologyattrs import (
    AtomAttr,
    Atomindices,
    ResidueAttr,
    Resindices,
    Segindices,
    SegmentAttr,
    _Connection,
)

from .._errors import InvalidInput
from .._md.topology import Attribute, Topology

# Attributes that follow from the hierarchy.
DERIVED = (Atomindices, Resindices, Segindices)
LEVELS = {AtomAttr: "atom", ResidueAttr: "residue", SegmentAttr: "segment"}


def stored(universe: mda.Universe, atoms: Any = None) -> Topology:
    """The topology of a universe or of selected atoms, in the form that a table stores."""
    topology = universe._topology
    attributes = {}
    for attribute in topology.attrs:
        if not isinstance(attribute, DERIVED) and (kept := _kept(attribute)) is not None:
            attributes[attribute.attrname] = kept
    whole = Topology(
        topology.n_atoms,
        topology.tt.atoms2residues(np.arange(topology.n_atoms)).astype(np.int32),
        topology.tt.residues2segments(np.arange(topology.n_residues)).astype(np.int32),
        attributes,
    )
    return whole if atoms is None else whole.subset(np.asarray(atoms))


def _kept(attribute: Any) -> Attribute | None:
    """The stored form of an attribute; None for Python objects."""
    if isinstance(attribute, _Connection):
        atoms = np.array(list(attribute.values), dtype=np.int32)
        return Attribute("connection", atoms, False) if atoms.ndim == 2 else None
    level = next((name for kind, name in LEVELS.items() if isinstance(attribute, kind)), None)
    values = np.asarray(attribute.values)
    if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
        return None
    if level is None or values.ndim != 1 or values.dtype.kind not in "OUiufb":
        return None
    return Attribute(level, values, bool(attribute.is_guessed))


def restored(topology: Topology) -> OfMDAnalysis:
    """The MDAnalysis form of a stored topology, without attributes unknown to MDAnalysis."""
    attributes = []
    for name, attribute in topology.attributes.items():
        kind = mda._TOPOLOGY_ATTRS.get(name)
        if kind is None:
            continue
        values: Any = attribute.values
        if attribute.level == "connection":
            values = [tuple(atoms) for atoms in values.tolist()]
        attributes.append(kind(values, guessed=attribute.guessed))
    return OfMDAnalysis(
        topology.atoms,
        len(topology.segment_of_residue),
        int(topology.segment_of_residue.max(initial=0)) + 1,
        attrs=attributes,
        atom_resindex=topology.residue_of_atom,
        residue_segindex=topology.segment_of_residue,
    )


def select(selection: str, topology: Topology) -> Any:
    """The numbers of the atoms in a selection that needs no coordinates."""
    universe = mda.Universe(restored(topology), to_guess=())
    try:
        return universe.select_atoms(selection).indices
    except (mda.SelectionError, mda.NoDataError, AttributeError) as error:
        raise InvalidInput(f"atoms={selection!r}: {error}") from None
