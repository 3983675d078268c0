"""SIGTERM while clients of both transports keep asking: what was asked before is answered, what comes
later is answered or refused in a way that a client may try again, and the process ends with 0."""
import http.client
import json
import signal
import threading
import time

import grpc
from support import MODELS, SLOW, Case, Server, wait_for
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

ROWS = 8000  # of pictures: a request is under way for some time
WAIT = 60 * SLOW
JUST_SENT_S = 0.4 * SLOW  # what was sent so short before may not have come to the server


class Load:
    """Threads that ask until the server is gone. Of each request: when it had been sent, who asked
    and what came; "OK" is a right answer."""

    def __init__(self, server, threads=3):
        self.server, self.over, self.asked = server, threading.Event(), []
        self.pictures = [[[[0.25]] * 8] * 8] * ROWS
        asks = [self.rest_small, self.rest_large, self.grpc_small, self.grpc_large] * threads
        self.threads = [threading.Thread(target=self.run, args=(ask,)) for ask in asks]
        for t in self.threads:
            t.start()

    def run(self, ask):
        state = {}
        while not self.over.is_set():
            state["sent"] = time.monotonic()
            outcome = ask(state)
            self.asked.append((state["sent"], ask.__name__, outcome))
            if outcome != "OK":
                time.sleep(0.01)

    def rest(self, state, path, body, check):
        connection = state.setdefault("connection", http.client.HTTPConnection(
            "127.0.0.1", self.server.rest_port, timeout=WAIT))
        try:
            try:
                connection.request("POST", f"/v1/models/{path}:predict", body)
            finally:
                state["sent"] = time.monotonic()
            answer = connection.getresponse()
            text = answer.read()
            right = answer.status == 200 and check(json.loads(text)["predictions"])
            return "OK" if right else f"{answer.status} {text[:200]!r}"
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__

    def rest_small(self, state):
        return self.rest(state, "half_plus_two", '{"instances": [1.0, 2.0]}', [2.5, 3.0].__eq__)

    def rest_large(self, state):
        body = state.setdefault("body", json.dumps({"instances": self.pictures}))
        return self.rest(state, "digits", body, lambda rows: len(rows) == ROWS)

    def predict(self, state, model, alias, dims, content, check):
        if "stub" not in state:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = model
            tensor = request.inputs[alias]
            tensor.dtype, tensor.tensor_content = 1, content
            for size in dims:
                tensor.tensor_shape.dim.add(size=size)
            channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}",
                                            [("grpc.use_local_subchannel_pool", 1)])
            state.update(channel=channel, request=request,
                         stub=prediction_service_pb2_grpc.PredictionServiceStub(channel))
        try:
            answer = state["stub"].Predict(state["request"], timeout=WAIT)
            return "OK" if check(answer.outputs) else str(answer)
        except grpc.RpcError as error:
            return error.code().name

    def grpc_small(self, state):
        return self.predict(state, "half_plus_two", "x", (1,), b"\0\0\x80\x3f",
                            lambda outputs: list(outputs["y"].float_val) == [2.5])

    def grpc_large(self, state):
        return self.predict(state, "digits", "pixels", (ROWS, 8, 8, 1), b"\0\0\x80\x3e" * 64 * ROWS,
                            lambda outputs: len(outputs["output_0"].float_val) == 10 * ROWS)

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(3 * WAIT)


# What a client may see of a server that is going; it may ask another one. CANCELLED is what gRPC's
# core makes of a call that crosses its own word that it goes.
GOING = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "RemoteDisconnected",
         "UNAVAILABLE", "CANCELLED"}


class Drain(Case):
    def end_under_load(self, *flags):
        """(when it was told to end, what was asked)."""
        with Server(f"--models={MODELS}", *flags) as server:
            load = Load(server)
            try:
                wait_for(lambda: len(load.asked) > 50 and {
                    name for _, name, outcome in load.asked if outcome == "OK"} == {
                        "rest_small", "rest_large", "grpc_small", "grpc_large"}, "every answer")
                time.sleep(JUST_SENT_S)  # what was asked then has come
                told = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(WAIT), 0, server.log())
                time.sleep(0.1)
            finally:
                load.stop()
            self.assertNotIn("Sanitizer", server.log())
            return told, load.asked

    def test_nothing_that_was_asked_before_fails(self):
        told, asked = self.end_under_load()
        before = [a for a in asked if a[0] < told - JUST_SENT_S]
        self.assertEqual([a for a in before if a[2] != "OK"], [])
        self.assertGreater(len(before), 20)
        after = {outcome.split(" ")[0] for start, _, outcome in asked if start >= told - JUST_SENT_S}
        self.assertEqual(after - GOING - {"OK", "503"}, set())

    def test_with_a_delay_nothing_fails_while_it_lasts(self):
        delay = 1.5 * SLOW
        told, asked = self.end_under_load(f"--drain_delay_ms={int(1000 * delay)}")
        self.assertEqual([a for a in asked if a[0] < told + delay - JUST_SENT_S and a[2] != "OK"],
                         [])
        self.assertGreater(len([a for a in asked if told < a[0] and a[2] == "OK"]), 10)
        after = {outcome.split(" ")[0] for start, _, outcome in asked if start >= told + delay}
        self.assertEqual(after - GOING - {"OK", "503"}, set())
