#!/usr/bin/env python3
"""Checks that ops on strings check their deadline often enough, however long the strings are.

    texts.py [BUILD] [--only 'Op|Op'] [--part K/N] [--growth]

The elements of a string tensor may share their bytes. A Fill with a string of 10 MB takes only 24 bytes for each further
element. An op that estimates its work without the length of the strings may then read terabytes between two checks of
its deadline. A single string may also be very long, because a StringJoin of copies of a string makes hundreds of
megabytes within the default memory limit of a run.

Each case is made from a seed of bounds.py. A Fill replaces the string inputs of the seed, either by many elements that
share 8 MB, or by a tensor of the seed's shape whose elements share 64 MB. In other cases, an op has very many inputs or
indices that share their data. The CPU time between two checks of the deadline must stay within TEXT_LATE_MS,
except in the UNSTOPPABLE ops below. With --growth, only tables that grow and lists that shrink by millions of
elements are checked, against VALUE_LATE_MS.

Prints each failure; the last line is "N passed, M failed", and the exit status is 1 if any case failed.
"""

import argparse
import functools
import itertools
import pathlib
import sys

import bounds
import ours
from case import NUMBERS, STRING, Case, Node, Tensor, count, tensor
from text_models import FAST_CYCLE, LOOP, long_phrases, long_sentencepieces

# Each string has 8 MB. An op takes a second or more to read 4,000 strings, but only a few milliseconds to read one string.
TEXT_BYTES = 8 << 20
PIECE_BYTES = 1 << 20  # a long string is made of copies of a fed string of this size, because feeding takes longer
ELEMENTS = 4000
# Deadlines in milliseconds: SHORT_MS for cases in which many elements share 8 MB, ONE_MS for cases in which the elements
# share 64 MB, LONG_MS for other cases, and GROWTH_MS for tables that grow and lists that shrink. The inputs are also made
# during the run, which takes a few milliseconds for 8 MB.
SHORT_MS, ONE_MS, LONG_MS, GROWTH_MS = 100, 900, 600, 4000
# Limit in milliseconds on the CPU time between two checks of the deadline. The memory that a run needs stays in the process
# after earlier runs (MALLOC). Otherwise two thirds of the CPU time of all cases would be page faults.
TEXT_LATE_MS = 100
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 29), "MALLOC_TOP_PAD_": str(1 << 27)}
JOINED = 8  # number of copies of an 8 MB string that make a string of 64 MB
# RE2 cannot be stopped before the end of a string. It reads 64 MB in 60 to 120 ms, depending on the machine, or 8 MB if
# it also finds groups.
UNSTOPPABLE = ("RegexFullMatch", "RegexReplace", "RegexSplitWithOffsets", "StaticRegexFullMatch", "StaticRegexReplace")
UNSTOPPABLE_LATE_MS, UNSTOPPABLE_SHORT_LATE_MS = 400, 200
# An op that keeps 8 bytes per letter of a text of 64 MB. When its buffer grows from 256 to 512 MB, realloc copies it in 50
# to 130 ms, depending on the machine. The server maps large buffers and moves them without a copy, which MALLOC prevents.
COPIED = ("SentencepieceTokenizeWithOffsetsOp",)
# Each long string consists of copies of one of these strings. The last one is a serialized Example without features.
UNITS = (b"q", b" ", b"\x0a\x00")


