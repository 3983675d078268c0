"""Test cases for gradients of activations and of other functions (kernels/nn), and of cropped and scaled images
(kernels/image/crop_grad.c, scale_translate.c)."""

import itertools

from spec import *

ACTIVATIONS = ["ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"]
FUNCTIONS = ["InvGrad", "ReciprocalGrad", "SqrtGrad", "RsqrtGrad", "SigmoidGrad", "TanhGrad"]
UNEQUAL = [((3,), ()), ((), (3,)), ((2, 3), (3, 2)), ((2, 3), (6,)), ((0,), (0, 2)), ((1,), ()), ((2, 3), (3,)), ((4,), (5,))]


@spec(*ACTIVATIONS)
def activation_grad(g, op):
    ulps = 4 if op == "SoftplusGrad" else None
    for dtype in REALS if op in ("ReluGrad", "Relu6Grad") else FLOATS:
        for _ in range(2):
            for shape in Gen.SHAPES:
                alphas = [{}] if op != "LeakyReluGrad" else [{"alpha": a} for a in (0.2, 0.0, 1.5, -0.3)]
                for attrs in alphas:
                    yield Case(g.values(dtype, shape), g.values(dtype, shape), ulps=ulps, **attrs)
                    yield Case(g.values(dtype, shape), g.values(dtype, shape, lo=0 if "uint" in dtype else -8, hi=9), ulps=ulps, **attrs)
    for a, b in UNEQUAL:
        yield Case(g.values("float32", a), g.values("float32", b), texts=True)
    yield Case(g.values("float32", (70, 1031)), g.values("float32", (70, 1031)), ulps=ulps)


def bounded(x):
    """Limits the magnitude of finite numbers to 1e9, except in float16 and complex types. Whether a product of larger
    numbers overflows depends on the order of the factors."""
    if x.dtype.kind != "c" and x.dtype.itemsize * 8 != 16 or x.dtype == bfloat16:
        with np.errstate(all="ignore"):
            x = np.where(np.isfinite(x) & (np.abs(x) > 1e9), np.sign(x) * x.dtype.type(1e9), x)
    return x


# TensorFlow multiplies in a different order in its code for single numbers, such as the last elements of a tensor. The
# last bit, and the sign of a result that underflows, may therefore differ.
@spec(*FUNCTIONS, ulps=2, atol=1e-37)
def function_grad(g, op):
    for dtype in FLOATS + COMPLEX:
        for _ in range(3):
            for shape in Gen.SHAPES:
                # The order in which infinite and NaN parts of complex numbers are multiplied depends on the processor.
                special = dtype not in COMPLEX
                ulps = 4 if dtype in COMPLEX else 2
                yield Case(bounded(g.values(dtype, shape, special=special)), bounded(g.values(dtype, shape, special=special)), ulps=ulps)
                yield Case(g.values(dtype, shape, lo=-1, hi=1, special=False), g.values(dtype, shape, lo=-9, hi=9, special=False), ulps=ulps)
    for a, b in UNEQUAL:
        yield Case(g.values("float32", a), g.values("float32", b), texts=True)
    yield Case(bounded(g.values("float32", (70, 1031))), bounded(g.values("float32", (70, 1031))))


