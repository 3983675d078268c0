#!/usr/bin/env python3
"""Tests the server with KServe's own inference clients, unmodified: kserve_clients.py [BUILD_DIR].

Needs kserve (PyPI). Some models return their inputs, and half_plus_two is that of models/."""
import asyncio
import logging
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
os.environ["SLIPWAY"] = str(pathlib.Path(
    sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "release").resolve() / "slipway")
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import grpc  # noqa: E402
import httpx  # noqa: E402
import numpy as np  # noqa: E402
import support  # noqa: E402
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig  # noqa: E402
from kserve.protocol.infer_type import RequestedOutput  # noqa: E402
from oip_types import TYPES, write_types  # noqa: E402

V2 = {np.float32: "FP32", np.float64: "FP64", np.float16: "FP16", np.int8: "INT8", np.int16: "INT16",
      np.int32: "INT32", np.int64: "INT64", np.uint8: "UINT8", np.uint16: "UINT16", np.uint32: "UINT32",
      np.uint64: "UINT64", np.bool_: "BOOL", np.object_: "BYTES"}


def request(model, array, binary, outputs=None, **parameters):
    x = InferInput("x", list(array.shape), V2[array.dtype.type])
    x.set_data_from_numpy(array, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[x], request_id="r7", parameters=parameters or None,
                        request_outputs=outputs)


class KserveClients(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-kserve-")
        os.symlink(os.path.join(support.MODELS, "half_plus_two"), os.path.join(cls.folder.name, "half_plus_two"))
        write_types(os.path.join(cls.folder.name, "types", "1"))
        cls.server = support.Server(f"--models={cls.folder.name}")
        cls.url = f"http://127.0.0.1:{cls.server.rest_port}"

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")

    async def asyncSetUp(self):
        self.rest = InferenceRESTClient(RESTConfig(protocol="v2"))
        self.grpc = InferenceGRPCClient(f"127.0.0.1:{self.server.grpc_port}")
        self.addAsyncCleanup(self.rest.close)
        self.addAsyncCleanup(self.grpc.close)

    async def by_rest(self, model, *args, **kw):
        return await self.rest.infer(self.url, request(model, *args, **kw), model_name=model)

    async def by_grpc(self, model, *args, **kw):
        return await self.grpc.infer(request(model, *args, **kw))

    async def test_health(self):
        self.assertTrue(await self.rest.is_server_live(self.url) and await self.rest.is_server_ready(self.url))
        self.assertTrue(await self.rest.is_model_ready(self.url, "half_plus_two"))
        self.assertFalse(await self.rest.is_model_ready(self.url, "no"))
        self.assertTrue(await self.grpc.is_server_live() and await self.grpc.is_server_ready())
        self.assertTrue(await self.grpc.is_model_ready("half_plus_two"))

    async def test_every_type(self):
        for dtype, numpy_type in TYPES.items():
            x = np.arange(6).reshape(2, 3).astype(numpy_type)
            for name, ask, binary in (("REST, JSON", self.by_rest, False), ("REST, binary", self.by_rest, True),
                                      ("gRPC, typed", self.by_grpc, False), ("gRPC, raw", self.by_grpc, True)):
                if dtype == "half" and not binary:
                    continue  # the protocol has no JSON numbers and no typed contents of FP16
                outputs = [RequestedOutput("y", {"binary_data": binary})] if ask == self.by_rest else None
                with self.subTest((dtype, name)):
                    got = await ask("types@" + dtype, x, binary, outputs=outputs)
                    (y,) = got.outputs
                    self.assertEqual((got.id, y.name, y.datatype), ("r7", "y", V2[numpy_type]))
                    self.assertEqual((y.as_numpy().dtype, y.as_numpy().tolist()), (x.dtype, x.tolist()))

    async def test_bytes(self):
        x = np.array([b"", b"ab", "grüße".encode()], dtype=np.object_)
        for ask, binary in ((self.by_rest, False), (self.by_rest, True), (self.by_grpc, False), (self.by_grpc, True)):
            got = await ask("types@string", x, binary)
            self.assertEqual([v.encode() if isinstance(v, str) else v for v in got.outputs[0].as_numpy()], x.tolist())

    async def test_parameters_and_many_at_once(self):
        for ask in (self.by_rest, self.by_grpc):
            x = [np.full((1, 1), i, np.float32) for i in range(50)]
            got = await asyncio.gather(*(ask("half_plus_two", v, True, priority=3, timeout=30_000_000) for v in x))
            self.assertEqual([g.outputs[0].as_numpy().item() for g in got], [i / 2 + 2 for i in range(50)])

    async def test_errors(self):
        x = np.zeros((1, 1), np.float32)
        for words, model, parameters in (("is not served", "no", {}), ("no signature", "half_plus_two@no", {}),
                                         ("asks for sequences", "half_plus_two", {"sequence_id": 7})):
            with self.subTest(words):
                with self.assertRaisesRegex(httpx.HTTPStatusError, words):
                    await self.by_rest(model, x, True, **parameters)
                with self.assertRaisesRegex(grpc.RpcError, words):
                    await self.by_grpc(model, x, True, **parameters)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # the clients log each error that they raise
    unittest.main(verbosity=2)
