"""Tests the web page in Chromium, where that is installed."""
import base64
import json
import os
import struct
import threading
import unittest
import urllib.parse
import zlib

import chromium
import support
from support import wait_for
from test_page import HOSTILE, PageCase


def png(size, grey):
    """Returns a square PNG of one grey."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([grey]) * size) * size
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@unittest.skipUnless(chromium.PROGRAM, "Chromium is not installed")
class PageInChromium(PageCase):
    def open(self, server, url=None):
        browser = chromium.Chromium()
        self.addCleanup(browser.__exit__)
        browser.call("Page.navigate", url=(url or server.url) + "/")
        self.wait(browser, "document.querySelectorAll('.model').length > 0", "the models")
        return browser

    def wait(self, browser, condition, what):
        wait_for(lambda: browser.run(condition), lambda: f"{what}: {browser.problems} "
                 + str(browser.run("document.body.innerText")))

    def test_values_move_and_a_signature_is_tried(self):
        self.put("m/half_plus_two/1")
        server = self.serve(f"--models={self.path('m')}")
        browser = self.open(server)
        stop = threading.Event()

        def load():
            while not stop.wait(0.02):
                server.predict("half_plus_two", [1, 2])

        thread = threading.Thread(target=load)
        thread.start()
        try:
            self.wait(browser, "parseFloat(document.getElementById('value-requests-per-second').textContent) > 1", "a rate")
            self.wait(browser, "/s$/.test(document.getElementById('value-latency-p99').textContent)", "a latency")
            line = "document.querySelector('polyline').getAttribute('points').split(' ').length"
            n = browser.run(line)
            self.wait(browser, f"{line} > {n} + 1", "a longer graph")
        finally:
            stop.set()
            thread.join()
        self.put("m/half_plus_two/7")
        self.wait(browser, "[...document.querySelectorAll('.version h4')].some("
                           "h => h.textContent == 'Version 7 AVAILABLE')", "the new version")
        self.assertEqual(browser.run("[...document.querySelectorAll('.version h4')].map(h => h.textContent)")[0],
                         "Version 7 AVAILABLE")
        browser.run("document.querySelector('.try summary').click()")
        self.wait(browser, "document.querySelectorAll('form').length == 1", "the form")
        browser.run("document.querySelector('textarea').value = '{\"x\": [1, 2, 5]}';"
                    "document.querySelector('form button').click()")
        self.wait(browser, "!document.querySelector('pre').hidden", "an answer")
        self.assertRegex(browser.run("document.querySelector('pre').textContent"), r"2\.5,\s*3\.0,\s*4\.5")
        browser.run("document.querySelector('textarea').value = ' 2, 4 -1e1,\\n';"
                    "document.querySelector('form button').click()")
        self.wait(browser, "!document.querySelector('pre').hidden", "an answer to plain numbers")
        self.assertRegex(browser.run("document.querySelector('pre').textContent"), r"3\.0,\s*4\.0,\s*-3\.0")
        costs = "document.querySelector('.costs').textContent"
        browser.run("document.querySelector('.plan summary').click()")
        self.wait(browser, "document.querySelectorAll('.graph g.runs').length > 0", "the plan")
        self.assertIn("The bars are estimates", browser.run(costs))
        browser.run("document.querySelector('.profile summary').click();"
                    "document.querySelector('.profile button').click()")
        self.wait(browser, "/waiting/.test(document.querySelector('.profile [role=status]').textContent)", "a profile")
        for _ in range(50):
            server.predict("half_plus_two", [1])
        self.wait(browser, "/^[0-9]+ requests[.]$/.test(document.querySelector('.profile [role=status]').textContent)",
                  "the end of the profile")  # which is its 50th request, or a minute
        self.assertTrue(0 < browser.run("document.querySelectorAll('.timeline .run').length") <= 50)
        self.assertIn("between phases and sending", browser.run("document.querySelector('.profile .nodes li').textContent"))
        self.assertEqual(browser.run("document.querySelector('.legend .rest').textContent"), "between phases and sending")
        self.assertEqual(browser.run("[1, 2].map(n => counted(n, 'request')).join()"), "1 request,2 requests")
        # While the plan is read again, it is not there.
        self.wait(browser, "/^The bars are measured: .* [0-9]+ runs/"
                           ".test(document.querySelector('.costs')?.textContent)", "the measured times")
        self.assertRegex(browser.run("document.querySelector('.plan .nodes').textContent"), "% of the time")
        self.assertRegex(browser.run("document.querySelector('.plan .nodes').textContent"), "Mul|AddV2")
        size = "document.querySelector('.graph').getAttribute('width')"
        before = float(browser.run(size))
        browser.run("document.querySelector('.plan button').click()")
        self.assertGreater(float(browser.run(size)), before)
        for width, scheme in ((360, "light"), (1920, "dark")):
            browser.resize(width, 900)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
            browser.screenshot(os.path.join(os.path.dirname(support.binary()), "page", f"page-{width}-{scheme}.png"))
        self.check_semantics(browser)
        self.assertEqual(browser.problems, [])

    def test_the_init_op_is_no_choice(self):
        server = self.serve(f"--models={support.MODELS}")
        self.assertIn(b"__saved_model_init_op", server.get("/v1/models/digits/metadata")[1])
        browser = self.open(server)
        browser.run("document.querySelectorAll('.try summary').forEach(s => s.click())")
        options = "[...document.querySelectorAll('.try select option')].map(o => o.value)"
        self.wait(browser, f"{options}.includes('serving_default') && {options}.length >= 4", "the signatures")
        self.assertNotIn("__saved_model_init_op", browser.run(options))
        self.assertEqual(browser.problems, [])

    def give_image(self, browser, content, how):
        """Gives a file to the form, by its field or by dropping it."""
        browser.run(f"""{{
            const files = new DataTransfer();
            const bytes = Uint8Array.from(atob('{base64.b64encode(content).decode()}'), c => c.charCodeAt(0));
            files.items.add(new File([bytes], 'image.png', {{type: 'image/png'}}));
            const field = document.querySelector('.image input');
            if ('{how}' == 'field') {{
                field.files = files.files;
                field.dispatchEvent(new Event('change'));
            }} else
                field.form.dispatchEvent(new DragEvent('drop', {{dataTransfer: files, cancelable: true}}));
        }}""")

    def test_refusals_are_in_the_rates(self):
        self.put("m/half_plus_two/1")
        server = self.serve(f"--models={self.path('m')}", "--quota_client=x-client", "--quota_requests_per_second=0.01")
        browser = self.open(server)
        tile = "parseFloat(document.getElementById('value-%s-per-second').textContent) > 1"

        def rates_are_seen():
            for _ in range(10):
                server.post("/v1/models/half_plus_two:predict", {"instances": [1]})
            return browser.run(tile % "errors") and browser.run(tile % "requests")

        wait_for(rates_are_seen, "the rates")
        self.assertGreaterEqual(self.event(server)["refused"], 9)
        self.assertEqual(browser.problems, [])

    def test_a_second_profile_is_refused_with_a_sentence(self):
        for name in "ab":
            self.put(f"m/{name}/1")
        server = self.serve(f"--models={self.path('m')}")
        browser = self.open(server)
        self.assertEqual(self.ask(server, "/page/profile/a/50", "POST")[0], 200)
        browser.run("document.querySelectorAll('.profile button')[1].click()")
        self.wait(browser, "/^There is no profile: another profile runs, [^{}]*$/.test("
                  "document.querySelectorAll('.profile [role=status]')[1].textContent)", "the sentence")

    def test_an_image_is_the_value_of_an_input(self):
        """The page is at an address of its own, where its form works too."""
        self.put("m/digits/1", "digits/1")
        (port,) = support.free_ports(1)
        server = self.serve(f"--models={self.path('m')}", f"--page_address=127.0.0.1:{port}")
        browser = self.open(server, f"http://127.0.0.1:{port}")
        browser.run("document.querySelector('.try summary').click()")
        self.wait(browser, "document.querySelectorAll('form').length == 1", "the form")
        verdict = "document.querySelector('form [role=status]').textContent"
        for how, white, selected, value in (("field", 255, "0 to 1", 1), ("drop", 255, "0 to 255", 255),
                                            ("drop", 0, "-1 to 1", -1)):
            browser.run(f"document.querySelector('.image select').value = '{selected}'")
            self.give_image(browser, png(16, white), how)
            self.wait(browser, f"JSON.parse(document.querySelector('textarea').value).pixels[0][7][7][0] === {value}",
                      "the image")
            pixels = json.loads(browser.run("document.querySelector('textarea').value"))["pixels"]
            self.assertEqual(pixels, [[[[value]] * 8] * 8])
            self.assertEqual(browser.run(verdict), "The image is the value of pixels.")
        browser.run("document.querySelector('form button').click()")
        self.wait(browser, "/^Answered with 200/.test(%s)" % verdict, "an answer")
        self.give_image(browser, b"no image", "drop")
        self.wait(browser, "/^The image cannot be used: /.test(%s)" % verdict, "a refusal")
        self.assertEqual(browser.problems, [])

    def check_semantics(self, browser):
        """The tree that a screen reader gets has names for all that can be used, and the keyboard reaches it."""
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]]
        for role in ("textbox", "combobox", "button", "image", "heading"):
            names = [name for r, name in named if r == role or (role == "image" and r == "img")]
            self.assertTrue(names and all(names), (role, named))
        reached = set()
        browser.run("document.body.focus()")
        for _ in range(12):
            for kind in ("keyDown", "keyUp"):
                browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
            reached.add(browser.run("document.activeElement.tagName"))
        self.assertLessEqual({"A", "SUMMARY", "SELECT", "TEXTAREA", "BUTTON"}, reached)

    def test_hostile_names_are_text(self):
        server = self.serve(f"--model_config_file={self.hostile_models()}")
        browser = self.open(server)
        self.wait(browser, f"document.querySelectorAll('.model').length == {len(HOSTILE)}", "all models")
        names = browser.run("[...document.querySelectorAll('.model h3')].map(h => h.textContent)")
        self.assertEqual(sorted(names), sorted(HOSTILE))
        browser.run("document.querySelectorAll('.try summary').forEach(s => s.click())")
        self.wait(browser, f"document.querySelectorAll('form').length == {len(HOSTILE)}", "the forms")
        options = browser.run("[...document.querySelector('select').options].map(o => o.value)")
        self.assertEqual(sorted(options), sorted(HOSTILE))
        browser.run("document.querySelector('form button').click()")
        self.wait(browser, "/^Answered with 200/.test(document.querySelector('form [role=status]').textContent)",
                  "an answer")
        self.assertEqual(server.post("/v1/models/%3Cscript%3E:predict", {"instances": [1]})[0], 404)
        own = "#no-model-errors .errors:not([hidden])"
        self.wait(browser, f"document.querySelector('{own}') != null", "errors of no model to be shown")
        browser.run(f"document.querySelector('{own} summary').click()")
        self.wait(browser, f"/NOT_FOUND predict[^]*<script>/.test(document.querySelector('{own} li')?.textContent)",
                  "the error of no model")
        refused = server.post(f"/v1/models/{urllib.parse.quote(HOSTILE[0], safe='')}:predict",
                              {"signature_name": HOSTILE[3] + HOSTILE[0], "instances": [1]})
        self.assertEqual(refused[0], 400)
        self.wait(browser, "document.querySelectorAll('.model .errors:not([hidden])').length == 1", "errors to be shown")
        browser.run("document.querySelector('.model .errors:not([hidden]) summary').click()")
        self.wait(browser, "[...document.querySelectorAll('.model .errors li')].some("
                  "li => /INVALID_ARGUMENT predict[^]*<script>.*onerror/.test(li.textContent))", "the error")
        browser.run("document.querySelector('.plan summary').click()")
        self.wait(browser, "document.querySelectorAll('.graph g').length > 0", "the plan")
        self.assertEqual(browser.run("document.querySelectorAll('img, body script').length"), 0)
        self.assertEqual(browser.run("document.title"), "Slipway")
        browser.resize(360, 900)
        self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 360)
        self.assertEqual(browser.problems, [])


if __name__ == "__main__":
    unittest.main()
