"""Tests models that parse serialized tf.Examples and are called through Predict."""
import base64
import json
import os
import struct
import unittest

import support

MODEL = "/v1/models/half_plus_two"


def field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def example(**values):
    entries = b"".join(
        field(1, field(1, name.encode()) +
              field(2, field(2, field(1, struct.pack(f"<{len(v)}f", *v)))))
        for name, v in values.items())
    return field(1, entries)


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server("--model_name=half_plus_two",
                                    "--model_base_path=" +
                                    os.path.join(support.MODELS, "half_plus_two"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, signature, *examples):
        instances = [{"b64": base64.b64encode(e).decode()} for e in examples]
        status, answer = self.server.post(MODEL + ":predict", {"signature_name": signature,
                                                               "instances": instances})
        return status, json.loads(answer)

    def test_one_row_per_example(self):
        status, answer = self.ask("regress_x_to_y", example(x=[80.0]), example(x=[1.0], x2=[9.0]))
        self.assertEqual((status, answer), (200, {"predictions": [[42.0], [2.5]]}))
        self.assertEqual(self.ask("classify_x_to_y", example(x=[20.0])),
                         (200, {"predictions": [[12.0]]}))
        self.assertEqual(self.ask("regress_x_to_y2", example(x=[2.0])),
                         (200, {"predictions": [[4.0]]}))

    def test_signatures_that_feed_the_middle_of_the_graph(self):
        for signature in ("regress_x2_to_y3", "classify_x2_to_y3"):
            status, answer = self.server.post(
                MODEL + ":predict", {"signature_name": signature, "instances": [2.0]})
            self.assertEqual((status, json.loads(answer)), (200, {"predictions": [4.0]}))

    def test_faults_are_told_with_tensorflows_words(self):
        for bad, words in (
                (example(), "Name: <unknown>, Feature: x (data type: float) is required but "
                            "could not be found."),
                (example(x=[1.0, 2.0]), "Name: <unknown>, Key: x, Index: 0.  Number of float "
                                        "values != expected.  Values size: 2 but output "
                                        "shape: [1]"),
                (b"\x07", "Could not parse example input, value: '\x07'")):
            status, answer = self.ask("regress_x_to_y", bad)
            self.assertEqual(status, 400)
            self.assertIn(words, answer["error"])


if __name__ == "__main__":
    unittest.main()
