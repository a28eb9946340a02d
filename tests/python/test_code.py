"""What costs and checkpoints belong to: the code that layers run."""

import multiprocessing
import os
import pathlib
import subprocess
import sys
import types

import pytest

import trireme

MODEL = """
import functools
import helper
from torch import nn
from torch.nn import functional as F
import trireme


class Loss(nn.Module):
    def forward(self, x, target):
        return F.cross_entropy(x, target)


def make(width=16, classes=4):
    layers = [functools.partial(nn.Linear, 8, width), helper.Activation, functools.partial(nn.Linear, width, classes), Loss]
    return trireme.Chain(layers, "vectors", inputs=8, classes=classes)
"""
HELPER = """
from torch import nn


class Activation(nn.GELU):
    pass
"""
JOB = """
model: {kind: python, file: model.py}
data: {kind: synthetic, examples: 64}
train: {steps: 4, batch: 8, micro_batch: 4}
memory: {device_budget: 1MiB}
checkpoint: {every: 2}
threads: 1
report: {directory: runs/run}
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in (("model.py", MODEL), ("helper.py", HELPER), ("job.yaml", JOB)):
        (tmp_path / name).write_text(text)
    return tmp_path


# Processes that begin as those of the command, where torch and trireme have been imported and nothing has run: importing takes seconds.
_IMPORTED = multiprocessing.get_context("forkserver")
_IMPORTED.set_forkserver_preload(["trireme", "pytest"])


def command(folder, *arguments):
    process = _IMPORTED.Process(target=_run, args=(folder, arguments))
    process.start()
    process.join()
    stdout, stderr = ((folder / name).read_text() for name in ("stdout", "stderr"))
    return types.SimpleNamespace(returncode=process.exitcode, stdout=stdout, stderr=stderr)


def _run(folder, arguments):
    os.chdir(folder)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.exit(trireme.run(*arguments))


def trained(folder, *settings):
    options = [word for setting in settings for word in ("--set", setting)]
    done = command(folder, "train", "job.yaml", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_trains_a_model_of_a_file(folder):
    done = subprocess.run([sys.executable, "-m", "trireme", "train", "job.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "parameters digest" in done.stdout


def test_keys_of_the_model_section_are_the_arguments_of_make(folder):
    assert "parameters        212" in trained(folder)
    assert "parameters        420" in trained(folder, "model.width=32", "report.directory=runs/wide")


def test_costs_are_measured_again_for_other_code_alone(folder):
    assert "measured on 1 rank" in trained(folder)
    assert "measured earlier" in trained(folder)
    (folder / "other.py").write_text("VALUE = 1\n")
    assert "measured earlier" in trained(folder)
    for file in ("model.py", "helper.py"):
        (folder / file).write_text((folder / file).read_text() + "\n# changed\n")
        assert "measured on 1 rank" in trained(folder)


def test_a_checkpoint_of_other_code_is_not_resumed(folder):
    trained(folder)
    (folder / "runs/run/summary.json").unlink()
    (folder / "helper.py").write_text(HELPER.replace("GELU", "ReLU"))
    done = command(folder, "train", "job.yaml", "--set", "train.steps=6")
    assert done.returncode == 2
    assert "the model's code" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "model.py").unlink(), "file is model.py, which is not there"),
        (lambda folder: (folder / "model.py").write_text("x = 1"), "has no function make"),
        (lambda folder: (folder / "model.py").write_text("def make(): return 3"), "gave a int, must give a trireme.Chain"),
        (lambda folder: (folder / "model.py").write_text("def make(:"), "SyntaxError"),
        (lambda folder: (folder / "model.py").write_text("def make(): raise KeyError('width')"), "model.py:1, in make"),
    ],
)
def test_wrong_files_are_refused(folder, change, words):
    change(folder)
    done = command(folder, "train", "job.yaml")
    assert done.returncode == 2
    assert words in done.stderr
    assert "job.yaml:2" in done.stderr


def test_built_in_models_train_too(folder):
    done = command(folder, "train", "job.yaml", "--set", "model.kind=mlp")
    assert done.returncode == 2  # an mlp has no file
    (folder / "mlp.yaml").write_text(JOB.replace("{kind: python, file: model.py}", "{kind: mlp, inputs: 8, widths: [8], classes: 4}"))
    assert command(folder, "train", "mlp.yaml").returncode == 0


def test_another_torch_is_refused_before_the_extension_is_loaded(tmp_path):
    package = pathlib.Path(trireme.__file__).parent
    copy = tmp_path / "trireme"
    copy.mkdir()
    for file in package.glob("*.py"):
        (copy / file.name).write_text(file.read_text())
    (copy / "_built.py").write_text('TORCH = "1.2.3"\n')
    done = subprocess.run([sys.executable, "-c", "import trireme"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: trireme was built for torch 1.2.3, but torch 2" in done.stderr
