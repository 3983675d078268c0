"""Runs TensorFlow in a child process, because some malformed graphs crash the process that runs them. The child runs
this file as a program. It reads a case as JSON from each line of standard input, and writes a pickled result for
each case to standard output."""

import os
import pathlib
import pickle
import resource
import select
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TIMES_OUT_S = 30
MEMORY = 8 << 30
# Fragments of error messages from shape inference. The last one is part of a message that Python cannot decode.
INFERRED = (" for '{{node", "ValueError: Input tensor must be int32 or int64, but was ",
            "ValueError: Need least two elements in shape_and_slice", "ValueError: Invalid value in tensor used for shape",
            "UnicodeDecodeError: ")


class Child:
    def __init__(self, python):
        self.python, self.process = python, None
        self.folder = tempfile.TemporaryDirectory(prefix="opfuzz-")

    def start(self):
        self.process = subprocess.Popen([self.python, os.path.abspath(__file__)], cwd=self.folder.name, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.read(300)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def read(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise EOFError
        head = self.process.stdout.read(8)
        if len(head) < 8:
            raise EOFError
        return pickle.loads(self.process.stdout.read(struct.unpack("<q", head)[0]))

    def ask(self, line):
        """Sends a case as JSON. Starts the child first if it is not running."""
        try:
            if self.process is None:
                self.start()
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except (EOFError, BrokenPipeError):
            self.stop()

    def answer(self):
        """Returns the results as ours.Child.run does, but with refusals as (code, message). Returns None if TensorFlow
        has died or hangs."""
        try:
            return self.read(TIMES_OUT_S) if self.process else None
        except (EOFError, BrokenPipeError):
            self.stop()
            return None

    def run(self, line):
        self.ask(line)
        return self.answer()


def main():
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output that TensorFlow prints must not mix with the results.
    import numpy as np
    import tensorflow as tf

    from case import DTYPES, STRING, Node, graph_def, load
    from ours import empty

    sys.path.insert(0, str(HERE.parent / "conformance"))
    from run import plain_text

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    tf.compat.v1.disable_eager_execution()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1

    def as_array(t):
        if t.dtype == STRING:
            return np.array(list(t.data) + [None], object)[:-1].reshape(t.shape)
        return np.frombuffer(t.data, tf.as_dtype(t.dtype).as_numpy_dtype).reshape(t.shape)

    def as_tuple(tensor, value):
        dtype = tensor.dtype.base_dtype.as_datatype_enum
        if dtype == STRING:
            value = np.asarray(value, object)
            return dtype, value.shape, [v if isinstance(v, bytes) else str(v).encode() for v in value.flat]
        value = np.asarray(value)
        return dtype, value.shape, np.ascontiguousarray(value).tobytes() if DTYPES.get(dtype, ("", 1))[1] else b""

    def hidden(case):
        """Returns a copy of the case in which TensorFlow sees neither the values of constants nor the shapes of feeds
        while it builds the graph. As in a server's session, it then infers no shapes from these values and shapes."""
        case = case.copy()
        for n in [n for n in case.nodes if n.op in ("Const", "Placeholder")]:
            if n.op == "Placeholder":
                n.attrs["shape"] = ["shape", None]
            else:
                case.nodes.append(Node(n.name + "_hidden", "Const", n.inputs, n.attrs))
                n.op, n.inputs = "PlaceholderWithDefault", [n.name + "_hidden"]
                n.attrs = {"dtype": n.attrs.get("dtype", ["type", 0]), "shape": ["shape", None]}
        return case

    def imported(case):
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(graph_def(case)), name="")
        return {k + ":0": as_array(v) for k, v in case.feeds.items()}

    def answer(case):
        results = answer_as_it_is(case)
        if len(results) == 1 and isinstance(results[0], tuple) and any(words in results[0][1] for words in INFERRED):
            return answer_as_it_is(hidden(case))
        return results

    def answer_as_it_is(case):
        graph = tf.Graph()
        with graph.as_default():
            try:
                feeds = imported(case)
            except tf.errors.OpError as e:
                return [(e.error_code, plain_text(e.message))]
            except Exception as e:  # TensorFlow's Python code refused the graph or a name.
                return [(3, f"{type(e).__name__}: {e}"[:2000])]
            results = []
            with tf.compat.v1.Session(graph=graph, config=config) as session:
                for step in case.steps:
                    try:
                        fetched = [graph.as_graph_element(n) for n in step]
                    # A name in the step does not exist, so the step is refused, but the other steps still run.
                    except (KeyError, ValueError) as e:
                        results.append((3, f"{type(e).__name__}: {e}"[:500]))
                        continue
                    try:
                        values = session.run(fetched, feeds)
                        results.append([as_tuple(f, v) for f, v in zip(fetched, values) if isinstance(f, tf.Tensor)])
                    except tf.errors.OpError as e:
                        results.append((e.error_code, plain_text(e.message)))
                    except UnicodeDecodeError:
                        results.append((None, ""))
                    except Exception as e:
                        results.append((None, f"{type(e).__name__}: {e}"[:500]))
        return results

    def put(value):
        data = pickle.dumps(value)
        out.write(struct.pack("<q", len(data)) + data)
        out.flush()

    put("ready")
    for line in sys.stdin:
        empty(".")
        put(answer(load(line)))


if __name__ == "__main__":
    main()
