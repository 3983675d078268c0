"""Graphs as Estimators export them: v1 feature columns on serialized Examples, written by the SavedModel builder."""
import contextlib
import os
import tempfile

from catalogue import Request, model, np, random

COLOURS = ["red", "green", "blue", "grün"]
CITIES = [b"Rom", b"Oslo", b"Lima", b"Bonn"]


def example(**features):
    """Returns a serialized Example. An integer, a float or a string is a list of one; None is left out."""
    import tensorflow as tf

    made = {}
    for name, values in features.items():
        values = values if isinstance(values, (list, tuple, np.ndarray)) else [values]
        if values and values[0] is None:
            continue
        kind = values[0] if len(values) else 0.0
        if isinstance(kind, bytes):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(kind, (int, np.integer)):
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def rows(seed, n):
    """Returns n Examples with features that the models of this module read. Most may be missing."""
    rng = np.random.default_rng(seed)

    def sometimes(value):
        return value if rng.random() < 0.8 else None

    made = []
    for _ in range(n):
        tags = [b"tag %d" % t for t in rng.integers(0, 30, rng.integers(1, 5))]
        made.append(example(
            age=float(rng.integers(10, 80)), scores=[float(v) for v in rng.random(3)], pay=sometimes(float(rng.integers(0, 9))),
            colour=sometimes(rng.choice(COLOURS + ["pink"]).encode()), city=sometimes(bytes(rng.choice(CITIES + [b"Wien"]))),
            job=sometimes(b"job %d" % rng.integers(0, 40)), tags=tags, tag_weights=[float(v) for v in rng.random(len(tags))],
            rank=sometimes(int(rng.integers(-2, 12))), number=[int(v) for v in rng.integers(0, 1000, 2)],
            clicked=[b"item %d" % v for v in rng.integers(0, 20, rng.integers(1, 6))], bought=sometimes(b"item %d" % rng.integers(0, 20)),
            times=[float(v) for v in rng.random(rng.integers(1, 6))]))
    return np.array(made, object)


