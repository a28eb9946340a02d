// SPDX-License-Identifier: Apache-2.0
#include "config/read.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/config/job_notes.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <variant>

namespace trireme::config {
namespace {

using support::input_error;
using testing::ElementsAre;

TEST(ReadJob, NeedsOnlyAModelAndFiles) {
  const JobSpec job = read(kLeast);

  EXPECT_EQ(job.name, "a");
  EXPECT_EQ(std::get<GptSpec>(job.model).blocks, 6);
  EXPECT_EQ(job.data.kind, "text");
  EXPECT_EQ(job.train.steps, 300);
  EXPECT_EQ(job.device, "cpu");
  EXPECT_EQ(job.threads, std::nullopt);
  EXPECT_EQ(job.pipeline.stages, std::nullopt);
  EXPECT_TRUE(job.memory.device_budget.empty());
  EXPECT_EQ(job.plan.solver, "auto");
  EXPECT_EQ(job.report.directory, "runs/a");
}

TEST(ReadJob, LeavesOpenWhatIsAuto) {
  const JobSpec fixed = read(kLeast);
  const JobSpec open =
      read(kLeast + "train: {micro_batch: auto}\npipeline: {stages: auto, replicas: auto}\n");

  EXPECT_EQ(fixed.train.micro_batch, 4);
  EXPECT_EQ(fixed.pipeline.replicas, 1);
  EXPECT_FALSE(has_open_shape(fixed));
  EXPECT_EQ(open.train.micro_batch, std::nullopt);
  EXPECT_EQ(open.pipeline.replicas, std::nullopt);
  EXPECT_TRUE(has_open_shape(open));
  EXPECT_TRUE(has_open_shape(read(kLeast + "pipeline: {replicas: auto}\n")));
  EXPECT_TRUE(has_open_shape(read(kLeast + "train: {micro_batch: auto}\n")));
}

TEST(ReadJob, NotesWhatIsPerhapsNotMeant) {
  const auto notes = [](const std::string& more) { return job_notes(read(kLeast + more)); };
  EXPECT_THAT(notes(""), ElementsAre());
  EXPECT_THAT(
      notes("train: {steps: 20, schedule: {warmup_steps: 20}}\nmemory: {host_budget: 10GiB}\n"),
      ElementsAre());
  EXPECT_THAT(notes("train: {steps: 5, schedule: {warmup_steps: 20}}\n"),
              ElementsAre("train.schedule.warmup_steps is 20, but train.steps is 5: the learning "
                          "rate rises to the end, to 25 % of train.optimizer.learning_rate"));
  EXPECT_THAT(
      notes("memory: {device_budget: 10, disk_budget: 600}\n"),
      ElementsAre("memory.device_budget is 10, which is 10 bytes (did you mean '10GiB'?)",
                  "memory.disk_budget is 600, which is 600 bytes (did you mean '600MiB'?)"));
}

TEST(ReadJob, ReadsEnergyAsPlatformsDo) {
  const EnergySpec energy =
      read(kLeast +
           "energy: {busy_w: 700, idle_w: 100, copy_out_w: 10, copy_in_w: 11, clocks: [{name: "
           "1590MHz, time: 1.25, power: 0.6}]}\n")
          .energy;
  const chain::Platform platform = chain::read_platform(
      io::parse("format: trireme-platform/1\nranks: [{memory_bytes: 1, busy_w: 700, idle_w: 100, "
                "copy_out_w: 10, copy_in_w: 11, clocks: [{name: 1590MHz, time: 1.25, power: "
                "0.6}]}]\n",
                "p.yaml"));
  EXPECT_EQ(energy.power, platform.ranks.front().power);
  EXPECT_EQ(energy.clocks, platform.ranks.front().clocks);
  EXPECT_EQ(read(kLeast).energy.power, chain::Power{});
}

const std::string kFull = R"(
name: full
model: {kind: gpt, blocks: 2, width: 12, heads: 3, context: 7, vocabulary: 300, dropout: 0.25, tied_head: false, grain: fine}
data: {kind: tokens, files: [a.bin, "b*.bin"], validation_fraction: 0.125, token_bytes: 4}
train:
  steps: 11
  batch: 24
  micro_batch: 3
  seed: 9007199254740992
  precision: bfloat16
  deterministic: true
  clip_norm: 0.5
  validate_every: 5
  validation_batches: 2
  optimizer: {kind: adamw, learning_rate: 1e-3, weight_decay: 0.2, betas: [0.8, 0.99], epsilon: 1e-6}
  schedule: {kind: cosine, warmup_steps: 4, least_fraction: 0.2}
device: cuda
threads: 3
pipeline: {stages: 3, replicas: 2, schedule: gpipe, cut: [2, 4], timeout: 2min, transport: mpi}
memory: {device_budget: [1GiB, 50%, 3, 4, 5, 6], host_budget: 2MiB, disk_budget: 25%, disk_path: /tmp/x, optimizer: offload}
plan: {solver: rotor, slots: 100, file: p.json}
checkpoint: {every: 7, keep: 3, resume: must, background: true}
report: {directory: out, log_every: 2, tensorboard: false, html: false}
)";

TEST(ReadJob, ReadsModelAndData) {
  const JobSpec job = read(kFull);

  EXPECT_EQ(job.name, "full");
  const auto& gpt = std::get<GptSpec>(job.model);
  EXPECT_EQ(gpt.blocks, 2);
  EXPECT_EQ(gpt.width, 12);
  EXPECT_EQ(gpt.heads, 3);
  EXPECT_EQ(gpt.context, 7);
  EXPECT_EQ(gpt.vocabulary, 300);
  EXPECT_EQ(gpt.dropout, 0.25);
  EXPECT_FALSE(gpt.tied_head);
  EXPECT_EQ(gpt.grain, "fine");
  EXPECT_EQ(job.data.kind, "tokens");
  EXPECT_THAT(job.data.files, ElementsAre("a.bin", "b*.bin"));
  EXPECT_EQ(job.data.validation_fraction, 0.125);
  EXPECT_EQ(job.data.token_bytes, 4);
}

TEST(ReadJob, ReadsTraining) {
  const JobSpec job = read(kFull);

  EXPECT_EQ(job.train.steps, 11);
  EXPECT_EQ(job.train.batch, 24);
  EXPECT_EQ(job.train.micro_batch, 3);
  EXPECT_EQ(job.train.seed, 9007199254740992);
  EXPECT_EQ(job.train.precision, "bfloat16");
  EXPECT_TRUE(job.train.deterministic);
  EXPECT_EQ(job.train.clip_norm, 0.5);
  EXPECT_EQ(job.train.validate_every, 5);
  EXPECT_EQ(job.train.validation_batches, 2);
  EXPECT_EQ(job.train.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(job.train.optimizer.weight_decay, 0.2);
  EXPECT_EQ(job.train.optimizer.beta1, 0.8);
  EXPECT_EQ(job.train.optimizer.beta2, 0.99);
  EXPECT_EQ(job.train.optimizer.epsilon, 1e-6);
  EXPECT_EQ(job.train.schedule.warmup_steps, 4);
  EXPECT_EQ(job.train.schedule.least_fraction, 0.2);
}

TEST(ReadJob, ReadsPipelineAndMemory) {
  const JobSpec job = read(kFull);

  EXPECT_EQ(job.device, "cuda");
  EXPECT_EQ(job.threads, 3);
  EXPECT_EQ(job.pipeline.stages, 3);
  EXPECT_EQ(job.pipeline.replicas, 2);
  EXPECT_EQ(job.pipeline.schedule, "gpipe");
  EXPECT_THAT(*job.pipeline.cut, ElementsAre(2, 4));
  EXPECT_EQ(job.pipeline.timeout, Seconds(120));
  EXPECT_EQ(job.pipeline.transport, "mpi");
  EXPECT_EQ(job.memory.optimizer, "offload");
  ASSERT_EQ(job.memory.device_budget.size(), 6U);
  EXPECT_EQ(job.memory.device_budget[0].bytes, Bytes(1 << 30));
  EXPECT_EQ(job.memory.device_budget[1].share, 0.5);
  EXPECT_EQ(job.memory.host_budget.bytes, Bytes(2 << 20));
  EXPECT_EQ(job.memory.disk_budget.share, 0.25);
  EXPECT_EQ(job.memory.disk_path, "/tmp/x");
}

TEST(ReadJob, ReadsPlanCheckpointAndReport) {
  const JobSpec job = read(kFull);

  EXPECT_EQ(job.plan.solver, "rotor");
  EXPECT_EQ(job.plan.slots, 100);
  EXPECT_EQ(job.plan.file, "p.json");
  EXPECT_EQ(job.checkpoint.every, 7);
  EXPECT_EQ(job.checkpoint.keep, 3);
  EXPECT_EQ(job.checkpoint.resume, "must");
  EXPECT_TRUE(job.checkpoint.background);
  EXPECT_EQ(job.report.directory, "out");
  EXPECT_EQ(job.report.log_every, 2);
  EXPECT_FALSE(job.report.tensorboard);
  EXPECT_FALSE(job.report.html);
}

TEST(ReadJob, ReadsAnMlpJob) {
  const JobSpec job = read(
      "model: {kind: mlp, inputs: 8, widths: [16, 32], classes: 3, batch_norm: true, dropout: "
      "0.5}\n"
      "data: {examples: 100, validation_fraction: 0.25}\n"
      "train: {optimizer: {kind: sgd, momentum: 0.5}, schedule: {kind: constant}}\n");

  const auto& mlp = std::get<MlpSpec>(job.model);
  EXPECT_EQ(mlp.inputs, 8);
  EXPECT_THAT(mlp.widths, ElementsAre(16, 32));
  EXPECT_EQ(mlp.classes, 3);
  EXPECT_TRUE(mlp.batch_norm);
  EXPECT_EQ(mlp.dropout, 0.5);
  EXPECT_EQ(job.data.kind, "synthetic");
  EXPECT_EQ(job.data.examples, 100);
  EXPECT_EQ(job.data.validation_fraction, 0.25);
  EXPECT_EQ(job.train.optimizer.momentum, 0.5);
}

TEST(ReadJob, TakesAutoForEveryChoiceOfThePlanner) {
  const JobSpec job = read(kLeast +
                           "threads: auto\n"
                           "pipeline: {stages: auto, cut: auto, transport: auto}\n"
                           "memory: {device_budget: auto}\n"
                           "plan: {solver: auto}\n"
                           "checkpoint: {resume: auto}\n");

  EXPECT_EQ(job.threads, std::nullopt);
  EXPECT_EQ(job.pipeline.stages, std::nullopt);
  EXPECT_EQ(job.pipeline.cut, std::nullopt);
  EXPECT_TRUE(job.memory.device_budget.empty());
}

TEST(ReadJob, TakesEmptySectionsForDefaults) {
  EXPECT_EQ(read(kLeast + "train:\nreport: {}\n").train.batch, 32);
}

TEST(ReadJob, LeavesOwnModelsToTheirAuthor) {
  const JobSpec job =
      read("model: {kind: perceiver, depth: [1, {x: 2}]}\ndata: {kind: synthetic}\n",
           {.settings = {}, .own_models = {"perceiver"}});

  const auto& own = std::get<OwnModelSpec>(job.model);
  EXPECT_EQ(own.kind, "perceiver");
  EXPECT_EQ(own.node.find("depth")->list()[1].find("x")->integer(0, 9), 2);
}

TEST(ReadJob, AppliesSettingsInOrder) {
  const JobSpec job = read(kLeast, {.settings = {"train.steps=5", "model.blocks=1", "train.steps=6",
                                                 "data.files=[y.txt, z.txt]", "name=b"},
                                    .own_models = {}});

  EXPECT_EQ(job.train.steps, 6);
  EXPECT_EQ(std::get<GptSpec>(job.model).blocks, 1);
  EXPECT_THAT(job.data.files, ElementsAre("y.txt", "z.txt"));
  EXPECT_EQ(job.report.directory, "runs/b");
}

TEST(ReadJob, PointsToTheCommandLineForABadSetting) {
  const auto refusal = [](const std::string& setting) {
    return input_error([&] { read(kLeast, {.settings = {setting}, .own_models = {}}); });
  };

  EXPECT_EQ(refusal("train.stepz=5"),
            "--set train.stepz is not a key here (did you mean 'steps'?)");
  EXPECT_EQ(refusal("trian.steps=5"), "--set trian is not a key here (did you mean 'train'?)");
  EXPECT_EQ(refusal("train.batch=30"),
            "--set train.batch is 30, must be a multiple of micro_batch x replicas = 4");
  EXPECT_EQ(refusal("train.micro_batch=5"),
            "dir/a.yaml:1: train.batch is 32, must be a multiple of micro_batch x replicas = 5");
}

TEST(MicroBatches, AreCountedPerReplica) {
  EXPECT_EQ(
      micro_batches(read(kLeast + "train: {batch: 48, micro_batch: 4}\npipeline: {replicas: 3}\n")),
      4);
}

TEST(JobSpec, FailsAtTheLineOfTheKey) {
  const JobSpec job = read(kLeast + "pipeline:\n  replicas: 1\n");

  EXPECT_EQ(input_error([&] { job.fail("pipeline.replicas", "is too few"); }),
            "dir/a.yaml:4: pipeline.replicas is too few");
  EXPECT_EQ(input_error([&] { job.fail("pipeline.stages", "is too few"); }),
            "dir/a.yaml:3: pipeline.stages is too few");
  EXPECT_EQ(input_error([&] { job.fail("plan.solver", "is unknown"); }),
            "dir/a.yaml:1: plan.solver is unknown");
}

TEST(LlamaSpec, ChoosesHeadsAndHiddenWidth) {
  EXPECT_EQ(LlamaSpec{.heads = 8}.key_value_heads(), 8);
  EXPECT_EQ((LlamaSpec{.heads = 8, .kv_heads = 2}).key_value_heads(), 2);
  // 8/3 x 4096 = 10922.7; the next multiple of 32. Llama 7B rounds to 256: 11008.
  EXPECT_EQ(LlamaSpec{.width = 4096}.hidden_width(), 10944);
  EXPECT_EQ(LlamaSpec{.width = 384}.hidden_width(), 1024);
  EXPECT_EQ(LlamaSpec{.hidden = 11008}.hidden_width(), 11008);
}

TEST(ReadJob, MakesImagesUpUnlessTold) {
  for (const std::string kind : {"vit", "resnet", "vgg"})
    EXPECT_EQ(read("model: {kind: " + kind + "}\n").data.kind, "synthetic");
  const JobSpec job =
      read("model: {kind: resnet}\ndata: {kind: images, files: [a/*.png, b/*.jpg]}\n");
  EXPECT_EQ(job.data.kind, "images");
  EXPECT_THAT(job.data.files, ElementsAre("a/*.png", "b/*.jpg"));
}

TEST(LoadJob, TakesItsNameFromTheFile) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "my-job.v2.yaml", kLeast);

  const JobSpec job = load_job(folder / "my-job.v2.yaml", {});

  EXPECT_EQ(job.name, "my-job.v2");
  EXPECT_EQ(job.report.directory, "runs/my-job.v2");
}

TEST(LoadJob, ReadsEveryJobThatComesWithTrireme) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml" || !entry.is_regular_file()) continue;
    EXPECT_NO_THROW(load_job(entry.path(), {})) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace trireme::config
