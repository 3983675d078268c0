"""Test cases for the ops of TensorFlow Text that label tokens and compare sequences. Inputs that make TensorFlow Text crash
or read beyond its tensors are left out: row splits that decrease, end too late, or differ in number."""

import tensorflow_text  # noqa: F401 (registers the ops)

from spec import *

TYPES = ["loc", "per", "", "é", "a-b", "a long type, which is stored elsewhere"]
TAGS = ["O", "O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-", "S-x-y", "B", "", "-", "X-a", "b-a", "O-a", "Ox", "Bx", "SS-", "é-a"]


def vector(values, kind=object):
    return np.array([v.encode() if isinstance(v, str) else v for v in values] + [None], object)[:-1].astype(kind)


def ranges(g, n_rows, loose=False):
    """Returns beginnings, ends and row splits of ranges; loose ones are in any order."""
    begins, ends, rows = [], [], [0]
    for _ in range(n_rows):
        at = 0
        for _ in range(int(g.rng.integers(0, 7))):
            if loose and g.rng.random() < 0.3:
                at = int(g.rng.integers(-2, 20))
            at += int(g.rng.integers(0, 3))
            begins.append(at)
            at += int(g.rng.integers(-1 if loose else 0, 6))
            ends.append(at)
        rows.append(len(begins))
    return np.int32(begins), np.int32(ends), np.array(rows, "int64")


@spec("TFText>OffsetsToBoiseTags")
def to_tags(g, op):
    for i in range(300):
        n_rows = int(g.rng.integers(0, 4))
        tb, te, tr = ranges(g, n_rows, i % 3 == 0)
        sb, se, sr = ranges(g, n_rows, i % 4 == 0)
        types = vector([TYPES[k] for k in g.rng.integers(0, len(TYPES), len(sb))])
        yield Case(tb, te, sb, se, types, tr, tr, sr, sr, sr, np.array(i % 2 == 0))
    one, rows = np.int32([0]), np.array([0, 1])
    for n in ((2, 1, 1, 1, 1), (1, 2, 1, 1, 1), (1, 1, 2, 1, 1), (1, 1, 1, 2, 1), (1, 1, 1, 1, 2)):
        inputs = [np.repeat(one, k) for k in n[:4]] + [vector(["a"] * n[4])]
        yield Case(*inputs, *[rows] * 5, np.array(True), texts=True)


@spec("TFText>BoiseTagsToOffsets")
def to_offsets(g, op):
    for i in range(300):
        tb, te, tr = ranges(g, int(g.rng.integers(0, 4)), i % 3 == 0)
        tags = vector([TAGS[k] for k in g.rng.integers(0, 10 if i % 2 else len(TAGS), len(tb))])
        yield Case(tb, te, tags, tr, tr, tr)
    one, rows, two = np.int32([0]), np.array([0, 1]), np.array([0, 0, 1])
    for n in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        yield Case(np.repeat(one, n[0]), np.repeat(one, n[1]), vector(["S-a"] * n[2]), rows, rows, rows, texts=True)
    for splits in ((two, rows, rows), (rows, two, rows), (rows, rows, two)):
        yield Case(one, one, vector(["S-a"]), *splits, texts=True)


@spec("RougeL")
def rouge(g, op):
    for dtype in ("int32", "int64", "string"):
        for i in range(80):
            n_rows = int(g.rng.integers(0, 5))
            rows, inputs = [np.cumsum([0, *g.rng.integers(0, 9, n_rows)]).astype(["int64", "int32"][i % 2]) for _ in range(2)], []
            for r in rows:
                values = g.rng.integers(0, 4, int(r[-1]) + i % 3)
                inputs += [vector([TYPES[k] for k in values]) if dtype == "string" else values.astype(dtype), r]
            yield Case(*inputs, np.float32(g.rng.choice([-1, -0.5, 0, 0.1, 0.3, 0.5, 0.77, 1, -np.inf])))
    one = [np.int64([1, 2, 3]), np.array([0, 3])]
    for alpha in (1.0000001, 2, 123456.7, 1e20, 0.1234567, np.inf, np.nan):
        yield Case(*one, *one, np.float32(alpha), texts=True)
    yield Case(*one, one[0], np.array([0, 3, 3]), np.float32(0.5), texts=True)
    for splits in (np.array([], "int64"), np.array([0]), np.array([1, 3])):
        yield Case(one[0], splits, one[0], splits, np.float32(0.5), texts=True)
    for k in range(4):
        inputs = [*one, *one]
        inputs[k] = inputs[k][None]
        yield Case(*inputs, np.float32(0.5), texts=True)
    long = [g.rng.integers(0, 9, 300), np.array([0, 200, 300])]
    yield Case(*long, long[0][::-1].copy(), np.array([0, 150, 300]), np.float32(0.4))
