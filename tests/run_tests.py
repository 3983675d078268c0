#!/usr/bin/env python3
"""Implements `./run test` and `./run fuzz`, which build the tests and run them. The last line of `test` is "N passed, M
failed", counted over all programs, and the exit status is 1 if any test failed."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORES = len(os.sched_getaffinity(0))
ONE_RUN_S = 1200  # time limit of a single test program
BUILD_S = 3600  # time limit of a build, which may have to wait for tests
FUZZ_TOTAL_S = 60  # time that each core spends on the fuzz targets of `./run test`
FAULT_S = 200  # total time for the sample of faults that `./run test` injects, over all phases
SOAK_S = 30
FUZZ_OPS_S = 60
# Maximum number of test cases generated with seed 1. The limit lets machines of different speeds run the same cases.
FUZZ_OPS_CASES = 40000
# Time limit of bounds.py. Its cases take 10 s on an idle machine, except those of kind `square`, which take about 10
# min, and those of kind `value`, which take about 3 min.
BOUNDS_S = 40
THREADS = re.compile(r"^\[ THREADS  \] \d+$", flags=re.M)  # matches the line that tests/support/threads.c prints
DISK_GB = 6  # disk space that `./run test` needs
NOT_RUN = 77  # exit status of a program that cannot run on this machine
START = time.monotonic()
# End-to-end tests mostly wait (test_grpc_stall.py: 113 s with 15 s of CPU time), so more files than cores run at a
# time, also under sanitizers, where the tests have four times as much time. The files that took longest when they were
# measured start first, so that no long file runs alone at the end.
FILES_AT_A_TIME = 2 * CORES
LONGEST = ("test_gpus.py", "test_grpc_stall.py", "test_bad_trees.py", "test_life.py", "test_grpc_frames.py",
           "test_costly_loads.py", "test_grpc_services.py", "test_config.py", "test_haproxy.py", "test_rest_tls.py",
           "test_limits.py", "test_endless.py", "test_batching.py", "test_stress.py", "test_rest_transport.py")
# ThreadSanitizer does not run these files. The servers get their requests one at a time, and other files test the same
# threads.
NOT_IN_TSAN = ("test_bad_trees.py", "test_clients.py", "test_config_files.py", "test_descriptions.py",
               "test_documents.py", "test_examples.py", "test_gpu_models.py", "test_gpus.py", "test_haproxy.py",
               "test_images.py", "test_names_with_nul.py", "test_rest_reference.py", "test_run_verbs.py",
               "test_sequences.py")
# End-to-end tests of models, which run both with and without the tests' accelerator.
ACCELERATED_FILES = ("test_batching.py", "test_models.py", "test_warmup.py")
# Files that test the outputs of the runtime. They run twice: once with specialisation and once node by node. All other
# files test transports, configuration and the life cycle of versions, and do not depend on specialisation.
RUNTIME_FILES = ("test_batching.py", "test_clients.py", "test_costly_loads.py", "test_examples.py", "test_inference.py",
                 "test_models.py", "test_request_log.py", "test_rest_reference.py", "test_state.py",
                 "test_state_limit.py", "test_stress.py", "test_warmup.py")

# A pass over the end-to-end files: the words before the names of its files in the output, its environment variables,
# and its files, which are all if `only` is empty.
Pass = collections.namedtuple("Pass", "how env only", defaults=("", {}, ()))
WHOLE_PASS = Pass()
RELEASE_PASSES = (WHOLE_PASS,
                  Pass("node by node: ", {"SLIPWAY_FLAGS": "--specialise=off"}, RUNTIME_FILES),
                  Pass("accelerated: ", {"SLIPWAY_TEST_ACCELERATOR": "1"}, ACCELERATED_FILES))

# Suppresses reports about Debian's libraries, which are not built with the sanitizers.
SUPPRESSIONS = os.path.join(ROOT, "tests", "support")
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS}/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS}/tsan.supp:second_deadlock_stack=1",
}


class Tally:
    def __init__(self):
        self.passed, self.failed, self.names, self.not_run = 0, 0, [], []

    def add(self, name, passed, failed, seconds=None):
        self.passed += passed
        self.failed += failed
        if failed:
            self.names.append(name)
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        print(f"  {'FAIL' if failed else 'ok  '} {name}: {passed} passed, {failed} failed{took}",
              flush=True)


def timed(function, *args, **kw):
    """Calls `function` and returns (its result, the seconds that the call took)."""
    start = time.monotonic()
    answer = function(*args, **kw)
    return answer, time.monotonic() - start


def say(text):
    """Prints the text after the time since the start and the processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"[{time.monotonic() - START:6.0f} s, CPU {used.ru_utime + used.ru_stime:6.0f} s] {text}", flush=True)


