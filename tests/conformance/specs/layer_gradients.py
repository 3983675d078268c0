"""Test cases for gradients of poolings, batch normalisation and convolutions (kernels/nn, kernels/conv)."""

from spec import *


def num(g, dtype, *shape):
    return g.values(dtype, shape, special=False) if dtype not in INTS else g.values(dtype, shape)


def out_shape(shape, size, strides, padding):
    spatial = [-(-n // s) if padding == "SAME" else (n - k) // s + 1 for n, k, s in zip(shape[1:], size, strides)]
    return (shape[0], *spatial, shape[-1])


# ---- poolings ----

POOLS = [  # each entry is (input shape, window, strides)
    ((2, 5, 6, 3), (2, 2), (2, 2)),
    ((1, 7, 7, 4), (3, 3), (2, 1)),
    ((1, 4, 4, 1), (1, 1), (1, 1)),
    ((1, 5, 5, 33), (3, 2), (3, 3)),
    ((0, 4, 4, 2), (2, 2), (2, 2)),
    ((1, 4, 4, 0), (2, 2), (2, 2)),
    ((1, 6, 6, 2), (2, 2), (3, 3)),
    ((1, 8, 8, 5), (7, 7), (7, 7)),
    ((2, 3, 3, 300), (2, 2), (1, 1)),
]
DEEP_POOLS = [
    ((2, 3, 4, 5, 2), (2, 2, 2), (2, 2, 2)),
    ((1, 5, 5, 5, 3), (3, 1, 2), (1, 2, 2)),
    ((0, 3, 3, 3, 1), (2, 2, 2), (1, 1, 1)),
    ((2, 4, 3, 3, 5), (2, 3, 2), (1, 1, 1)),
    ((1, 4, 4, 4, 2), (1, 1, 1), (1, 1, 1)),
    ((1, 2, 3, 3, 300), (2, 2, 2), (1, 1, 1)),
]


def few(g, dtype, *shape):
    """Returns numbers of which many are equal. Floats include NaN and infinities."""
    x = g.rng.integers(0, 5, shape).astype(dtype_of(dtype))
    if dtype not in INTS and x.size and g.rng.random() < 0.5:
        x[g.rng.random(shape) < 0.1] = g.rng.choice([np.nan, np.inf, -np.inf])
    return x


def windows(op, size, strides):
    if op.endswith("V2"):
        return [np.int32([1, *size, 1]), np.int32([1, *strides, 1])], {}
    return [], dict(ksize=[1, *size, 1], strides=[1, *strides, 1])


def maxima(x, size, strides, padding):
    """Returns the output of a MaxPool that ignores padding, computed with numpy."""
    shape = out_shape(x.shape, size, strides, padding)
    y = np.zeros(shape, x.dtype)
    if not y.size:
        return y
    lo = [max((o - 1) * s + k - n, 0) // 2 if padding == "SAME" else 0 for o, s, k, n in zip(shape[1:], strides, size, x.shape[1:])]
    for at in np.ndindex(*shape[1:-1]):
        part = tuple(slice(max(i * s - p, 0), i * s - p + k) for i, s, p, k in zip(at, strides, lo, size))
        part = x[(slice(None), *part)].reshape(x.shape[0], -1, x.shape[-1])
        if part.size:
            y[(slice(None), *at)] = np.fmax.reduce(part.astype("float64"), axis=1)
    return y


@spec("MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2")
def max_pool_grad(g, op):
    grad_grad = "GradGrad" in op
    for dtype in REALS:
        for x, size, strides in POOLS:
            for padding in ("SAME", "VALID"):
                more, how = windows(op, size, strides)
                y = out_shape(x, size, strides, padding)
                a = few(g, dtype, *x)
                b = maxima(a, size, strides, padding) if grad_grad else num(g, dtype, *y)
                yield Case(a, b, num(g, dtype, *(x if grad_grad else y)), *more, padding=padding, **how)
        if op == "MaxPoolGrad":
            for pads in ([0, 0, 1, 2, 0, 1, 0, 0], [0, 0, 0, 1, 2, 2, 0, 0]):
                y = (1, (5 + pads[2] + pads[3] - 3) // 2 + 1, (5 + pads[4] + pads[5] - 3) // 2 + 1, 2)
                how = dict(ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=pads)
                yield Case(few(g, dtype, 1, 5, 5, 2), num(g, dtype, *y), num(g, dtype, *y), **how)
    yield from refused_max(g, op, (2, 4, 4, 3), (2, 2), 2)
    x, y = num(g, "float32", 1, 4, 4, 3), num(g, "float32", 1, 2, 2, 3)
    # TensorFlow's MaxPoolGrad reads beyond its tensors if a window has no elements.
    for size, strides in [([0, 2], [2, 2]), ([2, 2], [0, 2]), ([2, 2], [2, -1])][0 if grad_grad else 1 :]:
        more, how = windows(op, size, strides)
        if not (grad_grad and how and min(strides) <= 0):  # TensorFlow's shape inference refuses the excluded cases.
            yield Case(x, y, x if grad_grad else y, *more, padding="SAME", **how)
    if op.endswith("V2"):
        for size, strides in [([1, 2, 2], [1, 2, 2, 1]), ([1, 2, 2, 1], [1, 2, 2]), ([1, 2, 2, 1, 1], [1, 2, 2, 1])]:
            yield Case(x, y, x if grad_grad else y, np.int32(size), np.int32(strides), padding="SAME", texts=True)
        k = np.int32([1, 2, 2, 1])
        yield Case(x, y, x if grad_grad else y, k.reshape(2, 2), k, padding="SAME")
        yield Case(x, y, x if grad_grad else y, Const(k), Const(k), padding="SAME")
    elif op == "MaxPoolGrad":
        for pads in ([0, 0, 2, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1], [0, 0, -1, 0, 0, 1, 0, 0]):
            yield Case(x, y, y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=pads)


def refused_max(g, op, x, size, n):
    """Yields inputs with inconsistent shapes, and windows that extend across batches and channels."""
    strides, grad_grad = (2,) * n, "GradGrad" in op
    y = out_shape(x, size, strides, "SAME")
    more, how = windows(op, size, strides)
    good = [x, y, x if grad_grad else y]
    for i in range(3):
        for bad in [good[i][1:], (good[i][0], good[i][1] + 1, *good[i][2:]), (*good[i][:-1], 2), (3, *good[i][1:]), (), (0, *good[i][1:])]:
            shapes = [bad if j == i else s for j, s in enumerate(good)]
            yield Case(*(num(g, "float32", *s) for s in shapes), *more, padding="SAME", texts=len(bad) == len(x) and bad[0] == x[0], **how)
    values = [num(g, "float32", *s) for s in good]
    if how:
        # for GradGrad, TensorFlow's Python code refuses these lengths of ksize and strides
        lengths = [((1, *size, 1, 1), (1, *strides, 1)), ((1, *size, 1), (1, *strides, 1, 1))]
        for k, s in [((2, *size, 1), (1, *strides, 1)), ((1, *size, 2), (1, *strides, 2)), ((1, *size, 1), (1, *strides, 2)),
                     *([] if grad_grad else lengths)]:
            yield Case(*values, ksize=list(k), strides=list(s), padding="SAME")
        first = [(s[0], s[-1], *s[1:-1]) for s in good]
        yield Case(*(num(g, "float32", *s) for s in first), ksize=[1, 1, *size], strides=[1, 1, *strides], padding="SAME",
                   data_format="NCHW" if n == 2 else "NCDHW", texts=True)


@spec("MaxPool3DGrad", "MaxPool3DGradGrad")
def max_pool3d_grad(g, op):
    grad_grad = "GradGrad" in op
    for dtype in ["float32", "bfloat16"]:
        for x, size, strides in DEEP_POOLS:
            for padding in ("SAME", "VALID"):
                how = dict(ksize=[1, *size, 1], strides=[1, *strides, 1], padding=padding, rtol=0 if grad_grad else 1e-6 if dtype == "float32" else 2e-2)
                for _ in range(6):
                    a = few(g, dtype, *x)
                    b = maxima(a, size, strides, padding)
                    if not grad_grad:  # TensorFlow treats an input as the maximum if the two differ by less than 1e-5.
                        b = b + (g.rng.choice([0, 1e-6, 9e-6, 1.1e-5, -9e-6, -1e-4], b.shape)).astype(b.dtype)
                    yield Case(a, b, num(g, dtype, *(x if grad_grad else b.shape)), **how)
    yield from refused_max(g, op, (2, 4, 4, 4, 3), (2, 2, 2), 3)


@spec("MaxPoolGradWithArgmax")
def max_pool_grad_argmax(g, op):
    for dtype in REALS:
        for x, size, strides in POOLS:
            for padding in ("SAME", "VALID"):
                y = out_shape(x, size, strides, padding)
                index = g.rng.integers(0, max(int(np.prod(x[1:])), 1), y)
                how = dict(ksize=[1, *size, 1], strides=[1, *strides, 1], padding=padding)
                # Without include_batch_in_index, TensorFlow's indices are relative to the image.
                yield Case(num(g, dtype, *x), num(g, dtype, *y), np.int64(index), **how)
                index = g.rng.integers(0, max(int(np.prod(x)), 1), y)
                yield Case(num(g, dtype, *x), num(g, dtype, *y), np.int64(index), include_batch_in_index=True, **how)
    x, y = (2, 4, 4, 3), (2, 2, 2, 3)
    how = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    for a, b, c in [(x, (2, 2, 3, 3), y), (x, y, (2, 2, 1, 3)), (x[1:], y, y), (x, y[1:], y), (x, y, y[1:]), (x, y, ())]:
        yield Case(num(g, "float32", *a), num(g, "float32", *b), np.zeros(c, np.int64), texts=True, **how)
    x, y = num(g, "float32", *x), num(g, "float32", *y)
    for k, s in [([1, 0, 2, 1], [1, 2, 2, 1]), ([0, 2, 2, 1], [1, 2, 2, 1]), ([2, 2, 2, 1], [1, 2, 2, 1]), ([1, 2, 2, 3], [1, 2, 2, 3]),
                 ([1, 2, 2, 1], [1, 0, 2, 1]), ([1, 2, 2, 1], [2, 2, 2, 1]), ([1, 2, 2, 1], [1, 2, 2, 2]), ([1, 2, 2, 1, 1], [1, 2, 2, 1])]:
        yield Case(x, y, np.zeros(y.shape, np.int64), ksize=k, strides=s, padding="SAME")
    yield Case(num(g, "float32", 1, 1, 1, 4), num(g, "float32", 1, 1, 1, 2), np.int64([[[[1, 3]]]]), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="SAME")


@spec("AvgPoolGrad", "AvgPool3DGrad")
def avg_pool_grad(g, op):
    deep = "3D" in op
    large = [((1, 1, 4, 1), (1, 5), (1, 1)), ((1, 4, 5, 3), (9, 7), (1, 2)), ((2, 3, 4, 2), (3, 6), (2, 1)), ((1, 8, 2, 2), (4, 4), (1, 1))]
    pools = DEEP_POOLS + [((x[0], 2, *x[1:]), (2, *k), (1, *s)) for x, k, s in large] if deep else POOLS + large
    for dtype in ["float32", "bfloat16"] if deep else FLOATS:
        rtol = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}.get(dtype, 1e-14)
        for x, size, strides in pools:
            for padding in ("SAME", "VALID"):
                if padding == "VALID" and any(k > n for k, n in zip(size, x[1:])):
                    continue
                y = out_shape(x, size, strides, padding)
                how = dict(ksize=[1, *size, 1], strides=[1, *strides, 1], padding=padding, rtol=rtol)
                for shape in (np.int32(x), Const(np.int32(x))):
                    for _ in range(2):
                        yield Case(shape, num(g, dtype, *y), **how)
                yield Case(np.int32(x), g.values(dtype, y), signs=False, **how)
    x = (2, 4, 4, 4, 3) if deep else (2, 4, 4, 3)
    n = len(x) - 2
    y = out_shape(x, (2,) * n, (2,) * n, "SAME")
    how = dict(ksize=[1, *[2] * n, 1], strides=[1, *[2] * n, 1], padding="SAME")
    for a, b in [(x[:-1], y), ((*x, 1), y), ((2, -4, *x[2:]), y), (x, y[1:]), (x, ()), (x, (*y[:-2], 5, 3)), (x, (*y[:-2], 1, 3)), (x, (*y[:-2], 3, 3)),
                 (x, (*y[:-2], 0, 3)), ((*x[:-2], 0, 3), y), ((2**31 - 1,) * len(x), y), (x, (0, *y[1:])), (x, (*y[:-1], 0)), ((0, *x[1:]), y),
                 ((*x[:-1], 0), y), ((0, *x[1:-1], 0), (1, *y[1:-1], 5))]:
        yield Case(np.int32(a), num(g, "float32", *b), texts=max(a, default=0) < 100, **how)
    yield Case(np.int32(5), num(g, "float32", *y), texts=True, **how)
    yield Case(np.int32([x]), num(g, "float32", *y), texts=True, **how)
    good = num(g, "float32", *y)
    for k, s in [((1, *[0] * n, 1), (1, *[2] * n, 1)), ((2, *[2] * n, 1), (1, *[2] * n, 1)), ((1, *[2] * n, 2), (1, *[2] * n, 2)), ((1, *[2] * n, 1), (1, *[0] * n, 1)),
                 ((1, *[2] * n, 1), (1, *[-1] * n, 1)), ((1, *[2] * n, 1, 1), (1, *[2] * n, 1)), ((1, *[2] * n, 1), (1, *[2] * n, 1, 1)), ((1, *[2] * n, 1), (1, *[2] * n, 2))]:
        yield Case(np.int32(x), good, ksize=list(k), strides=list(s), padding="SAME")
    yield Case(np.int32([2, 3, *x[1:-1]]), num(g, "float32", 2, 3, *y[1:-1]), ksize=[1, 1, *[2] * n], strides=[1, 1, *[2] * n], padding="SAME",
               data_format="NCDHW" if deep else "NCHW", texts=True)


# ---- batch normalisation ----


@spec("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_grad(g, op):
    def case(dtype, shape, train, lengths=(None,) * 3, dy=None, variance=None, **how):
        c = shape[1 if how.get("data_format", "")[1:2] == "C" else -1] if shape else 1
        scale, mean, var = (num(g, "float32", *((c,) if n is None else n)) for n in lengths)
        more = [np.zeros(g.rng.choice([0, 3]), np.float32)] if op.endswith("V3") else []
        var = np.abs(var) if variance is None else np.full(var.shape, variance, np.float32)
        # Half-precision outputs are rounded once, from numbers that differ in the last bits.
        how.setdefault("rtol", {"float32": 3e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype])
        return Case(num(g, dtype, *(dy or shape)), num(g, dtype, *shape), scale, mean, var, *more, is_training=train, **how)

    for dtype in ["float32"] if op == "FusedBatchNormGrad" else ["float32"] + HALFS:
        for shape in [(2, 3, 4, 5), (1, 1, 1, 2), (0, 3, 3, 2), (3, 2, 2, 17), (2, 0, 3, 4), (2, 3, 3, 0), (1, 2, 2, 1), (2, 9, 9, 64), (2, 3, 2, 4, 5)]:
            for epsilon in (1e-4, 0.01):
                for _ in range(3 if dtype == "float32" else 1):
                    yield case(dtype, shape, True, epsilon=epsilon)
                    yield case(dtype, shape, False, epsilon=epsilon)
                    yield case(dtype, shape, True, data_format="NCHW", epsilon=epsilon)
        yield case(dtype, (2, 3, 4, 5), False, data_format="NCHW", texts=True)
        for special in (np.nan, np.inf, -1.0, 0.0):
            yield case(dtype, (2, 3, 4, 5), True, variance=special)
            yield case(dtype, (2, 3, 4, 5), False, variance=special)
        for train in (True, False):
            yield case(dtype, (0, 3, 4, 5), train, variance=-1.0)
        infinite = case(dtype, (1, 1, 1, 2), False)
        infinite.inputs[1][...] = np.inf, -np.inf
        yield infinite
        yield case(dtype, (1, 3, 4, 5), True, variance=0.0, epsilon=0.0)
        if op.endswith("V3"):
            for data_format in ("NDHWC", "NCDHW"):
                yield case(dtype, (2, 3, 2, 4, 5), True, data_format=data_format)
                yield case(dtype, (2, 3, 4, 5), True, data_format=data_format)
            yield case(dtype, (2, 3, 2, 4, 5), False, data_format="NDHWC")
    for train in (True, False):
        for shape, dy in [((5, 5, 3), None), ((2, 5, 5, 3), (5, 5, 3)), ((5, 5, 3), (2, 5, 5, 3)), ((2, 5, 5, 3), (2, 5, 4, 3)), ((2, 5, 5, 3), (2, 5, 5, 4)), ((), None)]:
            yield case("float32", shape, train, dy=dy, texts=True)
        for lengths in [((4,), None, None), (None, (4,), None), (None, None, (4,)), ((1, 3), None, None), (None, (1, 3), None), (None, None, (1, 3)), ((), None, None)]:
            yield case("float32", (2, 5, 5, 3), train, lengths=lengths, texts=True)
    yield case("float32", (2, 60, 60, 64), True)
    yield case("float32", (4, 64, 40, 40), True, data_format="NCHW")


# ---- convolutions ----


def tolerance(dtype):
    return {"float16": 1.2e-2, "bfloat16": 7e-2, "float32": 2e-5}.get(dtype, 1e-12)


CONVS = [  # each entry is (input shape, filter shape, strides)
    ((2, 5, 6, 3), (3, 3, 3, 4), (1, 1)),
    ((1, 7, 8, 2), (2, 3, 2, 5), (2, 1)),
    ((1, 9, 9, 3), (3, 3, 3, 4), (2, 2)),
    ((3, 4, 4, 6), (1, 1, 6, 7), (1, 1)),
    ((3, 5, 4, 6), (1, 1, 6, 7), (2, 2)),
    ((0, 5, 5, 3), (3, 3, 3, 4), (1, 1)),
    ((2, 4, 4, 3), (3, 3, 3, 4), (1, 1)),
    ((2, 5, 5, 3), (3, 3, 3, 0), (1, 1)),
    ((1, 16, 16, 32), (3, 3, 32, 64), (1, 1)),
    ((1, 20, 20, 3), (7, 7, 3, 16), (2, 2)),
    ((2, 5, 17, 32), (1, 7, 32, 48), (1, 1)),
    ((1, 9, 5, 48), (3, 1, 48, 32), (1, 1)),
    ((1, 4, 4, 3), (4, 4, 3, 1), (4, 4)),
    ((2, 8, 8, 1), (2, 2, 1, 1), (3, 3)),
]
DEEP_CONVS = [
    ((2, 3, 4, 5, 2), (2, 2, 2, 2, 3), (1, 1, 1)),
    ((1, 5, 6, 7, 3), (3, 2, 3, 3, 4), (2, 1, 2)),
    ((3, 2, 3, 2, 4), (1, 1, 1, 4, 5), (1, 1, 1)),
    ((0, 4, 4, 4, 2), (2, 2, 2, 2, 3), (1, 1, 1)),
    ((2, 6, 5, 5, 1), (3, 3, 3, 1, 1), (2, 2, 2)),
    ((1, 4, 4, 4, 16), (3, 3, 3, 16, 20), (1, 1, 1)),
]


@spec("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
def conv_filter_grad(g, op):
    deep = "3D" in op
    one = (1,) * (3 if deep else 2)
    for dtype in FLOATS:
        for x, f, s in DEEP_CONVS if deep else CONVS:
            for padding in ("SAME", "VALID"):
                y = (*out_shape(x, f[:-2], s, padding)[:-1], f[-1])
                how = dict(strides=[1, *s, 1], padding=padding, rtol=tolerance(dtype))
                # TensorFlow rounds intermediate sums of half-precision products with many terms.
                small = 1 if dtype in HALFS else 10
                for size in [np.int32(f), Const(np.int32(f))] * (4 if deep else 1):
                    yield Case(g.values(dtype, x, -small, small, special=False), size, g.values(dtype, y, -small, small, special=False), **how)
        if not deep:
            for pads in ([0, 0, 1, 2, 3, 4, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]):
                y = ((9 + pads[2] + pads[3] - 3) // 2 + 1, 9 + pads[4] + pads[5] - 2)
                how = dict(strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=pads, rtol=tolerance(dtype))
                yield Case(g.values(dtype, (2, 9, 9, 3), -1, 1, special=False), np.int32([3, 3, 3, 4]), g.values(dtype, (2, *y, 4), -1, 1, special=False), **how)
    x, f, y = ((2, 4, 4, 4, 3), [2, 2, 2, 3, 5], (2, 3, 3, 3, 5)) if deep else ((2, 4, 4, 3), [2, 2, 3, 5], (2, 3, 3, 5))
    how = dict(strides=[1, *one, 1], padding="VALID")
    for a, b, c in [(x[1:], f, y), (x, f[1:], y), (x, f, y[1:]), (x, [*f, 1], y), (x, [f], y), (x, 7, y), (x, [-2, *f[1:]], y), (x, [0, *f[1:]], y),
                    (x, [*f[:-2], 0, 5], y), (x, [*f[:-1], 0], y), (x, [*f[:-2], 2, 5], y), (x, f, (3, *y[1:])), (x, f, (*y[:-1], 4)), (x, f, (2, 4, *y[2:])),
                    (x, f, (*y[:-2], 2, 5)), ((*x[:-1], 0), f, y), ((*x[:-1], 0), [*f[:-2], 0, 5], y), ((), f, y), (x, f, ()), ((*x[:-1], 6), f, y)]:
        yield Case(num(g, "float32", *a), np.int32(b), num(g, "float32", *c), texts=np.shape(b) != () and a != (*x[:-1], 0), **how)
    a, c = num(g, "float32", *x), num(g, "float32", *y)
    yield Case(a, np.int32(f), num(g, "float32", 2, *[2] * len(one), 5), strides=[1, *one, 1], dilations=[1, *[2] * len(one), 1], padding="VALID", texts=True)
    first = lambda v: np.moveaxis(v, -1, 1)
    yield Case(first(a), np.int32(f), first(c), strides=[1, 1, *one], padding="VALID", data_format="NCDHW" if deep else "NCHW", texts=True)
    for special in (np.nan, np.inf):
        a = num(g, "float32", *x)
        a[(1,) * len(x)] = special
        yield Case(a, np.int32(f), num(g, "float32", *x[:-1], 5), strides=[1, *one, 1], padding="SAME", rtol=1e-5)
        c = num(g, "float32", *x[:-1], 5)
        c[(0,) * len(x)] = special
        yield Case(num(g, "float32", *x), np.int32(f), c, strides=[1, *one, 1], padding="SAME", rtol=1e-5)


DEPTHWISE_CONVS = [  # each entry is (input shape, filter shape, stride)
    ((2, 5, 6, 3), (2, 2, 3, 2), 1),
    ((1, 7, 7, 4), (3, 3, 4, 1), 2),
    ((1, 4, 4, 1), (1, 1, 1, 1), 1),
    ((1, 5, 5, 33), (3, 2, 33, 3), 3),
    ((3, 9, 5, 48), (3, 1, 48, 1), 1),
    ((1, 2, 2, 2), (3, 3, 2, 2), 1),
    ((2, 6, 6, 2), (1, 2, 2, 5), 3),
]


@spec("DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput")
def depthwise_grad(g, op):
    is_filter = op.endswith("Filter")

    def case(dtype, x, f, y, const=False, **how):
        """Makes a case from shapes. The op's size input is the shape of the input or of the filter."""
        x, f = (tuple(v) if isinstance(v, (list, tuple)) else v for v in (x, f))
        sizes = np.int32(f if is_filter else x)
        sizes = Const(sizes) if const else sizes
        given = g.values(dtype, x if is_filter else f, -1, 1, special=False)
        back = g.values(dtype, y, -1, 1, special=False)
        return Case(given, sizes, back, **how) if is_filter else Case(sizes, given, back, **how)

    for dtype in FLOATS:
        for x, f, s in DEPTHWISE_CONVS:
            for padding in ("SAME", "VALID"):
                if padding == "VALID" and f[0] > x[1]:
                    continue
                y = (*out_shape(x, f[:2], (s, s), padding)[:-1], f[2] * f[3])
                for const in (False, True):
                    yield case(dtype, x, f, y, const, strides=[1, s, s, 1], padding=padding, rtol=tolerance(dtype))
        for pads in ([0, 0, 1, 2, 3, 4, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]):
            y = (2, (9 + pads[2] + pads[3] - 3) // 2 + 1, (9 + pads[4] + pads[5] - 2) // 2 + 1, 6)
            yield case(dtype, (2, 9, 9, 3), (3, 2, 3, 2), y, strides=[1, 2, 2, 1], padding="EXPLICIT", explicit_paddings=pads, rtol=tolerance(dtype))
    x, f, y = (2, 4, 4, 3), (2, 2, 3, 2), (2, 3, 3, 6)
    how = dict(strides=[1, 1, 1, 1], padding="VALID")
    for dilations in ([1, 2, 2, 1], [1, 2], [2, 1, 1, 3]):
        yield case("float32", x, f, y, dilations=dilations, rtol=1e-5, **how)
    for strides in ([1, 2, 1, 1], [2, 1, 1, 1], [1, 1, 1, 2], [1, 1, 1]):
        yield case("float32", x, f, y, strides=strides, padding="VALID", texts=True)
    yield case("float32", x, f, y, explicit_paddings=[0, 0, 1, 1, 0, 0, 0, 0], texts=True, **how)
    for pads in ([0, 0, 1, 1], [0, 0, 1, 1, 0, 0, 1, 0], [0, 0, -1, 1, 0, 0, 0, 0]):
        yield case("float32", x, f, y, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=pads, texts=True)
    for a, b, c in [(x, f, (3, 3, 6)), (x, f, (1, 3, 3, 6)), (x, f, (2, 2, 3, 6)), (x, f, (2, 3, 2, 6)), (x, f, (2, 3, 3, 5)),
                    (x, (2, 2, 1, 2), y), (x, (5, 2, 3, 2), (2, 0, 3, 6)), (x, (0, 2, 3, 2), (2, 5, 3, 6)),
                    (x[:3], f, y), (x, f[1:], y), ((), f, y), (x, f, ()), ((*x[:3], 0), (2, 2, 0, 2), (2, 3, 3, 0))]:
        # TensorFlow leaves the filter's gradient uninitialised if the output has no elements.
        if is_filter and b == (5, 2, 3, 2) or () in (a, b) and is_filter == (b == ()):
            continue
        yield case("float32", a, b, c, texts=True, **how)
    for bad in ([(4, 4, 3)], 7, [[2, 4, 4, 3]], [-2, 4, 4, 3], [2, 4, 4, 3, 1]):
        tensor, back = num(g, "float32", *(x if is_filter else f)), num(g, "float32", *y)
        bad = np.int32(bad)
        yield Case(tensor, bad, back, texts=True, **how) if is_filter else Case(bad, tensor, back, texts=True, **how)
    first = lambda v: (v[0], v[3], v[1], v[2])
    yield case("float32", first(x), f, first(y), strides=[1, 1, 1, 1], padding="VALID", data_format="NCHW")
    # TensorFlow also multiplies padding of the gradient by the filter. An infinity in the filter therefore gives NaN.
    for special in (np.nan, np.inf):
        a, b = num(g, "float32", *(x if is_filter else f)), num(g, "float32", *y)
        (a if is_filter else b)[(1,) * 4] = special
        sizes = np.int32(f if is_filter else x)
        yield Case(a, sizes, b, rtol=1e-5, **how) if is_filter else Case(sizes, a, b, rtol=1e-5, **how)


@spec("Dilation2DBackpropFilter", "Dilation2DBackpropInput")
def dilation_grad(g, op):
    for dtype in REALS:
        for x, f, s, r in [
            ((2, 5, 6, 3), (2, 3, 3), (1, 1), (1, 1)),
            ((1, 7, 7, 2), (3, 3, 2), (2, 1), (1, 2)),
            ((0, 3, 3, 1), (2, 2, 1), (1, 1), (1, 1)),
            ((1, 5, 5, 1), (2, 2, 1), (1, 1), (3, 3)),
            ((1, 2, 2, 4), (1, 1, 4), (2, 2), (1, 1)),
        ]:
            for padding in ("SAME", "VALID"):
                wide = [(k - 1) * d + 1 for k, d in zip(f, r)]
                y = out_shape(x, wide, s, padding)
                how = dict(strides=[1, *s, 1], rates=[1, *r, 1], padding=padding, rtol=tolerance(dtype) if dtype in FLOATS else 0)
                yield Case(num(g, dtype, *x), num(g, dtype, *f), num(g, dtype, *y), **how)
                # Many sums are equal, and the op must choose the first one.
                yield Case(*[g.values(dtype, v, 0, 2, special=False).round().astype(dtype) for v in (x, f, y)], **how)
    how = dict(strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="VALID")
    x, f, y = (2, 4, 4, 2), (2, 2, 2), (2, 3, 3, 2)
    for special in (np.nan, np.inf, -np.inf):
        a = num(g, "float32", *x)
        a[1, :2, :2] = special
        yield Case(a, num(g, "float32", *f), num(g, "float32", *y), rtol=1e-5, **how)
    for a, b, c in [(x[1:], f, y), (x, f[1:], y), (x, f, y[1:]), (x, f, (1, *y[1:])), (x, f, (2, 2, 3, 2)), (x, f, (2, 3, 2, 2)), (x, f, (2, 3, 3, 1)),
                    (x, (2, 2, 3), y), (x, (0, 2, 2), (2, 5, 3, 2)), (x, (5, 2, 2), (2, 0, 3, 2)), (x, (6, 2, 2), (2, 0, 3, 2)), ((), f, y),
                    ((2, 4, 4, 0), (2, 2, 0), (2, 3, 3, 0))]:
        yield Case(num(g, "float32", *a), num(g, "float32", *b), num(g, "float32", *c), texts=True, **how)


# ---- fractional poolings ----

FRACTIONS = [  # each entry is (input shape, ratio of rows, ratio of columns)
    ((2, 7, 9, 3), 1.44, 1.73),
    ((1, 23, 20, 2), 2.29, 2.85),
    ((1, 13, 50, 1), 1.05, 16.0),
    ((2, 6, 8, 2), 2.0, 4.0),
    ((1, 5, 5, 5), 1.0, 5.0),
    ((1, 40, 3, 1), 3.99, 1.5),
]


@spec("FractionalMaxPool", "FractionalAvgPool")
def fractional_pool(g, op):
    def case(x, rows, columns, batch=1.0, depth=1.0, **how):
        return Case(x, pooling_ratio=[batch, rows, columns, depth], **how)

    for dtype in ("float32", "float64", "int32", "int64"):
        for shape, rows, columns in FRACTIONS:
            for flags in range(8):
                x = num(g, dtype, *shape)
                seeds = dict(zip(("seed", "seed2"), map(int, g.rng.integers(0, 2**40, 2)), strict=True))
                yield case(x, rows, columns, deterministic=True, pseudo_random=bool(flags & 1), overlapping=bool(flags & 2), **seeds)
        for overlapping in (False, True):
            yield case(g.values(dtype, (2, 6, 8, 3)), 2.0, 4.0, overlapping=overlapping)  # no random numbers
            yield case(g.values(dtype, (1, 9, 9, 5)), 1.5, 2.5, overlapping=overlapping, deterministic=True, seed=1)
    x = num(g, "float32", 1, 7, 9, 2)
    for bad in (dict(seed=1), dict(seed2=2), dict(batch=2.0), dict(depth=1.5), dict(columns=float("nan")), dict(columns=float("inf")), dict(rows=8.0)):
        yield case(x, **{"rows": 1.5, "columns": 1.5, **bad}, texts=True)
    for shape in ((0, 7, 9, 2), (1, 0, 9, 2), (1, 7, 9, 0), (7, 9, 2), (1, 1, 7, 9, 2)):
        yield case(num(g, "float32", *shape), 1.5, 1.5, texts=True)


def fractional_windows(g, n, n_windows, overlapping):
    """Returns a sequence of a fractional pooling, and the range of each window."""
    sequence = np.sort(np.append(g.rng.choice(np.arange(1, n), n_windows - 1, replace=False), [0, n]))
    return sequence, [slice(sequence[i], sequence[i + 1] + overlapping) for i in range(n_windows)]


BAD_SEQUENCES = [[0, 2], [0], [], [0, 3, 2], [0, 2, 9], [0, 1, 2], [[0, 2, 4]], [0, 0, 4], [1, 2, 4], [0, 2, 1 << 40], [0, 4, 4]]


@spec("FractionalMaxPoolGrad")
def fractional_max_pool_grad(g, op):
    for dtype in ("float32", "float64", "int32", "int64"):
        for shape, rows, columns in FRACTIONS:
            for overlapping in (False, True):
                for ties in (False, True, True):
                    x = g.values(dtype, shape, special=False)
                    if ties:
                        x = np.where(g.rng.random(shape) < 0.3, x.max(), x)
                    row, row_at = fractional_windows(g, shape[1], int(shape[1] / rows), overlapping)
                    column, column_at = fractional_windows(g, shape[2], int(shape[2] / columns), overlapping)
                    y = np.stack([np.stack([x[:, i, j].max((1, 2)) for j in column_at], 1) for i in row_at], 1)
                    yield Case(x, y, num(g, dtype, *y.shape), row, column, overlapping=overlapping)
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    at = np.int64([0, 2, 4])
    for overlapping, i in ((False, [1, 3]), (True, [2, 3])):
        y, grad = x[:, i][:, :, i], np.float32([[1, 2], [3, 4]]).reshape(1, 2, 2, 1)
        for bad in BAD_SEQUENCES:
            yield Case(x, y, grad, np.int64(bad), at, overlapping=overlapping, texts=True)
            yield Case(x, y, grad, at, np.int64(bad), overlapping=overlapping, texts=True)
        for a, b, c in ((x, y + 1, grad), (x, y, grad[0]), (x, y, grad[:, :1]), (x, y, grad[:0]), (x, np.ones((1, 3, 3, 1), np.float32), grad), (x * 0, y * 0, grad),
                        (x - np.inf, y - np.inf, grad), (x[:0], y[:0], grad[:0]), (x[..., :0], y[..., :0], grad), (x, y[:0], grad)):
            yield Case(a, b, c, at, at, overlapping=overlapping, texts=True)
    for a, b in ((x[0], y), (x, y[0])):
        yield Case(a, b, grad, at, at)


@spec("FractionalAvgPoolGrad", rtol=1e-15)
def fractional_avg_pool_grad(g, op):
    for dtype in ("float32", "float64", "int32", "int64"):
        for shape, rows, columns in FRACTIONS:
            for overlapping in (False, True):
                row, _ = fractional_windows(g, shape[1], int(shape[1] / rows), overlapping)
                column, _ = fractional_windows(g, shape[2], int(shape[2] / columns), overlapping)
                for special in (False, False, True):
                    grad = g.values(dtype, (shape[0], len(row) - 1, len(column) - 1, shape[3]), special=special, **({} if dtype in FLOATS else dict(lo=-90, hi=90)))
                    yield Case(np.int64(shape), grad, row, column, overlapping=overlapping)
    grad, at = np.float32([[1, 2], [3, 4]]).reshape(1, 2, 2, 1), np.int64([0, 2, 4])
    for overlapping in (False, True):
        for bad in BAD_SEQUENCES + [[-1, 2, 4], [0, 2, -4], [0, -20, 100], [0, 1, 2, 4]]:
            yield Case(np.int64([1, 4, 4, 1]), grad, np.int64(bad), at, overlapping=overlapping, texts=True)
            yield Case(np.int64([1, 4, 4, 1]), grad, at, np.int64(bad), overlapping=overlapping, texts=True)
    for shape in ([4, 4, 1], [], [[1, 4, 4, 1]], [1, -4, 4, 1], [1, 0, 4, 1], [1, 4, 0, 1], [1, 4, 4, -1], [-1, 4, 4, 1], [2, 4, 4, 1], [1, 4, 4, 1, 1], [1, 2, 4, 3]):
        yield Case(np.int64(shape), grad, at, at, texts=True)
    for other in (grad[0], np.ones((1, 3, 3, 1), np.float32), grad[:0], grad[:, :1], grad[..., :0]):
        yield Case(np.int64([1, 4, 4, 1]), other, at, at, texts=True)
