"""Test cases for ops of k-means clustering, the candidate samplers whose results follow from their seeds, and random
windows of images (kernels/image/glimpse.c, distorted_box.c)."""

import itertools
import os
import pathlib
import tempfile
import zlib

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


@spec("KmeansPlusPlusInitialization")
def kmeans(g, op):
    f = np.float32
    whole = np.arange(20).reshape(10, 2)
    same = [[0, 0]] * 5 + [[1, 1]]
    for points, n, seed, retries in ((np.zeros((0, 2)), 1, 1, 0), (whole, 0, 1, 0), (whole, -1, 1, 0), (whole, 11, 1, 0), ([1, 2], 1, 1, 0),
                                     (whole, [1], 1, 0), (whole, 1, [1], 0), (whole, 1, 1, [0]), (np.zeros((3, 0)), 2, 1, 0), (whole, 10, 7, 0),
                                     (same, 4, 3, 0), (same, 4, 4, 1), ([[1, np.nan], [2, 3], [4, 5]], 3, 1, 0), ([[1, np.inf], [2, 3], [4, 5]], 3, 1, 0)):
        yield Case(f(points), np.int64(n), np.int64(seed), np.int64(retries), texts=True)
    for k in range(190):
        n, size = int(g.rng.integers(1, 60)), int(g.rng.integers(1, 6))
        # Small integers, so that all sums are exact. When all points are chosen already, TensorFlow's answers differ from run to run.
        points = g.rng.integers(-9, 9, (n, size)).astype(f)
        n = len(np.unique(points, axis=0))
        seed = k if k < 50 else int(g.rng.integers(-2**63, 2**63))
        yield Case(points, np.int64(g.rng.integers(1, n + 1)), np.int64(seed), np.int64(g.rng.integers(-1, 5) if k % 2 else 0))


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


# ---- windows of images ----


def same_range(case, theirs, ours):
    """Compares types and shapes, and whether noise has about the same range, because TensorFlow seeds it from the clock."""
    a, b = theirs[0], ours[0]
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{b.dtype}{b.shape}, not {a.dtype}{a.shape}"
    if a.size > 1000 and (abs(a.mean() - b.mean()) > 0.5 or abs(a.std() - b.std()) > 0.5):
        return f"mean {b.mean()} and deviation {b.std()}, not {a.mean()} and {a.std()}"
    return None


@spec("ExtractGlimpse", "ExtractGlimpseV2")
def glimpse(g, op):
    zero = dict(noise="zero", uniform_noise=False)
    x = lambda *shape: g.values("float32", shape)
    for centered, normalized, (image, size), wide in itertools.product((True, False), (True, False), [((3, 4, 6, 1), (2, 3)), ((2, 5, 3, 2), (3, 2)), ((1, 7, 7, 3), (1, 1)), ((2, 2, 3, 1), (5, 6))], (1, 3)):
        for _ in range(5):
            offsets = g.rng.uniform(-1.2, 1.2, (image[0], 2)) * (1 if normalized else wide)
            yield Case(x(*image), np.int32(size), offsets.astype("float32"), centered=centered, normalized=normalized, **zero)
        yield Case(x(*image), np.int32(size), np.round(offsets * 2).astype("float32") / 2, centered=centered, normalized=normalized, **zero)
    for offset in (np.nan, np.inf, -np.inf, 1e30, -3e38, 1e9):
        yield Case(x(1, 4, 5, 1), np.int32([2, 3]), np.float32([[offset, 0]]), **zero)
        yield Case(x(1, 4, 5, 1), np.int32([2, 3]), np.float32([[0, offset]]), **zero)
    for image, size, offsets in [((1, 4, 5, 1), (2, 3, 4), (1, 2)), ((1, 4, 5, 1), 2, (1, 2)), ((1, 4, 5, 1), ((2, 3),), (1, 2)), ((1, 4, 5, 1), (-1, 3), (1, 2)), ((1, 4, 5, 1), (3, -2), (1, 2)),
                                 ((1, 4, 5, 1), (2, 3), (2,)), ((1, 4, 5, 1), (2, 3), (2, 2)), ((1, 4, 5, 1), (2, 3), (1, 3)), ((4, 5, 1), (2, 3), (1, 2)), ((1, 4, 5, 1), (0, 3), (1, 2)),
                                 ((0, 4, 5, 1), (2, 3), (0, 2)), ((1, 4, 5, 0), (2, 3), (1, 2)), ((1, 0, 5, 1), (2, 3), (1, 2))]:
        yield Case(x(*image), np.int32(size), np.zeros(offsets, "float32"), texts=True, **zero)
    yield Case(x(1, 4, 5, 1), np.int32([2, 3]), np.zeros((1, 2), "float32"), noise="foo", uniform_noise=False, texts=True)
    for noise, offset in itertools.product(("uniform", "gaussian"), (0, -9)):
        image = g.rng.normal(3, 2, (1, 20, 20, 3)).astype("float32")
        yield Case(image, np.int32([60, 60]), np.float32([[offset, offset]]), noise=noise, uniform_noise=False, check=same_range)
    yield Case(image, np.int32([3, 4]), np.float32([[0, 0]]))  # no pixel of the window is noise


