"""Test cases for ops on ragged tensors, namely ranges, gathers by row splits and crossed features."""

from spec import *


def splits(g, rows, total=None, dtype=np.int64, longest=4):
    """Returns random row splits, which end with `total` if it is given."""
    if total is None:
        return np.concatenate([[0], np.cumsum(g.rng.integers(0, longest, rows))]).astype(dtype)
    inner = np.sort(g.rng.integers(0, total + 1, max(rows - 1, 0)))
    return np.concatenate([[0], inner, [total]][: 3 if rows else 1]).astype(dtype)


@spec("RaggedRange")
def ragged_range(g, op):
    for dtype in ("int32", "int64", "float32", "float64"):
        for tsplits in ("int32", "int64"):
            for n in (0, 1, 5, 40):
                start, limit = (g.values(dtype, (n,), lo=-30, hi=30, special=False) for _ in range(2))
                delta = g.values(dtype, (n,), lo=1, hi=7, special=False) * g.rng.choice([-1, 1], n).astype(dtype)
                yield Case(start, limit, delta, Tsplits=tsplits)
                yield Case(dtype_of(dtype).type(3), limit, delta, Tsplits=tsplits)
                yield Case(start, dtype_of(dtype).type(40), delta, Tsplits=tsplits)
                yield Case(start, limit, dtype_of(dtype).type(2), Tsplits=tsplits)
            yield Case(*(dtype_of(dtype).type(v) for v in (0, 7, 2)), Tsplits=tsplits)
            for bad in (([0], [3, 1], [1, 1]), ([[0]], [3], [1]), ([3], [[0]], [1]), ([3], [0], [[1]]), ([0, 0], [3, 1], [1, 0]), ([0, 0], [3, 1], [1])):
                yield Case(*(np.array(v, dtype) for v in bad), Tsplits=tsplits, texts=True)
    nan, inf = np.nan, np.inf
    for dtype in ("float32", "float64"):
        for v in ((0, nan, 1), (nan, 1, 1), (0, 1, nan), (0, inf, 1), (0, inf, inf), (0, 5, inf), (-inf, 5, 1), (inf, 5, 1), (5, 0, -inf), (0, 1e19, 1),
                  (0, 1, 0.1), (0.5, 2.5, 0.3), (0, -1, 0.1), (2**24, 2**24 + 8, 1), (3e38, -3e38, -1e38)):
            for tsplits in ("int32", "int64"):
                yield Case(*(np.array([x], dtype) for x in v), Tsplits=tsplits, texts=True)
    top = 2**63 - 1
    for v in ((-top - 1, top, 2**61), (top, -top - 1, -2**61), (-top - 1, top, 1), (5, 0, -top - 1), (2**62, -2**62, -top - 1), (0, 2**31, 1), (top - 2, top, 2)):
        yield Case(*(np.int64([x]) for x in v), Tsplits="int32", texts=True)
    for v in ((0, 2**31 - 1, 2**30), (-2**31, 2**31 - 1, 2**30), (2**31 - 3, 2**31 - 1, 2)):
        yield Case(*(np.int32([x]) for x in v))
    yield Case(np.int64([0, 0]), np.int64([2**31 - 2] * 2), np.int64([1, 1]), Tsplits="int32", texts=True)
    yield Case(np.int64([0, 0]), np.int64([2**62] * 2), np.int64([1, 1]), Tsplits="int64", texts=True)


