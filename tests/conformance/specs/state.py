"""Test cases for ops on variables and checkpoints (kernels/state, kernels/io)."""

import itertools
import os

from spec import *

INDEX = ["int32", "int64"]
# Sessions in one TensorFlow process share variables that have the same name, so names are numbered.
NUMBER = itertools.count()


def variable(tf, value, dtype=None):
    """Returns the handle to a resource variable, and the node that assigns its value."""
    dtype = tf.as_dtype(dtype or value.dtype)
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape, shared_name=f"v{next(NUMBER)}")
    return handle, tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def ref(tf, value, shape):
    v = tf.raw_ops.VariableV2(shape=shape, dtype=value.dtype)
    return v, tf.raw_ops.Assign(ref=v, value=value)


def on_variable(value, change, *feeds, **how):
    """Returns a graph with one variable. Its three runs assign, change and read the variable."""

    def build(tf, initial, *args):
        handle, init = variable(tf, initial)
        return [[init], [change(tf, handle, *args)],
                [tf.raw_ops.ReadVariableOp(resource=handle, dtype=initial.dtype)]]

    return Graph(build, value, *feeds, **how)


def on_ref(value, change, *feeds, **how):
    def build(tf, initial, *args):
        v, init = ref(tf, initial, value.shape)
        return [[init], [change(tf, v, *args)], [tf.raw_ops.Identity(input=v)]]

    return Graph(build, value, *feeds, **how)


def either(op, value, *feeds, **how):
    """Tests `op` on a resource variable if the op's name begins with Resource, and otherwise on a ref variable."""

    def change(tf, target, *args):
        raw = getattr(tf.raw_ops, op)
        names = {"Nd": ["indices", "updates"]}.get("Nd" if "Nd" in op else "", ["indices", "updates"])
        if op.startswith("Resource") and "Nd" not in op:
            target_name = "resource"
        else:
            target_name = "ref"
        return raw(**{target_name: target}, **dict(zip(names, args)))

    on = on_variable if op.startswith("Resource") else on_ref
    return on(value, change, *feeds, name=op, **how)


KINDS = ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"]


def values_for(g, op, dtype, shape):
    x = g.values(dtype, shape, lo=1 if "Div" in op else -9, hi=9, special=False)
    return x


@spec(*[p + "Scatter" + k for k in KINDS for p in ("Resource", "")])
def scatter(g, op):
    types = NUMBERS if not op.endswith(("Min", "Max")) else ["float16", "bfloat16", "float32", "float64", "int32", "int64"]
    if op == "ResourceScatterUpdate":
        types = types + ["string", "bool"]
    for dtype in types:
        for index in INDEX:
            v = values_for(g, op, dtype, (5, 3))
            yield either(op, v, np.array([4, 0, 4], index), values_for(g, op, dtype, (3, 3)),
                         ulps=16 if "Div" in op and dtype in COMPLEX else None)
    if op.endswith(("Min", "Max")):
        for dtype in FLOATS:
            yield either(op, g.values(dtype, (5, 40)), g.rng.integers(0, 5, 64).astype(np.int32), g.values(dtype, (64, 40)))
    v = values_for(g, op, "float32", (5, 3))
    one = np.float32(2)
    yield either(op, v, np.array([[1, 2], [2, 3]], np.int32), values_for(g, op, "float32", (2, 2, 3)))
    yield either(op, v, np.array([1, 3], np.int32), one)
    yield either(op, v, np.array(2, np.int32), values_for(g, op, "float32", (3,)))
    yield either(op, v, np.zeros([0], np.int32), np.zeros([0, 3], np.float32))
    yield either(op, v[:, 0].copy(), np.array([1, 1, 1], np.int64), values_for(g, op, "float32", (3,)))
    yield either(op, v, np.array([5], np.int32), values_for(g, op, "float32", (1, 3)))
    yield either(op, v, np.array([-1], np.int32), values_for(g, op, "float32", (1, 3)))
    for params, indices, updates in ((v, [], (4, 5)), (v, [], (4,)), (v, [], (0, 9)), (v, [1], (2, 3)), (v, [1], (3,)), (v, [1], (1, 3, 1)),
                                     (v[:, :0], [1], (1, 2)), (v[:, :0], [9], (1, 0)), (v[:0], [], (0, 3)), (v[:0], [0], (1, 3))):
        yield either(op, params, np.array(indices, np.int32), values_for(g, op, "float32", updates))
    if op == "ScatterDiv":  # ScatterDiv on integers crashes TensorFlow's process
        yield either(op, v, np.int32([1, 2]), np.float32([[1, 2, 3], [4, 0, -0.0]]))
        yield either(op, v, np.int32([1, 2]), np.float32(0))
    if op == "ResourceScatterDiv":
        for dtype in types:
            yield either(op, values_for(g, op, dtype, (5, 3)), np.int32([1, 2]), np.array([[1, 2, 3], [4, 5, 0]], dtype_of(dtype)))
            yield either(op, values_for(g, op, dtype, (5, 3)), np.int32([1]), np.array(0, dtype_of(dtype)))
        yield either(op, v, np.int32([1]), np.float32([[1, -0.0, 1]]))
        for dtype, least in (("float16", 6e-8), ("bfloat16", 9.2e-41), ("float32", 1e-40), ("float64", 1e-310)):  # subnormal numbers
            yield either(op, values_for(g, op, dtype, (5, 3)), np.int32([1]), np.array(least, dtype_of(dtype)))
        yield either(op, v, np.zeros([0], np.int32), np.float32(0))
        yield either(op, v, np.zeros([0], np.int32), np.float32([[1, 0, 1]]))


