"""From a model of transformers to a chain, and back."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig

from .. import _core
from .._chain import Chain, Layer
from .._errors import InputError
from .._load import Run, load_weights
from . import _self_test, _weights
from ._cut import Cut
from ._kinds import kind_of
from ._layers import Block

Model = Union[nn.Module, PretrainedConfig, str, "os.PathLike[str]"]


def chain(
    model: Model,
    context: int | None = None,
    *,
    prepare: Callable[[nn.Module], Any] | None = None,
    self_test: bool | None = None,
) -> Chain:
    """A decoder of transformers as a chain that takes tokens: its embedding, its blocks, its norm and head with its loss.

    model: a model in memory (from_pretrained(), from_config()), which is copied layer by layer, and stays as it is;
        or a folder that save_pretrained() wrote, of which every rank reads its own layers; or a config
        (AutoConfig.for_model(...)), whose weights are drawn as the model draws them, by the run's seed. Of a folder and
        a config the whole model is built on `meta` alone: no layer has weights before it is needed. Weights become
        float32 (train.precision lowers them).
    context: tokens of an example. None: those of the first example of train(data=...).
    prepare: called with the model of a folder or a config while it is on `meta`, before it is cut: it may freeze
        parameters, or add adapters of peft, whose values are those that it gives them.
    self_test: whether the loss and gradients of the chain are compared with those of the whole model on random tokens.
        None: for models in memory of at most 20 million parameters.

    Raises InputError with the model's class, what was found and what to do, where the model is no chain.
    """
    whole, layers = _cut(model, prepare, self_test, context)
    return _Decoder(layers, context, whole.config)


class _Decoder(Chain):
    """A chain whose examples are no longer than the model has positions."""

    def __init__(self, layers: list[Layer], context: int | None, config: PretrainedConfig):
        self._text = config.get_text_config()
        super().__init__(layers, context=context, vocabulary=self._text.vocab_size, masked_targets=True, name=config.model_type)
        self._require_positions()

    def sized(self, example: tuple[int, ...]) -> Chain:
        chain = super().sized(example)
        chain._require_positions()
        return chain

    def _require_positions(self) -> None:
        most = getattr(self._text, "max_position_embeddings", None)
        if self.context and most and self.context > most:
            raise InputError(
                f"an example has {self.context} tokens, {type(self._text).__name__}.max_position_embeddings is {most}: give shorter examples, or a config that has more positions"
            )


def back_into(model: nn.Module, run: Run) -> None:
    """Puts what a run has trained into a model in memory, of the same config, by load_weights().

    run: what train() returned, or the run's folder; it must keep checkpoints (checkpoint.every), of which the last is taken.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}, must be a model in memory: export() takes a folder or a config")
    load_weights(chain(model, self_test=False), run)


def export(model: PretrainedConfig | str | os.PathLike[str], run: Run, folder: str | os.PathLike[str]) -> None:
    """Writes what a run has trained as save_pretrained() does: config.json, and safetensors as transformers names them.

    model: the folder or the config that the run's chain was made of; the folder's tokenizer is copied. A model in memory
        has back_into() and save_pretrained().
    folder: a new one.
    """
    if isinstance(model, nn.Module):
        raise InputError("model is in memory: use back_into(model, run), then model.save_pretrained(folder)")
    target = Path(folder)
    if target.exists():
        raise InputError(f"{target} exists already: name a new folder")
    whole, layers = _cut(model, None, False, None)
    try:
        load_weights(Chain(layers), run)
    except InputError as error:
        raise InputError(f"{error}; what a run with prepare (LoRA by peft) has trained goes by back_into() into a model that was prepared alike") from None
    whole.save_pretrained(target)
    if not isinstance(model, PretrainedConfig):
        for file in _core.TOKENIZER_FILES:
            if (Path(model) / file).is_file() and not (target / file).exists():
                shutil.copy(Path(model) / file, target)


