"""Tests queues that several clients feed and drain, over REST and gRPC. Runs that wait for each other occupy no
worker."""
import contextlib
import json
import os
import threading

import small_models
from grpc_support import CODE, WAIT, GrpcCase
from support import command, wait_for
from tensorflow_serving.apis import predict_pb2


class Queues(GrpcCase):
    def serve_queue(self, *flags, capacity=3, ref=False):
        self.folder = self.path(f"models-{ref}-{capacity}")
        small_models.write_queue(f"{self.folder}/queue/1", capacity, ref)
        self.put(f"{self.folder}/half_plus_two/1")
        return self.serve(f"--models={self.folder}", *flags)

    def begin(self, client, signature, x=0.0, timeout=WAIT):
        """Begins a call and returns its future."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "queue"
        request.model_spec.signature_name = signature
        t = request.inputs["x"]
        t.dtype = 1
        t.tensor_shape.SetInParent()
        if isinstance(x, list):
            t.tensor_shape.dim.add(size=len(x))
        t.float_val.extend(x if isinstance(x, list) else [x])
        return client.prediction.Predict.future(request, timeout=timeout)

    def call(self, client, signature, x=0.0):
        return list(self.begin(client, signature, x).result().outputs["y"].float_val)

    def post(self, server, signature, x=0.0):
        status, body = server.post("/v1/models/queue:predict", {"signature_name": signature, "inputs": {"x": x}})
        self.assertEqual(status, 200, body)
        return json.loads(body)["outputs"]

    def test_the_command_prints_an_error_in_one_readable_line(self):
        server = self.serve_queue()
        self.post(server, "close")
        for address in (f"grpc://127.0.0.1:{server.grpc_port}", f"http://127.0.0.1:{server.rest_port}"):
            code, out, err = command("predict", "queue", '{"inputs": {"x": 0}}', "--signature=take",
                                     f"--server={address}")
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, r"^slipway predict: \w+: [^\\\n]* is closed and has insufficient elements"
                                  r"[^\\\n]*\) \[\[{{node take}}\]\]\n$")

    def test_runs_that_compute_after_a_wait_leave_the_cores_to_others(self):
        """Many runs wait for a number each, and then count to it without end. One of them for each worker keeps its
        priority for a while, and then all lose it."""
        server, n = self.serve_queue("--num_workers=2", capacity=100), 20
        client = self.client(server)

        def idle():
            n_idle = 0
            for task in os.listdir(f"/proc/{server.process.pid}/task"):
                with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
                    n_idle += os.sched_getscheduler(int(task)) == os.SCHED_IDLE
            return n_idle

        spins = [self.begin(client, "spin") for _ in range(n)]
        wait_for(lambda: server.metric("slipway_jobs") == n, "all runs")
        self.assertEqual(idle(), 0)
        for _ in range(n):
            self.call(client, "put", 1e18)
        wait_for(lambda: idle() == n, "the lowest priority")
        self.assertFalse(any(s.done() for s in spins))
        self.assertEqual(client.predict(), [3.0])
        for s in spins:
            s.cancel()
        wait_for(lambda: server.metric("slipway_jobs") == 0, "the end of the runs")
        wait_for(lambda: idle() == 0, "the end of their threads")

    def test_several_clients_feed_and_drain_a_queue(self):
        for ref in (False, True):
            with self.subTest(ref=ref):
                self.feed_and_drain(self.serve_queue(ref=ref))

    def feed_and_drain(self, server):
        each, taken, errors = 40, [[] for _ in range(4)], []

        def feed(k):
            client = self.client(server)
            for i in range(each):
                x = float(k * each + i)
                if k % 2:
                    self.call(client, "put", x)
                else:
                    self.post(server, "put", x)

        def drain(k):
            client = self.client(server)
            for _ in range(each):
                taken[k].append(self.call(client, "take")[0] if k % 2 else self.post(server, "take"))

        def guarded(work, k):
            try:
                work(k)
            except Exception as e:  # a thread's failure must fail the test
                errors.append(e)

        threads = [threading.Thread(target=guarded, args=(work, k)) for k in range(4) for work in (drain, feed)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(sorted(sum(taken, [])), [float(x) for x in range(4 * each)])
        for line in taken:  # the items of one feeder arrive in order
            for k in range(4):
                mine = [x for x in line if x // each == k]
                self.assertEqual(mine, sorted(mine))
        self.assertEqual(self.post(server, "size"), 0.0)

    def test_waiting_runs_hold_no_worker(self):
        server = self.serve_queue("--num_workers=1", capacity=-1)
        client = self.client(server)
        waiting = [self.begin(client, "take") for _ in range(12)]
        many = self.begin(client, "take_many", 3.0)
        for _ in range(5):
            self.assertEqual(client.predict(), [3.0])
            self.assertEqual(self.post(server, "size"), 0.0)
        self.call(client, "put_many", [float(i) for i in range(15)])
        got = sorted(x for f in waiting for x in f.result().outputs["y"].float_val)
        got += sorted(many.result().outputs["y"].float_val)
        self.assertEqual(sorted(got), [float(i) for i in range(15)])

    def test_a_wait_ends_at_its_deadline_and_when_the_client_goes(self):
        server = self.serve_queue()
        client = self.client(server)
        self.fails(CODE.DEADLINE_EXCEEDED, "", lambda timeout: self.begin(client, "take", timeout=0.4).result())
        gone = self.begin(client, "take")
        gone.cancel()
        wait_for(lambda: self.post(server, "size") == 0.0)
        wait_for(lambda: self.takes_its_own(client))

    def takes_its_own(self, client):
        self.call(client, "put", 7.0)
        return self.call(client, "size") == [1.0] and self.call(client, "take") == [7.0]

    def test_closing_ends_the_waits(self):
        server = self.serve_queue()
        client = self.client(server)
        waiting = self.begin(client, "take")
        self.call(client, "put", 1.0)
        self.assertEqual(list(waiting.result().outputs["y"].float_val), [1.0])
        waiting = self.begin(client, "take_many", 2.0)
        self.call(client, "close")
        self.fails(CODE.OUT_OF_RANGE, "FIFOQueue 'queue' is closed and has insufficient elements (requested 2, "
                   "current size 0)", lambda timeout: waiting.result())
        status, body = server.post("/v1/models/queue:predict", {"signature_name": "put", "inputs": {"x": 1.0}})
        self.assertNotEqual(status, 200)
        self.assertIn(b"FIFOQueue 'queue' is closed.", body)

    def test_the_number_of_waiting_runs_is_limited(self):
        server = self.serve_queue("--max_waiting_runs=2")
        client = self.client(server)
        waiting = [self.begin(client, "take") for _ in range(3)]
        refused = []
        wait_for(lambda: refused.extend(f for f in waiting if f.done() and f not in refused) or refused)
        self.assertIn("--max_waiting_runs", refused[0].exception().details())
        self.call(client, "put_many", [1.0, 2.0])
        self.assertEqual(sorted(f.result().outputs["y"].float_val[0] for f in waiting if f not in refused), [1.0, 2.0])

    def test_a_server_with_waiting_runs_stops(self):
        server = self.serve_queue("--drain_timeout=1")
        client = self.client(server)
        waiting = self.begin(client, "take")
        self.assertEqual(self.post(server, "size"), 0.0)
        server.process.terminate()
        self.assertIn(waiting.exception().code(), (CODE.UNAVAILABLE, CODE.CANCELLED))

    def test_items_count_as_state(self):
        server = self.serve_queue("--state_memory_limit_bytes=1M", capacity=-1)
        client = self.client(server)
        self.fails(CODE.RESOURCE_EXHAUSTED, "--state_memory_limit_bytes",
                   lambda timeout: self.call(client, "put_many", [0.0] * 100000))
        self.assertEqual(self.post(server, "size"), 0.0)
        self.call(client, "put_many", [1.0] * 100)
        self.assertEqual(self.call(client, "take_many", 100.0), [1.0] * 100)


class OneModel(GrpcCase):
    """Tests of one model, whose signatures take and return a float."""
    model = None

    def write_model(self, folder):
        raise NotImplementedError

    def begin(self):
        self.write_model(self.path(f"models/{self.model}/1"))
        self.put(self.path("models/half_plus_two/1"))
        server = self.serve(f"--models={self.path('models')}", "--num_workers=1")
        return self.client(server), self.client(server)

    def call(self, client, signature, x, timeout=WAIT):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self.model
        request.model_spec.signature_name = signature
        t = request.inputs["x"]
        t.dtype = 1
        t.tensor_shape.SetInParent()
        t.float_val.append(x)
        return client.prediction.Predict.future(request, timeout=timeout)

    def get(self, client, signature, x):
        return self.call(client, signature, x).result().outputs["y"].float_val[0]


class MapStages(OneModel):
    """A staging area with keys, from which clients take the items that other clients stage."""
    model = "area"

    def write_model(self, folder):
        small_models.write_map_stage(folder)

    def test_clients_wait_for_the_items_of_their_keys(self):
        a, b = self.begin()
        for _ in range(2):  # the second run of a signature may use compiled code
            waiting = {x: self.call(a, "take", float(x)) for x in range(10)}
            for x in (7, 3, 9, 0, 5, 1):
                self.assertEqual(self.get(b, "put", float(x)), x)
                self.assertEqual(waiting.pop(x).result().outputs["y"].float_val[0], 1.5 * x)
            for x in (8, 2, 6, 4):
                self.get(b, "second", float(x))
                self.assertFalse(waiting[x].done())
                self.get(b, "first", float(x))
                self.assertEqual(waiting[x].result().outputs["y"].float_val[0], 1.5 * x)
            self.assertEqual(self.get(b, "size", 0.0), 0.0)

    def test_staging_waits_while_the_area_is_full(self):
        a, b = self.begin()
        for x in range(5):
            self.get(a, "put", float(x))
        late = self.call(a, "put", 5.0)
        for _ in range(3):
            self.assertEqual(self.get(b, "size", 0.0), 5.0)
            self.assertEqual(b.predict(), [3.0])
        self.assertFalse(late.done())
        self.assertEqual(self.get(b, "take", 3.0), 4.5)
        self.assertEqual(late.result().outputs["y"].float_val[0], 5.0)
        self.assertEqual(self.get(b, "take", 5.0), 7.5)
        self.fails(CODE.DEADLINE_EXCEEDED, "", lambda timeout: self.call(a, "take", 5.0, 0.3).result())


class Accumulators(OneModel):
    """An accumulator, from which a client takes the mean of the gradients of other clients."""
    model = "gradients"

    def write_model(self, folder):
        small_models.write_accumulator(folder)

    def test_a_client_waits_for_the_gradients_of_others(self):
        a, b = self.begin()
        for _ in range(3):  # later runs of a signature may use compiled code
            first = self.call(a, "take", 3.0)
            for k in range(3):
                self.assertEqual(b.predict(), [3.0])
                self.assertFalse(first.done())
                self.assertEqual(self.get(b, "number", 0.0), k)
                self.get(b, "apply", float(k))
            self.assertEqual(first.result().outputs["y"].float_val[0], 1.0)
            self.assertEqual(self.get(b, "number", 0.0), 0.0)
            second = self.call(a, "take", 1.0)
            self.get(b, "apply", 7.0)
            self.assertEqual(second.result().outputs["y"].float_val[0], 7.0)

    def test_a_wait_ends_at_its_deadline(self):
        a, b = self.begin()
        self.get(b, "apply", 2.0)
        self.fails(CODE.DEADLINE_EXCEEDED, "", lambda timeout: self.call(a, "take", 2.0, 0.3).result())
        self.assertEqual(self.get(b, "number", 0.0), 1.0)
        self.assertEqual(self.get(b, "take", 1.0), 2.0)
        self.fails(CODE.INVALID_ARGUMENT, "Argument num_required must be positive, but was 0",
                   lambda timeout: self.call(a, "take", 0.0).result())


class Barriers(OneModel):
    """A barrier, from which clients take tuples whose components other clients insert, and a map of sparse tensors."""
    model = "barrier"

    def write_model(self, folder):
        small_models.write_barrier(folder)

    def test_clients_wait_for_complete_tuples(self):
        a, b = self.begin()
        for _ in range(3):  # the second run of a signature may use compiled code
            waiting = [self.call(a, "take", 0.0) for _ in range(4)]
            for x in range(4):
                self.get(b, "first", float(x))
            self.assertEqual(b.predict(), [3.0])  # the only worker is free
            self.assertFalse(any(w.done() for w in waiting))
            for x in (2, 0, 3, 1):
                self.get(b, "second", float(x))
            taken = sorted(w.result().outputs["y"].float_val[0] for w in waiting)
            self.assertEqual(taken, [0.0, 1.5, 3.0, 4.5])
            self.assertEqual(self.get(b, "ready", 0.0), 0.0)
        self.get(b, "first", 7.0)
        self.fails(CODE.INVALID_ARGUMENT, "Key 7.000000 already has a value for component 0", lambda timeout: self.get(b, "first", 7.0))
        self.fails(CODE.DEADLINE_EXCEEDED, "", lambda timeout: self.call(a, "take", 0.0, 0.3).result())
        self.fails(CODE.INVALID_ARGUMENT, "num_elements is -1, less than 0", lambda timeout: self.call(a, "take_minus_one", 0.0).result())

    def test_sparse_tensors_stay_in_a_map(self):
        a, b = self.begin()
        for k in range(3):
            handles = [self.get(a, "keep", 10.0 * k + x) for x in range(5)]
            self.assertEqual(handles, [5.0 * k + x for x in range(5)])
            for x in (3, 0, 4, 1, 2):
                self.assertEqual(self.get(b, "fetch", handles[x]), 10.0 * k + x)
                self.fails(CODE.INVALID_ARGUMENT, "Unable to find SparseTensor", lambda timeout: self.get(a, "fetch", handles[x]))
