"""Writes recurrent layers as TensorFlow 1 wrote them, in frames with TensorArrays: make_tf1.py [NAME...]

Writes NAME.pb and NAME.txt as make.py does. y contains all outputs, followed by the last states. Needs tensorflow and
tf_keras (PyPI).
"""
import os
import sys

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


def answer_of(outputs, states):
    parts = [outputs] + tf.nest.flatten(states)
    return tf.concat([tf.reshape(part, [-1]) for part in parts], 0, name='y')


def one_way(x, cell, time_major=False, length=None):
    lengths = None if length is None else tf.fill([tf.shape(x)[0]], length) if length else row_lengths(x)
    return v1.nn.dynamic_rnn(cell(), tf.transpose(x, [1, 0, 2]) if time_major else x, dtype=tf.float32,
                             time_major=time_major, sequence_length=lengths)


def row_lengths(x, more=2):
    """Derives a sequence length from each row's values. The length is at most the number of steps plus `more`."""
    span = tf.cast(tf.shape(x)[1] + 1 + more, tf.float32)
    return tf.cast(tf.math.floormod(tf.abs(tf.reduce_sum(x[:, :1, 0], 1)) * 7, 1) * span, tf.int32)


def both_ways(x, cell, length=None):
    outputs, states = v1.nn.bidirectional_dynamic_rnn(cell(), cell(), x, dtype=tf.float32,
                                                      sequence_length=None if length is None else row_lengths(x, 0))
    return tf.concat(outputs, 2), states


def write(name, cell, way=one_way, rows=None, loops='frames', **options):
    (v1.enable_control_flow_v2 if loops == 'functions' else v1.disable_control_flow_v2)()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(3)
        x = v1.placeholder(tf.float32, [rows, None, D], name='x')
        answer_of(*way(x, cell, **options))
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


def some(names):
    return lambda: cells.MultiRNNCell([make() for make in names])


LSTM, BASIC_LSTM = lambda: cells.LSTMCell(U), lambda: cells.BasicLSTMCell(U)
GRU, BASIC = lambda: cells.GRUCell(U), lambda: cells.BasicRNNCell(U)
ROWS = 0 # ROWS as an argument means that each row has its own length
FORMS = {
    'tf1_lstm': (LSTM, one_way, {}),
    'tf1_basic_lstm': (BASIC_LSTM, one_way, {'time_major': True}),
    'tf1_gru': (GRU, one_way, {}),
    'tf1_lstm_length': (LSTM, one_way, {'length': 3}),
    'tf1_lstm_rows': (LSTM, one_way, {'length': ROWS}),
    'tf1_gru_rows': (GRU, one_way, {'length': ROWS}),
    'tf1_basic': (BASIC, one_way, {}),
    'tf1_relu_rows': (lambda: cells.BasicRNNCell(U, activation=tf.nn.relu), one_way, {'length': ROWS}),
    'tf1_lstm_relu': (lambda: cells.LSTMCell(U, activation=tf.nn.relu, forget_bias=0.0), one_way, {}),
    'tf1_stack': (some([LSTM, GRU, lambda: cells.LSTMCell(4)]), one_way, {}),
    'tf1_stack_rows': (some([LSTM, GRU]), one_way, {'length': ROWS}),
    'tf1_both_ways': (LSTM, both_ways, {}),
    'tf1_both_ways_rows': (GRU, both_ways, {'length': ROWS}),
    'tf1_fixed_rows': (LSTM, one_way, {'rows': 3}),
    'tf1_fixed_stack': (some([LSTM, GRU]), one_way, {'rows': 3, 'length': ROWS}),
    'tf1_while_rows': (LSTM, one_way, {'length': ROWS, 'loops': 'functions'}),
    'tf1_while_stack': (some([GRU, BASIC]), one_way, {'length': ROWS, 'loops': 'functions'}),
    'tf1_peephole': (lambda: cells.LSTMCell(U, use_peepholes=True), one_way, {'length': ROWS}),
    'tf1_projection': (lambda: cells.LSTMCell(U, num_proj=7), one_way, {}),
    'tf1_clip': (lambda: cells.LSTMCell(U, cell_clip=0.2), one_way, {}),
}
for name, (cell, way, options) in FORMS.items():
    if not sys.argv[1:] or name in sys.argv[1:]:
        write(name, cell, way, **options)
