"""Small models of TensorFlow Text's tokenizers, as bytes or lists of bytes. TensorFlow Text's own models are too large for a
seed."""

import pathlib
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))

import sentencepiece_models as sentencepiece  # noqa: E402

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

VOCABULARY = [("<unk>", 0, sentencepiece.UNKNOWN), ("<s>", 0, sentencepiece.CONTROL), ("</s>", 0, sentencepiece.CONTROL),
              ("a", -1, sentencepiece.NORMAL), ("b", -2, sentencepiece.NORMAL), ("ab", -2.5, sentencepiece.NORMAL),
              ("y", 0, sentencepiece.USER_DEFINED), ("ba", -1, sentencepiece.UNUSED)]
SENTENCEPIECE = [sentencepiece.model(VOCABULARY, kind) for kind in range(sentencepiece.UNIGRAM, sentencepiece.CHAR + 1)]


def long_sentencepieces():
    """Returns models that read much more text than they use, or make much more text than they keep: a map of replacements with
    a cycle, a replacement of 30 MB of white space, and a symbol of 300 KB that differs from the text only in its last byte."""
    few = [("<unk>", 0, sentencepiece.UNKNOWN), ("a", -1, sentencepiece.NORMAL)]
    cycle, symbol = struct.pack(f"<{len(CYCLE)}I", *CYCLE), few + [("a" * 300000 + "c", 0, sentencepiece.USER_DEFINED)]
    maps = [struct.pack("<I", len(cycle)) + cycle + b"a\0", sentencepiece.charsmap({"a": b" " * (30 << 20)}),
            sentencepiece.charsmap({"a": b"x" + b" " * (30 << 20)})]
    return [*(sentencepiece.model(few, normalizer=[(2, m)]) for m in maps),
            *(sentencepiece.model(symbol, kind, normalizer=[(3, 0), (4, 0), (5, 0)])
              for kind in (sentencepiece.UNIGRAM, sentencepiece.BPE, sentencepiece.CHAR))]


def flat(fields):
    """Returns a FlatBuffer whose fields are as in table(), or other FlatBuffers' fields as a list for a table, or a list of
    bytes for strings."""
    def placed(values, at):
        """Returns a table at offset `at`, and where in it the root begins."""
        n = len(values)
        start = at + 4 + 2 * n + -(4 + 2 * n) % 4
        head = struct.pack("<HH", 4 + 2 * n, 4 + 4 * n) + b"".join(
            struct.pack("<H", 0 if v is ABSENT else 4 + 4 * i) for i, v in enumerate(values))
        body, tail, end = struct.pack("<i", start - at), b"", start + 4 + 4 * n
        for i, v in enumerate(values):
            here = start + 4 + 4 * i
            if isinstance(v, tuple):
                body += struct.pack("<I", end + len(tail) - here)
                tail += struct.pack("<I", v[0]) + v[1] + bytes(-len(v[1]) % 4)
            elif isinstance(v, list):
                data, root = placed(v, end + len(tail))
                body += struct.pack("<I", root - here)
                tail += data
            else:
                body += struct.pack("<I", v or 0)
        return head.ljust(start - at, b"\0") + body + tail, start

    data, root = placed(fields, 4)
    return list(struct.pack("<I", root) + data)


def texts(*values):
    """Returns a vector of strings."""
    heads, tail = b"", b""
    for i, v in enumerate(values):
        heads += struct.pack("<I", 4 * (len(values) - i) + len(tail))
        tail += struct.pack("<I", len(v)) + v + bytes(-len(v) % 4)
    return len(values), heads + tail


PENALTY = struct.unpack("<I", struct.pack("<f", -12))[0]
# The vocabulary is "a" (id 1, score -1) and the unknown piece (id 0). The text "a" is replaced by "a".
FAST_SENTENCEPIECE = flat([ABSENT, 1, 1, 0, PENALTY, ABSENT, [trie(1)], (2, struct.pack("<2f", 0, -1)), 1, 1, 1, [trie(0)], (2, b"a\0")])
# A trie in which "a" is its own child, so that a text of any length is read to its end.
CYCLE = [0] * ord("a") + [ord("a") << 10 | ord("a")]
FAST_CYCLE = flat([ABSENT, 1, 1, 0, PENALTY, ABSENT, [trie(1)], (2, struct.pack("<2f", 0, -1)), 0, 0, 0, [units(*CYCLE)], (2, b"a\0")])
FAST_PIECES = flat([ABSENT, ABSENT, texts(b"?", b" a", b"b"), ABSENT, ABSENT, 1])


def trie_of(*nodes):
    """Returns a trie of nodes (index, offset, label, whether it has a value) and, as (index, value), of the values."""
    all_units = [0] * (1 + max(n[0] for n in nodes))
    for index, *node in nodes:
        all_units[index] = node[0] << 10 | node[2] << 8 | ord(node[1]) if len(node) > 1 else 1 << 31 | node[0]
    return units(*all_units)


SPACES = 5, b"\0\x3e\0\0\1"
# The vocabulary is "a" (id 0), "?" (id 1) and "a a" (id 2).
PHRASE_TRIE = trie_of((0, ord("a") ^ 1, "\0", 0), (1, 1 ^ 34, "a", 1), (34, 0), (2, 2 ^ 4, " ", 0),
                      (4 ^ ord("a"), 4 ^ ord("a") ^ 5, "a", 1), (5, 2))
PHRASES = [flat([percent, (1, b"?"), 1, 1, texts(b"a", b"?", b"a a"), [PHRASE_TRIE], SPACES, splits])
           for percent, splits in ((0, 0), (0, 1), (50, 1))]


def long_phrases():
    """Returns models that read a text of "q" and spaces to its end from each word on: all of the text is one phrase, or no
    phrase ends."""
    for has_value in (1, 0):
        loop = trie_of((113, 113, "q", has_value), (32, 32, " ", 0))
        yield flat([ABSENT, (1, b"?"), 1, 1, texts(b"q", b"?"), [loop], SPACES, 1])
