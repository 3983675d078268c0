"""Twenty clients of every API send requests while versions, labels and a model are added and removed. Each response
must have a code that ALLOWED permits in its situation, and must be correct for the version that it names. Each required
code must occur. Afterwards the server must use no more resources than before."""
import collections
import http.client
import json
import os
import random
import signal
import threading
import time

import grpc
import small_models
from grpc.health.v1 import health_pb2, health_pb2_grpc
from grpc.reflection.v1 import reflection_pb2, reflection_pb2_grpc
from support import SLOW, Case, Server, wait_for
from tensorflow.core.example import example_pb2
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2,
                                     get_model_status_pb2, inference_pb2, model_management_pb2,
                                     model_service_pb2_grpc, predict_pb2,
                                     prediction_service_pb2_grpc, regression_pb2,
                                     session_service_pb2, session_service_pb2_grpc)

ROUNDS = max(8, int(200 / SLOW))
WAIT = 20 * SLOW
VERSIONS = (1, 2, 3)
# Size of each version's weights in bytes, large enough that a leak of one version is visible.
WEIGHT_BYTES = 1 << 20
MAY_GROW_KB = 12 << 10
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
LABELS = ("stable", "canary")

# The gRPC codes that may occur in each situation. A code that is marked with "!" must occur at least once.
ALLOWED = {
    "still": "!OK",  # requests for a model that is not changed
    "latest": "!OK",  # requests for a model that always has at least one version
    "version": "!OK !NOT_FOUND",  # requests for a version that is added and removed
    # Requests for a version whose folder is moved away and back.
    "version on disk": "!OK !NOT_FOUND",
    # Requests for a label whose version may be about to be unloaded.
    "label": "!OK !INVALID_ARGUMENT NOT_FOUND",
    "coming": "!OK !NOT_FOUND",  # requests for a model that is added and removed
    # Versions in the state END remain in the status of the model.
    "coming, its states": "!OK NOT_FOUND",
    "no such model": "!NOT_FOUND",
    "no such signature": "!FAILED_PRECONDITION",
    "no such signature, examples": "!INVALID_ARGUMENT",
    "no such input": "!INVALID_ARGUMENT",
    "no list": "!INVALID_ARGUMENT",
    "a relative path": "!INVALID_ARGUMENT",
    "a model twice": "!INVALID_ARGUMENT",
    "a label of what is not there": "!FAILED_PRECONDITION",
    "hurry": "OK DEADLINE_EXCEEDED",
    "left": "OK CANCELLED",
}
# Maps HTTP status codes to gRPC codes, and lists the situations in which REST returns other codes than gRPC.
REST_CODES = {200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}
ALLOWED_REST = {"no such signature": "!INVALID_ARGUMENT"}


