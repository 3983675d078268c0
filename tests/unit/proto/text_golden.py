#!/usr/bin/env python3
"""Writes text_golden.inc. For each text, the file contains the text and the serialized message that protobuf's Python
parser reads from the text. If the parser refuses the text, the file contains a mark instead of the message.

    python3 text_golden.py > text_golden.inc    (needs tensorflow and tensorflow-serving-api)

Texts that protobuf's Python and C++ parsers read differently are left out, because tensorflow_model_server uses the C++
parser. These texts are 0b1, 1_0 and +1 as integers, -0 as an unsigned integer, 01 and 0x1 for true, 1ff, \\u beyond
Latin-1, unknown escapes, "- 1", and strings that are not UTF-8."""
import itertools
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from google.protobuf import text_format, wrappers_pb2  # noqa: E402
from tensorflow.core.framework import attr_value_pb2, graph_pb2, tensor_pb2  # noqa: E402
from tensorflow.core.protobuf import config_pb2  # noqa: E402
from tensorflow_serving.config import logging_config_pb2, model_server_config_pb2  # noqa: E402

TYPES = {
    "GRAPH": graph_pb2.GraphDef,
    "ATTR": attr_value_pb2.AttrValue,
    "TENSOR": tensor_pb2.TensorProto,
    "SESSION": config_pb2.ConfigProto,
    "MODELS": model_server_config_pb2.ModelServerConfig,
    "LOGGING": logging_config_pb2.LoggingConfig,
    "I32": wrappers_pb2.Int32Value, "I64": wrappers_pb2.Int64Value,
    "U32": wrappers_pb2.UInt32Value, "U64": wrappers_pb2.UInt64Value,
    "F32": wrappers_pb2.FloatValue, "F64": wrappers_pb2.DoubleValue,
    "BOOL": wrappers_pb2.BoolValue, "STRING": wrappers_pb2.StringValue,
    "BYTES": wrappers_pb2.BytesValue,
}

INTEGERS = """0 1 -1 7 42 007 010 0777 08 0x0 0x10 0XfF 0xg 0x -0x10 -010 2147483647 2147483648
    -2147483648 -2147483649 4294967295 4294967296 0xffffffff 0x100000000 9223372036854775807
    9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
    18446744073709551616 0xffffffffffffffff 0x10000000000000000 1.0 1e3 1x 1f true '1' -- 1a ''
    inf nan abc 99999999999999999999999999 --1 """.split()
FLOATS = """0 1 -1 1.5 -1.5 1.5f 1f 1F 1e5 1E5 1e+5 1e-5 1.e5 .5 -.5 5. 1e400 -1e400 1e-400
    1e38 3.5e38 inf -inf INF Infinity -infinity nan NaN NAN 1.2.3 1e 1e+ .e5 . abc '1' true 010 00.5 01.5 0 00
    123456789012345678901234567890 0.1 16777217 3.4028235e38 1.5x""".split()
