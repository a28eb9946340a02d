"""Whether a chain computes what the whole model does, and layers keep nothing from one call to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from ._cut import BY_HAND, Cut

_MOST_PARAMETERS = 20_000_000
_MOST_TOKENS = 8
_CLOSE = 1e-5  # of the largest gradient; a chain that is right is far below


def is_wanted(model: nn.Module, asked: bool | None, has_values: bool) -> bool:
    """Whether to compare: as asked, otherwise where it takes little."""
    if asked is not None or not has_values:
        return bool(asked) and has_values
    return sum(parameter.numel() for parameter in model.parameters()) <= _MOST_PARAMETERS


def compare(cut: Cut, model: nn.Module, layers: list[nn.Module], context: int | None) -> None:
    """Raises InputError where the loss or a gradient is another one than the whole model's. Nothing is changed."""
    vocabulary = model.config.get_text_config().vocab_size
    generator = torch.Generator().manual_seed(0)
    tokens, target = torch.randint(vocabulary, (2, 2, min(context or _MOST_TOKENS, _MOST_TOKENS)), generator=generator).to(next(model.parameters()).device)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.random.fork_rng(devices=[]), _in_evaluation([model, *layers]), torch.enable_grad():
        whole = model(input_ids=tokens, labels=target, shift_labels=target, use_cache=False).loss
        expected = torch.autograd.grad(whole, list(trained.values()), allow_unused=True)
        value = tokens
        for layer in layers[:-1]:
            value = layer(value)
        loss = layers[-1](value, target)
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    for layer in layers:
        for name, part in layer.named_modules():
            kept = [key for key, value in vars(part).items() if isinstance(value, torch.Tensor) and value.grad_fn is not None]
            if kept:
                raise cut.refuse(f"its {name} keeps {', '.join(kept)} from one call to the next, which a recomputed forward would see", BY_HAND)
    if not _is_close(loss, whole):
        raise cut.refuse(f"on random tokens its loss is {whole.item():.6g}, and the chain's is {loss.item():.6g}", BY_HAND)
    for name, one, other in zip(trained, found, expected):
        if (one is None) != (other is None) or one is not None and not _is_close(one, other):
            raise cut.refuse(f"on random tokens the chain's gradient of {name} is another one than the model's", BY_HAND)


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool((one - other).abs().max() <= _CLOSE * other.abs().max())


@contextlib.contextmanager
def _in_evaluation(modules: list[nn.Module]) -> Iterator[None]:
    """Without dropout, which layers draw by seeds of their own."""
    was = {part: part.training for module in modules for part in module.modules()}
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, mode in was.items():
            part.training = mode
