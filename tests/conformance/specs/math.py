"""Test cases for element-wise ops (kernels/math)."""

import itertools

from spec import *

FLOATS_COMPLEX = FLOATS + COMPLEX


def pairs(g, types, **how):
    for dtype in types:
        for a, b in g.broadcasts(dtype, **how):
            yield dtype, a, b


def nonzero(x):
    return np.where(x == 0, np.ones((), x.dtype), x)


# ---- two inputs ----


@spec("AddV2", "Sub")
def exact(g, op):
    for _, a, b in pairs(g, NUMBERS):
        yield Case(a, b)


@spec("Add")
def add(g, op):
    for _, a, b in pairs(g, FLOATS_COMPLEX + SIGNED + ["uint8", "string"]):
        yield Case(a, b)


@spec("Mul", ulps=1)
def mul(g, op):
    for dtype, a, b in pairs(g, NUMBERS):
        yield Case(a, b, ulps=2 if dtype in COMPLEX else 0)


@spec("MulNoNan", "DivNoNan", "Xdivy", "RealDiv")
def floats(g, op):
    for dtype, a, b in pairs(g, FLOATS_COMPLEX):
        yield Case(a, b, ulps=4 if dtype in COMPLEX else 0, signs=op != "Xdivy")


@spec("Maximum", "Minimum", signs=False)  # TensorFlow's choice between 0 and -0 depends on the element's position.
def extremes(g, op):
    for _, a, b in pairs(g, REALS):
        yield Case(a, b)


@spec("Less", "LessEqual", "Greater", "GreaterEqual")
def reals(g, op):
    for _, a, b in pairs(g, REALS):
        yield Case(a, b)


@spec("Equal", "NotEqual")
def equality(g, op):
    for _, a, b in pairs(g, PLAIN + ["string"]):
        yield Case(a, b)
        yield Case(a, b, incompatible_shape_error=False)
    for dtype in INTS:
        for a, b in g.broadcasts(dtype, lo=0, hi=1):
            yield Case(a, b)


@spec("Div", "FloorDiv", "FloorMod", "TruncateDiv")
def division(g, op):
    for dtype, a, b in pairs(g, INTS + FLOATS + (COMPLEX if op == "Div" else [])):
        if dtype in INTS:
            yield Case(a, b)
            b = nonzero(b)
        elif op != "Div":  # TensorFlow flushes small quotients to zero before the next step.
            a, b = (g.values(dtype, x.shape, lo=-9, hi=9, special=False) for x in (a, b))
        yield Case(a, b, ulps=4 if dtype in COMPLEX else 0)
    for dtype in FLOATS:
        values = np.array([0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan], dtype_of(dtype))
        yield Case(values.reshape(-1, 1), values)
    for dtype in SIGNED:
        low = np.iinfo(dtype).min
        yield Case(np.array([low, low, 7, -7, 7, -7], dtype), np.array([-1, 1, 2, 2, -2, -2], dtype))


@spec("Mod", "TruncateMod")
def remainder(g, op):
    for dtype, a, b in pairs(g, ["int32", "int64", "float32", "float64"]):
        yield Case(a, b)
        yield Case(a, nonzero(b))


@spec("SquaredDifference")
def squared_difference(g, op):
    for dtype, a, b in pairs(g, FLOATS_COMPLEX + ["int32", "int64"]):
        yield Case(a, b, ulps=4 if dtype in COMPLEX else 0)


@spec("Pow", ulps=4)
def power(g, op):
    for dtype, a, b in pairs(g, FLOATS):
        yield Case(a, b)
        yield Case(np.abs(a), b)
        yield Case(a, np.array(2, a.dtype))
        yield Case(a, np.array([3], a.dtype))
    for dtype, a, b in pairs(g, COMPLEX, lo=0.5, hi=2):
        yield Case(a, b, rtol=1e-5 if dtype == "complex64" else 1e-12)
    for dtype, a, b in pairs(g, SIGNED, lo=0, hi=9):
        yield Case(a, b, ulps=0)
        yield Case(a, b - np.array(1, b.dtype), ulps=0)


