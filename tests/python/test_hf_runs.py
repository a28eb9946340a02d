"""Runs of decoders of transformers: digests, adapters, and what is trained put back. Tests of single steps: test_hf.py."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from conftest import Tokens, digests, job, needs_mpirun, peak, summary_in, under_mpirun
from torch import nn

import trireme

transformers = pytest.importorskip("transformers", minversion="5", reason="transformers 5 or newer is not installed")

from decoders import config_of, model_of  # noqa: E402
from test_hf import built, tokens_of  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from trireme import hf  # noqa: E402

HERE = pathlib.Path(__file__).parent
pytestmark = pytest.mark.usefixtures("one_thread")


def trained(name, chain, **sections):
    sections = {"checkpoint": {"every": 4}, **sections}
    return trireme.train(job(report={"directory": f"runs/{name}"}, **sections), chain, data=Tokens(examples=32))


RUNS = {"llama": {}, "gemma3_text": {}, "gpt2": dict(dropout=0.1), "mixtral": {}}


def config_of_run(kind):
    return config_of(kind, **{"num_hidden_layers": 4, "vocab_size": 64, "layer_types": None, **RUNS[kind]})


@pytest.mark.parametrize("kind", RUNS)
def test_half_of_the_memory_gives_the_same_digests(kind):
    chain = hf.chain(model_of(config_of_run(kind)), 32)
    kept = trained("kept", chain, plan={"solver": "keep_all"})
    half = trained("half", chain, memory={"device_budget": peak(kept) // 2, "host_budget": "1GiB"})
    assert digests(half) == digests(kept)
    assert peak(half) <= peak(kept) // 2
    for rank in half.figures["ranks"]:
        assert rank["peak_bytes"] <= rank["predicted_peak_bytes"]


@needs_mpirun
def test_two_ranks_of_mpirun_within_half_of_the_memory_give_the_same_digests(tmp_path):
    """Each rank reads its own layers of a folder; the tied weight is on both."""
    model_of(config_of_run("gemma3_text")).save_pretrained(tmp_path / "model")
    kept = trained("kept", hf.chain(tmp_path / "model", 32), plan={"solver": "keep_all"})
    done = under_mpirun(
        2,
        "from test_hf_runs import hf, trained\n"
        f"memory = {{'device_budget': {peak(kept) // 2}, 'host_budget': '1GiB'}}\n"
        f"trained('ranks', hf.chain({str(tmp_path / 'model')!r}, 32), memory=memory)\n",
    )
    assert done.returncode == 0, done.stderr
    summary = summary_in(tmp_path / "runs/ranks")
    assert len(summary["ranks"]) == 2
    assert all(rank["peak_bytes"] <= peak(kept) // 2 for rank in summary["ranks"])
    assert (summary["parameters_digest"], summary["losses_digest"]) == digests(kept)


def test_a_config_draws_the_same_weights_for_every_cut():
    """Also those of the tied embedding, which two ranks have; another seed gives others."""
    config = config_of_run("gemma3_text")
    one = trained("one", hf.chain(config, 32))
    assert digests(trained("two", hf.chain(config, 32), pipeline={"stages": 2})) == digests(one)
    other = trained("other", hf.chain(config, 32), train={"seed": 7})
    assert other.losses[0] != one.losses[0]


EMULATED = pathlib.Path(trireme._core.__file__).parents[2] / "bin/emulated/libcuda.so.1"


@pytest.mark.skipif(not EMULATED.exists() or torch.version.cuda is None, reason="there are no emulated GPUs")
def test_a_gpu_gives_one_digest_for_every_plan(tmp_path):
    """Masks and positions are made where the layer is."""
    script = tmp_path / "train.py"
    script.write_text(
        "from test_hf_runs import config_of_run, digests, hf, model_of, trained\n"
        "chain = hf.chain(model_of(config_of_run('gemma3_text')), 32)\n"
        "kept, less = (trained(solver, chain, device='cuda', plan={'solver': solver}) for solver in ('keep_all', 'recompute_all'))\n"
        "assert digests(kept) == digests(less)\n"
        "assert less.figures['ranks'][0]['peak_bytes'] < kept.figures['ranks'][0]['peak_bytes']\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}", "LD_PRELOAD": str(EMULATED)}
    environment |= {"TRIREME_EMULATED_GPUS": "1", "TRIREME_EMULATED_GPU_MEMORY": "512"}
    done = subprocess.run([sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_blocks_of_one_kind_are_measured_once():
    chain = hf.chain(config_of("gemma3_text", num_hidden_layers=6, layer_types=["sliding_attention"] * 5 + ["full_attention"]), 32)
    kinds = [recipe.kind for recipe in chain.recipes[1:-1]]
    assert len(set(kinds)) == 2 and kinds.count(kinds[0]) == 5 and kinds[5] != kinds[0]


# What is trained goes back.


@pytest.mark.parametrize("kind", ["gemma3_text", "mixtral"])
def test_what_is_trained_goes_back_into_a_model(kind, tmp_path):
    """The oracle is the run's own: training on from that model begins with the digest that the run ended with."""
    config = config_of_run(kind)
    model = model_of(config)
    run = trained("run", hf.chain(model, 32))
    before = {name: value.clone() for name, value in model.named_parameters()}
    hf.back_into(model, run)
    assert sorted(name for name, value in model.named_parameters() if torch.equal(value, before[name])) == []
    frozen = trained("again", hf.chain(model, 32), train={"optimizer": {"learning_rate": 1e-30, "weight_decay": 0.0}})
    assert frozen.parameters_digest == run.parameters_digest
    model.save_pretrained(tmp_path / "saved")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32)
    assert_equal(again, model)
    other = model_of(config, seed=9)
    hf.back_into(other, run.folder)
    assert_equal(other, model)


