"""Tests batching with --enable_batching and its parameters, over REST and gRPC."""
import base64
import contextlib
import glob
import json
import os
import re
import threading
import time
import unittest

import grpc
from tensorflow.core.framework import graph_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from support import Case, Server, command, wait_for

CODE = grpc.StatusCode
FLOAT, INT32, STRING = types_pb2.DT_FLOAT, types_pb2.DT_INT32, types_pb2.DT_STRING


# ---- a model whose outputs tell how it was run ----

def node(graph, name, op, *inputs, **attributes):
    n = graph.node.add(name=name, op=op, input=list(inputs))
    for key, value in attributes.items():
        if isinstance(value, tensor_pb2.TensorProto):
            n.attr[key].tensor.CopyFrom(value)
        elif isinstance(value, bool):
            n.attr[key].b = value
        elif key == "shape":
            n.attr[key].shape.unknown_rank = True
        else:
            n.attr[key].type = value
    return name


def constant(graph, name, dtype, values, vector=False):
    t = tensor_pb2.TensorProto(dtype=dtype)
    if vector:
        t.tensor_shape.dim.add(size=len(values))
    (t.float_val if dtype == FLOAT else t.int_val).extend(values)
    return node(graph, name, "Const", dtype=dtype, value=t)


def signature(meta, name, source, target, dtype, out):
    s = meta.signature_def[name]
    s.method_name = "tensorflow/serving/predict"
    for key, tensor, t, where in (("x", source, dtype, s.inputs), ("y", target, out, s.outputs)):
        where[key].name, where[key].dtype = tensor + ":0", t
        where[key].tensor_shape.unknown_rank = True


def save(path):
    """Saves a model with five signatures. `double` returns y = 2x. `rows` returns, for each element, the number of rows
    of its batch. `gather` returns the numbers 10 to 19 by index, and fails for other indices. `total` returns a
    scalar, and `echo` returns strings."""
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    g = meta.graph_def
    g.versions.producer = 1087
    for name, dtype in (("x", FLOAT), ("i", INT32), ("s", STRING)):
        node(g, name, "Placeholder", dtype=dtype, shape=None)
    constant(g, "two", FLOAT, [2.0])
    constant(g, "nil", FLOAT, [0.0])
    constant(g, "zero", INT32, [0])
    constant(g, "table", FLOAT, [float(v) for v in range(10, 20)], vector=True)
    constant(g, "axes", INT32, [0], vector=True)
    node(g, "double", "Mul", "x", "two", T=FLOAT)
    node(g, "blank", "Mul", "x", "nil", T=FLOAT)
    node(g, "shape", "Shape", "x", T=FLOAT, out_type=INT32)
    node(g, "n", "GatherV2", "shape", "zero", "zero", Tparams=INT32, Tindices=INT32, Taxis=INT32)
    node(g, "nf", "Cast", "n", SrcT=INT32, DstT=FLOAT)
    node(g, "rows", "AddV2", "blank", "nf", T=FLOAT)
    node(g, "gather", "GatherV2", "table", "i", "zero", Tparams=FLOAT, Tindices=INT32, Taxis=INT32)
    node(g, "total", "Sum", "x", "axes", T=FLOAT, Tidx=INT32, keep_dims=False)
    node(g, "echo", "Identity", "s", T=STRING)
    signature(meta, "double", "x", "double", FLOAT, FLOAT)
    signature(meta, "same", "x", "double", FLOAT, FLOAT)
    signature(meta, "rows", "x", "rows", FLOAT, FLOAT)
    signature(meta, "gather", "i", "gather", INT32, FLOAT)
    signature(meta, "total", "x", "total", FLOAT, FLOAT)
    signature(meta, "echo", "s", "echo", STRING, STRING)
    os.makedirs(path)
    with open(os.path.join(path, "saved_model.pb"), "wb") as file:
        file.write(model.SerializeToString())


