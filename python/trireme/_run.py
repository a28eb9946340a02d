"""Training and planning."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import glob
import html
import importlib.util
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Union

import torch

from . import _core
from ._chain import Chain
from ._data import Examples, MapStyle
from ._errors import InputError

Job = Union[Mapping[str, Any], str, "os.PathLike[str]"]
_KIND = "python"  # of models: a trireme.Chain


@dataclasses.dataclass(frozen=True)
class Step:
    """Figures of a finished step."""

    step: int  # from 1
    loss: float  # mean over its micro-batches
    learning_rate: float
    gradient_norm: float | None  # before clipping, where gradients are clipped
    seconds: float
    tokens: int  # that it trained on; examples if the chain takes no tokens


@dataclasses.dataclass(frozen=True)
class Summary:
    """A finished run."""

    begun_in: Path  # report.directory; a later run there renames it
    figures: dict[str, Any]  # all of summary.json

    @property
    def folder(self) -> Path:
        """Where the run is now, with its page (report.html), curves (metrics.jsonl), plan and checkpoints."""
        for folder in (self.begun_in, *sorted(self.begun_in.parent.glob(f"{glob.escape(self.begun_in.name)}.*"))):
            with contextlib.suppress(OSError, ValueError):
                if _figures_in(folder) == self.figures:
                    return folder
        raise InputError(f"{self.begun_in} holds another run by now, and no folder beside it holds this one: give every run a report.directory of its own")

    @property
    def losses(self) -> list[float]:
        """Loss of every step of the run, from metrics.jsonl."""
        lines = (json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines())
        return [line["train_loss"] for line in lines if "train_loss" in line]

    @property
    def parameters_digest(self) -> str:
        """Equal for equal weights."""
        return self.figures["parameters_digest"]

    @property
    def losses_digest(self) -> str:
        """Equal for equal losses of all steps."""
        return self.figures["losses_digest"]


def _figures_in(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run would cost. str(plan) is a table; a notebook shows its page."""

    text: str
    page: str  # HTML
    figures: dict[str, Any]  # the plan file: docs/planner.md

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<iframe style="width: 100%; height: 640px; border: 0" srcdoc="{html.escape(self.page)}"></iframe>'


