"""Test cases for convolution, pooling, normalisation, losses and images (kernels/conv, kernels/nn, kernels/image)."""

from spec import *


def num(g, dtype, *shape):
    return g.values(dtype, shape, special=False) if dtype not in INTS else g.values(dtype, shape, lo=-9 if dtype in SIGNED else 0, hi=9)


def tolerance(dtype):
    return {"float16": 3e-3, "bfloat16": 2.4e-2, "float32": 1e-5, "int32": 0}.get(dtype, 1e-12)


# ---- convolutions ----

CONVS = [  # each entry is (input shape, filter shape, strides, dilations)
    ((2, 5, 6, 3), (3, 3, 3, 4), (1, 1), (1, 1)),
    ((1, 7, 8, 2), (2, 3, 2, 5), (2, 1), (1, 1)),
    ((1, 9, 9, 3), (3, 3, 3, 4), (1, 1), (2, 3)),
    ((1, 9, 9, 3), (3, 3, 3, 4), (2, 2), (2, 1)),
    ((3, 4, 4, 6), (1, 1, 6, 7), (1, 1), (1, 1)),
    ((2, 5, 5, 4), (3, 3, 2, 6), (1, 1), (1, 1)),  # groups
    ((1, 6, 6, 8), (3, 3, 1, 8), (2, 2), (1, 1)),
    ((0, 5, 5, 3), (3, 3, 3, 4), (1, 1), (1, 1)),
    ((2, 2, 2, 3), (3, 3, 3, 4), (1, 1), (1, 1)),
    ((1, 16, 16, 32), (3, 3, 32, 64), (1, 1), (1, 1)),
    ((1, 20, 20, 3), (7, 7, 3, 16), (2, 2), (1, 1)),
    ((2, 5, 17, 32), (1, 7, 32, 48), (1, 1), (1, 1)),
    ((1, 9, 4, 48), (3, 1, 48, 32), (1, 1), (1, 1)),
]


