"""A server whose libc calls can be made to fail, the requests to it, and the conditions that must hold whenever it is
idle."""
import base64
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time

import grpc
import records
from google.protobuf import text_format
from grpc.health.v1 import health_pb2, health_pb2_grpc
from grpc.reflection.v1 import reflection_pb2, reflection_pb2_grpc
from slipway import admin_service_pb2
from support import MODELS, SLOW, Server, wait_for
from tensorflow.core.example import example_pb2
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2,
                                     get_model_status_pb2, inference_pb2, model_management_pb2,
                                     model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc, regression_pb2,
                                     session_service_pb2, session_service_pb2_grpc)
from test_stress import CLASSIFY, REGRESS, write_model

WAIT = 5 * SLOW
# Memory limit for each loaded version, at most 1.5 times the memory that the server counts for a version. If the memory
# of a freed version is still counted, the next versions do not fit, and their loads fail.
VERSION_BYTES = 19 << 19
# Memory limit for all runs together. It is small, so that later runs fail if a run's memory is still counted after the
# run has ended. Idle plans may use half of this limit.
RUNS_BYTES = 64 << 20
CORE_THREADS = 2  # number of timer threads that gRPC core may start on its own
# The only codes that a server may return for lack of memory, descriptors or disk space.
REFUSALS = ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
LOAD_CODES = REFUSALS + ("ABORTED",)  # codes with which a load may fail before it is tried again
REST_REFUSALS = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
BATCHING = "max_batch_size { value: 64 } batch_timeout_micros { value: 2000 } " \
    "num_batch_threads { value: 2 } max_enqueued_batches { value: 100 } " \
    "enable_large_batch_splitting { value: true } max_execution_batch_size { value: 8 }"


class Wrong(AssertionError):
    pass


class Late(Wrong):
    """No response has arrived within the time limit."""


class Refused(Exception):
    """The server has returned a code in REFUSALS, or has closed the connection."""


def check(got, expected, what):
    if got != expected:
        raise Wrong(f"{what}: {got!r}, not {expected!r}")


def near(got, expected, what):
    if len(got) != len(expected) or any(abs(a - b) > 1e-4 for a, b in zip(got, expected)):
        raise Wrong(f"{what}: {got!r}, not {expected!r}")


# held while a server starts, because the server takes its settings from this process's environment
STARTING = threading.Lock()


