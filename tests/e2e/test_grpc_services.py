"""Tests services and features of gRPC besides inference, such as configuration, reflection, health, TLS, limits and the
access log."""
import itertools
import json
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
import unittest

import grpc
import small_models
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc.health.v1 import health_pb2
from grpc.reflection.v1 import reflection_pb2 as reflection_v1
from grpc.reflection.v1alpha import reflection_pb2 as reflection_v1alpha
from grpc_support import CODE, WAIT, Frames, GrpcCase, certificate
from support import MODELS, SLOW, Server, command, free_ports, wait_for
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import model_management_pb2, predict_pb2

PREDICT = "/tensorflow.serving.PredictionService/Predict"


class AccessLog(GrpcCase):
    def record_of(self, server, words):
        return wait_for(lambda: next((x for x in server.log().splitlines()
                                      if words in x and "access" in x), None), words)

    def test_calls_are_told_with_model_code_and_peer(self):
        server = self.serve(f"--models={MODELS}", "--access_log")
        client = self.client(server)
        client.predict(metadata=(("x-request-id", "find-me"),))
        line = self.record_of(server, "id=find-me")
        for word in ("entry=GRPC", "api=predict", "path=" + PREDICT, "code=OK", "peer=ipv4:127",
                     "model=half_plus_two", "version="):
            self.assertIn(word, line)
        self.fails(CODE.NOT_FOUND, "Servable", client.predict, model="no such\nmodel")
        line = self.record_of(server, "code=NOT_FOUND")
        self.assertIn("model=no?such?model", line)
        nonsense = client.channel.unary_unary("/a.B/C\x7f")
        self.fails(CODE.UNIMPLEMENTED, "/a.B/C", nonsense, b"")
        self.assertIn("code=UNIMPLEMENTED", self.record_of(server, "path=/a.B/C?"))

    def test_in_json_every_part_is_a_field(self):
        server = self.serve(f"--models={MODELS}", "--access_log", "--log_format=json")
        self.client(server).predict(metadata=(("x-request-id", 'find"\\me'),))
        record = json.loads(self.record_of(server, "find"))
        self.assertEqual(record["msg"], "access")
        self.assertEqual(record["id"], 'find"\\me')
        self.assertEqual(record["entry"], "GRPC")
        self.assertEqual(record["code"], "OK")
        self.assertEqual(record["model"], "half_plus_two")
        self.assertIsInstance(record["version"], int)
        self.assertGreater(record["bytes"], 0)
        self.assertGreaterEqual(record["us"], 0)
        server.get("/v1/models/nope?%22")
        record = json.loads(self.record_of(server, "nope"))
        self.assertEqual((record["entry"], record["method"], record["status"], record["code"]),
                         ("REST", "GET", 404, "NOT_FOUND"))


