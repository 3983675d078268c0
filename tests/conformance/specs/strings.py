"""Test cases for string ops, such as lengths, case, substrings, joins, hashes, numbers and Base64."""

from spec import *


def s(*v):
    return np.array(list(v) + [None], object)[:-1]


WORDS = s(b"", b"a", b"abc", b"hello world", b"x" * 20, b"y" * 40, b"z" * 64, b"q" * 65, b"w" * 200, b"\x00\xff", "über".encode())


@spec("StringLength")
def length(g, op):
    for unit in ("BYTE", "UTF8_CHAR"):
        yield Case(WORDS, unit=unit)
        yield Case(g.values("string", (2, 0, 3)), unit=unit)
        yield Case(s(b"\xff\xfe", "日本語 über".encode()), unit=unit)


@spec("StringStrip", "StringLower", "StringUpper")
def plain(g, op):
    for x in g.tensors("string"):
        yield Case(x)
    yield Case(s(b"  a b\t\n\v\f\r ", b"   ", b"", b"Hello WORLD"))
    if op != "StringStrip":
        blocks = [*range(0x80, 0x3000, 64), *range(0xa640, 0xabc0, 64), *range(0xfb00, 0x10000, 64), *range(0x10400, 0x1ea00, 64)]
        yield Case(s(*["".join(chr(c + k) + " " for k in range(64)).encode() for c in blocks]), encoding="utf-8")
        words = ("Σ", "ΟΔΟΣ", "ΟΔΟΣ ΣΑΣ.", "ΣΑ", "1Σ", "A1Σ", "A'Σ'B", "A'Σ' B", "A\u0301Σ\u0301", "A\u0301Σ\u0301b", "ΑΣΣ", "oΣ+W", "ςΣ", "ǅΣ", "ʰΣ")
        yield Case(s(*[w.encode() for w in words], b"\xf4\x9e", b"\xe0\x80\xed\xa0\x80\xf0\x80", b"A\xffO\xce\xa3\xff", b"A\xce\xa3\xce"), encoding="utf-8")
        yield Case(s("ABC ÜBER Straße ÿ ŉ Ωμέγα Ж ж Ł ł".encode(), b"A\xffB", b"\xe3\x81"), encoding="utf-8")
        for encoding in ("", "utf-8"):
            yield Case(s(b"\0", b"a\0b", b"\0A\0b", b"AB\0", b"\xff\0X", b"\xe3\x81\0A", b"\xc3\x9c\0\xc3\x9c"), encoding=encoding)
        yield Case(s(b"a"), encoding="latin")


@spec("Substr")
def substr(g, op):
    for unit in ("BYTE", "UTF8_CHAR"):
        for x, p, n in ((s(b"hello", b"world"), 1, 3), (s(b"hello", b"wor"), 4, 3), (s(b"hello", b"wor"), -2, 10),
                        (s(b"hello", b"wor"), -6, 10), (s(b"hello", b"wor"), [1, 2], [1, 0]), (s(b"hello", b"wor"), [1, 2, 3], [1, 1, 1]),
                        (s(b"hello", b"wor"), [1, 2], [1]), (s(b"hello"), [1, 2], [1, 1]), (s("über日本".encode()), 1, 4),
                        (s("über".encode()), -3, 2), (s("über".encode()), 4, 2), (s("über".encode()), 9, 2),
                        (s("über".encode()), 1, -1), (s("über".encode()), -3, -1), (s("über".encode()), 9, -1)):
            yield Case(x, np.int32(p), np.int32(n), unit=unit)
            yield Case(x, np.int64(p), np.int64(n), unit=unit)


@spec("StringJoin")
def join(g, op):
    yield Case([s(b"a", b"b"), s(b"x")[0:1].reshape(()), s(b"c", b"d")], separator="-")
    yield Case([s(b"a", b"b"), s(b"c", b"d")])
    yield Case([s(b"a", b"b"), s(b"c")], separator="-")
    yield Case([s(b"a", b"b").reshape(1, 2), s(b"c", b"d")], separator="-")
    yield Case([WORDS], separator="-")