@spec(*[p + "ScatterNd" + k for k in ["Update", "Add", "Sub", "Min", "Max"] for p in ("Resource", "")])
def scatter_nd(g, op):
    types = NUMBERS if not op.endswith(("Min", "Max")) else ["float16", "bfloat16", "float32", "float64", "int32", "int64"]
    if op.endswith("Update"):
        types = types + ["string", "bool"]
    for dtype in types:
        for index in INDEX:
            v = values_for(g, op, dtype, (5, 3))
            yield either(op, v, np.array([[4], [0], [4]], index), values_for(g, op, dtype, (3, 3)))
    if op.endswith(("Min", "Max")):
        for dtype in FLOATS:
            yield either(op, g.values(dtype, (5, 40)), g.rng.integers(0, 5, (64, 1)).astype(np.int32), g.values(dtype, (64, 40)))
    v = values_for(g, op, "float32", (4, 5, 3))
    yield either(op, v, np.array([[1, 2], [2, 3]], np.int32), values_for(g, op, "float32", (2, 3)))
    yield either(op, v, np.array([[1, 2, 0], [1, 2, 0]], np.int32), values_for(g, op, "float32", (2,)))
    yield either(op, v, np.array([[[1], [2]], [[0], [3]]], np.int32), values_for(g, op, "float32", (2, 2, 5, 3)))
    yield either(op, v, np.zeros([0, 2], np.int32), np.zeros([0, 3], np.float32))
    yield either(op, v, np.zeros([2, 0], np.int32), values_for(g, op, "float32", (2, 4, 5, 3)))
    yield either(op, v[0, :, 0].copy(), np.array([[1], [1], [1]], np.int64), values_for(g, op, "float32", (3,)))
    yield either(op, v, np.array([[4, 0]], np.int32), values_for(g, op, "float32", (1, 3)))
    yield either(op, v, np.array([[0, -1]], np.int32), values_for(g, op, "float32", (1, 3)))


@spec("ResourceStridedSliceAssign", "StridedSliceAssign")
def strided_slice_assign(g, op):
    def one(value, begin, end, strides, update, **masks):
        def change(tf, target, b, e, s, u):
            raw = getattr(tf.raw_ops, op)
            return raw(ref=target, begin=b, end=e, strides=s, value=u, **masks)

        on = on_variable if op.startswith("Resource") else on_ref
        ints = [np.array(x, np.int32) for x in (begin, end, strides)]
        return on(value, change, *ints, update, name=op)

    for dtype in ["float32", "int64", "bool", "complex64", "float16"]:
        v = g.values(dtype, (4, 6), special=False)
        yield one(v, [1, 0], [3, 6], [1, 2], g.values(dtype, (2, 3), special=False))
        yield one(v, [3, 1], [0, 2], [-1, 1], g.values(dtype, (3,), special=False), shrink_axis_mask=2)
    v = g.values("float32", (4, 6), special=False)
    yield one(v, [0, 2], [0, 3], [1, 1], g.values("float32", (4, 1)), begin_mask=1, end_mask=1)
    yield one(v, [1], [1], [1], np.zeros([0, 6], np.float32))
    for begin, end, strides, update, masks in (
        ([0, 0], [4, 6], [1, 1], (6,), {}), ([0, 0], [4, 6], [2, 3], (2, 1), {}), ([0, 0], [4, 6], [1, 1], (1, 4, 6), {}), ([0, 0], [4, 6], [1, 1], (), {}),
        ([0, 0], [4, 6], [1, 1], (4, 1, 6), {}), ([0, 0], [4, 6], [1, 1], (5, 6), {}), ([0, 0], [4, 6], [1, 1], (0, 6), {}), ([1, 0], [1, 6], [1, 1], (7, 9, 2), {}),
        ([1, 2], [2, 3], [1, 1], (1, 1), dict(shrink_axis_mask=3)), ([1, 2], [2, 3], [1, 1], (2,), dict(shrink_axis_mask=3)),
        ([0, 1], [1, 3], [1, 1], (6,), dict(new_axis_mask=1)), ([0, 1], [1, 3], [1, 1], (1, 2, 6), dict(new_axis_mask=1)), ([3, 5], [-5, -7], [-1, -2], (3,), {}),
    ):
        yield one(v, begin, end, strides, g.values("float32", update), **masks)


