#!/usr/bin/env python3
"""Runs the specifications in specs/ through TensorFlow and through op_runner, and compares the results. See
README.md."""

import argparse
import collections
import importlib.util
import os
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Makes TensorFlow use Eigen's kernels, whose arithmetic is the reference.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import spec as spec_module  # noqa: E402
from spec import Const, Graph  # noqa: E402


class Refusal:
    def __init__(self, code, text):
        self.code, self.text = code, text

    def __str__(self):
        return f"refused with code {self.code}: {self.text}"


# ---- one case as a graph --------------------------------------------------------------------


class Built:
    """A case whose nodes have been added to the graph, with the names to feed and the tensors to fetch in each step."""

    def __init__(self, case):
        self.case, self.feeds, self.steps = case, [], []


def build_case(tf, case, index):
    from tensorflow.python.framework import op_def_library

    built = Built(case)
    with tf.name_scope(f"c{index}"):
        if isinstance(case, Graph):
            holders = []
            for value in case.feeds:
                holders.append(as_input(tf, built, value))
            fetch = case.build(tf, *holders)
            steps = fetch if fetch and isinstance(fetch[0], (list, tuple)) else [fetch]
            built.steps = [[f for f in step] for step in steps]
            return built

        op_def = op_def_of(case.op)
        args = defaults(op_def) | case.attrs
        for arg, value in zip(op_def.input_arg, case.inputs, strict=True):
            args[arg.name] = [as_input(tf, built, v) for v in value] if isinstance(value, (list, tuple)) else as_input(tf, built, value)
        _, _, node, _ = op_def_library._apply_op_helper(case.op, name="op", **args)
        outputs = list(node.outputs)
        if case.outputs is not None:
            outputs = [outputs[i] for i in case.outputs]
        built.steps = [outputs or [node]]
    return built


def op_def_of(name):
    from tensorflow.python.framework import op_def_registry

    op_def = op_def_registry.get(name)
    if op_def is None:
        raise ValueError(f"TensorFlow has no op {name}")
    return op_def


