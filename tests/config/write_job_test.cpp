// SPDX-License-Identifier: Apache-2.0
#include "config/read.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace trireme::config {
namespace {

const std::string kDefaults =
    "name: a\n"
    "model:\n"
    "  kind: gpt\n"
    "  blocks: 6\n"
    "  width: 384\n"
    "  heads: 6\n"
    "  context: 256\n"
    "  positions: auto\n"
    "  vocabulary: 256\n"
    "  dropout: 0\n"
    "  tied_head: true\n"
    "  norm_epsilon: 1e-05\n"
    "  grain: half_block\n"
    "  loss_chunks: 1\n"
    "  lora_rank: 0\n"
    "  lora_alpha: 16\n"
    "  lora_targets: []\n"
    "  trained: []\n"
    "data:\n"
    "  kind: text\n"
    "  files: [x.txt]\n"
    "  validation_fraction: 0.05\n"
    "train:\n"
    "  steps: 300\n"
    "  batch: 32\n"
    "  micro_batch: 4\n"
    "  seed: 1\n"
    "  precision: float32\n"
    "  deterministic: false\n"
    "  clip_norm: 1\n"
    "  validate_every: 100\n"
    "  validation_batches: 8\n"
    "  optimizer:\n"
    "    kind: adamw\n"
    "    learning_rate: 6e-04\n"
    "    weight_decay: 0.1\n"
    "    betas: [0.9, 0.95]\n"
    "    epsilon: 1e-08\n"
    "  schedule:\n"
    "    kind: cosine\n"
    "    warmup_steps: 0\n"
    "    least_fraction: 0.1\n"
    "device: cpu\n"
    "threads: auto\n"
    "pipeline:\n"
    "  stages: auto\n"
    "  replicas: 1\n"
    "  schedule: auto\n"
    "  group: auto\n"
    "  cut: auto\n"
    "  split_backward: auto\n"
    "  speeds: auto\n"
    "  timeout: 60s\n"
    "  transport: auto\n"
    "memory:\n"
    "  device_budget: auto\n"
    "  host_budget: 0\n"
    "  disk_budget: 0\n"
    "  disk_path: \"\"\n"
    "  tapes: auto\n"
    "  optimizer: auto\n"
    "  shard_optimizer: true\n"
    "  weights: auto\n"
    "  updates: auto\n"
    "plan:\n"
    "  solver: auto\n"
    "  slots: 500\n"
    "  file: \"\"\n"
    "  objective: time\n"
    "  deadline: none\n"
    "energy:\n"
    "  busy_w: 0\n"
    "  idle_w: 0\n"
    "  copy_out_w: 0\n"
    "  copy_in_w: 0\n"
    "  clocks: []\n"
    "  set_clocks: false\n"
    "checkpoint:\n"
    "  every: 0\n"
    "  keep: 2\n"
    "  resume: auto\n"
    "  background: false\n"
    "report:\n"
    "  directory: runs/a\n"
    "  log_every: 10\n"
    "  tensorboard: true\n"
    "  html: true\n";

TEST(ToYaml, WritesEveryDefault) {
  EXPECT_EQ(to_yaml(read(kLeast)), kDefaults);
}

/// A job in which nothing has its default but plan.file, which goes with no objective.
const std::string kNoDefaults =
    "name: \"12\"\n"
    "model:\n"
    "  kind: mlp\n"
    "  inputs: 3\n"
    "  widths: [5, 6]\n"
    "  classes: 2\n"
    "  batch_norm: true\n"
    "  dropout: 0.3\n"
    "data:\n"
    "  kind: synthetic\n"
    "  examples: 77\n"
    "  validation_fraction: 0\n"
    "train:\n"
    "  steps: 11\n"
    "  batch: 12\n"
    "  micro_batch: 3\n"
    "  seed: 9\n"
    "  precision: bfloat16\n"
    "  deterministic: false\n"
    "  clip_norm: 0\n"
    "  validate_every: 0\n"
    "  validation_batches: 1\n"
    "  optimizer:\n"
    "    kind: sgd\n"
    "    learning_rate: 0.3333333333333333\n"
    "    weight_decay: 0\n"
    "    momentum: 0\n"
    "  schedule:\n"
    "    kind: constant\n"
    "    warmup_steps: 2\n"
    "device: cuda\n"
    "threads: 2\n"
    "pipeline:\n"
    "  stages: 2\n"
    "  replicas: 2\n"
    "  schedule: gpipe\n"
    "  group: 2\n"
    "  cut: [1]\n"
    "  split_backward: never\n"
    "  speeds: [1, 0.25, 1.5, 1]\n"
    "  timeout: 0.5s\n"
    "  transport: local\n"
    "memory:\n"
    "  device_budget: [1, 7%, 12.34%, 4]\n"
    "  host_budget: 100%\n"
    "  disk_budget: 4096\n"
    "  disk_path: \"a: b\"\n"
    "  tapes: lean\n"
    "  optimizer: offload\n"
    "  shard_optimizer: false\n"
    "  weights: device\n"
    "  updates: in_forward\n"
    "plan:\n"
    "  solver: \"periodic 3\"\n"
    "  slots: 10\n"
    "  file: \"\"\n"
    "  objective: energy\n"
    "  deadline: \"1.05x\"\n"
    "energy:\n"
    "  busy_w: 700\n"
    "  idle_w: 100.5\n"
    "  copy_out_w: 10\n"
    "  copy_in_w: 12\n"
    "  clocks: [{name: \"1590MHz\", time: 1.25, power: 0.625}]\n"
    "  set_clocks: true\n"
    "checkpoint:\n"
    "  every: 1\n"
    "  keep: 1\n"
    "  resume: never\n"
    "  background: true\n"
    "report:\n"
    "  directory: /r\n"
    "  log_every: 1\n"
    "  tensorboard: false\n"
    "  html: false\n";

TEST(ToYaml, ReadsBackAsTheSameJob) {
  EXPECT_EQ(to_yaml(read(kDefaults)), kDefaults);
  EXPECT_EQ(to_yaml(read(kNoDefaults)), kNoDefaults);
}

TEST(ToYaml, KeepsAnOpenShape) {
  const std::string open = to_yaml(
      read(kLeast + "train: {micro_batch: auto}\npipeline: {stages: auto, replicas: auto}\n"));

  EXPECT_NE(open.find("\n  micro_batch: auto\n"), std::string::npos);
  EXPECT_NE(open.find("\n  stages: auto\n  replicas: auto\n"), std::string::npos);
  EXPECT_EQ(to_yaml(read(open)), open);
}

/// A model section in which nothing has its default, as it is written.
void expect_kept(const std::string& model, const std::string& data) {
  const std::string yaml = to_yaml(read("model:\n" + model + data));
  EXPECT_EQ(yaml.substr(0, 8 + 7 + model.size()), "name: a\nmodel:\n" + model);
  EXPECT_EQ(to_yaml(read(yaml)), yaml);
}

TEST(ToYaml, KeepsEveryKeyOfEveryModel) {
  const std::string text = "data: {files: [x.txt]}\n";
  expect_kept(
      "  kind: gpt\n  blocks: 2\n  width: 12\n  heads: 3\n  context: 7\n  positions: 9\n  "
      "vocabulary: 300\n"
      "  dropout: 0.25\n  tied_head: false\n  norm_epsilon: 1e-06\n  grain: block\n  loss_chunks: "
      "4\n  lora_rank: 8\n  lora_alpha: 24\n  lora_targets: [qkv, down]\n  trained: "
      "[\"*lora*\", \"head.norm.*\"]\n",
      text);
  expect_kept(
      "  kind: llama\n  blocks: 2\n  width: 25\n  heads: 4\n  kv_heads: 2\n  head_width: 8\n"
      "  hidden: 50\n  context: 7\n  vocabulary: 300\n  tied_head: true\n  qkv_bias: true\n"
      "  projection_bias: true\n  mlp_bias: true\n  fused_linears: true\n  activation: gelu\n"
      "  norms: both\n  qk_norm: all\n  zero_centered_norms: true\n  norm_epsilon: 1e-06\n"
      "  embedding_scale: 5.5\n  residual_scale: 0.22\n  attention_scale: 0.1\n"
      "  attention_cap: 50\n  logits_divisor: 8\n  logits_cap: 30\n  window: 5\n"
      "  window_blocks: [1]\n  rope_base: 5e+05\n  window_rope_base: 1000\n"
      "  rope_fraction: 0.5\n  unrotated_blocks: [0]\n  rope_scaling: yarn\n"
      "  rope_factor: 32\n  rope_low_turns: 2\n  rope_high_turns: 8\n"
      "  rope_original_context: 512\n  rope_attention_factor: 1.3\n"
      "  grain: fine\n"
      "  loss_chunks: 8\n  lora_rank: 4\n  lora_alpha: 0.5\n  lora_targets: [qkv]\n"
      "  trained: [\"*lora*\"]\n",
      text);
  expect_kept(
      "  kind: vit\n  image_size: 12\n  patch: 3\n  blocks: 2\n  width: 24\n  heads: 4\n"
      "  classes: 7\n  channels: 1\n  dropout: 0.25\n  grain: block\n",
      "");
  expect_kept(
      "  kind: resnet\n  depth: 50\n  image_size: 224\n  channels: 1\n  classes: 1000\n"
      "  width: 16\n  stem: \"7x7\"\n",
      "");
  expect_kept(
      "  kind: vgg\n  depth: 19\n  image_size: 224\n  channels: 1\n  classes: 1000\n"
      "  width: 8\n  batch_norm: false\n  dropout: 0.25\n",
      "");
}

TEST(ToYaml, KeepsAnOwnModel) {
  const LoadOptions options{.settings = {}, .own_models = {"perceiver"}};
  const std::string model =
      "model: {kind: perceiver, depth: [1, {x: 2}], note: \"two\\nlines: # no comment\"}\n";
  const std::string once = to_yaml(read(model + "data: {kind: synthetic}\n", options));

  const JobSpec again = read(once, options);

  EXPECT_EQ(to_yaml(again), once);
  EXPECT_EQ(std::get<OwnModelSpec>(again.model).node.find("note")->text(),
            "two\nlines: # no comment");
}

}  // namespace
}  // namespace trireme::config
