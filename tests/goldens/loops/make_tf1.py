"""Recurrent layers as TensorFlow 1 wrote them, in frames with TensorArrays: make_tf1.py

Writes NAME.pb and NAME.txt as make.py does; y holds all outputs and then the last state. Needs tensorflow and
tf_keras (PyPI).
"""
import os

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
os.environ['TF_USE_LEGACY_KERAS'] = '1'
import numpy as np
import tensorflow as tf
from tf_keras.src.layers.rnn import legacy_cells as cells

v1 = tf.compat.v1
v1.disable_v2_behavior()
v1.disable_control_flow_v2()
v1.disable_resource_variables()
HERE = os.path.dirname(os.path.abspath(__file__))
D, U = 5, 18


def write(name, cell, time_major=False, length=None):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(3)
        x = v1.placeholder(tf.float32, [None, None, D], name='x')
        lengths = None if length is None else tf.fill([tf.shape(x)[0]], length)
        outputs, state = v1.nn.dynamic_rnn(cell(U), tf.transpose(x, [1, 0, 2]) if time_major else x, dtype=tf.float32,
                                           time_major=time_major, sequence_length=lengths)
        last = state.h if hasattr(state, 'h') else state
        tf.concat([tf.reshape(outputs, [-1]), tf.reshape(last, [-1])], 0, name='y')
        session.run(v1.global_variables_initializer())
        feed = np.random.RandomState(5).randn(3, 4, D).astype(np.float32)
        answer = session.run('y:0', {x: feed})
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ['y'])
    for node in frozen.node:
        for key in [k for k in node.attr if k.startswith('_')]:
            del node.attr[key]
    with open(f'{HERE}/{name}.pb', 'wb') as file:
        file.write(frozen.SerializeToString())
    with open(f'{HERE}/{name}.txt', 'w') as file:
        file.write('y:0\n')
        for v in (feed, answer):
            file.write(f'f {v.ndim} {" ".join(map(str, v.shape))}\n')
            file.write(' '.join(f'{n:.9g}' for n in v.ravel().tolist()) + '\n')
    print(name, flush=True)


write('tf1_lstm', cells.LSTMCell)
write('tf1_basic_lstm', cells.BasicLSTMCell, time_major=True)
write('tf1_gru', cells.GRUCell)
write('tf1_lstm_length', cells.LSTMCell, length=3)
