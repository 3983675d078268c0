#!/usr/bin/env python3
"""Tests the server with Triton's own clients of the Open Inference Protocol, unmodified: triton_clients.py [BUILD_DIR].

Needs tritonclient[http,grpc] (PyPI). Some models return their inputs, and the others are those of models/."""
import asyncio
import os
import pathlib
import queue
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
os.environ["SLIPWAY"] = str(pathlib.Path(
    sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "release").resolve() / "slipway")
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import numpy as np  # noqa: E402
import support  # noqa: E402
import tritonclient.grpc as triton_grpc  # noqa: E402
import tritonclient.grpc.aio as triton_grpc_aio  # noqa: E402
import tritonclient.http as triton_http  # noqa: E402
import tritonclient.http.aio as triton_http_aio  # noqa: E402
import tritonclient.utils.shared_memory as shm  # noqa: E402
from oip_types import TYPES, write_types  # noqa: E402
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402


def tensor(module, name, array, binary=True):
    t = module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    if module in (triton_grpc, triton_grpc_aio):
        t.set_data_from_numpy(array)
    else:
        t.set_data_from_numpy(array, binary_data=binary)
    return t


class TritonClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-triton-")
        os.symlink(os.path.join(support.MODELS, "half_plus_two"), os.path.join(cls.folder.name, "half_plus_two"))
        digits = pathlib.Path(cls.folder.name, "digits")  # as in Triton's repositories
        (digits / "1").mkdir(parents=True)
        os.symlink(os.path.join(support.MODELS, "digits", "1"), digits / "1" / "model.savedmodel")
        (digits / "labels.txt").write_text("".join(f"digit {n}\n" for n in range(10)), encoding="ascii")
        (digits / "config.pbtxt").write_text('output { name: "output_0" data_type: TYPE_FP32 dims: [-1, 10] '
                                             'label_filename: "labels.txt" }', encoding="ascii")
        write_types(os.path.join(cls.folder.name, "types", "1"))
        cls.server = support.Server(f"--models={cls.folder.name}")
        cls.targets = {triton_http: f"127.0.0.1:{cls.server.rest_port}",
                       triton_grpc: f"127.0.0.1:{cls.server.grpc_port}"}
        cls.clients = {module: module.InferenceServerClient(target) for module, target in cls.targets.items()}

    @classmethod
    def tearDownClass(cls):
        for client in cls.clients.values():
            client.close()
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")

    def test_health_and_metadata(self):
        for module, client in self.clients.items():
            with self.subTest(module.__name__):
                self.assertTrue(client.is_server_live() and client.is_server_ready())
                self.assertTrue(client.is_model_ready("half_plus_two", "2"))
                self.assertFalse(client.is_model_ready("half_plus_two", "3"))
                self.assertFalse(client.is_model_ready("no"))
                json = {} if module is triton_http else {"as_json": True}
                self.assertEqual(client.get_server_metadata(**json)["name"], "slipway")
                got = client.get_model_metadata("half_plus_two", **json)
                self.assertEqual((got["versions"], got["inputs"][0]["datatype"]), (["2"], "FP32"))

    def test_index_and_configuration(self):
        index = self.clients[triton_http].get_model_repository_index()
        self.assertEqual({(m["name"], m["state"]) for m in index},
                         {("half_plus_two", "READY"), ("digits", "READY"), ("types", "READY")})
        index = self.clients[triton_grpc].get_model_repository_index(as_json=True)
        self.assertEqual({m["name"] for m in index["models"]}, {"half_plus_two", "digits", "types"})
        for client, get in ((self.clients[triton_http], lambda c: c), (self.clients[triton_grpc], lambda c: c["config"])):
            json = {} if client is self.clients[triton_http] else {"as_json": True}
            config = get(client.get_model_config("half_plus_two", **json))
            self.assertEqual((config["input"][0]["data_type"], config["backend"]), ("TYPE_FP32", "tensorflow"))
            config = get(client.get_model_config("digits", **json))
            self.assertEqual(config["output"][0]["label_filename"], "labels.txt")

    def test_statistics(self):
        for module, client in self.clients.items():
            client.infer("half_plus_two", [tensor(module, "x", np.zeros((2, 1), np.float32))])
            json = {} if module is triton_http else {"as_json": True}
            (row,) = client.get_inference_statistics("half_plus_two", **json)["model_stats"]
            self.assertGreater(int(row["inference_stats"]["success"]["count"]), 0)

    def test_classification(self):
        for module, client in self.clients.items():
            x = tensor(module, "x", np.array([[3], [5]], np.float32))
            got = client.infer("half_plus_two", [x], outputs=[module.InferRequestedOutput("y", class_count=2)])
            self.assertEqual(got.as_numpy("y").tolist(), [[b"3.500000:0"], [b"4.500000:0"]])
            pixels = tensor(module, "pixels", np.zeros((1, 8, 8, 1), np.float32))
            got = client.infer("digits", [pixels], outputs=[module.InferRequestedOutput("output_0", class_count=1)])
            self.assertRegex(got.as_numpy("output_0").item().decode(), r"^0\.\d+:(\d):digit \1$")

    def test_shared_memory(self):
        x = np.arange(6, dtype=np.float32).reshape(-1, 1)
        with support.Server(f"--models={self.folder.name}", "--system_shared_memory_bytes=1M") as server:
            for module, target in ((triton_http, server.rest_port), (triton_grpc, server.grpc_port)):
                client = module.InferenceServerClient(f"127.0.0.1:{target}")
                handle = shm.create_shared_memory_region("data", f"/slipway-{os.getpid()}", 48)
                try:
                    shm.set_shared_memory_region(handle, [x])
                    client.register_system_shared_memory("data", f"/slipway-{os.getpid()}", 48)
                    self.assertIn("data", str(client.get_system_shared_memory_status()))
                    given = module.InferInput("x", [6, 1], "FP32")
                    given.set_shared_memory("data", 24)
                    wanted = module.InferRequestedOutput("y")
                    wanted.set_shared_memory("data", 24, offset=24)
                    client.infer("half_plus_two", [given], outputs=[wanted])
                    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [6, 1], 24), x / 2 + 2)
                    client.unregister_system_shared_memory()
                finally:
                    shm.destroy_shared_memory_region(handle)
                client.close()

    def test_settings_of_the_log(self):
        for module, client in self.clients.items():
            json = {} if module is triton_http else {"as_json": True}
            client.update_log_settings({"log_verbose_level": 1})
            self.assertIn("log_verbose_level", str(client.get_log_settings(**json)))
            client.update_log_settings({"log_verbose_level": 0})
            for words, ask in (("trace settings", client.get_trace_settings),
                               ("CUDA shared memory", client.get_cuda_shared_memory_status)):
                with self.assertRaisesRegex(InferenceServerException, words):
                    ask()

    def test_stream(self):
        client, got = triton_grpc.InferenceServerClient(self.targets[triton_grpc]), queue.Queue()
        client.start_stream(lambda result, error: got.put((result, error)))
        for i in range(100):
            x = [tensor(triton_grpc, "x", np.full((1, 1), i, np.float32))]
            client.async_stream_infer("half_plus_two" if i % 10 else "no", x, request_id=str(i))
        for i in range(100):
            result, error = got.get(timeout=30)
            if i % 10:
                self.assertEqual((result.get_response().id, result.as_numpy("y").item()), (str(i), i / 2 + 2))
            else:
                self.assertIn("is not served", str(error))
        client.stop_stream()
        client.close()

    def test_load_and_unload(self):
        for module, client in self.clients.items():
            with self.subTest(module.__name__):
                client.unload_model("digits")
                self.assertFalse(client.is_model_ready("digits"))
                client.load_model("digits")
                self.assertTrue(client.is_model_ready("digits"))
                with self.assertRaisesRegex(InferenceServerException, '"config" of a load is not supported'):
                    client.load_model("digits", config="{}")

    def test_every_type(self):
        for module, client in self.clients.items():
            for dtype, numpy_type in TYPES.items():
                with self.subTest((module.__name__, dtype)):
                    x = np.arange(6).reshape(2, 3).astype(numpy_type)
                    got = client.infer("types@" + dtype, [tensor(module, "x", x)], request_id="q", priority=3).as_numpy("y")
                    self.assertEqual((got.dtype, got.tolist()), (x.dtype, x.tolist()))
            x = np.array([b"", b"\xff\0", "grüße".encode()], dtype=np.object_)
            got = client.infer("types@string", [tensor(module, "x", x)]).as_numpy("y")
            self.assertEqual(got.tolist(), x.tolist())

    def test_json_and_compression(self):
        client = self.clients[triton_http]
        x = np.arange(5000, dtype=np.float32).reshape(-1, 1)
        for binary in (True, False):
            outputs = [triton_http.InferRequestedOutput("y", binary_data=binary)]
            for algorithm in (None, "gzip"):
                got = client.infer("half_plus_two", [tensor(triton_http, "x", x, binary)], outputs=outputs,
                                   request_compression_algorithm=algorithm,
                                   response_compression_algorithm=algorithm).as_numpy("y")
                np.testing.assert_array_equal(got, x / 2 + 2)

    def test_errors(self):
        x = np.zeros((1, 1), np.float32)
        for module, client in self.clients.items():
            for words, model, keywords in (
                    ("is not served", "no", {}), ("has no version 9", "half_plus_two", {"model_version": "9"}),
                    ("asks for sequences", "half_plus_two", {"sequence_id": 7}),
                    ("no signature", "half_plus_two@no", {}),
                    ('output "q" is none', "half_plus_two", {"outputs": [module.InferRequestedOutput("q")]})):
                with self.subTest((module.__name__, words)):
                    with self.assertRaisesRegex(InferenceServerException, words):
                        client.infer(model, [tensor(module, "x", x)], **keywords)

    def test_asyncio(self):
        async def ask(module, aio, target):
            async with aio.InferenceServerClient(target) as client:
                x = [np.full((1, 1), i, np.float32) for i in range(50)]
                got = await asyncio.gather(*(client.infer("half_plus_two", [tensor(module, "x", v)]) for v in x))
                self.assertEqual([g.as_numpy("y").item() for g in got], [i / 2 + 2 for i in range(50)])
                self.assertTrue(await client.is_model_ready("digits"))
        asyncio.run(ask(triton_http, triton_http_aio, self.targets[triton_http]))
        asyncio.run(ask(triton_grpc, triton_grpc_aio, self.targets[triton_grpc]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
