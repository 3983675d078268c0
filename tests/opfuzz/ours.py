"""Slipway's side of the fuzzer. Runs an op_runner for each tier as a child process, and watches these processes for
crashes, sanitizer reports, hangs and leaks."""

import os
import pathlib
import re
import select
import shutil
import struct
import subprocess
import tempfile
import time

from case import DTYPES, STRING, Tensor, count, graph_def

TIMES_OUT_S = 15  # time limit of a case; only a run that ignores its deadline of 2 s reaches this limit
MEMORY_MB = 256  # memory limit of a run in megabytes
SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"
ENVIRONMENT = {
    # The sanitizer aborts on a huge allocation, which shows that a size was not checked.
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:max_allocation_size_mb=2048:"
                    "allocator_may_return_null=0:hard_rss_limit_mb=4096:quarantine_size_mb=64",
    "LSAN_OPTIONS": f"suppressions={SUPPORT}/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "OPENBLAS_NUM_THREADS": "1",
}
TIERS = {"node by node": ("no_autotune", "no_specialise"), "compiled": ("no_autotune",)}


class Refusal:
    def __init__(self, code, text):
        self.code, self.text = code, text

    def __str__(self):
        return f"refused with {self.code}: {self.text[:300]}"


class Died(Exception):
    """The child process has died. `text` describes how, and `signature` is a line that identifies the defect."""

    def __init__(self, signature, text):
        super().__init__(signature)
        self.signature, self.text = signature, text


def signature_of(text, code):
    """Returns one line that identifies a defect by the kind of report and the innermost functions of Slipway in the
    stack."""
    frames = re.findall(r"#\d+ 0x\w+ in (\w+) (\S+?/(?:kernels|runtime|proto|tests)/\S+)", text)
    where = " in " + ", ".join(f"{name} ({pathlib.Path(path).name})" for name, path in frames[:2]) if frames else ""
    where = re.sub(r":\d+(?=\))", "", where)
    found = re.search(r"runtime error: (.*)|ERROR: (\w+: [\w-]+)|(Assertion.*|assert.*)", text)
    if found:
        what = next(g for g in found.groups() if g)
        return re.sub(r"-?\b\d[\d.e+]*\b|0x\w+", "N", what)[:120] + where
    return f"ended with {code}" + where


def empty(folder):
    """Removes the files of an earlier case, so that the next case does not find them."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


class Child:
    def __init__(self, path, tier):
        self.path, self.tier, self.process, self.errors = os.path.abspath(path), tier, None, None
        self.arguments = [*TIERS[tier], f"memory_mb={MEMORY_MB}", "deadline_ms=2000"]
        self.folder = tempfile.TemporaryDirectory(prefix="opfuzz-")

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.path, *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        cwd=self.folder.name, env=dict(os.environ, **ENVIRONMENT))
        os.set_blocking(self.process.stdin.fileno(), False)
        self.buffer = bytearray()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.errors.close()
            self.process = None

    def died(self, why=None):
        """Returns an exception that contains the child's last output. The next case starts a new child."""
        code = None
        if why is None:
            try:
                code = self.process.wait(timeout=60)  # leaves time for the sanitizer to write its report
            except subprocess.TimeoutExpired:
                why = "closed its output and hangs"
        if code is None:
            self.process.kill()
            self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        self.stop()
        return Died(why or signature_of(text, code), text[-6000:])

    def send(self, data):
        self.deadline = time.monotonic() + TIMES_OUT_S
        view = memoryview(data)
        while view:
            ready = select.select([], [self.process.stdin], [], 1)[1]
            if self.process.poll() is not None:
                raise self.died()
            if time.monotonic() > self.deadline:
                raise self.died("takes no input")
            if ready:
                try:
                    view = view[os.write(self.process.stdin.fileno(), view[:65536]):]
                except BrokenPipeError:
                    raise self.died() from None

    def read(self, n):
        while len(self.buffer) < n:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise self.died(f"no answer after {TIMES_OUT_S} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise self.died()
            self.buffer += data
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def text(self):
        return self.read(struct.unpack("<q", self.read(8))[0])

    def status(self):
        code = struct.unpack("<i", self.read(4))[0]
        text = self.text().decode(errors="replace")
        return Refusal(code, text) if code else None

    def tensor(self):
        dtype, rank = struct.unpack("<ii", self.read(8))
        shape = struct.unpack(f"<{rank}q", self.read(8 * rank))
        if dtype == STRING:
            return Tensor(dtype, shape, [self.text() for _ in range(count(shape))])
        size = DTYPES.get(dtype, ("", 1))[1]
        return Tensor(dtype, shape, self.read(count(shape) * size))

    def run(self, case):
        """Returns a list of tensors or a Refusal for each step, or the graph's Refusal alone if the graph is
        refused."""
        if self.process is None:
            self.start()
        empty(self.folder.name)
        graph = graph_def(case)
        self.send(b"G" + struct.pack("<q", len(graph)) + graph)
        refused = self.status()
        if refused:
            return [refused]
        results = []
        for step in case.steps:
            fetches, targets = [s for s in step if ":" in s], [s for s in step if ":" not in s]
            out = [b"R", struct.pack("<iii", len(case.feeds), len(fetches), len(targets))]
            for name, value in case.feeds.items():
                out += [struct.pack("<q", len(name)), name.encode(), value.raw()]
            out += [struct.pack("<q", len(n)) + n.encode() for n in fetches + targets]
            self.send(b"".join(out))
            refused = self.status()
            results.append(refused or [self.tensor() for _ in fetches])
        return results

    def leaks(self):
        """Returns a Died if the cases that have run so far have leaked memory, otherwise None."""
        if self.process is None:
            return None
        self.send(b"L")
        self.deadline += 60
        if self.status() is None:
            return None
        self.process.stdin.close()
        self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")
        found = Died(signature_of("ERROR: LeakSanitizer: leak" + text[text.rfind("Direct leak"):], 0), text[-6000:])
        self.stop()
        return found
