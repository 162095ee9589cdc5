"""Batches of `kubist.Loader` as PyTorch tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data

from ._errors import Refused
from .loading import Loader


class Dataset(torch.utils.data.IterableDataset):
    """The batches of a loader as dicts of tensors, for a model or a `torch.utils.data.DataLoader`.

    The tensors share the memory of the loader's arrays. With ``device``, they are copied there, to
    a GPU through pinned memory while the model computes.

    Parameters
    ----------
    loader
        A loader, whose ``rank`` and ``world`` are those of the process.
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
            yield {name: self._placed(torch.from_numpy(array)) for name, array in batch.items()}

    def __len__(self) -> int:
        return len(self._loader)

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `Loader.load_state_dict`."""
        self._loader.load_state_dict(state)

    def _placed(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._device is None:
            return tensor
        if self._device.type == "cuda":
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)