def boxes(g, n):
    """Returns n boxes whose edges are in order."""
    edges = np.sort(g.rng.random((n, 2, 2)), axis=1)
    return edges.reshape(1, n, 4).astype("float32")


WINDOWS = [dict(), dict(area_range=[0.5, 1.0]), dict(aspect_ratio_range=[0.3, 3.0], area_range=[0.01, 0.3]), dict(aspect_ratio_range=[2.0, 2.0], max_attempts=3), dict(area_range=[1.0, 1.0]), dict(area_range=[0.3, 0.2])]
SIZES = [(100, 200, 3), (1, 1, 3), (2, 3, 1), (7, 5, 3), (1000, 30, 3), (64, 64, 1), (0, 5, 3), (5, 0, 3), (3, 2, 0)]


@spec("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox")
def distorted_boxes(g, op):
    stateless, is_first = op.startswith("Stateless"), op == "SampleDistortedBoundingBox"

    def case(size, box, covered=0.1, seed=(3, 5), texts=False, **attrs):
        size = np.asarray(size) if isinstance(size, np.ndarray) else np.int32(size)
        if stateless:
            return Case(size, np.asarray(box, "float32"), np.float32(covered), np.asarray(seed) if isinstance(seed, np.ndarray) else np.int64(seed), texts=texts, **attrs)
        attrs |= dict(zip(("seed", "seed2"), map(int, seed)))
        if is_first:
            attrs["min_object_covered"] = float(covered)
        return Case(size, np.asarray(box, "float32"), *([] if is_first else [np.float32(covered)]), texts=texts, **attrs)

    for size, window, covered in itertools.product(SIZES, WINDOWS, (0, 0.1, 0.9)):
        yield case(size, boxes(g, 1 + int(g.rng.integers(3))), covered, g.rng.integers(1, 1000, 2), **window)
    for dtype in ("uint8", "int8", "int16", "int64", "int32"):
        for seed in ((1, 2), (7, -3)):
            yield case(np.array([100, 120, 3], dtype), boxes(g, 2), seed=np.int32(seed) if stateless else seed)
    one = [[[0.2, 0.3, 0.6, 0.7]]]
    for size in [(100, 200), (1, 2, 3, 4), ((100, 200, 3),), (-5, 200, 3), (100, -1, 3), (2**31 - 1, 5, 3), (100, 2**31 - 1, 3)]:
        yield case(size, one, texts=True)
    for size in [(2**31 - 1, 5, 3), (5, 2**40, 3), (-1, 5, 3)]:
        yield case(np.int64(size), one, texts=True)
    for box in [one[0], [[[0.1, 0.2, 0.3]]], one * 2, [[[0.1, 0.2, 0.3, 1.4]]], [[[-0.1, 0.2, 0.3, 0.4]]], [[[0.6, 0.2, 0.3, 0.4]]], [[[np.nan, 0.2, 0.3, 0.4]]], [[[0.3] * 4]], [[[0, 0, 0.001, 1]]], np.zeros((1, 0, 4)),
                np.zeros((0, 2, 4)), [one]]:
        for use in (False, True):
            yield case((100, 200, 3), box, texts=True, use_image_if_no_bounding_boxes=use)
    for covered in (-1, 2, np.nan, np.inf, 1) + (() if is_first else ([0.1], [0.1, 0.2], [])):
        yield case((100, 200, 3), one, covered, texts=True)
    for how in [dict(aspect_ratio_range=[1.0]), dict(aspect_ratio_range=[2.0, 1.0]), dict(aspect_ratio_range=[0.0, 1.0]), dict(aspect_ratio_range=[-1.0, 1.0]), dict(aspect_ratio_range=[1.0, 2.0, 3.0]), dict(area_range=[0.5]),
                dict(area_range=[0.0, 0.2]), dict(area_range=[-0.5, 0.2]), dict(area_range=[0.5, 1.2]), dict(max_attempts=0), dict(max_attempts=-1), dict(max_attempts=1)]:
        yield case((100, 200, 3), one, texts=True, **how)
    if stateless:
        for seed in ([1], [1, 2, 3], 1, [[1, 2]]):
            yield case((100, 200, 3), one, seed=seed, texts=True)
        return

    def build(tf, size, box):
        how = dict(min_object_covered=0.1) if is_first else dict(min_object_covered=tf.constant(0.1))
        drawn = getattr(tf.raw_ops, op)(image_size=size, bounding_boxes=box, seed=4, seed2=9, max_attempts=10, **how)
        return [list(drawn)] * 3

    yield Graph(build, np.int32([50, 60, 3]), np.float32(one), name=f"{op} three times")
