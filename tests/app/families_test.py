"""Families of decoders against Hugging Face's transformers: a small model of each, with random weights, is written by transformers, trained here and there by
AdamW on the same documents, exported, and opened by transformers again. Losses and weights are compared; what is opened has the same logits, with the same
weights, to the last bit. Documents that are packed here, and isolated, have the losses of unpacked ones there. Adapters that are trained here are opened by peft. Usage: families_test.py TRIREME [CASE...].
TRIREME_PYTHON_PATH names folders with torch and transformers, as for tests/python/run. Where torch or transformers (5 or newer) is missing, it exits with 77; without peft, adapters are left out.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77
sys.path[:0] = filter(None, os.environ.get("TRIREME_PYTHON_PATH", "").split(":"))
try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)
if int(transformers.__version__.split(".")[0]) < 5:
    print(f"skipped: transformers are {transformers.__version__}, must be 5 or newer")
    sys.exit(SKIPPED)
try:
    import peft
except ImportError:
    peft = None
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

# With a smaller epsilon AdamW makes much of the rounding of small gradients: transformers in float32 and in float64 are then further apart than CLOSE.
STEPS, CONTEXT, RATE, DECAY, BETAS, EPSILON = 20, 24, 2e-3, 0.1, (0.9, 0.95), 1e-4
CLOSE = 1e-5
VOCABULARY = 96
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, initializer_range=0.1, pad_token_id=None, bos_token_id=None, eos_token_id=None)
YARN = dict(rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=3.0, beta_slow=0.5)
BY_LAYER = {"full_attention": dict(rope_type="linear", rope_theta=1000.0, factor=2.0), "sliding_attention": dict(rope_type="default", rope_theta=100.0)}
WINDOW = dict(use_sliding_window=True, sliding_window=7)

# Every part that a family has is changed from its default by one of its cases.
CASES = {
    "llama": dict(model_type="llama", attention_bias=True, mlp_bias=True, head_dim=10),
    "llama_yarn": dict(model_type="llama", rope_parameters=YARN),
    "mistral": dict(model_type="mistral", sliding_window=7),
    "qwen2": dict(model_type="qwen2", max_window_layers=2, **WINDOW),
    "qwen3": dict(model_type="qwen3", head_dim=12, tie_word_embeddings=True),
    "qwen3_windows": dict(model_type="qwen3", head_dim=8, attention_bias=True, max_window_layers=1, **WINDOW),
    "olmo2": dict(model_type="olmo2"),
    "granite": dict(model_type="granite", embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=1.5, mlp_bias=True,
                    tie_word_embeddings=True),
    "smollm3": dict(model_type="smollm3", no_rope_layer_interval=2),
    "smollm3_windows": dict(model_type="smollm3", no_rope_layers=[1, 0, 0, 1], **WINDOW),
    "phi3": dict(model_type="phi3", rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)),
    "phi3_window": dict(model_type="phi3", sliding_window=7),
    "gemma": dict(model_type="gemma", head_dim=16),
    "gemma2": dict(model_type="gemma2", head_dim=16, query_pre_attn_scalar=10, sliding_window=7, attn_logit_softcapping=2.0, final_logit_softcapping=1.5),
    "gemma2_uncapped": dict(model_type="gemma2", head_dim=8, sliding_window=7, attn_logit_softcapping=None, final_logit_softcapping=None),
    "gemma3": dict(model_type="gemma3_text", head_dim=16, query_pre_attn_scalar=10, sliding_window=7, sliding_window_pattern=2, rope_parameters=BY_LAYER),
}


def made(case):
    """A model with weights none of which is a zero or a one, in float32."""
    words = dict(CASES[case])
    torch.manual_seed(sum(case.encode()))
    config = transformers.AutoConfig.for_model(words.pop("model_type"), **{**SIZES, **words})
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() == 1:
                value.add_(0.2 * torch.randn_like(value))
    return model.train()


def documents(sizes=(CONTEXT + 1, CONTEXT + 1, 20, 11)):
    """Texts of these lengths, all of whose tokens but the first are learned."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(VOCABULARY, (size,), generator=generator) for size in sizes]


def write_documents(texts, file):
    """As docs/models.md describes the file."""
    ends, tokens = [], []
    for text in texts:
        tokens += [int(token) | 1 << 31 for token in text]
        ends.append(len(tokens))
    file.write_bytes(b"trireme-tokens/1" + struct.pack("<QQ", len(ends), len(tokens)) + bytes(32) + struct.pack(f"<{len(ends)}Q", *ends) +
                     struct.pack(f"<{len(tokens)}I", *tokens))


