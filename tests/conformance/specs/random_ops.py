"""Test cases for random ops. With the same seeds, their numbers must equal TensorFlow's, bit for bit unless a function of
the C library is involved."""

from spec import *

FLOAT_TYPES = ["float32", "float64", "float16", "bfloat16"]
SHAPES = [[1], [9], [3, 5], [2, 0], [], [1001], [2, 1, 3, 1, 2, 1, 1, 2], [0]]
BAD_SHAPES = [[-1], [2, -3], 3, [[2]]]
SEEDS = [(1, 2), (0, 0), (-1, 2), (2**31 - 1, -2**31), (123456789, 987)]


def types_of(op):
    if "FullInt" in op or op == "NonDeterministicInts":
        return ["int32", "int64", "uint32", "uint64"]
    return ["int32", "int64"] if "Int" in op else FLOAT_TYPES


def bounds_of(g, op, t):
    """Yields the bounds of integers, or nothing for other distributions."""
    if not ("UniformInt" in op):
        yield ()
        return
    d = np.dtype(t)
    info = np.iinfo(d)
    for lo, hi in ((0, 10), (int(info.min), int(info.max)), (3, 4), (int(info.max) - 5, int(info.max)), (4, 4), (7, 2)):
        yield np.array(lo, d), np.array(hi, d)


def arguments(g, op):
    """Yields (shape, dtype, bounds)."""
    for t in types_of(op):
        for bounds in bounds_of(g, op, t):
            for shape in SHAPES:
                for index in ("int32", "int64") if shape == [9] else ("int32",):
                    yield np.array(shape, index), t, bounds
        for shape in BAD_SHAPES:
            yield np.int32(shape), t, next(iter(bounds_of(g, op, t)))
        if "UniformInt" in op:
            for bad in ((np.array([1], t), np.array(2, t)), (np.array(1, t), np.array([[2]], t))):
                yield np.int32([2]), t, bad


def attrs_of(op, t):
    return {} if "UniformInt" in op else {"dtype": t}


@spec("RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", ulps=1)
def draws(g, op):
    """Runs each op twice in one session, because the second run must return new numbers."""

    def case(shape, t, bounds, **seeds):
        def build(tf, s, *fed):
            how = dict(zip(("minval", "maxval"), fed)) if fed else {"dtype": t}
            drawn = getattr(tf.raw_ops, op)(shape=s, **how, **seeds)
            return [[drawn], [drawn]]

        return Graph(build, shape, *bounds, name=f"{op} {shape} {t} {bounds} {seeds}")

    for shape, t, bounds in arguments(g, op):
        yield case(shape, t, bounds, seed=3, seed2=9)
        if shape.ndim == 1 and shape.size == 2 and shape.min() > 0:
            for seed, seed2 in ((0, 1), (-5, 0), (2**40, -2**50), (87654321, 42)):
                yield case(shape, t, bounds, seed=seed, seed2=seed2)


@spec("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt", "StatelessRandomUniformFullInt", ulps=1)
def stateless(g, op):
    for shape, t, bounds in arguments(g, op):
        for seed in SEEDS:
            yield Case(shape, np.int64(seed), *bounds, texts=True, **attrs_of(op, t))
        yield Case(shape, np.int32([5, -7]), *bounds, texts=True, **attrs_of(op, t))
    for seed in ([1], [1, 2, 3], 1, [[1, 2]], []):
        t = types_of(op)[0]
        yield Case(np.int32([2]), np.int64(seed), *next(iter(bounds_of(g, op, t))), texts=True, **attrs_of(op, t))
    if "Full" in op:
        yield Case(np.int32([2]), np.uint32([1, 2]), dtype="int32", texts=True)


@spec("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2", "StatelessRandomUniformIntV2",
      "StatelessRandomUniformFullIntV2", ulps=1)
