#!/usr/bin/env python3
"""Compares gradients with numeric ones: gradients.py [NAME...]

For each function of FUNCTIONS, TensorFlow builds the graph of its gradients. op_runner (both tiers) computes them, and the
values of the function beside each of some elements, whose differences must agree. So a gradient op is checked against the
kernel of its own forward op, and not only against TensorFlow's gradient op. The last lines name the gradient ops of
ops.txt that no function reaches, which must be those of EXEMPT.
"""
import argparse
import functools
import pathlib
import re
import sys

# imported before TensorFlow, because `run` sets environment variables that TensorFlow reads
from run import ROOT, TIERS, Refusal, Runner, np  # isort: skip
import tensorflow as tf

v1, raw = tf.compat.v1, tf.raw_ops
HERE = pathlib.Path(__file__).resolve().parent
ELEMENTS = 12  # of each input whose gradient is compared
# For each type: the distance of the two values on both sides of an element, and the permitted relative error.
STEP = {np.dtype("float64"): (1e-5, 1e-5), np.dtype("float32"): (4e-3, 2e-2)}

# Gradient ops that have no numeric gradient, each with the reason.
EXEMPT = {
    "AccumulatorApplyGradient|AccumulatorTakeGradient|ResourceAccumulator\\w+|SparseAccumulator\\w+": "keeps gradients",
    "(Resource)?(Sparse)?Apply\\w*GradientDescent": "an update",
    "BroadcastGradientArgs": "computes axes",
    "StopGradient|PreventGradient": "has no gradient, on purpose",
    "FakeQuant\\w+Gradient|QuantizeAndDequantizeV4Grad": "the gradient of a function that is not rounded",
    "TensorArrayGrad\\w+": "makes an array for gradients",
    "RaggedTensorToVariantGradient|UnbatchGrad": "moves parts of a gradient",
    "RandomGammaGrad": "the sample jumps where a number is rejected",
    "CholeskyGrad": "TensorFlow's graphs of gradients do not use it; it agrees with them in specs/gradients.py",
    "FusedBatchNormGradV2|FusedBatchNormGrad": "TensorFlow's graphs use the third version, which has the same kernel",
    "MaxPoolGradGrad\\w*|MaxPool3DGradGrad": "its forward op is a gradient op that chooses elements",
    "SparseSegment\\w+GradV2": "the other version has the same kernel",
}


def numbers(*shape, lo=-1.0, hi=1.0, dtype=np.float64, seed=1):
    return np.random.default_rng([seed, *shape]).uniform(lo, hi, shape).astype(dtype)


def apart(*shape, dtype=np.float64, seed=1):
    """Returns numbers of which no two are close, and none is close to 0."""
    n = int(np.prod(shape))
    return (np.random.default_rng([seed, *shape]).permutation(n) - n / 2 + 0.25).reshape(shape).astype(dtype) / 4


f32 = np.float32
ROWS = np.array([0, 2, 3, 1, 2], np.int32)
LSTM = [numbers(3, 2, 4, dtype=f32), numbers(7, 12, dtype=f32), numbers(12, dtype=f32)]
# No sample lies on a pixel, where the gradient of a position jumps.
BOXES = np.array([[0.11, 0.12, 0.83, 0.87], [0.33, 0.13, 0.91, 0.71], [0.02, 0.31, 0.57, 0.9]], f32)


def resize(name, k, x):
    return getattr(raw, name)(images=x, size=[7, 3], align_corners=k == 1, half_pixel_centers=k == 2)


def batch_norm(x, scale, offset):
    return raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=[], variance=[], epsilon=0.01)[0]


def frozen_batch_norm(x, scale, offset):
    return raw.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=[0.1, 0.2], variance=[1.0, 2.0], epsilon=0.01, is_training=False)[0]


def block_lstm(x, w, b, version):
    """Returns h of all steps. TensorFlow's graph of gradients has the first version's op for both versions, whose order of
    gates differs, so the op is named here."""
    given = dict(seq_len_max=tf.constant(3, tf.int64), x=x, cs_prev=tf.zeros([2, 3]), h_prev=tf.zeros([2, 3]), w=w, wci=tf.zeros([3]),
                 wcf=tf.zeros([3]), wco=tf.zeros([3]), b=b)
    if version == 1:
        return raw.BlockLSTM(**given, forget_bias=1.0)[6]
    i, cs, f, o, ci, co, h = raw.BlockLSTMV2(**given)

    def gradients(d):
        found = raw.BlockLSTMGradV2(**given, i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=h, cs_grad=tf.zeros_like(cs), h_grad=d,
                                    use_peephole=False)
        return found.x_grad, found.w_grad, found.b_grad

    return h, gradients


