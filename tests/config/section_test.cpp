// Every section refuses what it does not know, with line and key.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/config/job.h"
#include "trireme/core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

using support::input_error;

struct Broken {
  std::string text;
  std::string message;
};

/// Refusals of jobs whose line 3 is `text`.
void expect_refusals(const std::vector<Broken>& table) {
  for (const auto& [text, message] : table) {
    const std::string job = "model: {kind: gpt}\ndata: {files: [x.txt]}\n" + text + "\n";
    EXPECT_EQ(input_error([&] { read_job(io::parse(job, "a.yaml"), {}); }), "a.yaml:3: " + message);
  }
}

/// Refusals of whole jobs.
void expect_refusals_of_jobs(const std::vector<Broken>& table) {
  for (const auto& [text, message] : table)
    EXPECT_EQ(input_error([&, &job = text] { read_job(io::parse(job, "a.yaml"), {}); }),
              "a.yaml:" + message);
}

TEST(Job, RefusesUnknownSections) {
  expect_refusals(
      {{"trian: {}", "trian is not a key here (did you mean 'train'?)"},
       {"steps: 5", "steps is not a key here (did you mean 'train.steps'?)"},
       {"train: 5", "train is 5, must be a map (key: value)"},
       {"train: [5]", "train is a list, must be a map (key: value)"},
       {"device: gpu", "device is gpu, must be one of cpu, cuda (did you mean 'cuda'?)"},
       {"threads: 0", "threads is 0, must be a whole number from 1 to 4096"},
       {"threads: many", "threads is many, must be a whole number from 1 to 4096"},
       {"name: a/b", "name is \"a/b\", must be a word without /"},
       {"name: ''", "name is \"\", must be a word without /"},
       {"name: \"a\\0b\"", "name holds a control character, must be a word without any"}});
}

TEST(Job, RefusesABrokenModel) {
  const std::string data = "\ndata: {files: [x]}\n";
  expect_refusals_of_jobs(
      {{"",
        "1: model.kind is missing, must be one of gpt, llama, vit, resnet, vgg, mlp, torchscript"},
       {"data: {files: [x]}",
        "1: model.kind is missing, must be one of gpt, llama, vit, resnet, vgg, mlp, torchscript"},
       {"\nmodel: {}" + data,
        "2: model.kind is missing, must be one of gpt, llama, vit, resnet, vgg, mlp, torchscript"},
       {"modle: {kind: gpt}" + data,
        "1: model.kind is missing, but there is 'modle', must be one of gpt, llama, vit, resnet, "
        "vgg, mlp, torchscript"},
       {"model: {kin: gpt}" + data,
        "1: model.kind is missing, but there is 'kin', must be one of gpt, llama, vit, resnet, "
        "vgg, mlp, torchscript"},
       {"[1]", "1: the document is a list, must be a map (key: value)"},
       {"model: gpt" + data, "1: model is gpt, must be a map (key: value)"},
       {"model: {kind: gpt2}" + data,
        "1: model.kind is gpt2, must be one of gpt, llama, vit, resnet, vgg, mlp, torchscript (did "
        "you mean "
        "'gpt'?)"},
       {"model: {kind: gpt, block: 3}" + data,
        "1: model.block is not a key here (did you mean 'blocks'?)"},
       {"model: {kind: gpt, widths: [3]}" + data,
        "1: model.widths is not a key here (did you mean 'width'?)"},
       {"model: {kind: gpt, blocks: 0}" + data,
        "1: model.blocks is 0, must be a whole number from 1 to 10000"},
       {"model: {kind: gpt, blocks: \"5\"}" + data,
        "1: model.blocks is \"5\", must be a whole number from 1 to 10000"},
       {"model: {kind: gpt, dropout: 1}" + data,
        "1: model.dropout is 1, must be a number from 0 to 0.9"},
       {"model: {kind: gpt, tied_head: yes}" + data,
        "1: model.tied_head is yes, must be true or false"},
       {"model:\n  kind: mlp\n  heads: 5\n",
        "3: model.heads is a key of model.kind gpt or llama or vit, but model.kind is mlp: leave "
        "it "
        "out"},
       {"model: {kind: mlp, widths: 5}", "1: model.widths is 5, must be a list"},
       {"model: {kind: mlp, widths: [5, x]}",
        "1: model.widths[1] is x, must be a whole number from 1 to 100000000"},
       {"model: {kind: mlp, classes: 1}",
        "1: model.classes is 1, must be a whole number from 2 to 100000000"}});
}

