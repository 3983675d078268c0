"""Cases for tensor lists, TensorArrays and stacks. Each case is a graph of several nodes whose results are plain
tensors."""

from spec import *


def f32(*v):
    return np.float32(v)


def reserve(tf, shape, n, dtype=None):
    return tf.raw_ops.TensorListReserve(element_shape=tf.constant(shape, tf.int32), num_elements=n, element_dtype=dtype or tf.float32)


def stack(tf, h, shape=-1, n=-1, dtype=None):
    return tf.raw_ops.TensorListStack(input_handle=h, element_shape=held(tf, shape, tf.int32), element_dtype=dtype or tf.float32, num_elements=n)


def held(tf, x, dtype=None):
    """Returns x with a shape that TensorFlow does not know while it builds the graph."""
    return tf.compat.v1.placeholder_with_default(tf.constant(x, dtype), None)


@spec("TensorListReserve", "TensorListSetItem", "TensorListGetItem", "TensorListStack")
def items(g, op):
    if op != "TensorListStack":
        return  # The graphs for TensorListStack also test the other ops in the list above.
    def case(shape, n, sets, get=None, want=-1, name=""):
        def build(tf, *values):
            h = reserve(tf, shape, held(tf, n))
            for i, v in zip(sets, values):
                h = tf.raw_ops.TensorListSetItem(input_handle=h, index=held(tf, i), item=v)
            out = [tf.raw_ops.TensorListLength(input_handle=h)]
            if get is not None:
                out.append(tf.raw_ops.TensorListGetItem(input_handle=h, index=held(tf, get), element_shape=held(tf, want), element_dtype=tf.float32))
            else:
                out.append(stack(tf, h, want))
            return out

        return Graph(build, *[f32(i, 2 * i) for i in range(len(sets))], name=f"{shape} {n} {sets} {get} {want}")

    for shape in ([2], [-1], -1, [3]):
        for want in ([2], [-1], -1, [3]):
            yield case(shape, 3, [0, 2, 1], want=want)
            yield case(shape, 3, [1], want=want)
            yield case(shape, 3, [], want=want)
            yield case(shape, 3, [1], get=1, want=want)
            yield case(shape, 3, [1], get=0, want=want)
            yield case(shape, 3, [], get=0, want=want)
    yield case([2], -1, [])
    yield case([2], 0, [], want=[2])
    yield case([2], 0, [])
    yield case([2], 2, [2])
    yield case([2], 2, [-1])
    yield case([2], 2, [0], get=5)
    for i in ([0], [[0]], [5]):  # TensorFlow's process crashes if the index has no element or several elements
        yield case([2], 2, [0], get=i)


