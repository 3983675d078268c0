"""Writes tests/goldens/event_models with TensorFlow: models whose signatures write event files. tests/e2e/models/test_event_files.py
serves them, after it has replaced the name of the directory, LOGDIR.

  tf2   tf.summary.create_file_writer in a tf.Module; `train` counts steps and writes summaries of x, `infer` writes none
  tf1   the same API in a graph of TensorFlow 1; `log` writes summaries of x at a step, `flush` and `close` do what they say
"""
import os
import pathlib
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent / "goldens" / "event_models"
v1 = tf.compat.v1


class Training(tf.Module):
    def __init__(self):
        super().__init__()
        self.step = tf.Variable(0, dtype=tf.int64)
        self.writer = tf.summary.create_file_writer("LOGDIR", max_queue=3, flush_millis=10**6, experimental_trackable=True)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def train(self, x):
        step = self.step.assign_add(1)
        with self.writer.as_default():
            tf.summary.write("x", x, step=step)
            with tf.summary.record_if(tf.reduce_sum(x) > 0):
                tf.summary.write("sum", tf.reduce_sum(x), step=step)
        return {"step": step}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def infer(self, x):
        return {"y": 2 * x}


def write_tf2():
    m = Training()
    tf.saved_model.save(m, str(OUT / "tf2" / "1"), signatures={"train": m.train, "infer": m.infer})
    (OUT / "tf2" / "1" / "fingerprint.pb").unlink()
    (OUT / "tf2" / "1" / "assets").rmdir()


def write_tf1():
    with tf.Graph().as_default(), v1.Session() as session:
        writer = tf.summary.create_file_writer("LOGDIR", max_queue=2, flush_millis=10**6, filename_suffix=".tf1")
        x, step = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.int64, [], "step")
        old = v1.summary.merge([v1.summary.scalar("max", tf.reduce_max(x)), v1.summary.histogram("h", x)])
        with writer.as_default(step=step):
            logged = [tf.summary.write("mean", tf.reduce_mean(x)), tf.summary.experimental.write_raw_pb(old)]

        def signature(name, inputs, after):
            with tf.control_dependencies(after):
                y = tf.identity(step, name)
            info = v1.saved_model.build_tensor_info
            return v1.saved_model.build_signature_def({k: info(t) for k, t in inputs.items()}, {"y": info(y)}, "tensorflow/serving/predict")

        signatures = {"log": signature("logged", {"x": x, "step": step}, logged),
                      "flush": signature("flushed", {"step": step}, [writer.flush()]),
                      "close": signature("closed", {"step": step}, [writer.close()])}
        builder = v1.saved_model.Builder(str(OUT / "tf1" / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=writer.init())
        builder.save()


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    write_tf2()
    write_tf1()
