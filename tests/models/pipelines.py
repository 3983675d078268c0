"""Control flow, ragged and sparse inputs, parsing of sequence examples, and linear algebra."""

from catalogue import Request, model, np, random


@model("control_flow")
def control_flow(folder):
    """tf.cond, tf.switch_case, tf.case, tf.map_fn, tf.scan, tf.foldl, tf.vectorized_map, nested loops, and variables in branches."""
    import tensorflow as tf

    x = tf.TensorSpec([None, 4], tf.float32, "x")

    class Flow(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(random(1, (4, 4), -1, 1))
            self.experts = [tf.Variable(random(10 + i, (4, 3), -1, 1)) for i in range(4)]
            self.hits = tf.Variable(tf.zeros([4], tf.int32))

        @tf.function(input_signature=[x, tf.TensorSpec([], tf.int32, "which")])
        def switch(self, x, which):
            def expert(i):
                def run():
                    self.hits.scatter_nd_add([[i]], [1])
                    return tf.nn.relu(x @ self.experts[i])

                return run

            y = tf.switch_case(which, [expert(i) for i in range(4)], default=lambda: tf.zeros([tf.shape(x)[0], 3]))
            return {"y": y, "hits": self.hits.read_value()}

        @tf.function(input_signature=[x])
        def route(self, x):
            """A mixture of experts with hard routing: partition, run and stitch."""
            gate = tf.argmax(x @ self.w, 1, tf.int32)
            parts = tf.dynamic_partition(x, gate, 4)
            places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), gate, 4)
            y = tf.dynamic_stitch(places, [p @ w for p, w in zip(parts, self.experts)])
            n = tf.shape(x)[0]
            size = tf.case([(n > 10, lambda: "large"), (n > 2, lambda: "medium")], default=lambda: "small")
            return {"y": y, "gate": gate, "size": size, "load": tf.math.bincount(gate, minlength=4)}

        @tf.function(input_signature=[x, tf.TensorSpec([], tf.float32, "threshold")])
        def branch(self, x, threshold):
            def train():
                self.w.assign_sub(0.01 * tf.matmul(x, x, transpose_a=True))
                return tf.reduce_sum(x @ self.w, 1)

            y = tf.cond(tf.reduce_mean(x) > threshold, train, lambda: tf.reduce_sum(x, 1))
            return {"y": y, "w": self.w.read_value()}

        @tf.function(input_signature=[x])
        def maps(self, x):
            outer = tf.vectorized_map(lambda r: tf.linalg.matvec(self.w, r) * tf.reduce_max(r), x)
            jacobian = tf.vectorized_map(lambda r: tf.einsum("i,j->ij", r, tf.nn.softmax(r)), x)
            mapped = tf.map_fn(lambda r: (tf.reduce_sum(r), tf.argmax(r)), x, fn_output_signature=(tf.float32, tf.int64))
            scanned = tf.scan(lambda s, r: s * 0.5 + tf.tanh(tf.linalg.matvec(self.w, r)), x, tf.zeros([4]))
            back = tf.scan(lambda s, r: s + r, x, tf.zeros([4]), reverse=True)
            folded = tf.foldl(lambda s, r: s @ (tf.eye(4) + 0.1 * tf.einsum("i,j->ij", r, r)), x, tf.eye(4))
            return {
                "outer": outer,
                "jacobian": jacobian,
                "sums": mapped[0],
                "argmax": mapped[1],
                "scanned": scanned,
                "back": back,
                "folded": folded,
                "right": tf.foldr(lambda s, r: tf.maximum(s, r) - 0.1, x, tf.zeros([4])),
            }

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "n")])
        def loops(self, n):
            a, b, steps = tf.constant(0), tf.constant(1), tf.constant(0)
            while n > 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                steps += 1
                if steps > 100:
                    break
                a, b = b, a + b % 1000
            table = tf.TensorArray(tf.int32, 5)
            for i in tf.range(5):
                inner = tf.constant(0)
                for j in tf.range(i + 1):
                    if j == 2:
                        continue
                    inner += j * i
                table = table.write(i, inner)
            primes = tf.ones([50], tf.bool)
            i = tf.constant(2)
            while i * i < 50:
                primes &= (tf.range(50) % i != 0) | (tf.range(50) <= i)
                i += 1
            return {"steps": steps, "fibonacci": a, "table": table.stack(), "primes": tf.where(primes)[2:, 0]}

        @tf.function(input_signature=[x])
        def derivatives(self, x):
            with tf.GradientTape(persistent=True) as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = tf.reduce_sum(tf.sin(x @ self.w) ** 2)
                first = inner.gradient(y, x)
                loop = x
                for _ in tf.range(3):
                    loop = tf.tanh(loop @ self.w)
                total = tf.reduce_sum(loop)
            return {
                "first": first,
                "second": outer.gradient(first, x),
                "through_loop": outer.gradient(total, x),
                "jacobian": outer.batch_jacobian(loop, x),
            }

    made = Flow()
    names = ("switch", "route", "branch", "maps", "loops", "derivatives")
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in names})
    one, many = random(1, (1, 4), -1, 1), random(2, (6, 4), -1, 1)
    return [
        Request("switch", {"x": one, "which": np.int32(2)}),
        Request("switch", {"x": many, "which": np.int32(0)}),
        Request("switch", {"x": many, "which": np.int32(9)}),
        *(Request(s, {"x": b}) for b in (one, many) for s in ("route", "maps", "derivatives")),
        Request("branch", {"x": one, "threshold": np.float32(-2)}),
        Request("branch", {"x": many, "threshold": np.float32(2)}),
        Request("loops", {"n": np.int32(27)}),
        Request("loops", {"n": np.int32(1)}),
        Request("route", {"x": one[:0]}),
    ]


