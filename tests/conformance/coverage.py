#!/usr/bin/env python3
"""Checks or writes ops.txt, the table of the ops of TensorFlow and TensorFlow Text, and reports how many Slipway has.

    python tests/conformance/coverage.py            # prints the report; needs no TensorFlow
    python tests/conformance/coverage.py --check    # checks ops.txt against Slipway's C tables; needs no TensorFlow
    python tests/conformance/coverage.py --write    # writes ops.txt from TensorFlow's registry; needs tensorflow-text

ops.txt has one row per public op that TensorFlow, or TensorFlow Text (family tf.text), runs on a CPU. A row contains the
family, the op, the class and, if the op is not needed, the reason. Slipway's C tables show which ops Slipway has, so
ops.txt does not.
"""

import argparse
import collections
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "tests" / "conformance" / "ops.txt"
CLASSES = ("needed", "legacy", "impossible")
sys.path.insert(0, str(ROOT / "tests" / "opfuzz"))
import schema  # noqa: E402

# Ops without a kernel, because TensorFlow replaces them before it chooses kernels.
REPLACED = {"AccumulateNV2"}

# Ops that are not needed, as (family, class, reason, regular expression for the complete name). The first match
# decides.
NOT_NEEDED = [
    ("test", "impossible", "exists for TensorFlow's own tests",
     "TestAttr|Old|DevicePlacementOp|KernelLabel(Required)?|ConstructionFails|DtypeWithDefaultOp|StubResourceHandleOp|"
     "Resource(Create|Initialized|Using)Op|GraphDefVersion|Sleep(Identity)?Op|CheckPinned|"
     "Is(TensorFloat32Enabled|ResourceHandleRefCounting)|MakeWeakResourceHandle|GetDeadline"),
    ("python", "impossible", "calls a Python function of the process that made the graph", "(Eager)?PyFunc(Stateless)?"),
    ("distributed", "impossible", "exchanges tensors with other devices or processes",
     "Collective.*|Send|Recv|Rpc.*|DeleteRpcFutureResource|RemoteCall|SyncDevice"),
    ("xla", "impossible", "runs only in graphs that XLA compiles", "Xla.*"),
    ("debugging", "impossible", "added by TensorFlow's debugger to graphs that it watches", "Copy|CopyHost|Debug.*"),
    ("debugging", "impossible", "ends the process", "Abort"),
    ("quantisation", "impossible", "collects statistics while TensorFlow's quantiser calibrates a model",
     "CalibrationStatisticsSaver|CustomAggregator|DumpTensor"),
    ("quantisation", "legacy", "is computed only by TensorFlow's oneDNN kernels, without which it leaves its outputs unset",
     "Quantized(Depthwise)?Conv2D(.*And.*|PerChannel|WithBias.*)|QuantizedDepthwiseConv2D|QuantizedMatMulWithBias.*"),
    ("image", "legacy", "needs libjxl (5 MB), and Debian's decodes a quarter of the samples of lossy images otherwise",
     "DecodeJxl"),
    ("signal", "legacy", "is an experimental op of TensorFlow Lite for microcontrollers", "AudioMicrofrontend"),
    ("files", "impossible", "configures a file system of the process", "FileSystemSetConfiguration"),
    ("data", "impossible", "belongs to tf.data, which is out of scope",
     ".*Dataset(V[234])?|.*Dataset(ToGraphV2|Cardinality|Fingerprint|FromGraph|ToGraph|ToSingleElement|ToTFRecord|Reader|"
     "Variant)|Dataset.*|.*Iterator.*|.*(MemoryCache|SeedGenerator)|Experimental.*|StatsAggregator.*|"
     "ThreadPoolHandle|(Unc|C)ompressElement|Get(ElementAtIndex|Options)|DummyIterationCounter|WindowOp|"
     "ComputeBatchSize|RecordInput|DistributedSave|.*DatasetVariant"),
    ("control", "legacy", "derives a function by gradients that are registered in C++; Python writes gradients as ops",
     "SymbolicGradient"),
    ("summary", "legacy", "writes an SQLite database, which TensorBoard no longer reads", "CreateSummaryDbWriter"),
    ("training", "legacy", "belongs to linear estimators, which TensorFlow has dropped", "Sdca.*"),
    ("queue", "legacy", "is documented as not to be used", "FakeQueue"),
    ("queue", "legacy", "the form with a resource handle replaces it",
     "(FIFO|PaddingFIFO|Priority|RandomShuffle)Queue|Queue(Close|Dequeue(Many|UpTo)?|Enqueue(Many)?|IsClosed|Size)|"
     "Stack(Close|Pop|Push)?"),
    ("files", "legacy", "the form with a resource handle replaces it",
     "Reader.*(?<!V2)|(FixedLengthRecord|Identity|LMDB|TFRecord|TextLine|WholeFile)Reader"),
    ("lookup", "legacy", "the form with a resource handle replaces it",
     "(MutableDense|Mutable)?HashTable|MutableHashTableOfTensors|InitializeTable(FromTextFile)?|"
     "LookupTable(Export|Find|Import|Insert|Size)"),
    ("state", "legacy", "VariableV2 replaces it", "Variable"),
    ("list", "legacy", "takes the handle of a TensorArrayV2, which is refused in graphs of version 26 and later",
     "TensorArrayConcatV2"),
]

