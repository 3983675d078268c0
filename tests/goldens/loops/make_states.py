"""Writes loops with initial states that are broadcast to the batch, and loops with output lists that no node reads (see
make.py).

    python make_states.py [NAME...]

The input x of each graph has shape [time, batch, 2], and the initial states are constants. Cells multiply x and the
state separately, as in Keras.
In a case with "joined" in its name, the cell multiplies the concatenation of x and the state, as in TensorFlow 1.
"""
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
raw, v1 = tf.raw_ops, tf.compat.v1
U, D = 3, 2

# Maps a name to (shape of h, shape of c, fetched tensor, length of the list, last step). A length or last step of None
# means the number of steps in x.
CASES = {
    'states_scalar': ([1, U], [], 'y', None, None),
    'states_vector': ([1, U], [U], 'y', None, None),
    'states_one': ([1, U], [1], 'c', None, None),
    'states_column': ([2, U], [2, 1], 'y', None, None),
    'states_rows': ([1, U], [2, U], 'h', None, None),
    'states_whole': ([2, U], [2, U], 'h', None, None),
    'states_kept': ([7, U], [2, 5, 1], 'c', None, 0),
    'states_joined': ([2, U], [U], 'h', None, None),
    'states_joined_one': ([1, U], [1, U], 'y', None, None),
    'states_joined_once': ([1, U], [2, U], 'c', None, 1),
    'states_list_unread': ([2, U], [2, U], 'h', 4, None),
    'states_list_first': ([2, U], [2, U], 'h', 1, None),
    'states_gru': ([1, U], [], 'h', None, None),
    'states_gru_rows': ([2, U], [], 'y', None, None),
}


def lstm(z, c):
    i, f, new, o = raw.Split(axis=tf.constant(1), value=z, num_split=4)
    c = raw.AddV2(x=raw.Mul(x=raw.Sigmoid(x=f), y=c), y=raw.Mul(x=raw.Sigmoid(x=i), y=raw.Tanh(x=new)))
    return raw.Mul(x=raw.Sigmoid(x=o), y=raw.Tanh(x=c)), c


def gru(x, h, h_old):
    x, h = [raw.Split(axis=tf.constant(1), value=v, num_split=3) for v in (x, h)]
    update, reset = [raw.Sigmoid(x=raw.AddV2(x=x[k], y=h[k])) for k in (0, 1)]
    new = raw.Tanh(x=raw.AddV2(x=x[2], y=raw.Mul(x=reset, y=h[2])))
    one = raw.Sub(x=tf.constant(1.), y=update)
    return raw.AddV2(x=raw.Mul(x=update, y=h_old), y=raw.Mul(x=one, y=new))


def build(name, h_shape, c_shape, fetch, length, last):
    random = np.random.RandomState(len(name))
    const = lambda *shape: tf.constant((random.randn(*shape) * 0.5).astype(np.float32))
    x = v1.placeholder(tf.float32, None, name='x')
    n = 3 if 'gru' in name else 4
    w, r, b = const(D, n * U), const(U, n * U), const(n * U)
    both = raw.ConcatV2(values=[w, r], axis=tf.constant(0)) if 'joined' in name else None
    h0, c0 = const(*h_shape), tf.constant(np.asarray(random.randn(*c_shape), np.float32))
    time = raw.StridedSlice(input=raw.Shape(input=x), begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    items = raw.TensorListFromTensor(tensor=x, element_shape=tf.constant(-1))
    out = raw.TensorListReserve(element_shape=tf.constant(-1), element_dtype=tf.float32,
                                num_elements=time if length is None else tf.constant(length))
    end = time if last is None else tf.constant(last)

    def body(t, out, h, c):
        x_t = raw.TensorListGetItem(input_handle=items, index=t, element_shape=tf.constant(-1),
                                    element_dtype=tf.float32)
        if n == 3:
            x_t, h_r = raw.MatMul(a=x_t, b=w), raw.MatMul(a=h, b=r)
            new = gru(raw.BiasAdd(value=x_t, bias=b), h_r, h), c
        elif both is not None:
            z = raw.MatMul(a=raw.ConcatV2(values=[x_t, h], axis=tf.constant(1)), b=both)
            new = lstm(raw.BiasAdd(value=z, bias=b), c)
        else:
            z = raw.AddV2(x=raw.MatMul(a=x_t, b=w), y=raw.MatMul(a=h, b=r))
            new = lstm(raw.BiasAdd(value=z, bias=b), c)
        item = tf.constant(0) if name == 'states_list_first' else t
        return t + 1, raw.TensorListSetItem(input_handle=out, index=item, item=new[0]), *new

    free = tf.TensorShape(None)
    done = tf.while_loop(lambda t, out, h, c: raw.Less(x=t, y=end), body, [tf.constant(0), out, h0, c0],
                         shape_invariants=[tf.TensorShape([]), tf.TensorShape([]), free, free])
    if fetch == 'y':
        return x, raw.TensorListStack(input_handle=done[1], element_shape=tf.constant([-1, U]),
                                      element_dtype=tf.float32)
    return x, raw.Identity(input=done['_thc'.index(fetch)])


v1.enable_control_flow_v2()
for name, case in CASES.items():
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    graph = tf.Graph()
    with graph.as_default():
        x, y = build(name, *case)
    value = np.random.RandomState(5).randn(4, 1 if '_joined_on' in name else 2, D).astype(np.float32)
    with v1.Session(graph=graph) as session:
        got = session.run(y, {x: value})
    definition = graph.as_graph_def()
    for node in [*definition.node, *(n for f in definition.library.function for n in f.node_def)]:
        for key in [k for k in node.attr if k.startswith('_') or k == 'output_shapes']:
            del node.attr[key]
    with open(f'{HERE}/{name}.pb', 'wb') as file:
        file.write(definition.SerializeToString())
    with open(f'{HERE}/{name}.txt', 'w') as file:
        file.write(f'{y.name}\n')
        for v in (value, got):
            file.write(f'f {v.ndim} {" ".join(map(str, v.shape))}\n')
            file.write(' '.join(f'{n:.9g}' for n in v.ravel().tolist()) + '\n')
    print(name, got.shape, flush=True)
