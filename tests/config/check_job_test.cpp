// Keys that are fine alone and wrong together.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/config/job.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::config {
namespace {

std::string refusal(const std::string& text) {
  return support::input_error([&] { read_job(io::parse(text, "a.yaml"), {}); });
}

const std::string kGpt = "model: {kind: gpt}\ndata: {files: [x.txt]}\n";
const std::string kNone = "no InputError was thrown";

TEST(CheckJob, BatchIsAMultipleOfMicroBatchTimesReplicas) {
  const std::string train = "train:\n  batch: 30\n  micro_batch: 4\npipeline: {replicas: 2}\n";
  EXPECT_EQ(refusal(kGpt + train),
            "a.yaml:4: train.batch is 30, must be a multiple of micro_batch x replicas = 8");
  EXPECT_EQ(refusal(kGpt + "train: {batch: 32}\npipeline: {replicas: 2}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "train: {micro_batch: 64}\n"),
            "a.yaml:3: train.batch is 32, must be a multiple of micro_batch x replicas = 64");
  EXPECT_EQ(refusal(kGpt + "train: {micro_batch: 1000000000}\npipeline: {replicas: 65536}\n"),
            "a.yaml:3: train.batch is 32, must be a multiple of micro_batch x replicas = "
            "65536000000000");
}

TEST(CheckJob, WidthIsAMultipleOfHeads) {
  EXPECT_EQ(refusal("model:\n  kind: gpt\n  heads: 5\n  width: 64\ndata: {files: [x]}\n"),
            "a.yaml:4: model.width is 64, must be a multiple of model.heads = 5");
  EXPECT_EQ(refusal("model:\n  kind: gpt\n  heads: 5\ndata: {files: [x]}\n"),
            "a.yaml:1: model.width is 384, must be a multiple of model.heads = 5");
}

TEST(CheckJob, HeadsShareTheWidthAndTheKeys) {
  const std::string data = "\ndata: {files: [x]}\n";
  EXPECT_EQ(refusal("model: {kind: llama, heads: 5}" + data),
            "a.yaml:1: model.width is 384, must be a multiple of model.heads = 5");
  EXPECT_EQ(refusal("model: {kind: llama, kv_heads: 4}" + data),
            "a.yaml:1: model.heads is 6, must be a multiple of model.kv_heads = 4");
  EXPECT_EQ(refusal("model: {kind: llama, kv_heads: 12}" + data),
            "a.yaml:1: model.heads is 6, must be a multiple of model.kv_heads = 12");
  EXPECT_EQ(refusal("model: {kind: llama, width: 15, heads: 5}" + data),
            "a.yaml:1: model.width is 15, must be an even multiple of model.heads = 5: rotary "
            "positions turn pairs of values");
  EXPECT_EQ(refusal("model: {kind: llama, heads: 4, kv_heads: 2}" + data), kNone);
  EXPECT_EQ(refusal("model: {kind: llama, heads: 5, head_width: 8}" + data), kNone);
  EXPECT_EQ(refusal("model: {kind: llama, head_width: 7}" + data),
            "a.yaml:1: model.head_width is 7, must be even: rotary positions turn pairs of values");
  EXPECT_EQ(refusal("model: {kind: llama, rope_fraction: 0.12}" + data),
            "a.yaml:1: model.rope_fraction is 0.12, which is 7 of a head's 64 values, must be an "
            "even number: rotary positions turn pairs of values");
  EXPECT_EQ(refusal("model: {kind: llama, unrotated_blocks: [2, 6]}" + data),
            "a.yaml:1: model.unrotated_blocks has 6, must have numbers below model.blocks = 6: the "
            "first block is 0");
  EXPECT_EQ(refusal("model: {kind: llama, window_blocks: [0]}" + data),
            "a.yaml:1: model.window_blocks is set, but there is no window: needs model.window");
  EXPECT_EQ(refusal("model: {kind: llama, window_rope_base: 10}" + data),
            "a.yaml:1: model.window_rope_base is set, but there is no window: needs model.window");
  EXPECT_EQ(refusal("model: {kind: vit, heads: 5}"),
            "a.yaml:1: model.width is 192, must be a multiple of model.heads = 5");
}

TEST(CheckJob, AdaptersStandBesideWeightsOfTheModel) {
  const std::string data = "\ndata: {files: [x]}\n";
  EXPECT_EQ(refusal("model: {kind: gpt, lora_rank: 4, lora_targets: [qkv, q]}" + data),
            "a.yaml:1: model.lora_targets has 'q', must be some of qkv, projection, up, down");
  EXPECT_EQ(refusal("model: {kind: llama, lora_rank: 4, lora_targets: [qkv]}" + data),
            "a.yaml:1: model.lora_targets has 'qkv', must be some of q, k, v, projection, gate, "
            "up, down");
  EXPECT_EQ(refusal("model: {kind: llama, lora_rank: 4, lora_targets: [q, gate]}" + data), kNone);
}

TEST(CheckJob, KeysOfAdaptersNeedARank) {
  const std::string data = "\ndata: {files: [x]}\n";
  EXPECT_EQ(refusal("model:\n  kind: gpt\n  lora_targets: [qkv]" + data),
            "a.yaml:3: model.lora_targets is a list, but there are no adapters: needs "
            "model.lora_rank above 0");
  EXPECT_EQ(refusal("model:\n  kind: llama\n  lora_alpha: 16" + data),
            "a.yaml:3: model.lora_alpha is 16, but there are no adapters: needs model.lora_rank "
            "above 0");
  // Switched off by the user's own word, as --set model.lora_rank=0 does, or a resolved job's.
  EXPECT_EQ(refusal("model: {kind: gpt, lora_rank: 0, lora_alpha: 32}" + data), kNone);
  EXPECT_EQ(refusal(to_yaml(read_job(io::parse("model: {kind: gpt}" + data, "a.yaml"), {}))),
            kNone);
}

TEST(CheckJob, PatchesFillTheImage) {
  EXPECT_EQ(refusal("model: {kind: vit, image_size: 30}"),
            "a.yaml:1: model.image_size is 30, must be a multiple of model.patch = 4");
}

TEST(CheckJob, TextNeedsATokenPerByte) {
  EXPECT_EQ(
      refusal("model: {kind: llama, vocabulary: 255}\ndata: {files: [x]}\n"),
      "a.yaml:1: model.vocabulary is 255, must be at least 256 for data.kind text: every byte "
      "is a token");
  EXPECT_EQ(
      refusal("model: {kind: gpt, vocabulary: 255}\ndata: {files: [x]}\n"),
      "a.yaml:1: model.vocabulary is 255, must be at least 256 for data.kind text: every byte "
      "is a token");
  EXPECT_EQ(refusal("model: {kind: gpt, vocabulary: 255}\ndata: {kind: tokens, files: [x]}\n"),
            kNone);
}

TEST(CheckJob, CutIsInOrder) {
  const std::string message =
      "a.yaml:3: pipeline.cut is not in order, every entry must be greater than the one before";
  EXPECT_EQ(refusal(kGpt + "pipeline: {cut: [3, 2]}\n"), message);
  EXPECT_EQ(refusal(kGpt + "pipeline: {cut: [3, 3]}\n"), message);
  EXPECT_EQ(refusal(kGpt + "pipeline: {cut: [2, 3, 9]}\n"), kNone);
}

TEST(CheckJob, CutHasOneEntryLessThanStages) {
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 3, cut: [4]}\n"),
            "a.yaml:3: pipeline.cut has 1 entries, must have 2: one less than pipeline.stages = 3");
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 2, cut: [4]}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 1, cut: []}\n"), kNone);
}

