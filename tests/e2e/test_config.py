"""Tests those effects of flags and configuration files on versions that the unit tests (test_options, test_settings,
test_config, test_policy, test_manager) cannot check."""
import datetime
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest.mock

import support
from support import MODELS, SLOW, Case, Server, command, free_ports, wait_for

PLUS_3, PLUS_2 = "half_plus_two/1", "half_plus_two/2"

PLATFORM = """platform_configs { key: "tensorflow" value { source_adapter_config {
  [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
    legacy_config { %s } } } } }"""


class ConfigCase(Case):
    def config(self, *models):
        """Writes models.config and returns its path. Each model is "NAME REST", where REST is the text of any
        additional fields."""
        text = "model_config_list {\n"
        for model in models:
            name, _, rest = model.partition(" ")
            text += (f"  config {{ name: '{name}' base_path: '{self.path(name)}' "
                     f"model_platform: 'tensorflow' {rest} }}\n")
        return self.replace("models.config", text + "}\n")

    def replace(self, name, text):
        """Replaces a file in one step, as editors and kubectl do, so that the server never reads a partial file."""
        self.write(name + ".tmp", text)
        os.rename(self.path(name + ".tmp"), self.path(name))
        return self.path(name)

    def starts_not(self, *flags, out="", **kw):
        """Starts a server that must exit with status 255, and returns its standard output."""
        with Server(*flags, as_tensorflow=True, wait=False, **kw) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            self.assertIn(out, server.out())
            return server.out()

    def logged(self, server, text):
        wait_for(lambda: text in server.log(), f"the log to say {text!r}")


