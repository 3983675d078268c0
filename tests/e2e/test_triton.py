"""Tests config.pbtxt in model repositories of Triton Inference Server: what it sets, what it refuses, and what it cannot
change."""
import json
import os
import re
import struct
import tempfile
import time

import grpc
import small_models
import test_oip
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import Server, command, wait_for
from test_oip import WAIT, tensor

ENDLESS = 1e18
# A spare worker takes no batch of a model with one instance while another batch of it runs. Without this limit, it would take
# one beside a run that has lasted for 0.5 s.
ONE_INSTANCE = "instance_group { count: 1 kind: KIND_CPU }"


def write_rows(folder, add=1.0):
    """Writes a model whose serving_default adds a number to the rows of x. `twice` doubles them."""
    def build(g):
        g.placeholder("x", "float")
        g.const("add", "float", [], float_val=[add])
        g.node("sum", "AddV2", "x", "add", T="float")
        g.node("twice", "AddV2", "x", "x", T="float")
    x = {"x": ("x", "float", [-1, 2])}
    small_models.write(folder, {"serving_default": (x, {"y": ("sum", "float", [-1, 2])}),
                                "twice": (x, {"y": ("twice", "float", [-1, 2])})}, build)


def write_slow(folder):
    """Writes a model that returns its rows after it has counted up to the largest of them. Its signature `timed` also returns
    the time at which the run began, as y_began."""
    def build(g):
        g.placeholder("x", "float")
        g.const("axis", "int32", [1], int_val=[0])
        g.node("largest", "Max", "x", "axis", T="float", Tidx="int32")
        g.const("zero", "float", [], float_val=[0])
        g.const("row", "int32", [1], int_val=[1])
        g.node("time", "Timestamp", "^x")
        g.node("y_began", "Reshape", "time", "row", T="double", Tshape="int32")
        for prefix, began in (("", ()), ("timed_", ("^time",))):
            g.node(prefix + "most", "Cast", "largest", *began, SrcT="float", DstT="int64")
            g.node(prefix + "nothing", "Mul", small_models.count(g, prefix + "most", prefix), "zero", T="float")
            g.node(prefix + "y", "AddV2", "x", prefix + "nothing", T="float")
    x, y = {"x": ("x", "float", [-1])}, ("float", [-1])
    small_models.write(folder, {"serving_default": (x, {"y": ("y", *y)}),
                                "timed": (x, {"y": ("timed_y", *y), "y_began": ("y_began", "double", [-1])})}, build)


class Repository(test_oip.Client):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slipway-triton-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def model(self, name, config=None, versions=(1,), write=write_rows, **kw):
        for version in versions:
            write(os.path.join(self.folder, name, str(version), "model.savedmodel"), **kw)
        if config is not None:
            self.configure(name, config)

    def configure(self, name, config):
        path = os.path.join(self.folder, name, "config.pbtxt")
        with open(path + "~", "w", encoding="utf-8") as file:
            file.write(config)
        os.rename(path + "~", path)

    def serve(self, *flags):
        self.server = Server(f"--models={self.folder}", *flags)
        self.addCleanup(self.stop)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.addCleanup(channel.close)
        self.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def stop(self):
        self.assertEqual(self.server.stop(), 0)

    def available(self, model):
        return sorted(v for v, (state, _) in self.server.states(model).items() if state == "AVAILABLE")

    def rows(self, model, n=1, **parameters):
        request = {"inputs": [tensor("x", "FP32", [n, 2], [0] * (2 * n))]}
        return self.infer(model, {**request, "parameters": parameters} if parameters else request)

    def count_to(self, *values, model="slow", **parameters):
        """Begins a request of write_slow's model and returns its future."""
        request = grpc_service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype="FP32", shape=[len(values)])
        request.raw_input_contents.append(struct.pack(f"<{len(values)}f", *values))
        for name, value in parameters.items():
            request.parameters[name].int64_param = value
        call = self.stub.ModelInfer.future(request, timeout=WAIT)
        self.addCleanup(call.cancel)
        return call

    def jobs(self, n):
        wait_for(lambda: self.server.metric("slipway_jobs") == n, f"{n} jobs")

    def batches(self, model):
        """Returns how many batches of each number of rows have run, up to bounds that are powers of two."""
        page = self.server.get("/monitoring/prometheus/metrics")[1].decode()
        n, got = 0, {}
        for bound, count in re.findall(r'slipway_batch_rows_bucket\{[^}]*model="%s"[^}]*le="(\d+)"\} (\d+)' % model, page):
            got[int(bound)] = int(count) - n
            n = int(count)
        return {bound: count for bound, count in got.items() if count}


