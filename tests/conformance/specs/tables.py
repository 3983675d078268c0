"""Test cases for look-up tables. Each case is a graph that runs several times in one session."""

import atexit
import itertools
import os
import tempfile

from spec import *

# Tables with the same name are the same table, even in different cases. The name of each table therefore has a number.
NUMBER = itertools.count()
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
        return  # The graphs for HashTableV2 also test the other ops in the list above.

    def case(key, value, keys, values, ask, default, twice=None, keys_again=None):
        def build(tf, k, v, q):
            R = tf.raw_ops
            h = R.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"fixed{next(NUMBER)}")
            init = R.InitializeTableV2(table_handle=h, keys=k, values=v)
            steps = [[init], [R.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, default)), R.LookupTableSizeV2(table_handle=h)]]
            if twice is not None:
                again = k if keys_again is None else held(tf, keys_again)
                steps.append([R.InitializeTableV2(table_handle=h, keys=again, values=held(tf, twice))])
                steps.append(steps[1])
            return steps

        name = f"{key} {value} {keys} {values} {ask} {twice} {keys_again}"
        return Graph(build, keys, values, ask, name=name)

    i64 = np.int64
    ask = words("a", "x", "", "b").reshape(2, 2)
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1))
    yield case("string", "int64", words("a", "a"), i64([1, 1]), ask, i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([5, 6]))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([5, 6]), keys_again=words("x", "y"))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([1]), keys_again=words("a"))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([]), keys_again=words())
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64(-1), twice=i64([1, 2]), keys_again=words("x", "x"))
    yield case("string", "int64", words("a", "a"), i64([1, 1]), ask, i64(-1), twice=i64([1, 1]))
    yield case("string", "int64", words("a", "a"), i64([1, 1]), ask, i64(-1), twice=i64([7]), keys_again=words("x"))
    yield case("string", "int64", words("a"), i64([1, 2]), ask, i64(-1))
    yield case("string", "int64", words("a").reshape(1, 1), i64([[1]]), ask, i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), i64([1]), i64(-1))
    yield case("string", "int64", words("a", "b"), i64([1, 2]), ask, i64([-1, 2]))
    yield case("string", "int64", words(), i64([]), ask, i64(-1))
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
            h = R.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"file{next(NUMBER)}")
            init = R.InitializeTableFromTextFileV2(table_handle=h, filename=name, **attrs)
            d = default if default is not None else np.int64(-1)
            with tf.control_dependencies([init]):
                out = R.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, d))
                return [out, R.LookupTableSizeV2(table_handle=h)]

        return Graph(build, np.array(path.encode(), object), ask, name=f"{text} {attrs} {key} {value}")

    def again(first, second, ask, **attrs):
        def path(text):
            return file(f"{abs(hash((text, 'again')))}.txt", text) if text is not None else "/nowhere/at all"

        def build(tf, name, other, q):
            R = tf.raw_ops
            h = R.HashTableV2(key_dtype="string", value_dtype="int64", shared_name=f"again{next(NUMBER)}")
            fill = [R.InitializeTableFromTextFileV2(table_handle=h, filename=n, **attrs) for n in (name, other)]
            find = [R.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, np.int64(-1))), R.LookupTableSizeV2(table_handle=h)]
            return [[fill[0]], find, [fill[1]], find]

        names = [np.array(path(text).encode(), object) for text in (first, second)]
        return Graph(build, *names, ask, name=f"again {first} {second} {attrs}")

    ask = words("a", "c", "zz", "")
    lines = dict(key_index=-2, value_index=-1)
    for second in (b"a\nb\n", b"a\nb\nc\n", b"x\n", b"x\n\n", b"", b"\n", None):
        yield again(b"a\nb\n", second, ask, **lines)
    yield again(b"a\nb\n", b"c\n", ask, vocab_size=2, **lines)
    yield again(b"a 1\nb 2\n", b"c x\n", ask, key_index=0, value_index=1, delimiter=" ")
    yield again(b"a 1\nb 2\n", b"c 1\nd x\n", ask, key_index=0, value_index=1, delimiter=" ")
    yield case(b"a\nb\nc\n", ask, **lines)
    yield case(b"a\nb\nc", ask, **lines)
    yield case(b"a\nb\nc\n", ask, offset=1, **lines)
    yield case(b"a\nb\nc\n", ask, offset=2**63 - 1, **lines)  # the offset makes line numbers overflow and wrap around
    yield case(b"a\nb\nc\n", ask, vocab_size=2, **lines)
    yield case(b"a\nb\nc\n", ask, vocab_size=4, **lines)
    yield case(b"a\nb\nc\n", ask, vocab_size=3, **lines)
    for text in (b"a\nb\n", b"", b"\n"):
        for size in (0, 1):
            yield case(text, ask, vocab_size=size, **lines)
            yield again(b"a\n", text, ask, vocab_size=size, **lines)
    yield case(b"a 1\nb 2\nc 3", ask, key_index=0, value_index=1, delimiter=" ")
    yield case(b"a\t1\nb\t2\nc\t3\n", ask, key_index=0, value_index=1)
    yield case(b"a\t1\0x\nb\t2\nc\t3\0", ask, key_index=0, value_index=1)  # the text of a number ends at a NUL
    yield case(b"a\t\0001\n", ask, key_index=0, value_index=1)
    yield case(b"a\t1.5\0x\n", ask, value="float64", default=np.float64(-1), key_index=0, value_index=1)
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
    for text in (b"a 1\nc 0\n", b"a true\n"):
        yield case(text, ask, "string", "bool", np.bool_(False), key_index=0, value_index=1, delimiter=" ")


