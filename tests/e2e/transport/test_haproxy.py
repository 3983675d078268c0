"""Tests docker/haproxy.cfg, unchanged, with two servers that are restarted in turn and swap versions under constant
load over REST and gRPC. No request may fail."""
import csv
import http.client
import io
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest
import urllib.request

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

import support
from support import wait_for

CONFIG = os.path.join(support.ROOT, "docker", "haproxy.cfg")
HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
LOCAL = "127.0.0.1:"


class Load:
    """Threads that send requests in sequence, and record failures and the number of requests."""

    def __init__(self, rest_port, grpc_port, threads=2):
        self.ports = rest_port, grpc_port
        self.asked = {"REST": 0, "GRPC": 0}
        self.failed = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=f) for f in (self.rest, self.grpc) * threads]
        for t in self.threads:
            t.start()

    def rest(self):
        body = json.dumps({"instances": [1.0, 2.0, 5.0]})
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=30)
        while not self.over.wait(0.002):
            self.asked["REST"] += 1
            try:
                connection.request("POST", "/v1/models/m:predict", body)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200 or json.loads(text)["predictions"] != [2.5, 3.0, 4.5]:
                    self.failed.append(f"REST {answer.status}: {text!r}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failed.append(f"REST {error!r}")
                connection.close()
        connection.close()

    def grpc(self):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "m"
        tensor = request.inputs["x"]
        tensor.dtype = 1
        tensor.tensor_shape.dim.add().size = 3
        tensor.float_val.extend([1, 2, 5])
        with grpc.insecure_channel(LOCAL + str(self.ports[1]),
                                   [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while not self.over.wait(0.002):
                self.asked["GRPC"] += 1
                try:
                    answer = stub.Predict(request, timeout=30)
                    if list(answer.outputs["y"].float_val) != [2.5, 3.0, 4.5]:
                        self.failed.append(f"GRPC {answer}")
                except grpc.RpcError as error:
                    self.failed.append(f"GRPC {error.code()}: {error.details()}")

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(60)


@unittest.skipUnless(HAPROXY, "haproxy is not installed")
class LoadBalancer(support.Case):
    def setUp(self):
        super().setUp()
        self.put("m/1")
        (*self.replica_ports, self.rest, self.grpc, self.stats) = support.free_ports(7)
        self.replicas = [self.start(0), self.start(1)]
        a_rest, a_grpc, b_rest, b_grpc = self.replica_ports
        environment = {
            "A_REST": f"{LOCAL}{a_rest}", "A_GRPC": f"{LOCAL}{a_grpc}",
            "B_REST": f"{LOCAL}{b_rest}", "B_GRPC": f"{LOCAL}{b_grpc}",
            "LB_REST": f"{LOCAL}{self.rest}", "LB_GRPC": f"{LOCAL}{self.grpc}",
            "LB_STATS": f"{LOCAL}{self.stats}", "CHECK_INTERVAL": "100ms"}
        self.log = open(self.path("haproxy.log"), "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        self.balancer = subprocess.Popen([HAPROXY, "-f", CONFIG, "-db"], stdin=subprocess.DEVNULL,
                                         env={**os.environ, **environment}, stdout=self.log,
                                         stderr=subprocess.STDOUT)
        self.addCleanup(self.end_balancer)
        wait_for(lambda: self.up() == 4, "both replicas to be up, twice")

    def end_balancer(self):
        self.balancer.kill()
        self.balancer.wait()

    def start(self, i):
        rest, grpc_port = self.replica_ports[2 * i:2 * i + 2]
        server = support.Server(f"--models={self.folder}", f"--rest_api_port={rest}",
                                f"--port={grpc_port}",
                                f"--drain_delay_ms={int(1000 * (5 + support.SLOW))}", wait=False)
        self.addCleanup(server.__exit__)
        server.rest_port, server.grpc_port = rest, grpc_port
        wait_for(server.is_ready, "a replica")
        return server

    def states(self):
        """Returns {(backend, server): state} with the states that the load balancer reports."""
        if self.balancer.poll() is not None:
            self.log.seek(0)
            raise AssertionError("haproxy has ended: " + self.log.read())
        with urllib.request.urlopen(f"http://{LOCAL}{self.stats}/;csv",
                                    timeout=30 * support.SLOW) as page:
            rows = csv.DictReader(io.StringIO(page.read().decode().lstrip("# ")))
            return {(r["pxname"], r["svname"]): r["status"] for r in rows
                    if r["svname"] in ("a", "b")}

    def up(self):
        return sum(state == "UP" for state in self.states().values())

    def test_no_request_fails_while_replicas_restart_and_versions_swap(self):
        load = Load(self.rest, self.grpc)
        try:
            time.sleep(0.5)
            for i in range(2):
                self.replicas[i].process.send_signal(signal.SIGTERM)
                wait_for(lambda: self.up() == 2, "the drain to be seen while it lasts")
                self.assertIsNone(self.replicas[i].process.poll())
                self.assertEqual(self.replicas[i].process.wait(30 * support.SLOW), 0,
                                 self.replicas[i].log())
                self.replicas[i] = self.start(i)
                wait_for(lambda: self.up() == 4, "the replica to be seen again")
                time.sleep(0.3)
            for version in (2, 3):
                self.put(f"m/{version}")
                shutil.rmtree(self.path(f"m/{version - 1}"))
                for replica in self.replicas:
                    wait_for(lambda r=replica, v=version: r.state("m", v) == "AVAILABLE",
                             "a swap")
                time.sleep(0.3)
        finally:
            load.stop()
        print(f"{load.asked}, {len(load.failed)} failed ", end="", flush=True)
        self.assertEqual(load.failed[:5], [])
        self.assertGreater(min(load.asked.values()), 50)

    def test_a_replica_that_is_not_ready_gets_nothing(self):
        # After the server is killed, the health checks notice it, and the other server gets the
        # requests that were in flight.
        self.replicas[0].process.kill()
        self.replicas[0].process.wait()
        load = Load(self.rest, self.grpc, 1)
        try:
            wait_for(lambda: self.up() == 2, "the replica's end to be seen")
            self.assertEqual({key for key, state in self.states().items() if state == "UP"},
                             {("rest", "b"), ("grpc", "b")})
            time.sleep(0.3)
        finally:
            load.stop()
        self.assertEqual(load.failed[:5], [])