@spec("ReduceJoin")
def reduce_join(g, op):
    x = s(b"a", b"b", b"c", b"d", b"e", b"f").reshape(2, 3)
    for axes in ([0], [1], [0, 1], [1, 0], [-1], [], [0, 0], [2], [0, -2], 0):
        for keep in (False, True):
            yield Case(x, np.array(axes, np.int32), keep_dims=keep, separator=".")
    yield Case(np.zeros((0, 2), object), np.int32([0]))
    yield Case(s(b"a").reshape(()), np.int32([]))


@spec("StringSplitV2")
def split_v2(g, op):
    x = s(b"a b  c ", b" ", b"", b"  lead", b"a,b,,c", b",", b"a<>b<><>c", b"tab\tnew\nline")
    for sep in (b"", b",", b"<>", b" "):
        for m in (-1, 0, 1, 2):
            yield Case(x, s(sep).reshape(()), maxsplit=m)
    yield Case(s(b"a").reshape(()), s(b"").reshape(()))
    yield Case(x, s(b"", b""))
    yield Case(np.zeros((0,), object), s(b"").reshape(()))


@spec("StringSplit")
def split(g, op):
    x = s(b"a b  c ", b" ", b"", b"  lead", b"a,b,,c", b",")
    for d in (b"", b",", b" ", b", "):
        for skip in (True, False):
            yield Case(x, s(d).reshape(()), skip_empty=skip)
    yield Case(s(b"a").reshape(()), s(b"").reshape(()))


@spec("AsString")
def as_string(g, op):
    for dtype in INTS:
        yield Case(g.values(dtype, (9,)))
        yield Case(g.values(dtype, (9,)), width=12)
    for dtype in WIDE_FLOATS + HALFS:
        x = g.values(dtype, (20,), lo=-1000, hi=1000)
        yield Case(x)
        yield Case(x, precision=2)
        yield Case(x, scientific=True)
        yield Case(x, shortest=True)
        yield Case(x, width=14, fill="0", precision=1)
    yield Case(np.array([True, False]))
    yield Case(np.complex64([1 + 2j]), precision=2)
    for fill in ("-", "+", " ", "x", "xx", "0"):
        yield Case(np.int32([15, -3]), width=10, fill=fill)
    yield Case(np.int32([15]), precision=3)
    yield Case(np.int32([15]), scientific=True)
    yield Case(np.float32([1.5]), scientific=True, shortest=True)
    for width in (-1, 0, 2, 5):
        for precision in (-1, 0, 2):
            for fill in ("", "-", "0"):
                yield Case(s(b"", b"abc", b"a\0b"), width=width, precision=precision, fill=fill)
    yield Case(s(b"a", b"bc"), scientific=True)
    yield Case(s(b"a", b"bc"), shortest=True)
    yield Case(np.float32([]))


@spec("StringToNumber")
def to_number(g, op):
    for t in ("float32", "float64", "int32", "int64"):
        yield Case(s(b"1", b" 3 ", b"-7", b"+5"), out_type=t)
        for bad in (b"abc", b"", b"1_0", b"1 2", b"1.5", b"3000000000", b"99999999999999999999", b"0x10", b"1e3"):
            yield Case(s(bad), out_type=t)
    for t in ("float32", "float64"):
        yield Case(s(b"1.5", b"-2.25e3", b"inf", b"nan", b".5", b"5.", b"Infinity", b"-INF", b"1e400", b"0.1", b"16777217"), out_type=t)


@spec("StringToHashBucketFast")
def fast(g, op):
    yield Case(WORDS, num_buckets=1000000007)
    yield Case(s(*[bytes(g.rng.integers(0, 256, n, np.uint8)) for n in range(200)]), num_buckets=2**62)
    yield Case(WORDS, num_buckets=1)


@spec("StringToHashBucket")
def old(g, op):
    yield Case(WORDS, num_buckets=1000000007)
    yield Case(s(*[bytes(g.rng.integers(0, 256, n, np.uint8)) for n in range(60)]), num_buckets=2**62)


@spec("StringToHashBucketStrong")
def strong(g, op):
    yield Case(WORDS, num_buckets=1000000007, key=[1, 2])
    yield Case(s(*[bytes(g.rng.integers(0, 256, n, np.uint8)) for n in range(60)]), num_buckets=2**62, key=[2**60, 17])
    yield Case(WORDS, num_buckets=10, key=[1])


