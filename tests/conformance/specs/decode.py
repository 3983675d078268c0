"""Test cases for ops that decode and encode raw numbers, compressed strings, CSV records, tensors and messages."""

import gzip
import itertools
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


# ---- messages of any type ----

PROTO_TYPES = dict(double="float64", float="float32", int64="int64", uint64="uint64", int32="int32", fixed64="uint64", fixed32="uint32", bool="bool", string="string", message="string", bytes="string", uint32="uint32", enum="int32", sfixed32="int32", sfixed64="int64", sint32="int32", sint64="int64")
DEFAULTS = dict(double="-1.5e3", float="inf", int64="-5", uint64=str(2**64 - 1), int32="41", fixed64="7", fixed32="8", bool="true", string="dflt é", bytes="\\001a\\\"\\n\\xff", uint32="9", enum="C", sfixed32="-3", sfixed64="-4", sint32="-6", sint64="-7")


def descriptor_source(syntax="proto2"):
    """Returns the source and the class of a message type that has singular, repeated, packed and defaulted fields of
    every type."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="all.proto", package="p.q", syntax=syntax)
    message = file.message_type.add(name="All")
    values = file.enum_type.add(name="E")
    for name, number in (("B", 0), ("A", 1), ("C", -2)):
        values.value.add(name=name, number=number)
    message.nested_type.add(name="Sub").field.add(name="a", number=1, type=5, label=1)
    field = descriptor_pb2.FieldDescriptorProto
    kinds = ("s", "r", "p", "d") if syntax == "proto2" else ("s", "r")
    for k, (kind, name) in enumerate(itertools.product(kinds, PROTO_TYPES)):
        if (kind == "p" and name in ("string", "bytes", "message")) or (kind == "d" and name == "message"):
            continue
        f = message.field.add(name=f"{kind}_{name}", number=1 + 37 * k % 200, type=getattr(field, "TYPE_" + name.upper()), label=1 if kind in "sd" else 3)
        if kind == "p":
            f.options.packed = True
        if kind == "d":
            f.default_value = DEFAULTS[name]
        if name in ("message", "enum"):
            f.type_name = ".p.q.All.Sub" if name == "message" else ".p.q.E"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return b"bytes://" + files.SerializeToString(), message_factory.GetMessageClass(pool.FindMessageTypeByName("p.q.All"))


def group_source():
    """Returns the source of the message type that group_cases uses."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="groups.proto", package="q", syntax="proto2")
    message = file.message_type.add(name="M")
    message.nested_type.add(name="G").field.add(name="v", number=1, type=5, label=1)
    values = message.enum_type.add(name="E")
    for name, number in (("X", 3), ("Y", 7), ("Z", 1)):
        values.value.add(name=name, number=number)
    kinds = dict(g="group", rg="group", e="enum", re="enum", pe="enum", de="enum", i="int32", ri="int32", u="uint32", ru="uint32", rs="sint32", f="fixed32", rf="fixed32", b="bool", s="string", m="message")
    defaults = dict(de="Y", i="-5", u="6", f="7", b="true", s="text")
    for k, (name, kind) in enumerate(kinds.items()):
        field = message.field.add(name=name, number=k + 1, type=getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + kind.upper()), label=3 if name[0] in "rp" else 1)
        if name in defaults:
            field.default_value = defaults[name]
        if name == "pe":
            field.options.packed = True
        if kind in ("group", "enum", "message"):
            field.type_name = ".q.M.E" if kind == "enum" else ".q.M.G"
    return b"bytes://" + files.SerializeToString()


def proto_value(g, name):
    t = PROTO_TYPES[name]
    if name in ("string", "bytes", "message"):
        return {"string": ["", "a", "é" * 40], "bytes": [b"", b"\xff\0", b"x" * 30]}[name][int(g.rng.integers(3))] if name != "message" else None
    if name == "enum":
        return int(g.rng.choice([0, 1, -2]))
    if name == "bool":
        return bool(g.rng.integers(2))
    if t.startswith("float"):
        return float(np.float32(g.rng.normal()))
    info = np.iinfo(t)
    return [0, 1, 127, 128, int(info.max), int(info.min)][int(g.rng.integers(6))]


def proto_message(g, cls, most):
    m = cls()
    for f in cls.DESCRIPTOR.fields:
        name = f.name[2:]
        if g.rng.random() < 0.3:
            continue
        n = int(g.rng.integers(0, most)) if f.name[0] in "rp" else 1
        for _ in range(n):
            if name == "message":
                (getattr(m, f.name).add() if f.name[0] == "r" else getattr(m, f.name)).a = int(g.rng.integers(300))
            elif f.name[0] in "rp":
                getattr(m, f.name).append(proto_value(g, name))
            else:
                setattr(m, f.name, proto_value(g, name))
    return m.SerializeToString()


