#!/usr/bin/env python3
"""Fuzzes ops: runs malformed graphs of a few nodes in both tiers of op_runner, which is built with sanitizers. See
README.md."""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

from case import DTYPES, case_from_json, dump, load, to_json  # noqa: E402
from differences import KNOWN, compare, difference_between_tiers  # noqa: E402
from mutate import Mutator  # noqa: E402
from ours import TIERS, Child, Died, Refusal, encode  # noqa: E402
from schema import ours, registry  # noqa: E402
from seed_rows import CASES  # noqa: E402

DEADLINE_MS = 50  # of a step; some steps wait for what never comes, and with 2 s they took most of the time
MEMORY_MB = 64  # of a run; with 256 MB, the sanitizer's work on large tensors doubled the time in the kernel
BATCH = 64  # cases that a child is sent at a time
LEAKS_EVERY = 2000  # cases
LATE_S = 1  # CPU time, under sanitizers, that a step may use after its deadline
COLUMNS = ("cases", "runs", "answered", "refused", "deadline")  # of --counts; the last three count the runs of each tier
LONGEST = 20000  # characters of JSON in a case that is kept to be mutated again
SAVE_S = 60  # time between two writes of --counts


def new_child(runner, tier):
    return Child(runner, tier, DEADLINE_MS, MEMORY_MB)


class Lane:
    """A child for each tier, which are sent the same cases, and what they have been sent."""

    def __init__(self, runner):
        self.runner = runner
        self.children = {tier: new_child(runner, tier) for tier in TIERS}
        self.pending = []  # the (index, case) that ran since the last check for leaks
        self.batch = self.futures = None  # the (index, case) that the children run, and what will hold their answers

    def ask(self, pool, batch):
        cases = [case for _, case in batch]
        messages = [encode(case) for case in cases]
        self.batch = batch
        self.futures = {tier: pool.submit(child.run_all, cases, messages) for tier, child in self.children.items()}

    def collect(self):
        """Waits for the answers to the batch. Returns the batch, and its answers by tier."""
        batch, answers = self.batch, {tier: future.result() for tier, future in self.futures.items()}
        self.pending += batch
        self.batch = None
        return batch, answers

    def leaks(self):
        """Checks for leaks. Yields the tier, number and case of the first case that leaks, and the leak."""
        for tier, child in self.children.items():
            leak = child.leaks()
            if leak:
                yield tier, *(self.first_leak(tier) or (*self.pending[0], leak))
        self.pending = []

    def first_leak(self, tier):
        """Returns the number of the first of the pending cases after which memory has leaked, the case, and the leak.
        Returns None if the cases leak nothing when they run again."""
        first, end, found = 0, len(self.pending), None
        while first < end:
            middle = (first + end) // 2
            child = new_child(self.runner, tier)
            cases = [case for _, case in self.pending[first : middle + 1]]
            child.run_all(cases, [encode(case) for case in cases])
            leak = child.leaks()
            child.stop()
            if leak:
                end, found = middle, (*self.pending[middle], leak)
            else:
                first = middle + 1
        return found


