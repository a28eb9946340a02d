"""What the benchmarks of whole runs share: contestants that take turns, a watch on the rest of the machine, the peers'
Python, the record of a run. SPDX-License-Identifier: Apache-2.0
"""

import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(os.environ.get("TRIREME_BIN") or ROOT / "build" / "release" / "bin")
TORCH = "2.11.0"

NOISE = 0.05  # share of the cores that others may always use during a run
TRIES = 4  # a run that was not quiet is repeated, until it has run this often


clock = "wall"  # cpu: contestants' own processor time, for one thread on a machine that others use, too


def environment():
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if clock == "cpu":
        env["LD_PRELOAD"] = str(BIN / "libtrireme_cpu_clock.so")
    env.pop("OMP_NUM_THREADS", None)
    return env


def peer_environment():
    folder = os.environ.get("TRIREME_PEER_PYTHONPATH") or str(ROOT / ".deps" / "python-peer")
    if not (pathlib.Path(folder) / "torch").exists():
        print("installing Python's torch for the peers, a few minutes ...", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
        subprocess.run(pip + ["--no-deps", f"torch=={TORCH}"], check=True)
        metadata = next(pathlib.Path(folder).glob("torch-*.dist-info")) / "METADATA"
        needs = [line.split(":", 1)[1].split(";")[0].strip() for line in metadata.read_text().splitlines()
                 if line.startswith("Requires-Dist:") and "extra ==" not in line and "triton" not in line]
        subprocess.run(pip + needs + ["numpy"], check=True)
    return dict(environment(), PYTHONPATH=folder)


class Watch:
    """The share of all cores that others used since the watch began: what this process and its ended children did not."""

    def __init__(self):
        self.begin = time.monotonic()
        self.busy, self.own = self._busy(), self._own()

    def others(self):
        seconds = time.monotonic() - self.begin
        busy = (self._busy() - self.busy) - (self._own() - self.own)
        return max(0.0, busy / (seconds * os.cpu_count()))

    @staticmethod
    def _busy():
        fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # without idle and waiting for disks

    @staticmethod
    def _own():
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in usage)


def quiet(threads):
    """The share of the cores that others may use beside contestants of so many threads: those that these do not need."""
    if clock == "cpu":
        return float("inf")
    return NOISE + 0.9 * max(0, os.cpu_count() - threads) / os.cpu_count()


def await_quiet(threads, seconds=20):
    """Returns when the machine was quiet for a second, or when `seconds` have passed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        watch = Watch()
        time.sleep(1)
        if watch.others() < quiet(threads):
            return


def output_of(command, env=None):
    done = subprocess.run([str(word) for word in command], env=env or environment(), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(word) for word in command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def quietest(run, threads):
    """The share of others during the quietest of a few runs, and what it gave; the first quiet one ends the search."""
    best = None
    for _ in range(TRIES):
        await_quiet(threads)
        watch = Watch()
        figure = run()
        others = watch.others()
        if best is None or others < best[0]:
            best = others, figure
        if others < quiet(threads):
            break
    return best


class Turns:
    """Contestants take turns, every second round in reverse, so that the machine's drift hits all alike.

    A run during which others used cores that the contestants' `threads` needed is repeated; where no quiet one comes, the
    quietest counts. `figures` is name -> what it gave in each round, `others` the largest share of others in each round."""

    def __init__(self, contestants, rounds, threads):
        self.figures, self.others = {name: [] for name in contestants}, []
        for number in range(rounds):
            noise = []
            for name in list(contestants) if number % 2 == 0 else reversed(contestants):
                others, figure = quietest(contestants[name], threads)
                self.figures[name].append(figure)
                noise.append(others)
            self.others.append(round(max(noise), 3))

    def median(self, name, key=None):
        return statistics.median(entry if key is None else entry[key] for entry in self.figures[name])

    def ratio(self, name, to, key=None):
        """Median over the rounds of one contestant's figure divided by another's of the same round."""
        value = (lambda entry: entry) if key is None else (lambda entry: entry[key])
        return statistics.median(value(a) / value(b) for a, b in zip(self.figures[name], self.figures[to]))


def processor():
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.machine()


def record(bench, file, **what):
    """Writes `what` to `file`, with machine, commit and the command that prints it."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    built = datetime.datetime.fromtimestamp((BIN / "trireme-runtime").stat().st_mtime).isoformat(timespec="minutes")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    head = {"bench": bench, "date": datetime.date.today().isoformat(), "commit": commit, "executables_built": built, "command": re.sub(r" --json \S+", "", " ".join(sys.argv)),
            "processor": processor(), "cores": os.cpu_count(), "memory_bytes": memory, "torch": TORCH, "clock": clock}
    pathlib.Path(file).write_text(json.dumps({**head, **what}, indent=1) + "\n")
