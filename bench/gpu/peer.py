"""The Python peer of bench/gpu/run: the same GPT in PyTorch on one GPU, bfloat16 autocast, fused AdamW, clipped at 1.

    peer.py BLOCKS WIDTH HEADS CONTEXT VOCABULARY MICRO_BATCH MICRO_BATCHES STEPS SECONDS [POLICY,... | all]

Policies: keep_all, checkpoint (torch.utils.checkpoint of every block), save_on_cpu (torch.autograd.graph.save_on_cpu with
pinned memory around the blocks), eager and under torch.compile, layer by layer (blocks are alike: one is compiled for all).
Prints one JSON line each; what does not start within SECONDS is skipped with the reason. SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from peer_gpt import chain, cross_entropy  # noqa: E402

POLICIES = ["keep_all eager", "keep_all compiled", "checkpoint eager", "save_on_cpu eager", "checkpoint compiled"]


def initialise(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)


def forward_of(layers, policy):
    of_layer = torch.compile if policy.endswith("compiled") else lambda layer: layer
    first, *blocks = [of_layer(layer) for layer in layers[:-1]]
    head = of_layer(lambda x, target: cross_entropy(layers[-1](x), target))
    scope = contextlib.nullcontext
    if policy.startswith("save_on_cpu"):
        scope = lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)  # noqa: E731

    def forward(tokens, target):
        x = first(tokens)
        with scope():
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False) if policy.startswith("checkpoint") else block(x)
        return head(x, target)

    return forward


def run(shape, policy, steps, micro_batches):
    blocks, width, heads, context, vocabulary, micro_batch = shape
    torch.manual_seed(1)
    with torch.device("cuda"):
        layers = nn.ModuleList(chain(blocks, width, heads, context, vocabulary)).apply(initialise)
    layers[-1].output.weight = layers[0].token.weight
    optimizer = torch.optim.AdamW(layers.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = forward_of(layers, policy)
    optimizer.zero_grad(set_to_none=False)
    seconds = []
    for step in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(micro_batches):
            tokens = torch.randint(vocabulary, (micro_batch, context + 1)).pin_memory().to("cuda", non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            (loss / micro_batches).backward()
        nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        if step == 0:
            torch.cuda.reset_peak_memory_stats()
    step_s = statistics.median(seconds[1:])
    return {"policy": policy, "step_s": step_s, "tokens_per_s": micro_batches * micro_batch * context / step_s,
            "first_step_s": seconds[0], "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def main():
    *shape, micro_batches, steps, patience = (int(word) for word in sys.argv[1:10])
    if not torch.cuda.is_available():
        for policy in POLICIES:
            print(json.dumps({"policy": policy, "skipped": "torch.cuda.is_available() is false here"}))
        return
    begin = time.perf_counter()
    asked = sys.argv[10] if len(sys.argv) > 10 else "all"
    for policy in POLICIES if asked == "all" else asked.split(","):
        if time.perf_counter() - begin > patience:
            print(json.dumps({"policy": policy, "skipped": "the time is over"}), flush=True)
            continue
        try:
            print(json.dumps(run(shape, policy, steps, micro_batches)), flush=True)
        except Exception as error:  # out of memory, no compiler: the other policies still run
            print(json.dumps({"policy": policy, "skipped": f"{type(error).__name__}: {str(error)[:300]}"}), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
