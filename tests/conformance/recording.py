"""Writes cases with TensorFlow's results to files. replay.py compares these results with Slipway's and needs no
TensorFlow.

There is one file per family, recorded/FAMILY.json.xz. The file contains a list of graphs, each with its cases. Graphs,
commands for op_runner, and tensors in op_runner's format are stored as base64."""

import base64
import json
import lzma
import pathlib
import random
import tempfile
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent / "recorded"
CASES_PER_OP = 10
MOST_BYTES = 8192  # limit on the size of a case's feeds and results; larger cases are not recorded


def chosen(cases, op):
    """Returns the cases of an op that are to be recorded. Cases with their own comparison function are left out,
    because replay.py cannot call it."""
    cases = [c for c in cases if not c.check and getattr(c, "records", True)]
    if len(cases) > 3 * CASES_PER_OP:
        cases = random.Random(zlib.crc32(op.encode())).sample(cases, 3 * CASES_PER_OP)
    return cases


def text(data):
    return base64.b64encode(data).decode("ascii")


class Recorder:
    def __init__(self, encode_tensor, encode_run):
        """`encode_tensor` encodes an array as bytes. `encode_run` encodes the command that runs a step of a built case."""
        self.encode_tensor, self.encode_run = encode_tensor, encode_run
        self.graphs, self.n_cases, self.n_of_op = [], 0, {}

    def result(self, answer):
        if not isinstance(answer, list):
            return {"code": answer.code, "text": answer.text}
        return [text(self.encode_tensor(x)) for x in answer]

    def case(self, built, theirs):
        steps = [{"run": text(self.encode_run(built, step)), "result": self.result(answer)}
                 for step, answer in zip(built.steps, theirs)]
        return {"op": built.case.op, "case": str(built.case)[:200], "steps": steps,
                "tolerance": built.case.tolerance, "texts": bool(getattr(built.case, "texts", False))}

    def add(self, graph_def, answered):
        """Adds the cases of a graph. `answered` is a list of pairs (Built, TensorFlow's results)."""
        cases = []
        files = tempfile.gettempdir().encode()
        for built, theirs in answered:
            op = built.case.op
            if self.n_of_op.get(op, 0) >= CASES_PER_OP:
                continue
            try:
                case = self.case(built, theirs)
                runs = b"".join(self.encode_run(built, step) for step in built.steps)
            except TypeError:  # a value of a type that op_runner cannot write, such as a variant
                continue
            if len(json.dumps(case)) > MOST_BYTES or files in graph_def or files in runs:
                continue  # the case needs a file that exists only during the recording
            self.n_of_op[op] = self.n_of_op.get(op, 0) + 1
            cases.append(case)
        if cases:
            self.n_cases += len(cases)
            self.graphs.append({"graph": text(graph_def), "cases": cases})

    def keep(self, family, ops):
        """Adds the cases of `ops` that the family's file contains already."""
        path = FOLDER / f"{family}.json.xz"
        if not ops or not path.exists():
            return
        for graph in json.loads(lzma.decompress(path.read_bytes()))["graphs"]:
            kept = [case for case in graph["cases"] if case["op"] in ops]
            if kept:
                self.n_cases += len(kept)
                self.n_of_op.update((case["op"], 1) for case in kept)
                self.graphs.append({"graph": graph["graph"], "cases": kept})

    def write(self, family):
        path = FOLDER / f"{family}.json.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps({"graphs": self.graphs}, separators=(",", ":"), sort_keys=True).encode()
        path.write_bytes(lzma.compress(data, preset=9))
        print(f"recorded {family}: {self.n_cases} cases of {len(self.n_of_op)} ops, {len(data)} bytes before compression")
