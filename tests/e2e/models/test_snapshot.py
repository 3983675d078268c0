"""Tests `slipway snapshot`: the present variables of a served model as a new version."""
import json
import os
import shutil
import subprocess
import threading

import grpc
import small_models
from grpc_support import CODE, WAIT, GrpcCase
from support import MODELS, binary, command, wait_for
from tensorflow_serving.apis import predict_pb2


def files_below(folder):
    """Returns the names of the files below a folder."""
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


class Snapshot(GrpcCase):
    def serve_counter(self, *flags, writes="."):
        self.put("models/counter/1", "counter/1")
        return self.serve(f"--models={self.path('models')}", "--file_system_poll_wait_seconds=1",
                          f"--model_write_directories={os.path.abspath(self.path(writes))}", *flags)

    def call(self, client, signature):
        """Calls a signature of the model `counter`, which all return the count."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "counter", signature
        return client.prediction.Predict(request, timeout=WAIT).outputs["output"].float_val[0]

    def snapshot(self, server, *args, model="counter", output="models/counter"):
        """Runs the command. Returns (exit status, standard output, standard error)."""
        return command("snapshot", model, f"--output={self.path(output)}", f"--server=grpc://127.0.0.1:{server.grpc_port}", *args)

    def taken(self, server, *args, **kw):
        """Writes a snapshot. Returns what the command prints as JSON."""
        code, out, err = self.snapshot(server, "--json", *args, **kw)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def refused(self, server, words, *args, **kw):
        code, out, err = self.snapshot(server, *args, **kw)
        self.assertEqual((code, out), (1, ""))
        self.assertIn(words, err)
        self.assertEqual([name for name in os.listdir(self.path("models/counter")) if name.startswith(".")], [])

    def test_the_server_goes_on_with_what_it_has_learnt(self):
        for flags in ((), ("--specialise=off",)):
            with self.subTest(flags=flags):
                shutil.rmtree(self.path("models"), ignore_errors=True)
                server = self.serve_counter(*flags)
                client, stop, counts, failures = self.client(server), threading.Event(), [], []

                def ask():
                    while not stop.is_set():
                        try:
                            counts.append(self.call(client, "get"))
                        except grpc.RpcError as failure:
                            failures.append(failure)

                asker = threading.Thread(target=ask)
                asker.start()
                for version in (2, 3, 4):
                    for _ in range(5):
                        self.call(client, "incr")
                    self.assertEqual(self.taken(server), {"model": "counter", "version": version, "from_version": version - 1,
                                                          "path": self.path(f"models/counter/{version}")})
                    wait_for(lambda: server.state("counter", version) == "AVAILABLE", "the snapshot to be served")
                    wait_for(lambda: server.state("counter", version - 1) == "END", "the old version to end")
                    self.assertEqual(self.call(client, "get"), 5.0 * (version - 1))
                stop.set()
                asker.join()
                self.assertEqual(failures, [])
                self.assertEqual(counts, sorted(counts))
                self.assertGreater(len(counts), 50)
                self.end(server)
                # Another server finds the same, and nothing but complete versions.
                self.assertEqual(sorted(os.listdir(self.path("models/counter"))), ["1", "2", "3", "4"])
                other = self.serve(f"--models={self.path('models')}")
                self.assertEqual(self.call(self.client(other), "get"), 15.0)

    def test_a_version_is_copied_with_its_other_files(self):
        server = self.serve_counter()
        shutil.copytree(self.path("models/counter/1"), self.path("models/more/7/model.savedmodel"))
        os.makedirs(self.path("models/more/7/model.savedmodel/assets.extra/deep"))
        for name in ("assets.extra/deep/words.txt", "batching_params.pbtxt"):
            self.write(f"models/more/7/model.savedmodel/{name}", "# text\n")
        wait_for(lambda: server.state("more", 7) == "AVAILABLE", "the version")
        made = self.taken(server, model="more", output="elsewhere/new/more")
        self.assertEqual((made["version"], made["from_version"]), (8, 7))
        self.assertEqual(files_below(made["path"]), ["model.savedmodel/" + name for name in (
            "assets.extra/deep/words.txt", "batching_params.pbtxt", "saved_model.pb",
            "variables/variables.data-00000-of-00001", "variables/variables.index")])
        # Numbers follow those that are there, whatever they belong to.
        os.makedirs(self.path("elsewhere/new/more/41"))
        self.write("elsewhere/new/more/43", "")
        self.assertEqual(self.taken(server, model="more", output="elsewhere/new/more")["version"], 44)

    def test_a_version_is_chosen_by_its_number(self):
        server = self.serve_counter()
        self.refused(server, "Servable not found for request: Specific(counter, 5)", "--model_version=5")
        self.assertEqual(self.taken(server, "--model_version=1")["from_version"], 1)

    def test_what_cannot_be_written_is_refused_and_leaves_nothing(self):
        server = self.serve_counter(writes="models")
        small_models.write_counter(self.path("models/unsaved/1"), False)
        self.put("models/changed/1", "counter/1")
        self.put("models/linked/1", "counter/1")
        os.symlink("/etc/passwd", self.path("models/linked/1/link"))
        for model in ("unsaved", "changed", "linked"):
            wait_for(lambda: server.state(model, 1) == "AVAILABLE", model)
        self.refused(server, "PERMISSION_DENIED", output="outside")
        self.refused(server, "PERMISSION_DENIED", output="models/../outside")
        os.makedirs(self.path("outside"))
        os.symlink(self.path("outside"), self.path("models/counter/away"))
        self.refused(server, "symbolic links", output="models/counter/away")
        self.refused(server, 'must not contain ".."', output="models/counter/away/../new")
        os.remove(self.path("models/counter/away"))
        self.refused(server, "Servable not found for request: Latest(none)", model="none")
        self.refused(server, "FAILED_PRECONDITION: the SavedModel has no op that saves its variables", model="unsaved")
        self.refused(server, "linked/1/link is a symbolic link", model="linked")
        self.refused(server, "lies in that of the version itself", output="models/counter/1")
        self.assertEqual(sorted(os.listdir(self.path("models/counter/1"))), sorted(os.listdir(os.path.join(MODELS, "counter/1"))))
        self.write("models/counter/file", "")
        self.refused(server, "Not a directory", output="models/counter/file/deeper")
        with open(self.path("models/changed/1/saved_model.pb"), "r+b") as file:
            data = file.read()
            file.seek(data.index(b"delta"))
            file.write(b"DELTA")
        self.refused(server, "has changed since it was loaded", model="changed")
        code, _, err = command("snapshot", "counter", "--output=relative", f"--server=grpc://127.0.0.1:{server.grpc_port}")
        self.assertEqual(code, 1)
        self.assertIn("must be an absolute path", err)
        self.assertEqual(os.listdir(self.path("outside")), [])
        self.assertEqual(self.call(self.client(server), "incr"), 1.0)

    def test_nothing_is_written_without_the_flag(self):
        self.put("models/counter/1", "counter/1")
        server = self.serve(f"--models={self.path('models')}")
        self.refused(server, "--model_write_directories")

    def test_a_snapshot_is_an_admin_action(self):
        token = self.write("token", "s3cret\n")
        server = self.serve_counter(f"--admin_token_file={token}")
        self.refused(server, "UNAUTHENTICATED")
        self.assertEqual(self.taken(server, f"--token_file={token}")["version"], 2)

    def test_requests_that_are_not_well_formed(self):
        server = self.serve_counter()
        client = self.client(server)
        call = client.channel.unary_unary("/slipway.Admin/Snapshot")
        counter, output = b"\x0a\x07counter", self.path("models/counter").encode()
        output = b"\x1a" + bytes([len(output)]) + output
        for message, code, words in (
                (b"\x0a\xff", CODE.INVALID_ARGUMENT, "not well formed"),
                (b"", CODE.INVALID_ARGUMENT, "model is missing"),
                (counter, CODE.INVALID_ARGUMENT, "must be an absolute path"),
                (counter + b"\x12\x02x1" + output, CODE.INVALID_ARGUMENT, 'version "x1" is not a number'),
                (counter + b"\x1a\x05/a\x00/b", CODE.INVALID_ARGUMENT, "must be an absolute path"),
                (counter + b"\x1a\x03/a\xff", CODE.INVALID_ARGUMENT, "not UTF-8"),
                (counter + b"\x1a\x88\x27/" + b"a" * 4999, CODE.INVALID_ARGUMENT, "more than 4095 bytes")):
            with self.subTest(message[:40]):
                self.fails(code, words, call, message)
        self.assertIn(b"/counter/2", call(counter + output, timeout=WAIT))

    def test_a_server_that_stops_ends_its_snapshots(self):
        server = self.serve_counter()
        many = [subprocess.Popen([binary(), "snapshot", "counter", f"--output={self.path('models/counter')}",
                                  f"--server=grpc://127.0.0.1:{server.grpc_port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(8)]
        wait_for(lambda: os.path.exists(self.path("models/counter/2")), "the first snapshot")
        self.end(server)
        for process in many:
            process.communicate()
            self.assertIn(process.returncode, (0, 1))
        self.assertEqual([name for name in os.listdir(self.path("models/counter")) if not name.isdigit()], [])