@functools.cache
def piece(unit):
    """Returns a string tensor of PIECE_BYTES bytes. More than a thousand cases share this tensor, which is made only
    once."""
    return Tensor(STRING, (), [unit * (PIECE_BYTES // len(unit))])


def filled(name, dims, of, times=1):
    """Returns the nodes that make `name` a string tensor of shape `dims`. The elements share the bytes of the string
    `of`, which has `times` * TEXT_BYTES bytes. It is made of copies of the string that is fed as `of`_piece."""
    shape = tensor("int32", [len(dims)], dims)
    n = times * TEXT_BYTES // PIECE_BYTES
    return [Node(f"{of}_piece", "Placeholder", [], {"dtype": ["type", STRING], "shape": ["shape", None]}),
            Node(of, "StringJoin", [f"{of}_piece"] * n, {"N": ["i", n], "separator": ["s", b""]}),
            Node(f"{name}_dims", "Const", [], {"dtype": ["type", shape.dtype], "value": ["tensor", shape]}),
            Node(name, "Fill", [f"{name}_dims", of], {"T": ["type", STRING], "index_type": ["type", shape.dtype]})]


def with_texts(case, names, unit):
    """Returns the case with at least ELEMENTS elements in the first dimension of the fed string tensors `names`. All
    elements of a tensor share their bytes, but no two tensors share bytes. Any other feed whose first dimension
    has the same length grows by the same factor."""
    out = case.copy()
    first = case.feeds[names[0]].shape[0]
    times = -(-ELEMENTS // first)
    for name, t in case.feeds.items():
        if name in names:
            of = f"{name}_text"
            at = next(i for i, n in enumerate(out.nodes) if n.name == name)
            out.nodes[at:at + 1] = filled(name, (t.shape[0] * times,) + t.shape[1:], of)
            del out.feeds[name]
            out.feeds[f"{of}_piece"] = piece(unit)
        elif t.shape and t.shape[0] == first and t.data:
            out.feeds[name] = bounds.Repeated(t, 0, times)
    return out


def text_cases(case):
    """Yields cases in which all fed string tensors contain long strings, and cases in which only one tensor does."""
    names = [n for n, t in case.feeds.items() if t.dtype == STRING and t.shape and count(t.shape)]
    for group in [names] + ([[n] for n in names] if len(names) > 1 else []):
        for unit in UNITS if group else ():
            yield with_texts(case, group, unit)


def with_one_text(case, names, unit):
    """Returns the case in which all elements of each fed string tensor in `names` share the same JOINED * TEXT_BYTES
    bytes. No two tensors share bytes."""
    out = case.copy()
    for name in names:
        of = f"{name}_text"
        at = next(i for i, n in enumerate(out.nodes) if n.name == name)
        out.nodes[at:at + 1] = filled(name, case.feeds[name].shape, of, JOINED)
        del out.feeds[name]
        out.feeds[f"{of}_piece"] = piece(unit)
    return out


def one_text_cases(case):
    """Yields cases in which the elements of all fed string tensors have JOINED * TEXT_BYTES bytes, and cases in which
    only one tensor has such elements."""
    names = [n for n, t in case.feeds.items() if t.dtype == STRING and count(t.shape)]
    for group in [names] + ([[n] for n in names] if len(names) > 1 else []):
        for unit in UNITS if group else ():
            yield with_one_text(case, group, unit)


def placeholder(name, dtype):
    return Node(name, "Placeholder", [], {"dtype": ["type", NUMBERS[dtype]], "shape": ["shape", None]})


def many_inputs(op, dtype):
    """Returns a case of AddN or AccumulateNV2 with 3,000 inputs, all of which are one tensor."""
    n = 3000
    attrs = {"N": ["i", n], "T": ["type", NUMBERS[dtype]]}
    if op == "AccumulateNV2":
        attrs["shape"] = ["shape", [1000000]]
    one = tensor(dtype, [1], [1])
    return Case(op, [placeholder("x", dtype), Node("op", op, ["x"] * n, attrs)], {"x": bounds.Repeated(one, 0, 1000000)}, [["op"]])


def many_indices(op, nd, dtype):
    """Returns a case with 3,000 scalar updates of a row of a million elements or, if `nd` is true, with 20 million
    updates of a single element."""
    ref = not op.startswith("Resource")
    cols, rows = (1, 20000000) if nd else (1000000, 3000)
    t = ["type", NUMBERS[dtype]]
    dims, one = tensor("int32", [2], [1, cols]), tensor(dtype, [], [1])
    variable = {"dtype": t, "shape": ["shape", [1, cols]], "shared_name": ["s", b"v"], "container": ["s", b""]}
    int32 = ["type", NUMBERS["int32"]]
    nodes = [
        Node("v", "VariableV2" if ref else "VarHandleOp", [], variable),
        Node("dims", "Const", [], {"dtype": int32, "value": ["tensor", dims]}),
        Node("one", "Const", [], {"dtype": t, "value": ["tensor", one]}),
        Node("first", "Fill", ["dims", "one"], {"T": t, "index_type": int32}),
        Node("init", "Assign", ["v", "first"], {"T": t}) if ref else Node("init", "AssignVariableOp", ["v", "first"], {"dtype": t}),
        placeholder("index", "int32"),
    ]
    updates = "one"
    feeds = {"index": bounds.Repeated(tensor("int32", [1, 1] if nd else [1], [0]), 0, rows)}
    if nd:
        nodes.append(placeholder("updates", dtype))
        feeds["updates"] = bounds.Repeated(tensor(dtype, [1, cols], [1] * cols), 0, rows)
        updates = "updates"
    nodes.append(Node("op", op, ["v", "index", updates], {"T" if ref or nd else "dtype": t, "Tindices": int32}))
    return Case(op, nodes, feeds, [["init"], ["op"]])


def on_texts(op, inputs, attrs, unit=b"q", also=()):
    """Returns a case of an op that may read "x" and "y", two equal vectors of long strings. The vectors do not share
    their bytes."""
    names = [n for n in ("x", "y") if n in inputs or f"{n}_text" in inputs]
    nodes = [n for name in names for n in filled(name, [ELEMENTS], f"{name}_text")]
    feeds = {f"{n}_text_piece": piece(unit) for n in names}
    return Case(op, nodes + [*also, Node("op", op, inputs, attrs)], feeds, [["op"]])


def constant(name, t):
    return Node(name, "Const", [], {"dtype": ["type", t.dtype], "value": ["tensor", t]})


def table_cases():
    string, int64 = ["type", STRING], ["type", NUMBERS["int64"]]
    also = [constant("values", tensor("int64", [ELEMENTS], [1] * ELEMENTS)), constant("none", tensor("int64", [], [-1]))]
    types = {"key_dtype": string, "value_dtype": int64, "shared_name": ["s", b"t"], "container": ["s", b""]}
    mutable, fixed = Node("t", "MutableHashTableV2", [], types), Node("t", "HashTableV2", [], types)
    t, key_value = {"Tin": string, "Tout": int64}, {"Tkey": string, "Tval": int64}
    yield on_texts("InitializeTableV2", ["t", "x", "values"], key_value, also=[*also, fixed])
    yield on_texts("LookupTableImportV2", ["t", "x", "values"], t, also=[*also, mutable])
    yield on_texts("LookupTableInsertV2", ["t", "x", "values"], t, also=[*also, mutable])
    # The table holds one pair, so that each key of "x" is hashed and compared.
    insert = [filled("key", [1], "x_text")[i] for i in (2, 3)] + [constant("value", tensor("int64", [1], [1])),
                                                                   Node("put", "LookupTableInsertV2", ["t", "key", "value"], t)]
    for op, inputs, attrs in (("LookupTableFindV2", ["t", "x", "none"], t), ("LookupTableRemoveV2", ["t", "x"], {"Tin": string})):
        case = on_texts(op, inputs, attrs, also=[*also, mutable, *insert])
        case.steps.insert(0, ["put"])
        yield case


def text_op_cases():
    """Yields cases of ops for which no seed feeds a vector of strings."""
    t, index = ["type", STRING], ["type", NUMBERS["int32"]]
    for op in ("Unique", "UniqueWithCounts"):
        yield on_texts(op, ["x"], {"T": t, "out_idx": index})
    axis = [constant("axis", tensor("int32", [1], [0]))]
    yield on_texts("UniqueV2", ["x", "axis"], {"T": t, "Taxis": index, "out_idx": index}, also=axis)
    yield on_texts("ListDiff", ["x", "y"], {"T": t, "out_idx": index})
    for op in ("Equal", "NotEqual"):
        yield on_texts(op, ["x", "y"], {"T": t})
        yield on_texts(op, ["x", "y_text"], {"T": t})
    yield on_texts("StringSplitV2", ["x", "by"], {"maxsplit": ["i", -1]}, b" ", [constant("by", tensor(STRING, [], [b""]))])
    yield on_texts("StringSplit", ["x", "by"], {"skip_empty": ["b", True]}, b" ", [constant("by", tensor(STRING, [], [b" "]))])
    yield from table_cases()


def outer_sum(equation, dtype):
    """Returns a case of Einsum that multiplies two vectors of 20 million elements and sums over the index of one
    vector."""
    t = ["type", NUMBERS[dtype]]
    nodes = [placeholder("one", dtype), constant("dims", tensor("int32", [1], [20000000]))]
    nodes += [Node(n, "Fill", ["dims", "one"], {"T": t, "index_type": ["type", NUMBERS["int32"]]}) for n in "ab"]
    nodes.append(Node("op", "Einsum", ["a", "b"], {"N": ["i", 2], "T": t, "equation": ["s", equation]}))
    return Case("Einsum", nodes, {"one": tensor(dtype, [], [1])}, [["op"]])


def swapped_bytes():
    """Returns a case of DecodeRaw that swaps the bytes of 1.6 GB of int16 values."""
    nodes = filled("x", [200], "text") + [
        Node("op", "DecodeRaw", ["x"], {"out_type": ["type", NUMBERS["int16"]], "little_endian": ["b", False]})]
    return Case("DecodeRaw", nodes, {"text_piece": piece(b"q")}, [["op"]])


def large_patterns():
    """Yields cases of expressions of thousands of instructions on texts of 2 KB, each of which RE2 reads in up to 100 ms,
    because its DFA has too many states."""
    pattern = constant("pattern", Tensor(STRING, (), [b"(a?){900}(a*)*(a|b)*c"]))
    rewrite = constant("rewrite", Tensor(STRING, (), [b"x"]))
    texts = [constant("dims", tensor("int32", [1], [200])), constant("one", Tensor(STRING, (), [b"a" * 2000])),
             Node("x", "Fill", ["dims", "one"], {"T": ["type", STRING], "index_type": ["type", NUMBERS["int32"]]})]
    replace = {"replace_global": ["b", True]}
    for op, inputs, attrs in (("RegexFullMatch", ["x", "pattern"], {}), ("RegexReplace", ["x", "pattern", "rewrite"], replace),
                              ("RegexSplitWithOffsets", ["x", "pattern", "pattern"], {})):
        yield Case(op, [*texts, pattern, rewrite, Node("op", op, inputs, attrs)], {}, [["op"]])


def long_template():
    """Returns a case of StringFormat with a long placeholder. At each position before the match in the template, the
    comparison fails only after 200,000 bytes."""
    attrs = {"T": ["list:type", [NUMBERS["float32"]]], "template": ["s", b"a" * 400000 + b"{}" + b"a"],
             "placeholder": ["s", b"a" * 200000 + b"{}"], "summarize": ["i", 3]}
    return Case("StringFormat", [placeholder("x", "float32"), Node("op", "StringFormat", ["x"], attrs)],
                {"x": tensor("float32", [1], [1])}, [["op"]])


def ranges(names, n):
    """Returns nodes that make one int64 vector 0, 1, ..., n - 1 for each of `names`. The vectors share no memory."""
    int64 = ["type", NUMBERS["int64"]]
    limits = [constant(name, tensor("int64", [], [v])) for name, v in (("from", 0), ("to", n), ("by", 1))]
    return limits + [Node(name, "Range", ["from", "to", "by"], {"Tidx": int64}) for name in names]


def long_number():
    """Returns a case of DecodeJSONExample on a number of 256 million digits."""
    n, start = (256 << 20) // PIECE_BYTES, b'{"features":{"feature":{"a":{"floatList":{"value":[1'
    nodes = [placeholder("digits", "string"), constant("start", Tensor(STRING, (), [start])),
             Node("text", "StringJoin", ["start"] + ["digits"] * n, {"N": ["i", n + 1], "separator": ["s", b""]}),
             Node("op", "DecodeJSONExample", ["text"], {})]
    return Case("DecodeJSONExample", nodes, {"digits": piece(b"1")}, [["op"]])


def long_word():
    """Returns a case whose model reads 64 MB of text as one word."""
    model = constant("model", tensor("uint8", [len(LOOP)], LOOP))
    nodes = [*filled("x", [1], "x_text", JOINED), model, Node("op", "FastWordpieceTokenizeWithOffsets", ["x", "model"], {})]
    return Case("FastWordpieceTokenizeWithOffsets", nodes, {"x_text_piece": piece(b"q")}, [["op"]])


def long_phrase_texts():
    """Yields cases of PhraseTokenize on 64 MB of text that its models read as one phrase, or from each word on to the end."""
    for data in long_phrases():
        for unit in (b"q ", b"q", b"q  \t"):
            nodes = [*filled("x", [1], "x_text", JOINED), constant("model", tensor("uint8", [len(data)], data)),
                     Node("op", "PhraseTokenize", ["x", "model"], {})]
            yield Case("PhraseTokenize", nodes, {"x_text_piece": piece(unit)}, [["op"]])


def long_segments():
    """Returns cases whose text is one segment of 64 MB, which consists of marks in an order that must change."""
    nfd = {"normalization_form": ["s", b"NFD"]}
    nfc = {"normalization_form": ["s", b"NFC"]}
    return [Case(op, [*filled("x", [1], "x_text", JOINED), Node("op", op, ["x"], attrs)],
                 {"x_text_piece": piece("\u0301\u0323".encode())}, [["op"]])
            for op, attrs in (("CaseFoldUTF8", {}), ("NormalizeUTF8", nfd), ("NormalizeUTF8WithOffsetsMap", nfc),
                              ("NormalizeUTF8WithOffsetsMap", nfd))]


def long_pieces():
    """Yields cases of SentencePiece's ops on 64 MB of text whose models read it, or replacements, again and again."""
    def text_of(op, inputs, before, attrs):
        flags = [constant("size", tensor("int32", [], [0])), constant("alpha", tensor("float32", [], [0])),
                 constant("flag", tensor("bool", [], [0]))]
        nodes = [*filled("x", [1], "x_text", JOINED), before, *flags, Node("op", op, inputs + ["size", "alpha"] + ["flag"] * 3, attrs)]
        return Case(op, nodes, {"x_text_piece": piece(b"a")}, [["op"]])

    for model in long_sentencepieces():
        before = Node("model", "SentencepieceOp", [], {"model": ["s", model], "container": ["s", b""], "shared_name": ["s", b""]})
        for op in ("SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp"):
            yield text_of(op, ["model", "x"], before, {"out_type": ["type", NUMBERS["int32"]], "Tsplits": ["type", NUMBERS["int64"]],
                                                       "return_nbest": ["b", False]})
    yield text_of("TFText>FastSentencepieceTokenize", ["model", "x"], constant("model", tensor("uint8", [len(FAST_CYCLE)], FAST_CYCLE)),
                  {"out_type": ["type", NUMBERS["int32"]], "Tsplits": ["type", NUMBERS["int32"]]})


def many_variants():
    """Returns a case of RaggedTensorFromVariant on 16,000 variants, each of which has the same 16,000 row splits."""
    n, int64, float32 = 16000, ["type", NUMBERS["int64"]], ["type", NUMBERS["float32"]]
    types = {"Tvalues": float32, "Tsplits": int64}
    nodes = [constant("size", tensor("int32", [1], [n])), constant("zero", tensor("int64", [], [0])),
             constant("values", tensor("float32", [0], [])),
             Node("splits", "Fill", ["size", "zero"], {"T": int64, "index_type": ["type", NUMBERS["int32"]]}),
             Node("one", "RaggedTensorToVariant", ["splits", "values"], {"RAGGED_RANK": ["i", 1], "batched_input": ["b", False], **types}),
             Node("many", "Pack", ["one"] * n, {"N": ["i", n], "T": ["type", NUMBERS["variant"]], "axis": ["i", 0]}),
             Node("op", "RaggedTensorFromVariant", ["many"], {"input_ragged_rank": ["i", 1], "output_ragged_rank": ["i", 2], **types})]
    return Case("RaggedTensorFromVariant", nodes, {}, [["op"]])


def many_keys():
    """Returns a case of ParseExampleV2 that clears 1.6 GB before it reads the first of 100,000 Examples, because it keeps
    where each of them has the values of each of 1,000 keys."""
    n, int64 = 1000, ["type", NUMBERS["int64"]]
    attrs = {"Tdense": ["list:type", []], "num_sparse": ["i", n], "sparse_types": ["list:type", [NUMBERS["float32"]] * n],
             "ragged_value_types": ["list:type", []], "ragged_split_types": ["list:type", []], "dense_shapes": ["list:shape", []]}
    nodes = [constant("size", tensor("int64", [1], [100000])), constant("example", Tensor(STRING, (), [b""])),
             constant("none", Tensor(STRING, (0,), [])), constant("keys", Tensor(STRING, (n,), [b"%d" % i for i in range(n)])),
             Node("x", "Fill", ["size", "example"], {"T": ["type", STRING], "index_type": int64}),
             Node("op", "ParseExampleV2", ["x", "none", "keys", "none", "none"], attrs)]
    return Case("ParseExampleV2", nodes, {}, [["op"]])


def growing_table(op, keys_as_text):
    """Returns a case that inserts millions of pairs into a table, removes most of them, and inserts others, so that the
    table grows and is compacted."""
    string, int64 = ["type", STRING], ["type", NUMBERS["int64"]]
    key, n = (string, 1000000) if keys_as_text else (int64, 6000000)
    attrs = {"key_dtype": key, "value_dtype": int64, "shared_name": ["s", b"t"], "container": ["s", b""]}
    nodes = ranges(["x"], n) + [constant("more", tensor("int64", [], [n])), Node("y", "AddV2", ["x", "more"], {"T": int64})]
    keys, others = "x", "y"
    if keys_as_text:
        fill = {"T": int64, "fill": ["s", b"0"], "width": ["i", 20]}
        nodes += [Node(f"{k}_text", "AsString", [k], fill) for k in "xy"]
        keys, others = "x_text", "y_text"
    inputs = []
    if op == "MutableDenseHashTableV2":
        inputs = ["empty", "deleted"]
        nodes += [constant(name, tensor("int64", [], [v])) for name, v in (("empty", -1), ("deleted", -2))]
    io = {"Tin": key, "Tout": int64}
    nodes += [Node("t", op, inputs, attrs), Node("insert", "LookupTableInsertV2", ["t", keys, "x"], io),
              Node("remove", "LookupTableRemoveV2", ["t", keys], {"Tin": key}),
              Node("again", "LookupTableInsertV2", ["t", others, "x"], io)]
    return Case(op, nodes, {}, [["insert"], ["remove"], ["again"]])


def shrinking_list():
    """Returns a case that removes 4 million items from a list."""
    float32 = ["type", NUMBERS["float32"]]
    attrs = {"element_dtype": float32, "shape_type": ["type", NUMBERS["int32"]]}
    nodes = [constant("dims", tensor("int32", [2], [4000000, 1])), constant("shape", tensor("int32", [1], [1])),
             constant("zero", tensor("float32", [], [0])), constant("few", tensor("int32", [], [1])),
             Node("x", "Fill", ["dims", "zero"], {"T": float32, "index_type": ["type", NUMBERS["int32"]]}),
             Node("list", "TensorListFromTensor", ["x", "shape"], attrs), Node("op", "TensorListResize", ["list", "few"], {})]
    return Case("TensorListResize", nodes, {}, [["op"]])


def growth_cases():
    tables = [growing_table(op, False) for op in ("MutableHashTableV2", "MutableDenseHashTableV2")]
    return [*tables, growing_table("MutableHashTableV2", True), shrinking_list()]


def other_cases():
    sums = [outer_sum(e, t) for e, t in ((b"a,b->a", "float32"), (b"a,b->b", "float64"))]
    scatters = [many_indices(kind + "Scatter" + how, False, "float32")
                for kind in ("", "Resource") for how in ("Update", "Add", "Mul", "Div", "Max")]
    scatters += [many_indices("ScatterNdAdd", True, "float32"), many_indices("ResourceScatterNdUpdate", True, "float32")]
    inputs = [many_inputs(op, t) for op in ("AddN", "AccumulateNV2") for t in ("float32", "half")]
    return [*text_op_cases(), *sums, *scatters, *inputs, swapped_bytes(), *large_patterns(), long_template(), long_number(), long_word(),
            *long_phrase_texts(), *long_segments(), *long_pieces(), many_variants(), many_keys()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--only")
    parser.add_argument("--part", default="1/1", help="K/N: the Kth of N parts of the cases")
    parser.add_argument("--growth", action="store_true", help="only tables that grow and lists that shrink")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    path = f"{args.build}/op_runner" if pathlib.Path(f"{args.build}/op_runner").exists() else f"{args.build}/tests/op_runner"
    part, parts = map(int, args.part.split("/"))
    if not args.growth:
        ours.ENVIRONMENT.update(MALLOC)
    short, one, long = (bounds.Runner(path, ms, 4000, measures_checks=True, late_limit_ms=TEXT_LATE_MS)
                        for ms in (SHORT_MS, ONE_MS, LONG_MS))
    growth = bounds.Runner(path, GROWTH_MS, 4000, measures_checks=True, late_limit_ms=bounds.VALUE_LATE_MS)
    seeds = [s for of_op in bounds.ops_of(args.only).values() for s in bounds.of_different_types(of_op)]
    cases = [(short, c) for c in itertools.chain.from_iterable(map(text_cases, seeds))]
    cases += [(one, c) for c in itertools.chain.from_iterable(map(one_text_cases, seeds))]
    cases += [(long, c) for c in other_cases() if not args.only or bounds.re.fullmatch(args.only, c.op)]
    if args.growth:
        cases = [(growth, c) for c in growth_cases() if not args.only or bounds.re.fullmatch(args.only, c.op)]
    done = failed = 0
    latest = {}
    for runner, case in cases[part - 1::parts]:
        if args.verbose:
            print(case.op, str(case)[:400], flush=True)
        if runner is not growth:
            longest = UNSTOPPABLE_LATE_MS if runner is one else UNSTOPPABLE_SHORT_LATE_MS
            runner.late_limit_ms = longest if case.op in UNSTOPPABLE + COPIED else TEXT_LATE_MS
        why = bounds.check(runner, case, False)
        latest[case.op] = max(latest.get(case.op, 0), runner.late_ms)
        done += 1
        if why:
            failed += 1
            print(f"FAILED {case.op}: {why}\n{str(case)[:2000]}", flush=True)
    for runner in (short, one, long, growth):
        runner.child.stop()
    print("latest: " + ", ".join(f"{op} {ms:.0f} ms" for op, ms in sorted(latest.items(), key=lambda x: -x[1])[:20]))
    print(f"{done - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
