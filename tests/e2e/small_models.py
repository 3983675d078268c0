"""Writes SavedModels of a few nodes without TensorFlow, for tests of the code around a model.

A model is a dictionary of signatures. A signature is (inputs, outputs). Both are dictionaries that map an
alias to (tensor name, type name) of a node that `build` makes, or to (tensor name, type name, dimensions) where the
signature states a shape. An optional third element of a signature is its method name, without the prefix "tensorflow/serving/"."""
import os

from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import saved_model_pb2

DTYPES = ("float", "double", "half", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64", "qint8", "quint8", "qint32", "bool", "string", "complex64")


def number(dtype):
    return types_pb2.DataType.Value("DT_" + dtype.upper())


class Graph:
    def __init__(self, graph_def):
        self.graph_def = graph_def

    def node(self, name, op, *inputs, **types):
        n = self.graph_def.node.add(name=name, op=op, input=inputs)
        for key, dtype in types.items():
            n.attr[key].type = number(dtype)
        return n

    def placeholder(self, name, dtype):
        self.node(name, "Placeholder", dtype=dtype).attr["shape"].shape.unknown_rank = True

    def const(self, name, dtype, dims, **fields):
        t = self.node(name, "Const", dtype=dtype).attr["value"].tensor
        t.dtype = number(dtype)
        t.tensor_shape.SetInParent()
        for d in dims:
            t.tensor_shape.dim.add(size=d)
        for field, values in fields.items():
            getattr(t, field).extend(values)


def scalar(value):
    t = tensor_pb2.TensorProto(dtype=number("float"), float_val=[value])
    t.tensor_shape.SetInParent()
    return t


def write(folder, signatures, build, defaults=None, init=None):
    """Writes a version into `folder`. build(Graph) makes the nodes. `defaults` are the default values of inputs, by
    signature. `init` names the node that is run when the version is loaded."""
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    m = saved.meta_graphs.add()
    m.meta_info_def.tags.append("serve")
    m.graph_def.versions.producer = 134
    build(Graph(m.graph_def))
    for name, (inputs, outputs, *method) in signatures.items():
        s = m.signature_def[name]
        s.method_name = "tensorflow/serving/" + (method[0] if method else "predict")
        for where, infos in ((s.inputs, inputs), (s.outputs, outputs)):
            for alias, (tensor, dtype, *dims) in infos.items():
                where[alias].name = tensor + ":0"
                where[alias].dtype = number(dtype)
                where[alias].tensor_shape.unknown_rank = not dims
                for size in dims[0] if dims else []:
                    where[alias].tensor_shape.dim.add(size=size)
    if init:
        m.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = init
    for name, values in (defaults or {}).items():
        for alias, value in values.items():
            m.signature_def[name].defaults[alias].CopyFrom(scalar(value))
    os.makedirs(folder)
    with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
        file.write(saved.SerializeToString(deterministic=True))


def write_types(folder):
    """Writes a model with one signature per type, named after the type. Each signature returns its input x as y."""
    def build(g):
        for d in DTYPES:
            g.placeholder("x_" + d, d)
            g.node("y_" + d, "Identity", "x_" + d, T=d)
    write(folder, {d: ({"x": ("x_" + d, d)}, {"y": ("y_" + d, d)}) for d in DTYPES}, build)


def write_shapes(folder):
    """Writes a model whose serving_default returns its three inputs, and whose other signatures have outputs that do
    not fit the row form."""
    def build(g):
        for alias, d in (("a", "float"), ("b", "int64"), ("c", "string")):
            g.placeholder(alias, d)
            g.node("same_" + alias, "Identity", alias, T=d)
        g.const("three", "float", [3], float_val=[1, 2, 3])
        g.const("scalar", "float", [], float_val=[7])
        g.const("quarter", "float", [], float_val=[0.25])
        g.const("zero_rows", "float", [0, 2])
        g.placeholder("dims", "int32")
        g.node("filled", "Fill", "dims", "quarter", T="float", index_type="int32")
    a, out = {"a": ("a", "float")}, ("same_a", "float")
    write(folder, {
        "serving_default": ({"a": ("a", "float"), "b": ("b", "int64"), "c": ("c", "string")},
                            {"a": out, "b": ("same_b", "int64"), "c_bytes": ("same_c", "string")}),
        "unequal": (a, {"y": out, "z": ("three", "float")}),
        "scalar": (a, {"y": out, "z": ("scalar", "float")}),
        "zero": (a, {"y": ("zero_rows", "float")}),
        "zeros": (a, {"y": ("zero_rows", "float"), "z": ("zero_rows", "float")}),
        "zero_and_three": (a, {"y": ("zero_rows", "float"), "z": ("three", "float")}),
        "no_inputs": ({}, {"y": ("three", "float")}),
        "fill": ({"dims": ("dims", "int32")}, {"y": ("filled", "float")}),
        "text": ({"c": ("c", "string")}, {"text": ("same_c", "string")}),
        "bytes": ({"c": ("c", "string")}, {"text_bytes": ("same_c", "string")}),
    }, build)


def write_handles(folder):
    """Writes a model with inputs of types whose values are pointers. The output of `lies` is of another type than its
    signature states."""
    def build(g):
        g.const("three", "float", [3], float_val=[1, 2, 3])
        for d in ("resource", "variant"):
            g.placeholder("x_" + d, d)
        g.placeholder("x", "float")
        g.node("handle", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
    write(folder, {
        "resource": ({"x": ("x_resource", "resource", [-1])}, {"y": ("three", "float")}),
        "variant": ({"x": ("x_variant", "variant", [-1])}, {"y": ("three", "float")}),
        "lies": ({"x": ("x", "float", [-1])}, {"y": ("handle", "float")}),
    }, build)


def write_counter(folder, is_ref):
    """Writes a model with a number that starts at 40. `add` adds x to the number, `sum` returns the number plus x, and
    `value` returns the number. If is_ref is true, the number is a TensorFlow 1 ref variable, which ops read
    directly. Otherwise, it is a TensorFlow 2 resource variable, which ops read through a handle."""
    def build(g):
        g.placeholder("x", "float")
        g.const("start", "float", [], float_val=[40])
        g.node("v", "VariableV2" if is_ref else "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
        if is_ref:
            g.node("init", "Assign", "v", "start", T="float")
            g.node("change", "AssignAdd", "v", "x", T="float")
            g.node("value", "Identity", "v", T="float")
            g.node("sum", "AddV2", "x", "v", T="float")
        else:
            g.node("init", "AssignVariableOp", "v", "start", dtype="float")
            g.node("change", "AssignAddVariableOp", "v", "x", dtype="float")
            g.node("value", "ReadVariableOp", "v", dtype="float")
            g.node("sum", "AddV2", "x", "value", T="float")
        g.node("done", "Identity", "x", "^change", T="float")
    x = {"x": ("x", "float")}
    write(folder, {"add": (x, {"y": ("done", "float")}), "sum": (x, {"y": ("sum", "float")}),
                   "value": (x, {"y": ("value", "float")})}, build, init="init")


def write_held(folder):
    """Writes a model with a mutable table and a variable of 1,000,000 elements. `hold_table` looks n keys up, each of which
    has 1 MB, and `find` looks a key up. `hold_variable` adds 1 to each element n times, and `first` returns the first
    element. The holds return 0, or end with their deadline."""
    def build(g):
        g.placeholder("n", "int32")
        g.placeholder("x", "string")
        g.const("zero", "int32", [], int_val=[0])
        g.const("none", "int64", [], int64_val=[-1])
        g.const("one", "float", [], float_val=[1])
        g.const("width", "int32", [2], int_val=[1, 1000000])
        g.const("key", "string", [], string_val=[b"k" * (1 << 20)])
        g.node("table", "MutableHashTableV2", key_dtype="string", value_dtype="int64")
        g.node("found", "LookupTableFindV2", "table", "x", "none", Tin="string", Tout="int64")
        g.node("axis", "ExpandDims", "zero", "zero", T="int32", Tdim="int32")
        g.node("dims", "ExpandDims", "n", "zero", T="int32", Tdim="int32")
        g.node("keys", "Fill", "dims", "key", T="string", index_type="int32")
        g.node("values", "LookupTableFindV2", "table", "keys", "none", Tin="string", Tout="int64")
        g.node("most", "Max", "values", "axis", T="int64", Tidx="int32")
        g.node("table_done", "Identity", "zero", "^most", T="int32")
        g.node("start", "Fill", "width", "one", T="float", index_type="int32")
        g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
        g.node("assign", "AssignVariableOp", "v", "start", dtype="float")
        g.const("seven", "int64", [], int64_val=[7])
        g.node("insert", "LookupTableInsertV2", "table", "key0", "seven", Tin="string", Tout="int64")
        g.const("key0", "string", [], string_val=[b"k"])
        g.node("init", "NoOp", "^assign", "^insert")
        g.node("rows", "Fill", "dims", "zero", T="int32", index_type="int32")
        g.node("add", "ResourceScatterAdd", "v", "rows", "one", dtype="float", Tindices="int32")
        g.node("variable_done", "Identity", "zero", "^add", T="int32")
        g.node("value", "ReadVariableOp", "v", dtype="float")
        g.node("first", "GatherV2", "value", "axis", "zero", Tparams="float", Tindices="int32", Taxis="int32")
        g.node("column", "GatherV2", "first", "zero", "axis1", Tparams="float", Tindices="int32", Taxis="int32")
        g.const("axis1", "int32", [], int_val=[1])
    n, x = {"n": ("n", "int32")}, {"x": ("x", "string")}
    write(folder, {"hold_table": (n, {"y": ("table_done", "int32")}), "find": (x, {"y": ("found", "int64")}),
                   "hold_variable": (n, {"y": ("variable_done", "int32")}), "first": ({}, {"y": ("column", "float")})},
          build, init="init")


def write_kept(folder, name="handle"):
    """Writes a model that keeps tensors between requests. `keep` keeps x and returns a handle, which begins with `name`.
    `read` returns the tensor of a handle, and `drop` drops it. `double` returns 2 x, which it computes in a temporary
    variable. `keep_log` keeps x, also returns its logarithm, and fails if that is not a number."""
    def build(g):
        g.placeholder("x", "float")
        g.placeholder("h", "string")
        g.const("one", "int32", [], int_val=[1])
        g.node(name, "GetSessionHandle", "x", T="float")
        g.node("log", "Log", "x", f"^{name}", T="float")
        g.node("checked", "CheckNumerics", "log", T="float").attr["message"].s = b"no logarithm"
        g.node("tensor", "GetSessionTensor", "h", dtype="float")
        g.node("gone", "DeleteSessionTensor", "h")
        g.node("done", "Identity", "one", "^gone", T="int32")
        v = g.node("v", "TemporaryVariable", dtype="float")
        v.attr["shape"].shape.dim.add(size=3)
        g.node("start", "Assign", "v", "x", T="float")
        g.node("same", "RefIdentity", "start", T="float")
        g.node("sum", "AssignAdd", "same", "x", T="float")
        g.node("end", "DestroyTemporaryVariable", "sum", T="float").attr["var_name"].s = b"v"
    x, h = {"x": ("x", "float")}, {"h": ("h", "string")}
    write(folder, {"keep": (x, {"h": (name, "string")}), "read": (h, {"y": ("tensor", "float")}),
                   "keep_log": (x, {"h": (name, "string"), "y": ("checked", "float")}),
                   "drop": (h, {"y": ("done", "int32")}), "double": (x, {"y": ("end", "float")})}, build)


def write_quantised(folder):
    """Writes a model of quantised types. `set` sets the upper bound of a range that starts at 0. `fake` rounds x to the
    256 values that 8 bits represent in this range. `product` multiplies the matrix x by 2 in quantised integers."""
    def build(g):
        g.placeholder("x", "float")
        g.const("zero", "float", [], float_val=[0])
        g.const("start", "float", [], float_val=[255])
        g.const("two", "quint8", [1, 1], int_val=[2])
        g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
        g.node("init", "AssignVariableOp", "v", "start", dtype="float")
        g.node("change", "AssignVariableOp", "v", "x", dtype="float")
        g.node("done", "Identity", "x", "^change", T="float")
        g.node("top", "ReadVariableOp", "v", dtype="float")
        g.node("fake", "FakeQuantWithMinMaxVars", "x", "zero", "top")
        g.node("quantised", "QuantizeV2", "x", "zero", "start", T="quint8")
        g.node("product", "QuantizedMatMul", "quantised", "two", "quantised:1", "quantised:2", "zero", "start", T1="quint8",
               T2="quint8", Toutput="qint32")
        g.node("narrow", "QuantizeDownAndShrinkRange", "product", "product:1", "product:2", Tinput="qint32", out_type="quint8")
        g.node("y", "Dequantize", "narrow", "narrow:1", "narrow:2", T="quint8")
    x = {"x": ("x", "float")}
    write(folder, {"set": (x, {"y": ("done", "float")}), "fake": (x, {"y": ("fake", "float")}),
                   "product": (x, {"y": ("y", "float")})}, build, init="init")


def count(g, most, prefix=""):
    """Adds a loop that counts up to the value of the int64 node `most`. The names of its nodes begin with `prefix`. Returns the
    node that outputs the count as a float."""
    def node(name, op, *inputs, **types):
        return g.node(prefix + name, op, *(prefix + i for i in inputs), **types)

    g.const(prefix + "one", "int64", [], int64_val=[1])
    for name, source, is_constant in (("i", prefix + "one", False), ("n", most, True), ("step", prefix + "one", True)):
        n = g.node(prefix + name, "Enter", source, T="int64")
        n.attr["frame_name"].s = f"{prefix}count".encode()
        n.attr["is_constant"].b = is_constant
    node("merge", "Merge", "i", "next", T="int64").attr["N"].i = 2
    node("less", "Less", "merge", "n", T="int64")
    node("goes_on", "LoopCond", "less")
    node("switch", "Switch", "merge", "goes_on", T="int64")
    node("sum", "Add", "switch:1", "step", T="int64")
    node("next", "NextIteration", "sum", T="int64")
    node("exit", "Exit", "switch", T="int64")
    node("count", "Cast", "exit", SrcT="int64", DstT="float")
    return prefix + "count"


def write_endless(folder):
    """Writes a model whose serving_default counts to 2**60 before it returns. Its warm-up therefore uses all of the
    time that is allowed for a warm-up."""
    def build(g):
        g.placeholder("x", "float")
        g.const("most", "int64", [], int64_val=[1 << 60])
        g.node("y", "AddV2", "x", count(g, "most"), T="float")
    write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build)


def write_long_init(folder, n):
    """Writes a model whose init op counts to n. The op takes about 0.3 microseconds for each number."""
    def build(g):
        g.placeholder("x", "float")
        g.const("most", "int64", [], int64_val=[n])
        g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
        g.node("init", "AssignVariableOp", "v", count(g, "most"), dtype="float")
        g.node("value", "ReadVariableOp", "v", dtype="float")
        g.node("y", "AddV2", "x", "value", T="float")
    write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build, init="init")


def write_endless_init(folder):
    """Writes a model whose init op never ends."""
    write_long_init(folder, 1 << 60)


def write_counting(folder):
    """Writes a model whose serving_default counts up to its input before it returns, so that the time of a run depends
    on the value of the input. Its signature `timed` also returns the time at which the run began, as y_began."""
    def build(g):
        g.placeholder("x", "float")
        g.node("most", "Cast", "x", SrcT="float", DstT="int64")
        g.node("y", "Identity", count(g, "most"), T="float")
        g.node("y_began", "Timestamp", "^x")
        g.node("most_later", "Cast", "x", "^y_began", SrcT="float", DstT="int64")
        g.node("y_timed", "Identity", count(g, "most_later", "timed_"), T="float")
    write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")}),
                   "timed": ({"x": ("x", "float")}, {"y": ("y_timed", "float"), "y_began": ("y_began", "double")})}, build)


