"""Specifies the ops that decode and encode images and sound. The files come from the corpora of the fuzz targets."""

import pathlib
import struct
import zlib

from spec import *

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "corpus"
OPS = "DecodeJpeg DecodePng DecodeGif DecodeBmp DecodeWebP DecodeImage".split()


def files(kind):
    return [f.read_bytes() for f in sorted((CORPUS / kind).iterdir())]


def s(data):
    return np.array([data, None], object)[:1].reshape(())


def damaged(g, data, n):
    """Yields n copies of a file in which a few bytes have other values, or which end too early."""
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(int(g.rng.integers(1, 4))):
            copy[int(g.rng.integers(0, len(copy)))] ^= int(g.rng.integers(1, 256))
        yield bytes(copy)
        yield data[:int(g.rng.integers(0, len(data)))]


def refusals(**attrs):
    """Yields what every decoder refuses."""
    for contents in (s(b""), s(b"hello world, this"), np.array([b"a", None], object)[:1], np.zeros((0,), object), s(b"BM"), s(b"GIF89a"),
                     s(b"\xff\xd8\xff"), s(b"\x89PNG\r\n\x1a\n"), s(b"RIFF1234WEBPVP8 "), s(b"RIFF1234WEBP")):
        yield Case(contents, texts=True, **attrs)


def of_any_format(g, **attrs):
    for kind in ("jpeg", "png", "gif", "bmp", "webp"):
        for data in files(kind)[:6]:
            for channels in (0, 1, 3, 4):
                yield Case(s(data), texts=True, channels=channels, **attrs)


def same_shape(case, theirs, ours):
    """Compares images whose pixels behind the end of the data differ (MIGRATION.md)."""
    a, b = [x if isinstance(x, list) else [x] for x in (theirs, ours)]
    if [getattr(x, "shape", "refused") for x in a] != [getattr(x, "shape", "refused") for x in b]:
        return "only one side accepts the image, or their shapes differ"


@spec("DecodeJpeg")
def decode_jpeg(g, op):
    for channels in (2, 5):
        yield Case(s(b"x"), channels=channels, texts=True)
    for ratio in (0, 3, 16, -1):
        yield Case(s(b"x"), ratio=ratio, texts=True)
    for method in ("FLOAT", "x"):
        yield Case(s(b"x"), dct_method=method, texts=True)
    yield from refusals()
    yield from of_any_format(g)
    for data in files("jpeg"):
        for method in ("", "INTEGER_FAST", "INTEGER_ACCURATE"):
            for fancy in (True, False):
                for ratio in (1, 2, 4, 8):
                    for channels in (0, 1, 3):
                        yield Case(s(data), channels=channels, ratio=ratio, fancy_upscaling=fancy, dct_method=method, texts=True)
        for recover in (False, True):
            for fraction in (0.0, 0.3, 0.8, 1.0, 2.0, -1.0):
                for cut in (0.4, 0.6, 0.8, 0.9, 0.97):
                    yield Case(s(data[:int(len(data) * cut)]), try_recover_truncated=recover, acceptable_fraction=fraction, texts=True,
                               check=same_shape if recover else None)
        for copy in damaged(g, data, 10):
            yield Case(s(copy), acceptable_fraction=float(g.rng.random()))
            yield Case(s(copy), try_recover_truncated=True, check=same_shape)
            yield Case(s(copy))


