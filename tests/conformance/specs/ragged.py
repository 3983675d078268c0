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


# ---- ragged tensors in variants ----


def encoded(tf, splits, values, batched):
    return tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=list(splits), rt_dense_values=values, batched_input=batched)


def decoded(tf, variants, inner, outer, like, tsplits):
    unknown = tf.compat.v1.placeholder_with_default(variants, None)
    out = tf.raw_ops.RaggedTensorFromVariant(encoded_ragged=unknown, input_ragged_rank=inner, output_ragged_rank=outer, Tvalues=like.dtype, Tsplits=tsplits)
    return [*out.output_nested_splits, out.output_dense_values]


def nested_splits(g, ranks, dtype):
    """Returns the row splits of `ranks` ragged dimensions, and the number of values."""
    out, rows = [], int(g.rng.integers(0, 4)) if ranks else int(g.rng.integers(0, 5))
    for _ in range(ranks):
        out.append(splits(g, rows, dtype=dtype))
        rows = int(out[-1][-1])
    return out, rows


@spec("RaggedTensorToVariant", "RaggedTensorFromVariant")
def ragged_variants(g, op):
    def there_and_back(s, values, batched, inner, outer, name=""):
        tsplits = s[0].dtype if s else np.int64

        def build(tf, *v):
            t = encoded(tf, v[:-1], v[-1], batched)
            return [[tf.shape(t)], [tf.shape(t), *decoded(tf, t, inner, outer, v[-1], tsplits)]]

        return Graph(build, *s, values, name=f"{name} {[np.shape(x) for x in s]} {values.dtype} {values.shape} {batched} {inner} {outer}", texts=True)

    types = ("float32", "int64", "string", "bool") if op == "RaggedTensorToVariant" else ("float64", "int32", "uint8", "complex64", "bfloat16")
    for dtype in types:
        for tsplits in (np.int32, np.int64):
            for ranks in (0, 1, 2, 3):
                for tail in ((), (2,), (0,)):
                    s, n = nested_splits(g, ranks, tsplits)
                    values = g.values(dtype, (n, *tail))
                    yield there_and_back(s, values, False, ranks, ranks)
                    yield there_and_back(s, values, False, -1, ranks)
                    if ranks:
                        yield there_and_back(s, values, True, ranks - 1, ranks)
                        yield there_and_back(s, values, True, -1, ranks)
    x = g.values("float32", (6,))
    for ranks in ((0, 0), (1, 0), (0, 1), (1, 2), (2, 2), (-1, 3), (2, 3), (-1, 0), (0, 5)):
        for batched in (False, True):
            yield there_and_back([np.int64([0, 2, 2, 6])], x, batched, *ranks, name="ranks")
            yield there_and_back([], x.reshape(2, 3), batched, *ranks, name="ranks")
            yield there_and_back([np.int64([0, 1, 3]), np.int64([0, 2, 2, 6])], x, batched, *ranks, name="ranks")
            yield there_and_back([np.int64([0])], x[:0], batched, *ranks, name="ranks")
    for bad in ([1, 2, 6], [0, 2, 7], [0, 2, 5], [0, 4, 2, 6], [0, -4, 2, 6], [], [[0, 6]], 6):
        for batched in (False, True):
            yield there_and_back([np.int64(bad)], x, batched, 0 if batched else 1, 1, name=f"splits {bad}")
            yield there_and_back([np.int64(bad), np.int64([0, 1, 2, 3, 3, 4, 6])], x, batched, 1 if batched else 2, 2, name=f"splits {bad}")
            yield there_and_back([np.int64([0, 1, 2]), np.int64(bad)], x, batched, 1 if batched else 2, 2, name=f"splits {bad}")
    yield there_and_back([np.int64([0, 1])], np.float32(1), True, 0, 1, name="scalar")
    yield there_and_back([np.int64([0, 1])], np.float32(1), False, 1, 1, name="scalar")
    yield there_and_back([], np.float32(1), False, 0, 0, name="scalar")

    def stacked(parts, inner, outer, dims=None, tsplits=np.int64, like=None, name=""):
        feeds = [v for s, values in parts for v in (*s, values)]

        def build(tf, *v):
            v, variants = list(v), []
            for s, _ in parts:
                variants.append(encoded(tf, [v.pop(0) for _ in s], v.pop(0), False))
            t = tf.stack(variants)
            t = tf.reshape(t, dims) if dims else t
            return [decoded(tf, t, inner, outer, tf.constant(0, like) if like else tf.constant(parts[0][1][:0]), tsplits)]

        return Graph(build, *feeds, name=f"stacked {name} {[([np.shape(x) for x in s], values.shape) for s, values in parts]} {inner} {outer} {dims}", texts=True)

    for ranks in (0, 1, 2):
        for dims in (None, (4, 1), (2, 2), (2, 1, 2), (1, 4, 1)):
            parts = []
            for _ in range(4):
                s, n = nested_splits(g, ranks, np.int64)
                parts.append((s, g.values("float32", (n, 2))))
            outer = len(dims or (4,)) + ranks
            yield stacked(parts, ranks, outer, dims)
            yield stacked(parts, -1, outer, dims)
    same = [([], g.values("float32", (2, 3))) for _ in range(4)]
    for dims in (None, (2, 2), (1, 4, 1)):
        yield stacked(same, -1, len(dims or (4,)) - 1, dims, name="values of one shape")
    one = ([np.int64([0, 2, 2, 6])], x)
    for parts in ([one, ([], x)], [([], x), one], [([], x.reshape(1, 6)), ([], x[:3].reshape(1, 3))], [([], x.reshape(1, 6)), ([], x)], [one, ([np.int32([0, 6])], x)],
                  [one, ([np.int64([0, 6])], g.values("int32", (6,)))], [([], x[:2]), ([], x[:3])]):
        for inner in (-1, 0, 1):
            for outer in (0, 1, 2):
                yield stacked(parts, inner, outer, name="mixed")
    yield stacked([one, one], 1, 2, like="int32", name="another type")
    yield stacked([one, one], 1, 2, tsplits=np.int32, name="another type of splits")

    def of_list(tf, rank):
        h = tf.raw_ops.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=-1, element_dtype=tf.float32)
        return [decoded(tf, tf.stack([h, h]) if rank else h, 0, rank, tf.constant(np.float32(0)), np.int64)]

    for rank in (0, 1):
        yield Graph(lambda tf: of_list(tf, rank), name=f"variants of lists {rank}", texts=True)

    def added(first, second, inner, outer, dims=None):
        feeds = [*first[0], first[1], *second[0], second[1]]

        def build(tf, *v):
            k = len(first[0]) + 1
            both = [tf.compat.v1.placeholder_with_default(encoded(tf, p[:-1], p[-1], dims is not None), None) for p in (v[:k], v[k:])]
            return [decoded(tf, tf.raw_ops.AddN(inputs=both), inner, outer, tf.constant(first[1][:0]), np.int64), decoded(tf, tf.zeros_like(both[0]), inner, outer, tf.constant(first[1][:0]), np.int64)]

        return Graph(build, *feeds, name=f"sum {inner} {outer} {dims} {feeds}"[:300], texts=True)

    yield added(one, one, 1, 1)
    yield added(one, ([np.int64([0, 2, 2, 6])], g.values("float32", (6,))), 1, 1)
    yield added(([], x), ([], g.values("float32", (6,))), 0, 0)
    for other in (([np.int64([0, 1, 2, 6])], x), ([np.int64([0, 1])], x[:1]), ([], x), ([np.int64([0, 2, 2, 6])], g.values("int32", (6,)))):
        yield added(one, other, 1, 1)
        yield added(other, one, 1, 1)
    yield added(([], x), ([], x[:5]), 0, 0)
    yield added(one, one, 0, 1, dims=True)

    def mapped(tf, values):
        rows = tf.RaggedTensor.from_row_splits(values, np.int64([0, 2, 2, 5]))
        out = tf.map_fn(lambda t: tf.concat([t, t[:1]], 0), rows)
        return [out.values, out.row_splits]

    def mapped_grad(tf, values):
        rows = tf.RaggedTensor.from_row_splits(values, np.int64([0, 2, 2, 5]))
        out = tf.map_fn(lambda t: t * t, rows)
        return [tf.gradients(tf.reduce_sum(out.values**2), values)[0]]

    yield Graph(mapped, x[:5], name="map_fn")
    yield Graph(mapped_grad, x[:5], name="gradient of map_fn")


