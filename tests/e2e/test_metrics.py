"""Tests the metrics page. Prometheus's own parser must read it, its counts must match the requests, and it must have
every metric that the dashboard uses."""
import json
import math
import os
import re
import unittest

import support

try:
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    text_string_to_metric_families = openmetrics = None

PAGE = "/monitoring/prometheus/metrics"
DASHBOARD = os.path.join(support.ROOT, "docker", "grafana-dashboard.json")
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(,|$)')
NAME = re.compile(r'(?:slipway_|process_|:tensorflow:)[a-zA-Z0-9_:]+')


def read(text):
    """Parses the metrics page strictly and returns [(name, {label: value}, number)]."""
    samples = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        found, at = {}, 0
        while labels and at < len(labels):
            m = LABEL.match(labels, at)
            if not m:
                raise AssertionError("not a list of labels: " + line)
            found[m.group(1)] = re.sub(r"\\(.)", lambda e: "\n" if e.group(1) == "n"
                                       else e.group(1), m.group(2))
            at = m.end()
        samples.append((name, found, float(value)))
    return samples


def scrape(server):
    status, body = server.get(PAGE)
    assert status == 200, status
    return body.decode()


def value_of(text, name, **labels):
    """Returns the sum of the samples with the given name and labels."""
    return sum(v for n, found, v in read(text)
               if n == name and all(found.get(k) == want for k, want in labels.items()))


