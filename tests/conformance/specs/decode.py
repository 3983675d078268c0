"""Test cases for ops that decode and encode raw numbers, compressed strings, CSV records and tensors."""

import gzip
import zlib

from spec import *


def s(*v):
    return np.array(list(v) + [None], object)[:-1]


@spec("DecodePaddedRaw")
def decode_padded_raw(g, op):
    raw = lambda n: bytes(g.rng.integers(0, 256, n, np.uint8))
    # TensorFlow reads beyond its output if a string of multi-byte numbers in the other byte order is longer than the
    # given length. The strings of these cases are therefore short.
    for t in ("float32", "float64", "int32", "uint16", "uint8", "int16", "int8", "int64", "bfloat16"):
        size = 2 if t == "bfloat16" else np.dtype(t).itemsize
        for little in (True, False):
            for n in (size, 2 * size, 4 * size):
                for x in (s(raw(n), raw(n)), s(raw(size), b""), s(raw(1)).reshape(()), s(raw(1), raw(2), raw(3), b"").reshape(2, 2)[:, :size],
                          np.zeros((0, 2), object)):
                    yield Case(x, np.int32(n), out_type=t, little_endian=little)
            yield Case(s(raw(2 * size), raw(40)), Const(np.int32(size)), out_type=t)
        for n in (0, -size, 3 * size + 1, [size], []):
            yield Case(s(b"abcd"), np.int32(n), out_type=t)


@spec("DecodeCompressed")
def decode_compressed(g, op):
    data = [b"", b"a", b"hello " * 30, bytes(g.rng.integers(0, 256, 3000, np.uint8)), b"\0" * 700000]
    z, gz = [zlib.compress(d) for d in data], [gzip.compress(d, mtime=0) for d in data]
    bad = [b"abc", z[2][:-3], z[2][:9], z[2] + b"xx", z[2] + z[1], gz[2] + gz[3], gz[2][:-3], gz[2][:15], gz[2][:-8] + b"12345678", z[2][2:-4],
           gz[1] + b"trailing", b"\x1f\x8b", b"\x78", z[3][:1000], gz[3][:1000] + b"\0" * 50, b"\x78\x9c\xff\xff\xff"]
    for kind in ("", "ZLIB", "GZIP"):
        for x in (s(*z), s(*gz), s(z[1]).reshape(()), s(gz[1]).reshape(()), s(b"", b"").reshape(2, 1), np.zeros((0, 2), object)):
            yield Case(x, compression_type=kind, texts=True)
        for one in z + gz + bad:
            yield Case(s(one), compression_type=kind, texts=True)
        for _ in range(40):
            damaged = bytearray((z if g.rng.random() < .5 else gz)[int(g.rng.integers(1, 4))])
            damaged[int(g.rng.integers(0, len(damaged)))] ^= int(g.rng.integers(1, 256))
            yield Case(s(bytes(damaged)), compression_type=kind)
    for kind in ("zlib", "SNAPPY", "NONE", "RAW"):
        yield Case(s(b"abc"), compression_type=kind, texts=True)


