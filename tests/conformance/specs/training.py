"""Test cases for ops that update variables as optimisers do (kernels/training)."""

import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "opfuzz"))
import schema  # noqa: E402
from spec import *  # noqa: E402

KNOWN = schema.registry()
TYPES = {
    "AdaMax": WIDE_FLOATS + ["float16"], "AdagradDA": WIDE_FLOATS, "AdamWithAmsgrad": FLOATS, "AddSign": FLOATS,
    "Ftrl": FLOATS, "FtrlV2": FLOATS, "PowerSign": FLOATS, "ProximalAdagrad": WIDE_FLOATS,
    "ProximalGradientDescent": WIDE_FLOATS,
}
FLAGS = ["use_nesterov", "update_slots", "multiply_linear_by_lr"]
# Slots that contain sums of squares in training. Their values are not negative in the cases, so that they have square
# roots.
SQUARES = {"v", "vhat", "ms", "accum", "accum_update", "gradient_squared_accumulator"}
SCALARS = {"lr_power": (-0.5, -0.5, -0.7, 0.0), "beta1_power": (0.9, 0.5, 0.0), "beta2_power": (0.999, 0.5, 0.0),
           "epsilon": (1e-3, 1e-7, 1.0), "global_step": (7, 0, 1000)}
NUMBER = itertools.count()


class Rule:
    """The inputs and attributes of an op."""

    def __init__(self, op):
        self.op, self.is_resource, self.is_sparse = op, op.startswith("Resource"), "Sparse" in op
        self.rule = op.split("Apply")[1]
        self.inputs = KNOWN[op].inputs
        self.variables = [a.name for a in self.inputs if a.is_ref or a.dtype == 20]
        self.flags = [a.name for a in KNOWN[op].attrs if a.name in FLAGS]
        self.types = TYPES.get(self.rule, FLOATS + COMPLEX)
        if self.is_sparse and "RMSProp" in op:
            self.types = [t for t in self.types if t != "bfloat16"]

    def graph(self, tf, attrs, names, values, dtype, twice):
        variables, inits, args = [], [], dict(zip(names, values))
        for name in self.variables:
            if self.is_resource:
                v = tf.raw_ops.VarHandleOp(dtype=dtype, shape=tf.TensorShape(None), shared_name=f"t{next(NUMBER)}")
                inits += [] if args[name] is None else [tf.raw_ops.AssignVariableOp(resource=v, value=args[name])]
            else:
                v = tf.raw_ops.VariableV2(dtype=dtype, shape=tf.TensorShape(None))
                inits += [] if args[name] is None else [tf.raw_ops.Assign(ref=v, value=args[name], validate_shape=False)]
            args[name] = v
            variables.append(v)
        apply = getattr(tf.raw_ops, self.op)(**args, **attrs)
        read = [tf.raw_ops.ReadVariableOp(resource=v, dtype=dtype) if self.is_resource else tf.raw_ops.Identity(input=v)
                for v in variables]
        return [inits, *[[apply]] * twice, read]


def scalar_of(g, name, dtype):
    if name in SCALARS:
        return SCALARS[name][g.rng.integers(len(SCALARS[name]))]
    return g.rng.choice([0.01, 0.3, 0.9])


def one(g, rule, dtype, shape=(4, 3), index="int32", rows=None, special=False, twice=1, given=None, name="", attrs=None, **how):
    """Returns a graph whose runs initialise the variables, apply the op, and read the variables."""
    given, values, names = given or {}, [], []
    rows = g.rng.integers(0, max(1, shape[0] if shape else 1), 3) if rows is None else rows
    for arg in rule.inputs:
        if arg.name in given:
            value = given[arg.name]
        elif arg.name in rule.variables or arg.name in ("grad", "delta"):
            full = (len(rows), *shape[1:]) if rule.is_sparse and arg.name not in rule.variables else shape
            least = 0.05 if arg.name in SQUARES and not special else -3
            value = g.values(dtype, full, lo=least, hi=3, special=special)
            if arg.name in SQUARES and not special and dtype in COMPLEX:
                value = np.abs(value).astype(value.dtype)
        elif arg.name == "indices":
            value = np.asarray(rows, index)
        else:
            value = np.asarray(scalar_of(g, arg.name, dtype), dtype_of("int64" if arg.name == "global_step" else dtype))
        names.append(arg.name)
        values.append(value)
    attrs = {"use_locking": bool(g.rng.integers(2)), **{f: bool(g.rng.integers(2)) for f in rule.flags}, **(attrs or {})}
    fed = [n for n, v in zip(names, values) if v is not None]

    def build(tf, *args):
        given = dict(zip(fed, args))
        return rule.graph(tf, attrs, names, [given.get(n) for n in names], dtype_of(dtype), twice)

    how = {**tolerance(rule, dtype), **how}
    return Graph(build, *[v for v in values if v is not None], name=f"{rule.op} {dtype} {list(shape)} {name} {attrs}", **how)


def tolerance(rule, dtype):
    if dtype in HALFS:
        # TensorFlow rounds a reciprocal square root once in its vector loop, but twice in the scalar loop that computes
        # the last elements of a tensor. All other results are equal bit for bit.
        has_rsqrt = rule.rule in ("Adagrad", "Adadelta") or (rule.is_sparse and "RMSProp" in rule.rule)
        return {"rtol": {"float16": 4e-3, "bfloat16": 3e-2}[dtype] if has_rsqrt else 0}
    return {"ulps": 2, "atol": 0 if "64" in dtype else 1e-6, "rtol": {"float32": 4e-6, "complex64": 1e-5, "float64": 1e-14, "complex128": 1e-14}[dtype]}


