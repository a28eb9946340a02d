"""Errors of runs: Python exceptions, with the layer's name and the caller's line."""

import functools
import pathlib
import re
import signal
import sys
import threading

import gpt_of_modules
import pytest
import torch
from conftest import Tokens, digests, job
from torch import nn

import trireme


class Faulty(nn.Module):
    """Fails where it is told to."""

    def __init__(self, where):
        super().__init__()
        if where == "build":
            raise ValueError("no such thing")
        self.where, self.linear = where, nn.Linear(32, 32)

    def forward(self, x):
        if self.where == "forward":
            raise ValueError("no such thing")
        if self.where == "exit":
            sys.exit(3)
        y = self.linear(x)
        if self.where == "hook" and y.requires_grad:
            y.register_hook(fail)
        return {"function": Fails.apply, "output": lambda y: "text"}.get(self.where, lambda y: y)(y)


def fail(gradient):
    raise ValueError("no such thing")


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no such thing")


def chain_with(where):
    layers = [functools.partial(gpt_of_modules.Embedding, 64, 32, 32), functools.partial(Faulty, where), functools.partial(gpt_of_modules.Head, 64, 32)]
    return trireme.Chain(layers, context=32)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("where", ["forward", "hook", "function"])
def test_an_error_in_a_layer_names_it_and_the_line(where, stages):
    with pytest.raises(trireme.InputError) as caught:
        trireme.train(job(pipeline={"stages": stages}, plan={"solver": "keep_all"}), chain_with(where), data=Tokens())
    text = str(caught.value)
    assert "layer 2 (faulty): ValueError: no such thing" in text
    assert "test_errors.py:" in text and 'raise ValueError("no such thing")' in text


@pytest.mark.parametrize("stages", [1, 2])
def test_an_exit_in_a_layer_is_one(stages):
    with pytest.raises(SystemExit) as caught:
        trireme.train(job(pipeline={"stages": stages}), chain_with("exit"), data=Tokens())
    assert caught.value.code == 3


def test_a_printed_error_has_the_lines_of_code_below_it(capfd):
    pathlib.Path("model.py").write_text("from test_errors import chain_with\nmake = chain_with\n")
    pathlib.Path("job.yaml").write_text("model: {kind: python, file: model.py, where: forward}\ndata: {kind: synthetic}\nthreads: 1\n")
    assert trireme.run("train", "job.yaml") == 2
    lines = capfd.readouterr().err.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("trireme: layer 2 (faulty): ValueError: no such thing"))
    assert lines[at].endswith("no such thing")
    assert lines[at + 1].startswith("      ") and "test_errors.py:" in lines[at + 1]


def test_an_error_of_building_names_the_layer():
    with pytest.raises(trireme.InputError, match=r"^python: .*layer 2: ValueError: no such thing"):
        trireme.train(job(), chain_with("build"), data=Tokens())


def test_a_wrong_output_names_the_layer():
    with pytest.raises(trireme.InputError, match=r"layer 2 \(faulty\): forward gave a str, must give a tensor or a tuple of tensors"):
        trireme.train(job(), chain_with("output"), data=Tokens())


def test_a_last_layer_that_takes_no_target_is_told_so():
    chain = trireme.Chain([functools.partial(gpt_of_modules.Embedding, 64, 32, 32), functools.partial(nn.Linear, 32, 64)], context=32)
    with pytest.raises(trireme.InputError, match=r"layer 2 \(linear\): the last layer is given the target, too: TypeError: .*positional argument"):
        trireme.train(job(), chain, data=Tokens())


def test_a_run_after_a_failed_one_is_as_any_other():
    first = trireme.train(job(report={"directory": "runs/first"}), gpt_of_modules.make(), data=Tokens())
    with pytest.raises(trireme.InputError):
        trireme.train(job(report={"directory": "runs/failed"}), chain_with("hook"), data=Tokens())
    second = trireme.train(job(report={"directory": "runs/second"}), gpt_of_modules.make(), data=Tokens())
    assert digests(second) == digests(first)


