"""Test cases for quantisation (kernels/quant), namely rounding of floats to values that quantised integers represent,
conversions, and arithmetic on quantised types."""

import itertools

from spec import *

SHAPES = [(), (1,), (0,), (7,), (3, 5), (2, 0, 3), (2, 1, 3, 2), (2, 1, 1, 2, 1, 3, 1, 2), (5000,)]
RANGES = [(-1, 1), (0, 1), (-6, 6), (-1, 0), (-0.3, 2.7), (0.5, 3), (-3, -0.25), (0, 0), (-1e-6, 1e-6), (-1e6, 3e7), (-0.1, 127.5), (1, 1)]
BAD_RANGES = [(1, -1), (np.nan, 1), (-1, np.nan), (-np.inf, np.inf), (0, np.inf), (3e38, -3e38), (-3e38, 3e38)]


def scalars(*values):
    return [np.float32(v) for v in values]


def near(g, lo, hi, shape, dtype="float32"):
    """Returns numbers in and near the range from lo to hi. Some are multiples of a quantisation step, and some are halfway
    between two multiples."""
    width = max(abs(hi - lo), 1e-3)
    x = g.rng.uniform(lo - width / 4, hi + width / 4, shape)
    steps = np.round(g.rng.uniform(-2, 258, shape)) / 255 * width + lo
    half = (np.round(g.rng.uniform(-2, 258, shape)) + 0.5) / 255 * width + lo
    pick = g.rng.integers(0, 3, shape)
    return np.asarray(np.choose(pick, [x, steps, half]), dtype_of(dtype))


# ---- fake quantisation ----


@spec("FakeQuantWithMinMaxArgs")
def fake_args(g, op):
    for (lo, hi), bits, narrow in itertools.product([r for r in RANGES if r[0] < r[1]], (2, 4, 8, 16), (False, True)):
        yield Case(near(g, lo, hi, (259,)), min=lo, max=hi, num_bits=bits, narrow_range=narrow)
    for shape in SHAPES:
        yield Case(g.values("float32", shape), min=-6, max=6)
        yield Case(g.values("float32", shape), min=-0.5, max=7.3, num_bits=5)
    x = g.values("float32", (5,))
    for lo, hi in [(1, 1), (2, 1), (0, 0), (0.25, -1e10), (np.nan, 1), (-1, np.inf), (-np.inf, 1)]:
        yield Case(x, min=lo, max=hi, texts=True)
    for bits in (-1, 0, 1, 2, 16, 17, 64):
        yield Case(x, num_bits=bits, texts=True)


@spec("FakeQuantWithMinMaxVars")
def fake_vars(g, op):
    for (lo, hi), bits, narrow in itertools.product(RANGES, (2, 4, 8, 16), (False, True)):
        yield Case(near(g, lo, hi, (259,)), *scalars(lo, hi), num_bits=bits, narrow_range=narrow)
    for shape in SHAPES:
        yield Case(g.values("float32", shape), *scalars(-6, 6))
    x = g.values("float32", (5,))
    for lo, hi in BAD_RANGES:
        yield Case(x, *scalars(lo, hi))
    for bits in (-1, 1, 17):
        yield Case(x, *scalars(0, 1), num_bits=bits, texts=True)
    for a, b in [((1,), ()), ((), (1,)), ((0,), ()), ((2,), (2,)), ((1, 1), ())]:
        yield Case(x, np.zeros(a, "float32"), np.ones(b, "float32"), texts=True)


def channel_range(g, depth):
    lo = g.rng.uniform(-3, 1, depth).astype("float32")
    return lo, lo + g.rng.uniform(0.1, 5, depth).astype("float32")


@spec("FakeQuantWithMinMaxVarsPerChannel")
def fake_channels(g, op):
    for shape, bits, narrow in itertools.product([(3,), (1,), (0,), (4, 0), (0, 3), (4, 3), (2, 5, 3), (2, 3, 4, 7), (300, 5)], (2, 8, 16), (False, True)):
        lo, hi = channel_range(g, shape[-1])
        yield Case(g.values("float32", shape), lo, hi, num_bits=bits, narrow_range=narrow)
    for (lo, hi), n in itertools.product(RANGES + BAD_RANGES, (1, 4)):
        yield Case(near(g, 0, 1, (6, n)), np.full(n, lo, "float32"), np.full(n, hi, "float32"))
    yield from channel_refusals(g, 0)


def channel_refusals(g, grads):
    x = lambda *shape: [g.values("float32", shape)] * (grads + 1)
    for a, b in [((3,), (2,)), ((2,), (3,)), ((1,), (1,)), ((0,), (0,))]:
        yield Case(*x(4, 3), np.zeros(a, "float32"), np.ones(b, "float32"), texts=True)
    yield Case(*x(2, 1, 1, 2, 2), np.zeros(2, "float32"), np.ones(2, "float32"), texts=True)
    for bits in (-1, 1, 17):
        yield Case(*x(4, 2), np.zeros(2, "float32"), np.ones(2, "float32"), num_bits=bits, texts=True)


@spec("FakeQuantWithMinMaxArgsGradient")
def fake_args_gradient(g, op):
    for (lo, hi), bits, narrow in itertools.product([r for r in RANGES if r[0] < r[1]], (2, 8, 16), (False, True)):
        x = near(g, lo, hi, (259,))
        yield Case(g.values("float32", x.shape), x, min=lo, max=hi, num_bits=bits, narrow_range=narrow)
    for shape in SHAPES:
        yield Case(g.values("float32", shape), g.values("float32", shape), min=-6, max=6)
    for a, b in [((3,), (4,)), ((2, 3), (3, 2)), ((), (1,)), ((0,), (1,)), ((6,), (2, 3))]:
        yield Case(g.values("float32", a), g.values("float32", b), texts=True)
    x = g.values("float32", (5,))
    for how in [dict(min=1, max=1), dict(min=2, max=1), dict(num_bits=1), dict(num_bits=17)]:
        yield Case(x, x, **how, texts=True)


@spec("FakeQuantWithMinMaxVarsGradient", rtol=1e-6, atol=1e-5)
def fake_vars_gradient(g, op):
    for (lo, hi), bits, narrow in itertools.product(RANGES, (2, 8, 16), (False, True)):
        x = near(g, lo, hi, (259,))
        yield Case(g.values("float32", x.shape, special=False), x, *scalars(lo, hi), num_bits=bits, narrow_range=narrow)
    for shape in SHAPES:
        yield Case(g.values("float32", shape, special=False), g.values("float32", shape), *scalars(-6, 6))
    for lo, hi in BAD_RANGES:
        yield Case(g.values("float32", (9,), special=False), g.values("float32", (9,)), *scalars(lo, hi))
    yield Case(np.float32([np.nan, 1, np.inf, 2]), np.float32([0, 1, 2, 3]), *scalars(0, 1))
    for a, b in [((3,), (4,)), ((2, 3), (3, 2)), ((), (1,)), ((0,), (1,)), ((6,), (2, 3))]:
        yield Case(g.values("float32", a), g.values("float32", b), *scalars(0, 1), texts=True)
    x = g.values("float32", (5,))
    for bits in (-1, 1, 17):
        yield Case(x, x, *scalars(0, 1), num_bits=bits, texts=True)
    for a, b in [((1,), ()), ((), (1,)), ((0,), ()), ((2,), (2,)), ((1, 1), ())]:
        yield Case(x, x, np.zeros(a, "float32"), np.ones(b, "float32"), texts=True)


