#!/usr/bin/env python3
"""Measures PyTorch on the models that visit.py measures: peers.py [--models NAME,...] [--compiled NAME,...] [--seconds S]

PyTorch runs eagerly inside a CUDA graph, in TF32, with channels innermost and with the convolution algorithms that cuDNN
found fastest. Models named by --compiled are measured a second time after torch.compile. Weights are random. Each result
has two times per batch in milliseconds, both medians: "gpu" is the time of the graph by CUDA events, with the inputs
already in the GPU's memory, and "whole" also contains the copies of the inputs from the host's memory and of the outputs
to it, as a server needs them.

Needs torch, torchvision and transformers. Prints one JSON object per model as soon as it is measured.
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torchvision
import transformers

BATCHES = (1, 8, 32, 128)
COMPILED_BATCHES = (1, 128)
PIXELS = {"inceptionv3": 299}
PICTURES = {
    "resnet50": torchvision.models.resnet50,
    "mobilenetv2": torchvision.models.mobilenet_v2,
    "efficientnetb0": torchvision.models.efficientnet_b0,
    "inceptionv3": lambda weights: torchvision.models.inception_v3(weights=weights, aux_logits=False, init_weights=False),
    "densenet121": torchvision.models.densenet121,
    "vgg19": torchvision.models.vgg19,
}


class Lstm(torch.nn.Module):
    """The graph of models/lstm.tar.xz: two layers of 256 units over 64 tokens."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20000, 128)
        self.layers = torch.nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.output = torch.nn.Linear(256, 10)

    def forward(self, tokens):
        return self.output(self.layers(self.embedding(tokens))[0][:, -1]).softmax(-1)


class WideDeep(torch.nn.Module):
    """The graph of models/widedeep.tar.xz: an embedding of 26 categories and three dense layers."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100000, 32)
        sizes = (26 * 32 + 13, 1024, 512, 256)
        layers = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU()) for a, b in zip(sizes, sizes[1:])]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(256, 1), torch.nn.Sigmoid())

    def forward(self, categories, numbers):
        return self.layers(torch.cat((self.embedding(categories).flatten(1), numbers), 1))


def make(name):
    """Returns a model and a function that makes its inputs for a batch size."""
    if name in PICTURES:
        side = PIXELS.get(name, 224)
        model = PICTURES[name](weights=None).to(memory_format=torch.channels_last)
        return model, lambda n: [torch.rand(n, 3, side, side).to(memory_format=torch.channels_last)]
    if name == "bert":
        model = transformers.BertModel(transformers.BertConfig())
        return model, lambda n: [torch.randint(0, 1000, (n, 128)), torch.ones(n, 128, dtype=torch.int64)]
    if name == "lstm":
        return Lstm(), lambda n: [torch.randint(0, 1000, (n, 64))]
    return WideDeep(), lambda n: [torch.randint(0, 1000, (n, 26)), torch.rand(n, 13)]


def outputs_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if hasattr(result, "values") else result
    return [value for value in values if isinstance(value, torch.Tensor)]


def capture(model, inputs):
    """Returns a function that runs the model on `inputs` as one CUDA graph, and the outputs."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = outputs_of(model(*inputs))
    return graph.replay, outputs


def median_of(call, seconds):
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(call())
    return round(statistics.median(times), 4)


def measure(model, host_inputs, seconds):
    host_inputs = [x.pin_memory() for x in host_inputs]
    inputs = [x.to("cuda") for x in host_inputs]
    run, outputs = capture(model, inputs)
    host_outputs = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in outputs]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def on_gpu():
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def whole():
        begun = time.perf_counter()
        for there, here in zip(inputs, host_inputs):
            there.copy_(here, non_blocking=True)
        run()
        for here, there in zip(host_outputs, outputs):
            here.copy_(there, non_blocking=True)
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) * 1000

    for call in (on_gpu, whole):
        call()
    return {"gpu": median_of(on_gpu, seconds), "whole": median_of(whole, seconds)}


def main():
    names = (*PICTURES, "bert", "lstm", "widedeep")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(names))
    parser.add_argument("--compiled", default="")
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each of the measurements")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    compiled = options.compiled.split(",")
    with torch.inference_mode():
        for name in options.models.split(","):
            torch.manual_seed(1)
            model, inputs = make(name)
            model = model.eval().cuda()
            kinds = [("eager", model, BATCHES)]
            if name in compiled:
                kinds.append(("compiled", torch.compile(model, dynamic=False), COMPILED_BATCHES))
            for kind, callable_model, batches in kinds:
                times = {str(n): measure(callable_model, inputs(n), options.seconds) for n in batches}
                print(json.dumps({"model": name, "kind": kind, "torch": torch.__version__, "ms": times}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
