// SPDX-License-Identifier: Apache-2.0
#include "other_names.h"

#include "built_in.h"
#include "key_list.h"
#include "sections.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trireme::config {
namespace {

struct OtherNames {
  std::string_view ours;    ///< a full key, or a word
  std::string_view theirs;  ///< lower case, separated by spaces
};

constexpr auto kKeys = std::to_array<OtherNames>({
    {"model.width", "hidden_size n_embd d_model embedding_dim embed_dim dim hidden_dim"},
    {"model.blocks", "num_layers n_layer n_layers num_hidden_layers layers depth num_blocks"},
    {"model.heads", "num_attention_heads n_head n_heads num_heads nhead attention_heads"},
    {"model.kv_heads", "num_key_value_heads num_kv_heads n_kv_heads num_query_groups"},
    {"model.hidden", "intermediate_size ffn_hidden_size ffn_dim d_ff n_inner"},
    {"model.context",
     "seq_length seq_len sequence_length max_seq_len max_seq_length max_length block_size n_ctx "
     "context_length max_position_embeddings"},
    {"model.vocabulary", "vocab_size vocab padded_vocab_size n_vocab"},
    {"model.tied_head", "tie_word_embeddings tie_embeddings tied_embeddings"},
    {"model.norm_epsilon", "layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps"},
    {"model.rope_base", "rope_theta rotary_base"},
    {"model.dropout", "hidden_dropout attention_dropout dropout_p resid_pdrop"},
    {"model.lora_rank", "lora_r r rank"},
    {"model.lora_targets", "target_modules lora_target_modules"},
    {"model.weights", "model_name_or_path pretrained checkpoint_path init_from"},
    {"model.classes", "num_classes num_labels n_classes"},
    {"model.patch", "patch_size"},
    {"data.files", "data_path data_files dataset train_file data_dir train_data"},
    {"train.optimizer.learning_rate", "lr max_lr base_lr"},
    {"train.optimizer.weight_decay", "wd"},
    {"train.optimizer.betas", "beta1 beta2 adam_beta1 adam_beta2"},
    {"train.optimizer.epsilon", "eps adam_epsilon adam_eps"},
    {"train.optimizer.kind", "optim optimizer_type"},
    {"train.schedule.kind", "lr_scheduler lr_scheduler_type scheduler lr_decay_style lr_schedule"},
    {"train.schedule.warmup_steps", "warmup num_warmup_steps warmup_iters lr_warmup_iters"},
    {"train.schedule.least_fraction", "min_lr_ratio min_lr min_lr_rate"},
    {"train.steps",
     "max_steps train_iters max_iters num_steps num_train_steps total_steps train_steps iterations "
     "epochs num_epochs num_train_epochs"},
    {"train.batch", "batch_size global_batch_size train_batch_size effective_batch_size"},
    {"train.micro_batch",
     "micro_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu microbatch_size "
     "gradient_accumulation_steps gradient_accumulation accumulate_grad_batches accumulation_steps "
     "grad_accum"},
    {"train.precision", "dtype torch_dtype fp16 bf16 mixed_precision amp"},
    {"train.clip_norm",
     "max_grad_norm clip_grad clip_grad_norm grad_clip gradient_clipping gradient_clip_val"},
    {"train.seed", "random_seed manual_seed"},
    {"train.validate_every", "eval_steps eval_interval eval_every val_check_interval"},
    {"train.validation_batches", "eval_iters eval_batches limit_val_batches"},
    {"pipeline.stages", "pipeline_parallel_size pipeline_model_parallel_size pp_size pp"},
    {"pipeline.replicas", "data_parallel_size num_replicas dp_size dp"},
    {"memory.device_budget", "device_memory gpu_memory memory_limit max_memory vram budget"},
    {"memory.host_budget", "host_memory cpu_memory cpu_offload"},
    {"checkpoint.every", "save_steps save_interval save_every checkpoint_interval"},
    {"report.directory", "output_dir out_dir save_dir log_dir"},
    {"report.log_every", "logging_steps log_interval log_steps"},
});

constexpr auto kWords = std::to_array<OtherNames>({
    {"bfloat16", "bf16 fp16 float16 half f16 16 mixed"},
    {"float32", "fp32 f32 float 32 full"},
    {"cuda", "gpu nvidia cuda:0"},
    {"adamw", "adam adamw_torch"},
    {"constant", "none fixed"},
    {"1f1b", "pipedream pipedream_flush dapple"},
    {"offload", "host cpu disk outer"},
    {"must", "always true yes"},
    {"never", "false no off none"},
});

std::string plain(std::string_view word);
bool is_among(std::string_view word, std::string_view words);
/// All full keys, a model's as "model.width", except `name` and `model`.
const std::vector<std::string>& all_keys();

}  // namespace

std::string key_meant_by(std::string_view word) {
  const std::string name = plain(word);
  for (const auto& [ours, theirs] : kKeys)
    if (is_among(name, theirs)) return std::string(ours);
  std::vector<std::string> same;
  for (const std::string& key : all_keys())
    if (key.substr(key.rfind('.') + 1) == name) same.push_back(key);
  return same.size() == 1 ? same.front() : "";
}

std::string choice_meant_by(std::string_view word, const std::vector<std::string>& choices) {
  const std::string name = plain(word);
  for (const std::string& choice : choices) {
    if (plain(choice) == name) return choice;
    for (const auto& [ours, theirs] : kWords)
      if (ours == choice && is_among(name, theirs)) return choice;
  }
  return "";
}

std::string remark_on(std::string_view key) {
  if (key == "train.micro_batch")
    return ": a step has train.batch / (train.micro_batch x pipeline.replicas) micro-batches";
  if (key == "train.batch") return ": of a step, over all replicas";
  return "";
}

namespace {

std::string plain(std::string_view word) {
  std::string name;
  for (const char c : word)
    name.push_back(c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return name;
}

bool is_among(std::string_view word, std::string_view words) {
  const std::vector<std::string> list = split(words, ' ');
  return std::find(list.begin(), list.end(), word) != list.end();
}

const std::vector<std::string>& all_keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> keys = all_keys_of(JobSpec(io::parse("{}", "keys")));
    for_each_built_in([&](const auto& spec) {
      for (const std::string& key : all_keys_of(spec)) {
        const std::string full = concat("model.", key);
        if (std::find(keys.begin(), keys.end(), full) == keys.end()) keys.push_back(full);
      }
    });
    return keys;
  }();
  return all;
}

}  // namespace
}  // namespace trireme::config
