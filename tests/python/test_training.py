"""Whole runs; that every plan and number of ranks has one digest is in test_digests.py."""

import functools
import json
import time

import gpt_of_modules
import pytest
import torch
from conftest import Tokens, digests, job
from torch import nn

import trireme


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The run that keeps everything, with which all others are compared."""
    return trained(tmp_path_factory.mktemp("kept"), plan={"solver": "keep_all"})


def trained(folder, **sections):
    sections = {"report": {"directory": str(folder / "run"), "log_every": 2}, **sections}
    return trireme.train(job(**sections), gpt_of_modules.make(), data=Tokens())


def test_it_learns():
    """Generated vectors, whose class a linear model can tell."""
    chain = trireme.Chain([nn.Linear(16, 64), LastOfVectors(64, 4)], "vectors", inputs=16, classes=4)
    told = job(steps=100, data={"kind": "synthetic"}, train={"batch": 32, "optimizer": {"learning_rate": 0.01}})
    losses = trireme.train(told, chain).losses
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_a_run_that_resumes_gives_the_same_digests(kept, tmp_path):
    with pytest.raises(InterruptedError):
        trireme.train(
            job(report={"directory": str(tmp_path / "run"), "log_every": 1}, checkpoint={"every": 1}),
            gpt_of_modules.make(),
            data=Tokens(),
            on_step=stop_after(2),
        )
    run = trained(tmp_path, checkpoint={"every": 1})
    assert run.figures["resumed_after_steps"] in (1, 2)
    assert digests(run) == digests(kept)


def stop_after(last):
    def on_step(step):
        if step.step == last:
            raise InterruptedError

    return on_step


def test_buffers_that_are_not_persistent_are_in_no_checkpoint(tmp_path):
    run = trained(tmp_path, checkpoint={"every": 4})
    (file,) = (run.folder / "checkpoints").glob("*/rank-0.safetensors")
    content = file.read_bytes()
    names = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert any(name.endswith("batch_norm.running_mean") for name in names)
    assert not any(name.endswith("order") for name in names)


def test_a_tied_weight_is_one_weight(kept):
    chain = gpt_of_modules.make()
    apart = gpt_of_modules.make(tied=False)
    other = trireme.train(job(), apart, data=Tokens())
    assert other.figures["parameters"] - kept.figures["parameters"] == 64 * 32
    assert chain.recipes[0].ties == {"tokens.weight": "embedding/tokens.weight"}
    assert chain.recipes[-1].ties == {"linear.weight": "embedding/tokens.weight"}


def test_a_weight_of_layers_of_one_kind_is_one_weight():
    weight = nn.Parameter(torch.randn(32, 32))

    def block():
        module = gpt_of_modules.Block(32, 4)
        module.out.weight = weight
        return module

    chain = trireme.Chain([*[trireme.Layer(block, kind="block")] * 3, trireme.Layer(functools.partial(gpt_of_modules.Head, 64, 32))])
    assert [recipe.ties for recipe in chain.recipes] == [{"out.weight": "block0/out.weight"}] * 3 + [{}]


def test_layers_of_a_kind_are_looked_at_once():
    built = []

    def block():
        built.append(1)
        return gpt_of_modules.Block(32, 4)

    names = [recipe.name for recipe in trireme.Chain([trireme.Layer(block, kind="block")] * 5).recipes]
    assert names == ["block0", "block1", "block2", "block3", "block4"]
    assert len(built) == 1


def test_a_parameter_of_the_caller_stays_as_it_is(tmp_path):
    """Layers that are built from it each have a copy, so that ranks of one process do not share its bytes."""
    chain = gpt_of_modules.make()
    weight = chain.recipes[0].make().tokens.weight
    before = weight.detach().clone()
    first = trireme.train(job(report={"directory": "runs/first"}), chain, data=Tokens())
    assert torch.equal(weight, before)
    assert digests(trireme.train(job(report={"directory": "runs/again"}), chain, data=Tokens())) == digests(first)


def ready_modules():
    torch.manual_seed(3)
    embedding, head = gpt_of_modules.Embedding(64, 32, 32), gpt_of_modules.Head(64, 32)
    head.linear.weight = embedding.tokens.weight
    return [embedding, gpt_of_modules.Block(32, 4, 0.1), gpt_of_modules.Block(32, 4, 0.1), head]


def test_modules_that_are_there_are_the_values_a_run_begins_with(tmp_path):
    layers = ready_modules()
    before = [parameter.clone() for layer in layers for parameter in layer.parameters()]
    first = trireme.train(job(report={"directory": "runs/first"}), trireme.Chain(layers), data=Tokens())
    assert all(torch.equal(one, other) for one, other in zip(before, (p for layer in layers for p in layer.parameters())))
    again = trireme.train(job(report={"directory": "runs/again"}, pipeline={"stages": 2}), trireme.Chain(layers), data=Tokens())
    assert digests(again) == digests(first)


def test_modules_that_are_there_are_counted_once(tmp_path):
    """The bytes of weights, gradients and AdamW's moments: four floats a parameter."""
    layers = [nn.Linear(64, 64), nn.Linear(64, 64), LastOfVectors(64, 8)]
    data = [(torch.randn(64), torch.tensor(n % 8)) for n in range(16)]
    run = trireme.train(job(), trireme.Chain(layers, "vectors"), data=data)
    parameters = sum(parameter.numel() for layer in layers for parameter in layer.parameters())
    (rank,) = run.figures["ranks"]
    assert rank["static_bytes"] >= 16 * parameters
    assert rank["static_bytes"] < 16 * parameters + 4096


class LastOfVectors(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.linear(x.relu()), target)


def test_frozen_layers_stay_as_they_are():
    layers = ready_modules()
    layers[1].requires_grad_(False)
    run = trireme.train(job(checkpoint={"every": 4}), trireme.Chain(layers), data=Tokens())
    frozen = sum(parameter.numel() for parameter in layers[1].parameters())
    assert run.figures["trained_parameters"] == run.figures["parameters"] - frozen


def test_times_begin_with_the_call():
    time.sleep(2)
    begin = time.monotonic()
    run = trireme.train(job(), gpt_of_modules.make(), data=Tokens())
    assert 0 < run.figures["seconds_total"] <= time.monotonic() - begin + 0.05


def test_the_process_is_as_it_was():
    torch.manual_seed(9)
    expected = torch.rand(4)
    torch.manual_seed(9)
    threads = torch.get_num_threads()
    trireme.train(job(), gpt_of_modules.make(), data=Tokens())
    assert torch.equal(torch.rand(4), expected)
    assert torch.get_num_threads() == threads
