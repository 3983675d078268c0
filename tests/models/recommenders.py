"""Recommenders: two towers with retrieval, DLRM, wide and deep, and sequences of items, mostly on serialized Examples."""
from catalogue import KERAS, Request, importlib, integers, model, np, random, save_signatures
from estimator import example

ITEMS = [f"item {i}" for i in range(40)]
USERS = [f"user {i}" for i in range(25)]
FIELDS = (11, 17, 23)  # sizes of DLRM's tables


def tower(k, words, width):
    return k.Sequential([k.layers.StringLookup(vocabulary=words), k.layers.Embedding(len(words) + 1, width),
                         k.layers.Dense(width, activation="relu"), k.layers.Dense(8)])


@model("two_towers_keras3", "two_towers_tf_keras", stateless=True)
def two_towers(folder, name):
    """The query side embeds a user, and the best items are found among all, with some excluded."""
    import tensorflow as tf

    k = importlib.import_module(KERAS[name.replace("two_towers_", "")])
    k.utils.set_random_seed(7)
    users, items = tower(k, USERS, 16), tower(k, ITEMS, 16)
    for net in (users, items):
        net(tf.constant(["user 1"]))
        net.layers[1].set_weights([random(3, w.shape, -1, 1) for w in net.layers[1].get_weights()])
    candidates = tf.Variable(items(tf.constant(ITEMS)), trainable=False)
    names = tf.constant(ITEMS)
    held = [users, items, candidates]

    def retrieve(user, n):
        scores, at = tf.math.top_k(tf.matmul(users(user), candidates, transpose_b=True), tf.minimum(n, len(ITEMS)))
        return {"scores": scores, "items": tf.gather(names, at)}

    def exclude(user, seen):
        scores = tf.matmul(users(user), candidates, transpose_b=True)
        known = tf.reduce_any(seen[:, :, None] == names[None, None, :], 1)
        scores, at = tf.math.top_k(tf.where(known, tf.float32.min, scores), 4)
        return {"scores": scores, "items": tf.gather(names, at), "ids": at}

    def rate(examples):
        one = tf.io.FixedLenFeature
        parsed = tf.io.parse_example(examples, {"user": one([], tf.string), "item": one([], tf.string, "?"),
                                                "shown": tf.io.VarLenFeature(tf.string)})
        shown = tf.RaggedTensor.from_sparse(parsed["shown"])
        query = users(parsed["user"])
        each = tf.reduce_sum(tf.gather(query, shown.value_rowids()) * items(shown.flat_values), 1)
        best = tf.math.segment_max(each, shown.value_rowids())
        return {"score": tf.reduce_sum(query * items(parsed["item"]), 1), "best": best,
                "shown": shown.with_flat_values(each).to_tensor(-1.0)}

    text = tf.TensorSpec([None], tf.string, name="user")
    save_signatures(folder, held, serving_default=(retrieve, text, tf.TensorSpec([], tf.int32, name="n")),
                    exclude=(exclude, text, tf.TensorSpec([None, None], tf.string, name="seen")),
                    rate=(rate, tf.TensorSpec([None], tf.string, name="examples")))

    def some(seed, n, words):
        return np.random.default_rng(seed).choice([w.encode() for w in words] + [b"new"], n).astype(object)

    asked = [Request("serving_default", {"user": some(i, n, USERS), "n": np.int32(top)})
             for i, (n, top) in enumerate([(1, 3), (5, 10), (2, 99)])]
    asked += [Request("exclude", {"user": some(i, n, USERS), "seen": some(i, (n, m), ITEMS)})
              for i, (n, m) in enumerate([(1, 2), (4, 30), (3, 0)])]
    for n in (1, 4):
        pairs = zip(some(n, n, USERS), some(n + 1, n, ITEMS))
        rows = [example(user=u, item=i if at % 2 else None, shown=list(some(at, at, ITEMS)) or None) for at, (u, i) in enumerate(pairs)]
        asked.append(Request("rate", {"examples": np.array(rows, object)}))
    return [*asked, Request("rate", {"examples": np.array([example(item=b"item 1")], object)}),
            Request("serving_default", {"user": some(1, 1, USERS), "n": np.int32(-1)})]