class Fuzzer:
    def __init__(self, options):
        self.options, self.registry = options, registry()
        self.mutator = Mutator(self.registry)
        self.seeds = collections.defaultdict(list)
        wanted = set(ours(self.registry))
        for seed in [load(line) for line in (HERE / "seeds.jsonl").read_text().splitlines()] + CASES:
            for op in {n.op for n in seed.nodes if n.op not in ("Const", "Placeholder")} | {seed.op}:
                if op in wanted and (not options.only or op in options.only.split("|")):
                    self.seeds[op].append(seed)
        self.ops = sorted(self.seeds)
        self.without = sorted(wanted - set(self.ops)) if not options.only else []
        self.lanes = [Lane(options.runner) for _ in range(1 if options.tensorflow else options.jobs)]
        self.pool = concurrent.futures.ThreadPoolExecutor(len(TIERS) * len(self.lanes))
        self.theirs = None
        if options.tensorflow:
            import theirs

            self.theirs = theirs.Child(sys.executable)
        self.count = collections.Counter()
        self.failures, self.times = {}, collections.Counter()
        self.seen_ops, self.seen_types, self.slowest = set(), set(), (0, None)
        self.by_op = {op: collections.Counter() for op in self.ops}
        # The number of the next case, and the seconds and failures of earlier runs of the same campaign.
        self.next, self.before = options.case, collections.Counter()
        if options.counts and options.counts.exists():
            self.resume(options.counts.read_text().splitlines())

        # The places of the code that cases have reached, and, by op, the cases that were first to reach one of them.
        self.places, self.grown, self.newest = set(), collections.defaultdict(list), None
        if options.guided and options.guided.exists():
            for line in options.guided.read_text().splitlines():
                op, case = json.loads(line)
                self.grown[op].append(case_from_json(case))

    def op_of(self, index):
        """Returns the op that case number `index` is about."""
        return self.ops[index % len(self.ops)]

    def make(self, index):
        """Returns case number `index`. The case also depends on --seed. Consecutive cases mutate seed cases of
        consecutive ops. With --guided, half of the cases mutate earlier ones that reached new code."""
        rng = random.Random(f"{self.options.seed}:{index}")
        op = self.op_of(index)
        grown = self.grown[op] and rng.random() < 0.5
        case = self.mutator.mutate(rng, rng.choice(self.grown[op] if grown else self.seeds[op]))
        if self.theirs:
            case.more = []  # The list of differences from TensorFlow knows one set of feeds.
        return case

    def fail(self, index, case, signature, text=""):
        self.times[signature] += 1
        if signature in self.failures:
            return
        self.failures[signature] = index
        known = next((reason for pattern, reason in KNOWN if pattern.search(signature)), None)
        self.count["known" if known else "new failures"] += 1
        folder = pathlib.Path(self.options.out)
        folder.mkdir(parents=True, exist_ok=True)
        name = folder / f"{self.options.seed}-{index}.json"
        name.write_text(dump(case) + "\n")
        print(f"FAIL case {index}{' (known: ' + known + ')' if known else ''}: {signature}\n{case}\n{text}")
        print(f"  again: python3 tests/opfuzz/fuzz.py --replay {os.path.relpath(name, ROOT)}", flush=True)

    def judge(self, batch, answers, theirs=None):
        for i, (index, case) in enumerate(batch):
            self.judge_one(index, case, {tier: found[i] for tier, found in answers.items()}, theirs)

    def judge_one(self, index, case, answers, theirs):
        results = {}
        for tier, answer in answers.items():
            if isinstance(answer, Died):
                self.count["died"] += 1
                self.fail(index, case, answer.signature, f"{tier}: {answer.text}")
                continue
            results[tier] = answer.steps
            if not self.places.issuperset(answer.places):
                self.grow(index, case, answer.places)
            self.slowest = max(self.slowest, (answer.took_s, index))
            if answer.late_s > LATE_S:
                self.check_late(index, case, tier)
        self.tally(index, case, results)
        if len(results) == len(TIERS):
            problem = difference_between_tiers(case, *results.values())
            if problem:
                self.fail(index, case, f"{case.op}: tiers: {problem}")
        if self.theirs and theirs is None:
            self.count["TensorFlow died"] += 1
        elif theirs is not None and "node by node" in results:
            theirs = [Refusal(*r) if isinstance(r, tuple) else r for r in theirs]
            self.count["compared"] += 1
            problem = compare(case, theirs, results["node by node"])
            if problem:
                self.count["differences"] += 1
                self.fail(index, case, f"{case.op}: {problem}"[:200])

    def grow(self, index, case, places):
        """Keeps a case that has reached new code."""
        self.places.update(places)
        if not self.options.guided or index < 0 or case is self.newest:
            return
        line = json.dumps([self.op_of(index), to_json(case)], separators=(",", ":"))
        if len(line) < LONGEST:
            self.newest = case
            self.grown[self.op_of(index)].append(case)
            self.count["grown"] += 1
            with self.options.guided.open("a") as f:
                f.write(line + "\n")

    def check_late(self, index, case, tier):
        """Fails if the case is late again when it runs alone, however often."""
        child = new_child(self.options.runner, tier)
        answers = [child.run_all([case], [encode(case)])[0] for _ in range(3)]
        child.stop()
        late_s = min(a.late_s for a in answers) if not any(isinstance(a, Died) for a in answers) else 0
        if late_s > LATE_S:
            self.fail(index, case, f"{case.op}: late", f"{tier}: used {late_s:.1f} s of CPU time after its deadline")

    def tally(self, index, case, results):
        by_op = self.by_op[self.op_of(index)] if index >= 0 else collections.Counter()
        found = collections.Counter(cases=1, runs=max(map(len, results.values()), default=0))
        for steps in results.values():
            for step in steps:
                is_refused = isinstance(step, Refusal)
                found["refused" if is_refused else "answered"] += 1
                if is_refused:
                    found["deadline"] += step.code == 4
                else:
                    self.seen_types.update([t.dtype for t in step])
        if found["answered"]:
            self.seen_types.update([t.dtype for t in case.feeds.values()])
        self.seen_ops.update([n.op for n in case.nodes])
        self.count.update(found)
        by_op.update(found)

    def look_for_leaks(self, lane):
        for tier, index, case, leak in lane.leaks():
            self.fail(index, case, leak.signature, f"{tier}: {leak.text}")

    def batches(self):
        """Yields lists of (index, case): first the recorded cases that once failed, which must not fail again, and the
        cases that --guided has kept, so that the code that they reach is known."""
        first, size = self.next, 1 if self.theirs else BATCH
        found = [] if self.options.only else [load(line) for line in (HERE / "found.jsonl").read_text().splitlines()]
        found += [case for kept in self.grown.values() for case in kept]
        for at in range(0, len(found), size):
            yield [(-1 - at - i, case) for i, case in enumerate(found[at : at + size])]
        end, last = time.monotonic() + self.options.seconds, first + (self.options.cases or 1 << 62)
        while time.monotonic() < end and first < last:
            yield [(i, self.make(i)) for i in range(first, min(first + size, last))]
            first += size
            self.next = min(first, last)

    def run(self):
        """Gives each lane in turn a batch, and judges the answers to its last one while it is busy."""
        started = saved = time.monotonic()
        for lane, batch in zip(itertools.cycle(self.lanes), self.batches()):
            self.finish(lane, batch)
            if self.options.counts and time.monotonic() > saved + SAVE_S:
                saved = time.monotonic()
                self.save(saved - started)
        for lane in self.lanes:
            self.finish(lane)
            self.look_for_leaks(lane)
        self.count["seconds"] = int(time.monotonic() - started)
        if self.options.counts:
            self.save(time.monotonic() - started)
        self.stop()

    def finish(self, lane, batch=None):
        """Waits for the answers to the batch that the lane runs, gives it the next, and judges the answers."""
        answered = lane.collect() if lane.batch else None
        if len(lane.pending) >= LEAKS_EVERY:
            self.look_for_leaks(lane)
        if self.theirs and answered:
            self.judge(*answered, self.theirs.answer())
        if self.theirs and batch:
            self.theirs.ask(dump(batch[0][1]))
        if batch:
            lane.ask(self.pool, batch)
        if answered and not self.theirs:
            self.judge(*answered)

    def save(self, seconds):
        """Writes the counts of the campaign so far, from which a later run goes on."""
        total = sum(self.by_op.values(), collections.Counter())
        failures = {what: self.before[what] + self.count[what] for what in ("died", "new failures", "known")}
        head = {"seed": self.options.seed, "next case": self.next, "seconds": round(self.before["seconds"] + seconds), **failures}
        rows = [[op, *(counts[c] for c in COLUMNS)] for op, counts in [("all", total), *self.by_op.items()]]
        lines = [*([what, n] for what, n in head.items()), ["op", *COLUMNS], *rows]
        self.options.counts.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))

    def resume(self, lines):
        """Goes on with the campaign whose counts `lines` are."""
        rows = [line.split("\t") for line in lines]
        begin = next(i for i, row in enumerate(rows) if row[0] == "op")
        head = dict(rows[:begin])
        self.options.seed, self.next = head.pop("seed"), int(head.pop("next case"))
        self.before.update({what: int(n) for what, n in head.items()})
        for op, *counts in rows[begin + 2:]:
            self.by_op[op] = collections.Counter(dict(zip(COLUMNS, map(int, counts))))

    def stop(self):
        for child in [*(c for lane in self.lanes for c in lane.children.values()), self.theirs]:
            if child:
                child.stop()

    def report(self):
        for signature, n in self.times.most_common():
            print(f"{n:6} {signature}")
        print(f"seed {self.options.seed}, {len(self.seen_ops & set(self.ops))} of {len(self.ops)} ops, {len(self.seen_types)} types "
              f"({' '.join(sorted(DTYPES[t][0] for t in self.seen_types if t in DTYPES))}), {len(TIERS)} tiers")
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.count.items()))
        if self.options.guided:
            print(f"{len(self.places)} places of the code reached; {sum(map(len, self.grown.values()))} cases kept")
        print(f"{counts}, slowest {self.slowest[0]:.1f} s (case {self.slowest[1]})")
        if self.without:
            print(f"no case in seeds.jsonl or seed_rows.py: {' '.join(self.without)}")
        bad = self.count["new failures"] + len(self.without)
        print(f"{self.count['cases'] - bad} passed, {bad} failed")
        return 1 if bad or not self.count["cases"] else 0


