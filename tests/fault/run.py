#!/usr/bin/env python3
"""Implements `./run fault`, which makes libc calls in the server's own code fail, one at a time, in each phase of
PHASES. After each fault the server must be alive, respond correctly, use no memory for requests, and serve every
version.

Each phase runs once while its calls are counted by call stack. The phase then runs again for each of these stacks (with
--all, for every single call) while that call fails. Calls for memory, descriptors or files fail once alone, and once
together with all later calls of the same stack. During a fault, every response must be correct or be RESOURCE_EXHAUSTED
or UNAVAILABLE.

`start` and `drain` need a process for each fault. All other faults share one process, so that later requests show what
a fault has broken. Even with --all, `start` does not fail every single call, because most of its calls are made while
models are loaded, and `swap`, `add` and `drop` test these calls one by one. The last line is "N passed, M failed", counting
faults."""
import argparse
import collections
import concurrent.futures
import importlib.util
import os
import random
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "tests")]

# pylint: disable=wrong-import-position
from control import EVER, KINDS, Control, symbols  # noqa: E402
from run_tests import SANITIZER_ENV  # noqa: E402

FILES = ("open", "read", "short", "stat", "mmap", "write")
PHASES = {  # Maps a phase to (flags of the server, method of Served that makes the request).
    "swap": ("", "swap"),
    "add": ("", "add_and_remove"),
    "label": ("", "label"),
    "shape": ("", "new_shape"),
    "connect": ("", "new_connection"),
    "rest predict": ("", "rest_predict"),
    "rest columns": ("", "rest_columns"),
    "rest strings": ("", "rest_strings"),
    "rest classify": ("", "rest_classify"),
    "rest regress": ("", "rest_regress"),
    "rest gzip": ("", "rest_gzip"),
    "rest large": ("", "rest_large"),
    "rest info": ("", "rest_info"),
    "rest wrong": ("", "rest_wrong"),
    "grpc predict": ("", "grpc_predict"),
    "grpc many": ("", "grpc_many"),
    "grpc large": ("", "grpc_large"),
    "grpc examples": ("", "grpc_examples"),
    "grpc session": ("", "grpc_session"),
    "grpc info": ("", "grpc_info"),
    "grpc health": ("", "grpc_health"),
    "grpc reflection": ("", "grpc_reflection"),
    "digits": ("", "digits"),
    "batch": ("--enable_batching=true --batching_parameters_file=@/batching", "batch"),
    "node by node": ("--specialise=off --inline_max_us=0", "digits"),
    "snapshot": ("--model_write_directories=@", "snapshot"),
    "rotate": ("--request_log_file_bytes=1K", "rest_predict"),
    "drop": ("", "drop"),
    "file again": ("", "file_again"),
    "secure": ("", "rest_predict"),
    "secure connect": ("", "new_connection"),
    "start": ("--autotune_cache=@/tuned --num_rest_threads=2 --num_grpc_threads=2", None),
    "start tuned": ("--autotune_cache=@/tuned", None),
    "drain": ("", None),
}


def made_as(phase):
    """Returns the settings of a phase's server that are not command-line flags."""
    return {"small": phase.startswith("start"), "watched": phase == "drop",
            "secure": "secure" in phase or phase.startswith("start")}


class Report:
    def __init__(self, binary):
        self.binary = binary
        self.done, self.failed = collections.Counter(), []
        self.outcomes = collections.Counter()
        self.calls, self.planned = {}, {}

    def wrong(self, phase, what, stack, error):
        where = symbols(self.binary, stack)
        self.failed.append((phase, what, where))
        print(f"FAILED {phase}: {what}\n  at {where}\n  {error}", flush=True)

    def tell_phase(self, phase, seconds):
        calls = {k: v for k, v in self.calls.get(phase, {}).items() if v}
        of = ", ".join(f"{v} {k}" for k, v in calls.items())
        seen = ", ".join(f"{v} {k[1]}" for k, v in sorted(self.outcomes.items()) if k[0] == phase)
        print(f"  {phase}: {self.done[phase]} of {self.planned.get(phase)} faults in {seconds:.0f} s, of calls: {of}; came: {seen}",
              flush=True)

    def missed(self, phase):
        """Returns the number of planned faults whose call the phase did not reach in this run."""
        return self.outcomes[phase, "not reached"]

    def check_phase(self, phase):
        """A phase in which no call has failed tests nothing, so it counts as a failure."""
        if self.done[phase] == self.missed(phase) and not any(p == phase for p, _, _ in self.failed):
            self.wrong(phase, f"none of {self.planned.get(phase)} faults was reached", (), "the harness, or what it asks for")

    def tell(self, seconds):
        total, missed = sum(self.done.values()), sum(self.missed(p) for p in self.done)
        print(f"{total} faults in {seconds:.0f} s, {missed} of them not reached")
        print(f"{total - missed - len(self.failed)} passed, {len(self.failed)} failed", flush=True)


