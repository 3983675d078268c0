"""Tests TensorFlow Serving's responses over REST, section by section, including routes, codes, messages, and JSON in
both directions."""
import base64
import json
import math
import os
import shutil
import tempfile
import unittest

import small_models
import support
import test_rest

CONFIG = """
model_config_list {
  config { name: "m" base_path: "%(models)s/half_plus_two" model_platform: "tensorflow"
           model_version_policy { all {} }
           version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 } }
  config { name: "%(odd)s" base_path: "%(models)s/half_plus_two" model_platform: "tensorflow" }
  config { name: "types" base_path: "%(folder)s/types" model_platform: "tensorflow" }
  config { name: "shapes" base_path: "%(folder)s/shapes" model_platform: "tensorflow" }
}
"""
ODD = "modelname!#$%&'()*+,/:;=?@[]"
ODD_SENT = "modelname%21%23%24%25%26%27%28%29%2A%2B%2C%2F%3A%3B%3D%3F%40%5B%5D"
ONE = b'{"instances": [1]}'


class Server(test_rest.Server):
    """A server with the models of CONFIG."""

    def __init__(self, *flags):
        self.models = tempfile.mkdtemp(prefix="slipway-models-")
        small_models.write_types(os.path.join(self.models, "types", "1"))
        small_models.write_shapes(os.path.join(self.models, "shapes", "1"))
        path = os.path.join(self.models, "config")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIG % {"models": support.MODELS, "folder": self.models, "odd": ODD})
        support.Server.__init__(self, f"--model_config_file={path}", "--port=0",
                                "--allow_version_labels_for_unavailable_models", *flags)

    def __exit__(self, *error):
        shutil.rmtree(self.models, ignore_errors=True)
        super().__exit__(*error)


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def ask(self, method, path, body=b"", headers=()):
        return self.server.ask(method, path, body, headers)

    def refused(self, code, words, method, path, body=b"", headers=()):
        status, got, text = self.ask(method, path, body, headers)
        self.assertEqual((status, got["content-type"]), (code, "application/json"), text)
        self.assertEqual(list(json.loads(text)), ["error"])
        self.assertRegex(text, rb'\A\{\n    "error": ".*"\n\}\Z')
        self.assertIn(words, json.loads(text)["error"])

    def predict(self, model, body):
        """Sends a Predict request that must succeed and returns the parsed response."""
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        body = body if isinstance(body, bytes) else body.encode()
        status, headers, text = self.ask("POST", f"/v1/models/{model}:predict", body)
        self.assertEqual((status, headers["content-type"]), (200, "application/json"), text)
        return json.loads(text)

    def raw(self, model, body):
        status, _, text = self.ask("POST", f"/v1/models/{model}:predict", body)
        self.assertEqual(status, 200, text)
        return text

    def fault(self, code, words, model, body):
        self.refused(code, words, "POST", f"/v1/models/{model}:predict",
                     body if isinstance(body, bytes) else body.encode())


