"""Writes TF1 models for images of the size of MNIST: make_mnist.py OUT_DIR

The model `softmax` is a softmax regression from 784 inputs to 10 classes with reference variables, as in TensorFlow 1's
tutorials. It is trained on scikit-learn's digits scaled up to 28 by 28, and a string table holds the names of the
classes. The model `cnn` has two convolutions and two dense layers with dropout, whose keep_prob is 1 unless it is fed.
Needs tensorflow and scikit-learn (PyPI).
"""
import os
import shutil
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

v1 = tf.compat.v1
v1.disable_v2_behavior()
out = sys.argv[1]
data = load_digits()
pictures = np.kron(data.images, np.ones((3, 3)))[:, :, :]
pictures = np.pad(pictures, ((0, 0), (2, 2), (2, 2))).reshape(-1, 784).astype(np.float32) / 16
labels = np.eye(10, dtype=np.float32)[data.target]


def variable(shape, stddev=0.1):
    return v1.Variable(v1.truncated_normal(shape, stddev=stddev, seed=3), use_resource=False)


def save(session, name, x, y, others):
    shutil.rmtree(f'{out}/{name}', ignore_errors=True)
    builder = v1.saved_model.builder.SavedModelBuilder(f'{out}/{name}/1')
    table = v1.lookup.StaticHashTable(
        v1.lookup.KeyValueTensorInitializer(tf.range(10, dtype=tf.int64),
                                            tf.constant([f'digit {i}' for i in range(10)])), 'none')
    scores, index = tf.nn.top_k(y, 3)
    classes = table.lookup(tf.cast(index, tf.int64))
    info = v1.saved_model.utils.build_tensor_info
    signature = v1.saved_model.signature_def_utils.build_signature_def(
        inputs={'images': info(x), **{k: info(t) for k, t in others.items()}},
        outputs={'scores': info(y), 'best': info(scores), 'classes': info(classes)},
        method_name='tensorflow/serving/predict')
    plain = v1.saved_model.signature_def_utils.build_signature_def(
        inputs={'images': info(x)}, outputs={'scores': info(y)}, method_name='tensorflow/serving/predict')
    session.run(v1.tables_initializer())
    builder.add_meta_graph_and_variables(
        session, ['serve'], signature_def_map={'predict_images': signature, 'serving_default': plain},
        main_op=v1.tables_initializer(), strip_default_attrs=True)
    builder.save()


def softmax():
    with tf.Graph().as_default(), v1.Session() as s:
        x = v1.placeholder(tf.float32, [None, 784], name='x')
        w, b = variable([784, 10]), v1.Variable(tf.zeros([10]), use_resource=False)
        y = tf.nn.softmax(tf.matmul(x, w) + b, name='y')
        want = v1.placeholder(tf.float32, [None, 10])
        loss = -tf.reduce_mean(tf.reduce_sum(want * tf.math.log(y + 1e-7), 1))
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        s.run(v1.global_variables_initializer())
        for _ in range(200):
            s.run(step, {x: pictures, want: labels})
        save(s, 'mnist_softmax', x, y, {})


def cnn():
    with tf.Graph().as_default(), v1.Session() as s:
        x = v1.placeholder(tf.float32, [None, 784], name='x')
        keep = v1.placeholder_with_default(1.0, [], name='keep_prob')
        h = tf.reshape(x, [-1, 28, 28, 1])
        for cin, cout in ((1, 8), (8, 16)):
            h = tf.nn.relu(tf.nn.conv2d(h, variable([5, 5, cin, cout]), 1, 'SAME') + variable([cout]))
            h = tf.nn.max_pool2d(h, 2, 2, 'SAME')
        h = tf.nn.relu(tf.matmul(tf.reshape(h, [-1, 7 * 7 * 16]), variable([7 * 7 * 16, 32])) + variable([32]))
        h = v1.nn.dropout(h, keep_prob=keep)
        y = tf.nn.softmax(tf.matmul(h, variable([32, 10])) + variable([10]), name='y')
        s.run(v1.global_variables_initializer())
        save(s, 'mnist_cnn', x, y, {'keep_prob': keep})


softmax()
cnn()
