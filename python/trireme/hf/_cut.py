"""Cuts a decoder of transformers into an embedding, its blocks, and a head with the loss.

No architecture is named here. The model's own forward says what a block is given (mask, rotary positions, kind of
attention): it runs around every layer as a shell, which is the model with stubs in place of whatever has weights, up to
the call of the layer's block. So nothing but hidden states goes from layer to layer.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import nn

from .._errors import InputError, told
from ._arguments import sizes_of, unlike
from ._layers import Block, Embedding, Head
from ._stubs import Catch, Give, HandedOn, Logits, OfBlock, Pass, Record, Stub

BY_HAND = "make a trireme.Chain of its modules (docs/python.md)"
_TOKENS = 5  # of the example on which a model is looked at
_MOST_MEMBERS = 3  # of what a block gives


@dataclasses.dataclass
class _Ran:
    """What a run of the model without weights has shown."""

    when: dict[str, set[str]] = dataclasses.field(default_factory=dict)  # by module with weights: "before", "amid", "after"
    arguments: list[dict] = dataclasses.field(default_factory=list)  # of every block
    logits: torch.Tensor | None = None


class Cut:
    """What is known of a model that is cut: where its blocks are, and what runs before and after them.

    model: a decoder of transformers, whose parameters may be on `meta`; it stays as it is.
    Raises InputError with the model's class, what was found and what to do, for a model that is no chain.
    """

    def __init__(self, model: nn.Module):
        self._model = model
        self._members, self._writes = 0, False
        self._require_decoder()
        weight = model.get_input_embeddings().weight
        self._width, self._device = weight.shape[-1], "cpu" if weight.is_meta else weight.device
        self._place, self._blocks = self._list_of_blocks()
        self._owners = self._owners_of_weights()
        self._members, self._when, self._arguments = self._looked_at()
        self._require_shifted_loss()

    def layers(self) -> list[nn.Module]:
        """The layers. They share the model's modules with weights."""
        return [self._embedding(), *(self._block(number) for number in range(len(self._blocks))), self._head()]

    def _embedding(self) -> Embedding:
        catch = Catch(self._blocks[0], self._members)
        return Embedding(self._shell_with("before", 0, catch), catch)

    def _block(self, number: int) -> Block:
        block = self._blocks[number]
        catch = Catch(block, self._members)
        return Block(block, self._shell_with("", number, catch), catch, number, sizes_of(self._arguments[number]), self._writes)

    def _head(self) -> Head:
        give = Give(self._blocks[-1], self._members)
        return Head(self._shell_with("after", len(self._blocks) - 1, give), give, self._writes)

    def refuse(self, found: str, remedy: str) -> InputError:
        return InputError(f"{type(self._model).__name__} cannot be cut into layers: {found}: {remedy}")

    # What is refused before anything runs.

    def _require_decoder(self) -> None:
        config = getattr(self._model, "config", None)
        if not hasattr(config, "get_text_config"):
            raise self.refuse("it has no config of transformers", BY_HAND)
        if getattr(config, "is_encoder_decoder", False):
            raise self.refuse("it is an encoder with a decoder, where each block of the decoder reads the encoder's output", "only decoders are chains")
        text = config.get_text_config()
        if getattr(text, "add_cross_attention", False):
            raise self.refuse("config.add_cross_attention is true, so that blocks read a second input", "set it to False")
        if getattr(text, "output_router_logits", False) and getattr(text, "router_aux_loss_coef", 0):
            raise self.refuse(
                f"config.output_router_logits is true, which adds a loss of all blocks' routers (router_aux_loss_coef {text.router_aux_loss_coef})",
                "set config.output_router_logits = False, and train on the loss of tokens alone",
            )
        for key in ("layerdrop", "decoder_layerdrop"):
            if getattr(text, key, 0):
                raise self.refuse(f"config.{key} is {getattr(text, key)}, by which whole blocks are left out at random", f"set config.{key} = 0 before the model is made")
        if not hasattr(self._model, "get_output_embeddings") or self._model.get_output_embeddings() is None:
            raise self.refuse("it has no head that gives logits of tokens", "take the class that has one (AutoModelForCausalLM)")

    def _list_of_blocks(self) -> tuple[str, nn.ModuleList]:
        count = self._model.config.get_text_config().num_hidden_layers
        lists = [(name, one) for name, one in self._model.named_modules() if isinstance(one, nn.ModuleList) and len(one) == count]
        lists = [(name, one) for name, one in lists if not any(name.startswith(other + ".") for other, _ in lists)]  # of experts, in blocks
        if len(lists) != 1:
            names = f" ({', '.join(name for name, _ in lists)})" if lists else ""
            raise self.refuse(f"it has {len(lists)} module lists of config.num_hidden_layers ({count}) blocks{names}, must have one", "only a single stack of blocks is a chain")
        if len(set(map(id, lists[0][1]))) != count:
            raise self.refuse(f"blocks of {lists[0][0]} are one and the same module", BY_HAND)
        return lists[0]

    def _owners_of_weights(self) -> dict[str, nn.Module]:
        """Outermost modules that have weights of their own, outside of the blocks."""
        owners: dict[str, nn.Module] = {}
        for name, module in self._model.named_modules():
            is_inside = name.startswith(self._place + ".") or any(name.startswith(other + ".") for other in owners)
            if is_inside or next(module.parameters(recurse=False), None) is None:
                continue
            if not name or self._place.startswith(name + "."):
                weights = ", ".join(key for key, _ in module.named_parameters(recurse=False))
                raise self.refuse(f"its {name or 'outermost module'} has weights of its own ({weights}) around the blocks", "move them into a module of their own")
            owners[name] = module
        return owners

    # What its forward does.

    def _looked_at(self) -> tuple[int, dict[str, set[str]], list[Any]]:
        """How many members the tuple has that blocks give, which modules with weights run "before" and "after" them, and
        what each block is given."""
        failed, is_changed = None, False
        for members in range(_MOST_MEMBERS + 1):
            try:
                return members, *self._compared(members)
            except HandedOn:
                is_changed = True
            except InputError:
                raise
            except Exception as error:
                failed = error
        if is_changed:
            raise self.refuse("what a block gives is not what the next one is given", BY_HAND)
        raise self.refuse(f"its forward fails on hidden states without weights ({told(failed, failed.__traceback__)})", BY_HAND) from failed

    def _compared(self, members: int) -> tuple[dict[str, set[str]], list[Any]]:
        """Runs the model without weights: on tokens, and on hidden states in the place of embeddings. Only the hidden
        states that go from block to block may depend on what was given, and what follows on the last block's alone."""
        hidden = torch.randn(2, _TOKENS, self._width, generator=torch.Generator().manual_seed(0)).to(self._device)
        before = hidden.clone()
        tokens = torch.zeros(2, _TOKENS, dtype=torch.long, device=self._device)
        with torch.random.fork_rng(devices=[]):
            one, training = (self._run(members, is_training, input_ids=tokens) for is_training in (False, True))
            other = self._run(members, False, inputs_embeds=hidden)
        self._writes = not torch.equal(hidden, before)
        for number, (given, *others) in enumerate(zip(one.arguments, other.arguments, training.arguments)):
            differs = next((name for each in others for name in [unlike(given, each)] if name), "")
            if differs:
                raise self.refuse(
                    f"argument {differs} of block {number} depends on tokens or embeddings: a second stream of values beside the hidden states",
                    "only models whose blocks pass on hidden states alone are chains",
                )
        amid = [name for name, phases in one.when.items() if "amid" in phases]
        if amid:
            raise self.refuse(f"{', '.join(amid)} runs between blocks", "only models whose blocks follow one another directly are chains")
        if not torch.equal(one.logits, other.logits):
            raise self.refuse("what follows the blocks depends on more than the last one's hidden states", "only models whose blocks pass on hidden states alone are chains")
        return one.when, one.arguments

    def _run(self, members: int, is_training: bool, **given: torch.Tensor) -> _Ran:
        model, ran, phase = self.shell(), _Ran(), ["before"]
        records = [Record(block, members) for block in self._blocks]
        records[-1].gives_random = False
        put(model, self._place, nn.ModuleList(records))
        for name in self._owners:
            stub = model.get_submodule(name)
            stub.gives_random = True
            stub.register_forward_pre_hook(lambda *_, name=name: ran.when.setdefault(name, set()).add(phase[0]))
        records[0].register_forward_pre_hook(lambda *_: phase.__setitem__(0, "amid"))
        records[-1].register_forward_hook(lambda *_: phase.__setitem__(0, "after"))
        model.train(is_training)
        with torch.no_grad():
            ran.logits = model(**given, use_cache=False).logits
        if any(not hasattr(record, "output") for record in records):
            raise self.refuse("not all of its blocks run", "leave out those that do not (config.num_hidden_layers)")
        if any(record.hidden is not before.output for before, record in zip(records, records[1:])):
            raise HandedOn
        ran.arguments = [{**dict(enumerate(args)), **kwargs} for args, kwargs in (record.arguments for record in records)]
        return ran

    def _require_shifted_loss(self) -> None:
        """The target of the last layer is shifted already: the loss must take it as it is."""
        vocabulary = self._model.config.get_text_config().vocab_size
        model, head = self.shell(), self._model.get_output_embeddings()
        put(model, self._name_of(head), Logits(head, vocabulary))
        hidden = torch.zeros(1, 3, self._width, device=self._device)
        shifted = torch.arange(3, device=self._device)[None] % vocabulary

        def loss(labels: torch.Tensor) -> torch.Tensor:
            return model(inputs_embeds=hidden, labels=labels, shift_labels=shifted, use_cache=False).loss

        try:
            with torch.no_grad():
                if torch.equal(loss(shifted), loss(shifted.flip(1))):
                    return
        except Exception as error:
            raise self.refuse(f"its loss fails on logits that stand in for those of its head ({told(error, error.__traceback__)})", BY_HAND) from error
        raise self.refuse("its loss shifts labels by itself and does not take shift_labels", BY_HAND)

    # What layers are made of.

    def shell(self) -> nn.Module:
        """The model with stubs, in evaluation mode; it shares nothing with the model."""
        stubs = {id(owner): Stub(owner) for owner in self._owners.values()}
        blocks = nn.ModuleList(Pass(block, self._members) for block in self._blocks)
        shell = copy.deepcopy(self._model, {**stubs, id(self._blocks): blocks})
        for module in shell.modules():  # its buffers follow from the config
            module._non_persistent_buffers_set = set(module._buffers)
        return shell.eval()

    def _shell_with(self, when: str, number: int, stub: OfBlock) -> nn.Module:
        """A shell with modules that run "before" or "after" the blocks, which are the model's, and another stub."""
        shell = self.shell()
        for name, owner in self._owners.items():
            if when in self._when.get(name, ()):
                put(shell, name, owner)
        shell.get_submodule(self._place)[number] = stub
        return shell

    def _name_of(self, module: nn.Module) -> str:
        return next(name for name, one in self._model.named_modules() if one is module)


def put(root: nn.Module, name: str, module: nn.Module) -> None:
    """Puts a module in the place of the one of that name."""
    parent, _, last = name.rpartition(".")
    setattr(root.get_submodule(parent), last, module)
