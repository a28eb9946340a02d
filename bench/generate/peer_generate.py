"""The peer of bench/generate/run: Hugging Face's transformers.

    peer_generate.py make FOLDER KIND               a model with random weights, gpt2 or llama, of about 124M parameters
    peer_generate.py generate FOLDER PROMPT TOKENS  prints the prompt's numbers and those that follow, as they come

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig  # noqa: E402
from transformers.generation.streamers import BaseStreamer  # noqa: E402


def make(folder, kind):
    torch.manual_seed(1)
    config = GPT2Config() if kind == "gpt2" else LlamaConfig(
        vocab_size=32000, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, intermediate_size=2048,
        max_position_embeddings=2048, tie_word_embeddings=True)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


class AsTheyCome(BaseStreamer):
    def __init__(self):
        self.is_first = True

    def put(self, value):
        for token in value.flatten().tolist():
            print("" if self.is_first else ",", token, sep="", end="", flush=True)
            self.is_first = False

    def end(self):
        print()


def generate(folder, prompt, tokens):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    inputs = torch.tensor([[int(word) for word in prompt.split(",")]])
    model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, max_new_tokens=int(tokens), min_new_tokens=int(tokens),
                   eos_token_id=None, pad_token_id=0, streamer=AsTheyCome())


if __name__ == "__main__":
    {"make": make, "generate": generate}[sys.argv[1]](*sys.argv[2:])
