"""Test cases for ops of k-means clustering, and the candidate samplers whose results follow from their seeds."""

from spec import *


@spec("ComputeAccidentalHits")
def hits(g, op):
    def i64(x):
        return np.array(x, np.int64)

    for true, sampled, n in (([[1, 2], [3, 4], [1, 1]], [1, 3, 1, 9, 4], 2), ([[1]], [1, 1, 1], 1), ([[1]], [2], 1), ([[1]], [], 1),
                             (np.zeros((0, 2)), [1], 2), ([[1, 2]], [1], 3), ([1, 2], [1], 2), ([[1]], [[1, 2]], 1), ([[1]], 1, 1),
                             ([[[1]]], [1], 1), (np.zeros((2, 0)), [1], 0), ([[1]], [1], -1)):
        yield Case(i64(true), i64(sampled), num_true=n, texts=True)
    for _ in range(190):
        rows, n, samples, top = (int(x) for x in g.rng.integers(1, (6, 5, 40, 60)))
        low = -top if g.rng.integers(2) else 0
        yield Case(g.rng.integers(low, top, (rows, n)), g.rng.integers(low, top, samples), num_true=n, seed=1)
    yield Case(i64([[-2**63, 2**63 - 1]]), i64([2**63 - 1, -2**63, 0]), num_true=2)


@spec("KMC2ChainInitialization")
def kmc2(g, op):
    f = np.float32
    for distances, seed in ((f([]), 1), (f([[1, 2]]), 1), (f(3), 1), (f([1, 2]), [1]), (f([0, 0, 0]), 1), (f([5]), 3), (f([1, -2, 3]), 5)):
        yield Case(distances, np.int64(seed), texts=True)
    for k in range(200):
        n = int(g.rng.integers(1, 80))
        seed = k if k < 50 else int(g.rng.integers(-2**63, 2**63))
        yield Case(g.values("float32", (n,), special=True) if k % 4 == 0 else g.rng.random(n, f) * 9, np.int64(seed))


@spec("NearestNeighbors", rtol=1e-5)
def neighbours(g, op):
    f = np.float32
    points, centers = f([[0, 0], [3, 4], [1, 1]]), f([[0, 1], [3, 3], [10, 10], [0, 1]])
    far = f([[0, 0], [3, 1e9]])  # the squared distances of the second point to all centres are equal in float32
    for p, c, k in ((far, f([[0, 1], [3, 3], [9, 9]]), 2), (points, centers, 1), (points, centers, 9), (points, centers, 0), (points, centers, [1]), (f([1, 2]), centers, 1),
                    (points, f([1, 2]), 1), (points, f([[1]]), 1), (np.zeros((0, 2), f), centers, 1), (points, np.zeros((0, 2), f), 1),
                    (np.zeros((2, 0), f), np.zeros((3, 0), f), 1)):
        yield Case(p, c, np.int64(k), texts=True)
    for _ in range(190):
        n, m, size, k = (int(x) for x in g.rng.integers(1, (9, 40, 9, 12)))
        whole = g.rng.integers(-9, 9, (n + m, size)).astype(f)  # exact distances, of which some are equal
        yield Case(whole[:n], whole[n:], np.int64(k))
    for n, m, size in ((5, 300, 33), (70, 9, 5)):
        some = g.rng.uniform(-3, 3, (n + m, size)).astype(f)
        yield Case(some[:n], some[n:], np.int64(4))


@spec("UniformCandidateSampler", "LogUniformCandidateSampler", "AllCandidateSampler", ulps=4)
def samplers(g, op):
    def graph(classes, n_true, repeats=3, **attrs):
        def build(tf, x):
            out = list(getattr(tf.raw_ops, op)(true_classes=tf.compat.v1.placeholder_with_default(x, None), num_true=n_true, **attrs))
            return [out] * repeats
        return Graph(build, np.array(classes, np.int64), name=f"{np.shape(classes)} {n_true} {attrs}", texts=True)

    every = {} if "All" in op else {"range_max": 10}
    for k in range(200):
        n = int(g.rng.integers(1, 40))
        top = n if "All" in op else int(g.rng.choice([n, n + 1, 2 * n, 64, 100, 12345, 1 << 40, 2**63 - 1]))
        unique = bool(k % 2) and n <= top
        if unique and "Log" in op and top == n:
            top = 3 * n  # drawing every class of a range takes too long, because the last classes are rarely drawn
        shape = ((2, 2), (3, 1), (0, 2))[k % 3]
        yield graph(g.rng.integers(0, top, shape), shape[1], num_sampled=n, unique=unique, seed=k, seed2=int(g.rng.integers(1, 99)),
                    **({"range_max": top} if every else {}))
    for classes, n_true, n, unique in (([[11, -1]], 2, 5, False), ([[1, -1]], 2, 5, False), ([[1, 2]], 1, 5, False), ([1, 2], 2, 5, False),
                                       ([[1]], 1, 11, True), ([[20]], 1, 11, True), (1, 1, 5, True), ([[[1]]], 1, 5, True)):
        yield graph(classes, n_true, num_sampled=n, unique=unique, seed=1, seed2=2, repeats=1, **every)
