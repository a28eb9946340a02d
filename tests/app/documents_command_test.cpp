// Training on documents with a loss mask, end to end.
// SPDX-License-Identifier: Apache-2.0
#include "budgets.h"
#include "support/document_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <random>
#include <utility>

namespace trireme {
namespace {

using nlohmann::json;
using support::learned;
using testing::HasSubstr;

/// A prompt that names a token and how often it comes in the answer, from once to 24 times.
std::string counting_documents() {
  std::mt19937 random(1);
  std::vector<std::vector<std::uint32_t>> all;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const auto count = static_cast<std::uint32_t>(1 + random() % 24);
    const auto token = static_cast<std::uint32_t>(30 + random() % 30);
    all.push_back({count, token});
    for (std::uint32_t j = 0; j < count; ++j) all.back().push_back(learned(token));
    all.back().push_back(learned(0));
  }
  return support::document_file(all);
}

class Documents : public testing::Test {
 protected:
  json train(const std::string& settings) {
    const CommandResult run = run_command(kTrireme + " train " + job_ + " " + settings);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return summary_of(folder_);
  }

  TemporaryFolder folder_;
  std::string job_ = folder_.file(
      "small.yaml",
      "model: {kind: llama, blocks: 2, width: 32, heads: 2, context: 32, vocabulary: 64}\n"
      "data: {kind: documents, files: [" +
          folder_.file("counting.documents", counting_documents()) +
          "], validation_fraction: 0.2}\n"
          "train: {steps: 4, batch: 8, micro_batch: 2, schedule: {warmup_steps: 1},\n"
          "  optimizer: {kind: sgd, learning_rate: 0.5, weight_decay: 0}}\n"
          "threads: 1\n"
          "report: {directory: " +
          small_run(folder_).string() + "}\n");
};

/// The mean loss is over all targets. Averaging the means of micro-batches would weigh short
/// answers more if few share a micro-batch: the first digits of the losses would be wrong.
TEST_F(Documents, HaveTheSameLossesHoweverAStepIsCut) {
  const json whole = train("--set train.micro_batch=8 --set train.validation_batches=1");
  for (const std::string settings :
       {"train.micro_batch=1 --set train.validation_batches=8",
        "train.validation_batches=4 --set pipeline.stages=3",
        "train.micro_batch=1 --set train.validation_batches=4 --set pipeline.replicas=2",
        "train.validation_batches=4 --set model.loss_chunks=5"}) {
    SCOPED_TRACE(settings);
    const json cut = train("--set " + settings);
    EXPECT_NEAR(cut["train_loss"], whole["train_loss"], 1e-5);
    EXPECT_NEAR(cut["validation_loss"], whole["validation_loss"], 1e-5);
  }
}

TEST_F(Documents, HaveTheLossWhenPackedThatTheyHaveInRowsOfTheirOwn) {
  // All of the validation part, by a model that nothing changes.
  const std::string all =
      " --set train.steps=1 --set train.optimizer.learning_rate=0 --set train.micro_batch=1 "
      "--set train.validation_batches=100 --set data.validation_fraction=0.5 --set data.";
  const auto loss = [&](const std::string& data) -> double {
    return train(all + data)["validation_loss"];
  };
  const double unpacked = loss("packed=false");
  EXPECT_NEAR(loss("packed=true"), unpacked, 1e-6);
  EXPECT_NEAR(loss("isolated=true"), unpacked, 1e-6);
  EXPECT_GT(std::abs(loss("packed=true --set data.isolated=false") - unpacked), 1e-5);
}

TEST_F(Documents, HaveTheSameBitsForEveryPlanAndPeaksAsPredicted) {
  for (const std::string data : {"packed=false", "packed=true"}) {
    SCOPED_TRACE(data);
    const std::string job = " --set data." + data;
    const json free = train(job);
    const std::int64_t least = least_budget(job_, job);
    // Predictions count buffers of all channels in full; with several chunks (auto) that is more
    // than 2 % of models as small as these.
    for (const std::string& settings :
         {budget(least),
          budget(2 * least) + " --set pipeline.stages=2 --set pipeline.schedule=1f1b",
          budget(least - least / 8) + " --set memory.host_budget=64MiB"}) {
      SCOPED_TRACE(settings);
      const json planned = train(job + settings);
      EXPECT_EQ(planned["parameters_digest"], free["parameters_digest"]);
      EXPECT_EQ(planned["losses_digest"], free["losses_digest"]);
      for (const json& rank : planned["ranks"]) {
        const double peak = rank["peak_bytes"], predicted = rank["predicted_peak_bytes"];
        EXPECT_LE(peak, predicted);
        EXPECT_NEAR(peak, predicted, 0.02 * peak);
      }
    }
  }
}

TEST(DocumentsOfBytes, AreWrittenByTheExampleLearnedAndGoneOnWith) {
  const TemporaryFolder folder;
  std::string table, lines;
  for (int i = 0; i < 20; ++i) {
    table += "one:\tyes\n";
    lines += R"({"prompt": "two:", "completion": "no"})"
             "\n\n";
  }
  const std::string file = (folder.path() / "answers.documents").string();
  const CommandResult written =
      run_command("python3 " TRIREME_SOURCE_DIR "/examples/tokens.py documents bytes " + file +
                  " " + folder.file("a.tsv", table) + " " + folder.file("b.jsonl", lines));
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_THAT(written.out, HasSubstr("40 documents of 300 tokens, 140 learned, in " + file));
  const std::string job =
      folder.file("bytes.yaml",
                  "model: {kind: gpt, blocks: 1, width: 16, heads: 2, context: 12}\n"
                  "data: {kind: documents, packed: true, validation_fraction: 0, files: [" +
                      file +
                      "]}\n"
                      "train: {steps: 150, batch: 8, optimizer: {learning_rate: 0.02}}\n"
                      "checkpoint: {every: 150}\n"
                      "report: {directory: " +
                      (folder.path() / "run").string() + "}\n");
  const CommandResult trained = run_command(kTrireme + " train " + job);
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  for (const auto& [prompt, answer] : {std::pair{"one:", "yes"}, {"two:", "no"}}) {
    const CommandResult said =
        run_command(kTrireme + " generate " + (folder.path() / "run").string() + " --prompt " +
                    prompt + " --temperature 0 --until 0 --tokens 6");
    EXPECT_EQ(said.exit_code, 0) << said.errors;
    EXPECT_EQ(said.out, std::string(prompt) + answer + "\n");
  }
}

TEST(DocumentsOfBytes, AreNotWrittenOverWhatIsRead) {
  const TemporaryFolder folder;
  const std::string lines = folder.file("a.jsonl", "{\"text\": \"a\"}\n");
  const std::string tokens = "python3 " TRIREME_SOURCE_DIR "/examples/tokens.py documents bytes ";
  for (const std::string& forgotten : {tokens + lines, tokens + lines + " " + lines}) {
    EXPECT_EQ(run_command(forgotten).exit_code, 2);
    EXPECT_EQ(text_of(lines), "{\"text\": \"a\"}\n");
  }
}

TEST(DocumentsOfBytes, ThatAreNoJsonAreRefusedWithTheirLine) {
  const TemporaryFolder folder;
  const std::string lines = folder.file("a.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"a\"}\n");
  const std::string output = (folder.path() / "out").string();
  const CommandResult refused = run_command(
      "python3 " TRIREME_SOURCE_DIR "/examples/tokens.py documents bytes " + output + " " + lines);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("a.jsonl:2: has neither"));
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Documents, AreRefusedByAModelThatKnowsNoMask) {
  const CommandResult run = run_command(kTrireme + " check " + job_ +
                                        " --set 'model={kind: torchscript, files: [layer.pt]}'");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("data.kind is documents, must be text or tokens or synthetic "
                                    "for model.kind torchscript"));
}

}  // namespace
}  // namespace trireme
