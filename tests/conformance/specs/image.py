"""Test cases for ops on images (kernels/image), except Resize* and CropAndResize, which are in nn.py."""

import itertools

from spec import *

# ---- colours ----

COLORED = [(3,), (7, 3), (2, 5, 3), (0, 3), (2, 0, 3), (3, 4, 5, 3), (2, 1, 2, 1, 2, 1, 2, 3), (1300, 3)]
NOT_FINITE = [np.nan, np.inf, -np.inf, 1, 2, -0.0]


def pixels(dtype):
    """Returns one pixel for every combination of special values."""
    return np.array(list(itertools.product(NOT_FINITE, repeat=3))).astype(dtype_of(dtype))


@spec("RGBToHSV", "HSVToRGB")
def hsv(g, op):
    wide = {"float32": dict(ulps=4), "float64": dict(ulps=4), "float16": dict(ulps=1), "bfloat16": dict(ulps=1)}
    for dtype in FLOATS:
        how = dict(wide[dtype], atol={"float32": 1e-6, "float64": 1e-14}.get(dtype, 0))
        for shape, (lo, hi) in itertools.product(COLORED, [(0, 1), (0, 255), (-3, 3)]):
            yield Case(g.values(dtype, shape, lo=lo, hi=hi, special=False), **how)
            yield Case(g.values(dtype, shape, lo=lo, hi=hi).round(), **how)
        yield Case(pixels(dtype), **how)
        yield Case(np.repeat(pixels(dtype), 16, 0), **how)
        for shape in [(), (0,), (4,), (2, 0), (0, 4), (5, 1)]:
            yield Case(np.zeros(shape, dtype_of(dtype)), texts=True)


@spec("AdjustHue", "AdjustSaturation", rtol=1e-6, atol=1e-6)
def adjust(g, op):
    name = {"AdjustHue": "delta", "AdjustSaturation": "scale"}[op]
    factors = [0, 0.5, -0.5, 1, -1, 0.3, -3.7, 12.25, 1e-30]
    factors += [np.nan, 100] if op == "AdjustHue" else [np.nan, np.inf, -np.inf, 1e30]
    for shape, factor in itertools.product([s for s in COLORED if len(s) > 2] + [(200, 9, 3)], factors):
        yield Case(g.values("float32", shape, lo=0, hi=1, special=False), np.float32(factor))
        yield Case(g.values("float32", shape, lo=-3, hi=3), np.float32(factor))
    for factor in factors:
        yield Case(pixels("float32")[None], np.float32(factor))
        yield Case(np.float32(list(itertools.product([0, 1, 2], repeat=3)))[None], np.float32(factor))
    yield from adjust_refusals(name)


def adjust_refusals(name):
    for shape in [(), (3,), (0,), (4,), (2, 3), (2, 3, 4), (2, 0, 4), (2, 3, 0), (1, 2, 3, 0)]:
        yield Case(np.zeros(shape, "float32"), np.float32(1), texts=True)
    for shape, by in [((2, 2, 3), (1,)), ((2, 2, 3), (0,)), ((2, 3), (1,)), ((2, 2, 4), (1,)), ((2, 2, 3), (1, 1))]:
        yield Case(np.zeros(shape, "float32"), np.zeros(by, "float32"), texts=True)


@spec("AdjustContrastv2", rtol=2e-6)
def contrast(g, op):
    shapes = [s for s in COLORED if len(s) > 2] + [(2, 7, 5, 64), (7, 9, 130), (2, 40, 31, 1), (3, 2, 2, 65), (1, 1, 5), (2, 0, 4, 3)]
    for shape, factor in itertools.product(shapes, [0, 1, 0.5, -2, 10, 1e-30, np.nan, np.inf]):
        yield Case(g.values("float32", shape, lo=0, hi=1, special=False), np.float32(factor))
        yield Case(g.values("float32", shape, lo=-300, hi=300), np.float32(factor))
    for special in [np.nan, np.inf, -np.inf, 3e38]:
        x = g.values("float32", (2, 5, 6, 4), special=False)
        x[1, 2:4, 3, 2] = special
        yield Case(x, np.float32(0.5))
    yield from adjust_refusals("contrast_factor")


# ---- patches ----