def strings(values, shape=None):
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape if shape is not None else (len(values),))


@spec("DecodeProtoV2")
def decode_proto(g, op):
    for syntax in ("proto2", "proto3"):
        source, cls = descriptor_source(syntax)
        names = [f.name for f in cls.DESCRIPTOR.fields]
        how = lambda names, types=None: dict(message_type="p.q.All", field_names=list(names), output_types=types or [PROTO_TYPES[n[2:]] for n in names], descriptor_source=source)
        for name in names:
            yield Case(strings([proto_message(g, cls, 4) for _ in range(3)]), **how([name]))
        for shape in ((), (1,), (2, 3), (1, 2, 1, 1)):
            yield Case(strings([proto_message(g, cls, 5) for _ in range(int(np.prod(shape)))], shape), **how(names))
            yield Case(strings([proto_message(g, cls, 3) for _ in range(int(np.prod(shape)))], shape), **how(g.rng.permutation(names)[:7]))
        one = strings([proto_message(g, cls, 3), b""])
        for name in names:
            for t in ["float32", "float64", "int32", "int64", "uint32", "uint64", "bool", "string", "int8"] if name[0] == "s" else []:
                yield Case(one, texts=True, **how([name], [t]))
    source, cls = descriptor_source()
    how = lambda names, **more: {**dict(message_type="p.q.All", field_names=list(names), output_types=[PROTO_TYPES[n[2:]] for n in names], descriptor_source=source), **more}
    one = strings([proto_message(g, cls, 3)])
    number = {f.name: f.number for f in cls.DESCRIPTOR.fields}
    tag = lambda name, wire: varint(number[name] << 3 | wire)
    chosen = ["s_int32", "r_int32", "p_int32", "s_double", "p_double", "s_string", "s_bool"]
    for name in chosen:
        for wire, body in itertools.product(range(8), (b"", b"\x05", b"\x80", b"\x02\x01\x02", b"\x02\x01\x80", b"\x03ab", b"\x08" + bytes(8), b"\x10" + bytes(16), bytes(8), bytes(4), bytes(16))):
            yield Case(strings([tag(name, wire) + body]), texts=True, **how(chosen))
    for body in (b"\xff", b"\0", b"\0\1", b"\x03", b"\x04", b"\xfa\xff\xff\xff\x0f\x01a", b"\xfa\xff\xff\xff\x7f\x01a", b"\x83\x7d\x84\x7d", b"\x83\x7d\x0b\x08\x01\x0c\x84\x7d", b"\x83\x7d\x84\x7e", b"\x83\x7d", b"\x80\x7d\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x7d\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x82\x7d\xff\xff\xff\xff\x0f"):
        yield Case(strings([body]), texts=True, **how(chosen))
        yield Case(strings([tag("s_int32", 0) + b"\x07" + body]), texts=True, **how(chosen))
    for depth in (90, 99, 100, 101, 110):
        yield Case(strings([b"\x0b" * depth + b"\x0c" * depth]), texts=True, **how(["r_bool"]))
    yield Case(strings([tag("s_int32", 0) + b"\x07" + tag("s_int32", 0) + b"\x08" + tag("s_string", 2) + b"\1a" + tag("s_string", 2) + b"\1b" + tag("r_int32", 0) + b"\1" + tag("r_int32", 2) + b"\2\2\3" + tag("p_int32", 0) + b"\4"]), **how(chosen))
    varints = ["s_int32", "s_int64", "s_uint32", "s_sint32", "s_sint64", "s_bool", "s_enum"]
    for value in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x10", b"\x80\0"):
        yield Case(strings([b"".join(tag(n, 0) + value for n in varints)]), **how(varints))
    yield Case(one, **how(["p_int32", "p_int32", "s_bool"]))
    yield Case(one, **how([]))
    yield Case(one[:0], texts=True, **how(["p_int32"]))
    yield Case(one[0], **how(["p_int32"]))
    for more in (dict(field_names=["nope"]), dict(field_names=["s_int32", "r_int32"]), dict(message_type="p.q.X"), dict(message_type="p.q.All."), dict(message_type=".p.q.All"), dict(message_type="p.q.E"), dict(message_type=""), dict(message_type="p.q"), dict(message_format="json"), dict(message_format=""), dict(descriptor_source=b"local://"), dict(descriptor_source=b""), dict(descriptor_source=b"bytes://"), dict(descriptor_source=b"bytes"), dict(descriptor_source=b"local:/x"), dict(message_type="p.q.All.Sub", field_names=["a"])):
        yield Case(one, texts=True, **how(["s_int32"], **more))
    local = lambda message, names, types: dict(message_type=message, field_names=names, output_types=types)
    yield Case(strings([b"\x0a\x08\0\0\x80?\0\0\0@", b""]), **local("tensorflow.FloatList", ["value"], ["float32"]))
    yield Case(strings([b"\x0a\x03abc\x12\x02op", b""]), **local("tensorflow.NodeDef", ["name", "op", "input"], ["string"] * 3))
    yield Case(strings([b"\x0a\x03abc\x0a\x00", b""]), **local("tensorflow.BytesList", ["value"], ["string"]))
    yield Case(strings([b"\x08\x01\x12\x02\x12\x00"]), **local("tensorflow.TensorProto", ["dtype", "tensor_shape", "half_val"], ["int32", "string", "int32"]))


    yield from group_cases()