def test_a_budget_that_is_too_small_says_which_one_works():
    with pytest.raises(trireme.DoesNotFit, match="the smallest budget that works") as caught:
        trireme.train(job(memory={"device_budget": "1KiB"}), gpt_of_modules.make(), data=Tokens())
    assert trireme.plan(gpt_of_modules.make(), caught.value.least_budget, job=job())
    with pytest.raises(trireme.DoesNotFit):
        trireme.plan(gpt_of_modules.make(), caught.value.least_budget // 2, job=job())


in_steps = threading.Event()


class Grows(nn.Module):
    """Takes more memory in steps than when it was measured."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(32, 32), 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) + (torch.zeros(4 << 20).sum() if in_steps.is_set() else 0)


def test_memory_beyond_the_budget_is_refused_in_the_callers_code():
    layers = [functools.partial(gpt_of_modules.Embedding, 64, 32, 32), Grows, functools.partial(gpt_of_modules.Head, 64, 32)]
    in_steps.clear()
    told = job(memory={"device_budget": "2MiB"}, report={"log_every": 1})
    with pytest.raises(torch.OutOfMemoryError, match="the memory budget of 2.00 MiB is spent"):
        trireme.train(told, trireme.Chain(layers, context=32), data=Tokens(), on_step=lambda step: in_steps.set())


class Cycles(nn.Module):
    """Leaves a tensor in a reference cycle at every forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        cycle = {"big": torch.zeros(1 << 16)}
        cycle["itself"] = cycle
        return self.linear(x)


def test_garbage_is_collected_before_a_budget_is_spent():
    layers = [functools.partial(gpt_of_modules.Embedding, 64, 32, 32), Cycles, functools.partial(gpt_of_modules.Head, 64, 32)]
    run = trireme.train(job(steps=20, memory={"device_budget": "4MiB"}), trireme.Chain(layers, context=32), data=Tokens())
    assert 80 * (1 << 18) > 4 << 20  # what the cycles of all forwards would hold
    assert max(rank["peak_bytes"] for rank in run.figures["ranks"]) <= 4 << 20


class OwnError(Exception):
    pass


class Broken(Tokens):
    def __getitem__(self, index):
        if index == 7:
            raise OwnError(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("stages", [1, 2])
def test_errors_of_data_come_out_as_they_are(stages):
    with pytest.raises(OwnError, match="7"):
        trireme.train(job(steps=8, pipeline={"stages": stages}), gpt_of_modules.make(), data=Broken(examples=300))


def test_errors_of_a_callback_come_out_as_they_are():
    steps = []

    def on_step(step):
        steps.append(step)
        raise OwnError

    with pytest.raises(OwnError):
        trireme.train(job(), gpt_of_modules.make(), data=Tokens(), on_step=on_step)
    assert [step.step for step in steps] == [1]


def test_every_step_is_told():
    steps = []
    run = trireme.train(job(), gpt_of_modules.make(), data=Tokens(), on_step=steps.append)
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert [step.loss for step in steps] == run.losses
    assert all(step.tokens == 8 * 32 for step in steps)


def test_an_interrupt_ends_the_run_and_python_has_its_handlers_again():
    before = signal.getsignal(signal.SIGINT)

    def on_step(step):
        if step.step == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trireme.train(job(steps=50), gpt_of_modules.make(), data=Tokens(), on_step=on_step)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_heard_while_examples_are_read():
    read = []

    class Slow(Tokens):
        def __getitem__(self, index):
            read.append(index)
            if len(read) == 5:
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(index)

    with pytest.raises(KeyboardInterrupt, match="stopped on request before example"):
        trireme.train(job(), gpt_of_modules.make(), data=Slow())
    assert len(read) == 5


def test_an_interrupt_of_a_run_in_another_thread_is_one_of_the_main_thread_too():
    ended = []

    def on_step(step):
        if step.step == 2:
            signal.raise_signal(signal.SIGINT)

    def train():
        try:
            trireme.train(job(steps=50), gpt_of_modules.make(), data=Tokens(), on_step=on_step)
        except KeyboardInterrupt as error:
            ended.append(error)

    thread = threading.Thread(target=train)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        thread.join()
    thread.join()
    assert len(ended) == 1


def test_hooks_for_saved_tensors_around_a_run_are_refused():
    with torch.autograd.graph.save_on_cpu():
        with pytest.raises(trireme.InputError, match="saved_tensors_hooks"):
            trireme.train(job(), gpt_of_modules.make(), data=Tokens())


@pytest.mark.parametrize(
    ("job_of", "words"),
    [
        ({"trian": {"steps": 4}}, "trian"),
        ({"train": {"steps": "four"}}, 'python: train.steps is "four", must be a whole number'),
        ({"memory": {"device_budget": "4GiBB"}}, "python: memory.device_budget is"),
        ({"model": {"kind": "gpt"}}, "python: model is there, and the program hands a chain over"),
        ({"data": {"kind": "synthetic"}}, "python: data.kind is synthetic, but the program hands its data over"),
    ],
)
def test_wrong_jobs_are_refused(job_of, words):
    with pytest.raises(trireme.InputError, match=words):
        trireme.train(job_of, gpt_of_modules.make(), data=Tokens())


def test_a_file_that_names_what_the_program_hands_over_is_refused():
    pathlib.Path("job.yaml").write_text("train: {steps: 4}\nmodel: {kind: mlp, inputs: 8}\n")
    with pytest.raises(trireme.InputError, match="job.yaml:2: model is there, and the program hands a chain over: leave one of them out"):
        trireme.train("job.yaml", gpt_of_modules.make(), data=Tokens())
    pathlib.Path("job.yaml").write_text("train: {steps: 4}\ndata: {kind: text, files: [x]}\n")
    with pytest.raises(trireme.InputError, match="job.yaml:2: data.kind is text, but the program hands its data over"):
        trireme.train("job.yaml", gpt_of_modules.make(), data=Tokens())


def linear():
    return nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: trireme.Chain([]), "at least one layer"),
        (lambda: trireme.Chain([3]), "layer 1 is a int, must be a torch.nn.Module, or a callable"),
        (lambda: trireme.Chain([nn.Linear(2, 2)], takes="words"), "takes is 'words'"),
        (lambda: trireme.Chain([lambda: 3]).recipes, "layer 1: what builds it gave a int"),
        (lambda: trireme.Chain([nn.ReLU()]).recipes, "nothing would be trained"),
        (lambda: trireme.Chain([trireme.Layer(linear, name) for name in ("b", "b", "b0")]).recipes, "two layers are called b0"),
        (lambda: trireme.Chain([nn.Linear(2, 2)], "vectors").example_sizes, "does not say how large an example is"),
        (lambda: trireme.Chain([nn.Conv2d(1, 1, 1)], "images").classes, "does not say how many classes"),
    ],
)
def test_wrong_chains_are_refused(make, words):
    with pytest.raises(trireme.InputError, match=words):
        make()


