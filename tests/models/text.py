"""Texts: the tokenizers of BERT, Wordpiece and SentencePiece before small encoders, and regular expressions."""

import pathlib
import sys

from catalogue import Request, model, np, random, texts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "lazy",
    "dog",
    "un",
    "##able",
    "##ing",
    "run",
    "play",
    "##ed",
    "##s",
    "a",
    "b",
    "c",
    "d",
    "e",
    "##a",
    "##b",
    "##e",
    ",",
    ".",
    "!",
    "?",
    "caf",
    "##e",
    "日",
    "本",
]
VOCABULARY = list(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
SPOKEN = ["The", "quick", "brown", "foxes", "jumped", "over", "playing", "unable", "Café", "日本", "zebra!", "don't", "a,b", "ＡＢ", "dog."]


def encoder(tf, size, width=32, layers=2, heads=4, longest=32):
    """Returns a small transformer encoder as a function of (ids, mask, types), and its variables."""
    made, seed = [], [100]

    def variable(*shape):
        seed[0] += 1
        made.append(tf.Variable(random(seed[0], shape, -0.4, 0.4)))
        return made[-1]

    tokens, positions, types = variable(size, width), variable(longest, width), variable(2, width)
    blocks = [
        [variable(width, 3, heads, width // heads), variable(heads, width // heads, width), variable(width, 64), variable(64, width)]
        for _ in range(layers)
    ]
    pooler = variable(width, width)

    def norm(x):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-6)

    def encode(ids, mask, kinds):
        x = norm(tf.gather(tokens, ids) + positions[: tf.shape(ids)[1]] + tf.gather(types, kinds))
        for qkv, o, up, down in blocks:
            q, k, v = tf.unstack(tf.einsum("bnd,dthk->tbhnk", x, qkv))
            scores = tf.einsum("bhnk,bhlk->bhnl", q, k) / (width // heads) ** 0.5 + (1 - tf.cast(mask, tf.float32))[:, None, None] * -1e4
            x = norm(x + tf.einsum("bhnl,bhlk,hkd->bnd", tf.nn.softmax(scores), v, o))
            x = norm(x + tf.nn.gelu(x @ up, approximate=True) @ down)
        return x, tf.tanh(x[:, 0] @ pooler)

    return encode, made


@model("bert_from_strings", "fast_bert_from_strings")
def bert(folder, name):
    """An encoder of pairs of sentences, of single sentences and of ids, and the offsets of tokens."""
    import tensorflow as tf
    import tensorflow_text as text

    table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(VOCABULARY, tf.range(len(VOCABULARY), dtype=tf.int64)), 1)
    if name == "bert_from_strings":
        tokenizer = text.BertTokenizer(table, token_out_type=tf.int64, lower_case=True)
    else:
        tokenizer = text.FastBertTokenizer(
            VOCABULARY, token_out_type=tf.int64, lower_case_nfd_strip_accents=True, support_detokenization=True
        )
    encode, variables = encoder(tf, len(VOCABULARY) + 1)
    by_sentence = lambda t: t.merge_dims(-2, -1) if t.ragged_rank == 2 else t
    strings = lambda alias: tf.TensorSpec([None], tf.string, alias)

    class Bert(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [variables, table, tokenizer]

        def tokens(self, sentences):
            return tf.cast(by_sentence(tokenizer.tokenize(sentences)), tf.int64)

        @tf.function(input_signature=[strings("first"), strings("second")])
        def pairs(self, first, second):
            segments = text.RoundRobinTrimmer(16).trim([self.tokens(first), self.tokens(second)])
            joined, types = text.combine_segments(segments, 2, 3)
            ids, mask = text.pad_model_inputs(joined, 20)
            types, _ = text.pad_model_inputs(types, 20)
            sequence, pooled = encode(ids, mask, types)
            return {
                "pooled_output": pooled,
                "sequence_output": sequence,
                "input_word_ids": ids,
                "input_mask": mask,
                "input_type_ids": types,
            }

        @tf.function(input_signature=[strings("sentences")])
        def single(self, sentences):
            tokens = self.tokens(sentences)
            starts = tf.fill([tokens.nrows(), 1], tf.constant(2, tf.int64))
            ids = tf.concat([starts, tokens[:, :14], starts + 1], 1).to_tensor(shape=[None, 16])
            _, pooled = encode(ids, tf.cast(ids > 0, tf.int32), tf.zeros_like(ids))
            return {"probabilities": tf.nn.softmax(pooled[:, :4]), "length": tokens.row_lengths()}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64, "ids")])
        def ids(self, ids):
            return {"sequence": encode(ids, tf.cast(ids > 0, tf.int32), tf.zeros_like(ids))[0]}

        @tf.function(input_signature=[strings("sentences")])
        def offsets(self, sentences):
            tokens, starts, ends = tokenizer.tokenize_with_offsets(sentences)
            words = tokenizer.detokenize(by_sentence(tokens))
            return {
                "tokens": by_sentence(tokens).to_tensor(-1),
                "starts": by_sentence(starts).to_tensor(-1),
                "ends": by_sentence(ends).to_tensor(-1),
                "words": tf.strings.reduce_join(words, -1, separator=" ") if words.shape.rank == 2 else words,
            }

    made = Bert()
    tf.saved_model.save(made, folder, {"serving_default": made.pairs, "single": made.single, "ids": made.ids, "offsets": made.offsets})
    requests = []
    for n in (1, 5):
        first, second = texts(n, n, SPOKEN), texts(n + 10, n, SPOKEN, 30)
        requests += [
            Request("serving_default", {"first": first, "second": second}),
            Request("single", {"sentences": second}),
            Request("offsets", {"sentences": first}),
            Request("ids", {"ids": np.arange(n * 6).reshape(n, 6) % 30}),
        ]
    return requests + [
        Request("single", {"sentences": np.array([], object)}),
        Request("single", {"sentences": np.array([b"\xff\xfe bad", b""], object)}),
    ]