def write_queue(folder, capacity, ref=False):
    """Writes a model with a FIFO queue of floats. `put` enqueues x, and `put_many` enqueues each element of x. `take`
    dequeues one float, `take_many` dequeues x floats, and `spin` dequeues one float and counts up to it. `size` returns
    the number of floats, and `close` closes the queue. The handle is a resource, or a TensorFlow 1 ref if `ref` is true."""
    end = "" if ref else "V2"

    def queue_op(g, name, op, *inputs, **lists):
        n = g.node(name, op + end, "queue", *inputs)
        for key, dtype in lists.items():
            n.attr[key].list.type.append(number(dtype))

    def build(g):
        g.placeholder("x", "float")
        q = g.node("queue", "FIFOQueue" + end)
        q.attr["component_types"].list.type.append(number("float"))
        q.attr["shapes"].list.shape.add()
        q.attr["capacity"].i = capacity
        queue_op(g, "enqueue", "QueueEnqueue", "x", Tcomponents="float")
        queue_op(g, "enqueue_many", "QueueEnqueueMany", "x", Tcomponents="float")
        queue_op(g, "closing", "QueueClose")
        for name, op in (("put", "enqueue"), ("put_many", "enqueue_many"), ("close", "closing")):
            g.node(name, "Identity", "x", "^" + op, T="float")
        g.node("n", "Cast", "x", SrcT="float", DstT="int32")
        g.node("taken", "NoOp", "^x")
        queue_op(g, "take", "QueueDequeue", "^taken", component_types="float")
        queue_op(g, "take_many", "QueueDequeueMany", "n", component_types="float")
        queue_op(g, "count", "QueueSize", "^taken")
        g.node("size", "Cast", "count", SrcT="int32", DstT="float")
        queue_op(g, "first", "QueueDequeue", "^taken", component_types="float")
        g.node("most", "Cast", "first", SrcT="float", DstT="int64")
        g.node("spin", "Identity", count(g, "most", "loop_"), T="float")
    write(folder, {name: ({"x": ("x", "float")}, {"y": (name, "float")})
                   for name in ("put", "put_many", "take", "take_many", "spin", "size", "close")}, build)