def run(command, env=None, timeout=ONE_RUN_S, cwd=ROOT):
    """Returns (exit status, output). The status is 124 if the command exceeded its time limit."""
    full = dict(os.environ, **(env or {}))
    try:
        done = subprocess.run(command, cwd=cwd, env=full, timeout=timeout, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        return 124, (output if isinstance(output, str) else output.decode(errors="replace"))


def compile_targets(preset, targets, nice=()):
    """Builds the targets, or everything if there are none. The command `nice` starts the programs of the build. Returns
    (exit status, output)."""
    # A folder of an older checkout may have other options than the preset has now.
    status, output = run([*nice, "cmake", "--preset", preset])
    if status == 0:
        status, output = run([*nice, "cmake", "--build", "--preset", preset, "--target", *(targets or ["all"])],
                             timeout=BUILD_S)
    return status, output


def judge_build(tally, preset, status, output):
    """A build that fails counts as one failed test. Returns whether the build succeeded."""
    if status:
        print(output[-6000:])
        tally.add(f"build {preset}", 0, 1)
    return status == 0


def build(tally, preset, *targets):
    """Builds the targets and returns whether the build succeeded."""
    say(f"build {preset}")
    return judge_build(tally, preset, *compile_targets(preset, targets))


class Builds:
    """Builds presets one after another while tests run. The builds have the lowest priority, so that they use the time
    in which tests wait, and delay no test."""

    def __init__(self):
        self.pool, self.started = concurrent.futures.ThreadPoolExecutor(1), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)

    def start(self, preset, *targets):
        """Starts a build as soon as the earlier ones have ended."""
        self.started[preset] = self.pool.submit(self.one, preset, targets)

    @staticmethod
    def one(preset, targets):
        say(f"build {preset}, while tests run")
        answer, seconds = timed(compile_targets, preset, targets, nice=("nice", "-n", "19"))
        say(f"{preset} is built after {seconds:.0f} s")
        return answer

    def wait(self, tally, preset):
        """Waits for the end of a build and returns whether it succeeded."""
        if not self.started[preset].done():
            say(f"wait for the build of {preset}")
        return judge_build(tally, preset, *self.started[preset].result())


def perform(jobs, at_a_time):
    """Runs the jobs, of which `at_a_time` run at once. A job is a pair of functions: a thread calls the first one without
    arguments, and this thread calls the second one with its result. Results are reported in the order of the jobs."""
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        for (_, report), answer in zip(jobs, pool.map(lambda job: job[0](), jobs)):
            report(answer)


def cmocka_counts(status, output):
    """Returns (passed, failed). cmocka prints one PASSED line per group and, if any test failed, one FAILED line."""
    passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", output))
    failed = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) test", output))
    if not passed and not failed:
        passed = 1 if status == 0 else 0
    if status and not failed:
        failed = 1  # A crash, a leak or a race of a program is visible only in its exit status.
    return passed, failed


def unit(tally, preset, env=None, only=None, threaded=None):
    """Returns the jobs of ctest's test programs, or only of those named by `only`. The jobs add the names and programs of
    those that started a thread to the dictionary `threaded`."""
    status, output = run(["ctest", "--test-dir", os.path.join(ROOT, "build", preset),
                          "--show-only=json-v1"])
    if status:
        print(output)
        tally.add(f"{preset} unit", 0, 1)
        return []
    tests = [t for t in json.loads(output)["tests"] if only is None or t["name"] in only]
    say(f"{preset}: {len(tests)} test programs")

    def job(test, folder):
        def report(answer):
            (status, output), seconds = answer
            if threaded is not None and THREADS.search(output):
                threaded[test["name"]] = os.path.basename(test["command"][0])
            passed, failed = cmocka_counts(status, output)
            if failed:
                print(output[-6000:])
            tally.add(f"{preset} {test['name']}", passed, failed, seconds)

        return lambda: timed(run, test["command"], env, cwd=folder), report

    jobs = []
    for test in tests:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if preset == "release" or "lint" not in properties.get("LABELS", []):
            jobs.append(job(test, properties.get("WORKING_DIRECTORY", ROOT)))
    return jobs