@spec("Conv2D")
def conv2d(g, op):
    for dtype in FLOATS + ["int32"]:
        for x, f, s, d in CONVS:
            for padding in ("SAME", "VALID"):
                a, b = num(g, dtype, *x), num(g, dtype, *f)
                how = dict(strides=[1, *s, 1], dilations=[1, *d, 1], padding=padding, rtol=tolerance(dtype))
                yield Case(a, b, **how)
                if dtype in FLOATS:
                    yield Case(a, Const(b), **how)
        a, b = num(g, dtype, 2, 9, 9, 3), num(g, dtype, 3, 3, 3, 4)
        for pads in ([0, 0, 1, 2, 3, 4, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]):
            yield Case(a, Const(b), strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=pads, rtol=tolerance(dtype))
    for x, f in [
        ((5, 5, 3), (3, 3, 3, 4)),
        ((2, 5, 5, 3), (3, 3, 4)),
        ((2, 5, 5, 3), (3, 3, 2, 4)),
        ((2, 5, 5, 4), (3, 3, 2, 3)),
        ((1, 9, 9, 3), (0, 3, 3, 4)),
        ((1, 9, 9, 3), (3, 3, 3, 0)),
        ((1, 9, 9, 3), (3, 3, 0, 4)),
        ((1, 0, 9, 3), (3, 3, 3, 4)),
        ((1, 1, 1, 3), (3, 3, 3, 4)),
    ]:
        for padding in ("SAME", "VALID"):
            yield Case(num(g, "float32", *x), num(g, "float32", *f), strides=[1, 1, 1, 1], padding=padding, rtol=1e-5)
    yield Case(num(g, "float32", 2, 3, 5, 5), num(g, "float32", 3, 3, 3, 4), strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")


@spec("Conv")
def conv(g, op):
    # If a tensor is empty, TensorFlow does not give the output the batch dimensions of the input.
    def fits(x, f, d=(1, 1, 1)):
        return all(n > (m - 1) * k for n, m, k in zip(x[1:-1], f, d))

    def case(x, f, dtype="float32", texts=False, static=False, **attrs):
        a, b = num(g, dtype, *x), num(g, dtype, *f)
        how = dict(strides=[1] * len(f), padding="SAME") | attrs
        return Case(a, Const(b) if static else b, rtol=tolerance(dtype), texts=texts, **how)

    for dtype in FLOATS + ["int32"]:
        for x, f, s, d in CONVS:
            for padding in ("SAME", "VALID"):
                how = dict(strides=[1, *s, 1], dilations=[1, *d, 1], padding=padding)
                yield case(x, f, dtype, **how)
                if padding == "SAME" or fits(x, f, d):
                    yield case((2, 3, *x[1:]), f, dtype, batch_dims=2, static=True, **how)
        for x, f, s in [((2, 3, 4, 5, 3), (2, 2, 3, 3, 4), (1, 1, 1)), ((1, 5, 4, 6, 2), (3, 1, 2, 2, 3), (2, 1, 3)), ((1, 1, 1, 1, 2), (2, 2, 2, 2, 1), (1, 1, 1))]:
            for padding in ("SAME", "VALID"):
                yield case(x, f, dtype, strides=[1, *s, 1], padding=padding)
                if padding == "SAME" or fits(x, f):
                    yield case((2, 2, 1, *x[1:]), f, dtype, strides=[1, *s, 1], padding=padding, batch_dims=3)
                    yield case(x[1:], f, dtype, strides=[1, *s, 1], padding=padding, batch_dims=0)
        yield case((5, 6, 3), (2, 2, 3, 4), dtype, batch_dims=0)
        yield case((2, 1, 2, 1, 5, 6, 3), (2, 2, 3, 4), dtype, batch_dims=4)
        yield case((2, 5, 6, 3), (2, 2, 3, 4), dtype, padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
    for x in [(0, 5, 5, 3), (2, 0, 5, 3), (2, 5, 0, 3)]:
        yield case(x, (2, 2, 3, 4))
    yield case((2, 0, 0, 3), (2, 2, 3, 4), padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0])
    yield case((2, 5, 5, 3), (6, 2, 3, 4), padding="VALID")
    refused = [
        ((2, 5, 5, 4), (2, 2, 2, 4), dict(groups=2)), ((2, 5, 5, 4), (2, 2, 4, 4), dict(groups=0)), ((2, 5, 5, 4), (2, 2, 2, 4), {}),
        ((2, 5, 5, 5, 4), (2, 2, 2, 2, 4), {}), ((2, 5, 5, 5, 4), (2, 2, 2, 4, 4), dict(dilations=[1, 2, 2, 2, 1])),
        ((2, 5, 5, 3), (2, 2, 3, 4), dict(padding="EXPLICIT")), ((2, 5, 5, 3), (2, 2, 3, 4), dict(explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])),
        ((2, 5, 5, 3), (2, 2, 3, 4), dict(padding="EXPLICIT", explicit_paddings=[0, 0, 1, -1, 1, 1, 0, 0])),
        ((2, 5, 5, 3), (2, 2, 3, 4), dict(padding="EXPLICIT", explicit_paddings=[1, 0, 1, 1, 1, 1, 0, 0])),
        ((2, 5, 5, 5, 3), (2, 2, 2, 3, 4), dict(padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0])),
        ((2, 5, 5, 3), (2, 2, 3, 4), dict(data_format="CHANNELS_FIRST")), ((2, 3, 5, 5), (2, 2, 3, 4), dict(data_format="CHANNELS_FIRST")),
        ((2, 3, 5, 5, 5), (2, 2, 2, 3, 4), dict(data_format="CHANNELS_FIRST")), ((2, 5, 5, 3), (2, 2, 3, 4), dict(batch_dims=2)),
        ((2, 3, 5, 5, 3), (2, 2, 3, 4), dict(batch_dims=0)), ((2, 3, 5, 5, 3), (2, 2, 3, 4), dict(batch_dims=4)),
        ((2, 3, 5, 5, 3), (2, 2, 3, 4), dict(batch_dims=2, strides=[1] * 5)), ((2, 3, 5, 5, 3), (2, 2, 3, 4), {}),
        ((5, 5, 3), (2, 2, 3, 4), {}), ((5,), (2, 2, 3, 4), {}), ((2, 5, 5, 3), (2, 2, 3), dict(strides=[1] * 4)), ((2, 5, 5, 3), (2,), dict(strides=[1] * 4)),
        ((2, 5, 5, 0), (2, 2, 0, 4), {}), ((2, 5, 5, 3), (2, 2, 3, 0), {}), ((2, 5, 5, 3), (0, 2, 3, 4), {}),
    ]
    windows = [[2, 1, 1, 1], [1, 1, 1, 2], [1, 0, 1, 1], [1, 1, -1, 1], [1, 1, 1], [1, 1, 1, 1, 1]]
    refused += [((2, 5, 5, 3), (2, 2, 3, 4), {name: v}) for name in ("strides", "dilations") for v in windows]
    for x, f, attrs in refused:
        yield case(x, f, texts=True, **attrs)


@spec("DepthwiseConv2dNative")
def depthwise(g, op):
    for dtype in FLOATS:
        for x, f, s in [
            ((2, 5, 6, 3), (3, 3, 3, 2), 1),
            ((1, 8, 8, 16), (3, 3, 16, 1), 1),
            ((1, 9, 8, 5), (3, 2, 5, 1), 2),
            ((0, 5, 5, 2), (3, 3, 2, 2), 1),
            ((1, 14, 14, 32), (5, 5, 32, 1), 2),
            ((2, 2, 2, 3), (3, 3, 3, 2), 1),
            ((2, 9, 13, 33), (3, 3, 33, 1), 1),
            ((1, 15, 16, 72), (5, 5, 72, 1), 1),
            ((2, 8, 15, 20), (3, 3, 20, 1), 2),
        ]:
            for padding in ("SAME", "VALID"):
                a, b = num(g, dtype, *x), num(g, dtype, *f)
                how = dict(strides=[1, s, s, 1], padding=padding, rtol=tolerance(dtype))
                yield Case(a, b, **how)
                yield Case(a, Const(b), **how)
        yield Case(
            num(g, dtype, 1, 6, 7, 4),
            Const(num(g, dtype, 3, 3, 4, 1)),
            strides=[1, 1, 1, 1],
            padding="EXPLICIT",
            explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
            rtol=tolerance(dtype),
        )
    for x, f in [((5, 5, 3), (3, 3, 3, 2)), ((2, 5, 5, 3), (3, 3, 3)), ((2, 5, 5, 3), (3, 3, 4, 2))]:
        yield Case(num(g, "float32", *x), num(g, "float32", *f), strides=[1, 1, 1, 1], padding="SAME")
    yield Case(num(g, "float32", 2, 3, 5, 5), num(g, "float32", 3, 3, 3, 2), strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")
    yield Case(num(g, "float32", 2, 9, 9, 3), num(g, "float32", 3, 3, 3, 2), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1])


