"""Test cases for the SentencePiece ops of TensorFlow Text, with random models of every kind. Inputs that make TensorFlow Text
crash or read beyond its tensors are left out: ids that do not exist in SentencepieceIdToStringOp; row splits that decrease, end
beyond the values or are empty; and models whose map of replacements is malformed."""

import tensorflow_text  # noqa: F401 (registers the ops)
from sentencepiece_models import BPE, BYTE, CHAR, CONTROL, NORMAL, UNIGRAM, UNKNOWN, UNUSED, USER_DEFINED, WORD, charsmap, field, model
from tensorflow_text.core.pybinds import pywrap_model_converter as converter

from spec import *

SPACE = "\u2581"
LETTERS = ["a", "b", "c", SPACE, "é", "日", "😀"]
OTHERS = [" ", "  ", "\t", "x", "Z", "<s>", "<unk>", "</s>", "<0x41>", "<sym>", "\x00", "ß", "\u3000", "ａ", "\ufffd", b"\xff", b"\xe2\x96",
          b"\xc3", b"\xf0\x9f\x98", b"\xed\xa0\x80", "a" * 40]
RULES = {"ａ": "a", "\t": " ", "\u3000": " ", "ß": "ss", "x": "", "Z": " a  b ", "ab": "ba", "aba": "é", "日": "😀 "}
BEST = [("<unk>", 0, UNKNOWN), ("<s>", 0, CONTROL), ("</s>", 0, CONTROL)]


def pieces(g, kind, has_bytes):
    """Returns a random vocabulary. Many scores are equal, so that ties occur."""
    texts = set(LETTERS[:5])
    while len(texts) < 24:
        texts.add("".join(LETTERS[i] for i in g.rng.integers(0, 5 if kind < WORD else 7, g.rng.integers(1, 5))))
    if kind == WORD:
        texts |= {SPACE + t for t in list(texts)[:12]}
    out = list(BEST)
    if has_bytes:
        out += [(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256)]
    highest = 2 if g.rng.random() < 0.2 else 0
    for text in sorted(texts):
        type_ = USER_DEFINED if g.rng.random() < 0.05 else UNUSED if g.rng.random() < 0.08 else NORMAL
        out.append((text, float(g.rng.integers(-12, 2 * highest + 1)) / 2 if g.rng.random() < 0.7 else g.rng.normal() - 3, type_))
    if g.rng.random() < 0.4:
        out.append(("<sym>", 0, USER_DEFINED))
    return out


def any_model(g, kind=None, rules=None):
    kind = kind or int(g.rng.integers(UNIGRAM, CHAR + 1))
    has_bytes = g.rng.random() < 0.25
    flags = [(n, bool(g.rng.random() < 0.6)) for n in (3, 4, 5)]
    trainer = [(35, has_bytes), (24, bool(g.rng.random() < 0.2))]
    if g.rng.random() < 0.2:
        trainer.append((44, "??"))
    if rules is None:
        rules = g.rng.random() < 0.5
    normalizer = flags if g.rng.random() < 0.6 else []
    if rules:
        normalizer = [*normalizer, (2, charsmap({k: v for k, v in RULES.items() if g.rng.random() < 0.6} or RULES))]
    undo = [(2, charsmap({"a": "A", "é": ""})), (3, bool(g.rng.random() < 0.3)), (4, False), (5, False)] if g.rng.random() < 0.1 else None
    return model(pieces(g, kind, has_bytes), kind, trainer, normalizer, undo)


def text(g, length=14):
    parts = []
    for _ in range(int(g.rng.integers(0, length))):
        pool = LETTERS if g.rng.random() < 0.7 else OTHERS
        part = pool[g.rng.integers(len(pool))]
        parts.append(" ".encode() if part == SPACE and g.rng.random() < 0.7 else part if isinstance(part, bytes) else part.encode())
    return b"".join(parts)


def strings(g, n, length=14):
    return np.array([text(g, length) for _ in range(n)] + [None], object)[:-1]