class Routes(Reference):
    def test_names_versions_and_labels(self):
        for path, want in (("m", 3.0), ("M", None), ("m/versions/1", 4.0), ("m/versions/2", 3.0),
                           ("m/versions/0002", 3.0), ("m/labels/stable", 4.0),
                           ("m/labels/canary", 3.0), ("m/labels/%63anary", 3.0),
                           (ODD_SENT, 3.0), (ODD_SENT + "/versions/2", 3.0)):
            if want is None:
                self.fault(404, f"Servable not found for request: Latest({path})", path,
                           '{"inputs": 2}')
            else:
                self.assertEqual(self.predict(path, {"inputs": 2}), {"outputs": want - 0.0}, path)
        # The fixed words of a path are case-insensitive, but the method name after the colon is not.
        self.assertEqual(self.ask("POST", "/V1/MODELS/m/VERSIONS/1:predict", ONE)[0], 200)
        self.assertEqual(self.ask("GET", "/v1/Models/m/Labels/stable/metadata")[0], 200)
        self.assertIn(b"model_version_status", self.ask("GET", "/v1/models/m/METADATA")[2])
        for path in (ODD_SENT, ODD_SENT + "/versions/2", "m/versions/1", "m/labels/stable"):
            self.assertIn(b"AVAILABLE", self.ask("GET", f"/v1/models/{path}")[2])
            spec = json.loads(self.ask("GET", f"/v1/models/{path}/metadata")[2])["model_spec"]
            self.assertEqual(spec["name"], ODD if path.startswith("modelname") else "m")

    def test_what_does_not_match(self):
        rows = [("GET", "/v1/foo"), ("POST", "/v1/foo"), ("POST", "/v1/models"),
                ("GET", "/v1/models/foo:predict"), ("POST", "/v1/models/foo"),
                ("POST", "/v1/models/foo/versions/HELLO:regress"),
                ("POST", "/v1/models/foo/metadata"),
                ("POST", "/v1/models/foo/label/some_label:regress"),
                ("POST", "/v1/models/foo/versions/50/labels/some_label:regress"),
                ("GET", "/v1/models/debug/model_name"), ("POST", "/v1/models/m:PREDICT"),
                ("POST", "/v1/models/m:predict?x=1"), ("POST", "/v1/models/m:predict/"),
                ("GET", "/v1/models/m/versions/"), ("GET", "/v1/models/"), ("GET", "/v1/")]
        rows += [(m, f"/v1/models/foo/version/50:{w}") for m in ("GET", "POST")
                 for w in ("predict", "regress")]
        rows += [(m, "/v1/models/m") for m in ("PUT", "DELETE", "PATCH", "TRACE", "PROPFIND")]
        for method, path in rows:
            with self.subTest(method=method, path=path):
                self.refused(400, f"Malformed request: {method} {path}", method, path)
        status, headers, body = self.ask("HEAD", "/v1/models/m")
        self.assertEqual((status, body), (400, b""))
        self.assertGreater(int(headers["content-length"]), 0)

    def test_no_name_and_versions_beyond_int64(self):
        self.refused(400, "Missing model name in request.", "GET", "/v1/models")
        for method, path in (("GET", "/v1/models/m/versions/%s"),
                             ("GET", "/v1/models/m/versions/%s/metadata"),
                             ("POST", "/v1/models/m/versions/%s:predict")):
            for n in ("18446744073709551615", "9223372036854775808"):
                self.refused(400, f"Failed to convert version: {n} to numeric.", method, path % n)
        self.refused(404, "Could not find version 9223372036854775807 of model m", "GET",
                     "/v1/models/m/versions/9223372036854775807")

    def test_a_query_belongs_to_the_name(self):
        self.refused(404, "Could not find any versions of model m?x=1", "GET", "/v1/models/m?x=1")

    def test_paths_outside(self):
        for path in ("/page", "/v1", "/v3/models/m", "/v1x/models", "/favicon.ico"):
            for method in ("GET", "POST", "PUT", "OPTIONS"):
                self.refused(404, "Nothing is served at " + path, method, path)

    def test_options_is_a_browsers(self):
        for origin, code in (("http://a", 200), ("https://a.b:1", 200), ("null", 400),
                             ("ftp://a", 400), ("", 400)):
            status, headers, body = self.ask("OPTIONS", "/v1/models/m:predict", b"",
                                             [f"Origin: {origin}"] if origin else [])
            self.assertEqual((status, body), (code, b""), origin)
            self.assertNotIn("access-control-allow-origin", headers)

    def test_the_metrics_page(self):
        path = "/monitoring/prometheus/metrics"
        for method in ("GET", "POST", "PUT"):
            status, headers, body = self.ask(method, path)
            self.assertEqual((status, headers["content-type"].split(";")[0]), (200, "text/plain"))
            self.assertIn(b"# TYPE", body)
        self.refused(400, f"Unexpected path: {path}?a=b", "GET", path + "?a=b")