@spec("BiasAddGrad")
def bias_add_grad(g, op):
    for dtype in NUMBERS:
        # TensorFlow adds half-precision numbers in their own type, Slipway in float.
        rtol = {"float16": 4e-3, "bfloat16": 4e-2, "complex64": 1e-4, "float64": 1e-14, "complex128": 1e-12}.get(dtype, 1e-6) if dtype not in INTS else None
        for shape in [(2, 3), (1, 1), (0, 3), (3, 0), (2, 3, 4), (0, 3, 2), (2, 3, 4, 5), (2, 3, 1, 2, 2), (2, 1, 2, 2, 1, 2, 3), (2,) * 8, (70, 67), (5, 300)]:
            for data_format in ("NHWC", "NCHW"):
                x = g.values(dtype, shape, special=dtype in INTS, **({} if dtype in INTS else {"lo": -4, "hi": 4}))
                yield Case(x, data_format=data_format, rtol=rtol)
    for shape in [(), (3,)]:
        for data_format in ("NHWC", "NCHW"):
            yield Case(g.values("float32", shape), data_format=data_format, texts=True)
    for special in (np.nan, np.inf, -np.inf):
        x = g.values("float32", (9, 5), special=False)
        x[3, 2] = special
        yield Case(x, rtol=1e-6)
    yield Case(g.values("float32", (3000, 65), special=False), rtol=1e-5)
    yield Case(g.values("float32", (2, 65, 40, 41), special=False), data_format="NCHW", rtol=1e-5)


@spec("MirrorPadGrad")
def mirror_pad_grad(g, op):
    for dtype in NUMBERS:
        for index in ("int32", "int64"):
            for mode in ("REFLECT", "SYMMETRIC"):
                for shape, paddings in [((), []), ((7,), [[2, 1]]), ((4, 4), [[1, 1], [1, 1]]), ((9, 3), [[3, 1], [0, 0]]), ((5, 4, 7), [[0, 2], [1, 0], [2, 2]]),
                                        ((3, 7, 2, 5), [[0, 0], [2, 2], [0, 0], [1, 1]]), ((5, 4, 3, 3, 5), [[2, 0], [0, 1], [1, 0], [0, 0], [0, 2]])]:
                    for paddings in (paddings, Const(np.array(paddings, index).reshape(-1, 2))):
                        p = paddings if isinstance(paddings, Const) else np.array(paddings, index).reshape(-1, 2)
                        yield Case(g.values(dtype, shape, special=dtype not in COMPLEX), p, mode=mode)
    for mode in ("REFLECT", "SYMMETRIC"):
        for shape, paddings in [((4,), [[2, 2]]), ((4,), [[3, 0]]), ((4,), [[5, 0]]), ((4,), [[1, 1], [0, 0]]), ((4,), [1, 1]), ((0,), [[0, 0]]), ((4,), [[4, 0]]),
                                ((5,), [[2, 1]]), ((3,), [[1, 1]]), ((3,), [[2, 0]]), ((4,), [[2**30, 2**30]]), ((4,), [[1, 1, 1]]), ((0, 3), [[0, 0], [1, 0]])]:
            yield Case(g.values("float32", shape), np.int32(paddings), mode=mode, texts=True)
        for paddings in ([[-1, 0]], [[0, -1]]):
            yield Case(g.values("float32", (4,)), np.int32(paddings), mode=mode)


@spec("LRNGrad")
def lrn_grad(g, op):
    for dtype, rtol in (("float32", 1e-5), ("float16", 4e-3)):
        for how in [{}, dict(depth_radius=2, bias=1.5, alpha=0.01, beta=0.75), dict(depth_radius=0, beta=1.0), dict(depth_radius=1, bias=2.0, alpha=0.5),
                    dict(depth_radius=100, bias=0.5), dict(bias=2.0, beta=-1.0), dict(bias=3.0, alpha=0.0)]:
            for shape in [(2, 3, 4, 7), (1, 1, 1, 1), (0, 2, 2, 3), (1, 2, 2, 0), (1, 2, 2, 20), (1, 1, 9, 11)]:
                for _ in range(2):
                    x = [g.values(dtype, shape, lo=-2, hi=2, special=False) for _ in range(3)]
                    yield Case(*x, rtol=rtol, **how)
    for special in (np.nan, np.inf, 0.0):
        x = [g.values("float32", (1, 2, 2, 9), lo=-2, hi=2, special=False) for _ in range(3)]
        x[1][0, 1, 1, 3] = special
        yield Case(*x, rtol=1e-5, depth_radius=2)
    one = np.ones((1, 2, 2, 3), np.float32)
    yield Case(one, one, one, depth_radius=2**31 - 2, rtol=1e-6)
    for a, b, c in [(one, one, one[..., :2]), (one, one[:, :1], one), (one[0], one[0], one[0]), (one, one[0], one)]:
        yield Case(a, b, c, texts=True)


