"""Valid cases of ops that seeds.jsonl does not cover: tables, graphs that create, fill and read lists and arrays, and
checkpoints. Each case is one graph, and fuzz.py mutates it like the recorded cases."""

import base64

from case_builder import f32, i32, i64, one_node, s, scalar, several_nodes, t
from text_models import FAST_PIECES, FAST_SENTENCEPIECE, LOOP, NORMALIZER, PHRASES, PIECES, SENTENCEPIECE, WORDPIECE

CASES = []
NAMES = {"element_dtype": "float32", "shape_type": "int32"}
WORDS = {"key_dtype": "string", "value_dtype": "int64"}


def case(op, *lines, steps):
    CASES.append(several_nodes(op, *lines, steps=steps))


# ---- tables whose handles are references to strings ------------------------------------------


def table(kind, version, more=(), values=i64(1, 2), fill="LookupTableInsert", **attrs):
    """Adds a case in which separate runs fill a table, look up keys, export the table and, for a mutable table, import
    pairs into it. `version` is "" or "V2"."""
    pair, default = {"Tin": "string", "Tout": "int64"}, i64(7, 8) if "OfTensors" in kind else scalar("int64", -1)
    lines = [("table", kind + version, list(more), WORDS | attrs),
             ("fill", fill + version, ["table", s("a", "b"), values], pair | {"Tkey": "string", "Tval": "int64"}),
             ("find", "LookupTableFind" + version, ["table", s("a", "q"), default], pair),
             ("size", "LookupTableSize" + version, ["table"], {}),
             ("export", "LookupTableExport" + version, ["table"], {"Tkeys": "string", "Tvalues": "int64"})]
    steps = [["fill"], ["find:0", "size:0"], ["export:0", "export:1"]]
    if fill == "LookupTableInsert":
        lines.append(("load", "LookupTableImport" + version, ["table", s("c", "b"), values], pair))
        steps += [["load"], ["find:0", "size:0"]]
    case(kind + version, *lines, steps=steps)


table("HashTable", "", fill="InitializeTable")
table("HashTable", "", fill="InitializeTable", shared_name="words")
table("MutableHashTable", "")
table("MutableHashTable", "", use_node_name_sharing=True)
table("MutableHashTableOfTensors", "", values=t("int64", [2, 2], [1, 2, 3, 4]), value_shape=[2])
for kind, fill in (("HashTableV2", "LookupTableImportV2"), ("MutableHashTableV2", "LookupTableInsertV2")):
    case("DestroyResourceOp", ("table", kind, [], WORDS),
         ("fill", fill, ["table", s("a", "b"), i64(1, 2)], {"Tin": "string", "Tout": "int64"}),
         ("gone", "DestroyResourceOp", ["table"], {"ignore_lookup_error": False}), ("size", "LookupTableSizeV2", ["table"], {}),
         steps=[["fill"], ["size:0"], ["gone"], ["size:0"], ["fill"], ["gone"]])
# SaveV2 writes these bytes, the elements of a uint8 tensor, unchanged to a data file. The data file serves as a
# vocabulary file.
TEXT = b"a 1\nb 2\n"
WRITE = ("write", "SaveV2", [scalar("string", b"words"), s("x"), s(""), t("uint8", [len(TEXT)], list(TEXT))], {"dtypes": ["uint8"]})
FILE = scalar("string", b"words.data-00000-of-00001")
for version in ("", "V2"):
    case("InitializeTableFromTextFile" + version, WRITE, ("table", "HashTable" + version, [], WORDS),
         ("fill", "InitializeTableFromTextFile" + version, ["table", FILE],
          {"key_index": 0, "value_index": 1, "vocab_size": 2, "delimiter": " ", "offset": 0}),
         ("find", "LookupTableFind" + version, ["table", s("a", "b", "c"), scalar("int64", -1)], {"Tin": "string", "Tout": "int64"}),
         steps=[["write"], ["fill"], ["find:0"]])
NEW_WORDS, OLD_WORDS = b"a\nb\nc\nd\n", b"d\nx\na\n"
case("GenerateVocabRemapping",
     ("write", "SaveV2", [scalar("string", b"new"), s("x"), s(""), t("uint8", [len(NEW_WORDS)], list(NEW_WORDS))],
      {"dtypes": ["uint8"]}),
     ("other", "SaveV2", [scalar("string", b"old"), s("x"), s(""), t("uint8", [len(OLD_WORDS)], list(OLD_WORDS))],
      {"dtypes": ["uint8"]}),
     ("op", "GenerateVocabRemapping", [scalar("string", b"new.data-00000-of-00001"), scalar("string", b"old.data-00000-of-00001")],
      {"new_vocab_offset": 1, "num_new_vocab": 3, "old_vocab_size": 2}), steps=[["write"], ["other"], ["op:0", "op:1"]])
for key, deleted, keys, kind in ((scalar("int64", 0), scalar("int64", -1), i64(5, 9, 13), "int64"),
                                 (scalar("string", b""), scalar("string", b"-"), s("a", "b", "c"), "string"),
                                 (i64(0, 0), i64(-1, -1), t("int64", [3, 2], [1, 2, 3, 4, 5, 6]), "int64")):
    pair = {"Tin": kind, "Tout": "float32"}
    case("MutableDenseHashTableV2", ("table", "MutableDenseHashTableV2", [key, deleted],
                                     {"key_dtype": kind, "value_dtype": "float32", "value_shape": [], "initial_num_buckets": 8,
                                      "max_load_factor": 0.8}),
         ("fill", "LookupTableInsertV2", ["table", keys, f32([3], [1, 2, 3])], pair),
         ("find", "LookupTableFindV2", ["table", keys, scalar("float32", -1)], pair),
         ("size", "LookupTableSizeV2", ["table"], {}),
         ("remove", "LookupTableRemoveV2", ["table", keys], {"Tin": kind}),
         steps=[["fill"], ["find:0", "size:0"], ["remove"], ["find:0", "size:0"], ["fill"], ["find:0", "size:0"]])
case("MutableDenseHashTableV2", ("table", "MutableDenseHashTableV2", [scalar("int64", 0), scalar("int64", -1)],
                                 {"key_dtype": "int64", "value_dtype": "float32", "value_shape": [2], "initial_num_buckets": 4,
                                  "max_load_factor": 0.5}),
     ("keys", "PlaceholderWithDefault", [t("int64", [4, 1], [0, 1, 2, 0])], {"dtype": "int64", "shape": None}),
     ("fill", "LookupTableImportV2", ["table", "keys", f32([4, 2])], {"Tin": "int64", "Tout": "float32"}),
     ("find", "LookupTableFindV2", ["table", i64(1, 2, 3), f32([2])], {"Tin": "int64", "Tout": "float32"}),
     ("export", "LookupTableExportV2", ["table"], {"Tkeys": "int64", "Tvalues": "float32"}),
     steps=[["fill"], ["find:0"], ["export:0", "export:1"]])

# ---- lists, arrays and stacks as a whole -----------------------------------------------------

