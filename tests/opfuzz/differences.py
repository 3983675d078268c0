"""Compares results. Decides whether two results agree, and whether a difference is deliberate."""

import math
import re

from case import STRING, Tensor

UNIMPLEMENTED, DEADLINE, EXHAUSTED = 12, 4, 8
COMPLEX = (8, 18)

# Known failures that have not been fixed yet, as (signature, reason). The list may be empty.
KNOWN = []

# Deliberate differences from TensorFlow, each as (regular expression that matches "OP: difference", reason).
DELIBERATE = [(re.compile(pattern, re.S), reason) for pattern, reason in [
    (r"we accept; .*No OpKernel was registered", "we have kernels for more types"),
    (r"we accept; TensorFlow: .* for '\{\{node", "Python infers shapes when it makes a graph; sessions of servers do not"),
    (r"we accept; TensorFlow: ValueError: Received a shape scalar with unknown static value", "the same, of what theirs.py has hidden"),
    (r"ResourceStridedSliceAssign: we accept; TensorFlow: Unsupported dtype", "we have kernels for more types"),
    (r"we accept; TensorFlow: Trying to compute zeros_like for unsupported dtype", "we have kernels for more types"),
    (r"TensorArray\w+: we accept; TensorFlow: tensor_array::TensorSetZero type not supported", "unwritten elements have any type"),
    (r"TensorListScatterIntoExistingList: we refuse: Indices .* must all be non-negative", "TensorFlow writes before the list"),
    (r"we accept; .*(array is too big|Could not allocate ndarray|Maximum allowed dimension|too many dimensions)", "NumPy's limits"),
    (r"we accept; .*out of range for an int32", "attributes are read as the 64 bits that they have on the wire"),
    (r"AvgPoolGrad: we refuse: Expected first dimension of tensor_in_shape", "TensorFlow reads past the gradient"),
    (r"QuantizedConcatV2: we accept; TensorFlow: Missing 0-th output", "TensorFlow makes no output if the first input is empty"),
    (r"(Resource)?Scatter\w+: we refuse: Must have updates.shape", "TensorFlow compares counts of elements and reads past rows"),
    (r"(Pad|PadV2|SpaceToBatch|SpaceToBatchND): we refuse: .*too many elements", "TensorFlow's sum of the paddings wraps"),
    (r"we refuse: attr 'value': a tensor of shape \[(\d+,)*0[],]", "dimensions other than 0, multiplied, fit 64 bits: kernels rely on it"),
    (r"MutableDenseHashTableV2: we accept; TensorFlow: Internal error in MutableDenseHashTable (lookup|remove)",
     "TensorFlow finds no end in a table that an import has left without an empty bucket"),
    (r"(Arg(Max|Min)|ConcatV2|DenseBincount|InitializeTable\w+|Roll|StringNGrams|TopKV2|Transpose): we refuse: .*\b\d{10,}\b",
     "TensorFlow takes the lower 32 bits of the number that the message names"),
    (r"RaggedTensorToTensor: we refuse: default_value\.shape=.*\b\d{10,}\b", "the same"),
    (r"AsString: we refuse: .*precision or width is too large", "a width is bounded; TensorFlow writes 2^30 blanks for a number"),
    (r"Conv(2D(BackpropInput)?|3DBackpropInputV2): we refuse: filter must not have zero elements",
     "TensorFlow may answer zeros, or divide by zero and end; no layer has such a filter"),
    (r"Conv\w+: we refuse: output depth must be evenly divisible by", "TensorFlow looks at it only when there is an output"),
    (r"Conv3D: we refuse: CPU implementation of Conv3D currently only supports dilated", "the same"),
    (r"we refuse: Input \w+ holds a NUL", "TensorFlow cuts names of files at a NUL: two names become one"),
    (r"we refuse: attr '\w+': AttrValue has invalid DataType enum: (2[4-9]|3\d)\b", "numbers of types that no op of ours has"),
    (r"TensorListConcat: we accept; TensorFlow: Trying to concat list with only uninitialized tensors",
     "the first version looks neither at the list's shape nor at its tensors', and writes beyond its output"),
    (r"TensorListConcat: we refuse: (Concat saw a scalar shape|PartialTensorShape: Incompatible)", "the same"),
    (r"Parse\w+: we refuse: Could not avoid collision", "TensorFlow finds no features when a key is asked for twice"),
    (r"ParseSequence\w+: we refuse: (Context|Sequence) feature .* cannot be both (float|int64|string) and ",
     "TensorFlow reads both as the type of the last into tensors of their own types, and ends"),
    (r"ResourceGather: we refuse: params.shape\[\d+\]: \d+ should be equal to indices.shape",
     "TensorFlow gathers from other batches, or divides by zero and ends; its shape inference says another shape"),
    (r"TensorListScatterIntoExistingList: we refuse: Specified a list with shape", "TensorFlow reads beyond the tensors"),
    (r"SparseReshape: we refuse: indices\[\d+\] is out of bounds", "TensorFlow makes indices that lie outside of the new shape"),
    (r"DeepCopy: we accept; TensorFlow: Unsupported data type", "we have kernels for more types"),
    (r"Einsum: we refuse: Expected dimension 0 at axis", "TensorFlow forgets a dimension of 0 when the label comes again"),
    (r"RaggedTensorToTensor: we refuse: (First value of ragged splits must|Ragged splits should be non decreasing)",
     "TensorFlow does not look at the order of row splits"),
    (r"RaggedTensorTo\w+: we refuse: the outermost row splits must be a vector",
     "TensorFlow takes their first dimension for the number of rows, and reads beyond what it has of them"),
    (r"we accept; TensorFlow: .*(must be <= 2147483647|must be between 0 and max int32|too large for int32 indexing|"
     r"(batch is|Input (rows|cols|depth)) too large)", "dimensions have 64 bits"),
    (r"we refuse: a window of \d+ positions with dilation \d+ is too large",
     "a window reaches over at most 2^31 - 1 positions; TensorFlow answers, or divides by zero and ends"),
    (r"we accept; TensorFlow: Computed output size would be negative: .*input_size: -", "dimensions have 64 bits"),
    (r"Conv3D: we refuse: input and filter must have the same depth: 0 vs", "TensorFlow too, of float32; no layer has such an input"),
    (r"we refuse: argument '\w+' stands for \d{6,} tensors", "a node has at most 2^16 inputs or outputs"),
    (r"we accept; TensorFlow: Expected key shape \[\d+\] got \[\]", "TensorFlow reads the first dimension of a scalar key to remove"),
    (r"ScatterNd\w+: we refuse: indices\[[1-9]\d*\] = \[-?\d+\] does not index",
     "of a vector of indices, TensorFlow looks at the first only"),
    (r"\w*ScatterNd\w+: we accept; TensorFlow: indices = \[-?\d{10,}\] does not index into shape",
     "of an empty vector of indices too, so that TensorFlow reads memory behind it"),
    (r"we accept; TensorFlow: max_load_factor must be between 0 and 1, got: 0$", "TensorFlow's threads flush subnormal numbers"),
    (r"Dilation2D: we refuse: Dilation2D: a rate of -", "no window has a size below 0, which TensorFlow does not look at"),
    (r"we refuse: Expected key shape \[\d+\] got \[\d+,\d+\]", "TensorFlow imports a dense table of longer keys than it was made for"),
    (r"ImageProjectiveTransformV[23]: we refuse: (interpolation|fill_mode) must be",
     "TensorFlow logs an error and goes on without a value"),
    (r"(Ordered)?Map(Peek|Stage|Unstage|UnstageNoKey): we refuse: Missing \d+-th output",
     "TensorFlow refuses only when the output without a value is read"),
    (r"ResourceSparseApplyKerasMomentum: we refuse: grad must have the same number of dimensions as var",
     "TensorFlow does not compare the ranks, reads beyond the gradient, or ends"),
    (r"BlockLSTMGrad(V2)?: we refuse: BlockLSTMGrad(V2)?: input \d+ has the shape .* which does not fit",
     "TensorFlow reads beyond the input"),
    (r"LSTMBlockCell(Grad)?: we refuse: the number of peephole weights != cell_size", "the same"),
    (r"RequantizePerChannel: we refuse: input_min has incorrect size", "the same"),
    (r"(Ragged|Sparse)Bincount: we refuse: .* weights for \d+ values", "TensorFlow reads beyond the weights"),
    (r"LoadAndRemapMatrix: we refuse: LoadAndRemapMatrix: column", "TensorFlow leaves the column uninitialised"),
    (r"we refuse: values must have a row for each key", "TensorFlow reads beyond the values"),
    (r"we accept; TensorFlow: Tensorflow type 21 not convertible", "Python cannot fetch a tensor of variants"),
    (r"DrawBoundingBoxes(V2)?: we accept; TensorFlow: M(ax|in) box (row|col) clamp", "the image has no pixels"),
    (r"SampleDistortedBoundingBox: we refuse: Aspect ratio range must be non-negative: \[0,", "a subnormal ratio counts as 0"),
    (r"QueueDequeue(Many|UpTo)V2: n has no elements", "TensorFlow reads beyond n"),
    (r"StatefulRandomBinomial: other values",
     "TensorFlow writes the new state to the buffer that the variable shared with a constant, and repeats the first draw"),
    (r"we refuse: counter must have 2 elements", "TensorFlow reads beyond a counter with one element"),
    (r"we refuse: .*(more than 8 dimensions|more than 8 are not supported|at most 8 are known|rank \d+ is more than)", "RT_MAX_RANK is 8"),
]]

