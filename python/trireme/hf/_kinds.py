"""Which layers of a model cost the same."""

from __future__ import annotations

from torch import nn

from ._arguments import PLAIN
from ._layers import Block


def kind_of(layer: nn.Module, about: str) -> str:
    """Text that is equal for layers of one model that cost the same; `about` is of the model. Empty where that cannot
    be known: for modules with hooks."""
    if not isinstance(layer, Block):
        return f"{about} {type(layer).__name__}"
    parts = list(layer.block.named_modules())
    if any(getattr(part, table, None) for _, part in parts for table in vars(part) if table.endswith("_hooks")):
        return ""
    texts = [f"{name} {type(part).__qualname__} {_attributes(part, layer.number)} {_tensors(part)}" for name, part in parts]
    return "\n".join([about, layer.given, *texts])


def _attributes(part: nn.Module, number: int) -> list[str]:
    """Plain values, less the block's own number (layer_idx)."""
    own = {key: value for key, value in vars(part).items() if isinstance(value, PLAIN) and not key.startswith("_") and key != "training"}
    return [f"{key}={value!r}" for key, value in sorted(own.items()) if isinstance(value, bool) or value != number or "idx" not in key and "index" not in key]


def _tensors(part: nn.Module) -> list[str]:
    named = [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]
    return [f"{name} {tuple(value.shape)} {value.dtype} {value.requires_grad}" for name, value in named]