def gru_cell(x, h):
    """Returns the cell's h, and the gradients of x and h by the op of the cell's gradient for a gradient of h."""
    w_ru, w_c = (tf.constant(numbers(5, n, dtype=f32)) for n in (6, 3))
    given = dict(x=x, h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=tf.ones([6]) / 5, b_c=tf.ones([3]) / 3)
    r, u, c, out = raw.GRUBlockCell(**given)
    return out, lambda d: raw.GRUBlockCellGrad(**given, r=r, u=u, c=c, d_h=d)[:2]


def lstm_cell(cs):
    """As above, for the state of an LSTM cell, whose gradient at cs and h is the same."""
    x, h, w, b = (tf.constant(numbers(*s, dtype=f32)) for s in ((2, 4), (2, 3), (7, 12), (12,)))
    given = dict(x=x, cs_prev=cs, h_prev=h, w=w, wci=tf.zeros([3]), wcf=tf.zeros([3]), wco=tf.zeros([3]), b=b)
    i, state, f, o, ci, co, _ = raw.LSTMBlockCell(**given, forget_bias=1.0)
    return state, lambda d: [raw.LSTMBlockCellGrad(**given, i=i, cs=state, f=f, o=o, ci=ci, co=co, cs_grad=d, h_grad=tf.zeros([2, 3]),
                                                   use_peephole=False)[0]]


def sparse(values):
    return tf.SparseTensor([[0, 1], [1, 0], [2, 2], [2, 3]], values, [4, 5])


