"""Look-up tables: graphs of several runs over one session."""

import atexit
import os
import tempfile

from spec import *

FOLDER = tempfile.mkdtemp(prefix="conformance")


def file(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as f:
        f.write(text)
    atexit.register(lambda: os.path.exists(path) and os.remove(path))
    return path


def held(tf, x, dtype=None):
    return tf.compat.v1.placeholder_with_default(tf.constant(x, dtype), None)


def words(*v):
    return np.array([w.encode() for w in v] + [None], object)[:-1]


@spec("HashTableV2", "InitializeTableV2", "LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2")
def fixed(g, op):
    if op != "HashTableV2":
        return  # the same graphs use it

    def case(key, value, keys, values, ask, default, twice=None):
        def build(tf, k, v, q):
            R = tf.raw_ops
            h = R.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"fixed {name}")
            init = R.InitializeTableV2(table_handle=h, keys=k, values=v)
            steps = [[init], [R.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, default)), R.LookupTableSizeV2(table_handle=h)]]
            if twice is not None:
                steps.append([R.InitializeTableV2(table_handle=h, keys=k, values=held(tf, twice))])
                steps.append(steps[1])
            return steps

        name = f"{key} {value} {keys} {values} {ask} {twice}"
        return Graph(build, keys, values, ask, name=name)

    i64 = np.int64
    ask = words("a", "x", "", "b").reshape(2, 2)
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1))
    yield case("string", "int64", words("a", "a"), i64([1, 1]), ask, i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([5, 6]))
    yield case("string", "int64", words("a"), i64([1, 2]), ask, i64(-1))
    yield case("string", "int64", words("a").reshape(1, 1), i64([[1]]), ask, i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), i64([1]), i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64([-1, 2]))
    yield case("int64", "string", i64([7, -3, 2**40]), words("x", "a longer text than fifteen", ""), i64([2**40, 7, 0, -3]), b"none")
    yield case("int64", "float32", np.arange(1000), np.arange(1000).astype(np.float32), g.values("int64", (50,), lo=-5, hi=1100), np.float32(.5))
    yield case("int32", "int32", np.int32([1, 2]), np.int32([3, 4]), np.int32([2, 9]), np.int32(0))
    yield case("string", "float64", words(*[f"w{i}" for i in range(300)]), np.arange(300.0), words("w5", "w299", "w300"), np.float64(-1))


@spec("InitializeTableFromTextFileV2")
def from_file(g, op):
    def case(text, ask, key="string", value="int64", default=None, **attrs):
        path = file(f"{abs(hash((text, key, value, str(attrs))))}.txt", text) if text is not None else "/nowhere/at all"

        def build(tf, name, q):
            R = tf.raw_ops
            h = R.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"file {text} {attrs} {key}")
            init = R.InitializeTableFromTextFileV2(table_handle=h, filename=name, **attrs)
            d = default if default is not None else np.int64(-1)
            with tf.control_dependencies([init]):
                out = R.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, d))
                return [out, R.LookupTableSizeV2(table_handle=h)]

        return Graph(build, np.array(path.encode(), object), ask, name=f"{text} {attrs} {key} {value}")

    ask = words("a", "c", "zz", "")
    lines = dict(key_index=-2, value_index=-1)
    yield case(b"a\nb\nc\n", ask, **lines)
    yield case(b"a\nb\nc", ask, **lines)
    yield case(b"a\nb\nc\n", ask, offset=1, **lines)
    yield case(b"a\nb\nc\n", ask, vocab_size=2, **lines)
    yield case(b"a\nb\nc\n", ask, vocab_size=4, **lines)
    yield case(b"a\nb\nc\n", ask, vocab_size=3, **lines)
    yield case(b"a 1\nb 2\nc 3", ask, key_index=0, value_index=1, delimiter=" ")
    yield case(b"a\t1\nb\t2\nc\t3\n", ask, key_index=0, value_index=1)
    yield case(b"a 1\nb 2\nc 3", ask, key_index=0, value_index=2, delimiter=" ")
    yield case(b"a 1\nb x\n", ask, key_index=0, value_index=1, delimiter=" ")
    yield case(b"a\r\nc\r\n", ask, **lines)
    yield case(b"a\n\nb\n", ask, **lines)
    yield case(b"a\na\n", ask, **lines)
    yield case(b"", ask, **lines)
    yield case(None, ask, **lines)
    yield case(b"x\ny\n", np.int64([1, 0, 5]), "int64", "string", b"?", key_index=-1, value_index=-2)
    yield case(b"1,0.5\n2,1e3\n", np.int64([1, 2, 5]), "int64", "float32", np.float32(0), key_index=0, value_index=1, delimiter=",")
    yield case(b"x\n", words("x"), "string", "string", b"?", key_index=-1, value_index=-2)
    yield case(b"x\n", words("x"), "string", "int32", np.int32(1), **lines)


@spec("MutableHashTableV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2", "MutableHashTableOfTensorsV2")
def mutable(g, op):
    if op != "MutableHashTableV2":
        return  # the same graphs use it

    def build(tf, k, v):
        R = tf.raw_ops
        h = R.MutableHashTableV2(key_dtype="string", value_dtype="int64", shared_name="mutable")
        find = R.LookupTableFindV2(table_handle=h, keys=tf.constant(["a", "b", "c", "d"]), default_value=tf.constant(-1, tf.int64))
        each = R.LookupTableFindV2(table_handle=h, keys=tf.constant(["a", "q"]), default_value=tf.constant([8, 9], tf.int64))
        look = [find, R.LookupTableSizeV2(table_handle=h), each]
        insert = R.LookupTableInsertV2(table_handle=h, keys=k, values=v)
        remove = R.LookupTableRemoveV2(table_handle=h, keys=tf.constant(["a", "zz"]))
        load = R.LookupTableImportV2(table_handle=h, keys=tf.constant(["d"]), values=tf.constant([6], tf.int64))
        bad = R.LookupTableInsertV2(table_handle=h, keys=k, values=held(tf, [1], tf.int64))
        return [look, [insert], look, [remove], look, [insert], look, [load], look, [bad], list(R.LookupTableExportV2(table_handle=h, Tkeys="string", Tvalues="int64"))]

    yield Graph(build, words("a", "b", "a"), np.int64([1, 2, 3]), name="insert, remove, import")

    def tensors(tf, k, v):
        R = tf.raw_ops
        h = R.MutableHashTableOfTensorsV2(key_dtype="string", value_dtype="int64", value_shape=[2], shared_name="tensors")
        find = R.LookupTableFindV2(table_handle=h, keys=tf.constant([["a", "q"]]), default_value=tf.constant([8, 9], tf.int64))
        return [[find], [R.LookupTableInsertV2(table_handle=h, keys=k, values=v)], [find]]

    yield Graph(tensors, words("a", "b"), np.int64([[1, 2], [3, 4]]), name="of tensors")
