"""Writes numpy-plain.npz and numpy-deflated.npz, with every kind of array that the NPZ reader accepts and some
that it refuses. Needs NumPy 2.
"""
import numpy as np

n = 40
rows = np.arange(n)
arrays = {
    "pid": rows.astype(np.int32),
    "x": rows * 0.5,
    "u": np.arange(n * 3, dtype=np.float32).reshape(n, 3),
    "f": np.asfortranarray(np.arange(n * 2, dtype=np.float32).reshape(n, 2)),
    "big": (-rows).astype(">f8"),
    "ok": rows > 0,
    "when": np.where(rows > 0, rows.astype("M8[ms]"), np.datetime64("NaT")),
    "name": np.array([f"pérla {row}" for row in rows]),
    "tag": np.array([b"a", b"b", b"cc", b""] * (n // 4)),
    "half": rows.astype(np.float16),
    "time": np.float64(0.25),
    "short": np.zeros(3),
    "cube": np.zeros((2, 2, 2)),
    "complex": np.zeros(n, complex),
}
np.savez("numpy-plain.npz", **arrays)
np.savez_compressed("numpy-deflated.npz", **arrays)
