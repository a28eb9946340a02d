"""Tiny decoders of transformers, one of each architecture: what its config has beside or instead of SIZES."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
HEADS = dict(head_dim=8)
WINDOW = dict(sliding_window=8)
EXPERTS = dict(num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
               n_group=1, topk_group=1, first_k_dense_replace=1)  # fmt: skip
LATENT = dict(q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, num_key_value_heads=4)
STATES = dict(mamba_d_state=4, mamba_n_heads=4)
DELTA = dict(HEADS, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, num_hidden_layers=4)
OLD = dict(n_embd=32, n_layer=3, n_head=4, rotary_dim=4, n_positions=64)

ARCHITECTURES = {
    "afmoe": dict(EXPERTS, **HEADS, **WINDOW),
    "apertus": {},
    "arcee": {},
    "bamba": dict(STATES, mamba_d_head=16),
    "biogpt": {},
    "bitnet": {},
    "bloom": dict(n_head=4),
    "codegen": OLD,
    "cohere": {},
    "cohere2": WINDOW,
    "ctrl": {},
    "cwm": dict(HEADS, **WINDOW),
    "deepseek_v2": {**EXPERTS, **LATENT},
    "deepseek_v3": {**EXPERTS, **LATENT},
    "diffllama": {},
    "doge": {},
    "ernie4_5": HEADS,
    "ernie4_5_moe": dict(EXPERTS, moe_num_experts=4, moe_k=2),
    "exaone4": WINDOW,
    "exaone_moe": dict(EXPERTS, **HEADS, **WINDOW),
    "falcon": dict(num_kv_heads=2),
    "falcon_h1": dict(mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=4, mamba_n_groups=1),
    "flex_olmo": EXPERTS,
    "gemma": HEADS,
    "gemma2": dict(HEADS, **WINDOW),
    "gemma3_text": dict(HEADS, **WINDOW, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "glm": HEADS,
    "glm4": HEADS,
    "glm4_moe": dict(EXPERTS, **HEADS),
    "glm4_moe_lite": {**EXPERTS, **LATENT},
    "gpt2": {},
    "gpt_bigcode": {},
    "gpt_neo": dict(attention_types=[[["global", "local"], 2]], num_hidden_layers=4, num_layers=4, num_heads=4),
    "gpt_neox": dict(num_key_value_heads=4),
    "gpt_neox_japanese": {},
    "gpt_oss": dict(HEADS, **WINDOW, num_local_experts=4, num_experts_per_tok=2),
    "gptj": OLD,
    "granite": {},
    "granitemoe": EXPERTS,
    "granitemoehybrid": dict(EXPERTS, **STATES, shared_intermediate_size=16),
    "granitemoeshared": dict(EXPERTS, shared_intermediate_size=16),
    "helium": HEADS,
    "hunyuan_v1_dense": HEADS,
    "hunyuan_v1_moe": dict(HEADS, num_experts=4, num_local_experts=4, moe_topk=2),
    "hy_v3": dict(EXPERTS, **HEADS),
    "jais2": {},
    "jamba": dict(EXPERTS, mamba_d_state=4),
    "jetmoe": dict(EXPERTS, kv_channels=8),
    "lfm2": {},
    "llama": {},
    "llama4_text": dict(EXPERTS, **HEADS, intermediate_size_mlp=48),
    "mamba": dict(state_size=4),
    "mamba2": dict(num_heads=4, head_dim=16, state_size=4, n_groups=1, expand=2),
    "minimax": dict(EXPERTS, **HEADS),
    "minimax_m2": dict(EXPERTS, **HEADS),
    "ministral3": HEADS,
    "mistral": WINDOW,
    "mixtral": EXPERTS,
    "mpt": dict(d_model=32, n_heads=4, n_layers=3, max_seq_len=64),
    "nanochat": {},
    "nemotron": {},
    "nemotron_h": {},
    "olmo": {},
    "olmo2": {},
    "olmo3": WINDOW,
    "olmo_hybrid": {},
    "olmoe": EXPERTS,
    "openai-gpt": {},
    "opt": dict(ffn_dim=48, word_embed_proj_dim=32),
    "persimmon": {},
    "phi": {},
    "phi3": {},
    "phimoe": dict(EXPERTS, router_jitter_noise=0.0, input_jitter_noise=0.0),
    "qwen2": {},
    "qwen2_moe": dict(EXPERTS, shared_expert_intermediate_size=16),
    "qwen3": HEADS,
    "qwen3_5_text": DELTA,
    "qwen3_moe": dict(EXPERTS, **HEADS),
    "qwen3_next": dict(EXPERTS, **DELTA, shared_expert_intermediate_size=16),
    "seed_oss": HEADS,
    "smollm3": {},
    "solar_open": dict(EXPERTS, **HEADS),
    "stablelm": {},
    "starcoder2": {},
    "vaultgemma": dict(HEADS, **WINDOW),
    "xglm": dict(d_model=32, ffn_dim=48, num_layers=3, attention_heads=4),
    "xlstm": dict(num_heads=4),
    "youtu": LATENT,
}


def config_of(kind, dropout=0.0, **more):
    """A tiny config, whose every rate of dropout is this one."""
    config = AutoConfig.for_model(kind, **{**SIZES, **ARCHITECTURES.get(kind, {}), **more})
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, (int, float)) and not isinstance(value, bool):
            setattr(config, key, 0.0 if "layer" in key else dropout)
    return config


def model_of(config, seed=3):
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).train()
