"""A model as a chain of layers."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Union

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from . import _code, _core
from ._errors import InputError, told
from ._fingerprint import fingerprint, sketch
from ._parts import Part, parts_of
from ._seeds import all_seeded, seeded


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer that is built where and when it is needed: `make()` gives its module.

    name: in messages, plans and weights' names; empty: from the module's class.
    kind: layers of one kind cost the same, so that one of them is built to look at it, and measured. Empty: decided
        by looking at each.
    like: looked at instead of building one: a module of the same parts, whose parameters may be on `meta`. A parameter
        that several of these have is one weight with several uses.
    """

    make: Callable[[], nn.Module]
    name: str = ""
    kind: str = ""
    like: nn.Module | None = None


LayerLike = Union[nn.Module, Callable[[], nn.Module], Layer]


class Chain:
    """Layers in order: each takes the output of the one before it, the first the data's input. The last one also
    takes the target, and returns the loss: the mean over the examples (tokens) it was given.

    layers: modules; or callables that build one (functools.partial(Block, 64)), or Layer. What is built by a
        callable depends on the run's seed alone, and is counted against the budgets from its first byte. A module
        is copied where it is needed: its own tensors stay as they are, the values that every run begins with.
    takes: what the first layer is given.
        "tokens": int64 [B, context], and as target the same shifted by one; values below `vocabulary`.
        "vectors": float32 [B, inputs]; target int64 [B] below `classes`.
        "images": float32 [B, *image]; target int64 [B] below `classes`.
    context, inputs, image: sizes of an example; None: those of the first example of train(data=...).
    vocabulary, classes: None: those of the last nn.Linear; for tokens of the first layer's nn.Embedding, of several the one that has as many rows as
        the last nn.Linear has features, else the first.
    masked_targets: the loss is the mean over targets that are not -100 (ignore_index), so that data may mask some.

    A parameter that is an element of several layers (the same nn.Parameter) is one weight with several uses.
    """

    def __init__(
        self,
        layers: Iterable[LayerLike],
        takes: str = "tokens",
        *,
        context: int | None = None,
        vocabulary: int | None = None,
        inputs: int | None = None,
        image: tuple[int, int, int] | None = None,
        classes: int | None = None,
        masked_targets: bool = False,
        name: str = "python",
    ):
        if isinstance(layers, nn.Module) and not isinstance(layers, (nn.Sequential, nn.ModuleList)):
            raise InputError(f"layers is a {type(layers).__name__}, must be a list of layers: Chain([first, ..., last])")
        self._layers = list(layers)
        if not self._layers:
            raise InputError("a chain has at least one layer")
        for number, layer in enumerate(self._layers, 1):
            makes = layer.make if isinstance(layer, Layer) else layer
            if not isinstance(layer, nn.Module) and not callable(makes):
                raise InputError(f"layer {number} is a {type(layer).__name__}, must be a torch.nn.Module, or a callable that builds one")
        if takes not in ("tokens", "vectors", "images"):
            raise InputError(f"takes is {takes!r}, must be 'tokens', 'vectors' or 'images'")
        for key, size in {"context": context, "vocabulary": vocabulary, "inputs": inputs, "classes": classes}.items():
            if size is not None and not (hasattr(size, "__index__") and int(size) >= 1):
                raise InputError(f"{key} is {size!r}, must be a whole number from 1")
        self.takes = takes
        self.name = name
        self.masked_targets = masked_targets
        self._example = {"tokens": context and (context,), "vectors": inputs and (inputs,), "images": image and tuple(image)}[takes]
        self._classes = vocabulary if takes == "tokens" else classes

    def __len__(self) -> int:
        return len(self._layers)

    def __repr__(self) -> str:
        names = [recipe.name for recipe in self.recipes]
        return f"Chain({names[0]} .. {names[-1]}, {len(names)} layers, takes {self.takes})"

    def named_layers(self) -> dict[str, nn.Module]:
        """Its layers by name, where all of them are modules. Raises InputError where one is a callable."""
        given = [_given(layer) for layer in self._layers]
        for number, layer in enumerate(given, 1):
            if layer.like is None:
                raise InputError(f"layer {number} is built by a callable, so that there is no module of it: give a list of modules instead of the chain")
        names = _numbered([layer.name or _name_of(layer.like) for layer in given])
        return {name: layer.like for name, layer in zip(names, given)}

    # What the C++ part reads.

    @functools.cached_property
    def recipes(self) -> list[_Recipe]:
        return _recipes_of(self._layers)

    @property
    def example_sizes(self) -> tuple[int, ...]:
        """Sizes of one example's input."""
        if self._example is None:
            key = {"tokens": "context", "vectors": "inputs", "images": "image"}[self.takes]
            raise InputError(f"the chain does not say how large an example is: Chain(..., {key}=...), or train(data=...)")
        return tuple(int(size) for size in self._example)

    @property
    def context(self) -> int | None:
        """Tokens of an example, where the chain takes tokens and says how many."""
        return int(self._example[0]) if self.takes == "tokens" and self._example else None

    @property
    def classes(self) -> int:
        """Number of classes, or of tokens in the vocabulary."""
        if self._classes is not None:
            return int(self._classes)
        found = next((recipe.outputs[-1] for recipe in reversed(self.recipes) if recipe.outputs), None)
        if self.takes == "tokens":
            embeddings = next((recipe.embeddings for recipe in self.recipes if recipe.embeddings), [])
            found = found if found in embeddings else next(iter(embeddings), None)
        if found is None:
            key = "vocabulary" if self.takes == "tokens" else "classes"
            raise InputError(f"the chain does not say how many classes there are: Chain(..., {key}=...)")
        return found

    @property
    def code(self) -> str:
        """What costs and checkpoints of this chain belong to."""
        users = [user for recipe in self.recipes for user in recipe.users]
        sketches = [recipe.sketch for recipe in self.recipes]
        return f"{_code.digest_of(users)} {_code.digest_of_texts([*sketches, f'masked targets: {self.masked_targets}'])}"

    def sized(self, example: tuple[int, ...]) -> Chain:
        """This chain, for examples of these sizes unless it names its own."""
        chain = copy.copy(self)
        chain._example = self._example or tuple(example)
        return chain


