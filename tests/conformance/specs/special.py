"""Test cases for special functions: Bessel functions, integrals, incomplete gamma and beta functions, zeta."""

from spec import *

NARROW = WIDE_FLOATS + ["float16"]
# TensorFlow's float32 polynomials are accurate to about 6 digits.
NEAR = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3}
SHAPES = [(), (0,), (7,), (3, 5), (2, 0, 3), (2, 1, 2, 1, 2, 1, 2, 1)]


def points(dtype):
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, 2.5, -2.5, 8, 30, -30, 1000, -1000], dtype_of(dtype))
    return x


def ranges(g, dtype, limits):
    for lo, hi in limits:
        for s in SHAPES:
            yield Case(g.values(dtype, s, lo=lo, hi=hi, special=False), rtol=NEAR[dtype], atol=NEAR[dtype] / 100)
    for lo, hi in limits:
        for n in (40, 300):  # one value per case, because the tolerance is relative to the largest value
            for x in np.array_split(np.sort(g.values(dtype, (n,), lo=lo, hi=hi, special=False)), 12):
                yield Case(x, rtol=NEAR[dtype], atol=NEAR[dtype] / 100)


@spec("BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e")
def modified(g, op):
    for dtype in NARROW:
        yield from ranges(g, dtype, [(-3, 3), (0, 9), (7, 60)])
        yield from (Case(np.array([x]), rtol=NEAR[dtype]) for x in points(dtype))


@spec("BesselJ0", "BesselJ1", "BesselY0", "BesselY1")
def oscillating(g, op):
    for dtype in NARROW:
        yield from ranges(g, dtype, [(-3, 3), (0.1, 9), (7, 60)])
        yield from (Case(np.array([x]), rtol=NEAR[dtype], atol=NEAR[dtype]) for x in points(dtype))


@spec("Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence")
def integrals(g, op):
    for dtype in WIDE_FLOATS:
        yield from ranges(g, dtype, [(-0.3, 0.3), (-3, 3), (0, 9), (7, 60), (0.2, 0.6), (1.5, 2.5)])
        yield from (Case(np.array([x]), rtol=NEAR[dtype], atol=NEAR[dtype]) for x in points(dtype))
        for x in (36973, 36974, 36975, 1e9, 9e8, -1e9, -9e8, 1e20, -1e20, 85, 89, 700, 710, 1e30):
            yield Case(np.array([x], dtype), rtol=NEAR[dtype], atol=0 if op == "Dawsn" else 5 * NEAR[dtype])


EDGES = [0, -0.0, 1, 2, 3, -1, -2, -0.5, 0.5, 2.5, np.inf, -np.inf, np.nan]


def edges(dtype):
    x = np.array(EDGES, dtype)
    return [Case(np.full_like(x, a), x, rtol=NEAR[dtype], signs=False) for a in x]


@spec("Igamma", "Igammac", "IgammaGradA", "RandomGammaGrad")
def incomplete_gamma(g, op):
    for dtype in WIDE_FLOATS:
        slope = 20 if op in ("IgammaGradA", "RandomGammaGrad") else 1
        how = dict(rtol=slope * NEAR[dtype] * 10, atol=slope * NEAR[dtype], signs=False)
        yield from edges(dtype)
        for lo, hi in [(0.01, 1), (0.5, 4), (2, 30), (20, 90)]:
            for a, b in g.broadcasts(dtype, lo=lo, hi=hi, special=False):
                yield Case(a, b, **how)
            for _ in range(4):
                a = g.values(dtype, (20,), lo=lo, hi=hi, special=False)
                yield Case(a, a * g.values(dtype, (20,), lo=0.6, hi=1.5, special=False), **how)
        if dtype == "float64":
            a = g.values(dtype, (30,), lo=150, hi=1000, special=False)
            for _ in range(5):
                yield Case(a, a + np.sqrt(a) * g.values(dtype, (30,), lo=-5, hi=5, special=False), rtol=1e-9, atol=1e-9, signs=False)
        yield Case(np.ones((2, 3), dtype), np.ones(2, dtype))


@spec("Zeta", "Polygamma")
def zeta(g, op):
    for dtype in WIDE_FLOATS:
        how = dict(rtol=10 * NEAR[dtype])
        yield from edges(dtype)
        for lo, hi in [(1.05, 3), (2, 9), (4, 20)]:
            for a, b in g.broadcasts(dtype, lo=lo, hi=hi, special=False):
                yield Case(np.floor(a) if op == "Polygamma" else a, b, **how)
        for n in range(1 if op == "Polygamma" else 2, 9):
            for lo, hi in [(0.1, 1), (1, 9), (9, 90), (-6.2 if dtype == "float32" else -99.2, -0.1)]:
                x = g.values(dtype, (6,), lo=lo, hi=hi, special=False)
                # Near a pole, the result depends on the last bit. TensorFlow's float32 kernel is wrong for x < -7.
                if lo < 0:
                    x = np.floor(x) + np.array(0.3, dtype)
                yield Case(np.full_like(x, n), x, **how)
        yield Case(np.ones((2, 3), dtype), np.ones(2, dtype))


@spec("Betainc")
def incomplete_beta(g, op):
    for dtype in WIDE_FLOATS:
        # TensorFlow's float32 kernel loses three digits.
        how = dict(rtol=1e-4 if dtype == "float32" else 1e-10)
        x = np.array([0, 0.3, 1, -0.1, 1.1, np.nan, np.inf, -0.0], dtype)
        for a in (0, 1, 2.5, -1, np.inf, np.nan):
            for b in (0, 1, 2.5, -1, np.inf, np.nan):
                yield Case(np.array(a, dtype), np.array(b, dtype), x, signs=False, **how)
        for lo, hi in [(0.05, 1), (0.5, 5), (2, 40)]:
            for s in SHAPES:
                a, b = (g.values(dtype, s, lo=lo, hi=hi, special=False) for _ in range(2))
                yield Case(a, b, g.values(dtype, s, lo=0.01, hi=0.99, special=False), **how)
                yield Case(a, np.array(1.5, dtype), np.array(0.4, dtype), **how)
                yield Case(np.array(1.5, dtype), b, np.array(0.6, dtype), **how)
                yield Case(np.array(1.5, dtype), np.array(2.5, dtype), g.values(dtype, s, lo=0.01, hi=0.99, special=False), **how)
        if dtype == "float64":
            a, b = (g.values(dtype, (40,), lo=100, hi=900, special=False) for _ in range(2))
            for k in range(-4, 5):
                mean = a / (a + b)
                yield Case(a, b, mean + k * np.sqrt(mean * (1 - mean) / (a + b)), rtol=1e-8)
        for s in [((2,), (1,), (2,)), ((2,), (), (3,)), ((), (2,), (3,)), ((2, 1), (2, 2), ()), ((1,), (), ())]:
            yield Case(*[np.full(k, 0.5, dtype) for k in s], **how)