# Ops whose TensorFlow kernels use only the lower 32 bits of a dimension.
NARROW_DIMENSIONS = re.compile(r"\w*Pool\w*|CombinedNonMaxSuppression|CropAndResize|DepthToSpace|DepthwiseConv2dNative|"
                               r"Dilation2D|LRN|NonMaxSuppressionWithOverlaps|SpaceToDepth|SplitV")

# Ops whose values are not compared, because they are random or uninitialised, or because TensorFlow reads memory that
# it does not own.
LOOSE = {"Empty": "is not initialised", "StochasticCastToInt": "rounds at random", "RandomUniform": "is random",
         "RandomUniformInt": "is random", "RandomStandardNormal": "is random",
         "PhraseTokenize": "draws phrases if its model has a probability",
         "SentencepieceTokenizeOp": "samples if nbest_size is mutated",
         "SentencepieceTokenizeWithOffsetsOp": "samples if nbest_size is mutated",
         "ExtractGlimpse": "contains noise", "ExtractGlimpseV2": "contains noise",
         "SparseMatrixOrderingAMD": "breaks ties between rows in another way"}

# Ops whose outputs have no specified order. If `sorted` is false, the outputs of TopK and TopKV2 have no specified
# order either.
OWN_ORDER = {"LookupTableExport": "a table's rows are in its own order", "LookupTableExportV2": "a table's rows are in its own order"}