def write_map_stage(folder):
    """Writes a model with a staging area whose items have keys and consist of two floats. `put` stages the item (x, x / 2)
    under the key x. `first` stages only the first float of that item, and `second` only the second. `take` removes the item
    with the key x and returns the sum of its floats. `size` returns the number of items."""

    def map_op(g, name, op, *inputs, **lists):
        n = g.node(name, op, *inputs)
        for key, dtypes in {"dtypes": 2, **lists}.items():
            n.attr[key].list.type.extend([number("float")] * dtypes)
        n.attr["shared_name"].s = b"area"
        n.attr["capacity"].i = 5

    def build(g):
        g.placeholder("x", "float")
        g.const("two", "float", (), float_val=[2.0])
        g.node("half", "RealDiv", "x", "two", T="float")
        g.node("key", "Cast", "x", SrcT="float", DstT="int64")
        g.const("both", "int32", (2,), int_val=[0, 1])
        g.const("zero", "int32", (1,), int_val=[0])
        g.const("one", "int32", (1,), int_val=[1])
        for name, indices, values in (("put", "both", ("x", "half")), ("first", "zero", ("x",)), ("second", "one", ("half",))):
            map_op(g, "stage_" + name, "MapStage", "key", indices, *values, fake_dtypes=len(values))
            g.node(name, "Identity", "x", "^stage_" + name, T="float")
        map_op(g, "taken", "MapUnstage", "key", "both")
        g.node("take", "AddV2", "taken", "taken:1", T="float")
        g.node("given", "NoOp", "^x")
        map_op(g, "count", "MapSize", "^given")
        g.node("size", "Cast", "count", SrcT="int32", DstT="float")
    write(folder, {name: ({"x": ("x", "float")}, {"y": (name, "float")}) for name in ("put", "first", "second", "take", "size")}, build)


