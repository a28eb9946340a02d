"""What a run has trained, put into modules."""

import functools
import os
import shutil

import gpt_of_modules
import pytest
import torch
from conftest import Tokens, job
from test_training import ready_modules
from torch import nn

import trireme


def trained(name, chain, **sections):
    return trireme.train(job(report={"directory": f"runs/{name}"}, checkpoint={"every": 4}, **sections), chain, data=Tokens())


# A job that changes no weight: its digest is that of the values it begins with.
UNCHANGED = {"train": {"optimizer": {"learning_rate": 1e-30, "weight_decay": 0.0}}}


def test_modules_get_what_was_trained_with_them():
    layers = ready_modules()
    run = trained("run", trireme.Chain(layers))
    begun = [value.clone() for layer in layers for value in layer.parameters()]
    trireme.load_weights(layers, run)
    assert not any(torch.equal(one, other) for one, other in zip(begun, (value for layer in layers for value in layer.parameters())))
    assert layers[0].tokens.weight is layers[-1].linear.weight
    assert trained("again", trireme.Chain(layers), **UNCHANGED).parameters_digest == run.parameters_digest


def test_a_chain_gives_its_modules_and_a_folder_is_a_run():
    layers, others = ready_modules(), ready_modules()
    run = trained("run", trireme.Chain(layers), pipeline={"stages": 2})
    trireme.load_weights(trireme.Chain(layers), run)
    trireme.load_weights(others, "runs/run")
    assert all(torch.equal(one, other) for layer, twin in zip(layers, others) for one, other in zip(layer.parameters(), twin.parameters()))
    assert list(run.folder.glob("tmp*")) == []


def test_a_run_is_found_after_a_later_one_has_renamed_its_folder():
    """Whatever the working folder is by then."""
    first, second = trained("run", trireme.Chain(ready_modules())), trained("run", trireme.Chain(ready_modules()), train={"steps": 8})
    assert first.parameters_digest != second.parameters_digest
    assert (first.folder.name, second.folder.name) == ("run.1", "run")
    assert (len(first.losses), len(second.losses)) == (4, 8)
    of_first, of_second = ready_modules(), ready_modules()
    os.chdir("/")
    trireme.load_weights(of_first, first)
    trireme.load_weights(of_second, second)
    assert not torch.equal(of_first[1].up.weight, of_second[1].up.weight)
    shutil.rmtree(first.folder)
    with pytest.raises(trireme.InputError, match="run holds another run by now"):
        trireme.load_weights(of_first, first)


def test_buffers_are_loaded_too():
    layers = [layer for layer in gpt_of_modules.make(styles=("norm",), tied=False)._layers]
    modules = [make() for make in layers]
    run = trained("run", trireme.Chain(layers, context=32))
    trireme.load_weights(modules, run)
    block = modules[1]
    assert block.calls == block.batch_norm.num_batches_tracked > 0
    assert block.batch_norm.running_mean.abs().sum() > 0


def test_values_take_the_type_that_is_there():
    layers = ready_modules()
    run = trained("run", trireme.Chain(layers))
    trireme.load_weights(layers, run)
    halves = [layer.bfloat16() for layer in ready_modules()]
    trireme.load_weights(halves, run)
    assert torch.equal(halves[1].up.weight, layers[1].up.weight.bfloat16())


def test_refuses_modules_that_were_not_trained():
    run = trained("run", trireme.Chain(ready_modules()))
    with pytest.raises(trireme.InputError, match="has not trained block.norm1.weight"):
        layers = ready_modules()
        layers.pop(2)
        trireme.load_weights(layers, run)
    with pytest.raises(trireme.InputError, match="layer 1 is built by a callable"):
        trireme.load_weights(gpt_of_modules.make(), run)
    with pytest.raises(trireme.InputError, match="has no checkpoints"):
        trireme.load_weights(ready_modules(), "no/such/run")


def test_the_vocabulary_is_that_of_tokens_not_of_positions():
    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions, self.tokens = nn.Embedding(8, 4), nn.Embedding(12, 4)

    assert trireme.Chain([Places, functools.partial(nn.Linear, 4, 12)], context=8).classes == 12
    assert trireme.Chain([Places, functools.partial(nn.Linear, 4, 5)], context=8).classes == 8  # the first one


def test_a_layer_is_looked_at_as_what_it_is_like():
    """Nothing is built to look at it; parameters that several have are one weight."""
    tokens, head = gpt_of_modules.Embedding(64, 32, 32).to("meta"), gpt_of_modules.Head(64, 32).to("meta")
    head.linear.weight = tokens.tokens.weight

    def never():
        raise AssertionError("it was built")

    chain = trireme.Chain([trireme.Layer(never, "tokens", like=tokens), trireme.Layer(never, "head", like=head)], context=32)
    assert [recipe.ties for recipe in chain.recipes] == [{"tokens.weight": "tokens/tokens.weight"}, {"linear.weight": "tokens/tokens.weight"}]
    assert chain.classes == 64
    with pytest.raises(trireme.InputError, match="parameter tokens.weight is on meta, must be on the CPU"):
        trireme.Chain([tokens, nn.Linear(2, 2)]).recipes