class Flags(ConfigCase):
    def test_the_reason_why_the_server_does_not_start_is_a_line_of_a_json_log(self):
        missing = self.path("no \"such\" file")
        with Server(f"--model_config_file={missing}", "--log_format=json", wait=False) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            lines = [json.loads(line) for line in server.log().splitlines()]
            (line,) = [line for line in lines if line["msg"].startswith("Failed to start server. Error: ")]
            self.assertEqual(line["level"], "ERROR")
            self.assertIn(missing, line["msg"])
            self.assertEqual(server.out(), "")

    def test_all_lines_of_a_json_log_and_standard_output_are_json(self):
        with Server(f"--models={MODELS}", "--log_format=json", "--access_log") as server:
            self.logged(server, '"msg":"ready; try: curl -d ')
            self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])
            server.stop()
            for line in server.log().splitlines():
                json.loads(line)
            self.assertIn(f"Exporting HTTP/REST API at:127.0.0.1:{server.rest_port} ...", server.log())
            self.assertEqual(server.out(), "")

    def test_the_reason_why_the_server_does_not_start_is_the_last_line(self):
        with Server(f"--models={MODELS}", "--page_address=127.0.0.1:0") as server:
            taken = f"--rest_api_port={server.rest_port}"
            for more in ((), ("--log_format=json",), ("--log_level=3",)):
                done = subprocess.run([support.binary(), "serve", "--port=0", f"--models={MODELS}", taken, *more], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * SLOW, check=False)
                self.assertEqual(done.returncode, 255)
                self.assertIn("Failed to start server. Error: ", done.stdout.splitlines()[-1])
                self.assertNotIn("whoever reaches", done.stdout)

    def test_every_flag_is_taken_and_those_without_effect_say_why(self):
        self.put("m/1")
        text = {name: self.write(name, content) for name, content in (
            ("batching", "max_batch_size { value: 8 } num_batch_threads { value: 2 }"),
            ("monitoring", "prometheus_config: { enable: true, path: '/metrics' }"),
            ("session", "gpu_options { allow_growth: true } inter_op_parallelism_threads: 2"),
            ("threads", ""))}
        without_effect = [
            "--flush_filesystem_caches=false",
            "--remove_unused_fields_from_bundle_metagraph=false", "--prefer_tflite_model",
            "--num_tflite_pools=2", "--num_tflite_interpreters_per_pool=2",
            "--xla_cpu_compilation_enabled", "--xla_gpu_compilation_enabled=true",
            "--enable_profiler=false", "--mixed_precision=bfloat16", "--skip_initialize_tpu"]
        with Server("--model_name=m", f"--model_base_path={self.path('m')}",
                    "--rest_api_num_threads=2", "--rest_api_timeout_in_ms=20000",
                    "--rest_api_enable_cors_support", "--enable_batching",
                    f"--batching_parameters_file={text['batching']}",
                    "--allow_version_labels_for_unavailable_models",
                    "--model_config_file_poll_wait_seconds=0", "--num_load_threads=2",
                    "--num_unload_threads=2", "--max_num_load_retries=1",
                    "--load_retry_interval_micros=1000", "--file_system_poll_wait_seconds=1",
                    "--tensorflow_intra_op_parallelism=2", "--tensorflow_inter_op_parallelism=1",
                    f"--tensorflow_session_config_file={text['session']}",
                    "--saved_model_tags=serve", "--per_process_gpu_memory_fraction=0.5",
                    "--grpc_channel_arguments=grpc.max_concurrent_streams=9",
                    "--grpc_max_threads=8", "--enable_model_warmup=false",
                    f"--monitoring_config_file={text['monitoring']}",
                    f"--thread_pool_factory_config_file={text['threads']}",
                    "--enable_signature_method_name_check=false", "--use_alts_credentials=false",
                    "--ssl_config_file=", "--platform_config_file=",
                    "--enable_grpc_healthcheck_service",
                    "--enable_serialization_as_tensor_content=false", *without_effect,
                    as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            self.assertNotIn("unknown argument", server.out())
            for flag in without_effect:
                name = flag.split("=", 1)[0]
                self.logged(server, f"{name} is accepted and has no effect here: ")
            self.logged(server,
                        "--tensorflow_session_config_file: without effect here: gpu_options")
            self.assertEqual(server.get("/metrics")[0], 200)
            self.assertEqual(server.get("/monitoring/prometheus/metrics")[0], 404)

    def test_too_many_threads_are_limited(self):
        self.put("m/1")
        for n in ((1 << 32) - 1, (1 << 63) - 1):
            with self.subTest(n=n), Server("--model_name=m", f"--model_base_path={self.path('m')}",
                                           f"--tensorflow_session_parallelism={n}", as_tensorflow=True) as server:
                self.assertEqual(server.predict("m", [1.0]), [2.5])
                self.logged(server, f"{n} threads are configured for TensorFlow; at most 1024 are started")

    def test_an_unknown_argument_is_told_with_usage_and_the_server_starts(self):
        self.put("m/1")
        with Server("--model_name=m", f"--model_base_path={self.path('m')}", "--no_such_flag=1",
                    as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            self.assertIn("unknown argument: --no_such_flag=1\nusage: ", server.out())
        self.starts_not("--no_such_flag=1", "--strict_flags",
                        out="unknown argument: --no_such_flag=1")

    def test_a_later_flag_wins(self):
        """The image's entry point puts its own flags before the user's flags."""
        self.put("m/1")
        with Server("--model_name=other", "--model_base_path=/nowhere", "--model_name=m",
                    f"--model_base_path={self.path('m')}", as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])

    def test_what_cannot_start_says_why_on_standard_output(self):
        base = f"--model_base_path={self.path('m')}"
        for flags, text in (
                ((), "INVALID_ARGUMENT: Both server_options.model_base_path and "
                     "server_options.model_config_file are empty!"),
                (("--model_base_path=relative", "--model_name=m"),
                 "INVALID_ARGUMENT: Expected model m to have an absolute path or URI; got "
                 "base_path()=relative"),
                ((base, f"--batching_parameters_file={self.write('b', '')}"),
                 "INVALID_ARGUMENT: server_options.batching_parameters_file is set without setting "
                 "server_options.enable_batching to true."),
                ((base, "--tensorflow_session_parallelism=1", "--tensorflow_intra_op_parallelism=1",
                  "--tensorflow_inter_op_parallelism=1"),
                 "INVALID_ARGUMENT: Either configure "
                 "server_options.tensorflow_session_parallelism"),
                ((f"--model_config_file={self.path('none')}",),
                 f"NOT_FOUND: {self.path('none')}; No such file or directory"),
                ((f"--model_config_file={self.write('bad', 'model_config_list { x: 1 }')}",),
                 f"INVALID_ARGUMENT: Invalid protobuf file: '{self.path('bad')}': 1:22: "),
                ((f"--model_config_file={self.write('custom', 'custom_model_config {}')}",),
                 "INVALID_ARGUMENT: "),
                ((base, f"--platform_config_file={self.write('p', '')}"),
                 "FAILED_PRECONDITION: PlatformConfigMap has no entry for platform tensorflow"),
                ((base, "--port=0"), "INVALID_ARGUMENT: ")):
            self.starts_not(*flags, out="Failed to start server. Error: " + text)

    def test_a_relative_base_path_may_be_missing_and_links_in_it_may_change(self):
        with Server("--model_name=m", f"--model_base_path={os.path.relpath(self.path('link/m'))}/", wait=False) as server:
            self.logged(server, f"Could not find base path {os.getcwd()}/")
            self.put("one/m/1", PLUS_3)
            self.put("two/m/2", PLUS_2)
            os.symlink("one", self.path("link"))
            wait_for(lambda: server.state("m", 1) == "AVAILABLE", "version 1")
            os.symlink("two", self.path("new"))
            os.rename(self.path("new"), self.path("link"))
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "version 2")

    def test_bad_values_print_usage_and_end_with_255(self):
        out = self.starts_not("--port=abc", out="usage: ")
        self.assertIn("Flags:", out)
        self.starts_not("--enable_batching=yes", out="\t--rest_api_port=")
        self.starts_not("--help", out="\t--model_config_file_poll_wait_seconds=0")

    def test_one_port_for_both_leaves_rest_out(self):
        self.put("m/1")
        port = free_ports(1)[0]
        with Server("--model_name=m", f"--model_base_path={self.path('m')}", f"--port={port}",
                    f"--rest_api_port={port}", as_tensorflow=True, wait=False) as server:
            self.logged(server, "server_options.http_port cannot be same as grpc_port. Please use "
                                "a different port for HTTP/REST API. Skipped exporting HTTP/REST "
                                "API.")
            self.logged(server, f"Running gRPC ModelServer at 0.0.0.0:{port} ...")
            self.assertNotIn("Exporting HTTP", server.log())

    def test_a_rest_port_in_use_leaves_grpc_serving(self):
        self.put("m/1")
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with Server("--model_name=m", f"--model_base_path={self.path('m')}",
                        f"--rest_api_port={port}", as_tensorflow=True, wait=False) as server:
                self.logged(server, f"Failed to start HTTP Server at localhost:{port}")
                self.assertIsNone(server.process.poll())

    def test_an_address_that_is_not_of_this_machine_is_named(self):
        code, out, _ = command("serve", f"--models={MODELS}", "--bind_address=no.such.host.invalid")
        self.assertEqual(code, 255)
        self.assertIn("--bind_address=no.such.host.invalid: ", out)
        self.assertNotIn("in use", out)


