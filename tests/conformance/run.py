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
# Makes TensorFlow use Eigen's kernels, whose arithmetic is the reference. A child of this program that checks ops which
# only oneDNN's kernels compute has this variable set.
ONEDNN = os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0") == "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

STARTED_IN = os.getcwd()
# GPU kernels may round differently from CPU kernels, so their results are compared only with TensorFlow's.
ON_GPU = os.environ.get("SLIPWAY_TEST_ACCELERATOR") == "gpu"

import numpy as np  # noqa: E402

import coverage  # noqa: E402
import recording  # noqa: E402
import spec as spec_module  # noqa: E402
from child import Child, Refusal, enter_own_directory, packed, plain_text, same_bits  # noqa: E402
from comparing import compare_arrays  # noqa: E402
from spec import Const, Graph  # noqa: E402


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


class Runner(Child):
    def __init__(self, path, tf, tuning=()):
        super().__init__(path, tuning)
        self.tf = tf

    def dtype(self, number):
        """Maps a quantised type to the plain integer type that TensorFlow's session returns for it."""
        found = np.dtype(self.tf.as_dtype(number).as_numpy_dtype)
        return found[0] if found.names else found

    def run(self, built):
        return self.guarded([lambda step=step: self.step(built, step) for step in built.steps])

    def step(self, built, step, is_load=False):
        n_fetches = sum(isinstance(f, self.tf.Tensor) for f in step)
        return self.command(encode_run(self.tf, built, step, is_load), n_fetches)


def encode(tf, value):
    number = 7 if value.dtype == object else tf.as_dtype(value.dtype).as_datatype_enum
    head = struct.pack(f"<ii{value.ndim}q", number, value.ndim, *value.shape)
    if number == 7:
        return head + b"".join(packed(s if isinstance(s, bytes) else s.encode()) for s in value.flat)
    return head + np.ascontiguousarray(value).tobytes()


def encode_run(tf, built, step, is_load=False):
    """Returns the command for op_runner that runs a step of a case."""
    fetches = [f.name for f in step if isinstance(f, tf.Tensor)]
    targets = [f.name if isinstance(f, tf.Operation) else f for f in step if not isinstance(f, tf.Tensor)]
    out = [b"I" if is_load else b"R", struct.pack("<iii", len(built.feeds), len(fetches), len(targets))]
    for p, value in built.feeds:
        out += [packed(p.name.encode()), encode(tf, value)]
    return b"".join(out + [packed(n.encode()) for n in fetches + targets])


UNIMPLEMENTED = 12

# ---- comparing ------------------------------------------------------------------------------


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


def different_texts(theirs, ours):
    for a, b in zip(theirs, ours):
        if isinstance(a, Refusal) and isinstance(b, Refusal) and a.text not in b.text:
            yield a.text, b.text


# ---- all of it ------------------------------------------------------------------------------


CASES_PER_GRAPH = 200  # number of cases per graph, because a session holds a limited number of plans


# op_runner's arguments for the two tiers. The first tier runs node by node, and the second runs compiled plans. The
# results of a single node must be bit-identical in both tiers.
TIERS = (("no_autotune", "no_specialise"), ("no_autotune",))


def session_config(tf):
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def check_op(tf, runners, spec, least, report):
    """Checks the cases of a specification, and those with other random numbers until there are `least` cases."""
    wrong, texts, n, seed, is_random = [], [], 0, 0, True
    while seed == 0 or (n < least and is_random):
        cases, is_random = spec.draw(seed)
        if seed:
            cases = cases[: least - n]
        for first in range(0, len(cases), CASES_PER_GRAPH):
            check_cases(tf, runners, cases[first : first + CASES_PER_GRAPH], wrong, texts)
        n += len(cases)
        seed += 1
    report(spec.op, n, wrong, texts)


def check_cases(tf, runners, cases, wrong, texts):
    graph = tf.Graph()
    with graph.as_default():
        built = [build_case(tf, case, i) for i, case in enumerate(cases)]
        refusal = [runner.load(graph.as_graph_def().SerializeToString()) for runner in runners][0]
        if refusal:
            wrong += [f"graph: {refusal}"] * len(cases)
            return
        with tf.compat.v1.Session(graph=graph, config=session_config(tf)) as session:
            for b in built:
                theirs = run_theirs(tf, session, b)
                ours, compiled = (runner.run(b) for runner in runners)
                problem = compare(b.case, theirs, ours)
                if not problem and (b.case.check or ON_GPU):
                    problem = compare(b.case, theirs, compiled)
                    problem = problem and f"compiled: {problem}"
                elif not problem and not all(map(same_bits, ours, compiled)):
                    problem = f"compiled: {compare(b.case, theirs, compiled) or 'other bits'}"
                if problem:
                    wrong.append(f"{b.case}: {problem}")
                texts += different_texts(theirs, ours)


def record_op(tf, spec, recorder):
    graph = tf.Graph()
    with graph.as_default():
        built = [build_case(tf, case, i) for i, case in enumerate(recording.chosen(list(spec.cases()), spec.op))]
        with tf.compat.v1.Session(graph=graph, config=session_config(tf)) as session:
            answered = [(b, run_theirs(tf, session, b)) for b in built]
    recorder.add(graph.as_graph_def().SerializeToString(), answered)