TEST(Job, RefusesABrokenTransformer) {
  const std::string data = "\ndata: {files: [x]}\n";
  expect_refusals_of_jobs(
      {{"model: {kind: gpt, grain: fin}" + data,
        "1: model.grain is fin, must be one of block, half_block, fine (did you mean 'fine'?)"},
       {"model: {kind: llama, dropout: 0.1}" + data,
        "1: model.dropout is a key of model.kind gpt or vit or vgg or mlp, but model.kind is "
        "llama: "
        "leave it out"},
       {"model: {kind: llama, kv_heads: 0}" + data,
        "1: model.kv_heads is 0, must be a whole number from 1 to 1000000"},
       {"model: {kind: llama, rope_base: 0.5}" + data,
        "1: model.rope_base is 0.5, must be a number from 1 to 1e+12"},
       {"model: {kind: vit, grain: coarse}",
        "1: model.grain is coarse, must be one of block, half_block, fine"},
       {"model: {kind: vit, image_size: 65537}",
        "1: model.image_size is 65537, must be a whole number from 1 to 65536"}});
}

TEST(Job, RefusesABrokenConvolutionNet) {
  expect_refusals_of_jobs(
      {{"model: {kind: resnet, depth: 999}",
        "1: model.depth is 999, must be one of 18, 34, 50, 101, 152"},
       {"model: {kind: resnet, stem: 5x5}", "1: model.stem is 5x5, must be one of 3x3, 7x7"},
       {"model: {kind: resnet, dropout: 0.5}",
        "1: model.dropout is a key of model.kind gpt or vit or vgg or mlp, but model.kind is "
        "resnet: "
        "leave it out"},
       {"model: {kind: vgg, depth: 4}", "1: model.depth is 4, must be one of 11, 13, 16, 19"},
       {"model: {kind: vgg, image_size: 31}",
        "1: model.image_size is 31, must be a whole number from 32 to 65536"}});
}

TEST(Job, RefusesBrokenData) {
  const std::string model = "model: {kind: gpt}\n";
  expect_refusals_of_jobs(
      {{model + "data: {kind: texts, files: [x]}",
        "2: data.kind is texts, must be one of text, tokens, documents, images, synthetic, own "
        "(did you mean 'text'?)"},
       {model + "data: {files: x}", "2: data.files is x, must be a list"},
       {model + "data: {files: [[x]]}", "2: data.files[0] is a list, must be text"},
       {model + "data: {files: [x], validation_fraction: 0.6}",
        "2: data.validation_fraction is 0.6, must be a number from 0 to 0.5"},
       {model + "data: {files: [x], token_bytes: 2}",
        "2: data.token_bytes is a key of data.kind tokens, but data.kind is text: leave it out"},
       {model + "data: {kind: tokens, files: [x], token_bytes: 3}",
        "2: data.token_bytes is 3, must be one of 2, 4"},
       {model + "data: {files: [x], examples: 5}",
        "2: data.examples is a key of data.kind synthetic, but data.kind is text: leave it out"},
       {"model: {kind: mlp}\ndata: {kind: synthetic, files: [x]}",
        "2: data.files is a key of data.kind text or tokens or documents or images, but data.kind "
        "is "
        "synthetic: leave it out"},
       {"model: {kind: mlp}\ndata: {examples: 0}",
        "2: data.examples is 0, must be a whole number from 1 to 1000000000"}});
}

TEST(Job, RefusesBrokenTraining) {
  expect_refusals(
      {{"train: {stepz: 5}", "train.stepz is not a key here (did you mean 'steps'?)"},
       {"train: {steps: 0}", "train.steps is 0, must be a whole number from 1 to 1000000000"},
       {"train: {steps: 1e3}", "train.steps is 1e3, must be a whole number from 1 to 1000000000"},
       {"train: {batch: -4}", "train.batch is -4, must be a whole number from 1 to 1000000000"},
       {"train: {seed: -1}", "train.seed is -1, must be a whole number from 0 to 9007199254740992"},
       {"train: {precision: float16}",
        "train.precision is float16, must be one of float32, bfloat16, bfloat16_weights (did you "
        "mean 'bfloat16'?)"},
       {"train: {clip_norm: -1}", "train.clip_norm is -1, must be a number from 0 to 1e+09"},
       {"train: {optimizer: adamw}", "train.optimizer is adamw, must be a map (key: value)"},
       {"train: {optimizer: {kind: adam}}",
        "train.optimizer.kind is adam, must be one of adamw, sgd (did you mean 'adamw'?)"},
       {"train: {optimizer: {learning_rate: nan}}",
        "train.optimizer.learning_rate is nan, must be a number from 0 to 1000"},
       {"train: {optimizer: {momentum: 0.9}}",
        "train.optimizer.momentum is a key of train.optimizer.kind sgd, but train.optimizer.kind "
        "is "
        "adamw: leave it out"},
       {"train: {optimizer: {kind: sgd, betas: [0.9, 0.95]}}",
        "train.optimizer.betas is a key of train.optimizer.kind adamw, but train.optimizer.kind is "
        "sgd: leave it out"},
       {"train: {optimizer: {betas: [0.9]}}",
        "train.optimizer.betas has 1 entries, must have 2: [0.9, 0.95]"},
       {"train: {optimizer: {betas: [0.9, 1]}}",
        "train.optimizer.betas[1] is 1, must be a number from 0 to 0.9999999"},
       {"train: {schedule: {kind: constant, least_fraction: 0}}",
        "train.schedule.least_fraction is a key of train.schedule.kind cosine, but "
        "train.schedule.kind is constant: leave it out"}});
}

