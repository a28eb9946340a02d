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
import signal
import statistics
import subprocess
import sys
import tempfile
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

    def others(self, running=0.0):
        """`running`: processor seconds since then of children that have not ended."""
        seconds = time.monotonic() - self.begin
        busy = (self._busy() - self.busy) - (self._own() - self.own) - running
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


class Paced:
    """A process that adds a line to `pace_file` at the end of every step, and stands still but for the steps that are asked for.
    `command` trains `steps` steps: `WARM_UP` and those."""

    WARM_UP = 2

    def __init__(self, command, env, pace_file):
        self.command, self.pace_file = [str(word) for word in command], pathlib.Path(pace_file)
        self.pace_file.unlink(missing_ok=True)
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, env=env, stdout=self.out, stderr=self.err)
        self.lines = 0
        for _ in range(self.WARM_UP):
            self._await_line()
        self._signal(signal.SIGSTOP)

    def step(self):
        """Seconds from one end of a step to the next."""
        begin = time.perf_counter()
        self._signal(signal.SIGCONT)
        self._await_line()
        seconds = time.perf_counter() - begin
        self._signal(signal.SIGSTOP)
        return seconds

    def finish(self):
        """What it printed."""
        self._signal(signal.SIGCONT)
        if self.process.wait() != 0:
            self._fail()
        self.out.seek(0)
        return self.out.read()

    def kill(self):
        self._signal(signal.SIGKILL)
        self.process.wait()

    def processor_seconds(self):
        fields = [stat.rsplit(")", 1)[1].split() for stat in map(self._stat, self._family()) if stat]
        return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")

    def _await_line(self):
        while True:
            try:
                lines = self.pace_file.read_bytes().count(b"\n")
            except FileNotFoundError:
                lines = 0
            if lines > self.lines:
                self.lines += 1
                return
            if self.process.poll() is not None:
                self._fail()
            time.sleep(0.001)

    def _fail(self):
        self.err.seek(0)
        raise RuntimeError(f"{' '.join(self.command)}: exit {self.process.returncode}\n{self.err.read()[-2000:]}")

    def _signal(self, number):
        for pid in self._family():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _family(self):
        """This process and what it started, the youngest first."""
        pids = [self.process.pid]
        for pid in pids:
            for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    pids += [int(word) for word in children.read_text().split()]
                except OSError:
                    pass
        return pids[::-1]

    @staticmethod
    def _stat(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return ""


class StepByStep:
    """Contestants take turns step by step: on a machine whose speed drifts, ratios of neighbouring steps say more than those of
    whole runs. `start` is name -> a function of the number of steps that gives a Paced.

    `seconds` is name -> of every round, `printed` what each printed in the end, `others` the share of the cores that others used."""

    def __init__(self, start, rounds):
        self.seconds, running = {name: [] for name in start}, {}
        try:
            for name in start:
                running[name] = start[name](Paced.WARM_UP + rounds)
            watch, before = Watch(), sum(one.processor_seconds() for one in running.values())
            for number in range(rounds):
                for name in list(start) if number % 2 == 0 else reversed(start):
                    self.seconds[name].append(running[name].step())
            own = sum(one.processor_seconds() for one in running.values()) - before
            self.others = round(watch.others(own), 3)
            self.printed = {name: one.finish() for name, one in running.items()}
        except BaseException:
            for one in running.values():
                one.kill()
            raise

    def median(self, name):
        return statistics.median(self.seconds[name])

    def ratio(self, name, to):
        """Median over the rounds, and the quartiles."""
        ratios = [a / b for a, b in zip(self.seconds[name], self.seconds[to])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        return middle, (low, high)


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