class Served:
    """A server with five models. `half` is version 1 or 2 of half_plus_two, from a checkpoint. `digits` is the digit
    classifier. `m` has versions 1 and 2 of a constant graph that takes Examples, and is absent if `small` is true.
    `more` is added and removed by requests. `watched` serves its newest version, which has warm-up requests and
    goldens. `secure` adds REST and gRPC over TLS."""

    def __init__(self, control, *flags, small=False, watched=False, secure=False):
        self.control, self.half, self.serial, self.watches = control, 1, 0, []
        self.folder = tempfile.mkdtemp(prefix="slipway-fault-")
        self.fixed = {"digits": [1]} if small else {"m": [1, 2], "digits": [1]}
        self.version = 1 if watched else 0
        self.expected_digits = None
        self.level = None  # number of descriptors and number of threads of the idle server
        for name in ("half_plus_two", "digits"):
            shutil.copytree(os.path.join(MODELS, name), os.path.join(self.folder, name),
                            ignore=shutil.ignore_patterns("held_out"))
        for version in (1, 2):
            write_model(os.path.join(self.folder, "m", str(version)), version)
        write_model(os.path.join(self.folder, "more", "1"), 1)
        os.mkdir(os.path.join(self.folder, "logs"))
        with open(os.path.join(self.folder, "batching"), "w", encoding="ascii") as file:
            file.write(BATCHING)
        self.write_config()
        self.write_watched()
        self.labelled, self.applied = None, False
        self.wait = WAIT
        self.rows = 30  # number of rows of the next request with a new shape
        most = 3 + 2 * (not small) + watched
        self.flags = [f"--model_config_file={self.path('config')}", "--enable_session_service",
                      "--load_retry_interval_micros=50000", "--max_num_load_retries=1000000",
                      "--num_load_threads=1", "--drain_timeout=10",
                      f"--total_model_memory_limit_bytes={most * VERSION_BYTES}",
                      f"--run_memory_total_bytes={RUNS_BYTES}",
                      *(f.replace("@", self.folder) for f in flags)]
        self.secure = self.make_secure() if secure else None
        with open(os.path.join(MODELS, "digits", "held_out", "00.json"), encoding="ascii") as file:
            self.picture = json.load(file)
        self.server = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_secure(self):
        """Makes a self-signed certificate and configures the server with it. Returns the SSLContext for clients."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-keyout", self.path("key"), "-out", self.path("cert")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(self.path("ssl"), "w", encoding="ascii") as file:
            for name in ("key", "cert"):
                with open(self.path(name), encoding="ascii") as part:
                    file.write(f"server_{name}: {json.dumps(part.read())}\n")
        self.flags += [f"--rest_tls_cert_file={self.path('cert')}",
                       f"--rest_tls_key_file={self.path('key')}",
                       f"--ssl_config_file={self.path('ssl')}"]
        return ssl.create_default_context(cafile=self.path("cert"))

    def start(self, wait=True):
        with STARTING:
            os.environ["SLIPWAY_FAULT"] = self.control.path
            self.server = Server(*self.flags, wait=False)
        if wait:
            wait_for(self.is_ready, lambda: "the server to be ready: " + self.server.log())
        self.channel = self.new_channel()
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.session = session_service_pb2_grpc.SessionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.reflection = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        self.told = 0

    def new_channel(self):
        at = f"127.0.0.1:{self.server.grpc_port}"
        # If a channel is closed before it is connected, gRPC closes the socket only at the end of the back-off time. The
        # back-off time is therefore short.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.min_reconnect_backoff_ms", 2000)]
        if not self.secure:
            return grpc.insecure_channel(at, options)
        with open(self.path("cert"), "rb") as file:
            return grpc.secure_channel(at, grpc.ssl_channel_credentials(file.read()), options)

    def is_ready(self):
        if self.server.process.poll() is not None:
            raise AssertionError(f"the server has ended with {self.server.process.returncode}: "
                                 + self.server.out() + self.server.log())
        try:
            return self.http("GET", "/readyz")[0] == 200
        except (OSError, Refused, Late):
            return False

    def warm(self):
        self.settle_all()
        self.expected_digits = self.rest("POST", "/v1/models/digits:predict", self.picture)

    def end(self):
        """Sends SIGTERM. Returns a description of any failure that occurred before the process ended, or None."""
        for watch in self.watches:
            watch.cancel()
        try:
            status = self.server.stop(40)
        except AssertionError as late:
            return str(late)[-3000:]
        finally:
            self.channel.close()
        log = self.server.log()
        at = log.find("ERROR: ")
        at = at if at >= 0 else log.find("runtime error:")
        if status or at >= 0 or "Sanitizer" in log:
            return f"exit status {status}: " + (log[max(0, at - 200):at + 6000] if at >= 0 else log[-3000:])
        return None

    def clear(self):
        if self.server:
            if self.server.process.poll() is None:
                self.server.process.kill()
                self.server.process.wait()
            shutil.rmtree(self.server.folder, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- requests: each checks its answer, or raises Refused ----

    def http(self, method, path, body=None, headers=None):
        """Sends a request over its own connection and returns (status, headers, body)."""
        at = ("127.0.0.1", self.server.rest_port)
        connection = http.client.HTTPSConnection(*at, timeout=self.wait, context=self.secure) \
            if self.secure else http.client.HTTPConnection(*at, timeout=self.wait)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except TimeoutError as error:
            raise Late(f"{method} {path}: no answer in {self.wait} s") from error
        except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionResetError,
                BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise Refused(f"hung up: {error!r}") from error
        finally:
            connection.close()

    def rest(self, method, path, body=None, headers=None, raw=False):
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        status, got, text = self.http(method, path, body, headers)
        if got.get("Content-Encoding") == "gzip":
            text = gzip.decompress(text)
        if status in REST_REFUSALS:
            raise Refused(f"{REST_REFUSALS[status]}: {text.decode()}")
        if status != 200:
            raise Wrong(f"{method} {path}: {status} {text[:300]!r}")
        return text if raw else json.loads(text)

    def call(self, method, request):
        try:
            return method(request, timeout=self.wait)
        except grpc.RpcError as error:
            code = error.code().name
            if code in REFUSALS:
                raise Refused(f"{code}: {error.details()}") from error
            kind = Late if code == "DEADLINE_EXCEEDED" else Wrong
            raise kind(f"{code}: {error.details()}") from error

    def numbers(self, n):
        self.serial += 1
        return [float((self.serial + i) % 50) for i in range(n)]

    def rest_predict(self):
        x = self.numbers(3)
        got = self.rest("POST", "/v1/models/half_plus_two:predict", {"instances": x})
        near(got["predictions"], [v / 2 + self.addend() for v in x], "REST predict")

    def addend(self):
        return 4.0 - self.half

    def rest_columns(self):
        x = self.numbers(2)
        got = self.rest("POST", "/v1/models/m/versions/1:predict", {"inputs": {"x": x}})
        near(got["outputs"], [v / 2 + 1 for v in x], "REST predict, columns")

    def rest_strings(self):
        e = example_pb2.Example()
        e.features.feature["x"].float_list.value.append(6)
        coded = {"b64": base64.b64encode(e.SerializeToString()).decode()}
        got = self.rest("POST", "/v1/models/m:predict",
                        {"signature_name": "classify", "instances": [coded, coded]})
        near([v for row in got["predictions"] for v in (row if isinstance(row, list) else [row])],
             [5.0, 5.0], "REST predict, strings")

    def rest_classify(self):
        got = self.rest("POST", "/v1/models/m:classify",
                        {"signature_name": "classify", "examples": [{"x": 8.0}]})
        near([got["results"][0][0][1]], [6.0], "REST classify")

    def rest_regress(self):
        got = self.rest("POST", "/v1/models/m:regress",
                        {"signature_name": "regress", "examples": [{"x": 8.0}, {"x": 2.0}]})
        near(got["results"], [6.0, 3.0], "REST regress")

    def rest_gzip(self):
        # The request is inflated in several steps, and the response is deflated.
        x = self.numbers(5000)
        status = self.rest("POST", "/v1/models/m:predict",
                           gzip.compress(json.dumps({"instances": x}).encode()),
                           {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
        near(status["predictions"], [v / 2 + 2 for v in x], "REST predict, gzip")

    def rest_large(self):
        x = self.numbers(60000)  # The request is so large that a worker decodes it.
        got = self.rest("POST", "/v1/models/m:predict", {"instances": x})
        near(got["predictions"], [v / 2 + 2 for v in x], "REST predict, large")

    def rest_info(self):
        states = self.rest("GET", "/v1/models/m")["model_version_status"]
        check([(s["version"], s["state"]) for s in states], [("2", "AVAILABLE"), ("1", "AVAILABLE")],
              "REST status")
        signatures = self.rest("GET", "/v1/models/m/metadata")["metadata"]["signature_def"]
        check(sorted(signatures["signature_def"]),
              ["classify", "regress", "serving_default", "weights"], "REST metadata")
        check(self.rest("GET", "/readyz", raw=True) is not None, True, "readyz")
        page = self.rest("GET", "/monitoring/prometheus/metrics", raw=True).decode()
        check("slipway_build_info" in page, True, "the end of the page of metrics")

    def rest_wrong(self):
        """During a fault, invalid requests must be refused as invalid or for lack of resources."""
        for body, code in ((b"{", 400), (b'{"instances": ["a"]}', 400), (b'{"examples": []}', 400)):
            status, _, text = self.http("POST", "/v1/models/half_plus_two:predict", body)
            if status in REST_REFUSALS:
                raise Refused(f"{REST_REFUSALS[status]}: {text.decode()}")
            check(status, code, f"REST, wrong: {text!r}")
        status, _, text = self.http("POST", "/v1/models/none:predict", b'{"instances": [1]}')
        if status in REST_REFUSALS:
            raise Refused(f"{REST_REFUSALS[status]}: {text.decode()}")
        check(status, 404, f"REST, no such model: {text!r}")

    def predict_request(self, model, x, signature=""):
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        t = request.inputs["x"]
        t.dtype, t.float_val[:] = 1, x
        t.tensor_shape.dim.add().size = len(x)
        return request

    def grpc_predict(self, model="half_plus_two", n=3):
        x = self.numbers(n)
        y = self.call(self.prediction.Predict, self.predict_request(model, x)).outputs["y"]
        near(values(y), [v / 2 + (2 if model == "m" else self.addend()) for v in x], "Predict")

    def grpc_many(self):
        """Sends more calls than the server accepts at a time. A Watch stream is opened before each call and stays open,
        so the stream takes the memory that earlier calls have released, and each call needs new memory."""
        for _ in range(20):
            watch = self.health.Watch(health_pb2.HealthCheckRequest(service=""))
            watch.add_callback(lambda: None)
            self.watches.append(watch)
            try:
                self.grpc_predict()
            except Refused:
                pass

    def grpc_large(self):
        self.grpc_predict("m", 100000)

    def examples(self, request, x=8.0):
        e = example_pb2.Example()
        e.features.feature["x"].float_list.value.append(x)
        request.input.example_list.examples.append(e)
        return request

    def grpc_examples(self):
        request = self.examples(classification_pb2.ClassificationRequest())
        request.model_spec.name, request.model_spec.signature_name = "m", "classify"
        got = self.call(self.prediction.Classify, request)
        near([got.result.classifications[0].classes[0].score], [6.0], "Classify")
        request = self.examples(regression_pb2.RegressionRequest())
        request.model_spec.name, request.model_spec.signature_name = "m", "regress"
        got = self.call(self.prediction.Regress, request)
        near([got.result.regressions[0].value], [6.0], "Regress")
        request = self.examples(inference_pb2.MultiInferenceRequest())
        for signature, method in (("classify", CLASSIFY), ("regress", REGRESS)):
            task = request.tasks.add(method_name=method)
            task.model_spec.name, task.model_spec.signature_name = "m", signature
        got = self.call(self.prediction.MultiInference, request)
        near([got.results[0].classification_result.classifications[0].classes[0].score,
              got.results[1].regression_result.regressions[0].value], [6.0, 6.0], "MultiInference")

    def grpc_session(self):
        """Sends a SessionRun request, which fetches tensors by name. Three requests in sequence have different fetches,
        for which the server makes different plans."""
        self.serial += 1
        request = session_service_pb2.SessionRunRequest(
            fetch=["y:0", "half_x:0", "weights:0"][:1 + self.serial % 3])
        request.model_spec.name = "m"
        feed = request.feed.add(name="x:0")
        feed.tensor.CopyFrom(self.predict_request("m", [4.0]).inputs["x"])
        got = self.call(self.session.SessionRun, request)
        near(values(got.tensor[0].tensor), [4.0], "SessionRun")

    def grpc_info(self):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "m"
        got = self.call(self.prediction.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        check(got.metadata["signature_def"].Unpack(signatures), True, "GetModelMetadata")
        check(sorted(signatures.signature_def), ["classify", "regress", "serving_default", "weights"],
              "GetModelMetadata")
        for name, s in signatures.signature_def.items():
            check((len(s.inputs), len(s.outputs), s.method_name != ""),
                  (1, 2 if name == "weights" else 1, True), "GetModelMetadata " + name)
            for t in list(s.inputs.values()) + list(s.outputs.values()):
                check((t.name != "", t.dtype != 0, t.tensor_shape.unknown_rank), (True, True, True),
                      "a tensor's metadata")
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "m"
        got = self.call(self.model.GetModelStatus, request)
        check([(s.version, s.state, s.status.error_code) for s in got.model_version_status],
              [(2, 30, 0), (1, 30, 0)], "GetModelStatus")

    def snapshot(self):
        """Writes a snapshot. Whatever the response is, there may be nothing but complete versions."""
        folder = self.path("snapshots")
        request = admin_service_pb2.SnapshotRequest(model="half_plus_two", output=folder)
        try:
            got = self.channel.unary_unary("/slipway.Admin/Snapshot", admin_service_pb2.SnapshotRequest.SerializeToString,
                                           admin_service_pb2.SnapshotResponse.FromString)(request, timeout=self.wait)
            check(os.listdir(folder), [str(got.version)], "the folder of snapshots")
        except grpc.RpcError as error:
            if error.code().name == "DEADLINE_EXCEEDED":
                raise Late(error.details()) from error
            raise Refused(f"{error.code().name}: {error.details()}") from error
        finally:
            # A version stays if only its response could not be written.
            for name in os.listdir(folder) if os.path.exists(folder) else ():
                files = sorted(os.path.relpath(os.path.join(at, n), folder) for at, _, names in os.walk(f"{folder}/{name}") for n in names)
                shutil.rmtree(f"{folder}/{name}")
                check(files, [f"{int(name) if name.isdigit() else 'N'}/{n}" for n in
                              ("saved_model.pb", "variables/variables.data-00000-of-00001", "variables/variables.index")],
                      "a snapshot")

    def grpc_health(self):
        for name in ("", "m", "tensorflow.serving.PredictionService"):
            got = self.call(self.health.Check, health_pb2.HealthCheckRequest(service=name))
            check(got.status, 1, "health of " + repr(name))
        watch = self.health.Watch(health_pb2.HealthCheckRequest(service="m"), timeout=self.wait)
        try:
            check(next(watch).status, 1, "watched health")
        except grpc.RpcError as error:
            if error.code().name not in REFUSALS:
                raise Wrong(f"Watch: {error.code()}: {error.details()}") from error
            raise Refused(error.code().name) from error
        finally:
            watch.cancel()

    def grpc_reflection(self):
        asked = [reflection_pb2.ServerReflectionRequest(list_services=""),
                 reflection_pb2.ServerReflectionRequest(
                     file_containing_symbol="tensorflow.serving.PredictionService")]
        try:
            got = list(self.reflection.ServerReflectionInfo(iter(asked), timeout=self.wait))
        except grpc.RpcError as error:
            if error.code().name not in REFUSALS:
                raise Wrong(f"reflection: {error.code()}: {error.details()}") from error
            raise Refused(error.code().name) from error
        check(len(got), 2, "answers of reflection")
        names = [s.name for s in got[0].list_services_response.service]
        check("tensorflow.serving.PredictionService" in names, True, "reflection")
        check(len(got[1].file_descriptor_response.file_descriptor_proto) > 0, True, "reflection")

    def new_connection(self):
        with self.new_channel() as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            self.call(lambda r, timeout: stub.Check(r, timeout=timeout, wait_for_ready=True),
                      health_pb2.HealthCheckRequest(service=""))

    def new_shape(self):
        """Sends requests with a new number of rows, often enough for the server to compile code for the new shape."""
        self.rows += 1
        for _ in range(3):
            self.grpc_predict("m", self.rows)
            x = self.numbers(self.rows)
            got = self.rest("POST", "/v1/models/half_plus_two:predict", {"instances": x})
            near(got["predictions"], [v / 2 + self.addend() for v in x], "a new shape")
        time.sleep(0.02 * SLOW)  # leaves time for the compiler, which runs concurrently with requests

    def digits(self):
        got = self.rest("POST", "/v1/models/digits:predict", self.picture)
        if self.expected_digits:
            near(flat(got), flat(self.expected_digits), "digits")

    def batch(self):
        """Sends several requests at the same time, one of which has more rows than a batch may have."""
        failures = []

        def ask(what):
            try:
                what()
            except (Refused, Wrong) as error:
                failures.append(error)
        asks = [lambda n=n: self.grpc_predict("m", n) for n in (1, 1, 2, 3, 20)]
        threads = [threading.Thread(target=ask, args=(a,)) for a in asks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for error in sorted(failures, key=lambda e: isinstance(e, Refused)):
            raise error

    # ---- versions ----

    def config(self, half, more=False, label=None):
        request = model_management_pb2.ReloadConfigRequest()
        models = request.config.model_config_list.config
        for name in ("half_plus_two", *self.fixed) + ("more",) * more + ("watched",) * (
                self.version > 0):
            models.add(name=name, base_path=self.path(name), model_platform="tensorflow")
        models[0].model_version_policy.specific.versions.append(half)
        if "m" in self.fixed:
            models[1].model_version_policy.specific.versions.extend([1, 2])
        if label:
            models[1].version_labels["label"] = label
        log = models[0].logging_config
        log.log_collector_config.filename_prefix = self.path("logs/half")
        log.sampling_config.sampling_rate = 1.0
        return request

    def write_config(self):
        with open(self.path("config.new"), "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(self.config(self.half).config))
        os.rename(self.path("config.new"), self.path("config"))

    def write_watched(self):
        """Writes the next version of `watched` to a staging folder and renames it to its final path."""
        if not self.version:
            return
        made = self.path("made")
        write_model(made, self.version)
        logs = [records.predict([n], [n / 2 + self.version]) for n in (1.0, 4.0)]
        records.write(os.path.join(made, "assets.extra", "tf_serving_warmup_requests"), logs)
        records.write(os.path.join(made, "assets.extra", "slipway_golden_requests"), logs)
        os.makedirs(self.path("watched"), exist_ok=True)
        os.rename(made, self.path(f"watched/{self.version}"))

    def apply(self, request):
        """Sends a configuration until it is accepted. A fault may make the server refuse the configuration, and a refused
        configuration must change nothing."""
        self.applied = False
        for _ in range(5):
            try:
                self.call(self.model.HandleReloadConfigRequest, request)
                self.applied = True
                return
            except Refused:
                pass
            except Wrong as error:
                # The configuration is accepted, but the first load of its new model has failed.
                codes = re.findall(r"due to error: (\w+): ", str(error))
                # DATA_LOSS means that a file could not be read. The caller of failed_loads checks whether this
                # failure is allowed.
                if not str(error).startswith("UNKNOWN") or set(codes) - {*LOAD_CODES, "DATA_LOSS"}:
                    raise
                self.applied = True
                return
        raise Late("the configuration was refused five times")

    def settle_all(self):
        self.settle("half_plus_two", [self.half])
        for model, versions in self.fixed.items():
            self.settle(model, versions)
        if self.version:
            self.settle("watched", [self.version])

    def settle(self, model, wanted, within=None):
        """Waits until exactly the versions `wanted` are served. A version that failed to load must report a reason."""
        end = time.monotonic() + (within or 2 * self.wait)
        while True:
            try:
                answer = self.rest("GET", "/v1/models/" + model)
                states = {int(s["version"]): s for s in answer["model_version_status"]}
            except (Refused, Wrong):
                states = {}
            for s in states.values():
                if s["status"]["error_code"] != "OK" and not s["status"]["error_message"]:
                    raise Wrong(f"{model}: no reason: {s}")
            serving = {v for v, s in states.items() if s["state"] == "AVAILABLE"}
            busy = {v for v, s in states.items() if s["state"] not in ("AVAILABLE", "END")}
            if serving == set(wanted) and not busy:
                return
            if time.monotonic() > end:
                raise Late(f"{model}: {states}, not {wanted}")
            time.sleep(0.005)

    def swap(self):
        self.half = 3 - self.half
        self.apply(self.config(self.half))
        self.settle("half_plus_two", [self.half])

    def drop(self):
        """Adds a version that the server finds, reads, warms up and compares with its goldens before it retires the
        previous version."""
        old, self.version = self.version, self.version + 1
        self.write_watched()
        try:
            self.settle("watched", [self.version])
            got = self.rest("POST", "/v1/models/watched:predict", {"instances": [4.0]})
            near(got["predictions"], [2.0 + self.version], "a version that was found")
        finally:
            shutil.rmtree(self.path(f"watched/{old}"))

    def file_again(self):
        """Changes the configuration file and sends SIGHUP. If the file could not be read, nothing may change until the
        next SIGHUP."""
        self.half = 3 - self.half
        self.write_config()
        for left in range(4, -1, -1):
            self.server.process.send_signal(signal.SIGHUP)
            try:
                self.settle("half_plus_two", [self.half], self.wait / 3)
                return
            except Late:
                if not left:
                    raise

    def add_and_remove(self):
        """Adds and removes a model. A model that is AVAILABLE must be able to respond immediately."""
        self.apply(self.config(self.half, more=True))
        self.settle("more", [1])
        got = self.rest("POST", "/v1/models/more:predict", {"instances": [4.0]})
        near(got["predictions"], [3.0], "a new model")
        self.apply(self.config(self.half))
        self.settle("more", [])

    def label(self):
        """Moves a label. Responses must come from the label's new version as soon as the next serving map is published."""
        self.labelled = 3 - (self.labelled or 1)
        self.apply(self.config(self.half, label=self.labelled))
        self.check_label()

    def check_label(self):
        got = self.rest("POST", "/v1/models/m/labels/label:predict", {"instances": [4.0]})
        near(got["predictions"], [2.0 + self.labelled], "a label")

    # ---- what is always so ----

    def repair(self):
        """Restores the configuration. An accepted change completes by itself. A change that a fault has prevented is
        sent again."""
        if self.labelled and self.applied:
            self.check_label()
        self.labelled = None
        self.apply(self.config(self.half))
        self.settle_all()

    def is_idle(self):
        page = self.rest("GET", "/monitoring/prometheus/metrics", raw=True).decode()
        gauges = re.findall(r"^(slipway_(?:bytes_in_flight|jobs|requests_in_flight|queue_requests)"
                            r"\S*) (\S+)$", page, flags=re.M)
        check(len(gauges) >= 5, True, "gauges")
        return {k: v for k, v in gauges
                if float(v) != (1 if k == 'slipway_requests_in_flight{entrypoint="REST"}' else 0)}

    def note_level(self):
        time.sleep(0.1)  # leaves time for the server to release connections that were just closed
        files, threads = self.resources()
        self.level = len(files), threads

    def is_level(self):
        """Describes the descriptors or threads that exceed the idle level. Returns None if there are none."""
        if not self.level:
            return None
        files, threads = self.resources()
        if len(files) > self.level[0]:
            return f"{len(files)} descriptors, before {self.level[0]}: {sorted(files)}"
        if threads > self.level[1] + CORE_THREADS:
            return f"{threads} threads, before {self.level[1]}"
        return None

    def probe(self):
        """Checks that the server responds correctly, that its gauges are those of an idle server, and that no
        descriptor or thread is left over."""
        if self.server.process.poll() is not None:
            raise Wrong(f"the process has ended with {self.server.process.returncode}")
        self.rest_predict()
        self.grpc_predict()
        self.digits()
        if "m" in self.fixed:
            self.grpc_predict("m")
        end = time.monotonic() + self.wait
        while True:
            busy = self.is_idle() or self.is_level()
            if not busy:
                break
            if time.monotonic() > end:
                raise Wrong(f"still counted: {busy}")
            time.sleep(0.01)

    def failed_loads(self):
        """Returns the codes and messages of loads that have failed since the last call."""
        with open(self.server.log_path, encoding="utf-8", errors="replace") as file:
            file.seek(self.told)
            text = file.read()
            self.told = file.tell()
        return re.findall(r"Loading servable: .* failed: ([A-Z_]+): (.*)", text)

    def resources(self):
        """Returns the targets of the server's descriptors and the number of its threads. The request log is left out,
        because it has one open file or none."""
        folder = f"/proc/{self.server.process.pid}/"
        files = []
        for name in os.listdir(folder + "fd"):
            try:
                files.append(os.readlink(folder + "fd/" + name))
            except OSError:
                pass  # the descriptor was closed after the folder was listed
        logs = [f for f in files if f.startswith(self.path("logs"))]
        for one in logs[:1]:
            files.remove(one)
        return files, len(os.listdir(folder + "task"))


def values(t):
    return list(t.float_val) or list(memoryview(t.tensor_content).cast("f"))


def flat(answer):
    return [v for row in answer["predictions"] for v in row]