class Models(ConfigCase):
    def setUp(self):
        super().setUp()
        self.put("m/1", PLUS_3)
        self.put("m/2", PLUS_2)

    def test_policies(self):
        for name in ("latest", "all", "specific", "none"):
            for version in (1, 2, 3):
                self.put(f"{name}/{version}", PLUS_3 if version < 3 else PLUS_2)
        file = self.config(
            "latest model_version_policy { latest { num_versions: 2 } }",
            "all model_version_policy: { all: {} }",
            "specific model_version_policy { specific { versions: 1 versions: 7 } }",
            "none model_version_policy { specific {} }", "m")
        with Server(f"--model_config_file={file}", "--model_wait_seconds=1") as server:
            wanted = {"latest": [2, 3], "all": [1, 2, 3], "specific": [1], "none": [], "m": [2]}
            for name, versions in wanted.items():
                wait_for(lambda n=name, v=versions: sorted(
                    version for version, (state, _) in server.states(n).items()
                    if state == "AVAILABLE") == v, f"the versions of {name}")
            self.logged(server, "Version 7 of servable specific, which was requested to be served")

    def test_labels_at_start_need_the_flag(self):
        file = self.config("m version_labels { key: 'stable' value: 2 }")
        self.starts_not(f"--model_config_file={file}",
                        out="Failed to start server. Error: FAILED_PRECONDITION: Request to assign "
                            "label to version 2 of model m, which is not currently available for "
                            "inference")
        with Server(f"--model_config_file={file}",
                    "--allow_version_labels_for_unavailable_models", as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0], "/labels/stable"), [2.5])
            status, body = server.post("/v1/models/m/labels/none:predict", {"instances": [1.0]})
            self.assertEqual((status, b"Unrecognized servable version label: none" in body),
                             (400, True))

    def test_a_label_moves_only_to_what_is_available(self):
        """With --allow_version_labels_for_unavailable_models, a new label may point to any version, but an existing
        label cannot move to a version that is not available."""
        specific = "m model_version_policy { specific { versions: %d } } version_labels { %s }"
        file = self.config(specific % (1, "key: 'stable' value: 1"))
        with Server(f"--model_config_file={file}",
                    "--allow_version_labels_for_unavailable_models") as server:
            self.assertEqual(server.predict("m", [1.0], "/labels/stable"), [3.5])
            self.config(specific % (1, "key: 'stable' value: 2"))
            server.process.send_signal(signal.SIGHUP)
            self.logged(server, "is ignored: FAILED_PRECONDITION: Request to assign label to "
                                "version 2 of model m, which is not currently available for "
                                "inference")
            self.assertEqual(server.predict("m", [1.0], "/labels/stable"), [3.5])
            self.config("m model_version_policy { all {} } "
                        "version_labels { key: 'stable' value: 1 }"
                        " version_labels { key: 'canary' value: 9 }")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "version 2")
            status, body = server.post("/v1/models/m/labels/canary:predict", {"instances": [1.0]})
            self.assertEqual(status, 404)
            self.assertIn(b"Servable not found for request: Specific(m, 9)", body)
            self.config("m model_version_policy { all {} } "
                        "version_labels { key: 'stable' value: 2 }")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.predict("m", [1.0], "/labels/stable") == [2.5], "the move")

    def test_sighup_reads_the_file_again(self):
        self.put("n/1", PLUS_3)
        file = self.config("m")
        with Server(f"--model_config_file={file}", as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            self.config("n")
            time.sleep(0.3)
            self.assertEqual(server.states("n"), {})
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.state("n", 1) == "AVAILABLE", "the new model")
            wait_for(lambda: server.state("m", 2) == "END", "the old one to go")

    def test_a_file_takes_precedence_over_a_directory_of_models(self):
        self.put("a/7", PLUS_3)
        self.put("models/a/1", PLUS_2)
        self.put("models/b/1", PLUS_2)
        flags = (f"--models={self.path('models')}", f"--model_config_file={self.config('a')}")
        code, out, _ = command("check-config", *flags)
        self.assertEqual(code, 0)
        self.assertEqual((out.count("\nmodel a\n") + out.startswith("model a\n"), out.count("model b\n")), (1, 1), out)
        self.assertIn(f"model a is served as above, and not from {self.path('models/a')}", out)
        with Server(*flags) as server:
            wait_for(lambda: server.state("b", 1) == "AVAILABLE", "the other model")
            self.assertEqual(server.predict("a", [1.0]), [3.5])
            self.assertIn("model a is served as it is configured, and not from its directory in "
                          + self.path("models"), server.log())
            self.put("c/1", PLUS_3)
            self.config("c")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.state("a", 1) == "AVAILABLE", "the model of the directory")
            wait_for(lambda: server.state("a", 7) == "END", "the model of the file")
            wait_for(lambda: server.state("c", 1) == "AVAILABLE", "the other model of the file")
            self.assertEqual(server.predict("a", [1.0]), [2.5])
            self.assertEqual(server.predict("c", [1.0]), [3.5])

    def test_what_a_reread_refuses_changes_nothing(self):
        file = self.config("m")
        with Server(f"--model_config_file={file}", "--model_config_file_poll_wait_seconds=1") as s:
            for text, why in (
                    ("", "FAILED_PRECONDITION: Cannot transition to requested config. It is only "
                         "legal to transition from one ModelConfigList to another."),
                    ("model_config_list { nonsense }", "INVALID_ARGUMENT: Invalid protobuf file"),
                    (f"model_config_list {{ config {{ name: 'm' base_path: '{self.path('m')}' "
                     "model_platform: 'other' } }",
                     "INVALID_ARGUMENT: Illegal to change a model's platform. For model m platform "
                     "was tensorflow and new platform requested is other"),
                    ("model_config_list { config { name: 'n' base_path: 'x' model_platform: "
                     "'tensorflow' } }",
                     "INVALID_ARGUMENT: Expected model n to have an absolute path or URI")):
                self.replace("models.config", text)
                s.process.send_signal(signal.SIGHUP)
                self.logged(s, why)
                self.assertEqual(s.predict("m", [1.0]), [2.5])
            self.replace("models.config", "model_config_list {}")
            wait_for(lambda: s.state("m", 2) == "END", "everything to go")

    def test_an_empty_file_is_a_server_without_models_until_it_says_more(self):
        file = self.replace("models.config", "# later\n")
        with Server(f"--model_config_file={file}", as_tensorflow=True) as server:
            self.assertEqual(server.get("/v1/models/m")[0], 404)
            self.config("m")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "the model")

    def test_a_platform_config_sets_batching_and_the_metrics_page_can_be_off(self):
        platform = self.write("platform", PLATFORM % (
            "batching_parameters { max_batch_size { value: 4 } } enable_model_warmup: true "
            "session_config { intra_op_parallelism_threads: 1 }"))
        off = self.write("monitoring", "prometheus_config { enable: false }")
        with Server("--model_name=m", f"--model_base_path={self.path('m')}",
                    f"--platform_config_file={platform}",
                    f"--monitoring_config_file={off}", as_tensorflow=True) as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            status, body = server.post("/v1/models/m:predict", {"instances": [1.0] * 5})
            self.assertEqual(status, 400)
            self.assertIn(b"larger than maximum input batch size 4", body)
            self.assertEqual(server.get("/monitoring/prometheus/metrics")[0], 404)