@dataclasses.dataclass
class _Recipe:
    """What is known of a layer before a run, and how to build it."""

    name: str
    make: Callable[[], nn.Module]
    kind: str
    sketch: str
    work: float
    is_trained: bool
    has_frozen: bool
    has_batch_norm: bool
    embeddings: list[int]  # rows of each nn.Embedding, in their order
    outputs: list[int]  # features of each nn.Linear
    users: list[Any]  # classes and functions whose code it runs
    given_values: Callable[[], str]  # digest of its tensors as they are, or as one fixed seed gives them
    ties: dict[str, str] = dataclasses.field(default_factory=dict)
    ends_backward: bool = False  # nothing before it is trained

    def build(self, seed: int, tie_seed: int = 0) -> nn.Module:
        """A new module. torch's generator is seeded already. tie_seed: what tied_seed() says meanwhile."""
        global _tied_seed
        _tied_seed = tie_seed
        with seeded(seed):
            module = self.make()
        if not isinstance(module, nn.Module):
            raise InputError(f"what builds it gave a {type(module).__name__}, must give a torch.nn.Module")
        return module


_tied_seed = 0  # set by the one layer of the process that is built


def tied_seed() -> int:
    """While a layer is built: a seed that is the same for all layers of a run, for weights that several of them have."""
    return _tied_seed


def _recipes_of(layers: list[LayerLike]) -> list[_Recipe]:
    recipes: list[_Recipe] = []
    first_of: dict[str, int] = {}
    places = _Places()
    for number, layer in enumerate(layers):
        given = _given(layer)
        first = first_of.get(given.kind)
        if first is not None and not places.are_held(first):
            known = recipes[first]
            recipes.append(dataclasses.replace(known, name=given.name or known.name, make=given.make, ties={}))
            continue
        recipes.append(_looked_at(given, isinstance(layer, Layer), number, places))
        if given.kind:
            first_of.setdefault(given.kind, number)
    for recipe, name in zip(recipes, _numbered([recipe.name for recipe in recipes])):
        recipe.name = name
    for number, parameter, first, first_parameter in places.shared:
        tie = f"{recipes[first].name}/{first_parameter}"
        recipes[first].ties[first_parameter] = tie
        recipes[number].ties[parameter] = tie
    is_trained = False
    for recipe in recipes:
        recipe.ends_backward = not is_trained
        is_trained = is_trained or recipe.is_trained
        if recipe.kind and recipe.ties:
            recipe.kind += f"\n{sorted(recipe.ties.items())}"
    if not is_trained:
        raise InputError("no layer has a parameter that requires a gradient, so that nothing would be trained")
    return recipes


