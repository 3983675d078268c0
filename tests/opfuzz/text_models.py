"""Small models of TensorFlow Text's fast tokenizers, as lists of bytes. TensorFlow Text's own models are too large for a
seed."""

import struct

ABSENT = None


def table(fields):
    """Returns a FlatBuffer whose root table has the fields: an int, bytes with their number of elements, a list of strings,
    or ABSENT."""
    n = len(fields)
    vtable_size = 4 + 2 * n
    start = 4 + vtable_size + -vtable_size % 4
    vtable = struct.pack("<HH", vtable_size, 4 + 4 * n)
    body, tail = b"", b""
    for i, field in enumerate(fields):
        at = start + 4 + 4 * i
        vtable += struct.pack("<H", 0 if field is ABSENT else 4 + 4 * i)
        if isinstance(field, tuple):
            count, data = field
            body += struct.pack("<I", start + 4 + 4 * n + len(tail) - at)
            tail += struct.pack("<I", count) + data + bytes(-len(data) % 4)
        elif isinstance(field, list):
            body += struct.pack("<I", start + 4 + 4 * n + len(tail) - at)
            offsets, texts = b"", b""
            for k, text in enumerate(field):
                offsets += struct.pack("<I", 4 * (len(field) - k) + len(texts))
                texts += struct.pack("<I", len(text)) + text + bytes(-len(text) % 4)
            tail += struct.pack("<I", len(field)) + offsets + texts
        else:
            body += struct.pack("<I", field or 0)
    return list(struct.pack("<I", start) + vtable.ljust(start - 4, b"\0") + struct.pack("<i", start - 4) + body + tail)


def units(*values):
    return len(values), struct.pack(f"<{len(values)}I", *values)


# A trie of "a" (node 1). Unit 2 is the value of node 1, and node 3 is the root of suffixes.
def trie(value):
    return units((ord("a") ^ 1) << 10, 3 << 10 | 1 << 8 | ord("a"), 1 << 31 | value, 0)


NONE = 0xFFFFFFFF
FAILURES = (4, struct.pack("<8I", NONE, NONE, 3, 0, NONE, NONE, NONE, NONE))
# The vocabulary is "a" (id 0) and "?" (id 1).
WORDPIECE = [table([trie(0), FAILURES, units(0), 3, 9, (2, b"##"), (1, b"?"), 1, units(1 << 8), NONE, split]) for split in (0, 1)]
# A trie in which "q" is its own child, so that a word of any length is read to its end.
LOOP = table([units(*([0] * ord("q")), ord("q") << 10 | ord("q")), (114, struct.pack("<228I", *[NONE] * 228)), units(0), 0, 2**31 - 1,
              (2, b"##"), (1, b"?"), 1, units(), 0, 0])
PIECES = table([trie(0), FAILURES, units(0), 3, 9, (2, b"##"), (1, b"?"), 1, units(1 << 8), NONE, 1, 1,
                [b"a", b"?", b"bc"], (3, b"\0\0\1")])
# Maps "a" to "bc" and U+0000 to "b".
NORMALIZER = table([1, trie(1 << 30 | 2), 1 << 30 | 1, (2, b"bc")])