@spec("TensorListFromTensor", "TensorListSplit", "TensorListConcatV2", "TensorListGather", "TensorListScatterV2", "TensorListResize", "TensorListElementShape", "TensorListScatterIntoExistingList", "TensorListConcatLists")
def whole(g, op):
    if op != "TensorListFromTensor":
        return  # The graphs for TensorListFromTensor also test the other ops in the list above.
    def graph(fn, *feeds, name=""):
        return Graph(lambda tf, *v: fn(tf, tf.raw_ops, *v), *feeds, name=name)

    def concat(tf, R, h, shape=-1, lead=()):
        return list(R.TensorListConcatV2(input_handle=h, element_shape=held(tf, shape, tf.int32), leading_dims=held(tf, lead, tf.int64), element_dtype=tf.float32))

    def scattered(tf, R, write, v, idx):
        rows = v[:np.size(idx)] if idx.ndim else v[:1]
        if write == "IntoExistingList":
            return R.TensorListScatterIntoExistingList(input_handle=R.TensorListFromTensor(tensor=v, element_shape=tf.constant([3])), tensor=rows, indices=held(tf, idx))
        more = dict(num_elements=held(tf, -1)) if write else {}
        return getattr(R, "TensorListScatter" + write)(tensor=rows, indices=held(tf, idx), element_shape=tf.constant([3]), **more)

    x = g.values("float32", (5, 3))
    for shape in (-1, [-1], [3], [2]):
        yield graph(lambda tf, R, v: [stack(tf, R.TensorListFromTensor(tensor=v, element_shape=tf.constant(shape)))], x, name=f"from {shape}")
        yield graph(lambda tf, R, v: [R.TensorListElementShape(input_handle=R.TensorListFromTensor(tensor=v, element_shape=tf.constant(shape)), shape_type=tf.int32)], x, name=f"element shape {shape}")
        yield graph(lambda tf, R, v: concat(tf, R, R.TensorListFromTensor(tensor=v, element_shape=tf.constant(shape))), x, name=f"concat {shape}")
    yield graph(lambda tf, R, v: [stack(tf, R.TensorListFromTensor(tensor=v, element_shape=tf.constant(-1)))], np.float32(3), name="from scalar")
    for idx in ([1, 0, 4, 4], [], [5], [-1]):
        for want in (-1, [3], [2]):
            yield graph(lambda tf, R, v: [R.TensorListGather(input_handle=R.TensorListFromTensor(tensor=v, element_shape=tf.constant(-1)),
                        indices=held(tf, np.array(idx, np.int32)), element_shape=held(tf, want), element_dtype=tf.float32)], x, name=f"gather {idx} {want}")
    for idx, n in (([1, 0, 4, 2, 3], -1), ([1, 0, 6, 2, 3], -1), ([1, 0, 6, 2, 3], 7), ([1, 0, 6, 2, 3], 4), ([1, 0], -1), ([1, 0, -1, 2, 3], -1), ([0, 1, 2, 3, 4], -2)):
        yield graph(lambda tf, R, v: [stack(tf, R.TensorListScatterV2(tensor=v, indices=held(tf, np.array(idx, np.int32)), element_shape=tf.constant(-1), num_elements=held(tf, n)))], x, name=f"scatter {idx} {n}")
    for idx in ([4, 0, 1], [[4, 0, 1]], [[4], [0], [1]], 4):
        for write in ("IntoExistingList", "", "V2"):
            yield graph(lambda tf, R, v: [stack(tf, scattered(tf, R, write, v, np.array(idx, np.int32)))], x, name=f"scatter{write} at {idx}")
    for size in (0, 2, 7, -1):
        yield graph(lambda tf, R, v: [stack(tf, R.TensorListResize(input_handle=R.TensorListFromTensor(tensor=v, element_shape=tf.constant([3])), size=held(tf, size)))], x, name=f"resize {size}")
    for lens, shape in (([2, 3], [-1, 3]), ([2, 3], -1), ([0, 5], [-1, 3]), ([2, 2], [-1, 3]), ([2, 4], [-1, 3]), ([2, -1], [-1, 3]), ([2, 3], [-1, 2])):
        yield graph(lambda tf, R, v: concat(tf, R, R.TensorListSplit(tensor=v, element_shape=held(tf, shape), lengths=held(tf, np.int64(lens)))), x, name=f"split {lens} {shape}")
    def longer(tf, R, v, lens):
        h = R.TensorListSplit(tensor=v, element_shape=tf.constant(-1), lengths=held(tf, np.int64(lens)))
        return R.TensorListResize(input_handle=h, size=held(tf, len(lens) + 2))

    for lens in ([2, 3], [1, 1, 1, 1, 1], [5]):
        for lead in ([], [4], np.arange(9)):
            yield graph(lambda tf, R, v: concat(tf, R, longer(tf, R, v, lens), [-1, 3], lead), x, name=f"concat unwritten {lens} {lead}")
        for shape in (-1, [-1, 3], lens[:1] + [3]):
            yield graph(lambda tf, R, v: [R.TensorListPopBack(input_handle=longer(tf, R, v, lens), element_shape=held(tf, shape, tf.int32),
                                                              element_dtype=tf.float32)[1]], x, name=f"pop unwritten {lens} {shape}")
    for own in ([7, 3], [7, -1], [-1, 3]):
        for size in (2, 3):
            for shape, lead in (([-1, 3], []), ([7, 3], []), ([7, 3], [4, 5, 6]), (-1, [4])):
                yield graph(lambda tf, R, v: concat(tf, R, R.TensorListResize(input_handle=R.TensorListSplit(tensor=v, element_shape=held(tf, own), lengths=held(tf, np.int64([2, 3]))),
                            size=held(tf, size)), shape, np.int64(lead)), x, name=f"concat of {own} {size} {shape} {lead}")
    for shape, lead in (([-1, 2], [1, 2]), ([-1, 2], [1]), ([3, 2], []), (-1, [])):
        yield graph(lambda tf, R: concat(tf, R, reserve(tf, -1, 2), shape, np.int64(lead)), name=f"concat unwritten {shape} {lead}")
    yield graph(lambda tf, R, v: [stack(tf, R.TensorListConcatLists(input_a=R.TensorListFromTensor(tensor=v, element_shape=tf.constant(-1)),
                input_b=R.TensorListFromTensor(tensor=v, element_shape=tf.constant(-1)), element_dtype=tf.float32))], x, name="concat lists")
    for a, b in ((-1, [-1]), ([-1], [-1]), ([-1], [3]), ([3], [3]), ([3], -1)):
        yield graph(lambda tf, R, v: [stack(tf, R.TensorListConcatLists(input_a=R.TensorListFromTensor(tensor=v, element_shape=held(tf, a)),
                    input_b=R.TensorListFromTensor(tensor=v, element_shape=held(tf, b)), element_dtype=tf.float32))], x, name=f"concat lists {a} {b}")
    yield graph(lambda tf, R, v: [stack(tf, tf.raw_ops.ZerosLike(x=R.TensorListFromTensor(tensor=v, element_shape=tf.constant(-1))))], x, name="zeros like")


