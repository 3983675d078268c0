"""Tests version directories that contain links or too many files, or that never stop changing. Usable versions are served,
and unusable versions are refused with the reason. Neither delays other models."""
import contextlib
import glob
import json
import os
import re
import shutil
import threading
import time

import records
import small_models
from test_warmup import FILE as WARM_UP
from support import SLOW, Case, Server, wait_for

PLUS_3, PLUS_2 = "half_plus_two/1", "half_plus_two/2"
COSTLY = int(5000000 / SLOW ** 2)  # number of steps of a costly load, which sanitizers make much slower


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def thread_seconds(pid):
    """Returns the processor time of the threads of a process, by name."""
    used = {}
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            with open(path, encoding="ascii") as file:
                name, fields = file.read().split("(", 1)[1].rsplit(")", 1)
            fields = fields.split()
            used[name] = used.get(name, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


class BadTrees(Case):
    def serve(self, *flags):
        """Adds the valid model "good", and serves every directory below models/."""
        self.put("models/good/1")
        return Server(f"--models={self.path('models')}", *flags)

    def refused(self, server, model, words):
        wait_for(lambda: server.state(model, 1) == "END", f"{model}'s refusal", 30 * SLOW)
        self.assertIn(words, server.states(model)[1][1])
        self.assertIn(f"{{name: {model} version: 1}} cannot be loaded: ", server.log())
        self.assertIn(words, server.log())
        self.assertEqual(server.get("/readyz")[0], 200)
        self.assertEqual(server.predict("good", [1.0]), [2.5])

    def test_links_to_directories_hold_no_version(self):
        targets = {"self": ".", "above": "..", "root": "/", "far": "../../..", "loop": "loop",
                   "nothing": "nowhere"}
        for model, target in targets.items():
            self.put(f"models/{model}/1", PLUS_3)
            os.symlink(target, self.path("models", model, "1", "loop"))
        self.put("models/chain/1", PLUS_3)
        for i in range(45):
            os.symlink(f"link{i - 1}" if i else ".",
                       self.path("models", "chain", "1", f"link{i}"))
        with self.serve() as server:
            for model in [*targets, "chain"]:
                wait_for(lambda m=model: server.state(m, 1) == "AVAILABLE", model, 30 * SLOW)
                self.assertEqual(server.predict(model, [1.0]), [3.5])
            self.assertEqual(server.get("/readyz")[0], 200)

    def test_files_behind_kubernetes_links_are_served(self):
        """A version's directory may be a Kubernetes ConfigMap, in which ..data is a link to a directory and is later
        replaced by a link to another directory."""
        for name, source in (("..2024", PLUS_3), ("..2025", PLUS_2)):
            self.put(f"models/m/.new/{name}", source)
        os.symlink("..2024", self.path("models/m/.new/..data"))
        for name in ("saved_model.pb", "variables"):
            os.symlink(f"..data/{name}", self.path("models/m/.new", name))
        os.rename(self.path("models/m/.new"), self.path("models/m/1"))
        with self.serve() as server:
            wait_for(lambda: server.state("m", 1) == "AVAILABLE", "the version")
            self.assertEqual(server.predict("m", [1.0]), [3.5])
            os.symlink("..2025", self.path("models/m/1/..tmp"))
            os.rename(self.path("models/m/1/..tmp"), self.path("models/m/1/..data"))
            wait_for(lambda: "was changed while it is being served" in server.log(), "the change")

    def test_a_tree_that_is_too_deep_is_refused_until_it_is_mended(self):
        self.put("models/deep/1", PLUS_3)
        os.makedirs(self.path("models/deep/1", *["d"] * 40))
        with self.serve("--model_wait_seconds=2") as server:
            self.refused(server, "deep", "deeper than 16 directories")
            shutil.rmtree(self.path("models/deep/1/d"))
            wait_for(lambda: server.state("deep", 1) == "AVAILABLE", "another try")

    def test_a_name_that_is_not_utf_8_leaves_the_status_readable(self):
        self.put("models/half/1")
        with self.serve("--max_num_load_retries=0") as server:
            os.makedirs(os.fsencode(self.path("models", "half", "2")) + b"/\xff\xfe" * 40)
            wait_for(lambda: server.state("half", 2) == "END", "the refusal", 30 * SLOW)
            status, body = server.get("/v1/models/half")
        states = {v["version"]: v for v in json.loads(body)["model_version_status"]}
        self.assertEqual((status, states["1"]["state"]), (200, "AVAILABLE"))
        self.assertIn("\ufffd\ufffd/\ufffd\ufffd", states["2"]["status"]["error_message"])

    def test_a_file_may_claim_any_time(self):
        self.put("models/half/1")
        os.utime(self.path("models", "half", "1", "saved_model.pb"), (2**33 * 1.75, 2**33 * 1.75))
        with self.serve() as server:
            self.assertEqual(server.state("half", 1), "AVAILABLE")

    def test_a_tree_of_too_many_files_is_refused_and_costs_little(self):
        self.put("models/wide/1", PLUS_3)
        os.makedirs(self.path("models/wide/1/many"))
        for i in range(60000):
            os.symlink("x", self.path("models/wide/1/many") + f"/{i}")
        with self.serve() as server:
            self.refused(server, "wide", "more than 50000 files and directories")
            start, used = time.monotonic(), cpu_seconds(server.process.pid)
            time.sleep(5)
            share = ((cpu_seconds(server.process.pid) - used) / (time.monotonic() - start))
            print(f"an idle server beside a tree of 60,000 files: {100 * share:.2f} % of a core")
            self.assertLess(share, 0.025 * SLOW)

    def test_a_version_that_is_a_link_to_nothing_waits_for_it(self):
        os.makedirs(self.path("models/later"))
        os.symlink(self.path("elsewhere"), self.path("models/later/1"))
        with self.serve() as server:
            self.refused(server, "later", "No such file or directory")
            self.put("elsewhere", PLUS_3)
            wait_for(lambda: server.state("later", 1) == "AVAILABLE", "its target")

    def test_an_empty_saved_model_is_named(self):
        """A full disk or an interrupted copy leaves an empty file. The error begins with TensorFlow
        Serving's message."""
        os.makedirs(self.path("models/empty/1"))
        path = self.write("models/empty/1/saved_model.pb", "")
        with self.serve("--model_wait_seconds=2") as server:
            wait_for(lambda: server.state("empty", 1) == "END", "the refusal", 30 * SLOW)
            words = ("Could not find meta graph def matching supplied tags: { serve }. To inspect "
                     "available tag-sets in the SavedModel, please use the SavedModel CLI: "
                     f"`saved_model_cli`: {path} is an empty file")
            self.assertIn(words, server.states("empty")[1][1])
            self.assertIn(words, server.log())

    def test_an_empty_vocabulary_is_named(self):
        vocabulary = self.write("words.txt", "")

        def build(g):
            g.placeholder("x", "float")
            g.node("y", "Identity", "x", T="float")
            g.node("table", "HashTableV2", key_dtype="string", value_dtype="int64")
            g.const("file", "string", [], string_val=[vocabulary.encode()])
            init = g.node("init", "InitializeTableFromTextFileV2", "table", "file")
            init.attr["key_index"].i, init.attr["value_index"].i = -2, -1
        small_models.write(self.path("models/words/1"), {
            "serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})}, build, init="init")
        with self.serve("--model_wait_seconds=1") as server:
            wait_for(lambda: server.state("words", 1) == "END", "the refusal", 30 * SLOW)
            self.assertIn(f"Read less bytes than requested: {vocabulary} is empty",
                          server.states("words")[1][1])

    def test_links_to_nothing_beside_models_are_told_once(self):
        told = "WARNING --models: .*: "
        os.makedirs(self.path("models"))
        for name in ("later", "later2"):
            os.symlink(self.path("elsewhere", name), self.path("models", name))
        os.symlink("nowhere", self.path("models/.hidden"))
        with self.serve() as server:
            wait_for(lambda: "models/later2" in server.log(), "the warning", 30 * SLOW)
            self.assertRegex(server.log(), f"{told}{self.path('models/later')}, "
                                           f"{self.path('models/later2')}\n")
            self.put("elsewhere/later/1", PLUS_3)
            wait_for(lambda: server.state("later", 1) == "AVAILABLE", "its target", 30 * SLOW)
            time.sleep(2.5)  # long enough for two polls, because the server polls once per second
            self.assertRegex(server.log(), f"{told}{self.path('models/later2')}\n")
            self.assertEqual(len(re.findall(told, server.log())), 2)
            self.assertNotIn("hidden", server.log())
            self.assertEqual(server.get("/readyz")[0], 200)

    def test_a_version_that_cannot_be_read_tells_why(self):
        if os.geteuid() == 0:
            self.skipTest("root may read what nobody may")
        self.put("models/closed/1", PLUS_3)
        os.chmod(self.path("models/closed/1"), 0)
        with self.serve() as server:
            self.refused(server, "closed", "Permission denied")
            os.chmod(self.path("models/closed/1"), 0o755)
            wait_for(lambda: server.state("closed", 1) == "AVAILABLE", "its permission")

    def test_a_version_that_never_rests_keeps_nobody_waiting(self):
        self.put("models/restless/1", PLUS_3)
        stop = threading.Event()

        def write():
            while not stop.wait(0.05):
                self.write("models/restless/1/log", str(time.monotonic()))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            with self.serve("--model_wait_seconds=2") as server:
                wait_for(lambda: server.get("/readyz")[0] == 200, "readiness", 30 * SLOW)
                self.assertEqual(server.state("restless", 1), "START")
                wait_for(lambda: "restless/1 are still changing" in server.log(), "the log line")
                stop.set()
                wait_for(lambda: server.state("restless", 1) == "AVAILABLE", "the version")
        finally:
            stop.set()
            writer.join()

    def test_signatures_that_are_left_out_are_told_once_a_load(self):
        def build(g):
            g.placeholder("x", "float")
            g.node("same", "Identity", "x", T="float")
            g.node("other", "NoSuchOp", "x")
        x = {"x": ("x", "float")}
        small_models.write(self.path("models/part/1"), {
            "serving_default": (x, {"y": ("same", "float")}),
            "other": (x, {"y": ("other", "float")})}, build)
        with self.serve("--allow_unsupported_signatures") as server:
            self.assertEqual(server.predict("part", [2.0]), [2.0])
            told = re.findall("WARNING (model part version 1 is served without .*)", server.log())
            self.assertEqual(len(told), 1)
            self.assertRegex(told[0], 'its signature "other", which cannot run: .*NoSuchOp')

    def test_names_cannot_forge_lines_of_the_log(self):
        forged = "\n2026-01-01T00:00:00Z ERROR forged \x1b[31m\x9b\x7f größe"

        def build(g):
            g.placeholder("x", "float")
            g.node("y" + forged, "NoSuchOp", "x")
        io = {"x": ("x", "float")}, {"y": ("y" + forged, "float")}
        small_models.write(self.path("models/bad/1"), {"serving_default": io}, build)
        for flag in "text", "json":
            with self.serve("--model_wait_seconds=1", f"--log_format={flag}") as server:
                wait_for(lambda: server.state("bad", 1) == "END", "the failure")
                wait_for(lambda: "name: bad version: 1} failed" in server.log(), "the log")
                log = server.log()
            shutil.rmtree(self.path("models/good"))
            self.assertNotIn("\n2026-01-01", log)
            self.assertFalse(re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", log))
            self.assertIn("größe", log)
            self.assertIn(r"\n2026-01-01T00:00:00Z ERROR forged " +
                          (r"\x1b[31m" if flag == "text" else r"\u001b[31m"), log)

    def test_loads_without_end_do_not_keep_others_from_being_loaded(self):
        for name in ("zeros", "record", "another"):
            small_models.write_endless(self.path(".aside", name, "1"))
            if name != "zeros":
                records.write(self.path(".aside", name, "1", WARM_UP), [records.predict([1])])
            os.makedirs(self.path("models"), exist_ok=True)
            os.rename(self.path(".aside", name), self.path("models", name))
        with self.serve("--model_wait_seconds=1") as server:
            wait_for(lambda: all(server.state(m, 1) == "LOADING"
                                 for m in ("zeros", "record", "another")), "the loads")
            self.put("models/late/1")
            wait_for(lambda: server.state("late", 1) == "AVAILABLE", "a good model")
            self.assertEqual(server.state("record", 1), "LOADING")

    def test_quick_loads_do_not_starve_a_costly_one(self):
        """New models appear as fast as the server loads them, on any machine."""
        small_models.write_long_init(self.path("models/costly/1"), COSTLY)
        with self.serve("--num_load_threads=1", "--model_wait_seconds=60") as server:
            wait_for(lambda: server.state("costly", 1) == "AVAILABLE", "the costly model", 300)
            n_put = 0

            def feed():
                nonlocal n_put
                n_loaded = server.log().count("Successfully loaded servable version {name: quick")
                self.assertLess(n_loaded, 1000, server.states("costly"))
                for _ in range(n_loaded + 200 - n_put):
                    small_models.write_long_init(self.path(".aside", "1"), COSTLY // 250)
                    os.rename(self.path(".aside"), self.path("models", f"quick{n_put}"))
                    n_put += 1
                return n_loaded
            wait_for(lambda: feed() > 20, "the stream", 300)
            small_models.write_long_init(self.path(".costly"), COSTLY)
            os.rename(self.path(".costly"), self.path("models/costly/2"))
            wait_for(lambda: feed() and server.state("costly", 2) == "AVAILABLE", "the costly model", 600)

    def test_a_load_without_end_keeps_nobody_waiting(self):
        small_models.write_endless(self.path("models/endless/1"))
        with self.serve("--model_wait_seconds=2") as server:
            wait_for(lambda: server.state("endless", 1) == "LOADING", "the load")
            wait_for(lambda: server.get("/readyz")[0] == 200, "readiness", 30 * SLOW)
            self.assertEqual(server.state("endless", 1), "LOADING")
            shutil.rmtree(self.path("models/endless"))


class LargeBasePaths(Case):
    def put_large(self, n, n_models):
        """Adds a base path that contains n files and one version. Adds models whose folders are links to this base path."""
        self.put("large/1")
        for i in range(n):
            os.symlink("x", self.path("large", f"file{i}"))
        os.makedirs(self.path("models"), exist_ok=True)
        for i in range(n_models):
            os.symlink(self.path("large"), self.path("models", f"large{i:02}"))

    def test_a_small_base_path_does_not_wait_for_large_ones(self):
        """The manager handles models in the order of their names."""
        self.put_large(int(20000 / SLOW), 100)
        self.put("models/small/1")
        time.sleep(4)  # the versions no longer change after this pause
        with Server(f"--models={self.path('models')}") as server:
            wait_for(lambda: server.log().count("Successfully loaded") == 101, "all models", 100 * SLOW)
            loaded = re.findall(r"Successfully loaded servable version {name: (\w+)", server.log())
            print(f"the small base path was served as number {loaded.index('small') + 1} of 101")
            self.assertLess(loaded.index("small"), 50)

    def test_a_small_base_path_does_not_wait_for_large_configurations(self):
        """The manager handles models in the order of their names."""
        self.put("large/1/model.savedmodel")
        with open(self.path("large/config.pbtxt"), "w", encoding="ascii") as file:
            file.write('parameters { key: "a" value { string_value: "b" } }\n' * int(20000 / SLOW))
        os.makedirs(self.path("models"))
        for i in range(40):
            os.symlink(self.path("large"), self.path("models", f"large{i:02}"))
        self.put("models/small/1")
        time.sleep(4)  # the versions no longer change after this pause
        with Server(f"--models={self.path('models')}") as server:
            wait_for(lambda: server.log().count("Successfully loaded") == 41, "all models", 100 * SLOW)
            loaded = re.findall(r"Successfully loaded servable version {name: (\w+)", server.log())
        self.assertLess(loaded.index("small"), 30)

    def test_the_manager_does_not_list_large_versions(self):
        self.put("large/1")
        for i in range(5000):
            os.symlink("x", self.path("large/1", f"file{i}"))
        for i in range(60):
            os.makedirs(self.path("models", f"large{i:02}"))
            os.symlink(self.path("large/1"), self.path("models", f"large{i:02}", "1"))
        with Server(f"--models={self.path('models')}") as server:
            wait_for(lambda: server.log().count("Successfully loaded") == 60, "all models", 100 * SLOW)
            used = thread_seconds(server.process.pid)
        self.assertLess(used["manager"], used.get("lister", 0))

    def test_a_base_path_of_too_many_files_is_told(self):
        self.put_large(65536, 8)
        self.put("models/small/1")
        with Server(f"--models={self.path('models')}", "--model_wait_seconds=1") as server:
            words = f"base path {self.path('models/large07')} of servable large07: more than 65536 files and directories"

            def is_told():
                status, body = server.get("/v1/models/large07")
                return status == 404 and words in json.loads(body)["error"]
            wait_for(is_told, "the reason", 100 * SLOW)
            self.assertIn(words, server.log())
            self.assertEqual(server.predict("small", [1.0]), [2.5])
            for i in range(2):
                os.unlink(self.path("large", f"file{i}"))
            wait_for(lambda: server.state("large07", 1) == "AVAILABLE", "the mended base path", 100 * SLOW)
