"""Tests ops that read and write files: which files the flags permit, hostile names, and readers whose runs wait for
names."""
import base64
import json
import os
import pathlib
import socket
import threading

import small_models
from support import Case, Server, command

DENIED = 403


class Files(Case):
    def setUp(self):
        super().setUp()
        self.models = pathlib.Path(self.path("models"))
        self.version = self.models / "files" / "1"
        small_models.write_files(str(self.version))
        self.inside, self.outside = pathlib.Path(self.path("inside")), pathlib.Path(self.path("outside"))
        for directory in (self.inside / "sub", self.outside):
            directory.mkdir(parents=True)
        (self.version / "assets").mkdir()
        (self.version / "assets" / "words.txt").write_text("own")
        (self.inside / "a.txt").write_text("allowed")
        (self.inside / "sub" / "b.txt").write_text("below")
        (self.outside / "secret").write_text("secret")

    def start(self, *flags):
        self.server = self.enterContext(Server(f"--models={self.models}", *flags))
        return self.server

    def both(self, *flags):
        return self.start(*flags, f"--model_read_directories={self.inside}", f"--model_write_directories={self.inside}")

    def call(self, signature, x, y=None):
        """Returns the status and the outputs, or the error."""
        inputs = {"x": encoded(x)} | ({} if y is None else {"y": encoded(y)})
        status, body = self.server.post("/v1/models/files:predict", {"signature_name": signature, "inputs": inputs})
        answer = json.loads(body)
        return status, answer.get("outputs", answer.get("error"))

    def refused(self, signature, x, *words, status=None, y=None):
        got, why = self.call(signature, x, y)
        self.assertEqual(got, status or DENIED, (x, why))
        for word in words:
            self.assertIn(word, why)
        self.assertNotIn("secret\"", why)
        return why

    def test_without_flags_a_model_reads_its_own_directory_alone(self):
        self.start()
        own = self.version / "assets" / "words.txt"
        self.assertEqual(self.call("read", own), (200, "own"))
        self.assertEqual(self.call("read", f"file://{own}"), (200, "own"))
        self.assertEqual(self.call("match", f"{self.version}/assets/*")[1], [str(own)])
        for name in (self.inside / "a.txt", self.outside / "secret", self.models / "other" / "1" / "saved_model.pb", "/etc/passwd",
                     "/proc/self/environ", f"{self.version}/../../../outside/secret", f"{self.version}x", self.models, "/", "secret"):
            self.refused("read", name, "--model_read_directories")
        for name in (own, self.version / "new", self.inside / "new"):
            self.refused("write", name, "--model_write_directories", y="x")
        for pattern in ("/*", f"{self.models}/*", f"{self.version}*", f"{self.outside}/*", "*", f"{self.version}/../*"):
            self.refused("match", pattern, "--model_read_directories")
        self.assertFalse((self.version / "new").exists())
        self.assertEqual(own.read_text(), "own")

    def test_whether_a_file_outside_exists_is_not_told(self):
        self.both()
        texts = {self.refused(op, name).replace(str(name), "NAME")
                 for name in (self.outside / "secret", self.outside / "none", self.outside, "/nowhere/x")
                 for op in ("read", "match")}
        self.assertEqual(len(texts), 2, texts)

    def test_files_below_permitted_directories_are_read_written_and_listed(self):
        self.both()
        for name, text in (("a.txt", "allowed"), ("sub/b.txt", "below"), ("sub/../a.txt", "allowed"), ("./sub//b.txt", "below")):
            self.assertEqual(self.call("read", f"{self.inside}/{name}"), (200, text))
        self.assertEqual(self.call("write", self.inside / "new" / "deep" / "c", "text"), (200, "text"))
        self.assertEqual((self.inside / "new" / "deep" / "c").read_text(), "text")
        self.assertEqual(self.call("write", self.inside / "a.txt", "second"), (200, "second"))
        self.assertEqual(self.call("read", self.inside / "a.txt"), (200, "second"))
        self.assertEqual(self.call("match", f"{self.inside}/*/*")[1], [f"{self.inside}/new/deep", f"{self.inside}/sub/b.txt"])
        self.assertEqual(sorted(os.listdir(self.inside)), ["a.txt", "new", "sub"])  # no temporary file

    def test_links_devices_and_pipes_are_refused_at_once(self):
        self.both()
        os.symlink(self.outside / "secret", self.inside / "link")
        os.symlink(self.outside, self.inside / "dir")
        os.symlink("a.txt", self.inside / "near")
        os.mkfifo(self.inside / "fifo")
        listener = self.enterContext(socket.socket(socket.AF_UNIX))
        listener.bind(os.path.relpath(self.inside / "sock"))
        for name in ("link", "dir/secret", "near"):
            self.refused("read", self.inside / name, "symbolic links")
        self.refused("read", self.inside / "dir/../../outside/secret", "--model_read_directories")
        for name in ("fifo", "sock"):
            self.refused("read", self.inside / name, "not a regular file", status=400)
        for name in ("link", "dir/new", "dir/deep/new"):
            self.refused("write", self.inside / name, "symbolic links", y="x")
        self.refused("write", self.inside / "fifo", "not a regular file", status=400, y="x")
        self.assertEqual(self.call("match", f"{self.inside}/dir/*"), (200, []))
        self.assertEqual(self.call("match", f"{self.inside}/*/secret"), (200, []))
        self.assertEqual((self.outside / "secret").read_text(), "secret")
        self.assertEqual(os.listdir(self.outside), ["secret"])
        self.assertEqual(self.call("read", self.inside / "a.txt"), (200, "allowed"))

    def test_hostile_names_and_sizes_are_refused(self):
        self.both()
        with open(self.inside / "huge", "wb") as f:
            f.truncate(1 << 40)
        self.refused("read", self.inside / "huge", "--run_memory_limit_bytes", status=429)
        self.refused("read", f"{self.inside}/a.txt\0x", "NUL", status=400)
        self.refused("read", f"{self.inside}/" + "x" * 300, "File name too long", status=400)
        self.refused("read", "/" * 100000, "File name too long", status=400)
        self.refused("read", "gs://bucket/x", "File system scheme 'gs' not implemented", status=501)
        self.refused("match", f"{self.inside}/" + "*/" * 100, "components after its first wildcard", status=400)
        self.refused("match", f"{self.inside}/" + "*" * 300, "File name too long", status=400)
        self.assertEqual(self.call("match", f"{self.inside}/" + "*a" * 120), (200, []))
        self.refused("write", f"{self.inside}/" + "d/" * 30 + "x" * 300, "File name too long", status=400, y="x")
        self.assertFalse((self.inside / "d").exists())
        self.refused("write", f"{self.inside}/" + "d/" * 100 + "x", "directories are missing", status=400, y="x")

    def test_the_directory_of_a_flag_may_be_a_link(self):
        os.symlink(self.inside, self.path("alias"))
        self.start(f"--model_read_directories=/nowhere,{self.path('alias')}")
        self.assertEqual(self.call("read", f"{self.path('alias')}/a.txt"), (200, "allowed"))
        self.refused("read", self.inside / "a.txt", "--model_read_directories")
        self.refused("write", f"{self.path('alias')}/x", "--model_write_directories", y="x")

    def test_flags_that_are_no_directories_end_the_start(self):
        for value in ("relative", "/a,,/b", "/a/../b", ","):
            code, out, err = command("serve", f"--models={self.models}", f"--model_read_directories={value}")
            self.assertNotEqual(code, 0)
            self.assertIn("--model_read_directories", out + err)

    def test_readers_wait_for_names_without_a_worker(self):
        self.both("--num_workers=1")
        lines = []

        def read():
            lines.append(self.call("line", "x"))

        threads = [threading.Thread(target=read) for _ in range(20)]
        for t in threads:
            t.start()
        for _ in range(5):
            self.assertEqual(self.call("read", self.inside / "a.txt"), (200, "allowed"))
        (self.inside / "lines").write_text("".join(f"line {k}\n" for k in range(18)))
        self.assertEqual(self.call("put", self.inside / "lines")[0], 200)
        self.assertEqual(self.call("put", self.outside / "secret")[0], 200)
        self.assertEqual(self.call("put", self.inside / "a.txt")[0], 200)
        for t in threads:
            t.join()
        good = sorted(outputs["y"] for status, outputs in lines if status == 200)
        self.assertEqual(good, sorted([f"line {k}" for k in range(18)] + ["allowed"]))
        self.assertEqual([status for status, _ in lines if status != 200], [DENIED])
        self.assertEqual(self.call("close", "x")[0], 200)
        self.assertRegex(self.call("line", "x")[1], "is closed and has insufficient elements")

    def test_no_descriptor_stays_open_between_reads(self):
        self.both()
        (self.inside / "lines").write_text("".join(f"line {k}\n" for k in range(100000)))
        self.assertEqual(self.call("put", self.inside / "lines")[0], 200)
        for k in range(50):
            self.assertEqual(self.call("line", "x")[1]["y"], f"line {k}")
        open_files = self.server.open_files()
        self.assertEqual([p for p in open_files if str(self.inside) in p], [])


def encoded(x):
    return {"b64": base64.b64encode(x if isinstance(x, bytes) else str(x).encode()).decode()}