# The families of all other ops of TensorFlow itself. The first expression that matches the complete name decides.
FAMILIES = [
    ("training", ".*(Sparse)?Apply(Ada.*|Momentum|KerasMomentum|Ftrl.*|GradientDescent|Proximal.*|.*RMSProp|.*Sign)|"
     ".*CountUpTo|.*(ConditionalAccumulator|Accumulator(Apply|Num|Set|Take).*)|NegTrain|Skipgram|Sdca.*"),
    ("candidates", ".*CandidateSampler|ComputeAccidentalHits"),
    ("quantisation", ".*Quant.*|(Uniform)?Requantiz.*|(Uniform)?Dequantize"),
    ("csr", ".*CSRSparseMatrix.*|SparseMatrix.*"),
    ("conv", "(Fused(ResizeAnd)?Pad)?Conv(2D|3D)?(Backprop.*)?|DepthwiseConv.*|Dilation2D.*"),
    ("pool", "(Avg|Max|Fractional(Avg|Max))Pool.*"),
    ("norm", "FusedBatchNorm.*|BatchNorm.*|LRN(Grad)?"),
    ("ctc", "CTC.*"),
    ("rnn", "BlockLSTM.*|LSTMBlock.*|GRUBlock.*"),
    ("activation", "(Relu6?|LeakyRelu|Elu|Selu|Softplus|Softsign)(Grad)?|(Log)?Softmax|BiasAdd.*"),
    ("loss", "L2Loss|.*CrossEntropyWithLogits|InTopK(V2)?"),
    ("image", "Adjust.*|(Combined)?NonMaxSuppression.*|CropAndResize.*|Decode(AndCrop)?(Bmp|Gif|Image|Jpeg|Jxl|Png|WebP)|"
     "DrawBoundingBoxes.*|Encode(Jpeg|Png).*|Extract(Glimpse.*|ImagePatches|JpegShape|VolumePatches)|RGBToHSV|HSVToRGB|"
     "ImageProjective.*|RandomCrop|Resize(Area|Bi|Near).*|(Stateless)?SampleDistorted.*|ScaleAndTranslate.*"),
    ("signal", "I?R?FFT[23]?D?|Audio(Spectrogram|Microfrontend)|(De|En)codeWav|Mfcc"),
    ("random", "RandomIndexShuffle|State(less|ful)(Multinomial|Parameterized.*|Random.*|Shuffle|.*Normal.*|Uniform.*)|"
     "Random(Gamma.*|Poisson.*|Shuffle|Standard.*|Uniform.*)|Multinomial|NonDeterministicInts|Rng.*|.*TruncatedNormal|"
     "SobolSample|StochasticCastToInt"),
    ("lookup", ".*HashTable.*|InitializeTable.*|LookupTable.*|GenerateVocabRemapping"),
    ("queue", ".*Queue.*|Barrier.*|(Ordered)?Map(Clear|IncompleteSize|Peek|Size|Stage|Unstage.*)|(Uns|S)tage.*|Stack.*"),
    ("list", "TensorList.*|EmptyTensor(List|Map)|TensorMap.*|TensorArray.*|Optional.*"),
    ("ragged", "Ragged(?!Count|Bin).*"),
    ("sets", ".*SetOperation|SetSize"),
    ("counting", ".*(Count(SparseOutput)|[Bb]incount)|HistogramFixedWidth"),
    ("sparse", "Sparse.*|.*Sparse(ToTensorsMap|FromTensorsMap)|DeserializeManySparse|(Des|S)erialize(Many)?Sparse"),
    ("summary", ".*Summary.*|ImportEvent"),
    ("files", ".*Reader.*|ReadFile|WriteFile|MatchingFiles|Sharded.*|Save.*|Restore.*|MergeV2Checkpoints|"
     "LoadAndRemapMatrix|ImmutableConst"),
    ("parsing", "Parse.*|Decode(CSV|Compressed|JSONExample|PaddedRaw|ProtoV2|Raw)|EncodeProto|SerializeTensor"),
    ("string", "AsString|(De|En)codeBase64|EditDistance|Fingerprint|ReduceJoin|.*Regex.*|String.*|Substr|Unicode.*|"
     "UnsortedSegmentJoin"),
    ("linalg", "(Batch)?(Cholesky(Grad)?|Eig|Matrix(?!Diag|SetDiag|BandPart).*|SelfAdjointEig(V2)?|Svd)|Qr|Lu|Log(MatrixDet).*|"
     "Tridiagonal.*|Banded.*|Cross"),
    ("matmul", ".*MatMul.*|Einsum"),
    ("special", "Bessel.*|Igamma.*|Zeta|Polygamma|Betainc|Dawsn|Fresnel.*|Expint|Spence|Lgamma|Digamma|Erf.*|Ndtri"),
    ("gradient", ".*Grad"),
    ("control", "NoOp|ControlTrigger|Assert|Print(V2)?|.*(If|Case|While|PartitionedCall)|For|(Ref)?(Switch|Merge|Enter|Exit|"
     "NextIteration|Select)|LoopCond|MapDefun|SymbolicGradient|FakeParam|.*Mutex.*|Placeholder.*|Const|HostConst|Batch|"
     "BatchFunction|Unbatch|ToBool|DeviceIndex|Timestamp|.*Session(Handle|Tensor).*|GetDeadline|"
     "CompositeTensorVariant.*"),
    ("state", ".*Variable.*|VarHandleOp|VarIs.*|Assign.*|(Resource)?Scatter(?!NdNon|Nd$).*|ResourceGather.*|.*StridedSliceAssign|"
     "DestroyResourceOp|DisableCopyOnRead|RefIdentity"),
    ("reduction", "All|Any|Arg(Max|Min)|EuclideanNorm|Max|Mean|Min|Prod|Sum|(Unsorted)?Segment.*|Cum.*|Bucketize"),
    ("clustering", "KMC2.*|Kmeans.*|NearestNeighbors|IsotonicRegression"),
    ("array", "BatchToSpace.*|SpaceTo.*|DepthToSpace|(Batch)?Matrix.*|Broadcast.*|Concat.*|DataFormat.*|Diag(Part)?|"
     "DeepCopy|Dynamic.*|Parallel(DynamicStitch|Concat)|Empty|EnsureShape|ExpandDims|Fill|Gather.*|GuaranteeConst|"
     "Identity(N)?|Inplace.*|"
     "InvertPermutation|LinSpace|ListDiff|(Low|Upp)erBound|Mirror.*|NthElement|OneHot|OnesLike|Pack|Pad(V2)?|"
     "PreventGradient|Range|Rank|Reshape|Reverse.*|Roll|ScatterNd.*|Shape.*|Size|Slice|Snapshot|Split.*|Squeeze|"
     "StopGradient|StridedSlice.*|TensorScatter.*|TensorStrided.*|Tile|.*TopK.*|Transpose|ConjugateTranspose|Unique.*|"
     "Unpack|UnravelIndex|Where|ZerosLike|Bitcast"),
    ("math", "Abs|AccumulateNV2|Acosh?|Add(N|V2)?|Angle|ApproximateEqual|Asinh?|Atan[2h]?|Bitwise.*|Cast|Ceil|"
     "CheckNumerics.*|ClipByValue|Complex(Abs)?|Conj|Cosh?|Div(NoNan)?|(Not|Greater|Less)?Equal|Exp|Expm1|Fact|Floor.*|"
     "Greater|Imag|Inv|Invert|Is(Finite|Inf|Nan)|(Left|Right)Shift|Less|Log(1p|ical.*)?|Maximum|Minimum|Mod|"
     "Mul(NoNan)?|Neg|NextAfter|PopulationCount|Pow|Real(Div)?|Reciprocal|Rint|Round|Rsqrt|Select(V2)?|Sigmoid|Sign|"
     "Sinh?|Sqrt|Square(dDifference)?|Sub|Tanh?|Truncate.*|Xdivy|Xlog1?p?y"),
]


