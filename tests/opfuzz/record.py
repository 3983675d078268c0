#!/usr/bin/env python3
"""Writes seeds.jsonl, the cases that the fuzzer mutates. They are small cases of tests/conformance/specs that
TensorFlow accepts.

Run by hand with TensorFlow installed. The output is committed, so that fuzzing does not need TensorFlow:

    python3 tests/opfuzz/record.py             # all families of specifications
    python3 tests/opfuzz/record.py math image  # only these; the seeds of other ops stay
"""

import json
import pathlib
import random
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "conformance")]

import run as conformance  # noqa: E402
import numpy as np  # noqa: E402
import spec as spec_module  # noqa: E402
from spec import Const, Graph  # noqa: E402

from case import NUMBERS, STRING, Case, Node, Tensor, dump  # noqa: E402

PER_SPEC = 5
TRIED = 40
BYTES = 4000  # limit on the size of a line in bytes
# Matches the prefix of the path of a temporary file. The prefix is removed, so that the path becomes relative to the
# working folder.
TEMPORARY = re.compile(re.escape(tempfile.gettempdir().encode()) + rb"/[^/]+/")


def size_of(case):
    if isinstance(case, Graph):
        return sum(np.asarray(v).size for v in case.feeds)
    flat = [v for x in case.inputs for v in (x if isinstance(x, (list, tuple)) else [x])]
    return sum(np.asarray(v.value if isinstance(v, Const) else v).size for v in flat if not hasattr(v, "op"))


def kind_of(case):
    """Returns a key that is equal for similar cases."""
    if isinstance(case, Graph):
        return re.sub(r"[-\d. ]+", "", case.name), tuple(np.asarray(v).dtype.name for v in case.feeds)
    return len(case.inputs), tuple(sorted(case.attrs)), tuple(str(v) for k, v in sorted(case.attrs.items()) if isinstance(v, (str, bool)))


def chosen(cases):
    """Sorts the cases of each kind by size, then takes one case of each kind in turn. Cases with empty inputs are last,
    because mutation finds them anyway."""
    rng = random.Random(1)
    rng.shuffle(cases)
    kinds = {}
    for case in sorted(cases, key=lambda c: (size_of(c) == 0, size_of(c) > 24, size_of(c) if size_of(c) > 24 else 0)):
        kinds.setdefault(kind_of(case), []).append(case)
    turns = max(map(len, kinds.values()), default=0)
    return [k[i] for i in range(turns) for k in kinds.values() if i < len(k)][:TRIED]


def as_tensor(value):
    value = np.asarray(value)
    if value.dtype == object:
        flat = [s if isinstance(s, bytes) else str(s).encode() for s in value.flat]
        return Tensor(STRING, value.shape, [TEMPORARY.sub(b"", s) for s in flat])
    # numpy represents a quantised type as a structure whose only field has the type's name
    name = value.dtype.names[0] if value.dtype.names else value.dtype.name
    return Tensor(NUMBERS[name], value.shape, np.ascontiguousarray(value).tobytes())


def as_attr(tf, value):
    kind = value.WhichOneof("value")
    if kind == "list":
        for field, found in value.list.ListFields():
            return [f"list:{field.name}", [as_plain(tf, field.name, v) for v in found]]
        return ["list:i", []]
    return [kind, as_plain(tf, kind, getattr(value, kind))]


def as_plain(tf, kind, value):
    if kind == "shape":
        return None if value.unknown_rank else [d.size for d in value.dim]
    if kind == "tensor":
        return as_tensor(tf.make_ndarray(value))
    return value.SerializeToString() if kind == "func" else value


def record(tf, case, tolerance):
    """Returns the case in the fuzzer's form, or None if the case is too large or TensorFlow refuses it."""
    graph = tf.Graph()
    with graph.as_default():
        built = conformance.build_case(tf, case, 0)
        with tf.compat.v1.Session(graph=graph) as session:
            if all(isinstance(r, conformance.Refusal) for r in conformance.run_theirs(tf, session, built)):
                return None
    proto = graph.as_graph_def()
    names, nodes = {}, []
    for n in proto.node:  # Short names replace names like "c0/op", which carry no information.
        names[n.name] = "op" if n.name == "c0/op" else f"n{len(names)}"
    again = lambda text: "^" * text.startswith("^") + names[text.lstrip("^").split(":")[0]] + "".join(
        f":{p}" for p in text.split(":")[1:])
    for n in proto.node:
        attrs = {k: as_attr(tf, v) for k, v in n.attr.items() if not k.startswith("_")}
        nodes.append(Node(names[n.name], n.op, [again(i) for i in n.input], attrs))
    steps = []
    for step in built.steps:
        plain = lambda f: isinstance(f, tf.Tensor) and f.dtype.base_dtype not in (tf.resource, tf.variant)
        steps.append([again(f.name) if plain(f) else again((f.op if isinstance(f, tf.Tensor) else f).name) for f in step])
    feeds = {again(p.name).split(":")[0]: as_tensor(v) for p, v in built.feeds}
    library = proto.library.SerializeToString()
    # The keys of a batch are random numbers. The specification fetches differences of them, but a changed case may not.
    loose = case.check is not None or case.op == "Batch"
    return Case(case.op, nodes, feeds, steps, library, loose, tolerance)


def main():
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    for family in sys.argv[1:] or conformance.all_families():
        conformance.load_family(family)
    ops = {s.op for s in spec_module.SPECS}
    lines = [line for line in (HERE / "seeds.jsonl").read_text().splitlines() if json.loads(line)["op"] not in ops] if sys.argv[1:] else []
    for s in spec_module.SPECS:
        cases = [c for c in s.cases() if size_of(c) <= 600]
        kept = 0
        for case in chosen(cases):
            if kept >= PER_SPEC:
                break
            try:
                found = record(tf, case, case.tolerance)
            except Exception as e:  # TensorFlow cannot build a graph from some cases.
                print(f"{case.op}: {type(e).__name__}: {e}".splitlines()[0][:150], file=sys.stderr)
                continue
            if found and len(dump(found)) > BYTES:
                print(f"{case}: {len(dump(found))} bytes", file=sys.stderr)
            elif found:
                lines.append(dump(found))
                kept += 1
        print(f"{s.op}: {kept} of {len(cases)}", file=sys.stderr)
    (HERE / "seeds.jsonl").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    main()