@spec("EncodeBase64")
def encode(g, op):
    for pad in (False, True):
        yield Case(WORDS, pad=pad)


@spec("DecodeBase64")
def decode(g, op):
    yield Case(s(b"", b"YQ", b"YQ==", b"YWI", b"YWI=", b"YWJj", b"__79"))
    for bad in (b"Y", b"Y+==", b"YQ=", b"Y WI", b"YR", b"====", b"=", b"Y==="):
        yield Case(s(bad))


@spec("StringFormat")
def string_format(g, op):
    yield Case([np.arange(8), s(b"x").reshape(()), np.float32(1.5)], template="a %s b %s c %s")
    yield Case([np.int32([[1, 2], [3, 4]]), s(b"x", b"y")], template="a %s b %s")
    for shape in ((10, 10), (8, 8, 8), (2, 2, 2), (7,), (3, 9)):
        x = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
        for n in (3, 1, -1):
            yield Case([x], template="%s", summarize=n)
    yield Case([np.array([True, False]), np.zeros(0, np.float32), np.float64(.1), np.float32(1e10)], template="%s%s%s%s")
    for t in (bool, np.float32, np.complex64):
        for shape in ((), (0,), (2, 0), (3,), (2, 3)):
            for n in (0, 1, -1):
                yield Case([np.ones(shape, t)], template="%s", summarize=n)
    yield Case([s(b'a\n"q"\x01')], template="{}", placeholder="{}")
    for template, placeholder, n in (("{}", "", 1), ("abc", "", 2), ("a\u00e9", "", 2), ("aaa", "aa", 1), ("aaaa", "aa", 2)):
        yield Case([np.int32(7)] * n, template=template, placeholder=placeholder)


@spec("StringNGrams")
def ngrams(g, op):
    words = s(b"a", b"b", b"c", b"d", b"e", b"f", b"g")
    splits = np.int64([0, 3, 3, 4, 7])
    for widths in ([1], [2], [3], [2, 3], [5]):
        for pad in (0, 1, 2, -1):
            for keep in (False, True):
                if pad == -1 and keep:
                    continue
                for t in (np.int64, np.int32):
                    yield Case(words, splits.astype(t), separator="|", ngram_widths=widths, left_pad="L", right_pad="R",
                               pad_width=pad, preserve_short_sequences=keep)
    for bad in ([1, 7], [0, 3], [0, 5, 3, 7], [0, 9], []):
        yield Case(words, np.int64(bad), separator=" ", ngram_widths=[2], left_pad="", right_pad="", pad_width=0, preserve_short_sequences=False)
    for shape, rows in (((), []), ((2, 2), []), ((2, 2), [0, 4]), ((0,), [0]), ((0,), [0, 0, 0]), ((0, 3), [0, 0])):
        x = np.full(shape, b"x", object)
        yield Case(x, np.int64(rows), separator="|", ngram_widths=[2], left_pad="L", right_pad="R", pad_width=-1, preserve_short_sequences=False)


@spec("Fingerprint")
def fingerprint(g, op):
    method = s(b"farmhash64").reshape(())
    for dtype in ("float32", "int64", "uint8", "bool"):
        for shape in ((3,), (2, 5), (4, 2, 3), (0, 3)):
            yield Case(g.values(dtype, shape), method)
    for shape in ((3,), (2, 5), (4, 1), (2, 2, 3)):
        yield Case(g.values("string", shape), method)
    yield Case(np.float32(1), method)
    yield Case(np.float32([1]), s(b"md5").reshape(()))


@spec("DecodeRaw")
def decode_raw(g, op):
    raw = lambda n: bytes(g.rng.integers(0, 100, n, np.uint8))
    for t in ("uint8", "int8", "int16", "uint16", "int32", "int64", "float32", "float64", "float16", "complex64", "bool"):
        for little in (True, False):
            yield Case(s(raw(16), raw(16)), out_type=t, little_endian=little)
            yield Case(s(raw(32)).reshape(()), out_type=t, little_endian=little)
            yield Case(s(b"", b""), out_type=t, little_endian=little)
            yield Case(s(raw(16), raw(16), raw(16), raw(16)).reshape(2, 2), out_type=t, little_endian=little)
        yield Case(np.zeros((0, 3), object), out_type=t)
    yield Case(s(b"abcd", b"abc"), out_type="uint8")
    yield Case(s(b"abc"), out_type="int32")