@model("wordpiece_pipeline")
def wordpiece_pipeline(folder):
    """Whitespace, Unicode script and Wordpiece tokenizers, n-grams, normalisation, and a bag of words with a linear classifier."""
    import tensorflow as tf
    import tensorflow_text as text

    table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(VOCABULARY, tf.range(len(VOCABULARY), dtype=tf.int64)), 3)
    white, script = text.WhitespaceTokenizer(), text.UnicodeScriptTokenizer()
    wordpiece = text.WordpieceTokenizer(table, token_out_type=tf.string)
    fast = text.FastWordpieceTokenizer(VOCABULARY, token_out_type=tf.int32, no_pretokenization=True)
    sentences = [tf.TensorSpec([None], tf.string, "sentences")]

    class Pipeline(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [table, wordpiece, fast]
            self.weights = tf.Variable(random(1, (len(VOCABULARY) + 3, 4), -1, 1))

        @tf.function(input_signature=sentences)
        def classify(self, sentences):
            ids = table.lookup(wordpiece.tokenize(script.tokenize(text.case_fold_utf8(sentences))).merge_dims(-2, -1))
            embedded = tf.ragged.map_flat_values(lambda i: tf.gather(self.weights, i), ids)
            return {"scores": tf.nn.softmax(tf.reduce_sum(embedded, 1)), "n": ids.row_lengths()}

        @tf.function(input_signature=sentences)
        def grams(self, sentences):
            words = white.tokenize(text.normalize_utf8(sentences, "NFKC"))
            joined = text.ngrams(words, 2, reduction_type=text.Reduction.STRING_JOIN, string_separator="_")
            pieces = fast.tokenize(words)
            return {
                "bigrams": joined.to_tensor(b""),
                "pieces": pieces.merge_dims(-2, -1).to_tensor(-1),
                "skip": tf.strings.ngrams(words, [1, 3]).to_tensor(b""),
                "upper": tf.strings.upper(sentences, encoding="utf-8"),
                "shape": tf.cast(text.wordshape(words, text.WordShape.HAS_TITLE_CASE), tf.int32).to_tensor(-1),
            }

        @tf.function(input_signature=sentences)
        def characters(self, sentences):
            points = tf.strings.unicode_decode(sentences, "UTF-8", errors="replace")
            reversed_ = tf.strings.unicode_encode(tf.reverse(points.to_tensor(32), [1]), "UTF-8")
            split = tf.strings.unicode_split_with_offsets(sentences, "UTF-8")
            spoken = text.SplitMergeTokenizer()
            return {
                "points": points.to_tensor(-1),
                "reversed": reversed_,
                "letters": split[0].to_tensor(b""),
                "starts": split[1].to_tensor(-1),
                "lengths": tf.strings.length(sentences, "UTF8_CHAR"),
                "scripts": tf.strings.unicode_script(points).to_tensor(-1),
                "merged": spoken.tokenize(sentences, tf.zeros([tf.shape(sentences)[0], 64], tf.int32)).to_tensor(b""),
            }

    made = Pipeline()
    tf.saved_model.save(made, folder, {"serving_default": made.classify, "grams": made.grams, "characters": made.characters})
    batches = [texts(n, n, SPOKEN) for n in (1, 4)] + [np.array([b"", b"  "], object)]
    return [Request(s, {"sentences": b}) for b in batches for s in ("serving_default", "grams")] + [
        Request("characters", {"sentences": b}) for b in batches[:2]
    ]


@model("sentencepiece_encoder")
def sentencepiece_encoder(folder):
    """Both SentencePiece tokenizers before an encoder, and the way back."""
    import sentencepiece_models as sp
    import tensorflow as tf
    import tensorflow_text as text

    letters = [(c, -6.0, sp.NORMAL) for c in "▁abcdefghijklmnopqrstuvwxyz.,!?'"]
    words = [
        (w, -2.0 - 0.1 * i, sp.NORMAL)
        for i, w in enumerate(["▁the", "▁quick", "▁brown", "▁fox", "es", "▁jump", "ed", "▁over", "▁play", "ing", "un"])
    ]
    pieces = [("<unk>", 0.0, sp.UNKNOWN), ("<s>", 0.0, sp.CONTROL), ("</s>", 0.0, sp.CONTROL), *words, *letters]
    proto = sp.model(
        pieces, normalizer=[(2, sp.charsmap({c: c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})), (3, True), (4, True), (5, True)]
    )
    tokenizer = text.SentencepieceTokenizer(proto, out_type=tf.int32, add_bos=True, add_eos=True)
    fast = text.FastSentencepieceTokenizer(proto)
    encode, variables = encoder(tf, len(pieces))
    sentences = [tf.TensorSpec([None], tf.string, "sentences")]

    class Albert(tf.Module):
        def __init__(self):
            super().__init__()
            self.parts = [variables, tokenizer, fast]

        @tf.function(input_signature=sentences)
        def encode(self, sentences):
            ids = tokenizer.tokenize(sentences)[:, :32].to_tensor(0)
            return {"pooled": encode(ids, tf.ones_like(ids), tf.zeros_like(ids))[1], "ids": ids}

        @tf.function(input_signature=sentences)
        def fast(self, sentences):
            ids = fast.tokenize(sentences)
            return {"ids": ids.to_tensor(-1), "back": fast.detokenize(ids), "lengths": ids.row_lengths()}

        @tf.function(input_signature=sentences)
        def round_trip(self, sentences):
            ids, starts, ends = tokenizer.tokenize_with_offsets(sentences)
            return {
                "back": tokenizer.detokenize(ids),
                "starts": starts.to_tensor(-1),
                "ends": ends.to_tensor(-1),
                "pieces": tf.ragged.map_flat_values(tokenizer.id_to_string, ids).to_tensor(b""),
                "size": tokenizer.vocab_size(),
            }

    made = Albert()
    signatures = {"serving_default": made.encode, "fast": made.fast, "round_trip": made.round_trip}
    tf.saved_model.save(made, folder, signatures)
    return [Request(s, {"sentences": b}) for b in (texts(1, 1, SPOKEN), texts(2, 4, SPOKEN), np.array([b""], object)) for s in signatures]


@model("string_processing")
def string_processing(folder):
    """Fields of JSON-like and CSV lines by regular expressions, logs, dates, hashes and formats."""
    import tensorflow as tf

    lines = [tf.TensorSpec([None], tf.string, "lines")]

    class Strings(tf.Module):
        @tf.function(input_signature=lines)
        def json(self, lines):
            field = lambda name, pattern: tf.strings.regex_replace(lines, r'^.*"%s"\s*:\s*"?(%s)"?.*$' % (name, pattern), r"\1", False)
            has = tf.strings.regex_full_match(lines, r'.*"price"\s*:\s*-?[0-9.]+.*')
            price = tf.strings.to_number(tf.where(has, field("price", r"-?[0-9.]+"), "0"))
            user = tf.strings.strip(tf.strings.lower(field("user", "[^\"]*")))
            tags = tf.strings.split(tf.strings.regex_replace(field("tags", r"\[[^\]]*\]"), r'[\[\]" ]', ""), ",")
            hashed = tf.ragged.map_flat_values(lambda t: tf.strings.to_hash_bucket_fast(t, 50), tags)
            weights = tf.one_hot(hashed.to_tensor(0), 50)
            return {
                "price": price,
                "user": user,
                "tags": tags.to_tensor(b""),
                "n": tags.row_lengths(),
                "bag": tf.reduce_sum(weights, 1),
                "strong": tf.strings.to_hash_bucket_strong(user, 97, [3, 5]),
            }

        @tf.function(input_signature=lines)
        def csv(self, lines):
            columns = tf.io.decode_csv(lines, [tf.constant([0], tf.int64), tf.constant([1.5]), tf.constant(["none"])])
            return {
                "id": columns[0],
                "value": columns[1],
                "name": tf.strings.join([columns[2], tf.strings.as_string(columns[1], 2)], "="),
                "total": tf.math.segment_sum(columns[1], tf.cast(tf.range(tf.size(lines)) // 2, tf.int64)),
            }

        @tf.function(input_signature=lines)
        def report(self, lines):
            words = tf.strings.split(lines)
            unique, _, count = tf.unique_with_counts(words.flat_values)
            order = tf.argsort(-count, stable=True)
            length = tf.strings.length(lines)
            return {
                "words": tf.gather(unique, order),
                "count": tf.gather(count, order),
                "joined": tf.strings.reduce_join(lines, separator="\n"),
                "format": tf.strings.format("{} lines: {}", (tf.size(lines), lines)),
                "starts": tf.strings.regex_full_match(lines, "^[a-z].*"),
                "base64": tf.io.encode_base64(lines, pad=True),
                "sub": tf.strings.substr(lines, tf.zeros_like(length), tf.minimum(length, 3)),
                "bytes": tf.io.decode_raw(tf.strings.substr(tf.strings.join([lines, "      "]), 0, 4), tf.uint8),
                "longest": tf.reduce_max(length),
            }

    made = Strings()
    tf.saved_model.save(made, folder, {k: getattr(made, k) for k in ("json", "csv", "report")})
    json = np.array([b'{"user": " Ann ", "price": 12.5, "tags": ["red", "big"]}', b'{"user":"Bo","tags":[]}', b'{"price":-3}'], object)
    csv = np.array([b"1,2.5,abc", b',,"x,y"', b"7,-1e3,"], object)
    return [
        Request("json", {"lines": json}),
        Request("csv", {"lines": csv}),
        Request("report", {"lines": texts(3, 5, SPOKEN)}),
        Request("json", {"lines": json[:1]}),
        Request("csv", {"lines": csv[:1]}),
        Request("csv", {"lines": np.array([b"1,2"], object)}),
        Request("report", {"lines": np.array([b"a b a", b"B"], object)}),
    ]