@spec("ResourceGather")
def resource_gather(g, op):
    def one(value, index, **attrs):
        def build(tf, initial, i):
            handle, init = variable(tf, initial)
            return [[init], [tf.raw_ops.ResourceGather(resource=handle, indices=i, dtype=initial.dtype, **attrs)]]

        return Graph(build, value, index)

    for dtype in NUMBERS + ["bool", "string"]:
        for index in INDEX:
            yield one(g.values(dtype, (6, 3)), np.array([[5, 0], [2, 2]], index))
    v = g.values("float32", (6, 4, 3))
    yield one(v, np.int32(3))
    yield one(v, np.zeros([0, 2], np.int32))
    yield one(v, np.array([6], np.int32))
    yield one(v, np.array([[0, -1]], np.int64))
    yield one(v, g.rng.integers(0, 4, (6, 5)).astype(np.int32), batch_dims=1)
    yield one(v[:0], np.zeros([0], np.int32))


@spec("ResourceGatherNd")
def resource_gather_nd(g, op):
    def one(value, index):
        def build(tf, initial, i):
            handle, init = variable(tf, initial)
            return [[init], [tf.raw_ops.ResourceGatherNd(resource=handle, indices=i, dtype=initial.dtype)]]

        return Graph(build, value, index)

    for dtype in NUMBERS + ["bool", "string"]:
        for index in INDEX:
            yield one(g.values(dtype, (4, 3)), np.array([[3, 0], [2, 2]], index))
    v = g.values("float32", (4, 5, 3))
    yield one(v, np.array([[1], [0]], np.int32))
    yield one(v, np.array([1], np.int32))
    yield one(v, np.zeros([2, 0], np.int32))
    yield one(v, np.zeros([0, 2], np.int32))
    yield one(v, np.array([[4, 0]], np.int32))


@spec("AssignAddVariableOp", "AssignSubVariableOp")
def assign_arithmetic(g, op):
    for dtype in NUMBERS:
        v, d = (g.values(dtype, (2, 3), special=False) for _ in range(2))
        yield on_variable(v, lambda tf, h, x: getattr(tf.raw_ops, op)(resource=h, value=x), d, name=op)


@spec("AssignAdd", "AssignSub")
def assign_arithmetic_ref(g, op):
    for dtype in NUMBERS:
        v, d = (g.values(dtype, (2, 3), special=False) for _ in range(2))
        yield on_ref(v, lambda tf, r, x: getattr(tf.raw_ops, op)(ref=r, value=x), d, name=op)


@spec("VarHandleOp", "AssignVariableOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape", "DestroyResourceOp")
def resource_life(g, op):
    def build(tf, a, b):
        raw = tf.raw_ops
        h, same = [raw.VarHandleOp(dtype=a.dtype, shape=a.shape, shared_name=name) for name in [f"v{next(NUMBER)}"] * 2]
        read = raw.ReadVariableOp(resource=same, dtype=a.dtype)
        is_there = raw.VarIsInitializedOp(resource=h)
        return [[is_there], [read], [raw.AssignVariableOp(resource=h, value=a)], [is_there], [read],
                [raw.VariableShape(input=h), raw.VariableShape(input=h, out_type=tf.int64)],
                [raw.AssignVariableOp(resource=same, value=b)], [read],
                [raw.DestroyResourceOp(resource=h)], [is_there], [read], [raw.DestroyResourceOp(resource=h)],
                [raw.DestroyResourceOp(resource=h, ignore_lookup_error=False)],
                [raw.AssignVariableOp(resource=h, value=a)], [raw.DestroyResourceOp(resource=h, ignore_lookup_error=False)], [read]]

    for dtype in ["float32", "int64", "string", "bool", "bfloat16"]:
        yield Graph(build, g.values(dtype, (2, 3)), g.values(dtype, (2, 3)))


