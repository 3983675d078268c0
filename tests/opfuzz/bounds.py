#!/usr/bin/env python3
"""Checks that every op's work is bounded by the size of its data, and that each run ends soon after its deadline.

    bounds.py [BUILD] [--kind empty|large|wide|many|square|value|memory|both] [--only 'Op|Op'] [--part K/N] [--seconds N] [--seed N]

Seven kinds of cases are made from the seeds. Each case runs node by node in op_runner.

  empty  Tensors have no elements, and their other dimensions are enormous. Integers (values and attributes) are also
         enormous. The op must return or refuse immediately. A run that reaches its deadline has looped over elements that
         do not exist, unless it used hardly any CPU time because it waited.
  large  Inputs are repeated until an op has tens of megabytes to work on. The deadline passes during the run, which must
         then end soon. The time is CPU time, so a busy machine does not matter.
  wide   The inputs that share a dimension are repeated along it together, until the largest input has hundreds of
         megabytes. An op on channels then has millions of channels. The CPU time between two checks of the deadline
         must stay within 30 ms.
  many   Lists have a thousand inputs. Each input is too small for the op to check the deadline while it works on that
         input. The run must end within the limit of `large`.
  square Two adjacent dimensions of each matrix are equal and large, and windows are large. An op whose work grows faster
         than its inputs then has seconds of work. Decompositions also get matrices that are almost triangular. The CPU
         time between two checks of the deadline must stay within the limit of `large`.
  value  Small integers (values and attributes) become large. An output or a loop whose size is given by a value is then
         much larger than the inputs. The CPU time between two checks of the deadline must stay within 30 ms, which is
         less than a fill of a gigabyte takes.
  memory Like `large`, with less data and without an early deadline. The process must not grow beyond the memory limit of
         the run.

A case that has no result after ten times the allowed time also fails. Prints each failure; the last line is "N
passed, M failed", and the exit status is 1 if any case failed.
"""

import argparse
import collections
import fcntl
import itertools
import pathlib
import random
import re
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import ours  # noqa: E402
import schema  # noqa: E402
from case import STRING, Tensor, count, load, NUMBERS, pack_one  # noqa: E402
from seed_rows import CASES  # noqa: E402

# Limit on the wall time of a case on a busy machine, including the time to send tens of megabytes to the child process.
ours.TIMES_OUT_S = 30
DEADLINE_EXCEEDED = 4
EMPTY_DEADLINE_MS = 1500  # deadline of a run, far longer than any op on empty tensors needs
LARGE_DEADLINE_MS = 30
SQUARE_DEADLINE_MS = 300
LARGE_MB = 64  # size in megabytes of each repeated input in cases of kind `large`
WIDE_MB, WIDE_DEADLINE_MS = 256, 600  # size in megabytes of the largest input in cases of kind `wide`
MANY, MANY_ELEMENTS = 1000, 20000  # number of inputs in a list, and number of elements of each input
SQUARE_MB = 64  # size in megabytes of each matrix in cases of kind `square`
DECOMPOSITIONS = ("Eig", "MatrixLogarithm", "MatrixSquareRoot", "Qr", "SelfAdjointEigV2", "Svd")
WINDOW = 200  # size of a pooling window in cases of kind `square`
MEMORY_MB = 16  # size in megabytes of each repeated input in cases of kind `memory`
# Memory limits of runs in cases of kind `memory`. Large outputs exceed the first limit, and many small allocations
# exceed the second.
MEMORY_LIMITS_MB = (24, 96)
MEMORY_DEADLINE_MS = 4000
# Limit in milliseconds on the CPU time of a run after its deadline, and between two of its deadline checks. A run that
# never checks its deadline exceeds the limit.
LATE_MS = 100
TRIES, TRY_AGAIN_S = 5, 0.5  # number of runs of a case that is late, and pause before each further run
HUGE = (1 << 40, 1 << 31, (1 << 62) - 1, 1 << 20)
# Integers in cases of kind `value`. An output takes about a gigabyte if it has three dimensions of the first size, two
# dimensions of the second size, or one dimension of the last size.
VALUES = (1 << 9, 1 << 14, 1 << 24, 1 << 28)
VALUE_DEADLINE_MS, VALUE_LATE_MS = 100, 30
MOST_SQUARES = 27  # maximum number of combinations of dimensions per seed in cases of kind `square`
# Names of the fed tensors that are a number of rounds. TensorFlow also works through all rounds: 2^20 retries on three
# points take it 0.84 s, and 2^30 retries take it a thousand times as long.
ROUNDS = {"KmeansPlusPlusInitialization": ("n3",)}
# CPU time in milliseconds of a run that only waited until its deadline, for example to take from an empty queue.
WAITING_MS = 100
FLOATS = {NUMBERS[n] for n in ("float32", "float64", "complex64", "complex128", "half", "bfloat16")}
INTEGERS = {NUMBERS[n] for n in ("int32", "int64")}