@spec("UnsortedSegmentJoin")
def segment_join(g, op):
    for index in ("int32", "int64"):
        for count in ("int32", "int64"):
            yield Case(s(b"a", b"b", b"c"), np.array([0, 1, 0], index), np.array(3, count), separator="-")
    for shape, ids in (((40,), (40,)), ((6, 3), (6,)), ((4, 3, 2), (4, 3)), ((2, 2), (2, 2)), ((3, 0), (3,)), ((0,), (0,)), ((0, 2), (0,))):
        for separator in ("", ", a separator that is long"):
            x = g.values("string", shape)
            yield Case(x, g.values("int32", ids, lo=0, hi=3), np.int32(4), separator=separator)
            yield Case(x, g.values("int64", ids, lo=-2, hi=5), np.int64(4), separator=separator, texts=True)
    yield Case(s(b"", b"", b"x"), np.int32([0, 0, 0]), np.int32(1), separator="+")
    for x, ids, n in ((s(b"a"), [0], [1]), (s(b"a"), [0], -3), (s(b"a"), [0], 0), (s(), [], 0), (s(b"a", b"b"), [0], 1), (s(b"a"), [0, 1], 2),
                      (s(b"a", b"b"), [[0, 1]], 1), (np.array(b"a", object), 0, 2), (s(b"a"), 0, 2), (np.array(b"a", object), [0], 2),
                      (s(b"a"), 0, -1), (s(b"a"), [[0]], [[1]]), (s(b"a").reshape(1, 1), [[0, 1]], 2)):
        yield Case(x, np.array(ids, np.int64), np.array(n, np.int64), separator="-", texts=True)
    for n in (1, 2):
        yield Case(s(b"a", b"b"), np.int32([n - 1, 0]), Const(np.int32(n)), separator="-")


@spec("ScalarSummary")
def scalar_summary(g, op):
    for dtype in REALS:
        for shape in ((), (1,), (3,), (0,), (2, 2)):
            tags = np.empty(shape, object)
            for k in range(tags.size):
                tags.flat[k] = (b"", b"loss", b"a tag of more than fifteen bytes", b"\xff\x00")[k % 4]
            yield Case(tags if shape else np.array(b"loss", object), g.values(dtype, shape))
    for a, b in (((), (1,)), ((1,), ()), ((2,), (1,)), ((2,), (1, 2)), ((26,), (1,)), ((1, 1), (1,))):
        yield Case(np.full(a, b"tag", object), g.values("float32", b), texts=True)


@spec("HistogramSummary")
def histogram_summary(g, op):
    for dtype in REALS:
        for shape in ((), (0,), (1,), (7,), (5, 60)):
            yield Case(np.array(b"tag", object), g.values(dtype, shape, special=False))
    for x in ([0.0], [-0.0], [1e-13, 1e-12, -1e-12, 1e20, -1e20, 1.7e308], [-1e300, 5], [1, np.nan], [np.inf, np.nan], [-np.inf]):
        yield Case(np.array(b"", object), np.float64(x))
    yield Case(np.array([b"tag"], object), np.float32([1]), texts=True)


@spec("TensorSummary")
def tensor_summary(g, op):
    for dtype in PLAIN + ["string"]:
        for shape in ((), (0,), (3,), (2, 3)):
            yield Case(g.values(dtype, shape), description="d", labels=["a"], display_name="n")


def tf_bytes(values, dtype=np.uint8):
    """Returns a tensor as the value of an attribute."""
    import tensorflow as tf

    return tf.make_tensor_proto(np.array(values, dtype))


