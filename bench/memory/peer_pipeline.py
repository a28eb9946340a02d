"""A schedule of torch.distributed.pipelining over gloo, two processes, with or without torch.utils.checkpoint around every
block, on the GPT of bench/train/peer_gpt.py.

    peer_pipeline.py COUNTING_LIBRARY SCHEDULE keep_all|checkpoint BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS

Prints JSON: the median seconds of a step, and by rank the peak and static tensor bytes, counted by Trireme's allocator in
each process. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import sys

import torch
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from peer_gpt import Block, pipeline_steps  # noqa: E402
from peer_policies import Counting  # noqa: E402


class Recomputed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def rank_main(rank, library, schedule, policy, shape):
    import torch.distributed as dist

    counting = Counting(library)
    wrap = (lambda layer: Recomputed(layer) if isinstance(layer, Block) else layer) if policy == "checkpoint" else lambda layer: layer
    seconds = pipeline_steps(rank, shape, wrap, before_step=counting.reset, schedule=schedule)
    mine = {"peak_bytes": counting.peak(), "static_bytes": counting.live()}
    ranks = [None, None]
    dist.all_gather_object(ranks, mine)
    if rank == 0:
        print(json.dumps({"step_s": seconds, "ranks": ranks, "torch": torch.__version__}))
    dist.destroy_process_group()


def main():
    library, schedule, policy = sys.argv[1:4]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29514")
    multiprocessing.spawn(rank_main, args=(library, schedule, policy, tuple(int(word) for word in sys.argv[4:13])), nprocs=2)


if __name__ == "__main__":
    main()
