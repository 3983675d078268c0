"""The catalogue of whole models: what a module that makes models is written with.

A maker writes a SavedModel as a user would export it, and returns the requests that are sent to it. TensorFlow answers
the same requests in the same order, so a model may keep state.

    @model("lstm_keras3")
    def lstm(folder):
        net = keras.Sequential([...])
        net.export(folder)
        return [Request("serving_default", {"tokens": tokens})]

Modules of makers import TensorFlow and what else they need within the makers.
"""
import collections
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow's oneDNN kernels round differently, and depend on the machine.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402

MODULES = ("applications",)
# `make` is a function of the version's folder.
Model = collections.namedtuple("Model", "name make rtol")
Request = collections.namedtuple("Request", "signature inputs")
MODELS = {}


def model(*names, rtol=1e-4):
    """Registers a maker. Floats may differ by `rtol` of the largest magnitude in an output. With several names, the maker also gets the name: make(folder, name)."""

    def register(make):
        for name in names:
            assert name not in MODELS, name
            MODELS[name] = Model(name, make if len(names) == 1 else lambda folder, name=name: make(folder, name), rtol)
        return make

    return register


def random(seed, shape, low=0.0, high=1.0, dtype="float32"):
    return (np.random.default_rng(seed).random(shape) * (high - low) + low).astype(dtype)


def integers(seed, shape, limit, dtype="int32"):
    return np.random.default_rng(seed).integers(0, limit, shape).astype(dtype)


def texts(seed, n, words, length=12):
    """Returns n strings of up to `length` of the words."""
    rng = np.random.default_rng(seed)
    return np.array([" ".join(rng.choice(words, rng.integers(0, length + 1))).encode() for _ in range(n)], object)
