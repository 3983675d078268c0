#!/usr/bin/env python3
"""Measures steps of training by Slipway and by TensorFlow on one thread (./run bench training).

ResNet50 is trained on 8 images by SGD with momentum. A style transfer by VGG19 changes one image by Adam. The weights are
random. Rounds alternate. The script prints the medians of CPU time.
"""
import pathlib
import sys
import tempfile

from beside_tensorflow import compare, tf

import keras  # noqa: E402
import numpy as np  # noqa: E402

SECONDS = 6
IMAGE = (224, 224, 3)
STYLE_LAYERS = ("block1_conv1", "block2_conv1", "block3_conv1", "block4_conv1", "block5_conv1")


def resnet50(folder):
    keras.utils.set_random_seed(1)
    net = keras.applications.ResNet50(weights=None)
    optimiser = keras.optimizers.SGD(0.01, momentum=0.9)
    optimiser.build(net.trainable_variables)

    def train(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, net(images, training=True)))
        optimiser.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return {"loss": loss}

    save(folder, train, net, optimiser, tf.TensorSpec((None, *IMAGE), tf.float32, "images"), tf.TensorSpec((None,), tf.int32, "labels"))
    draw = np.random.default_rng(1)
    return {"images": draw.random((8, *IMAGE), np.float32), "labels": draw.integers(0, 1000, 8, np.int32)}


def style_transfer(folder):
    keras.utils.set_random_seed(1)
    net = keras.applications.VGG19(include_top=False, weights=None, input_shape=IMAGE)
    net.trainable = False
    features = keras.Model(net.input, [net.get_layer(n).output for n in STYLE_LAYERS])
    image = tf.Variable(np.random.default_rng(2).random((1, *IMAGE), np.float32))
    optimiser = keras.optimizers.Adam(0.02)
    optimiser.build([image])

    def gram(x):
        return tf.einsum("bijc,bijd->bcd", x, x) / tf.cast(tf.size(x[0]), tf.float32)

    def train(style):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_mean((gram(a) - gram(b)) ** 2) for a, b in zip(features(image), features(style))])
        optimiser.apply_gradients([(tape.gradient(loss, image), image)])
        return {"loss": loss}

    save(folder, train, net, optimiser, tf.TensorSpec((1, *IMAGE), tf.float32, "style"), image=image)
    return {"style": np.random.default_rng(3).random((1, *IMAGE), np.float32)}


def save(folder, train, net, optimiser, *specs, image=None):
    module = tf.Module()
    module.held = [[v.value for v in net.variables], [getattr(v, "value", v) for v in optimiser.variables], image]
    tf.saved_model.save(module, str(folder), {"train": tf.function(train, input_signature=specs)})


def main():
    for name, make in (("ResNet50, 8 images", resnet50), ("style transfer by VGG19", style_transfer)):
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            feeds = make(folder / "model")
            mine, other = compare(folder / "model", "train", feeds, folder, SECONDS)
            print(f"{name}: {mine:.0f} ms a step, {other / mine:.2f} times as fast as TensorFlow's {other:.0f} ms", flush=True)


if __name__ == "__main__":
    sys.exit(main())