def bytes_read(server, name):
    """Returns the number of bytes that the server's thread of the given name has read from files."""
    for task in glob.glob(f"/proc/{server.process.pid}/task/*"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            with open(os.path.join(task, "comm"), encoding="utf-8") as file:
                if file.read() != name + "\n":
                    continue
            with open(os.path.join(task, "io"), encoding="ascii") as file:
                return int(re.search("rchar: ([0-9]+)", file.read())[1])
    raise AssertionError("no thread " + name)


class Batched:
    """A server with the given batching parameters and the model that `save` writes. Requests alternate between REST and
    gRPC."""

    def __init__(self, case, parameters, *flags, per_model=None):
        save(case.path("m", "1"))
        if per_model is not None:
            case.write("m/1/batching_params.pbtxt", per_model)
        given = [f"--model_base_path={case.path('m')}", "--model_name=m", *flags]
        if parameters is not None:
            given += ["--enable_batching=true",
                      "--batching_parameters_file=" + case.write("batching.txt", parameters)]
        self.server = Server(*given)
        self.stub = None
        self.channel = None

    def __enter__(self):
        self.server.__enter__()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}")
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        return self

    def __exit__(self, *rest):
        self.channel.close()
        self.server.__exit__(*rest)

    def rest(self, name, value):
        """Sends a request over REST and returns (code, outputs or the error message)."""
        if isinstance(value, bytes):
            value = [{"b64": base64.b64encode(value).decode()}]
        status, body = self.server.post("/v1/models/m:predict",
                                        {"signature_name": name, "inputs": value})
        answer = json.loads(body)
        return status, answer["outputs"] if status == 200 else answer["error"]

    def grpc(self, name, value, timeout=30):
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "m", name
        t = request.inputs["x"]
        if isinstance(value, bytes):
            t.dtype = STRING
            t.string_val.append(value)
            t.tensor_shape.dim.add(size=1)
        else:
            t.dtype = INT32 if name == "gather" else FLOAT
            level = value
            while isinstance(level, list):
                t.tensor_shape.dim.add(size=len(level))
                level = level[0] if level else None
            flat = [value]
            while flat and isinstance(flat[0], list):
                flat = [v for part in flat for v in part]
            (t.int_val if name == "gather" else t.float_val).extend(flat)
        try:
            y = self.stub.Predict(request, timeout=timeout).outputs["y"]
        except grpc.RpcError as refused:
            return refused.code(), refused.details()
        values = list(y.string_val) or list(y.float_val)
        for size in reversed([d.size for d in y.tensor_shape.dim][1:]):
            values = [values[k:k + size] for k in range(0, len(values), size)] if size else []
        return CODE.OK, values if y.tensor_shape.dim else values[0]

    def wait_queued(self, n):
        wait_for(lambda: self.server.metric("slipway_queue_requests") == n, f"{n} in the queue")

    def together(self, *requests):
        """Sends all requests at the same time, alternately over REST and gRPC. Returns [(ok, outputs or message)] in
        the order of the requests."""
        answers = [None] * len(requests)

        def ask(i):
            call = self.grpc if i % 2 else self.rest
            code, answer = call(*requests[i])
            answers[i] = (code in (200, CODE.OK), answer)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(requests))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return answers

    def outputs(self, *requests):
        answers = self.together(*requests)
        assert all(ok for ok, _ in answers), answers
        return [answer for _, answer in answers]


# A batch waits ten minutes for its fourth row. The duration of a request therefore shows whether the request waited, even on
# a slow machine.
WAITS = "max_batch_size { value: 4 } batch_timeout_micros { value: 600000000 } "
AT_ONCE = 100