TEST(CheckJob, ASchedulesNameFixesCutGroupAndUpdates) {
  const std::string why = " is not combined with pipeline.schedule: zb-v; ";
  EXPECT_EQ(refusal(kGpt + "pipeline: {schedule: zb-v, cut: [4]}\n"),
            "a.yaml:3: pipeline.cut" + why + "leave it out, or the schedule 1f1b");
  EXPECT_EQ(refusal(kGpt + "pipeline: {schedule: zb-v, group: 2}\n"),
            "a.yaml:3: pipeline.group" + why + "use 1, or the schedule 1f1b");
  EXPECT_EQ(refusal(kGpt + "memory: {updates: in_forward}\npipeline: {schedule: zb-v}\n"),
            "a.yaml:3: memory.updates" + why + "use at_end, or the schedule 1f1b");
  EXPECT_EQ(refusal(kGpt + "pipeline: {schedule: gpipe, cut: [4], group: 2}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "memory: {updates: at_end}\npipeline: {schedule: zb-v, group: 1}\n"),
            kNone);
}

TEST(CheckJob, WhatIsFixedOfAnOpenShapeDividesTheBatch) {
  EXPECT_EQ(refusal(kGpt + "train: {micro_batch: auto}\npipeline: {replicas: 3}\n"),
            "a.yaml:3: train.batch is 32, must be a multiple of micro_batch x replicas = 3");
  EXPECT_EQ(refusal(kGpt + "train: {micro_batch: 5}\npipeline: {replicas: auto}\n"),
            "a.yaml:3: train.batch is 32, must be a multiple of micro_batch x replicas = 5");
  EXPECT_EQ(refusal(kGpt + "train: {micro_batch: auto}\npipeline: {replicas: 4}\n"), kNone);
}

TEST(CheckJob, BatchNormNeedsTheSizeOfItsMicroBatch) {
  const std::string open = "train: {micro_batch: auto}\n";
  for (const std::string model :
       {"{kind: resnet}", "{kind: vgg}", "{kind: mlp, batch_norm: true}"}) {
    EXPECT_EQ(refusal("model: " + model + "\n" + open),
              "a.yaml:2: train.micro_batch is auto, must be a number for a model with batch norm: "
              "means are taken over one micro-batch, so that its size is part of the model");
    EXPECT_EQ(refusal("model: " + model + "\npipeline: {replicas: auto}\n"), kNone);
  }
  for (const std::string model : {"{kind: vit}", "{kind: vgg, batch_norm: false}", "{kind: mlp}"})
    EXPECT_EQ(refusal("model: " + model + "\n" + open), kNone);
}

TEST(CheckJob, APlansShapeIsNotOpen) {
  const std::string message =
      "a.yaml:3: plan.file is p.json, which is made for one shape: pipeline.replicas and "
      "train.micro_batch must be numbers, not auto";
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json}\ntrain: {micro_batch: auto}\n"), message);
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json}\npipeline: {replicas: auto}\n"), message);
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json}\npipeline: {stages: auto}\n"), kNone);
}

