"""Test cases for the ops of TensorFlow Text that join pieces of words. Ids that the model lacks and row splits that end
too late make TensorFlow Text crash, and are left out."""

import tensorflow_text  # noqa: F401 (registers the ops)
from tensorflow_text.core.pybinds import pywrap_fast_wordpiece_tokenizer_model_builder as wordpiece_builder

from spec import *

VOCABULARIES = [
    (["a", "abc", "abcdefghi", "##de", "##defgxy", "##deh", "##f", "##ghz", "[UNK]"], "##", "[UNK]"),
    (["a", "##", "c", "###", "", "é", "##日", "[UNK]"], "##", "[UNK]"),
    (["a", "@@b", "c", "@@d", "##e", "[UNK]"], "@@", "[UNK]"),
    (["a", "b", "c", "[UNK]"], "", "[UNK]"),
    (["a", "b", "##b", "##[UNK]"], "##", "##[UNK]"),
]


def ragged(g, n_values):
    """Returns row splits, and values of them. Some row splits leave values out."""
    rows = np.cumsum([int(g.rng.integers(0, 2)), *g.rng.integers(0, 5, g.rng.integers(0, 6))])
    return g.rng.integers(0, n_values, int(rows[-1]) + int(g.rng.integers(0, 2))).astype("int32"), rows


@spec("TFText>FastWordpieceDetokenize")
def wordpieces(g, op):
    for vocabulary, suffix, unknown in VOCABULARIES:
        for no_split in (True, False):
            model = np.frombuffer(wordpiece_builder.build_fast_wordpiece_model(vocabulary, 100, suffix, unknown, no_split, True), np.uint8)
            for i in range(20):
                values, rows = ragged(g, len(vocabulary))
                yield Case(values, rows, Const(model) if i % 4 == 0 else model)
            yield Case(np.zeros(0, "int32"), np.zeros(0, "int64"), model)
    model = wordpiece_builder.build_fast_wordpiece_model(["a", "[UNK]"], 100, "##", "[UNK]", True, False)
    yield Case(np.int32([0]), np.array([0, 1]), np.frombuffer(model, np.uint8), texts=True)