@model("dlrm", stateless=True)
def dlrm(folder):
    """Dense features, bags of ids and the products of each pair of embeddings."""
    import tensorflow as tf

    width = 8
    rng = np.random.default_rng(3)
    tables = [tf.Variable(rng.normal(size=(n, width)).astype("f4")) for n in FIELDS]
    weights = {n: tf.Variable(rng.normal(scale=0.4, size=s).astype("f4")) for n, s in
               {"b0": (4, 16), "b1": (16, width), "t0": (width + 6, 12), "t1": (12, 1)}.items()}
    combiners = ("sum", "mean", "sqrtn")

    def forward(dense, bags, weighted=None):
        x = tf.nn.relu(tf.matmul(tf.nn.relu(tf.matmul(dense, weights["b0"])), weights["b1"]))
        parts = [x] + [tf.nn.embedding_lookup_sparse(t, b, weighted if i == 2 else None, combiner=c)
                       for i, (t, b, c) in enumerate(zip(tables, bags, combiners))]
        z = tf.stack(parts, 1)
        pairs = tf.matmul(z, z, transpose_b=True)
        lower = tf.linalg.band_part(tf.ones((4, 4)), -1, 0) - tf.eye(4)
        flat = tf.reshape(tf.boolean_mask(pairs, tf.broadcast_to(lower[None] > 0, tf.shape(pairs))), [-1, 6])
        top = tf.nn.relu(tf.matmul(tf.concat([x, flat], 1), weights["t0"]))
        return {"click": tf.sigmoid(tf.matmul(top, weights["t1"]))[:, 0], "pairs": flat}

    def on_examples(examples):
        spec = {"dense": tf.io.FixedLenFeature([4], tf.float32, [0.0] * 4), **{f"c{i}": tf.io.VarLenFeature(tf.int64) for i in range(3)},
                "w2": tf.io.VarLenFeature(tf.float32)}
        parsed = tf.io.parse_example(examples, spec)
        bags = [tf.sparse.fill_empty_rows(parsed[f"c{i}"], 0)[0] for i in range(3)]
        weighted = tf.sparse.fill_empty_rows(parsed["w2"], 1.0)[0]
        return forward(parsed["dense"], bags, weighted)

    def on_tensors(dense, ids):
        bags = [tf.sparse.from_dense(ids[:, i:i + 1] + 1) for i in range(3)]
        return forward(dense, [tf.SparseTensor(b.indices, b.values - 1, b.dense_shape) for b in bags])

    held = [tables, weights]
    save_signatures(folder, held, serving_default=(on_examples, tf.TensorSpec([None], tf.string, name="examples")),
                    tensors=(on_tensors, tf.TensorSpec([None, 4], name="dense"), tf.TensorSpec([None, 3], tf.int64, name="ids")))

    def rows(seed, n):
        r = np.random.default_rng(seed)
        made = []
        for _ in range(n):
            bags = [[int(v) for v in r.integers(0, size, r.integers(0, 5))] for size in FIELDS]
            made.append(example(dense=[float(v) for v in r.normal(size=4)] if r.random() < 0.8 else [None],
                                **{f"c{i}": b or [None] for i, b in enumerate(bags)},
                                w2=[float(v) for v in r.random(len(bags[2])) + 0.1] or [None]))
        return np.array(made, object)

    asked = [Request("serving_default", {"examples": rows(i, n)}) for i, n in enumerate((1, 6, 40))]
    asked += [Request("tensors", {"dense": random(n, (n, 4), -1, 1), "ids": integers(n, (n, 3), limit, "int64")})
              for n, limit in ((1, 11), (5, 11), (3, 90))]
    return [*asked, Request("serving_default", {"examples": np.array([example(c0=[1, 2, 900])], object)}),
            Request("serving_default", {"examples": np.array([example(c2=[1, 2], w2=[0.5])], object)})]


@model("wide_deep_tf_keras", stateless=True)
def wide_deep(folder):
    """tf_keras's own wide and deep model, over feature columns."""
    import tensorflow as tf
    import tf_keras

    tf_keras.utils.set_random_seed(7)
    c = tf.feature_column
    user, item = (c.categorical_column_with_hash_bucket(n, 50) for n in ("user", "item"))
    wide = tf_keras.layers.DenseFeatures([c.indicator_column(user), c.indicator_column(c.crossed_column(["user", "item"], 64))])
    deep = tf_keras.layers.DenseFeatures([c.embedding_column(user, 8), c.embedding_column(item, 8), c.numeric_column("price")])
    inputs = {n: tf_keras.Input((1,), dtype=d, name=n) for n, d in (("user", "string"), ("item", "string"), ("price", "float32"))}
    linear = tf_keras.experimental.LinearModel(kernel_initializer="glorot_uniform")
    dnn = tf_keras.Sequential([tf_keras.layers.Dense(16, "relu"), tf_keras.layers.Dense(1)])
    both = tf_keras.experimental.WideDeepModel(linear, dnn, activation="sigmoid")
    net = tf_keras.Model(inputs, both([wide(inputs), deep(inputs)]))
    net.save(folder, save_format="tf")

    def words(seed, n, all_words):
        return np.random.default_rng(seed).choice([w.encode() for w in all_words], (n, 1)).astype(object)

    return [Request("serving_default", {"user": words(n, n, USERS), "item": words(n + 1, n, ITEMS), "price": random(n, (n, 1), 0, 9)})
            for n in (1, 6)]