def replay(options):
    """Runs the cases of a file again and prints the results of Slipway and TensorFlow."""
    fuzzer = Fuzzer(options)
    for path in options.replay:
        for line in pathlib.Path(path).read_text().splitlines():
            case = load(line)
            print(case)
            for tier, child in fuzzer.lanes[0].children.items():
                try:
                    for result in child.run(case):
                        print(f"{tier}: {result if isinstance(result, Refusal) else [str(t) for t in result]}")
                except Died as e:
                    print(f"{tier}: {e.signature}\n{e.text}")
            if fuzzer.theirs:
                from case import Tensor

                for result in fuzzer.theirs.run(line) or ["died"]:
                    print("TensorFlow:", [str(Tensor(*t)) for t in result] if isinstance(result, list) else result)
            fuzzer.finish(fuzzer.lanes[0], [(-1, case)])
            fuzzer.finish(fuzzer.lanes[0])
            fuzzer.look_for_leaks(fuzzer.lanes[0])
    fuzzer.stop()
    return fuzzer.report()


def main():
    parser = argparse.ArgumentParser(prog="./run fuzz-ops", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--cases", type=int, default=0, help="at most so many")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="pairs of op_runners at a time (the cores)")
    parser.add_argument("--seed", default="1", help="'new': another one at each run")
    parser.add_argument("--case", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", default="", help="ops: Name|Name")
    parser.add_argument("--tensorflow", action="store_true", help="compare with TensorFlow, which this Python must have")
    parser.add_argument("--runner", help="an op_runner (that of build/asan, or with --guided of build/fuzz)")
    parser.add_argument("--out", default=str(ROOT / "build" / "opfuzz"), help="where failing cases are kept")
    parser.add_argument("--replay", nargs="+", help="files of cases that were kept")
    parser.add_argument("--counts", type=pathlib.Path, help="file of a campaign's counts; if it exists, the campaign goes on")
    parser.add_argument("--guided", type=pathlib.Path, help="file of the cases that reach new code, which grows")
    parser.add_argument("--show", action="store_true", help="print the case --case instead of running it")
    options = parser.parse_args()
    if not options.runner:
        options.runner = str(ROOT / "build" / ("fuzz/tests/fuzz" if options.guided else "asan/tests") / "op_runner")
    if options.seed == "new":
        options.seed = str(random.SystemRandom().randrange(1 << 32))
    if options.replay:
        return replay(options)
    fuzzer = Fuzzer(options)
    if options.show:
        print(fuzzer.make(options.case))
        return 0
    fuzzer.run()
    return fuzzer.report()


if __name__ == "__main__":
    sys.exit(main())