@model("ragged_and_sparse")
def ragged_and_sparse(folder):
    """Signatures whose inputs are ragged or sparse, and pipelines of both."""
    import tensorflow as tf

    ragged = tf.RaggedTensorSpec([None, None], tf.int64, 1, tf.int64)
    sparse = tf.SparseTensorSpec([None, 12], tf.float32)

    class Pipelines(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.Variable(random(1, (20, 4), -1, 1))
            self.weights = tf.Variable(random(2, (12, 3), -1, 1))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "values"), tf.TensorSpec([None], tf.int64, "splits")])
        def pool(self, values, splits):
            ids = tf.RaggedTensor.from_row_splits(values, splits)
            rows = tf.gather(self.table, ids)
            weights = tf.RaggedTensor.from_row_splits(tf.nn.sigmoid(self.table[:, 0]), [0, 20])
            longest = tf.concat([ids, ids * 2 % 20], 1)
            return {
                "mean": tf.math.divide_no_nan(tf.reduce_sum(rows, 1), tf.cast(ids.row_lengths(), tf.float32)[:, None]),
                "max": tf.reduce_max(ids, 1),
                "padded": longest.to_tensor(-1),
                "lengths": longest.row_lengths(),
                "sorted": tf.map_fn(tf.sort, ids).to_tensor(-1),
                "softmax": tf.nn.softmax(tf.reduce_sum(rows, 2).to_tensor(-1e9)),
                "weights": weights.flat_values,
                "even": tf.ragged.boolean_mask(ids, ids % 2 == 0).to_tensor(-1),
                "reversed": tf.reverse(ids, [1]).flat_values,
                "sparse": tf.sparse.to_dense(ids.to_sparse()),
                "cross": tf.ragged.cross_hashed([ids, longest], 50).to_tensor(-1),
            }

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 2], tf.int64, "indices"),
                tf.TensorSpec([None], tf.float32, "values"),
                tf.TensorSpec([2], tf.int64, "shape"),
            ]
        )
        def linear(self, indices, values, shape):
            given = tf.sparse.reorder(tf.SparseTensor(indices, values, shape))
            scores = tf.sparse.sparse_dense_matmul(given, self.weights)
            filled, empty = tf.sparse.fill_empty_rows(given, 0.5)
            return {
                "scores": scores,
                "filled": tf.sparse.to_dense(filled),
                "empty": empty,
                "softmax": tf.sparse.softmax(given).values,
                "sums": tf.sparse.reduce_sum(given, 1),
                "slice": tf.sparse.to_dense(tf.sparse.slice(given, [0, 2], [2, 5])),
                "transposed": tf.sparse.to_dense(tf.sparse.transpose(given)),
                "max": tf.sparse.reduce_max(given, 0),
                "joined": tf.sparse.to_dense(tf.sparse.concat(1, [given, given])),
                "added": tf.sparse.add(given, tf.ones(shape)),
                "weighted": tf.nn.safe_embedding_lookup_sparse(
                    self.table, tf.SparseTensor(given.indices, tf.cast(given.values * 9, tf.int64), shape)
                ),
            }

        @tf.function(input_signature=[ragged])
        def composite_ragged(self, ids):
            return {"rows": tf.gather(self.table, ids).to_tensor()}

        @tf.function(input_signature=[sparse])
        def composite_sparse(self, given):
            return {"scores": tf.sparse.sparse_dense_matmul(given, self.weights)}

    made = Pipelines()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("pool", "linear", "composite_ragged", "composite_sparse")})
    values, splits = np.array([3, 1, 19, 4, 4, 0], np.int64), np.array([0, 2, 2, 6], np.int64)
    indices, shape = np.array([[0, 1], [0, 7], [2, 0], [2, 11]], np.int64), np.array([4, 12], np.int64)
    weights = random(3, (4,))

    return [
        Request("pool", {"values": values, "splits": splits}),
        Request("pool", {"values": values[:2], "splits": splits[:2]}),
        Request("linear", {"indices": indices, "values": weights, "shape": shape}),
        Request("linear", {"indices": indices[:1], "values": weights[:1], "shape": np.array([2, 12], np.int64)}),
        Request("composite_ragged", {"ids": values, "ids_1": splits}),
        Request("composite_sparse", {"given": indices, "given_1": weights, "given_2": shape}),
        Request("pool", {"values": values, "splits": splits[:3]}),
        Request("linear", {"indices": indices, "values": weights[:2], "shape": shape}),
    ]