# Maps a name to (function, inputs). A function returns a tensor, or a tensor and a function that makes the gradients of the
# inputs for a gradient of the tensor, where TensorFlow registers none.
FUNCTIONS = {
    **{name: (getattr(tf.nn, name), [apart(4, 5)]) for name in
       ("elu", "leaky_relu", "relu", "relu6", "selu", "softplus", "softsign", "sigmoid", "tanh", "gelu", "l2_loss")},
    "sqrt": (tf.sqrt, [numbers(7, lo=0.5, hi=2)]),
    "rsqrt": (tf.math.rsqrt, [numbers(7, lo=0.5, hi=2)]),
    "reciprocal": (tf.math.reciprocal, [numbers(7, lo=0.5, hi=2)]),
    "inv": (lambda x: (raw.Inv(x=x), lambda d: [raw.InvGrad(y=raw.Inv(x=x), dy=d)]), [numbers(7, lo=0.5, hi=2)]),
    "softplus_grad": (lambda x: (tf.nn.softplus(x), lambda d: [raw.SoftplusGrad(gradients=d, features=x)]), [numbers(7)]),
    "igamma": (tf.math.igamma, [numbers(6, lo=1, hi=4), numbers(6, lo=1, hi=4, seed=2)]),
    "bias_add": (tf.nn.bias_add, [numbers(2, 3, 4), numbers(4)]),
    "bias_add_channels_first": (lambda x, b: tf.nn.bias_add(x, b, "NCHW"), [numbers(2, 3, 4), numbers(3)]),
    "conv2d": (lambda x, w: tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME"), [numbers(2, 7, 8, 3), numbers(3, 3, 3, 4)]),
    "conv2d_explicit": (lambda x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 1], [0, 0]]), [numbers(1, 6, 6, 4), numbers(2, 3, 4, 4)]),
    "conv2d_float": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), [numbers(1, 6, 6, 4, dtype=f32), numbers(3, 3, 4, 8, dtype=f32)]),
    "conv3d": (lambda x, w: tf.nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"), [numbers(1, 4, 5, 4, 2), numbers(2, 3, 2, 2, 3)]),
    "depthwise": (lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"), [numbers(2, 6, 5, 3), numbers(3, 2, 3, 2)]),
    "dilation2d": (lambda x, w: tf.nn.dilation2d(x, w, [1, 1, 2, 1], "SAME", "NHWC", [1, 2, 1, 1]), [apart(1, 6, 6, 2), numbers(2, 2, 2)]),
    "mirror_pad": (lambda x: tf.pad(x, [[1, 2], [2, 0]], "REFLECT"), [numbers(4, 3)]),
    "symmetric_pad": (lambda x: tf.pad(x, [[1, 2], [2, 0]], "SYMMETRIC"), [numbers(4, 3)]),
    "strided_slice": (lambda x: x[1:, ::-2, tf.newaxis, 1], [numbers(4, 5, 2)]),
    "crop_and_resize": (lambda x, boxes: tf.image.crop_and_resize(x, boxes, [0, 1, 0], [3, 4]), [numbers(2, 6, 7, 2, dtype=f32), BOXES]),
    **{f"{name}_{k}": (functools.partial(resize, name, k), [numbers(2, 4, 5, 2, dtype=f32)])
       for k in range(3) for name in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor")},
    "scale_and_translate": (lambda x: raw.ScaleAndTranslate(images=x, size=[6, 5], scale=[1.3, 0.8], translation=[0.4, -0.2]),
                            [numbers(1, 5, 6, 2, dtype=f32)]),
    "batch_norm": (batch_norm, [numbers(4, 3, 3, 2, dtype=f32), numbers(2, dtype=f32), numbers(2, dtype=f32, seed=2)]),
    "frozen_batch_norm": (frozen_batch_norm, [numbers(4, 3, 3, 2, dtype=f32), numbers(2, dtype=f32), numbers(2, dtype=f32, seed=2)]),
    "lrn": (lambda x: tf.nn.local_response_normalization(x, 2, 1.0, 0.5, 0.75), [numbers(2, 3, 3, 7, dtype=f32)]),
    "avg_pool": (lambda x: tf.nn.avg_pool2d(x, [2, 3], [1, 2], "SAME"), [numbers(2, 5, 6, 3)]),
    "avg_pool3d": (lambda x: tf.nn.avg_pool3d(x, 2, [1, 2, 1], "VALID"), [numbers(1, 4, 5, 4, 2, dtype=f32)]),
    "max_pool": (lambda x: tf.nn.max_pool2d(x, [2, 3], [1, 2], "SAME"), [apart(2, 5, 6, 3)]),
    "max_pool_v2": (lambda x: raw.MaxPoolV2(input=x, ksize=[1, 2, 3, 1], strides=[1, 1, 2, 1], padding="VALID"), [apart(2, 5, 6, 3)]),
    "max_pool_with_argmax": (lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0], [apart(2, 5, 6, 3)]),
    "max_pool3d": (lambda x: tf.nn.max_pool3d(x, 2, [1, 2, 1], "VALID"), [apart(1, 4, 5, 4, 2, dtype=f32)]),
    "fractional_avg_pool": (lambda x: tf.nn.fractional_avg_pool(x, [1.0, 1.5, 1.3, 1.0], True, True, 3)[0], [numbers(1, 7, 8, 2)]),
    "fractional_max_pool": (lambda x: tf.nn.fractional_max_pool(x, [1.0, 1.5, 1.3, 1.0], True, True, 3)[0], [apart(1, 7, 8, 2)]),
    "softmax_cross_entropy": (lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.constant([[0.2, 0.5, 0.3], [1.0, 0, 0]], tf.float64), x),
                              [numbers(2, 3)]),
    "sparse_softmax_cross_entropy": (lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([2, 0], x), [numbers(2, 3)]),
    "ctc_loss": (lambda x: v1.nn.ctc_loss(tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 0, 2], [2, 2]), x, [5, 4]), [numbers(5, 2, 4)]),
    "block_lstm": (lambda x, w, b: block_lstm(x, w, b, 1), LSTM),
    "block_lstm_v2": (lambda x, w, b: block_lstm(x, w, b, 2), LSTM),
    "gru_cell": (gru_cell, [numbers(2, 2, dtype=f32), numbers(2, 3, dtype=f32)]),
    "lstm_cell": (lstm_cell, [numbers(2, 3, dtype=f32)]),
    "sparse_segment_sum": (lambda x: tf.sparse.segment_sum(x, ROWS, [0, 0, 1, 2, 2]), [numbers(4, 3)]),
    "sparse_segment_mean": (lambda x: tf.sparse.segment_mean(x, ROWS, [0, 0, 1, 2, 2]), [numbers(4, 3)]),
    "sparse_segment_sqrt_n": (lambda x: tf.sparse.segment_sqrt_n(x, ROWS, [0, 0, 1, 2, 2]), [numbers(4, 3)]),
    "sparse_add": (lambda a, b: tf.sparse.add(sparse(a), tf.SparseTensor([[0, 1], [3, 3]], b, [4, 5])).values, [numbers(4), numbers(2)]),
    "sparse_fill_empty_rows": (lambda a, b: tf.sparse.fill_empty_rows(sparse(a), b)[0].values, [numbers(4), numbers()]),
    "sparse_slice": (lambda a: tf.sparse.slice(sparse(a), [1, 0], [2, 3]).values, [numbers(4)]),
    "ragged_fill_empty_rows": (lambda a, b: raw.RaggedFillEmptyRows(value_rowids=np.array([1, 1, 3], np.int64), values=a,
                                                                    nrows=np.int64(5), default_value=b)[1], [numbers(3), numbers()]),
}