@spec("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", ulps=4)
def learned(g, op):
    def graph(classes, n_true, **attrs):
        def build(tf, x):
            return [list(getattr(tf.raw_ops, op)(true_classes=tf.compat.v1.placeholder_with_default(x, None), num_true=n_true, **attrs))] * 4
        return Graph(build, np.array(classes, np.int64), name=f"{np.shape(classes)} {n_true} {attrs}", texts=True)

    for k in range(200):
        n = int(g.rng.integers(1, 40))
        top = int(g.rng.choice([n, n + 1, 2 * n, 64, 100, 12345, 1 << 20]))
        unique = bool(k % 2) and n <= top and not (top == n > 8)
        shape = ((20, 2), (3, 1), (0, 2), (2, 30))[k % 4]
        yield graph(g.rng.integers(0, max(1, top // 2), shape), shape[1], num_sampled=n, unique=unique, range_max=top, seed=k,
                    seed2=int(g.rng.integers(1, 99)))
    for classes, n_true, n, unique in (([[11, -1]], 2, 5, False), ([[1, -1]], 2, 5, False), ([[1, 2]], 1, 5, False), ([1, 2], 2, 5, False),
                                       ([[1]], 1, 11, True), ([[20]], 1, 11, True), (1, 1, 5, True), ([[[1]]], 1, 5, True)):
        yield graph(classes, n_true, num_sampled=n, unique=unique, range_max=10, seed=1, seed2=2)


@spec("FixedUnigramCandidateSampler", ulps=4)
def fixed(g, op):
    place = tempfile.mkdtemp(prefix="slipway-vocabulary-")

    def file(text):
        """Returns the name of a file with the text."""
        name = os.path.join(place, f"{zlib.crc32(text):08x}.txt")
        pathlib.Path(name).write_bytes(text)
        return name

    def graph(top, classes=((1, 2), (1, 1)), repeats=3, texts=True, **attrs):
        shown = {k: os.path.basename(v) if k == "vocab_file" else str(v)[:60] for k, v in attrs.items()}
        attrs = {"num_sampled": 6, "unique": False, "seed": 1, "seed2": 2, **attrs}

        def build(tf, x):
            out = list(tf.raw_ops.FixedUnigramCandidateSampler(true_classes=tf.compat.v1.placeholder_with_default(x, None), num_true=np.shape(classes)[-1],
                                                               range_max=top, **attrs))
            return [out] * repeats
        return Graph(build, np.array(classes, np.int64), name=f"{top} {np.shape(classes)} {shown}", texts=texts)

    for top, text in ((5, b"a,1\nb,2\nc,x3,0.5\nd,4\ne,1e1\n"), (3, b"a,1\n\nb,2\nc,3"), (3, b"a,1\nb,q\nc,1\n"), (3, b"a,1\nb,2\n"), (3, b"1\r\n2\r\n3"),
                      (3, b""), (3, b"a,1\nb,\nc,2\n"), (3, b"a, 1 \nb,2.5e0\nc,0x2\n")):
        yield graph(top, vocab_file=file(text))
        yield graph(top, vocab_file=file(text), num_shards=2, shard=1, num_reserved_ids=3)
    three = [1.0, 2.0, 3.0]
    yield graph(5, vocab_file="none.txt")
    yield graph(5)
    yield graph(3, vocab_file=file(b"1\n2\n3\n"), unigrams=three)
    for top, more in ((4, {}), (5, {"num_reserved_ids": 2}), (3, {"num_reserved_ids": -1}), (3, {"num_reserved_ids": 2**31}), (3, {"num_shards": 1, "shard": 1}),
                      (3, {"distortion": 0.5}), (3, {"distortion": 0.0}), (3, {"distortion": -1.0}), (3, {"unique": True, "num_sampled": 3}),
                      (3, {"unique": True, "num_sampled": 4}), (3, {"classes": ((3,),)}), (3, {"classes": ((-1,),)}), (3, {"classes": (1, 2)})):
        yield graph(top, unigrams=three, **more)
    for unigrams in ([1.0, -2.0, 3.0], [0.0, 0.0, 0.0], [1.0, float("nan"), 2.0], [1.0, float("inf"), 2.0], [1e38, 3e38, 3e38], [1.0, 1.0, 1.0]):
        yield graph(3, unigrams=unigrams)
    for k in range(180):
        n = int(g.rng.integers(1, 120))
        weights = [float(x) for x in (g.rng.random(n).astype(np.float32) if k % 3 else g.rng.integers(1, 9, n))]
        n_reserved = int(g.rng.integers(0, 4))
        shards = int(g.rng.integers(1, 4)) if n > 12 else 1
        shard = int(g.rng.integers(0, shards))
        reserved = len([i for i in range(n_reserved) if i % shards == shard])
        top = reserved + len([i for i in range(n) if (reserved + i) % shards == shard])
        unique = bool(k % 2)
        yield graph(top, classes=g.rng.integers(0, top, (3, 2)), unigrams=weights, num_reserved_ids=n_reserved, num_shards=shards, shard=shard, seed=k,
                    distortion=float(g.rng.choice([1, 1, 0.75, 2])), unique=unique,
                    num_sampled=int(g.rng.integers(1, max(2, (top - reserved) // 2 if unique else 40))))


ISOTONIC = [("float32", "float32"), ("float64", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("int8", "float32"),
            ("int16", "float32"), ("int32", "float64"), ("int64", "float64")]


@spec("IsotonicRegression")
def isotonic(g, op):
    for dtype, to in ISOTONIC:
        for shape in ((7,), (3, 40), (2, 3, 5), (1,), (), (0,), (2, 0), (0, 3), (1, 2, 1, 2, 1, 2, 1, 9)):
            for hi in (2, 30):
                x = g.rng.integers(-hi, hi, shape, endpoint=True)
                yield Case(np.asarray(x).astype(dtype_of(dtype)), output_dtype=to)
        yield Case(np.arange(60).astype(dtype_of(dtype)), output_dtype=to)
        yield Case(np.arange(60)[::-1].astype(dtype_of(dtype)), output_dtype=to)
    for dtype in FLOATS:
        for _ in range(4):
            yield Case(g.values(dtype, (4, 9)), output_dtype=dtype)
            yield Case(g.values(dtype, (2, 50), special=False), output_dtype=dtype, ulps=4)
    for dtype in ("int32", "int64"):
        yield Case(g.values(dtype, (5, 9)), output_dtype="float64")


@spec("SobolSample")
def sobol(g, op):
    def case(dim, n, skip, dtype="float32", **how):
        return Case(*[np.array(v, "int32") for v in (dim, n, skip)], dtype=dtype, **how)

    for dtype in ("float32", "float64"):
        for dim, n, skip in itertools.product((1, 2, 3, 5, 40, 333), (1, 2, 7, 64), (0, 1, 2, 63, 64, 1000, 2**20 - 3)):
            yield case(dim, n, skip, dtype)
        for dim in (38, 98, 159, 335, 480, 1110, 1866, 3666, 5714, 13424, 13425, 21200):  # where degrees begin and end
            yield case(dim, 2, 2**25 + 11, dtype)
            yield case(dim, 3, 2**29 - 1, dtype)
        yield case(3, 700, 0, dtype)
        for skip in (2**30 - 5, 2**30 - 4, 2**30 - 3, 2**30, 2**31 - 5):
            yield case(7, 3, skip, dtype)  # TensorFlow's samples become negative.
        yield case(2, 3, 2**31 - 4, dtype, texts=True)
    for dim, n, skip in [(0, 1, 0), (-1, 1, 0), (21201, 1, 0), (2, 0, 0), (2, -1, 0), (2, 1, -1), ([2], 1, 0), (2, [1], 0), (2, 1, [0]), ([2, 3], 1, 0), (0, 0, -1), ([], 1, 0)]:
        yield case(dim, n, skip, texts=True)
    yield Case(*[Const(np.int32(v)) for v in (4, 9, 5)])
