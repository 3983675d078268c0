"""Test cases for arithmetic on uniformly quantised tensors (kernels/quant/uniform_*.c), namely products, convolutions and
sums, and for the normalisation of quantised images."""

import itertools

from spec import *

INT32 = (-(2**31), 2**31 - 1)


def limits(prefix, low=-128, high=127):
    return {f"{prefix}quantization_min_val": low, f"{prefix}quantization_max_val": high}


LEFT, RIGHT, OUT = limits("lhs_"), limits("rhs_"), limits("output_", *INT32)
WIDE_OUT = limits("lhs_", *INT32) | limits("rhs_", *INT32) | OUT


def scales(g, *shape, zero=20):
    """Returns a scale and a zero point, or vectors of them."""
    return g.rng.uniform(0.01, 3, shape).astype("float32"), g.rng.integers(-zero, zero + 1, shape).astype("int32")


def q8(g, *shape):
    return g.values("qint8", shape, lo=-128, hi=127)


def same(dtype, *values, shape=None):
    """Returns integers of a quantised type."""
    plain = {"qint8": "int8", "qint32": "int32"}[dtype]
    return np.asarray(values, plain).reshape(-1).view(dtype_of(dtype)).reshape(shape or (len(values),))


ONE = np.float32(1), np.int32(0)
# Scales that are no scales, one at a time.
BAD_SCALES = (0, -1, np.nan, np.inf, 1e-30, 3e38)
# Scales and zero points whose shapes may not fit.
SHAPES = [((), ()), ((1,), (1,)), ((3,), (3,)), ((4,), (4,)), ((4,), (3,)), ((), (4,)), ((1, 4), (1, 4))]


def pair(a, b):
    return np.ones(a, "float32"), np.zeros(b, "int32")


# ---- products ----


@spec("UniformQuantizedDot")
def uniform_dot(g, op):
    def case(a, b, left=ONE, right=ONE, out=ONE, **attrs):
        return Case(a, b, *left, *right, *out, **({"Tout": "qint32"} | LEFT | RIGHT | OUT | attrs))

    for (m, k, n), each, times in itertools.product([(1, 1, 1), (2, 3, 4), (7, 33, 5), (0, 3, 2), (2, 0, 3), (2, 3, 0), (3, 300, 2)], range(3), range(6)):
        right, out = scales(g, *[n] * (each > 0)), scales(g, *[n] * (each > 1))
        yield case(q8(g, m, k), q8(g, k, n), scales(g), right, out, rhs_quantization_axis=1 if each else -1, output_quantization_axis=1 if each > 1 else -1)
    for k in (1040, 1041, 5001):  # sums of more than 24 bits
        yield case(same("qint8", *[127] * k, shape=(1, k)), same("qint8", *[127] * k, shape=(k, 1)))
        yield case(q8(g, 2, k), same("qint8", *[-128] * k, shape=(k, 1)), ONE, (np.float32(1), np.int32(127)))
    for zero in (2**20, 2**24 + 1, 2**25 + 3, 2**30):
        yield case(q8(g, 2, 3), q8(g, 3, 2), (np.float32(1), np.int32(zero)))
        yield case(q8(g, 2, 3), q8(g, 3, 2), out=(np.float32(1), np.int32(zero)))
    for left, right, out in [(2.0**20, 2.0**20, 1), (3e30, 3e30, 1e30), (1e-30, 3e-30, 1), (1e-30, 3e30, 3.1), (0.1, 0.3, 0.7), (1, 1, 1e30)]:
        yield case(q8(g, 2, 3), q8(g, 3, 2), *[(np.float32(v), np.int32(3)) for v in (left, right, out)])
    for low, high in [(-100, 100), (5, -5), (-(2**31) - 1, 1), (0, 2**31)]:
        yield case(q8(g, 2, 3), q8(g, 3, 2), **limits("output_", low, high), texts=True)
        yield case(q8(g, 2, 3), q8(g, 3, 2), **limits("lhs_", low, high), **limits("rhs_", low, high))
    yield from dot_refusals(g, case, lambda *s: q8(g, *s))
    for bad, k in itertools.product(BAD_SCALES, range(3)):
        yield case(q8(g, 2, 3), q8(g, 3, 2), *[(np.float32(bad if i == k else 1), np.int32(1)) for i in range(3)], texts=bad != np.inf)
    for axis, (a, b) in itertools.product((-1, 1), SHAPES):
        yield case(q8(g, 2, 3), q8(g, 3, 4), pair(a, b), texts=True)
        yield case(q8(g, 2, 3), q8(g, 3, 4), right=pair(a, b), rhs_quantization_axis=axis, texts=True)
        yield case(q8(g, 2, 3), q8(g, 3, 4), out=pair(a, b), output_quantization_axis=axis, texts=True)
        yield case(q8(g, 2, 3), q8(g, 3, 4), right=pair((4,), (4,)), out=pair(a, b), output_quantization_axis=axis, texts=True)
    for axis, prefix in itertools.product((-2, 0, 1, 2), ("lhs_", "output_")):
        yield case(q8(g, 2, 3), q8(g, 3, 4), **{f"{prefix}quantization_axis": axis}, texts=True)