@spec("DecodeAndCropJpeg")
def decode_and_crop_jpeg(g, op):
    yield Case(s(b"x"), np.int32([0, 0, 1, 1]), ratio=3, texts=True)
    for window in ([0, 0, 3], [], [[0, 0, 3, 3]], [[]], 1):
        yield Case(s(files("jpeg")[0]), np.int32(window), texts=True)
    for kind in ("png", "gif", "bmp", "webp"):
        yield Case(s(files(kind)[0]), np.int32([0, 0, 3, 3]), texts=True)
    for data in files("jpeg"):
        at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
        height, width = struct.unpack(">HH", data[at + 5:at + 9])
        for _ in range(25):
            ratio = int(g.rng.choice([1, 1, 2, 4, 8]))
            h, w = -(-height // ratio), -(-width // ratio)
            y, x = int(g.rng.integers(0, h)), int(g.rng.integers(0, w))
            window = [y, x, int(g.rng.integers(1, h - y + 1)), int(g.rng.integers(1, w - x + 1))]
            yield Case(s(data), np.int32(window), ratio=ratio, channels=int(g.rng.choice([0, 1, 3])),
                       fancy_upscaling=bool(g.rng.integers(2)), dct_method=str(g.rng.choice(["", "INTEGER_ACCURATE"])), texts=True)
        for window in ([0, 0, height, width], [0, 0, height + 1, width], [0, 0, height, width + 1], [-1, 0, 1, 1], [0, -1, 1, 1],
                       [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 2**31 - 1, 1]):
            yield Case(s(data), np.int32(window), texts=True)
        for copy in damaged(g, data, 4):
            yield Case(s(copy), np.int32([0, 0, 1, 1]), acceptable_fraction=float(g.rng.random()))


@spec("ExtractJpegShape")
def extract_jpeg_shape(g, op):
    yield from refusals()
    for data in files("jpeg"):
        for t in ("int32", "int64"):
            yield Case(s(data), output_type=t, texts=True)
        for copy in damaged(g, data, 12):
            yield Case(s(copy), texts=True)
    for kind in ("png", "gif", "bmp", "webp"):
        yield Case(s(files(kind)[0]), texts=True)


@spec("DecodePng")
def decode_png(g, op):
    for channels in (2, 5):
        yield Case(s(b"x"), channels=channels, texts=True)
    yield from refusals()
    for t in ("uint8", "uint16"):
        yield from of_any_format(g, dtype=t)
        for data in files("png"):
            for channels in (0, 1, 3, 4):
                yield Case(s(data), channels=channels, dtype=t, texts=True)
            for copy in damaged(g, data, 4):
                yield Case(s(copy), dtype=t)
    data = files("png")[0]
    for width, height in ((1000001, 1), (1, 1000001), (30000, 30000), (23171, 23170), (0, 5), (5, 0), (2**31, 1)):
        header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        yield Case(s(data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]), texts=True)


@spec("DecodeGif")
def decode_gif(g, op):
    yield from refusals()
    for kind in ("jpeg", "png", "bmp", "webp"):
        for data in files(kind):
            yield Case(s(data), texts=True)
    for data in files("gif"):
        for n in [len(data)] + [int(n) for n in g.rng.integers(0, len(data), 12)]:
            yield Case(s(data[:n]), texts=True)
        for copy in damaged(g, data, 12):
            yield Case(s(copy))


@spec("DecodeBmp")
def decode_bmp(g, op):
    for channels in (2, 5):
        yield Case(s(b"x"), channels=channels, texts=True)
    yield from refusals()
    yield from of_any_format(g)
    for data in files("bmp"):
        for channels in (0, 1, 3, 4):
            yield Case(s(data), channels=channels, texts=True)
        for copy in damaged(g, data, 6):
            yield Case(s(copy), texts=True)
        for at, form, values in ((10, "<i", (0, -1, 53, 55, 2**31 - 1, -2**31)), (18, "<i", (0, -5, 1, 2**31 - 1, 30000)),
                                 (22, "<i", (0, -8, 8, 7, 1, 2**31 - 1, -2**31)), (28, "<H", (0, 1, 8, 16, 24, 25, 32, 40, 65535))):
            for value in values:
                copy = bytearray(data)
                struct.pack_into(form, copy, at, value)
                yield Case(s(bytes(copy)), texts=True)
        for n in (31, 32, 53, 54):
            yield Case(s(data[:n]), texts=True)


@spec("DecodeWebP")
def decode_webp(g, op):
    for channels in (2, 5):
        yield Case(s(b"x"), channels=channels, texts=True)
    yield from refusals()
    yield from of_any_format(g)
    for data in files("webp"):
        for channels in (0, 3, 4):
            yield Case(s(data), channels=channels, texts=True)
        for copy in damaged(g, data, 20):
            yield Case(s(copy))