FROM = ("list", "TensorListFromTensor", [f32([3, 2], [1, 2, 3, 4, 5, 6]), i32(2)], NAMES)
STACK = {"element_dtype": "float32", "num_elements": -1}
case("TensorListGather", FROM, ("op", "TensorListGather", ["list", i32(2, 0, 2), i32(2)], NAMES), steps=[["op:0"]])
case("TensorListGather", FROM, ("op", "TensorListGather", ["list", i32(), i32(-1)], NAMES), steps=[["op:0"]])
case("TensorListConcat", FROM, ("op", "TensorListConcat", ["list"], NAMES | {"element_shape": [-1]}), steps=[["op:0", "op:1"]])
case("TensorListElementShape", FROM, ("op", "TensorListElementShape", ["list"], NAMES), steps=[["op:0"]])
case("TensorListElementShape", ("list", "TensorListReserve", [i32(-1, 2), scalar("int32", 3)], NAMES),
     ("op", "TensorListElementShape", ["list"], {"shape_type": "int64"}), steps=[["op:0"]])
case("TensorListResize", FROM, ("op", "TensorListResize", ["list", scalar("int32", 5)], {}), ("n", "TensorListLength", ["op"], {}),
     ("all", "TensorListStack", ["op", i32(2)], STACK), steps=[["n:0", "all:0"]])
for op, more in (("TensorListScatter", []), ("TensorListScatterV2", [scalar("int32", 4)])):
    case(op, ("op", op, [f32([3, 2], [1, 2, 3, 4, 5, 6]), i32(2, 0, 1), i32(2), *more], NAMES),
         ("all", "TensorListStack", ["op", i32(2)], STACK), steps=[["all:0"]])
case("TensorListScatterIntoExistingList", FROM,
     ("op", "TensorListScatterIntoExistingList", ["list", f32([2, 2], [7, 8, 9, 10]), i32(2, 0)], NAMES),
     ("all", "TensorListStack", ["op", i32(2)], STACK), steps=[["all:0"]])
case("TensorListSplit", ("op", "TensorListSplit", [f32([5, 2], list(range(10))), i32(-1, 2), i64(2, 0, 3)], NAMES),
     ("all", "TensorListConcatV2", ["op", i32(-1, 2), i64()], NAMES), ("n", "TensorListLength", ["op"], {}),
     steps=[["all:0", "all:1", "n:0"]])
ARRAY = ("array", "TensorArrayV3", [scalar("int32", 3)], {"dtype": "float32", "element_shape": None, "dynamic_size": False,
                                                          "clear_after_read": True, "identical_element_shapes": False,
                                                          "tensor_array_name": ""})
case("TensorArrayScatterV3", ARRAY, ("put", "TensorArrayScatterV3", ["array", i32(2, 0, 1), f32([3, 2], [1, 2, 3, 4, 5, 6]), "array:1"],
                                     {"T": "float32"}),
     ("op", "TensorArrayGatherV3", ["array", i32(0, 2), "put"], {"dtype": "float32", "element_shape": None}), steps=[["op:0"]])
case("TensorArraySplitV3", ARRAY, ("put", "TensorArraySplitV3", ["array", f32([4, 2], list(range(8))), i64(1, 0, 3), "array:1"],
                                   {"T": "float32"}),
     ("op", "TensorArrayConcatV3", ["array", "put"], {"dtype": "float32", "element_shape_except0": None}), steps=[["op:0", "op:1"]])
case("TensorArrayCloseV3", ARRAY, ("put", "TensorArrayWriteV3", ["array", scalar("int32", 1), f32([2]), "array:1"], {"T": "float32"}),
     ("op", "TensorArrayCloseV3", ["array", "^put"], {}), steps=[["op"]])
case("StackCloseV2", ("stack", "StackV2", [scalar("int32", 4)], {"elem_type": "float32", "stack_name": ""}),
     ("push", "StackPushV2", ["stack", f32([2])], {"T": "float32", "swap_memory": False}), ("op", "StackCloseV2", ["stack", "^push"], {}),
     steps=[["op"]])

# ---- checkpoints, in the working folder ------------------------------------------------------

PREFIX = scalar("string", b"checkpoint")
SAVE = ("save", "SaveV2", [PREFIX, s("x", "y"), s("", "4 3 0,2:-"), f32([2]), f32([2, 3])], {"dtypes": ["float32", "float32"]})
case("SaveV2", SAVE, ("op", "RestoreV2", [PREFIX, s("y", "x"), s("4 3 1,1:0,2", "")], {"dtypes": ["float32", "float32"]}),
     steps=[["save"], ["op:0", "op:1"]])
case("SaveV2", ("save", "SaveV2", [PREFIX, s("words"), s(""), s("a", "bc", "")], {"dtypes": ["string"]}),
     ("op", "RestoreV2", [PREFIX, s("words"), s("")], {"dtypes": ["string"]}), steps=[["save"], ["op:0"]])
for dtype, x in (("float32", f32([2])), ("string", s("a", "bc"))):
    case("Save", ("save", "Save", [PREFIX, s("x"), x], {"T": [dtype]}),
         ("op", "Restore", [PREFIX, scalar("string", b"x")], {"dt": dtype, "preferred_shard": -1}), steps=[["save"], ["op:0"]])
case("SaveSlices", ("save", "SaveSlices", [PREFIX, s("x", "y"), s("3 1,2", ""), f32([2]), i32(-1)], {"T": ["float32", "int32"]}),
     steps=[["save"]])
case("SaveSlices", ("save", "SaveSlices", [PREFIX, s("x", "y"), s("", "4 3 0,2:-"), f32([2]), f32([2, 3])], {"T": ["float32", "float32"]}),
     ("op", "RestoreSlice", [PREFIX, scalar("string", b"y"), scalar("string", b"4 3 1,1:0,2")], {"dt": "float32", "preferred_shard": -1}),
     steps=[["save"], ["op:0"]])
