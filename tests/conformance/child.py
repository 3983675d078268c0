"""Runs op_runner as a child process. Needs only numpy."""

import atexit
import os
import re
import shutil
import struct
import subprocess
import tempfile

import numpy as np


class Refusal:
    def __init__(self, code, text):
        self.code, self.text = code, text

    def __str__(self):
        return f"refused with code {self.code}: {self.text}"


def plain_text(text):
    """Returns an error message without the text that TensorFlow puts around it."""
    text = re.split(r"^Node: .*$", text, maxsplit=1, flags=re.M)[-1]
    text = re.sub(r"^Graph execution error:\s+", "", text)
    text = re.sub(r"goo\.gle/debug\w+ *\n?", "", text)  # removes the links that protobuf adds to debug strings
    return re.split(r"\n\t \[\[", text)[0].strip()


def enter_own_directory():
    """Changes to a temporary working directory, in which cases may write files under relative names. A recorded case cannot have
    other names."""
    place = tempfile.mkdtemp(prefix="slipway-cases-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    os.chdir(place)


def packed(data):
    return struct.pack("<q", len(data)) + data


def same_bits(theirs, ours):
    if isinstance(theirs, Refusal) or isinstance(ours, Refusal):
        return isinstance(theirs, Refusal) == isinstance(ours, Refusal)
    return all(a.shape == b.shape and (a.tobytes() == b.tobytes() if a.dtype != object else (a == b).all())
               for a, b in zip(theirs, ours))


class Child:
    """op_runner, which is restarted after it has died."""

    def __init__(self, path, tuning=(), env=None, cwd=None):
        self.path, self.tuning, self.env, self.cwd = path, tuning, env, cwd
        self.child = self.graph = None

    def dtype(self, number):
        raise NotImplementedError

    def start(self):
        self.child = subprocess.Popen([self.path, *self.tuning], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env, cwd=self.cwd)
        if self.graph is not None:
            return self.send_graph()

    def send(self, data):
        self.child.stdin.write(data)

    def load(self, graph_def):
        """Opens a session on the graph. Returns None, or a Refusal if the graph is refused."""
        self.graph = graph_def
        if self.child is None:
            return self.start()
        return self.send_graph()

    def send_graph(self):
        self.send(b"G" + packed(self.graph))
        self.child.stdin.flush()
        status = self.status()
        return status if status.code else None

    def read(self, n):
        data = self.child.stdout.read(n)
        if len(data) != n:
            raise EOFError
        return data

    def text(self):
        return self.read(struct.unpack("<q", self.read(8))[0])

    def status(self):
        code = struct.unpack("<i", self.read(4))[0]
        return Refusal(code, self.text().decode(errors="replace"))

    def serve(self):
        """Ends the loading phase. Returns a Refusal if op_runner reports an error, and otherwise None."""
        self.send(b"S")
        self.child.stdin.flush()
        status = self.status()
        return status if status.code else None

    def guarded(self, steps):
        """Calls each of the functions and returns their results. If op_runner dies, restarts it and returns a Refusal for
        each step."""
        try:
            return [step() for step in steps]
        except (EOFError, BrokenPipeError):
            code = self.child.wait()
            self.child = None
            self.start()
            return [Refusal(-1, f"op_runner died with {code}")] * len(steps)

    def command(self, data, n_fetches):
        """Sends a command that runs the graph. Returns the fetched arrays or a Refusal."""
        self.send(data)
        self.child.stdin.flush()
        status = self.status()
        status.text = plain_text(status.text)
        return status if status.code else [decode(self.read, self.dtype) for _ in range(n_fetches)]

    def end(self):
        self.child.stdin.close()
        return self.child.wait()


def decode(read, dtype_of):
    number, rank = struct.unpack("<ii", read(8))
    dims = struct.unpack(f"<{rank}q", read(8 * rank))
    n = int(np.prod(dims, dtype=np.int64))
    if number == 7:
        flat = np.empty(n, object)
        for i in range(n):
            flat[i] = read(struct.unpack("<q", read(8))[0])
        return flat.reshape(dims)
    if number in (20, 21):
        return np.empty(dims, object)
    d = dtype_of(number)
    return np.frombuffer(read(n * np.dtype(d).itemsize), d).reshape(dims)
