"""Serves a model with tokenizers of TensorFlow Text, from strings to ids. The responses are compared with TensorFlow's
results, which tests/goldens/tokenizers/make.py has recorded. Many of the strings are no UTF-8."""
import array
import base64
import concurrent.futures
import json
import lzma
import pathlib
import random
import shutil

from grpc_support import WAIT, GrpcCase
from support import command
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import predict_pb2

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "goldens" / "tokenizers"


def decode(value, is_text):
    if isinstance(value, list):
        return [decode(v, is_text) for v in value]
    return base64.b64decode(value) if is_text else value


def from_json(value):
    """Returns the outputs of a REST response, in which strings are objects with base64."""
    if isinstance(value, list):
        return [from_json(v) for v in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"]) if "b64" in value else {key: from_json(v) for key, v in value.items()}
    return value


def from_proto(tensor):
    """Returns a tensor of strings, int32 or int64 as nested lists."""
    content = array.array("i" if tensor.dtype == types_pb2.DT_INT32 else "q", tensor.tensor_content)
    values = list(tensor.string_val or tensor.int_val or tensor.int64_val or content)
    for dim in reversed(tensor.tensor_shape.dim[1:]):
        n = dim.size
        values = [values[k:k + n] for k in range(0, len(values), n)] if n else [[]] * tensor.tensor_shape.dim[0].size
    return values


class Tokenizers(GrpcCase):
    def setUp(self):
        super().setUp()
        self.model = self.path("tokenizers")
        shutil.copytree(FOLDER / "model", self.model)
        pathlib.Path(self.model, "1", "saved_model.pb").write_bytes(lzma.decompress((FOLDER / "saved_model.pb.xz").read_bytes()))
        answers = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
        self.calls = [
            (name, decode(answer["text"], True), {key: decode(value, key.endswith("_bytes")) for key, value in outputs.items()})
            for answer in answers for name, outputs in answer["outputs"].items()]

    def ask_rest(self, server, call):
        name, texts, wanted = call
        body = {"signature_name": name, "inputs": [{"b64": base64.b64encode(t).decode()} for t in texts]}
        status, text = server.post("/v1/models/tokenizers:predict", body)
        self.assertEqual(status, 200, (call, text))
        got = from_json(json.loads(text)["outputs"])
        self.assertEqual(got if len(wanted) > 1 else {next(iter(wanted)): got}, wanted, call)

    def ask_grpc(self, client, call):
        name, texts, wanted = call
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "tokenizers", name
        tensor = request.inputs["text"]
        tensor.dtype = types_pb2.DT_STRING
        tensor.tensor_shape.dim.add(size=len(texts))
        tensor.string_val.extend(texts)
        outputs = client.prediction.Predict(request, timeout=WAIT).outputs
        self.assertEqual({key: from_proto(value) for key, value in outputs.items()}, wanted, call)

    def ask(self, server, client, seed, runs, names=("bert_ids", "fast_ids", "words", "sentence", "phrases", "normalize")):
        """Sends requests of the named signatures in random order, by REST and by gRPC, each once or twice."""
        draw = random.Random(seed)
        calls = [call for call in self.calls if call[0] in names]
        for _ in range(runs):
            call = draw.choice(calls)
            for _ in range(draw.randint(1, 2)):
                if draw.random() < 0.5:
                    self.ask_rest(server, call)
                else:
                    self.ask_grpc(client, call)

    def start(self, flags):
        server = self.serve("--model_name=tokenizers", f"--model_base_path={self.model}", *flags)
        return server, self.client(server)

    def ask_from_threads(self, flags, **more):
        server, client = self.start(flags)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(self.ask, server, client, seed, 30, **more) for seed in range(8)]:
                done.result()

    def test_answers_are_tensorflows_whatever_was_asked_before(self):
        server, client = self.start(())
        for call in self.calls:
            self.ask_rest(server, call)
            self.ask_grpc(client, call)
        self.ask(server, client, seed=5, runs=100)

    def test_answers_without_specialisation_are_the_same(self):
        self.ask(*self.start(("--specialise=off",)), seed=6, runs=60)

    def test_concurrent_clients_get_their_own_answers(self):
        self.ask_from_threads(())

    def test_merged_requests_get_the_answers_of_requests_that_run_alone(self):
        """The other signatures pad their rows to the longest one of the batch, so their outputs depend on the batch."""
        self.ask_from_threads(("--enable_batching=true",), names=("bert_ids", "normalize"))

    def test_inspect_says_that_all_ops_can_run(self):
        status, out, err = command("inspect", f"{self.model}/1")
        self.assertEqual(status, 0, err)
        self.assertIn("everything that is needed can run", out)