@spec("MutableHashTableV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableImportV2", "MutableHashTableOfTensorsV2")
def mutable(g, op):
    if op != "MutableHashTableV2":
        return  # The graphs for MutableHashTableV2 also test the other ops in the list above.

    def build(tf, k, v):
        R = tf.raw_ops
        h = R.MutableHashTableV2(key_dtype="string", value_dtype="int64", shared_name=f"mutable{next(NUMBER)}")
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
        h = R.MutableHashTableOfTensorsV2(key_dtype="string", value_dtype="int64", value_shape=[2], shared_name=f"tensors{next(NUMBER)}")
        find = R.LookupTableFindV2(table_handle=h, keys=tf.constant([["a", "q"]]), default_value=tf.constant([8, 9], tf.int64))
        return [[find], [R.LookupTableInsertV2(table_handle=h, keys=k, values=v)], [find]]

    yield Graph(tensors, words("a", "b"), np.int64([[1, 2], [3, 4]]), name="of tensors")


@spec("MutableDenseHashTableV2")
def dense(g, op):
    """Tests insertion, removal, export and import of a checkpoint's buckets, and the errors of
    MutableDenseHashTable."""
    count = itertools.count()

    def table(tf, empty, deleted, value="float32", **attrs):
        return tf.raw_ops.MutableDenseHashTableV2(empty_key=tf.constant(empty), deleted_key=tf.constant(deleted), value_dtype=value,
                                                  shared_name=f"dense{next(count)}", **attrs)

    def case(name, empty, deleted, default, steps, feeds, value="float32", ask=None, **attrs):
        """Returns a case. Each of the `steps` is (op, keys, values), where keys and values are indices into `feeds`."""
        ask = feeds[0] if ask is None else ask

        def build(tf, *args):
            R = tf.raw_ops
            h = table(tf, empty, deleted, value, **attrs)
            key = args[0].dtype
            size = R.LookupTableSizeV2(table_handle=h)
            look = [R.LookupTableFindV2(table_handle=h, keys=tf.constant(ask), default_value=tf.constant(default)), size]
            export = list(R.LookupTableExportV2(table_handle=h, Tkeys=key, Tvalues=value))
            runs = []
            for what, k, v in steps:
                if what == "insert":
                    runs.append([R.LookupTableInsertV2(table_handle=h, keys=args[k], values=args[v])])
                elif what == "import":
                    # TensorFlow's table takes over the memory of the tensors and writes to it, so the test's arrays are
                    # copied.
                    runs.append([R.LookupTableImportV2(table_handle=h, keys=tf.concat([args[k], args[k][:0]], 0), values=tf.concat([args[v], args[v][:0]], 0))])
                elif what == "remove":
                    runs.append([R.LookupTableRemoveV2(table_handle=h, keys=args[k])])
                elif what == "export":
                    runs.append(export)
                runs.append(look if what in ("insert", "import", "remove") else [size])
            return runs

        return Graph(build, *feeds, name=f"dense, {name}")

    i64, f32 = np.int64, np.float32
    small = dict(initial_num_buckets=8)
    k, v = i64([1, 9, 17, 2, -7]), f32([1, 9, 17, 2, 7])
    insert, remove, export = ("insert", 0, 1), ("remove", 0, 0), ("export", 0, 0)
    yield case("numbers", i64(0), i64(-1), f32(-5), [insert, export, insert, remove, insert], [k, v], **small)
    many = g.rng.permutation(1000)[:300].astype(i64) - 2000
    yield case("many numbers", i64(0), i64(1), f32(-5), [insert, export, remove], [many, many.astype(f32)], **small)
    yield case("few numbers at a time", i64(0), i64(-1), f32(-5), [("insert", n, n + 1) for n in (0, 2, 4, 6, 8)] + [export],
               sum(([i64([n]), f32([n])] for n in (3, 4, 5, 6, 7)), []), initial_num_buckets=4, max_load_factor=0.5)
    yield case("int32", np.int32(0), np.int32(-1), f32(-5), [insert, export], [np.int32([5, -13, 3]), f32([5, 13, 3])], **small)
    text = words("a", "a text that is longer than twenty characters", "b", "#")
    yield case("strings", b"", b"-", i64(-5), [insert, export, remove, insert, export], [text, i64([1, 2, 3, 4])], value="int64", **small)
    pairs = i64([[1, 2], [3, 4], [2, 1], [0, 1]])
    yield case("vectors as keys", i64([0, 0]), i64([-1, -1]), f32(-5), [insert, export, remove], [pairs, f32([1, 2, 3, 4])], **small)
    yield case("a key without its dimension", i64([0]), i64([-1]), f32(-5), [insert, export, remove], [i64([7]), f32(3)], **small)
    yield case("a key of too many elements", i64([0]), i64([-1]), f32(-5), [insert, remove], [i64([7, 8]), f32([3, 4])], ask=i64([7]), **small)
    yield case("keys of three dimensions", i64([0, 0]), i64([-1, -1]), f32(-5), [insert, export, remove],
               [i64([[[1, 2]], [[3, 4]]]), f32([[1], [2]])], **small)
    yield case("vectors as values", i64(0), i64(-1), f32([-1, -2]), [insert, export], [i64([1, 2]), f32([[1, 2], [3, 4]])], value_shape=[2], **small)
    # The buckets of a hash table, as a checkpoint stores them. Some buckets are empty, and the key of one bucket was removed.
    saved = [i64([[0], [1], [-1], [3], [0], [0], [0], [0]]), f32([[0], [1], [2], [3], [0], [0], [0], [0]]), i64([1, 3, 5, 2]), i64([4, 11]), f32([4, 11]), i64([3]), f32([3])]
    load, more, less = ("import", 0, 1), ("insert", 3, 4), ("remove", 5, 0)
    # TensorFlow stores a key twice if the key is inserted again and the bucket of a removed key precedes the key's own
    # bucket. No case tests such keys.
    yield case("restored", i64(0), i64(-1), f32(-5), [load, more, less, ("insert", 5, 6)], saved, ask=saved[2], **small)
    yield case("restored over others", i64(0), i64(-1), f32(-5), [more, load, more], saved, ask=saved[2], initial_num_buckets=32)
    yield case("restored and exported", i64(0), i64(-1), f32(-5), [load, export, more, export],
               [i64([[0], [1], [0], [3], [0], [0], [0], [0]]), f32([[0], [1], [0], [3], [0], [0], [0], [0]])] + saved[2:], ask=saved[2], **small)
    yield case("restored vectors", i64([0, 0]), i64([-1, -1]), f32(-5), [load], [i64([[0, 0], [0, 0], [0, 0], [1, 2]]), f32([[0], [0], [0], [5]])], ask=i64([[1, 2], [2, 2]]), initial_num_buckets=4)
    yield case("restored nothing but empty buckets", i64(0), i64(-1), f32(-5), [load, more], [i64([[0]] * 4), f32([[0]] * 4)] + saved[2:], ask=saved[2], **small)
    yield case("import of a vector", i64(0), i64(-1), f32(-5), [load], [i64([1, 2, 3, 4]), f32([1, 2, 3, 4])], ask=saved[2], **small)
    yield case("import of other values", i64(0), i64(-1), f32(-5), [load], [saved[0], f32([[1, 1]] * 8)], ask=saved[2], **small)
    for key in (0, -1):
        yield case(f"{key} inserted", i64(0), i64(-1), f32(-5), [insert], [i64([1, key]), f32([1, 2])], ask=i64([1]), **small)
        yield case(f"{key} asked for", i64(0), i64(-1), f32(-5), [insert], [i64([1, 2]), f32([1, 2])], ask=i64([1, key]), **small)
        yield case(f"{key} removed", i64(0), i64(-1), f32(-5), [("remove", 2, 0)], [i64([1, 2]), f32([1, 2]), i64([key])], ask=i64([1]), **small)
    yield case("keys of two", i64(0), i64(-1), f32(-5), [insert], [i64([[1, 2]]), f32([[1, 2]])], ask=i64([1]), **small)
    yield case("equal keys", i64(3), i64(3), f32(-5), [insert], [k, v], **small)
    yield case("keys of two shapes", i64([1, 2]), i64([3]), f32(-5), [insert], [k, v], **small)
    for attrs in (dict(initial_num_buckets=7), dict(initial_num_buckets=2), dict(initial_num_buckets=-8), dict(max_load_factor=0.0), dict(max_load_factor=1.0), dict(value_shape=[2, 2])):
        yield case(f"{attrs}", i64(0), i64(-1), f32(-5), [insert], [k, v], **attrs)