@spec("Conv2DBackpropInput")
def transposed(g, op):
    for dtype in FLOATS + ["int32"]:
        for size, f, s, padding, back in [
            ((2, 5, 6, 3), (3, 3, 3, 4), 1, "SAME", (2, 5, 6, 4)),
            ((2, 10, 12, 3), (3, 3, 3, 4), 2, "SAME", (2, 5, 6, 4)),
            ((1, 9, 11, 3), (3, 3, 3, 4), 2, "SAME", (1, 5, 6, 4)),
            ((1, 7, 8, 5), (3, 3, 5, 2), 1, "VALID", (1, 5, 6, 2)),
            ((1, 11, 13, 2), (3, 3, 2, 6), 2, "VALID", (1, 5, 6, 6)),
            ((1, 8, 8, 16), (4, 4, 16, 32), 2, "SAME", (1, 4, 4, 32)),
            ((0, 5, 5, 3), (3, 3, 3, 4), 1, "SAME", (0, 5, 5, 4)),
            ((1, 8, 8, 4), (2, 2, 4, 3), 2, "VALID", (1, 4, 4, 3)),
            ((1, 9, 9, 4), (2, 2, 4, 3), 3, "SAME", (1, 3, 3, 3)),
        ]:
            a, b = num(g, dtype, *f), num(g, dtype, *back)
            how = dict(strides=[1, s, s, 1], padding=padding, rtol=tolerance(dtype))
            yield Case(np.int32(size), a, b, **how)
            if dtype in FLOATS:
                yield Case(Const(np.int32(size)), Const(a), b, **how)
                yield Case(np.int32(size[1:3]), Const(a), b, **how)
    a, b = num(g, "float32", 3, 3, 3, 4), num(g, "float32", 2, 5, 5, 4)
    for size in ([2, 5, 5], [[2, 5, 5, 3]], [3, 5, 5, 3], [2, 5, 5, 2], [2, 6, 5, 3], [2, 5, 5, 6], [2, -5, 5, 3]):
        yield Case(np.int32(size), a, b, strides=[1, 1, 1, 1], padding="SAME")
    for size in ([2, 5, 5, 0], [2, 0, 5, 0]):  # no input channels
        yield Case(np.int32(size), a, num(g, "float32", *size[:3], 4), strides=[1, 1, 1, 1], padding="SAME")
    empty = num(g, "float32", 3, 3, 3, 0)
    yield Case(np.int32([2, 5, 5, 0]), empty, num(g, "float32", 2, 5, 5, 0), strides=[1, 1, 1, 1], padding="SAME")
    yield Case(np.int32([2, 5, 5, 3]), num(g, "float32", 3, 3, 3, 5), b, strides=[1, 1, 1, 1], padding="SAME")
    yield Case(np.int32([2, 5, 5, 3]), a, b, strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 2, 1])


@spec("Conv3D")
def conv3d(g, op):
    for dtype in FLOATS:
        for x, f, s in [
            ((2, 3, 4, 5, 2), (2, 2, 2, 2, 3), 1),
            ((1, 6, 6, 6, 3), (3, 3, 3, 3, 8), 2),
            ((0, 3, 3, 3, 1), (2, 2, 2, 1, 1), 1),
            ((1, 5, 5, 5, 4), (1, 1, 1, 4, 6), 1),
        ]:
            for padding in ("SAME", "VALID"):
                a, b = num(g, dtype, *x), num(g, dtype, *f)
                yield Case(a, Const(b), strides=[1, s, s, s, 1], padding=padding, rtol=tolerance(dtype))
                yield Case(a, b, strides=[1, s, s, s, 1], padding=padding, rtol=tolerance(dtype))
    for x, f in [
        ((2, 3, 4, 5), (2, 2, 2, 2, 3)),
        ((2, 3, 4, 5, 2), (2, 2, 2, 2)),
        ((2, 3, 4, 5, 3), (2, 2, 2, 2, 3)),
        ((2, 3, 4, 5, 4), (2, 2, 2, 2, 4)),
    ]:
        yield Case(num(g, "float32", *x), num(g, "float32", *f), strides=[1, 1, 1, 1, 1], padding="SAME")
    yield Case(
        num(g, "float32", 2, 3, 4, 5, 2),
        num(g, "float32", 2, 2, 2, 2, 3),
        strides=[1, 1, 1, 1, 1],
        padding="SAME",
        dilations=[1, 2, 2, 2, 1],
    )


