"""Learns which droplets are deposited from a growing sample, and stops when the loss stops falling.

    python examples/learning/deposition.py airway.parquet [TABLE]

The model is a logistic regression with Fourier features of the position, trained by stochastic
gradient descent: scikit-learn's `SGDClassifier` if it is installed, otherwise a few lines of NumPy.
It prints the loss on held-out droplets for three orders of the rows: the growing sample of
`kubist.Loader`, a true shuffle in memory, and the order of the file with a shuffle buffer of 10,000
rows, as in loaders of shards.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import kubist
import numpy as np

Array = np.ndarray
AXES = ("x", "y", "z")
TARGET = "deposited"
BATCH = 512
FEATURES = 64
PATIENCE = 4
"""Checks of the loss without progress before training stops."""
PROGRESS = 0.004
"""Fraction by which the loss must fall to count as progress."""
CHECK_ROWS = 1 << 13


class Features:
    """Random Fourier features of positions, scaled by an estimated mean and deviation."""

    def __init__(self, sample: dict[str, Array], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        points = np.stack([sample[axis] for axis in AXES], axis=1)
        self._mean, self._deviation = points.mean(axis=0), points.std(axis=0) + 1e-12
        self._waves = rng.normal(size=(len(AXES), FEATURES))
        self._phases = rng.uniform(0, 2 * np.pi, FEATURES)

    def __call__(self, batch: dict[str, Array]) -> Array:
        points = np.stack([batch[axis] for axis in AXES], axis=1)
        return np.cos(
            (points - self._mean) / self._deviation @ self._waves + self._phases
        )


class Logistic:
    """Logistic regression with the interface of scikit-learn's `SGDClassifier`."""

    def __init__(self, rate: float = 0.5) -> None:
        self._rate, self._steps = rate, 0
        self._weights, self._bias = np.zeros(FEATURES), 0.0

    def partial_fit(
        self, features: Array, labels: Array, classes: object = None
    ) -> None:
        self._steps += 1
        rate = self._rate / (1 + 0.002 * self._steps)
        error = self.predict_proba(features)[:, 1] - labels
        self._weights -= rate * (features.T @ error) / len(labels)
        self._bias -= rate * float(error.mean())

    def predict_proba(self, features: Array) -> Array:
        one = 1 / (1 + np.exp(-np.clip(features @ self._weights + self._bias, -30, 30)))
        return np.stack([1 - one, one], axis=1)


def model(seed: int = 0):
    """scikit-learn's classifier, or ours."""
    try:
        from sklearn.linear_model import SGDClassifier
    except ImportError:
        return Logistic()
    return SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=0.003, random_state=seed
    )


def loss(fitted, features: Array, labels: Array) -> float:
    """The mean negative log-likelihood."""
    p = np.clip(fitted.predict_proba(features)[:, 1], 1e-6, 1 - 1e-6)
    return float(-np.mean(np.where(labels, np.log(p), np.log(1 - p))))