class Versions(Repository):
    def test_the_version_policy(self):
        self.model("latest", versions=(1, 2, 3), config="version_policy: { latest { num_versions: 2 } }")
        self.model("all", versions=(1, 2, 3), config="version_policy { all {} }")
        self.model("specific", versions=(1, 2, 3), config="version_policy: { specific { versions: [1, 3] } }")
        self.model("none", versions=(1, 2), config="max_batch_size: 4")
        for i in (1, 2):
            write_rows(os.path.join(self.folder, "plain", str(i)))
        self.configure("plain", "version_policy { all {} }")
        self.serve()
        for model, versions in (("latest", [2, 3]), ("all", [1, 2, 3]), ("specific", [1, 3]), ("none", [2]),
                                # The versions of this model do not lie as in Triton's repositories.
                                ("plain", [2])):
            with self.subTest(model):
                wait_for(lambda m=model, v=versions: self.available(m) == v, f"{versions} of {model}")

    def test_a_policy_that_changes_while_the_model_serves(self):
        self.model("m", versions=(1, 2, 3), config="version_policy { all {} }")
        self.serve("--file_system_poll_wait_seconds=1")
        wait_for(lambda: self.available("m") == [1, 2, 3], "all versions")
        self.configure("m", "version_policy { specific { versions: 2 } }")
        wait_for(lambda: self.available("m") == [2], "version 2 alone")
        # A file that cannot be read changes nothing for versions that serve.
        self.configure("m", "version_policy { all {")
        time.sleep(2.5)
        self.assertEqual(self.available("m"), [2])
        os.remove(os.path.join(self.folder, "m", "config.pbtxt"))
        wait_for(lambda: self.available("m") == [3], "the highest version")

    def test_the_policy_of_a_config_file_takes_precedence(self):
        self.model("stated", versions=(1, 2), config="version_policy { all {} }")
        self.model("unstated", versions=(1, 2), config="version_policy { all {} }")
        config = os.path.join(self.folder, "models.config")
        with open(config, "w", encoding="utf-8") as file:
            file.write("model_config_list {" + "".join(
                f'config {{ name: "{name}" base_path: "{self.folder}/{name}" model_platform: "tensorflow" {policy} }}'
                for name, policy in (("stated", "model_version_policy { latest { num_versions: 1 } }"),
                                     ("unstated", ""))) + "}")
        self.server = Server(f"--model_config_file={config}")
        self.addCleanup(self.stop)
        wait_for(lambda: self.available("unstated") == [1, 2], "all versions")
        self.assertEqual(self.available("stated"), [2])


