"""Test cases for ops that decode and encode images and sound. The files come from the corpora of the fuzz targets."""

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
    """Yields n copies of a file. Each copy has a few changed bytes or ends too early."""
    for _ in range(n):
        copy = bytearray(data)
        for _ in range(int(g.rng.integers(1, 4))):
            copy[int(g.rng.integers(0, len(copy)))] ^= int(g.rng.integers(1, 256))
        yield bytes(copy)
        yield data[:int(g.rng.integers(0, len(data)))]


def refusals(**attrs):
    """Yields inputs that every decoder refuses."""
    for contents in (s(b""), s(b"hello world, this"), np.array([b"a", None], object)[:1], np.zeros((0,), object), s(b"BM"), s(b"GIF89a"),
                     s(b"\xff\xd8\xff"), s(b"\x89PNG\r\n\x1a\n"), s(b"RIFF1234WEBPVP8 "), s(b"RIFF1234WEBP")):
        yield Case(contents, texts=True, **attrs)


def of_any_format(g, **attrs):
    for kind in ("jpeg", "png", "gif", "bmp", "webp"):
        for data in files(kind)[:6]:
            for channels in (0, 1, 3, 4):
                yield Case(s(data), texts=True, channels=channels, **attrs)


def same_shape(case, theirs, ours):
    """Compares only the shapes of images, because pixels after the end of the data may differ (MIGRATION.md)."""
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
    """Returns an image with smooth areas and noise, so that an encoder uses different methods for the areas."""
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


def wav(g, frames, channels=1, rate=8000, form=1, bits=16, form_size=16, extra=b"", before=b"", size=None, tag=b"data", **wrong):
    data = g.rng.integers(-2**15, 2**15, frames * channels).astype("<i2").tobytes()
    frame = wrong.get("frame", channels * 2)
    header = struct.pack("<HHIIHH", form, channels, rate, wrong.get("bytes", rate * frame % 2**32), frame, bits) + bytes(max(0, form_size - 16))
    body = b"WAVE" + before + b"fmt " + struct.pack("<I", form_size) + header + extra + tag
    body += struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", wrong.get("riff", len(body))) + body


def chunk(tag, data, size=None):
    return tag + struct.pack("<I", len(data) if size is None else size) + data


@spec("DecodeWav")
def decode_wav(g, op):
    for data in [wav(g, n, c, rate) for n in (0, 1, 5, 300) for c in (1, 2, 5) for rate in (0, 1, 8000, 44100, 2**31 - 1)]:
        yield Case(s(data), texts=True)
    for channels in (-1, 0, 1, 2, 3, 7):
        for samples in (-1, 0, 1, 4, 5, 6, 50):
            for c in (1, 2, 4):
                yield Case(s(wav(g, 5, c)), desired_channels=channels, desired_samples=samples, texts=True)
    whole = wav(g, 5)
    for data in [whole[:n] for n in range(len(whole))] + [whole + bytes(n) for n in range(1, 10)]:
        yield Case(s(data), texts=True)
    for how in (dict(form=0), dict(form=3), dict(form=0xfffe), dict(channels=0, frame=2), dict(channels=1025), dict(bits=8), dict(bits=24),
                dict(frame=4), dict(bytes=5), dict(form_size=14), dict(form_size=17), dict(form_size=18), dict(form_size=20),
                dict(form_size=40), dict(riff=0), dict(tag=b"dat_"), dict(size=4), dict(size=5), dict(size=9), dict(size=11), dict(size=100),
                dict(size=2**31), dict(size=2**32 - 1), dict(size=0), dict(rate=2**31, bytes=0)):
        yield Case(s(wav(g, 5, **how)), texts=True)
    for tag in b"JUNK bext iXML qlty mext levl link axml LIST junk data fmt_".split():
        for n, size in ((0, None), (3, None), (4, None), (4, 1000), (4, 2**31 - 1), (4, 2**31), (4, 2**32 - 1)):
            yield Case(s(wav(g, 5, before=chunk(tag, bytes(n), size))), texts=True)
            yield Case(s(wav(g, 5, extra=chunk(tag, bytes(n), size))), texts=True)
            yield Case(s(wav(g, 5) + chunk(tag, bytes(n), size)), texts=True)
    for copy in damaged(g, wav(g, 6, 2), 60):
        yield Case(s(copy), texts=True)
    for contents in (np.array([whole, None], object)[:1], np.zeros((0,), object)):
        yield Case(contents, texts=True)