@spec("VariableV2", "Variable", "Assign", "IsVariableInitialized")
def ref_life(g, op):
    def build(tf, a, b):
        raw = tf.raw_ops
        v = (raw.Variable if op == "Variable" else raw.VariableV2)(shape=[2, 3], dtype=a.dtype)
        read = raw.Identity(input=v)
        is_there = raw.IsVariableInitialized(ref=v)
        return [[is_there], [read], [raw.Assign(ref=v, value=a)], [is_there], [read],
                [raw.Assign(ref=v, value=b)], [read]]

    def of_shape(tf, a, validate, shape):
        raw = tf.raw_ops
        v = (raw.Variable if op == "Variable" else raw.VariableV2)(shape=tf.TensorShape(shape), dtype=a.dtype)
        return [[raw.Assign(ref=v, value=a, validate_shape=validate)], [raw.Identity(input=v)]]

    for dtype in ["float32", "int64", "string", "bool"]:
        yield Graph(build, g.values(dtype, (2, 3)), g.values(dtype, (2, 3)))
    for shape in ((), (1,), (2, 3)):
        for validate in (True, False):
            yield Graph(lambda tf, a, validate=validate: of_shape(tf, a, validate, None), g.values("float32", shape))
    for shape in ((None,), (None, 3), (2, None)):
        yield Graph(lambda tf, a, shape=shape: of_shape(tf, a, False, shape), g.values("float32", (2, 3)), name=f"variable of shape {shape}")


@spec("ShardedFilename")
def sharded_filename(g, op):
    yield Case(np.array(b"/a/b", object), np.int32(3), np.int32(12))
    yield Case(np.array(b"", object), np.int32(123456), np.int32(-1))
    yield Case(np.array([b"a"], object), np.int32(3), np.int32(12))
    yield Case(np.array(b"a", object), np.int32([3]), np.int32(12))
    yield Case(np.array(b"a", object), np.int32(3), np.int32([12]))


@spec("ShardedFilespec")
def sharded_filespec(g, op):
    yield Case(np.array(b"/a/b", object), np.int32(12))
    yield Case(np.array([b"a"], object), np.int32(12))
    yield Case(np.array(b"a", object), np.int32([12]))


@spec("Restore", "RestoreSlice")
def first_format(g, op):
    """Tests checkpoints of format version 1, which TensorFlow wrote (tests/goldens/checkpoint)."""
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "goldens", "checkpoint")

    def build(tf, one, several, none, other):
        raw = tf.raw_ops
        part = "5 8 1,3:2,4"
        return [[raw.Restore(file_pattern=one, tensor_name=name, dt=dt)] for name, dt in (
                    ("f32", tf.float32), ("i64", tf.int64), ("str", tf.string), ("bool", tf.bool),
                    ("empty", tf.float32), ("f32", tf.int32), ("nothing", tf.float32))] + [
                [raw.Restore(file_pattern=several, tensor_name="w", dt=tf.float32)],
                [raw.RestoreSlice(file_pattern=several, tensor_name="w", shape_and_slice=part, dt=tf.float32)],
                [raw.RestoreSlice(file_pattern=several, tensor_name="w", shape_and_slice="5 9 -:-",
                                  dt=tf.float32)],
                [raw.RestoreSlice(file_pattern=one, tensor_name="f32", shape_and_slice="", dt=tf.float32)],
                [raw.Restore(file_pattern=none, tensor_name="w", dt=tf.float32)],
                [raw.Restore(file_pattern=other, tensor_name="w", dt=tf.float32)],
                raw.RestoreV2(prefix=several, tensor_names=["w", "b"], shape_and_slices=[part, ""],
                              dtypes=[tf.float32, tf.float32])]

    yield Graph(build, *[np.array(os.path.join(folder, name).encode(), object)
                         for name in ("v1-snappy", "v1-0000?-of-00002", "none", "make.py")])