@spec("ImageSummary")
def image_summary(g, op):
    tag = np.array(b"tag", object)

    def case(x, name=tag, bad=None, **how):
        return Case(name, x, bad_color=tf_bytes([255, 0, 0, 255] if bad is None else bad), **how)

    for dtype in ("uint8", "float16", "float32", "float64"):
        for channels in (1, 3, 4):
            for shape in ((1, 3, 5), (4, 7, 2), (0, 2, 2), (2, 1, 1), (1, 30, 40)):
                for most in (1, 3, 9):
                    yield case(g.values(dtype, (*shape, channels), special=False), max_images=most)
            for lo, hi in ((0, 1), (0, 300), (-1, 0), (-5, 200), (0, 1e-7), (-1e-7, 0)):
                if dtype != "uint8":
                    x = g.rng.uniform(lo, hi, (1, 6, 5, channels)).astype(dtype)
                    yield case(x)
                    x[0, 0, 1, 0], x[0, 3, 3, -1], x[0, 2, 2, :] = np.nan, np.inf, -np.inf
                    yield case(x)
                    yield case(x, bad=[1, 2, 3, 4, 5])
    one = np.float32(g.rng.uniform(0, 1, (2, 3, 2, 3)))
    yield case(one, np.array(b"", object))
    yield case(one, bad=[1, 2, 3])
    yield case(np.full((1, 2, 2, 3), np.nan, np.float32))
    for x, name in ((one[..., :2], tag), (one[0], tag), (one[None], tag), (np.zeros((1, 2, 2, 5), np.float32), tag), (one, np.array([b"t"], object)),
                    (one[:, :0], tag), (one[:, :, :0], tag), (one[0], np.array([b"t"], object)), (np.float32(1), tag), (one[:0, :0], tag)):
        yield case(x, name, texts=True)
    for x in (one, np.uint8(one), np.float32(np.ones((1, 0, 2, 3)))):
        yield case(x, bad=[1], texts=True)
    yield Case(tag, one, bad_color=tf_bytes([[1, 2, 3]]), texts=True)
    yield Case(tag, one, bad_color=tf_bytes([1, 2, 3], np.float32), texts=True)


@spec("AudioSummaryV2")
def audio_summary(g, op):
    def case(x, rate=8000, name=b"tag", **how):
        return Case(np.array(name, object), np.float32(x), np.float32(rate), **how)

    for shape in ((1, 5, 2), (4, 3, 1), (0, 3, 1), (2, 0, 2), (3, 40), (1, 0), (2, 7, 9)):
        for most in (1, 3, 9):
            for rate in (8000, 44100.7, 0.5, 1.5, 4e9):
                yield case(g.rng.uniform(-1.1, 1.1, shape), rate, max_outputs=most)
    yield case(g.values("float32", (2, 60)))
    x = g.rng.uniform(-1, 1, (2, 5, 2))
    yield case(x, [8000])
    yield case(x, name=b"")
    for what in (x[0, :, 0], x[None], x[:1, :, :0], np.zeros((1, 2, 70000)), x[:0, :, :0], x[:1, :0, :0], 1):
        yield case(what, texts=True)
    for rate in (0, -1, np.nan, np.inf, 1e20, 4294967296, 0.4, [8000, 1], [], [[8000]]):
        yield case(x, rate, texts=True)
    yield case(x, 0, [b"t"], texts=True)
    yield case(x[0, 0], 0, texts=True)