def assert_equal(one, other):
    values = dict(other.named_parameters())
    assert [name for name, value in one.named_parameters() if not torch.equal(value, values.pop(name))] == []
    assert not values


@pytest.mark.parametrize("kind", ["gemma3_text", "mixtral"])
def test_an_export_is_what_transformers_opens(kind, tmp_path):
    model = model_of(config_of_run(kind))
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model/tokenizer.json").write_text("{}")
    run = trained("run", hf.chain(tmp_path / "model", 32))
    hf.export(tmp_path / "model", run, tmp_path / "exported")
    hf.back_into(model, run)
    assert_equal(AutoModelForCausalLM.from_pretrained(tmp_path / "exported", dtype=torch.float32), model)
    assert (tmp_path / "exported/tokenizer.json").read_text() == "{}"
    with pytest.raises(trireme.InputError, match="exists already"):
        hf.export(tmp_path / "model", run, tmp_path / "exported")
    with pytest.raises(trireme.InputError, match="is in memory: use back_into"):
        hf.export(model, run, tmp_path / "other")


def test_refuses_weights_of_another_model():
    run = trained("run", hf.chain(config_of_run("llama"), 32))
    with pytest.raises(trireme.InputError, match=r"embedding.model.model.embed_tokens.weight has sizes \(64, 16\), but \(64, 32\) in"):
        hf.back_into(model_of(config_of("llama", vocab_size=64, hidden_size=16, num_hidden_layers=4)), run)
    with pytest.raises(trireme.InputError, match="has trained 9 tensors that these modules do not have"):
        hf.back_into(model_of(config_of("llama", vocab_size=64)), run)
    with pytest.raises(trireme.InputError, match="has not trained block4"):
        hf.back_into(model_of(config_of("llama", vocab_size=64, num_hidden_layers=5)), run)
    unsaved = trained("unsaved", hf.chain(config_of_run("llama"), 32), checkpoint={"every": 0})
    with pytest.raises(trireme.InputError, match=r"has no checkpoints: .*\(checkpoint.every\)"):
        hf.back_into(model_of(config_of_run("llama")), unsaved)


# LoRA by peft.


def lora():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    return lambda model: peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, task_type="CAUSAL_LM"))