@spec("LookupTableFindV2")
def defaults(g, op):
    """Tests which shapes of a default value each kind of table accepts."""
    count = itertools.count()
    for kind in ("HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", "MutableDenseHashTableV2"):
        for keys in (np.int64([1, 2]), np.int64([[1], [2]]), np.int64([1]), np.int64(1)):
            for default in ([5], [5, 6], [[5], [6]], [5, 6, 7], 5, [[5, 6], [7, 8]]):

                def build(tf, q, d, kind=kind):
                    R, k, name = tf.raw_ops, tf.constant([1], tf.int64), f"default{next(count)}"
                    if kind == "MutableDenseHashTableV2":
                        h = R.MutableDenseHashTableV2(empty_key=tf.constant(0, tf.int64), deleted_key=tf.constant(-1, tf.int64), value_dtype="float32", shared_name=name)
                    else:
                        more = dict(value_shape=[2]) if "Tensors" in kind else {}
                        h = getattr(R, kind)(key_dtype="int64", value_dtype="float32", shared_name=name, **more)
                    v = tf.constant([[7.0, 8.0]] if "Tensors" in kind else [7.0])
                    fill = R.InitializeTableV2 if kind == "HashTableV2" else R.LookupTableInsertV2
                    return [[fill(table_handle=h, keys=k, values=v)], [R.LookupTableFindV2(table_handle=h, keys=q, default_value=d)]]

                yield Graph(build, keys, np.float32(default), name=f"{kind} {keys.tolist()} {default}")

    for shape in ([], [2, 2], None):

        def of_others(tf, q, shape=shape):
            h = tf.raw_ops.MutableHashTableOfTensorsV2(key_dtype="int64", value_dtype="float32", value_shape=shape or [], shared_name=f"others{next(NUMBER)}")
            if shape is None:  # Python writes [] for an unknown shape.
                h.op._set_attr("value_shape", tf.compat.v1.AttrValue(shape=tf.TensorShape(None).as_proto()))
            return [tf.raw_ops.LookupTableFindV2(table_handle=h, keys=q, default_value=held(tf, 0.0))]

        yield Graph(of_others, np.int64([1]), name=f"of tensors of shape {shape}")


