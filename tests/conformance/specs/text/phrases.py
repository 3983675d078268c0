"""Test cases for PhraseTokenizer's two ops, with random vocabularies. Ids that the model lacks, and row splits that decrease or
end too late, make TensorFlow Text crash or read beyond its tensors, and are left out; so are malformed models."""

import tensorflow_text  # noqa: F401 (registers the ops)
from tensorflow_text.core.pybinds import pywrap_phrase_tokenizer_model_builder as builder

from spec import *

WORDS = ["a", "b", "ab", "I", "have", "dream", "é", "日本", "😀", ".", "!", "a.", "c,"]
BLANKS = [" ", "  ", "\t", "\n \r", "\u00a0", "\u3000", "\u2028", " \u1680 ", "\x0b", "\x85"]
OTHERS = ["x", "<UNK>", "..", "?", ",", ";", "!?", "。", "\x00", "a\x00", "ba", "\u200b", "\u180e", b"\xff", b"a\xe3\x80", b"\xc0\xa0", b"\xe2\x82",
          b"\xed\xa0\x80", b"\xf0\x9f", "a" * 40]
ENDINGS = [".", ",", "?", "!", "'d", "'m", "'s", "'t", "'ll", "'re", "'ve"]  # which may be words by themselves
OTHER_ENDINGS = [";", "'S", "'l", "'", "\u2019s", "'em", "ll", "..."]


def vocabulary(g):
    """Returns phrases of one to four words, some of which are no word by themselves. Two spaces match an empty word, which is
    what stands before an ending that is alone."""
    phrases = {WORDS[i] for i in range(len(WORDS)) if g.rng.random() < 0.7}
    for _ in range(int(g.rng.integers(0, 30))):
        words = [WORDS[i] for i in g.rng.integers(0, len(WORDS), g.rng.integers(1, 5))]
        phrases.add(("  " if g.rng.random() < 0.1 else " ").join(words))
    phrases |= {p for p in (" .", "a  .", "a ", " a", "\t", "a 's", "'ll", " 've", *ENDINGS) if g.rng.random() < 0.2}
    phrases = sorted(phrases | {"<UNK>"})
    return [phrases[i] for i in g.rng.permutation(len(phrases))]


def model(phrases, unknown="<UNK>", detokenizes=True, percent=0, splits=False):
    return np.frombuffer(bytes(builder.build_phrase_model(phrases, unknown, detokenizes, percent, splits)), np.uint8)


def any_model(g, i):
    phrases = vocabulary(g)
    unknown = phrases[int(g.rng.integers(len(phrases)))] if i % 7 == 0 else "<UNK>"
    return model(phrases, unknown, i % 3 > 0, [0, 0, 100, -5, 101][i % 5], i % 2 == 1)


def text(g, length):
    parts = []
    for _ in range(int(g.rng.integers(0, length))):
        pool = WORDS if g.rng.random() < 0.85 else OTHERS
        part = pool[g.rng.integers(len(pool))]
        parts.append(part if isinstance(part, bytes) else part.encode())
        if g.rng.random() < 0.25 and length < 300:
            endings = ENDINGS if g.rng.random() < 0.8 else OTHER_ENDINGS
            parts.append(endings[g.rng.integers(len(endings))].encode())
        if g.rng.random() < 0.95:
            parts.append((" " if g.rng.random() < 0.8 else BLANKS[g.rng.integers(len(BLANKS))]).encode())
    return b"".join(parts)


def strings(g, n, length=14):
    return np.array([text(g, length) for _ in range(n)] + [None], object)[:-1]


def are_drawn(case, theirs, ours):
    """Checks how often each first phrase is drawn: "a" with the case's probability, and "a b" in the same part of the rest."""
    p = case.percent / 100
    n = len(case.inputs[0])
    for name, got in (("TensorFlow", theirs), ("Slipway", ours)):
        first = [got[1][k] for k in got[2][:-1]]
        for phrase, share in ((0, p), (1, p * (1 - p)), (2, (1 - p) ** 2)):
            if abs(first.count(phrase) / n - share) > 0.03:
                return f"{name} draws phrase {phrase} in {first.count(phrase)} of {n} texts, not in {share}"
    return None


@spec("PhraseTokenize")
def tokenize(g, op):
    for i in range(300):
        built = any_model(g, i)
        x = strings(g, int(g.rng.integers(0, 7)), 300 if i % 30 == 0 else 14)
        yield Case(x, Const(built) if i % 4 == 0 else built)
    phrases = ["a", "b", "a b", "<UNK>", "a b c", "a  .", "."]
    known = np.array([b"a b", b"a b x", b"a b c", b"x", b"a.", b"b'll", b"a's.", b"'s", b".", b"", b" ", b"a .", b"a . .", b"b a b"], object)
    for splits in (False, True):
        for percent in (0, 100):
            yield Case(known, model(phrases, percent=percent, splits=splits))
    built = model(phrases)
    yield Case(np.array([[b"a b", b"x"], [b"a", b"b"], [b"b", b"a"]], object), built)
    yield Case(np.zeros((0, 3), object), built)
    yield Case(known, built.reshape(1, -1))
    yield Case(strings(g, 2, 4000), model(vocabulary(g), splits=True))
    for percent in (1, 25, 50, 90):
        case = Case(np.array([b"a b c"] * 4000, object), model(["a", "a b", "a b c", "c", "b", "b c", "<UNK>"], percent=percent), check=are_drawn)
        case.percent = percent
        yield case


def ragged(g, n_values):
    """Returns row splits, and values of them. Some row splits leave values out."""
    rows = np.cumsum([int(g.rng.integers(0, 2)), *g.rng.integers(0, 5, g.rng.integers(0, 6))])
    return g.rng.integers(0, n_values, int(rows[-1]) + int(g.rng.integers(0, 2))).astype("int32"), rows


@spec("TFText>PhraseDetokenize")
def detokenize(g, op):
    for i in range(200):
        phrases = vocabulary(g)
        if i % 2:
            phrases = sorted({*phrases, *ENDINGS, *OTHER_ENDINGS})
        built = model(phrases, percent=i % 2, splits=i % 3 == 0)
        values, rows = ragged(g, len(phrases))
        yield Case(values, rows, Const(built) if i % 4 == 0 else built)
    yield Case(np.zeros(0, "int32"), np.zeros(0, "int64"), built)
    none = model(["a", "<UNK>"], detokenizes=False)
    yield Case(np.int32([0]), np.array([0, 1]), none, texts=True)
    yield Case(np.zeros(0, "int32"), np.array([0, 0]), none, texts=True)
    yield Case(np.zeros(0, "int32"), np.array([0]), none)
    yield Case(np.zeros(0, "int32"), np.zeros(0, "int64"), none)
    yield Case(np.int32([[0, 1], [2, 0]]), np.array([0, 2, 4]), built)
    yield Case(np.int32(0), np.array([0, 1]), built)