BOOLS = "true false True False t f 1 0 TRUE FALSE T F 2 -1 yes no 'true' 1.0 tru".split()
STRINGS = [
    '"a"', "'a'", "\"a'b\"", "'a\"b'", '"a" "b"', "\"a\" 'b' \"c\"", "'a'\n  'b'", "'a' # c\n 'b'",
    '""', "''", '"\\n\\r\\t\\a\\b\\f\\v"', '"\\\\ \\" \\\'"', '"\\101\\60\\7"', '"\\1012"',
    '"\\x41\\x4"', '"\\x41f"', '"\\303\\251"', '"\xe9"', '"\u20ac"',
    '"\\x"', '"\\xg"', '"abc', "'abc\"", '"a\nb"', '"a\\', '"a\\"', "a", "1", "'a' b", "'a' 1",
    '"\\u0041"', '"\\u00"', '"\\U00000041"', '"#"', '"{"', '"a\tb"', "'", '"', '"a"\'b\'"c"',
]
LAYOUT = [
    ("GRAPH", t) for t in (
        "", " ", "#", "# only a comment", "# a\n# b\n", "\n\n", "\t\v\f\r\n",
        "node { }", "node{}", "node: {}", "node: { }", "node <>", "node: < >", "node < name: 'a' >",
        "node { name: 'a' }", "node { name: 'a', }", "node { name: 'a'; }", "node { name: 'a',; }",
        "node { name: 'a',, }", "node { , }", "node { ; }", "node {},", "node {};",
        "node {},node {}",
        "node {} node {}", "node {}node{}", "node [{}]", "node: [{}]", "node: [{}, {}]",
        "node: [{}, <>]", "node: [{},]", "node: [,]", "node: []", "node []", "node: [{} {}]",
        "node: [{}; {}]", "node: [{}", "node: [", "node: ]", "node {", "node <", "node }", "node >",
        "node { >", "node < }", "node { } }", "}", "{", "{}", "[", "]", "node", "node:", "node :",
        "node : {}", "node\n:\n{\n}", "node # c\n: # c\n{ # c\n} # c", "node { name 'a' }",
        "node { name: }", "node { name = 'a' }", "node: 1", "node: 'a'", "node: a", "node: {}: {}",
        "bogus: 1", "bogus { }", "Node {}", "NODE {}", "node.name: 'a'", "1: 'a'", "'node' {}",
        "node { name: 'a' name: 'b' }", "node { name: '' name: 'b' }", "versions {} versions {}",
        "versions { producer: 1 producer: 2 }", "versions { producer: 0 producer: 2 }",
        "versions { producer: 2 producer: 0 }", "versions: [{}]", "versions: { producer: [1] }",
        "node { input: 'a' input: 'b' }", "node { input: ['a', 'b'] }", "node { input: ['a' 'b'] }",
        "node { input: ['a' 'b', 'c'] }", "node { input: [] }", "node { input ['a'] }",
        "node { input: ['a'] input: 'b' input: [] input: ['c', 'd'] }", "node { input: ['a',] }",
        "node { input: [['a']] }", "node { input: ['a', 1] }", "node { name: ['a'] }",
        "versions { bad_consumers: [1, 0x2, 03, -4] bad_consumers: 5 }",
        "versions { bad_consumers: [1 2] }", "versions { bad_consumers: 1 2 }",
        "versions { bad_consumers: [1, 2 }", "versions { bad_consumers: [1; 2] }",
        "node { attr { key: 'a' value { i: 1 } } }", "node { attr { value { i: 1 } key: 'a' } }",
        "node { attr: { key: 'a', value: { i: 1 } } attr: { key: 'b', value: { i: 2 } } }",
        "node { attr: [{ key: 'a' value { i: 1 } }, { key: 'b' value { i: 2 } }] }",
        "node { attr { key: 'a' key: 'b' value { i: 1 } } }", "node { attr { bogus: 1 } }",
        "node { attr { key: 1 value { i: 1 } } }", "node { attr { key: 'a' value: 1 } }",
        "[foo.bar]: 1", "[foo.bar] {}", "[foo.bar", "[foo]", "[]", "node { [a.b]: 1 }",
        "node { name: 'a' }\0", "\0", "\x01", "node { name: 'a' } \x7f", "node { name: 'a' }}",
        "node { name: \"a\" } # no end", "node/**/{}", "node //\n{}", "node { name: 'a' };;",
        "library { function { signature { name: 'f' } ret { key: 'a' value: 'b' } } }",
        "library { function { ret { key: 'a' value: 'b' } ret { key: 'c' value: 'd' } } }",
    )
] + [
    ("ATTR", t) for t in (
        "i: 1", "i: 1 i: 2", "i: 0 i: 0", "i: 1 f: 2", "f: 2 i: 1", "s: 'a' s: 'b'", "b: false",
        "b: false b: true", "type: DT_FLOAT", "type: 1", "type: DT_FLOAT type: DT_INT32",
        "type: dt_float", "type: DT_BOGUS", "type: 'DT_FLOAT'", "type: 999", "type: -1",
        "type: 0x13", "type: 99999999999", "type: DT_FLOAT, placeholder: 'a'", "shape {}",
        "shape {} shape {}", "shape {} list {}", "list { i: 1 }", "list { type: [DT_FLOAT, 3] }",
        "list { type: DT_FLOAT type: 3 }", "list { f: [1, 2.5, inf, -inf] }",
        "list { b: [true, false, t, f, 1, 0] }", "list { s: ['a', 'b' 'c'] }",
        "list { shape { dim { size: -1 } } shape { unknown_rank: true } }",
        "shape { dim { size: 1 } dim { size: 2 name: 'x' } dim {} }",
        "func { name: 'f' attr { key: 'k' value { func { name: 'g' } } } }",
        "list { i: [1, 2, 3], i: 4; i: [] }", "type: [DT_FLOAT]", "type: DT_FLOAT.x",
    )
] + [
    ("TENSOR", t) for t in (
        "dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2]",
        "dtype: DT_STRING string_val: 'a\\000b' string_val: '\\377\\xfe'", "half_val: [1, 2]",
        "tensor_content: '\\001\\002' '\\003'", "int_val: -1 int_val: 2147483647",
        "int_val: 2147483648", "uint32_val: 4294967295", "uint32_val: -1",
        "bool_val: [true, false]", "double_val: [1e300, -1e-300, .5]", "scomplex_val: [1, 2]",
        "resource_handle_val { name: 'x' } resource_handle_val { name: 'y' }", "version_number: 1",
    )
] + [
    ("SESSION", t) for t in (
        "intra_op_parallelism_threads: 4 inter_op_parallelism_threads: 2",
        "device_count { key: 'CPU' value: 4 } device_count { key: 'GPU' value: 1 }",
        "device_count: { key: 'CPU', value: 4 }",
        "gpu_options { per_process_gpu_memory_fraction: 0.5 }",
        "gpu_options { allow_growth: true visible_device_list: '0,1' }",
        "graph_options { optimizer_options { global_jit_level: ON_1 opt_level: L0 } }",
        "graph_options { optimizer_options { global_jit_level: -1 } }",
        "session_inter_op_thread_pool { num_threads: 3 } session_inter_op_thread_pool {}",
        "log_device_placement: true allow_soft_placement: 1", "operation_timeout_in_ms: 100",
        "rpc_options { compression_algorithm: 'gzip' }", "bogus_option: 1",
    )
] + [
    ("MODELS", t) for t in (
        "model_config_list {}", "model_config_list: {}", "model_config_list { config {} }",
        "model_config_list { config { name: 'm' base_path: '/m' model_platform: 'tensorflow' } }",
        "model_config_list: { config: { name: \"m\", base_path: \"/m\", model_platform: "
        "\"tensorflow\" }, config: { name: \"n\"; } }",
        "model_config_list { config { model_version_policy { latest { num_versions: 2 } } } }",
        "model_config_list { config { model_version_policy { all {} } } }",
        "model_config_list { config { model_version_policy: { all: {} } } }",
        "model_config_list { config { model_version_policy { specific { versions: 1 versions: 2 }"
        " } } }",
        "model_config_list { config { model_version_policy { specific { versions: [1, 2] } } } }",
        "model_config_list { config { model_version_policy { all {} latest {} } } }",
        "model_config_list { config { model_version_policy { all {} all {} } } }",
        "model_config_list { config { version_labels { key: 'a' value: 1 }"
        " version_labels { key: 'b' value: 2 } } }",
        "model_config_list { config { model_type: TENSORFLOW } }",
        "model_config_list { config { model_type: OTHER } }",
        "model_config_list { config { model_type: 7 } }",
        "model_config_list {} model_config_list {}",
        "custom_model_config {}", "model_config_list {} custom_model_config {}",
        "custom_model_config { type_url: 'a/b' value: 'c' }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] { value: 5 } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value]: { value: 5 } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] < value: 5 > }",
        "custom_model_config { [example.com/google.protobuf.Int64Value] { value: 5 } }",
        "custom_model_config { [a/b/google.protobuf.StringValue] { value: 'x' } }",
        "custom_model_config { [google.protobuf.Int64Value] { value: 5 } }",
        "custom_model_config { [type.googleapis.com/] { } }",
        "custom_model_config { [type.googleapis.com/no.Such] { } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] { bogus: 5 } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] { value: 'x' } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] 5 }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value { value: 5 } }",
        "custom_model_config { [type.googleapis.com/google.protobuf.Int64Value] {} }",
        "custom_model_config { [type.googleapis.com/tensorflow.serving.ModelServerConfig] { "
        "model_config_list { config { name: 'x' } } } }",
        "custom_model_config { [type.googleapis.com/tensorflow.serving.ModelServerConfig] { "
        "custom_model_config { [type.googleapis.com/google.protobuf.BoolValue] { value: true } } } "
        "}",
        "custom_model_config { [type.googleapis.com/tensorflow.TensorProto] { float_val: [1, 2] } "
        "}",
        "model_config_list { config { logging_config { sampling_config { sampling_rate: 0.5 } } } "
        "}",
        "model_config_list { config { name: 'm' ", "model_config_list { config { name: 'm } }",
        "model_config_list { config [ { name: 'a' }, { name: 'b' } ] }",
        "model_config_list { config: [ { name: 'a' }, { name: 'b' } ], }",
        "model_config_list <config: <name: 'a'>>", "model_config_list < config { name: 'a' } }",
        "config { name: 'a' }",
        "model_config_list { config { name: 'a' base_path: '/a' name: 'b' } }",
        "model_config_list { config { nmae: 'a' } }", "model_config_list { config { name: u'a' } }",
        "model_config_list { config { name: a } }",
        "model_config_list { config { name: 'a' 'b' } }",
        "model_config_list { # models\n config { # one\n name: 'a' # its name\n } # done\n}",
    )
] + [
    ("LOGGING", t) for t in (
        "log_collector_config { type: 'tfrecord' filename_prefix: '/tmp/x' }",
        "sampling_config { sampling_rate: 1 }",
        "sampling_config { sampling_rate: 0.01 attributes: 1 }",
        "sampling_config { sampling_rate: -1 }", "sampling_config { sampling_rate: 'a' }",
        "custom_logging_config { type_url: 'x/y' }", "log_collector_config: { type: 1 }",
    )
]