class Campaign:
    """Runs one phase once for each of its planned faults."""

    def __init__(self, args, report, control, served_module, phase):
        self.args, self.report, self.control = args, report, control
        self.module, self.phase = served_module, phase
        self.dice = random.Random(args.seed)
        self.kinds = tuple(args.kind or KINDS)
        self.served = None
        self.expected_digits = None  # the response of the model `digits` from a process without faults
        self.tuned = None  # path of the file that autotuning has written
        self.known = set()  # hashes of the stacks at which another phase already makes calls fail

    def new_served(self):
        served = self.module.Served(self.control, *PHASES[self.phase][0].split(),
                                    **made_as(self.phase))
        served.expected_digits = self.expected_digits
        if self.tuned:
            with open(served.path("tuned"), "wb") as file:
                file.write(self.tuned)
        return served

    def is_over(self, until):
        return time.monotonic() > until or len(self.report.failed) > self.args.failures

    # ---- which faults ----

    def targets(self, calls, found):
        """Returns (description, arguments of `arm`) for each planned fault. The first faults are in distinct functions.
        Additional faults in the same functions follow."""
        once, later, seen = [], [], set()
        found = [f for f in found if f[0] in self.kinds and f[1] not in self.known]
        self.dice.shuffle(found)
        for kind, hashed, _, stack in found:
            near = (kind, tuple(stack[:2]))
            (later if near in seen else once).append(
                (f"{kind} at one place", {"kinds": (kind,), "stack": hashed}))
            if near not in seen and kind in ("memory", "descriptor", "open"):
                later.append((f"{kind} at one place, each time",
                              {"kinds": (kind,), "stack": hashed, "n": EVER}))
            seen.add(near)
        singles = []
        if self.args.all and not self.phase.startswith("start"):
            singles = [(f"{kind} {n} of {calls[kind]}", {"kinds": (kind,), "first": n})
                       for kind in self.kinds for n in range(1, calls[kind] + 1)]
        else:
            for kind in self.kinds:
                if calls[kind]:
                    later.append((f"all {kind}", {"kinds": (kind,), "n": EVER}))
        self.dice.shuffle(later)
        return once + later + singles

    # ---- phases of one process ----

    def begin(self):
        self.served = self.new_served()
        self.control.describe(())
        self.served.start()
        self.served.warm()
        for _ in range(3):
            getattr(self.served, PHASES[self.phase][1])()
        self.served.repair()
        self.served.probe()
        self.served.note_level()

    def finish(self):
        error = self.served.end()
        self.served.clear()
        self.served = None
        if error:
            self.report.wrong(self.phase, "the end of the process", (), error)

    def one(self, request, what, how):
        served, report, phase = self.served, self.report, self.phase
        lasting = how.get("n", 1) == EVER
        error = None
        # During a lasting fault, a response may never arrive, so the time limit is short.
        served.wait = SHORT if lasting else self.module.WAIT
        self.control.arm(**how)
        try:
            getattr(served, request)()
            outcome = "right"
        except self.module.Refused as refused:
            outcome = str(refused).split(":", maxsplit=1)[0]
        except self.module.Late as late:
            outcome, error = "late", late
        except self.module.Wrong as wrong:
            outcome, error = "wrong", wrong
        except Exception as other:  # pylint: disable=broad-except
            outcome, error = "wrong", repr(other)
        fired, stack = self.control.fired()
        self.control.quiet()
        served.wait = self.module.WAIT
        if lasting and outcome == "late" and (request in LONG or "descriptor" in how["kinds"]):
            outcome, error = "did not come", None  # a response may be late while the fault lasts
        try:
            if not error or request in LONG:
                served.repair()
            served.probe()
            allowed = self.module.LOAD_CODES
            if set(how["kinds"]) & set(FILES):
                # DATA_LOSS means that a file could not be read. The server tries the load again.
                allowed += ("DATA_LOSS",)
            for code, text in served.failed_loads():
                if code not in allowed:
                    raise self.module.Wrong(f"a load failed so: {code}: {text}")
            if not error and lasting or request in LONG:
                getattr(served, request)()
        except (self.module.Wrong, self.module.Refused, AssertionError) as late:
            error = f"{error or ''} afterwards: {late}"
        except Exception as other:  # pylint: disable=broad-except
            error = f"{error or ''} afterwards: {other!r}"
        if not fired:
            outcome = "not reached"
        report.done[phase] += 1
        report.outcomes[phase, outcome] += 1
        if error:
            report.wrong(phase, what, stack, error)
        return not error

    def run_phase(self, request, until):
        self.begin()
        self.control.trace(self.kinds)
        getattr(self.served, request)()
        self.control.quiet()
        calls, found = self.control.calls()
        self.report.calls[self.phase] = calls
        targets = self.targets(calls, found)
        self.report.planned[self.phase] = len(targets)
        for what, how in targets:
            if self.is_over(until):
                break
            if not self.one(request, what, how) and not self.is_well():
                self.finish()  # The server has died or is in an unknown state, so it is replaced.
                self.begin()
        self.finish()

    def is_well(self):
        try:
            self.served.repair()
            self.served.probe()
            return True
        except Exception:  # pylint: disable=broad-except
            return False

    # ---- phases that take a process each ----

    def new_process(self, how, armed):
        """Runs a phase in its own process. The fault is armed from the start if `armed` is true, otherwise just before
        SIGTERM. Returns a description of the failure, or None."""
        served, phase = self.new_served(), self.phase
        try:
            if armed:
                self.control.arm(**how)
            else:
                self.control.describe(())
            try:
                served.start(wait=False)
                ready = self.wait_ready(served)
            except AssertionError as error:
                return f"not ready: {error}"
            if not ready:
                status, text = served.server.process.returncode, served.server.log() + served.server.out()
                if status <= 0 or "Sanitizer" in text or "runtime error" in text or not text:
                    return f"ended at its start with {status}: {text[-4000:]}"
                self.report.outcomes[phase, "refused to start"] += 1
                return None
            if armed:
                self.control.quiet()
                served.repair()
                served.probe()
                self.report.outcomes[phase, "right" if self.control.fired()[0] else "not reached"] += 1
            else:
                served.warm()
                asked = threading.Thread(target=self.ask_and_forget, args=(served,))
                asked.start()
                self.control.arm(**how)
                error = served.end()
                asked.join()
                # while memory stays exhausted, only the time limit for the drain can end the process
                limit = f"exit status -{signal.SIGALRM.value}:"
                if error and how.get("n") == EVER and error.startswith(limit):
                    self.report.outcomes[phase, "ended by its limit"] += 1
                    return None
                self.report.outcomes[phase, "right" if self.control.fired()[0] else "not reached"] += 1
                return error
            return served.end()
        except Exception as error:  # pylint: disable=broad-except
            return f"{error!r} {served.server.log()[-2000:]}"
        finally:
            self.control.quiet()
            served.clear()

    @staticmethod
    def ask_and_forget(served):
        try:
            served.grpc_large()
        except Exception:  # pylint: disable=broad-except
            pass

    def wait_ready(self, served):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if served.server.process.poll() is not None:
                return False
            try:
                if served.is_ready():
                    return True
            except AssertionError:
                return False
            if self.control.fired()[0] and time.monotonic() > end - 50:
                # ends the fault, because otherwise the server would retry the failing call forever
                self.control.quiet()
            time.sleep(0.01)
        raise AssertionError("60 s: " + served.server.log()[-2000:])

    def tune(self):
        """Runs a server as the phase `start` does, but without any fault, so that it writes its autotune file."""
        served = self.new_served()
        self.control.trace(self.kinds)
        served.start()
        served.warm()
        self.control.quiet()
        self.known = {found[1] for found in self.control.calls()[1]}
        error = served.end()
        with open(served.path("tuned"), "rb") as file:
            self.tuned = file.read()
        served.clear()
        if error or not self.tuned:
            raise self.module.Wrong(f"nothing was written by autotune: {error}")

    def run_processes(self, until):
        armed, phase = self.phase.startswith("start"), self.phase
        if phase == "start tuned":
            self.tune()
        served = self.new_served()
        self.control.describe(())
        if armed:
            self.control.trace(self.kinds)
        served.start()
        served.warm()
        self.expected_digits = served.expected_digits
        if not armed:
            self.control.trace(self.kinds)
        else:
            self.control.quiet()
        error = served.end()
        self.control.quiet()
        served.clear()
        calls, found = self.control.calls()
        self.report.calls[phase] = calls
        if error:
            self.report.wrong(phase, "without any fault", (), error)
            return
        targets = self.targets(calls, found)
        self.report.planned[self.phase] = len(targets)
        for what, how in targets:
            if self.is_over(until):
                return
            error = self.new_process(how, armed)
            self.report.done[phase] += 1
            if error:
                self.report.wrong(phase, what, self.control.fired()[1], error)

    def run(self, until):
        begun = time.monotonic()
        request = PHASES[self.phase][1]
        try:
            if request is None:
                self.run_processes(until)
            else:
                self.run_phase(request, until)
        except Exception as error:  # pylint: disable=broad-except
            log = self.served.server.log()[-3000:] if self.served and self.served.server else ""
            self.report.wrong(self.phase, "what is done without any fault", (), f"{error!r} {log}")
            if self.served:
                self.served.clear()
        if not self.is_over(until):
            self.report.check_phase(self.phase)
        self.report.tell_phase(self.phase, time.monotonic() - begun)


