"""XYZ and extended XYZ: atoms frame by frame.

ASE reads extended XYZ. This module reads plain XYZ, where ASE refuses labels that are not elements
(types of LAMMPS, beads), and ignores numbers after the position (charges of DFTB+).

Every row, also in a sample, has the values of its frame (cell, periodicity, energy, other scalars
of the comment).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import (
    INFINITE,
    Options,
    Source,
    State,
    Step,
    arrow_table,
    check_range,
    open_end,
    reason,
    unit,
)

if TYPE_CHECKING:
    import pyarrow as pa

# ASE's units (ase.units): lengths in Angstrom, energies in eV. XYZ itself has none.
UNITS = {
    **dict.fromkeys(("x", "y", "z"), "Angstrom"),
    "energy": "eV",
    "free_energy": "eV",
    **dict.fromkeys(("forces_x", "forces_y", "forces_z"), "eV/Angstrom"),
}
CELL = tuple(f"cell_{edge}{axis}" for edge in "abc" for axis in "xyz")
OF_ATOMS = ("forces", "stresses", "charges", "magmoms", "energies")
"""Results of calculators per atom; all other results are per frame."""
PERIODIC = ("pbc_a", "pbc_b", "pbc_c")


def look(path: Path, options: Options) -> Source:
    """Opens a file, whose frames may have different atoms; the first frame defines the columns."""
    import pyarrow as pa

    left_out: dict[str, str] = {}
    read = _plain if _is_plain(path) else _extended
    first = next(read(path, left_out), None)
    if first is None:
        raise InvalidInput(f"{path}: it has no frame")

    def steps(_: Any) -> Iterator[Step]:
        for number, table in enumerate(read(path, left_out)):
            yield Step(str(number), _once(table))

    return Source(
        path=path,
        format="xyz",
        schema=pa.schema([_with_unit(f) for f in first.schema]),
        steps=steps,
        dimensions=("frame", "x", "y", "z"),
        identity=("atom",),
        grows=True,
        notes=open_end(path),
        left_out=left_out,
    )


def _with_unit(field: pa.Field) -> pa.Field:
    name = field.name
    return unit(field, "Angstrom" if name.startswith("cell_") else UNITS.get(name))


def _once(table: pa.Table) -> Callable[[State], Iterator[pa.Table]]:
    return lambda _: iter([table])


# Extended, by ASE


def _extended(path: Path, left_out: dict[str, str]) -> Iterator[pa.Table]:
    from ase.io import iread

    number = 0
    floats = _floats(path)
    try:
        for atoms in iread(str(path), index=":", format="extxyz"):
            table = _columns(atoms, number, left_out, floats)
            _check_finite(path, number, table)
            yield table
            number += 1
    except KeyError as error:
        raise InvalidInput(f"{path}: frame {number}: {error} is no element") from error
    except (OSError, ValueError, IndexError, OverflowError, TypeError) as error:
        raise InvalidInput(f"{path}: frame {number}: {reason(error)}") from error


def _check_finite(path: Path, number: int, table: pa.Table) -> None:
    """Refuses numbers such as 1e400, which ASE reads as infinite."""
    import numpy as np
    import pyarrow as pa

    for field in table.schema:
        if not pa.types.is_floating(field.type):
            continue
        infinite = np.isinf(table.column(field.name).to_numpy())
        if infinite.any() and not INFINITE.search(path.read_bytes()):
            raise ValueError(
                f"atom {int(np.argmax(infinite))}: {field.name} is beyond the range of float64"
            )


VALUE = re.compile(r"""([A-Za-z_]\w*)=(?:"([^"]*)"|(\S+))""")
FLOAT = re.compile(r"[-+]?(?:\d+[.eE]|\.\d)")


def _floats(path: Path) -> frozenset[str]:
    """Names in comments whose value is a float in any frame; the first may be `energy=0`."""
    found: set[str] = set()
    with path.open(errors="replace") as file:
        while (first := file.readline()) and first.strip().isdigit():
            for name, quoted, plain in VALUE.findall(file.readline()):
                if name not in found and any(FLOAT.match(w) for w in (quoted or plain).split()):
                    found.add(name)
            for _ in islice(file, int(first)):
                pass
    return frozenset(found)


