"""Tests the messages that ./run prints when it neither builds nor runs anything, and how it selects single tests by
name."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import ROOT, SLOW, Case, binary

TOOLS = ("apt-get", "clang-format", "cmake", "curl", "dpkg-query", "git", "pip", "sudo")


class RunVerbs(Case):
    def setUp(self):
        super().setUp()
        for tool in TOOLS:
            self.write(tool, f"#!/bin/sh\necho {tool} >> {self.path('called')}\nexit 9\n")
            os.chmod(self.path(tool), 0o755)

    def run_verb(self, *arguments, path=None):
        """Runs ./run and returns (exit status, standard output, standard error). Fails if ./run has called a tool that
        builds or installs."""
        done = subprocess.run([os.path.join(ROOT, "run"), *arguments], text=True, capture_output=True, timeout=60 * SLOW,
                              check=False, env=dict(os.environ, PATH=path or f"{self.folder}:{os.environ['PATH']}"))
        self.assertFalse(os.path.exists(self.path("called")), arguments)
        return done.returncode, done.stdout, done.stderr

    def verbs(self):
        return re.findall(r"^  ([a-z][a-z-]*) ", self.run_verb()[1], flags=re.M)

    def test_every_verb_tells_its_help_at_once(self):
        verbs = [(verb,) for verb in self.verbs()]
        self.assertIn(("container",), verbs)
        for words in verbs + [("bench", what) for what in ("front", "load", "engines", "json")] + [("build", "slipway")]:
            for flag in ("--help", "-h"):
                with self.subTest(words=words, flag=flag):
                    code, out, err = self.run_verb(*words, flag)
                    self.assertEqual((code, err), (0, ""))
                    self.assertIn("usage: ./run", out)
                    self.assertIn(words[0], out)

    def test_help_is_a_verb(self):
        self.assertEqual(self.run_verb("help"), self.run_verb("--help"))
        self.assertEqual(self.run_verb("help", "bench", "json"), self.run_verb("bench", "json", "--help"))

    def test_a_wrong_word_is_named_first(self):
        for said, *arguments in (
                ("./run: there is no verb frob, only those below", "frob"),
                ("./run: there is no verb frob, only those below", "frob", "--help"),
                ("./run bench json: cannot use argument x: it takes none", "bench", "json", "x"),
                ("./run format: cannot use argument x: it takes none", "format", "x"),
                ("./run needs: cannot use argument x: it takes none", "needs", "x"),
                ("./run compare: the folder of an older build is wanted", "compare"),
                ("./run bench: frob is neither a model's directory nor a measurement", "bench", "frob")):
            with self.subTest(arguments=arguments):
                code, _, err = self.run_verb(*arguments)
                self.assertEqual((code, err.splitlines()[0]), (2, said))

    def test_without_sudo_it_names_the_packages_that_root_has_to_install(self):
        os.mkdir(self.path("bare"))
        for tool in ("awk", "cat", "dirname", "grep"):
            os.symlink(shutil.which(tool), self.path("bare", tool))
        for tool, script in (("id", "echo 1000"), ("dpkg-query", "exit 1")):
            self.write(f"bare/{tool}", f"#!/bin/sh\n{script}\n")
            os.chmod(self.path("bare", tool), 0o755)
        code, out, err = self.run_verb("needs", path=self.path("bare"))
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, "^./run: there is no sudo, so root has to install what is missing of: gcc .*lld\n$")


class NamedTests(Case):
    """Tests `./run test NAME...` on a machine where all packages are installed."""

    def run_test(self, *names):
        build = os.path.dirname(binary())
        if os.path.dirname(build) != os.path.join(ROOT, "build"):
            self.skipTest("the binary is not from a preset's folder")
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "run_tests.py"), "test", *names, "--preset",
                               os.path.basename(build)], text=True, capture_output=True, timeout=600 * SLOW, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_names_of_each_kind_run(self):
        code, out, err = self.run_test("test_entrypoint", "RunVerbs.test_a_wrong_word_is_named_first")
        self.assertEqual((code, err), (0, ""), out)
        self.assertRegex(out, r"ok   \w+ test_entrypoint: [1-9]\d* passed, 0 failed")
        self.assertRegex(out, r"ok   \w+ test_run_verbs.py RunVerbs.test_a_wrong_word_is_named_first: 1 passed, 0 failed")

    def test_a_name_of_nothing_is_refused(self):
        code, _, err = self.run_test("test_entrypoint", "test_frob")
        self.assertEqual((code, err), (2, "test_frob is no unit test, no end-to-end file or class, and no fuzz target\n"))


if __name__ == "__main__":
    unittest.main()
