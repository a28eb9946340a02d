"""The Python peer of the training benchmarks: the same GPT in PyTorch.

    peer_gpt.py single   BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS
    peer_gpt.py SCHEDULE ... (the same; two processes, that schedule of torch.distributed.pipelining over gloo: one of SCHEDULES)

Prints the median seconds of a step. AdamW is PyTorch's fused one: its fastest on CPU.
SPDX-License-Identifier: Apache-2.0
"""

import os
import statistics
import sys
import time

import torch
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F
from torch import nn


# Name -> class of torch.distributed.pipelining, and the stages of either process.
SCHEDULES = {"1f1b": ("Schedule1F1B", ((0,), (1,))), "interleaved": ("ScheduleInterleaved1F1B", ((0, 2), (1, 3))),
             "zero_bubble": ("ScheduleInterleavedZeroBubble", ((0, 2), (1, 3))), "zb_v": ("ScheduleZBVZeroBubble", ((0, 3), (1, 2)))}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, vocabulary, width, context):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight[: tokens.shape[1]]


class Head(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.output(self.norm(x))


def cross_entropy(logits, target):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


def chain(blocks, width, heads, context, vocabulary):
    return [Embedding(vocabulary, width, context), *(Block(width, heads) for _ in range(blocks)), Head(vocabulary, width)]


def step_ended():
    """Tells the bench that paces this process, if one does (side_by_side.Paced)."""
    file = os.environ.get("PACE_FILE")
    if file:
        with open(file, "a") as out:
            out.write("\n")


def single(shape):
    blocks, width, heads, context, vocabulary, batch, micro_batch, steps, threads = shape
    torch.set_num_threads(threads)
    model = nn.Sequential(*chain(blocks, width, heads, context, vocabulary))
    model[-1].output.weight = model[0].token.weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    seconds = []
    for _ in range(steps):
        tokens = torch.randint(vocabulary, (batch, context + 1))
        begin = time.perf_counter()
        optimizer.zero_grad()
        for part in tokens.split(micro_batch):
            loss = cross_entropy(model(part[:, :-1].contiguous()), part[:, 1:])
            (loss * micro_batch / batch).backward()
            loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    print(statistics.median(seconds))


def pipeline_steps(rank, shape, wrap=lambda layer: layer, before_step=lambda: None, schedule="1f1b"):
    """Median seconds of a step of rank 0 or 1; the process group stays. `wrap` goes around every layer."""
    import torch.distributed as dist
    from torch.distributed import pipelining

    blocks, width, heads, context, vocabulary, batch, micro_batch, steps, threads = shape
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    layers = [wrap(layer) for layer in chain(blocks, width, heads, context, vocabulary)]
    kind, stages_of = SCHEDULES[schedule]
    stages = 2 * len(stages_of[rank])
    ends = [0, *(1 + blocks * k // stages for k in range(1, stages)), len(layers)]
    mine = {k: nn.Sequential(*layers[ends[k]:ends[k + 1]]) for k in stages_of[rank]}
    del layers
    model = nn.ModuleList(mine.values())
    parts = [pipelining.PipelineStage(part, k, stages, torch.device("cpu")) for k, part in mine.items()]
    if schedule == "zb_v":  # where neighbouring stages share a rank the first messages would go from it to itself, which gloo refuses
        for part in parts:
            part._get_init_p2p_neighbors_ops = list
    schedule = getattr(pipelining, kind)(parts if len(parts) > 1 else parts[0], n_microbatches=batch // micro_batch, loss_fn=cross_entropy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    torch.manual_seed(0)
    seconds = []
    for _ in range(steps):
        tokens = torch.randint(vocabulary, (batch, context + 1))
        dist.barrier()
        before_step()
        begin = time.perf_counter()
        optimizer.zero_grad()
        inputs = (tokens[:, :-1].contiguous(),) if 0 in mine else ()
        wanted = {"target": tokens[:, 1:].contiguous(), "losses": []} if stages - 1 in mine else {}
        schedule.step(*inputs, **wanted)
        norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm() ** 2
        dist.all_reduce(norm)
        scale = min(1.0, 1.0 / (norm.sqrt().item() + 1e-6))
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(scale)
        optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        if rank == 0:
            step_ended()
    return statistics.median(seconds)


def pipeline_rank(rank, shape, schedule):
    import torch.distributed as dist

    seconds = pipeline_steps(rank, shape, schedule=schedule)
    if rank == 0:
        print(seconds)
    dist.destroy_process_group()


def main():
    mode, shape = sys.argv[1], tuple(int(word) for word in sys.argv[2:11])
    if mode == "single":
        single(shape)
    else:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29513")
        multiprocessing.spawn(pipeline_rank, args=(shape, mode), nprocs=2)


if __name__ == "__main__":
    main()