@spec("Atan2", "Xlogy", "Xlog1py", ulps=4)
def two_floats(g, op):
    for dtype, a, b in pairs(g, FLOATS):
        yield Case(a, b, atol={"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 1e-7))
    if op == "Xlogy":  # TensorFlow treats subnormal numbers as 0.
        yield Case(np.float64(2.5), np.full(8, 1e-310))
        yield Case(np.float32(-2.5), np.full(8, 1e-40, "float32"))
    if op != "Atan2":
        for dtype, a, b in pairs(g, COMPLEX):
            yield Case(a, b, rtol=1e-5 if dtype == "complex64" else 1e-12)


@spec("NextAfter")
def next_after(g, op):
    for _, a, b in pairs(g, WIDE_FLOATS):
        yield Case(nonzero(a), b)


@spec("Complex")
def complex_(g, op):
    for dtype, a, b in pairs(g, WIDE_FLOATS):
        yield Case(a, b, Tout="complex64" if dtype == "float32" else "complex128")


@spec("ApproximateEqual")
def approximate_equal(g, op):
    for dtype in WIDE_FLOATS:
        for a in g.tensors(dtype):
            yield Case(a, a + g.values(dtype, a.shape, lo=-2e-5, hi=2e-5, special=False))
            yield Case(a, a + g.values(dtype, a.shape, lo=-2, hi=2, special=False), tolerance=1.0)
        for tolerance in (0.0, -0.0, 0.5, -1.0, np.inf, np.nan):
            yield Case(np.array([1, 1, 1], dtype), np.array([1, 1.5, 2], dtype), tolerance=tolerance)
    yield Case(g.values("float32", (2, 3)), g.values("float32", (3,)))
    yield Case(g.values("float32", (1,)), g.values("float32", ()))


@spec("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(g, op):
    for _, a, b in pairs(g, INTS):
        yield Case(a, b)


@spec("LeftShift", "RightShift")
def shifts(g, op):
    for dtype, a, b in pairs(g, INTS):
        yield Case(a, b)
        if dtype in SIGNED:
            b = np.clip(b, -3, 70)
        yield Case(a, np.abs(b) % 9)


@spec("LogicalAnd", "LogicalOr")
def logic(g, op):
    for _, a, b in pairs(g, ["bool"]):
        yield Case(a, b)


# ---- one input ----


@spec("LogicalNot")
def logical_not(g, op):
    for x in g.tensors("bool"):
        yield Case(x)


@spec("Invert", "PopulationCount")
def one_int(g, op):
    for dtype in INTS:
        for x in g.tensors(dtype):
            yield Case(x)


EXACT = {
    "Abs": SIGNED + FLOATS,
    "Neg": SIGNED + FLOATS_COMPLEX,
    "Floor": FLOATS,
    "Ceil": FLOATS,
    "Rint": WIDE_FLOATS,
    "Round": FLOATS,  # For integers, TensorFlow's Round returns zero. TensorFlow's Python API never rounds integers with it.
    "IsNan": FLOATS,
    "IsInf": FLOATS,
    "IsFinite": FLOATS,
    "Relu": REALS,
    "Relu6": REALS,
    "Conj": COMPLEX,
}


@spec(*EXACT, signs=False)  # In Relu, TensorFlow's choice between 0 and -0 depends on the element's position.
def one_exact(g, op):
    for dtype in EXACT[op]:
        for x in g.tensors(dtype):
            yield Case(x)
        if dtype in FLOATS:
            yield Case(g.values(dtype, (50,), lo=-3, hi=3))
            yield Case(np.array([0.5, 1.5, 2.5, -0.5, -1.5, -0.0, 0.0, -0.2], x.dtype))


@spec("Sign", "Square", "Reciprocal", "Inv", "Sqrt", "Rsqrt")
def one_nearly_exact(g, op):
    types = FLOATS_COMPLEX + (SIGNED if op == "Sign" else INTS if op == "Square" else [])
    for dtype in types:
        loose = dtype in COMPLEX or op == "Rsqrt" or (op in ("Reciprocal", "Inv") and dtype in ("float16", "float32"))
        for x in g.tensors(dtype):
            yield Case(x, ulps=4 if loose else 0)


@spec("Real", "Imag", "Angle", "ComplexAbs", ulps=2)
def parts(g, op):
    for dtype, out in (("complex64", "float32"), ("complex128", "float64")):
        for x in g.tensors(dtype):
            yield Case(x, Tout=out)


# The range from which inputs of each function are drawn. Inputs of additional cases may lie outside the function's
# domain, where the result is NaN.
DOMAIN = {
    "Exp": (-80, 88), "Expm1": (-80, 88), "Log": (0, 100), "Log1p": (-1, 100), "Sin": (-10, 10), "Cos": (-10, 10),
    "Tan": (-10, 10), "Asin": (-1, 1), "Acos": (-1, 1), "Atan": (-10, 10), "Sinh": (-20, 20), "Cosh": (-20, 20),
    "Asinh": (-20, 20), "Acosh": (1, 20), "Atanh": (-1, 1), "Sigmoid": (-20, 20), "Tanh": (-10, 10),
}


@spec(*DOMAIN, ulps=6)
def one_float(g, op):
    lo, hi = DOMAIN[op]
    for dtype in FLOATS:
        near = {"float32": 2e-7, "float64": 4e-16, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
        limit = 10 if dtype in HALFS and op in ("Exp", "Expm1", "Sinh", "Cosh") else hi
        for x in g.tensors(dtype):
            yield Case(x, atol=near)
        for x in g.tensors(dtype, lo=lo, hi=limit) + [g.values(dtype, (100,), lo=max(lo, -0.9), hi=max(lo, 0) + 0.9)]:
            yield Case(x, atol=near)
    if op == "Log":  # TensorFlow treats subnormal numbers as 0.
        yield Case(np.full(8, 1e-310))
    for dtype in COMPLEX:
        for x in g.tensors(dtype, lo=-2, hi=2):
            yield Case(x, rtol=3e-6 if dtype == "complex64" else 1e-13)


@spec("Erf", "Erfc", ulps=6)
def error_function(g, op):
    for dtype in FLOATS:
        near = {"float32": 3e-7, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
        # TensorFlow's float64 erf is NaN for the largest numbers.
        wild = [] if dtype == "float64" else g.tensors(dtype)
        for x in wild + g.tensors(dtype, lo=-4, hi=4) + g.tensors(dtype, lo=-0.5, hi=0.5):
            yield Case(x, atol=near)


@spec("Erfinv", "Ndtri", ulps=8)
def quantiles(g, op):
    for dtype in WIDE_FLOATS:
        for x in g.tensors(dtype) + g.tensors(dtype, lo=-1, hi=1) + g.tensors(dtype, lo=0, hi=1):
            yield Case(x, atol=5e-6 if dtype == "float32" else 1e-13)


@spec("Lgamma", "Digamma", ulps=8)
def gamma(g, op):
    for dtype in WIDE_FLOATS + ["float16"]:
        near = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2}[dtype]
        for x in g.tensors(dtype, lo=0.01, hi=50) + g.tensors(dtype, lo=-5, hi=5, special=False):
            yield Case(x, atol=near)
        yield Case(np.array([0, -1, -2, np.inf, np.nan], x.dtype))
    yield Case(np.array([-1e-300, -1e-18, -1 - 2**-52, -2 + 2**-52, -0.5, -1.5]), atol=1e-12)


@spec("Elu", "Selu", "Softplus", "Softsign", ulps=4)
def activations(g, op):
    for dtype in FLOATS:
        near = {"float32": 2e-7, "float64": 4e-16, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
        for x in g.tensors(dtype) + g.tensors(dtype, lo=-30, hi=30):
            yield Case(x, atol=near)


@spec("LeakyRelu")
def leaky_relu(g, op):
    for dtype in FLOATS:
        for x in g.tensors(dtype):
            yield Case(x)
            yield Case(x, alpha=0.01)
            yield Case(x, alpha=1.5)
        x = np.array([0.0, -0.0, 1, -1, np.nan], np.float32).astype(dtype_of(dtype))
        for alpha in (np.inf, -np.inf, -2.0, np.nan):
            yield Case(x, alpha=alpha)


# ---- casts, selection, running sums, checks ----

CASTS = NUMBERS + ["bool"]
OUTSIDE = np.array([np.nan, np.inf, -np.inf, 2.0**31, 2.0**32, 3e9, 5e9, -5e9, 1e19, 2e19, -1e19, 3e38, -3e38, -0.9, -1, -2.5,
                    -128.9, -129, 127.9, 128, 255.9, 256, 300.7, -300.7, 32767, 32768, -32768, -32769, 33000, 65535, 65536,
                    70000, -70000, 1e6, -1e6, 2147483520, -2147483648])
OUTSIDE_LENGTHS = (1, 7, 8, 15, 16, 31, 32, 50, 127, 200, 1001)


@spec("Cast")
def cast(g, op):
    for source in CASTS:
        for target in CASTS:
            for shape in [(), (0,), (70,), (2, 3)]:
                outside = source in FLOATS + COMPLEX and target in INTS
                lo, hi = (0 if target in UNSIGNED else -100, 100) if outside else (None, None)
                x = g.values(source, shape, lo=lo, hi=hi, special=not outside)
                yield Case(x, DstT=target)
    for source, target in [("float32", "float16"), ("float32", "bfloat16"), ("float64", "float32"), ("float64", "float16"),
                           ("float64", "bfloat16")]:
        yield Case(g.values(source, (200,), lo=-70000, hi=70000), DstT=target, Truncate=True)
        yield Case(g.values(source, (200,), lo=-2, hi=2), DstT=target, Truncate=True)
    for target in ("int8", "int16", "int32", "int64", "uint8", "uint16"):
        x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20, -1e20, 300.7, -300.7, 70000, 2147483648, -2147483648])
        yield Case(x, DstT=target)
        yield Case(x.astype("float32"), DstT=target)
    # Outside the target type's range, the elements of whole vectors and those after them are converted by other rules.
    for source, n in itertools.product(FLOATS + COMPLEX, OUTSIDE_LENGTHS):
        with np.errstate(over="ignore"):
            x = np.resize(OUTSIDE, n).astype(dtype_of(source))
        for target in INTS:
            yield Case(x, DstT=target)
    yield Case(g.values("string", (3,)), DstT="string")
    yield Case(g.values("string", (3,)), DstT="int32")


@spec("Bitcast")
def bitcast(g, op):
    for source in REALS:
        for target in REALS:
            for shape in [(), (4,), (3, 2), (0, 2), (2, 8)]:
                yield Case(g.values(source, shape, special=False), type=target)


@spec("ClipByValue", signs=False)
def clip(g, op):
    for dtype in SIGNED + ["uint8", "uint16"] + FLOATS:
        x = g.values(dtype, (5, 7))
        for low, high in [((), ()), ((5, 7), (5, 7)), ((), (5, 7)), ((5, 7), ()), ((7,), ()), ((1,), ())]:
            yield Case(x, g.values(dtype, low, lo=0, hi=3), g.values(dtype, high, lo=2, hi=9))


@spec("AddN", ulps=1)
def add_n(g, op):
    for dtype in NUMBERS:
        for n in (1, 2, 3, 9, 17):
            for shape in [(), (0,), (33,), (2, 3)]:
                if dtype in HALFS:
                    yield Case([g.values(dtype, shape, special=False) for _ in range(n)], atol=0.5)
                else:
                    yield Case([g.values(dtype, shape, special=dtype not in FLOATS) for _ in range(n)], rtol=1e-6)
    yield Case([g.values("float32", (2,)), g.values("float32", (3,))])


@spec("AccumulateNV2", ulps=1)
def accumulate_n(g, op):
    for dtype in WIDE_FLOATS + ["int32", "int64"]:
        for shape in [(), (0,), (33,), (2, 3)]:
            yield Case([g.values(dtype, shape, lo=0, special=False) for _ in range(3)], shape=list(shape), rtol=1e-6)


@spec("Select")
def select(g, op):
    for dtype in PLAIN + ["string"]:
        for c, t, e in [((), (), ()), ((3,), (3,), (3,)), ((2, 3), (2, 3), (2, 3)), ((2,), (2, 3), (2, 3)), ((), (2, 3), (2, 3)),
                        ((0,), (0, 3), (0, 3)), ((3,), (2, 3), (2, 3)), ((2, 3), (2, 3), (3,)), ((2, 1), (2, 3), (2, 3)), ((2,), (), ())]:
            yield Case(g.values("bool", c), g.values(dtype, t), g.values(dtype, e))


@spec("SelectV2")
def select_v2(g, op):
    for dtype in PLAIN + ["string"]:
        for c, t, e in [((), (), ()), ((3,), (3,), (3,)), ((2, 3), (2, 3), (2, 3)), ((2, 1), (2, 3), (3,)), ((), (2, 3), ()),
                        ((0,), (), (1,)), ((3,), (2, 3), (2, 3)), ((4, 1, 3), (2, 1), (3,)), ((70,), (), (70,)), ((2,), (3,), ()),
                        ((5, 1), (5, 33), ()), ((33,), (5, 1), (5, 33))]:
            yield Case(g.values("bool", c), g.values(dtype, t), g.values(dtype, e))


@spec("Cumsum", "Cumprod", "CumulativeLogsumexp")
def scans(g, op):
    for dtype in FLOATS if op == "CumulativeLogsumexp" else NUMBERS:
        near = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 3e-6, "complex64": 3e-6}.get(dtype, 1e-13)
        for shape in [(1,), (7,), (0,), (3, 4), (2, 3, 4), (2, 0, 3), (3, 40)]:
            for axis in {0, -1, len(shape) // 2}:
                for exclusive in (False, True):
                    for reverse in (False, True):
                        x = g.values(dtype, shape, lo=-3, hi=3, special=False) if dtype not in INTS else g.values(dtype, shape)
                        yield Case(x, np.int32(axis), exclusive=exclusive, reverse=reverse, rtol=near if dtype not in INTS else 0)
    if op == "CumulativeLogsumexp":
        for dtype in FLOATS:
            for x in ([1, np.inf, np.inf, 2], [np.inf, 1, -np.inf, 2], [-np.inf, -np.inf, 1, np.inf], [np.inf, -np.inf, np.inf],
                      [np.nan, 2, 3], [1, 2, np.nan, 3], [-np.inf, np.nan, 1, np.inf]):
                for exclusive in (False, True):
                    yield Case(np.array(x).astype(dtype_of(dtype)), np.int32(0), exclusive=exclusive, rtol=1e-2)
    x = g.values("float32", (2, 3))
    for axis in (2, -3, -1):
        yield Case(x, np.int64(axis), rtol=1e-6)
    yield Case(np.float32(1), np.int32(0))
    yield Case(x, np.int32([0, 1]))


@spec("CheckNumerics", "CheckNumericsV2")
def check_numerics(g, op):
    for dtype in FLOATS:
        for values in [[], [1, 2], [np.nan], [1, np.inf], [-np.inf, 1], [np.inf, -np.inf], [np.nan, -np.inf], [np.nan, np.inf, -np.inf]]:
            yield Case(np.array(values, dtype_of(dtype)), message="it is")


@spec("Bucketize")
def bucketize(g, op):
    for dtype in ["int32", "int64", "float32", "float64"]:
        for x in g.tensors(dtype):
            for boundaries in [[], [0.0], [-5.0, 0.0, 2.5, 2.5, 8.0]]:
                yield Case(x, boundaries=boundaries)
