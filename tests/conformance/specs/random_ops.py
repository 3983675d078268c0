"""Specifies random ops. With given seeds, the numbers of their first and second draws must be those of TensorFlow."""

from spec import *


@spec("RandomUniform", "RandomStandardNormal", "RandomUniformInt", rtol=2e-6)
def draws(g, op):
    def case(shape, dtype, **bounds):
        def build(tf, s):
            draw = getattr(tf.raw_ops, op)
            if op == "RandomUniformInt":
                lo, hi = (tf.constant(bounds[k], dtype) for k in ("lo", "hi"))
                return [draw(shape=s, minval=lo, maxval=hi, seed=3, seed2=9)]
            return [draw(shape=s, dtype=dtype, seed=3, seed2=9)]

        return Graph(build, np.int32(shape), name=f"{op} {shape} {dtype.name} {bounds}")

    import tensorflow as tf
    if op == "RandomUniformInt":
        for dtype in (tf.int32, tf.int64):
            yield case([7], dtype, lo=0, hi=10)
            yield case([2, 3], dtype, lo=-5, hi=1000000)
            yield case([0], dtype, lo=0, hi=1)
            yield case([2], dtype, lo=4, hi=4)
        return
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16):
        for shape in ([1], [9], [3, 5], [2, 0], []):
            yield case(shape, dtype)
    yield case([-1], tf.float32)
