"""Test cases for regular expressions. RE2 is the library on both sides, so results must be equal."""

from spec import *

TEXTS = [b"", b"a", b"abc", b"hello world", b"aaa\naa", b"a\x00a", b"x" * 300, b"a\xffb\xfe", b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\x80",
         "日本語 über Ωμέγα".encode(), b"2024-01-31 and 1999-12-01", b"  lead and trail  ", b"<a href=\"x\">y</a>", b"don't stop, won't!"]
PATTERNS = ["", "a", "x*", ".", "(a)(b)?", "[ab]+", "^a", "(?m)^a", "a$", r"\b", r"\W+", r"(\d+)-(\d+)-(\d+)", "[^a-z]", "(?i)A|B", r"\pL+", r"\p{Greek}",
            "日|ü", "a|ab", "(a|ab)(c|bcd)?", "a{2,3}?", "(?s).*", "(.*)", r"\s+|([!-/]|[:-@]|[\[-`]|[{-~])", "(?P<n>b+)", r"\C", r"\x00", "((((((((((a))))))))))"]
BAD = ["(a", "a)", "[a", "a**", "a{1001}", r"\q", "(?<n>a)(?P<n>b)", "*", "((a{100}){100}){100}", r"\8", "(?z)", "[b-a]", r"\p{Nope}"]
REWRITES = ["", "-", r"<\0>", r"\1", r"[\2\1]", r"\\", r"x\q", "x\\", r"\9", "ü\\0"]


def texts(g, shape=(6,)):
    return np.array([TEXTS[i] for i in g.rng.integers(0, len(TEXTS), int(np.prod(shape)))] + [None], object)[:-1].reshape(shape)


def scalar(text):
    return np.array(text.encode(), object)


def patterns(g):
    """Yields inputs with patterns: all strings with each pattern, other shapes, and patterns that are refused."""
    every = np.array(TEXTS + [None], object)[:-1]
    for pattern in PATTERNS:
        yield every, pattern
    for shape in ((), (1,), (0,), (2, 3), (2, 0, 3), (2, 1, 1, 2, 1, 1, 2, 1)):
        yield texts(g, shape), "a|b"
        yield texts(g, shape), "(a"
    for pattern in BAD:
        yield texts(g, (3,)), pattern


@spec("RegexFullMatch", "StaticRegexFullMatch")
def full_match(g, op):
    for _ in range(4):
        for x, pattern in patterns(g):
            yield Case(x, pattern=pattern, texts=True) if op[0] == "S" else Case(x, scalar(pattern), texts=True)
    if op[0] == "R":
        for x, pattern in patterns(g):
            yield Case(x, Const(scalar(pattern)), texts=True)
        yield Case(texts(g), np.array([b"a"], object))
        yield Case(texts(g), np.array(b"\xff", object))


@spec("RegexReplace", "StaticRegexReplace")
def replace(g, op):
    for every in (True, False):
        for x, pattern in patterns(g):
            for rewrite in REWRITES if x.size == len(TEXTS) else ("-",):
                args = dict(pattern=pattern, rewrite=rewrite) if op[0] == "S" else {}
                inputs = () if op[0] == "S" else (scalar(pattern), scalar(rewrite))
                yield Case(x, *inputs, replace_global=every, texts=True, **args)
    if op[0] == "R":
        yield Case(texts(g), np.array([b"a"], object), scalar("b"))
        yield Case(texts(g), scalar("a"), np.array([b"a"], object))
        yield Case(texts(g), Const(scalar("a")), Const(scalar("b")))
