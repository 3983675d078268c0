#!/usr/bin/env python3
"""Writes MODELS_DIR/wide_deep: a wide and deep classifier over feature columns, as an Estimator exports it.

Serialized Examples are parsed by ParseExample. The columns are numbers, buckets, vocabularies (a list and an asset
file), hash buckets, bags of several values, weights and crosses. The signatures are serving_default (classify),
regression and predict. The weights are random. models.py sends the Examples in
assets.extra/examples.tfrecord to the model. Needs tensorflow.

usage: make_wide_deep.py MODELS_DIR
"""
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1, column = tf.compat.v1, tf.feature_column
LEVELS = ["basic", "bachelor", "master", "doctor"]
COUNTRIES = [b"fr", b"de", b"it", b"us", b"gb", b"jp"]
N_EXAMPLES = 64


def columns(folder):
    countries = os.path.join(folder, "countries.txt")
    with open(countries, "wb") as file:
        file.write(b"\n".join(COUNTRIES))
    age = column.numeric_column("age")
    hours = column.numeric_column("hours", default_value=40.0)
    scores = column.numeric_column("scores", shape=(3,), normalizer_fn=lambda x: (x - 0.5) / 2.0)
    buckets = column.bucketized_column(age, [18, 25, 35, 50, 65])
    level = column.categorical_column_with_vocabulary_list("level", LEVELS, num_oov_buckets=1)
    country = column.categorical_column_with_vocabulary_file("country", countries, default_value=0)
    job = column.categorical_column_with_hash_bucket("job", 50)
    tags = column.categorical_column_with_hash_bucket("tags", 30)
    rank = column.categorical_column_with_identity("rank", 10, default_value=0)
    number = column.categorical_column_with_hash_bucket("number", 20, dtype=tf.int64)
    weighted = column.weighted_categorical_column(tags, "tag_weights")
    crossed = column.crossed_column(["level", "job"], 100)
    deep_cross = column.crossed_column([buckets, country], 40)
    wide = [buckets, level, country, job, rank, weighted, crossed, deep_cross]
    deep = [age, hours, scores, buckets, column.indicator_column(level), column.embedding_column(job, 8),
            column.embedding_column(tags, 4, combiner="sqrtn"), column.embedding_column(country, 3, combiner="sum"),
            column.indicator_column(rank), column.embedding_column(number, 2), column.embedding_column(deep_cross, 5)]
    return wide, deep


def example(rng):
    def values(kind, v):
        if kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=v))
        if kind == "i":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=v))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))

    n_tags = int(rng.integers(0, 5))
    features = {"age": values("f", [float(rng.integers(10, 80))]), "scores": values("f", rng.random(3))}
    maybe = {"hours": values("f", [float(rng.integers(0, 80))]), "level": values("s", [rng.choice(LEVELS + ["none"]).encode()]),
             "country": values("s", [bytes(rng.choice(COUNTRIES + [b"xx"]))]), "job": values("s", [b"job %d" % rng.integers(0, 99)]),
             "rank": values("i", [int(rng.integers(-2, 13))]), "number": values("i", rng.integers(-9, 99, 2))}
    features.update({k: f for k, f in maybe.items() if rng.random() < 0.85})
    features["tags"] = values("s", [b"tag %d" % t for t in rng.integers(0, 99, n_tags)])
    features["tag_weights"] = values("f", rng.random(n_tags))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def dense(x, n, name, activation=None):
    kernel = v1.get_variable(f"{name}/kernel", [x.shape[1], n])
    bias = v1.get_variable(f"{name}/bias", [n], initializer=v1.random_normal_initializer())
    y = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return activation(y) if activation else y


def build(folder, out):
    wide, deep = columns(folder)
    serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
    features = tf.io.parse_example(serialized, column.make_parse_example_spec(wide + deep))
    with v1.variable_scope("linear"):
        logits = v1.feature_column.linear_model(features, wide, units=2)
    with v1.variable_scope("dnn"):
        x = v1.feature_column.input_layer(features, deep)
        for i, n in enumerate((32, 16)):
            x = dense(x, n, f"hidden_{i}", tf.nn.relu)
        logits += dense(x, 2, "logits")
    scores = tf.nn.softmax(logits, name="probabilities")
    names = tf.strings.as_string(tf.range(2))
    classes = tf.tile(tf.expand_dims(names, 0), [tf.shape(scores)[0], 1])
    best = tf.expand_dims(tf.argmax(scores, -1), -1)
    info = v1.saved_model.utils.build_tensor_info
    make = v1.saved_model.signature_def_utils.build_signature_def

    def signature(method, outputs, alias="inputs"):
        return make({alias: info(serialized)}, {k: info(t) for k, t in outputs.items()}, f"tensorflow/serving/{method}")

    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for v in v1.global_variables():  # Linear models start with zero weights, which would hide every difference.
            v.load(np.random.RandomState(len(v.name)).normal(size=v.shape, scale=0.05).astype(np.float32), session)
        builder = v1.saved_model.Builder(str(out))
        builder.add_meta_graph_and_variables(
            session, ["serve"], main_op=v1.tables_initializer(), strip_default_attrs=True,
            signature_def_map={"serving_default": signature("classify", {"classes": classes, "scores": scores}),
                               "regression": signature("regress", {"outputs": logits[:, 1]}),
                               "predict": signature("predict", {"probabilities": scores, "logits": logits, "class_ids": best,
                                                                "classes": tf.strings.as_string(best)}, "examples")},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
        builder.save()


def main():
    out = pathlib.Path(sys.argv[1]) / "wide_deep" / "1"
    v1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as folder:
        build(folder, out)
    rng = np.random.default_rng(5)
    (out / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(out / "assets.extra" / "examples.tfrecord")) as writer:
        for _ in range(N_EXAMPLES):
            writer.write(example(rng))


if __name__ == "__main__":
    main()