@spec("EncodeWav")
def encode_wav(g, op):
    edges = np.float32([0, -0.0, 1, -1, 2, -2, np.inf, -np.inf, 1e-45, 0.99998, 32766.5 / 32768, 32767.5 / 32768, -32768.5 / 32768])
    edges = np.concatenate([edges, (np.arange(-20, 20, dtype="float32") + 0.5) / 32768, np.arange(-9, 9, dtype="float32") / 65536])
    yield Case(edges[:, None], np.int32(8000), texts=True)
    for shape in ((1, 1), (7, 2), (300, 1), (40, 6), (0, 1), (0, 3), (1, 32767), (1, 32768), (1, 65535)):
        for rate in (1, 8000, 44100, 2**30, 2**31 - 1, 0, -1, -2**31):
            yield Case(g.rng.normal(0, 0.5, shape).astype("float32"), np.int32(rate), texts=True)
    for shape in ((3,), (1, 2, 3), (), (3, 0), (0, 0), (1, 65536), (2, 70000)):
        for rate in (8000, 0, [8000], []):
            yield Case(np.zeros(shape, "float32"), np.int32(rate), texts=True)


@spec("AudioSpectrogram", rtol=3e-7)
def audio_spectrogram(g, op):
    for window, stride in ((2, 1), (3, 1), (4, 4), (10, 3), (16, 4), (30, 7), (50, 1), (50, 100), (51, 1), (64, 16), (200, 80), (256, 128),
                           (1000, 1), (5, 2)):
        for shape in ((50, 1), (50, 3), (0, 2), (20, 0), (400, 2), (1, 1), (70, 40)):
            yield Case(g.rng.normal(0, 1, shape).astype("float32"), window_size=window, stride=stride, texts=True,
                       magnitude_squared=bool(g.rng.integers(2)))
    for special in (np.nan, 1e10, 1e-30, 0):
        x = g.rng.normal(0, 1, (60, 1)).astype("float32")
        x[30] = special
        yield Case(x, window_size=12, stride=3)
        yield Case(np.full((40, 1), special, "float32"), window_size=16, stride=5, magnitude_squared=True)
    for shape in ((), (5,), (1, 5, 1)):
        yield Case(np.zeros(shape, "float32"), window_size=4, stride=2, texts=True)


@spec("Mfcc", rtol=3e-7)
def mfcc(g, op):
    power = lambda *shape: np.square(g.rng.normal(0, 3, shape)).astype("float32")
    for bins in (2, 3, 9, 65, 129, 257):
        for rate in (8000, 16000, 44100, 100, 1):
            for filters, coefficients in ((40, 13), (40, 40), (20, 5), (2, 1), (200, 20)):
                yield Case(power(2, 3, bins), np.int32(rate), filterbank_channel_count=filters, dct_coefficient_count=coefficients, texts=True)
    x = power(1, 4, 129)
    for low in (-1.0, 0.0, 20.0, 300.0, 4000.0, 5000.0):
        for high in (0.0, 20.0, 301.0, 4000.0, 7999.0, 8000.0, 8001.0, 1e9):
            yield Case(x, np.int32(16000), lower_frequency_limit=low, upper_frequency_limit=high, texts=True)
    for filters in (-1, 0, 1, 2, 500):
        for coefficients in (-1, 0, 1, 2, 13, 501):
            yield Case(x, np.int32(16000), filterbank_channel_count=filters, dct_coefficient_count=coefficients, texts=True)
    for rate in (0, -1, 2**31 - 1, [16000], [16000, 1], []):
        yield Case(x, np.int32(rate), texts=True)
    for shape in ((129,), (2, 129), (1, 2, 2, 129), (1, 2, 1), (1, 2, 0), (0, 2, 129), (1, 0, 129), ()):
        yield Case(np.ones(shape, "float32"), np.int32(16000), texts=True)
    for special in (0, -1, np.nan, np.inf, 1e-30, 1e30):
        y = x.copy()
        y[0, 1, 40:50] = special
        yield Case(y, np.int32(16000))
        yield Case(np.full_like(x, special), np.int32(16000))
