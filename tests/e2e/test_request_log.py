"""Tests that requests over gRPC and REST are written to request logs, which can be replayed."""
import glob
import json
import os
import shutil

import grpc
import records
from google.protobuf import text_format
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import SLOW, Case, Server, command, wait_for
from tensorflow_serving.apis import (classification_pb2, model_management_pb2,
                                     model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc)

WAIT = 20 * SLOW


class RequestLog(Case):
    def config(self, rate, prefix="log/half", more=""):
        prefix = self.path(prefix)
        return (f'model_config_list {{ config {{ name: "half" base_path: "{self.path("half")}" '
                f'model_platform: "tensorflow" logging_config {{ log_collector_config {{ '
                f'filename_prefix: "{prefix}" {more} }} sampling_config {{ sampling_rate: {rate} '
                '} } } }\n')

    def serve(self, rate, *flags, **more):
        self.put("half/1")
        return Server("--model_config_file=" + self.write("config", self.config(rate, **more)),
                      *flags)

    def files(self, prefix="log/half"):
        return sorted(glob.glob(self.path(prefix) + "*"))

    def logs(self):
        return [log for path in self.files() for log in records.read(path)]

    def ask_grpc(self, server, values, times=1):
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "half"
            records.floats(request.inputs["x"], values)
            for _ in range(times):
                stub.Predict(request, timeout=WAIT)
            c = classification_pb2.ClassificationRequest()
            c.model_spec.name, c.model_spec.signature_name = "half", "classify_x_to_y"
            e = c.input.example_list.examples.add()
            e.features.feature["x"].float_list.value.append(2)
            stub.Classify(c, timeout=WAIT)

    def count(self, server, code="OK"):
        page = server.get("/monitoring/prometheus/metrics")[1].decode()
        for line in page.splitlines():
            if line.startswith(":tensorflow:serving:request_log_count{") and f'"{code}"' in line:
                return int(line.split()[-1])
        return 0

    def count_all(self, server):
        return sum(int(line.split()[-1]) for line in server.get("/monitoring/prometheus/metrics")[1].decode().splitlines()
                   if line.startswith(":tensorflow:serving:request_log_count{") and '"OK"' in line)

    def test_what_is_asked_is_written_and_can_be_played_again(self):
        with self.serve(1) as server:
            self.ask_grpc(server, [1, 2])
            self.assertEqual(server.predict("half", [3.0]), [3.5])
            status, body = server.post("/v1/models/half:regress", {
                "signature_name": "regress_x_to_y", "examples": [{"x": 4.0}]})
            self.assertEqual(status, 200, body)
            server.post("/v1/models/half:predict", {"instances": ["not a number"]})
            wait_for(lambda: self.count(server) == 4, "four records")
            path, = self.files()
            self.assertRegex(path, r"half-\d{8}T\d{6}Z-%d-0.tfrecord$" % server.process.pid)
            # Requests that are replayed are logged again, so the log is copied first.
            copy = shutil.copy(path, self.path("copy"))
            status, out, err = command("bench", f"--server=127.0.0.1:{server.grpc_port}",
                                       "--replay", copy, "--json")
            self.assertEqual(status, 0, out + err)
            result = json.loads(out)
            self.assertEqual([result[key] for key in ("answered", "failed", "wrong", "skipped")],
                             [4, 0, 0, 0], out)
            wait_for(lambda: self.count(server) == 8, "the same four again")
        logs = self.logs()
        self.assertEqual([log.WhichOneof("log_type") for log in logs[:4]],
                         ["predict_log", "classify_log", "predict_log", "regress_log"])
        first = logs[0]
        self.assertEqual(first.log_metadata.model_spec.name, "half")
        self.assertEqual(first.log_metadata.model_spec.version.value, 1)
        self.assertEqual(first.log_metadata.model_spec.signature_name, "serving_default")
        self.assertEqual(first.log_metadata.sampling_config.sampling_rate, 1)
        self.assertEqual(list(first.log_metadata.saved_model_tags), ["serve"])
        self.assertGreater(first.log_metadata.timestamp_secs, 1.5e9)
        self.assertEqual(list(first.predict_log.request.inputs["x"].float_val), [1, 2])
        self.assertEqual(list(first.predict_log.response.outputs["y"].float_val), [2.5, 3])
        self.assertEqual(list(logs[2].predict_log.response.outputs["y"].float_val), [3.5])
        self.assertEqual(logs[3].regress_log.response.result.regressions[0].value, 4)

        # After a rename, a request log can be used as goldens and as warm-up requests.
        for name in ("slipway_golden_requests", "tf_serving_warmup_requests"):
            records.write(self.path("half/1/assets.extra", name), logs)
        with Server(f"--models={self.folder}") as server:
            self.assertEqual(server.state("half", 1), "AVAILABLE")
            self.assertIn(f"{len(logs)} goldens", server.log())

    def test_the_logs_of_many_models_share_few_descriptors(self):
        """Each of 40 models is asked three times, in turns. Each has one log file, most of them without a descriptor."""
        n = 40
        self.put("half/1")
        os.makedirs(self.path("log"))
        config = self.config(1, "log")
        inner = config[len("model_config_list { "):config.rindex("}")]
        names = [f"half{i}" for i in range(n)]
        models = "".join(inner.replace('"half"', f'"{name}"') for name in names)
        with Server("--model_config_file=" + self.write("config", f"model_config_list {{ {models} }}")) as server:
            for turn in range(3):
                for name in names:
                    self.assertEqual(server.predict(name, [float(turn)]), [turn / 2 + 2])
                wait_for(lambda: self.count_all(server) == n * (turn + 1), "the records")
            self.assertLessEqual(len([path for path in server.open_files() if path.endswith(".tfrecord")]), 16)
        files = self.files("log/")
        self.assertEqual(len(files), n)
        for path in files:
            self.assertEqual([list(log.predict_log.request.inputs["x"].float_val) for log in records.read(path)],
                             [[0], [1], [2]])

    def test_the_open_inference_protocol_is_logged_as_predict(self):
        with self.serve(1) as server:
            status, body = server.post("/v2/models/half/infer", {
                "inputs": [{"name": "x", "shape": [2, 1], "datatype": "FP32", "data": [1, 2]}]})
            self.assertEqual(status, 200, body)
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
                request = grpc_service_pb2.ModelInferRequest(model_name="half")
                x = request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
                x.contents.fp32_contents.append(4)
                request.outputs.add(name="y")
                grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=WAIT)
            wait_for(lambda: self.count(server) == 2, "two records")
        logs = self.logs()
        self.assertEqual([list(log.predict_log.request.inputs["x"].float_val) for log in logs], [[1, 2], [4]])
        self.assertEqual([list(log.predict_log.response.outputs["y"].float_val) for log in logs], [[2.5, 3], [4]])

    def test_a_rate_is_kept_and_none_is_none(self):
        with self.serve(0) as server:
            self.ask_grpc(server, [1])
            self.assertEqual(self.count(server), 0)
        self.assertEqual(self.files(), [])
        os.rename(self.path("half"), self.path("gone"))
        with self.serve(0.5) as server:
            self.ask_grpc(server, [1], 400)
        self.assertTrue(120 <= len(self.logs()) <= 280, len(self.logs()))

    def test_files_end_when_they_are_large_or_old_or_not_wanted_any_more(self):
        os.makedirs(self.path("log"))
        with self.serve(1, "--request_log_file_bytes=1000", f"--model_root={self.folder}",
                        prefix="log") as server:
            self.ask_grpc(server, [1] * 50, 3)
            wait_for(lambda: self.count(server) == 4, "four records")
            self.assertEqual(len(self.files("log/half-")), 2)
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
                stub = model_service_pb2_grpc.ModelServiceStub(channel)
                request = model_management_pb2.ReloadConfigRequest()
                text_format.Parse(self.config(1, "log/other"), request.config)
                stub.HandleReloadConfigRequest(request, timeout=WAIT)
                self.ask_grpc(server, [1], 1)
                wait_for(lambda: self.files("log/other-"), "the other file")
        self.assertEqual(sum(len(records.read(p)) for p in self.files("log/other-")), 2)
        self.assertEqual(sum(len(records.read(p)) for p in self.files("log/half-")), 4)

    def test_a_disk_that_takes_nothing_harms_no_request(self):
        self.write("log", "a file where a directory should be")
        with self.serve(1) as server:
            self.ask_grpc(server, [1], 20)
            wait_for(lambda: "requests are not logged" in server.log(), "a warning")
            self.assertEqual(self.count(server), 0)

    def test_a_removed_directory_is_made_again_and_told_once(self):
        lost = "model half: requests are not logged: "
        again = "model half: requests are logged again: "
        with self.serve(1, prefix="log/half") as server:
            self.ask_grpc(server, [1], 3)
            wait_for(lambda: self.count(server) == 4, "four records")
            path, = self.files()
            shutil.rmtree(self.path("log"))
            self.ask_grpc(server, [1], 9)
            wait_for(lambda: self.count(server) == 14, "ten more")
            self.assertEqual(sum(len(records.read(p)) for p in self.files()), 10)
            self.assertEqual(server.log().count(lost), 1)
            self.assertIn(f"WARNING {lost}{path} was removed while it was written", server.log())
            self.assertEqual(server.log().count(f"INFO {again}{self.files()[0]}"), 1)
            # A second outage within a minute of the first is not logged.
            shutil.rmtree(self.path("log"))
            self.ask_grpc(server, [1], 2)
            wait_for(lambda: self.count(server) == 17, "three more")
            self.assertEqual(server.log().count(lost), 1)
            self.assertEqual(server.log().count(again), 1)

    def test_an_outage_and_its_end_are_told_once(self):
        self.write("log", "a file where a directory should be")
        with self.serve(1) as server:
            self.ask_grpc(server, [1], 20)
            wait_for(lambda: "requests are not logged" in server.log(), "a warning")
            os.remove(self.path("log"))

            def is_logged():
                self.ask_grpc(server, [1])
                return self.count(server)

            wait_for(is_logged, "the next try")
            self.assertEqual(server.log().count("requests are not logged: "), 1)
            self.assertEqual(server.log().count("requests are logged again: "), 1)

    def test_a_reload_may_not_name_a_new_log_without_a_root(self):
        with self.serve(1) as server:
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
                stub = model_service_pb2_grpc.ModelServiceStub(channel)
                without = (f'model_config_list {{ config {{ name: "half" '
                           f'base_path: "{self.path("half")}" model_platform: "tensorflow" }} }}')
                # After a reload has removed the first log, a later reload may name that log again,
                # because the server's own configuration file still names it.
                for config, code in ((self.config(1, "log/half"), 0), (without, 0),
                                     (self.config(1, "log/half"), 0),
                                     (self.config(1, "log/other"), 7)):
                    request = model_management_pb2.ReloadConfigRequest()
                    text_format.Parse(config, request.config)
                    try:
                        answer = stub.HandleReloadConfigRequest(request, timeout=WAIT)
                        self.assertEqual(answer.status.error_code, code)
                    except grpc.RpcError as e:
                        self.assertEqual(e.code().value[0], code, e.details())
                        self.assertIn("--model_root", e.details())

    def test_a_collector_of_another_type_is_told(self):
        with self.serve(1, more='type: "kafka"') as server:
            self.ask_grpc(server, [1])
            self.assertIn('no log collector of type "kafka"', server.log())
        self.assertEqual(self.files(), [])
