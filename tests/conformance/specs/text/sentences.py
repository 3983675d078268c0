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
