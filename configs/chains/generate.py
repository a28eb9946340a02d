#!/usr/bin/env python3
"""Writes the example chains, the table of their README and the example platforms.

Nothing here is measured: every byte follows from a shape, every time from a roofline (Williams et
al. 2009): an operation takes max(FLOP / (FLOP/s), bytes moved / (bytes/s)), a layer the sum of its
operations. The rates are round figures of the order that such devices reach. What autograd keeps
and when it lets go follow PyTorch's operators; workspaces that a library picks by itself (cuDNN,
cuBLAS) are left out, the bytes of targets too.

    configs/chains/generate.py              writes all files
    configs/chains/generate.py --table      prints parameters, multiply-adds, bytes and times
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import platforms


@dataclass(frozen=True)
class Device:
    """Rates that kernels reach, bytes of an activation, bytes that each parameter costs."""
    title: str
    flops: float
    bandwidth: float
    item: int
    parameter: int
    gradient: int
    optimizer: int


H100 = Device("""an H100-like GPU with 400e12 FLOP/s in bfloat16 products and 2.5e12 bytes/s.
# A parameter costs 2 bytes, its gradient 2, its optimiser 12 (float32 copy and two moments of Adam).""",
              400e12, 2.5e12, item=2, parameter=2, gradient=2, optimizer=12)
CARD = Device("""a 24 GB card with 15e12 FLOP/s in float32 products and 0.7e12 bytes/s.
# A parameter costs 4 bytes, its gradient 4, its optimiser 4 (momentum).""",
              15e12, 0.7e12, item=4, parameter=4, gradient=4, optimizer=4)


@dataclass(eq=False)
class Tensor:
    """A value in memory: two of the same shape are two. The first dimension counts rows or images."""
    shape: tuple
    item: int

    @property
    def bytes(self):
        return math.prod(self.shape) * self.item


@dataclass
class Operation:
    inputs: tuple
    output: Tensor       # one of the inputs: in place, or a view
    saved: tuple         # what autograd keeps until the operation's backward
    temporary: int       # bytes of its backward beside the gradients of its inputs
    alias: bool          # the gradient of the output serves the inputs as it is


def size(tensors):
    return sum(t.bytes for t in set(tensors))


