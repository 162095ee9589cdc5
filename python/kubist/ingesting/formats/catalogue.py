"""Names of positions and identities in catalogues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

# The text around `ra` and `dec` (or `de`) in names of positions, best first, in lower case.
IN_THE_SKY = (
    "{}", "{}_icrs", "{}icrs", "{}j2000", "_{}j2000", "_{}", "{}2000", "{}_j2000",
    "{}deg", "{}_deg", "{}rad", "{}_rad", "target_{}", "{}mean", "{}stack", "plug_{}", "{}_targ",
    "{}b1950", "_{}b1950",
)  # fmt: skip
SKY = (
    *((name.format("ra"), name.format(dec)) for name in IN_THE_SKY for dec in ("dec", "de")),
    ("alpha_j2000", "delta_j2000"),
    ("alphawin_j2000", "deltawin_j2000"),
    ("alphapeak_j2000", "deltapeak_j2000"),
    ("alpha", "delta"),
    ("glon", "glat"),
    ("l", "b"),
)
SPACE = ("x", "y", "z")
# `ra` as a word of a name, as in fiber_ra and RA_1, but not raErrWin.
WORD = re.compile(r"(?:(?<=[_.])|^)ra(?=[_.\d]|$)", re.IGNORECASE)
# Words of names that are not positions: errors, proper motions, correlations.
BESIDE = re.compile(r"err|error|sigma|corr|ivar|var|pm|std|offset|rms|diff|rate", re.IGNORECASE)

IDENTITIES = (
    "source_id", "sourceid", "source", "targetid", "objid", "objectid", "diaobjectid", "specobjid",
    "obj_id", "object_id", "id", "hip", "tic", "kic", "number",
)  # fmt: skip
"""Best first, in lower case."""


def positions(names: Iterable[str], units: Mapping[str, str | None]) -> list[str]:
    """The columns of positions; empty if no name fits.

    Right ascension and declination come before x, y and z, which are often pixels and redshift in
    catalogues, unless x, y and z have one unit of length.
    """
    there: dict[str, str] = {}
    for name in names:
        there.setdefault(name.lower(), name)
    sky = next(([there[n] for n in pair] for pair in SKY if set(pair) <= set(there)), None)
    sky = sky or _by_words(there)
    space = [there[n] for n in SPACE] if set(SPACE) <= set(there) else []
    if sky is None or not space:
        return space or sky or []
    said = {units.get(name) for name in space}
    return space if len(said) == 1 and None not in said and said != {"pix"} else sky


def _by_words(there: Mapping[str, str]) -> list[str] | None:
    """A pair of names that differ only in `ra` and `dec`."""
    for name, own in there.items():
        if BESIDE.search(name) or not WORD.search(name):
            continue
        for word in ("dec", "de"):
            other = WORD.sub(word, name)
            if other in there:
                return [own, there[other]]
    return None


def identity(names: Iterable[str], is_integer: Mapping[str, bool]) -> Sequence[str]:
    there = {name.lower(): name for name in names if is_integer.get(name, False)}
    return [there[name] for name in IDENTITIES if name in there][:1]
