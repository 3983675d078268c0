"""The driver's side of fault.h: selects which of the server's calls fail, and reads the outcome."""
import mmap
import os
import shutil
import struct
import subprocess

KINDS = ("memory", "open", "read", "short", "stat", "mmap", "thread", "descriptor", "write")
DEPTH, STACKS = 8, 1 << 16
EVER = 0xFFFFFFFF

HEAD = struct.Struct("<IIIIIIQ16s")  # the fields of struct fault_control from `armed` to `thread`
SEEN = struct.Struct(f"<IIII{DEPTH}Q{len(KINDS)}Q")  # the fields of struct fault_control from `matched` to `calls`
STACK = struct.Struct(f"<QII{DEPTH}Q")
SIZE = HEAD.size + SEEN.size + STACKS * STACK.size


class Control:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(SIZE)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), SIZE)

    def describe(self, kinds, first=1, n=1, stack=0, thread=""):
        """Specifies the calls of the server that must fail, and clears earlier results. Does not arm the fault."""
        self.quiet()
        bits = sum(1 << KINDS.index(k) for k in kinds)
        HEAD.pack_into(self.map, 0, 0, 0, bits, first, n, 0, stack, thread.encode())
        SEEN.pack_into(self.map, HEAD.size, *[0] * (4 + DEPTH + len(KINDS)))

    def arm(self, kinds, **which):
        self.describe(kinds, **which)
        struct.pack_into("<I", self.map, 0, 1)

    def trace(self, kinds=KINDS):
        self.describe(kinds)
        self.map[HEAD.size + SEEN.size:] = bytes(STACKS * STACK.size)
        struct.pack_into("<I", self.map, 4, 1)

    def quiet(self):
        struct.pack_into("<II", self.map, 0, 0, 0)

    def fired(self):
        """Returns the number of calls that have failed, and the stack of the first failed call."""
        seen = SEEN.unpack_from(self.map, HEAD.size)
        return seen[1], seen[4:4 + DEPTH]

    def calls(self):
        """Returns the traced calls as {kind: count} and [(kind, hash, count, stack)]."""
        seen = SEEN.unpack_from(self.map, HEAD.size)
        found = [(KINDS[kind], hashed, count, at)
                 for hashed, kind, count, *at in STACK.iter_unpack(self.map[HEAD.size + SEEN.size:])
                 if hashed]
        return dict(zip(KINDS, seen[4 + DEPTH:])), found


def symbols(binary, stack):
    """Returns the function names of a stack, innermost first."""
    tool = next((t for t in ("llvm-symbolizer", "llvm-symbolizer-14") if shutil.which(t)), None)
    addresses = [hex(a - 1) for a in stack if a]
    if not tool or not addresses:
        return " < ".join(addresses)
    done = subprocess.run([tool, f"--obj={binary}", "--no-inlines", "--basenames", *addresses], text=True,
                          stdout=subprocess.PIPE, check=False)
    names = [" ".join(block.splitlines()[:2]).replace(os.sep, "/")
             for block in done.stdout.strip().split("\n\n")]
    return " < ".join(names)
