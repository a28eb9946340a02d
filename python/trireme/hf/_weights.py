"""Where the weights of a model that is on `meta` come from, one layer at a time."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig, initialization
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, convert_and_load_state_dict_in_model, rename_source_key
from transformers.modeling_utils import LoadStateDictConfig
from transformers.utils import logging

from .._chain import tied_seed
from .._errors import InputError

# Values by the names that the model has for them, of those names that were asked for.
Source = Callable[[set[str]], dict[str, torch.Tensor]]

_ONE_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def on_meta(config: PretrainedConfig) -> nn.Module:
    """The model of a config: float32, its weights on `meta`, its buffers with their values."""
    with initialization.no_init_weights(), _parameters_on_meta():
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=torch.float32)
    model.tie_weights()
    return model.train()


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    register = nn.Module.register_parameter

    def register_on_meta(module: nn.Module, name: str, value: nn.Parameter | None) -> None:
        if value is not None and not value.is_meta:
            value = nn.Parameter(value.detach().to("meta"), value.requires_grad)
        register(module, name, value)

    nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        nn.Module.register_parameter = register


class Drawn:
    """Initial values, as the model's own _init_weights draws them from torch's default generator. Those of `tied`, which
    several layers have, are drawn from tied_seed() instead."""

    def __init__(self, model: nn.Module, tied: set[str]):
        self._model, self._tied = copy.deepcopy(model), tied

    def __call__(self, names: set[str]) -> dict[str, torch.Tensor]:
        values = self._draw(names - self._tied)
        if names & self._tied:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(tied_seed())
                values |= self._draw(names & self._tied)
        return values

    def _draw(self, names: set[str]) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(self._model)  # the rest of it stays on meta, where drawing costs nothing
        drawn = {id(value): nn.Parameter(torch.full(value.shape, torch.nan)) for name, value in model.named_parameters() if name in names}
        for module in model.modules():
            for key, value in module._parameters.items():
                module._parameters[key] = drawn.get(id(value), value)
        model.initialize_weights()
        values = {name: value.detach() for name, value in model.named_parameters() if name in names}
        missed = sorted(name for name, value in values.items() if value.isnan().any())
        if missed:
            raise InputError(f"_init_weights of {type(model).__name__} leaves {', '.join(missed[:3])} without values: give a model in memory instead of its config")
        return values


class Folder:
    """Values in a folder that save_pretrained() wrote, of one safetensors file or several with an index. Tensors are
    renamed and put together as transformers does."""

    def __init__(self, model: nn.Module, folder: Path):
        self._model, self._folder = copy.deepcopy(model), folder
        self._files = _files_by_tensor(folder)
        self._aliases = _aliases(model)
        self._mapping = get_model_conversion_mapping(self._model)
        self._tensors_of: dict[str, list[str]] = defaultdict(list)
        state = self._model.state_dict()
        by_kind = [[one for one in self._mapping if isinstance(one, kind)] for kind in (WeightRenaming, WeightConverter)]
        for tensor in self._files:
            name, _ = rename_source_key(tensor, *by_kind, self._model.base_model_prefix, state)
            self._tensors_of[name if name in state else tensor].append(tensor)

    def __call__(self, names: set[str]) -> dict[str, torch.Tensor]:
        asked = {alias: name for name in names for alias in self._aliases.get(name, [name])}
        tensors = [tensor for alias in asked for tensor in self._tensors_of.get(alias, [])]
        model = copy.deepcopy(self._model)
        values: dict[str, torch.Tensor] = {}
        for alias, value in self._read(model, tensors).items():
            name = asked.get(alias)
            if name in values and not torch.equal(values[name], value):
                raise InputError(f"{self._folder}: {alias} and {name} are one weight of {type(model).__name__}, and have different values: set tie_word_embeddings to false in config.json")
            if name is not None:
                values.setdefault(name, value)
        return values

    def _read(self, model: nn.Module, tensors: list[str]) -> dict[str, torch.Tensor]:
        """Values of a model's parameters and buffers, by all their names, out of these tensors."""
        for module in model.modules():  # uses of a tied weight are read one by one
            for key, value in module.named_parameters(recurse=False):
                module._parameters[key] = nn.Parameter(value.detach())
        with contextlib.ExitStack() as files:
            opened = {file: files.enter_context(_opened(file)) for file in {self._files[tensor] for tensor in tensors}}
            slices = {tensor: opened[self._files[tensor]].get_slice(tensor) for tensor in tensors}
            files.enter_context(_on_this_thread())
            info, _ = convert_and_load_state_dict_in_model(model, slices, LoadStateDictConfig(dtype=torch.float32, weight_mapping=self._mapping))
        wrong = [*(f"{name} has sizes {tuple(there)}, must have {tuple(wanted)}" for name, there, wanted in info.mismatched_keys), *info.conversion_errors.values(), *info.error_msgs]
        if wrong:
            raise InputError(f"{self._folder}: {'; '.join(map(str, wrong))}: it is of another model than its config.json")
        return {name: value.detach() for name, value in model.state_dict(keep_vars=True).items() if not value.is_meta and name not in info.missing_keys}