class Merging(Case):
    def test_requests_of_every_signature_run_together(self):
        with Batched(self, WAITS) as b:
            start = time.monotonic()
            self.assertEqual(b.outputs(*[("rows", [[0.0]])] * 4), [[[4.0]]] * 4)
            self.assertLess(time.monotonic() - start, AT_ONCE)
            self.assertEqual(b.outputs(*[("double", [[float(i)]]) for i in range(4)]),
                             [[[2.0 * i]] for i in range(4)])

    def test_a_batch_that_is_not_full_waits_for_the_timeout(self):
        with Batched(self, "batch_timeout_micros { value: 300000 }") as b:
            start = time.monotonic()
            self.assertEqual(b.outputs(("rows", [0.0])), [[1.0]])
            self.assertGreaterEqual(time.monotonic() - start, 0.3)

    def test_without_a_timeout_nothing_waits(self):
        with Batched(self, "") as b:
            def soon():
                start = time.monotonic()
                self.assertEqual(b.rest("rows", [0.0]), (200, [1.0]))
                return time.monotonic() - start < 0.1
            wait_for(soon, "an answer that came at once")

    def test_signatures_of_the_same_tensors_share_a_batch(self):
        with Batched(self, WAITS) as b:
            start = time.monotonic()
            b.outputs(("double", [1.0]), ("same", [1.0]), ("double", [1.0]), ("same", [1.0]))
            self.assertLess(time.monotonic() - start, AT_ONCE)

    def test_strings_are_merged(self):
        with Batched(self, WAITS) as b:
            start = time.monotonic()
            answers = b.together(*[("echo", b"text %d" % i) for i in range(4)])
            self.assertLess(time.monotonic() - start, AT_ONCE)
            self.assertTrue(all(ok for ok, _ in answers), answers)
            self.assertEqual(answers[1][1], [b"text 1"])
            self.assertEqual(answers[2][1], ["text 2"])

    def test_shapes_that_differ_do_not_fail_each_other(self):
        with Batched(self, WAITS) as b:
            self.assertEqual(b.outputs(("double", [[1.0, 1.0]] * 2), ("double", [[1.0]] * 2),
                                       ("double", [[2.0, 2.0]] * 2), ("double", [[2.0]] * 2)),
                             [[[2.0, 2.0]] * 2, [[2.0]] * 2, [[4.0, 4.0]] * 2, [[4.0]] * 2])

    def test_a_bad_request_fails_alone(self):
        with Batched(self, WAITS) as b:
            answers = b.together(("gather", [1]), ("gather", [99]), ("gather", [3]), ("gather", [4]))
            self.assertEqual([ok for ok, _ in answers], [True, False, True, True])
            self.assertIn("99 is not in [0, 10)", answers[1][1])
            self.assertEqual([answers[i][1] for i in (0, 2, 3)], [[11.0], [13.0], [14.0]])

    def test_outputs_that_are_not_batched_end_merging_and_fail_nobody(self):
        with Batched(self, WAITS) as b:
            self.assertEqual(b.outputs(*[("total", [float(i)]) for i in range(4)]),
                             [0.0, 1.0, 2.0, 3.0])
            self.assertEqual(b.outputs(*[("total", [float(i)]) for i in range(4)]),
                             [0.0, 1.0, 2.0, 3.0])
            wait_for(lambda: "total of model m version 1 is not batched any more" in b.server.log())
            self.assertEqual(b.server.log().count("is not batched any more"), 1)


class Sizes(Case):
    def test_a_batch_is_padded_to_an_allowed_size_and_the_surplus_dropped(self):
        with Batched(self, "max_batch_size { value: 8 } allowed_batch_sizes: 3 "
                           "allowed_batch_sizes: 8 batch_timeout_micros { value: 300000 }") as b:
            self.assertEqual(b.outputs(("rows", [[0.0]])), [[[3.0]]])
            # If the two requests are not in the same batch, each request is padded to three rows. The test sends both
            # again until they share a batch.
            wait_for(lambda: b.outputs(("rows", [0.0] * 2), ("rows", [0.0] * 2)) == [[8.0] * 2] * 2,
                     "two in one batch")
            self.assertEqual(b.outputs(("double", [1.0, 2.0])), [[2.0, 4.0]])
            self.assertEqual(b.outputs(("gather", [5])), [[15.0]])

    def test_a_request_larger_than_a_batch_is_refused(self):
        with Batched(self, WAITS) as b:
            text = "Task size 5 is larger than maximum input batch size 4"
            self.assertEqual(b.rest("double", [1.0] * 5), (400, text))
            self.assertEqual(b.grpc("double", [1.0] * 5), (CODE.INVALID_ARGUMENT, text))

    def test_a_large_request_is_cut_when_that_is_allowed(self):
        with Batched(self, "max_batch_size { value: 100 } max_execution_batch_size { value: 4 } "
                           "enable_large_batch_splitting { value: true } "
                           "allowed_batch_sizes: 4 allowed_batch_sizes: 100") as b:
            value = [[float(i), 1.0] for i in range(11)]
            double = [[2.0 * i, 2.0] for i in range(11)]
            self.assertEqual(b.rest("double", value), (200, double))
            self.assertEqual(b.grpc("double", value), (CODE.OK, double))
            self.assertEqual(b.rest("rows", [0.0] * 11), (200, [4.0] * 11))
            self.assertEqual(b.rest("gather", list(range(9))), (200, [10.0 + i for i in range(9)]))
            code, text = b.grpc("gather", [1] * 8 + [77])
            self.assertEqual(code, CODE.INVALID_ARGUMENT)
            self.assertIn("77", text)
            self.assertEqual(b.rest("total", [1.0] * 11), (200, 11.0))
            self.assertEqual(b.rest("total", [1.0] * 12), (200, 12.0))

    def test_inputs_of_other_lengths_are_padded_when_that_is_asked_for(self):
        with Batched(self, WAITS + "pad_variable_length_inputs: true") as b:
            self.assertEqual(b.outputs(("double", [[1.0]]), ("double", [[2.0, 3.0, 4.0]]),
                                       ("double", [[5.0, 6.0]]), ("double", [[7.0, 8.0, 9.0]])),
                             [[[2.0] * 3], [[4.0, 6.0, 8.0]], [[10.0, 12.0, 10.0]],
                              [[14.0, 16.0, 18.0]]])

    def test_a_row_that_cannot_be_is_refused_with_tensorflow_servings_text(self):
        with Batched(self, "") as b:
            text = "Batching Run() input tensors must have at least one dimension"
            self.assertEqual(b.rest("double", 1.0), (400, text))
            self.assertEqual(b.grpc("double", 1.0), (CODE.INVALID_ARGUMENT, text))