@spec("RaggedTensorToVariantGradient")
def ragged_variant_gradient(g, op):
    def case(s, values, row_splits, shape, batched=True, name="", of=None):
        def build(tf, *v):
            n = len(s)
            t = of(tf) if of else encoded(tf, v[:n], v[n], batched)
            return [tf.raw_ops.RaggedTensorToVariantGradient(encoded_ragged_grad=tf.compat.v1.placeholder_with_default(t, None), row_splits=v[n + 1], dense_values_shape=v[n + 2], Tvalues=values.dtype)]

        return Graph(build, *s, values, row_splits, np.int32(shape), name=f"{name} {[np.shape(x) for x in s]} {values.dtype} {values.shape} {row_splits} {shape} {batched}", texts=True)

    for dtype in ("float32", "float64", "int32", "complex64", "bfloat16", "string"):
        for tsplits in (np.int32, np.int64):
            for ranks in (1, 2, 3):
                for tail in ((), (2,), (2, 1)):
                    s, n = nested_splits(g, ranks, tsplits)
                    if len(s[0]) > 1:
                        yield case(s, g.values(dtype, (n, *tail)), s[0], (n, *tail))
    x = g.values("float32", (6,))
    one = [np.int64([0, 2, 2, 6])]
    for row_splits in ([0, 1, 2, 6], [6, 2, 2, 0], [], [[0, 2, 2, 6]], [0, 2, 1, 6], [1, 2, 2, 6]):
        yield case(one, x, np.int64(row_splits), (6,), name="splits")
    for shape in ((6, 1), (3, 2), (5,), (-1,)):
        yield case(one, x, one[0], shape, name="shape")
    yield case(one, x, np.int64([0]), (6,), batched=False, name="scalar")
    yield case([], x, np.int64([0]), (6,), batched=False, name="scalar")

    def lists(tf):
        h = tf.raw_ops.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=-1, element_dtype=tf.float32)
        return tf.stack([h] * 3)

    yield case(one, x, one[0], (6,), of=lists, name="no gradients")
    yield case(one, x.reshape(6, 1), one[0], (6, 1), of=lists, name="no gradients")
