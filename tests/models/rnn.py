"""Recurrent networks of Keras 3 and tf_keras."""
from catalogue import Request, in_both, integers, keras_of, model, np, random, save, save_signatures

WIDTH = 8


def stacked(k, x):
    x = k.layers.LSTM(10, return_sequences=True)(x)
    x = k.layers.GRU(10, return_sequences=True, reset_after=False)(x)
    x = k.layers.SimpleRNN(6, activation="relu", return_sequences=True)(x)
    return k.layers.LSTM(5, activation="elu", recurrent_activation="hard_sigmoid", use_bias=False, unit_forget_bias=False)(x)


def bidirectional(k, x):
    x = k.layers.Bidirectional(k.layers.LSTM(6, return_sequences=True))(x)
    x = k.layers.Bidirectional(k.layers.GRU(5, return_sequences=True), merge_mode="sum")(x)
    x = k.layers.Bidirectional(k.layers.SimpleRNN(5, return_sequences=True), merge_mode="mul",
                               backward_layer=k.layers.LSTM(5, return_sequences=True, go_backwards=True))(x)
    return k.layers.Bidirectional(k.layers.GRU(4), merge_mode=None)(x)


def masking(k, x):
    x = k.layers.Masking(0.0)(x)
    y = k.layers.LSTM(8, return_sequences=True, zero_output_for_mask=True)(x)
    z = k.layers.Bidirectional(k.layers.GRU(4))(y)
    return [y, z, k.layers.SimpleRNN(3)(x), k.layers.GRU(3, go_backwards=True)(x), k.layers.LSTM(3, go_backwards=True)(y)]


def return_state(k, x):
    y, h, c = k.layers.LSTM(6, return_sequences=True, return_state=True)(x)
    z, state = k.layers.GRU(6, return_state=True)(y, initial_state=h)
    w, last = k.layers.SimpleRNN(6, return_state=True, go_backwards=True)(y, initial_state=c)
    return [y, h, c, z, state, w, last, *k.layers.Bidirectional(k.layers.LSTM(3, return_state=True))(x)]


def go_backwards(k, x):
    return [layer(5, go_backwards=True, return_sequences=True)(x) for layer in (k.layers.SimpleRNN, k.layers.LSTM, k.layers.GRU)]


def custom_cell(k, x):
    class LeakyCell(k.layers.Layer):
        def __init__(self, units, **more):
            super().__init__(**more)
            self.units = self.state_size = self.output_size = units

        def get_config(self):
            return {**super().get_config(), "units": self.units}

        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1], self.units), initializer="glorot_uniform", name="kernel")
            self.leak = self.add_weight(shape=(self.units,), initializer="uniform", name="leak")

        def call(self, inputs, states):
            import tensorflow as tf

            h = tf.tanh(tf.matmul(inputs, self.kernel)) + states[0] * tf.sigmoid(self.leak)
            return h, [h]

    y = k.layers.RNN(LeakyCell(7), return_sequences=True)(x)
    cells = [k.layers.LSTMCell(5), LeakyCell(4), k.layers.GRUCell(3), k.layers.SimpleRNNCell(2)]
    return [y, k.layers.RNN(k.layers.StackedRNNCells(cells), return_sequences=True)(y)]


def time_distributed(k, x):
    x = k.layers.TimeDistributed(k.layers.Dense(12, activation="tanh"))(x)
    y = k.layers.TimeDistributed(k.layers.Reshape((4, 3)))(x)
    y = k.layers.TimeDistributed(k.layers.Conv1D(5, 2, activation="relu"))(y)
    y = k.layers.TimeDistributed(k.layers.BatchNormalization())(y)
    y = k.layers.TimeDistributed(k.layers.Flatten())(y)
    return k.layers.LSTM(4)(y)


SEQUENCES = {
    "simple_rnn": lambda k, x: k.layers.SimpleRNN(12)(x), "lstm": lambda k, x: k.layers.LSTM(12)(x),
    "gru": lambda k, x: k.layers.GRU(12)(x), "rnn_dropout": lambda k, x: k.layers.LSTM(5, dropout=0.3, recurrent_dropout=0.2)(x),
    "rnn_stacked": stacked, "rnn_bidirectional": bidirectional, "rnn_masking": masking, "rnn_return_state": return_state,
    "rnn_go_backwards": go_backwards, "rnn_custom_cell": custom_cell, "rnn_time_distributed": time_distributed,
}
# tf_keras takes minutes to save the functions of the layers of the others.
TRACED = ("simple_rnn", "lstm", "gru", "rnn_dropout", "rnn_stacked")