class Predict(Reference):
    def test_faults(self):
        odd = '{"signature_name": "a\\"b\\n\\u0001/\\u00e9", "inputs": 1}'
        for code, words, model, body in (
                (400, "JSON Parse error: The document is empty", "m", ""),
                (400, "JSON Parse error: The document is empty. at offset: 2", "m", "  "),
                (400, "JSON Parse error: Invalid value. at offset: 0", "m", "instances = [1, 2]"),
                (400, "JSON Parse error: Missing a comma or ] after an array element. at offset: 17",
                 "m", '{"instances": [1 2]}'),
                (400, "JSON Parse error: Missing a closing quotation mark in string. at offset: ",
                 "m", '{"inputs'),
                (400, "JSON Value: [\n    1\n] Is not object", "m", "[1]"),
                (400, "JSON Value: 5 Is not object", "m", "5"),
                (400, "'signature_name' key must be a string value.", "m",
                 '{"signature_name": 100, "instances": [1]}'),
                (404, "Servable not found for request: Latest(nope)", "nope", ONE.decode()),
                (404, "Servable not found for request: Specific(m, 50)", "m/versions/50",
                 ONE.decode()),
                (400, "Unrecognized servable version label: nope", "m/labels/nope", ONE.decode()),
                (400, 'Serving signature name: "s" not found in signature def', "m",
                 '{"signature_name": "s", "instances": [1]}'),
                (400, 'Serving signature name: "a"b\n\x01/é" not found', "m", odd),
                (400, "Failed to get input map for signature: no_inputs", "shapes",
                 '{"signature_name": "no_inputs", "inputs": {}}'),
                (400, "Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
                 "to exist", "m", '{"instances": [1], "inputs": [1]}'),
                (400, "Missing 'inputs' or 'instances' key", "m", "{}"),
                (400, "Expecting 'instances' to be an list/array", "m", '{"instances": {"x": 1}}'),
                (400, "No values in 'instances' array", "m", '{"instances": []}'),
                (400, 'JSON Value: "x" Type: String is not of expected type: float', "m",
                 '{"instances": ["x", "y"]}'),
                (400, "JSON Value: null Type: Null is not of expected type: float", "m",
                 '{"inputs": null}'),
                (400, "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
                 "Expecting tensor size: 270 but got: 252", "m",
                 json.dumps({"instances": [[[0] * 27] * 10, [[0] * 28] * 9]})),
                (400, "Expecting shape [2] but got: [1,2]", "m",
                 '{"instances": [[1, 2], [[3, 4]]]}'),
                (400, "Encountered list at unexpected size: 3 at level: 1 expected size: 2", "m",
                 '{"inputs": [[1, 2], [3, 4, 5]]}'),
                (400, "found at incorrect level", "m", '{"inputs": [[1, 2], 3]}'),
                (400, "instances is a plain list, but expecting list of objects as multiple input "
                 "tensors required", "shapes", '{"instances": [1]}'),
                (400, "keys must be equal to: a,b,c", "shapes", '{"instances": [{"a": 1, "b": 1}]}'),
                (400, "JSON object: does not have named input: d", "shapes",
                 '{"instances": [{"d": 1}]}'),
                (400, "Failed to process element: 1 key: b of 'instances' list. Error: "
                 "INVALID_ARGUMENT: JSON Value: 1.5 Type: Number is not of expected type: int64",
                 "shapes", '{"instances": [{"a": 1, "b": 1, "c": "x"}, {"a": 1, "b": 1.5}]}'),
                (400, "Expecting object but got list at item 1 of input list", "m",
                 '{"instances": [{"x": 1}, [1]]}'),
                (400, "Expecting value/list but got object at item 1 of input list", "m",
                 '{"instances": [1, {"x": 1}]}'),
                (400, "Missing named input: c in 'inputs' object.", "shapes",
                 '{"inputs": {"a": 1, "b": 2}}'),
                (501, "Conversion of JSON Value: 0 to type: complex64", "types",
                 '{"signature_name": "complex64", "inputs": 0}'),
                (400, "UNIMPLEMENTED: Conversion of JSON Value: 0 to type: complex64", "types",
                 '{"signature_name": "complex64", "instances": [0]}')):
            with self.subTest(body=body[:60]):
                self.fault(code, words, model, body)

    def test_the_order_in_which_faults_are_found(self):
        # Each request but the last has several errors. The server must report the error that it detects first.
        for words, model, body in (
                ("JSON Parse error", "nope", '{"signature_name": 5, "inputs": ["x"'),
                ("key must be a string", "nope", '{"signature_name": 5, "inputs": ["x"]}'),
                ("Servable not found", "nope", '{"signature_name": "s", "inputs": ["x"]}'),
                ("Serving signature name", "m", '{"signature_name": "s", "inputs": ["x"]}'),
                ("expected type: float", "m", '{"inputs": ["x"]}')):
            _, _, text = self.ask("POST", f"/v1/models/{model}:predict", body.encode())
            self.assertIn(words, json.loads(text)["error"])

    def test_errors_are_escaped_and_cut(self):
        _, _, text = self.ask("POST", "/v1/models/m:predict",
                              '{"signature_name": "a\\"b\\\\\\n\\u0001/é"}'.encode())
        self.assertIn(rb'"error": "Serving signature name: \"a\"b\\\n\u0001/' + "é".encode(), text)
        _, _, text = self.ask("POST", "/v1/models/m:predict",
                              json.dumps({"inputs": "x" * 100000}).encode())
        self.assertLess(len(text), 600)

    def test_the_envelope(self):
        deep = b"[" * 500000 + b"]" * 500000
        for body in (b'{"inputs": 2} trailing', b'\xef\xbb\xbf{"inputs": 2}',
                     b'{"inputs": 2, "inputs": 3}', b'{"inputs": 2, "other": {"a": [1]}}',
                     b'{"inputs": 2, "x": "\xff\xfe"}', b'{"unused": ' + deep + b', "inputs": 2}',
                     b'{"signature_name": "", "inputs": 2}', b' \t\r\n{"inputs":2}',
                     b'{"\\u0069nputs": 2}'):
            self.assertEqual(self.predict("m", body), {"outputs": 3.0}, body[:40])
        self.fault(400, "key must be a string value", "m", b'{"signature_name": ' + deep + b"}")

    def test_row_and_column_forms(self):
        for body, want in (
                ('{"instances": [[1.0,2.0],[3.0,4.0]]}', {"predictions": [[2.5, 3.0], [3.5, 4.0]]}),
                ('{"instances": [1.0, 2.0]}', {"predictions": [2.5, 3.0]}),
                ('{"instances": [{"x": 1}, {"x": 2}]}', {"predictions": [2.5, 3.0]}),
                ('{"inputs": {"x": [3, 4]}}', {"outputs": [3.5, 4.0]}),
                ('{"inputs": {"x": 3, "extra": 4}}', {"outputs": 3.5}),
                ('{"inputs": []}', {"outputs": []}), ('{"inputs": [[], []]}', {"outputs": [[], []]}),
                ('{"instances": [[], []]}', {"predictions": [[], []]})):
            self.assertEqual(self.predict("m", body), want, body)

    def test_several_inputs_and_outputs(self):
        rows = [{"a": [1, 2], "b": 3, "c": "x"}, {"c": {"b64": "eQ"}, "a": [4, 5], "b": 6}]
        self.assertEqual(self.predict("shapes", {"instances": rows}), {"predictions": [
            {"a": [1.0, 2.0], "b": 3, "c_bytes": {"b64": "eA=="}},
            {"a": [4.0, 5.0], "b": 6, "c_bytes": {"b64": "eQ=="}}]})
        columns = {"a": [[1, 2]], "b": [3, 4, 5], "c": {"b64": "eA=="}}
        self.assertEqual(self.predict("shapes", {"inputs": columns}), {"outputs": {
            "a": [[1.0, 2.0]], "b": [3, 4, 5], "c_bytes": {"b64": "eA=="}}})

    def test_outputs_that_rows_cannot_hold(self):
        def body(signature, form="instances"):
            return json.dumps({"signature_name": signature, form: [1, 2]})
        self.fault(400, "Tensor name: z has inconsistent batch size: 3 expecting: 2", "shapes",
                   body("unequal"))
        self.fault(400, "that of y", "shapes", body("unequal"))
        self.fault(400, "Tensor name: z has no shape information ", "shapes", body("scalar"))
        self.fault(400, "Tensor name: z has inconsistent batch size: 3 expecting: 0", "shapes",
                   body("zero_and_three"))
        self.assertEqual(self.predict("shapes", body("unequal", "inputs")),
                         {"outputs": {"y": [1.0, 2.0], "z": [1.0, 2.0, 3.0]}})
        self.assertEqual(self.predict("shapes", body("scalar", "inputs")),
                         {"outputs": {"y": [1.0, 2.0], "z": 7.0}})
        for signature in ("zero", "zeros"):
            self.assertEqual(self.predict("shapes", body(signature)), {"predictions": []})
        self.assertEqual(self.predict("shapes", body("zero", "inputs")), {"outputs": []})