def _cut(model: Model, prepare: Callable[[nn.Module], Any] | None, self_test: bool | None, context: int | None) -> tuple[nn.Module, list[Layer]]:
    """The whole model, and its layers, which share its modules."""
    whole, source_of, what = _whole(model)
    names, alive = _names_of(whole), list(whole.parameters())  # which keeps ids what they are
    plain = whole  # as a folder has it
    if prepare is not None:
        if source_of is None:
            raise InputError("prepare is for a folder or a config: change a model in memory before it is given")
        plain = copy.deepcopy(whole)
        whole = prepare(whole) or whole
    adapters = {name: one.init_lora_weights for name, one in getattr(whole, "peft_config", {}).items() if hasattr(one, "init_lora_weights")}
    whole = _without_wrapper(whole)
    cut = Cut(whole)
    layers = cut.layers()
    if _self_test.is_wanted(whole, self_test, has_values=source_of is None):
        _self_test.compare(cut, whole, layers, context)
    origin = _weights.Origin(names, source_of and source_of(plain, _tied(layers, names)), what, adapters)
    width, about = whole.get_input_embeddings().weight.shape[-1], _about(whole)
    finish = lambda layer: layer.keep_arguments(context, width) if context and isinstance(layer, Block) else None
    builds = [_weights.Build(layer, origin, finish) for layer in layers]
    del alive
    called = ["embedding", *(f"block{number}" for number in range(len(layers) - 2)), "head"]
    return whole, [Layer(build, name, kind_of(layer, about), like=layer) for build, name, layer in zip(builds, called, layers)]


def _whole(model: Model) -> tuple[nn.Module, Callable[[nn.Module, set[str]], _weights.Source] | None, str]:
    """The model, on `meta` where it is none yet; what makes a source of its weights then; what has them, for messages."""
    if isinstance(model, nn.Module):
        return model, None, ""
    if isinstance(model, PretrainedConfig):
        return _weights.on_meta(model), _weights.Drawn, f"a {type(model).__name__}"
    if not isinstance(model, (str, os.PathLike)):
        raise InputError(f"model is a {type(model).__name__}, must be a model of transformers, a config, or a folder that save_pretrained() wrote")
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} has no config.json, must be a folder that save_pretrained() wrote: a model of the hub is fetched by `hf download NAME --local-dir FOLDER`")
    config = AutoConfig.from_pretrained(folder)
    if getattr(config, "quantization_config", None) is not None:
        raise InputError(f"{folder}: its weights are quantized (quantization_config), which cannot be trained: take the model that it was made of")
    try:
        whole = _weights.on_meta(config)
    except ValueError as error:
        raise InputError(f"{folder}: {str(error).splitlines()[0]} Only decoders with a head for tokens are chains") from error
    return whole, lambda plain, tied: _weights.Folder(plain, folder), str(folder)


def _names_of(model: nn.Module) -> dict[int, str]:
    """What a model calls its parameters and persistent buffers, by id."""
    saved = model.state_dict(keep_vars=True)
    return {id(value): name for name, value in [*reversed(saved.items()), *model.named_parameters()]}


def _tied(layers: list[nn.Module], names: dict[int, str]) -> set[str]:
    """Names of parameters that several layers have."""
    count = Counter(id(parameter) for layer in layers for parameter in layer.parameters())
    return {names[each] for each, layers_of in count.items() if layers_of > 1 and each in names}


def _without_wrapper(model: nn.Module) -> nn.Module:
    """The model of transformers in a model of peft, which has the adapters' layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _about(model: nn.Module) -> str:
    """What costs and checkpoints of its layers belong to beside their own code."""
    config = model.config.to_json_string(use_diff=False)
    attention = getattr(model.config, "_attn_implementation", None)
    return hashlib.blake2b(f"transformers {transformers.__version__} {attention} {config}".encode(), digest_size=16).hexdigest()