class Nested(nn.Module):
    """Trains another model in its forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        trireme.train(job(report={"directory": "runs/inner"}), gpt_of_modules.make(), data=Tokens())
        return self.linear(x)


ANOTHER_RUN = "another run of this process is under way"


def test_a_run_inside_of_a_layer_is_refused():
    layers = [functools.partial(gpt_of_modules.Embedding, 64, 32, 32), Nested, functools.partial(gpt_of_modules.Head, 64, 32)]
    with pytest.raises(trireme.InputError, match=ANOTHER_RUN):
        trireme.train(job(), trireme.Chain(layers, context=32), data=Tokens())


def test_a_second_run_by_another_thread_is_refused_and_the_first_goes_on():
    refused = []

    def second(step):
        def in_thread():
            with pytest.raises(trireme.InputError, match=ANOTHER_RUN) as caught:
                trireme.plan(gpt_of_modules.make(), job=job())
            refused.append(caught.value)

        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()

    run = trireme.train(job(), gpt_of_modules.make(), data=Tokens(), on_step=second)
    assert len(refused) == run.figures["steps"] == 4
    assert digests(run) == digests(trireme.train(job(report={"directory": "runs/alone"}), gpt_of_modules.make(), data=Tokens()))


def test_what_is_no_chain_job_or_callback_is_refused():
    chain = gpt_of_modules.make()
    with pytest.raises(trireme.InputError, match="chain is a list, must be a trireme.Chain"):
        trireme.train(job(), [nn.Linear(2, 2)], data=Tokens())
    with pytest.raises(trireme.InputError, match="chain is a Linear, must be a trireme.Chain"):
        trireme.plan(nn.Linear(2, 2))
    with pytest.raises(trireme.InputError, match="layers is a Linear, must be a list of layers"):
        trireme.Chain(nn.Linear(2, 2))
    with pytest.raises(trireme.InputError, match="layer 1 is a Layer"):
        trireme.Chain([trireme.Layer(5)])
    with pytest.raises(trireme.InputError, match="job is a list, must be a mapping"):
        trireme.train([1], chain, data=Tokens())
    with pytest.raises(trireme.InputError, match="the job has <object object at .*, a object, must have texts"):
        trireme.train(job(checkpoint={"every": object()}), chain, data=Tokens())
    with pytest.raises(trireme.InputError, match="on_step is a int, must be a function"):
        trireme.train(job(), chain, data=Tokens(), on_step=5)
    with torch.inference_mode(), pytest.raises(trireme.InputError, match="torch.inference_mode"):
        trireme.train(job(), chain, data=Tokens())


def test_numbers_of_torch_are_numbers_of_a_job():
    assert trireme.train(job(steps=torch.tensor(3)), gpt_of_modules.make(), data=Tokens()).figures["steps"] == 3


@pytest.mark.parametrize("element", [5, None, "text", (1, 2, 3.5, "x"), {"ids": [1, 2]}])
def test_an_element_that_is_no_example_is_named(element):
    with pytest.raises(trireme.InputError, match=r"element 0 of builtins.list"):
        trireme.train(job(), gpt_of_modules.make(), data=[element] * 16)


@pytest.mark.parametrize("sizes", [{"context": "64"}, {"context": 0}, {"vocabulary": -5}, {"context": 2.0}], ids=str)
def test_sizes_of_a_chain_are_whole_numbers(sizes):
    ((key, size),) = sizes.items()
    with pytest.raises(trireme.InputError, match=re.escape(f"{key} is {size!r}, must be a whole number from 1")):
        trireme.Chain([nn.Linear(2, 2)], **sizes)