def node(tf, op, proto, **inputs):
    from tensorflow.python.framework import op_def_library
    handle = op_def_library._apply_op_helper("SentencepieceOp", name="model", model=proto, container="", shared_name="",
                                             use_node_name_sharing=False)[2].outputs[0]
    return list(op_def_library._apply_op_helper(op, name="op", sp_handle=handle, **inputs)[2].outputs)


def tokenize(op, proto, x, nbest_size=0, alpha=0.0, add_bos=False, add_eos=False, reverse=False, texts=False, **attrs):
    def build(tf, x, nbest_size, alpha):
        attrs.setdefault("return_nbest", False)
        return node(tf, op, proto, input=x, nbest_size=nbest_size, alpha=alpha, add_bos=add_bos, add_eos=add_eos, reverse=reverse,
                    **{k: getattr(tf, v) if k != "return_nbest" else v for k, v in attrs.items()})

    return Graph(build, x, np.int32(nbest_size), np.float32(alpha), texts=texts, name=f"{nbest_size} {add_bos} {add_eos} {reverse} {attrs}")


def attributes(g):
    return dict(out_type=["int32", "string"][g.rng.integers(2)], Tsplits=["int64", "int32"][g.rng.integers(2)])


@spec("SentencepieceTokenizeOp", "SentencepieceTokenizeWithOffsetsOp")
def tokenizers(g, op):
    for i in range(320):
        options = {name: bool(g.rng.random() < 0.2) for name in ("add_bos", "add_eos", "reverse")}
        x = strings(g, int(g.rng.integers(0, 7)), 300 if i % 40 == 0 else 14)
        yield tokenize(op, any_model(g, kind=1 + i % 4), x, nbest_size=i % 2, **options, **attributes(g))
    for i in range(80):  # the best lists; other kinds than unigram have none
        yield tokenize(op, any_model(g, UNIGRAM), strings(g, 3, 8), nbest_size=[1, 2, 5, 20][i % 4], return_nbest=True, reverse=i % 5 == 0,
                       add_bos=i % 7 == 0, **attributes(g))
    for kind in (BPE, WORD, CHAR):
        yield tokenize(op, any_model(g, kind), strings(g, 2), nbest_size=2, return_nbest=True)
    for kind in (WORD, CHAR):
        yield tokenize(op, any_model(g, kind), strings(g, 2), nbest_size=2)
    proto = model([*BEST, (SPACE, -2, NORMAL), ("a", -1, NORMAL), ("b", -3, NORMAL)])
    x = np.array(["ab"], object)
    for nbest_size in (0, -1):
        yield tokenize(op, proto, x, nbest_size=nbest_size, return_nbest=True, texts=True)
    yield tokenize(op, proto, x, nbest_size=[2], return_nbest=True, texts=True)
    yield tokenize(op, proto, x, nbest_size=513, alpha=0.5)
    yield tokenize(op, proto, np.array(["ab", "a"], object), nbest_size=[0, 1], alpha=[0.5, 0.5])
    yield tokenize(op, proto, np.array([["ab", "a"], ["", "b"]], object))
    yield tokenize(op, proto, np.array("a b", object))
    yield tokenize(op, model(BEST[:1] + [("a", -1, NORMAL)]), x, add_bos=True)
    yield tokenize(op, model(BEST[:1] + [("a", -1, NORMAL)]), x, add_eos=True)
    # Where there is only one list, drawing has only one result: one piece, or pairs that are always or never merged.
    only = model([*BEST, ("a", -1, NORMAL), ("b", -3, NORMAL), ("ab", -2, NORMAL), ("c", -1, NORMAL)], normalizer=[(3, False)])
    for nbest_size in (-1, 2, 512):
        yield tokenize(op, only, np.array(["c", "", "b"], object), nbest_size=nbest_size, alpha=0.5)
        for alpha in (0.0, -1.0, 1.0):
            pairs = model([*BEST, ("a", -1, NORMAL), ("b", -3, NORMAL), ("ab", -2, NORMAL)], BPE, normalizer=[(3, False)])
            yield tokenize(op, pairs, np.array(["abab", "", "ba"], object), nbest_size=nbest_size, alpha=alpha)
    long = strings(g, 1, 3000)
    for kind in (UNIGRAM, BPE, WORD, CHAR):
        yield tokenize(op, any_model(g, kind), long, **attributes(g))


