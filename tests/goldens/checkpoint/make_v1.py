"""Writes checkpoints of format version 1 with TensorFlow 2.21. Must be run in this folder."""
import os
import numpy as np
import tensorflow as tf

import make_forms

ops = tf.raw_ops
WHOLE = np.arange(40, dtype=np.float32).reshape(5, 8)
PLAIN = {"f32": np.arange(6, dtype=np.float32).reshape(2, 3), "f64": np.array([1.5, -2.]),
         "i8": np.array([-1, 2], np.int8), "i32": np.int32(-7), "i64": np.array([2**62, -1]),
         "u8": np.array([[255]], np.uint8), "half": np.array([1, 2], np.float16),
         "bool": np.array([True, False]), "c64": np.array([1 + 2j], np.complex64),
         "str": np.array([b"", b"abc", b"x" * 300], object), "empty": np.zeros((0, 4), np.float32)}


def save(name, tensors, slices=None):
    names = list(tensors)
    ops.SaveSlices(filename=name, tensor_names=names, shapes_and_slices=slices or [""] * len(names),
                   data=[tf.constant(t) for t in tensors.values()])


def compressed(name, to):
    """Writes the table `name` again, with each block compressed, as a TensorFlow built with snappy writes it."""
    reader = tf.io.gfile.GFile(name, "rb").read()
    open(to, "wb").write(make_forms.table(make_forms.entries_in(reader), kind=1, per_block=3))


save("v1", PLAIN)
compressed("v1", "v1-snappy")
save("v1-00000-of-00002", {"w": WHOLE[:2], "b": np.float32(1)}, ["5 8 0,2:-", ""])
save("v1-00001-of-00002", {"w": WHOLE[2:]}, ["5 8 2,3:-"])
for name in ("v1", "v1-snappy"):
    got = ops.RestoreV2(prefix=name, tensor_names=list(PLAIN), shape_and_slices=[""] * len(PLAIN),
                        dtypes=[tf.constant(t).dtype for t in PLAIN.values()])
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(got, PLAIN.values())), name
got, = ops.RestoreV2(prefix="v1-?????-of-00002", tensor_names=["w"], shape_and_slices=["5 8 1,3:2,4"],
                     dtypes=[tf.float32])
assert np.array_equal(got.numpy(), WHOLE[1:4, 2:6])