def write_accumulator(folder, ref=False):
    """Writes a model with an accumulator of gradients. `apply` adds the gradient x. `take` waits for x gradients or more, and
    returns the mean of all gradients. `number` returns the number of gradients. The handle is a TensorFlow 1 ref if `ref` is
    true, otherwise a resource."""
    kind = "" if ref else "Resource"

    def build(g):
        g.placeholder("x", "float")
        h = g.node("handle", kind + "ConditionalAccumulator", dtype="float")
        h.attr["shape"].shape.unknown_rank = True
        h.attr["reduction_type"].s = b"MEAN"
        h.attr["shared_name"].s = b"gradients"
        g.const("step", "int64", (), int64_val=[1 << 40])
        g.node("add", kind + "AccumulatorApplyGradient", "handle", "step", "x", dtype="float")
        g.node("apply", "Identity", "x", "^add", T="float")
        g.node("n", "Cast", "x", SrcT="float", DstT="int32")
        g.node("take", kind + "AccumulatorTakeGradient", "handle", "n", dtype="float")
        g.node("given", "NoOp", "^x")
        g.node("count", kind + "AccumulatorNumAccumulated", "handle", "^given")
        g.node("number", "Cast", "count", SrcT="int32", DstT="float")
    write(folder, {name: ({"x": ("x", "float")}, {"y": (name, "float")}) for name in ("apply", "take", "number")}, build)


