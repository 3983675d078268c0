"""Test cases for connectionist temporal classification, namely both decoders and the loss."""

from spec import *


def logits(g, dtype, shape=(7, 3, 5)):
    return g.values(dtype, shape, lo=-3, hi=3, special=False)


def malformed(g):
    """Yields inconsistent logits and lengths."""
    x = logits(g, "float32")
    yield from ((x, [7, 3]), (x, [7, 8, 1]), (x, [[1], [1], [1]]), (x[0], [1, 1, 1]), (x[:0], [0, 0, 0]), (x[:, :0], []), (x[:, :, :0], [1, 1, 1]), (x, 3), (x, []))


SHAPES = ((7, 3, 5), (1, 1, 2), (20, 2, 4), (3, 9, 30), (12, 4, 2), (5, 2, 1))


@spec("CTCGreedyDecoder", rtol=1e-5)
def greedy(g, op):
    for dtype in WIDE_FLOATS:
        for shape in SHAPES:
            for merge in (True, False):
                for blank in (-1, 0, shape[2] - 1, -shape[2]):
                    lengths = np.int32(g.rng.integers(0, shape[0] + 1, shape[1]))
                    yield Case(logits(g, dtype, shape), lengths, merge_repeated=merge, blank_index=blank)
                yield Case(np.round(logits(g, dtype, shape)), np.int32([shape[0]] * shape[1]), merge_repeated=merge)
    x = logits(g, "float32")
    for blank in (5, -6, 2**31 - 1):
        yield Case(x, np.int32([1, 2, 3]), blank_index=blank, texts=True)
    yield Case(x, np.int32([1, -2, 3]))
    for bad, lengths in malformed(g):
        yield Case(bad, np.int32(lengths))
    x[2, 0, 1], x[3, 1], x[1, 2] = np.nan, np.nan, -np.inf
    yield Case(x, np.int32([7, 7, 7]))


@spec("CTCBeamSearchDecoder", rtol=1e-5)
def beam(g, op):
    for dtype in WIDE_FLOATS:
        for shape in SHAPES:
            for merge in (True, False):
                for width, top in ((1, 1), (3, 2), (10, 1), (10, 5), (100, 3)):
                    lengths = np.int32(g.rng.integers(0, shape[0] + 1, shape[1]))
                    yield Case(logits(g, dtype, shape), lengths, merge_repeated=merge, beam_width=width, top_paths=top)
                    yield Case(5 * logits(g, dtype, shape), np.int32([shape[0]] * shape[1]), merge_repeated=merge, beam_width=width, top_paths=top)
    x = logits(g, "float32")
    yield Case(x, np.int32([1, -2, 3]), beam_width=4, top_paths=1)
    yield Case(x, np.int32([1, 2, 3]), beam_width=4, top_paths=5, texts=True)
    yield Case(x, np.int32([1, 0, 3]), beam_width=4, top_paths=2, texts=True)
    yield Case(x[:, :, :2], np.int32([1, 1, 1]), beam_width=40, top_paths=30)
    yield Case(x, np.int32([7, 7, 7]), beam_width=2**31 - 1, top_paths=2)
    for bad, lengths in malformed(g):
        yield Case(bad, np.int32(lengths), beam_width=3, top_paths=1)
    x[:, 1, 2] = -np.inf
    yield Case(x, np.int32([7, 7, 7]), beam_width=5, top_paths=2)


def labels(g, batch, classes, most):
    """Returns at least one label for each element of a batch, as indices and values."""
    n = g.rng.integers(1, most + 1, batch)
    indices = np.int64([(b, i) for b in range(batch) for i in range(n[b])]).reshape(-1, 2)
    return indices, np.int32(g.rng.integers(0, max(classes - 1, 1), len(indices)))


# Labels that are all blank are left out, because TensorFlow then writes out of bounds.
@spec("CTCLoss", rtol=2e-5)
def loss(g, op):
    for dtype in WIDE_FLOATS:
        for shape in SHAPES[:5]:
            for collapse in (False, True):
                for merge in (False, True):
                    for ignore in (False, True):
                        for _ in range(4):
                            time, batch, classes = shape
                            low = 0 if ignore else max(time // 2, 1)
                            lengths = np.int32(g.rng.integers(low, time + 1, batch))
                            yield Case(logits(g, dtype, shape), *labels(g, batch, classes, time if ignore else low), lengths,
                                       preprocess_collapse_repeated=collapse, ctc_merge_repeated=merge, ignore_longer_outputs_than_inputs=ignore)
    x, at, n = logits(g, "float32"), np.int64([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]), np.int32([7, 5, 6])
    for values in ([1, 2, 3, 0, 1], [1, 1, 3, 0, 1], [1, 4, 3, 0, 1], [9, 1, 3, 0, 1], [1, -1, 3, 0, 1], [1, 9, 3, 0, 1], [-1, 4, 0, 0, 0]):
        for lengths in (n, np.int32([7, 1, 2]), np.int32([2, 0, 2]), np.int32([1, 5, 6])):
            yield Case(x, at, np.int32(values), lengths, texts=True)
            yield Case(x, at, np.int32(values), lengths, ignore_longer_outputs_than_inputs=True, preprocess_collapse_repeated=True, texts=True)
    v = np.int32([1, 2, 3, 0, 1])
    for lengths in ([7, -1, 6], [7, 8, 6], [7, 5], [[7], [5], [6]], 7, []):
        yield Case(x, at, v, np.int32(lengths), texts=True)
    for bad in (at[::-1].copy(), at[[0, 0, 2, 3, 4]], at[:3], at[:, :1].copy(), at[:, :0].copy(), at[[0, 1, 3, 3, 4]], at - 1, at + 1, np.concatenate([at, at], 1), at[:, 0].copy(),
                at * 5, at[:0], at.reshape(5, 2, 1), at + np.int64([[0, -1]])):
        yield Case(x, bad, v[: len(bad)], n, texts=True)
        yield Case(x, bad, v, n, texts=True)
        yield Case(x, bad, v[: len(bad)], np.int32([9, 9]))
    yield Case(x, at, v.reshape(5, 1), n, texts=True)
    for bad in (x[0], x[:0], x[:, :0], x[:, :2]):
        yield Case(bad, at, v, n, texts=True)
    for value in (np.inf, np.nan, -np.inf):
        y = x.copy()
        y[2, 0, 1] = value
        yield Case(y, at, v, n)
    y = x.copy()
    y[:, 0, 1] = -np.inf
    yield Case(y, at, v, n)
