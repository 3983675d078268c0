"""Tests models of a few hundred bytes whose constants alone take minutes or gigabytes to compute. A load must end soon,
even if the model is removed or the server stops, and other models must not wait for it."""
import os
import pathlib
import resource
import shutil
import signal
import sys
import time
import unittest

import small_models
from test_bad_trees import cpu_seconds
from support import SLOW, Case, Server, wait_for

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))

import sentencepiece_models as sentencepiece  # noqa: E402


def ints(n, key, *values):
    n.attr[key].list.i.extend(values)


def fill(g, name, *dims, value=1.0):
    """Adds a tensor with the dimensions `dims`. The model's file does not store the tensor's elements."""
    g.const(name + "_dims", "int32", [len(dims)], int_val=dims)
    g.const(name + "_one", "float", [], float_val=[value])
    g.node(name, "Fill", name + "_dims", name + "_one", T="float", index_type="int32")


def window(g, op, *inputs, **lists):
    n = g.node("costly", op, *inputs, T="float")
    n.attr["padding"].s = b"SAME"
    for key, values in lists.items():
        ints(n, key, *values)
    return n


def convolution(g):
    fill(g, "a", 1, 1000, 1000, 1)
    fill(g, "b", 1000, 1000, 1, 1)
    window(g, "Conv2D", "a", "b", strides=[1] * 4)


def dilation(g):
    fill(g, "a", 1, 1000, 1000, 1)
    fill(g, "b", 1000, 1000, 1)
    window(g, "Dilation2D", "a", "b", strides=[1] * 4, rates=[1] * 4)


def pool(g):
    fill(g, "a", 1, 1400, 1400, 2)
    window(g, "MaxPool", "a", ksize=[1, 1400, 1400, 1], strides=[1] * 4)


def normalization(g):
    fill(g, "a", 1, 1, 4, 1000000)
    g.node("costly", "LRN", "a", T="float").attr["depth_radius"].i = 1000000


def suppression(g):
    fill(g, "boxes", 500000, 4)
    fill(g, "scores", 500000)
    g.const("most", "int32", [], int_val=[500000])
    g.const("overlap", "float", [], float_val=[1])
    g.node("kept", "NonMaxSuppressionV3", "boxes", "scores", "most", "overlap", "overlap",
           T="float", T_threshold="float")
    g.node("costly", "Cast", "kept", SrcT="int32", DstT="float")


def segments(g):
    """Adds 20 segment sums, each with an output of 240 MB, and the node "costly", which is the sum of all their
    elements."""
    fill(g, "a", 1)
    g.const("ids", "int32", [1], int_val=[59999999])
    g.const("axis", "int32", [], int_val=[0])
    for i in range(20):
        g.node(f"s{i}", "SegmentSum", "a", "ids", T="float", Tindices="int32")
        g.node(f"sum{i}", "Sum", f"s{i}", "axis", T="float", Tidx="int32").attr["keep_dims"].b = False
    n = g.node("costly", "AddN", *(f"sum{i}" for i in range(20)), T="float")
    n.attr["N"].i = 20


def chain(g):
    """Adds a chain of 2,000 cheap nodes, each with an output of 16 MB, and the node "costly" at its end."""
    fill(g, "a", 2048, 2048)
    last = "a"
    for i in range(2000):
        g.node(f"c{i}", "Exp", last, T="float")
        last = f"c{i}"
    g.node("costly", "Exp", last, T="float")


def matrices(g):
    fill(g, "a", 2000, 2000)
    last = "a"
    for i in range(200):
        g.node(f"m{i}", "MatMul", last, "a", T="float")
        last = f"m{i}"
    g.node("costly", "Tanh", last, T="float")


def memory(g):
    """Adds 4.8 GB of constants that are needed at the same time."""
    for i in range(300):
        fill(g, f"f{i}", 2048, 2048, value=float(i))
    n = g.node("costly", "AddN", *(f"f{i}" for i in range(300)), T="float")
    n.attr["N"].i = 300


def tokenizer(g, megabytes=60):
    """Adds a SentencePiece model with one long piece, whose trie takes at least four times as much memory."""
    model = sentencepiece.model([("<unk>", 0, sentencepiece.UNKNOWN), ("a" * (megabytes << 20), -1, sentencepiece.NORMAL)])
    g.node("tokenizer", "SentencepieceOp").attr["model"].s = model
    g.node("pieces", "SentencepieceVocabSizeOp", "tokenizer")
    g.node("costly", "Cast", "pieces", SrcT="int32", DstT="float")


FAMILY = {f.__name__: f for f in (convolution, dilation, pool, normalization, suppression, segments,
                                  chain, matrices, memory, tokenizer)}


def write(folder, costly):
    def build(g):
        g.placeholder("x", "float")
        costly(g)
        g.node("y", "AddV2", "x", "costly", T="float")
    small_models.write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})},
                       build)


def peak_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


