#!/usr/bin/env python3
"""Measures Fourier transforms by Slipway and by TensorFlow on one thread (./run bench fft).

Lengths are powers of two, products of small primes, and primes. Rounds alternate. The script prints the medians of CPU
time.
"""
import math
import pathlib
import sys
import tempfile

from beside_tensorflow import compare, tf

import numpy as np  # noqa: E402

SECONDS = 0.4
VALUES = 1 << 16  # numbers in a batch, or one transform if it has more
COMPLEX = {"fft_64": [64], "fft_1000": [1000], "fft_1024": [1024], "fft_1009": [1009], "fft_16384": [16384], "fft_100003": [100003],
           "fft_65536": [65536], "fft2d_256": [256, 256], "fft2d_240_360": [240, 360], "fft3d_32": [32, 32, 32]}
REAL = {"rfft_400": [400], "rfft_512": [512], "rfft_1024": [1024], "rfft_16000": [16000], "rfft2d_224": [224, 224]}


def transform(name):
    op = getattr(tf.signal, name.split("_")[0])
    if name.startswith("rfft"):
        return lambda re: {"y": op(re)}
    return lambda re, im: {"y": op(tf.complex(re, im))}


def main():
    with tempfile.TemporaryDirectory() as path:
        folder, draw = pathlib.Path(path), np.random.default_rng(1)
        signatures = {}
        for name, dims in (COMPLEX | REAL).items():
            parts = ("re", "im") if name in COMPLEX else ("re",)
            signatures[name] = tf.function(transform(name), input_signature=[tf.TensorSpec([None, *dims], tf.float32, p) for p in parts])
        tf.saved_model.save(tf.Module(), str(folder / "model"), signatures)
        for name, dims in (COMPLEX | REAL).items():
            n = max(1, VALUES // math.prod(dims))
            feeds = {p: draw.random((n, *dims), np.float32) for p in (("re", "im") if name in COMPLEX else ("re",))}
            mine, other = compare(folder / "model", name, feeds, folder, SECONDS)
            print(f"{name}, {n} at a time: {mine:.3f} ms, {other / mine:.2f} times as fast as TensorFlow's {other:.3f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(main())
