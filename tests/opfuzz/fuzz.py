#!/usr/bin/env python3
"""Fuzzes ops: runs malformed graphs of a few nodes in both tiers of op_runner, which is built with sanitizers. See
README.md."""

import argparse
import collections
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

from case import DTYPES, dump, load  # noqa: E402
from differences import KNOWN, compare, difference_between_tiers  # noqa: E402
from mutate import Mutator  # noqa: E402
from ours import TIERS, Child, Died, Refusal  # noqa: E402
from schema import ours, registry  # noqa: E402
from seed_rows import CASES  # noqa: E402

LEAKS_EVERY = 200  # cases


class Fuzzer:
    def __init__(self, options):
        self.registry = registry()
        self.mutator = Mutator(self.registry)
        self.seeds = collections.defaultdict(list)
        wanted = set(ours(self.registry))
        for seed in [load(line) for line in (HERE / "seeds.jsonl").read_text().splitlines()] + CASES:
            for op in {n.op for n in seed.nodes if n.op not in ("Const", "Placeholder")} | {seed.op}:
                if op in wanted and (not options.only or op in options.only.split("|")):
                    self.seeds[op].append(seed)
        self.ops = sorted(self.seeds)
        self.without = sorted(wanted - set(self.ops)) if not options.only else []
        self.children = {tier: Child(options.runner, tier) for tier in TIERS}
        self.theirs = None
        if options.tensorflow:
            import theirs

            self.theirs = theirs.Child(sys.executable)
        self.options, self.count = options, collections.Counter()
        self.failures, self.times = {}, collections.Counter()
        self.seen_ops, self.seen_types, self.slowest = set(), set(), (0, None)
        self.pending = []  # cases that ran since the last check for leaks

    def make(self, index):
        """Returns case number `index`. The case also depends on --seed. Consecutive cases mutate seed cases of
        consecutive ops."""
        rng = random.Random(f"{self.options.seed}:{index}")
        op = self.ops[index % len(self.ops)]
        return self.mutator.mutate(rng, rng.choice(self.seeds[op]))

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

    def one(self, index, case):
        line = dump(case) if self.theirs else None
        if self.theirs:
            self.theirs.ask(line)
        results, started = {}, time.monotonic()
        for tier, child in self.children.items():
            try:
                results[tier] = child.run(case)
            except Died as e:
                self.count["died"] += 1
                self.fail(index, case, e.signature, f"{tier}: {e.text}")
        took = time.monotonic() - started
        self.slowest = max(self.slowest, (took, index))
        self.tally(case, results)
        if len(results) == len(TIERS):
            self.pending.append((index, case))
            problem = difference_between_tiers(case, *results.values())
            if problem:
                self.fail(index, case, f"{case.op}: tiers: {problem}")
        answer = self.theirs.answer() if self.theirs else None
        if self.theirs and answer is None:
            self.count["TensorFlow died"] += 1
        elif answer is not None and "node by node" in results:
            theirs = [Refusal(*r) if isinstance(r, tuple) else r for r in answer]
            self.count["compared"] += 1
            problem = compare(case, theirs, results["node by node"])
            if problem:
                self.count["differences"] += 1
                self.fail(index, case, f"{case.op}: {problem}"[:200])

    def tally(self, case, results):
        self.count["cases"] += 1
        self.seen_ops |= {n.op for n in case.nodes}
        for tier, steps in results.items():
            refused = any(isinstance(s, Refusal) for s in steps)
            self.count["refused" if refused else "answered"] += 1
            if any(isinstance(s, Refusal) and s.code == 4 for s in steps):
                self.count["ended by the deadline"] += 1
            for step in steps:
                if not isinstance(step, Refusal):
                    self.seen_types |= {t.dtype for t in step}
            if not refused:
                self.seen_types |= {t.dtype for t in case.feeds.values()}

    def look_for_leaks(self):
        """Checks for leaks after many cases. If memory has leaked, runs each of the cases again alone, to find which
        one leaks."""
        found = [tier for tier, child in self.children.items() if child.leaks()]
        for tier in found:
            child = Child(self.options.runner, tier)
            for index, case in self.pending:
                try:
                    child.run(case)
                    leak = child.leaks()
                    if leak:
                        self.fail(index, case, leak.signature, f"{tier}: {leak.text}")
                        break
                except Died:
                    pass
            else:
                self.fail(self.pending[0][0], self.pending[0][1], f"leaks in cases from here on, none by itself [{tier}]")
            child.stop()
        self.pending = []

    def run(self):
        for index, line in enumerate((HERE / "found.jsonl").read_text().splitlines()):
            if not self.options.only:
                self.one(-1 - index, load(line))  # Recorded cases that once failed must not fail again.
        first, end = self.options.case, time.monotonic() + self.options.seconds
        index, started = first, time.monotonic()
        while time.monotonic() < end and (not self.options.cases or index - first < self.options.cases):
            self.one(index, self.make(index))
            index += 1
            if len(self.pending) >= LEAKS_EVERY:
                self.look_for_leaks()
        self.look_for_leaks()
        self.count["seconds"] = int(time.monotonic() - started)
        self.stop()

    def stop(self):
        for child in [*self.children.values(), self.theirs]:
            if child:
                child.stop()

    def report(self):
        for signature, n in self.times.most_common():
            print(f"{n:6} {signature}")
        print(f"seed {self.options.seed}, {len(self.seen_ops & set(self.ops))} of {len(self.ops)} ops, {len(self.seen_types)} types "
              f"({' '.join(sorted(DTYPES[t][0] for t in self.seen_types if t in DTYPES))}), {len(TIERS)} tiers")
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.count.items()))
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
            for tier, child in fuzzer.children.items():
                try:
                    for result in child.run(case):
                        print(f"{tier}: {result if isinstance(result, Refusal) else [str(t) for t in result]}")
                except Died as e:
                    print(f"{tier}: {e.signature}\n{e.text}")
            if fuzzer.theirs:
                from case import Tensor

                for result in fuzzer.theirs.run(line) or ["died"]:
                    print("TensorFlow:", [str(Tensor(*t)) for t in result] if isinstance(result, list) else result)
            fuzzer.one(0, case)
            fuzzer.look_for_leaks()
    fuzzer.stop()
    return fuzzer.report()


def main():
    parser = argparse.ArgumentParser(prog="./run fuzz-ops", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--cases", type=int, default=0, help="at most so many")
    parser.add_argument("--seed", default="1", help="'new': another one at each run")
    parser.add_argument("--case", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", default="", help="ops: Name|Name")
    parser.add_argument("--tensorflow", action="store_true", help="compare with TensorFlow, which this Python must have")
    parser.add_argument("--runner", default=str(ROOT / "build" / "asan" / "tests" / "op_runner"))
    parser.add_argument("--out", default=str(ROOT / "build" / "opfuzz"), help="where failing cases are kept")
    parser.add_argument("--replay", nargs="+", help="files of cases that were kept")
    parser.add_argument("--show", action="store_true", help="print the case --case instead of running it")
    options = parser.parse_args()
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