@spec("SaveV2", "RestoreV2", "MergeV2Checkpoints")
def checkpoints(g, op):
    parts = [np.arange(20, dtype=np.float32).reshape(5, 4), g.values("int64", (3,)), g.values("string", (2, 2))]

    def build(tf, a, b, c, one, two, whole):
        raw = tf.raw_ops
        first = raw.SaveV2(prefix=one, tensor_names=["a", "b"], shape_and_slices=["5 4 0,2:-", ""],
                           tensors=[a[:2], b])
        second = raw.SaveV2(prefix=two, tensor_names=["c", "a"], shape_and_slices=["", "5 4 2,3:-"],
                            tensors=[c, a[2:]])
        merge = raw.MergeV2Checkpoints(checkpoint_prefixes=tf.stack([one, two]), destination_prefix=whole,
                                       delete_old_dirs=False)

        vector = tf.compat.v1.placeholder_with_default(tf.stack([whole]), None)

        def restore(names, slices, dtypes):
            return raw.RestoreV2(prefix=whole, tensor_names=names, shape_and_slices=slices, dtypes=dtypes)

        # Tests SaveV2 with a duplicate name, a slice that does not fit its tensor, and reads of names and slices that
        # do not exist.
        return [[first], [second], [merge],
                restore(["a", "c", "b", "a"], ["", "", "", "5 4 1,3:1,2"], [a.dtype, c.dtype, b.dtype, a.dtype]),
                restore(["nothing"], [""], [a.dtype]), restore(["b"], [""], [a.dtype]),
                restore(["a"], ["5 5 1,3:1,2"], [a.dtype]), restore(["c"], ["2 2 0,1:-"], [c.dtype]),
                [raw.SaveV2(prefix=one, tensor_names=["a", "a"], shape_and_slices=["", ""], tensors=[a, b])],
                [raw.SaveV2(prefix=one, tensor_names=["a"], shape_and_slices=["5 4 0,2:-"], tensors=[a])],
                [raw.SaveV2(prefix=vector, tensor_names=["a"], shape_and_slices=[""], tensors=[a])],
                [raw.MergeV2Checkpoints(checkpoint_prefixes=tf.stack([one, two]), destination_prefix=vector)]]

    yield Graph(build, *parts, *[np.array(f"checkpoints/{name}".encode(), object) for name in ("one", "two", "whole")])


@spec("RefIdentity", "RefSelect")
def references(g, op):
    def build(tf, a, b, index):
        raw = tf.raw_ops
        variables, inits = zip(*[ref(tf, x, (2, 3)) for x in (a, b)])
        same = raw.RefIdentity(input=variables[0]) if op == "RefIdentity" else raw.RefSelect(index=index, inputs=variables)
        again = raw.RefIdentity(input=same)
        first = [[same], [inits[0]], [same]] if op == "RefIdentity" else [[inits[0]]]
        return first + [[inits[1]], [same, again], [raw.Assign(ref=again, value=b)], list(variables), [raw.Identity(input=same)],
                [raw.AssignAdd(ref=same, value=a)] if a.dtype.is_floating else [again], list(variables)]

    for dtype in NUMBERS + ["bool", "string"]:
        for index in (0, 1):
            yield Graph(build, g.values(dtype, (2, 3)), g.values(dtype, (2, 3)), np.int32(index), name=f"{op} {dtype} {index}")
    if op == "RefSelect":
        for index in (-1, 2, 2**31 - 1, [0], [0, 1]):
            yield Graph(build, np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32), np.int32(index), name=f"index {index}")