def dot_refusals(g, case, left):
    for a, b in [((2, 3), (4, 2)), ((3,), (3, 2)), ((2, 3), (3,)), ((), ()), ((1, 2, 3), (3, 2)), ((2, 3), (1, 3, 2))]:
        yield case(left(*a), q8(g, *b), texts=True)
    for axis in (-2, 0, 2):
        yield case(left(2, 3), q8(g, 3, 3), right=pair((3,), (3,)), rhs_quantization_axis=axis, texts=True)


def floats(g, *shape):
    return (g.rng.uniform(-2, 3, shape) * g.rng.choice([0.01, 1, 60])).astype("float32")


@spec("UniformQuantizedDotHybrid", rtol=1e-6)
def uniform_dot_hybrid(g, op):
    def case(a, b, right=ONE, **attrs):
        return Case(a, b, *right, **({"Tout": "float32"} | RIGHT | attrs))

    for (m, k, n), each, times in itertools.product([(1, 1, 1), (2, 3, 4), (7, 33, 5), (0, 3, 2), (2, 0, 3), (2, 3, 0), (3, 300, 2), (1, 5000, 2)], range(2), range(8)):
        a = floats(g, m, k)
        yield case(a if times < 5 else (np.abs, np.negative, np.sign)[times - 5](np.abs(a)), q8(g, k, n), scales(g, *[n] * each), rhs_quantization_axis=1 if each else -1)
    for row in ([0, 0], [-1, 0], [3, -3], [1e30, -1], [3e38, -3e38], [1e-30, 0], [np.inf, 1], [-np.inf, 1], [np.nan, 1], [1, np.nan]):
        yield case(np.float32([row]), same("qint8", 1, 0, 0, 1, shape=(2, 2)))
    for k in (3, 5, 8, 17):  # halfway between two integers
        yield case((np.arange(-k, 256 - k, dtype="float32")[None] + np.float32(0.5)).clip(-k, 255 - k), q8(g, 256, 3))
    yield from dot_refusals(g, case, lambda *s: floats(g, *s))
    for bad in BAD_SCALES:
        yield case(floats(g, 2, 3), q8(g, 3, 2), (np.float32(bad), np.int32(1)), texts=True)
    for axis, (a, b) in itertools.product((-1, 1), SHAPES):
        yield case(floats(g, 2, 3), q8(g, 3, 4), pair(a, b), rhs_quantization_axis=axis, texts=True)


# ---- convolutions ----


def numbers(batch, feature, kernel_in, kernel_out, rank, out_batch=None, out_feature=None):
    """Returns a serialised UniformQuantizedConvolutionDimensionNumbersAttr."""
    out_batch = batch if out_batch is None else out_batch
    out_feature = feature if out_feature is None else out_feature
    rest = lambda *used: bytes(d for d in range(rank) if d not in used)
    fields = [batch, feature, rest(batch, feature), kernel_in, kernel_out, rest(kernel_in, kernel_out), out_batch, out_feature, rest(out_batch, out_feature)]
    return b"".join(bytes([(i + 1) << 3 | 2, len(v)]) + v if isinstance(v, bytes) else bytes([(i + 1) << 3, v]) for i, v in enumerate(fields))


