"""Test cases for ops that find the largest elements, distinct elements, and elements missing from a list."""

from spec import *


@spec("TopKV2")
def top_k(g, op):
    for dtype in REALS:
        x = g.values(dtype, (3, 17), special=False)
        for k in (0, 1, 3, 16, 17):
            yield Case(x, np.int32(k))
    x = g.values("float32", (7,), special=False)
    for k in (8, -1):
        yield Case(x, np.int32(k))
    yield Case(x, np.int32([1]))
    yield Case(np.float32(3), np.int32(1))
    yield Case(np.float32([1, 3, 2, 3, 3, 1]), np.int32(4))
    yield Case(np.zeros((0, 3), np.float32), np.int32(2))
    yield Case(x, np.int64(3))


@spec("ApproxTopK")
def approx_top_k(g, op):
    # TensorFlow refuses the node in a graph that does not say the rank of its input.
    def case(x, **attrs):
        return Graph(lambda tf, fed: tf.raw_ops.ApproxTopK(input=tf.ensure_shape(fed, x.shape), **attrs), x)

    for dtype in ("float16", "bfloat16", "float32"):
        x = g.values(dtype, (3, 17), special=False)
        for k in (0, 1, 3, 16, 17):
            yield case(x, k=k)
        yield case(g.values(dtype, (2, 3, 40), special=False), k=7, recall_target=0.5, reduction_input_size_override=100)
        yield case(x, k=4, aggregate_to_topk=False)
    yield case(np.float32([1, 3, 2, 3, 3, 1]), k=4)
    yield case(np.zeros((0, 3), np.float32), k=2)


@spec("NthElement")
def nth(g, op):
    for dtype in WIDE_FLOATS + INTS:
        for reverse in (False, True):
            yield Case(g.values(dtype, (3, 9), special=False), np.int32(2), reverse=reverse)
    for n in (9, -1):
        yield Case(g.values("float32", (9,), special=False), np.int32(n))
    yield Case(np.float32(1), np.int32(0))


@spec("Unique", "UniqueWithCounts")
def unique(g, op):
    for dtype in REALS + ["bool", "string"]:
        for n in (0, 1, 50):
            for t in ("int32", "int64"):
                yield Case(g.values(dtype, (n,), special=False) if dtype != "string" else g.values(dtype, (n,)), out_idx=t)
    yield Case(np.float32([1, np.nan, np.nan, 0.0, -0.0, 0.0]))
    yield Case(np.int32([[1, 2]]))
    yield Case(g.values("int32", (1000,), lo=0, hi=300))


@spec("UniqueV2", "UniqueWithCountsV2")
def unique_v2(g, op):
    x = g.values("int32", (6, 4), lo=0, hi=1)
    for axis in ([0], [1], [], [2], [0, 0], [-1]):
        yield Case(x, np.array(axis, np.int32))
        yield Case(x[0], np.array(axis, np.int64))
    yield Case(g.values("string", (6, 1)), np.int64([0]))


@spec("ListDiff")
def list_diff(g, op):
    for dtype in REALS + ["string"]:
        a = g.values(dtype, (30,), special=False) if dtype != "string" else g.values(dtype, (30,))
        for t in ("int32", "int64"):
            yield Case(a, a[5:9], out_idx=t)
    yield Case(np.int32([[1]]), np.int32([2]))
    yield Case(np.int32([1]), np.int32([[2]]))
    yield Case(np.int32([]), np.int32([2]))
    yield Case(np.int32([1, 2, 3, 2]), np.int32([]))
