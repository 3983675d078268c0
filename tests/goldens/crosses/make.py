"""Exports to this folder a model that crosses words with numbers and has a quantised layer, and writes TensorFlow's results
to answers.json. Needs tensorflow (PyPI)."""
import json
import os
import pathlib
import shutil

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
R = tf.raw_ops
BUCKETS = 50


def limits(prefix, bits):
    return {f"{prefix}quantization_min_val": -(2 ** (bits - 1)), f"{prefix}quantization_max_val": 2 ** (bits - 1) - 1}


class Crosses(tf.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(5)
        self.effects = tf.constant(rng.normal(0, 1, (BUCKETS, 3)).astype("float32"))
        self.weights = tf.constant(rng.normal(0, 0.5, (4, 3)).astype("float32"))
        self.scales = tf.constant([0.011, 0.02, 0.015], tf.float32)

    def layer(self, x):
        """Returns x times the weights, computed with 8 bits."""
        zeros, zero = tf.zeros([3], tf.int32), tf.constant(5)
        step, out = tf.constant(0.03), tf.constant(0.001)
        w = R.UniformQuantize(
            input=self.weights, scales=self.scales, zero_points=zeros, Tout=tf.qint8, quantization_axis=1, **limits("", 8))
        q = R.UniformQuantize(input=x, scales=step, zero_points=zero, Tout=tf.qint8, **limits("", 8))
        y = R.UniformQuantizedDot(
            lhs=q, rhs=w, lhs_scales=step, lhs_zero_points=zero, rhs_scales=self.scales, rhs_zero_points=zeros,
            output_scales=out, output_zero_points=zero, Tout=tf.qint32, rhs_quantization_axis=1,
            **limits("lhs_", 8), **limits("rhs_", 8), **limits("output_", 32))
        return R.UniformDequantize(input=y, scales=out, zero_points=zero, Tout=tf.float32, **limits("", 32))

    @tf.function(input_signature=[
        tf.TensorSpec([None, 2], tf.string, "words"), tf.TensorSpec([None, 3], tf.int64, "ids"),
        tf.TensorSpec([None, 4], tf.float32, "x")])
    def score(self, words, ids, x):
        crossed, _ = R.RaggedCross(
            ragged_values=[], ragged_row_splits=[], sparse_indices=[], sparse_values=[], sparse_shape=[],
            dense_inputs=[words, ids], input_order="DD", hashed_output=True, num_buckets=BUCKETS,
            hash_key=956888297470, out_values_type=tf.int64, out_row_splits_type=tf.int64)
        buckets = tf.reshape(crossed, [-1, 6])
        return {"buckets": buckets, "scores": tf.reduce_sum(tf.gather(self.effects, buckets), 1) + self.layer(x)}

    @tf.function(input_signature=[
        tf.TensorSpec([None, 6, 6, 1], tf.float32, "images"), tf.TensorSpec([None, 2], tf.float32, "offsets")])
    def look(self, images, offsets):
        return {"glimpses": R.ExtractGlimpseV2(input=images, size=[3, 3], offsets=offsets, noise="zero", uniform_noise=False)}


def main():
    shutil.rmtree(HERE / "model", ignore_errors=True)
    module = Crosses()
    tf.saved_model.save(module, str(HERE / "model" / "1"), signatures={"serving_default": module.score, "look": module.look})
    os.remove(HERE / "model" / "1" / "fingerprint.pb")
    loaded = tf.saved_model.load(str(HERE / "model" / "1")).signatures
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(12):
        row = {
            "words": [str(w) for w in rng.choice(["red", "blue", "", "very long word " * 5], 2)], "ids": rng.integers(-5, 5, 3).tolist(),
            "x": [round(float(v), 3) for v in rng.normal(0, 2, 4)],
        }
        found = loaded["serving_default"](**{k: tf.constant([v], {"ids": tf.int64}.get(k)) for k, v in row.items()})
        rows.append({"inputs": row, "outputs": {k: v.numpy()[0].tolist() for k, v in found.items()}})
    images = rng.integers(0, 9, (4, 6, 6, 1)).astype("float32")
    offsets = rng.uniform(-1, 1, (4, 2)).round(2).astype("float32")
    glimpses = loaded["look"](images=tf.constant(images), offsets=tf.constant(offsets))["glimpses"].numpy()
    looks = [{"images": i.tolist(), "offsets": [round(float(v), 2) for v in o], "glimpse": p.tolist()}
             for i, o, p in zip(images, offsets, glimpses)]
    (HERE / "answers.json").write_text(json.dumps({"rows": rows, "looks": looks}) + "\n")


main()