class Layer:
    """A layer of the chain: operations in the order of its forward, and what they cost."""

    def __init__(self, name, device, x, is_first):
        self.name, self.device, self.input = name, device, x
        self.constants = {x} if is_first else set()  # need no gradient
        self.operations = []
        self.parameters = self.statistics = self.macs = 0
        self.forward_s = self.backward_s = 0.0

    def add_operation(self, inputs, output, saved=(), moved=(0, 0), macs=0, backward=2.0,
                      parameters=0, workspace=0, alias=False):
        """`moved`: bytes through memory, forward and backward; `backward`: its multiply-adds to those
        of the forward. A parameter's gradient is made before it is added to its buffer."""
        roof = lambda work, bytes_: max(2 * work / self.device.flops, bytes_ / self.device.bandwidth)
        self.forward_s += roof(macs, moved[0])
        self.backward_s += roof(backward * macs, moved[1])
        self.macs += macs
        self.parameters += parameters
        temporary = workspace + parameters * self.device.gradient
        self.operations.append(Operation(inputs, output, saved, temporary, alias))
        return output

    def tensor(self, *shape):
        return Tensor(shape, self.device.item)

    # Operations: what each saves, and how often it goes over its tensors, forward and backward.

    def product(self, x, y, weights, biases):
        """Saves x. Backward: one product for the weights, one for x where x needs it."""
        macs = math.prod(y.shape) // y.shape[1] * weights
        moved = x.bytes + y.bytes + weights * self.device.item
        backward = 1 if x in self.constants else 2
        return self.add_operation((x,), y, (x,), (moved, backward * moved), macs, backward,
                                  weights + biases)

    def linear(self, x, features, bias=True):
        y = self.tensor(x.shape[0], features)
        return self.product(x, y, math.prod(x.shape[1:]) * features, features * bias)

    def conv(self, x, channels, kernel, stride=1, bias=False):
        side = (x.shape[2] - 1) // stride + 1
        y = self.tensor(x.shape[0], channels, side, side)
        return self.product(x, y, kernel**2 * x.shape[1] * channels, channels * bias)

    def embedding(self, tokens, entries, width):
        """Saves the tokens."""
        y = self.tensor(tokens.shape[0], width)
        moved = (2 * y.bytes, y.bytes + 3 * entries * width * self.device.item)
        return self.add_operation((tokens,), y, (tokens,), moved, parameters=entries * width)

    def add_positions(self, x, positions):
        y = self.tensor(*x.shape)
        return self.add_operation((x,), y, (), (2 * x.bytes, x.bytes),
                                  parameters=positions * x.shape[1], alias=True)

    def layer_norm(self, x):
        """Saves x, mean and deviation of every row (float32)."""
        return self.add_operation((x,), self.tensor(*x.shape), (x, Tensor((x.shape[0], 2), 4)),
                                  (2 * x.bytes, 3 * x.bytes), parameters=2 * x.shape[1])

    def batch_norm(self, x):
        """Saves x, mean and deviation of every channel."""
        self.statistics += 2 * x.shape[1]
        return self.add_operation((x,), self.tensor(*x.shape), (x, Tensor((x.shape[1], 2), 4)),
                                  (3 * x.bytes, 5 * x.bytes), parameters=2 * x.shape[1])

    def relu(self, x):
        """In place; saves its output."""
        return self.add_operation((x,), x, (x,), (2 * x.bytes, 3 * x.bytes))

    def gelu(self, x):
        """Saves x."""
        return self.add_operation((x,), self.tensor(*x.shape), (x,), (2 * x.bytes, 3 * x.bytes))

    def add(self, x, branch, in_place=False):
        """Saves nothing. Its backward stands for the sum of the two gradients where they meet."""
        y = branch if in_place else self.tensor(*x.shape)
        return self.add_operation((x, branch), y, (), (3 * x.bytes, 3 * x.bytes), alias=True)

    def attention(self, qkv, heads, sequence):
        """Causal, fused (Dao 2023): saves q, k, v, its output and the log-sum-exp (float32). Half of
        the scores are masked; backward does five products for two and sums up q's gradient in
        float32. The three gradients are then copied into one, that of qkv."""
        rows, width = qkv.shape[0], qkv.shape[1] // 3
        y, lse = self.tensor(rows, width), Tensor((rows, heads), 4)
        self.add_operation((qkv,), qkv, (), (0, 2 * qkv.bytes))
        workspace = 4 * rows * width + lse.bytes
        moved = qkv.bytes + y.bytes
        return self.add_operation((qkv,), y, (qkv, y, lse), (moved, 2 * moved + 2 * workspace),
                                  rows * sequence * width, 2.5, workspace=workspace)

    def max_pool(self, x, stride):
        """Saves x and the place of every maximum (int64)."""
        y = self.tensor(*x.shape[:2], *((side - 1) // stride + 1 for side in x.shape[2:]))
        places = Tensor(y.shape, 8)
        moved = x.bytes + y.bytes + places.bytes
        return self.add_operation((x,), y, (x, places), (moved, moved))

    def average_pool(self, x):
        """2 x 2; saves x."""
        y = self.tensor(*x.shape[:2], *(side // 2 for side in x.shape[2:]))
        return self.add_operation((x,), y, (x,), (x.bytes + y.bytes,) * 2)

    def mean(self, x):
        """Over the image; saves nothing."""
        return self.add_operation((x,), self.tensor(*x.shape[:2]), (), (x.bytes, x.bytes))

    def concatenate(self, x, new):
        """Saves nothing; the gradients are views. Its backward stands for the sum at x."""
        y = self.tensor(x.shape[0], x.shape[1] + new.shape[1], *x.shape[2:])
        return self.add_operation((x, new), y, (), (2 * y.bytes, 3 * x.bytes), alias=True)

    def cross_entropy(self, x):
        """In float32; saves the logarithms of the probabilities."""
        if x.item != 4:
            cast = Tensor(x.shape, 4)
            x = self.add_operation((x,), cast, (), (x.bytes + cast.bytes,) * 2)
        logs = Tensor(x.shape, 4)
        self.add_operation((x,), logs, (logs,), (2 * x.bytes, 3 * x.bytes))
        return self.add_operation((logs,), Tensor((1,), 4), (logs,), (0, logs.bytes))

    # Bytes of the whole layer, with Trireme's meaning of each field.

    def costs(self):
        output = self.operations[-1].output
        tape = size(self.saved() | {output})
        item = self.device
        return {"forward_s": f"{self.forward_s:.3e}", "backward_s": f"{self.backward_s:.3e}",
                "output_bytes": output.bytes, "tape_bytes": tape,
                "forward_transient_bytes": self.forward_peak(set()) - output.bytes,
                "tape_transient_bytes": self.forward_peak(self.saved()) - tape,
                "backward_transient_bytes": self.backward_peak(),
                "parameter_bytes": item.parameter * (self.parameters + self.statistics),
                "gradient_bytes": item.gradient * self.parameters,
                "optimizer_bytes": item.optimizer * self.parameters}

    def saved(self):
        return {t for op in self.operations for t in op.saved} - {self.input}

    def forward_peak(self, kept):
        """Most bytes above the input when a tensor goes after its last use, unless it is kept."""
        output = self.operations[-1].output
        last_use = {t: k for k, op in enumerate(self.operations) for t in op.inputs}
        live, peak = set(), 0
        for k, op in enumerate(self.operations):
            live |= {op.output, *op.saved} - {self.input}
            peak = max(peak, size(live))
            live = {t for t in live if last_use.get(t, 0) > k or t in kept or t is output}
        return peak

    def backward_peak(self):
        """Most bytes above what was there before: a saved tensor goes with the last operation that
        needs it; the output and its gradient stay to the end; gradients that meet are summed in place."""
        output = self.operations[-1].output
        given = Tensor(output.shape, output.item)
        uses = Counter(t for op in self.operations for t in op.saved)
        held = self.saved() | {output, given}
        before, peak, gradients = size(held), 0, {output: given}
        for op in reversed(self.operations):
            gradient = gradients.pop(op.output)
            made = {t: gradient if op.alias else Tensor(t.shape, t.item)
                    for t in op.inputs if t not in self.constants}
            live = size({*held, gradient, *gradients.values(), *made.values()})
            peak = max(peak, live + op.temporary - before)
            gradients |= made
            uses -= Counter(op.saved)
            held -= {t for t in op.saved if t not in uses and t is not output}
        return peak


@dataclass
class Chain:
    name: str
    title: str
    device: Device
    input: Tensor
    samples: int         # per micro-batch: images, or sequences
    tied: int = 0        # parameters that a second layer holds a copy of
    layers: list = field(default_factory=list)

    def layer(self, name):
        x = self.layers[-1].operations[-1].output if self.layers else self.input
        self.layers.append(Layer(name, self.device, x, not self.layers))
        return self.layers[-1]
