"""Decoders of transformers as chains. The oracle is the whole model, run by transformers."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import Tokens, digests, job, peak, plan_text, summary_in
from torch import nn

import trireme

transformers = pytest.importorskip("transformers", minversion="5", reason="transformers 5 or newer is not installed")

from decoders import ARCHITECTURES, SIZES, config_of, model_of  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from trireme import hf  # noqa: E402

HERE = pathlib.Path(__file__).parent
CONTEXT = 16
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def table(request):
    """Lines that are printed when all architectures have been compared."""
    lines = []
    yield lines
    writer = request.config.pluginmanager.getplugin("terminalreporter")
    for line in ["", f"{'architecture':20} {'layers':>6} {'weights':>7} {'loss':>8}  equal to the last bit", *lines]:
        writer.write_line(line)


def tokens_of(config, batch=2, context=CONTEXT):
    generator = torch.Generator().manual_seed(4)
    return torch.randint(3, config.get_text_config().vocab_size - 1, (2, batch, context), generator=generator)


def whole_step(model, tokens, target):
    """Loss of the whole model, and its gradients by parameter."""
    loss = model(input_ids=tokens, labels=target, shift_labels=target, use_cache=False).loss
    loss.backward()
    gradients = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad(set_to_none=True)
    return loss.detach(), gradients


def chain_step(chain, model, tokens, target):
    """The same of a chain's layers, built as for a run, each with a graph of its own."""
    layers = [recipe.build().train() for recipe in chain.recipes]
    value, tapes = tokens, []
    for layer in layers[:-1]:
        leaf = value.detach().requires_grad_(value.is_floating_point())
        value = layer(leaf)
        tapes.append((leaf, value))
    leaf = value.detach().requires_grad_()
    loss = layers[-1](leaf, target)
    loss.backward()
    gradient = leaf.grad
    for leaf, value in reversed(tapes):
        value.backward(gradient)
        gradient = leaf.grad
    names = {id(value): name for name, value in model.named_parameters()}
    gradients = {}
    for layer, like in zip(reversed(layers), reversed(chain.named_layers().values())):
        for built, looked_at in zip(layer.parameters(), like.parameters()):
            if built.grad is not None:
                name = names[id(looked_at)]
                gradients[name] = gradients[name] + built.grad if name in gradients else built.grad
    return loss.detach(), gradients


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_loss_and_gradients_are_those_of_the_whole_model(kind, table):
    model = model_of(config_of(kind))
    tokens, target = tokens_of(model.config)
    loss, gradients = whole_step(model, tokens, target)
    chain = hf.chain(model, CONTEXT)
    loss_of_chain, gradients_of_chain = chain_step(chain, model, tokens, target)
    unlike = [name for name in {**gradients, **gradients_of_chain} if not equal(gradients.get(name), gradients_of_chain.get(name))]
    is_equal = torch.equal(loss, loss_of_chain) and not unlike
    table.append(f"{kind:20} {len(chain):6} {len(gradients):7} {loss.item():8.5f}  {'yes' if is_equal else f'no: {unlike[:3]}'}")
    assert torch.equal(loss, loss_of_chain)
    assert unlike == []


def equal(one, other):
    return one is not None and other is not None and torch.equal(one, other)


# What is refused.


class Odd(transformers.PreTrainedModel):
    """A decoder that does one thing by which it is no chain."""

    config_class = transformers.LlamaConfig

    def __init__(self, config, way):
        super().__init__(config)
        width = config.hidden_size
        self.way = way
        self.embedding, self.head = nn.Embedding(config.vocab_size, width), nn.Linear(width, config.vocab_size)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(config.num_hidden_layers))
        self.others = nn.ModuleList(nn.Linear(width, width) for _ in range(config.num_hidden_layers if way == "two lists" else 0))
        self.norm = nn.LayerNorm(width)
        if way == "around":
            self.scale = nn.Parameter(torch.ones(width))
        if way == "shared":
            self.blocks[1] = self.blocks[0]
        self.post_init()

    def get_input_embeddings(self):
        return self.embedding

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids=None, inputs_embeds=None, labels=None, shift_labels=None, **kwargs):
        hidden = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        hidden = self.norm(hidden) if self.way == "norm twice" else hidden
        for block in self.blocks[: -1 if self.way == "left out" else None]:
            first, hidden = hidden, block(hidden)
            hidden = self.norm(hidden) if self.way == "amid" else hidden + 1 if self.way == "changed" else hidden
        logits = self.head(self.norm(hidden + first if self.way == "skip" else hidden))
        if input_ids is not None and self.way == "other gradient":
            logits = logits / 2 + logits.detach() / 2
        loss = self.loss_of(logits, labels, shift_labels)
        if input_ids is not None and self.way == "other loss":
            loss = None if loss is None else loss * 2
        return transformers.modeling_outputs.CausalLMOutput(loss=loss, logits=logits)

    def loss_of(self, logits, labels, shifted):
        if labels is None:
            return None
        if self.way == "unshifted":
            return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return nn.functional.cross_entropy(logits.flatten(0, 1), shifted.flatten())


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("two lists", "has 2 module lists of config.num_hidden_layers (3) blocks (blocks, others)"),
        ("around", "its outermost module has weights of its own (scale) around the blocks"),
        ("shared", "blocks of blocks are one and the same module"),
        ("left out", "not all of its blocks run"),
        ("amid", "norm runs between blocks"),
        ("changed", "what a block gives is not what the next one is given"),
        ("skip", "what follows the blocks depends on more than the last one's hidden states"),
        ("unshifted", "its loss shifts labels by itself and does not take shift_labels"),
    ],
)
def test_refuses_a_decoder_that_is_no_chain(way, words):
    refused(Odd(config_of("llama"), way), "Odd cannot be cut into layers: ", words)