def trained_there(model, texts):
    """Losses of the steps, before each."""
    inputs = torch.zeros(len(texts), CONTEXT, dtype=torch.long)
    targets = torch.full_like(inputs, -100)
    for row, text in enumerate(texts):
        inputs[row, : min(len(text), CONTEXT)] = text[:CONTEXT]
        targets[row, : len(text) - 1] = text[1:]
    parameters = list(model.parameters())
    groups = [dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=DECAY), dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    losses = []
    for _ in range(STEPS):
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(*command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")


def train(trireme, folder, name, model, rows=4, micro_batch=2, data="files: [{}/texts.documents]"):
    """Trains on documents of the folder, `rows` rows, from its weights, into FOLDER/NAME."""
    job = folder / f"{name}.yaml"
    job.write_text(f"""
model: {{weights: {folder / "origin"}, context: {CONTEXT}, {model}}}
data: {{kind: documents, {data.format(folder)}, validation_fraction: 0}}
train:
  steps: {STEPS}
  batch: {rows}
  micro_batch: {micro_batch}
  clip_norm: 0
  validate_every: 0
  optimizer: {{kind: adamw, learning_rate: {RATE}, weight_decay: {DECAY}, betas: [{BETAS[0]}, {BETAS[1]}], epsilon: {EPSILON}}}
  schedule: {{kind: constant}}
threads: 1
checkpoint: {{every: {STEPS}}}
report: {{directory: {folder / name}, log_every: 1, tensorboard: false, html: false}}
""")
    run(trireme, "train", job)


def losses_of(folder):
    losses = [json.loads(line).get("train_loss") for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [loss for loss in losses if loss is not None]


def opened(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    left = {kind: names for kind, names in info.items() if names}
    assert not left, f"transformers open the exported folder with {left}"
    return model


def logits_of(model, text):
    with torch.no_grad():
        return model.eval()(input_ids=text[None]).logits


def difference(here, there):
    return max((a - b).abs().max().item() for a, b in zip(here, there, strict=True))


def compare(trireme, folder, case, grain):
    """The largest differences of losses and weights."""
    model, texts = made(case), documents()
    model.save_pretrained(folder / "origin")
    write_documents(texts, folder / "texts.documents")
    train(trireme, folder, "run", f"grain: {grain}")
    run(trireme, "export", folder / "run", "-o", folder / "out")
    there = trained_there(model, texts)
    fall = there[0] - there[-1]
    assert fall > 0.1, f"the losses fall by {fall}: too little to tell models apart"
    out = opened(folder / "out")
    assert type(out) is type(model), f"it is opened as a {type(out).__name__}"
    apart = (difference(map(torch.tensor, losses_of(folder / "run")), map(torch.tensor, there)),
             difference(out.state_dict().values(), model.state_dict().values()))
    out.load_state_dict(model.state_dict())
    assert torch.equal(logits_of(out, texts[0]), logits_of(model, texts[0])), "what is exported is another model with the same weights"
    return apart


def compare_packed(trireme, folder, case):
    """The largest difference of losses: of packed documents here, of each in a row of its own there."""
    texts = documents((CONTEXT + 1, 14, 11, 10, 8, 6))  # the first fills a row, the next two another, the last three all of the third but a token
    write_documents(texts, folder / "short.documents")
    train(trireme, folder, "packed", "grain: fine", rows=3, micro_batch=1, data="files: [{}/short.documents], packed: true")
    return difference(map(torch.tensor, losses_of(folder / "packed")), map(torch.tensor, trained_there(made(case), texts)))


def compare_adapters(trireme, folder):
    """The largest difference of logits: of adapters in peft, and of the model that they were merged into."""
    text = documents()[0]
    train(trireme, folder, "tune", "lora_rank: 3, lora_alpha: 9")
    run(trireme, "export", folder / "tune", "-o", folder / "merged")
    run(trireme, "export", folder / "tune", "-o", folder / "adapters", "--adapters")
    merged, origin = opened(folder / "merged"), opened(folder / "origin")
    before = logits_of(origin, text)
    tuned = peft.PeftModel.from_pretrained(origin, folder / "adapters")
    assert difference([logits_of(tuned, text)], [before]) > 0.01, "the adapters change nothing"
    return difference([logits_of(tuned, text)], [logits_of(merged, text)])


def main():
    trireme, *cases = sys.argv[1:]
    torch.set_num_threads(1)
    failed = 0
    print(f"{'':18}losses  weights  packed  adapters   (largest differences, must be at most {CLOSE:g})")
    for number, case in enumerate(cases or CASES):
        grain = ("half_block", "fine", "block")[number % 3]
        try:
            with tempfile.TemporaryDirectory() as path:
                program, folder = pathlib.Path(trireme).absolute(), pathlib.Path(path)
                found = compare(program, folder, case, grain) + (compare_packed(program, folder, case),)
                if peft:
                    found += (compare_adapters(program, folder),)
            is_close = max(found) <= CLOSE
            print(f"{case:16}  " + "   ".join(f"{each:.0e}" for each in found) + ("" if is_close else "   TOO LARGE"), flush=True)
        except AssertionError as error:
            is_close = False
            print(f"{case:16}  {error}", flush=True)
        failed += not is_close
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
