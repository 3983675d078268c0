"""Exports to this folder a model that takes image files, and writes TensorFlow's results to answers.json. Needs
tensorflow (PyPI). The image files are those of the fuzz targets' corpora."""
import base64
import json
import os
import pathlib
import shutil

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "fuzz" / "corpus"


class Images(tf.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(5)
        self.filters = tf.constant(rng.normal(0, 0.3, (3, 3, 3, 8)).astype("float32"))
        self.weights = tf.constant(rng.normal(0, 0.5, (8, 4)).astype("float32"))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    def classify(self, image_bytes):
        def pixels(contents):
            image = tf.image.resize(tf.io.decode_jpeg(contents, channels=3), (24, 24))
            return tf.cast(image, tf.float32) / 255

        images = tf.map_fn(pixels, image_bytes, fn_output_signature=tf.TensorSpec([24, 24, 3], tf.float32))
        x = tf.nn.relu(tf.nn.conv2d(images, self.filters, 2, "SAME"))
        return {"scores": tf.nn.softmax(tf.matmul(tf.reduce_mean(x, [1, 2]), self.weights))}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, "image_bytes")])
    def thumbnail(self, image_bytes):
        image = tf.io.decode_image(image_bytes, channels=3, expand_animations=False)
        small = tf.image.resize(image, (6, 5), method="nearest")
        return {"png_bytes": tf.io.encode_png(small)}


def main():
    shutil.rmtree(HERE / "model", ignore_errors=True)
    module = Images()
    tf.saved_model.save(module, str(HERE / "model" / "1"),
                        signatures={"serving_default": module.classify, "thumbnail": module.thumbnail})
    os.remove(HERE / "model" / "1" / "fingerprint.pb")
    loaded = tf.saved_model.load(str(HERE / "model" / "1")).signatures
    answers = {"scores": {}, "thumbnails": {}}
    for path in sorted(CORPUS.glob("jpeg/*.jpg")):
        scores = loaded["serving_default"](image_bytes=tf.constant([path.read_bytes()]))["scores"]
        answers["scores"][path.name] = [round(float(v), 7) for v in scores[0]]
    of_any_format = ("jpeg/*.jpg", "png/rgb*.png", "gif/a*.gif", "bmp/RGB_*.bmp")
    for path in sorted(path for pattern in of_any_format for path in CORPUS.glob(pattern)):
        png = loaded["thumbnail"](image_bytes=tf.constant(path.read_bytes()))["png_bytes"].numpy()
        answers["thumbnails"][f"{path.parent.name}/{path.name}"] = base64.b64encode(png).decode()
    (HERE / "answers.json").write_text(json.dumps(answers, indent=0) + "\n")


main()
