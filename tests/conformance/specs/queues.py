"""Test cases for queues with graphs that run several times in one session. No step waits, because a model of the queue
chooses steps that can run immediately. tests/e2e/test_queues.py and unit tests cover steps that wait."""

import itertools

from spec import *

NUMBER = itertools.count()
MAKERS = ("FIFOQueueV2", "PaddingFIFOQueueV2", "PriorityQueueV2", "RandomShuffleQueueV2")
OPS = ("QueueEnqueueV2", "QueueEnqueueManyV2", "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2",
       "QueueSizeV2", "QueueIsClosedV2", "QueueCloseV2")
TYPES = PLAIN + ["string"]


def make(tf, op, types, shapes, legacy=False, **attrs):
    """Makes a queue. `types` are the types of an item's components. If the queue has priorities, the first component is
    the priority."""
    R = tf.raw_ops
    attrs.setdefault("shared_name", f"queue{next(NUMBER)}")
    if "Priority" in op:
        types, shapes = types[1:], shapes[1:]
    maker = op[:-2] if legacy else op
    return getattr(R, maker)(component_types=types, shapes=shapes, **attrs)


def ops(tf, legacy=False):
    """Maps short names to the queue ops. With `legacy`, the ops take ref handles, otherwise resource handles."""
    end = "" if legacy else "V2"
    names = dict(put="QueueEnqueue", put_many="QueueEnqueueMany", take="QueueDequeue", take_many="QueueDequeueMany",
                 take_up_to="QueueDequeueUpTo", size="QueueSize", is_closed="QueueIsClosed", close="QueueClose")
    return {k: getattr(tf.raw_ops, v + end) for k, v in names.items()}


def items(g, dtype, shape, n, op):
    """Returns the components of n items, stacked."""
    values = [g.values(dtype, (n, *shape)), np.arange(n, dtype=np.int32)]
    return [g.rng.integers(-2, 3, n)] + values if "Priority" in op else values


def program(g, op, dtype, shape, legacy):
    """A random program of steps that never wait."""
    types = (["int64"] if "Priority" in op else []) + [dtype, "int32"]
    shapes = ([[]] if "Priority" in op else []) + [list(shape), []]
    capacity, least = int(g.rng.choice([4, 9, -1])), int(g.rng.choice([0, 2])) if "Random" in op else 0
    attrs = dict(min_after_dequeue=least, seed=5, seed2=int(g.rng.integers(1, 99))) if "Random" in op else {}
    n_items = [int(n) for n in g.rng.integers(1, 4, 12)]
    data = items(g, dtype, shape, sum(n_items), op)
    plan, size, closed, at = [], 0, False, 0
    for n in n_items:
        room = (capacity if capacity >= 0 else 99) - size
        free = size if closed else size - least
        what = g.rng.choice(["put", "put", "put_many", "put_many", "take", "take_many", "take_up_to", "close"],
                            p=[.2, .15, .2, .1, .1, .1, .1, .05])
        if what == "put" and (closed or room >= 1):
            plan.append(("put", at, 1))
            size += not closed
        elif what == "put_many" and (closed or room >= n):
            plan.append(("put_many", at, n))
            size += 0 if closed else n
        elif what == "take" and (closed or free >= 1):
            plan.append(("take", 0, 1))
            size -= size > 0
        elif what in ("take_many", "take_up_to") and (closed or free >= n):
            plan.append((what, 0, n))
            size -= n if size >= n else size if what == "take_up_to" else 0
        elif what == "close":
            plan.append((what, 0, 0))
            closed = True
        else:
            continue
        at = (at + n) % (sum(n_items) - 3)
    name = f"queue{next(NUMBER)}"

    def build(tf, *inputs):
        o = ops(tf, legacy)
        h = make(tf, op, types, shapes, legacy, capacity=capacity, shared_name=name, **attrs)
        steps = []
        for what, first, n in plan:
            if what == "put":
                steps.append([o["put"](handle=h, components=[x[first] for x in inputs])])
            elif what == "put_many":
                steps.append([o["put_many"](handle=h, components=[x[first:first + n] for x in inputs])])
            elif what == "take":
                steps.append(list(o["take"](handle=h, component_types=types)))
            elif what == "close":
                steps.append([o["close"](handle=h)])
            else:
                steps.append(list(o[what](handle=h, n=n, component_types=types)))
        return steps + [[o["size"](handle=h), o["is_closed"](handle=h)]]

    return Graph(build, *data, name=f"{op} {dtype} {shape} {plan}")