@spec("DecodeImage")
def decode_image(g, op):
    for channels in (2, 5):
        yield Case(s(b"x"), channels=channels, texts=True)
    for t in ("uint8", "uint16", "float32"):
        yield from refusals(dtype=t)
        for expands in (True, False):
            yield from of_any_format(g, dtype=t, expand_animations=expands)
            for kind in ("jpeg", "png", "gif", "bmp", "webp"):
                for data in files(kind):
                    yield Case(s(data), dtype=t, expand_animations=expands, texts=True)
                    for copy in damaged(g, data, 1):
                        yield Case(s(copy), dtype=t, expand_animations=expands)


def picture(g, shape, dtype="uint8"):
    """Returns a picture with smooth parts and noise, so that coders have something to choose from."""
    most = np.iinfo(dtype).max
    y, x = np.mgrid[0:shape[-3], 0:shape[-2]]
    wave = np.sin(x * g.rng.random() + g.rng.random())[..., None] * np.cos(y[..., None] * g.rng.random(shape[-1]))
    return ((wave * 0.4 + 0.5 + g.rng.normal(0, 0.04, shape)).clip(0, 1) * most).astype(dtype)


SIZES = [(1, 1), (8, 8), (7, 13), (16, 16), (17, 33), (40, 50)]


@spec("EncodeJpeg")
def encode_jpeg(g, op):
    for size in SIZES:
        for channels in (1, 3):
            x = picture(g, (*size, channels))
            yield Case(x, texts=True)
            for form in ("", "grayscale", "rgb"):
                yield Case(x, format=form, texts=True)
            for quality in (0, 1, 10, 50, 75, 90, 100):
                for progressive in (False, True):
                    yield Case(x, quality=quality, progressive=progressive, optimize_size=bool(g.rng.integers(2)),
                               chroma_downsampling=bool(g.rng.integers(2)))
            for unit in ("in", "cm"):
                for density in (0, 1, 300, 65535, 65536, -1):
                    yield Case(x, density_unit=unit, x_density=density, y_density=72)
            for xmp in ("x", "<x:xmpmeta/>" * 30, "y" * 65504, "y" * 65505, "y" * 70000):
                yield Case(x, xmp_metadata=xmp, texts=True)
    for shape in ((3, 4, 4), (3, 4, 2), (3, 4, 0), (3, 4), (0, 4, 3), (3, 0, 3), (2, 3, 4, 3), (), (65501, 1, 1), (1, 65500, 1)):
        for form in ("", "grayscale", "rgb"):
            yield Case(np.zeros(shape, "uint8"), format=form, texts=True)
    for quality in (-1, 101):
        yield Case(np.zeros((3, 4, 3), "uint8"), quality=quality, texts=True)


@spec("EncodeJpegVariableQuality")
def encode_jpeg_variable_quality(g, op):
    for size in SIZES:
        for channels in (1, 3):
            for quality in (-1, 0, 1, 10, 33, 50, 75, 90, 95, 100, 101, 2**31 - 1):
                yield Case(picture(g, (*size, channels)), np.int32(quality), texts=True)
            yield Case(picture(g, (*size, channels)), Const(np.int32(80)))
    for shape in ((3, 4, 4), (3, 4, 0), (3, 4), (0, 4, 3), (2, 3, 4, 3), (), (65501, 1, 1)):
        for quality in (50, 101, [50], []):
            yield Case(np.zeros(shape, "uint8"), np.int32(quality), texts=True)


@spec("EncodePng")
def encode_png(g, op):
    for t in ("uint8", "uint16"):
        for size in SIZES:
            for channels in (1, 2, 3, 4):
                for level in (-1, 0, 1, 6, 9):
                    yield Case(picture(g, (*size, channels), t), compression=level)
                yield Case(picture(g, (2, 3, *size, channels), t))
        for shape in ((3, 4, 0), (3, 4, 5), (3, 4), (), (0, 4, 3), (3, 0, 3), (0, 3, 4, 3), (2, 0, 0, 4, 3), (2, 0, 4, 3), (2, 0, 3, 4, 1),
                      (1, 1, 1, 1, 1, 2, 2, 3)):
            yield Case(np.zeros(shape, t), texts=True)
    for level in (-2, 10):
        yield Case(np.zeros((3, 4, 3), "uint8"), compression=level, texts=True)