TEST(CheckJob, WarmUpEndsWithinTheSteps) {
  EXPECT_EQ(refusal(kGpt + "train: {steps: 10, schedule: {warmup_steps: 11}}\n"), kNone);
}

TEST(CheckJob, AGroupIsWithinAStep) {
  const std::string batch = kGpt + "train: {batch: 24, micro_batch: 2}\n";
  EXPECT_EQ(
      refusal(batch + "pipeline: {group: 13}\n"),
      "a.yaml:4: pipeline.group is 13, must be at most 12, as many micro-batches as a replica "
      "has in a step");
  EXPECT_EQ(refusal(batch + "pipeline: {group: 7, replicas: 2}\n"),
            "a.yaml:4: pipeline.group is 7, must be at most 6, as many micro-batches as a replica "
            "has in a step");
  EXPECT_EQ(refusal(batch + "pipeline: {group: 12}\n"), kNone);
}

TEST(CheckJob, EveryRankHasASpeed) {
  EXPECT_EQ(
      refusal(kGpt + "pipeline: {stages: 2, speeds: [1, 0.5, 1]}\n"),
      "a.yaml:3: pipeline.speeds has 3 entries, must have 2: one per rank (stages x replicas)");
  EXPECT_EQ(refusal(kGpt + "pipeline: {speeds: []}\n"),
            "a.yaml:3: pipeline.speeds is an empty list, must be auto or have one entry per rank");
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 2, replicas: 2, speeds: [1, 0.5, 1, 2]}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "pipeline: {speeds: [1, 2]}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "pipeline: {speeds: auto}\n"), kNone);
}

TEST(CheckJob, ModelAndDataBelongTogether) {
  EXPECT_EQ(refusal("model: {kind: gpt}\ndata: {kind: synthetic}\n"), kNone);
  EXPECT_EQ(refusal("model: {kind: mlp}\ndata: {kind: text, files: [x]}\n"),
            "a.yaml:2: data.kind is text, must be synthetic for model.kind mlp");
  EXPECT_EQ(refusal("model: {kind: mlp}\n"), kNone);
  EXPECT_EQ(refusal("model: {kind: gpt}\ndata: {kind: images, files: [x]}\n"),
            "a.yaml:2: data.kind is images, must be text or tokens or documents or synthetic for "
            "model.kind gpt");
  EXPECT_EQ(refusal("model: {kind: vgg}\ndata: {kind: text, files: [x]}\n"),
            "a.yaml:2: data.kind is text, must be synthetic or images for model.kind vgg");
  for (const std::string kind : {"vit", "resnet", "vgg"}) {
    EXPECT_EQ(refusal("model: {kind: " + kind + "}\n"), kNone);
    EXPECT_EQ(refusal("model: {kind: " + kind + "}\ndata: {kind: images, files: [x]}\n"), kNone);
  }
}

TEST(CheckJob, TextTokensAndImagesNeedFiles) {
  EXPECT_EQ(refusal("model: {kind: gpt}\n"),
            "a.yaml:1: data.files is missing, must be a list of files for data.kind text, e.g. "
            "[\"corpus/*.txt\"]");
  EXPECT_EQ(refusal("model: {kind: gpt}\ndata: {kind: tokens, files: []}\n"),
            "a.yaml:2: data.files is missing, must be a list of files for data.kind tokens, e.g. "
            "[\"corpus/*.txt\"]");
  EXPECT_EQ(refusal("model: {kind: vit}\ndata: {kind: images}\n"),
            "a.yaml:2: data.files is missing, must be a list of files for data.kind images, e.g. "
            "[\"photos/*/*.jpg\"]");
}

