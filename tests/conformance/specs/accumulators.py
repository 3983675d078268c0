"""Specifies conditional accumulators by means of graphs that run several times in one session. No step waits;
tests/e2e/test_queues.py holds what waits."""

import itertools

from spec import *

NUMBER = itertools.count()
DTYPES = ("float32", "float64", "float16")
DENSE = ("ApplyGradient", "NumAccumulated", "SetGlobalStep", "TakeGradient")
REDUCTIONS = ("MEAN", "SUM")


class Dense:
    """The ops of one dense accumulator. A `wild` number is one whose shape no op infers."""

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
        return  # the graphs use all of these ops
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
        # TensorFlow ends at numbers with several elements.
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
        return  # the graphs use all of these ops
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
