"""One digest for one job: every solver, budgets down to the least, both kinds of offload tier, stages, threads and mpirun.

TRIREME_TEST_REPEATS sets how often two rank threads repeat a run; TRIREME_TEST_COMPILE=1 adds layers of torch.compile, which takes minutes.
"""

import json
import os
import re

import gpt_of_modules
import pytest
import torch
from conftest import Tokens, digests, job, needs_mpirun, peak, plan_text, summary_in, under_mpirun

import trireme

MOVABLE = ("plain", "function", "norm") * 2  # no layer keeps bytes beside autograd
STAGES = [{"stages": 2}, {"stages": 3}, {"stages": 3, "schedule": "1f1b", "split_backward": "never"}]


def trained(chain=None, **sections):
    """A run of the small GPT in a folder of its own."""
    trained.runs += 1
    report = {"directory": f"runs/{trained.runs}", "log_every": 4}
    return trireme.train(job(report=report, **sections), chain or gpt_of_modules.make(), data=Tokens())


trained.runs = 0


@pytest.fixture(autouse=True)
def in_own_folder(one_folder):
    pass


@pytest.fixture(scope="module")
def kept(one_folder):
    """The run that keeps everything, with which all others are compared."""
    return trained(plan={"solver": "keep_all"})


def require_planned(run, budget):
    """Every rank kept to its budget and to the peak that was predicted."""
    for rank in run.figures["ranks"]:
        assert rank["peak_bytes"] <= rank["predicted_peak_bytes"] <= budget


def least_budget(**sections):
    with pytest.raises(trireme.DoesNotFit) as refused:
        trained(memory={"device_budget": 1 << 10, **sections})
    return refused.value.least_budget


@pytest.mark.parametrize("solver", ["recompute_all", "revolve", "min_peak", "rotor", "rotor_free", "capuchin", "pofo", "offload", "uniform 2"])
def test_every_solver(kept, solver):
    budget = peak(kept) * 3 // 4
    run = trained(plan={"solver": solver}, memory={"device_budget": budget, "host_budget": "1GiB"})
    assert digests(run) == digests(kept)
    require_planned(run, budget)


def test_budgets_down_to_the_least(kept):
    least = least_budget()
    assert least < peak(kept) * 2 // 3
    for part in range(5):
        budget = least + (peak(kept) - least) * part // 5
        run = trained(memory={"device_budget": budget})
        assert digests(run) == digests(kept)
        require_planned(run, budget)


def test_host_memory_and_disk(kept):
    least = least_budget(host_budget="1GiB")
    assert least < least_budget()
    for tier in ({"host_budget": "1GiB"}, {"disk_budget": "1GiB"}, {"host_budget": "256KiB", "disk_budget": "1GiB"}):
        run = trained(memory={"device_budget": least + least // 8, **tier})
        assert digests(run) == digests(kept)


@pytest.mark.parametrize("pipeline", STAGES, ids=str)
def test_stages_on_threads(kept, pipeline):
    assert digests(trained(pipeline=pipeline)) == digests(kept)


@needs_mpirun
def test_stages_under_mpirun(kept):
    """Several runs of one process on each rank, a budget among them."""
    budget = peak(kept) // 2
    done = under_mpirun(
        3,
        "import gpt_of_modules, trireme\n"
        "from conftest import Tokens, job\n"
        f"for number, more in enumerate([{{'plan': {{'solver': 'recompute_all'}}}}, {{'memory': {{'device_budget': {budget}}}}}]):\n"
        "    trireme.train(job(report={'directory': f'runs/mpi{number}', 'log_every': 4}, **more), gpt_of_modules.make(), data=Tokens())\n",
    )
    assert done.returncode == 0, done.stderr
    for number in range(2):
        summary = summary_in(f"runs/mpi{number}")
        assert len(summary["ranks"]) == 3
        assert (summary["parameters_digest"], summary["losses_digest"]) == digests(kept)


def test_a_plan_with_retapes(kept):
    """Some budget between what recomputing takes and what keeping takes has them; the planner says which."""
    for percent in range(95, 40, -5):
        budget = peak(kept) * percent // 100
        plan = trireme.plan(gpt_of_modules.make(), job=job(memory={"device_budget": budget}))
        if "retape" in json.dumps(plan.figures):
            break
    else:
        pytest.fail("no budget led to a plan with a retape")
    run = trained(memory={"device_budget": budget})
    assert "retape" in plan_text(run)
    assert digests(run) == digests(kept)


def test_rank_threads_repeat_it(kept):
    """Building layers on two threads draws from one generator, one thread at a time."""
    for _ in range(int(os.environ.get("TRIREME_TEST_REPEATS", "5"))):
        assert digests(trained(pipeline={"stages": 2})) == digests(kept)


def test_tapes_that_move():
    kept = trained(gpt_of_modules.make(styles=MOVABLE), plan={"solver": "keep_all"})
    for percent in (70, 50, 40):
        budget = peak(kept) * percent // 100
        run = trained(gpt_of_modules.make(styles=MOVABLE), memory={"device_budget": budget, "host_budget": "1GiB"})
        assert digests(run) == digests(kept)
        require_planned(run, budget)
    assert "offload_tape" in plan_text(run)


def test_tapes_that_move_beside_bytes_that_stay():
    """Python keeps some bytes beside autograd: attributes of a Function, the state that a checkpoint saves."""
    chain = gpt_of_modules.make(styles=("plain", "attribute", "checkpoint", "hooks", "reentrant", "norm"))
    everything = trained(chain, plan={"solver": "keep_all"})
    for percent in (75, 85):
        budget = peak(everything) * percent // 100
        moved = trained(chain, memory={"device_budget": budget, "host_budget": "1GiB", "weights": "device", "optimizer": "device"}, plan={"solver": "pofo"})
        layers = set(re.findall(r'"offload_tape", (\d)', plan_text(moved)))
        assert layers >= {"3"}  # that of the attribute
        assert percent > 75 or layers >= {"3", "4", "5", "6"}
        assert digests(moved) == digests(everything)
        require_planned(moved, budget)


@pytest.mark.skipif("TRIREME_TEST_COMPILE" not in os.environ, reason="compiles for minutes: set TRIREME_TEST_COMPILE=1")
def test_layers_of_torch_compile():
    chain = lambda: trireme.Chain(
        [
            lambda: gpt_of_modules.Embedding(64, 32, 32, 0.1),
            *[trireme.Layer(compiled_block, kind="compiled")] * 3,
            lambda: gpt_of_modules.Head(64, 32),
        ],
        context=32,
        vocabulary=64,
    )
    kept = trained(chain(), plan={"solver": "keep_all"})
    assert digests(trained(chain(), plan={"solver": "recompute_all"})) == digests(kept)
    assert digests(trained(chain(), memory={"device_budget": peak(kept) * 3 // 4})) == digests(kept)


def compiled_block():
    return torch.compile(gpt_of_modules.Block(32, 4, 0.1), dynamic=False)
