#!/usr/bin/env python3
"""Runs random graphs through TensorFlow and through op_runner, with and without fusion and compiled plans, and compares
the outputs.

random_run.py [FIRST [LAST]]        runs the seeds FIRST to LAST - 1, or only FIRST; without arguments, 0 to 39
random_run.py --find SEED           finds the first tensor that differs, by fetching each tensor alone
random_run.py --record DIR SEED...  writes the files that tests/unit/exec/test_random_graphs.c replays, with
                                    TensorFlow's results
"""
import argparse
import pathlib
import struct
import sys
import zlib

# `run` is imported before TensorFlow, because `run` sets environment variables that TensorFlow reads
from run import ROOT, Refusal, Runner, compare_arrays, encode, np, packed

from random_graph import NOISE, TOLERANCE, RandomGraph

PLAIN = ("no_fusion", "no_winograd", "no_autotune")
TUNINGS = {
    "plain": (*PLAIN, "no_specialise"),
    "compiled": PLAIN,  # the results of "compiled" must equal those of "plain" bit for bit
    "fused": ("no_autotune", "no_specialise"),
    "default": (),
}


class Built:
    """A case in the form that run.Runner expects."""

    def __init__(self, graph, feeds, fetches):
        tensor = graph.get_tensor_by_name
        self.feeds = [(tensor(name), value) for name, value in feeds.items()]
        self.steps = [[tensor(name) for name in fetches]]


def session(tf, graph):
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return tf.compat.v1.Session(graph=graph, config=config)


def tolerance(value):
    return {"rtol": TOLERANCE[value.dtype.name], "atol": NOISE} if value.dtype.name in TOLERANCE else {}


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and (a.tobytes() == b.tobytes() if a.dtype != object else (a == b).all())


def differences(theirs, ours, fetches):
    if isinstance(ours, Refusal):
        yield f"refused: {ours.text}"
        return
    for name, a, b in zip(fetches, theirs, ours):
        problem = compare_arrays(np.asarray(a), b, **tolerance(np.asarray(a)))
        if problem:
            yield f"{name}: {problem}"


def check(tf, runners, seed, steps, most):
    made = RandomGraph(tf, seed, steps).make()
    graph_def = made.graph.as_graph_def().SerializeToString()
    for runner in runners.values():
        refusal = runner.load(graph_def)
        if refusal:
            return [f"graph: {refusal}"]
    wrong = []
    with session(tf, made.graph) as theirs:
        for k, feeds in enumerate(made.feeds):
            built = Built(made.graph, feeds, made.fetches)
            got = {name: runner.run(built)[0] for name, runner in runners.items()}
            try:
                want = theirs.run(made.fetches, feeds)
            except tf.errors.OpError as refusal:  # TensorFlow refuses a shape that the generator did not foresee
                wrong += [f"feed {k}, {name}: not refused as TensorFlow does: {refusal.message[:80]}"
                          for name, values in got.items() if not isinstance(values, Refusal)]
                continue
            for name, values in got.items():
                wrong += [f"feed {k}, {name}: {text}" for text in list(differences(want, values, made.fetches))[:most]]
            if not isinstance(got["plain"], Refusal) and not isinstance(got["compiled"], Refusal):
                wrong += [f"feed {k}: {f}: plain and compiled are not the same bits"
                          for f, a, b in zip(made.fetches, got["plain"], got["compiled"]) if not same_bits(a, b)][:most]
    return wrong