@spec("FakeQuantWithMinMaxVarsPerChannelGradient", rtol=1e-6, atol=1e-5)
def fake_channels_gradient(g, op):
    for shape, bits, narrow in itertools.product([(3,), (1,), (0,), (4, 0), (0, 3), (4, 3), (2, 5, 3), (2, 3, 4, 7), (300, 5)], (2, 8, 16), (False, True)):
        lo, hi = channel_range(g, shape[-1])
        yield Case(g.values("float32", shape, special=False), g.values("float32", shape), lo, hi, num_bits=bits, narrow_range=narrow)
    for (lo, hi), n in itertools.product(RANGES + BAD_RANGES, (1, 4)):
        yield Case(near(g, 0, 1, (6, n)), near(g, 0, 1, (6, n)), np.full(n, lo, "float32"), np.full(n, hi, "float32"))
    for a, b in [((4, 3), (3,)), ((2, 3), (3, 3)), ((3,), (1, 3))]:
        yield Case(g.values("float32", a), g.values("float32", b), np.zeros(3, "float32"), np.ones(3, "float32"), texts=True)
    yield from channel_refusals(g, 1)


# ---- quantisation and back ----


@spec("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(g, op):
    v3 = op.endswith("V3")

    def case(x, lo, hi, bits=8, **attrs):
        extra = [np.int32(bits)] if v3 else []
        if not v3:
            attrs["num_bits"] = bits
        return Case(x, np.asarray(lo, x.dtype), np.asarray(hi, x.dtype), *extra, **attrs)

    for bits in ([4], [[4]], [4, 5], []) if v3 else ():
        yield case(g.values("float32", (3,), special=False), -1, 1, np.int32(bits), range_given=True, texts=True)
    modes = ("HALF_TO_EVEN",) if v3 else ("HALF_TO_EVEN", "HALF_UP")
    for dtype, (lo, hi), signed, given, narrow, mode in itertools.product(WIDE_FLOATS, RANGES, *[(False, True)] * 3, modes):
        how = {} if v3 else {"round_mode": mode}
        x = near(g, lo, hi, (67,), dtype)
        yield case(x, lo, hi, g.rng.choice([1, 2, 4, 8, 16, 31]), signed_input=signed, range_given=given, narrow_range=narrow, **how)
    for dtype, shape, given in itertools.product(WIDE_FLOATS, SHAPES, (False, True)):
        yield case(g.values(dtype, shape, special=False), -6, 6, range_given=given)
    for dtype, shape, given in itertools.product(WIDE_FLOATS, [(3,), (0,), (4, 3), (2, 0, 3), (2, 3, 4), (2, 1, 3, 1, 2)], (False, True)):
        for axis in range(len(shape)):
            lo, hi = channel_range(g, shape[axis])
            yield case(g.values(dtype, shape, special=False), lo, hi, 5, range_given=given, axis=axis)
    for given, (lo, hi) in itertools.product((False, True), BAD_RANGES):
        yield case(g.values("float32", (9,), special=False), lo, hi, range_given=given, texts=True)
    x = g.values("float32", (4, 3), special=False)
    for value, given in itertools.product([np.nan, np.inf, -np.inf, 3e38], (False, True)):
        y = x.copy()
        y[2, 1] = value
        yield case(y, -1, 1, range_given=given)
    for bits, signed in itertools.product((-1, 0, 1, 2, 60, 61, 62, 63, 64), (False, True)):
        yield case(x, -1, 1, bits, signed_input=signed, range_given=True, texts=True)
    for axis, given in itertools.product((2, 3), (False, True)):
        yield case(x, np.zeros(3), np.ones(3), axis=axis, range_given=given, texts=True)
    for given, axis, a, b in itertools.product((False, True), (-1, 0, 1), [(), (1,), (3,), (4,), (0,), (3, 1)], [(), (3,), (4,)]):
        if not v3 or axis >= 0 or a == b == ():  # TensorFlow's V3 kernel aborts
            yield case(x, np.zeros(a), np.ones(b), axis=axis, range_given=given, texts=True)


@spec("QuantizeAndDequantizeV4Grad")
def quantize_and_dequantize_grad(g, op):
    for dtype, (lo, hi) in itertools.product(WIDE_FLOATS, RANGES + BAD_RANGES):
        x = near(g, -1, 1, (67,), dtype)
        yield Case(g.values(dtype, x.shape), x, *[np.asarray(v, x.dtype) for v in (lo, hi)])
    for dtype, shape in itertools.product(WIDE_FLOATS, SHAPES):
        yield Case(g.values(dtype, shape), g.values(dtype, shape), *[np.asarray(v, dtype) for v in (-3, 3)])
    for dtype, shape in itertools.product(WIDE_FLOATS, [(3,), (0,), (4, 3), (2, 0, 3), (2, 3, 4), (2, 1, 3, 1, 2)]):
        for axis in range(len(shape)):
            lo, hi = channel_range(g, shape[axis])
            yield Case(g.values(dtype, shape), g.values(dtype, shape), lo.astype(dtype), hi.astype(dtype), axis=axis)
    x = g.values("float32", (4, 3))
    for axis in (2, 3):
        yield Case(x, x, np.zeros(3, "float32"), np.ones(3, "float32"), axis=axis, texts=True)
    for axis, a, b in itertools.product((-1, 0, 1), [(), (1,), (3,), (4,), (0,), (3, 1)], [(), (3,), (4,)]):
        yield Case(x, x, np.zeros(a, "float32"), np.ones(b, "float32"), axis=axis, texts=True)
    for a, b in [((3,), (4,)), ((2, 3), (3, 2)), ((), (1,)), ((6,), (2, 3))]:
        yield Case(g.values("float32", a), g.values("float32", b), *scalars(0, 1), texts=True)


@spec("QuantizeV2")
def quantize(g, op):
    modes = [("MIN_COMBINED", "HALF_AWAY_FROM_ZERO"), ("MIN_FIRST", "HALF_AWAY_FROM_ZERO"), ("SCALED", "HALF_AWAY_FROM_ZERO"), ("SCALED", "HALF_TO_EVEN")]
    for dtype, (mode, rounding), (lo, hi), narrow in itertools.product(QUANTISED, modes, RANGES, (False, True)):
        yield Case(near(g, lo, hi, (67,)), *scalars(lo, hi), T=dtype, mode=mode, round_mode=rounding, narrow_range=narrow)
    for dtype, (mode, rounding), least in itertools.product(QUANTISED, modes, (0, 0.5, -1, 1e-6)):
        yield Case(near(g, -1, 1, (9,)), *scalars(0.2, 0.2), T=dtype, mode=mode, round_mode=rounding, ensure_minimum_range=least)
        yield Case(near(g, -1, 1, (9,)), *scalars(-5, -4), T=dtype, mode=mode, round_mode=rounding, ensure_minimum_range=least)
    for dtype, (mode, rounding), shape in itertools.product(QUANTISED, modes, SHAPES):
        yield Case(g.values("float32", shape, special=False), *scalars(-6, 6), T=dtype, mode=mode, round_mode=rounding)
    for dtype, (mode, rounding), shape in itertools.product(QUANTISED, modes, [(3,), (4, 3), (2, 0, 3), (2, 3, 4), (2, 1, 3, 1, 2)]):
        for axis in range(len(shape)):
            yield Case(g.values("float32", shape, special=False), *channel_range(g, shape[axis]), T=dtype, mode=mode, round_mode=rounding, axis=axis)
    for dtype, (mode, rounding), (lo, hi) in itertools.product(("qint8", "quint8"), modes, BAD_RANGES):
        if (lo, hi) == (-np.inf, np.inf):
            continue  # TensorFlow's vector loop converts NaN to a different integer than its scalar loop does
        yield Case(g.values("float32", (9,), special=False), *scalars(lo, hi), T=dtype, mode=mode, round_mode=rounding, texts=True)
    yield from quantize_refusals(g.values("float32", (4, 3), special=False), modes, T="qint8")
    for mode in ("MIN_COMBINED", "MIN_FIRST"):
        yield Case(g.values("float32", (3,), special=False), *scalars(0, 1), T="quint8", mode=mode, round_mode="HALF_TO_EVEN", texts=True)


def quantize_refusals(x, modes, **attrs):
    for axis in (2, 3) if attrs else ():  # for Dequantize, TensorFlow's shape function refuses an axis that x lacks
        yield Case(x, np.zeros(3, "float32"), np.ones(3, "float32"), axis=axis, **attrs, texts=True)
    for axis, a, b, (mode, _) in itertools.product((-1, 0, 1), [(), (1,), (3,), (4,), (0,), (3, 1)], [(), (3,), (4,)], modes[:3]):
        if not attrs and axis >= 0 and len(a) != 1 or not attrs and axis >= 0 and len(b) != 1:
            continue  # with an axis, TensorFlow's kernel for Dequantize aborts if a bound is not a vector
        yield Case(x, np.zeros(a, "float32"), np.ones(b, "float32"), axis=axis, mode=mode, **attrs, texts=True)


@spec("Dequantize")
def dequantize(g, op):
    modes = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    for dtype, mode, (lo, hi), narrow, out in itertools.product(QUANTISED, modes, RANGES + BAD_RANGES, (False, True), ("float32", "bfloat16")):
        yield Case(g.values(dtype, (67,), lo=-128, hi=127), *scalars(lo, hi), mode=mode, narrow_range=narrow, dtype=out)
    for dtype, mode, shape in itertools.product(QUANTISED, modes, SHAPES):
        yield Case(g.values(dtype, shape), *scalars(-6, 6), mode=mode)
    for dtype, mode, shape, out in itertools.product(QUANTISED, modes, [(3,), (4, 3), (2, 0, 3), (2, 3, 4), (2, 1, 3, 1, 2)], ("float32", "bfloat16")):
        for axis in range(len(shape)):
            yield Case(Const(g.values(dtype, shape)), *channel_range(g, shape[axis]), mode=mode, axis=axis, dtype=out)
    yield from quantize_refusals(Const(g.values("qint8", (4, 3))), [(m, "") for m in modes])


# ---- from range to range ----


def not_scalar(g, *inputs, first, n, **attrs):
    """Yields cases in which one of the bounds is not a scalar. The bounds are the inputs `first` to `first + n - 1`."""
    for k, shape in itertools.product(range(n), [(1,), (0,), (2,), (1, 1)]):
        changed = list(inputs)
        changed[first + k] = np.full(shape, inputs[first + k], "float32")
        yield Case(*changed, **attrs)


def wide(g, shape):
    """Returns qint32 numbers of several magnitudes."""
    x = g.values("qint32", shape)
    if g.rng.integers(0, 2):
        x = g.values("qint32", shape, lo=-(2 ** int(g.rng.integers(3, 31))), hi=2 ** int(g.rng.integers(3, 31)))
    return x


@spec("RequantizationRange", "QuantizeDownAndShrinkRange")
def requantization_range(g, op):
    how = {} if op.startswith("R") else {"out_type": "quint8"}
    for (lo, hi), k in itertools.product(RANGES + [(1, -1)], range(8)):
        yield Case(wide(g, (67,)), *scalars(lo, hi), **how)
    for shape in [s for s in SHAPES if np.prod(s)]:
        yield Case(wide(g, shape), *scalars(-100, 100), **how)
    yield Case(wide(g, (2, 0)), *scalars(-100, 100), **how)
    yield from not_scalar(g, wide(g, (5,)), *scalars(-2, 3), first=1, n=2, texts=True, **how)


@spec("Requantize")
def requantize(g, op):
    for (lo, hi), (a, b), out in itertools.product(RANGES + [(1, -1)], [(-1, 1), (0, 1), (-5, 0), (-1e-3, 2e-3), (0, 0), (-1e8, 3e8), (-0.1, 7)], ("qint8", "quint8")):
        yield Case(wide(g, (67,)), *scalars(lo, hi, a, b), out_type=out)
    for shape, out in itertools.product(SHAPES, ("qint8", "quint8")):
        yield Case(wide(g, shape), *scalars(-100, 100, -1, 1), out_type=out)
    for a, b in [(0.5, 1), (1, -1), (-1, -2), (-2, -1), (np.nan, 1), (-1, np.nan)]:
        yield Case(wide(g, (5,)), *scalars(-1, 1, a, b), out_type="quint8", texts=True)
    for (lo, hi, a, b), out in itertools.product([(np.nan, 1, -1, 1), (-1, np.inf, -1, 1), (-1, 1, -np.inf, 1), (0, 0, -1, np.inf)], ("qint8", "quint8")):
        yield Case(wide(g, (67,)), *scalars(lo, hi, a, b), out_type=out)
    yield from not_scalar(g, wide(g, (5,)), *scalars(-2, 3, -1, 1), first=1, n=4, texts=True, out_type="quint8")


CHANNELED = [(3,), (4, 3), (2, 5, 3), (2, 3, 4, 3), (1, 2, 2, 1), (2, 2, 2, 17), (0, 2, 2, 3), (2, 2, 2, 0), ()]


@spec("RequantizationRangePerChannel")
def requantization_range_per_channel(g, op):
    for shape, clip, one in itertools.product(CHANNELED[3:6], (1, 6, 1e9, 1e-3, 0), (False, True)):
        for _ in range(4):
            lo, hi = channel_range(g, 1 if one else shape[-1])
            yield Case(wide(g, shape), lo * 100, hi * 100, clip_value_max=clip)
    x = np.abs(wide(g, (1, 2, 3, 2)).view("int32") // 2).view(dtype_of("qint32"))
    yield Case(x, np.float32([-3, -4]), np.float32([5, 6]), clip_value_max=1e30)
    for a, b in [((2,), (3,)), ((3,), (2,)), ((4,), (4,)), ((0,), (3,))]:
        yield Case(wide(g, (1, 2, 2, 3)), np.full(a, -1, "float32"), np.full(b, 1, "float32"), clip_value_max=6.0, texts=True)
    for shape in [(3,), (4, 3), (2, 5, 3), (2, 1, 2, 2, 3)]:
        yield Case(wide(g, shape), np.full(3, -1, "float32"), np.full(3, 1, "float32"), clip_value_max=6.0, texts=True)
    for shape, a, b in [((0, 2, 2, 3), (3,), (3,)), ((1, 2, 2, 0), (0,), (0,)), ((0,), (1,), (1,)), ((1, 0, 2, 1), (1,), (2,)),
                        ((1, 2, 2, 2), (2, 2), (2,)), ((1, 0, 2, 2), (2, 2), (2,)), ((1, 2, 2, 2), (2,), (1, 2)), ((1, 2, 2, 1), (1, 1), (1, 1))]:
        yield Case(wide(g, shape), np.full(a, -1, "float32"), np.full(b, 1, "float32"), clip_value_max=6.0, texts=True)
    for a, b in [((), ()), ((), (1,)), ((1,), ())]:  # TensorFlow prints the first dimension of a scalar, which is not initialised
        yield Case(wide(g, (1, 2, 2, 1)), np.full(a, -1, "float32"), np.full(b, 1, "float32"), clip_value_max=6.0)
    for lo, hi in BAD_RANGES:
        yield Case(wide(g, (1, 2, 3, 2)), np.full(2, lo, "float32"), np.full(2, hi, "float32"), clip_value_max=np.inf)


@spec("RequantizePerChannel")
def requantize_per_channel(g, op):
    for shape, (a, b), out, one in itertools.product(CHANNELED[3:6], [(-1, 1), (0, 1), (-5, 0), (-0.1, 7)], ("qint8", "quint8"), (False, True)):
        if one and shape[-1] > 16:
            continue  # TensorFlow's kernel reads past the end of the bounds
        for _ in range(3):
            lo, hi = channel_range(g, 1 if one else shape[-1])
            yield Case(wide(g, shape), lo, hi, *scalars(a, b), out_type=out)
    for a, b in [((2,), (3,)), ((3,), (2,)), ((0,), (3,))]:
        yield Case(wide(g, (1, 2, 2, 3)), np.full(a, -1, "float32"), np.full(b, 1, "float32"), *scalars(0, 1), out_type="quint8", texts=True)
    for shape in [(3,), (4, 3), (2, 5, 3), (2, 1, 2, 2, 3)]:
        yield Case(wide(g, shape), np.full(3, -1, "float32"), np.full(3, 1, "float32"), *scalars(0, 1), out_type="quint8", texts=True)
    bounds = [np.full(2, v, "float32") for v in (-1, 1)]
    for a, b in itertools.product([(), (1,), (1, 1), (0,), (2,)], [(), (1,), (1, 1)]):  # TensorFlow aborts unless the second is a scalar
        yield Case(wide(g, (1, 2, 2, 2)), *bounds, np.full(a, -1, "float32"), np.full(b, 1, "float32"), out_type="qint8", texts=True)
    for shape, sizes in itertools.product([(2, 2, 2), (1, 2, 2, 2)], [(2, 2), (2, 3)]):
        yield Case(wide(g, shape), *[np.ones(n, "float32") for n in sizes], np.zeros(2, "float32"), np.float32(1), out_type="qint8", texts=True)
    for n, depth in [(3, 2), (4, 1), (2, 1)]:  # TensorFlow ignores the bounds of channels that the input lacks
        yield Case(wide(g, (1, 2, 2, depth)), *channel_range(g, n), *scalars(-1, 1), out_type="qint8")
    for (lo, hi), (a, b), out in itertools.product(BAD_RANGES, [(-1, 1), (-1, np.nan), (-np.inf, 1), (-1e-30, 0)], ("qint8", "quint8")):
        yield Case(wide(g, (1, 2, 3, 2)), np.full(2, lo, "float32"), np.full(2, hi, "float32"), *scalars(a, b), out_type=out)


# ---- arithmetic on quantised integers ----


@spec("QuantizedAdd", "QuantizedMul")
def quantized_arithmetic(g, op):
    for a, b in g.broadcasts("quint8"):
        small, large = sorted((a, b), key=np.size)
        if small.size > 1 and large.shape[large.ndim - small.ndim :] != small.shape and small.shape != (1, 3) and a.size != b.size:
            continue  # TensorFlow's kernel repeats the smaller input and leaves a part of the output uninitialised
        yield Case(a, b, *scalars(-1, 1, -3, 7))
        yield Case(a, b, *scalars(0, 255, 0, 255))
    for (lo, hi), (lo2, hi2) in itertools.product(RANGES + [(1, -1)], RANGES[:8]):
        yield Case(g.values("quint8", (37,)), g.values("quint8", (37,)), *scalars(lo, hi, lo2, hi2))
    for k in range(256):
        if k % 8 == 0:
            yield Case(np.arange(256, dtype="uint8").view(dtype_of("quint8")), np.array([k], "uint8").view(dtype_of("quint8")), *scalars(-3, 9.3, -2.2, 3.7))
    for a, b in [((0,), (17, 0)), ((0,), (1, 0)), ((2, 0), (1, 0)), ((0, 1), (1, 0)), ((0, 0), (0,)), ((2, 0), (2, 0))]:
        yield Case(g.values("quint8", a), g.values("quint8", b), *scalars(-1, 1, -1, 1), texts=True)
    x = g.values("quint8", (3,))
    yield from not_scalar(g, x, x, *scalars(-1, 1, -1, 1), first=2, n=4, texts=True)


@spec("QuantizedBiasAdd")
def quantized_bias_add(g, op):
    for dtype, shape, (lo, hi), (lo2, hi2) in itertools.product(("quint8", "qint8"), [(4, 3), (2, 3, 4, 17), (40, 16)], RANGES[:6], RANGES[:3] + [(-300, 200)]):
        yield Case(g.values(dtype, shape, lo=-128, hi=255), g.values(dtype, shape[-1:], lo=-128, hi=255), *scalars(lo, hi, lo2, hi2), out_type="qint32")
    for (lo, hi), (lo2, hi2) in itertools.product([(0.5, 17.3), (0, 9.3e18), (-3, 7e20), *BAD_RANGES], [(-1, 1), (np.nan, 1), (-3, np.nan), (-1, np.inf)]):
        yield Case(g.values("qint8", (4, 3)), g.values("qint8", (3,)), *scalars(lo, hi, lo2, hi2), out_type="qint32")
    for a, b in [((3,), (3,)), ((2, 3), (4,)), ((2, 3), (1,)), ((2, 3), ()), ((2, 3), (1, 3)), ((), (1,)), ((0, 3), (3,)), ((3, 0), (0,))]:
        yield Case(g.values("quint8", a), g.values("quint8", b), *scalars(-1, 1, -1, 1), out_type="qint32", texts=True)
    x = g.values("quint8", (2, 3))
    yield from not_scalar(g, x, x[0], *scalars(-1, 1, -1, 1), first=2, n=4, texts=True, out_type="qint32")


@spec("QuantizedRelu", "QuantizedRelu6")
def quantized_relu(g, op):
    for dtype, (lo, hi) in itertools.product(("quint8", "qint32"), RANGES + [(1, -1), (-100, 100), (0, 255), (5, 8), (-8, -7)]):
        yield Case(g.values(dtype, (259,)), *scalars(lo, hi), out_type=dtype)
    for dtype, shape in itertools.product(("quint8", "qint32"), SHAPES):
        yield Case(g.values(dtype, shape), *scalars(-7, 10), out_type=dtype)
    for dtype in ("quint8", "qint32"):
        yield from not_scalar(g, g.values(dtype, (5,)), *scalars(-2, 3), first=1, n=2, texts=True, out_type=dtype)


@spec("QuantizedReshape")
def quantized_reshape(g, op):
    for dtype, (shape, to), index in itertools.product(
        ("quint8", "qint32"), [((6,), [2, 3]), ((2, 3), [-1]), ((2, 3), [3, -1, 1]), ((), []), ((), [1]), ((0, 3), [3, 0]), ((2, 3), [4]), ((2, 3), [-1, -1]), ((2, 3), [6])], ("int32", "int64")
    ):
        yield Case(g.values(dtype, shape), np.array(to, index), *scalars(-1, 2), texts=True)
        yield Case(g.values(dtype, shape), Const(np.array(to, index)), *scalars(-1, 2))
    yield from not_scalar(g, g.values("quint8", (4,)), np.int32([2, 2]), *scalars(-1, 2), first=2, n=2, texts=True)


@spec("QuantizedConcat")
def quantized_concat(g, op):
    shapes = [([(3,), (4,)], (0, -1)), ([(2, 3), (2, 1)], (1, -1)), ([(2, 3), (0, 3), (1, 3)], (0, -2)), ([(2, 2, 3)] * 3, (0, 1, 2, -3)), ([(0,), (0,)], (0,))]
    for dtype, (inputs, axes), same in itertools.product(("quint8", "qint32"), shapes, (False, True)):
        for axis in axes:
            ranges = [channel_range(g, ()) for _ in inputs]
            ranges = [ranges[0]] * len(inputs) if same else ranges
            yield Case(np.int32(axis), [g.values(dtype, s) for s in inputs], *[[np.float32(r[k]) for r in ranges] for k in (0, 1)])
    for dtype, (lo, hi), (lo2, hi2) in itertools.product(("quint8", "qint32"), RANGES, RANGES[:6]):
        yield Case(np.int32(0), [g.values(dtype, (20,)) for _ in "ab"], scalars(lo, lo2), scalars(hi, hi2))
    x = g.values("quint8", (2, 3))
    bad = [(2, [x, x]), (-3, [x, x]), (0, [x, x[0]]), (0, [x, x[:, :2]]), (0, [x[0, 0], x[0, 0]]), ([0], [x, x]), ([0, 1], [x, x])]
    for axis, values in bad:
        yield Case(np.int32(axis), values, scalars(0, 0), scalars(1, 1), texts=True)
    for shape in [(1,), (0,), (2,)]:
        yield Case(np.int32(0), [x, x], [np.zeros(shape, "float32"), np.float32(0)], scalars(1, 1), texts=True)
        yield Case(np.int32(0), [x, x], scalars(0, 0), [np.float32(1), np.ones(shape, "float32")], texts=True)


@spec("QuantizedConcatV2", onednn=True)
def quantized_concat_v2(g, op):
    # TensorFlow has no working kernel for axes of 64 bits.
    shapes = [([(3,), (4,)], (0, -1)), ([(2, 3), (2, 1)], (1, -1)), ([(2, 3), (0, 3), (1, 3)], (0, -2)), ([(2, 2, 3)] * 3, (0, 1, 2, -3)), ([(0,), (0,)], (0,)), ([(0, 3), (2, 3)], (0,)), ([(2, 0), (2, 3), (2, 1)], (1,))]
    for dtype, (inputs, axes), same in itertools.product(("quint8", "qint8"), shapes, (False, True)):
        for axis in axes:
            ranges = [channel_range(g, ()) for _ in inputs]
            ranges = [ranges[0]] * len(inputs) if same else ranges
            for make in (np.asarray, Const) if len(inputs) == 2 else (np.asarray,):
                yield Case([g.values(dtype, s) for s in inputs], make(np.int32(axis)), *[[np.float32(r[k]) for r in ranges] for k in (0, 1)])
    for dtype, (lo, hi), (lo2, hi2) in itertools.product(("quint8", "qint8"), RANGES, RANGES[:6]):
        yield Case([g.values(dtype, (20,)) for _ in "ab"], np.int32(0), scalars(lo, lo2), scalars(hi, hi2))
    for dtype, (lo, hi), (lo2, hi2) in itertools.product(("quint8", "qint8"), [(0, 0), (-5, -1), (1, -1), (2, 3)], [(0, 0), (-7, -2), (1, -2), (-1, 0)]):
        yield Case([g.values(dtype, (20,)) for _ in "ab"], np.int32(0), scalars(lo, lo2), scalars(hi, hi2))
    for dtype in ("quint8", "qint8"):
        x = g.values(dtype, (2, 3))
        bad = [(2, [x, x]), (-3, [x, x]), (0, [x, x[0]]), (0, [x, x[:, :2]]), (0, [x[0, 0], x[0, 0]]), ([0], [x, x]), ([], [x, x]), ([0, 1], [x, x]), (-1, [x, x[:1]])]
        for axis, values in bad:
            yield Case(values, np.int32(axis), scalars(0, 0), scalars(1, 1), texts=True)
        for shape in [(1,), (0,), (2,)]:
            yield Case([x, x], np.int32(0), [np.zeros(shape, "float32"), np.float32(0)], scalars(1, 1), texts=True)
            yield Case([x, x], np.int32(0), scalars(0, 0), [np.float32(1), np.ones(shape, "float32")], texts=True)


# ---- products, convolutions and poolings ----


@spec("QuantizedMatMul")
def quantized_matmul(g, op):
    q = lambda *shape: g.values("quint8", shape, lo=0, hi=255)
    how = [(a, b) for a in (False, True) for b in (False, True)]
    for (ta, tb), (m, k, n), (lo, hi), (lo2, hi2) in itertools.product(how, [(1, 1, 1), (3, 5, 4), (7, 33, 2), (0, 3, 2), (2, 3, 0)], RANGES[:5], [(-2, 3), (0, 255), (1, 2)]):
        yield Case(q(*((k, m) if ta else (m, k))), q(*((n, k) if tb else (k, n))), *scalars(lo, hi, lo2, hi2), transpose_a=ta, transpose_b=tb)
    for a, b in [((2, 3), (4, 2)), ((2,), (2, 3)), ((2, 3), (3,)), ((1, 2, 3), (3, 2)), ((), ())]:
        yield Case(q(*a), q(*b), *scalars(-1, 1, -1, 1), texts=True)
    yield from not_scalar(g, q(2, 3), q(3, 2), *scalars(-1, 1, -1, 1), first=2, n=4, texts=True)
    yield from not_scalar(g, q(2, 3), q(3, 2), *scalars(1, -1, 1, -1), first=2, n=4, texts=True)
    for (lo, hi), (m, k) in itertools.product([(1, 1), (1, -1), (0, 0), (np.nan, 1), (0, np.nan), (np.inf, np.inf), (0, np.inf), (-2, -1), (1, 1.0000001)], [(2, 3), (0, 3)]):
        yield Case(q(m, k), q(k, 2), *scalars(lo, hi, -1, 2), texts=True)
        yield Case(q(m, k), q(k, 2), *scalars(-1, 2, lo, hi), texts=True)
        yield Case(q(m, k), q(k, 2), *scalars(lo, hi, 1, -1), texts=True)
    yield Case(q(2, 0), q(0, 2), *scalars(-1, 2, 1, 1), texts=True)
    yield Case(q(2, 3), q(2, 2), *scalars(-1, 2, 1, 1))  # TensorFlow complains about the range first


@spec("QuantizedConv2D")
def quantized_conv(g, op):
    q = lambda *shape: g.values("quint8", shape, lo=0, hi=255)
    def case(x, f, lo, hi, lo2, hi2, stride=1, padding="SAME", **attrs):
        return Case(x, f, *scalars(lo, hi, lo2, hi2), strides=[1, stride, stride, 1], padding=padding, **attrs)

    for padding, stride, (lo, hi), (lo2, hi2) in itertools.product(("SAME", "VALID"), (1, 2, 3), RANGES[:6], [(-2, 3), (0, 255), (1, 2)]):
        yield case(q(2, 7, 5, 3), q(3, 2, 3, 4), lo, hi, lo2, hi2, stride, padding)
        yield case(q(1, 6, 6, 1), q(1, 1, 1, 1), lo, hi, lo2, hi2, stride, padding)
    for padding, stride, n in itertools.product(("SAME", "VALID"), (3, 4, 5, 7), (8, 12, 13)):
        yield case(q(1, n, 11, 2), q(1, 2, 2, 3), -1, 1, -2, 1, stride, padding)
    for x, f in [((0, 4, 4, 2), (2, 2, 2, 3)), ((1, 4, 4, 2), (2, 2, 3, 3)), ((4, 4, 2), (2, 2, 2, 3)), ((1, 4, 4, 2), (2, 2, 2))]:
        for padding in ("SAME", "VALID"):
            yield case(q(*x), q(*f), -1, 1, -1, 1, padding=padding, texts=True)
    yield from not_scalar(g, q(1, 4, 4, 2), q(2, 2, 2, 3), *scalars(-1, 1, -1, 1), first=2, n=4, texts=True, strides=[1, 1, 1, 1], padding="SAME")
    for strides in ([2, 1, 1, 1], [1, 1, 1, 2], [1, 1, 2, 1]):
        yield Case(q(1, 4, 4, 2), q(2, 2, 2, 3), *scalars(-1, 1, -1, 1), strides=strides, padding="SAME", texts=True)
    for lo, hi in BAD_RANGES:
        yield case(q(1, 4, 4, 2), q(2, 2, 2, 3), lo, hi, -1, 1, padding="VALID")
        yield case(q(1, 4, 4, 2), q(2, 2, 2, 3), -1, 1, lo, hi)
    yield case(q(1, 6, 6, 2), q(2, 2, 2, 3), -1, 1, -1, 1, dilations=[1, 2, 2, 1], texts=True)


@spec("QuantizedResizeBilinear")
def quantized_resize(g, op):
    def case(x, size, lo=-1, hi=2, **attrs):
        return Case(x, np.array(size, "int32"), *scalars(lo, hi), **attrs)

    ways = [dict(align_corners=a, half_pixel_centers=h) for a, h in itertools.product((False, True), repeat=2)]
    for dtype, way in itertools.product(("float32", "quint8", "qint32"), ways):
        for shape, size in itertools.product([(2, 3, 4, 3), (1, 7, 5, 1), (1, 1, 1, 2), (1, 5, 9, 17)], [(5, 6), (3, 4), (1, 1), (14, 25), (2, 9)]):
            yield case(g.values(dtype, shape, special=False), size, **way)
        yield case(g.values(dtype, (1, 3, 2, 4500), special=False), (2, 3), **way)
    for dtype in ("float32", "qint32", "quint8"):
        for lo, hi in RANGES[6:] + BAD_RANGES:
            yield case(g.values(dtype, (1, 4, 4, 2), special=False), (7, 3), lo, hi)
    extremes = np.int32([2**31 - 1, -(2**31), 2**31 - 1, 0, -(2**31), 2**31 - 1, -1, 1, 2**31 - 1]).view(dtype_of("qint32")).reshape(1, 3, 3, 1)
    for size in [(3, 7), (11, 5), (4, 4)]:
        yield case(extremes, size)
        yield case(np.where(g.rng.integers(0, 2, (1, 3, 3, 2)), 255, 0).astype("uint8").view(dtype_of("quint8")), size)
    yield case(g.values("float32", (1, 3, 3, 2)), (5, 5))
    for shape, size in [((0, 3, 4, 3), (5, 6)), ((2, 3, 4, 0), (5, 6)), ((2, 0, 4, 3), (5, 6)), ((2, 3, 4, 3), (0, 6)), ((2, 3, 4, 3), (5, -1)), ((2, 3, 4, 3), (5,)),
                        ((2, 3, 4, 3), (5, 6, 7)), ((2, 3, 4, 3), ((5, 6),)), ((2, 3, 4, 3), 5), ((3, 4, 3), (5, 6)), ((2, 3, 4, 3, 1), (5, 6))]:
        yield case(g.values("quint8", shape), size, texts=True)
    x = g.values("quint8", (1, 3, 4, 2))
    for lo, hi in [([-1], 1), (-1, [1]), ([], 1)]:
        yield case(x, (5, 6), lo, hi, texts=True)
    yield case(x[0], (5, 6), -1, [1], texts=True)


@spec("QuantizedAvgPool", "QuantizedMaxPool")
def quantized_pool(g, op):
    for dtype, padding, k, stride, shape in itertools.product(("quint8",), ("SAME", "VALID"), (1, 2, 3), (1, 2), [(2, 7, 5, 3), (1, 3, 3, 17), (0, 4, 4, 1), (1, 4, 4, 0)]):
        x = g.values(dtype, shape, lo=-128, hi=255)
        yield Case(x, *scalars(-1, 3), ksize=[1, k, k, 1], strides=[1, stride, stride, 1], padding=padding)
        yield Case(x, *scalars(-1, 3), ksize=[1, k, 1, 1], strides=[1, 1, stride, 1], padding=padding)
    x = g.values("quint8", (1, 4, 4, 2))
    how = dict(ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME", texts=True)
    yield from not_scalar(g, x, *scalars(-2, 3), first=1, n=2, **how)
    yield Case(x[0], *scalars(-1, 1), **how)


@spec("QuantizedBatchNormWithGlobalNormalization")
def quantized_batch_norm(g, op):
    q = lambda *shape: g.values("quint8", shape, lo=0, hi=255)
    for depth, (lo, hi), scale, epsilon in itertools.product((1, 3, 8), RANGES[:5], (False, True), (0.001, 0.1)):
        inputs = [(q(2, 3, 2, depth), lo, hi), (q(depth), -2, 3), (q(depth), 0, 4), (q(depth), -1, 1), (q(depth), 0.1, 2)]
        yield Case(*[v for x, a, b in inputs for v in (x, np.float32(a), np.float32(b))], out_type="qint32", variance_epsilon=epsilon, scale_after_normalization=scale)


# ---- uniform quantisation: a scale and a zero point ----

LIMITS = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-(2**31), 2**31 - 1)}


def limits(dtype, prefix="", narrow=False):
    return {f"{prefix}quantization_min_val": LIMITS[dtype][0] + narrow, f"{prefix}quantization_max_val": LIMITS[dtype][1]}


def uniform(g, *shape):
    """Returns a scale and a zero point, or vectors of them."""
    return g.rng.uniform(0.01, 3, shape).astype("float32"), g.rng.integers(-20, 20, shape).astype("int32")


def uniform_shapes():
    for shape in SHAPES + [(4, 3), (2, 3, 4)]:
        yield shape, -1
        if len(shape) < 4:
            yield from ((shape, axis) for axis in range(len(shape)))


# Ranges whose ends do not fit an int32 or are in the wrong order. TensorFlow reads only an output's range.
ODD_LIMITS = [(5, -5), (0, 0), (-(2**31) - 1, 127), (-128, 2**31)]


def odd_limits(prefix=""):
    for low, high in ODD_LIMITS:
        yield {f"{prefix}quantization_min_val": low, f"{prefix}quantization_max_val": high}


def uniform_refusals(g, x, build):
    """Yields cases whose scale and zero point do not fit a tensor of shape [4, 3]."""
    for axis, a, b in itertools.product((-1, 0, 1), [(), (1,), (3,), (4,)], [(), (3,), (4,)]):
        yield build(x, np.ones(a, "float32"), np.zeros(b, "int32"), axis)
    for scale in (0, -1, np.nan, np.inf):
        yield build(x, np.float32(scale), np.int32(1), -1)


# Integers that change when TensorFlow converts them to a float and back, and zero points that make differences wrap.
WIDE = np.int32([0, 1, -1, 5, 16777217, 16777219, -16777217, 2**31 - 1, -(2**31), 2**30 + 1, 2**31 - 65, 123456789]).view(dtype_of("qint32"))
ZEROS = (0, 1, -1, 16777217, 2**30, 2**31 - 1, -(2**31))


@spec("UniformQuantize")
def uniform_quantize(g, op):
    for dtype, (shape, axis), narrow in itertools.product(("qint8", "qint32"), uniform_shapes(), (False, True)):
        x = g.values("float32", shape, lo=-300, hi=300, special=False)
        yield Case(x, *uniform(g, *(shape[axis : axis + 1] if axis >= 0 else ())), Tout=dtype, quantization_axis=axis, **limits(dtype, narrow=narrow))
    for odd in odd_limits():
        yield Case(np.float32([-30, 0, 1, 30]), np.float32(0.6), np.int32(0), Tout="qint8", texts=True, **odd)
    for scale in (0.25, 0.5, 1, 3):
        yield Case(np.arange(-40, 40, dtype="float32") / 8, np.float32(scale), np.int32(2), Tout="qint8", **limits("qint8"))
    yield from uniform_refusals(g, g.values("float32", (4, 3), special=False), lambda x, s, z, a: Case(x, s, z, Tout="qint8", quantization_axis=a, **limits("qint8"), texts=True))


@spec("UniformDequantize")
def uniform_dequantize(g, op):
    for dtype, (shape, axis) in itertools.product(("qint8", "quint8", "qint32"), uniform_shapes()):
        x = g.values(dtype, shape)
        yield Case(x, *uniform(g, *(shape[axis : axis + 1] if axis >= 0 else ())), Tout="float32", quantization_axis=axis, **limits(dtype))
    for odd in odd_limits():
        yield Case(g.values("qint8", (4,)), np.float32(0.6), np.int32(6), Tout="float32", **odd)
    for zero in ZEROS:
        yield Case(WIDE, np.float32(0.5), np.int32(zero), Tout="float32", **limits("qint32"))
    yield from uniform_refusals(g, g.values("qint8", (4, 3)), lambda x, s, z, a: Case(x, s, z, Tout="float32", quantization_axis=a, **limits("qint8"), texts=True))


@spec("UniformRequantize")
def uniform_requantize(g, op):
    for dtype, (shape, axis), way in itertools.product(("qint8", "qint32"), uniform_shapes(), range(3)):
        if axis < 0 and way:
            continue
        one, each = (), shape[axis : axis + 1] if axis >= 0 else ()
        a, b = [(each, each), (each, one), (one, each)][way]
        yield Case(
            g.values(dtype, shape, lo=-5000, hi=5000), *uniform(g, *a), *uniform(g, *b), Tout="qint8", input_quantization_axis=axis if a else -1,
            output_quantization_axis=axis if b else -1, **limits(dtype, "input_"), **limits("qint8", "output_"),
        )
    one = np.float32(0.6), np.int32(0)
    for odd in odd_limits("input_"):
        yield Case(g.values("qint8", (4,)), *one, *one, Tout="qint8", **odd, **limits("qint8", "output_"))
    for odd in odd_limits("output_"):
        yield Case(g.values("qint8", (4,)), *one, *one, Tout="qint8", texts=True, **odd, **limits("qint8", "input_"))
    both = limits("qint32", "input_") | limits("qint8", "output_")
    for scale, other in [(1, 1), (1.5, 1), (2.0**20, 1), (2.0**30, 1), (2.0**31, 1), (3e38, 2.9), (3e38, 1e-30), (1, 2.0**31), (1.5, 2.0**33), (1e-30, 3e38)]:
        for zero in ZEROS:
            yield Case(WIDE, np.float32(scale), np.int32(zero), np.float32(other), np.int32(-15), Tout="qint8", **both)
            yield Case(WIDE, np.float32(scale), np.int32(3), np.float32(other), np.int32(zero), Tout="qint8", **both)
    for shape, bad in itertools.product([(2, 3), (0, 3)], (0, -1, np.nan, np.inf, -np.inf)):
        x, plain, each = g.values("qint8", shape), (np.float32(1), np.int32(0)), (np.float32([1, bad, 2]), np.int32([0, 0, 0]))
        how = dict(Tout="qint8", texts=True, **limits("qint8", "input_"), **limits("qint8", "output_"))
        yield Case(x, np.float32(bad), np.int32(0), *plain, **how)
        yield Case(x, *plain, np.float32(bad), np.int32(0), **how)
        yield Case(x, *each, *plain, input_quantization_axis=1, **how)
        yield Case(x, *plain, *each, output_quantization_axis=1, **how)
        yield Case(x, *each, *each, input_quantization_axis=1, output_quantization_axis=1, **how)
    for a, b in [((4, 3), (3,)), ((3,), (4,)), ((4,), (3,))]:
        a, b = (np.ones(s, "float32") for s in (a, b))
        yield Case(g.values("qint8", (4, 3)), a, np.zeros(a.shape, "int32"), b, np.zeros(b.shape, "int32"), Tout="qint8", input_quantization_axis=0,
                   output_quantization_axis=1, texts=True, **limits("qint8", "input_"), **limits("qint8", "output_"))


@spec("UniformQuantizedClipByValue")
def uniform_clip(g, op):
    for shape, axis in uniform_shapes():
        each = shape[axis : axis + 1] if axis >= 0 else ()
        low = g.values("int32", each, lo=-10, hi=5)
        x, high = g.values("qint32", shape), (low + 7).astype("int32")
        low, high = [np.asarray(v).reshape(-1).view(dtype_of("qint32")).reshape(each) for v in (low, high)]
        yield Case(x, low, high, *uniform(g, *each), quantization_axis=axis, **limits("qint32"))
    low, high = [np.int32([v]).view(dtype_of("qint32")).reshape(()) for v in (-1, 6)]
    for odd in odd_limits():
        yield Case(g.values("qint32", (4,)), low, high, np.float32(0.6), np.int32(6), **odd)


# ---- ops of other families on quantised types ----

SOME = ("qint8", "quint8", "qint32")  # the only quantised types for which TensorFlow registers some kernels


@spec("Cast")
def cast(g, op):
    for dtype, other in itertools.product(QUANTISED, PLAIN):
        yield Case(g.values(dtype, (37,)), DstT=other)
        if other not in COMPLEX:
            yield Case(g.values(other, (37,), lo=0, hi=100, special=False), DstT=dtype)
        if other in FLOATS:
            yield Case(g.values(other, (63,), lo=-40000, hi=80000, special=False), DstT=dtype)
    for a, b in itertools.product(QUANTISED, QUANTISED):
        yield Case(g.values(a, (37,)), DstT=b)


@spec("Bitcast")
def bitcast(g, op):
    for a, b in itertools.product(QUANTISED, list(QUANTISED) + INTS + ["float32", "bfloat16"]):
        yield Case(g.values(a, (3, 8)), type=b)
        yield Case(g.values(a, (3, 4)), type=b)


@spec("Identity", "Shape", "Size", "Rank", "StopGradient", "Squeeze")
def moved_whole(g, op):
    for dtype, shape in itertools.product(QUANTISED, ((), (3,), (2, 1, 3), (0, 2))):
        yield Case(g.values(dtype, shape))
        yield Case(Const(g.values(dtype, shape)))


@spec("Concat", "ConcatV2", "Pack", "Gather", "GatherV2", "Fill", "Equal", "NotEqual", "Reshape", "ExpandDims", "Tile")
def moved(g, op):
    for dtype in QUANTISED:
        x, y, i = g.values(dtype, (2, 3)), g.values(dtype, (2, 3)), np.int32
        yield {
            "Concat": lambda: Case(i(1), [x, y]),
            "ConcatV2": lambda: Case([x, y], i(0)),
            "Pack": lambda: Case([x, y], axis=1),
            "Gather": lambda: Case(x, i([1, 0, 1])),
            "GatherV2": lambda: Case(x, i([2, 0]), i(1)),
            "Fill": lambda: Case(i([2, 2]), x[0, 0]),
            "Reshape": lambda: Case(x, i([3, 2])),
            "ExpandDims": lambda: Case(x, i(1)),
            "Tile": lambda: Case(x, i([1, 2])),
        }.get(op, lambda: Case(x, np.where(g.rng.integers(0, 2, (2, 3)), x, y)))()


@spec("Pad", "PadV2", "MirrorPad", "Slice", "StridedSlice", "Split", "SplitV", "DynamicStitch", "Switch", "GatherNd")
def moved_in_part(g, op):
    for dtype in ("quint8",) if op.startswith("Split") else SOME:
        x, i = g.values(dtype, (4, 4)), np.int32
        pads = i([[1, 0], [0, 2]])
        yield {
            "Pad": lambda: Case(x, pads),
            "PadV2": lambda: Case(x, pads, x[0, 0]),
            "MirrorPad": lambda: Case(x, pads, mode="REFLECT"),
            "Slice": lambda: Case(x, i([1, 0]), i([2, -1])),
            "StridedSlice": lambda: Case(x, i([0, 3]), i([4, 0]), i([2, -1])),
            "Split": lambda: Case(i(1), x, num_split=2),
            "SplitV": lambda: Case(x, i([1, 3]), i(0), num_split=2),
            "DynamicStitch": lambda: Case([i([2, 0]), i([1])], [x[:2], x[2:3]]),
            "Switch": lambda: Case(x, np.bool_(True), outputs=[1]),
            "GatherNd": lambda: Case(x, i([[0, 1], [1, 2]])),
        }[op]()