@spec("RaggedGather")
def ragged_gather(g, op):
    for dtype in ("float32", "int64", "string", "bool", "bfloat16", "complex128", "uint8"):
        for t in (np.int32, np.int64):
            for inner in ((), (2,), (3, 0)):
                one = splits(g, 6, dtype=t)
                two = splits(g, int(one[-1]), dtype=t)
                for i in (np.int32, np.int64):
                    for shape in ((), (0,), (4,), (2, 3), (2, 0, 3), (2, 1, 2)):
                        index = g.rng.integers(0, 6, shape).astype(i)
                        index = np.asarray(index, i)
                        values = g.values(dtype, (int(one[-1]),) + inner, special=False)
                        yield Case([one], values, index, OUTPUT_RAGGED_RANK=max(len(shape), 0))
                        values = g.values(dtype, (int(two[-1]),) + inner, special=False)
                        yield Case([one, two], values, index, OUTPUT_RAGGED_RANK=1 + len(shape))
    a, v, i = [0, 2, 2, 5], np.float32([1, 2, 3, 4, 5]), np.int64
    for parts, values, index in (([a], v, [3]), ([a], v, [-1]), ([a], v, [[0, 1], [7, 8]]), ([[]], v, [0]), ([[]], v, []), ([[0]], v, []), ([[0]], v, [0]),
                                 ([[1, 2]], v, [0]), ([[0, 6]], v, [0]), ([[0, 4]], v, [0]), ([[0, 3, 1, 5]], v, [0]), ([[-1, 3]], v, [0]), ([[[0, 3]]], v, [0]),
                                 ([[[0], [3]]], v, [0]), ([a], np.float32(1), [0]), ([a], np.float32(1), [9]), ([0], v, [0]), ([0], v, []), ([0], np.float32(1), [9]),
                                 ([a, [0, 1, 3]], v, [0, 2]), ([a, [0, 1, 3, 3, 4, 9]], v, [0]), ([a, [0, 1, 3, 3, 2, 5]], v, [0]), ([a, [2, 1, 3, 3, 4, 5]], v, [0]),
                                 ([a, []], v, [0]), ([[0, 0], []], v, [0]), ([a, [[0, 1, 3, 3, 4, 5]]], v, [2]), ([[0, 1], [[0, 1], [3, 3], [4, 5]]], v, [0]),
                                 ([[[0, 2], [2, 5]]], v, [0]), ([[[0, 2], [2, 5]]], v, [1]), ([a, [1, 1, 2, 3, 4, 5]], v, [0, 0]), ([a, [0, 1, 2, 3, 4, 4]], v, [0, 2])):
        yield Case([i(p) for p in parts], values, i(index), OUTPUT_RAGGED_RANK=len(parts) + np.ndim(index) - 1, texts=True)


@spec("RaggedFillEmptyRows")
def fill_empty_rows(g, op):
    for dtype in NUMBERS + ["bool", "string"]:
        for n, rows in ((0, 0), (0, 3), (1, 1), (5, 9), (30, 12)):
            for ordered in (True, False):
                ids = g.rng.integers(0, max(rows, 1), n).astype(np.int64)
                yield Case(np.sort(ids) if ordered else ids, g.values(dtype, (n,)), np.int64(rows), g.values(dtype, (), special=False))
    v, i = np.float32([1, 2, 3]), np.int64
    for ids, values, rows, default in (([0, -1, 2], v, 4, 9), ([0, 4, 2], v, 4, 9), ([7, -2, 0], v, 3, 9), ([0, 1, 2], v, 0, 9), ([0], v[:1], -1, 9), ([], v[:0], -1, 9), ([[0]], v[:1], 2, 9),
                                       ([0], v[:1][None], 2, 9), ([0, 1], v, 2, 9), ([0, 1, 1], v[:2], 2, 9), ([0, 1, 1], v[:0], 2, 9), ([0], v[:1], [2], 9), ([0], v[:1], 2, [9]),
                                       (0, v[0], 2, 9), ([0], v[0], 2, 9), (0, v[:1], 2, 9), ([0], v[:1], [2], [9]), ([[0]], v[None], [2], [9]), ([], v, 0, 9), ([0, -1], v, 2, [9]),
                                       ([0], v[:1], -1, [9]), ([0], v[:1], 0, [9]), ([], v[:0], -(2**63), 9), ([[0]], v[None], 2, 9), ([0, 1], v, -1, 9), ([2**63 - 1], v[:1], 2, 9)):
        yield Case(i(ids), values, i(rows), np.float32(default), texts=True)


# ---- crossed features ----

WORDS = np.array([b"", b"a", b"bc", "\u00e4".encode(), b"a_X_b", b"x" * 40, b"\0\xff"], object)


