// Overlapped optimizer step: layers updated among the passes of a step have the bits of updates at
// its end.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"
#include "support/temporary_folder.h"

#include "trireme/checkpoint/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace trireme::runtime {
namespace {

using program::UpdatePlace;
using support::TemporaryFolder;

config::JobSpec job_of(double clip_norm, const std::string& precision = "bfloat16_weights") {
  config::GptSpec spec = small_gpt();
  spec.blocks = 4;
  config::JobSpec job = small_job(spec);
  job.train.precision = precision;
  job.train.clip_norm = clip_norm;
  job.train.steps = 4;
  return job;
}

/// Number of overlapped updates in the recorded step, which is not the first one.
std::ptrdiff_t updates_in(const FinishedRun& run) {
  const std::vector<simulate::Event>& events = run.recorded.step.events;
  return std::count_if(events.begin(), events.end(), [](const simulate::Event& event) {
    return event.action.op == program::Op::kUpdate;
  });
}

void expect_same(const RunSummary& run, const RunSummary& reference) {
  EXPECT_EQ(run.parameters_digest, reference.parameters_digest);
  EXPECT_EQ(run.losses_digest, reference.losses_digest);
}

/// A split with streamed weights, overlapped updates and offloaded state, all or some of it.
Split split_of(UpdatePlace place, Bytes offloaded = Bytes(1 << 30)) {
  Split split;
  split.offloaded = offloaded;
  split.streams = true;
  split.updates = place;
  return split;
}

class Updates : public testing::TestWithParam<UpdatePlace> {
 protected:
  /// Gradients are clipped where they may be: to half of their initial norm.
  static double clip_norm() { return GetParam() == UpdatePlace::kInForward ? 0.5 : 0; }
};

TEST_P(Updates, AmongPassesGiveTheBitsOfThoseAtTheEnd) {
  for (const char* const precision : {"float32", "bfloat16_weights"}) {
    const config::JobSpec job = job_of(clip_norm(), precision);
    const RunSummary reference = run_small(job, {});
    EXPECT_EQ(updates_in(run_recorded(job, split_of(UpdatePlace::kAtEnd))), 0);
    for (const Bytes offloaded : {Bytes(0), Bytes(100'000), Bytes(1 << 30)}) {
      Split split = split_of(GetParam(), offloaded);
      const FinishedRun run = run_recorded(job, split);
      expect_same(run.summary, reference);
      // All ten layers have weights that are not tied; two of them wait for the end.
      EXPECT_EQ(updates_in(run), GetParam() == UpdatePlace::kInForward ? 8 : 10);
      split.recompute = true;
      expect_same(run_small(job, split), reference);
      split.to_file = offloaded > Bytes(0);
      expect_same(run_small(job, split), reference);
    }
  }
}

// In parts, among the micro-batches of a group, with several parts of the state there.
TEST_P(Updates, InPartsGiveTheSameBits) {
  const config::JobSpec job = job_of(clip_norm());
  const RunSummary reference = run_small(job, {});
  for (const int group : {1, 2, 3, 4}) {
    for (const int at_once : {3, 4}) {
      for (const int parts_at_once : {3, 6, 7}) {
        Split split = split_of(GetParam());
        split.recompute = group == 4;
        split.at_once = at_once;
        split.group = group;
        split.parts_at_once = parts_at_once;
        const FinishedRun run = run_recorded(job, split);
        expect_same(run.summary, reference);
        if (group % 2 == 0) {  // the last group of 3 is one micro-batch
          EXPECT_GT(updates_in(run), 10);
        }
      }
    }
  }
}

TEST_P(Updates, OfSeveralStagesGiveTheSameBits) {
  const config::JobSpec job = job_of(clip_norm());
  const RunSummary reference = run_small(job, {});
  for (const std::vector<int>& cut : {std::vector<int>{5}, {3, 7}}) {
    Split split = split_of(GetParam());
    split.cut = cut;
    expect_same(run_small(job, split), reference);
    split.schedule = "gpipe";
    expect_same(run_small(job, split), reference);
  }
}

TEST_P(Updates, OfAnyOptimizerGiveTheSameBits) {
  for (const double momentum : {0.0, 0.9}) {
    config::JobSpec job = job_of(clip_norm(), "float32");
    job.train.optimizer.kind = "sgd";
    job.train.optimizer.momentum = momentum;
    expect_same(run_small(job, split_of(GetParam())), run_small(job, {}));
  }
}

// Updates are complete where weights or state are read: in a validation, in a checkpoint, in what a
// run resumes from.
TEST_P(Updates, AreCompleteWhereverSomebodyLooks) {
  config::JobSpec job = job_of(clip_norm());
  job.train.validate_every = 1;
  job.train.steps = 5;
  const TemporaryFolder held, among;
  const auto every_two = [](const TemporaryFolder& folder) {
    return Checkpointing{
        .folder = folder.path(), .every = 2, .keep = 9, .job = "train: {}\n", .data = ""};
  };
  const RunSummary reference = run_small(job, {}, {}, device::cpu(), every_two(held));
  const RunSummary run = run_small(job, split_of(GetParam()), {}, device::cpu(), every_two(among));
  expect_same(run, reference);
  EXPECT_EQ(run.validation_loss, reference.validation_loss);
  for (const char* const step : {"step-2", "step-4", "step-5"}) {
    const checkpoint::Manifest of_held = checkpoint::load_manifest(held / step),
                               of_among = checkpoint::load_manifest(among / step);
    ASSERT_EQ(of_held.tensors.size(), of_among.tensors.size());
    for (const auto& [name, entry] : of_held.tensors)
      EXPECT_EQ(of_among.tensors.at(name).digest, entry.digest) << name;
  }
  for (const Split& after : {Split{}, split_of(UpdatePlace::kAtEnd), split_of(GetParam())}) {
    Checkpointing resumed;
    resumed.resume = among / "step-2";
    expect_same(run_small(job, after, {}, device::cpu(), resumed), reference);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, Updates,
                         testing::Values(UpdatePlace::kInBackward, UpdatePlace::kInForward),
                         [](const auto& test) { return std::string(name(test.param)); });

// Gradients are summed over replicas at the end, and each replica, or the owner of a shard, updates
// later.
TEST(UpdatesOfReplicas, BeforeForwardsGiveTheBitsOfThoseAtTheEnd) {
  const config::JobSpec job = job_of(0.5);
  const RunSummary reference = run_small(job, {.replicas = 2});
  for (const bool shards : {false, true}) {
    for (const std::vector<int>& cut : {std::vector<int>{}, {5}}) {
      Split split = split_of(UpdatePlace::kInForward);
      split.cut = cut;
      split.replicas = 2;
      split.shards = shards;
      expect_same(run_small(job, split), reference);
      split.at_once = 3;
      split.group = 2;
      expect_same(run_small(job, split), reference);
    }
  }
}

// Clipping changes something, or the tests above would not see whether the norm is of the right
// step.
TEST(UpdatesTest, ClipsInEveryStep) {
  EXPECT_NE(run_small(job_of(0.5), {}).parameters_digest,
            run_small(job_of(0), {}).parameters_digest);
}

}  // namespace
}  // namespace trireme::runtime
