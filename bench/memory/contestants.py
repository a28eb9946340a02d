"""Who takes part in the benchmarks of memory budgets: jobs of Trireme, and Python PyTorch with its policies.
SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from side_by_side import BIN, ROOT, Paced, environment, output_of, peer_environment  # noqa: E402

PEER = ROOT / "bench" / "memory" / "peer_policies.py"
INFEASIBLE = 3
MIB = float(1 << 20)

SHAPE = {"blocks": 8, "width": 256, "heads": 4, "context": 256, "vocabulary": 256, "batch": 8, "micro_batch": 4, "steps": 3}
GPT = {"kind": "gpt", **{key: SHAPE[key] for key in ("blocks", "width", "heads", "context", "vocabulary")}, "dropout": 0.0}


class Job:
    """One job in a folder of its own, so that its layers are measured once; `sets` of a run come on top."""

    def __init__(self, folder, model, batch=SHAPE["batch"], micro_batch=SHAPE["micro_batch"], steps=SHAPE["steps"], threads=1,
                 ranks=1, replicas=1):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ranks = ranks
        self.shape = {"pipeline.stages": ranks // replicas, "pipeline.replicas": replicas} if ranks > 1 else {}
        self.file = self.folder / "job.yaml"
        self.file.write_text(json.dumps({
            "model": model, "data": {"kind": "synthetic", "validation_fraction": 0.0}, "threads": threads,
            "train": {"steps": steps, "batch": batch, "micro_batch": micro_batch, "validate_every": 0,
                      "optimizer": {"kind": "adamw", "learning_rate": 1e-3}},
            "report": {"directory": str(self.folder / "run"), "tensorboard": False, "html": False, "log_every": 1000}}))

    def profile(self, sets={}):
        """Measures the layers again."""
        output_of([BIN / "trireme", "profile", self.file, "--fresh", "-o", self.folder / "chain.yaml", *self._settings(sets)])

    def train(self, sets={}):
        """The run's summary; None where nothing fits."""
        command = [str(word) for word in self._command(sets)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if done.returncode == INFEASIBLE:
            return None
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def fits(self, sets):
        return self.train(dict(sets, **{"train.steps": 1})) is not None

    def run_folder(self, name):
        return self.folder / name.replace(" ", "_")

    def paced(self, name, sets, steps):
        folder = self.run_folder(name)
        sets = dict(sets, **{"train.steps": steps, "report.log_every": 1, "report.directory": folder})
        return Paced(self._command(sets), environment(), folder / "metrics.jsonl")

    def _command(self, sets):
        ranks = ["mpirun", "-n", str(self.ranks)] if self.ranks > 1 else []
        return [*ranks, BIN / "trireme", "train", self.file, "--json", *self._settings(sets)]

    def _settings(self, sets):
        return [word for key, value in {**sets, **self.shape}.items() for word in ("--set", f"{key}={value}")]

    def keep_all_bytes(self):
        """Static bytes and bytes of activations of keep_all, measured, of rank 0."""
        rank = self.train({"plan.solver": "keep_all"})["ranks"][0]
        return rank["static_bytes"], rank["peak_bytes"] - rank["static_bytes"]


def budget_of(static, activations, percent):
    return static + activations * percent // 100


def blocks_again(policy):
    """How many blocks a policy of the peer runs twice; a reentrant checkpoint, which runs them to their ends, counts as a little more."""
    word, _, rest = policy.partition("-")
    if word == "keep_all":
        return 0
    if word == "sequential":  # all segments but the last, which takes what does not divide
        whole = rest.startswith("all-")
        segments, layers = int(rest.rpartition("-")[2]), SHAPE["blocks"] + (2 if whole else 0)
        again = (segments - 1) * (layers // segments)
        return min(SHAPE["blocks"], again - 1 if whole else again)
    return int(rest.split("-")[0]) + (0.1 if rest.endswith("reentrant") else 0)


class Peer:
    """Python PyTorch with one of its policies."""

    def __init__(self, threads):
        self.threads, self.env = threads, peer_environment()
        self.shape = [SHAPE[k] for k in ("blocks", "width", "heads", "context", "vocabulary", "batch", "micro_batch", "steps")]

    def survey(self):
        """Every policy, one step."""
        return json.loads(output_of(self._command("survey", self.shape[-1]), self.env))

    def paced(self, policy, folder, steps):
        pace_file = folder / f"{policy}.pace"
        return Paced(self._command("time", steps, policy), dict(self.env, PACE_FILE=str(pace_file)), pace_file)

    def _command(self, mode, steps, *policy):
        return [sys.executable, PEER, BIN / "libtrireme_counting.so", mode, *self.shape[:-1], steps, self.threads, *policy]


def ours(summary):
    """The figures of a run of one rank that are compared and written down."""
    rank = summary["ranks"][0]
    figures = {key: rank[key] for key in ("peak_bytes", "predicted_peak_bytes", "static_bytes", "forward_s", "backward_s", "recompute_s",
                                          "copy_s", "copy_wait_s", "optimizer_away_bytes",
                                          "weights_away_bytes", "update_s")}
    return {"step_s": summary["step_s"], "predicted_step_s": summary["predicted_step_s"], **figures}


def of_ranks(summary):
    keys = ("peak_bytes", "predicted_peak_bytes", "static_bytes", "layers", "recompute_s", "wait_s")
    return {"step_s": summary["step_s"], "predicted_step_s": summary["predicted_step_s"],
            "ranks": [{key: rank[key] for key in keys} for rank in summary["ranks"]]}