class Reload(GrpcCase):
    def request(self, *models, metrics=()):
        """Returns a reload request for the given (name, base path) pairs."""
        r = model_management_pb2.ReloadConfigRequest()
        r.config.model_config_list.SetInParent()
        for name, path in models:
            r.config.model_config_list.config.add(name=name, base_path=path,
                                                  model_platform="tensorflow")
        r.metric_names.extend(metrics)
        return r

    def serve_one(self, *flags):
        self.put("a/1")
        return self.serve("--model_name=a", f"--model_base_path={self.path('a')}", *flags)

    def test_new_models_serve_when_the_call_returns_and_absent_ones_go(self):
        self.put("b/3")
        server = self.serve_one()
        client = self.client(server)
        self.assertEqual(client.predict(model="a"), [3.0])
        answer = client.model.HandleReloadConfigRequest(
            self.request(("b", self.path("b"))), timeout=WAIT)
        self.assertEqual(answer.status.error_code, 0)
        self.assertTrue(answer.HasField("status"))
        self.assertEqual(client.predict(model="b"), [3.0])
        wait_for(lambda: server.state("a", 1) == "END", "the old model to go")
        self.fails(CODE.NOT_FOUND, "Servable not found for request: Latest(a)", client.predict,
                   model="a")
        client.model.HandleReloadConfigRequest(self.request(), timeout=WAIT)
        wait_for(lambda: server.state("b", 3) == "END", "an empty list to unload everything")

    def test_what_is_wrong_is_told_by_the_code_of_the_call(self):
        server = self.serve_one()
        client = self.client(server)
        reload = client.model.HandleReloadConfigRequest
        self.fails(CODE.INVALID_ARGUMENT,
                   "ServerModelConfig type not supported by HandleReloadConfigRequest. "
                   "Only ModelConfigList is currently supported",
                   reload, model_management_pb2.ReloadConfigRequest())
        self.fails(CODE.INVALID_ARGUMENT, "multiple times", reload,
                   self.request(("a", self.path("a")), ("a", self.path("b"))))
        self.fails(CODE.INVALID_ARGUMENT,
                   "Expected model b to have an absolute path or URI; got base_path()=rel", reload,
                   self.request(("b", "rel")))
        self.fails(CODE.INVALID_ARGUMENT, 'config: field "base_path" of a ModelConfig holds a NUL',
                   reload, self.request(("b", self.path("a") + "\0b")))
        self.fails(CODE.INVALID_ARGUMENT, 'config: field "name" of a ModelConfig holds a NUL',
                   reload, self.request(("a\0b", self.path("a"))))
        self.assertEqual(client.predict(model="a"), [3.0])
        raw = client.channel.unary_unary(
            "/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        self.fails(CODE.INVALID_ARGUMENT, "protobuf", raw, b"\x0a\xff\xff")
        self.fails(CODE.INVALID_ARGUMENT, "", raw, b"\x0a\x02\xff\xff")
        large = self.request(("b", "/" + "x" * (15 << 20)))
        self.fails(CODE.RESOURCE_EXHAUSTED, "bytes, 15728640 are the most", reload, large)
        half = self.request(("b", "/" + "x" * (9 << 20))).SerializeToString()
        self.fails(CODE.RESOURCE_EXHAUSTED, f"ReloadConfigRequest.config has {2 * len(half) - 10} bytes", raw, half + half)

    def test_configs_that_are_given_twice_are_merged(self):
        self.put("b/1")
        client = self.client(self.serve_one())
        raw = client.channel.unary_unary(
            "/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        raw(self.request(("a", self.path("a"))).SerializeToString() +
            self.request(("b", self.path("b"))).SerializeToString() + b"\x0a\0", timeout=WAIT)
        for model in "ab":
            self.assertEqual(client.predict(model=model), [3.0])

    def test_a_new_model_that_fails_is_named_and_nothing_is_rolled_back(self):
        os.makedirs(self.path("bad/1"))
        with open(self.path("bad/1/saved_model.pb"), "wb") as file:
            file.write(b"no model")
        server = self.serve_one("--max_num_load_retries=0")
        client = self.client(server)
        text = self.fails(CODE.UNKNOWN, "did not become available",
                          client.model.HandleReloadConfigRequest,
                          self.request(("bad", self.path("bad"))))
        self.assertIn("{name: bad version: 1} due to error: ", text)
        wait_for(lambda: server.state("a", 1) == "END", "the old model to go")

    def test_a_base_path_that_is_not_there_is_named_in_the_end(self):
        client = self.client(self.serve_one("--model_wait_seconds=1"))
        self.fails(CODE.UNKNOWN, "{name: no} due to error: Could not find base path "
                   f"{self.path('no')} for servable no", client.model.HandleReloadConfigRequest,
                   self.request(("a", self.path("a")), ("no", self.path("no"))))

    def test_a_model_whose_new_base_path_is_not_there_serves_on_and_says_so(self):
        server = self.serve_one()
        client = self.client(server)
        text = f"Could not find base path {self.path('no')} for servable a"
        answer = client.model.HandleReloadConfigRequest(self.request(("a", self.path("no"))), timeout=WAIT)
        self.assertEqual(answer.status.error_code, 0)
        self.assertIn("1 model(s) keep the versions that they had: {{{name: a} due to error: " + text,
                      answer.status.error_message)
        wait_for(lambda: text in server.log(), "the log line")
        self.assertEqual(server.states("a")[1][0], "AVAILABLE")
        self.assertIn(text, server.states("a")[1][1])
        address = f"grpc://127.0.0.1:{server.grpc_port}"
        self.assertIn("AVAILABLE  " + text, command("status", "a", "--server", address)[1])
        config = self.write("config", "model_config_list { config { name: 'a' base_path: '%s' "
                            "model_platform: 'tensorflow' } }" % self.path("no"))
        code, out, _ = command("reload", config, "--server", address)
        self.assertEqual(code, 0)
        self.assertIn("reloaded: 1 model\n1 model(s) keep the versions that they had: ", out)
        self.assertEqual(client.predict(model="a"), [3.0])
        answer = client.model.HandleReloadConfigRequest(self.request(("a", self.path("a"))), timeout=WAIT)
        self.assertEqual(answer.status.error_message, "")
        self.assertEqual(server.states("a")[1], ("AVAILABLE", ""))

    def test_too_many_and_too_long_names_of_counters_are_refused(self):
        client = self.client(self.serve_one())
        reload = client.model.HandleReloadConfigRequest
        # Repeated names count against the limit, because earlier versions took seconds to handle millions of them.
        self.fails(CODE.INVALID_ARGUMENT, "metric_names has more than 1000 names", reload,
                   self.request(("a", self.path("a")), metrics=("x",) * 1001))
        self.fails(CODE.INVALID_ARGUMENT, "metric_names has a name of 1025 bytes, 1024 are the most",
                   reload, self.request(("a", self.path("a")), metrics=("x" * 1025,)))
        reload(self.request(("a", self.path("a")), metrics=("x",) * 1000), timeout=WAIT)

    def test_counters_that_were_asked_for_come_with_their_increase(self):
        self.put("b/1")
        server = self.serve_one()
        client = self.client(server)
        answer = client.model.HandleReloadConfigRequest(
            self.request(("a", self.path("a")), ("b", self.path("b")),
                         metrics=("/tensorflow/serving/nothing", "/tensorflow/serving/nothing",
                                  "slipway_model_loads_total")), timeout=WAIT)
        self.assertEqual([m.name for m in answer.metric],
                         ["/tensorflow/serving/nothing", "slipway_model_loads_total"])
        self.assertEqual(answer.metric[0].int64_value_increase, 0)
        self.assertTrue(answer.metric[0].HasField("int64_value_increase"))

    def test_a_reload_goes_on_without_its_caller_and_the_next_one_waits_for_it(self):
        for name in "bc":
            self.put(f"{name}/1")
        server = self.serve_one()
        client = self.client(server)
        reload = client.model.HandleReloadConfigRequest
        left = reload.future(self.request(("b", self.path("b"))), timeout=WAIT)
        wait_for(lambda: "(Re-)adding model: b" in server.log(), "the reload")
        left.cancel()
        reload(self.request(("c", self.path("c"))), timeout=WAIT)
        self.assertEqual(client.predict(model="c"), [3.0])
        many = [reload.future(self.request((name, self.path(name))), timeout=WAIT) for name in "abcabc"]
        self.assertEqual([call.result().status.error_code for call in many], [0] * 6)
        # Calls that are open at the same time may reach the server in any order.
        last = server.log().rpartition("(Re-)adding model: ")[2][0]
        self.assertEqual(client.predict(model=last), [3.0])

    def test_a_reload_that_nobody_waits_for_any_more_is_not_begun(self):
        self.put("c/1")
        os.makedirs(self.path("empty"))
        server = self.serve_one(f"--model_wait_seconds={int(4 * SLOW)}")
        client = self.client(server)
        reload = client.model.HandleReloadConfigRequest
        first = reload.future(self.request(("a", self.path("a")), ("e", self.path("empty"))), timeout=WAIT)
        wait_for(lambda: "(Re-)adding model: e" in server.log(), "the first reload")
        self.fails(CODE.DEADLINE_EXCEEDED, "", reload, self.request(("c", self.path("c"))), timeout=0.3)
        self.assertEqual(first.code(), CODE.UNKNOWN)
        wait_for(lambda: "the client gave up before the reload's turn came" in server.log(), "its turn")
        self.assertNotIn("(Re-)adding model: c", server.log())
        self.assertEqual(client.predict(model="a"), [3.0])

    def test_reloads_that_fail_do_not_fill_the_log(self):
        server = self.serve_one()
        client = self.client(server)
        bad = model_management_pb2.ReloadConfigRequest()
        begin = time.monotonic()
        for _ in range(300):
            self.fails(CODE.INVALID_ARGUMENT, "not supported", client.model.HandleReloadConfigRequest, bad)
        seconds = time.monotonic() - begin
        self.assertIn("ReloadConfig failed", server.log())
        self.assertLessEqual(server.log().count("ReloadConfig failed"), 20 * (seconds + 2))

    def test_a_server_stops_although_a_reload_waits(self):
        os.makedirs(self.path("empty"))
        server = self.serve_one()
        client = self.client(server)
        waits = client.model.HandleReloadConfigRequest.future(
            self.request(("e", self.path("empty"))), timeout=WAIT)
        wait_for(lambda: "a reload of the model configuration" in server.log(), "the reload")
        self.assertEqual(server.stop(), 0)
        self.assertIn(waits.code(), (CODE.UNAVAILABLE, CODE.CANCELLED))


class Admin(GrpcCase):
    request = Reload.request

    def reload(self, client, *models, **kw):
        kw.setdefault("timeout", WAIT)
        return client.model.HandleReloadConfigRequest(self.request(*models), **kw)

    def test_an_open_server_says_so_in_its_log_and_a_guarded_one_does_not(self):
        server = self.serve(f"--models={MODELS}")
        self.assertEqual(server.log().count("whoever reaches the gRPC port"), 1)
        server = self.serve(f"--models={MODELS}", "--admin_socket=" + self.path("s"))
        self.assertNotIn("whoever reaches", server.log())

    def test_admin_actions_move_to_their_own_address_and_socket(self):
        self.put("a/1")
        port = free_ports(1)[0]
        server = self.serve("--model_name=a", f"--model_base_path={self.path('a')}",
                            f"--admin_address=127.0.0.1:{port}",
                            "--admin_socket=" + self.path("admin"))
        client = self.client(server)
        self.fails(CODE.PERMISSION_DENIED, "--admin_address", self.reload, client)
        for target in (f"127.0.0.1:{port}", "unix:" + self.path("admin")):
            admin = self.client(target)
            self.reload(admin, ("a", self.path("a")))
            self.assertEqual(admin.predict(model="a"), [3.0])
        self.assertEqual(client.predict(model="a"), [3.0])

    def test_the_token_is_asked_for_and_may_change(self):
        self.put("a/1")
        token = self.write("token", "s3cret\n")
        server = self.serve("--model_name=a", f"--model_base_path={self.path('a')}",
                            f"--admin_token_file={token}")
        client = self.client(server)
        model = ("a", self.path("a"))
        self.fails(CODE.UNAUTHENTICATED, "authorization", self.reload, client, model)
        for wrong in ("Bearer s3cre", "Bearer s3cret1", "Bearer ", "s3cret", "Basic s3cret",
                      "Bearer s3creT"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.reload(client, model, metadata=(("authorization", wrong),))
            self.assertEqual(caught.exception.code(), CODE.UNAUTHENTICATED)
            self.assertNotIn("s3cret", caught.exception.details())
        self.reload(client, model, metadata=(("authorization", "Bearer s3cret"),))
        self.reload(client, model, metadata=(("authorization", "bearer s3cret"),))
        self.write("token", "other")
        self.reload(client, model, metadata=(("authorization", "Bearer other"),))
        self.assertNotIn("s3cret", server.log())

    def test_a_reload_stays_below_the_root_of_models(self):
        self.put("root/a/1")
        self.put("outside/a/1")
        os.symlink(self.path("outside"), self.path("root/link"))
        server = self.serve("--model_name=o", f"--model_base_path={self.path('outside/a')}",
                            "--model_root=" + self.path("root"))
        client = self.client(server)
        for bad in (self.path("outside/a"), self.path("root/link/a"),
                    self.path("root/../outside/a"), self.path("root/no/../../outside/a"),
                    self.path("rootless"), "/"):
            self.fails(CODE.PERMISSION_DENIED, "model m: base path", self.reload, client,
                       ("m", bad))
        self.assertEqual(client.predict(model="o"), [3.0])
        self.reload(client, ("m", self.path("root/a")))
        self.assertEqual(client.predict(model="m"), [3.0])

    def test_a_wrong_flag_refuses_the_start(self):
        for flags, words in (
                (["--admin_token_file=" + self.path("none")], "--admin_token_file"),
                (["--admin_token_file=" + self.write("empty", "\n")], "is empty"),
                (["--admin_address=nonsense"], "--admin_address=nonsense is not HOST:PORT"),
                (["--model_root=" + self.path("none")], "--model_root"),
                (["--grpc_channel_arguments=a=1,b"], '"b" is not of the form key=value')):
            server = Server(f"--models={MODELS}", *flags, wait=False)
            self.assertEqual(server.process.wait(WAIT), 255, flags)
            self.assertIn(words, server.out())


class Limits(GrpcCase):
    def test_a_request_that_can_never_fit_is_told_so(self):
        server = self.serve(f"--models={MODELS}", "--max_bytes_in_flight=100K")
        client = self.client(server)
        self.assertEqual(client.predict([2.0] * 10000), [3.0] * 10000)
        self.fails(CODE.RESOURCE_EXHAUSTED, "the request is larger than --max_bytes_in_flight",
                   lambda timeout: client.predict([2.0] * 30000))
        self.assertEqual(client.predict(), [3.0])

    def test_a_job_that_nobody_waits_for_any_more_never_runs(self):
        def build(g):
            g.placeholder("n", "int32")
            g.const("nil", "float", [], float_val=[0.0])
            g.const("all", "int32", [2], int_val=[0, 1])
            g.node("power_0", "Fill", "n", "nil", T="float", index_type="int32")
            for i in range(500):
                g.node(f"power_{i + 1}", "MatMul", f"power_{i}", "power_0", T="float")
            g.node("y", "Sum", "power_500", "all", T="float", Tidx="int32")

        small_models.write(self.path("long/1"),
                           {"serving_default": ({"n": ("n", "int32")}, {"y": ("y", "float")})}, build)
        shutil.copytree(os.path.join(MODELS, "counter"), self.path("counter"))
        server = self.serve(f"--models={self.folder}", "--num_workers=1", "--inline_max_us=0")
        client = self.client(server)
        long = predict_pb2.PredictRequest()
        long.model_spec.name = "long"
        t = long.inputs["n"]
        t.dtype = types_pb2.DT_INT32
        t.tensor_shape.dim.add(size=2)
        t.int_val.extend((4000, 4000))
        count = predict_pb2.PredictRequest()
        count.model_spec.name = "counter"
        count.model_spec.signature_name = "incr"
        running = client.prediction.Predict.future(long, timeout=WAIT)
        # A job is counted as soon as it is queued. Until a worker has dequeued it, a later job may run first.
        wait_for(lambda: server.metric("slipway_jobs") == 1 and not server.metric("slipway_queue_requests"),
                 "the worker to be at work")
        late = client.prediction.Predict.future(count, timeout=0.1)
        gone = client.prediction.Predict.future(count, timeout=WAIT)
        self.fails(CODE.DEADLINE_EXCEEDED, "", lambda timeout: late.result())
        wait_for(lambda: server.metric("slipway_jobs") == 2, "the other to be queued alone")
        gone.cancel()
        self.assertFalse(running.done())
        running.cancel()
        count.model_spec.signature_name = "get"
        self.assertEqual(client.prediction.Predict(
            count, timeout=WAIT).outputs["output"].float_val[0], 0)

    def test_servers_in_turn_on_one_path_and_none_removes_another_s(self):
        path = self.path("socket")
        first = self.serve(f"--models={MODELS}", f"--grpc_socket_path={path}")
        self.assertEqual(self.client(f"unix:{path}").predict(), [3.0])
        second = self.serve(f"--models={MODELS}", f"--grpc_socket_path={path}")
        self.assertEqual(first.stop(), 0)
        self.assertEqual(self.client(f"unix:{path}").predict(), [3.0])
        self.assertEqual(second.stop(), 0)
        self.assertFalse(os.path.exists(path))
        third = self.serve(f"--models={MODELS}", f"--grpc_socket_path={path}")
        third.process.kill()
        third.process.wait()
        self._cleanups = [c for c in self._cleanups if c[1] != (third,)]
        self.assertTrue(os.path.exists(path))
        self.serve(f"--models={MODELS}", f"--grpc_socket_path={path}")
        self.assertEqual(self.client(f"unix:{path}").predict(), [3.0])

    @unittest.skipUnless(socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"), "no IPv6")
    def test_every_address_of_both_kinds(self):
        server = self.serve(f"--models={MODELS}", "--bind_address=::")
        self.assertEqual(self.client(f"127.0.0.1:{server.grpc_port}").predict(), [3.0])
        self.assertEqual(self.client(f"[::1]:{server.grpc_port}").predict(), [3.0])
        server = self.serve(f"--models={MODELS}", "--bind_address=localhost")
        self.assertEqual(self.client(f"localhost:{server.grpc_port}").predict(), [3.0])

    def test_a_relative_path_without_tcp(self):
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        server = self.serve(f"--models={MODELS}", "--grpc_socket_path=here", "--port=0",
                            "--access_log")
        self.assertEqual(self.client("unix:here").predict(), [3.0])
        wait_for(lambda: "peer=unix:" in server.log(), "the peer")

    def test_a_file_is_no_place_for_a_socket_and_an_admin_socket_is_its_owner_s(self):
        file = self.write("file", "precious")
        server = Server(f"--models={MODELS}", f"--grpc_socket_path={file}", wait=False)
        self.assertEqual(server.process.wait(WAIT), 255)
        self.assertIn("is not a socket", server.out())
        with open(file, encoding="utf-8") as f:
            self.assertEqual(f.read(), "precious")
        self.serve(f"--models={MODELS}", "--admin_socket=" + self.path("admin"))
        self.assertEqual(os.stat(self.path("admin")).st_mode & 0o777, 0o600)

    def test_metadata_that_is_too_large_is_refused_and_the_server_lives(self):
        server = self.serve(f"--models={MODELS}", "--max_header_bytes=4K")
        client = self.client(server)
        self.assertEqual(client.predict(metadata=(("a", "x" * 2000),)), [3.0])
        self.fails(CODE.RESOURCE_EXHAUSTED, "", client.predict, metadata=(("a", "x" * 8000),))
        # gRPC core may close the connection of a refused call.
        self.assertEqual(self.client(server).predict(), [3.0])

    def test_what_is_no_http2_does_no_harm(self):
        server = self.serve(f"--models={MODELS}")
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, os.urandom(1000),
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(500)):
            with socket.create_connection(("127.0.0.1", server.grpc_port)) as s:
                s.sendall(junk)
                s.settimeout(WAIT)
                try:
                    while s.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(self.client(server).predict(), [3.0])


class Hostile(GrpcCase):
    @unittest.skipIf(SLOW > 1, "a matter of speed")
    def test_messages_that_never_end_do_not_fill_the_memory(self):
        server = self.serve(f"--models={MODELS}", "--max_bytes_in_flight=1M")
        connection = Frames(server.grpc_port)
        size, piece = 200 << 20, bytes(16384)
        streams = [1, 3, 5, 7]
        left = dict.fromkeys(streams, size - len(piece))
        for stream in streams:
            connection.call(stream, PREDICT)
            connection.send(Frames.DATA, stream, b"\0" + struct.pack(">I", size))
            for where in (0, stream):
                connection.windows[where] -= 5
        until, most = time.monotonic() + 60, 0
        try:
            while time.monotonic() < until and not connection.ended:
                moved = False
                for stream in streams:
                    room = min(connection.windows[0], connection.windows[stream], left[stream])
                    for _ in range(min(room // len(piece), 64)):
                        connection.send(Frames.DATA, stream, piece)
                        moved = True
                        left[stream] -= len(piece)
                        for where in (0, stream):
                            connection.windows[where] -= len(piece)
                connection.listen(0.001 if moved else 0.2)
                with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
                    most = max(most, int(next(x for x in status if x.startswith("VmRSS"))
                                         .split()[1]))
        except ConnectionError:
            connection.ended.add(0)
        connection.socket.close()
        self.assertTrue(connection.ended)
        self.assertLess(most, 450 << 10)
        self.assertEqual(self.client(server).predict(), [3.0])


    def test_answers_that_nobody_takes_have_a_bound(self):
        small_models.write_shapes(self.path("shapes/1"))
        server = self.serve(f"--models={self.folder}", "--max_bytes_in_flight=2M")
        client = self.client(server, options=(("grpc.max_receive_message_length", -1),))
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "shapes", "fill"
        t = request.inputs["dims"]
        t.dtype = types_pb2.DT_INT32
        t.tensor_shape.dim.add(size=1)

        def fill(n):
            del t.int_val[:]
            t.int_val.append(n)
            return len(client.prediction.Predict(request, timeout=WAIT).outputs["y"].float_val)
        # The memory of a response is released when it has been sent, which may be after the client has received it.
        for _ in range(5):
            wait_for(lambda: fill_or_none(fill, 450000) == 450000, "room for an answer")
        self.fails(CODE.RESOURCE_EXHAUSTED, "the response is larger than --max_bytes_in_flight",
                   lambda timeout: fill(600000))
        wait_for(lambda: fill_or_none(fill, 200000) == 200000, "room for an answer")
        message = request.SerializeToString()
        connection = Frames(server.grpc_port)
        streams = iter(range(1, 1 << 20, 2))
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            for stream in itertools.islice(streams, 2):
                # Each request has a response of 800 KB. The client's flow-control window admits only 64 KB of a response,
                # so the server keeps the rest in memory.
                connection.call(stream, PREDICT)
                connection.send(Frames.DATA, stream,
                                b"\0" + struct.pack(">I", len(message)) + message, 1)
            connection.listen(0.2)
            try:
                fill(450000)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), CODE.UNAVAILABLE)
                self.assertIn("the response does not fit beside the requests", error.details())
                break
        else:
            self.fail("answers that wait are not counted")
        self.assertEqual(fill(1000), 1000)
        connection.socket.close()
        wait_for(lambda: fill_or_none(fill, 450000) == 450000, "the bytes to come back")


def fill_or_none(fill, n):
    try:
        return fill(n)
    except grpc.RpcError:
        return None


class Health(GrpcCase):
    def check(self, client, service):
        return client.health.Check(health_pb2.HealthCheckRequest(service=service),
                                   timeout=WAIT).status

    def test_the_services_that_are_there_and_every_model_have_a_state(self):
        self.put("bad/1")
        os.truncate(self.path("bad/1/saved_model.pb"), 10)
        self.put("good/1")
        server = self.serve(f"--models={self.folder}", "--max_num_load_retries=0")
        client = self.client(server)
        for name in ("", "PredictionService", "ModelService", "grpc.health.v1.Health", "good",
                     "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
                     "grpc.reflection.v1.ServerReflection"):
            self.assertEqual(self.check(client, name), health_pb2.HealthCheckResponse.SERVING, name)
        self.assertEqual(self.check(client, "bad"), health_pb2.HealthCheckResponse.NOT_SERVING)
        for name in ("nobody", "Health", "tensorflow.serving", "PredictionService "):
            self.fails(CODE.NOT_FOUND, "unknown service", client.health.Check,
                       health_pb2.HealthCheckRequest(service=name))

    def test_a_watch_follows_a_model(self):
        self.put("m/1")
        server = self.serve(f"--models={self.folder}")
        seen = []
        watch = self.client(server).health.Watch(health_pb2.HealthCheckRequest(service="late"))
        self.addCleanup(watch.cancel)

        def listen():
            try:
                for answer in watch:
                    seen.append(answer.status)
            except grpc.RpcError:
                pass
        threading.Thread(target=listen, daemon=True).start()
        unknown, serving = 3, 1
        wait_for(lambda: seen == [unknown], "an unknown service to be told")
        self.put("late/1")
        wait_for(lambda: seen[-1] == serving, "the model to serve")
        shutil.rmtree(self.path("late"))
        wait_for(lambda: seen[-1] != serving, "the model to go")

    def test_it_is_off_by_default_for_who_replaces_the_other_server(self):
        server = Server("--model_name=m", f"--model_base_path={MODELS}/half_plus_two",
                        as_tensorflow=True)
        self.addCleanup(self.end, server)
        self.fails(CODE.UNIMPLEMENTED, "--enable_grpc_healthcheck_service",
                   self.client(server).health.Check, health_pb2.HealthCheckRequest())


class Reflection(GrpcCase):
    def ask(self, server, module, **question):
        """Sends one request on its own stream and returns the response."""
        call = self.client(server).channel.stream_stream(
            f"/{module.DESCRIPTOR.package}.ServerReflection/ServerReflectionInfo",
            module.ServerReflectionRequest.SerializeToString,
            module.ServerReflectionResponse.FromString)
        return next(call(iter([module.ServerReflectionRequest(**question)]), timeout=WAIT))

    def test_services_are_listed_in_both_versions(self):
        server = self.serve(f"--models={MODELS}")
        for module in (reflection_v1, reflection_v1alpha):
            answer = self.ask(server, module, list_services="*", host="h")
            names = {s.name for s in answer.list_services_response.service}
            self.assertLessEqual({"tensorflow.serving.PredictionService",
                                  "tensorflow.serving.ModelService", "grpc.health.v1.Health",
                                  "grpc.reflection.v1.ServerReflection",
                                  "grpc.reflection.v1alpha.ServerReflection"}, names)
            self.assertEqual(answer.valid_host, "h")
            self.assertEqual(answer.original_request.list_services, "*")

    def test_files_come_whole_and_with_all_that_they_import(self):
        server = self.serve(f"--models={MODELS}")
        for question in ({"file_containing_symbol": "tensorflow.serving.PredictionService.Predict"},
                         {"file_by_filename": "tensorflow_serving/apis/prediction_service.proto"}):
            answer = self.ask(server, reflection_v1, **question)
            pool = descriptor_pool.DescriptorPool()
            files = [descriptor_pb2.FileDescriptorProto.FromString(b)
                     for b in answer.file_descriptor_response.file_descriptor_proto]
            self.assertEqual(files[0].name, "tensorflow_serving/apis/prediction_service.proto")
            waiting = list(files)
            known = set()
            while waiting:  # A file is added once all files that it imports have been added.
                file = next(f for f in waiting if set(f.dependency) <= known)
                pool.AddSerializedFile(file.SerializeToString())
                known.add(file.name)
                waiting.remove(file)
            service = pool.FindServiceByName("tensorflow.serving.PredictionService")
            method = service.FindMethodByName("Predict")
            self.assertEqual(method.input_type.fields_by_name["inputs"].number, 2)

    def test_what_is_unknown_is_told_in_the_answer_and_the_stream_goes_on(self):
        server = self.serve(f"--models={MODELS}")
        module = reflection_v1
        stub = self.client(server).channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            module.ServerReflectionRequest.SerializeToString,
            module.ServerReflectionResponse.FromString)
        ask = module.ServerReflectionRequest
        answers = list(stub(iter([ask(file_by_filename="no.proto"),
                                  ask(file_containing_symbol="tensorflow.serving"),
                                  ask(all_extension_numbers_of_type="no.Type"),
                                  ask(all_extension_numbers_of_type="tensorflow.TensorProto"),
                                  ask(),
                                  ask(file_containing_symbol="tensorflow.DT_FLOAT")] * 20),
                            timeout=WAIT))
        self.assertEqual(len(answers), 120)
        self.assertEqual([a.error_response.error_code for a in answers[:6]], [5, 5, 5, 0, 3, 0])
        self.assertIn("no.proto", answers[0].error_response.error_message)
        self.assertEqual(answers[3].all_extension_numbers_response.base_type_name,
                         "tensorflow.TensorProto")
        raw = self.client(server).channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        for bad in (b"\xff", b"\x1a" + b"\xff" * 3, b"x" * 70000):
            self.fails(CODE.INVALID_ARGUMENT, "", lambda timeout, b=bad: list(
                raw(iter([b]), timeout=timeout)))

    def test_it_can_be_switched_off_and_open_streams_do_not_hold_up_the_end(self):
        server = self.serve(f"--models={MODELS}", "--enable_grpc_reflection=false")
        self.fails(CODE.UNIMPLEMENTED, "--enable_grpc_reflection", lambda timeout: self.ask(
            server, reflection_v1, list_services=""))
        server = self.serve(f"--models={MODELS}")
        gate = threading.Event()
        self.addCleanup(gate.set)

        def questions():
            yield reflection_v1.ServerReflectionRequest(list_services="")
            gate.wait(WAIT)
        stub = self.client(server).channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            reflection_v1.ServerReflectionRequest.SerializeToString,
            reflection_v1.ServerReflectionResponse.FromString)
        call = stub(questions())
        next(call)
        self.assertEqual(server.stop(), 0)
        with self.assertRaises(grpc.RpcError):
            next(call)

    def test_a_profiler_is_told_that_there_is_none(self):
        server = self.serve(f"--models={MODELS}")
        call = self.client(server).channel.unary_unary("/tensorflow.ProfilerService/Profile")
        self.fails(CODE.UNIMPLEMENTED, "no TensorFlow in this server to profile", call, b"")


