#!/usr/bin/env python3
"""Builds docker/Dockerfile and tests the image: run.py [--no-build] [--gpu]. --no-build uses the image of the last run.
With --gpu, the image is built with GPU=yes, with a compiler and libraries from PyPI, and its large files are printed.

No Docker is needed: buildah builds with chroot isolation, on a debian:12-slim image that debootstrap makes from the
mirror that apt uses on this machine. The image runs as the user that its configuration names, in its own namespaces
(processes, mounts, network) and with a read-only root file system. Needs root. The last line is "N passed, M failed".
If this machine cannot build the image, the script prints the reason and exits with status 77."""
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NOT_RUN = 77  # Exit status if the image cannot be built on this machine. It is automake's status for a skipped test.
WORK = os.path.join(ROOT, "build", "container")
BASE = "debian:12-slim"
ON_GPU = "--gpu" in sys.argv
IMAGE = "slipway-gpu-test" if ON_GPU else "slipway-test"
MAX_BYTES = (3000 if ON_GPU else 100) * 1000 * 1000


# ---- building ----

def why_not():
    """Returns the reason why this machine cannot build the image, or None if it can."""
    if os.geteuid() != 0:
        return "only root can"
    for program in ("buildah", "debootstrap", "unshare", "nsenter", "apt-get"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False,
                      stderr=subprocess.DEVNULL).returncode:
        return "no new namespaces may be made here"
    return None


def buildah(*args, **kwargs):
    return subprocess.run(["buildah", *args], check=True, text=True, **kwargs)


def output_of(*args):
    return buildah(*args, stdout=subprocess.PIPE).stdout.strip()