def cases():
    yield from LAYOUT
    for kind in ("I32", "I64", "U32", "U64"):
        for token in INTEGERS:
            yield kind, "value: " + token
    for kind, token in itertools.product(("F32", "F64"), FLOATS):
        yield kind, "value: " + token
    for token in BOOLS:
        yield "BOOL", "value: " + token
    for kind, text in itertools.product(("STRING", "BYTES"), STRINGS):
        yield kind, "value: " + text


def quote(data):
    """Returns bytes as C string literals. An octal escape has three digits, so that it ends before
    any digit that follows it."""
    units = [chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in data]
    lines, line = [], ""
    for unit in units:
        if len(line) + len(unit) > 84:
            lines.append(line)
            line = ""
        line += unit
    return "\n       ".join(f'"{one}"' for one in lines + [line])


def main():
    print("/* Written by text_golden.py: how Python's protobuf reads these texts. */")
    for kind, text in cases():
        message = TYPES[kind]()
        try:
            text_format.Parse(text.encode("utf-8"), message)
        except (text_format.ParseError, UnicodeDecodeError, ValueError):
            packed = None
        else:
            packed = message.SerializeToString(deterministic=True)
        data = text.encode("utf-8")
        print(f"GOLDEN({kind}, {len(data)},\n       {quote(data)},")
        if packed is None:
            print("       REFUSED)")
        else:
            print(f"       {len(packed)}, {quote(packed)})")


if __name__ == "__main__":
    main()
