"""Makes random graphs of a few hundred nodes, like those of real models, and feeds for them. A graph depends only on
its seed.

Numbers stay in bounds, and nothing discrete (an index, a branch, a shape) depends on a floating-point number, so
that a different rounding of a sum cannot change which nodes run.
"""

import numpy as np

CONTROL_V1 = 3  # one in CONTROL_V1 seeds gives a graph with TensorFlow 1's loops and branches
ROWS = (3, 5)  # batch sizes with which each graph is fed


class Value:
    """A tensor in the graph, with an upper bound on the magnitude of its numbers."""

    def __init__(self, tensor, bound=1.0):
        self.tensor, self.bound = tensor, float(bound)

    @property
    def shape(self):
        return self.tensor.shape.as_list() if self.tensor.shape.rank is not None else None

    @property
    def dtype(self):
        return self.tensor.dtype.name


class RandomGraph:
    """After make(), a random graph has the fields `graph` (a tf.Graph), `feeds` (a list of {name: array}) and `fetches`
    (a list of names)."""

    def __init__(self, tf, seed, n_steps=90):
        self.tf, self.raw, self.rng, self.n_steps = tf, tf.raw_ops, np.random.default_rng(seed), n_steps
        self.v1 = seed % CONTROL_V1 == CONTROL_V1 - 1
        self.pool, self.sinks, self.holders = [], [], []

    # ---- choices ----

    def pick(self, things):
        return things[int(self.rng.integers(len(things)))]

    def chance(self, p):
        return self.rng.random() < p

    def some(self, fits):
        """Returns a random value for which `fits` holds, preferring recent values, or None if the pool has none."""
        found = [v for v in self.pool if fits(v)]
        if not found:
            return None
        return found[max(int(self.rng.integers(len(found))), int(self.rng.integers(len(found))))]

    def floats(self, rank=None, static_inner=True):
        def fits(v):
            s = v.shape
            return (v.dtype == "float32" and s is not None and (rank is None or len(s) == rank)
                    and (not static_inner or all(d is not None for d in s[1:])))
        return self.some(fits)

    def ints(self, rank=None):
        return self.some(lambda v: v.dtype in ("int32", "int64") and v.shape is not None
                         and (rank is None or len(v.shape) == rank))

    def const(self, shape, scale=1.0, dtype=np.float32):
        # Multiples of 1/8 use few distinct byte values, so recorded graphs stay small when compressed.
        x = self.rng.integers(-8, 9, shape) / 8 * scale
        return self.tf.constant(np.asarray(x, dtype))

    # ---- keeping things ----

    def keep(self, tensor, bound=1.0):
        value = Value(tensor, bound)
        if value.dtype == "float32" and value.bound > 20:
            value = Value(self.tf.tanh(tensor) if self.chance(0.5) else tensor * np.float32(1 / value.bound), 1.0)
        self.pool.append(value)
        return value

    # ---- steps; each returns False when nothing fits ----

    def unary(self):
        v, tf = self.floats(), self.tf
        if not v:
            return False
        x, b = v.tensor, v.bound
        made = {
            "tanh": lambda: (tf.tanh(x), 1), "sigmoid": lambda: (tf.sigmoid(x), 1), "relu": lambda: (tf.nn.relu(x), b),
            "relu6": lambda: (tf.nn.relu6(x), min(b, 6)), "elu": lambda: (tf.nn.elu(x), max(b, 1)),
            "selu": lambda: (tf.nn.selu(x), 2 * b + 2), "softplus": lambda: (tf.math.softplus(x), b + 1),
            "softsign": lambda: (tf.nn.softsign(x), 1), "leaky": lambda: (tf.nn.leaky_relu(x, 0.25), b),
            "abs": lambda: (tf.abs(x), b), "neg": lambda: (-x, b), "square": lambda: (tf.square(x), b * b),
            "sqrt": lambda: (tf.sqrt(tf.abs(x) + 0.25), b + 1), "rsqrt": lambda: (tf.math.rsqrt(tf.abs(x) + 0.25), 2),
            "exp": lambda: (tf.exp(tf.tanh(x)), 3), "log": lambda: (tf.math.log(tf.abs(x) + 0.5), b + 1),
            "erf": lambda: (tf.math.erf(x), 1), "sin": lambda: (tf.sin(x), 1), "cos": lambda: (tf.cos(x), 1),
            "identity": lambda: (tf.identity(x), b), "swish": lambda: (x * tf.sigmoid(x), b),
            "hard_swish": lambda: (x * tf.nn.relu6(x + 3) * np.float32(1 / 6), b),
            "gelu": lambda: (0.5 * x * (1 + tf.math.erf(x * np.float32(0.70710678))), b),
            "gelu_tanh": lambda: (0.5 * x * (1 + tf.tanh(np.float32(0.79788456) * (x + 0.044715 * x * x * x))), b),
        }
        self.keep(*self.pick(list(made.values()))())
        return True

    def binary(self):
        a = self.floats()
        if not a:
            return False
        tf, shape = self.tf, a.shape
        other = self.some(lambda v: v.dtype == "float32" and v.shape == shape and len(shape) > 0
                          and all(d is not None for d in shape[1:]) and v is not a)
        how = self.rng.integers(4)
        if other and how < 2 and self.same_rows(a, other):
            b = other
        elif shape and shape[-1] and how != 3:
            b = Value(self.const([shape[-1]]), 1)
        else:
            b = Value(tf.constant(np.float32(self.rng.integers(1, 9) / 4)), 2)
        x, y = (a.tensor, b.tensor) if self.chance(0.7) else (b.tensor, a.tensor)
        most = a.bound + b.bound
        made = [
            (tf.add, most), (tf.subtract, most), (tf.multiply, a.bound * b.bound), (tf.maximum, most), (tf.minimum, most),
            (tf.math.squared_difference, most * most), (lambda p, q: p / (tf.abs(q) + 1), most),
        ]
        op, bound = self.pick(made)
        self.keep(op(x, y), bound)
        return True

    def same_rows(self, a, b):
        """Returns whether the first dimensions of two values are equal. Unknown dimensions are equal only if both are
        the batch size."""
        return a.shape[0] is not None or (a.tensor in self.batch and b.tensor in self.batch)

    def dense(self):
        v = self.floats(rank=2)
        if not v or v.shape[1] is None or v.shape[1] == 0:
            return False
        tf, k = self.tf, v.shape[1]
        n = int(self.pick([1, 5, 16, 33, 64]))
        turned = self.chance(0.25)
        w = self.const([n, k] if turned else [k, n], 1 / np.sqrt(k))
        y, bound = tf.matmul(v.tensor, w, transpose_b=turned), v.bound * np.sqrt(k)
        if self.chance(0.7):
            y, bound = tf.nn.bias_add(y, self.const([n])) if self.chance(0.6) else y + self.const([n]), bound + 1
        y, bound = self.activation(y, bound)
        skip = self.some(lambda o: o.dtype == "float32" and o.shape is not None and o.shape == y.shape.as_list())
        if skip and self.chance(0.5) and (skip.shape[0] is not None or (v.tensor in self.batch and skip.tensor in self.batch)):
            y, bound = (y + skip.tensor if self.chance(0.5) else skip.tensor + y), bound + skip.bound
        self.keep_row(y, bound, v)
        return True

    def activation(self, y, bound):
        tf = self.tf
        which = self.rng.integers(6)
        if which == 0:
            return tf.nn.relu(y), bound
        if which == 1:
            return tf.nn.relu6(y), min(bound, 6)
        if which == 2:
            return y * tf.sigmoid(y), bound
        if which == 3:
            return tf.tanh(y), 1
        return y, bound

    def keep_row(self, y, bound, source):
        made = self.keep(y, bound)
        if source.tensor in self.batch:
            self.batch.add(made.tensor)
        return made

    def conv(self):
        v = self.floats(rank=4)
        if not v or None in v.shape[1:] or min(v.shape[1:]) < 1:
            return False
        tf, (h, w, c) = self.tf, v.shape[1:]
        size = int(self.pick([1, 3, 3, 5]))
        x, bound = v.tensor, v.bound
        padding = self.pick(["SAME", "VALID"])
        if padding == "VALID" and (self.chance(0.5) or min(h, w) < size):
            p = size // 2 or 1
            x, h, w = tf.pad(x, [[0, 0], [p, p], [p, p], [0, 0]]), h + 2 * p, w + 2 * p
        if padding == "VALID" and min(h, w) < size:
            return False
        stride = int(self.pick([1, 1, 2]))
        if self.chance(0.25):
            f = self.const([size, size, c, 1], 1 / size)
            y, n = tf.nn.depthwise_conv2d(x, f, [1, stride, stride, 1], padding), c
            bound *= size
        else:
            n = int(self.pick([4, 8, 16, 17]))
            y = tf.nn.conv2d(x, self.const([size, size, c, n], 1 / np.sqrt(size * size * c)), stride, padding)
            bound *= size * np.sqrt(c)
        how = self.rng.integers(4)
        if how == 0:
            y = tf.nn.bias_add(y, self.const([n]))
        elif how == 1:
            one = np.abs(self.rng.integers(1, 9, n) / 8).astype(np.float32)
            y = tf.compat.v1.nn.fused_batch_norm(y, tf.constant(one), self.const([n]), self.const([n]), tf.constant(one),
                                                 is_training=False, epsilon=0.001)[0]
            bound = 3 * bound + 3
        elif how == 2:
            y = y * self.const([n]) + self.const([n])
        y, bound = self.activation(y, bound + 1)
        self.keep_row(y, bound, v)
        return True

    def window(self):
        v = self.floats(rank=4)
        if not v or None in v.shape[1:] or min(v.shape[1:3]) < 2 or v.shape[3] < 1:
            return False
        tf, stride = self.tf, int(self.pick([1, 2]))
        op = self.pick([tf.nn.max_pool2d, tf.nn.avg_pool2d])
        self.keep_row(op(v.tensor, int(self.pick([2, 3])) if min(v.shape[1:3]) > 2 else 2, stride, self.pick(["SAME", "VALID"])),
                      v.bound, v)
        return True

    def squeeze_excite(self):
        v = self.floats(rank=4)
        if not v or None in v.shape[1:] or min(v.shape[1:]) < 1:
            return False
        tf, c = self.tf, v.shape[3]
        s = tf.reduce_mean(v.tensor, [1, 2], keepdims=True)
        s = tf.nn.conv2d(s, self.const([1, 1, c, 4], 0.5), 1, "SAME") + self.const([4])
        s = tf.nn.conv2d(s * tf.sigmoid(s), self.const([1, 1, 4, c], 0.5), 1, "SAME") + self.const([c])
        self.keep_row(v.tensor * tf.sigmoid(s), v.bound, v)
        return True

    def norm(self):
        v = self.floats()
        if not v or len(v.shape) < 2 or not v.shape[-1] or v.shape[-1] < 2:
            return False
        tf, n, x = self.tf, v.shape[-1], v.tensor
        which = self.rng.integers(3)
        if which == 0:
            self.keep_row(tf.nn.softmax(x), 1, v)
        elif which == 1:
            self.keep_row(tf.nn.log_softmax(x), 2 * v.bound + 8, v)
        else:
            mean = tf.reduce_mean(x, -1, keepdims=True)
            variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
            scale = tf.math.rsqrt(variance + 0.125) * self.const([n])
            self.keep_row(x * scale + (self.const([n]) - mean * scale), 4 * v.bound + 2, v)
        return True

    def attention(self):
        v = self.floats(rank=3)
        if not v or None in v.shape[1:] or min(v.shape[1:]) < 1:
            return False
        tf, c = self.tf, v.shape[2]
        q, k, w = (tf.einsum("btc,cd->btd", v.tensor, self.const([c, 8], 1 / np.sqrt(c))) for _ in range(3))
        scores = tf.matmul(q, k, transpose_b=True) * np.float32(0.125)
        if self.chance(0.5):
            scores = scores + tf.constant(np.float32(np.triu(np.full((v.shape[1],) * 2, -1e9), 1)))
        self.keep_row(tf.matmul(tf.nn.softmax(scores), w), v.bound * np.sqrt(c), v)
        return True

    def moving(self):
        v = self.some(lambda v: v.shape is not None and len(v.shape) > 0 and v.dtype in ("float32", "int32", "int64"))
        if not v:
            return False
        tf, x, s, rank = self.tf, v.tensor, v.shape, len(v.shape)
        which = self.rng.integers(13)
        inner = [i for i in range(1, rank) if s[i] and s[i] > 1]
        if which == 0:
            y = tf.transpose(x, self.rng.permutation(rank).tolist())
        elif which == 1:
            y = tf.expand_dims(x, int(self.rng.integers(0, rank + 1))) if rank < 4 else tf.squeeze(tf.expand_dims(x, 1), [1])
        elif which == 2:
            y = tf.concat([x, x if self.chance(0.5) else tf.abs(x)], int(self.pick(inner)) if inner else 0)
        elif which == 3 and inner:
            axis = int(self.pick(inner))
            y = self.pick(tf.split(x, [1, s[axis] - 1], axis))
        elif which == 4 and inner:
            y = tf.unstack(x, axis=int(self.pick(inner)))[0]
        elif which == 5:
            y = tf.stack([x, -x], int(self.rng.integers(0, rank + 1))) if rank < 4 else tf.reverse(x, [rank - 1])
        elif which == 6 and inner:
            axis = int(self.pick(inner))
            y = tf.gather(x, self.rng.integers(0, s[axis], int(self.pick([1, 3, 7]))).astype(np.int32), axis=axis)
        elif which == 7 and rank > 1 and all(s[1:]):
            y = tf.reshape(x, [-1, int(np.prod(s[1:]))])
        elif which == 8 and rank == 2 and s[1] and s[1] % 2 == 0:
            y = tf.reshape(x, tf.stack([tf.shape(x)[0], 2, s[1] // 2]))
        elif which == 9 and rank == 2 and s[1] and s[1] % 16 == 0:
            y = tf.reshape(x, [-1, 4, 4, s[1] // 16])
        elif which == 10:
            y = tf.tile(x, [1] * (rank - 1) + [2]) if (s[-1] or 99) < 40 else tf.cumsum(x, rank - 1)
            return self.keep(y, v.bound * (s[-1] or 1)) is not None
        elif which == 11 and inner:
            axis = int(self.pick(inner))
            y = tf.strided_slice(x, [0] * rank, [int(d or 0) for d in s], [2 if i == axis else 1 for i in range(rank)],
                                 end_mask=sum(1 << i for i in range(rank)))
        else:
            y = tf.pad(x, [[0, 0]] * (rank - 1) + [[1, 2]])
        if np.prod([d or ROWS[-1] for d in y.shape.as_list()]) > 4000:
            return False
        made = self.keep(y, v.bound)
        keeps_rows = which in (2, 3, 6, 7, 8, 11, 12) and y.shape.rank and (which not in (2,) or inner)
        if keeps_rows and x in self.batch and y.shape[0] == x.shape[0]:
            self.batch.add(made.tensor)
        return True

    def reduce(self):
        v = self.floats()
        if not v or not v.shape:
            return False
        tf, rank = self.tf, len(v.shape)
        axes = sorted({int(a) for a in self.rng.integers(0, rank, 2)})
        n = np.prod([v.shape[a] or ROWS[-1] for a in axes])
        op, factor = self.pick([(tf.reduce_sum, n), (tf.reduce_mean, 1), (tf.reduce_max, 1), (tf.reduce_min, 1)])
        if any(v.shape[a] == 0 for a in axes):
            return False
        keep = self.chance(0.4)
        made = self.keep(op(v.tensor, axes, keepdims=keep), v.bound * factor)
        if 0 not in axes and v.tensor in self.batch:
            self.batch.add(made.tensor)
        return True

    def integer(self):
        v = self.ints()
        if not v:
            return False
        tf, x = self.tf, v.tensor
        c = lambda n: tf.constant(n, x.dtype)
        made = [
            lambda: (x + c(3), v.bound + 3), lambda: (x * c(5), v.bound * 5), lambda: (tf.math.floormod(x, c(7)), 7),
            lambda: (tf.math.floordiv(x, c(-3)), v.bound), lambda: (tf.maximum(x, c(2)), v.bound + 2),
            lambda: (tf.bitwise.bitwise_and(x, c(13)), 13), lambda: (tf.bitwise.bitwise_xor(x, c(6)), v.bound + 8),
            lambda: (tf.cast(x, "int32" if v.dtype == "int64" else "int64"), v.bound), lambda: (tf.sign(x), 1),
            lambda: (tf.where(x > c(2), x, -x), v.bound), lambda: (tf.cast(x * x > c(9), x.dtype), 1),
        ]
        y, bound = self.pick(made)()
        if bound > 1000:
            y, bound = tf.math.floormod(y, tf.constant(11, y.dtype)), 11
        self.keep(y, bound)
        return True

    def crossing(self):
        """Adds nodes that make numbers, conditions or strings from integers."""
        v = self.ints()
        if not v or len(v.shape) == 0 or len(v.shape) > 3:
            return False
        tf, x = self.tf, v.tensor
        which = self.rng.integers(6)
        if which == 0:
            self.keep(tf.cast(x, "float32") * np.float32(1 / 8), v.bound / 8)
        elif which == 1:
            self.keep(tf.one_hot(tf.math.floormod(x, tf.constant(5, x.dtype)), 5), 1)
        elif which == 2:
            self.keep(tf.gather(self.const([9, 6]), tf.math.floormod(x, tf.constant(9, x.dtype))), 1)
        elif which == 3:
            text = tf.strings.join([tf.strings.as_string(x), "/", "s"])
            self.keep(tf.strings.length(text), 30)
            self.keep(tf.strings.to_hash_bucket_fast(text, 17), 17)
        elif which == 4:
            self.keep(tf.argmax(x, axis=len(v.shape) - 1) if v.shape[-1] else tf.abs(x), v.bound + 99)
        else:
            self.keep(tf.reduce_sum(x, [len(v.shape) - 1]), v.bound * (v.shape[-1] or ROWS[-1]))
        return True

    def dynamic(self):
        """Adds nodes whose shapes are known only during a run."""
        v = self.ints(rank=1)
        if not v:
            return False
        tf, x = self.tf, v.tensor
        which = self.rng.integers(4)
        if which == 0:
            y, index = tf.unique(x)
            self.keep(y, v.bound)
            self.keep(index, ROWS[-1])
        elif which == 1:
            places = tf.where(tf.math.floormod(x, tf.constant(2, x.dtype)) > 0)
            self.keep(tf.reshape(places, [-1]), 99)
        elif which == 2:
            picked = tf.boolean_mask(x, tf.math.floormod(x, tf.constant(3, x.dtype)) > 0)
            self.keep(picked, v.bound)
            rows = tf.gather(self.const([11, 4]), tf.math.floormod(picked, tf.constant(11, x.dtype)))
            self.keep(tf.tanh(tf.matmul(rows, self.const([4, 6]))), 1)
        else:
            n = tf.math.floormod(tf.reduce_sum(x), tf.constant(6, x.dtype))
            self.keep(tf.range(tf.constant(0, x.dtype), n), 6)
        return True

    def branch(self):
        a, n = self.floats(), self.ints()
        if not a or not n:
            return False
        tf = self.tf
        rest = lambda k: tf.equal(tf.math.floormod(tf.reduce_sum(n.tensor), tf.constant(k, n.tensor.dtype)), 0)
        which, x = rest(2), a.tensor
        then, other = lambda: tf.tanh(x) * 2 + 1, lambda: tf.nn.relu(x) - tf.sigmoid(x)
        form = self.pick(["plain", "nested", "many", "known"])
        if form == "nested":
            third = rest(3)
            both = [tf.cond(which, lambda: tf.cond(third, then, lambda: tf.abs(x)), other)]
        elif form == "many":
            both = tf.cond(which, lambda: (then(), x * np.float32(0.5)), lambda: (other(), x + np.float32(0.25)))
        elif form == "known":
            flag = tf.compat.v1.placeholder_with_default(self.chance(0.5), [])
            both = [tf.cond(flag, then, lambda: tf.cond(which, other, lambda: tf.identity(x)))]
        else:
            both = [tf.cond(which, then, other)]
        for y in both:
            y.set_shape(x.shape)
            self.keep_row(y, a.bound + 3, a)
        return True

    def loop(self):
        v = self.floats(rank=2)
        if not v or v.shape[1] is None or v.shape[1] < 1 or v.shape[1] > 64:
            return False
        tf, x, k = self.tf, v.tensor, v.shape[1]
        w, b = self.const([k, k], 1 / np.sqrt(k)), self.const([k])
        limit = int(self.rng.integers(1, 5))
        n = self.ints(rank=0)
        # An empty TensorArray has no shape, so a loop that fills one has at least one iteration.
        listed = self.chance(0.5) and not self.v1
        turns = lambda: tf.cast(tf.math.floormod(n.tensor, tf.constant(4, n.tensor.dtype)) + (1 if listed else 0), "int32")
        limit = turns() if n and self.chance(0.5) else tf.constant(limit)
        if listed:
            items = tf.TensorArray(tf.float32, size=limit, element_shape=[None, k])
            step = lambda i, h, a: (i + 1, tf.tanh(tf.matmul(h, w) + b + x), a.write(i, h))
            _, h, items = tf.while_loop(lambda i, h, a: i < limit, step, [tf.constant(0), x, items],
                                        shape_invariants=[tf.TensorShape([]), x.shape, tf.TensorShape(None)])
            self.keep(tf.reshape(items.stack(), [-1, k]), max(v.bound, 1))
        else:
            cell = lambda h: tf.tanh(tf.matmul(h, w) + b)
            turn = cell
            if self.chance(0.3):
                turn = lambda h, i: tf.cond(tf.equal(tf.math.floormod(i, 2), 0), lambda: cell(h), lambda: tf.nn.relu(h) * np.float32(0.5))
            step = lambda i, h: (i + 1, (turn(h) if turn is cell else turn(h, i)) + x * np.float32(0.5))
            _, h = tf.while_loop(lambda i, h: i < limit, step, [tf.constant(0), x], shape_invariants=[tf.TensorShape([]), x.shape])
        self.keep_row(h, v.bound + 1, v)
        return True

    def halves(self):
        """Adds a few nodes that compute in a different precision. No other node reads their result, because its
        rounding errors are large."""
        v = self.floats()
        if not v:
            return False
        tf = self.tf
        dtype = self.pick(["float16", "bfloat16", "float64"])
        x = tf.cast(v.tensor, dtype)
        y = self.pick([tf.tanh, tf.nn.relu, tf.abs, tf.sigmoid, tf.square])(x)
        self.sinks.append(tf.maximum(y, x) if self.chance(0.5) else y + x)
        return True

    STEPS = [(unary, 10), (binary, 12), (dense, 6), (conv, 8), (window, 2), (squeeze_excite, 1), (norm, 3), (attention, 2),
             (moving, 14), (reduce, 4), (integer, 6), (crossing, 4), (dynamic, 3), (branch, 2), (loop, 2), (halves, 2)]

    # ---- all of it ----

    def make(self):
        tf = self.tf
        (tf.compat.v1.disable_control_flow_v2 if self.v1 else tf.compat.v1.enable_control_flow_v2)()
        self.graph = tf.Graph()
        with self.graph.as_default():
            kinds = [("image", "float32", [None, 8, 8, 8]), ("rows", "float32", [None, 16]), ("steps", "float32", [None, 6, 12]),
                     ("ids", "int32", [None]), ("table", "int64", [None, 5]), ("scalar", "int32", [])]
            for name, dtype, shape in kinds:
                self.holders.append((tf.compat.v1.placeholder(dtype, shape, name), shape))
                self.pool.append(Value(self.holders[-1][0], 1 if dtype == "float32" else 9))
            self.batch = {h for h, s in self.holders if s}
            self.batch = TensorSet(self.batch)
            steps = [s for s, weight in self.STEPS for _ in range(weight)]
            left = self.n_steps
            while left:
                before = [o for o in self.graph.get_operations() if o.type not in ("Const", "Placeholder")]
                waits = [self.pick(before)] if before and self.chance(0.1) else []
                waits = [o for o in waits if o._get_control_flow_context() is None]
                with tf.control_dependencies(waits):
                    left -= self.pick(steps)(self) is not False
            self.finish()
        return self

    def finish(self):
        used = {i.ref() for o in self.graph.get_operations() for i in o.inputs}
        ends = [v.tensor for v in self.pool if v.tensor.ref() not in used and v.tensor.op.type != "Placeholder"] + self.sinks
        middle = [v.tensor for v in self.pool if v.tensor.ref() in used and v.tensor.op.type != "Placeholder"]
        for _ in range(4):
            ends.append(self.pick(middle))
        ends = list({t.ref(): t for t in ends}.values())
        self.fetches = [t.name for t in ends]
        self.feeds = []
        for rows in (*ROWS, ROWS[0]):
            self.feeds.append({h.name: self.feed(h.dtype.as_numpy_dtype, [rows if d is None else d for d in s])
                               for h, s in self.holders})

    def feed(self, dtype, shape):
        if dtype == np.float32:
            return (self.rng.integers(-16, 17, shape) / 16).astype(np.float32)
        return np.asarray(self.rng.integers(-4, 10, shape), dtype)


class TensorSet:
    """A set of tensors, compared by identity."""

    def __init__(self, tensors):
        self.refs = {t.ref() for t in tensors}

    def add(self, t):
        self.refs.add(t.ref())

    def __contains__(self, t):
        return t.ref() in self.refs


# absolute tolerance for sums whose terms cancel, so that only rounding errors remain
NOISE = 1e-5
# Tolerance of each type, relative to the largest magnitude of an output. Values of type float64 are computed from
# float32 values.
TOLERANCE = {"float32": 2e-4, "float64": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
