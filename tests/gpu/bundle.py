#!/usr/bin/env python3
"""Makes build/gpu/slipway-gpu.tar.xz from the release build: the programs, their libraries, and all that visit.py needs, to
be run on a machine with a GPU. That machine needs glibc 2.36 or later, Python 3 with numpy, and NVIDIA's driver and
libraries, but no compiler and no network:

    tar xf slipway-gpu.tar.xz && slipway-gpu/tests/gpu/visit.py
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
PROGRAMS = ("slipway", "tests/op_runner", "tests/fill_weights", "tests/test_driver_contract")
FILES = ("LICENSE", "kernels/cuda/table.c", "runtime/fusion/elementwise_steps.h", "models/digits", "tests/gpu/visit.py",
         "tests/gpu/peers.py", "tests/gpu/models", "tests/conformance/replay.py", "tests/conformance/child.py",
         "tests/conformance/comparing.py", "tests/conformance/recorded")
# Matches the libraries of glibc. A program must use the glibc of the machine on which the program runs.
OF_THE_MACHINE = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so.*")
MOST_BYTES = 64 << 20


def libraries(program):
    """Returns the files of the libraries with which a program is linked."""
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = [pathlib.Path(p) for p in re.findall(r"(/\S+) \(0x", text)]
    return [p for p in paths if not OF_THE_MACHINE.fullmatch(p.name)]


def fill(folder):
    for name in PROGRAMS:
        to = folder / "build" / "release" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["strip", "-o", to, BUILD / name], check=True)
        for library in libraries(BUILD / name):
            (folder / "lib").mkdir(exist_ok=True)
            shutil.copyfile(library.resolve(), folder / "lib" / library.name)
    for name in FILES:
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to)
        else:
            shutil.copy(ROOT / name, to)


def main():
    folder = ROOT / "build" / "gpu" / "slipway-gpu"
    archive = folder.with_suffix(".tar.xz")
    shutil.rmtree(folder.parent, ignore_errors=True)
    fill(folder)
    subprocess.run(["tar", "-C", folder.parent, "-cf", archive, "--xz", folder.name], check=True)
    shutil.rmtree(folder)
    size = archive.stat().st_size
    print(f"{archive.relative_to(ROOT)}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"the bundle may have {MOST_BYTES >> 20} MiB at most")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
