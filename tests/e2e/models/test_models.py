"""Tests real models from models/, including a digit classifier over REST and gRPC, a stateful counter, and models whose
files are damaged while their version is served."""
import concurrent.futures
import glob
import gzip
import json
import os
import shutil
import threading
import time

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from support import MODELS, SLOW, Case, Server, wait_for

HELD_OUT = os.path.join(MODELS, "digits", "held_out")


def held_out():
    """Returns (images as request bodies, labels)."""
    bodies = []
    for path in sorted(glob.glob(os.path.join(HELD_OUT, "[0-9]*.json"))):
        with open(path, "rb") as file:
            bodies.append(file.read())
    with open(os.path.join(HELD_OUT, "labels.json"), encoding="utf-8") as file:
        return bodies, json.load(file)


def largest(row):
    return max(range(len(row)), key=lambda i: row[i])


def stub_of(server):
    return prediction_service_pb2_grpc.PredictionServiceStub(
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))


class Digits(Case):
    def test_an_input_that_has_not_the_signatures_shape_is_named(self):
        told = "\n\t Input 'pixels' has shape [1,3], the signature 'serving_default' takes [?,8,8,1]"
        with Server("--model_name=digits", f"--model_base_path={MODELS}/digits") as server:
            status, body = server.post("/v1/models/digits:predict", {"instances": [[1, 2, 3]]})
            self.assertEqual(status, 400, body)
            self.assertTrue(json.loads(body)["error"].endswith(told), body)
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "digits"
            tensor = request.inputs["pixels"]
            tensor.dtype = 1
            for size in (1, 3):
                tensor.tensor_shape.dim.add(size=size)
            tensor.float_val.extend([1, 2, 3])
            with self.assertRaises(grpc.RpcError) as caught:
                stub_of(server).Predict(request, timeout=10)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertTrue(caught.exception.details().endswith(told), caught.exception.details())

    def test_handwritten_digits_are_read_over_both_apis(self):
        bodies, labels = held_out()
        with Server("--model_name=digits", f"--model_base_path={MODELS}/digits") as server:
            rest = []
            for body in bodies:
                status, answer = server.post("/v1/models/digits:predict", body)
                self.assertEqual(status, 200, answer)
                rest.append(json.loads(answer)["predictions"][0])
            right = sum(largest(row) == label for row, label in zip(rest, labels))
            self.assertGreaterEqual(right / len(labels), 0.97)

            request = predict_pb2.PredictRequest()
            request.model_spec.name = "digits"
            pixels = request.inputs["pixels"]
            pixels.dtype = 1
            for size in (len(bodies), 8, 8, 1):
                pixels.tensor_shape.dim.add().size = size
            for body in bodies:
                for row in json.loads(body)["instances"][0]:
                    pixels.float_val.extend(float(v[0]) for v in row)
            answer = stub_of(server).Predict(request, timeout=20 * SLOW)
            values = list(next(iter(answer.outputs.values())).float_val)
            rows = [values[i:i + 10] for i in range(0, len(values), 10)]
            self.assertEqual(len(rows), len(labels))
            for one, other in zip(rest, rows):
                for a, b in zip(one, other):
                    self.assertAlmostEqual(a, b, delta=1e-4)

    def test_requests_that_arrive_together_are_merged_and_each_gets_its_own_answer(self):
        bodies, _ = held_out()
        with Server("--model_name=digits", f"--model_base_path={MODELS}/digits",
                    "--num_workers=1", "--inline_max_us=0") as server:
            alone = [server.post("/v1/models/digits:predict", b)[1] for b in bodies]
            rounds = max(2, int(20 / SLOW))

            def some_were_merged():
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    together = list(pool.map(
                        lambda b: server.post("/v1/models/digits:predict", b)[1], bodies * rounds))
                for i, answer in enumerate(together):
                    want = json.loads(alone[i % len(alone)])["predictions"][0]
                    got = json.loads(answer)["predictions"][0]
                    for a, b in zip(want, got):
                        self.assertAlmostEqual(a, b, delta=1e-5)
                asked, batches = (server.metric("slipway_batch_rows_" + what)
                                  for what in ("sum", "count"))
                self.assertGreater(batches, 0)
                return batches < asked
            wait_for(some_were_merged, "requests to be merged")