# When the outputs of graphs with these ops are compared, elements that are NaN in TensorFlow's output are skipped.
OWN_NAN = {"Erf": "TensorFlow's of an infinite float64 is NaN, not 1",
           "DepthwiseConv2dNative": "TensorFlow multiplies padding with infinite weights and with NaN",
           "Conv2D": "the same", "Conv3D": "the same",
           "Conv3DBackpropInputV2": "TensorFlow multiplies the zeros between strided positions too"}

# Attributes of the Cast from double to complex64 with which TensorFlow clears all mantissa bits, as if a complex64 had no
# mantissa. For example, 3.29 becomes 2.
LOSES_MANTISSA = {"SrcT": ["type", 2], "DstT": ["type", 8], "Truncate": ["b", True]}

# When the outputs of graphs with these ops are compared, elements that are infinite in Slipway's output and finite in
# TensorFlow's are skipped.
OWN_INFINITE = {"Log": "of a subnormal number that is taken for 0, TensorFlow's library takes the logarithm of 2^-150",
                "LogMatrixDeterminant": "the same, of float32", "Lgamma": "the same"}


def tensors(case):
    """Returns the tensors that are fed and the tensors of constants."""
    held = [n.attrs["value"][1] for n in case.nodes if n.op == "Const" and "value" in n.attrs]
    return [t for t in [*case.feeds.values(), *held] if isinstance(t, Tensor)]


def strides_exceed_windows(node):
    windows, strides = (node.attrs.get(name, [0, []])[1] for name in ("ksize", "strides"))
    return any(stride > window for window, stride in zip(windows, strides))


def holds_both_zeros(case):
    """Returns whether a half-precision or bfloat16 tensor has both 0.0 and -0.0."""
    return any(len({str(x) for x in t.values() if x == 0}) > 1 for t in tensors(case) if t.dtype in (14, 19))


def destroys_table(case):
    tables = {n.name for n in case.nodes if "HashTable" in n.op}
    return any(n.op == "DestroyResourceOp" and i.split(":")[0] in tables for n in case.nodes for i in n.inputs)