TEST(CheckJob, BudgetsAreOnePerRank) {
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 2}\nmemory: {device_budget: [1, 2, 3]}\n"),
            "a.yaml:4: memory.device_budget has 3 entries, must have 1 or 2: one per rank "
            "(stages x replicas)");
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 2}\nmemory: {device_budget: [1]}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "pipeline: {stages: 2}\nmemory: {device_budget: [1, 2]}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "memory: {device_budget: [1, 2, 3]}\n"), kNone);
}

TEST(CheckJob, ABudgetIsMoreThanNothing) {
  EXPECT_EQ(refusal(kGpt + "memory: {optimizer: offload}\n"),
            "a.yaml:3: memory.optimizer is offload, but there is no offload tier: give "
            "memory.host_budget or memory.disk_budget");
  EXPECT_EQ(refusal(kGpt + "memory: {weights: offload}\n"),
            "a.yaml:3: memory.weights is offload, but there is no offload tier: give "
            "memory.host_budget or memory.disk_budget");
  EXPECT_EQ(refusal(kGpt + "memory: {optimizer: offload, weights: offload, disk_budget: 5%}\n"),
            kNone);
  EXPECT_EQ(
      refusal(kGpt + "memory: {device_budget: 0}\n"),
      "a.yaml:3: memory.device_budget is 0, must be more (auto: on a GPU what is free, on a CPU "
      "no budget)");
}

TEST(CheckJob, LayersAreUpdatedBehindBackwardsWhereNothingNeedsAllGradients) {
  const std::string behind = "memory: {updates: in_backward}\n";
  EXPECT_EQ(refusal(kGpt + behind),
            "a.yaml:3: memory.updates is in_backward, but train.clip_norm is 1, which needs "
            "the gradients of all layers at once: use in_forward, or set clip_norm to 0");
  EXPECT_EQ(refusal(kGpt + "train: {clip_norm: 0}\npipeline: {replicas: 2}\n" + behind),
            "a.yaml:5: memory.updates is in_backward, but replicas reduce their gradients "
            "after the last backward: use in_forward, or set pipeline.replicas to 1");
  EXPECT_EQ(refusal(kGpt + "train: {clip_norm: 0}\n" + behind), kNone);
  EXPECT_EQ(refusal(kGpt + "memory: {updates: in_forward}\n"), kNone);
}

TEST(CheckJob, WidthsAreNotEmpty) {
  EXPECT_EQ(refusal("model: {kind: mlp, widths: []}\n"),
            "a.yaml:1: model.widths is an empty list, must have at least one width");
}

TEST(CheckJob, APlanThatIsGivenIsForNoOtherObjective) {
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json, objective: energy}\n"),
            "a.yaml:3: plan.objective is energy, but the plan in plan.file is followed as it is: "
            "must be time, or leave plan.file out to have a plan made");
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json, deadline: 2s}\n"),
            "a.yaml:3: plan.deadline is 2s, but the plan in plan.file is followed as it is: must "
            "be none, or leave plan.file out to have a plan made");
  EXPECT_EQ(refusal(kGpt + "plan: {file: p.json}\n"), kNone);
  EXPECT_EQ(refusal(kGpt + "plan: {objective: energy, deadline: 2s}\n"), kNone);
}

TEST(CheckJob, ClocksThatAreSetAreFrequenciesOfAGpu) {
  const auto job = [](const std::string& clocks, const std::string& device = "cuda") {
    return refusal(kGpt + "device: " + device + "\nenergy: {set_clocks: true, clocks: [" + clocks +
                   "]}\n");
  };
  const std::string usual = "{name: 1590MHz, time: 1.25, power: 0.6}";
  EXPECT_EQ(job(usual), kNone);
  EXPECT_EQ(job(usual, "cpu"),
            "a.yaml:4: energy.set_clocks is true, but device is cpu, whose clock is not set: must "
            "be false");
  EXPECT_EQ(job(""),
            "a.yaml:4: energy.set_clocks is true, but energy.clocks names none: must be false");
  EXPECT_EQ(job(usual + ", {name: half, time: 2, power: 0.25}"),
            "a.yaml:4: energy.set_clocks is true, but the clock 'half' of energy.clocks is no "
            "frequency, such as 1590MHz: give it one as its name, or set_clocks: false");
}

}  // namespace
}  // namespace trireme::config