BAD_MODELS = {
    "no model": b"", "garbage": b"\xff\xff\xff", "no pieces": model([]), "no unknown piece": model([("a", 0, NORMAL)]),
    "two unknown pieces": model([*BEST, ("a", 0, UNKNOWN)]), "an empty piece": model([*BEST, ("", 0, NORMAL)]),
    "a piece twice": model([*BEST, ("a", 0, NORMAL), ("a", 0, NORMAL)]), "a control piece twice": model([*BEST, ("<s>", 0, CONTROL)]),
    "no pieces in text": model(BEST), "a byte that is not allowed": model([*BEST, ("<0x41>", 0, BYTE), ("a", 0, NORMAL)]),
    "a byte that is none": model([*BEST, ("<0x4a>", 0, BYTE), ("a", 0, NORMAL)], trainer=[(35, True)]),
    "too few bytes": model([*BEST, ("<0x41>", 0, BYTE), ("a", 0, NORMAL)], trainer=[(35, True)]),
    "a short map": model([*BEST, ("a", 0, NORMAL)], normalizer=[(2, b"\x01")]),
    "a map without replacements": model([*BEST, ("a", 0, NORMAL)], normalizer=[(2, b"\x04\0\0\0\0\0\0\0")]),
    "an unknown kind": model([*BEST, ("a", 0, NORMAL)], kind=9), "a broken piece": field(1, b"\x0a\x7f"),
}


@spec("SentencepieceVocabSizeOp")
def vocabulary_size(g, op):
    for _ in range(12):
        proto = any_model(g)
        yield Graph(lambda tf, proto=proto: node(tf, op, proto))
    for name, proto in BAD_MODELS.items():
        yield Graph(lambda tf, proto=proto: node(tf, op, proto), name=name)
    for kind in (BPE, WORD, CHAR):
        yield Graph(lambda tf, kind=kind: node(tf, op, model(BEST, kind)), name=f"no pieces in text, kind {kind}")

    def other_resource(tf):
        from tensorflow.python.framework import op_def_library
        handle = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        return list(op_def_library._apply_op_helper(op, name="op", sp_handle=handle)[2].outputs)

    yield Graph(other_resource, name="a table")


@spec("SentencepieceIdToStringOp")
def id_to_string(g, op):
    for shape in [(), (0,), (3,), (2, 3), (2, 0, 3), (1, 2, 1, 2)] * 4:
        proto = any_model(g)
        yield Graph(lambda tf, x, proto=proto: node(tf, op, proto, input=x), g.rng.integers(0, 20, shape).astype(np.int32))


@spec("SentencepieceStringToIdOp")
def string_to_id(g, op):
    for shape in [(), (0,), (9,), (2, 3), (2, 0, 3), (1, 2, 1, 2)] * 4:
        proto = any_model(g)
        known = [t for t, _, _ in BEST] + LETTERS + ["ab", "ba", "aa", SPACE + "a", "", "a\0", "<0x41>"]
        x = np.array([known[i].encode() for i in g.rng.integers(0, len(known), int(np.prod(shape)))] + [None], object)[:-1].reshape(shape)
        yield Graph(lambda tf, x, proto=proto: node(tf, op, proto, input=x), x)


def detokenize(op, proto, values, splits, add_bos=False, add_eos=False, reverse=False, texts=False):
    def build(tf, values, splits):
        return node(tf, op, proto, input_values=values, input_splits=splits, add_bos=add_bos, add_eos=add_eos, reverse=reverse)

    return Graph(build, values, splits, texts=texts, name=f"{add_bos} {add_eos} {reverse}")


