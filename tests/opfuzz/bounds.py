#!/usr/bin/env python3
"""Every op's work is bounded by what there is, and ends soon after its deadline.

    bounds.py [BUILD] [--kind empty|large|both] [--only 'Op|Op'] [--part K/N] [--seconds N] [--seed N]

Two kinds of cases are made of the seeds, each run node by node in op_runner:

  empty  tensors without elements whose other dimensions are enormous, integers (values and attributes) that are enormous: the
         answer, or the refusal, comes at once. A run that needs its deadline for it has walked what is not there.
  large  inputs repeated until an op has tens of megabytes to work on: when the deadline passes in the run, the run ends soon after,
         measured in processor time, which a busy machine does not add to.

Cases without an answer ten times as late as allowed are failures as well. Prints each failure; the last line is
"N passed, M failed", and the exit status is 1 when something failed.
"""

import argparse
import collections
import fcntl
import pathlib
import random
import re
import struct
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import ours  # noqa: E402
from case import STRING, Tensor, count, load, NUMBERS, pack_one  # noqa: E402

ours.TIMES_OUT_S = 30  # of a busy machine's time, tens of megabytes into the child included
DEADLINE_EXCEEDED = 4
EMPTY_DEADLINE_MS = 1500  # nothing without elements takes so long
LARGE_DEADLINE_MS = 30
LARGE_MB = 64  # of each repeated input
LATE_MS = 100  # of processor time: a run that uses more after its deadline has not looked at it
HUGE = (1 << 40, 1 << 31, (1 << 62) - 1, 1 << 20)
INTEGERS = {NUMBERS[n] for n in ("int32", "int64")}


def empty_tensor(t, shape):
    return Tensor(t.dtype, shape, [] if t.dtype == STRING else b"")


def shapes_without_elements(shape):
    """Each dimension 0 in turn, the others enormous; and all others as they are but one."""
    n = len(shape)
    for zero in range(n):
        for huge in ((1 << 40), 3 << 20):
            out = [huge if sum(i != zero for i in range(n)) == 1 or i == (0 if zero else 1) else min(shape[i], 4) or 1 for i in range(n)]
            out[zero] = 0
            yield tuple(out)


def tensors_of(case):
    """What may be changed: fed tensors by name, and constants' tensors."""
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
    """Also of several inputs at a time: those of one rank are changed alike."""
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
    if len(ranks) > 1:  # and all of them, each by its first dimension, or by its last
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
        if t.dtype not in INTEGERS or len(t.data) > 8 * 8:
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
    """A tensor `times` times along one of its dimensions; its bytes are made when they are sent."""

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
    size = 24 * n + sum(map(len, t.data)) if t.dtype == STRING else len(t.data)  # 24: of a short string in memory
    return Repeated(t, axis, max(2, (megabytes << 20) // size))


def large_cases(case, megabytes):
    """Inputs repeated along their first or last dimension: all alike, or one of them."""
    fed = [(name, t) for name, t in case.feeds.items() if t.shape and t.data]
    for axis in (0, -1):
        for group in [fed] + ([[f] for f in fed] if len(fed) > 1 else []):
            out = case.copy()
            out.feeds.update((name, repeated(t, axis, megabytes)) for name, t in group)
            if group:
                yield out


class Child(ours.Child):
    """Node by node, with a deadline and a limit of its own."""

    def __init__(self, path, deadline_ms, memory_mb):
        super().__init__(path, "node by node")
        self.arguments = ["no_autotune", "no_specialise", f"deadline_ms={deadline_ms}", f"memory_mb={memory_mb}"]

    def start(self):
        super().start()
        fcntl.fcntl(self.process.stdin.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)

    def late_ms(self):
        """Processor time that the last run used after its deadline."""
        if self.process is None:
            return 0
        self.send(b"D")
        self.read(4)
        return int(self.text()) / 1000


class Runner:
    def __init__(self, path, deadline_ms, memory_mb):
        self.child = Child(path, deadline_ms, memory_mb)
        self.late_ms = 0  # of the last case

    def failure(self, case, is_empty):
        """A sentence, or None."""
        self.late_ms = 0
        try:
            results = self.child.run(case)
            self.late_ms = self.child.late_ms()
        except ours.Died as e:
            return f"{e}"
        last = results[-1] if results else None
        if is_empty and isinstance(last, ours.Refusal) and last.code == DEADLINE_EXCEEDED:
            return "walks what is not there until the deadline"
        if not is_empty and self.late_ms > LATE_MS:
            return f"ended {self.late_ms:.0f} ms after its deadline"
        return None


def ops_of(only):
    by_op = collections.OrderedDict()
    for line in (HERE / "seeds.jsonl").read_text().splitlines():
        case = load(line)
        # Only run: what nobody fetches need not come through a pipe.
        case.steps = [list(dict.fromkeys(name.split(":")[0] for name in step)) for step in case.steps]
        if not only or re.fullmatch(only, case.op):
            by_op.setdefault(case.op, []).append(case)
    return by_op


def check(runner, case, is_empty):
    why = runner.failure(case, is_empty)
    if why and "after its deadline" in why:  # once more: the machine may have been busy
        why = runner.failure(case, is_empty)
    return why


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=0, help="0: all cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("empty", "large", "both"), default="empty")
    parser.add_argument("--megabytes", type=int, default=LARGE_MB, help="of each repeated input")
    parser.add_argument("--part", default="1/1", help="K/N: the Kth of N parts of the ops")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    path = f"{args.build}/op_runner" if pathlib.Path(f"{args.build}/op_runner").exists() else f"{args.build}/tests/op_runner"
    rng = random.Random(args.seed)
    cases = []
    part, parts = map(int, args.part.split("/"))
    for op, seeds in list(ops_of(args.only).items())[part - 1::parts]:
        if args.kind != "large":
            small = seeds[:3]
            cases += [(op, True, c) for s in small for c in list(empty_cases(s)) + list(huge_cases(s))]
        if args.kind != "empty":
            cases += [(op, False, c) for s in seeds[:2] for c in large_cases(s, args.megabytes)]
    if args.seconds:
        rng.shuffle(cases)
    else:
        cases.sort(key=lambda c: not c[1])
    ends = time.monotonic() + args.seconds if args.seconds else None
    empty, large = Runner(path, EMPTY_DEADLINE_MS, 16), Runner(path, LARGE_DEADLINE_MS, 3000)
    done, failed, latest = collections.Counter(), collections.Counter(), collections.Counter()
    for op, is_empty, case in cases:
        if ends and time.monotonic() > ends:
            break
        done[is_empty] += 1
        if args.verbose:
            print(op, is_empty, str(case)[:400], flush=True)
        why = check(empty if is_empty else large, case, is_empty)
        if not is_empty:
            latest[op] = max(latest[op], large.late_ms)
        if why and failed[op] < 3:
            print(f"FAILED {op}: {why}\n{case}", flush=True)
        failed[op] += bool(why)
    empty.child.stop()
    large.child.stop()
    bad = sum(failed.values())
    print("latest: " + ", ".join(f"{op} {ms:.0f} ms" for op, ms in latest.most_common(20)))
    print(f"{done[True]} cases without elements or with enormous numbers, {done[False]} large ones, {bad} failed"
          + (": " + " ".join(f"{op}({n})" for op, n in failed.items() if n) if bad else ""))
    print(f"{sum(done.values()) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