/// The key or word that the error suggests to a user of another program.
std::string meant_by(const std::string& lines) {
  const std::string error =
      input_error([&] { read_job(io::parse("model: {kind: gpt}\n" + lines, "a.yaml"), {}); });
  const std::string before = "(did you mean '";
  const std::size_t begin = error.find(before), end = error.find("'?)");
  return begin == std::string::npos
             ? error
             : error.substr(begin + before.size(), end - begin - before.size());
}

// As PyTorch, Megatron-LM, DeepSpeed and transformers call them.
TEST(Job, KnowsWhatKeysOfOtherProgramsAreCalledHere) {
  const std::vector<std::pair<std::string, std::string>> meant{
      {"lr: 1", "train.optimizer.learning_rate"},
      {"train: {lr: 1}", "train.optimizer.learning_rate"},
      {"train: {learning_rate: 1}", "train.optimizer.learning_rate"},
      {"train: {optimizer: {LR: 1}}", "train.optimizer.learning_rate"},
      {"train: {batch_size: 8}", "train.batch"},
      {"train: {global-batch-size: 8}", "train.batch"},
      {"train: {gradient_accumulation_steps: 8}", "train.micro_batch"},
      {"train: {max_steps: 8}", "train.steps"},
      {"steps: 8", "train.steps"},
      {"data: {seq_length: 8}", "model.context"},
      {"hidden_size: 8", "model.width"},
      {"train: {bf16: true}", "train.precision"},
      {"train: {precision: bf16}", "bfloat16"},
      {"train: {precision: FP16}", "bfloat16"},
      {"train: {precision: fp32}", "float32"},
      {"device: gpu", "cuda"},
      {"device: cuda:0", "cuda"},
      {"memory: {optimizer: cpu}", "offload"},
      {"memory: {optimizer: outer}", "offload"},
      {"memory: {weights: outer}", "offload"},
      {"pipeline: {schedule: 1F1B}", "1f1b"}};
  for (const auto& [lines, ours] : meant) EXPECT_EQ(meant_by(lines), ours) << lines;
  for (const auto& [key, ours] : std::vector<std::pair<std::string, std::string>>{
           {"num_layers", "blocks"}, {"n_embd", "width"}, {"seq_length", "context"}})
    EXPECT_THAT(input_error([&] {
                  read_job(io::parse("model: {kind: gpt, " + key + ": 8}", "a.yaml"), {});
                }),
                testing::HasSubstr("(did you mean 'model." + ours + "'?)"));
  // A vit has no vocabulary.
  EXPECT_THAT(
      input_error([&] { read_job(io::parse("model: {kind: vit, vocab_size: 8}", "a.yaml"), {}); }),
      testing::HasSubstr("model.vocab_size is not a key here (known: kind,"));
}

TEST(Job, RefusesABrokenPipeline) {
  expect_refusals(
      {{"pipeline: {stages: 0}", "pipeline.stages is 0, must be a whole number from 1 to 65536"},
       {"pipeline: {stages: Auto}",
        "pipeline.stages is Auto, must be a whole number from 1 to 65536"},
       {"pipeline: {schedule: 1b1f}",
        "pipeline.schedule is 1b1f, must be one of auto, 1f1b, gpipe, zb-h1, interleaved, "
        "looped-bfs, zb-v, v-half, v-min, dualpipe-v"},
       {"pipeline: {cut: 5}", "pipeline.cut is 5, must be a list"},
       {"pipeline: {timeout: 0}", "pipeline.timeout is 0, must be from 1.00 ms to 1e+09 s"},
       {"pipeline: {timeout: soon}",
        "pipeline.timeout is soon, must be a time such as 1.5ms or 60 (seconds)"},
       {"pipeline: {transport: tcp}",
        "pipeline.transport is tcp, must be one of auto, local, mpi, "
        "nccl"},
       {"pipeline: {transport: nccl}",
        "pipeline.transport is nccl, which moves memory of GPUs, but device is cpu: must be auto, "
        "local or mpi"}});
}