@model("sequence_examples")
def sequence_examples(folder):
    """tf.io.parse_sequence_example and parse_single_sequence_example, with contexts, ragged and sparse lists, before an embedding."""
    import tensorflow as tf

    examples = tf.TensorSpec([None], tf.string, "examples")
    io = tf.io

    def example(seed, n, user=True):
        rng = np.random.default_rng(seed)
        feature, kinds = tf.train.Feature, tf.train
        context = {"age": feature(float_list=kinds.FloatList(value=[20.0 + seed]))}
        if user:
            context["user"] = feature(bytes_list=kinds.BytesList(value=[b"user%d" % seed]))
        lists = {
            "ids": [feature(int64_list=kinds.Int64List(value=rng.integers(0, 20, rng.integers(1, 4)))) for _ in range(n)],
            "scores": [feature(float_list=kinds.FloatList(value=rng.random(2))) for _ in range(n)],
            "words": [feature(bytes_list=kinds.BytesList(value=[b"w%d" % rng.integers(5)])) for _ in range(n)],
        }
        return kinds.SequenceExample(
            context=kinds.Features(feature=context),
            feature_lists=kinds.FeatureLists(feature_list={k: kinds.FeatureList(feature=v) for k, v in lists.items()}),
        ).SerializeToString()

    class Parser(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.Variable(random(1, (20, 4), -1, 1))

        @tf.function(input_signature=[examples])
        def batch(self, examples):
            context, lists, lengths = io.parse_sequence_example(
                examples,
                {"age": io.FixedLenFeature([], tf.float32), "user": io.FixedLenFeature([], tf.string, "nobody")},
                {
                    "ids": io.RaggedFeature(tf.int64),
                    "scores": io.FixedLenSequenceFeature([2], tf.float32),
                    "words": io.VarLenFeature(tf.string),
                },
            )
            embedded = tf.reduce_sum(tf.gather(self.table, lists["ids"]), 2).to_tensor()
            return {
                "age": context["age"],
                "user": context["user"],
                "embedded": embedded,
                "scores": lists["scores"],
                "n": lengths["scores"],
                "words": tf.sparse.to_dense(lists["words"], b""),
                "word_shape": lists["words"].dense_shape,
            }

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, "example")])
        def single(self, example):
            context, lists = io.parse_single_sequence_example(
                example,
                {"age": io.FixedLenFeature([], tf.float32)},
                {
                    "scores": io.FixedLenSequenceFeature([2], tf.float32),
                    "ids": io.VarLenFeature(tf.int64),
                    "none": io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
                },
            )
            return {"age": context["age"], "scores": lists["scores"], "ids": tf.sparse.to_dense(lists["ids"], -1), "none": lists["none"]}

    made = Parser()
    tf.saved_model.save(made, folder, {"serving_default": made.batch, "single": made.single})
    many = np.array([example(1, 3), example(2, 1, False), example(3, 0)], object)
    return [
        Request("serving_default", {"examples": many}),
        Request("single", {"example": np.array(many[0], object)}),
        Request("serving_default", {"examples": many[:1]}),
        Request("serving_default", {"examples": np.array([b"\xff\xff"], object)}),
        Request("single", {"example": np.array(b"", object)}),
    ]


