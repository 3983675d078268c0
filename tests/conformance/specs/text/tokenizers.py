"""Test cases for the ops of TensorFlow Text. Inputs that make TensorFlow Text crash or loop forever are left out: strings
that are not a vector, delimiters that match nothing, and vocabularies of other types."""

import tensorflow_text  # noqa: F401 (registers the ops)
from tensorflow_text.core.pybinds import pywrap_fast_bert_normalizer_model_builder as normalizer_builder
from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder as wordpiece_builder
from tensorflow_text.core.pybinds import pywrap_whitespace_tokenizer_config_builder as whitespace_builder

from spec import *

BROKEN = [b"\xff", b"\xc0\xa0", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xe0\x80\x80", b"\xc2"]
SPACES = ["\t", "\n", "\x0b", "\r", " ", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\ufeff", "\x1c", "\x00"]
LETTERS = list("abcdeABCDEéÉßẞİıſΣσςﬁÅK각한가각日本語😀𝔸①½ǅậ়া\u00ad\u200d\u0301\u0323\u0315\u0345\u05ae\u0334\u1e9b\u212b\u0344\u0958\ufb1d\U0001d15e")
SIGNS = list(".,!?#$[]()-'\"“”…、。¿§€+<=>^`|~_/\\")
PIECES = ["lead and trail", "The quick brown fox", "  lead and trail  ", "don't stop, won't!", "Ωμέγα", "naïve café", "[UNK]", "[CLS] x [SEP]", "##a"]


def text(g, length=12):
    """Returns a string of random characters, some of them malformed."""
    parts = []
    for kind in g.rng.integers(0, 12, g.rng.integers(0, length)):
        if kind < 2:
            parts.append(SPACES[g.rng.integers(len(SPACES))])
        elif kind < 7:
            parts.append(LETTERS[g.rng.integers(len(LETTERS))])
        elif kind < 9:
            parts.append(SIGNS[g.rng.integers(len(SIGNS))])
        elif kind == 9:
            parts.append(PIECES[g.rng.integers(len(PIECES))])
        elif kind == 10:
            c = int(g.rng.integers(0, 0x30000))
            parts.append(chr(c if not 0xD800 <= c < 0xE000 else 0x20))
        else:
            parts.append(BROKEN[g.rng.integers(len(BROKEN))])
    return b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)


def strings(g, shape, length=12):
    return np.array([text(g, length) for _ in range(int(np.prod(shape)))] + [None], object)[:-1].reshape(shape)


def scalar(value):
    return np.array(value if isinstance(value, bytes) else value.encode(), object)


def vectors(g, n, length=12):
    """Yields vectors of strings, some of them empty."""
    for i in range(n):
        yield strings(g, ([0, 1, 2, 5, 9][i % 5],), length)


@spec("CaseFoldUTF8")
def case_fold(g, op):
    for shape in Gen.SHAPES * 4:
        yield Case(strings(g, shape))
    for length in (40, 400):
        for _ in range(80):
            yield Case(strings(g, (3,), length))
    yield Case(scalar("a" + "\u0301\u0315\u05ae" * 2000))


@spec("NormalizeUTF8")
def normalize(g, op):
    for form in ("NFC", "NFD", "NFKC", "NFKD", "nfkc", "nFd", "NFKC_CF", "", "NFX", "é"):
        for shape in Gen.SHAPES * 2:
            yield Case(strings(g, shape), normalization_form=form, texts=True)
        for length in (40, 400):
            for _ in range(20):
                yield Case(strings(g, (3,), length), normalization_form=form)
        yield Case(scalar("a" + "\u0301\u0315\u05ae" * 2000), normalization_form=form)


# Hangul, and characters whose decompositions show how far an edit reaches.
EDITED = list("\u1100\u1112\u1161\u1175\u11a8\u11c2\uac00\uac01\u0344\u0958\u0f73\u1e69\u2126\uf900\u01d5\u1fa7\u3099\u304b\u304c\u0b47\u0b56\u0dd9"
              "\u0dcf\u0dca\u11131\u11127\ufdfa\ufb2c\u2adc\uff76\uff9e\u1bc9\u0cbf\u0cd5\u102e\u1b35\u0338=<ĀȫǟșÅ") + ["\U0001d160", "\U00011131", "\U000110ba"]


def edited(g, length):
    parts = [EDITED[i] if i < len(EDITED) else LETTERS[i - len(EDITED)] if i < len(EDITED) + len(LETTERS) else "\u0301\u0323\u0327\u0334\u0345x"[i % 6]
             for i in g.rng.integers(0, len(EDITED) + len(LETTERS) + 40, length)]
    return "".join(parts).encode()


def every_character():
    """Returns strings with each character that has a combining class or a decomposition, among letters and marks."""
    import unicodedata

    chars = [c for c in map(chr, range(0x110000)) if unicodedata.decomposition(c) or unicodedata.combining(c) or "\u1100" <= c <= "\u11ff"]
    around = [("", ""), ("a", ""), ("", "\u0301"), ("e", "\u0323"), ("", "\u0327\u0301"), ("x", "\u0334"), ("\u1100", "\u11a8")]
    return [(before + c + after).encode() for c in chars for before, after in around]


@spec("NormalizeUTF8WithOffsetsMap", "FindSourceOffsets")
def offsets_map(g, op):
    from tensorflow.python.framework import op_def_library

    def find(x, form, values=None, rows=None):
        def build(tf, fed):
            text, maps = op_def_library._apply_op_helper("NormalizeUTF8WithOffsetsMap", name="map", input=fed, normalization_form=form)[2].outputs
            if x.size == 0:  # FindSourceOffsets ends the process
                return [text]
            if values is None:  # each offset of every string, and two beyond its end
                sizes = tf.reshape(tf.strings.length(text), [-1]) + 3
                offsets, splits = tf.cast(tf.ragged.range(sizes).flat_values, tf.int64) - 1, tf.concat([[0], tf.cumsum(sizes)], 0)
                offsets = tf.reshape(offsets, [-1])
            else:
                offsets, splits = tf.constant(values, tf.int64), tf.constant(rows, tf.int64)
            node = op_def_library._apply_op_helper("FindSourceOffsets", name="op", offsets_map=maps, input_offsets_values=offsets, input_offsets_splits=splits)[2]
            return [text, *node.outputs]

        return Graph(build, x, texts=True, name=form)

    for form in ("NFC", "NFD", "NFKC", "NFKD", "nfkc", "NFKC_CF", ""):
        for x in vectors(g, 15):
            yield find(x, form)
        for length in (4, 10, 40):
            for _ in range(8):
                yield find(np.array([edited(g, length) for _ in range(20)], object), form)
        yield find(strings(g, (2, 3)), form)
        yield find(scalar("e\u0301x"), form)
        yield find(scalar("a" + "\u0301\u0315\u05ae" * 2000), form)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield find(np.array(every_character(), object), form)
    four = np.array(["e\u0301x"] * 4, object)
    for rows in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 3], [0, 0, 1, 2, 2, 3, 4], [1, 2, 3, 4, 5], [0, 1], []):
        yield find(four, "NFC", [0, 1, 2, 3, -1], rows)
    yield find(np.array(["e\u0301x", "ab"], object), "NFC", [3, 2, 1, 0, 4, 9, -1], [0, 5, 7])