class Unanswered(Exception):
    """op_runner has refused a run, or has died."""


class Step:
    """One run of a graph, as run.Runner expects it."""

    def __init__(self, fetches, feeds):
        self.feeds, self.steps = list(feeds), [fetches]


class Function:
    """The graph of a function: the sum of its elements by fixed weights, and the gradients of this sum."""

    def __init__(self, function, inputs):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.inputs = [v1.placeholder(x.dtype, x.shape) for x in inputs]
            made = function(*self.inputs)
            y, gradients_of = made if isinstance(made, tuple) else (made, None)
            self.weights = v1.placeholder(y.dtype, None)
            self.y = tf.identity(y)
            weights = tf.reshape(self.weights, tf.shape(y))
            found = gradients_of(weights) if gradients_of else v1.gradients(tf.reduce_sum(y * weights), self.inputs)
            self.gradients = [tf.identity(tf.convert_to_tensor(g)) for g in found]
        self.values = inputs

    def ops(self):
        return {n.op for n in self.graph.as_graph_def().node}

    def feeds(self, values, weights):
        return [*zip(self.inputs, values), *([] if weights is None else [(self.weights, weights)])]

    def check(self, runner):
        """Returns why the gradients are wrong, or None."""
        def asked(fetches, values, weights):
            results = runner.run(Step(fetches, self.feeds(values, weights)))[0]
            if isinstance(results, Refusal):
                raise Unanswered(str(results))
            return results

        refusal = runner.load(self.graph.as_graph_def().SerializeToString())
        if refusal:
            return str(refusal)
        shape = asked([self.y], self.values, None)[0].shape
        weights = numbers(*shape, lo=0.5, hi=1.5, dtype=self.weights.dtype.as_numpy_dtype, seed=3)
        gradients = asked(self.gradients, self.values, weights)
        for k, (value, gradient) in enumerate(zip(self.values, gradients)):
            step, limit = STEP[value.dtype]
            scale = max(1e-2, float(np.abs(gradient).max(initial=0)))
            chosen = np.random.default_rng(k).permutation(value.size)[:ELEMENTS]
            for at in chosen:
                sums = []
                for sign in (1, -1):
                    moved = value.copy()
                    moved.flat[at] += sign * step
                    values = [moved if i == k else v for i, v in enumerate(self.values)]
                    sums.append(float((asked([self.y], values, weights)[0].astype(np.float64) * weights).sum()))
                numeric = (sums[0] - sums[1]) / (2 * step)
                if abs(numeric - gradient.flat[at]) > limit * scale:
                    return f"input {k}, element {at}: {gradient.flat[at]}, but the values differ by {numeric}"
        return None


def gradient_ops():
    """Returns the gradient ops that are needed."""
    rows = (line.split() for line in (HERE / "ops.txt").read_text().splitlines() if not line.startswith("#"))
    return {row[1] for row in rows if row[2] == "needed" and re.search("Grad|Backprop", row[1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runner", default=str(ROOT / "build/release/tests/op_runner"))
    options = parser.parse_args()
    v1.disable_eager_execution()
    runners = [Runner(options.runner, tf, tuning) for tuning in TIERS]
    failed, reached = 0, set()
    for name, (function, inputs) in FUNCTIONS.items():
        if options.names and name not in options.names:
            continue
        made = Function(function, inputs)
        reached |= made.ops()
        problems = []
        for runner in runners:
            try:
                problems += filter(None, [made.check(runner)])
            except Unanswered as refused:
                problems.append(str(refused))
        failed += bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {name}" + (f": {problems[0]}" if problems else ""), flush=True)
    n = len(options.names or FUNCTIONS)
    if not options.names:
        missing = {op for op in gradient_ops() - reached if not any(re.fullmatch(e, op) for e in EXEMPT)}
        failed += bool(missing)
        print(f"{len(gradient_ops() & reached)} gradient ops are checked; not checked and not exempt:", *sorted(missing) or ["none"])
    print(f"{n - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