@spec("DecodeCSV")
def decode_csv(g, op):
    text, none = s(b"x"), np.zeros(0, "float32")

    def case(records, *defaults, **how):
        return Case(s(*[r.encode() if isinstance(r, str) else r for r in records]), list(defaults), texts=True, **how)

    f, d, i, l = np.float32([9]), np.float64([8]), np.int32([7]), np.int64([6])
    yield case(["1,a,2.5", "3,b,4"], i, text, f)
    yield case(["1,2,3,4,z", "-5,-6,7e3,inf,", ",,,,"], i, l, f, d, text)
    for record in ("1,2", "1,2,3,4", "", "1", "a,b,c", ",,", "\n1,2,3", "1,2,3\n", "1,2,3,"):
        yield case([record], f, text, f)
        yield case(["1,2,3", record], f, text, f)
        yield case([record], none, text, f)
        yield case([record], f, np.zeros(0, object), f)
    for record in ("99999999999", " 5 ", "0x10", "+5", "1e3", "", "-2147483648", "2147483648", "9223372036854775808", "5 5", '"7"', '""', "1.5"):
        for default in (i, l, f, d, text):
            yield case([record + ",y"], default, text)
    quoted = ('"a,b",2', '"a""b",2', '"a"b,2', 'a"b,2', '"ab,2', '"",2', '"a\nb",2', "a\nb,2", "a,2\n", "a,2\r\n", "a\r,2", '"a" ,2', ' "a",2', 'a,"', 'a,"b"',
              'a,"b""', 'a,"b\n"\n', 'a,"b"\n', 'a,"b"\nc', "a,\n", "\n,b", ",b\n\n", '"', '""', '"""', '""""', '"\r\n"', "a\r", "\r\na", "a\0b,c", '"a","b"',
              '"a"",b",c', '"' + "q" * 300 + '",z', '""",",b')
    for record in quoted:
        for quotes in (True, False):
            yield case([record], text, text, use_quote_delim=quotes)
        yield case([record], text)
        for columns in ([0], [1], [2]):
            yield case([record], text, select_cols=columns)
    for value in ("NA", "", "x"):
        yield case(["NA,NA,x", '"NA",,x'], f, text, text, na_value=value)
    for delimiter in ("\t", " ", ";", '"', "\n", "ab", ""):
        yield case(["1\t2", "1 2", "1;2"], text, text, field_delim=delimiter)
        yield case([f"1{delimiter[:1]}2"], f, text, field_delim=delimiter)
    for columns in ([1, 3], [3, 1], [1], [1, 9], [1, -1], [1, 1], [-1, 1], [0, 1], [2, 3], [0, 4]):
        yield case(["1,2,3,4"], f, text, select_cols=columns)
        yield case(['1,"2,x",3,"4"q'], f, text, select_cols=columns)
        yield case(["1,2,"], f, text, select_cols=columns)
    for shape in ((), (0,), (2, 2), (1, 0, 2), (2, 1, 1, 2, 1, 1, 1, 1)):
        yield Case(np.full(shape, b"1.5,q", object), [f, text])
    for bad in (np.float32([1, 2]), np.float32([[1]]), np.zeros((0, 2), "float32")):
        yield case(["1,2"], f, bad)
    yield case(["1,"], np.float32(3), np.float32(4))


@spec("SerializeTensor")
def serialize(g, op):
    for t in PLAIN + ["string"]:
        for x in g.tensors(t):
            yield Case(x)
    yield Case(np.zeros(1000, "float32"))
    yield Case(np.zeros((0,) * 8, "int8"))
    yield Case(s(b"", b"x" * 200, b"y" * 20000))


def messages(g):
    """Yields (message, type) for tensors in the form that TensorFlow writes and in other forms."""
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2

    for t in PLAIN + ["string"]:
        for x in g.tensors(t):
            yield tf.make_tensor_proto(x, dtype=t), t
    fields = dict(float32="float_val", float64="double_val", int32="int_val", int8="int_val", uint8="int_val", int16="int_val", uint16="int_val",
                  string="string_val", int64="int64_val", bool="bool_val", uint32="uint32_val", uint64="uint64_val", float16="half_val", complex64="scomplex_val")
    for t, field in fields.items():
        for dims in ((4,), (), (0,), (2, 3)):
            for n in (0, 1, 2, 3, 9):
                m = tensor_pb2.TensorProto(dtype=tf.as_dtype(t).as_datatype_enum)
                for size in dims:
                    m.tensor_shape.dim.add(size=size)
                getattr(m, field).extend([b"ab"] * n if t == "string" else [1] * n)
                yield m, t
    for content in (b"", b"abcd", b"abcdefgh", b"abcdefghijkl"):
        for dims in ((2,), (), (0,), (-1,), (1 << 40, 1 << 40)):
            m = tensor_pb2.TensorProto(dtype=1, tensor_content=content)
            for size in dims:
                m.tensor_shape.dim.add(size=size)
            yield m, "float32"
    for number in (0, 20, 21, 101, 77):
        yield tensor_pb2.TensorProto(dtype=number), "float32"


@spec("ParseTensor")
def parse(g, op):
    for m, t in messages(g):
        yield Case(s(m.SerializeToString()).reshape(()), out_type=t)
    m = next(messages(g))[0].SerializeToString()
    for t in ("int32", "string", "bool"):
        yield Case(s(m).reshape(()), out_type=t)
    yield Case(s(m), out_type="int8")
    for bad in (b"\xff\xff", b"", b"\x08", b"\x08\x01\x12\x7f", m[:-1]):
        yield Case(s(bad).reshape(()), out_type="int8")