def read_table():
    """Returns the rows of ops.txt as tuples (family, op, class, reason)."""
    rows = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            family, op, kind, *reason = line.split(None, 3)
            rows.append((family, op, kind, " ".join(reason)))
    return rows


def slipway_ops():
    """Returns the names of the ops that Slipway has: those of kernels/table.inc, and those that the runtime itself
    implements in runtime/core/control.c."""
    control = (ROOT / "runtime" / "core" / "control.c").read_text()
    names = set(schema.ours(schema.registry())) | set(re.findall(r'ROW\("(\w+)"', control))
    return {name for name in names if not name.startswith("_")}


# ---- the report -----------------------------------------------------------------------------


def report():
    rows, have = read_table(), slipway_ops()
    count = collections.Counter()
    missing = collections.defaultdict(list)
    for family, op, kind, _ in rows:
        for key in ((family, kind), ("all", kind)):
            count[(*key, "all")] += 1
            count[(*key, "have")] += op in have
        if kind == "needed" and op not in have:
            missing[family].append(op)

    print(f"{len(rows)} public ops that TensorFlow and TensorFlow Text run on a CPU. Slipway has {len(have)} of them.")
    print(f"{'family':14}" + "".join(f"{kind:>14}" for kind in CLASSES))
    for family in ["all", *sorted({row[0] for row in rows})]:
        cells = [f"{count[family, kind, 'have']} of {count[family, kind, 'all']}" for kind in CLASSES]
        print(f"{family:14}" + "".join(f"{'' if cell == '0 of 0' else cell:>14}" for cell in cells))
    print("\nneeded, and missing:" if missing else "\nnothing that is needed is missing")
    for family, ops in sorted(missing.items()):
        print(f"{family} ({len(ops)}): {' '.join(ops)}")


