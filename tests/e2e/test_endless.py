"""Tests runs that never end by themselves. Each must end at its deadline or when its version is removed, and must not
keep other models from running."""
import glob
import json
import os
import shutil
import threading

import grpc

import small_models
from grpc_support import CODE, WAIT, GrpcCase
from support import SLOW, wait_for
from tensorflow_serving.apis import predict_pb2


NICE = os.nice(0)


def threads(server, name):
    """Returns {id: nice value} of those threads of the server that have the given name."""
    found = {}
    for task in glob.glob(f"/proc/{server.process.pid}/task/*"):
        try:
            with open(os.path.join(task, "stat"), encoding="utf-8") as file:
                comm, fields = file.read().rsplit(")", 1)
        except OSError:  # the thread has ended, so the kernel has removed its stat file
            continue
        if comm.endswith("(" + name):
            found[os.path.basename(task)] = int(fields.split()[16])
    return found


def priorities(server, name):
    """Returns the nice values of those threads of the server that have the given name."""
    return list(threads(server, name).values())


class Endless(GrpcCase):
    def serve_endless(self, *flags):
        small_models.write_endless(self.path("models/endless/1"))
        self.put("models/half_plus_two/1")
        return self.serve(f"--models={self.path('models')}", "--num_workers=1", "--inline_max_us=0",
                          "--enable_model_warmup=false", *flags)

    def begin(self, server, timeout=None, model="endless", x=1, dims=(), waits=True):
        """Begins a call that does not end by itself and returns its future. Waits until it is counted, if `waits` is true."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        request.inputs["x"].dtype = 1
        request.inputs["x"].tensor_shape.SetInParent()
        for dim in dims:
            request.inputs["x"].tensor_shape.dim.add(size=dim)
        request.inputs["x"].float_val.append(x)
        call = self.client(server).prediction.Predict.future(request, timeout=timeout)
        self.addCleanup(call.cancel)
        if waits:
            wait_for(lambda: server.metric("slipway_jobs") > 0, "the run")
        return call

    def ends(self, call, code, words):
        self.assertIsNotNone(call.exception(timeout=WAIT))
        self.assertEqual(call.code(), code, call.details())
        self.assertIn(words, call.details())

    def test_another_model_runs_beside_one_that_holds_all_workers(self):
        server = self.serve_endless()
        call = self.begin(server)
        for i in range(3):
            self.assertEqual(server.predict("half_plus_two", [float(i)]), [i / 2 + 2])
        self.assertFalse(call.done())

    def test_models_that_hold_all_workers_and_spare_workers_leave_one_to_others(self):
        """Three models have four endless runs each. Every other model must still get a worker."""
        for name in ("a", "b", "c", "other"):
            small_models.write_counting(self.path("models", name, "1"))
        self.put("models/half_plus_two/1")
        server = self.serve(f"--models={self.path('models')}", "--num_workers=2", "--enable_model_warmup=false")
        calls = [self.begin(server, 1000 * WAIT, name, 1e18) for _ in range(4) for name in "abc"]
        for i in range(5):
            self.assertEqual(server.predict("half_plus_two", [float(i)]), [i / 2 + 2])
            status, body = server.post("/v1/models/other:predict", {"inputs": 3.0})
            self.assertEqual((status, json.loads(body)), (200, {"outputs": 3.0}))
        wait_for(lambda: any(nice >= 10 for nice in priorities(server, "slip-spare")), "a run of low priority")
        self.assertTrue(all(nice < 10 for nice in priorities(server, "slip-worker")) or NICE >= 10)
        self.assertFalse(any(call.done() for call in calls))
        for call in calls:
            call.cancel()
        wait_for(lambda: server.metric("slipway_jobs") == 0, "the end of the cancelled calls")
        # Threads of low priority end when their runs end.
        wait_for(lambda: all(nice == NICE for nice in priorities(server, "slip-spare")), "threads of usual priority")
        self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])

    def test_spare_workers_encode_large_outputs_with_low_priority(self):
        """A batch ends before its outputs are encoded. Many spare workers may therefore encode outputs at the same time."""
        small_models.write_shapes(self.path("models/shapes/1"))
        small_models.write_endless(self.path("models/other/1"))
        server = self.serve_endless()
        # One of the two runs occupies the only worker. A spare worker may have taken the other run.
        for model in ("endless", "other"):
            self.begin(server, model=model)
        wait_for(lambda: server.metric("slipway_jobs") == 2 and server.metric("slipway_queue_requests") == 0, "the runs")
        server.predict("half_plus_two", [1.0])
        before = set(threads(server, "slip-spare"))
        status, _ = server.post("/v1/models/shapes:predict", {"signature_name": "fill", "inputs": [100, 1000]})
        self.assertEqual(status, 200)
        # A thread of low priority ends after its batch, because the kernel does not let the thread raise its priority.
        wait_for(lambda: before - set(threads(server, "slip-spare")), "the end of the thread that encoded")
        self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])

    def test_a_run_that_does_not_end_does_not_use_up_num_batch_threads(self):
        self.write("batching.txt", "num_batch_threads { value: 1 }")
        server = self.serve_endless("--enable_batching=true", "--num_workers=3",
                                    f"--batching_parameters_file={self.path('batching.txt')}")
        calls = [self.begin(server, dims=[1]) for _ in range(2)]
        for i in range(3):
            self.assertEqual(server.predict("half_plus_two", [float(i)]), [i / 2 + 2])
        self.assertFalse(any(call.done() for call in calls))

    def test_a_request_without_a_deadline_gets_the_default_one(self):
        server = self.serve_endless("--default_deadline_seconds=1.5", "--rest_api_timeout_in_ms=0")
        words = "the request had no deadline, and --default_deadline_seconds=1.5 have passed"
        running, queued = (self.begin(server, waits=False) for _ in range(2))
        self.ends(running, CODE.DEADLINE_EXCEEDED, words)
        self.ends(queued, CODE.DEADLINE_EXCEEDED, words)
        status, body = server.post("/v1/models/endless:predict", {"inputs": 1.0})
        self.assertEqual(status, 504, body)
        self.assertIn(words, body.decode())
        # A request's own deadline takes precedence over the flag, so the error message does not name the flag.
        with self.assertRaises(grpc.RpcError) as caught:
            self.begin(server, timeout=0.5, waits=False).result(timeout=WAIT)
        self.assertNotIn("default_deadline_seconds", caught.exception.details())

    def test_the_requests_of_a_removed_version_end_after_the_default_deadline(self):
        server = self.serve_endless("--default_deadline_seconds=5")  # the version is seen to be unloaded for so long
        call, queued = self.begin(server, timeout=1000 * WAIT), self.begin(server, 1000 * WAIT)
        wait_for(lambda: server.metric("slipway_jobs") == 2, "both requests")
        shutil.rmtree(self.path("models/endless"))
        wait_for(lambda: server.state("endless", 1) == "UNLOADING", "the unload")
        self.ends(call, CODE.UNAVAILABLE, "the version was unloaded")
        self.ends(queued, CODE.UNAVAILABLE, "the version was unloaded")
        wait_for(lambda: server.state("endless", 1) == "END", "the end of the unload")
        self.assertEqual(server.predict("half_plus_two", [1.0]), [2.5])

    def test_a_model_that_has_been_fast_does_not_hold_a_network_thread(self):
        """After fast requests, a model's runs begin on the network thread. A run that does not end must move to a
        worker, so that the other requests of the network thread do not wait for it."""
        small_models.write_counting(self.path("models/counting/1"))
        self.put("models/half_plus_two/1")
        server = self.serve(f"--models={self.path('models')}", "--num_workers=2", "--enable_model_warmup=false",
                            f"--rest_api_timeout_in_ms={3000 * SLOW:.0f}")
        client = self.client(server)
        for _ in range(30):
            self.assertEqual(server.post("/v1/models/counting:predict", {"inputs": 3.0})[0], 200)
        for n in range(1, 4):  # the third call must not occupy the spare worker
            calls = [self.begin(server, 1000 * WAIT, "counting", 1e18) for _ in range(n)]
            self.assertEqual(client.predict([1.0]), [2.5])
            self.assertEqual(server.predict("half_plus_two", [2.0]), [3.0])
            self.assertEqual(server.get("/readyz")[0], 200)
            self.assertFalse(any(call.done() for call in calls))
            for call in calls:
                call.cancel()
            wait_for(lambda: server.metric("slipway_jobs") == 0, "the end of the cancelled calls")
        statuses = []
        by_rest = threading.Thread(
            target=lambda: statuses.append(server.post("/v1/models/counting:predict", {"inputs": 1e18})[0]))
        for _ in range(30):
            self.assertEqual(server.post("/v1/models/counting:predict", {"inputs": 3.0})[0], 200)
        by_rest.start()
        wait_for(lambda: server.metric("slipway_jobs") == 1, "the run by REST")
        self.assertEqual(server.predict("half_plus_two", [2.0]), [3.0])
        self.assertTrue(by_rest.is_alive())
        by_rest.join()
        self.assertEqual(statuses, [504])


def write_savers(folder, to):
    """Writes a model with two signatures: "save" writes 3 GB below `to`, and "merge" looks for ten million checkpoints
    there."""
    many = 100

    def build(g):
        g.placeholder("x", "float")
        g.const("eight", "int32", [1], int_val=[8 << 20])
        g.node("large", "Fill", "eight", "x", T="float", index_type="int32")
        g.const("prefix", "string", [], string_val=[os.path.join(to, "w").encode()])
        g.const("names", "string", [many], string_val=[b"%d" % i for i in range(many)])
        g.const("parts", "string", [many], string_val=[b""] * many)
        save = g.node("save", "SaveV2", "prefix", "names", "parts", *["large"] * many)
        save.attr["dtypes"].list.type.extend([1] * many)
        g.node("saved", "Identity", "x", "^save", T="float")
        g.const("ten", "int32", [1], int_val=[10000000])
        g.node("prefixes", "Fill", "ten", "prefix", T="string", index_type="int32")
        merge = g.node("merge", "MergeV2Checkpoints", "prefixes", "prefix")
        merge.attr["delete_old_dirs"].b = False
        merge.attr["allow_missing_files"].b = True
        g.node("merged", "Identity", "x", "^merge", T="float")
    small_models.write(folder, {"save": ({"x": ("x", "float")}, {"y": ("saved", "float")}),
                                "merge": ({"x": ("x", "float")}, {"y": ("merged", "float")})}, build)


class LongWrites(GrpcCase):
    def test_a_save_and_a_merge_end_with_their_request(self):
        to = self.path("to")
        os.mkdir(to)
        write_savers(self.path("m", "1"), to)
        server = self.serve(f"--model_base_path={self.path('m')}", "--model_name=m", "--enable_model_warmup=false",
                            f"--rest_api_timeout_in_ms={400 * SLOW:.0f}")
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        request.model_spec.signature_name = "save"
        request.inputs["x"].dtype = 1
        request.inputs["x"].tensor_shape.SetInParent()
        request.inputs["x"].float_val.append(1)
        call = self.client(server).prediction.Predict.future(request, timeout=1000 * WAIT)
        wait_for(lambda: any(os.path.getsize(p) for p in glob.glob(os.path.join(to, "*"))), "the first bytes")
        call.cancel()
        wait_for(lambda: server.metric("slipway_jobs") == 0, "the end of the save")
        self.assertEqual(os.listdir(to), [])
        status, body = server.post("/v1/models/m:predict", {"signature_name": "merge", "inputs": 1.0})
        self.assertEqual(status, 504, body)
        self.assertIn("the deadline passed", json.loads(body)["error"])
