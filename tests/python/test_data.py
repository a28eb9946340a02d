"""Data of the caller: what an element may be, and what a model is given."""

import pytest
import torch
from conftest import digests, job
from torch import nn

import trireme


class Mean(nn.Module):
    """The loss of a linear model; remembers what it was given."""

    given: list = []

    def __init__(self, inputs, classes):
        super().__init__()
        self.linear = nn.Linear(inputs, classes)

    def forward(self, x, target):
        Mean.given.append((x, target))
        return nn.functional.cross_entropy(self.linear(x.flatten(1)), target)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.linear = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.linear(self.tokens(x)).flatten(0, 1), target.flatten())


def of_tokens(data):
    run = trireme.train(job(report={"directory": f"runs/{id(data)}"}), trireme.Chain([Words]), data=data)
    return digests(run)


def test_all_ways_to_give_tokens_are_the_same():
    rows = torch.randint(50, (32, 9), generator=torch.Generator().manual_seed(1))
    pairs = [(row[:-1], row[1:]) for row in rows]
    names = [{"input_ids": row.tolist()} for row in rows]
    labelled = [{"input_ids": row, "labels": row} for row in rows]
    # A data set's name and its examples are part of a checkpoint's digest, not of the numbers.
    assert of_tokens(rows) == of_tokens(pairs) == of_tokens(names) == of_tokens(labelled) == of_tokens(rows.tolist())


def test_a_validation_set_of_its_own_is_all_that_is_validated():
    rows = torch.randint(50, (16, 9), generator=torch.Generator().manual_seed(1))
    held_out = torch.randint(50, (4, 9), generator=torch.Generator().manual_seed(2))
    hardly = {"validate_every": 4, "optimizer": {"kind": "sgd", "learning_rate": 1e-20}}
    whole = {name: section for name, section in job(train=hardly).items() if name != "data"}
    model = Words()
    run = trireme.train(whole, trireme.Chain([model]), data=rows, validation=held_out)
    with torch.no_grad():
        assert run.figures["validation_loss"] == pytest.approx(model(held_out[:, :-1], held_out[:, 1:]).item(), rel=1e-5)
    with pytest.raises(trireme.InputError, match="data.validation_fraction is of the examples to train on"):
        trireme.train(job(), trireme.Chain([Words]), data=rows, validation=held_out)
    with pytest.raises(trireme.InputError, match="validation is given without data"):
        trireme.train(job(), trireme.Chain([Words], context=8), validation=held_out)


def test_vectors_and_classes_are_inferred():
    data = [(torch.arange(6.0) + n, n % 3) for n in range(16)]
    trireme.train(job(), trireme.Chain([lambda: Mean(6, 3)], "vectors"), data=data)
    x, target = Mean.given[-1]
    assert x.shape == (2, 6) and x.dtype == torch.float32 and target.dtype == torch.int64
    assert torch.equal(x[:, 0].long() % 3, target)


def test_images_are_given_as_they_are():
    data = [(torch.full((1, 4, 4), n, dtype=torch.uint8), torch.tensor(n % 2)) for n in range(16)]
    trireme.train(job(), trireme.Chain([lambda: Mean(16, 2)], "images"), data=data)
    x, target = Mean.given[-1]
    assert x.shape == (2, 1, 4, 4)
    assert torch.equal(x[:, 0, 0, 0].long() % 2, target)


class Noisy(torch.utils.data.Dataset):
    """Draws from the default generator."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.randn(6) + index, index % 3


def test_an_example_that_is_drawn_is_the_same_in_every_run():
    chain = lambda: trireme.Chain([lambda: Mean(6, 3)], "vectors")
    first = trireme.train(job(report={"directory": "runs/first"}), chain(), data=Noisy())
    torch.rand(3)
    assert digests(trireme.train(job(report={"directory": "runs/second"}), chain(), data=Noisy())) == digests(first)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "data is a int, must have a length and elements by number"),
        ([], "has no example"),
        ([torch.zeros(6)], "must be a pair"),
        ([(torch.zeros(6), 3)], "has 3 in its target, must be 0 to 2"),
        ([(torch.zeros(6), 1), (torch.zeros(5), 1)], r"example 1 of builtins.list has the input Float \[5\], must be of numbers \[6\]"),
    ],
)
def test_wrong_examples_are_refused(data, words):
    with pytest.raises(trireme.InputError, match=words):
        trireme.train(job(data={"validation_fraction": 0}), trireme.Chain([lambda: Mean(6, 3)], "vectors"), data=data)


def test_tokens_without_a_last_target_are_refused():
    chain = trireme.Chain([Words], context=32)
    with pytest.raises(trireme.InputError, match="element 0 of torch.Tensor has 32 tokens, must have 33: the chain's context is 32"):
        trireme.train(job(data={"validation_fraction": 0}), chain, data=torch.zeros(8, 32, dtype=torch.long))


def test_padding_that_would_be_seen_or_trained_is_refused():
    def train(mask, **more):
        row = {"input_ids": torch.zeros(9, dtype=torch.long), "attention_mask": mask} | more
        return trireme.train(job(data={"validation_fraction": 0}), trireme.Chain([Words], context=8), data=[row] * 8)

    with pytest.raises(trireme.InputError, match=r"element 0 of builtins.list is padded \(its attention_mask\) on the left"):
        train([0] * 4 + [1] * 5)
    with pytest.raises(trireme.InputError, match="and has no labels, must have some, with -100 at the padding"):
        train([1] * 5 + [0] * 4)
    assert train([1] * 9).losses == train([1] * 5 + [0] * 4, labels=torch.zeros(9, dtype=torch.long)).losses


def test_a_jobs_file_may_be_given_a_chain_and_data(tmp_path):
    rows = torch.randint(50, (32, 9), generator=torch.Generator().manual_seed(1))
    file = tmp_path / "job.yaml"
    file.write_text("train: {steps: 4, batch: 8, micro_batch: 2, optimizer: {learning_rate: 0.002}}\ndata: {validation_fraction: 0.25}\nthreads: 1\n")
    run = trireme.train(file, trireme.Chain([Words]), data=rows)
    assert run.folder.name == "job"
    assert digests(run) == of_tokens(rows)


def test_a_plan_is_shown():
    plan = trireme.plan(trireme.Chain([Words], context=8), "1MiB", job=job())
    assert "1 layer, 4 micro-batches per step" in str(plan)
    assert plan.figures["format"].startswith("trireme-plan")
    assert plan._repr_html_().startswith("<iframe") and "svg" in plan.page