@spec(*MAKERS)
def queues(g, op):
    # A session accepts only a few hundred sets of fetches, so each op has few programs.
    for k, dtype in enumerate(TYPES):
        # TensorFlow's process crashes if an item has no elements
        yield program(g, op, dtype, ((), (3,), (2, 1))[k % 3], k % 2 == 0)
    for k in range(20):
        yield program(g, op, "int32", (2,), k % 2 == 0)


def one(op, types, shapes, steps, *feeds, name, **attrs):
    shared = f"queue{next(NUMBER)}"
    if "Random" in op:
        attrs["seed"] = 3

    def build(tf, *x):
        h = make(tf, op, types, shapes, shared_name=shared, **attrs)
        return [[y] if not isinstance(y, (list, tuple)) else list(y) for y in steps(ops(tf), h, *x)]

    return Graph(build, *feeds, name=name)


@spec(*OPS)
def refusals(g, op):
    if op != "QueueEnqueueV2":
        return  # the graphs for QueueEnqueueV2 also test the other ops of OPS
    f, i = np.float32, np.int32
    types, shapes = ["float32", "int32"], [[2], []]
    for a, b in ((f([1]), i(3)), (f([1, 2]), i([3])), (f([[1, 2]]), i(3)), (f([[1, 2]]), i([1, 2])), (f([1, 2]), i(4)),
                 (f([[1, 2], [3, 4]]), i([1, 2])), (np.zeros((0, 2), f), np.zeros(0, i))):
        for maker in ("FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2"):
            for what in ("put", "put_many"):
                def steps(o, h, x, y, what=what):
                    return [o[what](handle=h, components=[x, y]), o["size"](handle=h)]
                yield one(maker, types, shapes, steps, a, b, name=f"{maker} {what} {a.shape} {b.shape}")
    for n in (-1, 0):
        for what in ("take_many", "take_up_to"):
            for maker in MAKERS[:2]:
                def steps(o, h, n, what=what):
                    return [o[what](handle=h, n=n, component_types=types)]
                yield one(maker, types, [[2], []] if maker == MAKERS[0] else [[None, 2], []], steps, i(n), name=f"{what} {n}")
    for have in (["float32"], ["float32", "float32"], ["float32", "int32", "int32"]):
        def steps(o, h, x):
            return [o["take"](handle=h, component_types=have)]
        yield one("FIFOQueueV2", types, shapes, steps, f(1), name=f"take {have}")

        def steps(o, h, x):
            return [o["take_many"](handle=h, n=0, component_types=have)]
        yield one("FIFOQueueV2", types, shapes, steps, f(1), name=f"take_many {have}")

        def steps(o, h, x):
            return [o["put"](handle=h, components=[x] * len(have))]
        yield one("FIFOQueueV2", types, shapes, steps, f([1, 2]), name=f"put {have}")

    def steps(o, h, x):
        return [o["put"](handle=h, components=[x]), o["put_many"](handle=h, components=[x]),
                o["take"](handle=h, component_types=["float32"]), o["take"](handle=h, component_types=["float32"]),
                o["take_many"](handle=h, n=1, component_types=["float32"])]
    for maker in ("FIFOQueueV2", "RandomShuffleQueueV2"):
        for x in (f([1]), f([[1]])):
            yield one(maker, ["float32"], [], steps, x, name=f"without shapes {maker}")
    for cancels in (False, True):
        def steps(o, h, x):
            close = o["close"](handle=h, cancel_pending_enqueues=cancels)
            return [o["put_many"](handle=h, components=[x]), close, close, o["put"](handle=h, components=[x[0]]),
                    o["take_many"](handle=h, n=3, component_types=["float32"]), o["size"](handle=h),
                    o["take_up_to"](handle=h, n=3, component_types=["float32"]), o["is_closed"](handle=h),
                    o["take_up_to"](handle=h, n=3, component_types=["float32"]), o["take"](handle=h, component_types=["float32"])]
        for maker in ("FIFOQueueV2", "PaddingFIFOQueueV2", "RandomShuffleQueueV2"):
            yield one(maker, ["float32"], [[]], steps, f([1, 2]), name=f"closed {maker} {cancels}")