def group_cases():
    """Yields messages with groups, with enums whose first value is not 0, and with values in forms that protobuf's own
    writer does not produce: varints that are longer than needed, and packed values of fields that are not packed."""
    source = group_source()
    types = dict(g="string", rg="string", e="int32", re="int32", pe="int32", de="int32", i="int32", ri="int64", u="uint32", ru="uint64", rs="int64", f="uint32", rf="uint64", b="bool", s="string", m="string")
    how = lambda *names: dict(message_type="q.M", field_names=list(names), output_types=[types[n] for n in names], descriptor_source=source)
    number = {n: k + 1 for k, n in enumerate(types)}

    def tag(name, wire, size=0, high=0):
        """Returns a tag as a varint of at least `size` bytes with the bits `high` beyond the low 32."""
        v = varint(number[name] << 3 | wire | high << 32)
        return v if len(v) >= size else v[:-1] + bytes([v[-1] | 128]) + b"\x80" * (size - len(v) - 1) + b"\0"

    group = lambda name, body, size=0: tag(name, 3, size) + body + tag(name, 4, size)
    packed = lambda name, body: tag(name, 2) + varint(len(body)) + body
    bodies = [b"", b"\x08\x05", b"\x08\x05\x0b\x0c", b"\x88\x80\0\x85\0", b"\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x7f", b"\x0a\x81\0a", b"\x0a\x81\x80\x80\x80\x10a", b"\x15abcd\x19abcdefgh", b"\x23\x08\x82\0\xa4\0", b"\x88\x80\x80\x80\x10\1", b"\0", b"\1", b"\x0e", b"\x14", b"\x80\x80\x80\x80\x10", b"\x0a\xff\xff\xff\xff\x0f", b"\x08"]
    for body in bodies:
        yield Case(strings([group("g", body)]), texts=True, **how("g"))
        yield Case(strings([group("rg", body) + group("rg", b""), b""]), texts=True, **how("rg"))
        yield Case(strings([group("g", body)]), texts=True, **how("i"))
    for size in (2, 5, 6, 10, 11):
        yield Case(strings([group("g", b"\x08\1", size)]), texts=True, **how("g"))
    for depth in (2, 99, 100, 101):
        yield Case(strings([tag("g", 3) * depth + tag("g", 4) * depth]), texts=True, **how("g"))
    for name in ("g", "rg"):
        for body in (b"", b"\1", b"\x80"):
            for before in (b"", group(name, b"")):
                yield Case(strings([before + packed(name, body), group(name, b"") * 3]), texts=True, **how(name))
        yield Case(strings([tag(name, 2) + b"\5\1"]), texts=True, **how(name))
        yield Case(strings([tag(name, 0) + b"\1"]), texts=True, **how(name))
    enums = ["e", "re", "pe", "de"]
    yield Case(strings([b"".join(tag(n, 0) + b"\7" for n in enums) + tag("re", 0) + b"\1", b"", b"".join(packed(n, b"\1") for n in enums)]), **how(*enums))
    for name in ("i", "u", "f", "b", "e", "de", "ri", "ru", "rs", "rf"):
        one = tag(name, 5) + b"\2\0\0\0" if name[-1] == "f" else tag(name, 0) + b"\2"
        two = packed(name, b"\1\0\0\0\3\0\0\0" if name[-1] == "f" else b"\1\3")
        none = packed(name, b"")
        for parts in ([none], [two], [one, none], [none, one], [one, two], [two, one], [one, two, one], [two, none], [none, none], [two, two]):
            yield Case(strings([b"".join(parts)]), texts=True, **how(name))
            yield Case(strings([b"".join(parts), one * 3, b""]), texts=True, **how(name))
    values = b"".join(varint(v) for v in (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 5, 2**63, 2**64 - 1))
    for name, t in [("ri", t) for t in ("int32", "int64")] + [("rs", t) for t in ("int32", "int64")] + [("ru", t) for t in ("uint32", "uint64")]:
        yield Case(strings([packed(name, values)]), **{**how(name), "output_types": [t]})
    for size, high in itertools.product(range(5, 12), (0, 1, 8, 2**20)):
        t = lambda name, wire: tag(name, wire, size, high)
        yield Case(strings([t("i", 0) + b"\7", t("s", 2) + b"\1\xff" + t("i", 0) + b"\x85\0"]), texts=True, **how("i", "s"))
        yield Case(strings([t("s", 2) + b"\1a"]), texts=True, **how("i"))
    for length in (b"\x81\0", b"\x81\x80\x80\x80\x10", b"\x81\x80\x80\x80\x80\0", b"\x81\x80\x80\x80\x80\1", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x08", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\1"):
        for name in ("s", "m", "ri", "b"):
            yield Case(strings([tag(name, 2) + length + b"\1"]), texts=True, **how(name))
        yield Case(strings([tag("s", 2) + length + b"\1"]), texts=True, **how("i"))