def _columns(atoms: Any, number: int, left_out: dict[str, str], floats: frozenset[str]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    count = len(atoms)
    positions = atoms.positions
    columns: dict[str, Any] = {
        "atom": np.arange(count, dtype=np.int32),
        "frame": np.full(count, number, np.int32),
        "element": pa.array(atoms.get_chemical_symbols()),
        **{name: positions[:, axis] for axis, name in enumerate("xyz")},
    }
    # Results of a calculator: per atom (forces, charges, magmoms), or per frame (energy).
    computed = dict(atoms.calc.results) if atoms.calc is not None else {}
    of_atoms = {n: v for n, v in computed.items() if n in OF_ATOMS and len(v) == count}
    for name, value in {**atoms.arrays, **of_atoms}.items():
        if name not in ("numbers", "positions"):
            _add(columns, name, np.asarray(value), left_out)
    if atoms.cell.any():
        for name, value in zip(CELL, np.asarray(atoms.cell).ravel(), strict=True):
            columns[name] = np.full(count, value)
    for name, value in zip(PERIODIC, atoms.pbc, strict=True):
        columns[name] = np.full(count, bool(value))
    of_frame = {n: v for n, v in computed.items() if n not in of_atoms}
    for name, value in {**atoms.info, **of_frame}.items():
        try:
            values = np.asarray(value)
        except ValueError:
            left_out.setdefault(f"value {name}", "it is a list of lists of different lengths")
            continue
        if values.dtype.kind == "i" and (name in floats or name in of_frame):
            values = values.astype(np.float64)
        if name in columns:
            left_out.setdefault(f"value {name}", "atoms have values of the same name")
        elif values.ndim == 0:
            name = "time" if name == "Time" else name
            _add(columns, name, np.full(count, values), left_out)
        elif values.size:
            # A stress or a dipole: one column per component.
            flat = np.broadcast_to(values.ravel(), (count, values.size))
            _add(columns, name, flat, left_out)
    if atoms.constraints:
        left_out.setdefault("constraints", "no column says which atoms may move (move_mask)")
    if "time" in columns:
        columns["time"] = np.asarray(columns["time"], dtype=np.float64)
    return arrow_table(columns)


def _add(columns: dict[str, Any], name: str, values: Any, left_out: dict[str, str]) -> None:
    """Values of atoms as columns: x, y, z for vectors of three, otherwise numbers from 0."""
    import numpy as np
    import pyarrow as pa

    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values.ravel()):
        values = values.astype(str)
    if values.dtype.kind not in "iufbU":
        left_out.setdefault(f"value {name}", "it is neither a number nor a text")
        return
    flat = values.reshape(len(values), int(np.prod(values.shape[1:], dtype=int)))
    width = flat.shape[1]
    for i in range(width):
        part = flat[:, i]
        suffix = "" if values.ndim == 1 else f"_{'xyz'[i] if width == 3 else i}"
        columns[f"{name}{suffix}"] = pa.array(part.tolist()) if part.dtype.kind == "U" else part


# Plain, with labels that are no elements or with further numbers


def _is_plain(path: Path) -> bool:
    """Whether the first frame is plain XYZ that ASE reads only in part."""
    with path.open(errors="replace") as file:
        first = file.readline().strip()
        comment = file.readline()
        if "Properties=" in comment or not first.isdigit():
            return False
        atoms = [line.split() for line in islice(file, int(first))]
    return any(len(words) > 4 for words in atoms) or not _are_elements(atoms)


def _are_elements(atoms: Iterable[list[str]]) -> bool:
    from ase.data import atomic_numbers

    return all(words[0] in atomic_numbers for words in atoms if words)


def _plain(path: Path, left_out: dict[str, str]) -> Iterator[pa.Table]:
    """Frames of `label x y z ...`, with labels as strings and further columns column_4, column_5...

    The labels are the column `element` if all labels of the first frame are elements.
    """
    import numpy as np
    import pyarrow as pa

    with path.open(errors="replace") as file:
        number, label = 0, ""
        while (count := _count(path, file, number)) is not None:
            if (comment := file.readline().strip()) and "comments" not in left_out:
                left_out["comments"] = f"a text for each frame, such as {comment[:60]!r}"
            lines = [line.split() for line in islice(file, count)]
            where = f"{path}: frame {number}"
            if len(lines) < count:
                raise InvalidInput(f"{where}: {len(lines)} of {count} atoms, the file ends before")
            width = len(lines[0]) if lines else 4
            for atom, words in enumerate(lines):
                if len(words) != width or width < 4:
                    raise InvalidInput(
                        f"{where}: atom {atom} has {len(words)} fields: {' '.join(words)!r}; "
                        f"a label and x y z are needed, and as many fields as atom 0 has ({width})"
                    )
            label = label or ("element" if _are_elements(lines) else "label")
            columns: dict[str, Any] = {
                "atom": np.arange(count, dtype=np.int32),
                "frame": np.full(count, number, np.int32),
                label: pa.array([words[0] for words in lines], pa.string()),
            }
            for at in range(1, width):
                name = "xyz"[at - 1] if at < 4 else f"column_{at}"
                columns[name] = _numbers(where, name, [words[at] for words in lines])
            yield arrow_table(columns)
            number += 1


def _count(path: Path, file: IO[str], number: int) -> int | None:
    """The number of atoms of the next frame; None at the end of the file."""
    line = file.readline()
    while line and not line.strip():
        line = file.readline()
    if not line:
        return None
    if not line.strip().isdigit():
        raise InvalidInput(f"{path}: frame {number}: {line.strip()!r} is no number of atoms")
    return int(line)


def _numbers(where: str, name: str, words: list[str]) -> Any:
    import numpy as np

    try:
        values = np.array(words, dtype=np.float64)
    except ValueError:
        values = None
    if values is not None:
        check_range(f"{where}: ", name, values, lambda atom: words[atom].encode())
        return values
    for atom, word in enumerate(words):
        try:
            float(word)
        except ValueError:
            raise InvalidInput(f"{where}: atom {atom}: {name} is {word!r}, no number") from None
    raise AssertionError("a word that is no number was not found")