def empty_tensor(t, shape):
    return Tensor(t.dtype, shape, [] if t.dtype == STRING else b"")


def shapes_without_elements(shape):
    """Yields shapes in which each dimension in turn is zero, and in which either one or all of the other dimensions are
    enormous."""
    n = len(shape)
    for zero in range(n):
        for huge in ((1 << 40), 3 << 20):
            out = [huge if sum(i != zero for i in range(n)) == 1 or i == (0 if zero else 1) else min(shape[i], 4) or 1 for i in range(n)]
            out[zero] = 0
            yield tuple(out)


def tensors_of(case):
    """Yields the tensors that may be changed: fed tensors by name, and tensors of constants by node index."""
    for name, t in case.feeds.items():
        yield ("feed", name, t)
    for i, node in enumerate(case.nodes):
        if node.op == "Const" and isinstance(node.attrs.get("value", [None, None])[1], Tensor):
            yield ("const", i, node.attrs["value"][1])


def replaced(case, changes):
    out = case.copy()
    for (kind, key), t in changes.items():
        if kind == "feed":
            out.feeds[key] = t
        else:
            out.nodes[key].attrs["value"] = ["tensor", t]
    return out


def empty_cases(case):
    """Yields cases with empty tensors. First, all inputs of the same rank become empty. Then each of these inputs
    becomes empty alone."""
    places = [((kind, key), t) for kind, key, t in tensors_of(case)]
    ranks = collections.defaultdict(list)
    for place, t in places:
        if t.shape:
            ranks[len(t.shape)].append((place, t))
    for rank, members in ranks.items():
        groups = [members] + ([[m] for m in members] if len(members) > 1 else [])
        for group in groups:
            for shape in shapes_without_elements(group[0][1].shape):
                yield replaced(case, {place: empty_tensor(t, shape) for place, t in group})
    if len(ranks) > 1:  # changes all inputs together, so that the first or the last dimension of each is zero
        for zero in (0, -1):
            changes = {}
            for place, t in places:
                if t.shape:
                    shape = [1 << 40 if i in (0, len(t.shape) - 1) else 2 for i in range(len(t.shape))]
                    shape[zero] = 0
                    changes[place] = empty_tensor(t, tuple(shape))
            yield replaced(case, changes)


def huge_cases(case):
    for kind, key, t in tensors_of(case):
        if t.dtype not in INTEGERS or len(t.data) > 8 * 8 or key in ROUNDS.get(case.op, ()):
            continue
        size = 4 if t.dtype == NUMBERS["int32"] else 8
        for at in range(0, len(t.data), size):
            for huge in HUGE[:3] if size == 8 else ((1 << 31) - 1, 1 << 24):
                yield replaced(case, {(kind, key): Tensor(t.dtype, t.shape, t.data[:at] + pack_one(t.dtype, huge) + t.data[at + size:])})
    for i, node in enumerate(case.nodes):
        if node.op != case.op:
            continue
        for name, (kind, value) in node.attrs.items():
            if kind == "i" or kind == "list:i":
                for huge in HUGE:
                    values = [huge] if kind == "i" else [[huge if j == k else v for j, v in enumerate(value)] for k in range(len(value))]
                    for v in values:
                        out = case.copy()
                        out.nodes[i].attrs[name] = [kind, v]
                        yield out


