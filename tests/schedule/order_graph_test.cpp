// SPDX-License-Identifier: Apache-2.0
#include "order_graph.h"

#include "list_schedule.h"
#include "rules.h"
#include "schedule/workloads.h"
#include "support/trials.h"

#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace trireme::schedule {
namespace {

/// Whether an order may be run.
bool may_run(const Workload& workload, const Order& order) {
  const auto times = timed(workload, order);
  return times && fits(workload, *times);
}

/// Whether passes of a chunk's phase are in the order of micro-batches, each behind its phase
/// before.
bool is_sound(const Instance& instance, const std::vector<int>& list) {
  std::vector<int> seen(static_cast<std::size_t>(instance.length() * kPhases));
  for (const int pass : list) {
    const auto group = static_cast<std::size_t>(pass / instance.micro_batches);
    if (seen[group] != instance.micro_batch_of(pass)) return false;
    ++seen[group];
    if (group % kPhases != 0 && seen[group] > seen[group - 1]) return false;
  }
  return true;
}

struct Tally {
  int changed = 0, refused = 0;
};

void change_often(const Workload& workload, Drawn& drawn, Tally& tally) {
  const Instance instance(workload);
  ListScheduler scheduler(instance);
  const Lists start = usual_rules(instance, scheduler).back().made.lists;
  const Ticks target = instance.ticks(bound(workload));
  OrderGraph graph(instance, start, target);
  for (int i = 0; i < 60; ++i) {
    const Lists before = graph.lists();
    const int rank = drawn.from(0, instance.ranks - 1);
    const auto& list = before[static_cast<std::size_t>(rank)];
    const int first = drawn.from(0, static_cast<int>(list.size()) - 2);
    const int last = std::min(static_cast<int>(list.size()) - 1, first + drawn.from(1, 6));
    std::vector<int> passes(list.begin() + first, list.begin() + last + 1);
    std::rotate(passes.begin(), passes.begin() + drawn.from(1, last - first), passes.end());
    Lists expected = before;
    auto& changed = expected[static_cast<std::size_t>(rank)];
    std::copy(passes.begin(), passes.end(), changed.begin() + first);
    const bool may = is_sound(instance, changed) && may_run(workload, to_order(instance, expected));
    ASSERT_EQ(graph.change(rank, first, passes), may);
    ++(may ? tally.changed : tally.refused);
    if (may && drawn.one_in(3)) {
      graph.take_back();
      expected = before;
    }
    if (!may) expected = before;
    ASSERT_EQ(graph.lists(), expected);
    const OrderGraph afresh(instance, expected, target);
    ASSERT_EQ(graph.makespan(), afresh.makespan());
    ASSERT_EQ(graph.excess(), afresh.excess());
    const Seconds step = timed(workload, to_order(instance, expected))->step;
    ASSERT_EQ(std::ldexp(static_cast<double>(graph.makespan()), -instance.exponent), step.count());
  }
}

TEST(OrderGraphs, KeepWaysUpToDateAndRefuseWhatCannotRun) {
  Tally tally;
  const int count = trials(200);
  for (int i = 0; i < count; ++i) {
    Drawn drawn(static_cast<unsigned>(i));
    const Size size{drawn.from(2, 4), drawn.from(1, 4), drawn.from(1, 5)};
    const Workload workload = drawn_workload(size, drawn);
    if (!std::isinf(bound(workload).count())) change_often(workload, drawn, tally);
  }
  EXPECT_GE(tally.changed, count * 5);
  EXPECT_GE(tally.refused, count * 5);
}

}  // namespace
}  // namespace trireme::schedule
