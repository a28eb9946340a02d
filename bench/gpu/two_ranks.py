"""Whether NCCL lets two processes share one GPU when NCCL_HOSTID makes them look like two machines, for bench/gpu/run.

    two_ranks.py           prints one JSON line: without and with NCCL_HOSTID, what an all-reduce of 64 MiB gave or took

NCCL tells devices apart by machine and bus; two ranks on one device of one machine are refused ("Duplicate GPU detected").
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import subprocess
import sys
import tempfile
import time

ELEMENTS, ROUNDS, SECONDS = 16 << 20, 10, 40


def rank_of_two(rank, file):
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl", init_method=f"file://{file}", rank=rank, world_size=2)
    values = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(values)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        dist.all_reduce(values)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / ROUNDS
    if rank == 0:
        print(json.dumps({"sum_is_right": bool((values == 2.0 ** (ROUNDS + 1)).all()), "bytes_per_s": 4 * ELEMENTS / seconds}))
    dist.destroy_process_group()


def attempt(with_host_ids):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(2):
            env = dict(os.environ, CUDA_VISIBLE_DEVICES="0", **({"NCCL_HOSTID": f"half-{rank}"} if with_host_ids else {}))
            ranks.append(subprocess.Popen([sys.executable, __file__, str(rank), folder + "/meeting"], env=env, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        try:
            answers = [process.communicate(timeout=SECONDS) for process in ranks]
        except subprocess.TimeoutExpired:
            for process in ranks:
                process.kill()
            return {"failed": f"no end within {SECONDS} s"}
        if any(process.returncode for process in ranks):
            words = [line for _, errors in answers for line in errors.splitlines() if "Error" in line or "Duplicate" in line]
            return {"failed": " | ".join(words)[:500] or answers[0][1][-300:]}
        return json.loads(answers[0][0])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        rank_of_two(int(sys.argv[1]), sys.argv[2])
    else:
        print(json.dumps({"plain": attempt(False), "with NCCL_HOSTID": attempt(True)}))