def undefined(case):
    """Returns whether the results of the case are not compared, because TensorFlow's result has no meaning or because
    Slipway's state differs by design."""
    if destroys_table(case):
        return True  # In Slipway, a table keeps its pairs for the lifetime of the session (MIGRATION.md).
    if any(n.op in ("ArgMax", "ArgMin") and n.attrs.get("Tidx") == ["type", 5] for n in case.nodes):
        return True  # TensorFlow reads 32 bits of an axis that is stored as an int16.
    if any(NARROW_DIMENSIONS.fullmatch(n.op) for n in case.nodes) and any(d >> 31 for t in tensors(case) for d in t.shape):
        return True
    if any(n.op.startswith("SparseSegment") and is_far(case, n, 3) for n in case.nodes if len(n.inputs) > 3):
        return True  # TensorFlow uses only the lower 32 bits of the number of segments.
    if any(n.op in ("AvgPool3D", "MaxPool3D") and n.attrs.get("padding", [0, 0])[1] == b"SAME" and strides_exceed_windows(n)
           for n in case.nodes):
        return True  # Without oneDNN, which theirs.py turns off, TensorFlow shifts the windows by a negative padding.
    if any(n.op == "Round" and n.attrs.get("T") in (["type", 3], ["type", 9]) for n in case.nodes):
        return True  # TensorFlow's Round turns every integer into zero.
    if any(n.op.startswith("Unique") for n in case.nodes) and holds_both_zeros(case):
        # TensorFlow hashes the bits of half-precision numbers but compares their values, so whether 0.0 and -0.0 are
        # recognised as equal depends on chance.
        return True
    if any(n.op == "TensorListScatterIntoExistingList" and leaves_gaps(case, n) for n in case.nodes):
        return True  # TensorFlow stores an empty tensor in each gap of a list, and moves the later elements.
    if any(n.op == "Eig" for n in case.nodes) and not all_finite(case):
        return True  # Which operations on infinities yield a NaN decides whether the iteration ends.
    if any(n.op in ("NearestNeighbors", "Qr") for n in case.nodes) and not all_finite(case):
        return True  # TensorFlow orders distances, and reflects columns, that are not numbers.
    if any(n.op == "DataFormatDimMap" and is_below(case, n, 0, -len(n.attrs.get("src_format", [0, "NHWC"])[1])) for n in case.nodes):
        return True  # TensorFlow reads before its table.
    if any(n.op == "CholeskyGrad" for n in case.nodes) and holds_infinity(case):
        return True  # The blocks of TensorFlow's matrix products decide which elements become NaN.
    if any(n.op == "Lu" and n.attrs.get("T") in [["type", t] for t in COMPLEX] for n in case.nodes) and not all_finite(case):
        return True  # Which operations on infinities yield a NaN decides which rows are swapped.
    if any(n.op == "Mfcc" and any(value != value for kind, value in n.attrs.values() if kind == "f") for n in case.nodes):
        return True  # TensorFlow casts a frequency that is NaN to an integer.
    stack = [n for n in case.nodes if n.op.startswith(("StackPush", "StackPop"))]
    # No edge determines the order in which several stack ops run.
    return sum(not any(i.startswith("^") for i in n.inputs) for n in stack) > 1


def is_refusal(result):
    return not isinstance(result, list)


def input_of(case, node, i):
    """Returns the tensor of input `i` of a node if this input is fed or constant, otherwise None."""
    name = node.inputs[i].split(":")[0] if i < len(node.inputs) else None
    held = [n.attrs["value"][1] for n in case.nodes if n.name == name and n.op == "Const" and "value" in n.attrs]
    t = case.feeds.get(name) or (held[0] if held else None)
    return t if isinstance(t, Tensor) else None


def rank_of_input(case, node, i):
    t = input_of(case, node, i)
    return len(t.shape) if t else None


def leaves_gaps(case, node):
    """Returns whether a tensor list grows to hold an index while elements before that index stay unwritten."""
    t = input_of(case, node, 2)
    list_of = {n.name: n for n in case.nodes if n.op == "TensorListFromTensor"}.get(node.inputs[0].split(":")[0])
    elements = input_of(case, list_of, 0) if list_of else None
    length = elements.shape[0] if elements and elements.shape else 0
    behind = {x for x in t.values() if x >= length} if t and t.dtype == 3 else set()
    return len(behind) < max(behind, default=length - 1) + 1 - length


def holds_nan(case):
    return any(x != x for t in tensors(case) for x in t.values())