# ---- tables without a name: each run has its own table, which lives as long as its handle ----

KEY_TYPES = {"int32": ("int32", "float32", "float64"), "int64": ("int64", "int32", "float32", "float64", "string"), "string": ("int64", "int32", "float32", "float64", "bool")}


def some_pairs(g, key, value, n, width=()):
    keys = np.array([b"k%d" % i for i in range(n)] + [None], object)[:-1] if key == "string" else np.arange(1, n + 1).astype(key)
    return keys, g.values(value, (n, *width))


def filled_and_read(tf, h, fill, keys, default):
    """Returns fetches that, in one run, fill a table and then look up keys."""
    R = tf.raw_ops
    with tf.control_dependencies([fill]):
        size = R.LookupTableSizeV2(table_handle=h)
        found = R.LookupTableFindV2(table_handle=h, keys=keys, default_value=default)
    return [found, size]


@spec("AnonymousHashTable", "AnonymousMutableHashTable", "AnonymousMutableHashTableOfTensors", "AnonymousMutableDenseHashTable")
def anonymous(g, op):
    width = (2,) if "OfTensors" in op else ()
    for key, values in KEY_TYPES.items():
        for value in values:
            if value == "string" and "Dense" in op or (value == "bool" and op == "AnonymousHashTable"):
                continue
            for n in (0, 1, 5, 9):
                k, v = some_pairs(g, key, value, n, width)
                ask = k[g.rng.permutation(n)] if n % 2 else np.concatenate([k, k])

                def build(tf, k, v, ask, d, key=key, value=value):
                    more = {"key_dtype": key, "value_dtype": value}
                    if width:
                        more["value_shape"] = list(width)
                    if "Dense" in op:
                        more = {"value_dtype": value, "empty_key": tf.constant("" if key == "string" else 0, key), "deleted_key": tf.constant("-" if key == "string" else -1, key)}
                    h = getattr(tf.raw_ops, op)(**more)
                    fill = tf.raw_ops.LookupTableImportV2 if op == "AnonymousHashTable" else tf.raw_ops.LookupTableInsertV2
                    look = filled_and_read(tf, h, fill(table_handle=h, keys=k, values=v), ask, d)
                    return [look, look, [tf.raw_ops.LookupTableSizeV2(table_handle=h)]]

                yield Graph(build, k, v, ask, g.values(value, width), name=f"{op} from {key} to {value}, {n} pairs")