@spec("EmptyTensorList", "TensorListPushBack", "TensorListPopBack", "TensorListLength")
def push(g, op):
    if op != "TensorListPushBack":
        return  # The graphs for TensorListPushBack also test the other ops in the list above.
    def case(shape, most, n, pops, want=-1, dtype="float32"):
        def build(tf, *values):
            R = tf.raw_ops
            h = R.EmptyTensorList(element_shape=tf.constant(shape, tf.int32), max_num_elements=held(tf, most), element_dtype=dtype)
            first = h
            for v in values:
                h = R.TensorListPushBack(input_handle=h, tensor=v)
            out = [R.TensorListLength(input_handle=first)]
            for _ in range(pops):
                h, t = R.TensorListPopBack(input_handle=h, element_shape=held(tf, want), element_dtype=dtype)
                out.append(t)
            return out + [R.TensorListLength(input_handle=h)]

        return Graph(build, *[g.values(dtype, (2,)) for _ in range(n)], name=f"{shape} {most} {n} {pops} {want} {dtype}")

    for dtype in ("float32", "string", "int64"):
        yield case([2], -1, 4, 2, dtype=dtype)
    yield case([2], 3, 4, 0)
    yield case([3], -1, 1, 0)
    yield case(-1, -1, 2, 3)
    yield case(-1, -1, 20, 20)


@spec("TensorListPushBackBatch")
def push_batch(g, op):
    def case(x, shapes, dtype="float32", most=-1, earlier=0, times=1):
        def build(tf, value, *items):
            R = tf.raw_ops
            lists = [R.EmptyTensorList(element_shape=tf.constant(s, tf.int32), max_num_elements=held(tf, most), element_dtype=dtype) for s in shapes]
            for item in items:
                lists = [R.TensorListPushBack(input_handle=h, tensor=item) for h in lists]
            before = after = tf.stack(lists)
            for _ in range(times):
                after = R.TensorListPushBackBatch(input_handles=after, tensor=value)
            again = R.TensorListPushBackBatch(input_handles=before, tensor=value)
            out = [tf.shape(after)]
            for k in range(len(shapes)):
                out.append(R.TensorListStack(input_handle=after[k], element_shape=held(tf, -1), element_dtype=dtype))
                out += [R.TensorListLength(input_handle=v[k]) for v in (before, again)]
            return out

        items = [g.values(dtype, np.shape(x)[1:]) for _ in range(earlier)]
        return Graph(build, x, *items, name=f"{np.shape(x)} {shapes} {dtype} {most} {earlier} {times}")

    for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "complex64", "string"):
        for n in (2, 3, 5):
            for shape in ((), (2,), (2, 3), (0,)):
                for wanted in (-1, list(shape)):
                    yield case(g.values(dtype, (n, *shape)), [wanted] * n, dtype, earlier=g.rng.integers(0, 3), times=g.rng.integers(1, 3))
    x = g.values("float32", (2, 3))
    for shapes in (([3], [-1]), ([3], -1), ([2], [3]), ([3], [2]), ([3], []), ([3], [3, 3])):
        yield case(x, shapes)
    for most in (0, 1, 2):
        yield case(x, [-1, -1], most=most, times=2)
    for bad in (np.float32(1), x[:1], np.concatenate([x, x])):
        yield case(bad, [-1, -1])