class Labels(Repository):
    def test_classes_have_the_labels_of_the_file(self):
        self.model("m", 'output { name: "y" data_type: TYPE_FP32 dims: [-1, 2] label_filename: "names/labels.txt" }')
        os.mkdir(os.path.join(self.folder, "m", "names"))
        with open(os.path.join(self.folder, "m", "names", "labels.txt"), "wb") as file:
            file.write("größer: 5\r\n\n".encode())
        self.serve()
        request = {"inputs": [tensor("x", "FP32", [2, 2], [0, 1, 3, 2])],
                   "outputs": [{"name": "y", "parameters": {"classification": 2}}]}
        self.assertEqual(self.infer("m", request)[1]["outputs"][0]["data"],
                         ["2.000000:1", "1.000000:0:größer: 5", "4.000000:0:größer: 5", "3.000000:1"])
        # The labels are those of the signature that the model's name stands for.
        self.assertEqual(self.infer("m@twice", request)[1]["outputs"][0]["data"],
                         ["2.000000:1", "0.000000:0", "6.000000:0", "4.000000:1"])

    def test_the_configuration_names_the_file(self):
        name = 'a "name"/größer'
        self.model("m", f"output {{ name: 'y' data_type: TYPE_FP32 dims: [-1, 2] label_filename: '{name}' }}")
        os.mkdir(os.path.join(self.folder, "m", 'a "name"'))
        with open(os.path.join(self.folder, "m", name), "wb"):
            pass
        self.serve()
        for model, expected in (("m", name), ("m@twice", "")):
            config = self.get(f"/v2/models/{model}/config")[1]
            self.assertEqual((config["output"][0].get("label_filename", ""), config["output"][0]["dims"]), (expected, [-1, 2]))
            self.assertNotIn("label_filename", config["input"][0])
            config = self.stub.ModelConfig(grpc_service_pb2.ModelConfigRequest(name=model), timeout=WAIT).config
            self.assertEqual((config.output[0].label_filename, config.output[0].dims), (expected, [-1, 2]))


    def test_labels_count_as_memory_of_the_model(self):
        """Without labels, the limit admits both models: each is estimated at some 8 MB."""
        for name in ("a", "b"):
            self.model(name, 'output { name: "y" data_type: TYPE_FP32 dims: [-1, 2] label_filename: "labels.txt" }')
            with open(os.path.join(self.folder, name, "labels.txt"), "wb") as file:
                file.write((b"x" * 999 + b"\n") * 15000)
        self.serve("--total_model_memory_limit_bytes=40M", "--max_num_load_retries=0", "--model_wait_seconds=0")
        wait_for(lambda: all(self.server.state(name, 1) in ("AVAILABLE", "END") for name in ("a", "b")), "the loads")
        messages = dict(self.server.states(name)[1] for name in ("a", "b"))
        self.assertEqual(sorted(messages), ["AVAILABLE", "END"])
        self.assertIn("--total_model_memory_limit_bytes", messages["END"])


