"""Batches of `kubist.Loader` and crops of `Table.crops` as JAX arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

_AHEAD = 2
"""Copies to a device that are under way while the model computes."""


def arrays(
    batches: Iterable[Mapping[str, np.ndarray[Any, Any]]], device: Any = None
) -> Iterator[dict[str, jax.Array]]:
    """Copies batches to a device, the next one while the model computes.

    Parameters
    ----------
    batches
        A `kubist.Loader`, or the crops of `Table.crops`.
    device
        A device or sharding, as for `jax.device_put`; None: the default device.

    Yields
    ------
    dict
        The names of a batch, with JAX arrays of the same shapes. Unless ``jax_enable_x64`` is set,
        JAX stores 64-bit numbers in 32 bits.

    Raises
    ------
    OverflowError
        An integer does not fit in 32 bits, and ``jax_enable_x64`` is not set.

    Examples
    --------
    >>> loader = kubist.Loader(t, ["x", "y"], "deposited", dtype="float32", epochs=10)
    >>> for batch in kubist.jax.arrays(loader):
    ...     state = step(state, batch)
    """
    coming: list[dict[str, jax.Array]] = []
    for batch in batches:
        coming.append({name: _placed(name, array, device) for name, array in batch.items()})
        if len(coming) == _AHEAD:
            yield coming.pop(0)
    yield from coming


def _placed(name: str, array: np.ndarray[Any, Any], device: Any) -> jax.Array:
    kept = jax.dtypes.canonicalize_dtype(array.dtype)
    if kept != array.dtype and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(kept)
        if array.min() < limits.min or array.max() > limits.max:
            raise OverflowError(
                f"{name}: integers of {array.dtype} do not fit in {kept}: call "
                'jax.config.update("jax_enable_x64", True) first'
            )
    return jax.device_put(array.astype(kept, copy=False), device)