@spec("PaddingFIFOQueueV2")
def padding(g, op):
    for dtype in TYPES:
        sizes = [(1, 2), (3, 2), (0, 2), (2, 2)]
        data = [g.values(dtype, s) for s in sizes]

        def steps(o, h, *x):
            types = [dtype]
            return ([o["put"](handle=h, components=[v]) for v in x] +
                    [o["take_many"](handle=h, n=3, component_types=types), o["take"](handle=h, component_types=types)])
        yield one(op, [dtype], [[None, 2]], steps, *data, name=f"padded {dtype}")
        if dtype != "string":
            def steps(o, h, *x):
                return [o["put"](handle=h, components=[v]) for v in x] + [o["take_many"](handle=h, n=2, component_types=[dtype])]
            yield one(op, [dtype], [[None, None, 3]], steps, g.values(dtype, (2, 1, 3)), g.values(dtype, (1, 4, 3)),
                      name=f"padded twice {dtype}")


@spec("FIFOQueueV2", "PaddingFIFOQueueV2", "PriorityQueueV2", "RandomShuffleQueueV2")
def makers(g, op):
    tries = [dict(component_types=["float32", "float32"], shapes=[[]]), dict(component_types=["float32"], shapes=[]),
             dict(component_types=["float32"], shapes=[[None]]), dict(component_types=["float32"], shapes=[None]),
             dict(component_types=["float32"], shapes=[[2]], container="a b"),
             dict(component_types=["float32"], shapes=[[2]], container="ab"),
             dict(component_types=["float32"], shapes=[[2]], capacity=0), dict(component_types=["float32"], shapes=[[2]], capacity=-7)]
    if op == "RandomShuffleQueueV2":
        tries += [dict(component_types=["float32"], capacity=5, min_after_dequeue=m) for m in (7, 5, 4, 0, -1)]
    for attrs in tries:
        def build(tf, x):
            return [[tf.raw_ops.QueueSizeV2(handle=getattr(tf.raw_ops, op)(**attrs))]]
        yield Graph(build, np.float32(0), name=f"{op} {attrs}")
    others = [dict(op=m, component_types=["float32"], shapes=[[2]]) for m in MAKERS]
    others += [dict(op=op, component_types=["float32"], shapes=[[2]], capacity=5), dict(op=op, component_types=["int32"], shapes=[[2]]),
               dict(op=op, component_types=["float32"], shapes=[[3]])]
    for second in others:
        shared = f"queue{next(NUMBER)}"

        def build(tf, x):
            attrs = dict(second)
            maker = getattr(tf.raw_ops, attrs.pop("op"))
            a = getattr(tf.raw_ops, op)(component_types=["float32"], shapes=[[2]], shared_name=shared)
            return [[tf.raw_ops.QueueSizeV2(handle=a)], [tf.raw_ops.QueueSizeV2(handle=maker(shared_name=shared, **attrs))]]
        yield Graph(build, np.float32(0), name=f"{op} then {second}")


@spec("Stage", "Unstage", "StagePeek", "StageSize", "StageClear")
def stages(g, op):
    if op != "Stage":
        return  # the graphs for Stage also test the other ops in the list above
    for dtype in TYPES:
        for limits in ({}, dict(capacity=3), dict(capacity=9, memory_limit=4000)):
            shared = f"stage{next(NUMBER)}"

            def build(tf, x, y):
                R, where = tf.raw_ops, dict(shared_name=shared, **limits)
                types = dict(dtypes=[dtype, "int32"])
                put = R.Stage(values=[x, y], **where)
                size = R.StageSize(**types, **where)
                peek = R.StagePeek(index=1, **types, **where)
                return [[put], [put], [size], list(peek), list(R.Unstage(**types, **where)), [size],
                        [R.StageClear(**types, **where)], [size], [put], list(R.Unstage(**types, **where))]
            yield Graph(build, g.values(dtype, (2, 3)), np.int32([1, 2]), name=f"stage {dtype} {limits}")
    for index in ([0], [0, 0]):  # TensorFlow waits forever for a negative index
        def build(tf, x, i):
            where = dict(shared_name=shared, dtypes=["float32"])
            return [[tf.raw_ops.Stage(values=[x], shared_name=shared)], list(tf.raw_ops.StagePeek(index=i, **where))]
        shared = f"stage{next(NUMBER)}"
        yield Graph(build, np.float32(1), np.int32(index), name=f"peek {index}")
    for dtypes in (["float32", "float32"], ["int32"]):
        shared = f"stage{next(NUMBER)}"

        def build(tf, x):
            return [[tf.raw_ops.Stage(values=[x], shared_name=shared)],
                    list(tf.raw_ops.Unstage(shared_name=shared, dtypes=dtypes)), [tf.raw_ops.StageSize(shared_name=shared, dtypes=dtypes)]]
        yield Graph(build, np.float32(1), name=f"unstage {dtypes}")
    shared = f"stage{next(NUMBER)}"

    def build(tf, x):
        where = dict(shared_name=shared, memory_limit=10)
        return [[tf.raw_ops.Stage(values=[x], **where)], [tf.raw_ops.StageSize(dtypes=["float32"], **where)]]
    yield Graph(build, np.zeros(3, np.float32), name="beyond the memory limit")


