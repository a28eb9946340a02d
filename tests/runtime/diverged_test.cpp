// Runs whose loss or state becomes NaN or infinite.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/scripts.h"
#include "runtime/small_runs.h"
#include "saved/step_history.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme::runtime {
namespace {

using support::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Bytes kAll{std::int64_t{1} << 40};

/// The message of the error that ends a run; empty: success. It is not an InputError.
std::string end_of(const config::JobSpec& job, const Split& split,
                   const Checkpointing& checkpoints = {}) {
  try {
    run_small(job, split, {}, device::cpu(), checkpoints);
  } catch (const InputError& error) {
    return concat("an InputError: ", error.what());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A job with far too large a learning rate.
config::JobSpec diverging(config::JobSpec job, double rate) {
  job.train.optimizer = {.kind = "sgd", .learning_rate = rate};
  job.train.schedule.warmup_steps = 0;
  job.train.clip_norm = 0;
  return job;
}

Checkpointing every(int steps, const TemporaryFolder& folder) {
  Checkpointing checkpoints;
  checkpoints.folder = folder.path();
  checkpoints.every = steps;
  checkpoints.keep = 1;
  checkpoints.job = "train: {}\n";
  return checkpoints;
}

std::set<std::string> names_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename().string());
  return names;
}

TEST(ARunThatDiverges, EndsBeforeACheckpointOfItIsWritten) {
  for (const int stages : {1, 2}) {
    for (const bool in_background : {false, true}) {
      SCOPED_TRACE(testing::Message() << stages << " stages, in the background: " << in_background);
      const TemporaryFolder folder;
      config::JobSpec job = diverging(small_job(small_gpt()), 1e30);
      job.train.steps = 20;
      Checkpointing checkpoints = every(4, folder);
      checkpoints.in_background = in_background;
      const Split split{.cut = stages == 1 ? std::vector<int>{} : std::vector<int>{3}};
      EXPECT_THAT(end_of(job, split, checkpoints),
                  HasSubstr("is not finite: the run has diverged"));
      EXPECT_FALSE(std::filesystem::exists(folder / "step-4"));
    }
  }
}

// The loss of a step belongs to the weights before its update: the validation is the first to see
// what the checkpoint would hold.
TEST(ARunThatDiverges, EndsBeforeACheckpointThatItsValidationTellsIsWorthless) {
  for (const int stages : {1, 2}) {
    SCOPED_TRACE(testing::Message() << stages << " stages");
    const TemporaryFolder folder;
    config::JobSpec job = diverging(small_job(small_gpt()), 1e30);
    job.train.steps = 1;
    job.train.validate_every = 1;
    const Split split{.cut = stages == 1 ? std::vector<int>{} : std::vector<int>{3}};
    EXPECT_THAT(end_of(job, split, every(1, folder)),
                HasSubstr("the validation loss after step 1 is not finite"));
    EXPECT_FALSE(std::filesystem::exists(folder / "step-1"));
  }
}

TEST(ARunThatDiverges, IsKnownByItsGradientBeforeItsLoss) {
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  record::StepMetrics fine, spoilt, lost;
  fine.step = 1;
  fine.gradient_norm = 3;
  spoilt.step = 2;
  spoilt.gradient_norm = no_number;
  lost.step = 3;
  lost.loss = no_number;
  EXPECT_EQ(first_lost({fine, fine}), std::nullopt);
  EXPECT_EQ(first_lost({fine, spoilt, lost}), "the gradient of step 2");
  EXPECT_EQ(first_lost({fine, lost, spoilt}), "the loss of step 3");
}

/// Divergence that no loss shows: an update so large that it leaves NaN or infinity, without
/// validation after it. Wherever parameters, masters and moments are.
struct Case {
  std::string name;
  config::ModelSpec model = small_gpt();
  std::string precision = "float32", optimizer = "sgd";
  Split split = {};
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

class Unseen : public testing::TestWithParam<Case> {
 protected:
  static config::JobSpec job(int steps) {
    config::JobSpec job = small_job(GetParam().model);
    job.train.precision = GetParam().precision;
    job.train.steps = steps;
    job.train.schedule.kind = "constant";
    job.train.validation_batches = 0;
    job.train.clip_norm = 0;
    job.train.optimizer.kind = GetParam().optimizer;
    return job;
  }
  static config::JobSpec spoilt(int steps) {
    config::JobSpec spoilt = job(steps);
    spoilt.train.optimizer.learning_rate = 1e300;
    return spoilt;
  }
};

TEST_P(Unseen, NoNumberEndsTheRunWithoutCheckpoints) {
  const std::string end = end_of(spoilt(1), GetParam().split);
  EXPECT_THAT(end, testing::StartsWith("a value of parameters/"));
  EXPECT_THAT(end, HasSubstr(" after step 1 ("));
  EXPECT_THAT(end, HasSubstr("is not finite: the run has diverged"));
}

// And the good checkpoint stays, and can be resumed from.
TEST_P(Unseen, NoNumberReachesACheckpoint) {
  const Split& split = GetParam().split;
  const TemporaryFolder folder;
  run_small(job(1), split, {}, device::cpu(), every(1, folder));
  for (const bool in_background : {false, true}) {
    for (const int steps : {2, 4}) {  // the last one is never written in the background
      SCOPED_TRACE(testing::Message() << steps << " steps, in the background: " << in_background);
      Checkpointing checkpoints = every(1, folder);
      checkpoints.in_background = in_background;
      checkpoints.resume = folder / "step-1";
      const std::string end = end_of(spoilt(steps), split, checkpoints);
      EXPECT_THAT(end, HasSubstr(" after step 2 ("));
      EXPECT_THAT(end, HasSubstr("is not finite: the run has diverged"));
      EXPECT_THAT(names_in(folder), ElementsAre("step-1"));
    }
  }
  Checkpointing checkpoints;
  checkpoints.resume = folder / "step-1";
  const RunSummary resumed = run_small(job(2), split, {}, device::cpu(), checkpoints);
  EXPECT_EQ(resumed.parameters_digest, run_small(job(2), split).parameters_digest);
}

INSTANTIATE_TEST_SUITE_P(
    Of, Unseen,
    testing::Values(
        Case{.name = "one_stage"}, Case{.name = "adamw", .optimizer = "adamw"},
        Case{.name = "stages", .split = {.cut = {2, 4}}},
        Case{.name = "bfloat16_weights", .precision = "bfloat16_weights", .split = {.cut = {3}}},
        Case{.name = "adapters", .model = with_adapters(), .split = {.cut = {3}}},
        Case{.name = "replicas", .split = {.cut = {3}, .replicas = 2}},
        Case{.name = "replicas_with_batch_norm",
             .model = small_mlp(),
             .split = {.cut = {2}, .replicas = 2}},
        Case{.name = "divided_state",
             .precision = "bfloat16_weights",
             .optimizer = "adamw",
             .split = {.replicas = 2, .shards = true}},
        Case{.name = "state_in_host_memory", .split = {.cut = {3}, .offloaded = kAll}},
        Case{.name = "state_on_disk",
             .precision = "bfloat16_weights",
             .optimizer = "adamw",
             .split = {.offloaded = kAll, .to_file = true}},
        Case{.name = "streamed_weights", .split = {.cut = {3}, .streams = true}},
        Case{.name = "streamed_weights_updated_before_forwards",
             .optimizer = "adamw",
             .split = {.offloaded = kAll,
                       .streams = true,
                       .updates = program::UpdatePlace::kInForward}}),
    [](const auto& each) { return each.param.name; });

/// A job of layers from Python of which layer 2 is `code`, with these buffers.
config::JobSpec scripted(const TemporaryFolder& folder, const std::string& code,
                         const std::vector<std::pair<std::string, at::Tensor>>& buffers) {
  config::JobSpec job = small_job(save_scripts(folder.path()));
  save_script({.code = code, .parameters = {{"weight", at::eye(32)}}, .buffers = buffers},
              folder / "layer2.pt");
  return job;
}

const std::string kLayer =
    "def forward(self, x, before):\n"
    "    h = torch.linear(x, self.weight)\n";

// No loss in training depends on statistics.
TEST(ABufferThatIsNoNumber, EndsTheRun) {
  for (const std::string value : {"float('nan')", "float('-inf')"}) {
    const TemporaryFolder folder, out;
    const config::JobSpec job =
        scripted(folder, concat(kLayer, "    self.mean.fill_(", value, ")\n    return h, before\n"),
                 {{"mean", at::zeros({32})}});
    for (const Split& split : {Split{}, Split{.cut = {2}}, Split{.replicas = 2}}) {
      for (const Checkpointing& checkpoints : {Checkpointing{}, every(1, out)}) {
        const std::string end = end_of(job, split, checkpoints);
        EXPECT_THAT(end, HasSubstr("a value of buffers/layer2/mean after step "));
        EXPECT_THAT(end, HasSubstr("is not finite: the run has diverged"));
        EXPECT_FALSE(std::filesystem::exists(out / "step-1"));
      }
    }
  }
}

// Like an attention mask: built so, and changed by no step.
TEST(ABufferThatIsBuiltWithInfinities, IsSavedTakenUpAndExported) {
  const TemporaryFolder folder, out;
  const at::Tensor mask =
      at::full({32, 32}, -std::numeric_limits<float>::infinity()).triu(1).contiguous();
  config::JobSpec job = scripted(
      folder, concat(kLayer, "    return h + torch.softmax(self.mask, -1).mean(0), before\n"),
      {{"mask", mask}});
  job.train.steps = 4;
  const RunSummary whole = run_small(job, {.cut = {2}}, {}, device::cpu(), every(2, out));
  job.train.steps = 2;
  run_small(job, {}, {}, device::cpu(), every(2, out));
  job.train.steps = 4;
  Checkpointing checkpoints;
  checkpoints.resume = out / "step-2";
  EXPECT_EQ(run_small(job, {}, {}, device::cpu(), checkpoints).parameters_digest,
            whole.parameters_digest);

  job.weights = (out / "w.safetensors").string();
  export_weights(out / "step-2", job.model, at::kFloat, job.weights);
  EXPECT_EQ(end_of(job, {}), "");
}

TEST(ABufferThatIsBuiltWithInfinities, MustKeepThem) {
  const TemporaryFolder folder, out;
  const config::JobSpec job =
      scripted(folder, concat(kLayer, "    self.mean.abs_().neg_()\n    return h, before\n"),
               {{"mean", at::full({32}, std::numeric_limits<float>::infinity())}});
  EXPECT_THAT(end_of(job, {}, every(1, out)),
              HasSubstr("a value of buffers/layer2/mean after step 1 (-inf at index 0)"));
}

// A gradient whose square overflows float32: its parameter is left unchanged.
TEST(AMomentThatIsNoNumber, EndsTheRunWhereItIsSaved) {
  const TemporaryFolder folder, out;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  job.train.clip_norm = 0;
  save_script({.code = "def forward(self, x, before, target):\n"
                       "    return torch.cross_entropy_loss(torch.linear(x + before, self.weight), "
                       "target) * 1e25\n",
               .parameters = {{"weight", at::ones({10, 32})}}},
              folder / "layer4.pt");
  EXPECT_EQ(end_of(job, {}), "");
  EXPECT_THAT(end_of(job, {.cut = {2}}, every(1, out)), HasSubstr("a value of second_moments/"));
  EXPECT_TRUE(names_in(out).empty());
}

}  // namespace
}  // namespace trireme::runtime