def script_counts(status, output):
    """Returns (N, M) from a script's last line "N passed, M failed". If N and M are 0, or if M is 0 but the script
    ended with an error, M becomes 1."""
    last = re.findall(r"^(\d+) passed, (\d+) failed$", output, flags=re.M)
    passed, failed = (int(n) for n in last[-1]) if last else (0, 0)
    if not failed and (status or not passed):
        failed = 1
    return passed, failed


def end_to_end_files():
    """Returns a dictionary from the names of the end-to-end files to their paths."""
    return {path.name: path for path in pathlib.Path(ROOT, "tests", "e2e").rglob("test_*.py")}


def end_to_end(tally, preset, slow, env=None, passes=(WHOLE_PASS,), without=()):
    """Runs the end-to-end files of all passes, each file in its own process. Omits the files that `without` names."""
    # The passes follow one another, so that a file does not compete with itself.
    files = sorted(end_to_end_files(), key=lambda n: (LONGEST.index(n) if n in LONGEST else len(LONGEST), n))
    todo = [(name, one) for one in passes for name in files if (not one.only or name in one.only) and name not in without]
    say(f"{preset}: {len(todo)} runs of files of end-to-end tests")
    command = [sys.executable, "tests/e2e/run.py", f"build/{preset}"]
    env = dict(env or {}, SLIPWAY_SLOW=str(slow))
    # Generates the protobuf modules once, before several test files need them at the same time.
    run(command + ["no file"], env)

    def job(name, how, settings):
        def report(answer):
            (status, output), seconds = answer
            skipped = re.findall(r"^.* \.\.\. skipped (.*)$", output, flags=re.M)
            for reason in sorted(set(skipped)):
                tally.not_run.append(f"{preset} {how}{name}: {skipped.count(reason)} tests: {reason}")
            if skipped and not status and re.search("^0 passed, 0 failed$", output, flags=re.M):
                return
            passed, failed = script_counts(status, output)
            if failed:
                print(output[-12000:])
            tally.add(f"{preset} {how}{name}", passed, failed, seconds)

        return lambda: timed(run, command + [name], {**env, **settings}, timeout=2 * ONE_RUN_S), report

    perform([job(name, one.how, one.env) for name, one in todo], FILES_AT_A_TIME)


def container(tally):
    """Tests the container image on a machine that can build it. `./run container` installs the packages that a build
    needs."""
    say("container")
    (status, output), seconds = timed(run, [sys.executable, "tests/container/run.py"], timeout=1200)
    if status == NOT_RUN:
        print(output, end="")
        tally.not_run.append(output.strip())
        return
    passed, failed = script_counts(status, output)
    if failed:
        print(output[-6000:])
    tally.add("container", passed, failed, seconds)


