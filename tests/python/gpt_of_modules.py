"""A small GPT of nn.Modules, whose blocks do what Python layers do in the wild: one thing each."""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import trireme

STYLES = ("plain", "function", "hooks", "checkpoint", "reentrant", "norm")


class Gelu(torch.autograd.Function):
    """An activation with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return gradient * (0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density)


class GeluOfAttribute(Gelu):
    """Keeps its input beside autograd."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return Gelu.forward(_Saves(), x)

    @staticmethod
    def backward(ctx, gradient):
        return Gelu.backward(_Saves(ctx.x), gradient)


class _Saves:
    def __init__(self, *tensors):
        self.saved_tensors = tensors

    def save_for_backward(self, *tensors):
        pass


class Embedding(nn.Module):
    def __init__(self, vocabulary, width, context, dropout=0.0, weight=None):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        if weight is not None:
            self.tokens.weight = weight
        self.places = nn.Embedding(context, width)
        self.register_buffer("order", torch.arange(context), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        return self.dropout(self.tokens(tokens) + self.places(self.order[: tokens.shape[1]]))


class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.0, style="plain"):
        super().__init__()
        self.heads, self.dropout, self.style = heads, dropout, style
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)
        if style == "hooks":
            self.up.register_full_backward_pre_hook(halved)
            self.down.register_forward_hook(scaled)
        if style == "norm":
            self.batch_norm = nn.BatchNorm1d(width)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return self.drop(self.out(mixed.transpose(1, 2).reshape(b, t, c)))

    def mlp(self, x):
        hidden = self.up(self.norm2(x))
        if self.style == "hooks" and hidden.requires_grad:
            hidden.register_hook(doubled)
        return self.drop(self.down(ACTIVATIONS.get(self.style, F.gelu)(hidden)))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        if self.style in ("checkpoint", "reentrant"):
            return x + checkpoint(self.mlp, x, use_reentrant=self.style == "reentrant")
        if self.style == "norm":
            if self.training:
                self.calls = self.calls + 1  # assigned, not changed in place
            x = self.batch_norm(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(x)


class Head(nn.Module):
    def __init__(self, vocabulary, width, weight=None):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if weight is not None:
            self.linear.weight = weight

    def forward(self, x, target):
        return F.cross_entropy(self.linear(self.norm(x)).flatten(0, 1), target.flatten())


ACTIVATIONS = {"function": Gelu.apply, "attribute": GeluOfAttribute.apply}


def halved(module, gradients):
    return tuple(gradient * 0.5 for gradient in gradients)


def doubled(gradient):
    return gradient * 2.0


def scaled(module, inputs, output):
    return output * 1.5


def make(width=32, heads=4, context=32, vocabulary=64, dropout=0.1, styles=STYLES, tied=True):
    """Layers that are built in the run; the token embedding is also the head's weight."""
    weight = None
    if tied:
        generator = torch.Generator().manual_seed(5)
        weight = nn.Parameter(torch.randn(vocabulary, width, generator=generator) * 0.02)
    return trireme.Chain(
        [
            functools.partial(Embedding, vocabulary, width, context, dropout, weight),
            *(functools.partial(Block, width, heads, dropout, style) for style in styles),
            functools.partial(Head, vocabulary, width, weight),
        ],
        context=context,
    )
