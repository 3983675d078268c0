"""Assertions, printing, and the ops that move a vocabulary, or a matrix in a checkpoint, to a new order."""

import os
import pathlib
import tempfile
import zlib

from spec import *


@spec("Assert")
def assert_(g, op):
    def case(*data, condition=False, summarize=3):
        return Case(np.array(condition), list(data), summarize=summarize)

    text = np.array([b"hello", b'a"b\n', b"\x01'", None], object)[:-1]
    yield case(text[0:1].reshape(()), condition=True)
    yield Case(np.array([False]), [np.int32(1)])
    for n in (-1, 0, 1, 3, 100):
        yield case(text, np.arange(5), np.float32([[1.5, 2], [3, 4]]), summarize=n)
        yield case(np.int8([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), summarize=n)
    for dtype in PLAIN:
        if not dtype.startswith("complex"):
            yield case(g.values(dtype, (8,)), summarize=-1)
    yield case(np.zeros((2, 0), np.float32), np.zeros(0, np.float32))
    yield case(np.float64([1 / 3, 1e-5, 1234567, 1e22]), np.float32([1 / 3, 2e20, 16777217]), summarize=-1)


@spec("Print")
def print_(g, op):
    yield Case(g.values("float32", (2, 3)), [np.int32(1)], message="x")


def text(x):
    return np.array(x, object)


@spec("GenerateVocabRemapping")
def vocabulary(g, op):
    place = tempfile.mkdtemp(prefix="slipway-remapping-")

    def file(words):
        data = words if isinstance(words, bytes) else b"".join(w + b"\n" for w in words)
        path = pathlib.Path(place, f"{zlib.crc32(data):08x}.txt")
        path.write_bytes(data)
        return os.fsencode(path)

    def case(new, old, offset=0, n=3, size=-1):
        return Case(text(new), text(old), new_vocab_offset=offset, num_new_vocab=n, old_vocab_size=size, texts=True)

    new, old = file(b"a\nb\nc\nd\ne\n"), file(b"d\nx\na\nb\n")
    blank, twice, returns, empty = file(b"a\n\nb\n\n"), file(b"a\nb\na\n"), file(b"a\r\nb"), file(b"")
    for offset, n, size in ((0, 5, -1), (1, 3, -1), (4, 3, -1), (5, 1, -1), (9, 1, -1), (0, 0, -1), (5, 0, -1), (9, 0, -1), (0, 5, 2), (0, 5, 4), (0, 5, 9), (0, 5, 0),
                            (0, 9, -1), (2, 2, 3)):
        yield case(new, old, offset, n, size)
    for a in (new, blank, twice, returns, empty, b"none", b"nothing", b""):
        for b in (old, blank, twice, returns, empty, b"none", b"nothing", b""):
            for n, size in ((2, -1), (0, 2)):
                yield case(a, b, 0, n, size)
    for offset in (0, 9):
        yield case(new, b"none", offset)
        yield case(new, b"", offset)
        yield case(new, blank, offset)
    yield case([new], old)
    yield case(b"none", [old])
    yield case([new], [old])
    yield case(new, [[old]])
    for _ in range(60):
        some = [bytes(f"word{k}", "ascii") for k in g.rng.permutation(40)]
        a, b = some[: g.rng.integers(1, 40)], [some[k] for k in g.rng.permutation(40)[: g.rng.integers(1, 40)]]
        offset = int(g.rng.integers(0, len(a)))
        yield case(file(a), file(b), offset, int(g.rng.integers(0, len(a) - offset + 1)), int(g.rng.choice([-1, g.rng.integers(1, len(b) + 1)])))


@spec("LoadAndRemapMatrix")
def matrix(g, op):
    f, place = np.float32, tempfile.mkdtemp(prefix="slipway-remapping-")

    def graph(rows, columns=(), values=(), n_rows=None, n_columns=4, most=-1, name=b"m", path=None, parted=False):
        stored = [np.arange(20, dtype=f).reshape(5, 4), f([1, 2]), np.float64([[1]]), np.zeros((0, 4), f), np.float16([[1]])]
        names, slices = ["m", "v", "d", "e", "h"], [""] * 5
        if parted:
            stored, names, slices = [stored[0][:2], stored[0][2:]], ["m", "m"], ["5 4 0,2:-", "5 4 2,3:-"]
        # Both sides write the same file, so each case has its own.
        shown = f"{rows} {columns} {values} {n_rows} {n_columns} {most} {name} {path} {parted}"
        own = os.path.join(place, f"{zlib.crc32(shown.encode()):08x}")

        def build(tf, r, c, v, p, t):
            save = tf.raw_ops.SaveV2(prefix=own, tensor_names=names, shape_and_slices=slices, tensors=stored)
            load = tf.raw_ops.LoadAndRemapMatrix(ckpt_path=p, old_tensor_name=t, row_remapping=r, col_remapping=c, initializing_values=v, num_cols=n_columns,
                                                 num_rows=np.size(rows) if n_rows is None else n_rows, max_rows_in_memory=most)
            return [[save], [load]]

        return Graph(build, np.array(rows, np.int64), np.array(columns, np.int64), f(values), text(own.encode() if path is None else path), text(name),
                     name=shown, texts=True)

    one = [1, 2, 3, 4]
    for parted in (False, True):
        for rows, columns, values in (([0, 1, 2, 3, 4], [], []), ([4, 0], [], []), ([4, -1], [], one), ([4, -1], [], [1, 2, 3]), ([4, -1], [], one + [5]),
                                      ([-2, 0], [], one), ([1, 1], [], []), ([3, 1, 1, 3], [], []), ([-1, -1], [], one * 2), ([-1], [], one), ([], [], []),
                                      ([], [], [5]), ([0, -1], [], [[1, 2], [3, 4]])):
            yield graph(rows, columns, values, parted=parted)
        for rows, columns, values in (([4, -1], [3, 0, -1], one), ([4, 0], [3, 0, -1], [1, 2]), ([0], [0, -2], [7]), ([1], [1, 1], []), ([0], [0, -1], 9),
                                      ([0], [0, 1, 2, 3, -1], [5]), ([0], [0, 1], [5]), ([0], [-1, -1], [5, 6]), ([-1, 0], [-1, 1], [5, 6, 7])):
            yield graph(rows, columns, values, n_columns=len(columns), parted=parted)
        for most in (0, 1, 2, 3, 5, 9, -5, 2**62):
            yield graph([4, 0, -1, 2], [], one, most=most, parted=parted)
            yield graph([4, 1], [], [], most=most, parted=parted)
            for rows in ([5, 0], [7, -1], [1, 6], [1, 9, 3]):
                yield graph(rows, [], one, most=most, parted=parted)
    for more in ({"name": b"none"}, {"name": b"v"}, {"name": b"d"}, {"name": b"h"}, {"name": b"e"}, {"name": [b"m"]}, {"path": b"nofile"},
                 {"path": b""}, {"path": [b"nofile"]}, {"path": [b"a", b"b"]}, {"n_rows": 3}, {"n_rows": 0}, {"n_columns": 3}, {"columns": [0], "n_columns": 3},
                 {"columns": [0, 0, 0], "n_columns": 2}):
        yield graph([0], **more)
        yield graph([-1], values=one, **more)
    yield graph([[0]], n_rows=1)
    yield graph(0, n_rows=1)
    yield graph([], name=b"e")
    for _ in range(40):
        rows = [int(k) if k < 5 else -1 for k in g.rng.permutation(8)[: g.rng.integers(1, 8)]]
        columns = [int(k) if k < 4 else -1 for k in g.rng.permutation(6)[: g.rng.integers(1, 6)]]
        n = sum(r < 0 or c < 0 for r in rows for c in columns)
        yield graph(rows, columns, list(range(100, 100 + n)), n_columns=len(columns), most=int(g.rng.integers(-1, 6)))