@spec("TemporaryVariable", "DestroyTemporaryVariable")
def temporary(g, op):
    def build(tf, x, shape, var_name, destroyed=None, change=None):
        raw = tf.raw_ops
        v = raw.TemporaryVariable(shape=tf.TensorShape(shape), dtype=x.dtype, var_name=var_name)
        v = raw.Assign(ref=v, value=x)
        if change:
            v = change(raw, v, x)
        end = raw.DestroyTemporaryVariable(ref=v, var_name=destroyed or var_name or v.op.name.replace("Assign", "TemporaryVariable"))
        return [[end], [end, raw.Identity(input=end)]]

    for dtype in NUMBERS + ["bool", "string"]:
        for shape in ((), (3,), (2, 0), (2, 1, 3)):
            for var_name in ("", "a"):
                yield Graph(lambda tf, x: build(tf, x, shape, var_name), g.values(dtype, shape), name=f"{dtype} {shape} {var_name}")
        if dtype not in ("bool", "string"):
            yield Graph(lambda tf, x: build(tf, x, [4], "a", change=lambda raw, v, x: raw.AssignAdd(ref=raw.AssignSub(ref=v, value=x), value=x + x)),
                        g.values(dtype, (4,), special=False), name=f"changes {dtype}")
    x = np.float32([1, 2])
    yield Graph(lambda tf, x: build(tf, x, [2], "a", "b"), x, name="another name")
    yield Graph(lambda tf, x: build(tf, x, None, "a"), x, name="unknown rank")
    yield Graph(lambda tf, x: build(tf, x, None, "a"), np.float32(1), name="unknown rank, scalar")
    yield Graph(lambda tf, x: build(tf, x, [None], "a"), x, name="unknown dimension")
    yield Graph(lambda tf, x: build(tf, x, [3], "a"), x, name="another shape")

    def persistent(tf, x):
        v, init = ref(tf, x, [2])
        return [[init], [tf.raw_ops.DestroyTemporaryVariable(ref=v, var_name=v.op.name)], [tf.raw_ops.DestroyTemporaryVariable(ref=init, var_name=v.op.name)]]

    def twice(tf, x):
        raw = tf.raw_ops
        v = raw.Assign(ref=raw.TemporaryVariable(shape=[2], dtype=x.dtype, var_name="a"), value=x)
        first = raw.DestroyTemporaryVariable(ref=v, var_name="a")
        with tf.control_dependencies([first]):
            second = raw.DestroyTemporaryVariable(ref=v, var_name="a")
        return [[first, second]]

    yield Graph(persistent, x)
    yield Graph(twice, x)


@spec("DisableCopyOnRead")
def disable_copy_on_read(g, op):
    def build(tf, a, b):
        raw = tf.raw_ops
        handle, init = variable(tf, a)
        off, read = raw.DisableCopyOnRead(resource=handle), raw.ReadVariableOp(resource=handle, dtype=a.dtype)
        return [[off], [init], [off], [read], [raw.AssignVariableOp(resource=handle, value=b)], [off], [read],
                [raw.DestroyResourceOp(resource=handle)], [off]]

    for dtype in PLAIN + ["string"]:
        yield Graph(build, g.values(dtype, (2, 3)), g.values(dtype, (2, 3)), name=dtype)


@spec("GetSessionTensor", "DeleteSessionTensor")
def session_tensors(g, op):
    """Tests refusals. TensorFlow keeps a tensor when a run has fetched its handle, which its Python client then hides;
    tests/e2e/models/test_state.py reads and drops tensors in later requests."""
    def refused(tf, handle):
        return [[tf.raw_ops.GetSessionTensor(handle=handle, dtype=tf.float32)], [tf.raw_ops.DeleteSessionTensor(handle=handle)]]

    for handle in (b"none", b"", b"a;0;/job:localhost/replica:0/task:0/device:CPU:0", [b"none"], [b"a", b"b"], []):
        yield Graph(refused, np.array(handle, object), name=f"handle {handle}", texts=True)

    def not_fetched(tf, x):
        handle = tf.raw_ops.GetSessionHandle(value=x, name="kept")
        return [[tf.identity(handle)], [tf.raw_ops.GetSessionTensor(handle=handle, dtype=tf.float32)],
                [tf.raw_ops.DeleteSessionTensor(handle=handle)]]

    yield Graph(not_fetched, g.values("float32", (2,)), name="a handle that no run fetched", texts=True)


@spec("GetSessionHandle")
def session_handle(g, op):
    def build(tf, x):
        handle = tf.raw_ops.GetSessionHandle(value=x)
        return [[tf.shape(handle), tf.raw_ops.RegexReplace(input=handle, pattern=".*;[0-9]+;", rewrite="")]]

    for dtype in PLAIN + ["string"]:
        for shape in ((), (0,), (2, 3)):
            yield Graph(build, g.values(dtype, shape), name=f"{dtype} {shape}")


@spec("GetSessionHandleV2")
def session_handle_v2(g, op):
    def build(tf, x):
        handle = tf.raw_ops.GetSessionHandleV2(value=x)
        with tf.control_dependencies([handle]):
            return [[tf.identity(x)], [tf.shape(handle)]]

    for dtype in PLAIN + ["string"]:
        yield Graph(build, g.values(dtype, (2, 3)), name=dtype)