class Refusals(Repository):
    def test_what_would_change_answers_is_refused(self):
        io = 'input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }'
        cases = (
            ("1:1: sequence_batching: this server has no sequences", "sequence_batching { max_sequence_idle_microseconds: 5 }"),
            ("2:1: ensemble_scheduling: this server has no ensembles", 'platform: ""\nensemble_scheduling { step { model_name: "a" } }'),
            ("1:1: batch_input: ", "batch_input { kind: BATCH_ELEMENT_COUNT }"),
            ("1:1: batch_output: ", "batch_output { }"),
            ("1:1: cc_model_filenames: ", 'cc_model_filenames { key: "7.5" value: "a" }'),
            ("1:1: model_operations: ", 'model_operations { op_library_filename: "a.so" }'),
            ("1:1: model_repository_agents: ", 'model_repository_agents { agents { name: "a" } }'),
            ("1:9: reshape: ", "input { reshape { shape: [] } }"),
            ("2:3: label_filename: ", 'output {\n  label_filename: "labels.txt"\n}'),
            ("1:10: label_filename: ../good/config.pbtxt is outside of the model's directory",
             'output { label_filename: "../good/config.pbtxt" }'),
            # This file is refused before it is read, so that its size does not matter.
            ("1:10: label_filename: ../good/large is outside of the model's directory", 'output { label_filename: "../good/large" }'),
            ("1:9: optional: ", "input { optional: true }"),
            ("1:9: allow_ragged_batch: ", "input { allow_ragged_batch: true }"),
            ("1:1: platform: this server serves tensorflow_savedmodel, not onnxruntime_onnx", 'platform: "onnxruntime_onnx"'),
            ("1:1: backend: ", 'backend: "python"'),
            ("1:1: default_model_filename: ", 'default_model_filename: "other.savedmodel"'),
            ("1:1: model_transaction_policy: each request has one response", "model_transaction_policy { decoupled: true }"),
            ("1:1: max_batch_size: -1 is not between 0 and 1048576", "max_batch_size: -1"),
            ("3:3: preferred_batch_size: 9 is not between 1 and max_batch_size, 8",
             "max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: [4, 9]\n}"),
            ("1:20: priority_levels: default_priority_level, 0, is not between 1 and 3", "dynamic_batching { priority_levels: 3 }"),
            ("1:20: priority_queue_policy: ", "dynamic_batching { priority_queue_policy { key: 1 } }"),
            ("1:44: batch_size: 9 is more than max_batch_size, 8",
             'max_batch_size: 8 model_warmup { name: "w" batch_size: 9 }'),
            ("1:16: inputs: input \"x\" has no zero_data", 'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 } } }'),
            ("1:16: inputs: input \"x\" has no data_type", 'model_warmup { inputs { key: "x" value { zero_data: true } } }'),
            ("1:1: version_policy: latest: num_versions is not at least 1", "version_policy { latest { } }"),
            ("1:49: count: -2 is negative", "instance_group [ { kind: KIND_CPU count: 1 }, { count: -2 } ]"),
            ("1:1: parameters: TF_INIT_OPS_FILE: ", 'parameters { key: "TF_INIT_OPS_FILE" value { string_value: "ops" } }'),
            ("1:1: parameters: the SavedModel has no signature \"no\"",
             'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "no" } }'),
            ("1:9: name: the signature \"serving_default\" has no input \"z\", only \"x\"", io.replace('"x"', '"z"')),
            ("1:19: data_type: input \"x\" is of type", io.replace("FP32", "INT32", 1)),
            ("1:40: dims: input \"x\" has another shape in the SavedModel, [?,2]", io),
            ("1:14: Message type \"inference.ModelConfig\" has no field named \"max_batchsize\".", "max_batchsize: 3"),
            ("1:17: Expected integer, got: {", "max_batch_size: {"),
            ("a tag", 'parameters { key: "TF_GRAPH_TAG" value { string_value: "gpu" } }'),
        )
        for i, (_, config) in enumerate(cases):
            self.model(f"m{i}", config)
        self.model("good", "max_batch_size: 0")
        with open(os.path.join(self.folder, "good", "large"), "wb") as file:
            file.truncate(17 << 20)
        self.serve("--model_wait_seconds=60")
        wait_for(lambda: self.available("good") == [1], "the model that is not refused")
        for i, (words, config) in enumerate(cases):
            with self.subTest(config):
                wait_for(lambda m=f"m{i}": self.server.states(m).get(1, ("", ""))[0] == "END", "the end of the load")
                text = self.server.states(f"m{i}")[1][1]
                if words != "a tag":
                    self.assertIn(os.path.join(self.folder, f"m{i}", "config.pbtxt") + ":" + words, text)
                else:
                    self.assertIn("gpu", text)
                code, out, err = command("inspect", os.path.join(self.folder, f"m{i}"))
                self.assertEqual((code, "gpu" in err if words == "a tag" else f"config.pbtxt:{words}" in out), (1, True), out + err)
                self.assertNotIn("everything that is needed can run", out)
        code, out, _ = command("inspect", os.path.join(self.folder, "good"))
        self.assertEqual((code, "everything that is needed can run" in out), (0, True), out)

    def test_check_config_reads_the_files_without_the_models(self):
        self.model("good", "version_policy { specific { versions: 1 } } optimization { }", versions=(1, 2))
        code, out, err = command("check-config", f"--models={self.folder}")
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("policy    specific 1\n  versions  1\n", out)
        self.assertIn("config.pbtxt: optimization (line 1)", out)
        self.model("typo", "max_batchsize: 3")
        self.model("group", 'platform: "ensemble"')
        code, out, err = command("check-config", f"--models={self.folder}")
        self.assertEqual(code, 1)
        self.assertEqual(out.count("\n  refused   "), 2, out)
        self.assertIn("model good\n", out)
        self.assertIn("has no field named \"max_batchsize\"", out)
        self.assertRegex(err, "^slipway check-config: INVALID_ARGUMENT: model (typo|group): .*config.pbtxt:1:")

    def test_the_name_is_that_of_the_directory(self):
        self.model("good", 'name: "good"')
        self.model("bad", 'platform: "tensorflow_savedmodel"\nname: "good"')
        self.model("latin")
        with open(os.path.join(self.folder, "latin", "config.pbtxt"), "wb") as file:
            file.write(b'name: "l\\377"')
        self.serve()
        for name, words in (("bad", 'bad/config.pbtxt:2:1: name: the configuration is that of "good", but its directory is "bad"'),
                            ("latin", "latin/config.pbtxt:1:1: name: the name is not UTF-8")):
            wait_for(lambda name=name: self.server.states(name)[1][0] == "END", "the refusal")
            self.assertIn(words, self.server.states(name)[1][1])
        self.assertEqual(self.rows("good")[0], 200)

    def test_a_change_of_the_file_names_it(self):
        self.model("m", "")
        self.serve("--file_system_poll_wait_seconds=1")
        self.assertEqual(self.rows("m")[0], 200)
        self.configure("m", "max_batch_size: 4")
        wait_for(lambda: "was changed while" in self.server.log(), "the warning")
        self.assertIn(f"{self.folder}/m/config.pbtxt was changed while version 1 of model m is being served", self.server.log())
        self.assertNotIn("model.savedmodel was changed", self.server.log())

    def test_the_index_lists_a_model_whose_policy_matches_no_version(self):
        self.model("m", "version_policy { specific { versions: 7 } }")
        self.model("good")
        self.serve()
        status, _, answer = self.ask("POST", "/v2/repository/index", b"")
        rows = {row["name"]: row for row in json.loads(answer)}
        self.assertEqual((status, rows["m"]["state"], "version" in rows["m"]), (200, "UNAVAILABLE", False))
        self.assertIn("Version 7 of servable m", rows["m"]["reason"])
        (row,) = [m for m in self.stub.RepositoryIndex(grpc_service_pb2.RepositoryIndexRequest(), timeout=WAIT).models if m.name == "m"]
        self.assertEqual((row.version, row.state), ("", "UNAVAILABLE"))
        status, _, answer = self.ask("POST", "/v2/repository/index", b'{"ready": true}')
        self.assertEqual([row["name"] for row in json.loads(answer)], ["good"])

    def test_a_file_that_is_mended(self):
        self.model("m", "max_batch_size: -1")
        self.model("good")
        self.serve("--file_system_poll_wait_seconds=1")
        wait_for(lambda: self.server.state("m", 1) == "END", "the end of the load")
        self.configure("m", "max_batch_size: 4")
        wait_for(lambda: self.available("m") == [1], "the model")

    def test_what_has_no_effect_is_named_once(self):
        self.model("m", """
            optimization { graph { level: 1 } cuda { graphs: true graph_spec { batch_size: 2 } }
              execution_accelerators { gpu_execution_accelerator { name: "tensorrt" parameters { key: "a" value: "b" } } } }
            instance_group { kind: KIND_AUTO count: 2 gpus: [0, 1] rate_limiter { resources { name: "a" count: 2 } } }
            response_cache { enable: true }
            metric_tags { key: "a" value: "b" }
            parameters { key: "TF_NUM_INTRA_THREADS" value { string_value: "4" } }
            model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { buckets: [1, 2] } } }
            """, versions=(1, 2))
        self.serve("--file_system_poll_wait_seconds=1")
        self.assertEqual(self.rows("m")[0], 200)
        write_rows(os.path.join(self.folder, "m", "3", "model.savedmodel"))
        wait_for(lambda: self.available("m") == [3], "the next version")
        told = [line for line in self.server.log().splitlines() if "have no effect here" in line]
        self.assertEqual(len(told), 1, told)
        for words in ("model m: ", "config.pbtxt", "optimization (line 2)", "rate_limiter (line 4)",
                      "response_cache (line 5)", "metric_tags (line 6)", 'parameters "TF_NUM_INTRA_THREADS" (line 7)',
                      "model_metrics (line 8)"):
            self.assertIn(words, told[0])
        self.assertIn("model m: instance_group asks for GPUs, but the server uses no GPU", self.server.log())


    def test_a_file_beside_bare_saved_models_is_named_once(self):
        """It is named again only after it has changed."""
        def told():
            return [line for line in self.server.log().splitlines() if "config.pbtxt is not read" in line]

        write_rows(os.path.join(self.folder, "m", "1"))
        write_rows(os.path.join(self.folder, "plain", "1"))
        self.configure("m", "no config at all")
        self.serve("--file_system_poll_wait_seconds=1")
        self.assertEqual(self.rows("m")[0], 200)
        write_rows(os.path.join(self.folder, "m", "2"))
        wait_for(lambda: self.available("m") == [2], "the next version")
        (line,) = told()
        self.assertIn("model m: ", line)
        self.assertIn(os.path.join(self.folder, "m", "1", "model.savedmodel"), line)
        self.configure("m", "something else")
        wait_for(lambda: len(told()) == 2, "the line about the new file")