@model(*in_both(*SEQUENCES), stateless=True)
def sequences(folder, name):
    kind, keras = keras_of(name)
    x = keras.Input((None, WIDTH), name="x")
    save(keras.Model(x, SEQUENCES[kind](keras, x)), folder, traces=kind in TRACED)
    asked = []
    for i, shape in enumerate([(1, 5, WIDTH), (3, 5, WIDTH), (1, 9, WIDTH), (2, 1, WIDTH)]):
        values = random(i, shape, -1, 1)
        values[-1, shape[1] // 2:] = 0  # masked steps
        asked.append(Request("serving_default", {"x": values}))
    return asked


@model(*in_both("rnn_unrolled"), stateless=True)
def unrolled(folder, name):
    _, keras = keras_of(name)
    x = keras.Input((6, WIDTH), name="x")
    y = keras.layers.GRU(8, unroll=True, return_sequences=True)(x)
    ends = [keras.layers.LSTM(8, unroll=True)(y), keras.layers.SimpleRNN(3, unroll=True, go_backwards=True)(y)]
    save(keras.Model(x, ends), folder, traces=False)
    return [Request("serving_default", {"x": random(i, (i, 6, WIDTH), -1, 1)}) for i in (1, 4)]


@model(*in_both("rnn_tokens"), stateless=True)
def tokens(folder, name):
    _, keras = keras_of(name)
    x = keras.Input((None,), dtype="int32", name="tokens")
    y = keras.layers.Embedding(50, 16, mask_zero=True)(x)
    y = keras.layers.Bidirectional(keras.layers.LSTM(12, return_sequences=True))(y)
    y = keras.layers.GRU(10)(y)
    save(keras.Model(x, keras.layers.Dense(5, activation="softmax", name="scores")(y)), folder, traces=False)
    padded = integers(1, (4, 7), 50)
    padded[1, 4:] = padded[2] = 0
    out_of_range = integers(2, (1, 7), 50) + 30
    return [Request("serving_default", {"tokens": t}) for t in (integers(3, (1, 7), 50), padded, out_of_range, integers(4, (2, 12), 50))]


@model(*in_both("rnn_seq2seq"), stateless=True)
def seq2seq(folder, name):
    _, keras = keras_of(name)
    source, target = keras.Input((None,), dtype="int64", name="source"), keras.Input((None,), dtype="int64", name="target")
    _, h, c = keras.layers.LSTM(16, return_state=True)(keras.layers.Embedding(40, 8)(source))
    y = keras.layers.LSTM(16, return_sequences=True)(keras.layers.Embedding(60, 8)(target), initial_state=[h, c])
    save(keras.Model([source, target], keras.layers.Dense(60)(y)), folder, traces=False)
    shapes = [(1, 5, 1, 4), (3, 5, 3, 4), (3, 6, 2, 4), (2, 3, 2, 9)]  # The third has two batch sizes.
    return [Request("serving_default", {"source": integers(i, (b, n), 40, "int64"), "target": integers(i, (c, m), 60, "int64")})
            for i, (b, n, c, m) in enumerate(shapes)]


@model(*in_both("conv_lstm"), stateless=True)
def conv_lstm(folder, name):
    _, keras = keras_of(name)
    x = keras.Input((None, 8, 6, 2), name="x")
    y = keras.layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True)(x)
    y = keras.layers.Bidirectional(keras.layers.ConvLSTM2D(3, (2, 3), strides=2, activation="relu"))(y)
    line = keras.Input((None, 9, 3), name="line")
    z = keras.layers.ConvLSTM1D(4, 3, dilation_rate=2, go_backwards=True, return_sequences=True)(line)
    z = keras.layers.ConvLSTM1D(2, 2)(z)
    volume = keras.Input((None, 4, 5, 4, 1), name="volume")
    v = keras.layers.ConvLSTM3D(2, 2, padding="same")(volume)
    save(keras.Model([x, line, volume], [y, z, v]), folder, traces=False)
    return [Request("serving_default", {"x": random(i, (b, t, 8, 6, 2), -1, 1), "line": random(i, (b, t, 9, 3), -1, 1),
                                        "volume": random(i, (b, t, 4, 5, 4, 1), -1, 1)})
            for i, (b, t) in enumerate([(1, 4), (2, 4), (1, 7)])]


@model(*in_both("rnn_stateful"))
def stateful(folder, name):
    """The layers keep their states from call to call. Other signatures read, set and reset them."""
    import tensorflow as tf

    _, keras = keras_of(name)
    x = keras.Input(batch_shape=(2, None, 4), name="x")
    y = keras.layers.LSTM(6, stateful=True, return_sequences=True)(x)
    net = keras.Model(x, keras.layers.GRU(3, stateful=True)(y))
    net(np.zeros((2, 1, 4), np.float32))
    lstm, gru = net.layers[1:]
    held = [s if isinstance(s, tf.Variable) else s.value for s in (*lstm.states, *gru.states)]

    def reset():
        for s in held:
            s.assign(tf.zeros_like(s))
        return {"done": tf.constant(True)}

    def put(h):
        held[0].assign(h)
        return {"c": tf.identity(held[1])}

    save_signatures(folder, [net, *held],
                    step=(lambda x: {"y": net(x, training=False)}, tf.TensorSpec([2, None, 4], name="x")),
                    state=(lambda: {f"s{i}": tf.identity(s) for i, s in enumerate(held)},), reset=(reset,),
                    put=(put, tf.TensorSpec([2, 6], name="h")))
    step = [Request("step", {"x": random(i, (2, t, 4), -1, 1)}) for i, t in enumerate((3, 3, 1))]
    return [*step, Request("state", {}), step[0], Request("put", {"h": random(9, (2, 6))}), step[2], Request("state", {}),
            Request("reset", {}), Request("state", {})]
