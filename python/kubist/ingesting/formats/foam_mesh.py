"""Meshes of OpenFOAM, for the positions of parcels.

A parcel's position may be stored within a tetrahedron: a cell, a face of the cell, a point of the
face, and four barycentric coordinates. The corners are the cell's centre, the face's base point,
and two neighbouring points of the face (OpenFOAM's tetIndices::faceTriIs). Centres of faces and
cells are computed as in OpenFOAM's primitiveMesh.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FACE = re.compile(rb"(\d+)\s*\(([^)]*)\)")


@dataclass
class Mesh:
    """Points, faces as lists of points, and the cells on both sides of each face.

    Attributes:
        points: Shape (points, 3), in metres.
        starts, corners: Face i has the points ``corners[starts[i]:starts[i + 1]]``.
        owner: For each face, the cell that the face's normal leaves.
        neighbour: For each face, the cell that the normal enters. It is shorter than ``owner``,
        because faces of the boundary have no such cell.
    """

    points: Any
    starts: Any
    corners: Any
    owner: Any
    neighbour: Any

    def face(self, index: int) -> Any:
        return self.corners[self.starts[index] : self.starts[index + 1]]

    @cached_property
    def face_centres(self) -> tuple[Any, Any]:
        """Centres and area vectors of all faces, each of shape (faces, 3)."""
        import numpy as np

        sizes = np.diff(self.starts)
        of_face = np.repeat(np.arange(len(sizes)), sizes)
        here = self.points[self.corners]
        # For each corner, the next corner of the same face.
        following = np.arange(len(self.corners)) + 1
        following[self.starts[1:] - 1] = self.starts[:-1]
        there = here[following]
        rough = _sums(here, of_face, len(sizes)) / sizes[:, None]
        middle = rough[of_face]
        normals = np.cross(there - here, middle - here)
        areas = _sums(normals, of_face, len(sizes))
        length = np.linalg.norm(areas, axis=1, keepdims=True)
        direction = areas / np.where(length > 0, length, 1)
        weights = (normals * direction[of_face]).sum(axis=1)
        total = _sums(weights[:, None], of_face, len(sizes))
        thirds = (here + there + middle) / 3
        centres = _sums(weights[:, None] * thirds, of_face, len(sizes))
        flat = np.abs(total) <= np.finfo(float).tiny
        return np.where(flat, rough, centres / np.where(flat, 1, total)), areas / 2

    @cached_property
    def cell_centres(self) -> Any:
        """Centres of all cells, of shape (cells, 3), weighted by the volumes of their pyramids."""
        import numpy as np

        centres, areas = self.face_centres
        inner = len(self.neighbour)
        cells = np.concatenate([self.owner, self.neighbour])
        faces = np.concatenate([np.arange(len(self.owner)), np.arange(inner)])
        outwards = np.concatenate([np.ones(len(self.owner)), -np.ones(inner)])
        count = int(cells.max()) + 1
        number = np.bincount(cells, minlength=count)[:, None]
        rough = _sums(centres[faces], cells, count) / number
        reach = centres[faces] - rough[cells]
        volumes = outwards * (areas[faces] * reach).sum(axis=1)
        middles = 0.75 * centres[faces] + 0.25 * rough[cells]
        total = _sums(volumes[:, None], cells, count)
        weighted = _sums(volumes[:, None] * middles, cells, count)
        flat = np.abs(total) <= np.finfo(float).tiny
        return np.where(flat, rough, weighted / np.where(flat, 1, total))

    def base_point(self, face: int) -> int:
        """The first base point of a face for which all its tetrahedra have a positive volume.

        0 if no point has this property, as in OpenFOAM.
        """
        import numpy as np

        corners = self.points[self.face(face)]
        sides = [(self.cell_centres[self.owner[face]], 1.0)]
        if face < len(self.neighbour):
            sides.append((self.cell_centres[self.neighbour[face]], -1.0))
        for base in range(len(corners)):
            fan = np.roll(corners, -base, axis=0)
            first, second = fan[1:-1] - fan[0], fan[2:] - fan[0]
            normals = np.cross(first, second)
            volumes = [sign * normals @ (fan[0] - centre) for centre, sign in sides]
            if all((volume > 0).all() for volume in volumes):
                return base
        return 0

    def positions(self, weights: Any, cells: Any, faces: Any, points: Any) -> Any:
        """The positions for barycentric coordinates, of shape (parcels, 3), in metres.

        Args:
            weights: Shape (parcels, 4), for the cell's centre, the base point, and two points.
            cells, faces, points: The tetrahedron of each parcel.

        Raises:
            ValueError: The mesh lacks the cell or face of a parcel.
        """
        import numpy as np

        for name, given, count in (
            ("cell", cells, len(self.cell_centres)),
            ("face", faces, len(self.owner)),
        ):
            outside = (given < 0) | (given >= count)
            if outside.any():
                parcel = int(np.argmax(outside))
                raise ValueError(
                    f"parcel {parcel} is in {name} {given[parcel]}, the mesh has {count}"
                )
        bases = {int(face): self.base_point(int(face)) for face in np.unique(faces)}
        base = np.array([bases[int(face)] for face in faces], dtype=np.int64)
        sizes = self.starts[faces + 1] - self.starts[faces]
        one = (base + points) % sizes
        other = (one + 1) % sizes
        not_owner = self.owner[faces] != cells
        one, other = np.where(not_owner, other, one), np.where(not_owner, one, other)
        start = self.starts[faces]
        vertices = [self.points[self.corners[start + place]] for place in (base, one, other)]
        corners = np.stack([self.cell_centres[cells], *vertices], axis=1)
        return (weights[:, :, None] * corners).sum(axis=1)


def _sums(values: Any, groups: Any, count: int) -> Any:
    """The sums of rows in each group, of shape (count, columns)."""
    import numpy as np

    columns = [np.bincount(groups, values[:, i], count) for i in range(values.shape[1])]
    return np.stack(columns, axis=1)


def ascii_faces(text: bytes) -> tuple[Any, Any]:
    """The starts and corners of faces, from text such as ``4(0 1 5 4)``."""
    import numpy as np

    found = FACE.findall(text)
    sizes = np.array([int(size) for size, _ in found], dtype=np.int64)
    corners = np.array(b" ".join(words for _, words in found).split(), dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]), corners


def find_mesh(case: Path, time: Path, find: Callable[[Path], Path | None]) -> dict[str, Path]:
    """The files of the mesh at a time; a moving mesh has points for each time.

    Args:
        case: The folder of the case, or of one rank.
        time: The folder of the time.
        find: Returns a file with or without ``.gz``.

    Raises:
        ValueError: A file is missing.
    """
    files: dict[str, Path] = {}
    for name in ("points", "faces", "owner", "neighbour"):
        folders = [time / "polyMesh", case / "constant" / "polyMesh"]
        file = next((f for folder in folders if (f := find(folder / name)) is not None), None)
        if file is None:
            raise ValueError(
                f"{folders[-1] / name}: the parcels' positions are those of cells of the mesh, "
                "which has no such file"
            )
        files[name] = file
    return files