# ---- cropped and scaled images ----

# Shapes of images and sizes of crops.
CROPS = [((2, 7, 8, 3), (5, 6)), ((1, 3, 3, 1), (1, 1)), ((2, 4, 1, 2), (3, 2)), ((1, 1, 5, 4), (1, 7)), ((3, 5, 6, 1), (9, 1))]


def boxes_of(g, n, batch):
    boxes = g.rng.uniform(-0.3, 1.3, (n, 4)).astype("float32")
    boxes[: n // 3] = [0, 0, 1, 1]
    return boxes, g.rng.integers(0, batch, n).astype("int32")


ODD_BOXES = [[0, 0, 1, 1], [1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [-1, -1, 2, 2], [0, 0, 1e30, 1e30], [2, 2, 3, 3], [0, 0, 1, 1.0000001]]


def crop_refusals(g):
    """Yields the shapes of the gradient, the boxes and their indices, and the indices."""
    z = np.zeros
    for grads, boxes, index in [
        ((2, 2, 1), (2, 4), [0, 0]), ((2, 2, 2, 1), (2, 3), [0, 0]), ((2, 2, 2, 1), (4,), [0, 0]), ((2, 2, 2, 1), (1, 4), [0, 0]), ((2, 2, 2, 1), (2, 4), [0]),
        ((2, 2, 2, 1), (2, 4), [[0, 0]]), ((2, 0, 2, 1), (2, 4), [0, 0]), ((2, 2, 0, 1), (2, 4), [0, 0]), ((2, 2, 2, 1), (2, 4), [0, 1]), ((2, 2, 2, 1), (2, 4), [-1, 0]),
    ]:
        yield z(grads, "float32"), z(boxes, "float32"), np.int32(index)


@spec("CropAndResizeGradImage", rtol=1e-6)
def crop_grad_image(g, op):
    for dtype, method, (image, size), n in itertools.product(("float32", "float64", "float16"), ("bilinear", "nearest"), CROPS, (1, 6)):
        boxes, index = boxes_of(g, n, image[0])
        how = dict(rtol=2e-3) if dtype == "float16" else {}
        yield Case(g.values("float32", (n, *size, image[3]), special=False, lo=-2, hi=2), boxes, index, np.int32(image), T=dtype, method=method, **how)
    for method, box in itertools.product(("bilinear", "nearest"), ODD_BOXES):
        yield Case(g.values("float32", (1, 3, 4, 2), special=False, lo=-2, hi=2), np.float32([box]), np.int32([0]), np.int32([1, 5, 6, 2]), T="float32", method=method)
    for grads, boxes, index in crop_refusals(g):
        yield Case(grads, boxes, index, np.int32([1, 3, 3, 1]), T="float32", texts=True)
    ok = np.zeros((2, 2, 2, 1), "float32"), np.zeros((2, 4), "float32"), np.int32([0, 0])
    for size in ([1, 3, 3], [1, 3, 3, 2], [1, 0, 3, 1], [1, 3, -1, 1], [0, 3, 3, 1], [-1, 3, 3, 1], [[1, 3, 3, 1]], [1, 3, 3, 0], 4):
        yield Case(*ok, np.int32(size), T="float32", texts=True)
        yield Case(*ok, Const(np.int32(size)), T="float32") if np.ndim(size) == 1 and len(size) == 4 and size[1] > 0 and size[3] == 1 and min(size) >= 0 else Case(*ok, np.int32(size), T="float64")
    yield Case(ok[0][:0], ok[1][:0], ok[2][:0], np.int32([1, 3, 3, 1]), T="float32")
    yield Case(ok[0][..., :0], *ok[1:], np.int32([1, 3, 3, 0]), T="float32")


@spec("CropAndResizeGradBoxes", rtol=1e-5, atol=1e-5)
def crop_grad_boxes(g, op):
    for dtype, (image, size), n in itertools.product(("float32", "float64", "float16", "uint8", "int8", "int16", "uint16", "int32", "int64"), CROPS, (1, 6)):
        boxes, index = boxes_of(g, n, image[0])
        x = g.values(dtype, image, special=False, lo=-2, hi=2) if dtype in FLOATS else g.values(dtype, image, lo=0, hi=99)
        yield Case(g.values("float32", (n, *size, image[3]), special=False, lo=-2, hi=2), x, boxes, index)
    for box in ODD_BOXES:
        yield Case(g.values("float32", (1, 3, 4, 2), special=False, lo=-2, hi=2), g.values("float32", (1, 5, 6, 2), special=False, lo=-2, hi=2), np.float32([box]), np.int32([0]))
    for grads, boxes, index in crop_refusals(g):
        yield Case(grads, np.zeros((1, 3, 3, 1), "float32"), boxes, index, texts=True)
    ok = np.zeros((2, 2, 2, 1), "float32"), np.zeros((2, 4), "float32"), np.int32([0, 0])
    for image in [(3, 3, 1), (1, 3, 3, 2), (1, 3, 3, 0), (1, 0, 3, 1), (1, 3, 0, 1), (0, 3, 3, 1)]:
        yield Case(ok[0], np.zeros(image, "float32"), *ok[1:], texts=True)
    yield Case(ok[0][:0], np.zeros((1, 3, 3, 1), "float32"), ok[1][:0], ok[2][:0])


KERNELS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic", "LANCZOS3"]


@spec("ScaleAndTranslateGrad", rtol=1e-5, atol=1e-6)
def scale_and_translate_grad(g, op):
    def case(grads, image, scale=(1, 1), shift=(0, 0), **attrs):
        x = lambda shape: g.values("float32", shape, special=False, lo=-2, hi=2)
        return Case(x(grads), x(image), np.float32(scale), np.float32(shift), **attrs)

    hows = [
        ((2, 3, 4, 3), (2, 5, 6, 3), (0.6, 0.7), (0, 0)), ((1, 9, 11, 1), (1, 5, 6, 1), (1.8, 1.9), (0.5, -1.25)), ((1, 7, 8, 4), (1, 7, 8, 4), (1, 1), (2.5, -3)),
        ((1, 5, 6, 2), (1, 33, 40, 2), (0.15, 0.1), (0.1, 0.2)), ((1, 6, 7, 5), (1, 3, 1, 5), (2, 7), (-9, 3)), ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0)),
    ]
    for kernel, antialias, (grads, image, scale, shift) in itertools.product(KERNELS, (True, False), hows):
        yield case(grads, image, scale, shift, kernel_type=kernel, antialias=antialias)
    one = (1, 4, 5, 2), (1, 3, 4, 2)
    for scale in [(0, 1), (1, -1), (np.nan, 1), (1e-3, 1), (1,), 1, ((1, 1),), (1, 1, 1), (3, 0.3)]:
        yield case(*one, scale=scale, texts=True)
    for shift in [(100, 0), (4, 5), (-4, -5), (1,), 1, ((1, 1),), (0.25, 1e-3)]:
        yield case(*one, shift=shift, texts=True)
    for grads, image in [((4, 5, 2), one[1]), (one[0], (3, 4, 2)), ((1, 0, 5, 2), one[1]), (one[0], (1, 0, 4, 2)), ((0, 4, 5, 2), one[1]), (one[0], (2, 3, 4, 2)), (one[0], (1, 3, 4, 3)), ((1, 4, 5, 0), one[1])]:
        yield case(grads, image, texts=True)
    yield case(*one, kernel_type="foo", texts=True)
