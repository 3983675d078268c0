"""Test cases for the ops of TensorFlow Text that trim, split and join the rows of ragged tensors. Inputs that make TensorFlow
Text crash or read beyond its tensors are left out: row splits that decrease, end beyond the values, or differ in number;
and no row splits in NgramsStringJoin, which damages its memory then."""

import tensorflow_text  # noqa: F401 (registers the ops)

from spec import *

STRINGS = [b"", b"a", b"bc", "é日".encode(), b"\xff\x00", b"a longer string, which is stored elsewhere"]


def strings(g, n):
    return np.array([STRINGS[i] for i in g.rng.integers(0, len(STRINGS), n)] + [None], object)[:-1]


def splits(g, n_rows, first=0, most=6):
    return np.cumsum([first, *g.rng.integers(0, most, n_rows)])


def values(g, n, dtype):
    if dtype == "string":
        return strings(g, n)
    return g.rng.integers(0, 2 if dtype == "bool" else 100, n).astype(dtype)


def trims(g, dtypes):
    """Yields the inputs of the two ops. The row splits may begin late and end before the values do."""
    for dtype in dtypes:
        for i in range(16):
            n_rows, n = int(g.rng.integers(0, 5)), int(g.rng.integers(1, 5))
            rows = [splits(g, n_rows, first=i % 3 // 2) for _ in range(n)]
            yield (np.int32(g.rng.integers(-1, 16)), [values(g, int(s[-1]) + i % 2, dtype) for s in rows],
                   [s.astype(["int64", "int32"][i % 2]) for s in rows])
    for most in (0, 1, 399, 400, 401, 799, 800, 801, 2**31 - 1):
        rows = [np.array([0, 400]), np.array([0, 1]), np.array([0, 800])]
        yield np.int32(most), [values(g, int(s[-1]), dtypes[0]) for s in rows], rows


NUMBERS = ["int64", "int32", "int8", "uint8", "int16", "uint64", "float32", "float64", "bool", "string"]


@spec("TFText>RoundRobinTrim")
def round_robin_trim(g, op):
    for inputs in trims(g, NUMBERS):
        yield Case(*inputs)


@spec("TFText>RoundRobinGenerateMasks")
def round_robin_masks(g, op):
    for inputs in trims(g, [*NUMBERS, "uint16", "uint32"]):
        yield Case(*inputs)


@spec("TFText>ByteSplitWithOffsets")
def byte_split(g, op):
    for n in (0, 1, 2, 5, 9) * 40:
        yield Case(strings(g, n))
    yield Case(np.array([b"x" * 5000, b"", bytes(range(256))], object))


def cut_at(g, texts, wrong=False):
    """Returns pairs of offsets, and the row splits that assign them to the strings."""
    begins, ends, rows = [], [], [0]
    for text in texts:
        for _ in range(int(g.rng.integers(0, 4))):
            a, b = sorted(g.rng.integers(0, len(text) + 1, 2))
            if wrong and g.rng.random() < 0.3:
                a, b = g.rng.integers(-1, len(text) + 2, 2)
            begins.append(a)
            ends.append(b)
        rows.append(len(begins))
    return np.array(begins, "int32"), np.array(ends, "int32"), np.array(rows)


@spec("TFText>ByteSplitByOffsets")
def byte_split_by_offsets(g, op):
    for i in range(240):
        texts = strings(g, [0, 1, 2, 5, 9][i % 5])
        yield Case(texts, *cut_at(g, texts, wrong=i % 3 == 0), texts=True)
    texts, one = np.array([b"hello"], object), np.array([0, 1])
    for begin, end in ((6, 6), (6, 7), (0, 6), (0, -1), (-1, -1), (3, 1), (5, 5)):
        yield Case(texts, np.array([begin], "int32"), np.array([end], "int32"), one, texts=True)
    yield Case(texts, np.array([0, 1], "int32"), np.array([2, 2, 3], "int32"), np.array([0, 1, 1, 7]))


def joined(words, rows, texts=False, **attrs):
    """A case of NgramsStringJoin, which TensorFlow Text builds only where the ranks are known."""

    def build(tf, words_fed, *rows_fed):
        from tensorflow.python.framework import op_def_library

        inputs = tf.ensure_shape(words_fed, [None] * words.ndim), [tf.ensure_shape(x, [None]) for x in rows_fed]
        return list(op_def_library._apply_op_helper(
            "TFText>NgramsStringJoin", name="op", input_values=inputs[0], input_row_splits=inputs[1], **attrs)[2].outputs)

    return Graph(build, words, *rows, texts=texts, name=" ".join(f"{k}={v}" for k, v in attrs.items()))


@spec("TFText>NgramsStringJoin")
def ngrams(g, op):
    for width in (1, 2, 3, 4, 0, -1, 9):
        for separator in (" ", "", "--", "é"):
            attrs = dict(width=width, axis=-1, string_separator=separator)
            for _ in range(2):
                inner = splits(g, int(g.rng.integers(0, 6)), most=7)
                words = strings(g, int(inner[-1]))
                yield joined(words, [inner], **attrs)
                yield joined(words, [np.array([0, int(g.rng.integers(0, len(inner))), len(inner) - 1]), inner], **attrs)
    for axis in (0, 1, -2, 5):
        yield joined(strings(g, 3), [np.array([0, 2, 3])], width=2, axis=axis, string_separator="", texts=True)
    yield joined(strings(g, 5), [np.array([1, 2, 4])], width=1, axis=-1, string_separator="")
