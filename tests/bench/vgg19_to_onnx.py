"""Converts vgg19 for ONNX Runtime: vgg19_to_onnx.py MODELS_DIR. tf2onnx would need more than 16 GB, so the layers
are written one by one, with the weights of MODELS_DIR/vgg19/1, which make_models.py made.
"""
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

BLOCKS = (2, 2, 4, 4, 4)


def weights(folder):
    """Yields vgg19's filters and biases in the order of the layers."""
    reader = tf.train.load_checkpoint(f'{folder}/variables/variables')
    keys = [k for k in reader.get_variable_to_shape_map() if k.startswith('variables/')]
    for key in sorted(keys, key=lambda k: int(k.split('/')[1])):
        yield reader.get_tensor(key)


def main(models):
    nodes, constants, at, given = [], [], 'x', weights(f'{models}/vgg19/1')

    def constant(value, name):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op, *more, **attrs):
        nonlocal at
        name = f'{op}_{len(nodes)}'
        nodes.append(helper.make_node(op, [at, *more], [name], name=name, **attrs))
        at = name

    node('Transpose', perm=[0, 3, 1, 2])
    for layers in BLOCKS:
        for _ in range(layers):
            n = len(nodes)
            node('Conv', constant(next(given).transpose(3, 2, 0, 1), f'w{n}'), constant(next(given), f'b{n}'), pads=[1, 1, 1, 1],
                 kernel_shape=[3, 3])
            node('Relu')
        node('MaxPool', kernel_shape=[2, 2], strides=[2, 2])
    node('Transpose', perm=[0, 2, 3, 1])
    node('Flatten')
    for activation in ('Relu', 'Relu', 'Softmax'):
        n = len(nodes)
        node('Gemm', constant(next(given), f'w{n}'), constant(next(given), f'b{n}'))
        node(activation)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (('x', ['n', 224, 224, 3]), (at, ['n', 1000]))]
    graph = helper.make_graph(nodes, 'vgg19', ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, f'{models}/vgg19.onnx')


if __name__ == '__main__':
    main(sys.argv[1])
