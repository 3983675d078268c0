#!/usr/bin/env python3
"""Checks that the folders of a layer form no cycle: python3 tests/lint/links.py BUILD_FOLDER [--graph LAYER]

The dependencies between objects are read from their symbols with nm. The folders of each layer in LAYERS must form
no cycle, so that each folder can be understood without the folders that use it. At most 4 objects may depend on each
other in a cycle. A file in a layer's root folder may use all of the layer's folders.

The contract of each source file must be in a header. This is a header of the same name, a header of its folder that
the file includes, or a header that names the file. A source of kernels/ that defines only rows of the table of ops
needs no header.

--graph prints the dependencies between a layer's folders and between its objects, with the symbols that cause each
edge, and the cycles. With --cyclic it prints only the edges that lie in a cycle.
"""
import argparse
import collections
import functools
import os
import pathlib
import re
import subprocess
import sys

LAYERS = ("server", "runtime")
MOST_OBJECTS = 4  # the permitted number of objects in a cycle
# Slipway's functions that replace library functions (server/grpc/grpc_frames.h). A call of a replacement is treated as
# a call of the library's function.
STANDING_BEFORE = {"accept4", "close", "recvmsg", "sendmsg", "SSL_do_handshake", "SSL_read",
                   "SSL_write"}


@functools.cache
def read_objects(root):
    """Returns {object: the symbols that it needs}, {symbol: the object that defines it}, and the objects that define
    functions that other objects can call. Objects are named by the paths of their sources."""
    needs, home, callable_objects = {}, {}, set()
    for folder, _, files in os.walk(root):
        for name in files:
            if not name.endswith(".o"):
                continue
            path = os.path.join(folder, name)
            source = os.path.relpath(path, root)[:-2]
            if not os.path.exists(os.path.join(os.path.basename(root), source)):
                continue  # skips an object whose source has been removed
            done = subprocess.run(["nm", "-P", path], text=True, check=True, stdout=subprocess.PIPE)
            needs[source] = set()
            for symbol, kind in re.findall(r"^(\S+) (\w)", done.stdout, flags=re.M):
                if kind in "TW":
                    callable_objects.add(source)
                if kind == "U":
                    needs[source].add(symbol)
                elif kind.isupper() and symbol not in STANDING_BEFORE:
                    home[symbol] = source
    return needs, home, callable_objects


def cycles(graph):
    """Returns the strongly connected components of more than one node (Tarjan's algorithm)."""
    index, low, stack, inside, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        inside.add(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in inside:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                inside.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def read_graph(build, layer):
    """Returns {object: objects that it needs}, {folder: folders that it needs}, {(object, object): symbols that
    make the edge}."""
    needs, home, _ = read_objects(os.path.join(build, "CMakeFiles", f"{layer}.dir", layer))
    objects, folders = {o: set() for o in needs}, collections.defaultdict(set)
    edges = collections.defaultdict(set)
    for source, symbols in needs.items():
        folders[os.path.dirname(source)] |= set()
        for symbol in symbols & home.keys():
            target = home[symbol]
            if target == source:
                continue
            objects[source].add(target)
            edges[source, target].add(symbol)
            if os.path.dirname(source) != os.path.dirname(target):
                folders[os.path.dirname(source)].add(os.path.dirname(target))
    return objects, folders, edges


def print_graph(build, layer, cyclic):
    objects, folders, edges = read_graph(build, layer)
    groups = cycles(objects), cycles(folders)

    def in_cycle(a, b):
        return any(a in members and b in members for members in groups[0] + groups[1])

    for a in sorted(folders):
        for b in sorted(folders[a]):
            if cyclic and not in_cycle(a, b):
                continue
            print(f"{a} -> {b}")
            for (x, y), symbols in sorted(edges.items()):
                if os.path.dirname(x) == a and os.path.dirname(y) == b:
                    print(f"    {x} -> {y}: {', '.join(sorted(symbols))}")
    for (x, y), symbols in sorted(edges.items()):
        if os.path.dirname(x) == os.path.dirname(y) and (not cyclic or in_cycle(x, y)):
            print(f"{x} -> {y}: {', '.join(sorted(symbols))}")
    print(f"{layer}: {len(objects)} objects, {len(edges)} edges; {len(folders)} folders, "
          f"{sum(len(to) for to in folders.values())} edges")
    for kind, found in zip(("objects", "folders"), groups):
        for members in found:
            print(f"{layer}: a cycle of {len(members)} {kind}: {', '.join(members)}")


def check(build, layer):
    objects, folders, edges = read_graph(build, layer)
    why = {}
    for (source, target), symbols in sorted(edges.items()):
        pair = os.path.dirname(source), os.path.dirname(target)
        why.setdefault(pair, f"{source} needs {min(symbols)} of {target}")
    problems = []
    for members in cycles(folders):
        problems.append(f"{layer}: folders in a cycle: {', '.join(members)}")
        problems += [f"    {why[a, b]}" for a in members for b in members if (a, b) in why]
    for members in cycles(objects):
        if len(members) > MOST_OBJECTS:
            problems.append(f"{layer}: {len(members)} objects in a cycle, at most {MOST_OBJECTS}: {', '.join(members)}")
    return problems, f"{layer}: {len(objects)} objects in {len(folders)} folders"


def without_contract(build):
    """Returns a message for each source whose contract is in no header, as the top of this file defines it."""
    layers = ("runtime", "server", "kernels")
    headers = {str(p): p.read_text(encoding="utf-8") for layer in layers for p in pathlib.Path(layer).rglob("*.h")}
    problems = []
    for layer in layers:
        _, home, functions = read_objects(os.path.join(build, "CMakeFiles", f"{layer}.dir", layer))
        for name in sorted(set(home.values())):
            source = os.path.join(layer, name)
            with open(source, encoding="utf-8") as file:
                included = re.findall(r'#include "([^"]+)"', file.read())
            named = re.compile(rf"\b{re.escape(os.path.basename(source))}")
            if not (source[:-2] + ".h" in headers
                    or any(os.path.dirname(i) == os.path.dirname(source) for i in included if i.endswith(".h"))
                    or any(named.search(text) for text in headers.values())
                    or layer == "kernels" and name not in functions):
                problems.append(f"{source}: no header has its name, is included from its folder, or names it")
    return problems


def main():
    parser = argparse.ArgumentParser(description="Holds the folders of a layer apart.")
    parser.add_argument("build")
    parser.add_argument("--graph", metavar="LAYER")
    parser.add_argument("--cyclic", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    if options.graph:
        print_graph(build, options.graph, options.cyclic)
        return 0
    problems, told = [], []
    for layer in LAYERS:
        found, text = check(build, layer)
        problems += found
        told.append(text)
    problems += without_contract(build)
    print("\n".join(problems or told))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
