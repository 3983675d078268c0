"""Tests warm-up requests, which run before their version becomes visible to clients."""
import json
import os
import re

import records
import small_models
from support import Case, Server, wait_for

FILE = "assets.extra/tf_serving_warmup_requests"
COUNT = r":tensorflow:serving:model_warmup_records_read\{([^}]*)\} (\d+)"


def classify(signature):
    log = records.prediction_log_pb2.PredictionLog()
    log.classify_log.request.model_spec.signature_name = signature
    add_example(log.classify_log.request.input)
    return log


def regress(signature):
    log = records.prediction_log_pb2.PredictionLog()
    log.regress_log.request.model_spec.signature_name = signature
    add_example(log.regress_log.request.input)
    return log


def multi(signature):
    log = records.prediction_log_pb2.PredictionLog()
    request = log.multi_inference_log.request
    task = request.tasks.add(method_name="tensorflow/serving/regress")
    task.model_spec.name, task.model_spec.signature_name = "any", signature
    add_example(request.input)
    return log


def session_run():
    log = records.prediction_log_pb2.PredictionLog()
    request = log.session_run_log.request
    feed = request.feed.add(name="x:0")
    records.floats(feed.tensor, [2])
    request.fetch.append("y:0")
    return log


def add_example(message):
    e = message.example_list.examples.add()
    e.features.feature["x"].float_list.value.append(2)


def write_drawing(folder):
    """Writes a model with two signatures: `draw` adds random numbers from seeded generators, and `add` increments a
    variable."""
    def build(g):
        g.placeholder("x", "float")
        g.const("shape", "int32", [1], int_val=[1])
        for name, op in (("uniform", "RandomUniform"), ("normal", "RandomStandardNormal")):
            node = g.node(name, op, "shape", T="int32", dtype="float")
            node.attr["seed"].i, node.attr["seed2"].i = 87654321, 7
        g.node("drawn", "AddV2", "uniform", "normal", T="float")
        g.node("y", "AddV2", "x", "drawn", T="float")
        g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.SetInParent()
        g.const("zero", "float", [], float_val=[0])
        g.const("one", "float", [], float_val=[1])
        g.node("init", "AssignVariableOp", "v", "zero", dtype="float")
        g.node("add", "AssignAddVariableOp", "v", "one", dtype="float")
        g.node("sum", "ReadVariableOp", "v", "^add", dtype="float")
        g.node("z", "AddV2", "x", "sum", T="float")
    small_models.write(folder, {"draw": ({"x": ("x", "float")}, {"y": ("y", "float")}),
                                "add": ({"x": ("x", "float")}, {"z": ("z", "float")})}, build, init="init")