def train(
    job: Job,
    chain: Chain | None = None,
    *,
    data: MapStyle | None = None,
    validation: MapStyle | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Summary:
    """Trains a chain as the job says, on this process or, under mpirun, on the ranks that it started.

    job: a mapping of sections ({"train": {"steps": 100}, ...}; every key: docs/job.md), or the path of a YAML file.
    chain: the model, instead of one that a job's file names. None: the job's `model` section names it
        ({"kind": "python", "file": "model.py", ...} or a built-in kind).
    data: examples by number, drawn as those of every other data set, so that runs that resume, and any number of
        ranks, see the same. None: the job's `data` section says what is read.
    validation: examples for validation, as those of `data`. None: `data.validation_fraction` of `data`, drawn at random.
    on_step: called on rank 0 for every step in order, in bursts of `report.log_every` steps. What it raises ends the
        run.

    Raises InputError; DoesNotFit, where no plan is within the budgets; torch.OutOfMemoryError; KeyboardInterrupt after
    Ctrl-C, with a checkpoint if there are some; Error for all else. What `data`, `validation` or `on_step` raise comes
    out as it is.
    Under mpirun the error of a rank is printed and ends the processes of all.
    """
    if on_step is not None and not callable(on_step):
        raise InputError(f"on_step is a {type(on_step).__name__}, must be a function of a trireme.Step")
    if validation is not None and data is None:
        raise InputError("validation is given without data: the job's `data` section says what is read, and which part of it is for validation")
    given = _read(job, chain)
    examples = None if data is None else _examples(data, chain)
    if chain is not None and examples is not None:
        chain = chain.sized(examples.example_sizes())
    held_out = None if validation is None else _examples(validation, chain)
    told = None if on_step is None else lambda *figures: on_step(Step(*figures))
    with _as_it_was():
        code, folder = _core.train(*given, _kinds(chain), examples, held_out, told)
    if code != 0:
        raise SystemExit(code)  # the error was printed
    place = Path(folder).absolute()
    return Summary(place, _figures_in(place))


def _examples(data: MapStyle, chain: Chain | None) -> Examples:
    return Examples(data, "tokens") if chain is None else Examples(data, chain.takes, chain.context)


def plan(chain: Chain | None = None, memory: str | int | None = None, *, job: Job | None = None, ranks: int = 0) -> Plan:
    """What training would cost: measures the layers, unless that was done before, and plans. Nothing is trained.

    memory: the device budget ("4GiB", or bytes), instead of the job's.
    job: as for train(). None: {}.
    ranks: of the run; 0: the job's stages x replicas.

    Raises as train() does: DoesNotFit has `least_budget`.
    """
    asked = {} if job is None else job
    if isinstance(asked, Mapping):
        asked = {**asked, "data": {"kind": "synthetic", **asked.get("data", {})}}  # which are not read
        if memory is not None:
            asked["memory"] = {**asked.get("memory", {}), "device_budget": memory}
    elif memory is not None:
        raise InputError("memory is given, and job is a file: say memory.device_budget there")
    given = _read(asked, chain)
    with tempfile.TemporaryDirectory() as folder, _as_it_was():
        file, page = Path(folder) / "plan.json", Path(folder) / "plan.html"
        told = _core.plan(*given, _kinds(chain), ranks, str(file), str(page))
        return Plan(told, page.read_text(), json.loads(file.read_text()))


def run(*arguments: str) -> int:
    """Runs a command of trireme-runtime (`run("train", "job.yaml")`). Returns its exit code; errors are printed."""
    with _as_it_was():
        return _core.run(["trireme", *arguments], _kinds(None))


def is_main_process() -> bool:
    """Whether this process is the first of those that a launcher has started, or the only one: the one that should
    export what was trained, or tell others of it."""
    return _core.is_speaker()


def _read(job: Job, chain: Chain | None) -> tuple[str, str | None, str]:
    """The job's file, or a name for messages and the job's text; and the kind of a chain that is handed over."""
    _require_chain(chain)
    kind = "" if chain is None else _KIND
    if not isinstance(job, (Mapping, str, os.PathLike)):
        raise InputError(f"job is a {type(job).__name__}, must be a mapping of sections, or the path of a YAML file")
    if not isinstance(job, Mapping):
        return os.fspath(job), None, kind
    sections = {key: dict(value) if isinstance(value, Mapping) else value for key, value in job.items()}
    if chain is not None:
        sections.setdefault("model", {"kind": kind})  # errors of its layers name this mapping, not a setting
    return "python", json.dumps(sections, default=_plain), kind


def _plain(value: Any) -> Any:
    """A value of a job as JSON has it: paths, and numbers of numpy and torch."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    raise InputError(f"the job has {value!r}, a {type(value).__name__}, must have texts, numbers, paths, lists and mappings")


def _require_chain(chain: Any) -> None:
    if chain is not None and not isinstance(chain, Chain):
        raise InputError(f"chain is a {type(chain).__name__}, must be a trireme.Chain: trireme.Chain([first, ..., last], takes=...)")


def _kinds(chain: Chain | None) -> dict[str, Callable[[dict[str, Any]], Chain]]:
    """What makes the chain out of a job's `model` section."""
    return {_KIND: _from_file if chain is None else lambda section: chain}


def _from_file(section: dict[str, Any]) -> Chain:
    """`model: {kind: python, file: model.py, ...}`: the file's make(**rest) gives the chain."""
    rest = {key: value for key, value in section.items() if key != "kind"}
    file = rest.pop("file", None)
    if not isinstance(file, str):
        raise InputError("file is missing, must be the path of a Python file that defines make(...)")
    path = Path(file).resolve()
    if not path.is_file():
        raise InputError(f"file is {file}, which is not there")
    module = _imported(path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise InputError(f"{file} has no function make, which gives the chain")
    chain = make(**rest)
    if not isinstance(chain, Chain):
        raise InputError(f"make of {file} gave a {type(chain).__name__}, must give a trireme.Chain")
    return chain


def _imported(path: Path) -> Any:
    """The file as a module that finds what lies beside it."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


_one_at_a_time = threading.Lock()


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """What a run sets in the process, and its end gives back. There is one run of a process at a time."""
    if torch.is_inference_mode_enabled():
        raise InputError("torch.inference_mode() is active, under which nothing can be trained: leave it first")
    if not _one_at_a_time.acquire(blocking=False):
        raise InputError("another run of this process is under way, which this was called inside of, or by another thread: call it when that has ended")
    try:
        with _state_as_it_was():
            yield
    except KeyboardInterrupt:
        _tell_main_thread()
        raise
    finally:
        _one_at_a_time.release()


def _tell_main_thread() -> None:
    """Ctrl-C of a run in another thread is for the main thread, too, which waits for that one or does something else."""
    main = threading.main_thread()
    if threading.current_thread() is not main and main.is_alive():
        signal.pthread_kill(main.ident, signal.SIGINT)


@contextlib.contextmanager
def _state_as_it_was() -> Iterator[None]:
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    # The collector passes over what is there: it looks at what layers make, when a budget is reached.
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.random.set_rng_state(state)
        torch.set_num_threads(threads)