def varint(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


@spec("EncodeProto")
def encode_proto(g, op):
    def values(name, shape):
        t = PROTO_TYPES[name[2:]]
        if t == "string":
            return strings([bytes(g.rng.bytes(int(g.rng.integers(40)))) for _ in range(int(np.prod(shape)))], shape)
        return g.values(t, shape) if t != "bool" else g.rng.integers(0, 2, shape).astype(bool)

    for syntax in ("proto2", "proto3"):
        source, cls = descriptor_source(syntax)
        how = lambda names, source=source: dict(message_type="p.q.All", field_names=list(names), descriptor_source=source)
        names = [f.name for f in cls.DESCRIPTOR.fields]
        for name in names:
            # In a packed field, TensorFlow writes a tag and a length for a negative size.
            yield Case(np.int32([[0], [1], [3], [-1]]), [values(name, (4, 3))], **how([name]))
            if name[0] == "p":
                yield Case(np.int32([[-2], [-17], [-(2**29) - 1], [-(2**31) + 1], [-(2**31)]]), [values(name, (5, 2))], **how([name]))
            for t in ["float32", "float64", "int32", "int64", "uint32", "uint64", "bool", "string"] if name[0] == "s" else []:
                yield Case(np.int32([[1]]), [strings([b"ab"], (1, 1)) if t == "string" else np.ones((1, 1), t)], texts=True, **how([name]))
        for batch in ((1,), (2, 3), (0,), (1, 1, 2)):
            picked = list(g.rng.permutation(names)[:9])
            yield Case(g.rng.integers(0, 3, batch + (9,)).astype("int32"), [values(n, batch + (2 + k % 2,)) for k, n in enumerate(picked)], **how(picked))
    source, _ = descriptor_source()
    how = lambda names, **more: {**dict(message_type="p.q.All", field_names=list(names), descriptor_source=source), **more}
    x = np.int32([[5, 6]])
    bad = [([[3]], [x]), (1, [x]), ([1], [x]), ([[1, 1]], [x]), ([[1]], [x[0]]), ([[1]], [x[0, 0]]), ([[1]], [np.int32([[5], [6]])]), ([[[1]]], [x]), ([[1], [1]], [x])]
    for sizes, inputs in bad:
        yield Case(np.int32(sizes), inputs, texts=True, **how(["r_int32"]))
    for other in (x[0], x[None], np.int32([[1], [2]]), np.zeros((0, 2), "int32")):
        yield Case(np.int32([[1, 1]]), [x, other], texts=True, **how(["r_int32", "p_int32"]))
    yield Case(np.int32([[1, 2]]), [x, x], **how(["p_int32", "p_int32"]))
    yield Case(np.int32([[2, 2]]), [x, x], **how(["s_int32", "s_int32"]))
    yield Case(np.int32([[1]]), [np.zeros((1, 0), "int32")], texts=True, **how(["s_int32"]))
    yield Case(np.int32([[0]]), [np.zeros((1, 0), "int32")], **how(["s_int32"]))
    yield Case(np.int32([[1]]), [x, x], texts=True, **how(["s_int32"]))
    for more in (dict(field_names=["nope"]), dict(message_type="p.q.X"), dict(message_type="p.q.All."), dict(descriptor_source=b"local://"), dict(descriptor_source=b"bytes://"), dict(descriptor_source=b"x")):
        yield Case(np.int32([[1]]), [x], texts=True, **how(["s_int32"], **more))
    yield Case(np.int32([[2], [1]]), [np.float32([[1, 2], [3, 4]])], message_type="tensorflow.FloatList", field_names=["value"])
