"""Exports to this folder a model with tokenizers of TensorFlow Text, and writes its results to answers.json. Needs
tensorflow-text (PyPI). The SavedModel is stored with xz, because its graph is 1.5 MB of repeated names."""
import base64
import json
import lzma
import os
import pathlib
import random
import shutil
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
import tensorflow_text as text

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "conformance"))
import sentencepiece_models as sentencepiece

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "quick", "##ly", "brown", "fox", "##es", "jump", "##ed", "over", "a", "lazy",
              "dog", "##s", ".", ",", "!", "don", "'", "t", "naive", "cafe", "##e", "日", "本", "##語", "b", "c", "##b", "##c", "d", "e",
              "i", "##i", "s", "##a", "##d", "?", "-", "ω", "##μ", "με", "##γα"]
PARTS = [b"The", b" ", b" ", b"quick", b"quickly", b"foxes", b"JUMPED", b"over", b"lazy", b"dogs", b".", b", ", b"!", b"don't",
         "naïve CAFÉ".encode(), "日本語".encode(), "Ωμέγα".encode(), "e\u0301\u0323".encode(), "\u2028".encode(), "\xa0".encode(), b"\x00",
         "😀".encode(), "ǅ\u00adß\ufb01".encode(), "각각".encode(), b"[UNK]", b"##s", b"\xff", b"\xc0\xa0", b"\xe2\x82", b"\xed\xa0\x80",
         b"\xf4\x90\x80\x80", b"\xf0\x9f", b"x" * 120]
PIECES = [("<unk>", 0, sentencepiece.UNKNOWN), ("<s>", 0, sentencepiece.CONTROL), ("</s>", 0, sentencepiece.CONTROL),
          ("[UNK]", 0, sentencepiece.USER_DEFINED),
          *((piece, -1 - 0.25 * i, sentencepiece.NORMAL) for i, piece in enumerate(
              ["▁the", "▁", "▁The", "▁quick", "ly", "qu", "ick", "▁fox", "es", "▁over", "over", "▁dog", "s", "▁don", "'", "t", "日本", "日",
               "語", "Ω", "μ", "é", "fi", "x", "xx", "xxxx", "xxxxxxxx", "a", "e", "o", "r", "d", "g", "l", "z", "y", ".", ",", "!"]))]
NORMALIZER = [(2, sentencepiece.charsmap({"\ufb01": "fi", "\xa0": " ", "e\u0301": "é", "\xad": ""}))]
PHRASES = ["The", "quick", "The quick", "The quick brown foxes jumped", "jumped over", "over a", "a", "lazy dog", "dog .", ".", ",", "!",
           "[UNK]", "foxes", "naïve CAFÉ", "日本語", "日本語 日本語", "##s"]
TEXTS = tf.TensorSpec([None], tf.string, "text")
WIDTH = 24


class Tokenizers(tf.Module):
    def __init__(self, vocabulary_file):
        super().__init__()
        self.bert = text.BertTokenizer(vocabulary_file, lower_case=True)
        self.fast = text.FastBertTokenizer(VOCABULARY, suffix_indicator="##", lower_case_nfd_strip_accents=True)
        self.white = text.WhitespaceTokenizer()
        self.pieces = text.SentencepieceTokenizer(sentencepiece.model(PIECES, normalizer=NORMALIZER), add_eos=True)
        self.phrases_model = text.PhraseTokenizer(PHRASES, tf.int64, "[UNK]", split_end_punctuation=True)

    @tf.function(input_signature=[TEXTS])
    def bert_ids(self, texts):
        ids = self.bert.tokenize(texts).merge_dims(1, 2)
        n = tf.shape(texts)[0]
        ids = tf.concat([tf.fill([n, 1], tf.constant(2, tf.int64)), ids[:, :WIDTH - 2], tf.fill([n, 1], tf.constant(3, tf.int64))], 1)
        return {"ids": ids.to_tensor(shape=[None, WIDTH])}

    @tf.function(input_signature=[TEXTS])
    def fast_ids(self, texts):
        ids, begin, end = self.fast.tokenize_with_offsets(texts)
        return {"ids": ids.values, "begin": begin.values, "end": end.values, "row_splits": ids.row_splits}

    @tf.function(input_signature=[TEXTS])
    def words(self, texts):
        words, begin, end = self.white.tokenize_with_offsets(texts)
        return {"words_bytes": words.to_tensor(), "begin": begin.to_tensor(), "end": end.to_tensor()}

    @tf.function(input_signature=[TEXTS])
    def sentence(self, texts):
        ids, begin, end = self.pieces.tokenize_with_offsets(texts)
        return {"ids": ids.values, "begin": begin.values, "end": end.values, "row_splits": ids.row_splits,
                "joined_bytes": self.pieces.detokenize(ids)}

    @tf.function(input_signature=[TEXTS])
    def phrases(self, texts):
        ids = self.phrases_model.tokenize(texts)
        return {"ids": ids.values, "row_splits": ids.row_splits, "joined_bytes": self.phrases_model.detokenize(ids)}

    @tf.function(input_signature=[TEXTS])
    def normalize(self, texts):
        return {"folded_bytes": text.case_fold_utf8(texts), "composed_bytes": text.normalize_utf8(texts, "NFKC")}


def encode(value):
    """Returns strings as base64 within lists, and numbers unchanged."""
    if isinstance(value, list):
        return [encode(v) for v in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def batches():
    draw = random.Random(7)
    yield [b"The quick brown foxes jumped over a lazy dog.", "Don't, naïve CAFÉ!".encode(), b"", b"   "]
    yield [b""]
    for n in (1, 1, 2, 3, 5, 8) * 4:
        yield [b"".join(draw.choices(PARTS, k=draw.randint(0, 16))) for _ in range(n)]
    words = [word for phrase in PHRASES for word in phrase.encode().split()]
    for n in (1, 3, 6):
        yield [b" ".join(draw.choices(words, k=draw.randint(0, 12))) + draw.choice([b"", b".", b"!", b" ,"]) for _ in range(n)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        vocabulary_file = os.path.join(folder, "vocabulary.txt")
        pathlib.Path(vocabulary_file).write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
        module = Tokenizers(vocabulary_file)
        names = ("bert_ids", "fast_ids", "words", "sentence", "phrases", "normalize")
        tf.saved_model.save(module, os.path.join(folder, "model"), signatures={name: getattr(module, name) for name in names})
        loaded = tf.saved_model.load(os.path.join(folder, "model")).signatures
        answers = []
        for batch in batches():
            results = {name: loaded[name](text=tf.constant(batch)) for name in names}
            answers.append({"text": encode(batch), "outputs": {
                name: {key: encode(value.numpy().tolist()) for key, value in result.items()} for name, result in results.items()}})
        shutil.rmtree(HERE / "model", ignore_errors=True)
        shutil.copytree(os.path.join(folder, "model"), HERE / "model" / "1")
    os.remove(HERE / "model" / "1" / "fingerprint.pb")
    graph = HERE / "model" / "1" / "saved_model.pb"
    (HERE / "saved_model.pb.xz").write_bytes(lzma.compress(graph.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    os.remove(graph)
    (HERE / "answers.json").write_text("[\n" + ",\n".join(map(json.dumps, answers)) + "\n]\n", encoding="utf-8")


main()
