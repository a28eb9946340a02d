"""A small GPT of torch modules, trained on the bytes of this file in about half of its memory.

    python examples/python/train_gpt.py
    mpirun -n 2 python examples/python/train_gpt.py
"""

import pathlib

import torch
from torch import nn
from torch.nn import functional as F

import trireme

WIDTH, HEADS, BLOCKS, CONTEXT, BYTES = 64, 4, 4, 64, 256


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(BYTES, WIDTH), nn.Embedding(CONTEXT, WIDTH)

    def forward(self, tokens):  # [B, T]
        return self.tokens(tokens) + self.places.weight[: tokens.shape[1]]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):  # [B, T, WIDTH]
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES)

    def forward(self, x, target):  # the last layer is given the target, and returns the loss
        return F.cross_entropy(self.linear(self.norm(x)).flatten(0, 1), target.flatten())


class Text(torch.utils.data.Dataset):
    """Windows of CONTEXT + 1 bytes of a file."""

    def __init__(self, file):
        self.bytes = torch.tensor(list(pathlib.Path(file).read_bytes()))

    def __len__(self):
        return len(self.bytes) - CONTEXT

    def __getitem__(self, place):
        return self.bytes[place : place + CONTEXT + 1]


if __name__ == "__main__":
    chain = trireme.Chain([Embedding, *[Block] * BLOCKS, Head])
    job = {
        "train": {"steps": 30, "batch": 16, "micro_batch": 4, "optimizer": {"learning_rate": 0.003}},
        "memory": {"device_budget": "4608KiB", "host_budget": "1GiB"},
        "report": {"directory": "runs/train_gpt"},
    }
    run = trireme.train(job, chain, data=Text(__file__))
    if trireme.is_main_process():
        print(f"loss {run.losses[0]:.2f} -> {run.losses[-1]:.2f}; page: {run.folder / 'report.html'}")