@spec("TFText>WhitespaceTokenizeWithOffsetsV2")
def whitespace(g, op):
    config = whitespace_builder.build_whitespace_tokenizer_config()
    for x in vectors(g, 150):
        yield Case(x, scalar(config))
    for x in vectors(g, 20, 300):
        yield Case(x, Const(scalar(config)))
    for other in (b"", b"\xff" * 8, b"\x00" * 12 + b"\x55\xaa" * 40, b"\xff" * 1537):
        for x in vectors(g, 15):
            yield Case(x, scalar(other))
    for shape in ((2, 3), (3, 1, 2)):
        yield Case(strings(g, shape), scalar(config), outputs=[0, 1, 2, 3])
    yield Case(strings(g, (3,)), np.array([config], object))


# Groups that match; an expression without a group; and some that are refused.
DELIMITERS = [r"(\s)", r"(\s+)", r"([ .!,])", r"(.)", "(a)", "(a|e)", "(é|日)", r"([[:punct:]])", r"(\p{Mn})", "(^a)", "(a$)", r"(\pL)b?", r"x(.)",
              r"(\s+|[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]|[\x{4E00}-\x{9FFF}])", r"\s", "a", "", r"(a)(b)", "a()", "(a", "a**", r"(\q)",
              # One group, or something that looks like it.
              r"([)])", r"([^)(]+)", r"(\()", r"(\))", r"([]a)])", r"([^])a])", r"([[:punct:])])", r"([[:a)])", r"(?:(a))",
              r"(?i)(a)", r"(?P<x>a)", r"(\Q)\E)", "(a)+", "((a)b)", "((a)|(e))", r"([\])])", "([a)b]|e)", r"(a\))"]