def find(tf, path, seed, steps, feed):
    made = RandomGraph(tf, seed, steps).make()
    graph_def = made.graph.as_graph_def().SerializeToString()
    v1_inside = {o.name for o in made.graph.get_operations() if o._get_control_flow_context() is not None}
    with session(tf, made.graph) as theirs:
        for name, tuning in TUNINGS.items():
            runner = Runner(path, tf, tuning)
            runner.load(graph_def)
            n = 0
            for op in made.graph.get_operations():
                if not made.graph.is_fetchable(op) or op.name in v1_inside or op.type in ("Const", "Placeholder"):
                    continue
                # Only FusedBatchNormV3's first output is compared, because the others are undefined in inference.
                for t in op.outputs[:1] if op.type == "FusedBatchNormV3" else op.outputs:
                    if t.dtype.is_numpy_compatible and t.dtype.name not in ("resource", "variant"):
                        n += 1
                        if n % 200 == 0:
                            # A session holds a limited number of plans, so a new session is opened.
                            runner.load(graph_def)
                        want = theirs.run([t.name], made.feeds[feed])
                        got = runner.run(Built(made.graph, made.feeds[feed], [t.name]))[0]
                        wrong = list(differences(want, got, [t.name]))
                        if wrong:
                            print(f"{name}: {op.type} {wrong[0]}\n    inputs {[i.name for i in op.inputs]}")
                            break
                else:
                    continue
                break


SAMPLE = 32


def sample(tf, value):
    """Encodes a summary of an array: its type, shape, absolute tolerance, and some evenly spaced elements."""
    flat = value.reshape(-1)
    largest = float(np.max(np.abs(flat.astype(np.float64)), initial=0)) if value.dtype != object else 0
    n = min(flat.size, SAMPLE)
    few = encode(tf, flat[np.arange(n) * flat.size // n] if n else flat[:0])
    number = struct.unpack("<i", few[:4])[0]
    head = struct.pack(f"<ii{value.ndim}q", number, value.ndim, *value.shape)
    return head + struct.pack("<d", max(tolerance(value).get("rtol", 0) * largest, tolerance(value).get("atol", 0))) + few


def record(tf, folder, seeds, steps):
    """Writes files for tests/unit/exec/test_random_graphs.c, each with a graph, its feeds, and a summary of its
    outputs."""
    for seed in seeds:
        made = RandomGraph(tf, seed, steps).make()
        graph_def = made.graph.as_graph_def()
        for node in list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]:
            for key in [k for k in node.attr if k in ("_output_shapes", "_xla_inferred_shapes")]:
                del node.attr[key]
        out = [packed(graph_def.SerializeToString()), struct.pack("<i", len(made.feeds))]
        with session(tf, made.graph) as theirs:
            for feeds in made.feeds:
                want = [np.asarray(v) for v in theirs.run(made.fetches, feeds)]
                out.append(struct.pack("<ii", len(feeds), len(want)))
                for name, value in feeds.items():
                    out += [packed(name.encode()), encode(tf, value)]
                for name, value in zip(made.fetches, want):
                    out += [packed(name.encode()), sample(tf, value)]
        data = b"".join(out)
        (pathlib.Path(folder) / f"{seed}.bin").write_bytes(struct.pack("<q", len(data)) + zlib.compress(data, 9))
        print(f"{seed}: {len(graph_def.node)} nodes, {len(data)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int)
    parser.add_argument("--runner", default=str(ROOT / "build" / "release" / "tests" / "op_runner"))
    parser.add_argument("--steps", type=int, default=90, help="of the generator: a step makes one to ten nodes")
    parser.add_argument("--most", type=int, default=2, help="differences shown per run")
    parser.add_argument("--find", action="store_true")
    parser.add_argument("--feed", type=int, default=0, help="which feed --find runs on")
    parser.add_argument("--record", metavar="DIR")
    options, more = parser.parse_known_args()

    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    if options.record:
        record(tf, options.record, [options.first, *([options.last] if options.last is not None else []), *map(int, more)], options.steps)
        return 0
    if options.find:
        find(tf, options.runner, options.first, options.steps, options.feed)
        return 0
    last = options.last if options.last is not None else options.first + (1 if options.first else 40)
    runners = {name: Runner(options.runner, tf, tuning) for name, tuning in TUNINGS.items()}
    n_wrong = 0
    for seed in range(options.first, last):
        wrong = check(tf, runners, seed, options.steps, options.most)
        n_wrong += bool(wrong)
        print(f"{'FAIL' if wrong else 'ok  '} seed {seed}", flush=True)
        for text in wrong:
            print("     ", text)
    n = last - options.first
    print(f"{n - n_wrong} of {n} random graphs agree")
    return 1 if n_wrong or not n else 0


if __name__ == "__main__":
    sys.exit(main())