def summaries():
    """Returns serialized Summary messages of one value each: every kind of value, and bytes that no writer writes."""
    import tensorflow as tf

    from tensorflow.core.framework import summary_pb2

    v1, out = tf.compat.v1, []
    meta = summary_pb2.SummaryMetadata(display_name="d", summary_description="x", data_class=2,
                                       plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="p", content=b"c"))
    for k, how in enumerate((dict(simple_value=1.5), dict(simple_value=0.0), dict(obsolete_old_style_histogram=b"h"), dict(node_name="n"),
                             dict(image=v1.Summary.Image(height=1, width=-2, colorspace=3, encoded_image_string=b"xx")), dict(image=v1.Summary.Image()),
                             dict(histo=v1.HistogramProto(min=1, max=-0.0, num=3, sum=4, sum_squares=5, bucket_limit=[1, 2], bucket=[3, 4])),
                             dict(audio=v1.Summary.Audio(sample_rate=1, num_channels=-2, length_frames=3, content_type="t", encoded_audio_string=b"a")),
                             dict(tensor=tf.make_tensor_proto(np.float32([[1, 2]])), metadata=meta), dict(tensor=tf.make_tensor_proto(["a", "b"])),
                             dict(tensor=tf.make_tensor_proto(np.int64([1, -1, 2**40]))), dict(tensor=tf.make_tensor_proto([True, False])))):
        out.append(v1.Summary(value=[v1.Summary.Value(tag=f"t{k}", **how)]).SerializeToString())
    value = [b"\n\x01t\x9a\x06\x01z", b"\x15\0\0\x80?\n\x01t", b"\n\0", b"\x15\0\0\x80?:\x01n\x15\0\0\0@", b"\x15\0\0\x80?\"\x02\x08\x01", b"\"\x02\x08\x01\"\x02\x10\x02",
             b"\"\x02\x08\x01\x15\0\0\x80?\"\x02\x10\x02", b"\n\x01a\n\x01b", b"\"\x03\x08\x81\0", b"*\x12\x09\0\0\0\0\0\0\xf0?1\0\0\0\0\0\0\xf0?", b"\n\x02\xc3\xa9",
             b"\x98\x06\x07", b"\x9d\x06\1\2\3\4", b"\x99\x06\1\2\3\4\5\6\7\x08", b"B\x06\x08\x01*\x02\0\0", b"J\x02\x20\x01", b"\"\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
    return out + [b"\n" + bytes([len(v)]) + v for v in value] + [b"\x12\x01a", b"", b"\n\x83\0\n\x01t", b"\x08\x01", b"\n\x06B\x04\x08\x01(\x01"]


@spec("MergeSummary")
def merge_summary(g, op):
    every = summaries()
    for x in every:
        yield Case([np.array(x, object)])
    a, b, none = every[0], every[1], every[14]
    for of in ((a, b), (a, a), (none, none), (a, none, b, none), every[:12], every[:12] + every[:1], (b, every[7], b)):
        yield Case([np.array(x, object) for x in of], texts=True)
    yield Case([s(a, b), np.array(every[2], object), s()])
    yield Case([s(a, b, a)], texts=True)
    many = [b"\n\x0b\n\x04" + b"%04d" % k + b"\x15" + np.float32(k).tobytes() for k in range(300)]
    yield Case([s(*many)])
    yield Case([s(*many, many[150])], texts=True)
    yield Case([np.array(b"".join(many), object)])
    for x in (b"\xff", b"\n\x03\n\x01\xff", b"\n\x05\n", b"\0\0", b"\n\x02\"\x02\x08", b"\n\x02:\x01", b"\n\x03*\x01\x01", b"\n\x05*\x032\x01\0", b"\n\x04J\x02\x12\x05", b"\x0c"):
        yield Case([np.array(x, object)], texts=True)


@spec("TensorSummaryV2")
def tensor_summary_v2(g, op):
    metadata = (b"", b"\x12\x01d", b"\n\x06\n\x01p\x12\x01c\x12\x01d\x1a\x01x", b"\x20\x01", b"\x1a\x01x\x12\x01d", b"\n\x03\n\x01a\n\x03\x12\x01b", b"\x9a\x06\x01z", b"\xff")
    for dtype in PLAIN + ["string"]:
        for shape in ((), (0,), (3,), (2, 3)):
            yield Case(np.array(b"tag", object), g.values(dtype, shape), np.array(metadata[len(shape)], object))
    for m in metadata:
        for tag in (b"", b"t", b"a tag of more than fifteen bytes", b"\xff\0"):
            yield Case(np.array(tag, object), np.float32([1, 2]), np.array(m, object))
    for tag, m in ((s(b"t"), np.array(b"", object)), (np.array(b"t", object), s(b"")), (s(b"t"), s(b""))):
        yield Case(tag, np.float32(1), m, texts=True)


@spec("Fact")
def fact(g, op):
    yield Case()
    yield Graph(lambda tf: [[tf.raw_ops.Fact(), tf.strings.length(tf.raw_ops.Fact())]] * 2, name="the length of a fact, twice")
