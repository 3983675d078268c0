"""Writes recurrent layers as Keras exports them, and TensorFlow's outputs: make.py [NAME...]

Writes NAME.pb, a GraphDef with functional loops and the weights as constants, and NAME.txt: the shape and values of the
input x (integers or floats), then of the output y. Needs tensorflow and tf_keras (PyPI).
"""
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import keras
import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

HERE = os.path.dirname(os.path.abspath(__file__))
T, D, U, WORDS = 7, 5, 18, 20
STATIC, FREE, WORDS_IN, ROWS = (None, T, D), (None, None, D), (None, None), (3, None, D)


def layers(L):
    yield 'lstm_all', STATIC, [L.LSTM(U, return_sequences=True)]
    yield 'lstm_last', STATIC, [L.LSTM(U)]
    yield 'lstm_free_length', FREE, [L.LSTM(U, return_sequences=True), L.LSTM(4)]
    yield 'lstm_backwards', FREE, [L.LSTM(U, use_bias=False, go_backwards=True)]
    yield 'lstm_both_ways', STATIC, [L.Bidirectional(L.LSTM(U, return_sequences=True))]
    yield 'lstm_hard', STATIC, [L.LSTM(U, recurrent_activation='hard_sigmoid')]
    yield 'lstm_mask', WORDS_IN, [L.Embedding(WORDS, D, mask_zero=True), L.LSTM(U, return_sequences=True), L.LSTM(4)]
    yield 'lstm_cell', STATIC, [L.RNN(L.LSTMCell(U), return_sequences=True)]
    yield 'lstm_cells', STATIC, [L.RNN([L.LSTMCell(U), L.LSTMCell(4)], return_sequences=True)]
    yield 'gru_all', FREE, [L.GRU(U, return_sequences=True)]
    yield 'gru_last', STATIC, [L.GRU(U)]
    yield 'gru_before', STATIC, [L.GRU(U, reset_after=False)]
    yield 'gru_before_free', FREE, [L.GRU(U, reset_after=False, use_bias=False, return_sequences=True)]
    yield 'gru_no_bias', FREE, [L.GRU(U, use_bias=False, go_backwards=True)]
    yield 'gru_mask', WORDS_IN, [L.Embedding(WORDS, D, mask_zero=True), L.GRU(U, return_sequences=True), L.GRU(4)]
    yield 'simple', STATIC, [L.SimpleRNN(U)]
    yield 'simple_mask', WORDS_IN, [L.Embedding(WORDS, D, mask_zero=True), L.SimpleRNN(U, return_sequences=True)]
    yield 'simple_relu', FREE, [L.SimpleRNN(U, activation='relu', go_backwards=True, return_sequences=True)]
    yield 'gru_hard', STATIC, [L.GRU(U, recurrent_activation='hard_sigmoid', reset_after=False)]
    yield 'gru_relu', FREE, [L.GRU(U, activation='relu', return_sequences=True)]
    yield 'lstm_relu', STATIC, [L.LSTM(U, activation='relu', recurrent_activation='tanh', return_sequences=True)]
    yield 'lstm_linear', FREE, [L.LSTM(U, activation='linear')]
    yield 'cells_mask', WORDS_IN, [L.Embedding(WORDS, D, mask_zero=True),
                                   L.RNN([L.LSTMCell(U), L.GRUCell(6), L.SimpleRNNCell(4)], return_sequences=True)]
    yield 'both_ways_mask', WORDS_IN, [L.Embedding(WORDS, D, mask_zero=True),
                                       L.Bidirectional(L.LSTM(U, return_sequences=True))]
    yield 'lstm_split', STATIC, [L.LSTM(U, implementation=1, recurrent_activation='hard_sigmoid')]
    yield 'gru_split', FREE, [L.GRU(U, implementation=1, recurrent_activation='hard_sigmoid', return_sequences=True)]
    yield 'gru_split_no_bias', STATIC, [L.GRU(U, implementation=1, activation='relu', use_bias=False)]
    yield 'lstm_rows', ROWS, [L.LSTM(U, return_sequences=True), L.GRU(4)]
    yield 'lstm_unroll', STATIC, [L.LSTM(U, unroll=True)]


def write(name, function, spec):
    frozen = convert_variables_to_constants_v2(tf.function(function, input_signature=[spec]).get_concrete_function(),
                                               lower_control_flow=False)
    graph = frozen.graph.as_graph_def()
    for node in graph.node:
        for key in [k for k in node.attr if k.startswith('_')]:
            del node.attr[key]
    for body in graph.library.function:
        for node in body.node_def:
            for key in [k for k in node.attr if k.startswith('_') or k == 'output_shapes']:
                del node.attr[key]
    random = np.random.RandomState(5)
    shape = [3 if i == 0 else 4 if n is None else n for i, n in enumerate(spec.shape)]
    if spec.dtype.is_integer:
        x = random.randint(1, WORDS, shape).astype(np.int32)
        x[1, -2:] = 0
        x[2, 0] = 0
    else:
        x = random.randn(*shape).astype(np.float32)
    y = function(tf.constant(x)).numpy()
    with open(f'{HERE}/{name}.pb', 'wb') as file:
        file.write(graph.SerializeToString())
    with open(f'{HERE}/{name}.txt', 'w') as file:
        file.write(f'{frozen.outputs[0].name}\n')
        for v in (x, y):
            file.write(f'{"i" if v.dtype == np.int32 else "f"} {v.ndim} {" ".join(map(str, v.shape))}\n')
            file.write(' '.join(f'{n:.9g}' for n in v.ravel().tolist()) + '\n')
    print(name, flush=True)


for prefix, K in (('tf_keras', tf_keras), ('keras', keras)):
    for name, shape, stack in layers(K.layers):
        name = f'{prefix}_{name}'
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        dtype = 'int32' if shape is WORDS_IN else 'float32'
        model = K.Sequential([K.Input(shape[1:], dtype=dtype)] + stack)
        random = np.random.RandomState(len(name))
        model.set_weights([(random.randn(*w.shape) * 0.3).astype(np.float32) for w in model.get_weights()])
        write(name, lambda x: model(x), tf.TensorSpec(shape, dtype, name='x'))