class Counter(Case):
    def call(self, stub, signature, delta=None):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "counter"
        request.model_spec.signature_name = signature
        if delta is not None:
            request.inputs["delta"].dtype = 1
            request.inputs["delta"].float_val.append(delta)
        return stub.Predict(request, timeout=20 * SLOW).outputs["output"].float_val[0]

    def test_each_call_counts_exactly_once_however_many_come_at_a_time(self):
        with Server("--model_name=counter", f"--model_base_path={MODELS}/counter") as server:
            stub = stub_of(server)
            self.assertEqual(self.call(stub, "get"), 0)
            self.assertEqual(self.call(stub, "incr"), 1)
            self.assertEqual(self.call(stub, "incr_by", 3), 4)
            self.assertEqual(self.call(stub, "reset"), 0)
            n = max(40, int(400 / SLOW))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                seen = list(pool.map(lambda _: self.call(stub, "incr"), range(n)))
            self.assertEqual(sorted(seen), [float(i + 1) for i in range(n)])
            self.assertEqual(self.call(stub, "get"), n)
            status, answer = server.post("/v1/models/counter:predict",
                                         {"signature_name": "incr_by", "inputs": 0.5})
            self.assertEqual((status, json.loads(answer)), (200, {"outputs": n + 0.5}))


class HarmedFiles(Case):
    def load(self, server, body, stop, wrong, want):
        while not stop.is_set():
            status, answer = server.post("/v1/models/digits:predict", body)
            if status != 200 or abs(json.loads(answer)["predictions"][0][0] - want) > 1e-5:
                wrong.append((status, answer[:200]))

    def test_a_live_version_does_not_see_its_files_overwritten_or_cut(self):
        body = held_out()[0][0]
        self.put("digits/1", "digits/1")
        with Server("--model_name=digits", f"--model_base_path={self.path('digits')}") as server:
            status, answer = server.post("/v1/models/digits:predict", body)
            self.assertEqual(status, 200)
            want = json.loads(answer)["predictions"][0][0]
            stop, wrong = threading.Event(), []
            threads = [threading.Thread(target=self.load, args=(server, body, stop, wrong, want))
                       for _ in range(4)]
            for t in threads:
                t.start()
            data = self.path("digits/1/variables/variables.data-00000-of-00001")
            with open(data, "r+b") as file:
                file.write(b"\xff" * os.path.getsize(data))
            time.sleep(0.5 * SLOW)
            with open(data, "r+b") as file:
                file.truncate(10)
            wait_for(lambda: "overwrit" in server.log().lower() or "changed" in server.log().lower(),
                     "a warning: " + server.log())
            time.sleep(0.5)
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(wrong, [])
            self.assertEqual(server.states("digits")[1][0], "AVAILABLE")

    def test_a_torn_checkpoint_is_refused_by_name_and_loaded_once_it_is_whole(self):
        self.put("digits/1", "digits/1")
        with Server("--model_name=digits", f"--model_base_path={self.path('digits')}") as server:
            self.put("digits/.coming", "digits/1")
            data = self.path("digits/.coming/variables/variables.data-00000-of-00001")
            with open(data, "rb") as file:
                whole = file.read()
            with open(data, "wb") as file:
                # The flipped bytes lie in weights that signatures read, not in the serialized object graph at the end
                # of the file.
                n = len(whole) // 8
                file.write(whole[:n] + bytes(b ^ 1 for b in whole[n:4 * n]) + whole[4 * n:])
            os.rename(self.path("digits/.coming"), self.path("digits/2"))
            wait_for(lambda: server.state("digits", 2) == "END", "the refusal")
            self.assertIn("checksum", server.states("digits")[2][1].lower())
            self.assertEqual(server.post("/v1/models/digits:predict", held_out()[0][0])[0], 200)
            with open(data.replace(".coming", "2"), "wb") as file:
                file.write(whole)
            wait_for(lambda: server.state("digits", 2) == "AVAILABLE",
                     "the whole version")


