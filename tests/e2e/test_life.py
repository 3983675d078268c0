"""Tests the life cycle of the process and of versions, including start, swaps under load, bad versions, configuration,
drain, and the commands that need no server."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import small_models
import support
from support import MODELS, ROOT, SLOW, Case, Server, command, wait_for

PLUS_3, PLUS_2 = "half_plus_two/1", "half_plus_two/2"


class Swaps(Case):
    def test_no_request_fails_while_versions_are_swapped(self):
        self.put("m/1", PLUS_3)
        rounds = max(2, int(6 / SLOW))
        with Server("--model_name=m", f"--model_base_path={self.path('m')}") as server:
            failures, answers, stop = [], set(), threading.Event()

            def ask():
                while not stop.is_set():
                    try:
                        answers.add(server.predict("m", [1.0])[0])
                    except Exception as failure:  # pylint: disable=broad-except
                        failures.append(repr(failure))

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for t in threads:
                t.start()
            for version in range(2, 2 + rounds):
                self.put(f"m/{version}", PLUS_2 if version % 2 == 0 else PLUS_3)
                wait_for(lambda v=version: server.state("m", v) == "AVAILABLE", "a swap")
                wait_for(lambda v=version: server.state("m", v - 1) == "END", "an unload")
            wait_for(lambda: failures or answers == {2.5, 3.5}, "answers of both")
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(failures, [])
            self.assertEqual(answers, {2.5, 3.5})
            self.assertIn("Successfully loaded servable version {name: m version: 2}",
                          server.log())

    def test_a_bad_version_is_told_and_the_old_one_serves_on(self):
        self.put("m/1")
        with Server("--model_name=m", f"--model_base_path={self.path('m')}") as server:
            shutil.copytree(os.path.join(MODELS, PLUS_2), self.path(".bad"))
            with open(self.path(".bad", "variables", "variables.data-00000-of-00001"),
                      "r+b") as file:
                file.truncate(4)
            os.rename(self.path(".bad"), self.path("m", "2"))
            wait_for(lambda: server.state("m", 2) == "END", "the refusal")
            self.assertNotEqual(server.states("m")[2][1], "")
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            # The version is complete again, and the server retries the load by itself.
            shutil.copy(os.path.join(MODELS, PLUS_2, "variables/variables.data-00000-of-00001"),
                        self.path("m", "2", "variables"))
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "another try")

    def test_a_version_that_is_still_being_written_is_not_loaded(self):
        self.put("m/1", PLUS_3)
        with Server("--model_name=m", f"--model_base_path={self.path('m')}") as server:
            source = os.path.join(MODELS, PLUS_2)
            os.makedirs(self.path("m", "2", "variables"))
            for name in ("saved_model.pb", "variables/variables.data-00000-of-00001",
                         "variables/variables.index"):
                time.sleep(0.6)
                self.assertNotEqual(server.state("m", 2), "AVAILABLE")
                self.assertEqual(server.predict("m", [1.0]), [3.5])
                shutil.copy(os.path.join(source, name), self.path("m", "2", name))
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "the whole version")
            self.assertEqual(server.predict("m", [1.0]), [2.5])

    def test_removing_a_version_brings_the_lower_one_back(self):
        self.put("m/1", PLUS_3)
        self.put("m/2", PLUS_2)
        with Server("--model_name=m", f"--model_base_path={self.path('m')}") as server:
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            shutil.rmtree(self.path("m", "2"))
            wait_for(lambda: server.state("m", 1) == "AVAILABLE", "the lower version")
            wait_for(lambda: server.state("m", 2) == "END", "the unload")
            self.assertEqual(server.predict("m", [1.0]), [3.5])

    def test_a_version_that_is_removed_while_it_is_loaded_ends(self):
        small_models.write_endless(self.path("m/1"))
        with Server("--model_name=m", f"--model_base_path={self.path('m')}", wait=False) as server:
            wait_for(lambda: server.state("m", 1) == "LOADING", "the load")
            shutil.rmtree(self.path("m", "1"))
            wait_for(lambda: server.state("m", 1) == "END", "its end")
            self.assertIn("not wanted any more", server.states("m")[1][1])
            self.put("m/2", PLUS_2)
            wait_for(lambda: server.state("m", 2) == "AVAILABLE", "another version")

    def test_a_folder_of_models_is_watched(self):
        self.put("models/a/1")
        with Server(f"--models={self.path('models')}") as server:
            self.put("models/b/5", PLUS_3)
            wait_for(lambda: server.state("b", 5) == "AVAILABLE", "a new model")
            shutil.rmtree(self.path("models", "a"))
            wait_for(lambda: server.state("a", 1) == "END", "a model that went")
            status, body = server.post("/v1/models/a:predict", {"instances": [1.0]})
            self.assertEqual(status, 404)
            self.assertIn("Servable not found for request: Latest(a)", body.decode())


class Configuration(Case):
    def config(self, policy="", labels=""):
        return self.write("models.config", "model_config_list { config { name: 'm', base_path: "
                          f"'{self.path('m')}', model_platform: 'tensorflow', {policy} {labels} }} }}")

    def test_policies_and_labels(self):
        self.put("m/1", PLUS_3)
        self.put("m/2", PLUS_2)
        file = self.config("model_version_policy { all {} }",
                           "version_labels { key: 'stable' value: 1 }")
        with Server(f"--model_config_file={file}", "--model_config_file_poll_wait_seconds=1",
                    "--allow_version_labels_for_unavailable_models") as server:
            wait_for(lambda: server.state("m", 1) == server.state("m", 2) == "AVAILABLE",
                     "both versions")
            self.assertEqual(server.predict("m", [1.0], "/labels/stable"), [3.5])
            self.assertEqual(server.predict("m", [1.0], "/versions/1"), [3.5])
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            self.config("model_version_policy { all {} }",
                        "version_labels { key: 'stable' value: 2 }")
            wait_for(lambda: server.predict("m", [1.0], "/labels/stable") == [2.5],
                     "the label to move")
            self.config("model_version_policy { specific { versions: 1 } }")
            wait_for(lambda: server.state("m", 2) == "END", "the policy to change")
            self.assertEqual(server.predict("m", [1.0]), [3.5])
            self.write("models.config", "model_config_list { nonsense }")
            wait_for(lambda: "is ignored" in server.log(), "the file to be read")
            self.assertEqual(server.predict("m", [1.0]), [3.5])

    def test_one_bad_model_holds_no_other(self):
        self.put("models/good/1")
        os.makedirs(self.path("models", "empty"))
        os.makedirs(self.path("models", "torn", "1"))
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=1") as server:
            self.assertEqual(server.predict("good", [1.0]), [2.5])
            wait_for(lambda: server.state("torn", 1) == "END", "the torn version's error")


class AsTensorflow(Case):
    def test_ports_open_when_models_are_there(self):
        self.put("m/1")
        with Server("--model_name=m", f"--model_base_path={self.path('m')}",
                    as_tensorflow=True, wait=False) as server:
            def connected():
                socket.create_connection(("127.0.0.1", server.rest_port), 1).close()
                return True

            wait_for(connected, "the port")
            self.assertEqual(server.predict("m", [1.0]), [2.5])
            for line in ("Running gRPC ModelServer at 0.0.0.0:", "NET_LOG: Entering the event loop ...",
                         f"Exporting HTTP/REST API at:localhost:{server.rest_port} ..."):
                wait_for(lambda line=line: line in server.log(), line)

    def test_what_keeps_the_ports_closed_is_told(self):
        self.put("good/1")
        self.write("models.config", "model_config_list { " + " ".join(
            f"config {{ name: '{name}' base_path: '{self.path(name)}' model_platform: 'tensorflow' }}"
            for name in ("good", "none")) + " }")
        os.makedirs(self.path("none"))
        waits = (f"the ports stay closed until every model serves; waiting for none (no version under {self.path('none')}); "
                 "for at most 300 s while none is loaded (--model_wait_seconds)")
        with Server(f"--model_config_file={self.path('models.config')}", as_tensorflow=True, wait=False) as server:
            wait_for(lambda: waits in server.log(), "the log to say what is waited for", 14)
            self.assertLessEqual(server.log().count("the ports stay closed"), 2)
            self.put("none/1")
            wait_for(server.is_ready, "the ports")
        with Server(f"--model_config_file={self.path('models.config')}", as_tensorflow=True) as server:
            self.assertNotIn(waits, server.log())

    def test_a_model_without_a_version_holds_readiness_for_its_time(self):
        """Checks the behaviour that the help text of --model_wait_seconds describes."""
        os.makedirs(self.path("models", "none"))
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=1", wait=False) as server:
            wait_for(lambda: server.get("/healthz")[0] == 200, "the port")
            time.sleep(2)
            # The server is not ready, since no model is served yet.
            for path in ("/readyz", "/v2/health/ready"):
                status, body = server.get(path)
                self.assertEqual(status, 503)
                self.assertIn(b"the server is not ready: none of 1 model is available; GET /v1/models/MODEL", body)
        self.put("models/good/1")
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=0", wait=False) as server:
            wait_for(lambda: server.get("/readyz/good")[0] == 200, "the model")
            time.sleep(1)
            status, body = server.get("/readyz")
            self.assertEqual((status, b"it waits for 1 of 2 models; " in body), (503, True), body)
            self.put("models/none/1")
            wait_for(server.is_ready, "the server")
        shutil.rmtree(self.path("models", "none", "1"))
        start = time.monotonic()
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=2") as server:
            self.assertGreaterEqual(time.monotonic() - start, 2)
            self.assertEqual(server.get("/readyz/none")[0], 503)

    def test_the_health_check_of_a_server_without_rest_asks_by_grpc(self):
        os.makedirs(self.path("models", "late"))
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=0", "--rest_api_port=0", wait=False) as server:
            def health():
                return command("health", "--rest_api_port=0", f"--port={server.grpc_port}")

            not_serving = f"port {server.grpc_port}: grpc.health.v1.Health says that it is not serving\n"
            wait_for(lambda: health() == (1, "", not_serving), lambda: f"the port: {health()}")
            self.put("models/late/1")
            wait_for(lambda: health() == (0, "ready\n", ""), lambda: f"the model: {health()}")

    def test_a_model_that_fails_ends_the_start(self):
        os.makedirs(self.path("m", "1"))
        with Server("--model_name=m", f"--model_base_path={self.path('m')}",
                    "--max_num_load_retries=0", as_tensorflow=True, wait=False) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            self.assertIn("Failed to start server. Error: UNKNOWN: 1 servable(s) did not become "
                          "available: {{{name: m version: 1} due to error: ", server.out())

    def test_flags_are_read_as_there(self):
        with Server("--nonsense=1", as_tensorflow=True, wait=False) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            self.assertIn("unknown argument: --nonsense=1", server.out())
            self.assertIn("Failed to start server. Error: ", server.out())
        with Server("--enable_batching=1", as_tensorflow=True, wait=False) as server:
            self.assertEqual(server.process.wait(20 * SLOW), 255)
            self.assertIn("usage: tensorflow_model_server", server.out())

    def test_the_usage_text_is_not_torn_by_the_log(self):
        self.put("m/1")
        link, both = self.path("tensorflow_model_server"), self.path("both")
        os.symlink(support.binary(), link)
        grpc_port, rest_port = support.free_ports(2)
        with open(both, "w", encoding="utf-8") as file, subprocess.Popen(
                [link, "--nonsense=1", f"--model_base_path={self.path('m')}", f"--port={grpc_port}",
                 f"--rest_api_port={rest_port}", "--bind_address=127.0.0.1", *support.EXTRA_FLAGS],
                stdout=file, stderr=subprocess.STDOUT) as process:
            read = lambda: open(both, encoding="utf-8").read()
            wait_for(lambda: "Exporting HTTP/REST API" in read(), read)
            process.terminate()
        usage = [line for line in read().splitlines() if line.startswith("\t--")]
        self.assertGreater(len(usage), 90)
        self.assertLess(read().index(usage[-1]), read().index("Z INFO "))


class Stopping(Case):
    def test_sigterm_drains_and_ends_with_0(self):
        with Server(f"--models={MODELS}", "--drain_delay_ms=8000") as server:
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: server.get("/readyz")[0] == 503, "readyz to say so")
            self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])
            self.assertEqual(server.process.wait(40 * SLOW), 0)
            self.assertIn("stopped", server.log())

    def test_sigterm_ends_a_load(self):
        small_models.write_endless(self.path("m/1"))
        with Server("--model_name=m", f"--model_base_path={self.path('m')}", wait=False) as server:
            wait_for(lambda: server.state("m", 1) == "LOADING", "the load")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(10 * SLOW), 0)
            self.assertNotIn("did not end in time", server.log())

    def test_a_second_signal_ends_it_at_once(self):
        with Server(f"--models={MODELS}", "--drain_delay_ms=60000") as server:
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: server.get("/readyz")[0] == 503, "readyz to say so")
            # A signal after 0.2 s is a second request to stop, but signals within 0.1 s of the first are ignored.
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            self.assertNotEqual(server.process.wait(30 * SLOW), 0)

    def test_signals_in_quick_succession_are_one_stop(self):
        with Server(f"--models={MODELS}", "--drain_delay_ms=1000") as server:
            for sent in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                server.process.send_signal(sent)
            self.assertEqual(server.process.wait(30 * SLOW), 0)
            self.assertIn("stopped", server.log())

    def test_a_port_in_use_is_named(self):
        with Server(f"--models={MODELS}") as server:
            done = subprocess.run(
                [support.binary(), "serve", f"--models={MODELS}",
                 f"--rest_api_port={server.rest_port}", "--port=0"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30 * SLOW,
                check=False)
            self.assertEqual(done.returncode, 255)
            self.assertIn(str(server.rest_port), done.stdout)

    def test_it_says_where_it_serves_and_what_to_try(self):
        with Server(f"--models={MODELS}") as server:
            out = wait_for(lambda: "curl" in server.out() and server.out(), "the hint")
            self.assertIn(f"127.0.0.1:{server.rest_port}", out)
            line = next(text for text in out.splitlines() if "curl" in text)
            done = subprocess.run(line, shell=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False)
            self.assertIn("predictions", done.stdout)


class Commands(Case):
    def test_help_and_version(self):
        for args in (["--help"], ["serve", "--help"], ["inspect", "--help"], ["run", "--help"]):
            code, out, _ = command(*args)
            self.assertEqual((args, code), (args, 0))
            self.assertIn("usage: slipway", out)
        self.assertEqual(command("help"), command("--help"))
        self.assertEqual(command("help", "predict"), command("predict", "--help"))
        for args in (["--version"], ["inspect", "--version"], ["run", "--version"]):
            self.assertIn("slipway ", command(*args)[1])
        self.assertIn("TensorFlow ModelServer: ", command("serve", "--version")[1])

    def test_the_list_of_flags_in_the_tree_is_the_programs_own(self):
        with open(os.path.join(ROOT, "FLAGS.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), command("serve", "--help=markdown")[1])

    def test_inspect(self):
        code, out, _ = command("inspect", os.path.join(MODELS, "half_plus_two"), "--json")
        self.assertEqual(code, 0)
        found = json.loads(out)
        self.assertEqual(found["tag_sets"], [["serve"]])
        signature = found["signatures"]["serving_default"]
        self.assertEqual(signature["inputs"]["x"],
                         {"dtype": "DT_FLOAT", "shape": [-1, 1], "name": "x:0"})
        self.assertEqual(signature["batching"]["verdict"], "yes")
        self.assertEqual(found["ops"]["VariableV2"], 2)
        self.assertEqual([v["name"] for v in found["variables"]], ["a", "b"])
        self.assertEqual(found["unsupported"], [])
        code, out, _ = command("inspect", os.path.join(MODELS, "counter"))
        self.assertEqual(code, 0)
        self.assertIn("batching: no, it ", out)
        model = os.path.join(MODELS, "half_plus_two")
        out = command("inspect", model)[1]
        self.assertIn("  2 tensors in the checkpoint, 8 bytes (--variables lists them)\n", out)
        self.assertNotIn("    a: DT_FLOAT", out)
        out = command("inspect", model, "--variables")[1]
        self.assertIn("  2 tensors in the checkpoint, 8 bytes\n    a: DT_FLOAT [], 4 bytes\n    b: ", out)
        self.assertEqual(command("inspect", self.folder)[0], 1)

    def test_names_in_a_model_cannot_control_the_terminal(self):
        name = "s\x1b[2J\nev\u202eilXX"
        shown = "s\\x1b[2J\\nev\\xe2\\x80\\xaeilXX"
        self.put("hostile/1")
        file = self.path("hostile", "1", "saved_model.pb")
        with open(file, "rb") as f:
            model = f.read()
        self.assertIn(b"serving_default", model)
        with open(file, "wb") as f:
            f.write(model.replace(b"serving_default", name.encode()))
        folder = self.path("hostile", "1")
        for args in (["inspect", folder], ["inspect", folder, "--plan", "--signature", name], ["run", folder, "--bench"],
                     ["run", folder, "--profile", "--runs=1", "--signature", name],
                     ["inspect", folder, "--dump_passes=emit"], ["inspect", folder, "--plan", "--signature", "other"]):
            _, out, err = command(*args)
            self.assertNotRegex(out + err, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", args)
        self.assertIn(f"  signature {shown} (", command("inspect", folder)[1])
        self.assertIn(f", {shown}\n", command("inspect", folder, "--plan", "--signature", name)[1])
        out = command("inspect", folder, "--json")[1]
        self.assertTrue(out.isascii())
        self.assertIn(name, json.loads(out)["signatures"])

    def test_what_is_not_there_is_named(self):
        code, _, err = command("frob", "x")
        self.assertEqual(code, 2)
        self.assertTrue(err.startswith("slipway: there is no command frob, only those below\nusage: "), err)
        model = os.path.join(MODELS, "half_plus_two", "1")
        code, _, err = command("inspect", model, "--tags", "gpu,serve")
        self.assertEqual(code, 1)
        self.assertIn("has no graph with the tag set gpu,serve; there is: serve\n", err)
        file = os.path.join(model, "saved_model.pb")
        code, _, err = command("inspect", file)
        self.assertEqual(code, 1)
        self.assertIn(f"{file} is not a directory: give a version's directory", err)
        empty = self.path("empty", "1", "saved_model.pb")
        os.makedirs(os.path.dirname(empty))
        with open(empty, "wb"):
            pass
        for args in (["inspect", self.path("empty")], ["inspect", os.path.dirname(empty)],
                     ["run", self.path("empty"), "--bench"]):
            code, _, err = command(*args)
            self.assertEqual(code, 1)
            self.assertIn(f"{empty} is empty\n", err)

    def test_a_folder_of_versions_is_not_one_of_models(self):
        self.put("m/1")
        with Server(f"--models={self.path('m')}", wait=False) as server:
            wait_for(lambda: f"here {self.folder}; for this model alone give "
                             f"--model_base_path={self.path('m')}" in server.log(), "the hint")

    def test_profile(self):
        model = os.path.join(MODELS, "digits")
        trace = self.path("trace.json")
        with subprocess.Popen([support.binary(), "run", model, "--profile", "--runs=1", f"--profile_trace={trace}"],
                              stdout=subprocess.PIPE) as p:
            p.stdout.close()
        self.assertTrue(os.path.exists(trace))
        os.unlink(trace)
        code, out, _ = command("run", model, "--profile", "--runs=3", "--batch=2", f"--profile_trace={trace}")
        self.assertEqual(code, 0)
        self.assertIn("conv2d.", out)
        self.assertIn("GFLOP/s", out)
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertIn("Softmax", [e["cat"] for e in events])
        for e in events:
            self.assertEqual(e["ph"], "X")
            self.assertGreaterEqual(e["ts"], 0)
            self.assertGreaterEqual(e["dur"], 0)
        code, out, _ = command("run", model, "--profile", "--runs=2", "--batch=2", "--json", "--fusion=off", "--profile_clock=cpu")
        self.assertEqual(code, 0)
        found = json.loads(out)
        self.assertEqual(sorted(n["op"] for n in found["nodes"]).count("Conv2D"), 2)
        self.assertAlmostEqual(sum(o["share"] for o in found["ops"]), 1)
        self.assertAlmostEqual(sum(o["ms"] for o in found["ops"]), found["nodes_ms"])
        self.assertLessEqual(found["nodes_ms"], found["run_ms"])
        self.assertGreater(found["activation_bytes"], 0)
        first = next(n for n in found["nodes"] if n["shapes"].startswith("float[2,8,8,1] float[3,3,1,16]"))
        # Each output element is a sum of nine terms, each with a multiplication and an addition.
        self.assertEqual(first["flops"], 2 * (2 * 8 * 8 * 16) * 9)
        self.assertEqual(first["bytes"], 4 * (2 * 64 + 9 * 16 + 2 * 64 * 16))
        self.assertEqual(found["flops"], sum(n["flops"] for n in found["nodes"]))
        code, _, err = command("run", model, "--profile", "--bench")
        self.assertEqual(code, 2)
        code, _, err = command("run", model, "--profile", "--runs=1", f"--profile_trace={self.folder}/no/file")
        self.assertEqual(code, 1)
        self.assertIn("no/file: No such file or directory", err)

    def test_compare(self):
        model = os.path.join(MODELS, "digits")
        for precision in "float32", "bf16":
            code, out, err = command("run", model, "--compare", f"--precision={precision}", "--batch=3")
            self.assertEqual(code, 0)
            told, head = out.splitlines()[:2]
            line = out.splitlines()[-1].split()
            # Whether the server reported that the processor lacks bfloat16 instructions.
            has_none = "no bfloat16 instructions" in err
            self.assertEqual(told, f"precision: {precision}" + has_none * (
                " in matrices of over 8 M weights, float32 elsewhere"))
            self.assertEqual(err.count("warning"), int(has_none))
            self.assertFalse(has_none and precision == "float32")
            self.assertTrue(head.startswith("output ") and head.endswith("same argmax"), head)
            self.assertEqual(line[1:3], ["float", "[3,10]"])
            self.assertLess(float(line[5]), 1e-5 if precision == "float32" else 0.05)  # largest relative difference
            self.assertEqual(line[-1], "3")
        code, out, _ = command("run", model, "--compare", "--batch=3", "--json")
        self.assertEqual((code, [row["shape"] for row in json.loads(out)]), (0, [[3, 10]]))
        code, _, err = command("run", model, "--compare", "--precision=int8")
        self.assertEqual(code, 2)
        self.assertIn("--precision cannot be int8", err)

    def test_the_passes_are_told(self):
        model = os.path.join(MODELS, "digits")
        code, out, err = command("inspect", model, "--dump_passes")
        self.assertEqual((code, err), (0, ""))
        told = re.findall(r"^after (\S+): (\d+) nodes, (loading|serving), depth \d+, roots .*$", out, flags=re.M)
        names = [name for name, _, _ in told]
        self.assertEqual(names[0], "extract")
        self.assertLess(names.index("inline"), names.index("freeze"))
        self.assertLess(names.index("freeze"), names.index("fuse-epilogues"))
        self.assertEqual({state for _, _, state in told}, {"loading", "serving"})
        # Each dump has as many nodes as its header states, each with index, name, op, inputs and types.
        parts = re.split(r"^after .*\n", out, flags=re.M)[1:]
        self.assertEqual([len(part.splitlines()) for part in parts], [int(n) for _, n, _ in told])
        for line in parts[-1].splitlines():
            self.assertRegex(line, r"^ *\d+ \S*: \S+( variable\))?\((\^?\d+(:\d+)?(, )?)*\)( -> \w+.*)?$")
        code, one, _ = command("inspect", model, "--dump_passes=fuse-epilogues")
        self.assertEqual(code, 0)
        self.assertEqual(set(re.findall(r"^after (\S+):", one, flags=re.M)), {"fuse-epilogues"})
        self.assertRegex(one, r"\n +\d+ \S+: Conv2D\(\d+:0, \d+:0, \d+:0\) -> float\n")
        code, _, err = command("inspect", model, "--dump_passes=frob")
        self.assertEqual(code, 2)
        self.assertIn("there is no pass 'frob'; there are: extract inline resolve", err)

    def test_the_plan_is_told(self):
        model = os.path.join(MODELS, "digits")
        code, out, _ = command("inspect", model, "--plan", "--batch=2")
        self.assertEqual(code, 0)
        self.assertIn("input pixels: float[2,8,8,1]\n", out)
        self.assertIn("(add)", out)
        self.assertNotIn("; 0.0", out)
        self.assertRegex(out, r"[1-9][0-9.]* [GMk]?FLOP\n")
        for told, others in re.findall(r"by timing at \[[0-9,]+\]: (.*?); not ([\w. ]+)", out):
            self.assertFalse(set(told.split()) & set(others.split()), told)
        total, *parts = (int(n) for n in re.search(r"(\d+) nodes: (\d+) that runs?, (\d+) inputs?, (\d+) constants? "
                                                   r"\(.*\), (\d+) views?, (\d+) known", out).groups())
        self.assertEqual(total, sum(parts))
        self.assertRegex(out, r"\n  Conv2D \[.*relu\]  functional_1/conv2d_1/convolution\n +kernel conv2d\.")
        self.assertRegex(out, r"\n +to   float\[2,8,8,16\] activation at \d+\n")
        code, out, _ = command("inspect", "--plan", model, "--batch=2", "--fusion=off", "--json")
        self.assertEqual(code, 0)
        plan = json.loads(out)
        self.assertEqual(plan["segments"], 1)
        runs = [n for n in plan["nodes"] if n["runs"]]
        self.assertIn("BiasAdd", [n["op"] for n in runs])
        conv = next(n for n in runs if n["op"] == "Conv2D")
        self.assertEqual(conv["outputs"][0]["shape"], [2, 8, 8, 16])
        self.assertEqual(conv["inputs"][1]["where"], "constant")
        self.assertTrue(conv["kernel"].startswith("conv2d."), conv)
        for n in runs:
            for value in n["outputs"]:
                if value["where"] in ("activation", "in place"):
                    self.assertLess(value["offset"], plan["activation_bytes"])
        code, out, _ = command("inspect", "--plan", model, "--specialise=off", "--json")
        plan = json.loads(out)
        self.assertEqual((code, plan["segments"], plan["activation_bytes"]), (0, 0, 0))
        self.assertTrue(all(n["kernel"] for n in plan["nodes"] if n["op"] == "Conv2D"))
        self.assertFalse([n for n in plan["nodes"] for v in n["inputs"] if v["dtype"] == "invalid"])
        self.assertEqual(command("inspect", "--plan", "--help")[0], 0)
        code, _, err = command("inspect", "--plan", model, "--shape", "pixels=3x3x1")
        self.assertEqual(code, 1)
        self.assertIn("slipway inspect: ", err)

    def test_an_endless_model_is_given_up_after_the_time_limit(self):
        loop, init = self.path("loop"), self.path("init")
        small_models.write_endless(os.path.join(loop, "1"))
        small_models.write_endless_init(os.path.join(init, "1"))
        late = "a run of the signature did not end within 1 s (--timeout)\n"
        code, out, err = command("inspect", loop, "--plan", "--timeout=1")
        self.assertEqual((code, err), (1, "slipway inspect: DEADLINE_EXCEEDED: the plan shows what was known when it was "
                                       "cut off: " + late))
        self.assertIn("\n  While  ", out)
        code, out, err = command("inspect", loop, "--plan", "--timeout=1", "--json")
        self.assertEqual((code, len([n for n in json.loads(out)["nodes"] if n["op"] == "While"])), (1, 1), err)
        for mode in (["--bench"], ["--profile"], ["--compare"],
                     ["--inputs", self.write("inputs", '{"instances": [1]}')]):
            code, out, err = command("run", loop, "--timeout=1", *mode)
            self.assertEqual((code, out, err), (1, "", "slipway run: DEADLINE_EXCEEDED: " + late), mode)
        late = "loading was given up after 1 s (--timeout)"
        code, out, err = command("inspect", init, "--timeout=1")
        self.assertEqual(code, 1)
        self.assertIn("AssignVariableOp x1", out)
        self.assertIn(f"\n  does not load: {late}\n", out)
        self.assertEqual(command("inspect", init, "--plan", "--timeout=1"),
                         (1, "", f"slipway inspect: DEADLINE_EXCEEDED: {late}\n"))
        self.assertEqual(command("run", init, "--bench", "--timeout=1"),
                         (1, "", f"slipway run: DEADLINE_EXCEEDED: {late}\n"))

    def test_a_search_of_many_signatures_is_given_up_after_the_time_limit(self):
        # The search of all signatures would take several seconds, because every node is visited for every signature.
        n_nodes, n_signatures = 5000, 4000

        def build(graph):
            graph.placeholder("x", "float")
            for i in range(n_nodes):
                graph.node(f"n{i}", "Tanh", f"n{i - 1}" if i else "x", T="float")

        io = {"x": ("x", "float")}, {"y": (f"n{n_nodes - 1}", "float")}
        small_models.write(self.path("m/1"), {f"s{i}": io for i in range(n_signatures)}, build)
        code, out, _ = command("inspect", self.path("m"), "--timeout=1")
        self.assertEqual(code, 1)
        self.assertIn("  not all signatures were searched for ops that cannot run (--timeout)\n", out)
        self.assertNotIn("everything that is needed can run", out)
        self.assertIn("\n  does not load: loading was given up after 1 s (--timeout)\n", out)

    def test_a_large_file_is_given_up_after_the_time_limit(self):
        # The file has millions of fields that TensorFlow does not define. Reading them takes a second.
        os.makedirs(self.path("m/1"))
        with open(self.path("m/1/saved_model.pb"), "wb") as file:
            file.write(b"\x48\x01" * (50 << 20))
        self.assertEqual(command("inspect", self.path("m"), "--timeout=0.1"),
                         (1, "", f"slipway inspect: DEADLINE_EXCEEDED: {self.path('m/1/saved_model.pb')}: reading the "
                                 "graph was given up after 0.1 s (--timeout)\n"))

    def test_a_signal_ends_a_command(self):
        small_models.write_endless(self.path("loop/1"))
        os.mkfifo(self.path("fifo"))
        for words in (["inspect", self.path("loop"), "--plan"], ["run", self.path("loop"), "--bench"],
                      ["run", self.path("loop"), "--inputs", self.path("fifo")]):
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell starts background jobs with SIGINT ignored, and their children inherit that.
                with subprocess.Popen([support.binary(), *words], stdout=subprocess.DEVNULL,
                                      preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
                    time.sleep(0.5)
                    process.send_signal(number)
                    self.assertEqual(process.wait(10 * SLOW), -number, words)

    def test_run(self):
        model = os.path.join(MODELS, "half_plus_two")
        code, out, _ = command("run", model, "--inputs", "-",
                               text_in='{"instances": [1.0, 2.0, 5.0]}')
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(out), {"predictions": [2.5, 3.0, 4.5]})
        code, out, _ = command("run", os.path.join(model, "1"), "--inputs", "-",
                               text_in='{"inputs": 2.0}')
        self.assertEqual(json.loads(out), {"outputs": 4.0})
        code, out, _ = command("run", model, "--bench", "--batch", "4", "--callers=2",
                               "--threads=2", "--seconds=0.25", "--json")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(json.loads(out)), ["cpu_ms", "load_s", "median_ms", "p99_ms", "runs", "runs_per_s"])
        code, out, _ = command("run", model, "--bench", "--on_line", "--json", text_in="1\n2\n")
        self.assertEqual((code, len(out.splitlines())), (0, 2))
        code, _, err = command("run", model, "--bench", "--on_line", text_in="soon\n")
        self.assertEqual(code, 1)
        self.assertIn("--on_line: not milliseconds: soon", err)
        code, _, err = command("run", model, "--signature", "none", "--inputs", "-",
                               text_in='{"inputs": 2.0}')
        self.assertEqual(code, 1)
        self.assertRegex(err, 'there is no signature "none"; there is: .*serving_default')
        code, _, err = command("run", self.path("nowhere"), "--bench")
        self.assertEqual(code, 1)
        self.assertIn(f"there is no folder {self.path('nowhere')}\n", err)

    def test_a_usage_error_names_the_wrong_word_and_what_is_taken(self):
        model = os.path.join(MODELS, "half_plus_two")
        for status, said, *arguments in (
                (2, "slipway: a command is wanted"),
                (2, "slipway: there is no command frob, only those below", "frob"),
                (255, "unknown argument: frob: only flags are taken, and slipway serve --help lists them", "serve", "frob"),
                (255, "unknown argument: --frob: only flags are taken, and slipway serve --help lists them", "serve", "--frob"),
                (255, "Couldn't interpret value x for flag precision.", "serve", "--precision=x"),
                (2, "slipway health: cannot use argument frob: it takes the flags below", "health", "frob"),
                (2, "slipway health: cannot use argument --port=x: it takes the flags below", "health", "--port=x"),
                (2, "slipway health: cannot use argument --portal=1: it takes the flags below", "health", "--portal=1"),
                (2, "unknown argument: b: only flags are taken, and slipway serve --help lists them", "check-config", "a", "b"),
                (2, "slipway check-config: there is no kind foo, only those below", "check-config", "--kind=foo", "x"),
                (2, "slipway run: cannot use argument --frob: it takes one DIR and flags", "run", model, "--frob"),
                (2, "slipway run: cannot use argument b: it takes one DIR and flags", "run", model, "b"),
                (2, "slipway inspect: cannot use argument --frob: it takes one DIR, --json, --variables, --tags, "
                 "--timeout, --plan or --dump_passes",
                 "inspect", model, "--frob"),
                (2, "slipway predict: no MODEL is given", "predict"),
                (2, "slipway predict: --timeout cannot be x: it is a number of at least 0", "predict", "m", "--timeout=x"),
                (2, "slipway predict: a value is wanted behind --server: URL", "predict", "m", "--server"),
                (2, "slipway metadata: no MODEL is given", "metadata"),
                (2, "slipway metadata: cannot use argument b: it takes MODEL [flags]", "metadata", "a", "b"),
                (2, "slipway metadata: --json cannot be x: it is true or false", "metadata", "a", "--json=x"),
                (2, "slipway reload: no FILE is given", "reload"),
                (2, "slipway reload: INVALID_ARGUMENT: reloading is done by gRPC, not REST", "reload", "f", "--server", "http://x"),
                (2, "slipway status: INVALID_ARGUMENT: --model_version 1 and --label a: only one of them says the version",
                 "status", "m", "--model_version=1", "--label=a"),
                (2, "slipway predict: INVALID_ARGUMENT: --record goes over gRPC", "predict", "m", "1", "--record", "r",
                 "--server", "http://x"),
                (2, "slipway predict: INVALID_ARGUMENT: --input x: ALIAS=FILE is wanted", "predict", "m", "--input", "x"),
                (2, "slipway bench: INVALID_ARGUMENT: a model is wanted, or --replay FILE", "bench"),
                (2, "slipway bench: INVALID_ARGUMENT: --replay names its models itself", "bench", "m", "--replay", "r"),
                (2, "slipway bench: --requests cannot be 0: it is a whole number of at least 1", "bench", "m", "--requests", "0")):
            with self.subTest(arguments=arguments):
                code, out, err = command(*arguments)
                self.assertEqual((code, (out + err).splitlines()[0]), (status, said))
        for verb in ("predict", "status", "metadata", "reload", "bench"):
            code, _, err = command(verb, "m", "--frob")
            self.assertEqual(code, 2)
            self.assertRegex(err, rf"^slipway {verb}: unknown flag --frob; there are .*--server, .*--help\nusage: ")

    def test_the_exit_status_is_0_or_1_for_what_was_asked(self):
        model, nowhere = os.path.join(MODELS, "half_plus_two"), self.path("nowhere")
        for words in (["--help"], ["--version"], ["inspect", model], ["run", model, "--inputs", self.write("x", '{"instances": [1]}')],
                      ["check-config", f"--models={MODELS}"],
                      *([verb, "--help"] for verb in ("serve", "health", "inspect", "run", "check-config", "predict",
                                                      "status", "metadata", "reload", "bench"))):
            self.assertEqual(command(*words)[0], 0, words)
        for words in (["inspect", nowhere], ["run", nowhere, "--bench"], ["run", model, "--inputs", nowhere],
                      ["check-config", nowhere]):
            self.assertEqual(command(*words)[0], 1, words)
        with Server(f"--models={MODELS}") as server:
            ports = [f"--rest_api_port={server.rest_port}", f"--port={server.grpc_port}"]
            at = ["--server", f"grpc://127.0.0.1:{server.grpc_port}"]
            rest = ["--server", f"http://127.0.0.1:{server.rest_port}"]
            good = (["predict", "half_plus_two", "[1]"], ["metadata", "half_plus_two"], ["status", "half_plus_two"],
                    ["bench", "half_plus_two", "--requests=3"])
            self.assertEqual(command("health", *ports)[0], 0)
            for words in good:
                self.assertEqual(command(*words, *at)[0], 0, words)
                self.assertEqual(command(*words, *rest)[0], 0, words)
            for words in (["predict", "nope", "[1]"], ["predict", "half_plus_two", '["a"]'], ["metadata", "nope"],
                          ["status", "nope"], ["bench", "nope"], ["reload", nowhere]):
                self.assertEqual(command(*words, *at)[0], 1, words)
        self.assertEqual(command("health", *ports)[0], 1)
        for words in good:
            self.assertEqual(command(*words, *at)[0], 1, words)

    def test_run_needs_no_inputs_for_a_signature_without_inputs(self):
        counter = os.path.join(MODELS, "counter")
        code, out, err = command("run", counter, "--signature", "incr")
        self.assertEqual((code, json.loads(out), err), (0, {"outputs": 1.0}, ""))
        said = "slipway run: INVALID_ARGUMENT: signature \"incr_by\" has inputs: --inputs FILE.json, --bench, " \
               "--profile or --compare is needed\n"
        self.assertEqual(command("run", counter, "--signature=incr_by"), (1, "", said))

    def test_flags_that_do_not_apply_are_refused_in_two_lines(self):
        model = os.path.join(MODELS, "half_plus_two")
        for args, said in ((["--bench", "--runs", "3"], "--runs has no meaning with --bench"),
                           (["--profile", "--callers=2"], "--callers has no meaning with --profile"),
                           (["--profile", "--seconds=2"], "--seconds has no meaning with --profile"),
                           (["--inputs=-", "--batch=2"], "--batch is for random inputs, and --inputs gives them"),
                           (["--bench", "--profile"], "one of --bench, --profile and --compare at a time"),
                           (["--bench", "--batch=0"], "--batch cannot be 0: it is a number from 1 to 2147483647"),
                           (["--bench", "--seconds=0"], "--seconds cannot be 0: it is a number from 0.001 to 3600"),
                           (["--bench", "--precision", "bf17"], "--precision cannot be bf17: it is float32 or bf16")):
            code, _, err = command("run", model, *args)
            self.assertEqual((code, err), (2, f"slipway run: {said}\nslipway run --help says more\n"))
        code, _, err = command("inspect", model, "--plan", "--seconds=2")
        self.assertEqual((code, err), (2, "slipway inspect: --seconds has no meaning with --plan\n"
                                          "slipway inspect --plan --help says more\n"))
