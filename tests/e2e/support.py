"""Starts a server on free ports, sends REST requests to it, and stops it. The server's output is saved."""
import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "models")
EXTRA_FLAGS = os.environ.get("SLIPWAY_FLAGS", "").split()
SLOW = float(os.environ.get("SLIPWAY_SLOW", "1"))


def binary():
    return os.environ["SLIPWAY"]


def free_ports(n):
    """Returns n different ports on which no process listens. They are below the range of ports for outgoing
    connections, so that no connection takes a port before the server does."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            end = int(file.read().split()[0])
    except OSError:
        end = 0
    ports = set()
    while len(ports) < n:
        with socket.socket() as s:
            port = random.randrange(end // 2, end) if end > 4096 else 0
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.add(s.getsockname()[1])
    return list(ports)


def wait_for(condition, what="a condition", seconds=180):
    """Waits until condition() returns a true value, and returns that value."""
    end = time.monotonic() + seconds * SLOW
    while True:
        try:
            value = condition()
        except (OSError, urllib.error.URLError):
            value = None
        if value:
            return value
        if time.monotonic() > end:
            what = what() if callable(what) else what
            raise AssertionError(f"waited {seconds * SLOW:.0f} s for {what}")
        time.sleep(0.005)


def in_some_attempt(check, attempts=5):
    """Returns the result of the first call of check() that raises no AssertionError, or fails as the last of all attempts.
    A busy machine breaks a promise about time or about order by chance, and a defect of the server breaks it each time."""
    for _ in range(attempts - 1):
        try:
            return check()
        except AssertionError as failure:
            print(f"(another attempt: {failure}) ", end="", flush=True)
    return check()


SANITIZER_REPORT = re.compile(r"(WARNING|ERROR): \w*Sanitizer|: runtime error: ")


def refuse_sanitizer_reports(log):
    """Fails if the log contains a sanitizer's report. Most tests do not notice the defect itself, because a race or
    undefined behaviour does not end the server, and leaks are reported only when the server ends."""
    if SANITIZER_REPORT.search(log):
        raise AssertionError(log)


class Server:
    """Runs `slipway serve FLAGS`. If as_tensorflow is true, runs the same binary under the name tensorflow_model_server.
    open_files is the server's RLIMIT_NOFILE. `environment` contains additional environment variables."""

    def __init__(self, *flags, as_tensorflow=False, wait=True, open_files=None, environment=None):
        self.folder = tempfile.mkdtemp(prefix="slipway-e2e-")
        self.grpc_port, self.rest_port = free_ports(2)
        program = [binary(), "serve"]
        if as_tensorflow:
            link = os.path.join(self.folder, "tensorflow_model_server")
            os.symlink(binary(), link)
            program = [link]
        if open_files:
            program = ["prlimit", f"--nofile={open_files}:{open_files}", *program]
        self.out_path = os.path.join(self.folder, "out")
        self.log_path = os.path.join(self.folder, "log")
        with open(self.out_path, "wb") as out, open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*program, f"--port={self.grpc_port}", f"--rest_api_port={self.rest_port}",
                 *EXTRA_FLAGS, *flags], stdout=out, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})})
        if wait:
            wait_for(self.is_ready, lambda: "the server to be ready: " + self.log())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.rest_port}"

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server has ended with {self.process.returncode}: "
                                 + self.out() + self.log())
        return self.get("/readyz")[0] == 200

    def request(self, path, body=None, timeout=30):
        """Sends a request and returns (HTTP status, body as bytes)."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data),
                                        timeout=timeout * SLOW) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def get(self, path):
        return self.request(path)

    def post(self, path, body):
        return self.request(path, body)

    def predict(self, model, instances, version=""):
        status, body = self.post(f"/v1/models/{model}{version}:predict", {"instances": instances})
        if status != 200:
            raise AssertionError(f"{status}: {body.decode()}")
        return json.loads(body)["predictions"]

    def states(self, model):
        """Returns {version: (state, error message)}."""
        status, body = self.get(f"/v1/models/{model}")
        if status != 200:
            return {}
        return {int(s["version"]): (s["state"], s["status"]["error_message"])
                for s in json.loads(body)["model_version_status"]}

    def state(self, model, version):
        return self.states(model).get(version, ("", ""))[0]

    def metric(self, name):
        """Returns the sum of the samples whose lines begin with `name`, which may include labels."""
        page = self.get("/monitoring/prometheus/metrics")[1].decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
                   if re.match(re.escape(name) + r"(?!\w)", line))

    def cpu_s(self):
        """Returns the seconds of processor time that the server has used, which do not depend on other programs."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        """Returns what the server's descriptors refer to, as names of files where they are files."""
        folder, names = f"/proc/{self.process.pid}/fd", []
        for descriptor in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # it may be closed meanwhile
                names.append(os.readlink(f"{folder}/{descriptor}"))
        return names

    def out(self):
        with open(self.out_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log(self):
        """Returns the log, with the lines of all that has been answered. The thread `log` writes the lines, so the method
        waits until that thread sleeps."""
        wait_for(lambda: not self.is_writing(), "the thread that writes the log")
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def is_writing(self):
        """Returns whether the thread that writes the log is at work."""
        for stat in glob.glob(f"/proc/{self.process.pid}/task/*/stat"):
            with contextlib.suppress(OSError):  # a thread may end meanwhile
                with open(stat, encoding="utf-8") as file:
                    name, rest = file.read().partition("(")[2].rsplit(")", 1)
                if name == "log":
                    return rest.split()[0] in "RD"
        return False

    def stop(self, seconds=120):
        """Sends SIGTERM and returns the exit status. Fails if the log contains a sanitizer's report."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end after SIGTERM: " + self.log()) from None
        refuse_sanitizer_reports(self.log())
        return status


def command(*args, text_in=None):
    """Runs the binary with the given arguments and returns (exit status, standard output, standard error)."""
    done = subprocess.run([binary(), *args], input=text_in, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120 * SLOW, check=False)
    return done.returncode, done.stdout, done.stderr


class Case(unittest.TestCase):
    """A test with a temporary folder in which it creates versions of models."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slipway-models-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def put(self, version_dir, source="half_plus_two/2"):
        """Copies a version from models/ and renames it to its final path in one step."""
        target = self.path(version_dir)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        staging = self.path(".staging")
        shutil.copytree(os.path.join(MODELS, source), staging)
        os.rename(staging, target)

    def check_mixed_requests(self, model, makers, settings, runs, seed):
        """Serves the models of the folder `models` with each tuple of flags in `settings`, and sends `runs` requests to one of
        them, each once or twice. `makers` has a function for each signature, which draws inputs and returns them with the
        expected outputs."""
        for flags in settings:
            with self.subTest(flags=flags), Server(f"--models={self.path('models')}", *flags) as server:
                draw = random.Random(seed)
                for _ in range(runs):
                    name = draw.choice(tuple(makers))
                    inputs, wanted = makers[name](draw)
                    for _ in range(draw.randint(1, 2)):
                        status, body = server.post(f"/v1/models/{model}:predict", {"signature_name": name, "inputs": inputs})
                        self.assertEqual(status, 200, body)
                        self.assertEqual(json.loads(body)["outputs"], wanted, (name, inputs))

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)
