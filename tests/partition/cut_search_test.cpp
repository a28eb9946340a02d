// The cut search against all cuts, and the timeline against the simulator.
// SPDX-License-Identifier: Apache-2.0
#include "cut/cut_search.h"

#include "judge/judge.h"
#include "partition/instances.h"
#include "stage/sub_chains.h"

#include <gtest/gtest.h>

#include <functional>

namespace trireme::partition {
namespace {

void each_cut(int layers, int stages, const std::function<void(const Cut&)>& visit) {
  Cut cut;
  const std::function<void()> extend = [&] {
    const int first = cut.empty() ? 1 : cut.back() + 1;
    const int left = stages - static_cast<int>(cut.size());
    if (left == 1) {
      cut.push_back(layers);
      visit(cut);
      cut.pop_back();
      return;
    }
    for (int last = first; last <= layers - left + 1; ++last) {
      cut.push_back(last);
      extend();
      cut.pop_back();
    }
  };
  extend();
}

struct Times {
  Seconds period, sum;
};

Times times_of(CutSearch& search, const StageRoom& room, const Cut& cut) {
  Times times;
  int first = 1;
  for (int k = 0; k < room.stages(); ++k) {
    const int last = cut[static_cast<std::size_t>(k)];
    const Seconds taken = search.time(k, {first, last});
    times.period = std::max(times.period, taken);
    times.sum += taken;
    if (k + 1 < room.stages()) {
      times.period = std::max(times.period, room.transfer(k, last));
      times.sum += 2 * (room.transfer(k, last) + room.latency(k));
    }
    first = last + 1;
  }
  return times;
}

TEST(CutSearch, FindsTheLeastPeriodAndTheLeastSumWithinIt) {
  std::mt19937 random(41);
  int feasible = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const Question question =
        small_question(random, {.least_layers = 3, .most_layers = 9, .most_stages = 4});
    const StageRoom room(question);
    const auto policy = policy_named(question, "adapipe");
    CutSearch search(room, *policy);
    Seconds period = kNever;
    each_cut(room.layers(), room.stages(), [&](const Cut& cut) {
      period = std::min(period, times_of(search, room, cut).period);
    });

    const auto found = search.least_period();

    ASSERT_EQ(found.has_value(), period != kNever);
    if (!found) continue;
    ++feasible;
    EXPECT_DOUBLE_EQ(times_of(search, room, *found).period.count(), period.count());
    const Seconds limit = period * 1.2;
    Seconds sum = kNever;
    each_cut(room.layers(), room.stages(), [&](const Cut& cut) {
      const Times times = times_of(search, room, cut);
      if (times.period <= limit) sum = std::min(sum, times.sum);
    });
    const auto thrifty = search.least_sum(limit);
    ASSERT_TRUE(thrifty);
    EXPECT_DOUBLE_EQ(times_of(search, room, *thrifty).sum.count(), sum.count());
  }
  EXPECT_GE(feasible, 80);
}

TEST(Timeline, SaysWhatTheSimulatorSays) {
  std::mt19937 random(42);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    Question question =
        small_question(random, {.least_layers = 3, .most_layers = 9, .most_stages = 4});
    question.schedule = "1f1b";
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory = Bytes(0);
    const StageRoom room(question);
    const Cut cut = equal_cut(room.layers(), room.stages());
    std::vector<program::StageProgram> programs;
    std::vector<PassTimes> times;
    int first = 1;
    for (int k = 0; k < room.stages(); ++k) {
      const int last = cut[static_cast<std::size_t>(k)];
      const bool again = between(random, 0, 1) == 1;
      programs.push_back(again ? program::recompute_all(first, last)
                               : program::keep_all(first, last));
      const Seconds forward = room.forward(k, {first, last}), work = room.work(k, {first, last});
      const Seconds tape = question.chain.layer(last).forward / room.speed(k);
      times.push_back(
          {forward, work - forward + (again ? forward : Seconds(0)), again ? tape : Seconds(0)});
      first = last + 1;
    }

    Timeline timeline(room);
    const Seconds step = timeline.step(cut, times);

    for (const double share : {0.5, 0.9, 0.999})
      EXPECT_GT(timeline.step(cut, times, share * step), share * step);
    for (const double share : {1.0, 1.5}) EXPECT_EQ(timeline.step(cut, times, share * step), step);
    // Streams that hold two messages may block a sender; the timeline ignores that.
    const Simulated judged = partition::judged(question, "test", programs);
    EXPECT_LE(step, judged.plan.step * (1 + 1e-12));
    if (question.platform.default_link.rate == BytesPerSecond(0) &&
        question.platform.overrides.empty()) {
      EXPECT_NEAR(step.count(), judged.plan.step.count(), 1e-9 * step.count());
    }
  }
}

TEST(SubChains, KnowsEqualRunsFromUnlikeOnes) {
  chain::Chain chain = solve::without_loss(solve::homogeneous(9));
  chain.layers[4].tape = Bytes(9);  // layer 5
  chain.layers[6].parameters = Bytes(7);
  SubChains runs(chain);

  EXPECT_EQ(runs.earliest({1, 3}).first, 1);
  EXPECT_EQ(runs.earliest({2, 4}).first, 1);
  EXPECT_EQ(runs.earliest({3, 5}).first, 3);
  EXPECT_EQ(runs.earliest({6, 8}).first, 1);  // static bytes do not matter
  EXPECT_EQ(runs.earliest({7, 9}).first, 7);  // ends with the loss
}

}  // namespace
}  // namespace trireme::partition
