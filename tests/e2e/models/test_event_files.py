"""Tests models that write event files for TensorBoard. TensorFlow made the models (tests/conformance/make_event_models.py)."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import threading

import records
from support import ROOT, Case, Server, wait_for
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.core.util import event_pb2

MODELS = pathlib.Path(ROOT) / "tests" / "goldens" / "event_models"


def copy_model(name, folder, logdir):
    """Copies a model, in which `logdir` replaces the name of the directory."""
    shutil.copytree(MODELS / name, folder)
    path = folder / "1" / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    graph, n = saved.meta_graphs[0].graph_def, 0
    for node in [*graph.node, *(node for f in graph.library.function for node in f.node_def)]:
        values = node.attr["value"].tensor.string_val if node.op == "Const" else []
        for i, value in enumerate(values):
            if value == b"LOGDIR":
                values[i], n = str(logdir).encode(), n + 1
    assert n, path
    path.write_bytes(saved.SerializeToString())


def read_events(path):
    """Reads an event file, and checks both checksums of each record."""
    data, events, at = path.read_bytes(), [], 0
    while at < len(data):
        size, crc = struct.unpack_from("<QI", data, at)
        record = data[at + 12:at + 12 + size]
        assert crc == records.masked_crc(data[at:at + 8]), (path, at)
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == records.masked_crc(record), (path, at)
        events.append(event_pb2.Event.FromString(record))
        at += 16 + size
    return events


class EventFiles(Case):
    def setUp(self):
        super().setUp()
        self.models, self.logs = pathlib.Path(self.path("models")), pathlib.Path(self.path("logs"))
        self.models.mkdir()
        self.logs.mkdir()

    def start(self, *names, permitted=True):
        for name in names:
            copy_model(name, self.models / name, self.logs / name / "deep")
        flags = [f"--model_write_directories={self.logs}"] if permitted else []
        self.server = self.enterContext(Server(f"--models={self.models}", *flags, wait=permitted))

    def call(self, model, signature, status=200, **inputs):
        got, body = self.server.post(f"/v1/models/{model}:predict", {"signature_name": signature, "inputs": inputs})
        self.assertEqual(got, status, body)
        answer = json.loads(body)
        return answer["outputs"] if status == 200 else answer["error"]

    def file(self, model):
        files = sorted((self.logs / model / "deep").iterdir())
        self.assertEqual(len(files), 1, files)
        return files[0]

    def steps(self, model):
        """Returns the steps and tags of the events after the first one."""
        first, *events = read_events(self.file(model))
        self.assertEqual(first.file_version, "brain.Event:2")
        return [(e.step, *(v.tag for v in e.summary.value)) for e in events]

    def test_a_model_of_tensorflow_2_writes_events_between_other_calls(self):
        self.start("tf2")
        for step in range(1, 4):
            self.assertEqual(self.call("tf2", "train", x=[step, 0.5]), step)
            self.assertEqual(self.call("tf2", "infer", x=[step]), [2 * step])
        self.assertEqual(self.call("tf2", "train", x=[-1]), 4)  # record_if leaves out the sum
        # as_default() flushes the writer at its end.
        self.assertEqual(self.steps("tf2"), [(1, "x"), (1, "sum"), (2, "x"), (2, "sum"), (3, "x"), (3, "sum"), (4, "x")])
        events = read_events(self.file("tf2"))
        self.assertRegex(self.file("tf2").name, r"^events\.out\.tfevents\.\d{10}\..+\.%d\.\d+\.v2$" % self.server.process.pid)
        self.assertEqual(events[0].source_metadata.writer, "tensorflow.core.util.events_writer")
        self.assertEqual(struct.unpack("<2f", events[3].summary.value[0].tensor.tensor_content), (2, 0.5))
        times = [e.wall_time for e in events]
        self.assertEqual(times, sorted(times))

    def test_a_model_of_tensorflow_1_writes_when_its_queue_is_full_or_it_is_told(self):
        self.start("tf1")
        self.assertEqual(self.call("tf1", "log", x=[1, 3], step=7), 7)
        self.assertEqual(self.steps("tf1"), [])
        self.call("tf1", "log", x=[5], step=8)  # more than two events
        self.assertEqual(len(self.steps("tf1")), 3)
        self.call("tf1", "flush", step=0)
        self.assertEqual({s[0] for s in self.steps("tf1")}, {7, 8})
        merged = [e for e in read_events(self.file("tf1")) if len(e.summary.value) == 2]
        self.assertEqual([(v.tag, v.simple_value or v.histo.sum) for v in merged[0].summary.value], [("max_1", 3), ("h", 4)])
        self.call("tf1", "log", x=[5], step=9)
        self.call("tf1", "close", step=0)
        self.assertEqual(len(self.steps("tf1")), 6)
        self.assertIn("does not exist", self.call("tf1", "log", status=404, x=[1], step=1))
        self.assertEqual(len(self.steps("tf1")), 6)

    def test_events_are_written_when_the_version_ends(self):
        self.start("tf1")
        self.call("tf1", "log", x=[1], step=1)
        self.assertEqual(self.steps("tf1"), [])
        shutil.copytree(self.models / "tf1" / "1", self.models / "tf1" / "2.new")
        os.rename(self.models / "tf1" / "2.new", self.models / "tf1" / "2")

        def files():
            return sorted((self.logs / "tf1" / "deep").iterdir(), key=lambda f: int(f.name.split(".")[-2]))

        wait_for(lambda: len(files()) == 2 and len(read_events(files()[0])) == 3)
        self.call("tf1", "log", x=[1], step=2)
        self.assertEqual(len(read_events(files()[1])), 1)
        self.server.stop()
        self.assertEqual({e.step for e in read_events(files()[1])[1:]}, {2})
        self.assertEqual(len(read_events(files()[1])), 3)

    def test_event_files_leave_descriptors_to_others(self):
        """With a limit of 160 open files, summary writers may have 20 event files open."""
        names = [f"m{i:02}" for i in range(22)]
        for name in names:
            copy_model("tf2", self.models / name, self.logs / name / "deep")
        self.server = self.enterContext(Server(f"--models={self.models}", f"--model_write_directories={self.logs}",
                                               "--max_num_load_retries=0", wait=False, open_files=160))
        wait_for(lambda: self.server.log().count("Successfully loaded") >= 20, self.server.log)
        wait_for(lambda: self.server.log().count("20 event files are open, and summary writers may have 20") >= 2,
                 self.server.log)
        files = [path for path in self.logs.rglob("*") if path.is_file()]
        self.assertEqual(len(files), 20, files)
        self.assertEqual(self.server.log().count("Successfully loaded"), 20)

    def test_many_clients_write_one_file(self):
        self.start("tf2", "tf1")
        n_clients, n_calls = 4, 10

        def write(k):
            for step in range(n_calls):
                self.call("tf1", "log", x=[k], step=n_calls * k + step)
                self.call("tf2", "train", x=[1])

        threads = [threading.Thread(target=write, args=(k,)) for k in range(n_clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.call("tf1", "flush", step=0)
        n = n_clients * n_calls
        self.assertEqual(sorted(s for s, *_ in self.steps("tf1")), sorted(2 * list(range(n))))
        self.assertEqual(sorted(s for s, *_ in self.steps("tf2")), sorted(2 * list(range(1, n + 1))))

    def limit_files(self, size):
        subprocess.run(["prlimit", f"--pid={self.server.process.pid}", f"--fsize={size}:unlimited"], check=True)

    def test_events_that_cannot_be_written_are_kept_for_the_next_attempt(self):
        self.start("tf2")
        x = [1.0] * 20000
        self.call("tf2", "train", x=x)
        size = self.file("tf2").stat().st_size
        self.limit_files(size + 1000)
        self.assertIn("File too large", self.call("tf2", "train", status=500, x=x))
        self.assertEqual(self.file("tf2").stat().st_size, size)  # no part of a record
        self.assertEqual(self.call("tf2", "infer", x=[1]), [2])
        self.limit_files("unlimited")
        self.call("tf2", "train", x=x)
        self.assertEqual([s[0] for s in self.steps("tf2")], [1, 1, 2, 2, 3, 3])

    def test_a_directory_without_permission_is_refused_with_the_flag(self):
        self.start("tf2", permitted=False)
        wait_for(lambda: "PERMISSION_DENIED" in self.server.log())
        self.assertIn("--model_write_directories", self.server.log())
        self.assertEqual(list(self.logs.iterdir()), [])
