"""Test cases for the ops of TensorFlow Text that split documents into fragments of sentences."""

import tensorflow_text  # noqa: F401 (registers the ops)

from spec import *

PARTS = ["a", "B", "Hello", "Mr.", "U.S.", "A.B.C.", "A.", "B.", "é.", ".", "..", "...", "…", "?", "!", "。", "؟", "।", ")", "]", "}", "」", "、", "(",
         "\"", "'", ",", " ", " ", "\n", "\u3000", "\u00a0", "日本", "5", "&hellip;", b"\xff", b"\xe2\x80", b"\x00"]
EMOTICONS = [":)", ":-)", ":-))", ";-)", ":(", "XD", "XD]", "<3", "^_^", "^_^;;", ":'-(", "=D", "O.O", "D:", "}:-)", ":(|)", "T_T", "~@~", ";-*=("]


def document(g, parts, n):
    some = [parts[i] for i in g.rng.integers(0, len(parts), n)]
    return b"".join(p if isinstance(p, bytes) else p.encode() for p in some)


@spec("SentenceFragmentsV2")
def fragments(g, op):
    for i in range(300):
        parts = [PARTS, PARTS + EMOTICONS, [".", "...", "…", ")", "a", "?"], EMOTICONS + [".", ")", " "]][i % 4]
        docs = [document(g, parts, int(g.rng.integers(0, 14))) for _ in range(i % 5)]
        yield Case(np.array(docs + [None], object)[:-1])
    text = "Mr. Smith went to Washington (D.C.). He said \"Hi!\" and left... What?! (No.) :-) The U.S.A. is big; see 3.14."
    yield Case(np.array([text.encode(), b"no end", b""], object))
    points = [chr(c).encode() for c in range(1, 0x3100)]
    yield Case(np.array([b"a" + c + b" b" for c in points] + [b"a." + c + b" b" for c in points], object))


@spec("SentenceFragments")
def tokens(g, op):
    """Row lengths below 0 are left out: TensorFlow Text reads beyond its tensors for them."""

    def case(words, rows, encoding="UTF-8", **more):
        n = len(words)
        numbers = np.cumsum(g.rng.integers(0, 5, n)).astype("int64"), np.arange(n, dtype="int64")
        words = np.array([w.encode() if isinstance(w, str) else w for w in words] + [None], object)[:-1]
        attrs = dict(errors="replace", replacement_char=65533, replace_control_characters=False)
        return Case(np.array(rows, "int64"), *numbers, words, g.rng.integers(0, 16, n), input_encoding=encoding, **{**attrs, **more})

    sets = [["a", ".", "...", "…", ")", "。", "?"], PARTS + EMOTICONS, [".", "...", "a"], [".", "...", ")", "]", "!", b"\xff", b"\xe2\x80", "\x00"]]
    for i in range(200):
        rows = g.rng.integers(0, 12, int(g.rng.integers(0, 4)))
        words = [sets[i % 4][k] for k in g.rng.integers(0, len(sets[i % 4]), int(rows.sum()))]
        yield case(words, rows, errors=["replace", "ignore", "strict"][i % 3], replace_control_characters=i % 2 == 0)
    for encoding in ("UTF-16LE", "UTF-16BE", "UTF-32BE"):
        text = ["a", ".", "...", "b", ".", ")", "c", "…", "?", "d", "...", ".", "e"]
        yield case([w.encode(encoding, "replace") for w in text], [len(text)], encoding)
        yield case(text, [len(text)], encoding)
    yield case(["a", "."], [2], "none", texts=True)
    for value in (-1, 0x110000):
        yield case(["a", "."], [2], replacement_char=value, texts=True)
    for rows in (2, [[1, 1]], [1], [3], []):
        yield case(["a", "."], rows, texts=True)
    for words in (["", "a"], ["a", ""], [".", ""]):
        yield case(words, [2], texts=True)
    points = [chr(c) for c in range(1, 0x3100)]
    yield case([w for c in points for w in ("a", ".", c)], [3] * len(points))
    yield case([w for c in points for w in ("a", c, "b")], [3] * len(points))