def _given(layer: LayerLike) -> Layer:
    if isinstance(layer, Layer):
        return layer
    return Layer(functools.partial(_copy, layer), like=layer) if isinstance(layer, nn.Module) else Layer(layer)


def _looked_at(given: Layer, may_be_meta: bool, number: int, places: _Places) -> _Recipe:
    recipe = _Recipe(given.name, given.make, given.kind, "", 0, False, False, False, [], [], [], lambda: "")
    try:
        with all_seeded(number):
            module = given.like if given.like is not None else recipe.build(number)
        parts = parts_of(module, may_be_meta)
    except Exception as error:
        raise InputError(f"layer {number + 1}: {told(error, error.__traceback__)}") from error
    places.add(number, parts)
    modules = list(module.modules())
    parameters = [part for part in parts if part.is_parameter]
    recipe.name = given.name or _name_of(module)
    recipe.kind = given.kind or fingerprint(module) or ""
    recipe.sketch = f"{given.kind}\n{sketch(module)}"
    recipe.work = float(sum(part.value.numel() for part in parameters))
    recipe.is_trained = any(part.is_trained for part in parameters)
    recipe.has_frozen = any(not part.is_trained for part in parameters)
    recipe.has_batch_norm = any(isinstance(one, _BatchNorm) for one in modules)
    recipe.embeddings = [one.num_embeddings for one in modules if isinstance(one, nn.Embedding)]
    recipe.outputs = [one.out_features for one in modules if isinstance(one, nn.Linear)]
    if given.like is not None:  # read where ranks are compared, for that takes as long as reading all
        recipe.given_values = functools.partial(_values_of, parts)
    else:
        values = _values_of(parts)
        recipe.given_values = lambda: values
    recipe.users = [given.make, *{type(one) for one in modules}, *_hooks_of(modules)]
    return recipe


def _values_of(parts: list[Part]) -> str:
    """Digest of what the tensors hold; those on meta have no values yet."""
    return _code.digest_of_texts(f"{part.name} {'meta' if part.value.is_meta else _core.digest(part.value)}" for part in parts)


class _Places:
    """Where parameters are, by identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref, int, str]] = {}
        self.shared: list[tuple[int, str, int, str]] = []  # layer, parameter; first layer that has it, its name there

    def are_held(self, layer: int) -> bool:
        """Whether somebody beside the layer, which is gone, has a parameter of it: others may be built from it, too."""
        return any(alive() is not None for alive, first, _ in self._known.values() if first == layer)

    def add(self, layer: int, parts: list[Part]) -> None:
        for part in parts:
            if not part.is_parameter:
                continue
            alive, first, name = self._known.get(id(part.value), (lambda: None, layer, part.name))
            if alive() is part.value and first != layer:
                if part.stays_as_it_is:
                    raise InputError(f"layer {layer + 1}: parameter {part.name} is one with {name} of layer {first + 1}, must be float32 and no batch norm's")
                self.shared.append((layer, part.name, first, name))
            else:
                self._known[id(part.value)] = (weakref.ref(part.value), layer, part.name)


def _name_of(module: nn.Module) -> str:
    return re.sub(r"\W", "", type(module).__name__).lower()


def _numbered(names: list[str]) -> list[str]:
    """A name of its own for every layer: block0, block1, ..."""
    count = Counter(names)
    next_of: Counter[str] = Counter()
    numbered = []
    for name in names:
        numbered.append(f"{name}{next_of[name]}" if count[name] > 1 else name)
        next_of[name] += 1
    twice = next((name for name, times in Counter(numbered).items() if times > 1), None)
    if twice is not None:
        raise InputError(f"two layers are called {twice}: give them other names, Layer(make, name=...)")
    return numbered


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise InputError(f"{type(module).__name__} cannot be copied ({error}): give a callable that builds it") from error


def _hooks_of(modules: list[nn.Module]) -> list[Any]:
    tables = [getattr(one, name) for one in modules for name in vars(one) if name.endswith("_hooks")]
    return [hook for table in tables if table for hook in table.values()]