KEPT = ["", r"\s", ".", r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]", "()", ".*", "a", "(a", "[b-a]"]


@spec("RegexSplitWithOffsets")
def regex_split(g, op):
    for delimiter in DELIMITERS:
        for kept in KEPT:
            yield Case(strings(g, (int(g.rng.integers(0, 6)),), 20), scalar(delimiter), scalar(kept), texts=True)
            yield Case(strings(g, (3,), 20), Const(scalar(delimiter)), Const(scalar(kept)), texts=True)
    for shape in Gen.SHAPES:
        yield Case(strings(g, shape), scalar(r"(\s)"), scalar(""))
    for delimiter, kept in ((["(a)"], ""), ("(a)", [""])):
        yield Case(strings(g, (2,)), np.array(delimiter, object), np.array(kept, object), texts=True)


WORDS = ["[UNK]", "a", "ab", "##c", "##cd", "##d", "é", "##é", "日", "##本", "##語", "e", "##e", "b", "##b", "c", "quick", "##quick", "lead", "##ing",
         "don", "##'", "##t", "a rather long word of the vocabulary", "##a rather long word of the vocabulary", "##😀", "😀"]


def words(g, n):
    out = []
    for _ in range(n):
        if g.rng.random() < 0.4:
            out.append(text(g, 8))
        else:
            picked = [WORDS[i].removeprefix("##") for i in g.rng.integers(0, len(WORDS), g.rng.integers(0, 6))]
            out.append("".join(picked).encode())
    return np.array(out + [None], object)[:-1]


def hash_table(tf, keys, values):
    handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    ready = tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=tf.constant(keys), values=tf.constant(values, tf.int64))
    return handle, ready


def mutable_table(tf, keys, values):
    handle = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
    ready = tf.raw_ops.LookupTableInsertV2(table_handle=handle, keys=tf.constant(keys), values=tf.constant(values, tf.int64))
    return handle, ready