@contextlib.contextmanager
def _on_this_thread() -> Iterator[None]:
    """Loading without threads of its own, whose memory no rank would count, and without a progress bar for each layer."""
    key, shows = "HF_DEACTIVATE_ASYNC_LOAD", logging.is_progress_bar_enabled()
    before = os.environ.get(key)
    os.environ[key] = "1"
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before
        if shows:
            logging.enable_progress_bar()


def _opened(file: Path) -> Any:
    try:
        return safetensors.safe_open(file, framework="pt")
    except safetensors.SafetensorError as error:
        raise InputError(f"{file}: {error}: the file is damaged or cut off, fetch it once more") from error


def _files_by_tensor(folder: Path) -> dict[str, Path]:
    if (folder / _INDEX).is_file():
        return {tensor: folder / file for tensor, file in json.loads((folder / _INDEX).read_text())["weight_map"].items()}
    if not (folder / _ONE_FILE).is_file():
        raise InputError(f"{folder} has neither {_ONE_FILE} nor {_INDEX}: save the model with save_pretrained()")
    with _opened(folder / _ONE_FILE) as file:
        return {tensor: folder / _ONE_FILE for tensor in file.keys()}


def _aliases(model: nn.Module) -> dict[str, list[str]]:
    """All names of every parameter, by the first of them."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, value in model.named_parameters(remove_duplicate=False):
        names[id(value)].append(name)
    return {all_names[0]: all_names for all_names in names.values()}


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where the layers of one model have their values from.

    names: by id, what the model calls its parameters and persistent buffers.
    source: of those that are on `meta`; None: none are.
    what: has the values, for messages.
    adapters: by adapter of peft, how its first values are drawn (LoraConfig.init_lora_weights).
    """

    names: dict[int, str]
    source: Source | None
    what: str
    adapters: dict[str, Any]


class Build:
    """Builds a layer: a copy of `layer`, with values in the place of parameters on `meta`, and of buffers that a file
    may have. finish: called with the layer that was built."""

    def __init__(self, layer: nn.Module, origin: Origin, finish: Callable[[nn.Module], None]):
        self._layer, self._origin, self._finish = layer, origin, finish
        self._wanted: list[tuple[str, bool, str]] = []  # place in the layer, whether it is a parameter, name in the model
        self._added: list[str] = []  # parameters on meta that prepare() has added
        if origin.source is None:
            return
        for table, is_parameter in (("_parameters", True), ("_buffers", False)):
            for prefix, module in layer.named_modules():
                for key, value in getattr(module, table).items():
                    name = origin.names.get(id(value))
                    if name is not None and (value.is_meta or not is_parameter):
                        self._wanted.append((f"{prefix}.{key}", is_parameter, name))
                    elif is_parameter and value is not None and value.is_meta:
                        self._added.append(f"{prefix}.{key}")

    def __call__(self) -> nn.Module:
        layer = copy.deepcopy(self._layer)
        if self._wanted:
            self._fill(layer)
        if self._added:
            self._draw_adapters(layer)
        self._finish(layer)
        return layer

    def _fill(self, layer: nn.Module) -> None:
        values = self._origin.source({name for _, _, name in self._wanted})
        missing = sorted({name for _, is_parameter, name in self._wanted if is_parameter and name not in values})
        if missing:
            raise InputError(f"{self._origin.what} has no values for {len(missing)} weights ({', '.join(missing[:3])}): it is of another model than its config.json")
        for place, is_parameter, name in self._wanted:
            if name in values:
                _put_value(layer, place, is_parameter, values[name])

    def _draw_adapters(self, layer: nn.Module) -> None:
        """As peft draws them, which puts adapters of weights on `meta` there, too."""
        for place in self._added:
            _put_value(layer, place, True, torch.full(layer.get_parameter(place).shape, torch.nan))
        for module in layer.modules():
            if hasattr(module, "reset_lora_parameters"):
                for adapter, drawn in self._origin.adapters.items():
                    module.reset_lora_parameters(adapter, drawn)
        missed = [place for place in self._added if layer.get_parameter(place).isnan().any()]
        if missed:
            raise InputError(f"prepare has left {', '.join(missed[:3])} on meta, without values: give the weights that it adds values on the CPU, or a model in memory")


def _put_value(layer: nn.Module, place: str, is_parameter: bool, value: torch.Tensor) -> None:
    prefix, _, key = place.rpartition(".")
    module = layer.get_submodule(prefix)
    if is_parameter:
        module._parameters[key] = nn.Parameter(value, module._parameters[key].requires_grad)
    else:
        module._buffers[key] = value.to(module._buffers[key].dtype)