class Limits(Case):
    def test_a_full_queue_refuses_at_once(self):
        with Batched(self, WAITS + "max_enqueued_batches { value: 1 }") as b:
            waiting = threading.Thread(target=b.rest, args=("double", [1.0] * 3))
            waiting.start()
            b.wait_queued(1)
            text = ("The batch scheduling queue to which this task was submitted is full; "
                    "currently 1 batches enqueued and max_enqueued_batches is 1")
            self.assertEqual(b.rest("double", [1.0] * 2), (503, text))
            self.assertEqual(b.grpc("double", [1.0] * 2), (CODE.UNAVAILABLE, text))
            self.assertEqual(b.rest("rows", [1.0] * 4)[0], 200)
            self.assertEqual(b.rest("double", [1.0]), (200, [2.0]))
            waiting.join()

    def test_a_request_that_waits_too_long_is_told_so(self):
        with Batched(self, "batch_timeout_micros { value: 600000000 }",
                     "--rest_api_timeout_in_ms=1000") as b:
            text = "Run() timeout exceeded while waiting in batching queue"
            self.assertEqual(b.rest("double", [1.0]), (429, text))
            # The client's deadline and its copy in the server expire at the same time. Either error may be returned.
            self.assertIn(b.grpc("double", [1.0], timeout=0.5),
                          ((CODE.DEADLINE_EXCEEDED, "Deadline Exceeded"),
                           (CODE.RESOURCE_EXHAUSTED, text)))
            self.assertEqual(b.rest("double", [1.0])[0], 429)

    def test_a_server_that_ends_does_not_wait_for_more_requests(self):
        with Batched(self, "batch_timeout_micros { value: 600000000 }") as b:
            answers = []
            waiting = threading.Thread(target=lambda: answers.append(b.rest("double", [1.0])))
            waiting.start()
            b.wait_queued(1)
            start = time.monotonic()
            b.server.stop()
            waiting.join()
            self.assertLess(time.monotonic() - start, AT_ONCE)
            self.assertEqual(answers, [(200, [2.0])])

    def test_a_version_that_is_unloaded_does_not_wait_for_more_requests(self):
        with Batched(self, "batch_timeout_micros { value: 600000000 }",
                     "--file_system_poll_wait_seconds=1") as b:
            answers = []
            waiting = threading.Thread(target=lambda: answers.append(b.rest("double", [1.0])))
            waiting.start()
            b.wait_queued(1)
            save(self.path("m", "2"))
            start = time.monotonic()
            waiting.join()
            self.assertLess(time.monotonic() - start, AT_ONCE)
            self.assertEqual(answers, [(200, [2.0])])
            wait_for(lambda: b.server.state("m", 1) == "END", "the end of version 1")