class Repeated(Tensor):
    """A tensor repeated `times` times along one of its dimensions. Its bytes are made only when they are sent."""

    def __init__(self, t, axis, times):
        axis %= len(t.shape)
        super().__init__(t.dtype, t.shape[:axis] + (t.shape[axis] * times,) + t.shape[axis + 1:], b"")
        self.of, self.axis, self.times = t, axis, times

    def __str__(self):
        return f"{self.of} repeated {self.times} times along dimension {self.axis}"

    def raw(self):
        rows = count(self.of.shape[:self.axis])
        elements = [struct.pack("<q", len(e)) + e for e in self.of.data] if self.dtype == STRING else self.of.data
        n = len(elements) // rows
        parts = [elements[i * n:(i + 1) * n] for i in range(rows)]
        head = struct.pack(f"<ii{len(self.shape)}q", self.dtype, len(self.shape), *self.shape)
        return head + b"".join((b"".join(p) if self.dtype == STRING else p) * self.times for p in parts)


def repeated(t, axis, megabytes):
    n = count(t.shape)
    # In memory, each short string takes 24 bytes.
    size = 24 * n + sum(map(len, t.data)) if t.dtype == STRING else len(t.data)
    return Repeated(t, axis, max(2, (megabytes << 20) // size))


def large_cases(case, megabytes):
    """Yields cases in which inputs are repeated along their first or last dimension. Either all inputs are repeated in
    the same way, or only one input is repeated."""
    fed = [(name, t) for name, t in case.feeds.items() if t.shape and t.data]
    for axis in (0, -1):
        for group in [fed] + ([[f] for f in fed] if len(fed) > 1 else []):
            out = case.copy()
            out.feeds.update((name, repeated(t, axis, megabytes)) for name, t in group)
            if group:
                yield out


def wide_cases(case, megabytes):
    """For each size of a dimension, yields cases in which all fed tensors with a dimension of this size are repeated
    along that dimension. The sizes therefore still agree."""
    fed = [(name, t) for name, t in case.feeds.items() if t.data]
    sizes = sorted({d for _, t in fed for d in t.shape})
    for size, last in itertools.product(sizes, (False, True)):
        members = [(name, t, [i for i, d in enumerate(t.shape) if d == size]) for name, t in fed if size in t.shape]
        if last and all(len(axes) == 1 for _, _, axes in members):
            continue
        times = min(repeated(t, 0, megabytes).times for _, t, _ in members)
        out = case.copy()
        out.feeds.update((name, Repeated(t, axes[-1 if last else 0], times)) for name, t, axes in members)
        yield out


class Square(Tensor):
    """A variant of tensor `t` in which dimensions `axis` and `axis + 1` have equal sizes, chosen so that the tensor has
    about `megabytes` MB. Its elements are drawn from those of `t`. Matrices of floating-point numbers get a large
    diagonal, because they should be positive definite. The bytes are made only when the tensor is sent."""

    def __init__(self, t, axis, megabytes):
        axis %= len(t.shape)
        self.side = int(((megabytes << 20) / (max(1, len(t.data)) / (t.shape[axis] * t.shape[axis + 1]))) ** 0.5)
        super().__init__(t.dtype, t.shape[:axis] + (self.side, self.side) + t.shape[axis + 2:], b"")
        self.of, self.axis = t, axis

    def __str__(self):
        return f"{self.of} squared along dimensions {self.axis} and {self.axis + 1}: {list(self.shape)}"

    def raw(self):
        size = len(self.of.data) // count(self.of.shape)
        draw = random.Random(1)
        elements = [self.of.data[i:i + size] for i in range(0, len(self.of.data), size)]
        row = b"".join(draw.choices(elements, k=count(self.shape[self.axis + 1:])))
        large = pack_one(self.dtype, self.side) if self.axis == len(self.shape) - 2 and self.dtype in FLOATS else None
        matrix = []
        for i in range(self.side):
            at = draw.randrange(len(row) // size) * size
            one = row[at:] + row[:at]
            matrix.append(one[:i * size] + large + one[(i + 1) * size:] if large else one)
        head = struct.pack(f"<ii{len(self.shape)}q", self.dtype, len(self.shape), *self.shape)
        return head + b"".join(matrix) * count(self.shape[:self.axis])


class Nilpotent(Square):
    """A square matrix of zeros, except for ones directly below the diagonal. A search for rows without elements beside the
    diagonal reads almost the whole matrix for each row."""

    def __str__(self):
        return f"{super().__str__()}, with ones only below the diagonal"

    def raw(self):
        one = pack_one(self.dtype, 1)
        row = bytes(len(one)) * (self.side - 1) + one + bytes(len(one)) * self.side
        at = [(self.side - i) * len(one) for i in range(self.side)]
        matrix = [row[i:i + self.side * len(one)] for i in at]
        head = struct.pack(f"<ii{len(self.shape)}q", self.dtype, len(self.shape), *self.shape)
        return head + b"".join(matrix) * count(self.shape[:self.axis])


def nilpotent_cases(case, megabytes):
    fed = {name: t for name, t in case.feeds.items() if len(t.shape) >= 2 and t.data and t.dtype in FLOATS}
    if case.op in DECOMPOSITIONS and len(fed) == 1:
        out = case.copy()
        out.feeds.update((name, Nilpotent(t, -2, megabytes)) for name, t in fed.items())
        yield out


def square_cases(case, megabytes):
    """Yields cases in which two adjacent dimensions of each fed tensor are large and equal, for several choices of the
    dimensions. If ops of the case have pooling windows, also yields each case with large windows."""
    fed = [(name, t) for name, t in case.feeds.items() if len(t.shape) >= 2 and t.data and t.dtype != STRING]
    choices = [sorted({0, len(t.shape) - 2} | ({1} if len(t.shape) > 2 else set())) for _, t in fed]
    for axes in itertools.islice(itertools.product(*choices), 0 if not fed else MOST_SQUARES):
        out = case.copy()
        out.feeds.update((name, Square(t, axis, megabytes)) for (name, t), axis in zip(fed, axes))
        yield out
        windows = [(n, a) for n in out.nodes for a in ("ksize", "ksizes") if a in n.attrs]
        if windows:
            out = out.copy()
            for n in out.nodes:
                for attr in ("ksize", "ksizes"):
                    if attr in n.attrs:
                        kind, value = n.attrs[attr]
                        n.attrs[attr] = [kind, [WINDOW if v > 1 else v for v in value]]
                if "padding" in n.attrs:
                    n.attrs["padding"] = ["s", b"SAME"]
            yield out


def value_cases(case):
    """Yields cases in which small integers are replaced by large ones. Each case replaces one element of a tensor, one
    whole tensor, all tensors, or one integer attribute. The cases with changed tensors are also made with each boolean
    attribute inverted, because such an attribute may decide whether an output is padded to a size given by a value."""
    places = [((kind, key), t) for kind, key, t in tensors_of(case) if t.dtype in INTEGERS and 0 < count(t.shape) <= 8]
    for large in reversed(VALUES):
        whole = {place: Tensor(t.dtype, t.shape, pack_one(t.dtype, large) * count(t.shape)) for place, t in places}
        changes = [whole] + ([{place: t} for place, t in whole.items()] if len(places) > 1 else [])
        for place, t in places:
            size = len(t.data) // count(t.shape)
            for at in range(0, len(t.data) if count(t.shape) > 1 else 0, size):
                changes.append({place: Tensor(t.dtype, t.shape, t.data[:at] + pack_one(t.dtype, large) + t.data[at + size:])})
        for change in changes if places else []:
            yield from (replaced(c, change) for c in with_inverted(case))
    for i, node in enumerate(case.nodes):
        for name, (kind, value) in node.attrs.items() if node.op == case.op else []:
            if kind == "i":
                for large in reversed(VALUES):
                    out = case.copy()
                    out.nodes[i].attrs[name] = [kind, large]
                    yield out


def with_inverted(case):
    """Yields the case and, for each boolean attribute of its op, a copy in which only that attribute is inverted."""
    yield case
    for i, node in enumerate(case.nodes):
        for name, (kind, value) in node.attrs.items() if node.op == case.op else []:
            if kind == "b":
                out = case.copy()
                out.nodes[i].attrs[name] = [kind, not value]
                yield out


def lists_of_inputs(node, row):
    """Yields (index of the first input of the list, number of inputs, name of the attribute that counts the inputs) for
    each list of inputs."""
    at = 0
    for arg in row.inputs:
        n, attr = 1, None
        if arg.number_attr >= 0:
            attr = row.attrs[arg.number_attr].name
            n = node.attrs[attr][1] if attr in node.attrs else 1
        elif arg.list_attr >= 0:
            attr = row.attrs[arg.list_attr].name
            n = len(node.attrs[attr][1]) if attr in node.attrs else 1
        if attr and n and at + n <= len(node.inputs):
            yield at, n, attr
        at += n


def many_cases(case, rows):
    """Yields cases in which a list of inputs is replaced by a thousand copies of its first member."""
    for i, node in enumerate(case.nodes):
        if node.op != case.op:
            continue
        for at, n, attr in lists_of_inputs(node, rows[node.op]):
            name = node.inputs[at].split(":")[0]
            t = case.feeds.get(name)
            if t is None or not t.shape or not count(t.shape):
                continue
            out = case.copy()
            out.feeds[name] = Repeated(t, -1, max(1, MANY_ELEMENTS // count(t.shape)))
            changed = out.nodes[i]
            changed.inputs = node.inputs[:at] + [node.inputs[at]] * MANY + node.inputs[at + n:]
            kind, value = node.attrs[attr]
            changed.attrs[attr] = [kind, MANY if kind == "i" else value[:1] * MANY]
            # StringFormat's template needs a placeholder for each input, and all elements must be printed.
            if node.op == "StringFormat":
                changed.attrs["template"] = ["s", node.attrs["placeholder"][1] * MANY]
                changed.attrs["summarize"] = ["i", -1]
            yield out


class Child(ours.Child):
    """An op_runner that runs node by node, with its own deadline and memory limit."""

    def __init__(self, path, deadline_ms, memory_mb, measures_memory):
        super().__init__(path, "node by node")
        self.arguments = ["no_autotune", "no_specialise", f"deadline_ms={deadline_ms}", f"memory_mb={memory_mb}"]
        self.arguments += ["measure_memory"] * measures_memory

    def start(self):
        super().start()
        fcntl.fcntl(self.process.stdin.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)

    def late_ms(self):
        """Returns the CPU time that the last run used after its deadline."""
        return self.number(b"D") / 1000

    def unchecked_ms(self):
        """Returns the longest CPU time, in milliseconds, for which the last run did not check its deadline."""
        return self.number(b"W") / 1000

    def used_ms(self):
        """Returns the CPU time that the process has used."""
        # The number of the clock is that of clock_getcpuclockid.
        return time.clock_gettime(~self.process.pid << 3 | 2) * 1000 if self.process else 0

    def grown_mb(self):
        """Returns the largest growth of the resident memory during the last run, in megabytes."""
        return self.number(b"M") / (1 << 20)

    def number(self, question):
        if self.process is None:
            return 0
        self.send(question)
        self.read(4)
        return int(self.text())


class Runner:
    def __init__(self, path, deadline_ms, memory_mb, measures_memory=False, measures_checks=False, late_limit_ms=LATE_MS):
        self.child = Child(path, deadline_ms, memory_mb, measures_memory)
        self.measures_checks, self.late_limit_ms = measures_checks, late_limit_ms
        self.memory_mb, self.measures_memory = memory_mb, measures_memory
        # Time in milliseconds by which the last case exceeded its deadline. If measures_checks is true, the longest time
        # for which the case did not check its deadline.
        self.late_ms = 0
        self.beyond_mb = 0  # megabytes by which the last case exceeded its memory limit

    def failure(self, case, is_empty):
        """Returns a description of the failure, or None."""
        self.late_ms = 0
        used_ms = self.child.used_ms()
        try:
            results = self.child.run(case)
            used_ms = self.child.used_ms() - used_ms
            self.late_ms = self.child.unchecked_ms() if self.measures_checks else self.child.late_ms()
        except ours.Died as e:
            return f"{e}"
        if self.measures_memory:
            self.beyond_mb = self.child.grown_mb() - self.memory_mb
            too_much = self.beyond_mb > 8 + self.memory_mb / 10
            return f"grew by {self.beyond_mb:.0f} MB more than its limit of {self.memory_mb} MB" if too_much else None
        last = results[-1] if results else None
        if is_empty and isinstance(last, ours.Refusal) and last.code == DEADLINE_EXCEEDED and used_ms > WAITING_MS:
            return "walks what is not there until the deadline"
        if not is_empty and self.late_ms > self.late_limit_ms:
            what = "did not check its deadline for {:.0f} ms" if self.measures_checks else "ended {:.0f} ms after its deadline"
            return what.format(self.late_ms)
        return None


def fed_copy(case):
    """Returns a copy of a case. If the case has no feeds, its constants are fed in the copy, because cases of several
    nodes are written with constants only."""
    out = case.copy()
    for node in out.nodes:
        if node.op == "Const" and not case.feeds:
            t = node.attrs["value"][1]
            out.feeds[node.name], node.op = t, "Placeholder"
            node.attrs = {"dtype": ["type", t.dtype], "shape": ["shape", None]}
    return out


def ops_of(only):
    by_op = collections.OrderedDict()
    recorded = [load(line) for line in (HERE / "seeds.jsonl").read_text().splitlines()]
    # one_node makes each of its cases twice, and only the first has feeds.
    ops_of_one_node = {case.op for case in CASES if case.feeds}
    written = [fed_copy(case) for case in CASES if case.feeds or case.op not in ops_of_one_node]
    for case in recorded + written:
        # Outputs are computed but not fetched, so that they need not be sent through a pipe.
        case.steps = [list(dict.fromkeys(name.split(":")[0] for name in step)) for step in case.steps]
        if not only or re.fullmatch(only, case.op):
            by_op.setdefault(case.op, []).append(case)
    return by_op


def of_different_types(seeds):
    """Returns the first seed for each combination of types of the fed tensors."""
    return list({tuple(t.dtype for t in s.feeds.values()): s for s in reversed(seeds)}.values())


def in_turns(cases):
    """Orders cases so that each op has its first case before any op has its second, and so on."""
    seen, out = collections.Counter(), []
    for case in cases:
        out.append((seen[case[0]], case))
        seen[case[0]] += 1
    return [case for _, case in sorted(out, key=lambda turn: turn[0])]


def check(runner, case, is_empty):
    why = runner.failure(case, is_empty)
    # A late case is tried again. On a virtual machine, CPU time includes time that the host takes from it, for example to
    # provide new memory, for seconds at a time. An op that does not check its deadline is late every time.
    for _ in range(TRIES - 1):
        if not why or "its deadline" not in why:
            break
        time.sleep(TRY_AGAIN_S)
        why = runner.failure(case, is_empty)
    return why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=0, help="0: all cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("empty", "large", "wide", "many", "square", "value", "memory", "both"), default="empty",
                        help="both: empty, large and many")
    parser.add_argument("--megabytes", type=int, default=0, help="of each input of the large, wide and square kinds")
    parser.add_argument("--part", default="1/1", help="K/N: the Kth of N parts of the ops")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    path = f"{args.build}/op_runner" if pathlib.Path(f"{args.build}/op_runner").exists() else f"{args.build}/tests/op_runner"
    rng = random.Random(args.seed)
    cases, first = [], []  # the cases of `first` are run even if there is no time for the others
    part, parts = map(int, args.part.split("/"))
    empty, large = Runner(path, EMPTY_DEADLINE_MS, 16), Runner(path, LARGE_DEADLINE_MS, 3000)
    square = Runner(path, SQUARE_DEADLINE_MS, 3000, measures_checks=True)
    wide = Runner(path, WIDE_DEADLINE_MS, 4000, measures_checks=True, late_limit_ms=VALUE_LATE_MS)
    value = Runner(path, VALUE_DEADLINE_MS, 3000, measures_checks=True, late_limit_ms=VALUE_LATE_MS)
    rows = schema.registry()
    limited = [Runner(path, MEMORY_DEADLINE_MS, mb, True) for mb in MEMORY_LIMITS_MB]
    for op, seeds in list(ops_of(args.only).items())[part - 1::parts]:
        # An op that calls a function does so once per row or round, as in TensorFlow, even if the rows have no elements.
        if args.kind in ("empty", "both") and op not in schema.CALLERS:
            small = seeds[:3]
            cases += [(op, empty, c) for s in small for c in list(empty_cases(s)) + list(huge_cases(s))]
        if args.kind in ("large", "both"):
            cases += [(op, large, c) for s in seeds[:2] for c in large_cases(s, args.megabytes or LARGE_MB)]
        if args.kind == "wide":
            cases += [(op, wide, c) for s in of_different_types(seeds) for c in wide_cases(s, args.megabytes or WIDE_MB)]
        if args.kind in ("many", "both"):
            cases += [(op, large, c) for s in seeds[:2] for c in many_cases(s, rows)]
        if args.kind == "square":
            kinds = of_different_types(seeds)
            cases += [(op, square, c) for s in kinds for c in square_cases(s, args.megabytes or SQUARE_MB)]
            first += [(op, square, c) for s in kinds for c in nilpotent_cases(s, args.megabytes or SQUARE_MB)]
        if args.kind == "value":
            cases += [(op, value, c) for s in of_different_types(seeds) for c in value_cases(s)]
        if args.kind == "memory":
            cases += [(op, r, c) for s in seeds[:2] for c in large_cases(s, MEMORY_MB) for r in limited]
    if args.kind in ("value", "wide"):
        cases = in_turns(cases)
    elif args.seconds:
        rng.shuffle(cases)
    else:
        cases.sort(key=lambda c: c[1] is not empty)
    ends = time.monotonic() + args.seconds if args.seconds else None
    done, failed = collections.Counter(), collections.Counter()
    latest, most = collections.Counter(), collections.Counter()
    for op, runner, case in first + cases:
        if ends and time.monotonic() > ends:
            break
        done[runner] += 1
        if args.verbose:
            print(op, str(case)[:400], flush=True)
        why = check(runner, case, runner is empty)
        if runner in (large, wide, square, value):
            latest[op] = max(latest[op], runner.late_ms)
        if runner in limited:
            most[op] = max(most[op], runner.beyond_mb)
        if why and failed[op] < 3:
            print(f"FAILED {op}: {why}\n{case}", flush=True)
        failed[op] += bool(why)
    for runner in (empty, large, wide, square, value, *limited):
        runner.child.stop()
    bad = sum(failed.values())
    print("latest: " + ", ".join(f"{op} {ms:.0f} ms" for op, ms in latest.most_common(20)))
    print("beyond the limit: " + ", ".join(f"{op} {mb:.0f} MB" for op, mb in most.most_common(20)))
    print(f"{done[empty]} cases without elements or with enormous numbers, "
          f"{sum(done[r] for r in (large, wide, square, value))} large ones, "
          f"{sum(done[r] for r in limited)} where memory is measured, {bad} failed"
          + (": " + " ".join(f"{op}({n})" for op, n in failed.items() if n) if bad else ""))
    print(f"{sum(done.values()) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