@contextlib.contextmanager
def exporting(folder, shape=(None,)):
    """Gives (v1, serialized, finish) in a new graph. finish({name: (method, outputs)}) writes the model."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(5)
        serialized = v1.placeholder(tf.string, shape, name="input_example_tensor")

        def finish(signatures):
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for i, v in enumerate(v1.global_variables()):  # Linear models start with zeros, which would hide every difference.
                if v.dtype.base_dtype.is_floating:
                    v.load(random(i, v.shape.as_list(), -0.3, 0.3), session)
            info, utils = v1.saved_model.utils.build_tensor_info, v1.saved_model.signature_def_utils
            made = {name: utils.build_signature_def({"examples" if method == "predict" else "inputs": info(serialized)},
                                                    {k: info(t) for k, t in outputs.items()}, f"tensorflow/serving/{method}")
                    for name, (method, outputs) in signatures.items()}
            builder = v1.saved_model.Builder(folder)
            builder.add_meta_graph_and_variables(session, ["serve"], main_op=v1.tables_initializer(), strip_default_attrs=True,
                                                 signature_def_map=made,
                                                 assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
            builder.save()

        yield v1, serialized, finish


def dense(v1, x, n, name, activation=None):
    y = v1.matmul(x, v1.get_variable(f"{name}/kernel", [x.shape[1], n])) + v1.get_variable(f"{name}/bias", [n])
    return activation(y) if activation else y


def requests(signatures):
    """Returns requests for signatures, given as {name: call}, in turn, with batches of several sizes and two that are refused."""
    asked = []
    for seed, n in ((1, 1), (2, 5), (3, 32)):
        for name, call in signatures.items():
            asked.append(Request(name, {"examples": rows(seed, n)}, call))
    predict = next((name for name, call in signatures.items() if call == "predict"), None)
    if predict:
        asked.append(Request(predict, {"examples": np.array([b"not an Example"], object)}))
        asked.append(Request(predict, {"examples": np.array([rows(4, 1)[0], example(age=b"old", scores=[1.0, 2.0, 3.0])], object)}))
    return asked


@model("estimator_linear", stateless=True)
def linear(folder):
    """A linear classifier: every kind of column that it takes, with crosses of columns and of raw features."""
    import tensorflow as tf

    c = tf.feature_column
    with exporting(folder) as (v1, serialized, finish):
        age, pay = c.numeric_column("age"), c.numeric_column("pay", default_value=4.0)
        buckets = c.bucketized_column(age, [18, 30, 45, 65])
        colour = c.categorical_column_with_vocabulary_list("colour", COLOURS, num_oov_buckets=2)
        job, tags = c.categorical_column_with_hash_bucket("job", 30), c.categorical_column_with_hash_bucket("tags", 25)
        columns = [age, pay, c.numeric_column("scores", shape=(3,), normalizer_fn=lambda x: x * 2 - 1), buckets, colour, job,
                   c.weighted_categorical_column(tags, "tag_weights"), c.categorical_column_with_identity("rank", 10, default_value=9),
                   c.categorical_column_with_hash_bucket("number", 50, dtype=tf.int64), c.crossed_column([buckets, colour, "job"], 200),
                   c.crossed_column(["tags", "city"], 100, hash_key=1234567)]
        features = tf.io.parse_example(serialized, c.make_parse_example_spec(columns + [tags]))
        logits = v1.feature_column.linear_model(features, columns, units=3, sparse_combiner="mean")
        scores = tf.nn.softmax(logits)
        names = tf.tile(tf.constant([["low", "middle", "high"]]), [tf.shape(scores)[0], 1])
        best = tf.argmax(scores, -1)
        outputs = {"logits": logits, "probabilities": scores, "class_ids": best[:, None], "all_classes": names,
                   "classes": tf.gather(["low", "middle", "high"], best)[:, None]}
        finish({"serving_default": ("classify", {"classes": names, "scores": scores}), "predict": ("predict", outputs)})
    return requests({"serving_default": "classify", "predict": "predict"})


@model("estimator_dnn", stateless=True)
def dnn(folder):
    """A deep regressor: embeddings with each combiner, shared embeddings, indicators, a vocabulary file, weights."""
    import tensorflow as tf

    c = tf.feature_column
    with tempfile.TemporaryDirectory() as place, exporting(folder) as (v1, serialized, finish):
        path = os.path.join(place, "cities.txt")
        with open(path, "wb") as file:
            file.write(b"\n".join(CITIES) + b"\n")
        city = c.categorical_column_with_vocabulary_file("city", path, num_oov_buckets=3)
        small = c.categorical_column_with_vocabulary_file("city", path, vocabulary_size=2, default_value=1)
        colour = c.categorical_column_with_vocabulary_list("colour", COLOURS, default_value=2)
        number = c.categorical_column_with_vocabulary_list("number", list(range(0, 1000, 7)), dtype=tf.int64)
        tags = c.categorical_column_with_hash_bucket("tags", 25)
        clicked, bought = (c.categorical_column_with_hash_bucket(n, 20) for n in ("clicked", "bought"))
        weighted = c.weighted_categorical_column(tags, "tag_weights")
        columns = [c.numeric_column("age", normalizer_fn=lambda x: (x - 40) / 20), c.numeric_column("scores", shape=(3,)),
                   c.embedding_column(city, 4), c.indicator_column(small), c.indicator_column(colour),
                   c.embedding_column(number, 3, combiner="sum"), c.embedding_column(tags, 5, combiner="sqrtn", max_norm=0.4),
                   c.embedding_column(weighted, 2), c.indicator_column(weighted),
                   c.indicator_column(c.categorical_column_with_identity("rank", 10, 0)),
                   *v1.feature_column.shared_embedding_columns([clicked, bought], 6),
                   c.indicator_column(c.crossed_column([colour, "city"], 17))]
        spec = v1.feature_column.make_parse_example_spec(columns)
        x = v1.feature_column.input_layer(v1.parse_example(serialized, spec), columns)
        y = dense(v1, x, 16, "hidden", tf.nn.relu)
        mean, variance, offset, scale = (v1.get_variable(n, [16]) for n in ("mean", "variance", "offset", "scale"))
        y = tf.nn.batch_normalization(y, mean, tf.square(variance), offset, scale, 1e-3)
        y = dense(v1, y, 8, "hidden_1", tf.nn.tanh)
        y = dense(v1, y, 1, "logits")
        finish({"serving_default": ("regress", {"outputs": y}), "predict": ("predict", {"predictions": y, "inputs": x})})
    return requests({"serving_default": "regress", "predict": "predict"})


@model("estimator_sequence", stateless=True)
def sequence(folder):
    """Columns of sequences, which feed a recurrent network, beside columns of the context."""
    import tensorflow as tf
    import tf_keras

    c = tf.feature_column
    with exporting(folder) as (v1, serialized, finish):
        clicked = c.sequence_categorical_column_with_hash_bucket("clicked", 20)
        tags = c.sequence_categorical_column_with_vocabulary_list("tags", [f"tag {i}" for i in range(0, 30, 2)], num_oov_buckets=2)
        columns = [c.embedding_column(clicked, 5), c.indicator_column(tags)]
        times = [c.sequence_numeric_column("times", normalizer_fn=lambda x: tf.sparse.map_values(tf.subtract, x, 0.5))]
        features = tf.io.parse_example(serialized, c.make_parse_example_spec(columns + times))
        outputs = {}
        for name, chosen in (("items", columns[:1]), ("tags", columns[1:]), ("times", times)):
            x, lengths = tf_keras.experimental.SequenceFeatures(chosen)(features)
            y, state = v1.nn.dynamic_rnn(tf_keras.layers.GRUCell(6), x, lengths, dtype=tf.float32, scope=name)
            outputs.update({f"{name}_outputs": y, f"{name}_state": state, f"{name}_lengths": lengths})
        finish({"serving_default": ("predict", outputs)})
    return requests({"serving_default": "predict"})


@model("estimator_raw", stateless=True)
def raw(folder):
    """A raw serving input: the features are inputs of the signature, not Examples. Sparse ones have three inputs."""
    import tensorflow as tf

    c = tf.feature_column
    with exporting(folder) as (v1, _, finish):
        age = v1.placeholder(tf.float32, [None, 1], name="age")
        colour = v1.placeholder(tf.string, [None, 1], name="colour")
        tags = v1.sparse_placeholder(tf.string, [None, None], name="tags")
        columns = [c.numeric_column("age"), c.indicator_column(c.categorical_column_with_vocabulary_list("colour", COLOURS)),
                   c.embedding_column(c.categorical_column_with_hash_bucket("tags", 25), 4)]
        x = v1.feature_column.input_layer({"age": age, "colour": colour, "tags": tags}, columns)
        y = dense(v1, x, 2, "logits")
        info, utils = v1.saved_model.utils.build_tensor_info, v1.saved_model.signature_def_utils
        session = v1.get_default_session()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        inputs = {"age": age, "colour": colour, "tags_indices": tags.indices, "tags_values": tags.values, "tags_shape": tags.dense_shape}
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], main_op=v1.tables_initializer(),
            signature_def_map={"serving_default": utils.build_signature_def({k: info(v) for k, v in inputs.items()}, {"logits": info(y)},
                                                                            "tensorflow/serving/predict")})
        builder.save()

    def row(n, indices, shape):
        values = np.array([b"tag %d" % i for i in range(len(indices))], object)
        colours = np.array([[COLOURS[i % 4].encode()] for i in range(n)], object)
        return Request("serving_default", {"age": random(n, (n, 1), 10, 80), "colour": colours,
                                           "tags_indices": np.array(indices, np.int64).reshape(-1, 2), "tags_values": values,
                                           "tags_shape": np.array(shape, np.int64)})
    return [row(1, [[0, 0], [0, 1]], [1, 2]), row(3, [[0, 0], [2, 0], [2, 3]], [3, 4]),
            row(2, [], [2, 0]), row(2, [[0, 0], [5, 0]], [2, 2])]


@model("estimator_heads", stateless=True)
def heads(folder):
    """Several heads over one trunk: classify with labels from a table, classify with scores alone, regress and predict."""
    import tensorflow as tf

    c = tf.feature_column
    with exporting(folder) as (v1, serialized, finish):
        columns = [c.numeric_column("age"), c.numeric_column("scores", shape=(3,))]
        x = v1.feature_column.input_layer(v1.parse_example(serialized, c.make_parse_example_spec(columns)), columns) / 50
        x = dense(v1, x, 8, "trunk", tf.nn.relu)
        scores = tf.nn.sigmoid(dense(v1, x, 4, "labels"))
        table = v1.lookup.StaticHashTable(v1.lookup.KeyValueTensorInitializer(tf.range(4, dtype=tf.int64), tf.constant(COLOURS)), "?")
        values, at = tf.math.top_k(scores, 2)
        finish({"serving_default": ("classify", {"classes": table.lookup(tf.cast(at, tf.int64)), "scores": values}),
                "regression": ("regress", {"outputs": dense(v1, x, 1, "value")[:, 0]}),
                "predict": ("predict", {"scores": scores, "best": table.lookup(tf.argmax(scores, 1))})})
    return requests({"serving_default": "classify", "regression": "regress", "predict": "predict"})