@spec("ExtractImagePatches")
def image_patches(g, op):
    def case(dtype, shape, sizes, strides=(1, 1), rates=(1, 1), padding="VALID"):
        wide = lambda v: v if len(v) != 2 else [1, *v, 1]
        return Case(g.values(dtype, shape), ksizes=wide(sizes), strides=wide(strides), rates=wide(rates), padding=padding, texts=True)

    for dtype in NUMBERS:
        for sizes, strides, rates in [
            ((2, 2), (1, 1), (1, 1)),
            ((3, 1), (2, 3), (1, 1)),
            ((2, 3), (1, 2), (2, 1)),
            ((3, 3), (1, 1), (1, 3)),
            ((1, 1), (1, 1), (1, 1)),
            ((4, 5), (3, 4), (1, 1)),
            ((6, 5), (1, 1), (1, 1)),
            ((2, 2), (7, 7), (1, 1)),
        ]:
            for padding in ("VALID", "SAME"):
                yield case(dtype, (2, 5, 6, 3), sizes, strides, rates, padding)
    for padding in ("VALID", "SAME"):
        for shape in [(0, 4, 5, 2), (1, 0, 5, 2), (1, 4, 0, 2), (1, 4, 5, 0), (3, 30, 29, 1), (4, 5, 2), (1, 1, 4, 5, 2), ()]:
            yield case("float32", shape, (2, 2), padding=padding)
        for sizes in [(9, 9), (5, 1), [2, 2, 2, 1], [1, 2, 2, 2], [1, 0, 2, 1], [1, -1, 2, 1]]:
            yield case("float32", (1, 4, 5, 2), sizes, padding=padding)
        for steps in [[2, 1, 1, 1], [1, 1, 1, 2], [1, 0, 1, 1], [1, 1, -1, 1], [2, 0, 1, 1], [1, 2**31 - 1, 1, 1]]:
            yield case("float32", (1, 4, 5, 2), (2, 2), strides=steps, padding=padding)
            if max(steps) < 3:
                yield case("float32", (1, 4, 5, 2), (2, 2), rates=steps, padding=padding)


@spec("ExtractVolumePatches")
def volume_patches(g, op):
    def case(dtype, shape, sizes, strides=(1, 1, 1), padding="VALID"):
        wide = lambda v: v if len(v) != 3 else [1, *v, 1]
        return Case(g.values(dtype, shape), ksizes=wide(sizes), strides=wide(strides), padding=padding, texts=True)

    for dtype in REALS:
        for sizes, strides in [
            ((2, 2, 2), (1, 1, 1)),
            ((3, 1, 2), (2, 3, 1)),
            ((1, 3, 3), (1, 1, 2)),
            ((1, 1, 1), (1, 1, 1)),
            ((4, 5, 3), (3, 4, 2)),
            ((5, 6, 4), (1, 1, 1)),
            ((2, 2, 1), (7, 7, 7)),
            ((1, 1, 1), (3, 4, 2)),
            ((1, 2, 1), (4, 3, 3)),
        ]:
            for padding in ("VALID", "SAME"):
                yield case(dtype, (2, 4, 5, 3, 2), sizes, strides, padding)
    for padding in ("VALID", "SAME"):
        for shape in [(0, 3, 4, 5, 2), (1, 0, 4, 5, 2), (1, 3, 4, 0, 2), (1, 3, 4, 5, 0), (3, 9, 8, 10, 1), (3, 4, 5, 2), ()]:
            yield case("float32", shape, (2, 2, 2), padding=padding)
        for sizes in [(9, 9, 9), (4, 1, 1), [2, 2, 2, 2, 1], [1, 2, 2, 2, 2], [1, 0, 2, 2, 1], [1, -1, 2, 1, 1]]:
            yield case("float32", (1, 3, 4, 5, 2), sizes, padding=padding)
        for steps in [[2, 1, 1, 1, 1], [1, 1, 1, 1, 2], [1, 0, 1, 1, 1], [1, 1, 1, -1, 1], [2, 0, 1, 1, 1], [1, 2**31 - 1, 1, 1, 1]]:
            yield case("float32", (1, 3, 4, 5, 2), (2, 2, 2), strides=steps, padding=padding)


# ---- resampling ----

KERNELS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]


