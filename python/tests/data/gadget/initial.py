"""The initial state for GADGET-2: a ball of gas and dark matter, in its first file format."""

import struct
import sys

import numpy as np

rng = np.random.default_rng(23)
counts = [150, 100, 0, 0, 20, 0]
many = sum(counts)
directions = rng.normal(size=(many, 3))
radii = rng.uniform(size=many) ** (1 / 3)
positions = (directions / np.linalg.norm(directions, axis=1)[:, None]) * radii[:, None]
velocities = np.cross([0, 0, 0.3], positions)
masses = [1 / 150, 0, 0, 0, 0.01, 0]
varying = rng.uniform(0.02, 0.04, counts[1])
header = struct.pack("<6I6d2d2i6I2i4d", *counts, *masses, 0, 0, 0, 0, *counts, 0, 1, 0, 0, 0, 1)
blocks = [
    header.ljust(256, b"\0"),
    positions.astype("<f4").tobytes(),
    velocities.astype("<f4").tobytes(),
    rng.permutation(many).astype("<u4").tobytes(),
    varying.astype("<f4").tobytes(),
    np.full(counts[0], 0.05, "<f4").tobytes(),
]
with open(sys.argv[1], "wb") as out:
    for block in blocks:
        length = struct.pack("<i", len(block))
        out.write(length + block + length)