@spec("RaggedCross")
def ragged_cross(g, op):
    def some(n, kind):
        return g.rng.choice(WORDS, n) if kind == "string" else g.rng.integers(-(2**40), 2**40, n)

    def ragged(rows, kind, dtype):
        s = splits(g, rows, dtype=dtype, longest=3)
        return some(s[-1], kind), s

    def sparse(rows, kind):
        per_row = g.rng.integers(0, 3, rows)
        indices = np.array([[r, 2 * c] for r in range(rows) for c in range(per_row[r])], "int64").reshape(-1, 2)
        return indices, some(len(indices), kind), np.int64([rows, 5])

    def case(order, raggeds=(), sparses=(), denses=(), out="string", splits_type="int64", buckets=0, key=956888297470, texts=False):
        columns = [[list(c) for c in zip(*v)] or [[]] * n for v, n in ((raggeds, 2), (sparses, 3))]
        lists = [*columns[0], *columns[1], list(denses)]
        return Case(*lists, input_order=order, hashed_output=out == "int64", num_buckets=buckets, hash_key=key, out_values_type=out, out_row_splits_type=splits_type, texts=texts)

    for k in range(190):
        rows, n = int(g.rng.integers(0, 5)), int(g.rng.integers(1, 4))
        order = "".join(g.rng.choice(list("RSD"), n))
        dtype = g.rng.choice(["int32", "int64"])
        kinds = lambda letter: [g.rng.choice(["string", "int64"]) for c in order if c == letter]
        out = "int64" if k % 2 else "string"
        yield case(order, [ragged(rows, t, dtype) for t in kinds("R")], [sparse(rows, t) for t in kinds("S")], [some((rows, 1 + int(g.rng.integers(2))), t) for t in kinds("D")], out,
                   dtype, int(g.rng.choice([0, 1, 10, 1000])), int(g.rng.choice([956888297470, 0, 7, -1])))
    three = np.array([b"a", b"b", b"c"], object)
    dense = np.array([[b"p", b"q"], [b"r", b"s"]], object)
    i64 = lambda *v: np.array(v, "int64")
    good = three, i64(0, 2, 3)
    for order, count in [("", 0), ("", 1), ("R", 0), ("RR", 1), ("R", 2), ("D", 1), ("S", 1), ("X", 1), ("r", 1), ("R" * 7, 7)]:
        yield case(order, [good] * count, texts=order != "X" and order != "r")
    for values, s in [(three, i64(0, 2, 5)), (three, i64(0, 2, 2)), (three, i64(1, 2, 3)), (three, i64(0, 3, 2)), (three, i64()), (three, i64(0)), (three[:0], i64(0, 0)), (three, i64(0, -1, 3)), (three, i64(0, 3)[None]),
                      (three[None], i64(0, 2, 3)), (three, np.int64(3))]:
        yield case("R", [(values, s)], texts=True)
    for d in (dense[:1], dense[0], dense[None], dense[:, :0], dense[:0]):
        yield case("D", denses=[d], texts=True)
        yield case("RD", [good], denses=[d], texts=True)
    at = [[0, 0], [0, 2], [1, 1]]
    for indices, values, shape in [(at, three[:2], [2, 3]), (np.zeros((1, 3)), three[:1], [1, 1, 1]), (i64(0, 0, 1), three, [2, 3]), (at, three, [2]), ([[0, 0], [5, 0], [1, 1]], three, [2, 3]), ([[1, 0], [0, 0], [1, 1]], three, [2, 3]),
                                   ([[-1, 0], [0, 0], [1, 1]], three, [2, 3]), ([[0, 9], [0, 9], [1, 1]], three, [2, 3]), (np.zeros((0, 2)), three[:0], [2, 3]), (at, three[None], [2, 3]), (at, three, [[2, 3]]),
                                   ([[0, 2], [0, 1], [1, 0]], three, [2, 3]), (np.zeros((0, 2)), three[:0], [0, 3]), (at, three, [3, 3])]:
        yield case("S", sparses=[(np.array(indices, "int64"), values, np.array(shape, "int64"))], texts=True)
        yield case("RS", [good], [(np.array(indices, "int64"), values, np.array(shape, "int64"))], texts=True)
    yield case("R", [good], out="int64", key=5)
