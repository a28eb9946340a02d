#!/usr/bin/env python3
# Prints the logits that weights_test.cpp, and the most likely tokens that growing_text_test.cpp expects: Hugging Face's transformers (4.57 and 5.23 print the same) on models of
# made-up weights, and peft (0.21) on adapters for them. Needs Python's torch, transformers and peft; the test itself needs none.
import math

import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

SIZES = dict(vocab_size=16)
LLAMA = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32, **SIZES)


def rope(base, **scaling):
    if int(transformers.__version__.split(".")[0]) >= 5:
        return dict(rope_parameters={"rope_theta": base, "rope_type": "default", **scaling})
    return dict(rope_theta=base, rope_scaling=scaling or None)


MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=32, **SIZES)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(num_key_value_heads=1, rms_norm_eps=1e-5, **rope(100.0), **LLAMA)),
    "llama_tied_linear": lambda: LlamaForCausalLM(
        LlamaConfig(tie_word_embeddings=True, rms_norm_eps=1e-3, **rope(1000.0, rope_type="linear", factor=2.0), **LLAMA)),
    "llama3": lambda: LlamaForCausalLM(
        LlamaConfig(num_key_value_heads=2, rms_norm_eps=1e-5,
                    **rope(50.0, rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                           original_max_position_embeddings=16), **LLAMA)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(num_key_value_heads=1, rms_norm_eps=1e-6, **rope(200.0), **LLAMA)),
}

WITH_WINDOWS = {
    "mistral": lambda: MistralForCausalLM(MistralConfig(num_key_value_heads=1, rms_norm_eps=1e-5, sliding_window=5, **rope(100.0), **LLAMA)),
    "qwen2_windows": lambda: Qwen2ForCausalLM(Qwen2Config(num_key_value_heads=1, rms_norm_eps=1e-6, use_sliding_window=True, sliding_window=4,
                                                          max_window_layers=1, **rope(200.0), **LLAMA)),
}

MORE = dict(num_key_value_heads=1, pad_token_id=None, **LLAMA)
FAMILIES = {
    "qwen3": dict(head_dim=12, **rope(200.0)),
    "olmo2": rope(100.0),
    "granite": dict(embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=1.5, **rope(100.0)),
    "smollm3": dict(no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=5, tie_word_embeddings=False, **rope(100.0)),
    "phi3": dict(rope_parameters={"rope_theta": 100.0, "rope_type": "default", "partial_rotary_factor": 0.5}, sliding_window=5),
    "gemma": dict(head_dim=12, **rope(100.0)),
    "gemma2": dict(head_dim=12, query_pre_attn_scalar=10, sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=1.5, **rope(100.0)),
    "gemma3_text": dict(head_dim=12, query_pre_attn_scalar=10, sliding_window=5, sliding_window_pattern=2,
                        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 100.0},
                                         "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}),
}

ADAPTERS = {
    "gpt2": LoraConfig(r=3, lora_alpha=6, target_modules=["attn.c_attn", "mlp.c_proj"], fan_in_fan_out=True),
    "llama": LoraConfig(r=2, lora_alpha=5, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"]),
}


def make_up(parameters):
    for key, value in parameters:
        phase = sum(key.encode()) % 97
        numbers = [0.4 * math.sin(0.7 * i + phase) for i in range(value.numel())]
        around = 1.0 if value.dim() == 1 and key.endswith("weight") else 0.0
        value.copy_(torch.tensor(numbers, dtype=torch.double).reshape(value.shape) + around)


def say(name, model):
    tokens = torch.tensor([[(7 * i + 3) % 16 for i in range(12)]])
    print(name, [round(x, 5) for x in model(tokens).logits[0, -1].tolist()])


def go_on(name, model):
    tokens = torch.tensor([[(7 * i + 3) % 16 for i in range(12)]])
    found = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=16, eos_token_id=None, pad_token_id=0)
    print(name, "goes on with", found[0, 12:].tolist())


with torch.no_grad():
    for name, make in (MODELS | WITH_WINDOWS).items():
        model = make().eval().double()
        make_up(model.named_parameters())
        go_on(name, model)
    for name, words in FAMILIES.items():
        config = transformers.AutoConfig.for_model(name, **{**MORE, **words})
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().double()
        make_up(model.named_parameters())
        say(name, model)
    for name, make in MODELS.items():
        model = make().eval().double()
        make_up(model.named_parameters())
        say(name, model)
        if name in ADAPTERS:
            tuned = get_peft_model(model, ADAPTERS[name]).eval().double()
            make_up((key.replace(".default", ""), value) for key, value in tuned.named_parameters() if "lora" in key)
            say(name + " with adapters", tuned)