def mirror():
    """Returns the address from which this machine's apt gets Debian 12."""
    lines = subprocess.run(["apt-get", "indextargets", "--format",
                            "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    for line in lines:
        uri, codename, component = line.split()
        if codename == "bookworm" and component == "main":
            return uri
    raise RuntimeError("apt knows no Debian 12 here")


def make_base():
    if subprocess.run(["buildah", "inspect", "--type", "image", BASE], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        root = os.path.join(folder, "base")
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, mirror()],
                       check=True, stdout=subprocess.DEVNULL)
        container = output_of("from", "scratch")
        buildah("add", "-q", container, root, "/", stdout=subprocess.DEVNULL)
        buildah("commit", "-q", "--rm", container, BASE, stdout=subprocess.DEVNULL)


def settings_of_pip():
    """Returns pip options that let the build trust the certificates that this machine trusts."""
    trusted = "/etc/ssl/certs/ca-certificates.crt"
    if not ON_GPU or not os.path.exists(trusted):
        return []
    settings = os.path.join(WORK, "pip.conf")
    with open(settings, "w", encoding="utf-8") as file:
        file.write("[global]\ncert = /trusted.crt\n")
    return ["--volume", f"{trusted}:/trusted.crt:ro", "--volume", f"{settings}:/etc/pip.conf:ro"]


def build():
    """Builds the image. The build context is a copy of the files that git tracks or does not ignore."""
    with tempfile.TemporaryDirectory(dir=WORK) as context:
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
                                "--exclude-standard"], check=False, stdout=subprocess.PIPE)
        names = files.stdout.decode().split("\0") if files.returncode == 0 else []
        for name in filter(None, names):
            target = os.path.join(context, name)
            if os.path.exists(os.path.join(ROOT, name)):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(ROOT, name), target, follow_symlinks=False)
        if not names:
            shutil.copytree(ROOT, context, dirs_exist_ok=True, symlinks=True,
                            ignore=shutil.ignore_patterns("build", ".git"))
        log = os.path.join(WORK, "build.log")
        with open(log, "w", encoding="utf-8") as out:
            done = subprocess.run(["buildah", "bud", "--pull-never", "--format", "docker",
                                   "--build-arg", f"GPU={'yes' if ON_GPU else 'no'}", *settings_of_pip(), "-f",
                                   os.path.join(context, "docker", "Dockerfile"), "-t", IMAGE,
                                   context], stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        with open(log, encoding="utf-8") as text:
            print(text.read()[-6000:])
        raise RuntimeError("the image does not build")


# ---- running ----

def loopback_up():
    with socket.socket() as s:
        request = struct.pack("16sH22x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(s, 0x8914, request)


def mount(*args):
    subprocess.run(["mount", *args], check=True)


class Container:
    """Runs the image's entry point as process 1 of a container. `models` maps names under /models to folders."""

    config, root = {}, ""

    def __init__(self, *args, models, env=None, entrypoint=None):
        self.mounts = []
        # The root is bind-mounted on itself, so that it can be remounted read-only.
        self.bind(self.root, self.root)
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", os.path.join(self.root, "models"))
        self.mounts.insert(0, os.path.join(self.root, "models"))
        for name, folder in models.items():
            target = os.path.join(self.root, "models", name)
            os.makedirs(target, exist_ok=True)
            self.bind(folder, target)
        mount("-o", "remount,ro,bind", self.root)
        # /dev and /proc come from the container engine, and the image writes to neither.
        self.bind("/dev", os.path.join(self.root, "dev"))
        user, group = self.config["User"].split(":")
        self.user = int(user)
        variables = dict(v.split("=", 1) for v in self.config.get("Env") or ())
        self.log_file = tempfile.NamedTemporaryFile("w+", encoding="utf-8")
        command = [*(entrypoint or self.config["Entrypoint"]), *args]
        self.unshare = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", f"--root={self.root}",
             "--wd=/", f"--setuid={user}", f"--setgid={group}", *command],
            env={**variables, **(env or {})}, stdin=subprocess.DEVNULL, stdout=self.log_file,
            stderr=subprocess.STDOUT)

    def bind(self, folder, target):
        mount("--bind", folder, target)
        self.mounts.insert(0, target)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.unshare.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except OSError:
                pass  # an OSError means that process 1 has not started yet or has ended
            time.sleep(0.01)
        for target in self.mounts:
            for _ in range(50):  # waits until the last process of the container has ended
                if subprocess.run(["umount", target], stderr=subprocess.DEVNULL,
                                  check=False).returncode == 0:
                    break
                time.sleep(0.1)

    def log(self):
        self.log_file.flush()
        with open(self.log_file.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    @property
    def pid(self):
        """Returns the process id, in the namespace of this script, of the container's process 1."""
        path = f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children"
        with open(path, encoding="ascii") as file:
            children = file.read().split()
        if not children:
            raise OSError("not started yet")
        return int(children[0])

    def health(self):
        """Returns the exit status of the image's health check, run as a container engine runs it."""
        test = self.config["Healthcheck"]["Test"]
        assert test[0] == "CMD", test
        return subprocess.run(["nsenter", f"--target={self.pid}", "--pid", "--mount", "--root",
                               f"--setuid={self.user}", f"--setgid={self.user}", *test[1:]],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode

    def get(self, path, body=None, port=8501):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, 10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def wait(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.unshare.poll() is not None:
                raise AssertionError(f"it has ended with {self.unshare.returncode}: {self.log()}")
            try:
                if condition():
                    return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"waited for {what}: {self.log()}")

    def wait_ready(self, port=8501):
        self.wait(lambda: self.get("/readyz", port=port)[0] == 200, "the server to be ready")

    def predict(self, model, port=8501):
        return json.loads(self.get(f"/v1/models/{model}:predict", {"instances": [1.0, 2.0, 5.0]},
                                   port)[1])


HALF = os.path.join(ROOT, "models", "half_plus_two")
ANSWER = {"predictions": [2.5, 3.0, 4.5]}


def ask_over_grpc(model):
    """Returns the outputs for [1, 2, 5], or None if Python's gRPC package is not installed. The request is encoded by
    hand."""
    try:
        import grpc  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    # PredictRequest {model_spec {name}, inputs {"x": float[3]}}
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data
    tensor = b"\x08\x01" + field(2, field(2, b"\x08\x03")) + field(5, struct.pack("<3f", 1, 2, 5))
    request = (field(1, field(1, model.encode())) +
               field(2, field(1, b"x") + field(2, tensor)))
    with grpc.insecure_channel("127.0.0.1:8500") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        answer = call(request, timeout=10)
    at = answer.index(struct.pack("<3f", 2.5, 3, 4.5))
    return list(struct.unpack("<3f", answer[at:at + 12]))


class Image(unittest.TestCase):
    def test_holds_the_server_and_its_libraries_only(self):
        total = 0
        for folder, _, names in os.walk(Container.root):
            for name in names:
                path = os.path.join(folder, name)
                inside = os.path.relpath(path, Container.root)
                info = os.lstat(path)
                total += info.st_size
                self.assertFalse(info.st_mode & 0o6000, inside)
                if not os.path.islink(path):
                    self.assertRegex(inside, r"^(usr/bin/slipway|usr/lib(64)?/.*\.so[.0-9]*|"
                                             r"usr/share/doc/[^/]+/copyright|"
                                             r"etc/(passwd|group|nsswitch\.conf|hosts|resolv\.conf"
                                             r"|hostname)|run/.*)$")
                if ON_GPU and info.st_size > 10e6:
                    print(f"{inside} {info.st_size / 1e6:.1f} MB, ", end="", flush=True)
        print(f"{total / 1e6:.1f} MB ", end="", flush=True)
        self.assertLessEqual(total, MAX_BYTES)

    @unittest.skipUnless(ON_GPU, "the image has no code for GPUs")
    def test_has_code_for_gpus_and_says_that_the_driver_is_missing(self):
        with Container("--gpus=all", models={"half_plus_two": HALF}) as c:
            self.assertEqual(c.unshare.wait(20), 255)
            self.assertIn("the NVIDIA driver is not there: libcuda.so.1", c.log())

    def test_is_configured_as_the_image_that_it_replaces(self):
        config = Container.config
        self.assertEqual(config["Entrypoint"], ["/usr/bin/tf_serving_entrypoint.sh"])
        self.assertEqual(set(config["ExposedPorts"]), {"8500/tcp", "8501/tcp"})
        self.assertNotEqual(config["User"].split(":")[0], "0")
        self.assertTrue(config["User"].split(":")[0].isdigit())  # Kubernetes' runAsNonRoot needs a numeric user

    def test_serves_the_model_that_the_environment_names(self):
        with Container(models={"half_plus_two": HALF}, env={"MODEL_NAME": "half_plus_two"}) as c:
            c.wait(lambda: c.health() == 0, "the health check")
            self.assertEqual(c.predict("half_plus_two"), ANSWER)
            self.assertIn(ask_over_grpc("half_plus_two"), ([2.5, 3.0, 4.5], None))
            for line in ("Running gRPC ModelServer at 0.0.0.0:8500 ...",
                         "Exporting HTTP/REST API at:localhost:8501 ...",
                         "NET_LOG: Entering the event loop ...",
                         "Successfully loaded servable version {name: half_plus_two version: 2}"):
                self.assertIn(line, c.log())
            with open(f"/proc/{c.pid}/status", encoding="ascii") as file:
                status = dict(line.split(":", 1) for line in file.read().splitlines())
            self.assertEqual(status["Uid"].split(), [str(c.user)] * 4)
            self.assertEqual(status["NSpid"].split()[-1], "1")
            self.assertTrue(os.statvfs(c.root).f_flag & os.ST_RDONLY)

    def test_drains_when_it_is_told_to_stop(self):
        with Container("--drain_delay_ms=1500", models={"model": HALF}) as c:
            c.wait_ready()
            self.assertEqual(c.predict("model"), ANSWER)
            start = time.monotonic()
            os.kill(c.pid, signal.SIGTERM)
            c.wait(lambda: c.get("/readyz")[0] == 503, "the drain")
            self.assertNotEqual(c.health(), 0)
            self.assertEqual(c.predict("model"), ANSWER)
            self.assertEqual(c.unshare.wait(20), 0)
            self.assertGreater(time.monotonic() - start, 1.4)

    def test_further_arguments_win_and_the_health_check_follows(self):
        with Container("--rest_api_port=9501", "--model_name=other", models={"model": HALF}) as c:
            c.wait_ready(9501)
            self.assertEqual(c.predict("other", 9501), ANSWER)
            self.assertEqual(c.health(), 0)

    def test_takes_a_config_file(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            with open(os.path.join(folder, "models.config"), "w", encoding="utf-8") as file:
                file.write('model_config_list { config { name: "h" base_path: "/models/half" '
                           'model_platform: "tensorflow" } }')
            with Container("--model_config_file=/models/config/models.config",
                           models={"half": HALF, "config": folder}) as c:
                c.wait_ready()
                self.assertEqual(c.predict("h"), ANSWER)

    def test_serves_all_models_when_none_is_named(self):
        models = {name: os.path.join(ROOT, "models", name) for name in ("half_plus_two", "digits")}
        with Container(models=models) as c:
            c.wait_ready()
            self.assertEqual(c.predict("half_plus_two"), ANSWER)
            self.assertEqual(c.get("/v1/models/digits")[0], 200)

    def test_has_the_servers_name_on_its_path(self):
        with Container("--version", models={},
                       entrypoint=["/usr/bin/tensorflow_model_server"]) as c:
            self.assertEqual(c.unshare.wait(20), 0)
            self.assertIn("TensorFlow ModelServer: ", c.log())


def main():
    reason = why_not()
    if reason:
        print(f"the container is not tested: {reason}")
        return NOT_RUN
    os.makedirs(WORK, exist_ok=True)
    os.chmod(WORK, 0o755)
    storage = os.path.join(WORK, "storage.conf")
    with open(storage, "w", encoding="utf-8") as file:
        file.write(f'[storage]\ndriver = "vfs"\ngraphroot = "{WORK}/storage"\n'
                   f'runroot = "{WORK}/run"\n')
    os.environ.update(CONTAINERS_STORAGE_CONF=storage, BUILDAH_ISOLATION="chroot")
    start = time.monotonic()
    make_base()
    based = time.monotonic()
    if "--no-build" not in sys.argv:
        build()
    print(f"base {based - start:.0f} s, image {time.monotonic() - based:.0f} s", flush=True)
    inspected = json.loads(output_of("inspect", "--type", "image", IMAGE))
    Container.config = inspected["Docker"]["config"]
    container = output_of("from", "--pull-never", IMAGE)
    try:
        Container.root = output_of("mount", container)
        for folder in ("dev", "proc"):  # a container engine creates /dev and /proc, so the image need not have them
            os.makedirs(os.path.join(Container.root, folder), exist_ok=True)
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--inside",
                               Container.root, json.dumps(Container.config)] + ["--gpu"] * ON_GPU, check=False)
    finally:
        buildah("rm", container, stdout=subprocess.DEVNULL)
        buildah("rmi", "--prune", stdout=subprocess.DEVNULL)
    return done.returncode


def inside(root, config):
    """Runs the tests in their own network namespace, so that the image's ports are free."""
    if ctypes.CDLL(None).unshare(0x40020000):
        raise OSError("unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    loopback_up()
    Container.root, Container.config = root, json.loads(config)
    suite = unittest.TestLoader().loadTestsFromTestCase(Image)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(inside(*sys.argv[2:4]) if sys.argv[1:2] == ["--inside"] else main())
