"""Test cases for the ops of TensorFlow Text that find the best sequence of states or the best tree for scores. Lengths
below 0, and scores of no state, end TensorFlow's process and are left out. In the linear space, products that are equal
but for their rounding are left out too."""

import tensorflow_text  # noqa: F401 (registers the ops)

from spec import *


@spec("ConstrainedSequence")
def constrained(g, op):
    none = [np.zeros((0, 0), bool), np.zeros((0, 0), "float32")]

    def case(scores, lengths, allowed=none[0], weights=none[1], mode=0, kind="int32", **more):
        return Case(np.asarray(scores, "float32"), np.array(lengths, kind), np.array(allowed, bool), np.array(weights, "float32"), use_viterbi=bool(mode & 1),
                    use_log_space=bool(mode & 2), use_start_and_end_states=bool(mode & 4), **more)

    def values(shape, low, i):
        return g.rng.integers(low, 4, shape) if i % 3 == 0 and i % 4 != 1 else g.rng.uniform(low, 3, shape)

    for i in range(400):
        mode, n, steps = i % 8, int(g.rng.integers(1, 6)), int(g.rng.integers(0, 60 if i % 16 > 13 else 7))
        shape = (int(g.rng.integers(0, 4)), steps, n) if i % 5 else (steps, n)
        lengths = g.rng.integers(0, steps + 1, shape[0] if i % 5 else (1,) if i % 2 else ())
        m = n + (mode >> 2)
        matrices = [g.rng.random((m, m)) < 0.7 if g.rng.random() < 0.6 else none[0],
                    values((m, m), -3 if mode & 2 else 0, i) if g.rng.random() < 0.6 else none[1]]
        yield case(values(shape, -3, i), lengths, *matrices, mode, ["int32", "int64"][i // 8 % 2], Tsplits=[9, 3][i // 16 % 2])
    for mode in range(8):
        yield case(values((2, 400, 3), 0, 1), [400, 390], none[0], values((3, 3), 0, 1), mode & 3)
        yield case([[[1, 1, 1]] * 3], [3], mode=mode)
    scores = values((2, 3, 4), 0, 1)
    for lengths in ([1], [1, 2, 3], [], [4, 0], [0, 4], [[1, 3]]):
        yield case(scores, lengths, texts=True)
    for shape in ((), (4,), (1, 2, 3, 4)):
        yield case(np.zeros(shape), [1], texts=True)
    yield case(scores[0], [1, 2], texts=True)
    for mode in (0, 4):
        for shape in ((3, 3), (4, 3), (3, 4), (5, 4), (4, 5), (5, 5), (4, 4), (4,), (), (1, 4, 4), (0, 4), (4, 0), (0,)):
            yield case(scores, [2, 3], np.ones(shape), mode=mode, texts=True)
            yield case(scores, [2, 3], weights=np.ones(shape), mode=mode, texts=True)
    for k, value in ((0, -1), (5, -0.5), (15, np.nan), (3, -np.inf), (3, -0.0)):
        weights = np.ones(16)
        weights[k] = value
        for mode in range(4):
            if mode < 2 or value == value:
                yield case(scores, [2, 3], weights=weights.reshape(4, 4), mode=mode, texts=True)
    for dim in ((0, 2, 3), (1, 0, 3), (0, 2, 0), (1, 2, 0)):
        yield case(np.zeros(dim), [0] * dim[0], mode=1)


@spec("MaxSpanningTree")
def tree(g, op):
    """Trees with equal sums are left out, among which TensorFlow may choose another."""
    for i in range(300):
        kind, size = ["int32", "float32", "float64"][i % 3], int(g.rng.integers(1, 20 if i > 250 else 6))
        n = g.rng.integers(1, size + 1, int(g.rng.integers(0, 5)))
        scores = g.rng.integers(-2**26, 2**26, (len(n), size, size)) if i % 3 == 0 else g.rng.uniform(-5, 5, (len(n), size, size))
        if i % 4 > 1 and i % 3:
            scores[g.rng.random(scores.shape) < 0.3] = [-np.inf, np.nan][i % 4 - 2]
        yield Case(n.astype("int32"), scores.astype(kind), forest=i // 3 % 2 == 1, texts=True, rtol=1e-5)
    scores = g.rng.uniform(-5, 5, (2, 3, 3))
    for forest in (False, True):
        for n in ([3, 0], [3, 4], [3], [3, 3, 3], 3, [[3, 3]]):
            yield Case(np.array(n, "int32"), scores, forest=forest)
        for shape in ((3, 3), (1, 3, 2), (1, 2, 3), (1, 1, 1, 1)):
            yield Case(np.int32([1]), np.ones(shape), forest=forest)
        for n in (1, 2, 3, 4, 5):
            yield Case(np.int32([n]), np.ones((1, n, n)), forest=forest)
            yield Case(np.int32([n]), np.full((1, n, n), -np.inf), forest=forest, texts=True)
        yield Case(np.int32([3, 0]), scores, forest=forest, texts=True)
        yield Case(np.int32([1, 7]), scores, forest=forest, texts=True)
