#!/usr/bin/env python3
"""Compares Slipway with TensorFlow, ONNX Runtime and OpenVINO on the benchmark models (./run bench engines).

All engines are measured in one run, one after the other in each round. Each engine has a process of its own, pinned to
the same cores, with the same inputs and the same number of threads, and every call is made in-process on tensors in
memory. The result of a round is the median of its calls, and that of an engine is the median of its rounds. The script
prints the milliseconds of a call, the ratio of the best peer's time to Slipway's, the project's target for this ratio,
Slipway's GFLOP/s, and the core's peak GFLOP/s, which is also measured in every round.

--clock cpu measures the CPU time of the process per call instead, for a machine that other programs also use (one
thread only). A peer that is not installed, or that fails on a model, is shown as '-'.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "tests/bench"
PEERS = ("tf", "ort", "ov")
IMAGES, SMALL = (1, 8), (1, 8, 32)
# Maps a model's name to (batch sizes, GFLOP per row, target ratio of the best peer's time to Slipway's).
MODELS = {"resnet50": (IMAGES, 8.2, 1.15), "mobilenetv2": (IMAGES, 0.6, 1), "vgg19": (IMAGES, 39, 2),
          "efficientnetb0": (IMAGES, 0.8, 1), "inceptionv3": (IMAGES, 11.4, 1.15), "densenet121": (IMAGES, 5.7, 1),
          "bert": (IMAGES, 22.4, 1), "lstm": (SMALL, 0.12, 1), "widedeep": (SMALL, 0.003, 1), "tiny": (SMALL, 3e-7, 1.2)}


def wanted(model, batch):
    return 1.2 if model == "widedeep" and batch == 1 else MODELS[model][2]


class Process:
    """An engine that runs in its own process and responds to each line of input with a line of output. A process that
    has died is restarted."""
    question = staticmethod(json.dumps)

    def __init__(self, args, command):
        self.command = ["taskset", "-c", args.cores, *command]
        self.environment = dict(os.environ, T=str(args.threads), OMP_NUM_THREADS=str(args.threads))
        self.process = None
        self.said = tempfile.TemporaryFile("w+")

    def ask(self, question):
        if not self.process:
            self.said.truncate(0)
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            stderr=self.said, env=self.environment)
        try:
            self.process.stdin.write(self.question(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            self.stop()
            self.said.seek(0)
            lines = [text.strip() for text in self.said if text.strip()]
            told = [text for text in lines if text.startswith("slipway")] or lines[-1:]
            return {"error": told[0] if told else "ended"}
        return json.loads(line)

    def stop(self):
        if self.process:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


class Slipway(Process):
    """A `slipway run --on_line` process. Each line of its input is the duration of one measurement in milliseconds."""

    @staticmethod
    def question(q):
        return str(int(q["seconds"] * 1000))

    def ask(self, question):
        answer = super().ask(question)
        return answer | {"ms": answer["median_ms"]} if "median_ms" in answer else answer


def ours(args, model, batch, folder):
    """Measures Slipway with the same inputs as the other engines."""
    feeds = f"{folder}/{model}-{batch}.json"
    if not os.path.exists(feeds):
        subprocess.run([args.python[0], HERE / "engines.py", "feeds", model, str(batch), feeds], check=True)
    width = [f"--threads={args.threads}"]
    return Slipway(args, [args.slipway, "run", f"{args.models}/{model}/1", "--bench", "--json", "--on_line", *width,
                          "--inputs", feeds, *args.flag])


def peak(args):
    out = subprocess.run(["taskset", "-c", args.cores.split(",")[0].split("-")[0], ROOT / "build/release/tests/peak", "100"],
                         capture_output=True, text=True, check=True).stdout
    return float(out)


def case(args, peers, model, batch, folder):
    engines = {"slipway": ours(args, model, batch, folder), **peers}
    found, errors, peaks = {name: [] for name in engines}, {}, []
    try:
        for number in range(args.rounds + 1):  # Round 0 loads the model and warms it up.
            peaks.append(peak(args))
            for name, engine in engines.items():
                if name in errors:
                    continue
                seconds = args.seconds if number else args.warm if name == "slipway" else min(args.seconds, 0.3)
                answer = engine.ask({"model": model, "batch": batch, "seconds": seconds})
                if "error" in answer:
                    errors[name] = answer["error"]
                elif number:
                    found[name].append(answer["cpu_ms" if args.clock == "cpu" else "ms"])
    finally:
        engines["slipway"].stop()
    for name, error in errors.items():
        print(f"# {name} on {model}, batch {batch}: {error}", file=sys.stderr)
    return {name: statistics.median(v) for name, v in found.items() if v}, max(peaks)


def line(cells):
    widths = (15, 5, 10, 10, 10, 10, 7, 7, 9, 7)
    print(" ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(cells, widths))), flush=True)


def ms(value):
    return "-" if value is None else f"{value:.4f}" if value < 1 else f"{value:.2f}"


def main():
    parser = argparse.ArgumentParser(prog="./run bench engines", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (all)")
    parser.add_argument("--models", default=str(ROOT / "build/bench-models"), help="folder of make_models.py, to_onnx.sh")
    parser.add_argument("--batches", help="instead of each model's own: 1,8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", help="to pin to (0, or as many as threads)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of an engine's round")
    parser.add_argument("--warm", type=float, default=3.0, help="seconds that Slipway gets to compile its plan")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--python", default=sys.executable, help="that has numpy and the peers; or one for each peer: A,B,C")
    parser.add_argument("--slipway", default=str(ROOT / "build/release/slipway"))
    parser.add_argument("--flag", action="append", default=[], help="to slipway run as well: --flag=--winograd=off")
    args = parser.parse_args()
    args.cores = args.cores or ",".join(str(c) for c in sorted(os.sched_getaffinity(0))[:args.threads])
    if args.clock == "cpu" and args.threads > 1:
        parser.error("CPU time says nothing of several threads")
    args.python = args.python.split(",")
    names = args.peers.split(",") if args.peers else []
    for name in args.names:
        if name not in MODELS:
            parser.error(f"no model {name}: there are {', '.join(MODELS)}")
    for name in names:
        if name not in PEERS:
            parser.error(f"no peer {name}: there are {', '.join(PEERS)}")
    for name in args.names or MODELS:
        if not os.path.exists(f"{args.models}/{name}/1/saved_model.pb"):
            parser.error(f"{args.models}/{name}/1 is no SavedModel (make_models.py makes it)")
    pythons = args.python if len(args.python) == len(names) else args.python[:1] * len(names)
    peers = {name: Process(args, [python, HERE / "engines.py", name, args.models]) for name, python in zip(names, pythons)}
    print(f"# {args.threads} thread(s) on core(s) {args.cores}, {args.clock} clock, {args.rounds} rounds of {args.seconds} s; "
          f"ratio: best peer's time to ours")
    line(("model", "batch", "slipway ms", *(f"{n} ms" for n in PEERS), "ratio", "wanted", "GFLOP/s", "peak"))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            for model in args.names or MODELS:
                for batch in [int(b) for b in args.batches.split(",")] if args.batches else MODELS[model][0]:
                    found, top = case(args, peers, model, batch, folder)
                    mine, best = found.get("slipway"), min((found[n] for n in peers if n in found), default=None)
                    ratio = best / mine if mine and best else None
                    failed += ratio is None or ratio < wanted(model, batch)
                    speed = MODELS[model][1] * batch / mine * 1e3 if mine else None
                    line((model, batch, ms(mine), *(ms(found.get(n)) for n in PEERS), f"{ratio:.2f}" if ratio else "-",
                          f"{wanted(model, batch):.2f}", f"{speed:.1f}" if speed else "-", f"{top:.0f}"))
        finally:
            for p in peers.values():
                p.stop()
    print(f"# {failed} below what is wanted")


if __name__ == "__main__":
    main()
