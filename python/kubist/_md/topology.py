"""Topologies in a table's metadata: names, elements, residues, bonds, ...

They depend on no library. An attribute has MDAnalysis' name (``names``, ``elements``, ``resids``,
``bonds``) and one value per atom, residue or segment. Strings are stored as a list of distinct
strings and codes, numbers as bytes; both are deflated. The 47,681 atoms of a GRO file take 168 kB.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._errors import InvalidInput

Array = np.ndarray[Any, Any]

# The key in a table's metadata.
KEY = "topology"
VERSION = 1
# Limit against decompression bombs; valid tables have no larger attribute.
MOST_BYTES = 2**32


@dataclass
class Attribute:
    """An attribute with one value per atom, residue, segment or connection."""

    level: str
    """``atom``, ``residue``, ``segment``, or ``connection``: rows of atom numbers."""
    values: Array
    guessed: bool = False


@dataclass
class Topology:
    atoms: int
    residue_of_atom: Array
    segment_of_residue: Array
    attributes: dict[str, Attribute] = field(default_factory=dict)

    @classmethod
    def minimal(cls, atoms: int) -> Topology:
        """Atoms without attributes, in one residue."""
        return cls(atoms, np.zeros(atoms, np.int32), np.zeros(1, np.int32))

    def subset(self, atoms: Array) -> Topology:
        """The topology of the given atoms, in this order, without connections to others."""
        residues, residue_of_atom = np.unique(self.residue_of_atom[atoms], return_inverse=True)
        segments, segment_of_residue = np.unique(
            self.segment_of_residue[residues], return_inverse=True
        )
        place = np.full(self.atoms, -1, np.int64)
        place[atoms] = np.arange(len(atoms))
        kept = {"atom": atoms, "residue": residues, "segment": segments}
        attributes = {}
        for name, attribute in self.attributes.items():
            if attribute.level == "connection":
                moved = place[attribute.values]
                values = moved[(moved >= 0).all(axis=1)].astype(np.int32)
            else:
                values = attribute.values[kept[attribute.level]]
            attributes[name] = Attribute(attribute.level, values, attribute.guessed)
        return Topology(len(atoms), residue_of_atom, segment_of_residue, attributes)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "atoms": self.atoms,
            "residues": len(self.segment_of_residue),
            "residue_of_atom": _packed(self.residue_of_atom),
            "segment_of_residue": _packed(self.segment_of_residue),
            "attributes": {
                name: {"level": a.level, "guessed": a.guessed, **_packed(a.values)}
                for name, a in self.attributes.items()
            },
        }

    @classmethod
    def from_json(cls, stored: Any) -> Topology:
        """Parses the form of `to_json`; raises `InvalidInput` for any other."""
        if not isinstance(stored, Mapping):
            raise InvalidInput(f"the metadata {KEY!r} is no topology")
        if stored.get("version") != VERSION:
            raise InvalidInput(f"the metadata {KEY!r} is of version {stored.get('version')!r}")
        try:
            topology = cls(
                int(stored["atoms"]),
                _unpacked("residue_of_atom", stored["residue_of_atom"]),
                _unpacked("segment_of_residue", stored["segment_of_residue"]),
                {
                    name: Attribute(a["level"], _unpacked(name, a), bool(a["guessed"]))
                    for name, a in stored["attributes"].items()
                },
            )
            topology._check()
        except (KeyError, TypeError, ValueError, IndexError, zlib.error) as error:
            raise InvalidInput(f"the metadata {KEY!r} is damaged: {error}") from None
        return topology

    def _check(self) -> None:
        counts = {
            "atom": self.atoms,
            "residue": len(self.segment_of_residue),
            "segment": int(self.segment_of_residue.max(initial=0)) + 1,
        }
        if len(self.residue_of_atom) != self.atoms:
            raise ValueError("residue_of_atom does not have one entry per atom")
        for name, numbers, most in (
            ("residue_of_atom", self.residue_of_atom, counts["residue"]),
            ("segment_of_residue", self.segment_of_residue, counts["segment"]),
        ):
            if len(numbers) and not (0 <= numbers.min() and numbers.max() < most):
                raise ValueError(f"{name} is out of range")
        for name, attribute in self.attributes.items():
            values = attribute.values
            if attribute.level == "connection":
                if values.size and not (0 <= values.min() and values.max() < self.atoms):
                    raise ValueError(f"{name} refer to atoms that do not exist")
            elif len(values) != counts[attribute.level]:
                raise ValueError(f"{name} has {len(values)} values")


def _packed(values: Array) -> dict[str, Any]:
    if values.dtype.kind in "OUS":
        texts, codes = np.unique(np.asarray(values, dtype=str), return_inverse=True)
        return {"texts": texts.tolist(), **_packed(codes.astype(_smallest(len(texts))))}
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    bytes_ = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
    return {"type": little.dtype.str, "shape": list(values.shape), "deflated": bytes_}


def _smallest(values: int) -> str:
    return "<u1" if values <= 2**8 else "<u2" if values <= 2**16 else "<u4"


def _unpacked(name: str, stored: Mapping[str, Any]) -> Array:
    dtype = np.dtype(stored["type"])
    shape = tuple(int(length) for length in stored["shape"])
    if dtype.kind not in "iufb" or any(length < 0 for length in shape):
        raise ValueError(f"{name} has the type {dtype}, the shape {shape}")
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize if shape else dtype.itemsize
    if size > MOST_BYTES:
        raise ValueError(f"{name} would take {size} bytes")
    inflater = zlib.decompressobj()
    raw = inflater.decompress(base64.b64decode(stored["deflated"], validate=True), size + 1)
    if len(raw) != size:
        raise ValueError(f"{name} has {len(raw)} bytes instead of {size}")
    values: Array = np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    if "texts" in stored:
        values = np.array([str(text) for text in stored["texts"]], dtype=object)[values]
    return values