def write_barrier(folder):
    """Writes a model with a barrier and a map of sparse tensors. `first` inserts x under the key x, and `second` inserts x / 2
    under that key. `take` takes a tuple and returns the sum of its floats. `take_minus_one` takes -1 tuples, which is refused. `ready`
    returns the number of complete tuples.
    `keep` adds a sparse tensor with the value x to the map and returns its handle, and `fetch` removes the sparse tensor
    with the handle x and returns the value."""

    def build(g):
        g.placeholder("x", "float")
        g.const("two", "float", (), float_val=[2.0])
        g.const("vector", "int32", (1,), int_val=[1])
        g.node("half", "RealDiv", "x", "two", T="float")
        b = g.node("barrier", "Barrier")
        b.attr["component_types"].list.type.extend([number("float")] * 2)
        b.attr["shapes"].list.shape.add()
        b.attr["shapes"].list.shape.add()
        g.node("text", "AsString", "x", T="float")
        g.node("keys", "Reshape", "text", "vector", T="string", Tshape="int32")
        for k, (name, value) in enumerate((("first", "x"), ("second", "half"))):
            g.node("row_" + name, "Reshape", value, "vector", T="float", Tshape="int32")
            g.node("insert_" + name, "BarrierInsertMany", "barrier", "keys", "row_" + name, T="float").attr["component_index"].i = k
            g.node(name, "Identity", "x", "^insert_" + name, T="float")
        g.node("given", "NoOp", "^x")
        g.const("one", "int32", (), int_val=[1])
        g.const("minus_one", "int32", (), int_val=[-1])
        for name, n in (("take", "one"), ("take_minus_one", "minus_one")):
            t = g.node("taken_" + name, "BarrierTakeMany", "barrier", n, "^given")
            t.attr["component_types"].list.type.extend([number("float")] * 2)
            g.node(name, "AddV2", f"taken_{name}:2", f"taken_{name}:3", T="float")
        g.node("count", "BarrierReadySize", "barrier", "^given")
        g.node("ready", "Cast", "count", SrcT="int32", DstT="float")
        g.const("at", "int64", (1, 1), int64_val=[2])
        g.const("dims", "int64", (1,), int64_val=[4])
        g.node("written", "SerializeSparse", "at", "row_first", "dims", T="float")
        g.node("read", "DeserializeSparse", "written", dtype="float", Tserialized="string")
        add = g.node("add", "AddSparseToTensorsMap", "read", "read:1", "read:2", T="float")
        g.node("keep", "Cast", "add", SrcT="int64", DstT="float")
        g.node("handle", "Cast", "x", SrcT="float", DstT="int64")
        g.node("handles", "Reshape", "handle", "vector", T="int64", Tshape="int32")
        take = g.node("found", "TakeManySparseFromTensorsMap", "handles", dtype="float")
        add.attr["shared_name"].s = take.attr["shared_name"].s = b"map"
        g.node("fetch", "Identity", "found:1", T="float")
    names = ("first", "second", "take", "take_minus_one", "ready", "keep", "fetch")
    write(folder, {name: ({"x": ("x", "float")}, {"y": (name, "float")}) for name in names}, build)


