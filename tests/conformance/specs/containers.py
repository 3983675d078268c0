"""Tests staging areas with keys and conditional accumulators. Each graph runs several times in one session.
All steps can run immediately. tests/e2e/models/test_queues.py tests steps that wait."""

import itertools

from spec import *

NUMBER = itertools.count()
TYPES = PLAIN + ["string"]
NAMES = ("Stage", "Peek", "Unstage", "UnstageNoKey", "Size", "IncompleteSize", "Clear")
OPS = [prefix + "Map" + name for prefix in ("", "Ordered") for name in NAMES]
DTYPES = ("float32", "float64", "float16")
DENSE = ("ApplyGradient", "NumAccumulated", "SetGlobalStep", "TakeGradient")
REDUCTIONS = ("MEAN", "SUM")


class Area:
    """The ops of one staging area."""

    def __init__(self, tf, op, dtypes, shared, limits):
        self.op = lambda name: getattr(tf.raw_ops, ("Ordered" if "Ordered" in op else "") + "Map" + name)
        self.dtypes, self.where = dtypes, dict(shared_name=shared, **limits)

    def put(self, key, indices, values):
        return [self.op("Stage")(key=np.int64(key), indices=np.int32(indices), values=values, dtypes=self.dtypes, **self.where)]

    def peek(self, key, indices, dtypes=None):
        return list(self.op("Peek")(key=np.int64(key), indices=np.int32(indices), dtypes=dtypes or self.dtypes, **self.where))

    def take(self, key, indices, dtypes=None):
        return list(self.op("Unstage")(key=np.int64(key), indices=np.int32(indices), dtypes=dtypes or self.dtypes, **self.where))

    def take_any(self, indices, dtypes=None):
        key, values = self.op("UnstageNoKey")(indices=np.int32(indices), dtypes=dtypes or self.dtypes, **self.where)
        return [key, *values]

    def sizes(self):
        return [self.op(name)(dtypes=self.dtypes, **self.where) for name in ("Size", "IncompleteSize")]

    def clear(self):
        return [self.op("Clear")(dtypes=self.dtypes, **self.where)]


def graph(op, dtypes, steps, *feeds, name, **limits):
    shared = f"map{next(NUMBER)}"

    def build(tf, *x):
        return steps(Area(tf, op, dtypes, shared, limits), *x)
    return Graph(build, *feeds, name=name, texts=True)


@spec(*OPS)
def whole(g, op):
    if "MapStage" not in op:
        return  # the graphs for MapStage and OrderedMapStage also test the other ops of OPS
    for k, dtype in enumerate(TYPES):
        limits = ({}, dict(capacity=3), dict(capacity=9))[k % 3]

        def steps(a, x, y):
            two = [dtype, "int32"]
            return [a.put(5, [0, 1], [x, y]), a.put(3, [0, 1], [x[1:], y]), a.put(-9, [0], [x[:1]]), a.sizes(),
                    a.put(-9, [1], [y]), a.sizes(), a.peek(3, [0, 1]), a.take(3, [1], ["int32"]), a.peek(3, [0], [dtype]),
                    a.peek(3, [0, 1]), a.take(3, [0], [dtype]), a.sizes(), a.take_any([0], [dtype]), a.take_any([1], ["int32"]),
                    a.take_any([0, 1], two), a.sizes(), a.put(4, [0, 1], [x, y]), a.put(4, [1], [y]), a.clear(), a.sizes()]
        yield graph(op, [dtype, "int32"], steps, g.values(dtype, (2, 3)), np.int32([1, 2]), name=f"{dtype} {limits}", **limits)


