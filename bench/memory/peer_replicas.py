"""DistributedDataParallel over gloo, two processes with one replica each, with AdamW in each or ZeroRedundancyOptimizer, on the
GPT of bench/train/peer_gpt.py.

    peer_replicas.py COUNTING_LIBRARY all|parts BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS

BATCH is that of both. Prints JSON: the median seconds of a step, and by rank the peak and static tensor bytes, counted by
Trireme's allocator in each process. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.multiprocessing as multiprocessing
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from peer_gpt import chain, cross_entropy, step_ended  # noqa: E402
from peer_policies import Counting  # noqa: E402

REPLICAS = 2
ADAMW = {"lr": 1e-3, "weight_decay": 0.1, "fused": True}


def rank_main(rank, library, state, shape):
    import torch.distributed as dist
    from torch.distributed.optim import ZeroRedundancyOptimizer

    blocks, width, heads, context, vocabulary, batch, micro_batch, steps, threads = shape
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=REPLICAS)
    counting = Counting(library)
    layers = nn.Sequential(*chain(blocks, width, heads, context, vocabulary))
    layers[-1].output.weight = layers[0].token.weight
    # What takes the least memory: gradients stay in the buckets that are sent.
    model = nn.parallel.DistributedDataParallel(layers, gradient_as_bucket_view=True)
    if state == "parts":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **ADAMW)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    mine = batch // REPLICAS
    torch.manual_seed(rank)
    seconds, peaks = [], []
    for _ in range(steps):
        tokens = torch.randint(vocabulary, (mine, context + 1))
        dist.barrier()
        counting.reset()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        parts = tokens.split(micro_batch)
        for number, part in enumerate(parts):
            model.require_backward_grad_sync = number + 1 == len(parts)
            loss = cross_entropy(model(part[:, :-1].contiguous()), part[:, 1:])
            (loss * micro_batch / mine).backward()
            loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        peaks.append(counting.peak())
        if rank == 0:
            step_ended()
    del loss
    ranks = [None] * REPLICAS
    dist.all_gather_object(ranks, {"peak_bytes": max(peaks[1:]), "static_bytes": counting.live()})
    if rank == 0:
        print(json.dumps({"step_s": statistics.median(seconds), "ranks": ranks, "torch": torch.__version__}))
    dist.destroy_process_group()


def main():
    library, state = sys.argv[1:3]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29515")
    multiprocessing.spawn(rank_main, args=(library, state, tuple(int(word) for word in sys.argv[3:12])), nprocs=REPLICAS)


if __name__ == "__main__":
    main()