@spec("SentencepieceDetokenizeOp")
def detokenizers(g, op):
    known = [t for t, _, _ in BEST] + LETTERS + ["ab", "ba", "aa", SPACE + "a", SPACE + SPACE, "", "zz", SPACE + "q", "<0xE6>", "<0x97>", "<0xA5>", "<0x41>"]
    for i in range(240):
        splits = np.cumsum([0, *g.rng.integers(0, 7, g.rng.integers(0, 4))]).astype(["int64", "int32"][i // 2 % 2])
        n = int(splits[-1])
        if i % 2:
            values = np.array([known[k].encode() for k in g.rng.integers(0, len(known), n)] + [b"\xff", None], object)[:n]
        else:
            values = g.rng.integers(0, 26, n).astype(np.int32)
        options = {name: bool(g.rng.random() < 0.2) for name in ("add_bos", "add_eos", "reverse")}
        yield detokenize(op, any_model(g), values, splits, **options)
    for i in range(30):  # bytes, some of which form no character
        texts = ["<0xE6>", "<0x97>", "<0xA5>", "<0xFF>", "<0xF0>", "<0x41>", "<0xED>", "<0xA0>", "<0x80>", SPACE, "a", "<s>"]
        values = np.array([texts[k].encode() for k in g.rng.integers(0, len(texts), 9)], object)
        yield detokenize(op, model(pieces(g, 1 + i % 4, True), 1 + i % 4, [(35, True)]), values, np.int64([0, 2, 9]))
    proto = any_model(g, UNIGRAM)
    for bad in (-1, 9999):
        yield detokenize(op, proto, np.int32([4, bad]), np.int64([0, 2]), texts=True)
    yield detokenize(op, proto, np.int32([4]), np.int64([2, 2]), texts=True)
    yield detokenize(op, model(BEST[:1] + [("a", -1, NORMAL)]), np.int32([1]), np.int64([0, 1]), add_bos=True)


# ---- the fast tokenizer, whose models are FlatBuffers that are made from unigram models -----------------------------


def fast_model(g):
    """Returns a model that can be converted: it has a map of replacements, and no unused pieces or bytes."""
    chosen = [(t, s, type_) for t, s, type_ in pieces(g, UNIGRAM, False) if type_ != UNUSED]
    ids = [(n, int(g.rng.integers(-1, 5))) for n in (40, 41, 42) if g.rng.random() < 0.5]
    flags = [(n, bool(g.rng.random() < 0.6)) for n in (3, 4, 5)] if g.rng.random() < 0.7 else []
    rules = {k: v for k, v in [*RULES.items(), (" a", "c"), (" ", "b")] if g.rng.random() < 0.4}
    return model(chosen, UNIGRAM, ids, [*flags, (2, charsmap(rules or RULES))])


def bytes_of(text):
    return np.frombuffer(text if isinstance(text, bytes) else bytes(text), np.uint8)


@spec("TFText>FastSentencepieceTokenize")
def fast_tokenize(g, op):
    spaces = [b" \t a", b"\r\n", b"a \n", b" ", b"  ", b"a\t", b"a\t\t", b"\x0b a", "\u3000a".encode()]
    for i in range(300):
        x = strings(g, int(g.rng.integers(0, 6)), 300 if i % 40 == 0 else 14) if i % 9 else np.array(spaces, object)
        flags = [np.bool_(g.rng.random() < 0.25) for _ in range(3)]
        proto = bytes_of(converter.convert_sentencepiece_model(fast_model(g)))
        yield Case(proto, x, np.int32(i % 3), np.float32(0.5), *flags, out_type="int32", Tsplits="int32")
    proto = bytes_of(converter.convert_sentencepiece_model(fast_model(g)))
    for x in (np.array(b"a b", object), strings(g, 4).reshape(2, 2)):
        yield Case(proto, x, np.int32(0), np.float32(0), *[np.bool_(False)] * 3, out_type="int32", Tsplits="int32")


@spec("TFText>FastSentencepieceDetokenize")
def fast_detokenize(g, op):
    for i in range(120):
        model_ = bytes_of(converter.convert_sentencepiece_model_for_decoder(fast_model(g)))
        splits = np.cumsum([i % 10 == 9, *g.rng.integers(0, 7, g.rng.integers(0, 4))]).astype(["int64", "int32"][i % 2])
        yield Case(model_, g.rng.integers(0, 22, int(splits[-1])).astype(np.int32), splits)
    for bad in (-1, 9999, -2**31):
        yield Case(model_, np.int32([4, bad]), np.int64([0, 2]), texts=True)