# A checkpoint of format version 1 that SaveSlices of TensorFlow 2.21 wrote. It contains the tensor x of shape [2], and
# rows 0 and 1 of the tensor y of shape [4, 3]. Both tensors are float32.
FIRST_FORM = base64.b64decode(
    "AAAwCi4KDwoBeBIEEgIIAhgBIgIKAAoXCgF5EggSAggEEgIIAxgBIgYKAhACCgASAggBAAgVAHgAAQEBgH8SEwoBeBICCgAaCioIAACAPwAAAEABCSl5AAEBAoCC"
    "gH8SJwoBeRIGCgIQAgoAGhoqGAAAAAAAAIA/AAAAQAAAQEAAAIBAAACgQAAAAAABAAAAABa/rncAAAAAAQAAAADA8qGwAAEDAQCQAQAAAAABAAAAADYsoMGVAQiiAQ8A"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAV/uAiyR1R9s=")
OLD = ("old", "SaveV2", [scalar("string", b"old"), s("x"), s(""), t("uint8", [len(FIRST_FORM)], list(FIRST_FORM))], {"dtypes": ["uint8"]})
PATTERN = scalar("string", b"old.data-00000-of-0000*")
case("Restore", OLD, ("op", "Restore", [PATTERN, scalar("string", b"x")], {"dt": "float32", "preferred_shard": -1}),
     steps=[["old"], ["op:0"]])
case("RestoreSlice", OLD, ("op", "RestoreSlice", [PATTERN, scalar("string", b"y"), scalar("string", b"4 3 1,1:0,2")],
                           {"dt": "float32", "preferred_shard": -1}), steps=[["old"], ["op:0"]])
case("RestoreV2", OLD, ("op", "RestoreV2", [PATTERN, s("x"), s("")], {"dtypes": ["float32"]}), steps=[["old"], ["op:0"]])
for most in (-1, 1):
    case("LoadAndRemapMatrix",
         ("save", "SaveV2", [scalar("string", b"matrix"), s("m"), s(""), f32([3, 2], [1, 2, 3, 4, 5, 6])], {"dtypes": ["float32"]}),
         ("op", "LoadAndRemapMatrix",
          [scalar("string", b"matrix"), scalar("string", b"m"), i64(2, -1, 0), i64(1, -1), f32([4], [7, 8, 9, 10])],
          {"num_rows": 3, "num_cols": 2, "max_rows_in_memory": most}), steps=[["save"], ["op:0"]])
case("MergeV2Checkpoints", SAVE, ("more", "SaveV2", [scalar("string", b"other"), s("z"), s(""), i32(1, 2)], {"dtypes": ["int32"]}),
     ("merge", "MergeV2Checkpoints", [s("checkpoint", "other"), scalar("string", b"whole")],
      {"delete_old_dirs": False, "allow_missing_files": False}),
     ("op", "RestoreV2", [scalar("string", b"whole"), s("x", "z"), s("", "")], {"dtypes": ["float32", "int32"]}),
     steps=[["save"], ["more"], ["merge"], ["op:0", "op:1"]])

# ---- single nodes that no spec has -----------------------------------------------------------

for k in (0, 2, 3):
    CASES += one_node("TopK", f32([2, 3], [3, 1, 2, 9, 9, 8]), k=k, sorted=True)
CASES += one_node("TopK", i32(4, 6, 5), k=1, sorted=False)
for sampler, top in (("UniformCandidateSampler", {"range_max": 9}), ("LogUniformCandidateSampler", {"range_max": 9}),
                     ("AllCandidateSampler", {})):
    CASES += one_node(sampler, t("int64", [2, 1], [1, 2]), num_true=1, num_sampled=4, unique=True, seed=1, seed2=2, **top)
for sampler in ("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"):
    case(sampler,
         ("op", sampler, [t("int64", [2, 1], [1, 2])],
          {"num_true": 1, "num_sampled": 4, "unique": True, "range_max": 9, "seed": 1, "seed2": 2}),
         steps=[["op:0", "op:1"]] * 3)
UNIGRAMS = {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 3, "distortion": 0.75, "num_shards": 2, "shard": 1,
            "seed": 1, "seed2": 2}
CASES += one_node("FixedUnigramCandidateSampler", t("int64", [2, 1], [1, 2]), vocab_file="", num_reserved_ids=2,
                  unigrams=[1.0, 2.0, 3.0, 4.0], **UNIGRAMS)
LINES = b"a,1\nb,2\nc,3\nd,4\ne,5\nf,6\n"
case("FixedUnigramCandidateSampler",
     ("write", "SaveV2", [scalar("string", b"lines"), s("x"), s(""), t("uint8", [len(LINES)], list(LINES))], {"dtypes": ["uint8"]}),
     ("op", "FixedUnigramCandidateSampler", [t("int64", [2, 1], [1, 2])],
      {"vocab_file": "lines.data-00000-of-00001", "num_reserved_ids": 0, "unigrams": [], **UNIGRAMS}),
     steps=[["write"], ["op:0"], ["op:1"]])
CASES += one_node("ComputeAccidentalHits", t("int64", [2, 2], [1, 2, 3, 1]), i64(1, 3, 9), num_true=2, seed=0, seed2=0)
CASES += one_node("KMC2ChainInitialization", f32([4], [1, 2, 3, 4]), scalar("int64", 5))
CASES += one_node("KmeansPlusPlusInitialization", f32([3, 2], [0, 0, 3, 4, 1, 1]), scalar("int64", 2), scalar("int64", 5),
                  scalar("int64", 1))
CASES += one_node("NearestNeighbors", f32([2, 2], [0, 0, 3, 4]), f32([3, 2], [0, 1, 3, 3, 9, 9]), scalar("int64", 2))
CASES += one_node("PrintV2", scalar("string", b"text"), output_stream="stderr", end="\n")
for scaled in (True, False):
    CASES += one_node("BatchNormWithGlobalNormalization", f32([1, 2, 2, 3], list(range(12))), f32([3]), f32([3]), f32([3]), f32([3]),
                      variance_epsilon=0.001, scale_after_normalization=scaled)

# ---- ops on matrices that TensorFlow no longer accepts in new graphs ------------------------------

MATRIX = f32([2, 2, 2], [4, 1, 1, 3, 5, 2, 2, 6])
for op, *more in (("BatchCholesky",), ("BatchMatrixDeterminant",), ("BatchMatrixDiag",), ("BatchMatrixDiagPart",),
                  ("BatchSelfAdjointEig",), ("SelfAdjointEig",), ("MatrixExponential",), ("BatchCholeskyGrad", MATRIX),
                  ("BatchMatrixSetDiag", f32([2, 2], [7, 8, 9, 10]))):
    CASES += one_node(op, MATRIX, *more)
for flag in (True, False):
    CASES += one_node("BatchMatrixInverse", MATRIX, adjoint=flag)
    CASES += one_node("BatchMatrixSolve", MATRIX, MATRIX, adjoint=flag)
    CASES += one_node("BatchMatrixTriangularSolve", MATRIX, MATRIX, lower=flag, adjoint=False)
    CASES += one_node("BatchMatrixSolveLs", MATRIX, MATRIX, scalar("float64", 0.5), fast=flag)
    CASES += one_node("BatchSvd", MATRIX, compute_uv=True, full_matrices=flag)
    CASES += one_node("BatchSelfAdjointEigV2", MATRIX, compute_v=flag)
CASES += one_node("BatchMatrixBandPart", MATRIX, scalar("int64", 0), scalar("int64", 1))

# ---- queues ----------------------------------------------------------------------------------

PAIR, SHAPES = ["float32", "int32"], [[2], []]
MAKERS = (("FIFOQueue", {}), ("PaddingFIFOQueue", {}), ("RandomShuffleQueue", {"min_after_dequeue": 0, "seed": 1, "seed2": 2}))
for end in ("", "V2"):
    for maker, more in MAKERS:
        case(maker + end, ("queue", maker + end, [], {"component_types": PAIR, "shapes": SHAPES, "capacity": 4, **more}),
             ("put", "QueueEnqueue" + end, ["queue", f32([2]), scalar("int32", 1)], {"Tcomponents": PAIR}),
             ("put_many", "QueueEnqueueMany" + end, ["queue", f32([2, 2]), i32(1, 2)], {"Tcomponents": PAIR}),
             ("size", "QueueSize" + end, ["queue"], {}), ("is_closed", "QueueIsClosed" + end, ["queue"], {}),
             ("take", "QueueDequeue" + end, ["queue"], {"component_types": PAIR}),
             ("many", "QueueDequeueMany" + end, ["queue", scalar("int32", 1)], {"component_types": PAIR}),
             ("up_to", "QueueDequeueUpTo" + end, ["queue", scalar("int32", 2)], {"component_types": PAIR}),
             ("close", "QueueClose" + end, ["queue"], {"cancel_pending_enqueues": False}),
             steps=[["put"], ["put_many"], ["size:0", "is_closed:0"], ["take:0", "take:1"], ["many:0", "many:1"], ["close"],
                    ["up_to:0", "up_to:1"]])
    case("PriorityQueue" + end, ("queue", "PriorityQueue" + end, [], {"component_types": ["float32"], "shapes": [[2]], "capacity": 4}),
         ("put_many", "QueueEnqueueMany" + end, ["queue", i64(3, 1), f32([2, 2])], {"Tcomponents": ["int64", "float32"]}),
         ("take", "QueueDequeue" + end, ["queue"], {"component_types": ["int64", "float32"]}),
         steps=[["put_many"], ["take:0", "take:1"]])
case("Barrier", ("barrier", "Barrier", [], {"component_types": PAIR, "shapes": SHAPES, "capacity": -1, "shared_name": "barrier"}),
     ("first", "BarrierInsertMany", ["barrier", s("a", "b"), f32([2, 2])], {"T": "float32", "component_index": 0}),
     ("second", "BarrierInsertMany", ["barrier", s("b", "c"), i32(1, 2)], {"T": "int32", "component_index": 1}),
     ("ready", "BarrierReadySize", ["barrier"], {}), ("few", "BarrierIncompleteSize", ["barrier"], {}),
     ("take", "BarrierTakeMany", ["barrier", scalar("int32", 1)],
      {"component_types": PAIR, "allow_small_batch": False, "wait_for_incomplete": False, "timeout_ms": -1}),
     ("close", "BarrierClose", ["barrier"], {"cancel_pending_enqueues": True}),
     steps=[["first"], ["second"], ["ready:0", "few:0"], ["take:0", "take:1", "take:2", "take:3"], ["close"]])
STAGED = {"dtypes": PAIR, "capacity": 3, "memory_limit": 100, "shared_name": "area"}
case("Stage", ("put", "Stage", [f32([2]), scalar("int32", 1)], STAGED), ("size", "StageSize", [], STAGED),
     ("peek", "StagePeek", [scalar("int32", 0)], STAGED), ("take", "Unstage", [], STAGED), ("clear", "StageClear", [], STAGED),
     steps=[["put"], ["put"], ["size:0"], ["peek:0", "peek:1"], ["take:0", "take:1"], ["clear"]])
PAIRS = {"key_dtype": "float32", "value_dtype": "int32"}
case("TensorMapInsert", ("empty", "EmptyTensorMap", [], {}), ("one", "TensorMapInsert", ["empty", f32([2]), i32(1, 2)], PAIRS),
     ("map", "TensorMapInsert", ["one", f32([3]), i32(4)], PAIRS), ("find", "TensorMapLookup", ["map", f32([2])], PAIRS),
     ("has", "TensorMapHasKey", ["map", f32([2])], {"key_dtype": "float32"}), ("less", "TensorMapErase", ["map", f32([3])], PAIRS),
     ("size", "TensorMapSize", ["less"], {}), ("keys", "TensorMapStackKeys", ["less"], {"key_dtype": "float32"}),
     steps=[["find:0", "has:0", "size:0", "keys:0"], ["size:0"]])
TWO = ["float32", "int32"]
GET = {"output_types": TWO, "output_shapes": [[2], [2]]}
case("OptionalGetValue", ("one", "OptionalFromValue", [f32([2]), i32(1, 2)], {"Toutput_types": TWO}), ("none", "OptionalNone", [], {}),
     ("has", "OptionalHasValue", ["one"], {}), ("lacks", "OptionalHasValue", ["none"], {}), ("get", "OptionalGetValue", ["one"], GET),
     ("zeros", "ZerosLike", ["one"], {"T": "variant"}), ("sum", "AddN", ["one", "zeros"], {"T": "variant", "N": 2}),
     ("total", "OptionalGetValue", ["sum"], GET), steps=[["has:0", "lacks:0"], ["get:0", "get:1"], ["total:0", "total:1"]])

# ---- CSR sparse matrices ---------------------------------------------------------------------


def with_csr(op, *lines, fetch, dtype="float32", rank=2):
    """Adds a case whose node `m` is a 3x3 matrix, or a batch of two such matrices."""
    if rank == 2:
        parts = [t("int64", [5, 2], [0, 0, 1, 0, 1, 1, 2, 1, 2, 2]), t(dtype, [5], [4, 1, 5, 2, 6]), i64(3, 3)]
    else:
        parts = [t("int64", [4, 3], [0, 0, 0, 0, 1, 1, 0, 2, 2, 1, 2, 0]), t(dtype, [4], [4, 1, 5, 2]), i64(2, 3, 3)]
    case(op, ("m", "SparseTensorToCSRSparseMatrix", parts, {"T": dtype}), *lines, steps=[fetch, fetch])


for rank in (2, 3):
    for dtype in ("float32", "complex128"):
        TYPE, how = {"type": dtype}, {"dtype": dtype, "rank": rank}
        FLAGS = {name + x: False for name in ("transpose_", "adjoint_") for x in "ab"}
        read = lambda name, m, dtype=dtype: (name, "CSRSparseMatrixToSparseTensor", [m], {"type": dtype})
        with_csr("SparseTensorToCSRSparseMatrix", read("r", "m"), fetch=["r:0", "r:1", "r:2"], **how)
        with_csr("CSRSparseMatrixToDense", ("op", "CSRSparseMatrixToDense", ["m"], TYPE), fetch=["op:0"], **how)
        with_csr("CSRSparseMatrixToSparseTensor", read("op", "m"), fetch=["op:0", "op:1", "op:2"], **how)
        with_csr("CSRSparseMatrixComponents", ("op", "CSRSparseMatrixComponents", ["m", scalar("int32", rank - 2)], TYPE),
                 fetch=["op:0", "op:1", "op:2"], **how)
        with_csr("SparseMatrixNNZ", ("op", "SparseMatrixNNZ", ["m"], {}), fetch=["op:0"], **how)
        with_csr("SparseMatrixTranspose", ("op", "SparseMatrixTranspose", ["m"], TYPE | {"conjugate": True}), read("r", "op"),
                 fetch=["r:0", "r:1", "r:2"], **how)
        with_csr("SparseMatrixMatMul",
                 ("op", "SparseMatrixMatMul", ["m", t(dtype, [2, 3, 2][3 - rank:], 2)],
                  FLAGS | {"T": dtype, "transpose_a": True, "transpose_output": True, "conjugate_output": False}), fetch=["op:0"], **how)
        with_csr("SparseMatrixSparseMatMul", ("op", "SparseMatrixSparseMatMul", ["m", "m"], FLAGS | TYPE | {"adjoint_b": True}),
                 read("r", "op"), fetch=["r:0", "r:1", "r:2"], **how)
        with_csr("SparseMatrixOrderingAMD", ("op", "SparseMatrixOrderingAMD", ["m"], {}), fetch=["op:0"], **how)
        with_csr("SparseMatrixSparseCholesky",
                 ("op", "SparseMatrixSparseCholesky", ["m", t("int32", [2, 3][3 - rank:], [2, 0, 1] * (rank - 1))], TYPE), read("r", "op"),
                 fetch=["r:0", "r:1", "r:2"], **how)
for shape, indices in (([2, 3], [[0, 1], [1, 2]]), ([2, 2, 2], [[0, 1, 0], [1, 0, 1]])):
    case("DenseToCSRSparseMatrix",
         ("m", "DenseToCSRSparseMatrix", [t("float64", shape, 3), t("int64", [2, len(shape)], sum(indices, []))], {"T": "float64"}),
         ("r", "CSRSparseMatrixToDense", ["m"], {"type": "float64"}), steps=[["r:0"], ["r:0"]])
KEYED = STAGED | {"shared_name": "keyed"}
for kind in ("Map", "OrderedMap"):
    case(kind + "Stage", ("put", kind + "Stage", [scalar("int64", 3), i32(0, 1), f32([2]), scalar("int32", 1)],
                          KEYED | {"fake_dtypes": PAIR}),
         ("part", kind + "Stage", [scalar("int64", 4), i32(1), scalar("int32", 1)], KEYED | {"fake_dtypes": ["int32"]}),
         ("rest", kind + "Stage", [scalar("int64", 4), i32(0), f32([2])], KEYED | {"fake_dtypes": ["float32"]}),
         ("size", kind + "Size", [], KEYED), ("few", kind + "IncompleteSize", [], KEYED),
         ("peek", kind + "Peek", [scalar("int64", 3), i32(0, 1)], KEYED), ("clear", kind + "Clear", [], KEYED),
         ("take", kind + "Unstage", [scalar("int64", 3), i32(0, 1)], KEYED), ("any", kind + "UnstageNoKey", [i32(0, 1)], KEYED),
         steps=[["put"], ["part"], ["size:0", "few:0"], ["peek:0", "peek:1"], ["rest"], ["take:0", "take:1"], ["any:0", "any:1", "any:2"],
                ["clear"]])
F32 = {"dtype": "float32"}
ACCUMULATOR = F32 | {"shape": [4, 2], "reduction_type": "MEAN", "shared_name": ""}
for kind in ("", "Resource"):
    case(kind + "ConditionalAccumulator", ("sum", kind + "ConditionalAccumulator", [], ACCUMULATOR),
         ("apply", kind + "AccumulatorApplyGradient", ["sum", scalar("int64", 3), f32([4, 2])], F32),
         ("number", kind + "AccumulatorNumAccumulated", ["sum"], {}),
         ("step", kind + "AccumulatorSetGlobalStep", ["sum", scalar("int64", 2)], {}),
         ("take", kind + "AccumulatorTakeGradient", ["sum", scalar("int32", 2)], F32),
         steps=[["apply"], ["number:0"], ["step"], ["apply"], ["take:0"]])
SPARSE = [scalar("int64", 0), i64(1, 3), f32([2, 2]), i64(4, 2)]
case("SparseConditionalAccumulator", ("sum", "SparseConditionalAccumulator", [], ACCUMULATOR),
     ("apply", "SparseAccumulatorApplyGradient", ["sum", *SPARSE], F32 | {"has_known_shape": True}),
     ("other", "SparseAccumulatorApplyGradient", ["sum", *SPARSE], F32 | {"has_known_shape": False}),
     ("take", "SparseAccumulatorTakeGradient", ["sum", scalar("int32", 2)], F32),
     steps=[["apply"], ["other"], ["take:0", "take:1", "take:2"]])
COO, MAP = [t("int64", [2, 2], [0, 1, 2, 0]), f32([2]), i64(3, 4)], {"container": "", "shared_name": "map"}
case("AddSparseToTensorsMap", ("one", "AddSparseToTensorsMap", COO, MAP | {"T": "float32"}),
     ("many", "AddManySparseToTensorsMap", COO, MAP | {"T": "float32"}),
     ("take", "TakeManySparseFromTensorsMap", [i64(0)], MAP | F32), ("rows", "TakeManySparseFromTensorsMap", [i64(2, 1)], MAP | F32),
     steps=[["one:0"], ["many:0"], ["take:0", "take:1", "take:2"], ["rows:0", "rows:1", "rows:2"]])
case("DeserializeManySparse", ("many", "SerializeManySparse", COO, {"T": "float32", "out_type": "string"}),
     ("back", "DeserializeManySparse", ["many"], F32), steps=[["back:0", "back:1", "back:2"]])
for kind in ("string", "variant"):
    case("SerializeSparse", ("one", "SerializeSparse", COO, {"T": "float32", "out_type": kind}),
         ("many", "SerializeManySparse", COO, {"T": "float32", "out_type": kind}),
         ("a", "DeserializeSparse", ["one"], F32 | {"Tserialized": kind}),
         ("b", "DeserializeSparse", ["many"], F32 | {"Tserialized": kind}),
         steps=[["a:0", "a:1", "a:2"], ["b:0", "b:1", "b:2"]])
case("MutexLock", ("mutex", "MutexV2", [], {}), ("lock", "MutexLock", ["mutex"], {}), ("use", "ConsumeMutexLock", ["lock"], {}),
     steps=[["use"], ["use"]])
case("Stack", ("stack", "Stack", [], {"elem_type": "float32"}), ("push", "StackPush", ["stack", f32([2])], {"T": "float32"}),
     ("pop", "StackPop", ["stack", "^push"], {"elem_type": "float32"}), ("close", "StackClose", ["stack", "^pop"], {}),
     steps=[["pop:0", "close"]])

# ---- summaries -------------------------------------------------------------------------------

CASES += one_node("ScalarSummary", s("a", "b"), f32([2], [1, 2.5]))
CASES += one_node("HistogramSummary", scalar("string", b"tag"), f32([3], [-1, 0, 2]))
CASES += one_node("TensorSummary", f32([2], [1, 2]), description="", labels=[], display_name="")

# ---- one node by one op ----------------------------------------------------------------------

CASES += one_node("ApproxTopK", f32([2, 3], [1, 3, 2, 5, 4, 6]), k=2, reduction_dimension=-1, recall_target=0.95, is_max_k=True,
                  reduction_input_size_override=-1, aggregate_to_topk=True)
CASES += one_node("EditDistance", t("int64", [2, 2], [0, 0, 1, 1]), i64(1, 2), i64(2, 2),
                  t("int64", [3, 2], [0, 0, 1, 0, 1, 1]), i64(1, 2, 3), i64(2, 2), normalize=True)
CASES += one_node("UnsortedSegmentJoin", s("a", "b", "c"), i32(0, 1, 0), scalar("int32", 2), separator="-")
CASES += one_node("AudioSummaryV2", scalar("string", b"tag"), f32([1, 3, 2], [0.5, -0.5, 1, -1, 0, 2]), scalar("float32", 8000.0),
                  max_outputs=3)
CASES += one_node("ImageSummary", scalar("string", b"tag"), f32([1, 2, 2, 1], [0.5, -0.5, 1, 3]), max_images=3)
CASES += one_node("IsotonicRegression", f32([2, 3], [1, 3, 2, 5, 4, 6]), output_dtype="float32")
CASES += one_node("MergeSummary", [s(b"\n\x08\n\x01a\x15\0\0\x80?"), scalar("string", b"\n\x08\n\x01b\x15\0\0\0@")])
CASES += one_node("RandomIndexShuffle", i64(0, 5, 3), i64(1, 2, 3), scalar("int64", 9), rounds=4)
CASES += one_node("SparseMatMul", f32([2, 3], [1, 0, 2, 0, 4, 6]), f32([3, 2], [1, 0, 2, 5, 4, 6]), transpose_a=False, transpose_b=False,
                  a_is_sparse=True, b_is_sparse=False)
CASES += one_node("TensorSummaryV2", scalar("string", b"tag"), f32([2], [1, 2]), scalar("string", b"\x12\x01d"))

# ---- references, temporary variables, tensors of a session -----------------------------------

VARIABLE = ("v", "VariableV2", [], {"dtype": "float32", "shape": [2]})
SET = ("set", "Assign", ["v", f32([2], [1, 2])], {"T": "float32", "validate_shape": True})
case("RefIdentity", VARIABLE, SET, ("same", "RefIdentity", ["v"], {"T": "float32"}),
     ("add", "AssignAdd", ["same", f32([2], [3, 4])], {"T": "float32"}), steps=[["set:0"], ["same:0"], ["add:0"], ["v:0"]])
case("RefSelect", VARIABLE, SET, ("same", "RefSelect", [scalar("int32", 1), "v", "v"], {"T": "float32", "N": 2}),
     steps=[["set:0"], ["same:0"]])
TEMPORARY = [("v", "TemporaryVariable", [], {"dtype": "float32", "shape": [2], "var_name": "t"}), SET,
             ("end", "DestroyTemporaryVariable", ["set"], {"T": "float32", "var_name": "t"})]
case("TemporaryVariable", *TEMPORARY, steps=[["end:0"], ["end:0"]])
case("DestroyTemporaryVariable", *TEMPORARY, steps=[["end:0"]])
HANDLE = ("h", "VarHandleOp", [], {"dtype": "float32", "shape": [2], "shared_name": "v", "container": ""})
FILL = ("fill", "AssignVariableOp", ["h", f32([2], [1, 2])], {"dtype": "float32"})
case("DisableCopyOnRead", HANDLE, FILL, ("off", "DisableCopyOnRead", ["h"], {}), steps=[["fill"], ["off"]])
case("StatefulRandomBinomial", ("h", "VarHandleOp", [], {"dtype": "int64", "shape": [3], "shared_name": "v", "container": ""}),
     ("fill", "AssignVariableOp", ["h", i64(1, 2, 3)], {"dtype": "int64"}),
     ("draw", "StatefulRandomBinomial", ["h", scalar("int64", 1), i32(2, 2), f32([2], [5, 90]), scalar("float32", 0.25)],
      {"S": "int32", "T": "float32", "dtype": "int32"}), steps=[["fill"], ["draw:0"], ["draw:0"]])
KEPT = ("kept", "GetSessionHandle", [f32([2], [1, 2])], {"T": "float32"})
KEY = scalar("string", "kept;0;/job:localhost/replica:0/task:0/device:CPU:0")
READ = ("read", "GetSessionTensor", [KEY], {"dtype": "float32"})
DROP = ("drop", "DeleteSessionTensor", [KEY], {})
case("GetSessionHandle", KEPT, steps=[["kept:0"], ["kept:0"]])
case("GetSessionHandleV2", ("kept", "GetSessionHandleV2", [f32([2], [1, 2])], {"T": "float32"}), steps=[["kept"], ["kept"]])
case("GetSessionTensor", KEPT, READ, steps=[["kept:0"], ["read:0"], ["read:0"]])
case("DeleteSessionTensor", KEPT, DROP, steps=[["kept:0"], ["drop"]])
RNG = ("h", "VarHandleOp", [], {"dtype": "int64", "shape": [3], "shared_name": "v", "container": ""})
case("RngReadAndSkip", RNG, ("fill", "AssignVariableOp", ["h", i64(1, 2, 3)], {"dtype": "int64"}),
     ("skip", "RngReadAndSkip", ["h", scalar("int32", 1), scalar("uint64", 7)], {}), steps=[["fill"], ["skip:0"], ["skip:0"]])
case("ResourceCountUpTo", ("h", "VarHandleOp", [], {"dtype": "int32", "shape": [], "shared_name": "v", "container": ""}),
     ("fill", "AssignVariableOp", ["h", scalar("int32", 1)], {"dtype": "int32"}),
     ("count", "ResourceCountUpTo", ["h"], {"limit": 3, "T": "int32"}), steps=[["fill"], ["count:0"], ["count:0"]])
case("CountUpTo", ("v", "VariableV2", [], {"dtype": "int64", "shape": [], "shared_name": "", "container": ""}),
     ("fill", "Assign", ["v", scalar("int64", 1)], {"T": "int64", "validate_shape": True, "use_locking": True}),
     ("count", "CountUpTo", ["v"], {"limit": 3, "T": "int64"}), steps=[["fill"], ["count:0"], ["count:0"]])
case("Variable", ("v", "Variable", [], {"dtype": "float32", "shape": [2], "shared_name": "", "container": ""}),
     ("fill", "Assign", ["v", f32([2], [1, 2])], {"T": "float32", "validate_shape": True, "use_locking": True}),
     ("known", "IsVariableInitialized", ["v"], {"dtype": "float32"}), steps=[["fill"], ["known:0", "v:0"]])
case("VariableShape", HANDLE, FILL, ("known", "VarIsInitializedOp", ["h"], {}),
     ("shape", "VariableShape", ["h"], {"out_type": "int64"}), steps=[["fill"], ["known:0", "shape:0"]])
for kind in ("Max", "Avg"):
    CASES += one_node(f"Fractional{kind}Pool", f32([1, 3, 5, 1], list(range(15))), pooling_ratio=[1.0, 1.5, 1.5, 1.0],
                      pseudo_random=kind == "Max", overlapping=kind == "Avg", deterministic=True, seed=1, seed2=2)
CASES += one_node("FractionalMaxPoolGrad", f32([1, 2, 3, 1], [1, 2, 3, 4, 5, 6]), f32([1, 1, 2, 1], [5, 6]), f32([1, 1, 2, 1], [7, 8]),
                  i64(0, 2), i64(0, 2, 3), overlapping=False)
CASES += one_node("FractionalAvgPoolGrad", i64(1, 2, 3, 1), f32([1, 1, 2, 1], [7, 8]), i64(0, 2), i64(0, 2, 3), overlapping=True)
CASES += one_node("ParameterizedTruncatedNormal", i32(2, 3), f32([2], [0, 5]), scalar("float32", 1), scalar("float32", -1),
                  f32([2], [9, 9]), seed=1, seed2=2)
CASES += one_node("StatelessParameterizedTruncatedNormal", i32(3, 2), i64(1, 2), f32([2], [0, 5]), scalar("float32", 1),
                  scalar("float32", -1), f32([2], [9, 9]))
case("TensorListPushBackBatch",
     ("h", "EmptyTensorList", [i32(-1), scalar("int32", -1)], {"element_dtype": "float32", "shape_type": "int32"}),
     ("two", "Pack", ["h", "h"], {"N": 2, "T": "variant", "axis": 0}),
     ("push", "TensorListPushBackBatch", ["two", f32([2, 2], [1, 2, 3, 4])], {"element_dtype": "float32"}), steps=[["push:0"]])
CASES += one_node("Fact")

case("AddN", ("h", "TensorListFromTensor", [f32([2, 2], [1, 2, 3, 4]), i32(2)], NAMES),
     ("sum", "AddN", ["h", "h", "h"], {"N": 3, "T": "variant"}),
     ("get", "TensorListStack", ["sum", i32(2)], {"element_dtype": "float32", "num_elements": -1}), steps=[["get:0"]])
FIRST = ("w", "TensorArrayWriteV3", ["array", scalar("int32", 0), f32([2], [1, 2]), "array:1"], {"T": "float32"})
for gradient, grad_inputs, value in (("TensorArrayGradV3", ["array", "w"], f32([2], [3, 4])),
                                     ("TensorArrayGradWithShape", ["array", "w", i32(1)], f32([1, 2], [3, 4]))):
    case(gradient, ARRAY, FIRST, ("g", gradient, grad_inputs, {"source": "gradients"}),
         ("a", "TensorArrayWriteV3", ["g", scalar("int32", 0), value, "g:1"], {"T": "float32"}),
         ("b", "TensorArrayWriteV3", ["g", scalar("int32", 0), value, "a"], {"T": "float32"}),
         ("r", "TensorArrayReadV3", ["g", scalar("int32", 0), "b"], {"dtype": "float32"}), steps=[["r:0"], ["r:0"]])
RAGGED = ("v", "RaggedTensorToVariant", [i64(0, 1, 3), i64(0, 2, 2, 4), f32([4], [1, 2, 3, 4])],
          {"RAGGED_RANK": 2, "Tvalues": "float32", "Tsplits": "int64", "batched_input": True})
case("RaggedTensorToVariant", RAGGED, ("n", "Shape", ["v"], {"T": "variant", "out_type": "int32"}), steps=[["n:0"]])
case("RaggedTensorFromVariant", RAGGED,
     ("r", "RaggedTensorFromVariant", ["v"], {"input_ragged_rank": 1, "output_ragged_rank": 2, "Tvalues": "float32", "Tsplits": "int64"}),
     steps=[["r:0", "r:1", "r:2"]])
case("RaggedTensorToVariantGradient", RAGGED, ("r", "RaggedTensorToVariantGradient", ["v", i64(0, 1, 3), i32(4)],
                                               {"Tvalues": "float32", "Tsplits": "int64"}), steps=[["r:0"]])
CASES += one_node("DecodeJSONExample", s('{"features": {"feature": {"a": {"int64List": {"value": [1, "2"]}}, "b": {"floatList": {"value": '
                                         '[0.5, "NaN"]}}, "c": {"bytesList": {"value": ["YQ==", null]}}}}}', "{}"))
for name in ("quint8", "qint8"):
    CASES += one_node("QuantizedConcatV2", [t(name, [2, 3], 1), t(name, [1, 3], 2)], scalar("int32", 0),
                      [scalar("float32", -1), scalar("float32", 0)], [scalar("float32", 1), scalar("float32", 2)])
for name in ("float32", "float64", "float16", "bfloat16"):
    CASES += one_node("StochasticCastToInt", t(name, [3], [0.5, -1.25, 300]), t("uint64", [1], 7), t("uint64", [2], [3, 4]),
                      scalar("int32", 1), Tout="int8")
SAMPLE = {"message_type": "tensorflow.NodeDef", "field_names": ["name", "input"], "descriptor_source": "local://"}
CASES += one_node("DecodeProtoV2", s("\x0a\x01a\x1a\x01b\x1a\x02cd", ""), output_types=["string", "string"], message_format="binary",
                  sanitize=False, **SAMPLE)
CASES += one_node("EncodeProto", t("int32", [1, 2], [1, 2]), [t("string", [1, 1], ["a"]), t("string", [1, 2], ["b", "cd"])], **SAMPLE)
for model in (*WORDPIECE, LOOP):
    CASES += one_node("FastWordpieceTokenizeWithOffsets", s("a", "aa b", "##a"), t("uint8", [len(model)], model))
CASES += one_node("FastBertNormalize", s("aba", "", "\0\xff"), t("uint8", [len(NORMALIZER)], NORMALIZER), get_offsets=True)
CASES += one_node("TFText>FastWordpieceDetokenize", t("int32", [5], [0, 2, 1, 2, 2]), i64(0, 3, 3, 5), t("uint8", [len(PIECES)], PIECES))
OPTIONS = [scalar("bool", True), scalar("bool", True), scalar("bool", False)]
for model in SENTENCEPIECE:
    MODEL = ("model", "SentencepieceOp", [], {"model": model, "container": "", "shared_name": "", "use_node_name_sharing": False})
    for op, n in (("SentencepieceTokenizeOp", 2), ("SentencepieceTokenizeWithOffsetsOp", 4)):
        for n_best, has_all in ((0, False), (-1, False), (2, False), (2, True)):
            case(op, MODEL, ("op", op, ["model", s("ab a", "", "x\xff"), scalar("int32", n_best), scalar("float32", 0.5), *OPTIONS],
                             {"out_type": "string" if n_best else "int32", "Tsplits": "int64", "return_nbest": has_all}),
                 steps=[[f"op:{i}" for i in range(n)]])
    for values in (i32(3, 4), s("a", "q")):
        case("SentencepieceDetokenizeOp", MODEL, ("op", "SentencepieceDetokenizeOp", ["model", values, i64(0, 1, 2), *OPTIONS],
                                                  {"T": "int32" if values.dtype == 3 else "string", "Tsplits": "int64"}), steps=[["op:0"]])
    case("SentencepieceIdToStringOp", MODEL, ("op", "SentencepieceIdToStringOp", ["model", i32(0, 3)], {}), steps=[["op:0"]])
    case("SentencepieceStringToIdOp", MODEL, ("op", "SentencepieceStringToIdOp", ["model", s("a", "q")], {}), steps=[["op:0"]])
    case("SentencepieceVocabSizeOp", MODEL, ("op", "SentencepieceVocabSizeOp", ["model"], {}), steps=[["op:0"]])
    case("SentencepieceOp", MODEL, ("op", "SentencepieceVocabSizeOp", ["model"], {}), steps=[["op:0"]])
CASES += one_node("TFText>FastSentencepieceTokenize", t("uint8", [len(FAST_SENTENCEPIECE)], FAST_SENTENCEPIECE), s("aa b", "", "\xff"),
                  scalar("int32", 0), scalar("float32", 0), *OPTIONS, out_type="int32", Tsplits="int32")
CASES += one_node("TFText>FastSentencepieceDetokenize", t("uint8", [len(FAST_PIECES)], FAST_PIECES), i32(0, 1, 2), i64(0, 1, 3))
for model in PHRASES:
    CASES += one_node("PhraseTokenize", s("a", "a  a x", "", "a. \xff"), t("uint8", [len(model)], model))
    CASES += one_node("TFText>PhraseDetokenize", i32(0, 2, 1, 2, 2), i64(0, 3, 3, 5), t("uint8", [len(model)], model))
CASES += one_node("TFText>NgramsStringJoin", t("string", [2, 2], ["a", "b", "c", ""]), [], width=2, axis=-1, string_separator="-",
                  Tsplits="int64")

# ---- files -----------------------------------------------------------------------------------

LINES_FILE = ("write", "WriteFile", [scalar("string", b"lines"), scalar("string", b"a\nb\nc\n")], {})
case("WriteFile", LINES_FILE, ("read", "ReadFile", [scalar("string", b"lines")], {}), steps=[["write"], ["read:0"]])
case("ReadFile", LINES_FILE, ("read", "ReadFile", [scalar("string", b"./lines")], {}), steps=[["write"], ["read:0"]])
case("MatchingFiles", LINES_FILE, ("match", "MatchingFiles", [s("*", "l?ne[s]", "lines")], {}), steps=[["write"], ["match:0"]])
case("ImmutableConst", LINES_FILE, ("op", "ImmutableConst", [], {"dtype": "int16", "shape": [3], "memory_region_name": "lines"}),
     steps=[["write"], ["op:0"]])
EVENT_WRITER = ("writer", "SummaryWriter", [], {"shared_name": "w"})
EVENT_FILE = ("create", "CreateSummaryFileWriter",
              ["writer", scalar("string", b"events"), scalar("int32", 1), scalar("int32", 1000), scalar("string", b".x")], {})
EVENT_STEP, EVENT_TAG = scalar("int64", 3), scalar("string", b"tag")
for op, inputs, attrs in (
        ("WriteScalarSummary", [EVENT_STEP, EVENT_TAG, scalar("float32", 1.5)], {"T": "float32"}),
        ("WriteHistogramSummary", [EVENT_STEP, EVENT_TAG, f32([3], [-1, 0, 2])], {"T": "float32"}),
        ("WriteSummary", [EVENT_STEP, f32([2], [1, 2]), EVENT_TAG, scalar("string", b"\x12\x01d")], {"T": "float32"}),
        ("WriteImageSummary", [EVENT_STEP, EVENT_TAG, f32([1, 2, 2, 1], [0.5, -0.5, 1, 3]), t("uint8", [4], [255, 0, 0, 255])],
         {"T": "float32", "max_images": 3}),
        ("WriteAudioSummary", [EVENT_STEP, EVENT_TAG, f32([1, 3, 2], [0.5, -0.5, 1, -1, 0, 2]), scalar("float32", 8000.0)],
         {"max_outputs": 3}),
        ("WriteRawProtoSummary", [EVENT_STEP, s(b"\n\x08\n\x01a\x15\0\0\x80?", "")], {}),
        ("WriteGraphSummary", [EVENT_STEP, scalar("string", b"\n\x03\n\x01n")], {}),
        ("ImportEvent", [scalar("string", b"\t\0\0\0\0\0\0\xf0?\x10\x05*\x02\n\0")], {})):
    case(op, EVENT_WRITER, EVENT_FILE, ("op", op, ["writer", *inputs], attrs), steps=[["create"], ["op"], ["op"]])
for op in ("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter"):
    case(op, EVENT_WRITER, EVENT_FILE,
         ("op", "WriteScalarSummary", ["writer", EVENT_STEP, EVENT_TAG, scalar("float32", 1.5)], {"T": "float32"}),
         ("flush", "FlushSummaryWriter", ["writer"], {}), ("close", "CloseSummaryWriter", ["writer"], {}),
         steps=[["create"], ["op"], ["flush"], ["close"], ["create"], ["op"]])
READER_ATTRS = {"FixedLengthRecordReader": {"record_bytes": 2, "header_bytes": 1}, "TextLineReader": {"skip_header_lines": 1}}
READS = {"ReaderRead": ([], ["read:0", "read:1"]), "ReaderReadUpTo": ([scalar("int64", 2)], ["read:0", "read:1"])}
STATE = {"ReaderNumRecordsProduced": ["state:0"], "ReaderNumWorkUnitsCompleted": ["state:0"], "ReaderSerializeState": ["state:0"],
         "ReaderReset": ["state"], "ReaderRestoreState": ["state"]}
RECORD = t("uint8", [16], [0] * 8 + [41, 3, 152, 7, 216, 234, 130, 162])  # a TFRecord without data


def reader(op, kind, version, read="ReaderRead", state="ReaderNumRecordsProduced"):
    """Adds a case in which a reader reads a file that another op has written. `version` is "" for handles that are
    references to strings, or "V2"."""
    more = [scalar("string", "\x08\x02\x10\x02\x22\x01a")] if state == "ReaderRestoreState" else []
    name, write = scalar("string", b"lines"), LINES_FILE
    if kind == "TFRecordReader":
        name = scalar("string", b"records.data-00000-of-00001")
        write = ("write", "SaveV2", [scalar("string", b"records"), s("x"), s(""), RECORD], {"dtypes": ["uint8"]})
    case(op + version, write, ("queue", "FIFOQueue" + version, [], {"component_types": ["string"], "shapes": [[]], "capacity": 9}),
         ("put", "QueueEnqueue" + version, ["queue", name], {"Tcomponents": ["string"]}),
         ("reader", kind + version, [], READER_ATTRS.get(kind, {})),
         ("read", read + version, ["reader", "queue", *READS[read][0]], {}), ("state", state + version, ["reader", *more], {}),
         steps=[["write"], ["put"], READS[read][1], STATE[state]])


for version in ("", "V2"):
    for name in ("FixedLengthRecordReader", "IdentityReader", "TextLineReader", "TFRecordReader", "WholeFileReader"):
        reader(name, name, version)
    for name in READS:
        reader(name, "TextLineReader", version, read=name)
    for name in STATE:
        reader(name, "IdentityReader", version, state=name)