def test_a_module_that_runs_before_and_after_the_blocks_is_one_weight_of_both_layers():
    model = Odd(config_of("llama"), "norm twice")
    tokens, target = tokens_of(model.config)
    chain = hf.chain(model, CONTEXT)
    assert sorted(chain.recipes[0].ties) == sorted(chain.recipes[-1].ties) == ["model.norm.bias", "model.norm.weight"]
    loss, gradients = whole_step(model, tokens, target)
    loss_of_chain, gradients_of_chain = chain_step(chain, model, tokens, target)
    assert torch.equal(loss, loss_of_chain)
    assert all(torch.equal(gradients[name], gradients_of_chain[name]) for name in gradients)


def refused(model, *words, **more):
    with pytest.raises(trireme.InputError) as caught:
        hf.chain(model, CONTEXT, **more)
    for each in words:
        assert each in str(caught.value)


SECOND_STREAM = dict(head_dim=8, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2,
                     vocab_size_per_layer_input=97, hidden_size_per_layer_input=8, sliding_window=8, laurel_rank=4,
                     activation_sparsity_pattern=[0.0] * 4, intermediate_size=[48] * 4)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("gemma3n_text", SECOND_STREAM, "Gemma3nForCausalLM cannot be cut into layers: argument 2 of block 0 depends on tokens or embeddings: a second stream"),
        ("mixtral", dict(output_router_logits=True), "config.output_router_logits is true, which adds a loss of all blocks' routers"),
        ("opt", dict(layerdrop=0.1), "config.layerdrop is 0.1, by which whole blocks are left out at random"),
        ("gpt2", dict(add_cross_attention=True), "config.add_cross_attention is true"),
        ("recurrent_gemma", dict(head_dim=8, lru_width=32), "keeps recurrent_states from one call to the next"),
        ("rwkv", dict(attention_hidden_size=32), "RwkvForCausalLM cannot be cut into layers: its forward fails on hidden states without weights (AttributeError"),
    ],
)
def test_refuses_an_architecture_by_name(kind, more, words):
    config = config_of(kind, **more)
    for key, value in more.items():
        setattr(config, key, value)
    refused(model_of(config), words)


def test_refuses_what_is_no_decoder():
    refused(nn.Linear(2, 2), "Linear cannot be cut into layers: it has no config of transformers")
    refused(transformers.LlamaModel(config_of("llama")), "LlamaModel cannot be cut", "no head that gives logits", "AutoModelForCausalLM")
    encoder = transformers.T5Config(d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, vocab_size=32)
    refused(transformers.T5ForConditionalGeneration(encoder), "it is an encoder with a decoder")
    refused(3, "model is a int, must be a model of transformers, a config, or a folder")
    refused("no/such-model", "has no config.json", "hf download")


@pytest.mark.parametrize(("way", "words"), [("other loss", "on random tokens its loss is "), ("other gradient", "on random tokens the chain's gradient of ")])
def test_the_self_test_finds_a_chain_that_computes_something_else(way, words):
    model = Odd(config_of("llama"), way)
    refused(model, words)
    assert len(hf.chain(model, CONTEXT, self_test=False)) == 5


def test_the_self_test_leaves_a_model_as_it_is():
    model = model_of(config_of("gpt2", dropout=0.1))
    generator = torch.random.get_rng_state()
    hf.chain(model, CONTEXT, self_test=True)
    assert model.training and all(part.training for part in model.modules())
    assert all(value.grad is None for value in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), generator)


# Where weights come from.


