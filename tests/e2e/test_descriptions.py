"""Tests metadata and status responses of models with large descriptions. The memory of the responses is limited, and other
requests do not wait for them. A response encodes a default value as compactly as the model's file."""
import json
import os
import re
import select
import signal
import socket
import struct
import unittest

import grpc
import http2
import small_models
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import SLOW, Case, Server, in_some_attempt, wait_for
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc,
                                     prediction_service_pb2_grpc)

METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
MEBI = 1 << 20
LIMIT = 32 * MEBI
NAME = "\1" * (4 * MEBI)  # JSON encodes each of these characters as six bytes.


def build(g):
    g.placeholder("x", "float")
    g.node("y", "Identity", "x", T="float")


def request(model):
    ask = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    ask.model_spec.name = model
    return ask


class Descriptions(Case):
    def serve(self, *flags):
        """Starts a server with the models half_plus_two and long. The input of `long` has the name NAME."""
        self.put("models/half_plus_two/1")
        small_models.write(self.path("models", "long", "1"),
                           {"serving_default": ({NAME: ("x", "float")}, {"y": ("y", "float")})}, build)
        return self.enterContext(Server(f"--models={self.path('models')}", f"--max_bytes_in_flight={LIMIT}", *flags))

    def held(self, server):
        return server.metric("slipway_bytes_in_flight")

    def small_ones_are_answered(self, server):
        for path in ("long", "half_plus_two/metadata"):
            self.assertEqual(server.get("/v1/models/" + path)[0], 200)

    def test_a_description_counts_in_bytes_in_flight(self):
        server = self.serve("--num_rest_threads=1")
        open_ones = []
        for _ in range(6):
            s = self.enterContext(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(60 * SLOW)
            s.connect(("127.0.0.1", server.rest_port))
            s.sendall(b"GET /v1/models/long/metadata HTTP/1.1\r\nHost: t\r\n\r\n")
            open_ones.append(s)
        answers = [s.recv(2000).decode("latin-1") for s in open_ones]
        self.assertGreater(self.held(server), 20 * MEBI)
        self.assertLessEqual(self.held(server), LIMIT)
        self.small_ones_are_answered(server)
        self.assertEqual(sorted(a[:12] for a in answers), ["HTTP/1.1 200"] + ["HTTP/1.1 503"] * 5)
        for a in answers:
            if " 503 " in a:
                self.assertIn(f"the response does not fit beside the requests in flight, {LIMIT} bytes by "
                              "--max_bytes_in_flight", a)
        for s in open_ones:
            s.close()
        wait_for(lambda: self.held(server) == 0, "the memory")
        self.assertEqual(server.get("/v1/models/long/metadata")[0], 200)

    def test_a_description_counts_by_grpc_too(self):
        server = self.serve()
        with http2.Connection(server.grpc_port, window=0) as c:
            streams = [c.ask(METADATA, request("long").SerializeToString()) for _ in range(20)]
            wait_for(lambda: c.read(0.1) and sum(map(c.is_over, streams)) >= 13, "the refusals")
            self.assertEqual({c.status(s, 0) for s in streams if c.is_over(s)}, {14})
            self.assertGreater(self.held(server), 24 * MEBI)
            self.assertLessEqual(self.held(server), LIMIT)
            self.small_ones_are_answered(server)
            good = next(s for s in streams if not c.is_over(s))
            for stream in (0, good):
                c.send(c.frame(http2.WINDOW_UPDATE, 0, stream, struct.pack(">I", 8 * MEBI)))
            self.assertEqual(c.status(good, 60 * SLOW), 0)
            found = get_model_metadata_pb2.SignatureDefMap()
            answer = get_model_metadata_pb2.GetModelMetadataResponse.FromString(c.bodies[good][5:])
            self.assertTrue(answer.metadata["signature_def"].Unpack(found))
            self.assertEqual(list(found.signature_def["serving_default"].inputs), [NAME])
        wait_for(lambda: self.held(server) == 0, "the memory")

    def test_a_description_does_not_hold_up_others(self):
        server = self.serve("--num_rest_threads=1", "--access_log")
        open_ones = []
        for _ in range(2):
            s = self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port), timeout=60 * SLOW))
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
            s.recv(2000)
            open_ones.append(s)
        # Both requests arrive while the server is suspended, so the I/O loop finds both in one turn.
        server.process.send_signal(signal.SIGSTOP)
        for s, path, i in zip(open_ones, ("/v1/models/long/metadata", "/healthz"), ("long", "short")):
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: t\r\nX-Request-Id: {i}\r\n\r\n".encode())
        server.process.send_signal(signal.SIGCONT)
        ids = wait_for(lambda: (lambda found: len(found) > 1 and found)(
            re.findall(r" id=(long|short)\b", server.log())), "the access log")
        self.assertEqual(ids, ["short", "long"])

    def test_a_default_is_as_compact_as_in_the_file(self):
        n = 8 * MEBI
        folder = self.path("models", "m", "1")
        small_models.write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build,
                           {"serving_default": {"x": 1.5}})
        with open(folder + "/saved_model.pb", "rb") as file:
            saved = saved_model_pb2.SavedModel.FromString(file.read())
        default = saved.meta_graphs[0].signature_def["serving_default"].defaults["x"]
        default.tensor_shape.dim.add(size=n)
        with open(folder + "/saved_model.pb", "wb") as file:
            file.write(saved.SerializeToString())
        server = self.enterContext(Server(f"--models={self.path('models')}"))
        body = server.get("/v1/models/m/metadata")[1]
        self.assertLess(len(body), 4096)
        found = json.loads(body)["metadata"]["signature_def"]["signature_def"]["serving_default"]["defaults"]["x"]
        self.assertEqual(found["float_val"], [1.5])
        self.assertEqual(found["tensor_shape"]["dim"], [{"size": str(n), "name": ""}])
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            answer = stub.GetModelMetadata(request("m"), timeout=20 * SLOW)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        self.assertTrue(answer.metadata["signature_def"].Unpack(signatures))
        expected = tensor_pb2.TensorProto()
        expected.CopyFrom(default)
        self.assertEqual(signatures.signature_def["serving_default"].defaults["x"], expected)

    def test_a_long_list_of_versions_is_complete(self):
        n = 400
        for i in range(n):
            self.put(f"models/m/{i + 1}")
            self.write(f"models/m/{i + 1}/saved_model.pb", "no model")
        self.put(f"models/m/{n + 1}")
        config = self.write("config", f"model_config_list {{ config {{ name: 'm' base_path: '{self.path('models/m')}' "
                            "model_platform: 'tensorflow' model_version_policy { all {} } } }")
        server = self.enterContext(Server("--model_config_file=" + config, wait=False))
        wait_for(lambda: [s for s, _ in server.states("m").values()].count("END") == n, "the failures")
        states = server.states("m")
        self.assertEqual(sorted(states), list(range(1, n + 2)))
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            ask = get_model_status_pb2.GetModelStatusRequest()
            ask.model_spec.name = "m"
            answer = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(ask, timeout=20 * SLOW)
        self.assertGreater(answer.ByteSize(), 16 << 10)
        self.assertEqual({v.version: v.status.error_message for v in answer.model_version_status},
                         {v: message for v, (_, message) in states.items()})

    def test_a_short_index_does_not_wait_for_long_ones(self):
        """The index of the models that serve is answered before most of 50 indexes of all models that were asked for
        earlier."""
        self.put("models/half_plus_two/1")
        for i in range(3000):
            os.makedirs(self.path("models", f"without-versions-{i}"))
        server = self.enterContext(Server(f"--models={self.path('models')}", "--model_wait_seconds=1"))

        def by_rest():
            sockets = [socket.create_connection(("127.0.0.1", server.rest_port)) for _ in range(50)]
            for s in sockets:
                s.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
            status, body = server.post("/v2/repository/index", {"ready": True})
            n_before = len(select.select(sockets, [], [], 0)[0])
            self.assertEqual((status, [row["name"] for row in json.loads(body)]), (200, ["half_plus_two"]))
            for s in sockets:
                self.assertEqual(s.recv(12), b"HTTP/1.1 200")
                s.close()
            self.assertLess(n_before, 25)
        in_some_attempt(by_rest)

        def connect():
            channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", [("grpc.use_local_subchannel_pool", 1)])
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(self.enterContext(channel))
            self.assertTrue(stub.ServerLive(grpc_service_pb2.ServerLiveRequest(), timeout=20 * SLOW).live)
            return stub
        stubs = [connect() for _ in range(51)]
        ready, every = grpc_service_pb2.RepositoryIndexRequest(ready=True), grpc_service_pb2.RepositoryIndexRequest()

        def by_grpc():
            calls = [stub.RepositoryIndex.future(every, timeout=60 * SLOW) for stub in stubs[1:]]
            short = stubs[0].RepositoryIndex(ready, timeout=60 * SLOW)
            n_before = sum(call.done() for call in calls)
            self.assertEqual([row.name for row in short.models], ["half_plus_two"])
            for call in calls:
                self.assertEqual(len(call.result().models), 3001)
            self.assertLess(n_before, 25)
        in_some_attempt(by_grpc)

    def test_a_stop_does_not_write_all_queued_indexes(self):
        """Of the indexes that are queued when the server stops, a few are sent, and the others are refused."""
        self.put("models/half_plus_two/1")
        for i in range(3000):
            os.makedirs(self.path("models", f"without-versions-{i}"))
        server = self.enterContext(Server(f"--models={self.path('models')}", "--model_wait_seconds=1",
                                          "--drain_timeout=0"))
        channels = [self.enterContext(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}",
                                                            [("grpc.use_local_subchannel_pool", 1)]))
                    for _ in range(50)]
        for channel in channels:
            grpc.channel_ready_future(channel).result(20 * SLOW)
        calls = [grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel).RepositoryIndex.future(
            grpc_service_pb2.RepositoryIndexRequest(), timeout=60 * SLOW) for channel in channels]
        sockets = [self.enterContext(socket.create_connection(("127.0.0.1", server.rest_port))) for _ in range(100)]
        for s in sockets:
            s.sendall(b"POST /v2/repository/index HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
        wait_for(lambda: select.select(sockets, [], [], 0)[0], "the first index")
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("did not end in time", server.log())

        def status(s):
            try:
                return s.recv(12)
            except ConnectionError:
                return b""
        self.assertLess([status(s) for s in sockets].count(b"HTTP/1.1 200"), 50)
        self.assertLessEqual({call.code() for call in calls},
                             {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})


if __name__ == "__main__":
    unittest.main()
