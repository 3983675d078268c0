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
import importlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow's oneDNN kernels round differently, and depend on the machine.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402

MODULES = ("applications", "rnn", "layers", "preprocessing", "estimator", "recommenders", "state",
           "pipelines", "seq2seq", "audio", "detection", "text", "trainers")
# `make` is a function of the version's folder.
Model = collections.namedtuple("Model", "name make rtol stateless shows")
# `call` is predict, classify or regress. The latter two take {"examples": serialized Examples} and give what their
# responses hold: scores by label, or values.
Request = collections.namedtuple("Request", "signature inputs call", defaults=("predict",))
KERAS = {"keras3": "keras", "tf_keras": "tf_keras"}  # suffixes of names, and the package
MODELS = {}


def model(*names, rtol=1e-4, stateless=False, shows=()):
    """Registers a maker. Floats may differ by `rtol` of the largest magnitude in an output.

    With several names, the maker also gets the name: make(folder, name). If the model is stateless, TensorFlow answers
    each request only once. `shows` names signatures that show what a checkpoint holds and change nothing: after the
    requests, TensorFlow must find the same in a snapshot of the served model.
    """

    def register(make):
        for name in names:
            assert name not in MODELS, name
            MODELS[name] = Model(name, make if len(names) == 1 else lambda folder, name=name: make(folder, name), rtol,
                                 stateless, shows)
        return make

    return register


def in_both(*kinds):
    """Returns the names of models that exist in both versions of Keras."""
    return [f"{kind}_{version}" for kind in kinds for version in KERAS]


def keras_of(name):
    """Returns the kind of model and the version of Keras that the name stands for. Seeds its weights."""
    version = next(v for v in KERAS if name.endswith(f"_{v}"))
    keras = importlib.import_module(KERAS[version])
    keras.utils.set_random_seed(7)
    return name[:-len(version) - 1], keras


def save(net, folder, traces=True):
    """Exports a Keras model as its version of Keras does. tf_keras also saves the functions of each layer, if `traces`."""
    if not hasattr(net, "save_spec"):
        net.export(folder, verbose=False)
    elif traces:
        net.save(folder, save_format="tf")
    else:
        net.export(folder)


def save_signatures(folder, held, **signatures):
    """Saves several signatures, given as name=(function, tensor specs...). `held` are the layers and variables they use."""
    import keras
    import tensorflow as tf

    made = {name: tf.function(function, input_signature=specs) for name, (function, *specs) in signatures.items()}
    if not any(isinstance(h, keras.layers.Layer) for h in held):
        module = tf.Module()
        module.held, module.made = held, made
        return tf.saved_model.save(module, folder, signatures=made)
    # tf.saved_model.save writes variables of Keras 3's layers that its own loader then does not find.
    archive = keras.export.ExportArchive()
    for h in held:
        archive.track(h)
    for name, function in made.items():
        function.get_concrete_function()
        archive.add_endpoint(name, function)
    archive.write_out(folder, verbose=False)


def tracked(*owners):
    """Returns the tf.Variables of Keras 3 models, layers and optimisers, for an attribute of a tf.Module that is saved.

    With the owners themselves as an attribute, TensorFlow 2.21 writes two variables for each one: functions read the first,
    and a session restores the second, so that every call is refused with "Could not find variable".
    """
    return [v.value for owner in owners for v in owner.variables]


def random(seed, shape, low=0.0, high=1.0, dtype="float32"):
    return (np.random.default_rng(seed).random(shape) * (high - low) + low).astype(dtype)


def integers(seed, shape, limit, dtype="int32"):
    return np.random.default_rng(seed).integers(0, limit, shape).astype(dtype)


def texts(seed, n, words, length=12):
    """Returns n strings of up to `length` of the words."""
    rng = np.random.default_rng(seed)
    return np.array([" ".join(rng.choice(words, rng.integers(0, length + 1))).encode() for _ in range(n)], object)