@spec("MutexV2", "MutexLock", "ConsumeMutexLock")
def mutexes(g, op):
    if op != "MutexV2":
        return  # the graph for MutexV2 also tests the other ops in the list above
    shared = f"mutex{next(NUMBER)}"

    def build(tf, x):
        R, locks = tf.raw_ops, []
        for _ in range(3):
            lock = R.MutexLock(mutex=R.MutexV2(shared_name=shared))
            with tf.control_dependencies([lock]):
                y = x + 1
            with tf.control_dependencies([y]):
                locks.append([y, R.ConsumeMutexLock(mutex_lock=lock)])
        return [*locks, *locks]
    yield Graph(build, np.float32(1), name="a mutex, locked and released")


@spec("Stack", "StackPush", "StackPop", "StackClose")
def ref_stacks(g, op):
    if op != "Stack":
        return  # the graphs for Stack also test the other ops in the list above
    for dtype in TYPES:
        def build(tf, x, y):
            R = tf.raw_ops
            h = R.Stack(elem_type=dtype)
            first = R.StackPush(handle=h, elem=x)
            with tf.control_dependencies([first]):
                second = R.StackPush(handle=h, elem=y)
            with tf.control_dependencies([second]):
                a = R.StackPop(handle=h, elem_type=dtype)
            with tf.control_dependencies([a]):
                b = R.StackPop(handle=h, elem_type=dtype)
            with tf.control_dependencies([b]):
                return [[first, second, a, b, R.StackClose(handle=h)]]
        yield Graph(build, g.values(dtype, (2,)), g.values(dtype, (3, 1)), name=f"stack {dtype}")