@unittest.skipUnless(shutil.which("openssl"), "openssl is not there")
class Tls(GrpcCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.mkdtemp(prefix="slipway-keys-")
        cls.addClassCleanup(shutil.rmtree, cls.keys, ignore_errors=True)
        certificate(cls.keys, "ca")
        certificate(cls.keys, "server", "ca")
        certificate(cls.keys, "client", "ca")
        certificate(cls.keys, "stranger")

    def pem(self, name):
        with open(os.path.join(self.keys, name), "rb") as file:
            return file.read()

    def config(self, verify=False, **parts):
        lines = [f"{name}: {json.dumps(value.decode())}" for name, value in parts.items()]
        if verify:
            lines.append("client_verify: true")
        name = f"ssl{len(os.listdir(self.folder))}"
        return "--ssl_config_file=" + self.write(name, "\n".join(lines))

    def secure(self, server, key=None, cert=None):
        return self.client(f"localhost:{server.grpc_port}", grpc.ssl_channel_credentials(
            self.pem("ca.crt"), key, cert), (("grpc.enable_retries", 0),))

    def test_clients_that_trust_the_certificate_are_served(self):
        server = self.serve(f"--models={MODELS}", "--grpc_socket_path=" + self.path("s"),
                            self.config(server_key=self.pem("server.key"),
                                        server_cert=self.pem("server.crt")))
        self.assertEqual(self.secure(server).predict(), [3.0])
        self.assertEqual(self.client("unix:" + self.path("s")).predict(), [3.0])
        self.fails(CODE.UNAVAILABLE, "", self.client(server).predict)

    def test_the_admin_address_speaks_tls_too(self):
        self.put("a/1")
        port = free_ports(1)[0]
        server = self.serve("--model_name=a", f"--model_base_path={self.path('a')}",
                            f"--admin_address=localhost:{port}",
                            "--admin_token_file=" + self.write("token", "s3cret"),
                            self.config(server_key=self.pem("server.key"),
                                        server_cert=self.pem("server.crt")))
        admin = self.client(f"localhost:{port}", grpc.ssl_channel_credentials(self.pem("ca.crt")))
        reload = admin.model.HandleReloadConfigRequest
        request = Reload.request(self, ("a", self.path("a")))
        self.fails(CODE.UNAUTHENTICATED, "authorization", reload, request)
        reload(request, metadata=(("authorization", "Bearer s3cret"),), timeout=WAIT)
        self.fails(CODE.PERMISSION_DENIED, "--admin_address",
                   self.secure(server).model.HandleReloadConfigRequest, request)

    def test_clients_are_verified_when_asked_for(self):
        server = self.serve(f"--models={MODELS}",
                            self.config(True, server_key=self.pem("server.key"),
                                        server_cert=self.pem("server.crt"),
                                        custom_ca=self.pem("ca.crt")))
        known = self.secure(server, self.pem("client.key"), self.pem("client.crt"))
        self.assertEqual(known.predict(), [3.0])
        self.fails(CODE.UNAVAILABLE, "", self.secure(server).predict)
        self.fails(CODE.UNAVAILABLE, "",
                   self.secure(server, self.pem("stranger.key"), self.pem("stranger.crt")).predict)
        self.assertEqual(known.predict(), [3.0])

    def test_a_wrong_file_refuses_the_start_and_tells_no_key(self):
        key, cert = self.pem("server.key"), self.pem("server.crt")
        cut = key[:len(key) // 2] + b"\n-----END PRIVATE KEY-----\n"
        for flag, words in (
                ("--ssl_config_file=" + self.path("none"), "No such file"),
                ("--ssl_config_file=" + self.write("text", "server_kye: ''"), "server_kye"),
                (self.config(server_cert=cert), "server_key is missing"),
                (self.config(server_key=key), "server_cert is missing"),
                (self.config(server_key=b"/a/path", server_cert=cert),
                 "server_key is not the contents of a PEM file with a PRIVATE KEY"),
                (self.config(server_key=cert, server_cert=key), "server_key is not the contents of a PEM file with "
                 "a PRIVATE KEY: it holds a CERTIFICATE"),
                (self.config(True, server_key=key, server_cert=cert),
                 "client_verify needs custom_ca"),
                (self.config(server_key=cut, server_cert=cert), "do not belong together"),
                (self.config(server_key=self.pem("ca.key"), server_cert=cert),
                 "do not belong together"),
                ("--use_alts_credentials", "Google Cloud")):
            server = Server(f"--models={MODELS}", flag, wait=False)
            self.assertEqual(server.process.wait(WAIT), 255, flag + words)
            code, out, err = command("check-config", f"--models={MODELS}", flag)
            self.assertEqual(code, 1)
            for said in (server.out() + server.log(), out + err):
                self.assertIn(words, said)
                self.assertNotIn(key.decode().splitlines()[3], said)


if __name__ == "__main__":
    unittest.main()
