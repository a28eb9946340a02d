// The recorded step compared with what the step did.
// SPDX-License-Identifier: Apache-2.0
#include "small_runs.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::runtime {
namespace {

constexpr Bytes kAll{std::int64_t{1} << 40};

/// A job of one step, so that the recorded step is the median one.
config::JobSpec one_step() {
  config::JobSpec job = small_job(small_gpt());
  job.train.steps = 1;
  job.train.precision = "bfloat16_weights";
  return job;
}

/// Compute and waits add up to a rank's step, except for host time.
void expect_no_time_is_told_twice(const FinishedRun& run) {
  for (const simulate::RankResult& rank : run.recorded.step.ranks) {
    EXPECT_GT(rank.busy, Seconds(0));
    EXPECT_GE(rank.wait_for_ranks, Seconds(0));
    EXPECT_GE(rank.wait_for_copies, Seconds(0));
    EXPECT_LE(rank.busy + rank.wait_for_ranks + rank.wait_for_copies, rank.end);
    EXPECT_LE(rank.end, run.recorded.step.step);
  }
}

TEST(RecordedStep, TellsTheSameOfItsRanksAsTheFiguresOfTheMedianStep) {
  for (const bool streams : {false, true}) {
    const FinishedRun run = run_recorded(
        one_step(), {.cut = {3}, .offloaded = streams ? kAll : Bytes(0), .streams = streams});
    expect_no_time_is_told_twice(run);
    ASSERT_EQ(run.recorded.step.ranks.size(), 2U);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const simulate::RankResult& step = run.recorded.step.ranks[rank];
      const record::StepTimes& times = run.summary.ranks[rank].times;
      EXPECT_EQ(step.busy, times.busy());
      EXPECT_EQ(step.wait_for_ranks, times.wait);
      EXPECT_EQ(step.wait_for_copies, times.copy_wait);
      EXPECT_NEAR((step.copies_out + step.copies_in).count(), times.copy.count(), 1e-9);
    }
  }
}

TEST(RecordedStep, HasTheCopiesOfStateThatIsOffloaded) {
  const FinishedRun held = run_recorded(one_step(), {});
  EXPECT_EQ(held.recorded.step.ranks[0].state_moved, Bytes(0));
  EXPECT_EQ(held.recorded.step.ranks[0].copies_in, Seconds(0));

  for (const bool to_file : {false, true}) {
    const FinishedRun run = run_recorded(one_step(), {.offloaded = kAll, .to_file = to_file});
    const simulate::RankResult& rank = run.recorded.step.ranks[0];
    // Parts begin at aligned places.
    EXPECT_GE(rank.state_moved, run.summary.ranks[0].offloaded_optimizer);
    EXPECT_LT(rank.state_moved / run.summary.ranks[0].offloaded_optimizer, 1.2);
    EXPECT_EQ(rank.offloaded.all(), run.summary.ranks[0].offloaded_optimizer);
    EXPECT_EQ(rank.moved, Bytes(0));
    EXPECT_EQ(rank.weights_moved, Bytes(0));
    EXPECT_GT(rank.copies_out, Seconds(0));
    EXPECT_GT(rank.copies_in, Seconds(0));
    expect_no_time_is_told_twice(run);
  }
}

TEST(RecordedStep, HasStateOfUpdatesAmongPassesOnce) {
  for (const auto place : {program::UpdatePlace::kInBackward, program::UpdatePlace::kInForward}) {
    config::JobSpec job = one_step();
    job.train.steps = 2;  // updates before forwards are those of the step before
    job.train.clip_norm = 0;
    const FinishedRun run =
        run_recorded(job, {.offloaded = kAll, .streams = true, .updates = place});
    const simulate::RankResult& rank = run.recorded.step.ranks[0];
    EXPECT_GE(rank.state_moved, run.summary.ranks[0].offloaded_optimizer);
    EXPECT_LT(rank.state_moved / run.summary.ranks[0].offloaded_optimizer, 1.2);
    expect_no_time_is_told_twice(run);
  }
}

// For six layers with weights, two of which are on the device at a time.
TEST(RecordedStep, HasStreamedWeightsThatCame) {
  const FinishedRun run = run_recorded(one_step(), {.streams = true});
  const simulate::RankResult& rank = run.recorded.step.ranks[0];
  EXPECT_EQ(rank.state_moved, Bytes(0));
  EXPECT_GT(rank.weights_moved, run.summary.ranks[0].offloaded_weights);
  EXPECT_EQ(rank.offloaded.all(), run.summary.ranks[0].offloaded_weights);
  EXPECT_GT(rank.copies_out, Seconds(0));
}

}  // namespace
}  // namespace trireme::runtime
