"""Tests a model that crosses words with numbers and has a quantised layer. The responses are compared with TensorFlow's
results, which tests/goldens/crosses/make.py has recorded."""
import json
import pathlib
import random

from support import Case, Server

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "goldens" / "crosses"


class Crosses(Case):
    def setUp(self):
        self.answers = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
        self.server = self.enterContext(Server("--model_name=crosses", f"--model_base_path={FOLDER}/model"))

    def post(self, body):
        status, text = self.server.post("/v1/models/crosses:predict", body)
        self.assertEqual(status, 200, text)
        return json.loads(text)["predictions"]

    def check_rows(self, rows):
        for got, row in zip(self.post({"instances": [row["inputs"] for row in rows]}), rows, strict=True):
            self.assertEqual(got["buckets"], row["outputs"]["buckets"], row["inputs"])
            for a, b in zip(got["scores"], row["outputs"]["scores"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-5, msg=row["inputs"])

    def check_looks(self, looks):
        instances = [{k: look[k] for k in ("images", "offsets")} for look in looks]
        self.assertEqual(self.post({"signature_name": "look", "instances": instances}), [look["glimpse"] for look in looks])

    def test_crossed_features_and_glimpses_are_tensorflows_whatever_was_asked_before(self):
        rng = random.Random(3)
        rows, looks = self.answers["rows"], self.answers["looks"]
        for size in (1, 1, 3, 12, 2, 1):
            self.check_rows(rng.sample(rows, size))
            self.check_looks(rng.sample(looks, 1 + size % 3))
            self.check_rows(rows[:size])

    def test_rows_of_different_lengths_are_refused(self):
        inputs = {"words": [["a", "b"]], "ids": [[1, 2, 3]] * 2, "x": [[0.0] * 4]}
        status, text = self.server.post("/v1/models/crosses:predict", {"inputs": inputs})
        self.assertEqual(status, 400, text)
        self.assertIn("inputs must all have the same batch dimension size.", text.decode() if isinstance(text, bytes) else text)