def write_csr(folder):
    """Writes a model that makes a CSR sparse matrix of coordinates. `multiply` multiplies it by a dense matrix. `gram`
    multiplies it by its transpose. `order` returns an order of its rows. `factor` returns its Cholesky factor with the rows in
    a given order."""
    parts = {"indices": ("int64", (-1, 2)), "values": ("float", (-1,)), "shape": ("int64", (2,))}
    more = {"multiply": {"dense": ("float", (-1, -1))}, "gram": {}, "order": {}, "factor": {"given": ("int32", (-1,))}}

    def build(g):
        for name, (dtype, dims) in (parts | more["multiply"] | more["factor"]).items():
            shape = g.node(name, "Placeholder", dtype=dtype).attr["shape"].shape
            for d in dims:
                shape.dim.add(size=d)
        g.node("matrix", "SparseTensorToCSRSparseMatrix", "indices", "values", "shape", T="float")
        g.node("multiply", "SparseMatrixMatMul", "matrix", "dense", T="float")
        g.node("square", "SparseMatrixSparseMatMul", "matrix", "matrix", type="float").attr["transpose_b"].b = True
        g.node("gram", "CSRSparseMatrixToDense", "square", type="float")
        g.node("lower", "SparseMatrixSparseCholesky", "matrix", "given", type="float")
        g.node("order", "SparseMatrixOrderingAMD", "matrix")
        g.node("factor", "CSRSparseMatrixToDense", "lower", type="float")
    signatures = {name: ({alias: (alias, *how) for alias, how in (parts | extra).items()}, {"y": (name, "float")})
                  for name, extra in more.items()}
    signatures["order"][1]["y"] = ("order", "int32")
    write(folder, signatures, build)