def holds_infinity(case):
    return any(isinstance(x, float) and math.isinf(x) for t in tensors(case) for x in t.values())


def all_finite(case):
    values = [x for t in tensors(case) if t.dtype != STRING for x in t.values()]
    return all(math.isfinite(part) for x in values for part in (x if isinstance(x, tuple) else (x,)))


def holds_far_complex(case):
    sizes = [max(map(abs, x)) for t in tensors(case) if t.dtype == 8 for x in t.values()]
    return any(size and not 2.0**-126 <= size <= 2.0**126 for size in sizes)


def nearly_singular(factor):
    """Returns whether a pivot of a Cholesky decomposition is within the rounding error of the sum from which it is
    computed."""
    n, values = factor.shape[-1], factor.values()
    epsilon = 2.0**-23 if factor.dtype in (1, 8) else 2.0**-52
    squares = [abs(complex(*x)) ** 2 if factor.dtype in COMPLEX else x * x for x in values]
    rows = [squares[at : at + n] for at in range(0, len(squares), n)]
    return any(row[i % n] <= n * epsilon * sum(row) for i, row in enumerate(rows))


def loses_sign(node, outputs):
    """Returns whether TensorFlow's LogMatrixDeterminant of complex64 contradicts itself by returning a sign of 0
    together with a finite logarithm. TensorFlow multiplies a pivot by the reciprocal of the pivot's absolute value. It
    flushes this reciprocal to 0 if the absolute value exceeds 2^126."""
    sign, log = outputs.get(f"{node.name}:0"), outputs.get(f"{node.name}:1")
    return node.op == "LogMatrixDeterminant" and sign and log and sign[0] == 8 and any(
        not any(s) and math.isfinite(x[0]) for s, x in zip(Tensor(*sign).values(), Tensor(*log).values()))


def unset_splits(node):
    """Returns the names of outputs that TensorFlow leaves uninitialised if the input of a ParseSequenceExample is a
    single example. These outputs are the context's ragged row splits and the outer ragged row splits of the feature
    lists."""
    def count(name):
        kind, value = node.attrs.get(name, ["i", 0])
        return value if kind == "i" else len(value)
    context = 3 * count("Ncontext_sparse") + count("Tcontext_dense") + count("context_ragged_value_types")
    n_context, n_outer = count("context_ragged_split_types"), count("feature_list_ragged_split_types")
    outer = (context + n_context + 3 * count("Nfeature_list_sparse") + 2 * count("Nfeature_list_dense")
             + count("feature_list_ragged_value_types"))
    return {f"{node.name}:{k}" for k in (*range(context, context + n_context), *range(outer, outer + n_outer))}


def without_own(case, step, theirs, ours):
    """Returns both results without the outputs that TensorFlow does not define. These are outputs that FusedBatchNorm
    leaves uninitialised without oneDNN, signs that LogMatrixDeterminant loses, and the unset_splits of single
    examples."""
    empty = any(0 in t.shape for t in tensors(case))
    norms = [n for n in case.nodes if n.op.startswith("FusedBatchNorm") and (empty or n.attrs.get("is_training") == ["b", False])]
    own = {f"{n.name}:{k}" for n in norms for k in (3, 4)}
    fetched = [n for n in step if ":" in n]
    own |= {f"{n.name}:0" for n in case.nodes if loses_sign(n, dict(zip(fetched, theirs)))}
    for n in case.nodes:
        if n.op.startswith("ParseSequenceExample") and rank_of_input(case, n, 0) == 0:
            own |= unset_splits(n)
    kept = [pair for name, *pair in zip(fetched, theirs, ours) if name not in own]
    return [a for a, _ in kept], [b for _, b in kept]


def leaves_range(case, node):
    """Returns whether a Cast converts a float to an integer type whose range does not contain the float."""
    bits, signed = {4: (8, 0), 17: (16, 0), 22: (32, 0), 23: (64, 0), 6: (8, 1), 5: (16, 1), 3: (32, 1), 9: (64, 1),
                    12: (8, 0), 16: (16, 0), 11: (8, 1), 15: (16, 1), 13: (32, 1)}.get(
        node.attrs.get("DstT", ["type", 0])[1], (0, 0))
    low, high = -(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed)
    floats = [x for t in tensors(case) if t.dtype in (1, 2, 14, 19, *COMPLEX) for x in t.values()]
    return bits and not all(low - 1 < (x[0] if isinstance(x, tuple) else x) < high for x in floats)