def write_model(folder, version):
    """Writes a model that computes `y = 0.5 x + version` from a tensor or from Examples, so that the value shows which
    version computed it."""
    def build(g):
        g.placeholder("tf_example", "string")
        g.const("names", "string", [0])
        g.const("key", "string", [], string_val=[b"x"])
        g.const("no_default", "float", [0])
        parse = g.node("Parse", "ParseExample", "tf_example", "names", "key", "no_default")
        parse.attr["Nsparse"].i, parse.attr["Ndense"].i = 0, 1
        parse.attr["sparse_types"].list.SetInParent()
        parse.attr["Tdense"].list.type.append(1)
        parse.attr["dense_shapes"].list.shape.add().dim.add(size=1)
        g.const("half", "float", [], float_val=[0.5])
        g.const("version", "float", [], float_val=[version])
        g.node("x", "Identity", "Parse", T="float")
        g.node("half_x", "Mul", "x", "half", T="float")
        g.node("y", "Add", "half_x", "version", T="float")
        g.const("weights", "float", [WEIGHT_BYTES // 4])
        g.graph_def.node[-1].attr["value"].tensor.tensor_content = random.Random(
            version).randbytes(WEIGHT_BYTES)
    e, y = {"inputs": ("tf_example", "string")}, ("y", "float")
    small_models.write(folder, {
        "serving_default": ({"x": ("x", "float")}, {"y": y}),
        "classify": (e, {"scores": y}, "classify"),
        "regress": (e, {"outputs": y}, "regress"),
        "weights": ({"x": ("x", "float")}, {"y": y, "w": ("weights", "float")}),
    }, build)


class Seen:
    """Counts the codes that occurred, and records the wrong responses."""

    def __init__(self):
        self.lock = threading.Lock()
        self.codes = collections.Counter()
        self.wrong = []

    def code(self, api, situation, code, words=""):
        rest = ALLOWED_REST if api.startswith("REST") else {}
        allowed = rest.get(situation) or ALLOWED[situation]
        with self.lock:
            self.codes[api, situation, code] += 1
            if code not in allowed.replace("!", "").split():
                self.wrong.append(f"{api}, {situation}: {code}: {words}")

    def check(self, api, situation, got, expected):
        if got != expected:
            with self.lock:
                self.wrong.append(f"{api}, {situation}: answered {got}, not {expected}")

    def missing(self):
        """Yields a description of each required code that did not occur. Usually, a code must occur in each API that
        was used in the situation. If SLOW is not 1, fewer requests are sent, and each code must occur in at least
        one API."""
        came = {(SLOW == 1 and api, situation, code) for api, situation, code in self.codes}
        for api, situation in sorted({key[:2] for key in self.codes}):
            rest = ALLOWED_REST if api.startswith("REST") else {}
            for code in (rest.get(situation) or ALLOWED[situation]).split():
                if code[0] == "!" and (SLOW == 1 and api, situation, code[1:]) not in came:
                    yield f"{api}, {situation}: never {code[1:]}"


class Client:
    """A thread that sends requests in sequence, each in a random situation."""

    def __init__(self, clients, ask, pause=0.01):
        self.clients, self.ask, self.pause = clients, ask, pause
        self.random = random.Random(ask.__name__)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.clients.over.wait(self.pause):
            try:
                self.ask(self)
            except Exception as error:  # pylint: disable=broad-except
                with self.clients.seen.lock:
                    self.clients.seen.wrong.append(f"{self.ask.__name__}: {error!r}")


def fill(spec, model="m", version=None, label=None, signature=""):
    spec.name = model
    spec.signature_name = signature
    if version is not None:
        spec.version.value = version
    if label is not None:
        spec.version_label = label


class Clients:
    """Clients of every API for one server."""

    PLACES = ("still", "latest", "version", "version on disk", "label", "coming", "no such model")

    def __init__(self, server):
        self.over, self.seen, self.server = threading.Event(), Seen(), server
        self.local = threading.local()
        # All clients share two channels, because a channel per thread would cost more than its calls.
        self.channels = [grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}",
                                               [("grpc.use_local_subchannel_pool", 1)])
                         for _ in range(2)]
        first, second = self.channels
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(first)
        self.session = session_service_pb2_grpc.SessionServiceStub(first)
        self.model = model_service_pb2_grpc.ModelServiceStub(second)
        self.health = health_pb2_grpc.HealthStub(second)
        self.reflection = reflection_pb2_grpc.ServerReflectionStub(second)
        self.connections, self.watched = [], set()
        self.watch = self.health.Watch(health_pb2.HealthCheckRequest(service="coming"))
        self.watcher = threading.Thread(target=self.take_health)
        self.watcher.start()
        self.all = [Client(self, ask) for ask in self.asks()]

    def asks(self):
        return [self.rest_predict, self.rest_predict, self.rest_columns, self.rest_classify,
                self.rest_regress, self.rest_status, self.rest_metadata, self.rest_ready,
                self.rest_metrics, self.predict, self.predict, self.predict_in_a_hurry,
                self.classify, self.regress, self.multi_inference, self.session_run,
                self.metadata, self.status, self.check_health, self.reload, self.reflect]

    def stop(self):
        self.over.set()
        for client in self.all:
            client.thread.join(3 * WAIT)
        self.watch.cancel()
        self.watcher.join(WAIT)
        for connection in self.connections:
            connection.close()
        for channel in self.channels:
            channel.close()

    def place(self, client):
        """Returns a random situation, and the model, version or label that a request in this
        situation names."""
        situation = client.random.choice(self.PLACES)
        return situation, {
            "still": lambda: {"model": "still"}, "latest": lambda: {},
            "version": lambda: {"version": client.random.choice(VERSIONS)},
            "version on disk": lambda: {"model": "disk", "version": 2},
            "label": lambda: {"label": client.random.choice(LABELS)},
            "coming": lambda: {"model": "coming"},
            "no such model": lambda: {"model": "none"}}[situation]()

    # ---- REST ----

    def http(self, method, path, body=None):
        """Sends a REST request and returns (status, body)."""
        connection = getattr(self.local, "connection", None)
        if not connection:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.rest_port,
                                                    timeout=WAIT)
            self.local.connection = connection
            with self.seen.lock:
                self.connections.append(connection)
        connection.request(method, path, body and json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read()

    def rest(self, api, situation, where, body, check, verb):
        path = "/v1/models/" + where.get("model", "m")
        if "version" in where:
            path += f"/versions/{where['version']}"
        if "label" in where:
            path += "/labels/" + where["label"]
        status, text = self.http("POST" if body else "GET", path + verb, body)
        code = REST_CODES.get(status, str(status))
        self.seen.code("REST " + api, situation, code, text)
        if code == "OK":
            check(json.loads(text))
        elif set(json.loads(text)) != {"error"}:
            self.seen.check("REST " + api, situation, text, "an error")

    def values(self, api, situation, where, base):
        """Returns a function that checks that an output equals `base` plus the version's number."""
        expected = [base + where["version"]] if "version" in where else [base + v for v in VERSIONS]

        def check(value):
            if value not in expected:
                self.seen.check(api, situation, value, expected)
        return check

    def rest_predict(self, client):
        situation, where = self.place(client)
        check = self.values("REST predict", situation, where, 2.0)
        self.rest("predict", situation, where, {"instances": [4.0]},
                  lambda a: check(a["predictions"][0]), ":predict")

    def rest_columns(self, client):
        situation, where = client.random.choice([
            ("latest", {}), ("no such signature", {"signature_name": "none"}),
            ("no such input", {"inputs": {"none": 1.0}})])
        check = self.values("REST columns", situation, {}, 2.0)
        self.rest("columns", situation, {}, {"inputs": {"x": [4.0]}, **where},
                  lambda a: check(a["outputs"][0]), ":predict")

    def rest_classify(self, client):
        situation, where = self.place(client)
        check = self.values("REST classify", situation, where, 4.0)
        self.rest("classify", situation, where,
                  {"signature_name": "classify", "examples": [{"x": 8.0}]},
                  lambda a: check(a["results"][0][0][1]), ":classify")

    def rest_regress(self, client):
        situation, where = self.place(client)
        check = self.values("REST regress", situation, where, 4.0)
        self.rest("regress", situation, where,
                  {"signature_name": "regress", "examples": [{"x": 8.0}]},
                  lambda a: check(a["results"][0]), ":regress")

    def rest_status(self, client):
        situation, where = client.random.choice([
            ("latest", {}), ("still", {"model": "still"}), ("no such model", {"model": "none"}),
            ("coming, its states", {"model": "coming"})])

        def check(answer):
            self.check_states("REST status", situation, [
                (s["state"], s["status"]["error_code"]) for s in answer["model_version_status"]])
        self.rest("status", situation, where, None, check, "")

    def rest_metadata(self, client):
        situation, where = self.place(client)

        def check(answer):
            if "version" in where:
                self.seen.check("REST metadata", situation, answer["model_spec"]["version"],
                                str(where["version"]))
            self.seen.check("REST metadata", situation,
                            len(answer["metadata"]["signature_def"]["signature_def"]), 4)
        self.rest("metadata", situation, where, None, check, "/metadata")

    def rest_ready(self, client):
        path, allowed = client.random.choice([
            ("/healthz", {200}), ("/readyz/m", {200}), ("/readyz/still", {200}),
            ("/readyz/none", {503}), ("/readyz/coming", {200, 503}), ("/readyz", {200, 503})])
        status, text = self.http("GET", path)
        if status not in allowed:
            self.seen.check("REST", path, (status, text), allowed)

    def rest_metrics(self, client):
        del client
        status, text = self.http("GET", "/monitoring/prometheus/metrics")
        self.seen.check("REST metrics", "", (status, b":tensorflow:serving:request_count" in text),
                        (200, True))

    def check_states(self, api, situation, states):
        for state, code in states:
            self.seen.check(api, situation, (state in (
                "START", "LOADING", "AVAILABLE", "UNLOADING", "END"), code), (True, "OK"))
        if situation in ("still", "latest") and "AVAILABLE" not in [s[0] for s in states]:
            self.seen.check(api, situation, states, "one that is available")

    # ---- gRPC ----

    def call(self, api, situation, method, request, check=None, **kw):
        """Sends a call and returns the response, or None if the call failed."""
        kw.setdefault("timeout", WAIT)
        try:
            answer = method(request, **kw)
        except grpc.RpcError as error:
            self.seen.code(api, situation, error.code().name, error.details())
            return None
        self.seen.code(api, situation, "OK")
        if check:
            check(answer)
        return answer

    def is_right(self, api, situation, where, spec, value, base, signature):
        """Checks that an output was computed by the version that the response names."""
        self.seen.check(api, situation, value, base + spec.version.value)
        self.seen.check(api, situation, (spec.name, spec.signature_name),
                        (where.get("model", "m"), signature))
        if "version" in where:
            self.seen.check(api, situation, spec.version.value, where["version"])

    def predict_request(self, **where):
        r = predict_pb2.PredictRequest()
        fill(r.model_spec, **where)
        r.inputs["x"].dtype = 1
        r.inputs["x"].tensor_shape.dim.add(size=2)
        r.inputs["x"].float_val.extend([4, 8])
        return r

    def predict(self, client):
        situation, where = self.place(client)
        if client.random.random() < 0.1:
            situation, where = "no such signature", {"signature": "none"}
        request = self.predict_request(**where)
        if client.random.random() < 0.1 and situation == "latest":
            situation = "no such input"
            request.inputs["none"].CopyFrom(request.inputs["x"])
        self.call("Predict", situation, self.prediction.Predict, request, lambda a: self.is_right(
            "Predict", situation, where, a.model_spec, a.outputs["y"].float_val[0], 2,
            "serving_default"))

    def predict_in_a_hurry(self, client):
        if client.random.random() < 0.5:
            self.call("Predict", "hurry", self.prediction.Predict, self.predict_request(),
                      timeout=client.random.uniform(0, 0.003))
            return
        call = self.prediction.Predict.future(self.predict_request(), timeout=WAIT)
        time.sleep(client.random.uniform(0, 0.002))
        call.cancel()
        try:
            call.result()
            code = "OK"
        except grpc.FutureCancelledError:
            code = "CANCELLED"
        except grpc.RpcError as error:
            code = error.code().name
        self.seen.code("Predict", "left", code)

    def examples(self, request, x=8.0):
        e = example_pb2.Example()
        e.features.feature["x"].float_list.value.append(x)
        request.input.example_list.examples.append(e)
        return request

    def classify(self, client):
        situation, where = self.place(client)
        request = self.examples(classification_pb2.ClassificationRequest())
        fill(request.model_spec, signature="classify", **where)
        self.call("Classify", situation, self.prediction.Classify, request,
                  lambda a: self.is_right(
                      "Classify", situation, where, a.model_spec,
                      a.result.classifications[0].classes[0].score, 4, "classify"))

    def regress(self, client):
        situation, where = self.place(client)
        request = self.examples(regression_pb2.RegressionRequest())
        fill(request.model_spec, signature="regress", **where)
        self.call("Regress", situation, self.prediction.Regress, request, lambda a: self.is_right(
            "Regress", situation, where, a.model_spec, a.result.regressions[0].value, 4,
            "regress"))

    def multi_inference(self, client):
        situation, where = self.place(client)
        if client.random.random() < 0.1:
            situation, where = "no such signature, examples", {}
        request = self.examples(inference_pb2.MultiInferenceRequest())
        for signature, method in (("classify", CLASSIFY), ("regress", REGRESS)):
            task = request.tasks.add(method_name=method)
            fill(task.model_spec, signature=signature, **where)
        if situation.startswith("no such signature"):
            request.tasks[1].model_spec.signature_name = "none"

        def check(answer):
            one, two = answer.results
            self.seen.check("MultiInference", situation, one.model_spec.version.value,
                            two.model_spec.version.value)
            self.is_right("MultiInference", situation, where, one.model_spec,
                          one.classification_result.classifications[0].classes[0].score, 4,
                          "classify")
            self.is_right("MultiInference", situation, where, two.model_spec,
                          two.regression_result.regressions[0].value, 4, "regress")
        self.call("MultiInference", situation, self.prediction.MultiInference, request, check)

    def session_run(self, client):
        situation, where = self.place(client)
        request = session_service_pb2.SessionRunRequest(fetch=["y:0"])
        fill(request.model_spec, **where)
        feed = request.feed.add(name="x:0")
        feed.tensor.CopyFrom(self.predict_request().inputs["x"])

        def check(answer):
            value = answer.tensor[0].tensor
            first = value.float_val[0] if value.float_val else memoryview(
                value.tensor_content).cast("f")[0]
            self.seen.check("SessionRun", situation, first, 2 + answer.model_spec.version.value)
        self.call("SessionRun", situation, self.session.SessionRun, request, check)

    def metadata(self, client):
        situation, where = self.place(client)
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        fill(request.model_spec, **where)

        def check(answer):
            signatures = get_model_metadata_pb2.SignatureDefMap()
            self.seen.check("GetModelMetadata", situation,
                            answer.metadata["signature_def"].Unpack(signatures), True)
            self.seen.check("GetModelMetadata", situation, len(signatures.signature_def), 4)
            if "version" in where:
                self.seen.check("GetModelMetadata", situation, answer.model_spec.version.value,
                                where["version"])
        self.call("GetModelMetadata", situation, self.prediction.GetModelMetadata, request, check)

    def status(self, client):
        situation, where = client.random.choice([
            ("latest", {}), ("still", {"model": "still"}), ("no such model", {"model": "none"}),
            ("coming, its states", {"model": "coming"})])
        request = get_model_status_pb2.GetModelStatusRequest()
        fill(request.model_spec, **where)
        self.call("GetModelStatus", situation, self.model.GetModelStatus, request,
                  lambda a: self.check_states("GetModelStatus", situation, [
                      (get_model_status_pb2.ModelVersionStatus.State.Name(s.state),
                       "OK" if s.status.error_code == 0 else s.status)
                      for s in a.model_version_status]))

    def check_health(self, client):
        situation, name = client.random.choice([
            ("still", "still"), ("latest", "m"), ("still", ""), ("no such model", "none"),
            ("coming, its states", "coming")])

        def check(answer):
            if name in ("still", "m"):
                self.seen.check("Health", situation, answer.status, 1)
        self.call("Health", situation, self.health.Check,
                  health_pb2.HealthCheckRequest(service=name), check)

    def take_health(self):
        try:
            for answer in self.watch:
                self.watched.add(answer.status)
        except grpc.RpcError:
            pass

    def reload(self, client):
        """Sends a reload that must be refused and must not change anything."""
        request = model_management_pb2.ReloadConfigRequest()
        models = request.config.model_config_list.config
        situation = client.random.choice(["no list", "a relative path", "a model twice",
                                          "a label of what is not there"])
        if situation == "no list":
            request.Clear()
        else:
            one = models.add(name="m", base_path="/m", model_platform="tensorflow")
        if situation == "a relative path":
            one.base_path = "m"
        if situation == "a model twice":
            models.add().CopyFrom(one)
        if situation == "a label of what is not there":
            one.version_labels["gone"] = 99
        self.call("reload", situation, self.model.HandleReloadConfigRequest, request)

    def reflect(self, client):
        del client
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        for answer in self.reflection.ServerReflectionInfo(iter(asked), timeout=WAIT):
            names = [s.name for s in answer.list_services_response.service]
            self.seen.check("reflection", "", "tensorflow.serving.PredictionService" in names, True)


class Stress(Case):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.applied = 0
        for model, n in (("m", 3), ("disk", 2), ("still", 1), ("coming", 1)):
            for version in VERSIONS[:n]:
                write_model(self.path(model, str(version)), version)
        os.makedirs(self.path("broken", "1"))
        with open(self.path("broken", "1", "saved_model.pb"), "wb") as file:
            file.write(b"no model")

    def config(self, versions, labels, coming, broken=False):
        request = model_management_pb2.ReloadConfigRequest()
        models = request.config.model_config_list.config
        for name in ("m", "disk", "still") + ("coming",) * coming + ("broken",) * broken:
            models.add(name=name, base_path=self.path(name), model_platform="tensorflow")
        models[0].model_version_policy.specific.versions.extend(versions)
        models[0].version_labels.update(labels)
        return request

    def apply(self, by_file, request):
        """Adds a label of the model `still` to the configuration, applies it, and waits until it is in effect."""
        self.applied += 1
        still = next(m for m in request.config.model_config_list.config if m.name == "still")
        still.version_labels[f"applied_{self.applied}"] = 1
        if not by_file:
            self.reload(request, timeout=WAIT)
            return
        staged = self.write("staged", str(request.config))
        os.rename(staged, self.path("models.config"))
        self.server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.answers(f"still/labels/applied_{self.applied}")[0] == 200,
                 "the file to be read again")

    def states(self, model):
        return {v: s[0] for v, s in self.server.states(model).items()}

    def settled(self, versions, coming):
        now = self.states("m")
        return all(now.get(v) == "AVAILABLE" for v in versions) and \
            all(now.get(v, "END") == "END" for v in VERSIONS if v not in versions) and \
            (self.states("coming").get(1) == "AVAILABLE") == coming

    def answers(self, path):
        """Returns (HTTP status, version that responded). The version is None unless the status is 200."""
        status, body = self.server.post(f"/v1/models/{path}:predict", {"instances": [4.0]})
        return status, json.loads(body)["predictions"][0] - 2 if status == 200 else None

    def look(self, versions, labels, coming):
        """Checks, while clients send requests, that exactly the configured versions, labels and models respond."""
        self.assertEqual(self.answers("m"), (200, max(versions)))
        for version in VERSIONS:
            self.assertEqual(self.answers(f"m/versions/{version}"),
                             (200, version) if version in versions else (404, None))
        for label in LABELS:
            if label in labels:
                self.assertEqual(self.answers("m/labels/" + label), (200, labels[label]))
            else:
                self.assertEqual(self.answers("m/labels/" + label), (400, None))
        self.assertEqual(self.answers("coming"), (200, 1) if coming else (404, None))

    def round(self, i, dice):
        """Changes the versions, and then the labels, because labels may point only to existing versions."""
        versions = sorted(dice.sample(VERSIONS, dice.randint(1, len(VERSIONS))))
        coming = dice.random() < 0.5
        self.apply(i % 4 < 2, self.config(versions, {}, coming))
        wait_for(lambda: self.settled(versions, coming), f"round {i}: {versions}, {coming}")
        labels = {label: dice.choice(versions) for label in LABELS if dice.random() < 0.7}
        self.apply(i % 2 == 0, self.config(versions, labels, coming))
        wait_for(lambda: all(self.answers(f"m/labels/{label}")[0] == (200 if label in labels else
                                                                      400)
                             for label in LABELS), f"round {i}: {labels}")
        self.look(versions, labels, coming)
        # One model of the new configuration fails to load, but the rest of the configuration is not rolled back.
        if i % 10 == 0:
            with self.assertRaises(grpc.RpcError) as caught:
                self.reload(self.config(versions, labels, coming, broken=True), timeout=WAIT)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNKNOWN)
            self.assertIn("{name: broken version: 1} due to error: ", caught.exception.details())
            self.look(versions, labels, coming)

        if i % 50 == 3:
            self.move_away_and_back()

    def move_away_and_back(self):
        os.rename(self.path("disk", "2"), self.path("away"))
        wait_for(lambda: self.states("disk")[2] == "END", "a version to go")
        self.assertEqual(self.answers("disk"), (200, 1))
        self.assertEqual(self.answers("disk/versions/2"), (404, None))
        os.rename(self.path("away"), self.path("disk", "2"))
        wait_for(lambda: self.states("disk")[2] == "AVAILABLE", "a version to come back")
        self.assertEqual(self.answers("disk"), (200, 2))

    def resources(self):
        """Returns the server's number of descriptors, number of threads, and resident memory in kilobytes."""
        folder = f"/proc/{self.server.process.pid}/"
        with open(folder + "status", encoding="utf-8") as file:
            kb = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        return len(os.listdir(folder + "fd")), len(os.listdir(folder + "task")), kb

    def everything(self, rounds, dice, make_clients=Clients):
        clients = make_clients(self.server)
        channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}",
                                        [("grpc.use_local_subchannel_pool", 1)])
        self.reload = model_service_pb2_grpc.ModelServiceStub(channel).HandleReloadConfigRequest
        try:
            for i in rounds:
                self.round(i, dice)
                if len(clients.seen.wrong) > 20:
                    break
            self.apply(False, self.config([1], {}, False))
            wait_for(lambda: self.settled([1], False), "the first configuration")
        finally:
            clients.stop()
            channel.close()
        return clients

    def test_every_code_is_one_that_is_allowed_while_versions_and_labels_come_and_go(self):
        file = self.write("models.config", str(self.config([1], {}, False).config))
        dice = random.Random(5)
        with Server(f"--model_config_file={file}", "--enable_session_service",
                    "--allow_version_labels_for_unavailable_models=false",
                    "--max_num_load_retries=0") as server:
            self.server = server
            # A first series of rounds fills caches and creates the threads' arenas before the measurement.
            self.everything(range(max(4, ROUNDS // 10)), dice)
            time.sleep(0.5)
            files, threads, kb = self.resources()
            clients = self.everything(range(ROUNDS), dice)
            self.assertEqual(clients.seen.wrong[:20], [])
            self.assertEqual(list(clients.seen.missing()), [])
            self.assertIn(1, clients.watched)
            self.assertTrue(clients.watched & {2, 3}, clients.watched)

            self.assertEqual(self.answers("m"), (200, 1))
            self.assertEqual(server.get("/readyz/m")[0], 200)
            # gRPC core starts its own timer threads.
            wait_for(lambda: self.resources()[0] <= files and
                     self.resources()[1] <= threads + 2,
                     f"{files} descriptors and {threads} threads, not {self.resources()}")
            # A sanitizer retains freed memory, so memory use is checked only in builds without a sanitizer.
            if SLOW == 1:
                wait_for(lambda: self.resources()[2] < kb + MAY_GROW_KB,
                         f"{kb} KiB, not {self.resources()[2]}")
            total = sum(clients.seen.codes.values())
            print(f"{total} requests, {kb} -> {self.resources()[2]} KiB ", end="", flush=True)
            self.assertEqual(server.stop(), 0)
            self.assertNotIn("Sanitizer", server.log())