def fuzz(tally, preset, seconds=None, only=()):
    """Runs each fuzz target of a build over its corpus for a few seconds. New inputs go to build/, not into the tree."""
    folder = os.path.join(ROOT, "build", preset, "tests", "fuzz")
    targets = sorted(n for n in os.listdir(folder)
                     if n.startswith("fuzz_") and os.access(os.path.join(folder, n), os.X_OK)
                     and os.path.isfile(os.path.join(folder, n)))
    if only:
        targets = [t for t in targets if t in only or t[len("fuzz_"):] in only]
    if not targets:
        return
    each = seconds or max(3, FUZZ_TOTAL_S * CORES // len(targets))
    say(f"{len(targets)} fuzz targets, {each} s each")

    def one(target):
        name = target[len("fuzz_"):]
        grown = os.path.join(ROOT, "build", preset, "corpus", name)
        os.makedirs(grown, exist_ok=True)
        seeds = os.path.join(ROOT, "tests", "fuzz", "corpus", name)
        command = [os.path.join(folder, target), f"-max_total_time={each}", "-timeout=60",
                   "-rss_limit_mb=3072", "-print_final_stats=0", "-verbosity=0", "-keep_seed=1",
                   f"-artifact_prefix={grown}/../{name}-", grown]
        if os.path.isdir(seeds):
            command.append(seeds)
        return target, run(command, SANITIZER_ENV, timeout=each + ONE_RUN_S)

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        for target, (status, output) in pool.map(one, targets):
            if status:
                print(output[-6000:])
            tally.add(target, 0 if status else 1, 1 if status else 0)


def by_script(tally, name, script, seconds):
    """Returns the job of a program of tests/fault that runs for `seconds`. The program's last line states the numbers of
    passed and failed tests."""
    def report(answer):
        (status, output), took = answer
        passed, failed = script_counts(status, output)
        if failed:
            print(output[-12000:])
        tally.add(name, passed, failed, took)

    return lambda: timed(run, [sys.executable, f"tests/fault/{script}.py", f"--seconds={seconds}"]), report


def ops(tally, preset, programs, folder="opfuzz", env=None):
    """Returns the jobs of programs of tests/opfuzz or another folder of tests/, which use the op_runner of this preset.
    `programs` holds (program, arguments)."""
    def job(name, arguments):
        label = " ".join([preset, folder, name, *(a for a in arguments if not a.startswith("--runner="))])

        def report(answer):
            (status, output), seconds = answer
            if status == NOT_RUN:
                tally.not_run.append(f"{label}: {output.strip().splitlines()[-1]}")
                return
            passed, failed = script_counts(status, output)
            if failed:
                print(output[-12000:])
            tally.add(label, passed, failed, seconds)

        return lambda: timed(run, [sys.executable, f"tests/{folder}/{name}", *arguments], env), report

    return [job(*program) for program in programs]


def replay(tally, preset, env=None):
    """Returns the jobs that compare op_runner's results with TensorFlow's recorded results, on the processor and on the
    fake GPU."""
    runner = f"--runner=build/{preset}/tests/op_runner"
    return ops(tally, preset, [("replay.py", [runner]), ("replay.py", [runner, "--gpu"])], "conformance", env)


def find_tests(name):
    """Returns the tests that the NAME of `./run test NAME` selects, as pairs of a kind and a value. The value is the
    name of a unit program or of a fuzz target, or the arguments of tests/e2e/run.py."""
    found, files = [], end_to_end_files()
    if any(pathlib.Path(ROOT, "tests", "unit").rglob(f"{name}.c")):
        found.append(("unit", name))
    if os.path.exists(os.path.join(ROOT, "tests", "fuzz", f"{name}.c")):
        found.append(("fuzz", name))
    file = name if name.endswith(".py") else f"{name}.py"
    if file in files:
        return found + [("e2e", [file])]
    for file, path in sorted(files.items()):
        if re.search(rf"^class {re.escape(name.split('.')[0])}\(", path.read_text(encoding="utf-8"), flags=re.M):
            found.append(("e2e", [file, name]))
    return found


def run_named(tally, names, preset, seconds):
    """Implements `./run test NAME...`, which runs unit programs, end-to-end files or classes, and fuzz targets."""
    found = [(name, find_tests(name)) for name in names]
    for name, tests in found:
        if not tests:
            print(f"{name} is no unit test, no end-to-end file or class, and no fuzz target", file=sys.stderr)
            return 2
    tests = [test for _, some in found for test in some]
    env = SANITIZER_ENV if preset in ("asan", "tsan") else {}
    targets = [what for kind, what in tests if kind == "unit"]
    if any(kind == "e2e" for kind, _ in tests):
        targets.append("slipway")
    for target in targets:
        if not build(tally, preset, target):
            return 1
    for kind, what in tests:
        if kind == "fuzz":
            if build(tally, "fuzz", "fuzzers"):
                fuzz(tally, "fuzz", seconds or 60, [what])
            continue
        if kind == "unit":
            status, output = run([os.path.join(ROOT, "build", preset, "tests", what)], env)
            passed, failed = cmocka_counts(status, output)
        else:
            slow = {"SLIPWAY_SLOW": "4" if env else "1"}
            status, output = run([sys.executable, "tests/e2e/run.py", f"build/{preset}", *what], dict(env, **slow),
                                 timeout=2 * ONE_RUN_S)
            passed, failed = script_counts(status, output)
        print(output, end="")
        tally.add(f"{preset} {what if kind == 'unit' else ' '.join(what)}", passed, failed)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


def test_release(tally, builds, is_quick):
    """Tests the release build and, unless is_quick is true, starts all other builds. Returns a dictionary of the unit
    programs that started a thread, as unit() does."""
    threaded = {}
    is_built = build(tally, "release")
    if is_built:
        # Each of these programs computes all the time, so one per core runs.
        perform([*unit(tally, "release", threaded=threaded),
                 *ops(tally, "release", [("visit.py", ["--driver=fake", "--part=server", f"--out={os.devnull}"])], "gpu"),
                 *ops(tally, "release", [*(("texts.py", [f"--part={k + 1}/{CORES}"]) for k in range(CORES)),
                                         ("bounds.py", [f"--seconds={BOUNDS_S}"]),
                                         ("bounds.py", ["--kind=square", f"--seconds={BOUNDS_S}"]),
                                         ("bounds.py", ["--kind=many"])]),
                 *replay(tally, "release")], CORES)
    if not is_quick:
        builds.start("asan", "tests", "fuzzers")
        # ThreadSanitizer can find nothing in a program with one thread.
        builds.start("tsan", "test_servers", *sorted(set(threaded.values())))
    if is_built:
        end_to_end(tally, "release", 1, passes=RELEASE_PASSES)
        say(f"soak, {SOAK_S} s")
        perform([by_script(tally, "soak", "soak", SOAK_S)], 1)
    return threaded


def test_sanitizers(tally, builds, threaded, seconds):
    """Runs the fuzz targets, and the tests under AddressSanitizer and ThreadSanitizer."""
    jobs = []
    if builds.wait(tally, "asan"):
        fuzz(tally, "asan", seconds)
        perform([*unit(tally, "asan", SANITIZER_ENV), *replay(tally, "asan", SANITIZER_ENV)], CORES)
        perform(ops(tally, "asan", [("fuzz.py", [f"--seconds={FUZZ_OPS_S}", f"--cases={FUZZ_OPS_CASES}"]),
                                    ("advisories.py", [])]), CORES)
        end_to_end(tally, "asan", 4, SANITIZER_ENV)
        jobs.append(by_script(tally, "faults", "run", FAULT_S))
    is_tsan_built = builds.wait(tally, "tsan")
    if is_tsan_built:
        jobs += unit(tally, "tsan", SANITIZER_ENV, threaded)
    # The faults mostly wait, so they need no core of their own.
    perform(jobs, CORES + 1)
    if is_tsan_built:
        end_to_end(tally, "tsan", 4, SANITIZER_ENV, without=NOT_IN_TSAN)


def main():
    parser = argparse.ArgumentParser(description=__doc__, usage="./run test [--quick] [--preset PRESET] [--seconds SECONDS] [NAME...]\n"
                                     "       ./run fuzz [--seconds SECONDS] [NAME...]")
    parser.add_argument("verb", choices=["test", "fuzz"], help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="release build only")
    parser.add_argument("--seconds", type=int, help="time for each fuzz target (fuzz: 60)")
    parser.add_argument("--preset", default="release", choices=["release", "debug", "asan", "tsan"],
                        help="the build that tests given by name run in (release)")
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="fuzz targets; of `test`: also unit programs (test_rows), end-to-end files "
                             "(test_life.py), their classes or CLASS.test_method")
    args = parser.parse_intermixed_args()
    tally = Tally()
    if args.verb == "test" and args.names:
        return run_named(tally, args.names, args.preset, args.seconds)
    if args.verb == "fuzz":
        if build(tally, "fuzz", "fuzzers"):
            fuzz(tally, "fuzz", args.seconds or 60, args.names)
    else:
        free = shutil.disk_usage(ROOT).free / 1e9
        if free < DISK_GB and not args.quick:
            say(f"warning: {free:.1f} GB of disk space are free, and all builds need up to {DISK_GB} GB")
        with Builds() as builds:
            threaded = test_release(tally, builds, args.quick)
            if not args.quick:
                container(tally)
                test_sanitizers(tally, builds, threaded, args.seconds)
    say("done")
    for reason in tally.not_run:
        print(f"not run: {reason}")
    for name in tally.names:
        print(f"failed: {name}")
    if tally.not_run:
        print(f"{len(tally.not_run)} parts not run")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