def check():
    """Returns the faults of ops.txt as sentences."""
    rows, known = read_table(), schema.registry()
    faults = [f"{op} is listed twice" for op, n in collections.Counter(row[1] for row in rows).items() if n > 1]
    faults += [f"{op} is in Slipway, but not listed" for op in sorted(slipway_ops() - {row[1] for row in rows})]
    faults += [f"{op} is not an op of runtime/core/schema/table.inc" for _, op, _, _ in rows if op not in known]
    for _, op, kind, reason in rows:
        if kind not in CLASSES:
            faults.append(f"{op} has the class {kind}, which does not exist")
        elif (kind == "needed") == bool(reason):
            faults.append(f"{op} is {kind} and has {'a' if reason else 'no'} reason")
    if rows != sorted(rows):
        faults.append("the rows are not sorted by family and op")
    return faults


# ---- from TensorFlow's registry -------------------------------------------------------------


def classify(op, deprecated_since):
    for family, kind, reason, names in NOT_NEEDED:
        if re.fullmatch(names, op):
            return family, op, kind, reason
    for family, names in FAMILIES:
        if re.fullmatch(names, op):
            if deprecated_since:
                return family, op, "legacy", f"refused in graphs of version {deprecated_since} and later"
            return family, op, "needed", ""
    return "", op, "needed", ""


def write():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session
    from tensorflow.python.framework import kernels, versions

    core = {k.op for k in kernels.get_all_registered_kernels().kernel}
    import tensorflow_text

    ops = op_def_pb2.OpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    # TensorFlow uses a kernel for the device DEFAULT if there is none for the CPU.
    runnable = {k.op for k in kernels.get_all_registered_kernels().kernel if k.device_type in ("CPU", "DEFAULT")}
    rows = [classify(op.name, op.deprecation.version) if op.name in core | REPLACED else ("tf.text", op.name, "needed", "")
            for op in ops.op if not op.name.startswith("_") and op.name in runnable | REPLACED]
    rows.sort()
    homeless = [row[1] for row in rows if not row[0]]
    if homeless:
        raise SystemExit(f"without a family in {__file__}: {' '.join(homeless)}")
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"# Every public op that TensorFlow {versions.VERSION} and tensorflow-text {tensorflow_text.__version__} "
             "run on a CPU: family, op, class, reason.",
             "# Written by tests/conformance/coverage.py --write."]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0])).rstrip() for row in rows]
    TABLE.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true")
    group.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        write()
    if options.write or options.check:
        faults = check()
        print("\n".join(faults), end="\n" if faults else "")
        return 1 if faults else 0
    report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
