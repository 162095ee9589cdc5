"""The example of learning on a growing sample, and PyTorch tensors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kubist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/learning"))

import deposition


def droplets(rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Positions in the order of a file sorted by x, and whether each droplet is deposited."""
    rng = np.random.default_rng(6)
    points = {axis: rng.random(rows) for axis in "xyz"}
    points["x"].sort()
    logit = 3 * np.sin(9 * points["x"]) + 2 * np.cos(5 * points["y"]) - 1
    return {**points, "deposited": rng.random(rows) < 1 / (1 + np.exp(-logit))}


def test_a_growing_sample_learns_as_a_true_shuffle_and_stops(path: Path) -> None:
    rows = droplets(250_000)
    data = {**rows, "pid": np.arange(250_000)}
    t = kubist.create(path, data, ["x", "y", "z"], identity=["pid"], storage={"strata": "windows"})
    found = deposition.compare(t, rows, range(5))
    growing, true, buffer = (np.array(results) for results in found.values())
    noise = max(growing[:, 0].std(), true[:, 0].std(), 0.004)
    assert abs(growing[:, 0].mean() - true[:, 0].mean()) < 3 * noise
    assert buffer[:, 0].mean() > true[:, 0].mean() + 6 * noise
    assert growing[:, 1].mean() < 0.9 * 250_000
    assert "true shuffle" in deposition.report(found)


def test_tensors_are_those_of_the_loader(path: Path) -> None:
    torch = pytest.importorskip("torch")
    from kubist.torch import Dataset

    t = kubist.create(path, {"x": np.random.default_rng(1).random(5000)}, ["x"])
    options: dict[str, Any] = {"columns": ["x"], "batch": 500, "dtype": "float32"}
    arrays = [batch["x"] for batch in kubist.Loader(t, **options)]
    dataset = Dataset(kubist.Loader(t, **options), "cpu")
    assert len(dataset) == 10
    state = dataset.state_dict()
    tensors = [batch["x"] for batch in dataset]
    assert all(isinstance(one, torch.Tensor) and one.dtype == torch.float32 for one in tensors)
    assert all(np.array_equal(*pair) for pair in zip(tensors, arrays, strict=True))
    again = Dataset(kubist.Loader(t, **options))
    again.load_state_dict(state)
    through = torch.utils.data.DataLoader(again, batch_size=None)
    assert all(torch.equal(one["x"], two) for one, two in zip(through, tensors, strict=True))
    workers = torch.utils.data.DataLoader(Dataset(kubist.Loader(t, **options)), num_workers=1)
    with pytest.raises(Exception, match="num_workers=0|before a fork"):
        next(iter(workers))


def test_batches_of_jax_are_those_of_the_loader(path: Path) -> None:
    jax = pytest.importorskip("jax")
    import kubist.jax

    t = kubist.create(path, {"x": np.random.default_rng(1).random(5000), "n": range(5000)}, ["x"])
    options: dict[str, Any] = {"columns": ["x", "n"], "batch": 500, "dtype": "float32"}
    plain = list(kubist.Loader(t, **options))
    placed = list(kubist.jax.arrays(kubist.Loader(t, **options)))
    assert len(placed) == len(plain) == 10
    for one, other in zip(placed, plain, strict=True):
        assert all(isinstance(array, jax.Array) for array in one.values())
        assert all(np.array_equal(one[name], other[name]) for name in ("x", "n"))
    large = [{"n": np.array([1, 2**40])}]
    with pytest.raises(OverflowError, match="n: integers of int64 do not fit in int32"):
        next(kubist.jax.arrays(large))


def test_crops_are_batches_of_pytorch_geometric(path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from kubist.torch import point_clouds
    from torch_geometric.nn import global_mean_pool

    data = dict(zip("xyzw", np.random.default_rng(1).random((4, 20_000)), strict=True))
    t = kubist.create(path, data, ["x", "y", "z"])
    options: dict[str, Any] = {"points": 50, "columns": ["w"], "batch": 4, "seed": 3}
    crops = list(t.crops(10, 0.2, **options))
    clouds = list(point_clouds(t.crops(10, 0.2, **options), "cpu"))
    assert [cloud.num_graphs for cloud in clouds] == [4, 4, 2]
    for crop, cloud in zip(crops, clouds, strict=True):
        assert all(np.array_equal(crop[name], cloud[name].numpy()) for name in crop)
        means = global_mean_pool(cloud.x, cloud.batch)
        parts = np.split(crop["x"], crop["ptr"][1:-1])
        assert np.allclose(means.numpy(), [part.mean(axis=0) for part in parts])
