#!/usr/bin/env python3
"""Compiles each installed header alone, with only the installed headers on the include path: headers.py COMPILER
HEADER... (paths from the repository's root, as programs include them). Then compiles the library's example in the same
way. The exit status is 0 if all of them compile."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = "runtime/examples/run_model.c"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def compiles(compiler, folder, source):
    done = subprocess.run([compiler, "-std=c11", *WARNINGS, "-fsyntax-only", "-I", folder, source],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        print(done.stdout.strip())
    return done.returncode == 0


def main():
    compiler, headers = sys.argv[1], sys.argv[2:]
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for header in headers:
            os.makedirs(os.path.join(folder, os.path.dirname(header)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, header), os.path.join(folder, header))
        for header in headers:
            alone = os.path.join(folder, "alone.c")
            with open(alone, "w", encoding="utf-8") as file:
                file.write(f'#include "{header}"\nint unused;\n')
            if not compiles(compiler, folder, alone):
                bad.append(f"{header} does not compile by itself")
        if not compiles(compiler, folder, os.path.join(ROOT, EXAMPLE)):
            bad.append(f"{EXAMPLE} does not compile with the installed headers")
    print("\n".join(bad) if bad else f"{len(headers)} headers compile by themselves")
    return 1 if bad or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
