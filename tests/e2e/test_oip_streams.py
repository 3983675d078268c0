"""Tests streams of ModelStreamInfer whose requests run at the same time."""
import gzip
import os
import signal
import struct
import tempfile
import threading
import time
import unittest

import grpc
import http2
import small_models
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import SLOW, Server, wait_for

WAIT = 120 * SLOW
# A run that counts up to COUNT takes tens of milliseconds. Sanitizers make each step some 100 times as long.
COUNT = 150000.0 if SLOW == 1 else 3000.0


def request(model, values, i):
    r = grpc_service_pb2.ModelInferRequest(model_name=model, id=str(i))
    r.inputs.add(name="x", datatype="FP32", shape=[len(values)])
    r.raw_input_contents.append(struct.pack(f"<{len(values)}f", *values))
    return r


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        def build(graph):
            """Counts up to the greatest value of x."""
            graph.placeholder("x", "float")
            graph.const("axis", "int32", [1], int_val=[0])
            graph.node("greatest", "Max", "x", "axis", T="float", Tidx="int32")
            graph.node("most", "Cast", "greatest", SrcT="float", DstT="int64")
            graph.node("y", "AddV2", "x", small_models.count(graph, "most"), T="float")

        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-streams-")
        small_models.write(os.path.join(cls.folder.name, "count", "1"),
                           {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_requests_end_while_a_later_one_is_inflated(self):
        large = grpc_service_pb2.ModelInferRequest(model_name="count", id="large")
        large.inputs.add(name="x", datatype="FP32", shape=[30 << 20])
        large.raw_input_contents.append(bytes(120 << 20))
        requests = [request("count", [COUNT], i) for i in range(60)] + [large]
        with Server(f"--models={self.folder.name}") as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}",
                                      options=[("grpc.max_receive_message_length", -1)]) as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            got = list(stub.ModelStreamInfer(iter(requests), timeout=WAIT, compression=grpc.Compression.Gzip))
            self.assertEqual([(g.infer_response.id, g.error_message) for g in got], [(r.id, "") for r in requests])

    def test_the_budget_holds_a_response_until_the_client_takes_it(self):
        size = 32 << 20
        large = grpc_service_pb2.ModelInferRequest(model_name="count")
        large.inputs.add(name="x", datatype="FP32", shape=[size // 4])
        large.raw_input_contents.append(bytes(size))
        with Server(f"--models={self.folder.name}") as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}",
                                      options=[("grpc.max_receive_message_length", -1)]) as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            call = stub.ModelStreamInfer(iter([large] * 2), timeout=WAIT)
            # The client takes the first response at once, and the second one when it is asked for.
            runs = "slipway_run_duration_seconds_count"
            wait_for(lambda: server.metric("slipway_jobs") == 0 and server.metric(runs) == 2, "two runs")
            time.sleep(0.5)
            self.assertGreaterEqual(server.metric("slipway_bytes_in_flight"), size)
            self.assertEqual(server.metric('slipway_requests_in_flight{entrypoint="GRPC"}'), 1)
            self.assertEqual([g.error_message for g in call], [""] * 2)
            wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the end of the stream")

    def test_the_budget_is_charged_for_each_further_request_of_a_stream(self):
        with Server(f"--models={self.folder.name}") as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            call = stub.ModelStreamInfer(iter([request("count", [1e18], i) for i in range(30)]), timeout=WAIT)
            wait_for(lambda: server.metric("slipway_jobs") == 30, "30 requests in progress")
            self.assertGreaterEqual(server.metric("slipway_bytes_in_flight"), 29 * 6144)
            call.cancel()
            wait_for(lambda: server.metric("slipway_bytes_in_flight") == 0, "the end of the stream")

    def test_no_further_request_is_read_while_the_budget_has_no_room_for_it(self):
        # A request holds its message and its tensors, 6 MB, and then its tensors and its response.
        requests = [request("count", [0.0 if i else COUNT] + [0.0] * 786431, i) for i in range(10)]
        with Server(f"--models={self.folder.name}", "--max_bytes_in_flight=8M") as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
                got = stub.ModelStreamInfer(iter(requests), timeout=WAIT, compression=compression)
                self.assertEqual([(g.infer_response.id, g.error_message) for g in got],
                                 [(r.id, "") for r in requests])

    def test_errors_found_before_a_request_is_decoded_have_its_id(self):
        def answer(server, message, compression=None):
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
                call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                             response_deserializer=grpc_service_pb2.ModelStreamInferResponse.FromString)
                *_, last = call(iter([message] * 2), timeout=WAIT, compression=compression)
                return last.error_message, last.infer_response.id

        large = request("count", [0.0] * 500000, "large").SerializeToString()
        wrong = request("count", [0.0], "")
        wrong.inputs[0].datatype = "no"
        wrong = wrong.SerializeToString() + grpc_service_pb2.ModelInferRequest(id="last").SerializeToString()
        cut = request("count", [0.0], "cut").SerializeToString()[:-1]
        many = grpc_service_pb2.ModelInferRequest(id="many")
        for _ in range(20000):
            many.inputs.add()
        with Server(f"--models={self.folder.name}", "--max_bytes_in_flight=1M") as server:
            for words, i, message, compression in (
                    ("larger than --max_bytes_in_flight", "large", large, None),
                    ("larger than --max_bytes_in_flight", "large", large, grpc.Compression.Gzip),
                    ("not well formed", "cut", cut, None), ("there is no datatype", "last", wrong, None),
                    ("more than", "many", many.SerializeToString(), None)):
                with self.subTest(i, compression=compression):
                    error, found = answer(server, message, compression)
                    self.assertIn(words, error)
                    self.assertEqual(found, i)
        with Server(f"--models={self.folder.name}", "--quota_requests_per_second=0.01", "--quota_client=x-client") as server:
            for compression in (None, grpc.Compression.Gzip):
                error, found = answer(server, request("count", [0.0], "quota").SerializeToString(), compression)
                self.assertIn("quota", error)
                self.assertEqual(found, "quota")
            late = request("count", [0.0], "late")
            late.model_name = os.urandom(10000).hex()  # before the id
            self.assertEqual(answer(server, late.SerializeToString(), grpc.Compression.Gzip)[1], "late")

    def test_the_id_of_a_refused_request_is_found_in_frames_of_one_byte(self):
        body = gzip.compress(request("count", struct.unpack("<500f", os.urandom(2000)), "slow").SerializeToString())
        body = struct.pack(">BI", 1, len(body)) + body
        with Server(f"--models={self.folder.name}", "--max_bytes_in_flight=64K") as server, \
                http2.Connection(server.grpc_port) as c:
            stream = c.begin("/inference.GRPCInferenceService/ModelStreamInfer", headers=[("grpc-encoding", "gzip")])
            c.bodies[stream] = b""
            c.send(b"".join(c.frame(http2.DATA, 0, stream, body[i:i + 1]) for i in range(len(body))))
            wait_for(lambda: not c.read(0.01) or c.bodies[stream], "the response")
            got = grpc_service_pb2.ModelStreamInferResponse.FromString(c.bodies[stream][5:])
            self.assertIn("larger than --max_bytes_in_flight", got.error_message)
            self.assertEqual(got.infer_response.id, "slow")

    def test_a_stopping_server_answers_what_it_has_read(self):
        with Server(f"--models={self.folder.name}", f"--drain_timeout={WAIT}") as server, \
                grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            more = threading.Event()

            def requests():
                for i in range(8):
                    yield request("count", [1.0 if i else 40 * COUNT], i)
                yield request("no", [1.0], 8)
                more.wait(WAIT)
            call = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests(), timeout=WAIT)
            # All of them wait for the first one.
            wait_for(lambda: server.metric('slipway_requests_in_flight{entrypoint="GRPC"}') == 9, "9 requests")
            server.process.send_signal(signal.SIGTERM)
            got = []
            with self.assertRaises(grpc.RpcError):
                for g in call:
                    got.append((g.infer_response.id, g.error_message))
            more.set()
            self.assertEqual(got[:8], [(str(i), "") for i in range(8)])
            self.assertEqual([i for i, _ in got[8:]], ["8"])
            self.assertEqual(server.process.wait(WAIT), 0)


if __name__ == "__main__":
    unittest.main()
