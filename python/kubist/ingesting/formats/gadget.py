"""Snapshots of GADGET, AREPO and SWIFT in HDF5, and their group catalogues, through h5py.

A snapshot may have several files, each with all its types of particles. `gadget_binary` reads the
older formats 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._errors import InvalidInput
from ..source import (
    Options,
    Part,
    Source,
    State,
    Step,
    arrow_table,
    in_units,
    join,
    slices,
    split_columns,
    unit,
)
from .hdf5 import COMPONENTS, POSITION, VELOCITY, attributes, check_sources, holds, text

if TYPE_CHECKING:
    import pyarrow as pa

MASSES = "Masses"
is_gadget = holds(lambda file: "Header" in file and "NumPart_ThisFile" in file["Header"].attrs)
is_catalogue = holds(
    lambda file: "Header" in file and "Ngroups_ThisFile" in file["Header"].attrs and "Group" in file
)

LENGTHS = {"cm": 1.0, "m": 1e2, "km": 1e5, "AU": 1.495978707e13, "pc": 3.0856776e18,
           "kpc": 3.0856776e21, "Mpc": 3.0856776e24}  # fmt: skip
SPEEDS = {"cm/s": 1.0, "m/s": 1e2, "km/s": 1e5}
MASS_UNITS = {"g": 1.0, "kg": 1e3, "Msun": 1.98841e33}
FIRST = 1 << 16
"""For each type, the number of particles whose positions are compared with the box."""
MOST_FILES = 1 << 20
"""The maximum number of files of a snapshot."""
AGREE = 1e-3
"""The relative difference up to which constants are equal; codes write three or more digits."""


@dataclass
class Clock:
    time: float | None
    redshift: float | None = None
    scale_factor: float | None = None

    def fields(self) -> list[pa.Field]:
        import pyarrow as pa

        named = (
            ("time", self.time),
            ("redshift", self.redshift),
            ("scale_factor", self.scale_factor),
        )
        return [pa.field(name, pa.float64()) for name, value in named if value is not None]

    def columns(self, rows: int) -> dict[str, Any]:
        import numpy as np

        named = (
            ("time", self.time),
            ("redshift", self.redshift),
            ("scale_factor", self.scale_factor),
        )
        return {name: np.full(rows, value) for name, value in named if value is not None}


@dataclass
class Units:
    """The units of a code in cgs (None if unknown), and their meaning."""

    length: float | None = None
    speed: float | None = None
    mass: float | None = None
    hubble: float = 1.0
    is_cosmological: bool = False

    def of(self, name: str) -> str | None:
        """The unit of a column, if possible in a form that conditions can use."""
        if name in (*POSITION, "SmoothingLength"):
            return self._named(self.length, LENGTHS, "c" if self.is_cosmological else "", "cm")
        if name == MASSES:
            return self._named(self.mass, MASS_UNITS, "", "g")
        if name in VELOCITY:
            found = _name(self.speed, SPEEDS)
            # GADGET divides peculiar velocities by the root of the scale factor.
            return found and (f"{found} sqrt(a)" if self.is_cosmological else found)
        return None

    def _named(
        self, cgs: float | None, names: Mapping[str, float], comoving: str, base: str
    ) -> str | None:
        if cgs is None:
            return None
        if self.hubble == 1.0 or not self.is_cosmological:
            return _name(cgs, names) or f"{cgs:g} {base}"
        # `kpc/h` would be a speed, because h is the hour.
        return f"{comoving}{_name(cgs, names) or f'{cgs:g} {base}'} h^-1"


def _name(cgs: float | None, names: Mapping[str, float]) -> str | None:
    if cgs is None:
        return None
    for name, value in names.items():
        if abs(cgs / value - 1) < AGREE:
            return name
    # For example the usual unit of 10^10 solar masses.
    for name, value in reversed(list(names.items())):
        for power in range(1, 16):
            if abs(cgs / value / 10**power - 1) < AGREE:
                return f"1e{power} {name}"
    return None


@dataclass
class _Kind:
    number: int
    count: int
    names: list[str] = field(default_factory=list)
    fields: dict[str, pa.Field] = field(default_factory=dict)


def look(path: Path, options: Options) -> Source:
    import h5py
    import numpy as np
    import pyarrow as pa

    left_out: dict[str, str] = {}
    with h5py.File(path, "r") as file:
        check_sources(path, file)
        header = attributes(file["Header"])
        counts = np.atleast_1d(file["Header"].attrs["NumPart_ThisFile"]).astype(int)
        about = _about(file, header)
        clock, units = clock_of(header, about), units_of(header, about)
        fields: dict[str, pa.Field] = {"type": pa.field("type", pa.int8())}
        of_fields: dict[str, Any] = {}
        kinds = []
        for name in file:
            # SWIFT has names such as GasParticles for its types.
            is_alias = isinstance(file.get(name, getlink=True), h5py.SoftLink)
            if not name.startswith("PartType") and name not in ("Header", *GROUPS) and not is_alias:
                left_out[name] = "it is not of particles"
        wanted = wanted_types(path, options, len(counts))
        for number, count in enumerate(counts):
            if number not in wanted:
                continue
            found = _kind(path, file, number, int(count), left_out)
            if found is None:
                continue
            kinds.append(found)
            group = file[f"PartType{number}"]
            for name in found.names:
                data = group[name]
                if said := attributes(data):
                    of_fields.setdefault(name, said)
                for column in split_columns(name, data[:0], COMPONENTS.get(name)):
                    own = pa.field(column, pa.from_numpy_dtype(data.dtype.newbyteorder("=")))
                    own = unit(own, _said(data) or units.of(column))
                    join(fields, own, f"{path}: PartType{number}")
                    found.fields[column] = own
        for name in file:
            if name.startswith("PartType") and name[8:] not in map(str, range(len(counts))):
                left_out[name] = f"the header counts {len(counts)} types of particles"
        masses = _masses_of_types(file, kinds)
        if masses:
            # In the type of the other masses, if there are any; the report lists rounding.
            fields.setdefault(MASSES, unit(pa.field(MASSES, pa.float64()), units.of(MASSES)))
    if of_fields:
        about["fields"] = of_fields
    schema = pa.schema([*fields.values(), *clock.fields()])

    def read(state: State) -> Iterator[pa.Table]:
        with h5py.File(path, "r") as file:
            for kind in kinds:
                group = file[f"PartType{kind.number}"]
                for part in slices(kind.count):
                    many = part.stop - part.start
                    columns: dict[str, Any] = {"type": np.full(many, kind.number, np.int8)}
                    columns |= clock.columns(many)
                    for name in kind.names:
                        columns |= split_columns(name, group[name][part], COMPONENTS.get(name))
                    if kind.number in masses:
                        columns[MASSES] = np.full(many, masses[kind.number])
                    yield arrow_table(columns, in_units(with_all(schema, state), kind.fields))

    part = place_of(path, header, int(counts.sum()), "NumPart_Total", "NumPart_Total_HighWord")
    total = sum(kind.count for kind in kinds)

    def positions() -> Any:
        with h5py.File(path, "r") as file:
            groups = [file[f"PartType{kind.number}"] for kind in kinds]
            first = [group["Coordinates"][:FIRST] for group in groups]
            return np.concatenate([np.empty((0, len(POSITION))), *first])

    return snapshot(path, part, about, schema, clock, read, total, left_out, options, positions)


GROUPS = ("Units", "Cosmology", "Parameters", "Config", "Code", "RuntimePars", "InternalCodeUnits")
"""Groups of attributes that the metadata stores."""


def _about(file: Any, header: dict[str, Any]) -> dict[str, Any]:
    about = {"header": header}
    for group in GROUPS:
        if group in file:
            about[group.lower()] = attributes(file[group])
    return about


LABEL = "snapshot"


def snapshot(
    path: Path,
    part: Part,
    about: dict[str, Any],
    schema: pa.Schema,
    clock: Clock,
    read: Any,
    rows: int,
    left_out: dict[str, str],
    options: Options,
    positions: Callable[[], Any],
) -> Source:
    """Opens a file of a snapshot, in any of the formats.

    Args:
        positions: Returns the positions of particles as rows of x, y and z.
    """
    dated = clock.time is not None or options.time is not None
    return Source(
        path=path,
        format="gadget",
        schema=schema,
        steps=lambda _: [Step(LABEL, read, clock.time, path.name if part.files > 1 else "")],
        dimensions=(*POSITION, "time"),
        identity=("ParticleIDs", "time") if dated else ("ParticleIDs",),
        metadata={"gadget": about},
        rows=rows,
        times=() if clock.time is None else (clock.time,),
        part_of=part,
        period=period_of(about, positions) if set(POSITION) <= set(schema.names) else {},
        left_out=left_out,
    )


def period_of(about: Mapping[str, Any], positions: Callable[[], Any]) -> dict[str, float]:
    """The lengths of the box of a run with periodic boundaries.

    Every run has a BoxSize, which is a period if the file states this, or if the universe expands
    and the first particles are in the box.
    """
    header = about["header"]
    said = {**about.get("parameters", {}), **about.get("runtimepars", {}), **header}
    is_on = _number(said, "PeriodicBoundariesOn")
    if is_on == 0 or (is_on is None and not is_cosmological(header, about)):
        return {}
    sides = said.get("BoxSize")
    sides = sides if isinstance(sides, list) else [sides] * len(POSITION)
    if len(sides) == 1:
        sides = sides * len(POSITION)
    lengths = {
        name: float(side)
        for name, side in zip(POSITION, sides, strict=False)
        if isinstance(side, int | float) and side > 0
    }
    if len(lengths) < len(POSITION):
        return {}
    if is_on is None:
        at = positions()
        if not ((at >= 0) & (at <= list(lengths.values()))).all():
            return {}
    return lengths


def place_of(path: Path, header: Mapping[str, Any], rows: int, *words: str) -> Part:
    """The position of a file in a snapshot of files with `.0`, `.1`, ... in their names.

    Args:
        words: Attributes of the header with the number of rows of the snapshot, lowest word first.
    """
    import numpy as np

    counts = [np.atleast_1d(header.get(word, 0)).astype(float).sum() for word in words]
    total = int(sum(count * 2.0 ** (32 * i) for i, count in enumerate(counts)))
    files = int(_number(header, "NumFilesPerSnapshot", "NumFiles") or 1)
    parts = path.name.split(".")
    places = [i for i, part in enumerate(parts) if part.isdigit()]
    if files < 2 or not places or int(parts[places[-1]]) >= min(files, MOST_FILES):
        return Part(files, (), rows, total, LABEL)
    before, behind = parts[: places[-1]], parts[places[-1] + 1 :]
    names = tuple(".".join([*before, str(n), *behind]) for n in range(files))
    return Part(files, names, rows, total, LABEL)


def wanted_types(path: Path, options: Options, count: int) -> set[int]:
    if options.particles is None:
        return set(range(count))
    known = {f"PartType{number}": number for number in range(count)}
    known |= {str(number): number for number in range(count)}
    for name in options.particles:
        if str(name) not in known:
            raise InvalidInput(
                f"{path}: particles: {name!r} is none of its types, PartType0 to PartType{count - 1}"
            )
    return {known[str(name)] for name in options.particles}


def _kind(path: Path, file: Any, number: int, count: int, left_out: dict[str, str]) -> _Kind | None:
    """The fields of a particle type; None if it has no rows.

    Raises:
        InvalidInput: The number of particles differs from the header.
    """
    import h5py

    name = f"PartType{number}"
    group = file.get(name)
    if group is None or "Coordinates" not in group:
        if count and group is None:
            raise InvalidInput(f"{path}: the header counts {count:,} of {name}, which is not there")
        if group is not None and len(group):
            left_out[name] = f"its {count:,} particles have no Coordinates"
        return None
    there = group["Coordinates"].shape[0]
    if there != count:
        raise InvalidInput(f"{path}: the header counts {count:,} of {name}, there are {there:,}")
    kind = _Kind(number, count)
    for field_name, data in sorted(group.items()):
        if not isinstance(data, h5py.Dataset):
            left_out[f"{name}/{field_name}"] = "it is a group"
        elif data.shape[:1] != (count,):
            left_out[f"{name}/{field_name}"] = (
                f"its shape {data.shape} has no value for each of {count:,} particles"
            )
        elif data.dtype.kind not in "iufb":
            left_out[f"{name}/{field_name}"] = f"its type {data.dtype} has no place in a table"
        else:
            kind.names.append(field_name)
    return kind if count else None


def _masses_of_types(file: Any, kinds: Sequence[_Kind]) -> dict[int, float]:
    """The masses in the header, of particle types with a single mass."""
    table = file["Header"].attrs.get("MassTable")
    if table is None:
        return {}
    lacking = [k.number for k in kinds if k.number < len(table) and MASSES not in k.names]
    return {k: float(table[k]) for k in lacking if table[k] > 0}


def with_all(schema: pa.Schema, state: State) -> pa.Schema:
    """The columns of a file, and the columns of particle types that the file lacks."""
    own = ("time", "redshift", "scale_factor")
    lacking = [f for f in state.schema or () if f.name not in schema.names and f.name not in own]
    for absent in lacking:
        schema = schema.append(absent)
    return schema


def _said(data: Any) -> str | None:
    """The unit of a field, if stored: by SWIFT, or by some programs as `units`."""
    for name in ("Expression for physical CGS units", "units"):
        if name in data.attrs:
            return text(data.attrs[name]) or None
    return None


def _number(said: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = said.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def clock_of(header: Mapping[str, Any], about: Mapping[str, Any]) -> Clock:
    time, redshift = _number(header, "Time"), _number(header, "Redshift")
    if redshift is None or redshift <= -1 or not is_cosmological(header, about):
        return Clock(time)
    return Clock(time, redshift, _number(header, "Scale-factor") or 1 / (1 + redshift))


def is_cosmological(header: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    """Whether the universe expands, from the parameters or else from the header."""
    for group, name in (("parameters", "ComovingIntegrationOn"), ("cosmology", "Cosmological run")):
        said = _number(about.get(group, {}), name)
        if said is not None:
            return said != 0
    time, redshift = _number(header, "Time"), _number(header, "Redshift")
    omega = _number(header, "Omega0") or 0.0
    return bool(
        omega > 0 and time and redshift is not None and abs(time * (1 + redshift) - 1) < AGREE
    )


def units_of(header: Mapping[str, Any], about: Mapping[str, Any]) -> Units:
    said = {**about.get("parameters", {}), **about.get("units", {}), **header}
    return Units(
        _number(said, "UnitLength_in_cm", "UNITLENGTH_IN_CM"),
        _number(said, "UnitVelocity_in_cm_per_s"),
        _number(said, "UnitMass_in_g"),
        _number(said, "HubbleParam") or 1.0,
        is_cosmological(header, about),
    )


# Group catalogues


PLACES = {"Group": ("GroupPos", "GroupVel"), "Subhalo": ("SubhaloPos", "SubhaloVel")}


def look_at_catalogue(path: Path, options: Options) -> Source:
    """Groups and subhaloes as rows; the column `catalogue` distinguishes them."""
    import h5py
    import numpy as np
    import pyarrow as pa

    left_out: dict[str, str] = {}
    with h5py.File(path, "r") as file:
        check_sources(path, file)
        header = attributes(file["Header"])
        about = _about(file, header)
        clock, units = clock_of(header, about), units_of(header, about)
        counts = {
            "Group": int(_number(header, "Ngroups_ThisFile") or 0),
            "Subhalo": int(_number(header, "Nsubgroups_ThisFile", "Nsubhalos_ThisFile") or 0),
        }
        fields = {"catalogue": pa.field("catalogue", pa.dictionary(pa.int32(), pa.string()))}
        fields["number"] = pa.field("number", pa.int64())
        names: dict[str, list[str]] = {}
        of_kinds: dict[str, dict[str, pa.Field]] = {}
        for name in file:
            if name not in (*PLACES, "Header", *GROUPS) and len(file[name]):
                left_out[name] = "it is no catalogue of groups"
        for kind, (place, _) in PLACES.items():
            group = file.get(kind)
            if not counts[kind]:
                continue
            if group is None or place not in group:
                raise InvalidInput(
                    f"{path}: the header counts {counts[kind]:,} of {kind}, without {place}"
                )
            names[kind] = []
            for own, data in sorted(group.items()):
                if data.shape[:1] != (counts[kind],) or data.dtype.kind not in "iufb":
                    if own == place:
                        raise InvalidInput(
                            f"{path}: the header counts {counts[kind]:,} of {kind}, there are "
                            f"{data.shape[0]:,}"
                        )
                    left_out[f"{kind}/{own}"] = "it has no number for each group"
                    continue
                names[kind].append(own)
                for column in split_columns(own, data[:0], _components(kind, own)):
                    one = pa.field(column, pa.from_numpy_dtype(data.dtype.newbyteorder("=")))
                    one = unit(one, _said(data) or units.of(column))
                    join(fields, one, f"{path}: {kind}")
                    of_kinds.setdefault(kind, {})[column] = one
    schema = pa.schema([*fields.values(), *clock.fields()])

    def read(state: State) -> Iterator[pa.Table]:
        with h5py.File(path, "r") as file:
            for kind, own in names.items():
                for part in slices(counts[kind]):
                    many = part.stop - part.start
                    columns: dict[str, Any] = {
                        "catalogue": pa.array([kind] * many).dictionary_encode(),
                        "number": np.arange(part.start, part.stop),
                        **clock.columns(many),
                    }
                    for name in own:
                        columns |= split_columns(
                            name, file[kind][name][part], _components(kind, name)
                        )
                    yield arrow_table(columns, in_units(with_all(schema, state), of_kinds[kind]))

    part = place_of(path, header, counts["Group"], "Ngroups_Total")
    rows = sum(counts.values())

    def positions() -> Any:
        with h5py.File(path, "r") as file:
            first = [file[kind][PLACES[kind][0]][:FIRST] for kind in names]
            return np.concatenate([np.empty((0, len(POSITION))), *first])

    made = snapshot(path, part, about, schema, clock, read, rows, left_out, options, positions)
    made.identity = ()
    if clock.time is None:
        made.dimensions = POSITION
    return made


def _components(kind: str, name: str) -> Sequence[str] | None:
    place, speed = PLACES[kind]
    return {place: POSITION, speed: VELOCITY}.get(name)