@model("session_items_keras3", stateless=True)
def session_items(folder):
    """The next item of a session: self-attention over its last ten items, from ragged features of Examples."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)
    longest = 10
    lookup = keras.layers.StringLookup(vocabulary=ITEMS, mask_token="")
    embed = keras.layers.Embedding(len(ITEMS) + 2, 16)
    attend, norm = keras.layers.MultiHeadAttention(2, 8), keras.layers.LayerNormalization()
    names = tf.constant(["", "?", *ITEMS])

    def scores(ids):
        x = embed(ids)
        kept = ids > 0
        x = norm(x + attend(x, x, attention_mask=kept[:, None, :], use_causal_mask=True))
        last = tf.maximum(tf.reduce_sum(tf.cast(kept, tf.int32), 1) - 1, 0)
        return tf.matmul(tf.gather(x, last, batch_dims=1), embed.embeddings, transpose_b=True)

    scores(lookup(tf.fill((1, longest), "item 1")))
    for layer in (embed, attend, norm):
        layer.set_weights([random(i, w.shape, -0.5, 0.5) for i, w in enumerate(layer.get_weights())])

    def from_examples(examples):
        ragged = tf.io.RaggedFeature
        parts = ragged(tf.int64, value_key="parts", partitions=[ragged.RowLengths("lengths")])
        parsed = tf.io.parse_example(examples, {"clicked": ragged(tf.string), "times": ragged(tf.float32), "parts": parts})
        clicked = parsed["clicked"][:, -longest:]
        ids = lookup(clicked.to_tensor("", shape=[None, longest]))
        values, at = tf.math.top_k(scores(ids), 5)
        return {"scores": values, "items": tf.gather(names, at), "lengths": clicked.row_lengths(),
                "age": tf.reduce_max(parsed["times"], 1), "parts": tf.reduce_sum(parsed["parts"], 2).to_tensor(-7)}

    def from_lines(lines):
        words = tf.strings.split(lines, ",")
        ids = lookup(tf.strings.strip(words).to_tensor("", shape=[None, longest]))
        return {"best": tf.gather(names, tf.argmax(scores(ids), 1)), "n": words.row_lengths()}

    held = [lookup, embed, attend, norm]
    save_signatures(folder, held, serving_default=(from_examples, tf.TensorSpec([None], tf.string, name="examples")),
                    lines=(from_lines, tf.TensorSpec([None], tf.string, name="lines")))

    def rows(seed, n):
        r = np.random.default_rng(seed)
        made = []
        for _ in range(n):
            items, times = [b"item %d" % v for v in r.integers(0, 44, r.integers(1, 14))], [float(v) for v in r.random(r.integers(1, 4))]
            made.append(example(clicked=items, times=times, parts=[int(v) for v in r.integers(0, 9, 5)],
                                lengths=[2, 0, 3] if r.random() < 0.5 else [5]))
        return np.array(made, object)

    return [Request("serving_default", {"examples": rows(1, 1)}), Request("serving_default", {"examples": rows(2, 7)}),
            Request("lines", {"lines": np.array([b"item 1, item 2,item 3", b"", b"x"], object)}),
            Request("serving_default", {"examples": np.array([example()], object)}),
            Request("serving_default", {"examples": np.array([example(parts=[1, 2], lengths=[5])], object)})]


@model("popular_items")
def popular_items(folder):
    """Counts of feedback are kept in a variable and a table, which the other signatures read."""
    import tensorflow as tf

    counts = tf.Variable(tf.zeros(len(ITEMS)), trainable=False)
    total = tf.Variable(0, dtype=tf.int64, trainable=False)
    lookup = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ITEMS, tf.range(len(ITEMS), dtype=tf.int64)), -1)
    last = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    names = tf.constant(ITEMS)

    def feedback(user, item):
        ids = lookup.lookup(item)
        tf.debugging.assert_greater_equal(ids, tf.constant(0, tf.int64), "an item is not known")
        counts.scatter_add(tf.IndexedSlices(tf.ones_like(ids, tf.float32), ids))
        total.assign_add(tf.size(ids, out_type=tf.int64))
        last.insert(user, ids)
        return {"total": total.read_value()}

    def popular(n):
        values, at = tf.math.top_k(counts, n)
        return {"counts": values, "items": tf.gather(names, at), "share": values / tf.maximum(tf.cast(total, tf.float32), 1.0)}

    def history(user):
        return {"last": last.lookup(user), "n": last.size()}

    def fade(factor):
        counts.assign(counts * factor)
        return {"sum": tf.reduce_sum(counts)}

    held = [counts, total, lookup, last]
    text = [tf.TensorSpec([None], tf.string, name=n) for n in ("user", "item")]
    save_signatures(folder, held, feedback=(feedback, *text), popular=(popular, tf.TensorSpec([], tf.int32, name="n")),
                    history=(history, text[0]), fade=(fade, tf.TensorSpec([], name="factor")))

    def told(*pairs):
        return Request("feedback", {"user": np.array([u for u, _ in pairs], object), "item": np.array([i for _, i in pairs], object)})

    top, who = Request("popular", {"n": np.int32(5)}), Request("history", {"user": np.array([b"a", b"b", b"c"], object)})
    return [top, told((b"a", b"item 3")), top, who, told((b"b", b"item 5"), (b"c", b"item 5"), (b"b", b"item 7")), top, who,
            told((b"a", b"no such item")), top, Request("fade", {"factor": np.float32(0.5)}), top]