@spec("WordpieceTokenizeWithOffsets")
def wordpiece(g, op):
    from tensorflow.python.framework import op_def_library

    choices = dict(suffix_indicator=["##", "", "##", "é"], max_bytes_per_word=[100, 100, 10, 3, 0, -1], use_unknown_token=[True, False],
                   unknown_token=["[UNK]", "", "<a longer unknown token>"], split_unknown_characters=[False, True],
                   max_chars_per_token=[0, 0, 1, 2, 50, -1], output_row_partition_type=["row_lengths", "row_splits"])
    for i in range(220):
        attrs = {name: values[g.rng.integers(len(values))] for name, values in choices.items()}
        make = hash_table if i % 5 else mutable_table
        values = list(range(len(WORDS)))
        if i % 7 == 0:
            values[3], values[4] = -1, -7  # -1 is the value of absent words

        def build(tf, x, attrs=attrs, make=make, values=values):
            handle, ready = make(tf, WORDS, values)
            with tf.control_dependencies([ready]):
                again = tf.identity(handle)
            node = op_def_library._apply_op_helper(op, name="op", input_values=x, vocab_lookup_table=again, **attrs)[2]
            return list(node.outputs)

        yield Graph(build, words(g, int(g.rng.integers(0, 9))), name=" ".join(f"{k}={v}" for k, v in attrs.items()))

    def other_resource(tf, x):
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
        return list(op_def_library._apply_op_helper(op, name="op", input_values=x, vocab_lookup_table=handle, **{k: v[0] for k, v in choices.items()})[2].outputs)

    def empty_table(tf, x):
        handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        return list(op_def_library._apply_op_helper(op, name="op", input_values=x, vocab_lookup_table=handle, **{k: v[0] for k, v in choices.items()})[2].outputs)

    yield Graph(other_resource, words(g, 3), name="a variable")
    yield Graph(empty_table, np.array([b"ab"], object), name="a table without words")
    yield Graph(empty_table, np.array([b"", b""], object), name="a table without words, and no words")


# ---- the fast tokenizers, whose models are FlatBuffers --------------------------------------


def bytes_of(model):
    return np.frombuffer(model, np.uint8)


@spec("FastBertNormalize")
def fast_normalize(g, op):
    for lower in (False, True):
        model = bytes_of(normalizer_builder.build_fast_bert_normalizer_model(lower))
        for get_offsets in (False, True):
            for x in vectors(g, 50, 20):
                yield Case(x, model, get_offsets=get_offsets)
            yield Case(strings(g, (2, 3)), Const(model), get_offsets=get_offsets)
            yield Case(np.array(["\x00\x01\t a\ufffd\x7f"], object), model, get_offsets=get_offsets)


VOCABULARIES = [
    (["a", "abc", "abcdefghi", "##de", "##defgxy", "##deh", "##f", "##ghz", "[UNK]"], "##"),
    (["a", "b", "##a", "##b", "ab", "##ab", "aba", "##c", "é", "##é", "日", ",", ".", "[UNK]", "!", "don", "t", "'"], "##"),
    (["a", "#", "##", "###", "##a", "##b", "####", "[UNK]", "[", "]"], "##"),
    (["a", "#", "##a", "###b", "[UNK]"], "##"),
    (["a", "b", "@@a", "@@b", "@", "@@@", "[UNK]", "😀", "@@😀"], "@@"),
    (["a", "xa", "xb", "b", "x", "[UNK]"], "x"),
    (["a", "b", "##b", "[UNK]", "[CLS]", "lead", "and", "tr", "##ail", "##'t", "qu", "##ick", "quick"], "##"),
]


def pieces(g, vocabulary, suffix):
    """Returns strings made of the vocabulary's pieces, with other characters in between."""
    out = []
    for _ in range(int(g.rng.integers(0, 7))):
        parts = []
        for kind in g.rng.integers(0, 10, g.rng.integers(0, 9)):
            word = vocabulary[g.rng.integers(len(vocabulary))]
            parts.append(word.removeprefix(suffix).encode() if kind < 7 else suffix.encode() if kind == 7 else b" " if kind == 8 else text(g, 2))
        out.append(b"".join(parts))
    return np.array(out + [None], object)[:-1]


@spec("FastWordpieceTokenizeWithOffsets")
def fast_wordpiece(g, op):
    for vocabulary, suffix in VOCABULARIES:
        for no_split in (True, False):
            for max_bytes in (100, 5):
                model = bytes_of(wordpiece_builder.build_fast_wordpiece_model(vocabulary, max_bytes, suffix, "[UNK]", no_split, max_bytes == 5))
                for _ in range(20):
                    yield Case(pieces(g, vocabulary, suffix), model)
                for x in vectors(g, 5):
                    yield Case(x, Const(model))
                yield Case(np.array([suffix, suffix + "a", suffix + suffix, "[UNK]", "a" * 99, "a" * 101, "", " "], object), model)
    yield Case(strings(g, (2, 3)), model)