@model("kalman", rtol=1e-3)  # The covariances lose digits by subtraction.
def kalman(folder):
    """A Kalman filter and smoother over a time series, and a stateful step."""
    import tensorflow as tf

    f = tf.constant([[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 0.9]])
    h = tf.constant([[1.0, 0.0, 0.0], [0.0, 1.0, 0.2]])
    q, r = tf.eye(3) * 0.01, tf.eye(2) * 0.1

    def step(x, p, z):
        x, p = tf.linalg.matvec(f, x), f @ p @ tf.transpose(f) + q
        s = h @ p @ tf.transpose(h) + r
        gain = tf.transpose(tf.linalg.solve(s, h @ p))
        error = z - tf.linalg.matvec(h, x)
        likelihood = -0.5 * (tf.reduce_sum(error * tf.linalg.solve(s, error[:, None])[:, 0]) + tf.linalg.logdet(s))
        return x + tf.linalg.matvec(gain, error), (tf.eye(3) - gain @ h) @ p, likelihood

    class Filter(tf.Module):
        def __init__(self):
            super().__init__()
            self.x, self.p = tf.Variable(tf.zeros([3])), tf.Variable(tf.eye(3))

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "z")])
        def filter(self, z):
            start = (tf.zeros([3]), tf.eye(3), tf.zeros([]))
            x, p, likelihood = tf.scan(lambda s, z: step(s[0], s[1], z), z, start)
            before = tf.einsum("ij,tjk,lk->til", f, p, f) + q

            def back(s, now):
                x, p, before = now
                gain = tf.transpose(tf.linalg.cholesky_solve(tf.linalg.cholesky(before), f @ p))
                return (x + tf.linalg.matvec(gain, s[0] - tf.linalg.matvec(f, x)), p + gain @ (s[1] - before) @ tf.transpose(gain))

            smooth, _ = tf.scan(back, (x[:-1], p[:-1], before[:-1]), (x[-1], p[-1]), reverse=True)
            return {"x": x, "p": p, "likelihood": tf.reduce_sum(likelihood), "smooth": smooth}

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "z")])
        def update(self, z):
            x, p, likelihood = step(self.x, self.p, z)
            self.x.assign(x)
            self.p.assign(p)
            return {"x": self.x.read_value(), "likelihood": likelihood}

    made = Filter()
    tf.saved_model.save(made, folder, {"serving_default": made.filter, "update": made.update})
    return [
        Request("serving_default", {"z": random(1, (20, 2))}),
        Request("update", {"z": random(2, (2,))}),
        Request("update", {"z": random(3, (2,))}),
        Request("serving_default", {"z": random(4, (2, 2))}),
    ]


