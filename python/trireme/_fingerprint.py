"""What a module is, as text: modules of equal text cost the same."""

from __future__ import annotations

import functools
import re
import types
from typing import Any

import torch
from torch import nn

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_STANDARD = frozenset(nn.Module().__dict__)  # what every module has; parts and hooks are looked at one by one
_HOOKS = sorted(name for name in _STANDARD if name.endswith("_hooks"))
_DEEP = 5
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in texts of objects that have none of their own


class _Unknown(Exception):
    """A value that no text describes."""


def fingerprint(module: nn.Module) -> str | None:
    """Text that is equal for modules that compute the same way; None where that cannot be known."""
    try:
        return "\n".join(_of_part(name, part) for name, part in module.named_modules(remove_duplicate=False))
    except _Unknown:
        return None


def sketch(module: nn.Module) -> str:
    """As fingerprint(), with gaps where that is None. The same in every process."""
    return fingerprint(module) or _ADDRESS.sub("", f"{module}\n") + "\n".join(_tensors_of(module, recurse=True))


def _of_part(name: str, part: nn.Module) -> str:
    own = {key: value for key, value in part.__dict__.items() if key not in _STANDARD}
    hooks = [(table, _of_value(list(getattr(part, table).values()), 0)) for table in _HOOKS if getattr(part, table, None)]
    return f"{name}: {_name_of(type(part))} {_of_value(own, 0)} {_tensors_of(part, recurse=False)} {hooks}"


def _tensors_of(module: nn.Module, recurse: bool) -> list[str]:
    named = [*module.named_parameters(recurse=recurse), *module.named_buffers(recurse=recurse)]
    return [f"{name} {tuple(value.shape)} {value.dtype} {value.requires_grad}" for name, value in named]


def _of_value(value: Any, depth: int) -> str:
    if depth > _DEEP or isinstance(value, (nn.Module, torch.Tensor)):
        raise _Unknown
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}[{', '.join(_of_value(one, depth + 1) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_of_value(key, depth + 1)}: {_of_value(one, depth + 1)}' for key, one in value.items())}}}"
    if isinstance(value, functools.partial):
        return f"partial {_of_value([value.func, value.args, value.keywords], depth + 1)}"
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return f"{_name_of(value)} {_of_value([cells, value.__defaults__, value.__kwdefaults__], depth + 1)}"
    if isinstance(value, (type, types.BuiltinFunctionType)):
        return _name_of(value)
    if hasattr(value, "__dict__") and not callable(value):
        return f"{_name_of(type(value))} {_of_value(vars(value), depth + 1)}"
    raise _Unknown


def _name_of(what: Any) -> str:
    line = what.__code__.co_firstlineno if isinstance(what, types.FunctionType) else ""  # two lambdas of one function
    return f"{what.__module__}.{what.__qualname__}{line}"
