"""What tests of whole runs share."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Runs and profiles are written to a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory):
    """One folder for all tests of a file that asks for it, so that layers are measured once."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("module"))
    yield
    os.chdir(before)


def job(steps=4, **sections):
    """A job of one thread; sections replace or extend its own."""
    base = {
        "data": {"validation_fraction": 0.25},
        "train": {"steps": steps, "batch": 8, "micro_batch": 2, "optimizer": {"learning_rate": 0.002}},
        "threads": 1,
        "report": {"directory": "runs/run", "log_every": 2},
    }
    for name, section in sections.items():
        base[name] = {**base.get(name, {}), **section} if isinstance(section, dict) else section
    return base


def digests(summary):
    return summary.parameters_digest, summary.losses_digest


def peak(summary):
    """Bytes of the rank that held most."""
    return max(rank["peak_bytes"] for rank in summary.figures["ranks"])


def plan_text(summary):
    return (summary.folder / "plan.json").read_text()


class Tokens(torch.utils.data.Dataset):
    """Tokens that can be learned: each is the one before it plus a step of the example's own."""

    def __init__(self, examples=64, context=32, vocabulary=64):
        self.examples, self.context, self.vocabulary = examples, context, vocabulary

    def __len__(self):
        return self.examples

    def __getitem__(self, index):
        places = torch.arange(self.context + 1)
        tokens = (index + places * (1 + index % 3)) % self.vocabulary
        return tokens[:-1], tokens[1:]


def summary_in(folder):
    return json.loads((pathlib.Path(folder) / "summary.json").read_text())


needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")


def under_mpirun(ranks, program):
    """Runs a program's text on this many ranks, in the working folder; modules of the tests may be imported."""
    script = pathlib.Path("train.py").absolute()
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "passive"}  # ranks may share cores
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable, str(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture
def one_thread():
    """Operators of torch have one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
