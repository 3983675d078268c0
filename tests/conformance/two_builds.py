#!/usr/bin/env python3
"""Checks that the results of two builds of Slipway are bit-identical: `./run compare OLD_BUILD`.

Meant for commits that must not change any result. OLD_BUILD is the build folder of an older commit (its slipway and
tests/op_runner are used), made for example by

    git worktree add ../old COMMIT && cd ../old && ./run build

The parts that are compared (--part names one):

  cases    every case of specs/, including refusals
  random   random graphs
  models   models in --models (./run compare makes the ten of tests/bench/make_models.py), in goldens and in models/: batches
           of 1 and 8, one and two threads, fusion and specialisation on and off, without autotuning and with an autotune cache
           that the old build wrote. The choices of kernels are also compared.

Outputs that the old build itself does not reproduce (random numbers without a seed) are counted, not compared. The last
line is "N compared, M differ"; the exit status is 1 if any differ.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

# `run` and `spec_module` are imported after the arguments are parsed, because both need packages that come with
# TensorFlow.
run = spec_module = None
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLAIN = ("no_autotune",)
TUNINGS = [PLAIN + more for more in ((), ("no_specialise",), ("no_fusion",), ("no_fusion", "no_specialise"))]


class Report:
    def __init__(self, most):
        self.counts, self.most = collections.Counter(), most
        self.different = collections.Counter()  # number of differences by kind, for example an op or a model

    def add(self, kind, what, is_same):
        self.counts["compared"] += 1
        if is_same:
            return
        self.counts["differ"] += 1
        self.different[kind] += 1
        if self.different[kind] <= self.most:
            print(f"  {what}", flush=True)

    def end(self):
        for kind, n in self.different.most_common():
            print(f"{n:7} differ: {kind}")
        unsure = self.counts["not repeatable"]
        print(f"{unsure} not compared: the old build answers them differently each time")
        print(f"{self.counts['compared']} compared, {self.counts['differ']} differ")
        return 1 if self.counts["differ"] or not self.counts["compared"] else 0


# ---- graphs, through op_runner ----------------------------------------------------------------


def same(a, b):
    if isinstance(a, run.Refusal) and isinstance(b, run.Refusal):
        return a.code == b.code
    return run.same_bits(a, b)


class Pair:
    """The op_runners of the old and the new build, with the same tuning."""

    def __init__(self, old, new, tf, tuning):
        self.tuning = " ".join(tuning)
        self.old, self.new = run.Runner(old, tf, tuning), run.Runner(new, tf, tuning)

    def load(self, graph_def):
        return [r.load(graph_def) for r in (self.old, self.new)]

    def check(self, report, kind, name, built):
        first, new = self.old.run(built), self.new.run(built)
        if all(map(same, first, new)):
            report.add(kind, name, True)
            return
        again = self.old.run(built)
        if not all(map(same, first, again)):
            report.counts["not repeatable"] += 1
            return
        wrong = next((f"{a} | {b}" if isinstance(a, run.Refusal) or isinstance(b, run.Refusal) else "other bits")
                     for a, b in zip(first, new) if not same(a, b))
        report.add(kind, f"{name} [{self.tuning}]: {wrong[:300]}", False)


def pairs_of(options, tf):
    old, new = (str(pathlib.Path(b) / "tests" / "op_runner") for b in (options.old, options.new))
    return [Pair(old, new, tf, tuning) for tuning in TUNINGS]


def compare_graph(report, pairs, kind, name, graph_def, builts):
    """Compares the cases of one graph. `kind` is the key by which differences are counted, and `builts` contains
    pairs (name, Built). A case may leave state in the session, but both builds have run the same cases before, so their
    state is the same."""
    for pair in pairs:
        old, new = pair.load(graph_def)
        if old or new:
            report.add(kind, f"{name} [{pair.tuning}]: {old} | {new}", bool(old) == bool(new) and old.code == new.code)
            continue
        for case, built in builts:
            pair.check(report, kind, f"{name} {case}", built)


def compare_cases(options, report):
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    for family in sorted(p.stem for p in (HERE / "specs").glob("*.py")):
        run.load_family(family)
    pairs = pairs_of(options, tf)
    for spec in spec_module.SPECS:
        if options.only and not re.fullmatch(options.only, spec.op):
            continue
        cases = list(spec.cases())
        for first in range(0, len(cases), run.CASES_PER_GRAPH):
            graph = tf.Graph()
            with graph.as_default():
                builts = [(case, run.build_case(tf, case, i)) for i, case in enumerate(cases[first:first + run.CASES_PER_GRAPH])]
            compare_graph(report, pairs, spec.op, spec.op, graph.as_graph_def().SerializeToString(), builts)


def compare_random(options, report):
    import tensorflow as tf

    import random_run
    from random_graph import RandomGraph

    tf.compat.v1.disable_eager_execution()
    pairs = pairs_of(options, tf)
    for seed in range(options.seeds):
        made = RandomGraph(tf, seed, 90).make()
        builts = [(f"feed {k}", random_run.Built(made.graph, feeds, made.fetches)) for k, feeds in enumerate(made.feeds)]
        compare_graph(report, pairs, "random graphs", f"random graph {seed}", made.graph.as_graph_def().SerializeToString(), builts)


# ---- models, through slipway run --------------------------------------------------------------


def output_of(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr.strip()}{done.stdout}"


def versions_below(folders):
    """Returns the version directories below the folders. A version directory contains a saved_model.pb."""
    found = {p.parent for folder in folders for p in pathlib.Path(folder).rglob("saved_model.pb")}
    return sorted(found)


def random_values(info, batch, dice):
    """Returns a tensor of an input's type as nested lists. Unknown inner dimensions are 3. Returns None for types
    other than float32, float64, int32, int64 and uint8. A scalar is 1, because it may be the keep probability of a
    dropout, and any other probability would use random numbers."""
    dtype = info["dtype"]
    if dtype not in ("DT_FLOAT", "DT_DOUBLE", "DT_INT32", "DT_INT64", "DT_UINT8"):
        return None
    known = info["shape"] or []
    if not known:
        return 1
    shape = [batch if i == 0 and n < 0 else 3 if n < 0 else n for i, n in enumerate(known)]
    if dtype in ("DT_FLOAT", "DT_DOUBLE"):
        make = lambda: round(dice.uniform(0, 1), 4)
    else:
        make = lambda: dice.randrange(100)

    def nested(dims):
        return [nested(dims[1:]) for _ in range(dims[0])] if dims else make()

    return nested(shape)


def signatures_of(report, name, binaries, version):
    """Returns the signatures as the new build prints them. If one build refuses the version, both must refuse it with
    the same message, and no signatures are returned."""
    told = [output_of([slipway, "inspect", str(version), "--json"]) for slipway in binaries]
    try:
        return [json.loads(text)["signatures"] for text in told][1]
    except (ValueError, KeyError):
        report.add(name, f"{name}: inspect: {told[0][:300]!r} | {told[1][:300]!r}", told[0] == told[1])
        return {}


def bodies(signatures, batches):
    """Yields (signature, batch, REST body) for each signature for which inputs can be generated."""
    for name, signature in sorted(signatures.items()):
        for batch in batches:
            dice = random.Random(f"{name} {batch}")
            values = {alias: random_values(info, batch, dice) if "mask" not in alias else None
                      for alias, info in sorted(signature["inputs"].items())}
            for alias, info in signature["inputs"].items():
                if "mask" in alias and info["dtype"] in ("DT_INT32", "DT_INT64"):
                    values[alias] = [[1] * max(info["shape"][1], 1) for _ in range(batch)]
            if values and None not in values.values():
                yield name, batch, json.dumps({"inputs": values})


def kernels(slipway, version, body, flags):
    plan = output_of([slipway, "inspect", str(version), "--plan", "--json", "--inputs=-", *flags], body)
    try:
        return [n["kernel"] for n in json.loads(plan)["nodes"] if n["runs"]]
    except ValueError:
        return plan


def compare_version(options, report, version, scratch):
    old, new = (str(pathlib.Path(b) / "slipway") for b in (options.old, options.new))
    model = str(version.relative_to(ROOT) if version.is_relative_to(ROOT) else version)
    for signature, batch, body in bodies(signatures_of(report, model, (old, new), version), (1, 8)):
        name = f"{model}, {signature}, batch {batch}"
        base = [f"--signature={signature}"]
        for threads, fusion, specialise in itertools.product((1, 2), ("on", "off"), ("on", "off")):
            flags = base + [f"--threads={threads}", f"--fusion={fusion}", f"--specialise={specialise}", "--autotune=off"]
            a, b = (output_of([x, "run", str(version), "--inputs=-", *flags], body) for x in (old, new))
            if a != b and output_of([old, "run", str(version), "--inputs=-", *flags], body) != a:
                report.counts["not repeatable"] += 1
            else:
                report.add(model, f"{name} {' '.join(flags[1:])}: {a[:100]!r} | {b[:100]!r}", a == b)
        flags = base + ["--autotune=off"]
        report.add(model, f"{name}: kernels", kernels(old, version, body, flags) == kernels(new, version, body, flags))
        compare_tuned(report, (old, new), version, (model, name, body, base), scratch)


def compare_tuned(report, binaries, version, request, scratch):
    """Runs both builds with the autotune cache that the old build writes for the given request, and compares the
    results. Each run gets a copy of the cache."""
    model, name, body, base = request
    written = os.path.join(scratch, "written")
    output_of([binaries[0], "run", str(version), "--inputs=-", *base, f"--autotune_cache={written}"], body)
    if not os.path.exists(written):
        return
    answers, chosen = [], []
    for k, slipway in enumerate(binaries):
        copy = os.path.join(scratch, str(k))
        shutil.copy(written, copy)
        answers.append(output_of([slipway, "run", str(version), "--inputs=-", *base, f"--autotune_cache={copy}"], body))
        chosen.append(kernels(slipway, version, body, [*base, f"--autotune_cache={copy}"]))
    report.add(model, f"{name}, old autotune cache", answers[0] == answers[1])
    report.add(model, f"{name}, old autotune cache: kernels", chosen[0] == chosen[1])
    os.remove(written)


def compare_models(options, report):
    folders = [options.models] if options.models else []
    with tempfile.TemporaryDirectory() as scratch:
        for version in versions_below([*folders, ROOT / "models", ROOT / "tests" / "goldens" / "models"]):
            compare_version(options, report, version, scratch)


PARTS = {"cases": compare_cases, "random": compare_random, "models": compare_models}


def main():
    parser = argparse.ArgumentParser(prog="./run compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the build folder of the older commit, as .../build/release")
    parser.add_argument("--new", default=str(ROOT / "build" / "release"))
    parser.add_argument("--part", choices=PARTS, action="append", help="this part; may be repeated")
    parser.add_argument("--models", help="a folder of models, by default none beside the repository's")
    parser.add_argument("--only", default="", help="of the cases, those of ops whose name matches this expression")
    parser.add_argument("--seeds", type=int, default=60, help="random graphs")
    parser.add_argument("--most", type=int, default=5, help="differences shown of each op or model")
    options = parser.parse_args()
    for folder in (options.old, options.new):
        for program in ("slipway", "tests/op_runner"):
            if not os.access(os.path.join(folder, program), os.X_OK):
                parser.error(f"{folder} has no {program}")
    global run, spec_module
    import run
    import spec as spec_module
    options.old, options.new, options.models = (path and os.path.abspath(path) for path in (options.old, options.new, options.models))
    run.enter_own_directory()
    report = Report(options.most)
    for part in options.part or PARTS:
        print(f"{part}:", flush=True)
        PARTS[part](options, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
