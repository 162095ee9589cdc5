"""Batches of `kubist.Loader` as PyTorch tensors, and crops as batches of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.utils.data

from ._errors import Refused
from .loading import Loader


class Dataset(torch.utils.data.IterableDataset):
    """The batches of a loader as dicts of tensors, for a model or a `torch.utils.data.DataLoader`.

    The tensors share the memory of the loader's arrays. With ``device``, they are copied there, to
    a GPU through pinned memory, while the model computes.

    Parameters
    ----------
    loader
        A loader with the ``rank`` of this process and the ``world`` of all processes.
    device
        The device of the tensors, as for `torch.Tensor.to`; None: in main memory.

    Examples
    --------
    >>> loader = kubist.Loader(t, ["x", "y"], "deposited", dtype="float32", epochs=10)
    >>> for batch in kubist.torch.Dataset(loader, "cuda"):
    ...     loss = model(batch["x"], batch["y"], batch["deposited"])
    >>> DataLoader(kubist.torch.Dataset(loader), batch_size=None)
    """

    def __init__(self, loader: Loader, device: Any = None) -> None:
        super().__init__()
        self._loader = loader
        self._device = None if device is None else torch.device(device)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        if torch.utils.data.get_worker_info() is not None:
            raise Refused(
                "the loader reads ahead in a thread of its own: use DataLoader(num_workers=0)"
            )
        for batch in self._loader:
            yield {name: _placed(array, self._device) for name, array in batch.items()}

    def __len__(self) -> int:
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `Loader.load_state_dict`."""
        self._loader.load_state_dict(state)


def point_clouds(
    crops: Iterable[Mapping[str, np.ndarray[Any, Any]]], device: Any = None
) -> Iterator[Any]:
    """Crops as batches of PyTorch Geometric, for a model of point clouds.

    Parameters
    ----------
    crops
        The iterator of `Table.crops`.
    device
        As for `Dataset`.

    Yields
    ------
    torch_geometric.data.Batch
        With ``pos``, ``x``, ``batch`` and ``ptr``, and a row per crop in ``centre`` and ``number``.
        ``num_graphs`` is the number of crops.

    Raises
    ------
    ImportError
        PyTorch Geometric is not installed.

    Examples
    --------
    >>> crops = t.crops(10_000, 0.01, points=1024, columns=["diameter"], batch=16)
    >>> for data in kubist.torch.point_clouds(crops, "cuda"):
    ...     loss = model(data.pos, data.x, data.batch)
    """
    from torch_geometric.data import Batch

    to = None if device is None else torch.device(device)
    for crop in crops:
        yield Batch(**{name: _placed(array, to) for name, array in crop.items()})


def _placed(array: np.ndarray[Any, Any], device: torch.device | None) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    if device is None:
        return tensor
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