def write_files(folder):
    """Writes a model that uses files. `read` returns the bytes of file x, `write` writes y to file x, and `match` lists the files of
    pattern x. `put` enqueues a name, `line` returns the next line of the files whose names are in the queue, and `close` closes the
    queue."""

    def build(g):
        g.placeholder("x", "string")
        g.placeholder("y", "string")
        g.node("read", "ReadFile", "x")
        g.node("writing", "WriteFile", "x", "y")
        g.node("write", "Identity", "y", "^writing", T="string")
        g.node("match", "MatchingFiles", "x")
        q = g.node("queue", "FIFOQueueV2")
        q.attr["component_types"].list.type.append(number("string"))
        q.attr["shapes"].list.shape.add()
        q.attr["capacity"].i = 100
        g.node("enqueue", "QueueEnqueueV2", "queue", "x").attr["Tcomponents"].list.type.append(number("string"))
        g.node("closing", "QueueCloseV2", "queue")
        g.node("lines", "TextLineReaderV2").attr["skip_header_lines"].i = 0
        g.node("next", "ReaderReadV2", "lines", "queue", "^x")
        g.node("text", "Identity", "next:1", T="string")
        for name, op in (("put", "enqueue"), ("close", "closing")):
            g.node(name, "Identity", "x", "^" + op, T="string")

    x, both = {"x": ("x", "string")}, {"x": ("x", "string"), "y": ("y", "string")}
    write(folder, {"write": (both, {"y": ("write", "string")}), "line": (x, {"key": ("next", "string"), "y": ("text", "string")}),
                   **{name: (x, {"y": (name, "string")}) for name in ("read", "match", "put", "close")}}, build)