class Lifecycle(ConfigCase):
    def serve(self, *flags, **kw):
        return Server("--model_name=m", f"--model_base_path={self.path('m')}", *flags, **kw)

    def test_resource_preserving_holds_one_version_at_a_time(self):
        self.put("m/1", PLUS_3)
        with self.serve("--version_transition=resource_preserving") as server:
            self.put("m/2", PLUS_2)
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "the new version")
            log = server.log()
            self.assertLess(log.index("Done unloading servable version {name: m version: 1}"),
                            log.index("Loading servable version {name: m version: 2}"))

    def test_availability_preserving_is_the_other_way_round(self):
        self.put("m/1", PLUS_3)
        with self.serve() as server:
            self.put("m/2", PLUS_2)
            wait_for(lambda: server.state("m", 1) == "END", "the old version to go")
            log = server.log()
            self.assertLess(
                log.index("Successfully loaded servable version {name: m version: 2}"),
                log.index("Unloading servable version {name: m version: 1}"))

    def test_retries_are_counted_and_end(self):
        self.put("m/1", PLUS_3)
        with self.serve("--max_num_load_retries=2",
                        "--load_retry_interval_micros=100000") as server:
            shutil.copytree(os.path.join(MODELS, PLUS_2), self.path(".bad"))
            os.unlink(self.path(".bad", "variables", "variables.data-00000-of-00001"))
            os.rename(self.path(".bad"), self.path("m", "2"))
            wait_for(lambda: server.state("m", 2) == "END", "the end")
            self.assertNotEqual(server.states("m")[2][1], "")
            self.assertEqual(server.predict("m", [1.0]), [3.5])

    def test_no_version_at_all_unloads_what_was_there(self):
        self.put("m/1", PLUS_3)
        with self.serve() as server:
            os.rename(self.path("m", "1"), self.path(".gone"))
            wait_for(lambda: server.state("m", 1) == "END", "the version to go")
            self.logged(server, "No versions of servable m found under base path "
                                f"{self.path('m')}. Did you forget to name your leaf directory as "
                                "a number (eg. '/1/')?")
            self.assertEqual(server.request("/v1/models/m:predict", {"instances": [1.0]})[0], 404)
            os.rename(self.path(".gone"), self.path("m", "1"))
            wait_for(lambda: server.state("m", 1) == "AVAILABLE", "the version to be back")

    def test_names_of_versions(self):
        for name in ("00000123", "20170111173521", "1", "001", "x", "-5", "1.5", "+3"):
            self.put(f"m/{name}", PLUS_3)
        file = self.config("m model_version_policy { all {} }")
        with Server(f"--model_config_file={file}") as server:
            wait_for(lambda: sorted(server.states("m")) == [1, 123, 20170111173521],
                     "the versions")
            self.logged(server, "2 directories are one version, 1; "
                                f"{self.path('m')}/001 is used, not 1")
            wait_for(lambda: {s for s, _ in server.states("m").values()} == {"AVAILABLE"},
                     "the versions to serve")
            self.assertEqual({v: "are one version" in text
                              for v, (_, text) in server.states("m").items()},
                             {1: True, 123: False, 20170111173521: False})

    def test_a_base_path_that_is_gone_unloads_nothing(self):
        self.put("m/1", PLUS_3)
        with self.serve() as server:
            os.rename(self.path("m"), self.path("away"))
            self.logged(server, f"Could not find base path {self.path('m')} for servable m")
            time.sleep(1.1)
            self.assertEqual(server.predict("m", [1.0]), [3.5])

    def test_a_base_path_without_versions_is_told_again_and_in_the_status(self):
        """The pauses between the log lines grow, so that a mistyped path is told soon and does not fill the log."""
        os.makedirs(self.path("empty"))
        texts = {"empty": f"No versions of servable empty found under base path {self.path('empty')}",
                 "typo": f"Could not find base path {self.path('typo')} for servable typo"}
        with Server("--model_config_file=" + self.config("empty", "typo"), "--model_wait_seconds=1",
                    wait=False) as server:
            for model, text in texts.items():
                wait_for(lambda m=model, t=text: t in server.request(f"/v1/models/{m}")[1].decode(), "the status")
                self.assertEqual(server.request(f"/v1/models/{model}")[0], 404)
                wait_for(lambda t=text: server.log().count(t) > 2, "the log line for the third time")
                first, second, third = [
                    datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
                    for line in server.log().splitlines() if text in line][:3]
                self.assertGreater(second - first, 4.9)
                self.assertGreater(third - second, 9.9)

    def test_polls_once_or_never(self):
        self.put("m/1", PLUS_3)
        with self.serve("--file_system_poll_wait_seconds=0") as server:
            self.assertEqual(server.predict("m", [1.0]), [3.5])
            self.put("m/2", PLUS_2)
            time.sleep(1.6)
            self.assertEqual(list(server.states("m")), [1])

    def test_a_start_whose_model_fails_ends_with_its_reason(self):
        os.makedirs(self.path("m", "1"))
        self.starts_not("--model_name=m", f"--model_base_path={self.path('m')}",
                        "--max_num_load_retries=0",
                        out="Failed to start server. Error: UNKNOWN: 1 servable(s) did not become "
                            "available: {{{name: m version: 1} due to error: ")