def test_adapters_of_a_model_are_trained_and_opened_by_peft(tmp_path):
    add = lora()
    import peft

    model_of(config_of_run("llama")).save_pretrained(tmp_path / "model")
    base = lambda: AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    model = add(base())
    kept = trained("kept", hf.chain(model, 32), plan={"solver": "keep_all"})
    assert kept.figures["trained_parameters"] == sum(value.numel() for name, value in model.named_parameters() if "lora_" in name)
    half = trained("half", hf.chain(model, 32), memory={"device_budget": peak(kept) // 2, "host_budget": "1GiB"})
    assert digests(half) == digests(kept)
    hf.back_into(model, kept)
    assert_equal(base(), model.unload())
    model = add(base())
    hf.back_into(model, kept)
    model.save_pretrained(tmp_path / "adapters")
    again = peft.PeftModel.from_pretrained(base(), tmp_path / "adapters").eval()
    tokens, _ = tokens_of(config_of_run("llama"))
    assert torch.equal(again(tokens).logits, model.eval()(tokens).logits)
    assert not torch.equal(again(tokens).logits, base().eval()(tokens).logits)


def test_adapters_of_a_folder_are_drawn_in_the_run(tmp_path):
    model_of(config_of_run("llama")).save_pretrained(tmp_path / "model")
    add = lora()
    chain = hf.chain(tmp_path / "model", 32, prepare=add)
    values = built(chain)
    drawn = {name: value for name, value in values.items() if "lora_" in name}
    assert len(drawn) == 4 * 4
    assert all((value == 0).all() == ("lora_B" in name) for name, value in drawn.items())
    assert {name for name, value in values.items() if value.requires_grad} == drawn.keys()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    first = trained("first", chain)
    with pytest.raises(trireme.InputError, match=r"; what a run with prepare \(LoRA by peft\) has trained goes by back_into\(\)"):
        hf.export(tmp_path / "model", first, tmp_path / "exported")
    whole = trained("whole", hf.chain(model, 32), plan={"solver": "keep_all"})
    assert first.losses[0] == whole.losses[0]  # B is zero
    assert digests(trained("two", chain, pipeline={"stages": 2})) == digests(first)


def test_prepare_may_freeze_and_must_give_values(tmp_path):
    model_of(config_of_run("llama")).save_pretrained(tmp_path)

    def freeze(model):
        model.model.layers[:2].requires_grad_(False)

    names = [name for name, value in built(hf.chain(tmp_path, 32, prepare=freeze)).items() if not value.requires_grad]
    assert {name.split(".")[0] for name in names} == {"block0", "block1"}

    def add(model):
        model.lm_head.bias = nn.Parameter(torch.zeros(64, device="meta"))

    with pytest.raises(trireme.InputError, match="prepare has left model.lm_head.bias on meta, without values"):
        built(hf.chain(tmp_path, 32, prepare=add))
    with pytest.raises(trireme.InputError, match="prepare is for a folder or a config"):
        hf.chain(model_of(config_of_run("llama")), 32, prepare=freeze)


@pytest.mark.parametrize("kind", ["gemma3_text", "gpt2"])
@pytest.mark.parametrize("precision", ["bfloat16", "bfloat16_weights"])
def test_lower_precisions_give_one_digest_for_every_plan(kind, precision):
    chain = hf.chain(model_of(config_of_run(kind)), 32)
    kept = trained("kept", chain, plan={"solver": "keep_all"}, train={"precision": precision})
    less = trained("less", chain, train={"precision": precision}, memory={"device_budget": peak(kept) * 2 // 3, "host_budget": "1GiB"})
    assert digests(less) == digests(kept)


def test_masked_labels_have_no_loss():
    """All examples are one, so that a step's loss is that of the whole model on it."""
    model = model_of(config_of_run("llama"))
    tokens = torch.arange(33) % 60
    labels = torch.where(torch.arange(33) % 3 == 0, tokens, -100)
    run = trireme.train(job(steps=1), hf.chain(model, 32), data=[{"input_ids": tokens, "labels": labels}] * 16)
    whole = model(input_ids=tokens[None, :-1], labels=labels[None, 1:], shift_labels=labels[None, 1:])
    assert run.losses[0] == pytest.approx(whole.loss.item(), rel=1e-6)


def test_what_is_trained_goes_into_a_model_of_another_type():
    run = trained("run", hf.chain(config_of_run("gemma3_text"), 32))
    model, half = model_of(config_of_run("gemma3_text")), model_of(config_of_run("gemma3_text"), seed=9).bfloat16()
    hf.back_into(model, run)
    hf.back_into(half, run)
    assert_equal(half, model.bfloat16())