class Metrics(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server(f"--models={support.MODELS}")
        cls.addClassCleanup(cls.server.__exit__)

    def test_counts_what_was_asked(self):
        before = scrape(self.server)
        for _ in range(3):
            self.server.predict("half_plus_two", [1.0, 2.0, 5.0])
        self.server.post("/v1/models/half_plus_two:predict", b"{")
        self.server.get("/v1/models/half_plus_two/metadata")
        self.server.post("/v1/models/no%22where:predict", b"{}")
        after = scrape(self.server)

        def more(name, **labels):
            return value_of(after, name, **labels) - value_of(before, name, **labels)

        serving = ":tensorflow:serving:"
        model = "half_plus_two"
        self.assertEqual(more(serving + "request_count", model_name=model, status="OK"), 4)
        self.assertEqual(more(serving + "request_count", model_name=model,
                              status="INVALID_ARGUMENT"), 1)
        self.assertEqual(more(serving + "request_count", model_name='no"where',
                              status="NOT_FOUND"), 1)
        self.assertEqual(more(serving + "request_latency_count", model_name=model, API="predict",
                              entrypoint="REST"), 3)
        self.assertEqual(more(serving + "request_latency_count", model_name=model, API="",
                              entrypoint="REST"), 1)
        self.assertEqual(more(serving + "runtime_latency_count", model_name=model, API="Predict",
                              runtime="TF1"), 3)
        self.assertEqual(more(":tensorflow:core:graph_runs"), 3)
        self.assertEqual(more(":tensorflow:core:graph_run_input_tensor_bytes_sum"), 36)
        self.assertEqual(more(":tensorflow:core:graph_run_output_tensor_bytes_sum"), 36)
        self.assertEqual(more(serving + "batching_session:input_batch_size_sum"), 9)
        self.assertEqual(more("slipway_batch_rows_sum", model=model), 9)
        self.assertEqual(more("slipway_requests_total", model=model, code="OK", api="predict"), 3)
        path = os.path.join(support.MODELS, "half_plus_two", "2")
        self.assertEqual(value_of(after, ":tensorflow:cc:saved_model:load_attempt_count",
                                  model_path=path, status="success"), 1)
        self.assertGreater(value_of(after, ":tensorflow:cc:saved_model:load_latency",
                                    model_path=path), 0)
        self.assertEqual(value_of(after, "slipway_models_loaded"), 3)
        self.assertGreater(value_of(after, "slipway_model_weight_bytes", model="digits"), 1000)
        self.assertGreater(value_of(after, "slipway_model_packed_bytes", model="digits"), 1000)
        specialisations = value_of(after, "slipway_model_specialisations", model="digits")
        n_bytes = value_of(after, "slipway_model_specialisation_bytes", model="digits")
        compiled = "--specialise=off" not in support.EXTRA_FLAGS
        self.assertEqual(specialisations >= 1, compiled)
        self.assertEqual(n_bytes > 1000, compiled)
        self.assertEqual(value_of(after, "slipway_model_layouts", model="digits"), specialisations)
        self.assertEqual(value_of(after, "slipway_model_layout_bytes", model="digits"), n_bytes)
        self.assertGreater(value_of(after, "slipway_model_idle_bytes", model="digits"), 0)

    def test_histograms_add_up_and_nothing_is_nan(self):
        self.server.predict("half_plus_two", [1.0])
        text = scrape(self.server)
        histograms = {}
        for name, labels, value in read(text):
            self.assertFalse(math.isnan(value), name)
            if name.endswith("_bucket"):
                key = (name[:-7], tuple((k, v) for k, v in labels.items() if k != "le"))
                histograms.setdefault(key, []).append((float(labels["le"]), value))
        self.assertGreater(len(histograms), 5)
        for (name, labels), buckets in histograms.items():
            ends = [end for end, _ in buckets]
            counts = [n for _, n in buckets]
            self.assertEqual(ends, sorted(set(ends)), name)
            self.assertEqual(counts, sorted(counts), name)
            self.assertEqual(ends[-1], math.inf)
            self.assertEqual(value_of(text, name + "_count", **dict(labels)), counts[-1], name)

    def test_bounds_are_tensorflows(self):
        # The expected bounds are those of TensorFlow's ExponentialBuckets(10, 1.8, 33), to six
        # digits.
        self.server.predict("half_plus_two", [1.0])
        wanted = ("10 18 32.4 58.32 104.976 188.957 340.122 612.22 1102 1983.59 3570.47 6426.84 "
                  "11568.3 20823 37481.3 67466.4 121440 218591 393464 708235 1.27482e+06 "
                  "2.29468e+06 4.13043e+06 7.43477e+06 1.33826e+07 2.40887e+07 4.33596e+07 "
                  "7.80473e+07 1.40485e+08 2.52873e+08 4.55172e+08 8.19309e+08 1.47476e+09 +Inf")
        found = re.findall(r':tensorflow:serving:runtime_latency_bucket\{model_name='
                           r'"half_plus_two",API="Predict",runtime="TF1",le="(.*?)"\}',
                           scrape(self.server))
        self.assertEqual(" ".join(found), wanted)

    def test_names_that_are_no_text_do_not_break_the_page(self):
        for path in ("/v1/models/%ff%0a%22%5c", "/v1/models/%e2%82%ac", "/v1/models/x%00y"):
            self.server.get(path)
        text = scrape(self.server)
        read(text)
        self.assertIn('model_name="\ufffd\\n\\"\\\\"', text)
        self.assertIn('model_name="€"', text)

    @unittest.skipIf(text_string_to_metric_families is None, "no python3-prometheus-client here")
    def test_prometheus_reads_it(self):
        self.server.predict("half_plus_two", [1.0])
        self.server.get("/v1/models/%22%5c%0a")
        families = list(text_string_to_metric_families(scrape(self.server)))
        names = [f.name for f in families]
        self.assertEqual(len(names), len(set(names)), "a family comes twice")
        for f in families:
            self.assertIn(f.type, ("counter", "gauge", "histogram"), f.name)
        self.assertIn(":tensorflow:serving:request_log_count", names)

    def scrape_openmetrics(self):
        """Scrapes as Prometheus does. Returns the page and its content type."""
        request = support.urllib.request.Request(self.server.url + PAGE, headers={
            "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
        with support.urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode(), answer.headers["Content-Type"]

    def predict_in_trace(self, traceparent):
        request = support.urllib.request.Request(
            self.server.url + "/v1/models/half_plus_two:predict", b'{"instances": [1.0]}',
            {"traceparent": traceparent})
        with support.urllib.request.urlopen(request, timeout=10) as answer:
            self.assertEqual(answer.status, 200)

    def test_openmetrics_has_the_same_samples_and_exemplars_of_sampled_traces(self):
        trace = "5bf92f3577b34da6a3ce929d0e0e4736"
        self.predict_in_trace(f"00-{trace}-00f067aa0ba902b7-01")
        text, kind = self.scrape_openmetrics()
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(text.endswith("\n# EOF\n"))
        marked = re.findall(r'^slipway_request_duration_seconds_bucket\{.*le="(.*)"\} \d+ '
                            rf'# \{{trace_id="{trace}",span_id="[0-9a-f]{{16}}"\}} (\S+) \d+\.\d{{3}}$',
                            text, re.M)
        self.assertEqual(len(marked), 1, text)
        self.assertLessEqual(float(marked[0][1]), float(marked[0][0]))
        plain = scrape(self.server)
        self.assertNotIn("# {", plain)
        self.assertNotIn("# EOF", plain)
        # Counters have the suffix in OpenMetrics; otherwise both pages have the same samples.
        shown = re.sub(r" # \{.*", "", text)
        counters = set(re.findall(r"^# TYPE (\S+) counter", text, re.M))
        self.assertGreater(len(counters), 10)
        names = {name.removesuffix("_total") if name.removesuffix("_total") in counters else name
                 for name, _, _ in read(shown)}
        wanted = {name.removesuffix("_total") if name.removesuffix("_total") in counters else name
                  for name, _, _ in read(plain)}
        self.assertEqual(names, wanted)
        for name, _, _ in read(shown):
            self.assertNotIn(name, counters)

    @unittest.skipIf(openmetrics is None, "no python3-prometheus-client here")
    def test_prometheus_reads_openmetrics(self):
        self.predict_in_trace("00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        self.server.get("/v1/models/%22%5c%0a")
        families = list(openmetrics.text_string_to_metric_families(self.scrape_openmetrics()[0]))
        units = {f.name: f.unit for f in families}
        self.assertEqual(len(units), len(families))
        self.assertEqual(units["slipway_run_duration_seconds"], "seconds")
        exemplars = [s.exemplar for f in families for s in f.samples if s.exemplar]
        self.assertGreater(len(exemplars), 0)

    def test_every_name_of_the_dashboard_is_on_the_page(self):
        self.server.predict("half_plus_two", [1.0])
        text = scrape(self.server)
        there = {name for name, _, _ in read(text)}
        # Metrics of events that have not happened yet have no samples.
        there |= set(re.findall(r"^# TYPE (\S+)", text, re.M))
        with open(DASHBOARD, encoding="utf-8") as file:
            board = json.load(file)
        queries = [t["expr"] for p in board["panels"] for t in p.get("targets", ())]
        queries += [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]
        self.assertGreater(len(queries), 20)
        for query in queries:
            names = NAME.findall(query)
            self.assertTrue(names, query)
            for name in names:
                if "_gpu_" not in name:  # test_gpus.py checks the names of GPUs
                    self.assertIn(name, there, query)
        idents = [p["id"] for p in board["panels"]]
        self.assertEqual(len(idents), len(set(idents)))

    def test_the_page_takes_any_method_and_no_query(self):
        for method in ("POST", "PUT", "DELETE", "HEAD"):
            request = support.urllib.request.Request(self.server.url + PAGE, method=method,
                                                     data=b"x" if method == "POST" else None)
            with support.urllib.request.urlopen(request, timeout=10) as answer:
                self.assertEqual(answer.status, 200, method)
                self.assertEqual(answer.headers["Content-Type"], "text/plain")
        status, body = self.server.get(PAGE + "?x=1")
        self.assertEqual(status, 400)
        self.assertIn(b"Unexpected path: " + PAGE.encode() + b"?x=1", body)


class Metadata(support.Case):
    def test_versions_known_to_a_metadata_store_are_listed(self):
        self.put("m/42")
        os.mkdir(self.path("m/42/assets.extra"))
        self.write("m/42/assets.extra/mlmd_uuid", "an id")
        with support.Server(f"--models={self.folder}") as server:
            self.assertIn('\n:tensorflow:serving:mlmd_map{model_name="m",version="42"} 0\n',
                          scrape(server))


class Idle(support.Case):
    def test_memory_that_runs_leave_has_a_bound_over_all_models(self):
        for limit in (0, 10000, 1 << 28):
            with support.Server(f"--models={support.MODELS}",
                                f"--run_memory_idle_bytes={limit}") as server:
                for rows in (1, 100, 1, 100):
                    server.predict("half_plus_two", [1.0] * rows)
                kept = [value for name, _, value in read(scrape(server))
                        if name == "slipway_model_idle_bytes"]
                self.assertEqual(len(kept), 3)
                self.assertLessEqual(sum(kept), limit)
                # The limit of 256 MB is large enough for everything that the runs may retain.
                if limit == 1 << 28:
                    self.assertGreater(sum(kept), 0)


class Path(support.Case):
    def test_is_the_monitoring_files(self):
        config = self.write("monitoring", 'prometheus_config { enable: true, path: "/metrics" }')
        with support.Server(f"--models={support.MODELS}",
                            f"--monitoring_config_file={config}") as server:
            status, body = server.get("/metrics")
            self.assertEqual(status, 200)
            self.assertIn(b"# TYPE :tensorflow:serving:request_count counter\n", body)
            self.assertEqual(server.get(PAGE)[0], 404)