def is_far(case, node, i):
    """Returns whether input `i` may hold integers of more than 32 bits. Some of TensorFlow's kernels use only the lower
    32 bits."""
    t = input_of(case, node, i)
    return t is None or any(isinstance(x, int) and not -(2**31) <= x < 2**31 for x in t.values())


def is_below(case, node, i, least):
    """Returns whether input `i` may hold an integer below `least`."""
    t = input_of(case, node, i)
    return t is None or any(x < least for x in t.values())


def nearly_constant(case, node):
    """Returns whether FusedBatchNorm computes a variance that may be due to rounding errors in the channel's mean."""
    t = input_of(case, node, 0)
    if node.attrs.get("is_training") == ["b", False] or t is None or len(t.shape) < 2 or 0 in t.shape:
        return False
    first = b"NC" in node.attrs.get("data_format", [0, b""])[1]
    channels, behind = (t.shape[1], math.prod(t.shape[2:])) if first else (t.shape[-1], 1)
    for c in range(channels):
        x = [v for i, v in enumerate(t.values()) if i // behind % channels == c and math.isfinite(v)]
        mean = math.fsum(x) / max(len(x), 1)
        error = (len(x) - 1) * 2.0**-23 * max(map(abs, x), default=0)
        if math.fsum((v - mean) ** 2 for v in x) / max(len(x), 1) < error**2:
            return True
    return False


def weighs_by_infinity(case, node):
    """Returns whether a loss of half-precision numbers is multiplied by an infinite label."""
    t = input_of(case, node, 1)
    return t is not None and t.dtype in (14, 19) and any(math.isinf(x) for x in t.values())


def holds_subnormal(case):
    least = {1: 2.0**-126, 2: 2.0**-1022, 14: 2.0**-126}
    return any(0 < abs(x) < least[t.dtype] for t in tensors(case) if t.dtype in least for x in t.values())


def products_overflow(case, share=1.0):
    """Returns whether the product of two finite elements of different tensors may exceed `share` of the range of their
    type."""
    limits = {1: 2.0**128, 2: 2.0**1023, 14: 2.0**128, 19: 65504.0}
    sizes = [(t.dtype, max(map(abs, filter(math.isfinite, t.values())), default=0)) for t in tensors(case) if t.dtype in limits]
    return any(a * b >= limits[dtype] * share for i, (dtype, a) in enumerate(sizes) for _, b in sizes[:i])


def lacks_values(case, node):
    """Returns whether the row partitions of a RaggedTensorToTensor describe more values than its input has."""
    values, last = input_of(case, node, 1), input_of(case, node, len(node.inputs) - 1)
    return values is None or last is None or not values.shape or max(last.values(), default=0) > values.shape[0]


def pads_with_other_than_zero(case, node):
    """Returns whether a QuantizedConv2D pads an input whose range does not contain 0. TensorFlow then pads with the
    lower 8 bits of an integer that does not fit."""
    low, high = (input_of(case, node, i) for i in (2, 3))
    inside = all(t is not None and t.shape == () for t in (low, high)) and low.values()[0] <= 0 <= high.values()[0]
    return node.attrs.get("padding") == ["s", b"SAME"] and not inside


def own_values(case, refused):
    """Returns whether the values of the two tiers are compared with each other, but not with TensorFlow's values.
    `refused` states whether an earlier step was refused."""
    if refused and any("Scatter" in n.op for n in case.nodes):
        return True  # Slipway and TensorFlow may apply different parts of an update before they refuse it.
    if any("ScatterNd" in n.op and rank_of_input(case, n, 1) == 1 for n in case.nodes):
        return True  # TensorFlow applies only the first index of a vector of indices.
    if any(n.op == "Cast" and leaves_range(case, n) for n in case.nodes):
        # The integer that TensorFlow makes from an out-of-range float depends on the float's position in the tensor.
        return True
    if any(n.op == "Fingerprint" and n.attrs.get("T") == ["type", STRING] for n in case.nodes) and any(0 in t.shape for t in tensors(case)):
        return True  # For a row without strings, TensorFlow hashes memory that it does not own.
    if any(n.op in ("Atan2", "Pow", "Xlog1py", "Xlogy") for n in case.nodes) and holds_subnormal(case):
        # TensorFlow's vectorised code treats subnormal operands as 0, but the library functions that compute the
        # elements after the last vector do not.
        return True
    if any(n.op in ("NthElement", "TopK", "TopKV2") for n in case.nodes) and holds_nan(case):
        return True  # TensorFlow passes NaNs to std::nth_element or a heap, which require a strict weak ordering.
    if any(n.op == "Cast" and all(n.attrs.get(k) == v for k, v in LOSES_MANTISSA.items()) for n in case.nodes):
        return True
    if any(n.op in ("AsString", "StringFormat") for n in case.nodes) and holds_subnormal(case):
        return True  # TensorFlow's threads flush subnormal numbers to 0, so TensorFlow prints 0.
    if any(n.op == "Roll" and is_far(case, n, 1) for n in case.nodes):
        return True
    if any(n.op == "MatrixBandPart" and (is_far(case, n, 1) or is_far(case, n, 2)) for n in case.nodes):
        return True
    if any(n.op.startswith("FusedBatchNorm") and nearly_constant(case, n) for n in case.nodes):
        # TensorFlow computes the mean from a float32 sum, so the variance of equal elements may not be 0.
        return True
    if any(n.op == "SoftmaxCrossEntropyWithLogits" and weighs_by_infinity(case, n) for n in case.nodes):
        return True  # TensorFlow rounds a small loss to 0 before the multiplication, which then yields a NaN.
    if any(n.op == "RaggedTensorToTensor" and lacks_values(case, n) for n in case.nodes):
        return True  # TensorFlow copies memory beyond the end of the values.
    if any(n.op == "QuantizedMatMul" for n in case.nodes) and any(0 in t.shape for t in tensors(case)):
        return True  # TensorFlow leaves sums of no products uninitialised.
    if any(n.op == "QuantizedAdd" for n in case.nodes) and holds_infinity(case):
        return True  # In an infinite range, no integer stands for a finite number.
    if any(n.op == "QuantizedConv2D" and pads_with_other_than_zero(case, n) for n in case.nodes):
        return True
    if any(n.op == "MaxPool3D" for n in case.nodes) and holds_nan(case):
        # Depending on how TensorFlow's MaxPool3D divides the channels into vectors, it ignores a NaN or the values
        # before the NaN.
        return True
    if any(n.op == "Sign" for n in case.nodes) and holds_far_complex(case):
        return True  # TensorFlow flushes the reciprocal of the absolute value to 0 at some positions in a tensor.
    unsorted = any(n.op in ("TopK", "TopKV2") and n.attrs.get("sorted") == ["b", False] for n in case.nodes)
    return unsorted or loose(case) or any(n.op in OWN_ORDER for n in case.nodes)


def loose(case):
    return case.loose or any(n.op in LOOSE for n in case.nodes)


def is_unseeded(node):
    """Returns whether each process draws other random numbers for a node, because both its seeds are 0."""
    seeds = [node.attrs.get(key, ["i", 0])[1] for key in ("seed", "seed2")]
    has_seeds = {"seed", "seed2"} & node.attrs.keys() or node.op in ("FractionalAvgPool", "FractionalMaxPool")
    return bool(has_seeds) and not any(seeds)


def difference_between_tiers(case, plain, compiled):
    """Returns a description of the difference if only one tier refuses a step or if the outputs of the tiers are not
    bit-identical, otherwise None."""
    if any(is_refusal(r) and r.code in (DEADLINE, EXHAUSTED) for r in plain + compiled):
        return None  # The tiers need different amounts of memory and time, so one tier may fit a limit that the other exceeds.
    if any(n.op == "Unbatch" for n in case.nodes):
        return None  # It keeps rows for later steps until its attribute timeout_micros has passed.
    for a, b in zip(plain, compiled):
        if is_refusal(a) != is_refusal(b):
            return "refused " + ("node by node only: " + a.text if is_refusal(a) else "compiled only: " + b.text)[:120]
        if is_refusal(a) or loose(case) or any(map(is_unseeded, case.nodes)):
            continue
        for x, y in zip(a, b):
            if (x.dtype, x.shape) != (y.dtype, y.shape):
                return f"{x.dtype} {list(x.shape)} node by node, {y.dtype} {list(y.shape)} compiled"
            if x.data != y.data:
                return "other bits"
    return None


# ---- with TensorFlow -------------------------------------------------------------------------


def compare(case, theirs, ours):
    """Returns a short description of the difference, or None if the results agree or the difference is deliberate."""
    problem = None if undefined(case) else first_difference(case, theirs, ours)
    if problem and any(pattern.search(f"{case.op}: {problem}") for pattern, _ in DELIBERATE):
        return None
    return problem


def first_difference(case, theirs, ours):
    refused = False
    for step, a, b in zip(case.steps, theirs, ours):
        if is_refusal(a) and a.code in (UNIMPLEMENTED, DEADLINE, EXHAUSTED, None):
            return None  # Slipway may accept more than TensorFlow, and has its own limits on memory and time.
        if is_refusal(b) and b.code in (UNIMPLEMENTED, DEADLINE, EXHAUSTED):
            return None
        if is_refusal(a) != is_refusal(b):
            return f"we refuse: {b.text}" if is_refusal(b) else f"we accept; TensorFlow: {a.text}"
        if is_refusal(a):
            if "has different value for same key" in a.text:
                return None  # TensorFlow's table keeps the pairs that the initialization added before it failed.
            refused = True
            continue
        problem = different_forms(a, b) or (None if own_values(case, refused) else different_values(case, *without_own(case, step, a, b)))
        if problem:
            return problem
    return None


def different_forms(theirs, ours):
    for (dtype, shape, _), t in zip(theirs, ours):
        if dtype != t.dtype:
            return f"type {t.dtype}, not {dtype}"
        if tuple(shape) != t.shape:
            return "another shape"
    return None


def different_values(case, theirs, ours):
    exact = not any(v for k, v in case.tolerance.items() if k in ("ulps", "rtol", "atol"))
    for (dtype, shape, data), t in zip(theirs, ours):
        if t.data == data:
            continue
        a, b = Tensor(dtype, shape, data).values(), t.values()
        if len(a) != len(b):
            return "another number of values"
        if dtype in COMPLEX and not all(math.isfinite(part) for x in a + b for part in x):
            continue  # It is undefined which parts of a product of complex numbers are NaN.
        if case.op == "Cholesky" and any(x != x for x in b):
            continue  # If a decomposition fails, TensorFlow leaves a part of the output uninitialised.
        if case.op == "Cholesky" and nearly_singular(t):
            continue  # The rounding of sums decides whether the decomposition fails.
        flat = [(x, y) for p, q in zip(a, b) for x, y in (zip(p, q) if isinstance(p, tuple) else [(p, q)])]
        if case.op in ("StringLower", "StringUpper", "ShardedFilename", "ShardedFilespec"):
            # In TensorFlow, UTF-8 strings and file names end at the first NUL.
            flat = [(x, y) for x, y in flat if b"\0" not in y]
        if dtype == STRING or not any(isinstance(x, float) for x, _ in flat):
            if any(x != y for x, y in flat):
                return "other values"
            continue
        atol = case.tolerance.get("atol") or 0
        rtol = max(case.tolerance.get("rtol") or 0, 1e-6 if exact else 1e-3, {14: 0.02, 19: 4e-3}.get(dtype, 0))
        if any(n.op == "MatrixDeterminant" for n in case.nodes):
            # TensorFlow computes a determinant as the exponential of its logarithm. In float32 the logarithm may be as
            # large as 88, so its rounding error may be large.
            rtol = max(rtol, 1e-4)
        largest = max((abs(x) for x, _ in flat if math.isfinite(x)), default=0)
        if any(n.op in OWN_NAN for n in case.nodes):
            flat = [(x, y) for x, y in flat if x == x]
        if any("Conv" in n.op for n in case.nodes) and products_overflow(case, 2.0**-10):
            # Whether a sum overflows depends on the order of the additions and on the roundings between them.
            flat = [(x, y) for x, y in flat if math.isfinite(x) and math.isfinite(y)]
        if any("MatMul" in n.op for n in case.nodes) and products_overflow(case):
            # Depending on the shapes, TensorFlow may or may not round an overflowing product before it adds the product
            # to an infinity.
            flat = [(x, y) for x, y in flat if not (math.isinf(x) and y != y or x != x and math.isinf(y))]
        if any(n.op in OWN_INFINITE for n in case.nodes):
            flat = [(x, y) for x, y in flat if not (math.isinf(y) and math.isfinite(x))]
        if not all(alike(x, y, rtol, largest if not exact else 0, atol) for x, y in flat):
            return "other values"
    return None


def alike(x, y, rtol, largest, atol):
    if x != x or y != y:
        return x != x and y != y
    if math.isinf(x) or math.isinf(y):
        return x == y
    return abs(x - y) <= max(rtol * max(abs(x), abs(y), largest), atol, 1e-37)
