"""Test cases for tables without a name. Each run has its own table, which lives as long as its handle."""

from spec import *

KEYS = {"int32": ("int32", "float32", "float64"), "int64": ("int64", "int32", "float32", "float64", "string"), "string": ("int64", "int32", "float32", "float64", "bool")}


def pairs(g, key, value, n, width=()):
    keys = np.array([b"k%d" % i for i in range(n)] + [None], object)[:-1] if key == "string" else np.arange(1, n + 1).astype(key)
    return keys, g.values(value, (n, *width))


def looked_up(tf, h, fill, keys, default):
    """Returns fetches that, in one run, fill a table and then look up keys."""
    R = tf.raw_ops
    with tf.control_dependencies([fill]):
        size = R.LookupTableSizeV2(table_handle=h)
        found = R.LookupTableFindV2(table_handle=h, keys=keys, default_value=default)
    return [found, size]


@spec("AnonymousHashTable", "AnonymousMutableHashTable", "AnonymousMutableHashTableOfTensors", "AnonymousMutableDenseHashTable")
def anonymous(g, op):
    width = (2,) if "OfTensors" in op else ()
    for key, values in KEYS.items():
        for value in values:
            if value == "string" and "Dense" in op or (value == "bool" and op == "AnonymousHashTable"):
                continue
            for n in (0, 1, 5, 9):
                k, v = pairs(g, key, value, n, width)
                ask = k[g.rng.permutation(n)] if n % 2 else np.concatenate([k, k])

                def build(tf, k, v, ask, d, key=key, value=value):
                    more = {"key_dtype": key, "value_dtype": value}
                    if width:
                        more["value_shape"] = list(width)
                    if "Dense" in op:
                        more = {"value_dtype": value, "empty_key": tf.constant("" if key == "string" else 0, key), "deleted_key": tf.constant("-" if key == "string" else -1, key)}
                    h = getattr(tf.raw_ops, op)(**more)
                    fill = tf.raw_ops.LookupTableImportV2 if op == "AnonymousHashTable" else tf.raw_ops.LookupTableInsertV2
                    look = looked_up(tf, h, fill(table_handle=h, keys=k, values=v), ask, d)
                    return [look, look, [tf.raw_ops.LookupTableSizeV2(table_handle=h)]]

                yield Graph(build, k, v, ask, g.values(value, width), name=f"{op} from {key} to {value}, {n} pairs")
