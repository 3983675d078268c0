"""Specifies the candidate samplers whose results follow from their seeds. A graph runs a sampler several times, because its
generator goes on from run to run."""

from spec import *


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
            top = 3 * n  # classes at the end of the range are drawn too rarely
        shape = ((2, 2), (3, 1), (0, 2))[k % 3]
        yield graph(g.rng.integers(0, top, shape), shape[1], num_sampled=n, unique=unique, seed=k, seed2=int(g.rng.integers(1, 99)),
                    **({"range_max": top} if every else {}))
    for classes, n_true, n, unique in (([[11, -1]], 2, 5, False), ([[1, -1]], 2, 5, False), ([[1, 2]], 1, 5, False), ([1, 2], 2, 5, False),
                                       ([[1]], 1, 11, True), ([[20]], 1, 11, True), (1, 1, 5, True), ([[[1]]], 1, 5, True)):
        yield graph(classes, n_true, num_sampled=n, unique=unique, seed=1, seed2=2, repeats=1, **every)
