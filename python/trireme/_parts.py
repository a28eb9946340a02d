"""The tensors of a module, as a layer takes them over."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ._errors import InputError


@dataclasses.dataclass
class Part:
    """A parameter or buffer, and the entries of dictionaries of the module that hold it."""

    name: str
    value: torch.Tensor
    is_parameter: bool
    is_saved: bool = True
    stays_as_it_is: bool = False  # keeps its type in every precision, and is no tied weight
    slots: list[tuple[dict, str]] = dataclasses.field(default_factory=list)

    @property
    def is_trained(self) -> bool:
        return self.is_parameter and self.value.requires_grad


def parts_of(module: nn.Module, may_be_meta: bool = False) -> list[Part]:
    """As found_parts(). may_be_meta: parameters and buffers may have no values yet. Raises InputError for what a layer
    cannot have."""
    parts = found_parts(module)
    for part in parts:
        _require_plain(part, may_be_meta)
    return parts


def found_parts(module: nn.Module) -> list[Part]:
    """Every parameter and buffer once, parameters first."""
    parts: dict[int, Part] = {}
    for table_name, is_parameter in (("_parameters", True), ("_buffers", False)):
        for prefix, owner in module.named_modules():
            table = getattr(owner, table_name)
            for key, value in table.items():
                if value is None:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                if id(value) not in parts:
                    parts[id(value)] = Part(
                        name,
                        value,
                        is_parameter,
                        is_saved=is_parameter or key not in owner._non_persistent_buffers_set,
                        stays_as_it_is=is_parameter and (isinstance(owner, _BatchNorm) or value.dtype != torch.float32),
                    )
                parts[id(value)].slots.append((table, key))
    return list(parts.values())


def _require_plain(part: Part, may_be_meta: bool) -> None:
    value = part.value
    what = f"{'parameter' if part.is_parameter else 'buffer'} {part.name}"
    if isinstance(value, nn.parameter.UninitializedTensorMixin):
        raise InputError(f"{what} has no size yet: run the lazy module once before it becomes a layer")
    if value.device.type != "cpu" and not (may_be_meta and value.is_meta):
        raise InputError(f"{what} is on {value.device}, must be on the CPU: Trireme moves layers to their device itself")
    if value.layout != torch.strided or value.is_quantized or value.is_complex():
        raise InputError(f"{what} is {value.dtype}, {value.layout}: must be a dense tensor of real numbers")
    if part.is_trained and value.dtype != torch.float32:
        raise InputError(f"{what} is trained and {value.dtype}, must be torch.float32: train.precision lowers it (module.float())")
    if part.is_parameter and _post_accumulate_hooks(value):
        raise InputError(f"{what} has a hook that register_post_accumulate_grad_hook set, where Trireme sums gradients itself: use register_hook")


def _post_accumulate_hooks(value: torch.Tensor) -> Any:
    return getattr(value, "_post_accumulate_grad_hooks", None)