class Goldens(Case):
    """Tests models whose expected outputs TensorFlow computed (tests/goldens/models/make.py)."""

    def compare(self, want, got):
        self.assertEqual(set(want), set(got))
        for alias, rows in want.items():
            largest_value = max((abs(v) for row in rows for v in row if not isinstance(v, str)),
                                default=0)
            for a, b in zip(rows, got[alias], strict=True):
                for x, y in zip(a, b, strict=True):
                    if isinstance(x, str):
                        self.assertEqual(x, y)
                    else:
                        self.assertAlmostEqual(x, y, delta=1e-4 * largest_value)

    def test_answers_are_tensorflows(self):
        goldens = os.path.join(os.path.dirname(MODELS), "tests", "goldens", "models")
        with open(os.path.join(goldens, "answers.json"), encoding="utf-8") as file:
            answers = json.load(file)
        images = [[(i * 7919 % 256) / 256 for i in range(k * 784, (k + 1) * 784)]
                  for k in range(3)]
        for name, keep in (("mnist_softmax", {}), ("mnist_cnn", {"keep_prob": 1.0})):
            with Server(f"--model_name={name}",
                        f"--model_base_path={os.path.join(goldens, name)}") as server:
                status, body = server.post(f"/v1/models/{name}:predict", {
                    "signature_name": answers[name]["signature"],
                    "inputs": {"images": images, **keep}})
                self.assertEqual(status, 200, body)
                self.compare(answers[name]["outputs"], json.loads(body)["outputs"])
        pictures = [json.loads(b)["instances"][0] for b in held_out()[0]]
        with Server("--model_name=digits", f"--model_base_path={MODELS}/digits") as server:
            status, body = server.post("/v1/models/digits:predict", {"inputs": pictures})
            self.assertEqual(status, 200, body)
            (alias, want), = answers["digits"]["outputs"].items()
            self.compare({alias: want}, {alias: json.loads(body)["outputs"]})


class Text(Case):
    """Tests SavedModels that TensorFlow wrote as text (tests/goldens/saved_model/make_text.py)."""
    def close(self, one, other):
        if isinstance(other, list):
            self.assertEqual(len(one), len(other))
            for a, b in zip(one, other):
                self.close(a, b)
        elif isinstance(other, float):
            self.assertAlmostEqual(one, other, delta=1e-5 * max(1, abs(other)))
        else:
            self.assertEqual(one, other)

    def test_they_answer_as_in_tensorflow(self):
        goldens = os.path.join(os.path.dirname(MODELS), "tests", "goldens", "saved_model", "text")
        with open(os.path.join(goldens, "answers.json"), encoding="utf-8") as file:
            answers = json.load(file)
        for name, outputs in answers["outputs"].items():
            with self.subTest(name):
                folder = self.path(name)
                shutil.copytree(os.path.join(goldens, name), folder)
                with gzip.open(os.path.join(folder, "1", "saved_model.pbtxt.gz")) as file:
                    self.write(f"{name}/1/saved_model.pbtxt", file.read().decode())
                with Server(f"--model_name={name}", f"--model_base_path={folder}") as server:
                    status, body = server.post(f"/v1/models/{name}:predict", {"inputs": answers["input"]})
                self.assertEqual(status, 200, body)
                got = json.loads(body)["outputs"]
                for key, value in outputs.items():
                    self.close(got[key] if len(outputs) > 1 else got, value)