class Values(Reference):
    def same(self, dtype, text):
        """Sends `text` as the instances of a request. Returns the text of the predictions without the enclosing
        brackets."""
        body = self.raw("types", b'{"signature_name": "%s", "instances": [%s]}'
                        % (dtype.encode(), text.encode()))
        start, end = b'{\n    "predictions": [', b"\n    ]\n}"
        self.assertTrue(body.startswith(start) and body.endswith(end), body)
        return body[len(start):-len(end)].decode()

    def test_numbers_that_come_back_as_they_were_sent(self):
        for dtype, text in (
                ("int8", "-128, 127"), ("int16", "-32768, 32767"), ("uint8", "0, 255"),
                ("int32", "-2147483648, 2147483647"), ("uint32", "0, 4294967295"),
                ("int64", "-9223372036854775808, 9223372036854775807"),
                ("uint64", "0, 18446744073709551615"), ("bool", "true, false"),
                ("uint16", "0, 65535"), ("qint8", "-128, 127"), ("quint8", "0, 255"),
                ("qint32", "-2147483648, 2147483647"), ("half", "0.5, 65504.0, -2.0, Infinity"),
                ("bfloat16", "0.5, 3.140625, -1.0, NaN"),
                ("double", "0.1, 0.33333333333333331, 1e+300, 123456789.0"),
                ("float", "9e+06, 999999.0, 0.5, 0.0003, 3e-05, 555557.5"),
                ("float", "NaN, Infinity, 3.0, -Infinity"), ("string", '"a\\"b\\\\\\n\\u0001/é", ""')):
            with self.subTest(dtype=dtype, text=text):
                self.assertEqual(self.same(dtype, text), text)

    def test_numbers_that_are_written_otherwise(self):
        for dtype, text, want in (
                ("float", "9000000, 999999, .5", None),
                ("float", "1, 1.0, 1e0, 10e-1, -0", "1.0, 1.0, 1.0, 1.0, -0.0"),
                ("float", "1435774380, 1435774380.0", "1.43577434e+09, 1.43577434e+09"),
                ("float", "1.7976931348623157e308, -1.7976931348623157e308", "Infinity, -Infinity"),
                ("float", "2.2250738585072014e-308, -2.2250738585072014e-308", "0.0, -0.0"),
                ("float", "Inf, -Inf", "Infinity, -Infinity"), ("float", "0.1", "0.1"),
                ("float", "16777217", "16777216.0"), ("float", "0.333333333", "0.333333343"),
                ("double", "1, 9007199254740993", "1.0, 9007199254740992.0"),
                ("int8", "300", "44"), ("uint8", "-1", "255"), ("half", "0.1", "0.0999755859"),
                ("half", "1e6", "Infinity"), ("bfloat16", "3.14159", "3.140625")):
            with self.subTest(dtype=dtype, text=text):
                if want is None:
                    self.fault(400, "Invalid value.", "types", '{"instances": [%s]}' % text)
                else:
                    self.assertEqual(self.same(dtype, text), want)

    def test_values_of_another_type(self):
        for dtype, values in (
                ("float", ('"1"', "true", "null", "{}")), ("double", ('"1"', "null")),
                ("half", ('"1"', "false")), ("int32", ("1.0", "1e2", "2147483648", "-2147483649",
                                                       "true", "NaN")),
                ("int64", ("1.0", "9223372036854775808")), ("uint32", ("-1", "4294967296")),
                ("uint64", ("-1", "18446744073709551616")), ("bool", ("1", '"true"')),
                ("string", ("1", "true", "null")), ("uint16", ("65536", "-1")),
                ("int8", ("2147483648",)), ("quint8", ("256",))):
            for value in values:
                with self.subTest(dtype=dtype, value=value):
                    self.fault(400, f"is not of expected type: {dtype}", "types",
                               '{"signature_name": "%s", "inputs": [%s]}' % (dtype, value))

    def test_base64(self):
        data = bytes(range(256)) + b"?>"
        for text in (base64.b64encode(data), base64.b64encode(data).rstrip(b"="),
                     base64.urlsafe_b64encode(data), base64.urlsafe_b64encode(data).rstrip(b"=")):
            got = self.predict("shapes", {"signature_name": "bytes",
                                          "inputs": [{"b64": text.decode()}]})
            self.assertEqual(base64.b64decode(got["outputs"][0]["b64"]), data)
        for bad in ('{"b64": "a"}', '{"b64": "a~bc"}', '{"b64": "YQ=a"}'):
            self.fault(400, "Unable to base64 decode", "shapes",
                       '{"signature_name": "bytes", "inputs": [%s]}' % bad)
        for bad in ('{"b64": 5}', '{"b64": "YQ==", "x": 1}', '{"b65": "YQ=="}'):
            self.fault(400, "", "shapes", '{"signature_name": "bytes", "inputs": [%s]}' % bad)
        self.assertEqual(self.predict("shapes", {"signature_name": "text", "instances": [
            {"b64": "aGVsbG8="}, "world"]}), {"predictions": ["hello", "world"]})

    def test_strings_pass_as_bytes(self):
        got = self.raw("types", b'{"signature_name": "string", "inputs": "\xff\\ud83d\\ude00\x7f"}')
        self.assertIn(b'"\xff\xf0\x9f\x98\x80\x7f"', got)
        self.fault(400, "The surrogate pair in string is invalid. at offset: ", "types",
                   '{"inputs": "\\ud83dx"}')

    def test_not_a_number_is_one(self):
        got = self.predict("types", '{"signature_name": "double", "inputs": [[NaN, Infinity]]}')
        self.assertTrue(math.isnan(got["outputs"][0][0]) and math.isinf(got["outputs"][0][1]))


