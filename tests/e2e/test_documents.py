"""Runs the examples of the documents. Each fenced `sh` block is one script. It runs in a folder with the files of
the repository and the other files that the documents mention. The script's `slipway` is DRIVER, which sends requests to
the server under test, or stops a server once it is ready."""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

from support import MODELS, ROOT, SLOW, Case, Server, binary, free_ports, wait_for

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "MIGRATION.md", "CHANGELOG.md", "clients/README.md",
             *sorted("docs/" + name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md"))]

# Command lines that the test does not run, each with the reason. Each command line must occur in a document.
LEFT_OUT = (
    ("sudo apt-get *", "changes the machine, as root"),
    ("./run *", "builds, installs or measures for minutes; its verb is looked up instead"),
    ("cmake --preset *", "builds for minutes"),
    ("build/[at]san/*", "needs a build under sanitizers"),
    ("docker *", "needs Docker"),
    ("cc *", "needs an installed library"),
    ("pip install *", "installs from PyPI"),
    ("slipway predict classifier *", "needs a model of images"),
    ("* --cert client.crt *", "needs a server with TLS, which has a test of its own"),
)

# A wrapper around the program under test. It adds `--server` to the arguments of clients that lack this flag, gives a
# server its own ports and stops it once it is ready, and makes measurements last one second.
DRIVER = """#!{python}
import re, signal, subprocess, sys, time
arguments = sys.argv[1:]
verb = arguments[0] if arguments else ""
if verb in ("serve", "tensorflow_model_server"):
    arguments = [a for a in arguments if not re.match("--(rest_api_)?port=", a)]
    arguments = [re.sub("^(--page_address=.*:)[0-9]+$", r"\\g<1>0", a) for a in arguments]
    rest, grpc = {own_rest}, {own_grpc}
    server = subprocess.Popen([{binary!r}, *arguments, f"--rest_api_port={{rest}}", f"--port={{grpc}}"])
    end = time.monotonic() + {seconds}
    tls = [a for a in arguments if a.startswith("--rest_tls_cert_file=")]
    health = [{binary!r}, "health", f"--rest_api_port={{rest}}", f"--port={{grpc}}", *tls]
    while server.poll() is None and time.monotonic() < end:
        if subprocess.run(health, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.05)
    else:
        server.kill()
        sys.exit("the server is not ready")
    server.send_signal(signal.SIGTERM)
    sys.exit(server.wait({seconds}))
arguments = ["1" if before == "--seconds" else a for before, a in zip([None, *arguments], arguments)]
if verb in ("predict", "metadata", "reload", "snapshot", "bench", "status") and "--server" not in arguments:
    arguments += ["--server", "http://127.0.0.1:8501" if verb == "status" else "grpc://127.0.0.1:8500"]
elif verb == "run" and "--bench" in arguments and "--seconds" not in arguments:
    arguments += ["--seconds", "1"]
arguments = [a.replace("127.0.0.1:8500", "127.0.0.1:{grpc}").replace("127.0.0.1:8501", "127.0.0.1:{rest}") for a in arguments]
sys.exit(subprocess.run([{binary!r}, *arguments]).returncode)
"""


def blocks(document, language):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        text = file.read()
    return [textwrap.dedent(block) for _, block in re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.M | re.S)]


def left_out(line):
    return next((pattern for pattern, _ in LEFT_OUT if fnmatch.fnmatchcase(line, pattern)), None)


def scripts():
    """Yields (document, script) for each block that has commands to run."""
    for document in DOCUMENTS:
        for block in blocks(document, "sh"):
            lines = [line for line in block.splitlines() if not left_out(line)]
            if any(line and not line.startswith("#") for line in lines):
                yield document, "\n".join(lines) + "\n"


