"""Tests files that are named by flags or belong to models. Malformed text gives protobuf's own error. A path to
anything but a regular file is refused immediately, and the error names the type of the file."""
import os
import re
import shutil
import socket
import subprocess

from support import ROOT, SLOW, Case, Server, command, wait_for

SSL = "ssl_config_file"
TEXT_FLAGS = {  # maps a flag to (type of the message, other flags that the flag requires)
    "model_config_file": ("tensorflow.serving.ModelServerConfig", ()),
    "batching_parameters_file": ("tensorflow.serving.BatchingParameters", ("--enable_batching",)),
    "monitoring_config_file": ("tensorflow.serving.MonitoringConfig", ()),
    SSL: ("tensorflow.serving.SSLConfig", ()),
    "platform_config_file": ("tensorflow.serving.PlatformConfigMap", ()),
    "tensorflow_session_config_file": ("tensorflow.ConfigProto", ()),
    "thread_pool_factory_config_file": ("tensorflow.serving.ThreadPoolFactoryConfig", ()),
}
OTHER_FLAGS = {
    "admin_token_file": (),
    "autotune_cache": (),
    "rest_tls_cert_file": ("--rest_tls_key_file=/dev/null",),
}
TEXTS = (
    "nonsense", "foo { a: 1 }", "model_config_list", "model_config_list {",
    "model_config_list: { nonsense }", "model_config_list { config { name: 'a' name: 'b' } }",
    "model_config_list { config { name: 5 } }", "model_config_list { config { name: 'a } }\n",
    "model_config_list { config { model_type: BAD } }", '{ "model_config_list": {} }', "}",
    "\tmodel_config_list {\n\t\tconfig {\n\t\t\tnme: 'a'\n\t}\n}", "model_config_list }", "<xml/>",
    "[x]", "model_config_list { config { model_version_policy { latest { num_versions: 'a' } } } }",
    "model_config_list { config { model_version_policy { latest { num_versions: 1.5 } } } }",
    "model_config_list { config { model_version_policy { specific { versions: [1, 2 } } } }",
    'model_config_list { config { name: "\\q" } }', "model_config_list { config < name: 'a' } }",
    "# one\nmodel_config_list {\n  config {\n    name: 'a'\n    base_path '/m'\n  }\n}\n",
    "version: \"1\"\nmodels:\n  - a\n", "model_config_list { config { name:\t5 } }", "$", "\1",
    "custom_model_config { [no.such] {} }", "model_config_list { config [ {} {} ] }",
)


class TextFiles(Case):
    def test_errors_are_those_of_protobufs_own_parser(self):
        """protoc reads the text with the parser that TensorFlow Serving uses."""
        for text in TEXTS:
            theirs = subprocess.run(
                ["protoc", "-I", os.path.join(ROOT, "proto"),
                 "--encode=tensorflow.serving.ModelServerConfig",
                 "tensorflow_serving/config/model_server_config.proto"],
                input=text.encode(), capture_output=True, check=False,
                cwd=os.path.join(ROOT, "proto")).stderr.decode()
            first = re.search(r"^input:(.*)$", theirs, flags=re.M).group(1)
            _, _, ours = command("check-config", self.write("c", text))
            self.assertIn("Error parsing text-format tensorflow.serving.ModelServerConfig: "
                          + first.rstrip(), ours, text)

    def test_every_kind_of_file_is_told_by_its_type(self):
        self.put("m/1")
        for flag, (kind, needs) in TEXT_FLAGS.items():
            base = [] if flag == "model_config_file" else [
                "--model_name=m", f"--model_base_path={self.path('m')}"]
            file = self.write("bad", "\n  nonsense { }")
            with Server(*base, *needs, f"--{flag}={file}", as_tensorflow=True,
                        wait=False) as server:
                self.assertEqual(server.process.wait(20 * SLOW), 255, flag)
                self.assertIn(f"Error parsing text-format {kind}: 2:12: Message type \"{kind}\" has "
                              "no field named \"nonsense\".", server.log())
                self.assertIn(f"Invalid protobuf file: '{file}': 2:12: ",
                              server.out() + server.log())

    def test_a_file_that_is_polled_is_told_once(self):
        self.put("m/1")
        text = (f"model_config_list {{ config {{ name: 'm' base_path: '{self.path('m')}' "
                "model_platform: 'tensorflow' } }")
        file = self.write("models.config", text)
        with Server(f"--model_config_file={file}",
                    "--model_config_file_poll_wait_seconds=1") as server:
            self.write("new", text + " nonsense")
            os.rename(self.path("new"), file)
            wait_for(lambda: "Error parsing text-format" in server.log(), "the error")
            self.write("new", text + " another")
            os.rename(self.path("new"), file)
            wait_for(lambda: '"another"' in server.log(), "the next error")
            self.assertEqual(server.log().count("Error parsing text-format"), 2)
            self.assertEqual(server.predict("m", [1.0]), [2.5])


class NoRegularFiles(Case):
    def special(self):
        """Returns (path, kind) of special files, on which no server may block."""
        os.mkfifo(self.path("fifo"))
        os.mkdir(self.path("folder"))
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.path("socket"))
        return ((self.path("fifo"), "a FIFO"), (self.path("folder"), "a directory"),
                (self.path("socket"), "a socket"), ("/dev/zero", "a device"))

    def test_no_flag_waits_for_what_is_no_file(self):
        self.put("m/1")
        flags = {**{flag: needs for flag, (_, needs) in TEXT_FLAGS.items()}, **OTHER_FLAGS}
        files = self.special()
        for flag, needs in flags.items():
            base = [] if flag == "model_config_file" else [
                "--model_name=m", f"--model_base_path={self.path('m')}"]
            for path, what in files:
                with Server(*base, *needs, f"--{flag}={path}", wait=False) as server:
                    self.assertEqual(server.process.wait(20 * SLOW), 255, flag + what)
                    self.assertIn(f"{path} is {what}, not a regular file",
                                  server.out() + server.log(), flag)

    def test_no_file_of_a_model_is_waited_for(self):
        names = ("saved_model.pb", "variables/variables.index",
                 "variables/variables.data-00000-of-00001",
                 "assets.extra/tf_serving_warmup_requests", "assets.extra/slipway_golden_requests",
                 "assets.extra/slipway_golden_tolerance")
        files, models = self.special(), {}
        for name in names:
            for path, what in files:
                model = f"m{len(models)}"
                models[model] = (name, what)
                self.put(f"models/{model}/1")
                file = self.path("models", model, "1", name)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                if os.path.exists(file):
                    os.remove(file)
                if name.endswith("tolerance"):
                    shutil.copy(self.path("models", model, "1", "saved_model.pb"),
                                self.path("models", model, "1/assets.extra/slipway_golden_requests"))
                os.symlink(path, file)
        self.put("models/good/1")
        with Server(f"--models={self.path('models')}", wait=False) as server:
            wait_for(lambda: server.state("good", 1) == "AVAILABLE", "the good model", 60 * SLOW)
            for model, (name, what) in models.items():
                wait_for(lambda m=model: server.state(m, 1) == "END", f"{name}, {what}", 60 * SLOW)
                self.assertIn(f"is {what}, not a regular file", server.states(model)[1][1], name)