@spec("Conv3DBackpropInputV2")
def transposed3d(g, op):
    for dtype in FLOATS:
        for size, f, s, padding, back in [
            ((2, 3, 4, 5, 2), (2, 2, 2, 2, 3), 1, "SAME", (2, 3, 4, 5, 3)),
            ((1, 6, 8, 10, 2), (3, 3, 3, 2, 3), 2, "SAME", (1, 3, 4, 5, 3)),
            ((1, 5, 6, 7, 2), (3, 3, 3, 2, 4), 1, "VALID", (1, 3, 4, 5, 4)),
        ]:
            yield Case(
                np.int32(size), num(g, dtype, *f), num(g, dtype, *back), strides=[1, s, s, s, 1], padding=padding, rtol=tolerance(dtype)
            )
            yield Case(
                np.int64(size),
                Const(num(g, dtype, *f)),
                num(g, dtype, *back),
                strides=[1, s, s, s, 1],
                padding=padding,
                rtol=tolerance(dtype),
            )


# ---- poolings ----

POOLS = [
    ((2, 5, 6, 3), (2, 2), (2, 2)),
    ((1, 7, 7, 4), (3, 3), (2, 1)),
    ((1, 4, 4, 1), (1, 1), (1, 1)),
    ((1, 5, 5, 33), (3, 2), (3, 3)),
    ((0, 4, 4, 2), (2, 2), (2, 2)),
    ((1, 4, 4, 0), (2, 2), (2, 2)),
    ((1, 1, 1, 4), (2, 2), (1, 1)),
    ((1, 6, 6, 2), (2, 2), (3, 3)),
    ((1, 8, 8, 5), (7, 7), (7, 7)),
]


@spec("MaxPool", "AvgPool")
def pool(g, op):
    for dtype in REALS if op == "MaxPool" else FLOATS:
        if dtype in ("uint32", "uint64"):
            continue  # The types that MaxPool accepts do not include uint32 and uint64.
        for x, k, s in POOLS:
            for padding in ("SAME", "VALID"):
                yield Case(
                    num(g, dtype, *x),
                    ksize=[1, *k, 1],
                    strides=[1, *s, 1],
                    padding=padding,
                    rtol=0 if op == "MaxPool" else tolerance(dtype),
                )
        if op == "MaxPool":
            yield Case(
                num(g, dtype, 1, 5, 5, 2),
                ksize=[1, 3, 3, 1],
                strides=[1, 2, 2, 1],
                padding="EXPLICIT",
                explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
            )
            yield Case(num(g, dtype, 2, 3, 3, 6), ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3], padding="SAME")
    kw = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    yield Case(num(g, "float32", 5, 5, 3), **kw)
    yield Case(np.full((1, 2, 2, 1), -np.inf, "float32"), **kw)
    if op == "AvgPool":
        # The kernel ignores the stride in the channel dimension, but Python's shape inference for MaxPool does not.
        for s in (0, 2, -1):
            yield Case(num(g, "float32", 2, 5, 5, 4), ksize=[1, 2, 2, 1], strides=[1, 2, 2, s], padding="SAME")
    if op == "MaxPool":
        yield Case(num(g, "float32", 2, 5, 5, 5), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="SAME")
        yield Case(num(g, "float32", 2, 5, 5, 4), ksize=[1, 2, 1, 2], strides=[1, 1, 1, 2], padding="SAME")
    yield Case(num(g, "float32", 2, 3, 5, 5), ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="SAME", data_format="NCHW")


@spec("MaxPoolV2")
def pool_v2(g, op):
    for x, k, s in POOLS:
        yield Case(num(g, "float32", *x), np.int32([1, *k, 1]), np.int32([1, *s, 1]), padding="SAME")
        yield Case(num(g, "float32", *x), Const(np.int32([1, *k, 1])), np.int32([1, *s, 1]), padding="VALID")
    yield Case(num(g, "float32", 2, 5, 5, 3), np.int32([1, 2, 2, 1]), np.int32([1, 2, 2, 0]), padding="SAME")
    yield Case(num(g, "float32", 2, 5, 5, 3), np.int32([1, 2, 2]), np.int32([1, 2, 2, 1]), padding="SAME")
    yield Case(num(g, "float32", 2, 5, 5, 3), np.int32([1, 2, 2, 1]), np.int32([1, 2, 2]), padding="SAME")