OPS = [n for n in KNOWN if "Apply" in n and "Accumulator" not in n]


def refusals(g, rule):
    """Yields cases that TensorFlow refuses or might refuse, with the expected words of its error messages."""
    def bad(name, value=None, **how):
        return one(g, rule, "float32", given={name: value}, name=f"{name}={value}", texts=True, **how)

    for i, name in enumerate(rule.variables):
        yield bad(name)
        # TensorFlow does not check the shapes of the excluded slots, and reads beyond the ends of these slots.
        if i and name != "vhat" and (rule.is_sparse or name != "accum_update"):
            for shape in [(5, 3), (4,), (12,), (4, 3, 1), ()]:
                case = bad(name, np.ones(shape, np.float32))
                case.texts = name != "mg"  # TensorFlow's error message reports the shape of another variable.
                yield case
    for arg in rule.inputs:
        if arg.name in [*rule.variables, "grad", "delta", "indices"]:
            continue
        dtype = np.int64 if arg.name == "global_step" else np.float32
        for value in [-1, 0, 1, -0.0] + ([np.nan, np.inf, -np.inf] if dtype == np.float32 else []):
            yield bad(arg.name, dtype(value))
        yield bad(arg.name, np.ones([1], dtype))
        if arg.name != "sign_decay":  # TensorFlow's process crashes unless sign_decay has exactly one element.
            yield bad(arg.name, np.ones([2], dtype))
            yield bad(arg.name, np.ones([0], dtype))
    grad = "delta" if "delta" in [a.name for a in rule.inputs] else "grad"
    for shape in [(3, 3), (3, 4), (3, 3, 1), (2, 3), (0, 3)] + ([] if rule.is_sparse else [(12,), (), (4, 3, 2)]):
        yield bad(grad, np.ones(shape, np.float32))
    if not rule.is_sparse:
        return
    for index in [np.zeros([1, 3]), np.zeros([3, 1]), np.array(1), [0, 4, 1], [0, 1, -1], [0, 2**31 - 1, 1]]:
        yield bad("indices", np.asarray(index, np.int32))
    for index in [[0, 1, 2**62], [-2**63, 0, 0]]:
        yield bad("indices", np.asarray(index, np.int64))
    for shape, rows in [((4, 0), [0, 9, 1]), ((0, 3), [0, 0, 0]), ((), [0]), ((4,), [1, 4])]:
        yield one(g, rule, "float32", shape, rows=rows, texts=True, name=f"rows {rows}")


@spec(*OPS)
def apply(g, op):
    rule = Rule(op)
    for dtype in rule.types:
        flags = [dict(zip(rule.flags, f)) for f in itertools.product([False, True], repeat=len(rule.flags))]
        for attrs in flags:
            for shape in [(4, 3), (1,), (7,), (5, 1), (2, 3, 1, 2), (259,), (3, 70), (2, 1, 2, 1, 3, 1, 2, 1)]:
                for index in ["int32", "int64"] if rule.is_sparse else [""]:
                    yield one(g, rule, dtype, shape, index, twice=2, attrs=attrs)
            yield one(g, rule, dtype, (33, 9), special=True, attrs=attrs)
        for shape in [(), (0,), (2, 0), (0, 3)]:
            yield one(g, rule, dtype, shape, rows=[0, 0] if shape and shape[0] else [])
    yield from refusals(g, rule)


@spec("CountUpTo", "ResourceCountUpTo")
def count_up_to(g, op):
    def counting(value, limit, dtype, has_value=True):
        def build(tf, initial):
            if op == "CountUpTo":
                v = tf.raw_ops.VariableV2(dtype=dtype, shape=tf.TensorShape(None))
                init = tf.raw_ops.Assign(ref=v, value=initial, validate_shape=False)
                step, read = tf.raw_ops.CountUpTo(ref=v, limit=limit), tf.raw_ops.Identity(input=v)
            else:
                v = tf.raw_ops.VarHandleOp(dtype=dtype, shape=tf.TensorShape(None), shared_name=f"t{next(NUMBER)}")
                init = tf.raw_ops.AssignVariableOp(resource=v, value=initial)
                step = tf.raw_ops.ResourceCountUpTo(resource=v, limit=limit, T=dtype)
                read = tf.raw_ops.ReadVariableOp(resource=v, dtype=dtype)
            return [[init] if has_value else [tf.no_op()], [step], [step], [step], [read]]

        words = has_value or op == "CountUpTo"  # for a resource without a value, TensorFlow's message names a C++ type
        return Graph(build, np.array(value, dtype), name=f"{op} {dtype} {value} to {limit}", texts=words)

    for dtype in ["int32", "int64"]:
        for value, limit in itertools.product([0, 1, -3, 5, 2**31 - 1, 2**31 - 2, -2**31, 40], [0, 1, 2, 3, 6, -2, 41, 2**31 - 1, -2**31, 2**31, -2**31 - 1]):
            yield counting(value, limit, dtype)
        for value in ([], [0], [0, 1], [[3]]):
            yield counting(value, 7, dtype)
        yield counting(0, 7, dtype, has_value=False)
    for value in (2**63 - 1, 2**63 - 2, -2**63):
        for limit in (2**63 - 1, -2**63, 0):
            yield counting(value, limit, "int64")
