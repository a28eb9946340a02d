#!/usr/bin/env python3
"""A model written in Python as a chain that Trireme trains: every layer becomes a file of its own.

    torchscript_layers.py FOLDER        then: trireme train examples/torchscript.yaml --set 'model.files=["FOLDER/*.pt"]'

Needs Python's torch. What a layer must be: docs/models.md.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

import torch
from torch import nn

CLASSES = 10


class Residual(nn.Module):
    """x + what a small network makes of x."""

    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                  nn.Conv2d(channels, channels, 3, padding=1), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor):
        return x + self.body(x)


class Head(nn.Module):
    """The last layer takes the target, too, and gives the mean loss of the micro-batch."""

    def __init__(self, channels: int):
        super().__init__()
        self.classify = nn.Linear(channels, CLASSES)

    def forward(self, x: torch.Tensor, target: torch.Tensor):
        return nn.functional.cross_entropy(self.classify(x.mean(dim=[2, 3])), target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 16, 3, padding=1), *[Residual(16) for _ in range(6)], Head(16)]
    for number, layer in enumerate(layers):  # files are taken in the order of their names
        torch.jit.script(layer).save(str(folder / f"{number:02}-{type(layer).__name__.lower()}.pt"))
    print(f"{len(layers)} layers in {folder}")
