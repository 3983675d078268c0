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

TIMES_OUT_S = 15  # time limit of a case, which only a run that ignores its deadline reaches
SUPPORT = pathlib.Path(__file__).resolve().parent.parent / "support"
ENVIRONMENT = {
    # The sanitizer aborts on a huge allocation, which shows that a size was not checked.
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:max_allocation_size_mb=2048:"
                    "allocator_may_return_null=0:hard_rss_limit_mb=4096:quarantine_size_mb=16",
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


def encode(case):
    """Returns the commands by which op_runner runs a case in an empty folder and tells how late each run ended and
    which code the case reached."""
    graph = graph_def(case)
    out = [b"CG", struct.pack("<q", len(graph)), graph]
    for feeds, step in case.runs():
        fetches, targets = [s for s in step if ":" in s], [s for s in step if ":" not in s]
        out += [b"R", struct.pack("<iii", len(feeds), len(fetches), len(targets))]
        for name, value in feeds.items():
            out += [struct.pack("<q", len(name)), name.encode(), value.raw()]
        out += [struct.pack("<q", len(n)) + n.encode() for n in fetches + targets] + [b"D"]
    return b"".join([*out, b"N"])


class Answer:
    """`steps` holds a list of tensors or a Refusal for each run, or the graph's Refusal alone if the graph is refused.
    `late_s` is the longest CPU time that a run used after its deadline, `took_s` is the time of the whole case, and
    `places` are those of the code that the child has not reached before, if it is built to tell them."""

    def __init__(self, steps, late_s, took_s, places):
        self.steps, self.late_s, self.took_s, self.places = steps, late_s, took_s, places


class Child:
    def __init__(self, path, tier, deadline_ms=2000, memory_mb=256):
        self.path, self.tier, self.process, self.errors = os.path.abspath(path), tier, None, None
        self.arguments = [*TIERS[tier], f"memory_mb={memory_mb}", f"deadline_ms={deadline_ms}", "analyse_rows"]
        self.folder = tempfile.TemporaryDirectory(prefix="opfuzz-")

    def start(self):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.path, *self.arguments, "remove_files"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, cwd=self.folder.name, env=dict(os.environ, **ENVIRONMENT))
        os.set_blocking(self.process.stdin.fileno(), False)
        self.buffer, self.at, self.unsent = bytearray(), 0, memoryview(b"")

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
        """Queues commands, which are sent while the answers are read."""
        self.deadline = time.monotonic() + TIMES_OUT_S
        self.unsent = memoryview(data)

    def exchange(self):
        """Sends and reads what is possible now."""
        left = self.deadline - time.monotonic()
        writers = [self.process.stdin] if self.unsent else []
        ready = select.select([self.process.stdout], writers, [], left) if left > 0 else ([], [], [])
        if not ready[0] and not ready[1]:
            raise self.died(f"no answer after {TIMES_OUT_S} s")
        if ready[1]:
            try:
                self.unsent = self.unsent[os.write(self.process.stdin.fileno(), self.unsent[:1 << 20]):]
            except BrokenPipeError:
                self.unsent = self.unsent[:0]  # The answers that the child has written can still be read.
        if ready[0]:
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise self.died()
            self.buffer += data

    def need(self, n):
        """Returns the position in `buffer` of the next `n` bytes."""
        while len(self.buffer) - self.at < n:
            del self.buffer[: self.at]
            self.at = 0
            self.exchange()
        self.at += n
        return self.at - n

    def read(self, n):
        at = self.need(n)
        return bytes(self.buffer[at : at + n])

    def unpack(self, form):
        return struct.unpack_from(form, self.buffer, self.need(struct.calcsize(form)))

    def text(self):
        return self.read(self.unpack("<q")[0])

    def status(self):
        code, n = self.unpack("<iq")
        text = self.read(n)
        return Refusal(code, text.decode(errors="replace")) if code else None

    def tensor(self):
        dtype, rank = self.unpack("<ii")
        shape = self.unpack(f"<{rank}q")
        if dtype == STRING:
            return Tensor(dtype, shape, [self.text() for _ in range(count(shape))])
        size = DTYPES.get(dtype, ("", 1))[1]
        return Tensor(dtype, shape, self.read(count(shape) * size))

    def answer(self, case):
        started = time.monotonic()
        self.deadline = started + TIMES_OUT_S
        self.status()  # of removing files
        refused = self.status()
        steps, late_us = [refused] if refused else [], 0
        for _, step in case.runs():
            failed = self.status()
            result = failed or [self.tensor() for s in step if ":" in s]
            self.need(4)
            late_us = max(late_us, int(self.text()))
            if not refused:
                steps.append(result)
        self.need(4)
        places = self.text()
        return Answer(steps, late_us / 1e6, time.monotonic() - started, struct.unpack(f"<{len(places) // 4}i", places))

    def run_all(self, cases, messages):
        """Returns an Answer or a Died for each case. `messages` holds the encoded cases. The cases are sent without
        waiting for answers, and those that follow a case that ends the child are sent to another child."""
        found = []
        while len(found) < len(cases):
            if self.process is None:
                self.start()
            self.send(b"".join(messages[len(found):]))
            try:
                for case in cases[len(found):]:
                    found.append(self.answer(case))
            except Died as e:
                found.append(e)
        return found

    def run(self, case):
        """Returns the steps of the case's answer."""
        found = self.run_all([case], [encode(case)])[0]
        if isinstance(found, Died):
            raise found
        return found.steps

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
