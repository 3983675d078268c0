#!/usr/bin/env python3
"""Checks that Slipway accepts exactly the inputs that TensorFlow accepts. See README.md.

The seeds of a specification are the first few cases that TensorFlow accepts. Each input of a seed is replaced by
other inputs of the same type. Small tensors become scalars, vectors and matrices of zero, one and two elements. Integers
become the limits of their range, and floats become NaN and infinities. Shapes get a zero, lose their first
dimension, get one more dimension, or get an enormous dimension beside a zero. Each replacement is fed and, if it is
small, also used as a constant, in both tiers of Slipway. TensorFlow runs in a child process, because some of these
inputs crash it.
"""

import argparse
import collections
import math
import os
import pickle
import re
import resource
import select
import signal
import struct
import sys
import time

import run
import spec as spec_module
from run import Refusal
from spec import Case, Const, Graph, np

SCANNED = 40  # The seeds of a specification are chosen from at most this number of cases.
# Factor by which the number of seeds is multiplied for cases that have their own graphs, because these graphs differ.
SEEDS_OF_GRAPHS = 4
GRAPHS_PER_SESSION = 20  # A session holds a limited number of plans, and one graph may need eleven.
TIME_LIMIT_S = 20
MEMORY = 1 << 30  # number of bytes that a process may use in addition to its size at start-up
DIED = "ended the process"


# ---- mutations ------------------------------------------------------------------------------


def value_of(x):
    return np.asarray(x.value if isinstance(x, Const) else x)


def filled(shape, like):
    """Returns an array of the given shape whose elements all equal the first element of `like`."""
    first = like.reshape(-1)[:1]
    out = np.empty(shape, like.dtype)
    if out.size:
        out[...] = first[0] if first.size else (b"" if like.dtype == object else np.zeros((), like.dtype))
    return out


def replaced(x, at, value):
    out = np.array(x)
    out.reshape(-1)[at] = value
    return out


