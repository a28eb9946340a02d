"""Programs of examples/python, as they are."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples/python"


def test_the_small_gpt_learns(tmp_path):
    done = subprocess.run([sys.executable, str(EXAMPLES / "train_gpt.py")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = (float(loss) for loss in re.search(r"loss ([\d.]+) -> ([\d.]+)", done.stdout).groups())
    assert last < 0.8 * first
    assert (tmp_path / "runs/train_gpt/report.html").is_file()


def test_a_decoder_of_transformers_is_tuned_and_exported(tmp_path):
    pytest.importorskip("transformers", minversion="5", reason="transformers 5 or newer is not installed")
    done = subprocess.run([sys.executable, str(EXAMPLES / "finetune_hf.py")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, last = (float(loss) for loss in re.search(r"loss ([\d.]+) -> ([\d.]+)", done.stdout).groups())
    assert last < 0.8 * first
    assert (tmp_path / "runs/finetune_hf/model/model.safetensors").is_file()
