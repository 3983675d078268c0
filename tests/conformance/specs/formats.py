"""Test cases for ops on diagonals and data formats, ops that change rows in place, ops that call functions on slices of their
inputs, and a few small ops such as GuaranteeConst and Timestamp."""

import itertools

from spec import *

DIAGONAL = ("float16", "float32", "float64", "int32", "int64", "complex64", "complex128")


@spec("Diag")
def diag(g, op):
    for dtype in DIAGONAL:
        for shape in ((3,), (1,), (0,), (2, 3), (1, 2, 2), (2, 1, 1, 2), (0, 2), (17,)):
            for _ in range(4):
                yield Case(g.values(dtype, shape))
    yield Case(np.float32(1), texts=True)


@spec("DiagPart")
def diag_part(g, op):
    for dtype in DIAGONAL:
        for shape in ((), (3,), (1,), (0,), (2, 3), (1, 2, 2), (2, 1, 1, 2), (0, 2)):
            for _ in range(4):
                yield Case(g.values(dtype, shape + shape))
    for shape in ((1,), (1, 1, 1), (2, 3), (2, 3, 2, 4), (3, 2, 2, 2)):
        yield Case(g.values("float32", shape), texts=True)


PAIRS = (("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "NHWC"), ("HWNC", "NHWC"), ("NDHWC", "NCDHW"), ("NCDHW", "NDHWC"), ("ABCD", "DCBA"), ("WHNC", "NHWC"))
WRONG = (("NHW", "NCH"), ("NHWC", "NCH"), ("NHWC", "NCDHW"), ("NNHC", "NCHW"), ("ABCD", "NHWC"), ("", ""), ("NHWC", "NNWC"))


@spec("DataFormatDimMap")
def dim_map(g, op):
    for dtype in ("int32", "int64"):
        for src, dst in PAIRS:
            for shape in ((), (0,), (7,), (2, 3), (1, 2, 1, 2)):
                for _ in range(3):
                    yield Case(g.values(dtype, shape, lo=-len(src), hi=2 * len(src)), src_format=src, dst_format=dst)
    for src, dst in WRONG:
        yield Case(np.int32([0, 1]), src_format=src, dst_format=dst, texts=True)


@spec("DataFormatVecPermute")
def permute(g, op):
    for dtype in ("int32", "int64"):
        for src, dst in PAIRS:
            for n in (len(src), *((len(src) - 2,) if src != "ABCD" else ())):
                for shape in ((n,), (n, 2)):
                    for _ in range(4):
                        yield Case(g.values(dtype, shape), src_format=src, dst_format=dst)
    for src, dst in WRONG:
        yield Case(np.int32([1, 2, 3, 4]), src_format=src, dst_format=dst, texts=True)
    for shape in ((), (3,), (1,), (0,), (5,), (4, 3), (3, 2), (4, 2, 1), (2, 1)):
        yield Case(g.values("int32", shape), src_format="NHWC", dst_format="NCHW", texts=True)


@spec("InplaceUpdate", "InplaceAdd", "InplaceSub")
def inplace(g, op):
    for dtype in PLAIN + ["string"] if op == "InplaceUpdate" else NUMBERS:
        for shape in ((5,), (4, 3), (2, 2, 3), (1, 40), (3, 0)):
            for n in (0, 1, 4):
                i = np.int32(g.rng.integers(-6, 6, n))
                # The copy prevents TensorFlow from changing the fed array.
                yield Graph(lambda tf, x, i, v: [getattr(tf.raw_ops, op)(x=tf.raw_ops.DeepCopy(x=x), i=i, v=v)], g.values(dtype, shape), i, g.values(dtype, (n, *shape[1:])))
    x = g.values("float32", (3, 2))
    for i, v in ((1, [[1, 2]]), (1, [1, 2]), ([[1]], [[1, 2]]), ([1, 2], [[1, 2]]), ([1], [[1, 2, 3]]), ([1], [1, 2]), ([], [[1, 2]])):
        yield Case(x, np.int32(i), np.float32(v), texts=True)
    yield Case(np.float32(1), np.int32([0]), np.float32([1]), texts=True)
    yield Case(x[:0], np.int32([1]), np.float32([[1, 2]]))
    if op != "InplaceUpdate":
        yield Case(np.array([True, False]), np.int32([1]), np.array([True]), texts=True)
        yield Case(g.values("string", (3,)), np.int32([1]), g.values("string", (1,)), texts=True)


@spec("GuaranteeConst")
def guarantee(g, op):
    for dtype in PLAIN + ["string"]:
        for x in g.tensors(dtype):
            yield Case(x)


@spec("ParallelConcat")
def parallel_concat(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((), (3,), (2, 3), (0,), (1, 2, 1, 2)):
            for n in (1, 2, 5):
                def concat(tf, *parts, shape=shape):
                    return [tf.raw_ops.ParallelConcat(values=[tf.ensure_shape(p, [1, *shape]) for p in parts], shape=[len(parts), *shape])]

                yield Graph(concat, *(g.values(dtype, (1, *shape)) for _ in range(n)))


@spec("ScatterNdNonAliasingAdd", rtol=1e-2)
def non_aliasing(g, op):
    for dtype in PLAIN:
        for depth in (1, 2):
            for kind in (np.int32, np.int64):
                for n in (0, 1, 5):
                    i = np.stack([g.rng.integers(0, d, n) for d in (4, 3)[:depth]], -1).astype(kind)
                    yield Case(g.values(dtype, (4, 3), lo=-9, hi=9, special=False), i, g.values(dtype, (n, 3)[: 3 - depth], lo=-9, hi=9, special=False))
    x = g.values("float32", (4, 3))
    for i, u in (([[4]], [[1, 2, 3]]), ([[-1]], [[1, 2, 3]]), ([1], [[1, 2, 3]]), ([[1]], [[1, 2]]), ([[1, 2, 3]], [1]), (1, [1, 2, 3]), ([[0], [1]], [[1, 2, 3]])):
        yield Case(x, np.int32(i), np.float32(u))


@spec("TensorStridedSliceUpdate")
def slice_update(g, op):
    for dtype in PLAIN + ["string"]:
        for begin, end, strides, shape in (([0, 1], [3, 3], [1, 1], (3, 2)), ([0, 0], [4, 3], [2, 2], (2, 2)), ([-1, -1], [0, -4], [-1, -1], (3, 3)), ([1, 0], [1, 3], [1, 1], (0, 3)),
                                           ([1], [3], [1], (2, 3)), ([0, 1], [3, 3], [1, 1], (1, 2)), ([0, 1], [3, 3], [1, 1], ())):
            for kind in (np.int32, np.int64):
                yield Case(g.values(dtype, (4, 3)), kind(begin), kind(end), kind(strides), g.values(dtype, shape))
        yield Case(g.values(dtype, (4, 3)), np.int32([1, 0]), np.int32([2, 2]), np.int32([1, 1]), g.values(dtype, (2,)), shrink_axis_mask=1)
        yield Case(g.values(dtype, (4, 3)), np.int32([1, 0]), np.int32([2, 2]), np.int32([1, 1]), g.values(dtype, (4, 1, 2)), new_axis_mask=2, begin_mask=1, end_mask=1)
        yield Case(g.values(dtype, (2, 2, 3)), np.int32([0, 1]), np.int32([0, 2]), np.int32([1, 1]), g.values(dtype, (2, 2, 1)), ellipsis_mask=1)
    x = g.values("float32", (4, 3))
    for begin, end, strides, shape in (([0, 1], [3, 3], [0, 1], (3, 2)), ([0, 1], [3, 3], [1, 1], (3, 3)), ([0, 1, 2], [3, 3, 3], [1, 1, 1], (3, 2)), ([0], [3, 3], [1, 1], (3, 2)), ([0, 1], [3, 3], [1, 1], (2, 3, 2)),
                                       ([[0, 1]], [[3, 3]], [[1, 1]], (3, 2))):
        yield Case(x, np.int32(begin), np.int32(end), np.int32(strides), g.values("float32", shape))


@spec("ToBool")
def to_bool(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((), (0,), (1,), (2, 3)):
            for _ in range(3):
                yield Case(g.values(dtype, shape))
        if dtype != "string":
            yield Case(np.zeros((), dtype_of(dtype)))
    yield Case(np.array(b"", object))
    yield Case(np.float32(-0.0))


def plausible(case, theirs, ours):
    return None if abs(float(np.ravel(theirs[0])[0]) - float(np.ravel(ours[0])[0])) < 60 else "another time"


@spec("Timestamp")
def timestamp(g, op):
    yield Case(check=plausible)


@spec("DeviceIndex")
def device(g, op):
    for names in (["GPU", "CPU"], ["CPU", "GPU"], ["TPU"], ["CPU"], ["GPU", "TPU"]):
        yield Case(device_names=names)


@spec("FakeParam")
def fake(g, op):
    # The values are undefined, so only their number is compared.
    for dtype in ("float32", "int64", "bool", "string"):
        for shape in ([], [3], [2, 0], [2, 3]):
            yield Graph(lambda tf, dtype=dtype, shape=shape: [tf.shape(tf.raw_ops.FakeParam(dtype=dtype, shape=shape))])


# ---- functions of slices ----

BATCHING = {"num_batch_threads": 1, "max_batch_size": 10, "batch_timeout_micros": 100, "allowed_batch_sizes": []}
ROWS = (3, 1, 4, 0, 10)


def function_of(tf, fn, inputs):
    types = [tf.TensorSpec(None, x.dtype) for x in inputs]
    return tf.function(lambda *x: fn(tf, *x), input_signature=types, autograph=False).get_concrete_function()


def batched(fn, *feeds, captured=(), texts=True, name="", **attrs):
    """Returns a case for BatchFunction, which calls fn(tf, *feeds, *captured)."""
    def build(tf, *x):
        more = [tf.constant(c) for c in captured]
        f = function_of(tf, fn, [*x, *more])
        types = [t.dtype for t in f.outputs]
        return list(tf.raw_ops.BatchFunction(in_tensors=list(x), captured_tensors=more, f=f, Tout=types, **{**BATCHING, **attrs}))
    return Graph(build, *feeds, name=f"{name} {attrs} {[np.shape(x) for x in feeds]}", texts=texts)


def mapped(fn, *feeds, captured=(), shapes=None, types=None, texts=True, name="", **attrs):
    """Returns a case for MapDefun, which calls fn(tf, *rows, *captured)."""
    def build(tf, *x):
        more = [tf.constant(c) for c in captured]
        f = function_of(tf, fn, [*x, *more])
        out = types or [t.dtype for t in f.outputs]
        return list(tf.raw_ops.MapDefun(arguments=list(x), captured_inputs=more, f=f, output_types=out,
                                        output_shapes=shapes or [tf.TensorShape(None)] * len(out), **attrs))
    return Graph(build, *feeds, name=f"{name} {shapes} {attrs} {[np.shape(x) for x in feeds]}", texts=texts)


def look(tf, x):
    """Shows how many rows there are, and the rows that padding has added."""
    rows = tf.shape(x)[0]
    return tf.reverse(x, [0]), tf.fill([rows], rows)


@spec("BatchFunction")
def batch_function(g, op):
    for dtype in PLAIN + ["string"]:
        for rows, sizes in itertools.product(ROWS, ([], [4, 10])):
            yield batched(look, g.values(dtype, (rows,)), name=dtype, allowed_batch_sizes=sizes)
        yield batched(look, g.values(dtype, (3, 2)), name=dtype, allowed_batch_sizes=[5, 10])
        yield batched(look, g.values(dtype, (3, 0, 2)), name=dtype, allowed_batch_sizes=[5, 10])
    x = np.float32(g.rng.integers(-99, 99, (12, 2)))  # sums are exact
    for rows in range(1, 13):
        for sizes, splits in (([4, 8], True), ([3], True), ([], True), ([7, 10], True), ([7, 10], False), ([1, 10], False)):
            yield batched(look, x[:rows], allowed_batch_sizes=sizes, enable_large_batch_splitting=splits)
            yield batched(lambda tf, x, c: [x * 0 + tf.reduce_sum(x), x * c[1]], x[:rows], captured=[np.float32([2, 3])],
                          allowed_batch_sizes=sizes, enable_large_batch_splitting=splits)
    for policy in ("PAD_UP", "BATCH_DOWN", "MINIMIZE_TPU_COST_PER_REQUEST"):
        for rows in (3, 4, 5, 9):
            yield batched(look, x[:rows], allowed_batch_sizes=[4, 8, 10], batch_padding_policy=policy)
    for policy in ("low_priority_padding_with_max_batch_size", "low_priority_padding_with_next_allowed_batch_size", "priority_isolation", "priority_merge"):
        yield batched(look, x[:3], allowed_batch_sizes=[4, 10], mixed_priority_policy=policy, low_priority_max_batch_size=6,
                      low_priority_allowed_batch_sizes=[5, 6], low_priority_batch_timeout_micros=9, low_priority_max_enqueued_batches=2)
    for attrs in ({"max_batch_size": 0}, {"max_batch_size": -1}, {"batch_timeout_micros": -1}, {"batch_timeout_micros": 0}, {"num_batch_threads": 0},
                  {"max_enqueued_batches": 0}, {"allowed_batch_sizes": [4, 8]}, {"allowed_batch_sizes": [8, 4, 10]}, {"allowed_batch_sizes": [4, 4, 10]},
                  {"allowed_batch_sizes": [-1, 10]}, {"allowed_batch_sizes": [0, 10]}, {"allowed_batch_sizes": [4, 16], "enable_large_batch_splitting": True},
                  {"shared_name": "queue", "container": "c", "batching_queue": "q"}):
        yield batched(look, x[:3], **attrs)
    two = [(x[:3], x[:3, 0]), (x[:3], x[:2]), (x[:0], x[:2]), (x[:0], x[:0, 0]), (x[:3], np.float32(1)), (np.float32(1), x[:3])]
    for a, b in two:
        yield batched(lambda tf, x, y: [x + 1, y * 2], a, b, allowed_batch_sizes=[4, 10], texts=False)
    for name, fn in (("first row", lambda tf, x: x[:1]), ("three rows", lambda tf, x: x[:3]), ("scalar", lambda tf, x: tf.reduce_sum(x)),
                     ("wider", lambda tf, x: tf.concat([x, x], 1)), ("argument", lambda tf, x: x), ("two", lambda tf, x: [x, x[:, 0]]),
                     ("text", lambda tf, x: tf.as_string(x)), ("long", lambda tf, x: tf.concat([x, x], 0))):
        for rows, sizes in ((1, []), (3, []), (3, [4, 10]), (0, [4, 10])):
            yield batched(fn, x[:rows], name=name, allowed_batch_sizes=sizes)
    yield batched(lambda tf, x: tf.debugging.check_numerics(x / 0, "bad"), x[:3], texts=False, name="fails")
    yield batched(lambda tf, x: tf.raw_ops.BatchFunction(in_tensors=[x], captured_tensors=[], Tout=["float32"], f=function_of(tf, lambda tf, x: x + 1, [x]),
                                                         **BATCHING)[0] * 2, x[:3], name="nested", allowed_batch_sizes=[4, 10])

    def writes(tf, x):
        v = tf.raw_ops.VarHandleOp(dtype="float32", shape=[], shared_name=f"batch_function_{tf.compat.v1.get_default_graph().unique_name('v')}")

        def fn(tf, x, v):
            tf.raw_ops.AssignAddVariableOp(resource=v, value=tf.reduce_sum(x))
            return x * 0 + tf.raw_ops.ReadVariableOp(resource=v, dtype="float32")
        f = tf.function(lambda x, v: fn(tf, x, v), autograph=False).get_concrete_function(tf.TensorSpec(None), tf.TensorSpec([], "resource"))
        y = tf.raw_ops.BatchFunction(in_tensors=[x], captured_tensors=[v], Tout=["float32"], f=f, **{**BATCHING, "allowed_batch_sizes": [4, 10]})[0]
        return [[tf.raw_ops.AssignVariableOp(resource=v, value=0.0)], [y], [y], [tf.raw_ops.ReadVariableOp(resource=v, dtype="float32")]]
    for rows in (1, 3, 4, 6):
        yield Graph(writes, np.arange(rows, dtype=np.float32) + 1, name=f"writes {rows}")


def twice(tf, x):
    return tf.stack([x, x]), tf.size(x)


@spec("MapDefun")
def map_defun(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((3,), (1,), (2, 3), (4, 1, 2), (3, 0), (2, 1, 1, 1, 1, 1, 2)):
            x = g.values(dtype, shape)
            yield mapped(twice, x, name=dtype)
            yield mapped(twice, x, name=dtype, shapes=[[2, *shape[1:]], []])
        for shape in ((0,), (0, 3)):
            yield mapped(twice, g.values(dtype, shape), name=dtype, shapes=[[2, *shape[1:]], []])
    x = g.values("float32", (4, 3), special=False)
    for shapes in ([None, None], [[2, None], []], [[None, 3], None], [[2, 4], []], [[None, None, None], []], [[2, 3], [1]], [[], []]):
        for rows in (0, 1, 4):
            yield mapped(twice, x[:rows], shapes=shapes, texts=rows < 2)
    for a, b in ((x, x[:, 0]), (x, x[:2]), (x[:0], x[:0]), (x, np.float32(1)), (np.float32(1), x), (x[:2], x)):
        yield mapped(lambda tf, x, y: [x * 2, y + 1], a, b, shapes=[np.shape(a)[1:], np.shape(b)[1:]])
    for width in (1, 2, 4):
        yield mapped(lambda tf, x, c, d: [x * c, tf.reduce_sum(x) + d], x[:width], captured=[np.float32([1, 2, 3]), np.float32(4)])
    n = np.int32([2, 2, 3])
    for count, shapes in itertools.product((1, 2, 3), (None, [[2]], [[None]], [[3]])):
        yield mapped(lambda tf, k: tf.zeros([k]), n[:count], shapes=shapes, texts=count < 3)
    for types in (["int32"], ["float64"], ["string"]):
        yield mapped(lambda tf, x: x, x[:1], types=types)
    for parallel in (0, 1, 4, -1):
        yield mapped(twice, x, max_intra_op_parallelism=parallel)
    yield mapped(lambda tf, x: tf.debugging.check_numerics(1 / (x - x), "bad"), x, texts=False, name="fails")
    yield mapped(lambda tf, x: tf.while_loop(lambda y: tf.reduce_sum(y) < 100, lambda y: [y * 2], [tf.abs(x) + 1])[0], x, name="loop")
    yield mapped(lambda tf, x: tf.cond(x[0] > 0, lambda: x * 2, lambda: x - 1), x, name="branch")
    yield mapped(lambda tf, x: tf.raw_ops.MapDefun(arguments=[x], captured_inputs=[], f=function_of(tf, lambda tf, x: x * x, [x]), output_types=["float32"],
                                                   output_shapes=[tf.TensorShape([])])[0], x, name="nested")
    yield mapped(lambda tf, x: tf.raw_ops.StringSplit(input=x[None], delimiter=" ").values, np.array([b"a b", b"c d"], object), name="strings")


def counted(fn, start, limit, delta, *feeds, constants=(), name="", texts=True):
    """Returns a case for For, which calls fn(tf, index, *feeds, *constants)."""
    def build(tf, start, limit, delta, *x):
        carried = [*x, *(tf.constant(c) for c in constants)]
        types = [tf.TensorSpec([], "int32"), *(tf.TensorSpec(None, t.dtype) for t in carried)]
        body = tf.function(lambda *x: fn(tf, *x), input_signature=types, autograph=False).get_concrete_function()
        return list(tf.raw_ops.For(start=start, limit=limit, delta=delta, input=carried, body=body))
    bounds = [np.int32(b) for b in (start, limit, delta)]
    return Graph(build, *bounds, *feeds, name=f"{name} {start} {limit} {delta} {[np.shape(x) for x in feeds]}", texts=texts)


RANGES = ((0, 3, 1), (3, 0, -1), (0, 5, 2), (0, 6, 2), (5, 0, -2), (-4, 4, 3), (0, 0, 0), (0, 0, 1), (0, 0, -1), (7, 7, 0), (0, 1, 1), (0, 1, 9), (0, 3, 0), (3, 0, 0),
          (3, 0, 1), (0, 3, -1), (2147483644, 2147483646, 1), (-2147483648, -2147483646, 1), (-2147483646, -2147483648, -1))


@spec("For")
def for_loop(g, op):
    x = np.float32(g.rng.integers(-9, 9, (2, 3)))  # results are exact
    for r in RANGES:
        yield counted(lambda tf, i, x: [x * 2 + tf.cast(i, "float32")], *r, x[0], name="number")
        yield counted(lambda tf, i, x, y: [y + 1, x * 2], *r, x, x[0], name="swap")
        yield counted(lambda tf, i, x, c: [tf.nn.relu(x @ c), c], *r, x, constants=[np.float32(np.diag([1, 2, 3]))], name="constant")
    for dtype in PLAIN + ["string"]:
        for shape in ((), (3,), (2, 0)):
            yield counted(lambda tf, i, x, y: [y, x], 0, 3, 1, g.values(dtype, shape), g.values(dtype, (2,)), name=f"{dtype} {shape}")
            yield counted(lambda tf, i, x: [tf.stack([x, x])], 0, 2, 1, g.values(dtype, shape), name=f"grows {dtype} {shape}")
    for start, limit, delta in (([0], 3, 1), (0, [3], 1), (0, 3, [[1]]), ([], 3, 1), ([0, 1], [[3]], [])):
        yield counted(lambda tf, i, x: [x * 2], start, limit, delta, x, name="shape")
    for dtype in ("int32", "float64", "string"):
        for n in (0, 1, 2):
            yield counted(lambda tf, i, x: [tf.zeros(tf.shape(x), dtype)], 0, n, 1, x, name=f"another type {dtype}", texts=False)
    yield counted(lambda tf, i, x: [tf.debugging.check_numerics(x / 0, "bad")], 0, 2, 1, x, texts=False, name="fails")
    yield counted(lambda tf, i, x: [tf.cond(i % 2 > 0, lambda: x + 1, lambda: x * 3)], 0, 5, 1, x, name="branch")
    yield counted(lambda tf, i, x: [tf.while_loop(lambda y: tf.reduce_sum(y) < 100, lambda y: [y * 2], [tf.abs(x) + 1])[0] - 99], 0, 3, 1, x, name="loop")
    yield counted(lambda tf, i, x: [tf.raw_ops.StringJoin(inputs=[x, tf.as_string(i)])], 0, 4, 1, np.array([b"a", b""], object), name="strings")

    def nested(tf, i, x):
        inner = tf.function(lambda j, y, k: [y + tf.cast(k * j, "float32"), k], autograph=False).get_concrete_function(
            tf.TensorSpec([], "int32"), tf.TensorSpec(None), tf.TensorSpec([], "int32"))
        return [tf.raw_ops.For(start=0, limit=i, delta=1, input=[x, i], body=inner)[0]]
    yield counted(nested, 0, 4, 1, x, name="nested")

    def writes(tf, n):
        v = tf.raw_ops.VarHandleOp(dtype="float32", shape=[], shared_name=f"for_{tf.compat.v1.get_default_graph().unique_name('v')}")

        def fn(i, x, v):
            with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=v, value=x)]):
                return [x + tf.raw_ops.ReadVariableOp(resource=v, dtype="float32"), v]
        f = tf.function(fn, autograph=False).get_concrete_function(tf.TensorSpec([], "int32"), tf.TensorSpec([]), tf.TensorSpec([], "resource"))
        y = tf.raw_ops.For(start=0, limit=n, delta=1, input=[tf.constant(1.0), v], body=f)[0]
        return [[tf.raw_ops.AssignVariableOp(resource=v, value=0.0)], [y], [y], [tf.raw_ops.ReadVariableOp(resource=v, dtype="float32")]]
    for n in (0, 1, 4):
        yield Graph(writes, np.int32(n), name=f"writes {n}")


# ---- batches of several runs ----

NAMES = itertools.count()


def hidden(tf, x):
    """Returns x without what is known of its shape."""
    return tf.compat.v1.placeholder_with_default(x, None)


def batch_of(tf, *x, **attrs):
    return tf.raw_ops.Batch(in_tensors=list(x), **{"num_batch_threads": 1, "max_batch_size": 10, "batch_timeout_micros": 100, "grad_timeout_micros": 100,
                                                   "shared_name": f"batch{next(NAMES)}", **attrs})


def unbatch(tf, data, index, key, name=None, **attrs):
    return tf.raw_ops.Unbatch(batched_tensor=hidden(tf, data), batch_index=hidden(tf, tf.constant(index, "int64")), id=hidden(tf, tf.constant(key, "int64")),
                              shared_name=name or f"unbatch{next(NAMES)}", **{"timeout_micros": 1000, **attrs})


def unbatch_grad(tf, data, index, grad, key, name=None):
    return tf.raw_ops.UnbatchGrad(original_input=hidden(tf, data), batch_index=hidden(tf, tf.constant(index, "int64")), grad=hidden(tf, grad),
                                  id=hidden(tf, tf.constant(key, "int64")), shared_name=name or f"unbatch_grad{next(NAMES)}")


def program_of(fn, *feeds, name, texts=True):
    return Graph(lambda tf, *x: fn(tf, *x), *feeds, name=name, texts=texts)


@spec("Batch")
def batch_rows(g, op):
    def whole(tf, *x, **attrs):
        batched, index, key = batch_of(tf, *x, **attrs)
        return [*batched, index[:, 1:], index[:, 0] - key]

    def raw(tf, *x, **attrs):
        batched, index, key = batch_of(tf, *(hidden(tf, t) for t in x), **attrs)
        return [*batched, index, key]
    for dtype in PLAIN + ["string"]:
        for shape, sizes in itertools.product(((1,), (3,), (10,), (3, 2), (4, 0, 2), (2, 1, 1, 1, 1, 1, 1, 2)), ([], [4, 10])):
            x, y = g.values(dtype, shape), g.values("int32", shape[:1])
            yield program_of(lambda tf, x, y, sizes=sizes: whole(tf, x, y, allowed_batch_sizes=sizes), x, y, name=f"{dtype} {shape} {sizes}")
        yield program_of(raw, g.values(dtype, (0, 2)), name=f"no rows {dtype}")
    x = g.values("float32", (3, 2))
    for rows in range(1, 11):
        y = g.values("float32", (rows, 3))
        for sizes in ([1, 10], [3, 5, 10], [10], [-1, 10]):
            yield program_of(lambda tf, y, sizes=sizes: whole(tf, y, allowed_batch_sizes=sizes), y, name=f"{rows} rows {sizes}")
    for attrs in ({"max_batch_size": 0}, {"max_batch_size": -1}, {"batch_timeout_micros": -1}, {"batch_timeout_micros": 0}, {"num_batch_threads": 0}, {"num_batch_threads": -1},
                  {"max_enqueued_batches": 0}, {"allowed_batch_sizes": [4, 8]}, {"allowed_batch_sizes": [8, 4, 10]}, {"allowed_batch_sizes": [4, 4, 10]},
                  {"allowed_batch_sizes": [0, 10]}, {"allowed_batch_sizes": [4, 16]}, {"max_batch_size": 2}, {"max_batch_size": 1 << 40}, {"num_batch_threads": 1 << 40},
                  {"batch_timeout_micros": 1 << 40}, {"allowed_batch_sizes": [1 << 40]}, {"grad_timeout_micros": -1},
                  {"container": "c", "batching_queue": "q"}):
        yield program_of(lambda tf, x, attrs=attrs: whole(tf, x, **attrs), x, name=f"{attrs}")
    for feeds in ((x, x[:2]), (x, np.float32(1)), (np.float32(1), x), (np.float32(1),), (x, x[:0]), (x[:0], x[:0, 0])):
        yield program_of(raw, *feeds, name=f"{[np.shape(f) for f in feeds]}", texts=False)

    def back(tf, x, sizes):
        batched, index, key = batch_of(tf, x, allowed_batch_sizes=sizes)
        return [tf.raw_ops.Unbatch(batched_tensor=batched[0] * 2, batch_index=index, id=key, timeout_micros=1000)]
    for rows, sizes in itertools.product((1, 3, 10), ([], [5, 10])):
        yield program_of(lambda tf, x, sizes=sizes: back(tf, x, sizes), g.values("float32", (rows, 2)), name=f"back {rows} {sizes}")


INDEXES = ([[7, 0, 3]], [[7, 0, 2], [8, 2, 3]], [[7, 0, 2]], [[7, 1, 3]], [[7, 0, 4]], [[8, 0, 1], [7, 5, 6]], [[7, 0, 0], [8, 0, 3]], [[8, 0, 2], [7, 0, 2]],
           [[7, 0, 3], [8, 0, 0], [9, 0, 0]], [[8, 0, 3]], np.zeros((0, 3)), [[7, 3]], [[7, 0, 1, 2]], [[7, 0, 1], [8, 1, 2], [9, 2, 3], [10, 3, 3]])


@spec("Unbatch")
def unbatch_rows(g, op):
    for dtype in PLAIN + ["string"]:
        for shape, index in itertools.product(((3,), (3, 2), (3, 0, 2), (3, 1, 1, 1, 1, 1, 1, 2)), INDEXES[:3]):
            yield program_of(lambda tf, x, index=index: [unbatch(tf, x, index, 7)], g.values(dtype, shape), name=f"{dtype} {shape} {index}")
    x = g.values("float32", (3, 2))
    for index, key in itertools.product(INDEXES, (7, 8)):
        yield program_of(lambda tf, x, index=index, key=key: [unbatch(tf, x, index, key)], x, name=f"{index} {key}")
    for key in ([7], [], [7, 8], [[7]]):
        yield program_of(lambda tf, x, key=key: [unbatch(tf, x, [[7, 0, 3]], key)], x, name=f"id {key}")
    for timeout in (0, -1, 1 << 40):
        yield program_of(lambda tf, x, timeout=timeout: [unbatch(tf, x, [[7, 0, 3]], 7, timeout_micros=timeout)], x, name=f"timeout {timeout}")

    def later(tf, x, keys, repeats):
        name = f"unbatch{next(NAMES)}"
        none = np.zeros((0, 3))
        # The first node sets the timeout of the resource.
        first = unbatch(tf, x, [[k, k, k + 1] for k in keys], keys[0], name, timeout_micros=2000000 if repeats else 10**9)
        others = [unbatch(tf, x[:0], none, k, name, timeout_micros=10) for k in keys[1:]]
        return [[first], *[[o] for o in others], *([[o] for o in others] if repeats else [])]
    for keys, repeats in (([0], False), ([0, 1], False), ([0, 1, 2], False), ([2, 1, 0], False), ([1, 0], True)):
        yield program_of(lambda tf, x, keys=keys, repeats=repeats: later(tf, x, keys, repeats), x, name=f"later {keys} {repeats}")


@spec("UnbatchGrad")
def unbatch_gradient(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((3,), (3, 2), (3, 0, 2), (3, 1, 1, 1, 1, 1, 1, 2)):
            x = g.values(dtype, shape)
            yield program_of(lambda tf, x: [unbatch_grad(tf, x, [[7, 0, 3]], x, 7)], x, name=f"{dtype} {shape}")
            yield program_of(lambda tf, x: [unbatch_grad(tf, x[:0], [[7, 0, 3]], x, 7)], x, name=f"no rows {dtype} {shape}")
    x = g.values("float32", (3, 2))
    for index in ([[7, 0, 2]], np.zeros((0, 3)), [[7, 0]], [7, 0, 3], [[7, 0, 3, 4]], [[7, 0, 1], [7, 1, 2]], [[[7, 0, 3]]], [[[7], [0], [3]]]):
        yield program_of(lambda tf, x, index=index: [unbatch_grad(tf, x, index, x * 2, 7)], x, name=f"{index}")
    for key in ([7], [7, 8], [], [[7]]):
        yield program_of(lambda tf, x, key=key: [unbatch_grad(tf, x, [[7, 0, 3]], x, key)], x, name=f"id {key}")

    def several(tf, x, keys, shapes, twice):
        name = f"unbatch_grad{next(NAMES)}"
        index = [[k, 0, 1] for k in keys]
        parts = [unbatch_grad(tf, x[:0], index, tf.zeros(s) + k, k, name) for k, s in zip(keys[1:], shapes[1:])]
        last = unbatch_grad(tf, x, index, tf.zeros(shapes[0]) + 5, keys[0], name)
        return [*[[p] for p in parts], *([[parts[0]]] if twice else []), [last]]
    for shapes in ([(2, 2), (1, 2)], [(1, 2), (0, 2), (3, 2)], [(2,), (1,)], [(2, 2), (2, 3)], [(2, 2), (2,)], [(1, 2), (1, 2), (1, 2), (1, 2)]):
        for twice in (False, True):
            yield program_of(lambda tf, x, shapes=shapes, twice=twice: several(tf, x, list(range(len(shapes))), shapes, twice), x, name=f"several {shapes} {twice}")
