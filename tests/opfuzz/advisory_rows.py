"""The rows that advisories.py replays. Each row is a malformed input with the number of an advisory that describes the
input."""

from case import Case, Node, Tensor
from case_builder import BIG, REGISTRY, TOP, f32, i32, i64, one_node, s, scalar, several_nodes, t
from mutate import constant

ROWS = []  # (number, Case)


def row(number, op, *tensors, loose=False, **attrs):
    """Adds a node twice, once with inputs that are fed and once with inputs that are constants."""
    ROWS.extend((number, case) for case in one_node(op, *tensors, loose=loose, **attrs))


def graph(number, op, *lines, steps):
    ROWS.append((number, several_nodes(op, *lines, steps=steps)))


# ---- 2018 to 2020 ----------------------------------------------------------------------------

for op in ("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"):
    row("CVE-2019-16778", op, f32([2]), i64(1 << 32, 1), scalar("int64", (1 << 32) + 2))
    row("CVE-2019-16778", op, f32([3]), i32(-1, 5, 2), scalar("int32", 3))
row("CVE-2020-15194", "SparseFillEmptyRows", t("int64", [3], 0), f32([3]), i64(2, 3), scalar("float32", 0))
row("CVE-2020-15195", "SparseFillEmptyRows", t("int64", [2, 2], [9, 0, 0, 0]), f32([2]), i64(2, 3), scalar("float32", 0))
row("CVE-2020-15202", "RandomUniform", i64(1 << 33, 0), dtype="float32", seed=1, seed2=1)
row("CVE-2020-15202", "RandomStandardNormal", i64(0, 1 << 62), dtype="float32", seed=1, seed2=1)
for fill in ("%s%s%s", "n", "%n", "0x"):
    row("CVE-2020-15203", "AsString", f32([2]), fill=fill, width=5)
row("CVE-2020-15205", "StringNGrams", s("aa", "bb", "cc"), i64(0, 8), separator="", ngram_widths=[7, 6, 11], left_pad="z", right_pad="z",
    pad_width=0,
    preserve_short_sequences=False)
row("CVE-2020-15266", "CropAndResize", f32([1, 1, 1, 1]), f32([1, 4], 1e25), i32(0), i32(1, 1))
row("CVE-2020-15266", "CropAndResize", f32([1, 3, 3, 1]), f32([1, 4], float("nan")), i32(0), i32(2, 2))
graph("CVE-2020-15206", "VarHandleOp", ("v", "VarHandleOp", [], {"dtype": "float32", "shape": [2]}),
      ("op", "ReadVariableOp", ["v"], {"dtype": "float32"}), steps=[["op:0"]])
row("CVE-2020-26268", "Assert", scalar("bool", False), [f32([0])], summarize=-5)
row("CVE-2018-7576", "DecodeRaw", s("abc"), out_type="int64", little_endian=True)

# ---- May 2021 (TensorFlow 2.5) ---------------------------------------------------------------

for op in ("MatrixDiagV2", "MatrixDiagV3"):
    row("CVE-2021-29515", op, f32([2]), t("int32", [0]), scalar("int32", -1), scalar("int32", -1), scalar("float32", 0))
    row("CVE-2021-29515", op, f32([3, 2]), i32(0, 1), t("int32", [0]), scalar("int32", -1), scalar("float32", 0))
    row("CVE-2021-29515", op, f32([3, 2]), i32(0, 1), scalar("int32", -1), t("int32", [0]), scalar("float32", 0))
    row("CVE-2021-29515", op, f32([3, 2]), i32(0, 1), scalar("int32", -1), scalar("int32", -1), t("float32", [0]))
for op in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
    row("CVE-2021-29515", op, f32([2, 2]), t("int32", [0]), scalar("float32", 0))
row("CVE-2021-29519", "SparseCross", [], [], [], [t("int64", [1, 1], 1)], hashed_output=False, num_buckets=0, hash_key=0,
    out_type="string",
    internal_type="string")
row("CVE-2021-29519", "SparseCross", [t("int64", [1, 2])], [s("a")], [i64(1, 1)], [t("int64", [1, 1], 1)], hashed_output=True,
    num_buckets=0, hash_key=0,
    out_type="int64", internal_type="int64")
row("CVE-2021-29522", "Conv3DBackpropInputV2", i32(1, 0, 2, 2, 1), f32([1, 2, 2, 1, 1]), f32([0, 0, 0, 0, 1]), strides=[1, 1, 1, 1, 1],
    padding="SAME")
row("CVE-2021-29520", "Conv3DBackpropInputV2", i32(1, 1, 1, 1, 0), f32([0, 0, 0, 0, 0]), f32([1, 1, 1, 1, 1]), strides=[1, 1, 1, 1, 1],
    padding="VALID")
row("CVE-2021-29517", "Conv3D", f32([2, 2, 2, 2, 2]), f32([0, 0, 0, 0, 0]), strides=[1, 1, 1, 1, 1], padding="SAME")
row("CVE-2021-29517", "Conv3D", f32([1, 1, 1, 1, 1]), f32([1, 1, 1, 0, 1]), strides=[1, 1, 1, 1, 1], padding="VALID")
row("CVE-2021-29525", "Conv2DBackpropInput", i32(1, 1, 1, 0), f32([1, 1, 0, 1]), f32([1, 1, 1, 1]), strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2021-29526", "Conv2D", f32([1, 1, 1, 1]), f32([1, 1, 0, 0]), strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2021-29526", "Conv2D", f32([1, 2, 2, 2]), f32([1, 1, 0, 2]), strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2021-29541", "StringNGrams", s(""), i32(0, 1), separator=" ", ngram_widths=[-1], left_pad=" ", right_pad=" ", pad_width=0,
    preserve_short_sequences=False)
row("CVE-2021-29542", "StringNGrams", s("aa", "bb", "cc"), i32(0, 2, 1), separator=" ", ngram_widths=[6], left_pad="0", right_pad="0",
    pad_width=-5,
    preserve_short_sequences=True)
row("CVE-2021-29551", "MatrixTriangularSolve", f32([1, 1, 1, 1]), t("float32", [1, 1, 0, 1]), lower=True, adjoint=False)
row("CVE-2021-29551", "MatrixTriangularSolve", f32([0, 2, 2]), f32([3, 2, 2]), lower=True, adjoint=False)
for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
    for empty in range(1, 5):
        args = [f32([1, 1, 1, 2])] + [f32([0]) if k == empty else f32([2]) for k in range(1, 5)]
        row("CVE-2021-29583", op, *args, epsilon=0.001, data_format="NHWC", is_training=False)
    row("CVE-2021-29555", op, f32([0, 0, 0, 0]), f32([0]), f32([0]), f32([0]), f32([0]), epsilon=0.0, data_format="NHWC",
        is_training=False)
row("CVE-2021-29556", "Reverse", t("float32", [0, 0, 0]), t("bool", [3], True))
row("CVE-2021-29556", "ReverseV2", t("float32", [2, 0, 3]), i32(0, 2))
row("CVE-2021-29560", "RaggedTensorToTensor", i64(1, 1), i64(*range(10)), scalar("int64", 0), [i64(0, 10, 0)],
    row_partition_types=["ROW_SPLITS"])