class Settings(Repository):
    def test_inputs_and_outputs_and_the_signature(self):
        io = """input [ { name: "x" data_type: TYPE_FP32 dims: [ 2 ] } ]
                output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]"""
        self.model("m", 'name: "m" platform: "tensorflow_savedmodel" max_batch_size: 8 ' + io)
        self.model("twice", "max_batch_size: 8 " + io +
                   ' parameters { key: "TF_SIGNATURE_DEF" value { string_value: "twice" } }'
                   ' parameters { key: "TF_GRAPH_TAG" value { string_value: "serve" } }')
        self.serve()
        request = {"inputs": [tensor("x", "FP32", [1, 2], [3, 4])]}
        for model, want in (("m", [4, 5]), ("twice", [6, 8]), ("m@twice", [6, 8]), ("twice@serving_default", [4, 5])):
            with self.subTest(model):
                self.assertEqual(self.infer(model, request)[1]["outputs"][0]["data"], want)
        self.assertEqual(self.get("/v2/models/twice")[0], 200)
        # TensorFlow Serving's API has its own default.
        self.assertEqual(self.server.predict("twice", [[3, 4]]), [[4, 5]])

    def test_a_request_has_at_most_max_batch_size_rows(self):
        self.model("m", "max_batch_size: 4")
        self.model("d", "max_batch_size: 4 dynamic_batching { }")
        self.serve()
        for model in ("m", "d"):
            self.assertEqual(self.rows(model, 4)[0], 200)
            self.refused(400, "the request has 5 rows, but max_batch_size of the model is 4", model,
                         {"inputs": [tensor("x", "FP32", [5, 2], [0] * 10)]})
            self.assertEqual(self.rows(model + "@twice", 5)[0], 200)

    def hold(self, **kw):
        self.jobs(0)
        first = self.count_to(ENDLESS, **kw)
        wait_for(lambda: self.server.metric("slipway_jobs") == 1 and not self.server.metric("slipway_queue_requests"),
                 "a run that holds the worker")
        return first

    def test_dynamic_batching_merges_and_prefers_sizes(self):
        self.model("slow", "max_batch_size: 8 dynamic_batching { preferred_batch_size: [4] } " + ONE_INSTANCE, write=write_slow)
        self.serve("--num_workers=1", "--inline_max_us=0", "--enable_model_warmup=false")
        first = self.hold()
        calls = [self.count_to(i) for i in range(10)]
        self.jobs(11)
        first.cancel()
        self.assertEqual([struct.unpack("<f", c.result(WAIT).raw_output_contents[0])[0] for c in calls],
                         [float(i) for i in range(10)])
        # The batches have 1 row (the first request), 4, 4 and 2 rows.
        self.assertEqual(self.batches("slow"), {1: 1, 2: 1, 4: 2})

    def test_requests_wait_for_a_preferred_size(self):
        self.model("slow", "max_batch_size: 8 dynamic_batching { preferred_batch_size: [4] "
                           f"max_queue_delay_microseconds: {int(WAIT * 1e6)} }}", write=write_slow)
        self.serve("--enable_model_warmup=false")
        calls = [self.count_to(i) for i in range(3)]
        self.jobs(3)
        time.sleep(0.3)
        self.assertFalse(any(c.done() for c in calls))
        calls.append(self.count_to(3))
        for c in calls:
            c.result(WAIT)
        self.assertEqual(self.batches("slow"), {4: 1})

    def test_no_batching_by_flag(self):
        self.model("slow", "max_batch_size: 8 dynamic_batching { }", write=write_slow)
        self.serve("--num_workers=1", "--inline_max_us=0", "--enable_model_warmup=false", "--enable_batching=false")
        first = self.hold()
        calls = [self.count_to(i) for i in range(3)]
        self.jobs(4)
        first.cancel()
        for c in calls:
            c.result(WAIT)
        self.assertEqual(self.batches("slow"), {1: 4})

    def test_priority_levels(self):
        self.model("slow", "max_batch_size: 1 dynamic_batching { priority_levels: 3 default_priority_level: 3 } " + ONE_INSTANCE,
                   write=write_slow)
        self.serve("--num_workers=1", "--inline_max_us=0", "--enable_model_warmup=false")
        with self.assertRaises(grpc.RpcError) as caught:
            self.count_to(1, priority=4).result(WAIT)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("the priority 4 is not between 1 and 3", caught.exception.details())
        first, calls = self.hold(), []
        for n, priority in enumerate((0, 3, 2, 1, 0)):
            calls.append((self.count_to(1, model="slow@timed", priority=priority), n, priority))
            self.jobs(n + 2)
        first.cancel()
        began = sorted((struct.unpack("<d", call.result(WAIT).raw_output_contents[1]), n, p) for call, n, p in calls)
        self.assertEqual([p for _, _, p in began], [1, 2, 0, 3, 0])

    def test_limits_of_the_queue(self):
        # The requests must be queued together before the first of them has waited for the time limit.
        self.model("slow", """max_batch_size: 1 dynamic_batching { default_queue_policy {
            default_timeout_microseconds: 4000000 max_queue_size: 2 } } """ + ONE_INSTANCE, write=write_slow)
        self.serve("--num_workers=1", "--inline_max_us=0", "--enable_model_warmup=false")
        first = self.hold()
        calls = [self.count_to(1), self.count_to(2)]
        self.jobs(3)
        for call, code in ((self.count_to(3), grpc.StatusCode.UNAVAILABLE), (calls[0], grpc.StatusCode.RESOURCE_EXHAUSTED),
                           (calls[1], grpc.StatusCode.RESOURCE_EXHAUSTED)):
            self.assertIsNotNone(call.exception(WAIT))
            self.assertEqual(call.code(), code, call.details())
        self.assertFalse(first.done())  # the time limit is that of the queue

    def test_instances_limit_the_batches_that_run(self):
        self.model("slow", ONE_INSTANCE, write=write_slow)
        self.model("other", write=write_slow)
        self.serve("--num_workers=4", "--inline_max_us=0", "--enable_model_warmup=false")
        first = self.hold()
        second = self.count_to(1)
        self.jobs(2)
        other = [self.hold_other() for _ in range(2)]
        self.assertEqual(struct.unpack("<f", self.count_to(1, model="other").result(WAIT).raw_output_contents[0]), (1,))
        self.assertFalse(second.done())
        first.cancel()
        second.result(WAIT)
        for call in other:
            call.cancel()

    def hold_other(self):
        return self.count_to(ENDLESS, model="other")