def record_families(tf, families):
    onednn = []
    for family in families:
        del spec_module.SPECS[:]
        load_family(family)
        onednn += [spec for spec in spec_module.SPECS if spec.onednn]
        recorder = recording.Recorder(lambda x: encode(tf, x), lambda built, step: encode_run(tf, built, step))
        for spec in spec_module.SPECS:
            if spec.onednn == ONEDNN:
                record_op(tf, spec, recorder)
        recorder.keep(family, {spec.op for spec in spec_module.SPECS if spec.onednn != ONEDNN})
        recorder.write(family)
    return run_with_onednn(onednn)


def run_with_onednn(specs):
    """Runs this program again for the specifications that need TensorFlow's oneDNN kernels. Returns the exit status. A
    process cannot use both kinds of kernels."""
    if ONEDNN or not any(s.onednn for s in specs):
        return 0
    command = [sys.executable, *sys.argv]
    return subprocess.run(command, env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}, cwd=STARTED_IN).returncode


def load_family(name):
    """Loads a family of specifications by path, because a family may have the name of a Python module, for example
    math."""
    found = importlib.util.spec_from_file_location(f"specs_{name.replace('/', '_')}", HERE / "specs" / f"{name}.py")
    found.loader.exec_module(importlib.util.module_from_spec(found))


def all_families():
    """Returns the families of specs/. Those of specs/text need tensorflow-text, and are left out if it is missing."""
    families = sorted(p.relative_to(HERE / "specs").with_suffix("").as_posix() for p in (HERE / "specs").rglob("*.py"))
    if importlib.util.find_spec("tensorflow_text"):
        return families
    print("tensorflow-text is not installed, so the families of specs/text are left out")
    return [family for family in families if not family.startswith("text/")]


def changed_families(families, commit):
    """Returns the families that have changed since a commit, or that specify an op which a changed kernel names. A change of
    the runtime, or of a file of kernels that names no op, may change them all."""
    diff = subprocess.run(["git", "diff", "--name-only", commit], cwd=ROOT, capture_output=True, text=True, check=True)
    changed, ops = set(diff.stdout.split()), {}
    for family in families:
        del spec_module.SPECS[:]
        load_family(family)
        ops[family] = {s.op for s in spec_module.SPECS}
    del spec_module.SPECS[:]
    found = {family for family in families if f"tests/conformance/specs/{family}.py" in changed}
    everything = set().union(*ops.values())
    for name in changed:
        if name.startswith(("runtime/", "kernels/")) and name.endswith((".c", ".h", ".inc")) and name != "kernels/table.inc":
            path = ROOT / name
            named = set(re.findall(r'"([\w>]+)"', path.read_text())) & everything if path.exists() else set()
            if name.startswith("runtime/") or not named:
                return families
            found |= {family for family in families if ops[family] & named}
    return sorted(found)


def listed_ops():
    text = (ROOT / "kernels" / "table.inc").read_text()
    return re.findall(r"^KN_OP\((\w+)\)", text, re.M)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="files of specs/, all by default")
    parser.add_argument("--only", default="", help="ops whose name matches this expression as a whole")
    parser.add_argument("--changed", metavar="COMMIT", help="only families whose files or kernels differ from those of a commit")
    parser.add_argument("--least", type=int, default=200, help="cases of each op, by further seeds if it has fewer")
    parser.add_argument("--runner", default=str(ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--texts", action="store_true", help="list refusals with other words")
    parser.add_argument("--coverage", action="store_true", help="report which ops of TensorFlow there are, and end")
    parser.add_argument("--record", action="store_true", help="write cases with TensorFlow's answers to recorded/, and end")
    parser.add_argument("--most", type=int, default=3, help="failing cases shown per op")
    options = parser.parse_args()
    options.runner = os.path.abspath(options.runner)
    enter_own_directory()

    families = options.families or all_families()
    if options.changed:
        families = changed_families(families, options.changed)
        print("families that differ:", *families or ["none"])
        if not families:
            return 0
    if options.record:
        import tensorflow as tf

        tf.compat.v1.disable_eager_execution()
        return record_families(tf, families)
    for family in families:
        load_family(family)
    specs = spec_module.SPECS

    if options.coverage:
        snake = lambda s: re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", s).lower()
        known = {re.sub(r"\W|_", "", snake(s.op)) for s in specs}
        missing = [op for op in listed_ops() if op.replace("_", "") not in known]
        coverage.report()
        print("\nops of kernels/table.inc without a specification:", *missing or ["none"])
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

    specs = [s for s in specs if re.fullmatch(options.only or ".*", s.op)]
    for s in (s for s in specs if s.onednn == ONEDNN):
        try:
            check_op(tf, runners, s, options.least, report)
        except Exception as e:  # an error in one specification must not hide the others
            report(s.op, 1, [f"the specification fails: {type(e).__name__}: {e}"], [])
    print(f"{totals['cases'] - totals['wrong']} of {totals['cases']} cases agree, "
          f"{totals['ops'] - totals['wrong ops']} of {totals['ops']} ops wholly")
    failed = run_with_onednn(specs)
    no_case = not totals["cases"] and not any(s.onednn for s in specs)
    return 1 if totals["wrong"] or no_case or failed else 0


if __name__ == "__main__":
    sys.exit(main())
