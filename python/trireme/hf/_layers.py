"""The layers of a model: embedding, block, and head with loss."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from ._arguments import given_of, hidden_of, kept_of, with_hidden
from ._stubs import Catch, Give, Reached

_FEW_BYTES, _SHARE = 1 << 16, 32  # arguments that are kept take at most the larger of these bytes and of this share of weights


class Embedding(nn.Module):
    """Tokens, int64 [B, T], to the first block's hidden states [B, T, width]."""

    def __init__(self, model: nn.Module, catch: Catch):
        super().__init__()
        self.model, self.catch = model, catch

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        try:
            self.model(input_ids=tokens, use_cache=False)
        except Reached:
            return hidden_of(*self.catch.taken())


class Block(nn.Module):
    """A block, [B, T, width] to the same.

    given: what else than hidden states it is given, as text with types and sizes.
    writes: whether the model's forward writes into the embeddings that it is given.
    """

    def __init__(self, block: nn.Module, shell: nn.Module, catch: Catch, number: int, given: str, writes: bool):
        super().__init__()
        self.block, self.shell, self.catch, self.number, self.given, self.writes = block, shell, catch, number, given, writes
        self.context, self.kept = 0, None

    def train(self, mode: bool = True) -> Block:
        super().train(mode)
        self.shell.train(False)  # it draws nothing
        return self

    def keep_arguments(self, context: int, width: int) -> None:
        """Keeps what the block is given for examples of `context` tokens as buffers, if they are few bytes beside its
        weights: they take no part of a tape then, and the shell need not run."""
        found = kept_of(*(self._shown(torch.zeros(batch, context, width)) for batch in (1, 2)))
        if found is None or _bytes(found[1]) > max(_FEW_BYTES, _bytes(self.block.parameters()) // _SHARE):
            return
        self.context, (self.kept, tensors) = context, found
        for number, tensor in enumerate(tensors):
            self.register_buffer(f"given{number}", tensor.clone(), persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        args, kwargs = with_hidden(*self._arguments(hidden), hidden)
        output = self.block(*args, **kwargs)
        return output[0] if isinstance(output, (tuple, list)) else output

    def _arguments(self, hidden: torch.Tensor) -> tuple[tuple, dict]:
        if hidden.shape[1] != self.context or hidden.dtype != torch.float32:
            return self._shown(hidden)
        return given_of(self.kept, [value for name, value in self.named_buffers(recurse=False)], hidden.shape[0])

    def _shown(self, hidden: torch.Tensor) -> tuple[tuple, dict]:
        """What the model's forward gives the block, less the hidden states."""
        try:
            with torch.no_grad():
                self.shell(inputs_embeds=_in_place_of_embeddings(hidden, self.writes), use_cache=False)
        except Reached:
            return with_hidden(*self.catch.taken(), None)


class Head(nn.Module):
    """The last block's output [B, T, width] and the next tokens, int64 [B, T] with -100 where none counts, to the loss."""

    def __init__(self, model: nn.Module, give: Give, writes: bool):
        super().__init__()
        self.model, self.give, self.writes = model, give, writes

    def forward(self, hidden: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.give.hidden = hidden
        try:
            return self.model(inputs_embeds=_in_place_of_embeddings(hidden, self.writes), labels=target, shift_labels=target, use_cache=False).loss
        finally:
            self.give.hidden = None


def _in_place_of_embeddings(hidden: torch.Tensor, writes: bool) -> torch.Tensor:
    """What a shell is given, of which sizes and type alone matter."""
    return hidden.detach().clone() if writes else hidden.detach()


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