@spec("TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3", "TensorArrayScatterV3", "TensorArrayConcatV3", "TensorArraySplitV3", "TensorArraySizeV3", "TensorArrayCloseV3")
def arrays(g, op):
    if op != "TensorArrayWriteV3":
        return  # The graphs for TensorArrayWriteV3 also test the other ops in the list above.
    def graph(fn, *feeds, name="", **attrs):
        def build(tf, *v):
            R = tf.raw_ops
            h, flow = R.TensorArrayV3(size=held(tf, attrs.pop("size", 3)), dtype=tf.float32, **attrs)
            return fn(tf, R, h, flow, *v)

        return Graph(build, *feeds, name=name)

    def write(tf, R, h, flow, i, v):
        return R.TensorArrayWriteV3(handle=h, index=held(tf, i), value=v, flow_in=flow)

    def read(tf, R, h, flow, i):
        return R.TensorArrayReadV3(handle=h, index=held(tf, i), flow_in=flow, dtype=tf.float32)

    def fill(tf, R, h, flow, *v):
        for i, x in enumerate(v):
            flow = write(tf, R, h, flow, i, x)
        return flow

    def gather(tf, R, h, flow, idx, **k):
        return R.TensorArrayGatherV3(handle=h, indices=held(tf, np.array(idx, np.int32)), flow_in=flow, dtype=tf.float32, **k)

    a, b, c = (g.values("float32", (2,)) for _ in range(3))
    short = g.values("float32", (1,))
    yield graph(lambda tf, R, h, f, *v: [read(tf, R, h, fill(tf, R, h, f, *v), 1)], a, b, c, name="read")
    yield graph(lambda tf, R, h, f, *v: [read(tf, R, h, fill(tf, R, h, f, *v), 2)], a, b, name="read unwritten")
    yield graph(lambda tf, R, h, f, *v: [read(tf, R, h, fill(tf, R, h, f, *v), 2)], a, b, name="read zeros", element_shape=[2])
    yield graph(lambda tf, R, h, f, *v: [read(tf, R, h, fill(tf, R, h, f, *v), 7)], a, b, name="read beyond")
    yield graph(lambda tf, R, h, f, *v: [fill(tf, R, h, f, *v)], a, b, c, a, name="write beyond")
    yield graph(lambda tf, R, h, f, *v: [R.TensorArraySizeV3(handle=h, flow_in=fill(tf, R, h, f, *v))], a, b, c, a, name="grow", dynamic_size=True)
    yield graph(lambda tf, R, h, f, v: [write(tf, R, h, write(tf, R, h, f, 0, v), 0, v)], a, name="write twice")
    yield graph(lambda tf, R, h, f, v: [write(tf, R, h, f, -1, v)], a, name="write before")
    yield graph(lambda tf, R, h, f, *v: [fill(tf, R, h, f, *v)], a, short, name="alike", identical_element_shapes=True)
    yield graph(lambda tf, R, h, f: [], name="nothing") if False else graph(lambda tf, R, h, f: [R.TensorArraySizeV3(handle=h, flow_in=f)], name="size")
    yield graph(lambda tf, R, h, f: [R.TensorArraySizeV3(handle=h, flow_in=f)], name="size negative", size=-1)
    for idx in ([0, 1, 2], [2, 0], [0, 0], [], [3]):
        yield graph(lambda tf, R, h, f, *v: [gather(tf, R, h, fill(tf, R, h, f, *v), idx)], a, b, c, name=f"gather {idx}")
        yield graph(lambda tf, R, h, f, *v: [gather(tf, R, h, fill(tf, R, h, f, *v), idx, element_shape=[2])], a, b, c, name=f"gather {idx} shape", clear_after_read=False)
    yield graph(lambda tf, R, h, f, *v: [gather(tf, R, h, fill(tf, R, h, f, *v), [0, 1])], a, short, name="gather uneven")
    yield graph(lambda tf, R, h, f, *v: [gather(tf, R, h, fill(tf, R, h, f, *v), [0, 1], element_shape=[3])], a, b, name="gather other shape")
    x = g.values("float32", (3, 2))
    for idx in ([2, 0, 1], [0, 1], [0, 1, 3], [0, 0, 1], [-1, 0, 1]):
        yield graph(lambda tf, R, h, f, v: [gather(tf, R, h, R.TensorArrayScatterV3(handle=h, indices=held(tf, np.int32(idx)), value=v, flow_in=f), [0, 1, 2])], x, name=f"scatter {idx}")
    for lens in ([1, 1, 1], [0, 3, 0], [1, 1], [1, 2], [2, 2, 1]):
        yield graph(lambda tf, R, h, f, v: list(R.TensorArrayConcatV3(handle=h, flow_in=R.TensorArraySplitV3(handle=h, value=v, lengths=held(tf, np.int64(lens)), flow_in=f), dtype=tf.float32)), x, name=f"split {lens}")
    yield graph(lambda tf, R, h, f: list(R.TensorArrayConcatV3(handle=h, flow_in=f, dtype=tf.float32, element_shape_except0=[2])), name="concat none", size=0)
    yield graph(lambda tf, R, h, f: list(R.TensorArrayConcatV3(handle=h, flow_in=f, dtype=tf.float32)), name="concat none open", size=0)
    yield graph(lambda tf, R, h, f, *v: list(R.TensorArrayConcatV3(handle=h, flow_in=fill(tf, R, h, f, *v), dtype=tf.float32)), np.float32(1), np.float32(2), np.float32(2), name="concat scalars")


