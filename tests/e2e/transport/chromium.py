"""Runs Debian's Chromium without a window, and asks it by the DevTools protocol over a pipe."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from support import SLOW

PROGRAM = shutil.which("chromium")


class Chromium:
    """A browser with one page. `problems` are the errors and warnings of its console, and what it refused to load."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="slipway-chromium-")
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()

        def take_pipes():  # Chromium reads commands from descriptor 3 and writes to descriptor 4
            pipes = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read_there, write_there)]
            os.dup2(pipes[0], 3)
            os.dup2(pipes[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
             "about:blank"],
            close_fds=False, preexec_fn=take_pipes, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        os.close(read_there)
        os.close(write_there)
        self.read, self.write = read_here, write_here
        self.held, self.n, self.problems, self.session = b"", 0, [], None
        try:
            self.attach()
        except BaseException:
            self.__exit__()
            raise

    def attach(self):
        """Attaches the session to the page, and subscribes to its events."""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, end):
        while b"\0" not in self.held:
            if not select.select([self.read], [], [], max(end - time.monotonic(), 0))[0]:
                raise AssertionError("Chromium does not answer")
            got = os.read(self.read, 1 << 20)
            if not got:
                raise AssertionError("Chromium has ended")
            self.held += got
        text, self.held = self.held.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(params["entry"]))

    def call(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        self.n += 1
        request = {"id": self.n, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        end = time.monotonic() + 60 * SLOW
        while True:
            answer = self.message(end)
            if answer.get("id") != self.n:
                self.note(answer)
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']}")
            return answer["result"]

    def run(self, script):
        """Evaluates a script in the page, awaits a promise, and returns its value."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def screenshot(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
