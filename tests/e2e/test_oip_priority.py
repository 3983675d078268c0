"""Tests that the parameter `priority` of the Open Inference Protocol orders the queue of a version, over REST and gRPC."""
import os
import struct
import tempfile
import threading

import grpc
import small_models
import test_oip
from inference import grpc_service_pb2, grpc_service_pb2_grpc
from support import Server, wait_for
from test_oip import WAIT, tensor

COUNT = 2e5  # a run that counts up to it takes tens of milliseconds, so the clients see the order of the runs
ENDLESS = 1e18


class Priority(test_oip.Client):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="slipway-oip-")
        for name in ("counting", "other"):
            small_models.write_counting(os.path.join(cls.folder.name, name, "1"))
        cls.server = Server(f"--models={cls.folder.name}", "--num_workers=1", "--inline_max_us=0",
                            "--enable_model_warmup=false")
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.grpc_port}")
        cls.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        cls.folder.cleanup()
        if code:
            raise AssertionError(f"the server ended with {code}: {cls.server.log()}")

    def by_grpc(self, x, priority=None, model="counting"):
        request = grpc_service_pb2.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype="FP32", shape=[])
        request.raw_input_contents.append(struct.pack("<f", x))
        if priority is not None:
            request.parameters["priority"].int64_param = priority
        return self.stub.ModelInfer.future(request, timeout=WAIT)

    def by_rest(self, x, priority, done):
        request = {"inputs": [tensor("x", "FP32", [], [x])]}
        if priority is not None:
            request["parameters"] = {"priority": priority}
        self.assertEqual(self.infer("counting", request)[0], 200)
        done()

    def jobs(self):
        return self.server.metric("slipway_jobs")

    def hold_the_worker(self):
        call = self.by_grpc(ENDLESS)
        self.addCleanup(call.cancel)
        wait_for(lambda: self.jobs() == 1, "the run that holds the worker")
        return call

    def order_of(self, priorities, transport):
        """Queues requests with these priorities behind a run, ends the run, and returns the priorities in the order of
        the responses."""
        first, got, threads = self.hold_the_worker(), [], []
        for n, priority in enumerate(priorities):
            if transport == "gRPC":
                self.by_grpc(COUNT, priority).add_done_callback(lambda call, p=priority: got.append(
                    p if call.code() == grpc.StatusCode.OK else call.details()))
            else:
                threads.append(threading.Thread(target=self.by_rest, args=(COUNT, priority,
                                                                           lambda p=priority: got.append(p))))
                threads[-1].start()
            wait_for(lambda n=n: self.jobs() == n + 2, "a request to be queued")
        first.cancel()
        wait_for(lambda: len(got) == len(priorities), "all responses")
        for thread in threads:
            thread.join()
        return got

    def test_priorities_order_a_queue(self):
        for transport in ("gRPC", "REST"):
            with self.subTest(transport):
                # 0 and no priority are the level 2, and requests of one level keep their order of arrival.
                self.assertEqual(self.order_of([9, 3, None, 2, 0, 1, 2**32 - 1, 2], transport),
                                 [1, None, 2, 0, 2, 3, 9, 2**32 - 1])

    def test_an_earlier_deadline_is_no_priority(self):
        first, got = self.hold_the_worker(), []
        for priority, timeout in ((3, int(WAIT * 1e6)), (1, None)):
            request = grpc_service_pb2.ModelInferRequest(model_name="counting")
            request.inputs.add(name="x", datatype="FP32", shape=[])
            request.raw_input_contents.append(struct.pack("<f", COUNT))
            request.parameters["priority"].int64_param = priority
            if timeout:
                request.parameters["timeout"].int64_param = timeout
            self.stub.ModelInfer.future(request, timeout=WAIT).add_done_callback(
                lambda call, p=priority: got.append((p, call.code())))
            wait_for(lambda n=priority: self.jobs() == (2 if n == 3 else 3), "a request to be queued")
        first.cancel()
        wait_for(lambda: len(got) == 2, "both responses")
        self.assertEqual(got, [(1, grpc.StatusCode.OK), (3, grpc.StatusCode.OK)])

    def test_models_are_not_ordered_by_priority(self):
        """A request of low priority for another model does not wait for requests of high priority for this one."""
        first = self.hold_the_worker()
        waiting = [self.by_grpc(COUNT, 1) for _ in range(3)]
        self.assertEqual(self.by_grpc(COUNT, 9, "other").result(WAIT).raw_output_contents[0], struct.pack("<f", COUNT))
        self.assertFalse(first.done() or any(call.done() for call in waiting))
        first.cancel()
        for call in waiting:
            call.result(WAIT)