@spec("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2")
def stacks(g, op):
    if op != "StackV2":
        return  # The graphs for StackV2 also test the other ops in the list above.
    def case(n, pops):
        def build(tf, *values):
            R = tf.raw_ops
            h = R.StackV2(max_size=held(tf, -1), elem_type=tf.float32)
            last, out = None, []
            for v in values:
                with tf.control_dependencies([last] if last is not None else []):
                    last = R.StackPushV2(handle=h, elem=v)
            for _ in range(pops):
                with tf.control_dependencies([last] if last is not None else []):
                    last = R.StackPopV2(handle=h, elem_type=tf.float32)
                out.append(last)
            return out

        return Graph(build, *[g.values("float32", (2,)) for _ in range(n)], name=f"{n} {pops}")

    yield case(3, 2)
    yield case(20, 20)
    yield case(1, 2)


@spec("AddN")
def sums(g, op):
    """AddN of tensor lists and tensor maps; the spec of AddN in math.py has its tensors of numbers."""
    def filled(tf, dtype, shape, items):
        h = tf.raw_ops.TensorListReserve(element_shape=tf.constant(shape, tf.int32), num_elements=len(items), element_dtype=dtype)
        for i, v in enumerate(items):
            if v is not None:
                h = tf.raw_ops.TensorListSetItem(input_handle=h, index=i, item=v)
        return h

    def unknown(tf, h):
        return tf.compat.v1.placeholder_with_default(h, None)

    def case(dtype, shapes, lists, fetch=None, name="", texts=True):
        flat = [v for items in lists for v in items if v is not None]

        def build(tf, *fed):
            fed = iter(fed)
            handles = [unknown(tf, filled(tf, dtype, s, [None if v is None else next(fed) for v in items])) for s, items in zip(shapes, lists)]
            total = tf.raw_ops.AddN(inputs=handles)
            out = [tf.raw_ops.TensorListLength(input_handle=total), tf.raw_ops.TensorListElementShape(input_handle=total, shape_type=tf.int32)]
            if fetch is None:
                out += [tf.raw_ops.TensorListGetItem(input_handle=total, index=i, element_shape=held(tf, -1), element_dtype=dtype) for i in range(len(lists[0]))]
            return [out, [tf.raw_ops.TensorListLength(input_handle=handles[0]), *out]]

        return Graph(build, *flat, name=f"sum {name} {dtype} {shapes} {[[None if v is None else np.shape(v) for v in items] for items in lists]}", texts=texts)

    for dtype in NUMBERS:
        for n in (1, 2, 3, 5):
            for shape in ((), (3,), (2, 0), (2, 1, 4)):
                yield case(dtype, [-1] * n, [[g.values(dtype, shape) for _ in range(3)] for _ in range(n)])
    x, y = g.values("float32", (2,)), g.values("float32", (3,))
    s = np.float32(1)
    for a, b in (([x, None], [None, x]), ([x, None], [x, x]), ([None, None], [x, None]), ([], [])):
        yield case("float32", [-1, -1], [a, b], name="unwritten")
    for shapes in (([2], [-1]), ([-1], [2]), (-1, [2]), ([2], -1), ([2], [2])):
        yield case("float32", shapes, [[x, x], [x, x]], name="merged")
    for a, b in (([x], [x, x]), ([x, x], [x]), ([x], [y]), ([y], [x]), ([x], [s]), ([s], [x]), ([], [x])):
        yield case("float32", [-1, -1], [a, b], fetch=(), name="refused")
    for shapes in (([2], [3]), ([3], [2]), ([-1, 2], [1, 3]), ([], [1])):
        yield case("float32", shapes, [[None], [None]], fetch=(), name="refused")
        yield case("float32", shapes, [[None], [None, None]], fetch=(), name="refused")
    for dtype in ("bool", "string"):
        yield case(dtype, [-1, -1], [[g.values(dtype, (2,))], [g.values(dtype, (2,))]], fetch=(), name="refused")
    big = np.float32([1e8])
    yield case("float32", [-1] * 4, [[big], [-big], [np.float32([1])], [np.float32([0.5])]], name="order")
    yield case("float32", [-1] * 3, [[np.float32([1])], [big], [-big]], name="order")

    def types(tf, a, b):
        lists = [unknown(tf, filled(tf, d, -1, [v])) for d, v in (("float32", a), ("int32", b))]
        return [tf.raw_ops.TensorListLength(input_handle=tf.raw_ops.AddN(inputs=lists))]

    yield Graph(types, s, np.int32(1), name="sum of two types", texts=True)

    def nested(tf, *v):
        inner = [filled(tf, "float32", -1, [a, None]) for a in v]
        outer = [unknown(tf, filled(tf, tf.variant, -1, [h])) for h in inner]
        total = tf.raw_ops.TensorListGetItem(input_handle=tf.raw_ops.AddN(inputs=outer), index=0, element_shape=held(tf, -1), element_dtype=tf.variant)
        return [tf.raw_ops.TensorListLength(input_handle=total),
                tf.raw_ops.TensorListGetItem(input_handle=total, index=0, element_shape=held(tf, -1), element_dtype=tf.float32)]

    yield Graph(nested, x, x, x, name="sum of nested lists", texts=True)
    yield Graph(nested, x, y, name="sum of nested lists", texts=True)

    def maps(tf, keys, values):
        handles = []
        for own, v in zip(keys, values):
            m = tf.raw_ops.EmptyTensorMap()
            for i, k in enumerate(own):
                m = tf.raw_ops.TensorMapInsert(input_handle=m, key=tf.constant(k), value=v[i])
            handles.append(unknown(tf, m))
        total = tf.raw_ops.AddN(inputs=handles)
        return [tf.raw_ops.TensorMapSize(input_handle=total)] + [
            tf.raw_ops.TensorMapLookup(input_handle=total, key=held(tf, k), value_dtype=tf.float32) for k in sorted(set(sum(keys, [])))]

    for keys in ([[1, 2], [2, 3]], [[], [1]], [[1], []], [[1, 2, 3]] * 3, [[5, 1], [1, 5], [5], [7]]):
        yield Graph(lambda tf, *v: maps(tf, keys, v), *[g.values("float32", (len(k), 2)) for k in keys], name=f"sum of maps {keys}", texts=True)
    yield Graph(lambda tf, *v: maps(tf, [[1], [1]], v), np.float32([[1, 2]]), np.float32([[1]]), name="sum of maps of two shapes", texts=True)

    def mixed(tf, first):
        both = [unknown(tf, filled(tf, "float32", -1, [])), unknown(tf, tf.raw_ops.EmptyTensorMap())]
        return [tf.raw_ops.TensorMapSize(input_handle=tf.raw_ops.AddN(inputs=both[::first]))]

    for first in (1, -1):
        yield Graph(lambda tf: mixed(tf, first), name=f"sum of a list and a map {first}", texts=True)

    def vector(tf, *v):
        h = tf.stack([filled(tf, "float32", -1, [a]) for a in v])
        both = [unknown(tf, h)] * 2
        return [tf.raw_ops.TensorListLength(input_handle=tf.raw_ops.AddN(inputs=both)[0])]

    yield Graph(vector, x, x, name="sum of vectors of lists", texts=True)

    def unlimited(tf, v):
        h = [unknown(tf, tf.raw_ops.EmptyTensorList(element_shape=held(tf, -1), max_num_elements=1, element_dtype=tf.float32)) for _ in range(2)]
        total = tf.raw_ops.AddN(inputs=h)
        for _ in range(3):
            total = tf.raw_ops.TensorListPushBack(input_handle=total, tensor=v)
        return [tf.raw_ops.TensorListLength(input_handle=total)]

    yield Graph(unlimited, x, name="sum has no maximum")


