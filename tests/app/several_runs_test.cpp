// Several runs in one process: each begins as if it were the first.
// SPDX-License-Identifier: Apache-2.0
#include "support/command.h"

#include "trireme/app_runtime/in_process.h"
#include "trireme/core/error.h"
#include "trireme/io/node.h"
#include "trireme/prepare/does_not_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace trireme {
namespace {

/// A job of an mlp on generated data, with a folder of its own.
app::Training training(const TemporaryFolder& folder, const std::string& name) {
  const std::string job =
      "model: {kind: mlp, inputs: 8, widths: [16, 16], classes: 3}\n"
      "data: {kind: synthetic, examples: 64}\n"
      "train: {steps: 4, batch: 8, micro_batch: 4}\n"
      "threads: 1\n"
      "report: {log_every: 2, directory: " +
      (folder.path() / name).string() + "}\n";
  return {.job = {.file = "job", .text = job}};
}

std::string digests(const app::Trained& trained) {
  const io::Node summary =
      io::load(std::filesystem::path(trained.folder) / "summary.json", Bytes(1 << 20));
  return summary.find("parameters_digest")->text() + summary.find("losses_digest")->text();
}

TEST(RunsOfOneProcess, GiveTheSameDigests) {
  const TemporaryFolder folder;

  const std::string first = digests(app::train(training(folder, "first")));

  EXPECT_EQ(digests(app::train(training(folder, "second"))), first);
}

TEST(RunsOfOneProcess, TellOfEveryStepInOrder) {
  const TemporaryFolder folder;
  app::Training told = training(folder, "run");
  std::vector<std::int64_t> steps;
  told.on_step = [&](const record::StepMetrics& metrics) { steps.push_back(metrics.step); };

  app::train(told);

  EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3, 4));
}

TEST(RunsOfOneProcess, ThrowWhatEndsThem) {
  const TemporaryFolder folder;
  app::Training wrong = training(folder, "wrong");
  wrong.job.settings = {"train.batch=7"};
  EXPECT_THROW(app::train(wrong), InputError);

  app::Training small = training(folder, "small");
  small.job.settings = {"memory.device_budget=1KiB"};
  try {
    app::train(small);
    FAIL();
  } catch (const prepare::DoesNotFit& error) {
    EXPECT_GT(error.infeasible().least_budget, Bytes(1024));
  }

  app::Training ended = training(folder, "ended");
  ended.on_step = [](const record::StepMetrics&) { throw std::domain_error("the caller's own"); };
  EXPECT_THROW(app::train(ended), std::domain_error);
}

volatile std::sig_atomic_t seen = 0;

TEST(RunsOfOneProcess, AreStoppedAloneAndGiveTheCallersHandlersBack) {
  const TemporaryFolder folder;
  const std::string undisturbed = digests(app::train(training(folder, "undisturbed")));
  struct sigaction mine {
  }, before{};
  mine.sa_handler = [](int) { seen = seen + 1; };
  sigaction(SIGINT, &mine, &before);
  app::Training stopped = training(folder, "stopped");
  stopped.on_step = [](const record::StepMetrics& metrics) {
    if (metrics.step == 2) std::raise(SIGINT);
  };

  EXPECT_THROW(app::train(stopped), Interrupted);

  EXPECT_EQ(seen, 0);
  std::raise(SIGINT);
  EXPECT_EQ(seen, 1);
  sigaction(SIGINT, &before, nullptr);
  EXPECT_EQ(digests(app::train(training(folder, "after"))), undisturbed);
}

class NoExamples final : public data::OwnExamples {
 public:
  std::int64_t size() const override { return 0; }
  data::Example example(std::int64_t) const override { return {}; }
  std::string name() const override { return "NoExamples"; }
};

TEST(OwnData, AreRefusedWhereTheJobReadsOthers) {
  const TemporaryFolder folder;
  app::Training other = training(folder, "run");
  other.job.examples = [] { return std::make_unique<NoExamples>(); };
  EXPECT_THAT([&] { app::train(other); },
              testing::ThrowsMessage<InputError>(
                  testing::HasSubstr("job: data.kind is synthetic, but the program hands")));
}

TEST(OwnData, AreRefusedWhereThereAreNone) {
  const TemporaryFolder folder;
  app::Training none = training(folder, "run");
  none.job.kinds["mine"] = [](const io::Node&) {
    return model::make_model(config::MlpSpec{.inputs = 8, .widths = {16}, .classes = 3});
  };
  none.job.text = "model: {kind: mine}\ndata: {kind: own}\n";
  EXPECT_THAT([&] { app::train(none); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("job: data.kind is own")));
}

}  // namespace
}  // namespace trireme