def run(args, report, served_module):
    """Runs the phases, several at a time. Each phase gets an equal share of the time that remains."""
    phases, lock = list(args.phase or PHASES), threading.Lock()
    end = time.monotonic() + args.seconds if args.seconds else float("inf")

    def work():
        with tempfile.NamedTemporaryFile(prefix="slipway-fault-") as file:
            control = Control(file.name)
            while True:
                with lock:
                    if not phases or len(report.failed) > args.failures:
                        return
                    now = time.monotonic()
                    until = now + (end - now) * min(1, args.jobs / len(phases))
                    phase = phases.pop(0)
                Campaign(args, report, control, served_module, phase).run(until)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in [pool.submit(work) for _ in range(args.jobs)]:
            done.result()


SHORT = 2
LONG = ("new_connection", "swap", "add_and_remove", "label", "drop", "file_again")


def main():
    parser = argparse.ArgumentParser(prog="./run fault", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build", "asan"))
    parser.add_argument("--all", action="store_true", help="every call, however long it takes")
    parser.add_argument("--seconds", type=float, help="for all phases together")
    parser.add_argument("--failures", type=int, default=20, help="after which it ends")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="phases at a time")
    parser.add_argument("--phase", action="append", choices=list(PHASES))
    parser.add_argument("--kind", action="append", choices=KINDS)
    args = parser.parse_args()
    binary = os.path.abspath(os.path.join(args.build, "tests", "slipway_fault"))
    os.environ["SLIPWAY"] = binary
    os.environ.update(SANITIZER_ENV)
    os.environ.setdefault("SLIPWAY_SLOW", "3" if "san" in args.build else "1")
    spec = importlib.util.spec_from_file_location(
        "end_to_end", os.path.join(ROOT, "tests", "e2e", "run.py"))
    end_to_end = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(end_to_end)
    out = os.path.join(ROOT, "build", "python")
    end_to_end.generate(out)
    end_to_end.make_importable(out)
    import served  # pylint: disable=import-outside-toplevel
    report = Report(binary)
    begun = time.monotonic()
    run(args, report, served)
    report.tell(time.monotonic() - begun)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