def defaults(op_def):
    """Returns the default values of the attributes that cannot be inferred from the inputs."""
    told = {a for arg in op_def.input_arg for a in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
    return {a.name: plain(a.default_value) for a in op_def.attr if a.HasField("default_value") and a.name not in told}


def plain(value):
    """Converts an AttrValue to the form that the helper function of an op accepts."""
    kind = value.WhichOneof("value")
    if kind != "list":
        return getattr(value, kind)
    for field, found in value.list.ListFields():
        return list(found)
    return []


def placeholder(tf, built, value):
    dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
    p = tf.compat.v1.placeholder(dtype, None)
    built.feeds.append((p, value))
    return p


def as_input(tf, built, value):
    if isinstance(value, Const):
        return tf.constant(value.value)
    return value if tf.is_tensor(value) else placeholder(tf, built, np.asarray(value))


# ---- their side and ours --------------------------------------------------------------------


def run_theirs(tf, session, built):
    results = []
    feeds = dict(built.feeds)
    for step in built.steps:
        try:
            values = session.run(step, feeds)
            results.append([as_array(v) for f, v in zip(step, values) if isinstance(f, tf.Tensor)])
        except tf.errors.OpError as e:
            results.append(Refusal(e.error_code, plain_text(e.message)))
        except UnicodeDecodeError:  # The error message is not valid UTF-8, so Python cannot report it.
            results.append(Refusal(None, ""))
    return results


def as_array(value):
    return np.array(value, object) if isinstance(value, (bytes, str)) else np.asarray(value)


class Runner:
    """Runs op_runner as a child process, which is restarted after it has died."""

    def __init__(self, path, tf, tuning=()):
        self.path, self.tf, self.tuning, self.child, self.graph = path, tf, tuning, None, None

    def start(self):
        self.child = subprocess.Popen([self.path, *self.tuning], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.graph is not None:
            return self.send_graph()

    def send(self, data):
        self.child.stdin.write(data)

    def load(self, graph_def):
        """Opens a session on the graph. Returns None, or a Refusal if the graph is refused."""
        self.graph = graph_def
        if self.child is None:
            return self.start()
        return self.send_graph()

    def send_graph(self):
        self.send(b"G" + struct.pack("<q", len(self.graph)) + self.graph)
        self.child.stdin.flush()
        status = self.status()
        return status if status.code else None

    def read(self, n):
        data = self.child.stdout.read(n)
        if len(data) != n:
            raise EOFError
        return data

    def text(self):
        return self.read(struct.unpack("<q", self.read(8))[0])

    def status(self):
        code = struct.unpack("<i", self.read(4))[0]
        return Refusal(code, self.text().decode(errors="replace"))

    def run(self, built):
        try:
            return [self.step(built, step) for step in built.steps]
        except (EOFError, BrokenPipeError):
            code = self.child.wait()
            self.child = None
            self.start()
            return [Refusal(-1, f"op_runner died with {code}")] * len(built.steps)

    def serve(self):
        """Ends the loading phase. Returns None, or a Refusal if it failed."""
        self.send(b"S")
        self.child.stdin.flush()
        status = self.status()
        return status if status.code else None

    def step(self, built, step, is_load=False):
        tf = self.tf
        fetches = [f.name for f in step if isinstance(f, tf.Tensor)]
        targets = [f.name if isinstance(f, tf.Operation) else f for f in step if not isinstance(f, tf.Tensor)]
        out = [b"I" if is_load else b"R", struct.pack("<iii", len(built.feeds), len(fetches), len(targets))]
        for p, value in built.feeds:
            out += [packed(p.name.encode()), encode(tf, value)]
        out += [packed(n.encode()) for n in fetches + targets]
        self.send(b"".join(out))
        self.child.stdin.flush()
        status = self.status()
        status.text = plain_text(status.text)
        return status if status.code else [self.decode() for _ in fetches]

    def decode(self):
        dtype, rank = struct.unpack("<ii", self.read(8))
        dims = struct.unpack(f"<{rank}q", self.read(8 * rank))
        n = int(np.prod(dims, dtype=np.int64))
        if dtype == 7:
            flat = np.empty(n, object)
            for i in range(n):
                flat[i] = self.text()
            return flat.reshape(dims)
        if dtype in (20, 21):
            return np.empty(dims, object)
        d = self.tf.as_dtype(dtype).as_numpy_dtype
        return np.frombuffer(self.read(n * np.dtype(d).itemsize), d).reshape(dims)


def packed(data):
    return struct.pack("<q", len(data)) + data


def encode(tf, value):
    number = 7 if value.dtype == object else tf.as_dtype(value.dtype).as_datatype_enum
    head = struct.pack(f"<ii{value.ndim}q", number, value.ndim, *value.shape)
    if number == 7:
        return head + b"".join(packed(s if isinstance(s, bytes) else s.encode()) for s in value.flat)
    return head + np.ascontiguousarray(value).tobytes()


UNIMPLEMENTED = 12

# ---- comparing ------------------------------------------------------------------------------


def compare_arrays(theirs, ours, ulps=0, rtol=0, atol=0, signs=True):
    """Returns a description of how the arrays differ, or None if they agree."""
    if theirs.dtype != ours.dtype:
        return f"type {ours.dtype}, not {theirs.dtype}"
    if theirs.shape != ours.shape:
        return f"shape {list(ours.shape)}, not {list(theirs.shape)}"
    if theirs.dtype == object:
        wrong = np.array([a != b for a, b in zip(theirs.flat, ours.flat)], bool)
        return first_wrong(theirs, ours, wrong)
    if theirs.dtype.kind == "c":
        part = np.float32 if theirs.dtype == np.complex64 else np.float64
        flat = [np.stack([x.real, x.imag]).astype(part) for x in (theirs, ours)]
        if ulps or rtol or atol:
            # Both parts of a complex number are compared relative to the number's magnitude, because cancellation of
            # large numbers may make one part tiny.
            size = np.abs(theirs).astype(np.float64)
            with np.errstate(all="ignore"):
                close = np.abs(theirs - ours) <= ulps * np.spacing(size.astype(part)) + rtol * size + atol
            same = (np.isnan(flat[0]) & np.isnan(flat[1])) | (flat[0] == flat[1])
            return first_wrong(theirs, ours, ~(close | same.all(axis=0)).reshape(-1))
        return compare_arrays(*flat)
    if theirs.dtype.kind in "biu" or theirs.dtype.name.startswith(("int", "uint")):
        return first_wrong(theirs, ours, (theirs != ours).reshape(-1))

    with np.errstate(all="ignore"):
        a, b = theirs.astype(np.float64).reshape(-1), ours.astype(np.float64).reshape(-1)
        alike = np.isnan(a) & np.isnan(b)
        # TensorFlow's threads flush subnormal numbers to zero.
        smallest = float(ml_dtypes.finfo(theirs.dtype).smallest_normal)
        alike |= (np.abs(a) < smallest) & (np.abs(b) < smallest) & (a != b)
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | bool(ulps or rtol or atol or not signs)) | alike
        if ulps or rtol or atol:
            finite = np.isfinite(a) & np.isfinite(b)
            step = np.abs(np.spacing(theirs.reshape(-1)).astype(np.float64))
            largest = np.max(np.abs(a[np.isfinite(a)]), initial=0)
            same |= finite & (np.abs(a - b) <= np.maximum(ulps * step, np.maximum(rtol * largest, atol)))
    return first_wrong(theirs, ours, ~same)


def first_wrong(theirs, ours, wrong):
    n = int(np.count_nonzero(wrong))
    if n == 0:
        return None
    i = int(np.argmax(wrong))
    return f"{n} of {wrong.size} differ, first at {i}: {ours.reshape(-1)[i]!r}, not {theirs.reshape(-1)[i]!r}"


def compare(case, theirs, ours):
    for k, (a, b) in enumerate(zip(theirs, ours)):
        where = f"step {k}: " if len(theirs) > 1 else ""
        if isinstance(a, Refusal) and a.code == UNIMPLEMENTED:
            continue  # Slipway is allowed to accept more than TensorFlow.
        if isinstance(a, Refusal) != isinstance(b, Refusal):
            return where + (f"we {b}" if isinstance(b, Refusal) else f"we accept; TensorFlow {a}")
        if isinstance(a, Refusal):
            if a.code not in (None, b.code) or (getattr(case, "texts", False) and a.text not in b.text):
                return where + f"we {b}; TensorFlow {a}"
            continue
        if case.check:
            problem = case.check(case, a, b)
            if problem:
                return where + problem
            continue
        for i, (x, y) in enumerate(zip(a, b)):
            problem = compare_arrays(x, y, **case.tolerance)
            if problem:
                return where + (f"output {i}: " if len(a) > 1 else "") + problem
    return None


def plain_text(text):
    """Returns an error message without the text that TensorFlow puts around it."""
    text = re.split(r"^Node: .*$", text, maxsplit=1, flags=re.M)[-1]
    text = re.sub(r"^Graph execution error:\s+", "", text)
    text = re.sub(r"goo\.gle/debug\w+ *\n?", "", text)  # removes the links that protobuf adds to debug strings
    return re.split(r"\n\t \[\[", text)[0].strip()


def different_texts(theirs, ours):
    for a, b in zip(theirs, ours):
        if isinstance(a, Refusal) and isinstance(b, Refusal) and a.text not in b.text:
            yield a.text, b.text


# ---- all of it ------------------------------------------------------------------------------


CASES_PER_GRAPH = 200  # number of cases per graph, because a session holds a limited number of plans


# The tunings of the two tiers, node by node and compiled. A single node must give the same bits in both tiers.
TIERS = (("no_autotune", "no_specialise"), ("no_autotune",))


def same_bits(theirs, ours):
    if isinstance(theirs, Refusal) or isinstance(ours, Refusal):
        return isinstance(theirs, Refusal) == isinstance(ours, Refusal)
    return all(a.shape == b.shape and (a.tobytes() == b.tobytes() if a.dtype != object else (a == b).all())
               for a, b in zip(theirs, ours))


def check_op(tf, runners, spec, report):
    cases = list(spec.cases())
    wrong, texts = [], []
    for first in range(0, len(cases), CASES_PER_GRAPH):
        check_cases(tf, runners, cases[first : first + CASES_PER_GRAPH], wrong, texts)
    report(spec.op, len(cases), wrong, texts)


def check_cases(tf, runners, cases, wrong, texts):
    graph = tf.Graph()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with graph.as_default():
        built = [build_case(tf, case, i) for i, case in enumerate(cases)]
        refusal = [runner.load(graph.as_graph_def().SerializeToString()) for runner in runners][0]
        if refusal:
            wrong += [f"graph: {refusal}"] * len(cases)
            return
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            for b in built:
                theirs = run_theirs(tf, session, b)
                ours, compiled = (runner.run(b) for runner in runners)
                problem = compare(b.case, theirs, ours)
                if not problem and b.case.check:
                    problem = compare(b.case, theirs, compiled)
                elif not problem and not all(map(same_bits, ours, compiled)):
                    problem = f"compiled: {compare(b.case, theirs, compiled) or 'other bits'}"
                if problem:
                    wrong.append(f"{b.case}: {problem}")
                texts += different_texts(theirs, ours)


def load_family(name):
    """Loads a family of specifications by path, because a family may have the name of a Python module, for example
    math."""
    found = importlib.util.spec_from_file_location(f"specs_{name}", HERE / "specs" / f"{name}.py")
    found.loader.exec_module(importlib.util.module_from_spec(found))


def listed_ops():
    text = (ROOT / "kernels" / "table.inc").read_text()
    return re.findall(r"^KN_OP\((\w+)\)", text, re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="files of specs/, all by default")
    parser.add_argument("--only", default="", help="ops whose name matches this expression as a whole")
    parser.add_argument("--runner", default=str(ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--texts", action="store_true", help="list refusals with other words")
    parser.add_argument("--coverage", action="store_true", help="list ops without a specification, and end")
    parser.add_argument("--most", type=int, default=3, help="failing cases shown per op")
    options = parser.parse_args()

    families = options.families or sorted(p.stem for p in (HERE / "specs").glob("*.py"))
    for family in families:
        load_family(family)
    specs = spec_module.SPECS

    if options.coverage:
        snake = lambda s: re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", s).lower()
        known = {snake(s.op).replace("_", "") for s in specs}
        missing = [op for op in listed_ops() if op.replace("_", "") not in known]
        print("\n".join(missing))
        return 1 if missing else 0

    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    runners = [Runner(options.runner, tf, tuning) for tuning in TIERS]
    totals = collections.Counter()

    def report(op, n, wrong, texts):
        totals["cases"] += n
        totals["wrong"] += len(wrong)
        totals["ops"] += 1
        totals["wrong ops"] += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} {op}: {n - len(wrong)} of {n}", flush=True)
        for line in wrong[: options.most]:
            print("     ", line)
        if options.texts:
            for a, b in sorted(set(texts))[: options.most]:
                print(f"      words: {b!r}\n         TF: {a!r}")

    for s in specs:
        if re.fullmatch(options.only or ".*", s.op):
            try:
                check_op(tf, runners, s, report)
            except Exception as e:  # an error in one specification must not hide the others
                report(s.op, 1, [f"the specification fails: {type(e).__name__}: {e}"], [])
    print(f"{totals['cases'] - totals['wrong']} of {totals['cases']} cases agree, "
          f"{totals['ops'] - totals['wrong ops']} of {totals['ops']} ops wholly")
    return 1 if totals["wrong"] or not totals["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