class Modes(Case):
    def test_without_the_flag_only_proved_signatures_are_merged(self):
        with Batched(self, None) as b:
            self.assertEqual(b.outputs(*[("double", [float(i)]) for i in range(8)]),
                             [[2.0 * i] for i in range(8)])
            self.assertEqual(set(map(tuple, b.outputs(*[("rows", [0.0])] * 8))), {(1.0,)})
            # A scalar input has no rows to merge, but a request with a scalar input succeeds.
            self.assertEqual(b.rest("double", 3.0), (200, 6.0))

    def test_with_the_flag_false_nothing_is_merged(self):
        with Batched(self, None, "--enable_batching=false") as b:
            self.assertEqual(b.outputs(*[("double", [float(i)]) for i in range(8)]),
                             [[2.0 * i] for i in range(8)])
            rows, count = (b.server.metric("slipway_batch_rows_" + what) for what in ("sum", "count"))
            self.assertEqual((rows, count), (8, 8))

    def test_a_version_brings_parameters_of_its_own(self):
        with Batched(self, "max_batch_size { value: 2 }", "--enable_per_model_batching_parameters",
                     per_model=WAITS) as b:
            self.assertEqual(b.outputs(*[("rows", [0.0])] * 4), [[4.0]] * 4)

    def test_a_version_without_such_a_file_is_not_batched(self):
        with Batched(self, WAITS, "--enable_per_model_batching_parameters") as b:
            self.assertEqual(b.outputs(*[("rows", [0.0])] * 4), [[1.0]] * 4)
            self.assertEqual(b.rest("double", [1.0] * 9)[0], 200)

    def test_the_manager_reads_no_parameters(self):
        """The manager's thread serves all models, so the loads' threads must read the files of versions. Each of these
        files has 60 KB, and more models than one are loaded because the manager reads some bytes for itself."""
        flags = ("--enable_batching=true", "--enable_per_model_batching_parameters", "--model_wait_seconds=1")
        names = [f"m{i}" for i in range(10)]
        self.put("models/first/1")
        with Server(f"--models={self.path('models')}", *flags) as server:
            before = bytes_read(server, "manager")
            for name in names:
                self.put(f".aside/{name}/1")
                self.write(f".aside/{name}/1/batching_params.pbtxt", "max_batch_size { value: 8 }" + "\n" * 60000)
                os.rename(self.path(".aside", name), self.path("models", name))
            for name in names:
                wait_for(lambda m=name: server.state(m, 1) == "AVAILABLE", name)
            self.assertLess(bytes_read(server, "manager") - before, 300000)

    def test_a_version_whose_file_is_wrong_is_not_served(self):
        save(self.path("m", "1"))
        self.write("m/1/batching_params.pbtxt", "max_batch_size { value: 8 } allowed_batch_sizes: 4")
        with Server(f"--model_base_path={self.path('m')}", "--model_name=m",
                    "--enable_batching=true", "--enable_per_model_batching_parameters",
                    wait=False) as server:
            state = wait_for(lambda: (server.states("m").get(1) or ("", ""))[0] == "END"
                             and server.states("m")[1])
            self.assertIn("Last entry in allowed_batch_sizes must match max_batch_size; last entry "
                          "was 4; expected 8", state[1])


class Start(Case):
    def refuse(self, *flags):
        save(self.path("m", "1"))
        status, out, _ = command("serve", f"--model_base_path={self.path('m')}", *flags)
        self.assertEqual(status, 255)
        return out

    def test_a_file_without_the_flag_is_an_error(self):
        out = self.refuse("--batching_parameters_file=" + self.write("b.txt", ""))
        self.assertIn("server_options.batching_parameters_file is set without setting "
                      "server_options.enable_batching to true.", out)

    def test_a_wrong_file_is_an_error(self):
        out = self.refuse("--enable_batching", "--batching_parameters_file="
                          + self.write("b.txt", "max_batch_size: 3"))
        self.assertIn("Invalid protobuf file: '", out)

    def test_a_file_that_is_not_there_is_an_error(self):
        out = self.refuse("--enable_batching", "--batching_parameters_file=" + self.path("no.txt"))
        self.assertIn("no.txt; No such file or directory", out)

    def test_allowed_sizes_must_end_with_the_largest(self):
        out = self.refuse("--enable_batching", "--batching_parameters_file="
                          + self.write("b.txt", "allowed_batch_sizes: 4"))
        self.assertIn("Last entry in allowed_batch_sizes must match max_batch_size; last entry was "
                      "4; expected 1000", out)


if __name__ == "__main__":
    unittest.main()