@spec("TensorArrayGradV3", "TensorArrayGradWithShape")
def array_gradients(g, op):
    def case(fn, *feeds, name="", dtype="float32", more=(), source="g", **attrs):
        def build(tf, *v):
            R = tf.raw_ops
            h, flow = R.TensorArrayV3(size=held(tf, 3), dtype=dtype, **attrs)

            class Tools:
                def write(h, flow, i, v):
                    return R.TensorArrayWriteV3(handle=h, index=held(tf, i), value=v, flow_in=flow)

                def read(h, flow, i):
                    return R.TensorArrayReadV3(handle=h, index=held(tf, i), flow_in=flow, dtype=dtype)

                def grad(h, flow, source=source):
                    if op == "TensorArrayGradV3":
                        return R.TensorArrayGradV3(handle=h, flow_in=flow, source=source)
                    return R.TensorArrayGradWithShape(handle=h, flow_in=flow, source=source, shape_to_prepend=held(tf, list(more), tf.int32))

                def size(h, flow):
                    return R.TensorArraySizeV3(handle=h, flow_in=flow)

            return fn(tf, R, Tools, h, flow, *v)

        # Refusals name the array with a number that counts a session's arrays, so that recorded words would differ.
        return Graph(build, *feeds, name=f"{name} {dtype} {list(more)} {attrs}")

    def forward(T, h, flow, v):
        for i, x in enumerate(v):
            flow = T.write(h, flow, i, x)
        return flow

    def added(written, reads):
        """Writes the first values to the forward array, the others in turn to the gradient's element 0, and reads."""
        def fn(tf, R, T, h, flow, *v):
            flow = forward(T, h, flow, v[:written])
            a, flow = T.grad(h, flow)
            for x in v[written:]:
                flow = T.write(a, flow, 0, x)
            return [T.size(a, flow)] + [T.read(a, flow, i) for i in reads]
        return fn

    prefixes = ((),) if op == "TensorArrayGradV3" else ((), (3,), (0,), (2, 1))
    for more in prefixes:
        for dtype in NUMBERS if op == "TensorArrayGradV3" else ("float32", "int64"):
            for shape in ((), (2,), (2, 0, 3)):
                for n in (0, 1, 3):
                    for alike in (False, True)[: 1 + (dtype == "float32")]:
                        values = [g.values(dtype, shape) for _ in range(3)] + [g.values(dtype, (*more, *shape)) for _ in range(n)]
                        yield case(added(3, (0, 1, 2)), *values, name=f"{n} added", dtype=dtype, more=more, identical_element_shapes=alike)
        x, y = [g.values("float32", (2,)) for _ in range(3)], g.values("float32", (*more, 2))
        for written in (0, 1, 2):
            for shape in (None, [2], [None]):
                yield case(added(written, (0,)), *x[:written], name=f"{written} written", more=more, element_shape=shape)
                yield case(added(written, (2,)), *x[:written], name=f"{written} written", more=more, element_shape=shape)
                yield case(added(written, (0,)), *x[:written], y, y, name=f"{written} written and added", more=more, element_shape=shape)
        for bad in (g.values("float32", (3, 3)), np.float32(1)):
            for attrs in ({}, {"identical_element_shapes": True}, {"element_shape": [2]}):
                yield case(added(1, (0,)), x[0], bad, name=f"first of another shape {np.shape(bad)}", more=more, **attrs)
                yield case(added(1, (0,)), x[0], y, bad, name=f"second of another shape {np.shape(bad)}", more=more, **attrs)
                yield case(added(0, (0,)), y, bad, name=f"second of another shape {np.shape(bad)}", more=more, **attrs)
        for dtype, v in (("string", np.array(b"a", object)), ("bool", np.bool_(True))):
            if dtype != "string":  # TensorFlow has no zeros of strings; ours are empty
                yield case(added(1, (0,)), v, name="none added", dtype=dtype)
            yield case(added(1, (0,)), v, v, name="one added", dtype=dtype)
            yield case(added(1, (0,)), v, v, v, name="two added", dtype=dtype)

    x = [g.values("float32", (2,)) for _ in range(3)]

    def twice(again, clear):
        def fn(tf, R, T, h, flow, *v):
            flow = forward(T, h, flow, v)
            a, flow = T.grad(h, flow, "g")
            flow = T.write(a, flow, 0, v[0])
            b, flow = T.grad(h, flow, again)
            flow = T.write(b, flow, 0, v[1])
            return [T.read(b, flow, 0), T.size(b, flow)]
        return case(fn, *x, name=f"another gradient {again}", clear_after_read=clear)

    for again in ("g", "other", ""):
        for clear in (False, True):
            yield twice(again, clear)

    def after_read(tf, R, T, h, flow, *v):
        a, flow = T.grad(h, forward(T, h, flow, v))
        flow = T.write(a, flow, 0, v[0])
        with tf.control_dependencies([T.read(a, flow, 0)]):
            return [T.write(a, flow, 0, v[0])]

    def read_twice(tf, R, T, h, flow, *v):
        a, flow = T.grad(h, forward(T, h, flow, v))
        first = T.read(a, flow, 0)
        with tf.control_dependencies([first]):
            return [first, T.read(a, flow, 0)]

    def source_read(tf, R, T, h, flow, *v):
        flow = forward(T, h, flow, v)
        first = T.read(h, flow, 0)
        with tf.control_dependencies([first]):
            a, grad_flow = T.grad(h, flow)
        return [first, T.read(a, grad_flow, 0), T.read(a, grad_flow, 1)]

    for clear in (False, True):
        yield case(after_read, *x, name="write after read", clear_after_read=clear)
        yield case(read_twice, *x, name="read twice", clear_after_read=clear)
        yield case(source_read, *x, name="forward array read before", clear_after_read=clear)

    def of_gradient(tf, R, T, h, flow, *v):
        a, flow = T.grad(h, forward(T, h, flow, v))
        return [T.grad(a, flow)[1]]

    yield case(of_gradient, *x, name="gradient of a gradient")

    def beyond(which):
        def fn(tf, R, T, h, flow, *v):
            flow = forward(T, h, flow, v)
            a, grad_flow = T.grad(h, flow)
            with tf.control_dependencies([a]):
                return [T.write((h, a)[which], (flow, grad_flow)[which], 5, v[0])]
        return fn

    for which in (0, 1):
        for grows in (False, True):
            yield case(beyond(which), *x, name=f"write beyond the end {which}", dynamic_size=grows)

    def closed(which, then):
        def fn(tf, R, T, h, flow, *v):
            flow = forward(T, h, flow, v)
            a, grad_flow = (h, flow) if which == "forward first" else T.grad(h, flow)
            with tf.control_dependencies([a, grad_flow]):
                close = R.TensorArrayCloseV3(handle=a if which == "gradient" else h)
            with tf.control_dependencies([close]):
                return [T.size(a, grad_flow) if then == "size" else T.size(*T.grad(h, tf.identity(grad_flow)))]
        return case(fn, *x, name=f"closed {which} {then}")

    for which in ("forward first", "forward", "gradient"):
        for then in ("size", "grad"):
            yield closed(which, then)

    def scattered(tf, R, T, h, flow, *v):
        a, flow = T.grad(h, forward(T, h, flow, v[:3]))
        for _ in range(2):
            flow = R.TensorArrayScatterV3(handle=a, indices=held(tf, [0, 0, 1]), value=v[3], flow_in=flow)
        return [R.TensorArrayGatherV3(handle=a, indices=held(tf, [2, 0, 1]), flow_in=flow, dtype=tf.float32)]

    yield case(scattered, *x, g.values("float32", (3, 2)), name="scattered")
    yield case(lambda tf, R, T, h, flow: [T.grad(h, flow)[1]], name="flow")
    if op == "TensorArrayGradWithShape":
        for more in ((-1,), (-2, 3)):
            yield case(added(3, (1,)), *x, name="refused", more=more)
        yield case(lambda tf, R, T, h, flow, *v: [T.read(R.TensorArrayGradWithShape(handle=h, flow_in=forward(T, h, flow, v), source="g", shape_to_prepend=held(tf, [[3]], tf.int32))[0], flow, 0)],
                   *x, name="shape of rank 2")
