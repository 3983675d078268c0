"""Test cases for the tokenizers of TensorFlow Text that read a script, a label or logits of each character. Inputs that
make TensorFlow Text crash or read beyond a tensor are left out: splits that are no ragged rows, and for labels and logits
malformed strings."""

import tensorflow_text  # noqa: F401 (registers the ops)

from spec import *

SPACES = [9, 10, 11, 12, 13, 32, 0x85, 0xa0, 0x1680, 0x2003, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x200b, 0xfeff, 0x180e, 0x1c, 0]
CHARS = [*map(ord, "abcZ.,!1é日本語ЖΩहिأ😀\u0301\u0f00"), 0x378, 0xd800, 0xfdd0, -1, 0x110000, 2**31 - 1, -2**31]


def characters(g, n):
    """Returns n code points, some of them of no character."""
    kinds = g.rng.integers(0, 8, n)
    return [int(g.rng.integers(0, 0x30000)) if k == 0 else SPACES[g.rng.integers(len(SPACES))] if k < 3 else
            CHARS[g.rng.integers(len(CHARS))] for k in kinds]


def splits_of(lengths, dtype):
    return np.cumsum([0, *lengths]).astype(dtype)


@spec("UnicodeScriptTokenizeWithOffsets")
def script(g, op):
    for dtype in (np.int32, np.int64):
        for keep in (False, True):
            for i in range(40):
                lengths = g.rng.integers(0, 12, i % 6).tolist()
                values = np.array(characters(g, sum(lengths)), np.int32)
                yield Case(values, splits_of(lengths, dtype), keep_whitespace=keep)
    yield Case(np.arange(0x30000, dtype=np.int32), splits_of([0x30000], np.int64), keep_whitespace=True)
    yield Case(np.array([97, 98, 32, 99], np.int32), np.array([1, 3], np.int64))


@spec("WhitespaceTokenizeWithOffsets")
def space(g, op):
    """TensorFlow Text crashes if there is no token."""
    for dtype in (np.int32, np.int64):
        for i in range(60):
            lengths = g.rng.integers(0, 12, i % 6).tolist()
            values = np.array(characters(g, sum(lengths)) + [97], np.int32)
            yield Case(values, splits_of([*lengths, 1], dtype))
    yield Case(np.arange(0x30000, dtype=np.int32), splits_of([0x30000], np.int64))
    yield Case(np.array([97, 98, 32, 99], np.int32), np.array([1, 3], np.int64))


@spec("TFText>Utf8Binarize")
def binarize(g, op):
    bad = [b"\xff", b"\xe2\x82a", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80\x00", b"a\xe3\x81"]
    for i in range(200):
        some = strings([text(g, int(g.rng.integers(0, 6))) for _ in range(i % 5)])
        if i % 3 == 0 and len(some):
            some[0] = bad[i // 3 % len(bad)]
        yield Case(some, word_length=int(g.rng.integers(0, 7)), bits_per_char=int(g.rng.integers(0, 26)),
                   replacement_char=int(g.rng.choice([65533, 0, 1, 255, 256, -1, 2**35 + 5])))
    for bits in (31, 32, 33, 63, 64, 65, 70):
        yield Case(strings(["a", "é"]), word_length=2, bits_per_char=bits, replacement_char=-2)
        yield Case(np.array([b"\xff\xff"], object), word_length=2, bits_per_char=bits, replacement_char=-2)


def text(g, length):
    return "".join(chr(c) for c in characters(g, length) if 0 <= c < 0x110000 and not 0xD800 <= c < 0xE000)


def texts(g, n):
    return [text(g, int(g.rng.integers(0, 10))) for _ in range(n)]


def strings(list_of_text):
    return np.array([t.encode() for t in list_of_text] + [None], object)[:-1]


@spec("SplitMergeTokenizeWithOffsets")
def labels(g, op):
    for force in (False, True):
        for i in range(80):
            some = texts(g, i % 6)
            lengths = [len(t) + int(g.rng.integers(0, 2)) for t in some]
            marks = g.rng.choice([0, 1, 1, 2, -1], sum(lengths)).astype(np.int32)
            yield Case(strings(some), marks, splits_of(lengths, np.int32), force_split_at_break_character=force)
        for some, lengths in ((["ab c"], [3]), (["ab "], [2]), (["ab"], [0]), (["a", "bcd"], [1, 2]), (["ab"], [1, 1]), ([], [2]), (["a", ""], [1])):
            marks = np.ones(sum(lengths), np.int32)
            yield Case(strings(some), marks, splits_of(lengths, np.int32), force_split_at_break_character=force, texts=True)
    everything = [chr(c) for c in range(0x3100) if not 0xD800 <= c < 0xE000]
    yield Case(strings(["a".join(everything)]), np.ones(2 * 0x3100, np.int32), splits_of([2 * 0x3100], np.int32))


@spec("TokenizerFromLogits")
def logits(g, op):
    for force in (False, True):
        for i in range(60):
            some = texts(g, i % 6)
            longest = max([len(t) for t in some], default=0) + int(g.rng.integers(0, 2))
            values = g.rng.choice([0, 1, -1, 0.5, np.inf, -np.inf, np.nan, -0.0], (len(some), longest, 2)).astype(np.float32)
            yield Case(strings(some), values, np.array(force))
    for some, shape in ((["abcd"], (1, 3, 2)), (["ab", "c"], (1, 2, 2)), (["a"], (1, 1, 3)), (["ab "], (1, 2, 2)), ([], (0, 3, 2)), ([], (0, 3, 1))):
        yield Case(strings(some), np.zeros(shape, np.float32), np.array(True), texts=True)