class Warmup(Repository):
    def warmup(self, values, name="w", more=""):
        return (f'max_batch_size: 8 model_warmup {{ name: "{name}" batch_size: 3 {more} inputs {{ key: "x" value '
                f'{{ data_type: TYPE_FP32 dims: 2 {values} }} }} }} ')

    def test_requests_are_played_before_the_version_serves(self):
        self.model("zero", self.warmup("zero_data: true", more="count: 4") + self.warmup("random_data: true")
                   .replace("max_batch_size: 8", ""))
        self.model("file", self.warmup('input_data_file: "x"'))
        os.mkdir(os.path.join(self.folder, "file", "warmup"))
        with open(os.path.join(self.folder, "file", "warmup", "x"), "wb") as file:
            file.write(struct.pack("<6f", *range(6)))
        small_models.write_types(os.path.join(self.folder, "types", "1", "model.savedmodel"))
        self.configure("types", "".join(
            f'model_warmup {{ inputs {{ key: "x" value {{ data_type: TYPE_{name} dims: [2, 3] {values} }} }} }} '
            for name, values in (("STRING", "zero_data: true"), ("STRING", "random_data: true"))) +
            'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "string" } }')
        self.serve()
        for model, n in (("zero", 5), ("file", 1), ("types", 2)):
            wait_for(lambda m=model: self.available(m) == [1], f"model {model}")
            self.assertIn(f"model {model} version 1: warmed up with {n} requests of config.pbtxt", self.server.log())

    def test_each_type_has_random_numbers(self):
        for dtype, (name, _, _) in test_oip.TYPES.items():
            small_models.write_types(os.path.join(self.folder, dtype, "1", "model.savedmodel"))
            self.configure(dtype, f'model_warmup {{ inputs {{ key: "x" value {{ data_type: TYPE_{name} dims: 3 '
                                  'random_data: true } } } parameters { key: "TF_SIGNATURE_DEF" '
                                  f'value {{ string_value: "{dtype}" }} }}')
        self.serve()
        for dtype in test_oip.TYPES:
            wait_for(lambda d=dtype: self.available(d) == [1], f"model {dtype}: {self.server.states(dtype)}")

    def test_a_request_that_fails_makes_the_load_fail(self):
        cases = (('input "x": ', "input_data_file: \"none\""), ('input "x" has', "input_data_file: \"short\""),
                 ("is no name of a file", 'input_data_file: "../x"'), ("is no name of a file", 'input_data_file: ".."'),
                 ("the dims are no shape", "dims: -1 zero_data: true"),
                 ("the dims are no shape", "dims: 9223372036854775807 zero_data: true"),
                 ("", "dims: [1099511627776, 4] zero_data: true"), ("there are", f"dims: {[1] * 300} zero_data: true"))
        for i, (_, values) in enumerate(cases):
            self.model(f"m{i}", self.warmup(values))
            os.mkdir(os.path.join(self.folder, f"m{i}", "warmup"))
            with open(os.path.join(self.folder, f"m{i}", "warmup", "short"), "wb") as file:
                file.write(b"123")
        self.model("good")
        self.serve()
        for i, (words, values) in enumerate(cases):
            with self.subTest(values):
                wait_for(lambda m=f"m{i}": self.server.states(m).get(1, ("", ""))[0] == "END", "the end of the load")
                text = self.server.states(f"m{i}")[1][1]
                self.assertIn(f'm{i}/config.pbtxt: model_warmup "w": ', text)
                self.assertIn(words, text)

    def test_it_can_be_turned_off(self):
        self.model("m", self.warmup('input_data_file: "none"'))
        self.serve("--enable_model_warmup=false")
        self.assertEqual(self.rows("m")[0], 200)