def write_convolutions(folder, n=4000):
    """Writes a model of n convolutions of different shapes. Preparing the convolutions takes seconds and allocates many
    small blocks of memory."""
    def build(g):
        g.placeholder("x", "float")
        g.const("axes", "int32", [4], int_val=range(4))
        g.const("first", "int32", [1], int_val=[0])
        g.node("sum", "Sum", "x", "first", T="float", Tidx="int32")
        for i in range(n):
            g.const(f"w{i}", "float", [3, 3, 1 + i % 13, 1 + i % 29], float_val=[1.0 + i])
            g.const(f"dims{i}", "int32", [4], int_val=[1, 9 + i % 17, 9 + i % 11, 1 + i % 13])
            g.node(f"a{i}", "Fill", f"dims{i}", "sum", T="float", index_type="int32")
            c = g.node(f"c{i}", "Conv2D", f"a{i}", f"w{i}", T="float")
            ints(c, "strides", 1, 1, 1, 1)
            c.attr["padding"].s = b"SAME"
            g.node(f"s{i}", "Sum", f"c{i}", "axes", T="float", Tidx="int32")
        g.node("y", "AddN", *(f"s{i}" for i in range(n)), T="float").attr["N"].i = n
    small_models.write(folder, {"serving_default": ({"x": ("x", "float")}, {"y": ("y", "float")})},
                       build)


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS:"))


def ended_processes_s():
    """Returns the seconds of processor time of the processes that this one has started and waited for."""
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


class CostlyLoads(Case):
    def put_costly(self, model):
        write(self.path(".aside", model, "1"), FAMILY[model])
        os.makedirs(self.path("models"), exist_ok=True)
        os.rename(self.path(".aside", model), self.path("models", model))

    def serve(self, *flags):
        self.put("models/good/1")
        return Server(f"--models={self.path('models')}", "--run_memory_limit_bytes=1G",
                      "--model_wait_seconds=1", *flags)

    def seconds_until(self, condition, what):
        start = time.monotonic()
        wait_for(condition, what)
        return time.monotonic() - start

    def test_a_load_ends_soon_when_its_model_is_removed(self):
        with self.serve() as server:
            for model in FAMILY:
                self.put_costly(model)
                wait_for(lambda m=model: server.state(m, 1) in ("LOADING", "AVAILABLE"), model)
                time.sleep(0.5)
                shutil.rmtree(self.path("models", model))
                before = server.cpu_s()
                wait_for(lambda m=model: server.state(m, 1) in ("END", ""), model)
                took = server.cpu_s() - before
                print(f"{model}: {took:.2f} s of a core until it is gone")
                self.assertLess(took, 1.5 * SLOW, model)

    @unittest.skipIf(SLOW > 1, "sanitizers keep what is freed")
    def test_what_a_cancelled_load_held_goes_back_to_the_system(self):
        with self.serve() as server:
            pid = server.process.pid
            before = resident_bytes(pid)
            for _ in range(3):
                write_convolutions(self.path(".aside", "many", "1"))
                os.rename(self.path(".aside", "many"), self.path("models", "many"))
                wait_for(lambda: resident_bytes(pid) > before + (80 << 20), "a load under way")
                shutil.rmtree(self.path("models", "many"))
                wait_for(lambda: server.state("many", 1) in ("END", ""), "its end")
            wait_for(lambda: resident_bytes(pid) < before + (60 << 20),
                     lambda: f"memory back: {resident_bytes(pid)} of {before} before", 10)

    def test_a_server_ends_soon(self):
        for model in FAMILY:
            self.put_costly(model)
        with self.serve() as server:
            wait_for(lambda: sum(server.state(m, 1) == "LOADING" for m in FAMILY) > 1, "the loads")
            time.sleep(1)
            before = ended_processes_s() + server.cpu_s()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60 * SLOW), 0)
            self.assertLess(ended_processes_s() - before, 2 * SLOW)

    def test_loads_are_bounded_and_no_good_model_waits(self):
        """Warm-up, which has its own limit, is off. Loads have a low priority, so their cost is measured in CPU
        time."""
        with self.serve("--enable_model_warmup=false") as server:
            for model in FAMILY:
                before = cpu_seconds(server.process.pid)
                self.put_costly(model)
                wait_for(lambda m=model: server.state(m, 1) in ("LOADING", "AVAILABLE"), model)
                self.put(f"models/late_{model}/1")
                late = self.seconds_until(
                    lambda m=model: server.state("late_" + m, 1) == "AVAILABLE", model)
                wait_for(lambda m=model: server.state(m, 1) == "AVAILABLE", model)
                took = cpu_seconds(server.process.pid) - before
                peak = peak_bytes(server.process.pid)
                print(f"{model}: {took:.2f} s of a core, a good model {late:.2f} s, peak {peak >> 20} MiB")
                self.assertLess(late, 4 * SLOW, model)
                self.assertLess(took, 8 * SLOW, model)
                shutil.rmtree(self.path("models", model))
            if SLOW == 1:
                self.assertLess(peak, 2 << 30)


