"""What tests of whole runs share."""

import json
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path, monkeypatch):
    """Runs and profiles are written to a folder of the test."""
    monkeypatch.chdir(tmp_path)


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