@spec("MaxPoolWithArgmax")
def pool_argmax(g, op):
    for dtype in REALS:
        for x, k, s in POOLS:
            for batch in (False, True):
                yield Case(
                    num(g, dtype, *x),
                    ksize=[1, *k, 1],
                    strides=[1, *s, 1],
                    padding="SAME",
                    include_batch_in_index=batch,
                    Targmax="int32" if k[0] == 3 else "int64",
                )
    yield Case(num(g, "float32", 5, 5, 3), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


@spec("MaxPool3D", "AvgPool3D")
def pool3d(g, op):
    for dtype in ["float32", "bfloat16"]:
        for x, k, s in [
            ((2, 3, 4, 5, 2), (2, 2, 2), (2, 2, 2)),
            ((1, 5, 5, 5, 3), (3, 1, 2), (1, 2, 2)),
            ((0, 3, 3, 3, 1), (2, 2, 2), (1, 1, 1)),
        ]:
            for padding in ("SAME", "VALID"):
                yield Case(
                    num(g, dtype, *x),
                    ksize=[1, *k, 1],
                    strides=[1, *s, 1],
                    padding=padding,
                    rtol=0 if op == "MaxPool3D" else tolerance(dtype),
                )
                # All inputs are -inf. The maximum is then the lowest finite number in windows with padding,
                # and -inf in other windows.
                if op == "MaxPool3D":
                    yield Case(np.full(x, -np.inf, dtype_of(dtype)), ksize=[1, *k, 1], strides=[1, *s, 1], padding=padding)
    yield Case(num(g, "float32", 2, 3, 4, 5), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME")
    for s in (0, 2):
        yield Case(num(g, "float32", 2, 3, 4, 5, 2), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, s], padding="SAME")
    yield Case(num(g, "float32", 2, 3, 4, 5, 2), ksize=[1, 1, 1, 1, 2], strides=[1, 1, 1, 1, 1], padding="SAME")
    yield Case(num(g, "float32", 2, 2, 3, 4, 5), ksize=[1, 1, 2, 2, 2], strides=[1, 1, 2, 2, 2], padding="SAME", data_format="NCDHW")


# ---- along channels ----


@spec("BiasAdd", "BiasAddV1")
def bias(g, op):
    for dtype in NUMBERS:
        for s in [(2, 3), (1, 1), (0, 3), (2, 0), (2, 4, 5), (2, 3, 4, 5), (2, 1, 2, 2, 3), (3, 67)]:
            yield Case(g.values(dtype, s), g.values(dtype, s[-1:]))
            if op == "BiasAdd":
                yield Case(g.values(dtype, s), g.values(dtype, s[1:2]), data_format="NCHW")
    for v, b in [((3,), (3,)), ((2, 3), (1, 3)), ((2, 3), (4,))]:
        yield Case(num(g, "float32", *v), num(g, "float32", *b))


@spec("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(g, op):
    def case(dtype, shape, c, train, m=None, **how):
        v = "float32" if op != "FusedBatchNorm" else dtype
        m = c if m is None else m
        # In inference, and on empty inputs, TensorFlow leaves the reserved outputs uninitialised, so only the first
        # three outputs are compared.
        how.setdefault("outputs", None if train and 0 not in shape else [0, 1, 2])
        return Case(
            num(g, dtype, *shape),
            num(g, v, c),
            num(g, v, c),
            num(g, v, m),
            np.abs(num(g, v, m)),
            is_training=train,
            rtol=max(tolerance(dtype), 2e-5),
            **how
        )

    def reserved(case, theirs, ours):  # checks that the reserve_space outputs equal those of TensorFlow with oneDNN
        empty = case.inputs[0].size == 0
        same = all(np.array_equal(a, np.zeros_like(b) if empty else b) for a, b in zip(ours, case.inputs[3:]))
        return None if same else "the reserved outputs are not the statistics"

    for dtype in ["float32"] if op == "FusedBatchNorm" else ["float32"] + HALFS:
        yield case(dtype, (2, 3, 4, 5), 5, False, outputs=[3, 4], check=reserved)
        yield case(dtype, (0, 3, 4, 5), 5, False, outputs=[3, 4], check=reserved)
        for shape in [(2, 3, 4, 5), (1, 1, 1, 2), (0, 3, 3, 2), (3, 2, 2, 17)]:
            yield case(dtype, shape, shape[-1], False)
            yield case(dtype, shape, shape[1], False, data_format="NCHW", epsilon=0.01)
            yield case(dtype, shape, shape[-1], True, 0)
            yield case(dtype, shape, shape[-1], True, exponential_avg_factor=0.25)
        if op == "FusedBatchNormV3":
            yield case(dtype, (2, 3, 2, 4, 5), 5, False, data_format="NDHWC")
    yield case("float32", (5, 5, 3), 3, False)
    yield case("float32", (2, 5, 5, 4), 3, False)
    yield case("float32", (2, 5, 5, 3), 3, False, 2)
    yield case("float32", (2, 5, 5, 3), 3, True, 0, exponential_avg_factor=0.5)


@spec("LRN")
def lrn(g, op):
    for dtype in ["float32", "float16"]:
        for how in [
            {},
            dict(depth_radius=2, bias=1.5, alpha=0.01, beta=0.75),
            dict(depth_radius=0, beta=1.0),
            dict(depth_radius=1, bias=2.0, alpha=0.5),
        ]:
            for s in [(2, 3, 4, 7), (1, 1, 1, 1), (0, 2, 2, 3), (1, 2, 2, 20)]:
                yield Case(num(g, dtype, *s), rtol=3e-3 if dtype == "float16" else 1e-5, **how)
        # TensorFlow multiplies by a band matrix. NaN, infinite and very large values therefore also reach channels
        # whose window does not contain them.
        for special in (np.nan, np.inf, -np.inf, 3e38):
            x = np.array(num(g, "float32", 2, 2, 3, 12))
            x[0, 0, 0, 3] = x[0, 1, 2, 0] = x[1, 1, 1, 11] = special
            yield Case(x.astype(dtype_of(dtype)), depth_radius=2, rtol=3e-3 if dtype == "float16" else 1e-5)
    inf = np.inf  # the cases below test powers of a negative base, and powers whose logarithm is 0 * infinity
    for bias, alpha, beta in [(0, -1, 2), (0, -1, 0.75), (0, -1, -3), (0, -1, 1), (0, -1, 0.5), (0, 0, 0), (0, 0, 2), (0, 0, -2), (inf, 1, 0),
                              (inf, 1, 2), (1, 0, inf), (1, 0, -inf), (2, 0, inf), (2, 0, -inf), (1, -inf, -inf), (1, 0, np.nan)]:
        for dtype in ["float32", "float16"]:
            yield Case(np.full((1, 1, 1, 1), 2, dtype), bias=bias, alpha=alpha, beta=beta, rtol=3e-3 if dtype == "float16" else 1e-5)
    for x in (9.3e18, 1e15):  # the reciprocal of the base is subnormal for the first x, but not for the second
        for beta in (1.0, 0.5, 2.0):
            yield Case(np.full((1, 1, 1, 1), x, "float32"), depth_radius=0, bias=1.0, alpha=1.0, beta=beta, rtol=1e-5)
    for bias in (2.0**31, 65504.0, 0.1):  # float16 can represent neither 2**31 nor 0.1
        yield Case(num(g, "float16", 1, 2, 2, 4), bias=bias, alpha=1 / 3, rtol=3e-3)
    yield Case(num(g, "float32", 2, 3, 4))


# ---- losses ----


@spec("SoftmaxCrossEntropyWithLogits")
def cross_entropy(g, op):
    for dtype in FLOATS:
        for a, b in [
            ((2, 3), (2, 3)),
            ((5, 17), (5, 17)),
            ((2, 3), (1, 3)),
            ((1, 3), (2, 3)),
            ((2, 1), (2, 3)),
            ((2, 3), (2, 1)),
            ((0, 3), (0, 3)),
            ((2, 0), (2, 0)),
            ((3, 1), (3, 1)),
        ]:
            yield Case(
                num(g, dtype, *a),
                np.abs(num(g, dtype, *b)) / dtype_of(dtype).type(10),
                rtol=4 * tolerance(dtype),
                atol=4 * tolerance(dtype),
            )
        inf, nan, t = np.inf, np.nan, dtype_of(dtype)  # a label of 0 times an infinite loss is NaN
        for x, y in [([inf], [0]), ([-inf], [0]), ([1, -inf], [1, 0]), ([1, -inf], [0, 1]), ([1, inf], [0, 1]),
                     ([nan, 1], [0, 1]), ([1, 2], [inf, 0])]:
            yield Case(np.array([x], t), np.array([y], t), rtol=4 * tolerance(dtype), atol=4 * tolerance(dtype))
    for a, b in [((3,), (3,)), ((2, 3), (2, 4))]:
        yield Case(num(g, "float32", *a), num(g, "float32", *b))


@spec("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(g, op):
    for dtype in FLOATS:
        for kind in ("int32", "int64"):
            for s in [(2, 3), (5, 17), (0, 3), (3, 1)]:
                yield Case(
                    num(g, dtype, *s), g.values(kind, s[:1], lo=0, hi=s[1] - 1), rtol=4 * tolerance(dtype), atol=4 * tolerance(dtype)
                )
        inf, nan = np.inf, np.nan
        for x in ([1, -inf], [-inf, 1], [1, inf], [inf, 1], [nan, 1], [1, nan], [-inf, -inf]):
            yield Case(np.array([x], dtype_of(dtype)), np.int32([0]), rtol=4 * tolerance(dtype), atol=4 * tolerance(dtype))
    for s, labels in [((2, 3), [0, 5]), ((2, 3), [-1, 0]), ((3,), [1]), ((2, 3), [[1], [0]]), ((2, 3), [0, 1, 2]), ((2, 0), [0, 1])]:
        yield Case(num(g, "float32", *s), np.int32(labels))


@spec("InTopK", "InTopKV2")
def in_top_k(g, op):
    def case(p, t, k):
        return Case(p, t, t.dtype.type(k)) if op == "InTopKV2" else Case(p, t, k=k)

    for kind in ("int32", "int64"):
        for k in (0, 1, 2, 5, 100):
            yield case(num(g, "float32", 8, 6), g.values(kind, (8,), lo=0, hi=5), k)
            yield case(g.values("float32", (8, 6)), g.values(kind, (8,), lo=-1, hi=6), k)
            yield case(np.float32(g.rng.integers(0, 3, (9, 5))), g.values(kind, (9,), lo=0, hi=4), k)
    yield case(num(g, "float32", 3), np.int32([0]), 1)
    yield case(num(g, "float32", 2, 3), np.int32([[0, 1]]), 1)
    yield case(num(g, "float32", 2, 3), np.int32([0, 1, 1]), 1)


# ---- images ----


@spec("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea")
def resize(g, op):
    hows = [{}, {"align_corners": True}] + ([] if op == "ResizeArea" else [{"half_pixel_centers": True}])
    for dtype in ["float32", "uint8", "float64", "float16", "bfloat16", "int32", "int8", "int64", "uint16", "int16"]:
        for how in hows:
            for s, size in [
                ((2, 3, 4, 2), (5, 7)),
                ((1, 8, 9, 3), (4, 3)),
                ((1, 5, 5, 1), (5, 5)),
                ((1, 1, 1, 4), (3, 2)),
                ((1, 6, 4, 3), (1, 1)),
                ((0, 3, 4, 1), (5, 6)),
                ((1, 7, 13, 3), (29, 31)),
                ((1, 33, 17, 1), (10, 11)),
            ]:
                exact = op == "ResizeNearestNeighbor"
                yield Case(num(g, dtype, *s), np.int32(size), rtol=0 if exact else 1e-5, **how)
    for s, size in [
        ((3, 4, 1), [5, 6]),
        ((2, 3, 4, 1), [5, 6, 7]),
        ((2, 3, 4, 1), [0, 6]),
        ((2, 3, 4, 1), 5),
        ((2, 0, 4, 1), [5, 6]),
        ((2, 3, 4, 0), [5, 6]),
    ]:
        yield Case(num(g, "float32", *s), np.int32(size))


@spec("CropAndResize")
def crop(g, op):
    for dtype in ["float32", "uint8", "float16", "int32", "float64"]:
        for method in ("bilinear", "nearest"):
            for size in ([5, 6], [1, 1], [2, 3]):
                boxes = g.rng.uniform(-0.3, 1.3, (6, 4)).astype("float32")
                yield Case(
                    num(g, dtype, 2, 7, 8, 3),
                    boxes,
                    g.values("int32", (6,), lo=0, hi=1),
                    np.int32(size),
                    method=method,
                    extrapolation_value=0.5,
                    rtol=1e-5,
                    atol=1e-5,
                )
    z = np.zeros
    im, four = z((2, 3, 4, 1), "float32"), z((2, 4), "float32")
    for image, boxes, ind, size in [
        (z((3, 4, 1), "float32"), four, [0, 1], [5, 6]),
        (im, z((2, 3), "float32"), [0, 1], [5, 6]),
        (im, z(4, "float32"), [0], [5, 6]),
        (im, four, [0], [5, 6]),
        (im, four, [[0, 1]], [5, 6]),
        (im, four, [0, 2], [5, 6]),
        (im, four, [0, 1], [5]),
        (im, four, [0, 1], [5, 0]),
        (z((2, 0, 4, 1), "float32"), four, [0, 1], [5, 1]),
        (im, z((0, 4), "float32"), z(0, "int32"), [5, 1]),
        (im, z((0, 1), "float32"), z(0, "int32"), [5, 1]),
        (im, z((3, 0), "float32"), z(0, "int32"), [5, 1]),
        (im, z((3, 0), "float32"), [0, 1, 1], [5, 1]),
        (im, z((0, 4), "float32"), [0], [5, 1]),
        (im, z((1, 4), "float32"), z(0, "int32"), [5, 1]),
        (im, z((0, 4), "float32"), z((0, 3), "int32"), [5, 1]),
        (im, np.full((2, 4), np.nan, "float32"), [0, 1], [5, 1]),
    ]:
        yield Case(image, boxes, np.int32(ind), np.int32(size))


@spec("Dilation2D")
def dilation(g, op):
    for dtype in REALS:
        for x, f, s, r in [
            ((2, 5, 6, 3), (2, 3, 3), (1, 1), (1, 1)),
            ((1, 7, 7, 2), (3, 3, 2), (2, 1), (1, 2)),
            ((0, 3, 3, 1), (2, 2, 1), (1, 1), (1, 1)),
            ((1, 5, 5, 1), (2, 2, 1), (1, 1), (3, 3)),
        ]:
            for padding in ("SAME", "VALID"):
                yield Case(
                    num(g, dtype, *x),
                    num(g, dtype, *f),
                    strides=[1, *s, 1],
                    rates=[1, *r, 1],
                    padding=padding,
                    rtol=tolerance(dtype) if dtype in HALFS else 0,
                )
    for x, f in [((2, 3, 4), (2, 2, 2)), ((2, 3, 4, 2), (2, 2)), ((2, 3, 4, 2), (2, 2, 3))]:
        yield Case(num(g, "float32", *x), num(g, "float32", *f), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")


def boxes_of(g, n, dtype="float32"):
    corner = g.rng.uniform(0, 8, (n, 2))
    return np.concatenate([corner, corner + g.rng.uniform(0.5, 4, (n, 2))], 1).astype(dtype)


@spec("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
def suppression(g, op):
    n_in = {"NonMaxSuppression": 3, "NonMaxSuppressionV2": 4, "NonMaxSuppressionV5": 6}.get(op, 5)
    f = np.float32

    def case(b, s, most=5, iou=0.4, low=0.2, sigma=0.0, **how):
        values = [b, s, most if isinstance(most, Const) else np.int32(most), f(iou), f(low), f(sigma)]
        if op == "NonMaxSuppression":
            how["iou_threshold"] = float(iou)
        return Case(*values[:n_in], rtol=1e-5, **how)

    for n in (0, 1, 7, 40, 100):
        for most in (0, 3, 1000):
            for iou in (0.0, 0.3, 1.0):
                yield case(boxes_of(g, n), g.rng.random(n).astype("float32"), most, iou)
        yield case(boxes_of(g, n)[:, [2, 1, 0, 3]], np.float32(g.rng.integers(0, 4, n)), 20)
        if op in ("NonMaxSuppressionV4", "NonMaxSuppressionV5"):
            yield case(boxes_of(g, n), g.rng.random(n).astype("float32"), 20, pad_to_max_output_size=True)
            yield case(boxes_of(g, n), g.rng.random(n).astype("float32"), Const(np.int32(20)), pad_to_max_output_size=True)
        if op == "NonMaxSuppressionV5":
            yield case(boxes_of(g, n), g.rng.random(n).astype("float32"), 20, sigma=0.5)
            yield case(boxes_of(g, n), g.rng.random(n).astype("float32"), 20, sigma=0.1, pad_to_max_output_size=True)
    z = lambda *s: np.zeros(s, f)
    for b, s, most, iou in [
        (z(4), z(3), 2, 0.5),
        (z(3, 5), z(3), 2, 0.5),
        (z(3, 4), z(3, 1), 2, 0.5),
        (z(3, 4), z(2), 2, 0.5),
        (z(3, 4), z(3), -1, 0.5),
        (z(3, 4), z(3), [1], 0.5),
    ]:
        yield case(b, s, most, iou)
    if op != "NonMaxSuppression":
        yield case(z(3, 4), z(3), 2, 1.5)
        yield case(z(3, 4), z(3), 2, np.nan)


@spec("NonMaxSuppressionWithOverlaps")
def suppression_overlaps(g, op):
    for n in (0, 1, 7, 30):
        yield Case(
            g.rng.random((n, n)).astype("float32"), g.rng.random(n).astype("float32"), np.int32(10), np.float32(0.6), np.float32(0.1)
        )
    for a, b in [((3, 4), 3), ((3, 3), 4), ((3,), 4)]:
        yield Case(np.zeros(a, "float32"), np.zeros(b, "float32"), np.int32(10), np.float32(0.6), np.float32(0.1))


@spec("CombinedNonMaxSuppression")
def combined(g, op):
    for n, q, c in [(6, 1, 1), (20, 1, 3), (20, 3, 3), (0, 1, 2), (5, 1, 0)]:
        for per_class, total in [(3, 5), (10, 40), (4, 100)]:
            for how in [{}, {"pad_per_class": True}, {"clip_boxes": False}]:
                b = np.stack([boxes_of(g, n * q).reshape(n, q, 4) / 12 - 0.1 for _ in range(2)]).astype("float32")
                yield Case(
                    b,
                    g.rng.random((2, n, c)).astype("float32"),
                    np.int32(per_class),
                    np.int32(total),
                    np.float32(0.4),
                    np.float32(0.3),
                    **how
                )
    z = lambda *s: np.zeros(s, "float32")
    for b, s, per_class, total in [
        (z(2, 3, 4), z(2, 3, 1), 2, 2),
        (z(2, 3, 1, 4), z(2, 3, 1), 0, 2),
        (z(2, 3, 1, 4), z(2, 3, 1), 2, 0),
        (z(2, 3, 2, 4), z(2, 3, 3), 2, 2),
        (z(2, 3, 1, 4), z(2, 4, 1), 2, 2),
    ]:
        yield Case(b, s, np.int32(per_class), np.int32(total), np.float32(0.4), np.float32(0.3))


# ---- steps that join the product or convolution before them (runtime/fusion/fuse.c) ----


@spec("Relu6", rtol=2e-5)
def tails(g, op):
    w = num(g, "float32", 3, 3, 4, 16)
    deep = num(g, "float32", 3, 3, 4, 2)
    dense = num(g, "float32", 70, 80)
    v = [num(g, "float32", 16) for _ in range(4)]
    wide = num(g, "float32", 80)

    def conv(tf, x):
        y = tf.nn.relu6(tf.nn.bias_add(tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME"), v[0]))
        return [y]

    def depthwise(tf, x):
        y = tf.raw_ops.DepthwiseConv2dNative(input=x, filter=deep, strides=[1, 1, 1, 1], padding="SAME")
        return [tf.nn.relu(y * v[0][:8] + v[1][:8])]

    def normalised(tf, x):
        y = tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME")
        # A very small variance would make the scaled values, and their rounding errors, far larger than the range to
        # which Relu6 clips.
        variance = np.abs(v[3]) + np.float32(0.1)
        y = tf.raw_ops.FusedBatchNormV3(x=y, scale=v[0], offset=v[1], mean=v[2], variance=variance, is_training=False)[0]
        return [tf.nn.relu6(y)]

    def twice_used(tf, x):
        y = tf.raw_ops.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME")
        return [tf.nn.relu(y) + y]

    def product(tf, x):
        return [tf.nn.relu(tf.nn.bias_add(tf.matmul(x, dense), wide))]

    image, rows = num(g, "float32", 2, 6, 7, 4), num(g, "float32", 5, 70)
    bad_image, bad_rows = image.copy(), rows.copy()
    bad_image[0, 0, 0, 0] = bad_rows[0, 0] = np.nan
    bad_image[1, 3, 3, 1] = bad_rows[2, 5] = np.inf
    for build in (conv, depthwise, normalised, twice_used):
        yield Graph(build, image)
        yield Graph(build, bad_image)
        yield Graph(build, image[:0])
    for x in (rows, bad_rows, rows[:1], rows[:0]):
        yield Graph(product, x)