@spec("ScaleAndTranslate", rtol=1e-5, atol=1e-6)
def scale_and_translate(g, op):
    def case(image, size=(3, 4), scale=(1, 1), shift=(0, 0), **attrs):
        return Case(image, np.int32(size), np.float32(scale), np.float32(shift), **attrs)

    hows = [
        ((2, 5, 6, 3), (3, 4), (0.6, 0.7), (0, 0)),
        ((1, 5, 6, 1), (9, 11), (1.8, 1.9), (0.5, -1.25)),
        ((1, 7, 8, 4), (7, 8), (1, 1), (2.5, -3)),
        ((1, 33, 40, 2), (5, 6), (0.15, 0.1), (0.1, 0.2)),
        ((1, 3, 1, 5), (6, 7), (2, 7), (-9, 3)),
    ]
    for kernel, antialias, (shape, size, scale, shift) in itertools.product(KERNELS, (True, False), hows):
        x = g.values("float32", shape, special=False)
        yield case(x, size, scale, shift, kernel_type=kernel, antialias=antialias)
    for dtype in ["float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "int64"]:
        for shape, size, scale, shift in hows:
            for kernel in ("lanczos3", "triangle", "box"):
                x = g.values(dtype, shape, special=False) if dtype in FLOATS else g.values(dtype, shape, lo=-99 if dtype in SIGNED else 0, hi=99)
                yield case(x, size, scale, shift, kernel_type=kernel)
    x = g.values("float32", (1, 4, 5, 2), special=False)
    for scale in [(0, 1), (1, -1), (np.nan, 1), (np.inf, 1), (1e30, 1), (1e-3, 1), (1e-30, 1), (1,), 1, ((1, 1),), (1, 1, 1)]:
        yield case(x, scale=scale, texts=True)
    for shift in [(np.nan, 0), (np.inf, 0), (0, -np.inf), (1e30, 0), (100, 0), (4, 5), (-4, -5), (1,), 1, ((1, 1),)]:
        yield case(x, shift=shift, texts=True)
    for size in [(3,), (3, 4, 5), 3, (0, 4), (-1, 4), (4, 0), ((3, 4),), (1, 1)]:
        yield case(x, size=size, texts=True)
    for shape in [(4, 5, 1), (0, 4, 5, 1), (1, 0, 5, 1), (1, 4, 0, 1), (1, 4, 5, 0), (0, 4, 5, 0), ()]:
        yield case(np.ones(shape, "float32"), texts=True)
    yield case(x, kernel_type="LanCzos3")
    for special in [np.nan, np.inf]:
        y = x.copy()
        y[0, 1, 2, 1] = special
        for kernel in KERNELS:
            yield case(y, (6, 7), (2, 1.5), (0, 0), kernel_type=kernel)


@spec("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective(g, op):
    same = [1, 0, 0, 0, 1, 0, 0, 0]

    def case(image, transforms=(same,), size=(3, 4), fill=0.0, how="BILINEAR", mode="CONSTANT", **extra):
        last = [np.float32(fill)] if op.endswith("V3") else []
        return Case(image, np.float32(transforms), np.int32(size), *last, interpolation=how, fill_mode=mode, **extra)

    wide = {"float32": dict(rtol=1e-5), "float64": dict(rtol=1e-5), "float16": dict(rtol=2e-3), "bfloat16": dict(rtol=1e-2)}
    transforms = [
        [[0.8, 0.3, -1.5, -0.2, 1.1, 0.7, 0, 0]],
        [[1, 0, 2, 0, 1, -3, 0, 0]],
        [[-1, 0, 4.25, 0, -1, 5.75, 0.05, -0.03]],
        [[3.7, 0, -20, 0, -2.9, 30, 0, 0]],
        [[0.4, 0.1, 1, 0.1, 0.4, 1, -0.25, 0]],
    ]
    modes = ["CONSTANT", "REFLECT", "WRAP", "NEAREST"]
    for dtype, how, mode in itertools.product(["uint8", "int32", "int64", *FLOATS], ["BILINEAR", "NEAREST"], modes):
        for t in transforms:
            x = g.values(dtype, (1, 6, 7, 2), special=False) if dtype in FLOATS else g.values(dtype, (1, 6, 7, 2), lo=0, hi=200)
            yield case(x, t, (8, 9), 2.5, how, mode, atol=1 if dtype in INTS and how == "BILINEAR" else 0, **wide.get(dtype, {}))
    for how, mode in itertools.product(["BILINEAR", "NEAREST"], modes):
        x = g.values("float32", (3, 5, 1, 3), special=False)
        yield case(x, [t[0] for t in transforms[:3]], (4, 6), -1, how, mode, rtol=1e-5)
        yield case(x, transforms[0], (4, 6), -1, how, mode, rtol=1e-5)
        for shape in [(0, 3, 4, 1), (1, 0, 4, 1), (1, 3, 0, 1), (1, 3, 4, 0), (1, 1, 1, 1)]:
            yield case(g.values("float32", shape, special=False), fill=9, how=how, mode=mode)
        for v in [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e10, -1e10]:
            y = g.values("float32", (1, 3, 4, 1), special=False)
            yield case(y, [[v, 0, 0, 0, 1, 0, 0, 0]], how=how, mode=mode)
            yield case(y, [[1, 0, 0, 0, 1, v, 0, 0]], how=how, mode=mode)
            yield case(y, [[1, 0, 0, 0, 1, 0, 0, v]], how=how, mode=mode)
        yield case(y, [[1, 0, 0, 0, 1, 0, -1, 0]], fill=5, how=how, mode=mode)
    for dtype, fill in itertools.product(["uint8", "int32", "int64", "float16", "float64"], [-3.7, 1e10, -1e10, np.nan, np.inf]):
        y = g.values(dtype, (1, 3, 4, 1), lo=0, hi=9, special=False)
        yield case(y, [[0.3, 0, -0.5, 0, 1, 0.5, 0, 0]], (3, 12), fill, rtol=1e-6)
    x = np.ones((1, 3, 4, 1), "float32")
    for t in [same, [same, same], np.zeros((0, 8)), np.zeros((1, 0)), [[1, 2, 3]], [[[1]]]]:
        yield case(x, t, texts=True)
    for size in [(3,), 3, (3, 4, 5), (0, 4), (4, -1), ((3, 4),)]:
        yield case(x, size=size, texts=True)
    yield case(x[0], texts=True)
    yield case(np.ones((2, 3, 4, 1), "float32"), np.zeros((3, 8)), texts=True)
    if op.endswith("V3"):
        yield case(x, fill=[1], texts=True)


# ---- boxes ----


@spec("DrawBoundingBoxes", "DrawBoundingBoxesV2")
def draw_boxes(g, op):
    def case(images, boxes, colors=None, **extra):
        last = [] if op == "DrawBoundingBoxes" else [np.ones((1, 4), "float32") if colors is None else np.float32(colors)]
        return Case(images, np.float32(boxes), *last, **extra)

    edges = [0, 0.2, 0.5, 0.8, 1, -0.5, 1.5, np.nan, np.inf, -np.inf, 1e30]
    for dtype, channels in itertools.product(["float32", "float16"], [1, 3, 4]):
        for i in range(20):
            images = g.values(dtype, (2, 9, 8, channels))
            colors = g.values("float32", (i % 13, 4), lo=0, hi=255)
            yield case(images, g.rng.uniform(-0.3, 1.3, (2, 12, 4)), colors)
            yield case(images, np.sort(g.rng.uniform(-0.2, 1.2, (2, 1 + i % 3, 2, 2)), 2).reshape(2, -1, 4), colors)
            yield case(images[:, :1], g.rng.choice(edges, (2, 5, 4)), colors)
    for shape in [(5, 6, 1), (1, 3, 3, 2), (1, 3, 3, 5), (1, 3, 3, 0), (2, 5, 6, 1), (0, 5, 6, 1), (1, 0, 6, 1), (1, 5, 0, 3), ()]:
        yield case(np.zeros(shape, "float32"), [[[0.2, 0.2, 0.8, 0.8]]], texts=True)
    for boxes in [[[0.1, 0.1, 0.2, 0.2]], [[[0.1, 0.1, 0.2]]], np.zeros((1, 0, 4)), np.zeros((0, 1, 4)), 1]:
        yield case(np.zeros((1, 5, 6, 3), "float32"), boxes, texts=True)
    if op == "DrawBoundingBoxesV2":
        for colors in [[[2.0]], [2.0], [[2.0, 3]], np.zeros((0, 3)), np.zeros((0, 2)), [[[1, 2, 3]]], 3.0, np.zeros((1, 0))]:
            yield case(np.zeros((1, 5, 6, 3), "float32"), [[[0.2, 0.2, 0.8, 0.8]]], colors, texts=True)


# ---- gradients ----


@spec("ResizeNearestNeighborGrad")
def nearest_grad(g, op):
    close = {"float32": 1e-6, "float64": 1e-15, "float16": 2e-3, "bfloat16": 2e-2}
    hows = [dict(zip(("align_corners", "half_pixel_centers"), v)) for v in itertools.product((False, True), repeat=2)]
    sizes = [((2, 5, 7), (3, 4)), ((1, 4, 5), (9, 8)), ((1, 6, 6), (6, 6)), ((2, 1, 1), (3, 3)), ((1, 9, 8), (1, 1)), ((1, 29, 31), (7, 13))]
    for dtype, how, (shape, size), c in itertools.product(["uint8", "int8", "int32", *FLOATS], hows, sizes, [1, 3]):
        yield Case(g.values(dtype, (*shape, c), special=dtype in INTS), np.int32(size), rtol=close.get(dtype, 0), **how)
    x = g.values("float32", (1, 6, 5, 2))
    yield Case(x, np.int32([3, 2]), rtol=1e-6)
    for size in [(3,), 3, (3, 4, 5), (0, 4), (4, -1), ((3, 4),)]:
        yield Case(x, np.int32(size), texts=True)
    for shape in [(4, 5, 1), (0, 4, 5, 1), (1, 0, 5, 1), (1, 4, 0, 1), (1, 4, 5, 0), ()]:
        yield Case(np.ones(shape, "float32"), np.int32([2, 3]), texts=True)


@spec("ResizeBicubicGrad", "ResizeBilinearGrad")
def smooth_grad(g, op):
    close = {"float32": 1e-5, "float64": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}
    hows = [dict(zip(("align_corners", "half_pixel_centers"), v)) for v in [(False, False), (True, False), (False, True)]]
    sizes = [((2, 5, 7), (3, 4)), ((1, 4, 5), (9, 8)), ((1, 6, 6), (6, 6)), ((2, 1, 1), (3, 3)), ((1, 9, 8), (1, 1)), ((1, 29, 31), (7, 13))]
    types = ["float32", "float64"] if "Bicubic" in op else FLOATS
    for dtype, how, (shape, size), c in itertools.product(types, hows, sizes, [1, 3]):
        # In the half-precision types, TensorFlow rounds after each addition.
        back = g.values("float32", (*shape, c), special=False, lo=-1, hi=1)
        yield Case(back, np.zeros((shape[0], *size, c), dtype), rtol=close[dtype], **how)
    back = g.values("float32", (1, 6, 5, 2), special=False)
    for special, how in itertools.product((np.nan, np.inf), hows):
        x = back.copy()
        x[0, 3, 0, 1] = special
        yield Case(x, np.ones((1, 4, 7, 2), "float32"), rtol=1e-5, **how)
    yield Case(back, np.ones((1, 3, 2, 2), "float32"), align_corners=True, half_pixel_centers=True, texts=True)
    for shape in [(2, 3, 2, 2), (1, 3, 2, 3)]:  # only the height and width of the original image matter
        yield Case(back, np.ones(shape, "float32"), rtol=1e-5)
    for a, b in [((4, 5, 1), (1, 2, 2, 1)), ((1, 4, 5, 1), (2, 2, 1)), ((), (1, 2, 2, 1)), ((1, 4, 5, 1), ()), ((1, 0, 5, 1), (1, 2, 2, 1)),
                 ((1, 4, 0, 1), (1, 2, 2, 1)), ((1, 4, 5, 1), (1, 0, 2, 1)), ((1, 4, 5, 1), (1, 2, 0, 1)), ((0, 4, 5, 1), (0, 2, 2, 1)),
                 ((1, 4, 5, 0), (1, 2, 2, 0))]:
        yield Case(np.ones(a, "float32"), np.ones(b, "float32"), texts=True)


# ---- convolutions of padded images ----

PADDED = [
    ((2, 4, 5, 2), (2, 3, 2, 3), (1, 1), [1, 1], [2, 1]), ((1, 4, 5, 1), (1, 1, 1, 1), (1, 2), [0, 0], [0, 0]), ((1, 3, 7, 3), (3, 3, 3, 2), (2, 2), [2, 0], [0, 6]),
    ((3, 6, 2, 1), (4, 2, 1, 4), (3, 1), [1, 2], [1, 1]), ((1, 1, 1, 2), (2, 2, 2, 2), (1, 1), [0, 0], [0, 0]), ((1, 9, 8, 4), (3, 5, 4, 8), (1, 1), [2, 2], [3, 3]),
]
NO_PADS = [[0, 0]] * 4


@spec("FusedPadConv2D", "FusedResizeAndPadConv2D", rtol=1e-5)
def fused_pad_conv(g, op):
    resizes = op == "FusedResizeAndPadConv2D"

    def case(x, filter_, pads, size=None, mode="REFLECT", padding="VALID", strides=(1, 1), rtol=1e-5, texts=True, **attrs):
        values = [x, np.int32(pads), filter_]
        if resizes:
            values.insert(1, np.int32(x.shape[1:3] if size is None else size))
        how = dict(mode=mode, padding=padding, strides=list(strides) if len(strides) == 4 else [1, *strides, 1], **attrs)

        def build(tf, *tensors):
            for tensor, value in zip(tensors, values):  # TensorFlow wants these shapes when the graph is made
                tensor.set_shape([None] * 4 if value.ndim == 4 else value.shape)
            names = ["input", "size", "paddings", "filter"] if resizes else ["input", "paddings", "filter"]
            return [getattr(tf.raw_ops, op)(**dict(zip(names, tensors)), **how)]

        made = Graph(build, *values, name=f"{op} {x.dtype}{x.shape} {filter_.shape} {np.shape(pads)} {pads} {size} {how}")
        made.tolerance, made.texts = dict(rtol=rtol), texts
        return made

    x = lambda shape, dtype="float32": g.values(dtype, shape, special=False, lo=-2, hi=2)
    types = ("float32", "float64", "float16") + (() if resizes else ("bfloat16",))
    rough = {"float16": 4e-3, "bfloat16": 3e-2}
    for dtype, (image, weights, strides, high, wide), mode, padding in itertools.product(types, PADDED, ("REFLECT", "SYMMETRIC"), ("VALID", "SAME")):
        pads = [[0, 0], high, wide, [0, 0]]
        yield case(x(image, dtype), x(weights, dtype), pads, None, mode, padding, strides, rough.get(dtype, 1e-5))
        if resizes:
            for size, align in itertools.product([(image[1] + 3, image[2] + 4), (image[1], 2 * image[2] + 1)], (False, True)):
                yield case(x(image, dtype), x(weights, dtype), pads, size, mode, padding, strides, rough.get(dtype, 1e-5), resize_align_corners=align)
    image, weights = x((1, 4, 5, 2)), x((2, 3, 2, 3))
    both = [[0, 0], [1, 1], [2, 1], [0, 0]]
    for pads in [[[1, 0], *both[1:]], [[0, 0], [-1, 1], [2, 1], [0, 0]], [[0, 0], [1, -1], [2, 1], [0, 0]], [[0, 0], [4, 1], [2, 1], [0, 0]], [[0, 0], [1, 4], [2, 1], [0, 0]], [[0, 0], [5, 1], [2, 1], [0, 0]], [[0, 0], [1, 1], [2, 6], [0, 0]]]:
        for mode in ("REFLECT", "SYMMETRIC"):
            yield case(image, weights, pads, mode=mode, texts=pads[0] == [0, 0])
    for pads in [[*both[:3], [0, 1]], [[1, 0], *both[1:]]]:
        yield case(x((2, 4, 5, 2)), weights, pads, texts=False)
    yield case(image, x((2, 3, 1, 3)), both)
    yield case(image, weights, both, strides=(2, 1, 1, 1))
    yield case(image, weights, both, strides=(1, 1, 1, 2))
    yield case(image, x((9, 3, 2, 3)), both)
    for shape in [(0, 4, 5, 2), (1, 4, 5, 0)]:
        yield case(x(shape), x((2, 3, shape[3], 3)), both)
    yield case(x((1, 0, 5, 2)), weights, NO_PADS)
    yield case(image, x((2, 3, 2, 0)), both)
    for size in [(0, 7), (-1, 7), (7, 0)] if resizes else []:
        yield case(image, weights, NO_PADS, size)


# ---- images cast back to integers ----


@spec("Cast")
def cast_of_images(g, op):
    for dtype in FLOATS + COMPLEX:
        with np.errstate(over="ignore"):
            x = np.resize([np.nan, np.inf, -np.inf, -0.9, -1, 127.9, 128, 255.9, 256, -300, 33000, 65536, -70000, 1e6, 5e9, -5e9, 2e19], 123)
            x = x.astype(dtype_of(dtype))

        def build(tf, x):
            return [tf.raw_ops.Cast(x=x, DstT=tf.as_dtype(target)) for target in INTS]

        yield Graph(build, x, name=f"Cast {dtype} beyond the limits of integers")
