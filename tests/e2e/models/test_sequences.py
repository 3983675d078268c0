"""Serves a model that decodes sequences, counts values and fills a table in each run. Tests every way in which the
server runs a model. Requests of all signatures are mixed, and their shapes change."""

import small_models
from support import Case

SETTINGS = ((), ("--specialise=off",), ("--enable_model_warmup=false",))
RUNS = 60  # enough runs for tier 1, in which code is compiled for a shape that has occurred twice


INPUTS = {"logits": "float", "lengths": "int32", "splits": "int64", "values": "int64", "words": "string", "numbers": "int64",
          "asked": "string"}


def build(g):
    for name, dtype in INPUTS.items():
        g.placeholder(name, dtype)
    g.const("none", "int64", [], int64_val=[-1])
    g.const("size", "int64", [], int64_val=[5])
    g.const("weights", "float", [0])
    g.node("decoded", "CTCGreedyDecoder", "logits", "lengths", T="float").attr["merge_repeated"].b = True
    g.node("score", "Identity", "decoded:3", T="float")
    g.node("labels", "SparseToDense", "decoded", "decoded:2", "decoded:1", "none", T="int64", Tindices="int64")
    g.node("bins", "RaggedBincount", "splits", "values", "size", "weights", T="float", Tidx="int64")
    g.node("table", "AnonymousMutableHashTable", key_dtype="string", value_dtype="int64")
    g.node("insert", "LookupTableInsertV2", "table", "words", "numbers", Tin="string", Tout="int64")
    g.node("found", "LookupTableFindV2", "table", "asked", "none", "^insert", Tin="string", Tout="int64")
    g.node("table_size", "LookupTableSizeV2", "table", "^insert")


def ends(*names, dtype=None):
    """Returns the inputs or outputs of a signature, each with the name of its tensor."""
    return {name: (name, dtype or INPUTS[name]) for name in names}


SIGNATURES = {
    "decode": (ends("logits", "lengths"), ends("labels", dtype="int64") | ends("score", dtype="float")),
    "count": (ends("splits", "values"), ends("bins", dtype="float")),
    "find": (ends("words", "numbers", "asked"), ends("found", "table_size", dtype="int64")),
}


def decode(draw):
    """Returns inputs for `decode` and the expected outputs. The last of four classes is the blank."""
    n_time, batch = draw.choice(((6, 2), (4, 1), (draw.randint(1, 9), 3)))
    logits = [[[draw.randint(-9, 9) + k / 8 for k in range(4)] for _ in range(batch)] for _ in range(n_time)]
    lengths, rows, scores = [draw.randint(0, n_time) for _ in range(batch)], [], []
    for b in range(batch):
        best = [max(range(4), key=logits[t][b].__getitem__) for t in range(lengths[b])]
        rows.append([k for t, k in enumerate(best) if k != 3 and (t == 0 or best[t - 1] != k)])
        scores.append([-sum(max(logits[t][b]) for t in range(lengths[b]))])
    longest = max(map(len, rows))
    return {"logits": logits, "lengths": lengths}, {"labels": [r + [-1] * (longest - len(r)) for r in rows], "score": scores}


def count(draw):
    """Returns inputs for `count` and the expected output. JSON has no name for a single output."""
    rows = [[draw.randint(0, 6) for _ in range(draw.randint(0, 4))] for _ in range(draw.choice((2, 3)))]
    splits = [sum(map(len, rows[:k])) for k in range(len(rows) + 1)]
    return {"splits": splits, "values": sum(rows, [])}, [[float(r.count(k)) for k in range(5)] for r in rows]


def find(draw):
    pairs = {f"word {k}": draw.randint(0, 99) for k in draw.sample(range(20), draw.choice((3, 3, 7)))}
    asked = [f"word {draw.randint(0, 19)}" for _ in range(4)]
    inputs = {"words": list(pairs), "numbers": list(pairs.values()), "asked": asked}
    return inputs, {"found": [pairs.get(w, -1) for w in asked], "table_size": len(pairs)}


class Sequences(Case):
    def test_every_answer_is_that_of_its_own_request(self):
        small_models.write(self.path("models/sequences/1"), SIGNATURES, build)
        self.check_mixed_requests("sequences", {"decode": decode, "count": count, "find": find}, SETTINGS, RUNS, seed=11)
