"""What a run has trained, for modules."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Union

import torch
from torch import nn

from . import _core
from ._chain import Chain
from ._errors import InputError
from ._parts import Part, found_parts
from ._run import Summary

Run = Union[Summary, str, "os.PathLike[str]"]
_TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}  # fmt: skip


def load_weights(modules: Chain | Iterable[nn.Module], run: Run) -> None:
    """Puts what a run has trained into modules: parameters and saved buffers, converted to the types that are there.

    modules: a Chain whose layers are modules, as the run's was; or such modules, in the chain's order.
    run: what train() returned, or a run's folder, of which the last checkpoint is taken. `checkpoint: {every: N}` keeps some,
        one of them of the last step.

    Raises InputError where the run has no checkpoint, or is of a chain with other names or sizes.
    """
    chain = modules if isinstance(modules, Chain) else Chain(modules)
    values = trained_weights(run)
    loaded: dict[int, torch.Tensor] = {}  # by parameter: one that several layers have is in the file once
    with torch.no_grad():
        for layer, module in chain.named_layers().items():
            for part in found_parts(module):
                value = values.pop(f"{layer}.{part.name}", loaded.get(id(part.value)))
                if value is None and not part.is_saved:
                    continue
                loaded[id(part.value)] = _required(value, f"{layer}.{part.name}", part.value, run)
                _put(part, loaded[id(part.value)])
    if values:
        raise InputError(f"{_folder(run)} has trained {len(values)} tensors that these modules do not have ({', '.join(sorted(values)[:3])}): give the chain that was trained")


def trained_weights(run: Run) -> dict[str, torch.Tensor]:
    """A run's weights and saved buffers, named LAYER.NAME, each tied weight once. They are read when they are used."""
    folder = _folder(run)
    with tempfile.TemporaryDirectory(dir=folder if folder.is_dir() else None) as place:
        file = Path(place) / "weights.safetensors"
        _core.export_weights(str(folder), str(file), {"python": None})
        return _mapped(file)


def _folder(run: Run) -> Path:
    return run.folder if isinstance(run, Summary) else Path(run)


def _mapped(file: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file, which may be deleted meanwhile: 8 bytes with the length of the header, the header
    (JSON: type, sizes and place of every tensor), the tensors' bytes."""
    size = file.stat().st_size
    content = torch.from_file(str(file), shared=False, size=size, dtype=torch.uint8)
    start = 8 + int.from_bytes(bytes(content[:8].tolist()), "little")
    header = json.loads(bytes(content[8:start].tolist()))
    header.pop("__metadata__", None)
    return {name: _tensor(content[start:], entry) for name, entry in header.items()}


def _tensor(content: torch.Tensor, entry: dict) -> torch.Tensor:
    begin, end = entry["data_offsets"]
    value = content[begin:end]
    dtype = _TYPES[entry["dtype"]]
    if value.data_ptr() % dtype.itemsize:
        value = value.clone()
    return value.view(dtype).view(entry["shape"])


def _required(value: torch.Tensor | None, name: str, there: torch.Tensor, run: Run) -> torch.Tensor:
    if value is None:
        raise InputError(f"{_folder(run)} has not trained {name}: give the chain that was trained")
    if value.shape != there.shape:
        raise InputError(f"{name} has sizes {tuple(there.shape)}, but {tuple(value.shape)} in {_folder(run)}: give the chain that was trained")
    return value


def _put(part: Part, value: torch.Tensor) -> None:
    if not part.value.is_meta:
        part.value.copy_(value)
        return
    for table, key in part.slots:
        table[key] = nn.Parameter(value, part.value.requires_grad) if part.is_parameter else value