class Documents(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(f"--models={MODELS}", f"--model_write_directories={tempfile.gettempdir()}")
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        super().setUp()
        for name in os.listdir(ROOT):
            if name not in ("build", "models", ".git"):
                os.symlink(os.path.join(ROOT, name), self.path(name))
        # The commands of a document may change models/, so they run on a copy.
        shutil.copytree(MODELS, self.path("models"))
        os.makedirs(self.path("build", "release"))
        built = os.path.dirname(binary())
        for name in os.listdir(built):
            if name != "slipway":
                os.symlink(os.path.join(built, name), self.path("build", "release", name))
        own_rest, own_grpc = free_ports(2)
        driver = DRIVER.format(python=sys.executable, binary=binary(), rest=self.server.rest_port, grpc=self.server.grpc_port,
                               own_rest=own_rest, own_grpc=own_grpc, seconds=60 * SLOW)
        for path in ("slipway", "build/release/slipway"):
            self.write(path, driver)
            os.chmod(self.path(path), 0o755)
        with open(os.path.join(MODELS, "digits", "held_out", "00.json"), encoding="utf-8") as file:
            np.save(self.path("pixels.npy"), np.array(json.load(file)["instances"]))
        self.write("request.json", '{"instances": [1, 2, 5]}')
        self.write("models.config", "model_config_list { " + " ".join(
            f"config {{ name: '{name}' base_path: '{MODELS}/{name}' model_platform: 'tensorflow' }}"
            for name in ("counter", "digits", "half_plus_two")) + " }")
        self.write("token", "s3cret")
        self.run_script("slipway predict digits pixels.npy --record requests.tfrecord")

    def run_script(self, script):
        """Runs a script, after replacing the ports and the temporary folder of the documents, and returns its standard
        output."""
        script = script.replace("127.0.0.1:8500", f"127.0.0.1:{self.server.grpc_port}").replace("/tmp/", f"{self.folder}/")
        script = script.replace("127.0.0.1:8501", f"127.0.0.1:{self.server.rest_port}")
        done = subprocess.run(["sh", "-e", "-c", script], cwd=self.folder, text=True, capture_output=True,
                              timeout=300 * SLOW, check=False, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}{done.stderr}")
        if "curl" in script:
            self.assertNotIn('"error":', done.stdout, script)
        return done.stdout

    def test_the_commands_run(self):
        everything = list(scripts())
        self.assertLessEqual({"README.md", "MIGRATION.md", "clients/README.md", "docs/serving.md"}, {d for d, _ in everything})
        for document, script in everything:
            with self.subTest(document=document, script=script):
                if "openssl" in script and not shutil.which("openssl"):
                    self.skipTest("openssl is not there")
                if "build/release/tests/" in script and not os.path.isdir(self.path("build", "release", "tests")):
                    self.skipTest("the unit tests are not built")
                self.run_script(script)

    def test_what_is_not_run_is_there_and_has_verbs_that_exist(self):
        found = set()
        verbs = re.findall(r"^  ([a-z][a-z-]*) ", subprocess.run([os.path.join(ROOT, "run")], text=True, capture_output=True,
                                                                 check=True).stdout, flags=re.M)
        for document in DOCUMENTS:
            for line in "".join(blocks(document, "sh")).splitlines():
                found.add(left_out(line))
                if line.startswith("./run "):
                    self.assertIn(line.split()[1], verbs, f"{document}: {line}")
        self.assertEqual([pattern for pattern, _ in LEFT_OUT if pattern not in found], [])

    def test_what_is_said_of_answers_is_so(self):
        self.assertEqual(json.loads(self.run_script("slipway predict half_plus_two '[1, 2, 5]'")), {"predictions": [2.5, 3, 4.5]})

    @unittest.skipUnless(shutil.which("openssl") and shutil.which("curl"), "openssl or curl is not there")
    def test_the_commands_of_clients_by_tls_run(self):
        make, ask = (block for block in blocks("docs/security.md", "sh") if "client.crt" in block or "openssl" in block)
        self.run_script(make)
        (line,) = re.findall(r"^slipway serve (.*)", make.replace("\\\n", ""), flags=re.M)
        flags = [re.sub(r"=(\w+)", lambda m: "=" + self.path(m[1]), flag, count=1) for flag in line.split()]
        server = Server(*flags, wait=False)
        self.addCleanup(server.__exit__)
        for old, new in (("8500", server.grpc_port), ("8501", server.rest_port)):
            ask = ask.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        for model in os.listdir(os.path.join(ROOT, "models")):
            if os.path.isdir(os.path.join(ROOT, "models", model)):
                wait_for(lambda m=model: f"Successfully loaded servable version {{name: {m}" in server.log(), server.log)
        said = self.run_script(ask)
        self.assertIn('{"predictions": [2.5, 3.0, 4.5]}', said)
        self.assertRegex(said, r"half_plus_two +2 +AVAILABLE")
        self.assertIn("ready", said)

    @unittest.skipUnless(sys.version_info >= (3, 9), "as the package")
    def test_the_python_example_runs(self):
        (example,) = blocks("clients/README.md", "python")
        lines = [line for line in example.splitlines() if "official_predict_request" not in line]
        self.write("example.py", "\n".join(lines).replace("127.0.0.1:8500", f"127.0.0.1:{self.server.grpc_port}")
                   .replace("127.0.0.1:8501", f"127.0.0.1:{self.server.rest_port}"))
        self.run_script(f"PYTHONPATH=clients/python {sys.executable} example.py")
        with open(os.path.join(ROOT, "clients/README.md"), encoding="utf-8") as file:
            (line,) = re.findall(r"`(PYTHONPATH=clients/python python3 -m .*?)`", file.read())
        line = line.replace("python3", sys.executable)
        self.assertEqual(json.loads(self.run_script(line)), [2.5, 3.0, 4.5])


if __name__ == "__main__":
    unittest.main()
