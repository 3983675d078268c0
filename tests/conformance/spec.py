"""Helpers for writing specifications. See README.md in this folder."""

import types
import zlib

import ml_dtypes
import numpy as np

__all__ = """np bfloat16 spec Case Const Graph Gen SPECS SIGNED UNSIGNED INTS HALFS FLOATS WIDE_FLOATS REALS
COMPLEX NUMBERS PLAIN QUANTISED dtype_of""".split()

bfloat16 = ml_dtypes.bfloat16

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
HALFS = ["float16", "bfloat16"]
WIDE_FLOATS = ["float32", "float64"]
FLOATS = WIDE_FLOATS + HALFS
REALS = INTS + FLOATS
COMPLEX = ["complex64", "complex128"]
NUMBERS = REALS + COMPLEX
PLAIN = NUMBERS + ["bool"]
# TensorFlow's Python package represents a quantised type by a structure with one integer field. The field has the name
# of the quantised type.
QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}

SPECS = []  # all specifications, in the order in which they are defined


def dtype_of(name):
    """Returns the numpy dtype with the given name, including bfloat16 and quantised types, which numpy itself lacks."""
    if name in QUANTISED:
        return np.dtype([(name, QUANTISED[name])])
    return np.dtype(bfloat16) if name == "bfloat16" else np.dtype(object if name == "string" else name)


class Spec:
    def __init__(self, op, make, onednn, tolerance):
        self.op, self.make, self.onednn, self.tolerance = op, make, onednn, tolerance

    def cases(self):
        return self.draw(0)[0]

    def draw(self, seed):
        """Returns the cases with the numbers of a seed, and whether they have random numbers."""
        g = Gen(zlib.crc32(self.op.encode()) + (seed << 32))
        before, cases = g.rng.bit_generator.state, list(self.make(g, self.op))
        for case in cases:
            case.op = self.op
            case.tolerance = {**self.tolerance, **case.tolerance}
        return cases, g.rng.bit_generator.state != before


def spec(*ops, onednn=False, **tolerance):
    """Returns a decorator for a generator function. For each op in `ops`, the function is called with (g, op) and yields
    the op's cases. `onednn`: TensorFlow runs the op only with its oneDNN kernels."""

    def register(make):
        SPECS.extend(Spec(op, make, onednn, tolerance) for op in ops)
        return make

    return register


class Const:
    """An input that is a constant of the graph and is not fed."""

    def __init__(self, value):
        self.value = np.asarray(value)


class Case:
    def __init__(self, *inputs, ulps=None, rtol=None, atol=None, signs=None, outputs=None, check=None, texts=False, **attrs):
        self.inputs, self.attrs, self.outputs, self.check, self.texts = inputs, attrs, outputs, check, texts
        self.tolerance = {k: v for k, v in dict(ulps=ulps, rtol=rtol, atol=atol, signs=signs).items() if v is not None}
        self.op = None

    def __str__(self):
        def text(x):
            if isinstance(x, (list, tuple)):
                return "[" + ", ".join(map(text, x)) + "]"
            if isinstance(x, Const):
                return "const " + text(x.value)
            x = np.asarray(x)
            x = x.view(x.dtype[0]) if x.dtype.names and x.shape else x
            small = np.array2string(x, threshold=8) if x.size <= 6 else ""
            return f"{x.dtype}{list(x.shape)}{small}"

        attrs = "".join(f", {k}={v}" for k, v in self.attrs.items())
        return f"{self.op}({', '.join(map(text, self.inputs))}{attrs})"


