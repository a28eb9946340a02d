"""The values that layers begin with: the same on every rank, in every plan."""

import functools
import random

import gpt_of_modules
import pytest
import torch
from conftest import Tokens, digests, job, needs_mpirun, under_mpirun
from torch import nn

import trireme

numpy = pytest.importorskip("numpy")


class Scaled(nn.Module):
    """Draws its scale from the generators that are not torch's."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([numpy.random.rand(), random.random()]).mean())

    def forward(self, x):
        return x * self.scale


def chain_of_callables():
    first, last = functools.partial(gpt_of_modules.Embedding, 64, 32, 32), functools.partial(gpt_of_modules.Head, 64, 32)
    return trireme.Chain([first, Scaled, Scaled, last], context=32)


def given_values(chain):
    return [recipe.given_values() for recipe in chain.recipes]


def test_values_that_a_callable_draws_from_numpy_and_random_come_from_the_runs_seed():
    results = []
    for seed, pipeline in enumerate(({}, {"stages": 2}, {})):
        numpy.random.seed(seed)
        random.seed(seed)
        run = trireme.train(job(report={"directory": f"runs/{seed}"}, pipeline=pipeline), chain_of_callables(), data=Tokens())
        results.append(digests(run))
        after = (numpy.random.rand(), random.random())
        numpy.random.seed(seed)
        random.seed(seed)
        assert after == (numpy.random.rand(), random.random())
    assert results[0] == results[1] == results[2]


def test_a_chain_says_which_values_a_rank_gives_it():
    torch.manual_seed(1)
    weight, module = nn.Parameter(torch.rand(32, 32)), gpt_of_modules.Block(32, 4)
    mine = given_values(trireme.Chain([functools.partial(with_weight, weight), with_random_weight, module, Scaled]))
    torch.manual_seed(2)
    numpy.random.seed(2)
    other = nn.Parameter(torch.rand(32, 32)), gpt_of_modules.Block(32, 4)
    theirs = given_values(trireme.Chain([functools.partial(with_weight, other[0]), with_random_weight, other[1], Scaled]))
    assert [one == another for one, another in zip(mine, theirs)] == [False, True, False, True]
    other[0].data = weight.data
    other[1].load_state_dict(module.state_dict())
    assert mine == given_values(trireme.Chain([functools.partial(with_weight, other[0]), with_random_weight, other[1], Scaled]))


def with_weight(weight):
    block = gpt_of_modules.Block(32, 4)
    block.out.weight = weight
    return block


def with_random_weight():
    return gpt_of_modules.Block(32, 4)


@needs_mpirun
def test_modules_that_ranks_built_under_other_seeds_are_refused():
    done = under_mpirun(
        2,
        "import gpt_of_modules, trireme\n"
        "from conftest import Tokens, job\n"
        "layers = [gpt_of_modules.Embedding(64, 32, 32), gpt_of_modules.Block(32, 4), gpt_of_modules.Head(64, 32)]\n"
        "trireme.train(job(pipeline={'replicas': 2}), trireme.Chain(layers), data=Tokens())\n",
    )
    assert done.returncode != 0
    assert "layer 1 (embedding) begins with other values on rank 1 than on rank 0: call torch.manual_seed()" in done.stderr
