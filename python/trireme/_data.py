"""Data of the caller as examples by number."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from ._errors import InputError


class MapStyle(Protocol):
    """A map-style dataset (torch.utils.data.Dataset, datasets.Dataset) or an indexable of tensors."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Any: ...


class Examples:
    """Input and target of every element of a dataset.

    An element is a pair (input, target). Of a chain that takes tokens it may also be T + 1 tokens, of which the first
    T are the input and the last T the target; or a mapping with `input_ids` (T + 1 of them) and, if they are not the
    same, `labels`. An `attention_mask` is not read: padding is on the right, and has labels of -100.

    context: T, where the chain says it.
    """

    def __init__(self, data: MapStyle, takes: str, context: int | None = None):
        if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
            raise InputError(f"data is a {type(data).__name__}, must have a length and elements by number (a map-style dataset, a list, a tensor)")
        self._data = data
        self._takes, self._context = takes, context
        self.size = len(data)
        self.name = f"{type(data).__module__}.{type(data).__qualname__}"
        if self.size == 0:
            raise InputError(f"{self.name} has no example")

    def example(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        element = self._data[number]
        try:
            return self._example_of(element, number)
        except InputError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
            wanted = "T + 1 tokens, a pair (input, target) or a mapping with input_ids" if self._takes == "tokens" else "a pair (input, target)"
            raise InputError(f"element {number} of {self.name} is a {type(element).__name__}, of which no tensors can be made ({error}), must be {wanted}") from error

    def _example_of(self, element: Any, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(element, (tuple, list)) and len(element) == 2 and self._is_pair(element):
            return torch.as_tensor(element[0]), torch.as_tensor(element[1])
        if self._takes != "tokens":
            raise InputError(f"element {number} of {self.name} is a {type(element).__name__}, must be a pair (input, target)")
        ids, labels = element, None
        if hasattr(element, "keys"):
            ids, labels = element["input_ids"], element.get("labels")
            self._require_padding_last(element.get("attention_mask"), labels is not None, number)
        tokens = torch.as_tensor(ids)
        if tokens.dim() != 1:
            raise InputError(f"element {number} of {self.name} has sizes {tuple(tokens.shape)}, must be T + 1 tokens")
        if self._context and len(tokens) != self._context + 1:
            raise InputError(
                f"element {number} of {self.name} has {len(tokens)} tokens, must have {self._context + 1}: the chain's context is {self._context}, "
                "and every token but the first is the target of the one before it"
            )
        return tokens[:-1], (tokens if labels is None else torch.as_tensor(labels))[1:]

    def _require_padding_last(self, mask: Any, has_labels: bool, number: int) -> None:
        """The mask is not read: tokens would see padding before them, and padding without labels would be trained."""
        if mask is None:
            return
        mask = torch.as_tensor(mask).long()
        what = f"element {number} of {self.name} is padded (its attention_mask)"
        if (mask.diff() > 0).any():
            raise InputError(f"{what} on the left, must be padded on the right: the mask is not read, and no token sees what comes after it")
        if not has_labels and (mask == 0).any():
            raise InputError(f"{what} and has no labels, must have some, with -100 at the padding")

    def example_sizes(self) -> tuple[int, ...]:
        return tuple(self.example(0)[0].shape)

    @staticmethod
    def _is_pair(element: Any) -> bool:
        return not isinstance(element[0], int)  # two tokens are none
