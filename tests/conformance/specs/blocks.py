"""Test cases for LSTM and GRU blocks and their gradients."""

from spec import *

SIZES = ((2, 3, 4), (1, 1, 1), (5, 7, 3), (3, 2, 20))  # batch, inputs, units
HOW = {"float32": {"rtol": 2e-5}, "float16": {"rtol": 2e-2, "atol": 5e-3}}


def near(g, dtype, *shape):
    return g.values(dtype, shape, lo=-1, hi=1, special=False)


def cell(g, dtype, batch, inputs, units):
    """Returns the inputs of a cell: x, cs_prev, h_prev, w, wci, wcf, wco and b."""
    return [near(g, dtype, *s) for s in ((batch, inputs), (batch, units), (batch, units), (inputs + units, 4 * units), (units,), (units,), (units,), (4 * units,))]


@spec("LSTMBlockCell")
def lstm(g, op):
    for dtype in HOW:
        for sizes in SIZES:
            for peephole in (True, False):
                for clip in (3.0, 0.5, 0.0, -1.0):
                    for bias in (1.0, 0.0, -0.5):
                        yield Case(*cell(g, dtype, *sizes), use_peephole=peephole, cell_clip=clip, forget_bias=bias, **HOW[dtype])
    for k, shape in ((1, (1, 4)), (2, (1, 4)), (2, (2, 3)), (3, (3, 16)), (3, (7, 8)), (7, (3,)), (1, (2, 3))):
        inputs = cell(g, "float32", 2, 3, 4)
        inputs[k] = near(g, "float32", *shape)
        yield Case(*inputs, texts=True)


@spec("BlockLSTM", "BlockLSTMV2")
def block(g, op):
    for dtype in HOW:
        for sizes in SIZES:
            for peephole in (True, False):
                for clip in (3.0, 0.5, 0.0):
                    for steps, used in ((1, 1), (4, 4), (5, 2), (3, 0)):
                        inputs = cell(g, dtype, *sizes)
                        inputs[0] = near(g, dtype, steps, *sizes[:2])
                        bias = {} if op.endswith("V2") else {"forget_bias": float(g.rng.choice([1, 0, 0.5]))}
                        # TensorFlow leaves the gates of unused steps undefined.
                        yield Case(np.int64(used), *inputs, use_peephole=peephole, cell_clip=clip, outputs=None if steps == used else [1, 6], **bias, **HOW[dtype])


@spec("LSTMBlockCellGrad")
def lstm_grad(g, op):
    for dtype in HOW:
        for sizes in SIZES:
            for peephole in (True,) * 12 + (False,) * 13:
                more = [near(g, dtype, sizes[0], sizes[2]) for _ in range(8)]
                # Without peepholes, TensorFlow leaves the gradients of their weights undefined.
                yield Case(*cell(g, dtype, *sizes), *more, use_peephole=peephole, outputs=None if peephole else [0, 1], **HOW[dtype])


@spec("BlockLSTMGrad", "BlockLSTMGradV2")
def block_grad(g, op):
    for dtype in HOW:
        for sizes in SIZES:
            for peephole in (True, False):
                for steps, used in ((1, 1), (4, 4), (5, 2)) * 5:
                    inputs = cell(g, dtype, *sizes)
                    inputs[0] = near(g, dtype, steps, *sizes[:2])
                    more = [near(g, dtype, steps, sizes[0], sizes[2]) for _ in range(9)]
                    yield Case(np.int64(used), *inputs, *more, use_peephole=peephole, outputs=None if peephole else [0, 1, 2, 3, 7], **HOW[dtype])


def gru_cell(g, batch, inputs, units):
    return [near(g, "float32", *s) for s in ((batch, inputs), (batch, units), (inputs + units, 2 * units), (inputs + units, units), (2 * units,), (units,))]


@spec("GRUBlockCell", rtol=2e-5)
def gru(g, op):
    for sizes in SIZES:
        for _ in range(50):
            yield Case(*gru_cell(g, *sizes))
    for k, shape in ((1, (1, 4)), (1, (2, 3)), (2, (3, 8)), (2, (7, 3)), (3, (3, 4)), (3, (7, 5)), (4, (3,)), (4, (1, 8)), (5, (3,)), (5, (1, 4))):
        inputs = gru_cell(g, 2, 3, 4)
        inputs[k] = near(g, "float32", *shape)
        yield Case(*inputs, texts=True)


@spec("GRUBlockCellGrad", rtol=2e-5)
def gru_grad(g, op):
    for sizes in SIZES:
        for _ in range(50):
            yield Case(*gru_cell(g, *sizes), *(near(g, "float32", sizes[0], sizes[2]) for _ in range(4)))
