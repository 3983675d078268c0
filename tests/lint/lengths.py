#!/usr/bin/env python3
"""Checks the lengths of files, headers and functions, and the number of files in each folder. A file, function or folder
that exceeds its limit probably has more than one purpose. Each finding is printed on a line, and the exit status is 1
if there are any.

A function extends from its first line to its closing brace, which clang-format puts in the first column. EXCEPTIONS
names files and functions that may be longer, with the reason. An entry that is no longer needed is a finding too.
"""
import collections
import os
import re
import sys

from lint import ROOT, tracked

FILE, HEADER, FUNCTION, FOLDER = 800, 250, 80, 40
EXCEPTIONS = {  # maps a file, or a file and a function, to the reason for exceeding a limit
    "kernels/string/case_map.h": "a generated table",
    "kernels/string/encodings.h": "a generated table",
    "kernels/string/script_table.h": "a generated table",
}
C_FOLDERS = ("clients/", "kernels/", "proto/", "runtime/", "server/", "tests/")
NOT_MEASURED = ("tests/conformance/specs/",)  # specifications are tables


def begin_of(lines, brace):
    """Returns the number of the first line of the function whose body opens on line `brace`. Lines are numbered from
    0."""
    first = brace
    while first > 0:
        line = lines[first - 1].rstrip()
        if not line or line.startswith("#") or line.endswith((";", "}", "*/", "\\")) or line.startswith("//"):
            break
        first -= 1
    return first


def functions(text):
    """Yields (name, first line, number of lines) for each function in clang-format's layout."""
    lines = text.splitlines()
    for brace, line in enumerate(lines):
        if line != "{":
            continue
        first = begin_of(lines, brace)
        name = re.search(r"(\w+)\s*\(", " ".join(lines[first:brace]))
        end = next((i for i in range(brace, len(lines)) if lines[i] == "}"), None)
        if name and end is not None:
            yield name[1], first + 1, end - first + 1


def measure(path, text):
    """Yields (key, line, kind, length, limit) for the file and for each of its C functions."""
    n = text.count("\n")
    if path.endswith((".h", ".cuh")):
        yield path, 1, "the header", n, HEADER
    else:
        yield path, 1, "the file", n, FILE
    if not path.endswith(".py"):
        for name, line, length in functions(text):
            yield f"{path} {name}", line, name, length, FUNCTION


def main():
    findings, used, n_files, folders = [], set(), 0, collections.Counter()
    for path in tracked():
        is_c = path.endswith((".c", ".cc", ".h", ".cu", ".cuh")) and path.startswith(C_FOLDERS)
        if not (is_c or path.endswith(".py")):
            continue
        folders[os.path.dirname(path)] += 1
        if path.startswith(NOT_MEASURED):
            continue
        n_files += 1
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        for key, line, what, length, limit in measure(path, text):
            if length <= limit:
                continue
            if key in EXCEPTIONS:
                used.add(key)
            else:
                findings.append(f"{path}:{line}: {what} has {length} lines, at most {limit}")
    findings += [f"tests/lint/lengths.py: {key} is an exception, but is not too long"
                 for key in sorted(EXCEPTIONS.keys() - used)]
    findings += [f"{path}: {n} C and Python files, at most {FOLDER}" for path, n in sorted(folders.items()) if n > FOLDER]
    print("\n".join(findings) if findings else f"{n_files} files, {len(EXCEPTIONS)} exceptions")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