def keyed(g, op):
    for shape, t, bounds in arguments(g, op):
        for key, counter in ((1, (2, 3)), (2**64 - 1, (2**64 - 1, 2**64 - 2)), (2**40 + 17, (0, 2**33))):
            yield Case(shape, np.uint64([key]), np.uint64(counter), np.int32(1), *bounds, texts=True, **attrs_of(op, t))
    t = types_of(op)[0]
    bounds = next(iter(bounds_of(g, op, t)))
    for key, counter, alg in (([1], [1, 2], 3), ([1], [1, 2], 0), ([1], [1, 2], 2), ([1], [1, 2], 4), ([1], [1, 2], -1), ([1], [1, 2, 3], 1), (1, [1, 2], 1),
                              ([1, 2], [1, 2], 1), ([1], 1, 1), ([1], [[1, 2]], 1), ([1], [1, 2], [1]), ([], [1, 2], 1), ([1], [1, 2, 3, 4], 4)):
        yield Case(np.int32([3]), np.uint64(key), np.uint64(counter), np.int32(alg), *bounds, texts=True, **attrs_of(op, t))


@spec("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def key_counter(g, op):
    for t in ("int32", "int64"):
        info = np.iinfo(t)
        for _ in range(100):
            yield Case(g.values(t, (2,)))
        for bad in ([1], [1, 2, 3], 1, [[1, 2]], []):
            yield Case(np.array(bad, t), texts=True)


@spec("StatelessRandomGetAlg")
def get_alg(g, op):
    yield Case()


def with_variable(tf, state, dtype, use):
    """Returns steps that assign the state, use the variable twice, and read it."""
    v = tf.raw_ops.VarHandleOp(dtype=dtype, shape=tf.TensorShape(None), shared_name=f"state{np.size(state)}{dtype}", container="")
    assign = tf.raw_ops.AssignVariableOp(resource=v, value=tf.constant(state, dtype))
    used = use(v)
    return [[assign], [used], [used], [tf.raw_ops.ReadVariableOp(resource=v, dtype=dtype)]]


STATES = [([1, 2, 3], "int64"), ([-1, -1, 77], "int64"), ([-100, 5, -3], "int64"), ([1, 2, 3, 4, 5], "int64")]
BAD_STATES = [([1, 2], "int64"), ([[1, 2, 3]], "int64"), (4, "int64"), ([1.0, 2.0, 3.0], "float32"), ([1, 2, 3], "int32")]


OTHER_SHAPES = ("int16", "uint16", "uint64", "float32", "bool")  # types that the ops allow for a shape and their kernels refuse


@spec("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniformFullInt", "StatefulUniformInt", ulps=1)
def stateful(g, op):
    def case(shape, t, bounds, state, dtype, alg=1):
        def build(tf, s, a, *fed):
            how = dict(zip(("minval", "maxval"), fed)) if fed else {"dtype": t}
            return with_variable(tf, state, dtype, lambda v: getattr(tf.raw_ops, op)(resource=v, algorithm=a, shape=s, **how))

        return Graph(build, shape, np.int64(alg), *bounds, name=f"{op} {shape} {t} {bounds} {state} {alg}")

    for shape, t, bounds in arguments(g, op):
        for state, dtype in STATES if shape.size == 1 else STATES[:1]:
            yield case(shape, t, bounds, state, dtype)
    t = types_of(op)[0]
    for state, dtype in BAD_STATES:
        yield case(np.int32([3]), t, next(iter(bounds_of(g, op, t))), state, dtype)
    for alg in (0, 2, 3, 4, -1, [1]):
        yield case(np.int32([3]), t, next(iter(bounds_of(g, op, t))), [1, 2, 3], "int64", alg)


@spec("RngReadAndSkip", "RngSkip")
def skips(g, op):
    def case(state, dtype, alg, delta):
        def build(tf, a, d):
            if op == "RngSkip":
                return with_variable(tf, state, dtype, lambda v: tf.raw_ops.RngSkip(resource=v, algorithm=a, delta=d))
            return with_variable(tf, state, dtype, lambda v: tf.raw_ops.RngReadAndSkip(resource=v, alg=a, delta=d))

        kinds = ("int64", "int64") if op == "RngSkip" else ("int32", "uint64")
        return Graph(build, *(np.array(x, kind) for x, kind in zip((alg, delta), kinds)), name=f"{op} {state} {alg} {delta}")

    deltas = [0, 1, 5, 2**31, 2**55, 2**56, 2**62] + ([-1, -2**40] if op == "RngSkip" else [2**64 - 1])
    # TensorFlow writes a state of more than three elements beyond the output of RngReadAndSkip.
    for state, dtype in STATES[:3 if op == "RngReadAndSkip" else 4] + BAD_STATES:
        for alg in (1, 3):
            for delta in deltas:
                yield case(state, dtype, alg, delta)
    for alg in (0, 2, 4, -1, [1]):
        yield case([1, 2, 3], "int64", alg, 1)
    yield case([1, 2, 3], "int64", 1, [1])


def fresh(case, theirs, ours):
    """Compares only types and shapes, because the numbers of this op differ from run to run."""
    for a, b in zip(theirs, ours):
        if a.shape != b.shape or a.dtype != b.dtype or (b.size > 4 and len(np.unique(b)) < 2):
            return f"{b.dtype}{b.shape} instead of {a.dtype}{a.shape}, or equal numbers"
    return None


@spec("NonDeterministicInts")
def non_deterministic(g, op):
    for shape, t, _ in arguments(g, op):
        yield Case(shape, dtype=t, check=fresh if shape.ndim == 1 and np.all(shape >= 0) else None)
    for other in OTHER_SHAPES:
        yield Case(np.ones(1, other), dtype="int32", texts=True)


@spec("RandomShuffle", "StatelessShuffle")
def shuffles(g, op):
    shapes = [(), (1,), (0,), (2,), (7,), (100,), (10, 3), (5, 0), (1, 9), (4, 2, 1, 1, 2, 1, 1, 3), (1000,)]
    for t in PLAIN + ["string"]:
        for shape in shapes if t in ("float32", "string", "int64") else shapes[4:7]:
            x = g.values(t, shape)
            if op == "StatelessShuffle":
                for key in (0, 2**63 + 5):
                    yield Case(x, np.uint64([key]), np.uint64([4, 2**40]), np.int32(1))
                continue
            for seeds in ((3, 9), (-5, 2**33)):

                def build(tf, p):
                    y = tf.raw_ops.RandomShuffle(value=p, seed=seeds[0], seed2=seeds[1])
                    return [[y], [y], [y]]

                yield Graph(build, x, name=f"{t} {shape} {seeds}")
    if op == "StatelessShuffle":
        for _ in range(60):
            yield Case(g.values("int32", (int(g.rng.integers(2, 50)),)), g.values("uint64", (1,)), g.values("uint64", (2,)), np.int32(1))
        for key, counter, alg in (([1], [1, 2], 0), ([1], [1, 2], 2), (1, [1, 2], 1), ([1], 1, 1), ([1], [1, 2], [1]), ([1], [1, 2], 3)):
            for x in (np.int32([1, 2, 3]), np.int32(3)):
                yield Case(x, np.uint64(key), np.uint64(counter), np.int32(alg), texts=True)


def drawn_twice(op, first, second, **how):
    def build(tf, *fed):
        names = {"Multinomial": ("logits", "num_samples"), "RandomGamma": ("shape", "alpha"), "RandomPoissonV2": ("shape", "rate")}[op]
        y = getattr(tf.raw_ops, op)(**dict(zip(names, fed)), **how)
        return [[y], [y]]

    return Graph(build, first, second, name=f"{op} {first.dtype}{first.shape} {second.dtype}{second.shape} {how}")


@spec("Multinomial", "StatelessMultinomial")
def multinomial(g, op):
    def case(logits, n, t="int64"):
        if op == "Multinomial":
            return drawn_twice(op, logits, n, seed=3, seed2=9, output_dtype=t)
        return Case(logits, n, np.int64([int(g.rng.integers(0, 1000)), 7]), output_dtype=t, texts=True)

    for t in FLOATS:
        for shape in ((1, 1), (1, 5), (3, 4), (2, 100)):
            x = g.values(t, shape, -3, 3, special=False)
            for n in (0, 1, 2, 3, 4, 7, 10, 33):
                yield case(x, np.int32(n), "int32" if n == 3 else "int64")
    for _ in range(100):
        yield case(g.values("float32", (2, 6)), np.int32(20))
    for logits in (np.zeros((2, 0), "float32"), np.zeros((0, 3), "float32"), np.float32([1, 2]), np.float32([[[1]]]), np.float32([[np.nan] * 3]),
                   np.float32([[np.inf, -np.inf, 1]])):
        yield case(logits, np.int32(4))
    for n in (-1, [2], []):
        yield case(np.float32([[1, 2]]), np.int32(n))
    if op[0] == "S":
        for seed in ([1], 1, [1, 2, 3]):
            yield Case(np.float32([[1, 2]]), np.int32(2), np.int64(seed), texts=True)


GAMMA = [0.001, 0.3, 0.99, 1.0, 1.5, 3.0, 50.0, 1e4, 0.0, -0.5, -2.0, np.nan, np.inf]


@spec("RandomGamma", "StatelessRandomGammaV2", "StatelessRandomGammaV3", ulps=1)
def gamma(g, op):
    def case(shape, alpha):
        if op == "RandomGamma":
            return drawn_twice(op, np.int32(shape), alpha, seed=int(g.rng.integers(1, 1000)), seed2=9)
        full = np.array([*shape, *alpha.shape], "int32")
        if op.endswith("V2"):
            return Case(full, np.int64([int(g.rng.integers(0, 1000)), 7]), alpha)
        return Case(full, g.values("uint64", (1,)), g.values("uint64", (2,)), np.int32(1), alpha)

    for t in ("float32", "float64", "float16"):
        for alpha in GAMMA:
            for shape in ((), (7,), (0,), (2, 3)):
                yield case(shape, np.array(alpha, t))
        for of in ((3,), (2, 2), (0,), (1, 3, 1)):
            for shape in ((), (5,), (2, 2)):
                yield case(shape, np.array(g.rng.uniform(0.1, 5, of), t))
    for bad in ([-1], 3, [[2]]):
        if op == "RandomGamma":
            yield drawn_twice(op, np.int32(bad), np.float32(1.5), seed=1, seed2=2)
        elif op.endswith("V2"):
            yield Case(np.int32(bad), np.int64([1, 2]), np.float32(1.5))
    if op.endswith("V2"):
        for shape, of in (((3,), (2,)), ((2, 3), (2, 1)), ((), (1,)), ((3,), (1,))):
            yield Case(np.int32(shape), np.int64([1, 2]), np.ones(of, "float32"), texts=True)


@spec("RandomPoissonV2", "StatelessRandomPoisson")
def poisson(g, op):
    # TensorFlow's op does not end for a rate that is NaN or far beyond the range of the output's type.
    def case(shape, rate, t):
        if op == "RandomPoissonV2":
            return drawn_twice(op, np.int32(shape), rate, seed=int(g.rng.integers(1, 1000)), seed2=9, dtype=t)
        return Case(np.array([*shape, *rate.shape], "int32"), np.int64([int(g.rng.integers(0, 1000)), 7]), rate, dtype=t)

    for t in ("float32", "float64", "float16", "int32", "int64"):
        for of in ("float32", "float64", "float16", "int32", "int64"):
            for rate in (-1, 0, 0.5, 3, 9.99, 10, 25.5, 1000) + ((np.inf,) if of[0] == "f" else ()):
                for shape in ((), (9,), (2, 3)):
                    yield case(shape, np.array(rate, of), t)
            yield case((4,), np.array(g.rng.uniform(0, 40, (3, 2)), of), t)
            yield case((0,), np.array(g.rng.uniform(0, 40, (3, 2)), of), t)
            yield case((4,), np.zeros((0, 2), of), t)
    for rate in (1e6, 1e9):
        yield case((5,), np.array(rate), "int64")
    if op[0] == "S":
        for shape, of in (((3,), (2,)), ((2, 3), (2, 1)), ((), (1,))):
            yield Case(np.int32(shape), np.int64([1, 2]), np.ones(of, "float32"), dtype="int32", texts=True)


@spec("StatelessRandomBinomial")
def binomial(g, op):
    def case(shape, counts, probs, t, **how):
        return Case(np.int32(shape), np.int64([int(g.rng.integers(0, 1000)), 7]), counts, probs, dtype=t, **how)

    for t in ("float32", "float64", "float16", "int32", "int64"):
        for of in ("float64", "float32", "float16"):
            for count in (-1, 0, 1, 5, 100, 1000):
                for p in (-0.5, 0, 0.01, 0.3, 0.5, 0.7, 0.99, 1, 1.5):
                    yield case((6,), np.array(count, of), np.array(p, of), t)
            yield case((4, 2, 3), np.array(g.rng.integers(0, 60, (2, 1)), of), np.array(g.rng.uniform(0, 1, 3), of), t)
            yield case((0, 3), np.array([1, 2, 3], of), np.array(0.5, of), t)
    for shape, a, b in (((3,), (2,), ()), ((2, 3), (2, 1), (1,)), ((), (1,), ()), ((3,), (2,), (3,)), ((2, 3), (2, 1), (3,))):
        yield case(shape, np.ones(a), np.full(b, 0.5), "float32", texts=True)
    for count in (-1, 0, 5):
        yield case((3,), np.float64(count), np.float64(np.nan), "float32")


@spec("RandomIndexShuffle")
def index_shuffle(g, op):
    types = ["int32", "uint32", "int64", "uint64"]

    def case(index, seed, most, dtype="int64", seed_type="int64", **how):
        return Case(np.array(index, dtype), np.array(seed, seed_type), np.array(most, dtype), **how)

    for dtype in types:
        for seed_type in types:
            seed = g.values(seed_type, (3,))
            for most in (0, 1, 5, 40, 65535, 65536, 100000, 2**31 - 1):
                yield case(g.rng.integers(0, most, 6, endpoint=True), seed, most, dtype, seed_type)
    for rounds in (4, 6, 8, 10, 12, 16, 20, 36, 64, 70, 200):
        for bits in (8, 15, 16, 17, 18, 30, 31, 32, 33, 40, 47, 53, 54, 61, 62):
            yield case(g.rng.integers(0, 2**bits, 4), g.values("int64", (3,)), 2**bits - g.rng.integers(0, 2), rounds=rounds)
    yield case([3, 2**40, 2**63 - 1], [1, 2, 3], 2**63 - 1)
    yield case([3, 2**40, 2**64 - 1], [1, 2, 3], 2**64 - 1, "uint64")
    two = [[1, 2, 3], [4, 5, 6]]
    for index, seed, most in ((3, [1, 2, 3], 4), (3, two, 4), (3, [1, 2, 3], [4, 5]), (3, two, [4, 5]), ([3, 1], two, [4, 5]), ([3, 1], [1, 2, 3], [4, 5]),
                              ([3, 1], two, 4), (3, [[1, 2, 3]], 4), (3, [1, 2, 3], [4]), ([5], [1, 2, 3], 4), ([-1], [1, 2, 3], 4), ([0], [1, 2, 3], -4),
                              ([0], [1, 2], 4), ([0], [1, 2, 3, 4], 4), ([0, 1], two + [[7, 8, 9]], 4), ([[3, 2]], [1, 2, 3], 4), ([3, 2], [1, 2, 3], [4]),
                              ([3, 2], [[1, 2, 3]], 4), ([3, 2], 1, 4), ([3, 2], [[[1, 2, 3]]], 4), ([], [1, 2, 3], 4), ([3], [1, 2, 3], []), (3, [1, 2, 3], []),
                              ([3, 2, 1], [1, 2, 3], [4, 8]), ([3, 2], [1, 2, 3], [[4, 8]]), (3, np.zeros((0, 3)), 4), (3, two, [4, 5, 6]), (3, two + two, [4, 5])):
        yield case(index, seed, most, texts=True)


@spec("StatefulRandomBinomial")
def stateful_binomial(g, op):
    def case(shape, counts, probs, t, state=[1, 2, 3], dtype="int64", alg=1):
        # TensorFlow loses an update of a variable that shares its buffer with a constant, so the state is computed.
        def build(tf, s, a, c, p, one):
            raw = tf.raw_ops
            v = raw.VarHandleOp(dtype=dtype, shape=tf.TensorShape(None), shared_name=f"binomial{np.size(state)}{dtype}", container="")
            assign = raw.AssignVariableOp(resource=v, value=tf.constant(state, dtype) * tf.cast(one, dtype))
            used = raw.StatefulRandomBinomial(resource=v, algorithm=a, shape=s, counts=c, probs=p, dtype=t)
            return [[assign], [used], [used], [raw.ReadVariableOp(resource=v, dtype=dtype)]]

        return Graph(build, np.int32(shape), np.int64(alg), counts, probs, np.int32(1), name=f"{op} {shape} {counts} {probs} {t} {state} {alg}")

    for t in ("float32", "float64", "float16", "int32", "int64"):
        for of in ("float64", "float32", "float16"):
            for count in (-1, 0, 5, 100, 1000):
                for p in (0, 0.01, 0.5, 0.9, 1):
                    yield case((6,), np.array(count, of), np.array(p, of), t)
            yield case((4, 2, 3), np.array(g.rng.integers(0, 60, (2, 1)), of), np.array(g.rng.uniform(0, 1, 3), of), t)
            yield case((0, 3), np.array([1, 2, 3], of), np.array(0.5, of), t)
    for shape, a, b in (((3,), (2,), ()), ((2, 3), (2, 1), (1,)), ((), (1,), ()), ((3,), (2,), (3,)), ((2, 3), (2, 1), (3,)), ((5, 0), (0,), ())):
        yield case(shape, np.ones(a), np.full(b, 0.5), "float32")
    for state, dtype in STATES + BAD_STATES:
        yield case((5,), np.float64(20), np.float64(0.3), "float32", state, dtype)
    for alg in (0, 2, 3, 4, -1, [1]):
        yield case((5,), np.float64(20), np.float64(0.3), "float32", alg=alg)


# ---- truncated normal distributions ----

TRUNCATED = [  # each entry is (mean, standard deviation, lower bound, upper bound)
    (0, 1, -2, 2), (0, 1, -20, 20), (0, 1, -0.5, 0.5), (0, 1, 3, 4), (0, 1, 3, np.inf), (0, 1, -4, -3), (0, 1, -np.inf, -3), (1, 2, -np.inf, 4),
    (0, 1, 0, np.inf), (0, 1, 20, 21), (0, 1, 20, np.inf), (0, 1, 2, 2.01), (0, 1, -2.01, -2), (5, 2, 4, 20), (5, 2, -4, 6), (0, 1, 0.7, 5),
    (0, 1, 0.7, 0.9), (0, 1, -1.3, 0), (0, 1, -1.31, 0), (3, 0.5, 3.6, 3.9), (-7, 3, -30, -9), (100, 25, 120, 130),
]
NOT_TRUNCATED = [(0, 1, 2, -2), (0, 1, 2, 2), (0, 0, -1, 2), (0, -1, -1, 2), (0, np.nan, -1, 2), (np.nan, 1, -1, 2), (np.inf, 1, -1, 2), (0, 1, np.nan, 2),
                 (0, 1, -1, np.nan), (0, 1, np.inf, np.inf), (0, 1, -np.inf, -np.inf), (0, 1, -np.inf, np.inf), (0, np.inf, -1, 1), (0, 1, 1e30, 2e30),
                 (0, 1, 1e10, np.inf)]


@spec("ParameterizedTruncatedNormal", "StatelessParameterizedTruncatedNormal", ulps=8)
def truncated(g, op):
    stateless = op.startswith("Stateless")

    def case(shape, parameters, dtype="float32", seed=None, **how):
        seed = [int(v) for v in g.rng.integers(0, 2**31, 2)] if seed is None else seed
        values = [np.array(p, dtype) for p in parameters]
        shape = np.asarray(shape, how.pop("shape_type", "int32"))
        if stateless:
            return Case(shape, np.array(seed, how.pop("seed_type", "int64")), *values, **how)
        return Case(shape, *values, seed=seed[0], seed2=seed[1], **how)

    for dtype in ("float32", "float64", "float16"):
        for parameters in TRUNCATED:
            for shape in ((12,), (2, 3, 20)):
                yield case(shape, parameters, dtype)
        for parameters in NOT_TRUNCATED:
            if dtype != "float16" or max(np.nan_to_num(parameters, posinf=0)) < 65504:
                yield case((6,), parameters, dtype, texts=True)
        means, deviations, least, most = ([t[k] for t in TRUNCATED] for k in range(4))
        yield case((22, 7), (means, deviations, least, most), dtype)
        yield case((7, 22), (means, deviations, least, most), dtype)
        yield case((1, 22), (means, deviations, least, most), dtype)
        yield case((2, 2, 3), (np.arange(6).reshape(2, 3), [[[1]], [[3]]], -5, 9), dtype)
        yield case((3, 2, 3), ([[1], [7]], [1, 2, 3], -5, [19]), dtype)
        yield case((4, 1, 2, 3), ([[[1]], [[7]]], [[1, 2, 3]], -5, 19), dtype)
    for shape in ((), (0, 5), (2, 0), (0,), (300,), (150, 2), (1,) * 8):
        yield case(shape, (0, 1, -1, 1), texts=True)
        yield case(shape, (0, -1, -1, 1), texts=True)
        yield case(shape, ([0], [1], [-1], [1]), texts=True)
        yield case(shape, ([0, 0], 1, -1, 1), texts=True)
    for shape in ((-1,), (2, -1), ((2, 5),), 5):
        yield case(shape, (0, 1, -1, 1), texts=True)
        yield case(shape, ([[0]], -1, 1, -1), texts=True)
    for parameters in (([0, 0], [1, 1, 1], -5, 9), ([], 1, -5, 9), (0, [[1]], -5, 9), (0, 1, [-5] * 3, 9), (0, 1, -5, [9] * 3), (0, [1, 1], [-5, 6], 5)):
        for shape in ((2,), (3,), (2, 2), (3, 4)):
            yield case(shape, parameters, texts=True)
    for shape_type in ("int32", "int64"):
        for seed in ([5, 6], [2**31 - 1, 0]):
            yield case((9,), (0, 1, -1, 1), seed=seed, shape_type=shape_type, **(dict(seed_type="int32") if stateless else {}))
    if stateless:
        for seed in ([1, 2, 3], [1], [[1, 2]]):
            yield case((3,), (0, 1, -1, 1), seed=seed, texts=True)
        return
    for shape, parameters in (((5,), (0, 1, -2, 2)), ((2, 5), ([0, 0], 1, [-2, 3], [2, 9])), ((300,), (0, 1, -2, 2))):

        def build(tf, *holders):
            names = ("shape", "means", "stdevs", "minvals", "maxvals")
            x = tf.raw_ops.ParameterizedTruncatedNormal(seed=3, seed2=4, **dict(zip(names, holders, strict=True)))
            return [[x], [x], [x]]

        yield Graph(build, np.int32(shape), *map(np.float32, parameters), name=f"{op} {shape} thrice")


def rounded_at_random(case, theirs, ours):
    """Which number of its pair an element becomes depends on the vector length of TensorFlow's build. So each result must
    be one of the two integers around the number, and the mean of many results must be near the mean of the numbers."""
    x, out = case.inputs[0], ours[0]
    name = case.attrs["Tout"]
    info = np.iinfo(name)
    if out.shape != x.shape or out.dtype != np.dtype(name) or out.dtype != theirs[0].dtype:
        return f"{out.dtype}{out.shape} from {x.dtype}{x.shape}"
    with np.errstate(over="ignore"):
        highest = float(np.array(info.max).astype(x.dtype))
    wide = np.clip(x.astype("float64"), info.min, highest)
    sure = np.isnan(wide) | (wide == np.floor(wide))
    if not np.array_equal(out[sure], theirs[0][sure]):
        return "integers, infinities and NaN differ"
    if not np.all((out[~sure] == np.floor(wide[~sure])) | (out[~sure] == np.ceil(wide[~sure]))):
        return "a result is none of the two integers around its number"
    n = int(np.sum(~sure))
    # Each element's deviation from its number has a standard deviation of at most 0.5.
    if n > 100 and abs(np.mean(out[~sure] - wide[~sure])) > 5 * 0.5 / np.sqrt(n):
        return "the mean of the results is not that of the numbers"
    return None


@spec("StochasticCastToInt")
def stochastic_cast(g, op):
    edges = [0.0, -0.0, 1, -1, 2.5, -2.5, 127, 127.5, 128, -128, -128.5, -129, 32767, 32767.5, 32768, -32768.5, -40000, 2**31 - 1, 2.0**31, -(2.0**31), 1e30, -1e30, np.inf, -np.inf, np.nan]
    key, counter = np.uint64([7]), np.uint64([3, 2**40])
    for t, out in [(t, out) for t in FLOAT_TYPES for out in ("int8", "int16", "int32")]:
        d = dtype_of(t)
        with np.errstate(over="ignore"):
            tensors = [np.array(edges).astype(d)]
        tensors += [g.rng.uniform(-100, 100, shape).astype(d) for shape in [(), (1,), (5,), (2, 0), (4000,), (3, 5, 7)]]
        tensors += [np.full(3000, v).astype(d) for v in (0.125, -0.75, 3.5)]
        for x in tensors:
            yield Case(x, key, counter, np.int32(1), Tout=out, check=rounded_at_random)
        yield Case(tensors[0], key, counter, np.int32(3), Tout=out, check=rounded_at_random)
    x = np.float32([1, 2])
    for keys, counters, alg in [([7], [3, 4], 2), ([7], [3, 4], 0), ([7], [3, 4], 9), (7, [3, 4], 1), ([7, 8], [3, 4], 1), ([], [3, 4], 1), ([[7]], [3, 4], 1), ([7], [3], 2), ([7], [], 1), ([7], 3, 1), ([7], [[3, 4]], 1), ([7], [3, 4], [1]), ([7], [3, 4], []), (7, 3, 7)]:
        for values in (x, x[:0]):
            yield Case(values, np.uint64(keys), np.uint64(counters), np.int32(alg), Tout="int32", texts=True)
    for values in (x, np.float32(3), np.zeros((0, 4), "float32")):
        yield Case(values, np.uint64([7]), np.uint64([3, 4, 5]), np.int32(1), Tout="int8")