def built(chain):
    """Parameters of all layers as a run begins with them, by layer."""
    torch.manual_seed(11)
    return {f"{recipe.name}.{name}": value for recipe in chain.recipes for name, value in recipe.build(tie_seed=5).named_parameters()}


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt2", "mixtral", "deepseek_v3", "bloom", "mamba"])
@pytest.mark.parametrize("largest", ["1GB", "20KB"])
def test_a_folder_gives_the_values_of_its_model(kind, largest, tmp_path):
    """In one file, or in several with an index; some architectures have other names and sizes in files than in memory."""
    model = model_of(config_of(kind))
    model.save_pretrained(tmp_path / "model", max_shard_size=largest)
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > (largest == "20KB")
    chain = hf.chain(tmp_path / "model", CONTEXT)
    assert all(value.is_meta for layer in chain.named_layers().values() for value in layer.parameters())
    found, expected = built(chain), built(hf.chain(model, CONTEXT))
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []
    tokens, target = tokens_of(model.config)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32).train()
    assert torch.equal(chain_step_of(chain, tokens, target), whole_step(again, tokens, target)[0])


def chain_step_of(chain, tokens, target):
    """Loss of a chain's layers."""
    value = tokens
    layers = [recipe.build() for recipe in chain.recipes]
    for layer in layers[:-1]:
        value = layer(value)
    return layers[-1](value, target).detach()


def test_a_layer_reads_files_of_its_own_alone(tmp_path):
    model = model_of(config_of("llama", num_hidden_layers=2))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    chain = hf.chain(tmp_path, CONTEXT)
    files = transformers.utils.hub.json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    own = {file for tensor, file in files.items() if ".layers.1." in tensor}
    for file in set(files.values()) - own:
        (tmp_path / file).unlink()
    values = dict(chain.recipes[2].build().named_parameters())
    assert torch.equal(values["block.mlp.up_proj.weight"], model.model.layers[1].mlp.up_proj.weight)
    with pytest.raises(Exception, match="No such file"):
        chain.recipes[1].build()


def test_a_config_gives_values_as_transformers_draws_them():
    config = config_of("gemma3_text", initializer_range=0.3)
    chain = hf.chain(config, CONTEXT)
    assert all(value.is_meta for layer in chain.named_layers().values() for value in layer.parameters())
    values = built(chain)
    assert values.keys() == built(hf.chain(model_of(config), CONTEXT)).keys()
    block = {name: value for name, value in values.items() if name.startswith("block0")}
    assert abs(block["block0.block.mlp.up_proj.weight"].std() - 0.3) < 0.03
    assert torch.equal(block["block0.block.input_layernorm.weight"], torch.zeros(32))  # gemma's norms scale by 1 + weight
    assert not torch.equal(block["block0.block.mlp.up_proj.weight"], values["block1.block.mlp.up_proj.weight"])
    tied = [value for name, value in values.items() if "embed_tokens" in name or "lm_head" in name]
    assert len(tied) == 2 and torch.equal(*tied)
    assert tied[0].std() > 0.2
    assert chain.recipes[0].ties == {name: "embedding/model.model.embed_tokens.weight" for name in chain.recipes[0].ties} != {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "has neither model.safetensors nor model.safetensors.index.json"),
        (lambda folder: config_with(folder, num_hidden_layers=5), "has no values for 9 weights (model.layers.3."),
        (lambda folder: config_with(folder, intermediate_size=64), "has sizes (48, 32), must have (64, 32)"),
        (lambda folder: config_with(folder, quantization_config={"quant_method": "fp8"}), "its weights are quantized"),
    ],
)
def test_refuses_a_folder_of_another_model(change, words, tmp_path):
    model_of(config_of("llama")).save_pretrained(tmp_path)
    change(tmp_path)
    with pytest.raises(trireme.InputError) as caught:
        built(hf.chain(tmp_path, CONTEXT))
    assert words in str(caught.value)


def config_with(folder, **changes):
    json = transformers.utils.hub.json
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_refuses_a_tied_weight_of_two_values(tmp_path):
    model = model_of(config_of("llama", tie_word_embeddings=False))
    model.save_pretrained(tmp_path)
    config_with(tmp_path, tie_word_embeddings=True)
    with pytest.raises(trireme.InputError, match="are one weight of LlamaForCausalLM, and have different values"):
        built(hf.chain(tmp_path, CONTEXT))


# Whole runs.


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


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_two_ranks_of_mpirun_within_half_of_the_memory_give_the_same_digests(tmp_path):
    """Each rank reads its own layers of a folder; the tied weight is on both."""
    model_of(config_of_run("gemma3_text")).save_pretrained(tmp_path / "model")
    kept = trained("kept", hf.chain(tmp_path / "model", 32), plan={"solver": "keep_all"})
    script = tmp_path / "train.py"
    script.write_text(
        "from test_hf import hf, trained\n"
        f"memory = {{'device_budget': {peak(kept) // 2}, 'host_budget': '1GiB'}}\n"
        f"trained('ranks', hf.chain({str(tmp_path / 'model')!r}, 32), memory=memory)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "2", sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True
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
        "from test_hf import config_of_run, digests, hf, model_of, trained\n"
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