@model("linear_algebra", rtol=1e-3)  # Solutions lose digits by the condition of the matrices.
def linear_algebra(folder):
    """A Gaussian process, least squares, principal components, and factorisations whose signs are made unique."""
    import tensorflow as tf

    x_spec, y_spec = tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")

    class Algebra(tf.Module):
        def __init__(self):
            super().__init__()
            self.scale = tf.Variable(0.5)

        def kernel(self, a, b):
            distance = tf.reduce_sum((a[:, None] - b[None]) ** 2, -1)
            return tf.exp(-0.5 * distance / self.scale**2)

        @tf.function(input_signature=[x_spec, y_spec, tf.TensorSpec([None, 2], tf.float32, "at")])
        def process(self, x, y, at):
            k = self.kernel(x, x) + 0.1 * tf.eye(tf.shape(x)[0])
            factor = tf.linalg.cholesky(k)
            alpha = tf.linalg.cholesky_solve(factor, y[:, None])
            cross = self.kernel(at, x)
            v = tf.linalg.triangular_solve(factor, tf.transpose(cross))
            return {
                "mean": (cross @ alpha)[:, 0],
                "variance": 1 - tf.reduce_sum(v**2, 0),
                "likelihood": -0.5 * tf.tensordot(y, alpha[:, 0], 1) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor))),
            }

        @tf.function(input_signature=[x_spec, y_spec])
        def fit(self, x, y):
            with tf.GradientTape() as tape:
                k = self.kernel(x, x) + 0.1 * tf.eye(tf.shape(x)[0])
                factor = tf.linalg.cholesky(k)
                alpha = tf.linalg.cholesky_solve(factor, y[:, None])
                loss = 0.5 * tf.tensordot(y, alpha[:, 0], 1) + 0.5 * tf.linalg.logdet(k)
            gradient = tape.gradient(loss, self.scale)
            self.scale.assign_sub(0.01 * tf.clip_by_value(gradient, -1.0, 1.0))
            return {"loss": loss, "gradient": gradient, "scale": self.scale.read_value()}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, "a")])
        def factors(self, a):
            s, u, v = tf.linalg.svd(a)
            q, r = tf.linalg.qr(a)
            square = tf.matmul(a, a, transpose_a=True) + tf.eye(tf.shape(a)[1])
            e, w = tf.linalg.eigh(square)
            lu, perm = tf.linalg.lu(square)
            band = tf.linalg.band_part(square, 1, 0)
            return {
                "s": s,
                "again": tf.matmul(u * s, v, transpose_b=True),
                "r": tf.abs(r),
                "product": q @ r,
                "e": e,
                "w": tf.abs(w[:, -1]),
                "lu": lu,
                "perm": perm,
                "inverse": tf.linalg.inv(square),
                "det": tf.linalg.det(square / tf.norm(square)),
                "expm": tf.linalg.expm(square / tf.norm(square)),
                "sqrt": tf.linalg.sqrtm(square),
                "pinv": tf.linalg.pinv(a),
                "trace": tf.linalg.trace(square),
                "band": band,
                "tri": tf.linalg.triangular_solve(band, a, adjoint=False) if a.shape[0] == a.shape[1] and a.shape[0] else tf.zeros([]),
                "logm": tf.math.real(tf.linalg.logm(tf.cast(square, tf.complex64))),
            }

        @tf.function(input_signature=[x_spec, y_spec])
        def least_squares(self, x, y):
            design = tf.concat([tf.ones([tf.shape(x)[0], 1]), x, x**2], 1)
            mean, variance = tf.nn.moments(x, 0)
            cov = tf.matmul(x - mean, x - mean, transpose_a=True) / tf.cast(tf.shape(x)[0], tf.float32)
            return {
                "fast": tf.linalg.lstsq(design, y[:, None], 0.01),
                "slow": tf.linalg.lstsq(design, y[:, None], fast=False),
                "cov": cov,
                "mahalanobis": tf.reduce_sum((x - mean) * tf.transpose(tf.linalg.solve(cov + 0.01 * tf.eye(2), tf.transpose(x - mean))), 1),
                "tridiagonal": tf.linalg.tridiagonal_solve(tf.stack([y * 0.1, y * 0 + 2, y * 0.1]), y, partial_pivoting=True),
            }

    made = Algebra()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("process", "fit", "factors", "least_squares")})
    requests = []
    for n in (12, 5):
        given = {"x": random(n, (n, 2), -1, 1), "y": random(n + 1, (n,), -1, 1)}
        requests += [
            Request("process", {**given, "at": random(1, (4, 2), -1, 1)}),
            Request("fit", given),
            Request("least_squares", given),
            Request("factors", {"a": random(n, (n, 4), -1, 1)}),
        ]
    return requests + [Request("process", {**given, "y": given["y"][:2], "at": given["x"]})]
