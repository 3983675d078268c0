#!/usr/bin/env python3
"""Runs every test_*.py (unittest) of FOLDERS against one binary: run.py BUILD_DIR [PATTERN [NAME...]]. PATTERN selects
files by name. NAME is a class or CLASS.test_method in these files.

The tests find the binary in $SLIPWAY and generated Python messages on their path. $SLIPWAY_SLOW (1, or more under
sanitizers) is the factor by which they extend time limits and reduce the number of rounds. $SLIPWAY_FLAGS is passed to
every server: SLIPWAY_FLAGS=--specialise=off runs models node by node. If $SLIPWAY_TEST_ACCELERATOR is set, the tests
run slipway_accelerated, whose sessions use the tests' accelerator. The last line is "N passed, M failed"."""
import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = (HERE, os.path.join(HERE, "models"), os.path.join(HERE, "transport"))


def generate(out):
    """Generates Python messages and gRPC stubs from proto/, unless they are newer than every file of proto/."""
    protos = sorted(glob.glob(os.path.join(ROOT, "proto", "**", "*.proto"), recursive=True))
    # protobuf's own messages are left out, because Python's protobuf package has them.
    protos = [p for p in protos if f"{os.sep}google{os.sep}protobuf{os.sep}" not in p]
    stamp = os.path.join(out, "stamp")
    newest = max(os.path.getmtime(p) for p in protos)
    if os.path.exists(stamp) and os.path.getmtime(stamp) >= newest:
        return
    os.makedirs(out, exist_ok=True)
    subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), "--python_out", out,
                    "--grpc_out", out, "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin",
                    *protos], check=True)
    with open(stamp, "w", encoding="utf-8"):
        pass


def make_importable(out):
    """Appends the generated folders to the paths of the packages grpc and google. `import grpc` and `import google`
    then still find the installed packages, although the generated tree has folders of those names."""
    sys.path[:0] = FOLDERS
    sys.path.append(out)
    for name in ("grpc", "google"):
        try:
            package = __import__(name)
        except ImportError:
            continue
        path = getattr(package, "__path__", None)
        if path is not None and hasattr(path, "append"):
            path.append(os.path.join(out, name))


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                            os.path.join(ROOT, "build", "release"))
    pattern = sys.argv[2] if len(sys.argv) > 2 else "test_*.py"
    accelerated = "SLIPWAY_TEST_ACCELERATOR" in os.environ
    binary = os.path.join(build, "tests/slipway_accelerated" if accelerated else "slipway")
    os.environ["SLIPWAY"] = binary
    os.environ.setdefault("SLIPWAY_SLOW", "1")
    if not os.path.exists(binary):
        print(f"{binary} is not there\n0 passed, 1 failed")
        return 1
    out = os.path.join(ROOT, "build", "python")
    generate(out)
    make_importable(out)
    loader = unittest.TestLoader()
    if len(sys.argv) > 3:  # unittest matches these patterns against MODULE.CLASS.METHOD
        loader.testNamePatterns = [f"*.{name}" if "." in name else f"*.{name}.*" for name in sys.argv[3:]]
    suite = unittest.TestSuite(loader.discover(folder, pattern, folder) for folder in FOLDERS)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    passed = result.testsRun - failed - sum(isinstance(test, unittest.TestCase) for test, _ in result.skipped)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