def bound(function):
    """Returns a copy of a function in which free variables keep their current values. Otherwise, all graphs that a loop
    yields would be built with the values of the last iteration."""
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function
    cells = tuple(types.CellType(bound(cell.cell_contents)) for cell in function.__closure__)
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class Graph:
    """A case of several nodes or several runs (see README.md)."""

    def __init__(self, build, *feeds, name="", ulps=None, rtol=None, atol=None, check=None, texts=False):
        self.build, self.feeds, self.name, self.check, self.outputs = bound(build), feeds, name, check, None
        self.texts = texts
        self.records = True  # whether recording.py may record the case
        self.tolerance = {k: v for k, v in dict(ulps=ulps, rtol=rtol, atol=atol).items() if v is not None}
        self.op = None

    def __str__(self):
        return f"{self.op}: graph {self.name or self.build.__name__}"


class Gen:
    """Generates the inputs of cases. The inputs are the same in every run."""

    SHAPES = [(), (1,), (0,), (7,), (3, 5), (2, 0, 3), (33,), (1, 1, 1), (2, 1, 3, 2), (2, 1, 1, 2, 1, 3, 1, 2), (259,)]
    BROADCASTS = [
        ((), ()), ((3,), ()), ((), (4,)), ((0,), ()), ((0,), (1,)), ((5,), (5,)), ((2, 3), (3,)), ((3,), (2, 3)),
        ((2, 3), (2, 1)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)), ((1,), (1, 1, 1)), ((2, 0, 3), (1, 3)),
        ((70,), (70,)), ((5, 67), (67,)), ((5, 67), (5, 1)), ((2, 3, 4, 5), (3, 1, 5)), ((2, 3, 4, 5), (2, 3, 4, 5)),
        ((2, 1, 2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3, 1, 3)), ((2, 3), (4,)), ((2, 3), (3, 2)), ((0,), (2,)),
    ]

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def values(self, dtype, shape, lo=None, hi=None, special=True):
        """Returns numbers in [lo, hi]. If `special` is true, floats include NaN, infinities, both zeros and extreme
        values, and integers without lo and hi include extreme values."""
        rng, n = self.rng, int(np.prod(shape))
        d = dtype_of(dtype)
        if dtype in QUANTISED:
            return self.values(QUANTISED[dtype], (n,), lo, hi, special).view(d).reshape(shape)
        if dtype == "bool":
            return rng.integers(0, 2, n).astype(bool).reshape(shape)
        if dtype == "string":
            words = [b"", b"a", b"b", b"ab", b"slipway", b"a rather longer text of 31 byte", b"\xff\x00z", "über".encode()]
            return np.array([words[i] for i in rng.integers(0, len(words), n)] + [None], object)[:-1].reshape(shape)
        if d.kind in "iu":
            info = np.iinfo(d)
            bounded = lo is not None or hi is not None
            low = max(info.min, -20 if lo is None else lo)
            high = min(info.max, 20 if hi is None else hi)
            x = rng.integers(low, high, n, d, endpoint=True)
            if special and not bounded and n:
                pool = np.array([info.min, info.max, 0, 1, info.max // 2 + 1], d)
                mask = rng.random(n) < 0.25
                x[mask] = rng.choice(pool, mask.sum())
            return x.reshape(shape)
        if d.kind == "c":
            part = "float32" if d == np.complex64 else "float64"
            return (self.values(part, shape, lo, hi, False) + 1j * self.values(part, shape, lo, hi, False)).astype(d)
        low, high = -10.0 if lo is None else lo, 10.0 if hi is None else hi
        x = np.array(rng.uniform(low, high, n))
        if special and n:
            info = ml_dtypes.finfo(d)
            pool = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, float(info.max), float(info.min),
                             float(info.smallest_normal)])
            if lo is not None or hi is not None:
                pool = pool[~((pool < low) | (pool > high))]
            mask = rng.random(n) < 0.2
            x[mask] = rng.choice(pool, mask.sum())
        with np.errstate(over="ignore"):
            x = x.astype(d).reshape(shape)
        return x

    def tensors(self, dtype, **how):
        return [self.values(dtype, s, **how) for s in self.SHAPES]

    def broadcasts(self, dtype, dtype2=None, **how):
        return [(self.values(dtype, a, **how), self.values(dtype2 or dtype, b, **how)) for a, b in self.BROADCASTS]