def write_held(folder, how):
    """Writes a model of about 600 bytes that takes 160 MB of memory. The memory contains either a constant, which the
    file stores as one repeated value, or a variable, which the init op fills."""
    count = 40000000

    def build(g):
        g.placeholder("x", "int32")
        if how == "constant":
            g.const("c", "float", [count], float_val=[1.5])
            g.const("axis", "int32", [], int_val=[0])
            g.node("y", "GatherV2", "c", "x", "axis", Tparams="float", Tindices="int32", Taxis="int32")
            return
        fill(g, "big", count, value=1.5)
        g.node("v", "VarHandleOp", dtype="float").attr["shape"].shape.dim.add(size=count)
        g.node("init", "AssignVariableOp", "v", "big", dtype="float")
        g.node("y", "ResourceGather", "v", "x", dtype="float", Tindices="int32")
    small_models.write(folder, {"serving_default": ({"x": ("x", "int32")}, {"y": ("y", "float")})},
                       build, init="init" if how == "variable" else None)


class HeldMemory(Case):
    def test_models_count_with_what_they_hold(self):
        self.put("models/good/1")
        with Server(f"--models={self.path('models')}", "--total_model_memory_limit_bytes=250M",
                    "--max_num_load_retries=0", "--model_wait_seconds=1") as server:
            for how in ("constant", "variable"):
                for model, state in ((how, "AVAILABLE"), (how + "2", "END")):
                    write_held(self.path(".aside", model, "1"), how)
                    os.rename(self.path(".aside", model), self.path("models", model))
                    wait_for(lambda m=model: server.state(m, 1) in ("AVAILABLE", "END"), model)
                    got, why = server.states(model)[1]
                    self.assertEqual(got, state, why)
                self.assertIn("--total_model_memory_limit_bytes", why)
                status, body = server.post(f"/v1/models/{how}:predict", {"inputs": [7]})
                self.assertEqual(status, 200, body)
                self.assertEqual(server.state("good", 1), "AVAILABLE")
                shutil.rmtree(self.path("models", how))
                wait_for(lambda m=how: server.state(m, 1) in ("END", ""), how)


    def test_a_tokenizer_counts_with_its_trie(self):
        self.put("models/good/1")
        with Server(f"--models={self.path('models')}", "--total_model_memory_limit_bytes=120M",
                    "--max_num_load_retries=0", "--model_wait_seconds=1") as server:
            for megabytes, state in ((30, "END"), (5, "AVAILABLE")):
                model = f"pieces{megabytes}"
                write(self.path(".aside", model, "1"), lambda g, n=megabytes: tokenizer(g, n))
                before = server.cpu_s()
                os.rename(self.path(".aside", model), self.path("models", model))
                wait_for(lambda m=model: server.state(m, 1) in ("AVAILABLE", "END"), model)
                took, (got, why) = server.cpu_s() - before, server.states(model)[1]
                print(f"{model}: {took:.2f} s of a core, {why}")
                self.assertEqual(got, state, why)
                self.assertLess(took, 1 * SLOW)
                if state == "END":
                    self.assertIn("--total_model_memory_limit_bytes", why)
                    if SLOW == 1:
                        self.assertLess(peak_bytes(server.process.pid), 300 << 20)
                else:
                    held = server.metric(f'slipway_model_state_bytes{{model="{model}",version="1"}}')
                    self.assertGreater(held, 5 * megabytes << 20)


class ManySignatures(Case):
    N = 4000

    def load(self, output_of):
        """Returns the seconds of processor time until a model of N nodes and N signatures is loaded or refused, the model's
        state, and the response to a request."""
        def build(g):
            g.placeholder("x", "float")
            last = "x"
            for i in range(self.N):
                g.node(f"n{i}", "Exp" if i % 2 else "Neg", last, T="float")
                last = f"n{i}"
        signatures = {f"s{i}": ({"x": ("x", "float")}, {"y": (output_of(i), "float")})
                      for i in range(self.N)}
        small_models.write(self.path("m/1"), signatures, build)
        with Server("--model_name=m", f"--model_base_path={self.path('m')}", wait=False) as server:
            wait_for(lambda: server.state("m", 1) in ("AVAILABLE", "END"), "the end of the load")
            took = server.cpu_s()
            answer = server.post("/v1/models/m:predict",
                                 {"signature_name": "s3999", "inputs": {"x": [0.0]}})
            return took, server.states("m")[1], answer

    def test_signatures_of_the_same_tensors_share_what_a_load_makes(self):
        took, state, answer = self.load(lambda i: "n9")
        print(f"{took:.2f} s")
        self.assertEqual(state, ("AVAILABLE", ""))
        self.assertEqual(answer[0], 200, answer)
        self.assertLess(took, 3 * SLOW)

    def test_too_many_different_ones_are_refused_before_the_work(self):
        took, state, _ = self.load(lambda i: f"n{i}")
        print(f"{took:.2f} s")
        self.assertEqual(state[0], "END")
        self.assertIn("the model has 4000 signatures; more than 256 of them name different", state[1])
        self.assertLess(took, 3 * SLOW)
