"""Programs of examples/python, as they are."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/python"


def test_the_first_program_of_the_page_runs(tmp_path):
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    lines = re.search(r"## A first program\n\n((?:    .*\n|\n)+)", page)[1]
    program = re.sub(r"(?m)^    ", "", lines).replace('"steps": 100', '"steps": 2')
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d+\.\d+ .*runs/first$", done.stdout, re.M), done.stdout
    assert (tmp_path / "runs/first/report.html").is_file()


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
