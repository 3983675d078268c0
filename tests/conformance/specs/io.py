"""Assertions and printing."""

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