class CheckConfig(ConfigCase):
    def test_a_good_configuration_is_shown(self):
        self.put("m/3")
        file = self.config("m version_labels { key: 'a' value: 3 } "
                           "version_labels { key: 'b' value: 4 }")
        code, out, _ = command("check-config", file)
        self.assertEqual(code, 0)
        self.assertEqual(out, f"model m\n  path      {self.path('m')}\n  policy    latest 1\n"
                              "  versions  3\n  label     a is 3\n"
                              "  label     b is 4, which is not there\n"
                              "  note      tensorflow_model_server refuses labels at its start "
                              "without --allow_version_labels_for_unavailable_models\n")
        code, _, err = command("check-config", "--model_config_file", file,
                               "--allow_version_labels_for_unavailable_models=false")
        self.assertEqual(code, 1)
        self.assertIn("Request to assign label to version 3 of model m, which is not currently "
                      "available for inference", err)

    def test_what_the_server_refuses_is_refused(self):
        batching = self.write("b", "max_batch_size { value: 8 } num_batch_threads { value: 2 } "
                                   "pad_variable_length_inputs: true "
                                   "enable_large_batch_splitting { value: true } "
                                   "max_execution_batch_size { value: 4 }")
        code, _, err = command("check-config", f"--models={MODELS}",
                               f"--batching_parameters_file={batching}")
        self.assertEqual(code, 1)
        self.assertIn("server_options.batching_parameters_file is set without setting "
                      "server_options.enable_batching to true.", err)
        code, out, _ = command("check-config", "--kind", "batching", batching)
        self.assertEqual(code, 0)
        for text in ("max_batch_size 8", "num_batch_threads 2", "pad_variable_length_inputs",
                     "enable_large_batch_splitting, max_execution_batch_size 4"):
            self.assertIn(text, out)
        sizes = self.write("sizes", "max_batch_size { value: 8 } allowed_batch_sizes: 4 allowed_batch_sizes: 8")
        self.assertIn("  allowed_batch_sizes 4, 8\n", command("check-config", "--kind", "batching", sizes)[1])
        monitoring = self.write("m", "prometheus_config { enable: true path: 'metrics' }")
        code, _, err = command("check-config", "--kind=monitoring", monitoring)
        self.assertEqual(code, 1)
        self.assertIn('path "metrics" does not begin with a slash', err)
        self.starts_not("--model_name=m", f"--model_base_path={self.path('m')}",
                        f"--monitoring_config_file={monitoring}",
                        out="does not begin with a slash")

    def test_what_serve_refuses_before_it_listens_is_refused(self):
        models = f"--models={MODELS}"
        empty = self.write("empty", " \n")
        for words, *flags in (
                ("At least one of port or grpc_socket_path must be set", models, "--port=0", "--rest_api_port=0"),
                ("--admin_token_file=" + empty + " is empty", models, "--admin_token_file=" + empty),
                (self.path("none"), models, "--admin_token_file=" + self.path("none")),
                ("--model_root=" + self.path("none"), models, "--model_root=" + self.path("none")),
                ("--admin_address=here is not HOST:PORT", models, "--admin_address=here"),
                ("--page_address=here is not HOST:PORT", models, "--page_address=here"),
                ("--page_address=127.0.0.1:65536 is not HOST:PORT", models, "--page_address=127.0.0.1:65536"),
                ("--page_address=127.0.0.1:8501 and --rest_api_port listen at the same port, 8501", models,
                 "--rest_api_port=8501", "--page_address=127.0.0.1:8501"),
                ("--page_address=0.0.0.0:8500 and --port listen at the same port, 8500", models, "--port=8500",
                 "--page_address=0.0.0.0:8500"),
                ("--page_address=[::]:8502 and --admin_address listen at the same port, 8502", models,
                 "--page_address=[::]:8502", "--admin_address=127.0.0.1:8502"),
                ("--page_address=[::1]:0 needs --page", models, "--page_address=[::1]:0", "--page=false"),
                ("--rest_tls_cert_file: " + self.path("none"), models, "--page_address=127.0.0.1:0",
                 "--rest_tls_cert_file=" + self.path("none"), "--rest_tls_key_file=" + self.path("none")),
                ('"x" is not of the form key=value', models, "--grpc_channel_arguments=x"),
                ("--bind_address=192.0.2.1", models, "--bind_address=192.0.2.1"),
                ('"gpu:8501" is no host name', models, "--page_hosts=models.lan,gpu:8501"),
                ("--otlp_endpoint=127.0.0.1:4318: it must begin with http", models, "--otlp_endpoint=127.0.0.1:4318"),
                ("--otlp_certificate: " + self.path("none"), models, "--otlp_endpoint=https://127.0.0.1:4318",
                 "--otlp_certificate=" + self.path("none")),
                ("--quota_client=tls needs the certificates of clients", models, "--quota_client=tls",
                 "--quota_requests_per_second=5"),
                ("--quota_requests_per_second needs --quota_client", models, "--quota_requests_per_second=5"),
                ("--port and --rest_api_port are both 8500", models, "--port=8500", "--rest_api_port=8500"),
                *((f"--{flag}: {self.path('none')}; No such file or directory", models, f"--{flag}={self.path('none')}",
                   "--enable_batching") for flag in (
                       "model_config_file", "batching_parameters_file", "monitoring_config_file", "platform_config_file",
                       "tensorflow_session_config_file", "thread_pool_factory_config_file", "ssl_config_file")),
                (self.path("none"), "--models=" + self.path("none")),
                ("no field named", "--model_config_file=" + self.write("c", "modle_config_list {}"))):
            with self.subTest(flags=flags):
                ports = [f"--port={free_ports(1)[0]}", "--rest_api_port=0"] if "--port=0" not in flags else []
                code, out, _ = command("serve", *ports, *flags)
                self.assertEqual((code, words in out), (255, True), out)
                code, _, err = command("check-config", *ports, *flags)
                self.assertEqual((code, words in err), (1, True), err)

    def test_the_environment_counts_as_for_serve(self):
        with unittest.mock.patch.dict(os.environ, {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}):
            for arguments, status in ((("serve", f"--port={free_ports(1)[0]}", "--rest_api_port=0"), 255),
                                      (("check-config",), 1)):
                code, out, err = command(*arguments, f"--models={MODELS}")
                self.assertEqual((code, "--otlp_endpoint=collector:4318" in out + err), (status, True), out + err)

    def test_a_number_out_of_range_is_refused_with_the_range(self):
        for flag, words in (("--trace_sampling_ratio=2", "takes a number from 0 to 1"),
                            ("--trace_sampling_ratio=-1", "takes a number from 0 to 1"),
                            ("--quota_queue_share=2", "takes a number from 0 to 1"),
                            ("--golden_tolerance=-1", "takes a number of at least 0")):
            with self.subTest(flag):
                code, out, _ = command("serve", f"--models={MODELS}", flag)
                self.assertEqual((code, words in out), (255, True), out)
                code, _, err = command("check-config", f"--models={MODELS}", flag)
                self.assertEqual((code, words in err), (2, True), err)

    def test_a_file_that_is_not_there_is_named_as_it_was_given(self):
        code, out, err = command("check-config", self.path("none"))
        self.assertEqual((code, out, err), (1, "", f"slipway check-config: {self.path('none')}: No such file or directory\n"))

    def test_the_page_may_have_the_port_of_grpc_at_another_address(self):
        port = free_ports(1)[0]
        code, out, _ = command("check-config", f"--models={MODELS}", f"--port={port}", "--rest_api_port=0",
                               f"--page_address=[::1]:{port}")
        self.assertEqual((code, "warning" in out), (0, False), out)

    def test_a_file_that_is_no_autotune_cache_is_left_as_it_is(self):
        text = "# My model\n"
        file = self.write("README.md", text)
        told = f"INVALID_ARGUMENT: autotune_cache: {file} is there and is no autotune cache"
        model = os.path.join(MODELS, "digits")
        flag = f"--autotune_cache={file}"
        self.starts_not("--model_name=m", f"--model_base_path={model}", flag, out=told)
        for arguments in (("check-config", f"--models={MODELS}", flag), ("run", model, "--bench", flag),
                          ("inspect", model, "--plan", flag)):
            code, _, err = command(*arguments)
            self.assertEqual(code, 1, arguments)
            self.assertIn(told, err)
        with open(file) as f:
            self.assertEqual(f.read(), text)
        code, out, _ = command("check-config", f"--models={MODELS}", f"--autotune_cache={self.path('no/cache')}")
        self.assertEqual(code, 0)
        self.assertIn("no/cache cannot be written: No such file or directory", out)

    def test_the_place_of_an_error_is_told(self):
        code, out, err = command("check-config",
                                 self.write("c", "model_config_list {\n  cofnig {}\n}"))
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"Invalid protobuf file: '{self.path('c')}': 2:10: Message type "
                      "\"tensorflow.serving.ModelConfigList\" has no field named \"cofnig\".", err)

    def test_other_kinds_of_files(self):
        for kind, good, bad in (
                ("platform", PLATFORM % "saved_model_tags: 'serve'", PLATFORM % "no: 1"),
                ("session", "intra_op_parallelism_threads: 2", "intra_op: 2"),
                ("batching", "max_batch_size { value: 8 }", "max_batch_size: 8"),
                ("monitoring", "prometheus_config { enable: true }", "prometheus { }"),
                ("threads", "", "thread_pool_factory_config { [x/y.Z] {} }"),
                ("ssl", "", "server_key: 1")):
            with self.subTest(kind=kind):
                if kind != "ssl":
                    code, _, err = command("check-config", self.write("f", good), "--kind", kind)
                    self.assertEqual((code, err.count("check-config:")), (0, 0), err)
                code, _, err = command("check-config", self.write("f", bad), f"--kind={kind}")
                self.assertEqual(code, 1, err)
                self.assertRegex(err, r"\d:\d+: ")

    def test_wrong_arguments(self):
        for arguments in ((), ("f", "--kind=none"), ("f", "--kind"), ("f", "--nonsense")):
            self.assertEqual(command("check-config", *arguments)[0], 2)
        self.assertEqual(command("check-config", "--help")[0], 0)

    def test_flags_as_serve_takes_them(self):
        code, out, _ = command("check-config", f"--models={MODELS}")
        self.assertEqual(code, 0)
        self.assertIn("model half_plus_two\n", out)