NHWC = numbers(0, 3, 2, 3, 4)
# Windows: attributes for inputs of shape [2, 4, 6, 5] and kernels of shape [6, 2 or 4, 3, 2].
WINDOWS = [
    dict(padding="VALID"), dict(padding="SAME"), dict(padding="SAME", window_strides=[2, 3]), dict(padding="VALID", window_strides=[2, 1]),
    dict(padding="EXPLICIT", explicit_padding=[1, 0, 2, 3]), dict(padding="SAME", rhs_dilation=[2, 1]), dict(padding="VALID", rhs_dilation=[2, 3]),
    dict(padding="VALID", lhs_dilation=[2, 1]), dict(padding="SAME", lhs_dilation=[2, 3], window_strides=[3, 2]), dict(padding="SAME", window_strides=[7, 9]),
    dict(padding="EXPLICIT", explicit_padding=[3, 3, 0, 4], lhs_dilation=[1, 2], rhs_dilation=[2, 2], window_strides=[2, 2]),
]
GROUPS = [(1, 1), (2, 1), (1, 2), (4, 1), (2, 2)]


def permuted(x, order):
    return np.ascontiguousarray(np.transpose(x, order))


def conv_cases(g, case, left):
    """Yields cases of both ops. `case` makes one from both tensors and attributes, and `left` makes a left tensor."""
    for window, (features, batches) in itertools.product(WINDOWS, GROUPS):
        x, k = left(2, 4, 6, 5), q8(g, 4 if features == 4 else 6, 4 // features, 3, 2)
        how = dict(feature_group_count=features, batch_group_count=batches, **window)
        yield case(x, k, **how)
        yield case(permuted(x, (0, 2, 3, 1)), permuted(k, (2, 3, 1, 0)), dimension_numbers=NHWC, **how)
    for dims in ((5,), (3, 4, 3), (2, 3, 2, 3), (2, 2, 1, 2, 2, 2)):
        for padding in ("SAME", "VALID"):
            yield case(left(2, 3, *dims), q8(g, 2, 3, *[2 if d > 1 else 1 for d in dims]), padding=padding)
    for input_, kernel, out in [((1, 0), (0, 1), (2, 3)), ((3, 2), (1, 3), (0, 2)), ((2, 0), (3, 2), (3, 0))]:
        shape, kernel_shape = [4, 5, 3, 4], [2, 3, 2, 3]
        shape[input_[1]] = kernel_shape[kernel[0]] = 3
        yield case(left(*shape), q8(g, *kernel_shape), padding="SAME", dimension_numbers=numbers(*input_, *kernel, 4, *out))
    for x, k in [((0, 2, 4, 4), (4, 2, 3, 3)), ((1, 2, 4, 4), (0, 2, 3, 3)), ((1, 2, 2, 2), (4, 2, 3, 3)), ((1, 2, 4, 4), (4, 2, 0, 3)), ((1, 2, 0, 4), (4, 2, 1, 3))]:
        for padding in ("SAME", "VALID"):
            yield case(left(*x), q8(g, *k), padding=padding)
    for height, window, stride in [(0, 3, 1), (0, 1, 1), (1, 3, 1), (2, 3, 1), (1, 4, 2), (1, 5, 2), (1, 9, 3)]:
        yield case(left(2, 4, height, 5), q8(g, 6, 4, window, 2), padding="VALID", window_strides=[stride, 1], texts=True)
    for x, k in [((1, 3, 4, 4), (4, 2, 3, 3)), ((1, 2, 4, 4), (4, 1, 3, 3)), ((1, 2, 4), (4, 2, 3, 3)), ((2, 2), (2, 2)), ((3,), (3,)), ((), ())]:
        yield case(left(*x), q8(g, *k), padding="VALID", texts=True)
    for how in [
        dict(padding="FOO"), dict(padding=""), dict(padding="EXPLICIT"), dict(padding="EXPLICIT", explicit_padding=[1, 2, 3]), dict(padding="EXPLICIT", explicit_padding=[0, -1, 2, 2]),
        dict(padding="SAME", explicit_padding=[1, 1, 1, 1]), dict(padding="VALID", window_strides=[1]), dict(padding="VALID", window_strides=[0, 1]),
        dict(padding="VALID", window_strides=[-1, 1]), dict(padding="VALID", lhs_dilation=[1, 1, 1]), dict(padding="VALID", lhs_dilation=[1, 0]),
        dict(padding="VALID", rhs_dilation=[2]), dict(padding="VALID", rhs_dilation=[0, 0]), dict(padding="VALID", feature_group_count=0), dict(padding="VALID", feature_group_count=-3),
        dict(padding="VALID", batch_group_count=0), dict(padding="VALID", batch_group_count=3), dict(padding="VALID", feature_group_count=3), dict(padding="VALID", feature_group_count=4),
        dict(padding="VALID", dimension_numbers=b"foo"), dict(padding="VALID", dimension_numbers=numbers(0, 1, 1, 0, 3)), dict(padding="VALID", dimension_numbers=b"\x08\x04" + numbers(0, 1, 1, 0, 4)[2:]),
        dict(padding="VALID", dimension_numbers=numbers(0, 1, 1, 0, 5)),
    ]:
        yield case(left(2, 4, 4, 4), q8(g, 6, 4, 3, 3), **how, texts=True)
    yield case(left(2, 4, 4, 4), q8(g, 5, 2, 3, 3), padding="VALID", feature_group_count=2, texts=True)
    yield case(left(2, 4, 4, 4), q8(g, 5, 4, 3, 3), padding="VALID", batch_group_count=2, texts=True)


@spec("UniformQuantizedConvolution")
def uniform_conv(g, op):
    def case(a, b, left=ONE, right=ONE, out=ONE, **attrs):
        return Case(a, b, *left, *right, *out, **({"Tout": "qint32", "padding": "VALID"} | LEFT | RIGHT | OUT | attrs))

    yield from conv_cases(g, lambda a, b, **attrs: case(a, b, scales(g), scales(g), scales(g), **attrs), lambda *s: q8(g, *s))
    x, k = q8(g, 2, 3, 4, 4), q8(g, 4, 3, 3, 3)
    for each, (layout, dims) in itertools.product((0, 1, 2), [((0, 1), b""), ((3, 3), NHWC)]):
        how = dict(dimension_numbers=dims, rhs_quantization_axis=layout[0] if each else -1, output_quantization_axis=layout[1] if each > 1 else -1)
        a, b = (permuted(x, (0, 2, 3, 1)), permuted(k, (2, 3, 1, 0))) if dims else (x, k)
        yield case(a, b, scales(g), scales(g, *[4] * (each > 0)), scales(g, *[4] * (each > 1)), **how)
    for n in (1100, 5001):
        yield case(same("qint8", *[127] * n, shape=(1, 1, n)), same("qint8", *[127] * n, shape=(1, 1, n)))
    for zero in (2**20, 2**30, -(2**31)):
        yield case(x, k, (np.float32(1), np.int32(zero)))
        yield case(x, k, out=(np.float32(1), np.int32(zero)))
    for low, high in [(-100, 100), (5, -5), (-(2**31) - 1, 1), (0, 2**31)]:
        yield case(x, k, **limits("output_", low, high), texts=True)
    for bad, i in itertools.product(BAD_SCALES, range(3)):
        yield case(x, k, *[(np.float32(bad if j == i else 1), np.int32(1)) for j in range(3)], texts=bad != np.inf)
    for a, b in SHAPES:
        yield case(x, k, pair(a, b), texts=True)
        yield case(x, k, right=pair(a, b), rhs_quantization_axis=0, texts=True)
        yield case(x, k, right=pair((4,), (4,)), out=pair(a, b), rhs_quantization_axis=0, output_quantization_axis=1, texts=True)
        yield case(x, k, right=pair(a, b), texts=True)
        yield case(x, k, out=pair(a, b), texts=True)
    for axis in (-2, 0, 1, 2, 3):
        yield case(x, k, lhs_quantization_axis=axis, texts=True)
        yield case(x, k, right=pair((4,), (4,)), rhs_quantization_axis=axis, texts=True)
        yield case(x, k, right=pair((4,), (4,)), rhs_quantization_axis=0, out=pair((4,), (4,)), output_quantization_axis=axis, texts=True)
        yield case(x, k, out=pair((4,), (4,)), output_quantization_axis=axis, texts=True)


@spec("UniformQuantizedConvolutionHybrid", rtol=1e-6)
def uniform_conv_hybrid(g, op):
    def case(a, b, right=ONE, **attrs):
        return Case(a, b, *right, **({"Tout": "float32", "padding": "VALID"} | RIGHT | attrs))

    yield from conv_cases(g, lambda a, b, **attrs: case(a, b, scales(g), **attrs), lambda *s: floats(g, *s))
    x, k = floats(g, 2, 3, 4, 4), q8(g, 4, 3, 3, 3)
    x[1] *= 100
    yield case(x, k)
    for layout, dims in [(0, b""), (3, NHWC)]:
        a, b = (permuted(x, (0, 2, 3, 1)), permuted(k, (2, 3, 1, 0))) if dims else (x, k)
        yield case(a, b, scales(g, 4), rhs_quantization_axis=layout, dimension_numbers=dims)
    for bad in BAD_SCALES:
        yield case(x, k, (np.float32(bad), np.int32(1)), texts=True)
    for axis, (a, b) in itertools.product((-1, 0), SHAPES):
        yield case(x, k, pair(a, b), rhs_quantization_axis=axis, texts=True)
    for axis in (-2, 1, 2, 3):
        yield case(x, k, pair((4,), (4,)), rhs_quantization_axis=axis, texts=True)


# ---- sums ----


def q32(g, *shape, bound=100000):
    return g.values("qint32", shape, lo=-bound, hi=bound)


WIDE = same("qint32", 0, 1, -1, 5, 16777217, 16777219, -16777217, 2**31 - 1, -(2**31), 2**30 + 1, 2**31 - 65, 123456789)


@spec("UniformQuantizedAdd")
def uniform_add(g, op):
    def case(a, b, left=ONE, right=ONE, out=ONE, axes=(-1, -1, -1), **attrs):
        axes = {f"{p}quantization_axis": axis for p, axis in zip(("lhs_", "rhs_", "output_"), axes)}
        return Case(a, b, *left, *right, *out, **(axes | WIDE_OUT | attrs))

    for a, b in [((), ()), ((1,), (1,)), ((7,), (7,)), ((3, 5), (3, 5)), ((3, 5), (5,)), ((5,), (3, 5)), ((3, 1), (5,)), ((3, 1), (1, 5)), ((2, 1, 4), (3, 1)), ((), (4,)), ((4,), ()),
                 ((0,), (0,)), ((0, 3), (3,)), ((1, 3), (0, 1)), ((2, 1, 3, 2), (2, 4, 3, 2)), ((2, 1, 1, 2, 1, 3, 1, 2), (2, 3, 1, 2, 2)), ((600,), (600,))]:
        for _ in range(4):
            yield case(q32(g, *a), q32(g, *b), scales(g), scales(g), scales(g))
    # A scale for each slice of the axis that is the last but `back`.
    for shape, back in [((4,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), 2)]:
        axis, n = len(shape) - 1 - back, shape[len(shape) - 1 - back]
        small, small_axis = shape[axis:], 0
        for out in (scales(g), scales(g, n)):
            yield case(q32(g, *shape), q32(g, *shape), scales(g, n), scales(g, n), out, (axis, axis, axis if out[0].ndim else -1))
            yield case(q32(g, *shape), q32(g, *small), scales(g, n), scales(g, n), out, (axis, small_axis, axis if out[0].ndim else -1))
            yield case(q32(g, *small), q32(g, *shape), scales(g, n), scales(g, n), out, (small_axis, axis, axis if out[0].ndim else -1))
        yield case(q32(g, *shape), q32(g, *shape), scales(g, n), scales(g), scales(g), (axis, -1, -1))
        yield case(q32(g, *shape), q32(g, *shape), scales(g), scales(g, n), scales(g), (-1, axis, -1))
        yield case(q32(g, *shape), q32(g, *shape), scales(g, n), scales(g), scales(g, n), (axis, -1, axis))
    for _ in range(3):
        yield case(q32(g, 2, 4), q32(g, 2, 1), scales(g, 4), scales(g, 1), scales(g, 4), (1, 1, 1))
        yield case(q32(g, 2, 1), q32(g, 2, 4), scales(g, 1), scales(g, 4), scales(g, 4), (1, 1, 1))
        yield case(q32(g, 2, 4), q32(g, 2, 4), scales(g, 4), scales(g, 2), scales(g), (1, 0, -1))
    for zero, scale in itertools.product((0, 1, -3, 2**24 + 1, 2**30, 2**31 - 1, -(2**31)), (1, 0.5, 3, 1e9, 1e-9)):
        yield case(WIDE, WIDE[::-1].copy(), out=(np.float32(scale), np.int32(zero)))
        yield case(WIDE, same("qint32", 5, shape=()), (np.float32(scale), np.int32(zero)))
    for low, high in [(-100, 100), (5, -5), (-(2**31) - 1, 1), (0, 2**31)]:
        yield case(q32(g, 9), q32(g, 9), **limits("output_", low, high), texts=True)
        yield case(q32(g, 9), q32(g, 9), **limits("lhs_", low, high), **limits("rhs_", low, high))
    for bad, i in itertools.product(BAD_SCALES, range(3)):
        yield case(q32(g, 3), q32(g, 3), *[(np.float32(bad if j == i else 1), np.int32(1)) for j in range(3)], texts=bad != np.inf)
    for a, b in [((2, 3), (2, 4)), ((2, 3), (0,)), ((3,), (2,))]:
        yield case(q32(g, *a), q32(g, *b), texts=True)
    for axis, (a, b) in itertools.product((-1, 0, 1), SHAPES):
        yield case(q32(g, 3, 4), q32(g, 3, 4), pair(a, b), axes=(axis, -1, -1), texts=True)
        yield case(q32(g, 3, 4), q32(g, 3, 4), right=pair(a, b), axes=(-1, axis, -1), texts=True)
        if axis < 0:  # TensorFlow aborts where the output alone has a scale for each slice
            yield case(q32(g, 3, 4), q32(g, 3, 4), out=pair(a, b), axes=(-1, -1, axis), texts=True)
    for axis, k in itertools.product((-2, 2, 3), range(3)):
        yield case(q32(g, 3, 4), q32(g, 3, 4), axes=tuple(axis if i == k else -1 for i in range(3)), texts=True)
    yield case(q32(g, 3, 4), q32(g, 3, 4), pair((3,), (3,)), pair((4,), (4,)), pair((4,), (4,)), (0, 1, 1), texts=True)
    yield case(q32(g, 3, 4), q32(g, 3, 4), pair((4,), (4,)), pair((3,), (3,)), pair((4,), (4,)), (1, 0, 1), texts=True)


# ---- normalisation ----


def nearly(case, theirs, ours):
    """Compares quantised numbers and their range, which follow from sums of floats in another order."""
    for a, b in zip(theirs, ours):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{b.dtype}{b.shape}, not {a.dtype}{a.shape}"
    q, p = (np.asarray(v[0]).view("uint8").astype(int) for v in (theirs, ours))
    if q.size and np.abs(q - p).max() > 1:
        return f"integers differ by {np.abs(q - p).max()}"
    if not np.allclose(theirs[1:], ours[1:], rtol=1e-4, atol=1e-5):
        return f"range {ours[1:]}, not {theirs[1:]}"
    return None


@spec("QuantizedInstanceNorm")
def instance_norm(g, op):
    x = lambda *shape: g.values("quint8", shape, lo=0, hi=255)
    one = lambda v: np.float32(v)
    for shape, (low, high), how in itertools.product(
        [(1, 3, 3, 2), (2, 4, 5, 3), (1, 8, 8, 16), (1, 1, 1, 4), (3, 16, 3, 17), (0, 3, 3, 2), (1, 0, 3, 2)], [(0, 6), (-1, 3), (-0.3, 0.01), (2, 900)],
        [{}, dict(output_range_given=True, given_y_min=-1.0, given_y_max=2.0), dict(min_separation=5.0), dict(variance_epsilon=0.5), dict(variance_epsilon=0.1, output_range_given=True, given_y_min=0.5, given_y_max=1.0)],
    ):
        yield Case(x(*shape), one(low), one(high), check=nearly, **how)
    for _ in range(50):
        yield Case(x(*g.rng.integers(1, 9, 4)), one(-g.rng.random()), one(g.rng.random() * 9), check=nearly)
    y = x(1, 3, 3, 2)
    for low, high in [([0], 6), (0, [6]), (3, 3), (5, 3), (np.nan, 3), (0, np.nan), ([], 3)]:
        yield Case(y, np.asarray(low, "float32"), np.asarray(high, "float32"), texts=True)
    for low, high in [(2.0, -2.0), (2.0, 2.0)]:
        yield Case(y, one(0), one(6), output_range_given=True, given_y_min=low, given_y_max=high, texts=True)
