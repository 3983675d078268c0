#!/usr/bin/env python3
"""Measures how fast lines of English text become ids, by Slipway and by TensorFlow Text on one thread (./run bench
tokenizers).

The lines are those of the project's own documents, and so are the vocabularies. TensorFlow's time includes the call of
its session, and Slipway's that of its own. Rounds alternate. The script prints the medians of CPU time.
"""
import collections
import math
import pathlib
import re
import sys
import tempfile

from beside_tensorflow import ROOT, compare, tf

import numpy as np  # noqa: E402
import tensorflow_text as text  # noqa: E402

sys.path.insert(0, str(ROOT / "tests/conformance"))
import sentencepiece_models as sentencepiece  # noqa: E402

N_LINES, SECONDS = 128, 0.5
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LINES_IN = tf.TensorSpec([None], tf.string, "lines")


def lines():
    files = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md"))
    all_lines = (line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in all_lines if len(line) > 60 and line[0].isalpha()]


def word_vocabulary(corpus):
    count = collections.Counter(w for line in corpus for w in re.findall("[a-z]+", line.lower()))
    ends = collections.Counter(w[k:] for w in count for k in range(1, len(w)))
    characters = sorted(set("".join(corpus).lower()) - {" "})
    return [*SPECIAL, *characters, *("##" + c for c in characters), *(w for w, _ in count.most_common(1500) if len(w) > 1),
            *("##" + e for e, _ in ends.most_common(1500) if len(e) > 1)]


def sentencepiece_model(corpus, kind):
    words = ["▁" + word for line in corpus for word in line.split()]
    count = collections.Counter(w[a:b] for w in words for a in range(len(w)) for b in range(a + 1, min(len(w), a + 8) + 1))
    common = [piece for piece, _ in count.most_common(9000) if len(piece) > 1]
    pieces = [("<unk>", 0, sentencepiece.UNKNOWN), ("<s>", 0, sentencepiece.CONTROL), ("</s>", 0, sentencepiece.CONTROL)]
    pieces += [(p, math.log(count[p] * len(p) / count.total()), sentencepiece.NORMAL)
               for p in (*(p for p in count if len(p) == 1), *common)]
    return sentencepiece.model(pieces, kind=kind, normalizer=[(2, sentencepiece.charsmap({"\xa0": " "}))])


class Tokenizers(tf.Module):
    def __init__(self, corpus, folder):
        super().__init__()
        words = word_vocabulary(corpus)
        file = folder / "vocabulary.txt"
        file.write_text("\n".join(words) + "\n", encoding="utf-8")
        unigram, pairs = (sentencepiece_model(corpus, kind) for kind in (sentencepiece.UNIGRAM, sentencepiece.BPE))
        self.tokenizers = {
            "BertTokenizer": text.BertTokenizer(str(file), lower_case=True),
            "FastBertTokenizer": text.FastBertTokenizer(words, suffix_indicator="##", lower_case_nfd_strip_accents=True),
            "WhitespaceTokenizer": text.WhitespaceTokenizer(),
            "SentencepieceTokenizer_unigram": text.SentencepieceTokenizer(unigram),
            "SentencepieceTokenizer_pairs": text.SentencepieceTokenizer(pairs)}

    def signature(self, name):
        def tokenize(lines):
            tokens = self.tokenizers[name].tokenize(lines)
            return {"values": tokens.flat_values, "splits": tokens.row_splits}

        return tf.function(tokenize, input_signature=[LINES_IN])


def main():
    with tempfile.TemporaryDirectory() as path:
        folder, corpus = pathlib.Path(path), lines()
        module = Tokenizers(corpus, folder)
        signatures = {name: module.signature(name) for name in module.tokenizers}
        tf.saved_model.save(module, str(folder / "model"), signatures=signatures)
        batch = np.array(corpus[:N_LINES], object)
        for name in signatures:
            mine, other = compare(folder / "model", name, {"lines": batch}, folder, SECONDS)
            print(f"{name}: {mine:.3f} ms for {N_LINES} lines, {other / mine:.2f} times as fast as TensorFlow Text's {other:.3f} ms",
                  flush=True)


if __name__ == "__main__":
    sys.exit(main())