def mutations(x):
    """Yields the replacements for the input x, each as (description, array)."""
    x = value_of(x)
    if x.size <= 2:
        for shape in ((), (1,), (0,), (1, 1), (2,), (0, 0)):
            if shape != x.shape:
                yield f"shape {list(shape)}", filled(shape, x)
    if 0 < x.size <= 8 and x.dtype.kind in "iu" and x.dtype != bool:
        info = np.iinfo(x.dtype)
        for at in {0, x.size - 1}:
            for v in (info.min, info.min + 1, -1, 0, 1, info.max, 2**40, -(2**40), 2**31 - 1, 2**62):
                if info.min <= v <= info.max and x.reshape(-1)[at] != v:
                    yield f"element {at} = {v}", replaced(x, at, v)
    if 0 < x.size <= 8 and x.dtype.kind == "f":
        for v in (np.nan, np.inf, -np.inf, -1, 0, 1e30):
            with np.errstate(over="ignore"):
                yield f"element 0 = {v}", replaced(x, 0, v)
    for d in range(x.ndim):
        if x.shape[d] and x.size > 2:
            yield f"dimension {d} = 0", x[tuple(slice(0, 0) if i == d else slice(None) for i in range(x.ndim))]
    if x.ndim and x.size > 2:
        yield "one dimension less", x[0]
    if x.ndim < 8 and x.size > 2:
        yield "one dimension more", x[np.newaxis]
    if x.ndim >= 1 and x.dtype != object:
        room = 62 - (x.dtype.itemsize - 1).bit_length()
        for zero in range(x.ndim):
            each = 2 ** (room // max(1, x.ndim - 1))
            shape = [0 if i == zero else each for i in range(x.ndim)]
            yield f"shape {shape}", np.zeros(shape, x.dtype)
            for big in range(x.ndim):
                if big != zero:
                    shape = [1] * x.ndim
                    shape[zero], shape[big] = 0, 2**56
                    yield f"shape {shape}", np.zeros(shape, x.dtype)


def with_input(case, at, part, value):
    """Returns the case with one input replaced. `part` is the index in a list argument, or None."""
    if isinstance(case, Graph):
        out = Graph(case.build, *[value if i == at else f for i, f in enumerate(case.feeds)], name=case.name, check=case.check)
    else:
        inputs = list(case.inputs)
        if part is None:
            inputs[at] = value
        else:
            inputs[at] = [value if i == part else v for i, v in enumerate(inputs[at])]
        out = Case(*inputs, outputs=case.outputs, check=case.check, **case.attrs)
    out.op, out.tolerance = case.op, case.tolerance
    return out


def places(case):
    for at, x in enumerate(case.feeds if isinstance(case, Graph) else case.inputs):
        if isinstance(x, (list, tuple)) and not isinstance(case, Graph):
            yield from ((at, part, v) for part, v in enumerate(x[:2]))
        else:
            yield at, None, x


def x_dtype(x):
    return value_of(x).dtype


def mutants(case):
    """Yields (description, fed, constant) for each replacement of an input. `fed` is the case in which the replacement is
    fed. `constant` is the case in which the replacement is a constant, or None if the replacement is too large."""
    for at, part, x in places(case):
        for name, value in mutations(x):
            where = f"input {at}" + ("" if part is None else f"[{part}]")
            value = np.asarray(value, x_dtype(x))
            fed = with_input(case, at, part, value)
            const = None
            if value.size <= 64 and value.nbytes <= 4096 and max(value.shape, default=0) < 2**31:
                const = with_input(case, at, part, Const(value))
            yield f"{where}: {name}", fed, const


def signature(case):
    """Returns a key made of a case's types, ranks, name and attributes. No two seeds have the same key."""
    parts = [(str(value_of(v).dtype), value_of(v).ndim) for _, _, v in places(case)]
    return repr((parts, getattr(case, "name", ""), sorted(getattr(case, "attrs", {}).items(), key=str)))


def limit_memory(present, more=MEMORY):
    """Limits the memory of the calling process, so that allocations for dimensions such as 2^31 are refused. Both
    TensorFlow's process and Slipway's call this function."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (present + more, hard))


def limit_own_memory(more=MEMORY):
    with open("/proc/self/statm") as f:
        limit_memory(int(f.read().split()[0]) * resource.getpagesize(), more)


def raise_memory():
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


class Runner(run.Runner):
    """An op_runner with a memory limit. AddressSanitizer reserves terabytes of address space, so an ASan build
    limits only the memory of each run."""

    def start(self):
        is_asan = "asan" in self.path
        limit = raise_memory if is_asan else lambda: limit_memory(64 << 20)
        more = [f"memory_mb={MEMORY >> 20}"] if is_asan else []
        self.child = run.subprocess.Popen([self.path, *self.tuning, *more], stdin=-1, stdout=-1, preexec_fn=limit)
        if self.graph is not None:
            return self.send_graph()

    def decode(self):
        """Reads a tensor from the runner and drops its data, because an accepted tensor may be as large as the runner's
        memory limit."""
        dtype, rank = struct.unpack("<ii", self.read(8))
        n = math.prod(struct.unpack(f"<{rank}q", self.read(8 * rank)))
        if dtype == 7:
            for _ in range(n):
                self.text()
        elif dtype not in (20, 21):
            left = n * np.dtype(self.tf.as_dtype(dtype).as_numpy_dtype).itemsize
            while left:
                left -= len(self.read(min(left, 1 << 20)))
        return True


# ---- TensorFlow in a child --------------------------------------------------------------------


def child_runs(tf, cases, first, pipe):
    """Runs in the child process. Writes the results of the cases to `pipe`, one case after another, and crashes if
    TensorFlow crashes."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_own_memory()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    graph, built = tf.Graph(), []
    last = min(len(cases), first + run.CASES_PER_GRAPH)
    with graph.as_default():
        for i in range(first, last):
            try:
                built.append(run.build_case(tf, cases[i], i))
            except (ValueError, TypeError, OverflowError, tf.errors.OpError):
                # TensorFlow's graph builder refused the case, which reveals nothing about the kernel.
                built.append(None)
        with tf.compat.v1.Session(graph=graph, config=session_config(tf)) as session:
            for b in built:
                try:
                    answer = b and run.run_theirs(tf, session, b)
                except (ValueError, TypeError, MemoryError, OverflowError, RuntimeError):
                    answer = None
                data = pickle.dumps([a if isinstance(a, Refusal) else True for a in answer] if answer else None)
                os.write(pipe, struct.pack("<q", len(data)))
                while data:
                    data = data[os.write(pipe, data) :]
    os._exit(0)


def session_config(tf):
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def read_exactly(fd, n, until):
    data = b""
    while len(data) < n:
        if not select.select([fd], [], [], max(0, until - time.monotonic()))[0]:
            return None
        more = os.read(fd, n - len(data))
        if not more:
            return None
        data += more
    return data


def theirs_of(tf, cases):
    """Returns TensorFlow's results, one per case. A result is a list with a Refusal or True for each step. If TensorFlow's
    process died, the result is DIED. If the result is unknown, it is None."""
    answers = []
    while len(answers) < len(cases):
        first = len(answers)
        r, w = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(r)
            try:
                child_runs(tf, cases, first, w)
            finally:
                os._exit(1)
        os.close(w)
        while len(answers) < len(cases):
            until = time.monotonic() + TIME_LIMIT_S
            head = read_exactly(r, 8, until)
            body = head and read_exactly(r, struct.unpack("<q", head)[0], until)
            if not body:
                late = time.monotonic() >= until
                os.kill(pid, signal.SIGKILL)
                if len(answers) < first + run.CASES_PER_GRAPH:
                    answers.append(None if late else DIED)
                break
            answers.append(pickle.loads(body))
        os.close(r)
        os.waitpid(pid, 0)
    return answers


# ---- ours -----------------------------------------------------------------------------------


def ours_of(tf, runner, cases):
    """Returns Slipway's results, one list of steps per case, or None for a case that TensorFlow's own graph builder
    refuses."""
    if not cases:
        return []
    graph = tf.Graph()
    built = []
    with graph.as_default():
        for i, case in enumerate(cases):
            try:
                built.append(run.build_case(tf, case, i))
            except (ValueError, TypeError, OverflowError, tf.errors.OpError):
                built.append(None)
        refusal = runner.load(graph.as_graph_def().SerializeToString())
    # At least one of the cases was refused at loading. Each half of the cases is loaded separately, to find the refused
    # cases.
    if refusal and len(cases) > 1:
        half = len(cases) // 2
        return ours_of(tf, runner, cases[:half]) + ours_of(tf, runner, cases[half:])
    if refusal:
        return [[refusal]]
    return [b and [s if isinstance(s, Refusal) else True for s in runner.run(b)] for b in built]


def verdict(answer):
    if answer == DIED or answer is None:
        return answer
    refused = next((a for a in answer if isinstance(a, Refusal)), None)
    return refused or "accepted"


def disagreement(theirs, ours):
    """Returns a description of how Slipway's and TensorFlow's results disagree, or None if they agree."""
    if isinstance(ours, Refusal) and ours.code == -1:
        return f"we died; TensorFlow {theirs}: {ours}"
    if theirs in (None, DIED) or ours is None:
        return None
    if isinstance(theirs, Refusal) and theirs.code == run.UNIMPLEMENTED:
        return None
    if isinstance(theirs, Refusal) != isinstance(ours, Refusal):
        return f"we {ours}; TensorFlow {theirs}"
    return None


# Cases in which Slipway deliberately differs from TensorFlow, each as (op, replaced input, reason).
KNOWN = (
    ("ArgMax|ArgMin", "input 1: element .*", "TensorFlow casts an int64 dimension to int32 before it looks at it"),
    (".*Conv.*", "input 1: dimension . = 0", "filters without rows: refused as with oneDNN, TensorFlow's default; not without it"),
    ("RaggedTensorTo.*", r"input \d\[\d\]: shape .*", "partitions that are no vectors: TensorFlow counts rows by the first dimension, of a "
     "scalar by what lies behind its shape"),
    ("StringNGrams", "input 1: element 0 = .*", "TensorFlow casts the first split to int32 before it compares it with 0"),
    ("ResourceScatter.*", "input 2: dimension 1 = 0", "TensorFlow compares only the indices' part, and reads beyond the updates"),
    ("Stateless.*", r"input 2: shape \[1\]", "a counter of one element: TensorFlow reads beyond it"),
    (".*", r".*shape \[.*\d{5}.*", "enormous shapes: its kernels count in 32 bits, ours size scratch; both must live"),
)


def is_known(op, text):
    return any(re.fullmatch(ops, op) and re.fullmatch(texts, text) for ops, texts, _ in KNOWN)


def check_op(tf, runners, spec, n_seeds, alone):
    seeds, seen, named = [], set(), collections.Counter()
    cases = []
    for case in spec.cases():
        if len(cases) >= SCANNED:
            break
        if any(value_of(v).size > 4096 for _, _, v in places(case)) or signature(case) in seen:
            continue
        seen.add(signature(case))
        cases.append(case)
    for case, answer in zip(cases, ours_of(tf, runners[0], cases) if alone else theirs_of(tf, cases)):
        name = getattr(case, "name", "")
        most = n_seeds * (SEEDS_OF_GRAPHS if isinstance(case, Graph) else 1)
        if answer and answer != DIED and verdict(answer) == "accepted" and len(seeds) < most and named[name] < n_seeds:
            seeds.append(case)
            named[name] += 1
    wanted, told = [], set()
    for seed in seeds:
        for text, fed, const in mutants(seed):
            key = (text, signature(fed))
            if key not in told:
                told.add(key)
                wanted.append((text, fed, const))
    fed = [w[1] for w in wanted]
    theirs = [None] * len(fed) if alone else list(map(verdict, theirs_of(tf, fed)))
    wrong = collections.defaultdict(list)

    def judge(text, how, case, a, b):
        problem = disagreement(a, verdict(b))
        if problem and ("we died" in problem or not is_known(spec.op, text)):
            wrong[text, re.sub("[0-9]+", "#", problem)].append(f"{how}: {case}: {problem}")

    # An input that TensorFlow's kernel refuses must also be refused as a constant, either in the run or when the graph
    # is loaded.
    consts = [(text, const, a) for (text, _, const), a in zip(wanted, theirs) if const is not None]
    asked = [(text, case, a, "fed") for (text, case, _), a in zip(wanted, theirs)] + [(*c, "constant") for c in consts]
    per_session = GRAPHS_PER_SESSION if any(isinstance(a[1], Graph) for a in asked) else run.CASES_PER_GRAPH
    for tier, runner in zip(("node by node", "compiled"), runners):
        for first in range(0, len(asked), per_session):
            part = asked[first : first + per_session]
            for (text, case, a, how), b in zip(part, ours_of(tf, runner, [p[1] for p in part])):
                judge(text, f"{how}, {tier}", case, a, b)
    died = sum(t == DIED for t in theirs)
    return len(wanted), died, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="files of specs/, all by default")
    parser.add_argument("--only", default="", help="ops whose name matches this expression as a whole")
    parser.add_argument("--runner", default=str(run.ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--seeds", type=int, default=2, help="cases per op whose inputs are replaced")
    parser.add_argument("--alone", action="store_true", help="without TensorFlow: that nothing ends our process")
    parser.add_argument("--most", type=int, default=20, help="kinds of difference shown per op")
    options = parser.parse_args()
    options.runner = os.path.abspath(options.runner)
    run.enter_own_directory()
    for family in options.families or sorted(p.stem for p in (run.HERE / "specs").glob("*.py")):
        run.load_family(family)

    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    limit_own_memory(3 * MEMORY)
    runners = [Runner(options.runner, tf, tuning) for tuning in run.TIERS]
    totals = collections.Counter()
    for s in spec_module.SPECS:
        if s.onednn or not re.fullmatch(options.only or ".*", s.op):
            continue
        n, died, wrong = check_op(tf, runners, s, options.seeds, options.alone)
        totals["cases"] += n
        totals["wrong"] += len(wrong)
        totals["died"] += died
        print(f"{'FAIL' if wrong else 'ok  '} {s.op}: {n} inputs, {len(wrong)} differences, TensorFlow died of {died}", flush=True)
        for (text, _), found in list(wrong.items())[: options.most]:
            print(f"      {text} ({len(found)}), {found[0]}"[:600].replace("\n", " "))
    print(f"{totals['cases']} inputs, {totals['wrong']} differences; TensorFlow died of {totals['died']}")
    return 1 if totals["wrong"] or not totals["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
