#!/usr/bin/env python3
"""Finds recursion in the built libraries: python3 tests/lint/cycles.py BUILD_FOLDER

The calls between functions are read from the objects with objdump. A function that takes another function's address is
treated as its caller, so recursion through a callback is found. For each recursion, cycles.txt names the functions that
bound its depth, and the bound. Without these functions the calls must form no cycle, so new recursion fails until
cycles.txt states its bound.

Calls through tables in data are seen only for the tables in TABLES. The other tables are: kernels and ops (no kernel
may reach rt_plan_run, which is checked here), rt_object_type.free (rt_object_unref uses a list instead of recursion),
and the methods of the APIs (srv_protocols, srv_grpc_methods), which the transports call and which call no
transport.

If a function that cycles.txt names is part of a second recursion, that recursion is not found. Neither is recursion
in other libraries: protobuf-c frees only messages in which proto/unpack.c has found at most 100 levels, and jansson
reads at most 2,048 levels.
"""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAYERS = {"base": "runtime/base", "proto": "proto", "runtime": "runtime", "kernels": "kernels",
          "server": "server", "client": "clients/c", "cli": "clients/cli", "http": "clients/http"}
ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cycles.txt")
# Functions that call every function in a table of the same file.
TABLES = {("runtime/passes/pipeline.c", "run_pass")}
# Suffixes that gcc appends to the names of copies of a function.
COPY = re.compile(r"\.(isra|constprop|part|cold)(\.\d+)?")


def source_of(folder, member):
    """Returns the source path of a member of an archive. For example, the member "gemm.c.o" of the archive of kernels/
    comes from kernels/matmul/gemm.c."""
    name = member[:-2]
    for at, folders, files in os.walk(os.path.join(ROOT, folder)):
        folders.sort()
        if name in files:
            return os.path.relpath(os.path.join(at, name), ROOT)
    return f"{folder}/{name}"


def read_calls(build):
    """Returns the functions that each function calls, as {(file, function): {(file, function), ...}}."""
    calls, names, seen = {}, collections.defaultdict(set), []
    for layer, folder in LAYERS.items():
        archive = os.path.join(build, f"lib{layer}.a")
        done = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", archive], text=True, check=True,
                              stdout=subprocess.PIPE)
        path = function = None
        at_once = False  # true if the previous line was a call whose relocation has not been read
        for line in done.stdout.splitlines():
            if match := re.match(r"(\S+\.o):\s+file format", line):
                path = source_of(folder, match.group(1))
            elif match := re.match(r"[0-9a-f]+ <([^>+]+)>:$", line):
                function = (path, COPY.sub("", match.group(1)))
                calls.setdefault(function, set())
                names[function[1]].add(function)
            elif match := re.search(r": R_\w+\s+([\w.*]+)", line):
                # Until the code is linked, only the relocation names the real target of a call.
                if at_once:
                    seen.pop()
                seen.append((function, COPY.sub("", match.group(1)), True))
                at_once = False
            elif match := re.search(r"<([A-Za-z_][\w.]*)>$", line):
                # A jump to the beginning of the same function is a loop, but a call is recursion.
                is_call = re.search(r"\t(call|bl)\w*\s", line) is not None
                seen.append((function, COPY.sub("", match.group(1)), is_call))
                at_once = True
            else:
                at_once = False
    for caller, name, is_call in seen:
        own = {f for f in names[name] if f[0] == caller[0]}
        for callee in own or names[name]:
            if callee != caller or is_call:
                calls[caller].add(callee)
    return calls


def read_tables(build, calls):
    """Adds the calls through TABLES. Only functions of other objects are found, because a relocation for a static
    function names only its section."""
    names = collections.defaultdict(set)
    for path, name in calls:
        names[name].add((path, name))
    for path, caller in TABLES:
        layer = next(name for name, folder in sorted(LAYERS.items(), key=lambda x: -len(x[1])) if path.startswith(folder + "/"))
        done = subprocess.run(["objdump", "-r", os.path.join(build, "CMakeFiles", f"{layer}.dir", path + ".o")],
                              text=True, check=True, stdout=subprocess.PIPE)
        called = set()
        for section, records in re.findall(r"RECORDS FOR \[([^]]+)\]:\n(.*?)(?=\n\n|\Z)", done.stdout, flags=re.S):
            for name in re.findall(r" R_\w+\s+(\w+)", records) if section.startswith(".data") else ():
                called |= names[name]
        if not called or (path, caller) not in calls:
            raise SystemExit(f"{path}: no table that {caller} calls through")
        calls[path, caller] |= called
    return calls


def components(calls, without):
    """Returns the sets of functions that reach each other when the functions in `without` are removed (Tarjan's
    algorithm)."""
    index, low, stack, inside, found = {}, {}, [], set(), []

    def visit(root):
        todo = [(root, iter(sorted(calls[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        inside.add(root)
        while todo:
            at, rest = todo[-1]
            for to in rest:
                if to in without:
                    continue
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    inside.add(to)
                    todo.append((to, iter(sorted(calls[to]))))
                    break
                if to in inside:
                    low[at] = min(low[at], index[to])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[at])
                if low[at] == index[at]:
                    members = set()
                    while at not in members:
                        members.add(stack.pop())
                    inside.difference_update(members)
                    if len(members) > 1 or at in calls[at]:
                        found.append(members)

    for function in sorted(calls):
        if function not in index and function not in without:
            visit(function)
    return found


def reaches(calls, target):
    callers = collections.defaultdict(set)
    for caller, callees in calls.items():
        for callee in callees:
            callers[callee].add(caller)
    found, todo = set(), [target]
    while todo:
        for caller in callers[todo.pop()] - found:
            found.add(caller)
            todo.append(caller)
    return found


def read_allowed():
    allowed = {}
    with open(ALLOWED, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                where, _, bound = line.partition(" : ")
                path, *functions = where.split()
                for function in functions:
                    allowed[path, function] = bound.strip()
    return allowed


def main():
    calls, allowed = read_tables(sys.argv[1], read_calls(sys.argv[1])), read_allowed()
    problems = []
    for members in components(calls, allowed):
        problems.append("recursion without a bound in cycles.txt: " +
                        ", ".join(f"{path} {name}" for path, name in sorted(members)))
    recursive = set().union(*components(calls, ()))
    for entry, bound in allowed.items():
        if not bound:
            problems.append(f"{entry[0]} {entry[1]}: cycles.txt states no bound")
        if entry not in recursive:
            problems.append(f"{entry[0]} {entry[1]} is in cycles.txt, but is not recursive")
    runs = ("runtime/exec/run_plan.c", "rt_plan_run")
    if runs not in calls:
        problems.append("there is no rt_plan_run")
    for path, name in sorted(reaches(calls, runs)):
        if path.startswith("kernels/"):
            problems.append(f"{path} {name} reaches rt_plan_run, which runs kernels")
    print("\n".join(problems) or f"{len(calls)} functions, {len(allowed)} bounds of recursion")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