row("CVE-2021-29608", "RaggedTensorToTensor", i64(-1, 8), i64(), scalar("int64", 0), [scalar("int64", 0), i64()],
    row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
row("CVE-2021-29608", "RaggedTensorToTensor", i32(8, 8), i32(1, 2), scalar("int32", 0), [i32()], row_partition_types=["ROW_SPLITS"])
row("CVE-2021-29565", "SparseFillEmptyRows", t("int64", [0, 0]), f32([0]), i64(0), scalar("float32", 0))
row("CVE-2021-29565", "SparseFillEmptyRows", t("int64", [2, 1]), f32([2]), i64(), scalar("float32", 0))
row("CVE-2021-29566", "Dilation2D", f32([1, 1, 1, 1]), f32([2, 2, 1]), strides=[1, 1, 1, 1], rates=[1, 1 << 30, 1 << 30, 1],
    padding="VALID")
row("CVE-2021-29566", "Dilation2D", f32([1, 1, 1, 1]), f32([1, 1, 2]), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME")
row("CVE-2021-29568", "RandomUniform", i32(-1, 2), dtype="float32", seed=1, seed2=2)
row("CVE-2021-29570", "MaxPoolWithArgmax", f32([1, 0, 0, 1]), ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID", Targmax="int64")
row("CVE-2021-29573", "MaxPoolWithArgmax", f32([1, 2, 2, 1]), ksize=[1, 0, 2, 1], strides=[1, 1, 1, 1], padding="SAME", Targmax="int64")
row("CVE-2021-29574", "MaxPool3D", f32([1, 2, 2, 2, 1]), ksize=[1, 1, 1, 1, 1], strides=[1, 0, 1, 1, 1], padding="SAME")
row("CVE-2021-29576", "MaxPool3D", f32([1, 1, 1, 1, 0]), ksize=[1, 2, 2, 2, 1], strides=[1, 1, 1, 1, 1], padding="SAME")
row("CVE-2021-29577", "AvgPool3D", f32([0, 2, 2, 2, 1]), ksize=[1, 1, 1, 1, 1], strides=[1, 1, 1, 1, 1], padding="VALID")
row("CVE-2021-29579", "MaxPool", f32([1, 1, 1, 1]), ksize=[1, 0, 0, 1], strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2021-29575", "ReverseSequence", t("int64", [1, 5], 1), i64(5), seq_dim=-2, batch_dim=1)
row("CVE-2021-29575", "ReverseSequence", t("int64", [1, 5], 1), i64(5), seq_dim=-7, batch_dim=-9)
row("CVE-2021-29575", "ReverseSequence", t("int64", [2, 5], 1), i64(-3, 9), seq_dim=1, batch_dim=0)
row("CVE-2021-29611", "SparseReshape", t("int64", [3], 1), i64(1, 2), i64(2))
row("CVE-2021-29611", "SparseReshape", t("int64", [2, 1]), t("int64", [0]), i64(1))
for op in ("DecodeRaw",):
    for kind in ("int16", "float32", "float64", "complex128"):
        row("CVE-2021-29614", op, s("1234567", "12345"), out_type=kind, little_endian=False)
        row("CVE-2021-29614", op, s("1", "1"), out_type=kind, little_endian=True)
row("CVE-2021-29617", "Substr", s("abc"), i32(1 << 31 & 0x7FFFFFFF), i32(-1), unit="BYTE")
row("CVE-2021-29617", "Substr", s("äbc"), i64(-TOP - 1), i64(TOP), unit="UTF8_CHAR")
row("CVE-2021-29618", "Transpose", f32([1]), i64(-1))
row("CVE-2021-29618", "ConjugateTranspose", t("complex64", [1], 1), i64(-2))
row("CVE-2021-29618", "ConjugateTranspose", t("complex64", [2, 2], 1), i32(0, 0))
row("CVE-2021-29613", "InTopKV2", f32([2, 0]), i32(0, 5), scalar("int32", 1))
row("CVE-2021-29540", "Conv2DBackpropInput", i32(1, 2, 2, 1), f32([0, 0, 1, 1]), f32([1, 2, 2, 1]), strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2021-29552", "UnsortedSegmentSum", f32([2]), i32(0, 1), t("int32", [0]))
row("CVE-2021-29552", "UnsortedSegmentMax", f32([2]), i32(0, 1), scalar("int32", -7))
row("CVE-2021-29539", "DenseBincount", i32(1, 2), t("int32", [0]), f32([0]), binary_output=False)
row("CVE-2021-29609", "SparseToDense", i64(10, -1), i64(5), f32([2]), scalar("float32", 0), validate_indices=False)
row("CVE-2021-29607", "SparseToDense", t("int64", [2, 3]), i64(5, 5), f32([2]), scalar("float32", 0))
row("CVE-2021-29558", "SparseReorder", t("int64", [1, 2], [TOP, TOP]), f32([1]), i64(TOP, TOP))
row("CVE-2021-29534", "SparseReorder", t("int64", [2, 2], 5), f32([1]), i64(9, 9))
row("CVE-2021-29567", "SparseTensorDenseMatMul", t("int64", [1, 2], [9, 9]), f32([1]), i64(2, 2), f32([2, 2]))
row("CVE-2021-29557", "MatMul", f32([0, 3]), f32([3, 0]))
row("CVE-2021-29557", "BatchMatMulV2", f32([2, 3, 0]), f32([2, 0, 4]))

# ---- August 2021 (TensorFlow 2.6) ------------------------------------------------------------

row("CVE-2021-37638", "RaggedTensorToTensor", i32(1), t("int32", [1, 0]), scalar("int32", 0), [], row_partition_types=["ROW_SPLITS"])
row("CVE-2021-37638", "RaggedTensorToTensor", i32(1), i32(1), scalar("int32", 0), [i32(0, 1)], row_partition_types=[])
row("CVE-2021-37639", "RestoreV2", s("there", "none"), s("x"), s(""), dtypes=["float32"])
row("CVE-2021-37639", "RestoreV2", t("string", [0], []), s("x"), s(""), dtypes=["float32"])
row("CVE-2021-37639", "RestoreV2", scalar("string", b"p"), s("x", "y"), s(""), dtypes=["float32"])
row("CVE-2021-37640", "SparseReshape", t("int64", [0, 1]), i64(0), i64(0, -1))
row("CVE-2021-37640", "SparseReshape", t("int64", [1, 1]), i64(1), i64(0, 0, -1))


def variable(number, op, kind, value, *inputs, shape=None, **attrs):
    """Adds a node with op `op` that operates on a resource variable with the initial value `value`."""
    names = [a.name for a in REGISTRY[op].attrs]
    more = {"dtype": kind} if "dtype" in names else {"T": kind}
    index = next((x.dtype for x in inputs if x.dtype in (3, 9)), 3)
    more |= {n: index for n in ("Tindices", "Index") if n in names} | attrs
    graph(number, op, ("v", "VarHandleOp", [], {"dtype": kind, "shape": shape}), ("set", "AssignVariableOp", ["v", value],
          {"dtype": kind}),
          ("op", op, ["v", *inputs], more), ("get", "ReadVariableOp", ["v"], {"dtype": kind}),
          steps=[["set"], ["op:0" if REGISTRY[op].outputs else "op"], ["get:0"]])


variable("CVE-2021-37642", "ResourceScatterDiv", "int32", i32(1, 2, 3), i32(0, 1), i32(1, 0))
variable("CVE-2021-37642", "ResourceScatterDiv", "int32", i32(-(1 << 31), 2, 3), i32(0), i32(-1))
for op in ("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul", "ResourceScatterMin", "ResourceScatterMax",
           "ResourceScatterUpdate"):
    variable("CVE-2021-37655", op, "float32", f32([2, 3]), i32(0, 9), f32([2, 3]))
    variable("CVE-2021-37655", op, "float32", f32([2, 3]), i32(0, 1), f32([2, 1]))
    variable("CVE-2021-37655", op, "float32", f32([]), i32(0), f32([1]))
variable("CVE-2021-37653", "ResourceGather", "float32", f32([0, 1, 1]), t("int32", [0]))
variable("CVE-2021-37654", "ResourceGather", "float32", f32([2, 2]), t("int32", [2], [0, 1]), batch_dims=5)
variable("CVE-2021-37654", "ResourceGather", "float32", f32([2, 2]), t("int32", [2], [0, 9]), batch_dims=-1)
variable("CVE-2021-37654", "ResourceGatherNd", "float32", f32([2, 2]), t("int32", [1, 3], [0, 0, 0]))
row("CVE-2021-37643", "MatrixDiagPart", f32([2]))
for op in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
    row("CVE-2021-37643", op, f32([3, 3]), i32(1, 0), scalar("float32", 0))
    row("CVE-2021-37643", op, f32([3, 3]), scalar("int32", 0), f32([0]))
for op in ("MatrixDiagV2", "MatrixDiagV3"):
    row("CVE-2021-37657", op, f32([1, 1]), t("int32", [0]), scalar("int32", 1), scalar("int32", 1), scalar("float32", 0))
    row("CVE-2021-37657", op, f32([1]), i32(0, 0, 0), scalar("int32", 1), scalar("int32", 1), scalar("float32", 0))
for op in ("MatrixSetDiagV2", "MatrixSetDiagV3"):
    row("CVE-2021-37658", op, f32([1, 1, 1]), f32([1, 1]), t("int32", [0]))
    row("CVE-2021-37658", op, f32([3, 3]), f32([3]), i32(5, 7))
row("CVE-2021-37658", "MatrixSetDiag", f32([3, 3]), f32([7]))
row("CVE-2021-37644", "TensorListReserve", t("int32", [0]), t("int32", [0]), element_dtype="float32", shape_type="int32")
row("CVE-2021-37644", "TensorListReserve", i32(1), scalar("int32", -3), element_dtype="float32", shape_type="int32")
row("CVE-2021-37646", "StringNGrams", s("a", "b"), i32(0, 2), separator="", ngram_widths=[2], left_pad="a" * 9, right_pad="b" * 9,
    pad_width=1 << 30,
    preserve_short_sequences=False)
row("CVE-2021-37648", "SaveV2", t("string", [0], []), s("x"), s(""), [f32([1])])
row("CVE-2021-37648", "SaveV2", scalar("string", b"p"), t("string", [0], []), s(""), [f32([1])])
row("CVE-2021-37648", "SaveV2", scalar("string", b"p"), s("x"), t("string", [0], []), [f32([1])])
row("CVE-2021-37656", "RaggedTensorToSparse", [t("int64", [0])], f32([3]))
row("CVE-2021-37656", "RaggedTensorToSparse", [i64(0, 38, 0)], f32([3]))
row("CVE-2021-37656", "RaggedTensorToSparse", [i64(0, 2), i64(0, 3, 1)], f32([3]))
for op in ("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "FloorDiv", "FloorMod", "Pow", "Maximum", "Minimum", "SquaredDifference",
           "Xdivy", "Xlogy",
           "DivNoNan", "MulNoNan", "Atan2", "Mod", "TruncateDiv"):
    row("CVE-2021-37659", op, f32([2, 0]), f32([3, 1]))
    row("CVE-2021-37659", op, f32([0]), f32([2]))
for op in ("BitwiseAnd", "LeftShift", "RightShift", "FloorDiv", "Mod", "TruncateDiv", "FloorMod", "Div"):
    row("CVE-2021-37659", op, i32(0, -(1 << 31)), i32(0, -1))
for op in ("Less", "Equal", "NotEqual", "GreaterEqual"):
    row("CVE-2021-37659", op, f32([2, 0]), f32([3, 0]))
row("CVE-2021-37668", "UnravelIndex", i64(-1), i64(0, 1, 4))
row("CVE-2021-37668", "UnravelIndex", t("int32", []), t("int32", [0]))
row("CVE-2021-37669", "NonMaxSuppressionV5", f32([1, 4]), f32([1]), scalar("int32", -1), scalar("float32", 0.1), scalar("float32", 0.1),
    scalar("float32", 0))
for op, more in (("NonMaxSuppression", 0), ("NonMaxSuppressionV2", 0), ("NonMaxSuppressionV3", 1), ("NonMaxSuppressionV4", 1)):
    threshold = [] if op == "NonMaxSuppression" else [scalar("float32", 0.5)]
    row("CVE-2021-37669", op, f32([2, 4]), f32([2]), scalar("int32", -(1 << 31)), *threshold, *[scalar("float32", 0)] * more)
    row("CVE-2021-37669", op, f32([2, 4]), f32([3]), scalar("int32", 2), *threshold, *[scalar("float32", 0)] * more)
row("CVE-2021-37669", "CombinedNonMaxSuppression", f32([1, 1, 1, 4]), f32([1, 1, 1]), scalar("int32", 1 << 30), scalar("int32", -1),
    scalar("float32", 0.5),
    scalar("float32", 0))
row("CVE-2021-37669", "CombinedNonMaxSuppression", f32([1, 1, 1, 4]), f32([1, 1, 1]), t("int32", [0]), scalar("int32", 1), f32([0]),
    f32([0]))
for op in ("UpperBound", "LowerBound"):
    row("CVE-2021-37670", op, i32(), t("int32", [1, 1], 1))
    row("CVE-2021-37670", op, t("int32", [2, 2]), t("int32", [0, 2]))
row("CVE-2021-37676", "SparseFillEmptyRows", t("int64", [0, 2]), f32([0]), i64(5, 5), f32([0]))
row("CVE-2021-37679", "RaggedTensorToTensor", i64(-1, -1), f32([4]), scalar("float32", 0), [i64(0, 4), i64(0, 2, 4)],
    row_partition_types=["ROW_SPLITS"])
row("CVE-2021-37690", "TensorListConcatLists", t("float32", [1]), t("float32", [1]), element_dtype="float32")

# ---- November 2021 (TensorFlow 2.7) ----------------------------------------------------------

for op in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"):
    row("CVE-2021-41195", op, f32([1, 16, 8]), i64(1676240524292489355))
    row("CVE-2021-41195", op, f32([3]), i32(0, -1, 2))
for op in ("MaxPool", "AvgPool"):
    row("CVE-2021-41196", op, f32([1, 32, 32, 3]), ksize=[1, 0, 0, 1], strides=[1, 1, 1, 1], padding="VALID")
    row("CVE-2021-41196", op, f32([1, 3, 3, 1]), ksize=[1, -1, 2, 1], strides=[1, 1, 1, 1], padding="SAME")
for op in ("MaxPool3D", "AvgPool3D"):
    row("CVE-2021-41196", op, f32([1, 3, 3, 3, 1]), ksize=[1, 0, 2, 2, 1], strides=[1, 1, 1, 1, 1], padding="VALID")
row("CVE-2021-41197", "Fill", i64(BIG, BIG), scalar("float32", 0))
row("CVE-2021-41197", "Fill", i64(0, TOP, TOP), scalar("float32", 0))
row("CVE-2021-41198", "Tile", f32([1, 1, 1]), i64(100000000, 100000000, 100000000))
row("CVE-2021-41198", "Tile", f32([0, 2]), i64(TOP, TOP))
for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeArea", "ResizeBicubic"):
    row("CVE-2021-41199", op, f32([1, 1, 1, 1]), i32((1 << 31) - 1, (1 << 31) - 1))
    row("CVE-2021-41199", op, f32([1, 0, 1, 1]), i32(2, 2))
    row("CVE-2021-41199", op, f32([1, 1, 1, 1]), i32(0, -1))
for equation in ("i...j->ij...", "...a...b->ab", "ab...,...bc->...a...", "aab", "->->", ",", "a,b,c->abc", "...", "ijkijkijkijk->i"):
    row("CVE-2021-41201", "Einsum", [f32([2, 2])], equation=equation)
row("CVE-2021-41202", "Range", scalar("int64", 0), scalar("int64", TOP), scalar("int64", 1))
row("CVE-2021-41202", "Range", scalar("float32", 0), scalar("float32", 3e38), scalar("float32", 1e-30))
row("CVE-2021-41202", "Range", scalar("int64", -TOP), scalar("int64", TOP), scalar("int64", TOP))
row("CVE-2021-41202", "Range", scalar("float64", float("nan")), scalar("float64", 1), scalar("float64", 1))
row("CVE-2021-41206", "SpaceToBatch", f32([1, 2, 2, 1]), t("int32", [1, 1]), block_size=2)
row("CVE-2021-41206", "BatchToSpace", f32([4, 1, 1, 1]), t("int32", [3, 2]), block_size=2)
row("CVE-2021-41206", "SpaceToDepth", f32([1, 2, 2]), block_size=2)
row("CVE-2021-41206", "DepthToSpace", f32([1, 1, 1, 3]), block_size=2)
row("CVE-2021-41206", "SparseSegmentSum", f32([2, 2]), t("int32", [1, 1]), i32(0))
row("CVE-2021-41206", "SparseSoftmaxCrossEntropyWithLogits", f32([2, 3]), i32(0, 9))
row("CVE-2021-41206", "SoftmaxCrossEntropyWithLogits", f32([2, 3]), f32([3, 0]))
for op in ("Conv2D", "DepthwiseConv2dNative"):
    row("CVE-2021-41209", op, f32([1, 1, 1, 1]), f32([0, 0, 1, 1]), strides=[1, 1, 1, 1], padding="SAME")
    row("CVE-2021-41209", op, f32([1, 1, 1, 1]), f32([1, 1, 1, 0]), strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2021-41216", "Transpose", f32([2, 2]), i32(-1, -7))
row("CVE-2021-41219", "SparseTensorDenseMatMul", t("int64", [0, 2]), f32([0]), i64(0, 3), f32([3, 0]))
row("CVE-2021-41222", "SplitV", i64(1, 2, 3), i64(-TOP, TOP), scalar("int32", 0), num_split=2)
row("CVE-2021-41222", "SplitV", i64(1, 2, 3), i64(-1, -1), scalar("int32", 0), num_split=2)
row("CVE-2021-41222", "Split", scalar("int32", 0), i64(1, 2, 3), num_split=2)
row("CVE-2021-41223", "FusedBatchNorm", f32([1, 1, 1, 2]), f32([1]), f32([2]), f32([2]), f32([2]), epsilon=0.001, is_training=False)
row("CVE-2021-41224", "SparseFillEmptyRows", t("int64", [10, 2]), f32([8]), i64(5, 5), scalar("float32", 0))
row("CVE-2021-41226", "DenseBincount", t("int32", [2, 2], -1), scalar("int32", 3), f32([2, 2]), binary_output=False)

# ---- 2022, first half (TensorFlow 2.8 and 2.9) -----------------------------------------------

row("CVE-2022-21725", "Conv2D", f32([1, 2, 2, 1]), f32([1, 1, 1, 1]), strides=[1, 0, 0, 1], padding="SAME")
row("CVE-2022-21725", "DepthwiseConv2dNative", f32([1, 2, 2, 1]), f32([1, 1, 1, 1]), strides=[1, 0, 0, 1], padding="SAME")
row("CVE-2022-21728", "ReverseSequence", f32([2, 3]), i32(1, 2), seq_dim=0, batch_dim=-9)
row("CVE-2022-21729", "UnravelIndex", scalar("int32", 0), i32(1 << 30, 1 << 30, 1 << 30))
row("CVE-2022-21731", "ConcatV2", [t("int32", [1]), t("int32", [1])], t("int32", [1], [0]))
row("CVE-2022-21731", "ConcatV2", [f32([2, 2]), f32([2, 2])], scalar("int32", -7))
row("CVE-2022-21731", "Concat", scalar("int32", 9), [f32([2, 2]), f32([2, 2])])
row("CVE-2022-21733", "StringNGrams", s("a", "b"), i32(0, 2), separator="", ngram_widths=[(1 << 31) - 1], left_pad="a", right_pad="b",
    pad_width=(1 << 31) - 1, preserve_short_sequences=False)
row("CVE-2022-21737", "Bincount", i32(1, 2), scalar("int32", -1), f32([2]))
row("CVE-2022-21737", "Bincount", i32(1, 2), i32(3, 3), f32([2]))
row("CVE-2022-21737", "Bincount", i32(1, 2), scalar("int32", 3), f32([5]))
row("CVE-2022-21737", "DenseBincount", scalar("int32", 1), scalar("int32", 3), f32([0]), binary_output=True)
row("CVE-2022-21737", "DenseBincount", t("int32", [1, 1, 1]), scalar("int32", 3), f32([0]), binary_output=True)
for op in ("SparseReorder",):
    row("CVE-2022-23567", op, t("int64", [1, 2]), f32([1]), i64(BIG, BIG))
row("CVE-2022-23567", "SparseReshape", t("int64", [1, 2]), i64(1 << 32, 1 << 32), i64(-1))
row("CVE-2022-23567", "SparseToDense", t("int64", [1, 2]), i64(1 << 32, 1 << 32), f32([1]), scalar("float32", 0))
row("CVE-2022-23568", "SparseCross", [t("int64", [1, 2])], [t("int64", [1])], [i64(BIG, BIG)], [], hashed_output=True, num_buckets=1,
    hash_key=1,
    out_type="int64", internal_type="int64")
row("CVE-2022-23569", "TensorListReserve", i64(BIG, BIG), scalar("int32", 2), element_dtype="float32", shape_type="int64")
row("CVE-2022-23569", "Empty", i32((1 << 31) - 1, (1 << 31) - 1), dtype="float32", init=False, loose=True)
graph("CVE-2022-23573", "Assign", ("v", "VariableV2", [], {"dtype": "float32", "shape": [2]}), ("op", "AssignAdd", ["v", f32([2])],
      {"T": "float32"}),
      steps=[["op:0"]])
graph("CVE-2022-23573", "Assign", ("v", "VariableV2", [], {"dtype": "float32", "shape": [2]}),
      ("op", "Assign", ["v", f32([3])], {"T": "float32", "validate_shape": True}), steps=[["op:0"]])
row("CVE-2022-23576", "BroadcastTo", f32([1]), i64(BIG, BIG))
row("CVE-2022-23576", "BroadcastTo", f32([0]), i64(TOP, TOP, 0))
row("CVE-2022-23587", "CropAndResize", f32([1, 1, 1, 1]), f32([1, 4]), i32(0), i32((1 << 31) - 1, (1 << 31) - 1))
row("CVE-2022-23583", "Mul", t("bool", [1], True), t("bool", [1], True))
row("CVE-2022-23572", "TensorListFromTensor", f32([2]), i32(-5), element_dtype="float32", shape_type="int32")
row("CVE-2022-29203", "SpaceToBatchND", f32([2, 2, 2, 2]), t("int64", [2], [-1879048192, 1 << 40]), t("int64", [2, 2]))
row("CVE-2022-29203", "BatchToSpaceND", f32([4, 2, 2, 1]), i64(1 << 32, 1 << 32), t("int64", [2, 2]))
row("CVE-2022-29203", "BatchToSpaceND", f32([4, 2, 2, 1]), i64(0, 0), t("int64", [2, 2]))
row("CVE-2022-29211", "Bucketize", f32([3], [float("nan"), 1, 2]), boundaries=[0.0, 1.0])
row("CVE-2022-29211", "Cast", f32([3], [float("nan"), float("inf"), -1e30]), SrcT="float32", DstT="int32")
row("CVE-2022-29207", "ReadVariableOp", scalar("float32", 1), dtype="float32")
row("CVE-2022-29206", "SparseTensorDenseMatMul", t("int64", [1, 3]), f32([1]), i64(2, 2), f32([2, 2]))
row("CVE-2022-29196", "Conv3DBackpropInputV2", i32(1, 1), f32([1, 1, 1, 1, 1]), f32([1, 1, 1, 1, 1]), strides=[1, 1, 1, 1, 1],
    padding="SAME")
row("CVE-2022-29204", "Conv3DBackpropInputV2", i32(1, -1, 1, 1, 1), f32([1, 1, 1, 1, 1]), f32([1, 1, 1, 1, 1]), strides=[1, 1, 1, 1, 1],
    padding="SAME")
row("CVE-2022-29209", "Pack", [f32([2]), f32([3])], axis=0)
row("CVE-2022-29193", "AsString", t("complex64", [2], 1), precision=-5)

# ---- September 2022 (TensorFlow 2.10) --------------------------------------------------------

row("CVE-2022-35934", "Reshape", f32([1]), i64(1 << 32, 1 << 32))
row("CVE-2022-35934", "Reshape", f32([0]), i64(-1, 0))
row("CVE-2022-35934", "Reshape", f32([4]), i32(-1, -1))
row("CVE-2022-35938", "GatherNd", f32([2, 3]), t("int32", [1, 3], [0, 0, 0]))
row("CVE-2022-35938", "GatherNd", f32([2, 3]), t("int32", [1, 2], [-1, 9]))
row("CVE-2022-35937", "GatherNd", f32([0, 3]), t("int64", [2, 1]))
row("CVE-2022-35939", "ScatterNd", t("int32", [1, 1], [-1]), f32([1]), i32(4))
row("CVE-2022-35939", "ScatterNd", t("int32", [1, 1], [0]), f32([1]), i32(-4))
row("CVE-2022-35939", "ScatterNd", t("int64", [2, 0]), f32([2]), i64(0))
for op in ("TensorScatterAdd", "TensorScatterUpdate", "TensorScatterMin", "TensorScatterMax", "TensorScatterSub"):
    row("CVE-2022-35939", op, f32([4]), t("int32", [1, 1], [7]), f32([1]))
    row("CVE-2022-35939", op, f32([4]), t("int32", [1, 3], [0, 0, 0]), f32([1]))
row("CVE-2022-35941", "AvgPool", f32([1, 1, 1, 1]), ksize=[1, 1 << 31, 1, 1], strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2022-35941", "AvgPool", f32([1, 2, 2, 1]), ksize=[1, -2, -2, 1], strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2022-35959", "AvgPool3D", f32([1, 2, 2, 2, 1]), ksize=[1, 1, 1, 1, 1], strides=[1, -1, 1, 1, 1], padding="SAME")
row("CVE-2022-35960", "TensorListReserve", i32(1), i32(5, 5), element_dtype="int32", shape_type="int32")
for op in ("UpperBound", "LowerBound"):
    row("CVE-2022-35965", op, t("float32", [0]), t("float32", [0]))
    row("CVE-2022-35965", op, t("float32", [2, 0]), t("float32", [2, 3]))
row("CVE-2022-35969", "Conv2DBackpropInput", i32(1, 1), f32([1, 1, 1, 1]), f32([1, 1, 1, 1]), strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2022-35983", "SaveV2", scalar("string", b"p"), t("string", [1, 1], [b"x"]), s(""), [f32([1])])
row("CVE-2022-35987", "DenseBincount", i32(1, 2), t("int32", [2], 3), f32([2]), binary_output=False)
row("CVE-2022-35987", "DenseBincount", i32(1, 2), scalar("int32", 3), f32([3]), binary_output=False)
row("CVE-2022-35989", "MaxPool", f32([1, 2, 2, 1]), ksize=[1, 1 << 31, 1 << 31, 1], strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2022-35991", "TensorListScatter", f32([1]), scalar("int32", 0), i32(-1), element_dtype="float32", shape_type="int32")
row("CVE-2022-35991", "TensorListScatterV2", f32([1]), i32(-8), i32(), scalar("int32", 3), element_dtype="float32", shape_type="int32")
row("CVE-2022-35991", "TensorListScatterV2", f32([1]), i32(1 << 30), i32(), scalar("int32", -1), element_dtype="float32",
    shape_type="int32")
row("CVE-2022-35992", "TensorListFromTensor", f32([]), i32(), element_dtype="float32", shape_type="int32")
row("CVE-2022-35992", "TensorListFromTensor", f32([2, 2]), t("int32", [1, 1], 2), element_dtype="float32", shape_type="int32")
row("CVE-2022-35996", "Conv2D", f32([2, 2, 2, 2]), f32([0, 0, 2, 2]), strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2022-35996", "Conv2D", f32([0, 2, 2, 2]), f32([1, 1, 2, 2]), strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0,
    -3, 1, 0, 0, 0, 0])
row("CVE-2022-35997", "SparseCross", [], [], [], [], hashed_output=True, num_buckets=0, hash_key=0, out_type="int64",
    internal_type="int64")
row("CVE-2022-35997", "SparseCrossV2", [t("int64", [1, 2])], [s("a")], [i64(2, 2)], [], s("a", "b"))
row("CVE-2022-35997", "SparseCrossHashed", [t("int64", [1, 2])], [i64(1)], [i64(2, 2)], [], scalar("int64", 0), t("bool", [3]), i64(1, 2))
row("CVE-2022-35998", "EmptyTensorList", t("int32", [1, 1], 1), scalar("int32", 1), element_dtype="float32", shape_type="int32")
row("CVE-2022-35998", "EmptyTensorList", i32(1), i32(1, 2), element_dtype="float32", shape_type="int32")
row("CVE-2022-35999", "Conv2DBackpropInput", i32(0, 4, 4, 1), f32([2, 2, 1, 1]), f32([0, 3, 3, 1]), strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2022-36019", "ClipByValue", f32([3]), f32([2]), f32([]))

# ---- November 2022 and 2023 (TensorFlow 2.11 to 2.13) ----------------------------------------

row("CVE-2022-41890", "BroadcastArgs", i64(1 << 62), i64(1, BIG))
row("CVE-2022-41890", "BroadcastGradientArgs", i64(1 << 62, 3), i64(2, 3))
row("CVE-2022-41887", "SquaredDifference", f32([1, 70000]), f32([70000, 1]))
for op, more in (("TensorListConcat", []), ("TensorListConcatV2", [i32(-1), t("int64", [0])])):
    graph("CVE-2022-41891", op, ("l", "TensorListReserve", [i32(1), scalar("int32", 2)], {"element_dtype": "float32",
          "shape_type": "int32"}),
          ("op", op, ["l", *more], {"element_dtype": "float32", "shape_type": "int32", "element_shape": None}), steps=[["op:0"]])
    graph("CVE-2022-41891", op, ("l", "EmptyTensorList", [i32(), scalar("int32", 2)], {"element_dtype": "float32",
          "shape_type": "int32"}),
          ("op", op, ["l", *more], {"element_dtype": "float32", "shape_type": "int32", "element_shape": None}), steps=[["op:0"]])
for size in (i32(-1), scalar("int32", -5), t("int32", [0]), scalar("int32", 1 << 30)):
    graph("CVE-2022-41893", "TensorListResize", ("l", "EmptyTensorList", [i32(), scalar("int32", 2)], {"element_dtype": "float32",
          "shape_type": "int32"}),
          ("r", "TensorListResize", ["l", size], {}), ("op", "TensorListLength", ["r"], {}), steps=[["op:0"]])
row("CVE-2022-41895", "MirrorPad", f32([1]), t("int32", [1, 2], [1 << 30, 1 << 30]), mode="SYMMETRIC")
row("CVE-2022-41895", "MirrorPad", f32([3, 3]), t("int32", [2, 2], [-1, 0, 0, -3]), mode="REFLECT")
row("CVE-2022-41895", "Pad", f32([2]), t("int64", [1, 2], [TOP, TOP]))
row("CVE-2022-41895", "PadV2", f32([2, 2]), t("int32", [2, 2], [-2, -1, 0, 0]), scalar("float32", 0))
row("CVE-2022-41907", "ResizeNearestNeighbor", f32([0, 2, 2, 1]), i32(1 << 30, 1 << 30), half_pixel_centers=True)
row("CVE-2022-41911", "Print", f32([1]), [f32([0])], message="%s%n", first_n=-1, summarize=-1)
row("CVE-2023-25659", "DynamicStitch", [t("int32", [2], [405, -1])], [f32([2])])
row("CVE-2023-25659", "DynamicStitch", [i32(1), i32(0)], [f32([1, 2]), f32([1, 3])])
row("CVE-2023-25659", "ParallelDynamicStitch", [i32(-5)], [f32([1])])
row("CVE-2023-25659", "DynamicStitch", [i32((1 << 31) - 1)], [f32([1])])
row("CVE-2023-25660", "Print", t("bool", [1], True), [t("int32", [0])], message="tensorflow", first_n=100, summarize=-5)
row("CVE-2023-25661", "Conv3DBackpropInputV2", i32(1, 2, 2, 2, 1), f32([1, 1, 1, 1, 1]), f32([1, 1, 1, 1, 1]), strides=[1, 1, 1, 1, 1],
    padding="SAME")
for kind in ("float32", "string"):
    graph("CVE-2023-25663", "TensorArrayConcatV3", ("a", "TensorArrayV3", [scalar("int32", 0)], {"dtype": kind, "element_shape": None}),
          ("op", "TensorArrayConcatV3", ["a", "a:1"], {"dtype": kind, "element_shape_except0": None}), steps=[["op:0"]])
    graph("CVE-2023-25663", "TensorArrayConcatV3", ("a", "TensorArrayV3", [scalar("int32", 2)], {"dtype": kind, "element_shape": None}),
          ("op", "TensorArrayConcatV3", ["a", "a:1"], {"dtype": kind, "element_shape_except0": None}), steps=[["op:0"]])
for lengths in (i64(0, 0, 0), i64(-1, 3), i64(TOP, TOP), t("int64", [1, 1], 2)):
    graph("CVE-2023-25663", "TensorArraySplitV3", ("a", "TensorArrayV3", [scalar("int32", 2)], {"dtype": "float32",
          "element_shape": None}),
          ("op", "TensorArraySplitV3", ["a", f32([2]), lengths, "a:1"], {"T": "float32"}), steps=[["op:0"]])
for op, kind in (("MutableHashTableV2", {}), ("MutableHashTableOfTensorsV2", {"value_shape": [2]})):
    for keys, values in ((s("a"), f32([])), (s("a", "b"), f32([1])), (t("string", [0], []), f32([3]))):
        for write in ("LookupTableImportV2", "LookupTableInsertV2"):
            graph("CVE-2023-25672", write, ("h", op, [], {"key_dtype": "string", "value_dtype": "float32", **kind}),
                  ("op", write, ["h", keys, values], {"Tin": "string", "Tout": "float32"}), ("n", "LookupTableSizeV2", ["h"],
                   {}), steps=[["op"], ["n:0"]])
for lengths in (i64(0, 0), i64(-1), i64(3, 3), i64(TOP, 1)):
    row("CVE-2023-25673", "TensorListSplit", f32([2]), scalar("int32", -1), lengths, element_dtype="float32", shape_type="int32")
row("CVE-2023-25673", "TensorListSplit", f32([]), scalar("int32", -1), i64(1), element_dtype="float32", shape_type="int32")
row("CVE-2023-25675", "Bincount", t("int32", [3, 2], 4), scalar("int32", 3), f32([2, 3]))
row("CVE-2023-33976", "UpperBound", t("float32", [1]), t("float32", [2, 2]))
row("CVE-2023-33976", "LowerBound", t("float32", []), t("float32", [2, 2]))
row("CVE-2023-27579", "Conv2D", f32([1, 1, 1, 1]), f32([1, 1, 0, 1]), strides=[1, 1, 1, 1], padding="VALID")
row("CVE-2023-25662", "Slice", f32([3]), i64(TOP), i64(TOP))
row("CVE-2023-25662", "StridedSlice", f32([3]), i64(-TOP - 1), i64(TOP), i64(TOP))
row("CVE-2023-25662", "StridedSlice", f32([3]), i32(0), i32(3), i32(0))

# ---- what a graph itself says: constants, attributes, edges ----------------------------------


def held(number, op, *nodes, steps):
    """Adds nodes exactly as given, so that they can be malformed."""
    ROWS.append((number, Case(op, list(nodes), {}, steps)))


def const(name, value, dtype=None):
    made = constant(name, value)
    if dtype is not None:
        made.attrs["dtype"] = ["type", dtype]
    return made


UNARY = {"T": ["type", 1]}
held("CVE-2020-15190", "Switch", const("x", f32([2])), const("p", t("bool", [2], True)), Node("op", "Switch", ["x", "p"], UNARY),
     steps=[["op:0"]])
held("CVE-2020-15190", "Switch", const("x", f32([2])), const("p", scalar("bool", True)), Node("op", "Switch", ["x", "p"], UNARY),
     steps=[["op:0"]])
held("CVE-2020-26271", "Identity", const("x", f32([2])), Node("op", "Identity", ["x:7"], UNARY), steps=[["op:0"]])
held("CVE-2020-26271", "AddV2", const("x", f32([2])), Node("op", "AddV2", ["x", "op"], UNARY), steps=[["op:0"]])
held("CVE-2020-26271", "AddV2", const("x", f32([2])), Node("op", "AddV2", ["x"], UNARY), steps=[["op:0"]])
held("CVE-2021-41217", "Exit", const("x", f32([2])), Node("op", "Exit", ["x"], UNARY), steps=[["op:0"]])
held("CVE-2021-41217", "Merge", const("x", f32([2])), Node("op", "Merge", [], {"T": ["type", 1], "N": ["i", 0]}), steps=[["op:0"]])
held("CVE-2021-41217", "NextIteration", const("x", f32([2])), Node("m", "Merge", ["x", "op"], {"T": ["type", 1], "N": ["i", 2]}),
     Node("op", "NextIteration", ["m"], UNARY), steps=[["m:0"]])
row("CVE-2021-37675", "Conv2D", f32([1, 2, 2, 3]), f32([1, 1, 0, 3]), strides=[1, 1, 1, 1], padding="SAME")
row("CVE-2021-37675", "Conv3D", f32([1, 2, 2, 2, 3]), f32([1, 1, 1, 0, 3]), strides=[1, 1, 1, 1, 1], padding="SAME")
for slices in ("0 0,9", "9223372036854775807 0,1", "2 0,1:-", "-"):
    graph("CVE-2021-41203", "RestoreV2",
          ("save", "SaveV2", [scalar("string", b"p"), s("x"), s(""), f32([2])], {"dtypes": ["float32"]}),
          ("op", "RestoreV2", [scalar("string", b"p"), s("x"), s(slices)], {"dtypes": ["float32"]}), steps=[["save"], ["op:0"]])
graph("CVE-2021-41203", "RestoreV2", ("save", "SaveV2", [scalar("string", b"p"), s("x"), s(""), f32([2])], {"dtypes": ["float32"]}),
      ("op", "RestoreV2", [scalar("string", b"p"), s("x"), s("")], {"dtypes": ["string"]}), steps=[["save"], ["op:0"]])
row("CVE-2022-23562", "Range", scalar("int32", 0), scalar("int32", (1 << 31) - 1), scalar("int32", 1))
row("CVE-2022-23562", "Range", scalar("int64", 0), scalar("int64", -TOP - 1), scalar("int64", -1))
row("CVE-2022-36015", "Range", scalar("float64", -1e300), scalar("float64", 1e300), scalar("float64", 1))
row("CVE-2022-36015", "Range", scalar("int64", -(1 << 62)), scalar("int64", TOP), scalar("int64", 1))
held("CVE-2022-23564", "Const", const("op", Tensor(20, [], b"")), steps=[["op"]])
held("CVE-2022-23564", "Const", const("op", Tensor(21, [2], b"\1\2")), steps=[["op"]])
held("CVE-2022-23571", "Const", const("op", Tensor(0, [2], b"\1\2")), steps=[["op"]])
held("CVE-2022-23571", "Const", const("op", Tensor(1, [2], b"12345678"), 3), steps=[["op:0"]])
held("CVE-2022-23571", "Const", const("op", Tensor(1, [2], b"1234567")), steps=[["op:0"]])
held("CVE-2022-23575", "Const", const("op", Tensor(1, [1 << 62, 4], b"1234")), steps=[["op:0"]])
held("CVE-2022-23582", "Const", const("op", Tensor(1, [-1, 2], b"12345678")), steps=[["op:0"]])
held("CVE-2022-23582", "Const", const("op", Tensor(1, [-2, -2], b"1234" * 4)), steps=[["op:0"]])
held("CVE-2022-23580", "Fill", const("d", Tensor(9, [1 << 40], b"12345678")), const("v", scalar("float32", 1)),
     Node("op", "Fill", ["d", "v"], {"T": ["type", 1], "index_type": ["type", 9]}), steps=[["op:0"]])
held("CVE-2022-23581", "Reshape", const("x", f32([2])), const("d", i32(-1)), Node("op", "Reshape", ["x", "d:1"], {"T": ["type", 1],
     "Tshape": ["type", 3]}),
     steps=[["op:0"]])
held("CVE-2022-23581", "Reshape", const("x", f32([2])), const("d", t("int32", [0, 0])), Node("op", "Reshape", ["x", "d"],
     UNARY | {"Tshape": ["type", 3]}),
     steps=[["op:0"]])

held("CVE-2020-15206", "Const", Node("op", "Const", [], {"dtype": ["type", 1]}), steps=[["op:0"]])
held("CVE-2020-26266", "Const", const("op", Tensor(12, [4], b"")), steps=[["op:0"]])
held("CVE-2021-41204", "Identity", const("x", Tensor(20, [], b"")), Node("op", "Identity", ["x"], {"T": ["type", 20]}), steps=[["op"]])
held("CVE-2022-23570", "TensorListReserve", const("s", i32(1)), const("n", scalar("int32", 2)),
     Node("op", "TensorListReserve", ["s", "n"], {"shape_type": ["type", 3]}), steps=[["op"]])
held("CVE-2022-23579", "Identity", Node("op", "Identity", [], UNARY), steps=[["op:0"]])
held("CVE-2022-23579", "Identity", Node("op", "Identity", ["none"], UNARY), steps=[["op:0"]])
held("CVE-2022-23588", "Const", const("op", f32([2]), 101), steps=[["op:0"]])
held("CVE-2022-23588", "Const", const("op", Tensor(101, [2], b"12345678")), steps=[["op:0"]])
graph("CVE-2021-37690", "MutableHashTableOfTensorsV2",
      ("h", "MutableHashTableOfTensorsV2", [], {"key_dtype": "string", "value_dtype": "float32", "value_shape": [2, -1]}),
      ("op", "LookupTableFindV2", ["h", s("a"), f32([2])], {"Tin": "string", "Tout": "float32"}), steps=[["op:0"]])
row("CVE-2022-41883", "DynamicStitch", [i32(0)], [f32([1, 2]), f32([1, 2])])
row("CVE-2022-41911", "StringFormat", [Tensor(10, [2], b"\7\x80")], template="{}", placeholder="{}", summarize=3)
row("CVE-2022-41911", "Assert", scalar("bool", False), [Tensor(10, [2], b"\7\x80")], summarize=3)
row("CVE-2022-41887", "Mul", f32([1, 70000]), f32([70000, 1]))

# ---- TensorFlow Lite's kernels of ops that we have -------------------------------------------

NHWC = {"strides": [1, 1, 1, 1], "padding": "SAME"}
row("CVE-2020-15207", "Sum", f32([2, 2]), i32(-3), keep_dims=False)
row("CVE-2020-15207", "Mean", f32([2, 2]), i32(0, -9), keep_dims=True)
row("CVE-2020-15208", "AddV2", f32([2, 3]), f32([3, 2]))
row("CVE-2020-15208", "Mul", f32([4, 2]), f32([4]))
row("CVE-2020-15212", "SegmentSum", f32([2]), i32(-1, 0))
row("CVE-2020-15213", "SegmentSum", f32([1]), i32(1 << 30))
row("CVE-2020-15214", "SegmentSum", f32([2]), i32(5, 1))
row("CVE-2021-29585", "MaxPool", f32([1, 2, 2, 1]), ksize=[1, 2, 2, 1], strides=[1, 0, 0, 1], padding="SAME")
row("CVE-2021-29586", "AvgPool", f32([1, 2, 2, 1]), ksize=[1, 2, 2, 1], strides=[1, 0, 1, 1], padding="SAME")
row("CVE-2021-29587", "SpaceToDepth", f32([1, 4, 4, 1]), block_size=0, data_format="NHWC")
row("CVE-2021-29588", "Conv2DBackpropInput", i32(1, 4, 4, 1), f32([2, 2, 1, 1]), f32([1, 2, 2, 1]), strides=[1, 0, 0, 1], padding="SAME")
row("CVE-2021-29589", "GatherNd", f32([2, 0]), t("int32", [2, 2]))
row("CVE-2021-29589", "GatherNd", f32([0, 3]), t("int32", [1, 2]))
for op in ("Minimum", "Maximum"):
    row("CVE-2021-29590", op, f32([2, 0]), f32([3]))
    row("CVE-2021-29590", op, f32([0]), f32([]))
row("CVE-2021-29592", "Reshape", f32([2]), i32())
row("CVE-2021-29593", "BatchToSpaceND", f32([4, 1, 1, 1]), i32(0, 2), t("int32", [2, 2]))
row("CVE-2021-29594", "Conv2D", f32([1, 2, 2, 1]), f32([1, 1, 1, 1]), strides=[1, 0, 1, 1], padding="SAME")
row("CVE-2021-29595", "DepthToSpace", f32([1, 2, 2, 4]), block_size=0, data_format="NHWC")
row("CVE-2021-29597", "SpaceToBatchND", f32([1, 2, 2, 1]), i32(0, 1), t("int32", [2, 2]))
row("CVE-2021-29599", "Split", scalar("int32", 0), f32([4]), num_split=0)
row("CVE-2021-29600", "OneHot", t("int32", [0, 3]), scalar("int32", 3), scalar("float32", 1), scalar("float32", 0), axis=1)
row("CVE-2021-29601", "ConcatV2", [f32([0, (1 << 31) - 1]), f32([0, 2])], scalar("int32", 1))
row("CVE-2021-29602", "DepthwiseConv2dNative", f32([1, 2, 2, 0]), f32([1, 1, 0, 1]), **NHWC)
for op in ("ArgMin", "ArgMax"):
    row("CVE-2021-29603", op, f32([2, 2]), scalar("int32", 5), output_type="int64")
    row("CVE-2021-29603", op, f32([0, 2]), scalar("int32", 0), output_type="int32")
row("CVE-2021-29606", "SplitV", f32([4, 4]), i32(2, 2), scalar("int32", 5), num_split=2)
for op in ("Div", "FloorDiv", "FloorMod"):
    row("CVE-2021-37683", op, i32(1, 2), i32(0, 1))
row("CVE-2021-37684", "AvgPool", f32([1, 2, 2, 1]), ksize=[1, 2, 2, 1], strides=[1, 0, 0, 1], padding="VALID")
row("CVE-2021-37684", "MaxPool", f32([1, 2, 2, 1]), ksize=[1, 2, 2, 1], strides=[1, 1, 0, 1], padding="VALID")
row("CVE-2021-37685", "ExpandDims", f32([2]), scalar("int32", -9))
row("CVE-2021-37686", "StridedSlice", f32([2, 3]), i32(0, 0, 0), i32(1, 1, 1), i32(1, 1, 1), ellipsis_mask=1, new_axis_mask=3)
row("CVE-2021-37687", "GatherNd", f32([2]), t("int32", [1, 1], [-1]))
row("CVE-2021-37687", "GatherV2", f32([2]), i32(-1), scalar("int32", 0))
row("CVE-2022-21741", "DepthwiseConv2dNative", f32([1, 2, 2, 1]), f32([1, 1, 1, 1]), strides=[1, 0, 0, 1], padding="SAME")

# Advisories about TensorFlow Lite's kernels of ops that Slipway also has.
LITE = set("""
CVE-2020-15207 CVE-2020-15208 CVE-2020-15212 CVE-2020-15213 CVE-2020-15214 CVE-2021-29585 CVE-2021-29586 CVE-2021-29587
CVE-2021-29588 CVE-2021-29589 CVE-2021-29590 CVE-2021-29592 CVE-2021-29593 CVE-2021-29594 CVE-2021-29595 CVE-2021-29597
CVE-2021-29599 CVE-2021-29600 CVE-2021-29601 CVE-2021-29602 CVE-2021-29603 CVE-2021-29606 CVE-2021-37683 CVE-2021-37684
CVE-2021-37685 CVE-2021-37686 CVE-2021-37687 CVE-2022-21741 CVE-2022-35937 CVE-2022-35938 CVE-2022-35939 CVE-2023-27579
""".split())

# Security advisories about ops that Slipway lacks. Slipway's related ops are tested for the same flaws.
KIN = set("""
CVE-2018-7576 CVE-2020-26268 CVE-2021-29534 CVE-2021-29539 CVE-2021-29540 CVE-2021-29552 CVE-2021-29557
CVE-2021-29558 CVE-2021-29566 CVE-2021-29567 CVE-2021-29568 CVE-2021-29570 CVE-2021-29573 CVE-2021-29574 CVE-2021-29576
CVE-2021-29577 CVE-2021-29579 CVE-2021-29607 CVE-2022-23567 CVE-2022-23568 CVE-2021-29609 CVE-2021-29613
CVE-2021-41219 CVE-2022-29193 CVE-2022-29196 CVE-2022-29204 CVE-2022-29206 CVE-2022-29207 CVE-2022-29209 CVE-2022-29211
CVE-2022-35959 CVE-2022-36019 CVE-2022-41895 CVE-2022-41907
CVE-2023-25662
""".split())