class StatusAndMetadata(Reference):
    def test_status(self):
        status = json.loads(self.ask("GET", "/v1/models/m")[2])["model_version_status"]
        self.assertEqual([(v["version"], v["state"]) for v in status],
                         [("2", "AVAILABLE"), ("1", "AVAILABLE")])
        self.assertEqual(status[0]["status"], {"error_code": "OK", "error_message": ""})
        one = json.loads(self.ask("GET", "/v1/models/m/versions/1")[2])["model_version_status"]
        self.assertEqual([v["version"] for v in one], ["1"])
        label = json.loads(self.ask("GET", "/v1/models/m/labels/nope")[2])["model_version_status"]
        self.assertEqual(len(label), 2)
        self.refused(404, "Could not find any versions of model nope", "GET", "/v1/models/nope")
        self.refused(404, "Could not find version 5 of model m", "GET", "/v1/models/m/versions/5")

    def test_metadata(self):
        status, headers, text = self.ask("GET", "/v1/models/m/labels/stable/metadata")
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        found = json.loads(text)
        self.assertEqual(found["model_spec"], {"name": "m", "signature_name": "", "version": "1"})
        self.assertEqual(list(found["metadata"]["signature_def"]), ["signature_def"])
        one = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
        self.assertEqual(one["inputs"], {"x": {
            "dtype": "DT_FLOAT", "name": "x:0",
            "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "1", "name": ""}],
                             "unknown_rank": False}}})
        self.assertEqual((one["method_name"], one["defaults"]), ("tensorflow/serving/predict", {}))
        _, _, text = self.ask("GET", "/v1/models/types/metadata")
        half = json.loads(text)["metadata"]["signature_def"]["signature_def"]["half"]["inputs"]["x"]
        self.assertEqual(half["tensor_shape"], {"dim": [], "unknown_rank": True})
        self.assertEqual(half["dtype"], "DT_HALF")
        self.refused(404, "Servable not found for request: Specific(m, 9)", "GET",
                     "/v1/models/m/versions/9/metadata")
        self.refused(400, "Unrecognized servable version label: nope", "GET",
                     "/v1/models/m/labels/nope/metadata")


if __name__ == "__main__":
    unittest.main()
