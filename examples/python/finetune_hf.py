"""Fine-tunes a decoder of Hugging Face's transformers within a memory budget, and exports it.

    python examples/python/finetune_hf.py                              a small Llama with random weights, on the bytes of this
                                                                       file, in a third of the memory that it takes
    python examples/python/finetune_hf.py ./TinyLlama-1.1B text.txt 8GiB
    mpirun -n 2 python examples/python/finetune_hf.py ...
"""

import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import trireme
from trireme import hf

CONTEXT = 64
BYTES = dict(vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)


class Text(torch.utils.data.Dataset):
    """Pieces of CONTEXT + 1 tokens of a text."""

    def __init__(self, tokens):
        self.tokens = torch.tensor(tokens)

    def __len__(self):
        return len(self.tokens) // (CONTEXT + 1)

    def __getitem__(self, number):
        return self.tokens[number * (CONTEXT + 1) :][: CONTEXT + 1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        model, file, budget = sys.argv[1:]
        text, rate = AutoTokenizer.from_pretrained(model)(pathlib.Path(file).read_text())["input_ids"], 2e-5
    else:
        model, text, budget, rate = AutoConfig.for_model("llama", **BYTES), list(pathlib.Path(__file__).read_bytes()), "3MiB", 3e-3
    chain = hf.chain(model, CONTEXT)
    job = {
        "train": {"steps": 30, "batch": 16, "micro_batch": 4, "optimizer": {"learning_rate": rate}},
        "memory": {"device_budget": budget, "host_budget": "32GiB"},
        "checkpoint": {"every": 30},
        "report": {"directory": "runs/finetune_hf"},
    }
    run = trireme.train(job, chain, data=Text(text))
    if trireme.is_main_process():
        hf.export(model, run, run.folder / "model")
        AutoModelForCausalLM.from_pretrained(run.folder / "model")
        print(f"loss {run.losses[0]:.2f} -> {run.losses[-1]:.2f}; model: {run.folder / 'model'}")
