"""Arguments of a block: nested tuples, lists and dicts of tensors and plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

PLAIN = (bool, int, float, str, type(None))


def hidden_of(args: tuple, kwargs: dict) -> torch.Tensor:
    """A block's input among its arguments: the first one, or `hidden_states`."""
    return args[0] if args else kwargs["hidden_states"]


def with_hidden(args: tuple, kwargs: dict, hidden: torch.Tensor | None) -> tuple[tuple, dict]:
    """The arguments with another input."""
    return ((hidden, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": hidden})


def unlike(one: Any, other: Any, name: str = "") -> str:
    """Name of the first value in which arguments differ, empty where there is none."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        is_same = one.dtype == other.dtype and torch.equal(one, other)
        return "" if is_same else name
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other}, key=str)
        found = (unlike(one.get(key), other.get(key), str(key)) for key in keys)
    elif isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)) and len(one) == len(other):
        found = (unlike(a, b, name or str(number)) for number, (a, b) in enumerate(zip(one, other)))
    else:
        return "" if type(one) is type(other) and (one == other or not isinstance(one, PLAIN)) else name
    return next((each for each in found if each), "")


def sizes_of(arguments: Any) -> str:
    """Arguments as text, with types and sizes in the place of tensors."""
    if isinstance(arguments, torch.Tensor):
        return f"{arguments.dtype}{list(arguments.shape)}"
    if isinstance(arguments, dict):
        return f"{{{', '.join(f'{key}: {sizes_of(value)}' for key, value in sorted(arguments.items(), key=str))}}}"
    if isinstance(arguments, (tuple, list)):
        return f"({', '.join(map(sizes_of, arguments))})"
    return repr(arguments) if isinstance(arguments, PLAIN) else type(arguments).__name__


@dataclasses.dataclass(frozen=True)
class Kept:
    """In place of a tensor of arguments that are kept."""

    number: int
    has_rows: bool  # the same for every example, one after the other


def kept_of(one: Any, two: Any) -> tuple[Any, list[torch.Tensor]] | None:
    """Arguments for any number of examples, with Kept for tensors, which follow; `one` are those for one example, `two`
    for two. None where they do not follow from those."""
    tensors: list[torch.Tensor] = []
    of_two = iter(tensors_of(two))

    def kept(tensor: torch.Tensor) -> Kept:
        tensors.append(tensor)
        return Kept(len(tensors) - 1, next(of_two).shape != tensor.shape)

    if unlike(mapped(one, torch.Tensor, type), mapped(two, torch.Tensor, type)):
        return None
    template = mapped(one, torch.Tensor, kept)
    return None if unlike(given_of(template, tensors, 2), two) else (template, tensors)


def given_of(template: Any, tensors: list[torch.Tensor], batch: int) -> Any:
    """The arguments for `batch` examples."""

    def given(kept: Kept) -> torch.Tensor:
        tensor = tensors[kept.number]
        if not kept.has_rows:
            return tensor
        return tensor.expand(batch, *tensor.shape[1:]) if len(tensor) == 1 else tensor.repeat(batch, *[1] * (tensor.dim() - 1))

    return mapped(template, Kept, given)


def mapped(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The same structure with other values of this kind."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(one, kind, change) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(one, kind, change) for one in value)
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    mapped(value, torch.Tensor, found.append)
    return found