@spec("Barrier", "BarrierInsertMany", "BarrierTakeMany", "BarrierClose", "BarrierReadySize", "BarrierIncompleteSize")
def barriers(g, op):
    if op != "Barrier":
        return  # the graphs for Barrier also test the other ops in the list above

    def flat(taken):
        return [taken.indices, taken.keys, *taken.values]

    def case(steps, *feeds, types=("float32", "int32"), shapes=((2,), ()), name, texts=True, **attrs):
        shared = f"barrier{next(NUMBER)}"

        def build(tf, *x):
            R = tf.raw_ops
            h = R.Barrier(component_types=list(types), shapes=[s if s is None else list(s) for s in shapes], shared_name=shared, **attrs)
            size = [R.BarrierReadySize(handle=h), R.BarrierIncompleteSize(handle=h)]
            put = lambda k, keys, values: [R.BarrierInsertMany(handle=h, component_index=k, keys=keys, values=values)]
            take = lambda n, have=types, **more: flat(R.BarrierTakeMany(handle=h, num_elements=n, component_types=list(have), **more))
            close = lambda **more: [R.BarrierClose(handle=h, **more)]
            return steps(put, take, close, size, *x)

        return Graph(build, *feeds, name=name, texts=texts)

    keys = lambda *k: np.array([w.encode() for w in k] + [None], object)[:-1]
    for dtype in TYPES:
        for shape in ((), (3,), (2, 1)):
            def steps(put, take, close, size, k, v, n):
                return [put(0, k[:4], v[:4]), size, put(1, k[1:3], n[1:3]), size, take(1), put(1, k[3:], n[3:]), size, put(0, k[4:], v[4:]), take(2), size,
                        put(1, k[:1], n[:1]), close(), size, take(9, allow_small_batch=True), take(1)]
            yield case(steps, keys("a", "", "a long key of many bytes", "b", "c", "d"), g.values(dtype, (6, *shape)), np.arange(6, dtype=np.int32),
                       types=(dtype, "int32"), shapes=(shape, ()), name=f"barrier {dtype} {shape}")
    for k in range(12):
        names = keys(*[f"k{i}" for i in range(9)])

        def steps(put, take, close, size, k, later, v, n):
            first, second = [], []
            for at in range(0, 9, 3):
                first.append(put(0, k[at:at + 3], v[at:at + 3]))
                second.append(put(1, later[at:at + 3], n[at:at + 3]))
            return [*first, *second, take(4), size, take(5), size]

        yield case(steps, names, g.rng.permutation(names), g.values("float32", (9, 2)), np.arange(9, dtype=np.int32), name=f"order {k}")
    f, i = np.float32, np.int32

    def steps(put, take, close, size, k, v, n):
        return [put(0, k[:2], v), put(0, k[:1], v[:1]), put(2, k[:1], v[:1]), put(1, k[:1], v[:1]), put(1, k[:0], n[:0]), size, take(0), take(1, timeout_ms=9),
                take(1, ["float32"]), take(1, ["int32", "float32"]), take(n), put(1, k, n), size, put(1, k[:1], n[:1]), take(0), close(), put(0, k[2:], v[:1]),
                put(0, keys("x"), v[:1]), take(1), close(), close(cancel_pending_enqueues=True), take(0), put(0, k[:1], v[:1]), close()]
    yield case(steps, keys("a", "b", "c"), f([[1, 2], [3, 4]]), i([5, 6, 7]), name="refusals")

    def steps(put, take, close, size, k, v, n):
        return [put(0, k, v), put(1, keys("a", "x", "x"), n), size, put(1, k[1:2], n[:1]), take(1), put(0, keys("n"), v[:1]), put(1, keys("n"), n[:1]), take(1),
                size, put(0, keys("a", "a"), v[:2]), size]
    yield case(steps, keys("a", "b", "c"), f([[1, 2], [3, 4], [5, 6]]), i([5, 6, 7]), name="a key twice")

    def steps(put, take, close, size, k, v, n):
        return [put(0, k, v), close(cancel_pending_enqueues=True), size, put(1, k[:1], n[:1]), take(1), take(1, allow_small_batch=True), take(0), close(),
                close(cancel_pending_enqueues=True)]
    yield case(steps, keys("a", "b"), f([[1, 2], [3, 4]]), i([5, 6]), name="cancelled")

    def steps(put, take, close, size, k, v, n):
        return [put(0, k, v), close(), put(1, k[:1], n[:1]), put(1, keys("b", "z"), n), size, take(5), take(1), close(), put(1, k[1:], n[1:]), take(1), size]
    yield case(steps, keys("a", "b"), f([[1, 2], [3, 4]]), i([5, 6]), name="closed")

    def steps(put, take, close, size, k, v, n):
        return [put(0, k[None, :2], v), put(1, k[:1], n), put(1, k[1], n[1]), put(1, k[2:], n[2]), put(1, k[:0], n), size, take(2), put(0, k[2], v[1:]), take(1)]
    yield case(steps, keys("a", "b", "c"), f([[1, 2], [3, 4]]), i([5, 6, 7]), name="other shapes")
    for attrs in (dict(shapes=((2,),)), dict(shapes=((None,), ())), dict(shapes=(None, ())), dict(shapes=()), dict(capacity=5), dict(capacity=0),
                  dict(capacity=-2), dict(container="a b"), dict(container="ab"), dict(shapes=((0,), (3, 0)))):
        def steps(put, take, close, size, x):
            return [size]
        yield case(steps, f(0), name=f"maker {attrs}", **attrs)
    for second in (dict(component_types=["int32", "int32"], shapes=[[2], []]), dict(component_types=["float32"], shapes=[[2]]),
                   dict(component_types=["float32", "int32"], shapes=[[3], []]), dict(component_types=["float32", "int32"], shapes=[None, []]),
                   dict(component_types=["float32", "int32"], shapes=[[2], []])):
        shared = f"barrier{next(NUMBER)}"

        def build(tf, x):
            R = tf.raw_ops
            a, b = (R.Barrier(shared_name=shared, **m) for m in (dict(component_types=["float32", "int32"], shapes=[[2], []]), second))
            return [[R.BarrierReadySize(handle=a)], [R.BarrierReadySize(handle=b)]]
        yield Graph(build, f(0), name=f"shared {second}", texts=True)