TEST(Job, RefusesBrokenMemory) {
  const std::string size = ", must be a size such as 2GiB, 4096 or 80%";
  expect_refusals(
      {{"memory: {device_budget: 2Gb}",
        "memory.device_budget is 2Gb" + size + " (did you mean '2GiB'?)"},
       {"memory: {device_budget: -1}", "memory.device_budget is -1" + size},
       {"memory: {device_budget: 0%}", "memory.device_budget is 0%" + size},
       {"memory: {device_budget: 101%}", "memory.device_budget is 101%" + size},
       {"memory: {device_budget: 0x10%}", "memory.device_budget is 0x10%" + size},
       {"memory: {device_budget: nan%}", "memory.device_budget is nan%" + size},
       {"memory: {device_budget: {a: 1}}", "memory.device_budget is a map" + size},
       {"memory: {device_budget: }", "memory.device_budget is empty" + size},
       {"memory: {device_budget: [1, auto]}", "memory.device_budget[1] is auto" + size},
       {"memory: {device_budget: []}",
        "memory.device_budget is an empty list, must be auto, a size or a size per rank"},
       {"memory: {host_budget: auto}", "memory.host_budget is auto" + size},
       {"memory: {host_budget: [1, 2]}", "memory.host_budget is a list" + size},
       {"memory: {disk_path: []}", "memory.disk_path is a list, must be text"}});
}

TEST(Job, RefusesABrokenRest) {
  expect_refusals(
      {{"plan: {slots: 9}", "plan.slots is 9, must be a whole number from 10 to 20000"},
       {"plan: {objective: joules}", "plan.objective is joules, must be one of time, energy"},
       {"energy: {busy_w: -1}", "energy.busy_w is -1, must be a number from 0 to 1e+06"},
       {"energy: {idle_w: much}", "energy.idle_w is much, must be a number from 0 to 1e+06"},
       {"energy: {clocks: [{name: slow, time: 0.5, power: 0.5}]}",
        "energy.clocks[0].time is 0.5, must be a number from 1 to 1000"},
       {"energy: {clocks: [{name: a, time: 1, power: 1}, {name: a, time: 2, power: 1}]}",
        "energy.clocks[1] is a second clock 'a', must have another name"},
       {"energy: {watts: 5}",
        "energy.watts is not a key here (known: busy_w, idle_w, copy_out_w, copy_in_w, clocks, "
        "set_clocks)"},
       {"plan: {solver: [rotor]}", "plan.solver is a list, must be text"},
       {"checkpoint: {keep: 0}",
        "checkpoint.keep is 0, must be a whole number from 1 to 1000000000"},
       {"checkpoint: {resume: always}",
        "checkpoint.resume is always, must be one of auto, never, must (did you mean 'must'?)"},
       {"report: {log_every: 0}",
        "report.log_every is 0, must be a whole number from 1 to 1000000000"},
       {"report: {html: 1}", "report.html is 1, must be true or false"},
       {"report: {dir: x}",
        "report.dir is not a key here (known: directory, log_every, tensorboard, html)"}});
}

// Every key that takes a path.
TEST(Job, RefusesPathsThatAShellWouldHaveExpanded) {
  const std::string gpt = "model: {kind: gpt}\n", text = "data: {files: [x]}\n";
  const std::vector<std::pair<std::string, std::string>> jobs{
      {gpt + text + "report: {directory: PATH}", "report.directory"},
      {gpt + text + "plan: {file: PATH}", "plan.file"},
      {gpt + text + "memory: {disk_path: PATH}", "memory.disk_path"},
      {gpt + "data: {files: [x, PATH]}", "data.files"},
      {"model: {kind: torchscript, files: [PATH]}\n" + text, "model.files"},
      {"model: {weights: PATH}\n" + text, "model.weights"},
      {"model: {kind: gpt, weights: x, lora_rank: 2, adapters: PATH}\n" + text, "model.adapters"}};
  for (const auto& [job, key] : jobs)
    for (const char* const path : {"~/a", "$NO_SUCH/a", "${NO_SUCH}/a"}) {
      std::string with_path = job;
      with_path.replace(with_path.find("PATH"), 4, concat('"', path, '"'));
      EXPECT_THAT(input_error([&] { read_job(io::parse(with_path, "a.yaml"), {}); }),
                  testing::HasSubstr(concat(key, " is ", path, ", but ")));
    }
}

}  // namespace
}  // namespace trireme::config