@spec("MapStage", "OrderedMapStage")
def order(g, op):
    """Which item of an unordered map is first depends on all earlier insertions and removals."""
    for n in (3, 13, 14, 15, 29, 31, 62):
        for few in (False, True):
            keys = g.rng.permutation(3 * n)[:n] * (13 if few else 1) if n % 2 else g.rng.integers(-2**63, 2**63, n)
            late = [int(k) for k in g.rng.permutation(keys)[:n // 3]]

            def build(tf, x):
                a = Area(tf, op, ["float32"], shared, {})

                def chained(calls):
                    """Returns the fetches of a step that makes the calls in the given order."""
                    last, fetched = [], []
                    for call in calls:
                        with tf.control_dependencies(last):
                            out = call()
                        last, fetched = [out[0]], fetched + out
                    return fetched
                first = [lambda i=i, k=k: a.put(int(k), [0], [x + float(i)]) for i, k in enumerate(keys)]
                gone = [lambda k=k: a.take(k, [0]) for k in late]
                again = [lambda i=i, k=k: a.put(k, [0], [x - float(i)]) for i, k in enumerate(late)]
                some, rest = ([lambda: a.take_any([0])] * m for m in (n // 4, n - n // 4))
                return [chained(first), chained(gone + some), chained(again + rest), a.sizes()]
            shared = f"map{next(NUMBER)}"
            yield Graph(build, np.float32(1), name=f"order {n} {few}")


@spec("MapStage", "OrderedMapStage")
def refusals(g, op):
    two, x, y = ["float32", "int32"], np.float32([1, 2]), np.int32(3)
    for key, indices in ((1, [1, 0]), (1, [0, 0]), (1, [0, 2]), (1, [-1]), (1, [0]), (1, []), ([1], [0, 1]), ([], [0, 1]),
                         ([1, 2], [0, 1]), ([[7]], [0, 1]), (1, [[0, 1]]), (1, 0), (1, 1), (1, [0, 1, 2])):
        def steps(a, x, y):
            return [a.put(key, indices, [x, y, x]), a.sizes(), a.put(key, indices, [x, y, x]), a.sizes()]
        yield graph(op, two, steps, x, y, name=f"stage {key} {indices}")
    for key, indices, dtypes in ((1, [1, 0], ["int32", "float32"]), (1, [0, 0], ["float32"] * 2), (1, [0, 2], two), (1, [-1], ["float32"]),
                                 (1, [], ["float32"]), (1, [0], two), (1, [0, 1], ["float32"] * 2), (1, [1], ["float32"]), (1, 1, ["int32"]),
                                 ([1], [0], ["float32"]), ([], [0], ["float32"]), ([1, 1], [0], ["float32"]), (1, [[0, 1]], two)):
        for what in ("peek", "take"):
            def steps(a, x, y):
                return [a.put(1, [0, 1], [x, y]), getattr(a, what)(key, indices, dtypes), a.sizes(), a.peek(1, [1], ["int32"])
                        if what == "peek" else a.sizes()]
            yield graph(op, two, steps, x, y, name=f"{what} {key} {indices} {dtypes}")
    for indices, dtypes in (([1, 0], two), ([], ["float32"]), ([0], two), ([0], ["int32"]), ([0, 1], ["int32"] * 2)):
        def steps(a, x, y):
            return [a.put(1, [0, 1], [x, y]), a.take_any(indices, dtypes), a.sizes()]
        yield graph(op, two, steps, x, y, name=f"take any {indices} {dtypes}")

    def steps(a, x, y):
        return [a.put(1, [0], [x]), a.put(1, [0], [x]), a.put(1, [1], [x]), a.sizes(), a.peek(1, [0], ["float32"]), a.peek(1, [1], ["int32"]),
                a.put(1, [1], [y]), a.put(1, [0], [x]), a.sizes(), a.put(2, [0], [x]), a.put(2, [0, 1], [x, y]), a.sizes(),
                a.put(2, [0, 1], [x[:1], y]), a.peek(2, [0, 1]), a.put(2, [1], [y]), a.sizes()]
    yield graph(op, two, steps, x, y, name="stage twice")

    def steps(a, x, y):
        return [a.put(4, [0], [x]), a.put([4], [1], [y]), a.take_any([0, 1], two), a.put([[5]], [0, 1], [x, y]), a.put(5, [0, 1], [x, y]),
                a.peek(5, [1], ["int32"]), a.take_any([0, 1], two), a.put([6], [0], [x]), a.put(6, [1], [y]), a.take_any([0, 1], two)]
    yield graph(op, two, steps, x, y, name="keys of several shapes")


@spec("MapStage", "OrderedMapStage")
def limits(g, op):
    four = np.float32([1])

    def steps(a, x):
        return [a.put(1, [0, 1], [x, x]), a.put(2, [0, 1], [x, np.zeros(6, np.float32)]), a.put(3, [0], [np.zeros(6, np.float32)]),
                a.put(4, [0, 1], [np.zeros(9, np.float32), x]), a.sizes(), a.put(5, [0], [x]), a.put(5, [1], [x]), a.put(6, [0], [x]),
                a.sizes(), a.take(4, [1], ["float32"]), a.put(6, [1], [x]), a.sizes(), a.clear(), a.put(6, [0, 1], [x, x]), a.sizes()]
    yield graph(op, ["float32", "float32"], steps, four, name="memory", memory_limit=20)

    def steps(a, x):
        return [a.put(1, [0, 1], [x, x]), a.put(2, [0], [x]), a.put(2, [1], [x]), a.sizes(), a.take(1, [0, 1]), a.take(2, [0, 1]), a.sizes()]
    yield graph(op, ["float32", "float32"], steps, four, name="capacity", capacity=1)
    kind = "Ordered" if "Ordered" in op else ""
    for attrs in (dict(container="a b"), dict(container="ab"), dict(dtypes=[])):
        def build(tf, x):
            return [[getattr(tf.raw_ops, kind + "MapSize")(**{"dtypes": ["float32"], **attrs})]]
        yield Graph(build, np.float32(0), name=str(attrs), texts=True)


class Dense:
    """The ops of one dense accumulator. `wild` returns a number whose shape TensorFlow does not know while it builds the
    graph."""

    def __init__(self, tf, op, dtype, **attrs):
        kind = "Resource" if op.startswith("Resource") else ""
        self.op = lambda name: getattr(tf.raw_ops, kind + name)
        self.tf, self.dtype = tf, dtype
        self.handle = self.op("ConditionalAccumulator")(dtype=dtype, **attrs)

    def wild(self, x):
        return self.tf.compat.v1.placeholder_with_default(x, None)

    def apply(self, gradient, step=0):
        return [self.op("AccumulatorApplyGradient")(handle=self.handle, local_step=self.wild(np.int64(step)), gradient=gradient)]

    def take(self, n):
        return [self.op("AccumulatorTakeGradient")(handle=self.handle, num_required=self.wild(np.int32(n)), dtype=self.dtype)]

    def number(self):
        return [self.op("AccumulatorNumAccumulated")(handle=self.handle)]

    def set_step(self, step):
        return [self.op("AccumulatorSetGlobalStep")(handle=self.handle, new_global_step=self.wild(np.int64(step)))]


def dense_graph(op, dtype, steps, *feeds, name, **attrs):
    attrs = {"shape": None, "shared_name": f"accumulator{next(NUMBER)}", **attrs}

    def build(tf, *x):
        return steps(Dense(tf, op, dtype, **attrs), *x)
    return Graph(build, *feeds, name=f"{name} {dtype} {attrs}", texts=True)


@spec("ConditionalAccumulator", "ResourceConditionalAccumulator",
      *(kind + "Accumulator" + name for kind in ("", "Resource") for name in DENSE))
def dense(g, op):
    if "Conditional" not in op:
        return  # the graphs for the two ops that make accumulators also test all ops that use accumulators
    for dtype in DTYPES:
        for reduction in REDUCTIONS:
            for shape in ((), (3,), (2, 0), (33,), (2, 1, 3, 2)):
                def steps(a, x, y, z):
                    return [a.number(), a.apply(x), a.apply(y), a.apply(z), a.number(), a.take(2), a.number(), a.apply(x), a.number(),
                            a.apply(x, 1), a.apply(z, 7), a.take(1), a.apply(y, 2), a.take(1), a.number()]
                yield dense_graph(op, dtype, steps, *(g.values(dtype, shape) for _ in range(3)), name="sums", reduction_type=reduction,
                                  shape=list(shape) if len(shape) % 2 else None)


@spec("ConditionalAccumulator", "ResourceConditionalAccumulator")
def dense_refusals(g, op):
    two, three = np.float32([1, 2]), np.float32([1, 2, 3])
    for shape in (None, [2], [None], [None, 2], [], [0]):
        for x in (two, three, np.float32(4), np.float32([[1, 2]]), np.float32([])):
            def steps(a, x, y):
                return [a.apply(x), a.number(), a.apply(y), a.number(), a.apply(y, -1), a.number()]
            yield dense_graph(op, "float32", steps, x, two, name=f"shape {x.shape}", shape=shape)

    def steps(a, x):
        # TensorFlow's process crashes if num_required or a step has several elements.
        return [a.apply(x), a.take(0), a.take(-3), a.set_step(5), a.apply(x, 4), a.number(), a.apply(x, 5), a.number(), a.set_step(2),
                a.apply(x, 3), a.number(), a.apply(x, 1), a.take(3), a.apply(x, 2), a.number(), a.apply(x, 3), a.number(), a.apply(x, [3]),
                a.number(), a.set_step(-4), a.apply(x, -4), a.apply(x, -5), a.number()]
    yield dense_graph(op, "float32", steps, two, name="steps")
    for second in (dict(dtype="float64"), dict(shape=[3]), dict(reduction_type="SUM"), dict(container="a")):
        def build(tf, x):
            first = Dense(tf, op, "float32", shape=[2], shared_name=shared)
            other = Dense(tf, op, **{"dtype": "float32", "shape": [2], "shared_name": shared, **second})
            return [first.apply(x), other.number(), first.number()]
        shared = f"accumulator{next(NUMBER)}"
        yield Graph(build, two, name=f"shared {second}", texts=True)
    yield dense_graph(op, "float32", lambda a, x: [a.number()], two, name="container", container="a b")


class Sparse:
    def __init__(self, tf, dtype, **attrs):
        self.R, self.dtype = tf.raw_ops, dtype
        self.handle = tf.raw_ops.SparseConditionalAccumulator(dtype=dtype, **attrs)

    def apply(self, indices, values, shape, known=True, step=0):
        return [self.R.SparseAccumulatorApplyGradient(
            handle=self.handle, local_step=np.int64(step), gradient_indices=np.int64(indices), gradient_values=values,
            gradient_shape=np.int64(shape), has_known_shape=known)]

    def take(self, n):
        return list(self.R.SparseAccumulatorTakeGradient(handle=self.handle, num_required=np.int32(n), dtype=self.dtype))

    def number(self):
        return [self.R.AccumulatorNumAccumulated(handle=self.handle)]


def sparse_graph(dtype, steps, *feeds, name, **attrs):
    attrs = {"shape": None, "shared_name": f"accumulator{next(NUMBER)}", **attrs}

    def build(tf, *x):
        return steps(Sparse(tf, dtype, **attrs), *x)
    return Graph(build, *feeds, name=f"{name} {dtype} {attrs}", texts=True)


@spec("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient")
def sparse(g, op):
    if op != "SparseConditionalAccumulator":
        return  # the graphs for SparseConditionalAccumulator also test the other ops in the list above
    for dtype in DTYPES:
        for reduction in REDUCTIONS:
            for inner in ((), (3,), (2, 2), (0,)):
                lists = [np.sort(g.rng.choice(9, n, replace=False)) for n in (3, 5, 4)] + [g.rng.integers(-2, 9, 4) for _ in range(3)] + [[]]
                lists = [[int(i) for i in some] for some in lists]

                def steps(a, *x):
                    calls = [a.apply(some, v, [9, *inner], k % 2 == 0, k // 3) for k, (some, v) in enumerate(zip(lists, x))]
                    return [*calls[:3], a.number(), a.take(2), *calls[3:6], a.number(), a.take(3), calls[6], a.number(), a.apply(
                        lists[1], x[1], [9, *inner], step=2), a.take(1)]
                yield sparse_graph(dtype, steps, *(g.values(dtype, (len(some), *inner)) for some in lists), name=f"sums {inner}",
                                   reduction_type=reduction, shape=[None if reduction == "SUM" else 9, *inner])


@spec("SparseConditionalAccumulator")
def sparse_refusals(g, op):
    rows = np.float32([[1, 2], [3, 4]])
    for shape in (None, [4, 2], [None, 2], [4, None], [None, None, None], [], [4]):
        for indices, values, own in (([0, 1], rows, [4, 2]), ([0], rows[:1], [5, 2]), ([0], np.float32([[1, 2, 3]]), [4, 3]), ([7, 0], rows, [4, 2]),
                                     ([0], rows, [4, 2]), ([[0]], rows[:1], [4, 2]), ([0], np.float32([1]), [4]), ([0], np.float32(1), [4]),
                                     ([], np.zeros((0, 2), np.float32), [4, 2]), ([0], rows[:1], []), ([-1], rows[:1], 4)):
            def steps(a, x, y):
                return [a.apply(indices, y, own), a.number(), a.apply(indices, y, own, False), a.number(), a.apply([1], x[:1], [4, 2]),
                        a.apply(indices, y, own), a.number()]
            yield sparse_graph("float32", steps, rows, values, name=f"{indices} {values.shape} {own}", shape=shape)

    def steps(a, x):
        return [a.apply([0, 1], x, [4, 2]), a.take(0), a.take(-2), a.take(1), a.apply([[0]], x, [4, 2]), a.number()]
    yield sparse_graph("float32", steps, rows, name="numbers")
