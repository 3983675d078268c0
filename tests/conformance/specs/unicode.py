"""Test cases for ops that decode, encode and transcode Unicode, and that find the scripts of characters."""

from spec import *

UTF8 = [b"", b"abc", "aé日😀".encode(), b"a\xffb", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80x", b"\xe3\x81", b"\xe3\x81a", b"\xf0\x9f\x98",
        b"\xf0\x9f\x98a", b"\xf0\x80\x80\x80", b"\xe0\x80\x80x", b"\x80\x80", b"\xfe\xbf", b"\xf8\x88\x80\x80\x80", b"\xc3\xc3\xa9", b"\xf5\x80",
        b"\xed\x9f\xbf\xee\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xe1\x80\xc3\xa9", b"\xf1\x80\x80\xc3", b"a\x00b\x1f\x7f\xc2\x85\n\tc", b"\xef\xbb\xbfa",
        b"\xef\xbf\xbd", b"x" * 200, "Ωμέγα über наука".encode()]
UTF16 = [b"", b"\0a\0\xe9", "aé日😀".encode("utf-16-be"), "aé日😀".encode("utf-16-le"), b"\xd8\x00\0a", b"\xdc\x00\0a", b"\0a\xd8\x00", b"abc", b"a",
         b"\xd8\x3d\xde", b"\xd8", b"\xd8\x00\xd8\x00\xdc\x00", b"\0\x1f\0\n", b"\xff\xfe", b"\0a" * 100]
UTF32 = [b"", "aé日😀".encode("utf-32-be"), "aé日😀".encode("utf-32-le"), b"\0\0\0a\0\x11\0\0\0\0\xd8\0", b"\0\0\0", b"\0\0\0a\0", b"\xff\xff\xff\xff\0\0\0a",
         b"\0\0\0a" * 50, b"\x80\0\0\0", b"\0\0\0\x07"]
BYTES = [b"", b"abc", bytes(range(256)), b"\x80\xff\xa4", b"\t\x1f\x00"]
ENCODINGS = [("UTF-8", UTF8), ("utf8", UTF8), ("U_T f-8", UTF8), ("UTF-16-BE", UTF16), ("utf-16be", UTF16), ("UTF-16-LE", UTF16), ("UTF-32-BE", UTF32),
             ("UTF-32LE", UTF32), ("US-ASCII", BYTES), ("latin1", BYTES), ("ISO-8859-1", BYTES), ("ISO-8859-15", BYTES), ("iso-8859-2", BYTES),
             ("windows-1252", BYTES), ("cp1251", BYTES), ("KOI8-R", BYTES), ("IBM00858", BYTES), ("cp437", BYTES), ("macintosh", BYTES), ("TIS-620", BYTES)]


def texts(values):
    return np.array(list(values) + [None], object)[:-1]


def policies():
    for errors in ("replace", "ignore", "strict"):
        for control in (False, True):
            yield dict(errors=errors, replace_control_characters=control)


def inputs(g):
    """Yields strings with attributes, for each encoding and each policy for errors."""
    for name, values in ENCODINGS:
        for policy in policies():
            yield texts(values), dict(input_encoding=name, **policy)
            if policy["errors"] == "strict":
                for value in values[:12]:
                    yield texts([value]), dict(input_encoding=name, **policy)
    for shape in ((), (1,), (0,), (2, 3), (2, 0, 3), (2, 1, 1, 2, 1, 1, 2, 1)):
        n = int(np.prod(shape))
        yield texts(UTF8[2:2 + n]).reshape(shape), dict(input_encoding="UTF-8")
    for char in (0, 32, 0x7f, 0xe9, 0xffff, 0x10000, 0x10ffff, 0x110000, -1):
        yield texts(UTF8), dict(input_encoding="UTF-8", replacement_char=char)
    for name in ("nope", "", "UTF-9", "utf-8-sig", "x" * 100):
        yield texts([b"a"]), dict(input_encoding=name)


@spec("UnicodeDecode", "UnicodeDecodeWithOffsets")
def decode(g, op):
    for x, attrs in inputs(g):
        # UnicodeDecodeWithOffsets with Tsplits=int32 crashes TensorFlow's process.
        for splits in ("int64", "int32") if attrs["input_encoding"] == "UTF-8" and op == "UnicodeDecode" else ("int64",):
            yield Case(x, Tsplits=splits, texts=True, **attrs)


@spec("UnicodeTranscode")
def transcode(g, op):
    for x, attrs in inputs(g):
        for to in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
            yield Case(x, output_encoding=to, texts=True, **attrs)


@spec("UnicodeEncode")
def encode(g, op):
    chars = np.int32([97, 233, 0x65e5, 0x1f600, 0xd800, 0xdfff, 0x110000, -1, 0, 0xfffe, 0xffff, 0x10ffff, 0x7f, 0x80, 0x7ff, 0x800, 2**31 - 1, -2**31])
    for to in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        for errors in ("replace", "ignore", "strict"):
            for t in ("int32", "int64"):
                how = dict(output_encoding=to, errors=errors, texts=True)
                yield Case(chars, np.array([0, 3, 3, 10, len(chars)], t), **how)
                yield Case(chars[:4], np.array([0, 1, 2, 3, 4], t), **how)
                yield Case(chars[:0], np.array([0], t), **how)
                yield Case(chars[:0], np.array([0, 0, 0], t), **how)
                for _ in range(6):
                    n = int(g.rng.integers(0, 40))
                    cuts = np.sort(g.rng.integers(0, n + 1, 4))
                    yield Case(g.rng.integers(0, 0xd800, n).astype("int32"), np.array([0, *cuts, n], t), **how)
                for bad in ([0, 1], [1, 4], [0, 2, 1, 4], [0, 5], [], [0], [0, -1, 4], [[0, 4]], [0, 2, 1, 1], [0, 9, 4]):
                    yield Case(chars[:4], np.array(bad, t), **how)
    for char in (0x20, 0xe9, 0x1f600, 0xfffe, 0x10ffff, 0x110000, -5):
        yield Case(chars, np.int64([0, len(chars)]), output_encoding="UTF-8", replacement_char=char, texts=True)
    yield Case(chars.reshape(2, -1), np.int64([0, 2]), output_encoding="UTF-8", texts=True)


@spec("UnicodeScript")
def script(g, op):
    for k in range(0, 0x110000, 0x4000):
        yield Case(np.arange(k, k + 0x4000, dtype="int32"))
    yield Case(np.int32([-1, 0x110000, 2**31 - 1, -2**31]))
    for x in g.tensors("int32"):
        yield Case(x)
    for _ in range(120):
        yield Case(g.rng.integers(0, 0x120000, 50).astype("int32"))