class Warmup(Case):
    def serve(self, *flags):
        return Server(f"--models={self.folder}", "--file_system_poll_wait_seconds=1", *flags)

    def predictions(self, server, signature):
        status, body = server.post("/v1/models/m:predict", {"signature_name": signature, "instances": [0.0]})
        self.assertEqual(status, 200, body)
        return json.loads(body)["predictions"]

    def warmed(self, server):
        """Returns {(version, status): number of records}."""
        page = server.get("/monitoring/prometheus/metrics")[1].decode()
        found = {}
        for labels, n in re.findall(COUNT, page):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[labels["model_path"].split("/")[-1], labels["status"]] = int(n)
        return found

    def put_with(self, logs, version="1", name=FILE):
        """Adds a version that contains a file with the records `logs`, or a damaged file if `logs` is None. The version
        is written to another folder and then renamed to its final path."""
        self.put(f".aside/{version}")
        path = self.path(".aside", version, name)
        records.write(path, logs or [])
        if logs is None:
            with open(path, "wb") as file:
                file.write(b"this is no TFRecord, but text that is long enough")
        os.makedirs(self.path("half"), exist_ok=True)
        os.rename(self.path(".aside", version), self.path("half", version))

    def test_every_kind_of_request_is_played_and_counted(self):
        self.put_with([records.predict([1, 2]), classify("classify_x_to_y"),
                       regress("regress_x_to_y"), multi("regress_x_to_y"), session_run(), b"",
                       records.predict([3], signature="serving_default")])
        for flags in ((), ("--num_model_warmup_threads=3",
                           "--num_request_iterations_for_warmup=4")):
            with self.serve(*flags) as server:
                self.assertEqual(server.state("half", 1), "AVAILABLE")
                self.assertEqual(self.warmed(server), {("1", "OK"): 7})
                self.assertIn("7 records", server.log())
        with self.serve("--enable_model_warmup=false") as server:
            self.assertEqual(self.warmed(server), {})

    def test_zeros_that_warm_up_leave_no_trace(self):
        """Warm-up with zeros must not change the state of a model. The first responses must contain the first numbers
        of a seeded generator and the first values of a counter."""
        write_drawing(self.path("m", "1"))
        answers = []
        for flags in ((), ("--enable_model_warmup=false",), ("--specialise=off",)):
            with self.serve(*flags) as server:
                answers.append([self.predictions(server, name) for name in ("draw", "draw", "add", "add", "draw")])
        self.assertNotEqual(answers[1][0], answers[1][1])
        self.assertEqual(answers[1][2:4], [[1], [2]])
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[2], answers[1])

    def test_a_response_larger_than_the_limit_makes_the_load_fail(self):
        def build(g):
            g.placeholder("x", "float")
            g.const("n", "int32", [1], int_val=[1 << 20])
            g.const("value", "int8", [], int_val=[-1])
            g.node("y", "Fill", "n", "value", T="int8", index_type="int32")

        # A negative int8 takes ten bytes in a response.
        small_models.write(self.path("half", "1"),
                           {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "int8")})}, build)
        records.write(self.path("half", "1", FILE), [records.predict([1])])
        with Server(f"--models={self.folder}", "--max_bytes_in_flight=8M", wait=False) as server:
            wait_for(lambda: server.state("half", 1) == "END", "the load to fail")
            self.assertIn("the response is larger than --max_bytes_in_flight", server.get("/v1/models/half")[1].decode())
        with self.serve("--max_bytes_in_flight=16M") as server:
            self.assertEqual(server.state("half", 1), "AVAILABLE")

    def test_a_version_whose_warm_up_fails_is_none_and_the_old_one_serves_on(self):
        self.put("half/1")
        streamed = records.prediction_log_pb2.PredictionLog()
        streamed.predict_streamed_log.request.add()
        fails = (
            ([records.predict([1]), records.predict([1], signature="no such")],
             'warmup record 1 of .*: Serving signature key "no such" not found.'),
            ([b"\xff"], "Failed to parse warmup record"),
            ([records.predict([1])] * 1001,
             r"Number of warmup records exceeds the maximum \(1000\)"),
            ([streamed], "Unsupported log_type for warmup: 7"),
            (None, "corrupted record .*at 0. Please verify your warmup data is in TFRecord format."))
        with self.serve("--max_num_load_retries=0") as server:
            for version, (logs, text) in enumerate(fails, 2):
                self.put_with(logs, str(version))
                wait_for(lambda v=version: server.state("half", v) == "END", text)
                self.assertRegex(server.states("half")[version][1], text)
                self.assertEqual(server.state("half", 1), "AVAILABLE")
                self.assertEqual(server.predict("half", [1.0]), [2.5])
            warmed = self.warmed(server)
            self.assertEqual(warmed["2", "FAILED_PRECONDITION"], 2)
            self.assertEqual(warmed["4", "INVALID_ARGUMENT"], 1000)
            self.assertEqual(warmed["5", "UNIMPLEMENTED"], 1)
            self.assertEqual(warmed["6", "DATA_LOSS"], 0)
            records.write(self.path("half", "6", FILE), [records.predict([1])])
            wait_for(lambda: server.state("half", 6) == "AVAILABLE", "the repaired version")

    def test_a_version_that_answers_otherwise_than_its_goldens_is_refused(self):
        golden = "assets.extra/slipway_golden_requests"
        self.put_with([records.predict([1, 2], [2.5, 3.0]), records.predict([4])], "1", golden)
        with self.serve("--max_num_load_retries=0") as server:
            self.assertEqual(server.state("half", 1), "AVAILABLE")
            wait_for(lambda: "2 goldens within 0.0001" in server.log(), "the log, which a thread writes")
            self.put_with([records.predict([1], [2.5]), records.predict([1, 2], [2.5, 3.01])],
                          "2", golden)
            wait_for(lambda: server.state("half", 2) == "END", "the refusal")
            self.assertRegex(server.states("half")[2][1],
                             r'golden record 1 of .*: output "y"\[1\] is 3, recorded was 3.00999999')
            self.assertEqual(server.predict("half", [1.0]), [2.5])
            tolerance = self.path("half", "2", "assets.extra", "slipway_golden_tolerance")
            with open(tolerance, "w", encoding="utf-8") as file:
                file.write("0.1\n")
            wait_for(lambda: server.state("half", 2) == "AVAILABLE", "the version")
            page = server.get("/monitoring/prometheus/metrics")[1].decode()
            self.assertIn('slipway_events_total{event="golden_refused"} 1', page)
        with self.serve("--golden_tolerance=0.1") as server:
            os.remove(tolerance)
            self.assertEqual(server.state("half", 2), "AVAILABLE")