def train(
    fitted,
    batches: Iterable[dict[str, Array]],
    features: Features,
    held_out: dict[str, Array],
) -> tuple[float, int]:
    """Trains until the loss on held-out rows stops falling; returns the loss and the rows used."""
    of_held_out, labels = features(held_out), held_out[TARGET]
    rows = next_check = 0
    best, without_progress = np.inf, 0
    for batch in batches:
        fitted.partial_fit(
            features(batch), batch[TARGET], classes=np.array([False, True])
        )
        rows += len(batch[TARGET])
        if rows < next_check:
            continue
        # A check after each eighth more rows costs little compared with the training.
        next_check = max(rows * 9 // 8, rows + CHECK_ROWS)
        now = loss(fitted, of_held_out, labels)
        without_progress = 0 if now < best * (1 - PROGRESS) else without_progress + 1
        best = min(best, now)
        if without_progress == PATIENCE:
            break
    return loss(fitted, of_held_out, labels), rows


def growing(table: kubist.Table, seed: int) -> Iterator[dict[str, Array]]:
    """The training part of a table: 1/128 of it, then as much again, and so on."""
    window = kubist.Loader.parts(training=0.875, test=0.125)["training"]
    return iter(
        kubist.Loader(
            table, AXES, TARGET, batch=BATCH, order="growing", window=window, seed=seed
        )
    )


def shuffled(rows: dict[str, Array], seed: int) -> Iterator[dict[str, Array]]:
    return _batches(rows, np.random.default_rng(seed).permutation(len(rows[TARGET])))


def buffered(
    rows: dict[str, Array], seed: int, buffer: int = 10_000
) -> Iterator[dict[str, Array]]:
    """The rows in their order through a shuffle buffer, where each next one replaces a random one.
    """
    rng, count = np.random.default_rng(seed), len(rows[TARGET])
    held = np.arange(min(buffer, count))
    order = np.empty(count, np.int64)
    places = rng.integers(0, len(held), count)
    for place in range(count - len(held)):
        order[place] = held[places[place]]
        held[places[place]] = place + len(held)
    order[count - len(held) :] = rng.permutation(held)
    return _batches(rows, order)


def _batches(rows: dict[str, Array], order: Array) -> Iterator[dict[str, Array]]:
    for first in range(0, len(order) - BATCH + 1, BATCH):
        places = order[first : first + BATCH]
        yield {name: column[places] for name, column in rows.items()}


def compare(
    table: kubist.Table, in_file_order: dict[str, Array], seeds: Iterable[int]
) -> dict[str, list[tuple[float, int]]]:
    """By order of the rows and seed."""
    parts = kubist.Loader.parts(training=0.875, test=0.125)
    columns = [*AXES, TARGET]
    held_out = table.query(columns=columns, window=parts["test"]).to_numpy()
    features = Features(table.query(columns=columns, limit=10_000).to_numpy())
    found: dict[str, list[tuple[float, int]]] = {}
    for seed in seeds:
        orders = {
            "growing sample, stops by itself": growing(table, seed),
            "true shuffle": shuffled(in_file_order, seed),
            "buffer of 10,000 rows": buffered(in_file_order, seed),
        }
        for name, batches in orders.items():
            stops = name.startswith("growing")
            fitted = model(seed)
            if stops:
                result = train(fitted, batches, features, held_out)
            else:
                for batch in batches:
                    fitted.partial_fit(
                        features(batch), batch[TARGET], classes=np.array([0, 1])
                    )
                at_end = loss(fitted, features(held_out), held_out[TARGET])
                result = at_end, len(in_file_order[TARGET])
            found.setdefault(name, []).append(result)
    return found


def report(found: dict[str, list[tuple[float, int]]]) -> str:
    """A table of mean losses, their deviations over the seeds, and rows."""
    lines = [f"{'order of the rows':34} {'loss':>8} {'+-':>8} {'rows used':>12}"]
    for name, results in found.items():
        losses = np.array([one for one, _ in results])
        rows = int(np.mean([rows for _, rows in results]))
        lines.append(f"{name:34} {losses.mean():8.4f} {losses.std():8.4f} {rows:12,}")
    return "\n".join(lines)


def main() -> None:
    import pyarrow.parquet as pq

    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(sys.argv[2] if len(sys.argv) > 2 else scratch) / "airway.kubist"
        data = pq.read_table(source)
        table = kubist.create(
            path,
            data,
            {"x": None, "y": None, "z": None, "time": None},
            # A droplet is in one part alone, with all of its times.
            identity=["pid"],
            storage={"strata": "windows"},
        )
        parts = kubist.Loader.parts(training=0.875, test=0.125)
        columns = ["pid", "time", *AXES, TARGET]
        rows = table.query(columns=columns, window=parts["training"]).to_numpy()
        order = np.lexsort((rows["pid"], rows["time"]))  # as a simulation writes it
        in_file_order = {name: rows[name][order] for name in (*AXES, TARGET)}
        print(report(compare(table, in_file_order, range(5))))


if __name__ == "__main__":
    main()
