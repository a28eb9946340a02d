"""What stands in place of a model's parts while its forward runs without weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ._arguments import PLAIN, hidden_of, with_hidden

class Reached(BaseException):
    """A block's call has been seen: its arguments are all that was wanted. No `except Exception` of a model stops it."""


class HandedOn(Exception):
    """A block was not given what the one before it gave."""


class Stub(nn.Module):
    """In place of a module with weights: hands floating-point values on. An embedding gives zeros of its width, or random
    values where it is looked for what depends on them."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.weight = next(module.parameters(recurse=False)).detach().to("meta")  # whose type and sizes may be asked for
        self.is_embedding = isinstance(module, nn.Embedding)
        self.gives_random = False

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        given = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)), torch.zeros(0))
        if given.is_floating_point() and given.numel() > 0 and not self.is_embedding:
            return given
        sizes = (*given.shape, self.weight.shape[-1]) if given.numel() > 0 else (1,)
        device = "cpu" if given.is_meta else given.device  # a model may have sent it to the weight's
        if self.gives_random:
            return torch.randn(sizes).to(device)
        return torch.zeros(1, dtype=torch.int8, device=device).expand(sizes)  # a sum has the type of what it is added to


class OfBlock(nn.Module):
    """In place of a block: has its attributes by which models choose arguments (attention_type).

    members: of the tuple that blocks give, whose first one are hidden states; 0: they give these alone.
    """

    def __init__(self, block: nn.Module, members: int):
        super().__init__()
        for name, value in vars(block).items():
            if name not in self.__dict__ and isinstance(value, PLAIN):
                setattr(self, name, value)
        self.members = members

    def given(self, hidden: torch.Tensor) -> Any:
        return (hidden, *[None] * (self.members - 1)) if self.members else hidden


class Pass(OfBlock):
    """In place of a block before the layer's: hands hidden states on."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.given(hidden_of(args, kwargs))


class Catch(OfBlock):
    """In place of the layer's block: ends the forward with its arguments."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.seen = args, kwargs
        raise Reached

    def taken(self) -> tuple[tuple, dict]:
        seen, self.seen = self.seen, None
        return seen


class Give(OfBlock):
    """In place of the last block, for the head: gives what came from the layer before."""

    hidden: torch.Tensor | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.given(self.hidden)


class Record(OfBlock):
    """In place of a block that is looked at: remembers its arguments, and gives hidden states of its own."""

    gives_random = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.hidden = hidden_of(args, kwargs)
        self.arguments = with_hidden(args, kwargs, None)
        self.output = torch.randn_like(self.hidden) if self.gives_random else torch.ones_like(self.hidden).cumsum(-1)
        return self.given(self.output)


class Logits(nn.Module):
    """In place of what gives logits: the same for every input."""

    def __init__(self, module: nn.Module, vocabulary: int):
        super().__init__()
        self.weight = next(module.parameters()).detach().to("meta")
        self.logits = torch.linspace(-1, 1, vocabulary)

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.logits.to(hidden.device).expand(*hidden.shape[:-1], -1)
