"""Test cases for Fourier transforms (kernels/signal)."""

from spec import *

NEAR = {"complex64": 3e-7, "complex128": 5e-16, "float32": 3e-7, "float64": 5e-16}
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 23, 27, 30, 31, 32, 36, 37, 41, 49, 60, 64, 74, 97, 100, 101, 121, 128, 169, 210, 243, 256,
           257, 360, 400, 512, 625, 961, 1000, 1009, 1024, 2047, 2048, 3000, 4096, 4099, 5000, 8192, 10007, 16384, 30030]


def axes_of(op):
    return 3 if "3D" in op else 2 if "2D" in op else 1


def shapes(axes):
    if axes == 1:
        return [(n,) for n in LENGTHS] + [(3, n) for n in LENGTHS[:40]] + [(20, n) for n in LENGTHS[:48:3]] + [(2, 1, 2, 1, 2, 1, 2, 12)]
    small = [1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 37]
    some = [(a, b) for a in small for b in small] if axes == 2 else [(a, b, c) for a in small[:6] for b in small[:8:2] for c in small[:6]]
    return some + [(2,) + s for s in some[::7]] + [(64, 48), (300, 260), (1, 1000), (1000, 1)][: 4 if axes == 2 else 0] + [(2, 1, 2, 1, 2) + (4,) * axes]


def near(case, theirs, ours):
    """The error of a transform is relative to the root mean square of all elements."""
    a, b = theirs[0], ours[0]
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {a.shape}, we {b.dtype} {b.shape}"
    off, most = np.abs(a - b).max(initial=0), np.sqrt(np.mean(np.abs(a) ** 2)) if a.size else 0
    return f"off by {off} of {most}" if not off <= 8 * NEAR[str(a.dtype)] * most else None


def num(g, dtype, *shape):
    return g.values(dtype, shape, special=False)


@spec("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def complex_(g, op):
    axes = axes_of(op)
    for dtype in COMPLEX:
        for s in shapes(axes):
            yield Case(num(g, dtype, *s), check=near)
        for s in [(0,) * axes, (2,) + (0,) * axes, (0,) + (3,) * axes, (3,) * (axes - 1) + (0,)]:
            yield Case(num(g, dtype, *s))
        for s in [(), (3,), (3, 3)][:axes]:
            yield Case(num(g, dtype, *s))
        x = num(g, dtype, *((4,) * axes))
        for bad in (np.nan, np.inf):
            x.reshape(-1)[1] = bad
            yield Case(x.copy(), check=lambda case, a, b: None if not np.isfinite(b[0]).any() or axes > 1 or not np.isfinite(a[0]).any() else "finite results")


@spec("RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")
def real(g, op):
    axes, inverse = axes_of(op), op[0] == "I"
    for complex_type, real_type in zip(COMPLEX, WIDE_FLOATS):
        types = dict(Treal=real_type) if inverse else dict(Tcomplex=complex_type)
        dtype = complex_type if inverse else real_type
        how = dict(check=near, **types)
        for k, s in enumerate(shapes(axes)):
            length = np.int32(s[len(s) - axes:])
            extra = [0, 1, 3][k % 3]
            last = (s[-1] // 2 + 1 if inverse else s[-1]) + extra
            outer = tuple(n + (k % 2) for n in s[len(s) - axes: -1])
            yield Case(num(g, dtype, *s[: len(s) - axes], *outer, last), Const(length) if k % 4 else length, **how)
        for s, length in [((0,) * axes, (4,) * axes), ((2,) + (0,) * axes, (4,) * axes), ((0,) + (4,) * axes, (4,) * axes)]:
            # TensorFlow leaves the result uninitialised, and Slipway writes zeros.
            yield Case(num(g, dtype, *s), np.int32(length), check=lambda case, a, b: None if a[0].shape == b[0].shape and not b[0].any() else "shape", **types)
        if not inverse:
            for s, length in [((2,) + (0,) * axes, (0,) * axes), ((0,) + (3,) * axes, (0,) * axes)]:
                yield Case(num(g, dtype, *s), np.int32(length), **types)
        for s, length in [((4,) * axes, (-1,) * axes), ((4,) * axes, (4,) * (axes + 1)), ((4,) * (axes - 1), (4,) * axes), ((4,) * axes, (9,) + (2,) * (axes - 1)),
                          ((4,) * axes, (2,) * (axes - 1) + (9,)), ((0,) + (1,) * axes, (7,) * axes), ((3,) * (axes - 1) + (0,), (7,) * axes)][: 7 if axes > 1 else 6]:
            yield Case(num(g, dtype, *s), np.int32(length), **types)
        yield Case(num(g, dtype, *(4,) * axes), np.int32(4), **types)
        yield Case(num(g, dtype, *(4,) * axes), np.int32([4] * axes), **(dict(Treal="float64" if real_type == "float32" else "float32") if inverse else dict(Tcomplex=COMPLEX[complex_type == COMPLEX[0]])))
