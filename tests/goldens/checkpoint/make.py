"""Writes the checkpoints of this folder with TensorFlow 2.21. Must be run in this folder."""
import os
import numpy as np
import tensorflow as tf

ops = tf.raw_ops


def save(prefix, names, tensors, slices=None):
    with tf.Graph().as_default():
        op = ops.SaveV2(prefix=prefix, tensor_names=names,
                        shape_and_slices=slices or [""] * len(names),
                        tensors=[tf.constant(t) for t in tensors])
        with tf.compat.v1.Session() as session:
            session.run(op)


save("plain", ["f32", "f64", "i8", "bf16", "half", "str", "scalar", "empty", "bool", "c64", "u64",
               "long/name/with/prefix/a", "long/name/with/prefix/b"],
     [np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5, -2.]),
      np.array([-1, 2], np.int8), tf.constant([1.5, -3, 256], tf.bfloat16).numpy(),
      np.array([1, 2], np.float16), np.array([b"", b"abc", b"x" * 300], object), np.float32(7),
      np.zeros((0, 4), np.float32), np.array([True, False]), np.array([1 + 2j], np.complex64),
      np.array([2**63], np.uint64), np.int32(1), np.int32(2)])

# Writes one tensor of three slices, each in its own shard.
full = np.arange(40, dtype=np.float32).reshape(5, 8)
save("part-0", ["w", "b"], [full[:2], np.float32(1)], ["5 8 0,2:-", ""])
save("part-1", ["w", "c"], [full[2:5, :3], np.array([b"hello", b"you"], object)],
     ["5 8 2,3:0,3", ""])
save("part-2", ["w"], [full[2:5, 3:]], ["5 8 2,3:3,5"])
with tf.Graph().as_default():
    merge = ops.MergeV2Checkpoints(checkpoint_prefixes=["part-0", "part-1", "part-2"],
                                   destination_prefix="sliced", delete_old_dirs=False)
    with tf.compat.v1.Session() as session:
        session.run(merge)
