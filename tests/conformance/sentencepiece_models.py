"""Writes small SentencePiece models (ModelProto) for tests, without the library that trains them."""

import struct

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4


def varint(n):
    out = bytearray()
    while True:
        out.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


def field(number, value):
    """Returns a field of a message: an int or bool as a varint, a float in 4 bytes, a str or bytes with its length."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


class Trie:
    """A double array in the format of Darts-clone, of keys that contain no NUL."""

    def __init__(self, values):
        self.units, self.used, self.bases = [], set(), set()
        self.take(0)
        self.node(0, sorted((k.encode() if isinstance(k, str) else k, v) for k, v in values.items()), 0)

    def take(self, at):
        while at >= len(self.units):
            self.units += [1 << 31] * 256  # matches no byte
        self.used.add(at)
        self.units[at] = 0

    def node(self, at, keys, depth):
        labels = sorted({key[depth] if depth < len(key) else 0 for key, _ in keys})
        base = next(b for b in range(1, 1 << 20) if b not in self.bases and not any(b ^ label in self.used for label in labels))
        self.bases.add(base)
        for label in labels:
            self.take(base ^ label)
        self.units[at] |= (base ^ at) << 10 | (256 if labels[0] == 0 else 0)
        for label in labels:
            if label == 0:
                self.units[base] = 1 << 31 | next(v for key, v in keys if len(key) == depth)
            else:
                self.units[base ^ label] = label
                self.node(base ^ label, [(k, v) for k, v in keys if depth < len(k) and k[depth] == label], depth + 1)

    def bytes(self):
        return struct.pack(f"<{len(self.units)}I", *self.units)


def charsmap(rules):
    """Returns a precompiled map of replacements, from a dictionary of strings."""
    text, values = b"", {}
    for key, to in rules.items():
        values[key] = len(text)
        text += (to.encode() if isinstance(to, str) else to) + b"\0"
    trie = Trie(values).bytes()
    return struct.pack("<I", len(trie)) + trie + text


def model(pieces, kind=UNIGRAM, trainer=(), normalizer=(), denormalizer=None, more=b""):
    """Returns a ModelProto. A piece is a tuple of its text, its score and its type; the two specs are lists of field numbers and values."""
    out = b""
    for text, score, type_ in pieces:
        out += field(1, field(1, text) + field(2, float(score)) + (field(3, type_) if type_ != NORMAL else b""))
    out += field(2, field(3, kind) + b"".join(field(n, v) for n, v in trainer))
    out += field(3, b"".join(field(n, v) for n, v in normalizer))
    if denormalizer is not None:
        out += field(5, b"".join(field(n, v) for n, v in denormalizer))
    return out + more
