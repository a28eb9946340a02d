"""Decoders of transformers as chains. The oracle is the whole model, run by transformers."""

import json

import pytest
import torch
from torch import nn

import trireme

transformers = pytest.importorskip("transformers", minversion="5", reason="transformers 5 or newer is not installed")

from decoders import ARCHITECTURES, config_of, model_of  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from trireme import hf  # noqa: E402

CONTEXT = 16
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def table(request):
    """Lines that are printed when all architectures have been compared."""
    lines = []
    yield lines
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", f"{'architecture':20} {'layers':>6} {'weights':>7} {'loss':>8}  equal to the last bit", *lines, sep="\n", flush=True)


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
    layers = [recipe.build(0).train() for recipe in chain.recipes]
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
    small = dict(vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    refused(transformers.BertLMHeadModel(transformers.BertConfig(**small)), "BertLMHeadModel cannot be cut into layers: its loss fails")
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
    return {f"{recipe.name}.{name}": value for recipe in chain.recipes for name, value in recipe.build(0, tie_seed=5).named_parameters()}


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
    layers = [recipe.build(0) for recipe in chain.recipes]
    for layer in layers[:-1]:
        value = layer(value)
    return layers[-1](value, target).detach()


def test_a_layer_reads_files_of_its_own_alone(tmp_path):
    model = model_of(config_of("llama", num_hidden_layers=2))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    chain = hf.chain(tmp_path, CONTEXT)
    files = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    own = {file for tensor, file in files.items() if ".layers.1." in tensor}
    for file in set(files.values()) - own:
        (tmp_path / file).unlink()
    values = dict(chain.recipes[2].build(0).named_parameters())
    assert torch.equal(values["block.mlp.up_proj.weight"], model.model.layers[1].mlp.up_proj.weight)
    with pytest.raises(Exception, match="No such file"):
        chain.recipes[1].build(0)


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
        (lambda folder: transformers.T5Config().save_pretrained(folder), "Only decoders with a head for tokens are chains"),
        (lambda folder: cut_short(folder / "model.safetensors"), "the file is damaged or cut off"),
    ],
)
def test_refuses_a_folder_of_another_model(change, words, tmp_path):
    model_of(config_of("llama")).save_pretrained(tmp_path)
    change(tmp_path)
    with pytest.raises(trireme.InputError) as caught:
        built(hf.chain(tmp_path, CONTEXT))
    assert words in str(caught.value)


def cut_short(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_refuses_examples_longer_than_a_model_has_positions(kind):
    model = model_of(config_of(kind, max_position_embeddings=CONTEXT - 1))
    words = f"an example has {CONTEXT} tokens, .*max_position_embeddings is {CONTEXT - 1}"
    with pytest.raises(trireme.InputError, match=words):
        hf.chain(model, CONTEXT)
    with pytest.raises(trireme.InputError, match=words):
        hf.chain(model, self_test=False).sized((CONTEXT,))


def config_with(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_refuses_a_tied_weight_of_two_values(tmp_path):
    model = model_of(config_of("llama", tie_word_embeddings=False))
    model.save_pretrained(tmp_path)
    config_with(tmp_path, tie_word_embeddings=True)
    with pytest.raises(trireme.InputError, match="are one weight of LlamaForCausalLM, and have different values"):
        built(hf.chain(tmp_path, CONTEXT))
