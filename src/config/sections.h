// The list of all keys of a job: the reader and the writer both walk through it. A key that depends
// on a `kind` comes after it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "range.h"

#include "trireme/config/job.h"
#include "trireme/schedule/named.h"

namespace trireme::config {

inline constexpr double kMany = 1e9;  ///< steps, layers, sizes of a model
inline constexpr double kMostRanks = 65536;
inline constexpr double kMostPixels = 65536;  ///< of a side
inline constexpr double kMostChannels = 4096;
inline constexpr double kMostSeed = 0x1p53;
inline constexpr Range kChunks{1, 1024};
inline constexpr Range kEpsilons{1e-12, 1};
inline constexpr Range kScales{1e-9, 1e9};
inline constexpr Range kRopeBases{1, 1e12};
inline const OneOf kGrains{"block", "half_block", "fine"};

/// Keys of a language model for fine-tuning.
template <class Fields, class Spec>
void walk_tuning(Fields& field, Spec& spec) {
  field("lora_rank", spec.lora_rank, Range{0, 1e6});
  field("lora_alpha", spec.lora_alpha, Range{0, 1e6});
  field("lora_targets", spec.lora_targets);
  field("trained", spec.trained);
}

template <class Fields>
void walk(Fields& field, GptSpec& spec) {
  field("blocks", spec.blocks, Range{1, 10'000});
  field("width", spec.width, Range{1, 1e6});
  field("heads", spec.heads, Range{1, 1e6});
  field("context", spec.context, Range{1, 1e8});
  field("positions", spec.positions, Range{1, 1e8});
  field("vocabulary", spec.vocabulary, Range{1, 1e8});
  field("dropout", spec.dropout, Range{0, 0.9});
  field("tied_head", spec.tied_head);
  field("norm_epsilon", spec.norm_epsilon, kEpsilons);
  field("grain", spec.grain, kGrains);
  field("loss_chunks", spec.loss_chunks, kChunks);
  walk_tuning(field, spec);
}

template <class Fields>
void walk(Fields& field, LlamaSpec& spec) {
  field("blocks", spec.blocks, Range{1, 10'000});
  field("width", spec.width, Range{1, 1e6});
  field("heads", spec.heads, Range{1, 1e6});
  field("kv_heads", spec.kv_heads, Range{1, 1e6});
  field("head_width", spec.head_width, Range{1, 1e6});
  field("hidden", spec.hidden, Range{1, 1e7});
  field("context", spec.context, Range{1, 1e8});
  field("vocabulary", spec.vocabulary, Range{1, 1e8});
  field("tied_head", spec.tied_head);
  field("qkv_bias", spec.qkv_bias);
  field("projection_bias", spec.projection_bias);
  field("mlp_bias", spec.mlp_bias);
  field("fused_linears", spec.fused_linears);
  field("activation", spec.activation, OneOf{"silu", "gelu", "gelu_tanh"});
  field("norms", spec.norms, OneOf{"before", "after", "both"});
  field("qk_norm", spec.qk_norm, OneOf{"none", "head", "all"});
  field("zero_centered_norms", spec.zero_centered_norms);
  field("norm_epsilon", spec.norm_epsilon, kEpsilons);
  field("embedding_scale", spec.embedding_scale, kScales);
  field("residual_scale", spec.residual_scale, kScales);
  field("attention_scale", spec.attention_scale, kScales);
  field("attention_cap", spec.attention_cap, Range{0, 1e6});
  field("logits_divisor", spec.logits_divisor, kScales);
  field("logits_cap", spec.logits_cap, Range{0, 1e6});
  field("window", spec.window, Range{1, 1e8});
  field("window_blocks", spec.window_blocks, Range{0, 1e4});
  field("rope_base", spec.rope_base, kRopeBases);
  field("window_rope_base", spec.window_rope_base, kRopeBases);
  field("rope_fraction", spec.rope_fraction, Range{0, 1});
  field("unrotated_blocks", spec.unrotated_blocks, Range{0, 1e4});
  field("rope_scaling", spec.rope_scaling, OneOf{"none", "linear", "llama3", "yarn"});
  if (spec.rope_scaling != "none") field("rope_factor", spec.rope_factor, Range{1, 1e4});
  if (spec.rope_scaling == "llama3" || spec.rope_scaling == "yarn") {
    field("rope_low_turns", spec.rope_low_turns, Range{1e-6, 1e6});
    field("rope_high_turns", spec.rope_high_turns, Range{1e-6, 1e6});
    field("rope_original_context", spec.rope_original_context, Range{1, 1e8});
  }
  if (spec.rope_scaling == "yarn")
    field("rope_attention_factor", spec.rope_attention_factor, kScales);
  field("grain", spec.grain, kGrains);
  field("loss_chunks", spec.loss_chunks, kChunks);
  walk_tuning(field, spec);
}

template <class Fields>
void walk(Fields& field, VitSpec& spec) {
  field("image_size", spec.image_size, Range{1, kMostPixels});
  field("patch", spec.patch, Range{1, kMostPixels});
  field("blocks", spec.blocks, Range{1, 10'000});
  field("width", spec.width, Range{1, 1e6});
  field("heads", spec.heads, Range{1, 1e6});
  field("classes", spec.classes, Range{2, 1e8});
  field("channels", spec.channels, Range{1, kMostChannels});
  field("dropout", spec.dropout, Range{0, 0.9});
  field("grain", spec.grain, kGrains);
}

template <class Fields>
void walk(Fields& field, ResnetSpec& spec) {
  field("depth", spec.depth, OneOf{"18", "34", "50", "101", "152"});
  field("image_size", spec.image_size, Range{1, kMostPixels});
  field("channels", spec.channels, Range{1, kMostChannels});
  field("classes", spec.classes, Range{2, 1e8});
  field("width", spec.width, Range{1, 1e5});
  field("stem", spec.stem, OneOf{"3x3", "7x7"});
  field("grain", spec.grain, OneOf{"block", "operator"});
}

template <class Fields>
void walk(Fields& field, VggSpec& spec) {
  field("depth", spec.depth, OneOf{"11", "13", "16", "19"});
  field("image_size", spec.image_size, Range{32, kMostPixels});
  field("channels", spec.channels, Range{1, kMostChannels});
  field("classes", spec.classes, Range{2, 1e8});
  field("width", spec.width, Range{1, 1e5});
  field("batch_norm", spec.batch_norm);
  field("dropout", spec.dropout, Range{0, 0.9});
}

template <class Fields>
void walk(Fields& field, MlpSpec& spec) {
  field("inputs", spec.inputs, Range{1, 1e8});
  field("widths", spec.widths, Range{1, 1e8});
  field("classes", spec.classes, Range{2, 1e8});
  field("batch_norm", spec.batch_norm);
  field("dropout", spec.dropout, Range{0, 0.9});
}

template <class Fields>
void walk(Fields& field, TorchScriptSpec& spec) {
  field("files", spec.files);
  field("takes", spec.takes, OneOf{"tokens", "vectors", "images"});
  if (spec.takes == "tokens") field("context", spec.context, Range{1, 1e8});
  if (spec.takes == "vectors") field("inputs", spec.inputs, Range{1, 1e8});
  if (spec.takes == "images") {
    field("image_size", spec.image_size, Range{1, kMostPixels});
    field("channels", spec.channels, Range{1, kMostChannels});
  }
  field(spec.takes == "tokens" ? "vocabulary" : "classes", spec.classes, Range{2, 1e8});
  field("tied", spec.tied);
  if (spec.takes == "tokens") field("masked_targets", spec.masked_targets);
}

template <class Fields>
void walk(Fields& field, DataSpec& spec) {
  field("kind", spec.kind, OneOf{"text", "tokens", "documents", "images", "synthetic", "own"});
  if (spec.kind == "synthetic") field("examples", spec.examples, Range{1, kMany});
  if (spec.kind != "synthetic" && spec.kind != "own") field("files", spec.files);
  if (spec.kind == "tokens") field("token_bytes", spec.token_bytes, OneOf{"2", "4"});
  if (spec.kind == "documents") {
    field("packed", spec.packed);
    field("isolated", spec.isolated);
  }
  field("validation_fraction", spec.validation_fraction, Range{0, 0.5});
}

template <class Fields>
void walk(Fields& field, OptimizerSpec& spec) {
  field("kind", spec.kind, OneOf{"adamw", "sgd"});
  field("learning_rate", spec.learning_rate, Range{0, 1000});
  field("weight_decay", spec.weight_decay, Range{0, 1000});
  if (spec.kind == "adamw") {
    field("betas", spec.beta1, spec.beta2, Range{0, 0.9999999});
    field("epsilon", spec.epsilon, Range{1e-30, 1});
  } else {
    field("momentum", spec.momentum, Range{0, 0.9999999});
  }
}

template <class Fields>
void walk(Fields& field, ScheduleSpec& spec) {
  field("kind", spec.kind, OneOf{"cosine", "constant"});
  field("warmup_steps", spec.warmup_steps, Range{0, kMany});
  if (spec.kind == "cosine") field("least_fraction", spec.least_fraction, Range{0, 1});
}

template <class Fields>
void walk(Fields& field, TrainSpec& spec) {
  field("steps", spec.steps, Range{1, kMany});
  field("batch", spec.batch, Range{1, kMany});
  field("micro_batch", spec.micro_batch, Range{1, kMany});
  field("seed", spec.seed, Range{0, kMostSeed});
  field("precision", spec.precision, OneOf{"float32", "bfloat16", "bfloat16_weights"});
  field("deterministic", spec.deterministic);
  field("clip_norm", spec.clip_norm, Range{0, 1e9});
  field("validate_every", spec.validate_every, Range{0, kMany});
  field("validation_batches", spec.validation_batches, Range{1, kMany});
  field.section("optimizer", spec.optimizer);
  field.section("schedule", spec.schedule);
}

template <class Fields>
void walk(Fields& field, PipelineSpec& spec) {
  field("stages", spec.stages, Range{1, kMostRanks});
  field("replicas", spec.replicas, Range{1, kMostRanks});
  field("schedule", spec.schedule, OneOf(schedule::schedule_choices()));
  field("group", spec.group, Range{1, kMany});
  field("cut", spec.cut, Range{1, kMany});
  field("split_backward", spec.split_backward, OneOf{"auto", "never"});
  field("speeds", spec.speeds, Range{1e-3, 1e3});
  field("timeout", spec.timeout, Range{1e-3, 1e9});
  field("transport", spec.transport, OneOf{"auto", "local", "mpi", "nccl"});
}

template <class Fields>
void walk(Fields& field, MemorySpec& spec) {
  field("device_budget", spec.device_budget);
  field("host_budget", spec.host_budget);
  field("disk_budget", spec.disk_budget);
  field("disk_path", spec.disk_path);
  field("tapes", spec.tapes, OneOf{"auto", "full", "lean"});
  field("optimizer", spec.optimizer, OneOf{"auto", "device", "offload"});
  field("shard_optimizer", spec.shard_optimizer);
  field("weights", spec.weights, OneOf{"auto", "device", "offload"});
  field("updates", spec.updates, OneOf{"auto", "at_end", "in_forward", "in_backward"});
}

template <class Fields>
void walk(Fields& field, PlanSpec& spec) {
  field("solver", spec.solver);
  field("slots", spec.slots, Range{10, 20'000});
  field("file", spec.file);
  field("objective", spec.objective, OneOf{"time", "energy"});
  field("deadline", spec.deadline);
}

template <class Fields>
void walk(Fields& field, EnergySpec& spec) {
  chain::walk_power(
      [&](const char* key, Watts& watts) {
        field(key, watts, Range{0, chain::kMostWatts.count()});
      },
      spec.power);
  field("clocks", spec.clocks);
  field("set_clocks", spec.set_clocks);
}

template <class Fields>
void walk(Fields& field, CheckpointSpec& spec) {
  field("every", spec.every, Range{0, kMany});
  field("keep", spec.keep, Range{1, kMany});
  field("resume", spec.resume, OneOf{"auto", "never", "must"});
  field("background", spec.background);
}

template <class Fields>
void walk(Fields& field, ReportSpec& spec) {
  field("directory", spec.directory);
  field("log_every", spec.log_every, Range{1, kMany});
  field("tensorboard", spec.tensorboard);
  field("html", spec.html);
}

/// All but `name` and `model`, which come first.
template <class Fields>
void walk(Fields& field, JobSpec& job) {
  field.section("data", job.data);
  field.section("train", job.train);
  field("device", job.device, OneOf{"cpu", "cuda"});
  field("threads", job.threads, Range{1, 4096});
  field.section("pipeline", job.pipeline);
  field.section("memory", job.memory);
  field.section("plan", job.plan);
  field.section("energy", job.energy);
  field.section("checkpoint", job.checkpoint);
  field.section("report", job.report);
}

}  // namespace trireme::config
