"""Layers of Python under trireme, for `bench/train/run python`. Prints seconds of a step, the median without the first; for tiny
layers, seconds of the forwards of a step, too, after each.

    python_layers.py gpt BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS   a GPT of nn.Modules
    python_layers.py calls LAYERS MICRO_BATCHES STEPS     tiny layers: built in, as nn.Modules, in a loop of PyTorch
SPDX-License-Identifier: Apache-2.0
"""

import statistics
import sys
import tempfile
import time

import peer_gpt
import torch
from torch import nn
from torch.nn import functional as F

import trireme


class Head(peer_gpt.Head):
    def forward(self, x, target):
        return peer_gpt.cross_entropy(super().forward(x), target)


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return F.gelu(self.linear(x))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 2)

    def forward(self, x, target):
        return F.cross_entropy(self.linear(x), target)


def trained(chain, data, batch, micro_batch, steps, threads, **model):
    """Seconds of a step, whose layers are neither measured nor planned, and of its forwards."""
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "data": {"validation_fraction": 0.0} | ({"kind": "synthetic"} if data is None else {}),
            "train": {"steps": steps, "batch": batch, "micro_batch": micro_batch, "validate_every": 0, "optimizer": {"kind": "adamw", "learning_rate": 1e-3}},
            "threads": threads,
            "report": {"directory": folder + "/run", "tensorboard": False, "html": False, "log_every": 1000},
        }
        figures = trireme.train(job | model, chain, data=data).figures
        return [figures["step_s"], figures["ranks"][0]["forward_s"]]


def gpt(blocks, width, heads, context, vocabulary, batch, micro_batch, steps, threads):
    layers = [*peer_gpt.chain(blocks, width, heads, context, vocabulary)[:-1], Head(vocabulary, width)]
    layers[-1].output.weight = layers[0].token.weight
    data = torch.randint(vocabulary, (4 * batch, context + 1))
    return trained(trireme.Chain(layers, context=context, vocabulary=vocabulary), data, batch, micro_batch, steps, threads)[:1]


def calls(layers, micro_batches, steps):
    modules = [*(Tiny() for _ in range(layers)), Last()]
    examples = [(torch.randn(8), torch.tensor(n % 2)) for n in range(micro_batches)]
    mlp = {"model": {"kind": "mlp", "inputs": 8, "widths": [8] * layers, "classes": 2}}
    built_in = trained(None, None, micro_batches, 1, steps, 1, **mlp)
    as_modules = trained(trireme.Chain(modules, "vectors", inputs=8, classes=2), None, micro_batches, 1, steps, 1)
    torch.set_num_threads(1)
    optimizer = torch.optim.AdamW([p for module in modules for p in module.parameters()], lr=1e-3, fused=True)
    seconds, of_forwards = [], []
    for _ in range(steps):
        begin, in_forward = time.monotonic(), 0
        for x, target in examples:
            x, target = x[None], target[None]
            start = time.monotonic()
            for module in modules[:-1]:
                x = module(x)
            loss = modules[-1](x, target) / micro_batches
            in_forward += time.monotonic() - start
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(time.monotonic() - begin)
        of_forwards.append(in_forward)
    return [*built_in, *as_modules, statistics.median(seconds[1:]), statistics.median(of_forwards[1:])]


figures = {"gpt": gpt, "calls": calls}[sys.argv[1]](*map(int, sys.argv[2:]))
print(*figures)
