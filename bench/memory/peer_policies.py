"""What PyTorch offers against running out of memory, on the GPT of bench/train/peer_gpt.py.

    peer_policies.py COUNTING_LIBRARY MODE BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS [POLICY]

MODE survey: a step to warm up, then one of every policy; MODE time: POLICY alone, STEPS steps, each of them told to PACE_FILE. Prints
JSON: for every policy the median seconds of a step, peak and static tensor bytes (counted by Trireme's allocator in this process), loss.

Policies: keep_all; first-K and last-K: torch.utils.checkpoint around each of the first or last K blocks (with -reentrant:
its older form); sequential-N: checkpoint_sequential over the blocks in N segments; sequential-all-N: over embedding, blocks
and head. SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import json
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from peer_gpt import chain, cross_entropy, step_ended  # noqa: E402


class Counting:
    """Trireme's counting allocator in this process."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        for name in ("live", "peak"):
            getattr(self.library, f"trireme_count_{name}").restype = ctypes.c_int64
        self.library.trireme_count_begin()

    def live(self):
        return self.library.trireme_count_live()

    def peak(self):
        return self.library.trireme_count_peak()

    def reset(self):
        self.library.trireme_count_reset()


def policies(blocks):
    names = ["keep_all"]
    for which in ("first", "last"):
        names += [f"{which}-{k}" for k in range(1, blocks + 1) if which == "first" or k < blocks]
    names += [f"first-{k}-reentrant" for k in range(1, blocks + 1)]
    names += [f"sequential-{n}" for n in range(2, blocks + 1)]
    names += [f"sequential-all-{n}" for n in range(2, blocks + 3)]
    return names


def run_layer(layer, x):
    return layer(x)


def forward(layers, policy, tokens):
    """The logits of `tokens`; `policy` says what is recomputed in the backward."""
    word, _, rest = policy.partition("-")
    blocks = layers[1:-1]
    if word == "sequential" and rest.startswith("all-"):
        return checkpoint_sequential(layers, int(rest[4:]), tokens, use_reentrant=False)
    x = layers[0](tokens)
    if word == "sequential":
        return layers[-1](checkpoint_sequential(blocks, int(rest), x, use_reentrant=False))
    count, _, form = rest.partition("-")
    count = int(count or 0)
    chosen = range(count) if word == "first" else range(len(blocks) - count, len(blocks)) if word == "last" else ()
    for i, block in enumerate(blocks):
        x = checkpoint(run_layer, block, x, use_reentrant=form == "reentrant") if i in chosen else block(x)
    return layers[-1](x)


class Training:
    def __init__(self, shape, counting):
        self.blocks, self.width, heads, self.context, self.vocabulary, self.batch, self.micro_batch, _, threads = shape
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.counting = counting
        self.model = nn.Sequential(*chain(self.blocks, self.width, heads, self.context, self.vocabulary))
        self.model[-1].output.weight = self.model[0].token.weight
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)

    def step(self, policy):
        """Seconds, peak bytes, bytes that stay (gradients of the last step among them), loss."""
        tokens = torch.randint(self.vocabulary, (self.batch, self.context + 1))
        layers = list(self.model)
        losses = []
        self.counting.reset()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        for part in tokens.split(self.micro_batch):
            loss = cross_entropy(forward(layers, policy, part[:, :-1].contiguous()), part[:, 1:])
            (loss * self.micro_batch / self.batch).backward()
            losses.append(loss.item())
            del loss
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        seconds = time.perf_counter() - begin
        return seconds, self.counting.peak(), self.counting.live(), statistics.mean(losses)

    def run(self, policy, steps):
        taken = []
        for _ in range(steps):
            taken.append(self.step(policy))
            step_ended()
        return {"step_s": statistics.median(t[0] for t in taken), "peak_bytes": max(t[1] for t in taken),
                "static_bytes": max(t[2] for t in taken), "loss": taken[-1][3], "torch": torch.__version__}


def main():
    library, mode = sys.argv[1:3]
    shape = tuple(int(word) for word in sys.argv[3:12])
    training = Training(shape, Counting(library))
    if mode == "survey":
        training.step("keep_all")
        print(json.dumps({policy: training.run(policy, 1) for policy in policies(training.blocks)}))
    else:
        print(json.dumps(training.run(sys.argv[12], shape[7])))


if __name__ == "__main__":
    main()
